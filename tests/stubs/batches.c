/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batches DEVICE: many small kernels in a row, which CUDA is handed together,
 * on one stream and on more than have graphs at a time; one of them finds an
 * index out of range, in the middle of others. Exit status 1: the wrong results,
 * or another op is blamed.
 */
#include <string.h>

#include "expect.h"

#define COUNT 24

static struct kiln_device *device;

static struct kiln_tensor *zeros(void)
{
	const int64_t shape[] = { COUNT };
	struct kiln_tensor *x = NULL;

	OK(kiln_zeros(&x, device, KILN_F32, 1, shape));
	return x;
}

static void add_ones(struct kiln_tensor **x, int times)
{
	for (int i = 0; i < times; i++)
		OK(kiln_add_scalar(x, *x, kiln_float(1)));
}

static void expect_all(struct kiln_tensor *x, float value)
{
	float data[COUNT];

	OK(kiln_tensor_read(x, data, sizeof(data)));
	for (int i = 0; i < COUNT; i++)
		expect(data[i] == value, "a wrong value");
}

/* A copy that is no kernel, of bytes that are not aligned, between kernels. */
static void among_copies(void)
{
	enum { BYTES = 100001 };
	const struct kiln_slice rest = { 1, KILN_SLICE_END, 1 };
	const int64_t shape[] = { BYTES }, fewer[] = { BYTES - 1 };
	static uint8_t data[BYTES - 1];
	struct kiln_tensor *x = NULL, *view = NULL, *copy = NULL;

	OK(kiln_zeros(&x, device, KILN_U8, 1, shape));
	OK(kiln_zeros(&copy, device, KILN_U8, 1, fewer));
	for (int i = 0; i < 10; i++)
		OK(kiln_add_scalar(&x, x, kiln_int(1)));
	OK(kiln_slice(&view, x, 1, &rest));
	OK(kiln_copy_into(copy, view));
	kiln_tensor_release(view);
	for (int i = 0; i < 10; i++)
		OK(kiln_add_scalar(&x, x, kiln_int(1)));
	OK(kiln_tensor_read(copy, data, sizeof(data)));
	for (size_t i = 0; i < sizeof(data); i++)
		expect(data[i] == 10, "a copy out of its turn");
	kiln_tensor_release(x);
	kiln_tensor_release(copy);
}

static enum kiln_status double_it(struct kiln_device *on, void *x)
{
	struct kiln_tensor *twice = NULL;
	enum kiln_status status = kiln_add(&twice, x, x);

	(void)on;
	if (!status)
		status = kiln_copy_into(x, twice);
	kiln_tensor_release(twice);
	return status;
}

/* A replay is a launch of its own, behind the kernels before it. */
static void among_replays(void)
{
	struct kiln_tensor *x = zeros(), *y = zeros(), *ones = zeros();
	struct kiln_graph *graph = NULL;

	add_ones(&ones, 1);
	OK(kiln_graph_create(&graph, device, double_it, x));
	for (int i = 0; i < 20; i++) {
		/* 5 into x, by kernels that lead up to the replay. */
		OK(kiln_copy_into(x, ones));
		for (int j = 0; j < 4; j++) {
			OK(kiln_add(&y, x, ones));
			OK(kiln_copy_into(x, y));
		}
		OK(kiln_graph_replay(graph));
		OK(kiln_add(&y, x, ones));
		expect_all(y, 11);
	}
	kiln_graph_release(graph);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(ones);
}

/*
 * More than have graphs at a time, behind one product that all of them wait
 * for, come and gone twice.
 */
static void many_streams(void)
{
	enum { STREAMS = 120, ROUNDS = 2, TIMES = 25, SIDE = 64 };
	const int64_t side[] = { SIDE, SIDE };
	struct kiln_stream *stream[STREAMS] = { NULL };
	struct kiln_tensor *x[STREAMS] = { NULL }, *big = NULL, *first = NULL;

	OK(kiln_ones(&big, device, KILN_F32, 2, side));
	for (int round = 0; round < ROUNDS; round++) {
		OK(kiln_matmul(&big, big, big));
		OK(kiln_mul_scalar(&big, big, kiln_float(1.0 / SIDE)));
		OK(kiln_max(&first, big));
		for (int i = 0; i < STREAMS; i++) {
			x[i] = zeros();
			OK(kiln_stream_create(&stream[i], device));
			OK(kiln_stream_set_current(device, stream[i]));
			OK(kiln_add(&x[i], x[i], first));
			add_ones(&x[i], TIMES);
			OK(kiln_stream_set_current(device, NULL));
		}
		for (int i = 0; i < STREAMS; i++) {
			expect_all(x[i], TIMES + 1);
			kiln_tensor_clear(&x[i]);
			kiln_stream_release(stream[i]);
			stream[i] = NULL;
		}
	}
	kiln_tensor_release(first);
	kiln_tensor_release(big);
}

/* Streams that were handed work and left, which nobody waits for. */
static void among_idle_streams(void)
{
	enum { IDLE = 20, ROUNDS = 100, TIMES = 16 };
	struct kiln_stream *stream[IDLE] = { NULL }, *last = NULL;
	struct kiln_tensor *x[IDLE] = { NULL }, *y;

	for (int i = 0; i < IDLE; i++) {
		OK(kiln_stream_create(&stream[i], device));
		OK(kiln_stream_set_current(device, stream[i]));
		x[i] = zeros();
		add_ones(&x[i], TIMES);
		OK(kiln_stream_flush(stream[i]));
	}
	OK(kiln_stream_create(&last, device));
	OK(kiln_stream_set_current(device, last));
	y = zeros();
	for (int i = 1; i <= ROUNDS; i++) {
		add_ones(&y, TIMES);
		expect_all(y, (float)(i * TIMES));
	}
	OK(kiln_stream_set_current(device, NULL));
	kiln_stream_release(last);
	for (int i = 0; i < IDLE; i++) {
		expect_all(x[i], TIMES);
		kiln_tensor_release(x[i]);
		kiln_stream_release(stream[i]);
	}
	kiln_tensor_release(y);
}

static void bad_index(void)
{
	static const int32_t far[] = { 3, 99 };
	const int64_t two[] = { 2 };
	struct kiln_tensor *bad = zeros(), *good = zeros(), *index = NULL;
	struct kiln_stream *stream = NULL;
	enum kiln_status status;

	OK(kiln_tensor_from_data(&index, device, KILN_I32, 1, two, far,
				 sizeof(far)));
	OK(kiln_stream_current(&stream, device));
	OK(kiln_stream_sync(stream));
	add_ones(&good, 5);
	OK(kiln_select(&bad, good, 0, index));
	/* What was found may be known by now. */
	for (int i = 0; i < 5; i++) {
		status = kiln_add_scalar(&bad, bad, kiln_float(1));
		expect(!status || status == KILN_ERR_POISONED,
		       kiln_status_name(status));
	}
	status = kiln_stream_sync(stream);
	expect(status == KILN_ERR_INDEX, kiln_status_name(status));
	expect(strstr(kiln_error_message(), "kiln_select") &&
	       strstr(kiln_error_message(), "99"), "another one is blamed");
	OK(kiln_stream_reset(stream));
	expect_all(good, 5);
	add_ones(&good, 40);
	expect_all(good, 45);
	kiln_stream_release(stream);
	kiln_tensor_release(bad);
	kiln_tensor_release(good);
	kiln_tensor_release(index);
}

int main(int argc, char **argv)
{
	struct kiln_tensor *x;

	OK(kiln_device_open(&device, argc > 1 ? argv[1] : "cuda"));
	/* First: what comes later waits for streams that were there before. */
	among_idle_streams();
	x = zeros();
	/* Every length up to one that is more than a batch. */
	for (int times = 1, sum = 1; times < 40; sum += ++times) {
		add_ones(&x, times);
		expect_all(x, (float)sum);
	}
	kiln_tensor_release(x);
	among_copies();
	among_replays();
	many_streams();
	bad_index();
	kiln_device_release(device);
	return 0;
}
