/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_PAIRS_H
#define KILNI_KERNELS_CPU_MATMUL_PAIRS_H

#include "kernels/cpu/matmul_vec.h"

/*
 * bf16 by AVX512-BF16: two steps of k in one instruction. An element of a
 * packed panel is a pair of them, the earlier in the low half; the last pair
 * of an odd k is filled up with 0. The instruction takes denormals as 0
 * (matmul_range.h).
 *
 * The functions carry the target as an attribute, so that the rest of the
 * level runs on processors without the extension.
 */
#define MM_PAIRS_TARGET __attribute__((target("avx512bf16")))

typedef float mm_pairs;
typedef mm_f32_v mm_pairs_v;

MM_PAIRS_TARGET KILNI_MM_INLINE mm_f32_v mm_pairs_mla(mm_f32_v acc, uint32_t s,
						      mm_u32_v v)
{
	return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_set1_epi32((int)s),
				(__m512bh)v);
}

KILNI_MM_INLINE mm_f32_v mm_pairs_get(const float *p)
{
	return mm_f32_get(p);
}

KILNI_MM_INLINE void mm_pairs_put(float *p, mm_f32_v v)
{
	mm_f32_put(p, v);
}

static inline int mm_pairs_run(void)
{
	return __builtin_cpu_supports("avx512bf16") != 0;
}

KILNI_MM_INLINE void mm_pairs_pack(unsigned width, uint32_t *to,
				   const uint16_t *from, int64_t side,
				   int64_t along, unsigned w, uint64_t kc)
{
	uint64_t k;
	unsigned j;

	for (k = 0; k < kc; k += 2, to += width, from += 2 * along) {
		int64_t next = k + 1 < kc ? along : 0;
		uint32_t keep = k + 1 < kc ? 0xffff0000 : 0;

		for (j = 0; j < w; j++) {
			const uint16_t *at = from + (int64_t)j * side;

			to[j] = at[0] | ((uint32_t)at[next] << 16 & keep);
		}
		for (; j < width; j++)
			to[j] = 0;
	}
}

static void mm_pairs_pack_a(void *to, const void *from, int64_t side,
			    int64_t along, unsigned w, uint64_t kc)
{
	mm_pairs_pack(KILNI_MM_MR, to, from, side, along, w, kc);
}

static void mm_pairs_pack_b(void *to, const void *from, int64_t side,
			    int64_t along, unsigned w, uint64_t kc)
{
	if (side == 1)
		mm_pairs_pack(KILNI_MM_NV * KILNI_MM_VB / 4, to, from, 1, along,
			      w, kc);
	else
		mm_pairs_pack(KILNI_MM_NV * KILNI_MM_VB / 4, to, from, side,
			      along, w, kc);
}

#endif
