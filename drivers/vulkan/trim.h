/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_TRIM_H
#define KILNI_VULKAN_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A copy of a SPIR-V module, for the caller to free, in which only that is
 * left what can be reached where the specialisation constants 0, 1, ... have
 * those values. NULL: no memory, or the module is not as expected.
 */
uint32_t *kilni_vk_trim(const uint32_t *word, size_t bytes,
			const uint16_t *constant, unsigned constants,
			size_t *trimmed);

#endif
