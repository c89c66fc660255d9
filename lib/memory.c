/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdio.h>

/* A device that is lost or whose calling stream has failed has no report. */
bool kilni_has_report(struct kiln_device *device)
{
	struct kilni_stream *stream = kilni_thread_peek(device);

	return !kilni_sched_lost(device->sched) &&
	       !(stream && kilni_stream_is_poisoned(stream));
}

enum kiln_status kiln_memory_usage(struct kiln_device *device,
				   struct kiln_memory_usage *usage,
				   bool *available)
{
	KILNI_CHECK_DEVICE(device, __func__);
	if (!usage || usage->struct_size != sizeof(*usage) || !available)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_memory_usage: usage or available is "
				  "NULL, or struct_size is unknown");
	*available = kilni_has_report(device);
	if (*available)
		kilni_pools_usage(kilni_device_pools(device), usage);
	return KILN_OK;
}

enum kiln_status kiln_memory_calls(struct kiln_device *device,
				   struct kiln_memory_calls *calls,
				   bool *available)
{
	KILNI_CHECK_DEVICE(device, __func__);
	if (!calls || calls->struct_size != sizeof(*calls) || !available)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_memory_calls: calls or available is "
				  "NULL, or struct_size is unknown");
	*available = kilni_has_report(device);
	if (*available)
		kilni_pools_calls(kilni_device_pools(device), calls);
	return KILN_OK;
}

/* ---- layout ---- */

_Static_assert(KILN_LAYOUT_POOLS_MAX == KILNI_RUNGS_MAX, "pools of a layout");

static void take_rungs(struct kilni_pools_config *config,
		       const struct kiln_memory_layout *layout)
{
	config->rungs = layout->pool_count;
	for (unsigned i = 0; i < layout->pool_count; i++) {
		config->rung[i].page_bytes = layout->pool[i].page_bytes;
		config->rung[i].slice_bytes = layout->pool[i].max_slice_bytes;
		config->rung[i].cap_bytes = layout->pool[i].cap_bytes;
	}
}

static void take_pages(struct kilni_pools_config *config, enum kiln_pages pages)
{
	if (pages == KILN_PAGES_DEFAULT)
		return;
	config->plain = pages == KILN_PAGES_PLAIN;
	/* A ladder that the environment names is of plain pages. */
	if (pages == KILN_PAGES_MAPPED)
		config->rungs = 0;
}

static enum kiln_status check_layout(const struct kiln_memory_layout *layout,
				     const char *fn)
{
	if (!layout || layout->struct_size != sizeof(*layout))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: layout is NULL or of unknown size", fn);
	if (layout->pool_count > KILN_LAYOUT_POOLS_MAX)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %u pools, at most %d", fn,
				  layout->pool_count, KILN_LAYOUT_POOLS_MAX);
	if ((unsigned)layout->pages > KILN_PAGES_PLAIN)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: pages of unknown kind %d", fn,
				  (int)layout->pages);
	return KILN_OK;
}

enum kiln_status
kiln_memory_set_layout(struct kiln_device *device,
		       const struct kiln_memory_layout *layout)
{
	struct kilni_pools_config config = { .cap_bytes = 0 };
	const struct kilni_option_set *before;
	enum kiln_status status;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(check_layout(layout, __func__));
	before = kilni_option_set_use(device->options);
	status = kilni_pools_configure(&config, device->limits.total_bytes);
	(void)kilni_option_set_use(before);
	KILNI_TRY(status);
	if (layout->page_bytes)
		config.page_bytes = layout->page_bytes;
	if (layout->cap_bytes)
		config.cap_bytes = layout->cap_bytes;
	take_pages(&config, layout->pages);
	if (layout->pool_count)
		take_rungs(&config, layout);
	return kilni_pools_set_layout(kilni_device_pools(device), &config);
}

enum kiln_status kiln_memory_mapping(struct kiln_device *device, char *text,
				     size_t bytes)
{
	KILNI_CHECK_DEVICE(device, __func__);
	if (!text || !bytes)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: text is NULL or bytes is 0", __func__);
	snprintf(text, bytes, "%s",
		 kilni_pools_mapping(kilni_device_pools(device)));
	return KILN_OK;
}

/* ---- giving back ---- */

enum kiln_status kiln_memory_cleanup(struct kiln_device *device)
{
	KILNI_CHECK_DEVICE(device, __func__);
	return kilni_pools_trim(kilni_device_pools(device), 0);
}

enum kiln_status kiln_memory_trim(struct kiln_device *device,
				  uint64_t target_bytes)
{
	KILNI_CHECK_DEVICE(device, __func__);
	return kilni_pools_trim(kilni_device_pools(device), target_bytes);
}

/* ---- persistent scopes ---- */

enum kiln_status kiln_persistent_begin(struct kiln_device *device)
{
	struct kilni_thread *thread;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_get(device, &thread));
	thread->persistent++;
	return KILN_OK;
}

enum kiln_status kiln_persistent_end(struct kiln_device *device)
{
	struct kilni_thread *thread;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_get(device, &thread));
	if (thread->persistent == thread->persistent_floor)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_persistent_end: no scope is open%s",
				  thread->persistent
					  ? " but that of kiln_persistent_run"
					  : "");
	thread->persistent--;
	return KILN_OK;
}

/* The scopes of the calling thread are from here on those given. */
static void set_scopes(struct kiln_device *device, unsigned depth,
		       unsigned floor)
{
	struct kilni_thread *thread;

	/* It has an entry and a stream: this cannot fail. */
	if (kilni_thread_get(device, &thread) != KILN_OK)
		return;
	thread->persistent = depth;
	thread->persistent_floor = floor;
}

enum kiln_status kiln_persistent_run(struct kiln_device *device,
				     kiln_persistent_function function,
				     void *user)
{
	struct kilni_thread *thread;
	enum kiln_status status;
	unsigned depth, floor;

	KILNI_CHECK_DEVICE(device, __func__);
	if (!function)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: function is NULL",
				  __func__);
	KILNI_TRY(kilni_thread_get(device, &thread));
	depth = thread->persistent;
	floor = thread->persistent_floor;
	kiln_device_retain(device);
	set_scopes(device, depth + 1, depth + 1);
	status = function(device, user);
	set_scopes(device, depth, floor);
	kiln_device_release(device);
	return status;
}
