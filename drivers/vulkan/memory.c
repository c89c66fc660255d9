/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_ALIGNMENT 256
#define PAGE_GRANULARITY 65536

/* ---- kinds of memory ---- */

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define VISIBLE                                                                \
	(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |                                 \
	 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

/*
 * What each use wants, best first. Pages take host-visible device memory,
 * into which the host writes directly, only where all of the device's is so.
 * Reading through it is slow unless it is cached: then by a staged copy.
 */
static const VkMemoryPropertyFlags wanted[KILNI_VK_USES][4] = {
	[KILNI_VK_PAGES] = { LOCAL | VISIBLE | CACHED, LOCAL | VISIBLE, LOCAL,
			     VISIBLE },
	[KILNI_VK_PARAMS] = { LOCAL | VISIBLE, VISIBLE, VISIBLE, VISIBLE },
	[KILNI_VK_HOST] = { VISIBLE | CACHED, VISIBLE, VISIBLE, VISIBLE },
};

static uint64_t heap_of(const VkPhysicalDeviceMemoryProperties *m, uint32_t i)
{
	return m->memoryHeaps[m->memoryTypes[i].heapIndex].size;
}

static bool suits(const struct kilni_vk_hw *hw,
		  const VkPhysicalDeviceMemoryProperties *m, uint32_t i,
		  enum kilni_vk_use use, VkMemoryPropertyFlags flags)
{
	if ((m->memoryTypes[i].propertyFlags & flags) != flags)
		return false;
	return use != KILNI_VK_PAGES || !(flags & LOCAL) ||
	       heap_of(m, i) >= hw->physical->heap_bytes;
}

static enum kiln_status choose_type(struct kilni_vk_hw *hw,
				    const VkPhysicalDeviceMemoryProperties *m,
				    uint32_t allowed, enum kilni_vk_use use)
{
	for (unsigned w = 0; w < KILNI_COUNTOF(wanted[use]); w++)
		for (uint32_t i = 0; i < m->memoryTypeCount; i++)
			if ((allowed >> i & 1) &&
			    suits(hw, m, i, use, wanted[use][w])) {
				hw->type[use] = i;
				hw->mapped[use] =
					(m->memoryTypes[i].propertyFlags &
					 VISIBLE) == VISIBLE;
				return KILN_OK;
			}
	return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
			  "vulkan: no memory type for use %d", (int)use);
}

/* ---- blocks ---- */

enum kiln_status kilni_vk_buffer_create(struct kilni_vk_hw *hw,
					VkBufferCreateInfo info,
					VkBuffer *buffer)
{
	info.queueFamilyIndexCount = hw->physical->families;
	info.pQueueFamilyIndices = hw->physical->family;
	info.sharingMode = hw->physical->families > 1
				   ? VK_SHARING_MODE_CONCURRENT
				   : VK_SHARING_MODE_EXCLUSIVE;
	return KILNI_VK(hw, CreateBuffer, hw->device, &info, NULL, buffer);
}

static enum kiln_status create_buffer(struct kilni_vk_hw *hw, uint64_t bytes,
				      VkBuffer *buffer)
{
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = bytes,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
			 VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
			 VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
	};

	return kilni_vk_buffer_create(hw, info, buffer);
}

static enum kiln_status allocate(struct kilni_vk_hw *hw,
				 enum kilni_vk_use use, uint64_t bytes,
				 VkDeviceMemory *memory)
{
	VkMemoryAllocateFlagsInfo flags = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &flags,
		.allocationSize = bytes,
		.memoryTypeIndex = hw->type[use],
	};

	return KILNI_VK(hw, AllocateMemory, hw->device, &info, NULL,
			memory);
}

static enum kiln_status fill_block(struct kilni_vk_hw *hw,
				   enum kilni_vk_use use, uint64_t bytes,
				   struct kilni_vk_block *block)
{
	VkBufferDeviceAddressInfo where = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
	};
	VkMemoryRequirements needs;
	void *map;

	KILNI_TRY(create_buffer(hw, bytes, &block->buffer));
	hw->vk.GetBufferMemoryRequirements(hw->device, block->buffer, &needs);
	KILNI_TRY(allocate(hw, use, needs.size, &block->memory));
	KILNI_TRY(KILNI_VK(hw, BindBufferMemory, hw->device,
			   block->buffer, block->memory, 0));
	if (hw->mapped[use]) {
		KILNI_TRY(KILNI_VK(hw, MapMemory, hw->device,
				   block->memory, 0, VK_WHOLE_SIZE, 0, &map));
		block->map = map;
	}
	where.buffer = block->buffer;
	block->address = hw->vk.GetBufferDeviceAddress(hw->device, &where);
	block->bytes = bytes;
	return KILN_OK;
}

enum kiln_status kilni_vk_block_create(struct kilni_vk_hw *hw,
				       enum kilni_vk_use use, uint64_t bytes,
				       struct kilni_vk_block *block)
{
	enum kiln_status status;

	memset(block, 0, sizeof(*block));
	status = fill_block(hw, use, bytes, block);
	if (status != KILN_OK)
		kilni_vk_block_destroy(hw, block);
	return status;
}

/* Takes half-made ones. What a device that hangs may still use stays. */
void kilni_vk_block_destroy(struct kilni_vk_hw *hw,
			    struct kilni_vk_block *block)
{
	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE)) {
		hw->vk.DestroyBuffer(hw->device, block->buffer, NULL);
		hw->vk.FreeMemory(hw->device, block->memory, NULL);
	}
	memset(block, 0, sizeof(*block));
}

/* ---- limits ---- */

/* A device's limit, or what a test puts in its place. */
static enum kiln_status limit(enum kilni_option option, uint64_t device,
			      uint64_t *bytes)
{
	*bytes = device;
	KILNI_TRY(kilni_option_number(option, bytes));
	*bytes = kilni_min_u64(*bytes, device);
	return KILN_OK;
}

static enum kiln_status read_limits(struct kilni_vk_hw *hw, uint64_t heap)
{
	struct kilni_memory_limits *limits = &hw->limits;
	uint64_t allocation, buffer;

	KILNI_TRY(limit(KILNI_OPT_VULKAN_HEAP, heap, &heap));
	KILNI_TRY(limit(KILNI_OPT_VULKAN_ALLOCATION,
			hw->physical->max_allocation_bytes, &allocation));
	KILNI_TRY(limit(KILNI_OPT_VULKAN_BUFFER,
			hw->physical->max_buffer_bytes, &buffer));
	limits->alignment = SLICE_ALIGNMENT;
	limits->page_granularity = PAGE_GRANULARITY;
	limits->total_bytes = heap;
	limits->max_page_bytes =
		kilni_min_u64(kilni_min_u64(allocation, buffer), heap) &
		~((uint64_t)PAGE_GRANULARITY - 1);
	limits->host_visible = false;
	return KILN_OK;
}

enum kiln_status kilni_vk_memory_open(struct kilni_vk_hw *hw)
{
	const struct kilni_vk_loader *vk;
	VkPhysicalDeviceMemoryProperties *m = &hw->memory;
	VkMemoryRequirements needs;
	uint64_t staging = 0;
	const char *why;
	VkBuffer probe;
	uint32_t type;

	KILNI_TRY(kilni_vk_load(&vk, &why));
	vk->GetPhysicalDeviceMemoryProperties(hw->physical->device, m);
	KILNI_TRY(create_buffer(hw, PAGE_GRANULARITY, &probe));
	hw->vk.GetBufferMemoryRequirements(hw->device, probe, &needs);
	hw->vk.DestroyBuffer(hw->device, probe, NULL);
	for (int use = 0; use < KILNI_VK_USES; use++)
		KILNI_TRY(choose_type(hw, m, needs.memoryTypeBits,
				      (enum kilni_vk_use)use));
	type = hw->type[KILNI_VK_PAGES];
	hw->reads_mapped = m->memoryTypes[type].propertyFlags & CACHED;
	KILNI_TRY(kilni_option_number(KILNI_OPT_VULKAN_STAGING, &staging));
	if (staging)
		hw->mapped[KILNI_VK_PAGES] = hw->reads_mapped = false;
	KILNI_TRY(read_limits(hw, heap_of(m, type)));
	return kilni_vk_staging_open(hw);
}

void kilni_vk_memory_close(struct kilni_vk_hw *hw)
{
	struct kilni_vk_block *page;

	while ((page = hw->left_over)) {
		hw->left_over = page->next;
		kilni_vk_block_destroy(hw, page);
		free(page);
	}
	kilni_vk_pins_close(hw);
	free(hw->page);
}

/* ---- pages ---- */

static void memory_limits(const struct kilni_hw *hw,
			  struct kilni_memory_limits *limits)
{
	*limits = kilni_vk_hw_of(hw)->limits;
}

/* Position of the first page whose address is above; the lock is held. */
static unsigned above(const struct kilni_vk_hw *hw, uint64_t address)
{
	unsigned low = 0, high = hw->pages;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (hw->page[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static enum kiln_status insert_page(struct kilni_vk_hw *hw,
				    struct kilni_vk_block *page)
{
	unsigned at;

	if (hw->pages == hw->pages_most) {
		unsigned most = hw->pages_most * 2 + 64;
		struct kilni_vk_block **grown =
			realloc(hw->page, most * sizeof(*grown));

		if (!grown)
			return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
					  "vulkan: no memory for a page's "
					  "record");
		hw->page = grown;
		hw->pages_most = most;
	}
	at = above(hw, page->address);
	memmove(&hw->page[at + 1], &hw->page[at],
		(hw->pages - at) * sizeof(*hw->page));
	hw->page[at] = page;
	hw->pages++;
	return KILN_OK;
}

/* Bytes that may still be taken; takes them where they are enough. */
static bool take_bytes(struct kilni_vk_hw *hw, uint64_t bytes, uint64_t *left)
{
	bool fits;

	pthread_mutex_lock(&hw->pages_lock);
	*left = hw->limits.total_bytes - hw->taken_bytes;
	fits = bytes <= *left;
	if (fits)
		hw->taken_bytes += bytes;
	pthread_mutex_unlock(&hw->pages_lock);
	return fits;
}

static void give_bytes(struct kilni_vk_hw *hw, uint64_t bytes)
{
	pthread_mutex_lock(&hw->pages_lock);
	hw->taken_bytes -= bytes;
	pthread_mutex_unlock(&hw->pages_lock);
}

static enum kiln_status create_page(struct kilni_vk_hw *hw, uint64_t bytes,
				    struct kilni_vk_block **out)
{
	struct kilni_vk_block *page = calloc(1, sizeof(*page));
	enum kiln_status status;

	if (!page)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a page's record");
	status = kilni_vk_block_create(hw, KILNI_VK_PAGES, bytes, page);
	if (status != KILN_OK) {
		free(page);
		return status;
	}
	pthread_mutex_lock(&hw->pages_lock);
	status = insert_page(hw, page);
	pthread_mutex_unlock(&hw->pages_lock);
	if (status != KILN_OK) {
		kilni_vk_block_destroy(hw, page);
		free(page);
		return status;
	}
	*out = page;
	return KILN_OK;
}

static enum kiln_status memory_page_alloc(struct kilni_hw *base,
					  uint64_t bytes,
					  struct kilni_page *out)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	struct kilni_vk_block *page;
	enum kiln_status status;
	uint64_t left;

	KILNI_TRY(KILNI_FAULT("page_alloc"));
	if (bytes > hw->limits.max_page_bytes)
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 0,
				  "vulkan: page of %" PRIu64 " bytes; the "
				  "device's limit for one buffer is %" PRIu64,
				  bytes, hw->limits.max_page_bytes);
	if (!take_bytes(hw, bytes, &left))
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 0,
				  "vulkan: page of %" PRIu64 " bytes, %" PRIu64
				  " of the device's heap are free",
				  bytes, left);
	status = create_page(hw, bytes, &page);
	if (status != KILN_OK) {
		give_bytes(hw, bytes);
		return status;
	}
	out->address = page->address;
	out->bytes = bytes;
	out->handle = (uintptr_t)page;
	return KILN_OK;
}

static void memory_page_free(struct kilni_hw *base,
			     const struct kilni_page *out)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	struct kilni_vk_block *page = (void *)(uintptr_t)out->handle;
	unsigned at;
	bool lost;

	pthread_mutex_lock(&hw->pages_lock);
	at = above(hw, page->address) - 1;
	hw->pages--;
	memmove(&hw->page[at], &hw->page[at + 1],
		(hw->pages - at) * sizeof(*hw->page));
	hw->taken_bytes -= page->bytes;
	/* A lost device may still be at it, until it is closed. */
	lost = kilni_vk_is_lost(hw);
	page->next = hw->left_over;
	if (lost)
		hw->left_over = page;
	pthread_mutex_unlock(&hw->pages_lock);
	if (lost)
		return;
	kilni_vk_block_destroy(hw, page);
	free(page);
}

/* The page in which the range lies; its record stays while the range does. */
static enum kiln_status find_page(struct kilni_vk_hw *hw, uint64_t address,
				  uint64_t bytes,
				  const struct kilni_vk_block **out)
{
	const struct kilni_vk_block *page = NULL;
	unsigned at;

	pthread_mutex_lock(&hw->pages_lock);
	at = above(hw, address);
	if (at)
		page = hw->page[at - 1];
	pthread_mutex_unlock(&hw->pages_lock);
	if (!page || address - page->address > page->bytes ||
	    bytes > page->bytes - (address - page->address))
		return kilni_fail(KILN_ERR_INTERNAL, 0,
				  "vulkan: no page holds %" PRIu64
				  " bytes at 0x%" PRIx64,
				  bytes, address);
	*out = page;
	return KILN_OK;
}

/* ---- copies ---- */

/*
 * From that size on threads that copy by way of staging memory are faster than
 * one that writes into the device's.
 */
#define DIRECT_MOST ((uint64_t)8 << 20)
/* The same for memory of the host's that the device reads itself. */
#define DIRECT_MOST_PINNED ((uint64_t)512 << 10)

static bool writes_in_place(struct kilni_vk_hw *hw,
			    const struct kilni_vk_block *page,
			    const void *from, uint64_t bytes)
{
	if (!page->map)
		return false;
	return hw->reads_mapped || bytes < DIRECT_MOST_PINNED ||
	       (bytes < DIRECT_MOST && !kilni_vk_is_pinned(hw, from, bytes));
}

static enum kiln_status check_alive(const struct kilni_vk_hw *hw)
{
	if (!kilni_vk_is_lost(hw))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
			  "vulkan: the device is lost");
}

static enum kiln_status memory_write(struct kilni_hw *base, uint64_t to,
				     const void *from, uint64_t bytes)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	const struct kilni_vk_block *page;

	KILNI_TRY(KILNI_FAULT("write"));
	if (!bytes)
		return KILN_OK;
	KILNI_TRY(check_alive(hw));
	KILNI_TRY(find_page(hw, to, bytes, &page));
	if (writes_in_place(hw, page, from, bytes)) {
		memcpy(page->map + (to - page->address), from, bytes);
		return KILN_OK;
	}
	return kilni_vk_stage(hw, page, to - page->address,
			      (void *)(uintptr_t)from, bytes, true);
}

static enum kiln_status memory_read(struct kilni_hw *base, void *to,
				    uint64_t from, uint64_t bytes)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	const struct kilni_vk_block *page;

	KILNI_TRY(KILNI_FAULT("read"));
	if (!bytes)
		return KILN_OK;
	KILNI_TRY(check_alive(hw));
	KILNI_TRY(find_page(hw, from, bytes, &page));
	if (page->map && hw->reads_mapped) {
		memcpy(to, page->map + (from - page->address), bytes);
		return KILN_OK;
	}
	return kilni_vk_stage(hw, page, from - page->address, to, bytes, false);
}

const struct kilni_memory_ops kilni_vk_memory_ops = {
	.adopt = kilni_memory_stub_adopt,
	.limits = memory_limits,
	.page_alloc = memory_page_alloc,
	.page_free = memory_page_free,
	.map_reserve = kilni_memory_stub_map_reserve,
	.map_unreserve = kilni_memory_stub_map_unreserve,
	.map_create = kilni_memory_stub_map_create,
	.map_destroy = kilni_memory_stub_map_destroy,
	.map_attach = kilni_memory_stub_map_attach,
	.map_detach = kilni_memory_stub_map_detach,
	.write = memory_write,
	.read = memory_read,
	.host_pin = kilni_vk_pin,
	.host_unpin = kilni_vk_unpin,
};
