/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_DOUBLES_H
#define KILNI_VULKAN_DOUBLES_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/*
 * Takes out of a SPIR-V module what it declares of 64-bit floats, in place, for
 * a device that has none: a module has code for many ops, and mostly nothing
 * needs them once kilni_vk_trim has left that of one. The module is well-formed.
 * KILN_ERR_UNSUPPORTED: it computes with them, and is as it was; the record is
 * left alone. KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_vk_drop_doubles(uint32_t *word, size_t *bytes);

#endif
