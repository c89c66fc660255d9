/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/null/null.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ADDRESS ((uint64_t)1 << 46)

extern const struct kilni_driver kilni_null_driver;

unsigned char kilni_null_fill;

static struct kilni_null_hw *null_hw(struct kilni_hw *hw)
{
	return (struct kilni_null_hw *)(void *)hw;
}

static const struct kilni_null_target *target_of(const struct kilni_hw *hw)
{
	return ((const struct kilni_null_hw *)(const void *)hw)->target;
}

/* ---- driver table ---- */

static size_t driver_count(void)
{
	return 1;
}

static const char *driver_absent(void)
{
	return NULL;
}

static enum kiln_status driver_describe(unsigned index,
					struct kilni_hw_info *info)
{
	const struct kilni_null_target *target;

	(void)index;
	KILNI_TRY(kilni_null_target_find(&target));
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "null device");
	info->memory_bytes = target->limits.total_bytes;
	return KILN_OK;
}

static enum kiln_status driver_open(unsigned index, struct kilni_hw **out)
{
	const struct kilni_null_target *target;
	struct kilni_null_hw *hw;

	KILNI_TRY(KILNI_FAULT("open"));
	KILNI_TRY(kilni_null_target_find(&target));
	hw = calloc(1, sizeof(*hw));
	if (!hw)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "null: no memory for the device");
	hw->base.driver = &kilni_null_driver;
	hw->base.index = index;
	hw->target = target;
	hw->next_address = FIRST_ADDRESS;
	pthread_mutex_init(&hw->lock, NULL);
	pthread_cond_init(&hw->moved, NULL);
	*out = &hw->base;
	return KILN_OK;
}

/* ---- device table ---- */

static void device_close(struct kilni_hw *base)
{
	struct kilni_null_hw *hw = null_hw(base);

	pthread_cond_destroy(&hw->moved);
	pthread_mutex_destroy(&hw->lock);
	free(hw);
}

static unsigned device_dtype_usage(const struct kilni_hw *hw,
				   enum kiln_dtype dtype)
{
	(void)hw;
	return kilni_usage_of(dtype);
}

static const char *device_explain(const struct kilni_hw *hw)
{
	return target_of(hw)->explain;
}

static void device_clock(const struct kilni_hw *hw, struct kilni_clock *clock)
{
	(void)hw;
	*clock = KILNI_CLOCK_HOST;
}

/* ---- memory table ---- */

static void memory_limits(const struct kilni_hw *hw,
			  struct kilni_memory_limits *limits)
{
	*limits = target_of(hw)->limits;
}

/* Takes bytes of what the device has; with the lock held. */
static enum kiln_status take(struct kilni_null_hw *hw, const char *what,
			     uint64_t bytes)
{
	uint64_t left = hw->target->limits.total_bytes - hw->taken_bytes;

	if (bytes > left)
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 0,
				  "null: %s of %llu bytes, %llu are free", what,
				  (unsigned long long)bytes,
				  (unsigned long long)left);
	hw->taken_bytes += bytes;
	return KILN_OK;
}

/* Addresses that nothing lies behind, and none twice; with the lock held. */
static uint64_t next_address(struct kilni_null_hw *hw, uint64_t bytes,
			     uint64_t align)
{
	uint64_t grain = hw->target->limits.page_granularity;
	uint64_t address = kilni_align_up(hw->next_address, align);

	hw->next_address = address + kilni_align_up(bytes, grain);
	return address;
}

static enum kiln_status memory_page_alloc(struct kilni_hw *base,
					  uint64_t bytes,
					  struct kilni_page *page)
{
	struct kilni_null_hw *hw = null_hw(base);
	enum kiln_status status;

	pthread_mutex_lock(&hw->lock);
	hw->calls.page_alloc++;
	status = KILNI_FAULT("page_alloc");
	if (status == KILN_OK)
		status = take(hw, "page", bytes);
	if (status == KILN_OK) {
		page->address = next_address(hw, bytes,
					     hw->target->limits
						     .page_granularity);
		page->bytes = bytes;
		page->handle = 0;
	}
	pthread_mutex_unlock(&hw->lock);
	return status;
}

static void memory_page_free(struct kilni_hw *base,
			     const struct kilni_page *page)
{
	struct kilni_null_hw *hw = null_hw(base);

	pthread_mutex_lock(&hw->lock);
	hw->calls.page_free++;
	hw->taken_bytes -= page->bytes;
	pthread_mutex_unlock(&hw->lock);
}

static enum kiln_status memory_map_reserve(struct kilni_hw *base,
					   uint64_t bytes, uint64_t *address)
{
	struct kilni_null_hw *hw = null_hw(base);
	enum kiln_status status;

	pthread_mutex_lock(&hw->lock);
	hw->calls.map_reserve++;
	status = KILNI_FAULT("map_reserve");
	if (status == KILN_OK)
		*address = next_address(hw, bytes,
					hw->target->limits.map_granularity);
	pthread_mutex_unlock(&hw->lock);
	return status;
}

static void memory_map_unreserve(struct kilni_hw *base, uint64_t address,
				 uint64_t bytes)
{
	struct kilni_null_hw *hw = null_hw(base);

	(void)address;
	(void)bytes;
	pthread_mutex_lock(&hw->lock);
	hw->calls.map_unreserve++;
	pthread_mutex_unlock(&hw->lock);
}

static enum kiln_status memory_map_create(struct kilni_hw *base,
					  uint64_t bytes, uint64_t *memory)
{
	struct kilni_null_hw *hw = null_hw(base);
	enum kiln_status status;

	pthread_mutex_lock(&hw->lock);
	hw->calls.map_create++;
	status = KILNI_FAULT("map_create");
	if (status == KILN_OK)
		status = take(hw, "memory", bytes);
	if (status == KILN_OK)
		*memory = ++hw->next_memory;
	pthread_mutex_unlock(&hw->lock);
	return status;
}

static void memory_map_destroy(struct kilni_hw *base, uint64_t memory,
			       uint64_t bytes)
{
	struct kilni_null_hw *hw = null_hw(base);

	(void)memory;
	pthread_mutex_lock(&hw->lock);
	hw->calls.map_destroy++;
	hw->taken_bytes -= bytes;
	pthread_mutex_unlock(&hw->lock);
}

static enum kiln_status memory_map_attach(struct kilni_hw *base,
					  uint64_t address, uint64_t bytes,
					  uint64_t memory)
{
	struct kilni_null_hw *hw = null_hw(base);
	enum kiln_status status;

	(void)address;
	(void)memory;
	pthread_mutex_lock(&hw->lock);
	hw->calls.map_attach++;
	status = KILNI_FAULT("map_attach");
	if (status == KILN_OK)
		hw->attached_bytes += bytes;
	pthread_mutex_unlock(&hw->lock);
	return status;
}

static enum kiln_status memory_map_detach(struct kilni_hw *base,
					  uint64_t address, uint64_t bytes,
					  uint64_t memory)
{
	struct kilni_null_hw *hw = null_hw(base);
	enum kiln_status status;

	(void)address;
	(void)memory;
	pthread_mutex_lock(&hw->lock);
	hw->calls.map_detach++;
	status = KILNI_FAULT("map_detach");
	if (status == KILN_OK)
		hw->attached_bytes -= bytes;
	pthread_mutex_unlock(&hw->lock);
	return status;
}

static enum kiln_status memory_write(struct kilni_hw *hw, uint64_t to,
				     const void *from, uint64_t bytes)
{
	(void)hw;
	(void)to;
	(void)from;
	(void)bytes;
	return KILNI_FAULT("write");
}

static enum kiln_status memory_read(struct kilni_hw *hw, void *to,
				    uint64_t from, uint64_t bytes)
{
	(void)hw;
	(void)from;
	KILNI_TRY(KILNI_FAULT("read"));
	if (bytes)
		memset(to, kilni_null_fill, bytes);
	return KILN_OK;
}

/* ---- program table ---- */

static bool program_has(const struct kilni_hw *hw, enum kilni_kernel kernel)
{
	return (unsigned)kernel < KILNI_KERNEL_COUNT &&
	       !(target_of(hw)->lacks >> kernel & 1);
}

static uint64_t program_workspace(const struct kilni_hw *hw,
				  enum kilni_kernel kernel, const void *params)
{
	return target_of(hw)->workspace(hw, kernel, params);
}

/* Any kernel is taken, for plans of other devices; none is run. */
static enum kiln_status program_load(struct kilni_hw *hw,
				     const struct kilni_program_source *source,
				     struct kilni_program **out)
{
	struct kilni_program *program;

	(void)hw;
	KILNI_TRY(KILNI_FAULT("load"));
	program = calloc(1, sizeof(*program));
	if (!program)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "null: no memory for a kernel");
	program->group = source->group;
	program->groups_most = UINT32_MAX;
	*out = program;
	return KILN_OK;
}

static void program_unload(struct kilni_hw *hw, struct kilni_program *program)
{
	(void)hw;
	free(program);
}

/* ---- the driver ---- */

static const struct kilni_driver_ops driver_ops = {
	.count = driver_count,
	.absent = driver_absent,
	.absent_status = kilni_driver_stub_absent_status,
	.describe = driver_describe,
	.open = driver_open,
};

static const struct kilni_device_ops device_ops = {
	.close = device_close,
	.dtype_usage = device_dtype_usage,
	.workers = kilni_device_stub_workers,
	.explain = device_explain,
	.clock = device_clock,
	.at_exit = kilni_device_stub_at_exit,
};

const struct kilni_memory_ops kilni_null_memory_ops = {
	.limits = memory_limits,
	.page_alloc = memory_page_alloc,
	.page_free = memory_page_free,
	.map_reserve = memory_map_reserve,
	.map_unreserve = memory_map_unreserve,
	.map_create = memory_map_create,
	.map_destroy = memory_map_destroy,
	.map_attach = memory_map_attach,
	.map_detach = memory_map_detach,
	.adopt = kilni_memory_stub_adopt,
	.write = memory_write,
	.read = memory_read,
	.host_pin = kilni_memory_stub_host_pin,
	.host_unpin = kilni_memory_stub_host_unpin,
};

static const struct kilni_program_ops program_ops = {
	.has = program_has,
	.workspace = program_workspace,
	.admit = kilni_program_stub_admit,
	.load = program_load,
	.unload = program_unload,
};

const struct kilni_driver kilni_null_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(struct kilni_driver),
	.name = "null",
	.type = KILN_DEVICE_NULL,
	.no_wrap = "there is no library here whose queues could be wrapped",
	.targets = kilni_null_targets,
	.driver = &driver_ops,
	.device = &device_ops,
	.memory = &kilni_null_memory_ops,
	.queue = &kilni_null_queue_ops,
	.program = &program_ops,
};
