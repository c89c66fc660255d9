/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STUBS_CUDA_H
#define TESTS_STUBS_CUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Inside the stub of libcuda. */

enum stub_kind { STUB_COPY, STUB_WRITE, STUB_LAUNCH, STUB_RECORD, STUB_WAIT };

struct stub_event {
	uint64_t recorded, done;
	uint64_t time_ns;          /* when it was last reached */
	int timed;
	struct stub_stream *stream; /* of the last record */
};

struct stub_work {
	struct stub_work *next;
	enum stub_kind kind;
	void *to;
	const void *from;
	size_t bytes;
	uint64_t value;
	struct stub_event *event;
	char name[48];         /* of a kernel */
	void *params;          /* a copy of its parameters */
};

struct stub_stream {
	pthread_t thread;
	int threaded, stop;
	pthread_cond_t wanted, moved;
	struct stub_work *first, **last;
};

/* ---- kernel.c: kernels by the CPU's ---- */

void *stub_copy_params(const char *name, const void *params);
void stub_run_kernel(const char *name, void *params);

/* ---- address space ---- */

uint64_t stub_reserve(size_t bytes);
void stub_unreserve(uint64_t address, size_t bytes);
int stub_map(uint64_t address, size_t bytes);
void stub_unmap(uint64_t address, size_t bytes);

#endif
