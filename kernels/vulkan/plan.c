/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/vulkan/plan.h"

#include <string.h>

#include "base/base.h"
#include "kernels/dtype.h"
#include "kernels/product.h"
#include "kernels/scatter.h"

/* ---- reductions ---- */

/* Fewer elements than this are one thread's work. */
#define GROUP_LEAST 32
/* What fills a device, and what a chunk is worth at least. */
#define GROUPS_WANTED 2048
#define THREADS_WANTED 262144
#define GROUP_CHUNK 4096
#define THREAD_CHUNK 64
#define CHUNKS_MOST 4096
#define PARTIAL_BYTES 16
/* A chunk is whole runs of any dtype, and so long that 32 bits count it. */
#define RUN_MOST 16
#define RUNS_CHUNK_MOST ((uint64_t)1 << 30)

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

/* Elements that lie side by side are read in runs. */
static bool has_runs(const struct kilni_vk_reduce_plan *plan)
{
	const struct kilni_vk_reduce *r = &plan->params;

	return plan->mode == KILNI_VK_BY_GROUPS && r->reduced_rank == 1 &&
	       r->reduced_stride[0] == 1 && r->chunk <= RUNS_CHUNK_MOST;
}

/* A function of sizes alone. */
static void cut(struct kilni_vk_reduce_plan *plan)
{
	struct kilni_vk_reduce *r = &plan->params;
	bool groups = plan->mode == KILNI_VK_BY_GROUPS;
	uint64_t wanted = groups ? GROUPS_WANTED : THREADS_WANTED;
	uint64_t least = groups ? GROUP_CHUNK : THREAD_CHUNK;
	uint64_t chunks = kilni_min_u64(wanted / r->outputs,
					r->length / least);

	chunks = kilni_max_u64(kilni_min_u64(chunks, CHUNKS_MOST), 1);
	r->chunk = kilni_align_up(kilni_div_up(r->length, chunks), RUN_MOST);
	r->chunks = r->chunk ? kilni_div_up(r->length, r->chunk) : 1;
}

void kilni_vk_plan_reduce(const struct kilni_reduce_params *p,
			  struct kilni_vk_reduce_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	split_axes(p, &plan->params);
	if (!plan->params.outputs)
		return;
	plan->mode = choose_mode(&plan->params);
	cut(plan);
	if (has_runs(plan))
		plan->mode = KILNI_VK_BY_RUNS;
	plan->params.in = p->in;
	plan->params.out = p->out;
	plan->params.index = p->index;
	plan->params.partials = p->workspace;
}

static uint64_t reduce_workspace(const struct kilni_reduce_params *p)
{
	struct kilni_vk_reduce_plan plan;

	kilni_vk_plan_reduce(p, &plan);
	if (plan.params.chunks <= 1)
		return 0;
	return plan.params.outputs * plan.params.chunks * PARTIAL_BYTES;
}

/* ---- products ---- */

/* So deep, tiles are worth it. */
#define DEPTH_LEAST 16
/* Of all sizes of tile. */
#define DEPTH_MOST 32
/* Fewer tiles than this leave a device idle: then smaller ones are taken. */
#define TILES_LEAST 96
#define MEDIUM_LEAST 32
/* What splits of k shall make of them, and what a split is worth at least. */
#define PRODUCT_GROUPS_WANTED 256
#define SPLIT_LEAST 64
#define SPLITS_MOST 16
/* What a split may be at most: a software device ends loops of 65535 turns. */
#define SPLIT_MOST 16384
#define WORKSPACE_MOST ((uint64_t)32 << 20)

/* All integers wrap, so signed and unsigned ones have the same product. */
unsigned kilni_vk_product_module(unsigned dtype)
{
	switch (dtype) {
	case KILN_I64:
		return KILN_U64;
	case KILN_I32:
		return KILN_U32;
	case KILN_I16:
		return KILN_U16;
	case KILN_I8:
		return KILN_U8;
	default:
		return kilni_dtype_stored(dtype);
	}
}

static bool is_float(unsigned module)
{
	return module == KILN_F32 || module == KILN_F16 ||
	       module == KILN_BF16;
}

struct sides {
	uint64_t rows, columns;
};

static struct sides sides_of(enum kilni_vk_tile tile, unsigned module)
{
	switch (tile) {
#define SIDES_(ID, number, high, broad, broad_wide)                            \
	case KILNI_VK_TILE_##ID:                                                               \
		return (struct sides){ high,                                   \
				       kilni_product_sum_bytes(module) == 8    \
					       ? broad_wide                    \
					       : broad };
		KILNI_VK_TILES(SIDES_)
#undef SIDES_
	default:
		return (struct sides){ 1, 1 };
	}
}

/* Tiles of a size in all matrices of the result. */
uint64_t kilni_vk_product_tiles(const struct kilni_matmul_params *p,
				enum kilni_vk_tile tile, unsigned module)
{
	struct sides sides = sides_of(tile, module);

	return kilni_div_up(p->m, sides.rows) *
	       kilni_div_up(p->n, sides.columns) * kilni_product_batches(p);
}

bool kilni_vk_product_is_whole(const struct kilni_matmul_params *p,
			       enum kilni_vk_tile tile, unsigned module)
{
	struct sides sides = sides_of(tile, module);

	return p->m % sides.rows == 0 && p->n % sides.columns == 0 &&
	       p->k % DEPTH_MOST == 0;
}

static uint64_t sum_bytes(const struct kilni_matmul_params *p, unsigned module)
{
	return p->m * p->n * kilni_product_batches(p) *
	       kilni_product_sum_bytes(module);
}

/* The greatest are no gain where what they read has to be asked for. */
enum kilni_vk_tile
kilni_vk_product_tile(const struct kilni_matmul_params *p, unsigned module)
{
	if (p->k < DEPTH_LEAST || !sum_bytes(p, module))
		return KILNI_VK_TILE_NONE;
	if (is_float(module) && kilni_vk_product_is_whole(p, KILNI_VK_TILE_GREAT, module) &&
	    kilni_vk_product_tiles(p, KILNI_VK_TILE_GREAT, module) >= TILES_LEAST)
		return KILNI_VK_TILE_GREAT;
	if (kilni_vk_product_tiles(p, KILNI_VK_TILE_LARGE, module) >= TILES_LEAST)
		return KILNI_VK_TILE_LARGE;
	return kilni_vk_product_tiles(p, KILNI_VK_TILE_MEDIUM, module) < MEDIUM_LEAST ? KILNI_VK_TILE_SMALL : KILNI_VK_TILE_MEDIUM;
}

/* ---- splits of k ---- */

void kilni_vk_plan_product(const struct kilni_matmul_params *p, unsigned module,
			   enum kilni_vk_tile tile,
			   struct kilni_vk_product *plan)
{
	uint64_t splits = PRODUCT_GROUPS_WANTED / kilni_vk_product_tiles(p, tile, module);

	splits = kilni_min_u64(splits, p->k / SPLIT_LEAST);
	splits = kilni_min_u64(splits, WORKSPACE_MOST / sum_bytes(p, module));
	splits = kilni_min_u64(splits, SPLITS_MOST);
	splits = kilni_max_u64(splits, kilni_div_up(p->k, SPLIT_MOST));
	plan->p = *p;
	plan->k_split = kilni_product_split(p->k, &splits);
	plan->splits = splits;
}

static uint64_t product_workspace(const struct kilni_matmul_params *p)
{
	unsigned module = kilni_vk_product_module(p->dtype);
	enum kilni_vk_tile tile = kilni_vk_product_tile(p, module);
	struct kilni_vk_product plan;

	if (tile == KILNI_VK_TILE_NONE)
		return 0;
	kilni_vk_plan_product(p, module, tile, &plan);
	return plan.splits > 1 ? plan.splits * sum_bytes(p, module) : 0;
}

/* ---- softmax ---- */

/*
 * Elements that a thread shall hold, in vectors and one by one; and the threads
 * that rows shall have together, where that leaves each a vector.
 */
#define HELD_SHUFFLES 32
#define HELD_VECTORS 16
#define HELD_SINGLE 8
#define HELD_WANTED 65536

/* Elements from which on shuffles are worth it. */
#define SHUFFLES_LEAST 64

/* Elements of 16 bytes, or of a thread that takes them one by one. */
static uint64_t softmax_run(const struct kilni_softmax_params *p, bool vectors)
{
	return vectors ? 16 / kilni_dtype_bytes[p->dtype] : 1;
}

/* Of each of the threads: whole vectors. */
static unsigned softmax_each(const struct kilni_softmax_params *p, uint64_t run,
			     uint64_t threads)
{
	return (unsigned)kilni_align_up(kilni_div_up(p->length, threads), run);
}

/* Rows that gain by shuffles within a subgroup. */
static bool has_subgroup(unsigned subgroup,
			 const struct kilni_softmax_params *p,
			 const struct kilni_vk_softmax_plan *plan)
{
	return subgroup && plan->vectors && kilni_dtype_bytes[p->dtype] < 8 &&
	       p->length > SHUFFLES_LEAST && kilni_softmax_is_held(p, subgroup);
}

static void hold(unsigned subgroup, const struct kilni_softmax_params *p,
		 struct kilni_vk_softmax_plan *plan)
{
	uint64_t run = softmax_run(p, plan->vectors);
	bool shuffles = has_subgroup(subgroup, p, plan);
	uint64_t wanted = shuffles        ? HELD_SHUFFLES
			  : plan->vectors ? HELD_VECTORS
					  : HELD_SINGLE;
	unsigned threads = 1;

	while (!kilni_softmax_is_held(p, threads) ||
	       (threads < KILNI_SOFTMAX_GROUP && threads * wanted < p->length))
		threads *= 2;
	/* Half of them may leave fewer idle. */
	if (threads > 1 && kilni_softmax_is_held(p, threads / 2) &&
	    softmax_each(p, run, threads / 2) <
		    2 * softmax_each(p, run, threads))
		threads /= 2;
	while (threads < KILNI_SOFTMAX_GROUP &&
	       p->rows * threads < HELD_WANTED && threads * run < p->length)
		threads *= 2;
	plan->mode = (shuffles && threads <= subgroup) ||
				     threads > KILNI_SOFTMAX_GROUP
			     ? KILNI_VK_SHUFFLES
			     : KILNI_VK_REGISTERS;
	plan->threads = threads;
	plan->each = softmax_each(p, run, threads);
}

void kilni_vk_plan_softmax(unsigned subgroup, unsigned group,
			   const struct kilni_softmax_params *p,
			   struct kilni_vk_softmax_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	kilni_plan_softmax(p, &plan->params);
	plan->vectors = (p->in | p->out) % 16 == 0 &&
			p->length % softmax_run(p, true) == 0;
	/* f64, and elements one by one, do not gain by the more threads. */
	if (!plan->vectors || kilni_dtype_bytes[p->dtype] == 8)
		group = KILNI_SOFTMAX_GROUP;
	if (plan->params.chunks > 1)
		plan->mode = KILNI_VK_MOST;
	else if (kilni_softmax_is_held(p, group))
		hold(subgroup, p, plan);
	else
		plan->mode = KILNI_VK_ROWS;
}

/* ---- workspaces ---- */

uint64_t kilni_vk_plan_workspace(bool tiles, enum kilni_kernel kernel,
				 const void *params)
{
	switch (kernel) {
	case KILNI_KERNEL_MATMUL:
		return tiles ? product_workspace(params) : 0;
	case KILNI_KERNEL_SCATTER:
		return kilni_scatter_workspace(params);
	case KILNI_KERNEL_REDUCE:
		return reduce_workspace(params);
	case KILNI_KERNEL_SOFTMAX:
		return kilni_softmax_workspace(params);
	default:
		return 0;
	}
}
