/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_VULKAN_SPIRV_H
#define KILNI_KERNELS_VULKAN_SPIRV_H

#include <stddef.h>
#include <stdint.h>

/* The SPIR-V modules that build.sh compiled, by name. */
struct kilni_spirv {
	const char *name;
	const uint32_t *words;
	size_t bytes;
};

extern const struct kilni_spirv kilni_spirv_modules[];
extern const unsigned kilni_spirv_count;

#endif
