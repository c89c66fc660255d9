/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - seconds to bring a file from the page cache into a tensor of a device
 * (the CPU), beside a loop of pread into memory that is in use already, blocks
 * of 2 MiB both.
 *
 * usage: file FILE [rounds [DEVICE]]
 *
 * The two take turns. `sched DEVICE stage` has the rate of a pinned copy. Prints
 * one JSON object with medians and best times.
 */
#include <fcntl.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t)2 << 20)
#define ROUNDS_MOST 1000

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Memory as kiln's pools have it: in large pages where the system gives them. */
static char *target(size_t bytes)
{
	char *memory = mmap(NULL, bytes + BLOCK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes + BLOCK, MADV_HUGEPAGE);
	memset(memory, 1, bytes + BLOCK);
	return memory + BLOCK - (size_t)memory % BLOCK;
}

static double plain(int fd, char *to, size_t bytes)
{
	double start = now_seconds();

	for (size_t at = 0; at < bytes;) {
		size_t left = bytes - at < BLOCK ? bytes - at : BLOCK;
		ssize_t got = pread(fd, to + at, left, (off_t)at);

		if (got <= 0)
			return -1;
		at += (size_t)got;
	}
	return now_seconds() - start;
}

static double with_kiln(struct kiln_tensor **t, struct kiln_file *file,
			struct kiln_device *device, size_t bytes)
{
	const int64_t shape[] = { (int64_t)bytes };
	double start = now_seconds();

	if (kiln_file_read(t, file, 0, device, KILN_U8, 1, shape) ||
	    kiln_device_sync(device)) {
		fprintf(stderr, "file: %s\n", kiln_error_message());
		return -1;
	}
	return now_seconds() - start;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print(const char *name, double *times, int rounds)
{
	qsort(times, (size_t)rounds, sizeof(*times), compare);
	printf("\"%s\": {\"median_s\": %.6f, \"best_s\": %.6f}, ", name,
	       times[rounds / 2], times[0]);
}

/* Both sides in turn; 0 on success. The first round of each warms up. */
static int measure(const char *path, size_t bytes, int rounds,
		   const char *selector)
{
	static double own[ROUNDS_MOST], peer[ROUNDS_MOST];
	struct kiln_device *device = NULL;
	struct kiln_file *file = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	char *memory = target(bytes);
	int fd = open(path, O_RDONLY);

	if (!memory || fd < 0 || kiln_device_open(&device, selector) ||
	    kiln_file_open(&file, path, 0))
		return 1;
	for (int i = -2; i < rounds; i++) {
		double a = with_kiln(&t, file, device, bytes);
		double b = plain(fd, memory, bytes);

		if (a < 0 || b < 0)
			return 1;
		if (i >= 0) {
			own[i] = a;
			peer[i] = b;
		}
	}
	printf("{\"device\": \"%s\", \"engine\": \"%s\", \"bytes\": %zu, ",
	       selector, kiln_file_engine(), bytes);
	print("kiln", own, rounds);
	print("pread", peer, rounds);
	printf("\"speed_by_medians\": %.3f, \"speed_by_best\": %.3f}\n",
	       peer[rounds / 2] / own[rounds / 2], peer[0] / own[0]);
	kiln_tensor_release(t);
	kiln_file_release(file);
	kiln_device_release(device);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 21;
	struct stat st;

	if (argc < 2 || rounds < 1 || rounds > ROUNDS_MOST ||
	    stat(argv[1], &st) || st.st_size <= 0) {
		fprintf(stderr, "usage: file FILE [rounds [DEVICE]]\n");
		return 2;
	}
	return measure(argv[1], (size_t)st.st_size, rounds,
		       argc > 3 ? argv[3] : "cpu");
}
