/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <math.h>

#include "kernels/registry.h"

/*
 * Values at the edges: empty axes, NaN, division by zero, narrow sums, casts
 * out of range, the tails of functions, repeated indices. What is expected was
 * worked out by hand or comes from the C library in double precision.
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

/*
 * Where the device need not keep denormals of f32, elements that are or become
 * such a number are left out, or may have lost one on their way.
 */
static bool keeps_denormals(void)
{
	return kiln_device_dtype_usage(dev, KILN_F32) & KILN_USAGE_DENORMALS;
}

/* Vector bodies and tails both. */
static const int64_t lengths[] = { 1, 3, 17, 1000 };

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void expect_shape(const struct kiln_tensor *t, int rank,
			 const int64_t *shape)
{
	ck_assert_int_eq(kiln_tensor_rank(t), rank);
	for (int d = 0; d < rank; d++)
		ck_assert_int_eq(kiln_tensor_shape(t)[d], shape[d]);
}

#define EXPECT_SHAPE(t, ...)                                                   \
	expect_shape(t, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static struct kiln_tensor *cast(struct kiln_tensor *t, enum kiln_dtype dtype)
{
	struct kiln_tensor *out = KILN_TENSOR_NONE;

	OK(kiln_cast(&out, t, dtype));
	return out;
}

/* The one element of a tensor, in double precision. */
static double only(struct kiln_tensor *t)
{
	struct kiln_tensor *wide = cast(t, KILN_F64);
	double value;

	OK(kiln_tensor_read(wide, &value, sizeof(value)));
	kiln_tensor_release(wide);
	return value;
}

/* count elements that repeat the list of size bytes each. */
static struct kiln_tensor *tiled(enum kiln_dtype dtype, const void *list,
				 int listed, int64_t count)
{
	size_t size = kiln_dtype_size_bytes(dtype);
	char *data = malloc((size_t)count * size);
	struct kiln_tensor *t;

	for (int64_t i = 0; i < count; i++)
		memcpy(data + (size_t)i * size,
		       (const char *)list + (size_t)(i % listed) * size, size);
	t = make(dev, dtype, 1, &count, data);
	free(data);
	return t;
}

/* ---- reductions over nothing ---- */

typedef enum kiln_status reduce_dim(struct kiln_tensor **,
				    struct kiln_tensor *, int);

START_TEST(sums_of_nothing)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(2, 0)));
	OK(kiln_sum_dim(&y, x, 1));
	EXPECT_SHAPE(y, 2, 1);
	EXPECT_FLOATS(y, 0, 0);
	OK(kiln_prod_dim(&y, x, 1));
	EXPECT_FLOATS(y, 1, 1);
	OK(kiln_any_dim(&y, x, 1, KILN_BOOL));
	EXPECT(char, y, 0, 0);
	OK(kiln_all_dim(&y, x, 1, KILN_BOOL));
	EXPECT(char, y, 1, 1);
	OK(kiln_sum(&y, x));
	EXPECT_FLOATS(y, 0);
	OK(kiln_prod(&y, x));
	EXPECT_FLOATS(y, 1);
	OK(kiln_mean(&y, x));
	ck_assert(isnan(only(y)));
	OK(kiln_mean_dim(&y, x, 1));
	EXPECT_SHAPE(y, 2, 1);
	OK(kiln_is_nan(&y, y, KILN_BOOL));
	EXPECT(char, y, 1, 1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

static reduce_dim *const extremes[] = { kiln_max_dim, kiln_min_dim,
					kiln_max_abs_dim };

START_TEST(extremes_of_nothing)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(2, 0)));
	for (int i = 0; i < COUNT(extremes); i++) {
		ck_assert_int_eq(extremes[i](&y, x, 1), KILN_ERR_EMPTY);
		OK(extremes[i](&y, x, 0));
		EXPECT_SHAPE(y, 1, 0);
	}
	FAILS(kiln_argmax(&y, x, 1, KILN_I32), KILN_ERR_EMPTY, "argmax");
	FAILS(kiln_argmin(&y, x, 1, KILN_I32), KILN_ERR_EMPTY, "argmin");
	OK(kiln_argmax(&y, x, 0, KILN_I32));
	EXPECT_SHAPE(y, 1, 0);
	FAILS(kiln_max(&y, x), KILN_ERR_EMPTY, "kiln_max");
	OK(kiln_sum_dim(&y, x, 0));
	EXPECT_SHAPE(y, 1, 0);
	OK(kiln_mean_dim(&y, x, 0));
	EXPECT_SHAPE(y, 1, 0);
	OK(kiln_cast(&x, x, KILN_I32));
	FAILS(kiln_mean_dim(&y, x, 1), KILN_ERR_EMPTY, "kiln_mean");
	FAILS(kiln_mean(&y, x), KILN_ERR_EMPTY, "kiln_mean");
	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(0, 0)));
	FAILS(kiln_max_dim(&y, x, 0), KILN_ERR_EMPTY, "kiln_max_dim");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* ---- NaN ---- */

/* The NaN is the last of count elements and is what every extreme gives. */
static void check_last_nan(enum kiln_dtype dtype, int64_t count)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct kiln_tensor *nan = FLOATS(dev, NAN);
	struct kiln_slice last = { count - 1, count, 1 };

	OK(kiln_ones(&x, dev, dtype, 1, &count));
	OK(kiln_cast(&nan, nan, dtype));
	OK(kiln_slice_assign(&x, x, 1, &last, nan));
	OK(kiln_max(&y, x));
	ck_assert(isnan(only(y)));
	OK(kiln_min(&y, x));
	ck_assert(isnan(only(y)));
	OK(kiln_max_abs(&y, x));
	ck_assert(isnan(only(y)));
	for (int i = 0; i < COUNT(extremes); i++) {
		OK(extremes[i](&y, x, 0));
		ck_assert(isnan(only(y)));
	}
	OK(kiln_argmax(&y, x, 0, KILN_I64));
	ck_assert_int_eq((int64_t)only(y), count - 1);
	OK(kiln_argmin(&y, x, 0, KILN_I32));
	ck_assert_int_eq((int64_t)only(y), count - 1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(nan);
}

START_TEST(nan_goes_through_extremes)
{
	static const enum kiln_dtype floats[] = { KILN_F32, KILN_F64, KILN_F16,
						  KILN_BF16 };
	static const int64_t counts[] = { 3, 1000, 1000003 };

	for (int f = 0; f < COUNT(floats); f++)
		for (int c = 0; c < COUNT(counts); c++)
			check_last_nan(floats[f], counts[c]);
}
END_TEST

START_TEST(nan_and_ties_are_indexed_first)
{
	struct kiln_tensor *x = FLOATS(dev, 1, NAN, 3, NAN);
	struct kiln_tensor *y = KILN_TENSOR_NONE, *at = KILN_TENSOR_NONE;

	OK(kiln_max(&y, x));
	ck_assert(isnan(only(y)));
	OK(kiln_argmax(&y, x, 0, KILN_I32));
	EXPECT_INTS(y, 1);
	OK(kiln_min_dim_with_indices(&y, &at, x, 0, KILN_I32));
	ck_assert(isnan(only(y)));
	EXPECT_INTS(at, 1);
	kiln_tensor_clear(&x);
	x = FLOATS(dev, 3, 1, 3, 1);
	OK(kiln_argmax(&y, x, 0, KILN_I32));
	EXPECT_INTS(y, 0);
	OK(kiln_argmin(&y, x, 0, KILN_I32));
	EXPECT_INTS(y, 1);
	OK(kiln_max_dim_with_indices(&y, &at, x, 0, KILN_I32));
	EXPECT_FLOATS(y, 3);
	EXPECT_INTS(at, 0);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(at);
}
END_TEST

START_TEST(nan_is_told_from_inf)
{
	static const uint32_t bits[] = { 0x7fc00000, 0xff800001, 0x7f800000,
					 0 };
	static const char nan[] = { 1, 1, 0, 0 }, inf[] = { 0, 0, 1, 0 };
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < COUNT(lengths); i++) {
		struct kiln_tensor *x = tiled(KILN_F32, bits, 4, lengths[i]);
		struct kiln_tensor *want;

		want = tiled(KILN_BOOL, nan, 4, lengths[i]);
		OK(kiln_is_nan(&y, x, KILN_BOOL));
		OK(kiln_equal(&y, y, want, KILN_BOOL));
		OK(kiln_all(&y, y, KILN_BOOL));
		EXPECT(char, y, 1);
		kiln_tensor_release(want);
		want = tiled(KILN_BOOL, inf, 4, lengths[i]);
		OK(kiln_is_inf(&y, x, KILN_BOOL));
		OK(kiln_equal(&y, y, want, KILN_BOOL));
		OK(kiln_all(&y, y, KILN_BOOL));
		EXPECT(char, y, 1);
		kiln_tensor_release(want);
		kiln_tensor_release(x);
	}
	kiln_tensor_release(y);
}
END_TEST

START_TEST(nan_goes_through_limits)
{
	struct kiln_tensor *x = FLOATS(dev, NAN, -2, 5), *y = KILN_TENSOR_NONE;
	float have[3];

	OK(kiln_clamp(&y, x, kiln_float(0), kiln_float(1)));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && have[1] == 0 && have[2] == 1);
	OK(kiln_clamp(&y, x, kiln_float(2), kiln_float(-1)));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && have[1] == -1 && have[2] == -1);
	OK(kiln_relu(&y, x));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && have[1] == 0 && have[2] == 5);
	OK(kiln_sign(&y, x));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && have[1] == -1 && have[2] == 1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* ---- integer division ---- */

typedef enum kiln_status binary(struct kiln_tensor **, struct kiln_tensor *,
				struct kiln_tensor *);

/* op on lists that are tiled to every length and converted to dtype. */
static void check_ints(binary *op, enum kiln_dtype dtype, int listed,
		       const int64_t *lhs, const int64_t *rhs,
		       const int64_t *want)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE, *w = KILN_TENSOR_NONE;

	for (int i = 0; i < COUNT(lengths); i++) {
		struct kiln_tensor *l, *r;

		l = tiled(KILN_I64, lhs, listed, lengths[i]);
		r = tiled(KILN_I64, rhs, listed, lengths[i]);
		kiln_tensor_clear(&w);
		w = tiled(KILN_I64, want, listed, lengths[i]);
		OK(kiln_cast(&l, l, dtype));
		OK(kiln_cast(&r, r, dtype));
		OK(kiln_cast(&w, w, dtype));
		OK(op(&y, l, r));
		OK(kiln_equal(&y, y, w, KILN_BOOL));
		OK(kiln_all(&y, y, KILN_BOOL));
		ck_assert_msg(only(y) == 1, "%s: wrong at length %d",
			      kiln_dtype_name(dtype), (int)lengths[i]);
		kiln_tensor_release(l);
		kiln_tensor_release(r);
	}
	kiln_tensor_release(y);
	kiln_tensor_release(w);
}

#define CHECK_INTS(op, dtype, lhs, rhs, want)                                  \
	check_ints(op, dtype, COUNT(lhs), lhs, rhs, want)

static const enum kiln_dtype signed_ints[] = { KILN_I8, KILN_I16, KILN_I32,
					       KILN_I64 };
static const enum kiln_dtype unsigned_ints[] = { KILN_U8, KILN_U16, KILN_U32,
						 KILN_U64 };

START_TEST(integer_division_has_no_traps)
{
	static const int64_t divisor[] = { 0, 0, 0, -1, 3, -3, 3, -3 };
	static const int64_t rest[] = { 1, 2, 3, 0, 2, -2, 1, -1 };

	for (int i = 0; i < COUNT(signed_ints); i++) {
		int bits = 8 * (int)kiln_dtype_size_bytes(signed_ints[i]);
		int64_t least = (int64_t)(UINT64_MAX << (bits - 1));
		const int64_t x[] = { 1, 2, 3, least, -7, 7, 7, -7 };
		const int64_t ratio[] = { 0, 0, 0, least, -2, -2, 2, 2 };

		CHECK_INTS(kiln_div, signed_ints[i], x, divisor, ratio);
		CHECK_INTS(kiln_remainder, signed_ints[i], x, divisor, rest);
	}
}
END_TEST

START_TEST(unsigned_division)
{
	static const int64_t x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 200 };
	static const int64_t y[] = { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0 };
	static const int64_t q[] = { 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 0 };
	static const int64_t r[] = { 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 200 };

	for (int i = 0; i < COUNT(unsigned_ints); i++) {
		CHECK_INTS(kiln_div, unsigned_ints[i], x, y, q);
		CHECK_INTS(kiln_remainder, unsigned_ints[i], x, y, r);
	}
}
END_TEST

START_TEST(division_by_a_scalar_zero)
{
	struct kiln_tensor *x = INTS(dev, 1, -2, INT32_MIN);
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_div_scalar(&y, x, kiln_int(0)));
	EXPECT_INTS(y, 0, 0, 0);
	OK(kiln_remainder_scalar(&y, x, kiln_int(0)));
	EXPECT_INTS(y, 1, -2, INT32_MIN);
	OK(kiln_div_scalar(&y, x, kiln_int(-1)));
	EXPECT_INTS(y, -1, 2, INT32_MIN);
	OK(kiln_remainder_scalar(&y, x, kiln_int(-1)));
	EXPECT_INTS(y, 0, 0, 0);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(float_remainder)
{
	struct kiln_tensor *x = FLOATS(dev, -5.5f, 5.5f, 1, -1, 0, 1);
	struct kiln_tensor *y = FLOATS(dev, 2, -2, INFINITY, INFINITY,
				       -INFINITY, -INFINITY);

	OK(kiln_remainder(&y, x, y));
	EXPECT_FLOATS(y, 0.5f, -0.5f, 1, INFINITY, 0, -INFINITY);
	OK(kiln_remainder_scalar(&y, x, kiln_float(0)));
	OK(kiln_is_nan(&y, y, KILN_BOOL));
	EXPECT(char, y, 1, 1, 1, 1, 1, 1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* ---- softmax ---- */

START_TEST(softmax_of_infinite_rows)
{
	static const float rows[] = { -INFINITY, -INFINITY, 0, -INFINITY,
				      10000, 10001 };
	struct kiln_tensor *x = make(dev, KILN_F32, 2, SHAPE(3, 2), rows);
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	float have[6];

	OK(kiln_softmax(&y, x, 1));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && isnan(have[1]));
	ck_assert(have[2] == 1 && have[3] == 0);
	ck_assert_double_eq_tol(have[4], 0.26894142, 1e-6);
	ck_assert_double_eq_tol(have[5], 0.73105858, 1e-6);
	OK(kiln_log_softmax(&y, x, 1));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && isnan(have[1]));
	ck_assert(have[2] == 0 && have[3] == -INFINITY);
	ck_assert_double_eq_tol(have[4], -1.3132617, 1e-6);
	ck_assert_double_eq_tol(have[5], -0.3132617, 1e-6);
	OK(kiln_neg(&x, x));
	OK(kiln_softmin(&y, x, 1));
	OK(kiln_tensor_read(y, have, sizeof(have)));
	ck_assert(isnan(have[0]) && isnan(have[1]));
	ck_assert_double_eq_tol(have[5], 0.73105858, 1e-6);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* All but one place is minus infinity, in the last row that one too. */
START_TEST(softmax_of_long_rows)
{
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F16,
						  KILN_BF16 };
	const int64_t length = _i < 3 ? 1021 : 20008, count = 3 * length;
	float *x = malloc((size_t)count * sizeof(*x));
	struct kiln_tensor *y;

	for (int64_t i = 0; i < count; i++)
		x[i] = i == 7 || i == 2 * length - 1 ? -3 : -INFINITY;
	y = make(dev, KILN_F32, 2, SHAPE(3, length), x);
	OK(kiln_cast(&y, y, dtypes[_i % 3]));
	OK(kiln_softmax(&y, y, 1));
	OK(kiln_cast(&y, y, KILN_F32));
	OK(kiln_tensor_read(y, x, (size_t)count * sizeof(*x)));
	for (int64_t i = 0; i < 2 * length; i++)
		ck_assert(x[i] == (i == 7 || i == 2 * length - 1));
	for (int64_t i = 2 * length; i < count; i++)
		ck_assert(isnan(x[i]));
	kiln_tensor_release(y);
	free(x);
}
END_TEST

static const int64_t far_lengths[] = { 10, 31, 200, 784, 1500, 20001 };

/* Down to where results are subnormal, which some devices have as 0. */
START_TEST(softmax_of_far_elements)
{
	const int64_t length = far_lengths[_i], count = 3 * length;
	float *x = malloc((size_t)count * sizeof(*x));
	double sum = 0, want;
	struct kiln_tensor *y;

	for (int64_t i = 0; i < count; i++)
		x[i] = 5 - (float)(i % length * 37 % 111);
	x[length + 3] = NAN;
	x[2 * length + 3] = INFINITY;
	for (int64_t i = 0; i < length; i++)
		sum += exp((double)x[i] - 5);
	y = make(dev, KILN_F32, 2, SHAPE(3, length), x);
	OK(kiln_softmax(&y, y, 1));
	OK(kiln_tensor_read(y, x, (size_t)count * sizeof(*x)));
	for (int64_t i = 0; i < length; i++) {
		want = exp(-(double)(i * 37 % 111)) / sum;
		ck_assert_double_eq_tol(x[i], want,
					(double)FLT_MIN + want * 1e-6);
	}
	for (int64_t i = length; i < count; i++)
		ck_assert(isnan(x[i]));
	kiln_tensor_release(y);
	free(x);
}
END_TEST

/* ---- sums in narrow types ---- */

static double sum_or_mean(enum kiln_dtype dtype, int64_t count, double value,
			  enum kiln_status (*op)(struct kiln_tensor **,
						 struct kiln_tensor *))
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	double result;

	OK(kiln_full(&x, dev, dtype, 1, &count, kiln_float(value)));
	OK(op(&x, x));
	result = only(x);
	kiln_tensor_release(x);
	return result;
}

START_TEST(narrow_sums_do_not_stall)
{
	ck_assert(sum_or_mean(KILN_F16, 100000, 1, kiln_mean) == 1);
	ck_assert(sum_or_mean(KILN_F16, 3, 40000, kiln_mean) == 40000);
	ck_assert(sum_or_mean(KILN_F16, 3000, 1, kiln_sum) == 3000);
	ck_assert(sum_or_mean(KILN_BF16, 1000, 1, kiln_sum) == 1000);
	ck_assert(sum_or_mean(KILN_F32, 1 << 25, 1, kiln_sum) == 33554432);
	ck_assert_double_eq_tol(
		sum_or_mean(KILN_F32, 10000000, 0.1, kiln_sum), 1000000, 1);
	/* The sum overflows, the mean does not. */
	ck_assert(sum_or_mean(KILN_F32, 1000, 3e38, kiln_mean) == 3e38f);
	ck_assert(sum_or_mean(KILN_F64, 1000, 1e308, kiln_mean) == 1e308);
	ck_assert(sum_or_mean(KILN_I8, 1000, 100, kiln_mean) == 100);
	ck_assert(sum_or_mean(KILN_U8, 256, 1, kiln_sum) == 0);
}
END_TEST

/* The same along a dim, last and first. */
START_TEST(narrow_sums_along_a_dim)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_ones(&x, dev, KILN_BF16, 2, SHAPE(2, 1000)));
	OK(kiln_sum_dim(&y, x, 1));
	OK(kiln_cast(&y, y, KILN_F32));
	EXPECT_FLOATS(y, 1000, 1000);
	OK(kiln_swap_dims(&x, x, 0, 1));
	OK(kiln_sum_dim(&y, x, 0));
	OK(kiln_cast(&y, y, KILN_F32));
	EXPECT_FLOATS(y, 1000, 1000);
	OK(kiln_full(&x, dev, KILN_F16, 2, SHAPE(3, 2), kiln_float(40000)));
	OK(kiln_mean_dim(&y, x, 0));
	OK(kiln_cast(&y, y, KILN_F32));
	EXPECT_FLOATS(y, 40000, 40000);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(counts_and_indices_do_not_wrap)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	const struct kiln_slice at = { 299, 300, 1 };

	OK(kiln_ones(&x, dev, KILN_BOOL_U8, 1, SHAPE(5000)));
	OK(kiln_cast(&y, x, KILN_I32));
	OK(kiln_sum(&y, y));
	EXPECT_INTS(y, 5000);
	OK(kiln_zeros(&x, dev, KILN_U8, 1, SHAPE(400)));
	OK(kiln_full(&y, dev, KILN_U8, 1, SHAPE(1), kiln_int(255)));
	OK(kiln_slice_assign(&x, x, 1, &at, y));
	OK(kiln_argmax(&y, x, 0, KILN_I32));
	EXPECT_INTS(y, 299);
	OK(kiln_max(&y, x));
	EXPECT(uint8_t, y, 255);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* ---- inner dimension 0 ---- */

/* Leaves memory of every small size full of ones for the next tensors. */
static void dirty_pool(void)
{
	struct kiln_tensor *t[64] = { KILN_TENSOR_NONE };

	for (int i = 0; i < COUNT(t); i++) {
		int64_t bytes = (int64_t)16 << i % 16;

		OK(kiln_full(&t[i], dev, KILN_U8, 1, &bytes, kiln_int(255)));
	}
	OK(kiln_device_sync(dev));
	for (int i = 0; i < COUNT(t); i++)
		kiln_tensor_release(t[i]);
}

static void check_zeros(struct kiln_tensor *t, enum kiln_dtype dtype)
{
	size_t bytes = kiln_tensor_size_bytes(t);
	char *zeros = calloc(bytes, 1), *have = malloc(bytes);

	ck_assert_int_eq(kiln_tensor_dtype(t), dtype);
	OK(kiln_tensor_read(t, have, bytes));
	ck_assert_msg(!memcmp(have, zeros, bytes), "%s: not all 0",
		      kiln_dtype_name(dtype));
	free(zeros);
	free(have);
}

START_TEST(products_over_nothing_are_zero)
{
	static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_F64, KILN_F16,
						  KILN_BF16, KILN_I32,
						  KILN_I64, KILN_U8 };
	struct kiln_tensor *x = KILN_TENSOR_NONE, *w = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < COUNT(dtypes); i++) {
		enum kiln_dtype dtype = dtypes[i];

		dirty_pool();
		OK(kiln_empty(&x, dev, dtype, 2, SHAPE(4, 0)));
		OK(kiln_empty(&w, dev, dtype, 2, SHAPE(0, 4)));
		OK(kiln_matmul(&y, x, w));
		EXPECT_SHAPE(y, 4, 4);
		check_zeros(y, dtype);
		OK(kiln_empty(&x, dev, dtype, 3, SHAPE(3, 2, 0)));
		OK(kiln_empty(&w, dev, dtype, 3, SHAPE(3, 0, 3)));
		OK(kiln_matmul(&y, x, w));
		EXPECT_SHAPE(y, 3, 2, 3);
		check_zeros(y, dtype);
		OK(kiln_empty(&x, dev, dtype, 2, SHAPE(300, 0)));
		OK(kiln_empty(&w, dev, dtype, 2, SHAPE(0, 500)));
		OK(kiln_matmul(&y, x, w));
		check_zeros(y, dtype);
		OK(kiln_empty(&x, dev, dtype, 2, SHAPE(0, 5)));
		OK(kiln_ones(&w, dev, dtype, 2, SHAPE(5, 3)));
		OK(kiln_matmul(&y, x, w));
		EXPECT_SHAPE(y, 0, 3);
	}
	kiln_tensor_release(x);
	kiln_tensor_release(w);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(products_over_nothing_leave_the_sum)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *w = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	struct kiln_tensor *bias = FLOATS(dev, 1, 2, 3);

	dirty_pool();
	OK(kiln_empty(&x, dev, KILN_F32, 2, SHAPE(2, 0)));
	OK(kiln_empty(&w, dev, KILN_F32, 2, SHAPE(0, 3)));
	OK(kiln_matmul(&y, x, w));
	OK(kiln_add(&y, y, bias));
	EXPECT_FLOATS(y, 1, 2, 3, 1, 2, 3);
	OK(kiln_sum_dim(&w, w, 0));
	EXPECT_FLOATS(w, 0, 0, 0);
	kiln_tensor_release(x);
	kiln_tensor_release(w);
	kiln_tensor_release(y);
	kiln_tensor_release(bias);
}
END_TEST

START_TEST(fresh_zeros_are_zero)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	dirty_pool();
	for (int64_t n = 1; n < 100000; n = n * 3 + 1) {
		OK(kiln_zeros(&x, dev, KILN_F32, 1, &n));
		check_zeros(x, KILN_F32);
	}
	kiln_tensor_release(x);
}
END_TEST

/* ---- shapes with 0 ---- */

static struct kiln_tensor *ones(int rank, const int64_t *shape)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_ones(&t, dev, KILN_F32, rank, shape));
	return t;
}

#define ONES(...) ones(RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

START_TEST(broadcasting_with_0)
{
	struct kiln_tensor *none = ONES(2, 0), *one = ONES(2, 1);
	struct kiln_tensor *three = ONES(2, 3), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *flat = ONES(0), *single = ONES(1);

	OK(kiln_add(&y, none, one));
	EXPECT_SHAPE(y, 2, 0);
	OK(kiln_add(&y, one, none));
	EXPECT_SHAPE(y, 2, 0);
	OK(kiln_mul(&y, flat, single));
	EXPECT_SHAPE(y, 0);
	FAILS(kiln_add(&y, none, three), KILN_ERR_SHAPE, "[2, 0]");
	OK(kiln_expand(&y, single, 1, SHAPE(0)));
	EXPECT_SHAPE(y, 0);
	OK(kiln_sum(&y, y));
	EXPECT_FLOATS(y, 0);
	OK(kiln_softmax(&y, none, 1));
	EXPECT_SHAPE(y, 2, 0);
	kiln_tensor_release(none);
	kiln_tensor_release(one);
	kiln_tensor_release(three);
	kiln_tensor_release(flat);
	kiln_tensor_release(single);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(joining_and_choosing_with_0)
{
	static const float six[] = { 1, 2, 3, 4, 5, 6 };
	struct kiln_tensor *x = make(dev, KILN_F32, 2, SHAPE(2, 3), six);
	struct kiln_tensor *none = ONES(2, 0), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *index = KILN_TENSOR_NONE;
	const struct kiln_slice at = { 5, 5, 1 };

	OK(kiln_cat(&y, 2,
		    (struct kiln_tensor *const[]){ x, none }, 1));
	EXPECT_SHAPE(y, 2, 3);
	EXPECT_FLOATS(y, 1, 2, 3, 4, 5, 6);
	OK(kiln_cat(&y, 3,
		    (struct kiln_tensor *const[]){ none, none, none }, 1));
	EXPECT_SHAPE(y, 2, 0);
	OK(kiln_reshape(&x, x, 1, SHAPE(6)));
	OK(kiln_reshape(&none, none, 1, SHAPE(0)));
	OK(kiln_slice_assign(&x, x, 1, &at, none));
	EXPECT_FLOATS(x, 1, 2, 3, 4, 5, 6);
	OK(kiln_empty(&index, dev, KILN_I64, 1, SHAPE(0)));
	OK(kiln_select(&y, x, 0, index));
	EXPECT_SHAPE(y, 0);
	OK(kiln_gather(&y, x, 0, index));
	EXPECT_SHAPE(y, 0);
	OK(kiln_scatter_add(&y, x, 0, index, none));
	EXPECT_FLOATS(y, 1, 2, 3, 4, 5, 6);
	OK(kiln_repeat_dim(&y, x, 0, 0));
	EXPECT_SHAPE(y, 0);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(none);
	kiln_tensor_release(index);
}
END_TEST

/* ---- casts ---- */

static void check_cast(enum kiln_dtype from, const void *values,
		       enum kiln_dtype to, const void *want, int listed)
{
	for (int i = 0; i < COUNT(lengths); i++) {
		struct kiln_tensor *x, *w, *y = KILN_TENSOR_NONE;
		size_t bytes;
		void *data;

		x = tiled(from, values, listed, lengths[i]);
		w = tiled(to, want, listed, lengths[i]);
		bytes = kiln_tensor_size_bytes(w);
		data = malloc(bytes);
		OK(kiln_tensor_read(w, data, bytes));
		OK(kiln_cast(&y, x, to));
		expect_bytes(y, data, bytes, kiln_dtype_name(to));
		free(data);
		kiln_tensor_release(x);
		kiln_tensor_release(w);
		kiln_tensor_release(y);
	}
}

#define LIST(T, ...) ((const T[]){ __VA_ARGS__ })

START_TEST(casts_of_floats_saturate)
{
	check_cast(KILN_F32,
		   LIST(float, NAN, INFINITY, -INFINITY, 3e9f, -1.9f, 1.9f),
		   KILN_I32,
		   LIST(int32_t, 0, INT32_MAX, INT32_MIN, INT32_MAX, -1, 1), 6);
	check_cast(KILN_F32, LIST(float, INFINITY, -INFINITY, NAN, 9.3e18f),
		   KILN_I64, LIST(int64_t, INT64_MAX, INT64_MIN, 0, INT64_MAX),
		   4);
	check_cast(KILN_F32, LIST(float, -3, 300, NAN, 254.9f), KILN_U8,
		   LIST(uint8_t, 0, 255, 0, 254), 4);
	check_cast(KILN_F32, LIST(float, 300, -300, 126.9f, -128.9f), KILN_I8,
		   LIST(int8_t, 127, -128, 126, -128), 4);
	check_cast(KILN_F32, LIST(float, 1e5f, -1e5f), KILN_I16,
		   LIST(int16_t, 32767, -32768), 2);
	check_cast(KILN_F32, LIST(float, 1e5f, -1), KILN_U16,
		   LIST(uint16_t, 65535, 0), 2);
	check_cast(KILN_F32, LIST(float, 5e9f, -1, 3e9f), KILN_U32,
		   LIST(uint32_t, UINT32_MAX, 0, 3000000000u), 3);
	check_cast(KILN_F64, LIST(double, 1e300, -1, 1e19, NAN), KILN_U64,
		   LIST(uint64_t, UINT64_MAX, 0, 10000000000000000000u, 0), 4);
	check_cast(KILN_F64, LIST(double, 2147483647.9, -2147483648.9),
		   KILN_I32, LIST(int32_t, INT32_MAX, INT32_MIN), 2);
}
END_TEST

START_TEST(casts_to_bool)
{
	static const enum kiln_dtype bools[] = { KILN_BOOL, KILN_BOOL_U8 };

	for (int i = 0; i < COUNT(bools); i++) {
		check_cast(KILN_F32, LIST(float, NAN, 0, -0.0f, 1e-45f),
			   bools[i], LIST(char, 1, 0, 0, 1),
			   keeps_denormals() ? 4 : 3);
		check_cast(KILN_I64, LIST(int64_t, 256, 0, -1), bools[i],
			   LIST(char, 1, 0, 1), 3);
	}
	check_cast(KILN_F16, LIST(uint16_t, 0x7e00, 0x8000, 0x0001),
		   KILN_BOOL_U32, LIST(uint32_t, 1, 0, 1), 3);
	check_cast(KILN_BOOL_U32, LIST(uint32_t, 256, 0, 1), KILN_F32,
		   LIST(float, 1, 0, 1), 3);
}
END_TEST

START_TEST(casts_round_once)
{
	check_cast(KILN_I64, LIST(int64_t, 16777217, 16777219), KILN_F32,
		   LIST(float, 16777216, 16777220), 2);
	check_cast(KILN_F64, LIST(double, 70000, -70000, 65519, 65520),
		   KILN_F16, LIST(uint16_t, 0x7c00, 0xfc00, 0x7bff, 0x7c00),
		   4);
	/* By way of f32 each of these would end at the even neighbour. */
	check_cast(KILN_F64,
		   LIST(double, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11,
			0x1p-25 + 0x1p-60, 0x1p-25),
		   KILN_F16, LIST(uint16_t, 0x3c01, 0x3c00, 0x0001, 0), 4);
	check_cast(KILN_F64, LIST(double, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8),
		   KILN_BF16, LIST(uint16_t, 0x3f81, 0x3f80), 2);
	check_cast(KILN_I64, LIST(int64_t, (1 << 16) + (1 << 8) + 0, 65793),
		   KILN_BF16, LIST(uint16_t, 0x4780, 0x4781), 2);
	check_cast(KILN_I64, LIST(int64_t, (INT64_C(1) << 40) + 1 +
						   (INT64_C(1) << 32)),
		   KILN_BF16, LIST(uint16_t, 0x5381), 1);
	check_cast(KILN_U64, LIST(uint64_t, UINT64_MAX), KILN_F32,
		   LIST(float, 0x1p64f), 1);
	check_cast(KILN_F32, LIST(float, -0.0f, 0x1p-149f, 1e-40f), KILN_F64,
		   LIST(double, -0.0, 0x1p-149, (double)1e-40f),
		   keeps_denormals() ? 3 : 1);
}
END_TEST

START_TEST(casts_of_ints_wrap)
{
	check_cast(KILN_I64, LIST(int64_t, 300, -1, INT64_MIN, 128), KILN_I8,
		   LIST(int8_t, 44, -1, 0, -128), 4);
	check_cast(KILN_I32, LIST(int32_t, -1, 65536, 70000), KILN_U16,
		   LIST(uint16_t, 65535, 0, 4464), 3);
	check_cast(KILN_I8, LIST(int8_t, -1, 5), KILN_U64,
		   LIST(uint64_t, UINT64_MAX, 5), 2);
	check_cast(KILN_U64, LIST(uint64_t, UINT64_MAX), KILN_I32,
		   LIST(int32_t, -1), 1);
}
END_TEST

/* ---- functions ---- */

typedef enum kiln_status unary(struct kiln_tensor **, struct kiln_tensor *);

static void check_function(unary *op, const float *x, const double *want,
			   int listed, double relative)
{
	for (int i = 0; i < COUNT(lengths); i++) {
		struct kiln_tensor *y = KILN_TENSOR_NONE, *t;
		float have[1000];

		t = tiled(KILN_F32, x, listed, lengths[i]);
		OK(op(&y, t));
		OK(kiln_tensor_read(y, have, kiln_tensor_size_bytes(y)));
		for (int j = 0; j < lengths[i]; j++)
			ck_assert_msg(fabs(have[j] - want[j % listed]) <=
					      relative *
						      fabs(want[j % listed]),
				      "f(%.9g) = %.9g, not %.9g",
				      (double)x[j % listed], (double)have[j],
				      want[j % listed]);
		kiln_tensor_release(t);
		kiln_tensor_release(y);
	}
}

START_TEST(tails_of_functions)
{
	struct kiln_tensor *x = FLOATS(dev, -0.0f, -INFINITY, INFINITY,
				       -13.24f);
	float have[4];

	check_function(kiln_tanh, LIST(float, 100, -100, 1e-10f),
		       LIST(double, 1, -1, 1e-10), 3, 1e-6);
	check_function(kiln_gelu, LIST(float, -1, -5, 3),
		       LIST(double, -0.15865525, -1.4332579e-6, 2.9959503), 3,
		       1e-5);
	check_function(kiln_erf, LIST(float, 0.5f, -0.5f, 10),
		       LIST(double, 0.52049988, -0.52049988, 1), 3, 1e-6);
	check_function(kiln_log1p, LIST(float, 1e-10f, -1e-7f),
		       LIST(double, 1e-10, -1.00000005e-7), 2, 1e-5);
	OK(kiln_log1p(&x, x));
	OK(kiln_tensor_read(x, have, sizeof(have)));
	ck_assert(have[0] == 0 && signbit(have[0]));
	ck_assert(isnan(have[1]) && have[2] == INFINITY && isnan(have[3]));
	kiln_tensor_clear(&x);
	x = FLOATS(dev, -0.0f, -INFINITY, INFINITY, -13.24f);
	OK(kiln_gelu(&x, x));
	OK(kiln_tensor_read(x, have, sizeof(have)));
	ck_assert(have[0] == 0 && have[1] == 0 && have[2] == INFINITY);
	ck_assert(have[3] <= 0 && have[3] > -1e-37f);
	kiln_tensor_release(x);
}
END_TEST

/* The functions in double precision, under the names of the registry. */
static double want_neg(double x)
{
	return -x;
}

static double want_sign(double x)
{
	return (x > 0) - (x < 0);
}

static double want_square(double x)
{
	return x * x;
}

static double want_recip(double x)
{
	return 1 / x;
}

static double want_relu(double x)
{
	return x > 0 ? x : 0;
}

static double want_sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double want_gelu(double x)
{
	return x < -40 ? -0.0 : x * erfc(-x * M_SQRT1_2) / 2;
}

static double want_log_sigmoid(double x)
{
	return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

#define want_abs fabs
#define want_sqrt sqrt
#define want_exp exp
#define want_log log
#define want_log1p log1p
#define want_sin sin
#define want_cos cos
#define want_tan tan
#define want_tanh tanh
#define want_erf erf
#define want_floor floor
#define want_ceil ceil
#define want_round rint
#define want_trunc trunc
#define want_bitwise_not NULL
#define want_logical_not NULL

static const struct function {
	const char *name;
	unary *op;
	double (*want)(double);
	double ulp;
} functions[] = {
#define KILNI_EW1(ID, name, classes, ulp, doc)                                 \
	{ #name, kiln_##name, want_##name, ulp },
#include "kernels/ops.def"
};

#define ALL16 65536

static void read_as_floats(struct kiln_tensor *t, float *data)
{
	struct kiln_tensor *wide = cast(t, KILN_F32);

	OK(kiln_tensor_read(wide, data, ALL16 * sizeof(float)));
	kiln_tensor_release(wide);
}

/* Infinity as the value that rounding gives it. */
static double bounded(double x)
{
	return isinf(x) ? copysign(0x1p128, x) : x;
}

/* How far a result is from the true value, in units in the last place. */
static double distance(float have, double want)
{
	double unit = 0x1p-149;
	int exponent;

	if (have == (float)want)
		return 0;
	want = isinf((float)want) ? bounded((double)(float)want) : want;
	(void)frexp(want, &exponent);
	if (exponent > -125)
		unit = ldexp(1, exponent - 24);
	return fabs(bounded((double)have) - want) / unit;
}

/* Whether an operand is a denormal, or a result has come by way of one. */
static bool may_be_flushed(float x, double want, double have)
{
	if (keeps_denormals())
		return false;
	return (x != 0 && fabsf(x) < 0x1p-126f) ||
	       (fabs(want) < 0x1p-122 && fabs(have - want) <= 0x1p-126);
}

/* NaN where it has to be and nowhere else. */
static void check_f32(const struct function *f, const float *x, const float *y)
{
	for (int i = 0; i < ALL16; i++) {
		double want = isnan(x[i]) ? NAN : f->want((double)x[i]);

		if (isnan(y[i]) ? isnan(want)
				: distance(y[i], want) <= f->ulp)
			continue;
		if (may_be_flushed(x[i], want, (double)y[i]))
			continue;
		ck_abort_msg("%s(%.9g) = %.9g, not %.9g", f->name,
			     (double)x[i], (double)y[i], want);
	}
}

static bool is_nan16(enum kiln_dtype dtype, uint16_t bits)
{
	return (bits & 0x7fff) > (dtype == KILN_F16 ? 0x7c00 : 0x7f80);
}

/* The result in dtype is the one for f32, y of x, rounded once. */
static void check_narrow(const struct function *f, enum kiln_dtype dtype,
			 struct kiln_tensor *narrow, struct kiln_tensor *wide,
			 const float *x, const float *y)
{
	uint16_t *have = malloc(ALL16 * 2), *want = malloc(ALL16 * 2);
	struct kiln_tensor *rounded = cast(wide, dtype);

	OK(kiln_tensor_read(narrow, have, ALL16 * 2));
	OK(kiln_tensor_read(rounded, want, ALL16 * 2));
	for (int i = 0; i < ALL16; i++) {
		if (have[i] == want[i] || (is_nan16(dtype, have[i]) &&
					   is_nan16(dtype, want[i])) ||
		    may_be_flushed(x[i], (double)y[i], (double)y[i]))
			continue;
		ck_abort_msg("%s of %s %#x is %#x, not %#x", f->name,
			     kiln_dtype_name(dtype), i, have[i], want[i]);
	}
	kiln_tensor_release(rounded);
	free(have);
	free(want);
}

static void sweep(const struct function *f, enum kiln_dtype dtype,
		  struct kiln_tensor *all)
{
	struct kiln_tensor *narrow = KILN_TENSOR_NONE;
	struct kiln_tensor *wide = cast(all, KILN_F32);
	float *x = malloc(ALL16 * sizeof(float));
	float *y = malloc(ALL16 * sizeof(float));

	read_as_floats(wide, x);
	OK(f->op(&narrow, all));
	OK(f->op(&wide, wide));
	read_as_floats(wide, y);
	check_f32(f, x, y);
	check_narrow(f, dtype, narrow, wide, x, y);
	kiln_tensor_release(narrow);
	kiln_tensor_release(wide);
	free(x);
	free(y);
}

/* Every value of the dtype through every function of one operand. */
static void sweep_all(enum kiln_dtype dtype)
{
	uint16_t *bits = malloc(ALL16 * sizeof(uint16_t));
	struct kiln_tensor *all;

	for (int i = 0; i < ALL16; i++)
		bits[i] = (uint16_t)i;
	all = make(dev, dtype, 1, SHAPE(ALL16), bits);
	for (int i = 0; i < COUNT(functions); i++)
		if (functions[i].want)
			sweep(&functions[i], dtype, all);
	kiln_tensor_release(all);
	free(bits);
}

START_TEST(every_f16)
{
	sweep_all(KILN_F16);
}
END_TEST

START_TEST(every_bf16)
{
	sweep_all(KILN_BF16);
}
END_TEST

/* ---- repeated indices ---- */

START_TEST(last_of_repeated_indices_wins)
{
	struct kiln_tensor *x = INTS(dev, 1, 2, 3, 4, 5, 6, 7, 8, 9);
	struct kiln_tensor *at = INTS(dev, 0, 1, 1, 1, 2);
	struct kiln_tensor *v = INTS(dev, 11, 12, 13, 14, 15);
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ASSIGN));
	EXPECT_INTS(y, 11, 14, 15, 4, 5, 6, 7, 8, 9);
	OK(kiln_select_assign(&y, x, 0, at, v, KILN_UPDATE_ASSIGN));
	EXPECT_INTS(y, 11, 14, 15, 4, 5, 6, 7, 8, 9);
	OK(kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ADD));
	EXPECT_INTS(y, 12, 41, 18, 4, 5, 6, 7, 8, 9);
	OK(kiln_select_assign(&y, x, 0, at, v, KILN_UPDATE_ADD));
	EXPECT_INTS(y, 12, 41, 18, 4, 5, 6, 7, 8, 9);
	EXPECT_INTS(x, 1, 2, 3, 4, 5, 6, 7, 8, 9);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(at);
	kiln_tensor_release(v);
}
END_TEST

/* A million updates of 7 cells; the last writer of cell c is known. */
START_TEST(last_of_many_wins)
{
	const int64_t count = 1000000;
	struct kiln_tensor *at = KILN_TENSOR_NONE, *v = KILN_TENSOR_NONE;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_I32, 1, SHAPE(7)));
	OK(kiln_arange(&v, dev, KILN_I32, 0, count, 1));
	OK(kiln_remainder_scalar(&at, v, kiln_int(7)));
	OK(kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ASSIGN));
	EXPECT_INTS(y, 999999, 999993, 999994, 999995, 999996, 999997, 999998);
	OK(kiln_select_assign(&y, x, 0, at, v, KILN_UPDATE_ASSIGN));
	EXPECT_INTS(y, 999999, 999993, 999994, 999995, 999996, 999997, 999998);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(at);
	kiln_tensor_release(v);
}
END_TEST

static float add_a_million(bool select)
{
	const int64_t count = 1000000;
	struct kiln_tensor *at = KILN_TENSOR_NONE, *v = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	float sum;

	OK(kiln_zeros(&y, dev, KILN_F32, 1, SHAPE(1)));
	OK(kiln_zeros(&at, dev, KILN_I64, 1, &count));
	OK(kiln_full(&v, dev, KILN_F32, 1, &count, kiln_float(0.1)));
	if (select)
		OK(kiln_select_assign(&y, y, 0, at, v, KILN_UPDATE_ADD));
	else
		OK(kiln_scatter(&y, y, 0, at, v, KILN_UPDATE_ADD));
	OK(kiln_tensor_read(y, &sum, sizeof(sum)));
	kiln_tensor_release(y);
	kiln_tensor_release(at);
	kiln_tensor_release(v);
	return sum;
}

START_TEST(a_million_updates_of_one_cell)
{
	float first = add_a_million(false);

	ck_assert_double_eq_tol(first, 100000, 1);
	ck_assert_double_eq_tol(add_a_million(true), 100000, 1);
	for (int i = 0; i < 10; i++) {
		float again = add_a_million(i & 1);

		ck_assert(!memcmp(&again, &first, sizeof(first)));
	}
}
END_TEST

/* A limit that is NaN goes through, in each form alike. */
START_TEST(clamp_to_nan)
{
	struct kiln_tensor *x = FLOATS(dev, 1, -2), *y = KILN_TENSOR_NONE;
	const struct kiln_scalar nan = kiln_float(NAN);
	float got[2];

	for (int form = 0; form < 4; form++) {
		OK(form == 0   ? kiln_clamp_min(&y, x, nan)
		   : form == 1 ? kiln_clamp_max(&y, x, nan)
		   : form == 2 ? kiln_clamp(&y, x, nan, kiln_float(1))
			       : kiln_clamp(&y, x, kiln_float(0), nan));
		OK(kiln_tensor_read(y, got, sizeof(got)));
		ck_assert(isnan(got[0]) && isnan(got[1]));
	}
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* The exponent is a count: (-1)^257 in bf16, whose integers end at 256. */
START_TEST(odd_exponent_in_a_narrow_dtype)
{
	const uint16_t minus_one = 0xbf80;
	struct kiln_tensor *x = make(dev, KILN_BF16, 1, SHAPE(1), &minus_one);
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_powi_scalar(&y, x, kiln_int(257)));
	EXPECT(uint16_t, y, 0xbf80);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("numerics");
	TCase *tcase = tcase_create("cpu");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, sums_of_nothing);
	tcase_add_test(tcase, extremes_of_nothing);
	tcase_add_test(tcase, nan_goes_through_extremes);
	tcase_add_test(tcase, nan_and_ties_are_indexed_first);
	tcase_add_test(tcase, nan_is_told_from_inf);
	tcase_add_test(tcase, nan_goes_through_limits);
	tcase_add_test(tcase, integer_division_has_no_traps);
	tcase_add_test(tcase, unsigned_division);
	tcase_add_test(tcase, division_by_a_scalar_zero);
	tcase_add_test(tcase, float_remainder);
	tcase_add_test(tcase, softmax_of_infinite_rows);
	tcase_add_loop_test(tcase, softmax_of_long_rows, 0, 6);
	tcase_add_loop_test(tcase, softmax_of_far_elements, 0, 6);
	tcase_add_test(tcase, narrow_sums_do_not_stall);
	tcase_add_test(tcase, narrow_sums_along_a_dim);
	tcase_add_test(tcase, counts_and_indices_do_not_wrap);
	tcase_add_test(tcase, products_over_nothing_are_zero);
	tcase_add_test(tcase, products_over_nothing_leave_the_sum);
	tcase_add_test(tcase, fresh_zeros_are_zero);
	tcase_add_test(tcase, broadcasting_with_0);
	tcase_add_test(tcase, joining_and_choosing_with_0);
	tcase_add_test(tcase, casts_of_floats_saturate);
	tcase_add_test(tcase, casts_to_bool);
	tcase_add_test(tcase, casts_round_once);
	tcase_add_test(tcase, casts_of_ints_wrap);
	tcase_add_test(tcase, tails_of_functions);
	tcase_add_test(tcase, every_f16);
	tcase_add_test(tcase, every_bf16);
	tcase_add_test(tcase, last_of_repeated_indices_wins);
	tcase_add_test(tcase, last_of_many_wins);
	tcase_add_test(tcase, a_million_updates_of_one_cell);
	tcase_add_test(tcase, clamp_to_nan);
	tcase_add_test(tcase, odd_exponent_in_a_narrow_dtype);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
