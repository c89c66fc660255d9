/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_REPLAY_H
#define TOOLS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "tools/pool.h"
#include "tools/trace.h"

/*
 * The requests of a trace, so that it is read once, also from a pipe, however
 * often it is replayed. A trace that is too long is torn: read again.
 */
struct replay_tape {
	struct trace_header header;
	struct trace_request *request;
	uint64_t count, room;
	bool whole, torn;
};

void replay_tape_add(struct replay_tape *tape,
		     const struct trace_request *requests, uint32_t count);
/* Behind the last request. */
void replay_tape_end(struct replay_tape *tape,
		     const struct trace_header *header);
/* The requests from one on, fewer at the end. */
uint32_t replay_tape_read(const struct replay_tape *tape, uint64_t from,
			  struct trace_request *requests, uint32_t count);
void replay_tape_free(struct replay_tape *tape);

/* What is asked for. */
struct replay_order {
	const char *path, *device;
	enum kiln_pages pages;
	bool progress;
	struct replay_tape *tape;    /* NULL: it is replayed once */
};

/* What came out. */
struct replay_result {
	struct trace_header header;
	uint64_t allocations, frees;
	uint64_t nanoseconds;        /* spent in both */
	struct kiln_memory_usage usage;
	struct kiln_memory_calls calls;
	char device[64], mapping[192];
};

/*
 * A moment of a replay: behind the given number of requests. Its account and
 * pools are those of that moment.
 */
#define REPLAY_POOLS_MAX 32

struct replay_moment {
	uint64_t requests, line;
	struct kiln_memory_usage usage;
	size_t pools;
	struct kiln_pool_info pool[REPLAY_POOLS_MAX];
	bool published;              /* page by page, too: */
	struct pool_process process;
};

/* Exit statuses; a failure has been told. */
int replay_run(const struct replay_order *order, struct replay_result *result);

/*
 * Finds the first request that brings the reserved bytes to their peak, and
 * replays up to it. The caller frees moment->process.
 */
int replay_worst(const struct replay_order *order,
		 struct replay_moment *moment);

#endif
