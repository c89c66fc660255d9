/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <malloc.h>
#include <pthread.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"

/* Order between streams, and what an error does to them. */

#define BIG (1 << 18)
/* A GPU in software takes its time. */
#define IN_SOFTWARE (!strcmp(tested_selector(), "vulkan:cpu"))
#define ADDS (IS_SLOW || IN_SOFTWARE ? 30 : 300)

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_tested();
}

static void setup_small_ring(void)
{
	setenv("KILN_RING_LIMIT", "256", 1);
	setup();
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
}

/* A stream of the test's own that is the current one. */
static struct kiln_stream *enter_stream(void)
{
	struct kiln_stream *stream = NULL;

	OK(kiln_stream_create(&stream, dev));
	OK(kiln_stream_set_current(dev, stream));
	return stream;
}

static void leave_stream(struct kiln_stream *stream)
{
	OK(kiln_stream_set_current(dev, NULL));
	kiln_stream_release(stream);
}

START_TEST(calls_do_not_wait)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, x));
	OK(kiln_add(&y, y, x));
	OK(kiln_device_flush(dev));
	kilni_gate_open(&gate);
	expect_all(y, 3);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(streams_are_ordered_by_their_tensors)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_stream *stream;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&x, x, kiln_float(5)));
	stream = enter_stream();
	OK(kiln_add(&y, x, x));
	OK(kiln_stream_flush(stream));
	kilni_gate_open(&gate);
	expect_all(y, 10);
	leave_stream(stream);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* What a stream has waited for it need not wait for again; more it must. */
START_TEST(one_wait_is_enough)
{
	enum { OPS = 20 };
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_stream *stream;
	uint64_t before;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&x, x, kiln_float(5)));
	stream = enter_stream();
	before = kiln_stream_position(stream);
	for (int i = 0; i < OPS; i++)
		OK(kiln_add(&y, x, x));
	ck_assert_uint_le(kiln_stream_position(stream), before + OPS + 2);
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_mul_scalar(&x, x, kiln_float(3)));
	OK(kiln_stream_set_current(dev, stream));
	OK(kiln_add(&y, x, x));
	OK(kiln_stream_flush(stream));
	kilni_gate_open(&gate);
	expect_all(y, 30);
	leave_stream(stream);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(write_in_place_waits_for_readers)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *z = full_of(dev, BIG, 0);
	struct kiln_stream *stream;
	int gate = 0;

	OK(kiln_device_sync(dev));
	stream = enter_stream();
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&y, x, z));
	OK(kiln_stream_flush(stream));
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_neg(&x, x));
	OK(kiln_device_flush(dev));
	kilni_gate_open(&gate);
	expect_all(y, 1);
	expect_all(x, -1);
	kiln_stream_release(stream);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
}
END_TEST

static void *release_tensor(void *tensor)
{
	kiln_tensor_release(tensor);
	return NULL;
}

/*
 * Memory that another stream still reads is not given out: a third thread
 * frees it, the first stream asks for as much and fills it.
 */
START_TEST(freed_memory_waits_for_its_readers)
{
	for (int i = 0; i < (IS_SLOW ? 20 : 200); i++) {
		struct kiln_tensor *x = full_of(dev, BIG, 1);
		struct kiln_tensor *y = KILN_TENSOR_NONE;
		struct kiln_tensor *z;
		struct kiln_stream *stream = enter_stream();
		pthread_t thread;
		int gate = 0;

		OK(kilni_test_gate(dev, &gate));
		OK(kiln_mul_scalar(&y, x, kiln_float(1)));
		OK(kiln_stream_flush(stream));
		OK(kiln_stream_set_current(dev, NULL));
		ck_assert(!pthread_create(&thread, NULL, release_tensor, x));
		ck_assert(!pthread_join(thread, NULL));
		z = full_of(dev, BIG, 2);
		OK(kiln_device_flush(dev));
		kilni_gate_open(&gate);
		expect_all(y, 1);
		expect_all(z, 2);
		kiln_stream_release(stream);
		kiln_tensor_release(y);
		kiln_tensor_release(z);
	}
}
END_TEST

/* Memory that is given out while its stream still reads it. */
START_TEST(new_memory_is_ordered_for_other_streams)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *z = KILN_TENSOR_NONE, *two = full_of(dev, BIG, 2);
	struct kiln_stream *stream;
	int gate = 0;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&y, x, kiln_float(3)));
	kiln_tensor_clear(&x);
	OK(kiln_empty(&z, dev, KILN_F32, 1, SHAPE(BIG)));
	stream = enter_stream();
	OK(kiln_copy_into(z, two));
	OK(kiln_device_flush(dev));
	kilni_gate_open(&gate);
	expect_all(z, 2);
	expect_all(y, 3);
	leave_stream(stream);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_tensor_release(two);
}
END_TEST

static void reset_current(void)
{
	struct kiln_stream *stream = NULL;

	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_reset(stream));
	ck_assert(!kiln_stream_poisoned(stream));
	kiln_stream_release(stream);
}

START_TEST(index_error_is_told_once)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *good = FLOATS(dev, 4);
	struct kiln_tensor *index = INTS(dev, 1, 7, -2);
	struct kiln_tensor *y = KILN_TENSOR_NONE, *z = KILN_TENSOR_NONE;
	float data[3] = { 8, 8, 8 };

	OK(kiln_select(&y, x, 0, index));
	FAILS(kiln_tensor_read(y, data, sizeof(data)), KILN_ERR_INDEX,
	      "kiln_select: index 7 is outside 0..2");
	ck_assert_float_eq(data[0], 8);
	FAILS(kiln_tensor_read(y, data, sizeof(data)), KILN_ERR_DEPENDENCY,
	      "index 7");
	FAILS(kiln_neg(&z, y), KILN_ERR_POISONED, "reset");
	EXPECT_FLOATS(good, 4);
	OK(kiln_flip(&good, x, 1, &(const int){ 0 }));
	EXPECT_FLOATS(good, 3, 2, 1);
	OK(kiln_device_sync(dev));
	reset_current();
	FAILS(kiln_neg(&z, y), KILN_ERR_DEPENDENCY, "kiln_neg");
	OK(kiln_neg(&z, good));
	EXPECT_FLOATS(z, -3, -2, -1);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_tensor_release(good);
	kiln_tensor_release(index);
}
END_TEST

/* Twenty ops queued, the seventh fails: its dependents fail, others do not. */
START_TEST(dependents_of_a_failed_op_fail)
{
	struct kiln_tensor *chain = full_of(dev, BIG, 0);
	struct kiln_tensor *others[20] = { NULL };
	struct kiln_tensor *index = INTS(dev, BIG);
	struct kiln_stream *stream = NULL;
	float *data = malloc(BIG * sizeof(float)), one;
	int gate = 0;

	OK(kiln_stream_current(&stream, dev));
	OK(kilni_test_gate(dev, &gate));
	for (int i = 0; i < 20; i++) {
		if (i == 6)
			OK(kiln_select(&chain, chain, 0, index));
		else
			OK(kiln_add_scalar(&chain, chain, kiln_float(1)));
		others[i] = full_of(dev, BIG, i);
	}
	kilni_gate_open(&gate);
	FAILS(kiln_stream_sync(stream), KILN_ERR_INDEX, "kiln_select");
	OK(kiln_stream_sync(stream));
	FAILS(kiln_tensor_read(chain, &one, sizeof(one)), KILN_ERR_DEPENDENCY,
	      "kiln_select");
	for (int i = 0; i < 20; i++) {
		expect_all(others[i], (float)i);
		kiln_tensor_release(others[i]);
	}
	kiln_tensor_release(chain);
	kiln_tensor_release(index);
	kiln_stream_release(stream);
	free(data);
}
END_TEST

START_TEST(poison_stays_on_its_stream)
{
	struct kiln_tensor *x = full_of(dev, BIG, 3), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *index = INTS(dev, -1), *bad = KILN_TENSOR_NONE;
	struct kiln_stream *stream = enter_stream();

	OK(kiln_select(&bad, x, 0, index));
	FAILS(kiln_stream_sync(stream), KILN_ERR_INDEX, "-1");
	ck_assert(kiln_stream_poisoned(stream));
	FAILS(kiln_stream_flush(stream), KILN_ERR_POISONED, "reset");
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_add(&y, x, x));
	expect_all(y, 6);
	FAILS(kiln_neg(&y, bad), KILN_ERR_DEPENDENCY, "kiln_neg");
	kiln_stream_release(stream);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(bad);
	kiln_tensor_release(index);
}
END_TEST

/* What is joined with, or written into, a failed tensor has failed. */
START_TEST(failure_of_a_part_is_of_the_whole)
{
	const struct kiln_slice half = { 0, BIG / 2, 1 };
	struct kiln_tensor *x = full_of(dev, BIG, 1), *index = INTS(dev, BIG);
	struct kiln_tensor *bad = KILN_TENSOR_NONE, *parts[2];
	struct kiln_tensor *joined = KILN_TENSOR_NONE;
	struct kiln_tensor *part = KILN_TENSOR_NONE;
	struct kiln_tensor *wide = KILN_TENSOR_NONE;
	struct kiln_stream *stream = NULL;
	float data[2];
	int gate = 0;

	OK(kiln_slice(&part, x, 1, &half));
	OK(kiln_stream_current(&stream, dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_select(&bad, x, 0, index));
	parts[0] = bad;
	parts[1] = FLOATS(dev, 5);
	OK(kiln_cat(&joined, 2, parts, 0));
	OK(kiln_expand(&wide, bad, 1, SHAPE(BIG)));
	OK(kiln_slice_assign(&wide, wide, 1, &half, part));
	kilni_gate_open(&gate);
	FAILS(kiln_tensor_read(joined, data, sizeof(data)), KILN_ERR_INDEX,
	      "kiln_select");
	FAILS(kiln_stream_sync(stream) ? KILN_ERR_DRIVER
				       : kiln_neg(&joined, wide),
	      KILN_ERR_POISONED, "reset");
	OK(kiln_stream_reset(stream));
	FAILS(kiln_neg(&joined, wide), KILN_ERR_DEPENDENCY, "kiln_neg");
	kiln_tensor_release(x);
	kiln_tensor_release(bad);
	kiln_tensor_release(part);
	kiln_tensor_release(wide);
	kiln_tensor_release(index);
	kiln_tensor_release(joined);
	kiln_tensor_release(parts[1]);
	kiln_stream_release(stream);
}
END_TEST

/* Several entries: where the second is refused, the place is as it was. */
START_TEST(refused_join_leaves_the_place)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *index = INTS(dev, 9, 9);
	struct kiln_tensor *y = FLOATS(dev, 7, 7, 7, 7);
	struct kiln_tensor *parts[2] = { x, KILN_TENSOR_NONE };

	OK(kiln_select(&parts[1], x, 0, index));
	FAILS(kiln_device_sync(dev), KILN_ERR_INDEX, "9");
	reset_current();
	FAILS(kiln_cat(&y, 2, parts, 0), KILN_ERR_DEPENDENCY, "kiln_copy");
	EXPECT_FLOATS(y, 7, 7, 7, 7);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(index);
	kiln_tensor_release(parts[1]);
}
END_TEST

/* An old failure does not take a new one's cause. */
START_TEST(causes_are_told_apart)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2);
	struct kiln_tensor *a = INTS(dev, 5), *b = INTS(dev, 6);
	struct kiln_tensor *first = KILN_TENSOR_NONE;
	struct kiln_tensor *second = KILN_TENSOR_NONE;
	float value;

	OK(kiln_select(&first, x, 0, a));
	reset_current();
	OK(kiln_select(&second, x, 0, b));
	FAILS(kiln_tensor_read(first, &value, sizeof(value)),
	      KILN_ERR_DEPENDENCY, "failed");
	FAILS(kiln_device_sync(dev), KILN_ERR_INDEX, "index 6");
	FAILS(kiln_tensor_read(second, &value, sizeof(value)),
	      KILN_ERR_DEPENDENCY, "index 6");
	kiln_tensor_release(x);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(first);
	kiln_tensor_release(second);
}
END_TEST

static void count_call(void *data, void *user)
{
	(void)data;
	__atomic_add_fetch((int *)user, 1, __ATOMIC_RELEASE);
}

/* Memory goes back even where the submission of its last use was refused. */
START_TEST(refused_submission_gives_memory_back)
{
	struct kiln_tensor *f = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	float *data = calloc(BIG, sizeof(float));
	enum kiln_status status;
	int gate = 0, calls = 0;

	status = kiln_tensor_from_foreign(&f, dev, KILN_F32, 1, SHAPE(BIG),
					  data, KILN_FOREIGN_READ_ONLY,
					  count_call, &calls);
	if (cannot_see_host(status)) {
		free(data);
		return;
	}
	OK(status);
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_device_flush(dev));
	OK(kiln_add(&y, f, f));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DRIVER));
	kiln_tensor_release(f);
	kilni_gate_open(&gate);
	FAILS(kiln_device_sync(dev), KILN_ERR_DRIVER, "submit");
	ck_assert_int_eq(__atomic_load_n(&calls, __ATOMIC_ACQUIRE), 1);
	kiln_tensor_release(y);
	free(data);
}
END_TEST

START_TEST(failed_launch_names_its_op)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("launch", 1, KILN_ERR_DRIVER));
	OK(kiln_exp(&y, x));
	FAILS(kiln_device_sync(dev), KILN_ERR_DRIVER, "kiln_exp");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(refused_submission_fails_what_was_queued)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DRIVER));
	OK(kiln_exp(&y, x));
	(void)!kiln_device_flush(dev);
	FAILS(kiln_device_sync(dev), KILN_ERR_DRIVER, "submit");
	reset_current();
	OK(kiln_add(&y, x, x));
	expect_all(y, 2);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(lost_device_fails_fast)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_device *null = open_device("null");
	struct kiln_tensor *other = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("launch", 1, KILN_ERR_DEVICE_LOST));
	OK(kiln_exp(&y, x));
	(void)!kiln_device_sync(dev);
	FAILS(kiln_exp(&y, x), KILN_ERR_DEVICE_LOST, "lost");
	FAILS(kiln_device_sync(dev), KILN_ERR_DEVICE_LOST, "lost");
	OK(kiln_zeros(&other, null, KILN_F32, 1, SHAPE(4)));
	OK(kiln_device_sync(null));
	kiln_tensor_release(other);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_device_release(null);
}
END_TEST

START_TEST(full_ring_is_busy)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	enum kiln_status status = KILN_OK;
	int gate = 0, queued = 0;

	OK(kilni_test_gate(dev, &gate));
	for (; status == KILN_OK && queued < 1000; queued++)
		status = kiln_add_scalar(&x, x, kiln_float(1));
	ck_assert_int_eq(status, KILN_ERR_BUSY);
	kilni_gate_open(&gate);
	expect_all(x, (float)queued);
	OK(kiln_neg(&y, x));
	expect_all(y, (float)-queued);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

#define STREAMS 16
#define PIECES                                                                 \
	(IN_SOFTWARE					 ? 30                  \
	 : SANITIZED || getenv("CHECK_QUICK") ? 300 : 2000)

/* Bytes that malloc has given out; 0 where another allocator stands for it. */
static size_t host_bytes(void)
{
	return SANITIZED ? 0 : mallinfo2().uordblks;
}

/*
 * What a vendor's library keeps of a stream comes and goes: graphs of CUDA's of
 * one length and another, what Vulkan records into.
 */
static size_t library_bytes(void)
{
	return strcmp(tested_selector(), "cpu") ? 32 * 16384 : 0;
}

/* Queues so many ops on every stream, and waits wherever one is full. */
static void queue_much(struct kiln_stream **stream, struct kiln_tensor **x)
{
	for (int i = 0; i < PIECES; i++)
		for (int s = 0; s < STREAMS; s++) {
			enum kiln_status status;

			OK(kiln_stream_set_current(dev, stream[s]));
			while ((status = kiln_neg(&x[s], x[s])) ==
			       KILN_ERR_BUSY)
				OK(kiln_stream_sync(stream[s]));
			OK(status);
		}
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_device_sync(dev));
}

/* What has been queued once is enough for all that comes. */
START_TEST(rings_stay_within_their_bound)
{
	struct kiln_stream *stream[STREAMS] = { NULL };
	struct kiln_tensor *x[STREAMS] = { NULL };
	/* Rings of 256 entries in chunks, and what each device keeps. */
	size_t bound = STREAMS * (256 * sizeof(struct kilni_entry) +
				  library_bytes()) + 65536;
	size_t before;

	for (int s = 0; s < STREAMS; s++) {
		OK(kiln_stream_create(&stream[s], dev));
		OK(kiln_ones(&x[s], dev, KILN_F32, 1, SHAPE(4096)));
	}
	/* GPUs make their pipelines, graphs and what streams record into. */
	if (strcmp(tested_selector(), "cpu"))
		queue_much(stream, x);
	before = host_bytes();
	for (int round = 0; round < 3; round++) {
		queue_much(stream, x);
		ck_assert_uint_le(host_bytes(), before + bound);
	}
	for (int s = 0; s < STREAMS; s++) {
		kiln_tensor_release(x[s]);
		kiln_stream_release(stream[s]);
	}
}
END_TEST

static void *count_up(void *arg)
{
	struct kiln_tensor *one = FLOATS(dev, 1), *sum = full_of(dev, BIG, 0);

	for (int i = 0; i < ADDS; i++)
		OK(kiln_add(&sum, sum, one));
	expect_all(sum, ADDS);
	kiln_tensor_release(one);
	kiln_tensor_release(sum);
	return arg;
}

START_TEST(threads_have_streams_of_their_own)
{
	int rounds = IS_SLOW || IN_SOFTWARE ? 1 : 4;
	pthread_t thread[8];

	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < 8; i++)
			ck_assert(!pthread_create(&thread[i], NULL, count_up,
						  NULL));
		for (int i = 0; i < 20; i++)
			OK(kiln_device_sync(dev));
		for (int i = 0; i < 8; i++)
			ck_assert(!pthread_join(thread[i], NULL));
	}
}
END_TEST

START_TEST(upload_behind_queued_work)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	float *data = malloc(BIG * sizeof(float));
	int gate = 0;

	for (int i = 0; i < BIG; i++)
		data[i] = 7;
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_mul_scalar(&y, x, kiln_float(4)));
	/* Its memory is reused at once for what comes next on the stream. */
	kiln_tensor_clear(&x);
	OK(kiln_tensor_from_data(&x, dev, KILN_F32, 1, SHAPE(BIG), data,
				 BIG * sizeof(float)));
	memset(data, 0, BIG * sizeof(float));
	kilni_gate_open(&gate);
	expect_all(x, 7);
	expect_all(y, 4);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("streams");
	TCase *tcase = tcase_create("cpu"), *ring = tcase_create("ring");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, calls_do_not_wait);
	tcase_add_test(tcase, streams_are_ordered_by_their_tensors);
	tcase_add_test(tcase, one_wait_is_enough);
	tcase_add_test(tcase, write_in_place_waits_for_readers);
	tcase_add_test(tcase, freed_memory_waits_for_its_readers);
	tcase_add_test(tcase, new_memory_is_ordered_for_other_streams);
	tcase_add_test(tcase, index_error_is_told_once);
	tcase_add_test(tcase, dependents_of_a_failed_op_fail);
	tcase_add_test(tcase, poison_stays_on_its_stream);
	tcase_add_test(tcase, failure_of_a_part_is_of_the_whole);
	tcase_add_test(tcase, refused_join_leaves_the_place);
	tcase_add_test(tcase, causes_are_told_apart);
	tcase_add_test(tcase, refused_submission_gives_memory_back);
	tcase_add_test(tcase, failed_launch_names_its_op);
	tcase_add_test(tcase, refused_submission_fails_what_was_queued);
	tcase_add_test(tcase, lost_device_fails_fast);
	tcase_add_test(tcase, threads_have_streams_of_their_own);
	tcase_add_test(tcase, upload_behind_queued_work);
	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(ring, setup_small_ring, teardown);
	tcase_set_timeout(ring, 120);
	tcase_add_test(ring, full_ring_is_busy);
	tcase_add_test(ring, rings_stay_within_their_bound);
	suite_add_tcase(suite, ring);
	return run_suite(suite);
}
