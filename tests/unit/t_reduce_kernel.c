/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's reductions at every instruction-set level that this CPU has. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/dtype.h>

#include "kernels/abi.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/plan.h"
#include "kernels/registry.h"
#include "sanitized.h"

#define GUARD 64

/* ck_assert writes to a file even where it holds: too slow per element. */
#define EXPECT(condition)                                                      \
	do {                                                                   \
		if (!(condition))                                              \
			ck_abort_msg("not so: %s", #condition);                \
	} while (0)
#define EXPECT_EQ(got, want) expect_eq(__LINE__, got, want)

static void expect_eq(int line, uint64_t got, uint64_t want)
{
	if (got != want)
		ck_abort_msg("line %d: got %lld, expected %lld", line,
			     (long long)got, (long long)want);
}

/* ---- Levels and gangs ---- */

static const char *const level_names[KILNI_ISA_COUNT] = {
#define NAME_(ID, name, suffix) name,
	KILNI_ISA_TABLE(NAME_)
#undef NAME_
};

static int level_runs(int level)
{
	if (!kilni_cpu_kernels[level] || !kilni_cpu_kernels[level]->reduce)
		return 0;
#if defined(__x86_64__)
	if (level == KILNI_ISA_AVX2)
		return __builtin_cpu_supports("avx2") &&
		       __builtin_cpu_supports("fma");
	if (level == KILNI_ISA_AVX512)
		return __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl") &&
		       __builtin_cpu_supports("avx512dq");
#endif
	return level == KILNI_ISA_BASELINE;
}

#define FOR_EACH_LEVEL(level)                                                  \
	for (level = 0; level < KILNI_ISA_COUNT; level++)                      \
		if (level_runs(level))

/* A gang of one thread that takes tasks in an order of its own per width. */
static void run_shuffled(struct kilni_team *team,
			 void (*fn)(void *arg, uint64_t i), void *arg,
			 uint64_t count)
{
	uint64_t start, i;

	for (start = team->width; start-- > 0;)
		for (i = start; i < count; i += team->width)
			fn(arg, i);
}

struct gang {
	struct kilni_team team;
	void (*fn)(void *arg, uint64_t i);
	void *arg;
	uint64_t next, count;
};

static void *gang_member(void *arg)
{
	struct gang *gang = arg;
	uint64_t i;

	while ((i = __atomic_fetch_add(&gang->next, 1, __ATOMIC_RELAXED)) <
	       gang->count)
		gang->fn(gang->arg, i);
	return NULL;
}

static void run_threads(struct kilni_team *team,
			void (*fn)(void *arg, uint64_t i), void *arg,
			uint64_t count)
{
	struct gang *gang = (struct gang *)team;
	pthread_t thread[16];
	unsigned i;

	gang->fn = fn;
	gang->arg = arg;
	gang->next = 0;
	gang->count = count;
	for (i = 1; i < team->width; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, gang_member,
						gang), 0);
	gang_member(gang);
	for (i = 1; i < team->width; i++)
		pthread_join(thread[i], NULL);
}

/* ---- A call ---- */

struct result {
	unsigned char *out;   /* guarded on both sides */
	unsigned char *index;
	size_t out_bytes, index_bytes;
};

static unsigned char *guarded_new(size_t bytes)
{
	unsigned char *p = malloc(bytes + 2 * GUARD);

	ck_assert_ptr_nonnull(p);
	memset(p, 0xa5, bytes + 2 * GUARD);
	return p + GUARD;
}

static void guarded_free(unsigned char *p, size_t bytes)
{
	size_t i;

	for (i = 0; i < GUARD; i++) {
		EXPECT_EQ(p[i - GUARD], 0xa5);
		EXPECT_EQ(p[bytes + i], 0xa5);
	}
	free(p - GUARD);
}

static size_t element_bytes(unsigned dtype)
{
	static const size_t bytes[KILN_DTYPE_COUNT] = {
#define BYTES_(id, value, name, size, cls) [value] = size,
		KILN_DTYPE_TABLE(BYTES_)
#undef BYTES_
	};

	return bytes[dtype];
}

static int class_of(unsigned dtype)
{
	static const int classes[KILN_DTYPE_COUNT] = {
#define CLASS_(id, value, name, size, cls) [value] = KILN_CLASS_##cls,
		KILN_DTYPE_TABLE(CLASS_)
#undef CLASS_
	};

	return classes[dtype];
}

static uint64_t outputs_of(const struct kilni_reduce_params *p)
{
	uint64_t count = 1;
	unsigned i;

	for (i = 0; i < p->rank; i++)
		if (!(p->axes >> i & 1))
			count *= p->shape[i];
	return count;
}

static int is_arg(unsigned op)
{
	return op == KILNI_OP_ARGMAX || op == KILNI_OP_ARGMIN;
}

static int is_truth(unsigned op)
{
	return op == KILNI_OP_ANY || op == KILNI_OP_ALL;
}

/* Runs p with memory of its own; want_index also for MAX and MIN. */
static struct result call(int level, struct kilni_reduce_params p,
			  struct kilni_team *team, int want_index)
{
	struct result r;
	const uint64_t n = outputs_of(&p);
	unsigned char *workspace;
	uint64_t bytes;

	p.out = p.index = 0;
	bytes = kilni_cpu_reduce_workspace(&p);
	workspace = guarded_new(bytes);
	r.out_bytes = n * element_bytes(is_truth(p.op) ? p.out_dtype :
							 p.dtype);
	r.index_bytes = n * element_bytes(p.index_dtype);
	r.out = guarded_new(r.out_bytes);
	r.index = guarded_new(r.index_bytes);
	p.out = is_arg(p.op) ? 0 : (uint64_t)(uintptr_t)r.out;
	p.index = want_index ? (uint64_t)(uintptr_t)r.index : 0;
	p.workspace = (uint64_t)(uintptr_t)workspace;
	p.workspace_bytes = bytes;
	kilni_cpu_kernels[level]->reduce(&p, team);
	guarded_free(workspace, bytes);
	return r;
}

static void drop(struct result *r)
{
	guarded_free(r->out, r->out_bytes);
	guarded_free(r->index, r->index_bytes);
}

static void assert_same(const struct result *a, const struct result *b)
{
	EXPECT(memcmp(a->out, b->out, a->out_bytes) == 0);
	EXPECT(memcmp(a->index, b->index, a->index_bytes) == 0);
}

/* ---- Elements, read and written without the library ---- */

struct number {
	long double f;  /* floats */
	uint64_t u;     /* integers, sign- or zero-extended */
};

static long double small_float(uint64_t bits, int exponent_bits,
			       int fraction_bits)
{
	const uint64_t fraction = bits & ((1u << fraction_bits) - 1);
	const int max = (1 << exponent_bits) - 1, bias = max / 2;
	const int exponent = (int)(bits >> fraction_bits) & max;
	const int is_negative = bits >> (exponent_bits + fraction_bits) & 1;
	long double value;

	if (exponent == max)
		value = fraction ? (long double)NAN : (long double)INFINITY;
	else if (exponent == 0)
		value = ldexpl((long double)fraction,
			       1 - bias - fraction_bits);
	else
		value = ldexpl((long double)(fraction + (1u << fraction_bits)),
			       exponent - bias - fraction_bits);
	return is_negative ? -value : value;
}

static struct number element(unsigned dtype, const void *base, int64_t i)
{
	const size_t bytes = element_bytes(dtype);
	const unsigned unused = 64 - 8 * (unsigned)bytes;
	struct number x = { 0, 0 };
	double d;
	float f;

	memcpy(&x.u, (const char *)base + i * (int64_t)bytes, bytes);
	if (class_of(dtype) == KILN_CLASS_INT)
		x.u = (uint64_t)((int64_t)(x.u << unused) >> unused);
	if (dtype == KILN_F64) {
		memcpy(&d, &x.u, 8);
		x.f = d;
	} else if (dtype == KILN_F32 || dtype == KILN_FLEX32) {
		memcpy(&f, &x.u, 4);
		x.f = f;
	} else if (dtype == KILN_F16) {
		x.f = small_float(x.u, 5, 10);
	} else if (dtype == KILN_BF16) {
		x.f = small_float(x.u, 8, 7);
	}
	return x;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Cuts a float that f16 and bf16 hold exactly where it has few digits. */
static uint64_t float_bits(unsigned dtype, float f)
{
	uint64_t bits = 0;
	uint32_t single;
	double d = f;

	memcpy(&single, &f, 4);
	if (dtype == KILN_F64)
		memcpy(&bits, &d, 8);
	else if (dtype == KILN_BF16)
		bits = single >> 16;
	else if (dtype == KILN_F16)
		bits = (single >> 16 & 0x8000) |
		       (f == 0 ? 0 : f - f != 0 ?
				     0x7c00 | (f != f ? 0x200 : 0) :
				     ((single & 0x7fffffff) - 0x38000000) >>
					     13);
	else
		bits = single;
	return bits;
}

/* Few distinct values, so that there are ties; now and then an odd one. */
static void fill(unsigned dtype, void *data, uint64_t n, int with_specials)
{
	static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY,
					 NAN };
	const size_t bytes = element_bytes(dtype);
	uint64_t i;

	for (i = 0; i < n; i++) {
		const uint64_t r = random_bits();
		uint64_t bits = r >> 20;

		if (class_of(dtype) == KILN_CLASS_FLOAT)
			bits = float_bits(dtype,
					  (float)((int)(r % 255) - 127) /
						  64.0f);
		else if (class_of(dtype) == KILN_CLASS_BOOL)
			bits = r % 100 == 0 ? bits : 0;
		if (with_specials && class_of(dtype) == KILN_CLASS_FLOAT &&
		    r >> 32 & 1 && r % 97 == 0)
			bits = float_bits(dtype, special[r % 5]);
		memcpy((char *)data + i * bytes, &bits, bytes);
	}
}

/* ---- The same reductions, one element after another ---- */

struct naive {
	uint64_t n;
	long double sum, sum_abs, prod, best;
	uint64_t isum, iprod, ibest;
	uint64_t best_at;
	int any, all, is_nan;
};

static int is_less_bits(unsigned dtype, uint64_t a, uint64_t b)
{
	return class_of(dtype) == KILN_CLASS_INT ? (int64_t)a < (int64_t)b :
						   a < b;
}

static uint64_t wrap(unsigned dtype, uint64_t u)
{
	const unsigned unused = 64 - 8 * (unsigned)element_bytes(dtype);

	if (class_of(dtype) == KILN_CLASS_INT)
		return (uint64_t)((int64_t)(u << unused) >> unused);
	return u << unused >> unused;
}

static int beats(unsigned op, unsigned dtype, const struct naive *s,
		 struct number x)
{
	const int least = op == KILNI_OP_MIN || op == KILNI_OP_ARGMIN;

	if (s->n == 0)
		return 1;
	if (class_of(dtype) == KILN_CLASS_FLOAT) {
		if (s->is_nan)
			return 0;
		return x.f != x.f || (least ? x.f < s->best : x.f > s->best);
	}
	return least ? is_less_bits(dtype, x.u, s->ibest) :
		       is_less_bits(dtype, s->ibest, x.u);
}

static void naive_add(unsigned op, unsigned dtype, struct naive *s,
		      struct number x)
{
	const int is_float = class_of(dtype) == KILN_CLASS_FLOAT;
	const int is_true = is_float ? x.f != 0 : x.u != 0;

	s->any |= is_true;
	s->all &= is_true;
	s->sum += x.f;
	s->sum_abs += fabsl(x.f);
	s->prod *= x.f;
	s->isum += x.u;
	s->iprod *= x.u;
	if (op == KILNI_OP_MAX_ABS) {
		x.f = fabsl(x.f);
		if (class_of(dtype) == KILN_CLASS_INT && (int64_t)x.u < 0)
			x.u = wrap(dtype, -x.u);
	}
	if (beats(op, dtype, s, x)) {
		s->best = x.f;
		s->ibest = x.u;
		s->best_at = s->n;
		s->is_nan = x.f != x.f;
	}
	s->n++;
}

/* The reduced elements of output number at, in row-major order. */
static struct naive naive_output(const struct kilni_reduce_params *p,
				 uint64_t at)
{
	struct naive s = { .prod = 1, .iprod = 1, .all = 1 };
	const void *in = (const void *)(uintptr_t)p->in;
	int64_t base = 0, offset;
	uint64_t i, left, count = 1;
	int axis;

	for (axis = p->rank - 1; axis >= 0; axis--) {
		if (p->axes >> axis & 1) {
			count *= p->shape[axis];
			continue;
		}
		base += (int64_t)(at % p->shape[axis]) * p->stride[axis];
		at /= p->shape[axis];
	}
	for (i = 0; i < count; i++) {
		offset = base;
		left = i;
		for (axis = p->rank - 1; axis >= 0; axis--) {
			if (!(p->axes >> axis & 1))
				continue;
			offset += (int64_t)(left % p->shape[axis]) *
				  p->stride[axis];
			left /= p->shape[axis];
		}
		naive_add(p->op, p->dtype, &s, element(p->dtype, in, offset));
	}
	return s;
}

/* Unit roundoff of the dtype and its greatest value. */
static void float_limits(unsigned dtype, long double *eps, long double *max,
			 long double *least)
{
	const int digits = dtype == KILN_F64 ? 53 : dtype == KILN_F16 ? 11 :
			   dtype == KILN_BF16 ? 8 : 24;
	const int exponent = dtype == KILN_F64 ? 1024 :
			     dtype == KILN_F16 ? 16 : 128;

	*eps = ldexpl(1, -digits);
	*max = ldexpl(1 - *eps, exponent);
	*least = ldexpl(1, 3 - exponent - digits);
}

/* got is want rounded to dtype, give or take slack before that. */
static void assert_near(unsigned dtype, long double got, long double want,
			long double slack)
{
	long double eps, max, least;

	float_limits(dtype, &eps, &max, &least);
	if (want != want) {
		EXPECT(got != got);
	} else if (isinf(want) || fabsl(want) > max * (1 + eps)) {
		EXPECT(isinf(got) && (got > 0) == (want > 0));
	} else {
		slack += eps * fabsl(want) * 1.0001L + least;
		if (!(fabsl(got - want) <= slack))
			ck_abort_msg("%s: got %.20Lg, expected %.20Lg",
				     "float", got, want);
	}
}

static void check_float(const struct kilni_reduce_params *p,
			const struct naive *s, long double got)
{
	const long double n = (long double)s->n;
	const long double slack = 100 * 0x1p-53L * s->sum_abs;

	switch (p->op) {
	case KILNI_OP_SUM:
		assert_near(p->dtype, got, s->sum, slack);
		break;
	case KILNI_OP_MEAN:
		assert_near(p->dtype, got, s->sum / n, slack / n);
		break;
	case KILNI_OP_PROD:
		assert_near(p->dtype, got, s->prod,
			    n * fabsl(s->prod) * (p->dtype == KILN_F64 ?
						  0x1p-52L : 0x1p-23L));
		break;
	default:
		if (s->is_nan)
			EXPECT(got != got);
		else
			EXPECT(got == s->best);
	}
}

static uint64_t wrap_unsigned(unsigned dtype, uint64_t sum)
{
	switch (dtype) {
	case KILN_U8:
		return (uint8_t)sum;
	case KILN_U16:
		return (uint16_t)sum;
	case KILN_U32:
		return (uint32_t)sum;
	default:
		return sum;
	}
}

static uint64_t naive_integer(const struct kilni_reduce_params *p,
			      const struct naive *s)
{
	switch (p->op) {
	case KILNI_OP_SUM:
		return s->isum;
	case KILNI_OP_PROD:
		return s->iprod;
	case KILNI_OP_MEAN:
		if (class_of(p->dtype) == KILN_CLASS_UINT)
			return wrap_unsigned(p->dtype, s->isum) / s->n;
		return (uint64_t)((int64_t)s->isum / (int64_t)s->n);
	default:
		return s->ibest;
	}
}

static void check_output(const struct kilni_reduce_params *p,
			 const struct result *r, uint64_t at,
			 const struct naive *s, int want_index)
{
	struct number got;

	if (want_index) {
		got = element(p->index_dtype, r->index, (int64_t)at);
		EXPECT_EQ(got.u, wrap(p->index_dtype, s->best_at));
	}
	if (is_arg(p->op))
		return;
	if (is_truth(p->op)) {
		got = element(p->out_dtype, r->out, (int64_t)at);
		EXPECT_EQ(got.u,
				  p->op == KILNI_OP_ANY ? s->any : s->all);
		return;
	}
	got = element(p->dtype, r->out, (int64_t)at);
	if (class_of(p->dtype) == KILN_CLASS_FLOAT)
		check_float(p, s, got.f);
	else
		EXPECT_EQ(got.u,
				  wrap(p->dtype, naive_integer(p, s)));
}

/* ---- Views ---- */

/* A view of elements values, the first at start. */
struct view {
	const char *what;
	unsigned rank;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t stride[KILNI_RANK_MAX];
	int64_t start;
	uint64_t elements;
};

static const struct view views[] = {
	{ "one", 1, { 1 }, { 1 }, 0, 1 },
	{ "three", 1, { 3 }, { 1 }, 0, 3 },
	{ "fifteen", 1, { 15 }, { 1 }, 0, 15 },
	{ "seventeen", 1, { 17 }, { 1 }, 0, 17 },
	{ "vector", 1, { 5003 }, { 1 }, 0, 5003 },
	{ "backwards", 1, { 2500 }, { -1 }, 2499, 2500 },
	{ "every third", 1, { 900 }, { 3 }, 0, 2700 },
	{ "matrix", 2, { 37, 53 }, { 53, 1 }, 0, 37 * 53 },
	{ "transposed", 2, { 53, 37 }, { 1, 53 }, 0, 37 * 53 },
	{ "flipped", 2, { 37, 53 }, { -53, -1 }, 37 * 53 - 1, 37 * 53 },
	{ "half flipped", 2, { 37, 53 }, { -53, 1 }, 36 * 53, 37 * 53 },
	{ "wide", 2, { 7, 530 }, { 530, 1 }, 0, 7 * 530 },
	{ "tall", 2, { 600, 5 }, { 5, 1 }, 0, 3000 },
	{ "padded", 2, { 30, 20 }, { 25, 1 }, 2, 30 * 25 },
	{ "not one axis", 2, { 4, 3 }, { 4, 1 }, 0, 16 },
	{ "expanded", 2, { 40, 30 }, { 0, 1 }, 0, 30 },
	{ "repeated", 2, { 30, 40 }, { 1, 0 }, 0, 30 },
	{ "cube", 3, { 6, 140, 9 }, { 1260, 9, 1 }, 0, 7560 },
	{ "permuted", 3, { 9, 6, 140 }, { 1, 1260, 9 }, 0, 7560 },
	{ "of ones", 4, { 1, 12, 1, 30 }, { 7, 30, 9, 1 }, 0, 360 },
	{ "eight axes", 8, { 2, 3, 2, 2, 3, 2, 2, 3 },
	  { 432, 144, 72, 36, 12, 6, 3, 1 }, 0, 864 },
	{ "eight axes, mixed", 8, { 2, 3, 2, 2, 3, 2, 2, 3 },
	  { 1, 2, 6, 12, -24, 72, 144, 288 }, 48, 864 },
};

#define VIEW_COUNT (sizeof(views) / sizeof(views[0]))

static struct kilni_reduce_params params(const struct view *v, unsigned op,
					 unsigned dtype, unsigned axes)
{
	struct kilni_reduce_params p;

	memset(&p, 0, sizeof(p));
	p.op = op;
	p.dtype = (uint8_t)dtype;
	p.out_dtype = KILN_BOOL;
	p.index_dtype = KILN_I64;
	p.rank = (uint8_t)v->rank;
	p.axes = axes;
	memcpy(p.shape, v->shape, sizeof(p.shape));
	memcpy(p.stride, v->stride, sizeof(p.stride));
	return p;
}

static void check_call(struct kilni_reduce_params p, int want_index)
{
	struct kilni_team two = { 2, run_shuffled };
	const uint64_t n = outputs_of(&p);
	struct result r[KILNI_ISA_COUNT], other;
	struct naive s;
	uint64_t at;
	int level;

	FOR_EACH_LEVEL(level) {
		r[level] = call(level, p, NULL, want_index);
		other = call(level, p, &two, want_index);
		assert_same(&r[level], &other);
		drop(&other);
	}
	for (at = 0; at < n; at++) {
		s = naive_output(&p, at);
		FOR_EACH_LEVEL(level)
			check_output(&p, &r[level], at, &s, want_index);
	}
	FOR_EACH_LEVEL(level)
		drop(&r[level]);
}

static int applies(unsigned op, unsigned dtype)
{
	return is_truth(op) || class_of(dtype) != KILN_CLASS_BOOL;
}

static void check_view(const struct view *v, unsigned dtype, unsigned axes)
{
	static const uint8_t bools[] = { KILN_BOOL, KILN_BOOL_U8,
					 KILN_BOOL_U32 };
	static const uint8_t indices[] = { KILN_I64, KILN_I32, KILN_U16,
					   KILN_U8 };
	void *data = malloc(v->elements * element_bytes(dtype));
	const int one_axis = (axes & (axes - 1)) == 0;
	struct kilni_reduce_params p;
	unsigned op;

	fill(dtype, data, v->elements, random_bits() % 2 == 0);
	for (op = KILNI_OP_SUM; op <= KILNI_OP_ALL; op++) {
		if (!applies(op, dtype))
			continue;
		p = params(v, op, dtype, axes);
		p.in = (uint64_t)(uintptr_t)data +
		       (uint64_t)v->start * element_bytes(dtype);
		p.out_dtype = bools[random_bits() % 3];
		p.index_dtype = indices[random_bits() % 4];
		check_call(p, is_arg(op));
		if ((op == KILNI_OP_MAX || op == KILNI_OP_MIN) && one_axis)
			check_call(p, 1);
	}
	free(data);
}

START_TEST(test_views)
{
	const struct view *v = &views[_i];
	unsigned dtype, axis;
	const unsigned all = (1u << v->rank) - 1;

	for (dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) {
		check_view(v, dtype, all);
		for (axis = 0; axis < v->rank && v->rank > 1; axis++)
			check_view(v, dtype, 1u << axis);
		if (v->rank > 2) {
			check_view(v, dtype, all & 0x55);
			check_view(v, dtype, all & 0xaa);
		}
	}
}
END_TEST

/*
 * The thread sanitizer has races to find, in the cases of "threads": of what
 * runs on one thread alone it sees a part.
 */
#define FEW KILNI_TSAN

/* Large enough to be cut among threads. */
static const struct view large[] = {
	{ "long", 1, { 140001 }, { 1 }, 0, 140001 },
	{ "long, strided", 1, { 70001 }, { 2 }, 0, 140002 },
	{ "long rows", 2, { 3, 50001 }, { 50001, 1 }, 0, 150003 },
	{ "columns", 2, { 2100, 70 }, { 70, 1 }, 0, 147000 },
	{ "many rows", 2, { 9000, 16 }, { 16, 1 }, 0, 144000 },
	{ "middle", 3, { 2, 9001, 8 }, { 72008, 8, 1 }, 0, 144016 },
	{ "expanded", 2, { 1000, 140 }, { 0, 1 }, 0, 140 },
};

START_TEST(test_large)
{
	static const uint8_t dtypes[] = { KILN_F64, KILN_F32, KILN_I8 };
	const struct view *v = &large[_i];
	unsigned i, axis;

	for (i = 0; i < sizeof(dtypes); i += FEW ? 2 : 1)
		for (axis = 0; axis < v->rank; axis++)
			check_view(v, dtypes[i], 1u << axis);
}
END_TEST

/* ---- Reductions over nothing (P26) ---- */

static void empty_case(unsigned op, unsigned dtype, const void *want,
		       size_t bytes)
{
	const struct view v = { "", 2, { 2, 0 }, { 0, 1 }, 0, 0 };
	struct kilni_reduce_params p = params(&v, op, dtype, 2);
	struct result r;
	int level;

	p.in = (uint64_t)(uintptr_t)want;
	FOR_EACH_LEVEL(level) {
		r = call(level, p, NULL, 0);
		ck_assert_uint_eq(r.out_bytes, bytes);
		ck_assert(memcmp(r.out, want, bytes) == 0);
		drop(&r);
	}
}

START_TEST(test_empty_axis)
{
	static const float zeros[2] = { 0, 0 }, ones[2] = { 1, 1 };
	static const double dones[2] = { 1, 1 };
	static const int8_t bzeros[2] = { 0, 0 }, bones[2] = { 1, 1 };
	static const uint16_t hones[2] = { 0x3c00, 0x3c00 };

	empty_case(KILNI_OP_SUM, KILN_F32, zeros, 8);
	empty_case(KILNI_OP_PROD, KILN_F32, ones, 8);
	empty_case(KILNI_OP_PROD, KILN_F64, dones, 16);
	empty_case(KILNI_OP_PROD, KILN_F16, hones, 4);
	empty_case(KILNI_OP_SUM, KILN_I8, bzeros, 2);
	empty_case(KILNI_OP_PROD, KILN_U8, bones, 2);
	empty_case(KILNI_OP_ANY, KILN_F32, bzeros, 2);
	empty_case(KILNI_OP_ALL, KILN_F32, bones, 2);
}
END_TEST

START_TEST(test_empty_mean)
{
	const struct view v = { "", 2, { 2, 0 }, { 0, 1 }, 0, 0 };
	static const uint8_t dtypes[] = { KILN_F64, KILN_F32, KILN_FLEX32,
					  KILN_F16, KILN_BF16 };
	struct result r;
	unsigned i;
	int level;

	FOR_EACH_LEVEL(level)
		for (i = 0; i < sizeof(dtypes); i++) {
			r = call(level,
				 params(&v, KILNI_OP_MEAN, dtypes[i], 2),
				 NULL, 0);
			ck_assert(isnan(element(dtypes[i], r.out, 0).f));
			ck_assert(isnan(element(dtypes[i], r.out, 1).f));
			drop(&r);
		}
}
END_TEST

/* No outputs: nothing is written, for whichever op. */
START_TEST(test_empty_out)
{
	const struct view v = { "", 3, { 2, 0, 3 }, { 0, 3, 1 }, 0, 0 };
	struct result r;
	unsigned op;
	int level;

	FOR_EACH_LEVEL(level)
		for (op = KILNI_OP_SUM; op <= KILNI_OP_ALL; op++) {
			r = call(level, params(&v, op, KILN_F32, 1), NULL,
				 is_arg(op));
			ck_assert_uint_eq(r.out_bytes, 0);
			drop(&r);
		}
}
END_TEST

/* ---- NaN and ties (P27) ---- */

static struct result reduce_vector(int level, unsigned op, unsigned dtype,
				   const void *x, uint64_t n,
				   struct kilni_team *team, int want_index)
{
	const struct view v = { "", 1, { n }, { 1 }, 0, n };
	struct kilni_reduce_params p = params(&v, op, dtype, 1);

	p.in = (uint64_t)(uintptr_t)x;
	return call(level, p, team, want_index);
}

static uint64_t arg_of(int level, unsigned op, unsigned dtype, const void *x,
		       uint64_t n)
{
	struct result r = reduce_vector(level, op, dtype, x, n, NULL, 1);
	const uint64_t index = element(KILN_I64, r.index, 0).u;

	drop(&r);
	return index;
}

static long double value_of(int level, unsigned op, unsigned dtype,
			    const void *x, uint64_t n)
{
	struct result r = reduce_vector(level, op, dtype, x, n, NULL, 0);
	const long double value = element(dtype, r.out, 0).f;

	drop(&r);
	return value;
}

static void nan_case(int level, const float *x, uint64_t n, uint64_t at)
{
	ck_assert(isnan(value_of(level, KILNI_OP_MAX, KILN_F32, x, n)));
	ck_assert(isnan(value_of(level, KILNI_OP_MIN, KILN_F32, x, n)));
	ck_assert(isnan(value_of(level, KILNI_OP_MAX_ABS, KILN_F32, x, n)));
	ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX, KILN_F32, x, n), at);
	ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMIN, KILN_F32, x, n), at);
	ck_assert_uint_eq(arg_of(level, KILNI_OP_MAX, KILN_F32, x, n), at);
}

START_TEST(test_nan)
{
	static const uint64_t lengths[] = { 3, 1000, 1000003 };
	static const uint32_t nans[] = { 0x7fc00000, 0xff800001 };
	const float first[3] = { 1, NAN, 3 };
	float *x = malloc(1000003 * sizeof(float));
	unsigned i, k;
	uint64_t j;
	int level;

	for (j = 0; j < 1000003; j++)
		x[j] = (float)(j % 1000);
	FOR_EACH_LEVEL(level) {
		nan_case(level, first, 3, 1);
		for (i = 0; i < 3; i++)
			for (k = 0; k < 2; k++) {
				const float kept = x[lengths[i] - 1];

				memcpy(&x[lengths[i] - 1], &nans[k], 4);
				nan_case(level, x, lengths[i],
					 lengths[i] - 1);
				x[lengths[i] - 1] = kept;
			}
	}
	free(x);
}
END_TEST

START_TEST(test_ties)
{
	static const float ties[3] = { 3, 1, 3 }, lows[3] = { 1, 3, 1 };
	static const float zeros[3] = { -1, -0.0f, 0.0f };
	static const float up[2] = { 0.0f, -0.0f };
	static const uint16_t half[3] = { 0xbc00, 0x8000, 0x0000 };
	int level;

	FOR_EACH_LEVEL(level) {
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX, KILN_F32,
					 ties, 3), 0);
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMIN, KILN_F32,
					 lows, 3), 0);
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX, KILN_F32,
					 zeros, 3), 1);
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMIN, KILN_F32, up,
					 2), 0);
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX, KILN_F16,
					 half, 3), 1);
		ck_assert(signbit(value_of(level, KILNI_OP_MIN, KILN_F32, up,
					   2)));
		ck_assert(!signbit(value_of(level, KILNI_OP_MAX, KILN_F32,
					    zeros, 3)));
	}
}
END_TEST

/* ---- Sums and means in narrow types (P30) ---- */

static void *repeated(size_t bytes, uint64_t bits, uint64_t n)
{
	char *x = malloc(n * bytes);
	uint64_t i;

	ck_assert_ptr_nonnull(x);
	for (i = 0; i < n; i++)
		memcpy(x + i * bytes, &bits, bytes);
	return x;
}

static void narrow_case(unsigned op, unsigned dtype, uint64_t bits, uint64_t n,
			long double want, long double slack)
{
	void *x = repeated(element_bytes(dtype), bits, n);
	int level;

	FOR_EACH_LEVEL(level)
		ck_assert(fabsl(value_of(level, op, dtype, x, n) - want) <=
			  slack);
	free(x);
}

START_TEST(test_narrow_sums)
{
	narrow_case(KILNI_OP_MEAN, KILN_F16, 0x3c00, 100000, 1, 0);
	narrow_case(KILNI_OP_MEAN, KILN_F16, 0x78e2, 3, 40000, 0);
	narrow_case(KILNI_OP_SUM, KILN_BF16, 0x3f80, 1000, 1000, 0);
	if (FEW)
		return;
	narrow_case(KILNI_OP_SUM, KILN_F32, 0x3f800000, 1u << 25, 33554432, 0);
	narrow_case(KILNI_OP_SUM, KILN_F32, 0x3dcccccd, 10000000, 1000000, 1);
}
END_TEST

START_TEST(test_mean_does_not_overflow)
{
	const float f[3] = { 0x1.fffffep127f, 0x1.fffffep127f,
			     0x1.fffffep127f };
	const double d[3] = { 0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023,
			      0x1.fffffffffffffp1023 };
	const double low[2] = { -0x1.fffffffffffffp1023,
				-0x1.fffffffffffffp1023 };
	const double mixed[4] = { 0x1p1023, 0x1p1023, -0x1p1023, -0x1p1023 };
	const double inf[3] = { 1, INFINITY, 2 };
	const double both[3] = { -INFINITY, INFINITY, 2 };
	double *many = malloc(100000 * sizeof(double));
	uint64_t i;
	int level;

	narrow_case(KILNI_OP_MEAN, KILN_BF16, 0x7f7f, 3000,
		    small_float(0x7f7f, 8, 7), 0);
	for (i = 0; i < 100000; i++)
		many[i] = d[0];
	FOR_EACH_LEVEL(level) {
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F32, f, 3) ==
			  f[0]);
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F64, d, 3) ==
			  d[0]);
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F64, low, 2) ==
			  low[0]);
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F64, mixed,
				   4) == 0);
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F64, inf, 3) ==
			  INFINITY);
		ck_assert(isnan(value_of(level, KILNI_OP_MEAN, KILN_F64, both,
					 3)));
		ck_assert(value_of(level, KILNI_OP_MEAN, KILN_F64, many,
				   100000) == d[0]);
	}
	free(many);
}
END_TEST

/* Only the means that overflowed are formed again. */
START_TEST(test_mean_rows)
{
	const double big = 0x1p1023;
	/* Scaled, the small ones would vanish. */
	const double x[3][2] = { { big, big }, { 0x1p-1070, 0x1p-1069 },
				 { -big, -big } };
	const struct view v = { "", 2, { 3, 2 }, { 2, 1 }, 0, 6 };
	struct kilni_reduce_params p = params(&v, KILNI_OP_MEAN, KILN_F64, 2);
	struct result r;
	int level;

	p.in = (uint64_t)(uintptr_t)x;
	FOR_EACH_LEVEL(level) {
		r = call(level, p, NULL, 0);
		ck_assert(element(KILN_F64, r.out, 0).f == big);
		ck_assert(element(KILN_F64, r.out, 1).f == 0x1.8p-1070L);
		ck_assert(element(KILN_F64, r.out, 2).f == -big);
		drop(&r);
	}
}
END_TEST

/* One rounding from the sum to the type, also among subnormals. */
START_TEST(test_half_rounding)
{
	static const struct {
		uint16_t x[4];
		uint16_t want;
	} f16[] = {
		{ { 0x6800, 0x3c00, 0, 0 }, 0x6800 },       /* 2048 + 1 */
		{ { 0x6800, 0x4200, 0, 0 }, 0x6802 },       /* 2048 + 3 */
		{ { 0x6800, 0x3c00, 0x0001, 0 }, 0x6801 },  /* + 2^-24 */
		{ { 0x7bff, 0x4bff, 0, 0 }, 0x7bff },       /* below 65520 */
		{ { 0x7bff, 0x4c00, 0, 0 }, 0x7c00 },       /* 65520 */
		{ { 0x0001, 0x0001, 0x0001, 0 }, 0x0003 },
		{ { 0x83ff, 0x8001, 0, 0 }, 0x8400 },
		{ { 0x3c00, 0xbc00, 0, 0 }, 0x0000 },
		{ { 0x8000, 0x8000, 0x8000, 0x8000 }, 0x0000 },
	};
	struct result r;
	unsigned i;
	int level;

	FOR_EACH_LEVEL(level)
		for (i = 0; i < sizeof(f16) / sizeof(f16[0]); i++) {
			r = reduce_vector(level, KILNI_OP_SUM, KILN_F16,
					  f16[i].x, 4, NULL, 0);
			ck_assert_uint_eq(element(KILN_F16, r.out, 0).u,
					  f16[i].want);
			drop(&r);
		}
}
END_TEST

/* Every f16 value is read right: its mean with itself is itself. */
START_TEST(test_every_f16)
{
	uint16_t *x = malloc(65536 * sizeof(uint16_t));
	const struct view v = { "", 2, { 2, 65536 }, { 0, 1 }, 0, 65536 };
	struct kilni_reduce_params p = params(&v, KILNI_OP_MEAN, KILN_F16, 1);
	struct result r;
	unsigned i;
	int level;

	for (i = 0; i < 65536; i++)
		x[i] = (uint16_t)i;
	p.in = (uint64_t)(uintptr_t)x;
	FOR_EACH_LEVEL(level) {
		r = call(level, p, NULL, 0);
		for (i = 0; i < 65536; i++) {
			const struct number got = element(KILN_F16, r.out, i);

			if (isnan(small_float(i, 5, 10)))
				EXPECT(isnan(got.f));
			else
				EXPECT(got.f == small_float(i, 5, 10));
		}
		drop(&r);
	}
	free(x);
}
END_TEST

/* ---- Integers ---- */

START_TEST(test_integers)
{
	const int8_t b[4] = { 127, 127, 127, -128 };
	const uint64_t u[2] = { 1ull << 63, (1ull << 63) - 2 };
	const int64_t t[2] = { -7, 0 };
	uint8_t wide[400] = { 0 };
	struct result r;
	int level;

	wide[299] = 200;
	wide[350] = 200;
	FOR_EACH_LEVEL(level) {
		r = reduce_vector(level, KILNI_OP_SUM, KILN_I8, b, 4, NULL, 0);
		ck_assert_int_eq((int8_t)r.out[0], -3);
		drop(&r);
		r = reduce_vector(level, KILNI_OP_MEAN, KILN_I8, b, 4, NULL,
				  0);
		ck_assert_int_eq((int8_t)r.out[0], 63);
		drop(&r);
		r = reduce_vector(level, KILNI_OP_MAX_ABS, KILN_I8, b + 3, 1,
				  NULL, 0);
		ck_assert_int_eq((int8_t)r.out[0], -128);
		drop(&r);
		r = reduce_vector(level, KILNI_OP_MAX_ABS, KILN_I8, b, 4, NULL,
				  0);
		ck_assert_int_eq((int8_t)r.out[0], 127);
		drop(&r);
		r = reduce_vector(level, KILNI_OP_MEAN, KILN_U64, u, 2, NULL,
				  0);
		ck_assert_uint_eq(element(KILN_U64, r.out, 0).u,
				  (1ull << 63) - 1);
		drop(&r);
		r = reduce_vector(level, KILNI_OP_MEAN, KILN_I64, t, 2, NULL,
				  0);
		ck_assert_int_eq((int64_t)element(KILN_I64, r.out, 0).u, -3);
		drop(&r);
		ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX, KILN_U8, wide,
					 400), 299);
	}
}
END_TEST

/* ---- The same bits for any width (P25) ---- */

static void check_widths(int level, unsigned op, const float *x, uint64_t n)
{
	static const unsigned widths[] = { 2, 3, 7, 16 };
	struct gang gang = { .team = { 1, run_threads } };
	struct result one, r;
	unsigned i;

	one = reduce_vector(level, op, KILN_F32, x, n, &gang.team, is_arg(op));
	for (i = 0; i < 4; i++) {
		gang.team.width = widths[i];
		r = reduce_vector(level, op, KILN_F32, x, n, &gang.team,
				  is_arg(op));
		assert_same(&one, &r);
		drop(&r);
	}
	drop(&one);
}

START_TEST(test_widths)
{
	const uint64_t n = 10000019;
	float *x = malloc(n * sizeof(float));
	long double sum = 0, sum_abs = 0, got;
	uint64_t i;
	int level;

	ck_assert_ptr_nonnull(x);
	for (i = 0; i < n; i++) {
		x[i] = (float)sin((double)i);
		sum += x[i];
		sum_abs += fabsl((long double)x[i]);
	}
	FOR_EACH_LEVEL(level) {
		got = value_of(level, KILNI_OP_SUM, KILN_F32, x, n);
		ck_assert(fabsl(got - sum) <= 1e-6L * sum_abs);
		check_widths(level, KILNI_OP_SUM, x, n);
		check_widths(level, KILNI_OP_MEAN, x, n);
		check_widths(level, KILNI_OP_ARGMAX, x, n);
		check_widths(level, KILNI_OP_PROD, x, 1000000);
	}
	free(x);
}
END_TEST

/* Columns, rows and a middle axis, cut among threads. */
START_TEST(test_widths_of_views)
{
	static const unsigned widths[] = { 1, 2, 3, 7 };
	const struct view v = { "", 3, { 40, 90, 300 }, { 27000, 300, 1 }, 0,
				1080000 };
	static const unsigned axes[] = { 1, 2, 4, 7, 3, 6, 5 };
	struct gang gang = { .team = { 1, run_threads } };
	float *x = malloc(v.elements * sizeof(float));
	struct kilni_reduce_params p;
	struct result one, r;
	unsigned i, k;
	int level;

	for (i = 0; i < v.elements; i++)
		x[i] = (float)(random_bits() >> 40) * 0x1p-20f - 7;
	FOR_EACH_LEVEL(level)
		for (i = 0; i < 7; i++) {
			p = params(&v, KILNI_OP_SUM, KILN_F32, axes[i]);
			p.in = (uint64_t)(uintptr_t)x;
			one = call(level, p, NULL, 0);
			for (k = 0; k < 4; k++) {
				gang.team.width = widths[k];
				r = call(level, p, &gang.team, 0);
				assert_same(&one, &r);
				drop(&r);
			}
			drop(&one);
		}
	free(x);
}
END_TEST

START_TEST(test_workspace_is_pure)
{
	const struct view v = { "", 2, { 100000, 8 }, { 8, 1 }, 0, 800000 };
	struct kilni_reduce_params p = params(&v, KILNI_OP_MAX, KILN_F32, 1);
	uint64_t blank = kilni_cpu_reduce_workspace(&p);

	ck_assert_uint_gt(blank, 0);
	p.in = p.out = p.index = p.report = 4096;
	ck_assert_uint_eq(kilni_cpu_reduce_workspace(&p), blank);
	p.shape[0] = 3;
	ck_assert_uint_eq(kilni_cpu_reduce_workspace(&p), 0);
}
END_TEST

/* The last chunk may be as short as a row that is searched directly. */
START_TEST(test_short_last_chunk)
{
	uint64_t n;
	int8_t *x = calloc(557076, 1);
	int level;

	FOR_EACH_LEVEL(level)
		for (n = 557050; n <= 557076; n += 13) {
			x[n - 1] = 1;
			ck_assert_uint_eq(arg_of(level, KILNI_OP_ARGMAX,
						 KILN_I8, x, n), n - 1);
			x[n - 1] = 0;
		}
	free(x);
}
END_TEST

/* A single column that improves late, at either end of a block of rows. */
START_TEST(test_late_column)
{
	static const unsigned rows[] = { 1, 126, 127, 128, 255, 256, 298, 299 };
	const struct view v = { "", 2, { 300, 64 }, { 64, 1 }, 0, 19200 };
	struct kilni_reduce_params p = params(&v, KILNI_OP_ARGMAX, KILN_F32,
					      1);
	float *x = calloc(19200, sizeof(float));
	struct result r;
	unsigned i, j;
	int level;

	p.in = (uint64_t)(uintptr_t)x;
	FOR_EACH_LEVEL(level)
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			x[rows[i] * 64 + 41] = 1;
			r = call(level, p, NULL, 1);
			for (j = 0; j < 64; j++)
				ck_assert_uint_eq(
					element(KILN_I64, r.index, j).u,
					j == 41 ? rows[i] : 0);
			drop(&r);
			x[rows[i] * 64 + 41] = 0;
		}
	free(x);
}
END_TEST

/* ---- How CUDA cuts ---- */

static void check_cut(uint64_t outputs, uint64_t length, bool rows)
{
	struct kilni_reduce_params p = {
		.in = 4096, .op = KILNI_OP_SUM, .axes = 2, .dtype = KILN_F32,
		.out_dtype = KILN_F32, .rank = 2, .shape = { outputs, length },
		.stride = { rows ? (int64_t)length : 1,
			    rows ? 1 : (int64_t)outputs },
	};
	struct kilni_cuda_reduce r;

	kilni_cuda_plan_reduce(&p, &r);
	EXPECT_EQ(r.outputs, outputs);
	EXPECT(r.chunks >= 1 && r.chunks <= 65535);
	EXPECT(r.chunks * r.chunk >= length);
	EXPECT((r.chunks - 1) * r.chunk < length);
	/* Places in a chunk are counted in 32 bits. */
	EXPECT(r.chunk <= UINT64_C(3) << 30);
	EXPECT(r.lanes && r.lanes <= 256 && !(r.lanes & (r.lanes - 1)));
	EXPECT(r.finish_lanes && r.finish_lanes <= 256 &&
	       !(r.finish_lanes & (r.finish_lanes - 1)));
	EXPECT(kilni_cuda_finish_blocks(&r) * (256 / r.finish_lanes) >=
	       outputs);
	if (r.chunks > 1)
		EXPECT(kilni_cuda_reduce_workspace(&p) >=
		       outputs * r.chunks * sizeof(uint64_t));
}

START_TEST(test_cuda_cuts)
{
	static const uint64_t sizes[] = { 1, 2, 31, 256, 4097, 1 << 20,
					  (UINT64_C(1) << 32) + 5,
					  UINT64_C(1) << 40 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			check_cut(sizes[i], sizes[j], true);
			check_cut(sizes[i], sizes[j], false);
		}
}
END_TEST

static Suite *reduce_suite(void)
{
	Suite *suite = suite_create("reduce_kernel");
	TCase *views_case = tcase_create("views");
	TCase *corners = tcase_create("corners");
	TCase *threads = tcase_create("threads");
	int level;

	FOR_EACH_LEVEL(level)
		fprintf(stderr, "level %s\n", level_names[level]);
	tcase_set_timeout(views_case, 120);
	tcase_add_loop_test(views_case, test_views, 0, (int)VIEW_COUNT);
	tcase_add_loop_test(views_case, test_large, 0,
			    (int)(sizeof(large) / sizeof(large[0])));
	tcase_add_test(corners, test_empty_axis);
	tcase_add_test(corners, test_empty_mean);
	tcase_add_test(corners, test_empty_out);
	tcase_add_test(corners, test_nan);
	tcase_add_test(corners, test_ties);
	tcase_add_test(corners, test_late_column);
	tcase_set_timeout(corners, 120);
	tcase_add_test(corners, test_narrow_sums);
	tcase_add_test(corners, test_mean_does_not_overflow);
	tcase_add_test(corners, test_mean_rows);
	tcase_add_test(corners, test_half_rounding);
	tcase_add_test(corners, test_every_f16);
	tcase_add_test(corners, test_integers);
	tcase_set_timeout(threads, 120);
	tcase_add_test(threads, test_widths);
	tcase_add_test(threads, test_widths_of_views);
	tcase_add_test(threads, test_short_last_chunk);
	tcase_add_test(threads, test_workspace_is_pure);
	tcase_add_test(threads, test_cuda_cuts);
	suite_add_tcase(suite, views_case);
	suite_add_tcase(suite, corners);
	suite_add_tcase(suite, threads);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(reduce_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
