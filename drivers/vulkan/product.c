/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <kiln/dtype.h>

#include "kernels/product.h"
#include "kernels/vulkan/plan.h"

/* ---- how a side is read ---- */

struct side {
	uint64_t address, rows, k;
	int64_t row_stride, k_stride;
	const int64_t *batch_stride;
};

static bool fit_runs(const struct kilni_matmul_params *p,
		     const struct side *side, unsigned module, bool along_k)
{
	unsigned bytes = kilni_dtype_bytes[module];
	int64_t run = bytes == 8 ? 2 : 4;
	uint64_t length = along_k ? side->k : side->rows;
	int64_t other = along_k ? side->row_stride : side->k_stride;

	/* Of 64-bit elements they were seen to be slower. */
	if (kilni_product_sum_bytes(module) == 8 ||
	    (along_k ? side->k_stride : side->row_stride) != 1 ||
	    side->address % (uint64_t)(run * bytes) ||
	    length % (uint64_t)run || other % run)
		return false;
	for (unsigned d = 0; d < p->batch_rank; d++)
		if (side->batch_stride[d] % run)
			return false;
	return true;
}

static unsigned reads_of(const struct kilni_matmul_params *p,
			 const struct side *side, unsigned module)
{
	bool along_k = side->k_stride == 1 || side->row_stride != 1;

	return (along_k ? KILNI_VK_ALONG_K : 0) |
	       (fit_runs(p, side, module, along_k) ? KILNI_VK_RUNS : 0);
}

static enum kiln_status record_sum(struct kilni_vk_batch *batch,
				   const struct kilni_vk_product *plan,
				   unsigned module)
{
	struct kilni_vk_dispatch dispatch = {
		.params = plan, .params_bytes = sizeof(*plan)
	};
	const struct kilni_matmul_params *p = &plan->p;

	kilni_vk_name(&dispatch.kernel, "matmul", module, 0);
	dispatch.kernel.constant[0] = KILNI_VK_ADD;
	kilni_vk_set_threads(batch, &dispatch,
			     p->m * p->n * kilni_product_batches(p));
	return kilni_vk_dispatch(batch, &dispatch);
}

static enum kiln_status record_tiles(struct kilni_vk_batch *batch,
				     const struct kilni_matmul_params *p,
				     unsigned module, enum kilni_vk_tile tile)
{
	struct kilni_vk_product plan;
	struct kilni_vk_dispatch dispatch = {
		.params = &plan, .params_bytes = sizeof(plan)
	};
	const struct side a = { p->a, p->m, p->k, p->a_row, p->a_col,
				p->a_batch };
	const struct side b = { p->b, p->n, p->k, p->b_col, p->b_row,
				p->b_batch };

	kilni_vk_plan_product(p, module, tile, &plan);
	kilni_vk_name(&dispatch.kernel, "matmul", module, tile);
	dispatch.kernel.constant[1] = (uint16_t)reads_of(p, &a, module);
	dispatch.kernel.constant[2] = (uint16_t)reads_of(p, &b, module);
	dispatch.kernel.constant[3] = kilni_vk_product_is_whole(p, tile, module);
	kilni_vk_set_groups(batch, &dispatch,
			    kilni_vk_product_tiles(p, tile, module) * plan.splits);
	dispatch.kernel.group = KILNI_VK_TILE_THREADS;
	KILNI_TRY(kilni_vk_dispatch(batch, &dispatch));
	if (plan.splits == 1)
		return KILN_OK;
	kilni_vk_barrier(batch);
	return record_sum(batch, &plan, module);
}

/* One for each element, or for each block of them where loads cost most. */
static uint64_t plain_threads(const struct kilni_vk_hw *hw,
			      const struct kilni_matmul_params *p)
{
	uint64_t side = hw->physical->software ? KILNI_VK_BLOCK : 1;

	return kilni_div_up(p->m, side) * kilni_div_up(p->n, side) *
	       kilni_product_batches(p);
}

/* Whether no thread loops for longer than the device lets it. */
static bool plain_ends(const struct kilni_vk_hw *hw,
		       const struct kilni_matmul_params *p)
{
	uint64_t rounds = kilni_vk_rounds(hw, plain_threads(hw, p));

	return p->k < hw->turns / kilni_max_u64(rounds, 1);
}

bool kilni_vk_tiles_product(const struct kilni_vk_hw *hw,
			    const struct kilni_matmul_params *p)
{
	return hw->tiles || (hw->can_tile && !plain_ends(hw, p));
}

static enum kiln_status record_plain(struct kilni_vk_batch *batch,
				     const struct kilni_matmul_params *p,
				     unsigned module)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	struct kilni_vk_dispatch dispatch = {
		.params = p, .params_bytes = sizeof(*p)
	};
	bool blocks = hw->physical->software;

	if (!plain_ends(hw, p))
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "vulkan: a product of %llu by %llu by %llu",
				  (unsigned long long)p->m,
				  (unsigned long long)p->k,
				  (unsigned long long)p->n);
	kilni_vk_name(&dispatch.kernel, "matmul", module, 0);
	dispatch.kernel.constant[0] = blocks ? KILNI_VK_BLOCKS
					     : KILNI_VK_ELEMENTS;
	kilni_vk_set_threads(batch, &dispatch, plain_threads(hw, p));
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_matmul(struct kilni_vk_batch *batch,
					const struct kilni_matmul_params *p)
{
	unsigned module = kilni_vk_product_module(p->dtype);
	enum kilni_vk_tile tile = KILNI_VK_TILE_NONE;

	if (!p->m || !p->n || !kilni_product_batches(p))
		return KILN_OK;
	if (kilni_vk_tiles_product(kilni_vk_hw_of(batch->queue->base.hw), p))
		tile = kilni_vk_product_tile(p, module);
	return tile == KILNI_VK_TILE_NONE ? record_plain(batch, p, module)
			       : record_tiles(batch, p, module, tile);
}
