/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_TRACE_H
#define KILNI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/*
 * Traces: each process writes what happens into a file of its own, as records
 * of one size, for kiln-trace(1). Written here, read by lib/trace.c.
 *
 * The file is mapped, so that a record is in it as soon as it is written, also
 * where the process is killed; its kind is set last, and a place without one
 * is not a record. A thread takes a block of places at a time, whose space the
 * file system has granted beforehand: so no full disk is met in the middle.
 * What is refused ends the trace of the process, which goes on.
 */

#define KILNI_TRACE_MAGIC UINT64_C(0x636172746e6c696b) /* "kilntrac" */
#define KILNI_TRACE_VERSION 1

enum {
	KILNI_TRACE_BLOCK = 65536,     /* bytes; the head has as many */
	KILNI_TRACE_NAME = 32,
	KILNI_TRACE_OPS = 1024
};

/* Kinds of records; times are those of the host's monotonic clock. */
enum kilni_trace_kind {
	KILNI_TRACE_EMPTY = 0,
	/* A call that gave an op to a stream. */
	KILNI_TRACE_SUBMIT = 1,
	/* The op on the device. */
	KILNI_TRACE_LAUNCH = 2,
	/* A call of the driver for memory, in name; bytes. */
	KILNI_TRACE_DRIVER = 3,
	/* A device's memory: reserved_bytes, live_bytes. */
	KILNI_TRACE_MEMORY = 4,
	/* A profile window, with its name. */
	KILNI_TRACE_WINDOW = 5,
	/* Names a stream; or a device, where it is a memory record's. */
	KILNI_TRACE_STREAM = 6
};

enum kilni_trace_flags {
	/* By the clock of a GPU, as far as the host can place that. */
	KILNI_TRACE_DEVICE_CLOCK = 1,
	/* Ran on the calling thread, at the call. */
	KILNI_TRACE_INLINE = 2,
	/* Ran in one pass with its neighbours, whose times it has too. */
	KILNI_TRACE_MERGED = 4
};

struct kilni_trace_record {
	uint8_t kind;                  /* atomic, written last */
	uint8_t flags;
	uint16_t op;
	uint32_t thread;
	uint64_t begin_ns, end_ns;
	uint32_t stream;               /* a number in the process; 0: none */
	int32_t status;
	union {
		uint64_t serial;       /* SUBMIT, LAUNCH: joins the two */
		char name[KILNI_TRACE_NAME]; /* WINDOW, STREAM */
		struct {               /* DRIVER, MEMORY */
			uint64_t bytes;
			uint64_t reserved_bytes, live_bytes;
			uint32_t call;
		} memory;
	} of;
};

_Static_assert(sizeof(struct kilni_trace_record) == 64, "records of 64 bytes");

/* Calls of DRIVER records. */
#define KILNI_TRACE_CALLS(X)                                                   \
	X(PAGE_ALLOC, "page_alloc")                                            \
	X(PAGE_FREE, "page_free")                                              \
	X(MAP_CREATE, "map_create")                                            \
	X(MAP_DESTROY, "map_destroy")                                          \
	X(MAP_ATTACH, "map_attach")                                            \
	X(MAP_DETACH, "map_detach")

enum kilni_trace_call {
#define KILNI_TRACE_CALL_(ID, text) KILNI_TRACE_CALL_##ID,
	KILNI_TRACE_CALLS(KILNI_TRACE_CALL_)
#undef KILNI_TRACE_CALL_
	KILNI_TRACE_CALL_COUNT
};

struct kilni_trace_head {
	uint64_t magic;                /* atomic, written last */
	uint32_t version, record_bytes;
	int64_t process;
	uint64_t started_ns;           /* monotonic */
	uint64_t limit_bytes;
	/* Atomic: 0, or why nothing is written any more: an errno, -1: limit. */
	int32_t stopped;
	uint32_t ops;
	char program[64];
	char op[KILNI_TRACE_OPS][KILNI_TRACE_NAME]; /* names */
};

_Static_assert(sizeof(struct kilni_trace_head) <= KILNI_TRACE_BLOCK,
	       "the head fits its place");

extern int kilni_trace_on;             /* atomic */

static inline bool kilni_is_traced(void)
{
	return KILNI_UNLIKELY(
		__atomic_load_n(&kilni_trace_on, __ATOMIC_RELAXED));
}

/* The time where the process is traced, else 0. */
static inline uint64_t kilni_trace_begin(void)
{
	return kilni_is_traced() ? kilni_now_ns() : 0;
}

/*
 * Starts what KILN_TRACE asks for, once; name gives the names of ops. What
 * cannot be is told once by the log.
 */
void kilni_trace_start(const char *(*name)(unsigned op), unsigned ops);

/* An op that has got its name only now. */
void kilni_trace_op(unsigned op, const char *name);

/*
 * So that the child of a fork finds no lock held; called once, before those
 * watch whose locks are held while something is written.
 */
void kilni_trace_fork_watch(void);

/* Writes a copy; thread and kind are set here. Never blocks for long. */
void kilni_trace_write(enum kilni_trace_kind kind,
		       const struct kilni_trace_record *record);

/* The next number for a stream or a device; names it in the trace. */
uint32_t kilni_trace_name(const char *format, ...) KILNI_PRINTF(1, 2);

#endif
