/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <pthread.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"

/* Transfers that have a completion, and several reads at once. */

#define SECOND INT64_C(1000000000)
#define BIG (1 << 16)

static struct kiln_device *dev;
static struct kiln_stream *own;
static struct kiln_completions *ring;
static float *data;

static void setup(void)
{
	dev = open_tested();
	own = NULL;
	ring = NULL;
	data = calloc(BIG, sizeof(float));
	OK(kiln_stream_current(&own, dev));
	OK(kiln_completions_create(&ring, 64));
}

static void setup_small_ring(void)
{
	setenv("KILN_RING_LIMIT", "64", 1);
	setup();
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_completions_release(ring);
	kiln_stream_release(own);
	kiln_device_release(dev);
	free(data);
}

static void read_big(struct kiln_tensor *t, float *to, uint64_t user)
{
	OK(kiln_tensor_read_async(t, to, BIG * sizeof(float), ring, user));
}

START_TEST(what_is_there_is_read)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *y = KILN_TENSOR_NONE;
	struct kiln_completion c;
	float have[3] = { 0 };

	OK(kiln_neg(&y, x));
	OK(kiln_device_sync(dev));
	OK(kiln_tensor_read_async(y, have, sizeof(have), ring, 7));
	c = wait_one(ring);
	ck_assert_uint_eq(c.user, 7);
	ck_assert_int_eq(c.status, KILN_OK);
	ck_assert_str_eq(c.op, "neg");
	ck_assert(have[0] == -1 && have[1] == -2 && have[2] == -3);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* Behind a gate: the call returns, nothing is posted, then all is. */
START_TEST(a_read_waits_for_its_tensor_not_the_caller)
{
	struct kiln_tensor *x = full_of(dev, BIG, 3), *y = KILN_TENSOR_NONE;
	struct kiln_completion c;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, x));
	read_big(y, data, 1);
	FAILS(kiln_completions_wait(ring, SECOND / 100), KILN_ERR_TIMEOUT, "");
	ck_assert(data[0] == 0);
	kilni_gate_open(&gate);
	c = wait_one(ring);
	ck_assert_int_eq(c.status, KILN_OK);
	ck_assert_str_eq(c.op, "add");
	expect_values(data, BIG, 6);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* A stream that is held or has failed is no matter where nothing is owed. */
START_TEST(a_read_waits_for_no_other_work)
{
	struct kiln_tensor *x = full_of(dev, BIG, 3), *y = KILN_TENSOR_NONE;
	int gate = 0;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, x));
	read_big(y, data, 1);
	read_big(x, data, 2);
	ck_assert_uint_eq(wait_one(ring).user, 2);
	expect_values(data, BIG, 3);
	ck_assert_ptr_null(take_one(ring).op);
	kilni_gate_open(&gate);
	ck_assert_uint_eq(wait_one(ring).user, 1);
	expect_values(data, BIG, 6);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* A Vulkan device with one queue for all: copies stand behind kernels in it. */
static bool copies_wait_for_kernels(void)
{
	const char *what = kiln_device_describe(dev);

	return strstr(what, "copies") && strstr(what, "no queue for transfers");
}

static void queue_kernels(struct kiln_tensor *x, int count)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	for (int i = 0; i < count; i++)
		OK(kiln_exp(&y, x));
	OK(kiln_stream_flush(own));
	kiln_tensor_release(y);
}

/*
 * Nor kernels that the device is at: they take longer behind the read than the
 * read itself. Larger ones where the machine is too busy to tell.
 */
START_TEST(a_read_passes_kernels_at_work)
{
	struct kiln_tensor *other = full_of(dev, 4, 3);
	bool passed = copies_wait_for_kernels();
	uint64_t start, end;

	if (passed)
		printf("skipped: %s\n", kiln_device_describe(dev));
	for (int64_t size = BIG; size <= 1024 * BIG && !passed; size *= 4) {
		struct kiln_tensor *x = full_of(dev, size, 0);

		OK(kiln_device_sync(dev));
		queue_kernels(x, 1000);
		start = kilni_now_ns();
		OK(kiln_tensor_read(other, data, 4 * sizeof(float)));
		end = kilni_now_ns();
		OK(kiln_stream_sync(own));
		passed = end - start < kilni_now_ns() - end;
		expect_values(data, 4, 3);
		kiln_tensor_release(x);
	}
	ck_assert(passed);
	kiln_tensor_release(other);
}
END_TEST

/* P08: what comes after the call does not reach it. */
START_TEST(a_read_sees_what_was_there_at_the_call)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1);
	struct kiln_tensor *two = full_of(dev, BIG, 2);
	struct kiln_stream *other = NULL;
	int gate = 0;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&x, x, kiln_float(5)));
	read_big(x, data, 1);
	OK(kiln_copy_into(x, two));
	OK(kiln_stream_create(&other, dev));
	OK(kiln_stream_set_current(dev, other));
	OK(kiln_copy_into(x, two));
	OK(kiln_stream_set_current(dev, NULL));
	/* Its memory is taken again at once. */
	kiln_tensor_clear(&x);
	x = full_of(dev, BIG, 9);
	kilni_gate_open(&gate);
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	expect_values(data, BIG, 5);
	expect_all(x, 9);
	kiln_stream_release(other);
	kiln_tensor_release(x);
	kiln_tensor_release(two);
}
END_TEST

START_TEST(a_view_is_read_dense)
{
	struct kiln_tensor *x = make(dev, KILN_F32, 2, SHAPE(2, 3),
				     (float[]){ 1, 2, 3, 4, 5, 6 });
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	float have[6] = { 0 };
	int gate = 0;

	OK(kiln_swap_dims(&x, x, 0, 1));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&y, x, kiln_float(2)));
	OK(kiln_swap_dims(&y, y, 0, 1));
	OK(kiln_tensor_read_async(y, have, sizeof(have), ring, 1));
	kilni_gate_open(&gate);
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	for (int i = 0; i < 6; i++)
		ck_assert(have[i] == 2 * (float)(i + 1));
	OK(kiln_tensor_read_async(x, have, sizeof(have), ring, 2));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	ck_assert(have[0] == 1 && have[1] == 4 && have[2] == 2 &&
		  have[3] == 5 && have[4] == 3 && have[5] == 6);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(nothing_is_read_too)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(0, 3)));
	OK(kiln_tensor_read_async(x, NULL, 0, ring, 1));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	OK(kiln_tensor_write_async(x, NULL, 0, ring, 2));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	kiln_tensor_release(x);
}
END_TEST

/* ---- writes ---- */

START_TEST(a_write_takes_its_turn)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *z = KILN_TENSOR_NONE;
	struct kiln_completion c;
	int gate = 0;

	for (int i = 0; i < BIG; i++)
		data[i] = 8;
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_neg(&y, x));
	OK(kiln_tensor_write_async(x, data, BIG * sizeof(float), ring, 1));
	OK(kiln_neg(&z, x));
	ck_assert_ptr_null(take_one(ring).op);
	kilni_gate_open(&gate);
	c = wait_one(ring);
	ck_assert_int_eq(c.status, KILN_OK);
	ck_assert_str_eq(c.op, "");
	memset(data, 0, BIG * sizeof(float));
	expect_all(y, -1);
	expect_all(x, 8);
	expect_all(z, -8);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
}
END_TEST

START_TEST(a_part_is_written)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3, 4, 5, 6);
	struct kiln_tensor *view = KILN_TENSOR_NONE;
	static const float some[] = { 10, 20, 30, 40 };

	OK(kiln_reshape(&view, x, 2, SHAPE(2, 3)));
	OK(kiln_swap_dims(&view, view, 0, 1));
	OK(kiln_slice(&view, view, 1,
		      &(struct kiln_slice){ 0, 2, 1 }));
	OK(kiln_tensor_write_async(view, some, sizeof(some), ring, 1));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	EXPECT_FLOATS(x, 10, 30, 3, 20, 40, 6);
	kiln_tensor_release(x);
	kiln_tensor_release(view);
}
END_TEST

START_TEST(bools_become_0_or_1)
{
	struct kiln_tensor *b = make(dev, KILN_BOOL_U32, 1, SHAPE(3),
				     (uint32_t[]){ 1, 1, 1 });
	static const uint32_t some[] = { 0, 0x100, 7 };

	OK(kiln_tensor_write_async(b, some, sizeof(some), ring, 1));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	EXPECT(uint32_t, b, 0, 1, 1);
	kiln_tensor_release(b);
}
END_TEST

/* ---- failures ---- */

/* exp fails on the device; y depends on it. */
static struct kiln_tensor *failing(struct kiln_tensor *x, int *gate)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, gate));
	OK(kiln_exp(&y, x));
	OK(kilni_fault_set("launch", 1, KILN_ERR_DRIVER));
	return y;
}

START_TEST(a_failure_is_told_once)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y;
	struct kiln_completion c;
	int gate = 0;

	y = failing(x, &gate);
	data[0] = 77;
	read_big(y, data, 1);
	read_big(y, data, 2);
	kilni_gate_open(&gate);
	c = wait_one(ring);
	ck_assert_uint_eq(c.user, 1);
	ck_assert_int_eq(c.status, KILN_ERR_DRIVER);
	ck_assert_str_eq(c.op, "exp");
	c = wait_one(ring);
	ck_assert_uint_eq(c.user, 2);
	ck_assert_int_eq(c.status, KILN_ERR_DEPENDENCY);
	read_big(y, data, 3);
	ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DEPENDENCY);
	ck_assert(data[0] == 77);
	FAILS(kiln_tensor_read(y, data, BIG * sizeof(float)),
	      KILN_ERR_DEPENDENCY, "exp");
	/* Told, but the state can be asked. */
	OK(kiln_stream_sync(own));
	ck_assert(kiln_stream_poisoned(own));
	FAILS(kiln_stream_failure(own), KILN_ERR_DRIVER, "kiln_exp");
	FAILS(kiln_stream_failure(own), KILN_ERR_DRIVER, "kiln_exp");
	/* A poisoned stream is no matter to what is sound. */
	read_big(x, data, 4);
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	expect_values(data, BIG, 1);
	OK(kiln_stream_reset(own));
	OK(kiln_stream_failure(own));
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* The whole is written: it is sound again. A part is not. */
START_TEST(a_write_to_what_failed)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y;
	struct kiln_tensor *part = KILN_TENSOR_NONE;
	int gate = 0;

	y = failing(x, &gate);
	OK(kiln_slice(&part, y, 1, &(struct kiln_slice){ 0, 1, 1 }));
	OK(kiln_tensor_write_async(part, data, sizeof(float), ring, 1));
	kilni_gate_open(&gate);
	ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DEPENDENCY);
	FAILS(kiln_tensor_read(y, data, BIG * sizeof(float)), KILN_ERR_DRIVER,
	      "exp");
	for (int i = 0; i < BIG; i++)
		data[i] = 4;
	OK(kiln_tensor_write_async(y, data, BIG * sizeof(float), ring, 2));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	expect_all(y, 4);
	kiln_tensor_release(part);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* The copy itself fails: told by the completion; a write spoils its tensor. */
START_TEST(a_failed_copy)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *z = KILN_TENSOR_NONE;
	struct kiln_completion failed;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("read", 1, KILN_ERR_DRIVER));
	read_big(x, data, 1);
	ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DRIVER);
	read_big(x, data, 2);
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	expect_values(data, BIG, 1);
	/* Of several that is the failure of none. */
	OK(kiln_neg(&z, x));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("read", 1, KILN_ERR_DRIVER));
	OK(kiln_transaction_read_async(
		(const struct kiln_read[]){
			{ x, data, BIG * sizeof(float) },
			{ z, data, BIG * sizeof(float) } },
		2, ring, 4));
	failed = wait_one(ring);
	ck_assert_int_eq(failed.status, KILN_ERR_DRIVER);
	ck_assert_str_eq(failed.op, "");
	OK(kilni_fault_set("write", 1, KILN_ERR_DRIVER));
	OK(kiln_tensor_write_async(x, data, BIG * sizeof(float), ring, 3));
	ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DRIVER);
	FAILS(kiln_tensor_read(x, data, BIG * sizeof(float)), KILN_ERR_DRIVER,
	      "");
	FAILS(kiln_neg(&y, x), KILN_ERR_DEPENDENCY, "kiln_neg");
	/* The caller's stream had no part in it. */
	ck_assert(!kiln_stream_poisoned(own));
	kiln_tensor_clear(&z);
	z = full_of(dev, BIG, 5);
	expect_all(z, 5);
	kiln_tensor_release(x);
	kiln_tensor_release(z);
}
END_TEST

START_TEST(a_lost_device_posts_all)
{
	static int gate; /* looked at until the device closes */
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	ck_assert(!kiln_device_lost(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, x));
	read_big(y, data, 1);
	OK(kiln_tensor_write_async(y, data, BIG * sizeof(float), ring, 2));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST));
	(void)!kiln_exp(&y, x);
	(void)!kiln_device_flush(dev);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DEVICE_LOST);
	ck_assert(kiln_device_lost(dev));
	FAILS(kiln_tensor_read_async(x, data, BIG * sizeof(float), ring, 3),
	      KILN_ERR_DEVICE_LOST, "lost");
	FAILS(kiln_stream_failure(own), KILN_ERR_DEVICE_LOST, "lost");
	ck_assert_ptr_null(take_one(ring).op);
	kilni_gate_open(&gate);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* Every site fails once: the call or the completion tells, nothing hangs. */
START_TEST(faults_on_the_way)
{
	static const char *const site[] = { "submit", "queue_create", "mover",
					    "read", "write", "launch" };
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	float *second = malloc(BIG * sizeof(float));
	float *third = calloc(BIG, sizeof(float));

	OK(kiln_device_sync(dev));
	for (size_t s = 0; s < 6; s++)
		for (uint64_t nth = 1; nth <= 3; nth++) {
			size_t bytes = BIG * sizeof(float);
			int posts = 0;

			OK(kilni_fault_set(site[s], nth, KILN_ERR_DRIVER));
			(void)!kiln_mul_scalar(&y, x, kiln_float(2));
			if (y)
				posts += !kiln_tensor_read_async(
					y, data, bytes, ring, 1);
			posts += !kiln_tensor_read_async(x, second, bytes,
							 ring, 2);
			if (y)
				posts += !kiln_tensor_write_async(
					y, third, bytes, ring, 3);
			for (; posts; posts--)
				ck_assert_ptr_nonnull(wait_one(ring).op);
			OK(kilni_fault_set(NULL, 0, KILN_OK));
			(void)!kiln_device_sync(dev);
			OK(kiln_stream_reset(own));
			kiln_tensor_clear(&y);
		}
	read_big(x, data, 1);
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	expect_values(data, BIG, 1);
	kiln_tensor_release(x);
	free(second);
	free(third);
}
END_TEST

START_TEST(a_full_ring_is_busy)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_completions *large = NULL, *small = NULL;
	size_t bytes = BIG * sizeof(float);
	enum kiln_status status = KILN_OK;
	int gate = 0, queued = 0;

	OK(kiln_completions_create(&small, 1));
	OK(kiln_completions_create(&large, 4096));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, x));
	OK(kiln_tensor_read_async(y, data, bytes, small, 1));
	FAILS(kiln_tensor_read_async(y, data, bytes, small, 2), KILN_ERR_BUSY,
	      "completions");
	for (; queued < 1000; queued++) {
		status = kiln_tensor_read_async(y, data, bytes, large, 3);
		if (status != KILN_OK)
			break;
	}
	ck_assert_int_eq(status, KILN_ERR_BUSY);
	kilni_gate_open(&gate);
	kiln_completions_release(ring);
	ring = kiln_completions_retain(large);
	for (int i = 0; i < queued; i++)
		ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	ck_assert_ptr_null(take_one(ring).op);
	expect_values(data, BIG, 2);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_completions_release(small);
	kiln_completions_release(large);
}
END_TEST

/* ---- transactions ---- */

START_TEST(a_transaction_reads_all)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *i = INTS(dev, 5, 6, 7);
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	float f[2] = { 0 }, g[2] = { 0 };
	int32_t n[3] = { 0 };
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_neg(&y, x));
	const struct kiln_read reads[] = { { y, f, sizeof(f) },
					   { i, n, sizeof(n) },
					   { x, g, sizeof(g) } };
	OK(kiln_transaction_read_async(reads, 3, ring, 9));
	ck_assert_ptr_null(take_one(ring).op);
	kilni_gate_open(&gate);
	ck_assert_str_eq(wait_one(ring).op, "");
	for (int round = 0; round < 2; round++) {
		ck_assert(f[0] == -1 && f[1] == -2 && g[0] == 1 && g[1] == 2);
		ck_assert(n[0] == 5 && n[1] == 6 && n[2] == 7);
		memset(f, 0, sizeof(f));
		memset(n, 0, sizeof(n));
		OK(kiln_transaction_read(reads, 3));
	}
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(i);
}
END_TEST

/* The second of three fails: nothing is written. */
START_TEST(a_transaction_is_all_or_nothing)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *z = FLOATS(dev, 3), *y;
	float first = 55, last = 66;
	struct kiln_completion c;
	int gate = 0;

	y = failing(x, &gate);
	data[0] = 77;
	const struct kiln_read reads[] = { { z, &first, 4 },
					   { y, data, BIG * sizeof(float) },
					   { z, &last, 4 } };
	OK(kiln_transaction_read_async(reads, 3, ring, 1));
	kilni_gate_open(&gate);
	c = wait_one(ring);
	ck_assert_int_eq(c.status, KILN_ERR_DRIVER);
	ck_assert_str_eq(c.op, "exp");
	FAILS(kiln_transaction_read(reads, 3), KILN_ERR_DEPENDENCY, "exp");
	ck_assert(first == 55 && last == 66 && data[0] == 77);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
}
END_TEST

START_TEST(bad_input_is_refused)
{
	struct kiln_device *null = open_device("null");
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *n = KILN_TENSOR_NONE;
	struct kiln_tensor *wide = KILN_TENSOR_NONE;
	float f[2];

	FAILS(kiln_tensor_read_async(NULL, f, 8, ring, 0), KILN_ERR_INVALID,
	      "tensor");
	FAILS(kiln_tensor_read_async(x, f, 4, ring, 0), KILN_ERR_INVALID, "4");
	FAILS(kiln_tensor_read_async(x, NULL, 8, ring, 0), KILN_ERR_INVALID,
	      "8");
	FAILS(kiln_tensor_read_async(x, f, 8, NULL, 0), KILN_ERR_INVALID,
	      "ring");
	FAILS(kiln_tensor_write_async(NULL, f, 8, ring, 0), KILN_ERR_INVALID,
	      "tensor");
	FAILS(kiln_tensor_write_async(x, f, 9, ring, 0), KILN_ERR_INVALID,
	      "9");
	OK(kiln_expand(&wide, x, 2, SHAPE(3, 2)));
	FAILS(kiln_tensor_write_async(wide, data, 24, ring, 0),
	      KILN_ERR_INVALID, "overlaps");
	FAILS(kiln_transaction_read(NULL, 1), KILN_ERR_INVALID, "reads");
	OK(kiln_zeros(&n, null, KILN_F32, 1, SHAPE(2)));
	const struct kiln_read reads[] = { { x, f, 8 }, { n, f, 8 } };
	FAILS(kiln_transaction_read(reads, 0), KILN_ERR_INVALID, "reads");
	FAILS(kiln_transaction_read(reads, 2), KILN_ERR_DEVICE, "null");
	FAILS(kiln_transaction_read_async(reads, 2, ring, 0), KILN_ERR_DEVICE,
	      "null");
	FAILS(kiln_transaction_read_async(reads, 1, NULL, 0),
	      KILN_ERR_INVALID, "ring");
	OK(kiln_tensor_read_async(n, f, 8, ring, 1));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	ck_assert_ptr_null(take_one(ring).op);
	kiln_tensor_release(x);
	kiln_tensor_release(n);
	kiln_tensor_release(wide);
	kiln_device_release(null);
}
END_TEST

/* ---- memory that is marked ---- */

#define PAGE 4096

/* Whatever the device makes of it, the data is the same. */
START_TEST(marked_memory)
{
	size_t bytes = 8 * BIG * sizeof(float), n = 8 * BIG;
	/* What is pinned are pages: each has its own. */
	float *from = aligned_alloc(PAGE, kilni_align_up(bytes, PAGE));
	float *to = aligned_alloc(PAGE, kilni_align_up(bytes, PAGE));
	const struct kiln_host_range both[] = { { from, bytes },
						{ NULL, 0 },
						{ to, bytes } };
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	size_t wrong = 0;
	bool pins;

	for (size_t i = 0; i < n; i++)
		from[i] = (float)(i % 8191);
	OK(kiln_device_stage(dev, both, 3));
	OK(kiln_device_stage(dev, both, 1));
	pins = kiln_device_pins(dev, from, bytes);
	ck_assert_int_eq(kiln_device_pins(dev, to + 10, 40), pins);
	/* Vulkan devices may. */
	if (kiln_device_type(dev) != KILN_DEVICE_VULKAN)
		ck_assert_int_eq(pins,
				 kiln_device_type(dev) == KILN_DEVICE_CUDA);
	ck_assert(!kiln_device_pins(dev, to + 10, bytes));
	OK(kiln_tensor_from_data(&x, dev, KILN_F32, 1, SHAPE((int64_t)n), from,
				 bytes));
	OK(kiln_add_scalar(&x, x, kiln_float(1)));
	OK(kiln_tensor_read_async(x, to, bytes, ring, 1));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	for (size_t i = 0; i < n; i++)
		wrong += to[i] != from[i] + 1;
	ck_assert_uint_eq(wrong, 0);
	OK(kiln_device_unstage(dev, both, 3));
	ck_assert_int_eq(kiln_device_pins(dev, from, bytes), pins);
	ck_assert(!kiln_device_pins(dev, to, bytes));
	OK(kiln_device_unstage(dev, both, 3));
	ck_assert(!kiln_device_pins(dev, from, bytes));
	memset(to, 0, bytes);
	OK(kiln_tensor_read(x, to, bytes));
	ck_assert(to[0] == 1 && to[n - 1] == from[n - 1] + 1);
	/* What is left marked goes back with the device. */
	OK(kiln_device_stage(dev, both, 3));
	kiln_tensor_release(x);
	kiln_stream_release(own);
	kiln_device_release(dev);
	free(from);
	free(to);
	own = NULL;
	dev = open_tested();
}
END_TEST

START_TEST(marks_that_are_refused)
{
	const struct kiln_host_range range = { data, BIG * sizeof(float) };
	const struct kiln_host_range bad = { NULL, 1 };
	const struct kiln_host_range wraps = { data, SIZE_MAX };

	FAILS(kiln_device_stage(NULL, &range, 1), KILN_ERR_INVALID, "device");
	FAILS(kiln_device_stage(dev, NULL, 1), KILN_ERR_INVALID, "ranges");
	FAILS(kiln_device_stage(dev, &bad, 1), KILN_ERR_INVALID, "range 0");
	FAILS(kiln_device_stage(dev, &wraps, 1), KILN_ERR_INVALID, "range 0");
	FAILS(kiln_device_unstage(dev, &bad, 1), KILN_ERR_INVALID, "range 0");
	OK(kiln_device_unstage(dev, &range, 1));
	/* A system that pins no more is no error. */
	OK(kilni_fault_set("host_pin", 1, KILN_ERR_DRIVER));
	OK(kiln_device_stage(dev, &range, 1));
	ck_assert(!kiln_device_pins(dev, data, 4));
	OK(kiln_device_unstage(dev, &range, 1));
}
END_TEST

/* ---- many at once ---- */

#define THREADS 4
#define ROUNDS (SANITIZED || getenv("CHECK_QUICK") ? 50 : 400)

static void *read_much(void *arg)
{
	struct kiln_tensor *x = full_of(dev, BIG, 0), *y = KILN_TENSOR_NONE;
	float *have = malloc(8 * BIG * sizeof(float));
	struct kiln_completions *mine = NULL;
	struct kiln_completion c = KILN_COMPLETION_INIT;
	size_t one = 1;

	OK(kiln_completions_create(&mine, 8));
	for (int i = 0; i < ROUNDS; i += 8) {
		for (uint64_t k = 0; k < 8; k++) {
			OK(kiln_add_scalar(&y, x, kiln_float(i + (double)k)));
			OK(kiln_tensor_read_async(y, have + k * BIG,
						  BIG * sizeof(float), mine,
						  k));
			kiln_tensor_clear(&y);
		}
		for (uint64_t k = 0; k < 8; k++) {
			OK(kiln_completions_wait(mine, 60 * SECOND));
			OK(kiln_completions_take(mine, &c, &one));
			ck_assert_int_eq(c.status, KILN_OK);
			expect_values(have + c.user * BIG, BIG,
				      (float)i + (float)c.user);
		}
	}
	kiln_completions_release(mine);
	kiln_tensor_release(x);
	free(have);
	return arg;
}

START_TEST(threads_read_at_once)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert(!pthread_create(&thread[i], NULL, read_much, NULL));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}
END_TEST

/* P13: the device closes behind what is in flight; all is posted. */
START_TEST(references_may_go_first)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;

	OK(kiln_add(&y, x, x));
	read_big(y, data, 1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_stream_release(own);
	kiln_device_release(dev);
	ck_assert_int_eq(take_one(ring).status, KILN_OK);
	expect_values(data, BIG, 2);
	own = NULL;
	dev = open_tested();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transfer");
	TCase *c = tcase_create("transfer"), *small = tcase_create("small");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 300);
	tcase_add_test(c, what_is_there_is_read);
	tcase_add_test(c, a_read_waits_for_its_tensor_not_the_caller);
	tcase_add_test(c, a_read_waits_for_no_other_work);
	tcase_add_test(c, a_read_passes_kernels_at_work);
	tcase_add_test(c, a_read_sees_what_was_there_at_the_call);
	tcase_add_test(c, a_view_is_read_dense);
	tcase_add_test(c, nothing_is_read_too);
	tcase_add_test(c, a_write_takes_its_turn);
	tcase_add_test(c, a_part_is_written);
	tcase_add_test(c, bools_become_0_or_1);
	tcase_add_test(c, a_failure_is_told_once);
	tcase_add_test(c, a_write_to_what_failed);
	tcase_add_test(c, a_failed_copy);
	tcase_add_test(c, a_lost_device_posts_all);
	tcase_add_test(c, faults_on_the_way);
	tcase_add_test(c, a_transaction_reads_all);
	tcase_add_test(c, a_transaction_is_all_or_nothing);
	tcase_add_test(c, bad_input_is_refused);
	tcase_add_test(c, marked_memory);
	tcase_add_test(c, marks_that_are_refused);
	tcase_add_test(c, threads_read_at_once);
	tcase_add_test(c, references_may_go_first);
	suite_add_tcase(suite, c);
	tcase_add_checked_fixture(small, setup_small_ring, teardown);
	tcase_add_test(small, a_full_ring_is_busy);
	suite_add_tcase(suite, small);
	return run_suite(suite);
}
