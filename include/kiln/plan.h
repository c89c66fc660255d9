/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_PLAN_H
#define KILN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/memory.h>
#include <kiln/pool.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A plan tells what memory a program would need on a device that need not be
 * here. The program runs unchanged, with two variables in its environment:
 * KILN_PLAN names a target, and every selector that the program opens gives a
 * device that computes nothing and counts memory under that target's rules;
 * KILN_PLAN_REPORT names the file in which all processes of the program keep
 * their account up to date. This is the side of whoever made that file and
 * starts the program; kiln-plan(1) is made of it.
 *
 * A step of a program ends with each wait (kiln_device_sync(),
 * kiln_stream_sync(), kiln_tensor_read()) before which, since the last one,
 * work was submitted.
 */
struct kiln_plan;

/* The most pools that a report holds of a device, and the most devices. */
#define KILN_PLAN_POOLS_MAX 16
#define KILN_PLAN_DEVICES_MAX 32

/* The account of one device of one process. */
struct kiln_plan_info {
	size_t struct_size;           /* set by the caller: sizeof */
	int64_t process;              /* its number, as it sees it itself */
	char selector[64];            /* as the program named the device */
	uint64_t steps;               /* of the process, when one ended here */
	uint64_t largest_request_bytes;
	struct kiln_memory_usage usage;
	struct kiln_memory_calls calls;
	uint64_t pool_count;          /* as they were when most was reserved */
	struct kiln_pool_info pool[KILN_PLAN_POOLS_MAX];
};

/**
 * kiln_plan_target - names of the targets that KILN_PLAN may have
 *
 * Returns a constant string, NULL from the last index on. Cannot fail.
 */
KILN_API const char *kiln_plan_target(size_t index);

/**
 * kiln_plan_create - makes the file in which planned processes report
 * @out: NULL or a live reference on entry
 * @path: a file that does not exist yet; only the owner may read it
 * @steps: after so many a process reports no more; 0: no limit
 *
 * The account of a process that has reached the limit stays what it was then;
 * the process itself runs on.
 *
 * KILN_ERR_INVALID: NULL, the path is empty, or *out is no plan; KILN_ERR_IO:
 * the file cannot be made, the message says why; KILN_ERR_FORKED: *out was made
 * before a fork; KILN_ERR_NO_MEMORY.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_plan_create(struct kiln_plan **out, const char *path, uint64_t steps);

/** kiln_plan_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_plan *kiln_plan_retain(struct kiln_plan *plan);

/**
 * kiln_plan_release - gives one reference back; NULL is allowed
 *
 * The last one removes the file. In a forked child this does nothing.
 */
KILN_API void kiln_plan_release(struct kiln_plan *plan);

/** kiln_plan_steps - the most that a process has made so far. Cannot fail. */
KILN_API uint64_t kiln_plan_steps(const struct kiln_plan *plan);

/**
 * kiln_plan_read - the accounts as they are now
 * @infos: array of *count elements, each with struct_size set, or NULL
 * @count: in: capacity; out: number of devices that reported
 * @lost: devices that found no room in the file; may be NULL
 *
 * Right while the processes run, after they have ended, and where they were
 * killed: an account is always a whole one.
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Thread-safe, does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_plan_read(struct kiln_plan *plan, struct kiln_plan_info *infos,
	       size_t *count, uint64_t *lost);

KILN_END_DECLS

#endif
