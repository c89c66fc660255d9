/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_VK_RAW_H
#define BENCH_VK_RAW_H

#include <stddef.h>
#include <stdint.h>

/*
 * The least that Vulkan asks for: one kernel of examples/custom_kernel.comp,
 * dispatched so many times in one prerecorded command buffer, with a barrier
 * behind each.
 */

/* Opens the first real GPU, or (software) the CPU's; exits where it fails. */
void raw_open(int software, const uint32_t *spirv, size_t bytes,
	      unsigned dispatches, unsigned elements);
const char *raw_device(void);
/* Hands the command buffer over; it may be in flight already. */
void raw_submit(void);
/* Waits for all that was handed over; spins. */
void raw_wait(void);

#endif
