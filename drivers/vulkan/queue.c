/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

/*
 * The entries of a queue are recorded by the thread that submits them or lets
 * them go on. A queue that meets another one's number, in a WAIT, is held
 * until that has been handed to the VkQueue: then the order of the VkQueue and
 * a barrier do the rest. A queue that meets a closed gate is held by the host.
 */

static struct kilni_vk_queue *vk_queue(struct kilni_queue *queue)
{
	return (struct kilni_vk_queue *)(void *)queue;
}

static struct kilni_vk_hw *hw_of(const struct kilni_vk_queue *queue)
{
	return kilni_vk_hw_of(queue->base.hw);
}

static uint64_t queue_completed(const struct kilni_queue *queue)
{
	return __atomic_load_n(
		&((const struct kilni_vk_queue *)(const void *)queue)
			 ->completed,
		__ATOMIC_ACQUIRE);
}

/* ---- holding ---- */

static bool is_behind(struct kilni_vk_queue *target, uint64_t seq)
{
	bool behind;

	pthread_mutex_lock(&hw_of(target)->lock);
	behind = target->passed < seq;
	pthread_mutex_unlock(&hw_of(target)->lock);
	return behind;
}

static bool is_blocked(const struct kilni_entry *entry)
{
	if (entry->kind == KILNI_ENTRY_WAIT)
		return is_behind(vk_queue(entry->params.wait.wait_queue),
				 entry->params.wait.wait_seq);
	if (entry->kind == KILNI_ENTRY_GATE)
		return !__atomic_load_n(entry->params.gate.gate,
					__ATOMIC_ACQUIRE);
	return entry->kind == KILNI_ENTRY_GRAPH &&
	       kilni_vk_replay_waits(entry);
}

static bool hold_for(struct kilni_vk_queue *queue,
		     struct kilni_vk_queue *target, uint64_t seq)
{
	bool held;

	pthread_mutex_lock(&hw_of(target)->lock);
	held = target->passed < seq;
	if (held) {
		queue->state = KILNI_VK_HELD;
		queue->held_until = seq;
		queue->next_held = target->held;
		target->held = queue;
	}
	pthread_mutex_unlock(&hw_of(target)->lock);
	return held;
}

static void set_state(struct kilni_vk_queue *queue, enum kilni_vk_state state)
{
	pthread_mutex_lock(&hw_of(queue)->lock);
	queue->state = state;
	pthread_mutex_unlock(&hw_of(queue)->lock);
}

static void run(struct kilni_vk_queue *list);

static void gate_opened(struct kilni_gate_watch *watch)
{
	struct kilni_vk_queue *queue =
		(void *)((char *)watch -
			 offsetof(struct kilni_vk_queue, gate));

	set_state(queue, KILNI_VK_BUSY);
	queue->next_run = NULL;
	run(queue);
}

static bool hold_at_gate(struct kilni_vk_queue *queue, const int *gate)
{
	set_state(queue, KILNI_VK_HELD);
	queue->gate.opened = gate_opened;
	if (kilni_gate_hold(&queue->gate, gate))
		return true;
	set_state(queue, KILNI_VK_BUSY);
	return false;
}

/* Until a batch is completed, and with it perhaps an earlier replay. */
static bool hold_for_turn(struct kilni_vk_queue *queue,
			  const struct kilni_entry *entry)
{
	struct kilni_vk_hw *hw = hw_of(queue);
	bool held;

	pthread_mutex_lock(&hw->lock);
	held = kilni_vk_replay_waits(entry);
	if (held) {
		queue->state = KILNI_VK_HELD;
		queue->next_starved = hw->turnless;
		hw->turnless = queue;
	}
	pthread_mutex_unlock(&hw->lock);
	return held;
}

/* True: the queue is held and no longer this thread's. */
static bool hold(struct kilni_vk_queue *queue, const struct kilni_entry *entry)
{
	if (entry->kind == KILNI_ENTRY_GRAPH)
		return hold_for_turn(queue, entry);
	if (entry->kind == KILNI_ENTRY_WAIT)
		return hold_for(queue, vk_queue(entry->params.wait.wait_queue),
				entry->params.wait.wait_seq);
	return hold_at_gate(queue, entry->params.gate.gate);
}

void kilni_vk_queues_resume(struct kilni_vk_queue *list)
{
	struct kilni_vk_queue *queue, *next;
	struct kilni_error_record before;

	/* What fails there is not the waiter's. */
	kilni_error_save(&before);
	for (queue = list; queue; queue = next) {
		next = queue->next_starved;
		set_state(queue, KILNI_VK_BUSY);
		queue->next_run = NULL;
		run(queue);
	}
	kilni_error_restore(&before);
}

/* The queues that waited for what this one has handed over, before list. */
static struct kilni_vk_queue *release(struct kilni_vk_queue *queue,
				      struct kilni_vk_queue *list)
{
	struct kilni_vk_queue **at = &queue->held;

	pthread_mutex_lock(&hw_of(queue)->lock);
	while (*at) {
		struct kilni_vk_queue *other = *at;

		if (other->held_until > queue->passed) {
			at = &other->next_held;
			continue;
		}
		*at = other->next_held;
		other->state = KILNI_VK_BUSY;
		other->next_run = list;
		list = other;
	}
	pthread_mutex_unlock(&hw_of(queue)->lock);
	return list;
}

/* ---- recording ---- */

static struct kilni_entry *current(struct kilni_vk_queue *queue)
{
	if (queue->slot == KILNI_CHUNK_ENTRIES) {
		queue->chunk = queue->chunk->next;
		queue->slot = 0;
	}
	return &queue->chunk->entry[queue->slot];
}

static bool is_refused(struct kilni_vk_queue *queue,
		       const struct kilni_entry *entry)
{
	const struct kilni_queue_client *client = &queue->client;

	return __atomic_load_n(client->suspect, __ATOMIC_ACQUIRE) &&
	       client->check(client->context, entry) != KILN_OK;
}

static enum kiln_status record_kernel(struct kilni_vk_batch *batch,
				      const struct kilni_entry *entry)
{
	KILNI_TRY(KILNI_FAULT("launch"));
	if (kilni_vk_is_lost(hw_of(batch->queue)))
		return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				  "vulkan: the device is lost");
	if (!kilni_vk_traces(batch))
		return kilni_vk_record(batch, entry);
	KILNI_TRY(kilni_vk_stamp(batch, batch->entries - 1, 0));
	KILNI_TRY(kilni_vk_record(batch, entry));
	return kilni_vk_stamp(batch, batch->entries - 1, 1);
}

/* What cannot be stamped is told when the batch is completed. */
static void record_clock(struct kilni_vk_batch *batch)
{
	struct kilni_error_record before;
	enum kiln_status status;

	kilni_error_save(&before);
	status = KILNI_FAULT("clock");
	if (status == KILN_OK && !kilni_vk_is_lost(hw_of(batch->queue)))
		status = kilni_vk_stamp(batch, batch->entries - 1, 0);
	kilni_error_restore(&before);
	if (status == KILN_OK)
		batch->fate[batch->entries - 1] = KILNI_VK_STAMPED;
}

static void record_entry(struct kilni_vk_batch *batch,
			 const struct kilni_entry *entry)
{
	struct kilni_vk_queue *queue = batch->queue;
	uint8_t *fate = &batch->fate[batch->entries++];
	unsigned reports = batch->report_count;
	enum kiln_status status;

	*fate = KILNI_VK_PASSED;
	batch->calls |= entry->kind == KILNI_ENTRY_CALL;
	queue->join |= entry->kind == KILNI_ENTRY_WAIT;
	if (entry->kind == KILNI_ENTRY_CLOCK)
		record_clock(batch);
	if ((entry->kind != KILNI_ENTRY_KERNEL &&
	     entry->kind != KILNI_ENTRY_GRAPH) ||
	    is_refused(queue, entry))
		return;
	if (entry->kind == KILNI_ENTRY_GRAPH) {
		kilni_vk_replay(batch, entry);
		return;
	}
	status = record_kernel(batch, entry);
	if (status == KILN_OK) {
		*fate = batch->report_count > reports ? KILNI_VK_REPORTS
						      : KILNI_VK_RAN;
		return;
	}
	/* Its report is not looked for. */
	batch->report_count = reports;
	queue->client.failed(queue->client.context, entry, status, NULL);
}

/* Records up to number upto; the first entry is not blocked. */
static void fill(struct kilni_vk_batch *batch, uint64_t upto)
{
	struct kilni_vk_queue *queue = batch->queue;
	uint64_t seq = queue->passed;

	do {
		const struct kilni_entry *entry = current(queue);

		if (batch->entries && is_blocked(entry))
			break;
		if (!batch->entries) {
			batch->chunk = queue->chunk;
			batch->slot = queue->slot;
		}
		record_entry(batch, entry);
		queue->slot++;
		seq++;
	} while (seq < upto && batch->entries < KILNI_VK_BATCH_ENTRIES &&
		 kilni_vk_has_room(batch));
	batch->last_seq = seq;
}

/* Up to where there is work; 0: nothing, and the queue is left. */
static uint64_t work(struct kilni_vk_queue *queue)
{
	struct kilni_vk_hw *hw = hw_of(queue);
	uint64_t upto;

	pthread_mutex_lock(&hw->lock);
	upto = queue->submitted;
	if (upto == queue->passed) {
		upto = 0;
		queue->state = KILNI_VK_IDLE;
		pthread_cond_broadcast(&hw->moved);
	}
	pthread_mutex_unlock(&hw->lock);
	return upto;
}

/* Records one queue as far as that goes; queues that go on come to list. */
static struct kilni_vk_queue *record_queue(struct kilni_vk_queue *queue,
					   struct kilni_vk_queue *list)
{
	struct kilni_vk_batch *batch;
	uint64_t upto;

	while ((upto = work(queue))) {
		const struct kilni_entry *entry = current(queue);

		if (is_blocked(entry) && hold(queue, entry))
			break;
		batch = kilni_vk_batch_take(queue);
		if (!batch)
			break;
		fill(batch, upto);
		kilni_vk_batch_submit(batch);
		list = release(queue, list);
	}
	return list;
}

static void run(struct kilni_vk_queue *list)
{
	while (list) {
		struct kilni_vk_queue *queue = list;

		list = record_queue(queue, queue->next_run);
	}
}

/* ---- the table ---- */

static enum kiln_status queue_create(struct kilni_hw *hw,
				     const struct kilni_queue_client *client,
				     struct kilni_chunk *first,
				     struct kilni_queue **out)
{
	struct kilni_vk_queue *queue;

	KILNI_TRY(KILNI_FAULT("queue_create"));
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a queue");
	queue->base.hw = hw;
	queue->client = *client;
	queue->chunk = queue->done_chunk = first;
	*out = &queue->base;
	return KILN_OK;
}

/* Whoever recorded or completed the last entry may not have left yet. */
static void queue_destroy(struct kilni_queue *base)
{
	struct kilni_vk_queue *queue = vk_queue(base);
	struct kilni_vk_hw *hw = hw_of(queue);

	pthread_mutex_lock(&hw->lock);
	while (queue->state != KILNI_VK_IDLE || hw->finishing == queue ||
	       queue->completed != queue->submitted)
		pthread_cond_wait(&hw->moved, &hw->lock);
	pthread_mutex_unlock(&hw->lock);
	free(queue);
}

static enum kiln_status queue_submit(struct kilni_queue *base, uint64_t upto)
{
	struct kilni_vk_queue *queue = vk_queue(base);
	struct kilni_vk_hw *hw = hw_of(queue);
	bool mine;

	KILNI_TRY(KILNI_FAULT("submit"));
	if (kilni_vk_is_lost(hw))
		return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				  "vulkan: the device is lost");
	pthread_mutex_lock(&hw->lock);
	queue->submitted = upto;
	mine = queue->state == KILNI_VK_IDLE;
	if (mine)
		queue->state = KILNI_VK_BUSY;
	pthread_mutex_unlock(&hw->lock);
	if (mine) {
		queue->next_run = NULL;
		run(queue);
	}
	return KILN_OK;
}

/*
 * Sleeps until something has moved that may complete seq. It is the device's
 * thread that waits in the driver: of several threads that wait there for one
 * semaphore, some drivers tell the second only ten milliseconds later.
 */
static void sleep_for(struct kilni_vk_queue *queue, uint64_t seq)
{
	struct kilni_vk_hw *hw = hw_of(queue);
	struct timespec until;
	uint64_t parked = 0;

	pthread_mutex_lock(&hw->lock);
	if (queue_completed(&queue->base) < seq && !kilni_vk_is_lost(hw)) {
		if (hw->parked && hw->oldest)
			parked = hw->oldest->value;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 10000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		if (!parked)
			pthread_cond_timedwait(&hw->moved, &hw->lock, &until);
	}
	pthread_mutex_unlock(&hw->lock);
	if (parked)
		kilni_vk_sleep(hw, kilni_vk_computes(hw), parked, 0);
}

static bool is_done(struct kilni_vk_queue *queue, uint64_t seq)
{
	if (queue_completed(&queue->base) >= seq)
		return true;
	kilni_vk_retire(hw_of(queue), false);
	return queue_completed(&queue->base) >= seq;
}

static enum kiln_status queue_wait(struct kilni_queue *base, uint64_t seq)
{
	struct kilni_vk_queue *queue = vk_queue(base);
	struct kilni_vk_hw *hw = hw_of(queue);
	uint64_t start = kilni_now_ns();

	while (!is_done(queue, seq)) {
		if (kilni_vk_is_lost(hw))
			return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
					  "vulkan: the device is lost");
		if (kilni_now_ns() - start >= hw->spin_ns)
			sleep_for(queue, seq);
		else
			kilni_pause();
	}
	return KILN_OK;
}

const struct kilni_queue_ops kilni_vk_queue_ops = {
	.wrap = kilni_queue_stub_wrap,
	.canonical = kilni_queue_stub_canonical,
	.create = queue_create,
	.destroy = queue_destroy,
	.submit = queue_submit,
	.completed = queue_completed,
	.wait = queue_wait,
	.run_inline = kilni_queue_stub_run_inline,
	.graph_create = kilni_vk_graph_create,
	.graph_destroy = kilni_vk_graph_destroy,
};
