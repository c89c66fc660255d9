/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Memory of the caller's that the device reads and writes in place: imported
 * (VK_EXT_external_memory_host), whole pages of the host's at a time.
 */

#define HANDLE VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
#define COHERENT                                                               \
	(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |                                 \
	 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

struct kilni_vk_pin {
	struct kilni_vk_pin *next;
	char *memory;          /* as it was given */
	uint64_t bytes;
	char *begin;           /* of what is imported */
	VkBuffer buffer;
	VkDeviceMemory imported;
	unsigned users;        /* copies; under the pins' lock */
	void (*gone)(void *memory);
};

static enum kiln_status create_buffer(struct kilni_vk_hw *hw, uint64_t bytes,
				      VkBuffer *buffer)
{
	VkExternalMemoryBufferCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = HANDLE,
	};
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.pNext = &external,
		.size = bytes,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
	};

	return kilni_vk_buffer_create(hw, info, buffer);
}

/* The first coherent type that the memory and the buffer may have. */
static enum kiln_status choose_type(struct kilni_vk_hw *hw,
				    const struct kilni_vk_pin *pin,
				    uint32_t *type)
{
	VkMemoryHostPointerPropertiesEXT allowed = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT,
	};
	VkMemoryRequirements needs;

	KILNI_TRY(KILNI_VK(hw, GetMemoryHostPointerPropertiesEXT,
			   hw->device, HANDLE, pin->begin, &allowed));
	hw->vk.GetBufferMemoryRequirements(hw->device, pin->buffer, &needs);
	for (*type = 0; *type < hw->memory.memoryTypeCount; ++*type)
		if ((allowed.memoryTypeBits & needs.memoryTypeBits) >> *type &
			    1 &&
		    (hw->memory.memoryTypes[*type].propertyFlags & COHERENT) ==
			    COHERENT)
			return KILN_OK;
	return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
			  "vulkan: no memory type for memory of the host's");
}

static enum kiln_status import(struct kilni_vk_hw *hw,
			       struct kilni_vk_pin *pin, uint64_t bytes)
{
	VkImportMemoryHostPointerInfoEXT from = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
		.handleType = HANDLE,
		.pHostPointer = pin->begin,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &from,
		.allocationSize = bytes,
	};

	KILNI_TRY(create_buffer(hw, bytes, &pin->buffer));
	KILNI_TRY(choose_type(hw, pin, &info.memoryTypeIndex));
	KILNI_TRY(KILNI_VK(hw, AllocateMemory, hw->device, &info, NULL,
			   &pin->imported));
	return KILNI_VK(hw, BindBufferMemory, hw->device, pin->buffer,
			pin->imported, 0);
}

/* Takes half-made ones. What a device that hangs may still use stays. */
static void destroy(struct kilni_vk_hw *hw, struct kilni_vk_pin *pin)
{
	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE)) {
		hw->vk.DestroyBuffer(hw->device, pin->buffer, NULL);
		hw->vk.FreeMemory(hw->device, pin->imported, NULL);
	}
	free(pin);
}

enum kiln_status kilni_vk_pin(struct kilni_hw *base, void *memory,
			      uint64_t bytes)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	uint64_t whole = hw->physical->import_alignment;
	uintptr_t begin = (uintptr_t)memory;
	struct kilni_vk_pin *pin;
	enum kiln_status status;

	KILNI_TRY(KILNI_FAULT("host_pin"));
	if (!whole || !kilni_vk_is_staged(hw) || kilni_vk_is_lost(hw))
		return KILN_ERR_UNSUPPORTED;
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory to note a pinned range");
	pin->memory = memory;
	pin->bytes = bytes;
	begin -= begin % whole;
	pin->begin = (char *)begin;
	status = import(hw, pin,
			kilni_align_up((uintptr_t)memory + bytes - begin,
				       whole));
	if (status != KILN_OK) {
		destroy(hw, pin);
		return status;
	}
	pthread_mutex_lock(&hw->pins_lock);
	pin->next = hw->pins;
	hw->pins = pin;
	pthread_mutex_unlock(&hw->pins_lock);
	return KILN_OK;
}

static struct kilni_vk_pin *take_out(struct kilni_vk_hw *hw,
				     const void *memory, uint64_t bytes)
{
	struct kilni_vk_pin **at = &hw->pins, *found;

	while (*at && ((*at)->memory != memory || (*at)->bytes != bytes))
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	return found;
}

bool kilni_vk_unpin(struct kilni_hw *base, void *memory, uint64_t bytes,
		    void (*gone)(void *memory))
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	struct kilni_vk_pin *pin;
	bool stays;

	pthread_mutex_lock(&hw->pins_lock);
	pin = take_out(hw, memory, bytes);
	while (pin && pin->users)
		pthread_cond_wait(&hw->pins_left, &hw->pins_lock);
	/* A lost device may still be at a copy, until it is closed. */
	stays = pin && kilni_vk_is_lost(hw);
	if (stays) {
		pin->gone = gone;
		pin->next = hw->left_pins;
		hw->left_pins = pin;
	}
	pthread_mutex_unlock(&hw->pins_lock);
	if (stays)
		return false;
	if (pin)
		destroy(hw, pin);
	if (gone)
		gone(memory);
	return true;
}

/* What a device that hangs may still use stays, memory of the host's too. */
void kilni_vk_pins_close(struct kilni_vk_hw *hw)
{
	struct kilni_vk_pin *pin;

	while (!hw->hung && (pin = hw->left_pins)) {
		void (*gone)(void *memory) = pin->gone;
		char *memory = pin->memory;

		hw->left_pins = pin->next;
		destroy(hw, pin);
		if (gone)
			gone(memory);
	}
}

/* The pins' lock is held. */
static struct kilni_vk_pin *find(const struct kilni_vk_hw *hw,
				 const char *memory, uint64_t bytes)
{
	for (struct kilni_vk_pin *pin = hw->pins; pin; pin = pin->next) {
		uint64_t at = (uint64_t)(memory - pin->memory);

		if (memory >= pin->memory && at <= pin->bytes &&
		    bytes <= pin->bytes - at)
			return pin;
	}
	return NULL;
}

bool kilni_vk_is_pinned(struct kilni_vk_hw *hw, const void *host,
			uint64_t bytes)
{
	bool found;

	pthread_mutex_lock(&hw->pins_lock);
	found = find(hw, host, bytes);
	pthread_mutex_unlock(&hw->pins_lock);
	return found;
}

struct kilni_vk_pin *kilni_vk_use_pin(struct kilni_vk_hw *hw,
				      const char *memory, uint64_t bytes,
				      VkBuffer *buffer, uint64_t *offset)
{
	struct kilni_vk_pin *pin;

	pthread_mutex_lock(&hw->pins_lock);
	pin = find(hw, memory, bytes);
	if (pin) {
		pin->users++;
		*buffer = pin->buffer;
		*offset = (uint64_t)(memory - pin->begin);
	}
	pthread_mutex_unlock(&hw->pins_lock);
	return pin;
}

void kilni_vk_leave_pin(struct kilni_vk_hw *hw, struct kilni_vk_pin *pin)
{
	pthread_mutex_lock(&hw->pins_lock);
	if (!--pin->users)
		pthread_cond_broadcast(&hw->pins_left);
	pthread_mutex_unlock(&hw->pins_lock);
}
