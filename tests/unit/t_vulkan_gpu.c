/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#ifdef KILNI_WITH_VULKAN
#include "drivers/vulkan/internal.h"
#endif
#include "there.h"

/* What the Vulkan driver does on GPUs only, on a software device by options. */

#define SELECTOR "vulkan:cpu"

static struct kiln_device *dev;

static void setup_tiles(void)
{
	setenv("KILN_VULKAN_TILES", "1", 1);
	dev = open_device(SELECTOR);
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
	dev = NULL;
}

/* ---- products ---- */

/* Small numbers, of which all sums are exact. */
static int64_t number(int64_t i)
{
	return (i * 7 + i / 5) % 5 - 2;
}

struct product {
	enum kiln_dtype dtype;
	int64_t batches, m, n, k;
	bool turned;           /* both operands are transposed views */
};

static void *numbers(enum kiln_dtype dtype, int64_t count)
{
	int32_t *i32 = malloc((size_t)count * sizeof(*i32));
	float *f32 = (float *)i32;

	ck_assert_ptr_nonnull(i32);
	for (int64_t i = 0; i < count; i++)
		if (dtype == KILN_F32)
			f32[i] = (float)number(i);
		else
			i32[i] = (int32_t)number(i);
	return i32;
}

static struct kiln_tensor *operand(const struct product *p, int64_t rows,
				   int64_t columns)
{
	static const int turn[3] = { 0, 2, 1 };
	const int64_t shape[3] = { p->batches, p->turned ? columns : rows,
				   p->turned ? rows : columns };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	void *data = numbers(p->dtype, p->batches * rows * columns);

	t = make(dev, p->dtype, 3, shape, data);
	free(data);
	if (p->turned)
		OK(kiln_permute(&t, t, turn));
	return t;
}

/* Element (i, j) of matrix b of an operand of so many rows and columns. */
static int64_t at(const struct product *p, int64_t rows, int64_t columns,
		  int64_t b, int64_t i, int64_t j)
{
	int64_t inner = p->turned ? j * rows + i : i * columns + j;

	return number(b * rows * columns + inner);
}

static int64_t expected(const struct product *p, int64_t b, int64_t i,
			int64_t j)
{
	int64_t sum = 0;

	for (int64_t e = 0; e < p->k; e++)
		sum += at(p, p->m, p->k, b, i, e) * at(p, p->k, p->n, b, e, j);
	return sum;
}

static void check_product(const struct product *p)
{
	struct kiln_tensor *a = operand(p, p->m, p->k);
	struct kiln_tensor *b = operand(p, p->k, p->n);
	int64_t count = p->batches * p->m * p->n;
	int32_t *have = malloc((size_t)count * sizeof(*have));

	ck_assert_ptr_nonnull(have);
	OK(kiln_matmul(&a, a, b));
	OK(kiln_tensor_read(a, have, (size_t)count * sizeof(*have)));
	for (int64_t i = 0; i < count; i += i % 11 + 1) {
		int64_t in = i % (p->m * p->n);
		int64_t want = expected(p, i / (p->m * p->n), in / p->n,
					in % p->n);
		float f;

		memcpy(&f, &have[i], sizeof(f));
		ck_assert_int_eq(p->dtype == KILN_F32 ? (int64_t)f : have[i],
				 want);
	}
	free(have);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
}

/*
 * Each size of tile, whole and cut, read by runs and elements; splits of k. The
 * last two, of large tiles, take a software device many seconds to compile.
 */
static const struct product products[] = {
	{ KILN_F32, 1, 64, 96, 300, false },
	{ KILN_F32, 1, 33, 10, 100, true },
	{ KILN_F32, 16, 70, 65, 33, true },
	{ KILN_I32, 96, 33, 36, 20, false },
	{ KILN_F32, 96, 36, 40, 20, true },
};
#define PRODUCTS ((int)(sizeof(products) / sizeof(*products)))
#define SMALL_PRODUCTS (PRODUCTS - 2)

START_TEST(products_by_tiles)
{
	if (_i < SMALL_PRODUCTS || getenv("KILN_VULKAN_ALL"))
		check_product(&products[_i]);
}
END_TEST

/* ---- copies that turn axes round ---- */

/* The last two axes change places; by whole tiles, words, and at edges. */
static void check_turn(enum kiln_dtype dtype, size_t bytes, int64_t rows,
		       int64_t columns)
{
	static const int turn[3] = { 0, 2, 1 };
	const int64_t shape[3] = { 2, rows, columns };
	const int64_t turned[3] = { 2, columns, rows };
	size_t size = (size_t)(2 * rows * columns) * bytes;
	unsigned char *data = malloc(size), *have = malloc(size);
	struct kiln_tensor *x, *y = KILN_TENSOR_NONE;

	ck_assert(data && have);
	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)(i * 13 + i / 251);
	x = make(dev, dtype, 3, shape, data);
	OK(kiln_permute(&x, x, turn));
	OK(kiln_zeros(&y, dev, dtype, 3, turned));
	OK(kiln_copy_into(y, x));
	OK(kiln_tensor_read(y, have, size));
	for (int64_t i = 0; i < 2 * rows * columns; i++) {
		int64_t in = i % (rows * columns), part = i - in;
		int64_t from = part + in % rows * columns + in / rows;

		ck_assert_mem_eq(have + (size_t)i * bytes,
				 data + (size_t)from * bytes, bytes);
	}
	free(data);
	free(have);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}

START_TEST(turned_copies)
{
	check_turn(KILN_U8, 1, 64, 132);
	check_turn(KILN_U8, 1, 65, 67);
	check_turn(KILN_I16, 2, 130, 64);
	check_turn(KILN_I32, 4, 65, 140);
	check_turn(KILN_I64, 8, 33, 70);
}
END_TEST

/* ---- softmax ---- */

struct rows {
	enum kiln_dtype dtype;
	int64_t count, length;
	bool is_log, turned;   /* turned: along the first of two axes */
};

/* Results down to subnormal ones; four rows are not all finite. */
static float *logits(const struct rows *r)
{
	float *x = malloc((size_t)(r->count * r->length) * sizeof(*x));
	uint32_t state = 1;

	ck_assert_ptr_nonnull(x);
	for (int64_t i = 0; i < r->count * r->length; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = -(float)(state >> 8) / (1 << 24) * (i & 1 ? 110 : 4);
	}
	for (int64_t i = 0; i < r->length; i++)
		x[i] = x[3 * r->length + i] = -INFINITY;
	x[r->length] = NAN;
	x[3 * r->length - 1] = INFINITY;
	x[3 * r->length + r->length / 2] = 3;
	return x;
}

static float *softmax_on(struct kiln_device *where, const struct rows *r,
			 const float *x)
{
	float *y = malloc((size_t)(r->count * r->length) * sizeof(*y));
	struct kiln_tensor *t = make(where, KILN_F32, 2,
				     SHAPE(r->count, r->length), x);

	ck_assert_ptr_nonnull(y);
	OK(kiln_cast(&t, t, r->dtype));
	if (r->turned)
		OK(kiln_transpose(&t, t));
	OK(r->is_log ? kiln_log_softmax(&t, t, !r->turned)
		     : kiln_softmax(&t, t, !r->turned));
	if (r->turned)
		OK(kiln_transpose(&t, t));
	OK(kiln_cast(&t, t, KILN_F32));
	OK(kiln_tensor_read(t, y, (size_t)(r->count * r->length) * sizeof(*y)));
	kiln_tensor_release(t);
	return y;
}

/*
 * Held by a thread, by many, in vectors; longer; in chunks; made of others;
 * with subgroups by one of them and by larger groups of theirs.
 */
static const struct rows softmaxes[] = {
	{ KILN_F32, 70, 10, false, false },
	{ KILN_F16, 5, 784, false, false },
	{ KILN_BF16, 5, 784, true, false },
	{ KILN_F64, 5, 1025, false, false },
	{ KILN_F32, 5, 9001, true, false },
	{ KILN_F32, 5, 20000, false, false },
	{ KILN_F32, 5, 40, false, true },
	{ KILN_F32, 8192, 128, false, false },
	{ KILN_F16, 8192, 128, true, false },
	{ KILN_F32, 4, 8196, false, false },
	{ KILN_F32, 600, 32768, false, false },
};
#define SOFTMAXES ((int)(sizeof(softmaxes) / sizeof(*softmaxes)))

/* The CPU makes it of other operations, whose bits are the same. */
START_TEST(softmax_of_rows)
{
	const struct rows *r = &softmaxes[_i];
	struct kiln_device *cpu = open_device("cpu");
	float *x = logits(r), *want = softmax_on(cpu, r, x);
	float *have = softmax_on(dev, r, x);

	for (int64_t i = 0; i < r->count * r->length; i++)
		if (have[i] != want[i] && !(isnan(have[i]) && isnan(want[i])))
			ck_abort_msg("element %ld: %a in place of %a", (long)i,
				     (double)have[i], (double)want[i]);
	ck_assert(isnan(have[0]) && isnan(have[2 * r->length - 1]));
	ck_assert(isnan(have[3 * r->length - 1]));
	ck_assert(have[3 * r->length + r->length / 2] == !r->is_log);
	ck_assert(have[3 * r->length] == (r->is_log ? -INFINITY : 0));
	free(x);
	free(want);
	free(have);
	kiln_device_release(cpu);
}
END_TEST

/* ---- transfers by way of staging memory ---- */

static void setup_staging(void)
{
	setenv("KILN_VULKAN_STAGING", "1", 1);
	dev = open_device(SELECTOR);
}

static unsigned char pattern(int64_t i)
{
	return (unsigned char)(i * 31 + (i >> 12) * 7 + (i >> 21));
}

/* In one block, in two, and by several threads, the last block cut. */
static const int64_t sizes[] = { 1, 4096, (512 << 10) + 3, (9 << 20) + 5,
				 (33 << 20) - 1 };
#define SIZES ((int)(sizeof(sizes) / sizeof(*sizes)))

static enum kiln_status there_and_back(int64_t count)
{
	unsigned char *data = malloc((size_t)count);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	enum kiln_status status;

	ck_assert_ptr_nonnull(data);
	for (int64_t i = 0; i < count; i++)
		data[i] = pattern(i);
	status = kiln_tensor_from_data(&t, dev, KILN_U8, 1, &count, data,
				       (size_t)count);
	memset(data, 0, (size_t)count);
	if (!status)
		status = kiln_tensor_read(t, data, (size_t)count);
	for (int64_t i = 0; !status && i < count; i++)
		if (data[i] != pattern(i))
			ck_abort_msg("byte %ld of %ld", (long)i, (long)count);
	free(data);
	kiln_tensor_release(t);
	return status;
}

START_TEST(staged_transfers)
{
	for (int i = 0; i < SIZES; i++)
		OK(there_and_back(sizes[i]));
}
END_TEST

/* A transfer of several threads fails as one, and the next one is good. */
START_TEST(staged_transfers_fail)
{
	static const char *const site[] = { "vkQueueSubmit",
					    "vkBeginCommandBuffer",
					    "vkAllocateMemory" };

	for (unsigned i = 0; i < 3; i++)
		for (uint64_t nth = 1; nth < 12; nth += 3) {
			enum kiln_status status;

			OK(kilni_fault_set(site[i], nth, KILN_ERR_DRIVER));
			status = there_and_back(sizes[SIZES - 1]);
			/* Fewer lanes do as well. */
			ck_assert(status == KILN_ERR_DRIVER || i == 2);
			OK(kilni_fault_set(NULL, 0, KILN_OK));
			OK(there_and_back(sizes[2]));
		}
}
END_TEST

/* Marked memory is copied in place, also from its middle. */
START_TEST(pinned_transfers)
{
	const int64_t count = (1 << 20) + 7;
	unsigned char *data = malloc((size_t)count + 2);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_host_range range = { data, (size_t)count + 2 };

	ck_assert_ptr_nonnull(data);
	for (int64_t i = 0; i < count; i++)
		data[i + 1] = pattern(i);
	OK(kiln_device_stage(dev, &range, 1));
	OK(kilni_fault_set("vkQueueSubmit", 1000000, KILN_ERR_DRIVER));
	OK(kiln_tensor_from_data(&t, dev, KILN_U8, 1, &count, data + 1,
				 (size_t)count));
	memset(data, 0, (size_t)count + 2);
	OK(kiln_tensor_read(t, data + 1, (size_t)count));
	/* One submission each; staged they would be of several blocks. */
	ck_assert_uint_eq(kilni_fault_passes(), 2);
	ck_assert(!data[0] && !data[count + 1]);
	for (int64_t i = 0; i < count; i++)
		ck_assert_uint_eq(data[i + 1], pattern(i));
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	OK(kiln_device_unstage(dev, &range, 1));
	kiln_tensor_release(t);
	free(data);
}
END_TEST

#ifdef KILNI_WITH_VULKAN

/* ---- memory of the host's, on the driver itself ---- */

#define PINNED ((size_t)1 << 20)

static char *host;
static int gone;

static void note_gone(void *memory)
{
	ck_assert_ptr_eq(memory, host);
	gone++;
}

/* A device with a page, into which the host's memory can be copied. */
static struct kilni_vk_hw *open_pinned(struct kilni_page *page)
{
	const struct kilni_driver *driver = &kilni_vulkan_driver;
	struct kilni_hw *hw = NULL;

	gone = 0;
	host = aligned_alloc(4096, PINNED);
	ck_assert_ptr_nonnull(host);
	memset(host, 1, PINNED);
	OK(driver->driver->open(0, &hw));
	OK(driver->memory->page_alloc(hw, PINNED, page));
	OK(driver->memory->host_pin(hw, host, PINNED));
	return kilni_vk_hw_of(hw);
}

static void setup_own(void)
{
	setenv("KILN_VULKAN_STAGING", "1", 1);
}

static void teardown_own(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
}

/* Lost by a call that says so, and for it does not answer. */
START_TEST(memory_of_a_lost_device_stays)
{
	const struct kilni_memory_ops *memory = kilni_vulkan_driver.memory;
	struct kilni_page page;
	struct kilni_vk_hw *hw;

	setenv("KILN_VULKAN_TIMEOUT_MS", "200", 1);
	hw = open_pinned(&page);
	OK(kilni_fault_set(_i ? "vulkan_signal" : "vkGetSemaphoreCounterValue",
			   1, KILN_ERR_DEVICE_LOST));
	ck_assert_int_eq(memory->write(&hw->base, page.address, host, PINNED),
			 KILN_ERR_DEVICE_LOST);
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	ck_assert(!memory->host_unpin(&hw->base, host, PINNED, note_gone));
	ck_assert_int_eq(gone, 0);
	memory->page_free(&hw->base, &page);
	kilni_vulkan_driver.device->close(&hw->base);
	ck_assert_int_eq(gone, !_i);
	/* Where it hangs the device has it for good. */
	if (!_i)
		free(host);
}
END_TEST

struct upload {
	struct kilni_vk_hw *hw;
	uint64_t to;
	const void *from;
	size_t bytes;
	enum kiln_status status;
};

static void *do_upload(void *arg)
{
	struct upload *u = arg;

	u->status = kilni_vulkan_driver.memory->write(&u->hw->base, u->to,
						      u->from, u->bytes);
	return NULL;
}

static void wait_for_upload(struct kilni_vk_hw *hw)
{
	while (!pthread_mutex_trylock(&hw->staging.lock)) {
		pthread_mutex_unlock(&hw->staging.lock);
		usleep(1000);
	}
}

/* A copy is under way, and takes long: the queue is not to be had. */
START_TEST(what_is_pinned_is_told_during_a_copy)
{
	const struct kilni_memory_ops *memory = kilni_vulkan_driver.memory;
	struct kilni_page page;
	struct kilni_vk_hw *hw = open_pinned(&page);
	char *other = aligned_alloc(4096, PINNED);
	struct upload u = { hw, page.address, other, PINNED, KILN_OK };
	pthread_t thread;

	ck_assert_ptr_nonnull(other);
	memset(other, 2, PINNED);
	pthread_mutex_lock(&kilni_vk_transfers(hw)->lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, do_upload, &u), 0);
	wait_for_upload(hw);
	ck_assert(kilni_vk_is_pinned(hw, host + 5, 100));
	ck_assert(!kilni_vk_is_pinned(hw, other, 100));
	/* Of other memory, that is. */
	ck_assert(memory->host_unpin(&hw->base, host, PINNED, note_gone));
	OK(memory->host_pin(&hw->base, host, PINNED));
	ck_assert(kilni_vk_is_pinned(hw, host, PINNED));
	pthread_mutex_unlock(&kilni_vk_transfers(hw)->lock);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	OK(u.status);
	ck_assert(memory->host_unpin(&hw->base, host, PINNED, note_gone));
	ck_assert_int_eq(gone, 2);
	memory->page_free(&hw->base, &page);
	kilni_vulkan_driver.device->close(&hw->base);
	free(host);
	free(other);
}
END_TEST

/*
 * Nothing can be handed to the queue that computes: transfers have one of
 * their own, where the device has one for that (tests/vulkan/transfers.sh).
 */
START_TEST(transfers_have_their_queue)
{
	const struct kilni_memory_ops *memory = kilni_vulkan_driver.memory;
	struct kilni_page page;
	struct kilni_vk_hw *hw = open_pinned(&page);
	char *other = calloc(PINNED, 1);
	struct upload u = { hw, page.address, host, PINNED, KILN_OK };
	pthread_t thread;

	ck_assert_ptr_nonnull(other);
	if (hw->physical->families == 1) {
		printf("skipped: no queue for transfers\n");
	} else {
		pthread_mutex_lock(&kilni_vk_computes(hw)->lock);
		ck_assert_int_eq(pthread_create(&thread, NULL, do_upload, &u),
				 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		OK(u.status);
		OK(memory->read(&hw->base, other, page.address, PINNED));
		pthread_mutex_unlock(&kilni_vk_computes(hw)->lock);
		ck_assert_int_eq(memcmp(host, other, PINNED), 0);
	}
	ck_assert(memory->host_unpin(&hw->base, host, PINNED, note_gone));
	memory->page_free(&hw->base, &page);
	kilni_vulkan_driver.device->close(&hw->base);
	free(host);
	free(other);
}
END_TEST

static TCase *own_cases(void)
{
	TCase *own = tcase_create("own");

	tcase_add_checked_fixture(own, setup_own, teardown_own);
	tcase_set_timeout(own, 60);
	tcase_add_loop_test(own, memory_of_a_lost_device_stays, 0, 2);
	tcase_add_test(own, what_is_pinned_is_told_during_a_copy);
	tcase_add_test(own, transfers_have_their_queue);
	return own;
}

#endif

/* ---- a first copy ---- */

/*
 * A device that had nothing to do until now is not hung for that: the first
 * copy takes longer than one wait for it, a fifth of a second's memory.
 */
START_TEST(a_long_first_copy)
{
	const int64_t count = (int64_t)256 << 20;
	unsigned char *data = calloc((size_t)count, 1);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_host_range range = { data, (size_t)count };

	ck_assert_ptr_nonnull(data);
	kiln_device_release(dev);
	setenv("KILN_VULKAN_TIMEOUT_MS", "4000", 1);
	dev = open_device(SELECTOR);
	OK(kiln_device_stage(dev, &range, 1));
	OK(kiln_tensor_from_data(&t, dev, KILN_U8, 1, &count, data,
				 (size_t)count));
	OK(kiln_device_unstage(dev, &range, 1));
	kiln_tensor_release(t);
	free(data);
}
END_TEST

int main(void)
{
	TCase *tiles, *staging;
	Suite *suite;

	if (!device_is_there(SELECTOR))
		return 77;
	suite = suite_create("vulkan_gpu");
	tiles = tcase_create("tiles");
	staging = tcase_create("staging");
	tcase_add_checked_fixture(tiles, setup_tiles, teardown);
	tcase_set_timeout(tiles, 120);
	tcase_add_loop_test(tiles, products_by_tiles, 0, PRODUCTS);
	tcase_add_test(tiles, turned_copies);
	tcase_add_loop_test(tiles, softmax_of_rows, 0, SOFTMAXES);
	suite_add_tcase(suite, tiles);
	tcase_add_checked_fixture(staging, setup_staging, teardown);
	tcase_set_timeout(staging, 120);
	tcase_add_test(staging, staged_transfers);
	tcase_add_test(staging, staged_transfers_fail);
	tcase_add_test(staging, pinned_transfers);
	tcase_add_test(staging, a_long_first_copy);
	suite_add_tcase(suite, staging);
#ifdef KILNI_WITH_VULKAN
	suite_add_tcase(suite, own_cases());
#endif
	return run_suite(suite);
}
