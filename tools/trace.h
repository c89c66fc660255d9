/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A recorded stream of memory requests, plain or compressed by xz. The first
 * line is "# " and a JSON object; then "a ID BYTES STREAM" for an allocation
 * and "f ID" for a free, numbers in decimal. An ID may be used again once it
 * has been freed. Memory is bounded whatever the file holds.
 */
#define TRACE_STREAMS_MAX 64
#define TRACE_LIVE_MAX (1u << 22)

struct trace;

/* What the first line tells; 0 or "" where it does not. */
struct trace_header {
	char name[64];
	double seconds;          /* that the recorded program ran */
	uint64_t allocations, frees;
	uint64_t peak_live_bytes, peak_reserved_bytes;
	uint64_t driver_allocations;
};

struct trace_request {
	uint64_t line;
	uint64_t id, bytes;
	uint32_t slot;           /* dense among those that are live */
	uint32_t stream;
	bool is_free;
};

/* Where a function fails, trace_error() says why, with file and line. */
struct trace *trace_open(const char *path);
void trace_close(struct trace *trace);
bool trace_failed(const struct trace *trace);
const char *trace_error(const struct trace *trace);

const struct trace_header *trace_header(const struct trace *trace);

/* Up to count requests; fewer at the end, or where something is wrong. */
uint32_t trace_read(struct trace *trace, struct trace_request *requests,
		    uint32_t count);

#endif
