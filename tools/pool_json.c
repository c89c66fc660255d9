/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pool.h"

#include <inttypes.h>

#include "tools/tool.h"

/* A segment may hold any number; JSON's integers end here. */
static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)(value < INT64_MAX ? value
							   : INT64_MAX));
}

static void set(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, number(value));
}

/* Addresses are names, not numbers: text in base 16. */
static void set_address(json_t *object, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_object_set_new(object, name, json_string(text));
}

static void set_seconds(json_t *object, const char *name, uint64_t ns)
{
	json_object_set_new(object, name, json_real((double)ns / 1e9));
}

/* ---- processes ---- */

static json_t *describe_process(const struct kiln_view_process *info)
{
	json_t *object = json_object();
	bool known = !info->status;

	set(object, "pid", info->pid);
	set(object, "uid", info->uid);
	json_object_set_new(object, "segment", tool_text(info->segment));
	json_object_set_new(object, "program",
			    known ? tool_text(info->program) : json_null());
	json_object_set_new(object, "live",
			    known ? json_boolean(info->live) : json_null());
	json_object_set_new(object, "device_count",
			    known ? number(info->devices) : json_null());
	json_object_set_new(object, "reserved_bytes",
			    known ? number(info->reserved_bytes)
				  : json_null());
	json_object_set_new(object, "live_bytes",
			    known ? number(info->live_bytes) : json_null());
	if (known)
		set_seconds(object, "age_seconds", info->age_ns);
	else
		json_object_set_new(object, "age_seconds", json_null());
	json_object_set_new(object, "reason",
			    known ? json_null() : tool_text(info->reason));
	return object;
}

json_t *pool_json_list(const struct pool_process *list, size_t count)
{
	json_t *all = json_object(), *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, describe_process(&list[i].info));
	json_object_set_new(all, "processes", array);
	return all;
}

/* ---- devices ---- */

static json_t *describe_pool(const struct kiln_view_pool *pool)
{
	json_t *object = json_object();

	json_object_set_new(object, "kind",
			    json_string(pool_kind_name(pool->kind)));
	json_object_set_new(object, "mapped", json_boolean(pool->mapped));
	json_object_set_new(object, "page_bytes",
			    pool->page_bytes ? number(pool->page_bytes)
					     : json_null());
	set(object, "max_slice_bytes", pool->max_slice_bytes);
	set(object, "pages", pool->pages);
	set(object, "peak_pages", pool->peak_pages);
	set(object, "slices", pool->allocations);
	set(object, "reserved_bytes", pool->reserved_bytes);
	set(object, "live_bytes", pool->live_bytes);
	set(object, "cached_bytes", pool->cached_bytes);
	set(object, "padding_bytes", pool->padding_bytes);
	set(object, "largest_request_bytes", pool->largest_request_bytes);
	return object;
}

/* In thousandths of each cell, which add up. */
static json_t *describe_cells(const struct kiln_view_page *page)
{
	json_t *cells = json_array();

	for (unsigned i = 0; i < page->cells; i++) {
		const struct kiln_view_cell *cell = &page->cell[i];
		int live = (int)(cell->live * 1000 + 0.5f);
		int padding = (int)(cell->padding * 1000 + 0.5f);
		int unmapped = (int)(cell->unmapped * 1000 + 0.5f);
		int cached = 1000 - live - padding - unmapped;

		json_array_append_new(
			cells, json_pack("[i, i, i, i]", live,
					 cached > 0 ? cached : 0, padding,
					 unmapped));
	}
	return cells;
}

static json_t *describe_page(const struct kiln_view_page *page)
{
	json_t *object = json_object();

	set(object, "pool", page->pool);
	set_address(object, "address", page->address);
	set(object, "bytes", page->bytes);
	json_object_set_new(object, "seen", json_boolean(page->seen));
	if (!page->seen)
		return object;
	json_object_set_new(object, "old", json_boolean(page->old));
	set(object, "slices", page->slices);
	set(object, "live_bytes", page->live_bytes);
	set(object, "cached_bytes", page->cached_bytes);
	set(object, "padding_bytes", page->padding_bytes);
	set(object, "unmapped_bytes", page->unmapped_bytes);
	set(object, "largest_hole_bytes", page->hole_bytes);
	json_object_set_new(object, "cells", describe_cells(page));
	return object;
}

static json_t *describe_holes(const struct pool_device *device)
{
	struct pool_hole holes[POOL_HOLES];
	size_t count = pool_holes(device, holes);
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *object = json_object();

		set(object, "pool", holes[i].pool);
		set_address(object, "address", holes[i].address);
		set(object, "bytes", holes[i].bytes);
		json_array_append_new(array, object);
	}
	return array;
}

static void set_usage(json_t *object, const struct kiln_view_device *info)
{
	set(object, "reserved_bytes", info->reserved_bytes);
	set(object, "live_bytes", info->live_bytes);
	set(object, "cached_bytes", info->cached_bytes);
	set(object, "padding_bytes", info->padding_bytes);
	set(object, "peak_reserved_bytes", info->peak_reserved_bytes);
	set(object, "peak_live_bytes", info->peak_live_bytes);
	json_object_set_new(object, "cap_bytes",
			    info->cap_bytes ? number(info->cap_bytes)
					    : json_null());
	set(object, "slices", info->allocations);
	set(object, "driver_calls", info->driver_calls);
	set(object, "pages_left_out", info->pages_left_out);
}

static json_t *describe_device(const struct pool_device *device)
{
	const struct kiln_view_device *info = &device->info;
	json_t *object = json_object();
	json_t *pools = json_array(), *pages = json_array();

	json_object_set_new(object, "selector", tool_text(info->selector));
	set_seconds(object, "age_seconds", info->age_ns);
	set_usage(object, info);
	for (size_t i = 0; i < info->pools; i++)
		json_array_append_new(pools, describe_pool(&device->pools[i]));
	json_object_set_new(object, "pools", pools);
	json_object_set_new(object, "largest_holes", describe_holes(device));
	for (size_t i = 0; i < info->pages; i++)
		json_array_append_new(pages, describe_page(&device->pages[i]));
	json_object_set_new(object, "pages", pages);
	return object;
}

json_t *pool_json_process(const struct pool_process *process)
{
	json_t *object = describe_process(&process->info);
	json_t *devices = json_array();

	for (size_t i = 0; i < process->info.devices; i++)
		json_array_append_new(devices,
				      describe_device(&process->devices[i]));
	set(object, "snapshot", process->info.snapshot);
	set(object, "devices_left_out", process->info.devices_left_out);
	json_object_set_new(object, "devices", devices);
	return object;
}
