/* SPDX-License-Identifier: Apache-2.0 */
/*
 * t_kl_vulkan DIRECTORY: runs the SPIR-V of the kernel language (compile.sh
 * has put it there) on a Vulkan device and compares with the CPU's kernels, bit
 * for bit. Exit status 77 where there is no device that can.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vulkan.h>

#include "drivers/vulkan/trim.h"
#include "kernels/abi.h"
#include "tests/kl/case_data.h"
#include "tests/kl/samples.h"

#define SKIP 77
#define SPACE (1u << 20)
#define GROUP 64u
#define MODULE_MOST (1u << 19)

struct gpu {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	VkQueue queue;
	uint32_t family;
	VkBuffer buffer;
	VkDeviceMemory memory;
	char *map;
	VkDeviceAddress address;
	VkPipelineLayout layout;
	VkCommandPool pool;
	VkCommandBuffer commands;
	const char *directory;
};

static unsigned failures;
static unsigned checks;

static void skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(SKIP);
}

static void must(VkResult r, const char *what)
{
	if (r == VK_SUCCESS)
		return;
	printf("%s: VkResult %d\n", what, r);
	exit(1);
}

static int has_features(VkPhysicalDevice d)
{
	VkPhysicalDeviceVulkan12Features v12 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES
	};
	VkPhysicalDeviceVulkan11Features v11 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
		.pNext = &v12
	};
	VkPhysicalDeviceFeatures2 f = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
		.pNext = &v11
	};
	VkPhysicalDeviceProperties p;

	vkGetPhysicalDeviceProperties(d, &p);
	if (p.apiVersion < VK_API_VERSION_1_2)
		return 0;
	vkGetPhysicalDeviceFeatures2(d, &f);
	return f.features.shaderInt64 && f.features.shaderFloat64 &&
		v12.bufferDeviceAddress && v12.scalarBlockLayout &&
		v12.storageBuffer8BitAccess && v11.storageBuffer16BitAccess &&
		v12.shaderBufferInt64Atomics;
}

static void open_instance(struct gpu *g)
{
	VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.apiVersion = VK_API_VERSION_1_2
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app
	};
	VkPhysicalDevice devices[16];
	VkPhysicalDeviceProperties p;
	uint32_t n = 16;

	if (vkCreateInstance(&info, NULL, &g->instance) != VK_SUCCESS)
		skip("no Vulkan instance");
	if (vkEnumeratePhysicalDevices(g->instance, &n, devices) < 0 || n == 0)
		skip("no Vulkan device");
	for (uint32_t i = 0; i < n && g->physical == VK_NULL_HANDLE; i++)
		if (has_features(devices[i]))
			g->physical = devices[i];
	if (g->physical == VK_NULL_HANDLE)
		skip("no Vulkan device with the features needed");
	vkGetPhysicalDeviceProperties(g->physical, &p);
	printf("# %s\n", p.deviceName);
}

static void open_device(struct gpu *g)
{
	VkPhysicalDeviceVulkan12Features v12 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
		.bufferDeviceAddress = VK_TRUE,
		.scalarBlockLayout = VK_TRUE,
		.storageBuffer8BitAccess = VK_TRUE,
		.shaderBufferInt64Atomics = VK_TRUE
	};
	VkPhysicalDeviceVulkan11Features v11 = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
		.pNext = &v12,
		.storageBuffer16BitAccess = VK_TRUE
	};
	VkPhysicalDeviceFeatures2 f = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
		.pNext = &v11,
		.features = { .shaderInt64 = VK_TRUE,
			      .shaderFloat64 = VK_TRUE }
	};
	float priority = 1;
	VkDeviceQueueCreateInfo q = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueCount = 1,
		.pQueuePriorities = &priority
	};
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &f,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &q
	};
	VkQueueFamilyProperties families[16];
	uint32_t n = 16;

	vkGetPhysicalDeviceQueueFamilyProperties(g->physical, &n, families);
	while (g->family < n &&
	       !(families[g->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
		g->family++;
	if (g->family == n)
		skip("no compute queue");
	q.queueFamilyIndex = g->family;
	must(vkCreateDevice(g->physical, &info, NULL, &g->device),
	     "vkCreateDevice");
	vkGetDeviceQueue(g->device, g->family, 0, &g->queue);
}

static uint32_t memory_type(struct gpu *g, uint32_t allowed)
{
	VkPhysicalDeviceMemoryProperties m;
	VkMemoryPropertyFlags want = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
		VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

	vkGetPhysicalDeviceMemoryProperties(g->physical, &m);
	for (uint32_t i = 0; i < m.memoryTypeCount; i++)
		if ((allowed >> i & 1) &&
		    (m.memoryTypes[i].propertyFlags & want) == want)
			return i;
	skip("no host-visible memory");
	return 0;
}

static void open_memory(struct gpu *g)
{
	VkBufferCreateInfo b = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = SPACE,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
			VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT
	};
	VkMemoryAllocateFlagsInfo flags = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
	};
	VkMemoryAllocateInfo a = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &flags
	};
	VkBufferDeviceAddressInfo where = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO
	};
	VkMemoryRequirements r;
	void *map;

	must(vkCreateBuffer(g->device, &b, NULL, &g->buffer),
	     "vkCreateBuffer");
	vkGetBufferMemoryRequirements(g->device, g->buffer, &r);
	a.allocationSize = r.size;
	a.memoryTypeIndex = memory_type(g, r.memoryTypeBits);
	must(vkAllocateMemory(g->device, &a, NULL, &g->memory),
	     "vkAllocateMemory");
	must(vkBindBufferMemory(g->device, g->buffer, g->memory, 0),
	     "vkBindBufferMemory");
	must(vkMapMemory(g->device, g->memory, 0, VK_WHOLE_SIZE, 0, &map),
	     "vkMapMemory");
	g->map = map;
	where.buffer = g->buffer;
	g->address = vkGetBufferDeviceAddress(g->device, &where);
}

static void open_queue(struct gpu *g)
{
	VkPushConstantRange push = { VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 };
	VkPipelineLayoutCreateInfo l = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push
	};
	VkCommandPoolCreateInfo p = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
	};
	VkCommandBufferAllocateInfo c = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1
	};

	must(vkCreatePipelineLayout(g->device, &l, NULL, &g->layout),
	     "vkCreatePipelineLayout");
	p.queueFamilyIndex = g->family;
	must(vkCreateCommandPool(g->device, &p, NULL, &g->pool),
	     "vkCreateCommandPool");
	c.commandPool = g->pool;
	must(vkAllocateCommandBuffers(g->device, &c, &g->commands),
	     "vkAllocateCommandBuffers");
}

/* The words of a module by name, loaded once. */
static const uint32_t *words_of(struct gpu *g, const char *name, size_t *bytes)
{
	static struct {
		char name[32];
		uint32_t *words;
		size_t bytes;
	} known[96];
	static unsigned n;
	char path[1024];
	FILE *f;
	unsigned i = 0;

	while (i < n && strcmp(known[i].name, name) != 0)
		i++;
	if (i == n) {
		snprintf(path, sizeof(path), "%s/%s.spv", g->directory, name);
		f = fopen(path, "rb");
		if (f == NULL)
			skip("no SPIR-V modules; run compile.sh first");
		known[n].words = malloc(MODULE_MOST);
		if (known[n].words == NULL)
			skip("no memory for a module");
		known[n].bytes = fread(known[n].words, 1, MODULE_MOST, f);
		fclose(f);
		snprintf(known[n].name, sizeof(known[n].name), "%s", name);
		n++;
	}
	*bytes = known[i].bytes;
	return known[i].words;
}

/* Cut down to the op, as the driver does: compilers are long over the rest. */
static VkShaderModule module(struct gpu *g, const char *name,
			     const uint32_t constant[4])
{
	uint16_t narrow[4] = { (uint16_t)constant[0], (uint16_t)constant[1],
			       (uint16_t)constant[2], (uint16_t)constant[3] };
	VkShaderModuleCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO
	};
	size_t bytes = 0;
	const uint32_t *words = words_of(g, name, &bytes);
	uint32_t *trimmed = kilni_vk_trim(words, bytes, narrow, 4,
					  &info.codeSize);
	VkShaderModule made;

	info.pCode = trimmed;
	if (trimmed == NULL) {
		fprintf(stderr, "t_kl_vulkan: %s cannot be cut down\n", name);
		exit(1);
	}
	must(vkCreateShaderModule(g->device, &info, NULL, &made),
	     "vkCreateShaderModule");
	free(trimmed);
	return made;
}

/* Specialisation constants 0 to 3, and the size of a group as 4. */
static VkPipeline pipeline(struct gpu *g, const char *name,
			   const uint32_t constant[4])
{
	uint32_t data[5] = { constant[0], constant[1], constant[2],
			     constant[3], GROUP };
	VkSpecializationMapEntry entry[5];
	VkSpecializationInfo special = { 5, entry, sizeof(data), data };
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.module = module(g, name, constant),
			.pName = "main",
			.pSpecializationInfo = &special
		},
		.layout = g->layout
	};
	VkPipeline p;

	for (uint32_t i = 0; i < 5; i++)
		entry[i] = (VkSpecializationMapEntry){ i, i * 4, 4 };
	must(vkCreateComputePipelines(g->device, VK_NULL_HANDLE, 1, &info,
				      NULL, &p), "vkCreateComputePipelines");
	vkDestroyShaderModule(g->device, info.stage.module, NULL);
	return p;
}

/* Runs a kernel on the parameters at the start of the memory. */
static void run(struct gpu *g, const char *name, const uint32_t constant[4],
		uint64_t n)
{
	VkPipeline p = pipeline(g, name, constant);
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
	};
	VkSubmitInfo submit = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &g->commands
	};
	uint32_t groups = (uint32_t)((n + GROUP - 1) / GROUP);

	must(vkBeginCommandBuffer(g->commands, &begin),
	     "vkBeginCommandBuffer");
	vkCmdBindPipeline(g->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p);
	vkCmdPushConstants(g->commands, g->layout,
			   VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &g->address);
	vkCmdDispatch(g->commands, groups > 4 ? 4 : groups, 1, 1);
	must(vkEndCommandBuffer(g->commands), "vkEndCommandBuffer");
	must(vkQueueSubmit(g->queue, 1, &submit, VK_NULL_HANDLE),
	     "vkQueueSubmit");
	must(vkQueueWaitIdle(g->queue), "vkQueueWaitIdle");
	vkDestroyPipeline(g->device, p, NULL);
}

static void run_ew(void *context, struct kilni_ew_params *p, int form)
{
	struct gpu *g = context;
	unsigned d = p->dtype[p->op == KILNI_OP_FULL || p->op ==
			      KILNI_OP_ARANGE || p->op == KILNI_OP_RANDOM
			      ? 0 : 1];
	uint32_t constant[4] = { p->op, p->dtype[0], p->dtype[2],
				 p->dtype[3] };
	char name[32];

	snprintf(name, sizeof(name), "ew%u_%d", module_dtype(d), form);
	memcpy(g->map, p, sizeof(*p));
	run(g, name, constant, p->count);
}

static void run_gather(void *context, struct kilni_gather_params *p, int form)
{
	struct gpu *g = context;
	uint32_t constant[4] = { 0, 0, p->index_dtype, 0 };
	char name[32];

	snprintf(name, sizeof(name), "gather%u_%d", p->element_bytes, form);
	memcpy(g->map, p, sizeof(*p));
	run(g, name, constant, p->count);
}

int main(int argc, char **argv)
{
	static struct gpu g;
	struct target t = { "vulkan", run_ew, run_gather, &g, NULL, 0 };

	g.directory = argc > 1 ? argv[1] : ".";
	open_instance(&g);
	open_device(&g);
	open_memory(&g);
	open_queue(&g);
	t.map = g.map;
	t.address = g.address;
	compare_all(&t, &checks, &failures);
	printf("%u checks, %u failed\n", checks, failures);
	return failures != 0;
}
