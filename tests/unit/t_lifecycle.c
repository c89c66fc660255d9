/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "kernels/registry.h"
#include "lib/testing.h"
#include "sanitized.h"

/*
 * P12 and P13: fork, exit, threads that end, signals: what a guest must not
 * disturb.
 */

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

/* ---- a fork while other threads hold locks of the process ---- */

static bool busy_ends;         /* atomic */

static char last_name[24];

static void *busy_with_names(void *unused)
{
	while (!__atomic_load_n(&busy_ends, __ATOMIC_RELAXED))
		kilni_op_add(last_name);
	return unused;
}

static void *busy_with_gates(void *unused)
{
	int gate;

	while (!__atomic_load_n(&busy_ends, __ATOMIC_RELAXED))
		kilni_gate_open(&gate);
	return unused;
}

static void gate_opened(struct kilni_gate_watch *watch)
{
	(void)watch;
}

/* Many of each, so that the locks are held for long. */
static void add_names_and_watches(const int *closed)
{
	static struct kilni_gate_watch watches[2000];

	for (int i = 0; i < 200; i++) {
		snprintf(last_name, sizeof(last_name), "busy_%d", i);
		kilni_op_add(last_name);
	}
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		watches[i].opened = gate_opened;
		ck_assert(kilni_gate_hold(&watches[i], closed));
	}
}

static void no_kernel(const void *params, uint64_t begin, uint64_t end)
{
	(void)params;
	(void)begin;
	(void)end;
}

/* A kernel of a name of its own, and an entry behind a gate. */
static int check_locks(void)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;
	struct kiln_kernel *kernel = NULL;
	struct kiln_device *own = NULL;
	int gate = 0;

	info.name = "the_childs";
	info.function = no_kernel;
	info.params_bytes = 8;
	if (kiln_device_open(&own, "null") != KILN_OK)
		return 1;
	if (kiln_kernel_load(&kernel, own, &info) != KILN_OK)
		return 2;
	if (kilni_test_gate(own, &gate) != KILN_OK)
		return 3;
	kilni_gate_open(&gate);
	if (kiln_device_sync(own) != KILN_OK)
		return 4;
	kiln_kernel_release(kernel);
	kiln_device_release(own);
	return 0;
}

static void child_with_a_limit(void)
{
	/* Check has a handler of its own. */
	signal(SIGALRM, SIG_DFL);
	alarm(20);
	_exit(check_locks());
}

START_TEST(fork_finds_no_lock_held)
{
	void *(*const body[])(void *) = { busy_with_names, busy_with_gates };
	pthread_t threads[2];
	int closed = 0;

	add_names_and_watches(&closed);
	inherited = open_device("null");
	__atomic_store_n(&busy_ends, false, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, body[i],
						NULL),
				 0);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(in_child(child_with_a_limit), 0);
	__atomic_store_n(&busy_ends, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	kilni_gate_open(&closed);
	kiln_device_release(inherited);
}
END_TEST

/* ---- P12: a program of its own after a fork ---- */

static const char *program;

static void exec_again(void)
{
	execl(program, program, "--alone", (char *)NULL);
}

START_TEST(fork_and_exec)
{
	struct kiln_device *dev = open_device("cpu");
	struct kiln_tensor *x = big(dev, 1);

	OK(kiln_exp(&x, x));
	ck_assert_int_eq(in_child(exec_again), 6);
	OK(kiln_device_sync(dev));
	kiln_tensor_release(x);
	kiln_device_release(dev);
}
END_TEST

/* What the program does then: 1 + 2 + 3. */
static int add_alone(void)
{
	struct kiln_device *dev = NULL;
	struct kiln_tensor *x = NULL;
	int32_t sum = 0;

	if (kiln_device_open(&dev, "cpu") ||
	    kiln_arange(&x, dev, KILN_I32, 1, 4, 1) || kiln_sum(&x, x) ||
	    kiln_tensor_read(x, &sum, sizeof(sum)))
		return 99;
	kiln_tensor_release(x);
	kiln_device_release(dev);
	return sum;
}

/* ---- P13: the library goes before its threads do ---- */

static struct {
	enum kiln_status (*zeros)(struct kiln_tensor **out,
				  struct kiln_device *device,
				  enum kiln_dtype dtype, int rank,
				  const int64_t *shape);
	enum kiln_status (*exp)(struct kiln_tensor **out,
				struct kiln_tensor *tensor);
	void (*release)(struct kiln_tensor *tensor);
	struct kiln_device *device;
	pthread_barrier_t used, unloaded;
} guest;

static void *use_guest(void *unused)
{
	struct kiln_tensor *x = NULL;
	const int64_t shape[] = { 100000 };

	(void)unused;
	for (int i = 0; i < 20; i++)
		if (guest.zeros(&x, guest.device, KILN_F32, 1, shape) ||
		    guest.exp(&x, x))
			_exit(1);
	guest.release(x);
	pthread_barrier_wait(&guest.used);
	pthread_barrier_wait(&guest.unloaded);
	return NULL;
}

static void *find(void *library, const char *name)
{
	void *at = dlsym(library, name);

	if (!at)
		_exit(2);
	return at;
}

static void unload_under_threads(void)
{
	const char *folder = getenv("builddir");
	char path[512];
	void *library;
	pthread_t thread[4];
	enum kiln_status (*open_it)(struct kiln_device **, const char *);

	snprintf(path, sizeof(path), "%s/.libs/libkiln.so",
		 folder ? folder : ".");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		_exit(77);
	*(void **)&guest.zeros = find(library, "kiln_zeros");
	*(void **)&guest.exp = find(library, "kiln_exp");
	*(void **)&guest.release = find(library, "kiln_tensor_release");
	*(void **)&open_it = find(library, "kiln_device_open");
	if (open_it(&guest.device, "cpu"))
		_exit(3);
	pthread_barrier_init(&guest.used, NULL, 5);
	pthread_barrier_init(&guest.unloaded, NULL, 5);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, use_guest, NULL);
	pthread_barrier_wait(&guest.used);
	dlclose(library);
	pthread_barrier_wait(&guest.unloaded);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	exit(5);
}

START_TEST(dlclose_before_threads_end)
{
	int status = in_child(unload_under_threads);

	/* There is no library where only the archive was built. */
	if (status != 77)
		ck_assert_int_eq(status, 5);
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

/* ---- more handles than a thread keeps, and threads that only release ---- */

enum { HANDLES = 3000 };

static struct kiln_device *shared;
static struct kiln_tensor *handles[HANDLES];
static pthread_key_t late;

static void make_handles(int from, int to)
{
	for (int i = from; i < to; i++)
		OK(kiln_full(&handles[i], shared, KILN_I32, 1, SHAPE(1),
			     kiln_int(i)));
}

/* Runs after what the library keeps for the thread has gone, or before. */
static void release_late(void *data)
{
	kiln_tensor_release(data);
}

static void *release_most(void *unused)
{
	ck_assert_int_eq(pthread_setspecific(late, handles[0]), 0);
	for (int i = 1; i < HANDLES; i++)
		if (i % 3)
			kiln_tensor_release(handles[i]);
	/* What has come back is used again, and is whole. */
	for (int i = 1; i < HANDLES; i++)
		if (i % 3)
			handles[i] = KILN_TENSOR_NONE, make_handles(i, i + 1);
	return unused;
}

START_TEST(handles_change_threads)
{
	pthread_t thread;

	shared = open_device("cpu");
	ck_assert_int_eq(pthread_key_create(&late, release_late), 0);
	make_handles(0, HANDLES);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_most, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	for (int i = 1; i < HANDLES; i++) {
		int32_t value = -1;

		ck_assert_int_eq(kiln_tensor_rank(handles[i]), 1);
		OK(kiln_tensor_read(handles[i], &value, sizeof(value)));
		ck_assert_int_eq(value, i);
		kiln_tensor_release(handles[i]);
	}
	pthread_key_delete(late);
	kiln_device_release(shared);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("lifecycle");
	TCase *tcase = tcase_create("cpu");

	program = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--alone"))
		return add_alone();
	tcase_set_timeout(tcase, 60);
	if (!SANITIZED) {
		tcase_add_test(tcase, fork_with_an_open_device);
		tcase_add_test(tcase, fork_after_listing);
		tcase_add_test(tcase, fork_finds_no_lock_held);
		tcase_add_test(tcase, fork_and_exec);
		tcase_add_test(tcase, dlclose_before_threads_end);
	}
	tcase_add_test(tcase, exit_with_work_in_flight);
	tcase_add_test(tcase, release_in_an_exit_handler);
	tcase_add_test(tcase, exit_in_a_second_thread);
	tcase_add_test(tcase, short_lived_threads);
	tcase_add_test(tcase, reopen_many_times);
	tcase_add_test(tcase, signals_are_left_alone);
	tcase_add_test(tcase, handles_change_threads);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
