/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <semaphore.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"

/* Priorities of streams on the CPU: with one worker the order is to be seen. */

#define SECOND INT64_C(1000000000)
#define BIG (1 << 16)

static struct kiln_device *dev;
static struct kiln_completions *ring;
static sem_t entered, leave;
static float data[BIG];

static void setup(void)
{
	setenv("KILN_CPU_WORKERS", "1", 1);
	dev = open_device("cpu");
	ring = NULL;
	OK(kiln_completions_create(&ring, 256));
	sem_init(&entered, 0, 0);
	sem_init(&leave, 0, 0);
}

static void teardown(void)
{
	kiln_completions_release(ring);
	kiln_device_release(dev);
}

static struct kiln_stream *make_stream(enum kiln_priority priority)
{
	struct kiln_stream *stream = NULL;

	OK(kiln_stream_create_with_priority(&stream, dev, priority));
	ck_assert_int_eq(kiln_stream_priority(stream), priority);
	return stream;
}

/* A deleter: it keeps the worker. */
static void keep(void *memory, void *user)
{
	(void)memory;
	(void)user;
	sem_post(&entered);
	sem_wait(&leave);
}

/* Puts something into the stream that keeps the worker once it gets there. */
static void put_stop(struct kiln_stream *stream)
{
	struct kiln_tensor *f = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	int gate = 0;

	OK(kiln_stream_set_current(dev, stream));
	OK(kiln_tensor_from_foreign(&f, dev, KILN_F32, 1, SHAPE(BIG), data,
				    KILN_FOREIGN_READ_ONLY, keep, NULL));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_neg(&y, f));
	kiln_tensor_release(f);
	kiln_tensor_release(y);
	OK(kiln_stream_set_current(dev, NULL));
	kilni_gate_open(&gate);
	sem_wait(&entered);
}

static void expect_next(uint64_t user)
{
	struct kiln_completion c = KILN_COMPLETION_INIT;
	size_t one = 1;

	OK(kiln_completions_wait(ring, 60 * SECOND));
	OK(kiln_completions_take(ring, &c, &one));
	ck_assert_uint_eq(c.user, user);
}

START_TEST(the_higher_is_taken_first)
{
	struct kiln_stream *stop = make_stream(KILN_PRIORITY_NORMAL);
	struct kiln_stream *low = make_stream(KILN_PRIORITY_LOW);
	struct kiln_stream *normal = make_stream(KILN_PRIORITY_NORMAL);
	struct kiln_stream *high = make_stream(KILN_PRIORITY_HIGH);

	put_stop(stop);
	OK(kiln_stream_complete(low, ring, 1));
	OK(kiln_stream_complete(normal, ring, 2));
	OK(kiln_stream_complete(high, ring, 3));
	sem_post(&leave);
	expect_next(3);
	expect_next(2);
	expect_next(1);
	kiln_stream_release(stop);
	kiln_stream_release(low);
	kiln_stream_release(normal);
	kiln_stream_release(high);
}
END_TEST

/* A worker leaves what it is at for what is higher, not for its like. */
START_TEST(a_lower_one_is_left)
{
	struct kiln_stream *normal = make_stream(KILN_PRIORITY_NORMAL);
	struct kiln_stream *like = make_stream(KILN_PRIORITY_NORMAL);
	struct kiln_stream *high = make_stream(KILN_PRIORITY_HIGH);

	put_stop(normal);
	for (uint64_t i = 0; i < 10; i++)
		OK(kiln_stream_complete(normal, ring, 10 + i));
	OK(kiln_stream_complete(like, ring, 20));
	OK(kiln_stream_complete(high, ring, 30));
	sem_post(&leave);
	expect_next(30);
	/* It went back to the end of the list of its like. */
	expect_next(20);
	for (uint64_t i = 0; i < 10; i++)
		expect_next(10 + i);
	kiln_stream_release(normal);
	kiln_stream_release(like);
	kiln_stream_release(high);
}
END_TEST

/* What orders two streams goes before their priorities. */
START_TEST(events_are_kept)
{
	struct kiln_stream *low = make_stream(KILN_PRIORITY_LOW);
	struct kiln_stream *high = make_stream(KILN_PRIORITY_HIGH);
	struct kiln_event *event = NULL;

	put_stop(low);
	OK(kiln_stream_complete(low, ring, 1));
	OK(kiln_event_record(&event, low));
	OK(kiln_stream_wait_event(high, event));
	OK(kiln_stream_complete(high, ring, 2));
	sem_post(&leave);
	expect_next(1);
	expect_next(2);
	kiln_event_release(event);
	kiln_stream_release(low);
	kiln_stream_release(high);
}
END_TEST

/* A slot that is used again has the priority that was asked for. */
START_TEST(slots_keep_their_priority)
{
	struct kiln_stream *stream = NULL;

	for (int i = 0; i < 20; i++) {
		stream = make_stream((enum kiln_priority)(i % 3 - 1));
		kiln_stream_release(stream);
	}
	stream = NULL;
	OK(kiln_stream_create(&stream, dev));
	ck_assert_int_eq(kiln_stream_priority(stream), KILN_PRIORITY_NORMAL);
	FAILS(kiln_stream_create_with_priority(&stream, dev,
					       (enum kiln_priority)2),
	      KILN_ERR_INVALID, "2");
	FAILS(kiln_stream_create_with_priority(&stream, dev,
					       (enum kiln_priority)-2),
	      KILN_ERR_INVALID, "-2");
	FAILS(kiln_stream_create_with_priority(NULL, dev, KILN_PRIORITY_HIGH),
	      KILN_ERR_INVALID, "out");
	kiln_stream_release(stream);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("priority");
	TCase *c = tcase_create("priority");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, the_higher_is_taken_first);
	tcase_add_test(c, a_lower_one_is_left);
	tcase_add_test(c, events_are_kept);
	tcase_add_test(c, slots_keep_their_priority);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
