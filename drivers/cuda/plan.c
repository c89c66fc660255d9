/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/plan.h"

#include <stdbool.h>
#include <string.h>

#include <kiln/dtype.h>

#include "base/base.h"
#include "kernels/registry.h"

static uint64_t magnitude(int64_t stride)
{
	return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* ---- forms ---- */

/* The farthest offset of an operand; saturates. */
static uint64_t reach(const uint64_t *shape, const int64_t *stride,
		      unsigned rank)
{
	uint64_t sum = 0, step;

	for (unsigned d = 0; d < rank; d++) {
		if (shape[d] < 2)
			continue;
		if (__builtin_mul_overflow(shape[d] - 1, magnitude(stride[d]),
					   &step) ||
		    __builtin_add_overflow(sum, step, &sum))
			return UINT64_MAX;
	}
	return sum;
}

unsigned kilni_cuda_ew_form(const struct kilni_ew_params *p)
{
	if (p->contiguous)
		return 0;
	if (p->count > INT32_MAX)
		return 2;
	for (int k = 0; k < 4; k++)
		if (reach(p->shape, p->stride[k], p->rank) > INT32_MAX)
			return 2;
	return 1;
}

unsigned kilni_cuda_gather_form(const struct kilni_gather_params *p)
{
	uint64_t shape[KILNI_RANK_MAX];

	memcpy(shape, p->shape, sizeof(shape));
	shape[p->dim] = (uint64_t)p->dim_size;
	if (p->count > INT32_MAX || p->dim_size > INT32_MAX ||
	    reach(shape, p->source_stride, p->rank) > INT32_MAX ||
	    reach(p->shape, p->index_stride, p->rank) > INT32_MAX)
		return 2;
	return p->rank == 1 && p->index_stride[0] == 1 ? 0 : 1;
}

/* ---- reductions ---- */

/* Blocks that fill a large device once, chunks included. */
#define REDUCE_BLOCKS 1024
/* Elements of a thread from which a chunk is worth a block of its own. */
#define REDUCE_EACH 16

struct axis {
	uint64_t size;
	int64_t stride;
};

/* The axes of one kind, those of size 1 left out. */
static unsigned collect(const struct kilni_reduce_params *p, bool reduced,
			struct axis *axes, uint64_t *count)
{
	unsigned n = 0;

	*count = 1;
	for (unsigned d = 0; d < p->rank; d++) {
		if ((p->axes >> d & 1) != reduced)
			continue;
		*count *= p->shape[d];
		if (p->shape[d] != 1)
			axes[n++] = (struct axis){ p->shape[d], p->stride[d] };
	}
	return n;
}

/* From far to near: the order has no meaning, and more axes join. */
static void sort_axes(struct axis *axes, unsigned n)
{
	struct axis axis;
	unsigned j;

	for (unsigned i = 1; i < n; i++) {
		axis = axes[i];
		for (j = i; j && magnitude(axes[j - 1].stride) <
					 magnitude(axis.stride);
		     j--)
			axes[j] = axes[j - 1];
		axes[j] = axis;
	}
}

/* Joins neighbours that step through memory as one axis. */
static unsigned join_axes(struct axis *axes, unsigned n)
{
	unsigned joined = 0;

	for (unsigned i = 0; i < n; i++) {
		struct axis *last = joined ? &axes[joined - 1] : NULL;

		if (last && last->stride ==
				    axes[i].stride * (int64_t)axes[i].size) {
			last->size *= axes[i].size;
			last->stride = axes[i].stride;
		} else {
			axes[joined++] = axes[i];
		}
	}
	return joined;
}

static uint32_t power_at_most(uint64_t most)
{
	uint32_t power = 1;

	while (power < KILNI_CUDA_BLOCK && 2 * (uint64_t)power <= most)
		power *= 2;
	return power;
}

/*
 * Threads per output. Along rows that lie side by side neighbouring threads
 * read neighbouring elements; in columns form they have neighbouring outputs.
 */
static void choose_lanes(struct kilni_cuda_reduce *r, const struct axis *kept,
			 const struct axis *reduced)
{
	bool rows = r->reduced_rank &&
		    magnitude(reduced[r->reduced_rank - 1].stride) == 1;

	r->columns = !rows && r->kept_rank &&
		     magnitude(kept[r->kept_rank - 1].stride) == 1;
	if (!r->columns) {
		r->lanes = r->length > 2048 ? KILNI_CUDA_BLOCK
					    : power_at_most(kilni_min_u64(
						      r->length, 32));
		return;
	}
	/* Narrow rows leave threads for more of them. */
	r->lanes = power_at_most(kilni_min_u64(
		kilni_max_u64(KILNI_CUDA_BLOCK / r->outputs, 8),
		kilni_max_u64(r->length / 8, 1)));
	if (r->outputs >= (uint64_t)REDUCE_BLOCKS * KILNI_CUDA_BLOCK)
		r->lanes = 1;
}

static void cut(struct kilni_cuda_reduce *r)
{
	uint64_t blocks = div_up(r->outputs, KILNI_CUDA_BLOCK / r->lanes);
	uint64_t least = (uint64_t)r->lanes * REDUCE_EACH;
	uint64_t chunks = kilni_min_u64(REDUCE_BLOCKS / blocks,
					r->length / least);

	chunks = kilni_max_u64(chunks, 1);
	r->chunk = kilni_max_u64(div_up(r->length, chunks), 1);
	r->chunk = div_up(r->chunk, r->lanes) * r->lanes;
	r->chunks = (uint32_t)kilni_max_u64(div_up(r->length, r->chunk), 1);
}

static uint32_t bytes_of(unsigned dtype)
{
	static const uint8_t bytes[KILN_DTYPE_COUNT] = {
#define BYTES_(id, value, name, size, cls) [value] = size,
		KILN_DTYPE_TABLE(BYTES_)
#undef BYTES_
	};

	return bytes[dtype];
}

static void plan_shape(const struct kilni_reduce_params *p,
		       struct kilni_cuda_reduce *r)
{
	struct axis kept[KILNI_RANK_MAX], reduced[KILNI_RANK_MAX];
	bool indexed = p->index || p->op == KILNI_OP_ARGMAX ||
		       p->op == KILNI_OP_ARGMIN;

	r->kept_rank = collect(p, false, kept, &r->outputs);
	r->reduced_rank = collect(p, true, reduced, &r->length);
	if (!r->outputs)
		return;
	if (!r->length)
		r->reduced_rank = 0;
	if (!indexed)
		sort_axes(reduced, r->reduced_rank);
	r->kept_rank = join_axes(kept, r->kept_rank);
	r->reduced_rank = join_axes(reduced, r->reduced_rank);
	choose_lanes(r, kept, reduced);
	cut(r);
	for (unsigned d = 0; d < r->kept_rank; d++) {
		r->kept_size[d] = kept[d].size;
		r->kept_stride[d] = kept[d].stride;
	}
	for (unsigned d = 0; d < r->reduced_rank; d++) {
		r->reduced_size[d] = reduced[d].size;
		r->reduced_stride[d] = reduced[d].stride;
	}
}

void kilni_cuda_plan_reduce(const struct kilni_reduce_params *p,
			    struct kilni_cuda_reduce *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->in = p->in;
	plan->out = p->op == KILNI_OP_ARGMAX || p->op == KILNI_OP_ARGMIN
			    ? 0
			    : p->out;
	plan->index = p->index;
	plan->partial = p->workspace;
	plan->dtype = p->dtype;
	plan->out_bytes = bytes_of(p->out_dtype);
	plan->index_bytes = bytes_of(p->index_dtype);
	plan_shape(p, plan);
}

uint64_t kilni_cuda_reduce_workspace(const struct kilni_reduce_params *p)
{
	struct kilni_reduce_params q = *p;
	struct kilni_cuda_reduce plan;
	uint64_t bytes = 0;

	/* Whether an index is wanted may not be known yet. */
	for (int index = 0; index < 2; index++) {
		q.index = (uint64_t)index;
		kilni_cuda_plan_reduce(&q, &plan);
		if (plan.outputs && plan.chunks > 1)
			bytes = kilni_max_u64(bytes,
					      plan.outputs * plan.chunks *
						      KILNI_CUDA_PARTIAL_BYTES);
	}
	return bytes;
}

/* ---- matrix products ---- */

/* Elements of k that a split is worth, and most splits. */
#define SPLIT_LEAST 128
#define SPLITS_MOST 64
#define SPLIT_BYTES_MOST ((uint64_t)64 << 20)

static const struct {
	enum kilni_cuda_slot slot;
	uint32_t rows, columns_4, columns_8;
} tiles[] = {
#define TILE(name, rows, columns_4, columns_8)                                 \
	{ KILNI_CUDA_MATMUL_##name, rows, columns_4, columns_8 },
	KILNI_CUDA_TILES(TILE)
#undef TILE
};

/* Bytes of a sum. */
static uint32_t sum_bytes(unsigned dtype)
{
	return kilni_max_u64(bytes_of(dtype), 4) == 8 ? 8 : 4;
}

/* The largest tile that leaves no multiprocessor without one. */
static unsigned choose_tile(unsigned multiprocessors,
			    struct kilni_cuda_matmul *plan)
{
	bool wide = sum_bytes(plan->p.dtype) == 8;
	uint64_t rows, columns;
	unsigned i = 0;

	for (;; i++) {
		rows = div_up(plan->p.m, tiles[i].rows);
		columns = div_up(plan->p.n, wide ? tiles[i].columns_8
						 : tiles[i].columns_4);
		if (i + 1 == KILNI_COUNTOF(tiles) ||
		    rows * columns * plan->batches >= multiprocessors)
			break;
	}
	plan->row_tiles = (uint32_t)kilni_min_u64(rows, UINT32_MAX);
	plan->column_tiles = (uint32_t)kilni_min_u64(columns, UINT32_MAX);
	return i;
}

/* Splits k where there are too few tiles for the device. */
static void split(unsigned multiprocessors, struct kilni_cuda_matmul *plan)
{
	uint64_t blocks = (uint64_t)plan->row_tiles * plan->column_tiles *
			  plan->batches;
	uint64_t matrix = plan->batches * plan->p.m * plan->p.n *
			  sum_bytes(plan->p.dtype);
	uint64_t splits = 1;

	plan->splits = 1;
	plan->k_split = kilni_max_u64(plan->p.k, 1);
	if (!blocks || blocks >= multiprocessors)
		return;
	splits = kilni_min_u64(2 * multiprocessors / blocks,
			       plan->p.k / SPLIT_LEAST);
	splits = kilni_min_u64(splits, SPLIT_BYTES_MOST / matrix);
	splits = kilni_min_u64(splits, SPLITS_MOST);
	if (splits < 2)
		return;
	plan->k_split = kilni_align_up(div_up(plan->p.k, splits), 32);
	plan->splits = (uint32_t)div_up(plan->p.k, plan->k_split);
}

enum kilni_cuda_slot
kilni_cuda_plan_matmul(unsigned multiprocessors,
		       const struct kilni_matmul_params *p,
		       struct kilni_cuda_matmul *plan)
{
	unsigned tile;

	memset(plan, 0, sizeof(*plan));
	plan->p = *p;
	plan->partial = p->workspace;
	plan->batches = 1;
	for (unsigned d = 0; d < p->batch_rank; d++)
		plan->batches *= p->batch_shape[d];
	tile = choose_tile(multiprocessors, plan);
	split(multiprocessors, plan);
	return tiles[tile].slot;
}

uint64_t kilni_cuda_matmul_workspace(unsigned multiprocessors,
				     const struct kilni_matmul_params *p)
{
	struct kilni_cuda_matmul plan;

	kilni_cuda_plan_matmul(multiprocessors, p, &plan);
	if (plan.splits == 1)
		return 0;
	return plan.splits * plan.batches * p->m * p->n * sum_bytes(p->dtype);
}
