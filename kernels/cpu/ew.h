/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_H
#define KILNI_CPU_EW_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cpu/ew_isa.h"

/* kilni_ew of one level, as in struct kilni_cpu_kernels. */
void KILNI_ISA(kilni_ew)(const struct kilni_ew_params *p, uint64_t begin,
			 uint64_t end);

/* The op COPY for dtypes whose bytes are copied as they are. */
void KILNI_ISA(kilni_ew_copy)(const struct kilni_ew_params *p, uint64_t begin,
			      uint64_t end, unsigned bytes);

#endif
