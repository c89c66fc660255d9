/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_VEC_H
#define KILNI_KERNELS_CPU_MATMUL_VEC_H

#include <stdint.h>
#include <string.h>

/*
 * Vectors, multiply-add and conversions of the instruction-set level that
 * this file is compiled for. Where the level has a fused multiply-add, each
 * multiply-add of the matrix product is fused, whichever path it takes.
 */

#if defined(__x86_64__) && defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/*
 * Bytes of a vector and the tile in registers: rows, vectors of a row. Rows
 * beyond a multiple of 8 (where the tile is higher than that) are done four,
 * two and one at a time.
 */
#if defined(__x86_64__) && defined(__AVX512F__)
#define KILNI_MM_VB 64
#define KILNI_MM_MR 14
#define KILNI_MM_NV 2
#elif defined(__x86_64__) && defined(__AVX2__)
#define KILNI_MM_VB 32
#define KILNI_MM_MR 6
#define KILNI_MM_NV 2
#elif defined(__aarch64__)
#define KILNI_MM_VB 16
#define KILNI_MM_MR 6
#define KILNI_MM_NV 4
#else
#define KILNI_MM_VB 16
#define KILNI_MM_MR 6
#define KILNI_MM_NV 2
#endif

/* Whether bf16 has a way of its own, on processors with AVX512-BF16. */
#if KILNI_MM_VB == 64
#define KILNI_MM_HAS_PAIRS 1
#else
#define KILNI_MM_HAS_PAIRS 0
#endif

/* And one on processors with AMX, which the compiler has to know. */
#if KILNI_MM_VB == 64 && defined(__linux__) && defined(__LP64__) &&            \
	((defined(__clang__) && __clang_major__ >= 12) ||                      \
	 (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 11))
#define KILNI_MM_HAS_AMX 1
#include <cpuid.h>
#else
#define KILNI_MM_HAS_AMX 0
#endif

/* X(r) and X(r, v) for every row and vector of a tile. */
#if KILNI_MM_MR == 14
#define KILNI_MM_ROWS(X)                                                       \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)    \
	X(13)
#else
#define KILNI_MM_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#endif
#if KILNI_MM_NV == 4
#define KILNI_MM_VECTORS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
#else
#define KILNI_MM_VECTORS(X, r) X(r, 0) X(r, 1)
#endif

#define KILNI_MM_INLINE static inline __attribute__((always_inline, unused))

#define KILNI_MM_VECTOR_TYPE(name, type)                                       \
	typedef type mm_##name;                                                \
	typedef type mm_##name##_v __attribute__((vector_size(KILNI_MM_VB)));  \
	KILNI_MM_INLINE mm_##name##_v mm_##name##_get(const type *from)        \
	{                                                                      \
		mm_##name##_v v;                                               \
		memcpy(&v, from, sizeof(v));                                   \
		return v;                                                      \
	}                                                                      \
	KILNI_MM_INLINE void mm_##name##_put(type *to, mm_##name##_v v)        \
	{                                                                      \
		memcpy(to, &v, sizeof(v));                                     \
	}

KILNI_MM_VECTOR_TYPE(f64, double)
KILNI_MM_VECTOR_TYPE(f32, float)
KILNI_MM_VECTOR_TYPE(u64, uint64_t)
KILNI_MM_VECTOR_TYPE(u32, uint32_t)

/* acc + s * v, and the same of scalars. */
#if KILNI_MM_VB == 64
KILNI_MM_INLINE mm_f32_v mm_f32_mla(mm_f32_v acc, float s, mm_f32_v v)
{
	return _mm512_fmadd_ps(_mm512_set1_ps(s), v, acc);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mla(mm_f64_v acc, double s, mm_f64_v v)
{
	return _mm512_fmadd_pd(_mm512_set1_pd(s), v, acc);
}

KILNI_MM_INLINE mm_f32_v mm_f32_mlav(mm_f32_v acc, mm_f32_v s, mm_f32_v v)
{
	return _mm512_fmadd_ps(s, v, acc);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mlav(mm_f64_v acc, mm_f64_v s, mm_f64_v v)
{
	return _mm512_fmadd_pd(s, v, acc);
}
#elif KILNI_MM_VB == 32
KILNI_MM_INLINE mm_f32_v mm_f32_mla(mm_f32_v acc, float s, mm_f32_v v)
{
	return _mm256_fmadd_ps(_mm256_set1_ps(s), v, acc);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mla(mm_f64_v acc, double s, mm_f64_v v)
{
	return _mm256_fmadd_pd(_mm256_set1_pd(s), v, acc);
}

KILNI_MM_INLINE mm_f32_v mm_f32_mlav(mm_f32_v acc, mm_f32_v s, mm_f32_v v)
{
	return _mm256_fmadd_ps(s, v, acc);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mlav(mm_f64_v acc, mm_f64_v s, mm_f64_v v)
{
	return _mm256_fmadd_pd(s, v, acc);
}
#elif defined(__aarch64__)
KILNI_MM_INLINE mm_f32_v mm_f32_mlav(mm_f32_v acc, mm_f32_v s, mm_f32_v v)
{
	return (mm_f32_v)vfmaq_f32((float32x4_t)acc, (float32x4_t)s,
				   (float32x4_t)v);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mlav(mm_f64_v acc, mm_f64_v s, mm_f64_v v)
{
	return (mm_f64_v)vfmaq_f64((float64x2_t)acc, (float64x2_t)s,
				   (float64x2_t)v);
}

KILNI_MM_INLINE mm_f32_v mm_f32_mla(mm_f32_v acc, float s, mm_f32_v v)
{
	return mm_f32_mlav(acc, (mm_f32_v)vdupq_n_f32(s), v);
}

KILNI_MM_INLINE mm_f64_v mm_f64_mla(mm_f64_v acc, double s, mm_f64_v v)
{
	return mm_f64_mlav(acc, (mm_f64_v)vdupq_n_f64(s), v);
}
#else
KILNI_MM_INLINE mm_f32_v mm_f32_mla(mm_f32_v acc, float s, mm_f32_v v)
{
	return acc + s * v;
}

KILNI_MM_INLINE mm_f64_v mm_f64_mla(mm_f64_v acc, double s, mm_f64_v v)
{
	return acc + s * v;
}

KILNI_MM_INLINE mm_f32_v mm_f32_mlav(mm_f32_v acc, mm_f32_v s, mm_f32_v v)
{
	return acc + s * v;
}

KILNI_MM_INLINE mm_f64_v mm_f64_mlav(mm_f64_v acc, mm_f64_v s, mm_f64_v v)
{
	return acc + s * v;
}
#endif

#if KILNI_MM_VB > 16 || defined(__aarch64__)
KILNI_MM_INLINE float mm_f32_mla1(float acc, float s, float v)
{
	return __builtin_fmaf(s, v, acc);
}

KILNI_MM_INLINE double mm_f64_mla1(double acc, double s, double v)
{
	return __builtin_fma(s, v, acc);
}
#else
KILNI_MM_INLINE float mm_f32_mla1(float acc, float s, float v)
{
	return acc + s * v;
}

KILNI_MM_INLINE double mm_f64_mla1(double acc, double s, double v)
{
	return acc + s * v;
}
#endif

#define KILNI_MM_INTEGER_MLA(name, type)                                       \
	KILNI_MM_INLINE mm_##name##_v mm_##name##_mla(mm_##name##_v acc,       \
						      type s, mm_##name##_v v) \
	{                                                                      \
		return acc + s * v;                                            \
	}                                                                      \
	KILNI_MM_INLINE mm_##name##_v mm_##name##_mlav(                        \
		mm_##name##_v acc, mm_##name##_v s, mm_##name##_v v)           \
	{                                                                      \
		return acc + s * v;                                            \
	}                                                                      \
	KILNI_MM_INLINE type mm_##name##_mla1(type acc, type s, type v)        \
	{                                                                      \
		return acc + s * v;                                            \
	}

KILNI_MM_INTEGER_MLA(u64, uint64_t)
KILNI_MM_INTEGER_MLA(u32, uint32_t)

#endif
