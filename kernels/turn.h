/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_TURN_H
#define KILNI_KERNELS_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"

/*
 * A copy in which rows lie side by side in the input (stride 1) and columns in
 * the result, for each part of the other axes, by tiles. Strides in elements.
 */
struct kilni_turn {
	uint64_t in;
	uint64_t out;
	uint64_t rows, columns;
	int64_t in_column;
	int64_t out_row;
	uint64_t row_tiles;
	uint64_t tiles;        /* of a part */
	uint64_t parts;
	uint32_t rank;
	uint32_t bytes;        /* known to the kernel; for who looks on */
	uint64_t size[KILNI_RANK_MAX];
	int64_t in_stride[KILNI_RANK_MAX];
	int64_t out_stride[KILNI_RANK_MAX];
};

/* Side of a tile. */
#define KILNI_TURN_TILE(bytes) ((bytes) == 8 ? 32 : 64)

/* Whether a strided copy of elements of that size turns two axes round. */
bool kilni_plan_turn(const struct kilni_ew_params *p, unsigned bytes,
		     struct kilni_turn *plan);

#endif
