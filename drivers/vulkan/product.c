/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <kiln/dtype.h>

#include "kernels/vulkan/params.h"

/* So deep, tiles are worth it. */
#define DEPTH_LEAST 16
/* Of all sizes of tile. */
#define DEPTH_MOST 32
/* Fewer tiles than this leave a device idle: then smaller ones are taken. */
#define TILES_LEAST 96
#define MEDIUM_LEAST 32
/* What splits of k shall make of them, and what a split is worth at least. */
#define GROUPS_WANTED 256
#define SPLIT_LEAST 64
#define SPLITS_MOST 16
#define SPLIT_ALIGNMENT 32
#define WORKSPACE_MOST ((uint64_t)32 << 20)

enum tile {
#define ENUM_(ID, number, rows, columns, wide) ID = number,
	KILNI_VK_TILES(ENUM_)
#undef ENUM_
	NO_TILE = 0
};

/* All integers wrap, so signed and unsigned ones have the same product. */
static unsigned module_of(unsigned dtype)
{
	switch (dtype) {
	case KILN_I64:
		return KILN_U64;
	case KILN_I32:
		return KILN_U32;
	case KILN_I16:
		return KILN_U16;
	case KILN_I8:
		return KILN_U8;
	default:
		return kilni_vk_stored(dtype);
	}
}

static uint64_t batches_of(const struct kilni_matmul_params *p)
{
	uint64_t n = 1;

	for (unsigned d = 0; d < p->batch_rank; d++)
		n *= p->batch_shape[d];
	return n;
}

static bool is_wide(unsigned module)
{
	return module == KILN_F64 || module == KILN_U64;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a - 1) / b + 1;
}

static bool is_float(unsigned module)
{
	return module == KILN_F32 || module == KILN_F16 ||
	       module == KILN_BF16;
}

struct sides {
	uint64_t rows, columns;
};

static struct sides sides_of(enum tile tile, unsigned module)
{
	switch (tile) {
#define SIDES_(ID, number, high, broad, broad_wide)                            \
	case ID:                                                               \
		return (struct sides){ high,                                   \
				       is_wide(module) ? broad_wide : broad };
		KILNI_VK_TILES(SIDES_)
#undef SIDES_
	default:
		return (struct sides){ 1, 1 };
	}
}

/* Tiles of a size in all matrices of the result. */
static uint64_t count_tiles(const struct kilni_matmul_params *p,
			    enum tile tile, unsigned module)
{
	struct sides sides = sides_of(tile, module);

	return div_up(p->m, sides.rows) * div_up(p->n, sides.columns) *
	       batches_of(p);
}

static bool is_whole(const struct kilni_matmul_params *p, enum tile tile,
		     unsigned module)
{
	struct sides sides = sides_of(tile, module);

	return p->m % sides.rows == 0 && p->n % sides.columns == 0 &&
	       p->k % DEPTH_MOST == 0;
}

/* The greatest are no gain where what they read has to be asked for. */
static enum tile choose_tile(const struct kilni_matmul_params *p,
			     unsigned module)
{
	if (p->k < DEPTH_LEAST)
		return NO_TILE;
	if (is_float(module) && is_whole(p, GREAT, module) &&
	    count_tiles(p, GREAT, module) >= TILES_LEAST)
		return GREAT;
	if (count_tiles(p, LARGE, module) >= TILES_LEAST)
		return LARGE;
	return count_tiles(p, MEDIUM, module) < MEDIUM_LEAST ? SMALL : MEDIUM;
}

/* ---- splits of k ---- */

static uint64_t sum_bytes(const struct kilni_matmul_params *p, unsigned module)
{
	return p->m * p->n * batches_of(p) * (is_wide(module) ? 8 : 4);
}

static void plan_splits(const struct kilni_matmul_params *p, unsigned module,
			enum tile tile, struct kilni_vk_product *plan)
{
	uint64_t splits = GROUPS_WANTED / count_tiles(p, tile, module);

	splits = kilni_min_u64(splits, p->k / SPLIT_LEAST);
	splits = kilni_min_u64(splits, WORKSPACE_MOST / sum_bytes(p, module));
	splits = kilni_max_u64(kilni_min_u64(splits, SPLITS_MOST), 1);
	plan->p = *p;
	plan->k_split = kilni_align_up(div_up(p->k, splits), SPLIT_ALIGNMENT);
	plan->splits = div_up(p->k, plan->k_split);
}

uint64_t kilni_vk_matmul_workspace(const struct kilni_hw *base,
				   const struct kilni_matmul_params *p)
{
	unsigned module = module_of(p->dtype);
	struct kilni_vk_product plan;
	enum tile tile = NO_TILE;

	if (sum_bytes(p, module) && kilni_vk_hw_of(base)->tiles)
		tile = choose_tile(p, module);
	if (tile == NO_TILE)
		return 0;
	plan_splits(p, module, tile, &plan);
	return plan.splits > 1 ? plan.splits * sum_bytes(p, module) : 0;
}

/* ---- how a side is read ---- */

struct side {
	uint64_t address, rows, k;
	int64_t row_stride, k_stride;
	const int64_t *batch_stride;
};

static bool fit_runs(const struct kilni_matmul_params *p,
		     const struct side *side, unsigned module, bool along_k)
{
	unsigned bytes = kilni_vk_dtype_bytes(module);
	int64_t run = bytes == 8 ? 2 : 4;
	uint64_t length = along_k ? side->k : side->rows;
	int64_t other = along_k ? side->row_stride : side->k_stride;

	/* Of 64-bit elements they were seen to be slower. */
	if (is_wide(module) ||
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
	kilni_vk_set_threads(batch, &dispatch, p->m * p->n * batches_of(p));
	return kilni_vk_dispatch(batch, &dispatch);
}

static enum kiln_status record_tiles(struct kilni_vk_batch *batch,
				     const struct kilni_matmul_params *p,
				     unsigned module, enum tile tile)
{
	struct kilni_vk_product plan;
	struct kilni_vk_dispatch dispatch = {
		.params = &plan, .params_bytes = sizeof(plan)
	};
	const struct side a = { p->a, p->m, p->k, p->a_row, p->a_col,
				p->a_batch };
	const struct side b = { p->b, p->n, p->k, p->b_col, p->b_row,
				p->b_batch };

	plan_splits(p, module, tile, &plan);
	kilni_vk_name(&dispatch.kernel, "matmul", module, tile);
	dispatch.kernel.constant[1] = (uint16_t)reads_of(p, &a, module);
	dispatch.kernel.constant[2] = (uint16_t)reads_of(p, &b, module);
	dispatch.kernel.constant[3] = is_whole(p, tile, module);
	kilni_vk_set_groups(batch, &dispatch,
			    count_tiles(p, tile, module) * plan.splits);
	dispatch.kernel.group = KILNI_VK_TILE_THREADS;
	KILNI_TRY(kilni_vk_dispatch(batch, &dispatch));
	if (plan.splits == 1)
		return KILN_OK;
	kilni_vk_barrier(batch);
	return record_sum(batch, &plan, module);
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
	uint64_t side = blocks ? KILNI_VK_BLOCK : 1;

	kilni_vk_name(&dispatch.kernel, "matmul", module, 0);
	dispatch.kernel.constant[0] = blocks ? KILNI_VK_BLOCKS
					     : KILNI_VK_ELEMENTS;
	kilni_vk_set_threads(batch, &dispatch,
			     div_up(p->m, side) * div_up(p->n, side) *
				     batches_of(p));
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_matmul(struct kilni_vk_batch *batch,
					const struct kilni_matmul_params *p)
{
	unsigned module = module_of(p->dtype);
	enum tile tile = NO_TILE;

	if (!sum_bytes(p, module))
		return KILN_OK;
	if (kilni_vk_hw_of(batch->queue->base.hw)->tiles)
		tile = choose_tile(p, module);
	return tile == NO_TILE ? record_plain(batch, p, module)
			       : record_tiles(batch, p, module, tile);
}
