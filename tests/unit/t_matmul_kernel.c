/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/matmul.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/dtype.h>

#include "sanitized.h"

/* The CPU's matrix product, every level that this CPU runs, by itself. */

static const char *const level_names[KILNI_ISA_COUNT] = {
#define NAME_(ID, name, suffix) name,
	KILNI_ISA_TABLE(NAME_)
#undef NAME_
};

/* True where the level is compiled in and this CPU has it. */
static int level_runs(int level)
{
	if (!kilni_cpu_kernels[level] || !kilni_cpu_kernels[level]->matmul)
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

/* Teams: the caller alone, in reverse order, and threads made for each run. */

static void run_backwards(struct kilni_team *team,
			  void (*fn)(void *arg, uint64_t i), void *arg,
			  uint64_t count)
{
	(void)team;
	while (count)
		fn(arg, --count);
}

struct gang_run {
	void (*fn)(void *arg, uint64_t i);
	void *arg;
	uint64_t count;
	uint64_t next;
};

static void *gang_member(void *arg)
{
	struct gang_run *run = arg;
	uint64_t i;

	for (;;) {
		i = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
		if (i >= run->count)
			return NULL;
		run->fn(run->arg, i);
	}
}

#define GANG_MOST 7

static void run_on_threads(struct kilni_team *team,
			   void (*fn)(void *arg, uint64_t i), void *arg,
			   uint64_t count)
{
	struct gang_run run = { fn, arg, count, 0 };
	pthread_t thread[GANG_MOST];
	unsigned i;

	for (i = 0; i + 1 < team->width; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, gang_member,
						&run), 0);
	gang_member(&run);
	for (i = 0; i + 1 < team->width; i++)
		pthread_join(thread[i], NULL);
}

/* Check writes a file at each of its assertions, too slow for thousands. */
static void require(int truth, const char *what)
{
	if (!truth)
		ck_abort_msg("%s", what);
}

/* Numbers: the same each time. */

static uint64_t draw_state;

static uint64_t draw(void)
{
	draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
	return draw_state >> 33;
}

static uint16_t half_of(enum kiln_dtype dtype, double x)
{
	float f = (float)x;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (dtype == KILN_BF16)
		return (uint16_t)(bits >> 16);
	/* Multiples of 1/64 below 2: normal and exact. */
	if (f == 0.0f)
		return 0;
	return (uint16_t)((bits >> 16 & 0x8000) |
			  (((bits & 0x7fffffff) - 0x38000000) >> 13));
}

static double half_value(enum kiln_dtype dtype, uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float f;

	if (dtype == KILN_F16) {
		double x = (half & 0x3ff) + (half & 0x7c00 ? 1024 : 0);
		int exponent = (half >> 10 & 31) ? (half >> 10 & 31) : 1;

		x = ldexp(x, exponent - 25);
		return half & 0x8000 ? -x : x;
	}
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static int is_float(enum kiln_dtype dtype)
{
	return dtype <= KILN_BF16;
}

static size_t size_of(enum kiln_dtype dtype)
{
	static const uint8_t bytes[] = {
#define BYTES(id, value, name, bytes, cls) bytes,
		KILN_DTYPE_TABLE(BYTES)
#undef BYTES
	};

	return bytes[dtype];
}

static void put_random(enum kiln_dtype dtype, char *to)
{
	/* Eighths for bf16, which keeps 8 bits. */
	double x = ((double)(draw() % 127) - 63) / 64;
	uint64_t bits = draw() << 32 ^ draw();
	uint16_t half;
	float f;

	switch (dtype) {
	case KILN_F64:
		x += (double)draw() * 0x1p-40;
		memcpy(to, &x, 8);
		break;
	case KILN_F32:
	case KILN_FLEX32:
		f = (float)(x + (double)draw() * 0x1p-40);
		memcpy(to, &f, 4);
		break;
	case KILN_F16:
	case KILN_BF16:
		half = half_of(dtype, x);
		memcpy(to, &half, 2);
		break;
	default:
		memcpy(to, &bits, size_of(dtype));
		break;
	}
}

static long double value_of(enum kiln_dtype dtype, const char *from)
{
	uint16_t half;
	double x;
	float f;

	switch (dtype) {
	case KILN_F64:
		memcpy(&x, from, 8);
		return x;
	case KILN_F32:
	case KILN_FLEX32:
		memcpy(&f, from, 4);
		return f;
	default:
		memcpy(&half, from, 2);
		return half_value(dtype, half);
	}
}

static uint64_t bits_of(enum kiln_dtype dtype, const char *from)
{
	uint64_t bits = 0;

	memcpy(&bits, from, size_of(dtype));
	return bits;
}

/* Unit in the last place of 1. */
static long double epsilon_of(enum kiln_dtype dtype)
{
	switch (dtype) {
	case KILN_F64:
		return 0x1p-52L;
	case KILN_F16:
		return 0x1p-10L;
	case KILN_BF16:
		return 0x1p-7L;
	default:
		return 0x1p-23L;
	}
}

/* A product to try: the parameters and the memory behind them. */
struct trial {
	struct kilni_matmul_params p;
	enum kiln_dtype dtype;
	uint64_t batches;
	char *a_memory, *b_memory, *workspace;
	char *a, *b, *c, *c_other;
	size_t c_bytes;
};

/* First and last element that strides reach from 0. */
static void reach(const uint64_t *shape, const int64_t *stride, uint32_t rank,
		  int64_t *low, int64_t *high)
{
	uint32_t i;

	*low = 0;
	*high = 0;
	for (i = 0; i < rank; i++) {
		int64_t far;

		if (!shape[i])
			continue;
		far = (int64_t)(shape[i] - 1) * stride[i];
		*(far < 0 ? low : high) += far;
	}
}

/* Memory with random elements; at points to element 0. */
static char *operand(enum kiln_dtype dtype, const struct kilni_matmul_params *p,
		     int is_a, char **at)
{
	uint64_t shape[KILNI_RANK_MAX + 2];
	int64_t stride[KILNI_RANK_MAX + 2];
	size_t size = size_of(dtype);
	int64_t low, high, i;
	char *memory;

	shape[0] = is_a ? p->m : p->k;
	shape[1] = is_a ? p->k : p->n;
	stride[0] = is_a ? p->a_row : p->b_row;
	stride[1] = is_a ? p->a_col : p->b_col;
	memcpy(shape + 2, p->batch_shape, sizeof(p->batch_shape));
	memcpy(stride + 2, is_a ? p->a_batch : p->b_batch, sizeof(p->a_batch));
	reach(shape, stride, p->batch_rank + 2, &low, &high);
	/* Exactly as much as is used, so that a sanitizer sees what is not. */
	memory = malloc((size_t)(high - low + 1) * size);
	require(memory != NULL, "no memory");
	for (i = 0; i <= high - low; i++)
		put_random(dtype, memory + (size_t)i * size);
	*at = memory - low * (int64_t)size;
	return memory;
}

static void begin(struct trial *t, enum kiln_dtype dtype)
{
	struct kilni_matmul_params *p = &t->p;
	uint32_t i;

	t->dtype = dtype;
	p->dtype = dtype;
	t->batches = 1;
	for (i = 0; i < p->batch_rank; i++)
		t->batches *= p->batch_shape[i];
	t->c_bytes = t->batches * p->m * p->n * size_of(dtype);
	t->a_memory = operand(dtype, p, 1, &t->a);
	t->b_memory = operand(dtype, p, 0, &t->b);
	t->c = malloc(t->c_bytes + 1);
	t->c_other = malloc(t->c_bytes + 1);
	p->workspace_bytes = kilni_cpu_matmul_workspace(p);
	t->workspace = malloc(p->workspace_bytes + 1);
	require(t->c && t->c_other && t->workspace, "no memory");
	t->c[t->c_bytes] = 42;
	t->c_other[t->c_bytes] = 42;
	t->workspace[p->workspace_bytes] = 42;
	p->a = (uintptr_t)t->a;
	p->b = (uintptr_t)t->b;
	p->workspace = (uintptr_t)t->workspace;
}

static void end(struct trial *t)
{
	require(t->c[t->c_bytes] == 42 && t->c_other[t->c_bytes] == 42 &&
		t->workspace[t->p.workspace_bytes] == 42, "written too far");
	free(t->a_memory);
	free(t->b_memory);
	free(t->c);
	free(t->c_other);
	free(t->workspace);
}

static void run_level(struct trial *t, int level, struct kilni_team *team,
		      char *c)
{
	memset(c, 0xa5, t->c_bytes);
	/* Garbage, where small products find it. */
	memset(t->workspace, 0xff, t->p.workspace_bytes < 65536 ?
					   t->p.workspace_bytes : 65536);
	t->p.c = (uintptr_t)c;
	kilni_cpu_kernels[level]->matmul(&t->p, team);
}

static void batch_offset(const struct kilni_matmul_params *p, uint64_t batch,
			 int64_t *a, int64_t *b)
{
	uint32_t i;

	*a = 0;
	*b = 0;
	for (i = p->batch_rank; i-- > 0; batch /= p->batch_shape[i]) {
		int64_t at = (int64_t)(batch % p->batch_shape[i]);

		*a += at * p->a_batch[i];
		*b += at * p->b_batch[i];
	}
}

static int float_is_near(const struct trial *t, const char *a, const char *b,
			 const char *c)
{
	const struct kilni_matmul_params *p = &t->p;
	size_t size = size_of(t->dtype);
	long double sum = 0, sizes = 0, x, bound;
	int64_t k;

	for (k = 0; k < (int64_t)p->k; k++) {
		x = value_of(t->dtype, a + k * p->a_col * (int64_t)size) *
		    value_of(t->dtype, b + k * p->b_row * (int64_t)size);
		sum += x;
		sizes += fabsl(x);
	}
	bound = 8 * sqrtl((long double)p->k) * sizes *
		(t->dtype == KILN_F64 ? 0x1p-53L : 0x1p-24L) +
		fabsl(sum) * epsilon_of(t->dtype);
	/* Small sums of halves may be denormal. */
	if (t->dtype == KILN_F16)
		bound += 0x1p-25L;
	return fabsl(value_of(t->dtype, c) - sum) <= bound;
}

static int integer_is_equal(const struct trial *t, const char *a,
			    const char *b, const char *c)
{
	const struct kilni_matmul_params *p = &t->p;
	int64_t size = (int64_t)size_of(t->dtype);
	uint64_t mask = size == 8 ? UINT64_MAX : (1ull << 8 * size) - 1;
	uint64_t sum = 0;
	int64_t k;

	for (k = 0; k < (int64_t)p->k; k++)
		sum += bits_of(t->dtype, a + k * p->a_col * size) *
		       bits_of(t->dtype, b + k * p->b_row * size);
	return bits_of(t->dtype, c) == (sum & mask);
}

/* Compares elements of C with the definition: all, or every step-th. */
static void check_result(const struct trial *t, const char *c, uint64_t step,
			 const char *level)
{
	const struct kilni_matmul_params *p = &t->p;
	int64_t size = (int64_t)size_of(t->dtype);
	uint64_t count = t->batches * p->m * p->n;
	int (*is_right)(const struct trial *t, const char *a, const char *b,
			const char *c) =
		is_float(t->dtype) ? float_is_near : integer_is_equal;
	uint64_t e;

	for (e = 0; e < count; e += step) {
		int64_t i = (int64_t)(e / p->n % p->m);
		int64_t j = (int64_t)(e % p->n);
		int64_t a, b;

		batch_offset(p, e / p->n / p->m, &a, &b);
		if (is_right(t, t->a + (a + i * p->a_row) * size,
			     t->b + (b + j * p->b_col) * size,
			     c + (int64_t)e * size))
			continue;
		ck_abort_msg("%s: dtype %d, %llu x %llu x %llu: element %llu",
			     level, (int)t->dtype, (unsigned long long)p->m,
			     (unsigned long long)p->n, (unsigned long long)p->k,
			     (unsigned long long)e);
	}
}

/* All levels and widths of team. */
static void try_product(const struct kilni_matmul_params *p,
			enum kiln_dtype dtype, uint64_t step)
{
	static const unsigned widths[] = { 1, 2, 3, 7 };
	struct kilni_team team = { 1, run_backwards };
	struct trial t = { .p = *p };
	size_t w;
	int l;

	begin(&t, dtype);
	for (l = 0; l < KILNI_ISA_COUNT; l++) {
		if (!level_runs(l))
			continue;
		team.width = 1;
		run_level(&t, l, &team, t.c);
		check_result(&t, t.c, step, level_names[l]);
		for (w = 1; w < sizeof(widths) / sizeof(widths[0]); w++) {
			team.width = widths[w];
			run_level(&t, l, &team, t.c_other);
			if (memcmp(t.c, t.c_other, t.c_bytes))
				ck_abort_msg("%s: width %u differs",
					     level_names[l], widths[w]);
		}
	}
	end(&t);
}

enum layout { PLAIN, A_TURNED, B_TURNED, BOTH_TURNED, APART, BACKWARDS,
	      A_ROW_STILL, B_STILL, LAYOUTS };

static void lay_out(struct kilni_matmul_params *p, enum layout layout)
{
	int64_t m = (int64_t)p->m, n = (int64_t)p->n, k = (int64_t)p->k;

	p->a_row = layout == A_TURNED || layout == BOTH_TURNED ? 1 : k;
	p->a_col = layout == A_TURNED || layout == BOTH_TURNED ? m : 1;
	p->b_row = layout == B_TURNED || layout == BOTH_TURNED ? 1 : n;
	p->b_col = layout == B_TURNED || layout == BOTH_TURNED ? k : 1;
	if (layout == APART) {
		p->a_col = 3;
		p->a_row = 3 * k + 1;
		p->b_col = 2;
		p->b_row = 2 * n + 5;
	} else if (layout == BACKWARDS) {
		p->a_row = -k;
		p->b_row = -n;
		p->b_col = -1;
	} else if (layout == A_ROW_STILL) {
		p->a_row = 0;
	} else if (layout == B_STILL) {
		p->b_row = 0;
		p->b_col = 0;
	}
}

static const uint16_t shapes[][3] = {
	/* m, n, k */
	{ 1, 1, 1 },    { 1, 1, 37 },    { 5, 1, 19 },   { 1, 7, 3 },
	{ 2, 2, 2 },    { 3, 5, 7 },     { 6, 16, 4 },   { 7, 17, 5 },
	{ 13, 33, 9 },  { 14, 32, 64 },  { 15, 31, 65 }, { 19, 10, 130 },
	{ 64, 10, 70 }, { 40, 70, 1 },   { 29, 65, 33 }, { 90, 1, 40 },
	{ 1, 90, 40 },  { 200, 3, 11 },  { 2, 150, 23 }, { 77, 1, 1 },
};

START_TEST(test_shapes)
{
	struct kilni_matmul_params p;
	size_t s;
	int layout;

	if (_i >= KILN_BOOL)
		return;
	for (s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		for (layout = 0; layout < LAYOUTS; layout++) {
			memset(&p, 0, sizeof(p));
			p.m = shapes[s][0];
			p.n = shapes[s][1];
			p.k = shapes[s][2];
			lay_out(&p, (enum layout)layout);
			try_product(&p, (enum kiln_dtype)_i, 1);
		}
	}
}
END_TEST

/*
 * The thread sanitizer has races to find, in test_threads: of what runs on one
 * thread alone and takes a minute there it sees a part.
 */
#define FEW KILNI_TSAN

/* Blocks of k, rows and columns, and the parts that are packed at a time. */
static const uint16_t large[][4] = {
	/* m, n, k, layouts from the first on */
	{ 300, 200, 500, 3 },  { 41, 23, 3000, 3 },   { 1100, 17, 770, 2 },
	{ 17, 1100, 385, 4 },  { 30, 40, 9000, 1 },   { 1030, 1030, 20, 1 },
	{ 3000, 1, 300, 4 },   { 1, 700, 1030, 4 },  { 3, 1, 5000, 2 },
};

START_TEST(test_large)
{
	static const enum kiln_dtype dtypes[] = { KILN_F64, KILN_F32, KILN_F16,
						  KILN_BF16, KILN_I64,
						  KILN_U8 };
	struct kilni_matmul_params p;
	size_t d;
	int layout;

	for (d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d += FEW ? 3 : 1) {
		for (layout = 0; layout < (FEW ? 1 : large[_i][3]); layout++) {
			memset(&p, 0, sizeof(p));
			p.m = large[_i][0];
			p.n = large[_i][1];
			p.k = large[_i][2];
			lay_out(&p, (enum layout)layout);
			try_product(&p, dtypes[d],
				    1 + p.m * p.n * p.k / 100000);
		}
	}
}
END_TEST

/* More than is packed at a time in each direction. */
START_TEST(test_huge)
{
	static const uint16_t sizes[][3] = {
		{ 4200, 70, 300 }, { 150, 4200, 900 }, { 600, 40, 27000 },
	};
	struct kilni_matmul_params p = { 0 };

	p.m = sizes[_i][0];
	p.n = sizes[_i][1];
	p.k = sizes[_i][2];
	lay_out(&p, PLAIN);
	p.a_row = _i == 2 ? 5 : p.a_row;
	try_product(&p, KILN_F32, 1 + p.m * p.n * p.k / 100000);
	if (_i != 2)
		return;
	/* Sums of a narrow kind wait from part to part. */
	p.n = 11;
	p.m = 1030;
	p.k = 4500;
	lay_out(&p, PLAIN);
	try_product(&p, KILN_I16, 97);
	try_product(&p, KILN_BF16, 97);
}
END_TEST

struct batch_case {
	uint64_t m, n, k;
	uint32_t rank;
	uint64_t shape[3];
	int a_moves[3], b_moves[3];
};

static const struct batch_case batch_cases[] = {
	{ 3, 4, 5, 1, { 50 }, { 1 }, { 1 } },
	{ 3, 4, 5, 1, { 50 }, { 1 }, { 0 } },
	{ 3, 4, 5, 1, { 50 }, { 0 }, { 1 } },
	{ 3, 4, 5, 1, { 9 }, { 0 }, { 0 } },
	{ 1, 4, 5, 1, { 9 }, { 1 }, { 0 } },
	{ 1, 40, 25, 2, { 3, 9 }, { 1, 1 }, { 0, 1 } },
	{ 33, 1, 25, 2, { 3, 9 }, { 0, 1 }, { 1, 1 } },
	{ 20, 30, 40, 3, { 2, 1, 3 }, { 1, 1, 1 }, { 1, 0, 0 } },
	{ 20, 30, 40, 3, { 2, 4, 3 }, { 0, 1, 0 }, { 1, 0, 1 } },
	{ 20, 30, 40, 3, { 2, 4, 3 }, { 1, 1, 1 }, { 0, 0, 0 } },
	{ 70, 90, 450, 2, { 2, 3 }, { 1, 1 }, { 1, 0 } },
	{ 5, 6, 0, 2, { 2, 3 }, { 1, 1 }, { 1, 0 } },
	{ 5, 6, 2, 2, { 2, 0 }, { 1, 1 }, { 1, 0 } },
};

static void batch_strides(int64_t *stride, const int *moves,
			  const struct batch_case *b, int64_t size)
{
	uint32_t i;

	for (i = b->rank; i-- > 0;) {
		stride[i] = moves[i] ? size : 0;
		if (moves[i])
			size *= (int64_t)b->shape[i];
	}
}

START_TEST(test_batches)
{
	const struct batch_case *b = &batch_cases[_i];
	static const enum kiln_dtype dtypes[] = { KILN_F64, KILN_FLEX32,
						  KILN_F16, KILN_BF16,
						  KILN_I32, KILN_I8 };
	struct kilni_matmul_params p = { 0 };
	size_t d;
	int gap;

	p.m = b->m;
	p.n = b->n;
	p.k = b->k;
	p.batch_rank = b->rank;
	memcpy(p.batch_shape, b->shape, sizeof(b->shape));
	for (d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
		for (gap = 0; gap < 2; gap++) {
			lay_out(&p, gap ? B_TURNED : PLAIN);
			batch_strides(p.a_batch, b->a_moves, b,
				      (int64_t)(b->m * b->k) + 7 * gap);
			batch_strides(p.b_batch, b->b_moves, b,
				      (int64_t)(b->n * b->k) + 3 * gap);
			try_product(&p, dtypes[d],
				    1 + b->m * b->n * b->k / 20000);
		}
	}
}
END_TEST

START_TEST(test_empty)
{
	static const uint64_t huge = 1ull << 62;
	struct kilni_team team = { 2, run_backwards };
	struct kilni_matmul_params p = { 0 };
	float c[6];
	int l, i;

	for (l = 0; l < KILNI_ISA_COUNT; l++) {
		if (!level_runs(l))
			continue;
		memset(&p, 0, sizeof(p));
		p.dtype = KILN_F32;
		p.n = huge;
		p.k = huge;
		ck_assert_uint_eq(kilni_cpu_matmul_workspace(&p), 0);
		kilni_cpu_kernels[l]->matmul(&p, &team);
		p.m = huge;
		p.n = 0;
		ck_assert_uint_eq(kilni_cpu_matmul_workspace(&p), 0);
		kilni_cpu_kernels[l]->matmul(&p, &team);
		p.m = 2;
		p.n = 3;
		p.k = 0;
		p.c = (uintptr_t)c;
		memset(c, 0xff, sizeof(c));
		kilni_cpu_kernels[l]->matmul(&p, &team);
		for (i = 0; i < 6; i++)
			ck_assert(c[i] == 0 && !signbit(c[i]));
	}
}
END_TEST

/* However large the product, the workspace stays small. */
START_TEST(test_workspace)
{
	struct kilni_matmul_params p = { 0 };
	int dtype;

	for (dtype = 0; dtype < KILN_BOOL; dtype++) {
		p.dtype = (uint32_t)dtype;
		p.m = 1ull << 62;
		p.n = 1ull << 62;
		p.k = 1ull << 62;
		ck_assert_uint_le(kilni_cpu_matmul_workspace(&p), 40u << 20);
		p.m = 64;
		ck_assert_uint_le(kilni_cpu_matmul_workspace(&p), 40u << 20);
		p.n = 1;
		ck_assert_uint_eq(kilni_cpu_matmul_workspace(&p), 0);
	}
}
END_TEST

/* Real threads, more than once, give the bits of the caller alone. */
START_TEST(test_threads)
{
	static const uint16_t sizes[][3] = {
		{ 64, 128, 784 }, { 784, 128, 64 }, { 500, 300, 400 },
		{ 3000, 1, 200 }, { 100, 128, 10 },
	};
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F16,
						  KILN_BF16 };
	struct kilni_team alone = { 1, run_backwards };
	struct kilni_team gang = { 1, run_on_threads };
	struct trial t;
	int l, round;
	size_t d;

	for (d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
		memset(&t, 0, sizeof(t));
		t.p.m = sizes[_i][0];
		t.p.n = sizes[_i][1];
		t.p.k = sizes[_i][2];
		lay_out(&t.p, _i == 1 ? A_TURNED : PLAIN);
		begin(&t, dtypes[d]);
		for (l = 0; l < KILNI_ISA_COUNT; l++) {
			if (!level_runs(l))
				continue;
			run_level(&t, l, &alone, t.c);
			for (round = 0; round < 6; round++) {
				gang.width = 2 + (unsigned)round;
				run_level(&t, l, &gang, t.c_other);
				ck_assert_mem_eq(t.c, t.c_other, t.c_bytes);
			}
		}
		end(&t);
	}
}
END_TEST

/* NaN, infinities and f16's range go through as in the definition. */
START_TEST(test_special)
{
	/* 60000 * 2, 2^-24, inf * 1, inf * 0, -0 */
	static const uint16_t a[] = { 0x7b53, 0x0001, 0x7c00, 0x7c00, 0x8000 };
	static const uint16_t b[] = { 0x4000, 0x3c00, 0x3c00, 0x0000, 0x3c00 };
	static const uint16_t want[] = { 0x7c00, 0x0001, 0x7c00, 0x7e00, 0 };
	struct kilni_team team = { 1, run_backwards };
	struct kilni_matmul_params p = { 0 };
	uint16_t left[10], right[20], c[4];
	char work[65536];
	int l, i;

	p.m = p.n = 2;
	p.k = 1;
	p.a_row = p.a_col = p.b_row = p.b_col = 1;
	p.dtype = KILN_F16;
	p.workspace_bytes = kilni_cpu_matmul_workspace(&p);
	ck_assert_uint_le(p.workspace_bytes, sizeof(work));
	p.workspace = (uintptr_t)work;
	p.a = (uintptr_t)left;
	p.b = (uintptr_t)right;
	p.c = (uintptr_t)c;
	for (l = 0; l < KILNI_ISA_COUNT; l++) {
		if (!level_runs(l))
			continue;
		for (i = 0; i < 5; i++) {
			left[0] = left[1] = a[i];
			right[0] = right[1] = b[i];
			kilni_cpu_kernels[l]->matmul(&p, &team);
			ck_assert_uint_eq(i == 3 ? c[3] & 0x7e00 :
					  i == 4 ? c[3] & 0x7fff : c[3],
					  want[i]);
		}
	}
}
END_TEST

/* The same of bf16, in a product that is large enough for tiles. */
START_TEST(test_special_bf16)
{
	enum { SIDE = 70, K = 130, ONE = 0x3f80, NEGATIVE_INFINITY = 0xff80,
	       A_NAN = 0xffc1, LONELY_NAN = 0x7f81 };
	struct kilni_team team = { 1, run_backwards };
	struct trial t = { .p = { .m = SIDE, .n = SIDE, .k = K } };
	uint16_t *a;
	int l, i;

	lay_out(&t.p, PLAIN);
	begin(&t, KILN_BF16);
	a = (uint16_t *)(void *)t.a;
	for (i = 0; i < SIDE * K; i++) {
		a[i] = ONE;
		((uint16_t *)(void *)t.b)[i] = ONE;
	}
	a[3 * K + 129] = NEGATIVE_INFINITY;
	a[40 * K] = A_NAN;
	a[69 * K + 64] = LONELY_NAN;
	for (l = 0; l < KILNI_ISA_COUNT; l++) {
		if (!level_runs(l))
			continue;
		run_level(&t, l, &team, t.c);
		for (i = 0; i < SIDE * SIDE; i++) {
			double x = (double)value_of(KILN_BF16, t.c + 2 * i);
			int row = i / SIDE;

			require(row == 3 ? isinf(x) && x < 0 :
				row == 40 || row == 69 ? isnan(x) : x == K,
				level_names[l]);
		}
	}
	end(&t);
}
END_TEST

/*
 * A subnormal element, and normal ones whose products are subnormal:
 * 2^-130 times 2^124 once, and 130 times 2^-70 times 2^-60.
 */
START_TEST(test_subnormal_bf16)
{
	enum { SIDE = 70, K = 130 };
	static const uint16_t left[] = { 0x0008, 0x1c80 };
	static const uint16_t right[] = { 0x7d80, 0x2180 };
	static const double want[] = { 0x1p-6, 130 * 0x1p-130 };
	struct kilni_team team = { 1, run_backwards };
	struct trial t = { .p = { .m = SIDE, .n = SIDE, .k = K } };
	int l, i;

	lay_out(&t.p, PLAIN);
	begin(&t, KILN_BF16);
	for (i = 0; i < SIDE * K; i++) {
		((uint16_t *)(void *)t.a)[i] = _i || i % K == 5 ? left[_i] : 0;
		((uint16_t *)(void *)t.b)[i] = right[_i];
	}
	for (l = 0; l < KILNI_ISA_COUNT; l++) {
		if (!level_runs(l))
			continue;
		run_level(&t, l, &team, t.c);
		for (i = 0; i < SIDE * SIDE; i++)
			require((double)value_of(KILN_BF16, t.c + 2 * i) ==
					want[_i],
				level_names[l]);
	}
	end(&t);
}
END_TEST

static Suite *matmul_suite(void)
{
	Suite *suite = suite_create("matmul_kernel");
	TCase *tests = tcase_create("cpu");

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, test_shapes, 0, KILN_BOOL);
	tcase_add_loop_test(tests, test_large, 0,
			    (int)(sizeof(large) / sizeof(large[0])));
	tcase_add_loop_test(tests, test_huge, 0, FEW ? 1 : 3);
	tcase_add_loop_test(tests, test_batches, 0,
			    (int)(sizeof(batch_cases) /
				  sizeof(batch_cases[0])));
	tcase_add_test(tests, test_empty);
	tcase_add_test(tests, test_workspace);
	tcase_add_loop_test(tests, test_threads, 0, 5);
	tcase_add_test(tests, test_special);
	tcase_add_test(tests, test_special_bf16);
	tcase_add_loop_test(tests, test_subnormal_bf16, 0, 2);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(matmul_suite());
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
