/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/null/null.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/trace.h"

/*
 * Entries complete in order, on the thread that submits them or lets them go
 * on. Client functions and calls are made without the lock, so that they may
 * submit in turn; a queue that is busy is left to the thread that has it.
 */
enum state {
	IDLE, /* all that was submitted has completed */
	BUSY, /* a thread runs its entries */
	HELD  /* waits for another queue or for a gate */
};

struct null_queue {
	struct kilni_queue base;
	struct kilni_queue_client client;
	enum state state;
	uint64_t submitted, completed;

	/* Where the thread is that has it. */
	struct kilni_chunk *chunk;
	unsigned slot;
	struct null_queue *next_run;

	struct null_queue *held, *next_held; /* by this one; with this one */
	uint64_t held_until;
	struct kilni_gate_watch gate;
};

static struct null_queue *null_queue(struct kilni_queue *queue)
{
	return (struct null_queue *)(void *)queue;
}

static struct kilni_null_hw *hw_of(const struct null_queue *queue)
{
	return (struct kilni_null_hw *)(void *)queue->base.hw;
}

static uint64_t queue_completed(const struct kilni_queue *queue)
{
	return __atomic_load_n(
		&((const struct null_queue *)(const void *)queue)->completed,
		__ATOMIC_ACQUIRE);
}

/* ---- entries ---- */

/* It takes no time. */
static void trace_kernel(const struct kilni_queue *queue,
			 const struct kilni_entry *entry, unsigned flags)
{
	uint64_t now = kilni_trace_begin();

	if (KILNI_UNLIKELY(now))
		kilni_trace_launch(queue, entry,
				   KILNI_TRACE_DEVICE_CLOCK | flags, now, now);
}

static void run_kernel(struct null_queue *queue,
		       const struct kilni_entry *entry)
{
	enum kiln_status status = KILNI_FAULT("launch");

	if (status != KILN_OK)
		queue->client.failed(queue->client.context, entry, status,
				     NULL);
	else
		trace_kernel(&queue->base, entry, 0);
}

struct null_graph {
	struct kilni_entry *const *entry;
	unsigned entries;
};

static void run_graph(struct null_queue *queue, const struct kilni_entry *run)
{
	const struct null_graph *graph = run->params.graph.graph;

	for (unsigned i = 0; graph && i < graph->entries; i++) {
		enum kiln_status status = KILNI_FAULT("launch");

		if (status == KILN_OK)
			continue;
		graph->entry[i]->seq = run->seq;
		queue->client.failed(queue->client.context, graph->entry[i],
				     status, NULL);
		return;
	}
	if (graph)
		trace_kernel(&queue->base, run, 0);
}

static bool is_refused(struct null_queue *queue,
		       const struct kilni_entry *entry)
{
	const struct kilni_queue_client *client = &queue->client;

	return __atomic_load_n(client->suspect, __ATOMIC_ACQUIRE) &&
	       client->check(client->context, entry) != KILN_OK;
}

/* False: target has completed seq already. */
static bool hold(struct null_queue *queue, struct null_queue *target,
		 uint64_t seq)
{
	bool held;

	pthread_mutex_lock(&hw_of(target)->lock);
	held = target->completed < seq;
	if (held) {
		queue->state = HELD;
		queue->held_until = seq;
		queue->next_held = target->held;
		target->held = queue;
	}
	pthread_mutex_unlock(&hw_of(target)->lock);
	return held;
}

static void set_state(struct null_queue *queue, enum state state)
{
	pthread_mutex_lock(&hw_of(queue)->lock);
	queue->state = state;
	pthread_mutex_unlock(&hw_of(queue)->lock);
}

static void run(struct null_queue *queue);

static void gate_opened(struct kilni_gate_watch *watch)
{
	struct null_queue *queue =
		(void *)((char *)watch - offsetof(struct null_queue, gate));

	set_state(queue, BUSY);
	run(queue);
}

static bool hold_at_gate(struct null_queue *queue, const int *gate)
{
	set_state(queue, HELD);
	queue->gate.opened = gate_opened;
	if (kilni_gate_hold(&queue->gate, gate))
		return true;
	set_state(queue, BUSY);
	return false;
}

/* False: the queue is held and no longer this thread's. */
static bool run_entry(struct null_queue *queue,
		      const struct kilni_entry *entry)
{
	switch (entry->kind) {
	case KILNI_ENTRY_WAIT:
		return !hold(queue, null_queue(entry->params.wait.wait_queue),
			     entry->params.wait.wait_seq);
	case KILNI_ENTRY_GATE:
		return !hold_at_gate(queue, entry->params.gate.gate);
	case KILNI_ENTRY_CALL:
		entry->params.call.call(entry->params.call.data,
					entry->params.call.user);
		return true;
	case KILNI_ENTRY_CLOCK:
		kilni_stamp_now(entry->params.clock.stamp);
		return true;
	case KILNI_ENTRY_GRAPH:
		if (!is_refused(queue, entry))
			run_graph(queue, entry);
		return true;
	default:
		if (!is_refused(queue, entry))
			run_kernel(queue, entry);
		return true;
	}
}

/* ---- running queues ---- */

/* The next entry's chunk; gives back the one before. */
static struct kilni_entry *current(struct null_queue *queue)
{
	struct kilni_chunk *old = queue->chunk;

	if (queue->slot == KILNI_CHUNK_ENTRIES) {
		queue->chunk = old->next;
		queue->slot = 0;
		queue->client.chunk_done(queue->client.context, old);
	}
	return &queue->chunk->entry[queue->slot];
}

/* Completes an entry; the queues that may go on are put before list. */
static struct null_queue *complete(struct null_queue *queue,
				   struct null_queue *list)
{
	struct null_queue **at = &queue->held;

	queue->slot++;
	pthread_mutex_lock(&hw_of(queue)->lock);
	__atomic_store_n(&queue->completed, queue->completed + 1,
			 __ATOMIC_RELEASE);
	while (*at) {
		struct null_queue *other = *at;

		if (other->held_until > queue->completed) {
			at = &other->next_held;
			continue;
		}
		*at = other->next_held;
		other->state = BUSY;
		other->next_run = list;
		list = other;
	}
	pthread_cond_broadcast(&hw_of(queue)->moved);
	pthread_mutex_unlock(&hw_of(queue)->lock);
	return list;
}

/* Leaves the queue where it is empty; nothing of it is touched after that. */
static bool leave(struct null_queue *queue)
{
	struct kilni_null_hw *hw = hw_of(queue);
	bool empty;

	pthread_mutex_lock(&hw->lock);
	empty = queue->completed == queue->submitted;
	if (empty) {
		queue->state = IDLE;
		pthread_cond_broadcast(&hw->moved);
	}
	pthread_mutex_unlock(&hw->lock);
	return empty;
}

/* Runs a busy queue, and those that it lets go on. */
static void run(struct null_queue *queue)
{
	struct null_queue *list = queue;

	queue->next_run = NULL;
	while (list) {
		queue = list;
		list = queue->next_run;
		while (!leave(queue) && run_entry(queue, current(queue)))
			list = complete(queue, list);
	}
}

/* ---- the table ---- */

static enum kiln_status queue_create(struct kilni_hw *hw,
				     const struct kilni_queue_client *client,
				     struct kilni_chunk *first,
				     struct kilni_queue **out)
{
	struct null_queue *queue;

	KILNI_TRY(KILNI_FAULT("queue_create"));
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "null: no memory for a queue");
	queue->base.hw = hw;
	queue->client = *client;
	queue->chunk = first;
	*out = &queue->base;
	return KILN_OK;
}

/* The thread that ran the last entry may not have left yet. */
static void queue_destroy(struct kilni_queue *base)
{
	struct null_queue *queue = null_queue(base);
	struct kilni_null_hw *hw = hw_of(queue);

	pthread_mutex_lock(&hw->lock);
	while (queue->state != IDLE)
		pthread_cond_wait(&hw->moved, &hw->lock);
	pthread_mutex_unlock(&hw->lock);
	free(queue);
}

static enum kiln_status queue_submit(struct kilni_queue *base, uint64_t upto)
{
	struct null_queue *queue = null_queue(base);
	bool mine;

	KILNI_TRY(KILNI_FAULT("submit"));
	pthread_mutex_lock(&hw_of(queue)->lock);
	queue->submitted = upto;
	mine = queue->state == IDLE;
	if (mine)
		queue->state = BUSY;
	pthread_mutex_unlock(&hw_of(queue)->lock);
	if (mine)
		run(queue);
	return KILN_OK;
}

static enum kiln_status queue_wait(struct kilni_queue *base, uint64_t seq)
{
	struct null_queue *queue = null_queue(base);
	struct kilni_null_hw *hw = hw_of(queue);

	pthread_mutex_lock(&hw->lock);
	while (queue->completed < seq)
		pthread_cond_wait(&hw->moved, &hw->lock);
	pthread_mutex_unlock(&hw->lock);
	return KILN_OK;
}

static enum kiln_status queue_run_inline(struct kilni_queue *queue,
					 struct kilni_entry *entry,
					 struct kilni_report *report)
{
	if (entry->kind == KILNI_ENTRY_CLOCK) {
		kilni_stamp_now(entry->params.clock.stamp);
		return KILN_OK;
	}
	if (entry->kind != KILNI_ENTRY_KERNEL)
		return KILN_ERR_UNSUPPORTED;
	KILNI_TRY(KILNI_FAULT("launch"));
	report->position = UINT64_MAX;
	trace_kernel(queue, entry, KILNI_TRACE_INLINE);
	return KILN_OK;
}

static enum kiln_status graph_create(struct kilni_hw *hw,
				     struct kilni_entry *const *entry,
				     unsigned count, void **out)
{
	struct null_graph *graph;

	(void)hw;
	KILNI_TRY(KILNI_FAULT("graph_create"));
	graph = malloc(sizeof(*graph));
	if (!graph)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "null: no memory for a graph");
	graph->entry = entry;
	graph->entries = count;
	*out = graph;
	return KILN_OK;
}

static void graph_destroy(struct kilni_hw *hw, void *graph)
{
	(void)hw;
	free(graph);
}

const struct kilni_queue_ops kilni_null_queue_ops = {
	.wrap = kilni_queue_stub_wrap,
	.canonical = kilni_queue_stub_canonical,
	.create = queue_create,
	.destroy = queue_destroy,
	.submit = queue_submit,
	.completed = queue_completed,
	.wait = queue_wait,
	.run_inline = queue_run_inline,
	.graph_create = graph_create,
	.graph_destroy = graph_destroy,
};
