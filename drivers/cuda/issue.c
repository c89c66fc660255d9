/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <stddef.h>

#include "base/trace.h"

/* Gives the entry a report of its own to write. */
static void take_report(struct kilni_cuda_queue *queue,
			struct kilni_entry *entry)
{
	uint64_t number = queue->reports_taken++;

	report_at(queue, number)->position = UINT64_MAX;
	entry->params.raw[0] = queue->reports_address +
			       number % KILNI_CUDA_REPORTS *
				       sizeof(struct kilni_cuda_report);
	kilni_cuda_set_notable(queue, entry);
}

static bool reports_are_full(const struct kilni_cuda_queue *queue)
{
	return queue->reports_taken -
		       __atomic_load_n(&queue->reports_free,
				       __ATOMIC_ACQUIRE) ==
	       KILNI_CUDA_REPORTS;
}

/* False: the scheduler refuses it. */
static bool may_issue(struct kilni_cuda_queue *queue,
		      struct kilni_entry *entry)
{
	KILNI_CUDA_NOTE(entry) = 0;
	entry->given_ns = kilni_trace_begin();
	if (!is_suspect(queue) ||
	    queue->client.check(queue->client.context, entry) == KILN_OK)
		return true;
	KILNI_CUDA_NOTE(entry) = KILNI_CUDA_REFUSED;
	return false;
}

/*
 * Where entries wait behind this one. On a stream of somebody else's each
 * launch goes by itself: it may be in a capture of his.
 */
static struct kilni_cuda_batch *batch_for(struct kilni_cuda_queue *queue,
					  struct kilni_entry *entry)
{
	uint64_t entries = queue->upto - queue->issued;

	if (!hw_of(queue)->batches || queue->wrapped)
		return NULL;
	/* The graphs of a batch outlive a kernel that can be unloaded. */
	if (entry->kernel == KILNI_KERNEL_CUSTOM) {
		kilni_cuda_batch_flush(queue->batch);
		return NULL;
	}
	if (!queue->batch && entries > 1)
		queue->batch = kilni_cuda_batch_create(queue);
	if (!queue->batch || !kilni_cuda_batch_takes(queue->batch, entries))
		return NULL;
	kilni_cuda_batch_begin(queue->batch, entry);
	return queue->batch;
}

static enum kiln_status launch(struct kilni_cuda_queue *queue,
			       struct kilni_entry *entry)
{
	const struct kilni_cuda_target to = {
		.hw = hw_of(queue),
		.stream = queue->stream,
		.batch = batch_for(queue, entry),
	};

	KILNI_TRY(KILNI_FAULT("launch"));
	KILNI_TRY(kilni_cuda_alive(to.hw));
	if (kilni_cuda_reports(entry))
		take_report(queue, entry);
	return kilni_cuda_launch(&to, entry);
}

static void issue_kernel(struct kilni_cuda_queue *queue,
			 struct kilni_entry *entry)
{
	entry->params.raw[0] = 0;
	if (may_issue(queue, entry))
		kilni_cuda_note_failure(queue, entry, launch(queue, entry));
}

static void issue_graph(struct kilni_cuda_queue *queue,
			struct kilni_entry *entry)
{
	struct kilni_cuda_graph *graph = entry->params.graph.graph;

	if (!may_issue(queue, entry) || !graph)
		return;
	if (kilni_cuda_graph_reports(graph))
		kilni_cuda_set_notable(queue, entry);
	kilni_cuda_note_failure(
		queue, entry,
		kilni_cuda_graph_launch(graph, queue->stream, entry));
}

/* False: held until target has marked seq. */
static bool issue_wait(struct kilni_cuda_queue *queue,
		       const struct kilni_entry *entry)
{
	struct kilni_cuda_queue *target =
		cuda_queue(entry->params.wait.wait_queue);
	uint64_t seq = entry->params.wait.wait_seq;
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark = NULL;
	int result = CU_OK;
	bool held;

	kilni_cuda_set_notable(queue, entry);
	pthread_mutex_lock(&hw->lock);
	held = target->marked < seq;
	if (held) {
		queue->state = KILNI_CUDA_HELD;
		queue->held_until = seq;
		queue->held_by = target;
		queue->next_held = target->held;
		target->held = queue;
	} else if (!kilni_cuda_is_lost(hw) && load_counter(target) < seq) {
		mark = kilni_cuda_use_mark(target, seq);
	}
	pthread_mutex_unlock(&hw->lock);
	if (mark)
		result = kilni_cuda_wait_for(hw, queue->stream, mark);
	if (result != CU_OK)
		kilni_cuda_lose(hw, result);
	return !held;
}

static void set_state(struct kilni_cuda_queue *queue,
		      enum kilni_cuda_state state)
{
	pthread_mutex_lock(&hw_of(queue)->lock);
	queue->state = state;
	pthread_mutex_unlock(&hw_of(queue)->lock);
}

static void gate_opened(struct kilni_gate_watch *watch)
{
	struct kilni_cuda_queue *queue =
		(void *)((char *)watch -
			 offsetof(struct kilni_cuda_queue, gate));

	set_state(queue, KILNI_CUDA_BUSY);
	kilni_cuda_queue_run(queue);
}

static bool issue_gate(struct kilni_cuda_queue *queue, const int *gate)
{
	set_state(queue, KILNI_CUDA_HELD);
	queue->gate.opened = gate_opened;
	if (kilni_gate_hold(&queue->gate, gate))
		return false;
	set_state(queue, KILNI_CUDA_BUSY);
	return true;
}

/* What the attendant would do, where he cannot be had. */
static void attend_here(struct kilni_cuda_queue *queue,
			const struct kilni_entry *entry)
{
	set_state(queue, KILNI_CUDA_BUSY);
	kilni_cuda_queue_settle(queue);
	if (entry->kind == KILNI_ENTRY_CALL)
		entry->params.call.call(entry->params.call.data,
					entry->params.call.user);
}

static bool leave_to_attendant(struct kilni_cuda_queue *queue,
			       const struct kilni_entry *entry)
{
	set_state(queue, KILNI_CUDA_HELD);
	if (kilni_cuda_attend(queue))
		return true;
	attend_here(queue, entry);
	return false;
}

/* Whether a kernel of the entry may find something, and has no place for it. */
static bool lacks_report(const struct kilni_cuda_queue *queue,
			 const struct kilni_entry *entry)
{
	const struct kilni_cuda_graph *graph;

	if (entry->kind == KILNI_ENTRY_KERNEL)
		return kilni_cuda_reports(entry) && reports_are_full(queue);
	graph = entry->params.graph.graph;
	return entry->kind == KILNI_ENTRY_GRAPH && graph &&
	       kilni_cuda_graph_is_full(graph);
}

/* Whether the queue will be held there: for the host, or another queue. */
static bool may_hold(const struct kilni_cuda_queue *queue,
		     const struct kilni_entry *entry)
{
	switch (entry->kind) {
	case KILNI_ENTRY_GATE:
	case KILNI_ENTRY_CALL:
		return true;
	case KILNI_ENTRY_WAIT:
		return load_marked(cuda_queue(entry->params.wait.wait_queue)) <
		       entry->params.wait.wait_seq;
	default:
		return lacks_report(queue, entry);
	}
}

/* Whether what has been issued is to be marked before the entry. */
static bool needs_mark(const struct kilni_cuda_queue *queue,
		       const struct kilni_entry *entry)
{
	uint64_t wanted = load_wanted(queue);

	if (queue->issued == queue->marked)
		return false;
	return may_hold(queue, entry) ||
	       queue->issued - queue->marked >= hw_of(queue)->mark_every ||
	       (wanted > queue->marked && wanted <= queue->issued);
}

/*
 * Whether it is to be marked where there is nothing more to issue. On a stream
 * of somebody else's a later mark could lie behind work of his.
 */
static bool needs_last_mark(const struct kilni_cuda_queue *queue)
{
	return queue->issued != queue->marked &&
	       (queue->wrapped || load_wanted(queue) > queue->marked || kilni_is_traced() ||
		kilni_cuda_is_lost(hw_of(queue)));
}

/* False: the queue is held and no longer this thread's. */
static bool issue(struct kilni_cuda_queue *queue, struct kilni_entry *entry)
{
	switch (entry->kind) {
	case KILNI_ENTRY_WAIT:
		return issue_wait(queue, entry);
	case KILNI_ENTRY_GATE:
		return issue_gate(queue, entry->params.gate.gate);
	case KILNI_ENTRY_CALL:
		return !leave_to_attendant(queue, entry);
	case KILNI_ENTRY_CLOCK:
		kilni_cuda_set_notable(queue, entry);
		kilni_cuda_issue_clock(queue, entry);
		return true;
	default:
		if (lacks_report(queue, entry))
			kilni_cuda_queue_retire(queue);
		if (lacks_report(queue, entry) &&
		    leave_to_attendant(queue, entry))
			return false;
		if (entry->kind == KILNI_ENTRY_GRAPH)
			issue_graph(queue, entry);
		else
			issue_kernel(queue, entry);
		return true;
	}
}

/* The entry that is next to issue. */
static struct kilni_entry *current(struct kilni_cuda_queue *queue)
{
	if (queue->slot == KILNI_CHUNK_ENTRIES) {
		queue->chunk = queue->chunk->next;
		queue->slot = 0;
	}
	return &queue->chunk->entry[queue->slot];
}

/* The device's lock is held. */
static void note_unmarked(struct kilni_cuda_queue *queue)
{
	if (queue->issued == queue->marked)
		return;
	/* The time counts from the oldest. */
	if (!__atomic_load_n(&queue->unmarked, __ATOMIC_RELAXED))
		__atomic_store_n(&queue->left_ns, kilni_now_ns(),
				 __ATOMIC_RELAXED);
	__atomic_store_n(&queue->unmarked, queue->issued, __ATOMIC_RELEASE);
}

/* Leaves the queue where it is empty; nothing of it is touched after that. */
static bool leave(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool empty;

	pthread_mutex_lock(&hw->lock);
	empty = queue->issued == queue->submitted && !needs_last_mark(queue);
	if (empty) {
		queue->state = KILNI_CUDA_IDLE;
		note_unmarked(queue);
		pthread_cond_broadcast(&hw->moved);
	}
	pthread_mutex_unlock(&hw->lock);
	return empty;
}

static uint64_t load_submitted(struct kilni_cuda_queue *queue)
{
	uint64_t submitted;

	pthread_mutex_lock(&hw_of(queue)->lock);
	submitted = queue->submitted;
	pthread_mutex_unlock(&hw_of(queue)->lock);
	return submitted;
}

/* Issues until the queue is empty or held; gives the queues to run next. */
static struct kilni_cuda_queue *run_one(struct kilni_cuda_queue *queue,
					struct kilni_cuda_queue *list)
{
	struct kilni_entry *entry;

	queue->upto = load_submitted(queue);
	for (;;) {
		if (queue->issued == queue->upto)
			queue->upto = load_submitted(queue);
		if (queue->issued == queue->upto) {
			kilni_cuda_batch_flush(queue->batch);
			if (needs_last_mark(queue))
				list = kilni_cuda_mark(queue, list);
			if (leave(queue))
				return list;
			continue;
		}
		entry = current(queue);
		if (entry->kind == KILNI_ENTRY_WAIT)
			kilni_cuda_want(
				cuda_queue(entry->params.wait.wait_queue),
				entry->params.wait.wait_seq);
		if (entry->kind != KILNI_ENTRY_KERNEL)
			kilni_cuda_batch_flush(queue->batch);
		if (needs_mark(queue, entry)) {
			kilni_cuda_batch_flush(queue->batch);
			list = kilni_cuda_mark(queue, list);
		}
		if (!issue(queue, entry))
			return list;
		queue->slot++;
		queue->issued++;
	}
}

void kilni_cuda_queue_run(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool entered = kilni_cuda_enter(hw) == KILN_OK;
	struct kilni_cuda_queue *list = queue;

	queue->next_run = NULL;
	while (list) {
		queue = list;
		list = run_one(queue, queue->next_run);
	}
	if (entered)
		kilni_cuda_leave();
}

