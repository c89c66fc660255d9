/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libvulkan.so.1 without a GPU, for tests of identity: its devices can be
 * listed and described, not opened.
 *
 * KILN_STUB_VULKAN lists them, with ";" between. Each is
 *
 *	KIND,PCI,UUID,NAME[,LACKS]
 *
 * KIND is other, integrated, discrete, virtual or cpu; PCI is bus:device.function
 * in hex, or empty; UUID the first byte of 16, in hex; NAME any text, in which
 * "\xHH" stands for a byte; LACKS "1.2" (all of Vulkan 1.2) or "int64".
 *
 * KILN_STUB_VULKAN_OPENED names a file to which each try to open a device adds
 * a line.
 */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

struct device {
	VkPhysicalDeviceType kind;
	bool has_pci, lacks_12, lacks_int64;
	unsigned bus, slot, function;
	unsigned uuid;
	char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
};

static struct device devices[MOST];
static uint32_t device_count;

/* ---- settings ---- */

static const char *const kinds[] = { "other", "integrated", "discrete",
				     "virtual", "cpu" };

/* The next field; text goes on behind its comma. */
static void next_field(const char **text, char *field, size_t size)
{
	size_t length = strcspn(*text, ",;");

	snprintf(field, size, "%.*s", (int)length, *text);
	*text += length + ((*text)[length] == ',');
}

static void read_name(char *to, const char *from)
{
	unsigned byte;

	for (; *from; from++) {
		if (sscanf(from, "\\x%2x", &byte) == 1) {
			*to++ = (char)byte;
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static void read_device(struct device *device, const char *text)
{
	char field[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];

	memset(device, 0, sizeof(*device));
	next_field(&text, field, sizeof(field));
	for (unsigned i = 0; i < 5; i++)
		if (!strcmp(field, kinds[i]))
			device->kind = (VkPhysicalDeviceType)i;
	next_field(&text, field, sizeof(field));
	device->has_pci = sscanf(field, "%x:%x.%x", &device->bus, &device->slot,
				 &device->function) == 3;
	next_field(&text, field, sizeof(field));
	device->uuid = (unsigned)strtoul(field, NULL, 16);
	next_field(&text, field, sizeof(field));
	read_name(device->name, field);
	next_field(&text, field, sizeof(field));
	device->lacks_12 = !strcmp(field, "1.2");
	device->lacks_int64 = !strcmp(field, "int64");
}

static void read_devices(void)
{
	const char *text = getenv("KILN_STUB_VULKAN");

	device_count = 0;
	while (text && *text && device_count < MOST) {
		read_device(&devices[device_count++], text);
		text = strchr(text, ';');
		text = text ? text + 1 : NULL;
	}
}

/* ---- the instance ---- */

#define CALL(ret, name, ...)                                                   \
	static VKAPI_ATTR ret VKAPI_CALL name(__VA_ARGS__)

CALL(VkResult, stub_EnumerateInstanceVersion, uint32_t *version)
{
	*version = VK_API_VERSION_1_3;
	return VK_SUCCESS;
}

CALL(VkResult, stub_CreateInstance, const VkInstanceCreateInfo *info,
     const VkAllocationCallbacks *allocator, VkInstance *instance)
{
	(void)info;
	(void)allocator;
	read_devices();
	*instance = (VkInstance)(void *)&device_count;
	return VK_SUCCESS;
}

CALL(void, stub_DestroyInstance, VkInstance instance,
     const VkAllocationCallbacks *allocator)
{
	(void)instance;
	(void)allocator;
}

CALL(VkResult, stub_EnumeratePhysicalDevices, VkInstance instance,
     uint32_t *count, VkPhysicalDevice *list)
{
	uint32_t room = *count;

	(void)instance;
	*count = device_count;
	if (!list)
		return VK_SUCCESS;
	if (room < device_count)
		*count = room;
	for (uint32_t i = 0; i < *count; i++)
		list[i] = (VkPhysicalDevice)(void *)&devices[i];
	return room < device_count ? VK_INCOMPLETE : VK_SUCCESS;
}

/* ---- devices ---- */

static const struct device *device_of(VkPhysicalDevice handle)
{
	return (const struct device *)(const void *)handle;
}

CALL(VkResult, stub_EnumerateDeviceExtensionProperties, VkPhysicalDevice handle,
     const char *layer, uint32_t *count, VkExtensionProperties *list)
{
	uint32_t has = device_of(handle)->has_pci;

	(void)layer;
	if (list && *count && has)
		strcpy(list->extensionName, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
	*count = has;
	return VK_SUCCESS;
}

CALL(void, stub_GetPhysicalDeviceProperties, VkPhysicalDevice handle,
     VkPhysicalDeviceProperties *properties)
{
	const struct device *device = device_of(handle);

	memset(properties, 0, sizeof(*properties));
	properties->apiVersion = device->lacks_12 ? VK_API_VERSION_1_1
						  : VK_API_VERSION_1_3;
	properties->deviceType = device->kind;
	memcpy(properties->deviceName, device->name, sizeof(device->name));
	properties->limits.maxComputeWorkGroupInvocations = 1024;
	properties->limits.maxPushConstantsSize = 256;
}

static void fill_11(const struct device *device,
		    VkPhysicalDeviceVulkan11Properties *p)
{
	memset(p->deviceUUID, 0, VK_UUID_SIZE);
	p->deviceUUID[0] = (uint8_t)device->uuid;
	p->maxMemoryAllocationSize = (VkDeviceSize)4 << 30;
}

static void fill_12(VkPhysicalDeviceVulkan12Properties *p)
{
	strcpy(p->driverName, "stub");
	strcpy(p->driverInfo, "1.0");
	p->shaderSignedZeroInfNanPreserveFloat16 = VK_TRUE;
	p->shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
	p->shaderSignedZeroInfNanPreserveFloat64 = VK_TRUE;
}

static void fill_pci(const struct device *device,
		     VkPhysicalDevicePCIBusInfoPropertiesEXT *p)
{
	p->pciDomain = 0;
	p->pciBus = device->bus;
	p->pciDevice = device->slot;
	p->pciFunction = device->function;
}

CALL(void, stub_GetPhysicalDeviceProperties2, VkPhysicalDevice handle,
     VkPhysicalDeviceProperties2 *all)
{
	const struct device *device = device_of(handle);

	stub_GetPhysicalDeviceProperties(handle, &all->properties);
	for (VkBaseOutStructure *at = all->pNext; at; at = at->pNext) {
		void *found = at;

		switch ((int)at->sType) {
		case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES:
			fill_11(device, found);
			break;
		case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
			fill_12(found);
			break;
		case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT:
			fill_pci(device, found);
			break;
		default:
			break;
		}
	}
}

/* Every feature of a structure that consists of them from first to end. */
static void grant(VkBool32 *first, const void *end)
{
	while ((const void *)first < end)
		*first++ = VK_TRUE;
}

CALL(void, stub_GetPhysicalDeviceFeatures2, VkPhysicalDevice handle,
     VkPhysicalDeviceFeatures2 *all)
{
	grant((VkBool32 *)&all->features, &all->features + 1);
	all->features.shaderInt64 = !device_of(handle)->lacks_int64;
	for (VkBaseOutStructure *at = all->pNext; at; at = at->pNext) {
		void *found = at;
		VkPhysicalDeviceVulkan11Features *v11 = found;
		VkPhysicalDeviceVulkan12Features *v12 = found;

		if (at->sType ==
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES)
			grant(&v11->storageBuffer16BitAccess,
			      &v11->shaderDrawParameters + 1);
		if (at->sType ==
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
			grant(&v12->samplerMirrorClampToEdge,
			      &v12->subgroupBroadcastDynamicId + 1);
	}
}

CALL(void, stub_GetPhysicalDeviceMemoryProperties, VkPhysicalDevice handle,
     VkPhysicalDeviceMemoryProperties *memory)
{
	(void)handle;
	memset(memory, 0, sizeof(*memory));
	memory->memoryHeapCount = 1;
	memory->memoryHeaps[0].size = (VkDeviceSize)8 << 30;
	memory->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
	memory->memoryTypeCount = 1;
	memory->memoryTypes[0].propertyFlags =
		VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
}

CALL(void, stub_GetPhysicalDeviceMemoryProperties2, VkPhysicalDevice handle,
     VkPhysicalDeviceMemoryProperties2 *memory)
{
	stub_GetPhysicalDeviceMemoryProperties(handle,
					       &memory->memoryProperties);
}

CALL(void, stub_GetPhysicalDeviceQueueFamilyProperties, VkPhysicalDevice handle,
     uint32_t *count, VkQueueFamilyProperties *list)
{
	(void)handle;
	if (list && *count) {
		memset(list, 0, sizeof(*list));
		list->queueFlags = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
		list->queueCount = 1;
	}
	*count = 1;
}

CALL(VkResult, stub_CreateDevice, VkPhysicalDevice handle,
     const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator,
     VkDevice *out)
{
	const char *path = getenv("KILN_STUB_VULKAN_OPENED");
	FILE *file = path ? fopen(path, "a") : NULL;

	(void)info;
	(void)allocator;
	(void)out;
	if (file) {
		fprintf(file, "%s\n", device_of(handle)->name);
		fclose(file);
	}
	return VK_ERROR_INITIALIZATION_FAILED;
}

CALL(PFN_vkVoidFunction, stub_GetDeviceProcAddr, VkDevice device,
     const char *name)
{
	(void)device;
	(void)name;
	return NULL;
}

/* ---- finding them ---- */

#define FUNCTIONS(X)                                                           \
	X(EnumerateInstanceVersion)                                            \
	X(CreateInstance)                                                      \
	X(DestroyInstance)                                                     \
	X(EnumeratePhysicalDevices)                                            \
	X(EnumerateDeviceExtensionProperties)                                  \
	X(GetPhysicalDeviceProperties)                                         \
	X(GetPhysicalDeviceProperties2)                                        \
	X(GetPhysicalDeviceFeatures2)                                          \
	X(GetPhysicalDeviceMemoryProperties)                                   \
	X(GetPhysicalDeviceMemoryProperties2)                                  \
	X(GetPhysicalDeviceQueueFamilyProperties)                              \
	X(CreateDevice)                                                        \
	X(GetDeviceProcAddr)

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	(void)instance;
#define FIND(function)                                                         \
	if (!strcmp(name, "vk" #function))                                     \
		return (PFN_vkVoidFunction)stub_##function;
	FUNCTIONS(FIND)
#undef FIND
	return NULL;
}
