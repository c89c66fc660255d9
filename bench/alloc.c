/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times allocation and release: so many pieces of one size are taken, then all
 * of them given back, over and over.
 *
 * usage: alloc pools|public|malloc
 *
 * pools is the pools' own interface on a stream of the null device, public is
 * kiln_empty and kiln_tensor_release there, malloc whatever library is loaded.
 * Prints a line for each case: mode, threads, order, size, live, nanoseconds
 * for one allocation and its release (median over the rounds; with several
 * threads the mean of theirs).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/kiln.h>

#include "base/base.h"
#include "lib/internal.h"

#define ROUNDS_MAX 2000
/* Pieces taken in all rounds of a case, and its least number of rounds. */
#define TAKEN 1000000
#define ROUNDS_MIN 7
#define WARM_UP 2

#define THREADS_MAX 2

union piece {
	struct kilni_slice slice;
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
	double ns;
	bool failed;
};

static struct kiln_device *device;
static _Thread_local struct kilni_stream *stream;

/* ---- what is timed ---- */

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
	{ "pools", take_slice, give_slice, 0 },
	{ "public", take_tensor, give_tensor, 0 },
	/* Some libraries touch what is free. */
	{ "malloc", take_pointer, give_pointer, UINT64_C(4) << 30 },
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

static bool run_round(const struct job *job, union piece *pieces,
		      const unsigned *order)
{
	unsigned i, taken;
	bool good = true;

	for (taken = 0; taken < job->live && good; taken++)
		good = job->mode->take(&pieces[taken], job->bytes);
	if (!good)
		taken--;
	for (i = 0; i < job->live; i++)
		if (order[i] < taken)
			job->mode->give(&pieces[order[i]]);
	return good;
}

static double time_rounds(struct job *job, union piece *pieces,
			  const unsigned *order)
{
	static _Thread_local double ns[ROUNDS_MAX];
	unsigned repeat = 1 + 1000 / job->live, rounds, i, k;

	rounds = TAKEN / (repeat * job->live);
	rounds = rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds;
	rounds = rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	for (i = 0; i < WARM_UP && !job->failed; i++)
		job->failed |= !run_round(job, pieces, order);
	pthread_barrier_wait(job->start);
	for (i = 0; i < rounds && !job->failed; i++) {
		uint64_t begin = kilni_now_ns();

		for (k = 0; k < repeat; k++)
			job->failed |= !run_round(job, pieces, order);
		ns[i] = (double)(kilni_now_ns() - begin) / repeat / job->live;
	}
	qsort(ns, rounds, sizeof(ns[0]), by_value);
	return ns[rounds / 2];
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
	job->ns = time_rounds(job, pieces, order);
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
	double sum = 0;
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
		if (job[i].failed) {
			fprintf(stderr, "alloc: %s: %s\n", mode->name,
				device ? kiln_error_message() : "NULL");
			exit(1);
		}
	}
	pthread_barrier_destroy(&start);
	printf("%s\t%u\t%s\t%llu\t%u\t%.1f\n", mode->name, threads,
	       random ? "random" : "lifo", (unsigned long long)bytes, live,
	       sum / threads);
	fflush(stdout);
}

static void run_all(const struct mode *mode)
{
	static const uint64_t sizes[] = { 64, 4096, 1048576 };
	unsigned threads, random, i, live;

	for (threads = 1; threads <= THREADS_MAX; threads++)
		for (random = 0; random < 2; random++)
			for (i = 0; i < KILNI_COUNTOF(sizes); i++)
				for (live = 10; live <= 1000000; live *= 10)
					run_case(mode, threads, random,
						 sizes[i], live);
}

int main(int argc, char **argv)
{
	unsigned i;

	for (i = 0; argc == 2 && i < KILNI_COUNTOF(modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		if (strcmp(argv[1], "malloc") &&
		    kiln_device_open(&device, "null") != KILN_OK) {
			fprintf(stderr, "alloc: %s\n", kiln_error_message());
			return 1;
		}
		run_all(&modes[i]);
		kiln_device_release(device);
		return 0;
	}
	fprintf(stderr, "usage: alloc pools|public|malloc\n");
	return 2;
}
