/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/pool.h>

#include "base/base.h"

/* Reads of a snapshot that the writer has gone over meanwhile. */
#define TRIES 16

/* ---- reading ---- */

/* Whether all of it was there; a file that ends early is no error of its own. */
static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
	char *end = to;

	while (bytes) {
		ssize_t got = pread(fd, end, bytes, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		end += got;
		at += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return true;
}

static enum kiln_status refuse(const struct kilni_attached *attached,
			       const char *what)
{
	return kilni_fail(KILN_ERR_IO, 0, "segment %s: %s", attached->text,
			  what);
}

static void end_text(char *text, size_t size)
{
	text[size - 1] = '\0';
}

/* ---- the head ---- */

static enum kiln_status check_head(const struct kilni_attached *attached,
				   const struct kilni_segment_head *head)
{
	if (head->magic != KILNI_SEGMENT_MAGIC)
		return refuse(attached, head->magic ? "is none of kiln"
						    : "is not complete yet");
	if (head->version != KILNI_SEGMENT_VERSION)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "segment %s: has version %u, this library "
				  "reads version %u",
				  attached->text, head->version,
				  KILNI_SEGMENT_VERSION);
	if (head->bytes != sizeof(struct kilni_segment) ||
	    head->snapshot_bytes != sizeof(struct kilni_segment_snapshot) ||
	    head->cells != KILNI_SEGMENT_CELLS)
		return refuse(attached, "is damaged: sizes");
	if (attached->bytes < head->bytes)
		return refuse(attached, "is too short");
	return KILN_OK;
}

/*
 * Whoever made the file wrote his number into both, as he sees himself: a file
 * that is at odds with its name was renamed, copied or made up, and nothing in
 * it is to be shown as that process's. The owner, unlike the number in the
 * name, is told by the system.
 */
static enum kiln_status check_name(const struct kilni_attached *attached,
				   const struct kilni_segment_head *head)
{
	if (head->pid == attached->name.pid)
		return KILN_OK;
	return kilni_fail(KILN_ERR_IO, 0,
			  "segment %s: is of process %llu, as it says itself, "
			  "and named as another's",
			  attached->text, (unsigned long long)head->pid);
}

static enum kiln_status read_head(struct kilni_attached *attached)
{
	struct kilni_segment_head head;

	if (!read_at(attached->fd, &head, sizeof(head), 0))
		return refuse(attached, "is too short");
	KILNI_TRY(check_head(attached, &head));
	KILNI_TRY(check_name(attached, &head));
	attached->pid = head.pid;
	attached->started_ns = head.started_ns;
	memcpy(attached->program, head.program, sizeof(attached->program));
	end_text(attached->program, sizeof(attached->program));
	return KILN_OK;
}

/* ---- checks of a snapshot ---- */

static bool within(uint64_t first, uint64_t count, uint64_t all)
{
	return first <= all && count <= all - first;
}

static bool is_size(uint64_t bytes)
{
	return bytes <= INT64_MAX;
}

/* Whether the parts are sizes and fit in the whole. */
static bool adds_up(uint64_t a, uint64_t b, uint64_t c, uint64_t whole)
{
	return is_size(whole) && a <= whole && b <= whole - a &&
	       c <= whole - a - b;
}

static bool pool_is_sound(const struct kilni_segment_pool *pool)
{
	return pool->kind <= KILN_POOL_PERSISTENT &&
	       is_size(pool->page_bytes) && is_size(pool->pages) &&
	       is_size(pool->peak_pages) && is_size(pool->allocations) &&
	       is_size(pool->largest_request_bytes) &&
	       adds_up(pool->live_bytes, pool->padding_bytes, 0,
		       pool->reserved_bytes);
}

static bool page_is_sound(const struct kilni_segment_page *page,
			  uint64_t pools)
{
	return page->pool < pools && page->cells <= KILNI_SEGMENT_CELLS &&
	       adds_up(page->live_bytes, page->padding_bytes,
		       page->unmapped_bytes, page->bytes) &&
	       is_size(page->hole_bytes);
}

static bool device_is_sound(const struct kilni_segment_snapshot *snapshot,
			    const struct kilni_segment_device *device)
{
	const struct kilni_segment_page *page;

	if (!within(device->first_pool, device->pools, snapshot->pools) ||
	    !within(device->first_page, device->pages, snapshot->pages) ||
	    !is_size(device->cap_bytes) || !is_size(device->allocations) ||
	    !is_size(device->peak_live_bytes) ||
	    !is_size(device->peak_reserved_bytes) ||
	    !is_size(device->driver_calls) ||
	    !is_size(device->pages_left_out) ||
	    !adds_up(device->live_bytes, device->padding_bytes, 0,
		     device->reserved_bytes))
		return false;
	page = &snapshot->page[device->first_page];
	for (uint32_t i = 0; i < device->pages; i++)
		if (!page_is_sound(&page[i], device->pools))
			return false;
	return true;
}

static bool counts_are_sound(const struct kilni_segment_snapshot *snapshot)
{
	return snapshot->devices <= KILNI_SEGMENT_DEVICES &&
	       snapshot->pools <= KILNI_SEGMENT_POOLS &&
	       snapshot->pages <= KILNI_SEGMENT_PAGES &&
	       snapshot->bytes ==
		       offsetof(struct kilni_segment_snapshot, page) +
			       snapshot->pages * sizeof(snapshot->page[0]);
}

static bool is_sound(struct kilni_segment_snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->pools; i++)
		if (!pool_is_sound(&snapshot->pool[i]))
			return false;
	for (uint32_t i = 0; i < snapshot->devices; i++) {
		if (!device_is_sound(snapshot, &snapshot->device[i]))
			return false;
		end_text(snapshot->device[i].selector,
			 sizeof(snapshot->device[i].selector));
	}
	return true;
}

/* ---- snapshots ---- */

static uint64_t snapshot_at(unsigned slot)
{
	return offsetof(struct kilni_segment, snapshot) +
	       slot * (uint64_t)sizeof(struct kilni_segment_snapshot);
}

/* Numbers of both snapshots; 0: not whole. */
static bool read_seqs(const struct kilni_attached *attached, uint64_t seqs[2])
{
	for (unsigned i = 0; i < 2; i++)
		if (!read_at(attached->fd, &seqs[i], sizeof(seqs[i]),
			     snapshot_at(i)))
			return false;
	return true;
}

/* Whether what was read is one snapshot: nobody wrote, and it is complete. */
static bool take(struct kilni_attached *attached, unsigned slot, uint64_t seq)
{
	struct kilni_segment_snapshot *next = attached->next;
	uint64_t after;

	if (!read_at(attached->fd, next, sizeof(*next), snapshot_at(slot)))
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!read_at(attached->fd, &after, sizeof(after), snapshot_at(slot)))
		return false;
	return next->seq == seq && after == seq && counts_are_sound(next) &&
	       kilni_segment_sum(next) == next->checksum;
}

static int by_pool_and_address(const void *left, const void *right)
{
	const struct kilni_segment_page *a = left, *b = right;

	if (a->pool != b->pool)
		return a->pool < b->pool ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

static void sort_pages(struct kilni_segment_snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->devices; i++)
		qsort(&snapshot->page[snapshot->device[i].first_page],
		      snapshot->device[i].pages, sizeof(snapshot->page[0]),
		      by_pool_and_address);
}

static enum kiln_status accept(struct kilni_attached *attached)
{
	struct kilni_segment_snapshot *taken = attached->next;

	if (!is_sound(taken))
		return refuse(attached, "is damaged: a snapshot's contents");
	sort_pages(taken);
	attached->next = attached->snapshot;
	attached->snapshot = taken;
	return KILN_OK;
}

/* The newest snapshot, or, where that one is damaged, the other. */
enum kiln_status kilni_attached_refresh(struct kilni_attached *attached)
{
	uint64_t seqs[2];

	for (int i = 0; i < TRIES; i++) {
		unsigned slot;

		if (!read_seqs(attached, seqs))
			return refuse(attached, "is too short");
		slot = (seqs[1] > seqs[0]) ^ (i == TRIES - 1);
		if (seqs[slot] && take(attached, slot, seqs[slot]))
			return accept(attached);
		sched_yield();
	}
	return kilni_fail(KILN_ERR_BUSY, 0, "segment %s: no whole snapshot",
			  attached->text);
}

/* ---- attaching ---- */

static enum kiln_status open_segment(struct kilni_attached *attached,
				     int folder)
{
	struct stat stat;
	int error;

	attached->fd = kilni_segment_open(folder, attached->text, &stat);
	if (attached->fd < 0) {
		error = errno;
		return kilni_fail(KILN_ERR_IO, error, "segment %s: %s",
				  attached->text,
				  error == EINVAL ? "is no plain file"
						  : strerror(error));
	}
	attached->uid = stat.st_uid;
	attached->bytes = (uint64_t)stat.st_size;
	return KILN_OK;
}

static enum kiln_status make_room(struct kilni_attached *attached)
{
	attached->snapshot = calloc(1, sizeof(*attached->snapshot));
	attached->next = calloc(1, sizeof(*attached->next));
	if (attached->snapshot && attached->next)
		return KILN_OK;
	return kilni_fail(KILN_ERR_NO_MEMORY, 0, "segment %s: no memory",
			  attached->text);
}

static enum kiln_status first_read(struct kilni_attached *attached,
				   int folder)
{
	KILNI_TRY(open_segment(attached, folder));
	KILNI_TRY(read_head(attached));
	KILNI_TRY(make_room(attached));
	return kilni_attached_refresh(attached);
}

enum kiln_status kilni_attach(struct kilni_attached *attached, int folder,
			      const char *text)
{
	enum kiln_status status;

	memset(attached, 0, sizeof(*attached));
	attached->fd = -1;
	if (!kilni_segment_parse(text, &attached->name))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "\"%.100s\" is no name of a segment", text);
	strcpy(attached->text, text);
	status = first_read(attached, folder);
	if (status != KILN_OK)
		kilni_detach(attached);
	return status;
}

void kilni_detach(struct kilni_attached *attached)
{
	if (attached->fd >= 0)
		close(attached->fd);
	free(attached->snapshot);
	free(attached->next);
	attached->fd = -1;
	attached->snapshot = attached->next = NULL;
}
