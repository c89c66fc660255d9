/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies_vulkan DEVICE KERNEL [MIB]: what copies between host and DEVICE
 * (vulkan, vulkan:cpu) reach on a queue of each family that the device has, by
 * plain Vulkan, alone and while kernels run on the first one that computes:
 * what copies.c is to be seen beside. KERNEL and the build are as for
 * replay_vulkan.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "vk_raw.h"

#define ROUNDS 7
#define COPIES 4
#define KERNELS 100

static int64_t bytes = (int64_t)256 << 20;

static double rate(double us, int copies)
{
	return 1e-3 * (double)bytes * copies / us;
}

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
	return 0;
}
