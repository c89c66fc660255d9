/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_POOL_H
#define KILN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/stream.h>

KILN_BEGIN_DECLS

/* ---- Report ---- */

enum kiln_pool_kind {
	KILN_POOL_SLICED = 0,     /* pages carved into slices */
	KILN_POOL_EXCLUSIVE = 1,  /* one allocation a page */
	KILN_POOL_PERSISTENT = 2  /* exact fit, never shared with temporaries */
};

/* Measured state of one pool. */
struct kiln_pool_info {
	size_t struct_size;           /* set by the caller: sizeof */
	enum kiln_pool_kind kind;
	uint64_t page_bytes;          /* 0 where pages differ */
	uint64_t max_slice_bytes;     /* largest request routed here */
	uint64_t pages;               /* pages held */
	uint64_t peak_pages;
	uint64_t allocations;         /* live slices */
	uint64_t live_bytes;
	uint64_t cached_bytes;
	uint64_t padding_bytes;
	uint64_t reserved_bytes;
	uint64_t largest_hole_bytes;  /* largest request it can serve now */
	uint64_t largest_request_bytes;
	uint64_t cap_bytes;           /* most it may reserve; 0: no own limit */
	uint64_t unmapped_pages;      /* addresses kept that hold no memory */
};

#define KILN_POOL_INFO_INIT                                                    \
	{ sizeof(struct kiln_pool_info), KILN_POOL_SLICED, 0, 0, 0, 0, 0, 0, 0,\
	  0, 0, 0, 0, 0, 0 }

/**
 * kiln_memory_pools - report of the pools that carve pages into slices
 * kiln_memory_special_pools - report of the exclusive and the persistent pool
 * @infos: array of *count elements, each with struct_size set, or NULL
 * @count: in: capacity; out: number of pools, 0 where there is no report
 * @available: false where the device has no report (its stream has failed)
 *
 * Pools that carve pages come in the order in which requests are routed
 * through them; those that a growth left behind come last. What they hold and
 * what the special pools hold adds up to kiln_memory_usage().
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_pools(struct kiln_device *device, struct kiln_pool_info *infos,
		  size_t *count, bool *available);
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_special_pools(struct kiln_device *device,
			  struct kiln_pool_info *infos, size_t *count,
			  bool *available);

/* ---- Raw memory ---- */

/*
 * A buffer: bytes of device memory without a tensor, for tools and for programs
 * that run kernels of their own. It comes from the device's pools, under the
 * same accounting, and is reused in stream order like a tensor's memory.
 * Handles are reference-counted and thread-safe; each holds a reference to its
 * device.
 */
struct kiln_buffer;

/**
 * kiln_buffer_create - takes bytes of a device's memory
 * @out: NULL or a live reference on entry
 * @stream: the stream of that device on which the memory will be used first;
 *          NULL takes the calling thread's current one
 * @bytes: may be 0: such a buffer has an address that must not be used
 *
 * Where the memory was last used on another stream, that use has completed or
 * the work that follows on this stream waits for it. Contents are unspecified.
 * The address is aligned as the device needs it for any dtype, and to 64 bytes
 * at least. Inside a persistent scope of the thread the buffer is persistent.
 *
 * KILN_ERR_INVALID: out or device is NULL, or a handle is none of its kind;
 * KILN_ERR_DEVICE: the stream is of another device; KILN_ERR_OVERFLOW: bytes
 * cannot be rounded up; KILN_ERR_OUT_OF_MEMORY (the device has no more),
 * KILN_ERR_LIMIT (the cap): the message holds requested, free, largest hole,
 * cap and pools; KILN_ERR_NO_MEMORY, KILN_ERR_DRIVER, KILN_ERR_FORKED.
 * Waits for work only where memory is short, and for the stream's where
 * KILN_MEMORY_FILL is set.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_buffer_create(struct kiln_buffer **out, struct kiln_device *device,
		   struct kiln_stream *stream, uint64_t bytes);

/** kiln_buffer_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_buffer *kiln_buffer_retain(struct kiln_buffer *buffer);

/**
 * kiln_buffer_release - gives one reference back; NULL is allowed
 *
 * With the last one the memory is free behind everything that is queued by
 * then on the stream of its creation, and behind the noted uses on others.
 * Right from any thread, but not from a kiln_deleter. Waits for that work only
 * where there is no host memory to note the order in. In a forked child this
 * does nothing on an inherited handle.
 */
KILN_API void kiln_buffer_release(struct kiln_buffer *buffer);

/**
 * kiln_buffer_use - notes that what is queued on a stream uses the buffer
 * @stream: a stream of the buffer's device; NULL takes the calling thread's
 *
 * Needed before the last release where the memory was used on another stream
 * than that of its creation: everything queued there until now has to complete
 * before the memory is reused. It does not order the two streams.
 *
 * KILN_ERR_INVALID, KILN_ERR_DEVICE, KILN_ERR_FORKED; KILN_ERR_NO_MEMORY,
 * KILN_ERR_LIMIT: the thread has no stream yet and gets none. Waits, as the
 * release, only without host memory.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_buffer_use(struct kiln_buffer *buffer, struct kiln_stream *stream);

/** kiln_buffer_address - where the device sees it. Cannot fail. */
KILN_API uint64_t kiln_buffer_address(const struct kiln_buffer *buffer);

/**
 * kiln_buffer_host - the same memory as the host sees it
 *
 * NULL where the host cannot reach the device's memory, and for 0 bytes.
 * Cannot fail.
 */
KILN_API void *kiln_buffer_host(const struct kiln_buffer *buffer);

/** kiln_buffer_size_bytes - bytes, as they were asked for. Cannot fail. */
KILN_API uint64_t kiln_buffer_size_bytes(const struct kiln_buffer *buffer);

/** kiln_buffer_device - its device, borrowed. Cannot fail. */
KILN_API struct kiln_device *
kiln_buffer_device(const struct kiln_buffer *buffer);

KILN_END_DECLS

#endif
