/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_SOFTMAX_H
#define KILNI_KERNELS_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"

/*
 * What softmax has in common on the GPUs. A row that the threads of a group
 * hold in registers is read once. A longer one is cut into chunks, where there
 * are few of them; a chunk is chunk elements, the last one fewer. Three kernels
 * work on chunks: the greatest of each, the sums, the results. The workspace has
 * 8 bytes for each chunk's greatest, then as many for the sums.
 */
struct kilni_softmax {
	struct kilni_softmax_params p;
	uint64_t chunk;
	uint64_t chunks;
	uint32_t shift;        /* CUDA's: log2 of the threads of a row of several */
	uint32_t zero_;
};

/* Threads of a group, and elements of a row that a thread holds at most. */
#define KILNI_SOFTMAX_GROUP 256
#define KILNI_SOFTMAX_EACH(bytes) ((bytes) == 8 ? 16 : 32)

/* Whether that many threads hold a row. */
bool kilni_softmax_is_held(const struct kilni_softmax_params *p,
			   uint32_t threads);
/* By the sizes alone; one chunk: the row is not cut. */
void kilni_plan_softmax(const struct kilni_softmax_params *p,
			struct kilni_softmax *plan);
uint64_t kilni_softmax_workspace(const struct kilni_softmax_params *p);

#endif
