/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"

/* Entries that a leader runs before it lets other ready queues have a turn. */
#define TURN_ENTRIES 64

static struct kilni_cpu_queue *cpu_queue(struct kilni_queue *queue)
{
	return (struct kilni_cpu_queue *)(void *)queue;
}

static uint64_t load_completed(const struct kilni_cpu_queue *queue)
{
	return __atomic_load_n(&queue->completed, __ATOMIC_SEQ_CST);
}

/* ---- completion ---- */

/* Takes the held queues that may go on and notes what comes next. */
static struct kilni_cpu_queue *release_held(struct kilni_cpu_queue *queue)
{
	struct kilni_cpu_queue **at = &queue->held, *released = NULL;
	uint64_t least = UINT64_MAX;

	while (*at) {
		struct kilni_cpu_queue *other = *at;

		if (other->held_until > queue->done) {
			least = kilni_min_u64(least, other->held_until);
			at = &other->next_held;
			continue;
		}
		*at = other->next_held;
		other->next_held = released;
		released = other;
	}
	__atomic_store_n(&queue->notice_at, least, __ATOMIC_SEQ_CST);
	return released;
}

/* Somebody waits for what has just completed. Sleepers register again. */
static void notify(struct kilni_cpu_queue *queue)
{
	struct kilni_cpu_queue *released, *next;

	pthread_mutex_lock(&queue->lock);
	released = release_held(queue);
	pthread_mutex_unlock(&queue->lock);
	for (; released; released = next) {
		next = released->next_held;
		kilni_gang_ready(released, KILNI_QUEUE_HELD);
	}
	__atomic_fetch_add(&queue->notice_word, 1, __ATOMIC_SEQ_CST);
	kilni_futex_wake(&queue->notice_word, INT_MAX);
}

static void complete(struct kilni_cpu_queue *queue, unsigned entries)
{
	queue->done += entries;
	__atomic_store_n(&queue->completed, queue->done, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&queue->notice_at, __ATOMIC_SEQ_CST) <=
	    queue->done)
		notify(queue);
}

/* Asks for a notice at seq; the caller holds the lock and looks again. */
static void want_notice(struct kilni_cpu_queue *queue, uint64_t seq)
{
	if (seq < __atomic_load_n(&queue->notice_at, __ATOMIC_SEQ_CST))
		__atomic_store_n(&queue->notice_at, seq, __ATOMIC_SEQ_CST);
}

bool kilni_queue_hold(struct kilni_cpu_queue *queue,
		      struct kilni_cpu_queue *target, uint64_t seq)
{
	bool held = false;

	if (load_completed(target) >= seq)
		return false;
	pthread_mutex_lock(&target->lock);
	want_notice(target, seq);
	if (load_completed(target) < seq) {
		held = true;
		queue->held_until = seq;
		queue->next_held = target->held;
		target->held = queue;
		__atomic_store_n(&queue->state, KILNI_QUEUE_HELD,
				 __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&target->lock);
	return held;
}

/* ---- leading ---- */

/* Leaves an empty queue; false where something was submitted meanwhile. */
static bool leave(struct kilni_cpu_queue *queue)
{
	bool empty;

	pthread_mutex_lock(&queue->gang->lock);
	__atomic_store_n(&queue->state, KILNI_QUEUE_IDLE, __ATOMIC_SEQ_CST);
	empty = __atomic_load_n(&queue->submitted, __ATOMIC_SEQ_CST) ==
		queue->done;
	if (!empty)
		__atomic_store_n(&queue->state, KILNI_QUEUE_LED,
				 __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&queue->gang->lock);
	return empty;
}

/* The queue is empty. Tells whether it was left; has_spun: in vain. */
static bool linger(struct kilni_cpu_queue *queue, bool *has_spun)
{
	struct kilni_gang *gang = queue->gang;

	*has_spun = !kilni_gang_spin(gang, queue);
	if (__atomic_load_n(&queue->submitted, __ATOMIC_SEQ_CST) ==
		    queue->done &&
	    leave(queue))
		return true;
	/* Others may have counted on this worker. */
	if (__atomic_load_n(&gang->ready_count, __ATOMIC_SEQ_CST))
		kilni_gang_wake(gang, 1);
	return false;
}

bool kilni_queue_lead(struct kilni_cpu_queue *queue,
		      struct kilni_worker *worker)
{
	struct kilni_gang *gang = queue->gang;
	unsigned turn = 0, ran;
	bool has_spun;

	for (;;) {
		uint64_t upto = __atomic_load_n(&queue->submitted,
						__ATOMIC_SEQ_CST);

		if (queue->done == upto) {
			if (linger(queue, &has_spun))
				return has_spun;
			continue;
		}
		ran = kilni_run_next(queue, worker, upto);
		if (!ran)
			return false;
		complete(queue, ran);
		turn += ran;
		if (!kilni_gang_prefers(gang, queue->priority) &&
		    (turn < TURN_ENTRIES ||
		     !__atomic_load_n(&gang->ready_count, __ATOMIC_SEQ_CST)))
			continue;
		kilni_gang_ready(queue, KILNI_QUEUE_LED);
		return false;
	}
}

/* ---- the table ---- */

static enum kiln_status queue_create(struct kilni_hw *hw,
				     const struct kilni_queue_client *client,
				     struct kilni_chunk *first,
				     struct kilni_queue **out)
{
	struct kilni_cpu_queue *queue;

	KILNI_TRY(KILNI_FAULT("queue_create"));
	queue = aligned_alloc(KILNI_LINE, sizeof(*queue));
	if (!queue)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for a queue");
	memset(queue, 0, sizeof(*queue));
	queue->base.hw = hw;
	queue->gang = ((struct kilni_cpu_hw *)(void *)hw)->gang;
	queue->client = *client;
	queue->priority = (unsigned)(client->priority - KILN_PRIORITY_LOW);
	queue->chunk = first;
	queue->notice_at = UINT64_MAX;
	pthread_mutex_init(&queue->lock, NULL);
	*out = &queue->base;
	return KILN_OK;
}

/* The leader may still be about to leave. */
static void queue_destroy(struct kilni_queue *base)
{
	struct kilni_cpu_queue *queue = cpu_queue(base);
	bool idle;

	__atomic_store_n(&queue->closing, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		pthread_mutex_lock(&queue->gang->lock);
		idle = __atomic_load_n(&queue->state, __ATOMIC_SEQ_CST) ==
		       KILNI_QUEUE_IDLE;
		pthread_mutex_unlock(&queue->gang->lock);
		if (idle)
			break;
		sched_yield();
	}
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

static enum kiln_status queue_submit(struct kilni_queue *base, uint64_t upto)
{
	struct kilni_cpu_queue *queue = cpu_queue(base);

	KILNI_TRY(KILNI_FAULT("submit"));
	__atomic_store_n(&queue->submitted, upto, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&queue->state, __ATOMIC_SEQ_CST) ==
	    KILNI_QUEUE_IDLE)
		kilni_gang_ready(queue, KILNI_QUEUE_IDLE);
	return KILN_OK;
}

static uint64_t queue_completed(const struct kilni_queue *base)
{
	return __atomic_load_n(
		&((const struct kilni_cpu_queue *)(const void *)base)
			 ->completed,
		__ATOMIC_ACQUIRE);
}

static bool spin_until(const struct kilni_cpu_queue *queue, uint64_t seq)
{
	uint64_t end;

	if (load_completed(queue) >= seq)
		return true;
	if (!queue->gang->spin_ns)
		return false;
	end = kilni_now_ns() + queue->gang->spin_ns;
	do {
		for (int i = 0; i < 16; i++) {
			if (load_completed(queue) >= seq)
				return true;
			kilni_pause();
		}
	} while (kilni_now_ns() < end);
	return false;
}

static enum kiln_status queue_wait(struct kilni_queue *base, uint64_t seq)
{
	struct kilni_cpu_queue *queue = cpu_queue(base);
	uint32_t word;

	if (spin_until(queue, seq))
		return KILN_OK;
	for (;;) {
		word = __atomic_load_n(&queue->notice_word, __ATOMIC_SEQ_CST);
		pthread_mutex_lock(&queue->lock);
		want_notice(queue, seq);
		pthread_mutex_unlock(&queue->lock);
		if (load_completed(queue) >= seq)
			return KILN_OK;
		kilni_futex_wait(&queue->notice_word, word);
	}
}

const struct kilni_queue_ops kilni_cpu_queue_ops = {
	.wrap = kilni_queue_stub_wrap,
	.canonical = kilni_queue_stub_canonical,
	.create = queue_create,
	.destroy = queue_destroy,
	.submit = queue_submit,
	.completed = queue_completed,
	.wait = queue_wait,
	.run_inline = kilni_run_inline,
	.graph_create = kilni_cpu_graph_create,
	.graph_destroy = kilni_cpu_graph_destroy,
};
