/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * The storages of a graph, from its preparation to its release. Those that were
 * made for it are used again when their tensors are gone: the graph holds them,
 * so that their memory is not given back. Under the recorder's lock until the
 * recorder is gone; then nothing changes any more.
 */
struct window {
	int refs;                    /* the recorder, the graph */
	uint64_t id;                 /* never used twice */
	struct kiln_device *device;
	struct held {
		struct kilni_storage *storage;
		bool own;            /* may be used again */
	} *held;
	unsigned count, capacity;
};

struct kiln_graph {
	struct kilni_object object;
	struct kiln_device *device;
	struct kilni_stream *stream; /* held */
	struct kilni_graph *graph;   /* NULL: a fallback */
	struct window *window;
	kiln_graph_function function;
	void *user;
	char fallback[256];
};

_Static_assert(offsetof(struct kiln_graph, object) == 0, "object first");

const struct kilni_object_ops kilni_graph_kind = { "graph" };

/* ---- the window ---- */

static uint64_t windows; /* atomic: so many there have been */

static enum kiln_status new_window(struct window **out,
				   struct kiln_device *device)
{
	struct window *window = calloc(1, sizeof(*window));

	if (!window)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a graph");
	window->refs = 1;
	window->id = __atomic_add_fetch(&windows, 1, __ATOMIC_RELAXED);
	window->device = kiln_device_retain(device);
	*out = window;
	return KILN_OK;
}

static void drop_window(struct window *window)
{
	struct kiln_device *device = window->device;

	if (__atomic_sub_fetch(&window->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (unsigned i = 0; i < window->count; i++)
		kilni_storage_drop(window->held[i].storage);
	free(window->held);
	free(window);
	kiln_device_release(device);
}

static void window_closed(void *context)
{
	drop_window(context);
}

/* Takes a hold. */
static enum kiln_status hold(struct window *window,
			     struct kilni_storage *storage, bool own)
{
	unsigned capacity = window->capacity ? window->capacity * 2 : 64;
	struct held *grown;

	if (window->count == window->capacity) {
		grown = realloc(window->held, capacity * sizeof(*grown));
		if (!grown)
			return kilni_fail(KILN_ERR_NO_MEMORY, 0,
					  "graph: no memory for %u tensors",
					  capacity);
		window->held = grown;
		window->capacity = capacity;
	}
	__atomic_add_fetch(&storage->holds, 1, __ATOMIC_RELAXED);
	window->held[window->count++] = (struct held){ storage, own };
	return KILN_OK;
}

static struct kilni_storage *storage_of(struct kilni_track *track)
{
	return (struct kilni_storage *)(void *)((char *)track -
						offsetof(struct kilni_storage,
							 track));
}

/* What is in it is what every replay finds there: it is not used again. */
static void keep(struct window *window, const struct kilni_storage *storage)
{
	for (unsigned i = 0; i < window->count; i++)
		if (window->held[i].storage == storage)
			window->held[i].own = false;
}

static enum kiln_status hold_track(void *context, struct kilni_track *track,
				   bool *fresh)
{
	struct kilni_storage *storage = storage_of(track);
	struct window *window = context;
	bool in_window = storage->window == window->id;

	*fresh = in_window && storage->fresh;
	if (!in_window)
		return hold(window, storage, false);
	if (!*fresh)
		keep(window, storage);
	return KILN_OK;
}

static const struct kilni_recorder_client window_client = {
	.hold = hold_track,
	.closed = window_closed,
};

/* ---- memory of the graph ---- */

struct request {
	struct kilni_storage *storage;
	uint64_t bytes;
	bool persistent;
	enum kiln_status status;
};

static bool is_active(enum kilni_recorder_state state)
{
	return state == KILNI_RECORDER_WATCHING ||
	       state == KILNI_RECORDER_CAPTURING;
}

/* Nobody but the window holds it: all its tensors are gone. */
static bool is_idle(const struct held *held)
{
	return held->own &&
	       !__atomic_load_n(&held->storage->refs, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&held->storage->holds, __ATOMIC_ACQUIRE) == 1;
}

/* Little is wasted, so that a warm-up and a capture come to the same. */
static bool fits(const struct kilni_storage *storage, uint64_t bytes)
{
	uint64_t most = bytes + bytes / 8 + 255;

	return storage->slice.bytes >= bytes && storage->slice.bytes <= most;
}

static struct kilni_storage *find_idle(const struct window *window,
				       uint64_t bytes)
{
	struct kilni_storage *best = NULL;

	for (unsigned i = 0; i < window->count; i++) {
		const struct held *held = &window->held[i];

		if (!is_idle(held) || !fits(held->storage, bytes))
			continue;
		if (!best || held->storage->slice.bytes < best->slice.bytes)
			best = held->storage;
	}
	return best;
}

static void take_idle(void *context, enum kilni_recorder_state state, void *arg)
{
	struct request *request = arg;
	struct kilni_storage *storage;

	if (!is_active(state) || request->persistent)
		return;
	storage = find_idle(context, request->bytes);
	if (!storage)
		return;
	storage->bytes = request->bytes;
	storage->fresh = state == KILNI_RECORDER_CAPTURING;
	storage->track.writer = (struct kilni_use){ NULL, 0 };
	storage->track.op = KILNI_OP_NONE;
	storage->track.unrun = false;
	__atomic_store_n(&storage->holds, 2, __ATOMIC_RELAXED);
	__atomic_store_n(&storage->refs, 1, __ATOMIC_RELEASE);
	request->storage = storage;
}

struct kilni_storage *kilni_window_take(struct kilni_stream *stream,
					uint64_t bytes, bool persistent)
{
	struct request request = { .bytes = bytes, .persistent = persistent };

	(void)kilni_recorder_with(stream, take_idle, &request);
	return request.storage;
}

static void add_new(void *context, enum kilni_recorder_state state, void *arg)
{
	struct request *request = arg;
	struct window *window = context;

	if (!is_active(state))
		return;
	request->status = hold(window, request->storage, !request->persistent);
	if (request->status == KILN_OK)
		request->storage->window = window->id;
	request->storage->fresh = state == KILNI_RECORDER_CAPTURING;
}

enum kiln_status kilni_window_add(struct kilni_stream *stream,
				  struct kilni_storage *storage,
				  bool persistent)
{
	struct request request = { .storage = storage,
				   .persistent = persistent,
				   .status = KILN_OK };

	(void)kilni_recorder_with(stream, add_new, &request);
	return request.status;
}

/* ---- what a capture refuses ---- */

enum kiln_status kilni_window_refuse_on(const char *fn,
					const struct kilni_stream *stream)
{
	if (kilni_recorder_state(stream) != KILNI_RECORDER_CAPTURING)
		return KILN_OK;
	return kilni_fail(KILN_ERR_CAPTURE, 0,
			  "%s: not while the stream is captured", fn);
}

enum kiln_status kilni_window_refuse(const char *fn,
				     const struct kiln_device *device)
{
	struct kilni_stream *stream;

	if (!kilni_recorders_open())
		return KILN_OK;
	stream = kilni_thread_peek(device);
	return stream ? kilni_window_refuse_on(fn, stream) : KILN_OK;
}

enum kiln_status kilni_window_refuse_read(const char *fn,
					  const struct kiln_tensor *tensor)
{
	uint32_t op;

	if (!kilni_recorders_open() ||
	    kilni_window_refuse(fn, tensor->device) == KILN_OK)
		return KILN_OK;
	op = __atomic_load_n(&tensor->storage->track.op, __ATOMIC_RELAXED);
	if (op == KILNI_OP_NONE)
		return kilni_fail(KILN_ERR_CAPTURE, 0,
				  "%s: not while the stream is captured", fn);
	return kilni_fail(KILN_ERR_CAPTURE, 0,
			  "%s: the result of %s%s, not while the stream is "
			  "captured",
			  fn, kilni_op_prefix(op), kilni_op_name(op));
}

/* ---- prepare, start, stop ---- */

static enum kiln_status check_supported(const char *fn)
{
	uint64_t wanted = 1;

	KILNI_TRY(kilni_option_number(KILNI_OPT_GRAPHS, &wanted));
	if (wanted)
		return KILN_OK;
	return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
			  "%s: KILN_GRAPHS is 0", fn);
}

static enum kiln_status prepare(struct kiln_device *device,
				struct kilni_stream *stream)
{
	struct window *window;
	enum kiln_status status;

	/* What is left of a capture that failed goes. */
	if (kilni_recorder_state(stream) == KILNI_RECORDER_BROKEN)
		kilni_recorder_close(stream);
	KILNI_TRY(new_window(&window, device));
	status = kilni_recorder_open(stream, &window_client, window);
	if (status != KILN_OK)
		drop_window(window);
	return status;
}

enum kiln_status kiln_graph_prepare(struct kiln_device *device)
{
	struct kilni_stream *stream;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(check_supported(__func__));
	KILNI_TRY(kilni_thread_stream(device, &stream));
	return prepare(device, stream);
}

enum kiln_status kiln_graph_start_capture(struct kiln_device *device)
{
	struct kilni_stream *stream;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(check_supported(__func__));
	KILNI_TRY(kilni_thread_stream(device, &stream));
	return kilni_recorder_start(stream);
}

void kiln_graph_abandon(struct kiln_device *device)
{
	struct kilni_stream *stream;

	/* What a child of fork has inherited may be locked for ever. */
	if (!kilni_device_is_own(device) || !kilni_recorders_open())
		return;
	stream = kilni_thread_peek(device);
	if (stream)
		kilni_recorder_close(stream);
}

enum kiln_graph_state kiln_graph_state(const struct kiln_device *device)
{
	static const enum kiln_graph_state states[] = {
		[KILNI_RECORDER_NONE] = KILN_GRAPH_NONE,
		[KILNI_RECORDER_WATCHING] = KILN_GRAPH_PREPARED,
		[KILNI_RECORDER_CAPTURING] = KILN_GRAPH_CAPTURING,
		[KILNI_RECORDER_BROKEN] = KILN_GRAPH_BROKEN,
	};
	struct kilni_stream *stream;

	if (!kilni_device_is_own(device))
		return KILN_GRAPH_NONE;
	stream = kilni_thread_peek(device);
	return stream ? states[kilni_recorder_state(stream)] : KILN_GRAPH_NONE;
}

static enum kiln_status new_graph(struct kiln_graph **out,
				  struct kiln_device *device,
				  struct kilni_stream *stream)
{
	struct kiln_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a graph");
	kilni_object_init(&graph->object, &kilni_graph_kind);
	graph->device = kiln_device_retain(device);
	graph->stream = stream;
	kilni_stream_hold(stream);
	*out = graph;
	return KILN_OK;
}

static void share_window(void *context, enum kilni_recorder_state state,
			 void *arg)
{
	struct window *window = context, **out = arg;

	if (state != KILNI_RECORDER_CAPTURING)
		return;
	__atomic_add_fetch(&window->refs, 1, __ATOMIC_RELAXED);
	*out = window;
}

static enum kiln_status stop(struct kiln_graph **out,
			     struct kiln_device *device,
			     struct kilni_stream *stream)
{
	struct kiln_graph *graph;
	enum kiln_status status;

	status = new_graph(&graph, device, stream);
	if (status != KILN_OK) {
		kilni_recorder_close(stream);
		return status;
	}
	(void)kilni_recorder_with(stream, share_window, &graph->window);
	status = kilni_recorder_stop(stream, &graph->graph);
	if (status != KILN_OK)
		kiln_graph_release(graph);
	else
		*out = graph;
	return status;
}

static void assign(struct kiln_graph **out, struct kiln_graph *graph)
{
	struct kiln_graph *old = *out;

	*out = graph;
	kiln_graph_release(old);
}

static enum kiln_status check_place(struct kiln_graph *const *out,
				    const struct kiln_device *device,
				    const char *fn)
{
	KILNI_CHECK_DEVICE(device, fn);
	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL", fn);
	if (*out)
		return kilni_object_check(*out, &kilni_graph_kind, fn, "*out");
	return KILN_OK;
}

enum kiln_status kiln_graph_stop_capture(struct kiln_graph **out,
					 struct kiln_device *device)
{
	struct kilni_stream *stream;
	struct kiln_graph *graph;
	enum kilni_recorder_state state;

	KILNI_TRY(check_place(out, device, __func__));
	KILNI_TRY(kilni_thread_stream(device, &stream));
	state = kilni_recorder_state(stream);
	if (state != KILNI_RECORDER_CAPTURING &&
	    state != KILNI_RECORDER_BROKEN)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: no capture has begun on the calling "
				  "thread's stream",
				  __func__);
	KILNI_TRY(stop(&graph, device, stream));
	assign(out, graph);
	return KILN_OK;
}

/* ---- all of it, or the fallback ---- */

/* Calls the function in a capture. */
static enum kiln_status capture(struct kiln_graph **out,
				struct kiln_device *device,
				struct kilni_stream *stream,
				kiln_graph_function function, void *user)
{
	enum kiln_status status = kiln_graph_start_capture(device);

	if (status == KILN_OK)
		status = function(device, user);
	if (status == KILN_OK)
		return stop(out, device, stream);
	kilni_recorder_close(stream);
	return status;
}

/* A graph that calls the function, and why; the error record is put back. */
static enum kiln_status fall_back(struct kiln_graph **out,
				  struct kiln_device *device,
				  struct kilni_stream *stream,
				  const struct kilni_error_record *why,
				  const struct kilni_error_record *before)
{
	KILNI_TRY(new_graph(out, device, stream));
	kilni_utf8_copy((*out)->fallback, sizeof((*out)->fallback),
			why->message);
	kilni_log(KILNI_LOG_INFO, "graph: falls back: %s", (*out)->fallback);
	kilni_error_restore(before);
	return KILN_OK;
}

static enum kiln_status make(struct kiln_graph **out,
			     struct kiln_device *device,
			     struct kilni_stream *stream,
			     kiln_graph_function function, void *user)
{
	struct kilni_error_record before, why;
	enum kiln_status prepared, status;

	kilni_error_save(&before);
	prepared = kiln_graph_prepare(device);
	if (prepared != KILN_OK && prepared != KILN_ERR_UNSUPPORTED)
		return prepared;
	/* Before the function can put another reason there. */
	kilni_error_save(&why);
	status = function(device, user);
	if (status != KILN_OK) {
		if (prepared == KILN_OK)
			kilni_recorder_close(stream);
		return status;
	}
	if (prepared == KILN_OK) {
		status = capture(out, device, stream, function, user);
		if (status == KILN_OK)
			return KILN_OK;
		kilni_error_save(&why);
	}
	/* What runs no more is no fallback. */
	KILNI_TRY(kilni_stream_usable(stream));
	return fall_back(out, device, stream, &why, &before);
}

enum kiln_status kiln_graph_create(struct kiln_graph **out,
				   struct kiln_device *device,
				   kiln_graph_function function, void *user)
{
	struct kilni_stream *stream;
	struct kiln_graph *graph;

	KILNI_TRY(check_place(out, device, __func__));
	if (!function)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: function is NULL",
				  __func__);
	KILNI_TRY(kilni_thread_stream(device, &stream));
	KILNI_TRY(make(&graph, device, stream, function, user));
	graph->function = function;
	graph->user = user;
	assign(out, graph);
	return KILN_OK;
}

bool kiln_graph_is_captured(const struct kiln_graph *graph)
{
	return graph->graph;
}

const char *kiln_graph_fallback(const struct kiln_graph *graph)
{
	return graph->fallback;
}

uint64_t kiln_graph_operations(const struct kiln_graph *graph)
{
	return graph->graph ? kilni_graph_size(graph->graph) : 0;
}

/* ---- replay and release ---- */

enum kiln_status kiln_graph_replay(struct kiln_graph *graph)
{
	uint64_t blocks, seed = 0, counter = 0;

	KILNI_TRY(kilni_object_check(graph, &kilni_graph_kind, __func__,
				     "graph"));
	KILNI_TRY(kilni_window_refuse(__func__, graph->device));
	if (!graph->graph)
		return graph->function(graph->device, graph->user);
	blocks = kilni_graph_random_blocks(graph->graph);
	if (blocks)
		kilni_device_random(graph->device, blocks, &seed, &counter);
	kilni_plan_work();
	return kilni_graph_submit(graph->graph, seed, counter);
}

struct kiln_graph *kiln_graph_retain(struct kiln_graph *graph)
{
	kilni_object_retain(&graph->object);
	return graph;
}

void kiln_graph_release(struct kiln_graph *graph)
{
	struct kiln_device *device;

	if (!graph || !kilni_object_drop(&graph->object))
		return;
	device = graph->device;
	graph->object.ops = NULL;
	if (graph->graph)
		kilni_graph_drop(graph->graph);
	if (graph->window)
		drop_window(graph->window);
	kilni_stream_return(graph->stream);
	free(graph);
	kiln_device_release(device);
}
