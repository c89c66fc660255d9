/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <stdio.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "kernels/cuda/plan.h"
#include "kernels/dense.h"
#include "kernels/dtype.h"
#include "kernels/scatter.h"

#define BLOCK KILNI_CUDA_BLOCK
/* Of dense elementwise kernels: the fastest for exp and copies of 1 GiB. */
#define DENSE_BLOCK 128
/* Blocks per multiprocessor after which threads take several turns. */
#define BLOCKS_MOST 64

struct launch {
	struct kilni_cuda_hw *hw;
	const struct kilni_cuda_target *to;
	cu_function function;
	unsigned x, y, z;
	unsigned threads;      /* of a block */
};

enum kiln_status kilni_cuda_start(const struct kilni_cuda_target *to,
				  struct cu_kernel *k, size_t params_bytes)
{
	if (to->graph)
		return kilni_cuda_graph_put(to->graph, k);
	if (to->batch) {
		kilni_cuda_batch_put(to->batch, k, params_bytes);
		return KILN_OK;
	}
	return kilni_cuda_check(
		to->hw,
		kilni_cuda.launch(k->function, k->grid[0], k->grid[1],
				  k->grid[2], k->block[0], k->block[1],
				  k->block[2], k->shared_bytes, to->stream,
				  k->params, k->extra),
		"cuLaunchKernel");
}

static enum kiln_status start(const struct launch *l, void *params,
			      size_t params_bytes)
{
	void *arguments[1] = { params };
	struct cu_kernel kernel = { .function = l->function,
				    .grid = { l->x, l->y, l->z },
				    .block = { l->threads, 1, 1 },
				    .params = arguments };

	return kilni_cuda_start(l->to, &kernel, params_bytes);
}

/* What a batch keeps of a kernel has room for each of these. */
_Static_assert(sizeof(struct kilni_turn) <= KILNI_PARAMS_BYTES &&
		       sizeof(struct kilni_rows) <= KILNI_PARAMS_BYTES &&
		       sizeof(struct kilni_cuda_reduce) <= KILNI_PARAMS_BYTES &&
		       sizeof(struct kilni_softmax) <= KILNI_PARAMS_BYTES &&
		       sizeof(struct kilni_cuda_matmul) <= KILNI_PARAMS_BYTES,
	       "plans are no larger than the parameters of entries");

/* Blocks for that many threads, which may take several turns. */
static unsigned blocks_for(const struct kilni_cuda_hw *hw, uint64_t threads)
{
	uint64_t most = (uint64_t)hw->multiprocessors * BLOCKS_MOST;
	uint64_t blocks = (threads + BLOCK - 1) / BLOCK;

	return (unsigned)kilni_max_u64(kilni_min_u64(blocks, most), 1);
}

/* A thread for every vector, which the dense kernels count on. */
static unsigned dense_blocks(uint64_t threads)
{
	return (unsigned)kilni_min_u64(kilni_div_up(threads, DENSE_BLOCK),
				       INT32_MAX);
}

static const struct {
	const char *text, *entry;
} slots[KILNI_CUDA_SLOTS] = {
#define ROW(ID, text, entry) [KILNI_CUDA_##ID] = { text, entry },
	KILNI_CUDA_SLOT_TABLE(ROW)
#undef ROW
};

/* A kernel of CUDA's own; number ends the name of its text. */
static enum kiln_status start_slot(struct launch *l, unsigned number,
				   enum kilni_cuda_slot which, void *params,
				   size_t params_bytes)
{
	cu_function *slot;
	char text[32];

	slot = &l->hw->modules.other[number][which];
	snprintf(text, sizeof(text), "%s%u", slots[which].text, number);
	KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text, slots[which].entry));
	l->function = *slot;
	return start(l, params, params_bytes);
}

/* ---- elementwise and gather ---- */

static const char *const ew_entries[KILNI_OP_COUNT] = {
#define NAME(ID) [KILNI_OP_##ID] = "kl_ew_" #ID,
#define KILNI_EW1(ID, name, classes, ulp, doc) NAME(ID)
#define KILNI_EW2(ID, name, classes, ulp, doc) NAME(ID)
#define KILNI_CMP(ID, name, classes, doc) NAME(ID)
#define KILNI_PRED(ID, name, classes, doc) NAME(ID)
#define KILNI_EWX(ID, name, classes, ulp, doc) NAME(ID)
#include "kernels/ops.def"
#undef NAME
};

static enum kiln_status launch_form(struct launch *l,
				    struct kilni_ew_params *p, unsigned form)
{
	unsigned dtype = kilni_dtype_stored(kilni_ew_dtype(p));
	cu_function *slot = &l->hw->modules.ew[dtype][form][p->op];
	char text[32];

	if (KILNI_UNLIKELY(!__atomic_load_n(slot, __ATOMIC_ACQUIRE))) {
		snprintf(text, sizeof(text), "ew%u_%u", dtype, form);
		KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text,
					    ew_entries[p->op]));
	}
	l->function = *slot;
	if (form) {
		l->x = blocks_for(l->hw, p->count);
	} else {
		l->x = dense_blocks(
			kilni_div_up(p->count, kilni_ew_lanes(p)));
		l->threads = DENSE_BLOCK;
	}
	return start(l, p, sizeof(*p));
}

/* From here on a copy moves bytes, whatever they are. */
#define COPY_LEAST 65536

static bool is_plain_copy(const struct kilni_ew_params *p)
{
	return p->op == KILNI_OP_COPY && !(p->scalars & 1) &&
	       kilni_dtype_stored(p->dtype[0]) == kilni_dtype_stored(p->dtype[1]);
}

/*
 * A dense copy of that many bytes: 16 at a time by the kernel for words, where
 * they are aligned. The library's own copy is slower on memory in small pages,
 * and no node of a graph.
 */
static enum kiln_status launch_copy(struct launch *l,
				    const struct kilni_ew_params *p,
				    uint64_t bytes)
{
	struct kilni_ew_params words = *p;

	if ((p->out | p->in[0] | bytes) % 16 && l->to->graph)
		return launch_form(l, &words, 0);
	if ((p->out | p->in[0] | bytes) % 16) {
		kilni_cuda_batch_flush(l->to->batch);
		return kilni_cuda_check(
			l->hw,
			kilni_cuda.copy_within(p->out, p->in[0], bytes,
					       l->to->stream),
			"cuMemcpyDtoDAsync");
	}
	words.dtype[0] = words.dtype[1] = KILN_U32;
	words.count = bytes / 4;
	return launch_form(l, &words, 0);
}

static enum kiln_status launch_turn(struct launch *l, unsigned bytes,
				    struct kilni_turn *turn)
{
	l->x = (unsigned)(turn->tiles * turn->parts);
	return start_slot(l, bytes, KILNI_CUDA_MOVE_TURN, turn,
			  sizeof(*turn));
}

static enum kiln_status launch_ew(struct launch *l, struct kilni_ew_params *p)
{
	unsigned form = kilni_cuda_ew_form(p);
	unsigned bytes = kilni_dtype_bytes[kilni_ew_dtype(p)];
	struct kilni_turn turn;

	if (!p->count)
		return KILN_OK;
	if (is_plain_copy(p)) {
		if (!form && p->count * bytes >= COPY_LEAST)
			return launch_copy(l, p, p->count * bytes);
		if (form && kilni_plan_turn(p, bytes, &turn) &&
		    turn.tiles * turn.parts <= INT32_MAX)
			return launch_turn(l, bytes, &turn);
	}
	return launch_form(l, p, form);
}

static enum kiln_status launch_gather(struct launch *l,
				      struct kilni_gather_params *p)
{
	unsigned form = kilni_cuda_gather_form(p), row;
	struct kilni_rows rows;
	cu_function *slot;
	char text[32];

	if (!p->count)
		return KILN_OK;
	if (kilni_plan_rows(p, &rows)) {
		l->x = rows.pieces ? (unsigned)(rows.rows * rows.pieces)
				   : blocks_for(l->hw,
						rows.rows * rows.units);
		l->threads = KILNI_ROWS_GROUP;
		return start_slot(l, 8,
				  rows.pieces ? KILNI_CUDA_MOVE_PIECES
					      : KILNI_CUDA_MOVE_ROWS,
				  &rows, sizeof(rows));
	}
	row = (unsigned)__builtin_ctz(p->element_bytes);
	slot = &l->hw->modules.gather[row][form];
	snprintf(text, sizeof(text), "gather%u_%u", p->element_bytes, form);
	KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text, "kl_gather"));
	l->function = *slot;
	l->x = blocks_for(l->hw, p->count);
	return start(l, p, sizeof(*p));
}

/* ---- kernels of CUDA's own ---- */

static enum kiln_status launch_scatter(struct launch *l,
				       struct kilni_scatter_params *p)
{
	static const enum kilni_cuda_slot updates[] = {
		[KILN_UPDATE_ASSIGN] = KILNI_CUDA_SCATTER_ASSIGN,
		[KILN_UPDATE_ADD] = KILNI_CUDA_SCATTER_ADD,
		[KILN_UPDATE_MUL] = KILNI_CUDA_SCATTER_MUL,
		[KILN_UPDATE_MIN] = KILNI_CUDA_SCATTER_MIN,
		[KILN_UPDATE_MAX] = KILNI_CUDA_SCATTER_MAX,
	};
	unsigned every = blocks_for(l->hw, p->out_count);
	unsigned dtype = kilni_dtype_stored(p->dtype);

	if (!p->count)
		return KILN_OK;
	l->x = every;
	if (kilni_scatter_sums_wide(p))
		KILNI_TRY(start_slot(l, dtype, KILNI_CUDA_SCATTER_WIDEN, p,
				     sizeof(*p)));
	l->x = blocks_for(l->hw, p->count / p->shape[p->dim]);
	KILNI_TRY(start_slot(l, dtype, updates[p->update], p, sizeof(*p)));
	l->x = every;
	if (kilni_scatter_sums_wide(p))
		KILNI_TRY(start_slot(l, dtype, KILNI_CUDA_SCATTER_NARROW, p,
				     sizeof(*p)));
	return KILN_OK;
}

/* The kernels of an op. */
struct reduce_slots {
	enum kilni_cuda_slot plain, rows, columns, finish;
};

#define SLOTS(ID)                                                              \
	(struct reduce_slots)                                                  \
	{                                                                      \
		KILNI_CUDA_REDUCE_##ID, KILNI_CUDA_ROWS_##ID,                  \
			KILNI_CUDA_COLUMNS_##ID, KILNI_CUDA_FINISH_##ID        \
	}
#define SLOTS_AT(ID)                                                           \
	(struct reduce_slots)                                                  \
	{                                                                      \
		KILNI_CUDA_REDUCE_##ID, KILNI_CUDA_ROWS_##ID,                  \
			KILNI_CUDA_REDUCE_##ID, KILNI_CUDA_FINISH_##ID         \
	}

static struct reduce_slots reduce_slots(const struct kilni_reduce_params *p)
{
	switch (p->op) {
	case KILNI_OP_SUM:
		return SLOTS(SUM);
	case KILNI_OP_MEAN:
		return SLOTS(MEAN);
	case KILNI_OP_PROD:
		return SLOTS(PROD);
	case KILNI_OP_MAX:
		return p->index ? SLOTS_AT(MAX_AT) : SLOTS(MAX);
	case KILNI_OP_MIN:
		return p->index ? SLOTS_AT(MIN_AT) : SLOTS(MIN);
	case KILNI_OP_MAX_ABS:
		return SLOTS(MAX_ABS);
	case KILNI_OP_ARGMAX:
		return SLOTS_AT(MAX_AT);
	case KILNI_OP_ARGMIN:
		return SLOTS_AT(MIN_AT);
	case KILNI_OP_ANY:
		return SLOTS(ANY);
	default:
		return SLOTS(ALL);
	}
}

static enum kiln_status launch_reduce(struct launch *l,
				      const struct kilni_reduce_params *p)
{
	struct reduce_slots slot = reduce_slots(p);
	struct kilni_cuda_reduce plan;

	kilni_cuda_plan_reduce(p, &plan);
	if (!plan.outputs)
		return KILN_OK;
	if (kilni_cuda_reduce_blocks(&plan) > INT32_MAX ||
	    (plan.chunks > 1 && kilni_cuda_finish_blocks(&plan) > INT32_MAX))
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "cuda: a reduction with %llu results",
				  (unsigned long long)plan.outputs);
	l->x = (unsigned)kilni_cuda_reduce_blocks(&plan);
	l->y = plan.chunks;
	KILNI_TRY(start_slot(l, kilni_dtype_stored(p->dtype),
			     plan.row           ? slot.rows
			     : plan.columns > 1 ? slot.columns
						: slot.plain,
			     &plan, sizeof(plan)));
	if (plan.chunks == 1)
		return KILN_OK;
	l->x = (unsigned)kilni_cuda_finish_blocks(&plan);
	l->y = 1;
	return start_slot(l, kilni_dtype_stored(p->dtype), slot.finish, &plan,
			  sizeof(plan));
}

static enum kiln_status launch_matmul(struct launch *l,
				      const struct kilni_matmul_params *p)
{
	struct kilni_cuda_matmul plan;
	enum kilni_cuda_slot slot;
	uint64_t tiles;

	slot = kilni_cuda_plan_matmul(l->hw->multiprocessors, p, &plan);
	if (!plan.batches || !p->m || !p->n)
		return KILN_OK;
	tiles = (uint64_t)plan.row_tiles * plan.column_tiles;
	if (tiles > INT32_MAX)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "cuda: a matrix product of %llu by %llu",
				  (unsigned long long)p->m,
				  (unsigned long long)p->n);
	l->x = (unsigned)tiles;
	l->y = plan.splits;
	l->z = (unsigned)kilni_min_u64(plan.batches, 65535);
	KILNI_TRY(start_slot(l, kilni_dtype_stored(p->dtype), slot, &plan,
			     sizeof(plan)));
	if (plan.splits == 1)
		return KILN_OK;
	l->x = blocks_for(l->hw, plan.batches * p->m * p->n);
	l->y = l->z = 1;
	return start_slot(l, kilni_dtype_stored(p->dtype), KILNI_CUDA_MATMUL_ADD,
			  &plan, sizeof(plan));
}

static enum kiln_status launch_softmax(struct launch *l,
				       const struct kilni_softmax_params *p)
{
	unsigned dtype = kilni_dtype_stored(p->dtype);
	struct kilni_softmax plan;
	enum kilni_cuda_slot slot;

	slot = kilni_cuda_plan_softmax(p, &plan, &l->x, &l->threads);
	KILNI_TRY(start_slot(l, dtype, slot, &plan, sizeof(plan)));
	if (slot != KILNI_CUDA_SOFTMAX_MOST)
		return KILN_OK;
	KILNI_TRY(start_slot(l, dtype, KILNI_CUDA_SOFTMAX_SUMS, &plan,
			     sizeof(plan)));
	return start_slot(l, dtype, KILNI_CUDA_SOFTMAX_SHARES, &plan,
			  sizeof(plan));
}

/* ---- entries ---- */

enum kiln_status kilni_cuda_launch(const struct kilni_cuda_target *to,
				   struct kilni_entry *entry)
{
	struct launch l = { .hw = to->hw, .to = to, .x = 1, .y = 1, .z = 1,
			    .threads = BLOCK };

	switch (entry->kernel) {
	case KILNI_KERNEL_EW:
		return launch_ew(&l, &entry->params.ew);
	case KILNI_KERNEL_GATHER:
		return launch_gather(&l, &entry->params.gather);
	case KILNI_KERNEL_SCATTER:
		return launch_scatter(&l, &entry->params.scatter);
	case KILNI_KERNEL_REDUCE:
		return launch_reduce(&l, &entry->params.reduce);
	case KILNI_KERNEL_MATMUL:
		return launch_matmul(&l, &entry->params.matmul);
	case KILNI_KERNEL_SOFTMAX:
		return launch_softmax(&l, &entry->params.softmax);
	case KILNI_KERNEL_CUSTOM:
		return kilni_cuda_program_run(to, &entry->params.custom);
	default:
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cuda: kernel %u is not there",
				  entry->kernel);
	}
}

bool kilni_cuda_has(const struct kilni_hw *hw, enum kilni_kernel kernel)
{
	(void)hw;
	return (unsigned)kernel < KILNI_KERNEL_COUNT;
}

uint64_t kilni_cuda_workspace(const struct kilni_hw *hw,
			      enum kilni_kernel kernel, const void *params)
{
	return kilni_cuda_plan_workspace(kilni_cuda_hw(hw)->multiprocessors,
					 kernel, params);
}
