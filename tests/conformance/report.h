/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_REPORT_H
#define CONF_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "tests/conformance/run.h"

/* Counts, and the failures where they go into one JSON object at the end. */
struct conf_report {
	const struct conf_device *device;
	bool json;
	bool progress; /* a running line on stderr */
	size_t outcomes[CONF_SKIPPED + 1];
	size_t skips[CONF_SKIP_COUNT];
	json_t *failures;
};

/* Where a case comes from: a line, or where it is made, how it is repeated. */
struct conf_place {
	const char *file;
	size_t line; /* 0: none */
};

void conf_report_begin(struct conf_report *report,
		       const struct conf_device *device, bool json);

/* Counts a case; prints it where it failed. */
void conf_report_case(struct conf_report *report,
		      const struct conf_place *place, const char *id,
		      enum conf_outcome outcome, enum conf_skip skip,
		      const char *detail);

/* Prints the counts; false where they could not be written. */
bool conf_report_end(struct conf_report *report);

#endif
