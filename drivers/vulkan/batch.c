/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spawn.h"
#include "base/trace.h"

#define SLAB_BATCHES 16
#define SLABS_MOST 16
/*
 * Of one queue. Whoever is further ahead of the device only queues, and whoever
 * completes a batch records on. More would let the device wait no less, and the
 * memory of commands go cold.
 */
#define AHEAD_MOST 32
/* How long an exit waits for the device's thread. */
#define PARK_S 2

/* ---- slabs ---- */

static enum kiln_status create_commands(struct kilni_vk_hw *hw,
					struct kilni_vk_batch *batch)
{
	KILNI_TRY(kilni_vk_pool_create(hw, kilni_vk_computes(hw), true,
				       &batch->pool));
	KILNI_TRY(kilni_vk_stamps_create(hw, batch));
	return kilni_vk_commands_create(hw, batch->pool, batch->own,
					KILNI_VK_OWN);
}

static void destroy_slab(struct kilni_vk_hw *hw, struct kilni_vk_slab *slab)
{
	for (unsigned i = 0; slab->batch && i < slab->batches; i++) {
		if (hw->hung)
			break;
		hw->vk.DestroyCommandPool(hw->device, slab->batch[i].pool,
					  NULL);
		hw->vk.DestroyQueryPool(hw->device, slab->batch[i].stamps,
					NULL);
	}
	kilni_vk_block_destroy(hw, &slab->params);
	kilni_vk_block_destroy(hw, &slab->reports);
	free(slab->batch);
	free(slab);
}

#define REPORTS_BYTES (KILNI_VK_BATCH_ENTRIES * KILNI_VK_REPORT_BYTES)

static enum kiln_status fill_slab(struct kilni_vk_hw *hw,
				  struct kilni_vk_slab *slab)
{
	slab->batch = calloc(SLAB_BATCHES, sizeof(*slab->batch));
	if (!slab->batch)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for batches");
	KILNI_TRY(kilni_vk_block_create(hw, KILNI_VK_PARAMS,
					SLAB_BATCHES * KILNI_VK_PARAMS_BYTES,
					&slab->params));
	KILNI_TRY(kilni_vk_block_create(hw, KILNI_VK_HOST,
					SLAB_BATCHES * REPORTS_BYTES,
					&slab->reports));
	for (; slab->batches < SLAB_BATCHES; slab->batches++) {
		struct kilni_vk_batch *batch = &slab->batch[slab->batches];
		unsigned params = slab->batches * KILNI_VK_PARAMS_BYTES;
		unsigned reports = slab->batches * REPORTS_BYTES;

		batch->params = slab->params.map + params;
		batch->params_address = slab->params.address + params;
		batch->reports = slab->reports.map + reports;
		batch->reports_address = slab->reports.address + reports;
		KILNI_TRY(create_commands(hw, batch));
	}
	return KILN_OK;
}

/* More free batches. The lock is not held. */
static enum kiln_status grow(struct kilni_vk_hw *hw)
{
	struct kilni_vk_slab *slab = calloc(1, sizeof(*slab));
	enum kiln_status status;

	if (!slab)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for batches");
	status = fill_slab(hw, slab);
	if (status != KILN_OK) {
		/* The one that failed may be half made. */
		slab->batches += slab->batches < SLAB_BATCHES;
		destroy_slab(hw, slab);
		return status;
	}
	pthread_mutex_lock(&hw->lock);
	slab->next = hw->slabs;
	hw->slabs = slab;
	for (unsigned i = 0; i < SLAB_BATCHES; i++) {
		slab->batch[i].next = hw->free;
		hw->free = &slab->batch[i];
	}
	pthread_mutex_unlock(&hw->lock);
	return KILN_OK;
}

/* ---- taking a batch ---- */

/* The device's lock is held. */
static struct kilni_vk_batch *pop_free(struct kilni_vk_queue *queue)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(queue->base.hw);
	struct kilni_vk_batch *batch = hw->free;

	if (!batch || queue->batches >= AHEAD_MOST)
		return NULL;
	hw->free = batch->next;
	queue->batches++;
	return batch;
}

static void start_batch(struct kilni_vk_queue *queue,
			struct kilni_vk_batch *batch)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(queue->base.hw);

	batch->next = NULL;
	batch->queue = queue;
	batch->recording = batch->calls = batch->stamped = false;
	batch->submitted_ns = batch->finished_ns = 0;
	batch->entries = batch->kernels = batch->report_count = 0;
	batch->params_used = 0;
	batch->owns = batch->listed = 0;
	batch->ends = 0;
	batch->refused = KILN_OK;
	batch->found = __atomic_load_n(&hw->found, __ATOMIC_ACQUIRE);
	batch->chunk = queue->chunk;
	batch->slot = queue->slot;
}

/* The device's lock is held. */
static bool may_grow(const struct kilni_vk_queue *queue)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(queue->base.hw);
	unsigned slabs = 0;

	if (queue->batches >= AHEAD_MOST)
		return false;
	for (struct kilni_vk_slab *s = hw->slabs; s; s = s->next)
		slabs++;
	return slabs < SLABS_MOST;
}

struct kilni_vk_batch *kilni_vk_batch_take(struct kilni_vk_queue *queue)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(queue->base.hw);
	struct kilni_error_record before;
	struct kilni_vk_batch *batch;
	bool more;

	pthread_mutex_lock(&hw->lock);
	batch = pop_free(queue);
	more = !batch && may_grow(queue);
	pthread_mutex_unlock(&hw->lock);
	if (more) {
		/* In vain: then those in flight come back. */
		kilni_error_save(&before);
		(void)!grow(hw);
		kilni_error_restore(&before);
	}
	if (!batch) {
		pthread_mutex_lock(&hw->lock);
		batch = pop_free(queue);
		if (!batch) {
			queue->state = KILNI_VK_HELD;
			queue->next_starved = NULL;
			*hw->last_starved = queue;
			hw->last_starved = &queue->next_starved;
		}
		pthread_mutex_unlock(&hw->lock);
	}
	if (batch)
		start_batch(queue, batch);
	return batch;
}

/* ---- handing a batch over ---- */

void kilni_vk_batch_list(struct kilni_vk_batch *batch,
			 const VkCommandBuffer *commands, unsigned count)
{
	memcpy(&batch->list[batch->listed], commands,
	       count * sizeof(*commands));
	batch->listed += count;
	/* What takes long is seen to get on. */
	for (unsigned i = 1; i < count; i++)
		batch->ends |= UINT64_C(1) << (batch->listed - i - 1);
}

/* Both locks' part of handing over; the engine's is held. */
static void push(struct kilni_vk_hw *hw, struct kilni_vk_batch *batch)
{
	struct kilni_vk_engine *engine = kilni_vk_computes(hw);

	batch->value = engine->signalled;
	pthread_mutex_lock(&hw->lock);
	if (!hw->oldest) {
		hw->newest = &hw->oldest;
		engine->reached_ns = kilni_now_ns();
	}
	*hw->newest = batch;
	hw->newest = &batch->next;
	batch->queue->passed = batch->last_seq;
	if (hw->asleep)
		pthread_cond_signal(&hw->wake);
	pthread_mutex_unlock(&hw->lock);
}

/* The entries of a batch, one after the other. */
static const struct kilni_entry *next_entry(struct kilni_chunk **chunk,
					    unsigned *slot)
{
	if (*slot == KILNI_CHUNK_ENTRIES) {
		*chunk = (*chunk)->next;
		*slot = 0;
	}
	return &(*chunk)->entry[(*slot)++];
}

/* Nothing of the batch runs. */
static void fail_kernels(struct kilni_vk_batch *batch, enum kiln_status status)
{
	struct kilni_chunk *chunk = batch->chunk;
	unsigned slot = batch->slot;

	for (unsigned i = 0; i < batch->entries; i++) {
		const struct kilni_entry *entry = next_entry(&chunk, &slot);

		if (batch->fate[i] == KILNI_VK_PASSED)
			continue;
		if (entry->kind == KILNI_ENTRY_KERNEL ||
		    entry->kind == KILNI_ENTRY_GRAPH)
			kilni_vk_blame(batch, entry, KILNI_VK_WHOLE, status,
				       NULL);
		if (batch->fate[i] == KILNI_VK_REPLAYED)
			kilni_vk_end_turn(batch, i, entry);
		batch->fate[i] = KILNI_VK_PASSED;
	}
	/* What the barriers in it covered is open again. */
	batch->queue->join = true;
}

static enum kiln_status submit_commands(struct kilni_vk_hw *hw,
					struct kilni_vk_batch *batch)
{
	struct kilni_vk_engine *engine = kilni_vk_computes(hw);
	enum kiln_status status;

	batch->submitted_ns = kilni_trace_begin();
	pthread_mutex_lock(&engine->lock);
	status = kilni_vk_submit(hw, engine, batch->list, batch->listed,
				 batch->ends);
	if (status == KILN_OK)
		push(hw, batch);
	pthread_mutex_unlock(&engine->lock);
	return status;
}

void kilni_vk_batch_submit(struct kilni_vk_batch *batch)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	enum kiln_status status;

	kilni_vk_close_commands(batch);
	status = batch->refused;
	if (status == KILN_OK && batch->listed) {
		status = submit_commands(hw, batch);
		if (status == KILN_OK)
			return;
	}
	if (status != KILN_OK)
		fail_kernels(batch, status);
	pthread_mutex_lock(&kilni_vk_computes(hw)->lock);
	push(hw, batch);
	pthread_mutex_unlock(&kilni_vk_computes(hw)->lock);
}

/* ---- losing ---- */

void kilni_vk_lose(struct kilni_vk_hw *hw, bool hung)
{
	if (hung)
		__atomic_store_n(&hw->hung, 1, __ATOMIC_RELEASE);
	if (!kilni_hw_lose(&hw->base))
		return;
	kilni_log(KILNI_LOG_ERROR, "vulkan: %s: the device is lost%s",
		  hw->physical->properties.deviceName,
		  hung ? ": it does not answer" : "");
	pthread_mutex_lock(&hw->lock);
	pthread_cond_broadcast(&hw->moved);
	pthread_cond_broadcast(&hw->wake);
	pthread_mutex_unlock(&hw->lock);
}

/* ---- completing batches ---- */

bool kilni_vk_has_work(struct kilni_vk_hw *hw)
{
	bool has;

	pthread_mutex_lock(&hw->lock);
	has = hw->oldest != NULL;
	pthread_mutex_unlock(&hw->lock);
	return has;
}

/* What the kernel noted; false: nothing. */
static bool read_report(const struct kilni_vk_batch *batch, unsigned i,
			struct kilni_report *report)
{
	memset(report, 0, sizeof(*report));
	memcpy(report, batch->reports + i * KILNI_VK_REPORT_BYTES, 24);
	return report->position != UINT64_MAX;
}

/*
 * A kernel that ran, or may have where the device is lost: then it returns
 * false. Where a kernel before it is found to have failed only now, what
 * depends on it is told from the rest now too.
 */
static bool finish_kernel(struct kilni_vk_batch *batch,
			  const struct kilni_entry *entry, bool reports,
			  unsigned index)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	struct kilni_queue_client *client = &batch->queue->client;
	struct kilni_report report;

	if (!kilni_vk_ran(hw, batch)) {
		client->failed(client->context, entry, KILN_ERR_DEVICE_LOST,
			       NULL);
		return false;
	}
	if (reports && read_report(batch, index, &report)) {
		__atomic_add_fetch(&hw->found, 1, __ATOMIC_RELEASE);
		client->failed(client->context, entry, KILN_ERR_INDEX,
			       &report);
		return true;
	}
	if (__atomic_load_n(&hw->found, __ATOMIC_ACQUIRE) != batch->found)
		(void)client->check(client->context, entry);
	return true;
}

static void finish_entry(struct kilni_vk_batch *batch, unsigned i,
			 const struct kilni_entry *entry, unsigned *report)
{
	bool reports = batch->fate[i] == KILNI_VK_REPORTS, ran = false;

	if (entry->kind == KILNI_ENTRY_CALL)
		entry->params.call.call(entry->params.call.data,
					entry->params.call.user);
	else if (entry->kind == KILNI_ENTRY_CLOCK)
		kilni_vk_finish_stamp(batch, i, entry->params.clock.stamp);
	else if (batch->fate[i] == KILNI_VK_REPLAYED)
		ran = kilni_vk_finish_replay(batch, i, entry);
	else if (batch->fate[i] != KILNI_VK_PASSED)
		ran = finish_kernel(batch, entry, reports,
				    reports ? (*report)++ : 0) &&
		      entry->kind == KILNI_ENTRY_KERNEL;
	if (KILNI_UNLIKELY(batch->submitted_ns) && ran)
		kilni_vk_trace_kernel(batch, i, entry);
}

static void finish_batch(struct kilni_vk_batch *batch)
{
	struct kilni_vk_queue *queue = batch->queue;
	unsigned report = 0;

	for (unsigned i = 0; i < batch->entries; i++) {
		struct kilni_chunk *old = queue->done_chunk;
		const struct kilni_entry *entry =
			next_entry(&queue->done_chunk, &queue->done_slot);

		if (queue->done_chunk != old)
			queue->client.chunk_done(queue->client.context, old);
		finish_entry(batch, i, entry, &report);
	}
	__atomic_store_n(&queue->completed, batch->last_seq, __ATOMIC_RELEASE);
}

/* The oldest batch where it may be completed now, which is then retiring. */
static struct kilni_vk_batch *take_done(struct kilni_vk_hw *hw, uint64_t value,
					bool calls)
{
	struct kilni_vk_batch *batch = hw->oldest;

	if (!batch || (batch->value > value && !kilni_vk_is_lost(hw)) ||
	    (batch->calls && !calls))
		return NULL;
	hw->finishing = batch->queue;
	return batch;
}

/* Frees the oldest batch; the queues whose replays may have a turn for that. */
static struct kilni_vk_queue *drop_oldest(struct kilni_vk_hw *hw)
{
	struct kilni_vk_batch *batch = hw->oldest;
	struct kilni_vk_queue *turnless = hw->turnless;

	hw->oldest = batch->next;
	batch->queue->batches--;
	batch->next = hw->free;
	hw->free = batch;
	hw->finishing = NULL;
	hw->turnless = NULL;
	pthread_cond_broadcast(&hw->moved);
	return turnless;
}

/*
 * Where a batch is free, the queue that has waited longest of those that may
 * have one. What it does not get then it asks for behind the others.
 */
static struct kilni_vk_queue *take_starved(struct kilni_vk_hw *hw)
{
	struct kilni_vk_queue **at = &hw->starved, *queue;

	while ((queue = *at) && queue->batches >= AHEAD_MOST)
		at = &queue->next_starved;
	if (!queue || !hw->free)
		return NULL;
	*at = queue->next_starved;
	if (!*at)
		hw->last_starved = at;
	queue->next_starved = NULL;
	return queue;
}

/* The lock is held, but not while they go on. */
static void go_on(struct kilni_vk_hw *hw, struct kilni_vk_queue *list)
{
	for (; list; list = take_starved(hw)) {
		pthread_mutex_unlock(&hw->lock);
		kilni_vk_queues_resume(list);
		pthread_mutex_lock(&hw->lock);
	}
}

void kilni_vk_retire(struct kilni_vk_hw *hw, bool calls)
{
	uint64_t value = kilni_vk_reached(hw, kilni_vk_computes(hw));
	struct kilni_vk_queue *turnless;
	struct kilni_vk_batch *batch;

	pthread_mutex_lock(&hw->lock);
	if (hw->retiring) {
		pthread_mutex_unlock(&hw->lock);
		return;
	}
	hw->retiring = true;
	/* Where the thread rests somebody else has to make the calls. */
	calls |= hw->parked;
	while ((batch = take_done(hw, value, calls))) {
		pthread_mutex_unlock(&hw->lock);
		finish_batch(batch);
		pthread_mutex_lock(&hw->lock);
		turnless = drop_oldest(hw);
		go_on(hw, turnless ? turnless : take_starved(hw));
	}
	hw->retiring = false;
	pthread_cond_broadcast(&hw->moved);
	pthread_mutex_unlock(&hw->lock);
}

/* ---- the device's thread ---- */

/* While there is nothing to do, and once the process exits. */
static void rest(struct kilni_vk_hw *hw)
{
	hw->asleep = true;
	while ((!hw->oldest || hw->leaving) && !hw->stop) {
		hw->parked = hw->leaving;
		pthread_cond_broadcast(&hw->moved);
		pthread_cond_wait(&hw->wake, &hw->lock);
	}
	hw->asleep = hw->parked = false;
}

void kilni_vk_park(struct kilni_vk_hw *hw)
{
	struct timespec until;
	int late = 0;

	/* It may be the thread itself, in a call, that ends the process. */
	if (!hw->has_thread || pthread_equal(pthread_self(), hw->thread))
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PARK_S;
	pthread_mutex_lock(&hw->lock);
	hw->leaving = true;
	pthread_cond_broadcast(&hw->wake);
	while (!hw->parked && !hw->stop && !late)
		late = pthread_cond_timedwait(&hw->moved, &hw->lock, &until);
	pthread_mutex_unlock(&hw->lock);
}

/*
 * Completes what nobody waits for: memory goes back, calls are made, queues
 * that were held go on. It sleeps while nothing is in flight.
 */
static void *run_thread(void *arg)
{
	struct kilni_vk_hw *hw = arg;
	uint64_t value;

	for (;;) {
		pthread_mutex_lock(&hw->lock);
		rest(hw);
		if (!hw->oldest) {
			pthread_mutex_unlock(&hw->lock);
			return NULL;
		}
		value = hw->oldest->value;
		/* Somebody else is at it. */
		if (hw->retiring)
			pthread_cond_wait(&hw->moved, &hw->lock);
		pthread_mutex_unlock(&hw->lock);
		kilni_vk_sleep(hw, kilni_vk_computes(hw), value, 0);
		kilni_vk_retire(hw, true);
	}
}

static enum kiln_status start_thread(struct kilni_vk_hw *hw)
{
	int error;

	error = kilni_spawn(&hw->thread, NULL, run_thread, hw);
	if (error)
		return kilni_fail(KILN_ERR_LIMIT, error,
				  "vulkan: no thread: %s", strerror(error));
	hw->has_thread = true;
	return KILN_OK;
}

enum kiln_status kilni_vk_batches_open(struct kilni_vk_hw *hw)
{
	hw->last_starved = &hw->starved;
	KILNI_TRY(grow(hw));
	return start_thread(hw);
}

void kilni_vk_batches_close(struct kilni_vk_hw *hw)
{
	struct kilni_vk_slab *slab;

	if (hw->has_thread) {
		pthread_mutex_lock(&hw->lock);
		hw->stop = true;
		pthread_cond_broadcast(&hw->wake);
		pthread_mutex_unlock(&hw->lock);
		pthread_join(hw->thread, NULL);
	}
	/* One that was lost may have work left. */
	if (hw->vk.DeviceWaitIdle && !hw->hung)
		(void)hw->vk.DeviceWaitIdle(hw->device);
	while ((slab = hw->slabs)) {
		hw->slabs = slab->next;
		destroy_slab(hw, slab);
	}
	kilni_vk_graphs_close(hw);
}
