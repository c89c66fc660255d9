/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"
#include "drivers/cpu/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/ops.h>

#include "drivers/cpu/cgroup.h"
#include "drivers/cpu/fpenv.h"
#include "drivers/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SPIN_US_DEFAULT 20
#define SLICE_ALIGNMENT 64
#define PAGE_GRANULARITY 4096
/* Addresses that are reserved for mapping, of those that a process has. */
#define RESERVE_FACTOR 8
#define RESERVE_MOST ((uint64_t)1 << 44)

extern const struct kilni_driver kilni_cpu_driver;

static const struct kilni_cpu_hw *cpu_hw(const struct kilni_hw *hw)
{
	return (const struct kilni_cpu_hw *)(const void *)hw;
}

/* A quota is a fraction; the caller's rounding and traps are not for it. */
static void read_cgroup(struct kilni_cgroup *cgroup)
{
	const char *root = kilni_option_text(KILNI_OPT_SYSFS);
	kilni_fpenv saved = kilni_fp_enter();

	kilni_cgroup_read(root ? root : "", cgroup);
	kilni_fp_leave(saved);
}

/* ---- driver table ---- */

static size_t driver_count(void)
{
	return 1;
}

/* The processor's own name, without the blanks that surround it. */
static void read_name(char *name, size_t size)
{
#if defined(__x86_64__)
	unsigned word[12];
	char text[sizeof(word) + 1] = "";
	const char *at = text;
	size_t length;

	for (unsigned i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002u + i, &word[4 * i],
				 &word[4 * i + 1], &word[4 * i + 2],
				 &word[4 * i + 3]))
			goto unknown;
	memcpy(text, word, sizeof(word));
	at += strspn(at, " ");
	length = strlen(at);
	while (length && at[length - 1] == ' ')
		length--;
	snprintf(name, size, "%.*s", (int)length, at);
	if (*name)
		return;
unknown:
#endif
	snprintf(name, size, "CPU");
}

static enum kiln_status driver_describe(unsigned index,
					struct kilni_hw_info *info)
{
	struct kilni_cgroup cgroup;

	(void)index;
	memset(info, 0, sizeof(*info));
	info->kind = KILN_KIND_CPU;
	read_name(info->name, sizeof(info->name));
	read_cgroup(&cgroup);
	info->memory_bytes = kilni_cpu_memory_bytes(cgroup.memory_bytes);
	return KILN_OK;
}

/* A number that a job scheduler has set; 0 where there is none. */
static unsigned slurm_cpus(void)
{
	const char *text = getenv("SLURM_CPUS_PER_TASK");
	unsigned long number;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return 0;
	number = strtoul(text, &end, 10);
	return *end || number > UINT16_MAX ? 0 : (unsigned)number;
}

/* Where workers run, how many they are and why. */
static enum kiln_status plan_workers(struct kilni_cpu_hw *hw, double quota,
				     unsigned *workers, char *reason,
				     size_t size)
{
	struct kilni_worker_facts facts;
	uint64_t asked = 0;

	KILNI_TRY(kilni_option_number(KILNI_OPT_CPU_WORKERS, &asked));
	KILNI_TRY(kilni_topology_read(kilni_option_text(KILNI_OPT_HWLOC_XML),
				      NULL, &hw->topology));
	facts = (struct kilni_worker_facts){
		.cpus = hw->topology.cpus,
		.cores = hw->topology.cores,
		.quota = quota,
		.slurm = slurm_cpus(),
		.asked = (unsigned)asked,
	};
	*workers = kilni_workers_decide(&facts, reason, size);
	return KILN_OK;
}

static void fill_limits(struct kilni_memory_limits *limits,
			uint64_t cgroup_bytes)
{
	limits->alignment = SLICE_ALIGNMENT;
	limits->page_granularity = PAGE_GRANULARITY;
	limits->total_bytes = kilni_cpu_memory_bytes(cgroup_bytes);
	limits->max_page_bytes = limits->total_bytes &
				 ~((uint64_t)PAGE_GRANULARITY - 1);
	limits->host_visible = true;
	limits->map_granularity = KILNI_CPU_MAP_GRANULARITY;
	limits->map_reserve_bytes = kilni_min_u64(
		RESERVE_FACTOR * limits->total_bytes, RESERVE_MOST);
}

/* Fills in a device that is all zeros. */
static enum kiln_status hw_init(struct kilni_cpu_hw *hw)
{
	uint64_t spin_us = SPIN_US_DEFAULT;
	struct kilni_cgroup cgroup;
	unsigned workers;
	char reason[256];
	bool pinned;

	KILNI_TRY(kilni_option_number(KILNI_OPT_SPIN_US, &spin_us));
	KILNI_TRY(kilni_isa_choose(&hw->isa, &hw->bf16));
	read_cgroup(&cgroup);
	fill_limits(&hw->limits, cgroup.memory_bytes);
	KILNI_TRY(plan_workers(hw, cgroup.cpus, &workers, reason,
			       sizeof(reason)));
	/*
	 * With fewer workers than cores the system may move them about: it
	 * knows which cores others use, and we do not.
	 */
	pinned = workers == hw->topology.cores;
	snprintf(hw->explain, sizeof(hw->explain), "%s; %s%s",
		 kilni_isa_name(hw->isa), reason,
		 pinned ? "; one pinned to each core" : "");
	return kilni_gang_create(&hw->gang, workers,
				 pinned ? hw->topology.core_cpu : NULL,
				 spin_us * 1000, kilni_cpu_kernels[hw->isa]);
}

static enum kiln_status driver_open(unsigned index, struct kilni_hw **out)
{
	struct kilni_cpu_hw *hw;
	enum kiln_status status;

	KILNI_TRY(KILNI_FAULT("open"));
	hw = calloc(1, sizeof(*hw));
	if (!hw)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for the device");
	kilni_fork_watch();
	hw->base.driver = &kilni_cpu_driver;
	hw->base.index = index;
	hw->epoch = kilni_fork_epoch;
	status = hw_init(hw);
	if (status != KILN_OK) {
		kilni_topology_free(&hw->topology);
		free(hw);
		return status;
	}
	*out = &hw->base;
	return KILN_OK;
}

/* ---- device table ---- */

/* A forked child has none of the threads; what they held stays as it is. */
static void device_close(struct kilni_hw *base)
{
	struct kilni_cpu_hw *hw = (struct kilni_cpu_hw *)(void *)base;

	if (hw->epoch != kilni_fork_epoch)
		return;
	kilni_gang_destroy(hw->gang);
	kilni_topology_free(&hw->topology);
	free(hw);
}

static unsigned device_dtype_usage(const struct kilni_hw *hw,
				   enum kiln_dtype dtype)
{
	unsigned usage = kilni_usage_of(dtype);

	if (dtype == KILN_BF16 && cpu_hw(hw)->bf16)
		usage |= KILN_USAGE_ACCELERATED;
	return usage;
}

static unsigned device_workers(const struct kilni_hw *hw)
{
	return cpu_hw(hw)->gang->width;
}

static const char *device_explain(const struct kilni_hw *hw)
{
	return cpu_hw(hw)->explain;
}

static void device_clock(const struct kilni_hw *hw, struct kilni_clock *clock)
{
	(void)hw;
	*clock = KILNI_CLOCK_HOST;
}

/* ---- program table ---- */

static bool program_has(const struct kilni_hw *hw, enum kilni_kernel kernel)
{
	const struct kilni_cpu_kernels *kernels = cpu_hw(hw)->gang->kernels;

	switch (kernel) {
	case KILNI_KERNEL_EW:
		return kernels->ew != NULL;
	case KILNI_KERNEL_GATHER:
		return kernels->gather != NULL;
	case KILNI_KERNEL_SCATTER:
		return kernels->scatter != NULL;
	case KILNI_KERNEL_REDUCE:
		return kernels->reduce != NULL;
	case KILNI_KERNEL_MATMUL:
		return kernels->matmul != NULL;
	case KILNI_KERNEL_CUSTOM:
		return true;
	default:
		return false;
	}
}

static uint64_t program_workspace(const struct kilni_hw *hw,
				  enum kilni_kernel kernel, const void *params)
{
	(void)hw;
	return kilni_cpu_workspace(kernel, params);
}

/* ---- the driver ---- */

static const char *driver_absent(void)
{
	return NULL;
}

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
	.workers = device_workers,
	.explain = device_explain,
	.clock = device_clock,
	.at_exit = kilni_device_stub_at_exit,
};

static const struct kilni_program_ops program_ops = {
	.has = program_has,
	.workspace = program_workspace,
	.admit = kilni_program_stub_admit,
	.load = kilni_cpu_load,
	.unload = kilni_cpu_unload,
};

const struct kilni_driver kilni_cpu_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(struct kilni_driver),
	.name = "cpu",
	.type = KILN_DEVICE_CPU,
	.no_wrap = "queues are kiln's own here; there is none of another to "
		   "wrap",
	.driver = &driver_ops,
	.device = &device_ops,
	.memory = &kilni_cpu_memory_ops,
	.queue = &kilni_cpu_queue_ops,
	.program = &program_ops,
};
