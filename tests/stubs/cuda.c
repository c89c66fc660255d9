/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU, for tests. Device memory is host memory and
 * kernels run through the CPU's kernels, so that results are right.
 *
 * KILN_STUB_CUDA sets it up, words of KEY=VALUE:
 *
 *   version=N     what cuDriverGetVersion tells (default 12040)
 *   devices=N     number of devices (1)
 *   memory=N      bytes of each (4 GiB)
 *   name=TEXT     name of each; "_" stands for a space
 *   pci=HEX       bus number of the first, the others follow (3b)
 *   function=N    function of each at its address (0)
 *   capability=N  10 * major + minor (90)
 *   threads=N     most threads of a block that a kernel takes (1024)
 *   writes=0      streams cannot write words
 *   vmm=0         no virtual memory
 *   uuid=same     all devices have one UUID
 *   slice=1       devices are slices: their second UUID differs
 *   graphs=0      no graphs: the call that makes one is not supported
 *   async=USEC    streams run on threads, each operation that much later
 *   fail=CALL:N:R the Nth call of that name (or of any, "*") gives result R;
 *                 a result that breaks a context is given for ever
 *
 * KILN_STUB_CUDA_CALLS names a file that is given the number of calls at exit,
 * KILN_STUB_CUDA_GRAPHS one that is given those of graphs: how many there are,
 * instances of them, nodes that were added, launches, new parameters.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/stubs/cuda.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls, failing_calls;
static int broken;

/* ---- settings ---- */

/* Value of a key, or fallback; the text ends at a space. */
static const char *setting(const char *key, const char *fallback)
{
	const char *at = getenv("KILN_STUB_CUDA");
	size_t n = strlen(key);

	while (at && *at) {
		if (!strncmp(at, key, n) && at[n] == '=')
			return at + n + 1;
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return fallback;
}

static long number(const char *key, const char *fallback, int base)
{
	return strtol(setting(key, fallback), NULL, base);
}

static int is_breaking(int result)
{
	return result == 214 || result == 999 ||
	       (result >= 700 && result < 720 && result != 701);
}

/*
 * For tests: the next call of that name does not get on until it is let go;
 * whether one is held.
 */
EXPORT void stub_cuda_hold(const char *call);
EXPORT int stub_cuda_holds(void);
EXPORT void stub_cuda_let_go(void);

static const char *to_hold;
static int holds;

void stub_cuda_hold(const char *call)
{
	__atomic_store_n(&to_hold, call, __ATOMIC_SEQ_CST);
}

int stub_cuda_holds(void)
{
	return __atomic_load_n(&holds, __ATOMIC_SEQ_CST);
}

void stub_cuda_let_go(void)
{
	__atomic_store_n(&to_hold, NULL, __ATOMIC_SEQ_CST);
	__atomic_store_n(&holds, 0, __ATOMIC_SEQ_CST);
}

static void hold_if_asked(const char *call)
{
	const char *name = __atomic_load_n(&to_hold, __ATOMIC_SEQ_CST);

	if (!name || strcmp(name, call) != 0 ||
	    !__atomic_compare_exchange_n(&to_hold, &name, NULL, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&holds, 1, __ATOMIC_SEQ_CST);
	while (stub_cuda_holds())
		usleep(100);
}

/* Counts the call; what it has to give in place of working. */
static int enter(const char *call)
{
	const char *fail = setting("fail", "");
	char name[64] = "";
	unsigned long nth = 0;
	int result = 0, give = 0;

	hold_if_asked(call);
	pthread_mutex_lock(&lock);
	calls++;
	give = broken;
	if (!give && sscanf(fail, "%63[^:]:%lu:%d", name, &nth, &result) == 3 &&
	    (!strcmp(name, "*") || !strcmp(name, call)) &&
	    ++failing_calls == nth)
		give = result;
	if (is_breaking(give))
		broken = give;
	pthread_mutex_unlock(&lock);
	return give;
}

static FILE *open_named(const char *variable)
{
	const char *path = getenv(variable);

	return path ? fopen(path, "w") : NULL;
}

__attribute__((destructor)) static void tell_calls(void)
{
	FILE *file = open_named("KILN_STUB_CUDA_CALLS");

	if (file) {
		fprintf(file, "%lu\n", calls);
		fclose(file);
	}
	file = open_named("KILN_STUB_CUDA_GRAPHS");
	if (file) {
		fprintf(file, "%lu %lu %lu %lu %lu\n", stub_graphs.graphs,
			stub_graphs.execs, stub_graphs.nodes,
			stub_graphs.launches, stub_graphs.sets);
		fclose(file);
	}
}

#define CALL(name, ...)                                                        \
	EXPORT int name(__VA_ARGS__);                                          \
	EXPORT int name(__VA_ARGS__)
#define ENTER()                                                                \
	do {                                                                   \
		int give_ = enter(__func__);                                   \
		if (give_)                                                     \
			return give_;                                          \
	} while (0)

/* ---- devices ---- */

CALL(cuInit, unsigned flags)
{
	(void)flags;
	ENTER();
	return 0;
}

CALL(cuDriverGetVersion, int *version)
{
	ENTER();
	*version = (int)number("version", "12040", 10);
	return 0;
}

CALL(cuDeviceGetCount, int *count)
{
	ENTER();
	*count = (int)number("devices", "1", 10);
	return *count ? 0 : 100;
}

CALL(cuDeviceGet, int *device, int ordinal)
{
	ENTER();
	if (ordinal < 0 || ordinal >= number("devices", "1", 10))
		return 101;
	*device = ordinal;
	return 0;
}

CALL(cuDeviceGetName, char *name, int bytes, int device)
{
	const char *text = setting("name", "Stub_Accelerator");
	int i = 0;

	(void)device;
	ENTER();
	for (; i < bytes - 1 && text[i] && text[i] != ' '; i++)
		name[i] = text[i] == '_' ? ' ' : text[i];
	name[i] = 0;
	return 0;
}

CALL(cuDeviceTotalMem_v2, size_t *bytes, int device)
{
	(void)device;
	ENTER();
	*bytes = (size_t)number("memory", "4294967296", 10);
	return 0;
}

CALL(cuDeviceGetAttribute, int *value, int attribute, int device)
{
	int capability = (int)number("capability", "90", 10);

	(void)device;
	ENTER();
	switch (attribute) {
	case 16:
		*value = 8;
		break;
	case 75:
		*value = capability / 10;
		break;
	case 76:
		*value = capability % 10;
		break;
	case 102:
		*value = number("vmm", "1", 10) != 0;
		break;
	case 122:
		*value = number("writes", "1", 10) != 0;
		break;
	default:
		*value = 0;
		break;
	}
	return 0;
}

/* In capitals, as the real one writes it. */
CALL(cuDeviceGetPCIBusId, char *address, int bytes, int device)
{
	ENTER();
	snprintf(address, (size_t)bytes, "0000:%02X:00.%ld",
		 (unsigned)number("pci", "3b", 16) + (unsigned)device,
		 number("function", "0", 10));
	return 0;
}

static void fill_uuid(unsigned char *uuid, int device)
{
	memset(uuid, 0x11, 16);
	if (strncmp(setting("uuid", ""), "same", 4) != 0)
		uuid[15] = (unsigned char)device;
}

CALL(cuDeviceGetUuid, unsigned char *uuid, int device)
{
	ENTER();
	fill_uuid(uuid, device);
	return 0;
}

CALL(cuDeviceGetUuid_v2, unsigned char *uuid, int device)
{
	ENTER();
	fill_uuid(uuid, device);
	if (number("slice", "0", 10))
		uuid[0] = 0x77;
	return 0;
}

/* ---- contexts: one a device; the pointers are never followed ---- */

#define STACK 16
static __thread void *stack[STACK];
static __thread int depth;

CALL(cuDevicePrimaryCtxRetain, void **context, int device)
{
	ENTER();
	*context = (void *)(uintptr_t)(0x1000 + device);
	return 0;
}

CALL(cuDevicePrimaryCtxRelease_v2, int device)
{
	(void)device;
	return enter(__func__);
}

CALL(cuCtxPushCurrent_v2, void *context)
{
	ENTER();
	if (depth == STACK)
		return 999;
	stack[depth++] = context;
	return 0;
}

CALL(cuCtxPopCurrent_v2, void **context)
{
	if (!depth)
		return 201;
	*context = stack[--depth];
	return 0;
}

CALL(cuCtxGetCurrent, void **context)
{
	*context = depth ? stack[depth - 1] : NULL;
	return 0;
}

/* What follows needs a current context. */
#define ENTER_CONTEXT()                                                        \
	do {                                                                   \
		ENTER();                                                       \
		if (!depth)                                                    \
			return 201;                                            \
	} while (0)

/* ---- memory ---- */

static uint64_t used;

static int take(uint64_t bytes)
{
	uint64_t total = (uint64_t)number("memory", "4294967296", 10);
	int fits;

	pthread_mutex_lock(&lock);
	fits = bytes <= total - used;
	if (fits)
		used += bytes;
	pthread_mutex_unlock(&lock);
	return fits;
}

static void give(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	used -= bytes;
	pthread_mutex_unlock(&lock);
}

#define HEAD 512

/* Of what was allocated singly: memory of device 0, and how much of it. */
static struct known {
	uint64_t address;
	size_t bytes;
} known[1024];

static struct known *find_known(uint64_t address)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (address - known[i].address < known[i].bytes)
			return &known[i];
	return NULL;
}

/* All of them are known under the lock; the table's end is the test's. */
static void know(uint64_t address, size_t bytes)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < sizeof(known) / sizeof(known[0]) && known[i].bytes)
		i++;
	if (i < sizeof(known) / sizeof(known[0]))
		known[i] = (struct known){ address, bytes };
	pthread_mutex_unlock(&lock);
}

static void forget(uint64_t address)
{
	struct known *k;

	pthread_mutex_lock(&lock);
	k = find_known(address);
	if (k)
		k->bytes = 0;
	pthread_mutex_unlock(&lock);
}

CALL(cuPointerGetAttribute, void *value, int attribute, uint64_t address)
{
	struct known k = { 0, 0 }, *found;

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	found = find_known(address);
	if (found)
		k = *found;
	pthread_mutex_unlock(&lock);
	if (!found)
		return 1;
	if (attribute == 2)
		*(unsigned *)value = 2;
	else if (attribute == 9)
		*(int *)value = 0;
	else if (attribute == 11)
		*(uint64_t *)value = k.address;
	else if (attribute == 12)
		*(size_t *)value = k.bytes;
	else
		return 1;
	return 0;
}

CALL(cuMemAlloc_v2, uint64_t *address, size_t bytes)
{
	char *memory;

	ENTER_CONTEXT();
	if (!take(bytes))
		return 2;
	memory = aligned_alloc(HEAD, (bytes + 2 * HEAD) & ~(size_t)(HEAD - 1));
	if (!memory) {
		give(bytes);
		return 2;
	}
	memcpy(memory, &bytes, sizeof(bytes));
	*address = (uintptr_t)memory + HEAD;
	know(*address, bytes);
	return 0;
}

CALL(cuMemFree_v2, uint64_t address)
{
	size_t bytes;

	ENTER_CONTEXT();
	memcpy(&bytes, (void *)(uintptr_t)(address - HEAD), sizeof(bytes));
	forget(address);
	give(bytes);
	free((void *)(uintptr_t)(address - HEAD));
	return 0;
}

CALL(cuMemHostAlloc, void **pointer, size_t bytes, unsigned flags)
{
	(void)flags;
	ENTER_CONTEXT();
	*pointer = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	return *pointer ? 0 : 2;
}

/* Ranges share no page, as with the real one. */
#define REGISTERED_MOST 64

/* For tests: bytes pinned now, and all that ever were. */
EXPORT size_t stub_cuda_pinned, stub_cuda_pinned_ever;

static struct {
	uintptr_t begin, end;
} registered[REGISTERED_MOST];

CALL(cuMemHostRegister_v2, void *pointer, size_t bytes, unsigned flags)
{
	uintptr_t begin = (uintptr_t)pointer & ~(uintptr_t)4095;
	uintptr_t end = ((uintptr_t)pointer + bytes + 4095) & ~(uintptr_t)4095;
	int free_slot = -1, result = 0;

	(void)flags;
	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < REGISTERED_MOST; i++) {
		if (!registered[i].end)
			free_slot = i;
		else if (begin < registered[i].end &&
			 end > registered[i].begin)
			result = 712; /* HOST_MEMORY_ALREADY_REGISTERED */
	}
	if (!result && free_slot < 0)
		result = 2;
	if (!result) {
		registered[free_slot].begin = begin;
		registered[free_slot].end = end;
		stub_cuda_pinned += bytes;
		stub_cuda_pinned_ever += bytes;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CALL(cuMemHostUnregister, void *pointer)
{
	uintptr_t begin = (uintptr_t)pointer & ~(uintptr_t)4095;
	int result = 713; /* HOST_MEMORY_NOT_REGISTERED */

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < REGISTERED_MOST; i++)
		if (registered[i].end && registered[i].begin == begin) {
			stub_cuda_pinned -= registered[i].end - begin;
			registered[i].end = 0;
			result = 0;
		}
	pthread_mutex_unlock(&lock);
	return result;
}

CALL(cuMemFreeHost, void *pointer)
{
	ENTER_CONTEXT();
	free(pointer);
	return 0;
}

CALL(cuMemHostGetDevicePointer_v2, uint64_t *address, void *pointer,
     unsigned flags)
{
	(void)flags;
	ENTER_CONTEXT();
	*address = (uintptr_t)pointer;
	return 0;
}

/* ---- streams and events ---- */

static void work_on(struct stub_stream *stream, struct stub_work *work)
{
	switch (work->kind) {
	case STUB_COPY:
		memmove(work->to, work->from, work->bytes);
		break;
	case STUB_WRITE:
		__atomic_store_n((uint64_t *)work->to, work->value,
				 __ATOMIC_RELEASE);
		break;
	case STUB_LAUNCH:
		stub_run_kernel(work->name, work->params);
		break;
	case STUB_GRAPH:
		stub_launch_run(work->to);
		stub_launch_drop(work->to);
		break;
	case STUB_RECORD:
		pthread_mutex_lock(&lock);
		work->event->time_ns = kilni_now_ns();
		__atomic_store_n(&work->event->done, work->value,
				 __ATOMIC_RELEASE);
		pthread_cond_broadcast(&stream->moved);
		pthread_mutex_unlock(&lock);
		break;
	case STUB_WAIT:
		while (__atomic_load_n(&work->event->done, __ATOMIC_ACQUIRE) <
		       work->value)
			usleep(20);
		break;
	}
}

static void *serve(void *arg)
{
	struct stub_stream *stream = arg;
	struct stub_work *work;
	unsigned delay = (unsigned)number("async", "0", 10);

	for (;;) {
		pthread_mutex_lock(&lock);
		while (!stream->first && !stream->stop)
			pthread_cond_wait(&stream->wanted, &lock);
		work = stream->first;
		pthread_mutex_unlock(&lock);
		if (!work)
			return NULL;
		if (delay > 1)
			usleep(delay);
		work_on(stream, work);
		pthread_mutex_lock(&lock);
		stream->first = work->next;
		if (!stream->first)
			stream->last = &stream->first;
		pthread_cond_broadcast(&stream->moved);
		pthread_mutex_unlock(&lock);
		free(work->params);
		free(work);
	}
}

/* Runs the work now, or leaves it to the stream's thread. */
static int put(struct stub_stream *stream, const struct stub_work *work)
{
	struct stub_work *copy;

	if (!stream->threaded) {
		work_on(stream, (struct stub_work *)(uintptr_t)work);
		free(work->params);
		return 0;
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return 2;
	*copy = *work;
	copy->next = NULL;
	pthread_mutex_lock(&lock);
	*stream->last = copy;
	stream->last = &copy->next;
	pthread_cond_signal(&stream->wanted);
	pthread_mutex_unlock(&lock);
	return 0;
}

CALL(cuStreamCreate, struct stub_stream **out, unsigned flags)
{
	struct stub_stream *stream;

	(void)flags;
	ENTER_CONTEXT();
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return 2;
	stream->last = &stream->first;
	pthread_cond_init(&stream->wanted, NULL);
	pthread_cond_init(&stream->moved, NULL);
	stream->threaded = number("async", "0", 10) > 0;
	if (stream->threaded &&
	    pthread_create(&stream->thread, NULL, serve, stream) != 0) {
		free(stream);
		return 2;
	}
	*out = stream;
	return 0;
}

CALL(cuStreamCreateWithPriority, struct stub_stream **out, unsigned flags,
     int priority)
{
	/* As the range below; the real one takes what is outside too. */
	return priority < -2 || priority > 0 ? 1 : cuStreamCreate(out, flags);
}

CALL(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
	ENTER_CONTEXT();
	*least = 0;
	*greatest = -2;
	return 0;
}

static void drain(struct stub_stream *stream)
{
	pthread_mutex_lock(&lock);
	while (stream->first)
		pthread_cond_wait(&stream->moved, &lock);
	pthread_mutex_unlock(&lock);
}

/* Always, so that no test leaks through a fault that it asked for. */
CALL(cuStreamDestroy_v2, struct stub_stream *stream)
{
	int result = enter(__func__);

	if (stream->threaded) {
		drain(stream);
		pthread_mutex_lock(&lock);
		stream->stop = 1;
		pthread_cond_signal(&stream->wanted);
		pthread_mutex_unlock(&lock);
		pthread_join(stream->thread, NULL);
	}
	pthread_cond_destroy(&stream->wanted);
	pthread_cond_destroy(&stream->moved);
	free(stream);
	return result;
}

CALL(cuStreamSynchronize, struct stub_stream *stream)
{
	ENTER_CONTEXT();
	drain(stream);
	return 0;
}

CALL(cuStreamWriteValue64_v2, struct stub_stream *stream, uint64_t address,
     uint64_t value, unsigned flags)
{
	struct stub_work work = { .kind = STUB_WRITE, .value = value };

	(void)flags;
	ENTER_CONTEXT();
	work.to = (void *)(uintptr_t)address;
	return put(stream, &work);
}

CALL(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes,
     struct stub_stream *stream)
{
	struct stub_work work = { .kind = STUB_COPY, .from = from,
				  .bytes = bytes };

	ENTER_CONTEXT();
	work.to = (void *)(uintptr_t)to;
	return put(stream, &work);
}

CALL(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes,
     struct stub_stream *stream)
{
	struct stub_work work = { .kind = STUB_COPY, .to = to,
				  .bytes = bytes };

	ENTER_CONTEXT();
	work.from = (const void *)(uintptr_t)from;
	return put(stream, &work);
}

CALL(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes,
     struct stub_stream *stream)
{
	struct stub_work work = { .kind = STUB_COPY, .bytes = bytes };

	ENTER_CONTEXT();
	work.to = (void *)(uintptr_t)to;
	work.from = (const void *)(uintptr_t)from;
	return put(stream, &work);
}

CALL(cuEventCreate, struct stub_event **out, unsigned flags)
{
	ENTER_CONTEXT();
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return 2;
	(*out)->timed = !(flags & 2);
	return 0;
}

CALL(cuEventDestroy_v2, struct stub_event *event)
{
	int result = enter(__func__);

	free(event);
	return result;
}

CALL(cuEventRecord, struct stub_event *event, struct stub_stream *stream)
{
	struct stub_work work = { .kind = STUB_RECORD, .event = event };

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	work.value = ++event->recorded;
	event->stream = stream;
	pthread_mutex_unlock(&lock);
	return put(stream, &work);
}

CALL(cuEventQuery, struct stub_event *event)
{
	int done;

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	done = event->done >= event->recorded;
	pthread_mutex_unlock(&lock);
	return done ? 0 : 600;
}

/* Both have times and have been reached, else it is refused. */
CALL(cuEventElapsedTime, float *ms, struct stub_event *begin,
     struct stub_event *end)
{
	int result = 0;

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	if (!begin->timed || !end->timed || !begin->recorded || !end->recorded)
		result = 400;
	else if (begin->done < begin->recorded || end->done < end->recorded)
		result = 600;
	else
		*ms = (float)((double)(int64_t)(end->time_ns -
						begin->time_ns) / 1e6);
	pthread_mutex_unlock(&lock);
	return result;
}

CALL(cuEventSynchronize, struct stub_event *event)
{
	uint64_t recorded;

	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	recorded = event->recorded;
	while (event->done < recorded)
		pthread_cond_wait(&event->stream->moved, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

CALL(cuStreamWaitEvent, struct stub_stream *stream, struct stub_event *event,
     unsigned flags)
{
	struct stub_work work = { .kind = STUB_WAIT, .event = event };

	(void)flags;
	ENTER_CONTEXT();
	pthread_mutex_lock(&lock);
	work.value = event->recorded;
	pthread_mutex_unlock(&lock);
	return put(stream, &work);
}

/* ---- modules and kernels ---- */

CALL(cuModuleLoadData, struct stub_module **module, const void *image)
{
	ENTER_CONTEXT();
	return stub_module_load(module, image,
				(unsigned)number("capability", "90", 10));
}

CALL(cuModuleUnload, struct stub_module *module)
{
	stub_module_unload(module);
	return enter(__func__);
}

/* A function is its name, which its module owns. */
CALL(cuModuleGetFunction, const char **function, struct stub_module *module,
     const char *name)
{
	ENTER_CONTEXT();
	*function = stub_module_function(module, name);
	return *function ? 0 : 500;
}

CALL(cuFuncGetAttribute, int *value, int attribute, void *function)
{
	(void)function;
	ENTER_CONTEXT();
	if (attribute != 0)
		return 1;
	*value = (int)number("threads", "1024", 10);
	return 0;
}

int stub_check_kernel(const struct stub_kernel *k)
{
	const unsigned *grid = k->grid, *block = k->block;

	return grid[0] && grid[1] && grid[2] && grid[0] <= 0x7fffffff &&
	       grid[1] <= 65535 && grid[2] <= 65535 &&
	       block[0] * block[1] * block[2] <= 1024;
}

CALL(cuLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz,
     unsigned bx, unsigned by, unsigned bz, unsigned shared,
     struct stub_stream *stream, void **params, void **extra)
{
	const struct stub_kernel kernel = { .grid = { gx, gy, gz },
					    .block = { bx, by, bz } };
	struct stub_work work = { .kind = STUB_LAUNCH };

	(void)shared;
	(void)extra;
	ENTER_CONTEXT();
	if (!stub_check_kernel(&kernel))
		return 1;
	snprintf(work.name, sizeof(work.name), "%s", (const char *)function);
	work.params = stub_copy_params(work.name, params[0]);
	return work.params ? put(stream, &work) : 2;
}

/* ---- graphs: graph.c ---- */

CALL(cuGraphCreate, struct stub_graph **graph, unsigned flags)
{
	ENTER();
	if (flags)
		return 1;
	return number("graphs", "1", 10) ? stub_graph_create(graph) : 801;
}

/* Always, so that no test leaks through a fault that it asked for. */
CALL(cuGraphDestroy, struct stub_graph *graph)
{
	int result = enter(__func__);

	stub_graph_destroy(graph);
	return result;
}

CALL(cuGraphAddKernelNode, struct stub_node **node, struct stub_graph *graph,
     struct stub_node *const *after, size_t count,
     const struct stub_kernel *kernel)
{
	ENTER_CONTEXT();
	return stub_graph_add(node, graph, after, count, kernel);
}

CALL(cuGraphInstantiate_v2, struct stub_exec **exec, struct stub_graph *graph,
     struct stub_node **node, char *log, size_t bytes)
{
	(void)node;
	(void)log;
	(void)bytes;
	ENTER_CONTEXT();
	return stub_graph_instantiate(exec, graph);
}

CALL(cuGraphExecDestroy, struct stub_exec *exec)
{
	int result = enter(__func__);

	stub_exec_destroy(exec);
	return result;
}

CALL(cuGraphExecKernelNodeSetParams, struct stub_exec *exec,
     struct stub_node *node, const struct stub_kernel *kernel)
{
	ENTER_CONTEXT();
	return stub_exec_set(exec, node, kernel);
}

CALL(cuGraphLaunch, struct stub_exec *exec, struct stub_stream *stream)
{
	struct stub_work work = { .kind = STUB_GRAPH };

	ENTER_CONTEXT();
	work.to = stub_exec_launch(exec);
	return work.to ? put(stream, &work) : 2;
}

/* ---- virtual memory: an object is memory, mapping copies nothing ---- */

CALL(cuMemGetAllocationGranularity, size_t *bytes, const void *properties,
     int option)
{
	(void)properties;
	(void)option;
	ENTER();
	*bytes = (size_t)2 << 20;
	return 0;
}

CALL(cuMemAddressReserve, uint64_t *address, size_t bytes, size_t alignment,
     uint64_t wish, uint64_t flags)
{
	(void)alignment;
	(void)wish;
	(void)flags;
	ENTER_CONTEXT();
	*address = stub_reserve(bytes);
	return *address ? 0 : 2;
}

CALL(cuMemAddressFree, uint64_t address, size_t bytes)
{
	ENTER_CONTEXT();
	stub_unreserve(address, bytes);
	return 0;
}

CALL(cuMemCreate, uint64_t *handle, size_t bytes, const void *properties,
     uint64_t flags)
{
	(void)properties;
	(void)flags;
	ENTER_CONTEXT();
	if (!take(bytes))
		return 2;
	*handle = bytes;
	return 0;
}

CALL(cuMemRelease, uint64_t handle)
{
	ENTER_CONTEXT();
	give(handle);
	return 0;
}

CALL(cuMemMap, uint64_t address, size_t bytes, size_t offset, uint64_t handle,
     uint64_t flags)
{
	(void)offset;
	(void)handle;
	(void)flags;
	ENTER_CONTEXT();
	return stub_map(address, bytes) ? 0 : 205;
}

CALL(cuMemUnmap, uint64_t address, size_t bytes)
{
	ENTER_CONTEXT();
	stub_unmap(address, bytes);
	return 0;
}

CALL(cuMemSetAccess, uint64_t address, size_t bytes, const void *access,
     size_t count)
{
	(void)address;
	(void)bytes;
	(void)access;
	(void)count;
	ENTER_CONTEXT();
	return 0;
}
