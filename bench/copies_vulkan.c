/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies_vulkan DEVICE KERNEL [MIB]: what copies between host and DEVICE
 * (vulkan, vulkan:cpu) reach on a queue of each family that the device has, by
 * plain Vulkan, and while kernels run on the first one that computes; beside
 * them kiln's own transfers, alone and beside kernels of another stream.
 * KILN_VULKAN_HIDE="a queue for transfers" has kiln do without one. KERNEL and
 * the build are as for replay_vulkan.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "vk_raw.h"

#define ROUNDS 7
#define ROUNDS_SMALL 101       /* of kiln's transfers of a number */
#define COPIES 4
#define KERNELS 100

static int64_t bytes = (int64_t)256 << 20;

static double rate(double us, int copies)
{
	return 1e-3 * (double)bytes * copies / us;
}

/* ---- plain Vulkan ---- */

/* How long COPIES copies take, from us, which kernels may already keep busy. */
static double copies_us(unsigned family, int up)
{
	double start = now_us();

	for (int i = 0; i < COPIES; i++)
		raw_copy(family, up);
	raw_copy_wait(family);
	return now_us() - start;
}

static double kernels_us(void)
{
	double start = now_us();

	raw_submit();
	raw_wait();
	return now_us() - start;
}

static void measure(unsigned family, int up, double kernels_alone)
{
	double alone[ROUNDS], beside[ROUNDS], kernels[ROUNDS], start;

	for (int i = -1; i < ROUNDS; i++) {
		int round = i < 0 ? 0 : i;

		alone[round] = copies_us(family, up);
		start = now_us();
		raw_submit();
		beside[round] = copies_us(family, up);
		raw_wait();
		kernels[round] = now_us() - start;
	}
	printf("family %u, %-8s %-4s %6.1f GB/s alone, %6.1f beside kernels, "
	       "which take %.1f ms in place of %.1f\n",
	       family, raw_family(family), up ? "up" : "down",
	       rate(median(alone, ROUNDS), COPIES),
	       rate(median(beside, ROUNDS), COPIES),
	       1e-3 * median(kernels, ROUNDS), 1e-3 * kernels_alone);
	fflush(stdout);
}

/* ---- kiln ---- */

/* One kernel takes about as long as one of plain Vulkan's. */
#define OPERANDS_BYTES ((int64_t)1 << 29)

struct job {
	struct kiln_device *device;
	struct kiln_stream *compute, *transfer;
	struct kiln_tensor *x, *y, *t;
	void *host;
};

static void *allocate(size_t size)
{
	void *memory = malloc(size);

	if (!memory) {
		perror("copies_vulkan");
		exit(EXIT_FAILURE);
	}
	memset(memory, 1, size);
	return memory;
}

static void open_job(struct job *job, const char *selector, bool software)
{
	const int64_t count = software ? 1 << 16 : OPERANDS_BYTES / 4;

	TRY(kiln_device_open(&job->device, selector));
	TRY(kiln_stream_create(&job->compute, job->device));
	TRY(kiln_stream_create(&job->transfer, job->device));
	TRY(kiln_stream_set_current(job->device, job->compute));
	TRY(kiln_zeros(&job->x, job->device, KILN_F32, 1, &count));
	TRY(kiln_zeros(&job->y, job->device, KILN_F32, 1, &count));
	TRY(kiln_device_sync(job->device));
	job->host = allocate((size_t)bytes);
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

static void transfer(struct job *job, int64_t count, int up)
{
	if (up)
		TRY(kiln_tensor_from_data(&job->t, job->device, KILN_U8, 1,
					  &count, job->host, (size_t)count));
	else
		TRY(kiln_tensor_read(job->t, job->host, (size_t)count));
}

struct took {
	double us, worst_us;   /* of a transfer: median, most */
	double kernels_us;     /* median, of those that it was beside */
};

static struct took transfers_us(struct job *job, int64_t count, int up,
				int kernels)
{
	const int rounds = count < 1024 ? ROUNDS_SMALL : ROUNDS;
	double took[ROUNDS_SMALL], whole[ROUNDS_SMALL], start, begin;
	struct took result = { 0 };

	for (int i = -1; i < rounds; i++) {
		int round = i < 0 ? 0 : i;

		begin = now_us();
		start_kernels(job, kernels);
		start = now_us();
		transfer(job, count, up);
		took[round] = now_us() - start;
		TRY(kiln_stream_sync(job->compute));
		whole[round] = now_us() - begin;
	}
	for (int i = 0; i < rounds; i++)
		if (took[i] > result.worst_us)
			result.worst_us = took[i];
	result.kernels_us = median(whole, rounds);
	result.us = median(took, rounds);
	return result;
}

static void print_took(struct took took, int64_t count)
{
	if (count < 1024)
		printf("%.1f us, at worst %.1f", took.us, took.worst_us);
	else
		printf("%.1f GB/s, at worst %.1f",
		       1e-3 * (double)count / took.us,
		       1e-3 * (double)count / took.worst_us);
}

static void measure_transfers(struct job *job, int64_t count, const char *what)
{
	struct took alone, beside;
	double without;

	for (int up = 1; up >= 0; up--) {
		alone = transfers_us(job, count, up, 0);
		beside = transfers_us(job, count, up, KERNELS);
		start_kernels(job, KERNELS);
		TRY(kiln_stream_sync(job->compute));
		without = now_us();
		start_kernels(job, KERNELS);
		TRY(kiln_stream_sync(job->compute));
		without = now_us() - without;
		printf("kiln, %lld bytes %s%s: alone ", (long long)count, what,
		       up ? "up" : "down");
		print_took(alone, count);
		printf("; beside kernels ");
		print_took(beside, count);
		printf(", and they take %.1f ms in place of %.1f\n",
		       1e-3 * beside.kernels_us, 1e-3 * without);
		fflush(stdout);
	}
}

static void measure_kiln(const char *selector, bool software)
{
	struct job job = { NULL };
	struct kiln_host_range range;

	open_job(&job, selector, software);
	range = (struct kiln_host_range){ job.host, (size_t)bytes };
	measure_transfers(&job, 4, "");
	measure_transfers(&job, bytes, "");
	TRY(kiln_device_stage(job.device, &range, 1));
	if (kiln_device_pins(job.device, job.host, (size_t)bytes))
		measure_transfers(&job, bytes, "marked, ");
	TRY(kiln_device_unstage(job.device, &range, 1));
	close_job(&job);
}

int main(int argc, char **argv)
{
	const uint32_t *code;
	size_t code_bytes;
	bool software;
	double alone = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: copies_vulkan DEVICE KERNEL [MIB]\n");
		return 2;
	}
	if (argc > 3)
		bytes = (int64_t)atoi(argv[3]) << 20;
	if (bytes < 1 << 20 || bytes > (int64_t)2047 << 20) {
		fprintf(stderr, "copies_vulkan: MIB is 1 to 2047\n");
		return 2;
	}
	software = strstr(argv[1], "cpu") != NULL;
	code = raw_read(argv[2], &code_bytes);
	raw_open(software, code, code_bytes, KERNELS,
		 software ? 1 << 16 : 1 << 27);
	raw_copies_open((size_t)bytes);
	for (int i = 0; i < 3; i++)
		alone = kernels_us();
	printf("%s; %d copies of %lld MiB, medians of %d\n", raw_device(),
	       COPIES, (long long)(bytes >> 20), ROUNDS);
	for (unsigned family = 0; family < raw_families(); family++)
		for (int up = 1; up >= 0 && raw_family(family); up--)
			measure(family, up, alone);
	measure_kiln(argv[1], software);
	return 0;
}
