/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/cpu/place.h"

#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* ---- the affinity mask ---- */

/* The calling thread's mask; all CPUs where the system does not say. */
static void read_affinity(hwloc_bitmap_t mask)
{
	size_t size = CPU_ALLOC_SIZE(KILNI_CPU_MOST);
	cpu_set_t *set = CPU_ALLOC(KILNI_CPU_MOST);

	hwloc_bitmap_fill(mask);
	if (!set)
		return;
	CPU_ZERO_S(size, set);
	if (!sched_getaffinity(0, size, set)) {
		hwloc_bitmap_zero(mask);
		for (int cpu = 0; cpu < KILNI_CPU_MOST; cpu++)
			if (CPU_ISSET_S((size_t)cpu, size, set))
				hwloc_bitmap_set(mask, (unsigned)cpu);
	}
	CPU_FREE(set);
}

/* ---- hwloc ---- */

/* Whether hwloc finds in /sys what it wants. */
static bool has_sysfs(void)
{
	return !access("/sys/devices/system/cpu/cpu0/topology", F_OK) ||
	       !access("/sys/bus/cpu/devices/cpu0/topology", F_OK);
}

/*
 * Components that would open vendor libraries, or move this thread from CPU to
 * CPU to ask each; one that is not installed cannot be told to stay away. The
 * one that reads /sys prints an error where there is nothing to read.
 */
static void calm_components(hwloc_topology_t topology)
{
#if HWLOC_API_VERSION >= 0x00020100
	static const char *const names[] = { "x86", "pci", "opencl", "gl",
					     "cuda", "nvml", "rsmi",
					     "levelzero" };
	unsigned long flag = HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST;

	for (size_t i = 0; i < KILNI_COUNTOF(names); i++)
		(void)hwloc_topology_set_components(topology, flag, names[i]);
	if (!has_sysfs())
		(void)hwloc_topology_set_components(topology, flag, "linux");
#else
	(void)topology;
#endif
}

/*
 * Everything but caches, which takes a millisecond; packages and groups are
 * what ties a NUMA node to its cores. NULL where hwloc fails.
 */
static hwloc_topology_t load(const char *xml)
{
	enum hwloc_type_filter_e none = HWLOC_TYPE_FILTER_KEEP_NONE;
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology))
		return NULL;
	calm_components(topology);
	hwloc_topology_set_cache_types_filter(topology, none);
	hwloc_topology_set_icache_types_filter(topology, none);
	if ((xml && hwloc_topology_set_xml(topology, xml)) ||
	    hwloc_topology_load(topology)) {
		hwloc_topology_destroy(topology);
		return NULL;
	}
	return topology;
}

static void take_nodes(hwloc_topology_t topology, hwloc_const_bitmap_t mask,
		       struct kilni_topology *out)
{
	const unsigned bits = 8 * sizeof(long);
	hwloc_obj_t node = NULL;

	while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE,
						  node))) {
		unsigned index = node->os_index;

		out->machine_nodes++;
		if (index >= KILNI_NODES_MOST || !node->cpuset ||
		    !hwloc_bitmap_intersects(node->cpuset, mask))
			continue;
		out->nodes++;
		out->node_set[index / bits] |= 1ul << index % bits;
	}
}

/* One logical CPU of each core that the mask touches. */
static void take_cores(hwloc_topology_t topology, hwloc_const_bitmap_t mask,
		       hwloc_bitmap_t scratch, struct kilni_topology *out)
{
	hwloc_obj_t core = NULL;

	while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE,
						  core))) {
		hwloc_bitmap_and(scratch, core->cpuset, mask);
		if (!hwloc_bitmap_iszero(scratch))
			out->core_cpu[out->cores++] =
				hwloc_bitmap_first(scratch);
	}
}

/* Every logical CPU counts as a core: hwloc knows none. */
static void take_mask(hwloc_const_bitmap_t mask, struct kilni_topology *out)
{
	for (int cpu = hwloc_bitmap_first(mask);
	     cpu >= 0 && out->cores < out->cpus;
	     cpu = hwloc_bitmap_next(mask, cpu))
		out->core_cpu[out->cores++] = cpu;
}

/* Narrows mask to what the topology has, unless nothing would be left. */
static void narrow(hwloc_topology_t topology, hwloc_bitmap_t mask,
		   hwloc_bitmap_t scratch)
{
	hwloc_const_bitmap_t all;

	if (!topology)
		return;
	all = hwloc_topology_get_topology_cpuset(topology);
	hwloc_bitmap_and(scratch, mask, all);
	if (!hwloc_bitmap_iszero(scratch))
		hwloc_bitmap_copy(mask, scratch);
}

static enum kiln_status take_all(hwloc_topology_t topology,
				 hwloc_bitmap_t mask, hwloc_bitmap_t scratch,
				 struct kilni_topology *out)
{
	int cpus;

	narrow(topology, mask, scratch);
	cpus = hwloc_bitmap_weight(mask);
	out->cpus = cpus > 0 ? (unsigned)cpus : 1;
	out->core_cpu = calloc(out->cpus, sizeof(*out->core_cpu));
	if (!out->core_cpu)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for the topology");
	if (topology) {
		take_nodes(topology, mask, out);
		take_cores(topology, mask, scratch, out);
	}
	if (!out->cores)
		take_mask(mask, out);
	return KILN_OK;
}

enum kiln_status kilni_topology_read(const char *xml, const char *list,
				     struct kilni_topology *out)
{
	hwloc_bitmap_t mask = hwloc_bitmap_alloc_full();
	hwloc_bitmap_t scratch = hwloc_bitmap_alloc();
	hwloc_topology_t topology = load(xml);
	enum kiln_status status;

	memset(out, 0, sizeof(*out));
	if (!mask || !scratch)
		status = kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				    "cpu: no memory for the affinity mask");
	else if (xml && !topology)
		status = kilni_fail(KILN_ERR_OPTION, errno,
				    "KILN_HWLOC_XML: \"%s\" is no topology",
				    xml);
	else if (list && hwloc_bitmap_list_sscanf(mask, list))
		status = kilni_fail(KILN_ERR_OPTION, 0,
				    "cpu: \"%s\" is no list of CPUs", list);
	else {
		if (!list && !xml)
			read_affinity(mask);
		status = take_all(topology, mask, scratch, out);
	}
	if (topology)
		hwloc_topology_destroy(topology);
	hwloc_bitmap_free(scratch);
	hwloc_bitmap_free(mask);
	return status;
}

void kilni_topology_free(struct kilni_topology *topology)
{
	free(topology->core_cpu);
	topology->core_cpu = NULL;
}

/* ---- how many ---- */

/* Appends to a text of limited size. */
static void append(char *text, size_t size, const char *fmt, ...)
	KILNI_PRINTF(3, 4);
static void append(char *text, size_t size, const char *fmt, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + used, size - used, fmt, args);
	va_end(args);
}

unsigned kilni_workers_decide(const struct kilni_worker_facts *f, char *reason,
			      size_t size)
{
	unsigned workers = f->cores;

	/* One thread too many is enough to be throttled: round down. */
	if (f->quota < workers)
		workers = f->quota < 1 ? 1 : (unsigned)floor(f->quota);
	if (f->slurm && f->slurm < workers)
		workers = f->slurm;
	if (f->asked)
		workers = f->asked;
	*reason = 0;
	append(reason, size, "%u worker%s: ", workers, workers == 1 ? "" : "s");
	if (f->asked)
		append(reason, size, "KILN_CPU_WORKERS=%u; ", f->asked);
	append(reason, size, "%u core%s", f->cores, f->cores == 1 ? "" : "s");
	if (f->cpus != f->cores)
		append(reason, size, " (%u logical CPUs)", f->cpus);
	append(reason, size, " in affinity mask; ");
	if (isinf(f->quota))
		append(reason, size, "no cgroup quota");
	else
		append(reason, size, "cgroup quota %.2f", f->quota);
	if (f->slurm)
		append(reason, size, "; SLURM_CPUS_PER_TASK=%u", f->slurm);
	return workers;
}
