/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

#define LEVEL(suffix)                                                          \
	static const struct kilni_cpu_kernels level_##suffix = {               \
		.ew = kilni_ew_##suffix,                                       \
		.gather = kilni_gather_##suffix,                               \
		.scatter = kilni_scatter_##suffix,                             \
		.reduce = kilni_reduce_##suffix,                               \
		.matmul = kilni_matmul_##suffix,                               \
	};

LEVEL(base)
#ifdef KILNI_HAVE_ISA_AVX2
LEVEL(avx2)
#endif
#ifdef KILNI_HAVE_ISA_AVX512
LEVEL(avx512)
#endif

const struct kilni_cpu_kernels *const kilni_cpu_kernels[KILNI_ISA_COUNT] = {
	[KILNI_ISA_BASELINE] = &level_base,
#ifdef KILNI_HAVE_ISA_AVX2
	[KILNI_ISA_AVX2] = &level_avx2,
#endif
#ifdef KILNI_HAVE_ISA_AVX512
	[KILNI_ISA_AVX512] = &level_avx512,
#endif
};
