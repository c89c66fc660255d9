/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <time.h>

/*
 * The VkQueues of a device: one that computes, and one for transfers where a
 * family does nothing else. Each has a lock, since any thread hands work over,
 * and a semaphore that counts it.
 */

#define SLICE_NS 50000000u
/* Between two looks at the semaphore where others wait for it too. */
#define NAP_NS 20000

/* ---- opening and closing ---- */

static enum kiln_status open_engine(struct kilni_vk_hw *hw,
				    struct kilni_vk_engine *engine,
				    uint32_t family)
{
	VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};
	VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
		.pNext = &type,
	};

	engine->family = family;
	hw->vk.GetDeviceQueue(hw->device, family, 0, &engine->queue);
	return KILNI_VK(hw, CreateSemaphore, hw->device, &info, NULL,
			&engine->semaphore);
}

enum kiln_status kilni_vk_engines_open(struct kilni_vk_hw *hw)
{
	for (unsigned i = 0; i < hw->physical->families; i++)
		KILNI_TRY(open_engine(hw, &hw->engine[i],
				      hw->physical->family[i]));
	return KILN_OK;
}

/* Takes half-opened ones. What a device that hangs may still use stays. */
void kilni_vk_engines_close(struct kilni_vk_hw *hw)
{
	for (unsigned i = 0; i < KILNI_COUNTOF(hw->engine) && !hw->hung; i++)
		hw->vk.DestroySemaphore(hw->device, hw->engine[i].semaphore,
					NULL);
}

/* ---- commands ---- */

enum kiln_status kilni_vk_pool_create(struct kilni_vk_hw *hw,
				      const struct kilni_vk_engine *engine,
				      bool transient, VkCommandPool *pool)
{
	VkCommandPoolCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = transient ? VK_COMMAND_POOL_CREATE_TRANSIENT_BIT : 0,
		.queueFamilyIndex = engine->family,
	};

	return KILNI_VK(hw, CreateCommandPool, hw->device, &info, NULL,
			pool);
}

enum kiln_status kilni_vk_commands_create(struct kilni_vk_hw *hw,
					  VkCommandPool pool,
					  VkCommandBuffer *out, unsigned count)
{
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = count,
	};

	return KILNI_VK(hw, AllocateCommandBuffers, hw->device, &info,
			out);
}

/* ---- handing over ---- */

/* One of the parts of a submission, of which the semaphore counts each. */
struct part {
	VkTimelineSemaphoreSubmitInfo timeline;
	uint64_t value;
};

static void set_part(const struct kilni_vk_engine *engine, struct part *part,
		     VkSubmitInfo *info, uint64_t value)
{
	part->value = value;
	part->timeline = (VkTimelineSemaphoreSubmitInfo){
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = !engine->mute,
		.pSignalSemaphoreValues = &part->value,
	};
	*info = (VkSubmitInfo){
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &part->timeline,
		.signalSemaphoreCount = !engine->mute,
		.pSignalSemaphores = &engine->semaphore,
	};
}

enum kiln_status kilni_vk_submit(struct kilni_vk_hw *hw,
				 struct kilni_vk_engine *engine,
				 const VkCommandBuffer *commands,
				 unsigned count, uint64_t ends)
{
	VkSubmitInfo info[KILNI_VK_LISTED];
	struct part part[KILNI_VK_LISTED];
	unsigned parts = 0;
	bool fresh = true;

	if (KILNI_FAULT("vulkan_signal") != KILN_OK)
		engine->mute = true;
	for (unsigned i = 0; i < count; i++) {
		if (fresh) {
			set_part(engine, &part[parts], &info[parts],
				 engine->signalled + parts + 1);
			info[parts++].pCommandBuffers = &commands[i];
		}
		info[parts - 1].commandBufferCount++;
		fresh = ends >> i & 1;
	}
	KILNI_TRY(KILNI_VK(hw, QueueSubmit, engine->queue, parts, info,
			   VK_NULL_HANDLE));
	/* Who looks for progress has the other lock. */
	__atomic_store_n(&engine->signalled, engine->signalled + parts,
			 __ATOMIC_RELEASE);
	return KILN_OK;
}

/* ---- the semaphore ---- */

uint64_t kilni_vk_reached(struct kilni_vk_hw *hw,
			  struct kilni_vk_engine *engine)
{
	struct kilni_error_record before;
	enum kiln_status status;
	uint64_t value = 0;

	if (kilni_vk_is_lost(hw))
		return __atomic_load_n(&engine->reached, __ATOMIC_ACQUIRE);
	kilni_error_save(&before);
	status = KILNI_VK(hw, GetSemaphoreCounterValue, hw->device,
			  engine->semaphore, &value);
	kilni_error_restore(&before);
	pthread_mutex_lock(&hw->lock);
	if (status == KILN_OK && value > engine->reached) {
		__atomic_store_n(&engine->reached, value, __ATOMIC_RELEASE);
		engine->reached_ns = kilni_now_ns();
	}
	value = engine->reached;
	pthread_mutex_unlock(&hw->lock);
	return value;
}

/* A VkQueue that does nothing for that long will not do it later. */
static void check_progress(struct kilni_vk_hw *hw,
			   struct kilni_vk_engine *engine, uint64_t since_ns)
{
	bool late;

	(void)kilni_vk_reached(hw, engine);
	pthread_mutex_lock(&hw->lock);
	late = engine->reached < __atomic_load_n(&engine->signalled,
						 __ATOMIC_ACQUIRE) &&
	       kilni_now_ns() - kilni_max_u64(engine->reached_ns, since_ns) >
		       hw->timeout_ns;
	pthread_mutex_unlock(&hw->lock);
	if (late && !kilni_vk_is_lost(hw))
		kilni_vk_lose(hw, true);
}

void kilni_vk_sleep(struct kilni_vk_hw *hw, struct kilni_vk_engine *engine,
		    uint64_t value, uint64_t since_ns)
{
	VkSemaphoreWaitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &engine->semaphore,
		.pValues = &value,
	};
	uint64_t slice = kilni_min_u64(SLICE_NS, hw->timeout_ns / 4 + 1);
	struct kilni_error_record before;

	if (kilni_vk_is_lost(hw))
		return;
	kilni_error_save(&before);
	(void)!KILNI_VK(hw, WaitSemaphores, hw->device, &info, slice);
	kilni_error_restore(&before);
	check_progress(hw, engine, since_ns);
}

/* ---- transfers ---- */

enum kiln_status kilni_vk_start_now(struct kilni_vk_hw *hw,
				    VkCommandBuffer commands, uint64_t *value)
{
	struct kilni_vk_engine *engine = kilni_vk_transfers(hw);
	enum kiln_status status;

	pthread_mutex_lock(&engine->lock);
	status = kilni_vk_submit(hw, engine, &commands, 1, 0);
	*value = engine->signalled;
	pthread_mutex_unlock(&engine->lock);
	return status;
}

enum kiln_status kilni_vk_wait_now(struct kilni_vk_hw *hw, uint64_t value,
				   bool alone)
{
	struct kilni_vk_engine *engine = kilni_vk_transfers(hw);
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t start = kilni_now_ns();

	while (kilni_vk_reached(hw, engine) < value) {
		if (kilni_vk_is_lost(hw))
			return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
					  "vulkan: the device is lost");
		if (kilni_now_ns() - start < hw->spin_ns)
			continue;
		if (alone && (engine != kilni_vk_computes(hw) ||
			      !kilni_vk_has_work(hw)))
			kilni_vk_sleep(hw, engine, value, start);
		else
			nanosleep(&nap, NULL);
		check_progress(hw, engine, start);
	}
	return KILN_OK;
}
