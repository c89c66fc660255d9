/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

/* ---- words and numbers ---- */

const char *pool_size(char *to, uint64_t bytes)
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
					     "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1023.95 && unit < 6) {
		value /= 1024;
		unit++;
	}
	/* No decimals where there are none. */
	if (!unit || value == (double)(uint64_t)value)
		snprintf(to, 16, "%.0f %s", value, units[unit]);
	else
		snprintf(to, 16, "%.1f %s", value, units[unit]);
	return to;
}

const char *pool_kind_name(enum kiln_pool_kind kind)
{
	static const char *const names[] = {
		[KILN_POOL_SLICED] = "sliced",
		[KILN_POOL_EXCLUSIVE] = "exclusive",
		[KILN_POOL_PERSISTENT] = "persistent",
	};

	return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind]
								 : "unknown";
}

void pool_label(char *to, size_t size, const struct kiln_view_pool *pool)
{
	char bytes[16];

	if (pool->mapped)
		snprintf(to, size, "mapped");
	else if (pool->kind == KILN_POOL_SLICED)
		snprintf(to, size, "to %s",
			 pool_size(bytes, pool->max_slice_bytes));
	else
		snprintf(to, size, "%s", pool_kind_name(pool->kind));
}

static const char *age_text(char *to, size_t size, uint64_t age_ns)
{
	double seconds = (double)age_ns / 1e9;

	if (seconds < 120)
		snprintf(to, size, "%.1f s", seconds);
	else if (seconds < 7200)
		snprintf(to, size, "%.0f min", seconds / 60);
	else
		snprintf(to, size, "%.0f h", seconds / 3600);
	return to;
}

/* ---- holes ---- */

size_t pool_holes(const struct pool_device *device,
		  struct pool_hole holes[POOL_HOLES])
{
	size_t count = 0;

	for (size_t i = 0; i < device->info.pages; i++) {
		const struct kiln_view_page *page = &device->pages[i];
		size_t at = count;

		while (at && holes[at - 1].bytes < page->hole_bytes)
			at--;
		if (!page->hole_bytes || at == POOL_HOLES)
			continue;
		if (count < POOL_HOLES)
			count++;
		memmove(&holes[at + 1], &holes[at],
			(count - 1 - at) * sizeof(holes[0]));
		holes[at] = (struct pool_hole){ page->hole_address,
						page->hole_bytes, page->pool };
	}
	return count;
}

/* ---- the list ---- */

static void print_row(const struct kiln_view_process *info)
{
	char live[16], reserved[16], age[16];

	printf("%8" PRIu64 " %6" PRIu64 " ", info->pid, info->uid);
	if (info->status) {
		printf("%7s %10s %10s %8s  ", "-", "-", "-", "-");
		tool_plain(info->reason);
	} else {
		printf("%7" PRIu64 " %10s %10s %8s  ", info->devices,
		       pool_size(reserved, info->reserved_bytes),
		       pool_size(live, info->live_bytes),
		       age_text(age, sizeof(age), info->age_ns));
		tool_plain(info->program);
		if (!info->live)
			fputs(" (ended)", stdout);
	}
	putchar('\n');
}

void pool_print_list(const struct pool_process *list, size_t count)
{
	if (!count) {
		puts("no process publishes its pools");
		return;
	}
	printf("%8s %6s %7s %10s %10s %8s  %s\n", "pid", "uid", "devices",
	       "reserved", "live", "age", "program");
	for (size_t i = 0; i < count; i++)
		print_row(&list[i].info);
}

/* ---- one process ---- */

static void print_head(const struct kiln_view_process *info)
{
	char age[16];

	printf("process %" PRIu64 "  ", info->pid);
	tool_plain(info->program);
	printf("  user %" PRIu64 "  snapshot %" PRIu64 ", %s old%s\n", info->uid,
	       info->snapshot, age_text(age, sizeof(age), info->age_ns),
	       info->live ? "" : "; the process has ended");
	if (info->devices_left_out)
		printf("  and %" PRIu64 " more devices, for which there was no "
		       "room\n", info->devices_left_out);
}

static void print_usage(const struct kiln_view_device *info)
{
	char a[16], b[16], c[16], d[16];

	printf("  reserved %s = live %s + cached %s + padding %s\n",
	       pool_size(a, info->reserved_bytes),
	       pool_size(b, info->live_bytes),
	       pool_size(c, info->cached_bytes),
	       pool_size(d, info->padding_bytes));
	printf("  peak reserved %s, peak live %s, cap %s\n",
	       pool_size(a, info->peak_reserved_bytes),
	       pool_size(b, info->peak_live_bytes),
	       info->cap_bytes ? pool_size(c, info->cap_bytes) : "none");
	printf("  %" PRIu64 " live slices, %" PRIu64 " driver calls\n",
	       info->allocations, info->driver_calls);
}

static void print_pool(const struct kiln_view_pool *pool)
{
	char label[32], page[16], a[16], b[16], c[16], d[16];

	pool_label(label, sizeof(label), pool);
	printf("  %-12s %9s %7" PRIu64 " %9" PRIu64 " %10s %10s %10s %10s\n",
	       label,
	       pool->mapped ? "-"
	       : pool->page_bytes
		       ? pool_size(page, pool->page_bytes)
		       : "varies",
	       pool->pages, pool->allocations,
	       pool_size(a, pool->reserved_bytes),
	       pool_size(b, pool->live_bytes),
	       pool_size(c, pool->cached_bytes),
	       pool_size(d, pool->padding_bytes));
}

static void print_holes(const struct pool_device *device)
{
	struct pool_hole holes[POOL_HOLES];
	size_t count = pool_holes(device, holes);
	char label[32], size[16];

	if (!count)
		return;
	puts("  largest holes");
	for (size_t i = 0; i < count; i++) {
		pool_label(label, sizeof(label),
			   &device->pools[holes[i].pool]);
		printf("  %-12s %9s at %#" PRIx64 "\n", label,
		       pool_size(size, holes[i].bytes), holes[i].address);
	}
}

static void print_device(const struct pool_device *device)
{
	putchar('\n');
	tool_plain(device->info.selector);
	putchar('\n');
	print_usage(&device->info);
	printf("\n  %-12s %9s %7s %9s %10s %10s %10s %10s\n", "pool", "page",
	       "pages", "slices", "reserved", "live", "cached", "padding");
	for (size_t i = 0; i < device->info.pools; i++)
		print_pool(&device->pools[i]);
	print_holes(device);
	if (device->info.pages_left_out)
		printf("  %" PRIu64 " more pages, for which there was no "
		       "room in the snapshot\n", device->info.pages_left_out);
}

void pool_print_process(const struct pool_process *process)
{
	print_head(&process->info);
	for (size_t i = 0; i < process->info.devices; i++)
		print_device(&process->devices[i]);
}
