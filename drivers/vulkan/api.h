/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_API_H
#define KILNI_VULKAN_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "base/base.h"

/*
 * libvulkan's entry points, found at run time: those that need no instance,
 * those of an instance and those of a device. What is not listed cannot be
 * called.
 */
#define KILNI_VK_GLOBAL(X)                                                     \
	X(CreateInstance)                                                      \
	X(EnumerateInstanceVersion)

#define KILNI_VK_INSTANCE(X)                                                   \
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

#define KILNI_VK_DEVICE(X)                                                     \
	X(DestroyDevice)                                                       \
	X(GetDeviceQueue)                                                      \
	X(DeviceWaitIdle)                                                      \
	X(QueueSubmit)                                                         \
	X(CreateSemaphore)                                                     \
	X(DestroySemaphore)                                                    \
	X(GetSemaphoreCounterValue)                                            \
	X(WaitSemaphores)                                                      \
	X(CreateBuffer)                                                        \
	X(DestroyBuffer)                                                       \
	X(GetBufferMemoryRequirements)                                         \
	X(GetBufferDeviceAddress)                                              \
	X(AllocateMemory)                                                      \
	X(FreeMemory)                                                          \
	X(BindBufferMemory)                                                    \
	X(MapMemory)                                                           \
	X(CreateShaderModule)                                                  \
	X(DestroyShaderModule)                                                 \
	X(CreatePipelineLayout)                                                \
	X(DestroyPipelineLayout)                                               \
	X(CreatePipelineCache)                                                 \
	X(DestroyPipelineCache)                                                \
	X(GetPipelineCacheData)                                                \
	X(CreateComputePipelines)                                              \
	X(DestroyPipeline)                                                     \
	X(CreateCommandPool)                                                   \
	X(DestroyCommandPool)                                                  \
	X(ResetCommandPool)                                                    \
	X(AllocateCommandBuffers)                                              \
	X(BeginCommandBuffer)                                                  \
	X(EndCommandBuffer)                                                    \
	X(CmdBindPipeline)                                                     \
	X(CmdPushConstants)                                                    \
	X(CmdDispatch)                                                         \
	X(CmdPipelineBarrier)                                                  \
	X(CmdCopyBuffer)                                                       \
	X(CmdFillBuffer)                                                       \
	X(CreateQueryPool)                                                     \
	X(DestroyQueryPool)                                                    \
	X(GetQueryPoolResults)                                                 \
	X(CmdResetQueryPool)                                                   \
	X(CmdWriteTimestamp)

/* Of extensions: NULL where the device has not got it. */
#define KILNI_VK_OPTIONAL(X) X(GetMemoryHostPointerPropertiesEXT)

#define KILNI_VK_FIELD_(name) PFN_vk##name name;

struct kilni_vk_loader {
	void *library;
	PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
	KILNI_VK_GLOBAL(KILNI_VK_FIELD_)
	KILNI_VK_INSTANCE(KILNI_VK_FIELD_)
	VkInstance instance;
	uint32_t version;          /* of the instance that was asked for */
};

struct kilni_vk_calls {
	KILNI_VK_DEVICE(KILNI_VK_FIELD_)
	KILNI_VK_OPTIONAL(KILNI_VK_FIELD_)
};

/*
 * A call that may fail, as a status with the record filled. Its name is a
 * fault site, so every one of them can be made to fail. Statuses of success
 * other than VK_SUCCESS count as success.
 */
#define KILNI_VK_CALL(calls, name, ...)                                        \
	__extension__({                                                        \
		enum kiln_status vk_ = KILNI_FAULT("vk" #name);                \
                                                                               \
		if (KILNI_LIKELY(vk_ == KILN_OK))                              \
			vk_ = kilni_vk_status((calls)->name(__VA_ARGS__),      \
					      "vk" #name);                     \
		vk_;                                                           \
	})

/* The status for a result of the call; records a failure. */
enum kiln_status kilni_vk_status(VkResult result, const char *call);

/* VK_ERROR_..., or a number's text. */
const char *kilni_vk_result_name(VkResult result);

/*
 * The library and one instance, made at the first call and kept as long as
 * the process runs; a forked child gets its own. On failure why says what is
 * missing: one line.
 */
enum kiln_status kilni_vk_load(const struct kilni_vk_loader **loader,
			       const char **why);

/* The functions of a device. KILN_ERR_UNSUPPORTED: one is missing. */
enum kiln_status kilni_vk_load_calls(const struct kilni_vk_loader *loader,
				     VkDevice device,
				     struct kilni_vk_calls *calls);

#endif
