/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/plan.h"

#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "kernels/dtype.h"
#include "kernels/product.h"
#include "kernels/registry.h"
#include "kernels/scatter.h"

static uint64_t magnitude(int64_t stride)
{
	return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
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

/*
 * Blocks that fill a large device once, chunks included; of rows several times,
 * so that the last ones leave little of it idle.
 */
#define REDUCE_BLOCKS 1024
#define ROW_BLOCKS (4 * REDUCE_BLOCKS)
/* Reads of a thread from which a chunk is worth a block of its own. */
#define REDUCE_EACH 8
/* Chunks that a thread of the second kernel should have, or more. */
#define FINISH_EACH 4
/* Elements of a chunk at most: they are counted in 32 bits. */
#define CHUNK_MOST ((uint64_t)1 << 31)

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

/* Elements that a thread reads at once along a row. */
static uint32_t row_vector(const struct kilni_reduce_params *p)
{
	return 16 / kilni_dtype_bytes[p->dtype];
}

/* Whether several columns can be read at once. */
static bool columns_fit(const struct kilni_reduce_params *p,
			const struct axis *kept, const struct axis *reduced,
			const struct kilni_cuda_reduce *r)
{
	uint32_t bytes = kilni_dtype_bytes[p->dtype];
	int64_t columns = KILNI_CUDA_COLUMNS(bytes);

	if (r->reduced_rank > 1 || p->in % ((uint64_t)columns * bytes) ||
	    kept[r->kept_rank - 1].size % (uint64_t)columns)
		return false;
	for (unsigned d = 0; d + 1 < r->kept_rank; d++)
		if (kept[d].stride % columns)
			return false;
	return !r->reduced_rank || reduced[0].stride % columns == 0;
}

/*
 * Threads per output. Along rows that lie side by side neighbouring threads
 * read neighbouring elements; in columns form they have neighbouring outputs.
 */
static void choose_lanes(const struct kilni_reduce_params *p, bool indexed,
			 struct kilni_cuda_reduce *r, const struct axis *kept,
			 const struct axis *reduced)
{
	uint64_t units = r->length, outputs = r->outputs;

	r->row = r->reduced_rank == 1 && reduced[0].stride == 1;
	r->columns = !r->row && r->kept_rank &&
		     kept[r->kept_rank - 1].stride == 1;
	if (r->row)
		units = kilni_max_u64(units / row_vector(p), 1);
	if (!r->columns) {
		r->lanes = units > 512 ? KILNI_CUDA_BLOCK
				       : power_at_most(
						 kilni_min_u64(units, 32));
		return;
	}
	if (!indexed && columns_fit(p, kept, reduced, r)) {
		r->columns = KILNI_CUDA_COLUMNS(kilni_dtype_bytes[p->dtype]);
		outputs /= r->columns;
	}
	/* Few columns leave threads for more of the rows. */
	r->lanes = power_at_most(
		kilni_min_u64(kilni_max_u64(KILNI_CUDA_BLOCK / outputs, 8),
			      kilni_max_u64(r->length / 8, 1)));
	if (outputs >= (uint64_t)REDUCE_BLOCKS * KILNI_CUDA_BLOCK)
		r->lanes = 1;
}

static uint64_t outputs_per_block(const struct kilni_cuda_reduce *r)
{
	return (uint64_t)KILNI_CUDA_BLOCK / r->lanes *
	       kilni_max_u64(r->columns, 1);
}

uint64_t kilni_cuda_reduce_blocks(const struct kilni_cuda_reduce *r)
{
	return kilni_div_up(r->outputs, outputs_per_block(r));
}

static void cut(const struct kilni_reduce_params *p,
		struct kilni_cuda_reduce *r)
{
	uint64_t step = (uint64_t)r->lanes * (r->row ? row_vector(p) : 1);
	uint64_t blocks = r->row ? ROW_BLOCKS : REDUCE_BLOCKS;
	uint64_t chunks = kilni_min_u64(blocks / kilni_cuda_reduce_blocks(r),
					r->length / (step * REDUCE_EACH));

	chunks = kilni_max_u64(chunks, kilni_div_up(r->length, CHUNK_MOST));
	chunks = kilni_max_u64(chunks, 1);
	r->chunk = kilni_max_u64(kilni_div_up(r->length, chunks), 1);
	r->chunk = kilni_div_up(r->chunk, step) * step;
	r->chunks = (uint32_t)kilni_max_u64(kilni_div_up(r->length, r->chunk),
					    1);
	r->finish_lanes = power_at_most(r->chunks / FINISH_EACH);
}

uint64_t kilni_cuda_finish_blocks(const struct kilni_cuda_reduce *r)
{
	return kilni_div_up(r->outputs, KILNI_CUDA_BLOCK / r->finish_lanes);
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
	choose_lanes(p, indexed, r, kept, reduced);
	cut(p, r);
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
	plan->out_bytes = kilni_dtype_bytes[p->out_dtype];
	plan->index_bytes = kilni_dtype_bytes[p->index_dtype];
	plan_shape(p, plan);
}

uint64_t kilni_cuda_reduce_workspace(const struct kilni_reduce_params *p)
{
	struct kilni_reduce_params q = *p;
	struct kilni_cuda_reduce plan;
	uint64_t bytes = 0;

	/* Addresses, on which the choice depends, may not be known yet. */
	for (int i = 0; i < 4; i++) {
		q.index = i & 1;
		q.in = i >> 1;
		kilni_cuda_plan_reduce(&q, &plan);
		if (plan.outputs && plan.chunks > 1)
			bytes = kilni_max_u64(bytes,
					      plan.outputs * plan.chunks *
						      KILNI_CUDA_PARTIAL_BYTES);
	}
	return bytes;
}

/* ---- softmax ---- */

static const struct {
	enum kilni_cuda_slot slot;
	uint32_t each, longest, block;
} held[] = {
#define HELD(each, longest, block, resident)                                   \
	{ KILNI_CUDA_SOFTMAX_##each, each, longest, block },
	KILNI_CUDA_SOFTMAX_HELD(HELD)
#undef HELD
};

/* Threads that hold a row: of one warp, a power of two; of a block, warps. */
static uint32_t threads_of(const struct kilni_softmax_params *p, uint32_t each)
{
	uint64_t wanted = kilni_div_up(p->length, each);
	uint32_t threads = 1;

	if (wanted > KILNI_CUDA_WARP)
		return (uint32_t)kilni_align_up(wanted, KILNI_CUDA_WARP);
	while (threads < wanted)
		threads *= 2;
	return threads;
}

static bool is_held_by_block(const struct kilni_softmax_params *p)
{
	return kilni_softmax_is_held(
		p, KILNI_CUDA_SOFTMAX_THREADS(kilni_dtype_bytes[p->dtype]));
}

enum kilni_cuda_slot
kilni_cuda_plan_softmax(const struct kilni_softmax_params *p,
			struct kilni_softmax *plan, unsigned *blocks,
			unsigned *threads)
{
	uint32_t most = KILNI_SOFTMAX_EACH(kilni_dtype_bytes[p->dtype]);

	kilni_plan_softmax(p, plan);
	*threads = KILNI_CUDA_BLOCK;
	for (unsigned i = 0; i < KILNI_COUNTOF(held); i++) {
		if (held[i].each > most || p->length > held[i].longest)
			continue;
		plan->shift = (uint32_t)__builtin_ctz(
			threads_of(p, held[i].each));
		*threads = held[i].block;
		*blocks = (unsigned)kilni_min_u64(
			kilni_div_up(p->rows, *threads >> plan->shift),
			INT32_MAX);
		return held[i].slot;
	}
	if (is_held_by_block(p)) {
		*threads = threads_of(p, most);
		*blocks = (unsigned)kilni_min_u64(p->rows, INT32_MAX);
		return KILNI_CUDA_SOFTMAX_BLOCK;
	}
	*blocks = (unsigned)kilni_min_u64(p->rows * plan->chunks, INT32_MAX);
	return plan->chunks > 1 ? KILNI_CUDA_SOFTMAX_MOST
				: KILNI_CUDA_SOFTMAX_LONG;
}

static uint64_t softmax_workspace(const struct kilni_softmax_params *p)
{
	return is_held_by_block(p) ? 0 : kilni_softmax_workspace(p);
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

/* Whether one side's packs are whole and aligned: see matmul.cu. */
static bool is_packed(uint64_t address, int64_t row, int64_t k, uint64_t rows,
		      uint64_t depth, const int64_t *batch, unsigned rank,
		      uint64_t bytes)
{
	uint64_t pack = KILNI_CUDA_MATMUL_PACK(bytes);
	uint64_t far = magnitude(k == 1 ? row : k);
	uint64_t near = k == 1 ? depth : rows;

	if ((k != 1 && row != 1) || address % (pack * bytes) || near % pack)
		return false;
	for (unsigned d = 0; d < rank; d++)
		far |= magnitude(batch[d]);
	return far % pack == 0;
}

static bool has_packs(const struct kilni_matmul_params *p)
{
	uint64_t bytes = kilni_dtype_bytes[p->dtype];
	unsigned rank = p->batch_rank;

	if (!KILNI_CUDA_MATMUL_PACKED(p->dtype))
		return false;
	return is_packed(p->a, p->a_row, p->a_col, p->m, p->k, p->a_batch, rank,
			 bytes) &&
	       is_packed(p->b, p->b_col, p->b_row, p->n, p->k, p->b_batch, rank,
			 bytes);
}

/* The largest tile that leaves no multiprocessor without one. */
static unsigned choose_tile(unsigned multiprocessors,
			    struct kilni_cuda_matmul *plan)
{
	bool wide = kilni_product_sum_bytes(plan->p.dtype) == 8;
	uint64_t rows, columns;
	unsigned i = 0;

	for (;; i++) {
		rows = kilni_div_up(plan->p.m, tiles[i].rows);
		columns = kilni_div_up(plan->p.n,
				       wide ? tiles[i].columns_8
					    : tiles[i].columns_4);
		if (i + 1 == KILNI_COUNTOF(tiles) ||
		    rows * columns * plan->batches >= multiprocessors)
			break;
	}
	plan->row_tiles = (uint32_t)kilni_min_u64(rows, UINT32_MAX);
	plan->column_tiles = (uint32_t)kilni_min_u64(columns, UINT32_MAX);
	return i;
}

/* Tiles of the packed kernel, where they do not leave it with too few. */
static bool fill_packed(unsigned multiprocessors,
			struct kilni_cuda_matmul *plan)
{
	uint64_t rows = kilni_div_up(plan->p.m, KILNI_CUDA_PACKED_TILE);
	uint64_t columns = kilni_div_up(plan->p.n, KILNI_CUDA_PACKED_TILE);

	if (plan->splits != 1 ||
	    rows * columns * plan->batches < multiprocessors)
		return false;
	plan->row_tiles = (uint32_t)kilni_min_u64(rows, UINT32_MAX);
	plan->column_tiles = (uint32_t)kilni_min_u64(columns, UINT32_MAX);
	return true;
}

/* Splits k where there are too few tiles for the device. */
static void split(unsigned multiprocessors, struct kilni_cuda_matmul *plan)
{
	uint64_t blocks = (uint64_t)plan->row_tiles * plan->column_tiles *
			  plan->batches;
	uint64_t matrix = plan->batches * plan->p.m * plan->p.n *
			  kilni_product_sum_bytes(plan->p.dtype);
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
	plan->k_split = kilni_product_split(plan->p.k, &splits);
	plan->splits = (uint32_t)splits;
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
	plan->batches = kilni_product_batches(p);
	tile = choose_tile(multiprocessors, plan);
	split(multiprocessors, plan);
	if (tiles[tile].slot == KILNI_CUDA_MATMUL_LARGE && has_packs(p) &&
	    fill_packed(multiprocessors, plan))
		return KILNI_CUDA_MATMUL_PACKS;
	return tiles[tile].slot;
}

uint64_t kilni_cuda_matmul_workspace(unsigned multiprocessors,
				     const struct kilni_matmul_params *p)
{
	struct kilni_cuda_matmul plan;

	kilni_cuda_plan_matmul(multiprocessors, p, &plan);
	if (plan.splits == 1)
		return 0;
	return plan.splits * plan.batches * p->m * p->n *
	       kilni_product_sum_bytes(p->dtype);
}

/* ---- workspaces ---- */

uint64_t kilni_cuda_plan_workspace(unsigned multiprocessors,
				   enum kilni_kernel kernel, const void *params)
{
	switch (kernel) {
	case KILNI_KERNEL_REDUCE:
		return kilni_cuda_reduce_workspace(params);
	case KILNI_KERNEL_MATMUL:
		return kilni_cuda_matmul_workspace(multiprocessors, params);
	case KILNI_KERNEL_SOFTMAX:
		return softmax_workspace(params);
	case KILNI_KERNEL_SCATTER:
		return kilni_scatter_workspace(params);
	default:
		return 0;
	}
}
