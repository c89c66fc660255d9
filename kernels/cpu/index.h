/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_INDEX_H
#define KILNI_CPU_INDEX_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ew_isa.h"

/* gather and scatter of one level, as in struct kilni_cpu_kernels. */
void KILNI_ISA(kilni_gather)(const struct kilni_gather_params *p,
			     uint64_t begin, uint64_t end);
void KILNI_ISA(kilni_scatter)(const struct kilni_scatter_params *p,
			      struct kilni_team *team);

/*
 * n indices of an integer dtype, the first at element offset of base, stride
 * apart, as i64. A u64 beyond the range of i64 becomes negative, which is out
 * of every range as well.
 */
void KILNI_ISA(kilni_index_load)(uint64_t base, int64_t offset, int64_t stride,
				 uint32_t dtype, int64_t *to, uint64_t n);

#endif
