/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_DENSE_H
#define KILNI_KERNELS_DENSE_H

#include "kernels/abi.h"

/* The dtype of the operands, by which the devices have an op's kernel. */
unsigned kilni_ew_dtype(const struct kilni_ew_params *p);

/*
 * How many elements a thread takes at a time: those of 16 bytes where
 * kl/ew_wide.kl does, else one. The kernel looks for itself; this is for how
 * many threads there are.
 */
unsigned kilni_ew_lanes(const struct kilni_ew_params *p);

#endif
