/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_RANGE_H
#define KILNI_KERNELS_CPU_MATMUL_RANGE_H

#include <stdbool.h>

/*
 * Whether the instructions for bf16 may have a product: they take subnormal
 * numbers as 0 and give 0 for such a sum, which kiln keeps. An element is a
 * multiple of its last bit, so is a product and each sum of products: where the
 * last bits of the least of A and of B multiply to a normal number, nothing
 * subnormal comes up.
 */

enum {
	MM_BF16_BIAS = 127,
	MM_BF16_BITS = 7,              /* of the fraction */
	/* Sum of two biased exponents from which that is so. */
	MM_BF16_NORMAL = 2 * MM_BF16_BIAS + 2 * MM_BF16_BITS - 126,
	MM_RANGE_GRAIN = 64 * 1024     /* elements of a call */
};

/* The lines of one operand, of all matrices. */
struct mm_range {
	const struct kilni_mm *g;
	bool of_b;
	uint64_t lines, length;        /* of a matrix; of a line */
	int64_t line, step;            /* strides */
	uint64_t count, grain;         /* lines of all; of a call */
	unsigned least;                /* atomic */
};

/* The bits of the least magnitude that is not 0, less one; 0xffff: none. */
KILNI_MM_INLINE unsigned mm_range_line(const uint16_t *x, uint64_t length,
				       int64_t step)
{
	uint16_t found = 0xffff;

	for (uint64_t i = 0; i < length; i++) {
		uint16_t bits = (uint16_t)((x[(int64_t)i * step] & 0x7fff) - 1);

		found = bits < found ? bits : found;
	}
	return found;
}

static void mm_range_call(void *arg, uint64_t call)
{
	struct mm_range *r = arg;
	uint64_t line = call * r->grain;
	uint64_t end = least(line + r->grain, r->count);
	unsigned found = 0xffff, before;
	int64_t a, b;

	for (; line < end; line++) {
		const uint16_t *x = (const uint16_t *)(uintptr_t)(
			r->of_b ? r->g->b : r->g->a);
		unsigned here;

		kilni_mm_batch(r->g, line / r->lines, &a, &b);
		x += (r->of_b ? b : a) + (int64_t)(line % r->lines) * r->line;
		here = r->step == 1 ? mm_range_line(x, r->length, 1)
				    : mm_range_line(x, r->length, r->step);
		found = here < found ? here : found;
	}
	before = __atomic_load_n(&r->least, __ATOMIC_RELAXED);
	while (found < before &&
	       !__atomic_compare_exchange_n(&r->least, &before, found, true,
					    __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/*
 * The biased exponent of an operand's least magnitude but 0, which is that of
 * infinity where all are 0; 0 is subnormal.
 */
static unsigned mm_range_of(const struct kilni_mm *g, struct kilni_team *team,
			    bool of_b)
{
	const int64_t *batch = of_b ? g->b_batch : g->a_batch;
	int64_t row = of_b ? g->b_row : g->a_row;
	int64_t col = of_b ? g->b_col : g->a_col;
	struct mm_range r = { .g = g, .of_b = of_b, .least = 0xffff };
	uint64_t rows = of_b ? g->k : g->m, cols = of_b ? g->n : g->k;
	bool by_rows = col == 1 || (row != 1 && cols > rows);
	uint64_t batches = 1;

	for (uint32_t i = 0; i < g->batch_rank; i++)
		if (batch[i])
			batches = g->batches;
	r.lines = by_rows ? rows : cols;
	r.length = by_rows ? cols : rows;
	r.line = by_rows ? row : col;
	r.step = by_rows ? col : row;
	r.count = r.lines * batches;
	r.grain = divide_up(MM_RANGE_GRAIN, r.length);
	kilni_mm_run(team, mm_range_call, &r, divide_up(r.count, r.grain));
	return r.least == 0xffff ? 255 : (r.least + 1) >> MM_BF16_BITS;
}

static bool mm_range_is_normal(const struct kilni_mm *g,
			       struct kilni_team *team)
{
	unsigned a = mm_range_of(g, team, false);
	unsigned b = a ? mm_range_of(g, team, true) : 0;

	return a && b && a + b >= MM_BF16_NORMAL;
}

#endif
