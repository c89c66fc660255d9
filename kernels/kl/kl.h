/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KL_H
#define KILNI_KL_H

/*
 * The kernel language's dialect for C (the CPU) and for CUDA C as clang
 * compiles it to PTX. kl_glsl.h is the dialect for GLSL. README.md has the
 * rules of the language.
 */

#include <stdbool.h>
#include <stdint.h>

typedef int32_t i32;
typedef uint32_t u32;
typedef long i64;
typedef unsigned long u64;
typedef float f32;
typedef double f64;

#ifdef __CUDA__
#define KL_TARGET_CUDA 1
#define KL_DEVICE_ __attribute__((device))
#define KL_FN                                                                  \
	KL_DEVICE_ static inline __attribute__((always_inline, unused))
#define KL_FN_LARGE KL_DEVICE_ static __attribute__((noinline, unused))
#define KL_TABLE KL_DEVICE_ static const
#define KL_STRUCT(name) struct name
#else
#define KL_TARGET_C 1
#define KL_FN static inline __attribute__((always_inline, unused))
#define KL_FN_LARGE static __attribute__((noinline, unused))
#define KL_TABLE static const
#define KL_STRUCT(name)                                                        \
	typedef struct name name;                                              \
	struct name
#endif

#define KL_OUT
#define KL_LIT_f32(x) x##f
#define KL_LIT_f64(x) x

/* Bit casts. */
KL_FN u32 kl_bits_f32(f32 x) { u32 u; __builtin_memcpy(&u, &x, 4); return u; }
KL_FN f32 kl_make_f32(u32 u) { f32 x; __builtin_memcpy(&x, &u, 4); return x; }
KL_FN u64 kl_bits_f64(f64 x) { u64 u; __builtin_memcpy(&u, &x, 8); return u; }
KL_FN f64 kl_make_f64(u64 u) { f64 x; __builtin_memcpy(&x, &u, 8); return x; }

/* Conversions that are exact, wrap, or round to nearest even. */
KL_FN i32 kl_i32_of_u32(u32 x) { return (i32)x; }
KL_FN i32 kl_i32_of_i64(i64 x) { return (i32)x; }
KL_FN i32 kl_i32_of_u64(u64 x) { return (i32)x; }
KL_FN u32 kl_u32_of_i32(i32 x) { return (u32)x; }
KL_FN u32 kl_u32_of_i64(i64 x) { return (u32)x; }
KL_FN u32 kl_u32_of_u64(u64 x) { return (u32)x; }
KL_FN i64 kl_i64_of_i32(i32 x) { return (i64)x; }
KL_FN i64 kl_i64_of_u32(u32 x) { return (i64)x; }
KL_FN i64 kl_i64_of_u64(u64 x) { return (i64)x; }
KL_FN u64 kl_u64_of_i32(i32 x) { return (u64)(i64)x; }
KL_FN u64 kl_u64_of_u32(u32 x) { return (u64)x; }
KL_FN u64 kl_u64_of_i64(i64 x) { return (u64)x; }
KL_FN f32 kl_f32_of_f64(f64 x) { return (f32)x; }
KL_FN f32 kl_f32_of_i32(i32 x) { return (f32)x; }
KL_FN f32 kl_f32_of_u32(u32 x) { return (f32)x; }
KL_FN f32 kl_f32_of_i64(i64 x) { return (f32)x; }
KL_FN f32 kl_f32_of_u64(u64 x) { return (f32)x; }
KL_FN f64 kl_f64_of_f32(f32 x) { return (f64)x; }
KL_FN f64 kl_f64_of_i32(i32 x) { return (f64)x; }
KL_FN f64 kl_f64_of_u32(u32 x) { return (f64)x; }
KL_FN f64 kl_f64_of_i64(i64 x) { return (f64)x; }
KL_FN f64 kl_f64_of_u64(u64 x) { return (f64)x; }

/* Of a float that is known to fit, fraction cut off. */
KL_FN i32 kl_i32_in_f32(f32 x) { return (i32)x; }
KL_FN i32 kl_i32_in_f64(f64 x) { return (i32)x; }
KL_FN i64 kl_i64_in_f32(f32 x) { return (i64)x; }
KL_FN i64 kl_i64_in_f64(f64 x) { return (i64)x; }

/* Correctly rounded. */
KL_FN f32 kl_div_f32(f32 a, f32 b) { return a / b; }
KL_FN f64 kl_div_f64(f64 a, f64 b) { return a / b; }
KL_FN f32 kl_sqrt_f32(f32 x) { return __builtin_sqrtf(x); }
KL_FN f64 kl_sqrt_f64(f64 x) { return __builtin_sqrt(x); }

/* Integer quotients; the divisor is not 0 and does not overflow. */
KL_FN i32 kl_quot_i32(i32 a, i32 b) { return a / b; }
KL_FN u32 kl_quot_u32(u32 a, u32 b) { return a / b; }
KL_FN i64 kl_quot_i64(i64 a, i64 b) { return a / b; }
KL_FN u64 kl_quot_u64(u64 a, u64 b) { return a / b; }

/* Shifts; the count is below the width. */
KL_FN u32 kl_shl_u32(u32 x, u32 n) { return x << n; }
KL_FN u64 kl_shl_u64(u64 x, u32 n) { return x << n; }
KL_FN u32 kl_shr_u32(u32 x, u32 n) { return x >> n; }
KL_FN u64 kl_shr_u64(u64 x, u32 n) { return x >> n; }
KL_FN i32 kl_sar_i32(i32 x, u32 n) { return x >> n; }
KL_FN i64 kl_sar_i64(i64 x, u32 n) { return x >> n; }

#ifdef KL_TARGET_CUDA
/* What convert.kl does for the other targets. */
KL_FN f32 kl_f32_of_f16(u32 h)
{
	f32 x;

	__asm__("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)h));
	return x;
}

KL_FN u32 kl_f16_of_f32(f32 x)
{
	uint16_t h;

	__asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}
#endif

/* Zero bits above the highest one; x is not 0. */
KL_FN u32 kl_clz_u64(u64 x) { return (u32)__builtin_clzl(x); }

#endif
