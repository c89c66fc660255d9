/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- results ---- */

#define RESULTS(X)                                                             \
	X(ERROR_OUT_OF_HOST_MEMORY, NO_MEMORY)                                 \
	X(ERROR_OUT_OF_DEVICE_MEMORY, OUT_OF_MEMORY)                           \
	X(ERROR_INITIALIZATION_FAILED, DRIVER)                                 \
	X(ERROR_DEVICE_LOST, DEVICE_LOST)                                      \
	X(ERROR_MEMORY_MAP_FAILED, DRIVER)                                     \
	X(ERROR_LAYER_NOT_PRESENT, DRIVER)                                     \
	X(ERROR_EXTENSION_NOT_PRESENT, UNSUPPORTED)                            \
	X(ERROR_FEATURE_NOT_PRESENT, UNSUPPORTED)                              \
	X(ERROR_INCOMPATIBLE_DRIVER, UNSUPPORTED)                              \
	X(ERROR_TOO_MANY_OBJECTS, LIMIT)                                       \
	X(ERROR_FRAGMENTED_POOL, OUT_OF_MEMORY)                                \
	X(ERROR_UNKNOWN, DRIVER)                                               \
	X(ERROR_OUT_OF_POOL_MEMORY, OUT_OF_MEMORY)                             \
	X(ERROR_INVALID_EXTERNAL_HANDLE, DRIVER)                               \
	X(ERROR_FRAGMENTATION, OUT_OF_MEMORY)                                  \
	X(ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS, OUT_OF_MEMORY)                 \
	X(ERROR_VALIDATION_FAILED_EXT, DRIVER)

const char *kilni_vk_result_name(VkResult result)
{
	switch ((int)result) {
#define NAME(id, status)                                                       \
	case VK_##id:                                                          \
		return "VK_" #id;
		RESULTS(NAME)
#undef NAME
	default:
		return "a VkResult without a name here";
	}
}

enum kiln_status kilni_vk_status(VkResult result, const char *call)
{
	enum kiln_status status = KILN_ERR_DRIVER;

	if (KILNI_LIKELY(result >= 0))
		return KILN_OK;
	switch ((int)result) {
#define STATUS(id, name)                                                       \
	case VK_##id:                                                          \
		status = KILN_ERR_##name;                                      \
		break;
		RESULTS(STATUS)
#undef STATUS
	default:
		break;
	}
	return kilni_fail(status, result, "vulkan: %s: %s (%d)", call,
			  kilni_vk_result_name(result), (int)result);
}

/* ---- the library and the instance ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kilni_vk_loader loaded;
static unsigned loaded_epoch;
static bool tried;
static enum kiln_status outcome;
static char reason[256];

/* Says why there is no Vulkan, once. */
static enum kiln_status lack(enum kiln_status status, const char *what,
			     const char *detail)
{
	snprintf(reason, sizeof(reason), "%s%s%s", what,
		 detail && *detail ? ": " : "", detail ? detail : "");
	return status;
}

static enum kiln_status open_library(struct kilni_vk_loader *l)
{
	void *found;

	if (KILNI_FAULT("dlopen") == KILN_OK)
		l->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!l->library)
		return lack(KILN_ERR_NO_DEVICE, "no libvulkan.so.1", NULL);
	found = dlsym(l->library, "vkGetInstanceProcAddr");
	if (!found)
		return lack(KILN_ERR_NO_DEVICE,
			    "libvulkan.so.1 has no vkGetInstanceProcAddr",
			    NULL);
	memcpy(&l->GetInstanceProcAddr, &found, sizeof(found));
	return KILN_OK;
}

/* Stores the function of that name; false where there is none. */
static bool find(const struct kilni_vk_loader *l, VkInstance instance,
		 const char *name, void *field)
{
	PFN_vkVoidFunction found = l->GetInstanceProcAddr(instance, name);

	memcpy(field, &found, sizeof(found));
	return found != NULL;
}

#define FIND_GLOBAL(name)                                                      \
	if (!find(l, NULL, "vk" #name, &l->name))                              \
		return lack(KILN_ERR_NO_DEVICE,                                \
			    "libvulkan.so.1 is older than Vulkan 1.2, it "     \
			    "lacks vk" #name,                                  \
			    NULL);

static enum kiln_status find_globals(struct kilni_vk_loader *l)
{
	KILNI_VK_GLOBAL(FIND_GLOBAL)
	return KILN_OK;
}

#define FIND_INSTANCE(name)                                                    \
	if (!find(l, l->instance, "vk" #name, &l->name))                       \
		return lack(KILN_ERR_NO_DEVICE, "the instance lacks vk" #name, \
			    NULL);

static enum kiln_status find_functions(struct kilni_vk_loader *l)
{
	KILNI_VK_INSTANCE(FIND_INSTANCE)
	return KILN_OK;
}

static enum kiln_status create_instance(struct kilni_vk_loader *l)
{
	VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.pApplicationName = "kiln",
		.pEngineName = "kiln",
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
	};
	enum kiln_status status;
	uint32_t version = 0;

	status = KILNI_VK_CALL(l, EnumerateInstanceVersion, &version);
	if (status == KILN_OK && version < VK_API_VERSION_1_2)
		return lack(KILN_ERR_NO_DEVICE,
			    "libvulkan.so.1 is older than Vulkan 1.2", NULL);
	l->version = version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2
						  : VK_API_VERSION_1_3;
	app.apiVersion = l->version;
	if (status == KILN_OK)
		status = KILNI_VK_CALL(l, CreateInstance, &info, NULL,
				       &l->instance);
	if (status != KILN_OK)
		return lack(KILN_ERR_NO_DEVICE, "no Vulkan instance",
			    kiln_error_message());
	return KILN_OK;
}

static enum kiln_status load(struct kilni_vk_loader *l)
{
	KILNI_TRY(open_library(l));
	KILNI_TRY(find_globals(l));
	KILNI_TRY(create_instance(l));
	return find_functions(l);
}

/* A refusal is no error of the caller's, who may only be listing. */
static enum kiln_status load_quietly(void)
{
	struct kilni_error_record before;
	enum kiln_status status;

	memset(&loaded, 0, sizeof(loaded));
	kilni_error_save(&before);
	status = load(&loaded);
	kilni_error_restore(&before);
	/* An injected fault is not for good. */
	tried = !__atomic_load_n(&kilni_fault_armed, __ATOMIC_RELAXED) ||
		status == KILN_OK;
	return status;
}

enum kiln_status kilni_vk_load(const struct kilni_vk_loader **loader,
			       const char **why)
{
	enum kiln_status status;

	kilni_fork_watch();
	pthread_mutex_lock(&lock);
	if (!tried || loaded_epoch != kilni_fork_epoch) {
		loaded_epoch = kilni_fork_epoch;
		outcome = load_quietly();
	}
	status = outcome;
	pthread_mutex_unlock(&lock);
	*loader = &loaded;
	*why = status == KILN_OK ? NULL : reason;
	return status;
}

#define FIND_CALL(name)                                                        \
	found = loader->GetDeviceProcAddr(device, "vk" #name);                 \
	if (!found)                                                            \
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,                     \
				  "vulkan: the device lacks vk" #name);        \
	memcpy(&calls->name, &found, sizeof(found));

enum kiln_status kilni_vk_load_calls(const struct kilni_vk_loader *loader,
				     VkDevice device,
				     struct kilni_vk_calls *calls)
{
	PFN_vkVoidFunction found;

	KILNI_VK_DEVICE(FIND_CALL)
#define FIND_OPTIONAL(name)                                                    \
	calls->name = (PFN_vk##name)loader->GetDeviceProcAddr(device,          \
							      "vk" #name);
	KILNI_VK_OPTIONAL(FIND_OPTIONAL)
#undef FIND_OPTIONAL
	return KILN_OK;
}
