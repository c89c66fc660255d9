/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include "base/spawn.h"

/*
 * The attendant makes the calls that entries ask for. Those may do anything,
 * calls to this library included, which neither a submitter's thread, who
 * holds locks, nor one of CUDA's own threads could let happen.
 */

static struct kilni_entry *entry_of(struct kilni_cuda_queue *queue)
{
	return &queue->chunk->entry[queue->slot];
}

/*
 * What it is there for; then the queue goes on, here. One that another queue
 * has held only goes on.
 */
static void attend(struct kilni_cuda_hw *hw, struct kilni_cuda_queue *queue)
{
	struct kilni_entry *entry = entry_of(queue);

	if (entry->kind != KILNI_ENTRY_WAIT)
		kilni_cuda_queue_settle(queue);
	if (entry->kind == KILNI_ENTRY_CALL) {
		entry->params.call.call(entry->params.call.data,
					entry->params.call.user);
		queue->slot++;
		queue->issued++;
	}
	pthread_mutex_lock(&hw->lock);
	queue->state = KILNI_CUDA_BUSY;
	queue->called = false;
	pthread_mutex_unlock(&hw->lock);
	kilni_cuda_queue_run(queue);
}

static struct kilni_cuda_queue *next_queue(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_attendant *a = &hw->attendant;
	struct kilni_cuda_queue *queue;

	pthread_mutex_lock(&hw->lock);
	while (!a->first && !a->stop)
		pthread_cond_wait(&a->wanted, &hw->lock);
	queue = a->first;
	if (queue) {
		a->first = queue->next_call;
		if (!a->first)
			a->last = &a->first;
	}
	pthread_mutex_unlock(&hw->lock);
	return queue;
}

static void *run(void *arg)
{
	struct kilni_cuda_hw *hw = arg;
	struct kilni_cuda_queue *queue;

	while ((queue = next_queue(hw)))
		attend(hw, queue);
	return NULL;
}

/* With the device's lock held. */
static bool start(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_attendant *a = &hw->attendant;

	if (a->started)
		return true;
	a->started = !kilni_spawn(&a->thread, NULL, run, hw);
	return a->started;
}

bool kilni_cuda_attend(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(queue->base.hw);
	struct kilni_cuda_attendant *a = &hw->attendant;
	bool started;

	pthread_mutex_lock(&hw->lock);
	started = start(hw);
	if (started) {
		queue->next_call = NULL;
		queue->called = true;
		*a->last = queue;
		a->last = &queue->next_call;
		pthread_cond_signal(&a->wanted);
	}
	pthread_mutex_unlock(&hw->lock);
	return started;
}

enum kiln_status kilni_cuda_attendant_init(struct kilni_cuda_hw *hw)
{
	hw->attendant.last = &hw->attendant.first;
	pthread_cond_init(&hw->attendant.wanted, NULL);
	return KILN_OK;
}

void kilni_cuda_attendant_fini(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_attendant *a = &hw->attendant;

	if (a->started) {
		pthread_mutex_lock(&hw->lock);
		a->stop = true;
		pthread_cond_signal(&a->wanted);
		pthread_mutex_unlock(&hw->lock);
		pthread_join(a->thread, NULL);
	}
	pthread_cond_destroy(&a->wanted);
}
