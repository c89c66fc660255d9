/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/trace.h"
#include "base/wake.h"

/*
 * A window is one object from its opening to the last reference to its
 * duration; only its kind changes when it is closed. Stamps that are in flight
 * own its memory too, as they may come on a driver's thread after all else has
 * gone.
 */
struct kiln_duration {
	struct kilni_object object;
	struct kilni_stamp begin, end;
	struct kilni_moment opened, closed;
	struct kilni_clock clock;
	struct kiln_stream *stream;
	char name[KILNI_TRACE_NAME];
	uint32_t number;             /* of the stream, in a trace */
	int owners;                  /* atomic: the references, the stamps */
	int lock;                    /* of settling */
	int state;                   /* atomic: enum kiln_duration_state */
	uint64_t ns;
};

_Static_assert(offsetof(struct kiln_duration, object) == 0, "object first");

static const struct kilni_object_ops window_kind = { "open window" };
static const struct kilni_object_ops duration_kind = { "duration" };

/* An open window and its duration are the same memory. */
static struct kiln_duration *window_of(struct kiln_profile *window)
{
	return (struct kiln_duration *)(void *)window;
}

static struct kilni_stream *slot_of(const struct kiln_duration *d)
{
	return d->stream->slot;
}

/* ---- life ---- */

static void drop_owner(struct kiln_duration *d)
{
	if (!__atomic_sub_fetch(&d->owners, 1, __ATOMIC_ACQ_REL))
		free(d);
}

static void add_owner(struct kiln_duration *d)
{
	__atomic_add_fetch(&d->owners, 1, __ATOMIC_RELAXED);
}

static void on_begin(struct kilni_stamp *stamp)
{
	drop_owner((void *)((char *)stamp -
			    offsetof(struct kiln_duration, begin)));
}

static int stamp_state(const struct kilni_stamp *stamp)
{
	return __atomic_load_n(&stamp->state, __ATOMIC_ACQUIRE);
}

/* Without a clock of its own a device's windows are by the host's. */
static bool has_clock(const struct kiln_duration *d)
{
	return d->clock.bits != 0;
}

static bool time_between(const struct kiln_duration *d, uint64_t *ns)
{
	const struct kilni_clock host = KILNI_CLOCK_HOST;

	return kilni_clock_between(has_clock(d) ? &d->clock : &host,
				   d->begin.ticks, d->end.ticks, ns);
}

static void write_window(const struct kiln_duration *d, uint64_t end_ns,
			 uint64_t ns)
{
	struct kilni_trace_record record = {
		.flags = has_clock(d) ? KILNI_TRACE_DEVICE_CLOCK : 0,
		.stream = d->number,
		.begin_ns = end_ns - ns,
		.end_ns = end_ns,
	};

	memcpy(record.of.name, d->name, sizeof(record.of.name));
	kilni_trace_write(KILNI_TRACE_WINDOW, &record);
}

/* Another clock than the host's tells how long it was, but not when. */
static void trace_window(const struct kiln_duration *d)
{
	uint64_t ns;

	if (stamp_state(&d->begin) != KILNI_STAMP_GOOD ||
	    stamp_state(&d->end) != KILNI_STAMP_GOOD || !time_between(d, &ns))
		return;
	write_window(d, d->clock.host || !has_clock(d) ? d->end.ticks
						       : kilni_now_ns(), ns);
}

static void on_end(struct kilni_stamp *stamp)
{
	struct kiln_duration *d =
		(void *)((char *)stamp - offsetof(struct kiln_duration, end));

	if (kilni_is_traced())
		trace_window(d);
	kilni_wake_all();
	drop_owner(d);
}

/* The last reference has gone. */
static void destroy(struct kiln_duration *d)
{
	kiln_stream_release(d->stream);
	drop_owner(d);
}

static enum kiln_status create(struct kiln_duration **out,
			       struct kiln_device *device)
{
	struct kiln_duration *d = calloc(1, sizeof(*d));
	enum kiln_status status;

	if (!d)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a profile window");
	kilni_object_init(&d->object, &window_kind);
	d->begin.stamped = on_begin;
	d->end.stamped = on_end;
	d->owners = 1;
	status = kiln_stream_current(&d->stream, device);
	if (status != KILN_OK) {
		free(d);
		return status;
	}
	d->number = kilni_stream_number(d->stream->slot);
	device->hw->driver->device->clock(device->hw, &d->clock);
	*out = d;
	return KILN_OK;
}

/* ---- the two ends ---- */

/* Wall time behind a sync. */
static enum kiln_status stamp_by_sync(struct kiln_duration *d,
				      struct kilni_stamp *stamp,
				      struct kilni_moment *at)
{
	KILNI_TRY(kilni_stream_finish(slot_of(d)));
	KILNI_TRY(kilni_stream_here(slot_of(d), at));
	add_owner(d);
	kilni_stamp_set(stamp, kilni_now_ns());
	return KILN_OK;
}

static enum kiln_status take_stamp(struct kiln_duration *d,
				   struct kilni_stamp *stamp,
				   struct kilni_moment *at)
{
	enum kiln_status status;

	if (!has_clock(d))
		return stamp_by_sync(d, stamp, at);
	add_owner(d);
	status = kilni_stream_stamp(slot_of(d), stamp, at);
	if (status != KILN_OK)
		drop_owner(d);
	return status;
}

enum kiln_status kiln_profile_start(struct kiln_profile **out,
				    struct kiln_device *device)
{
	struct kiln_duration *d;
	enum kiln_status status;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL",
				  __func__);
	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_window_refuse(__func__, device));
	KILNI_TRY(create(&d, device));
	status = take_stamp(d, &d->begin, &d->opened);
	if (status != KILN_OK) {
		destroy(d);
		return status;
	}
	*out = (struct kiln_profile *)(void *)d;
	return KILN_OK;
}

static enum kiln_status
check_options(const char *fn, const struct kiln_profile_options *options)
{
	if (!options || options->struct_size == sizeof(*options))
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: struct_size %zu is unknown",
			  fn, options->struct_size);
}

/* The calling thread's stream is the window's. */
static enum kiln_status check_stream(const struct kiln_duration *d)
{
	struct kilni_stream *stream;

	KILNI_TRY(kilni_thread_stream(d->stream->device, &stream));
	if (stream == slot_of(d))
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "kiln_profile_end: the window was opened on another "
			  "stream than the calling one");
}

/* Closes it where the stream has got no work since it was opened. */
static enum kiln_status close_empty(struct kiln_duration *d, bool *empty)
{
	KILNI_TRY(kilni_stream_here(slot_of(d), &d->closed));
	*empty = d->closed.work == d->opened.work;
	if (*empty)
		d->state = KILN_DURATION_MEASURED;
	if (*empty && kilni_is_traced())
		write_window(d, kilni_now_ns(), 0);
	return KILN_OK;
}

static enum kiln_status close_window(struct kiln_duration *d)
{
	bool empty;

	KILNI_TRY(check_stream(d));
	KILNI_TRY(kilni_window_refuse_on("kiln_profile_end", slot_of(d)));
	KILNI_TRY(close_empty(d, &empty));
	if (!empty)
		KILNI_TRY(take_stamp(d, &d->end, &d->closed));
	d->object.ops = &duration_kind;
	return KILN_OK;
}

/* A refused submission is the stream's error, and reported there. */
static void push_quietly(struct kiln_duration *d)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_stream_push(slot_of(d)) != KILN_OK)
		kilni_error_restore(&before);
}

enum kiln_status kiln_profile_end(struct kiln_duration **out,
				  struct kiln_profile *window,
				  const struct kiln_profile_options *options)
{
	struct kiln_duration *d = window_of(window), *old;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL",
				  __func__);
	KILNI_TRY(kilni_object_check(d, &window_kind, __func__, "window"));
	KILNI_TRY(check_options(__func__, options));
	if (options && options->name)
		snprintf(d->name, sizeof(d->name), "%s", options->name);
	KILNI_TRY(close_window(d));
	if (options && options->flush)
		push_quietly(d);
	old = *out;
	*out = d;
	kiln_duration_release(old);
	return KILN_OK;
}

void kiln_profile_abandon(struct kiln_profile *window)
{
	struct kiln_duration *d = window_of(window);

	if (d && kilni_object_drop(&d->object))
		destroy(d);
}

enum kiln_status kiln_profile(struct kiln_duration **out,
			      struct kiln_device *device,
			      const struct kiln_profile_options *options,
			      enum kiln_status (*func)(void *user), void *user)
{
	struct kilni_error_record record;
	struct kiln_profile *window = NULL;
	enum kiln_status status, opened;

	if (!out || !func)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s is NULL",
				  __func__, out ? "func" : "out");
	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(check_options(__func__, options));
	opened = kiln_profile_start(&window, device);
	kilni_error_save(&record);
	status = func(user);
	if (status != KILN_OK) {
		kiln_profile_abandon(window);
		return status;
	}
	if (opened != KILN_OK) {
		kilni_error_restore(&record);
		return opened;
	}
	status = kiln_profile_end(out, window, options);
	if (status != KILN_OK)
		kiln_profile_abandon(window);
	return status;
}

/* ---- durations ---- */

struct kiln_duration *kiln_duration_retain(struct kiln_duration *duration)
{
	kilni_object_retain(&duration->object);
	return duration;
}

void kiln_duration_release(struct kiln_duration *duration)
{
	if (duration && kilni_object_drop(&duration->object))
		destroy(duration);
}

/* Why there is no measurement; NULL: there is, in d->ns. */
static const char *measure(struct kiln_duration *d)
{
	if (kilni_stream_failed_between(slot_of(d), &d->opened, &d->closed))
		return "work inside the window failed";
	if (stamp_state(&d->begin) != KILNI_STAMP_GOOD ||
	    stamp_state(&d->end) != KILNI_STAMP_GOOD)
		return "the device gave no time";
	if (!time_between(d, &d->ns))
		return "the device's clock ran backwards";
	return NULL;
}

/* Looks once whether it can be known now; with the lock held. */
static enum kiln_duration_state settle(struct kiln_duration *d,
				       const char **why)
{
	bool lost = kilni_sched_lost(d->stream->device->sched);

	*why = NULL;
	if (stamp_state(&d->begin) != KILNI_STAMP_PENDING &&
	    stamp_state(&d->end) != KILNI_STAMP_PENDING)
		*why = measure(d);
	else if (lost)
		*why = "the device is lost";
	else
		return KILN_DURATION_PENDING;
	return *why ? KILN_DURATION_NONE : KILN_DURATION_MEASURED;
}

static enum kiln_duration_state load_state(const struct kiln_duration *d)
{
	return (enum kiln_duration_state)__atomic_load_n(&d->state,
							 __ATOMIC_ACQUIRE);
}

static enum kiln_duration_state resolve(struct kiln_duration *d)
{
	enum kiln_duration_state state;
	const char *why = NULL;

	kilni_spin_lock(&d->lock);
	state = load_state(d);
	if (state == KILN_DURATION_PENDING) {
		state = settle(d, &why);
		__atomic_store_n(&d->state, state, __ATOMIC_RELEASE);
	}
	kilni_spin_unlock(&d->lock);
	if (why)
		kilni_log(KILNI_LOG_WARN, "profile window%s%s on %s: no "
			  "measurement: %s", *d->name ? " " : "", d->name,
			  d->stream->device->selector, why);
	return state;
}

enum kiln_duration_state kiln_duration_query(struct kiln_duration *duration,
					     uint64_t *ns)
{
	enum kiln_duration_state state;

	if (kilni_object_check(duration, &duration_kind, __func__, "duration"))
		return KILN_DURATION_NONE;
	state = load_state(duration);
	if (state == KILN_DURATION_PENDING) {
		/* Some drivers look at the device when they are asked. */
		(void)kilni_stream_progress(slot_of(duration));
		state = resolve(duration);
	}
	if (state == KILN_DURATION_MEASURED && ns)
		*ns = duration->ns;
	return state;
}

static bool is_known(void *duration)
{
	return kiln_duration_query(duration, NULL) != KILN_DURATION_PENDING;
}

enum kiln_status kiln_duration_wait(struct kiln_duration *duration,
				    int64_t timeout_ns)
{
	KILNI_TRY(kilni_object_check(duration, &duration_kind, __func__,
				     "duration"));
	if (!is_known(duration))
		push_quietly(duration);
	return kilni_wait_asking(is_known, duration, timeout_ns, __func__);
}
