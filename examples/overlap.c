/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a file block by block and computes with each block, once one after the
 * other and once with two streams, so that the next block is loaded while the
 * device is at work on the last one. The results are the same. What is gained
 * is the less of the two times, where they need different things: a disk and
 * the processors, or the bus and a GPU. A file in the page cache is copied by
 * the very processors that a CPU device computes with, and gains nothing.
 *
 * usage: overlap [DEVICE [BLOCKS]]
 */
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 20)        /* elements: 4 MiB */

#define TRY(expr)                                                              \
	do {                                                                   \
		enum kiln_status status_ = (expr);                             \
		if (status_ != KILN_OK)                                        \
			return status_;                                        \
	} while (0)

struct job {
	struct kiln_device *device;
	struct kiln_stream *load, *compute;
	struct kiln_file *file;
	int blocks;
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the file ---- */

static enum kiln_status write_blocks(struct kiln_file *file,
				     struct kiln_device *device, int blocks)
{
	const struct kiln_distribution normal = { KILN_RANDOM_NORMAL, 0, 1 };
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { BLOCK };
	enum kiln_status status = KILN_OK;

	for (int i = 0; i < blocks && status == KILN_OK; i++) {
		status = kiln_random(&x, device, KILN_F32, 1, shape, normal);
		if (status == KILN_OK)
			status = kiln_file_write(file, 4 * (uint64_t)BLOCK *
							       (uint64_t)i, x);
	}
	kiln_tensor_release(x);
	return status == KILN_OK ? kiln_file_commit(file) : status;
}

static enum kiln_status make_file(const char *path, struct job *job)
{
	struct kiln_file *file = NULL;
	enum kiln_status status;

	TRY(kiln_file_create(&file, path, 0));
	status = write_blocks(file, job->device, job->blocks);
	kiln_file_release(file);
	return status;
}

/* ---- the work ---- */

static enum kiln_status load(struct job *job, int i, struct kiln_tensor **x)
{
	const int64_t shape[] = { BLOCK };

	TRY(kiln_stream_set_current(job->device, job->load));
	return kiln_file_read(x, job->file, 4 * (uint64_t)BLOCK * (uint64_t)i,
			      job->device, KILN_F32, 1, shape);
}

/*
 * sum += sum of tanh(erf(exp(x))), queued. That the block comes from another
 * stream is kiln's to see to.
 */
static enum kiln_status compute(struct job *job, struct kiln_tensor *x,
				struct kiln_tensor **sum)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	enum kiln_status status;

	TRY(kiln_stream_set_current(job->device, job->compute));
	(void)((status = kiln_exp(&y, x)) || (status = kiln_erf(&y, y)) ||
	       (status = kiln_tanh(&y, y)) || (status = kiln_sum(&y, y)) ||
	       (status = kiln_add(sum, *sum, y)) ||
	       (status = kiln_stream_flush(job->compute)));
	kiln_tensor_release(y);
	return status;
}

static enum kiln_status run_blocks(struct job *job, int apart,
				   struct kiln_tensor **sum)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	enum kiln_status status = KILN_OK;

	for (int i = 0; i < job->blocks && status == KILN_OK; i++) {
		(void)((status = load(job, i, &x)) ||
		       (status = compute(job, x, sum)) ||
		       (apart && (status = kiln_stream_sync(job->compute))));
	}
	kiln_tensor_release(x);
	return status;
}

/* One run; *time becomes the least so far. */
static enum kiln_status timed(struct job *job, int apart, float *total,
			      double *time)
{
	struct kiln_tensor *sum = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1 };
	double start = seconds();
	enum kiln_status status;

	(void)((status = kiln_zeros(&sum, job->device, KILN_F32, 1, shape)) ||
	       (status = run_blocks(job, apart, &sum)) ||
	       (status = kiln_tensor_read(sum, total, sizeof(*total))));
	start = seconds() - start;
	if (*time == 0 || start < *time)
		*time = start;
	kiln_tensor_release(sum);
	return status;
}

static enum kiln_status run(struct job *job, const char *path)
{
	float apart = 0, together = 0;
	double apart_s = 0, together_s = 0;

	TRY(make_file(path, job));
	TRY(kiln_file_open(&job->file, path, 0));
	TRY(kiln_stream_create(&job->load, job->device));
	TRY(kiln_stream_create(&job->compute, job->device));
	for (int i = 0; i < 3; i++) {
		TRY(timed(job, 1, &apart, &apart_s));
		TRY(timed(job, 0, &together, &together_s));
	}
	printf("%s: %d blocks one after the other: %.1f ms, overlapped: "
	       "%.1f ms, sums %s\n", kiln_device_selector(job->device),
	       job->blocks, 1e3 * apart_s, 1e3 * together_s,
	       apart == together ? "equal" : "differ");
	return KILN_OK;
}

int main(int argc, char **argv)
{
	struct job job = { .blocks = argc > 2 ? atoi(argv[2]) : 16 };
	char path[] = "/tmp/overlap-XXXXXX";
	enum kiln_status status;
	int fd;

	if (job.blocks < 1) {
		fprintf(stderr, "usage: overlap [DEVICE [BLOCKS]]\n");
		return 2;
	}
	fd = mkstemp(path);
	if (fd < 0) {
		perror("overlap: /tmp");
		return 1;
	}
	close(fd);
	status = kiln_device_open(&job.device, argc > 1 ? argv[1] : NULL);
	if (status == KILN_OK)
		status = run(&job, path);
	if (status != KILN_OK)
		fprintf(stderr, "overlap: %s\n", kiln_error_message());
	unlink(path);
	kiln_file_release(job.file);
	kiln_stream_release(job.load);
	kiln_stream_release(job.compute);
	kiln_device_release(job.device);
	return status != KILN_OK;
}
