/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/matmul.h"

#include <string.h>

#include <kiln/dtype.h>

/* What a product is turned into before any of it is computed. */

static const uint8_t stored_bytes[KILNI_MM_KIND_COUNT] = {
#define KILNI_MM_STORED_(name, stored, computed) stored,
	KILNI_MM_KIND_TABLE(KILNI_MM_STORED_)
#undef KILNI_MM_STORED_
};

static const uint8_t computed_bytes[KILNI_MM_KIND_COUNT] = {
#define KILNI_MM_COMPUTED_(name, stored, computed) computed,
	KILNI_MM_KIND_TABLE(KILNI_MM_COMPUTED_)
#undef KILNI_MM_COMPUTED_
};

static const uint8_t kind_of[KILN_DTYPE_COUNT] = {
	[KILN_F64] = KILNI_MM_KIND_f64,
	[KILN_F32] = KILNI_MM_KIND_f32,
	[KILN_FLEX32] = KILNI_MM_KIND_f32,
	[KILN_F16] = KILNI_MM_KIND_f16,
	[KILN_BF16] = KILNI_MM_KIND_bf16,
	[KILN_I64] = KILNI_MM_KIND_u64,
	[KILN_U64] = KILNI_MM_KIND_u64,
	[KILN_I32] = KILNI_MM_KIND_u32,
	[KILN_U32] = KILNI_MM_KIND_u32,
	[KILN_I16] = KILNI_MM_KIND_u16,
	[KILN_U16] = KILNI_MM_KIND_u16,
	[KILN_I8] = KILNI_MM_KIND_u8,
	[KILN_U8] = KILNI_MM_KIND_u8,
	/* The op layer lets no bool come here. */
	[KILN_BOOL] = KILNI_MM_KIND_u8,
	[KILN_BOOL_U8] = KILNI_MM_KIND_u8,
	[KILN_BOOL_U32] = KILNI_MM_KIND_u32,
};

static uint64_t least(uint64_t x, uint64_t y)
{
	return x < y ? x : y;
}

static uint64_t most(uint64_t x, uint64_t y)
{
	return x > y ? x : y;
}

static uint64_t divide_up(uint64_t x, uint64_t y)
{
	return x / y + (x % y != 0);
}

static uint64_t round_up(uint64_t x, uint64_t y)
{
	return divide_up(x, y) * y;
}

/* Takes over the batch axes, without those of one and with runs merged. */
static void take_batch(struct kilni_mm *g, const struct kilni_matmul_params *p)
{
	uint32_t rank = 0;
	uint32_t i;

	g->batches = 1;
	for (i = 0; i < p->batch_rank; i++) {
		uint64_t size = p->batch_shape[i];
		int64_t a = p->a_batch[i];
		int64_t b = p->b_batch[i];

		g->batches *= size;
		if (size == 1)
			continue;
		if (rank && g->a_batch[rank - 1] == a * (int64_t)size &&
		    g->b_batch[rank - 1] == b * (int64_t)size) {
			rank--;
			size *= g->batch_shape[rank];
		}
		g->batch_shape[rank] = size;
		g->a_batch[rank] = a;
		g->b_batch[rank] = b;
		rank++;
	}
	g->batch_rank = rank;
}

/*
 * One matrix B for a whole batch axis is one product with more rows, where
 * A's rows go on evenly from matrix to matrix. C's always do.
 */
static void fold_batch_into_rows(struct kilni_mm *g)
{
	while (g->batch_rank) {
		uint32_t last = g->batch_rank - 1;

		if (g->b_batch[last] != 0)
			return;
		if (g->m == 1)
			g->a_row = g->a_batch[last];
		else if (g->a_batch[last] != (int64_t)g->m * g->a_row)
			return;
		g->m *= g->batch_shape[last];
		g->batches /= g->batch_shape[last];
		g->batch_rank = last;
	}
}

/* True where tiles may read A in place without losing more than packing. */
static int reads_a_directly(const struct kilni_mm *g)
{
	if (g->narrow)
		return 0;
	return g->m <= 2 * KILNI_MM_PAD_ROWS ||
	       g->k <= KILNI_MM_DIRECT_A_MAX / g->m;
}

static void plan_packing(struct kilni_mm *g)
{
	uint64_t side = g->narrow ? KILNI_MM_PACK_SIDE_NARROW :
				    KILNI_MM_PACK_SIDE;
	uint64_t one;

	g->pack_m = least(g->m, side);
	g->pack_n = least(g->n, side);
	one = KILNI_MM_PACK_MAX / (most(g->pack_m, g->pack_n) * g->kc) * g->kc;
	g->pack_k = least(most(one, g->kc), g->k);
	g->group = 1;
	if (g->pack_m < g->m || g->pack_n < g->n || g->pack_k < g->k)
		return;
	one = kilni_mm_a_elements(g) + kilni_mm_b_elements(g) +
	      kilni_mm_sum_elements(g);
	g->group = least(g->batches, most(KILNI_MM_GROUP_MAX / one, 1));
}

void kilni_mm_plan(struct kilni_mm *g, const struct kilni_matmul_params *p)
{
	memset(g, 0, sizeof(*g));
	g->a = p->a;
	g->b = p->b;
	g->c = p->c;
	g->m = p->m;
	g->n = p->n;
	g->k = p->k;
	g->a_row = p->a_row;
	g->a_col = p->a_col;
	g->b_row = p->b_row;
	g->b_col = p->b_col;
	g->kind = kind_of[p->dtype % KILN_DTYPE_COUNT];
	g->stored = stored_bytes[g->kind];
	g->computed = computed_bytes[g->kind];
	g->narrow = g->stored < g->computed;
	take_batch(g, p);
	g->path = KILNI_MM_NOTHING;
	if (!g->m || !g->n || !g->batches)
		return;
	g->path = KILNI_MM_ZEROS;
	if (!g->k)
		return;
	fold_batch_into_rows(g);
	g->kc = round_up(divide_up(g->k, divide_up(g->k, KILNI_MM_KC)), 4);
	g->kc = least(g->kc, g->k);
	if (g->m == 1 || g->n == 1) {
		g->path = KILNI_MM_VECTOR;
	} else if (reads_a_directly(g)) {
		g->path = KILNI_MM_DIRECT;
	} else {
		g->path = KILNI_MM_PACKED;
		plan_packing(g);
	}
}

uint64_t kilni_mm_a_elements(const struct kilni_mm *g)
{
	return (g->pack_m + KILNI_MM_PAD_ROWS) * g->pack_k;
}

uint64_t kilni_mm_b_elements(const struct kilni_mm *g)
{
	return (g->pack_n + KILNI_MM_PAD_COLS) * g->pack_k;
}

uint64_t kilni_mm_sum_elements(const struct kilni_mm *g)
{
	return g->narrow ? g->pack_m * (g->pack_n + KILNI_MM_PAD_COLS) : 0;
}

uint64_t kilni_cpu_matmul_workspace(const struct kilni_matmul_params *p)
{
	struct kilni_mm g;
	uint64_t one;

	kilni_mm_plan(&g, p);
	if (g.path != KILNI_MM_PACKED)
		return 0;
	one = kilni_mm_a_elements(&g) + kilni_mm_b_elements(&g) +
	      kilni_mm_sum_elements(&g);
	/* Three regions, each begins on a line of the cache. */
	return one * g.group * g.computed + 4 * KILNI_MM_ALIGN;
}

void kilni_mm_cut(struct kilni_mm_cut *cut, const struct kilni_mm *g,
		  uint64_t batches, uint64_t m, uint64_t n, unsigned mr,
		  unsigned nr, unsigned width)
{
	double work = (double)m * (double)n * (double)g->k * (double)batches;
	uint64_t most_rows = most(KILNI_MM_A_BLOCK / g->kc, mr);
	uint64_t want = 1;
	uint64_t calls;

	if (width > 1 && work > KILNI_MM_SERIAL_WORK) {
		double worth = work / KILNI_MM_TASK_WORK;

		want = worth < 4.0 * width ? (uint64_t)worth + 1 : 4 * width;
	}
	calls = want;
	want = divide_up(want, batches);
	/* Columns first: a cut there packs no part of B twice. */
	cut->col_tasks = least(want, divide_up(n, 2 * nr));
	cut->cols = round_up(divide_up(n, cut->col_tasks), nr);
	cut->cols = least(cut->cols, KILNI_MM_TASK_COLS);
	cut->col_tasks = divide_up(n, cut->cols);
	cut->row_tasks = least(divide_up(want, cut->col_tasks),
			       divide_up(m, 2 * mr));
	cut->rows = divide_up(m, cut->row_tasks);
	cut->rows = round_up(least(cut->rows, most_rows), mr);
	cut->row_tasks = divide_up(m, cut->rows);
	cut->tasks = batches * cut->row_tasks * cut->col_tasks;
	cut->grain = calls == 1 ? cut->tasks : most(cut->tasks / calls, 1);
}

void kilni_mm_batch(const struct kilni_mm *g, uint64_t batch, int64_t *a,
		    int64_t *b)
{
	uint32_t i;

	*a = 0;
	*b = 0;
	for (i = g->batch_rank; i-- > 0;) {
		int64_t at = (int64_t)(batch % g->batch_shape[i]);

		batch /= g->batch_shape[i];
		*a += at * g->a_batch[i];
		*b += at * g->b_batch[i];
	}
}

void kilni_mm_run(struct kilni_team *team, void (*fn)(void *arg, uint64_t i),
		  void *arg, uint64_t count)
{
	uint64_t i;

	if (team->width > 1 && count > 1) {
		team->run(team, fn, arg, count);
		return;
	}
	for (i = 0; i < count; i++)
		fn(arg, i);
}
