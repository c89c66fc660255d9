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

static bool takes_tiles(const struct kilni_vk_batch *batch,
			const struct kilni_matmul_params *p)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);

	return !hw->physical->software && p->m >= TILES_LEAST &&
	       p->n >= TILES_LEAST && p->k >= DEPTH_LEAST;
}

static uint64_t tiles_of(const struct kilni_matmul_params *p, unsigned module)
{
	uint64_t side = module == KILN_F64 || module == KILN_U64
				? KILNI_VK_TILE_WIDE
				: KILNI_VK_TILE;

	return ((p->m - 1) / side + 1) * ((p->n - 1) / side + 1);
}

enum kiln_status kilni_vk_record_matmul(struct kilni_vk_batch *batch,
					const struct kilni_matmul_params *p)
{
	struct kilni_vk_dispatch dispatch = {
		.params = p, .params_bytes = sizeof(*p)
	};
	unsigned module = module_of(p->dtype);

	if (!p->m || !p->n)
		return KILN_OK;
	kilni_vk_name(&dispatch.kernel, "matmul", module, 0);
	if (takes_tiles(batch, p)) {
		dispatch.kernel.constant[0] = 1;
		kilni_vk_set_groups(batch, &dispatch,
				    tiles_of(p, module) * batches_of(p));
		dispatch.kernel.group = TILE_THREADS;
	} else {
		kilni_vk_set_threads(batch, &dispatch,
				     p->m * p->n * batches_of(p));
	}
	return kilni_vk_dispatch(batch, &dispatch);
}
