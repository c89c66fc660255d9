/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <math.h>

/* Input from outside: a status, a message that names the value, no change. */

static struct kiln_device *dev;
static struct kiln_tensor *x, *y;

static void setup(void)
{
	dev = open_tested();
	x = FLOATS(dev, 1, 2, 3);
	y = KILN_TENSOR_NONE;
}

static void teardown(void)
{
	EXPECT_FLOATS(x, 1, 2, 3);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_device_release(dev);
}

START_TEST(selectors)
{
	struct kiln_device *d = NULL;
	char wide[300];

	FAILS(kiln_device_open(NULL, "cpu"), KILN_ERR_INVALID, "out");
	FAILS(kiln_device_open(&d, "gpu"), KILN_ERR_SELECTOR, "\"gpu\"");
	FAILS(kiln_device_open(&d, ""), KILN_ERR_SELECTOR, "\"\"");
	FAILS(kiln_device_open(&d, "cpu:"), KILN_ERR_SELECTOR, "\"cpu:\"");
	FAILS(kiln_device_open(&d, "cpu:-1"), KILN_ERR_SELECTOR, "cpu:-1");
	FAILS(kiln_device_open(&d, "cpu:0x1"), KILN_ERR_SELECTOR, "0x1");
	FAILS(kiln_device_open(&d, "cpu:99999999999"), KILN_ERR_SELECTOR, "9");
	FAILS(kiln_device_open(&d, "cpu:7"), KILN_ERR_NO_DEVICE, "cpu:7");
	/* More than any machine has. */
	FAILS(kiln_device_open(&d, "cuda:99999"), KILN_ERR_NO_DEVICE,
	      "cuda:99999");
	FAILS(kiln_device_open(&d, "vulkan:cpu:99"), KILN_ERR_NO_DEVICE,
	      "vulkan:cpu:99");
	memset(wide, 'x', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = 0;
	FAILS(kiln_device_open(&d, wide), KILN_ERR_SELECTOR, "xxx");
	ck_assert_ptr_null(d);
}
END_TEST

static void refused_option(const char *name, const char *value)
{
	struct kiln_device *d = NULL;

	setenv(name, value, 1);
	FAILS(kiln_device_open(&d, "null"), KILN_ERR_OPTION, value);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), name));
	unsetenv(name);
	ck_assert_ptr_null(d);
}

START_TEST(environment)
{
	refused_option("KILN_CPU_WORKERS", "0");
	refused_option("KILN_CPU_WORKERS", "many");
	refused_option("KILN_CPU_WORKERS", "-3");
	refused_option("KILN_CPU_WORKERS", "99999999999999999999999");
	refused_option("KILN_SPIN_US", "21");
	refused_option("KILN_PAGE_BYTES", "64X");
	refused_option("KILN_PAGE_BYTES", "1.5M");
	refused_option("KILN_POOL_CAP_BYTES", "17000000T");
	refused_option("KILN_RING_LIMIT", "1");
	refused_option("KILN_FAULT", "page_alloc");
	refused_option("KILN_FAULT", "page_alloc:1:NO_SUCH");
	refused_option("KILN_FAULT", "page_alloc:0:KILN_ERR_DRIVER");
	refused_option("KILN_FAULT", "page_alloc:-1:KILN_ERR_DRIVER");
	refused_option("KILN_FAULT", "page_alloc:1:KILN_ERR_DRIVER x");
	refused_option("KILN_LOG", "bogus");
}
END_TEST

START_TEST(nulls)
{
	FAILS(kiln_add(NULL, x, x), KILN_ERR_INVALID, "out");
	FAILS(kiln_add(&y, NULL, x), KILN_ERR_INVALID, "lhs");
	FAILS(kiln_add(&y, x, NULL), KILN_ERR_INVALID, "rhs");
	FAILS(kiln_neg(&y, NULL), KILN_ERR_INVALID, "kiln_neg: tensor");
	FAILS(kiln_sum(&y, NULL), KILN_ERR_INVALID, "kiln_sum");
	FAILS(kiln_matmul(&y, NULL, x), KILN_ERR_INVALID, "lhs");
	FAILS(kiln_reshape(&y, x, 1, NULL), KILN_ERR_INVALID, "shape");
	FAILS(kiln_permute(&y, x, NULL), KILN_ERR_INVALID, "axes");
	FAILS(kiln_cat(&y, 1, NULL, 0), KILN_ERR_INVALID, "kiln_cat");
	FAILS(kiln_zeros(&y, NULL, KILN_F32, 1, SHAPE(1)), KILN_ERR_INVALID,
	      "device");
	FAILS(kiln_tensor_read(x, NULL, 12), KILN_ERR_INVALID, "12");
	FAILS(kiln_tensor_read(NULL, NULL, 0), KILN_ERR_INVALID, "tensor");
	FAILS(kiln_tensor_from_data(&y, dev, KILN_F32, 1, SHAPE(2), NULL, 8),
	      KILN_ERR_INVALID, "data");
	FAILS(kiln_device_sync(NULL), KILN_ERR_INVALID, "device");
	FAILS(kiln_stream_sync(NULL), KILN_ERR_INVALID, "stream");
	FAILS(kiln_memory_usage(dev, NULL, NULL), KILN_ERR_INVALID, "usage");
	ck_assert_ptr_null(y);
}
END_TEST

START_TEST(released_and_foreign_handles)
{
	/* A device is no tensor. */
	FAILS(kiln_neg(&y, (struct kiln_tensor *)(void *)dev),
	      KILN_ERR_INVALID, "no live tensor");
	FAILS(kiln_device_sync((struct kiln_device *)(void *)x),
	      KILN_ERR_INVALID, "no live device");
}
END_TEST

START_TEST(ranks_shapes_and_axes)
{
	const int64_t ones[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	const int twice[] = { 0, 0 }, outside[] = { 1 };
	const struct kiln_slice still = { 0, 1, 0 };

	FAILS(kiln_zeros(&y, dev, KILN_F32, 0, ones), KILN_ERR_INVALID,
	      "rank 0");
	FAILS(kiln_zeros(&y, dev, KILN_F32, 9, ones), KILN_ERR_INVALID,
	      "rank 9");
	FAILS(kiln_zeros(&y, dev, KILN_F32, -1, ones), KILN_ERR_INVALID, "-1");
	FAILS(kiln_zeros(&y, dev, KILN_F32, 1, SHAPE(-5)), KILN_ERR_INVALID,
	      "-5");
	FAILS(kiln_reshape(&y, x, 1, SHAPE(4)), KILN_ERR_SHAPE, "[4]");
	FAILS(kiln_expand(&y, x, 2, SHAPE(2, 4)), KILN_ERR_SHAPE, "[2, 4]");
	FAILS(kiln_sum_dim(&y, x, 1), KILN_ERR_INVALID, "dim 1");
	FAILS(kiln_sum_dim(&y, x, -1), KILN_ERR_INVALID, "dim -1");
	FAILS(kiln_argmax(&y, x, -1, KILN_I64), KILN_ERR_INVALID, "dim -1");
	FAILS(kiln_transpose(&y, x), KILN_ERR_SHAPE, "rank");
	FAILS(kiln_flip(&y, x, 1, outside), KILN_ERR_INVALID, "1");
	FAILS(kiln_flip(&y, x, 2, twice), KILN_ERR_INVALID, "2 axes");
	FAILS(kiln_slice(&y, x, 1, &still), KILN_ERR_INVALID, "step");
	FAILS(kiln_slice(&y, x, 2, &still), KILN_ERR_INVALID, "2 slices");
	FAILS(kiln_unfold(&y, x, 0, 1, 0), KILN_ERR_INVALID, "step 0");
	FAILS(kiln_repeat_dim(&y, x, 0, -1), KILN_ERR_INVALID, "-1");
	FAILS(kiln_matmul(&y, x, x), KILN_ERR_SHAPE, "[3]");
	FAILS(kiln_arange(&y, dev, KILN_I32, 0, 5, 0), KILN_ERR_INVALID,
	      "step");
	ck_assert_ptr_null(y);
}
END_TEST

START_TEST(sizes_that_overflow)
{
	const int64_t big = INT64_C(1) << 40;

	FAILS(kiln_zeros(&y, dev, KILN_F32, 2, SHAPE(big, big)),
	      KILN_ERR_OVERFLOW, "1099511627776");
	FAILS(kiln_zeros(&y, dev, KILN_F64, 1, SHAPE(INT64_MAX)),
	      KILN_ERR_OVERFLOW, "9223372036854775807");
	FAILS(kiln_repeat_dim(&y, x, 0, INT64_MAX), KILN_ERR_OVERFLOW, "[");
	FAILS(kiln_expand(&y, x, 3, SHAPE(big, big, 3)), KILN_ERR_OVERFLOW,
	      "[");
	OK(kiln_zeros(&y, dev, KILN_F32, 3, SHAPE(big, 0, big)));
	ck_assert_int_eq(kiln_tensor_count(y), 0);
	FAILS(kiln_arange(&y, dev, KILN_I8, 0, 300, 1), KILN_ERR_OVERFLOW,
	      "299");
	FAILS(kiln_full(&y, dev, KILN_U8, 1, SHAPE(1), kiln_int(-1)),
	      KILN_ERR_OVERFLOW, "-1");
	FAILS(kiln_full(&y, dev, KILN_I32, 1, SHAPE(1), kiln_float(NAN)),
	      KILN_ERR_OVERFLOW, "nan");
	FAILS(kiln_zeros(&y, dev, KILN_F64, 1, SHAPE(INT64_MAX / 16)),
	      KILN_ERR_LIMIT, "requested");
}
END_TEST

START_TEST(indices_that_do_not_fit)
{
	struct kiln_tensor *long_axis = KILN_TENSOR_NONE;
	struct kiln_tensor *z = KILN_TENSOR_NONE;

	OK(kiln_zeros(&long_axis, dev, KILN_F32, 1, SHAPE(257)));
	FAILS(kiln_argmax(&y, long_axis, 0, KILN_U8), KILN_ERR_OVERFLOW, "256");
	FAILS(kiln_argmin(&y, long_axis, 0, KILN_I8), KILN_ERR_OVERFLOW, "256");
	FAILS(kiln_min_dim_with_indices(&y, &z, long_axis, 0, KILN_U8),
	      KILN_ERR_OVERFLOW, "256");
	ck_assert_ptr_null(y);
	OK(kiln_argmax(&y, long_axis, 0, KILN_I16));
	kiln_tensor_release(long_axis);
}
END_TEST

START_TEST(broadcast_message_names_the_operands)
{
	struct kiln_tensor *a = KILN_TENSOR_NONE, *b = KILN_TENSOR_NONE;

	OK(kiln_zeros(&a, dev, KILN_F32, 2, SHAPE(1, 3)));
	OK(kiln_zeros(&b, dev, KILN_F32, 2, SHAPE(5, 2)));
	FAILS(kiln_add(&y, a, b), KILN_ERR_SHAPE, "[1, 3] and [5, 2]");
	kiln_tensor_release(a);
	kiln_tensor_release(b);
}
END_TEST

START_TEST(released_streams)
{
	struct kiln_stream *stream = NULL, *gone;

	OK(kiln_stream_create(&stream, dev));
	gone = stream;
	kiln_stream_release(stream);
	FAILS(kiln_stream_set_current(dev, gone), KILN_ERR_INVALID,
	      "released");
	FAILS(kiln_stream_sync(gone), KILN_ERR_INVALID, "released");
}
END_TEST

/* The result of another dtype is what overflows. */
START_TEST(results_that_overflow)
{
	const int64_t many = INT64_C(1) << 61;
	struct kiln_tensor *bytes = KILN_TENSOR_NONE, *z = KILN_TENSOR_NONE;

	OK(kiln_zeros(&bytes, dev, KILN_I8, 2, SHAPE(1, 1)));
	OK(kiln_expand(&bytes, bytes, 2, SHAPE(many, 1)));
	FAILS(kiln_argmax(&y, bytes, 1, KILN_I64), KILN_ERR_OVERFLOW, "[");
	FAILS(kiln_any_dim(&y, bytes, 1, KILN_BOOL_U32), KILN_ERR_OVERFLOW,
	      "[");
	FAILS(kiln_max_dim_with_indices(&y, &z, bytes, 1, KILN_I64),
	      KILN_ERR_LIMIT, "requested");
	FAILS(kiln_cast(&y, bytes, KILN_F64), KILN_ERR_OVERFLOW, "[");
	OK(kiln_expand(&bytes, bytes, 2, SHAPE(many, 1)));
	FAILS(kiln_unfold(&y, bytes, 0, many / 2, 1), KILN_ERR_OVERFLOW, "[");
	ck_assert_ptr_null(y);
	ck_assert_ptr_null(z);
	kiln_tensor_release(bytes);
}
END_TEST

START_TEST(dtypes)
{
	struct kiln_tensor *i = INTS(dev, 1, 2, 3), *z = KILN_TENSOR_NONE;

	FAILS(kiln_add(&y, x, i), KILN_ERR_DTYPE, "f32 and i32");
	FAILS(kiln_exp(&y, i), KILN_ERR_DTYPE, "i32");
	FAILS(kiln_bitwise_not(&y, x), KILN_ERR_DTYPE, "f32");
	FAILS(kiln_logical_not(&y, i), KILN_ERR_DTYPE, "i32");
	FAILS(kiln_equal(&y, i, i, KILN_I8), KILN_ERR_DTYPE, "i8");
	FAILS(kiln_argmax(&y, x, 0, KILN_F32), KILN_ERR_DTYPE, "f32");
	FAILS(kiln_gather(&y, i, 0, x), KILN_ERR_DTYPE, "f32");
	FAILS(kiln_mask_where(&y, x, i, x), KILN_ERR_DTYPE, "i32");
	FAILS(kiln_cast(&y, x, (enum kiln_dtype)16), KILN_ERR_INVALID, "16");
	FAILS(kiln_cast(&y, x, (enum kiln_dtype)-1), KILN_ERR_INVALID, "-1");
	FAILS(kiln_powi_scalar(&y, x, kiln_float(1.5)), KILN_ERR_DTYPE, "1.5");
	FAILS(kiln_powi_scalar(&y, x, kiln_float(INFINITY)), KILN_ERR_DTYPE,
	      "inf");
	FAILS(kiln_powi(&y, i, x), KILN_ERR_DTYPE, "f32");
	FAILS(kiln_max_dim_with_indices(&z, &z, x, 0, KILN_I64),
	      KILN_ERR_INVALID, "one place");
	ck_assert_ptr_null(y);
	kiln_tensor_release(i);
}
END_TEST

START_TEST(devices)
{
	struct kiln_device *null = open_device("null");
	struct kiln_tensor *z = KILN_TENSOR_NONE;
	char both[64];

	snprintf(both, sizeof(both), "%s and null:0",
		 kiln_device_selector(kiln_tensor_device(x)));
	OK(kiln_zeros(&z, null, KILN_F32, 1, SHAPE(3)));
	FAILS(kiln_add(&y, x, z), KILN_ERR_DEVICE, both);
	FAILS(kiln_copy_into(z, x), KILN_ERR_DEVICE, "null:0");
	kiln_tensor_release(z);
	kiln_device_release(null);
}
END_TEST

START_TEST(values)
{
	const struct kiln_distribution bad[] = {
		{ KILN_RANDOM_UNIFORM, 1, 1 },   { KILN_RANDOM_NORMAL, 0, -1 },
		{ KILN_RANDOM_BERNOULLI, 2, 0 }, { KILN_RANDOM_UNIFORM, NAN, 1 },
		{ (enum kiln_distribution_kind)9, 0, 1 },
	};
	struct kiln_tensor *index = INTS(dev, 0);
	struct kiln_scalar odd = { (enum kiln_scalar_kind)7, { 0 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FAILS(kiln_random(&y, dev, KILN_F32, 1, SHAPE(2), bad[i]),
		      KILN_ERR_INVALID, "kind");
	FAILS(kiln_random(&y, dev, KILN_F16, 1, SHAPE(2),
			  (struct kiln_distribution){ KILN_RANDOM_UNIFORM, 0,
						      70000 }),
	      KILN_ERR_INVALID, "70000 is not finite in f16");
	FAILS(kiln_random(&y, dev, KILN_F32, 1, SHAPE(2),
			  (struct kiln_distribution){ KILN_RANDOM_UNIFORM,
						      -3e38, 3e38 }),
	      KILN_ERR_INVALID, "6e+38");
	FAILS(kiln_scatter(&y, x, 0, index, x, (enum kiln_update)5),
	      KILN_ERR_INVALID, "update 5");
	FAILS(kiln_add_scalar(&y, x, odd), KILN_ERR_INVALID, "kind 7");
	FAILS(kiln_tensor_from_data(&y, dev, KILN_F32, 1, SHAPE(2), "1234", 4),
	      KILN_ERR_INVALID, "4 bytes");
	FAILS(kiln_persistent_end(dev), KILN_ERR_INVALID, "scope");
	ck_assert_ptr_null(y);
	kiln_tensor_release(index);
}
END_TEST

START_TEST(status_texts)
{
	ck_assert_str_eq(kiln_status_name(KILN_OK), "KILN_OK");
	ck_assert_str_eq(kiln_status_name((enum kiln_status)5),
			 "KILN_ERR_UNKNOWN");
	ck_assert_str_eq(kiln_status_name((enum kiln_status)-1000),
			 "KILN_ERR_UNKNOWN");
	ck_assert_int_eq(kiln_status_scope(KILN_ERR_INDEX), KILN_SCOPE_BUFFER);
	ck_assert_int_eq(kiln_status_scope(KILN_ERR_POISONED),
			 KILN_SCOPE_STREAM);
	kiln_error_clear();
	ck_assert_str_eq(kiln_error_message(), "");
	ck_assert_int_eq(kiln_error_status(), KILN_OK);
	ck_assert_int_eq(kiln_neg(&y, NULL), KILN_ERR_INVALID);
	OK(kiln_neg(&y, x));
	ck_assert_int_eq(kiln_error_status(), KILN_ERR_INVALID);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bad_input");
	TCase *tcase = tcase_create("cpu");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, selectors);
	tcase_add_test(tcase, environment);
	tcase_add_test(tcase, nulls);
	tcase_add_test(tcase, released_and_foreign_handles);
	tcase_add_test(tcase, ranks_shapes_and_axes);
	tcase_add_test(tcase, sizes_that_overflow);
	tcase_add_test(tcase, results_that_overflow);
	tcase_add_test(tcase, indices_that_do_not_fit);
	tcase_add_test(tcase, broadcast_message_names_the_operands);
	tcase_add_test(tcase, released_streams);
	tcase_add_test(tcase, dtypes);
	tcase_add_test(tcase, devices);
	tcase_add_test(tcase, values);
	tcase_add_test(tcase, status_texts);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
