/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"

/* Completions: posted once each, in order, with the outcome of their op. */

#define SECOND INT64_C(1000000000)
#define BIG (1 << 16)

static struct kiln_device *dev;
static struct kiln_stream *own;
static struct kiln_completions *ring;

static void setup(void)
{
	dev = open_tested();
	own = NULL;
	ring = NULL;
	OK(kiln_stream_current(&own, dev));
	OK(kiln_completions_create(&ring, 64));
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_completions_release(ring);
	kiln_stream_release(own);
	kiln_device_release(dev);
}

START_TEST(what_is_done_is_posted_at_once)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *y = KILN_TENSOR_NONE;
	struct kiln_completion c;

	OK(kiln_exp(&y, x));
	OK(kiln_device_sync(dev));
	OK(kiln_tensor_complete(y, ring, 7));
	c = take_one(ring);
	ck_assert_uint_eq(c.user, 7);
	ck_assert_int_eq(c.status, KILN_OK);
	ck_assert_str_eq(c.op, "exp");
	ck_assert_ptr_null(take_one(ring).op);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* Data of the program's, and memory that nobody has written. */
START_TEST(what_no_op_wrote_has_no_name)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *y = KILN_TENSOR_NONE;
	const int64_t shape[] = { 2 };
	float have[2];

	OK(kiln_empty(&y, dev, KILN_F32, 1, shape));
	OK(kiln_tensor_complete(x, ring, 1));
	ck_assert_str_eq(wait_one(ring).op, "");
	OK(kiln_tensor_complete(y, ring, 2));
	ck_assert_str_eq(wait_one(ring).op, "");
	OK(kiln_tensor_read_async(x, have, sizeof(have), ring, 3));
	ck_assert_str_eq(wait_one(ring).op, "");
	OK(kiln_neg(&x, x));
	OK(kiln_tensor_read_async(x, have, sizeof(have), ring, 4));
	ck_assert_str_eq(wait_one(ring).op, "neg");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(what_is_pending_is_posted_later)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;
	struct kiln_completion c;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_neg(&y, x));
	OK(kiln_tensor_complete(y, ring, 1));
	OK(kiln_stream_complete(own, ring, 2));
	ck_assert_ptr_null(take_one(ring).op);
	FAILS(kiln_completions_wait(ring, SECOND / 100), KILN_ERR_TIMEOUT,
	      "kiln_completions_wait");
	kilni_gate_open(&gate);
	c = wait_one(ring);
	ck_assert_uint_eq(c.user, 1);
	ck_assert_str_eq(c.op, "neg");
	c = wait_one(ring);
	ck_assert_uint_eq(c.user, 2);
	ck_assert_str_eq(c.op, "");
	ck_assert_int_eq(c.status, KILN_OK);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/*
 * Twenty ops in a row, the seventh fails: it has the blame and its name, those
 * that follow from it are cancelled, the error is told once.
 */
/* P10: of 20 ops the 7th fails. */
START_TEST(p10_the_blame_is_where_the_failure_was)
{
	struct kiln_tensor *x = full_of(dev, BIG, 1), *t[20] = { NULL };
	struct kiln_completion c;
	int gate = 0;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	for (int i = 0; i < 20; i++) {
		struct kiln_tensor *from = i ? t[i - 1] : x;

		if (i == 6)
			OK(kiln_exp(&t[i], from));
		else
			OK(kiln_add(&t[i], from, x));
		OK(kiln_tensor_complete(t[i], ring, (uint64_t)i + 1));
	}
	OK(kilni_fault_set("launch", 7, KILN_ERR_DRIVER));
	kilni_gate_open(&gate);
	for (int i = 0; i < 20; i++) {
		c = wait_one(ring);
		ck_assert_uint_eq(c.user, (uint64_t)i + 1);
		ck_assert_str_eq(c.op, i == 6 ? "exp" : "add");
		ck_assert_int_eq(c.status, i < 6    ? KILN_OK
					   : i == 6 ? KILN_ERR_DRIVER
						    : KILN_ERR_DEPENDENCY);
	}
	FAILS(kiln_stream_sync(own), KILN_ERR_DRIVER, "kiln_exp");
	OK(kiln_stream_sync(own));
	OK(kiln_stream_complete(own, ring, 99));
	ck_assert_int_eq(wait_one(ring).status, KILN_ERR_POISONED);
	OK(kiln_stream_reset(own));
	OK(kiln_stream_complete(own, ring, 100));
	ck_assert_int_eq(wait_one(ring).status, KILN_OK);
	OK(kiln_tensor_complete(t[19], ring, 101));
	ck_assert_int_eq(take_one(ring).status, KILN_ERR_DEPENDENCY);
	for (int i = 0; i < 20; i++)
		kiln_tensor_release(t[i]);
	kiln_tensor_release(x);
}
END_TEST

START_TEST(a_full_ring_is_busy)
{
	struct kiln_completions *small = NULL;
	struct kiln_completion c[4] = {
		KILN_COMPLETION_INIT, KILN_COMPLETION_INIT,
		KILN_COMPLETION_INIT, KILN_COMPLETION_INIT
	};
	size_t count = 4;
	int gate = 0;

	/* Three is rounded up to four; a request counts before it is posted. */
	OK(kiln_completions_create(&small, 3));
	OK(kiln_stream_complete(own, small, 1));
	OK(kilni_test_gate(dev, &gate));
	for (uint64_t i = 2; i <= 4; i++)
		OK(kiln_stream_complete(own, small, i));
	FAILS(kiln_stream_complete(own, small, 5), KILN_ERR_BUSY, "4");
	kilni_gate_open(&gate);
	OK(kiln_stream_sync(own));
	FAILS(kiln_stream_complete(own, small, 5), KILN_ERR_BUSY, "4");
	OK(kiln_completions_take(small, c, &count));
	ck_assert_uint_eq(count, 4);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_uint_eq(c[i].user, i + 1);
	OK(kiln_stream_complete(own, small, 5));
	kiln_completions_release(small);
}
END_TEST

/* ---- P14: many more completions than places ---- */

#define THREADS 4
#define TAGS (SANITIZED ? 500 : 2500)

struct producer {
	uint64_t first;
	pthread_t thread;
};

static void *produce(void *arg)
{
	const struct producer *producer = arg;
	struct kiln_tensor *x = full_of(dev, BIG, 1), *y = KILN_TENSOR_NONE;

	for (uint64_t i = 0; i < (uint64_t)TAGS; i++) {
		enum kiln_status status;

		OK(kiln_add(&y, x, x));
		while ((status = kiln_tensor_complete(
				y, ring, producer->first + i)) ==
		       KILN_ERR_BUSY)
			;
		OK(status);
	}
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	return NULL;
}

/* Every tag comes once, those of a thread in its order. */
START_TEST(p14_no_completion_is_lost)
{
	struct producer producer[THREADS];
	uint64_t next[THREADS] = { 0 };
	struct kiln_completion c;

	setenv("KILN_RING_LIMIT", "64", 1);
	kiln_completions_release(ring);
	ring = NULL;
	OK(kiln_completions_create(&ring, 16));
	kilni_test_completions_start(ring, UINT32_C(0xfffffff0));
	for (uint64_t i = 0; i < THREADS; i++) {
		producer[i].first = i << 32;
		ck_assert_int_eq(pthread_create(&producer[i].thread, NULL,
						produce, &producer[i]), 0);
	}
	for (int n = 0; n < THREADS * TAGS; n++) {
		c = wait_one(ring);
		ck_assert_ptr_nonnull(c.op);
		ck_assert_str_eq(c.op, "add");
		ck_assert_uint_lt(c.user >> 32, THREADS);
		ck_assert_uint_eq(c.user & UINT32_MAX, next[c.user >> 32]++);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(producer[i].thread, NULL);
	ck_assert_ptr_null(take_one(ring).op);
}
END_TEST

/* ---- event loops ---- */

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

START_TEST(the_descriptor_follows_the_ring)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = -1, again = -2, loop = epoll_create1(EPOLL_CLOEXEC);
	int gate = 0;

	OK(kiln_stream_complete(own, ring, 1));
	OK(kiln_completions_fd(ring, &fd));
	OK(kiln_completions_fd(ring, &again));
	ck_assert_int_eq(fd, again);
	OK(kiln_stream_sync(own));
	ck_assert(is_readable(fd));
	ck_assert_uint_eq(take_one(ring).user, 1);
	ck_assert(!is_readable(fd));
	OK(kilni_test_gate(dev, &gate));
	for (uint64_t i = 2; i < 5; i++)
		OK(kiln_stream_complete(own, ring, i));
	ck_assert_int_eq(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event), 0);
	ck_assert_int_eq(epoll_wait(loop, &event, 1, 10), 0);
	kilni_gate_open(&gate);
	ck_assert_int_eq(epoll_wait(loop, &event, 1, 60000), 1);
	OK(kiln_stream_sync(own));
	for (uint64_t i = 2; i < 5; i++) {
		ck_assert(is_readable(fd));
		ck_assert_uint_eq(take_one(ring).user, i);
	}
	ck_assert(!is_readable(fd));
	close(loop);
}
END_TEST

START_TEST(a_descriptor_that_fails_is_an_error)
{
	int fd = -5;

	OK(kilni_fault_set("eventfd", 1, KILN_ERR_LIMIT));
	FAILS(kiln_completions_fd(ring, &fd), KILN_ERR_LIMIT, "");
	ck_assert_int_eq(fd, -5);
	OK(kiln_completions_fd(ring, &fd));
	ck_assert_int_ge(fd, 0);
}
END_TEST

START_TEST(a_ring_may_go_with_requests_pending)
{
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	for (uint64_t i = 0; i < 4; i++)
		OK(kiln_stream_complete(own, ring, i));
	kiln_completions_release(ring);
	ring = NULL;
	kilni_gate_open(&gate);
	OK(kiln_stream_sync(own));
}
END_TEST

START_TEST(a_lost_device_posts_all)
{
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_stream_complete(own, ring, 1));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST));
	/* Its own push is the submission that finds the device gone. */
	OK(kiln_stream_complete(own, ring, 2));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(wait_one(ring).status, KILN_ERR_DEVICE_LOST);
	FAILS(kiln_stream_complete(own, ring, 3), KILN_ERR_DEVICE_LOST, "");
	ck_assert_ptr_null(take_one(ring).op);
	kilni_gate_open(&gate);
}
END_TEST

START_TEST(a_null_device_posts_too)
{
	struct kiln_device *null = open_device("null");
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_zeros(&t, null, KILN_F32, 1, SHAPE(BIG)));
	OK(kiln_tensor_complete(t, ring, 5));
	ck_assert_uint_eq(wait_one(ring).user, 5);
	kiln_tensor_release(t);
	kiln_device_release(null);
}
END_TEST

START_TEST(bad_input_is_refused)
{
	struct kiln_completions *other = NULL;
	struct kiln_completion c = KILN_COMPLETION_INIT;
	size_t none = 0, one = 1;
	int fd;

	FAILS(kiln_completions_create(NULL, 1), KILN_ERR_INVALID, "out");
	FAILS(kiln_completions_create(&other, 0), KILN_ERR_INVALID, "0");
	FAILS(kiln_completions_create(&other, (1 << 24) + 1), KILN_ERR_INVALID,
	      "16777217");
	ck_assert_ptr_null(other);
	FAILS(kiln_completions_take(NULL, &c, &one), KILN_ERR_INVALID, "ring");
	FAILS(kiln_completions_take(ring, NULL, &one), KILN_ERR_INVALID, "");
	FAILS(kiln_completions_take(ring, &c, &none), KILN_ERR_INVALID, "");
	c.struct_size = 3;
	FAILS(kiln_completions_take(ring, &c, &one), KILN_ERR_INVALID, "3");
	FAILS(kiln_completions_fd(ring, NULL), KILN_ERR_INVALID, "fd");
	FAILS(kiln_completions_fd((void *)dev, &fd), KILN_ERR_INVALID, "ring");
	FAILS(kiln_stream_complete(own, NULL, 0), KILN_ERR_INVALID, "ring");
	FAILS(kiln_stream_complete(NULL, ring, 0), KILN_ERR_INVALID, "stream");
	FAILS(kiln_tensor_complete(NULL, ring, 0), KILN_ERR_INVALID, "tensor");
	kiln_completions_release(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("completions");
	TCase *c = tcase_create("completions");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 300);
	tcase_add_test(c, what_is_done_is_posted_at_once);
	tcase_add_test(c, what_no_op_wrote_has_no_name);
	tcase_add_test(c, what_is_pending_is_posted_later);
	tcase_add_test(c, p10_the_blame_is_where_the_failure_was);
	tcase_add_test(c, a_full_ring_is_busy);
	tcase_add_test(c, p14_no_completion_is_lost);
	tcase_add_test(c, the_descriptor_follows_the_ring);
	tcase_add_test(c, a_descriptor_that_fails_is_an_error);
	tcase_add_test(c, a_ring_may_go_with_requests_pending);
	tcase_add_test(c, a_lost_device_posts_all);
	tcase_add_test(c, a_null_device_posts_too);
	tcase_add_test(c, bad_input_is_refused);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
