/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <kiln/dtype.h>

#include "kernels/vulkan/params.h"

/* From so many rows and columns on, and so deep, tiles are worth it. */
#define TILES_LEAST 32
#define DEPTH_LEAST 16
#define TILE_THREADS 256

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

static enum kilni_vk_product_mode mode_of(const struct kilni_vk_batch *batch,
					  const struct kilni_matmul_params *p)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);

	if (hw->physical->software)
		return KILNI_VK_BLOCKS;
	if (p->m >= TILES_LEAST && p->n >= TILES_LEAST && p->k >= DEPTH_LEAST)
		return KILNI_VK_TILES;
	return KILNI_VK_ELEMENTS;
}

/* Squares of that side in all matrices of the result. */
static uint64_t squares(const struct kilni_matmul_params *p, uint64_t side)
{
	return ((p->m - 1) / side + 1) * ((p->n - 1) / side + 1) *
	       batches_of(p);
}

static uint64_t tile_side(unsigned module)
{
	return module == KILN_F64 || module == KILN_U64 ? KILNI_VK_TILE_WIDE
							: KILNI_VK_TILE;
}

enum kiln_status kilni_vk_record_matmul(struct kilni_vk_batch *batch,
					const struct kilni_matmul_params *p)
{
	struct kilni_vk_dispatch dispatch = {
		.params = p, .params_bytes = sizeof(*p)
	};
	enum kilni_vk_product_mode mode = mode_of(batch, p);
	unsigned module = module_of(p->dtype);

	if (!p->m || !p->n)
		return KILN_OK;
	kilni_vk_name(&dispatch.kernel, "matmul", module, 0);
	dispatch.kernel.constant[0] = (uint16_t)mode;
	switch (mode) {
	case KILNI_VK_TILES:
		kilni_vk_set_groups(batch, &dispatch,
				    squares(p, tile_side(module)));
		dispatch.kernel.group = TILE_THREADS;
		break;
	case KILNI_VK_BLOCKS:
		kilni_vk_set_threads(batch, &dispatch,
				     squares(p, KILNI_VK_BLOCK));
		break;
	default:
		kilni_vk_set_threads(batch, &dispatch, squares(p, 1));
	}
	return kilni_vk_dispatch(batch, &dispatch);
}
