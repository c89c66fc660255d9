/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_MEMORY_H
#define KILN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * One accounting for a device's memory. At every moment
 * live + cached + padding = reserved, all in bytes:
 * what tensors asked for, what is kept for reuse, what rounding costs, and
 * what the driver has given.
 */
struct kiln_memory_usage {
	size_t struct_size;        /* set by the caller: sizeof */
	uint64_t allocations;      /* live slices */
	uint64_t live_bytes;
	uint64_t cached_bytes;
	uint64_t padding_bytes;
	uint64_t reserved_bytes;
	uint64_t peak_live_bytes;
	uint64_t peak_reserved_bytes;
	uint64_t driver_calls;     /* all that kiln_memory_calls() counts */
};

#define KILN_MEMORY_USAGE_INIT                                                 \
	{ sizeof(struct kiln_memory_usage), 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * kiln_memory_usage - the device's usage now
 * @available: false where the device cannot say (its stream has failed)
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_usage(struct kiln_device *device, struct kiln_memory_usage *usage,
		  bool *available);

/* Calls of the driver since the device was opened, by kind. */
struct kiln_memory_calls {
	size_t struct_size;        /* set by the caller: sizeof */
	uint64_t page_alloc;       /* plain pages: memory with an address */
	uint64_t page_free;
	uint64_t map_create;       /* memory without an address */
	uint64_t map_destroy;
	uint64_t map_attach;       /* memory to an address: map, set access */
	uint64_t map_detach;       /* memory from its address: unmap */
};

#define KILN_MEMORY_CALLS_INIT                                                 \
	{ sizeof(struct kiln_memory_calls), 0, 0, 0, 0, 0, 0 }

/**
 * kiln_memory_calls - what the pools have asked of the driver so far
 * @available: false where the device cannot say (its stream has failed)
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_calls(struct kiln_device *device, struct kiln_memory_calls *calls,
		  bool *available);

/* The most pools that a layout may name. */
#define KILN_LAYOUT_POOLS_MAX 8

/* One pool of a layout. */
struct kiln_pool_layout {
	uint64_t page_bytes;       /* of a page that is carved into slices */
	uint64_t max_slice_bytes;  /* largest request that it serves */
	uint64_t cap_bytes;        /* most that its pages hold; 0: no limit */
};

/* Where memory gets its addresses from. */
enum kiln_pages {
	KILN_PAGES_DEFAULT = 0,    /* as at the opening, else mapped */
	KILN_PAGES_MAPPED = 1,     /* mapped into addresses reserved once */
	KILN_PAGES_PLAIN = 2       /* each page has its own, from the driver */
};

/*
 * How a device's pools take memory. 0 keeps what the device was opened with or
 * the environment says (kiln-env(7)), else the default. Pools stand in rising order of
 * max_slice_bytes; their pages are plain. With no pool named all but small
 * slices share mapped memory where the driver can map, else plain pages whose
 * sizes follow the need.
 */
struct kiln_memory_layout {
	size_t struct_size;        /* set by the caller: sizeof */
	uint64_t page_bytes;       /* of a usual large page, where none is named */
	uint64_t cap_bytes;        /* most that all pools may reserve */
	enum kiln_pages pages;     /* mapped: where the driver can */
	unsigned pool_count;       /* 0 to KILN_LAYOUT_POOLS_MAX */
	struct kiln_pool_layout pool[KILN_LAYOUT_POOLS_MAX];
};

#define KILN_MEMORY_LAYOUT_INIT                                                \
	{ sizeof(struct kiln_memory_layout), 0, 0, KILN_PAGES_DEFAULT, 0,      \
	  { { 0, 0, 0 } } }

/**
 * kiln_memory_set_layout - installs another layout of the device's pools
 * @layout: copied
 *
 * Works while no slice is live, which is best before the first tensor. What
 * the pools had cached goes back to the driver. A refusal changes nothing and
 * its message names the reason.
 *
 * KILN_ERR_BUSY: slices are live, freed ones are still used by queued work
 * (kiln_device_sync() first), or a request of another thread waits for them.
 * KILN_ERR_OPTION: the layout makes no sense: a page that holds not even one
 * of its largest slices or is larger than the device's largest, pools out of
 * order, a cap below a page. KILN_ERR_INVALID: NULL, an unknown struct_size or
 * kind of pages, too many pools. KILN_ERR_FORKED. Thread-safe, does not wait
 * for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_set_layout(struct kiln_device *device,
		       const struct kiln_memory_layout *layout);

/**
 * kiln_memory_mapping - whether memory is mapped, in words
 * @text: receives "mapped", or "plain: " and the reason; always ended
 * @bytes: size of text; 192 hold every reason
 *
 * Not every device can map, and a process whose address space is limited may
 * not reserve; the pools then take plain pages. KILN_ERR_INVALID: NULL, or
 * bytes is 0. KILN_ERR_FORKED. Thread-safe but for kiln_memory_set_layout()
 * at the same time, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_mapping(struct kiln_device *device, char *text, size_t bytes);

/**
 * kiln_memory_cleanup - gives unused cached pages back to the driver
 *
 * Pages whose slices are still used by queued work stay, and so does what the
 * driver does not take back (the log tells).
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_cleanup(struct kiln_device *device);

/**
 * kiln_memory_trim - gives unused cached pages back until little is reserved
 * @target_bytes: what may stay reserved; 0 is kiln_memory_cleanup()
 *
 * Pages that have been unused for longest go first, mapped memory last. Live
 * slices, and pages whose slices are still used by queued work, stay: more
 * than the target may remain reserved, and that is no error;
 * kiln_memory_usage() tells. KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe,
 * does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_trim(struct kiln_device *device, uint64_t target_bytes);

/**
 * kiln_persistent_begin - allocations of this thread go to exact-fit memory
 * kiln_persistent_end - ends the innermost such scope
 *
 * Per thread and device; scopes nest; the mode is taken at the call of an op.
 * Nothing temporary ever shares pages with what is allocated inside. An op that
 * fails leaves the scope open; kiln_persistent_run() closes it in any case.
 * KILN_ERR_INVALID: NULL, or an end without a begin; inside
 * kiln_persistent_run(), an end of the scope that it opened. KILN_ERR_FORKED;
 * KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT: the thread has no stream yet and gets
 * none.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_persistent_begin(struct kiln_device *device);
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_persistent_end(struct kiln_device *device);

/* What kiln_persistent_run calls; its status is passed on. */
typedef enum kiln_status (*kiln_persistent_function)(struct kiln_device *device,
						     void *user);

/**
 * kiln_persistent_run - calls a function inside a persistent scope
 * @function: called once, on this thread, with the device and user
 *
 * The scopes that were open at the call are open again when it returns, and
 * no others, whether the function succeeded or failed and whatever scopes it
 * left open. That does not hold where it leaves by longjmp or an exception.
 *
 * Returns the function's status. KILN_ERR_INVALID: device or function is NULL;
 * KILN_ERR_FORKED, KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT (the thread has no
 * stream yet and gets none): it was not called. The error record stays the
 * function's.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_persistent_run(struct kiln_device *device,
		    kiln_persistent_function function, void *user);

KILN_END_DECLS

#endif
