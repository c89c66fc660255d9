/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_H
#define KILNI_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/memory.h>
#include <kiln/pool.h>
#include <kiln/status.h>

#include "drivers/driver.h"

/*
 * The pools of one device: pages from the driver, carved into slices, reused
 * in stream order. Streams are opaque here; what alloc/ needs of the scheduler
 * comes as a table of functions.
 */

struct kilni_pools;

/* A point on a stream: everything submitted to it up to seq. */
struct kilni_use {
	void *stream;
	uint64_t seq;
};

struct kilni_stream_ops {
	/* Whether everything up to seq has completed. Any thread; no locks. */
	bool (*done)(void *stream, uint64_t seq);
	/*
	 * Orders what comes next on stream behind use. Called with the pools'
	 * lock held, on a thread that may append to stream. May fail.
	 */
	enum kiln_status (*order)(void *stream, const struct kilni_use *use);
	/* Waits until use has completed; called without locks, before giving
	 * up on memory. */
	enum kiln_status (*wait)(const struct kilni_use *use);
};

struct kilni_pools_config {
	uint64_t page_bytes;       /* largest carved page; 0: default 64 MiB */
	uint64_t cap_bytes;        /* 0: the device's total */
};

/* A piece of device memory; address and bytes are for the owner to read. */
struct kilni_slice {
	uint64_t address;
	uint64_t bytes;            /* as requested */
	void *block;               /* the pools' own */
};

/* Checks the configuration. KILN_ERR_OPTION, KILN_ERR_NO_MEMORY. */
enum kiln_status kilni_pools_create(struct kilni_pools **out,
				    struct kilni_hw *hw,
				    const struct kilni_stream_ops *streams,
				    const struct kilni_pools_config *config);

/* All slices have been freed and their last uses have completed. */
void kilni_pools_destroy(struct kilni_pools *pools);

/*
 * Takes bytes for use on stream. Memory last used on another stream is handed
 * out where that use has completed, or behind an event (order). bytes 0 gives
 * an address that must not be used, and a slice to free as any other.
 *
 * Before it fails: pending frees are waited for, cached pages given back, one
 * retry. KILN_ERR_OUT_OF_MEMORY (the driver has no more) and KILN_ERR_LIMIT
 * (the cap): the message holds requested, free, largest hole, cap, and the
 * pools that hold it. KILN_ERR_OVERFLOW: the size cannot be rounded up.
 */
enum kiln_status kilni_pools_alloc(struct kilni_pools *pools, void *stream,
				   uint64_t bytes, bool persistent,
				   struct kilni_slice *out);

/*
 * Gives a slice back. uses are the points behind which it is unused, at most
 * one per stream; the array is copied. Any thread; never fails, never blocks.
 */
void kilni_pools_free(struct kilni_pools *pools,
		      const struct kilni_slice *slice,
		      const struct kilni_use *uses, size_t count);

/* Gives idle pages back to the driver until at most target_bytes stay. */
enum kiln_status kilni_pools_trim(struct kilni_pools *pools,
				  uint64_t target_bytes);

/* Fills all but struct_size. */
void kilni_pools_usage(struct kilni_pools *pools,
		       struct kiln_memory_usage *usage);

/* Number of pools; fills at most capacity infos (all but struct_size). */
size_t kilni_pools_report(struct kilni_pools *pools,
			  struct kiln_pool_info *infos, size_t capacity);

/* Walks everything and compares with the accounting; for tests. */
bool kilni_pools_verify(struct kilni_pools *pools);

#endif
