/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched - what queueing costs: who drains the rings and when, one enqueue, one
 * completion across threads, and many streams at once.
 *
 * usage: sched [DEVICE] [drain|enqueue|complete|many|replay]...
 *
 * drain: for each policy nanoseconds of the caller for one op and of the whole
 *        for one op, small ops (64 elements behind a large one) and large ones
 *        (65536), by 1 and 4 threads.
 * enqueue: nanoseconds of the caller's core for an op on a busy stream.
 * complete: microseconds from the end of the work to the thread that waits.
 * many: 64 streams, 1,000,000 ops; the process's memory before and after.
 * replay: nanoseconds for one of 1000 small ops, eagerly and in a graph: of the
 *         caller, and of the whole with a sync; and for one of few.
 *
 * Prints rows of a table: medians of some rounds, of drain the best of some,
 * the policies taking turns.
 */
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 7
#define THREADS_MOST 4
#define STREAMS 64
#define OPS_MANY 1000000

static const char *selector = "cpu";

/* What the calling thread has had of a core. */
static double own_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static struct kiln_tensor *ones(struct kiln_device *device, int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	TRY(kiln_ones(&t, device, KILN_F32, 1, &count));
	return t;
}

/* ---- who drains, and when ---- */

struct part {
	struct kiln_device *device;
	pthread_barrier_t *start;
	int64_t elements;
	int ops;
	double caller[ROUNDS], whole[ROUNDS];
};

static void *run_part(void *arg)
{
	struct part *part = arg;
	struct kiln_tensor *x = ones(part->device, part->elements);
	struct kiln_tensor *large = ones(part->device, 1 << 18);
	struct kiln_stream *stream = NULL;

	TRY(kiln_stream_current(&stream, part->device));
	for (int round = -1; round < ROUNDS; round++) {
		double start, queued;

		TRY(kiln_stream_sync(stream));
		pthread_barrier_wait(part->start);
		/* So that the small ones are queued. */
		TRY(kiln_add(&large, large, large));
		start = now_ns();
		for (int i = 0; i < part->ops; i++)
			TRY(kiln_neg(&x, x));
		queued = now_ns();
		TRY(kiln_stream_sync(stream));
		if (round < 0)
			continue;
		part->caller[round] = (queued - start) / part->ops;
		part->whole[round] = (now_ns() - start) / part->ops;
	}
	kiln_stream_release(stream);
	kiln_tensor_release(large);
	kiln_tensor_release(x);
	return NULL;
}

struct result {
	double caller, whole;
};

static double least(double a, const double *values)
{
	for (int i = 0; i < ROUNDS; i++)
		if (a == 0 || values[i] < a)
			a = values[i];
	return a;
}

/* Keeps the best in *best, since other work can only make it slower. */
static void run_policy(const char *policy, int64_t elements, int ops,
		       int threads, struct result *best)
{
	struct part part[THREADS_MOST];
	pthread_t thread[THREADS_MOST];
	struct kiln_device *device = NULL;
	pthread_barrier_t barrier;
	char options[32];

	snprintf(options, sizeof(options), "drain=%s", policy);
	TRY(kiln_device_open_with(&device, selector, options));
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		part[i] = (struct part){ .device = device, .start = &barrier,
					 .elements = elements, .ops = ops };
		if (pthread_create(&thread[i], NULL, run_part, &part[i]))
			exit(EXIT_FAILURE);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	best->caller = least(best->caller, part[0].caller);
	best->whole = least(best->whole, part[0].whole);
	pthread_barrier_destroy(&barrier);
	kiln_device_release(device);
}

#define POLICIES 8
#define CASES 4
#define PASSES 3

static void bench_drain(void)
{
	static const char *const policy[POLICIES] = { "1",  "2",  "4",  "8",
						      "16", "32", "64",
						      "thread" };
	static struct result best[POLICIES][CASES];
	int ops = strcmp(selector, "cpu") ? 64 : 256;

	for (int pass = 0; pass < PASSES; pass++)
		for (int i = 0; i < POLICIES; i++)
			for (int k = 0; k < CASES; k++)
				run_policy(policy[i], k < 2 ? 64 : 65536, ops,
					   k & 1 ? 4 : 1, &best[i][k]);
	printf("| drain | small, 1 thread | small, 4 | large, 1 | large, 4 |\n"
	       "|---|---|---|---|---|\n");
	for (int i = 0; i < POLICIES; i++) {
		printf("| %s |", policy[i]);
		for (int k = 0; k < CASES; k++)
			printf(" %.0f / %.0f |", best[i][k].caller,
			       best[i][k].whole);
		printf("\n");
	}
}

/* ---- one enqueue ---- */

#define BURST 256
#define BURSTS 101

static double enqueue(struct kiln_device *device, struct kiln_tensor **x,
		      struct kiln_tensor **large, int ops)
{
	double start, end;

	/* The device is busy meanwhile, for longer than this takes. */
	TRY(kiln_matmul(large, *large, *large));
	start = own_ns();
	for (int i = 0; i < ops; i++)
		TRY(kiln_neg(x, *x));
	end = own_ns();
	TRY(kiln_device_sync(device));
	return (end - start) / ops;
}

static void bench_enqueue(void)
{
	static const char *const policy[] = { "drain=8", "drain=64",
					      "drain=thread" };

	for (size_t p = 0; p < 3; p++) {
		struct kiln_device *device = NULL;
		struct kiln_tensor *x, *large = KILN_TENSOR_NONE;
		const int64_t shape[] = { 512, 512 };
		double ns[BURSTS], middle;

		TRY(kiln_device_open_with(&device, selector, policy[p]));
		x = ones(device, 64);
		TRY(kiln_zeros(&large, device, KILN_F32, 2, shape));
		(void)enqueue(device, &x, &large, BURST);
		for (int i = 0; i < BURSTS; i++)
			ns[i] = enqueue(device, &x, &large, BURST);
		middle = median(ns, BURSTS);
		printf("| enqueue, %s | %.0f ns, best %.0f |\n", policy[p],
		       middle, ns[0]);
		kiln_tensor_release(x);
		kiln_tensor_release(large);
		kiln_device_release(device);
	}
}

/* ---- a completion across threads ---- */

#define COMPLETIONS 2001

static double stamped_ns;

/* The last thing that the worker does before the completion. */
static void stamp(const void *params, uint64_t begin, uint64_t end)
{
	(void)params;
	(void)begin;
	(void)end;
	stamped_ns = now_ns();
}

/* A kernel that notes when it ran, behind an op that a worker runs. */
static void submit_stamp(struct kiln_kernel *kernel, struct kiln_tensor *x)
{
	const struct kiln_kernel_operand operand = { x, KILN_ACCESS_READ_WRITE,
						     8 };
	struct kiln_kernel_call call = KILN_KERNEL_CALL_INIT;
	uint64_t params[2] = { 0 };

	call.params = params;
	call.elements = 1;
	call.operands = &operand;
	call.operand_count = 1;
	TRY(kiln_kernel_submit(kernel, &call));
}

static struct kiln_kernel *load_stamp(struct kiln_device *device)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;
	struct kiln_kernel *kernel = NULL;

	info.name = "stamp";
	info.code = KILN_KERNEL_C;
	info.function = stamp;
	info.params_bytes = 16;
	info.flags = KILN_KERNEL_WHOLE;
	TRY(kiln_kernel_load(&kernel, device, &info));
	return kernel;
}

/* From the end of a worker's work to the thread that waits for its post. */
static void bench_complete(void)
{
	struct kiln_completion c = KILN_COMPLETION_INIT;
	struct kiln_completions *ring = NULL;
	struct kiln_device *device = NULL;
	struct kiln_kernel *kernel;
	struct kiln_tensor *x;
	static double posted[COMPLETIONS], synced[COMPLETIONS];
	size_t one = 1;

	TRY(kiln_device_open(&device, selector));
	TRY(kiln_completions_create(&ring, 16));
	kernel = load_stamp(device);
	x = ones(device, 65536);
	for (int i = 0; i < COMPLETIONS; i++) {
		TRY(kiln_neg(&x, x));
		submit_stamp(kernel, x);
		TRY(kiln_tensor_complete(x, ring, 0));
		TRY(kiln_completions_wait(ring, -1));
		TRY(kiln_completions_take(ring, &c, &one));
		posted[i] = now_ns() - stamped_ns;
		TRY(kiln_neg(&x, x));
		submit_stamp(kernel, x);
		TRY(kiln_device_sync(device));
		synced[i] = now_ns() - stamped_ns;
	}
	printf("| end of the work to its completion taken | %.2f us |\n"
	       "| end of the work to the end of a sync | %.2f us |\n",
	       median(posted, COMPLETIONS) / 1e3,
	       median(synced, COMPLETIONS) / 1e3);
	kiln_kernel_release(kernel);
	kiln_tensor_release(x);
	kiln_completions_release(ring);
	kiln_device_release(device);
}

/* ---- many streams ---- */

static double resident_mib(void)
{
	long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static void bench_many(void)
{
	struct kiln_device *device = NULL;
	struct kiln_stream *stream[STREAMS] = { NULL };
	struct kiln_tensor *x[STREAMS];
	double start, seconds, before, most = 0;

	TRY(kiln_device_open(&device, selector));
	for (int s = 0; s < STREAMS; s++) {
		TRY(kiln_stream_create(&stream[s], device));
		TRY(kiln_stream_set_current(device, stream[s]));
		x[s] = ones(device, 4096);
		TRY(kiln_neg(&x[s], x[s]));
	}
	TRY(kiln_device_sync(device));
	before = resident_mib();
	start = now_ns();
	for (int i = 0; i < OPS_MANY; i++) {
		int s = i % STREAMS;
		enum kiln_status status;

		TRY(kiln_stream_set_current(device, stream[s]));
		while ((status = kiln_neg(&x[s], x[s])) == KILN_ERR_BUSY)
			TRY(kiln_stream_sync(stream[s]));
		TRY(status);
		if (i % 50000 == 0 && resident_mib() > most)
			most = resident_mib();
	}
	TRY(kiln_device_sync(device));
	seconds = (now_ns() - start) / 1e9;
	printf("| %d streams, %d ops | %.2f s |\n"
	       "| memory before, most, after | %.1f, %.1f, %.1f MiB |\n",
	       STREAMS, OPS_MANY, seconds, before, most, resident_mib());
	TRY(kiln_stream_set_current(device, NULL));
	for (int s = 0; s < STREAMS; s++) {
		kiln_tensor_release(x[s]);
		kiln_stream_release(stream[s]);
	}
	kiln_device_release(device);
}

/* ---- graphs ---- */

struct chain {
	struct kiln_tensor *x, *y;
	int ops;
};

static enum kiln_status run_chain(struct kiln_device *device, void *user)
{
	struct chain *chain = user;
	enum kiln_status status = KILN_OK;

	(void)device;
	for (int i = 0; i < chain->ops && !status; i++)
		status = i % 2 ? kiln_sub(&chain->x, chain->x, chain->y)
			       : kiln_add(&chain->x, chain->x, chain->y);
	return status;
}

/* One run: nanoseconds of the caller and with the sync. */
static void time_chain(struct kiln_device *device, struct chain *chain,
		       struct kiln_graph *graph, double *caller, double *whole)
{
	double begin = now_ns();

	if (graph)
		TRY(kiln_graph_replay(graph));
	else
		TRY(run_chain(device, chain));
	*caller = (now_ns() - begin) / chain->ops;
	TRY(kiln_device_sync(device));
	*whole = (now_ns() - begin) / chain->ops;
}

#define REPLAYS 201

static void bench_replay(void)
{
	static const int ops[] = { 10, 100, 1000 };
	static double caller[2][REPLAYS], whole[2][REPLAYS];
	struct kiln_device *device = NULL;

	TRY(kiln_device_open(&device, selector));
	printf("\n| ops | eager: caller, whole | replay: caller, whole |\n");
	printf("|---|---|---|\n");
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		struct chain chain = { ones(device, 64), ones(device, 64),
				       ops[i] };
		struct kiln_graph *graph = NULL;

		TRY(kiln_graph_create(&graph, device, run_chain, &chain));
		for (int r = 0; r < REPLAYS; r++)
			for (int g = 0; g < 2; g++)
				time_chain(device, &chain, g ? graph : NULL,
					   &caller[g][r], &whole[g][r]);
		printf("| %d | %.1f, %.1f | %.1f, %.1f |\n", ops[i],
		       median(caller[0], REPLAYS), median(whole[0], REPLAYS),
		       median(caller[1], REPLAYS), median(whole[1], REPLAYS));
		kiln_graph_release(graph);
		kiln_tensor_release(chain.x);
		kiln_tensor_release(chain.y);
	}
	kiln_device_release(device);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = { { "drain", bench_drain },
	      { "enqueue", bench_enqueue },
	      { "complete", bench_complete },
	      { "many", bench_many },
	      { "replay", bench_replay } };

int main(int argc, char **argv)
{
	size_t count = sizeof(parts) / sizeof(*parts);

	if (argc > 1)
		selector = argv[1];
	for (size_t i = 0; i < count; i++) {
		bool wanted = argc < 3;

		for (int a = 2; a < argc; a++)
			wanted |= !strcmp(argv[a], parts[i].name);
		if (wanted)
			parts[i].run();
	}
	return EXIT_SUCCESS;
}
