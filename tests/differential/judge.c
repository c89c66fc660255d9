/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/judge.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/conformance/number.h"
#include "tests/differential/shapes.h"
#include "tests/differential/values.h"

/* Differing elements that are printed. */
#define SHOWN 4

/* A float dtype: its greatest number and its unit, 1 ulp of 1. */
struct limits {
	double greatest, unit, least;
};

static struct limits limits_of(enum kiln_dtype dtype)
{
	switch (dtype) {
	case KILN_F64:
		return (struct limits){ DBL_MAX, DBL_EPSILON, 0x1p-1074 };
	case KILN_F16:
		return (struct limits){ 65504, 0x1p-10, 0x1p-24 };
	case KILN_BF16:
		return (struct limits){ 0x1.fep127, 0x1p-7, 0x1p-133 };
	default:
		return (struct limits){ (double)FLT_MAX, (double)FLT_EPSILON,
					0x1p-149 };
	}
}

/* How two elements are compared. */
struct rule {
	enum kiln_dtype dtype;
	struct limits limits;
	bool half;          /* 16 bits, computed in f32 */
	bool signed_zero;
	double steps;       /* numbers of the dtype between them, at most */
	double units;       /* of the scale, at most */
	double least;       /* and of the least number above 0 */
	double normal;      /* what is below may have become 0; 0: nothing */
	enum kilni_growth growth;
	const double *magnitudes;
};

/* ---- The bound ---- */

static struct rule rule_of(const struct diff_case *c, bool exact,
			   const struct diff_result *want,
			   const double *magnitudes)
{
	struct rule r = { .dtype = want->dtype, .growth = c->growth };
	double factor = 1 + log2(c->summands);
	double accumulated = (double)FLT_EPSILON;
	bool flushed;

	if (kiln_dtype_class(want->dtype) != KILN_CLASS_FLOAT)
		return r;
	r.limits = limits_of(want->dtype);
	r.half = kiln_dtype_size_bytes(want->dtype) == 2;
	flushed = diff_flushes(c, want->dtype);
	if (flushed && want->dtype != KILN_F16)
		r.limits.least = r.normal = diff_values_normal(want->dtype);
	if (want->dtype == KILN_F64)
		accumulated = DBL_EPSILON;
	/*
	 * A reduction may meet -0 and +0 in any order; and what is flushed on
	 * the way to a zero may have had its sign.
	 */
	r.signed_zero = c->op->form != KILNI_FORM_REDUCE &&
			c->growth == KILNI_GROWTH_NONE &&
			!(flushed && c->op->ulp > 0);
	if (c->growth == KILNI_GROWTH_NONE) {
		if (c->op->ulp > 0 && !exact)
			r.steps = r.half ? 1 : ceil(2 * c->op->ulp) + 1;
		return r;
	}
	if (c->growth == KILNI_GROWTH_PROD || c->growth == KILNI_GROWTH_DOT)
		factor = c->summands;
	r.steps = 1;
	/* Each product may be subnormal, and rounded as such. */
	r.least = c->growth == KILNI_GROWTH_DOT ? 2 * c->summands : 2;
	r.units = 2 * fmax(c->op->ulp, 1) * factor * accumulated;
	r.magnitudes = magnitudes;
	return r;
}

/* ---- Elements ---- */

/* The place of a float among the numbers of its dtype. */
static double place_of(const void *element, enum kiln_dtype dtype)
{
	size_t bytes = kiln_dtype_size_bytes(dtype);
	uint64_t bits = 0, sign;

	memcpy(&bits, element, bytes);
	sign = bits >> (8 * bytes - 1);
	bits &= ~(UINT64_C(1) << (8 * bytes - 1));
	return sign ? -(double)bits : (double)bits;
}

static double distance(const void *want, const void *got,
		       enum kiln_dtype dtype)
{
	uint64_t a = 0, b = 0;

	/* Near numbers of f64 exactly: as doubles their places are rounded. */
	if (dtype == KILN_F64) {
		memcpy(&a, want, 8);
		memcpy(&b, got, 8);
		if (a >> 63 == b >> 63)
			return a > b ? (double)(a - b) : (double)(b - a);
	}
	return fabs(place_of(want, dtype) - place_of(got, dtype));
}

/*
 * Where denormals may be flushed, what is below the least normal number is
 * taken for that, with the sign of what it is compared with.
 */
static double lifted(const struct rule *r, double x, double other)
{
	return fabs(x) < r->normal ? copysign(r->normal, other) : x;
}

/* What the units are of. */
static double scale_of(const struct rule *r, size_t i, double want)
{
	if (r->growth == KILNI_GROWTH_SUM || r->growth == KILNI_GROWTH_DOT)
		return r->magnitudes ? r->magnitudes[i] : 0;
	if (r->growth == KILNI_GROWTH_LOG)
		return 1 + fabs(want);
	return fabs(want);
}

/*
 * Whether the order of the summands decides if there is an overflow on the
 * way: then nothing can be said of the result.
 */
static bool open(const struct rule *r, double scale)
{
	return (r->growth == KILNI_GROWTH_SUM ||
		r->growth == KILNI_GROWTH_DOT) &&
	       !(scale <= (r->dtype == KILN_F64 ? DBL_MAX : (double)FLT_MAX) /
				  4);
}

static bool near(const struct rule *r, double w, double g)
{
	char want[8], got[8];

	conf_float_encode(want, r->dtype, w);
	conf_float_encode(got, r->dtype, g);
	return distance(want, got, r->dtype) <= r->steps;
}

static bool float_agrees(const struct rule *r, size_t i, const void *want,
			 const void *got)
{
	double w = conf_float_decode(want, r->dtype);
	double g = conf_float_decode(got, r->dtype);
	double scale, room;

	if (isnan(w) && isnan(g))
		return true;
	if (w == g)
		return w != 0 || !r->signed_zero || !signbit(w) == !signbit(g);
	g = lifted(r, g, w);
	w = lifted(r, w, g);
	if (w == g)
		return true;
	scale = scale_of(r, i, w);
	if (open(r, scale))
		return true;
	if (isnan(w) || isnan(g))
		return false;
	if (near(r, w, g))
		return true;
	if (r->growth == KILNI_GROWTH_NONE || !isfinite(w) || !isfinite(g))
		return false;
	room = r->units * scale + r->least * r->limits.least;
	if (r->half)
		room += r->limits.unit * fabs(w);
	return fabs(g - w) <= room;
}

static bool agrees(const struct rule *r, size_t i, const void *want,
		   const void *got)
{
	size_t size = kiln_dtype_size_bytes(r->dtype);

	if (kiln_dtype_class(r->dtype) != KILN_CLASS_FLOAT)
		return memcmp(want, got, size) == 0;
	return float_agrees(r, i, want, got);
}

/* ---- Results ---- */

static void print_difference(struct conf_text *text, const struct rule *r,
			     size_t i, const void *want, const void *got)
{
	conf_text_add(text, "[%zu] expected ", i);
	conf_element_print(text, r->dtype, want);
	conf_text_add(text, ", came ");
	conf_element_print(text, r->dtype, got);
	if (kiln_dtype_class(r->dtype) == KILN_CLASS_FLOAT && r->units > 0)
		conf_text_add(text, " (of %g)",
			      scale_of(r, i, conf_float_decode(want,
							       r->dtype)));
	conf_text_add(text, "; ");
}

static bool same_values(const struct rule *r, const struct diff_result *want,
			const struct diff_result *got, struct conf_text *text)
{
	size_t size = kiln_dtype_size_bytes(want->dtype);
	size_t count = want->bytes / size, differing = 0, i;

	if (!want->bytes || !memcmp(want->data, got->data, want->bytes))
		return true;
	for (i = 0; i < count; i++) {
		const char *w = (const char *)want->data + i * size;
		const char *g = (const char *)got->data + i * size;

		if (!agrees(r, i, w, g) && differing++ < SHOWN)
			print_difference(text, r, i, w, g);
	}
	if (differing > 0)
		conf_text_add(text, "%zu of %zu elements differ", differing,
			      count);
	return differing == 0;
}

static bool same_form(const struct diff_result *want,
		      const struct diff_result *got, struct conf_text *text)
{
	if (want->dtype == got->dtype && want->rank == got->rank &&
	    want->bytes == got->bytes &&
	    memcmp(want->shape, got->shape,
		   (size_t)want->rank * sizeof(*want->shape)) == 0)
		return true;
	conf_text_add(text, "expected ");
	conf_shape_print(text, want->dtype, want->rank, want->shape);
	conf_text_add(text, ", came ");
	conf_shape_print(text, got->dtype, got->rank, got->shape);
	return false;
}

static bool same_results(const struct diff_case *c, bool exact,
			 const struct diff_outcome *want,
			 const struct diff_outcome *got,
			 struct conf_text *text)
{
	int i;

	for (i = 0; i < want->result_count; i++) {
		const struct diff_result *w = &want->results[i];
		const double *magnitudes = NULL;
		struct rule rule;

		if (!same_form(w, &got->results[i], text))
			return false;
		if (i == 0 && want->magnitude_count * kiln_dtype_size_bytes(
						w->dtype) == w->bytes)
			magnitudes = want->magnitudes;
		rule = rule_of(c, exact, w, magnitudes);
		if (!same_values(&rule, w, &got->results[i], text))
			return false;
	}
	return true;
}

/* ---- The case ---- */

static bool lacks_memory(enum kiln_status status)
{
	return status == KILN_ERR_OUT_OF_MEMORY || status == KILN_ERR_LIMIT ||
	       status == KILN_ERR_NO_MEMORY;
}

static enum kiln_status status_of(const struct diff_outcome *o)
{
	return o->call != KILN_OK ? o->call : o->read;
}

enum diff_verdict diff_judge(const struct diff_case *c, bool exact,
			     const struct diff_outcome *want,
			     const struct diff_outcome *got,
			     struct conf_text *text)
{
	if (c->large &&
	    (lacks_memory(status_of(want)) || lacks_memory(status_of(got)))) {
		conf_text_add(text, "%s", want->message);
		return DIFF_NO_MEMORY;
	}
	if (want->call != got->call || want->read != got->read) {
		conf_text_add(text,
			      "expected %s of the call and %s of the read, "
			      "came %s and %s: %s",
			      kiln_status_name(want->call),
			      kiln_status_name(want->read),
			      kiln_status_name(got->call),
			      kiln_status_name(got->read),
			      status_of(got) != KILN_OK ? got->message
							: want->message);
		return DIFF_DIFFER;
	}
	if (status_of(want) != KILN_OK)
		return DIFF_AGREE_REFUSED;
	return same_results(c, exact, want, got, text) ? DIFF_AGREE
						       : DIFF_DIFFER;
}
