/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <math.h>
#include <stdio.h>

#include "kernels/registry.h"
#include "sanitized.h"

/*
 * The same bits: at every level of the instruction set, for any number of
 * workers, run after run. And the statistics of random numbers.
 */

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct kiln_device *dev;

static void teardown(void)
{
	kiln_device_release(dev);
	dev = NULL;
}

/* ---- what a run gave ---- */

#define RESULTS_MAX 2048

struct results {
	int count;
	struct result {
		char what[48];
		uint64_t hash;
	} of[RESULTS_MAX];
};

static struct results reference, again, *results;

static uint64_t hash_bytes(const unsigned char *data, size_t bytes)
{
	uint64_t hash = 14695981039346656037u, word;

	/* Words, for a sanitizer's sake. A product moves no bit down. */
	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		word = 0;
		memcpy(&word, data + i, bytes - i < 8 ? bytes - i : 8);
		hash = (hash ^ word) * 1099511628211u;
		hash ^= hash >> 32;
	}
	return hash;
}

static void note(const char *op, enum kiln_dtype dtype, struct kiln_tensor *t)
{
	size_t bytes = kiln_tensor_size_bytes(t);
	struct result *result = &results->of[results->count++];
	unsigned char *data = malloc(bytes ? bytes : 1);

	ck_assert_int_le(results->count, RESULTS_MAX);
	OK(kiln_tensor_read(t, data, bytes));
	snprintf(result->what, sizeof(result->what), "%s of %s", op,
		 kiln_dtype_name(dtype));
	result->hash = hash_bytes(data, bytes);
	free(data);
}

static void expect_the_same(const char *where)
{
	int wrong = 0;

	ck_assert_int_eq(again.count, reference.count);
	for (int i = 0; i < again.count; i++) {
		if (again.of[i].hash == reference.of[i].hash)
			continue;
		wrong++;
		fprintf(stderr, "%s: %s differs\n", where, again.of[i].what);
	}
	ck_assert_int_eq(wrong, 0);
}

/* ---- inputs ---- */

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 11;
}

/* In -8..8, with every kind of special value strewn in. */
static double value_at(int64_t i, uint64_t *state)
{
	static const double special[] = { 0, -0.0, NAN, INFINITY, -INFINITY,
					  1e-40, -1e-40, 88, -104, 13.24,
					  65504, 1e38, 0.5, -2.5, 1e6, -1e9 };
	double uniform = (double)next_random(state) * 0x1p-53;

	if (i % 61 == 60)
		return special[i / 61 % COUNT(special)];
	return 16 * uniform - 8;
}

/* Odd, so that vectors have tails; large, so that workers share it. */
#define LENGTH 70003

static struct kiln_tensor *input(enum kiln_dtype dtype, uint64_t seed,
				 int64_t count)
{
	double *data = malloc((size_t)count * sizeof(double));
	struct kiln_tensor *t;

	for (int64_t i = 0; i < count; i++)
		data[i] = value_at(i + (int64_t)seed, &seed);
	t = make(dev, KILN_F64, 1, &count, data);
	OK(kiln_cast(&t, t, dtype));
	free(data);
	return t;
}

static bool is_class(enum kiln_dtype dtype, unsigned classes)
{
	return classes >> kiln_dtype_class(dtype) & 1;
}

/* ---- elementwise ---- */

static void note_unary(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

#define KILNI_EW1(ID, name, classes, ulp, doc)                                 \
	if (is_class(dtype, KILNI_CLASSES_##classes)) {                        \
		OK(kiln_##name(&y, x));                                        \
		note(#name, dtype, y);                                         \
	}
#define KILNI_PRED(ID, name, classes, doc)                                     \
	if (is_class(dtype, KILNI_CLASSES_##classes)) {                        \
		OK(kiln_##name(&y, x, KILN_BOOL));                             \
		note(#name, dtype, y);                                         \
	}
#include "kernels/ops.def"
	kiln_tensor_release(y);
}

static void note_compare(enum kiln_dtype dtype, struct kiln_tensor *x,
			 struct kiln_tensor *w)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

#define KILNI_CMP(ID, name, classes, doc)                                      \
	if (is_class(dtype, KILNI_CLASSES_##classes)) {                        \
		OK(kiln_##name(&y, x, w, KILN_BOOL));                          \
		note(#name, dtype, y);                                         \
	}
#include "kernels/ops.def"
	kiln_tensor_release(y);
}

typedef enum kiln_status binary(struct kiln_tensor **, struct kiln_tensor *,
				struct kiln_tensor *);

static const struct {
	enum kilni_op op;
	binary *call;
} binaries[] = {
	{ KILNI_OP_ADD, kiln_add },
	{ KILNI_OP_SUB, kiln_sub },
	{ KILNI_OP_MUL, kiln_mul },
	{ KILNI_OP_DIV, kiln_div },
	{ KILNI_OP_REMAINDER, kiln_remainder },
	{ KILNI_OP_POWF, kiln_powf },
	{ KILNI_OP_BITWISE_AND, kiln_bitwise_and },
	{ KILNI_OP_BITWISE_OR, kiln_bitwise_or },
	{ KILNI_OP_BITWISE_XOR, kiln_bitwise_xor },
	{ KILNI_OP_BITWISE_LEFT_SHIFT, kiln_bitwise_left_shift },
	{ KILNI_OP_BITWISE_RIGHT_SHIFT, kiln_bitwise_right_shift },
	{ KILNI_OP_LOGICAL_AND, kiln_logical_and },
	{ KILNI_OP_LOGICAL_OR, kiln_logical_or },
	{ KILNI_OP_LOGICAL_XOR, kiln_logical_xor },
	{ KILNI_OP_RELU_BACKWARD, kiln_relu_backward },
	{ KILNI_OP_SIGMOID_BACKWARD, kiln_sigmoid_backward },
	{ KILNI_OP_GELU_BACKWARD, kiln_gelu_backward },
	{ KILNI_OP_LOG_SIGMOID_BACKWARD, kiln_log_sigmoid_backward },
};

static void note_binary(enum kiln_dtype dtype, struct kiln_tensor *x,
			struct kiln_tensor *w)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < COUNT(binaries); i++) {
		const struct kilni_op_info *op = &kilni_ops[binaries[i].op];

		if (!is_class(dtype, op->classes))
			continue;
		OK(binaries[i].call(&y, x, w));
		note(op->name, dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_scalars(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	if (!is_class(dtype, KILNI_CLASSES_N))
		return;
	OK(kiln_add_scalar(&y, x, kiln_int(3)));
	note("add_scalar", dtype, y);
	OK(kiln_powi_scalar(&y, x, kiln_int(3)));
	note("powi_scalar", dtype, y);
	OK(kiln_clamp(&y, x, kiln_int(1), kiln_int(5)));
	note("clamp", dtype, y);
	if (is_class(dtype, KILNI_CLASSES_F)) {
		OK(kiln_powf_scalar(&y, x, kiln_float(0.3)));
		note("powf_scalar", dtype, y);
		OK(kiln_leaky_relu(&y, x, kiln_float(0.01)));
		note("leaky_relu", dtype, y);
		OK(kiln_hard_sigmoid(&y, x, kiln_float(0.2), kiln_float(0.5)));
		note("hard_sigmoid", dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_casts(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int to = 0; to < KILN_DTYPE_COUNT; to++) {
		char what[32];

		snprintf(what, sizeof(what), "cast to %s",
			 kiln_dtype_name((enum kiln_dtype)to));
		OK(kiln_cast(&y, x, (enum kiln_dtype)to));
		note(what, dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_choice(enum kiln_dtype dtype, struct kiln_tensor *x,
			struct kiln_tensor *w)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE, *mask = KILN_TENSOR_NONE;

	OK(kiln_not_equal(&mask, x, w, KILN_BOOL));
	OK(kiln_mask_where(&y, x, mask, w));
	note("mask_where", dtype, y);
	OK(kiln_mask_fill(&y, x, mask, kiln_bool(true)));
	note("mask_fill", dtype, y);
	kiln_tensor_release(y);
	kiln_tensor_release(mask);
}

/* Views: columns, backwards, broadcast. */
static void note_strided(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE, *v = KILN_TENSOR_NONE;
	struct kiln_slice some[2] = { { 0, KILN_SLICE_END, -1 },
				      { 1, KILN_SLICE_END, 3 } };
	const struct kiln_slice most = { 0, 70000, 1 };

	OK(kiln_slice(&v, x, 1, &most));
	OK(kiln_reshape(&v, v, 2, SHAPE(700, 100)));
	OK(kiln_slice(&v, v, 2, some));
	OK(kiln_equal(&y, v, v, KILN_BOOL));
	note("equal of views", dtype, y);
	OK(kiln_transpose(&v, v));
	OK(kiln_cast(&y, v, KILN_F32));
	note("cast of views", dtype, y);
	OK(kiln_sin(&y, y));
	note("sin of views", dtype, y);
	kiln_tensor_release(y);
	kiln_tensor_release(v);
}

/* ---- index ---- */

/* Indices in 0..bound-1 with repeats. */
static struct kiln_tensor *indices(int64_t count, int bound)
{
	int32_t *data = malloc((size_t)count * sizeof(*data));
	uint64_t state = 5;
	struct kiln_tensor *t;

	for (int64_t i = 0; i < count; i++)
		data[i] = (int32_t)(next_random(&state) % (uint64_t)bound);
	t = make(dev, KILN_I32, 1, &count, data);
	free(data);
	return t;
}

static void note_updates(enum kiln_dtype dtype, struct kiln_tensor *x,
			 struct kiln_tensor *at, struct kiln_tensor *value)
{
	static const enum kiln_update updates[] = { KILN_UPDATE_ASSIGN,
						    KILN_UPDATE_ADD,
						    KILN_UPDATE_MUL,
						    KILN_UPDATE_MIN,
						    KILN_UPDATE_MAX };
	int count = is_class(dtype, KILNI_CLASSES_B) ? 3 : COUNT(updates);
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < count; i++) {
		OK(kiln_scatter(&y, x, 0, at, value, updates[i]));
		note("scatter", dtype, y);
		OK(kiln_select_assign(&y, x, 0, at, value, updates[i]));
		note("select_assign", dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_index(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *at = indices(LENGTH, 997);
	struct kiln_tensor *y = KILN_TENSOR_NONE, *base = KILN_TENSOR_NONE;
	const struct kiln_slice some = { 3, 1000, 1 };

	OK(kiln_gather(&y, x, 0, at));
	note("gather", dtype, y);
	OK(kiln_select(&y, x, 0, at));
	note("select", dtype, y);
	OK(kiln_slice(&base, x, 1, &some));
	note_updates(dtype, base, at, x);
	OK(kiln_slice_assign(&y, x, 1, &some, base));
	note("slice_assign", dtype, y);
	OK(kiln_cat(&y, 2, (struct kiln_tensor *const[]){ x, base }, 0));
	note("cat", dtype, y);
	kiln_tensor_release(y);
	kiln_tensor_release(at);
	kiln_tensor_release(base);
}

static void note_random(void)
{
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F64, KILN_F16,
						  KILN_BF16, KILN_I64, KILN_I32,
						  KILN_I8, KILN_U8 };
	static const struct kiln_distribution draws[] = {
		{ KILN_RANDOM_DEFAULT, 0, 0 },
		{ KILN_RANDOM_UNIFORM, 3, 50 },
		{ KILN_RANDOM_NORMAL, 1, 20 },
		{ KILN_RANDOM_BERNOULLI, 0.3, 0 },
	};
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	const int64_t length = LENGTH;

	OK(kiln_device_seed(dev, 42));
	for (int i = 0; i < COUNT(dtypes); i++) {
		for (int d = 0; d < COUNT(draws); d++) {
			OK(kiln_random(&y, dev, dtypes[i], 1, &length,
				       draws[d]));
			note("random", dtypes[i], y);
		}
	}
	kiln_tensor_release(y);
}

static void note_elementwise_and_index(void)
{
	for (int i = 0; i < KILN_DTYPE_COUNT; i++) {
		enum kiln_dtype dtype = (enum kiln_dtype)i;
		struct kiln_tensor *x = input(dtype, 1, LENGTH);
		struct kiln_tensor *w = input(dtype, 2, LENGTH);

		note_unary(dtype, x);
		note_compare(dtype, x, w);
		note_binary(dtype, x, w);
		note_scalars(dtype, x);
		note_casts(dtype, x);
		note_choice(dtype, x, w);
		note_strided(dtype, x);
		note_index(dtype, x);
		kiln_tensor_release(x);
		kiln_tensor_release(w);
	}
	note_random();
}

/* ---- sums and products ---- */

static void note_reductions(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

#define ONE(name)                                                              \
	OK(kiln_##name(&y, x));                                                \
	note(#name, dtype, y);                                                 \
	for (int d = 0; d < kiln_tensor_rank(x); d++) {                        \
		OK(kiln_##name##_dim(&y, x, d));                               \
		note(#name "_dim", dtype, y);                                  \
	}
	ONE(sum)
	ONE(mean)
	ONE(prod)
	ONE(max)
	ONE(min)
	ONE(max_abs)
#undef ONE
	for (int d = 0; d < kiln_tensor_rank(x); d++) {
		OK(kiln_argmax(&y, x, d, KILN_I32));
		note("argmax", dtype, y);
		OK(kiln_argmin(&y, x, d, KILN_I32));
		note("argmin", dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_softmax(enum kiln_dtype dtype, struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int d = 0; d < kiln_tensor_rank(x); d++) {
		OK(kiln_softmax(&y, x, d));
		note("softmax", dtype, y);
		OK(kiln_log_softmax(&y, x, d));
		note("log_softmax", dtype, y);
	}
	kiln_tensor_release(y);
}

static void note_products(enum kiln_dtype dtype)
{
	static const int64_t sizes[][3] = {
		{ 1, 4099, 3 }, { 131, 257, 65 }, { 7, 20011, 9 },
		{ 300, 1, 300 }, { 1, 300, 700 },
	};
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < COUNT(sizes); i++) {
		const int64_t m = sizes[i][0], k = sizes[i][1];
		const int64_t n = sizes[i][2];
		struct kiln_tensor *x = KILN_TENSOR_NONE;
		struct kiln_tensor *w = KILN_TENSOR_NONE;
		const struct kiln_distribution unit = { KILN_RANDOM_UNIFORM,
							-3, 4 };

		OK(kiln_random(&x, dev, dtype, 2, SHAPE(m, k), unit));
		OK(kiln_random(&w, dev, dtype, 2, SHAPE(n, k), unit));
		OK(kiln_transpose(&w, w));
		OK(kiln_matmul(&y, x, w));
		note("matmul", dtype, y);
		kiln_tensor_release(x);
		kiln_tensor_release(w);
	}
	kiln_tensor_release(y);
}

static void note_sums_and_products(void)
{
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F64, KILN_F16,
						  KILN_BF16, KILN_I32,
						  KILN_I64 };
	const struct kiln_distribution normal = { KILN_RANDOM_NORMAL, 0, 3 };

	OK(kiln_device_seed(dev, 7));
	for (int i = 0; i < COUNT(dtypes); i++) {
		struct kiln_tensor *x = KILN_TENSOR_NONE;

		OK(kiln_random(&x, dev, dtypes[i], 2, SHAPE(271, 1009),
			       normal));
		note_reductions(dtypes[i], x);
		if (is_class(dtypes[i], KILNI_CLASSES_F))
			note_softmax(dtypes[i], x);
		kiln_tensor_release(x);
		note_products(dtypes[i]);
	}
}

/* ---- instruction sets ---- */

/* Opens the device at the level; false where the CPU has not got it. */
static bool open_level(const char *level)
{
	setenv("KILN_CPU_ISA", level, 1);
	teardown();
	return kiln_device_open(&dev, tested_selector()) == KILN_OK &&
	       strstr(kiln_device_describe(dev), level) != NULL;
}

START_TEST(levels_agree)
{
	static const char *const better[] = { "avx2", "avx512" };

	results = &reference;
	ck_assert(open_level("baseline"));
	note_elementwise_and_index();
	for (int i = 0; i < COUNT(better); i++) {
		again.count = 0;
		results = &again;
		if (!open_level(better[i])) {
			fprintf(stderr, "%s: not here\n", better[i]);
			continue;
		}
		note_elementwise_and_index();
		expect_the_same(better[i]);
	}
}
END_TEST

/* ---- workers ---- */

static const char *const worker_counts[] = { "1", "2", "3", "7", "16" };

static void open_workers(const char *count)
{
	setenv("KILN_CPU_WORKERS", count, 1);
	teardown();
	dev = open_tested();
	ck_assert_uint_eq(kiln_device_workers(dev), (unsigned)atoi(count));
}

static void compare_workers(void (*run)(void), int runs)
{
	for (int i = 0; i < COUNT(worker_counts); i += SANITIZED ? 2 : 1) {
		open_workers(worker_counts[i]);
		for (int r = 0; r < runs; r++) {
			results = i || r ? &again : &reference;
			results->count = 0;
			run();
			if (i || r)
				expect_the_same(worker_counts[i]);
		}
	}
}

START_TEST(workers_agree_on_elements)
{
	compare_workers(note_elementwise_and_index, 1);
}
END_TEST

START_TEST(workers_agree_on_sums_and_products)
{
	compare_workers(note_sums_and_products, SANITIZED ? 1 : 3);
}
END_TEST

/* A sanitizer sees a race in a few runs; the values are for other builds. */
#define SINES (SANITIZED ? 1000003 : 10000019)
#define SUMS (SANITIZED ? 3 : 10)

/* sin(i), the sum of all in double precision and that of their sizes. */
static float *sines(double *sum, double *size)
{
	float *x = malloc(SINES * sizeof(float));

	*sum = *size = 0;
	for (int i = 0; i < SINES; i++) {
		x[i] = sinf((float)i);
		*sum += (double)x[i];
		*size += fabs((double)x[i]);
	}
	return x;
}

static float sum_of(float *x)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	float sum;

	OK(kiln_tensor_from_foreign(&t, dev, KILN_F32, 1, SHAPE(SINES), x,
				    KILN_FOREIGN_READ_ONLY, NULL, NULL));
	OK(kiln_sum(&y, t));
	OK(kiln_tensor_read(y, &sum, sizeof(sum)));
	kiln_tensor_release(t);
	kiln_tensor_release(y);
	return sum;
}

START_TEST(long_sum)
{
	double want, size;
	float *x = sines(&want, &size), first = 0;

	for (int i = 0; i < COUNT(worker_counts); i++) {
		open_workers(worker_counts[i]);
		for (int r = 0; r < SUMS; r++) {
			float sum = sum_of(x);

			if (!i && !r)
				first = sum;
			ck_assert(!memcmp(&sum, &first, sizeof(sum)));
		}
	}
	ck_assert_double_le(fabs((double)first - want), 1e-6 * size);
	free(x);
}
END_TEST

/* ---- random numbers ---- */

#define DRAWS (SANITIZED ? 100000 : 1000000)

static double *draw(enum kiln_dtype dtype, enum kiln_distribution_kind kind,
		    double a, double b)
{
	const struct kiln_distribution distribution = { kind, a, b };
	double *data = malloc(DRAWS * sizeof(double));
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_random(&t, dev, dtype, 1, SHAPE(DRAWS), distribution));
	OK(kiln_cast(&t, t, KILN_F64));
	OK(kiln_tensor_read(t, data, DRAWS * sizeof(double)));
	kiln_tensor_release(t);
	return data;
}

/*
 * Mean and variance are within 5 standard errors; fourth is the fourth central
 * moment.
 */
static void check_moments(double *data, double mean, double variance,
			  double fourth, const char *what)
{
	double m = 0, v = 0;

	for (int i = 0; i < DRAWS; i++)
		m += data[i] / DRAWS;
	for (int i = 0; i < DRAWS; i++)
		v += (data[i] - mean) * (data[i] - mean) / DRAWS;
	ck_assert_msg(fabs(m - mean) <= 5 * sqrt(variance / DRAWS),
		      "%s: mean %.9g", what, m);
	ck_assert_msg(fabs(v - variance) <=
			      5 * sqrt((fourth - variance * variance) / DRAWS),
		      "%s: variance %.9g", what, v);
	free(data);
}

static void check_range(const double *data, double low, double below,
			const char *what)
{
	for (int i = 0; i < DRAWS; i++)
		if (!(data[i] >= low && data[i] < below))
			ck_abort_msg("%s: %.17g is not in [%.17g, %.17g)",
				     what, data[i], low, below);
}

static const enum kiln_dtype floats[] = { KILN_F32, KILN_F64, KILN_F16,
					  KILN_BF16 };
static const enum kiln_dtype ints[] = { KILN_I64, KILN_I32, KILN_I16, KILN_I8,
					KILN_U64, KILN_U32, KILN_U16, KILN_U8 };

static void start_random(void)
{
	dev = open_tested();
	OK(kiln_device_seed(dev, 2024));
}

START_TEST(uniform_floats)
{
	for (int i = 0; i < COUNT(floats); i++) {
		const char *name = kiln_dtype_name(floats[i]);
		double *x = draw(floats[i], KILN_RANDOM_UNIFORM, -2, 6);

		check_range(x, -2, 6, name);
		if (floats[i] != KILN_BF16)
			check_moments(x, 2, 64.0 / 12, 4096.0 / 80, name);
		else
			free(x);
		x = draw(floats[i], KILN_RANDOM_DEFAULT, 0, 0);
		check_range(x, 0, 1, name);
		free(x);
	}
}
END_TEST

/* Few values fit between the bounds, and rounding must not reach the upper. */
START_TEST(narrow_ranges)
{
	static const double epsilon[] = { 0x1p-23, 0x1p-52, 0x1p-10, 0x1p-7 };

	for (int i = 0; i < COUNT(floats); i++) {
		double top = 1 + 3 * epsilon[i];
		double *x = draw(floats[i], KILN_RANDOM_UNIFORM, 1, top);

		check_range(x, 1, top, kiln_dtype_name(floats[i]));
		free(x);
		x = draw(floats[i], KILN_RANDOM_UNIFORM, -1, 0);
		check_range(x, -1, 0, kiln_dtype_name(floats[i]));
		free(x);
	}
}
END_TEST

START_TEST(uniform_ints)
{
	for (int i = 0; i < COUNT(ints); i++) {
		const char *name = kiln_dtype_name(ints[i]);
		double *x = draw(ints[i], KILN_RANDOM_UNIFORM, 3, 13);
		double most = ints[i] == KILN_I8 ? 127 : 255;

		/* The moments of 3, 4, ..., 12. */
		check_range(x, 3, 13, name);
		check_moments(x, 7.5, 8.25, 120.8625, name);
		x = draw(ints[i], KILN_RANDOM_DEFAULT, 0, 0);
		check_range(x, 0, most, name);
		free(x);
	}
}
END_TEST

START_TEST(normal_floats)
{
	for (int i = 0; i < COUNT(floats); i++) {
		double *x = draw(floats[i], KILN_RANDOM_NORMAL, 1.5, 2);

		check_range(x, -20, 20, "normal");
		if (floats[i] != KILN_BF16)
			check_moments(x, 1.5, 4, 48,
				      kiln_dtype_name(floats[i]));
		else
			free(x);
	}
}
END_TEST

START_TEST(bernoulli)
{
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F16, KILN_I32,
						  KILN_U8, KILN_BOOL };
	const double p = 0.3, q = 1 - p;

	for (int i = 0; i < COUNT(dtypes); i++) {
		double *x = draw(dtypes[i], KILN_RANDOM_BERNOULLI, p, 0);

		check_range(x, 0, 2, "bernoulli");
		check_moments(x, p, p * q, p * q * (1 - 3 * p * q),
			      kiln_dtype_name(dtypes[i]));
		x = draw(dtypes[i], KILN_RANDOM_BERNOULLI, 0, 0);
		check_range(x, 0, 1, "never");
		free(x);
		x = draw(dtypes[i], KILN_RANDOM_BERNOULLI, 1, 0);
		check_range(x, 1, 2, "always");
		free(x);
	}
}
END_TEST

START_TEST(seeds_and_calls_differ)
{
	double *x, *y;
	int same = 0;

	OK(kiln_device_seed(dev, 1));
	x = draw(KILN_F64, KILN_RANDOM_DEFAULT, 0, 0);
	y = draw(KILN_F64, KILN_RANDOM_DEFAULT, 0, 0);
	for (int i = 0; i < DRAWS; i++)
		same += x[i] == y[i];
	ck_assert_int_eq(same, 0);
	free(y);
	OK(kiln_device_seed(dev, 2));
	y = draw(KILN_F64, KILN_RANDOM_DEFAULT, 0, 0);
	for (int i = 0; i < DRAWS; i++)
		same += x[i] == y[i];
	ck_assert_int_eq(same, 0);
	free(y);
	OK(kiln_device_seed(dev, 1));
	y = draw(KILN_F64, KILN_RANDOM_DEFAULT, 0, 0);
	ck_assert(!memcmp(x, y, DRAWS * sizeof(double)));
	free(x);
	free(y);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("repeatable");
	TCase *same = tcase_create("same"), *random = tcase_create("random");

	tcase_add_checked_fixture(same, NULL, teardown);
	tcase_set_timeout(same, 300);
	tcase_add_test(same, levels_agree);
	tcase_add_test(same, workers_agree_on_elements);
	tcase_add_test(same, workers_agree_on_sums_and_products);
	tcase_add_test(same, long_sum);
	suite_add_tcase(suite, same);
	tcase_add_checked_fixture(random, start_random, teardown);
	tcase_set_timeout(random, 60);
	tcase_add_test(random, uniform_floats);
	tcase_add_test(random, narrow_ranges);
	tcase_add_test(random, uniform_ints);
	tcase_add_test(random, normal_floats);
	tcase_add_test(random, bernoulli);
	tcase_add_test(random, seeds_and_calls_differ);
	suite_add_tcase(suite, random);
	return run_suite(suite);
}
