/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_NULL_TARGET_H
#define KILNI_NULL_TARGET_H

#include "drivers/driver.h"

/* The rules of a kind of device, for plans of what it would need. */
struct kilni_null_target {
	const char *name;          /* as in KILN_PLAN */
	struct kilni_memory_limits limits;
	uint64_t (*workspace)(const struct kilni_hw *hw,
			      enum kilni_kernel kernel, const void *params);
	const char *explain;
	uint32_t lacks;            /* kernels that it has not, as bits */
};

/* Names of all, NULL at the end. */
extern const char *const kilni_null_targets[];

/*
 * The target that KILN_PLAN names, or the null device's own. KILN_ERR_OPTION:
 * there is none of that name.
 */
enum kiln_status
kilni_null_target_find(const struct kilni_null_target **out);

#endif
