/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testing.h"
#include "sanitized.h"

/* Fork, exit, threads that end, signals: what a guest must not disturb. */

static struct kiln_tensor *big(struct kiln_device *dev, double value)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_full(&t, dev, KILN_F32, 1, SHAPE(1 << 20), kiln_float(value)));
	return t;
}

/* Exit status of body run in a child. */
static int in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid)
		body(), _exit(99);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static struct kiln_device *inherited;
static struct kiln_tensor *inherited_tensor;

/* Numbers the first check that fails. */
static int check_child(void)
{
	struct kiln_device *own = NULL;
	struct kiln_tensor *y = NULL;
	float value = 0;

	if (kiln_neg(&y, inherited_tensor) != KILN_ERR_FORKED)
		return 1;
	if (kiln_device_sync(inherited) != KILN_ERR_FORKED)
		return 2;
	kiln_tensor_release(inherited_tensor);
	kiln_device_release(inherited);
	if (kiln_device_open(&own, "cpu") != KILN_OK || own == inherited)
		return 3;
	if (kiln_full(&y, own, KILN_F32, 1, SHAPE(1), kiln_int(4)) ||
	    kiln_add(&y, y, y) || kiln_tensor_read(y, &value, sizeof(value)))
		return 4;
	if (value != 8)
		return 5;
	kiln_tensor_release(y);
	kiln_device_release(own);
	return 0;
}

static void forked_child(void)
{
	_exit(check_child());
}

START_TEST(fork_with_an_open_device)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	inherited = open_device("cpu");
	inherited_tensor = big(inherited, 1);
	OK(kiln_add(&y, inherited_tensor, inherited_tensor));
	ck_assert_int_eq(in_child(forked_child), 0);
	OK(kiln_add(&y, y, inherited_tensor));
	OK(kiln_device_sync(inherited));
	kiln_tensor_release(y);
	kiln_tensor_release(inherited_tensor);
	kiln_device_release(inherited);
}
END_TEST

START_TEST(fork_after_listing)
{
	size_t count = 0;

	OK(kiln_device_enumerate(KILN_DEVICE_ANY, NULL, &count));
	ck_assert_uint_ge(count, 1);
	inherited = open_device("null");
	inherited_tensor = KILN_TENSOR_NONE;
	OK(kiln_zeros(&inherited_tensor, inherited, KILN_F32, 1, SHAPE(1)));
	ck_assert_int_eq(in_child(forked_child), 0);
	kiln_tensor_release(inherited_tensor);
	kiln_device_release(inherited);
}
END_TEST

static void leak_everything(void)
{
	struct kiln_device *dev = open_device("cpu");
	struct kiln_tensor *x = big(dev, 1);

	for (int i = 0; i < 50; i++)
		OK(kiln_exp(&x, x));
	exit(7);
}

START_TEST(exit_with_work_in_flight)
{
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(in_child(leak_everything), 7);
}
END_TEST

static struct kiln_tensor *at_exit;
static struct kiln_device *at_exit_device;

static void release_at_exit(void)
{
	kiln_tensor_release(at_exit);
	kiln_device_release(at_exit_device);
}

static void release_from_handler(void)
{
	atexit(release_at_exit);
	at_exit_device = open_device("cpu");
	at_exit = big(at_exit_device, 1);
	OK(kiln_exp(&at_exit, at_exit));
	exit(8);
}

START_TEST(release_in_an_exit_handler)
{
	ck_assert_int_eq(in_child(release_from_handler), 8);
}
END_TEST

static void *exit_now(void *arg)
{
	(void)arg;
	exit(9);
}

static void exit_from_thread(void)
{
	struct kiln_device *dev = open_device("cpu");
	struct kiln_tensor *x = big(dev, 1);
	pthread_t thread;

	OK(kiln_exp(&x, x));
	pthread_create(&thread, NULL, exit_now, NULL);
	pthread_join(thread, NULL);
}

START_TEST(exit_in_a_second_thread)
{
	ck_assert_int_eq(in_child(exit_from_thread), 9);
}
END_TEST

static void *short_life(void *dev)
{
	struct kiln_tensor *x = big(dev, 2);

	OK(kiln_add(&x, x, x));
	kiln_tensor_release(x);
	return NULL;
}

/* Streams and memory of threads that ended are used again. */
START_TEST(short_lived_threads)
{
	struct kiln_device *dev = open_device("cpu");
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available;

	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		ck_assert(!pthread_create(&thread, NULL, short_life, dev));
		ck_assert(!pthread_join(thread, NULL));
	}
	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert_uint_le(usage.peak_reserved_bytes, 256u << 20);
	ck_assert_uint_eq(usage.live_bytes, 0);
	kiln_device_release(dev);
}
END_TEST

START_TEST(reopen_many_times)
{
	for (int i = 0; i < 30; i++) {
		struct kiln_device *dev = open_device("cpu");
		struct kiln_tensor *x = big(dev, 2);

		OK(kiln_exp(&x, x));
		kiln_device_release(dev);
		kiln_tensor_release(x);
	}
}
END_TEST

START_TEST(signals_are_left_alone)
{
	struct sigaction before[65], after;
	struct kiln_device *dev;
	struct kiln_tensor *x;

	for (int s = 1; s < 65; s++)
		if (sigaction(s, NULL, &before[s]))
			before[s].sa_handler = SIG_DFL;
	dev = open_device("cpu");
	x = big(dev, 1);
	OK(kiln_exp(&x, x));
	OK(kiln_device_sync(dev));
	for (int s = 1; s < 65; s++)
		if (!sigaction(s, NULL, &after))
			ck_assert_ptr_eq((void *)after.sa_handler,
					 (void *)before[s].sa_handler);
	kiln_tensor_release(x);
	kiln_device_release(dev);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lifecycle");
	TCase *tcase = tcase_create("cpu");

	tcase_set_timeout(tcase, 60);
	if (!SANITIZED) {
		tcase_add_test(tcase, fork_with_an_open_device);
		tcase_add_test(tcase, fork_after_listing);
	}
	tcase_add_test(tcase, exit_with_work_in_flight);
	tcase_add_test(tcase, release_in_an_exit_handler);
	tcase_add_test(tcase, exit_in_a_second_thread);
	tcase_add_test(tcase, short_lived_threads);
	tcase_add_test(tcase, reopen_many_times);
	tcase_add_test(tcase, signals_are_left_alone);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
