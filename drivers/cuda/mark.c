/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <stdlib.h>

#define FIRST_MARKS 8

/*
 * No call of the library is made with the device's lock held: one that takes
 * long would hold up every queue. Whoever uses a mark's event meanwhile is one
 * of its users, so that it is not recorded anew.
 */

/* Takes marks that the device has passed; the device's lock is held. */
static void reap_marks(struct kilni_cuda_queue *queue)
{
	uint64_t done = load_counter(queue);
	struct kilni_cuda_mark *mark;

	while (queue->pending && queue->pending->seq <= done &&
	       !queue->pending->users) {
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

static struct kilni_cuda_mark *use_mark(struct kilni_cuda_mark *mark)
{
	if (mark)
		mark->users++;
	return mark;
}

/* The device has come to a mark that is used; the lock is held. */
static struct kilni_cuda_mark *pass_mark(struct kilni_cuda_queue *queue,
					 struct kilni_cuda_mark *mark)
{
	if (load_counter(queue) < mark->seq)
		__atomic_store_n(queue->counter, mark->seq, __ATOMIC_RELEASE);
	return use_mark(mark->next);
}

void kilni_cuda_poll_marks(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark, *next;
	int result = CU_OK;

	if (kilni_cuda_enter(hw) != KILN_OK)
		return;
	pthread_mutex_lock(&hw->lock);
	for (mark = use_mark(queue->pending); mark; mark = next) {
		pthread_mutex_unlock(&hw->lock);
		result = kilni_cuda.event_query(mark->event);
		pthread_mutex_lock(&hw->lock);
		next = result == CU_OK ? pass_mark(queue, mark) : NULL;
		mark->users--;
		reap_marks(queue);
	}
	pthread_mutex_unlock(&hw->lock);
	kilni_cuda_leave();
	kilni_cuda_note(hw, result);
}

int kilni_cuda_wait_for(struct kilni_cuda_hw *hw, cu_stream stream,
			struct kilni_cuda_mark *mark)
{
	int result = kilni_cuda.stream_wait(stream, mark->event, 0);

	pthread_mutex_lock(&hw->lock);
	mark->users--;
	pthread_mutex_unlock(&hw->lock);
	return result;
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

/* A mark behind what has been issued; NULL on a lost device. */
static struct kilni_cuda_mark *new_record(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_mark *mark;
	int result;

	if (kilni_cuda_is_lost(hw_of(queue)))
		return NULL;
	mark = take_mark(queue);
	result = record(queue, mark);
	if (result != CU_OK)
		kilni_cuda_lose(hw_of(queue), result);
	return mark;
}

struct kilni_cuda_queue *kilni_cuda_mark(struct kilni_cuda_queue *queue,
					 struct kilni_cuda_queue *list)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark = new_record(queue);

	pthread_mutex_lock(&hw->lock);
	publish(queue, mark);
	list = release_held(queue, KILNI_CUDA_BUSY, list);
	pthread_mutex_unlock(&hw->lock);
	return list;
}

/* ---- for those who wait ---- */

/*
 * Makes the queue the caller's to mark where it is nobody's; the lock is held.
 * Whoever finds it so need not wait: he is told as of any mark.
 */
static bool take_idle(struct kilni_cuda_queue *queue, uint64_t seq,
		      bool entered)
{
	if (queue->marked >= seq)
		return false;
	if (queue->wanted < seq)
		__atomic_store_n(&queue->wanted, seq, __ATOMIC_RELEASE);
	if (queue->state != KILNI_CUDA_IDLE ||
	    queue->issued == queue->marked)
		return false;
	/* A dead one is walked past where the device is lost. */
	if (!kilni_cuda_is_lost(hw_of(queue)) &&
	    (!entered || __atomic_load_n(&queue->dead, __ATOMIC_SEQ_CST)))
		return false;
	queue->state = KILNI_CUDA_MARKING;
	return true;
}

/* Gives the queues that were held by what had not been marked. */
static struct kilni_cuda_queue *mark_idle(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_mark *mark = new_record(queue);
	struct kilni_cuda_queue *released;

	pthread_mutex_lock(&hw->lock);
	publish(queue, mark);
	released = release_held(queue, KILNI_CUDA_HELD, NULL);
	queue->state = KILNI_CUDA_IDLE;
	pthread_mutex_unlock(&hw->lock);
	return released;
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
	bool entered, mine;

	if (load_marked(queue) >= seq)
		return;
	entered = !kilni_cuda_is_lost(hw) &&
		  kilni_cuda_note(hw, kilni_cuda.context_push(hw->context)) ==
			  CU_OK;
	pthread_mutex_lock(&hw->lock);
	mine = take_idle(queue, seq, entered);
	pthread_mutex_unlock(&hw->lock);
	if (mine)
		released = mark_idle(queue);
	if (entered)
		kilni_cuda_leave();
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

struct kilni_cuda_mark *kilni_cuda_use_mark(struct kilni_cuda_queue *queue,
					    uint64_t seq)
{
	return use_mark(kilni_cuda_find_mark(queue, seq));
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
