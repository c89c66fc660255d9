/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

#define CHECK_STREAM(s) KILNI_TRY(kilni_stream_check(s, __func__))

/* The memory of a handle outlives its references. */
enum kiln_status kilni_stream_check(const struct kiln_stream *stream,
				    const char *fn)
{
	KILNI_TRY(kilni_object_check(stream, &kilni_stream_kind, fn,
				     "stream"));
	if (__atomic_load_n(&stream->object.refs, __ATOMIC_ACQUIRE) > 0)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: stream (%p) is released",
			  fn, (const void *)stream);
}

/*
 * The handle of a slot is made once and stays with it; without references it
 * is only a memory of the slot. Threads that share the slot may ask at once.
 */
static enum kiln_status slot_handle(struct kiln_device *device,
				    struct kilni_stream *slot,
				    struct kiln_stream **out)
{
	void **owner = kilni_stream_owner(slot);
	struct kiln_stream *handle;

	pthread_mutex_lock(&device->lock);
	handle = *owner;
	if (!handle) {
		handle = calloc(1, sizeof(*handle));
		if (handle) {
			kilni_object_init(&handle->object,
					  &kilni_stream_kind);
			handle->object.refs = 0;
			handle->device = device;
			handle->slot = slot;
			*owner = handle;
		}
	}
	pthread_mutex_unlock(&device->lock);
	if (!handle)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a stream");
	*out = handle;
	return KILN_OK;
}

/* A reference; the first one holds the slot and the device. */
static void take_reference(struct kiln_stream *handle)
{
	if (__atomic_fetch_add(&handle->object.refs, 1, __ATOMIC_ACQ_REL))
		return;
	kilni_stream_hold(handle->slot);
	kiln_device_retain(handle->device);
}

static void put_stream(struct kiln_stream **out, struct kiln_stream *stream)
{
	struct kiln_stream *old = *out;

	*out = stream;
	kiln_stream_release(old);
}

static enum kiln_status check_arguments(struct kiln_stream *const *out,
					const struct kiln_device *device,
					const char *fn)
{
	KILNI_CHECK_DEVICE(device, fn);
	if (out)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL", fn);
}

/* A handle of a slot that was just taken. */
static enum kiln_status give_handle(struct kiln_stream **out,
				    struct kiln_device *device,
				    struct kilni_stream *slot)
{
	struct kiln_stream *handle;
	enum kiln_status status;

	status = slot_handle(device, slot, &handle);
	if (status == KILN_OK) {
		take_reference(handle);
		put_stream(out, handle);
	}
	/* The handle holds the slot now, or nobody does. */
	kilni_stream_return(slot);
	return status;
}

static enum kiln_status create(struct kiln_stream **out,
			       struct kiln_device *device, int priority,
			       const char *fn)
{
	struct kilni_stream *slot;

	KILNI_TRY(check_arguments(out, device, fn));
	KILNI_TRY(kilni_stream_acquire(device->sched, priority, &slot));
	return give_handle(out, device, slot);
}

enum kiln_status kiln_stream_wrap(struct kiln_stream **out,
				  struct kiln_device *device, void *native)
{
	struct kilni_stream *slot;

	KILNI_TRY(check_arguments(out, device, __func__));
	KILNI_TRY(kilni_stream_wrap(device->sched, native, &slot));
	return give_handle(out, device, slot);
}

enum kiln_status kiln_stream_create(struct kiln_stream **out,
				    struct kiln_device *device)
{
	return create(out, device, KILN_PRIORITY_NORMAL, __func__);
}

enum kiln_status kiln_stream_create_with_priority(struct kiln_stream **out,
						  struct kiln_device *device,
						  enum kiln_priority priority)
{
	int value = (int)priority;

	if (value < KILN_PRIORITY_LOW || value > KILN_PRIORITY_HIGH)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: priority %d is outside %d..%d",
				  __func__, value, KILN_PRIORITY_LOW,
				  KILN_PRIORITY_HIGH);
	return create(out, device, value, __func__);
}

enum kiln_priority kiln_stream_priority(const struct kiln_stream *stream)
{
	return (enum kiln_priority)kilni_stream_priority(stream->slot);
}

enum kiln_status kiln_stream_current(struct kiln_stream **out,
				     struct kiln_device *device)
{
	struct kilni_stream *slot;
	struct kiln_stream *handle;

	KILNI_TRY(check_arguments(out, device, __func__));
	KILNI_TRY(kilni_thread_stream(device, &slot));
	KILNI_TRY(slot_handle(device, slot, &handle));
	take_reference(handle);
	put_stream(out, handle);
	return KILN_OK;
}

struct kiln_stream *kiln_stream_retain(struct kiln_stream *stream)
{
	kilni_object_retain(&stream->object);
	return stream;
}

void kiln_stream_release(struct kiln_stream *stream)
{
	struct kiln_device *device;

	if (!stream || !kilni_object_drop(&stream->object))
		return;
	device = stream->device;
	kilni_stream_return(stream->slot);
	kiln_device_release(device);
}

static enum kiln_status check_owner(const char *fn,
				    const struct kiln_device *device,
				    const struct kiln_stream *stream)
{
	KILNI_TRY(kilni_stream_check(stream, fn));
	if (stream->device == device)
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE, 0,
			  "%s: the stream is of %s, not of %s", fn,
			  stream->device->selector, device->selector);
}

enum kiln_status kilni_stream_choose(const char *fn, struct kiln_device *device,
				     struct kiln_stream *stream,
				     struct kilni_stream **out)
{
	if (!stream)
		return kilni_thread_stream(device, out);
	KILNI_TRY(check_owner(fn, device, stream));
	*out = stream->slot;
	return KILN_OK;
}

enum kiln_status kiln_stream_set_current(struct kiln_device *device,
					 struct kiln_stream *stream)
{
	struct kilni_thread *thread;
	struct kiln_stream *old;

	KILNI_CHECK_DEVICE(device, __func__);
	if (stream)
		KILNI_TRY(check_owner(__func__, device, stream));
	KILNI_TRY(kilni_thread_get(device, &thread));
	if (stream && stream->slot == thread->own)
		stream = NULL;
	old = thread->current;
	kilni_thread_set(thread, stream ? kiln_stream_retain(stream) : NULL);
	kiln_stream_release(old);
	return KILN_OK;
}

enum kiln_status kiln_stream_flush(struct kiln_stream *stream)
{
	CHECK_STREAM(stream);
	return kilni_stream_drain(stream->slot);
}

enum kiln_status kiln_stream_sync(struct kiln_stream *stream)
{
	enum kiln_status status;

	CHECK_STREAM(stream);
	KILNI_TRY(kilni_window_refuse_on(__func__, stream->slot));
	status = kilni_stream_finish(stream->slot);
	kilni_plan_wait(stream->device);
	return status;
}

enum kiln_status kiln_stream_reset(struct kiln_stream *stream)
{
	CHECK_STREAM(stream);
	KILNI_TRY(kilni_window_refuse_on(__func__, stream->slot));
	return kilni_stream_clear(stream->slot);
}

bool kiln_stream_poisoned(const struct kiln_stream *stream)
{
	return kilni_stream_is_poisoned(stream->slot);
}

enum kiln_status kiln_stream_failure(const struct kiln_stream *stream)
{
	CHECK_STREAM(stream);
	return kilni_stream_failure(stream->slot);
}
