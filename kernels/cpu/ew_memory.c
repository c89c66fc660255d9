/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/ew_memory.h"

#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define ROWS(T)                                                                \
	static void gather_##T(T *to, const T *from, int64_t stride,           \
			       uint64_t n)                                     \
	{                                                                      \
		for (uint64_t i = 0; i < n; i++, from += stride)               \
			to[i] = *from;                                         \
	}                                                                      \
	static void scatter_##T(T *to, const T *from, int64_t stride,          \
				uint64_t n)                                    \
	{                                                                      \
		for (uint64_t i = 0; i < n; i++, to += stride)                 \
			*to = from[i];                                         \
	}                                                                      \
	static void splat_##T(T *to, T value, uint64_t n)                      \
	{                                                                      \
		for (uint64_t i = 0; i < n; i++)                               \
			to[i] = value;                                         \
	}
ROWS(uint8_t)
ROWS(uint16_t)
ROWS(uint32_t)
ROWS(uint64_t)

void KILNI_ISA(kilni_ew_gather_row)(void *to, const void *from, int64_t stride,
				    uint64_t n, unsigned bytes)
{
	switch (bytes) {
	case 1:
		gather_uint8_t(to, from, stride, n);
		break;
	case 2:
		gather_uint16_t(to, from, stride, n);
		break;
	case 4:
		gather_uint32_t(to, from, stride, n);
		break;
	default:
		gather_uint64_t(to, from, stride, n);
		break;
	}
}

void KILNI_ISA(kilni_ew_scatter_row)(void *to, const void *from,
				     int64_t stride, uint64_t n,
				     unsigned bytes)
{
	switch (bytes) {
	case 1:
		scatter_uint8_t(to, from, stride, n);
		break;
	case 2:
		scatter_uint16_t(to, from, stride, n);
		break;
	case 4:
		scatter_uint32_t(to, from, stride, n);
		break;
	default:
		scatter_uint64_t(to, from, stride, n);
		break;
	}
}

void KILNI_ISA(kilni_ew_splat)(void *to, const void *value, uint64_t n,
			       unsigned bytes)
{
	switch (bytes) {
	case 1:
		splat_uint8_t(to, *(const uint8_t *)value, n);
		break;
	case 2:
		splat_uint16_t(to, *(const uint16_t *)value, n);
		break;
	case 4:
		splat_uint32_t(to, *(const uint32_t *)value, n);
		break;
	default:
		splat_uint64_t(to, *(const uint64_t *)value, n);
		break;
	}
}

#if defined(__AVX__)
#define STREAM_BYTES 32
#define STREAM_ONE(to, from)                                                   \
	_mm256_stream_si256((__m256i *)(to),                                   \
			    _mm256_loadu_si256((const __m256i *)(from)))
#elif defined(__SSE2__)
#define STREAM_BYTES 16
#define STREAM_ONE(to, from)                                                   \
	_mm_stream_si128((__m128i *)(to),                                      \
			 _mm_loadu_si128((const __m128i *)(from)))
#endif

void KILNI_ISA(kilni_ew_stream)(void *to, const void *from, uint64_t bytes)
{
#ifdef STREAM_ONE
	char *out = to;
	const char *in = from;
	uint64_t head = (0 - (uint64_t)(uintptr_t)out) % STREAM_BYTES;

	if (head > bytes)
		head = bytes;
	memcpy(out, in, head);
	out += head;
	in += head;
	bytes -= head;
	for (; bytes >= STREAM_BYTES; bytes -= STREAM_BYTES) {
		STREAM_ONE(out, in);
		out += STREAM_BYTES;
		in += STREAM_BYTES;
	}
	memcpy(out, in, bytes);
#else
	memcpy(to, from, bytes);
#endif
}

void KILNI_ISA(kilni_ew_stream_end)(void)
{
#ifdef STREAM_ONE
	_mm_sfence();
#endif
}
