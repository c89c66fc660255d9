/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times allocation and release: so many pieces of one size are taken, then all
 * of them given back, over and over.
 *
 * usage: alloc array|pools|buffer|tensor|malloc THREADS lifo|random BYTES LIVE
 *
 * array is what the caller's own array of slices costs, which is in all others:
 * each is written and later read, under a lock like that of the pools. pools is
 * the pools' own interface on a stream of the null device, buffer is
 * kiln_buffer_create and kiln_buffer_release there, tensor is kiln_empty and
 * kiln_tensor_release, malloc whatever library is loaded.
 * Prints one line, none where it would not fit: mode, threads, order, size, live,
 * and two times
 * in nanoseconds for one allocation and its release, with several threads the
 * mean of theirs. The first is the median over samples of a thousand
 * allocations and a thousand releases, of which few are hit by what else runs;
 * the second is the thread's CPU time over the whole, with all that is done
 * only now and then.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

#include "base/base.h"
#include "lib/internal.h"

/* Pieces taken in a sample; live ones are a multiple, or a divisor. */
#define SAMPLE 1000
/* Pieces taken in all rounds of a case, and its least number of rounds. */
#define TAKEN 1000000
#define ROUNDS_MIN 7
#define WARM_UP 2

#define THREADS_MAX 2

union piece {
	struct kilni_slice slice;
	struct kiln_buffer *buffer;
	struct kiln_tensor *tensor;
	void *pointer;
};

struct mode {
	const char *name;
	bool (*take)(union piece *piece, uint64_t bytes);
	void (*give)(union piece *piece);
	/* Most bytes live; 0: any. */
	uint64_t most_bytes;
};

struct job {
	const struct mode *mode;
	uint64_t bytes;
	unsigned live;
	bool random;
	pthread_barrier_t *start;
	double ns, cpu_ns;
	bool failed;
};

static struct kiln_device *device;
static _Thread_local struct kilni_stream *stream;

/* ---- what is timed ---- */

static _Thread_local int array_lock;
static _Thread_local uint64_t array_sum;

static bool take_array(union piece *piece, uint64_t bytes)
{
	kilni_spin_lock(&array_lock);
	piece->slice.address = bytes;
	piece->slice.bytes = bytes;
	piece->slice.block = piece;
	kilni_spin_unlock(&array_lock);
	return true;
}

static void give_array(union piece *piece)
{
	kilni_spin_lock(&array_lock);
	array_sum += piece->slice.address + (uintptr_t)piece->slice.block;
	kilni_spin_unlock(&array_lock);
}

static bool take_slice(union piece *piece, uint64_t bytes)
{
	return kilni_pools_alloc(kilni_device_pools(device), stream, bytes,
				 false, &piece->slice) == KILN_OK;
}

static void give_slice(union piece *piece)
{
	struct kilni_use use = { stream, 0 };

	kilni_pools_free(kilni_device_pools(device), &piece->slice, &use, 1);
}

static bool take_buffer(union piece *piece, uint64_t bytes)
{
	piece->buffer = NULL;
	return kiln_buffer_create(&piece->buffer, device, NULL, bytes) ==
	       KILN_OK;
}

static void give_buffer(union piece *piece)
{
	kiln_buffer_release(piece->buffer);
}

static bool take_tensor(union piece *piece, uint64_t bytes)
{
	int64_t shape = (int64_t)bytes;

	piece->tensor = NULL;
	return kiln_empty(&piece->tensor, device, KILN_U8, 1, &shape) ==
	       KILN_OK;
}

static void give_tensor(union piece *piece)
{
	kiln_tensor_release(piece->tensor);
}

static bool take_pointer(union piece *piece, uint64_t bytes)
{
	piece->pointer = malloc(bytes);
	return piece->pointer;
}

static void give_pointer(union piece *piece)
{
	free(piece->pointer);
}

static const struct mode modes[] = {
	{ "array", take_array, give_array, 0 },
	{ "pools", take_slice, give_slice, 0 },
	{ "buffer", take_buffer, give_buffer, 0 },
	{ "tensor", take_tensor, give_tensor, 0 },
	/* Some libraries touch what is free. */
	{ "malloc", take_pointer, give_pointer, UINT64_C(1) << 30 },
};

/* ---- one case ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The order in which pieces are given back. */
static unsigned *make_order(unsigned live, bool random)
{
	unsigned *order = malloc(live * sizeof(*order));
	uint64_t state = 88172645463325252u;
	unsigned i;

	if (!order)
		abort();
	for (i = 0; i < live; i++)
		order[i] = live - 1 - i;
	for (i = live; random && i-- > 1;) {
		unsigned k, swap = order[i];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		k = (unsigned)(state % (i + 1));
		order[i] = order[k];
		order[k] = swap;
	}
	return order;
}

static bool take_some(const struct job *job, union piece *pieces,
		      unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (!job->mode->take(&pieces[i], job->bytes))
			return false;
	return true;
}

static void give_some(const struct job *job, union piece *pieces,
		      const unsigned *order, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		job->mode->give(&pieces[order[i]]);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct samples {
	double *ns;
	unsigned count, most;
};

static void samples_open(struct samples *samples, unsigned most)
{
	samples->ns = calloc(most, sizeof(*samples->ns));
	if (!samples->ns)
		abort();
	samples->count = 0;
	samples->most = most;
}

static void add_sample(struct samples *samples, uint64_t begin,
		       uint64_t pieces)
{
	if (samples->count < samples->most)
		samples->ns[samples->count++] =
			(double)(kilni_now_ns() - begin) / (double)pieces;
}

static double median(struct samples *samples)
{
	double middle;

	qsort(samples->ns, samples->count, sizeof(samples->ns[0]), by_value);
	middle = samples->count ? samples->ns[samples->count / 2] : 0;
	free(samples->ns);
	return middle;
}

/* So few pieces that a sample is many rounds. */
static bool run_shallow(struct job *job, union piece *pieces,
			const unsigned *order, struct samples *both)
{
	unsigned repeat = SAMPLE / job->live, k;
	uint64_t begin = kilni_now_ns();

	for (k = 0; k < repeat; k++) {
		if (!take_some(job, pieces, job->live))
			return false;
		give_some(job, pieces, order, job->live);
	}
	add_sample(both, begin, (uint64_t)repeat * job->live);
	return true;
}

/* So many that a round is many samples. */
static bool run_deep(struct job *job, union piece *pieces,
		     const unsigned *order, struct samples *taken,
		     struct samples *given)
{
	uint64_t begin;
	unsigned i;

	for (i = 0; i < job->live; i += SAMPLE) {
		begin = kilni_now_ns();
		if (!take_some(job, &pieces[i], SAMPLE))
			return false;
		add_sample(taken, begin, SAMPLE);
	}
	for (i = 0; i < job->live; i += SAMPLE) {
		begin = kilni_now_ns();
		give_some(job, pieces, &order[i], SAMPLE);
		add_sample(given, begin, SAMPLE);
	}
	return true;
}

static void time_rounds(struct job *job, union piece *pieces,
			const unsigned *order)
{
	bool shallow = job->live < SAMPLE, good = true;
	unsigned a_round = shallow ? SAMPLE : job->live;
	unsigned rounds = TAKEN / a_round, i;
	struct samples taken, given;
	uint64_t begin = 0;

	rounds = rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds;
	samples_open(&taken, rounds * (a_round / SAMPLE));
	samples_open(&given, rounds * (a_round / SAMPLE));
	for (i = 0; i < WARM_UP + rounds && good; i++) {
		if (i == WARM_UP) {
			pthread_barrier_wait(job->start);
			taken.count = given.count = 0;
			begin = cpu_ns();
		}
		good = shallow ? run_shallow(job, pieces, order, &taken)
			       : run_deep(job, pieces, order, &taken, &given);
	}
	if (i <= WARM_UP)
		pthread_barrier_wait(job->start);
	job->failed = !good;
	job->cpu_ns = (double)(cpu_ns() - begin) / rounds / a_round;
	job->ns = median(&taken) + median(&given);
}

static void *run_job(void *argument)
{
	struct job *job = argument;
	union piece *pieces = calloc(job->live, sizeof(*pieces));
	unsigned *order = make_order(job->live, job->random);
	struct kilni_thread *thread;

	if (!pieces)
		abort();
	if (device) {
		if (kilni_thread_get(device, &thread) != KILN_OK)
			abort();
		stream = thread->stream;
	}
	time_rounds(job, pieces, order);
	free(order);
	free(pieces);
	return NULL;
}

static void run_case(const struct mode *mode, unsigned threads, bool random,
		     uint64_t bytes, unsigned live)
{
	struct job job[THREADS_MAX];
	pthread_t thread[THREADS_MAX];
	pthread_barrier_t start;
	double sum = 0, cpu_sum = 0;
	unsigned i;

	if (mode->most_bytes && threads * live * bytes > mode->most_bytes)
		return;
	/* The null device has 2^40 bytes. */
	if (threads * live * bytes > UINT64_C(1) << 40)
		return;
	pthread_barrier_init(&start, NULL, threads);
	for (i = 0; i < threads; i++) {
		job[i] = (struct job){ .mode = mode, .bytes = bytes,
				       .live = live, .random = random,
				       .start = &start };
		if (pthread_create(&thread[i], NULL, run_job, &job[i]))
			abort();
	}
	for (i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += job[i].ns;
		cpu_sum += job[i].cpu_ns;
		if (job[i].failed) {
			fprintf(stderr, "alloc: %s: %s\n", mode->name,
				device ? kiln_error_message() : "NULL");
			exit(1);
		}
	}
	pthread_barrier_destroy(&start);
	printf("%s\t%u\t%s\t%llu\t%u\t%.1f\t%.1f\n", mode->name, threads,
	       random ? "random" : "lifo", (unsigned long long)bytes, live,
	       sum / threads, cpu_sum / threads);
	fflush(stdout);
}

/* The case of a command line; false: it makes no sense. */
static bool run_one(const struct mode *mode, char **argv)
{
	unsigned threads = (unsigned)strtoul(argv[0], NULL, 10);
	unsigned live = (unsigned)strtoul(argv[3], NULL, 10);
	uint64_t bytes = strtoull(argv[2], NULL, 10);

	if (!threads || threads > THREADS_MAX || !bytes || !live ||
	    (live < SAMPLE ? SAMPLE % live : live % SAMPLE))
		return false;
	run_case(mode, threads, !strcmp(argv[1], "random"), bytes, live);
	return true;
}

int main(int argc, char **argv)
{
	bool good;
	unsigned i;

	for (i = 0; argc == 6 && i < KILNI_COUNTOF(modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		if (strcmp(argv[1], "malloc") &&
		    kiln_device_open(&device, "null") != KILN_OK) {
			fprintf(stderr, "alloc: %s\n", kiln_error_message());
			return 1;
		}
		good = run_one(&modes[i], argv + 2);
		kiln_device_release(device);
		if (good)
			return 0;
	}
	fprintf(stderr, "usage: alloc array|pools|buffer|tensor|malloc "
			"THREADS lifo|random BYTES LIVE\n");
	return 2;
}
