/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/turn.h"

#include <string.h>

#include "base/base.h"

/* Shorter axes are not worth a tile. */
#define TURN_LEAST 8

/* An axis that lies side by side in that operand, or -1. */
static int find_unit(const struct kilni_ew_params *p, unsigned operand)
{
	for (unsigned d = 0; d < p->rank; d++)
		if (p->stride[operand][d] == 1 && p->shape[d] >= TURN_LEAST)
			return (int)d;
	return -1;
}

static void add_parts(const struct kilni_ew_params *p, int row, int column,
		      struct kilni_turn *plan)
{
	plan->parts = 1;
	for (int d = 0; d < p->rank; d++) {
		if (d == row || d == column)
			continue;
		plan->size[plan->rank] = p->shape[d];
		plan->in_stride[plan->rank] = p->stride[1][d];
		plan->out_stride[plan->rank++] = p->stride[0][d];
		plan->parts *= p->shape[d];
	}
}

bool kilni_plan_turn(const struct kilni_ew_params *p, unsigned bytes,
		     struct kilni_turn *plan)
{
	int row = find_unit(p, 1), column = find_unit(p, 0);
	uint64_t tile = KILNI_TURN_TILE(bytes);

	if (row < 0 || column < 0 || row == column)
		return false;
	memset(plan, 0, sizeof(*plan));
	plan->bytes = bytes;
	plan->in = p->in[0];
	plan->out = p->out;
	plan->rows = p->shape[row];
	plan->columns = p->shape[column];
	plan->in_column = p->stride[1][column];
	plan->out_row = p->stride[0][row];
	plan->row_tiles = kilni_div_up(plan->rows, tile);
	plan->tiles = plan->row_tiles * kilni_div_up(plan->columns, tile);
	add_parts(p, row, column, plan);
	return true;
}
