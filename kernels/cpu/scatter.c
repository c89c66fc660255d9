/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/index.h"

#include <stddef.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "kernels/dtype.h"
#include "kernels/kl/kl.h"
#include "kernels/scatter.h"

#include "kernels/kl/common.kl"
#include "kernels/kl/convert.kl"

/*
 * A lane is all elements whose coordinates agree but for dim; lanes never meet
 * in out, so they may run on any thread, each in its own order. A task is a
 * piece of lanes: some of the last axis at given coordinates of the others, or
 * whole lanes where dim is the last axis.
 */
#define RUN 256
#define PIECE_MIN 16
#define SMALL 8192

/* n elements: out[i * os] is combined with value[i * vs]. */
typedef void update_fn(void *out, int64_t os, const void *value, int64_t vs,
		       uint64_t n);

#define UPDATE(name, TO, TV, expr)                                             \
	static void name(void *out, int64_t os, const void *value, int64_t vs, \
			 uint64_t n)                                           \
	{                                                                      \
		TO *o = out;                                                   \
		const TV *v = value;                                           \
                                                                               \
		if (os == 1 && vs == 1) {                                      \
			KILNI_LOOP                                             \
			for (uint64_t i = 0; i < n; i++) {                     \
				TO a = o[i];                                   \
				TV b = v[i];                                   \
                                                                               \
				(void)a;                                       \
				o[i] = (TO)(expr);                             \
			}                                                      \
			return;                                                \
		}                                                              \
		for (uint64_t i = 0; i < n; i++, o += os, v += vs) {           \
			TO a = *o;                                             \
			TV b = *v;                                             \
                                                                               \
			(void)a;                                               \
			*o = (TO)(expr);                                       \
		}                                                              \
	}

/* Names, storage type, a number of it, and back. MIN and MAX keep a NaN. */
#define AS_IS(x) (x)
#define NUMBER_TYPES(X)                                                        \
	X(f64, double, AS_IS, AS_IS)                                           \
	X(f32, float, AS_IS, AS_IS)                                            \
	X(f16, uint16_t, kl_f32_of_f16, kl_f16_of_f32)                         \
	X(bf16, uint16_t, kl_f32_of_bf16, kl_bf16_of_f32)                      \
	X(i64, int64_t, AS_IS, AS_IS)                                          \
	X(i32, int32_t, AS_IS, AS_IS)                                          \
	X(i16, int16_t, AS_IS, AS_IS)                                          \
	X(i8, int8_t, AS_IS, AS_IS)                                            \
	X(u64, uint64_t, AS_IS, AS_IS)                                         \
	X(u32, uint32_t, AS_IS, AS_IS)                                         \
	X(u16, uint16_t, AS_IS, AS_IS)                                         \
	X(u8, uint8_t, AS_IS, AS_IS)

#define NUMBER_UPDATES(name, T, num, back)                                     \
	UPDATE(assign_##name, T, T, b)                                         \
	UPDATE(mul_##name, T, T, back(num(a) * num(b)))                        \
	UPDATE(min_##name, T, T,                                               \
	       num(a) != num(a) || num(a) <= num(b) ? a : b)                   \
	UPDATE(max_##name, T, T,                                               \
	       num(a) != num(a) || num(a) >= num(b) ? a : b)
NUMBER_TYPES(NUMBER_UPDATES)

/* Sums: of f64 and integers in place, of the other floats in f64. */
UPDATE(add_f64, double, double, a + b)
UPDATE(add_f32, double, float, a + (double)b)
UPDATE(add_f16, double, uint16_t, a + (double)kl_f32_of_f16(b))
UPDATE(add_bf16, double, uint16_t, a + (double)kl_f32_of_bf16(b))
UPDATE(add_64, uint64_t, uint64_t, a + b)
UPDATE(add_32, uint32_t, uint32_t, a + b)
UPDATE(add_16, uint16_t, uint16_t, a + b)
UPDATE(add_8, uint8_t, uint8_t, a + b)

#define BOOL_UPDATES(name, T)                                                  \
	UPDATE(assign_##name, T, T, b != 0)                                    \
	UPDATE(or_##name, T, T, (a != 0) | (b != 0))                           \
	UPDATE(and_##name, T, T, (a != 0) & (b != 0))
BOOL_UPDATES(bool, uint8_t)
BOOL_UPDATES(bool_u32, uint32_t)

#define UPDATES KILN_UPDATE_MAX + 1
#define NUMBER_ROW(name, add)                                                  \
	{ assign_##name, add, mul_##name, min_##name, max_##name }
#define BOOL_ROW(name)                                                         \
	{ assign_##name, or_##name, and_##name, and_##name, or_##name }

static update_fn *const updates[KILN_DTYPE_COUNT][UPDATES] = {
	[KILN_F64] = NUMBER_ROW(f64, add_f64),
	[KILN_F32] = NUMBER_ROW(f32, add_f32),
	[KILN_FLEX32] = NUMBER_ROW(f32, add_f32),
	[KILN_F16] = NUMBER_ROW(f16, add_f16),
	[KILN_BF16] = NUMBER_ROW(bf16, add_bf16),
	[KILN_I64] = NUMBER_ROW(i64, add_64),
	[KILN_I32] = NUMBER_ROW(i32, add_32),
	[KILN_I16] = NUMBER_ROW(i16, add_16),
	[KILN_I8] = NUMBER_ROW(i8, add_8),
	[KILN_U64] = NUMBER_ROW(u64, add_64),
	[KILN_U32] = NUMBER_ROW(u32, add_32),
	[KILN_U16] = NUMBER_ROW(u16, add_16),
	[KILN_U8] = NUMBER_ROW(u8, add_8),
	[KILN_BOOL] = BOOL_ROW(bool),
	[KILN_BOOL_U8] = BOOL_ROW(bool),
	[KILN_BOOL_U32] = BOOL_ROW(bool_u32),
};

struct job {
	const struct kilni_scatter_params *p;
	update_fn *update;
	char *out;              /* tensor or workspace */
	int64_t out_bytes;
	int64_t value_bytes;
	unsigned last;
	uint64_t piece;         /* of the last axis, or lanes, of one task */
	uint64_t pieces;        /* of the last axis, or of all lanes */
	uint64_t tasks;
};

/* Where a task is: offsets in elements, and the row-major position. */
struct spot {
	int64_t out;
	int64_t index;
	int64_t value;
	uint64_t position;
};

static uint64_t position_stride(const struct kilni_scatter_params *p,
				unsigned axis)
{
	uint64_t n = 1;

	for (unsigned d = p->rank; d-- > axis + 1;)
		n *= p->shape[d];
	return n;
}

static void spot_move(const struct job *j, struct spot *s, unsigned d,
		      uint64_t n)
{
	const struct kilni_scatter_params *p = j->p;

	if (d != p->dim)
		s->out += (int64_t)n * p->out_stride[d];
	s->index += (int64_t)n * p->index_stride[d];
	s->value += (int64_t)n * p->value_stride[d];
	s->position += n * position_stride(p, d);
}

/* The coordinates of all axes but dim (and the last, if except_last). */
static struct spot spot_of(const struct job *j, uint64_t lane, int except_last)
{
	const struct kilni_scatter_params *p = j->p;
	struct spot s = { 0, 0, 0, 0 };

	for (unsigned d = p->rank; d-- > 0;) {
		if (d == p->dim || (except_last && d == j->last))
			continue;
		spot_move(j, &s, d, lane % p->shape[d]);
		lane /= p->shape[d];
	}
	return s;
}

/* n elements of one row; step is out's along it. */
static void scatter_row(const struct job *j, const struct spot *s,
			const int64_t *index, int64_t step, int64_t value_step,
			uint64_t n, uint64_t position_step)
{
	const struct kilni_scatter_params *p = j->p;
	const char *value = (const char *)(uintptr_t)p->value;

	for (uint64_t i = 0; i < n; i++) {
		int64_t o = s->out + (int64_t)i * step +
			index[i] * p->out_stride[p->dim];
		int64_t v = s->value + (int64_t)i * value_step;

		if ((uint64_t)index[i] < (uint64_t)p->dim_size)
			j->update(j->out + o * j->out_bytes, 1,
				  value + v * j->value_bytes, 1, 1);
		else
			kilni_report_index(p->report,
					   s->position + i * position_step,
					   index[i], p->dim_size);
	}
}

/* Whole lanes along the last axis, which is dim. */
static void run_lanes(const struct job *j, uint64_t first, uint64_t count)
{
	const struct kilni_scatter_params *p = j->p;
	int64_t index[RUN];

	for (uint64_t lane = first; lane < first + count; lane++) {
		struct spot s = spot_of(j, lane, 0);

		for (uint64_t i = 0; i < p->shape[p->dim]; i += RUN) {
			uint64_t n = p->shape[p->dim] - i;

			n = n < RUN ? n : RUN;
			KILNI_ISA(kilni_index_load)
				(p->index, s.index, p->index_stride[p->dim],
				 p->index_dtype, index, n);
			scatter_row(j, &s, index, 0, p->value_stride[p->dim],
				    n, 1);
			spot_move(j, &s, p->dim, n);
		}
	}
}

/* A row of n with the same index throughout. */
static void scatter_slice(const struct job *j, const struct spot *s,
			  int64_t index, uint64_t n)
{
	const struct kilni_scatter_params *p = j->p;
	int64_t o = s->out + index * p->out_stride[p->dim];

	if ((uint64_t)index < (uint64_t)p->dim_size)
		j->update(j->out + o * j->out_bytes, p->out_stride[j->last],
			  (const char *)(uintptr_t)p->value +
			  s->value * j->value_bytes,
			  p->value_stride[j->last], n);
	else
		kilni_report_index(p->report, s->position, index, p->dim_size);
}

/* n elements of the last axis from c on, at all coordinates along dim. */
static void run_piece(const struct job *j, struct spot s, uint64_t c,
		      uint64_t n)
{
	const struct kilni_scatter_params *p = j->p;
	int64_t step = p->index_stride[j->last];
	int64_t index[RUN];

	spot_move(j, &s, j->last, c);
	for (uint64_t k = 0; k < p->shape[p->dim]; k++) {
		KILNI_ISA(kilni_index_load)(p->index, s.index, step,
					    p->index_dtype, index,
					    step == 0 ? 1 : n);
		if (step == 0)
			scatter_slice(j, &s, index[0], n);
		else
			scatter_row(j, &s, index, p->out_stride[j->last],
				    p->value_stride[j->last], n, 1);
		spot_move(j, &s, p->dim, 1);
	}
}

static void run_task(void *arg, uint64_t task)
{
	const struct job *j = arg;
	const struct kilni_scatter_params *p = j->p;
	uint64_t size = p->dim == j->last ? j->pieces : p->shape[j->last];
	uint64_t at = task % j->pieces * j->piece;

	if (p->dim == j->last) {
		at = task * j->piece;
		run_lanes(j, at, size - at < j->piece ? size - at : j->piece);
		return;
	}
	run_piece(j, spot_of(j, task / j->pieces, 1), at,
		  size - at < j->piece ? size - at : j->piece);
}

/* Cuts the lanes so that each thread of the team gets some tasks. */
static void cut(struct job *j, unsigned width)
{
	const struct kilni_scatter_params *p = j->p;
	uint64_t others = 1;
	uint64_t wanted = width > 1 ? 4u * (uint64_t)width : 1;
	uint64_t size = p->shape[j->last];

	for (unsigned d = 0; d < p->rank; d++)
		if (d != p->dim && d != j->last)
			others *= p->shape[d];
	if (p->dim == j->last) {
		j->pieces = others;
		j->piece = (others + wanted - 1) / wanted;
		j->tasks = (others + j->piece - 1) / j->piece;
		return;
	}
	wanted = (wanted + others - 1) / others;
	j->piece = (size + wanted - 1) / wanted;
	j->piece = j->piece < PIECE_MIN ? PIECE_MIN : j->piece;
	j->piece = j->piece > RUN ? RUN : j->piece;
	j->pieces = (size + j->piece - 1) / j->piece;
	j->tasks = others * j->pieces;
}

static void run_all(struct kilni_team *team, void (*fn)(void *, uint64_t),
		    void *arg, uint64_t count)
{
	if (team != NULL && count > 1) {
		team->run(team, fn, arg, count);
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		fn(arg, i);
}

/* ---- Sums of small floats: the tensor in f64 and back ---- */

#define PART 4096u

static uint64_t parts(const struct kilni_scatter_params *p)
{
	return (p->out_count + PART - 1) / PART;
}

static void widen(void *arg, uint64_t part)
{
	const struct kilni_scatter_params *p = arg;
	uint64_t from = part * PART;
	uint64_t to = from + PART < p->out_count ? from + PART : p->out_count;
	double *w = (double *)(uintptr_t)p->workspace;
	const float *x = (const float *)(uintptr_t)p->out;
	const uint16_t *h = (const uint16_t *)(uintptr_t)p->out;

	if (p->dtype == KILN_F16)
		for (uint64_t i = from; i < to; i++)
			w[i] = (double)kl_f32_of_f16(h[i]);
	else if (p->dtype == KILN_BF16)
		for (uint64_t i = from; i < to; i++)
			w[i] = (double)kl_f32_of_bf16(h[i]);
	else
		for (uint64_t i = from; i < to; i++)
			w[i] = (double)x[i];
}

static void narrow(void *arg, uint64_t part)
{
	const struct kilni_scatter_params *p = arg;
	uint64_t from = part * PART;
	uint64_t to = from + PART < p->out_count ? from + PART : p->out_count;
	const double *w = (const double *)(uintptr_t)p->workspace;
	float *x = (float *)(uintptr_t)p->out;
	uint16_t *h = (uint16_t *)(uintptr_t)p->out;

	if (p->dtype == KILN_F16)
		for (uint64_t i = from; i < to; i++)
			h[i] = (uint16_t)kl_f16_of_f32(kl_f32_odd_f64(w[i]));
	else if (p->dtype == KILN_BF16)
		for (uint64_t i = from; i < to; i++)
			h[i] = (uint16_t)kl_bf16_of_f32(kl_f32_odd_f64(w[i]));
	else
		for (uint64_t i = from; i < to; i++)
			x[i] = (float)w[i];
}

void KILNI_ISA(kilni_scatter)(const struct kilni_scatter_params *p,
			      struct kilni_team *team)
{
	struct kilni_scatter_params copy = *p;
	int wide = kilni_scatter_sums_wide(p);
	struct job j = {
		.p = &copy,
		.update = updates[p->dtype][p->update],
		.out = (char *)(uintptr_t)(wide ? p->workspace : p->out),
		.out_bytes = wide ? 8 : kilni_dtype_bytes[p->dtype],
		.value_bytes = kilni_dtype_bytes[p->dtype],
		.last = p->rank - 1u,
	};
	struct kilni_team *inner = p->count < SMALL ? NULL : team;
	struct kilni_team *outer = p->out_count < SMALL ? NULL : team;

	if (p->count == 0)
		return;
	cut(&j, inner != NULL ? inner->width : 1);
	if (wide)
		run_all(outer, widen, &copy, parts(p));
	run_all(inner, run_task, &j, j.tasks);
	if (wide)
		run_all(outer, narrow, &copy, parts(p));
}
