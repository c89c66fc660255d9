/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/values.h"

#include <math.h>
#include <string.h>

#include "tests/conformance/number.h"

/* Elements after which they repeat; a prime, so that no row looks alike. */
#define PERIOD 1048583

/* ---- Floats ---- */

/* How many bits an exponent and a fraction have. */
struct layout {
	int exponent, fraction;
};

static struct layout layout_of(enum kiln_dtype dtype)
{
	switch (dtype) {
	case KILN_F64:
		return (struct layout){ 11, 52 };
	case KILN_F16:
		return (struct layout){ 5, 10 };
	case KILN_BF16:
		return (struct layout){ 8, 7 };
	default:
		return (struct layout){ 8, 23 };
	}
}

double diff_values_normal(enum kiln_dtype dtype)
{
	return ldexp(1, 2 - (1 << (layout_of(dtype).exponent - 1)));
}

static void put_bits(void *element, enum kiln_dtype dtype, uint64_t bits)
{
	memcpy(element, &bits, kiln_dtype_size_bytes(dtype));
}

/* Zero, the subnormals, the normals, infinity and NaN meet at these. */
static uint64_t edge_bits(struct diff_random *r, struct layout l)
{
	uint64_t one = UINT64_C(1) << l.fraction;
	uint64_t infinity = ((UINT64_C(1) << l.exponent) - 1) << l.fraction;
	uint64_t bias = ((UINT64_C(1) << (l.exponent - 1)) - 1) << l.fraction;
	const uint64_t edges[] = {
		0, 0, 1, one / 2, one - 1, one, one + 1, infinity - 1, infinity,
		infinity + one / 2, bias, bias - 1, bias + 1, bias + one,
	};
	uint64_t bits = edges[diff_below(r, sizeof(edges) / sizeof(*edges))];

	return bits | (diff_bits(r) & 1) << (l.exponent + l.fraction);
}

/* A number that lies between two integers, or is one, or nearly. */
static double moderate(struct diff_random *r)
{
	double x = 16 * diff_unit(r) - 8;

	switch (diff_below(r, 8)) {
	case 0:
		return floor(x);
	case 1:
		return floor(x) + 0.5;
	case 2:
		return x / 1024;
	default:
		return x;
	}
}

/* Mostly 1 and -1; a product of thousands neither vanishes nor overflows. */
static double unit(struct diff_random *r)
{
	static const double rare[] = { 0.5, 2, 0.75, 1.25, 0.9375, 1.0625 };
	double x = 1;

	if (diff_once_in(r, 16))
		x = rare[diff_below(r, 6)];
	return diff_bits(r) & 1 ? x : -x;
}

static void put_float(void *element, const struct diff_operand *o,
		      struct diff_random *r)
{
	struct layout l = layout_of(o->dtype);
	bool any = o->values == DIFF_ANY;

	if (any && diff_once_in(r, 8))
		put_bits(element, o->dtype, edge_bits(r, l));
	else if (any && diff_once_in(r, 4))
		put_bits(element, o->dtype, diff_bits(r));
	else if (o->values == DIFF_UNITS)
		conf_float_encode(element, o->dtype, unit(r));
	else
		conf_float_encode(element, o->dtype, moderate(r));
	if (fabs(conf_float_decode(element, o->dtype)) < o->least)
		conf_float_encode(element, o->dtype, 0);
}

/* ---- Integers ---- */

static int width_of(enum kiln_dtype dtype)
{
	return 8 * (int)kiln_dtype_size_bytes(dtype);
}

static uint64_t any_int(struct diff_random *r, enum kiln_dtype dtype)
{
	int width = width_of(dtype);
	uint64_t top = UINT64_C(1) << (width - 1);
	const uint64_t edges[] = {
		0, 0, 1, UINT64_MAX, top, top - 1, top + 1, UINT64_MAX - 1,
	};

	switch (diff_below(r, 8)) {
	case 0:
	case 1:
		return edges[diff_below(r, 8)];
	case 2: /* the counts of shifts */
		return (uint64_t)diff_between(r, -2, width + 2);
	case 3:
	case 4:
		return (uint64_t)diff_between(r, -9, 9);
	case 5: /* of any length */
		return diff_bits(r) >> diff_below(r, 64);
	default:
		return diff_bits(r);
	}
}

static void put_int(void *element, const struct diff_operand *o,
		    struct diff_random *r)
{
	uint64_t bits;

	switch (o->values) {
	case DIFF_INDEX:
		bits = (uint64_t)diff_below(r, o->limit > 0 ? o->limit : 1);
		break;
	case DIFF_MODERATE:
	case DIFF_UNITS:
		bits = (uint64_t)diff_between(r, -9, 9);
		break;
	default:
		bits = any_int(r, o->dtype);
	}
	put_bits(element, o->dtype, bits);
}

/* Indices that are just out of range, or far. */
static void put_strays(unsigned char *data, const struct diff_operand *o,
		       int64_t count, struct diff_random *r)
{
	size_t size = kiln_dtype_size_bytes(o->dtype);
	uint64_t most = UINT64_MAX >> (64 - width_of(o->dtype));
	int i;

	if (kiln_dtype_class(o->dtype) == KILN_CLASS_INT)
		most >>= 1;
	for (i = 0; i < o->stray && count > 0; i++) {
		const uint64_t out[] = { (uint64_t)o->limit, most, UINT64_MAX,
					 (uint64_t)o->limit + 1, most + 1 };
		uint64_t bits = out[diff_below(r, 5)];

		put_bits(data + (size_t)diff_below(r, count) * size, o->dtype,
			 bits);
	}
}

/* ---- All ---- */

static void put(void *element, const struct diff_operand *o,
		struct diff_random *r)
{
	switch (kiln_dtype_class(o->dtype)) {
	case KILN_CLASS_FLOAT:
		put_float(element, o, r);
		break;
	case KILN_CLASS_BOOL:
		put_bits(element, o->dtype, diff_bits(r) & 1);
		break;
	default:
		put_int(element, o, r);
	}
}

void diff_values_fill(void *data, const struct diff_operand *operand,
		      int64_t count, uint64_t seed)
{
	struct diff_random r = { seed };
	size_t size = kiln_dtype_size_bytes(operand->dtype);
	size_t n = (size_t)count, i;
	unsigned char *bytes = data;

	for (i = 0; i < n && i < PERIOD; i++)
		put(bytes + i * size, operand, &r);
	for (; i < n; i += PERIOD)
		memcpy(bytes + i * size, bytes,
		       size * (n - i < PERIOD ? n - i : PERIOD));
	put_strays(data, operand, count, &r);
}

void diff_values_magnitudes(double *magnitudes, const void *data,
			    enum kiln_dtype dtype, int64_t count)
{
	size_t size = kiln_dtype_size_bytes(dtype), i;

	for (i = 0; i < (size_t)count; i++) {
		double x = conf_float_decode((const char *)data + i * size,
					     dtype);

		magnitudes[i] = isfinite(x) ? fabs(x) : 0;
	}
}

static struct kiln_scalar int_scalar(uint64_t bits, enum kiln_dtype dtype)
{
	int unused = 64 - width_of(dtype);

	if (kiln_dtype_class(dtype) == KILN_CLASS_UINT)
		return kiln_uint(bits << unused >> unused);
	return kiln_int((int64_t)(bits << unused) >> unused);
}

struct kiln_scalar diff_values_scalar(struct diff_random *random,
				      enum kiln_dtype dtype, double least)
{
	struct diff_operand o = { .dtype = KILN_F64, .values = DIFF_MODERATE,
				  .least = least };
	double x;

	switch (kiln_dtype_class(dtype)) {
	case KILN_CLASS_FLOAT:
		if (diff_once_in(random, 4))
			o.values = DIFF_ANY;
		put_float(&x, &o, random);
		return kiln_float(x);
	case KILN_CLASS_BOOL:
		return kiln_bool(diff_bits(random) & 1);
	default:
		return int_scalar(any_int(random, dtype), dtype);
	}
}
