/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tests/conformance/number.h"

/* Differing elements that are printed. */
#define SHOWN 4

bool conf_float_passes(double want, double got,
		       const struct conf_tolerance *tolerance)
{
	double allowed = tolerance->rtol * fmax(fabs(got), fabs(want));

	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	if (want == 0 && got == 0 && tolerance->signed_zero &&
	    tolerance->rtol == 0 && tolerance->atol == 0)
		return !signbit(want) == !signbit(got);
	if (want == got)
		return true;
	return isfinite(want) && isfinite(got) &&
	       fabs(got - want) <= fmax(allowed, tolerance->atol);
}

static bool element_passes(const struct conf_value *want, size_t i,
			   const void *element,
			   const struct conf_tolerance *tolerance)
{
	size_t size = kiln_dtype_size_bytes(want->dtype);

	if (kiln_dtype_class(want->dtype) == KILN_CLASS_FLOAT)
		return conf_float_passes(
			want->floats[i],
			conf_float_decode(element, want->dtype), tolerance);
	return memcmp(want->data + i * size, element, size) == 0;
}

/* Floats as stated: a tolerance is measured from the unrounded number. */
static void print_wanted(struct conf_text *text, const struct conf_value *want,
			 size_t i)
{
	size_t size = kiln_dtype_size_bytes(want->dtype);

	if (kiln_dtype_class(want->dtype) == KILN_CLASS_FLOAT)
		conf_text_add(text, "%.17g", want->floats[i]);
	else
		conf_element_print(text, want->dtype, want->data + i * size);
}

bool conf_compare(const struct conf_value *want, const void *got,
		  const struct conf_tolerance *tolerance,
		  struct conf_text *text)
{
	size_t size = kiln_dtype_size_bytes(want->dtype);
	size_t count = (size_t)want->count, differing = 0, i;

	for (i = 0; i < count; i++) {
		const char *element = (const char *)got + i * size;

		if (element_passes(want, i, element, tolerance))
			continue;
		if (differing++ >= SHOWN)
			continue;
		conf_text_add(text, "[%zu] expected ", i);
		print_wanted(text, want, i);
		conf_text_add(text, ", came ");
		conf_element_print(text, want->dtype, element);
		conf_text_add(text, "; ");
	}
	if (differing > 0)
		conf_text_add(text,
			      "%zu of %zu elements differ (rtol %g, atol %g)",
			      differing, count, tolerance->rtol,
			      tolerance->atol);
	return differing == 0;
}
