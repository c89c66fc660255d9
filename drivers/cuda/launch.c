/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <stdio.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "drivers/cuda/plan.h"

#define BLOCK KILNI_CUDA_BLOCK
/* Blocks per multiprocessor after which threads take several turns. */
#define BLOCKS_MOST 64

/* flex32 is stored as f32 is, bool(u8) as bool is. */
static unsigned stored_dtype(unsigned dtype)
{
	switch (dtype) {
	case KILN_FLEX32:
		return KILN_F32;
	case KILN_BOOL_U8:
		return KILN_BOOL;
	default:
		return dtype;
	}
}

struct launch {
	struct kilni_cuda_hw *hw;
	cu_stream stream;
	cu_function function;
	unsigned x, y, z;
};

static enum kiln_status start(const struct launch *l, void *params)
{
	void *arguments[1] = { params };
	int result = kilni_cuda.launch(l->function, l->x, l->y, l->z, BLOCK, 1,
				       1, 0, l->stream, arguments, NULL);

	return kilni_cuda_check(l->hw, result, "cuLaunchKernel");
}

/* Blocks for that many threads, which may take several turns. */
static unsigned blocks_for(const struct kilni_cuda_hw *hw, uint64_t threads)
{
	uint64_t most = (uint64_t)hw->multiprocessors * BLOCKS_MOST;
	uint64_t blocks = (threads + BLOCK - 1) / BLOCK;

	return (unsigned)kilni_max_u64(kilni_min_u64(blocks, most), 1);
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

/* The dtype that the op computes in. */
static unsigned ew_dtype(const struct kilni_ew_params *p)
{
	bool fills = p->op == KILNI_OP_FULL || p->op == KILNI_OP_ARANGE ||
		     p->op == KILNI_OP_RANDOM;

	return stored_dtype(p->dtype[fills ? 0 : 1]);
}

/* Elements that a thread of the dense form takes at a time. */
static unsigned lanes_of(unsigned dtype)
{
	switch (dtype) {
	case KILN_F64:
		return 2;
	case KILN_F32:
	case KILN_I32:
	case KILN_U32:
		return 4;
	default:
		return 1;
	}
}

static enum kiln_status launch_ew(struct launch *l, struct kilni_ew_params *p)
{
	unsigned dtype = ew_dtype(p), form = kilni_cuda_ew_form(p);
	cu_function *slot = &l->hw->modules.ew[dtype][form][p->op];
	uint64_t lanes = form ? 1 : lanes_of(dtype);
	char text[16];

	if (!p->count)
		return KILN_OK;
	if (KILNI_UNLIKELY(!__atomic_load_n(slot, __ATOMIC_ACQUIRE))) {
		snprintf(text, sizeof(text), "ew%u_%u", dtype, form);
		KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text,
					    ew_entries[p->op]));
	}
	l->function = *slot;
	l->x = blocks_for(l->hw, (p->count + lanes - 1) / lanes);
	return start(l, p);
}

static enum kiln_status launch_gather(struct launch *l,
				      struct kilni_gather_params *p)
{
	unsigned form = kilni_cuda_gather_form(p), row;
	cu_function *slot;
	char text[16];

	if (!p->count)
		return KILN_OK;
	row = (unsigned)__builtin_ctz(p->element_bytes);
	slot = &l->hw->modules.gather[row][form];
	snprintf(text, sizeof(text), "gather%u_%u", p->element_bytes, form);
	KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text, "kl_gather"));
	l->function = *slot;
	l->x = blocks_for(l->hw, p->count);
	return start(l, p);
}

/* ---- kernels of CUDA's own ---- */

static const struct {
	const char *text, *entry;
} slots[KILNI_CUDA_SLOTS] = {
#define ROW(ID, text, entry) [KILNI_CUDA_##ID] = { text, entry },
	KILNI_CUDA_SLOT_TABLE(ROW)
#undef ROW
};

static enum kiln_status start_slot(struct launch *l, unsigned dtype,
				   enum kilni_cuda_slot which, void *params)
{
	cu_function *slot;
	char text[16];

	dtype = stored_dtype(dtype);
	slot = &l->hw->modules.other[dtype][which];
	snprintf(text, sizeof(text), "%s%u", slots[which].text, dtype);
	KILNI_TRY(kilni_cuda_kernel(l->hw, slot, text, slots[which].entry));
	l->function = *slot;
	return start(l, params);
}

static bool sums_wide(const struct kilni_scatter_params *p)
{
	return p->update == KILN_UPDATE_ADD &&
	       (p->dtype == KILN_F32 || p->dtype == KILN_FLEX32 ||
		p->dtype == KILN_F16 || p->dtype == KILN_BF16);
}

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

	if (!p->count)
		return KILN_OK;
	l->x = every;
	if (sums_wide(p))
		KILNI_TRY(start_slot(l, p->dtype, KILNI_CUDA_SCATTER_WIDEN,
				     p));
	l->x = blocks_for(l->hw, p->count / p->shape[p->dim]);
	KILNI_TRY(start_slot(l, p->dtype, updates[p->update], p));
	l->x = every;
	if (sums_wide(p))
		KILNI_TRY(start_slot(l, p->dtype, KILNI_CUDA_SCATTER_NARROW,
				     p));
	return KILN_OK;
}

/* The first of the two kernels; the second has its slot behind ALL. */
static enum kilni_cuda_slot reduce_slot(const struct kilni_reduce_params *p)
{
	switch (p->op) {
	case KILNI_OP_SUM:
		return KILNI_CUDA_REDUCE_SUM;
	case KILNI_OP_MEAN:
		return KILNI_CUDA_REDUCE_MEAN;
	case KILNI_OP_PROD:
		return KILNI_CUDA_REDUCE_PROD;
	case KILNI_OP_MAX:
		return p->index ? KILNI_CUDA_REDUCE_MAX_AT
				: KILNI_CUDA_REDUCE_MAX;
	case KILNI_OP_MIN:
		return p->index ? KILNI_CUDA_REDUCE_MIN_AT
				: KILNI_CUDA_REDUCE_MIN;
	case KILNI_OP_MAX_ABS:
		return KILNI_CUDA_REDUCE_MAX_ABS;
	case KILNI_OP_ARGMAX:
		return KILNI_CUDA_REDUCE_MAX_AT;
	case KILNI_OP_ARGMIN:
		return KILNI_CUDA_REDUCE_MIN_AT;
	case KILNI_OP_ANY:
		return KILNI_CUDA_REDUCE_ANY;
	default:
		return KILNI_CUDA_REDUCE_ALL;
	}
}

static enum kiln_status launch_reduce(struct launch *l,
				      const struct kilni_reduce_params *p)
{
	enum kilni_cuda_slot slot = reduce_slot(p);
	struct kilni_cuda_reduce plan;
	uint64_t per_block;

	kilni_cuda_plan_reduce(p, &plan);
	if (!plan.outputs)
		return KILN_OK;
	per_block = BLOCK / plan.lanes;
	l->x = (unsigned)((plan.outputs + per_block - 1) / per_block);
	l->y = plan.chunks;
	KILNI_TRY(start_slot(l, p->dtype, slot, &plan));
	if (plan.chunks == 1)
		return KILN_OK;
	l->x = (unsigned)plan.outputs;
	l->y = 1;
	slot += KILNI_CUDA_FINISH_SUM - KILNI_CUDA_REDUCE_SUM;
	return start_slot(l, p->dtype, slot, &plan);
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
	KILNI_TRY(start_slot(l, p->dtype, slot, &plan));
	if (plan.splits == 1)
		return KILN_OK;
	l->x = blocks_for(l->hw, plan.batches * p->m * p->n);
	l->y = l->z = 1;
	return start_slot(l, p->dtype, KILNI_CUDA_MATMUL_ADD, &plan);
}

/* ---- entries ---- */

enum kiln_status kilni_cuda_launch(struct kilni_cuda_hw *hw, cu_stream stream,
				   struct kilni_entry *entry)
{
	struct launch l = { .hw = hw, .stream = stream, .x = 1, .y = 1,
			    .z = 1 };

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
	const struct kilni_scatter_params *scatter = params;

	switch (kernel) {
	case KILNI_KERNEL_REDUCE:
		return kilni_cuda_reduce_workspace(params);
	case KILNI_KERNEL_MATMUL:
		return kilni_cuda_matmul_workspace(
			kilni_cuda_hw(hw)->multiprocessors, params);
	case KILNI_KERNEL_SCATTER:
		return kilni_scatter_workspace(
			scatter->out_count,
			scatter->update == KILN_UPDATE_ADD,
			sums_wide(scatter));
	default:
		return 0;
	}
}
