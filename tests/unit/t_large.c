/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"
#include "sanitized.h"

#include <stdio.h>
#include <sys/mman.h>

/*
 * Tensors of more than 2^31 bytes, elements and of more than 2^32 elements.
 * Little is held at a time: work is in place and over views where it can be.
 */

/* Exit status of a test that was not run. */
#define SKIP 77

#define NEEDED_KB (12ull << 20)

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_device("cpu");
}

static void teardown(void)
{
	kiln_device_release(dev);
}

/* ---- a table of 2.2 GiB ---- */

#define ROWS 262144
#define COLS 8960
#define PERIOD 251

static void *map(size_t bytes)
{
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(data, MAP_FAILED);
	madvise(data, bytes, MADV_HUGEPAGE);
	return data;
}

/* Element (row, col) is (31 * row + col) % 251. */
static void fill_row(uint8_t *to, int64_t row)
{
	static uint8_t pattern[COLS + PERIOD];

	if (!pattern[1])
		for (int i = 0; i < COLS + PERIOD; i++)
			pattern[i] = (uint8_t)(i % PERIOD);
	memcpy(to, pattern + 31 * row % PERIOD, COLS);
}

static void unmap_table(void *data, void *user)
{
	*(int *)user = 1;
	munmap(data, (size_t)ROWS * COLS);
}

static struct kiln_tensor *make_table(int *unmapped)
{
	uint8_t *data = map((size_t)ROWS * COLS);
	struct kiln_tensor *table = KILN_TENSOR_NONE;

	for (int64_t row = 0; row < ROWS; row++)
		fill_row(data + row * COLS, row);
	OK(kiln_tensor_from_foreign(&table, dev, KILN_U8, 2,
				    SHAPE(ROWS, COLS), data,
				    KILN_FOREIGN_READ_ONLY, unmap_table,
				    unmapped));
	return table;
}

static void expect_rows(struct kiln_tensor *t, int count, const int64_t *rows)
{
	size_t bytes = (size_t)count * COLS;
	uint8_t *have = malloc(bytes), want[COLS];

	OK(kiln_tensor_read(t, have, bytes));
	for (int i = 0; i < count; i++) {
		fill_row(want, rows[i]);
		ck_assert_msg(!memcmp(have + (size_t)i * COLS, want, COLS),
			      "row %lld is wrong", (long long)rows[i]);
	}
	free(have);
}

/* Row 239674 begins below element 2^31 and ends above. */
START_TEST(rows_beyond_2_to_31)
{
	static const int64_t rows[] = { 239673, 239674, 262143, 0 };
	int unmapped = 0;
	struct kiln_tensor *table = make_table(&unmapped);
	struct kiln_tensor *at = make(dev, KILN_I64, 1, SHAPE(4), rows);
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	const struct kiln_slice last[] = { { -1, KILN_SLICE_END, 1 } };

	OK(kiln_select(&y, table, 0, at));
	expect_rows(y, 4, rows);
	OK(kiln_reshape(&at, at, 2, SHAPE(4, 1)));
	OK(kiln_expand(&at, at, 2, SHAPE(4, COLS)));
	OK(kiln_gather(&y, table, 0, at));
	expect_rows(y, 4, rows);
	OK(kiln_slice(&y, table, 1, last));
	expect_rows(y, 1, (const int64_t[]){ ROWS - 1 });
	OK(kiln_max(&y, table));
	EXPECT(uint8_t, y, PERIOD - 1);
	kiln_tensor_release(at);
	kiln_tensor_release(y);
	kiln_tensor_clear(&table);
	OK(kiln_device_sync(dev));
	ck_assert_int_eq(unmapped, 1);
}
END_TEST

/* ---- 2^31 elements and more ---- */

#define LONG_ROWS 4194305
#define LONG_COLS 512

/* The elements from first on, count of them, are all the given f16. */
static void expect_halves(struct kiln_tensor *t, int64_t first, int count,
			  uint16_t want)
{
	const struct kiln_slice part = { first, first + count, 1 };
	struct kiln_tensor *flat = KILN_TENSOR_NONE;
	uint16_t have[4];

	OK(kiln_reshape(&flat, t, 1, SHAPE(kiln_tensor_count(t))));
	OK(kiln_slice(&flat, flat, 1, &part));
	OK(kiln_tensor_read(flat, have, (size_t)count * 2));
	for (int i = 0; i < count; i++)
		ck_assert_msg(have[i] == want, "element %lld is %#x",
			      (long long)first + i, have[i]);
	kiln_tensor_release(flat);
}

START_TEST(elements_beyond_2_to_31)
{
	const int64_t half = INT64_C(1) << 31;
	const int64_t count = INT64_C(1) * LONG_ROWS * LONG_COLS;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *before;

	OK(kiln_zeros(&x, dev, KILN_F16, 2, SHAPE(LONG_ROWS, LONG_COLS)));
	before = x;
	OK(kiln_add_scalar(&x, x, kiln_float(1)));
	ck_assert_ptr_eq(x, before);
	expect_halves(x, 0, 4, 0x3c00);
	expect_halves(x, half - 2, 4, 0x3c00);
	expect_halves(x, count - 4, 4, 0x3c00);
	OK(kiln_sum_dim(&x, x, 1));
	expect_halves(x, LONG_ROWS - 4, 4, 0x6000);
	kiln_tensor_release(x);
}
END_TEST

/* ---- more than 2^32 ---- */

START_TEST(sum_of_more_than_2_to_32)
{
	const int64_t one = 1, shape[] = { 65537, 65536 };
	struct kiln_tensor *x = make(dev, KILN_I64, 1, SHAPE(1), &one);

	OK(kiln_expand(&x, x, 2, shape));
	ck_assert_int_eq(kiln_tensor_count(x), 4295032832);
	OK(kiln_sum(&x, x));
	EXPECT(int64_t, x, 4295032832);
	kiln_tensor_release(x);
}
END_TEST

/*
 * As many with memory behind them: zeros, which cost nothing while they are
 * only read, and two last elements.
 */
START_TEST(bytes_beyond_2_to_32)
{
	const size_t bytes = (size_t)65537 * 65536;
	const struct kiln_slice last = { -1, KILN_SLICE_END, 1 };
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	uint8_t *data = map(bytes);

	data[bytes - 2] = data[bytes - 1] = 9;
	OK(kiln_tensor_from_foreign(&x, dev, KILN_U8, 2, SHAPE(65537, 65536),
				    data, KILN_FOREIGN_READ_ONLY, NULL, NULL));
	OK(kiln_max(&y, x));
	EXPECT(uint8_t, y, 9);
	OK(kiln_sum_dim(&y, x, 1));
	OK(kiln_slice(&y, y, 1, &last));
	EXPECT(uint8_t, y, 18);
	OK(kiln_reshape(&x, x, 1, SHAPE(65537 * INT64_C(65536))));
	OK(kiln_argmax(&y, x, 0, KILN_I64));
	EXPECT(int64_t, y, 4295032830);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	OK(kiln_device_sync(dev));
	munmap(data, bytes);
}
END_TEST

/* ---- whether to run ---- */

static unsigned long long available_kb(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long long kb = 0;
	char line[128];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu", &kb) == 1)
			break;
	fclose(file);
	return kb;
}

/* Why the test is not run, or NULL. */
static const char *reason(void)
{
	const char *quick = getenv("CHECK_QUICK");

	if (SANITIZED)
		return "a sanitizer takes too much memory";
	if (quick && !strcmp(quick, "1"))
		return "CHECK_QUICK is 1";
	if (available_kb() < NEEDED_KB)
		return "less than 12 GiB of memory are available";
	return NULL;
}

int main(void)
{
	Suite *suite;
	TCase *tcase;

	if (reason()) {
		printf("skipped: %s\n", reason());
		return SKIP;
	}
	suite = suite_create("large");
	tcase = tcase_create("cpu");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, rows_beyond_2_to_31);
	tcase_add_test(tcase, elements_beyond_2_to_31);
	tcase_add_test(tcase, sum_of_more_than_2_to_32);
	tcase_add_test(tcase, bytes_beyond_2_to_32);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
