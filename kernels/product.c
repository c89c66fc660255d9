/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include "base/base.h"
#include "kernels/dtype.h"

/* What the kernels take of k at a time divides it. */
#define SPLIT_ALIGNMENT 32

uint64_t kilni_product_batches(const struct kilni_matmul_params *p)
{
	uint64_t n = 1;

	for (unsigned d = 0; d < p->batch_rank; d++)
		n *= p->batch_shape[d];
	return n;
}

unsigned kilni_product_sum_bytes(unsigned dtype)
{
	return kilni_dtype_bytes[dtype] == 8 ? 8 : 4;
}

uint64_t kilni_product_split(uint64_t k, uint64_t *splits)
{
	uint64_t part = kilni_align_up(kilni_div_up(k, *splits),
				       SPLIT_ALIGNMENT);

	*splits = kilni_div_up(k, part);
	return part;
}
