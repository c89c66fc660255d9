/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/tool.h"

/*
 * The trace format of Chrome, which Perfetto reads too: an array of events,
 * written one by one, so that memory does not grow with the text. Streams are
 * shown as threads, with numbers that no thread has.
 */

#define STREAM_THREADS 1000000000
/* Digits that keep ns in a day's worth of us. */
#define DIGITS 15
#define PROGRESS_EVERY 65536

struct writer {
	const struct timeline *timeline;
	FILE *file;
	size_t written;
	bool failed;             /* the reason is in errno */
	bool shows;              /* progress, to a terminal */
};

/* Gives the object up. */
static void put(struct writer *writer, json_t *object)
{
	if (!writer->failed && writer->written++)
		fputs(",\n", writer->file);
	if (!writer->failed &&
	    (!object || json_dumpf(object, writer->file,
				   JSON_COMPACT |
					   JSON_REAL_PRECISION(DIGITS)) ||
	     ferror(writer->file)))
		writer->failed = true;
	json_decref(object);
}

static int64_t process_of(const struct writer *writer,
			  const struct timeline_event *event)
{
	return writer->timeline->process[event->process].shown;
}

static double micros(uint64_t ns)
{
	return (double)ns / 1000;
}

/* ns since the trace began; less than 0 cannot be, but for a broken file. */
static double moment(const struct writer *writer, uint64_t ns)
{
	uint64_t start = writer->timeline->start_ns;

	return micros(ns > start ? ns - start : 0);
}

static int64_t stream_thread(const struct kiln_trace_event *event)
{
	return STREAM_THREADS + (int64_t)event->stream;
}

/* ---- events ---- */

static json_t *begin_event(const struct writer *writer, const char *phase,
			   const char *category, const char *name,
			   const struct timeline_event *event, int64_t thread)
{
	json_t *object = json_object();

	tool_add(object, "ph", json_string(phase));
	tool_add(object, "cat", json_string(category));
	tool_add(object, "name", tool_text(name));
	tool_add(object, "pid", json_integer(process_of(writer, event)));
	tool_add(object, "tid", json_integer(thread));
	tool_add(object, "ts", json_real(moment(writer,
						event->event.begin_ns)));
	return object;
}

static json_t *span(const struct writer *writer, const char *category,
		    const struct timeline_event *event, int64_t thread)
{
	json_t *object = begin_event(writer, "X", category, event->event.name,
				     event, thread);

	tool_add(object, "dur", json_real(micros(event->event.end_ns -
						 event->event.begin_ns)));
	return object;
}

static void add_status(json_t *args, const struct kiln_trace_event *event)
{
	if (event->status)
		tool_add(args, "status",
			 json_string(kiln_status_name(
				 (enum kiln_status)event->status)));
}

static void add_work(json_t *args, const struct kiln_trace_event *event)
{
	tool_add(args, "stream", json_integer(stream_thread(event)));
	tool_add_count(args, "serial", event->serial);
}

static void put_submit(struct writer *writer, const struct timeline_event *event)
{
	json_t *object = span(writer, "submit", event, event->event.thread);
	json_t *args = json_object();

	add_work(args, &event->event);
	add_status(args, &event->event);
	tool_add(object, "args", args);
	put(writer, object);
}

static const char *clock_name(const struct kiln_trace_event *event)
{
	return event->device_clock ? "device" : "host";
}

static void put_launch(struct writer *writer, const struct timeline_event *event)
{
	json_t *object = span(writer, "launch", event,
			      stream_thread(&event->event));
	json_t *args = json_object();

	add_work(args, &event->event);
	tool_add(args, "clock", json_string(clock_name(&event->event)));
	if (event->event.is_inline)
		tool_add(args, "inline", json_true());
	if (event->event.merged)
		tool_add(args, "merged", json_true());
	tool_add(object, "args", args);
	put(writer, object);
}

static const char *device_of(const struct writer *writer,
			     const struct timeline_event *event)
{
	const struct timeline_process *process =
		&writer->timeline->process[event->process];

	for (size_t i = 0; i < process->devices; i++)
		if (process->device[i].number == event->event.stream)
			return process->device[i].name;
	return "device";
}

static void put_driver(struct writer *writer, const struct timeline_event *event)
{
	json_t *object = span(writer, "driver", event, event->event.thread);
	json_t *args = json_object();

	tool_add(args, "device", tool_text(device_of(writer, event)));
	tool_add_count(args, "bytes", event->event.bytes);
	add_status(args, &event->event);
	tool_add(object, "args", args);
	put(writer, object);
}

static void put_memory(struct writer *writer, const struct timeline_event *event)
{
	json_t *object, *args = json_object();
	char name[64];

	snprintf(name, sizeof(name), "%s memory", device_of(writer, event));
	object = begin_event(writer, "C", "memory", name, event, 0);
	tool_add_count(args, "reserved_bytes", event->event.reserved_bytes);
	tool_add_count(args, "live_bytes", event->event.live_bytes);
	tool_add(object, "args", args);
	put(writer, object);
}

/* Windows of a stream may overlap without nesting: so they are no spans. */
static void put_window(struct writer *writer, const struct timeline_event *event,
		       size_t index)
{
	static const char *const phase[] = { "b", "e" };
	const char *name = *event->event.name ? event->event.name : "window";
	struct timeline_event end = *event;
	char id[32];

	snprintf(id, sizeof(id), "w%zu", index);
	end.event.begin_ns = end.event.end_ns;
	for (int i = 0; i < 2; i++) {
		json_t *object, *args = json_object();

		object = begin_event(writer, phase[i], "window", name,
				     i ? &end : event,
				     stream_thread(&event->event));
		tool_add(object, "id", json_string(id));
		tool_add(args, "clock", json_string(clock_name(&event->event)));
		tool_add_count(args, "ns", event->event.end_ns -
						   event->event.begin_ns);
		tool_add(object, "args", args);
		put(writer, object);
	}
}

/* ---- names ---- */

static void put_meta(struct writer *writer, const char *what, int64_t process,
		     int64_t thread, const char *key, const char *text)
{
	json_t *object = json_object(), *args = json_object();

	tool_add(object, "ph", json_string("M"));
	tool_add(object, "name", json_string(what));
	tool_add(object, "pid", json_integer(process));
	tool_add(object, "tid", json_integer(thread));
	tool_add(args, key, tool_text(text));
	tool_add(object, "args", args);
	put(writer, object);
}

static void put_process(struct writer *writer,
			const struct timeline_process *process)
{
	char text[48];

	put_meta(writer, "process_name", process->shown, 0, "name",
		 process->info.program);
	if (process->shown == process->info.process)
		return;
	snprintf(text, sizeof(text), "process %" PRId64,
		 process->info.process);
	put_meta(writer, "process_labels", process->shown, 0, "labels", text);
}

static void put_event(struct writer *writer, const struct timeline_event *event,
		      size_t index)
{
	switch (event->event.kind) {
	case KILN_TRACE_SUBMIT:
		put_submit(writer, event);
		break;
	case KILN_TRACE_LAUNCH:
		put_launch(writer, event);
		break;
	case KILN_TRACE_DRIVER:
		put_driver(writer, event);
		break;
	case KILN_TRACE_MEMORY:
		put_memory(writer, event);
		break;
	case KILN_TRACE_WINDOW:
		put_window(writer, event, index);
		break;
	case KILN_TRACE_STREAM:
		put_meta(writer, "thread_name", process_of(writer, event),
			 stream_thread(&event->event), "name",
			 event->event.name);
		break;
	}
}

/* ---- the file ---- */

static void show(const struct writer *writer, size_t done)
{
	if (writer->shows)
		fprintf(stderr, "\rkiln: trace: %zu of %zu events%s", done,
			writer->timeline->events,
			done == writer->timeline->events ? "\r\033[K" : "");
}

static void put_all(struct writer *writer)
{
	const struct timeline *timeline = writer->timeline;

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", writer->file);
	for (size_t i = 0; i < timeline->processes; i++)
		put_process(writer, &timeline->process[i]);
	for (size_t i = 0; i < timeline->events && !writer->failed; i++) {
		if (i % PROGRESS_EVERY == 0)
			show(writer, i);
		put_event(writer, &timeline->event[i], i);
	}
	show(writer, timeline->events);
	fputs("\n]}\n", writer->file);
}

int timeline_write(const struct timeline *timeline, FILE *file,
		   const char *path)
{
	struct writer writer = { .timeline = timeline,
				 .file = file,
				 .shows = isatty(STDERR_FILENO) == 1 };
	bool failed;

	errno = 0;
	put_all(&writer);
	failed = writer.failed || fflush(writer.file) || ferror(writer.file);
	if (!failed)
		failed = fsync(fileno(writer.file)) != 0;
	if (failed)
		tool_complain("trace: %s: %s", path,
			      strerror(errno ? errno : EIO));
	if (fclose(writer.file) && !failed) {
		tool_complain("trace: %s: %s", path, strerror(errno));
		failed = true;
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
