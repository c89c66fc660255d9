/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include "lib/spare.h"

/* ---- report ---- */

static enum kiln_status check_infos(const char *fn,
				    const struct kiln_pool_info *infos,
				    size_t count)
{
	for (size_t i = 0; infos && i < count; i++)
		if (infos[i].struct_size != sizeof(*infos))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: struct_size %zu is unknown", fn,
					  infos[i].struct_size);
	return KILN_OK;
}

/* kilni_pools_report or kilni_pools_special. */
typedef size_t report_function(struct kilni_pools *pools,
			       struct kiln_pool_info *infos, size_t capacity);

static enum kiln_status report(const char *fn, report_function *of,
			       struct kiln_device *device,
			       struct kiln_pool_info *infos, size_t *count,
			       bool *available)
{
	KILNI_CHECK_DEVICE(device, fn);
	if (!count || !available)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: count or available is NULL", fn);
	KILNI_TRY(check_infos(fn, infos, *count));
	*available = kilni_has_report(device);
	*count = *available ? of(kilni_device_pools(device), infos,
				 infos ? *count : 0)
			    : 0;
	return KILN_OK;
}

enum kiln_status kiln_memory_pools(struct kiln_device *device,
				   struct kiln_pool_info *infos, size_t *count,
				   bool *available)
{
	return report(__func__, kilni_pools_report, device, infos, count,
		      available);
}

enum kiln_status kiln_memory_special_pools(struct kiln_device *device,
					   struct kiln_pool_info *infos,
					   size_t *count, bool *available)
{
	return report(__func__, kilni_pools_special, device, infos, count,
		      available);
}

/* ---- raw memory ---- */

struct kiln_buffer {
	struct kilni_object object;
	struct kiln_device *device;  /* a reference */
	struct kilni_stream *home;   /* the stream of its creation */
	struct kilni_track track;    /* uses on others */
	struct kilni_slice slice;
};

static enum kiln_status check_buffer(const struct kiln_buffer *buffer,
				     const char *fn)
{
	return kilni_object_check(buffer, &kilni_buffer_kind, fn, "buffer");
}

static enum kiln_status check_place(struct kiln_buffer *const *out,
				    const char *fn)
{
	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL", fn);
	return *out ? kilni_object_check(*out, &kilni_buffer_kind, fn, "*out")
		    : KILN_OK;
}

/*
 * Nobody says when the host will write what it sees, so this waits for what the
 * stream has queued. Where a graph is captured there, or that work cannot be
 * waited for, the memory stays as it is.
 */
static void fill_new(struct kiln_buffer *buffer)
{
	struct kilni_error_record before;
	struct kilni_track earlier;
	bool done;

	if (kilni_recorders_open() && kilni_recorder_state(buffer->home) ==
					      KILNI_RECORDER_CAPTURING)
		return;
	kilni_error_save(&before);
	kilni_track_init(&earlier);
	kilni_track_born(&earlier, buffer->home);
	done = kilni_track_wait_uses(&earlier) == KILN_OK;
	kilni_track_fini(&earlier);
	if (done)
		kilni_pools_fill_new(kilni_device_pools(buffer->device),
				     &buffer->slice);
	else
		kilni_error_restore(&before);
}

static enum kiln_status create(struct kiln_buffer **out,
			       struct kiln_device *device,
			       struct kilni_stream *stream, uint64_t bytes,
			       bool persistent)
{
	struct kiln_buffer *buffer = kilni_spare_get(KILNI_SPARE_BUFFER,
						     sizeof(*buffer));
	enum kiln_status status;

	if (!buffer)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_buffer_create: no memory for a handle");
	status = kilni_pools_alloc(kilni_device_pools(device), stream, bytes,
				   persistent, &buffer->slice);
	if (status != KILN_OK) {
		kilni_spare_put(KILNI_SPARE_BUFFER, buffer);
		return status;
	}
	kilni_plan_memory(device, bytes);
	kilni_object_init(&buffer->object, &kilni_buffer_kind);
	buffer->device = kiln_device_retain(device);
	buffer->home = stream;
	kilni_track_init(&buffer->track);
	if (KILNI_UNLIKELY(device->fills))
		fill_new(buffer);
	*out = buffer;
	return KILN_OK;
}

enum kiln_status kiln_buffer_create(struct kiln_buffer **out,
				    struct kiln_device *device,
				    struct kiln_stream *stream, uint64_t bytes)
{
	struct kiln_buffer *buffer, *old;
	struct kilni_stream *slot;
	struct kilni_thread *thread;

	KILNI_TRY(check_place(out, __func__));
	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_stream_choose(__func__, device, stream, &slot));
	KILNI_TRY(kilni_thread_get(device, &thread));
	KILNI_TRY(create(&buffer, device, slot, bytes,
			 thread->persistent > 0));
	old = *out;
	*out = buffer;
	kiln_buffer_release(old);
	return KILN_OK;
}

struct kiln_buffer *kiln_buffer_retain(struct kiln_buffer *buffer)
{
	kilni_object_retain(&buffer->object);
	return buffer;
}

void kiln_buffer_release(struct kiln_buffer *buffer)
{
	struct kiln_device *device;

	if (!buffer || !kilni_object_drop(&buffer->object))
		return;
	/* So that a later use of this handle can be told. */
	__atomic_store_n(&buffer->object.ops, NULL, __ATOMIC_RELAXED);
	device = buffer->device;
	kilni_track_touch(&buffer->track, buffer->home);
	kilni_pools_free(kilni_device_pools(device), &buffer->slice,
			 buffer->track.uses, buffer->track.count);
	kilni_track_fini(&buffer->track);
	kilni_spare_put(KILNI_SPARE_BUFFER, buffer);
	kiln_device_release(device);
}

enum kiln_status kiln_buffer_use(struct kiln_buffer *buffer,
				 struct kiln_stream *stream)
{
	struct kilni_stream *slot;

	KILNI_TRY(check_buffer(buffer, __func__));
	KILNI_TRY(kilni_stream_choose(__func__, buffer->device, stream, &slot));
	kilni_track_touch(&buffer->track, slot);
	return KILN_OK;
}

uint64_t kiln_buffer_address(const struct kiln_buffer *buffer)
{
	return buffer->slice.address;
}

void *kiln_buffer_host(const struct kiln_buffer *buffer)
{
	if (!buffer->device->limits.host_visible || !buffer->slice.bytes)
		return NULL;
	return (void *)(uintptr_t)buffer->slice.address;
}

uint64_t kiln_buffer_size_bytes(const struct kiln_buffer *buffer)
{
	return buffer->slice.bytes;
}

struct kiln_device *kiln_buffer_device(const struct kiln_buffer *buffer)
{
	return buffer->device;
}
