/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/timeline.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

/* Linux has no process with this number, nor above it. */
#define FIRST_UNUSED (4 << 20)

static int no_memory(void)
{
	tool_complain("trace: no memory");
	return EXIT_FAILURE;
}

/* ---- one process ---- */

static void note_device(struct timeline_process *process,
			const struct kiln_trace_event *event)
{
	if (process->devices == TIMELINE_DEVICES)
		return;
	process->device[process->devices].number = event->stream;
	memcpy(process->device[process->devices++].name, event->name,
	       sizeof(event->name));
}

static int add_event(struct timeline *timeline,
		     const struct kiln_trace_event *event)
{
	struct timeline_process *process =
		&timeline->process[timeline->processes - 1];
	struct timeline_event *grown;
	size_t room = timeline->room * 2 + 1024;

	/* A file may hold anything. */
	if (event->end_ns < event->begin_ns ||
	    event->kind < KILN_TRACE_SUBMIT || event->kind > KILN_TRACE_STREAM)
		return EXIT_SUCCESS;
	if (timeline->events == timeline->room) {
		grown = reallocarray(timeline->event, room, sizeof(*grown));
		if (!grown)
			return no_memory();
		timeline->event = grown;
		timeline->room = room;
	}
	process->count[event->kind]++;
	if (event->kind == KILN_TRACE_STREAM &&
	    !strstr(event->name, " stream ")) {
		note_device(process, event);
		return EXIT_SUCCESS;
	}
	timeline->event[timeline->events++] = (struct timeline_event){
		*event, (uint32_t)(timeline->processes - 1)
	};
	return EXIT_SUCCESS;
}

static int add_events(struct timeline *timeline, struct kiln_trace *trace)
{
	struct kiln_trace_event event = { .struct_size = sizeof(event) };
	enum kiln_status status;
	bool more;

	for (;;) {
		status = kiln_trace_next(trace, &event, &more);
		if (status)
			return tool_error(status);
		if (!more)
			return EXIT_SUCCESS;
		if (add_event(timeline, &event))
			return EXIT_FAILURE;
	}
}

static int add_process(struct timeline *timeline, const struct kiln_trace *trace)
{
	struct timeline_process *grown;
	enum kiln_status status;

	grown = reallocarray(timeline->process, timeline->processes + 1,
			     sizeof(*grown));
	if (!grown)
		return no_memory();
	timeline->process = grown;
	grown += timeline->processes;
	memset(grown, 0, sizeof(*grown));
	grown->info.struct_size = sizeof(grown->info);
	status = kiln_trace_info(trace, &grown->info);
	if (status)
		return tool_error(status);
	if (!timeline->processes++ ||
	    grown->info.started_ns < timeline->start_ns)
		timeline->start_ns = grown->info.started_ns;
	return EXIT_SUCCESS;
}

/* A process that was killed early may have left a file without a head. */
static int add_file(struct timeline *timeline, const char *path)
{
	struct kiln_trace *trace = NULL;
	enum kiln_status status = kiln_trace_open(&trace, path);
	int code;

	if (status) {
		timeline->unreadable++;
		tool_complain("trace: %s", kiln_error_message());
		return status == KILN_ERR_INVALID ? EXIT_SUCCESS
						  : EXIT_FAILURE;
	}
	code = add_process(timeline, trace);
	if (!code)
		code = add_events(timeline, trace);
	kiln_trace_release(trace);
	return code;
}

/* ---- all of them ---- */

/* What contains comes before what it contains. */
static int compare(const void *left, const void *right)
{
	const struct kiln_trace_event *a =
		&((const struct timeline_event *)left)->event;
	const struct kiln_trace_event *b =
		&((const struct timeline_event *)right)->event;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	if (a->end_ns != b->end_ns)
		return a->end_ns > b->end_ns ? -1 : 1;
	return (a->kind > b->kind) - (a->kind < b->kind);
}

static bool has_number(const struct timeline *timeline, size_t before,
		       int64_t number)
{
	for (size_t i = 0; i < before; i++)
		if (timeline->process[i].info.process == number)
			return true;
	return false;
}

/*
 * After exec, or in another namespace, a process may have the number of one
 * before it, with which it shares no stream: it is given one of its own.
 */
static void number_processes(struct timeline *timeline)
{
	int64_t unused = FIRST_UNUSED;

	for (size_t i = 0; i < timeline->processes; i++) {
		struct timeline_process *process = &timeline->process[i];

		process->shown = process->info.process;
		if (!has_number(timeline, i, process->shown))
			continue;
		while (has_number(timeline, timeline->processes, unused))
			unused++;
		process->shown = unused++;
	}
}

static int add_name(struct timeline *timeline, const char *folder,
		    const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	if (length < 0 || (size_t)length >= sizeof(path)) {
		tool_complain("trace: %s/%s: the name is too long", folder,
			      name);
		return EXIT_FAILURE;
	}
	return add_file(timeline, path);
}

static int is_trace(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "process.", 8);
}

int timeline_read(struct timeline *timeline, const char *folder)
{
	int code = EXIT_SUCCESS, count;
	struct dirent **name;

	memset(timeline, 0, sizeof(*timeline));
	count = scandir(folder, &name, is_trace, versionsort);
	if (count < 0) {
		tool_complain("trace: %s: %s", folder, strerror(errno));
		return EXIT_FAILURE;
	}
	for (int i = 0; i < count; i++) {
		if (!code)
			code = add_name(timeline, folder, name[i]->d_name);
		free(name[i]);
	}
	free(name);
	number_processes(timeline);
	if (timeline->events)
		qsort(timeline->event, timeline->events,
		      sizeof(*timeline->event), compare);
	return code;
}

void timeline_free(struct timeline *timeline)
{
	free(timeline->process);
	free(timeline->event);
	memset(timeline, 0, sizeof(*timeline));
}

uint64_t timeline_count(const struct timeline *timeline,
			enum kiln_trace_kind kind)
{
	uint64_t count = 0;

	for (size_t i = 0; i < timeline->processes; i++)
		count += timeline->process[i].count[kind];
	return count;
}
