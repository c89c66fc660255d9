/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_POOL_H
#define TOOLS_POOL_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include <kiln/kiln.h>

/*
 * What kiln pool shows, in memory: one process, or the list of all. Text,
 * JSON, OpenMetrics, map and picture are made from it, each by its own file.
 */

struct pool_device {
	struct kiln_view_device info;
	struct kiln_view_pool *pools; /* info.pools of them */
	struct kiln_view_page *pages; /* info.pages of them */
};

struct pool_process {
	struct kiln_view_process info;
	struct pool_device *devices;  /* info.devices of them; NULL: listed only */
};

/* Largest holes that are shown of a device. */
#define POOL_HOLES 5

struct pool_hole {
	uint64_t address, bytes;
	uint64_t pool;
};

/* Fills holes, largest first; returns how many there are. */
size_t pool_holes(const struct pool_device *device,
		  struct pool_hole holes[POOL_HOLES]);

/* "to 64 KiB", "mapped", ...: what tells the pools of a device apart. */
void pool_label(char *to, size_t size, const struct kiln_view_pool *pool);
const char *pool_kind_name(enum kiln_pool_kind kind);

/* "1.5 GiB"; to holds at least 16 bytes. Returns to. */
const char *pool_size(char *to, uint64_t bytes);

/* All that the view shows; an exit status, and complains. */
int pool_read(const struct kiln_view *view, struct pool_process *process);
void pool_free(struct pool_process *process);
/* Who publishes, for the caller to free; likewise. */
int pool_enumerate(struct kiln_view_process **infos, size_t *count);

/* ---- pool_own.c ---- */

/*
 * This process's pools as published, as soon as they show that state of the
 * device: 0; or -1 where they are not published. Only what is published and
 * cannot be read is complained of.
 */
int pool_read_own(struct kiln_device *device,
		  const struct kiln_memory_usage *state,
		  struct pool_process *process);

/* ---- pool_text.c ---- */

void pool_print_list(const struct pool_process *list, size_t count);
void pool_print_process(const struct pool_process *process);

/* ---- pool_map.c ---- */

/* How the map is drawn: as wide as the terminal, in its characters. */
struct pool_style {
	unsigned columns;
	bool utf8, colour;
};

/* As the terminal and its locale are. */
struct pool_style pool_find_style(void);

void pool_print_map(const struct pool_process *process,
		    const struct pool_style *style);

/* ---- pool_json.c ---- */

json_t *pool_json_list(const struct pool_process *list, size_t count);
json_t *pool_json_process(const struct pool_process *process);

/* ---- pool_metrics.c ---- */

/* OpenMetrics text of all of them; false: no memory. */
bool pool_print_metrics(const struct pool_process *list, size_t count);

/* ---- pool_svg.c ---- */

/* Writes the picture; an exit status, and complains. */
int pool_draw(const struct pool_process *process, const char *path);

#endif
