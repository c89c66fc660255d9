/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_PRODUCT_H
#define KILNI_KERNELS_PRODUCT_H

#include <stdint.h>

#include "kernels/abi.h"

/* What matrix products have in common on the GPUs. */

/* Matrices of the result. */
uint64_t kilni_product_batches(const struct kilni_matmul_params *p);
/* Bytes of a sum, 4 or 8: elements that are smaller are summed in 4. */
unsigned kilni_product_sum_bytes(unsigned dtype);
/* How much of k, at least 1, a split takes; *splits, at most as many as it was,
 * is how many there are then. */
uint64_t kilni_product_split(uint64_t k, uint64_t *splits);

#endif
