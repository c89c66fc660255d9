/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

#include "base/wake.h"

/*
 * The last reference may go before the point is reached, and the signal comes
 * on a driver's thread, which must not close the device: so the references
 * hold the stream, and the memory stays for the signal.
 */
struct kiln_event {
	struct kilni_object object;
	struct kilni_signal signal;
	struct kiln_stream *stream;
	uint64_t value;
	int done;                    /* atomic */
	int owners;                  /* atomic: the references, the signal */
};

_Static_assert(offsetof(struct kiln_event, object) == 0, "object first");

static const struct kilni_object_ops event_kind = { "event" };

static struct kiln_event *event_of(struct kilni_signal *signal)
{
	return (struct kiln_event *)(void *)((char *)signal -
					     offsetof(struct kiln_event,
						      signal));
}

static void drop_owner(struct kiln_event *event)
{
	if (!__atomic_sub_fetch(&event->owners, 1, __ATOMIC_ACQ_REL))
		free(event);
}

static void on_fire(struct kilni_signal *signal, enum kiln_status status)
{
	(void)status;
	__atomic_store_n(&event_of(signal)->done, 1, __ATOMIC_SEQ_CST);
	kilni_wake_all();
}

static void on_release(struct kilni_signal *signal)
{
	drop_owner(event_of(signal));
}

enum kiln_status kiln_event_record(struct kiln_event **out,
				   struct kiln_stream *stream)
{
	struct kiln_event *event, *old;
	enum kiln_status status;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_event_record: out is NULL");
	KILNI_TRY(kilni_stream_check(stream, __func__));
	KILNI_TRY(kilni_window_refuse_on(__func__, stream->slot));
	event = calloc(1, sizeof(*event));
	if (!event)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for an event");
	kilni_object_init(&event->object, &event_kind);
	event->signal.fire = on_fire;
	event->signal.release = on_release;
	event->owners = 2;
	status = kilni_signal_arm(stream->slot, &event->signal);
	if (status != KILN_OK) {
		free(event);
		return status;
	}
	event->value = event->signal.at.seq;
	event->stream = kiln_stream_retain(stream);
	old = *out;
	*out = event;
	kiln_event_release(old);
	return KILN_OK;
}

struct kiln_event *kiln_event_retain(struct kiln_event *event)
{
	kilni_object_retain(&event->object);
	return event;
}

void kiln_event_release(struct kiln_event *event)
{
	if (!event || !kilni_object_drop(&event->object))
		return;
	kiln_stream_release(event->stream);
	drop_owner(event);
}

bool kiln_event_done(const struct kiln_event *event)
{
	return __atomic_load_n(&event->done, __ATOMIC_SEQ_CST);
}

uint64_t kiln_event_value(const struct kiln_event *event)
{
	return event->value;
}

static bool is_done(void *event)
{
	return kiln_event_done(event);
}

/* A refused submission is the stream's error, and reported there. */
static enum kiln_status push(struct kiln_event *event)
{
	struct kilni_error_record before;
	enum kiln_status status;

	kilni_error_save(&before);
	status = kilni_stream_push(event->stream->slot);
	if (status == KILN_ERR_DEVICE_LOST)
		return status;
	kilni_error_restore(&before);
	return KILN_OK;
}

enum kiln_status kiln_event_wait(struct kiln_event *event, int64_t timeout_ns)
{
	KILNI_TRY(kilni_object_check(event, &event_kind, __func__, "event"));
	if (!kiln_event_done(event))
		KILNI_TRY(push(event));
	KILNI_TRY(kilni_wait_for(is_done, event, timeout_ns, __func__));
	return kilni_sched_alive(event->stream->device->sched);
}

enum kiln_status kiln_stream_wait_event(struct kiln_stream *stream,
					struct kiln_event *event)
{
	KILNI_TRY(kilni_stream_check(stream, __func__));
	KILNI_TRY(kilni_object_check(event, &event_kind, __func__, "event"));
	if (event->stream->device != stream->device)
		return kilni_fail(KILN_ERR_DEVICE, 0,
				  "kiln_stream_wait_event: the event is of "
				  "%s, the stream of %s",
				  event->stream->device->selector,
				  stream->device->selector);
	KILNI_TRY(kilni_window_refuse_on(__func__, stream->slot));
	if (kiln_event_done(event) || event->stream->slot == stream->slot)
		return kilni_sched_alive(stream->device->sched);
	return kilni_stream_wait_use(stream->slot, &event->signal.at);
}

uint64_t kiln_stream_position(const struct kiln_stream *stream)
{
	return kilni_stream_position(stream->slot);
}

uint64_t kiln_stream_progress(const struct kiln_stream *stream)
{
	return kilni_stream_progress(stream->slot);
}

void kiln_interrupt(void)
{
	kilni_interrupt();
}
