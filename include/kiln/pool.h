/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_POOL_H
#define KILN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

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

/**
 * kiln_memory_pools - report of the device's pools
 * @infos: array of *count elements, each with struct_size set, or NULL
 * @count: in: capacity; out: number of pools
 * @available: false where the device has no report (its stream has failed)
 *
 * Pools that carve pages come first, in the order in which requests are
 * routed through them; the exclusive and the persistent pool follow.
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_pools(struct kiln_device *device, struct kiln_pool_info *infos,
		  size_t *count, bool *available);

KILN_END_DECLS

#endif
