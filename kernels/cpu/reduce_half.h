/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_REDUCE_HALF_H
#define KILNI_KERNELS_CPU_REDUCE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* f16 and bf16 to and from wider floats, whatever modes the caller has set. */

static inline float reduce_float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t reduce_bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* The fraction of a subnormal is read off 2^-14, so that none is computed. */
static inline float reduce_f16_to_f32(uint16_t h)
{
	const uint32_t magnitude = h & 0x7fffu;
	const uint32_t shifted = magnitude << 13;
	const float small = reduce_float_of(shifted + 0x38800000u) -
			    reduce_float_of(0x38800000u);
	uint32_t bits = shifted + 0x38000000u;

	bits = magnitude >= 0x7c00u ? shifted | 0x7f800000u : bits;
	bits = magnitude < 0x0400u ? reduce_bits_of(small) : bits;
	return reduce_float_of(bits | (uint32_t)(h & 0x8000u) << 16);
}

static void reduce_widen_f16(const uint16_t *x, size_t n, float *y)
{
	size_t i = 0;

#if defined(__F16C__)
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(
						(const void *)(x + i))));
#endif
	for (; i < n; i++)
		y[i] = reduce_f16_to_f32(x[i]);
}

static void reduce_widen_bf16(const uint16_t *x, size_t n, float *y)
{
	size_t i;

	for (i = 0; i < n; i++)
		y[i] = reduce_float_of((uint32_t)x[i] << 16);
}

/* Cut to f32 with the last bit set where anything is lost (round to odd). */
static inline uint32_t reduce_sticky_f32(double d)
{
	const float f = (float)d;
	uint32_t bits = reduce_bits_of(f);

	if ((double)f == d || d != d)
		return bits;
	if ((f < 0 ? -(double)f : (double)f) > (d < 0 ? -d : d))
		bits--;
	return bits | 1;
}

/* value / 2^shift to nearest, ties to even. */
static inline uint32_t reduce_round_off(uint32_t value, unsigned shift)
{
	const uint32_t low = value & ((1u << shift) - 1);
	const uint32_t half = 1u << (shift - 1);
	const uint32_t q = value >> shift;

	return q + (low > half || (low == half && (q & 1)));
}

static inline uint16_t reduce_f64_to_bf16(double d)
{
	const uint32_t bits = reduce_sticky_f32(d);

	if (d != d)
		return 0x7fc0;
	return (uint16_t)reduce_round_off(bits, 16);
}

static inline uint16_t reduce_f64_to_f16(double d)
{
	const uint32_t bits = reduce_sticky_f32(d);
	const uint32_t sign = bits >> 16 & 0x8000u;
	const uint32_t magnitude = bits & 0x7fffffffu;
	uint32_t h;

	if (d != d)
		return 0x7e00;
	if (magnitude >= 0x47800000u)
		h = 0x7c00u;
	else if (magnitude >= 0x38800000u)
		h = reduce_round_off(magnitude - 0x38000000u, 13);
	else if (magnitude >= 0x33000000u)
		h = reduce_round_off((magnitude & 0x7fffffu) | 0x800000u,
				     126 - (magnitude >> 23));
	else
		h = 0;
	return (uint16_t)(sign | h);
}

#endif
