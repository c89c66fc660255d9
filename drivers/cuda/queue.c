/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* ---- life ---- */

/* With the context current. */
static void free_queue(struct kilni_cuda_queue *queue)
{
	if (queue->stream && !queue->wrapped)
		(void)kilni_cuda.stream_destroy(queue->stream);
	kilni_cuda_batch_free(queue->batch);
	kilni_cuda_marks_free(queue);
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

	if (result == CU_OK && !queue->wrapped)
		result = create_stream(queue);
	return result == CU_OK ? kilni_cuda_marks_init(queue) : result;
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

/*
 * Whoever issued or retired the last entry may not have left yet. Of a lost
 * device other queues may still walk past entries that waited for this one: its
 * memory goes with the device.
 */
static void queue_destroy(struct kilni_queue *base)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);
	struct kilni_cuda_hw *hw = hw_of(queue);

	pthread_mutex_lock(&hw->lock);
	while (queue->state != KILNI_CUDA_IDLE || queue->called) {
		if (kilni_cuda_is_lost(hw))
			unhold(queue);
		if (queue->state != KILNI_CUDA_IDLE || queue->called)
			kilni_cuda_wait_for_mark(hw);
	}
	__atomic_store_n(&queue->dead, 1, __ATOMIC_SEQ_CST);
	queue->next_dead = hw->dead;
	hw->dead = queue;
	pthread_mutex_unlock(&hw->lock);
	while (__atomic_load_n(&queue->retiring, __ATOMIC_SEQ_CST))
		sched_yield();
}

void kilni_cuda_queues_free(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_queue *queue;

	while ((queue = hw->dead)) {
		hw->dead = queue->next_dead;
		free_queue(queue);
	}
}

static enum kiln_status queue_submit(struct kilni_queue *base, uint64_t upto)
{
	struct kilni_cuda_queue *queue = cuda_queue(base);
	struct kilni_cuda_hw *hw = hw_of(queue);
	bool mine;

	KILNI_TRY(KILNI_FAULT("submit"));
	KILNI_TRY(kilni_cuda_alive(hw));
	pthread_mutex_lock(&hw->lock);
	/* As long as one call of the library for the same stream takes. */
	while (queue->state == KILNI_CUDA_MARKING)
		kilni_cuda_wait_for_mark(hw);
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
	.completed = kilni_cuda_queue_completed,
	.wait = kilni_cuda_queue_wait,
	.run_inline = kilni_queue_stub_run_inline,
	.graph_create = kilni_cuda_graph_create,
	.graph_destroy = kilni_cuda_graph_destroy,
};
