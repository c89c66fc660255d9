/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <stdlib.h>

#define FIRST_MARKS 8

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

void kilni_cuda_poll_marks(struct kilni_cuda_queue *queue)
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
		kilni_cuda_poll_marks(queue);
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

void kilni_cuda_lose(struct kilni_cuda_hw *hw, int result)
{
	kilni_cuda_note(hw, kilni_cuda_is_sticky(result) ? result : 999);
}

/* What has been issued is covered; the device's lock is held. */
static void publish(struct kilni_cuda_queue *queue,
		    struct kilni_cuda_mark *mark)
{
	if (mark) {
		mark->seq = queue->issued;
		mark->next = NULL;
		*queue->pending_end = mark;
		queue->pending_end = &mark->next;
	}
	__atomic_store_n(&queue->unmarked, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->marked, queue->issued, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&hw_of(queue)->moved);
}

/* The queues that were held until now, before list; the lock is held. */
static struct kilni_cuda_queue *release_held(struct kilni_cuda_queue *queue,
					     enum kilni_cuda_state state,
					     struct kilni_cuda_queue *list)
{
	struct kilni_cuda_queue **at = &queue->held;

	while (*at) {
		struct kilni_cuda_queue *other = *at;

		if (other->held_until > queue->marked) {
			at = &other->next_held;
			continue;
		}
		*at = other->next_held;
		other->held_by = NULL;
		other->state = state;
		other->next_run = list;
		list = other;
	}
	return list;
}

struct kilni_cuda_queue *kilni_cuda_mark(struct kilni_cuda_queue *queue,
					 struct kilni_cuda_queue *list)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark = NULL;
	int result;

	if (!kilni_cuda_is_lost(hw)) {
		mark = take_mark(queue);
		result = record(queue, mark);
		if (result != CU_OK)
			kilni_cuda_lose(hw, result);
	}
	pthread_mutex_lock(&hw->lock);
	publish(queue, mark);
	list = release_held(queue, KILNI_CUDA_BUSY, list);
	pthread_mutex_unlock(&hw->lock);
	return list;
}

/* ---- for those who wait ---- */

/* The device's lock is held and the queue idle, so that it is nobody's. */
static int mark_idle(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_mark *mark = NULL;
	int result = CU_OK;

	if (!kilni_cuda_is_lost(hw_of(queue))) {
		reap_marks(queue);
		mark = queue->spare;
		if (mark)
			queue->spare = mark->next;
		else
			mark = new_mark();
		result = record(queue, mark);
	}
	publish(queue, mark);
	return result;
}

/*
 * A queue is held by what an idle one has issued only where that could not be
 * marked when it was first wanted.
 */
static int want_locked(struct kilni_cuda_queue *queue, uint64_t seq,
		       bool entered, struct kilni_cuda_queue **released)
{
	int result;

	if (queue->marked >= seq)
		return CU_OK;
	if (queue->wanted < seq)
		__atomic_store_n(&queue->wanted, seq, __ATOMIC_RELEASE);
	if (queue->state != KILNI_CUDA_IDLE ||
	    queue->issued == queue->marked ||
	    (!entered && !kilni_cuda_is_lost(hw_of(queue))))
		return CU_OK;
	result = mark_idle(queue);
	*released = release_held(queue, KILNI_CUDA_HELD, NULL);
	return result;
}

/*
 * The caller may hold locks that a queue needs to go on: the attendant sees to
 * those. Where he cannot be had there is nobody else.
 */
static void hand_over(struct kilni_cuda_queue *list)
{
	struct kilni_cuda_queue *queue;

	while ((queue = list)) {
		list = queue->next_run;
		if (kilni_cuda_attend(queue))
			continue;
		pthread_mutex_lock(&hw_of(queue)->lock);
		queue->state = KILNI_CUDA_BUSY;
		pthread_mutex_unlock(&hw_of(queue)->lock);
		kilni_cuda_queue_run(queue);
	}
}

void kilni_cuda_want(struct kilni_cuda_queue *queue, uint64_t seq)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_queue *released = NULL;
	bool entered;
	int result;

	if (load_marked(queue) >= seq)
		return;
	entered = !kilni_cuda_is_lost(hw) &&
		  kilni_cuda_note(hw, kilni_cuda.context_push(hw->context)) ==
			  CU_OK;
	pthread_mutex_lock(&hw->lock);
	result = want_locked(queue, seq, entered, &released);
	pthread_mutex_unlock(&hw->lock);
	if (entered)
		kilni_cuda_leave();
	if (result != CU_OK)
		kilni_cuda_lose(hw, result);
	hand_over(released);
}

struct kilni_cuda_mark *kilni_cuda_find_mark(struct kilni_cuda_queue *queue,
					 uint64_t seq)
{
	struct kilni_cuda_mark *mark = queue->pending;

	while (mark && mark->seq < seq)
		mark = mark->next;
	return mark;
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

void kilni_cuda_marks_free(struct kilni_cuda_queue *queue)
{
	free_marks(queue->pending);
	free_marks(queue->spare);
}

int kilni_cuda_marks_init(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_mark *mark;

	queue->pending_end = &queue->pending;
	for (int i = 0; i < FIRST_MARKS; i++) {
		mark = new_mark();
		if (!mark)
			return 2;
		mark->next = queue->spare;
		queue->spare = mark;
	}
	return CU_OK;
}
