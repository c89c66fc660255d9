/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/vulkan/internal.h"

#include <sched.h>
#include <string.h>

#include "base/spawn.h"

/*
 * Copies between the caller's memory and pages, by way of memory that the
 * device reads and writes at the speed of the bus. A core copies five times
 * slower than that, so a large transfer has several threads; each has two
 * lanes, and fills or empties one while the other travels.
 */

#define THREAD_BYTES ((uint64_t)2 << 20)
#define BLOCK_LEAST ((uint64_t)512 << 10)
#define BLOCK_ALIGNMENT 65536

struct transfer {
	struct kilni_vk_hw *hw;
	const struct kilni_vk_block *page;
	uint64_t offset, bytes, block, blocks;
	char *host;            /* only read where up is set */
	unsigned threads;
	bool up;
	uint64_t next;         /* atomic: the first block that nobody has */
	int status;            /* atomic: of the first failure */
	struct kilni_error_record why;
};

/* ---- lanes ---- */

static enum kiln_status fill_lane(struct kilni_vk_hw *hw,
				  struct kilni_vk_lane *lane)
{
	KILNI_TRY(kilni_vk_block_create(hw, KILNI_VK_HOST,
					KILNI_VK_LANE_BYTES, &lane->block));
	KILNI_TRY(kilni_vk_pool_create(hw, kilni_vk_transfers(hw), true,
				       &lane->pool));
	return kilni_vk_commands_create(hw, lane->pool, &lane->commands, 1);
}

/* Takes half-made ones. */
static void destroy_lane(struct kilni_vk_hw *hw, struct kilni_vk_lane *lane)
{
	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE))
		hw->vk.DestroyCommandPool(hw->device, lane->pool, NULL);
	kilni_vk_block_destroy(hw, &lane->block);
	memset(lane, 0, sizeof(*lane));
}

static enum kiln_status add_lane(struct kilni_vk_hw *hw)
{
	struct kilni_vk_lane *lane = &hw->lane[hw->lanes];
	enum kiln_status status = fill_lane(hw, lane);

	if (status == KILN_OK)
		hw->lanes++;
	else
		destroy_lane(hw, lane);
	return status;
}

/* As many as can be had; the first one was made when the device was opened. */
static unsigned get_lanes(struct kilni_vk_hw *hw, unsigned wanted)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	while (hw->lanes < wanted && add_lane(hw) == KILN_OK)
		;
	kilni_error_restore(&before);
	return hw->lanes < wanted ? hw->lanes : wanted;
}

bool kilni_vk_is_staged(const struct kilni_vk_hw *hw)
{
	return !hw->reads_mapped || !hw->mapped[KILNI_VK_PAGES];
}

enum kiln_status kilni_vk_staging_open(struct kilni_vk_hw *hw)
{
	return kilni_vk_is_staged(hw) ? add_lane(hw) : KILN_OK;
}

void kilni_vk_staging_close(struct kilni_vk_hw *hw)
{
	while (hw->lanes)
		destroy_lane(hw, &hw->lane[--hw->lanes]);
}

/* ---- a block's copy ---- */

/* What kernels wrote, and waited for, becomes visible to copies. */
static void see_kernels(struct kilni_vk_hw *hw, VkCommandBuffer commands)
{
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT |
				 VK_ACCESS_TRANSFER_WRITE_BIT,
	};

	hw->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
				  VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
				  &barrier, 0, NULL, 0, NULL);
}

static void show_host(struct kilni_vk_hw *hw, VkCommandBuffer commands)
{
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT,
	};

	hw->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
				  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
				  0, NULL, 0, NULL);
}

static enum kiln_status record_copy(struct kilni_vk_hw *hw,
				    struct kilni_vk_lane *lane, VkBuffer from,
				    VkBuffer to, const VkBufferCopy *region)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};

	KILNI_TRY(KILNI_VK(hw, ResetCommandPool, hw->device, lane->pool,
			   0));
	KILNI_TRY(KILNI_VK(hw, BeginCommandBuffer, lane->commands,
			   &begin));
	see_kernels(hw, lane->commands);
	hw->vk.CmdCopyBuffer(lane->commands, from, to, 1, region);
	show_host(hw, lane->commands);
	return KILNI_VK(hw, EndCommandBuffer, lane->commands);
}

static uint64_t size_of(const struct transfer *t, uint64_t number)
{
	return kilni_min_u64(t->block, t->bytes - number * t->block);
}

static enum kiln_status start_block(const struct transfer *t,
				    struct kilni_vk_lane *lane, uint64_t number)
{
	struct kilni_vk_hw *hw = t->hw;
	uint64_t at = number * t->block;
	VkBufferCopy region = { .size = size_of(t, number) };

	if (t->up) {
		memcpy(lane->block.map, t->host + at, region.size);
		region.dstOffset = t->offset + at;
		KILNI_TRY(record_copy(hw, lane, lane->block.buffer,
				      t->page->buffer, &region));
	} else {
		region.srcOffset = t->offset + at;
		KILNI_TRY(record_copy(hw, lane, t->page->buffer,
				      lane->block.buffer, &region));
	}
	KILNI_TRY(kilni_vk_start_now(hw, lane->commands, &lane->value));
	lane->number = number;
	lane->busy = true;
	return KILN_OK;
}

static enum kiln_status finish_block(const struct transfer *t,
				     struct kilni_vk_lane *lane)
{
	if (!lane->busy)
		return KILN_OK;
	lane->busy = false;
	KILNI_TRY(kilni_vk_wait_now(t->hw, lane->value, t->threads == 1));
	if (!t->up)
		memcpy(t->host + lane->number * t->block, lane->block.map,
		       size_of(t, lane->number));
	return KILN_OK;
}

/* ---- a thread's part ---- */

static void note_failure(struct transfer *t, enum kiln_status status)
{
	int none = KILN_OK;

	if (status != KILN_OK &&
	    __atomic_compare_exchange_n(&t->status, &none, (int)status, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		kilni_error_save(&t->why);
}

static bool take_block(struct transfer *t, uint64_t *number)
{
	if (__atomic_load_n(&t->status, __ATOMIC_ACQUIRE) != KILN_OK)
		return false;
	*number = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
	return *number < t->blocks;
}

/* Blocks in turn by some lanes, until none is left or one has failed. */
static void move_blocks(struct transfer *t, struct kilni_vk_lane *lane,
			unsigned lanes)
{
	unsigned at = 0;
	uint64_t number;

	while (take_block(t, &number)) {
		enum kiln_status status = finish_block(t, &lane[at]);

		/* A lane that may still travel is not used again. */
		if (status == KILN_OK)
			status = start_block(t, &lane[at], number);
		note_failure(t, status);
		at = (at + 1) % lanes;
	}
	/* After a failure too: what still travels needs its lane. */
	for (unsigned i = 0; i < lanes; i++)
		note_failure(t, finish_block(t, &lane[i]));
}

struct helper {
	struct transfer *transfer;
	struct kilni_vk_lane *lane;
	pthread_t thread;
	bool runs;
};

static void *help(void *arg)
{
	struct helper *helper = arg;

	move_blocks(helper->transfer, helper->lane, 2);
	return NULL;
}

/* The caller's thread is one of them; those that cannot be had are missed. */
static void move_all(struct transfer *t, unsigned threads, unsigned lanes)
{
	struct helper helper[KILNI_VK_LANES / 2];
	struct kilni_vk_hw *hw = t->hw;

	for (unsigned i = 1; i < threads; i++) {
		helper[i].transfer = t;
		helper[i].lane = &hw->lane[2 * i];
		helper[i].runs = !kilni_spawn(&helper[i].thread, NULL, help,
					      &helper[i]);
	}
	move_blocks(t, hw->lane, lanes < 2 ? 1 : 2);
	for (unsigned i = 1; i < threads; i++)
		if (helper[i].runs)
			pthread_join(helper[i].thread, NULL);
}

/* ---- transfers ---- */

static unsigned cpus(void)
{
	cpu_set_t set;
	int count = 0;

	if (!sched_getaffinity(0, sizeof(set), &set))
		count = CPU_COUNT(&set);
	return count > 1 ? (unsigned)count : 1;
}

/* A function of the size alone, and of the CPUs. */
static unsigned threads_for(uint64_t bytes)
{
	uint64_t most = kilni_min_u64(KILNI_VK_LANES / 2,
				      bytes / THREAD_BYTES);

	return most > 1 ? (unsigned)kilni_min_u64(most, cpus()) : 1;
}

static void move_staged(struct transfer *t)
{
	unsigned threads = threads_for(t->bytes), lanes;

	lanes = get_lanes(t->hw, t->bytes <= BLOCK_LEAST ? 1 : 2 * threads);
	t->threads = threads = lanes < 4 ? 1 : lanes / 2;
	t->block = kilni_align_up(t->bytes / (2 * (uint64_t)threads),
				  BLOCK_ALIGNMENT);
	t->block = kilni_min_u64(kilni_max_u64(t->block, BLOCK_LEAST),
				 KILNI_VK_LANE_BYTES);
	t->blocks = (t->bytes - 1) / t->block + 1;
	move_all(t, threads, lanes);
}

/* One copy; buffer and at are where the host's memory is to be had. */
static enum kiln_status move_pinned(const struct transfer *t, VkBuffer buffer,
				    uint64_t at)
{
	struct kilni_vk_lane *lane = t->hw->lane;
	VkBufferCopy region = {
		.srcOffset = t->up ? at : t->offset,
		.dstOffset = t->up ? t->offset : at,
		.size = t->bytes,
	};

	KILNI_TRY(record_copy(t->hw, lane, t->up ? buffer : t->page->buffer,
			      t->up ? t->page->buffer : buffer, &region));
	KILNI_TRY(kilni_vk_start_now(t->hw, lane->commands, &lane->value));
	return kilni_vk_wait_now(t->hw, lane->value, true);
}

enum kiln_status kilni_vk_stage(struct kilni_vk_hw *hw,
				const struct kilni_vk_block *page,
				uint64_t offset, void *host, uint64_t bytes,
				bool up)
{
	struct transfer t = { .hw = hw, .page = page, .offset = offset,
			      .bytes = bytes, .host = host, .up = up };
	struct kilni_vk_pin *pin;
	VkBuffer buffer;
	uint64_t at;

	pin = kilni_vk_use_pin(hw, host, bytes, &buffer, &at);
	pthread_mutex_lock(&hw->staging_lock);
	/* The one before may have left its lanes travelling. */
	if (kilni_vk_is_lost(hw))
		note_failure(&t, kilni_fail(KILN_ERR_DEVICE_LOST, 0,
					    "vulkan: the device is lost"));
	else if (pin)
		note_failure(&t, move_pinned(&t, buffer, at));
	else
		move_staged(&t);
	pthread_mutex_unlock(&hw->staging_lock);
	if (pin)
		kilni_vk_leave_pin(hw, pin);
	if (t.status != KILN_OK)
		kilni_error_restore(&t.why);
	return (enum kiln_status)t.status;
}
