/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <math.h>

#include "sanitized.h"

/*
 * Sizes and places at which devices change their ways: products of several
 * large tiles, aligned or not, softmax of rows of any length, copies and
 * elementwise work that vectors do not fit. Products and copies are of small
 * whole numbers, so that every dtype has the exact result.
 */

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_tested();
}

static void teardown(void)
{
	kiln_device_release(dev);
}

static uint32_t noise_state;

static uint32_t noise(void)
{
	noise_state = noise_state * 1664525u + 1013904223u;
	return noise_state >> 16;
}

/* -1, 0 and 1. */
static float *small_numbers(int64_t count)
{
	float *x = malloc((size_t)count * sizeof(*x));

	for (int64_t i = 0; i < count; i++)
		x[i] = (float)(noise() % 3) - 1;
	return x;
}

/* The numbers as a tensor of the dtype that begins skip elements later. */
static struct kiln_tensor *matrix_of(const float *x, enum kiln_dtype dtype,
				     int64_t rows, int64_t columns,
				     int64_t skip)
{
	int64_t count = skip + rows * columns;
	float *padded = calloc((size_t)count, sizeof(*padded));
	struct kiln_slice rest = { .start = skip, .end = count, .step = 1 };
	struct kiln_tensor *t;

	memcpy(padded + skip, x, (size_t)(rows * columns) * sizeof(*x));
	t = make(dev, KILN_F32, 1, &count, padded);
	OK(kiln_cast(&t, t, dtype));
	OK(kiln_slice(&t, t, 1, &rest));
	OK(kiln_reshape(&t, t, 2, SHAPE(rows, columns)));
	free(padded);
	return t;
}

static float *floats_of(struct kiln_tensor *t)
{
	int64_t count = kiln_tensor_count(t);
	float *x = malloc((size_t)count * sizeof(*x));
	struct kiln_tensor *wide = KILN_TENSOR_NONE;

	OK(kiln_cast(&wide, t, KILN_F32));
	OK(kiln_tensor_read(wide, x, (size_t)count * sizeof(*x)));
	kiln_tensor_release(wide);
	return x;
}

/* ---- products ---- */

/* Tiles of 128 by 128 enough for a large device, the last ones cut. */
#define M 1412
#define N 1540
#define K 44

static const enum kiln_dtype floats[] = { KILN_F32, KILN_F16, KILN_BF16,
					  KILN_F64 };

/* Element i, k of a matrix that lies in rows, or in columns. */
static float at(const float *x, int64_t i, int64_t k, int64_t rows,
		int64_t columns, bool turned)
{
	return turned ? x[k * rows + i] : x[i * columns + k];
}

/* Random places, and the last corner. */
static void check_product(const float *c, const float *a, const float *b,
			  bool a_turned, bool b_turned)
{
	for (int s = 0; s < 4000; s++) {
		int64_t i = s ? noise() % M : M - 1;
		int64_t j = s ? noise() % N : N - 1;
		double sum = 0;

		for (int64_t k = 0; k < K; k++)
			sum += at(a, i, k, M, K, a_turned) *
			       at(b, k, j, K, N, b_turned);
		ck_assert_msg(c[i * N + j] == (float)sum,
			      "element %d, %d: %g in place of %g", (int)i,
			      (int)j, (double)c[i * N + j], sum);
	}
}

static void multiply(enum kiln_dtype dtype, bool a_turned, bool b_turned,
		     int64_t skip)
{
	float *a = small_numbers(M * K), *b = small_numbers(K * N), *c;
	struct kiln_tensor *x, *y, *z = KILN_TENSOR_NONE;

	x = matrix_of(a, dtype, a_turned ? K : M, a_turned ? M : K, skip);
	y = matrix_of(b, dtype, b_turned ? N : K, b_turned ? K : N, 0);
	if (a_turned)
		OK(kiln_transpose(&x, x));
	if (b_turned)
		OK(kiln_transpose(&y, y));
	OK(kiln_matmul(&z, x, y));
	c = floats_of(z);
	check_product(c, a, b, a_turned, b_turned);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	free(a);
	free(b);
	free(c);
}

START_TEST(products_of_large_tiles)
{
	enum kiln_dtype dtype = floats[_i / 5];

	noise_state = (uint32_t)_i;
	if (IS_SLOW && _i % 5)
		return;
	/* The four ways to lie, and once not aligned. */
	multiply(dtype, _i % 5 & 1, _i % 5 >> 1 & 1, _i % 5 == 4);
}
END_TEST

/* ---- softmax ---- */

static const int64_t lengths[] = { 1,    2,    31,   33,    129,   512,
				   513,  1023, 1024, 1028,  2049,  4096,
				   8191, 8192, 8196, 20011, 32768, 32769 };

/* Of each dtype; f64 comes back as f32. Small results have it of least. */
static const double tolerance[] = { 1e-6, 1e-3, 1e-2, 1e-6 };

static void check_row(const float *have, const float *x, int64_t length,
		      bool is_log, double most_off)
{
	double most = -INFINITY, sum = 0, least = is_log ? 1 : 1e-4, want, off;

	for (int64_t i = 0; i < length; i++)
		most = fmax(most, (double)x[i]);
	for (int64_t i = 0; i < length; i++)
		sum += exp((double)x[i] - most);
	for (int64_t i = 0; i < length; i++) {
		want = (double)x[i] - most - log(sum);
		if (!is_log)
			want = exp(want);
		off = fabs((double)have[i] - want);
		if (!(off <= most_off * fmax(fabs(want), least)))
			ck_abort_msg("element %d of %d: %g in place of %g",
				     (int)i, (int)length, (double)have[i],
				     want);
	}
}

static void softmax(enum kiln_dtype dtype, int64_t length, int64_t skip,
		    bool is_log, double most_off)
{
	const int64_t rows = length < 100 ? 37 : 3;
	float *x = malloc((size_t)(rows * length) * sizeof(*x)), *have;
	struct kiln_tensor *t, *y = KILN_TENSOR_NONE;

	/* Quarters are exact in every dtype. */
	for (int64_t i = 0; i < rows * length; i++)
		x[i] = (float)(noise() % 33) / 4 - 4;
	t = matrix_of(x, dtype, rows, length, skip);
	OK(is_log ? kiln_log_softmax(&y, t, 1) : kiln_softmax(&y, t, 1));
	have = floats_of(y);
	for (int64_t r = 0; r < rows; r++)
		check_row(have + r * length, x + r * length, length, is_log,
			  most_off);
	/* In place. */
	OK(is_log ? kiln_log_softmax(&t, t, 1) : kiln_softmax(&t, t, 1));
	free(have);
	have = floats_of(t);
	check_row(have, x, length, is_log, most_off);
	kiln_tensor_release(t);
	kiln_tensor_release(y);
	free(have);
	free(x);
}

START_TEST(softmax_of_any_length)
{
	enum kiln_dtype dtype = floats[_i];
	double most_off = tolerance[_i];

	noise_state = (uint32_t)_i;
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		softmax(dtype, lengths[k], 0, false, most_off);
		softmax(dtype, lengths[k], 0, true, most_off);
		softmax(dtype, lengths[k], 1, k & 1, most_off);
	}
}
END_TEST

/* ---- elementwise ---- */

/* Fewer than a vector, tails of one, and beyond what a block takes. */
static const int64_t counts[] = { 1, 3, 4, 5, 15, 16, 17, 511, 4097, 70001 };

static void add_and_copy(enum kiln_dtype dtype, int64_t count, int64_t skip)
{
	float *a = small_numbers(count), *b = small_numbers(count), *have;
	struct kiln_tensor *x = matrix_of(a, dtype, 1, count, skip);
	struct kiln_tensor *y = matrix_of(b, dtype, 1, count, 0);
	struct kiln_tensor *z = KILN_TENSOR_NONE, *copy = KILN_TENSOR_NONE;

	OK(kiln_add(&z, x, y));
	have = floats_of(z);
	for (int64_t i = 0; i < count; i++)
		if (have[i] != a[i] + b[i])
			ck_abort_msg("sum %d of %d differs", (int)i,
				     (int)count);
	free(have);
	OK(kiln_empty(&copy, dev, dtype, 2, SHAPE(1, count)));
	OK(kiln_copy_into(copy, x));
	have = floats_of(copy);
	ck_assert_int_eq(memcmp(have, a, (size_t)count * sizeof(*a)), 0);
	free(have);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_tensor_release(copy);
	free(a);
	free(b);
}

START_TEST(elements_that_fit_no_vector)
{
	static const enum kiln_dtype dtypes[] = { KILN_F64, KILN_F32, KILN_F16,
						  KILN_BF16, KILN_I64,
						  KILN_I32, KILN_I16, KILN_I8 };

	noise_state = (uint32_t)_i;
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		for (int64_t skip = 0; skip < 2; skip++)
			add_and_copy(dtypes[_i], counts[k], skip);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shapes");
	TCase *tcase = tcase_create("any device");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, products_of_large_tiles, 0, 20);
	tcase_add_loop_test(tcase, softmax_of_any_length, 0, 4);
	tcase_add_loop_test(tcase, elements_that_fit_no_vector, 0, 8);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
