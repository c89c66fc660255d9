/* SPDX-License-Identifier: Apache-2.0 */
/* Memory as programs see it: P04 (persistent), P06 (nothing), P08 (streams). */

#include "tests/unit/api.h"

#include <pthread.h>

#include "drivers/driver.h"
#include "lib/internal.h"
#include "lib/testing.h"
#include "tests/unit/sanitized.h"

static struct kiln_device *dev;

static void set_up(void)
{
	dev = open_device("cpu");
}

static void tear_down(void)
{
	kiln_device_release(dev);
}

/* ---- P04: persistent ---- */

static struct kiln_pool_info persistent(void)
{
	struct kiln_pool_info info[16];
	size_t i, count = kilni_pools_special(kilni_device_pools(dev), info, 16);

	for (i = 0; i < count; i++)
		if (info[i].kind == KILN_POOL_PERSISTENT)
			return info[i];
	ck_abort_msg("no persistent pool");
}

static struct kiln_memory_usage usage(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available;

	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert(available);
	ck_assert_uint_eq(usage.live_bytes + usage.cached_bytes +
				  usage.padding_bytes,
			  usage.reserved_bytes);
	return usage;
}

static struct kiln_tensor *bytes_of(int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_empty(&t, dev, KILN_U8, 1, &count));
	return t;
}

START_TEST(p04_persistent_comes_back)
{
	struct kiln_tensor *t;
	uint64_t address;
	int i;

	OK(kiln_persistent_begin(dev));
	t = bytes_of(1000);
	address = t->address;
	ck_assert_uint_eq(persistent().allocations, 1);
	ck_assert_uint_eq(persistent().live_bytes, 1000);
	for (i = 0; i < 100; i++) {
		kiln_tensor_release(t);
		ck_assert_uint_eq(persistent().allocations, 0);
		t = bytes_of(1000);
		ck_assert_uint_eq(t->address, address);
		ck_assert_uint_eq(persistent().allocations, 1);
		ck_assert_uint_eq(persistent().pages, 1);
	}
	OK(kiln_persistent_end(dev));
	kiln_tensor_release(t);
	OK(kiln_memory_cleanup(dev));
	ck_assert_uint_eq(usage().reserved_bytes, 0);
}
END_TEST

/* What an op takes for itself, and what is gone again, is in no account. */
START_TEST(p04_temporaries_leave_nothing)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_pool_info before, after;

	OK(kiln_persistent_begin(dev));
	OK(kiln_ones(&x, dev, KILN_F32, 2, SHAPE(64, 100)));
	before = persistent();
	OK(kiln_softmax(&y, x, 1));
	OK(kiln_device_sync(dev));
	after = persistent();
	ck_assert_uint_eq(before.allocations, 1);
	ck_assert_uint_eq(before.live_bytes, 64 * 100 * 4);
	ck_assert_uint_eq(after.allocations, 2);
	ck_assert_uint_eq(after.live_bytes, 2 * 64 * 100 * 4);
	/* Made and freed inside. */
	OK(kiln_add(&t, x, y));
	ck_assert_uint_eq(persistent().allocations, 3);
	kiln_tensor_release(t);
	after = persistent();
	ck_assert_uint_eq(after.allocations, 2);
	ck_assert_uint_eq(after.live_bytes, 2 * 64 * 100 * 4);
	OK(kiln_persistent_end(dev));
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	ck_assert_uint_eq(persistent().allocations, 0);
	OK(kiln_memory_cleanup(dev));
	ck_assert_uint_eq(usage().reserved_bytes, 0);
}
END_TEST

static void *allocate_elsewhere(void *argument)
{
	uint64_t *count = argument;
	struct kiln_tensor *t = bytes_of(5000);

	*count = persistent().allocations;
	kiln_tensor_release(t);
	return NULL;
}

/* Per thread, by depth, and an op that fails inside changes nothing. */
START_TEST(p04_scopes_nest)
{
	struct kiln_tensor *t[3], *bad = KILN_TENSOR_NONE;
	uint64_t elsewhere = 99;
	pthread_t thread;
	int64_t huge = INT64_C(1) << 60;

	OK(kiln_persistent_begin(dev));
	OK(kiln_persistent_begin(dev));
	t[0] = bytes_of(100);
	OK(kiln_persistent_end(dev));
	FAILS(kiln_empty(&bad, dev, KILN_U8, 1, &huge), KILN_ERR_LIMIT,
	      "requested");
	t[1] = bytes_of(100);
	ck_assert(!pthread_create(&thread, NULL, allocate_elsewhere,
				  &elsewhere));
	ck_assert(!pthread_join(thread, NULL));
	ck_assert_uint_eq(elsewhere, 2);
	OK(kiln_persistent_end(dev));
	t[2] = bytes_of(100);
	ck_assert_uint_eq(persistent().allocations, 2);
	FAILS(kiln_persistent_end(dev), KILN_ERR_INVALID, "scope");
	for (int i = 0; i < 3; i++)
		kiln_tensor_release(t[i]);
	ck_assert_uint_eq(persistent().allocations, 0);
}
END_TEST

/* P04's first clause, with the public calls. */
START_TEST(p04_cleaning_up)
{
	static const int64_t sizes[] = { 1000, 4097, (1 << 20) - 1, 1 << 20,
					 3 << 20, 33 << 20, (64 << 20) + 256 };
	struct kiln_tensor *t[7];
	uint64_t early = 0, late = 0;
	int round, i;

	for (round = 1; round <= 500; round++) {
		for (i = 0; i < 7; i++)
			t[i] = bytes_of(sizes[i]);
		(void)usage();
		for (i = 0; i < 7; i++)
			kiln_tensor_release(t[i]);
		OK(kiln_memory_cleanup(dev));
		late = usage().reserved_bytes;
		if (round == 10)
			early = late;
	}
	ck_assert_uint_le(late, early + (64 << 20));
}
END_TEST

/* ---- P06: nothing ---- */

START_TEST(p06_zero_bytes)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE, *u = KILN_TENSOR_NONE;
	struct kiln_memory_usage before = usage();
	char nothing[1];

	OK(kiln_empty(&t, dev, KILN_F32, 4, SHAPE(256, 0, 1, 3)));
	OK(kiln_empty(&u, dev, KILN_F32, 1, SHAPE(0)));
	ck_assert_uint_eq(kiln_tensor_size_bytes(t), 0);
	ck_assert_uint_eq(usage().allocations, before.allocations + 2);
	ck_assert_uint_eq(usage().live_bytes, before.live_bytes);
	ck_assert_uint_eq(usage().reserved_bytes, before.reserved_bytes);
	OK(kiln_tensor_read(t, nothing, 0));
	OK(kiln_tensor_read(t, nothing, 0));
	OK(kiln_relu(&t, t));
	kiln_tensor_release(t);
	kiln_tensor_release(u);
	ck_assert_uint_eq(usage().allocations, before.allocations);
}
END_TEST

/* ---- P08: freed on one stream, still read on another ---- */

#define MIB (1 << 20)

/* A third thread that releases what it is handed. */
struct releaser {
	pthread_barrier_t barrier;
	struct kiln_tensor *tensor;
	bool end;
};

static void *release_all(void *argument)
{
	struct releaser *releaser = argument;

	for (;;) {
		pthread_barrier_wait(&releaser->barrier);
		if (releaser->end)
			return NULL;
		kiln_tensor_release(releaser->tensor);
		pthread_barrier_wait(&releaser->barrier);
	}
}

static void hand_over(struct releaser *releaser, struct kiln_tensor *tensor)
{
	releaser->tensor = tensor;
	pthread_barrier_wait(&releaser->barrier);
	pthread_barrier_wait(&releaser->barrier);
}

static bool all_are(struct kiln_tensor *t, float *have, float want)
{
	size_t i, count = MIB / sizeof(float);
	bool good = true;

	OK(kiln_tensor_read(t, have, MIB));
	for (i = 0; i < count; i++)
		good &= have[i] == want;
	return good;
}

START_TEST(p08_ten_thousand_times)
{
	struct kiln_stream *reader = NULL;
	struct releaser releaser = { .end = false };
	unsigned i, repeats = SANITIZED ? 300 : 10000;
	float *have = malloc(MIB);
	pthread_t thread;

	ck_assert_ptr_nonnull(have);
	pthread_barrier_init(&releaser.barrier, NULL, 2);
	ck_assert(!pthread_create(&thread, NULL, release_all, &releaser));
	OK(kiln_stream_create(&reader, dev));
	for (i = 0; i < repeats; i++) {
		struct kiln_tensor *x = NULL, *y = NULL, *z = NULL;
		int gate = 0;

		OK(kiln_full(&x, dev, KILN_F32, 1, SHAPE(MIB / 4),
			     kiln_float(1)));
		OK(kiln_stream_set_current(dev, reader));
		OK(kilni_test_gate(dev, &gate));
		OK(kiln_mul_scalar(&y, x, kiln_float(1)));
		OK(kiln_stream_flush(reader));
		OK(kiln_stream_set_current(dev, NULL));
		hand_over(&releaser, x);
		OK(kiln_full(&z, dev, KILN_F32, 1, SHAPE(MIB / 4),
			     kiln_float(2)));
		OK(kiln_device_flush(dev));
		kilni_gate_open(&gate);
		if (!all_are(y, have, 1))
			ck_abort_msg("round %u: what was read had been freed",
				     i);
		kiln_tensor_release(y);
		kiln_tensor_release(z);
	}
	releaser.end = true;
	pthread_barrier_wait(&releaser.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&releaser.barrier);
	kiln_stream_release(reader);
	free(have);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memory");
	TCase *tests = tcase_create("memory");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, p04_persistent_comes_back);
	tcase_add_test(tests, p04_temporaries_leave_nothing);
	tcase_add_test(tests, p04_scopes_nest);
	tcase_add_test(tests, p04_cleaning_up);
	tcase_add_test(tests, p06_zero_bytes);
	tcase_add_test(tests, p08_ten_thousand_times);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
