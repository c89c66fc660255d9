/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"
#include "drivers/pci.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct kilni_driver kilni_cuda_driver;

/* Kernels are compiled for this compute capability and run on later ones. */
#define OLDEST 75

/* ---- results ---- */

int kilni_cuda_note(struct kilni_cuda_hw *hw, int result)
{
	int none = 0;

	if (result == CU_OK || !kilni_cuda_is_sticky(result))
		return result;
	if (__atomic_compare_exchange_n(&hw->lost, &none, result, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		kilni_hw_lose(&hw->base);
		kilni_log(KILNI_LOG_ERROR, "cuda:%u is lost: %s (%d)",
			  hw->base.index, kilni_cuda_name(result), result);
		pthread_mutex_lock(&hw->lock);
		pthread_cond_broadcast(&hw->moved);
		pthread_mutex_unlock(&hw->lock);
	}
	return result;
}

enum kiln_status kilni_cuda_check(struct kilni_cuda_hw *hw, int result,
				  const char *what)
{
	if (KILNI_LIKELY(result == CU_OK))
		return KILN_OK;
	kilni_cuda_note(hw, result);
	return kilni_cuda_fail(result, what);
}

enum kiln_status kilni_cuda_alive(const struct kilni_cuda_hw *hw)
{
	int result = __atomic_load_n(&hw->lost, __ATOMIC_ACQUIRE);

	if (KILNI_LIKELY(!result))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE_LOST, result,
			  "cuda:%u was lost by %s (%d)", hw->base.index,
			  kilni_cuda_name(result), result);
}

enum kiln_status kilni_cuda_enter(struct kilni_cuda_hw *hw)
{
	KILNI_TRY(kilni_cuda_alive(hw));
	return kilni_cuda_check(hw, kilni_cuda.context_push(hw->context),
				"cuCtxPushCurrent");
}

void kilni_cuda_leave(void)
{
	cu_context context;

	(void)kilni_cuda.context_pop(&context);
}

/* ---- driver table ---- */

static size_t driver_count(void)
{
	return kilni_cuda_devices();
}

static const char *driver_absent(void)
{
	return kilni_cuda_load();
}

static enum kiln_status driver_absent_status(void)
{
	return kilni_cuda_load_status();
}

static enum kiln_status find_device(unsigned index, cu_device *device)
{
	const char *why = kilni_cuda_load();
	int result;

	if (why)
		return kilni_fail(kilni_cuda_load_status(), 0, "cuda: %s",
				  why);
	result = kilni_cuda.device_get(device, (int)index);
	return result == CU_OK ? KILN_OK
			       : kilni_cuda_fail(result, "cuDeviceGet");
}

/* An attribute, 0 where the driver does not know it. */
static int attribute(cu_device device, enum cu_attribute which)
{
	int value = 0;

	if (kilni_cuda.device_attribute(&value, which, device) != CU_OK)
		return 0;
	return value;
}

/* 10 * major + minor */
static int capability(cu_device device)
{
	return 10 * attribute(device, CU_CAPABILITY_MAJOR) +
	       attribute(device, CU_CAPABILITY_MINOR);
}

/* Why the device cannot be opened; "" where it can. */
static void find_refusal(cu_device device, char *text, size_t bytes)
{
	int has = capability(device);

	*text = 0;
	if (has < OLDEST)
		snprintf(text, bytes,
			 "compute capability %d.%d, kiln needs %d.%d or newer",
			 has / 10, has % 10, OLDEST / 10, OLDEST % 10);
	else if (attribute(device, CU_COMPUTE_MODE) == CU_COMPUTE_PROHIBITED)
		snprintf(text, bytes, "its compute mode is \"prohibited\"");
}

static void print_uuid(char text[64], const char *prefix,
		       const unsigned char *u)
{
	int n = snprintf(text, 64, "%s", prefix);

	for (int i = 0; i < 16; i++)
		n += snprintf(text + n, 64 - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      u[i]);
}

/* The newer call gives the slice, the older one its card. */
static void find_uuid(cu_device device, struct kilni_hw_info *info)
{
	unsigned char card[16], slice[16];

	if (kilni_cuda.device_uuid(card, device) != CU_OK)
		return;
	if (kilni_cuda.device_uuid_2 &&
	    kilni_cuda.device_uuid_2(slice, device) == CU_OK &&
	    memcmp(card, slice, sizeof(card)) != 0) {
		info->slice = true;
		print_uuid(info->uuid, "MIG-", slice);
		return;
	}
	print_uuid(info->uuid, "GPU-", card);
}

/* Empty where the library does not tell it. */
static void find_pci(cu_device device, char text[KILNI_PCI_BYTES])
{
	struct kilni_pci pci;
	char said[32] = "";

	*text = 0;
	if (kilni_cuda.device_pci &&
	    kilni_cuda.device_pci(said, sizeof(said), device) == CU_OK &&
	    kilni_pci_parse(said, &pci))
		kilni_pci_print(&pci, text);
}

static enum kiln_status driver_describe(unsigned index,
					struct kilni_hw_info *info)
{
	cu_device device;
	size_t bytes = 0;
	int result;

	memset(info, 0, sizeof(*info));
	KILNI_TRY(find_device(index, &device));
	result = kilni_cuda.device_name(info->name, sizeof(info->name),
					device);
	if (result != CU_OK)
		return kilni_cuda_fail(result, "cuDeviceGetName");
	result = kilni_cuda.device_memory(&bytes, device);
	if (result != CU_OK)
		return kilni_cuda_fail(result, "cuDeviceTotalMem");
	info->memory_bytes = bytes;
	info->kind = attribute(device, CU_INTEGRATED) ? KILN_KIND_INTEGRATED
						      : KILN_KIND_DISCRETE;
	info->ordinal = index;
	find_pci(device, info->pci);
	find_uuid(device, info);
	find_refusal(device, info->refused, sizeof(info->refused));
	snprintf(info->version, sizeof(info->version), "CUDA %d.%d",
		 kilni_cuda_version() / 1000,
		 kilni_cuda_version() % 1000 / 10);
	return KILN_OK;
}

static enum kiln_status check_device(const struct kilni_cuda_hw *hw)
{
	char refused[256];

	find_refusal(hw->device, refused, sizeof(refused));
	if (!*refused)
		return KILN_OK;
	return kilni_fail(KILN_ERR_UNSUPPORTED, 0, "cuda:%u: %s",
			  hw->base.index, refused);
}

static void write_explanation(struct kilni_cuda_hw *hw)
{
	char name[64] = "", pci[KILNI_PCI_BYTES];

	(void)kilni_cuda.device_name(name, sizeof(name), hw->device);
	find_pci(hw->device, pci);
	snprintf(hw->explain, sizeof(hw->explain),
		 "%.63s at %s, compute capability %u.%u, %u "
		 "multiprocessors, driver for CUDA %d.%d",
		 name, *pci ? pci : "an unknown address",
		 hw->capability / 10, hw->capability % 10,
		 hw->multiprocessors, kilni_cuda_version() / 1000,
		 kilni_cuda_version() % 1000 / 10);
}

/* What the context is needed for. */
static enum kiln_status start(struct kilni_cuda_hw *hw)
{
	size_t bytes = 0;
	enum kiln_status status;

	KILNI_TRY(kilni_cuda_check(hw,
				   kilni_cuda.device_memory(&bytes,
							    hw->device),
				   "cuDeviceTotalMem"));
	kilni_cuda_memory_init(hw, bytes);
	KILNI_TRY(kilni_cuda_enter(hw));
	status = kilni_cuda_staging_init(hw);
	kilni_cuda_leave();
	return status;
}

static enum kiln_status open_context(struct kilni_cuda_hw *hw)
{
	enum kiln_status status;

	KILNI_TRY(check_device(hw));
	KILNI_TRY(kilni_cuda_check(
		hw, kilni_cuda.context_retain(&hw->context, hw->device),
		"cuDevicePrimaryCtxRetain"));
	status = start(hw);
	if (status != KILN_OK)
		(void)kilni_cuda.context_release(hw->device);
	return status;
}

/* Entries from one mark to the next, at most; of a ring a quarter. */
#define MARK_EVERY 128

/* A malformed value has been refused when the device was opened. */
static uint64_t option(enum kilni_option option, uint64_t fallback)
{
	uint64_t value = fallback;

	return kilni_option_number(option, &value) == KILN_OK ? value
							      : fallback;
}

static void init_host_side(struct kilni_cuda_hw *hw)
{
	hw->spin_ns = option(KILNI_OPT_SPIN_US, 20) * 1000;
	hw->batches = option(KILNI_OPT_CUDA_BATCH, 1) && kilni_cuda_has_graphs();
	hw->mark_every = kilni_min_u64(
		MARK_EVERY, option(KILNI_OPT_RING_LIMIT, UINT64_MAX) / 4);
	hw->multiprocessors =
		(unsigned)attribute(hw->device, CU_MULTIPROCESSORS);
	hw->capability = (unsigned)capability(hw->device);
	hw->writes = kilni_cuda.stream_write &&
		     attribute(hw->device, CU_STREAM_WRITES_64);
	pthread_mutex_init(&hw->lock, NULL);
	pthread_cond_init(&hw->moved, NULL);
	pthread_mutex_init(&hw->racks.lock, NULL);
	write_explanation(hw);
}

static void fini_host_side(struct kilni_cuda_hw *hw)
{
	pthread_mutex_destroy(&hw->racks.lock);
	pthread_cond_destroy(&hw->moved);
	pthread_mutex_destroy(&hw->lock);
}

static enum kiln_status open_device(struct kilni_cuda_hw *hw)
{
	enum kiln_status status;

	init_host_side(hw);
	status = kilni_cuda_modules_init(hw);
	if (status == KILN_OK) {
		status = kilni_cuda_attendant_init(hw);
		if (status == KILN_OK) {
			status = open_context(hw);
			if (status == KILN_OK)
				return KILN_OK;
			kilni_cuda_attendant_fini(hw);
		}
		kilni_cuda_modules_fini(hw, false);
	}
	fini_host_side(hw);
	return status;
}

static enum kiln_status driver_open(unsigned index, struct kilni_hw **out)
{
	struct kilni_cuda_hw *hw;
	enum kiln_status status;
	cu_device device;

	KILNI_TRY(KILNI_FAULT("open"));
	KILNI_TRY(find_device(index, &device));
	hw = calloc(1, sizeof(*hw));
	if (!hw)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for the device");
	hw->base.driver = &kilni_cuda_driver;
	hw->base.index = index;
	hw->epoch = kilni_fork_epoch;
	hw->device = device;
	status = open_device(hw);
	if (status != KILN_OK) {
		free(hw);
		return status;
	}
	*out = &hw->base;
	return KILN_OK;
}

/* ---- device table ---- */

/*
 * In a child of a fork the library must not be called, and the attendant is
 * not there; what the host holds is all that goes.
 */
static void device_close(struct kilni_hw *base)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	bool own = hw->epoch == kilni_fork_epoch, entered;

	if (own) {
		kilni_cuda_attendant_fini(hw);
		entered = kilni_cuda.context_push(hw->context) == CU_OK;
		kilni_cuda_queues_free(hw);
		kilni_cuda_racks_free(hw, entered);
		kilni_cuda_modules_fini(hw, entered);
		kilni_cuda_staging_fini(hw);
		if (entered)
			kilni_cuda_leave();
		(void)kilni_cuda.context_release(hw->device);
		kilni_cuda_pins_fini(hw);
		fini_host_side(hw);
	} else {
		kilni_cuda_racks_free(hw, false);
		kilni_cuda_modules_fini(hw, false);
	}
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
	return kilni_cuda_hw(hw)->explain;
}

static void device_clock(const struct kilni_hw *hw, struct kilni_clock *clock)
{
	(void)hw;
	*clock = KILNI_CLOCK_HOST;
}

/* ---- the driver ---- */

static const struct kilni_driver_ops driver_ops = {
	.count = driver_count,
	.absent = driver_absent,
	.absent_status = driver_absent_status,
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

static const struct kilni_program_ops program_ops = {
	.has = kilni_cuda_has,
	.workspace = kilni_cuda_workspace,
	.admit = kilni_program_stub_admit,
	.load = kilni_cuda_program_load,
	.unload = kilni_cuda_program_unload,
};

const struct kilni_driver kilni_cuda_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(struct kilni_driver),
	.name = "cuda",
	.type = KILN_DEVICE_CUDA,
	.driver = &driver_ops,
	.device = &device_ops,
	.memory = &kilni_cuda_memory_ops,
	.queue = &kilni_cuda_queue_ops,
	.program = &program_ops,
};
