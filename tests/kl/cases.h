/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_TESTS_KL_CASES_H
#define KILNI_TESTS_KL_CASES_H

#include <stdint.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "kernels/registry.h"

/*
 * Values where targets are known to differ, with the answers worked out by
 * hand. Operands, scalars and results are given as the bits of their storage
 * type (scalars: of the compute type).
 *
 * CASE(name, op, dtypes (out, in0, in1, in2), operands used, scalar mask,
 *      ulp allowed, elements)
 */
#define KL_CASE_MAX 16

struct kl_case {
	const char *name;
	enum kilni_op op;
	uint8_t dtype[4];
	uint8_t arity;
	uint8_t scalars;
	uint8_t ulp;
	uint8_t count;
	uint64_t in[3][KL_CASE_MAX];
	uint64_t scalar[3];
	uint64_t out[KL_CASE_MAX];
};

#define D1(o, a) { o, a, 0, 0 }
#define D2(o, a, b) { o, a, b, 0 }
#define D3(o, a, b, c) { o, a, b, c }
#define F32_1 0x3f800000u
#define F32_INF 0x7f800000u
#define F32_NINF 0xff800000u
#define F32_NAN 0x7fc00000u
#define F32_N0 0x80000000u
#define F64_INF 0x7ff0000000000000u
#define F64_NINF 0xfff0000000000000u
#define F64_NAN 0x7ff8000000000000u
#define F64_N0 0x8000000000000000u
#define I32_MIN 0x80000000u
#define I64_MIN 0x8000000000000000u
#define M1 0xffffffffu
#define M1L 0xffffffffffffffffu

#define ROW(name, op, dtypes, arity, n, a, b, c, out)                          \
	{ name, KILNI_OP_##op, dtypes, arity, 0, 0, n, { a, b, c }, { 0 }, out }
#define ULP(name, op, dtypes, arity, n, u, a, b, out)                          \
	{ name, KILNI_OP_##op, dtypes, arity, 0, u, n, { a, b, { 0 } }, { 0 },  \
	  out }
#define SCALAR(name, op, dtypes, arity, mask, n, a, s1, s2, out)               \
	{ name, KILNI_OP_##op, dtypes, arity, mask, 0, n, { a, { 0 }, { 0 } }, \
	  { 0, s1, s2 }, out }
#define V(...) { __VA_ARGS__ }
#define NONE { 0 }

static const struct kl_case kl_cases[] = {
	ROW("u8 wraps", ADD, D2(KILN_U8, KILN_U8, KILN_U8), 2, 3,
	    V(255, 200, 0), V(1, 100, 0), NONE, V(0, 44, 0)),
	ROW("i8 wraps", ADD, D2(KILN_I8, KILN_I8, KILN_I8), 2, 3,
	    V(127, 0x80, 0xff), V(1, 0xff, 1), NONE, V(0x80, 0x7f, 0)),
	ROW("u16 product", MUL, D2(KILN_U16, KILN_U16, KILN_U16), 2, 2,
	    V(65535, 256), V(65535, 256), NONE, V(1, 0)),
	ROW("i32 product", MUL, D2(KILN_I32, KILN_I32, KILN_I32), 2, 2,
	    V(I32_MIN, 0x10000), V(M1, 0x10000), NONE, V(I32_MIN, 0)),
	ROW("i64 product", MUL, D2(KILN_I64, KILN_I64, KILN_I64), 2, 2,
	    V(I64_MIN, 0x100000000u), V(M1L, 0x100000000u), NONE,
	    V(I64_MIN, 0)),
	ROW("i32 div", DIV, D2(KILN_I32, KILN_I32, KILN_I32), 2, 6,
	    V(I32_MIN, 1, 0, (uint32_t)-7, 7, (uint32_t)-7),
	    V(M1, 0, 0, 3, (uint32_t)-3, (uint32_t)-3), NONE,
	    V(I32_MIN, 0, 0, (uint32_t)-2, (uint32_t)-2, 2)),
	ROW("i64 div", DIV, D2(KILN_I64, KILN_I64, KILN_I64), 2, 4,
	    V(I64_MIN, 1, (uint64_t)-7, 9000000000000000001u),
	    V(M1L, 0, 3, 10), NONE,
	    V(I64_MIN, 0, (uint64_t)-2, 900000000000000000u)),
	ROW("i8 div", DIV, D2(KILN_I8, KILN_I8, KILN_I8), 2, 3,
	    V(0x80, 5, 0xf9), V(0xff, 0, 3), NONE, V(0x80, 0, 0xfe)),
	ROW("u32 div", DIV, D2(KILN_U32, KILN_U32, KILN_U32), 2, 3,
	    V(M1, M1, 7), V(2, 0, M1), NONE, V(0x7fffffff, 0, 0)),
	ROW("u64 div", DIV, D2(KILN_U64, KILN_U64, KILN_U64), 2, 2,
	    V(M1L, 7), V(10, 0), NONE, V(1844674407370955161u, 0)),
	ROW("i32 rem", REMAINDER, D2(KILN_I32, KILN_I32, KILN_I32), 2, 7,
	    V((uint32_t)-7, 7, (uint32_t)-7, 7, I32_MIN, 3, I32_MIN),
	    V(3, (uint32_t)-3, (uint32_t)-3, 3, M1, 0, 0), NONE,
	    V(2, (uint32_t)-2, M1, 1, 0, 3, I32_MIN)),
	ROW("u32 rem", REMAINDER, D2(KILN_U32, KILN_U32, KILN_U32), 2, 3,
	    V(10, M1, 4), V(3, 10, 0), NONE, V(1, 5, 4)),
	ROW("i8 rem", REMAINDER, D2(KILN_I8, KILN_I8, KILN_I8), 2, 2,
	    V(0x80, 0x80), V(0xff, 0), NONE, V(0, 0x80)),
	ROW("f32 rem", REMAINDER, D2(KILN_F32, KILN_F32, KILN_F32), 2, 8,
	    V(0xc0b00000, 0x40b00000, 0x40a00000, 0xc0a00000, F32_INF, F32_1,
	      0x7f7fffff, 0),
	    V(0x40000000, 0xc0000000, F32_INF, F32_INF, F32_1, 0, 0x40400000,
	      F32_NINF), NONE,
	    V(0x3f000000, 0xbf000000, 0x40a00000, F32_INF, F32_NAN, F32_NAN, 0,
	      0)),
	ROW("i32 left shift", BITWISE_LEFT_SHIFT,
	    D2(KILN_I32, KILN_I32, KILN_I32), 2, 5, V(1, 1, 1, 1, 3),
	    V(31, 32, 33, M1, 0), NONE, V(I32_MIN, 0, 0, 0, 3)),
	ROW("i32 right shift", BITWISE_RIGHT_SHIFT,
	    D2(KILN_I32, KILN_I32, KILN_I32), 2, 5,
	    V(I32_MIN, I32_MIN, I32_MIN, 0x7fffffff, I32_MIN),
	    V(31, 32, M1, 40, 1), NONE, V(M1, M1, M1, 0, 0xc0000000)),
	ROW("u32 right shift", BITWISE_RIGHT_SHIFT,
	    D2(KILN_U32, KILN_U32, KILN_U32), 2, 3, V(M1, M1, M1),
	    V(31, 32, M1), NONE, V(1, 0, 0)),
	ROW("i8 shifts", BITWISE_RIGHT_SHIFT, D2(KILN_I8, KILN_I8, KILN_I8), 2,
	    4, V(0x80, 0x80, 0x7f, 0x80), V(7, 8, 8, 0xff), NONE,
	    V(0xff, 0xff, 0, 0xff)),
	ROW("u8 left shift", BITWISE_LEFT_SHIFT, D2(KILN_U8, KILN_U8, KILN_U8),
	    2, 3, V(0xff, 0xff, 1), V(4, 8, 200), NONE, V(0xf0, 0, 0)),
	ROW("i64 shifts", BITWISE_LEFT_SHIFT, D2(KILN_I64, KILN_I64, KILN_I64),
	    2, 3, V(1, 1, 1), V(63, 64, 0x100000000u), NONE, V(I64_MIN, 0, 0)),
	ROW("u64 right shift", BITWISE_RIGHT_SHIFT,
	    D2(KILN_U64, KILN_U64, KILN_U64), 2, 2, V(M1L, M1L), V(63, 64),
	    NONE, V(1, 0)),
	ROW("f32 to i32", CAST, D1(KILN_I32, KILN_F32), 1, 8,
	    V(F32_NAN, F32_INF, F32_NINF, 0x4f32d05e, 0xbff33333, 0x3ff33333,
	      0xcf000000, F32_N0), NONE, NONE,
	    V(0, 0x7fffffff, I32_MIN, 0x7fffffff, M1, 1, I32_MIN, 0)),
	ROW("f32 to u32", CAST, D1(KILN_U32, KILN_F32), 1, 6,
	    V(F32_NAN, F32_INF, F32_NINF, 0x4f32d05e, 0xbff33333, 0x4f7fffff),
	    NONE, NONE, V(0, M1, 0, 3000000000u, 0, 0xffffff00)),
	ROW("f32 to i64", CAST, D1(KILN_I64, KILN_F32), 1, 5,
	    V(F32_NAN, F32_INF, F32_NINF, 0x5f000000, 0x5effffff), NONE, NONE,
	    V(0, 0x7fffffffffffffffu, I64_MIN, 0x7fffffffffffffffu,
	      0x7fffff8000000000u)),
	ROW("f32 to u64", CAST, D1(KILN_U64, KILN_F32), 1, 4,
	    V(F32_NAN, F32_INF, F32_NINF, 0x5f400000), NONE, NONE,
	    V(0, M1L, 0, 0xc000000000000000u)),
	ROW("f32 to u8", CAST, D1(KILN_U8, KILN_F32), 1, 6,
	    V(0xc0400000, 0x43960000, F32_NAN, F32_INF, 0x437f8000, F32_NINF),
	    NONE, NONE, V(0, 255, 0, 255, 255, 0)),
	ROW("f32 to i8", CAST, D1(KILN_I8, KILN_F32), 1, 4,
	    V(0x43960000, 0xc3960000, F32_NAN, 0xbff33333), NONE, NONE,
	    V(127, 0x80, 0, 0xff)),
	ROW("f64 to i64", CAST, D1(KILN_I64, KILN_F64), 1, 4,
	    V(F64_NAN, F64_INF, F64_NINF, 0xbffe666666666666u), NONE, NONE,
	    V(0, 0x7fffffffffffffffu, I64_MIN, M1L)),
	ROW("f64 to i32", CAST, D1(KILN_I32, KILN_F64), 1, 4,
	    V(F64_NAN, F64_INF, 0xc1e0000000100000u, 0x41dfffffffe00000u),
	    NONE, NONE, V(0, 0x7fffffff, I32_MIN, 0x7fffffff)),
	ROW("f32 to bool", CAST, D1(KILN_BOOL, KILN_F32), 1, 5,
	    V(F32_NAN, 0, F32_N0, F32_1, F32_INF), NONE, NONE,
	    V(1, 0, 0, 1, 1)),
	ROW("bool to f32", CAST, D1(KILN_F32, KILN_BOOL), 1, 3, V(0, 1, 7),
	    NONE, NONE, V(0, F32_1, F32_1)),
	ROW("i32 to i8", CAST, D1(KILN_I8, KILN_I32), 1, 3,
	    V(300, 128, (uint32_t)-129), NONE, NONE, V(44, 0x80, 0x7f)),
	ROW("i64 to f32", CAST, D1(KILN_F32, KILN_I64), 1, 4,
	    V(16777217, 16777219, 0x8000004000000001u, 0x7fffffffffffffffu),
	    NONE, NONE, V(0x4b800000, 0x4b800002, 0xdeffffff, 0x5f000000)),
	ROW("u64 to f32", CAST, D1(KILN_F32, KILN_U64), 1, 3,
	    V(M1L, 0x8000008000000001u, 0x8000008000000000u), NONE, NONE,
	    V(0x5f800000, 0x5f000001, 0x5f000000)),
	ROW("i32 to f32", CAST, D1(KILN_F32, KILN_I32), 1, 3,
	    V(16777217, I32_MIN, (uint32_t)-16777219), NONE, NONE,
	    V(0x4b800000, 0xcf000000, 0xcb800002)),
	ROW("f64 to f16", CAST, D1(KILN_F16, KILN_F64), 1, 6,
	    V(0x40f1170000000000u, 0x40effdffffffffffu, 0x3ff0020000000001u,
	      0x3ff0020000000000u, 0x3e70000000000000u, F64_N0), NONE, NONE,
	    V(0x7c00, 0x7bff, 0x3c01, 0x3c00, 1, 0x8000)),
	ROW("f64 to bf16", CAST, D1(KILN_BF16, KILN_F64), 1, 3,
	    V(0x3ff0100000000001u, 0x3ff0100000000000u, 0x47effffffffffffeu),
	    NONE, NONE, V(0x3f81, 0x3f80, 0x7f80)),
	ROW("i32 to f16", CAST, D1(KILN_F16, KILN_I32), 1, 3,
	    V(2049, 65519, 65520), NONE, NONE, V(0x6800, 0x7bff, 0x7c00)),
	ROW("i64 to bf16", CAST, D1(KILN_BF16, KILN_I64), 1, 2,
	    V(0x0101000000000001u, 0x0101000000000000u), NONE, NONE,
	    V(0x5b81, 0x5b80)),
	ROW("f16 add", ADD, D2(KILN_F16, KILN_F16, KILN_F16), 2, 5,
	    V(0x7bff, 1, 0x3c00, 0x8000, 0x7c00),
	    V(0x7bff, 1, 0x1000, 0x8000, 0xfc00), NONE,
	    V(0x7c00, 2, 0x3c00, 0x8000, 0x7e00)),
	ROW("bf16 add", ADD, D2(KILN_BF16, KILN_BF16, KILN_BF16), 2, 3,
	    V(0x3f80, 0x3f81, 0x7f7f), V(0x3b80, 0x3b80, 0x7f7f), NONE,
	    V(0x3f80, 0x3f82, 0x7f80)),
	ROW("f32 minus zero", ADD, D2(KILN_F32, KILN_F32, KILN_F32), 2, 3,
	    V(F32_N0, F32_N0, 0), V(F32_N0, 0, F32_N0), NONE,
	    V(F32_N0, 0, 0)),
	ROW("f32 sub", SUB, D2(KILN_F32, KILN_F32, KILN_F32), 2, 4,
	    V(F32_INF, F32_NAN, F32_1, F32_N0), V(F32_INF, F32_NAN, F32_1, 0),
	    NONE, V(F32_NAN, F32_NAN, 0, F32_N0)),
	ROW("f32 denormals", MUL, D2(KILN_F32, KILN_F32, KILN_F32), 2, 4,
	    V(0x000116c2, 0x00800000, 0x00000001, 0x00000003),
	    V(F32_1, 0x3f000000, 0x3f000000, 0x3f000000), NONE,
	    V(0x000116c2, 0x00400000, 0, 2)),
	ROW("f32 div", DIV, D2(KILN_F32, KILN_F32, KILN_F32), 2, 6,
	    V(F32_1, 0x7f7fffff, 0, F32_1, F32_NINF, F32_1),
	    V(0x40400000, 0x7f7fffff, 0, F32_N0, F32_INF, 0x41200000), NONE,
	    V(0x3eaaaaab, F32_1, F32_NAN, F32_NINF, F32_NAN, 0x3dcccccd)),
	ROW("f32 sqrt", SQRT, D1(KILN_F32, KILN_F32), 1, 5,
	    V(0x40000000, F32_N0, 0xbf800000, 0x00000001, F32_INF), NONE, NONE,
	    V(0x3fb504f3, F32_N0, F32_NAN, 0x1a3504f3, F32_INF)),
	ROW("f32 neg", NEG, D1(KILN_F32, KILN_F32), 1, 3, V(0, F32_N0, F32_1),
	    NONE, NONE, V(F32_N0, 0, 0xbf800000)),
	ROW("f32 abs", ABS, D1(KILN_F32, KILN_F32), 1, 2, V(F32_N0, F32_NINF),
	    NONE, NONE, V(0, F32_INF)),
	ROW("i8 abs", ABS, D1(KILN_I8, KILN_I8), 1, 2, V(0x80, 0xff), NONE,
	    NONE, V(0x80, 1)),
	ROW("f32 sign", SIGN, D1(KILN_F32, KILN_F32), 1, 4,
	    V(F32_N0, F32_NAN, F32_NINF, 1), NONE, NONE,
	    V(0, F32_NAN, 0xbf800000, F32_1)),
	ROW("f32 round", ROUND, D1(KILN_F32, KILN_F32), 1, 6,
	    V(0x3f000000, 0x3fc00000, 0xbf000000, 0x4b000001, 0x40200000,
	      0x4affffff), NONE, NONE,
	    V(0, 0x40000000, F32_N0, 0x4b000001, 0x40000000, 0x4b000000)),
	ROW("f32 floor", FLOOR, D1(KILN_F32, KILN_F32), 1, 4,
	    V(0xbf000000, F32_N0, 0x3fffffff, F32_NINF), NONE, NONE,
	    V(0xbf800000, F32_N0, F32_1, F32_NINF)),
	ROW("f32 ceil", CEIL, D1(KILN_F32, KILN_F32), 1, 3,
	    V(0xbf000000, 0x3f800001, F32_INF), NONE, NONE,
	    V(F32_N0, 0x40000000, F32_INF)),
	ROW("f32 trunc", TRUNC, D1(KILN_F32, KILN_F32), 1, 3,
	    V(0xbf7fffff, 0x3fffffff, 0xcf000000), NONE, NONE,
	    V(F32_N0, F32_1, 0xcf000000)),
	ROW("f32 is_nan", IS_NAN, D1(KILN_BOOL, KILN_F32), 1, 4,
	    V(F32_NAN, 0xff800001, F32_INF, 0), NONE, NONE, V(1, 1, 0, 0)),
	ROW("f32 is_inf", IS_INF, D1(KILN_BOOL, KILN_F32), 1, 4,
	    V(F32_NAN, F32_NINF, F32_INF, 0x7f7fffff), NONE, NONE,
	    V(0, 1, 1, 0)),
	ROW("f32 equal", EQUAL, D2(KILN_BOOL, KILN_F32, KILN_F32), 2, 3,
	    V(F32_NAN, F32_N0, F32_1), V(F32_NAN, 0, F32_1), NONE,
	    V(0, 1, 1)),
	ROW("f32 not equal", NOT_EQUAL, D2(KILN_BOOL_U32, KILN_F32, KILN_F32),
	    2, 3, V(F32_NAN, F32_N0, F32_1), V(F32_NAN, 0, F32_1), NONE,
	    V(1, 0, 0)),
	ROW("bool equal", EQUAL, D2(KILN_BOOL, KILN_BOOL, KILN_BOOL), 2, 4,
	    V(2, 0, 1, 0), V(1, 0, 0, 8), NONE, V(1, 1, 0, 0)),
	ROW("bool xor", LOGICAL_XOR, D2(KILN_BOOL, KILN_BOOL, KILN_BOOL), 2, 3,
	    V(2, 0, 1), V(1, 4, 0), NONE, V(0, 1, 1)),
	ROW("u64 greater", GREATER, D2(KILN_BOOL, KILN_U64, KILN_U64), 2, 2,
	    V(M1L, 0), V(1, M1L), NONE, V(1, 0)),
	ROW("i64 lower", LOWER, D2(KILN_BOOL, KILN_I64, KILN_I64), 2, 2,
	    V(I64_MIN, 0), V(1, M1L), NONE, V(1, 0)),
	ROW("mask where", MASK_WHERE,
	    D3(KILN_F32, KILN_F32, KILN_F32, KILN_BOOL), 3, 3,
	    V(F32_1, F32_NAN, 3), V(5, 6, F32_NAN), V(1, 7, 0),
	    V(5, 6, 3)),
	SCALAR("mask fill", MASK_FILL,
	       D3(KILN_F16, KILN_F16, KILN_F16, KILN_BOOL), 3, 2, 2,
	       V(1, 2), F32_NINF, 0, V(1, 2)),
	SCALAR("f32 clamp", CLAMP, D3(KILN_F32, KILN_F32, KILN_F32, KILN_F32),
	       3, 6, 4, V(F32_NAN, 0x40400000, F32_NINF, 0x40000000),
	       0x40a00000, 0x40000000,
	       V(F32_NAN, 0x40000000, 0x40000000, 0x40000000)),
	SCALAR("i8 add scalar", ADD, D2(KILN_I8, KILN_I8, KILN_I8), 2, 2, 2,
	       V(127, 0), M1, 0, V(126, 0xff)),
	ROW("i32 pow", POWI, D2(KILN_I32, KILN_I32, KILN_I32), 2, 8,
	    V(2, M1, M1, 2, 1, 0, 0, 3),
	    V(31, (uint32_t)-3, (uint32_t)-2, M1, (uint32_t)-5, M1, 0, 21),
	    NONE, V(I32_MIN, M1, 1, 0, 1, 0, 1, 0x6f7c52b3)),
	ROW("f32 pow of i32", POWI, D2(KILN_F32, KILN_F32, KILN_I32), 2, 6,
	    V(F32_NAN, 0x40400000, 0xc0000000, 0xc0000000, 0, 0x40800000),
	    V(0, 2, 3, (uint32_t)-1, (uint32_t)-1, 1), NONE,
	    V(F32_1, 0x41100000, 0xc1000000, 0xbf000000, F32_INF, 0x40800000)),
	ULP("f32 pow", POWF, D2(KILN_F32, KILN_F32, KILN_F32), 2, 8, 2,
	    V(F32_NAN, F32_1, 0xbf800000, 0, 0xc0000000, 0x40000000, F32_NINF,
	      0x3f7ffffe),
	    V(0, F32_NAN, F32_INF, 0xbf800000, 0x3f000000, 0x41200000,
	      0x40400000, 0x4c000000),
	    V(F32_1, F32_1, F32_1, F32_INF, F32_NAN, 0x44800000, F32_NINF,
	      0x3c960aab)),
	ULP("f32 exp", EXP, D1(KILN_F32, KILN_F32), 1, 8, 1,
	    V(0, F32_N0, F32_1, F32_NINF, F32_INF, F32_NAN, 0xc2d00000,
	      0x42b20000), NONE,
	    V(F32_1, F32_1, 0x402df854, 0, F32_INF, F32_NAN, 0, F32_INF)),
	ULP("f32 log", LOG, D1(KILN_F32, KILN_F32), 1, 7, 1,
	    V(F32_1, 0, 0xbf800000, F32_INF, 0x402df854, F32_N0, 1), NONE,
	    V(0, F32_NINF, F32_NAN, F32_INF, F32_1, F32_NINF, 0xc2ce8ed0)),
	ULP("f32 log1p", LOG1P, D1(KILN_F32, KILN_F32), 1, 6, 1,
	    V(0x2edbe6ff, 0xb3d6bf95, F32_N0, 0xbf800000, 0xc0000000, F32_INF),
	    NONE,
	    V(0x2edbe6ff, 0xb3d6bf96, F32_N0, F32_NINF, F32_NAN, F32_INF)),
	ULP("f32 tanh", TANH, D1(KILN_F32, KILN_F32), 1, 6, 2,
	    V(0x42c80000, 0xc2c80000, F32_N0, 1, F32_NAN, F32_1), NONE,
	    V(F32_1, 0xbf800000, F32_N0, 1, F32_NAN, 0x3f42f7d6)),
	ULP("f32 erf", ERF, D1(KILN_F32, KILN_F32), 1, 5, 2,
	    V(0x3f000000, F32_INF, F32_NINF, F32_N0, F32_NAN), NONE,
	    V(0x3f053f7b, F32_1, 0xbf800000, F32_N0, F32_NAN)),
	ULP("f32 sin", SIN, D1(KILN_F32, KILN_F32), 1, 6, 1,
	    V(F32_N0, F32_1, 0x7f7fffff, F32_INF, F32_NAN, 0x49742400), NONE,
	    V(F32_N0, 0x3f576aa4, 0xbf0599b3, F32_NAN, F32_NAN, 0xbeb33259)),
	ULP("f32 gelu", GELU, D1(KILN_F32, KILN_F32), 1, 6, 6,
	    V(0xbf800000, 0xc0a00000, 0x40400000, F32_NINF, F32_INF, F32_N0),
	    NONE,
	    V(0xbe227686, 0xb5c05e5d, 0x403fbda6, F32_N0, F32_INF, F32_N0)),
	ULP("f64 exp", EXP, D1(KILN_F64, KILN_F64), 1, 4, 1,
	    V(0, 0x3ff0000000000000u, F64_NINF, F64_NAN), NONE,
	    V(0x3ff0000000000000u, 0x4005bf0a8b145769u, 0, F64_NAN)),
	SCALAR("f16 full", FULL, D1(KILN_F16, KILN_F16), 1, 1, 2, NONE, 0, 0,
	       V(0, 0)),
};

#define KL_CASES (sizeof(kl_cases) / sizeof(kl_cases[0]))

#endif
