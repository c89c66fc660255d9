/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/tool.h"

/* Requests that are read ahead, so that reading them is not timed. */
#define BATCH 4096
#define PROGRESS_NS 100000000

/* A replay in progress. */
struct replay {
	const struct replay_order *order;
	struct trace *trace;
	struct kiln_device *device;
	struct kiln_stream *stream[TRACE_STREAMS_MAX]; /* [0]: the thread's */
	struct kiln_buffer **buffer;  /* by slot */
	uint32_t slots;
	uint64_t allocations, frees, nanoseconds;
	uint64_t shown_ns;
	uint64_t taken;               /* requests from the tape */
	uint32_t batch_count;
	struct trace_request batch[BATCH];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool has_tape(const struct replay *replay)
{
	return replay->order->tape && replay->order->tape->whole;
}

static const struct trace_header *header_of(const struct replay *replay)
{
	return has_tape(replay) ? &replay->order->tape->header
				: trace_header(replay->trace);
}

/* ---- progress ---- */

static void show_progress(struct replay *replay)
{
	const struct trace_header *header = header_of(replay);
	uint64_t done = replay->allocations + replay->frees;
	uint64_t all = header->allocations + header->frees;
	uint64_t now;

	if (!replay->order->progress)
		return;
	now = now_ns();
	if (now - replay->shown_ns < PROGRESS_NS)
		return;
	replay->shown_ns = now;
	if (all)
		fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " requests, %d %% ",
			done, all, (int)(100 * (double)done / (double)all));
	else
		fprintf(stderr, "\r%" PRIu64 " requests ", done);
}

static void hide_progress(const struct replay *replay)
{
	if (replay->order->progress && replay->shown_ns)
		fprintf(stderr, "\r%60s\r", "");
}

/* ---- start and end ---- */

static enum kiln_status set_pages(const struct replay *replay)
{
	struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;

	layout.pages = replay->order->pages;
	if (layout.pages == KILN_PAGES_DEFAULT)
		return KILN_OK;
	return kiln_memory_set_layout(replay->device, &layout);
}

static int start(struct replay **out, const struct replay_order *order)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	enum kiln_status status;

	*out = replay;
	if (!replay) {
		tool_complain("replay: no memory");
		return EXIT_FAILURE;
	}
	replay->order = order;
	if (!has_tape(replay)) {
		replay->trace = trace_open(order->path);
		if (trace_failed(replay->trace)) {
			tool_complain("replay: %s",
				      trace_error(replay->trace));
			return EXIT_FAILURE;
		}
	}
	status = kiln_device_open(&replay->device, order->device);
	if (!status)
		status = set_pages(replay);
	return status ? tool_error(status) : EXIT_SUCCESS;
}

static void end(struct replay *replay)
{
	if (!replay)
		return;
	for (uint32_t i = 0; i < replay->slots; i++)
		kiln_buffer_release(replay->buffer[i]);
	for (uint32_t i = 0; i < TRACE_STREAMS_MAX; i++)
		kiln_stream_release(replay->stream[i]);
	kiln_device_release(replay->device);
	trace_close(replay->trace);
	free(replay->buffer);
	free(replay);
}

/* ---- requests ---- */

static bool make_slots(struct replay *replay, uint32_t most)
{
	uint32_t slots = replay->slots ? replay->slots : BATCH;
	struct kiln_buffer **grown;

	if (most < replay->slots)
		return true;
	while (slots <= most)
		slots *= 2;
	grown = realloc(replay->buffer, slots * sizeof(*grown));
	if (!grown) {
		tool_complain("replay: no memory for %" PRIu32 " buffers",
			      slots);
		return false;
	}
	memset(grown + replay->slots, 0,
	       (slots - replay->slots) * sizeof(*grown));
	replay->buffer = grown;
	replay->slots = slots;
	return true;
}

static bool make_stream(struct replay *replay, uint32_t stream)
{
	enum kiln_status status;

	if (!stream || replay->stream[stream])
		return true;
	status = kiln_stream_create(&replay->stream[stream], replay->device);
	if (status)
		(void)tool_error(status);
	return !status;
}

/* From the trace, and onto the tape if there is one. */
static int read_trace(struct replay *replay)
{
	struct replay_tape *tape = replay->order->tape;

	replay->batch_count = trace_read(replay->trace, replay->batch, BATCH);
	if (trace_failed(replay->trace)) {
		tool_complain("replay: %s", trace_error(replay->trace));
		return EXIT_FAILURE;
	}
	if (tape && replay->batch_count)
		replay_tape_add(tape, replay->batch, replay->batch_count);
	else if (tape)
		replay_tape_end(tape, trace_header(replay->trace));
	return EXIT_SUCCESS;
}

/*
 * Reads the next batch and makes ready what its requests need; an exit status,
 * or -1 at the end of the trace.
 */
static int read_batch(struct replay *replay)
{
	if (has_tape(replay)) {
		replay->batch_count =
			replay_tape_read(replay->order->tape, replay->taken,
					 replay->batch, BATCH);
		replay->taken += replay->batch_count;
	} else if (read_trace(replay)) {
		return EXIT_FAILURE;
	}
	for (uint32_t i = 0; i < replay->batch_count; i++)
		if (!make_slots(replay, replay->batch[i].slot) ||
		    !make_stream(replay, replay->batch[i].stream))
			return EXIT_FAILURE;
	return replay->batch_count ? EXIT_SUCCESS : -1;
}

static int fail_request(const struct replay *replay,
			const struct trace_request *request)
{
	tool_complain("replay: %s: line %" PRIu64 ": %" PRIu64 " bytes: %s",
		      replay->order->path, request->line, request->bytes,
		      kiln_error_message());
	return EXIT_FAILURE;
}

static enum kiln_status perform(struct replay *replay,
				const struct trace_request *request)
{
	struct kiln_buffer **buffer = &replay->buffer[request->slot];

	if (request->is_free) {
		kiln_buffer_release(*buffer);
		*buffer = NULL;
		return KILN_OK;
	}
	return kiln_buffer_create(buffer, replay->device,
				  replay->stream[request->stream],
				  request->bytes);
}

static int perform_batch(struct replay *replay)
{
	uint64_t begin = now_ns();
	uint32_t frees = 0;

	for (uint32_t i = 0; i < replay->batch_count; i++) {
		if (perform(replay, &replay->batch[i]))
			return fail_request(replay, &replay->batch[i]);
		frees += replay->batch[i].is_free;
	}
	replay->nanoseconds += now_ns() - begin;
	replay->frees += frees;
	replay->allocations += replay->batch_count - frees;
	show_progress(replay);
	return EXIT_SUCCESS;
}

/* ---- the whole trace, timed ---- */

static int account(struct replay *replay, struct replay_result *result)
{
	bool usage = false, calls = false;
	enum kiln_status status;

	result->header = *header_of(replay);
	result->allocations = replay->allocations;
	result->frees = replay->frees;
	result->nanoseconds = replay->nanoseconds;
	snprintf(result->device, sizeof(result->device), "%s",
		 kiln_device_selector(replay->device));
	result->usage = (struct kiln_memory_usage)KILN_MEMORY_USAGE_INIT;
	result->calls = (struct kiln_memory_calls)KILN_MEMORY_CALLS_INIT;
	status = kiln_memory_usage(replay->device, &result->usage, &usage);
	if (!status)
		status = kiln_memory_calls(replay->device, &result->calls,
					   &calls);
	if (!status)
		status = kiln_memory_mapping(replay->device, result->mapping,
					     sizeof(result->mapping));
	if (status)
		return tool_error(status);
	if (usage && calls)
		return EXIT_SUCCESS;
	tool_complain("replay: the device has no account");
	return EXIT_FAILURE;
}

int replay_run(const struct replay_order *order, struct replay_result *result)
{
	struct replay *replay;
	int code = start(&replay, order);

	while (!code) {
		code = read_batch(replay);
		if (!code)
			code = perform_batch(replay);
	}
	if (replay)
		hide_progress(replay);
	if (code < 0)
		code = account(replay, result);
	end(replay);
	return code;
}

/* ---- the worst moment ---- */

/* Which requests, and what is looked for behind each. */
struct search {
	uint64_t stop;           /* number of requests, or UINT64_MAX */
	uint64_t peak_bytes;     /* reserved */
	uint64_t found, line;    /* requests until then, and the last's line */
};

static int look(struct replay *replay, struct search *search,
		const struct trace_request *request)
{
	struct kiln_memory_usage usage = KILN_MEMORY_USAGE_INIT;
	bool available;

	if (request->is_free)
		return EXIT_SUCCESS;
	if (kiln_memory_usage(replay->device, &usage, &available) ||
	    !available)
		return fail_request(replay, request);
	if (usage.reserved_bytes > search->peak_bytes) {
		search->peak_bytes = usage.reserved_bytes;
		search->found = replay->allocations + replay->frees;
		search->line = request->line;
	}
	return EXIT_SUCCESS;
}

static int step(struct replay *replay, struct search *search,
		const struct trace_request *request)
{
	if (perform(replay, request))
		return fail_request(replay, request);
	if (request->is_free)
		replay->frees++;
	else
		replay->allocations++;
	return search->stop == UINT64_MAX ? look(replay, search, request)
					  : EXIT_SUCCESS;
}

static int walk(struct replay *replay, struct search *search)
{
	int code = EXIT_SUCCESS;

	while (!code && replay->allocations + replay->frees < search->stop) {
		code = read_batch(replay);
		for (uint32_t i = 0; !code && i < replay->batch_count; i++) {
			if (replay->allocations + replay->frees ==
			    search->stop)
				break;
			code = step(replay, search, &replay->batch[i]);
		}
		show_progress(replay);
	}
	hide_progress(replay);
	return code < 0 ? EXIT_SUCCESS : code;
}

static int find_worst(const struct replay_order *order, struct search *search)
{
	struct replay *replay;
	int code = start(&replay, order);

	search->stop = UINT64_MAX;
	if (!code)
		code = walk(replay, search);
	end(replay);
	search->stop = search->found;
	return code;
}

static enum kiln_status read_pools(struct kiln_device *device,
				   struct replay_moment *moment)
{
	size_t count = REPLAY_POOLS_MAX, special;
	enum kiln_status status;
	bool available;

	for (size_t i = 0; i < REPLAY_POOLS_MAX; i++)
		moment->pool[i] = (struct kiln_pool_info)KILN_POOL_INFO_INIT;
	status = kiln_memory_pools(device, moment->pool, &count, &available);
	if (status)
		return status;
	count = count < REPLAY_POOLS_MAX ? count : REPLAY_POOLS_MAX;
	special = REPLAY_POOLS_MAX - count;
	status = kiln_memory_special_pools(device, moment->pool + count,
					   &special, &available);
	moment->pools = count + special;
	if (moment->pools > REPLAY_POOLS_MAX)
		moment->pools = REPLAY_POOLS_MAX;
	return status;
}

static int look_at(struct replay *replay, struct replay_moment *moment)
{
	enum kiln_status status;
	bool available;

	moment->usage = (struct kiln_memory_usage)KILN_MEMORY_USAGE_INIT;
	status = kiln_memory_usage(replay->device, &moment->usage, &available);
	if (!status)
		status = read_pools(replay->device, moment);
	if (status)
		return tool_error(status);
	moment->published = !pool_read_own(replay->device, &moment->usage,
					   &moment->process);
	return EXIT_SUCCESS;
}

int replay_worst(const struct replay_order *order,
		 struct replay_moment *moment)
{
	struct search search = { .peak_bytes = 0 };
	struct replay *replay;
	int code = find_worst(order, &search);

	if (code)
		return code;
	moment->requests = search.found;
	moment->line = search.line;
	code = start(&replay, order);
	if (!code)
		code = walk(replay, &search);
	if (!code)
		code = look_at(replay, moment);
	end(replay);
	return code;
}
