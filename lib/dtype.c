/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <math.h>

struct dtype_row {
	const char *name;
	uint8_t cls;
};

static const struct dtype_row rows[KILN_DTYPE_COUNT] = {
#define ROW(id, value, name, bytes, cls) { name, KILN_CLASS_##cls },
	KILN_DTYPE_TABLE(ROW)
#undef ROW
};

bool kilni_is_dtype(int dtype)
{
	return dtype >= 0 && dtype < KILN_DTYPE_COUNT;
}

const char *kiln_dtype_name(enum kiln_dtype dtype)
{
	return kilni_is_dtype(dtype) ? rows[dtype].name : "?";
}

size_t kiln_dtype_size_bytes(enum kiln_dtype dtype)
{
	return kilni_is_dtype(dtype) ? kilni_dtype_bytes[dtype] : 0;
}

enum kiln_dtype_class kiln_dtype_class(enum kiln_dtype dtype)
{
	return (enum kiln_dtype_class)rows[dtype].cls;
}

struct kiln_scalar kiln_float(double value)
{
	return (struct kiln_scalar){ KILN_SCALAR_FLOAT, { .f = value } };
}

struct kiln_scalar kiln_int(int64_t value)
{
	return (struct kiln_scalar){ KILN_SCALAR_INT, { .i = value } };
}

struct kiln_scalar kiln_uint(uint64_t value)
{
	return (struct kiln_scalar){ KILN_SCALAR_UINT, { .u = value } };
}

struct kiln_scalar kiln_bool(bool value)
{
	return (struct kiln_scalar){ KILN_SCALAR_BOOL, { .b = value } };
}

/* ---- scalars as kernels take them ---- */

static double scalar_to_double(struct kiln_scalar s)
{
	switch (s.kind) {
	case KILN_SCALAR_INT:
		return (double)s.value.i;
	case KILN_SCALAR_UINT:
		return (double)s.value.u;
	case KILN_SCALAR_BOOL:
		return s.value.b;
	default:
		return s.value.f;
	}
}

/*
 * The double rounded to nearest even in a format of ebits exponent and mbits
 * fraction bits. By integers, so that the caller's rounding and denormal modes
 * have no say.
 */
static uint32_t narrow(double x, int ebits, int mbits)
{
	uint64_t bits, significand, rest, half, value;
	uint32_t top = ((1u << ebits) - 1) << mbits, sign;
	int exponent, shift = 52 - mbits;

	memcpy(&bits, &x, sizeof(x));
	sign = (uint32_t)(bits >> 63) << (ebits + mbits);
	exponent = (int)(bits >> 52 & 0x7ff);
	significand = bits & ((UINT64_C(1) << 52) - 1);
	if (exponent == 0x7ff)
		return sign | top | (significand ? 1u << (mbits - 1) : 0);
	if (exponent == 0)
		return sign;
	significand |= UINT64_C(1) << 52;
	exponent += (1 << (ebits - 1)) - 1 - 1023;
	if (exponent <= 0) {
		shift += 1 - exponent;
		exponent = 1;
	}
	if (shift > 54)
		return sign;
	half = UINT64_C(1) << (shift - 1);
	rest = significand & (2 * half - 1);
	value = significand >> shift;
	value += rest > half || (rest == half && (value & 1));
	/* The leading bit of a normal value counts the exponent up by one. */
	value += (uint64_t)(exponent - 1) << mbits;
	return sign | (value >= top ? top : (uint32_t)value);
}

/* f16 bits as f32 bits, exactly. */
static uint32_t widen_f16(uint32_t half)
{
	uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31;
	uint32_t fraction = half & 0x3ff;

	if (exponent == 31)
		return sign | 0x7f800000 | fraction << 13;
	if (exponent)
		return sign | (exponent + 112) << 23 | fraction << 13;
	if (!fraction)
		return sign;
	for (exponent = 113; !(fraction & 0x400); exponent--)
		fraction <<= 1;
	return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

static uint64_t float_bits(double x, enum kiln_dtype dtype)
{
	uint64_t bits;

	switch (dtype) {
	case KILN_F64:
		memcpy(&bits, &x, sizeof(x));
		return bits;
	case KILN_F16:
		return widen_f16(narrow(x, 5, 10));
	case KILN_BF16:
		return (uint64_t)narrow(x, 8, 7) << 16;
	default:
		return narrow(x, 8, 23);
	}
}

static bool int_fits(int64_t value, size_t bytes)
{
	unsigned shift = (unsigned)(64 - 8 * bytes);

	return (int64_t)((uint64_t)value << shift) >> shift == value;
}

static bool uint_fits(uint64_t value, size_t bytes)
{
	return bytes == 8 || value >> (8 * bytes) == 0;
}

static bool float_to_int(double x, enum kiln_dtype dtype, uint64_t *bits)
{
	bool is_signed = kiln_dtype_class(dtype) == KILN_CLASS_INT;
	size_t bytes = kiln_dtype_size_bytes(dtype);

	x = trunc(x);
	if (is_signed) {
		if (!(x >= -0x1p63 && x < 0x1p63))
			return false;
		*bits = (uint64_t)(int64_t)x;
		return int_fits((int64_t)x, bytes);
	}
	if (!(x >= 0 && x < 0x1p64))
		return false;
	*bits = (uint64_t)x;
	return uint_fits(*bits, bytes);
}

static bool to_int(struct kiln_scalar s, enum kiln_dtype dtype, uint64_t *bits)
{
	bool is_signed = kiln_dtype_class(dtype) == KILN_CLASS_INT;
	size_t bytes = kiln_dtype_size_bytes(dtype);

	if (s.kind == KILN_SCALAR_FLOAT)
		return float_to_int(s.value.f, dtype, bits);
	if (s.kind == KILN_SCALAR_BOOL) {
		*bits = s.value.b;
		return true;
	}
	*bits = s.value.u;
	if (is_signed)
		return (s.kind == KILN_SCALAR_INT || *bits <= INT64_MAX) &&
		       int_fits((int64_t)*bits, bytes);
	return (s.kind == KILN_SCALAR_UINT || s.value.i >= 0) &&
	       uint_fits(*bits, bytes);
}

static bool is_true(struct kiln_scalar s)
{
	switch (s.kind) {
	case KILN_SCALAR_BOOL:
		return s.value.b;
	case KILN_SCALAR_FLOAT:
		return s.value.f != 0 || isnan(s.value.f);
	default:
		return s.value.u != 0;
	}
}

enum kiln_status kilni_scalar_bits(const char *fn, struct kiln_scalar s,
				   enum kiln_dtype dtype, uint64_t *bits)
{
	if ((unsigned)s.kind > KILN_SCALAR_BOOL)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: scalar kind %d is unknown", fn, s.kind);
	switch (kiln_dtype_class(dtype)) {
	case KILN_CLASS_FLOAT:
		*bits = float_bits(scalar_to_double(s), dtype);
		return KILN_OK;
	case KILN_CLASS_BOOL:
		*bits = is_true(s);
		return KILN_OK;
	default:
		if (to_int(s, dtype, bits))
			return KILN_OK;
		return kilni_fail(KILN_ERR_OVERFLOW, 0,
				  "%s: scalar %.17g does not fit %s", fn,
				  scalar_to_double(s), kiln_dtype_name(dtype));
	}
}

/* ---- checks ---- */

static const char *class_names(unsigned classes)
{
	switch (classes) {
	case KILNI_CLASSES_F:
		return "a float";
	case KILNI_CLASSES_I:
		return "an integer";
	case KILNI_CLASSES_N:
		return "a float or an integer";
	case KILNI_CLASSES_B:
		return "a bool";
	default:
		return "known";
	}
}

enum kiln_status kilni_check_class(const char *fn, const struct kiln_tensor *t,
				   unsigned classes)
{
	if (KILNI_LIKELY(kilni_is_class(kilni_dtype(t), classes)))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DTYPE, 0, "%s: dtype %s is not %s", fn,
			  kiln_dtype_name(kilni_dtype(t)),
			  class_names(classes));
}

enum kiln_status kilni_check_dtype(const char *fn,
				   const struct kiln_device *device,
				   enum kiln_dtype dtype, unsigned classes)
{
	if (!kilni_is_dtype(dtype))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: dtype %d is unknown", fn, (int)dtype);
	if (!kilni_is_class(dtype, classes))
		return kilni_fail(KILN_ERR_DTYPE, 0, "%s: dtype %s is not %s",
				  fn, kiln_dtype_name(dtype),
				  class_names(classes));
	if (!kiln_device_supports_dtype(device, dtype))
		return kilni_fail(KILN_ERR_UNSUPPORTED_DTYPE, 0,
				  "%s: %s has no %s", fn, device->selector,
				  kiln_dtype_name(dtype));
	return KILN_OK;
}

enum kiln_status kilni_check_dim(const char *fn, const struct kiln_tensor *t,
				 int dim)
{
	if (dim >= 0 && dim < t->rank)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "%s: dim %d is outside 0..%d", fn, dim,
			  t->rank - 1);
}

enum kiln_status kilni_check_device(const char *fn,
				    const struct kiln_tensor *a,
				    const struct kiln_tensor *b)
{
	if (KILNI_LIKELY(a->device == b->device))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE, 0,
			  "%s: operands are on %s and %s", fn,
			  a->device->selector, b->device->selector);
}

enum kiln_status kilni_check_alike(const char *fn,
				   const struct kiln_tensor *a,
				   const struct kiln_tensor *b)
{
	KILNI_TRY(kilni_check_device(fn, a, b));
	if (KILNI_LIKELY(a->dtype == b->dtype))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DTYPE, 0, "%s: dtypes %s and %s differ", fn,
			  kiln_dtype_name(kilni_dtype(a)),
			  kiln_dtype_name(kilni_dtype(b)));
}
