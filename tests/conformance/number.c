/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a 16-bit float is divided; the sign is bit 15. */
struct layout {
	int exponent_bits, mantissa_bits;
};

static const struct layout half = { 5, 10 };
static const struct layout brain = { 8, 7 };

static int least_exponent(const struct layout *l)
{
	return 2 - (1 << (l->exponent_bits - 1));
}

static uint16_t infinity_bits(const struct layout *l)
{
	return (uint16_t)(((1 << l->exponent_bits) - 1) << l->mantissa_bits);
}

/* Nearest integer of a non-negative number, ties to even. */
static double round_even(double x)
{
	double down = floor(x), rest = x - down;

	if (rest > 0.5 || (rest == 0.5 && fmod(down, 2) == 1))
		return down + 1;
	return down;
}

static uint16_t encode16(double x, const struct layout *l)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	int exponent, quantum;
	double units, bits;

	if (isinf(x))
		return sign | infinity_bits(l);
	if (isnan(x)) /* all bits set: a quiet one in every layout */
		return 0x7fff;
	frexp(x, &exponent);
	exponent--;
	if (exponent < least_exponent(l) || x == 0)
		exponent = least_exponent(l);
	quantum = exponent - l->mantissa_bits;
	units = round_even(ldexp(fabs(x), -quantum));
	/* A carry out of the mantissa is a carry into the exponent. */
	bits = ldexp(exponent - least_exponent(l), l->mantissa_bits) + units;
	if (bits >= infinity_bits(l))
		return sign | infinity_bits(l);
	return (uint16_t)(sign | (uint16_t)bits);
}

static double decode16(uint16_t bits, const struct layout *l)
{
	int mantissa = bits & ((1 << l->mantissa_bits) - 1);
	int exponent = (bits & 0x7fff) >> l->mantissa_bits;
	double x;

	if (exponent == (1 << l->exponent_bits) - 1)
		x = mantissa ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		x = ldexp(mantissa, least_exponent(l) - l->mantissa_bits);
	else
		x = ldexp(mantissa + (1 << l->mantissa_bits),
			  least_exponent(l) - l->mantissa_bits + exponent - 1);
	return bits & 0x8000 ? -x : x;
}

static const struct layout *layout16(enum kiln_dtype dtype)
{
	return dtype == KILN_F16 ? &half : &brain;
}

void conf_float_encode(void *element, enum kiln_dtype dtype, double x)
{
	float f = (float)x;
	uint16_t bits;

	switch (kiln_dtype_size_bytes(dtype)) {
	case 8:
		memcpy(element, &x, 8);
		break;
	case 4:
		memcpy(element, &f, 4);
		break;
	default:
		bits = encode16(x, layout16(dtype));
		memcpy(element, &bits, 2);
	}
}

double conf_float_decode(const void *element, enum kiln_dtype dtype)
{
	double x;
	float f;
	uint16_t bits;

	switch (kiln_dtype_size_bytes(dtype)) {
	case 8:
		memcpy(&x, element, 8);
		return x;
	case 4:
		memcpy(&f, element, 4);
		return (double)f;
	default:
		memcpy(&bits, element, 2);
		return decode16(bits, layout16(dtype));
	}
}

bool conf_int_encode(void *element, enum kiln_dtype dtype, struct conf_int x)
{
	size_t bytes = kiln_dtype_size_bytes(dtype);
	bool is_signed = kiln_dtype_class(dtype) == KILN_CLASS_INT;
	uint64_t most = UINT64_MAX >> (64 - 8 * bytes + (is_signed ? 1 : 0));
	uint64_t bits = x.negative ? -x.magnitude : x.magnitude;

	if (x.negative && x.magnitude > 0)
		most = is_signed ? most + 1 : 0;
	if (x.magnitude > most)
		return false;
	memcpy(element, &bits, bytes);
	return true;
}

struct conf_int conf_int_decode(const void *element, enum kiln_dtype dtype)
{
	int unused_bits = 64 - 8 * (int)kiln_dtype_size_bytes(dtype);
	struct conf_int x = { false, 0 };
	uint64_t bits = 0;

	memcpy(&bits, element, kiln_dtype_size_bytes(dtype));
	if (kiln_dtype_class(dtype) == KILN_CLASS_INT)
		x.negative = bits >> (63 - unused_bits) & 1;
	x.magnitude = x.negative ? -(bits << unused_bits) >> unused_bits : bits;
	return x;
}

bool conf_int_parse(struct conf_int *x, const char *text)
{
	const char *digits = text + (*text == '-');
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	x->negative = digits != text;
	x->magnitude = strtoull(digits, &end, 10);
	return errno == 0 && *end == '\0' &&
	       !(x->negative && x->magnitude > (uint64_t)1 << 63);
}
