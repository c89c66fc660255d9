/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_MEMORY_H
#define KILNI_CPU_EW_MEMORY_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cpu/ew_isa.h"

/* Moves elements by their size (1, 2, 4 or 8 bytes), whatever they mean. */


/* n elements, stride apart, to dense memory. */
void KILNI_ISA(kilni_ew_gather_row)(void *to, const void *from, int64_t stride,
				    uint64_t n, unsigned bytes);
/* Dense elements to places that are stride apart. */
void KILNI_ISA(kilni_ew_scatter_row)(void *to, const void *from,
				     int64_t stride, uint64_t n,
				     unsigned bytes);
/* n copies of the element at value. */
void KILNI_ISA(kilni_ew_splat)(void *to, const void *value, uint64_t n,
			       unsigned bytes);
/* Past the caches, for results that are too large for them. */
void KILNI_ISA(kilni_ew_stream)(void *to, const void *from, uint64_t bytes);
/* Makes streamed bytes visible before anything later. */
void KILNI_ISA(kilni_ew_stream_end)(void);

#endif
