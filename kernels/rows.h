/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_ROWS_H
#define KILNI_KERNELS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"

/*
 * A gather of whole rows of units times 16 bytes, inner elements each. The
 * last of the rank axes is the chosen one; strides of the source in units.
 */
struct kilni_rows {
	uint64_t report;
	uint64_t out;
	uint64_t source;
	uint64_t index;
	int64_t dim_size;
	uint64_t rows;
	uint64_t units;
	uint64_t inner;
	uint64_t pieces;       /* of a row, a group each; 0: rows are short */
	uint32_t rank;
	uint32_t index_dtype;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t source_stride[KILNI_RANK_MAX];
	int64_t index_stride[KILNI_RANK_MAX];
};

/* Threads of a group, and units of a piece: two for each. */
#define KILNI_ROWS_GROUP 128
#define KILNI_ROWS_PIECE (2 * KILNI_ROWS_GROUP)

/* Whether a gather takes whole rows that can go 16 bytes at a time. */
bool kilni_plan_rows(const struct kilni_gather_params *p,
		     struct kilni_rows *plan);

#endif
