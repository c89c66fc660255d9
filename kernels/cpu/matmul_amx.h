/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_AMX_H
#define KILNI_KERNELS_CPU_MATMUL_AMX_H

#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/matmul_kind.h"

/*
 * bf16 by AMX: a tile register holds 16 rows of 64 bytes, and one instruction
 * multiplies 16 rows of A, 32 steps of k each, with 16 columns of B. Like
 * AVX512-BF16 it takes denormals as 0, and it makes none (matmul_range.h).
 *
 * A panel is 32 rows of A or 32 columns of B: for each 32 steps of k two
 * tiles, filled up with zeros at the edges. A tile of A is rows of steps; one
 * of B is rows of pairs of steps, the earlier in the low half, a pair for
 * each column.
 *
 * The functions carry the target as an attribute, so that the rest of the
 * level runs on processors without the extension.
 */
#define MM_AMX_TARGET __attribute__((target("amx-tile,amx-bf16")))

enum {
	MM_AMX_SIDE = 32,              /* of a panel */
	MM_AMX_STEPS = 32,             /* of k in a tile */
	MM_AMX_LANES = 16,             /* rows of a tile, floats of one */
	MM_AMX_TILE = 1024,            /* bytes of a tile */
	MM_AMX_LINE = 64,              /* bytes of its row */
	/* Longest chain of multiply-adds. */
	MM_AMX_KC = 1024,
	/* Rows and columns of a task, at most. */
	MM_AMX_TASK = 256,
	/* Rows and columns, k, from which tiles are filled well enough. */
	MM_AMX_LEAST_SIDE = 16,
	MM_AMX_LEAST_K = 64
};

/* Multiply-adds from which tiles pay; those worth a team. */
#define MM_AMX_LEAST_WORK (64.0 * 64 * 64)
#define MM_AMX_TEAM_WORK 2.0e6

/* A product on its way; packed panels lie block of k after block. */
struct mm_amx {
	struct kilni_mm g;
	struct kilni_mm_cut cut;
	uint64_t kc;                   /* a block of k */
	char *a, *b, *sum;
	uint64_t a_bytes, b_bytes;     /* of one matrix, packed */
	/* The part that is packed: first matrix, row, column, k; extents. */
	uint64_t batch, row, col, k;
	uint64_t batches, rows, cols, depth;
	uint64_t pack_units, pack_grain;
};

/*
 * The system gives tiles to a process that asks for them. To ask twice does
 * no harm, so threads that come here together need no lock.
 */
__attribute__((target("xsave"))) static int mm_amx_ask(void)
{
	enum {
		LEAF = 7,
		HAS = 1 << 22 | 1 << 24,       /* AMX-BF16, AMX-TILE */
		STATE = 3 << 17,               /* configuration and data */
		REQUEST = 0x1023,              /* ARCH_REQ_XCOMP_PERM */
		DATA = 18
	};
	unsigned a, b, c, d;

	if (!__get_cpuid_count(LEAF, 0, &a, &b, &c, &d) || (d & HAS) != HAS)
		return 0;
	if ((_xgetbv(0) & STATE) != STATE)
		return 0;
	return syscall(SYS_arch_prctl, REQUEST, DATA) == 0;
}

static int mm_amx_runs(void)
{
	enum { UNKNOWN, NO, YES };
	static int known;
	int state = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (state == UNKNOWN) {
		state = mm_amx_ask() ? YES : NO;
		__atomic_store_n(&known, state, __ATOMIC_RELAXED);
	}
	return state == YES;
}

static uint64_t amx_round_up(uint64_t x)
{
	return (x + MM_AMX_SIDE - 1) / MM_AMX_SIDE * MM_AMX_SIDE;
}

/* 16 lines of 32 steps, of which w lines and steps steps exist. */
static void amx_lines(uint32_t *to, const uint16_t *from, int64_t side,
		      int64_t along, unsigned w, unsigned steps)
{
	__mmask32 some = (__mmask32)(0xffffffff >> (MM_AMX_STEPS - steps));
	uint16_t line[MM_AMX_STEPS] = { 0 };
	unsigned j, k;

	for (j = 0; j < w; j++, from += side, to += MM_AMX_LANES) {
		if (along == 1) {
			_mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(
							some, from));
			continue;
		}
		for (k = 0; k < steps; k++)
			line[k] = from[(int64_t)k * along];
		memcpy(to, line, sizeof(line));
	}
	memset(to, 0, (MM_AMX_LANES - w) * (size_t)MM_AMX_LINE);
}

/* The same turned: 16 pairs of steps, lines side by side, which are dense. */
static void amx_pairs(uint32_t *to, const uint16_t *from, int64_t along,
		      unsigned w, unsigned steps)
{
	__mmask16 some = (__mmask16)(0xffff >> (MM_AMX_LANES - w));
	unsigned k;

	for (k = 0; k < steps; k += 2, to += MM_AMX_LANES) {
		__m512i low = _mm512_cvtepu16_epi32(
			_mm256_maskz_loadu_epi16(some, from));
		__m512i high = _mm512_setzero_si512();

		if (k + 1 < steps)
			high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
				some, from + along));
		high = _mm512_slli_epi32(high, 16);
		_mm512_storeu_si512(to, _mm512_or_si512(low, high));
		if (k + 2 < steps)
			from += 2 * along;
	}
	for (; k < MM_AMX_STEPS; k += 2, to += MM_AMX_LANES)
		memset(to, 0, MM_AMX_LINE);
}

static void amx_turn(uint32_t *to, const uint32_t *from)
{
	unsigned i, j;

	for (i = 0; i < MM_AMX_LANES; i += 4)
		for (j = 0; j < MM_AMX_LANES; j += 4) {
			const uint32_t *x = from + i * MM_AMX_LANES + j;

			mm_turn(to + j * MM_AMX_LANES + i, MM_AMX_LANES,
				mm_u32_load4(x),
				mm_u32_load4(x + MM_AMX_LANES),
				mm_u32_load4(x + 2 * MM_AMX_LANES),
				mm_u32_load4(x + 3 * MM_AMX_LANES));
		}
}

/* One tile; as pairs for B. */
static void amx_pack_tile(char *to, const uint16_t *from, int64_t side,
			  int64_t along, unsigned w, unsigned steps, int pairs)
{
	uint32_t other[MM_AMX_TILE / sizeof(uint32_t)]
		__attribute__((aligned(MM_AMX_LINE)));
	int turned = side == 1 && along != 1;
	uint32_t *at = turned == pairs ? (uint32_t *)(void *)to : other;

	if (!w)
		memset(at, 0, MM_AMX_TILE);
	else if (turned)
		amx_pairs(at, from, along, w, steps);
	else
		amx_lines(at, from, side, along, w, steps);
	if (at == other)
		amx_turn((uint32_t *)(void *)to, other);
}

static void amx_pack_panel(char *to, const uint16_t *from, int64_t side,
			   int64_t along, unsigned w, uint64_t kc, int pairs)
{
	unsigned w0 = (unsigned)least(w, MM_AMX_LANES);
	int64_t second = w > w0 ? MM_AMX_LANES * side : 0;
	uint64_t k;

	for (k = 0; k < kc; k += MM_AMX_STEPS, to += 2 * MM_AMX_TILE) {
		const uint16_t *x = from + (int64_t)k * along;
		unsigned steps = (unsigned)least(kc - k, MM_AMX_STEPS);

		amx_pack_tile(to, x, side, along, w0, steps, pairs);
		amx_pack_tile(to + MM_AMX_TILE, x + second, side, along,
			      w - w0, steps, pairs);
	}
}

static char *amx_packed_a(const struct mm_amx *x, uint64_t matrix, uint64_t k,
			  uint64_t first, uint64_t kc)
{
	return x->a + matrix * x->a_bytes +
	       2 * (k * amx_round_up(x->rows) + first * amx_round_up(kc));
}

static char *amx_packed_b(const struct mm_amx *x, uint64_t matrix, uint64_t k,
			  uint64_t first, uint64_t kc)
{
	return x->b + matrix * x->b_bytes +
	       2 * (k * amx_round_up(x->cols) + first * amx_round_up(kc));
}

/* A unit of packing: one panel of A or of B over one block of k. */
static void amx_pack_unit(const struct mm_amx *x, uint64_t unit)
{
	const struct kilni_mm *g = &x->g;
	uint64_t a_panels = divide_up(x->rows, MM_AMX_SIDE);
	uint64_t panels = a_panels + divide_up(x->cols, MM_AMX_SIDE);
	uint64_t blocks = divide_up(x->depth, x->kc);
	uint64_t matrix = unit / (panels * blocks);
	uint64_t k = unit / panels % blocks * x->kc;
	uint64_t kc = least(x->kc, x->depth - k);
	uint64_t first = unit % panels * MM_AMX_SIDE;
	int64_t a, b;

	kilni_mm_batch(g, x->batch + matrix, &a, &b);
	if (unit % panels < a_panels) {
		a += (int64_t)(x->row + first) * g->a_row +
		     (int64_t)(x->k + k) * g->a_col;
		amx_pack_panel(amx_packed_a(x, matrix, k, first, kc),
			       (const void *)at(g->a, a, g->stored), g->a_row,
			       g->a_col,
			       (unsigned)least(MM_AMX_SIDE, x->rows - first),
			       kc, 0);
		return;
	}
	first -= a_panels * MM_AMX_SIDE;
	b += (int64_t)(x->col + first) * g->b_col +
	     (int64_t)(x->k + k) * g->b_row;
	amx_pack_panel(amx_packed_b(x, matrix, k, first, kc),
		       (const void *)at(g->b, b, g->stored), g->b_col, g->b_row,
		       (unsigned)least(MM_AMX_SIDE, x->cols - first), kc, 1);
}

static void amx_pack_call(void *arg, uint64_t call)
{
	const struct mm_amx *x = arg;
	uint64_t unit = call * x->pack_grain;
	uint64_t end = least(unit + x->pack_grain, x->pack_units);

	for (; unit < end; unit++)
		amx_pack_unit(x, unit);
}

/* All of k's block for 32 times 32 of C; kc > 0. */
MM_AMX_TARGET static void amx_multiply(float *to, const char *a, const char *b,
				       uint64_t kc)
{
	const int row = MM_AMX_SIDE * (int)sizeof(float);

	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (kc = divide_up(kc, MM_AMX_STEPS); kc; kc--) {
		_tile_loadd(4, b, MM_AMX_LINE);
		_tile_loadd(6, a, MM_AMX_LINE);
		_tile_loadd(5, b + MM_AMX_TILE, MM_AMX_LINE);
		_tile_dpbf16ps(0, 6, 4);
		_tile_loadd(7, a + MM_AMX_TILE, MM_AMX_LINE);
		_tile_dpbf16ps(1, 6, 5);
		_tile_dpbf16ps(2, 7, 4);
		_tile_dpbf16ps(3, 7, 5);
		a += 2 * MM_AMX_TILE;
		b += 2 * MM_AMX_TILE;
	}
	_tile_stored(0, to, row);
	_tile_stored(1, to + MM_AMX_LANES, row);
	_tile_stored(2, to + MM_AMX_LANES * MM_AMX_SIDE, row);
	_tile_stored(3, to + MM_AMX_LANES * MM_AMX_SIDE + MM_AMX_LANES, row);
}

/* Rounds to the nearest, ties to even; a NaN stays one. */
static __m256i amx_round(__m512 v)
{
	__m512i bits = _mm512_castps_si512(v);
	__m512i high = _mm512_srli_epi32(bits, 16);
	__m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
	__mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);

	bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
	bits = _mm512_srli_epi32(_mm512_add_epi32(bits, odd), 16);
	bits = _mm512_mask_or_epi32(bits, nan, high, _mm512_set1_epi32(0x40));
	return _mm512_cvtepi32_epi16(bits);
}

/* Where a block's result goes: to sums, and from there to C. */
struct amx_out {
	float *sum;
	uint16_t *c;
	uint64_t sum_row, c_row;
	int first, last;               /* block of k */
};

static void amx_finish(const struct amx_out *out, const float *from,
		       uint64_t rows, uint64_t cols)
{
	float *sum = out->sum;
	uint16_t *c = out->c;
	unsigned j;

	for (; rows; rows--, from += MM_AMX_SIDE) {
		for (j = 0; j < cols; j += MM_AMX_LANES) {
			unsigned w = (unsigned)least(cols - j, MM_AMX_LANES);
			__m512 v = _mm512_loadu_ps(from + j);

			if (!out->first)
				v = _mm512_add_ps(_mm512_loadu_ps(sum + j), v);
			if (!out->last)
				_mm512_storeu_ps(sum + j, v);
			else
				_mm256_mask_storeu_epi16(
					c + j,
					(__mmask16)(0xffff >>
						    (MM_AMX_LANES - w)),
					amx_round(v));
		}
		sum += out->sum_row;
		c += out->c_row;
	}
}

static void amx_piece(const struct mm_amx *x, const struct mm_piece *s)
{
	const struct kilni_mm *g = &x->g;
	const uint64_t row_end = s->row + s->rows, col_end = s->col + s->cols;
	float block[MM_AMX_SIDE * MM_AMX_SIDE]
		__attribute__((aligned(MM_AMX_LINE)));
	struct amx_out out = { .sum_row = amx_round_up(x->cols),
			       .c_row = g->n };
	float *sum = (float *)(void *)x->sum +
		     s->batch * kilni_mm_sum_elements(g);
	uint64_t k, i, j;

	for (k = 0; k < x->depth; k += x->kc) {
		uint64_t kc = least(x->kc, x->depth - k);

		out.first = x->k + k == 0;
		out.last = x->k + k + kc == g->k;
		for (j = s->col; j < col_end; j += MM_AMX_SIDE)
			for (i = s->row; i < row_end; i += MM_AMX_SIDE) {
				amx_multiply(
					block,
					amx_packed_a(x, s->batch, k, i, kc),
					amx_packed_b(x, s->batch, k, j, kc),
					kc);
				out.sum = sum + i * out.sum_row + j;
				out.c = (void *)c_at(g, x->batch + s->batch,
						     x->row + i, x->col + j);
				amx_finish(&out, block,
					   least(MM_AMX_SIDE, row_end - i),
					   least(MM_AMX_SIDE, col_end - j));
			}
	}
}

/* Tiles are on within a call alone: the thread may not be ours. */
MM_AMX_TARGET static void amx_call(void *arg, uint64_t call)
{
	/* Palette 1; bytes of a row and rows of 8 tiles. */
	static const struct {
		uint8_t palette, start, unused[14];
		uint16_t line[16];
		uint8_t rows[16];
	} shape __attribute__((aligned(64))) = {
		.palette = 1,
		.line = { 64, 64, 64, 64, 64, 64, 64, 64 },
		.rows = { 16, 16, 16, 16, 16, 16, 16, 16 }
	};
	const struct mm_amx *x = arg;
	uint64_t task = call * x->cut.grain;
	uint64_t end = least(task + x->cut.grain, x->cut.tasks);
	struct mm_piece s;

	_tile_loadconfig(&shape);
	for (; task < end; task++) {
		piece_of(&s, &x->cut, task, x->rows, x->cols);
		amx_piece(x, &s);
	}
	_tile_release();
}

static void amx_cut(struct mm_amx *x, unsigned width)
{
	struct kilni_mm_cut *cut = &x->cut;
	uint64_t side = MM_AMX_TASK;

	for (;; side /= 2) {
		cut->row_tasks = divide_up(x->rows, side);
		cut->col_tasks = divide_up(x->cols, side);
		cut->tasks = x->batches * cut->row_tasks * cut->col_tasks;
		if (width == 1 || cut->tasks >= 4 * (uint64_t)width ||
		    side == MM_AMX_SIDE)
			break;
	}
	cut->rows = side;
	cut->cols = side;
	cut->grain = divide_up(cut->tasks, width == 1 ? 1 : 8 * width);
	x->pack_units = x->batches * divide_up(x->depth, x->kc) *
			(divide_up(x->rows, MM_AMX_SIDE) +
			 divide_up(x->cols, MM_AMX_SIDE));
	x->pack_grain = divide_up(x->pack_units, width == 1 ? 1 : 8 * width);
}

/* Packs the part that x names and multiplies it. */
static void amx_part(struct mm_amx *x, struct kilni_team *team)
{
	double work = (double)x->rows * (double)x->cols * (double)x->depth *
		      (double)x->batches;

	amx_cut(x, work < MM_AMX_TEAM_WORK ? 1 : team->width);
	kilni_mm_run(team, amx_pack_call, x,
		     divide_up(x->pack_units, x->pack_grain));
	kilni_mm_run(team, amx_call, x,
		     divide_up(x->cut.tasks, x->cut.grain));
}

/*
 * Fits packed tiles, which have half the bytes but more padding, into the
 * workspace of the general way. 0 if they are too many.
 */
static int amx_fit(struct mm_amx *x)
{
	struct kilni_mm *g = &x->g;
	const uint64_t mask = ~(uint64_t)(MM_AMX_LINE - 1);
	uint64_t most;

	x->a_bytes = kilni_mm_a_elements(g) * g->computed & mask;
	x->b_bytes = kilni_mm_b_elements(g) * g->computed & mask;
	most = least(x->a_bytes / (2 * amx_round_up(g->pack_m)),
		     x->b_bytes / (2 * amx_round_up(g->pack_n)));
	x->kc = amx_round_up(divide_up(g->k, divide_up(g->k, MM_AMX_KC)));
	if (most >= amx_round_up(g->k)) {
		g->pack_k = g->k;
		return 1;
	}
	g->pack_k = most / x->kc * x->kc;
	return g->pack_k && g->group == 1;
}

static void amx_columns(struct mm_amx *x, struct kilni_team *team)
{
	const struct kilni_mm *g = &x->g;

	for (x->col = 0; x->col < g->n; x->col += g->pack_n) {
		x->cols = least(g->pack_n, g->n - x->col);
		for (x->k = 0; x->k < g->k; x->k += g->pack_k) {
			x->depth = least(g->pack_k, g->k - x->k);
			amx_part(x, team);
		}
	}
}

/* A packed product of bf16 in tiles; 0 if that is not the way to go. */
static int mm_amx_run(const struct kilni_mm *g, struct kilni_team *team,
		      uint64_t workspace)
{
	struct mm_amx x = { .g = *g };

	if (least(g->m, g->n) < MM_AMX_LEAST_SIDE || g->k < MM_AMX_LEAST_K ||
	    (double)g->m * (double)g->n * (double)g->k < MM_AMX_LEAST_WORK)
		return 0;
	if (!amx_fit(&x) || !mm_amx_runs())
		return 0;
	workspace = (workspace + KILNI_MM_ALIGN - 1) / KILNI_MM_ALIGN *
		    KILNI_MM_ALIGN;
	x.a = (char *)(uintptr_t)workspace;
	x.b = x.a + g->group * x.a_bytes;
	x.sum = x.b + g->group * x.b_bytes;
	for (x.batch = 0; x.batch < g->batches; x.batch += g->group) {
		x.batches = least(g->group, g->batches - x.batch);
		for (x.row = 0; x.row < g->m; x.row += g->pack_m) {
			x.rows = least(g->pack_m, g->m - x.row);
			amx_columns(&x, team);
		}
	}
	return 1;
}

#endif
