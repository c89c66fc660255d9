/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_RUN_H
#define CONF_RUN_H

#include <stdbool.h>

#include <kiln/kiln.h>

#include "tests/conformance/expect.h"
#include "tests/conformance/vector.h"

/* The device under test and what can be asked of it. */
struct conf_device {
	struct kiln_device *handle;
	bool values;               /* it computes; else shapes and errors */
	bool signed_zero;
	bool flushes;              /* it keeps no denormals of f32 */
	enum kiln_dtype int_dtype; /* its default */
	const struct conf_expect *expect; /* what it may refuse, or NULL */
};

/* Every case is run both ways, and has to pass both. */
enum conf_mode {
	CONF_FRESH,   /* every result goes to a place of its own */
	CONF_IN_PLACE /* a result takes the place of an operand's last use */
};

enum conf_outcome {
	CONF_PASSED,
	CONF_FAILED,
	CONF_SKIPPED
};

/*
 * Opens the device; false with why where that fails. flush: the threads that
 * come to be meanwhile, which are those of a device in software, flush
 * denormals.
 */
bool conf_device_open(struct conf_device *device, const char *selector,
		      bool flush, bool signed_zero, struct conf_text *why);

void conf_device_close(struct conf_device *device);

/*
 * Runs a case. text gets what was expected and what came where it failed, and
 * the reason where it was skipped; *skip the kind of the reason.
 */
enum conf_outcome conf_run(const struct conf_device *device,
			   const struct conf_vector *vector,
			   enum conf_mode mode, enum conf_skip *skip,
			   struct conf_text *text);

#endif
