/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/trace.h"

/*
 * Entries go through two walks over the same chunks. The first one puts them
 * on the stream (issue). Behind every few of them comes a mark: the stream
 * writes their number into pinned memory and an event is recorded. The second
 * walk (retire) follows what the device has done, tells the scheduler what
 * failed and gives chunks back. Any thread that asks for the state of the
 * queue may retire; callbacks are called without a lock, and one that comes
 * back here finds the queue retiring and takes it as it is.
 *
 * A WAIT becomes an event wait of the stream where the other queue has marked
 * what is waited for, else it holds the queue, as a GATE does. A CALL is the
 * attendant's.
 *
 * A failure found by a kernel is known when it retires; what read its result
 * and is on the device already is marked then, since the scheduler is asked
 * about every kernel again that retires after it.
 *
 * On a lost device everything is walked to the end without a call to the
 * library: kernels fail, calls are made.
 */

/* Entries from one mark to the next, at most. */
#define MARK_EVERY 32
#define FIRST_MARKS 8

/* The driver's notes in an entry: nothing, refused, or -status. */
#define NOTE(entry) ((entry)->reserved)
#define NOTE_REFUSED 255

static struct kilni_cuda_queue *cuda_queue(const struct kilni_queue *queue)
{
	return (struct kilni_cuda_queue *)(uintptr_t)queue;
}

static struct kilni_cuda_hw *hw_of(const struct kilni_cuda_queue *queue)
{
	return kilni_cuda_hw(queue->base.hw);
}

static bool is_suspect(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(queue->client.suspect, __ATOMIC_ACQUIRE) != 0;
}

/* ---- marks ---- */

static uint64_t load_counter(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(queue->counter, __ATOMIC_ACQUIRE);
}

/* Takes marks that the device has passed; the device's lock is held. */
static void reap_marks(struct kilni_cuda_queue *queue)
{
	uint64_t done = load_counter(queue);
	struct kilni_cuda_mark *mark;

	while (queue->pending && queue->pending->seq <= done) {
		mark = queue->pending;
		queue->pending = mark->next;
		if (!queue->pending)
			queue->pending_end = &queue->pending;
		mark->next = queue->spare;
		queue->spare = mark;
	}
}

static struct kilni_cuda_mark *new_mark(void)
{
	struct kilni_cuda_mark *mark = calloc(1, sizeof(*mark));

	if (!mark)
		return NULL;
	if (kilni_cuda.event_create(&mark->event,
				    CU_EVENT_NO_TIMING |
					    CU_EVENT_BLOCKING_SYNC) == CU_OK)
		return mark;
	free(mark);
	return NULL;
}

/* Events alone tell what is done where streams cannot write. */
static void poll_marks(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	int result = CU_OK;

	if (kilni_cuda_enter(hw) != KILN_OK)
		return;
	pthread_mutex_lock(&hw->lock);
	while (queue->pending && result == CU_OK) {
		result = kilni_cuda.event_query(queue->pending->event);
		if (result != CU_OK)
			break;
		__atomic_store_n(queue->counter, queue->pending->seq,
				 __ATOMIC_RELEASE);
		reap_marks(queue);
	}
	pthread_mutex_unlock(&hw->lock);
	kilni_cuda_leave();
	kilni_cuda_note(hw, result);
}

/* A mark to record; waits for the oldest where there is no other. */
static struct kilni_cuda_mark *take_mark(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_mark *mark;

	if (!hw_of(queue)->writes)
		poll_marks(queue);
	pthread_mutex_lock(&hw_of(queue)->lock);
	reap_marks(queue);
	mark = queue->spare;
	if (mark)
		queue->spare = mark->next;
	pthread_mutex_unlock(&hw_of(queue)->lock);
	return mark ? mark : new_mark();
}

/* A stream that cannot be marked any more is one that nobody can wait for. */
static int record(struct kilni_cuda_queue *queue, struct kilni_cuda_mark *mark)
{
	int result = CU_OK;

	if (!mark)
		return 999;
	if (hw_of(queue)->writes)
		result = kilni_cuda.stream_write(queue->stream,
						 queue->counter_address,
						 queue->issued, 0);
	if (result == CU_OK)
		result = kilni_cuda.event_record(mark->event, queue->stream);
	return result;
}

static void lose(struct kilni_cuda_hw *hw, int result)
{
	kilni_cuda_note(hw, kilni_cuda_is_sticky(result) ? result : 999);
}

/*
 * Marks what has been issued. Gives the held queues that may go on, before
 * list. A lost device has passed every mark.
 */
static struct kilni_cuda_queue *put_mark(struct kilni_cuda_queue *queue,
					 struct kilni_cuda_queue *list)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_queue **at = &queue->held;
	struct kilni_cuda_mark *mark = NULL;
	int result;

	if (!kilni_cuda_is_lost(hw)) {
		mark = take_mark(queue);
		result = record(queue, mark);
		if (result != CU_OK)
			lose(hw, result);
	}
	pthread_mutex_lock(&hw->lock);
	if (mark) {
		mark->seq = queue->issued;
		mark->next = NULL;
		*queue->pending_end = mark;
		queue->pending_end = &mark->next;
	}
	__atomic_store_n(&queue->marked, queue->issued, __ATOMIC_RELEASE);
	while (*at) {
		struct kilni_cuda_queue *other = *at;

		if (other->held_until > queue->marked) {
			at = &other->next_held;
			continue;
		}
		*at = other->next_held;
		other->held_by = NULL;
		other->state = KILNI_CUDA_BUSY;
		other->next_run = list;
		list = other;
	}
	pthread_cond_broadcast(&hw->moved);
	pthread_mutex_unlock(&hw->lock);
	return list;
}

/* ---- issuing ---- */

static void set_notable(struct kilni_cuda_queue *queue,
			const struct kilni_entry *entry)
{
	__atomic_store_n(&queue->notable, entry->seq, __ATOMIC_RELEASE);
}

static bool has_report(const struct kilni_entry *entry)
{
	return entry->kernel == KILNI_KERNEL_GATHER ||
	       entry->kernel == KILNI_KERNEL_SCATTER ||
	       entry->kernel == KILNI_KERNEL_CUSTOM;
}

static struct kilni_cuda_report *report_at(struct kilni_cuda_queue *queue,
					   uint64_t number)
{
	return &queue->reports[number % KILNI_CUDA_REPORTS];
}

/* Gives the entry a report of its own to write. */
static void take_report(struct kilni_cuda_queue *queue,
			struct kilni_entry *entry)
{
	uint64_t number = queue->reports_taken++;

	report_at(queue, number)->position = UINT64_MAX;
	entry->params.raw[0] = queue->reports_address +
			       number % KILNI_CUDA_REPORTS *
				       sizeof(struct kilni_cuda_report);
	set_notable(queue, entry);
}

static bool reports_are_full(const struct kilni_cuda_queue *queue)
{
	return queue->reports_taken -
		       __atomic_load_n(&queue->reports_free,
				       __ATOMIC_ACQUIRE) ==
	       KILNI_CUDA_REPORTS;
}

static void issue_kernel(struct kilni_cuda_queue *queue,
			 struct kilni_entry *entry)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	enum kiln_status status;

	NOTE(entry) = 0;
	entry->params.raw[0] = 0;
	entry->given_ns = kilni_trace_begin();
	if (is_suspect(queue) &&
	    queue->client.check(queue->client.context, entry) != KILN_OK) {
		NOTE(entry) = NOTE_REFUSED;
		return;
	}
	status = KILNI_FAULT("launch");
	if (status == KILN_OK)
		status = kilni_cuda_alive(hw);
	if (status == KILN_OK && has_report(entry))
		take_report(queue, entry);
	if (status == KILN_OK)
		status = kilni_cuda_launch(hw, queue->stream, entry);
	if (status != KILN_OK) {
		NOTE(entry) = (uint8_t)-status;
		set_notable(queue, entry);
	}
}

/* The first mark at or behind seq; the device's lock is held. */
static struct kilni_cuda_mark *find_mark(struct kilni_cuda_queue *queue,
					 uint64_t seq)
{
	struct kilni_cuda_mark *mark = queue->pending;

	while (mark && mark->seq < seq)
		mark = mark->next;
	return mark;
}

/* False: held until target has marked seq. */
static bool issue_wait(struct kilni_cuda_queue *queue,
		       const struct kilni_entry *entry)
{
	struct kilni_cuda_queue *target =
		cuda_queue(entry->params.wait.wait_queue);
	uint64_t seq = entry->params.wait.wait_seq;
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark;
	int result = CU_OK;
	bool held;

	set_notable(queue, entry);
	pthread_mutex_lock(&hw->lock);
	held = target->marked < seq;
	if (held) {
		queue->state = KILNI_CUDA_HELD;
		queue->held_until = seq;
		queue->held_by = target;
		queue->next_held = target->held;
		target->held = queue;
	} else if (!kilni_cuda_is_lost(hw) && load_counter(target) < seq) {
		mark = find_mark(target, seq);
		if (mark)
			result = kilni_cuda.stream_wait(queue->stream,
							mark->event, 0);
	}
	pthread_mutex_unlock(&hw->lock);
	if (result != CU_OK)
		lose(hw, result);
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

/* Whether the entry has to see the marks of what is before it. */
static bool needs_mark(const struct kilni_cuda_queue *queue,
		       const struct kilni_entry *entry)
{
	if (queue->issued == queue->marked)
		return false;
	return (entry->kind != KILNI_ENTRY_KERNEL &&
		entry->kind != KILNI_ENTRY_CLOCK) ||
	       queue->issued - queue->marked >= MARK_EVERY ||
	       (has_report(entry) && reports_are_full(queue));
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
		set_notable(queue, entry);
		kilni_cuda_issue_clock(queue, entry);
		return true;
	default:
		if (has_report(entry)) {
			if (reports_are_full(queue))
				kilni_cuda_queue_retire(queue);
			if (reports_are_full(queue) &&
			    leave_to_attendant(queue, entry))
				return false;
		}
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

/* Leaves the queue where it is empty; nothing of it is touched after that. */
static bool leave(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool empty;

	pthread_mutex_lock(&hw->lock);
	empty = queue->issued == queue->submitted;
	if (empty) {
		queue->state = KILNI_CUDA_IDLE;
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
	uint64_t upto = load_submitted(queue);
	struct kilni_entry *entry;

	for (;;) {
		if (queue->issued == upto)
			upto = load_submitted(queue);
		if (queue->issued == upto) {
			if (queue->issued != queue->marked)
				list = put_mark(queue, list);
			if (leave(queue))
				return list;
			continue;
		}
		entry = current(queue);
		if (needs_mark(queue, entry))
			list = put_mark(queue, list);
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

/* ---- retiring ---- */

static uint64_t load_retired(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(&queue->retired, __ATOMIC_ACQUIRE);
}

/* Up to where the device has come. */
static uint64_t done_upto(struct kilni_cuda_queue *queue)
{
	uint64_t marked = __atomic_load_n(&queue->marked, __ATOMIC_ACQUIRE);

	if (kilni_cuda_is_lost(hw_of(queue)))
		return marked;
	if (!hw_of(queue)->writes && load_counter(queue) != marked)
		poll_marks(queue);
	return load_counter(queue);
}

static void tell_failed(struct kilni_cuda_queue *queue,
			const struct kilni_entry *entry,
			enum kiln_status status,
			const struct kilni_cuda_report *found)
{
	struct kilni_report report = { .position = UINT64_MAX };

	if (!found) {
		queue->client.failed(queue->client.context, entry, status,
				     NULL);
		return;
	}
	report.position = found->position;
	report.value = found->value;
	report.bound = found->bound;
	queue->client.failed(queue->client.context, entry, status, &report);
}

/* Whether the kernel wrote into its report; gives the report back. */
static bool read_report(struct kilni_cuda_queue *queue,
			const struct kilni_entry *entry,
			struct kilni_cuda_report *report)
{
	uint64_t number = queue->reports_free;

	if (!has_report(entry) || !entry->params.raw[0])
		return false;
	*report = *report_at(queue, number);
	__atomic_store_n(&queue->reports_free, number + 1, __ATOMIC_RELEASE);
	return report->position != UINT64_MAX;
}

/*
 * On a lost device whatever had not retired may not have run. The counter
 * tells what certainly has.
 */
static bool is_lost_kernel(struct kilni_cuda_queue *queue,
			   const struct kilni_entry *entry)
{
	return kilni_cuda_is_lost(hw_of(queue)) &&
	       entry->seq > load_counter(queue);
}

static void retire_kernel(struct kilni_cuda_queue *queue,
			  const struct kilni_entry *entry)
{
	struct kilni_cuda_report report;
	bool found = read_report(queue, entry, &report);

	if (NOTE(entry) == NOTE_REFUSED)
		return;
	if (NOTE(entry))
		tell_failed(queue, entry,
			    (enum kiln_status) - (int)NOTE(entry), NULL);
	else if (is_lost_kernel(queue, entry))
		tell_failed(queue, entry, KILN_ERR_DEVICE_LOST, NULL);
	else if (found)
		tell_failed(queue, entry, KILN_ERR_INDEX, &report);
	else if (is_suspect(queue))
		(void)!queue->client.check(queue->client.context, entry);
}

/* False: what the entry waited for has not retired on the other queue. */
static bool retire_entry(struct kilni_cuda_queue *queue,
			 const struct kilni_entry *entry)
{
	struct kilni_cuda_queue *target;

	if (entry->kind == KILNI_ENTRY_KERNEL)
		retire_kernel(queue, entry);
	if (entry->kind == KILNI_ENTRY_CLOCK)
		kilni_cuda_retire_clock(queue, entry, entry->seq <=
					load_counter(queue));
	if (entry->kind != KILNI_ENTRY_WAIT)
		return true;
	target = cuda_queue(entry->params.wait.wait_queue);
	if (load_retired(target) < entry->params.wait.wait_seq)
		kilni_cuda_queue_retire(target);
	return load_retired(target) >= entry->params.wait.wait_seq;
}

/* Whether entries have to be looked at, from seq on. */
static bool is_notable(const struct kilni_cuda_queue *queue, uint64_t seq)
{
	return is_suspect(queue) || kilni_cuda_is_lost(hw_of(queue)) ||
	       kilni_is_traced() ||
	       __atomic_load_n(&queue->notable, __ATOMIC_ACQUIRE) >= seq;
}

static void retire_upto(struct kilni_cuda_queue *queue, uint64_t upto)
{
	uint64_t seq = queue->retired, seen_ns = kilni_trace_begin();
	struct kilni_entry *entry;
	struct kilni_chunk *old;

	while (seq < upto) {
		if (queue->old_slot == KILNI_CHUNK_ENTRIES) {
			old = queue->old_chunk;
			queue->old_chunk = old->next;
			queue->old_slot = 0;
			queue->client.chunk_done(queue->client.context, old);
		}
		entry = &queue->old_chunk->entry[queue->old_slot];
		if (is_notable(queue, seq + 1) && !retire_entry(queue, entry))
			break;
		if (KILNI_UNLIKELY(seen_ns) &&
		    entry->kind == KILNI_ENTRY_KERNEL && !NOTE(entry) &&
		    !is_lost_kernel(queue, entry))
			kilni_cuda_trace_kernel(queue, entry, seen_ns);
		queue->old_slot++;
		seq++;
		/* What failed is known before the number rises. */
		if (seq == upto || is_notable(queue, seq))
			__atomic_store_n(&queue->retired, seq,
					 __ATOMIC_RELEASE);
	}
	queue->seen_ns = seen_ns;
	__atomic_store_n(&queue->retired, seq, __ATOMIC_RELEASE);
}

void kilni_cuda_queue_retire(struct kilni_cuda_queue *queue)
{
	uint64_t upto = done_upto(queue);

	if (load_retired(queue) >= upto ||
	    __atomic_exchange_n(&queue->retiring, 1, __ATOMIC_ACQUIRE))
		return;
	retire_upto(queue, upto);
	__atomic_store_n(&queue->retiring, 0, __ATOMIC_RELEASE);
}

/* ---- waiting ---- */

static bool has_retired(struct kilni_cuda_queue *queue, uint64_t seq)
{
	if (load_retired(queue) >= seq)
		return true;
	kilni_cuda_queue_retire(queue);
	return load_retired(queue) >= seq;
}

static bool spin_until(struct kilni_cuda_queue *queue, uint64_t seq)
{
	uint64_t end = kilni_now_ns() + hw_of(queue)->spin_ns;

	do {
		for (int i = 0; i < 16; i++) {
			if (has_retired(queue, seq))
				return true;
			kilni_pause();
		}
	} while (kilni_now_ns() < end);
	return false;
}

/* Nothing tells of a device that is lost while a gate holds the queue. */
static void wait_for_mark(struct kilni_cuda_hw *hw)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 20 * 1000 * 1000;
	if (until.tv_nsec >= 1000 * 1000 * 1000) {
		until.tv_nsec -= 1000 * 1000 * 1000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&hw->moved, &hw->lock, &until);
}

/*
 * Sleeps until the device may have come to seq. The event may be recorded
 * anew meanwhile: then this waits for a later mark of the same queue.
 */
static void sleep_for(struct kilni_cuda_queue *queue, uint64_t seq)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark;
	cu_event event = NULL;
	int result;

	pthread_mutex_lock(&hw->lock);
	mark = find_mark(queue, seq);
	if (mark)
		event = mark->event;
	else if (queue->marked < seq && !kilni_cuda_is_lost(hw))
		wait_for_mark(hw);
	pthread_mutex_unlock(&hw->lock);
	if (!event) {
		sched_yield();
		return;
	}
	if (kilni_cuda_enter(hw) != KILN_OK)
		return;
	result = kilni_cuda.event_sync(event);
	kilni_cuda_leave();
	if (result != CU_OK)
		lose(hw, result);
}

static enum kiln_status queue_wait(struct kilni_queue *base, uint64_t seq)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);

	while (!spin_until(queue, seq)) {
		KILNI_TRY(kilni_cuda_alive(hw_of(queue)));
		sleep_for(queue, seq);
	}
	return KILN_OK;
}

void kilni_cuda_queue_settle(struct kilni_cuda_queue *queue)
{
	uint64_t seq = __atomic_load_n(&queue->marked, __ATOMIC_ACQUIRE);

	while (!has_retired(queue, seq))
		if (kilni_cuda_is_lost(hw_of(queue)))
			sched_yield();
		else
			sleep_for(queue, seq);
}

static uint64_t queue_completed(const struct kilni_queue *base)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);

	kilni_cuda_queue_retire(queue);
	return load_retired(queue);
}

/* ---- life ---- */

static void free_marks(struct kilni_cuda_mark *mark)
{
	struct kilni_cuda_mark *next;

	for (; mark; mark = next) {
		next = mark->next;
		(void)kilni_cuda.event_destroy(mark->event);
		free(mark);
	}
}

/* With the context current. */
static void free_queue(struct kilni_cuda_queue *queue)
{
	if (queue->stream && !queue->wrapped)
		(void)kilni_cuda.stream_destroy(queue->stream);
	free_marks(queue->pending);
	free_marks(queue->spare);
	kilni_cuda_times_free(queue);
	if (queue->counter)
		(void)kilni_cuda.host_free(queue->counter);
	free(queue);
}

/* Counter and reports, side by side. */
static int get_pinned(struct kilni_cuda_queue *queue)
{
	const size_t head = 256;
	void *pinned = NULL;
	int result = kilni_cuda.host_alloc(
		&pinned,
		head + KILNI_CUDA_REPORTS * sizeof(struct kilni_cuda_report),
		CU_HOST_PORTABLE | CU_HOST_MAPPED);

	if (result != CU_OK)
		return result;
	queue->counter = pinned;
	*queue->counter = 0;
	queue->reports = (void *)((char *)pinned + head);
	result = kilni_cuda.host_address(&queue->counter_address, pinned, 0);
	queue->reports_address = queue->counter_address + head;
	return result;
}

/* CUDA counts downwards: the greatest priority is the least number. */
static int create_stream(struct kilni_cuda_queue *queue)
{
	int least = 0, greatest = 0, priority = queue->client.priority;

	if (priority && kilni_cuda.stream_create_priority &&
	    kilni_cuda.stream_priorities &&
	    kilni_cuda.stream_priorities(&least, &greatest) == CU_OK)
		return kilni_cuda.stream_create_priority(
			&queue->stream, CU_STREAM_NON_BLOCKING,
			priority > 0 ? greatest : least);
	return kilni_cuda.stream_create(&queue->stream, CU_STREAM_NON_BLOCKING);
}

static int fill_queue(struct kilni_cuda_queue *queue)
{
	int result = get_pinned(queue);
	struct kilni_cuda_mark *mark;

	if (result == CU_OK && !queue->wrapped)
		result = create_stream(queue);
	for (int i = 0; i < FIRST_MARKS && result == CU_OK; i++) {
		mark = new_mark();
		if (!mark)
			return 2;
		mark->next = queue->spare;
		queue->spare = mark;
	}
	return result;
}

static enum kiln_status new_queue(struct kilni_hw *base,
				  const struct kilni_queue_client *client,
				  struct kilni_chunk *first, cu_stream stream,
				  bool wrapped, struct kilni_queue **out)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct kilni_cuda_queue *queue;
	int result;

	KILNI_TRY(KILNI_FAULT("queue_create"));
	KILNI_TRY(kilni_cuda_enter(hw));
	queue = calloc(1, sizeof(*queue));
	if (!queue) {
		kilni_cuda_leave();
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for a queue");
	}
	queue->base.hw = base;
	queue->client = *client;
	queue->chunk = queue->old_chunk = first;
	queue->pending_end = &queue->pending;
	queue->stream = stream;
	queue->wrapped = wrapped;
	result = fill_queue(queue);
	if (result != CU_OK)
		free_queue(queue);
	else
		*out = &queue->base;
	kilni_cuda_leave();
	return kilni_cuda_check(hw, result, "a queue's stream");
}

static enum kiln_status queue_create(struct kilni_hw *hw,
				     const struct kilni_queue_client *client,
				     struct kilni_chunk *first,
				     struct kilni_queue **out)
{
	return new_queue(hw, client, first, NULL, false, out);
}

/* NULL is a stream too: the one that all others of its context wait for. */
static void *queue_canonical(void *native)
{
	return native == CU_STREAM_LEGACY ? NULL : native;
}

/* That of each thread is another one for whichever thread drains. */
static enum kiln_status queue_wrap(struct kilni_hw *hw,
				   const struct kilni_queue_client *client,
				   struct kilni_chunk *first, void *native,
				   struct kilni_queue **out)
{
	if (native == CU_STREAM_PER_THREAD)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "cuda: the default stream of each thread is "
				  "not one stream");
	return new_queue(hw, client, first, native, true, out);
}

/* With the device's lock held: a lost device may leave a queue in a list. */
static void unhold(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_queue **at;

	if (!queue->held_by)
		return;
	at = &queue->held_by->held;
	while (*at != queue)
		at = &(*at)->next_held;
	*at = queue->next_held;
	queue->held_by = NULL;
	queue->state = KILNI_CUDA_IDLE;
}

/* Whoever issued or retired the last entry may not have left yet. */
static void queue_destroy(struct kilni_queue *base)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool entered;

	pthread_mutex_lock(&hw->lock);
	while (queue->state != KILNI_CUDA_IDLE || queue->called) {
		if (kilni_cuda_is_lost(hw))
			unhold(queue);
		if (queue->state != KILNI_CUDA_IDLE || queue->called)
			wait_for_mark(hw);
	}
	pthread_mutex_unlock(&hw->lock);
	while (__atomic_load_n(&queue->retiring, __ATOMIC_ACQUIRE))
		sched_yield();
	entered = kilni_cuda.context_push(hw->context) == CU_OK;
	free_queue(queue);
	if (entered)
		kilni_cuda_leave();
}

static enum kiln_status queue_submit(struct kilni_queue *base, uint64_t upto)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool mine;

	KILNI_TRY(KILNI_FAULT("submit"));
	KILNI_TRY(kilni_cuda_alive(hw));
	pthread_mutex_lock(&hw->lock);
	queue->submitted = upto;
	mine = queue->state == KILNI_CUDA_IDLE;
	if (mine)
		queue->state = KILNI_CUDA_BUSY;
	pthread_mutex_unlock(&hw->lock);
	if (mine)
		kilni_cuda_queue_run(queue);
	return KILN_OK;
}

const struct kilni_queue_ops kilni_cuda_queue_ops = {
	.create = queue_create,
	.wrap = queue_wrap,
	.canonical = queue_canonical,
	.destroy = queue_destroy,
	.submit = queue_submit,
	.completed = queue_completed,
	.wait = queue_wait,
	.run_inline = kilni_queue_stub_run_inline,
	.graph_create = kilni_queue_stub_graph_create,
	.graph_destroy = kilni_queue_stub_graph_destroy,
};
