/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_PLAN_H
#define KILNI_LIB_PLAN_H

#include <kiln/plan.h>

#include "lib/identity.h"

/*
 * Plans: the file in which planned processes report, and what a planned
 * process (KILN_PLAN is set) does beside its work.
 */

/* ---- the file ---- */

#define KILNI_PLAN_MAGIC UINT64_C(0x6e616c706e6c696b) /* "kilnplan" */
#define KILNI_PLAN_VERSION 1

/* Written by the thread that holds the slot's lock, in its process. */
struct kilni_plan_account {
	uint64_t largest_request_bytes;
	struct kiln_memory_usage usage;
	struct kiln_memory_calls calls;
	uint64_t pools;
	struct kiln_pool_info pool[KILN_PLAN_POOLS_MAX];
};

/* Two accounts, one of which is whole at any moment. */
struct kilni_plan_device {
	int64_t process;           /* atomic, set last; 0: not there yet */
	uint64_t steps;            /* atomic */
	uint32_t whole;            /* atomic: which of the accounts */
	uint32_t reserved;
	char selector[64];
	struct kilni_plan_account account[2];
};

struct kilni_plan_file {
	uint64_t magic;
	uint32_t version, bytes;
	uint64_t step_limit;
	uint32_t taken;            /* atomic: devices that asked for a place */
	uint32_t reserved;
	struct kilni_plan_device device[KILN_PLAN_DEVICES_MAX];
};

/* Maps an open file. KILN_ERR_IO, with name and errno. */
enum kiln_status kilni_plan_map(int file, const char *name,
				struct kilni_plan_file **out);

/* ---- a planned process ---- */

/*
 * What a selector gives under a plan: a driver that follows the target's
 * rules, an index of its own for each selector, and the selector in full.
 * Called with the registry's lock. KILN_ERR_OPTION, KILN_ERR_SELECTOR,
 * KILN_ERR_NO_DEVICE.
 */
enum kiln_status kilni_plan_choose(const char *selector,
				   struct kilni_place *place,
				   const char **name);

/* A device was opened, or will be closed; the file has a place for it or not. */
enum kiln_status kilni_plan_join(struct kiln_device *device);
void kilni_plan_leave(struct kiln_device *device);

#endif
