/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "drivers/driver.h"
#include "lib/testing.h"

/* Profile windows, and the arithmetic of device clocks (P41). */

#define SECOND INT64_C(1000000000)
#define MS UINT64_C(1000000)

/* ---- clocks ---- */

#define TWO(n) (UINT64_C(1) << (n))

static void expect_ns(unsigned bits, double tick_ns, uint64_t begin,
		      uint64_t end, uint64_t want)
{
	struct kilni_clock clock = kilni_clock_of(bits, tick_ns);
	uint64_t ns = 12345;

	ck_assert(kilni_clock_between(&clock, begin, end, &ns));
	ck_assert_uint_eq(ns, want);
}

static void expect_none(unsigned bits, double tick_ns, uint64_t begin,
			uint64_t end)
{
	struct kilni_clock clock = kilni_clock_of(bits, tick_ns);
	uint64_t ns = 12345;

	ck_assert(!kilni_clock_between(&clock, begin, end, &ns));
	ck_assert_uint_eq(ns, 12345);
}

/* Expected values by hand: ticks times their length, to the nearest ns. */
START_TEST(p41_ticks_become_ns)
{
	/* 1500 * 52.0833 = 78124.95, over the wrap */
	expect_ns(36, 52.0833, TWO(36) - 1000, 500, 78125);
	/* 1000 * 52.08 */
	expect_ns(36, 52.08, 100, 1100, 52080);
	expect_ns(32, 1, TWO(32) - 1, 1, 2);
	expect_ns(32, 1, 0, TWO(32) - 1, 4294967295u);
	/* 12 * 83.3333 = 999.9996 */
	expect_ns(48, 83.3333, TWO(48) - 1, 11, 1000);
	expect_ns(48, 1, TWO(47), TWO(47), 0);
	/* 3 * 0.5 = 1.5 */
	expect_ns(64, 0.5, 7, 10, 2);
	expect_ns(64, 1, TWO(63) - 1, TWO(63) + 9, 10);
	/* Bits above the valid ones mean nothing. */
	expect_ns(36, 1, 7 * TWO(36) + 10, 3 * TWO(36) + 30, 20);
}
END_TEST

START_TEST(p41_what_cannot_be_is_no_time)
{
	expect_none(0, 1, 1, 2);
	expect_none(65, 1, 1, 2);
	expect_none(64, 1, 2, 1);
	expect_none(64, 0, 1, 2);
	expect_none(64, -1, 1, 2);
	expect_none(64, 2e9, 1, 2);
	/* 2^63 ticks of 2 ns */
	expect_none(64, 2, 0, TWO(63));
}
END_TEST

START_TEST(p41_nothing_is_lost_to_rounding)
{
	struct kilni_clock clock = kilni_clock_of(36, 52.08);
	uint64_t ns, bad = 0;

	for (uint64_t i = 1; i <= 1000000; i++) {
		uint64_t exact = i * 5208 / 100;

		if (!kilni_clock_between(&clock, TWO(36) - i / 2,
					 i - i / 2, &ns) ||
		    ns < exact || ns > exact + 1)
			bad++;
	}
	ck_assert_uint_eq(bad, 0);
}
END_TEST

/* ---- windows ---- */

static const char *selector;
static struct kiln_device *dev;
static struct kiln_stream *own;
static struct kiln_tensor *x;

static void setup(void)
{
	dev = open_device(selector);
	own = NULL;
	OK(kiln_stream_current(&own, dev));
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_device_sync(dev));
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_tensor_release(x);
	kiln_stream_release(own);
	kiln_device_release(dev);
}

static struct kiln_profile *start(void)
{
	struct kiln_profile *window = NULL;

	OK(kiln_profile_start(&window, dev));
	ck_assert_ptr_nonnull(window);
	return window;
}

static struct kiln_duration *end(struct kiln_profile *window)
{
	struct kiln_duration *duration = NULL;

	OK(kiln_profile_end(&duration, window, NULL));
	return duration;
}

static void work(void)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_neg(&y, x));
	kiln_tensor_release(y);
}

static uint64_t measured(struct kiln_duration *duration)
{
	uint64_t ns = UINT64_MAX;

	OK(kiln_duration_wait(duration, 60 * SECOND));
	ck_assert_int_eq(kiln_duration_query(duration, &ns),
			 KILN_DURATION_MEASURED);
	kiln_duration_release(duration);
	return ns;
}

static void expect_no_measurement(struct kiln_duration *duration)
{
	uint64_t ns = 77;

	OK(kiln_duration_wait(duration, 60 * SECOND));
	ck_assert_int_eq(kiln_duration_query(duration, &ns),
			 KILN_DURATION_NONE);
	ck_assert_uint_eq(ns, 77);
	kiln_duration_release(duration);
}

static void nap(uint64_t ns)
{
	struct timespec pause = { 0, (long)ns };

	nanosleep(&pause, NULL);
}

/* The gate inside keeps the device from the end for 20 ms at least. */
START_TEST(a_window_counts_what_is_inside)
{
	uint64_t before = kilni_now_ns(), ns;
	struct kiln_profile *window = start();
	struct kiln_duration *duration;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	work();
	duration = end(window);
	ck_assert_int_eq(kiln_duration_query(duration, &ns),
			 KILN_DURATION_PENDING);
	FAILS(kiln_duration_wait(duration, 0), KILN_ERR_TIMEOUT, "duration");
	FAILS(kiln_duration_wait(duration, (int64_t)(20 * MS)),
	      KILN_ERR_TIMEOUT, "20000000 ns");
	kilni_gate_open(&gate);
	ns = measured(duration);
	ck_assert_uint_ge(ns, 20 * MS);
	ck_assert_uint_le(ns, kilni_now_ns() - before + MS);
}
END_TEST

START_TEST(what_was_queued_before_falls_out)
{
	struct kiln_duration *duration;
	struct kiln_profile *window;
	uint64_t opened, ns;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	work();
	window = start();
	work();
	duration = end(window);
	nap(50 * MS);
	opened = kilni_now_ns();
	kilni_gate_open(&gate);
	ns = measured(duration);
	ck_assert_uint_le(ns, kilni_now_ns() - opened);
}
END_TEST

START_TEST(what_is_queued_behind_falls_out)
{
	struct kiln_profile *window = start();
	struct kiln_duration *duration;
	static int gate; /* looked at until the device closes */

	work();
	duration = end(window);
	OK(kilni_test_gate(dev, &gate));
	work();
	(void)measured(duration);
	kilni_gate_open(&gate);
}
END_TEST

static const struct kiln_profile_options flushing = {
	sizeof(flushing), true, "flushed"
};

/* Nobody but the option hands the work over. */
START_TEST(a_flush_lets_it_resolve)
{
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window;
	uint64_t limit = kilni_now_ns() + 60 * (uint64_t)SECOND;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	window = start();
	work();
	OK(kiln_profile_end(&duration, window, &flushing));
	kilni_gate_open(&gate);
	while (kiln_duration_query(duration, NULL) == KILN_DURATION_PENDING &&
	       kilni_now_ns() < limit)
		nap(MS);
	ck_assert_int_eq(kiln_duration_query(duration, NULL),
			 KILN_DURATION_MEASURED);
	kiln_duration_release(duration);
}
END_TEST

START_TEST(an_empty_window_is_zero)
{
	struct kiln_profile *outer = start(), *inner;
	struct kiln_event *event = NULL;
	static int gate; /* looked at until the device closes */

	ck_assert_uint_eq(measured(end(start())), 0);
	inner = start();
	OK(kiln_event_record(&event, own));
	nap(MS);
	ck_assert_uint_eq(measured(end(inner)), 0);
	/* Known at once, though the stream has not got there. */
	OK(kilni_test_gate(dev, &gate));
	inner = start();
	ck_assert_uint_eq(measured(end(inner)), 0);
	kilni_gate_open(&gate);
	ck_assert_uint_gt(measured(end(outer)), 0);
	kiln_event_release(event);
}
END_TEST

START_TEST(windows_nest)
{
	struct kiln_duration *first, *second, *all;
	struct kiln_profile *outer, *inner;
	uint64_t a, b, c;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	outer = start();
	inner = start();
	work();
	first = end(inner);
	work();
	inner = start();
	work();
	work();
	second = end(inner);
	all = end(outer);
	kilni_gate_open(&gate);
	c = measured(all);
	b = measured(second);
	a = measured(first);
	/* Each is rounded, and a GPU's clock has ticks. */
	ck_assert_uint_le(a + b, c + 2000);
}
END_TEST

/* ---- streams and threads ---- */

START_TEST(a_window_closes_on_its_stream_only)
{
	struct kiln_profile *window = start();
	struct kiln_duration *duration = NULL;
	struct kiln_stream *other = NULL;

	work();
	OK(kiln_stream_create(&other, dev));
	OK(kiln_stream_set_current(dev, other));
	FAILS(kiln_profile_end(&duration, window, NULL), KILN_ERR_INVALID,
	      "another stream");
	ck_assert_ptr_null(duration);
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_profile_end(&duration, window, NULL));
	(void)measured(duration);
	kiln_stream_release(other);
}
END_TEST

struct relay {
	struct kiln_stream *stream;
	struct kiln_profile *window;
	struct kiln_duration *duration;
};

static void *close_in_thread(void *arg)
{
	struct relay *relay = arg;

	FAILS(kiln_profile_end(&relay->duration, relay->window, NULL),
	      KILN_ERR_INVALID, "another stream");
	OK(kiln_stream_set_current(dev, relay->stream));
	work();
	OK(kiln_profile_end(&relay->duration, relay->window, NULL));
	return NULL;
}

START_TEST(another_thread_may_close_it)
{
	struct relay relay = { 0 };
	pthread_t thread;

	OK(kiln_stream_create(&relay.stream, dev));
	OK(kiln_stream_set_current(dev, relay.stream));
	relay.window = start();
	OK(kiln_stream_set_current(dev, NULL));
	ck_assert_int_eq(pthread_create(&thread, NULL, close_in_thread,
					&relay), 0);
	pthread_join(thread, NULL);
	kiln_stream_release(relay.stream);
	(void)measured(relay.duration);
}
END_TEST

static void *measure_in_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++) {
		struct kiln_profile *window = start();

		work();
		if (i % 3 == 0)
			kiln_profile_abandon(window);
		else if (i % 3 == 1)
			kiln_duration_release(end(window));
		else
			(void)measured(end(window));
	}
	return NULL;
}

/* This thread's stream is held all the while. */
START_TEST(streams_are_measured_apart)
{
	struct kiln_profile *window;
	struct kiln_duration *held;
	pthread_t thread[3];
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	window = start();
	work();
	held = end(window);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL,
						measure_in_thread, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(kiln_duration_query(held, NULL),
			 KILN_DURATION_PENDING);
	kilni_gate_open(&gate);
	(void)measured(held);
}
END_TEST

static void *wait_in_thread(void *duration)
{
	return measured(duration) ? duration : NULL;
}

START_TEST(several_threads_wait_for_one)
{
	struct kiln_profile *window = start();
	struct kiln_duration *duration;
	pthread_t thread[3];
	void *result;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	work();
	duration = end(window);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(
			&thread[i], NULL, wait_in_thread,
			kiln_duration_retain(duration)), 0);
	nap(MS);
	kilni_gate_open(&gate);
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], &result);
		ck_assert_ptr_eq(result, duration);
	}
	kiln_duration_release(duration);
}
END_TEST

/* ---- the order of releases ---- */

START_TEST(handles_go_with_work_in_flight)
{
	struct kiln_profile *window, *dropped;
	struct kiln_device *device = open_device(selector);
	struct kiln_duration *duration;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	window = start();
	dropped = start();
	work();
	kiln_profile_abandon(dropped);
	kiln_profile_abandon(NULL);
	duration = end(window);
	kiln_duration_release(duration);
	kiln_duration_release(NULL);
	kiln_profile_abandon(start());
	kilni_gate_open(&gate);
	kiln_device_release(device);
}
END_TEST

/* The duration is what keeps the device open. */
START_TEST(a_duration_holds_its_device)
{
	struct kiln_device *device = open_device("null");
	struct kiln_duration *duration = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_profile *window = NULL;

	OK(kiln_profile_start(&window, device));
	OK(kiln_zeros(&t, device, KILN_F32, 1, SHAPE(1 << 20)));
	OK(kiln_profile_end(&duration, window, NULL));
	kiln_tensor_release(t);
	kiln_device_release(device);
	(void)measured(duration);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_failure_found_later_leaves_no_measurement)
{
	struct kiln_duration *good, *bad;
	struct kiln_profile *window;
	static int gate; /* looked at until the device closes */

	OK(kilni_fault_set("launch", 2, KILN_ERR_DRIVER));
	OK(kilni_test_gate(dev, &gate));
	window = start();
	work();
	good = end(window);
	window = start();
	work();
	bad = end(window);
	kilni_gate_open(&gate);
	(void)measured(good);
	expect_no_measurement(bad);
	FAILS(kiln_stream_sync(own), KILN_ERR_DRIVER, "neg");
	OK(kiln_stream_reset(own));
	(void)measured(end(start()));
}
END_TEST

/* Poisons the stream, and knows it. */
static void fail_now(void)
{
	OK(kilni_fault_set("launch", 1, KILN_ERR_DRIVER));
	work();
	FAILS(kiln_stream_sync(own), KILN_ERR_DRIVER, "neg");
}

START_TEST(a_failure_that_is_known_refuses_the_end)
{
	struct kiln_profile *window = start(), *second = NULL;
	struct kiln_duration *duration = NULL;

	fail_now();
	FAILS(kiln_profile_end(&duration, window, NULL), KILN_ERR_POISONED,
	      "neg");
	ck_assert_ptr_null(duration);
	kiln_profile_abandon(window);
	FAILS(kiln_profile_start(&second, dev), KILN_ERR_POISONED, "neg");
	ck_assert_ptr_null(second);
	OK(kiln_stream_reset(own));
}
END_TEST

START_TEST(a_device_that_gives_no_time)
{
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct kiln_duration *duration;
		struct kiln_profile *window;

		OK(kilni_fault_set("clock", nth, KILN_ERR_DRIVER));
		window = start();
		work();
		duration = end(window);
		expect_no_measurement(duration);
	}
}
END_TEST

static void expect_in_log(FILE *log, const char *text)
{
	char line[512] = "";
	bool found = false;

	rewind(log);
	while (fgets(line, sizeof(line), log))
		found |= strstr(line, text) != NULL;
	ck_assert_msg(found, "\"%s\" is not in the log", text);
}

START_TEST(a_lost_device_resolves_with_the_reason)
{
	FILE *log = tmpfile();
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window, *first;
	static int gate; /* looked at until the device closes */

	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	OK(kilni_test_gate(dev, &gate));
	first = start();
	window = start();
	work();
	OK(kiln_profile_end(&duration, window, &(struct kiln_profile_options){
				sizeof(flushing), false, "doomed" }));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST));
	expect_no_measurement(duration);
	expect_in_log(log, "doomed");
	expect_in_log(log, "the device is lost");
	duration = NULL;
	FAILS(kiln_profile_end(&duration, first, NULL), KILN_ERR_DEVICE_LOST,
	      "");
	kiln_profile_abandon(first);
	FAILS(kiln_profile_start(&first, dev), KILN_ERR_DEVICE_LOST, "");
	kilni_gate_open(&gate);
	fclose(log);
}
END_TEST

/* ---- the callback form ---- */

struct call {
	int calls;
	bool fails;
};

static enum kiln_status work_in_call(void *user)
{
	struct call *call = user;

	call->calls++;
	if (call->fails)
		return kiln_neg(NULL, x);
	/* On a poisoned stream this is refused, which is its own affair. */
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	(void)!kiln_neg(&y, x);
	kiln_tensor_release(y);
	return KILN_OK;
}

static enum kiln_status fail_in_call(void *user)
{
	(void)user;
	fail_now();
	return KILN_OK;
}

START_TEST(a_function_is_measured)
{
	struct kiln_duration *duration = NULL;
	struct call call = { 0, false };

	OK(kiln_profile(&duration, dev, NULL, work_in_call, &call));
	OK(kiln_profile(&duration, dev, &flushing, work_in_call, &call));
	ck_assert_int_eq(call.calls, 2);
	(void)measured(duration);
}
END_TEST

START_TEST(a_function_that_fails_abandons_its_window)
{
	struct kiln_duration *duration = NULL;
	struct call call = { 0, true };

	FAILS(kiln_profile(&duration, dev, NULL, work_in_call, &call),
	      KILN_ERR_INVALID, "out is NULL");
	ck_assert_int_eq(call.calls, 1);
	ck_assert_ptr_null(duration);
}
END_TEST

START_TEST(the_function_runs_in_each_case)
{
	struct kiln_duration *duration = NULL;
	struct call call = { 0, false };

	/* Work inside fails. */
	FAILS(kiln_profile(&duration, dev, NULL, fail_in_call, NULL),
	      KILN_ERR_POISONED, "neg");
	/* The window cannot be opened. */
	FAILS(kiln_profile(&duration, dev, NULL, work_in_call, &call),
	      KILN_ERR_POISONED, "neg");
	ck_assert_int_eq(call.calls, 1);
	ck_assert_ptr_null(duration);
	OK(kiln_stream_reset(own));
}
END_TEST

/* ---- a device without a clock ---- */

static struct kilni_device_ops clockless_ops;
static struct kilni_driver clockless;

static struct kiln_device *open_clockless(void)
{
	static const struct kilni_driver *list[] = { &clockless, NULL };

	for (size_t i = 0; kilni_drivers[i]; i++)
		if (!strcmp(kilni_drivers[i]->name, "null"))
			clockless = *kilni_drivers[i];
	clockless_ops = *clockless.device;
	clockless_ops.clock = kilni_device_stub_clock;
	clockless.device = &clockless_ops;
	kilni_test_drivers(list);
	return open_device("null");
}

START_TEST(without_a_clock_it_is_wall_time)
{
	struct kiln_device *device = open_clockless();
	struct kiln_duration *duration = NULL, *empty = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_profile *window = NULL;
	uint64_t ns;

	OK(kiln_profile_start(&window, device));
	OK(kiln_profile_end(&empty, window, NULL));
	ck_assert_uint_eq(measured(empty), 0);
	OK(kiln_profile_start(&window, device));
	OK(kiln_zeros(&t, device, KILN_F32, 1, SHAPE(4)));
	nap(5 * MS);
	OK(kiln_profile_end(&duration, window, NULL));
	ck_assert_int_eq(kiln_duration_query(duration, &ns),
			 KILN_DURATION_MEASURED);
	ck_assert_uint_ge(ns, 5 * MS);
	kiln_duration_release(duration);
	OK(kiln_profile_start(&window, device));
	kiln_profile_abandon(window);
	kiln_tensor_release(t);
	kiln_device_release(device);
	kilni_test_drivers(NULL);
}
END_TEST

/* ---- the border ---- */

START_TEST(bad_input_is_refused)
{
	struct kiln_profile_options unknown = { 3, false, NULL };
	struct kiln_profile *window = start();
	struct kiln_duration *duration = NULL;

	FAILS(kiln_profile_start(NULL, dev), KILN_ERR_INVALID, "out");
	FAILS(kiln_profile_start(&window, NULL), KILN_ERR_INVALID, "device");
	FAILS(kiln_profile_end(NULL, window, NULL), KILN_ERR_INVALID, "out");
	FAILS(kiln_profile_end(&duration, NULL, NULL), KILN_ERR_INVALID,
	      "window");
	FAILS(kiln_profile_end(&duration, (void *)own, NULL),
	      KILN_ERR_INVALID, "window");
	FAILS(kiln_profile_end(&duration, window, &unknown), KILN_ERR_INVALID,
	      "struct_size 3");
	FAILS(kiln_duration_wait((void *)window, 0), KILN_ERR_INVALID,
	      "duration");
	ck_assert_int_eq(kiln_duration_query(NULL, NULL), KILN_DURATION_NONE);
	FAILS(kiln_profile(&duration, dev, NULL, NULL, NULL),
	      KILN_ERR_INVALID, "func");
	OK(kiln_profile_end(&duration, window, NULL));
	/* It is a duration now. */
	FAILS(kiln_profile_end(&duration, window, NULL), KILN_ERR_INVALID,
	      "no live open window");
	kiln_duration_release(duration);
}
END_TEST

START_TEST(a_child_has_no_windows)
{
	struct kiln_profile *window = start(), *second = start();
	struct kiln_duration *duration = end(second), *none = NULL;
	int result;
	pid_t child = fork();

	if (!child) {
		bool refused =
			kiln_profile_end(&none, window, NULL) ==
				KILN_ERR_FORKED &&
			kiln_duration_wait(duration, 0) == KILN_ERR_FORKED &&
			kiln_duration_query(duration, NULL) ==
				KILN_DURATION_NONE;

		kiln_profile_abandon(window);
		kiln_duration_release(duration);
		_exit(refused ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &result, 0), child);
	ck_assert_int_eq(result, 0);
	ck_assert_uint_eq(measured(duration), 0);
	kiln_profile_abandon(window);
}
END_TEST

/* ---- every call of the driver fails in turn ---- */

/* True: all went well. */
static bool measure_once(void)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE, *z = KILN_TENSOR_NONE;
	struct kiln_duration *duration = NULL, *inner = NULL;
	struct kiln_profile *window = NULL, *second = NULL;
	bool good = true;

	good &= !kiln_profile_start(&window, dev);
	good &= !kiln_full(&y, dev, KILN_F32, 1, SHAPE(100000), kiln_float(2));
	good &= !kiln_profile_start(&second, dev);
	good &= y && !kiln_neg(&z, y);
	if (second && kiln_profile_end(&inner, second, NULL))
		kiln_profile_abandon(second);
	if (window && kiln_profile_end(&duration, window, &flushing))
		kiln_profile_abandon(window);
	if (duration) {
		OK(kiln_duration_wait(duration, 60 * SECOND));
		good &= kiln_duration_query(duration, NULL) ==
			KILN_DURATION_MEASURED;
	}
	good &= duration && inner && !kiln_device_sync(dev);
	kiln_duration_release(inner);
	kiln_duration_release(duration);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	return good;
}

static void recover(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	if (kiln_device_sync(dev) == KILN_ERR_DEVICE_LOST) {
		teardown();
		setup();
	}
	OK(kiln_stream_reset(own));
}

static void sweep(enum kiln_status status)
{
	uint64_t nth = 1, passes;

	do {
		OK(kilni_fault_set("*", nth, status));
		(void)measure_once();
		passes = kilni_fault_passes();
		recover();
		ck_assert_msg(measure_once(), "after fault %d: %s", (int)nth,
			      kiln_error_message());
	} while (nth++ < passes && nth < 60);
	ck_assert_uint_gt(nth, 2);
}

START_TEST(any_call_may_fail)
{
	sweep(KILN_ERR_DRIVER);
}
END_TEST

START_TEST(any_call_may_lose_the_device)
{
	sweep(KILN_ERR_DEVICE_LOST);
}
END_TEST

/* The log's level is read once. */
static void setup_with_log(void)
{
	setenv("KILN_LOG", "warn", 1);
	setup();
}

static void choose_cpu(void)
{
	selector = "cpu";
}

static void choose_null(void)
{
	selector = "null";
}

static void choose_tested(void)
{
	/* So that one that does not answer any more is lost in time. */
	setenv("KILN_VULKAN_TIMEOUT_MS", "5000", 1);
	selector = tested_selector();
}

static void add_windows(Suite *suite, const char *name, void (*choose)(void))
{
	TCase *log = tcase_create("log"), *c = tcase_create(name);
	TCase *faults = tcase_create("faults");

	tcase_add_checked_fixture(log, choose, NULL);
	tcase_add_checked_fixture(log, setup_with_log, teardown);
	tcase_add_test(log, a_lost_device_resolves_with_the_reason);
	suite_add_tcase(suite, log);
	tcase_add_checked_fixture(c, choose, NULL);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, a_window_counts_what_is_inside);
	tcase_add_test(c, what_was_queued_before_falls_out);
	tcase_add_test(c, what_is_queued_behind_falls_out);
	tcase_add_test(c, a_flush_lets_it_resolve);
	tcase_add_test(c, an_empty_window_is_zero);
	tcase_add_test(c, windows_nest);
	tcase_add_test(c, a_window_closes_on_its_stream_only);
	tcase_add_test(c, another_thread_may_close_it);
	tcase_add_test(c, streams_are_measured_apart);
	tcase_add_test(c, several_threads_wait_for_one);
	tcase_add_test(c, handles_go_with_work_in_flight);
	tcase_add_test(c, a_duration_holds_its_device);
	tcase_add_test(c, a_failure_found_later_leaves_no_measurement);
	tcase_add_test(c, a_failure_that_is_known_refuses_the_end);
	tcase_add_test(c, a_device_that_gives_no_time);
	tcase_add_test(c, a_function_is_measured);
	tcase_add_test(c, a_function_that_fails_abandons_its_window);
	tcase_add_test(c, the_function_runs_in_each_case);
	tcase_add_test(c, without_a_clock_it_is_wall_time);
	tcase_add_test(c, bad_input_is_refused);
	tcase_add_test(c, a_child_has_no_windows);
	suite_add_tcase(suite, c);
	tcase_add_checked_fixture(faults, choose, NULL);
	tcase_add_checked_fixture(faults, setup, teardown);
	tcase_set_timeout(faults, 120);
	tcase_add_test(faults, any_call_may_fail);
	tcase_add_test(faults, any_call_may_lose_the_device);
	suite_add_tcase(suite, faults);
}

int main(void)
{
	Suite *suite = suite_create("profile");
	TCase *clocks = tcase_create("clocks");

	tcase_add_test(clocks, p41_ticks_become_ns);
	tcase_add_test(clocks, p41_what_cannot_be_is_no_time);
	tcase_add_test(clocks, p41_nothing_is_lost_to_rounding);
	suite_add_tcase(suite, clocks);
	if (getenv("KILN_TEST_DEVICE")) {
		add_windows(suite, "windows", choose_tested);
	} else {
		add_windows(suite, "windows on cpu", choose_cpu);
		add_windows(suite, "windows on null", choose_null);
	}
	return run_suite(suite);
}
