/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_COMPARE_H
#define CONF_COMPARE_H

#include <stdbool.h>

#include "tests/conformance/value.h"

struct conf_tolerance {
	double rtol, atol;
	bool signed_zero; /* where both are 0, -0 and +0 differ */
};

/*
 * Whether a float passes: both NaN, equal, or both finite and
 * |got - want| <= max(rtol * max(|got|, |want|), atol).
 */
bool conf_float_passes(double want, double got,
		       const struct conf_tolerance *tolerance);

/*
 * Compares dense elements, as many and of the dtype of want, with it. Where
 * any does not pass, appends the first few with both values and returns false.
 */
bool conf_compare(const struct conf_value *want, const void *got,
		  const struct conf_tolerance *tolerance,
		  struct conf_text *text);

#endif
