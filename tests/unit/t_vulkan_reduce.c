/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions on a Vulkan device whose elements lie side by side: rows that
 * begin anywhere, ends that fill no 16 bytes, rows for a subgroup each, rows
 * cut into chunks; with subgroups and without. What is wanted is counted here.
 */
#include "api.h"

#include "base/base.h"
#include "there.h"

#define SELECTOR "vulkan:cpu"

static struct kiln_device *device;

static void open_with(void)
{
	device = open_device(SELECTOR);
	ck_assert_ptr_nonnull(strstr(kiln_device_describe(device),
				     "; subgroups of "));
}

static void open_without(void)
{
	setenv("KILN_VULKAN_HIDE", "subgroupSupportedOperations", 1);
	device = open_device(SELECTOR);
	ck_assert_ptr_nonnull(strstr(kiln_device_describe(device),
				     "; no subgroups;"));
}

static void teardown(void)
{
	kiln_device_release(device);
}

/* ---- elements ---- */

/* Of 7 in a row each of -3 to 3 once, or of 0 to 6: sums stay small. */
static int value_at(enum kiln_dtype dtype, int64_t i)
{
	return (int)(i * 5 % 7) - (dtype == KILN_U8 ? 0 : 3);
}

static void put(enum kiln_dtype dtype, void *data, int64_t i, int value)
{
	if (dtype == KILN_F32)
		((float *)data)[i] = (float)value;
	else
		((uint8_t *)data)[i] = (uint8_t)value;
}

/* Rows of length elements, skip elements between them and ahead of all. */
struct rows {
	int64_t rows, length, skip;
};

static struct kiln_tensor *make_rows(enum kiln_dtype dtype,
				     const struct rows *r)
{
	int64_t stride = r->length + r->skip, many = r->rows * stride;
	struct kiln_slice part[2] = { { 0, r->rows, 1 },
				      { r->skip, stride, 1 } };
	void *data = calloc((size_t)many, 8);
	struct kiln_tensor *t;

	ck_assert_ptr_nonnull(data);
	for (int64_t i = 0; i < many; i++)
		put(dtype, data, i, i % stride < r->skip ? 3 : value_at(dtype, i));
	t = make(device, dtype, 2, SHAPE(r->rows, stride), data);
	free(data);
	OK(kiln_slice(&t, t, 2, part));
	return t;
}

/* What elements come to: their sum, and the first of the greatest. */
static void fold(enum kiln_dtype dtype, int64_t at, int64_t step, int64_t many,
		 int *sum, int *first)
{
	int greatest = -7;

	*sum = *first = 0;
	for (int64_t i = 0; i < many; i++) {
		int value = value_at(dtype, at + i * step);

		*sum += value;
		if (value > greatest) {
			greatest = value;
			*first = (int)i;
		}
	}
}

static int *read_ints(struct kiln_tensor *t, int64_t many)
{
	int *ints = calloc((size_t)many, sizeof(*ints));

	ck_assert_ptr_nonnull(ints);
	OK(kiln_cast(&t, t, KILN_I32));
	OK(kiln_tensor_read(t, ints, (size_t)many * sizeof(*ints)));
	kiln_tensor_release(t);
	return ints;
}

/*
 * Sums and firsts along dim: many elements for each of outputs, the first at
 * from and a further one for each output, those of one step apart.
 */
static void check(enum kiln_dtype dtype, struct kiln_tensor *t, int dim,
		  int64_t outputs, int64_t from, int64_t further, int64_t many,
		  int64_t step)
{
	struct kiln_tensor *sum = KILN_TENSOR_NONE, *first = KILN_TENSOR_NONE;
	int *sums, *firsts, want, at;

	OK(kiln_sum_dim(&sum, t, dim));
	sums = read_ints(sum, outputs);
	OK(kiln_argmax(&first, t, dim, KILN_I32));
	firsts = read_ints(first, outputs);
	for (int64_t i = 0; i < outputs; i++) {
		fold(dtype, from + i * further, step, many, &want, &at);
		want %= dtype == KILN_U8 ? 256 : 1 << 30;
		ck_assert_msg(sums[i] == want && firsts[i] == at,
			      "%s, output %d: %d and %d in place of %d and %d",
			      kiln_dtype_name(dtype), (int)i, sums[i],
			      firsts[i], want, at);
	}
	free(sums);
	free(firsts);
	kiln_tensor_release(t);
}

static void check_rows(enum kiln_dtype dtype, const struct rows *r)
{
	check(dtype, make_rows(dtype, r), 1, r->rows, r->skip,
	      r->length + r->skip, r->length, 1);
}

/* ---- the ways ---- */

/* A software device compiles each kernel for long: the vectors have the rest. */
static const enum kiln_dtype dtypes[] = { KILN_F32, KILN_U8 };

/* A group for each row: of the rows' beginnings some are at each offset. */
START_TEST(rows_by_groups)
{
	static const struct rows rows[] = { { 9, 1031, 6 }, { 2, 33, 1 },
					    { 5, 256, 0 } };

	for (unsigned i = 0; i < KILNI_COUNTOF(rows); i++)
		check_rows(dtypes[_i], &rows[i]);
}
END_TEST

START_TEST(rows_by_subgroups)
{
	static const struct rows rows = { 1037, 75, 2 };

	check_rows(dtypes[_i], &rows);
}
END_TEST

/* 40,001 elements are ten chunks, and end within 16 bytes. */
START_TEST(chunks)
{
	static const struct rows rows = { 1, 40001, 3 };

	check_rows(dtypes[_i], &rows);
}
END_TEST

/* Chunks of columns; words have two elements, four, or none is whole. */
START_TEST(columns)
{
	static const struct rows rows[] = { { 301, 36, 0 }, { 130, 37, 1 } };

	for (unsigned i = 0; i < KILNI_COUNTOF(rows); i++)
		check(dtypes[_i], make_rows(dtypes[_i], &rows[i]), 0,
		      rows[i].length, rows[i].skip, 1, rows[i].rows,
		      rows[i].length + rows[i].skip);
}
END_TEST

/* ---- greatest, least, truth ---- */

#define MANY 777

/* Its bytes all are what, but for those at at. */
static struct kiln_tensor *bytes_but(enum kiln_dtype dtype, int64_t many,
				     int what, int64_t at, int other)
{
	size_t size = kiln_dtype_size_bytes(dtype);
	unsigned char *data = malloc((size_t)many * size);
	struct kiln_tensor *t;

	ck_assert_ptr_nonnull(data);
	memset(data, what, (size_t)many * size);
	memset(data + (size_t)at * size, other, size);
	t = make(device, dtype, 1, SHAPE(many), data);
	free(data);
	return t;
}

static void expect_truth(struct kiln_tensor *t, bool any, bool all,
			 const char *what)
{
	struct kiln_tensor *out = KILN_TENSOR_NONE;
	unsigned char have[2];

	OK(kiln_any(&out, t, KILN_BOOL));
	OK(kiln_tensor_read(out, &have[0], 1));
	OK(kiln_all(&out, t, KILN_BOOL));
	OK(kiln_tensor_read(out, &have[1], 1));
	ck_assert_msg(have[0] == any && have[1] == all, "%s: any %d, all %d",
		      what, have[0], have[1]);
	kiln_tensor_release(out);
	kiln_tensor_release(t);
}

/* One that differs, at the first place, in the middle, behind the last 16. */
START_TEST(truth)
{
	static const enum kiln_dtype types[] = { KILN_U8, KILN_I64 };
	static const int64_t places[] = { 0, 100, 389, MANY - 1 };
	enum kiln_dtype dtype = types[_i];

	for (unsigned i = 0; i < KILNI_COUNTOF(places); i++) {
		expect_truth(bytes_but(dtype, MANY, 0, places[i], 1), true,
			     false, "one is true");
		expect_truth(bytes_but(dtype, MANY, 1, places[i], 0), true,
			     false, "one is false");
	}
	expect_truth(bytes_but(dtype, MANY, 0, 0, 0), false, false, "none");
	expect_truth(bytes_but(dtype, MANY, 1, 0, 1), true, true, "all");
}
END_TEST

/* -0 is false, in 16 bits and in 64. */
START_TEST(negative_zero)
{
	const uint16_t half[9] = { 0x8000, 0, 0x8000, 0, 0, 0, 0, 0, 0x8000 };
	const double wide[3] = { -0.0, 0.0, -0.0 };

	expect_truth(make(device, KILN_F16, 1, SHAPE(9), half), false, false,
		     "f16");
	expect_truth(make(device, KILN_F64, 1, SHAPE(3), wide), false, false,
		     "f64");
}
END_TEST

/* Subnormals of f16 are exact, and what is not finite goes on. */
START_TEST(kinds_of_halves)
{
	static const uint16_t want[] = { 0x0800, 0x7c00, 0xfc00, 0x8400 };
	uint16_t data[4][40] = { { 0 } }, have[4];
	struct kiln_tensor *t;

	/* 1 + 1023 + 1024 of 2^-24; -1023 - 1 of it, across two words. */
	data[0][1] = 0x0001;
	data[0][12] = 0x03ff;
	data[0][30] = 0x0400;
	data[1][3] = 0x7c00;
	data[2][38] = 0xfc00;
	data[3][7] = 0x83ff;
	data[3][8] = 0x8001;
	t = make(device, KILN_F16, 2, SHAPE(4, 40), data);
	OK(kiln_sum_dim(&t, t, 1));
	OK(kiln_tensor_read(t, have, sizeof(have)));
	ck_assert_mem_eq(have, want, sizeof(want));
	kiln_tensor_release(t);
}
END_TEST

static void expect_ends(enum kiln_dtype dtype, int what, int64_t at, int other,
			const void *greatest, const void *least)
{
	struct kiln_tensor *t = bytes_but(dtype, MANY, what, at, other);
	struct kiln_tensor *out = KILN_TENSOR_NONE;
	size_t size = kiln_dtype_size_bytes(dtype);

	OK(kiln_max(&out, t));
	expect_bytes(out, greatest, size, "max");
	OK(kiln_min(&out, t));
	expect_bytes(out, least, size, "min");
	kiln_tensor_release(out);
	kiln_tensor_release(t);
}

#define EXPECT_ENDS(dtype, T, what, at, other, greatest, least)                \
	expect_ends(dtype, what, at, other, &(const T){ greatest },            \
		    &(const T){ least })

START_TEST(ends_of_narrow_integers)
{
	/* 0x80 is 128 or -128, 0x8080 is -32640. */
	for (int64_t at = 0; at < MANY; at += 97) {
		EXPECT_ENDS(KILN_U8, uint8_t, 0x7f, at, 0x80, 128, 127);
		EXPECT_ENDS(KILN_I16, int16_t, 0x7f, at, 0x80, 32639, -32640);
	}
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
	TCase *cases = tcase_create(name);

	tcase_add_checked_fixture(cases, open, teardown);
	tcase_set_timeout(cases, 120);
	suite_add_tcase(suite, cases);
	return cases;
}

int main(void)
{
	TCase *with, *without;
	Suite *suite;

	if (!device_is_there(SELECTOR))
		return 77;
	suite = suite_create("vulkan, reductions");
	with = add_case(suite, "with", open_with);
	tcase_add_loop_test(with, rows_by_groups, 0, KILNI_COUNTOF(dtypes));
	tcase_add_loop_test(with, rows_by_subgroups, 0, 1);
	tcase_add_loop_test(with, chunks, 0, 1);
	tcase_add_loop_test(with, columns, 1, 2);
	tcase_add_loop_test(with, truth, 0, 2);
	tcase_add_test(with, negative_zero);
	tcase_add_test(with, kinds_of_halves);
	tcase_add_test(with, ends_of_narrow_integers);
	without = add_case(suite, "without", open_without);
	tcase_add_loop_test(without, rows_by_groups, 0, 1);
	tcase_add_loop_test(without, chunks, 0, 1);
	return run_suite(suite);
}
