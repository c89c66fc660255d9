/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pool.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "tools/tool.h"

/*
 * OpenMetrics: all samples of a family stand together, under its description.
 * So each row of the tables below goes once over all processes.
 */

struct family {
	const char *name, *unit, *type, *help;
	size_t field;              /* offset in the struct it is taken from */
};

#define FAMILY(name, unit, type, help, field)                                  \
	{ name, unit, type, help, offsetof(struct STRUCT, field) }

#define STRUCT kiln_view_device
static const struct family device_families[] = {
	FAMILY("kiln_device_reserved_bytes", "bytes", "gauge",
	       "Memory that the driver has given.", reserved_bytes),
	FAMILY("kiln_device_live_bytes", "bytes", "gauge",
	       "Memory that live slices asked for.", live_bytes),
	FAMILY("kiln_device_cached_bytes", "bytes", "gauge",
	       "Memory that is kept for reuse.", cached_bytes),
	FAMILY("kiln_device_padding_bytes", "bytes", "gauge",
	       "Memory that rounding costs.", padding_bytes),
	FAMILY("kiln_device_peak_reserved_bytes", "bytes", "gauge",
	       "Most memory that was reserved.", peak_reserved_bytes),
	FAMILY("kiln_device_peak_live_bytes", "bytes", "gauge",
	       "Most memory that was live.", peak_live_bytes),
	FAMILY("kiln_device_slices", "", "gauge", "Live slices.", allocations),
	FAMILY("kiln_device_driver_calls", "", "counter",
	       "Calls of the driver for memory.", driver_calls),
};
#undef STRUCT

#define STRUCT kiln_view_pool
static const struct family pool_families[] = {
	FAMILY("kiln_pool_reserved_bytes", "bytes", "gauge",
	       "Memory of the pool's pages.", reserved_bytes),
	FAMILY("kiln_pool_live_bytes", "bytes", "gauge",
	       "Memory that the pool's live slices asked for.", live_bytes),
	FAMILY("kiln_pool_cached_bytes", "bytes", "gauge",
	       "Memory that the pool keeps for reuse.", cached_bytes),
	FAMILY("kiln_pool_padding_bytes", "bytes", "gauge",
	       "Memory that rounding costs in the pool.", padding_bytes),
	FAMILY("kiln_pool_pages", "", "gauge", "Pages of the pool.", pages),
	FAMILY("kiln_pool_slices", "", "gauge", "Live slices of the pool.",
	       allocations),
};
#undef STRUCT

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void print_family(const char *name, const char *unit, const char *type,
			 const char *help)
{
	printf("# TYPE %s %s\n", name, type);
	if (*unit)
		printf("# UNIT %s %s\n", name, unit);
	printf("# HELP %s %s\n", name, help);
}

/* ---- labels ---- */

static bool print_label(const char *name, const char *value)
{
	char *clean = tool_clean(value);

	if (!clean)
		return false;
	printf("%s=\"", name);
	for (const char *at = clean; *at; at++) {
		if (*at == '\n')
			fputs("\\n", stdout);
		else if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else
			putchar(*at);
	}
	putchar('"');
	free(clean);
	return true;
}

static bool print_process_labels(const struct kiln_view_process *info)
{
	printf("pid=\"%" PRIu64 "\",uid=\"%" PRIu64 "\",", info->pid,
	       info->uid);
	if (!print_label("segment", info->segment))
		return false;
	putchar(',');
	return print_label("program", info->program);
}

static bool begin_sample(const char *name, const char *suffix,
			 const struct pool_process *process,
			 const struct pool_device *device)
{
	printf("%s%s{", name, suffix);
	if (!print_process_labels(&process->info))
		return false;
	putchar(',');
	return print_label("device", device->info.selector);
}

static uint64_t field(const void *from, const struct family *family)
{
	return *(const uint64_t *)(const void *)((const char *)from +
						 family->field);
}

static const char *suffix(const struct family *family)
{
	/* A counter's samples are named so. */
	return *family->type == 'c' ? "_total" : "";
}

/* ---- families ---- */

static bool print_device_family(const struct family *family,
				const struct pool_process *list, size_t count)
{
	print_family(family->name, family->unit, family->type, family->help);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; list[i].devices && j < list[i].info.devices;
		     j++) {
			const struct pool_device *device = &list[i].devices[j];

			if (!begin_sample(family->name, suffix(family),
					  &list[i], device))
				return false;
			printf("} %" PRIu64 "\n", field(&device->info, family));
		}
	return true;
}

static bool print_pool_samples(const struct family *family,
			       const struct pool_process *process,
			       const struct pool_device *device)
{
	for (size_t i = 0; i < device->info.pools; i++) {
		const struct kiln_view_pool *pool = &device->pools[i];

		if (!begin_sample(family->name, suffix(family), process,
				  device))
			return false;
		printf(",pool=\"%zu\",kind=\"%s\"} %" PRIu64 "\n", i,
		       pool_kind_name(pool->kind), field(pool, family));
	}
	return true;
}

static bool print_pool_family(const struct family *family,
			      const struct pool_process *list, size_t count)
{
	print_family(family->name, family->unit, family->type, family->help);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; list[i].devices && j < list[i].info.devices;
		     j++)
			if (!print_pool_samples(family, &list[i],
						&list[i].devices[j]))
				return false;
	return true;
}

static bool print_ages(const struct pool_process *list, size_t count)
{
	static const char name[] = "kiln_process_snapshot_age_seconds";

	print_family(name, "seconds", "gauge",
		     "Time since the process wrote its figures.");
	for (size_t i = 0; i < count; i++) {
		if (!list[i].devices)
			continue;
		printf("%s{", name);
		if (!print_process_labels(&list[i].info))
			return false;
		printf("} %.3f\n", (double)list[i].info.age_ns / 1e9);
	}
	return true;
}

bool pool_print_metrics(const struct pool_process *list, size_t count)
{
	bool good = print_ages(list, count);

	for (size_t i = 0; good && i < COUNT(device_families); i++)
		good = print_device_family(&device_families[i], list, count);
	for (size_t i = 0; good && i < COUNT(pool_families); i++)
		good = print_pool_family(&pool_families[i], list, count);
	puts("# EOF");
	return good;
}
