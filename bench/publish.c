/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What publishing the pools costs a program: ns for making a tensor and
 * releasing it, with and without, in turn, beside so many live ones.
 *
 * cc -O2 publish.c $(pkg-config --cflags --libs kiln) && ./a.out
 */
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 15
#define PAIRS 400000
#define LIVE_MAX 100000

static struct kiln_tensor *live[LIVE_MAX];

/* Of this thread: what others do meanwhile does not count. */
static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void need(enum kiln_status status)
{
	if (!status)
		return;
	fprintf(stderr, "%s\n", kiln_error_message());
	exit(EXIT_FAILURE);
}

static double measure(const char *publish, int count)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = NULL;
	int64_t shape[] = { 100 };
	double start;

	setenv("KILN_POOL_PUBLISH", publish, 1);
	need(kiln_device_open(&device, "null"));
	for (int i = 0; i < count; i++)
		need(kiln_empty(&live[i], device, KILN_F32, 1, shape));
	start = now_ns();
	for (int i = 0; i < PAIRS; i++) {
		shape[0] = 1 + i % 1000;
		need(kiln_empty(&x, device, KILN_F32, 1, shape));
		kiln_tensor_release(x);
		x = NULL;
	}
	start = (now_ns() - start) / PAIRS;
	for (int i = 0; i < count; i++) {
		kiln_tensor_release(live[i]);
		live[i] = NULL;
	}
	kiln_device_release(device);
	return start;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void compare(int count)
{
	double without[ROUNDS], with[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		without[i] = measure("0", count);
		with[i] = measure("1", count);
	}
	qsort(without, ROUNDS, sizeof(double), by_value);
	qsort(with, ROUNDS, sizeof(double), by_value);
	printf("%6d live: without %.1f ns, with %.1f ns (medians of %d); "
	       "best %.1f, %.1f\n", count, without[ROUNDS / 2],
	       with[ROUNDS / 2], ROUNDS, without[0], with[0]);
}

int main(void)
{
	compare(10);
	compare(1000);
	compare(LIVE_MAX);
	return EXIT_SUCCESS;
}
