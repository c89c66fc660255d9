/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrapped DEVICE: a program that uses CUDA by itself and lends kiln a stream
 * and memory of its own: kiln's work has to come behind what the program has
 * put on the stream, and the program's behind kiln's. Exit status 1: not so.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

#define COUNT 5000
#define BYTES (COUNT * sizeof(float))

static void *library;

/* A function of the library, whose arguments are as they come. */
#define CU(name, ...)                                                          \
	do {                                                                   \
		int (*call_)(__VA_ARGS__) = NULL;                              \
		*(void **)&call_ = dlsym(library, #name);                      \
		expect(call_ != NULL, #name);                                  \
		name##_ = call_;                                               \
	} while (0)

static int (*cuDevicePrimaryCtxRetain_)(void **, int);
static int (*cuCtxPushCurrent_v2_)(void *);
static int (*cuStreamCreate_)(void **, unsigned);
static int (*cuStreamDestroy_v2_)(void *);
static int (*cuStreamSynchronize_)(void *);
static int (*cuMemAlloc_v2_)(uint64_t *, size_t);
static int (*cuMemFree_v2_)(uint64_t);
static int (*cuMemcpyHtoDAsync_v2_)(uint64_t, const void *, size_t, void *);
static int (*cuMemcpyDtoHAsync_v2_)(void *, uint64_t, size_t, void *);

static void find_functions(void)
{
	void *context;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	expect(library != NULL, "libcuda.so.1");
	CU(cuDevicePrimaryCtxRetain, void **, int);
	CU(cuCtxPushCurrent_v2, void *);
	CU(cuStreamCreate, void **, unsigned);
	CU(cuStreamDestroy_v2, void *);
	CU(cuStreamSynchronize, void *);
	CU(cuMemAlloc_v2, uint64_t *, size_t);
	CU(cuMemFree_v2, uint64_t);
	CU(cuMemcpyHtoDAsync_v2, uint64_t, const void *, size_t, void *);
	CU(cuMemcpyDtoHAsync_v2, void *, uint64_t, size_t, void *);
	OK(cuDevicePrimaryCtxRetain_(&context, 0));
	OK(cuCtxPushCurrent_v2_(context));
}

static int deleted;

static void note_deleted(void *data, void *user)
{
	(void)data;
	(void)user;
	__atomic_add_fetch(&deleted, 1, __ATOMIC_RELEASE);
}

/* x = 3 x by kiln, between an upload and a copy back by the program. */
static void work_between(struct kiln_device *device, void *native,
			 struct kiln_stream *stream, uint64_t memory)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	static float values[COUNT], back[COUNT];
	const int64_t shape[] = { COUNT };

	for (int round = 1; round <= 20; round++) {
		for (int i = 0; i < COUNT; i++)
			values[i] = (float)(i % 100 + round);
		OK(cuMemcpyHtoDAsync_v2_(memory, values, BYTES, native));
		OK(kiln_tensor_from_foreign(&x, device, KILN_F32, 1, shape,
					    (void *)(uintptr_t)memory,
					    KILN_FOREIGN_WRITABLE,
					    note_deleted, NULL));
		OK(kiln_add(&y, x, x));
		OK(kiln_add(&x, x, y)); /* in place, in the program's memory */
		OK(kiln_stream_flush(stream));
		OK(cuMemcpyDtoHAsync_v2_(back, memory, BYTES, native));
		OK(cuStreamSynchronize_(native));
		for (int i = 0; i < COUNT; i++)
			expect(back[i] == 3 * values[i], "a wrong value");
		OK(kiln_stream_sync(stream));
		kiln_tensor_clear(&x);
	}
	kiln_tensor_release(y);
	OK(kiln_stream_sync(stream));
	expect(__atomic_load_n(&deleted, __ATOMIC_ACQUIRE) == 20,
	       "the deleter was not called once for each");
}

#define LATER 5000

/*
 * Who waits for kiln's work does not wait for what the program has put on its
 * stream behind it: 20 us and more for each copy, where the library is slow.
 */
static void work_behind(struct kiln_device *device, void *native,
			struct kiln_stream *stream, uint64_t memory)
{
	const char *settings = getenv("KILN_STUB_CUDA");
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	const int64_t shape[] = { COUNT };
	static float values[COUNT], last;
	float first = 3;

	if (!settings || !strstr(settings, "async=20"))
		return;
	OK(cuMemcpyHtoDAsync_v2_(memory, &first, sizeof(first), native));
	OK(cuStreamSynchronize_(native));
	OK(kiln_ones(&y, device, KILN_F32, 1, shape));
	OK(kiln_add(&y, y, y));
	OK(kiln_stream_flush(stream));
	__atomic_store_n((uint32_t *)(void *)&last, 0, __ATOMIC_RELEASE);
	for (int i = 0; i < LATER; i++)
		OK(cuMemcpyDtoHAsync_v2_(i + 1 < LATER ? &first : &last,
					 memory, sizeof(last), native));
	OK(kiln_tensor_read(y, values, BYTES));
	expect(!__atomic_load_n((uint32_t *)(void *)&last, __ATOMIC_ACQUIRE),
	       "a read waited for the program's own work");
	expect(values[COUNT - 1] == 2, "a wrong value");
	kiln_tensor_release(y);
	OK(cuStreamSynchronize_(native));
}

static void refusals(struct kiln_device *device, void *native, uint64_t memory)
{
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_device *cpu = NULL;
	const int64_t shape[] = { COUNT }, longer[] = { COUNT + 1 };
	static float host[COUNT];

	expect(kiln_stream_wrap(&stream, device, native) == KILN_ERR_INVALID,
	       "wrapped twice");
	expect(kiln_tensor_from_foreign(&x, device, KILN_F32, 1, shape, host,
					0, NULL, NULL) == KILN_ERR_UNSUPPORTED,
	       "memory of the host was taken");
	expect(kiln_tensor_from_foreign(&x, device, KILN_F32, 1, longer,
					(void *)(uintptr_t)memory, 0, NULL,
					NULL) == KILN_ERR_INVALID,
	       "more than there is was taken");
	OK(kiln_device_open(&cpu, "cpu"));
	expect(kiln_stream_wrap(&stream, cpu, native) == KILN_ERR_UNSUPPORTED,
	       "a stream of the CPU's was wrapped");
	expect(strstr(kiln_error_message(), "kiln's own") != NULL,
	       "and no reason given");
	expect(!stream && !x, "a place was touched");
	kiln_device_release(cpu);
}

/* ---- files ---- */

#define FILE_BYTES ((size_t)65 << 20)

/* A file that is empty but for a byte in each MiB. */
static int make_file(char *path)
{
	int fd = mkstemp(path);

	expect(fd >= 0 && !ftruncate(fd, (off_t)FILE_BYTES), path);
	for (size_t i = 0; i < FILE_BYTES >> 20; i++) {
		unsigned char byte = (unsigned char)(i + 1);

		expect(pwrite(fd, &byte, 1, (off_t)((i << 20) + i)) == 1, path);
	}
	return fd;
}

static void check_bytes(struct kiln_tensor *t)
{
	unsigned char *data = malloc(FILE_BYTES);
	size_t others = 0;

	expect(data != NULL, "memory");
	OK(kiln_tensor_read(t, data, FILE_BYTES));
	for (size_t i = 0; i < FILE_BYTES >> 20; i++) {
		expect(data[(i << 20) + i] == i + 1, "a byte of the file");
		data[(i << 20) + i] = 0;
	}
	for (size_t i = 0; i < FILE_BYTES; i++)
		others += data[i] != 0;
	expect(!others, "the other bytes of the file");
	free(data);
}

/* What a long file is staged in is pinned while it is read, a short one's not. */
static void large_file(struct kiln_device *device)
{
	const int64_t all[] = { FILE_BYTES }, few[] = { 1 << 20 };
	size_t *now = dlsym(library, "stub_cuda_pinned");
	size_t *ever = dlsym(library, "stub_cuda_pinned_ever"), before;
	char path[] = "/tmp/kiln-wrapped-XXXXXX";
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file = NULL;
	int fd = make_file(path);

	expect(now && ever, "the stub's counters");
	before = *ever;
	OK(kiln_file_open(&file, path, 0));
	OK(kiln_file_read(&t, file, 0, device, KILN_U8, 1, few));
	expect(*ever == before, "a short file was pinned for");
	OK(kiln_file_read(&t, file, 0, device, KILN_U8, 1, all));
	expect(*ever > before, "nothing was pinned");
	expect(*now == 0, "something is still pinned");
	check_bytes(t);
	kiln_tensor_release(t);
	kiln_file_release(file);
	unlink(path);
	close(fd);
}

int main(int argc, char **argv)
{
	struct kiln_device *device = NULL;
	struct kiln_stream *stream = NULL;
	uint64_t memory;
	void *native;

	OK(kiln_device_open(&device, argc > 1 ? argv[1] : "cuda"));
	find_functions();
	OK(cuStreamCreate_(&native, 1));
	OK(cuMemAlloc_v2_(&memory, BYTES));
	OK(kiln_stream_wrap(&stream, device, native));
	OK(kiln_stream_set_current(device, stream));
	work_between(device, native, stream, memory);
	work_behind(device, native, stream, memory);
	refusals(device, native, memory);
	large_file(device);
	/* Given back and wrapped again. */
	OK(kiln_stream_set_current(device, NULL));
	kiln_stream_release(stream);
	stream = NULL;
	OK(kiln_stream_wrap(&stream, device, native));
	OK(kiln_stream_sync(stream));
	kiln_stream_release(stream);
	kiln_device_release(device);
	OK(cuMemFree_v2_(memory));
	OK(cuStreamDestroy_v2_(native));
	printf("wrapped: as it should be\n");
	return 0;
}
