/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

/* A device that is lost or whose calling stream has failed has no report. */
static bool has_report(struct kiln_device *device)
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
	*available = has_report(device);
	if (*available)
		kilni_pools_usage(kilni_device_pools(device), usage);
	return KILN_OK;
}

static enum kiln_status check_infos(const struct kiln_pool_info *infos,
				    size_t count)
{
	for (size_t i = 0; infos && i < count; i++)
		if (infos[i].struct_size != sizeof(*infos))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "kiln_memory_pools: struct_size %zu "
					  "is unknown",
					  infos[i].struct_size);
	return KILN_OK;
}

enum kiln_status kiln_memory_pools(struct kiln_device *device,
				   struct kiln_pool_info *infos, size_t *count,
				   bool *available)
{
	KILNI_CHECK_DEVICE(device, __func__);
	if (!count || !available)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_memory_pools: count or available is "
				  "NULL");
	KILNI_TRY(check_infos(infos, *count));
	*available = has_report(device);
	if (!*available) {
		*count = 0;
		return KILN_OK;
	}
	*count = kilni_pools_report(kilni_device_pools(device), infos,
				    infos ? *count : 0);
	return KILN_OK;
}

enum kiln_status kiln_memory_cleanup(struct kiln_device *device)
{
	KILNI_CHECK_DEVICE(device, __func__);
	return kilni_pools_trim(kilni_device_pools(device), 0);
}

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
	if (!thread->persistent)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_persistent_end: no scope is open");
	thread->persistent--;
	return KILN_OK;
}
