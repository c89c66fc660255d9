/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include "kernels/vulkan/params.h"

/* Whether whole words of 4 bytes lie side by side in both, at every tile. */
static bool has_words(const struct kilni_turn *plan)
{
	uint64_t all = (uint64_t)plan->in_column | (uint64_t)plan->out_row;

	for (unsigned d = 0; d < plan->rank; d++)
		all |= (uint64_t)plan->in_stride[d] |
		       (uint64_t)plan->out_stride[d];
	return plan->bytes < 4 &&
	       !((all * plan->bytes | plan->in | plan->out) % 4);
}

bool kilni_vk_turns(const struct kilni_vk_batch *batch,
		    const struct kilni_ew_params *p)
{
	struct kilni_turn plan;

	return kilni_vk_hw_of(batch->queue->base.hw)->tiles &&
	       p->op == KILNI_OP_COPY && !p->contiguous && !(p->scalars & 1) &&
	       p->count &&
	       kilni_plan_turn(p, kilni_dtype_bytes[p->dtype[0]], &plan);
}

enum kiln_status kilni_vk_record_turn(struct kilni_vk_batch *batch,
				      const struct kilni_ew_params *p)
{
	struct kilni_vk_turn plan = { .report = 0 };
	struct kilni_vk_dispatch dispatch = {
		.params = &plan, .params_bytes = sizeof(plan)
	};
	unsigned bytes = kilni_dtype_bytes[p->dtype[0]];

	(void)kilni_plan_turn(p, bytes, &plan.turn);
	kilni_vk_name(&dispatch.kernel, "turn", bytes, 0);
	dispatch.kernel.constant[0] = has_words(&plan.turn);
	kilni_vk_set_groups(batch, &dispatch, plan.turn.tiles * plan.turn.parts);
	dispatch.kernel.group = KILNI_VK_TILE_THREADS;
	return kilni_vk_dispatch(batch, &dispatch);
}
