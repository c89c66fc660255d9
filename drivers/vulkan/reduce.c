/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <string.h>

#include <kiln/dtype.h>

#include "kernels/vulkan/params.h"

/* Fewer elements than this are one thread's work. */
#define GROUP_LEAST 32
/* What fills a device, and what a chunk is worth at least. */
#define GROUPS_WANTED 4096
#define THREADS_WANTED 262144
#define GROUP_CHUNK 4096
#define THREAD_CHUNK 64
#define CHUNKS_MOST 4096
/* So many chunks are merged by a group, fewer by a thread. */
#define MERGE_GROUP_LEAST 64
#define PARTIAL_BYTES 16

struct plan {
	struct kilni_vk_reduce params;
	enum kilni_vk_reduce_mode mode;
};

struct axes {
	unsigned rank;
	uint64_t *size;
	int64_t *stride;
};

/* Adds an axis; it joins the one before where the two are one in memory. */
static void add_axis(struct axes *axes, uint64_t size, int64_t stride)
{
	unsigned last = axes->rank - 1;

	if (size == 1)
		return;
	if (axes->rank && axes->stride[last] == stride * (int64_t)size) {
		axes->size[last] *= size;
		axes->stride[last] = stride;
		return;
	}
	axes->size[axes->rank] = size;
	axes->stride[axes->rank++] = stride;
}

static void split_axes(const struct kilni_reduce_params *p,
		       struct kilni_vk_reduce *r)
{
	struct axes kept = { 0, r->kept_size, r->kept_stride };
	struct axes reduced = { 0, r->reduced_size, r->reduced_stride };

	r->outputs = r->length = 1;
	for (unsigned d = 0; d < p->rank; d++) {
		if (p->axes >> d & 1) {
			r->length *= p->shape[d];
			add_axis(&reduced, p->shape[d], p->stride[d]);
		} else {
			r->outputs *= p->shape[d];
			add_axis(&kept, p->shape[d], p->stride[d]);
		}
	}
	r->kept_rank = kept.rank;
	r->reduced_rank = reduced.rank;
}

static bool steps_by_one(unsigned rank, const int64_t *stride)
{
	return rank && (stride[rank - 1] == 1 || stride[rank - 1] == -1);
}

/* Neighbouring threads shall read neighbours. */
static enum kilni_vk_reduce_mode choose_mode(const struct kilni_vk_reduce *r)
{
	if (r->length < GROUP_LEAST)
		return KILNI_VK_BY_THREADS;
	if (steps_by_one(r->kept_rank, r->kept_stride) &&
	    r->kept_size[r->kept_rank - 1] >= GROUP_LEAST &&
	    !steps_by_one(r->reduced_rank, r->reduced_stride))
		return KILNI_VK_BY_THREADS;
	return KILNI_VK_BY_GROUPS;
}

/* A function of sizes alone. */
static void cut(struct plan *plan)
{
	struct kilni_vk_reduce *r = &plan->params;
	bool groups = plan->mode == KILNI_VK_BY_GROUPS;
	uint64_t wanted = groups ? GROUPS_WANTED : THREADS_WANTED;
	uint64_t least = groups ? GROUP_CHUNK : THREAD_CHUNK;
	uint64_t chunks = kilni_min_u64(wanted / r->outputs,
					r->length / least);

	chunks = kilni_max_u64(kilni_min_u64(chunks, CHUNKS_MOST), 1);
	r->chunk = r->length / chunks + (r->length % chunks != 0);
	r->chunks = r->chunk ? r->length / r->chunk +
				       (r->length % r->chunk != 0)
			     : 1;
}

static void make_plan(const struct kilni_reduce_params *p, struct plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	split_axes(p, &plan->params);
	if (!plan->params.outputs)
		return;
	plan->mode = choose_mode(&plan->params);
	cut(plan);
	plan->params.in = p->in;
	plan->params.out = p->out;
	plan->params.index = p->index;
	plan->params.partials = p->workspace;
}

uint64_t kilni_vk_reduce_workspace(const struct kilni_reduce_params *p)
{
	struct plan plan;

	make_plan(p, &plan);
	if (plan.params.chunks <= 1)
		return 0;
	return plan.params.outputs * plan.params.chunks * PARTIAL_BYTES;
}

/* ---- recording ---- */

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
	uint64_t parts = merges ? r->outputs : r->outputs * r->chunks;
	struct kilni_vk_kernel *kernel = &dispatch.kernel;

	kilni_vk_name(kernel, "reduce", kilni_vk_stored(p->dtype),
		      fold_of(p->op));
	kernel->constant[0] = (uint16_t)p->op;
	kernel->constant[1] = (uint16_t)mode;
	kernel->constant[2] = (uint16_t)result_dtype(p);
	kernel->constant[3] = (uint16_t)flags;
	if (mode == KILNI_VK_BY_THREADS || mode == KILNI_VK_MERGE_THREADS)
		kilni_vk_set_threads(batch, &dispatch, parts);
	else
		kilni_vk_set_groups(batch, &dispatch, parts);
	return kilni_vk_dispatch(batch, &dispatch);
}

enum kiln_status kilni_vk_record_reduce(struct kilni_vk_batch *batch,
					const struct kilni_reduce_params *p)
{
	struct plan plan;

	make_plan(p, &plan);
	if (!plan.params.outputs)
		return KILN_OK;
	if (plan.params.chunks == 1)
		return record_pass(batch, p, &plan.params, plan.mode,
				   result_flags(p));
	KILNI_TRY(record_pass(batch, p, &plan.params, plan.mode,
			      KILNI_VK_PARTIAL));
	kilni_vk_barrier(batch);
	return record_pass(batch, p, &plan.params,
			   plan.params.chunks < MERGE_GROUP_LEAST
				   ? KILNI_VK_MERGE_THREADS
				   : KILNI_VK_MERGE_GROUPS,
			   result_flags(p));
}
