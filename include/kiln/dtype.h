/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_DTYPE_H
#define KILN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>

KILN_BEGIN_DECLS

/*
 * Element types. The one table of them:
 * enumerator, value, name, bytes of an element, class.
 *
 * FLEX32 is stored and computed as F32. The three bool dtypes differ in how an
 * element is stored: one byte (native and u8) or four; kiln writes 0 or 1 and
 * reads anything but 0 as true.
 */
#define KILN_DTYPE_TABLE(X)                                                    \
	X(KILN_F64, 0, "f64", 8, FLOAT)                                        \
	X(KILN_F32, 1, "f32", 4, FLOAT)                                        \
	X(KILN_FLEX32, 2, "flex32", 4, FLOAT)                                  \
	X(KILN_F16, 3, "f16", 2, FLOAT)                                        \
	X(KILN_BF16, 4, "bf16", 2, FLOAT)                                      \
	X(KILN_I64, 5, "i64", 8, INT)                                          \
	X(KILN_I32, 6, "i32", 4, INT)                                          \
	X(KILN_I16, 7, "i16", 2, INT)                                          \
	X(KILN_I8, 8, "i8", 1, INT)                                            \
	X(KILN_U64, 9, "u64", 8, UINT)                                         \
	X(KILN_U32, 10, "u32", 4, UINT)                                        \
	X(KILN_U16, 11, "u16", 2, UINT)                                        \
	X(KILN_U8, 12, "u8", 1, UINT)                                          \
	X(KILN_BOOL, 13, "bool", 1, BOOL)                                      \
	X(KILN_BOOL_U8, 14, "bool(u8)", 1, BOOL)                               \
	X(KILN_BOOL_U32, 15, "bool(u32)", 4, BOOL)

enum kiln_dtype {
#define KILN_DTYPE_ENUM_(id, value, name, bytes, cls) id = value,
	KILN_DTYPE_TABLE(KILN_DTYPE_ENUM_)
#undef KILN_DTYPE_ENUM_
	KILN_DTYPE_COUNT = 16
};

/* INT are the signed integers, UINT the unsigned. */
enum kiln_dtype_class {
	KILN_CLASS_FLOAT = 0,
	KILN_CLASS_INT = 1,
	KILN_CLASS_UINT = 2,
	KILN_CLASS_BOOL = 3
};

/*
 * What a device can do with a dtype, a set of bits. An empty set is a legal
 * answer. "Supported" means STORAGE and ARITHMETIC. DENORMALS is of floats:
 * where it is missing, ops may take a number nearer to 0 than the least normal
 * one (2^-126 of f32 and bf16, 2^-1022 of f64) for 0, and give 0 in its place.
 */
enum kiln_dtype_usage {
	KILN_USAGE_STORAGE = 1,     /* hold and convert */
	KILN_USAGE_ARITHMETIC = 2,  /* all general ops */
	KILN_USAGE_ACCELERATED = 4, /* matrix or dot-product instructions */
	KILN_USAGE_DENORMALS = 8    /* denormal numbers are kept */
};

/**
 * kiln_dtype_name - "f32", "bool(u8)", ...; "?" for a value outside the table
 *
 * Never fails. Thread-safe, does not block.
 */
KILN_API const char *kiln_dtype_name(enum kiln_dtype dtype);

/**
 * kiln_dtype_size_bytes - bytes of one element, 0 for a value outside the table
 *
 * Never fails. Thread-safe, does not block.
 */
KILN_API size_t kiln_dtype_size_bytes(enum kiln_dtype dtype);

/**
 * kiln_dtype_class - float, signed, unsigned or bool
 *
 * The value must be of the table. Thread-safe, does not block.
 */
KILN_API enum kiln_dtype_class kiln_dtype_class(enum kiln_dtype dtype);

/* Kind of a scalar argument. */
enum kiln_scalar_kind {
	KILN_SCALAR_FLOAT = 0,
	KILN_SCALAR_INT = 1,
	KILN_SCALAR_UINT = 2,
	KILN_SCALAR_BOOL = 3
};

/*
 * A number that travels with an op. The op converts it to the dtype of its
 * tensor first: floats round to nearest even, a number that an integer dtype
 * cannot hold is refused with KILN_ERR_OVERFLOW, a fraction is cut off.
 */
struct kiln_scalar {
	enum kiln_scalar_kind kind;
	union {
		double f;
		int64_t i;
		uint64_t u;
		bool b;
	} value;
};

/** kiln_float - a scalar of kind float. Cannot fail. */
KILN_API struct kiln_scalar kiln_float(double value);
/** kiln_int - a scalar of kind signed integer. Cannot fail. */
KILN_API struct kiln_scalar kiln_int(int64_t value);
/** kiln_uint - a scalar of kind unsigned integer. Cannot fail. */
KILN_API struct kiln_scalar kiln_uint(uint64_t value);
/** kiln_bool - a scalar of kind bool. Cannot fail. */
KILN_API struct kiln_scalar kiln_bool(bool value);

KILN_END_DECLS

#endif
