/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"
#include "kernels/scatter.h"

#include <string.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

/*
 * Threads that a scatter shall have at least, by giving a lane more owners;
 * each of them reads the whole lane's indices.
 */
#define THREADS_REAL 8192
#define THREADS_SOFTWARE 16
#define OWNERS_MOST 64

static uint64_t owners_of(const struct kilni_vk_batch *batch,
			  const struct kilni_scatter_params *p)
{
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	uint64_t wanted = hw->physical->software ? THREADS_SOFTWARE
						 : THREADS_REAL;
	uint64_t length = p->shape[p->dim], lanes = p->count / length;
	uint64_t owners = 1;

	while (lanes * owners < wanted && owners < OWNERS_MOST &&
	       owners * 4 <= kilni_min_u64(length, (uint64_t)p->dim_size))
		owners *= 2;
	return owners;
}

/* Positions of a lane that a dispatch takes; 0: all of them. */
static uint64_t turns_of(const struct kilni_vk_hw *hw,
			 const struct kilni_scatter_params *p, uint64_t threads)
{
	uint64_t turns = hw->turns / kilni_max_u64(kilni_vk_rounds(hw, threads),
						   1);

	/* Each round costs a turn too. */
	return p->shape[p->dim] < turns / 2 ? 0
					    : kilni_max_u64(turns / 2, 1);
}

static enum kiln_status record_lanes(struct kilni_vk_batch *batch,
				     const struct kilni_scatter_params *p)
{
	struct kilni_vk_dispatch dispatch = {
		.params = p, .params_bytes = sizeof(*p), .reports = true
	};
	uint64_t owners = owners_of(batch, p);
	uint64_t threads = p->count / p->shape[p->dim] * owners;
	uint64_t turns = turns_of(kilni_vk_hw_of(batch->queue->base.hw), p,
				  threads);

	kilni_vk_name(&dispatch.kernel, "scatter", kilni_dtype_stored(p->dtype),
		      0);
	dispatch.kernel.constant[0] = (uint16_t)p->update;
	dispatch.kernel.constant[1] = (uint16_t)p->index_dtype;
	dispatch.kernel.constant[2] = (uint16_t)owners;
	dispatch.kernel.constant[3] = (uint16_t)turns;
	kilni_vk_set_threads(batch, &dispatch, threads);
	if (turns)
		dispatch.parts = kilni_div_up(p->shape[p->dim], turns);
	return kilni_vk_dispatch(batch, &dispatch);
}

/* A dense copy of the result in another dtype. */
static enum kiln_status record_cast(struct kilni_vk_batch *batch,
				    const struct kilni_scatter_params *p,
				    uint64_t to, unsigned to_dtype,
				    uint64_t from, unsigned from_dtype)
{
	struct kilni_ew_params cast;

	memset(&cast, 0, sizeof(cast));
	cast.op = KILNI_OP_CAST;
	cast.count = p->out_count;
	cast.out = to;
	cast.in[0] = from;
	cast.dtype[0] = (uint8_t)to_dtype;
	cast.dtype[1] = (uint8_t)from_dtype;
	cast.contiguous = 1;
	return kilni_vk_record_ew(batch, &cast);
}

enum kiln_status kilni_vk_record_scatter(struct kilni_vk_batch *batch,
					 const struct kilni_scatter_params *p)
{
	bool wide = kilni_scatter_sums_wide(p);

	if (!p->count)
		return KILN_OK;
	if (wide) {
		KILNI_TRY(record_cast(batch, p, p->workspace, KILN_F64, p->out,
				      p->dtype));
		kilni_vk_barrier(batch);
	}
	KILNI_TRY(record_lanes(batch, p));
	if (!wide)
		return KILN_OK;
	kilni_vk_barrier(batch);
	return record_cast(batch, p, p->out, p->dtype, p->workspace, KILN_F64);
}
