/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/trace.h>

#include "base/trace.h"

/*
 * The reader's side. Others may write to the file or cut it at any time: so it
 * is not mapped, and what is looked at and used is one copy.
 */

/* Records that are read at a time. */
#define BATCH 64

struct kiln_trace {
	struct kilni_object object;
	int fd;
	uint64_t at;                 /* in the file, behind the batch */
	unsigned next, records;      /* of the batch */
	struct kilni_trace_head head;
	struct kilni_trace_record batch[BATCH], early[BATCH];
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
	return head->magic == KILNI_TRACE_MAGIC &&
	       head->version == KILNI_TRACE_VERSION &&
	       head->record_bytes == sizeof(struct kilni_trace_record) &&
	       head->ops <= KILNI_TRACE_OPS;
}

/* As many bytes as the file has there, up to so many; -1 with errno. */
static ssize_t read_at(const struct kiln_trace *trace, void *to, size_t bytes,
		       uint64_t at)
{
	ssize_t got;

	do
		got = pread(trace->fd, to, bytes, (off_t)at);
	while (got < 0 && errno == EINTR);
	return got;
}

/* What is written last is read first, and the rest after it. */
static enum kiln_status read_head(struct kiln_trace *trace, const char *path)
{
	struct kilni_trace_head *head = &trace->head;
	uint64_t magic = 0;
	ssize_t got = read_at(trace, &magic, sizeof(magic), 0);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (got >= 0)
		got = read_at(trace, head, sizeof(*head), 0);
	if (got < 0)
		return fail_of(path, errno);
	head->magic = magic;
	if ((size_t)got < sizeof(*head) || !is_head(head))
		return no_trace(path);
	trace->at = KILNI_TRACE_BLOCK;
	return KILN_OK;
}

static enum kiln_status open_file(struct kiln_trace *trace, const char *path)
{
	struct stat about;

	trace->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (trace->fd < 0 || fstat(trace->fd, &about))
		return fail_of(path, errno);
	if (!S_ISREG(about.st_mode) || about.st_size < KILNI_TRACE_BLOCK)
		return no_trace(path);
	return read_head(trace, path);
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
	trace->fd = -1;
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
	if (trace->fd >= 0)
		close(trace->fd);
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
	info->process = trace->head.process;
	info->started_ns = trace->head.started_ns;
	info->limit_bytes = trace->head.limit_bytes;
	info->stopped = trace->head.stopped;
	snprintf(info->program, sizeof(info->program), "%.*s",
		 (int)sizeof(trace->head.program), trace->head.program);
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
		if (record->op < trace->head.ops)
			name = trace->head.op[record->op];
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
	return record->kind >= KILNI_TRACE_SUBMIT &&
	       record->kind <= KILNI_TRACE_STREAM;
}

/* Kinds, which are written last, are those of the first of two reads. */
static enum kiln_status read_batch(struct kiln_trace *trace)
{
	ssize_t early = read_at(trace, trace->early, sizeof(trace->early),
				trace->at);
	ssize_t got;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	got = early < 0 ? early
			: read_at(trace, trace->batch, (size_t)early,
				  trace->at);
	if (got < 0)
		return kilni_fail(KILN_ERR_IO, errno, "kiln_trace_next: %s",
				  strerror(errno));
	trace->next = 0;
	trace->records = (unsigned)((size_t)got / sizeof(*trace->batch));
	for (unsigned i = 0; i < trace->records; i++)
		trace->batch[i].kind = trace->early[i].kind;
	trace->at += trace->records * sizeof(*trace->batch);
	return KILN_OK;
}

/* The next of the batches that is one; NULL: there is no further. */
static enum kiln_status find_record(struct kiln_trace *trace,
				    const struct kilni_trace_record **out)
{
	do {
		*out = NULL;
		if (trace->next == trace->records)
			KILNI_TRY(read_batch(trace));
		if (!trace->records)
			return KILN_OK;
		*out = &trace->batch[trace->next++];
	} while (!is_record(*out));
	return KILN_OK;
}

enum kiln_status kiln_trace_next(struct kiln_trace *trace,
				 struct kiln_trace_event *event, bool *more)
{
	const struct kilni_trace_record *record;

	KILNI_TRY(kilni_object_check(trace, &trace_kind, __func__, "trace"));
	if (!more || !event || event->struct_size != sizeof(*event))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: event or more is NULL, or the event of "
				  "unknown size",
				  __func__);
	KILNI_TRY(find_record(trace, &record));
	*more = record != NULL;
	if (record)
		fill_event(trace, record, event);
	return KILN_OK;
}
