/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <stddef.h>
#include <string.h>

#include <kiln/dtype.h>

#include "kernels/dense.h"
#include "kernels/rows.h"

/* Parameters of the largest entry: three dispatches. */
#define ROOM_BYTES 2048
#define PARAMS_ALIGNMENT 64
#define GROUPS_MOST 65535

/* ---- commands ---- */

static enum kiln_status begin(struct kilni_vk_hw *hw,
			      struct kilni_vk_batch *batch)
{
	VkCommandBufferBeginInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};

	if (!batch->owns)
		KILNI_TRY(KILNI_VK(hw, ResetCommandPool, hw->device,
				   batch->pool, 0));
	batch->commands = batch->own[batch->owns];
	batch->bound = VK_NULL_HANDLE;
	return KILNI_VK(hw, BeginCommandBuffer, batch->commands, &info);
}

/* Makes what the kernels wrote visible to the host where it will look. */
static void show_host(struct kilni_vk_hw *hw, struct kilni_vk_batch *batch)
{
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT,
	};

	if (!hw->reads_mapped && !batch->report_count)
		return;
	hw->vk.CmdPipelineBarrier(batch->commands,
				  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
				  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
				  0, NULL, 0, NULL);
}

void kilni_vk_close_commands(struct kilni_vk_batch *batch)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	enum kiln_status status;

	if (!batch->recording)
		return;
	show_host(hw, batch);
	batch->recording = false;
	batch->owns++;
	status = KILNI_VK(hw, EndCommandBuffer, batch->commands);
	if (status != KILN_OK)
		batch->refused = status;
	else
		kilni_vk_batch_list(batch, &batch->commands, 1);
}

static void add_barrier(struct kilni_vk_batch *batch, VkPipelineStageFlags src,
			VkAccessFlags access)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = access,
		.dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
				 VK_ACCESS_SHADER_WRITE_BIT,
	};

	hw->vk.CmdPipelineBarrier(batch->commands, src,
				  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
				  &barrier, 0, NULL, 0, NULL);
}

void kilni_vk_barrier(struct kilni_vk_batch *batch)
{
	if (!batch->rehearsed)
		add_barrier(batch, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
			    VK_ACCESS_SHADER_WRITE_BIT);
}

static uint64_t most_groups(const struct kilni_vk_hw *hw)
{
	return kilni_min_u64(GROUPS_MOST,
			     hw->physical->properties.limits
				     .maxComputeWorkGroupCount[0]);
}

uint64_t kilni_vk_rounds(const struct kilni_vk_hw *hw, uint64_t threads)
{
	return kilni_div_up(threads, most_groups(hw) * hw->group);
}

void kilni_vk_set_groups(const struct kilni_vk_batch *batch,
			 struct kilni_vk_dispatch *dispatch, uint64_t groups)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);

	dispatch->kernel.group = (uint16_t)hw->group;
	/* Kernels stride over what is left. */
	dispatch->groups = kilni_min_u64(groups, most_groups(hw));
}

void kilni_vk_set_threads(const struct kilni_vk_batch *batch,
			  struct kilni_vk_dispatch *dispatch,
			  uint64_t threads)
{
	uint64_t group = kilni_vk_hw_of(batch->queue->base.hw)->group;

	kilni_vk_set_groups(batch, dispatch, kilni_div_up(threads, group));
}

/* A copy of the parameters where the kernel sees them. */
static VkDeviceAddress put_params(struct kilni_vk_batch *batch,
				  const struct kilni_vk_dispatch *dispatch)
{
	static const uint64_t nothing = UINT64_MAX;
	VkDeviceAddress address = batch->params_address + batch->params_used;
	char *to = batch->params + batch->params_used;
	uint64_t report = 0;

	if (dispatch->reports) {
		unsigned at = batch->report_count++ * KILNI_VK_REPORT_BYTES;

		memcpy(batch->reports + at, &nothing, sizeof(nothing));
		report = batch->reports_address + at;
	}
	memcpy(to, &report, sizeof(report));
	memcpy(to + 8, (const char *)dispatch->params + 8,
	       dispatch->params_bytes - 8);
	batch->params_used += (uint32_t)kilni_align_up(dispatch->params_bytes,
						       PARAMS_ALIGNMENT);
	return address;
}

enum kiln_status kilni_vk_dispatch(struct kilni_vk_batch *batch,
				   const struct kilni_vk_dispatch *dispatch)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	struct kilni_vk_push push = { 0, 0, 0 };
	VkPipeline pipeline = dispatch->pipeline;

	if (!dispatch->groups)
		return KILN_OK;
	if (!pipeline)
		KILNI_TRY(kilni_vk_pipeline(hw, &dispatch->kernel, &pipeline));
	if (batch->rehearsed)
		return KILN_OK;
	if (pipeline != batch->bound)
		hw->vk.CmdBindPipeline(batch->commands,
				       VK_PIPELINE_BIND_POINT_COMPUTE,
				       pipeline);
	batch->bound = pipeline;
	push.params = put_params(batch, dispatch);
	do {
		if (push.part)
			kilni_vk_barrier(batch);
		hw->vk.CmdPushConstants(batch->commands, hw->pipelines.layout,
					VK_SHADER_STAGE_COMPUTE_BIT, 0,
					sizeof(push), &push);
		hw->vk.CmdDispatch(batch->commands, (uint32_t)dispatch->groups,
				   1, 1);
	} while (++push.part < dispatch->parts);
	return KILN_OK;
}

bool kilni_vk_has_room(const struct kilni_vk_batch *batch)
{
	return batch->params_used + ROOM_BYTES <= KILNI_VK_PARAMS_BYTES &&
	       batch->owns + 1 < KILNI_VK_OWN &&
	       batch->listed + KILNI_VK_REPLAY_MOST < KILNI_VK_LISTED;
}

/* ---- barriers, only where entries conflict ---- */

static bool conflicts(const struct kilni_vk_queue *queue,
		      const struct kilni_operand *o)
{
	bool writes = o->access & KILNI_WRITE;

	for (unsigned i = 0; i < queue->ranges; i++) {
		const struct kilni_vk_range *r = &queue->range[i];

		if ((writes || r->written) && o->address < r->end &&
		    r->begin < o->address + o->bytes)
			return true;
	}
	return false;
}

static bool needs_barrier(const struct kilni_vk_queue *queue,
			  const struct kilni_entry *entry)
{
	if (queue->join ||
	    queue->ranges + entry->operands > KILNI_VK_RANGES)
		return true;
	for (unsigned i = 0; i < entry->operands; i++)
		if (conflicts(queue, &entry->operand[i]))
			return true;
	return false;
}

static void note_ranges(struct kilni_vk_queue *queue,
			const struct kilni_entry *entry)
{
	for (unsigned i = 0; i < entry->operands; i++) {
		const struct kilni_operand *o = &entry->operand[i];

		if (o->bytes)
			queue->range[queue->ranges++] = (struct kilni_vk_range){
				o->address, o->address + o->bytes,
				o->access & KILNI_WRITE
			};
	}
}

enum kiln_status kilni_vk_open_commands(struct kilni_vk_batch *batch)
{
	if (batch->recording)
		return KILN_OK;
	KILNI_TRY(begin(kilni_vk_hw_of(batch->queue->base.hw), batch));
	batch->recording = true;
	add_barrier(batch, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 0);
	return KILN_OK;
}

/*
 * Opens the commands where that has not been done, and orders the entry behind
 * what it conflicts with. What other queues wrote, and a host has waited for,
 * is made visible by a barrier that waits for nothing.
 */
static enum kiln_status order(struct kilni_vk_batch *batch,
			      const struct kilni_entry *entry)
{
	struct kilni_vk_queue *queue = batch->queue;
	bool fresh = !batch->recording;

	if (fresh)
		KILNI_TRY(begin(kilni_vk_hw_of(queue->base.hw), batch));
	batch->recording = true;
	if (needs_barrier(queue, entry)) {
		kilni_vk_barrier(batch);
		queue->ranges = 0;
		queue->join = false;
	} else if (fresh) {
		add_barrier(batch, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 0);
	}
	note_ranges(queue, entry);
	batch->kernels++;
	return KILN_OK;
}

/* ---- elementwise and gather ---- */

/* Whether offsets of any element of a view fit 32 bits. */
static bool is_near(unsigned rank, const uint64_t *shape,
		    const int64_t *stride)
{
	uint64_t span = 0, count = 1;

	for (unsigned d = 0; d < rank; d++) {
		uint64_t step = stride[d] < 0 ? -(uint64_t)stride[d]
					      : (uint64_t)stride[d];

		if (shape[d] > INT32_MAX || step > INT32_MAX)
			return false;
		span += shape[d] ? (shape[d] - 1) * step : 0;
		count *= shape[d];
		if (span > INT32_MAX || count > INT32_MAX)
			return false;
	}
	return true;
}

static unsigned ew_form(const struct kilni_ew_params *p)
{
	if (p->contiguous)
		return 0;
	for (unsigned j = 0; j < 4; j++)
		if (!is_near(p->rank, p->shape, p->stride[j]))
			return 2;
	return 1;
}

void kilni_vk_name(struct kilni_vk_kernel *kernel, const char *stem,
		   unsigned number, unsigned form)
{
	char *at = kernel->module;

	while (*stem)
		*at++ = *stem++;
	if (number >= 10)
		*at++ = (char)('0' + number / 10);
	*at++ = (char)('0' + number % 10);
	*at++ = '_';
	*at = (char)('0' + form);
}

enum kiln_status kilni_vk_record_ew(struct kilni_vk_batch *batch,
				    const struct kilni_ew_params *p)
{
	struct kilni_vk_dispatch dispatch = {
		.params = p,
		/* A dense one reads no shape. */
		.params_bytes = p->contiguous
					? offsetof(struct kilni_ew_params, shape)
					: sizeof(*p),
	};
	struct kilni_vk_kernel *kernel = &dispatch.kernel;

	if (kilni_vk_turns(batch, p))
		return kilni_vk_record_turn(batch, p);
	kilni_vk_name(kernel, "ew", kilni_dtype_stored(kilni_ew_dtype(p)),
		      ew_form(p));
	/* Only what the op looks at makes another pipeline. */
	kernel->constant[0] = (uint16_t)p->op;
	kernel->constant[1] = p->dtype[0];
	if (p->op == KILNI_OP_POWI)
		kernel->constant[2] = p->dtype[2];
	if (p->op == KILNI_OP_MASK_WHERE || p->op == KILNI_OP_MASK_FILL)
		kernel->constant[3] = p->dtype[3];
	kilni_vk_set_threads(batch, &dispatch,
			     kilni_div_up(p->count, kilni_ew_lanes(p)));
	return kilni_vk_dispatch(batch, &dispatch);
}

static unsigned gather_form(const struct kilni_gather_params *p)
{
	uint64_t source[KILNI_RANK_MAX];

	memcpy(source, p->shape, sizeof(source));
	source[p->dim] = (uint64_t)p->dim_size;
	if (!is_near(p->rank, source, p->source_stride) ||
	    !is_near(p->rank, p->shape, p->index_stride))
		return 2;
	return p->rank == 1 && p->index_stride[0] == 1 ? 0 : 1;
}

static enum kiln_status record_rows(struct kilni_vk_batch *batch,
				    const struct kilni_rows *rows)
{
	struct kilni_vk_dispatch dispatch = {
		.params = rows, .params_bytes = sizeof(*rows), .reports = true
	};
	uint64_t groups = rows->pieces ? rows->rows * rows->pieces
				       : kilni_div_up(rows->rows * rows->units,
						      KILNI_ROWS_GROUP);

	kilni_vk_name(&dispatch.kernel, "rows", 16, 0);
	dispatch.kernel.constant[0] = rows->pieces != 0;
	dispatch.kernel.constant[2] = (uint16_t)rows->index_dtype;
	kilni_vk_set_groups(batch, &dispatch, groups);
	dispatch.kernel.group = KILNI_ROWS_GROUP;
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_gather(struct kilni_vk_batch *batch,
					const struct kilni_gather_params *p)
{
	struct kilni_vk_dispatch dispatch = {
		.params = p, .params_bytes = sizeof(*p), .reports = true
	};
	struct kilni_rows rows;

	if (kilni_plan_rows(p, &rows))
		return record_rows(batch, &rows);
	kilni_vk_name(&dispatch.kernel, "gather", p->element_bytes,
		    gather_form(p));
	dispatch.kernel.constant[2] = (uint16_t)p->index_dtype;
	kilni_vk_set_threads(batch, &dispatch, p->count);
	return kilni_vk_dispatch(batch, &dispatch);
}

/* ---- entries ---- */

static enum kiln_status record_kernel(struct kilni_vk_batch *batch,
				      const struct kilni_entry *entry)
{
	switch (entry->kernel) {
	case KILNI_KERNEL_EW:
		return kilni_vk_record_ew(batch, &entry->params.ew);
	case KILNI_KERNEL_GATHER:
		return kilni_vk_record_gather(batch, &entry->params.gather);
	case KILNI_KERNEL_SCATTER:
		return kilni_vk_record_scatter(batch, &entry->params.scatter);
	case KILNI_KERNEL_REDUCE:
		return kilni_vk_record_reduce(batch, &entry->params.reduce);
	case KILNI_KERNEL_MATMUL:
		return kilni_vk_record_matmul(batch, &entry->params.matmul);
	case KILNI_KERNEL_SOFTMAX:
		return kilni_vk_record_softmax(batch, &entry->params.softmax);
	case KILNI_KERNEL_CUSTOM:
		return kilni_vk_record_custom(batch, &entry->params.custom);
	default:
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "vulkan: there is no kernel of number %u",
				  entry->kernel);
	}
}

enum kiln_status kilni_vk_record(struct kilni_vk_batch *batch,
				 const struct kilni_entry *entry)
{
	KILNI_TRY(order(batch, entry));
	return record_kernel(batch, entry);
}

static unsigned dtype_of(const struct kilni_entry *entry)
{
	switch (entry->kernel) {
	case KILNI_KERNEL_EW:
		return kilni_ew_dtype(&entry->params.ew);
	case KILNI_KERNEL_SCATTER:
		return entry->params.scatter.dtype;
	case KILNI_KERNEL_REDUCE:
		return entry->params.reduce.dtype;
	default:
		return entry->params.matmul.dtype;
	}
}

/* What it is recorded as decides, so it is, into a batch that keeps nothing. */
static enum kiln_status rehearse(struct kilni_hw *hw,
				 const struct kilni_entry *entry)
{
	struct kilni_vk_queue queue = { .base.hw = hw };
	struct kilni_vk_batch batch = { .queue = &queue, .rehearsed = true };

	return record_kernel(&batch, entry);
}

enum kiln_status kilni_vk_admit(struct kilni_hw *base,
				const struct kilni_entry *entry)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	enum kiln_status status;

	/* A kernel of the program's own was looked at when it was loaded. */
	if (hw->physical->doubles || entry->kernel == KILNI_KERNEL_CUSTOM ||
	    kilni_vk_is_lost(hw))
		return KILN_OK;
	status = rehearse(base, entry);
	if (status != KILN_ERR_UNSUPPORTED)
		return status;
	return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
			  "%s%s: of %s it is computed in f64, which %s lacks",
			  kilni_op_prefix(entry->op), kilni_ops[entry->op].name,
			  kiln_dtype_name((enum kiln_dtype)dtype_of(entry)),
			  hw->physical->properties.deviceName);
}

/* Where softmax has none it is made of other ops. */
bool kilni_vk_has_kernel(const struct kilni_vk_hw *hw,
			 enum kilni_kernel kernel)
{
	if (kernel == KILNI_KERNEL_SOFTMAX)
		return hw->physical->doubles && hw->can_tile;
	return (unsigned)kernel < KILNI_KERNEL_COUNT;
}

uint64_t kilni_vk_workspace(const struct kilni_hw *hw,
			    enum kilni_kernel kernel, const void *params)
{
	return kilni_vk_plan_workspace(
		kernel == KILNI_KERNEL_MATMUL &&
			kilni_vk_tiles_product(kilni_vk_hw_of(hw), params),
		kernel, params);
}
