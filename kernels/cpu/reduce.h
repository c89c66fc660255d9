/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_REDUCE_H
#define KILNI_KERNELS_CPU_REDUCE_H

#include <stdint.h>

#include "kernels/abi.h"

/*
 * How one reduction is cut. Everything here follows from shapes, strides and
 * the op alone, so that neither the width of the team nor the instruction-set
 * level changes which elements meet in which order.
 *
 *   tile    up to width neighbouring outputs along the innermost kept axis
 *   chunk   part of the reduced range of a tile; several only where there are
 *           too few tiles to share out
 *   block   elements (rows form) or rows (columns form) folded in one go
 *
 * Rows form: the elements of an output are read one after another, in place
 * where they lie side by side, else through a small buffer. Columns form: the
 * outputs of a tile lie side by side and are folded as vectors.
 */

#define KILNI_REDUCE_WIDTH 256      /* outputs of a tile, at most */
#define KILNI_REDUCE_ROW_BLOCK 2048
#define KILNI_REDUCE_COLUMN_BLOCK 128
#define KILNI_REDUCE_SHORT 64       /* rows searched element by element */
#define KILNI_REDUCE_SMALL 16384    /* elements that the caller does alone */
#define KILNI_REDUCE_TASK 32768     /* elements worth handing to a thread */
#define KILNI_REDUCE_TASKS 256      /* parts to cut a large reduction into */

struct kilni_reduce_axis {
	uint64_t size;
	int64_t stride;
};

struct kilni_reduce_plan {
	struct kilni_reduce_axis kept[KILNI_RANK_MAX];    /* but the inner */
	struct kilni_reduce_axis reduced[KILNI_RANK_MAX];
	unsigned kept_rank;
	unsigned reduced_rank;
	struct kilni_reduce_axis inner;  /* the innermost kept axis */
	int64_t base;        /* first element, relative to the view's start */
	uint64_t outputs;
	uint64_t length;     /* elements per output */
	uint64_t width;
	uint64_t inner_tiles;
	uint64_t tiles;
	uint64_t block;
	uint64_t chunk;
	uint64_t chunks;     /* per tile */
	uint64_t group;      /* tiles per task where chunks is 1 */
	int columns;
	int direct;          /* rows lie side by side */
	int indexed;         /* the order of the reduced axes matters */
};

/* Fills plan from parameters whose addresses may be blank. */
void kilni_reduce_plan(const struct kilni_reduce_params *p,
		       struct kilni_reduce_plan *plan);

#endif
