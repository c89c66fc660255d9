/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <stdlib.h>

#include "base/trace.h"

/*
 * Time on a stream: CUDA tells only how long it was from one event to another,
 * in ms as a float, which is exact for what is short. So each stamp is counted
 * from the one before it, and the first one on a stream is taken to be the
 * host's time when it was seen.
 */

static struct kilni_cuda_hw *hw_of(const struct kilni_cuda_queue *queue)
{
	return kilni_cuda_hw(queue->base.hw);
}

static struct kilni_cuda_time *take_time(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_time *time;

	pthread_mutex_lock(&hw_of(queue)->lock);
	time = queue->spare_time;
	if (time)
		queue->spare_time = time->next;
	pthread_mutex_unlock(&hw_of(queue)->lock);
	if (time)
		return time;
	time = calloc(1, sizeof(*time));
	if (time && kilni_cuda.event_create(&time->event, 0) == CU_OK)
		return time;
	free(time);
	return NULL;
}

static void give_time(struct kilni_cuda_queue *queue,
		      struct kilni_cuda_time *time)
{
	if (!time)
		return;
	pthread_mutex_lock(&hw_of(queue)->lock);
	time->next = queue->spare_time;
	queue->spare_time = time;
	pthread_mutex_unlock(&hw_of(queue)->lock);
}

void kilni_cuda_issue_clock(struct kilni_cuda_queue *queue,
			    struct kilni_entry *entry)
{
	struct kilni_error_record before;
	struct kilni_cuda_time *time = NULL;
	int result;

	entry->params.clock.driver = NULL;
	kilni_error_save(&before);
	if (KILNI_FAULT("clock") == KILN_OK &&
	    !kilni_cuda_is_lost(hw_of(queue)))
		time = take_time(queue);
	kilni_error_restore(&before);
	if (!time)
		return;
	result = kilni_cuda_note(hw_of(queue),
				 kilni_cuda.event_record(time->event,
							 queue->stream));
	if (result == CU_OK)
		entry->params.clock.driver = time;
	else
		give_time(queue, time);
}

/* From the last stamp on; false: the library does not tell. */
static bool count_on(struct kilni_cuda_queue *queue,
		     const struct kilni_cuda_time *time)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	float ms = 0;
	int result;

	if (!queue->last_time) {
		queue->last_ns = kilni_now_ns();
		return true;
	}
	if (kilni_cuda_enter(hw) != KILN_OK)
		return false;
	result = kilni_cuda.event_elapsed(&ms, queue->last_time->event,
					  time->event);
	kilni_cuda_leave();
	if (kilni_cuda_note(hw, result) != CU_OK || !(ms >= 0))
		return false;
	queue->last_ns += (uint64_t)((double)ms * 1e6 + 0.5);
	return true;
}

void kilni_cuda_retire_clock(struct kilni_cuda_queue *queue,
			     const struct kilni_entry *entry, bool done)
{
	struct kilni_cuda_time *time = entry->params.clock.driver;
	struct kilni_error_record before;
	bool good;

	kilni_error_save(&before);
	good = time && done && count_on(queue, time);
	kilni_error_restore(&before);
	if (!good) {
		give_time(queue, time);
		kilni_stamp_miss(entry->params.clock.stamp);
		return;
	}
	give_time(queue, queue->last_time);
	queue->last_time = time;
	kilni_stamp_set(entry->params.clock.stamp, queue->last_ns);
}

static void free_time(struct kilni_cuda_time *time)
{
	if (time)
		(void)kilni_cuda.event_destroy(time->event);
	free(time);
}

void kilni_cuda_times_free(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_time *next;

	free_time(queue->last_time);
	for (struct kilni_cuda_time *t = queue->spare_time; t; t = next) {
		next = t->next;
		free_time(t);
	}
}

/* ---- traces ---- */

/*
 * From when it was given to the stream, or what was before it was seen to be
 * done, to when it was seen to be done itself.
 */
void kilni_cuda_trace_kernel(struct kilni_cuda_queue *queue,
			     const struct kilni_entry *entry, uint64_t seen_ns)
{
	uint64_t begin = kilni_max_u64(entry->given_ns, queue->seen_ns);

	kilni_trace_launch(&queue->base, entry, 0,
			   kilni_min_u64(begin, seen_ns), seen_ns);
}
