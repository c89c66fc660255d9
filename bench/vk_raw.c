/* SPDX-License-Identifier: Apache-2.0 */
#include "vk_raw.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCE(X)                                                            \
	X(EnumeratePhysicalDevices)                                            \
	X(GetPhysicalDeviceProperties)                                         \
	X(GetPhysicalDeviceMemoryProperties)                                   \
	X(GetPhysicalDeviceQueueFamilyProperties)                              \
	X(CreateDevice)                                                        \
	X(GetDeviceQueue)                                                      \
	X(QueueSubmit)                                                         \
	X(CreateSemaphore)                                                     \
	X(GetSemaphoreCounterValue)                                            \
	X(CreateBuffer)                                                        \
	X(GetBufferMemoryRequirements)                                         \
	X(GetBufferDeviceAddress)                                              \
	X(AllocateMemory)                                                      \
	X(BindBufferMemory)                                                    \
	X(MapMemory)                                                           \
	X(CreateShaderModule)                                                  \
	X(CreatePipelineLayout)                                                \
	X(CreateComputePipelines)                                              \
	X(CreateCommandPool)                                                   \
	X(AllocateCommandBuffers)                                              \
	X(BeginCommandBuffer)                                                  \
	X(EndCommandBuffer)                                                    \
	X(CmdBindPipeline)                                                     \
	X(CmdPushConstants)                                                    \
	X(CmdDispatch)                                                         \
	X(CmdPipelineBarrier)                                                  \
	X(CmdCopyBuffer)

#define POINTER_(name) static PFN_vk##name vk##name;
INSTANCE(POINTER_)

static VkInstance instance;
static VkPhysicalDevice physical;
static VkPhysicalDeviceProperties properties;
static VkDevice device;
static VkQueue queue;
static uint32_t family;
static VkQueueFamilyProperties families[16];
static uint32_t family_count = 16;
static uint32_t all_families[16]; /* their numbers */
static VkSemaphore semaphore;
static uint64_t value;
static VkPipelineLayout layout;
static VkPipeline pipeline;
static VkCommandBuffer commands;

static void must(VkResult result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "vk_raw: %s: %d\n", what, (int)result);
	exit(1);
}

#define MUST(call) must(call, #call)

/* ---- the device ---- */

static void load(void)
{
	VkApplicationInfo program = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.apiVersion = VK_API_VERSION_1_2,
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &program,
	};
	void *library = dlopen("libvulkan.so.1", RTLD_NOW);
	PFN_vkGetInstanceProcAddr get;
	PFN_vkCreateInstance create;

	if (!library) {
		fprintf(stderr, "vk_raw: %s\n", dlerror());
		exit(1);
	}
	*(void **)&get = dlsym(library, "vkGetInstanceProcAddr");
	create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
	MUST(create(&info, NULL, &instance));
#define LOAD_(name) vk##name = (PFN_vk##name)get(instance, "vk" #name);
	INSTANCE(LOAD_)
}

static void choose(int software)
{
	VkPhysicalDevice list[16];
	uint32_t count = 16;

	MUST(vkEnumeratePhysicalDevices(instance, &count, list));
	for (uint32_t i = 0; i < count && !physical; i++) {
		vkGetPhysicalDeviceProperties(list[i], &properties);
		if ((properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) ==
		    !!software)
			physical = list[i];
	}
	if (!physical) {
		fprintf(stderr, "vk_raw: no such device\n");
		exit(1);
	}
}

static void choose_family(void)
{
	vkGetPhysicalDeviceQueueFamilyProperties(physical, &family_count,
						 families);
	while (family + 1 < family_count &&
	       !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
		family++;
	for (uint32_t i = 0; i < family_count; i++)
		all_families[i] = i;
}

static void create_device(void)
{
	const float priority = 1;
	VkPhysicalDeviceVulkan12Features features12 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
		.bufferDeviceAddress = VK_TRUE,
		.timelineSemaphore = VK_TRUE,
		.scalarBlockLayout = VK_TRUE,
	};
	VkPhysicalDeviceFeatures features = { .shaderInt64 = VK_TRUE };
	VkDeviceQueueCreateInfo queues[16];
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &features12,
		.queueCreateInfoCount = family_count,
		.pQueueCreateInfos = queues,
		.pEnabledFeatures = &features,
	};

	for (uint32_t i = 0; i < family_count; i++)
		queues[i] = (VkDeviceQueueCreateInfo){
			.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = i,
			.queueCount = 1,
			.pQueuePriorities = &priority,
		};
	MUST(vkCreateDevice(physical, &info, NULL, &device));
	vkGetDeviceQueue(device, family, 0, &queue);
}

static VkSemaphore create_semaphore(void)
{
	VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};
	VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
		.pNext = &type,
	};
	VkSemaphore made;

	MUST(vkCreateSemaphore(device, &info, NULL, &made));
	return made;
}

/* ---- memory ---- */

/* The first type with all of these, or else with what the host needs. */
static uint32_t type_with(VkMemoryPropertyFlags flags)
{
	VkPhysicalDeviceMemoryProperties memory;

	vkGetPhysicalDeviceMemoryProperties(physical, &memory);
	for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
		if ((memory.memoryTypes[i].propertyFlags & flags) == flags)
			return i;
	return type_with(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
			 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
}

static VkBuffer create_buffer(uint64_t bytes)
{
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = bytes,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
			 VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
			 VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
		.sharingMode = family_count > 1 ? VK_SHARING_MODE_CONCURRENT
						: VK_SHARING_MODE_EXCLUSIVE,
		.queueFamilyIndexCount = family_count,
		.pQueueFamilyIndices = all_families,
	};
	VkBuffer buffer;

	MUST(vkCreateBuffer(device, &info, NULL, &buffer));
	return buffer;
}

/* Memory for a buffer; map: where it is to be mapped, or NULL */
static VkDeviceAddress back(VkBuffer buffer, VkMemoryPropertyFlags flags,
			    void **map)
{
	VkMemoryAllocateFlagsInfo addressed = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &addressed,
		.memoryTypeIndex = type_with(flags),
	};
	VkBufferDeviceAddressInfo where = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
		.buffer = buffer,
	};
	VkMemoryRequirements needs;
	VkDeviceMemory memory;

	vkGetBufferMemoryRequirements(device, buffer, &needs);
	info.allocationSize = needs.size;
	MUST(vkAllocateMemory(device, &info, NULL, &memory));
	MUST(vkBindBufferMemory(device, buffer, memory, 0));
	if (map)
		MUST(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, map));
	return vkGetBufferDeviceAddress(device, &where);
}

static VkDeviceAddress create_block(uint64_t bytes, VkMemoryPropertyFlags flags,
				    void **map)
{
	return back(create_buffer(bytes), flags, map);
}

/* ---- the kernel ---- */

static void create_pipeline(const uint32_t *spirv, size_t bytes)
{
	const uint32_t group = 256;
	VkShaderModuleCreateInfo code = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = bytes,
		.pCode = spirv,
	};
	VkPushConstantRange push = { VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 };
	VkPipelineLayoutCreateInfo form = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push,
	};
	VkSpecializationMapEntry entry = { 4, 0, 4 };
	VkSpecializationInfo special = { 1, &entry, 4, &group };
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main",
			.pSpecializationInfo = &special,
		},
	};

	MUST(vkCreatePipelineLayout(device, &form, NULL, &layout));
	MUST(vkCreateShaderModule(device, &code, NULL, &info.stage.module));
	info.layout = layout;
	MUST(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL,
				      &pipeline));
}

/* ---- the commands ---- */

static VkCommandBuffer create_commands(uint32_t of)
{
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.queueFamilyIndex = of,
	};
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1,
	};

	VkCommandBuffer made;

	MUST(vkCreateCommandPool(device, &pool, NULL, &info.commandPool));
	MUST(vkAllocateCommandBuffers(device, &info, &made));
	return made;
}

static void dispatch(VkDeviceAddress params, unsigned elements)
{
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
				 VK_ACCESS_SHADER_WRITE_BIT,
	};

	vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
			   sizeof(params), &params);
	vkCmdDispatch(commands, (elements + 255) / 256, 1, 1);
	vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
			     VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
			     &barrier, 0, NULL, 0, NULL);
}

static void record(unsigned dispatches, unsigned elements)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};
	VkDeviceAddress data, params;
	void *map;

	data = create_block((uint64_t)elements * 8,
			    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, NULL);
	params = create_block((uint64_t)dispatches * 64,
			      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
				      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
				      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
			      &map);
	MUST(vkBeginCommandBuffer(commands, &begin));
	vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
	for (unsigned i = 0; i < dispatches; i++) {
		const uint64_t block[5] = { 0, data, data + elements * 4, data,
					    elements };
		const float factor = 0.5f;

		memcpy((char *)map + i * 64, block, sizeof(block));
		memcpy((char *)map + i * 64 + sizeof(block), &factor, 4);
		dispatch(params + i * 64, elements);
	}
	MUST(vkEndCommandBuffer(commands));
}

/* ---- for the caller ---- */

const uint32_t *raw_read(const char *path, size_t *bytes)
{
	static uint32_t code[16384];
	FILE *file = fopen(path, "rb");

	if (!file) {
		perror(path);
		exit(1);
	}
	*bytes = fread(code, 1, sizeof(code), file);
	fclose(file);
	return code;
}

void raw_open(int software, const uint32_t *spirv, size_t bytes,
	      unsigned dispatches, unsigned elements)
{
	load();
	choose(software);
	choose_family();
	create_device();
	semaphore = create_semaphore();
	create_pipeline(spirv, bytes);
	commands = create_commands(family);
	record(dispatches, elements);
}

const char *raw_device(void)
{
	return properties.deviceName;
}

/* The value that the semaphore of what was handed over will have. */
static uint64_t submit(VkQueue to, VkCommandBuffer what, VkSemaphore counter,
		       uint64_t next)
{
	VkTimelineSemaphoreSubmitInfo timeline = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &next,
	};
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &timeline,
		.commandBufferCount = 1,
		.pCommandBuffers = &what,
		.signalSemaphoreCount = 1,
		.pSignalSemaphores = &counter,
	};

	MUST(vkQueueSubmit(to, 1, &info, VK_NULL_HANDLE));
	return next;
}

static void wait_for(VkSemaphore counter, uint64_t wanted)
{
	uint64_t reached = 0;

	while (reached < wanted)
		MUST(vkGetSemaphoreCounterValue(device, counter, &reached));
}

void raw_submit(void)
{
	value = submit(queue, commands, semaphore, value + 1);
}

void raw_wait(void)
{
	wait_for(semaphore, value);
}

/* ---- copies ---- */

static struct copies {
	VkQueue queue;
	VkCommandBuffer down, up;
	VkSemaphore semaphore;
	uint64_t value;
} copies[16];

static VkCommandBuffer record_copy(uint32_t of, VkBuffer from, VkBuffer to,
				   size_t bytes)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};
	VkBufferCopy region = { 0, 0, bytes };
	VkCommandBuffer made = create_commands(of);

	MUST(vkBeginCommandBuffer(made, &begin));
	vkCmdCopyBuffer(made, from, to, 1, &region);
	MUST(vkEndCommandBuffer(made));
	return made;
}

void raw_copies_open(size_t bytes)
{
	VkBuffer far = create_buffer(bytes), near = create_buffer(bytes);

	back(far, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, NULL);
	back(near, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
		   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
		   VK_MEMORY_PROPERTY_HOST_CACHED_BIT, NULL);
	for (uint32_t i = 0; i < family_count; i++) {
		if (!raw_family(i))
			continue;
		vkGetDeviceQueue(device, i, 0, &copies[i].queue);
		copies[i].semaphore = create_semaphore();
		copies[i].up = record_copy(i, near, far, bytes);
		copies[i].down = record_copy(i, far, near, bytes);
	}
}

unsigned raw_families(void)
{
	return family_count;
}

const char *raw_family(unsigned which)
{
	VkQueueFlags flags = families[which].queueFlags;

	if (flags & VK_QUEUE_GRAPHICS_BIT)
		return "graphics";
	if (flags & VK_QUEUE_COMPUTE_BIT)
		return "compute";
	return flags & VK_QUEUE_TRANSFER_BIT ? "transfer" : NULL;
}

void raw_copy(unsigned which, int up)
{
	struct copies *c = &copies[which];

	c->value = submit(c->queue, up ? c->up : c->down, c->semaphore,
			  c->value + 1);
}

void raw_copy_wait(unsigned which)
{
	wait_for(copies[which].semaphore, copies[which].value);
}
