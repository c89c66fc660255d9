/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_RANDOM_H
#define KILNI_CPU_EW_RANDOM_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cpu/ew_isa.h"

/* Elements that one call of the two below may fill. */
#define EW_FILL_MAX 512

/*
 * The elements first ... first + n - 1 of an ARANGE or a RANDOM, n at most
 * EW_FILL_MAX, in the compute type of the dtype, ready for its store.
 */
void KILNI_ISA(kilni_ew_arange)(const struct kilni_ew_params *p,
				uint64_t first, uint64_t n, void *tile);
void KILNI_ISA(kilni_ew_random)(const struct kilni_ew_params *p,
				uint64_t first, uint64_t n, void *tile);

#endif
