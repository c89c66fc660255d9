/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rows.h"

#include <string.h>

#include "base/base.h"

/* Elements behind the chosen axis where they lie side by side; else 0. */
static uint64_t dense_behind(const struct kilni_gather_params *p)
{
	uint64_t inner = 1;

	for (unsigned d = p->rank; d-- > p->dim + 1;) {
		if (p->shape[d] != 1 &&
		    (p->index_stride[d] ||
		     p->source_stride[d] != (int64_t)inner))
			return 0;
		inner *= p->shape[d];
	}
	return inner;
}

bool kilni_plan_rows(const struct kilni_gather_params *p,
		     struct kilni_rows *plan)
{
	uint64_t inner = dense_behind(p), bytes = inner * p->element_bytes;

	if (!bytes || bytes % 16 || (p->source | p->out) % 16)
		return false;
	memset(plan, 0, sizeof(*plan));
	for (unsigned d = 0; d <= p->dim; d++) {
		int64_t step = p->source_stride[d] * p->element_bytes;

		if (step % 16)
			return false;
		plan->shape[d] = p->shape[d];
		plan->source_stride[d] = step / 16;
		plan->index_stride[d] = p->index_stride[d];
	}
	plan->report = p->report;
	plan->out = p->out;
	plan->source = p->source;
	plan->index = p->index;
	plan->dim_size = p->dim_size;
	plan->rows = p->count / inner;
	plan->units = bytes / 16;
	plan->inner = inner;
	if (plan->units >= KILNI_ROWS_PIECE)
		plan->pieces = kilni_div_up(plan->units, KILNI_ROWS_PIECE);
	plan->rank = p->dim + 1;
	plan->index_dtype = p->index_dtype;
	/* CUDA has a block for each piece. */
	return plan->rows * plan->pieces <= INT32_MAX;
}
