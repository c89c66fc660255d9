/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of several streams and threads; a long random run. */

#include "tests/unit/pools_fake.h"

#include <pthread.h>

#include "alloc/internal.h"
#include "base/sanitizer.h"

static struct fake_hw hw;
static struct kilni_pools *pools;

static void set_up(void)
{
	fake_reset();
	hw = fake_hw(64 * GiB);
}

static unsigned orders(void)
{
	return atomic_load(&fake_orders);
}

static unsigned waits(void)
{
	return atomic_load(&fake_waits);
}

/* ---- who may have a range when ---- */

START_TEST(same_stream_at_once)
{
	static const uint64_t sizes[] = { 64, MiB, 8 * MiB, 100 * MiB };
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 0);
	a = take(pools, 1, sizes[_i]);
	give(pools, &a, 1);
	b = take(pools, 1, sizes[_i]);
	ck_assert_uint_eq(a.address, b.address);
	ck_assert_uint_eq(orders() + waits(), 0);
	give(pools, &b, 1);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(other_stream_when_done)
{
	static const uint64_t sizes[] = { 64, MiB, 8 * MiB, 100 * MiB };
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 0);
	a = take(pools, 1, sizes[_i]);
	give(pools, &a, 1);
	if (sizes[_i] < 64 * MiB) {
		/* A new page or another hole comes before an event. */
		b = take(pools, 2, sizes[_i]);
		ck_assert_uint_ne(a.address, b.address);
		give(pools, &b, 1);
	}
	fake_complete(1);
	b = take(pools, 2, sizes[_i]);
	ck_assert(sizes[_i] < 64 * MiB || a.address == b.address);
	ck_assert_uint_eq(orders() + waits(), 0);
	give(pools, &b, 2);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(other_stream_behind_an_event)
{
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 64 * MiB);
	a = take(pools, 1, 64 * MiB);
	give(pools, &a, 1);
	b = take(pools, 2, 64 * MiB);
	ck_assert_uint_eq(a.address, b.address);
	ck_assert_uint_eq(orders(), 1);
	ck_assert_uint_eq(stream(2)->behind[1], 1);
	/* Never used on 2: the first use still counts. */
	give_done(pools, &b);
	b = take(pools, 3, 64 * MiB);
	ck_assert_uint_eq(orders(), 2);
	ck_assert_uint_eq(stream(3)->behind[1], 1);
	give(pools, &b, 3);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(a_page_cached_is_worth_an_event)
{
	struct kilni_slice a[3], b;
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < 3; i++)
		a[i] = take(pools, 1, 64 * MiB);
	for (i = 0; i < 3; i++)
		give(pools, &a[i], 1);
	b = take(pools, 2, 64 * MiB);
	ck_assert_uint_eq(orders(), 1);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 192 * MiB);
	give(pools, &b, 2);
	pools_done(&hw, pools);
}
END_TEST

/* Three neighbours, last used on three streams, become one range. */
START_TEST(merging_keeps_all_dependencies)
{
	struct kilni_slice part[3], all;
	unsigned i;

	pools = pools_new(&hw, 0, 64 * MiB);
	part[0] = take(pools, 1, 20 * MiB);
	part[1] = take(pools, 1, 20 * MiB);
	part[2] = take(pools, 1, 24 * MiB);
	for (i = 0; i < 3; i++)
		give(pools, &part[(i + _i) % 3], 1 + (i + _i) % 3);
	all = take(pools, 4, 64 * MiB);
	ck_assert_uint_eq(all.address, part[0].address);
	ck_assert_uint_eq(orders(), 3);
	for (i = 1; i <= 3; i++)
		ck_assert_uint_eq(stream(4)->behind[i], 1);
	give(pools, &all, 4);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(uses_on_many_streams)
{
	struct kilni_use uses[FAKE_STREAMS];
	struct kilni_slice a, b;
	unsigned i, round;

	pools = pools_new(&hw, 0, 64 * MiB);
	for (round = 0; round < 3; round++) {
		a = take(pools, 0, 64 * MiB);
		for (i = 0; i < FAKE_STREAMS; i++)
			uses[i] = fake_work(i);
		kilni_pools_free(pools, &a, uses, FAKE_STREAMS);
		usage_of(pools);
		fake_complete(5);
		b = take(pools, 0, 64 * MiB);
		ck_assert_uint_eq(orders(), 6 * (round + 1));
		give(pools, &b, 0);
	}
	pools_done(&hw, pools);
}
END_TEST

/* An owner that frees without having used it changes nothing. */
START_TEST(an_idle_owner_hides_nothing)
{
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 64 * MiB);
	a = take(pools, 1, 64 * MiB);
	give(pools, &a, 1);
	a = take(pools, 1, 64 * MiB);
	give_done(pools, &a);
	b = take(pools, 2, 64 * MiB);
	ck_assert_uint_eq(stream(2)->behind[1], 1);
	/* Nor does one that used it elsewhere. */
	give(pools, &b, 3);
	a = take(pools, 3, 64 * MiB);
	ck_assert_uint_eq(stream(3)->behind[1], 1);
	give(pools, &a, 3);
	pools_done(&hw, pools);
}
END_TEST

/* P08: freed while another stream still reads. */
START_TEST(p08_a_reader_elsewhere)
{
	struct kilni_slice a, b;
	struct kilni_use uses[2];
	unsigned round;

	pools = pools_new(&hw, 0, 0);
	for (round = 0; round < 1000; round++) {
		a = take(pools, 1, MiB);
		uses[0] = fake_work(1);
		uses[1] = fake_work(2);
		kilni_pools_free(pools, &a, uses, 2);
		fake_complete(1);
		b = take(pools, 1, MiB);
		if (b.address == a.address)
			ck_assert_uint_ge(stream(1)->behind[2], uses[1].seq);
		give(pools, &b, 1);
		if (round % 8 == 0)
			fake_complete(2);
	}
	ck_assert_uint_le(usage_of(pools).reserved_bytes, 48 * MiB);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(an_event_that_fails)
{
	struct kilni_slice a, b = { 0 };

	pools = pools_new(&hw, 0, 64 * MiB);
	a = take(pools, 1, 64 * MiB);
	give(pools, &a, 1);
	fake_order_fails = true;
	/* Waiting does instead. */
	b = take(pools, 2, 64 * MiB);
	ck_assert_uint_eq(orders(), 0);
	ck_assert_uint_eq(waits(), 1);
	give(pools, &b, 2);
	pools_done(&hw, pools);
}
END_TEST

/* ---- pressure ---- */

START_TEST(pending_frees_are_waited_for)
{
	struct kilni_slice part[4], all;
	unsigned i;

	pools = pools_new(&hw, 0, 256 * MiB);
	for (i = 0; i < 4; i++)
		part[i] = take(pools, i, 64 * MiB);
	for (i = 0; i < 4; i++)
		give(pools, &part[i], i);
	all = take(pools, 0, 256 * MiB);
	/* In a range the four are neighbours, and events will do. */
	ck_assert_uint_eq(waits(), fake_mode == FAKE_MAPPED ? 0 : 4);
	ck_assert_uint_eq(orders(), fake_mode == FAKE_MAPPED ? 3 : 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 256 * MiB);
	give(pools, &all, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(no_wait_without_hope)
{
	struct kilni_slice a, b, c = { 0 };

	pools = pools_new(&hw, 0, 128 * MiB);
	a = take(pools, 1, 64 * MiB);
	b = take(pools, 1, 64 * MiB);
	give(pools, &a, 1);
	ck_assert_int_eq(try_take(pools, 2, 65 * MiB, false, &c),
			 KILN_ERR_LIMIT);
	ck_assert_uint_eq(waits(), 0);
	give(pools, &b, 1);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(trim_leaves_pending_pages)
{
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 0);
	a = take(pools, 1, 64 * MiB);
	b = take(pools, 2, 64 * MiB);
	give(pools, &a, 1);
	give(pools, &b, 2);
	fake_complete(2);
	kilni_pools_trim(pools, 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 64 * MiB);
	fake_complete(1);
	kilni_pools_trim(pools, 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	pools_done(&hw, pools);
}
END_TEST

/* P01's variant: what streams that are gone have freed serves others. */
START_TEST(p01_streams_that_are_gone)
{
	struct kilni_slice part[4], all;
	unsigned i, round;

	pools = pools_new(&hw, 0, 256 * MiB);
	for (round = 0; round < 100; round++) {
		unsigned on = round % FAKE_STREAMS;

		for (i = 0; i < 4; i++)
			part[i] = take(pools, on, 64 * MiB);
		for (i = 0; i < 4; i++)
			give(pools, &part[i], on);
		fake_complete(on);
		if (round % 3)
			continue;
		all = take(pools, (on + 1) % FAKE_STREAMS, 256 * MiB);
		give(pools, &all, (on + 1) % FAKE_STREAMS);
		fake_complete((on + 1) % FAKE_STREAMS);
	}
	ck_assert_uint_le(usage_of(pools).peak_reserved_bytes, 256 * MiB);
	ck_assert_uint_eq(orders() + waits(), 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- a long random run beside a simple model ---- */

/*
 * The model knows every use of every range that may still be pending, and that
 * live slices must not meet.
 */
struct past_use {
	uint64_t address, bytes;
	struct kilni_use use;
};

#define PAST 4096
#define LIVE 256

/* One thread: nothing for a race detector, which makes it slow. */
#if KILNI_TSAN
#define STEPS 20000
#else
#define STEPS 200000
#endif

static struct past_use past[PAST];
static unsigned past_count;
static struct kilni_slice live[LIVE];
static unsigned live_count, failures;
static uint64_t seed;

static uint64_t any(uint64_t below)
{
	seed = seed * UINT64_C(6364136223846793005) +
	       UINT64_C(1442695040888963407);
	return (seed >> 33) % below;
}

static bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static void forget_done(void)
{
	unsigned i = 0;

	while (i < past_count)
		if (fake_done(past[i].use.stream, past[i].use.seq))
			past[i] = past[--past_count];
		else
			i++;
}

static void complete_some(void)
{
	unsigned i = (unsigned)any(FAKE_STREAMS);
	uint64_t now = atomic_load(&stream(i)->completed);
	uint64_t most = atomic_load(&stream(i)->submitted);

	atomic_store(&stream(i)->completed, now + any(most - now + 1));
	forget_done();
}

static bool meets_live(uint64_t address, uint64_t bytes)
{
	unsigned i;

	for (i = 0; i < live_count; i++)
		if (live[i].bytes && overlaps(live[i].address, live[i].bytes,
					      address, bytes))
			return true;
	return false;
}

/* Whether past uses are pending that a stream does not come behind. */
static bool meets_past(uint64_t address, uint64_t bytes,
		       const struct fake_stream *on)
{
	unsigned i;

	forget_done();
	for (i = 0; i < past_count; i++) {
		const struct fake_stream *of = past[i].use.stream;

		if (on && (of == on ||
			   on->behind[of - fake_streams] >= past[i].use.seq))
			continue;
		if (overlaps(past[i].address, past[i].bytes, address, bytes))
			return true;
	}
	return false;
}

static void check_page_unused(const struct kilni_page *page)
{
	if (meets_live(page->address, page->bytes) ||
	    meets_past(page->address, page->bytes, NULL))
		ck_abort_msg("a page was given back in use");
}

static void check_taken(const struct kilni_slice *slice, unsigned on)
{
	if (!slice->bytes)
		return;
	if (meets_live(slice->address, slice->bytes))
		ck_abort_msg("live slices meet");
	if (meets_past(slice->address, slice->bytes, stream(on)))
		ck_abort_msg("a slice was taken while in use");
}

static uint64_t any_size(void)
{
	unsigned bits = (unsigned)any(27);

	if (any(64) == 0)
		return 0;
	if (any(4) == 0)
		return UINT64_C(1) << bits;
	return (UINT64_C(1) << bits) + any(UINT64_C(1) << bits);
}

static void take_any(void)
{
	unsigned on = (unsigned)any(FAKE_STREAMS);
	bool persistent = any(16) == 0;
	struct kilni_slice slice = { 0 };
	enum kiln_status status;

	if (live_count == LIVE)
		return;
	status = kilni_pools_alloc(pools, stream(on), any_size(), persistent,
				   &slice);
	if (status != KILN_OK) {
		if (status != KILN_ERR_LIMIT &&
		    status != KILN_ERR_OUT_OF_MEMORY)
			ck_abort_msg("status %d", (int)status);
		failures++;
		return;
	}
	check_taken(&slice, on);
	live[live_count++] = slice;
}

static void give_any(void)
{
	unsigned i, at, on, count = (unsigned)any(4), used = 0;
	struct kilni_use uses[4];

	if (!live_count || past_count + 4 > PAST)
		return;
	at = (unsigned)any(live_count);
	on = (unsigned)any(FAKE_STREAMS);
	for (i = 0; i < count; i++) {
		uses[used] = fake_work((on + i) % FAKE_STREAMS);
		past[past_count++] = (struct past_use){
			live[at].address, live[at].bytes, uses[used]
		};
		if (!live[at].bytes)
			past_count--;
		used++;
	}
	kilni_pools_free(pools, &live[at], uses, used);
	live[at] = live[--live_count];
}

static void step_any(void)
{
	uint64_t what = any(1000);

	/* Swings between growth and shrinkage. */
	if (what < (any(7) < 4 ? 480 : 400))
		take_any();
	else if (what < 850)
		give_any();
	else if (what < 995)
		complete_some();
	else if (what < 997)
		(void)!kilni_pools_trim(pools, any(GiB));
	else
		fake_order_fails = any(4) == 0;
}

START_TEST(random_run)
{
	static const char *const sites[] = { "page_alloc", "map_create",
					     "map_attach", "map_detach" };
	static const uint64_t caps[] = { 64 * GiB, GiB, 300 * MiB };
	unsigned i;

	seed = 1 + (uint64_t)_i;
	past_count = live_count = failures = 0;
	hw.physical = _i == 1 ? 700 * MiB : 0;
	hw.on_free = check_page_unused;
	pools = pools_new(&hw, 0, caps[_i]);
	for (i = 0; i < STEPS; i++) {
		step_any();
		if (i % 1000 == 0)
			usage_of(pools);
		if (i % 5000 == 0)
			kilni_fault_set(sites[fake_mode == FAKE_MAPPED
						      ? any(4)
						      : 0],
					1 + any(3), KILN_ERR_OUT_OF_MEMORY);
	}
	ck_assert_uint_ge(orders(), 100);
	ck_assert(_i == 0 || failures > 10);
	fake_order_fails = false;
	while (live_count) {
		complete_some();
		give_any();
	}
	usage_of(pools);
	pools_done(&hw, pools);
}
END_TEST

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS 20000
#define BOX 64

/* Slices on their way to a thread that did not take them. */
struct box {
	pthread_mutex_t lock;
	struct kilni_slice slice[BOX];
	unsigned taken_on[BOX];
	unsigned count;
};

static struct box boxes[THREADS];

static bool post(struct box *box, const struct kilni_slice *slice, unsigned on)
{
	bool room;

	pthread_mutex_lock(&box->lock);
	room = box->count < BOX;
	if (room) {
		box->taken_on[box->count] = on;
		box->slice[box->count++] = *slice;
	}
	pthread_mutex_unlock(&box->lock);
	return room;
}

static bool fetch(struct box *box, struct kilni_slice *slice, unsigned *on)
{
	bool some;

	pthread_mutex_lock(&box->lock);
	some = box->count > 0;
	if (some) {
		*slice = box->slice[--box->count];
		*on = box->taken_on[box->count];
	}
	pthread_mutex_unlock(&box->lock);
	return some;
}

static void give_fetched(struct box *box, unsigned self)
{
	struct kilni_use uses[2];
	struct kilni_slice slice;
	unsigned on;

	while (fetch(box, &slice, &on)) {
		uses[0] = fake_work(on);
		uses[1] = fake_work(self);
		kilni_pools_free(pools, &slice, uses, on == self ? 1 : 2);
	}
}

static void *work(void *argument)
{
	unsigned self = (unsigned)((struct box *)argument - boxes), i;

	for (i = 0; i < ROUNDS; i++) {
		static const uint64_t sizes[] = { 64, 1000, 70000, 5 * MiB };
		struct kilni_slice slice;

		if (kilni_pools_alloc(pools, stream(self), sizes[i % 4],
				      i % 32 == 0, &slice) != KILN_OK)
			return argument;
		if (i % 64 == 0)
			*(volatile char *)(uintptr_t)slice.address = 1;
		if (i & 1 || !post(&boxes[(self + i / 2) % THREADS], &slice,
				   self)) {
			struct kilni_use use = fake_work(self);

			kilni_pools_free(pools, &slice, &use, 1);
		}
		if (i % 16 == 0)
			give_fetched(&boxes[self], self);
		if (i % 4 == 0)
			fake_complete(self);
		if (i % 500 == 0 && !kilni_pools_verify(pools))
			return argument;
	}
	return NULL;
}

START_TEST(threads_free_each_others_slices)
{
	pthread_t threads[THREADS];
	unsigned i;

	hw.real = true;
	hw.limits.host_visible = true;
	hw.limits.map_reserve_bytes = 64 * GiB;
	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < THREADS; i++) {
		pthread_mutex_init(&boxes[i].lock, NULL);
		boxes[i].count = 0;
	}
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work,
						&boxes[i]),
				 0);
	for (i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	for (i = 0; i < THREADS; i++)
		give_fetched(&boxes[i], i);
	pools_done(&hw, pools);
}
END_TEST

static void add_all(Suite *suite, const char *name, void (*mode)(void))
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, mode, NULL);
	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, same_stream_at_once, 0, 4);
	tcase_add_loop_test(tests, other_stream_when_done, 0, 4);
	tcase_add_test(tests, other_stream_behind_an_event);
	tcase_add_test(tests, a_page_cached_is_worth_an_event);
	/* Shared pages are as large as what came first: none to merge on. */
	if (mode != fake_shared)
		tcase_add_loop_test(tests, merging_keeps_all_dependencies, 0,
				    3);
	tcase_add_test(tests, uses_on_many_streams);
	tcase_add_test(tests, an_idle_owner_hides_nothing);
	tcase_add_test(tests, p08_a_reader_elsewhere);
	tcase_add_test(tests, an_event_that_fails);
	tcase_add_test(tests, pending_frees_are_waited_for);
	tcase_add_test(tests, no_wait_without_hope);
	tcase_add_test(tests, trim_leaves_pending_pages);
	tcase_add_test(tests, p01_streams_that_are_gone);
	tcase_add_loop_test(tests, random_run, 0, 3);
	tcase_add_test(tests, threads_free_each_others_slices);
	suite_add_tcase(suite, tests);
}

int main(void)
{
	Suite *suite = suite_create("pools, streams");
	SRunner *runner = srunner_create(suite);
	int failed;

	add_all(suite, "ladder", fake_ladder);
	add_all(suite, "shared pages", fake_shared);
	add_all(suite, "mapped", fake_mapped);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
