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
	uint64_t driver_calls;     /* pages taken and given back, ever */
};

/**
 * kiln_memory_usage - the device's usage now
 * @available: false where the device cannot say (its stream has failed)
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not wait for work.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_usage(struct kiln_device *device, struct kiln_memory_usage *usage,
		  bool *available);

/**
 * kiln_memory_cleanup - gives unused cached pages back to the driver
 *
 * Pages whose slices are still used by queued work stay.
 * KILN_ERR_INVALID, KILN_ERR_FORKED, KILN_ERR_DRIVER.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_memory_cleanup(struct kiln_device *device);

/**
 * kiln_persistent_begin - allocations of this thread go to exact-fit memory
 * kiln_persistent_end - ends the innermost such scope
 *
 * Per thread and device; scopes nest; the mode is taken at the call of an op.
 * Nothing temporary ever shares pages with what is allocated inside.
 * KILN_ERR_INVALID: NULL, or an end without a begin. KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_persistent_begin(struct kiln_device *device);
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_persistent_end(struct kiln_device *device);

KILN_END_DECLS

#endif
