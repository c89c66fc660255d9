/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies DEVICE [MIB]...: what transfers between host and DEVICE take, from
 * memory that was marked for them (kiln_device_stage) and from other memory,
 * alone and while kernels of another stream run. copies_torch.py is the peer,
 * copies_vulkan.c what plain Vulkan reaches. Marked memory has rows where the
 * device pins it.
 *
 * KILN_VULKAN_HIDE="a queue for transfers" has a Vulkan device do without one.
 *
 *	cc -O2 -Iinclude bench/copies.c -Lbuild/.libs -lkiln -o copies
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/kiln.h>

#include "bench.h"

#define ROUNDS 9
#define ROUNDS_SMALL 101       /* of a number's transfers */
#define KERNELS 100            /* beside a transfer, and more for a large one */
#define KERNEL_BYTES ((int64_t)1 << 29) /* that each reads, and writes */
#define KERNEL_BYTES_CPU ((int64_t)1 << 18)
#define MIB ((int64_t)1 << 20)

struct job {
	struct kiln_device *device;
	struct kiln_stream *compute, *transfer;
	struct kiln_tensor *x, *y, *t;
	char *host;
};

static char *allocate(int64_t bytes)
{
	char *memory = malloc((size_t)bytes);

	if (!memory) {
		perror("copies");
		exit(EXIT_FAILURE);
	}
	memset(memory, 1, (size_t)bytes);
	return memory;
}

static void open_job(struct job *job, const char *selector, int64_t most)
{
	bool software = strstr(selector, "cpu") != NULL;
	const int64_t count = (software ? KERNEL_BYTES_CPU : KERNEL_BYTES) / 4;

	*job = (struct job){ .host = allocate(most) };
	TRY(kiln_device_open(&job->device, selector));
	TRY(kiln_stream_create(&job->compute, job->device));
	TRY(kiln_stream_create(&job->transfer, job->device));
	TRY(kiln_stream_set_current(job->device, job->compute));
	TRY(kiln_zeros(&job->x, job->device, KILN_F32, 1, &count));
	TRY(kiln_zeros(&job->y, job->device, KILN_F32, 1, &count));
	TRY(kiln_device_sync(job->device));
}

static void close_job(struct job *job)
{
	kiln_tensor_release(job->x);
	kiln_tensor_release(job->y);
	kiln_tensor_release(job->t);
	kiln_stream_release(job->compute);
	kiln_stream_release(job->transfer);
	kiln_device_release(job->device);
	free(job->host);
}

/* Queues so many; the stream for transfers is the thread's afterwards. */
static void start_kernels(struct job *job, int kernels)
{
	TRY(kiln_stream_set_current(job->device, job->compute));
	for (int i = 0; i < kernels; i++)
		TRY(kiln_add_scalar(&job->y, job->x, kiln_float(1)));
	TRY(kiln_stream_flush(job->compute));
	TRY(kiln_stream_set_current(job->device, job->transfer));
}

static void transfer(struct job *job, int64_t bytes, bool up)
{
	if (up)
		TRY(kiln_tensor_from_data(&job->t, job->device, KILN_U8, 1,
					  &bytes, job->host, (size_t)bytes));
	else
		TRY(kiln_tensor_read(job->t, job->host, (size_t)bytes));
}

struct took {
	double us, worst_us;   /* of a transfer: median, most */
	double whole_us;       /* with the kernels that it was beside */
};

/* So many that they take longer than the transfer. */
static int kernels_for(int64_t bytes)
{
	return KERNELS + (int)(bytes / MIB / 2);
}

static struct took measure(struct job *job, int64_t bytes, bool up, int kernels)
{
	const int rounds = bytes < MIB ? ROUNDS_SMALL : ROUNDS;
	double took[ROUNDS_SMALL], whole[ROUNDS_SMALL], start, begin;
	struct took result = { 0 };

	for (int i = -1; i < rounds; i++) {
		int round = i < 0 ? 0 : i;

		begin = now_us();
		start_kernels(job, kernels);
		start = now_us();
		transfer(job, bytes, up);
		took[round] = now_us() - start;
		TRY(kiln_stream_sync(job->compute));
		whole[round] = now_us() - begin;
	}
	result.whole_us = median(whole, rounds);
	result.us = median(took, rounds);
	result.worst_us = took[rounds - 1];
	return result;
}

static double kernels_alone_us(struct job *job, int kernels)
{
	double whole[ROUNDS], begin;

	for (int i = -1; i < ROUNDS; i++) {
		begin = now_us();
		start_kernels(job, kernels);
		TRY(kiln_stream_sync(job->compute));
		whole[i < 0 ? 0 : i] = now_us() - begin;
	}
	return median(whole, ROUNDS);
}

static void print_took(struct took took, int64_t bytes)
{
	if (bytes < MIB)
		printf(" | %.1f us (%.1f)", took.us, took.worst_us);
	else
		printf(" | %.1f GB/s (%.1f)", 1e-3 * (double)bytes / took.us,
		       1e-3 * (double)bytes / took.worst_us);
}

static void print_rows(struct job *job, int64_t bytes, const char *what)
{
	const int kernels = kernels_for(bytes);
	double without = kernels_alone_us(job, kernels);

	for (int up = 1; up >= 0; up--) {
		struct took alone = measure(job, bytes, up, 0);
		struct took beside = measure(job, bytes, up, kernels);

		printf("| %lld bytes%s %s", (long long)bytes, what,
		       up ? "up" : "down");
		print_took(alone, bytes);
		print_took(beside, bytes);
		printf(" | %.1f ms (%.1f) |\n", 1e-3 * beside.whole_us,
		       1e-3 * without);
		fflush(stdout);
	}
}

static void print_size(struct job *job, int64_t bytes)
{
	const struct kiln_host_range range = { job->host, (size_t)bytes };

	print_rows(job, bytes, "");
	TRY(kiln_device_stage(job->device, &range, 1));
	if (kiln_device_pins(job->device, range.data, range.bytes))
		print_rows(job, bytes, ", marked,");
	TRY(kiln_device_unstage(job->device, &range, 1));
}

/* A number of MiB, in bytes. */
static int64_t bytes_of(const char *text)
{
	int64_t bytes = atoi(text) * MIB;

	if (bytes < MIB || bytes > 65536 * MIB) {
		fprintf(stderr, "copies: MIB is 1 to 65536\n");
		exit(2);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	int64_t most = MIB;
	struct job job;

	if (argc < 2) {
		fprintf(stderr, "usage: copies DEVICE [MIB]...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		if (bytes_of(argv[i]) > most)
			most = bytes_of(argv[i]);
	open_job(&job, argv[1], most);
	printf("| %s; median (worst) | alone | beside kernels | all of that "
	       "(the kernels alone) |\n|---|---|---|---|\n",
	       kiln_device_selector(job.device));
	print_rows(&job, 4, "");
	for (int i = 2; i < argc; i++)
		print_size(&job, bytes_of(argv[i]));
	close_job(&job);
	return 0;
}
