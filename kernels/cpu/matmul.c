/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/matmul.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/matmul_kind.h"
#include "kernels/cpu/matmul_vec.h"

/*
 * Compiled once per instruction-set level, with that level's flags and
 * KILNI_ISA_SUFFIX set to its suffix.
 */
#ifndef KILNI_ISA_SUFFIX
#define KILNI_ISA_SUFFIX base
#endif

#define KILNI_MM_CAT0_(x, y) x##y
#define KILNI_MM_CAT0(x, y) KILNI_MM_CAT0_(x, y)
#define KILNI_MM_CAT_(x, y) x##_##y
#define KILNI_MM_CAT(x, y) KILNI_MM_CAT_(x, y)

/* One panel of B and how to go through A and C beside it. */
struct mm_tile {
	const void *b;
	int64_t b_row;
	uint64_t kc;
	int64_t a_row, a_col;
	int64_t c_row;
	unsigned cols;
	int add;               /* to what C holds */
};

enum {
	/* A product by rows: of the matrix and of x at a time. */
	MM_DOT_ROWS = 64,
	MM_DOT_BLOCK = 1024,
	/* By columns: rows at a time, columns in one chain. */
	MM_AXPY_ROWS = 1024,
	MM_AXPY_BLOCK = 256,
	/* Rows of B that packing asks for ahead. */
	MM_AHEAD = 8
};

/* Multiply-adds of a product with a vector that are worth a task. */
#define MM_VECTOR_WORK (32.0 * 1024)

/* y = M x, whichever of A and B is the matrix. */
struct mm_vector {
	int64_t m_row, m_col, x_step;
	uint64_t len, k;
};

#define KILNI_MM_K f64
#define KILNI_MM_TURNS 0
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K f32
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K f16
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K bf16
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K u64
#define KILNI_MM_TURNS 0
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K u32
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K u16
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"
#define KILNI_MM_K u8
#define KILNI_MM_TURNS 1
#include "kernels/cpu/matmul_pack.h"

#define KILNI_MM_T f64
#define KILNI_MM_PAIRS 0
#include "kernels/cpu/matmul_tile.h"
#define KILNI_MM_T f32
#define KILNI_MM_PAIRS 0
#include "kernels/cpu/matmul_tile.h"
#define KILNI_MM_T u64
#define KILNI_MM_PAIRS 0
#include "kernels/cpu/matmul_tile.h"
#define KILNI_MM_T u32
#define KILNI_MM_PAIRS 0
#include "kernels/cpu/matmul_tile.h"

#if KILNI_MM_HAS_PAIRS
#include "kernels/cpu/matmul_pairs.h"
#define KILNI_MM_T pairs
#define KILNI_MM_PAIRS 1
#include "kernels/cpu/matmul_tile.h"
#endif

typedef void mm_pack_fn(void *to, const void *from, int64_t side, int64_t along,
			unsigned w, uint64_t kc);
typedef void mm_vector_fn(const struct mm_vector *v, const void *matrix,
			  const void *vector, void *to, uint64_t len);

/* What the paths below call for a kind. */
struct mm_ops {
	mm_pack_fn *pack_a, *pack_b;
	void (*column)(const struct mm_tile *t, const void *a, void *c,
		       uint64_t rows);
	void (*direct)(const struct kilni_mm *g, const void *a, const void *b,
		       void *c, uint64_t rows, uint64_t cols);
	void (*finish)(void *c, uint64_t c_row, const void *sum,
		       uint64_t sum_row, uint64_t rows, uint64_t cols);
	mm_vector_fn *by_rows, *by_columns;
};

static const struct mm_ops mm_ops[KILNI_MM_KIND_COUNT] = {
#define MM_OPS_(name, stored, computed)                                        \
	{                                                                      \
		name##_pack_a,                                                 \
		name##_pack_b,                                                 \
		KILNI_MM_CAT(KILNI_MM_COMPUTED_##name, packed_column),         \
		KILNI_MM_CAT(KILNI_MM_COMPUTED_##name, direct),                \
		name##_finish,                                                 \
		name##_by_rows,                                                \
		name##_by_columns                                              \
	},
	KILNI_MM_KIND_TABLE(MM_OPS_)
#undef MM_OPS_
};

#if KILNI_MM_HAS_PAIRS
static const struct mm_ops mm_pairs_ops = {
	mm_pairs_pack_a,   mm_pairs_pack_b, pairs_packed_column, f32_direct,
	bf16_finish,       bf16_by_rows,    bf16_by_columns
};
#endif

/* A product on its way. */
struct mm_job {
	const struct kilni_mm *g;
	const struct mm_ops *ops;
	struct kilni_mm_cut cut;
	struct mm_vector v;
	unsigned nr;
	unsigned steps;        /* of k in an element of a panel */
	/* The part that is packed: first matrix, row, column, k; extents. */
	uint64_t batch, row, col, k;
	uint64_t batches, rows, cols, depth;
	char *a, *b, *sum;
	uint64_t pack_units, pack_grain;
};

static uint64_t least(uint64_t x, uint64_t y)
{
	return x < y ? x : y;
}

static uint64_t divide_up(uint64_t x, uint64_t y)
{
	return x / y + (x % y != 0);
}

static const char *at(uint64_t address, int64_t element, uint32_t bytes)
{
	return (const char *)(uintptr_t)address + element * (int64_t)bytes;
}

static char *c_at(const struct kilni_mm *g, uint64_t batch, uint64_t row,
		  uint64_t col)
{
	return (char *)(uintptr_t)g->c +
	       ((batch * g->m + row) * g->n + col) * g->stored;
}

/* One task's place in a matrix of C. */
struct mm_piece {
	uint64_t batch, row, col, rows, cols;
};

static void piece_of(struct mm_piece *s, const struct kilni_mm_cut *cut,
		     uint64_t task, uint64_t m, uint64_t n)
{
	uint64_t per = cut->row_tasks * cut->col_tasks;

	s->batch = task / per;
	task %= per;
	s->row = task / cut->col_tasks * cut->rows;
	s->col = task % cut->col_tasks * cut->cols;
	s->rows = least(cut->rows, m - s->row);
	s->cols = least(cut->cols, n - s->col);
}

static void direct_call(void *arg, uint64_t call)
{
	const struct mm_job *job = arg;
	const struct kilni_mm *g = job->g;
	uint64_t task = call * job->cut.grain;
	uint64_t end = least(task + job->cut.grain, job->cut.tasks);
	struct mm_piece s;
	int64_t a, b;

	for (; task < end; task++) {
		piece_of(&s, &job->cut, task, g->m, g->n);
		kilni_mm_batch(g, s.batch, &a, &b);
		a += (int64_t)s.row * g->a_row;
		b += (int64_t)s.col * g->b_col;
		job->ops->direct(g, at(g->a, a, g->stored),
				 at(g->b, b, g->stored),
				 c_at(g, s.batch, s.row, s.col), s.rows,
				 s.cols);
	}
}

static void run_direct(struct mm_job *job, struct kilni_team *team)
{
	const struct kilni_mm *g = job->g;

	kilni_mm_cut(&job->cut, g, g->batches, g->m, g->n, KILNI_MM_MR, job->nr,
		     team->width);
	kilni_mm_run(team, direct_call, job,
		     divide_up(job->cut.tasks, job->cut.grain));
}

/*
 * Packed operands: block of k after block, in it panel after panel. These
 * give the place of a panel.
 */
static char *packed_a(const struct mm_job *job, uint64_t matrix, uint64_t k,
		      uint64_t panel, uint64_t kc)
{
	uint64_t rows = divide_up(job->rows, KILNI_MM_MR) * KILNI_MM_MR;

	k /= job->steps;
	kc = divide_up(kc, job->steps);
	return job->a + (matrix * kilni_mm_a_elements(job->g) + k * rows +
			 panel * KILNI_MM_MR * kc) * job->g->computed;
}

static char *packed_b(const struct mm_job *job, uint64_t matrix, uint64_t k,
		      uint64_t panel, uint64_t kc)
{
	uint64_t cols = divide_up(job->cols, job->nr) * job->nr;

	k /= job->steps;
	kc = divide_up(kc, job->steps);
	return job->b + (matrix * kilni_mm_b_elements(job->g) + k * cols +
			 panel * job->nr * kc) * job->g->computed;
}

/* A unit of packing: one panel of A or of B over one block of k. */
static void pack_unit(const struct mm_job *job, uint64_t unit)
{
	const struct kilni_mm *g = job->g;
	uint64_t a_panels = divide_up(job->rows, KILNI_MM_MR);
	uint64_t panels = a_panels + divide_up(job->cols, job->nr);
	uint64_t blocks = divide_up(job->depth, g->kc);
	uint64_t matrix = unit / (panels * blocks);
	uint64_t k = unit / panels % blocks * g->kc;
	uint64_t panel = unit % panels;
	uint64_t kc = least(g->kc, job->depth - k);
	uint64_t first;
	int64_t a, b;

	kilni_mm_batch(g, job->batch + matrix, &a, &b);
	if (panel < a_panels) {
		first = panel * KILNI_MM_MR;
		a += (int64_t)(job->row + first) * g->a_row +
		     (int64_t)(job->k + k) * g->a_col;
		job->ops->pack_a(packed_a(job, matrix, k, panel, kc),
				 at(g->a, a, g->stored), g->a_row, g->a_col,
				 (unsigned)least(KILNI_MM_MR,
						 job->rows - first), kc);
		return;
	}
	panel -= a_panels;
	first = panel * job->nr;
	b += (int64_t)(job->col + first) * g->b_col +
	     (int64_t)(job->k + k) * g->b_row;
	job->ops->pack_b(packed_b(job, matrix, k, panel, kc),
			 at(g->b, b, g->stored), g->b_col, g->b_row,
			 (unsigned)least(job->nr, job->cols - first), kc);
}

static void pack_call(void *arg, uint64_t call)
{
	const struct mm_job *job = arg;
	uint64_t unit = call * job->pack_grain;
	uint64_t end = least(unit + job->pack_grain, job->pack_units);

	for (; unit < end; unit++)
		pack_unit(job, unit);
}

/* Where a piece of C is summed up: in place or, where narrow, beside it. */
static char *sum_place(const struct mm_job *job, const struct mm_piece *s,
		       int64_t *row)
{
	const struct kilni_mm *g = job->g;

	if (!g->narrow) {
		*row = (int64_t)g->n;
		return c_at(g, job->batch + s->batch, job->row + s->row,
			    job->col + s->col);
	}
	*row = (int64_t)(divide_up(job->cols, job->nr) * job->nr);
	return job->sum + (s->batch * kilni_mm_sum_elements(g) +
			   s->row * (uint64_t)*row + s->col) * g->computed;
}

static void packed_piece(const struct mm_job *job, const struct mm_piece *s)
{
	const struct kilni_mm *g = job->g;
	struct mm_tile t = { .b_row = job->nr, .a_row = 1,
			     .a_col = KILNI_MM_MR };
	char *sum = sum_place(job, s, &t.c_row);
	uint64_t k, j;

	for (k = 0; k < job->depth; k += g->kc) {
		uint64_t kc = least(g->kc, job->depth - k);
		const char *a = packed_a(job, s->batch, k,
					 s->row / KILNI_MM_MR, kc);

		t.kc = divide_up(kc, job->steps);
		t.add = job->k + k != 0;
		for (j = 0; j < s->cols; j += job->nr) {
			t.cols = g->narrow ? job->nr :
				 (unsigned)least(job->nr, s->cols - j);
			t.b = packed_b(job, s->batch, k,
				       (s->col + j) / job->nr, kc);
			job->ops->column(&t, a, sum + j * g->computed, s->rows);
		}
	}
	if (g->narrow && job->k + job->depth == g->k)
		job->ops->finish(c_at(g, job->batch + s->batch,
				      job->row + s->row, job->col + s->col),
				 g->n, sum, (uint64_t)t.c_row, s->rows,
				 s->cols);
}

static void packed_call(void *arg, uint64_t call)
{
	const struct mm_job *job = arg;
	uint64_t task = call * job->cut.grain;
	uint64_t end = least(task + job->cut.grain, job->cut.tasks);
	struct mm_piece s;

	for (; task < end; task++) {
		piece_of(&s, &job->cut, task, job->rows, job->cols);
		packed_piece(job, &s);
	}
}

/* Packs the part that job names and multiplies it. */
static void run_part(struct mm_job *job, struct kilni_team *team)
{
	const struct kilni_mm *g = job->g;
	unsigned width = team->width;

	kilni_mm_cut(&job->cut, g, job->batches, job->rows, job->cols,
		     KILNI_MM_MR, job->nr, width);
	job->pack_units = job->batches * divide_up(job->depth, g->kc) *
			  (divide_up(job->rows, KILNI_MM_MR) +
			   divide_up(job->cols, job->nr));
	job->pack_grain = divide_up(job->pack_units, 8 * (uint64_t)width);
	if (job->cut.grain >= job->cut.tasks)
		job->pack_grain = job->pack_units;
	kilni_mm_run(team, pack_call, job,
		     divide_up(job->pack_units, job->pack_grain));
	kilni_mm_run(team, packed_call, job,
		     divide_up(job->cut.tasks, job->cut.grain));
}

static void run_packed(struct mm_job *job, struct kilni_team *team,
		       uint64_t workspace)
{
	const struct kilni_mm *g = job->g;
	const uint64_t mask = KILNI_MM_ALIGN - 1;
	uint64_t b, sum;

	workspace = (workspace + mask) & ~mask;
	b = workspace + g->group * kilni_mm_a_elements(g) * g->computed;
	b = (b + mask) & ~mask;
	sum = b + g->group * kilni_mm_b_elements(g) * g->computed;
	sum = (sum + mask) & ~mask;
	job->a = (char *)(uintptr_t)workspace;
	job->b = (char *)(uintptr_t)b;
	job->sum = (char *)(uintptr_t)sum;
	for (job->batch = 0; job->batch < g->batches; job->batch += g->group) {
		job->batches = least(g->group, g->batches - job->batch);
		for (job->row = 0; job->row < g->m; job->row += g->pack_m) {
			job->rows = least(g->pack_m, g->m - job->row);
			for (job->col = 0; job->col < g->n;
			     job->col += g->pack_n) {
				job->cols = least(g->pack_n, g->n - job->col);
				for (job->k = 0; job->k < g->k;
				     job->k += g->pack_k) {
					job->depth = least(g->pack_k,
							   g->k - job->k);
					run_part(job, team);
				}
			}
		}
	}
}

static void vector_call(void *arg, uint64_t call)
{
	const struct mm_job *job = arg;
	const struct kilni_mm *g = job->g;
	uint64_t task = call * job->cut.grain;
	uint64_t end = least(task + job->cut.grain, job->cut.tasks);
	int a_is_matrix = g->n == 1;
	const char *matrix, *vector;
	uint64_t row, batch, len;
	int64_t a, b;

	for (; task < end; task++) {
		batch = task / job->cut.row_tasks;
		row = task % job->cut.row_tasks * job->cut.rows;
		len = least(job->cut.rows, job->v.len - row);
		kilni_mm_batch(g, batch, &a, &b);
		matrix = at(a_is_matrix ? g->a : g->b,
			    (a_is_matrix ? a : b) + (int64_t)row * job->v.m_row,
			    g->stored);
		vector = at(a_is_matrix ? g->b : g->a, a_is_matrix ? b : a,
			    g->stored);
		(job->v.m_row == 1 && job->v.m_col != 1 ?
		 job->ops->by_columns : job->ops->by_rows)(
			&job->v, matrix, vector,
			c_at(g, batch, 0, 0) + row * g->stored, len);
	}
}

static void run_vector(struct mm_job *job, struct kilni_team *team)
{
	const struct kilni_mm *g = job->g;
	struct mm_vector *v = &job->v;
	int by_columns;
	double tasks;
	uint64_t most, step;

	v->k = g->k;
	v->len = g->n == 1 ? g->m : g->n;
	v->m_row = g->n == 1 ? g->a_row : g->b_col;
	v->m_col = g->n == 1 ? g->a_col : g->b_row;
	v->x_step = g->n == 1 ? g->b_row : g->a_col;
	by_columns = v->m_row == 1 && v->m_col != 1;
	tasks = (double)v->len * (double)v->k * (double)g->batches /
		MM_VECTOR_WORK;
	if (tasks > 8.0 * team->width)
		tasks = 8.0 * team->width;
	if (tasks < 1 || team->width == 1)
		tasks = 1;
	most = by_columns ? MM_AXPY_ROWS : MM_DOT_ROWS;
	/* Short pieces of columns would be read one line at a time. */
	step = by_columns ? MM_AXPY_ROWS / 4 : MM_DOT_ROWS / 4;
	job->cut.rows = divide_up(v->len * g->batches, (uint64_t)tasks);
	job->cut.rows = divide_up(job->cut.rows, step) * step;
	job->cut.rows = least(job->cut.rows, most);
	job->cut.row_tasks = divide_up(v->len, job->cut.rows);
	job->cut.tasks = job->cut.row_tasks * g->batches;
	job->cut.grain = divide_up(job->cut.tasks, (uint64_t)tasks);
	kilni_mm_run(team, vector_call, job,
		     divide_up(job->cut.tasks, job->cut.grain));
}

#if KILNI_MM_HAS_AMX
#include "kernels/cpu/matmul_amx.h"
#endif

#if KILNI_MM_HAS_PAIRS
#include "kernels/cpu/matmul_range.h"

/* By the processor's instructions for bf16; false: that is not the way. */
static bool run_pairs(struct mm_job *job, struct kilni_team *team,
		      uint64_t workspace)
{
	const struct kilni_mm *g = job->g;

	if (g->kind != KILNI_MM_KIND_bf16 || g->path != KILNI_MM_PACKED ||
	    !mm_pairs_run() || !mm_range_is_normal(g, team))
		return false;
#if KILNI_MM_HAS_AMX
	if (mm_amx_run(g, team, workspace))
		return true;
#endif
	job->ops = &mm_pairs_ops;
	job->steps = 2;
	run_packed(job, team, workspace);
	return true;
}
#endif

void KILNI_MM_CAT(kilni_matmul, KILNI_ISA_SUFFIX)(
	const struct kilni_matmul_params *p, struct kilni_team *team)
{
	struct kilni_mm g;
	struct mm_job job = { .g = &g, .steps = 1 };

	kilni_mm_plan(&g, p);
	job.ops = &mm_ops[g.kind];
	job.nr = KILNI_MM_NV * KILNI_MM_VB / g.computed;
#if KILNI_MM_HAS_PAIRS
	if (run_pairs(&job, team, p->workspace))
		return;
#endif
	switch (g.path) {
	case KILNI_MM_NOTHING:
		break;
	case KILNI_MM_ZEROS:
		memset(c_at(&g, 0, 0, 0), 0, g.batches * g.m * g.n * g.stored);
		break;
	case KILNI_MM_VECTOR:
		run_vector(&job, team);
		break;
	case KILNI_MM_DIRECT:
		run_direct(&job, team);
		break;
	case KILNI_MM_PACKED:
		run_packed(&job, team, p->workspace);
		break;
	}
}
