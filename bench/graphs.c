/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs - small operations on a GPU beside the same ones by CUDA's own calls:
 * eager, replayed as a graph, and in a window of the device's clock.
 *
 * usage: graphs ENTRY.ptx [eager|policy|raw|replay|window]...
 *
 * ENTRY.ptx is a text with kiln's dense f32 kernels, BUILD/cuda-ptx/ew1_0.ptx:
 * CUDA's side launches the same kernel with the same parameters. libcuda.so.1
 * is opened at run time. graphs_torch.py is PyTorch's side of "eager".
 *
 * eager: a burst of 1000 adds, for several sizes; host time of one, and with
 *        the sync.
 * policy: 100,000 adds in a row, with each way to drain; the same two times.
 * raw: what CUDA's calls cost the host: launches of several sizes, marks.
 * replay: 1000 adds as a graph of kiln's, of CUDA's, and eagerly, in turn.
 * window: time of one add by a window of kiln's and by events of CUDA's.
 *
 * Prints rows of a table, medians.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

#include "bench.h"
#include "kernels/abi.h"

#define OPS 1000
#define OPS_MANY 100000
#define ROUNDS 101
#define BLOCK 128 /* as the driver has it for dense kernels */

static const char *ptx_path;

static struct kiln_tensor *ones(struct kiln_device *device, int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	TRY(kiln_ones(&t, device, KILN_F32, 1, &count));
	return t;
}

/* ---- CUDA ---- */

struct node_params {
	void *function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
};

#define CALLS(X)                                                               \
	X(cuInit, (unsigned))                                                  \
	X(cuDeviceGet, (int *, int))                                           \
	X(cuDevicePrimaryCtxRetain, (void **, int))                            \
	X(cuDevicePrimaryCtxRelease_v2, (int))                                 \
	X(cuCtxPushCurrent_v2, (void *))                                       \
	X(cuCtxPopCurrent_v2, (void **))                                       \
	X(cuStreamCreate, (void **, unsigned))                                 \
	X(cuStreamSynchronize, (void *))                                       \
	X(cuStreamDestroy_v2, (void *))                                        \
	X(cuStreamWriteValue64_v2, (void *, uint64_t, uint64_t, unsigned))     \
	X(cuMemAlloc_v2, (uint64_t *, size_t))                                 \
	X(cuMemFree_v2, (uint64_t))                                            \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                         \
	X(cuMemFreeHost, (void *))                                             \
	X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))      \
	X(cuEventCreate, (void **, unsigned))                                  \
	X(cuEventDestroy_v2, (void *))                                         \
	X(cuEventRecord, (void *, void *))                                     \
	X(cuEventSynchronize, (void *))                                        \
	X(cuEventElapsedTime, (float *, void *, void *))                       \
	X(cuModuleLoadData, (void **, const void *))                           \
	X(cuModuleGetFunction, (void **, void *, const char *))                \
	X(cuLaunchKernel,                                                      \
	  (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
	   unsigned, void *, void **, void **))                                \
	X(cuGraphCreate, (void **, unsigned))                                  \
	X(cuGraphDestroy, (void *))                                            \
	X(cuGraphAddKernelNode,                                                \
	  (void **, void *, void *const *, size_t, const struct node_params *))\
	X(cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t))   \
	X(cuGraphExecKernelNodeSetParams,                                      \
	  (void *, void *, const struct node_params *))                        \
	X(cuGraphLaunch, (void *, void *))                                     \
	X(cuGraphExecDestroy, (void *))

static struct {
#define POINTER(name, params) int(*name) params;
	CALLS(POINTER)
#undef POINTER
} cu;

static void cu_check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "graphs: %s: result %d\n", what, result);
	exit(EXIT_FAILURE);
}

#define CU(call) cu_check(cu.call, #call)

static void find_calls(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *found;

	if (!library) {
		fprintf(stderr, "graphs: %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
#define FIND(name, params)                                                     \
	found = dlsym(library, #name);                                         \
	if (!found)                                                            \
		fprintf(stderr, "graphs: no %s\n", #name);                     \
	memcpy(&cu.name, &found, sizeof(found));
	CALLS(FIND)
#undef FIND
	CU(cuInit(0));
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	long bytes;

	if (!file || fseek(file, 0, SEEK_END) || (bytes = ftell(file)) < 0 ||
	    fseek(file, 0, SEEK_SET) || !(text = malloc((size_t)bytes + 1)) ||
	    fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
		fprintf(stderr, "graphs: %s cannot be read\n", path);
		exit(EXIT_FAILURE);
	}
	text[bytes] = 0;
	fclose(file);
	return text;
}

/* The raw side: a stream, the kernel, its parameters. */
static struct {
	void *context, *stream, *add, *add_short;
	uint64_t x, y, z, word_address;
	void *word;
	struct kilni_ew_params params;
} raw;

/*
 * A dense kernel reads its parameters up to the shape: the same one with a
 * parameter of that size. False: the text does not have what is looked for.
 */
static int shorten(char *text)
{
	char whole[16], cut[16], *at = text;
	int found = 0;

	snprintf(whole, sizeof(whole), "[%zu]", sizeof(raw.params));
	snprintf(cut, sizeof(cut), "[%zu]",
		 offsetof(struct kilni_ew_params, shape));
	if (strlen(whole) != strlen(cut))
		return 0;
	while ((at = strstr(at, whole))) {
		memcpy(at, cut, strlen(cut));
		found = 1;
	}
	return found;
}

static void raw_open(int64_t count)
{
	char *text = read_text(ptx_path);
	float *host = malloc((size_t)count * sizeof(*host));
	void *module;
	int device;

	for (int64_t i = 0; i < count; i++)
		host[i] = 1;
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&raw.context, device));
	CU(cuCtxPushCurrent_v2(raw.context));
	CU(cuStreamCreate(&raw.stream, 1));
	CU(cuMemAlloc_v2(&raw.x, (size_t)count * 4));
	CU(cuMemAlloc_v2(&raw.y, (size_t)count * 4));
	CU(cuMemAlloc_v2(&raw.z, (size_t)count * 4));
	CU(cuMemHostAlloc(&raw.word, 4096, 3));
	raw.word_address = (uintptr_t)raw.word;
	CU(cuMemcpyHtoDAsync_v2(raw.x, host, (size_t)count * 4, raw.stream));
	CU(cuMemcpyHtoDAsync_v2(raw.y, host, (size_t)count * 4, raw.stream));
	CU(cuStreamSynchronize(raw.stream));
	CU(cuModuleLoadData(&module, text));
	CU(cuModuleGetFunction(&raw.add, module, "kl_ew_ADD"));
	if (shorten(text)) {
		CU(cuModuleLoadData(&module, text));
		CU(cuModuleGetFunction(&raw.add_short, module, "kl_ew_ADD"));
	}
	memset(&raw.params, 0, sizeof(raw.params));
	raw.params.count = (uint64_t)count;
	raw.params.out = raw.params.in[0] = raw.x;
	raw.params.in[1] = raw.y;
	memset(raw.params.dtype, KILN_F32, sizeof(raw.params.dtype));
	raw.params.contiguous = 1;
	free(host);
	free(text);
}

static void raw_close(void)
{
	void *context;

	CU(cuStreamDestroy_v2(raw.stream));
	CU(cuMemFree_v2(raw.x));
	CU(cuMemFree_v2(raw.y));
	CU(cuMemFree_v2(raw.z));
	CU(cuMemFreeHost(raw.word));
	CU(cuCtxPopCurrent_v2(&context));
	CU(cuDevicePrimaryCtxRelease_v2(0));
}

/* As kiln does: a thread for every four elements. */
static unsigned raw_blocks(void)
{
	return (unsigned)((raw.params.count + 4 * BLOCK - 1) / (4 * BLOCK));
}

static void raw_add(void)
{
	void *arguments[1] = { &raw.params };

	CU(cuLaunchKernel(raw.add, raw_blocks(), 1, 1, BLOCK, 1, 1, 0,
			  raw.stream, arguments, NULL));
}

/* ---- eager ---- */

/* us for one op of a burst: of the caller and with the sync. */
static void burst(struct kiln_device *device, int ops, struct kiln_tensor *a,
		  struct kiln_tensor *b, struct kiln_tensor **out,
		  double *caller, double *whole)
{
	double begin = now_us();

	for (int i = 0; i < ops; i++)
		TRY(kiln_add(out, a, b));
	*caller = (now_us() - begin) / ops;
	TRY(kiln_device_sync(device));
	*whole = (now_us() - begin) / ops;
}

static void bench_eager(void)
{
	static const int64_t sizes[] = { 16, 64, 256, 1024 };
	struct kiln_device *device = NULL;
	double caller[ROUNDS], whole[ROUNDS];

	TRY(kiln_device_open(&device, "cuda"));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct kiln_tensor *a = ones(device, sizes[i]);
		struct kiln_tensor *b = ones(device, sizes[i]), *out = NULL;

		for (int r = -2; r < ROUNDS; r++)
			burst(device, OPS, a, b, &out, &caller[r < 0 ? 0 : r],
			      &whole[r < 0 ? 0 : r]);
		printf("| eager, %lld elements | %.3f, %.3f us |\n",
		       (long long)sizes[i], median(caller, ROUNDS),
		       median(whole, ROUNDS));
		kiln_tensor_release(a);
		kiln_tensor_release(b);
		kiln_tensor_release(out);
	}
	kiln_device_release(device);
}

static void bench_policy(void)
{
	static const char *const policies[] = {
		"drain=8",  "drain=1",  "drain=16",
		"drain=32", "drain=64", "drain=thread",
	};
	double caller[3], whole[3];

	for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
		struct kiln_device *device = NULL;
		struct kiln_tensor *a, *b, *out = NULL;

		TRY(kiln_device_open_with(&device, "cuda", policies[p]));
		a = ones(device, 256);
		b = ones(device, 256);
		burst(device, OPS, a, b, &out, caller, whole);
		for (int r = 0; r < 3; r++)
			burst(device, OPS_MANY, a, b, &out, &caller[r],
			      &whole[r]);
		printf("| %s, %d in a row | %.3f, %.3f us |\n", policies[p],
		       OPS_MANY, median(caller, 3), median(whole, 3));
		kiln_tensor_release(a);
		kiln_tensor_release(b);
		kiln_tensor_release(out);
		kiln_device_release(device);
	}
}

/* ---- what CUDA's calls cost ---- */

static const char empty_ptx[] =
	".version 6.3\n.target sm_75\n.address_size 64\n"
	".visible .entry empty_8(.param .align 8 .b8 p[8]) { ret; }\n"
	".visible .entry empty_104(.param .align 8 .b8 p[104]) { ret; }\n"
	".visible .entry empty_424(.param .align 8 .b8 p[424]) { ret; }\n"
	".visible .entry empty_2048(.param .align 8 .b8 p[2048]) { ret; }\n";

static void *empty_kernel(const char *name)
{
	static void *module;
	void *function;

	if (!module)
		CU(cuModuleLoadData(&module, empty_ptx));
	CU(cuModuleGetFunction(&function, module, name));
	return function;
}

/* Behind every so many launches, what kiln does to mark them. */
struct marks {
	const char *name;
	int every;
	int write, record, push, timed;
};

static void raw_burst(void *function, const struct marks *m, int ops,
		      void *event, double *caller, double *whole)
{
	static char params[2048];
	int adds = function == raw.add || function == raw.add_short;
	void *arguments[1] = { adds ? (void *)&raw.params : params };
	unsigned blocks = adds ? raw_blocks() : 1;
	double begin = now_us();
	void *context;

	for (int i = 0; i < ops; i++) {
		if (m->push && i % m->every == 0)
			CU(cuCtxPushCurrent_v2(raw.context));
		CU(cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0,
				  raw.stream, arguments, NULL));
		if (i % m->every != m->every - 1)
			continue;
		if (m->write)
			CU(cuStreamWriteValue64_v2(raw.stream,
						   raw.word_address,
						   (uint64_t)i, 0));
		if (m->record)
			CU(cuEventRecord(event, raw.stream));
		if (m->push)
			CU(cuCtxPopCurrent_v2(&context));
	}
	*caller = (now_us() - begin) / ops;
	CU(cuStreamSynchronize(raw.stream));
	*whole = (now_us() - begin) / ops;
}

static void raw_row(const char *kernel, void *function, const struct marks *m,
		    int ops, int rounds)
{
	double caller[ROUNDS], whole[ROUNDS];
	void *event;

	CU(cuEventCreate(&event, m->timed ? 0 : 3));
	for (int r = -1; r < rounds; r++)
		raw_burst(function, m, ops, event, &caller[r < 0 ? 0 : r],
			  &whole[r < 0 ? 0 : r]);
	printf("| raw, %s, %s, %d in a row | %.3f, %.3f us |\n", kernel,
	       m->name, ops, median(caller, rounds), median(whole, rounds));
	CU(cuEventDestroy_v2(event));
}

/* A chain of such kernels as a graph: us for one, with the sync. */
static void raw_graph_row(const char *kernel, void *function)
{
	static char params[2048];
	int adds = function == raw.add || function == raw.add_short;
	void *arguments[1] = { adds ? (void *)&raw.params : params };
	struct node_params node = { .function = function,
				    .grid = { 1, 1, 1 },
				    .block = { BLOCK, 1, 1 },
				    .params = arguments };
	void *graph, *exec, *last = NULL, *next;
	double whole[51];

	CU(cuGraphCreate(&graph, 0));
	for (int i = 0; i < OPS; i++, last = next)
		CU(cuGraphAddKernelNode(&next, graph, last ? &last : NULL,
					last != NULL, &node));
	CU(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	for (int r = -1; r < 51; r++) {
		double begin = now_us();

		CU(cuGraphLaunch(exec, raw.stream));
		CU(cuStreamSynchronize(raw.stream));
		whole[r < 0 ? 0 : r] = (now_us() - begin) / OPS;
	}
	printf("| raw, %s, a graph of %d | %.3f us |\n", kernel, OPS,
	       median(whole, 51));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

#define BATCH 32
#define BATCHES 4

struct batch {
	void *graph, *exec, *node[BATCH];
};

static void make_batch(struct batch *batch, const struct node_params *node)
{
	CU(cuGraphCreate(&batch->graph, 0));
	for (int i = 0; i < BATCH; i++)
		CU(cuGraphAddKernelNode(&batch->node[i], batch->graph,
					i ? &batch->node[i - 1] : NULL, i != 0,
					node));
	CU(cuGraphInstantiate_v2(&batch->exec, batch->graph, NULL, NULL, 0));
}

static void drop_batch(struct batch *batch)
{
	CU(cuGraphExecDestroy(batch->exec));
	CU(cuGraphDestroy(batch->graph));
}

/* New parameters for every node, then its launch, some graphs in turn. */
static void raw_batch_row(void)
{
	void *arguments[1] = { &raw.params };
	struct node_params node = { .function = raw.add,
				    .grid = { raw_blocks(), 1, 1 },
				    .block = { BLOCK, 1, 1 },
				    .params = arguments };
	int ops = OPS / BATCH * BATCH;
	struct batch batch[BATCHES];
	double caller[51], whole[51];

	for (int i = 0; i < BATCHES; i++)
		make_batch(&batch[i], &node);
	for (int r = -1; r < 51; r++) {
		double begin = now_us();
		int k = r < 0 ? 0 : r;

		for (int i = 0; i < ops; i++) {
			struct batch *b = &batch[i / BATCH % BATCHES];

			CU(cuGraphExecKernelNodeSetParams(
				b->exec, b->node[i % BATCH], &node));
			if (i % BATCH == BATCH - 1)
				CU(cuGraphLaunch(b->exec, raw.stream));
		}
		caller[k] = (now_us() - begin) / ops;
		CU(cuStreamSynchronize(raw.stream));
		whole[k] = (now_us() - begin) / ops;
	}
	printf("| raw, add, graphs of %d with new parameters, %d in a row "
	       "| %.3f, %.3f us |\n", BATCH, ops, median(caller, 51),
	       median(whole, 51));
	for (int i = 0; i < BATCHES; i++)
		drop_batch(&batch[i]);
}

static void bench_raw(void)
{
	static const struct marks marks[] = {
		{ "no marks", OPS, 0, 0, 0, 0 },
		{ "context pushed and popped for each", 1, 0, 0, 1, 0 },
		{ "a write behind 8", 8, 1, 0, 0, 0 },
		{ "a record behind 8", 8, 0, 1, 0, 0 },
		{ "a timed record behind 8", 8, 0, 1, 0, 1 },
		{ "write and record behind 8", 8, 1, 1, 0, 0 },
		{ "all of that behind 8", 8, 1, 1, 1, 0 },
		{ "all of that behind 32", 32, 1, 1, 1, 0 },
		{ "all of that behind each", 1, 1, 1, 1, 0 },
	};
	static const char *const empty[] = { "empty_8", "empty_104",
					     "empty_424", "empty_2048" };

	raw_open(256);
	for (int i = 0; i < 4; i++) {
		raw_row(empty[i], empty_kernel(empty[i]), &marks[0], OPS, 51);
		raw_graph_row(empty[i], empty_kernel(empty[i]));
	}
	raw_graph_row("add", raw.add);
	raw_batch_row();
	if (raw.add_short) {
		raw_row("add, short block", raw.add_short, &marks[0], OPS, 51);
		raw_graph_row("add, short block", raw.add_short);
	}
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		raw_row("add", raw.add, &marks[i], OPS, 51);
	raw_row("add", raw.add, &marks[0], OPS_MANY, 3);
	raw_row("add", raw.add, &marks[6], OPS_MANY, 3);
	raw_close();
}

/* ---- graphs ---- */

static struct kiln_tensor *chain_x, *chain_y;

static enum kiln_status run_chain(struct kiln_device *device, void *user)
{
	enum kiln_status status = KILN_OK;

	(void)device;
	(void)user;
	for (int i = 0; i < OPS && !status; i++)
		status = kiln_add(&chain_x, chain_x, chain_y);
	return status;
}

static struct {
	void *graph, *exec, *node[OPS];
	struct node_params params;
	void *arguments[1];
} peer;

static void peer_make(void)
{
	double begin = now_us(), built;

	peer.arguments[0] = &raw.params;
	peer.params = (struct node_params){
		.function = raw.add,
		.grid = { raw_blocks(), 1, 1 },
		.block = { BLOCK, 1, 1 },
		.params = peer.arguments,
	};
	CU(cuGraphCreate(&peer.graph, 0));
	for (int i = 0; i < OPS; i++)
		CU(cuGraphAddKernelNode(&peer.node[i], peer.graph,
					i ? &peer.node[i - 1] : NULL, i != 0,
					&peer.params));
	built = now_us();
	CU(cuGraphInstantiate_v2(&peer.exec, peer.graph, NULL, NULL, 0));
	printf("| raw graph of %d: nodes, instantiation | %.0f, %.0f us |\n",
	       OPS, built - begin, now_us() - built);
}

static void peer_drop(void)
{
	CU(cuGraphExecDestroy(peer.exec));
	CU(cuGraphDestroy(peer.graph));
}

enum way {
	KILN_GRAPH,
	RAW_GRAPH,
	RAW_MARKED,
	RAW_SLEEPING,
	KILN_EAGER,
	RAW_EAGER,
	WAYS
};

static const char *const way_names[WAYS] = {
	"kiln's graph",
	"CUDA's graph",
	"CUDA's graph, write and record",
	"CUDA's graph, write and record, sync by the event",
	"kiln, eager",
	"CUDA's launches",
};

static void run_way(enum way way, struct kiln_device *device,
		    struct kiln_graph *graph, void *event)
{
	switch (way) {
	case KILN_GRAPH:
		TRY(kiln_graph_replay(graph));
		break;
	case RAW_GRAPH:
	case RAW_MARKED:
	case RAW_SLEEPING:
		CU(cuGraphLaunch(peer.exec, raw.stream));
		if (way == RAW_GRAPH)
			break;
		CU(cuStreamWriteValue64_v2(raw.stream, raw.word_address, 1,
					   0));
		CU(cuEventRecord(event, raw.stream));
		break;
	case KILN_EAGER:
		TRY(run_chain(device, NULL));
		break;
	default:
		for (int i = 0; i < OPS; i++)
			raw_add();
		break;
	}
}

static void time_way(enum way way, int repeats, struct kiln_device *device,
		     struct kiln_graph *graph, void *event, double *caller,
		     double *whole)
{
	double begin = now_us();

	for (int i = 0; i < repeats; i++)
		run_way(way, device, graph, event);
	*caller = (now_us() - begin) / repeats;
	if (way == KILN_GRAPH || way == KILN_EAGER)
		TRY(kiln_device_sync(device));
	else if (way == RAW_SLEEPING)
		CU(cuEventSynchronize(event));
	else
		CU(cuStreamSynchronize(raw.stream));
	*whole = (now_us() - begin) / repeats;
}

static void time_ways(int repeats, int rounds, struct kiln_device *device,
		      struct kiln_graph *graph)
{
	static double caller[WAYS][ROUNDS], whole[WAYS][ROUNDS];
	void *event;

	CU(cuEventCreate(&event, 3));
	for (int r = -1; r < rounds; r++)
		for (int w = 0; w < WAYS; w++)
			time_way((enum way)w, repeats, device, graph, event,
				 &caller[w][r < 0 ? 0 : r],
				 &whole[w][r < 0 ? 0 : r]);
	for (int w = 0; w < WAYS; w++)
		printf("| %d ops, %d times, then a sync: %s | %.2f, %.2f us "
		       "|\n",
		       OPS, repeats, way_names[w], median(caller[w], rounds),
		       median(whole[w], rounds));
	CU(cuEventDestroy_v2(event));
}

/* New parameters for one node of an instantiated graph. */
static void time_update(void)
{
	double begin = now_us();

	for (int i = 0; i < OPS; i++)
		CU(cuGraphExecKernelNodeSetParams(peer.exec, peer.node[i],
						  &peer.params));
	printf("| new parameters for a node | %.3f us |\n",
	       (now_us() - begin) / OPS);
}

static void bench_replay(void)
{
	struct kiln_device *device = NULL;
	struct kiln_graph *graph = NULL;

	TRY(kiln_device_open(&device, "cuda"));
	raw_open(64);
	chain_x = ones(device, 64);
	chain_y = ones(device, 64);
	TRY(kiln_graph_create(&graph, device, run_chain, NULL));
	printf("| kiln's graph: captured, operations | %d, %llu |\n",
	       kiln_graph_is_captured(graph),
	       (unsigned long long)kiln_graph_operations(graph));
	peer_make();
	time_update();
	time_ways(1, ROUNDS, device, graph);
	time_ways(20, 11, device, graph);
	time_update();
	peer_drop();
	kiln_graph_release(graph);
	kiln_tensor_clear(&chain_x);
	kiln_tensor_clear(&chain_y);
	raw_close();
	kiln_device_release(device);
}

/* ---- windows ---- */

static double kiln_window(struct kiln_device *device, struct kiln_tensor *a,
			  struct kiln_tensor *b, struct kiln_tensor **out,
			  int ops)
{
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window = NULL;
	uint64_t ns = 0;

	TRY(kiln_profile_start(&window, device));
	for (int i = 0; i < ops; i++)
		TRY(kiln_add(out, a, b));
	TRY(kiln_profile_end(&duration, window, NULL));
	TRY(kiln_duration_wait(duration, -1));
	if (kiln_duration_query(duration, &ns) != KILN_DURATION_MEASURED)
		fprintf(stderr, "graphs: a window without a time\n");
	kiln_duration_release(duration);
	return 1e-3 * (double)ns;
}

static double raw_window(void *const event[2], int ops)
{
	float ms = 0;

	CU(cuEventRecord(event[0], raw.stream));
	for (int i = 0; i < ops; i++)
		raw_add();
	CU(cuEventRecord(event[1], raw.stream));
	CU(cuStreamSynchronize(raw.stream));
	CU(cuEventElapsedTime(&ms, event[0], event[1]));
	return 1e3 * (double)ms;
}

static void bench_window(void)
{
	static const int64_t sizes[] = { 256, 1 << 20, 1 << 24 };
	struct kiln_device *device = NULL;
	double by_kiln[ROUNDS], by_raw[ROUNDS];
	void *event[2];

	TRY(kiln_device_open(&device, "cuda"));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct kiln_tensor *a = ones(device, sizes[i]);
		struct kiln_tensor *b = ones(device, sizes[i]), *out = NULL;

		raw_open(sizes[i]);
		raw.params.out = raw.z;
		CU(cuEventCreate(&event[0], 0));
		CU(cuEventCreate(&event[1], 0));
		for (int ops = 1; ops <= 4; ops += 3) {
			for (int r = -2; r < ROUNDS; r++) {
				int k = r < 0 ? 0 : r;

				by_kiln[k] = kiln_window(device, a, b, &out,
							 ops);
				by_raw[k] = raw_window(event, ops);
			}
			printf("| window, %lld elements, %d adds: kiln, CUDA "
			       "| %.2f, %.2f us |\n",
			       (long long)sizes[i], ops,
			       median(by_kiln, ROUNDS),
			       median(by_raw, ROUNDS));
		}
		CU(cuEventDestroy_v2(event[0]));
		CU(cuEventDestroy_v2(event[1]));
		raw_close();
		kiln_tensor_release(a);
		kiln_tensor_release(b);
		kiln_tensor_release(out);
	}
	kiln_device_release(device);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = { { "eager", bench_eager },
	      { "policy", bench_policy },
	      { "raw", bench_raw },
	      { "replay", bench_replay },
	      { "window", bench_window } };

int main(int argc, char **argv)
{
	size_t count = sizeof(parts) / sizeof(*parts);

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		fprintf(stderr, "usage: graphs ENTRY.ptx "
				"[eager|policy|raw|replay|window]...\n");
		return 2;
	}
	ptx_path = argv[1];
	find_calls();
	for (size_t i = 0; i < count; i++) {
		int wanted = argc < 3;

		for (int a = 2; a < argc; a++)
			wanted |= !strcmp(argv[a], parts[i].name);
		if (wanted)
			parts[i].run();
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}
