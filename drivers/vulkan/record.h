/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_RECORD_H
#define KILNI_VULKAN_RECORD_H

#include "drivers/vulkan/internal.h"
#include "kernels/dtype.h"
#include "kernels/vulkan/plan.h"

/* A dispatch: which kernel, on what, by how many threads. */
struct kilni_vk_dispatch {
	struct kilni_vk_kernel kernel;
	const void *params;
	uint32_t params_bytes;
	bool reports;              /* params begin with a report's address */
	uint64_t groups;
	uint64_t parts;            /* one behind the other; 0: one */
	VkPipeline pipeline;       /* in place of kernel, where it is set */
};

/*
 * Records one. Parameters begin with eight bytes that hold the address of a
 * report, or 0.
 */
enum kiln_status kilni_vk_dispatch(struct kilni_vk_batch *batch,
				   const struct kilni_vk_dispatch *dispatch);

/* All that was recorded comes before all that follows. */
void kilni_vk_barrier(struct kilni_vk_batch *batch);

/* <stem><number>_<form> */
void kilni_vk_name(struct kilni_vk_kernel *kernel, const char *stem,
		   unsigned number, unsigned form);

/* Sets how many groups and of which size; threads may have to take turns. */
void kilni_vk_set_groups(const struct kilni_vk_batch *batch,
			 struct kilni_vk_dispatch *dispatch, uint64_t groups);
void kilni_vk_set_threads(const struct kilni_vk_batch *batch,
			  struct kilni_vk_dispatch *dispatch,
			  uint64_t threads);

/* One kernel's entry each. */
enum kiln_status kilni_vk_record_ew(struct kilni_vk_batch *batch,
				    const struct kilni_ew_params *p);
/* A copy that turns axes round, which has a kernel of its own. */
bool kilni_vk_turns(const struct kilni_vk_batch *batch,
		    const struct kilni_ew_params *p);
enum kiln_status kilni_vk_record_turn(struct kilni_vk_batch *batch,
				      const struct kilni_ew_params *p);
enum kiln_status kilni_vk_record_gather(struct kilni_vk_batch *batch,
					const struct kilni_gather_params *p);
/* How often each thread has its turn where so many are wanted. */
uint64_t kilni_vk_rounds(const struct kilni_vk_hw *hw, uint64_t threads);
/* Whether the product goes by tiles, if any fit it. */
bool kilni_vk_tiles_product(const struct kilni_vk_hw *hw,
			    const struct kilni_matmul_params *p);
enum kiln_status kilni_vk_record_scatter(struct kilni_vk_batch *batch,
					 const struct kilni_scatter_params *p);
enum kiln_status kilni_vk_record_reduce(struct kilni_vk_batch *batch,
					const struct kilni_reduce_params *p);
enum kiln_status kilni_vk_record_matmul(struct kilni_vk_batch *batch,
					const struct kilni_matmul_params *p);
enum kiln_status kilni_vk_record_softmax(struct kilni_vk_batch *batch,
					 const struct kilni_softmax_params *p);
enum kiln_status kilni_vk_record_custom(struct kilni_vk_batch *batch,
					const struct kilni_custom_params *p);

#endif
