/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_TRACE_H
#define KILN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * The trace of a process: what it did with kiln, and when. A process that has
 * KILN_TRACE in its environment writes one while it runs; this is the side of
 * whoever reads it then or later, also of a process that was killed.
 * kiln-trace(1) is made of it.
 */
struct kiln_trace;

/* Kinds of events. */
enum kiln_trace_kind {
	KILN_TRACE_SUBMIT = 1, /* a call that gave an op to a stream */
	KILN_TRACE_LAUNCH = 2, /* the op on the device */
	KILN_TRACE_DRIVER = 3, /* a call of the driver for memory */
	KILN_TRACE_MEMORY = 4, /* what a device's pools hold */
	KILN_TRACE_WINDOW = 5, /* a profile window */
	KILN_TRACE_STREAM = 6  /* the name of a stream or of a device */
};

/* An event; times are those of the host's monotonic clock. */
struct kiln_trace_event {
	size_t struct_size;      /* set by the caller: sizeof */
	enum kiln_trace_kind kind;
	int status;              /* SUBMIT, DRIVER: enum kiln_status */
	uint64_t begin_ns, end_ns;
	uint32_t thread;         /* that wrote it */
	uint32_t stream;         /* a number in the process; DRIVER, MEMORY: of
				    a device */
	uint64_t serial;         /* SUBMIT, LAUNCH: the same on one stream */
	bool device_clock;       /* its length is by the device's clock */
	bool is_inline;          /* LAUNCH: on the thread of the call */
	bool merged;             /* LAUNCH: in one pass with neighbours */
	char name[32];           /* of the op, the call, the window, ... */
	uint64_t bytes;          /* DRIVER */
	uint64_t reserved_bytes, live_bytes; /* MEMORY */
};

/* What is known of a trace beside its events, as it was opened. */
struct kiln_trace_info {
	size_t struct_size;      /* set by the caller: sizeof */
	int64_t process;         /* its number, as it saw it itself */
	char program[64];
	uint64_t started_ns;     /* when the trace began */
	uint64_t limit_bytes;    /* the most that it may hold */
	/* Why the process traced no more: 0, an errno, -1: the limit. */
	int stopped;
};

/**
 * kiln_trace_open - opens the file that a traced process writes or wrote
 * @out: NULL or a live reference on entry, which is released
 *
 * The names of ops are those that it has then. KILN_ERR_INVALID: also a file that is no trace of this version;
 * KILN_ERR_IO, with errno; KILN_ERR_NO_MEMORY.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_trace_open(struct kiln_trace **out, const char *path);

/** kiln_trace_release - closes the file; NULL is allowed */
KILN_API void kiln_trace_release(struct kiln_trace *trace);

/**
 * kiln_trace_info - whose trace it is and whether it is complete
 * @info: struct_size must be set
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_trace_info(const struct kiln_trace *trace, struct kiln_trace_info *info);

/**
 * kiln_trace_next - the next event
 * @event: struct_size must be set
 * @more: false where there was no further one
 *
 * In no order of time but, for each thread, about that of their ends. What the
 * process writes after it was opened may come or not; a file that is cut
 * meanwhile ends there. KILN_ERR_INVALID; KILN_ERR_IO, with errno;
 * KILN_ERR_FORKED. One thread at a time.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_trace_next(struct kiln_trace *trace, struct kiln_trace_event *event,
		bool *more);

KILN_END_DECLS

#endif
