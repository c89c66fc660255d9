/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

/* Handles, assignment semantics, ownership, views, foreign memory. */

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_tested();
}

static void teardown(void)
{
	kiln_device_release(dev);
}

START_TEST(result_is_assigned)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *y = KILN_TENSOR_NONE;

	OK(kiln_add(&y, x, x));
	EXPECT_FLOATS(y, 2, 4, 6);
	OK(kiln_mul(&y, y, x));
	EXPECT_FLOATS(y, 2, 8, 18);
	EXPECT_FLOATS(x, 1, 2, 3);
	kiln_tensor_clear(&x);
	ck_assert_ptr_null(x);
	kiln_tensor_clear(&y);
	kiln_tensor_clear(&y);
	kiln_tensor_clear(NULL);
	kiln_tensor_release(NULL);
}
END_TEST

START_TEST(failure_leaves_the_place)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *z = FLOATS(dev, 1, 2);
	struct kiln_tensor *y = FLOATS(dev, 7), *before = y;

	FAILS(kiln_add(&y, x, z), KILN_ERR_SHAPE, "[3]");
	ck_assert_ptr_eq(y, before);
	EXPECT_FLOATS(y, 7);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
}
END_TEST

START_TEST(in_place_only_for_the_owner)
{
	struct kiln_tensor *y = FLOATS(dev, 1, 2), *other, *before = y;

	ck_assert(kiln_tensor_can_mut(y));
	OK(kiln_add_scalar(&y, y, kiln_float(1)));
	ck_assert_ptr_eq(y, before);
	other = kiln_tensor_retain(y);
	ck_assert(!kiln_tensor_can_mut(y));
	OK(kiln_add_scalar(&y, y, kiln_float(1)));
	ck_assert_ptr_ne(y, other);
	EXPECT_FLOATS(y, 3, 4);
	EXPECT_FLOATS(other, 2, 3);
	kiln_tensor_release(other);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(view_forbids_in_place)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3, 4);
	struct kiln_tensor *view = KILN_TENSOR_NONE;
	const struct kiln_slice half = { 1, 3, 1 };

	OK(kiln_slice(&view, x, 1, &half));
	ck_assert(!kiln_tensor_can_mut(x));
	OK(kiln_neg(&x, x));
	EXPECT_FLOATS(view, 2, 3);
	EXPECT_FLOATS(x, -1, -2, -3, -4);
	kiln_tensor_release(x);
	kiln_tensor_release(view);
}
END_TEST

START_TEST(loop_keeps_memory_flat)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	struct kiln_tensor *y = KILN_TENSOR_NONE, *x = KILN_TENSOR_NONE;
	struct kiln_tensor *w = KILN_TENSOR_NONE;
	uint64_t calls = 0;
	bool available;

	OK(kiln_ones(&x, dev, KILN_F32, 2, SHAPE(64, 64)));
	OK(kiln_ones(&w, dev, KILN_F32, 2, SHAPE(64, 64)));
	for (int i = 0; i < 200; i++) {
		OK(kiln_matmul(&y, x, w));
		OK(kiln_add(&y, y, w));
		OK(kiln_relu(&y, y));
		OK(kiln_device_sync(dev));
		OK(kiln_memory_usage(dev, &usage, &available));
		ck_assert(available);
		ck_assert_uint_eq(usage.live_bytes + usage.cached_bytes +
					  usage.padding_bytes,
				  usage.reserved_bytes);
		if (i == 2)
			calls = usage.driver_calls;
	}
	ck_assert_uint_eq(usage.driver_calls, calls);
	ck_assert_uint_eq(usage.live_bytes, 3 * 64 * 64 * 4);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(w);
}
END_TEST

START_TEST(metadata)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *t = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_I16, 3, SHAPE(2, 3, 4)));
	OK(kiln_transpose(&t, x));
	ck_assert_int_eq(kiln_tensor_dtype(t), KILN_I16);
	ck_assert_int_eq(kiln_tensor_rank(t), 3);
	ck_assert_int_eq(kiln_tensor_shape(t)[1], 4);
	ck_assert_int_eq(kiln_tensor_strides_bytes(t)[1], 2);
	ck_assert_int_eq(kiln_tensor_strides_bytes(t)[2], 8);
	ck_assert_int_eq(kiln_tensor_count(t), 24);
	ck_assert_uint_eq(kiln_tensor_size_bytes(t), 48);
	ck_assert_ptr_eq(kiln_tensor_device(t), dev);
	kiln_tensor_release(x);
	kiln_tensor_release(t);
}
END_TEST

START_TEST(views)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	const struct kiln_slice back[] = { { 0, KILN_SLICE_END, -1 },
					   { 0, -1, 2 } };
	const int axis = 1, axes[] = { 1, 0 };

	OK(kiln_arange(&x, dev, KILN_I32, 0, 6, 1));
	OK(kiln_reshape(&x, x, 2, SHAPE(2, 3)));
	OK(kiln_permute(&y, x, axes));
	EXPECT_INTS(y, 0, 3, 1, 4, 2, 5);
	OK(kiln_reshape(&y, y, 1, SHAPE(6)));
	EXPECT_INTS(y, 0, 3, 1, 4, 2, 5);
	OK(kiln_flip(&y, x, 1, &axis));
	EXPECT_INTS(y, 2, 1, 0, 5, 4, 3);
	OK(kiln_slice(&y, x, 2, back));
	EXPECT_INTS(y, 3, 0);
	OK(kiln_unfold(&y, x, 1, 2, 1));
	EXPECT_INTS(y, 0, 1, 1, 2, 3, 4, 4, 5);
	OK(kiln_repeat_dim(&y, x, 0, 3));
	EXPECT_INTS(y, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(reshape_of_views_without_copy)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	const struct kiln_slice some[] = { { 0, 2, 1 }, { 0, 4, 1 } };

	OK(kiln_arange(&x, dev, KILN_I32, 0, 12, 1));
	OK(kiln_reshape(&x, x, 2, SHAPE(2, 6)));
	OK(kiln_slice(&y, x, 2, some));
	OK(kiln_reshape(&y, y, 4, SHAPE(2, 1, 2, 2)));
	ck_assert_int_eq(kiln_tensor_strides_bytes(y)[0], 24);
	ck_assert_int_eq(kiln_tensor_strides_bytes(y)[2], 8);
	EXPECT_INTS(y, 0, 1, 2, 3, 6, 7, 8, 9);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(slice_assign_and_overlap)
{
	struct kiln_tensor *x = INTS(dev, 1, 2, 3, 4, 5);
	struct kiln_tensor *part = KILN_TENSOR_NONE;
	const struct kiln_slice from = { 0, 4, 1 }, to = { 1, 5, 1 };
	const struct kiln_slice none = { 5, 5, 1 };

	OK(kiln_slice(&part, x, 1, &from));
	OK(kiln_slice_assign(&x, x, 1, &to, part));
	EXPECT_INTS(x, 1, 1, 2, 3, 4);
	OK(kiln_slice(&part, x, 1, &none));
	OK(kiln_slice_assign(&x, x, 1, &none, part));
	EXPECT_INTS(x, 1, 1, 2, 3, 4);
	kiln_tensor_release(x);
	kiln_tensor_release(part);
}
END_TEST

START_TEST(copy_into_changes_all_owners)
{
	struct kiln_tensor *x = INTS(dev, 1, 2, 3, 4), *y = INTS(dev, 9);
	struct kiln_tensor *front = KILN_TENSOR_NONE;
	struct kiln_tensor *back = KILN_TENSOR_NONE;
	const struct kiln_slice low = { 0, 3, 1 }, high = { 1, 4, 1 };

	OK(kiln_slice(&front, x, 1, &low));
	OK(kiln_slice(&back, x, 1, &high));
	OK(kiln_copy_into(back, front));
	EXPECT_INTS(x, 1, 1, 2, 3);
	OK(kiln_copy_into(front, y));
	EXPECT_INTS(x, 9, 9, 9, 3);
	OK(kiln_expand(&front, y, 1, SHAPE(3)));
	FAILS(kiln_copy_into(front, y), KILN_ERR_INVALID, "overlaps");
	OK(kiln_unfold(&front, x, 0, 2, 1));
	FAILS(kiln_copy_into(front, y), KILN_ERR_INVALID, "overlaps");
	FAILS(kiln_copy_into(y, x), KILN_ERR_SHAPE, "src");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(front);
	kiln_tensor_release(back);
}
END_TEST

static int deleted;

static void count_deleter(void *data, void *user)
{
	(void)data;
	__atomic_add_fetch((int *)user, 1, __ATOMIC_RELEASE);
}

START_TEST(foreign_memory)
{
	float data[] = { 1, 2, 3 };
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	enum kiln_status status;

	deleted = 0;
	status = kiln_tensor_from_foreign(&x, dev, KILN_F32, 1, SHAPE(3), data,
					  KILN_FOREIGN_READ_ONLY,
					  count_deleter, &deleted);
	if (cannot_see_host(status))
		return;
	OK(status);
	ck_assert(!kiln_tensor_can_mut(x));
	FAILS(kiln_copy_into(x, x), KILN_ERR_INVALID, "read-only");
	OK(kiln_neg(&y, x));
	OK(kiln_neg(&x, x));
	EXPECT_FLOATS(y, -1, -2, -3);
	OK(kiln_device_sync(dev));
	ck_assert_int_eq(__atomic_load_n(&deleted, __ATOMIC_ACQUIRE), 1);
	ck_assert_float_eq(data[0], 1);
	OK(kiln_tensor_from_foreign(&x, dev, KILN_F32, 1, SHAPE(3), data,
				    KILN_FOREIGN_WRITABLE, NULL, NULL));
	ck_assert(kiln_tensor_can_mut(x));
	OK(kiln_neg(&x, x));
	OK(kiln_device_sync(dev));
	ck_assert_float_eq(data[0], -1);
	FAILS(kiln_tensor_from_foreign(&x, dev, KILN_F32, 1, SHAPE(1),
				       (char *)data + 1, 0, NULL, NULL),
	      KILN_ERR_INVALID, "aligned");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(bools_are_normalised)
{
	const uint8_t raw[] = { 0, 1, 7, 255 };
	const uint32_t wide[] = { 0, 256, 1 };
	struct kiln_tensor *x = make(dev, KILN_BOOL, 1, SHAPE(4), raw);

	EXPECT(uint8_t, x, 0, 1, 1, 1);
	kiln_tensor_release(x);
	x = make(dev, KILN_BOOL_U32, 1, SHAPE(3), wide);
	EXPECT(uint32_t, x, 0, 1, 1);
	kiln_tensor_release(x);
}
END_TEST

START_TEST(empty_tensors)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct kiln_tensor *parts[2];

	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(2, 0)));
	OK(kiln_zeros(&y, dev, KILN_F32, 2, SHAPE(2, 1)));
	OK(kiln_add(&y, x, y));
	ck_assert_int_eq(kiln_tensor_count(y), 0);
	OK(kiln_tensor_read(y, NULL, 0));
	OK(kiln_ones(&y, dev, KILN_F32, 2, SHAPE(2, 3)));
	FAILS(kiln_add(&x, x, y), KILN_ERR_SHAPE, "[2, 0]");
	parts[0] = y;
	parts[1] = x;
	OK(kiln_cat(&y, 2, parts, 1));
	EXPECT_FLOATS(y, 1, 1, 1, 1, 1, 1);
	OK(kiln_sum_dim(&y, x, 1));
	EXPECT_FLOATS(y, 0, 0);
	FAILS(kiln_max_dim(&y, x, 1), KILN_ERR_EMPTY, "kiln_max_dim");
	OK(kiln_max_dim(&y, x, 0));
	ck_assert_int_eq(kiln_tensor_shape(y)[0], 1);
	ck_assert_int_eq(kiln_tensor_shape(y)[1], 0);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(settings_are_fixed_once)
{
	struct kiln_settings set = KILN_SETTINGS_INIT, got = KILN_SETTINGS_INIT;
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	set.float_dtype = KILN_I32;
	FAILS(kiln_device_configure(dev, &set), KILN_ERR_DTYPE, "i32");
	set.float_dtype = KILN_BF16;
	OK(kiln_device_configure(dev, &set));
	OK(kiln_device_settings(dev, &got));
	ck_assert_int_eq(got.float_dtype, KILN_BF16);
	ck_assert_int_eq(got.int_dtype, KILN_I32);
	FAILS(kiln_device_configure(dev, &set), KILN_ERR_ALREADY_INITIALIZED,
	      kiln_device_selector(dev));
	OK(kiln_zeros(&x, dev, KILN_F32, 1, SHAPE(1)));
	FAILS(kiln_device_configure(dev, &set), KILN_ERR_ALREADY_INITIALIZED,
	      kiln_device_selector(dev));
	kiln_tensor_release(x);
}
END_TEST

START_TEST(devices_compare_and_list)
{
	struct kiln_device *again = open_device(kiln_device_selector(dev));
	struct kiln_device *null = open_device("null");
	struct kiln_device_info infos[8];
	size_t count = 8;

	ck_assert(kiln_device_equal(dev, again));
	ck_assert(!kiln_device_equal(dev, null));
	for (size_t i = 0; i < count; i++)
		infos[i].struct_size = sizeof(infos[i]);
	OK(kiln_device_enumerate(KILN_DEVICE_CPU, infos, &count));
	ck_assert_uint_eq(count, 1);
	ck_assert_str_eq(infos[0].selector, "cpu:0");
	ck_assert_uint_eq(kiln_device_count(KILN_DEVICE_CPU), 1);
	ck_assert_ptr_null(kiln_device_absent(KILN_DEVICE_CPU));
	ck_assert(!kiln_device_absent(KILN_DEVICE_CUDA) ==
		  (kiln_device_count(KILN_DEVICE_CUDA) > 0));
	kiln_device_release(again);
	kiln_device_release(null);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_tensor");
	TCase *tcase = tcase_create("cpu");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, result_is_assigned);
	tcase_add_test(tcase, failure_leaves_the_place);
	tcase_add_test(tcase, in_place_only_for_the_owner);
	tcase_add_test(tcase, view_forbids_in_place);
	tcase_add_test(tcase, loop_keeps_memory_flat);
	tcase_add_test(tcase, metadata);
	tcase_add_test(tcase, views);
	tcase_add_test(tcase, reshape_of_views_without_copy);
	tcase_add_test(tcase, slice_assign_and_overlap);
	tcase_add_test(tcase, copy_into_changes_all_owners);
	tcase_add_test(tcase, foreign_memory);
	tcase_add_test(tcase, bools_are_normalised);
	tcase_add_test(tcase, empty_tensors);
	tcase_add_test(tcase, settings_are_fixed_once);
	tcase_add_test(tcase, devices_compare_and_list);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
