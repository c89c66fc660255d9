/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_SUBGROUPS_H
#define KILNI_VULKAN_SUBGROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Takes out of a SPIR-V module what it declares of subgroups, in place, for a
 * device that has none of what the kernels use: once kilni_vk_trim has left the
 * other way, nothing needs it. The module is well-formed. False: it works with
 * them, and is as it was.
 */
bool kilni_vk_drop_subgroups(uint32_t *word, size_t *bytes);

#endif
