/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CUDA_PLAN_H
#define KILNI_KERNELS_CUDA_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cuda/params.h"
#include "kernels/registry.h"
#include "kernels/softmax.h"

/*
 * How a kernel is cut, from its parameters and the number of multiprocessors
 * alone: pure functions, which need no device.
 */

/* 0 dense, 1 offsets that fit 32 bits, 2 any; see kernels/README.md. */
unsigned kilni_cuda_ew_form(const struct kilni_ew_params *p);
unsigned kilni_cuda_gather_form(const struct kilni_gather_params *p);

/* Addresses may be blank; workspace decides on chunks and splits. */
void kilni_cuda_plan_reduce(const struct kilni_reduce_params *p,
			    struct kilni_cuda_reduce *plan);
/* Blocks side by side of the first kernel. */
uint64_t kilni_cuda_reduce_blocks(const struct kilni_cuda_reduce *r);
/* And of the second, with several chunks. */
uint64_t kilni_cuda_finish_blocks(const struct kilni_cuda_reduce *r);
uint64_t kilni_cuda_reduce_workspace(const struct kilni_reduce_params *p);

/*
 * Gives the kernel, of MOST, SUMS and SHARES the first one, its blocks and
 * their threads.
 */
enum kilni_cuda_slot
kilni_cuda_plan_softmax(const struct kilni_softmax_params *p,
			struct kilni_softmax *plan, unsigned *blocks,
			unsigned *threads);

/* Gives the kernel. */
enum kilni_cuda_slot
kilni_cuda_plan_matmul(unsigned multiprocessors,
		       const struct kilni_matmul_params *p,
		       struct kilni_cuda_matmul *plan);
uint64_t kilni_cuda_matmul_workspace(unsigned multiprocessors,
				     const struct kilni_matmul_params *p);

/* Of any kernel. */
uint64_t kilni_cuda_plan_workspace(unsigned multiprocessors,
				   enum kilni_kernel kernel,
				   const void *params);

#endif
