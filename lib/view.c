/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "lib/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <kiln/view.h>

#include "lib/attach.h"

struct kiln_view {
	struct kilni_object object;
	struct kilni_attached attached;
};

_Static_assert(KILN_VIEW_CELLS >= KILNI_SEGMENT_CELLS, "cells have room");
_Static_assert(sizeof(((struct kiln_view_process *)NULL)->segment) >=
		       KILNI_SEGMENT_NAME, "names have room");

#define CHECK_VIEW(view, fn)                                                   \
	KILNI_TRY(kilni_object_check(view, &kilni_view_kind, fn, #view))

static enum kiln_status check_info(const void *info, size_t expected,
				   const char *fn)
{
	size_t size;

	if (!info)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: info is NULL", fn);
	/* Every such struct begins with its size. */
	memcpy(&size, info, sizeof(size));
	if (size == expected)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: struct_size %zu is unknown",
			  fn, size);
}

/* ---- from a snapshot to the public structs ---- */

/* 0 for a clock that has been set back. */
static uint64_t age_ns(uint64_t taken_ns)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return ns > taken_ns ? ns - taken_ns : 0;
}

static void describe_process(const struct kilni_attached *from,
			     struct kiln_view_process *to)
{
	const struct kilni_segment_snapshot *snapshot = from->snapshot;

	memset(to, 0, sizeof(*to));
	to->struct_size = sizeof(*to);
	strcpy(to->segment, from->text);
	memcpy(to->program, from->program, sizeof(to->program));
	to->pid = from->pid;
	to->uid = from->uid;
	to->live = kilni_segment_is_live(from->fd);
	to->devices = snapshot->devices;
	to->devices_left_out = snapshot->devices_left_out;
	for (uint32_t i = 0; i < snapshot->devices; i++) {
		to->live_bytes += snapshot->device[i].live_bytes;
		to->reserved_bytes += snapshot->device[i].reserved_bytes;
	}
	to->snapshot = snapshot->seq;
	to->age_ns = age_ns(snapshot->taken_ns);
	to->started_ns = from->started_ns;
}

static void describe_device(const struct kilni_segment_device *from,
			    struct kiln_view_device *to)
{
	memset(to, 0, sizeof(*to));
	to->struct_size = sizeof(*to);
	memcpy(to->selector, from->selector, sizeof(to->selector));
	to->age_ns = age_ns(from->taken_ns);
	to->cap_bytes = from->cap_bytes;
	to->allocations = from->allocations;
	to->live_bytes = from->live_bytes;
	to->padding_bytes = from->padding_bytes;
	to->cached_bytes = from->reserved_bytes - from->live_bytes -
			   from->padding_bytes;
	to->reserved_bytes = from->reserved_bytes;
	to->peak_live_bytes = from->peak_live_bytes;
	to->peak_reserved_bytes = from->peak_reserved_bytes;
	to->driver_calls = from->driver_calls;
	to->pools = from->pools;
	to->pages = from->pages;
	to->pages_left_out = from->pages_left_out;
}

static void describe_pool(const struct kilni_segment_pool *from,
			  struct kiln_view_pool *to)
{
	memset(to, 0, sizeof(*to));
	to->struct_size = sizeof(*to);
	to->kind = (enum kiln_pool_kind)from->kind;
	to->mapped = from->mapped;
	to->page_bytes = from->page_bytes;
	to->max_slice_bytes = kilni_min_u64(from->max_slice_bytes, INT64_MAX);
	to->pages = from->pages;
	to->peak_pages = from->peak_pages;
	to->allocations = from->allocations;
	to->live_bytes = from->live_bytes;
	to->padding_bytes = from->padding_bytes;
	to->cached_bytes = from->reserved_bytes - from->live_bytes -
			   from->padding_bytes;
	to->reserved_bytes = from->reserved_bytes;
	to->largest_request_bytes = from->largest_request_bytes;
}

static void describe_cell(const struct kilni_segment_cell *from,
			  struct kiln_view_cell *to)
{
	float sum = (float)(from->live + from->padding + from->unmapped);
	/* Each share was rounded for itself. */
	float whole = sum > 255.0f ? sum : 255.0f;

	to->live = (float)from->live / whole;
	to->padding = (float)from->padding / whole;
	to->unmapped = (float)from->unmapped / whole;
	to->cached = (whole - sum) / whole;
}

static void describe_page(const struct kilni_segment_page *from,
			  struct kiln_view_page *to)
{
	memset(to, 0, sizeof(*to));
	to->struct_size = sizeof(*to);
	to->pool = from->pool;
	to->address = from->address;
	to->bytes = from->bytes;
	to->seen = !(from->flags & KILNI_SEGMENT_UNSEEN);
	if (!to->seen)
		return;
	to->old = from->flags & KILNI_SEGMENT_OLD;
	to->live_bytes = from->live_bytes;
	to->padding_bytes = from->padding_bytes;
	to->unmapped_bytes = from->unmapped_bytes;
	to->cached_bytes = from->bytes - from->live_bytes -
			   from->padding_bytes - from->unmapped_bytes;
	to->slices = from->slices;
	to->hole_address = from->hole_address;
	to->hole_bytes = from->hole_bytes;
	to->cells = from->cells;
	for (unsigned i = 0; i < to->cells; i++)
		describe_cell(&from->cell[i], &to->cell[i]);
}

/* ---- listing ---- */

struct names {
	char (*name)[KILNI_SEGMENT_NAME];
	size_t count, capacity;
};

static bool add_name(struct names *names, const char *name)
{
	if (names->count == names->capacity) {
		size_t capacity = names->capacity ? 2 * names->capacity : 64;
		void *grown = reallocarray(names->name, capacity,
					   sizeof(names->name[0]));

		if (!grown)
			return false;
		names->name = grown;
		names->capacity = capacity;
	}
	strcpy(names->name[names->count++], name);
	return true;
}

static int by_process(const void *left, const void *right)
{
	struct kilni_segment_name a = { 0, 0, 0 }, b = { 0, 0, 0 };

	(void)kilni_segment_parse(left, &a);
	(void)kilni_segment_parse(right, &b);
	if (a.pid != b.pid)
		return a.pid < b.pid ? -1 : 1;
	return strcmp(left, right);
}

static enum kiln_status gather(DIR *folder, struct names *names)
{
	struct kilni_segment_name ignored;
	struct dirent *entry;

	while ((entry = readdir(folder)))
		if (kilni_segment_parse(entry->d_name, &ignored) &&
		    !add_name(names, entry->d_name))
			return kilni_fail(KILN_ERR_NO_MEMORY, 0,
					  "kiln_view_enumerate: no memory");
	if (names->count)
		qsort(names->name, names->count, sizeof(names->name[0]),
		      by_process);
	return KILN_OK;
}

/* What can be said of a segment that cannot be read. */
static void describe_refusal(int folder, const char *text,
			     enum kiln_status status,
			     struct kiln_view_process *to)
{
	struct kilni_segment_name name = { 0, 0, 0 };
	struct stat stat;

	(void)kilni_segment_parse(text, &name);
	memset(to, 0, sizeof(*to));
	to->struct_size = sizeof(*to);
	strcpy(to->segment, text);
	to->pid = name.pid;
	to->uid = fstatat(folder, text, &stat, AT_SYMLINK_NOFOLLOW)
			  ? name.uid
			  : stat.st_uid;
	to->live = true;
	to->status = status;
	to->native = kiln_error_native();
	snprintf(to->reason, sizeof(to->reason), "%s", kiln_error_message());
}

static void describe_named(int folder, const char *text,
			   struct kiln_view_process *to)
{
	struct kilni_error_record before;
	struct kilni_attached attached;
	enum kiln_status status;

	kilni_error_save(&before);
	status = kilni_attach(&attached, folder, text);
	if (status == KILN_OK) {
		describe_process(&attached, to);
		kilni_detach(&attached);
	} else {
		describe_refusal(folder, text, status, to);
	}
	kilni_error_restore(&before);
}

static enum kiln_status list(DIR *folder, struct kiln_view_process *infos,
			     size_t *count)
{
	struct names names = { NULL, 0, 0 };
	enum kiln_status status = gather(folder, &names);
	size_t capacity = infos ? *count : 0;

	if (status == KILN_OK) {
		for (size_t i = 0; i < names.count && i < capacity; i++)
			describe_named(dirfd(folder), names.name[i], &infos[i]);
		*count = names.count;
	}
	free(names.name);
	return status;
}

enum kiln_status kiln_view_enumerate(struct kiln_view_process *infos,
				     size_t *count)
{
	enum kiln_status status;
	DIR *folder;

	if (!count)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_view_enumerate: count is NULL");
	for (size_t i = 0; infos && i < *count; i++)
		KILNI_TRY(check_info(&infos[i], sizeof(infos[i]), __func__));
	(void)kilni_segment_sweep();
	folder = opendir(kilni_segment_folder());
	if (!folder && errno == ENOENT) {
		*count = 0;
		return KILN_OK;
	}
	if (!folder)
		return kilni_fail(KILN_ERR_IO, errno,
				  "kiln_view_enumerate: %s: %s",
				  kilni_segment_folder(), strerror(errno));
	status = list(folder, infos, count);
	closedir(folder);
	return status;
}

/* ---- attaching ---- */

static enum kiln_status attach(struct kiln_view *view, const char *segment)
{
	int folder = open(kilni_segment_folder(),
			  O_PATH | O_DIRECTORY | O_CLOEXEC);
	enum kiln_status status;

	if (folder < 0)
		return kilni_fail(KILN_ERR_IO, errno, "kiln_view_open: %s: %s",
				  kilni_segment_folder(), strerror(errno));
	status = kilni_attach(&view->attached, folder, segment);
	close(folder);
	return status;
}

enum kiln_status kiln_view_open(struct kiln_view **out, const char *segment)
{
	struct kiln_view *view, *old;
	enum kiln_status status;

	if (!out || !segment)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_view_open: out or segment is NULL");
	if (*out)
		KILNI_TRY(kilni_object_check(*out, &kilni_view_kind, __func__,
					     "*out"));
	kilni_fork_watch();
	view = calloc(1, sizeof(*view));
	if (!view)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_view_open: no memory");
	status = attach(view, segment);
	if (status != KILN_OK) {
		free(view);
		return status;
	}
	kilni_object_init(&view->object, &kilni_view_kind);
	old = *out;
	*out = view;
	kiln_view_release(old);
	return KILN_OK;
}

enum kiln_status kiln_view_refresh(struct kiln_view *view)
{
	CHECK_VIEW(view, __func__);
	return kilni_attached_refresh(&view->attached);
}

struct kiln_view *kiln_view_retain(struct kiln_view *view)
{
	kilni_object_retain(&view->object);
	return view;
}

void kiln_view_release(struct kiln_view *view)
{
	if (!view || !kilni_object_drop(&view->object))
		return;
	kilni_detach(&view->attached);
	view->object.ops = NULL;
	free(view);
}

/* ---- what a view shows ---- */

enum kiln_status kiln_view_process(const struct kiln_view *view,
				   struct kiln_view_process *process)
{
	CHECK_VIEW(view, __func__);
	KILNI_TRY(check_info(process, sizeof(*process), __func__));
	describe_process(&view->attached, process);
	return KILN_OK;
}

/* One of so many; fn and what are for the message. */
static enum kiln_status check_number(size_t number, uint64_t count,
				     const char *fn, const char *what)
{
	if (number < count)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s %zu: there are %llu", fn,
			  what, number, (unsigned long long)count);
}

static enum kiln_status find_device(const struct kiln_view *view, size_t number,
				    const char *fn,
				    const struct kilni_segment_device **out)
{
	const struct kilni_segment_snapshot *snapshot =
		view->attached.snapshot;

	KILNI_TRY(check_number(number, snapshot->devices, fn, "device"));
	*out = &snapshot->device[number];
	return KILN_OK;
}

enum kiln_status kiln_view_device(const struct kiln_view *view, size_t device,
				  struct kiln_view_device *info)
{
	const struct kilni_segment_device *found;

	CHECK_VIEW(view, __func__);
	KILNI_TRY(check_info(info, sizeof(*info), __func__));
	KILNI_TRY(find_device(view, device, __func__, &found));
	describe_device(found, info);
	return KILN_OK;
}

enum kiln_status kiln_view_pool(const struct kiln_view *view, size_t device,
				size_t pool, struct kiln_view_pool *info)
{
	const struct kilni_segment_device *found;

	CHECK_VIEW(view, __func__);
	KILNI_TRY(check_info(info, sizeof(*info), __func__));
	KILNI_TRY(find_device(view, device, __func__, &found));
	KILNI_TRY(check_number(pool, found->pools, __func__, "pool"));
	describe_pool(&view->attached.snapshot->pool[found->first_pool + pool],
		      info);
	return KILN_OK;
}

enum kiln_status kiln_view_page(const struct kiln_view *view, size_t device,
				size_t page, struct kiln_view_page *info)
{
	const struct kilni_segment_device *found;

	CHECK_VIEW(view, __func__);
	KILNI_TRY(check_info(info, sizeof(*info), __func__));
	KILNI_TRY(find_device(view, device, __func__, &found));
	KILNI_TRY(check_number(page, found->pages, __func__, "page"));
	describe_page(&view->attached.snapshot->page[found->first_page + page],
		      info);
	return KILN_OK;
}
