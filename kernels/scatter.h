/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_SCATTER_H
#define KILNI_KERNELS_SCATTER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"

/* What scatters have in common on every target. */

/* Whether it adds in f64 and rounds at the end. */
bool kilni_scatter_sums_wide(const struct kilni_scatter_params *p);
/* Bytes of the workspace for that; 0 for the others. */
uint64_t kilni_scatter_workspace(const struct kilni_scatter_params *p);

#endif
