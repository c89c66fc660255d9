/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_KIND_H
#define KILNI_KERNELS_CPU_MATMUL_KIND_H

#include <stddef.h>

#include "kernels/cpu/matmul_vec.h"

/*
 * What each kind stores and how it becomes what it computes with:
 * mm_<kind>_s is the stored type; _load and _save convert one element, _loadv
 * a vector of them.
 */

/* Kinds that are stored as they are computed. */
#define KILNI_MM_PLAIN(name)                                                   \
	typedef mm_##name mm_##name##_s;                                       \
	KILNI_MM_INLINE mm_##name mm_##name##_load(mm_##name##_s x)            \
	{                                                                      \
		return x;                                                      \
	}                                                                      \
	KILNI_MM_INLINE mm_##name##_s mm_##name##_save(mm_##name x)            \
	{                                                                      \
		return x;                                                      \
	}                                                                      \
	KILNI_MM_INLINE mm_##name##_v mm_##name##_loadv(const mm_##name##_s *p)\
	{                                                                      \
		return mm_##name##_get(p);                                     \
	}

KILNI_MM_PLAIN(f64)
KILNI_MM_PLAIN(f32)
KILNI_MM_PLAIN(u64)
KILNI_MM_PLAIN(u32)

/* u32 lanes from as many narrower ones. */
#define KILNI_MM_WIDEN(name, type, bytes)                                      \
	typedef type mm_##name##_lanes                                         \
		__attribute__((vector_size(KILNI_MM_VB / 4 * bytes)));         \
	KILNI_MM_INLINE mm_u32_v mm_##name##_widen(const type *p)              \
	{                                                                      \
		mm_##name##_lanes v;                                           \
		memcpy(&v, p, sizeof(v));                                      \
		return __builtin_convertvector(v, mm_u32_v);                   \
	}

KILNI_MM_WIDEN(u16, uint16_t, 2)
KILNI_MM_WIDEN(u8, uint8_t, 1)

/* Narrow integers: the low bits of the wide sum are the wrapped sum. */
#define KILNI_MM_SMALL_INTEGER(name, type)                                     \
	typedef type mm_##name##_s;                                            \
	KILNI_MM_INLINE mm_u32 mm_##name##_load(mm_##name##_s x)               \
	{                                                                      \
		return x;                                                      \
	}                                                                      \
	KILNI_MM_INLINE mm_##name##_s mm_##name##_save(mm_u32 x)               \
	{                                                                      \
		return (mm_##name##_s)x;                                       \
	}                                                                      \
	KILNI_MM_INLINE mm_u32_v mm_##name##_loadv(const mm_##name##_s *p)     \
	{                                                                      \
		return mm_##name##_widen(p);                                   \
	}

KILNI_MM_SMALL_INTEGER(u16, uint16_t)
KILNI_MM_SMALL_INTEGER(u8, uint8_t)

KILNI_MM_INLINE float mm_as_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

KILNI_MM_INLINE uint32_t mm_as_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

typedef uint16_t mm_bf16_s;

KILNI_MM_INLINE float mm_bf16_load(mm_bf16_s x)
{
	return mm_as_float((uint32_t)x << 16);
}

KILNI_MM_INLINE mm_bf16_s mm_bf16_save(float x)
{
	uint32_t bits = mm_as_bits(x);

	if (x != x)
		return (mm_bf16_s)(bits >> 16 | 0x40);
	return (mm_bf16_s)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

KILNI_MM_INLINE mm_f32_v mm_bf16_loadv(const mm_bf16_s *p)
{
	return (mm_f32_v)(mm_u16_widen(p) << 16);
}

typedef uint16_t mm_f16_s;

#if defined(__F16C__)
KILNI_MM_INLINE float mm_f16_load(mm_f16_s x)
{
	return _cvtsh_ss(x);
}

KILNI_MM_INLINE mm_f16_s mm_f16_save(float x)
{
	return (mm_f16_s)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
#else
/*
 * The exponent and the fraction moved into place make a number too small by
 * 2^112; the product puts that right, for denormals too.
 */
KILNI_MM_INLINE float mm_f16_load(mm_f16_s x)
{
	uint32_t bits = (uint32_t)(x & 0x7fff) << 13;

	bits = mm_as_bits(mm_as_float(bits) * 0x1p112f);
	if ((x & 0x7c00) == 0x7c00)
		bits |= 0x7f800000;
	return mm_as_float(bits | (uint32_t)(x & 0x8000) << 16);
}

KILNI_MM_INLINE mm_f16_s mm_f16_save(float x)
{
	uint32_t bits = mm_as_bits(x);
	uint32_t sign = bits >> 16 & 0x8000;

	bits &= 0x7fffffff;
	if (bits > 0x7f800000) {
		bits = 0x7e00;
	} else if (bits >= 0x477ff000) {
		bits = 0x7c00;
	} else if (bits < 0x38800000) {
		/* A unit in the last place of 0.5f is the least f16. */
		bits = mm_as_bits(mm_as_float(bits) + 0.5f) - 0x3f000000;
	} else {
		bits = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
	}
	return (mm_f16_s)(sign | bits);
}
#endif

#if defined(__F16C__) && KILNI_MM_VB == 64
KILNI_MM_INLINE mm_f32_v mm_f16_loadv(const mm_f16_s *p)
{
	__m256i v;

	memcpy(&v, p, sizeof(v));
	return _mm512_cvtph_ps(v);
}
#elif defined(__F16C__) && KILNI_MM_VB == 32
KILNI_MM_INLINE mm_f32_v mm_f16_loadv(const mm_f16_s *p)
{
	__m128i v;

	memcpy(&v, p, sizeof(v));
	return _mm256_cvtph_ps(v);
}
#elif defined(__aarch64__)
KILNI_MM_INLINE mm_f32_v mm_f16_loadv(const mm_f16_s *p)
{
	float16x4_t v;

	memcpy(&v, p, sizeof(v));
	return (mm_f32_v)vcvt_f32_f16(v);
}
#else
KILNI_MM_INLINE mm_f32_v mm_f16_loadv(const mm_f16_s *p)
{
	mm_u32_v x = mm_u16_widen(p);
	mm_u32_v bits = (x & 0x7fff) << 13;
	mm_u32_v special = (mm_u32_v)((x & 0x7c00) == 0x7c00);

	bits = (mm_u32_v)((mm_f32_v)bits * 0x1p112f);
	return (mm_f32_v)(bits | (special & 0x7f800000) | (x & 0x8000) << 16);
}
#endif

/*
 * Four elements of a kind that computes in 4 bytes, as their bits; and a
 * square of 4 by 4 of them, written to rows with its sides exchanged.
 */
typedef uint32_t mm_four __attribute__((vector_size(16)));
typedef float mm_four_f __attribute__((vector_size(16)));
typedef uint16_t mm_four_u16 __attribute__((vector_size(8)));
typedef uint8_t mm_four_u8 __attribute__((vector_size(4)));

KILNI_MM_INLINE mm_four mm_f32_load4(const float *p)
{
	mm_four v;

	memcpy(&v, p, sizeof(v));
	return v;
}

KILNI_MM_INLINE mm_four mm_u32_load4(const uint32_t *p)
{
	mm_four v;

	memcpy(&v, p, sizeof(v));
	return v;
}

KILNI_MM_INLINE mm_four mm_u16_load4(const uint16_t *p)
{
	mm_four_u16 v;

	memcpy(&v, p, sizeof(v));
	return __builtin_convertvector(v, mm_four);
}

KILNI_MM_INLINE mm_four mm_u8_load4(const uint8_t *p)
{
	mm_four_u8 v;

	memcpy(&v, p, sizeof(v));
	return __builtin_convertvector(v, mm_four);
}

KILNI_MM_INLINE mm_four mm_bf16_load4(const mm_bf16_s *p)
{
	return mm_u16_load4(p) << 16;
}

KILNI_MM_INLINE mm_four mm_f16_load4(const mm_f16_s *p)
{
	mm_four_f v = { mm_f16_load(p[0]), mm_f16_load(p[1]),
			mm_f16_load(p[2]), mm_f16_load(p[3]) };

	return (mm_four)v;
}

KILNI_MM_INLINE void mm_turn(void *to, size_t row, mm_four v0, mm_four v1,
			     mm_four v2, mm_four v3)
{
	mm_four low02 = __builtin_shufflevector(v0, v2, 0, 4, 1, 5);
	mm_four high02 = __builtin_shufflevector(v0, v2, 2, 6, 3, 7);
	mm_four low13 = __builtin_shufflevector(v1, v3, 0, 4, 1, 5);
	mm_four high13 = __builtin_shufflevector(v1, v3, 2, 6, 3, 7);
	char *at = to;

	v0 = __builtin_shufflevector(low02, low13, 0, 4, 1, 5);
	v1 = __builtin_shufflevector(low02, low13, 2, 6, 3, 7);
	v2 = __builtin_shufflevector(high02, high13, 0, 4, 1, 5);
	v3 = __builtin_shufflevector(high02, high13, 2, 6, 3, 7);
	row *= 4;
	memcpy(at, &v0, sizeof(v0));
	memcpy(at + row, &v1, sizeof(v1));
	memcpy(at + 2 * row, &v2, sizeof(v2));
	memcpy(at + 3 * row, &v3, sizeof(v3));
}

/* What each kind computes with. */
#define KILNI_MM_COMPUTED_f64 f64
#define KILNI_MM_COMPUTED_f32 f32
#define KILNI_MM_COMPUTED_f16 f32
#define KILNI_MM_COMPUTED_bf16 f32
#define KILNI_MM_COMPUTED_u64 u64
#define KILNI_MM_COMPUTED_u32 u32
#define KILNI_MM_COMPUTED_u16 u32
#define KILNI_MM_COMPUTED_u8 u32

#endif
