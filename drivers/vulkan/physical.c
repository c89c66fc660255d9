/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most devices that are looked at. */
#define PHYSICAL_MOST 64
/* And families of each. */
#define FAMILIES_MOST 32

/* What a device must have: structure, field. */
#define FEATURES(X)                                                            \
	X(core.features, shaderInt64)                                          \
	X(v11, storageBuffer16BitAccess)                                       \
	X(v12, storageBuffer8BitAccess)                                        \
	X(v12, bufferDeviceAddress)                                            \
	X(v12, scalarBlockLayout)                                              \
	X(v12, timelineSemaphore)                                              \
	X(v12, shaderBufferInt64Atomics)

#define PROPERTIES(X)                                                          \
	X(p12, shaderSignedZeroInfNanPreserveFloat32)

/* What it may lack; of 64-bit floats both, or there are none. */
#define CHOICES(X)                                                             \
	X("shaderFloat64")                                                     \
	X("shaderSignedZeroInfNanPreserveFloat64")                             \
	X("shaderDenormPreserveFloat32")                                       \
	X("timestampValidBits")                                                \
	X("subgroupSupportedOperations")                                       \
	X(TRANSFER_QUEUE)                                                      \
	X(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)                                  \
	X(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)

#define COMPUTE_QUEUE "a queue that computes"
#define TRANSFER_QUEUE "a queue for transfers"

struct features {
	VkPhysicalDeviceFeatures2 core;
	VkPhysicalDeviceVulkan11Features v11;
	VkPhysicalDeviceVulkan12Features v12;
};

/* ---- what KILN_VULKAN_HIDE hides ---- */

static const char *const names[] = {
#define NAME_(structure, field) #field,
#define CHOICE_(name) name,
	FEATURES(NAME_) PROPERTIES(NAME_) CHOICES(CHOICE_) COMPUTE_QUEUE
#undef NAME_
#undef CHOICE_
};

/* The next name of the list, its length in *length; NULL at the end. */
static const char *next_hidden(const char **rest, size_t *length)
{
	const char *name = *rest;

	if (!name || !*name)
		return NULL;
	*length = strcspn(name, ",");
	*rest = name + *length + (name[*length] == ',');
	return name;
}

static bool is_hidden(const char *name)
{
	const char *rest = kilni_option_text(KILNI_OPT_VULKAN_HIDE), *at;
	size_t length;

	while ((at = next_hidden(&rest, &length)))
		if (strlen(name) == length && !memcmp(at, name, length))
			return true;
	return false;
}

/* What the list was refused for; with the lock of the list. */
static char wrong_option[128];

static enum kiln_status check_hidden(void)
{
	const char *rest = kilni_option_text(KILNI_OPT_VULKAN_HIDE), *at;
	size_t length, i;

	while ((at = next_hidden(&rest, &length))) {
		for (i = 0; i < KILNI_COUNTOF(names); i++)
			if (strlen(names[i]) == length &&
			    !memcmp(at, names[i], length))
				break;
		if (i < KILNI_COUNTOF(names))
			continue;
		snprintf(wrong_option, sizeof(wrong_option),
			 "KILN_VULKAN_HIDE: \"%.*s\" is nothing that a device "
			 "may lack", (int)kilni_min_u64(length, 64), at);
		return KILN_ERR_OPTION;
	}
	return KILN_OK;
}

/* ---- features and properties ---- */

/* Adds a name to a list of what is missing. */
static void miss(struct kilni_vk_physical *p, const char *name)
{
	size_t used = strlen(p->refused);

	snprintf(p->refused + used, sizeof(p->refused) - used, "%s%s",
		 used ? ", " : "", name);
}

static void chain(struct features *f)
{
	memset(f, 0, sizeof(*f));
	f->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
	f->core.pNext = &f->v11;
	f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
	f->v11.pNext = &f->v12;
	f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
}

static void check_features(const struct kilni_vk_loader *vk,
			   struct kilni_vk_physical *p)
{
	struct features f;

	chain(&f);
	vk->GetPhysicalDeviceFeatures2(p->device, &f.core);
#define CHECK(structure, field)                                                \
	if (!f.structure.field || is_hidden(#field))                           \
		miss(p, #field);
	FEATURES(CHECK)
#undef CHECK
	p->doubles = f.core.features.shaderFloat64 &&
		     !is_hidden("shaderFloat64");
}

enum kiln_status kilni_vk_device_create(const struct kilni_vk_loader *vk,
					const struct kilni_vk_physical *p,
					VkDevice *device)
{
	const float priority = 1;
	VkDeviceQueueCreateInfo queue[KILNI_COUNTOF(p->family)];
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.queueCreateInfoCount = p->families,
		.pQueueCreateInfos = queue,
	};
	static const char *const import[] = {
		VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME
	};
	struct features f;

	for (unsigned i = 0; i < p->families; i++)
		queue[i] = (VkDeviceQueueCreateInfo){
			.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = p->family[i],
			.queueCount = 1,
			.pQueuePriorities = &priority,
		};
	info.ppEnabledExtensionNames = import;
	info.enabledExtensionCount = p->import_alignment != 0;
	chain(&f);
#define ENABLE(structure, field) f.structure.field = VK_TRUE;
	FEATURES(ENABLE)
#undef ENABLE
	f.core.features.shaderFloat64 = p->doubles;
	info.pNext = &f.core;
	return KILNI_VK_CALL(vk, CreateDevice, p->device, &info, NULL, device);
}

static bool has_extension(const struct kilni_vk_loader *vk,
			  VkPhysicalDevice device, const char *name)
{
	VkExtensionProperties *all;
	uint32_t count = 0;
	bool found = false;

	if (vk->EnumerateDeviceExtensionProperties(device, NULL, &count,
						   NULL) < 0)
		return false;
	all = calloc(count + 1, sizeof(*all));
	if (all && vk->EnumerateDeviceExtensionProperties(device, NULL, &count,
							  all) >= 0)
		for (uint32_t i = 0; i < count && !found; i++)
			found = !strcmp(all[i].extensionName, name);
	free(all);
	return found && !is_hidden(name);
}

/* Floats of one width may be asked for what others are not. */
static unsigned denormal_widths(const VkPhysicalDeviceVulkan12Properties *p)
{
	unsigned widths = (p->shaderDenormPreserveFloat16 ? 16 : 0) +
			  (p->shaderDenormPreserveFloat32 ? 32 : 0) +
			  (p->shaderDenormPreserveFloat64 ? 64 : 0);

	switch (p->denormBehaviorIndependence) {
	case VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL:
		return widths;
	case VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY:
		return (widths & 80) == 80 ? widths : widths & 32;
	default:
		return widths == 112 ? widths : 0;
	}
}

/* Mesa's software device keeps them, though it cannot be asked for that. */
static void read_denormals(struct kilni_vk_physical *p,
			   VkPhysicalDeviceVulkan12Properties *p12)
{
	bool hidden = is_hidden("shaderDenormPreserveFloat32");

	if (hidden)
		p12->shaderDenormPreserveFloat32 = VK_FALSE;
	p->denormals = denormal_widths(p12);
	p->keeps_denormals = p->denormals & 32 ||
			     (p12->driverID == VK_DRIVER_ID_MESA_LLVMPIPE &&
			      !hidden);
}

/* What kernels use of subgroups: that they are there, and shuffles. */
#define SUBGROUP_OPERATIONS                                                    \
	(VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT)

static unsigned subgroup_size(const VkPhysicalDeviceVulkan11Properties *p)
{
	bool works = p->subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
		     (p->subgroupSupportedOperations & SUBGROUP_OPERATIONS) ==
			     SUBGROUP_OPERATIONS &&
		     p->subgroupSize > 1;

	return works && !is_hidden("subgroupSupportedOperations")
		       ? p->subgroupSize
		       : 0;
}

static void read_properties(const struct kilni_vk_loader *vk,
			    struct kilni_vk_physical *p)
{
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
	};
	VkPhysicalDeviceVulkan13Properties p13 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES,
	};
	VkPhysicalDeviceVulkan12Properties p12 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
	};
	VkPhysicalDeviceVulkan11Properties p11 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
		.pNext = &p12,
	};
	VkPhysicalDeviceProperties2 all = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
		.pNext = &p11,
	};
	VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
	};
	bool has_pci = has_extension(vk, p->device,
				     VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
	bool has_import = has_extension(
		vk, p->device, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);

	if (p->properties.apiVersion >= VK_API_VERSION_1_3 &&
	    vk->version >= VK_API_VERSION_1_3)
		p12.pNext = &p13;
	if (has_pci) {
		pci.pNext = p11.pNext;
		p11.pNext = &pci;
	}
	if (has_import) {
		import.pNext = p11.pNext;
		p11.pNext = &import;
	}
	vk->GetPhysicalDeviceProperties2(p->device, &all);
	p->import_alignment = import.minImportedHostPointerAlignment;
#define CHECK(structure, field)                                                \
	if (!structure.field || is_hidden(#field))                             \
		miss(p, #field);
	PROPERTIES(CHECK)
#undef CHECK
	p->doubles = p->doubles &&
		     p12.shaderSignedZeroInfNanPreserveFloat64 &&
		     !is_hidden("shaderSignedZeroInfNanPreserveFloat64");
	memcpy(p->device_uuid, p11.deviceUUID, VK_UUID_SIZE);
	memcpy(p->driver_uuid, p11.driverUUID, VK_UUID_SIZE);
	snprintf(p->driver, sizeof(p->driver), "%s %s", p12.driverName,
		 p12.driverInfo);
	read_denormals(p, &p12);
	p->subgroup = subgroup_size(&p11);
	p->max_allocation_bytes = p11.maxMemoryAllocationSize;
	p->max_buffer_bytes = p13.maxBufferSize ? p13.maxBufferSize
						: p->max_allocation_bytes;
	if (has_pci)
		snprintf(p->pci, sizeof(p->pci), "%04x:%02x:%02x.%x",
			 pci.pciDomain, pci.pciBus, pci.pciDevice,
			 pci.pciFunction);
}

/* The number of families: none. One without graphics has less to share. */
static uint32_t find_computing(const VkQueueFamilyProperties *family,
			       uint32_t count)
{
	uint32_t found = count;

	if (is_hidden(COMPUTE_QUEUE))
		return count;
	for (uint32_t i = count; i-- > 0;) {
		if (!(family[i].queueFlags & VK_QUEUE_COMPUTE_BIT))
			continue;
		if (found == count ||
		    !(family[i].queueFlags & VK_QUEUE_GRAPHICS_BIT))
			found = i;
	}
	return found;
}

/*
 * One that does nothing else: copies on others may wait for kernels, as those
 * on one that neither draws nor computes do on an H200.
 */
static uint32_t find_transferring(const VkQueueFamilyProperties *family,
				  uint32_t count)
{
	const VkQueueFlags also = VK_QUEUE_SPARSE_BINDING_BIT |
				  VK_QUEUE_PROTECTED_BIT;

	for (uint32_t i = 0; i < count && !is_hidden(TRANSFER_QUEUE); i++)
		if ((family[i].queueFlags & ~also) == VK_QUEUE_TRANSFER_BIT)
			return i;
	return count;
}

static void find_families(const struct kilni_vk_loader *vk,
			  struct kilni_vk_physical *p)
{
	VkQueueFamilyProperties family[FAMILIES_MOST];
	uint32_t count = FAMILIES_MOST, computes, transfers;

	vk->GetPhysicalDeviceQueueFamilyProperties(p->device, &count, family);
	p->family[KILNI_VK_COMPUTES] = computes =
		find_computing(family, count);
	if (computes == count) {
		miss(p, COMPUTE_QUEUE);
		return;
	}
	if (!is_hidden("timestampValidBits"))
		p->timestamp_bits = family[computes].timestampValidBits;
	p->family[KILNI_VK_TRANSFERS] = transfers =
		find_transferring(family, count);
	p->families = transfers < count ? 2 : 1;
}

static void measure_heap(const struct kilni_vk_loader *vk,
			 struct kilni_vk_physical *p)
{
	VkPhysicalDeviceMemoryProperties memory;

	vk->GetPhysicalDeviceMemoryProperties(p->device, &memory);
	for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
		if (memory.memoryHeaps[i].flags &
		    VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
			p->heap_bytes = kilni_max_u64(
				p->heap_bytes, memory.memoryHeaps[i].size);
}

static void inspect(const struct kilni_vk_loader *vk,
		    struct kilni_vk_physical *p)
{
	vk->GetPhysicalDeviceProperties(p->device, &p->properties);
	p->software = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
	measure_heap(vk, p);
	if (p->properties.apiVersion < VK_API_VERSION_1_2) {
		miss(p, "Vulkan 1.2");
		return;
	}
	check_features(vk, p);
	read_properties(vk, p);
	find_families(vk, p);
}

/* ---- the list ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kilni_vk_physical physical[PHYSICAL_MOST];
static unsigned physicals;
static unsigned listed_epoch;
static bool listed;

static void add(const struct kilni_vk_loader *vk, VkPhysicalDevice device)
{
	struct kilni_vk_physical *p = &physical[physicals++];
	struct kilni_vk_physical last;

	memset(p, 0, sizeof(*p));
	p->device = device;
	p->ordinal = physicals - 1;
	inspect(vk, p);
	/* Real devices stand before software ones. */
	for (unsigned i = physicals - 1; i > 0; i--) {
		if (physical[i].software || !physical[i - 1].software)
			break;
		last = physical[i];
		physical[i] = physical[i - 1];
		physical[i - 1] = last;
	}
}

static enum kiln_status list_devices(const struct kilni_vk_loader *vk)
{
	VkPhysicalDevice device[PHYSICAL_MOST];
	uint32_t count = PHYSICAL_MOST;

	physicals = 0;
	KILNI_TRY(check_hidden());
	KILNI_TRY(KILNI_VK_CALL(vk, EnumeratePhysicalDevices, vk->instance,
				&count, device));
	for (uint32_t i = 0; i < count; i++)
		add(vk, device[i]);
	return KILN_OK;
}

enum kiln_status kilni_vk_list(const struct kilni_vk_physical **list,
			       unsigned *count, const char **why)
{
	const struct kilni_vk_loader *vk;
	enum kiln_status status = KILN_OK;

	*list = physical;
	*count = 0;
	KILNI_TRY(kilni_vk_load(&vk, why));
	pthread_mutex_lock(&lock);
	if (!listed || listed_epoch != kilni_fork_epoch) {
		status = list_devices(vk);
		listed = status == KILN_OK;
		listed_epoch = kilni_fork_epoch;
		if (!listed)
			physicals = 0;
	}
	*count = physicals;
	pthread_mutex_unlock(&lock);
	if (status == KILN_ERR_OPTION)
		*why = wrong_option;
	else if (!*count)
		*why = "libvulkan.so.1 has no device";
	return KILN_OK;
}
