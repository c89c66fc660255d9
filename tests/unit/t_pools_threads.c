/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight threads on four streams: each takes on its stream, writes to what it
 * took, and gives back what any of them took, while two more read the
 * accounting, trim and walk. For the thread sanitizer above all.
 */

#include "tests/unit/pools_fake.h"

#include <pthread.h>

#include "alloc/internal.h"
#include "tests/unit/sanitized.h"

#define THREADS 8
#define STREAMS 4
#define ROUNDS (IS_SLOW ? 4000 : 40000)
#define BOX 256

static struct fake_hw hw;
static struct kilni_pools *pools;
static atomic_uint running, readings;

/* A slice on its way, and what is written on it. */
struct parcel {
	struct kilni_slice slice;
	unsigned on, mark;
};

static struct {
	pthread_mutex_t lock;
	struct parcel parcel[BOX];
	unsigned count;
} box = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool post(const struct parcel *parcel)
{
	bool room;

	pthread_mutex_lock(&box.lock);
	room = box.count < BOX;
	if (room)
		box.parcel[box.count++] = *parcel;
	pthread_mutex_unlock(&box.lock);
	return room;
}

static bool fetch(struct parcel *parcel)
{
	bool some;

	pthread_mutex_lock(&box.lock);
	some = box.count > 0;
	if (some)
		*parcel = box.parcel[--box.count];
	pthread_mutex_unlock(&box.lock);
	return some;
}

static void put_mark(const struct parcel *parcel)
{
	unsigned *first = (unsigned *)(uintptr_t)parcel->slice.address;

	first[0] = parcel->mark;
	first[parcel->slice.bytes / sizeof(*first) - 1] = parcel->mark;
}

static bool has_mark(const struct parcel *parcel)
{
	const unsigned *first = (const unsigned *)(uintptr_t)
		parcel->slice.address;

	return first[0] == parcel->mark &&
	       first[parcel->slice.bytes / sizeof(*first) - 1] == parcel->mark;
}

/* Used on its own stream, and now and then on the giver's too. */
static bool give_back(const struct parcel *parcel, unsigned self)
{
	struct kilni_use uses[2];
	bool marked = has_mark(parcel);

	uses[0] = fake_work(parcel->on);
	if (parcel->on == self % STREAMS || parcel->mark % 3) {
		kilni_pools_free(pools, &parcel->slice, uses, 1);
		return marked;
	}
	uses[1] = fake_work(self % STREAMS);
	kilni_pools_free(pools, &parcel->slice, uses, 2);
	return marked;
}

static bool one_round(unsigned self, unsigned i)
{
	static const uint64_t sizes[] = { 64, 1000, 4096, 64, 70000, 1000,
					  64, 2 * MiB };
	struct parcel parcel = { .on = self % STREAMS,
				 .mark = self * ROUNDS + i + 1 };

	if (kilni_pools_alloc(pools, stream(parcel.on), sizes[i % 8],
			      i % 64 == 0, &parcel.slice) != KILN_OK)
		return false;
	put_mark(&parcel);
	if ((i & 1 || !post(&parcel)) && !give_back(&parcel, self))
		return false;
	if (i % 5 == 0)
		fake_complete(self % STREAMS);
	/* Bursts, so that magazines fill and go round. */
	if (i % 400 >= 200)
		while (fetch(&parcel))
			if (!give_back(&parcel, self))
				return false;
	return true;
}

static void *work(void *argument)
{
	unsigned self = (unsigned)(uintptr_t)argument, i;
	void *failed = NULL;

	for (i = 0; i < ROUNDS && !failed; i++)
		if (!one_round(self, i))
			failed = &pools;
	atomic_fetch_sub(&running, 1);
	return failed;
}

/* What a reader sees is whole at every moment. */
static void *observe(void *argument)
{
	static const struct kilni_pools_config same = { .fill = false };
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	struct kiln_pool_info info[16];
	unsigned i;

	for (i = 0; atomic_load(&running); i++) {
		kilni_pools_usage(pools, &usage);
		if (usage.live_bytes + usage.cached_bytes +
			    usage.padding_bytes != usage.reserved_bytes ||
		    usage.live_bytes > usage.reserved_bytes ||
		    usage.cached_bytes > usage.reserved_bytes ||
		    usage.peak_live_bytes < usage.live_bytes)
			return argument;
		if (i % 16 == 0 && !kilni_pools_verify(pools))
			return argument;
		if (i % 64 == 0)
			kilni_pools_report(pools, info, 16);
		if (i % 256 == 0)
			(void)!kilni_pools_trim(pools, 0);
		/* Refused, unless nothing is live at that moment. */
		if (i % 256 == 128)
			(void)!kilni_pools_set_layout(pools, &same);
		atomic_fetch_add(&readings, 1);
	}
	return NULL;
}

START_TEST(eight_threads_four_streams)
{
	pthread_t threads[THREADS + 2];
	struct parcel parcel;
	unsigned i;

	fake_reset();
	hw = fake_hw(8 * GiB);
	hw.real = true;
	hw.limits.host_visible = true;
	pools = pools_new(&hw, 0, 0);
	atomic_store(&running, THREADS);
	for (i = 0; i < THREADS + 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						i < THREADS ? work : observe,
						(void *)(uintptr_t)i),
				 0);
	for (i = 0; i < THREADS + 2; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	while (fetch(&parcel))
		ck_assert(give_back(&parcel, 0));
	ck_assert_uint_ge(atomic_load(&readings), 2);
	pools_done(&hw, pools);
}
END_TEST

/* More streams than caches and than slots: all of them are served. */
START_TEST(more_streams_than_caches)
{
	static struct fake_stream many[2000];
	static struct kilni_slice slice[2000];
	struct kilni_use use;
	unsigned i, round;

	fake_reset();
	hw = fake_hw(8 * GiB);
	pools = pools_new(&hw, 0, 0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 2000; i++)
			ck_assert_int_eq(kilni_pools_alloc(pools, &many[i],
							   100, false,
							   &slice[i]),
					 KILN_OK);
		ck_assert_uint_eq(usage_of(pools).live_bytes, 200000);
		for (i = 0; i < 2000; i++) {
			use = (struct kilni_use){ &many[i], round + 1 };
			atomic_store(&many[i].submitted, round + 1);
			kilni_pools_free(pools, &slice[i], &use, 1);
		}
		ck_assert_uint_eq(usage_of(pools).live_bytes, 0);
	}
	for (i = 0; i < 2000; i++)
		atomic_store(&many[i].completed, 3);
	pools_done(&hw, pools);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools, threads");
	TCase *tests = tcase_create("threads");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 240);
	tcase_add_test(tests, eight_threads_four_streams);
	tcase_add_test(tests, more_streams_than_caches);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
