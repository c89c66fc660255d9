/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"

/* Events: points in a stream, waited for by hand. */

#define SECOND INT64_C(1000000000)

static struct kiln_device *dev;
static struct kiln_stream *own;

static void setup(void)
{
	dev = open_tested();
	own = NULL;
	OK(kiln_stream_current(&own, dev));
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_stream_release(own);
	kiln_device_release(dev);
}

/* An event behind a gate. */
static struct kiln_event *held_event(int *gate)
{
	struct kiln_event *event = NULL;

	OK(kilni_test_gate(dev, gate));
	OK(kiln_event_record(&event, own));
	return event;
}

START_TEST(an_event_is_reached_in_its_turn)
{
	int gate = 0;
	struct kiln_event *event = held_event(&gate);

	ck_assert(!kiln_event_done(event));
	FAILS(kiln_event_wait(event, 0), KILN_ERR_TIMEOUT, "kiln_event_wait");
	FAILS(kiln_event_wait(event, SECOND / 50), KILN_ERR_TIMEOUT,
	      "20000000 ns");
	ck_assert(!kiln_event_done(event));
	kilni_gate_open(&gate);
	OK(kiln_event_wait(event, -1));
	ck_assert(kiln_event_done(event));
	OK(kiln_event_wait(event, 0));
	kiln_event_release(event);
}
END_TEST

START_TEST(positions_only_grow)
{
	uint64_t before = kiln_stream_position(own);
	int gate = 0;
	struct kiln_event *event = held_event(&gate);

	ck_assert_uint_gt(kiln_event_value(event), before);
	ck_assert_uint_eq(kiln_event_value(event), kiln_stream_position(own));
	ck_assert_uint_lt(kiln_stream_progress(own), kiln_event_value(event));
	kilni_gate_open(&gate);
	OK(kiln_event_wait(event, -1));
	/* The count follows the call that makes the event. */
	OK(kiln_stream_sync(own));
	ck_assert_uint_eq(kiln_stream_progress(own), kiln_event_value(event));
	kiln_event_release(event);
}
END_TEST

START_TEST(a_stream_waits_for_an_event)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *y = KILN_TENSOR_NONE;
	struct kiln_stream *other = NULL;
	struct kiln_event *event, *second = NULL;
	int gate = 0;

	OK(kiln_device_sync(dev));
	event = held_event(&gate);
	OK(kiln_stream_create(&other, dev));
	OK(kiln_stream_wait_event(other, event));
	OK(kiln_stream_set_current(dev, other));
	OK(kiln_neg(&y, x));
	OK(kiln_event_record(&second, other));
	FAILS(kiln_event_wait(second, SECOND / 50), KILN_ERR_TIMEOUT, "");
	kilni_gate_open(&gate);
	OK(kiln_event_wait(second, -1));
	EXPECT_FLOATS(y, -1, -2, -3);
	OK(kiln_stream_set_current(dev, NULL));
	kiln_event_release(event);
	kiln_event_release(second);
	kiln_stream_release(other);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* What is behind it already need not wait again. */
START_TEST(one_wait_for_an_event_is_enough)
{
	int gate = 0;
	struct kiln_event *event = held_event(&gate);
	struct kiln_stream *other = NULL;
	uint64_t once;

	OK(kiln_stream_create(&other, dev));
	OK(kiln_stream_wait_event(other, event));
	once = kiln_stream_position(other);
	OK(kiln_stream_wait_event(other, event));
	OK(kiln_stream_wait_event(other, event));
	ck_assert_uint_eq(kiln_stream_position(other), once);
	ck_assert_uint_lt(kiln_stream_progress(other), once);
	kilni_gate_open(&gate);
	OK(kiln_stream_sync(other));
	ck_assert(kiln_event_done(event));
	kiln_event_release(event);
	kiln_stream_release(other);
}
END_TEST

START_TEST(an_event_may_go_before_its_point)
{
	int gate = 0;

	for (int i = 0; i < 3; i++) {
		struct kiln_event *event = NULL;

		if (!i)
			OK(kilni_test_gate(dev, &gate));
		OK(kiln_event_record(&event, own));
		kiln_event_release(event);
	}
	kilni_gate_open(&gate);
	OK(kiln_stream_sync(own));
}
END_TEST

static void *release_in_thread(void *arg)
{
	struct kiln_event *event = NULL;
	struct kiln_stream *stream = NULL;
	struct kiln_device *device = open_device("cpu");

	OK(kilni_test_gate(device, arg));
	OK(kiln_stream_current(&stream, device));
	OK(kiln_event_record(&event, stream));
	kiln_stream_release(stream);
	kiln_device_release(device);
	return event;
}

/* The event is the last that holds stream and device. */
START_TEST(an_event_outlives_thread_and_stream)
{
	int gate = 0;
	pthread_t thread;
	void *event;

	ck_assert_int_eq(pthread_create(&thread, NULL, release_in_thread,
					&gate), 0);
	ck_assert_int_eq(pthread_join(thread, &event), 0);
	kilni_gate_open(&gate);
	OK(kiln_event_wait(event, -1));
	kiln_event_release(event);
}
END_TEST

/* ---- P47: a signal while waiting ---- */

static void on_signal(int number)
{
	(void)number;
	kiln_interrupt();
}

static void on_other_signal(int number)
{
	(void)number;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	ck_assert_int_eq(sigaction(number, &action, NULL), 0);
}

struct sender {
	pthread_t to;
	bool enough; /* atomic */
};

/* Until told: one that comes before the wait interrupts nothing. */
static void *send_signals(void *arg)
{
	struct timespec pause = { 0, 30000000 };
	struct sender *sender = arg;

	do {
		nanosleep(&pause, NULL);
		pthread_kill(sender->to, SIGUSR1);
	} while (!__atomic_load_n(&sender->enough, __ATOMIC_ACQUIRE));
	return NULL;
}

static void expect_interruption(void)
{
	struct sender sender = { .to = pthread_self() };
	pthread_t thread;
	int gate = 0;
	struct kiln_event *event = held_event(&gate);

	ck_assert_int_eq(pthread_create(&thread, NULL, send_signals, &sender),
			 0);
	FAILS(kiln_event_wait(event, 60 * SECOND), KILN_ERR_INTERRUPTED,
	      "kiln_event_wait");
	__atomic_store_n(&sender.enough, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	/* Takes the interruption of a signal that has come since. */
	(void)!kiln_event_wait(event, SECOND / 100);
	/* Nothing was lost: the same wait ends as it should. */
	kilni_gate_open(&gate);
	OK(kiln_event_wait(event, 60 * SECOND));
	kiln_event_release(event);
}

START_TEST(p47_a_handler_wakes_the_waiter)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	float *data = malloc(sizeof(float) << 20);
	double sum = 0;

	handle(SIGUSR1, on_signal, SA_RESTART);
	OK(kiln_full(&x, dev, KILN_F32, 1, SHAPE(1 << 20), kiln_float(3)));
	expect_interruption();
	OK(kiln_tensor_read(x, data, sizeof(float) << 20));
	for (int i = 0; i < 1 << 20; i++)
		sum += data[i];
	ck_assert_double_eq(sum, 3.0 * (1 << 20));
	free(data);
	kiln_tensor_release(x);
}
END_TEST

START_TEST(p47_a_signal_without_restart_interrupts)
{
	handle(SIGUSR1, on_other_signal, 0);
	expect_interruption();
}
END_TEST

START_TEST(an_interrupt_before_the_wait_is_kept)
{
	int gate = 0;
	struct kiln_event *event = held_event(&gate);

	kiln_interrupt();
	FAILS(kiln_event_wait(event, 60 * SECOND), KILN_ERR_INTERRUPTED, "");
	FAILS(kiln_event_wait(event, SECOND / 100), KILN_ERR_TIMEOUT, "");
	kilni_gate_open(&gate);
	OK(kiln_event_wait(event, -1));
	kiln_event_release(event);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_lost_device_reaches_all)
{
	struct kiln_event *event = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	static int gate; /* looked at until the device closes */

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_event_record(&event, own));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST));
	FAILS(kiln_event_wait(event, 10 * SECOND), KILN_ERR_DEVICE_LOST, "");
	ck_assert(kiln_event_done(event));
	FAILS(kiln_event_wait(event, 0), KILN_ERR_DEVICE_LOST, "");
	FAILS(kiln_event_record(&event, own), KILN_ERR_DEVICE_LOST, "");
	FAILS(kiln_full(&x, dev, KILN_F32, 1, SHAPE(4), kiln_float(1)),
	      KILN_ERR_DEVICE_LOST, "");
	kilni_gate_open(&gate);
	kiln_event_release(event);
}
END_TEST

START_TEST(a_poisoned_stream_has_events)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *i = INTS(dev, 9);
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	struct kiln_event *event = NULL;

	/* Small, and so run at once: the error waits on the stream. */
	(void)!kiln_select(&y, x, 0, i);
	OK(kiln_event_record(&event, own));
	OK(kiln_event_wait(event, 10 * SECOND));
	FAILS(kiln_stream_sync(own), KILN_ERR_INDEX, "select");
	OK(kiln_stream_reset(own));
	kiln_event_release(event);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(i);
}
END_TEST

START_TEST(bad_input_is_refused)
{
	struct kiln_device *null = open_device("null");
	struct kiln_stream *other = NULL;
	struct kiln_event *event = NULL;

	FAILS(kiln_event_record(NULL, own), KILN_ERR_INVALID, "out");
	FAILS(kiln_event_record(&event, NULL), KILN_ERR_INVALID, "stream");
	ck_assert_ptr_null(event);
	FAILS(kiln_event_wait(NULL, 0), KILN_ERR_INVALID, "event");
	FAILS(kiln_event_wait((void *)own, 0), KILN_ERR_INVALID, "event");
	FAILS(kiln_stream_wait_event(own, NULL), KILN_ERR_INVALID, "event");
	OK(kiln_event_record(&event, own));
	OK(kiln_stream_create(&other, null));
	FAILS(kiln_stream_wait_event(other, event), KILN_ERR_DEVICE, "null");
	OK(kiln_stream_wait_event(own, event));
	kiln_event_release(event);
	kiln_event_release(NULL);
	kiln_stream_release(other);
	kiln_device_release(null);
}
END_TEST

START_TEST(a_child_may_not_wait)
{
	struct kiln_event *event = NULL;
	int result;
	pid_t child;

	OK(kiln_event_record(&event, own));
	child = fork();
	if (!child) {
		bool refused = kiln_event_wait(event, -1) == KILN_ERR_FORKED;

		kiln_event_release(event);
		_exit(refused ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &result, 0), child);
	ck_assert_int_eq(result, 0);
	OK(kiln_event_wait(event, 10 * SECOND));
	kiln_event_release(event);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("events");
	TCase *c = tcase_create("events");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, an_event_is_reached_in_its_turn);
	tcase_add_test(c, positions_only_grow);
	tcase_add_test(c, a_stream_waits_for_an_event);
	tcase_add_test(c, one_wait_for_an_event_is_enough);
	tcase_add_test(c, an_event_may_go_before_its_point);
	tcase_add_test(c, an_event_outlives_thread_and_stream);
	tcase_add_test(c, p47_a_handler_wakes_the_waiter);
	tcase_add_test(c, p47_a_signal_without_restart_interrupts);
	tcase_add_test(c, an_interrupt_before_the_wait_is_kept);
	tcase_add_test(c, a_lost_device_reaches_all);
	tcase_add_test(c, a_poisoned_stream_has_events);
	tcase_add_test(c, bad_input_is_refused);
	tcase_add_test(c, a_child_may_not_wait);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
