/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_DENORMALS_H
#define KILNI_VULKAN_DENORMALS_H

#include <stddef.h>
#include <stdint.h>

/*
 * A copy of a SPIR-V module, for the caller to free, that asks for denormals
 * of the floats it uses to be kept: widths is a sum of 16, 32 and 64, of which
 * those count that the module declares. Devices may flush them else, and some
 * do. NULL: nothing to ask for, no memory, or the module is not as expected.
 */
uint32_t *kilni_vk_preserve(const uint32_t *word, size_t bytes,
			    unsigned widths, size_t *out_bytes);

#endif
