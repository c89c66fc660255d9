/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"

/* Options of one device, and what they do. */

#define BIG (1 << 18)

static struct kiln_device *dev;

static void setup(void)
{
	dev = NULL;
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
}

static void open_with(const char *options)
{
	kiln_device_release(dev);
	dev = NULL;
	OK(kiln_device_open_with(&dev, tested_selector(), options));
}

START_TEST(what_is_wrong_is_quoted)
{
	static const struct {
		const char *options, *quoted;
	} bad[] = {
		{ "page=plain", "page" },
		{ "pages", "pages" },
		{ "pages=", "pages=" },
		{ "=plain", "\"\"" },
		{ "pages=plain pages=mapped", "pages=mapped" },
		{ "pages=flat", "flat" },
		{ "spin_us=21", "21" },
		{ "spin_us=x", "x" },
		{ "ring_limit=3", "3" },
		{ "drain=0", "0" },
		{ "drain=65", "65" },
		{ "drain=8x", "8x" },
		{ "drain=threads", "threads" },
		{ "log=debug", "log" },
		{ "PAGES=plain", "PAGES" },
	};

	for (size_t i = 0; i < KILNI_COUNTOF(bad); i++) {
		FAILS(kiln_device_open_with(&dev, tested_selector(),
					    bad[i].options),
		      KILN_ERR_OPTION, bad[i].quoted);
		ck_assert_ptr_null(dev);
	}
	FAILS(kiln_device_open_with(NULL, "cpu", ""), KILN_ERR_INVALID, "out");
	OK(kiln_device_open_with(&dev, tested_selector(), "   "));
}
END_TEST

/* Most entries that fit, told by the message of the refusal. */
static const char *fill_ring(void)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1);
	enum kiln_status status = KILN_OK;
	static char message[256];
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	for (int i = 0; i < 5000 && status == KILN_OK; i++)
		status = kiln_add_scalar(&x, x, kiln_float(1));
	ck_assert_int_eq(status, KILN_ERR_BUSY);
	snprintf(message, sizeof(message), "%s", kiln_error_message());
	kilni_gate_open(&gate);
	OK(kiln_device_sync(dev));
	kiln_tensor_release(x);
	return message;
}

START_TEST(an_option_goes_before_the_environment)
{
	setenv("KILN_RING_LIMIT", "128", 1);
	open_with("ring_limit=256 drain=4");
	ck_assert_ptr_nonnull(strstr(fill_ring(), "256"));
	open_with(NULL);
	ck_assert_ptr_nonnull(strstr(fill_ring(), "128"));
	/* What the environment has wrong is wrong all the same. */
	setenv("KILN_RING_LIMIT", "x", 1);
	kiln_device_release(dev);
	dev = NULL;
	FAILS(kiln_device_open(&dev, tested_selector()), KILN_ERR_OPTION, "x");
	unsetenv("KILN_RING_LIMIT");
}
END_TEST

START_TEST(an_open_device_keeps_its_options)
{
	struct kiln_device *again = NULL;

	open_with("spin_us=5 pages=plain");
	OK(kiln_device_open_with(&again, tested_selector(), "pages=plain"));
	ck_assert_ptr_eq(again, dev);
	OK(kiln_device_open_with(&again, tested_selector(), NULL));
	FAILS(kiln_device_open_with(&again, tested_selector(), "spin_us=6"),
	      KILN_ERR_ALREADY_INITIALIZED, "KILN_SPIN_US");
	FAILS(kiln_device_open_with(&again, tested_selector(), "drain=8"),
	      KILN_ERR_ALREADY_INITIALIZED, "KILN_DRAIN");
	ck_assert_ptr_eq(again, dev);
	kiln_device_release(again);
	open_with("spin_us=6");
}
END_TEST

/* A layout of the program's changes what it names, and nothing else. */
START_TEST(a_layout_keeps_what_was_given)
{
	const struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	char text[64];

	open_with("pages=plain pool_cap_bytes=64M");
	OK(kiln_memory_set_layout(dev, &layout));
	OK(kiln_memory_mapping(dev, text, sizeof(text)));
	ck_assert_msg(!strncmp(text, "plain", 5), "%s", text);
	FAILS(kiln_empty(&x, dev, KILN_U8, 1, SHAPE(100000000)),
	      KILN_ERR_LIMIT, "67108864");
}
END_TEST

/* ---- who drains ---- */

static uint64_t count_submissions(void)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1);
	uint64_t passes;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("submit", 1000000, KILN_ERR_DRIVER));
	for (int i = 0; i < 48; i++)
		OK(kiln_add_scalar(&x, x, kiln_float(1)));
	passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	expect_all(x, 49);
	kiln_tensor_release(x);
	return passes;
}

START_TEST(the_caller_drains_every_so_many)
{
	open_with("drain=1");
	ck_assert_uint_eq(count_submissions(), 48);
	open_with("drain=16");
	ck_assert_uint_eq(count_submissions(), 3);
	open_with("drain=64");
	ck_assert_uint_eq(count_submissions(), 0);
}
END_TEST

/* How many submissions ops take on a device that is never behind. */
static unsigned count_pieces(struct kiln_tensor *x, int ops)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	struct kiln_stream *own = NULL;
	uint64_t before = 0;
	unsigned pieces = 0;

	OK(kiln_stream_current(&own, dev));
	OK(kilni_fault_set("submit", 1000000, KILN_ERR_DRIVER));
	for (int i = 0; i < ops; i++) {
		OK(kiln_exp(&y, x));
		if (kilni_fault_passes() == before)
			continue;
		before = kilni_fault_passes();
		pieces++;
		while (kiln_stream_progress(own) < kiln_stream_position(own))
			sched_yield();
	}
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	expect_all(y, 1);
	kiln_stream_release(own);
	kiln_tensor_release(y);
	return pieces;
}

/*
 * 8 at first; from 64 that nobody has waited for an eighth of them, up to 64:
 * 33 pieces of 1024, where all had been 128. A wait begins it anew.
 */
START_TEST(a_long_run_comes_in_larger_pieces)
{
	struct kiln_tensor *x;

	open_with(NULL);
	/* Too much for the caller to do itself, too little not to wait. */
	x = full_of(dev, 1 << 14, 0);
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(count_pieces(x, 1024), 33);
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(count_pieces(x, 64), 8);
	kiln_tensor_release(x);
}
END_TEST

/* Nobody flushes or waits, and the work is done. */
START_TEST(a_thread_drains)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct kiln_stream *own = NULL, *other = NULL;

	open_with("drain=thread");
	OK(kiln_stream_current(&own, dev));
	OK(kiln_stream_create(&other, dev));
	x = full_of(dev, BIG, 1);
	for (int i = 0; i < 100; i++) {
		OK(kiln_stream_set_current(dev, i & 1 ? other : NULL));
		OK(kiln_add_scalar(&y, x, kiln_float(i)));
		OK(kiln_add_scalar(&x, y, kiln_float(1)));
	}
	while (kiln_stream_progress(own) < kiln_stream_position(own) ||
	       kiln_stream_progress(other) < kiln_stream_position(other))
		;
	OK(kiln_stream_set_current(dev, NULL));
	/* 0 + ... + 99, and a hundred ones. */
	expect_all(x, 1 + 4950 + 100);
	kiln_stream_release(own);
	kiln_stream_release(other);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

static void *work(void *arg)
{
	struct kiln_tensor *x = full_of(dev, BIG, 0);

	for (int i = 0; i < 200; i++)
		OK(kiln_add_scalar(&x, x, kiln_float(1)));
	expect_all(x, 200);
	kiln_tensor_release(x);
	return arg;
}

START_TEST(a_thread_drains_many)
{
	pthread_t thread[4];

	open_with("drain=thread spin_us=0");
	for (int i = 0; i < 4; i++)
		ck_assert(!pthread_create(&thread[i], NULL, work, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}
END_TEST

/* A refusal that the thread meets is the stream's error. */
START_TEST(a_thread_that_is_refused)
{
	struct kiln_tensor *x;

	open_with("drain=thread");
	x = full_of(dev, BIG, 1);
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DRIVER));
	(void)!kiln_add_scalar(&x, x, kiln_float(1));
	FAILS(kiln_device_sync(dev), KILN_ERR_DRIVER, "submit");
	kiln_tensor_release(x);
	kiln_device_release(dev);
	dev = NULL;
	OK(kilni_fault_set("submitter", 1, KILN_ERR_LIMIT));
	FAILS(kiln_device_open_with(&dev, tested_selector(), "drain=thread"),
	      KILN_ERR_LIMIT, "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("options");
	TCase *c = tcase_create("options");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, what_is_wrong_is_quoted);
	tcase_add_test(c, an_option_goes_before_the_environment);
	tcase_add_test(c, an_open_device_keeps_its_options);
	tcase_add_test(c, a_layout_keeps_what_was_given);
	tcase_add_test(c, the_caller_drains_every_so_many);
	tcase_add_test(c, a_long_run_comes_in_larger_pieces);
	tcase_add_test(c, a_thread_drains);
	tcase_add_test(c, a_thread_drains_many);
	tcase_add_test(c, a_thread_that_is_refused);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
