/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/softmax.h"

#define SPIN_US_DEFAULT 20
#define TIMEOUT_MS_DEFAULT 600000
#define GROUP_SOFTWARE 64
#define GROUP_REAL 256

/*
 * Mesa's software device leaves the loops of a thread, all of them together,
 * after 65535 turns, without a word.
 */
#define TURNS_SOFTWARE 65000
/* Kernels that work by tiles need this of a group. */
#define TILE_SHARED_BYTES 32768
#define TILE_THREADS 256
/* Threads that hold a long row of softmax, and what each shares. */
#define ROW_GROUP 1024
#define ROW_SHARED_BYTES 32

static enum kiln_status read_options(struct kilni_vk_hw *hw)
{
	uint64_t spin_us = SPIN_US_DEFAULT, timeout_ms = TIMEOUT_MS_DEFAULT;

	KILNI_TRY(kilni_option_number(KILNI_OPT_SPIN_US, &spin_us));
	KILNI_TRY(kilni_option_number(KILNI_OPT_VULKAN_TIMEOUT, &timeout_ms));
	hw->spin_ns = spin_us * 1000;
	hw->timeout_ns = timeout_ms * 1000000;
	return KILN_OK;
}

static void init_locks(struct kilni_vk_hw *hw)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&hw->moved, &monotonic);
	pthread_cond_init(&hw->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&hw->lock, NULL);
	for (unsigned i = 0; i < KILNI_COUNTOF(hw->engine); i++)
		pthread_mutex_init(&hw->engine[i].lock, NULL);
	pthread_mutex_init(&hw->pages_lock, NULL);
	kilni_vk_staging_init(hw);
	pthread_mutex_init(&hw->pins_lock, NULL);
	pthread_cond_init(&hw->pins_left, NULL);
	pthread_mutex_init(&hw->pipelines.lock, NULL);
}

static void destroy_locks(struct kilni_vk_hw *hw)
{
	pthread_cond_destroy(&hw->moved);
	pthread_cond_destroy(&hw->wake);
	pthread_mutex_destroy(&hw->lock);
	for (unsigned i = 0; i < KILNI_COUNTOF(hw->engine); i++)
		pthread_mutex_destroy(&hw->engine[i].lock);
	pthread_mutex_destroy(&hw->pages_lock);
	pthread_mutex_destroy(&hw->pins_lock);
	pthread_cond_destroy(&hw->pins_left);
	pthread_mutex_destroy(&hw->pipelines.lock);
}

static enum kiln_status find_physical(struct kilni_vk_hw *hw)
{
	const struct kilni_vk_physical *list;
	enum kiln_status status;
	const char *why = "";
	unsigned count;

	status = kilni_vk_list(&list, &count, &why);
	if (status != KILN_OK || hw->base.index >= count)
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "vulkan: no device %u: %s", hw->base.index,
				  why ? why : "");
	hw->physical = &list[hw->base.index];
	if (*hw->physical->refused)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "vulkan: %s lacks %s",
				  hw->physical->properties.deviceName,
				  hw->physical->refused);
	return KILN_OK;
}

static void explain(struct kilni_vk_hw *hw)
{
	const VkPhysicalDeviceProperties *p = &hw->physical->properties;

	char subgroups[32] = "no subgroups";

	if (hw->subgroup)
		snprintf(subgroups, sizeof(subgroups), "subgroups of %u",
			 hw->subgroup);
	snprintf(hw->explain, sizeof(hw->explain),
		 "%s; Vulkan %u.%u; %s; %s;%s%s queue for transfers; host %s "
		 "pages", p->deviceName,
		 VK_API_VERSION_MAJOR(p->apiVersion),
		 VK_API_VERSION_MINOR(p->apiVersion), hw->physical->driver,
		 subgroups,
		 hw->physical->doubles ? "" : " no f64;",
		 hw->physical->families > 1 ? " a" : " no",
		 !hw->mapped[KILNI_VK_PAGES] ? "copies to and from"
		 : hw->reads_mapped          ? "reads and writes"
					     : "writes, copies from");
}

/* More than others have, where subgroups join and all have memory to share. */
static unsigned choose_row_group(const struct kilni_vk_hw *hw,
				 const VkPhysicalDeviceLimits *limits)
{
	return hw->subgroup &&
			       limits->maxComputeWorkGroupInvocations >=
				       ROW_GROUP &&
			       limits->maxComputeWorkGroupSize[0] >= ROW_GROUP &&
			       limits->maxComputeSharedMemorySize >=
				       ROW_GROUP * ROW_SHARED_BYTES
		       ? ROW_GROUP
		       : KILNI_SOFTMAX_GROUP;
}

static enum kiln_status choose_kernels(struct kilni_vk_hw *hw)
{
	const VkPhysicalDeviceLimits *limits = &hw->physical->properties.limits;
	uint64_t tiles = !hw->physical->software;

	KILNI_TRY(kilni_option_number(KILNI_OPT_VULKAN_TILES, &tiles));
	hw->group = hw->physical->software ? GROUP_SOFTWARE : GROUP_REAL;
	hw->can_tile =
		limits->maxComputeSharedMemorySize >= TILE_SHARED_BYTES &&
		limits->maxComputeWorkGroupInvocations >= TILE_THREADS &&
		limits->maxComputeWorkGroupSize[0] >= TILE_THREADS;
	hw->tiles = tiles && hw->can_tile;
	if (hw->physical->subgroup && hw->group % hw->physical->subgroup == 0)
		hw->subgroup = hw->physical->subgroup;
	hw->row_group = choose_row_group(hw, limits);
	hw->turns = hw->physical->software ? TURNS_SOFTWARE : UINT64_MAX;
	return KILN_OK;
}

/* Fills in a device that is all zeros but for its base. */
static enum kiln_status open_device(struct kilni_vk_hw *hw)
{
	const struct kilni_vk_loader *vk;
	const char *why;

	KILNI_TRY(read_options(hw));
	KILNI_TRY(find_physical(hw));
	KILNI_TRY(kilni_vk_load(&vk, &why));
	KILNI_TRY(kilni_vk_device_create(vk, hw->physical, &hw->device));
	KILNI_TRY(kilni_vk_load_calls(vk, hw->device, &hw->vk));
	KILNI_TRY(choose_kernels(hw));
	KILNI_TRY(kilni_vk_engines_open(hw));
	KILNI_TRY(kilni_vk_memory_open(hw));
	KILNI_TRY(kilni_vk_pipelines_open(hw));
	KILNI_TRY(kilni_vk_batches_open(hw));
	explain(hw);
	return KILN_OK;
}

/* Of both lists. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kilni_vk_hw *open_devices, *left_devices;

/*
 * What a device that hangs may still use stays where it is, reachable from
 * here; nothing else can be done about it.
 */
static void leave_behind(struct kilni_vk_hw *hw)
{
	pthread_mutex_lock(&open_lock);
	hw->next_open = left_devices;
	left_devices = hw;
	pthread_mutex_unlock(&open_lock);
}

/* Takes half-opened ones. */
static void close_device(struct kilni_vk_hw *hw)
{
	kilni_vk_batches_close(hw);
	kilni_staging_fini(&hw->staging);
	if (hw->vk.DestroyDevice) {
		kilni_vk_pipelines_close(hw);
		kilni_vk_memory_close(hw);
		kilni_vk_engines_close(hw);
	}
	if (hw->hung) {
		leave_behind(hw);
		return;
	}
	if (hw->vk.DestroyDevice)
		hw->vk.DestroyDevice(hw->device, NULL);
	destroy_locks(hw);
	free(hw);
}

/* ---- exit ---- */

/*
 * The vendor's library is taken down when the process exits, whatever is in
 * flight, and a thread that is in it then may crash. The device's own is kept
 * out of it here, and then those of the scheduler.
 */
static void park_all(void)
{
	if (pthread_mutex_trylock(&open_lock))
		return;
	for (struct kilni_vk_hw *hw = open_devices; hw; hw = hw->next_open)
		if (hw->epoch == kilni_fork_epoch) {
			kilni_vk_park(hw);
			if (hw->leave)
				hw->leave(hw->leave_data);
		}
	pthread_mutex_unlock(&open_lock);
}

void kilni_vk_at_exit(struct kilni_hw *base, void (*leave)(void *data),
		      void *data)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);

	pthread_mutex_lock(&open_lock);
	hw->leave = leave;
	hw->leave_data = data;
	pthread_mutex_unlock(&open_lock);
}

/* The library is loaded by now, so that its handlers run after this one. */
static void note_open(struct kilni_vk_hw *hw)
{
	static bool noted;

	pthread_mutex_lock(&open_lock);
	if (!noted)
		noted = !atexit(park_all);
	hw->next_open = open_devices;
	open_devices = hw;
	pthread_mutex_unlock(&open_lock);
}

static void note_closed(const struct kilni_vk_hw *hw)
{
	struct kilni_vk_hw **at = &open_devices;

	pthread_mutex_lock(&open_lock);
	while (*at && *at != hw)
		at = &(*at)->next_open;
	if (*at)
		*at = hw->next_open;
	pthread_mutex_unlock(&open_lock);
}

/* ---- opening and closing ---- */

enum kiln_status kilni_vk_open(unsigned index, struct kilni_hw **out)
{
	struct kilni_error_record why;
	struct kilni_vk_hw *hw;
	enum kiln_status status;

	KILNI_TRY(KILNI_FAULT("open"));
	hw = calloc(1, sizeof(*hw));
	if (!hw)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for the device");
	kilni_fork_watch();
	hw->base.driver = &kilni_vulkan_driver;
	hw->base.index = index;
	hw->epoch = kilni_fork_epoch;
	init_locks(hw);
	status = open_device(hw);
	if (status != KILN_OK) {
		kilni_error_save(&why);
		close_device(hw);
		kilni_error_restore(&why);
		return status;
	}
	note_open(hw);
	*out = &hw->base;
	return KILN_OK;
}

/* A forked child has neither the thread nor the driver's own. */
void kilni_vk_close(struct kilni_hw *base)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);

	if (hw->epoch != kilni_fork_epoch)
		return;
	note_closed(hw);
	close_device(hw);
}
