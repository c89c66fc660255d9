/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions, compiled once per instruction-set level. reduce.h says how the
 * work is cut, reduce_folds.h what is folded; here both meet.
 */
#include "kernels/cpu/reduce.h"

#include <string.h>

#include <kiln/dtype.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/reduce_folds.h"
#include "kernels/cpu/reduce_half.h"
#include "kernels/dtype.h"
#include "kernels/registry.h"

#define ENTRY__(suffix) kilni_reduce_##suffix
#define ENTRY_(suffix) ENTRY__(suffix)
#define ENTRY ENTRY_(KILNI_ISA_SUFFIX)

void ENTRY(const struct kilni_reduce_params *p, struct kilni_team *team);

/* How an accumulator becomes an element of out. */
enum form {
	FORM_RAW,      /* its low bytes */
	FORM_MEAN,     /* i64 over the length */
	FORM_UMEAN,    /* u64 over the length */
	FORM_SUM,      /* f64, a float dtype is written */
	FORM_AVERAGE,  /* the same over the length */
	FORM_PROD,     /* f32, a float dtype is written */
	FORM_KEY,      /* exclusive-or with flip */
	FORM_FLOAT,    /* a float's key */
	FORM_ABS,      /* a float's magnitude */
	FORM_ANY,
	FORM_ALL
};

struct method {
	const struct kilni_fold *fold;
	struct kilni_fold_constants constants;
	enum form form;
	double scale;             /* of a float sum */
};

struct job {
	const struct kilni_reduce_params *p;
	struct kilni_reduce_plan plan;
	struct method method;
	const char *in;           /* the element at plan.base */
	char *partials;
	unsigned in_bytes;
	int halves;               /* f16 or bf16 that is widened to f32 */
	int infinite;             /* a mean of f64 came out not finite */
	int again;                /* form those again on scaled values */
};

/* State of the outputs of one tile. */
struct tile {
	uint64_t acc[KILNI_REDUCE_WIDTH];
	uint64_t index[KILNI_REDUCE_WIDTH];
};

/* ---- The fold for an op and a dtype ---- */

/* The row of the table for elements of 1, 2, 4 or 8 bytes. */
static unsigned log2_bytes(size_t bytes)
{
	return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

#define BY_WIDTH(name)                                                         \
	static const struct kilni_fold *const name##_folds[4] = {              \
		&name##_w8, &name##_w16, &name##_w32, &name##_w64              \
	}
BY_WIDTH(sum);
BY_WIDTH(prod);
BY_WIDTH(key);
BY_WIDTH(abs);
BY_WIDTH(any);
BY_WIDTH(all);
#undef BY_WIDTH

static const struct kilni_fold *const wide_folds[2][4] = {
	{ &wide_i8, &wide_i16, &wide_i32, &sum_w64 },
	{ &wide_u8, &wide_u16, &wide_u32, &sum_w64 },
};
static const struct kilni_fold *const float_keys[4] = {
	NULL, &key_f16, &key_f32, &key_f64
};
static const struct kilni_fold *const float_abs[4] = {
	NULL, &abs_f16, &abs_f32, &abs_f64
};

static int is_least(unsigned op)
{
	return op == KILNI_OP_MIN || op == KILNI_OP_ARGMIN;
}

static uint64_t infinity_bits(unsigned dtype)
{
	switch (dtype) {
	case KILN_F64:
		return 0x7ff0000000000000u;
	case KILN_F16:
		return 0x7c00u;
	case KILN_BF16:
		return 0x7f80u;
	default:
		return 0x7f800000u;
	}
}

static const struct kilni_fold *float_sum(unsigned dtype)
{
	switch (dtype) {
	case KILN_F64:
		return &sum_f64;
	case KILN_F16:
		return &sum_f16;
	case KILN_BF16:
		return &sum_bf16;
	default:
		return &sum_f32;
	}
}

static void choose_float(struct method *m, unsigned op, unsigned dtype,
			 unsigned width)
{
	m->constants.inf = infinity_bits(dtype);
	switch (op) {
	case KILNI_OP_SUM:
	case KILNI_OP_MEAN:
		m->fold = float_sum(dtype);
		m->scale = dtype == KILN_BF16 ? 4 : 1;
		m->form = op == KILNI_OP_SUM ? FORM_SUM : FORM_AVERAGE;
		break;
	case KILNI_OP_PROD:
		m->fold = dtype == KILN_F64 ? &prod_f64 : &prod_f32;
		m->form = dtype == KILN_F64 ? FORM_SUM : FORM_PROD;
		break;
	case KILNI_OP_MAX_ABS:
		m->fold = float_abs[width];
		m->form = FORM_ABS;
		break;
	default:
		m->fold = float_keys[width];
		m->form = FORM_FLOAT;
		m->constants.flip = is_least(op) ? UINT64_MAX : 0;
	}
}

/* Unsigned elements get a signed key by turning the top bit over. */
static uint64_t integer_flip(unsigned op, int is_unsigned, size_t bytes)
{
	const uint64_t top = is_unsigned ? 1ull << (8 * bytes - 1) : 0;

	return is_least(op) ? ~top : top;
}

static void choose_integer(struct method *m, unsigned op, int is_unsigned,
			   size_t bytes)
{
	const unsigned width = log2_bytes(bytes);

	m->form = FORM_RAW;
	switch (op) {
	case KILNI_OP_SUM:
		m->fold = sum_folds[width];
		return;
	case KILNI_OP_PROD:
		m->fold = prod_folds[width];
		return;
	case KILNI_OP_MEAN:
		m->fold = wide_folds[is_unsigned][width];
		m->form = is_unsigned ? FORM_UMEAN : FORM_MEAN;
		return;
	case KILNI_OP_MAX_ABS:
		if (!is_unsigned) {
			m->fold = abs_folds[width];
			return;
		}
		break;
	default:
		break;
	}
	m->fold = key_folds[width];
	m->form = FORM_KEY;
	m->constants.flip = integer_flip(op, is_unsigned, bytes);
}

/* A float is false where all bits but the sign are 0. */
static void choose_truth(struct method *m, unsigned op, int is_float,
			 size_t bytes)
{
	const unsigned width = log2_bytes(bytes);

	m->fold = op == KILNI_OP_ANY ? any_folds[width] : all_folds[width];
	m->form = op == KILNI_OP_ANY ? FORM_ANY : FORM_ALL;
	m->constants.flip = is_float ? ~(1ull << (8 * bytes - 1)) : UINT64_MAX;
}

static int dtype_is(unsigned dtype, enum kiln_dtype_class cls)
{
	static const uint8_t classes[KILN_DTYPE_COUNT] = {
#define CLASS_(id, value, name, size, cls) [value] = KILN_CLASS_##cls,
		KILN_DTYPE_TABLE(CLASS_)
#undef CLASS_
	};

	return classes[dtype] == cls;
}

static struct method choose(const struct kilni_reduce_params *p)
{
	struct method m = { .form = FORM_RAW, .scale = 1 };
	const int is_float = dtype_is(p->dtype, KILN_CLASS_FLOAT);
	const size_t bytes = kilni_dtype_bytes[p->dtype];

	if (p->op == KILNI_OP_ANY || p->op == KILNI_OP_ALL)
		choose_truth(&m, p->op, is_float, bytes);
	else if (is_float)
		choose_float(&m, p->op, p->dtype, log2_bytes(bytes));
	else
		choose_integer(&m, p->op,
			       !dtype_is(p->dtype, KILN_CLASS_INT), bytes);
	return m;
}

/* ---- Where elements are ---- */

/* Offset of the first element of the coordinates that index stands for. */
static int64_t offset_at(const struct kilni_reduce_axis *axes, unsigned rank,
			 uint64_t index)
{
	int64_t offset = 0;

	if (rank == 1)
		return (int64_t)index * axes[0].stride;
	while (rank-- > 0) {
		offset += (int64_t)(index % axes[rank].size) *
			  axes[rank].stride;
		index /= axes[rank].size;
	}
	return offset;
}

/* A stretch of the reduced range along its innermost axis. */
struct run {
	int64_t offset;
	int64_t stride;
	uint64_t length;
};

static struct run run_at(const struct kilni_reduce_plan *plan, uint64_t pos,
			 uint64_t n)
{
	const struct kilni_reduce_axis *last;
	struct run run = { 0, 0, n };
	uint64_t left;

	if (plan->reduced_rank == 0)
		return run;
	last = &plan->reduced[plan->reduced_rank - 1];
	run.offset = offset_at(plan->reduced, plan->reduced_rank, pos);
	run.stride = last->stride;
	left = plan->reduced_rank == 1 ? n : last->size - pos % last->size;
	run.length = left < n ? left : n;
	return run;
}

static void copy_run(char *to, const char *from, struct run run,
		     unsigned bytes)
{
	uint64_t i;

#define COPY_(T)                                                               \
	for (i = 0; i < run.length; i++)                                       \
		((T *)(void *)to)[i] =                                         \
			((const T *)(const void *)from)[(int64_t)i * run.stride]
	if (run.stride == 1)
		memcpy(to, from, run.length * bytes);
	else if (bytes == 1)
		COPY_(uint8_t);
	else if (bytes == 2)
		COPY_(uint16_t);
	else if (bytes == 4)
		COPY_(uint32_t);
	else
		COPY_(uint64_t);
#undef COPY_
}

/*
 * n <= block elements of one output from pos on, side by side: in place, or
 * brought together in buffer.
 */
static const char *fetch(const struct job *job, const char *x, uint64_t pos,
			 uint64_t n, char *buffer)
{
	char *to = buffer;

	if (job->plan.direct)
		return x + pos * job->in_bytes;
	while (n > 0) {
		const struct run run = run_at(&job->plan, pos, n);

		copy_run(to, x + run.offset * (int64_t)job->in_bytes, run,
			 job->in_bytes);
		to += run.length * job->in_bytes;
		pos += run.length;
		n -= run.length;
	}
	return buffer;
}

/* ---- Folding values ---- */

static void widen(const struct job *job, const char *x, uint64_t n, float *y)
{
	const uint16_t *h = (const uint16_t *)(const void *)x;

	if (job->p->dtype == KILN_F16)
		reduce_widen_f16(h, n, y);
	else
		reduce_widen_bf16(h, n, y);
}

static void fold_row(const struct job *job, const char *x, uint64_t n,
		     void *acc)
{
	const struct method *m = &job->method;
	float wide[KILNI_REDUCE_ROW_BLOCK];

	widen(job, x, n, wide);
	m->fold->rows(wide, 1, 0, n, acc, m->constants);
}

/* The elements pos .. pos + n of w rows; n is at most a block. */
static void fold_rows(const struct job *job, const char *x, uint64_t pos,
		      uint64_t n, uint64_t w, void *acc)
{
	const struct method *m = &job->method;
	const int64_t step = job->plan.inner.stride;
	char buffer[KILNI_REDUCE_ROW_BLOCK * 8]
		__attribute__((aligned(64)));
	uint64_t i;

	if (job->plan.direct && !job->halves) {
		m->fold->rows(fetch(job, x, pos, n, NULL), w, step, n, acc,
			      m->constants);
		return;
	}
	for (i = 0; i < w; i++, x += step * (int64_t)job->in_bytes) {
		const char *row = fetch(job, x, pos, n, buffer);
		char *to = (char *)acc + i * m->fold->acc_bytes;

		if (job->halves)
			fold_row(job, row, n, to);
		else
			m->fold->rows(row, 1, 0, n, to, m->constants);
	}
}

static void fold_wide_columns(const struct job *job, const char *x,
			      struct run run, uint64_t w, void *acc)
{
	const struct method *m = &job->method;
	float wide[8 * KILNI_REDUCE_WIDTH];
	uint64_t r, n;

	for (; run.length > 0; run.length -= n) {
		n = run.length < 8 ? run.length : 8;
		for (r = 0; r < n; r++, x += run.stride * 2)
			widen(job, x, w, wide + r * w);
		m->fold->columns(wide, n, (ptrdiff_t)w, w, acc, m->constants);
	}
}

/* Rows pos .. pos + n of w columns; n is at most a block. */
static void fold_columns(const struct job *job, const char *x, uint64_t pos,
			 uint64_t n, uint64_t w, void *acc)
{
	const struct method *m = &job->method;

	while (n > 0) {
		const struct run run = run_at(&job->plan, pos, n);
		const char *from = x + run.offset * (int64_t)job->in_bytes;

		if (job->halves)
			fold_wide_columns(job, from, run, w, acc);
		else
			m->fold->columns(from, run.length, run.stride, w, acc,
					 m->constants);
		pos += run.length;
		n -= run.length;
	}
}

/*
 * Halves the range down to blocks, so that the error of a sum grows with the
 * logarithm of its length.
 */
static void fold_range(const struct job *job, const char *x, uint64_t pos,
		       uint64_t n, uint64_t w, void *acc)
{
	const struct kilni_fold *fold = job->method.fold;
	const uint64_t block = job->plan.block;
	uint64_t other[KILNI_REDUCE_WIDTH];
	uint64_t half;

	if (n > block) {
		half = block << (63 - __builtin_clzll((n - 1) / block));
		fold_range(job, x, pos, half, w, acc);
		fold->clear(other, w);
		fold_range(job, x, pos + half, n - half, w, other);
		fold->merge(acc, other, w);
	} else if (job->plan.columns) {
		fold_columns(job, x, pos, n, w, acc);
	} else {
		fold_rows(job, x, pos, n, w, acc);
	}
}

/* ---- Looking for indices ---- */

/* A block is searched only where it holds something better than before. */
static void search_row(const struct job *job, const char *x, uint64_t pos,
		       uint64_t n, void *acc, uint64_t *index)
{
	const struct method *m = &job->method;
	char buffer[KILNI_REDUCE_ROW_BLOCK * 8]
		__attribute__((aligned(64)));
	const uint64_t end = pos + n;
	uint64_t best, at, step;

	for (; pos < end; pos += step) {
		const char *row;

		step = end - pos < job->plan.block ? end - pos :
						     job->plan.block;
		row = fetch(job, x, pos, step, buffer);
		m->fold->clear(&best, 1);
		m->fold->rows(row, 1, 0, step, &best, m->constants);
		if (m->fold->outranks(acc, &best))
			at = pos + m->fold->find(row, step, &best,
						 m->constants);
		else
			at = 0;
		m->fold->outrank(acc, index, &best, &at, 1);
	}
}

static void search_columns(const struct job *job, const char *x, uint64_t pos,
			   uint64_t n, uint64_t w, struct tile *tile)
{
	const struct method *m = &job->method;
	struct tile best;
	uint8_t row[KILNI_REDUCE_WIDTH] = { 0 };
	uint64_t j;

	while (n > 0) {
		const struct run run = run_at(
			&job->plan, pos,
			n < job->plan.block ? n : job->plan.block);
		const char *from = x + run.offset * (int64_t)job->in_bytes;

		m->fold->clear(best.acc, w);
		m->fold->columns(from, run.length, run.stride, w, best.acc,
				 m->constants);
		m->fold->find_columns(from, run.length, run.stride, w,
				      tile->acc, best.acc, row, m->constants);
		for (j = 0; j < w; j++)
			best.index[j] = pos + row[j];
		m->fold->outrank(tile->acc, tile->index, best.acc, best.index,
				 w);
		pos += run.length;
		n -= run.length;
	}
}

static void search_range(const struct job *job, const char *x, uint64_t pos,
			 uint64_t n, uint64_t w, struct tile *tile)
{
	const size_t bytes = job->method.fold->acc_bytes;
	const int64_t step = job->plan.inner.stride * (int64_t)job->in_bytes;
	const struct method *m = &job->method;
	uint64_t i;

	if (job->plan.direct && !job->plan.columns && pos == 0 && n > 0 &&
	    n <= KILNI_REDUCE_SHORT) {
		m->fold->search_rows(x, w, job->plan.inner.stride, n, tile->acc,
				     tile->index, m->constants);
		return;
	}
	for (i = 0; i < w; i++)
		tile->index[i] = pos;
	if (job->plan.columns) {
		search_columns(job, x, pos, n, w, tile);
		return;
	}
	for (i = 0; i < w; i++)
		search_row(job, x + (int64_t)i * step, pos, n,
			   (char *)tile->acc + i * bytes, &tile->index[i]);
}

/* ---- Writing results ---- */

/* 1, 2, 4 or 8 bytes, without the call that a variable memcpy costs. */
static int64_t load_signed(const char *at, size_t bytes)
{
	int64_t w8;
	int32_t w4;
	int16_t w2;

	switch (bytes) {
	case 1:
		return *(const int8_t *)at;
	case 2:
		memcpy(&w2, at, 2);
		return w2;
	case 4:
		memcpy(&w4, at, 4);
		return w4;
	default:
		memcpy(&w8, at, 8);
		return w8;
	}
}

static void store_low(char *out, uint64_t value, size_t bytes)
{
	switch (bytes) {
	case 1:
		memcpy(out, &value, 1);
		break;
	case 2:
		memcpy(out, &value, 2);
		break;
	case 4:
		memcpy(out, &value, 4);
		break;
	default:
		memcpy(out, &value, 8);
	}
}

static void write_float(char *out, unsigned dtype, double value)
{
	const float f = (float)value;
	uint16_t half;

	switch (dtype) {
	case KILN_F64:
		memcpy(out, &value, sizeof(value));
		break;
	case KILN_F16:
		half = reduce_f64_to_f16(value);
		memcpy(out, &half, sizeof(half));
		break;
	case KILN_BF16:
		half = reduce_f64_to_bf16(value);
		memcpy(out, &half, sizeof(half));
		break;
	default:
		memcpy(out, &f, sizeof(f));
	}
}

static int is_finite(double value)
{
	return value - value == 0.0;
}

static double average(const struct job *job, double sum)
{
	const double mean =
		sum * job->method.scale / (double)job->plan.length;

	if (!job->again)
		return mean;
	/* Rounding must not carry the mean beyond the greatest element. */
	if (is_finite(sum) && !is_finite(mean * 0x1p64))
		return mean > 0 ? 0x1.fffffffffffffp1023 :
				  -0x1.fffffffffffffp1023;
	return mean * 0x1p64;
}

static void write_average(struct job *job, char *out, double sum)
{
	const double mean = average(job, sum);
	double before;

	if (job->p->dtype == KILN_F64) {
		memcpy(&before, out, sizeof(before));
		if (job->again && is_finite(before))
			return;
		if (!is_finite(mean))
			__atomic_store_n(&job->infinite, 1, __ATOMIC_RELAXED);
	}
	write_float(out, job->p->dtype, mean);
}

static uint64_t low_bits(uint64_t value, unsigned bytes)
{
	return bytes < 8 ? value & ((UINT64_C(1) << 8 * bytes) - 1) : value;
}

static void write_mean(const struct job *job, char *out, int64_t sum,
		       int is_unsigned)
{
	const uint64_t n = job->plan.length;
	uint64_t mean = 0;

	/* The sum of unsigned integers is theirs: it wraps in the dtype. */
	if (n > 0)
		mean = is_unsigned ? low_bits((uint64_t)sum, job->in_bytes) / n :
				     (uint64_t)(sum / (int64_t)n);
	store_low(out, mean, job->in_bytes);
}

/* The element behind a float's key: a NaN's is written as the quiet NaN. */
static uint64_t float_of_key(const struct job *job, int64_t key)
{
	const unsigned bits = 8 * job->in_bytes;
	const uint64_t inf = job->method.constants.inf;
	const int64_t top = (int64_t)(UINT64_MAX >> (65 - bits));

	if (key == top)
		return inf | inf >> 1;
	key ^= (int64_t)job->method.constants.flip;
	return (uint64_t)(key < 0 ? ~key | (top + 1) : key);
}

static uint64_t float_of_magnitude(const struct job *job, int64_t magnitude)
{
	const uint64_t inf = job->method.constants.inf;

	return (uint64_t)magnitude > inf ? inf | inf >> 1 :
					   (uint64_t)magnitude;
}

/* One accumulator as an element. */
static void write_one(struct job *job, char *out, const char *acc)
{
	const size_t bytes = job->method.fold->acc_bytes;
	const int64_t bits = load_signed(acc, bytes);
	uint64_t value = (uint64_t)bits;
	double d;
	float f;

	switch (job->method.form) {
	case FORM_SUM:
		memcpy(&d, acc, sizeof(d));
		write_float(out, job->p->dtype, d * job->method.scale);
		return;
	case FORM_AVERAGE:
		memcpy(&d, acc, sizeof(d));
		write_average(job, out, d);
		return;
	case FORM_PROD:
		memcpy(&f, acc, sizeof(f));
		write_float(out, job->p->dtype, (double)f);
		return;
	case FORM_MEAN:
	case FORM_UMEAN:
		write_mean(job, out, bits, job->method.form == FORM_UMEAN);
		return;
	case FORM_ANY:
	case FORM_ALL:
		value = (bits != 0) == (job->method.form == FORM_ANY);
		store_low(out, value, kilni_dtype_bytes[job->p->out_dtype]);
		return;
	case FORM_KEY:
		value ^= job->method.constants.flip;
		break;
	case FORM_FLOAT:
		value = float_of_key(job, bits);
		break;
	case FORM_ABS:
		value = float_of_magnitude(job, bits);
		break;
	case FORM_RAW:
		break;
	}
	store_low(out, value, job->in_bytes);
}

static void write_indices(const struct job *job, uint64_t first, uint64_t w,
			  const uint64_t *index)
{
	const size_t bytes = kilni_dtype_bytes[job->p->index_dtype];
	char *out = (char *)(uintptr_t)job->p->index + first * bytes;
	uint64_t i;

	for (i = 0; i < w; i++)
		store_low(out + i * bytes, index[i], bytes);
}

static unsigned out_bytes(const struct job *job)
{
	const struct kilni_reduce_params *p = job->p;

	return kilni_dtype_bytes[p->op == KILNI_OP_ANY ||
						 p->op == KILNI_OP_ALL
					 ? p->out_dtype
					 : p->dtype];
}

static void write_tile(struct job *job, uint64_t first, uint64_t w,
		       const struct tile *tile)
{
	const size_t acc_bytes = job->method.fold->acc_bytes;
	const size_t bytes = out_bytes(job);
	const char *acc = (const char *)tile->acc;
	char *out = (char *)(uintptr_t)job->p->out + first * bytes;
	uint64_t i;

	if (job->plan.indexed)
		write_indices(job, first, w, tile->index);
	if (job->p->op == KILNI_OP_ARGMAX || job->p->op == KILNI_OP_ARGMIN)
		return;
	if (job->method.form == FORM_RAW) {
		memcpy(out, acc, w * bytes);
		return;
	}
	for (i = 0; i < w; i++)
		write_one(job, out + i * bytes, acc + i * acc_bytes);
}

/* ---- Tiles and tasks ---- */

struct place {
	const char *in;
	uint64_t first;  /* output */
	uint64_t w;
};

static struct place place_of(const struct job *job, uint64_t tile)
{
	const struct kilni_reduce_plan *plan = &job->plan;
	const uint64_t outer = tile / plan->inner_tiles;
	const uint64_t j = tile % plan->inner_tiles * plan->width;
	const int64_t offset =
		offset_at(plan->kept, plan->kept_rank, outer) +
		(int64_t)j * plan->inner.stride;
	struct place at;

	at.in = job->in + offset * (int64_t)job->in_bytes;
	at.first = outer * plan->inner.size + j;
	at.w = plan->inner.size - j;
	if (at.w > plan->width)
		at.w = plan->width;
	return at;
}

/* Whether a second pass has anything to do for these outputs. */
static int is_wanted(const struct job *job, const struct place *at)
{
	const double *out = (const double *)(uintptr_t)job->p->out + at->first;
	uint64_t i;

	for (i = 0; job->again && i < at->w; i++)
		if (!is_finite(out[i]))
			break;
	return !job->again || i < at->w;
}

static void reduce_part(const struct job *job, const struct place *at,
			uint64_t pos, uint64_t n, struct tile *tile)
{
	job->method.fold->clear(tile->acc, at->w);
	if (job->plan.indexed)
		search_range(job, at->in, pos, n, at->w, tile);
	else
		fold_range(job, at->in, pos, n, at->w, tile->acc);
}

static void run_tiles(void *arg, uint64_t task)
{
	struct job *job = arg;
	const struct kilni_reduce_plan *plan = &job->plan;
	uint64_t t = task * plan->group;
	const uint64_t end = plan->tiles - t < plan->group ? plan->tiles :
							     t + plan->group;
	struct tile tile;

	for (; t < end; t++) {
		const struct place at = place_of(job, t);

		if (!is_wanted(job, &at))
			continue;
		reduce_part(job, &at, 0, plan->length, &tile);
		write_tile(job, at.first, at.w, &tile);
	}
}

static char *partial_acc(const struct job *job, uint64_t part)
{
	return job->partials + part * job->plan.width * 8;
}

static uint64_t *partial_index(const struct job *job, uint64_t part)
{
	const uint64_t parts = job->plan.tiles * job->plan.chunks;

	return (uint64_t *)(void *)partial_acc(job, parts + part);
}

static void run_chunk(void *arg, uint64_t task)
{
	struct job *job = arg;
	const struct kilni_reduce_plan *plan = &job->plan;
	const struct place at = place_of(job, task / plan->chunks);
	const uint64_t pos = task % plan->chunks * plan->chunk;
	const uint64_t left = plan->length - pos;
	struct tile tile;

	if (!is_wanted(job, &at))
		return;
	reduce_part(job, &at, pos, left < plan->chunk ? left : plan->chunk,
		    &tile);
	memcpy(partial_acc(job, task), tile.acc,
	       at.w * job->method.fold->acc_bytes);
	if (plan->indexed)
		memcpy(partial_index(job, task), tile.index, at.w * 8);
}

static void merge_parts(const struct job *job, uint64_t to, uint64_t from,
			uint64_t w)
{
	const struct kilni_fold *fold = job->method.fold;

	if (job->plan.indexed)
		fold->outrank(partial_acc(job, to), partial_index(job, to),
			      partial_acc(job, from),
			      partial_index(job, from), w);
	else
		fold->merge(partial_acc(job, to), partial_acc(job, from), w);
}

/* Neighbouring chunks are merged in pairs, their pairs in pairs, and so on. */
static void finish_tile(struct job *job, uint64_t t)
{
	const struct place at = place_of(job, t);
	const uint64_t chunks = job->plan.chunks, part = t * chunks;
	struct tile tile;
	uint64_t i, step;

	if (!is_wanted(job, &at))
		return;
	for (step = 1; step < chunks; step *= 2)
		for (i = 0; i + step < chunks; i += 2 * step)
			merge_parts(job, part + i, part + i + step, at.w);
	memcpy(tile.acc, partial_acc(job, part),
	       at.w * job->method.fold->acc_bytes);
	if (job->plan.indexed)
		memcpy(tile.index, partial_index(job, part), at.w * 8);
	write_tile(job, at.first, at.w, &tile);
}

static void run_tasks(struct job *job, struct kilni_team *team,
		      void (*fn)(void *arg, uint64_t i), uint64_t count)
{
	const uint64_t elements = job->plan.outputs * job->plan.length;
	uint64_t i;

	if (team && team->width > 1 && count > 1 &&
	    elements >= KILNI_REDUCE_SMALL) {
		team->run(team, fn, job, count);
		return;
	}
	for (i = 0; i < count; i++)
		fn(job, i);
}

static void run_pass(struct job *job, struct kilni_team *team)
{
	const struct kilni_reduce_plan *plan = &job->plan;
	uint64_t t;

	if (plan->chunks == 1) {
		run_tasks(job, team, run_tiles,
			  (plan->tiles - 1) / plan->group + 1);
		return;
	}
	run_tasks(job, team, run_chunk, plan->tiles * plan->chunks);
	for (t = 0; t < plan->tiles; t++)
		finish_tile(job, t);
}

void ENTRY(const struct kilni_reduce_params *p, struct kilni_team *team)
{
	struct job job = { .p = p };

	kilni_reduce_plan(p, &job.plan);
	if (job.plan.outputs == 0)
		return;
	job.method = choose(p);
	job.in_bytes = kilni_dtype_bytes[p->dtype];
	job.in = (const char *)(uintptr_t)p->in +
		 job.plan.base * (int64_t)job.in_bytes;
	job.partials = (char *)(uintptr_t)p->workspace;
	job.halves = job.in_bytes == 2 && job.method.fold->element_bytes == 4;
	run_pass(&job, team);
	if (job.infinite && job.plan.length > 0) {
		job.again = 1;
		job.method.fold = &sum_f64_scaled;
		run_pass(&job, team);
	}
}
