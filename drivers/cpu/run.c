/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <stddef.h>

#include "base/trace.h"
#include "drivers/cpu/fpenv.h"
#include "kernels/registry.h"

/* Costs, in nanoseconds of one core, from which it pays to ... */
#define COST_SHARE 8000        /* ... let helpers in that are awake */
#define COST_WAKE 40000        /* ... wake them */
#define COST_WAKE_BUSY 10000   /* ... wake them, when more is waiting */
#define BUSY_ENTRIES 4

/* Elements that a helper takes at a time. */
#define UNIT_LEAST 2048
#define UNIT_MOST 16384

/* ---- kernels ---- */

struct span {
	const struct kilni_cpu_kernels *kernels;
	const void *params;
	uint64_t count, unit;
};

/* The same for any team: pieces of a kernel's range are independent. */
static uint64_t unit_for(uint64_t count, const struct kilni_team *team)
{
	uint64_t unit = count / (4 * (uint64_t)team->width);

	unit = kilni_max_u64(unit, UNIT_LEAST);
	return kilni_align_up(kilni_min_u64(unit, UNIT_MOST), 64);
}

static void run_span(struct span *span, struct kilni_team *team,
		     void (*piece)(void *arg, uint64_t i))
{
	if (team->width == 1) {
		span->unit = span->count;
		piece(span, 0);
		return;
	}
	span->unit = unit_for(span->count, team);
	team->run(team, piece, span,
		  (span->count + span->unit - 1) / span->unit);
}

static void ew_piece(void *arg, uint64_t i)
{
	const struct span *s = arg;
	uint64_t begin = i * s->unit;

	s->kernels->ew(s->params, begin,
		       kilni_min_u64(begin + s->unit, s->count));
}

static void gather_piece(void *arg, uint64_t i)
{
	const struct span *s = arg;
	uint64_t begin = i * s->unit;

	s->kernels->gather(s->params, begin,
			   kilni_min_u64(begin + s->unit, s->count));
}

static void custom_piece(void *arg, uint64_t i)
{
	const struct span *s = arg;
	const struct kilni_custom_params *p = s->params;
	uint64_t begin = i * s->unit;

	kilni_program_of(p)->function(p->block, begin,
				      kilni_min_u64(begin + s->unit,
						    s->count));
}

static void run_custom(struct span *span, struct kilni_custom_params *p,
		       struct kilni_team *team)
{
	p->block[0] = p->report;
	span->params = p;
	span->count = p->elements;
	run_span(span, kilni_program_of(p)->whole ? &kilni_team_alone : team,
		 custom_piece);
}

void kilni_run_kernel(const struct kilni_cpu_kernels *kernels,
		      struct kilni_entry *entry, struct kilni_team *team)
{
	struct span span = { .kernels = kernels, .params = &entry->params };

	switch (entry->kernel) {
	case KILNI_KERNEL_EW:
		entry->params.ew.keep = 0;
		span.count = entry->params.ew.count;
		if (span.count)
			run_span(&span, team, ew_piece);
		break;
	case KILNI_KERNEL_GATHER:
		span.count = entry->params.gather.count;
		if (span.count)
			run_span(&span, team, gather_piece);
		break;
	case KILNI_KERNEL_SCATTER:
		kernels->scatter(&entry->params.scatter, team);
		break;
	case KILNI_KERNEL_REDUCE:
		kernels->reduce(&entry->params.reduce, team);
		break;
	case KILNI_KERNEL_CUSTOM:
		run_custom(&span, &entry->params.custom, team);
		break;
	default:
		kernels->matmul(&entry->params.matmul, team);
		break;
	}
}

/* ---- cost ---- */

static uint64_t ew_cost(const struct kilni_ew_params *ew)
{
	/* A row with an error bound is a function, not an operation. */
	uint64_t quarters = kilni_ops[ew->op].ulp > 0 ? 8 : 2;

	if (!ew->contiguous)
		quarters *= 2;
	return ew->count / 4 * quarters;
}

uint64_t kilni_run_cost(const struct kilni_entry *entry)
{
	uint64_t items;

	if (entry->kernel == KILNI_KERNEL_EW)
		return ew_cost(&entry->params.ew);
	items = kilni_entry_items(entry);
	switch (entry->kernel) {
	case KILNI_KERNEL_REDUCE:
		return items / 2;
	case KILNI_KERNEL_MATMUL:
		return items / 16;
	case KILNI_KERNEL_CUSTOM:
		/* Nobody knows; one for all elements may take any time. */
		return kilni_program_of(&entry->params.custom)->whole
			       ? UINT32_MAX
			       : items;
	default:
		return items;
	}
}

bool kilni_is_for_one(uint64_t cost)
{
	return cost < COST_SHARE;
}

struct kilni_team *kilni_choose_team(struct kilni_worker *worker, uint64_t cost,
				     uint64_t waiting)
{
	struct kilni_loop *loop = &worker->loop;

	if (kilni_is_for_one(cost) || worker->gang->width == 1)
		return &kilni_team_alone;
	loop->wake = cost >= COST_WAKE ||
		     (cost >= COST_WAKE_BUSY && waiting >= BUSY_ENTRIES);
	return &loop->team;
}

/* ---- entries ---- */

static struct kilni_entry *next_entry(struct kilni_chunk **chunk,
				      unsigned *slot)
{
	if (*slot == KILNI_CHUNK_ENTRIES) {
		*chunk = (*chunk)->next;
		*slot = 0;
	}
	return &(*chunk)->entry[(*slot)++];
}

/* Moves the queue past entries; chunks that it leaves are given back. */
static void advance(struct kilni_cpu_queue *queue, unsigned entries)
{
	while (entries--) {
		struct kilni_chunk *old = queue->chunk;

		(void)next_entry(&queue->chunk, &queue->slot);
		if (queue->chunk != old)
			queue->client.chunk_done(queue->client.context, old);
	}
}

static bool is_suspect(const struct kilni_queue_client *client)
{
	return __atomic_load_n(client->suspect, __ATOMIC_ACQUIRE) != 0;
}

/* Merges what follows the entry; 0 where it is to run by itself. */
static unsigned run_merged(struct kilni_cpu_queue *queue,
			   struct kilni_worker *worker, uint64_t waiting)
{
	struct kilni_chunk *chunk = queue->chunk;
	unsigned slot = queue->slot;
	struct kilni_merge merge = { .entries = 0 };
	uint64_t cost = 0, most = kilni_min_u64(waiting, KILNI_MERGE_MOST);

	if (__atomic_load_n(&kilni_fault_armed, __ATOMIC_RELAXED) ||
	    is_suspect(&queue->client))
		return 0;
	while (merge.entries < most) {
		struct kilni_entry *entry = next_entry(&chunk, &slot);

		if (!kilni_merge_add(&merge, entry))
			break;
		cost += ew_cost(&entry->params.ew);
	}
	if (merge.entries < 2)
		return 0;
	kilni_merge_run(&merge, worker->gang->kernels,
			kilni_choose_team(worker, cost, waiting));
	return merge.entries;
}

/* False: it did not run. */
static bool run_one(struct kilni_cpu_queue *queue, struct kilni_entry *entry,
		    struct kilni_worker *worker, uint64_t waiting)
{
	struct kilni_queue_client *client = &queue->client;
	struct kilni_report report = { .position = UINT64_MAX };
	enum kiln_status status;

	if (is_suspect(client) && client->check(client->context, entry))
		return false;
	status = KILNI_FAULT("launch");
	if (status != KILN_OK) {
		client->failed(client->context, entry, status, NULL);
		return false;
	}
	entry->params.raw[0] = (uintptr_t)&report;
	kilni_run_kernel(worker->gang->kernels, entry,
			 kilni_choose_team(worker, kilni_run_cost(entry), waiting));
	if (report.position != UINT64_MAX)
		client->failed(client->context, entry, KILN_ERR_INDEX,
			       &report);
	return true;
}

/* A graph fails as a whole, for its first entry that fails. */
static void run_graph(struct kilni_cpu_queue *queue, struct kilni_entry *entry,
		      struct kilni_worker *worker)
{
	struct kilni_queue_client *client = &queue->client;
	struct kilni_report report;
	uint64_t begin_ns = kilni_trace_begin();
	struct kilni_entry *bad = entry;
	enum kiln_status status;

	if (is_suspect(client) && client->check(client->context, entry))
		return;
	status = kilni_cpu_graph_run(entry, worker->gang->kernels, worker,
				     &report, &bad);
	if (KILNI_UNLIKELY(begin_ns) && entry->params.graph.graph)
		kilni_trace_launch(&queue->base, entry,
				   KILNI_TRACE_DEVICE_CLOCK, begin_ns,
				   kilni_now_ns());
	if (status == KILN_OK)
		return;
	bad->seq = entry->seq;
	client->failed(client->context, bad, status,
		       status == KILN_ERR_INDEX ? &report : NULL);
}

static void run_call(const struct kilni_entry *entry)
{
	entry->params.call.call(entry->params.call.data,
				entry->params.call.user);
	(void)kilni_fp_enter();
}

static void gate_opened(struct kilni_gate_watch *watch)
{
	struct kilni_cpu_queue *queue =
		(void *)((char *)watch -
			 offsetof(struct kilni_cpu_queue, gate));

	kilni_gang_ready(queue, KILNI_QUEUE_HELD);
}

static bool hold_at_gate(struct kilni_cpu_queue *queue, const int *gate)
{
	__atomic_store_n(&queue->state, KILNI_QUEUE_HELD, __ATOMIC_SEQ_CST);
	queue->gate.opened = gate_opened;
	if (kilni_gate_hold(&queue->gate, gate))
		return true;
	__atomic_store_n(&queue->state, KILNI_QUEUE_LED, __ATOMIC_SEQ_CST);
	return false;
}

/*
 * Runs one entry; false: the queue is held and no longer the worker's. A kernel
 * may have been refused or skipped: did_run tells.
 */
static bool run_entry(struct kilni_cpu_queue *queue, struct kilni_entry *entry,
		      struct kilni_worker *worker, uint64_t waiting,
		      bool *did_run)
{
	switch (entry->kind) {
	case KILNI_ENTRY_WAIT:
		return !kilni_queue_hold(
			queue,
			(void *)entry->params.wait.wait_queue,
			entry->params.wait.wait_seq);
	case KILNI_ENTRY_GATE:
		return !hold_at_gate(queue, entry->params.gate.gate);
	case KILNI_ENTRY_CALL:
		run_call(entry);
		return true;
	case KILNI_ENTRY_CLOCK:
		kilni_stamp_now(entry->params.clock.stamp);
		return true;
	case KILNI_ENTRY_GRAPH:
		run_graph(queue, entry, worker);
		return true;
	default:
		*did_run = run_one(queue, entry, worker, waiting);
		return true;
	}
}

/* The kernels among the queue's next entries, which have just run. */
static void trace_entries(const struct kilni_cpu_queue *queue, unsigned entries,
			  uint64_t begin_ns)
{
	struct kilni_chunk *chunk = queue->chunk;
	unsigned slot = queue->slot, flags = KILNI_TRACE_DEVICE_CLOCK;
	uint64_t end_ns = kilni_now_ns();

	if (entries > 1)
		flags |= KILNI_TRACE_MERGED;
	while (entries--) {
		const struct kilni_entry *entry = next_entry(&chunk, &slot);

		if (entry->kind == KILNI_ENTRY_KERNEL)
			kilni_trace_launch(&queue->base, entry, flags, begin_ns,
					   end_ns);
	}
}

unsigned kilni_run_next(struct kilni_cpu_queue *queue,
			struct kilni_worker *worker, uint64_t upto)
{
	struct kilni_chunk *chunk = queue->chunk;
	unsigned slot = queue->slot, ran = 0;
	struct kilni_entry *entry = next_entry(&chunk, &slot);
	uint64_t waiting = upto - queue->done, begin_ns = kilni_trace_begin();
	bool did_run = true;

	if (entry->kind == KILNI_ENTRY_KERNEL &&
	    entry->kernel == KILNI_KERNEL_EW && waiting > 1)
		ran = run_merged(queue, worker, waiting);
	if (!ran) {
		if (!run_entry(queue, entry, worker, waiting, &did_run))
			return 0;
		ran = 1;
	}
	if (KILNI_UNLIKELY(begin_ns) && did_run)
		trace_entries(queue, ran, begin_ns);
	advance(queue, ran);
	return ran;
}
