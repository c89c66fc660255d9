/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include "base/trace.h"

/*
 * Time on the device: timestamps in a batch's query pool, two places for each
 * entry. A CLOCK entry writes the first of its two; a kernel writes both where
 * the process is traced. Each is written at the end of the pipe: when all
 * before it is done.
 */

#define PLACES (2 * KILNI_VK_BATCH_ENTRIES)

static struct kilni_vk_hw *hw_of(const struct kilni_vk_batch *batch)
{
	return kilni_vk_hw_of(batch->queue->base.hw);
}

void kilni_vk_clock(const struct kilni_hw *base, struct kilni_clock *clock)
{
	const struct kilni_vk_physical *p = kilni_vk_hw_of(base)->physical;

	*clock = kilni_clock_of(
		p->timestamp_bits,
		(double)p->properties.limits.timestampPeriod);
}

enum kiln_status kilni_vk_stamps_create(struct kilni_vk_hw *hw,
					struct kilni_vk_batch *batch)
{
	VkQueryPoolCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
		.queryType = VK_QUERY_TYPE_TIMESTAMP,
		.queryCount = PLACES,
	};

	if (!hw->physical->timestamp_bits)
		return KILN_OK;
	return KILNI_VK(hw, CreateQueryPool, hw->device, &info, NULL,
			&batch->stamps);
}

/* ---- recording ---- */

enum kiln_status kilni_vk_stamp(struct kilni_vk_batch *batch, unsigned entry,
				unsigned end)
{
	struct kilni_vk_hw *hw = hw_of(batch);

	KILNI_TRY(kilni_vk_open_commands(batch));
	if (!batch->stamped)
		hw->vk.CmdResetQueryPool(batch->commands, batch->stamps, 0,
					 PLACES);
	batch->stamped = true;
	hw->vk.CmdWriteTimestamp(batch->commands,
				 VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
				 batch->stamps, 2 * entry + end);
	return KILN_OK;
}

bool kilni_vk_traces(const struct kilni_vk_batch *batch)
{
	return kilni_is_traced() && hw_of(batch)->physical->timestamp_bits;
}

/* ---- completing ---- */

/* False: it is not there, as on a device that was lost before. */
static bool read_ticks(struct kilni_vk_batch *batch, unsigned place,
		       uint64_t *ticks)
{
	struct kilni_vk_hw *hw = hw_of(batch);
	uint64_t result[2] = { 0, 0 };
	enum kiln_status status;

	if (kilni_vk_is_lost(hw))
		return false;
	status = KILNI_VK(hw, GetQueryPoolResults, hw->device,
			  batch->stamps, place, 1, sizeof(result), result,
			  sizeof(result),
			  VK_QUERY_RESULT_64_BIT |
				  VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
	*ticks = result[0];
	return status == KILN_OK && result[1];
}

void kilni_vk_finish_stamp(struct kilni_vk_batch *batch, unsigned entry,
			   struct kilni_stamp *stamp)
{
	struct kilni_error_record before;
	uint64_t ticks = 0;
	bool good;

	kilni_error_save(&before);
	good = batch->fate[entry] == KILNI_VK_STAMPED &&
	       read_ticks(batch, 2 * entry, &ticks);
	kilni_error_restore(&before);
	if (good)
		kilni_stamp_set(stamp, ticks);
	else
		kilni_stamp_miss(stamp);
}

/*
 * The host's time of a moment of the device: so that no work begins before it
 * was handed over, and the latest one to do so fits exactly.
 */
static uint64_t place(struct kilni_vk_hw *hw, uint64_t ticks, uint64_t not_before)
{
	struct kilni_vk_anchor *anchor = &hw->anchor;
	struct kilni_clock clock;
	uint64_t ns = 0;

	kilni_vk_clock(&hw->base, &clock);
	if (!anchor->host_ns ||
	    !kilni_clock_between(&clock, anchor->ticks, ticks, &ns))
		anchor->host_ns = not_before;
	else
		anchor->host_ns += ns;
	anchor->ticks = ticks;
	if (anchor->host_ns < not_before)
		anchor->host_ns = not_before;
	return anchor->host_ns;
}

/* Without times of the device it is from the hand-over, or behind the last. */
static void trace_by_host(struct kilni_vk_batch *batch,
			  const struct kilni_entry *entry)
{
	struct kilni_vk_hw *hw = hw_of(batch);
	uint64_t begin = kilni_max_u64(batch->submitted_ns, hw->anchor.last_ns);

	if (!batch->finished_ns)
		batch->finished_ns = kilni_now_ns();
	kilni_trace_launch(&batch->queue->base, entry, 0,
			   kilni_min_u64(begin, batch->finished_ns),
			   batch->finished_ns);
}

/* Batches are completed one at a time, in the order of the device. */
void kilni_vk_trace_kernel(struct kilni_vk_batch *batch, unsigned entry,
			   const struct kilni_entry *what)
{
	struct kilni_vk_hw *hw = hw_of(batch);
	struct kilni_error_record before;
	uint64_t begin, end;
	bool good;

	kilni_error_save(&before);
	good = batch->stamped && read_ticks(batch, 2 * entry, &begin) &&
	       read_ticks(batch, 2 * entry + 1, &end);
	kilni_error_restore(&before);
	if (!good) {
		trace_by_host(batch, what);
		return;
	}
	begin = place(hw, begin, batch->submitted_ns);
	end = place(hw, end, begin);
	hw->anchor.last_ns = end;
	kilni_trace_launch(&batch->queue->base, what, KILNI_TRACE_DEVICE_CLOCK,
			   begin, end);
}
