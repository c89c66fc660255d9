/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TIMELINE_H
#define TOOLS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kiln/kiln.h>

/* What kiln trace gathers of the processes that it traced. */

#define TIMELINE_DEVICES 16

/* A process, and how many events of each kind it has. */
struct timeline_process {
	struct kiln_trace_info info;
	int64_t shown;           /* its number, or one that nothing else has */
	uint64_t count[KILN_TRACE_STREAM + 1];
	/* The names of its devices; those of streams are among the events. */
	struct {
		uint32_t number;
		char name[32];
	} device[TIMELINE_DEVICES];
	size_t devices;
};

struct timeline_event {
	struct kiln_trace_event event;
	uint32_t process;        /* index */
};

struct timeline {
	struct timeline_process *process;
	size_t processes;
	struct timeline_event *event; /* in order of their beginnings */
	size_t events, room;
	uint64_t start_ns;       /* when the first of them opened a device */
	size_t unreadable;       /* files that are no traces */
};

/* Events of one kind, of all processes. */
uint64_t timeline_count(const struct timeline *timeline,
			enum kiln_trace_kind kind);

/* Reads the folder's files; an exit status. What is wrong has been told. */
int timeline_read(struct timeline *timeline, const char *folder);
void timeline_free(struct timeline *timeline);

/*
 * Writes it as JSON for Perfetto and Chrome, and closes the file, whose name is
 * for messages; an exit status, likewise.
 */
int timeline_write(const struct timeline *timeline, FILE *file,
		   const char *path);

#endif
