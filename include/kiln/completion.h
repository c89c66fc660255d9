/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_COMPLETION_H
#define KILN_COMPLETION_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/stream.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * A completion ring: what was asked for is posted there when it is done, and
 * is taken from it by any thread, or by a program's event loop. Nothing is
 * ever lost: a request takes its place in the ring at once, and is refused
 * where there is none. Rings are not bound to a device, are thread-safe, and
 * their handles are reference-counted.
 */
struct kiln_completions;

struct kiln_completion {
	size_t struct_size;        /* set by the caller: sizeof */
	uint64_t user;             /* as given with the request */
	enum kiln_status status;
	const char *op;            /* a constant; "" where no op is meant */
	uint64_t value;            /* place in the stream's count, or 0 */
};

#define KILN_COMPLETION_INIT                                                   \
	{ sizeof(struct kiln_completion), 0, KILN_OK, NULL, 0 }

/**
 * kiln_completions_create - a new ring
 * @out: NULL or a live reference on entry, which is released
 * @capacity: completions that are requested or posted and not taken, at most;
 * 1 to 2^24, rounded up to a power of two
 *
 * KILN_ERR_INVALID, KILN_ERR_NO_MEMORY.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_completions_create(struct kiln_completions **out, uint32_t capacity);

/** kiln_completions_retain - one more reference; returns its argument */
KILN_API struct kiln_completions *
kiln_completions_retain(struct kiln_completions *ring);

/**
 * kiln_completions_release - gives one reference back; NULL is allowed
 *
 * Right with requests pending; what they post is dropped.
 */
KILN_API void kiln_completions_release(struct kiln_completions *ring);

/**
 * kiln_tensor_complete - posts when what last wrote the tensor is done
 * @user: comes back in the completion
 *
 * The completion carries the name of that op ("": no op wrote the tensor yet)
 * and its outcome: KILN_OK, its own failure, or KILN_ERR_DEPENDENCY where it was cancelled because of another.
 * That does not count as the report of the error: a read or sync still tells
 * it. Posted before the call returns where the work is done already. Hands the
 * work to the device; does not wait.
 * KILN_ERR_BUSY: the ring, or the stream's queue, is full.
 * KILN_ERR_NO_MEMORY, KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_complete(struct kiln_tensor *tensor, struct kiln_completions *ring,
		     uint64_t user);

/**
 * kiln_stream_complete - posts when all work submitted to the stream is done
 *
 * Its status is KILN_ERR_POISONED where the stream has failed by then, else
 * KILN_OK. Otherwise as kiln_tensor_complete.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_complete(struct kiln_stream *stream, struct kiln_completions *ring,
		     uint64_t user);

/**
 * kiln_completions_take - takes what has been posted, in order
 * @taken: array of *count elements, each with struct_size set
 * @count: in: capacity, at least 1; out: number of completions taken
 *
 * Requests of one stream are posted in their order. Does not wait: *count may
 * become 0. KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_completions_take(struct kiln_completions *ring,
		      struct kiln_completion *taken, size_t *count);

/**
 * kiln_completions_wait - waits until something has been posted
 * @timeout_ns: 0 only asks; less than 0: no limit
 *
 * KILN_ERR_TIMEOUT, KILN_ERR_INTERRUPTED as kiln_event_wait;
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Sleeps while it blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_completions_wait(struct kiln_completions *ring, int64_t timeout_ns);

/**
 * kiln_completions_fd - a file descriptor that is readable while something is
 * posted and not taken
 *
 * For poll, epoll or an event loop: an eventfd that the ring owns, to be
 * watched, not read. Made at the first call. KILN_ERR_LIMIT: no descriptor is
 * left. KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_completions_fd(struct kiln_completions *ring, int *fd);

KILN_END_DECLS

#endif
