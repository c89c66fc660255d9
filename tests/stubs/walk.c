/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk DEVICE: a mixed program, small enough to be run for every call of a
 * driver that may fail. Exit status 0: whatever failed was told, what was told
 * to be good is right, and the CPU goes on; 1: that is not so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/kiln.h>

#define N 24
#define STEPS 10
#define BURST 25

static struct kiln_device *device;
static enum kiln_status first;

static void fail(const char *text)
{
	fprintf(stderr, "walk: %s (%s)\n", text, kiln_error_message());
	exit(1);
}

/*
 * Notes the status; true where the call was good. That a stream takes nothing
 * any more is not yet why: a later read or sync tells that.
 */
static int is_good(enum kiln_status status)
{
	if (status == KILN_OK)
		return 1;
	if (!strcmp(kiln_status_name(status), "KILN_ERR_UNKNOWN"))
		fail("an unknown status");
	if (!*kiln_error_message())
		fail("a failure without a message");
	if (status == KILN_ERR_DEVICE_LOST && device &&
	    (!kiln_device_lost(device) ||
	     kiln_device_sync(device) != KILN_ERR_DEVICE_LOST))
		fail("it was told to be lost, and is not");
	if (first == KILN_OK || first == KILN_ERR_POISONED)
		first = status;
	return 0;
}

/*
 * x = 0..N-1, y = x x^T, row 1 of it picked and summed: 1 * (0 + ... + N-1),
 * and 1 more per step.
 */
static int step(int number)
{
	static const int32_t one[1] = { 1 };
	const int64_t column[2] = { N, 1 }, row[2] = { 1, N };
	const int64_t single[1] = { 1 };
	struct kiln_tensor *x = NULL, *y = NULL, *i = NULL, *s = NULL;
	float sum = -1;
	int good;

	good = is_good(kiln_arange(&x, device, KILN_F32, 0, N, 1)) &&
	       is_good(kiln_reshape(&y, x, 2, row)) &&
	       is_good(kiln_reshape(&x, x, 2, column)) &&
	       is_good(kiln_matmul(&y, x, y)) &&
	       is_good(kiln_tensor_from_data(&i, device, KILN_I32, 1, single,
					     one, sizeof(one))) &&
	       is_good(kiln_select(&y, y, 0, i)) &&
	       is_good(kiln_sum(&s, y)) &&
	       is_good(kiln_add_scalar(&s, s, kiln_float(number))) &&
	       is_good(kiln_tensor_read(s, &sum, sizeof(sum)));
	if (good && sum != (float)(N * (N - 1) / 2 + number))
		fail("a wrong result that was told to be good");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(i);
	kiln_tensor_release(s);
	return good;
}

/* Enough kernels in a row that a driver may hand some over together. */
static void burst(void)
{
	const int64_t shape[1] = { N };
	struct kiln_tensor *x = NULL;
	float sum = -1;
	int good = is_good(kiln_zeros(&x, device, KILN_F32, 1, shape));

	for (int i = 0; i < BURST && good; i++)
		good = is_good(kiln_add_scalar(&x, x, kiln_float(i)));
	if (good && is_good(kiln_sum(&x, x)) &&
	    is_good(kiln_tensor_read(x, &sum, sizeof(sum))) &&
	    sum != (float)(N * BURST * (BURST - 1) / 2))
		fail("a wrong sum that was told to be good");
	kiln_tensor_release(x);
}

/* x = 2 x + 1 for one element, picked by an index. */
static enum kiln_status double_it(struct kiln_device *on, void *user)
{
	struct kiln_tensor **x = user, *t = NULL;
	enum kiln_status status;

	(void)on;
	status = kiln_select(&t, x[0], 0, x[1]);
	if (!status)
		status = kiln_add(&t, t, t);
	if (!status)
		status = kiln_add_scalar(&t, t, kiln_float(1));
	if (!status)
		status = kiln_copy_into(x[0], t);
	kiln_tensor_release(t);
	return status;
}

/* Captured, or called again where that fails: 0, 1, 3, 7. */
static void replay(void)
{
	struct kiln_tensor *x[2] = { NULL, NULL };
	struct kiln_graph *graph = NULL;
	const int64_t single[1] = { 1 };
	float value = -1;

	if (is_good(kiln_zeros(&x[0], device, KILN_F32, 1, single)) &&
	    is_good(kiln_zeros(&x[1], device, KILN_I32, 1, single)) &&
	    is_good(kiln_graph_create(&graph, device, double_it, x)) &&
	    is_good(kiln_graph_replay(graph)) &&
	    is_good(kiln_graph_replay(graph)) &&
	    is_good(kiln_tensor_read(x[0], &value, sizeof(value))) &&
	    value != 7)
		fail("a wrong result of a graph that was told to be good");
	kiln_graph_release(graph);
	kiln_tensor_release(x[0]);
	kiln_tensor_release(x[1]);
}

/* With a window around it, which may come to nothing but has an end. */
static void walk(void)
{
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window = NULL;

	(void)is_good(kiln_profile_start(&window, device));
	for (int i = 0; i < STEPS && step(i); i++)
		;
	burst();
	replay();
	if (window && !is_good(kiln_profile_end(&duration, window, NULL)))
		kiln_profile_abandon(window);
	if (duration && kiln_duration_wait(duration, INT64_C(10000000000)))
		fail("a window without an end");
	kiln_duration_release(duration);
	(void)is_good(kiln_device_sync(device));
}

/* One failure is over once the stream is reset; a lost device stays lost. */
static void recover(void)
{
	struct kiln_stream *stream = NULL;

	if (kiln_device_sync(device) == KILN_ERR_DEVICE_LOST) {
		first = KILN_OK;
		if (step(0))
			fail("a lost device works");
		if (first != KILN_ERR_DEVICE_LOST)
			fail("a lost device fails with another status");
		return;
	}
	/* The current stream may be what could not be had. */
	if (kiln_stream_current(&stream, device) != KILN_OK ||
	    kiln_stream_reset(stream) != KILN_OK)
		fail("no recovery");
	kiln_stream_release(stream);
	/* A copy may have met the end of the device before any queue did. */
	first = KILN_OK;
	if (!step(0) && first != KILN_ERR_DEVICE_LOST)
		fail("no work after the recovery");
}

static void check_cpu(void)
{
	kiln_device_release(device);
	device = NULL;
	if (kiln_device_open(&device, "cpu") != KILN_OK || !step(3))
		fail("the CPU is gone too");
	kiln_device_release(device);
}

int main(int argc, char **argv)
{
	const char *selector = argc > 1 ? argv[1] : "cuda";
	enum kiln_status told;

	if (is_good(kiln_device_open(&device, selector))) {
		walk();
		told = first;
		if (told != KILN_OK)
			recover();
	} else {
		told = first;
	}
	printf("%s\n", kiln_status_name(told));
	check_cpu();
	return 0;
}
