/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <string.h>

#include "kernels/vulkan/params.h"

/* Shorter axes are not worth a tile. */
#define TURN_LEAST 8

static int find_unit(const struct kilni_ew_params *p, unsigned operand)
{
	for (unsigned d = 0; d < p->rank; d++)
		if (p->stride[operand][d] == 1 && p->shape[d] >= TURN_LEAST)
			return (int)d;
	return -1;
}

static void plan_parts(const struct kilni_ew_params *p, int row, int column,
		       struct kilni_vk_turn *plan)
{
	plan->parts = 1;
	for (int d = 0; d < p->rank; d++) {
		if (d == row || d == column)
			continue;
		plan->size[plan->rank] = p->shape[d];
		plan->in_stride[plan->rank] = p->stride[1][d];
		plan->out_stride[plan->rank++] = p->stride[0][d];
		plan->parts *= p->shape[d];
	}
}

/* Whether a strided copy turns two axes round. */
static bool make_plan(const struct kilni_ew_params *p, unsigned bytes,
		      struct kilni_vk_turn *plan)
{
	int row = find_unit(p, 1), column = find_unit(p, 0);
	uint64_t tile = KILNI_VK_TURN_TILE(bytes);

	if (row < 0 || column < 0 || row == column)
		return false;
	memset(plan, 0, sizeof(*plan));
	plan->in = p->in[0];
	plan->out = p->out;
	plan->rows = p->shape[row];
	plan->columns = p->shape[column];
	plan->in_column = p->stride[1][column];
	plan->out_row = p->stride[0][row];
	plan->row_tiles = (plan->rows - 1) / tile + 1;
	plan->tiles = plan->row_tiles * ((plan->columns - 1) / tile + 1);
	plan_parts(p, row, column, plan);
	return true;
}

/* Whether whole words of 4 bytes lie side by side in both, at every tile. */
static bool has_words(const struct kilni_vk_turn *plan, unsigned bytes)
{
	uint64_t all = (uint64_t)plan->in_column | (uint64_t)plan->out_row;

	for (unsigned d = 0; d < plan->rank; d++)
		all |= (uint64_t)plan->in_stride[d] |
		       (uint64_t)plan->out_stride[d];
	return bytes < 4 && !((all * bytes | plan->in | plan->out) % 4);
}

bool kilni_vk_turns(const struct kilni_vk_batch *batch,
		    const struct kilni_ew_params *p)
{
	struct kilni_vk_turn plan;

	return kilni_vk_hw_of(batch->queue->base.hw)->tiles &&
	       p->op == KILNI_OP_COPY && !p->contiguous && !(p->scalars & 1) &&
	       p->count &&
	       make_plan(p, kilni_dtype_bytes[p->dtype[0]], &plan);
}

enum kiln_status kilni_vk_record_turn(struct kilni_vk_batch *batch,
				      const struct kilni_ew_params *p)
{
	struct kilni_vk_turn plan;
	struct kilni_vk_dispatch dispatch = {
		.params = &plan, .params_bytes = sizeof(plan)
	};
	unsigned bytes = kilni_dtype_bytes[p->dtype[0]];

	(void)make_plan(p, bytes, &plan);
	kilni_vk_name(&dispatch.kernel, "turn", bytes, 0);
	dispatch.kernel.constant[0] = has_words(&plan, bytes);
	kilni_vk_set_groups(batch, &dispatch, plan.tiles * plan.parts);
	dispatch.kernel.group = KILNI_VK_TILE_THREADS;
	return kilni_vk_dispatch(batch, &dispatch);
}
