/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_DENSE_H
#define KILNI_KERNELS_DENSE_H

#include <stdbool.h>

#include "kernels/abi.h"

/* Whether the op has no operand in memory. */
bool kilni_ew_is_source(unsigned op);

/* The dtype of the operands, or of the result of one that has none. */
unsigned kilni_ew_dtype(const struct kilni_ew_params *p);

/*
 * How many elements a thread takes at a time: those of 16 bytes where
 * kl/ew_wide.kl does, else one. The kernel looks for itself, and in CUDA each
 * vector needs a thread: never more than it takes. Fewer are only slower.
 */
unsigned kilni_ew_lanes(const struct kilni_ew_params *p);

#endif
