/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/trace.h"

/* So long after the last entry a queue is marked for whoever asks. */
#define LINGER_NS 50000

/* How long a thread that waits naps before it sleeps, and its shortest nap. */
#define NAPS_NS 4000000
#define NAP_LEAST_NS 5000

#define HOLDERS_MOST 64

/* ---- retiring ---- */

/* Up to where the device has come. */
static uint64_t done_upto(struct kilni_cuda_queue *queue)
{
	uint64_t marked = load_marked(queue);

	if (kilni_cuda_is_lost(hw_of(queue))) {
		kilni_cuda_want(queue, __atomic_load_n(&queue->unmarked,
						       __ATOMIC_ACQUIRE));
		return load_marked(queue);
	}
	if (!hw_of(queue)->writes && load_counter(queue) != marked)
		kilni_cuda_poll_marks(queue);
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

	if (!kilni_cuda_reports(entry) || !entry->params.raw[0])
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
	struct kilni_cuda_report report = { 0 };
	bool found = read_report(queue, entry, &report);

	if (KILNI_CUDA_NOTE(entry) == KILNI_CUDA_REFUSED)
		return;
	if (KILNI_CUDA_NOTE(entry))
		tell_failed(queue, entry,
			    (enum kiln_status) - (int)KILNI_CUDA_NOTE(entry),
			    NULL);
	else if (is_lost_kernel(queue, entry))
		tell_failed(queue, entry, KILN_ERR_DEVICE_LOST, NULL);
	else if (found)
		tell_failed(queue, entry, KILN_ERR_INDEX, &report);
	else if (is_suspect(queue))
		(void)!queue->client.check(queue->client.context, entry);
}

/* A graph fails as a whole, by the entry that is to blame. */
static void tell_graph(struct kilni_cuda_queue *queue, uint64_t seq,
		       const struct kilni_entry *bad, enum kiln_status status,
		       const struct kilni_cuda_report *report)
{
	struct kilni_entry entry;

	memcpy(&entry, bad, offsetof(struct kilni_entry, params));
	entry.seq = seq;
	tell_failed(queue, &entry, status, report);
}

static void retire_graph(struct kilni_cuda_queue *queue,
			 const struct kilni_entry *run)
{
	struct kilni_cuda_graph *graph = run->params.graph.graph;
	bool lost = is_lost_kernel(queue, run);
	const struct kilni_entry *bad = NULL;
	struct kilni_cuda_report report;

	if (KILNI_CUDA_NOTE(run) == KILNI_CUDA_REFUSED)
		return;
	if (graph && !KILNI_CUDA_NOTE(run))
		bad = kilni_cuda_graph_found(graph, lost, &report);
	if (KILNI_CUDA_NOTE(run))
		tell_graph(queue, run->seq, kilni_cuda_graph_blamed(run),
			   (enum kiln_status) - (int)KILNI_CUDA_NOTE(run),
			   NULL);
	else if (graph && lost)
		tell_failed(queue, run, KILN_ERR_DEVICE_LOST, NULL);
	else if (bad)
		tell_graph(queue, run->seq, bad, KILN_ERR_INDEX, &report);
	else if (is_suspect(queue))
		(void)!queue->client.check(queue->client.context, run);
}

/* What it would tell its scheduler nobody hears any more. */
static bool is_dead(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(&queue->dead, __ATOMIC_SEQ_CST);
}

/* False: what the entry waited for has not retired on the other queue. */
static bool retire_entry(struct kilni_cuda_queue *queue,
			 const struct kilni_entry *entry)
{
	struct kilni_cuda_queue *target;

	if (entry->kind == KILNI_ENTRY_KERNEL)
		retire_kernel(queue, entry);
	if (entry->kind == KILNI_ENTRY_GRAPH)
		retire_graph(queue, entry);
	if (entry->kind == KILNI_ENTRY_CLOCK)
		kilni_cuda_retire_clock(queue, entry, entry->seq <=
					load_counter(queue));
	if (entry->kind != KILNI_ENTRY_WAIT)
		return true;
	target = cuda_queue(entry->params.wait.wait_queue);
	if (is_dead(target))
		return true;
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

/* Whether something ran on the device for it. */
static bool ran(struct kilni_cuda_queue *queue, const struct kilni_entry *entry)
{
	return (entry->kind == KILNI_ENTRY_KERNEL ||
		(entry->kind == KILNI_ENTRY_GRAPH &&
		 entry->params.graph.graph)) &&
	       !KILNI_CUDA_NOTE(entry) && !is_lost_kernel(queue, entry);
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
		if (KILNI_UNLIKELY(seen_ns) && ran(queue, entry))
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
	uint64_t upto;

	if (is_dead(queue))
		return;
	upto = done_upto(queue);
	if (load_retired(queue) >= upto ||
	    __atomic_exchange_n(&queue->retiring, 1, __ATOMIC_SEQ_CST))
		return;
	if (!is_dead(queue))
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

static void nap(uint64_t ns)
{
	const struct timespec time = { 0, (long)ns };

	(void)nanosleep(&time, NULL);
}

/*
 * Looks again after a thirtieth of the time that it has taken so far, for a
 * while: an H200 took 140 us to wake a thread that sleeps on an event. The
 * slack that a thread's timers have is 50 us and more, and comes back.
 */
static bool nap_until(struct kilni_cuda_queue *queue, uint64_t seq)
{
	uint64_t start = kilni_now_ns(), taken = 0;
	int slack = prctl(PR_GET_TIMERSLACK);
	bool done = false;

	if (slack > 0)
		(void)prctl(PR_SET_TIMERSLACK, 1UL);
	while (!done && taken < NAPS_NS && !kilni_cuda_is_lost(hw_of(queue))) {
		nap(kilni_max_u64(taken / 32, NAP_LEAST_NS));
		done = has_retired(queue, seq);
		taken = kilni_now_ns() - start;
	}
	if (slack > 0)
		(void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
	return done;
}

/* Nothing tells of a device that is lost while a gate holds the queue. */
void kilni_cuda_wait_for_mark(struct kilni_cuda_hw *hw)
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
	mark = kilni_cuda_find_mark(queue, seq);
	if (mark)
		event = mark->event;
	else if (queue->marked < seq && !kilni_cuda_is_lost(hw))
		kilni_cuda_wait_for_mark(hw);
	pthread_mutex_unlock(&hw->lock);
	if (!event) {
		sched_yield();
		return;
	}
	if (nap_until(queue, seq) || kilni_cuda_enter(hw) != KILN_OK)
		return;
	result = kilni_cuda.event_sync(event);
	kilni_cuda_leave();
	if (result != CU_OK)
		kilni_cuda_lose(hw, result);
}

/* And what the queue is held by, and so on; two may be held by each other. */
static void want_all(struct kilni_cuda_queue *queue, uint64_t seq)
{
	struct kilni_cuda_hw *hw = hw_of(queue);

	for (int i = 0; queue && i < HOLDERS_MOST; i++) {
		uint64_t until;

		kilni_cuda_want(queue, seq);
		pthread_mutex_lock(&hw->lock);
		until = queue->held_until;
		queue = queue->held_by;
		pthread_mutex_unlock(&hw->lock);
		seq = until;
	}
}

enum kiln_status kilni_cuda_queue_wait(struct kilni_queue *base,
				       uint64_t seq)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);

	kilni_cuda_want(queue, seq);
	while (!spin_until(queue, seq)) {
		KILNI_TRY(kilni_cuda_alive(hw_of(queue)));
		/* Where it could not be marked before. */
		want_all(queue, seq);
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

/* Who asks again and again sees it done, though nobody waits. */
static void want_what_lingers(struct kilni_cuda_queue *queue)
{
	uint64_t unmarked = __atomic_load_n(&queue->unmarked,
					    __ATOMIC_ACQUIRE);

	if (unmarked &&
	    kilni_now_ns() - __atomic_load_n(&queue->left_ns,
					     __ATOMIC_RELAXED) > LINGER_NS)
		kilni_cuda_want(queue, unmarked);
}

uint64_t kilni_cuda_queue_completed(const struct kilni_queue *base)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);

	want_what_lingers(queue);
	kilni_cuda_queue_retire(queue);
	return load_retired(queue);
}
