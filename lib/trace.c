/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/trace.h>

#include "base/trace.h"

/* The reader's side. Whatever the file holds is looked at before it is used. */

struct kiln_trace {
	struct kilni_object object;
	struct kilni_trace_head *head;
	size_t bytes;                /* of the mapping */
	const struct kilni_trace_record *next, *end;
};

static const struct kilni_object_ops trace_kind = { "trace" };

static const char *const call_names[] = {
#define NAME(ID, text) text,
	KILNI_TRACE_CALLS(NAME)
#undef NAME
};

/* ---- opening ---- */

static enum kiln_status fail_of(const char *path, int code)
{
	return kilni_fail(KILN_ERR_IO, code, "kiln_trace_open: %.200s: %s",
			  path, strerror(code));
}

static enum kiln_status no_trace(const char *path)
{
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "kiln_trace_open: %.200s is no trace of this version",
			  path);
}

static bool is_head(const struct kilni_trace_head *head)
{
	return __atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) ==
		       KILNI_TRACE_MAGIC &&
	       head->version == KILNI_TRACE_VERSION &&
	       head->record_bytes == sizeof(struct kilni_trace_record) &&
	       head->ops <= KILNI_TRACE_OPS;
}

static enum kiln_status map_file(struct kiln_trace *trace, int fd,
				 const char *path)
{
	struct stat about;
	void *place;

	if (fstat(fd, &about))
		return fail_of(path, errno);
	if (!S_ISREG(about.st_mode) || about.st_size < KILNI_TRACE_BLOCK)
		return no_trace(path);
	trace->bytes = (size_t)about.st_size;
	place = mmap(NULL, trace->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (place == MAP_FAILED)
		return fail_of(path, errno);
	trace->head = place;
	if (!is_head(trace->head))
		return no_trace(path);
	trace->next = (const void *)((char *)place + KILNI_TRACE_BLOCK);
	trace->end = trace->next + (trace->bytes - KILNI_TRACE_BLOCK) /
					   sizeof(*trace->next);
	return KILN_OK;
}

static enum kiln_status open_file(struct kiln_trace *trace, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum kiln_status status;

	if (fd < 0)
		return fail_of(path, errno);
	status = map_file(trace, fd, path);
	close(fd);
	return status;
}

enum kiln_status kiln_trace_open(struct kiln_trace **out, const char *path)
{
	struct kiln_trace *trace, *old;
	enum kiln_status status;

	if (!out || !path)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s is NULL",
				  __func__, out ? "path" : "out");
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a trace");
	kilni_object_init(&trace->object, &trace_kind);
	status = open_file(trace, path);
	if (status != KILN_OK) {
		kiln_trace_release(trace);
		return status;
	}
	old = *out;
	*out = trace;
	kiln_trace_release(old);
	return KILN_OK;
}

void kiln_trace_release(struct kiln_trace *trace)
{
	if (!trace || !kilni_object_drop(&trace->object))
		return;
	if (trace->head)
		munmap(trace->head, trace->bytes);
	free(trace);
}

/* ---- reading ---- */

enum kiln_status kiln_trace_info(const struct kiln_trace *trace,
				 struct kiln_trace_info *info)
{
	KILNI_TRY(kilni_object_check(trace, &trace_kind, __func__, "trace"));
	if (!info || info->struct_size != sizeof(*info))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: info is NULL or of unknown size",
				  __func__);
	info->process = trace->head->process;
	info->started_ns = trace->head->started_ns;
	info->limit_bytes = trace->head->limit_bytes;
	info->stopped = __atomic_load_n(&trace->head->stopped,
					__ATOMIC_ACQUIRE);
	snprintf(info->program, sizeof(info->program), "%.*s",
		 (int)sizeof(trace->head->program), trace->head->program);
	return KILN_OK;
}

static void name_event(const struct kiln_trace *trace,
		       const struct kilni_trace_record *record,
		       struct kiln_trace_event *event)
{
	const char *name = "";

	switch (record->kind) {
	case KILNI_TRACE_SUBMIT:
	case KILNI_TRACE_LAUNCH:
		if (record->op < trace->head->ops)
			name = trace->head->op[record->op];
		break;
	case KILNI_TRACE_DRIVER:
		if (record->of.memory.call < KILNI_TRACE_CALL_COUNT)
			name = call_names[record->of.memory.call];
		break;
	case KILNI_TRACE_WINDOW:
	case KILNI_TRACE_STREAM:
		name = record->of.name;
		break;
	default:
		break;
	}
	snprintf(event->name, sizeof(event->name), "%.*s", KILNI_TRACE_NAME,
		 name);
}

static void fill_event(const struct kiln_trace *trace,
		       const struct kilni_trace_record *record,
		       struct kiln_trace_event *event)
{
	unsigned kind = record->kind;

	memset(event, 0, sizeof(*event));
	event->struct_size = sizeof(*event);
	event->kind = (enum kiln_trace_kind)kind;
	event->status = record->status;
	event->begin_ns = record->begin_ns;
	event->end_ns = record->end_ns;
	event->thread = record->thread;
	event->stream = record->stream;
	event->device_clock = record->flags & KILNI_TRACE_DEVICE_CLOCK;
	event->is_inline = record->flags & KILNI_TRACE_INLINE;
	event->merged = record->flags & KILNI_TRACE_MERGED;
	name_event(trace, record, event);
	if (kind == KILNI_TRACE_SUBMIT || kind == KILNI_TRACE_LAUNCH)
		event->serial = record->of.serial;
	if (kind == KILNI_TRACE_DRIVER)
		event->bytes = record->of.memory.bytes;
	if (kind == KILNI_TRACE_MEMORY) {
		event->reserved_bytes = record->of.memory.reserved_bytes;
		event->live_bytes = record->of.memory.live_bytes;
	}
}

static bool is_record(const struct kilni_trace_record *record)
{
	unsigned kind = __atomic_load_n(&record->kind, __ATOMIC_ACQUIRE);

	return kind >= KILNI_TRACE_SUBMIT && kind <= KILNI_TRACE_STREAM;
}

enum kiln_status kiln_trace_next(struct kiln_trace *trace,
				 struct kiln_trace_event *event, bool *more)
{
	KILNI_TRY(kilni_object_check(trace, &trace_kind, __func__, "trace"));
	if (!more || !event || event->struct_size != sizeof(*event))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: event or more is NULL, or the event of "
				  "unknown size",
				  __func__);
	while (trace->next < trace->end && !is_record(trace->next))
		trace->next++;
	*more = trace->next < trace->end;
	if (*more)
		fill_event(trace, trace->next++, event);
	return KILN_OK;
}
