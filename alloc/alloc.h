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

#define KILNI_RUNGS_MAX 8

/* One rung of a ladder of pools whose pages are carved. */
struct kilni_pools_rung {
	uint64_t page_bytes;
	uint64_t slice_bytes;      /* largest request that it serves */
	uint64_t cap_bytes;        /* most that its pages hold; 0: no limit */
};

struct kilni_pools_config {
	uint64_t page_bytes;       /* a usual large page; 0: default 64 MiB */
	uint64_t cap_bytes;        /* 0: the device's total */
	bool plain;                /* no mapping, even where it can be had */
	bool fill;                 /* fill freed memory, see below */
	uint64_t verify_every;     /* calls between two walks; 0: none */
	/*
	 * A ladder in place of the default one, in rising order of slice
	 * sizes, of pages that are not mapped; none: the default.
	 */
	unsigned rungs;
	struct kilni_pools_rung rung[KILNI_RUNGS_MAX];
};

/*
 * Patterns of the debugging option KILN_MEMORY_FILL: bytes of memory that is
 * new to its owner (every float of them is NaN), which the owner writes in
 * stream order, and of memory that nobody has, once its uses have completed.
 */
#define KILNI_FILL_NEW 0xff
#define KILNI_FILL_FREED 0xfe

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
 * The same without a call of the driver: from what the pools hold, used or
 * not. KILN_ERR_CAPTURE where that does not do.
 */
enum kiln_status kilni_pools_alloc_warm(struct kilni_pools *pools, void *stream,
					uint64_t bytes, bool persistent,
					struct kilni_slice *out);

/*
 * Gives a slice back. uses are the points behind which it is unused, at most
 * one per stream; the array is copied. Any thread; never fails, never blocks.
 */
void kilni_pools_free(struct kilni_pools *pools,
		      const struct kilni_slice *slice,
		      const struct kilni_use *uses, size_t count);

/*
 * Installs another layout: ladder, page size, mapping or not, cap.
 * KILN_ERR_BUSY: slices are live, freed ones are still used by queued work, or
 * a request of another thread waits for them; KILN_ERR_OPTION: the layout makes
 * no sense. A refusal names the reason and changes nothing.
 */
enum kiln_status kilni_pools_set_layout(
	struct kilni_pools *pools, const struct kilni_pools_config *config);

/*
 * Parses PAGE:SLICE[:CAP],... with sizes such as 64K or 2M into the ladder of
 * config. KILN_ERR_OPTION: the message quotes name, the text and the position.
 */
enum kiln_status kilni_pools_parse_layout(const char *name, const char *text,
					  struct kilni_pools_config *config);

/* Fills config from the environment, for a device of total_bytes. */
enum kiln_status kilni_pools_configure(struct kilni_pools_config *config,
				       uint64_t total_bytes);

/* A slice's memory stays where it is until it is unpinned as often. */
void kilni_pools_pin(struct kilni_pools *pools,
		     const struct kilni_slice *slice);
void kilni_pools_unpin(struct kilni_pools *pools,
		       const struct kilni_slice *slice);

/* Gives idle pages back to the driver until at most target_bytes stay. */
enum kiln_status kilni_pools_trim(struct kilni_pools *pools,
				  uint64_t target_bytes);

/* Fills all but struct_size. */
void kilni_pools_usage(struct kilni_pools *pools,
		       struct kiln_memory_usage *usage);

/*
 * Number of pools that carve pages, in the order in which requests are routed
 * through them, those that a growth left behind last; fills at most capacity
 * infos (all but struct_size).
 */
size_t kilni_pools_report(struct kilni_pools *pools,
			  struct kiln_pool_info *infos, size_t capacity);

/* The same for the exclusive pool and the persistent one. */
size_t kilni_pools_special(struct kilni_pools *pools,
			   struct kiln_pool_info *infos, size_t capacity);

/* "mapped", or "plain: " and why; valid until the layout changes. */
const char *kilni_pools_mapping(const struct kilni_pools *pools);

/* Calls of the driver since the pools were made; all but struct_size. */
void kilni_pools_calls(struct kilni_pools *pools,
		       struct kiln_memory_calls *calls);

/*
 * Publishes the pools for other processes from now on. What cannot be is told
 * once by the log; the pools do not depend on it.
 */
void kilni_pools_publish_start(struct kilni_pools *pools);

/* Publishes the present state if it is time; where work has been waited for. */
void kilni_pools_publish(struct kilni_pools *pools);

/* Writes what the pools hold into the process's trace. */
void kilni_pools_trace(struct kilni_pools *pools);

/* Whether memory is filled: then an owner of new memory does it too. */
bool kilni_pools_fill(const struct kilni_pools *pools);

/* Fills a slice that no work uses, for an owner who cannot in stream order. */
void kilni_pools_fill_new(struct kilni_pools *pools,
			  const struct kilni_slice *slice);

/* Walks everything and compares with the accounting; for tests. */
bool kilni_pools_verify(struct kilni_pools *pools);

#endif
