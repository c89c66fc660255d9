/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow CALL: one call of CUDA's library takes as long as it likes, made for
 * whoever waits for a stream. Meanwhile another stream of the device works, and
 * is told done; then the call ends, and its stream has what it should.
 * slow pins: a copy takes that long, and other memory is pinned and given back.
 * slow lost: the library loses the device in a copy of memory that is pinned.
 * slow copies: copies take long, and one call fails: the program is told, and
 * nothing travels any more when the device is closed.
 * slow ring: a short ring has room again when the device has done the work,
 * which here it has at once, though nobody waits for it.
 * Exit status 1: not so. It needs the library of tests/stubs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

#define COUNT 1000

static struct kiln_device *device;
static struct kiln_stream *first;
static struct kiln_tensor *x;
static int done;

static void *function(const char *name)
{
	static void *library;
	void *found;

	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	found = library ? dlsym(library, name) : NULL;
	expect(found != NULL, name);
	return found;
}

static void hold(const char *call)
{
	void (*set)(const char *) = NULL;

	*(void **)&set = function("stub_cuda_hold");
	set(call);
}

static int holds(void)
{
	int (*ask)(void) = NULL;

	*(void **)&ask = function("stub_cuda_holds");
	return ask();
}

static void let_go(void)
{
	void (*go)(void) = NULL;

	*(void **)&go = function("stub_cuda_let_go");
	go();
}

/* Of t, 2 after the first time. */
static void double_it(struct kiln_tensor **t)
{
	OK(kiln_add(t, *t, *t));
}

/* Asks for an event behind the first stream's work, or for one ahead of it. */
static void *wait_for_first(void *arg)
{
	const char *call = arg;
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_stream_create(&stream, device));
	OK(kiln_stream_set_current(device, stream));
	if (strcmp(call, "cuStreamWaitEvent") == 0) {
		OK(kiln_add(&y, x, x));
		OK(kiln_stream_sync(stream));
	} else {
		OK(kiln_stream_sync(first));
	}
	OK(kiln_stream_set_current(device, NULL));
	kiln_tensor_release(y);
	kiln_stream_release(stream);
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void work_elsewhere(void)
{
	const int64_t shape[] = { COUNT };
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	static float have[COUNT];

	OK(kiln_stream_create(&stream, device));
	OK(kiln_stream_set_current(device, stream));
	OK(kiln_ones(&t, device, KILN_F32, 1, shape));
	for (int i = 0; i < 3; i++)
		double_it(&t);
	OK(kiln_stream_sync(stream));
	OK(kiln_tensor_read(t, have, sizeof(have)));
	expect(have[0] == 8 && have[COUNT - 1] == 8, "another stream's value");
	OK(kiln_stream_set_current(device, NULL));
	kiln_tensor_release(t);
	/* Its queue goes while the other one's is in the library. */
	kiln_stream_release(stream);
}

static void wait_until_held(void)
{
	while (!holds() && !__atomic_load_n(&done, __ATOMIC_SEQ_CST))
		usleep(1000);
}

/* ---- pinned memory ---- */

#define PINNED ((size_t)1 << 20)

static struct kiln_host_range range;

static void stage(void)
{
	range.data = aligned_alloc(4096, PINNED);
	range.bytes = PINNED;
	expect(range.data != NULL, "memory");
	memset(range.data, 1, PINNED);
	OK(kiln_device_stage(device, &range, 1));
	expect(kiln_device_pins(device, range.data, PINNED), "not pinned");
}

static void *upload(void *arg)
{
	static char from[PINNED];
	const int64_t bytes = PINNED;

	OK(kiln_tensor_from_data((struct kiln_tensor **)arg, device, KILN_U8, 1,
				 &bytes, from, PINNED));
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void pin_during_a_copy(void)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	pthread_t thread;

	hold("cuEventSynchronize");
	OK(pthread_create(&thread, NULL, upload, &t));
	wait_until_held();
	expect(holds(), "the copy does not wait");
	stage();
	OK(kiln_device_unstage(device, &range, 1));
	expect(!kiln_device_pins(device, range.data, 1), "still pinned");
	let_go();
	OK(pthread_join(thread, NULL));
	kiln_tensor_release(t);
	kiln_device_release(device);
	free(range.data);
}

#define COPIED ((size_t)3 << 20)

/* Whether a copy failed, and its bytes arrived where it did not. */
static int copy(unsigned char value)
{
	unsigned char *from = malloc(COPIED), *to = malloc(COPIED);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	const int64_t bytes = COPIED;
	enum kiln_status status;

	expect(from && to, "memory");
	memset(from, value, COPIED);
	memset(to, 0, COPIED);
	status = kiln_tensor_from_data(&t, device, KILN_U8, 1, &bytes, from,
				       COPIED);
	if (status == KILN_OK)
		status = kiln_tensor_read(t, to, COPIED);
	expect(status != KILN_OK || !memcmp(from, to, COPIED),
	       "not what was copied");
	kiln_tensor_release(t);
	free(from);
	free(to);
	return status != KILN_OK;
}

static void copy_slowly(void)
{
	int failed = copy(1) + copy(2);

	printf("%d failed\n", failed);
	kiln_device_release(device);
	/* What travelled yet would read memory that is gone. */
	usleep(20000);
}

/* What may still be copied is the device's until that is closed. */
static void lose_pinned_memory(void)
{
	const size_t *pinned = function("stub_cuda_pinned");
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	const int64_t bytes = PINNED;

	stage();
	expect(kiln_tensor_from_data(&t, device, KILN_U8, 1, &bytes, range.data,
				     PINNED) == KILN_ERR_DEVICE_LOST,
	       "a copy that loses the device");
	expect(kiln_device_unstage(device, &range, 1) == KILN_ERR_DEVICE_LOST,
	       "the memory is given back at once");
	expect(*pinned == PINNED, "not pinned any more");
	kiln_tensor_release(t);
	kiln_device_release(device);
	free(range.data);
}

/* ---- a short ring ---- */

static void submit_on_a_short_ring(void)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1 };
	enum kiln_status status;
	float have = 0;

	OK(kiln_zeros(&t, device, KILN_F32, 1, shape));
	for (int i = 0; i < 1000; i++) {
		status = kiln_add_scalar(&t, t, kiln_int(1));
		expect(status != KILN_ERR_BUSY, "busy, and all is done");
		OK(status);
	}
	OK(kiln_tensor_read(t, &have, sizeof(have)));
	expect(have == 1000, "a wrong value");
	kiln_tensor_release(t);
	kiln_device_release(device);
}

/* ---- streams ---- */

static void keep_others_going(char *call)
{
	const int64_t shape[] = { COUNT };
	static float have[COUNT];
	pthread_t thread;

	OK(kiln_stream_create(&first, device));
	OK(kiln_stream_set_current(device, first));
	OK(kiln_ones(&x, device, KILN_F32, 1, shape));
	OK(kiln_stream_sync(first));
	double_it(&x);
	OK(kiln_stream_flush(first));
	OK(kiln_stream_set_current(device, NULL));
	hold(call);
	OK(pthread_create(&thread, NULL, wait_for_first, call));
	wait_until_held();
	expect(holds(), call);
	work_elsewhere();
	let_go();
	OK(pthread_join(thread, NULL));
	OK(kiln_tensor_read(x, have, sizeof(have)));
	expect(have[0] == 2 && have[COUNT - 1] == 2, "the first one's value");
	kiln_tensor_release(x);
	kiln_stream_release(first);
	kiln_device_release(device);
}

int main(int argc, char **argv)
{
	expect(argc == 2, "slow CALL");
	if (kiln_device_open(&device, "cuda") != KILN_OK) {
		/* A call that fails there is told there. */
		expect(!strcmp(argv[1], "copies"), kiln_error_message());
		return 0;
	}
	if (!strcmp(argv[1], "pins"))
		pin_during_a_copy();
	else if (!strcmp(argv[1], "lost"))
		lose_pinned_memory();
	else if (!strcmp(argv[1], "copies"))
		copy_slowly();
	else if (!strcmp(argv[1], "ring"))
		submit_on_a_short_ring();
	else
		keep_others_going(argv[1]);
	return 0;
}
