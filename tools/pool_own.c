/* SPDX-License-Identifier: Apache-2.0 */
/* What this process publishes of its own pools. */
#include "tools/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Snapshots come seldom: so often, a millisecond apart, is looked for one. */
#define LOOKS 3000

static bool find_segment(char *segment, size_t size)
{
	struct kiln_view_process *infos;
	bool found = false;
	size_t count;

	if (pool_enumerate(&infos, &count))
		return false;
	for (size_t i = 0; i < count && !found; i++) {
		found = infos[i].pid == (uint64_t)getpid() && infos[i].live &&
			infos[i].uid == geteuid() && !infos[i].status;
		if (found)
			snprintf(segment, size, "%s", infos[i].segment);
	}
	free(infos);
	return found;
}

static bool is_fresh(const struct kiln_view *view,
		     const struct kiln_memory_usage *state)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };

	return !kiln_view_process(view, &info) &&
	       info.live_bytes == state->live_bytes &&
	       info.reserved_bytes == state->reserved_bytes;
}

/* Waiting for the device makes it publish. */
static bool wait_for(struct kiln_view *view, struct kiln_device *device,
		     const struct kiln_memory_usage *state)
{
	struct timespec little = { 0, 1000000 };

	for (int i = 0; i < LOOKS; i++) {
		if (kiln_device_sync(device) || kiln_view_refresh(view))
			return false;
		if (is_fresh(view, state))
			return true;
		nanosleep(&little, NULL);
	}
	return false;
}

int pool_read_own(struct kiln_device *device,
		  const struct kiln_memory_usage *state,
		  struct pool_process *process)
{
	struct kiln_view *view = NULL;
	char segment[64];
	int code = -1;

	if (!find_segment(segment, sizeof(segment)) ||
	    kiln_view_open(&view, segment))
		return -1;
	if (wait_for(view, device, state))
		code = pool_read(view, process) ? -1 : 0;
	kiln_view_release(view);
	return code;
}
