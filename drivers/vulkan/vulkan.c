/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- driver table ---- */

static size_t driver_count(void)
{
	const struct kilni_vk_physical *list;
	const char *why;
	unsigned count;

	if (kilni_vk_list(&list, &count, &why) != KILN_OK)
		return 0;
	return count;
}

static const char *driver_absent(void)
{
	const struct kilni_vk_physical *list;
	const char *why = NULL;
	unsigned count;

	if (kilni_vk_list(&list, &count, &why) != KILN_OK && !why)
		why = "the devices cannot be listed";
	return count ? NULL : why;
}

static enum kiln_device_kind kind_of(const struct kilni_vk_physical *p)
{
	switch (p->properties.deviceType) {
	case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
		return KILN_KIND_INTEGRATED;
	case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
		return KILN_KIND_DISCRETE;
	case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
		return KILN_KIND_VIRTUAL;
	case VK_PHYSICAL_DEVICE_TYPE_CPU:
		return KILN_KIND_CPU;
	default:
		return KILN_KIND_OTHER;
	}
}

static void print_uuid(const uint8_t *u, char *text, size_t size)
{
	size_t used = 0;

	for (unsigned i = 0; i < VK_UUID_SIZE; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10
						 ? "-"
						 : "",
					 u[i]);
}

static enum kiln_status driver_describe(unsigned index,
					struct kilni_hw_info *info)
{
	const struct kilni_vk_physical *list, *p;
	const char *why = NULL;
	unsigned count;

	KILNI_TRY(kilni_vk_list(&list, &count, &why));
	memset(info, 0, sizeof(*info));
	if (index >= count)
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "vulkan: no device %u", index);
	p = &list[index];
	snprintf(info->name, sizeof(info->name), "%.127s",
		 p->properties.deviceName);
	info->memory_bytes = p->heap_bytes;
	info->kind = kind_of(p);
	info->ordinal = p->ordinal;
	snprintf(info->pci, sizeof(info->pci), "%s", p->pci);
	if (p->properties.apiVersion >= VK_API_VERSION_1_2)
		print_uuid(p->device_uuid, info->uuid, sizeof(info->uuid));
	snprintf(info->version, sizeof(info->version), "%.63s", p->driver);
	if (*p->refused)
		snprintf(info->refused, sizeof(info->refused), "lacks %.240s",
			 p->refused);
	return KILN_OK;
}

/* ---- device table ---- */

static unsigned device_dtype_usage(const struct kilni_hw *hw,
				   enum kiln_dtype dtype)
{
	const struct kilni_vk_physical *p = kilni_vk_hw_of(hw)->physical;
	unsigned usage = kilni_usage_of(dtype);

	if (dtype == KILN_F64)
		return p->doubles ? usage : 0;
	/* The denormals of f16 are normal numbers of f32. */
	if (dtype != KILN_F16 && !p->keeps_denormals)
		usage &= ~(unsigned)KILN_USAGE_DENORMALS;
	return usage;
}

static const char *device_explain(const struct kilni_hw *hw)
{
	return kilni_vk_hw_of(hw)->explain;
}

/* ---- program table ---- */

static bool program_has(const struct kilni_hw *hw, enum kilni_kernel kernel)
{
	return kilni_vk_has_kernel(kilni_vk_hw_of(hw), kernel);
}

/* ---- the driver ---- */

static const struct kilni_driver_ops driver_ops = {
	.count = driver_count,
	.absent = driver_absent,
	.absent_status = kilni_driver_stub_absent_status,
	.describe = driver_describe,
	.open = kilni_vk_open,
};

static const struct kilni_device_ops device_ops = {
	.close = kilni_vk_close,
	.dtype_usage = device_dtype_usage,
	.workers = kilni_device_stub_workers,
	.explain = device_explain,
	.clock = kilni_vk_clock,
	.at_exit = kilni_vk_at_exit,
};

static const struct kilni_program_ops program_ops = {
	.has = program_has,
	.workspace = kilni_vk_workspace,
	.admit = kilni_vk_admit,
	.load = kilni_vk_program_load,
	.unload = kilni_vk_program_unload,
};

const struct kilni_driver kilni_vulkan_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(struct kilni_driver),
	.name = "vulkan",
	.type = KILN_DEVICE_VULKAN,
	.no_wrap = "a VkQueue works with its own VkDevice's memory alone, and "
		   "kiln has a VkDevice of its own",
	.driver = &driver_ops,
	.device = &device_ops,
	.memory = &kilni_vk_memory_ops,
	.queue = &kilni_vk_queue_ops,
	.program = &program_ops,
};
