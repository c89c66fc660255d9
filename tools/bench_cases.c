/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench.h"

#define GB_S "GB/s"

/* ---- What a round does ---- */

static enum kiln_status matmul(struct bench_state *s)
{
	return kiln_matmul(&s->out, s->a, s->b);
}

static enum kiln_status add(struct bench_state *s)
{
	return kiln_add(&s->out, s->a, s->b);
}

static enum kiln_status add_scalar(struct bench_state *s)
{
	return kiln_add_scalar(&s->out, s->a, kiln_float(1));
}

static enum kiln_status add_in_place(struct bench_state *s)
{
	return kiln_add(&s->a, s->a, s->b);
}

static enum kiln_status copy(struct bench_state *s)
{
	return kiln_copy_into(s->b, s->a);
}

static enum kiln_status transposed_copy(struct bench_state *s)
{
	enum kiln_status status = kiln_transpose(&s->out, s->a);

	if (!status)
		status = kiln_copy_into(s->b, s->out);
	return status;
}

static enum kiln_status sum(struct bench_state *s)
{
	return kiln_sum(&s->out, s->a);
}

static enum kiln_status sum_dim0(struct bench_state *s)
{
	return kiln_sum_dim(&s->out, s->a, 0);
}

static enum kiln_status sum_dim1(struct bench_state *s)
{
	return kiln_sum_dim(&s->out, s->a, 1);
}

static enum kiln_status argmax_dim1(struct bench_state *s)
{
	return kiln_argmax(&s->out, s->a, 1, KILN_I32);
}

static enum kiln_status softmax(struct bench_state *s)
{
	return kiln_softmax(&s->out, s->a, 1);
}

static enum kiln_status allocate(struct bench_state *s)
{
	enum kiln_status status = kiln_empty(&s->out, s->device, s->what->dtype,
					     2, s->what->shape_a);

	kiln_tensor_clear(&s->out);
	return status;
}

static enum kiln_status view(struct bench_state *s)
{
	return kiln_transpose(&s->out, s->a);
}

static enum kiln_status round_trip(struct bench_state *s)
{
	float value[16];
	enum kiln_status status = kiln_add(&s->out, s->a, s->b);

	if (!status)
		status = kiln_tensor_read(s->out, value, sizeof(value));
	return status;
}

#define UNARY(op)                                                              \
	static enum kiln_status unary_##op(struct bench_state *s)              \
	{                                                                      \
		return kiln_##op(&s->out, s->a);                               \
	}
UNARY(relu)
UNARY(sqrt)
UNARY(exp)
UNARY(log)
UNARY(sin)
UNARY(tanh)
UNARY(erf)
#undef UNARY

/* ---- The table ---- */

/* m x k times k x n, in 10^9 multiplications and additions. */
#define MATMUL(name, dtype, m, k, n)                                           \
	{ name, "matmul", dtype, { m, k }, { k, n }, matmul,                   \
	  2e-9 * (m) * (k) * (n), "GFLOP/s" }
/* Bytes read and written, in 10^9. */
#define BYTES(name, group, dtype, work, rows, columns, bytes)                  \
	{ name, group, dtype, { rows, columns }, { 0, 0 }, work,               \
	  1e-9 * (bytes) * (rows) * (columns), GB_S }
#define BYTES2(name, group, dtype, work, rows, columns, bytes)                 \
	{ name, group, dtype, { rows, columns }, { rows, columns }, work,      \
	  1e-9 * (bytes) * (rows) * (columns), GB_S }
#define UNARY(op)                                                              \
	BYTES(#op "_f32_64m", "elementwise", KILN_F32, unary_##op, 4096, 4096, \
	      8)
/* Calls, in 10^6. */
#define CALLS(name, group, work, rows, columns)                                \
	{ name, group, KILN_F32, { rows, columns }, { rows, columns }, work,   \
	  1e-6, "M/s" }

const struct bench_case bench_cases[] = {
	MATMUL("matmul_f32_1024", KILN_F32, 1024, 1024, 1024),
	MATMUL("matmul_f64_1024", KILN_F64, 1024, 1024, 1024),
	MATMUL("matmul_f16_1024", KILN_F16, 1024, 1024, 1024),
	MATMUL("matmul_bf16_1024", KILN_BF16, 1024, 1024, 1024),
	MATMUL("matmul_i32_512", KILN_I32, 512, 512, 512),
	MATMUL("matmul_f32_64x784x128", KILN_F32, 64, 784, 128),
	MATMUL("matmul_f32_784x64x128", KILN_F32, 784, 64, 128),
	BYTES2("copy_f32_64m", "copy", KILN_F32, copy, 4096, 4096, 8),
	BYTES2("copy_transposed_f32_64m", "copy", KILN_F32, transposed_copy,
	       4096, 4096, 8),
	BYTES2("add_f32_64m", "elementwise", KILN_F32, add, 4096, 4096, 12),
	BYTES2("add_in_place_f32_64m", "elementwise", KILN_F32, add_in_place,
	       4096, 4096, 12),
	BYTES("add_scalar_f32_64m", "elementwise", KILN_F32, add_scalar, 4096,
	      4096, 8),
	BYTES2("add_bf16_32m", "elementwise", KILN_BF16, add, 4096, 4096, 6),
	UNARY(relu),
	UNARY(sqrt),
	UNARY(exp),
	UNARY(log),
	UNARY(sin),
	UNARY(tanh),
	UNARY(erf),
	BYTES("sum_f32_64m", "reduction", KILN_F32, sum, 4096, 4096, 4),
	BYTES("sum_dim0_f32_64m", "reduction", KILN_F32, sum_dim0, 4096, 4096,
	      4),
	BYTES("sum_dim1_f32_64m", "reduction", KILN_F32, sum_dim1, 4096, 4096,
	      4),
	BYTES("argmax_dim1_f32_64m", "reduction", KILN_F32, argmax_dim1, 4096,
	      4096, 4),
	BYTES("softmax_f32_64m", "reduction", KILN_F32, softmax, 4096, 4096, 8),
	CALLS("add_f32_16", "overhead", add, 1, 16),
	CALLS("view_f32_16", "overhead", view, 1, 16),
	CALLS("add_and_read_f32_16", "overhead", round_trip, 1, 16),
	CALLS("empty_f32_64", "allocation", allocate, 1, 16),
	CALLS("empty_f32_1m", "allocation", allocate, 512, 512),
	CALLS("empty_f32_64m", "allocation", allocate, 4096, 4096),
};

const size_t bench_case_count = sizeof(bench_cases) / sizeof(bench_cases[0]);
