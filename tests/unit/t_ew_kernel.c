/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise kernels: answers by hand, layouts, levels, random numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi.h"
#include "kernels/kl/random.h"
#include "kernels/registry.h"
#include "tests/kl/case_data.h"

typedef void ew_fn(const struct kilni_ew_params *p, uint64_t begin,
		   uint64_t end);

void kilni_ew_base(const struct kilni_ew_params *p, uint64_t begin,
		   uint64_t end);
#ifdef KILNI_HAVE_ISA_AVX2
void kilni_ew_avx2(const struct kilni_ew_params *p, uint64_t begin,
		   uint64_t end);
#endif
#ifdef KILNI_HAVE_ISA_AVX512
void kilni_ew_avx512(const struct kilni_ew_params *p, uint64_t begin,
		     uint64_t end);
#endif

static unsigned failures;
static unsigned checks;

#define CHECK(cond, ...)                                                       \
	do {                                                                   \
		checks++;                                                      \
		if (!(cond) && ++failures <= 40) {                             \
			printf("# %s:%d: ", __FILE__, __LINE__);               \
			printf(__VA_ARGS__);                                   \
			printf("\n");                                          \
		}                                                              \
	} while (0)

struct level {
	const char *name;
	ew_fn *ew;
};

/* The levels that this machine can run; the first is the base. */
static unsigned levels(struct level *l)
{
	unsigned n = 0;

	l[n++] = (struct level){ "base", kilni_ew_base };
#ifdef KILNI_HAVE_ISA_AVX2
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		l[n++] = (struct level){ "avx2", kilni_ew_avx2 };
#endif
#ifdef KILNI_HAVE_ISA_AVX512
	if (__builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq"))
		l[n++] = (struct level){ "avx512", kilni_ew_avx512 };
#endif
	return n;
}

#define N_MAX 4096

static _Alignas(64) unsigned char in[3][N_MAX * 8];
static _Alignas(64) unsigned char out[N_MAX * 8 + 64];
static _Alignas(64) unsigned char other[N_MAX * 8 + 64];

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static struct kilni_ew_params dense(const struct kl_case *c, uint64_t n)
{
	struct kilni_ew_params p = case_params(c, n);

	for (unsigned j = 0; j < 3; j++) {
		case_fill(in[j], c->dtype[1 + j], c->in[j], c->count, n);
		p.in[j] = address(in[j]);
	}
	p.out = address(out);
	return p;
}

static void check_case(const struct kl_case *c, const struct level *l,
		       uint64_t n)
{
	struct kilni_ew_params p = dense(c, n);

	memset(out, 0xa5, sizeof(out));
	l->ew(&p, 0, n);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t got = case_read(out, c->dtype[0], i);
		uint64_t want = c->out[i % c->count];

		CHECK(case_agrees(c->dtype[0], got, want, c->ulp),
		      "%s (%s, n %" PRIu64 ", element %" PRIu64
		      "): got %#" PRIx64 ", want %#" PRIx64,
		      c->name, l->name, n, i, got, want);
	}
	CHECK(case_read(out, KILN_U8, n * case_bytes(c->dtype[0])) == 0xa5,
	      "%s: wrote beyond the end", c->name);
}

static void check_cases(const struct level *l)
{
	for (unsigned i = 0; i < KL_CASES; i++) {
		check_case(&kl_cases[i], l, kl_cases[i].count);
		check_case(&kl_cases[i], l, 1);
		check_case(&kl_cases[i], l, 17);
		check_case(&kl_cases[i], l, 1000);
	}
}

/* ---- Every op and dtype, in every layout and at every level ---- */

static uint64_t state = 1;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static unsigned class_of(unsigned dtype)
{
	static const uint8_t cls[] = {
#define CLS(id, value, name, bytes, c) [id] = KILN_CLASS_##c,
		KILN_DTYPE_TABLE(CLS)
#undef CLS
	};

	return cls[dtype];
}

/* Bits of all kinds: numbers near 1, small integers, specials, noise. */
static uint64_t some_bits(unsigned dtype)
{
	static const uint64_t special32[] = {
		0, F32_N0, F32_1, F32_INF, F32_NINF, F32_NAN, 1, 0x807fffff,
		0x7f7fffff, 0x4f000000, 0x3effffff, 0x42b17218
	};
	uint64_t r = rnd();
	double d = (double)(int64_t)(r >> 11) / 9007199254740992.0;
	float f;
	uint32_t u;
	uint64_t u64;

	d = (r & 1 ? d - 0.5 : (d - 0.5) * 40);
	f = (float)d;
	memcpy(&u, &f, 4);
	memcpy(&u64, &d, 8);
	switch (dtype) {
	case KILN_F64:
		return r % 8 == 0 ? rnd() : u64;
	case KILN_F32:
	case KILN_FLEX32:
		return r % 8 == 0 ? rnd() : r % 8 == 1 ? special32[rnd() % 12]
						       : u;
	case KILN_BF16:
		return r % 8 == 0 ? rnd() : u >> 16;
	case KILN_F16:
		return r % 8 == 0 ? rnd() : 0x3800 + r % 0x1000;
	case KILN_BOOL:
	case KILN_BOOL_U8:
	case KILN_BOOL_U32:
		return r % 3;
	default:
		return r % 4 == 0 ? rnd() : r % 4 == 1 ? 0 - rnd() % 70
						       : rnd() % 70;
	}
}

static void fill(void *to, unsigned dtype, uint64_t n)
{
	unsigned bytes = case_bytes(dtype);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t x = some_bits(dtype);

		memcpy((char *)to + i * bytes, &x, bytes);
	}
}

static unsigned arity_of(enum kilni_op op)
{
	switch (op) {
	case KILNI_OP_CLAMP:
	case KILNI_OP_HARD_SIGMOID:
	case KILNI_OP_MASK_WHERE:
	case KILNI_OP_MASK_FILL:
		return 3;
	case KILNI_OP_ARANGE:
	case KILNI_OP_RANDOM:
		return 0;
	default:
		return kilni_ops[op].form == KILNI_FORM_EW2 ||
			kilni_ops[op].form == KILNI_FORM_CMP ? 2 : 1;
	}
}

static int takes(enum kilni_op op, unsigned dtype)
{
	return kilni_ops[op].form <= KILNI_FORM_EWX &&
	       (kilni_ops[op].classes >> class_of(dtype) & 1);
}

static struct kilni_ew_params params_of(enum kilni_op op, unsigned dtype,
					unsigned out_dtype)
{
	struct kilni_ew_params p;
	enum kilni_op_form form = kilni_ops[op].form;

	memset(&p, 0, sizeof(p));
	p.op = op;
	memset(p.dtype, (int)dtype, 4);
	if (form == KILNI_FORM_CMP || form == KILNI_FORM_PRED)
		p.dtype[0] = class_of(dtype) == KILN_CLASS_BOOL
			? (uint8_t)dtype : KILN_BOOL;
	if (op == KILNI_OP_CAST)
		p.dtype[0] = (uint8_t)out_dtype;
	if (op == KILNI_OP_MASK_WHERE || op == KILNI_OP_MASK_FILL)
		p.dtype[3] = KILN_BOOL;
	if (op == KILNI_OP_POWI && class_of(dtype) == KILN_CLASS_FLOAT)
		p.dtype[2] = KILN_I32;
	if (op == KILNI_OP_MASK_FILL)
		p.scalars = 2;
	if (op == KILNI_OP_CLAMP || op == KILNI_OP_HARD_SIGMOID)
		p.scalars = 6;
	if (op == KILNI_OP_FULL)
		p.scalars = 1;
	p.scalar[0] = 3;
	p.scalar[1] = class_of(dtype) != KILN_CLASS_FLOAT ? 1 :
		dtype == KILN_F64 ? 0x3fe0000000000000u : 0x3f000000u;
	p.scalar[2] = p.scalar[1] + (class_of(dtype) == KILN_CLASS_FLOAT);
	return p;
}

/* Equal bits; which NaN comes of two NaNs is left to the compiler. */
static int same(const void *a, const void *b, unsigned dtype, uint64_t n)
{
	if (memcmp(a, b, n * case_bytes(dtype)) == 0)
		return 1;
	for (uint64_t i = 0; i < n; i++)
		if (!case_agrees(dtype, case_read(a, dtype, i),
				 case_read(b, dtype, i), 0))
			return 0;
	return 1;
}

/* The same elements through strides must give the same bits. */
static void check_strided(const struct kilni_ew_params *dense_params,
			  const struct level *l, uint64_t rows, uint64_t cols,
			  unsigned arity)
{
	struct kilni_ew_params p = *dense_params;
	uint64_t n = rows * cols;
	unsigned bytes = case_bytes(p.dtype[0]);

	/* Rank 2, axes exchanged: element (r, c) is at c * rows + r. */
	p.contiguous = 0;
	p.rank = 2;
	p.count = n;
	p.shape[0] = rows;
	p.shape[1] = cols;
	for (unsigned k = 0; k <= arity; k++) {
		p.stride[k][0] = 1;
		p.stride[k][1] = (int64_t)rows;
	}
	p.out = address(other);
	memset(other, 0x5a, sizeof(other));
	l->ew(&p, 0, n / 3);
	l->ew(&p, n / 3, n);
	CHECK(same(out, other, p.dtype[0], n),
	      "%s of dtype %u to %u, %" PRIu64 "x%" PRIu64 " strided (%s)",
	      kilni_ops[p.op].name, p.dtype[1], p.dtype[0], rows, cols,
	      l->name);
	/* Reversed rows, a dense result. */
	p.stride[0][0] = (int64_t)cols;
	p.stride[0][1] = 1;
	for (unsigned k = 1; k <= arity; k++) {
		p.stride[k][0] = (int64_t)cols;
		p.stride[k][1] = -1;
		p.in[k - 1] = dense_params->in[k - 1] +
			(cols - 1) * case_bytes(p.dtype[k]);
	}
	l->ew(&p, 0, n);
	for (uint64_t i = 0; i < n && arity != 0; i++) {
		uint64_t from = i / cols * cols + (cols - 1 - i % cols);

		CHECK(same(other + i * bytes, out + from * bytes, p.dtype[0],
			   1),
		      "%s of dtype %u to %u reversed (%s)",
		      kilni_ops[p.op].name, p.dtype[1], p.dtype[0], l->name);
	}
}

static void check_in_place(const struct kilni_ew_params *dense_params,
			   const struct level *l, uint64_t n)
{
	struct kilni_ew_params p = *dense_params;
	unsigned bytes = case_bytes(p.dtype[0]);

	if (bytes != case_bytes(p.dtype[1]))
		return;
	memcpy(other, in[0], n * bytes);
	p.in[0] = address(other);
	p.out = address(other);
	l->ew(&p, 0, n);
	CHECK(same(out, other, p.dtype[0], n),
	      "%s of dtype %u to %u in place (%s)", kilni_ops[p.op].name,
	      p.dtype[1], p.dtype[0], l->name);
}

static void check_op(enum kilni_op op, unsigned dtype, unsigned out_dtype,
		     const struct level *l, unsigned n_levels)
{
	struct kilni_ew_params p = params_of(op, dtype, out_dtype);
	unsigned arity = arity_of(op);
	uint64_t n = 1221;

	for (unsigned j = 0; j < 3; j++) {
		fill(in[j], p.dtype[1 + j], n);
		p.in[j] = address(in[j]);
	}
	p.out = address(out);
	p.count = n;
	p.contiguous = 1;
	memset(out, 0xee, sizeof(out));
	l[0].ew(&p, 0, n);
	for (unsigned k = 0; k < n_levels; k++) {
		p.out = address(other);
		memset(other, 0xdd, sizeof(other));
		l[k].ew(&p, 0, 7);
		l[k].ew(&p, 7, 700);
		l[k].ew(&p, 700, n);
		CHECK(same(out, other, p.dtype[0], n),
		      "%s of dtype %u to %u: %s differs from base",
		      kilni_ops[op].name, dtype, p.dtype[0], l[k].name);
		if (arity == 0)
			continue;
		check_strided(&p, &l[k], 407, 3, arity);
		check_strided(&p, &l[k], 11, 111, arity);
		check_in_place(&p, &l[k], n);
	}
}

static void check_ops(const struct level *l, unsigned n_levels)
{
	for (unsigned op = 0; op < KILNI_OP_COUNT; op++)
		for (unsigned d = 0; d < KILN_DTYPE_COUNT; d++) {
			if (!takes((enum kilni_op)op, d) ||
			    op == KILNI_OP_RANDOM)
				continue;
			if (op != KILNI_OP_CAST) {
				check_op((enum kilni_op)op, d, d, l, n_levels);
				continue;
			}
			for (unsigned o = 0; o < KILN_DTYPE_COUNT; o++)
				check_op(KILNI_OP_CAST, d, o, l, n_levels);
		}
}

/* ---- Broadcasting ---- */

static void check_broadcast(const struct level *l)
{
	static const uint64_t columns[] = { 1, 3, 40, 700 };
	float *a = (float *)in[0];
	float *b = (float *)in[1];
	float *c = (float *)out;

	for (unsigned k = 0; k < 4; k++) {
		uint64_t cols = columns[k];
		struct kilni_ew_params p = params_of(KILNI_OP_ADD, KILN_F32, 0);

		for (unsigned i = 0; i < 5 * cols; i++)
			a[i] = (float)i;
		for (unsigned i = 0; i < cols + 5; i++)
			b[i] = (float)i * 1000;
		p.count = 5 * cols;
		p.rank = 2;
		p.shape[0] = 5;
		p.shape[1] = cols;
		p.stride[0][0] = p.stride[1][0] = (int64_t)cols;
		p.stride[0][1] = p.stride[1][1] = 1;
		p.stride[2][1] = 1;
		p.in[0] = address(a);
		p.in[1] = address(b);
		p.out = address(c);
		l->ew(&p, 0, p.count);
		for (unsigned i = 0; i < p.count; i++)
			CHECK(c[i] == a[i] + b[i % cols], "row broadcast");
		p.stride[2][0] = 1;
		p.stride[2][1] = 0;
		l->ew(&p, 0, p.count);
		for (unsigned i = 0; i < p.count; i++)
			CHECK(c[i] == a[i] + b[i / cols], "column broadcast");
	}
}

/* ---- Ranges and random numbers ---- */

static void check_arange(const struct level *l)
{
	struct kilni_ew_params p = params_of(KILNI_OP_ARANGE, KILN_I8, 0);
	int8_t *x = (int8_t *)out;
	double *y = (double *)out;

	p.count = 1000;
	p.contiguous = 1;
	p.out = address(out);
	p.scalar[0] = (uint64_t)-5;
	p.scalar[1] = 3;
	l->ew(&p, 0, 1000);
	for (int i = 0; i < 1000; i++)
		CHECK(x[i] == (int8_t)(-5 + 3 * i), "arange of i8 at %d", i);
	p.dtype[0] = KILN_F64;
	p.scalar[1] = (uint64_t)-2;
	l->ew(&p, 0, 1000);
	for (int i = 0; i < 1000; i++)
		CHECK(y[i] == -5.0 - 2 * i, "arange of f64 at %d", i);
}

static uint64_t bits_of(double x)
{
	uint64_t u;

	memcpy(&u, &x, 8);
	return u;
}

static struct kilni_ew_params random_params(unsigned dtype, unsigned kind,
					    double a, double b)
{
	struct kilni_ew_params p = params_of(KILNI_OP_RANDOM, dtype, 0);

	p.count = N_MAX;
	p.contiguous = 1;
	p.out = address(out);
	p.distribution = (uint8_t)kind;
	p.scalar[0] = bits_of(a);
	p.scalar[1] = bits_of(b);
	p.seed = 42;
	p.counter = 7;
	return p;
}

static double value_of(unsigned dtype, uint64_t i)
{
	struct kilni_ew_params p = params_of(KILNI_OP_CAST, dtype, KILN_F64);
	double x = 0;

	p.count = 1;
	p.contiguous = 1;
	p.in[0] = address(out) + i * case_bytes(dtype);
	p.out = address(&x);
	kilni_ew_base(&p, 0, 1);
	return x;
}

/* Mean and deviation of a draw, and its extremes. */
static void moments(unsigned dtype, double *mean, double *deviation,
		    double *least, double *most)
{
	double s = 0;
	double q = 0;

	*least = INFINITY;
	*most = -INFINITY;
	for (uint64_t i = 0; i < N_MAX; i++) {
		double x = value_of(dtype, i);

		s += x;
		q += x * x;
		*least = x < *least ? x : *least;
		*most = x > *most ? x : *most;
	}
	*mean = s / N_MAX;
	*deviation = sqrt(q / N_MAX - *mean * *mean);
}

static void check_draw(const struct level *l, unsigned dtype, unsigned kind,
		       double a, double b, double mean, double deviation,
		       double least, double most)
{
	struct kilni_ew_params p = random_params(dtype, kind, a, b);
	double m, d, lo, hi;

	l->ew(&p, 0, N_MAX);
	moments(dtype, &m, &d, &lo, &hi);
	CHECK(fabs(m - mean) < 0.06 * deviation + 0.01 &&
	      fabs(d - deviation) < 0.06 * deviation + 0.01 &&
	      lo >= least && hi <= most,
	      "random %u of dtype %u (%s): mean %g, deviation %g, %g ... %g",
	      kind, dtype, l->name, m, d, lo, hi);
	/* Any cut gives the same bits, and so does a later counter. */
	p.out = address(other);
	l->ew(&p, 0, 3);
	l->ew(&p, 3, 1000);
	l->ew(&p, 1000, N_MAX);
	CHECK(memcmp(out, other, N_MAX * case_bytes(dtype)) == 0,
	      "random %u of dtype %u depends on the cut", kind, dtype);
	p.counter += kilni_random_blocks(1024, (enum kiln_dtype)dtype);
	l->ew(&p, 0, 1000);
	CHECK(memcmp(out + 1024 * case_bytes(dtype), other,
		     1000 * case_bytes(dtype)) == 0,
	      "random %u of dtype %u: blocks used are miscounted", kind,
	      dtype);
}

static void check_random(const struct level *l)
{
	static const uint8_t floats[] = { KILN_F64, KILN_F32, KILN_F16,
					  KILN_BF16 };
	static const uint8_t ints[] = { KILN_I64, KILN_I32, KILN_I16, KILN_U64,
					KILN_U32, KILN_U16, KILN_U8 };

	for (unsigned k = 0; k < 4; k++) {
		unsigned t = floats[k];

		check_draw(l, t, KILN_RANDOM_DEFAULT, 0, 0, 0.5, 0.2887, 0,
			   0.9999999999999999);
		check_draw(l, t, KILN_RANDOM_UNIFORM, -2, 3, 0.5, 1.4434, -2,
			   2.9999999999999996);
		check_draw(l, t, KILN_RANDOM_NORMAL, 1, 2, 1, 2, -12, 14);
		check_draw(l, t, KILN_RANDOM_BERNOULLI, 0.25, 0, 0.25, 0.433,
			   0, 1);
	}
	for (unsigned k = 0; k < 7; k++) {
		unsigned t = ints[k];

		check_draw(l, t, KILN_RANDOM_DEFAULT, 0, 0, 127, 73.6, 0, 254);
		check_draw(l, t, KILN_RANDOM_UNIFORM, 10, 110, 59.5, 28.87, 10,
			   109);
		check_draw(l, t, KILN_RANDOM_NORMAL, 100, 9, 99.5, 9, 0, 255);
		check_draw(l, t, KILN_RANDOM_BERNOULLI, 0.5, 0, 0.5, 0.5, 0,
			   1);
	}
	check_draw(l, KILN_I8, KILN_RANDOM_DEFAULT, 0, 0, 63, 36.7, 0, 126);
	check_draw(l, KILN_U8, KILN_RANDOM_UNIFORM, 0, 256, 127.5, 73.9, 0,
		   255);
	check_draw(l, KILN_BOOL, KILN_RANDOM_BERNOULLI, 0.3, 0, 0.3, 0.458, 0,
		   1);
}

/* The first block of the published test vector of Philox 4x32-10. */
static void check_philox(const struct level *l)
{
	struct kilni_ew_params p = random_params(KILN_U64, KILN_RANDOM_UNIFORM,
						 0, 18446744073709551616.0);
	uint64_t *x = (uint64_t *)out;

	p.seed = 0;
	p.counter = 0;
	l->ew(&p, 0, 2);
	/* Of [0, 2^64 - 1), the product's high half is the word or one less. */
	CHECK(x[0] - 0xe169c58d6627e8d4u + 1 <= 1 &&
	      x[1] - 0x9b00dbd8bc57ac4cu + 1 <= 1,
	      "philox: %#" PRIx64 " %#" PRIx64, x[0], x[1]);
}

int main(void)
{
	struct level l[3];
	unsigned n = levels(l);

	for (unsigned k = 0; k < n; k++) {
		printf("# level %s\n", l[k].name);
		check_cases(&l[k]);
		check_broadcast(&l[k]);
		check_arange(&l[k]);
		check_random(&l[k]);
		check_philox(&l[k]);
	}
	check_ops(l, n);
	printf("%u checks, %u failed\n", checks, failures);
	return failures != 0;
}
