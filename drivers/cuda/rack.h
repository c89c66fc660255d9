/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_RACK_H
#define KILNI_CUDA_RACK_H

#include "drivers/cuda/queue.h"

/*
 * Graphs that kernels are put into to be handed over in one call: chains of 4,
 * 8, 16 and 32 nodes, made when they are first needed and given other kernels
 * and parameters each time. A set of them is a rack, and a device has a few,
 * for the library keeps 1.5 MB for each. A queue takes one for a while; it is
 * another queue's again when the device has done what came of it, so that no
 * stream ever waits for the work of another one.
 */

/* Lengths of the graphs: each twice the one before. */
#define KILNI_CUDA_RACK_LEAST 4u
#define KILNI_CUDA_RACK_LENGTHS 4u
#define KILNI_CUDA_RACK_MOST                                                   \
	(KILNI_CUDA_RACK_LEAST << (KILNI_CUDA_RACK_LENGTHS - 1))

struct kilni_cuda_kept {
	struct kilni_entry *entry;
	struct cu_kernel kernel;
	void *argument;
	uint64_t params[KILNI_PARAMS_BYTES / 8];
};

struct kilni_cuda_rack;

/* Whether there is any sense in asking for one. */
bool kilni_cuda_racks_good(const struct kilni_cuda_hw *hw);

/* For this queue alone until it is given back; NULL: none is to be had. */
struct kilni_cuda_rack *kilni_cuda_rack_take(struct kilni_cuda_queue *queue);

/* What was sent of it is done when the queue has come to seq. */
void kilni_cuda_rack_give(struct kilni_cuda_rack *rack, uint64_t seq);

/*
 * Sends LEAST << which kernels as one graph; their number. 0: the library
 * refused something, then nothing of them is on the stream, and nobody gets a
 * rack of the device for a while where memory was short, else never again.
 */
unsigned kilni_cuda_rack_send(struct kilni_cuda_rack *rack,
			      const struct kilni_cuda_kept *kept,
			      unsigned which);

#endif
