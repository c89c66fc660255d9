/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

/* Threads of a group that has several rows: fewer wait for each other. */
#define GROUP_LEAST 64

static enum kiln_status record_pass(struct kilni_vk_batch *batch,
				    const struct kilni_softmax_params *p,
				    const struct kilni_vk_softmax_plan *plan,
				    enum kilni_vk_softmax_mode mode)
{
	struct kilni_vk_dispatch dispatch = {
		.params = &plan->params, .params_bytes = sizeof(plan->params)
	};
	struct kilni_vk_kernel *kernel = &dispatch.kernel;
	uint64_t groups = p->rows * plan->params.chunks;
	unsigned group = KILNI_SOFTMAX_GROUP;

	kilni_vk_name(kernel, "softmax", kilni_dtype_stored(p->dtype), 0);
	kernel->constant[0] = (uint16_t)mode;
	kernel->constant[1] = (uint16_t)p->is_log;
	kernel->constant[2] = plan->vectors;
	if (mode == KILNI_VK_REGISTERS || mode == KILNI_VK_SHUFFLES) {
		kernel->constant[3] =
			(uint16_t)(__builtin_ctz(plan->threads) |
				   plan->each << 4);
		group = plan->threads > GROUP_LEAST ? plan->threads
						    : GROUP_LEAST;
		groups = kilni_div_up(p->rows * plan->threads, group);
	}
	kilni_vk_set_groups(batch, &dispatch, groups);
	kernel->group = (uint16_t)group;
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_softmax(struct kilni_vk_batch *batch,
					 const struct kilni_softmax_params *p)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	struct kilni_vk_softmax_plan plan;

	kilni_vk_plan_softmax(hw->subgroup, hw->row_group, p, &plan);
	KILNI_TRY(record_pass(batch, p, &plan, plan.mode));
	if (plan.mode != KILNI_VK_MOST)
		return KILN_OK;
	kilni_vk_barrier(batch);
	KILNI_TRY(record_pass(batch, p, &plan, KILNI_VK_SUMS));
	kilni_vk_barrier(batch);
	return record_pass(batch, p, &plan, KILNI_VK_SHARES);
}
