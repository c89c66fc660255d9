/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include "kernels/vulkan/plan.h"

/* So many chunks are merged by a group, fewer by a thread. */
#define MERGE_GROUP_LEAST 64

/* Rows that a subgroup takes, and how many there must be. */
#define SUBGROUP_BYTES_MOST 8192
#define SUBGROUP_OUTPUTS_LEAST 1024

static unsigned fold_of(unsigned op)
{
	switch (op) {
	case KILNI_OP_SUM:
	case KILNI_OP_MEAN:
		return 0;
	case KILNI_OP_PROD:
		return 1;
	case KILNI_OP_ANY:
	case KILNI_OP_ALL:
		return 3;
	default:
		return 2;
	}
}

static unsigned result_flags(const struct kilni_reduce_params *p)
{
	if (p->op == KILNI_OP_ARGMAX || p->op == KILNI_OP_ARGMIN)
		return KILNI_VK_INDEXED;
	return KILNI_VK_VALUED | (p->index ? KILNI_VK_INDEXED : 0);
}

static unsigned result_dtype(const struct kilni_reduce_params *p)
{
	if (p->op == KILNI_OP_ANY || p->op == KILNI_OP_ALL)
		return p->out_dtype;
	return result_flags(p) & KILNI_VK_INDEXED ? p->index_dtype : 0;
}

/* Whether words hold neighbouring outputs' elements everywhere. */
static bool has_words(const struct kilni_vk_reduce *r, unsigned bytes)
{
	unsigned broad = sizeof(uint32_t) / bytes;

	if (!r->kept_rank || r->kept_stride[r->kept_rank - 1] != 1 ||
	    r->kept_size[r->kept_rank - 1] % broad || r->in % sizeof(uint32_t))
		return false;
	for (unsigned d = 0; d + 1 < r->kept_rank; d++)
		if (r->kept_stride[d] % (int)broad)
			return false;
	return r->reduced_rank == 1 && r->reduced_stride[0] % (int)broad == 0;
}

/*
 * Short rows are a subgroup's work, where there are many. The order in which
 * an output's elements are folded is the same by words and by threads.
 */
static enum kilni_vk_reduce_mode mode_of(const struct kilni_vk_batch *batch,
					 const struct kilni_vk_reduce_plan *plan,
					 const struct kilni_reduce_params *p)
{
	const struct kilni_vk_reduce *r = &plan->params;
	unsigned bytes = kilni_dtype_bytes[p->dtype];

	if (plan->mode == KILNI_VK_BY_THREADS)
		return bytes <= 2 && r->chunks > 1 && has_words(r, bytes)
			       ? KILNI_VK_BY_WORDS
			       : KILNI_VK_BY_THREADS;
	if (plan->mode == KILNI_VK_BY_RUNS && r->chunks == 1 &&
	    r->length * bytes <= SUBGROUP_BYTES_MOST &&
	    r->outputs >= SUBGROUP_OUTPUTS_LEAST &&
	    kilni_vk_hw_of(batch->queue->base.hw)->subgroup)
		return KILNI_VK_BY_SUBGROUPS;
	return plan->mode;
}

static uint16_t join_of(const struct kilni_vk_batch *batch,
			enum kilni_vk_reduce_mode mode)
{
	if (mode == KILNI_VK_BY_THREADS || mode == KILNI_VK_BY_WORDS ||
	    mode == KILNI_VK_MERGE_THREADS ||
	    !kilni_vk_hw_of(batch->queue->base.hw)->subgroup)
		return KILNI_VK_JOIN_SHARED;
	return KILNI_VK_JOIN_SUBGROUPS;
}

static enum kiln_status record_pass(struct kilni_vk_batch *batch,
				    const struct kilni_reduce_params *p,
				    const struct kilni_vk_reduce *r,
				    enum kilni_vk_reduce_mode mode,
				    unsigned flags)
{
	struct kilni_vk_dispatch dispatch = {
		.params = r, .params_bytes = sizeof(*r)
	};
	bool merges = mode == KILNI_VK_MERGE_GROUPS ||
		      mode == KILNI_VK_MERGE_THREADS;
	const struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	uint64_t parts = merges ? r->outputs : r->outputs * r->chunks;
	struct kilni_vk_kernel *kernel = &dispatch.kernel;

	kilni_vk_name(kernel, "reduce", kilni_dtype_stored(p->dtype),
		      fold_of(p->op));
	kernel->constant[0] = (uint16_t)p->op;
	kernel->constant[1] = (uint16_t)mode;
	kernel->constant[2] = join_of(batch, mode);
	kernel->constant[3] = (uint16_t)(flags | result_dtype(p)
						 << KILNI_VK_RESULT_SHIFT);
	if (mode == KILNI_VK_BY_THREADS || mode == KILNI_VK_MERGE_THREADS)
		kilni_vk_set_threads(batch, &dispatch, parts);
	else if (mode == KILNI_VK_BY_SUBGROUPS)
		kilni_vk_set_threads(batch, &dispatch, parts * hw->subgroup);
	else if (mode == KILNI_VK_BY_WORDS)
		kilni_vk_set_threads(batch, &dispatch,
				     parts * kilni_dtype_bytes[p->dtype] / 4);
	else
		kilni_vk_set_groups(batch, &dispatch, parts);
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_reduce(struct kilni_vk_batch *batch,
					const struct kilni_reduce_params *p)
{
	unsigned flags = result_flags(p);
	struct kilni_vk_reduce_plan plan;

	kilni_vk_plan_reduce(p, &plan);
	if (!plan.params.outputs)
		return KILN_OK;
	if (plan.params.chunks == 1)
		return record_pass(batch, p, &plan.params,
				   mode_of(batch, &plan, p), flags);
	KILNI_TRY(record_pass(batch, p, &plan.params, mode_of(batch, &plan, p),
			      KILNI_VK_PARTIAL | (flags & KILNI_VK_INDEXED)));
	kilni_vk_barrier(batch);
	return record_pass(batch, p, &plan.params,
			   plan.params.chunks < MERGE_GROUP_LEAST
				   ? KILNI_VK_MERGE_THREADS
				   : KILNI_VK_MERGE_GROUPS,
			   flags);
}
