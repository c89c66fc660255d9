/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_EVENT_H
#define KILN_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/stream.h>

KILN_BEGIN_DECLS

/*
 * An event: a point in a stream's work, for those who order streams or wait
 * by hand. Nobody has to: using a tensor on another stream inserts what is
 * needed. Handles are reference-counted and thread-safe.
 *
 * Every stream also counts its work: its position is the number of the last
 * piece queued, its progress that of the last one done. Both only grow, by more
 * than one for some ops, and not for a small op that an idle CPU runs within
 * the call.
 */
struct kiln_event;

/**
 * kiln_event_record - an event behind everything submitted to the stream
 * @out: NULL or a live reference on entry, which is released
 *
 * Does not hand the stream's work to the device and does not wait. Right on a
 * poisoned stream. KILN_ERR_INVALID, KILN_ERR_FORKED, KILN_ERR_NO_MEMORY,
 * KILN_ERR_BUSY: the stream's queue is full. KILN_ERR_DEVICE_LOST.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_event_record(struct kiln_event **out, struct kiln_stream *stream);

/** kiln_event_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_event *kiln_event_retain(struct kiln_event *event);

/** kiln_event_release - gives one reference back; NULL is allowed */
KILN_API void kiln_event_release(struct kiln_event *event);

/**
 * kiln_event_done - whether the point has been reached
 *
 * Also true where the device is lost. Hands nothing to the device: flush the
 * stream first, or the answer may stay false. Never fails; does not block.
 */
KILN_API bool kiln_event_done(const struct kiln_event *event);

/** kiln_event_value - the event's place in its stream's count */
KILN_API uint64_t kiln_event_value(const struct kiln_event *event);

/**
 * kiln_event_wait - waits for the point on the calling thread
 * @timeout_ns: 0 only asks; less than 0: no limit
 *
 * Hands the stream's work to the device first. An error of the work is not
 * reported here: read, sync or a completion tells it.
 * KILN_ERR_TIMEOUT, KILN_ERR_INTERRUPTED (kiln_interrupt, or a signal whose
 * handler was installed without SA_RESTART): the work goes on, and the call
 * may be repeated. KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID, KILN_ERR_FORKED.
 * Spins for up to KILN_SPIN_US, then sleeps while it blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_event_wait(struct kiln_event *event, int64_t timeout_ns);

/**
 * kiln_stream_wait_event - orders the stream's later work behind the event
 *
 * Does not block. Both of one device, else KILN_ERR_DEVICE.
 * KILN_ERR_BUSY, KILN_ERR_NO_MEMORY, KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID,
 * KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_wait_event(struct kiln_stream *stream, struct kiln_event *event);

/** kiln_stream_position - number of the last piece of work submitted */
KILN_API uint64_t kiln_stream_position(const struct kiln_stream *stream);

/** kiln_stream_progress - number of the last piece of work done */
KILN_API uint64_t kiln_stream_progress(const struct kiln_stream *stream);

/**
 * kiln_interrupt - interrupts waits that have a time limit
 *
 * Every thread that is in kiln_event_wait or kiln_completions_wait, or else
 * its next such call, returns KILN_ERR_INTERRUPTED. The one function that a
 * signal handler may call: async-signal-safe, errno stays. Never fails.
 */
KILN_API void kiln_interrupt(void);

KILN_END_DECLS

#endif
