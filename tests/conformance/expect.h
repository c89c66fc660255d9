/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_EXPECT_H
#define CONF_EXPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/conformance/text.h"
#include "tests/conformance/vector.h"

enum conf_expect_kind {
	CONF_UNSUPPORTED,
	CONF_REFUSED,
	CONF_FLUSHED,
	CONF_EXPECT_COUNT
};

/*
 * What a device cannot do, a line each:
 *
 *   unsupported GLOB REASON...
 *   refused GLOB REASON...
 *   flushed GLOB REASON...
 *
 * GLOB is matched against the id of a case and the methods of its steps: what
 * is unsupported must not pass. GLOB of the second kind is matched against
 * methods alone: where such a step ends with KILN_ERR_UNSUPPORTED, which it may
 * do for some dtypes, the case is skipped. What is flushed is unsupported where
 * the device keeps no denormals of f32, and else like any other.
 * Empty lines and lines that begin with # are passed over.
 */
struct conf_expect {
	struct conf_expect_row {
		char *glob, *reason;
		enum conf_expect_kind kind;
	} *rows;
	size_t count;
	bool flushes; /* the device keeps no denormals of f32 */
};

/* Reads a file; false with why, which names file and line. */
bool conf_expect_load(struct conf_expect *expect, const char *path,
		      struct conf_text *why);

void conf_expect_clear(struct conf_expect *expect);

/* The reason why what has this name cannot pass, or NULL. */
const char *conf_expect_named(const struct conf_expect *expect,
			      const char *name);

/* The reason why the device may refuse a method, or NULL. */
const char *conf_expect_refused(const struct conf_expect *expect,
				const char *method);

/* The reason why a case cannot pass, or NULL. */
const char *conf_expect_find(const struct conf_expect *expect,
			     const struct conf_vector *vector);

#endif
