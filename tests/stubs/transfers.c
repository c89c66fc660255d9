/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan driver, for the loader, that adds queue families to another one,
 * which KILN_STUB_ICD names: Mesa's, on the CPU. One transfers, as one that
 * decodes video does too, which nobody is to take. A thread of the device's own
 * carries out the copies of the first, whatever Mesa's queue is at, as a GPU's
 * copy engine does.
 *
 * What a family of its own forbids ends the process with a message: kernels
 * in its commands, commands or buffers of the other family alone, copies
 * without barriers, an object that is destroyed while a copy uses it, bytes
 * that somebody writes meanwhile.
 *
 * KILN_STUB_TRANSFER_US: each copy lasts that much longer, when its bytes have
 * been moved.
 */
#define VK_NO_PROTOTYPES
#include <vulkan/vk_icd.h>
#include <vulkan/vulkan_core.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_COPIES 8

/* ---- the driver below ---- */

#define BELOW(X)                                                               \
	X(CreateDevice)                                                        \
	X(GetPhysicalDeviceQueueFamilyProperties)                              \
	X(GetPhysicalDeviceQueueFamilyProperties2)                             \
	X(GetDeviceProcAddr)                                                   \
	X(DestroyDevice)                                                       \
	X(DeviceWaitIdle)                                                      \
	X(GetDeviceQueue)                                                      \
	X(CreateBuffer)                                                        \
	X(DestroyBuffer)                                                       \
	X(BindBufferMemory)                                                    \
	X(MapMemory)                                                           \
	X(CreateCommandPool)                                                   \
	X(DestroyCommandPool)                                                  \
	X(ResetCommandPool)                                                    \
	X(AllocateCommandBuffers)                                              \
	X(EndCommandBuffer)                                                    \
	X(CmdCopyBuffer)                                                       \
	X(CmdPipelineBarrier)                                                  \
	X(CmdBindPipeline)                                                     \
	X(CmdDispatch)                                                         \
	X(CmdFillBuffer)                                                       \
	X(CmdWriteTimestamp)                                                   \
	X(QueueSubmit)                                                         \
	X(SignalSemaphore)

static struct {
#define FIELD(name) PFN_vk##name name;
	BELOW(FIELD)
#undef FIELD
} below;

typedef VkResult (*negotiate_function)(uint32_t *version);

static void *library;
static PFN_vk_icdGetInstanceProcAddr instance_below;
static PFN_vk_icdGetPhysicalDeviceProcAddr physical_below;

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "transfers: %s\n", why);
	abort();
}

/* ---- what is noted of objects ---- */

/* The lock is held for all of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

struct note {
	struct note *next;
	uint64_t handle;
	uint64_t pool;         /* of commands */
	char *memory;          /* of a buffer, once it is bound */
	unsigned users;        /* copies that are under way */
	bool seen, shown;      /* of commands: by copies, to the host */
	unsigned copies;
	struct copy {
		struct note *from, *to;
		VkBufferCopy region;
	} copy[MOST_COPIES];
};

/* Buffers that both families may use; pools and commands for transfers. */
static struct note *buffers, *pools, *commands;

static struct note **find(struct note **list, uint64_t handle)
{
	while (*list && (*list)->handle != handle)
		list = &(*list)->next;
	return list;
}

static void note(struct note **list, uint64_t handle, uint64_t pool)
{
	struct note *n = calloc(1, sizeof(*n));

	if (!n)
		die("no memory");
	n->handle = handle;
	n->pool = pool;
	n->next = *list;
	*list = n;
}

static void forget(struct note **at)
{
	struct note *n = *at;

	if (n->users)
		die("destroyed while a copy uses it");
	*at = n->next;
	free(n);
}

static bool is_noted(struct note **list, uint64_t handle)
{
	bool noted;

	pthread_mutex_lock(&lock);
	noted = *find(list, handle) != NULL;
	pthread_mutex_unlock(&lock);
	return noted;
}

static uint64_t number(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

/* ---- the second queue ---- */

struct job {
	struct job *next;
	struct note *commands;
	VkSemaphore semaphore;
	uint64_t value;
};

/* What the loader takes for a VkQueue begins with its word. */
struct queue {
	VK_LOADER_DATA loader;
	struct queue *next;
	VkDevice device;
	pthread_t thread;
	struct job *first, **last;
	bool busy, stop;
};

static struct queue *queues;

/* Without a device: the queue itself. */
static struct queue *queue_of(const void *queue, VkDevice device)
{
	struct queue *q;

	pthread_mutex_lock(&lock);
	for (q = queues; q; q = q->next)
		if (device ? q->device == device : (const void *)q == queue)
			break;
	pthread_mutex_unlock(&lock);
	return q;
}

static void use(struct note *c, int more)
{
	c->users += (unsigned)more;
	for (unsigned i = 0; i < c->copies; i++) {
		c->copy[i].from->users += (unsigned)more;
		c->copy[i].to->users += (unsigned)more;
	}
}

static void carry_out(const struct note *c)
{
	const char *us = getenv("KILN_STUB_TRANSFER_US");

	for (unsigned i = 0; i < c->copies; i++) {
		const VkBufferCopy *region = &c->copy[i].region;
		char *from = c->copy[i].from->memory + region->srcOffset;
		char *to = c->copy[i].to->memory + region->dstOffset;

		memcpy(to, from, region->size);
		if (us)
			usleep((useconds_t)atoi(us));
		if (memcmp(to, from, region->size) != 0)
			die("written while a copy uses it");
	}
}

static void finish(struct queue *q, struct job *job)
{
	VkSemaphoreSignalInfo signal = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
		.semaphore = job->semaphore,
		.value = job->value,
	};

	/* What it tells may have the commands and buffers at once. */
	pthread_mutex_lock(&lock);
	use(job->commands, -1);
	pthread_mutex_unlock(&lock);
	if (job->semaphore &&
	    below.SignalSemaphore(q->device, &signal) != VK_SUCCESS)
		die("vkSignalSemaphore fails");
	free(job);
	pthread_mutex_lock(&lock);
	q->busy = false;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
}

static void *run(void *arg)
{
	struct queue *q = arg;
	struct job *job;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!q->first && !q->stop)
			pthread_cond_wait(&moved, &lock);
		job = q->first;
		if (!job)
			break;
		q->first = job->next;
		if (!q->first)
			q->last = &q->first;
		q->busy = true;
		pthread_mutex_unlock(&lock);
		carry_out(job->commands);
		finish(q, job);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void open_queue(VkDevice device)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		die("no memory");
	set_loader_magic_value(&q->loader);
	q->device = device;
	q->last = &q->first;
	pthread_mutex_lock(&lock);
	q->next = queues;
	queues = q;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&q->thread, NULL, run, q))
		die("no thread");
}

static void close_queue(VkDevice device)
{
	struct queue *q = queue_of(NULL, device), **at;

	if (!q)
		return;
	pthread_mutex_lock(&lock);
	q->stop = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
	pthread_join(q->thread, NULL);
	pthread_mutex_lock(&lock);
	for (at = &queues; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	pthread_mutex_unlock(&lock);
	free(q);
}

static void add_job(struct queue *q, VkCommandBuffer buffer,
		    const VkSubmitInfo *info, bool last)
{
	const VkTimelineSemaphoreSubmitInfo *timeline = info->pNext;
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		die("no memory");
	pthread_mutex_lock(&lock);
	job->commands = *find(&commands, number(buffer));
	if (!job->commands)
		die("commands of another family are handed over");
	if (last && info->signalSemaphoreCount) {
		job->semaphore = info->pSignalSemaphores[0];
		job->value = timeline->pSignalSemaphoreValues[0];
	}
	use(job->commands, 1);
	*q->last = job;
	q->last = &job->next;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue,
						   uint32_t count,
						   const VkSubmitInfo *info,
						   VkFence fence)
{
	struct queue *q = queue_of(queue, VK_NULL_HANDLE);

	for (uint32_t i = 0; i < count; i++) {
		if (q && (info[i].waitSemaphoreCount ||
			  info[i].signalSemaphoreCount > 1))
			die("only one signal, and no wait, is built here");
		for (uint32_t c = 0; c < info[i].commandBufferCount; c++)
			if (q)
				add_job(q, info[i].pCommandBuffers[c], &info[i],
					c + 1 == info[i].commandBufferCount);
			else if (is_noted(&commands,
					  number(info[i].pCommandBuffers[c])))
				die("commands of the second family are handed "
				    "to the first");
	}
	return q ? VK_SUCCESS : below.QueueSubmit(queue, count, info, fence);
}

/* ---- the library below ---- */

/* A forked child has none of it: it opens devices of its own. */
static void forget_all(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&moved, NULL);
	buffers = pools = commands = NULL;
	queues = NULL;
}

static void open_below(void)
{
	const char *path = getenv("KILN_STUB_ICD");

	if (library)
		return;
	pthread_atfork(NULL, NULL, forget_all);
	library = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		die(dlerror());
	*(void **)&instance_below = dlsym(library, "vk_icdGetInstanceProcAddr");
	*(void **)&physical_below =
		dlsym(library, "vk_icdGetPhysicalDeviceProcAddr");
	if (!instance_below || !physical_below)
		die("KILN_STUB_ICD is no driver");
}

/* ---- families and devices ---- */

/* The first is Mesa's. */
enum { VIDEO = 1, TRANSFERS, FAMILIES };

/* The bit of decoding, which headers of before 2022 call a beta's. */
#define DECODES 0x20

static VkQueueFamilyProperties added_family(uint32_t number)
{
	return (VkQueueFamilyProperties){
		.queueFlags = VK_QUEUE_TRANSFER_BIT |
			      (number == VIDEO ? DECODES
					       : VK_QUEUE_SPARSE_BINDING_BIT),
		.queueCount = 1,
		.minImageTransferGranularity = { 1, 1, 1 },
	};
}

/* How many there is room for; where they are only counted, none. */
static uint32_t count_families(uint32_t *count, uint32_t room, bool counts)
{
	if (*count != 1)
		die("KILN_STUB_ICD has not one family");
	*count = counts || room > FAMILIES ? FAMILIES : room;
	return counts ? 0 : *count;
}

static VKAPI_ATTR void VKAPI_CALL
families(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *out)
{
	uint32_t room = *count, all;

	below.GetPhysicalDeviceQueueFamilyProperties(device, count, out);
	all = count_families(count, room, !out);
	for (uint32_t i = 1; i < all; i++)
		out[i] = added_family(i);
}

static VKAPI_ATTR void VKAPI_CALL families2(VkPhysicalDevice device,
					    uint32_t *count,
					    VkQueueFamilyProperties2 *out)
{
	uint32_t room = *count, all;

	below.GetPhysicalDeviceQueueFamilyProperties2(device, count, out);
	all = count_families(count, room, !out);
	for (uint32_t i = 1; i < all; i++)
		out[i].queueFamilyProperties = added_family(i);
}

/* The driver below hears of its own family alone. */
static VKAPI_ATTR VkResult VKAPI_CALL
create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	      const VkAllocationCallbacks *allocator, VkDevice *device)
{
	VkDeviceQueueCreateInfo first[2];
	VkDeviceCreateInfo known = *info;
	bool second = false;
	VkResult result;

	known.queueCreateInfoCount = 0;
	known.pQueueCreateInfos = first;
	for (uint32_t i = 0; i < info->queueCreateInfoCount; i++)
		if (info->pQueueCreateInfos[i].queueFamilyIndex == VIDEO)
			die("the family that decodes video is taken");
		else if (info->pQueueCreateInfos[i].queueFamilyIndex)
			second = true;
		else
			first[known.queueCreateInfoCount++] =
				info->pQueueCreateInfos[i];
	result = below.CreateDevice(physical, &known, allocator, device);
	if (result != VK_SUCCESS)
		return result;
#define LOAD(name)                                                             \
	if (!below.name)                                                       \
		below.name = (PFN_vk##name)below.GetDeviceProcAddr(*device,    \
								   "vk" #name);
	BELOW(LOAD)
#undef LOAD
	if (second)
		open_queue(*device);
	return result;
}

static VKAPI_ATTR void VKAPI_CALL
destroy_device(VkDevice device, const VkAllocationCallbacks *allocator)
{
	if (device)
		close_queue(device);
	below.DestroyDevice(device, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice device)
{
	struct queue *q = queue_of(NULL, device);

	pthread_mutex_lock(&lock);
	while (q && (q->first || q->busy))
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	return below.DeviceWaitIdle(device);
}

static VKAPI_ATTR void VKAPI_CALL get_device_queue(VkDevice device,
						   uint32_t family,
						   uint32_t index,
						   VkQueue *queue)
{
	if (family)
		*queue = (VkQueue)queue_of(NULL, device);
	else
		below.GetDeviceQueue(device, 0, index, queue);
}

/* ---- buffers ---- */

static VKAPI_ATTR VkResult VKAPI_CALL
create_buffer(VkDevice device, const VkBufferCreateInfo *info,
	      const VkAllocationCallbacks *allocator, VkBuffer *buffer)
{
	VkBufferCreateInfo known = *info;
	bool shared = info->sharingMode == VK_SHARING_MODE_CONCURRENT &&
		      info->queueFamilyIndexCount == 2 &&
		      info->pQueueFamilyIndices[0] +
				      info->pQueueFamilyIndices[1] == TRANSFERS;
	VkResult result;

	known.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
	result = below.CreateBuffer(device, &known, allocator, buffer);
	if (result != VK_SUCCESS || !shared)
		return result;
	pthread_mutex_lock(&lock);
	note(&buffers, (uint64_t)*buffer, 0);
	pthread_mutex_unlock(&lock);
	return result;
}

static VKAPI_ATTR void VKAPI_CALL
destroy_buffer(VkDevice device, VkBuffer buffer,
	       const VkAllocationCallbacks *allocator)
{
	struct note **at;

	pthread_mutex_lock(&lock);
	at = find(&buffers, (uint64_t)buffer);
	if (*at)
		forget(at);
	pthread_mutex_unlock(&lock);
	below.DestroyBuffer(device, buffer, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice device,
						  VkBuffer buffer,
						  VkDeviceMemory memory,
						  VkDeviceSize offset)
{
	VkResult result = below.BindBufferMemory(device, buffer, memory,
						 offset);
	struct note *n;
	void *map;

	pthread_mutex_lock(&lock);
	n = *find(&buffers, (uint64_t)buffer);
	/* All of its memory is the host's, and mapped as often as one likes. */
	if (n && result == VK_SUCCESS) {
		if (below.MapMemory(device, memory, 0, VK_WHOLE_SIZE, 0,
				    &map) != VK_SUCCESS)
			die("memory cannot be mapped");
		n->memory = (char *)map + offset;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- commands ---- */

static VKAPI_ATTR VkResult VKAPI_CALL
create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
	    const VkAllocationCallbacks *allocator, VkCommandPool *pool)
{
	VkCommandPoolCreateInfo known = *info;
	VkResult result;

	known.queueFamilyIndex = 0;
	result = below.CreateCommandPool(device, &known, allocator, pool);
	if (result != VK_SUCCESS || !info->queueFamilyIndex)
		return result;
	pthread_mutex_lock(&lock);
	note(&pools, (uint64_t)*pool, 0);
	pthread_mutex_unlock(&lock);
	return result;
}

/* Resets the pool's commands, or forgets them and the pool. */
static void empty_pool(VkCommandPool pool, bool gone)
{
	struct note **at = &commands;

	pthread_mutex_lock(&lock);
	while (*at) {
		if ((*at)->pool != (uint64_t)pool) {
			at = &(*at)->next;
			continue;
		}
		if ((*at)->users)
			die("commands are reset while they are carried out");
		(*at)->copies = 0;
		(*at)->seen = (*at)->shown = false;
		if (gone)
			forget(at);
		else
			at = &(*at)->next;
	}
	at = find(&pools, (uint64_t)pool);
	if (*at && gone)
		forget(at);
	pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR void VKAPI_CALL
destroy_pool(VkDevice device, VkCommandPool pool,
	     const VkAllocationCallbacks *allocator)
{
	if (pool)
		empty_pool(pool, true);
	below.DestroyCommandPool(device, pool, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL reset_pool(VkDevice device,
						 VkCommandPool pool,
						 VkCommandPoolResetFlags flags)
{
	empty_pool(pool, false);
	return below.ResetCommandPool(device, pool, flags);
}

static VKAPI_ATTR VkResult VKAPI_CALL
allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info,
		  VkCommandBuffer *out)
{
	VkResult result = below.AllocateCommandBuffers(device, info, out);

	pthread_mutex_lock(&lock);
	if (result == VK_SUCCESS && *find(&pools, (uint64_t)info->commandPool))
		for (uint32_t i = 0; i < info->commandBufferCount; i++)
			note(&commands, number(out[i]),
			     (uint64_t)info->commandPool);
	pthread_mutex_unlock(&lock);
	return result;
}

static VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer buffer,
					      VkBuffer from, VkBuffer to,
					      uint32_t count,
					      const VkBufferCopy *region)
{
	struct copy *copy;
	struct note *c;

	pthread_mutex_lock(&lock);
	c = *find(&commands, number(buffer));
	for (uint32_t i = 0; c && i < count; i++) {
		if (c->copies == MOST_COPIES)
			die("more copies than are built here");
		copy = &c->copy[c->copies++];
		copy->from = *find(&buffers, (uint64_t)from);
		copy->to = *find(&buffers, (uint64_t)to);
		copy->region = region[i];
		if (!copy->from || !copy->to)
			die("a buffer that the second family may not use");
		if (!c->seen)
			die("no barrier ahead of a copy");
		c->shown = false;
	}
	pthread_mutex_unlock(&lock);
	if (!c)
		below.CmdCopyBuffer(buffer, from, to, count, region);
}

static VKAPI_ATTR void VKAPI_CALL barrier(
	VkCommandBuffer buffer, VkPipelineStageFlags from,
	VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t memories,
	const VkMemoryBarrier *memory, uint32_t ranges,
	const VkBufferMemoryBarrier *range, uint32_t images,
	const VkImageMemoryBarrier *image)
{
	const VkPipelineStageFlags known = VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT |
					   VK_PIPELINE_STAGE_TRANSFER_BIT |
					   VK_PIPELINE_STAGE_HOST_BIT |
					   VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;

	struct note *c;

	pthread_mutex_lock(&lock);
	c = *find(&commands, number(buffer));
	if (c) {
		if ((from | to) & ~known)
			die("a barrier with stages that the second family has "
			    "not got");
		c->seen |= (to & VK_PIPELINE_STAGE_TRANSFER_BIT) != 0;
		c->shown |= (from & VK_PIPELINE_STAGE_TRANSFER_BIT) &&
			    (to & VK_PIPELINE_STAGE_HOST_BIT);
	}
	pthread_mutex_unlock(&lock);
	if (c)
		return;
	below.CmdPipelineBarrier(buffer, from, to, flags, memories, memory,
				 ranges, range, images, image);
}

static VKAPI_ATTR VkResult VKAPI_CALL end_commands(VkCommandBuffer buffer)
{
	const struct note *c;

	pthread_mutex_lock(&lock);
	c = *find(&commands, number(buffer));
	if (c && c->copies && !c->shown)
		die("no barrier between a copy and the host");
	pthread_mutex_unlock(&lock);
	return below.EndCommandBuffer(buffer);
}

static void only_first(VkCommandBuffer buffer, const char *what)
{
	if (is_noted(&commands, number(buffer)))
		die(what);
}

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer buffer,
						VkPipelineBindPoint point,
						VkPipeline pipeline)
{
	only_first(buffer, "a pipeline in commands of the second family");
	below.CmdBindPipeline(buffer, point, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, uint32_t x,
					   uint32_t y, uint32_t z)
{
	only_first(buffer, "a kernel in commands of the second family");
	below.CmdDispatch(buffer, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL fill_buffer(VkCommandBuffer buffer,
					      VkBuffer to, VkDeviceSize offset,
					      VkDeviceSize size, uint32_t data)
{
	only_first(buffer, "a fill is not built for the second family");
	below.CmdFillBuffer(buffer, to, offset, size, data);
}

static VKAPI_ATTR void VKAPI_CALL
write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage,
		VkQueryPool pool, uint32_t query)
{
	only_first(buffer, "the second family has no timestamps");
	below.CmdWriteTimestamp(buffer, stage, pool, query);
}

/* ---- what the loader asks for ---- */

static PFN_vkVoidFunction get_device(VkDevice device, const char *name);

static const struct {
	const char *name;
	PFN_vkVoidFunction function;
} above[] = {
#define ABOVE(name, function) { "vk" #name, (PFN_vkVoidFunction)(function) }
	ABOVE(GetPhysicalDeviceQueueFamilyProperties, families),
	ABOVE(GetPhysicalDeviceQueueFamilyProperties2, families2),
	ABOVE(GetPhysicalDeviceQueueFamilyProperties2KHR, families2),
	ABOVE(CreateDevice, create_device),
	ABOVE(GetDeviceProcAddr, get_device),
	ABOVE(DestroyDevice, destroy_device),
	ABOVE(DeviceWaitIdle, device_wait_idle),
	ABOVE(GetDeviceQueue, get_device_queue),
	ABOVE(CreateBuffer, create_buffer),
	ABOVE(DestroyBuffer, destroy_buffer),
	ABOVE(BindBufferMemory, bind_memory),
	ABOVE(CreateCommandPool, create_pool),
	ABOVE(DestroyCommandPool, destroy_pool),
	ABOVE(ResetCommandPool, reset_pool),
	ABOVE(AllocateCommandBuffers, allocate_commands),
	ABOVE(EndCommandBuffer, end_commands),
	ABOVE(CmdCopyBuffer, copy_buffer),
	ABOVE(CmdPipelineBarrier, barrier),
	ABOVE(CmdBindPipeline, bind_pipeline),
	ABOVE(CmdDispatch, dispatch),
	ABOVE(CmdFillBuffer, fill_buffer),
	ABOVE(CmdWriteTimestamp, write_timestamp),
	ABOVE(QueueSubmit, queue_submit),
};

static PFN_vkVoidFunction find_above(const char *name)
{
	for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++)
		if (!strcmp(above[i].name, name))
			return above[i].function;
	return NULL;
}

static PFN_vkVoidFunction get_device(VkDevice device, const char *name)
{
	PFN_vkVoidFunction function = find_above(name);

	return function ? function : below.GetDeviceProcAddr(device, name);
}

/* The headers have their types alone. */
VKAPI_ATTR VkResult VKAPI_CALL
vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
	negotiate_function negotiate;

	open_below();
	*(void **)&negotiate =
		dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
	return negotiate ? negotiate(version) : VK_ERROR_INCOMPATIBLE_DRIVER;
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
	PFN_vkVoidFunction function = find_above(name);

	open_below();
#define LOAD(field)                                                            \
	if (instance && !below.field)                                          \
		below.field =                                                  \
			(PFN_vk##field)instance_below(instance, "vk" #field);
	BELOW(LOAD)
#undef LOAD
	return function ? function : instance_below(instance, name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name)
{
	PFN_vkVoidFunction function = find_above(name);

	open_below();
	return function ? function : physical_below(instance, name);
}
