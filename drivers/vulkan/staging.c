/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <stddef.h>
#include <string.h>

/* Lanes of staging memory, and the commands of the copies. */

static struct kilni_vk_hw *hw_of(struct kilni_staging *staging)
{
	return (void *)((char *)staging - offsetof(struct kilni_vk_hw, staging));
}

/* ---- lanes ---- */

static enum kiln_status fill_lane(struct kilni_vk_hw *hw,
				  struct kilni_vk_lane *lane)
{
	KILNI_TRY(kilni_vk_block_create(hw, KILNI_VK_HOST,
					KILNI_STAGING_LANE_BYTES,
					&lane->block));
	KILNI_TRY(kilni_vk_pool_create(hw, kilni_vk_transfers(hw), true,
				       &lane->pool));
	return kilni_vk_commands_create(hw, lane->pool, &lane->commands, 1);
}

/* Takes half-made ones. */
static void close_lane(struct kilni_staging *staging, unsigned number)
{
	struct kilni_vk_hw *hw = hw_of(staging);
	struct kilni_vk_lane *lane = &hw->lane[number];

	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE))
		hw->vk.DestroyCommandPool(hw->device, lane->pool, NULL);
	kilni_vk_block_destroy(hw, &lane->block);
	memset(lane, 0, sizeof(*lane));
}

static enum kiln_status open_lane(struct kilni_staging *staging,
				  unsigned number, char **memory)
{
	struct kilni_vk_lane *lane = &hw_of(staging)->lane[number];
	enum kiln_status status = fill_lane(hw_of(staging), lane);

	if (status != KILN_OK)
		close_lane(staging, number);
	else
		*memory = lane->block.map;
	return status;
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

static enum kiln_status start_copy(struct kilni_vk_hw *hw,
				   struct kilni_vk_lane *lane, VkBuffer from,
				   VkBuffer to, const VkBufferCopy *region)
{
	KILNI_TRY(record_copy(hw, lane, from, to, region));
	return kilni_vk_start_now(hw, lane->commands, &lane->value);
}

static enum kiln_status start(const struct kilni_staged *copy, unsigned number,
			      uint64_t offset, uint64_t bytes)
{
	struct kilni_vk_hw *hw = hw_of(copy->staging);
	struct kilni_vk_lane *lane = &hw->lane[number];
	const struct kilni_vk_block *page = copy->page;
	VkBufferCopy up = { .dstOffset = copy->at + offset, .size = bytes };
	VkBufferCopy down = { .srcOffset = copy->at + offset, .size = bytes };

	return copy->up ? start_copy(hw, lane, lane->block.buffer,
				     page->buffer, &up)
			: start_copy(hw, lane, page->buffer,
				     lane->block.buffer, &down);
}

static enum kiln_status finish(const struct kilni_staged *copy,
			       unsigned number, bool alone)
{
	struct kilni_vk_hw *hw = hw_of(copy->staging);

	return kilni_vk_wait_now(hw, hw->lane[number].value, alone);
}

static const struct kilni_staging_ops ops = {
	.open = open_lane,
	.close = close_lane,
	.start = start,
	.finish = finish,
};

/* ---- opening and closing ---- */

bool kilni_vk_is_staged(const struct kilni_vk_hw *hw)
{
	return !hw->reads_mapped || !hw->mapped[KILNI_VK_PAGES];
}

enum kiln_status kilni_vk_staging_open(struct kilni_vk_hw *hw)
{
	return kilni_vk_is_staged(hw) ? kilni_staging_start(&hw->staging)
				      : KILN_OK;
}

void kilni_vk_staging_init(struct kilni_vk_hw *hw)
{
	kilni_staging_init(&hw->staging, &ops);
}

/* ---- transfers ---- */

/* One copy; buffer and at are where the host's memory is to be had. */
static enum kiln_status copy_pinned(const struct kilni_staged *copy,
				    VkBuffer buffer, uint64_t at)
{
	struct kilni_vk_hw *hw = hw_of(copy->staging);
	const struct kilni_vk_block *page = copy->page;
	VkBufferCopy region = {
		.srcOffset = copy->up ? at : copy->at,
		.dstOffset = copy->up ? copy->at : at,
		.size = copy->bytes,
	};

	KILNI_TRY(start_copy(hw, hw->lane, copy->up ? buffer : page->buffer,
			     copy->up ? page->buffer : buffer, &region));
	return kilni_vk_wait_now(hw, hw->lane->value, true);
}

enum kiln_status kilni_vk_stage(struct kilni_vk_hw *hw,
				const struct kilni_vk_block *page,
				uint64_t offset, void *host, uint64_t bytes,
				bool up)
{
	const struct kilni_staged copy = { .staging = &hw->staging,
					   .page = page, .at = offset,
					   .host = host, .bytes = bytes,
					   .up = up };
	struct kilni_vk_pin *pin;
	enum kiln_status status;
	VkBuffer buffer;
	uint64_t at;

	pin = kilni_vk_use_pin(hw, host, bytes, &buffer, &at);
	pthread_mutex_lock(&hw->staging.lock);
	/* The one before may have left its lanes travelling. */
	if (kilni_vk_is_lost(hw))
		status = kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				    "vulkan: the device is lost");
	else if (pin)
		status = copy_pinned(&copy, buffer, at);
	else
		status = kilni_staging_copy(&copy);
	pthread_mutex_unlock(&hw->staging.lock);
	if (pin)
		kilni_vk_leave_pin(hw, pin);
	return status;
}
