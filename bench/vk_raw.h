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

/* A file of SPIR-V, which stays; exits where it cannot be read. */
const uint32_t *raw_read(const char *path, size_t *bytes);
/* Opens the first real GPU, or (software) the CPU's; exits where it fails. */
void raw_open(int software, const uint32_t *spirv, size_t bytes,
	      unsigned dispatches, unsigned elements);
const char *raw_device(void);
/* Hands the command buffer over; it may be in flight already. */
void raw_submit(void);
/* Waits for all that was handed over; spins. */
void raw_wait(void);

/*
 * Copies of so many bytes between memory of the host and of the device, each
 * way, on a queue of any family; raw_open comes first.
 */
void raw_copies_open(size_t bytes);
unsigned raw_families(void);
/* What work a family takes, in words; NULL: no copies. */
const char *raw_family(unsigned family);
/* Hands a copy over, and waits for all copies of the family; spins. */
void raw_copy(unsigned family, int up);
void raw_copy_wait(unsigned family);

#endif
