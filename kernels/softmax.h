/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_SOFTMAX_H
#define KILNI_KERNELS_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"

/* What softmax has in common on the GPUs. */

/* Threads of a group, and elements of a row that a thread holds at most. */
#define KILNI_SOFTMAX_GROUP 256
#define KILNI_SOFTMAX_EACH(bytes) ((bytes) == 8 ? 16 : 32)

/* Whether that many threads hold a row in registers. */
bool kilni_softmax_is_held(const struct kilni_softmax_params *p,
			   uint32_t threads);

#endif
