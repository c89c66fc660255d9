/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_PROFILE_H
#define KILN_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A profile window measures how long a device spends on what the calling
 * stream gets between two calls. It opens and closes at the stream's position
 * at those calls: what was queued before does not count, what was queued in
 * between counts whenever it runs. Nothing waits; the duration resolves later,
 * when the device has passed both ends, so windows nest, and other streams are
 * neither kept out nor counted. A window in which the stream got no work reads
 * as 0 exactly.
 *
 * Time is taken on the device's clock: what the device did not do for want of
 * work counts as long as it lies between the two ends. A device without a
 * clock gives wall time between two syncs instead, and then both calls block.
 *
 * An open window holds its stream and device. Both kinds of handle may be
 * given back in any order, with work in flight.
 */
struct kiln_profile;
struct kiln_duration;

/* How a window ends. */
struct kiln_profile_options {
	size_t struct_size;
	bool flush;            /* hand the stream's work to the device */
	const char *name;      /* for kiln-trace(1), NULL: none; copied */
};

#define KILN_PROFILE_OPTIONS_INIT                                              \
	{ sizeof(struct kiln_profile_options), false, NULL }

/* What has become of a duration. */
enum kiln_duration_state {
	KILN_DURATION_PENDING = 0,
	KILN_DURATION_MEASURED = 1,
	KILN_DURATION_NONE = 2 /* no measurement; the log has the reason */
};

/**
 * kiln_profile_start - opens a window on the calling thread's stream
 * @out: set on success; what it held before is not looked at
 *
 * The window is one of the calling thread until it is closed or abandoned;
 * another thread may do that.
 * KILN_ERR_INVALID, KILN_ERR_FORKED, KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT: too
 * many streams; KILN_ERR_POISONED, KILN_ERR_BUSY: the stream's queue is full;
 * KILN_ERR_DEVICE_LOST. Does not block where the device has a clock.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_profile_start(struct kiln_profile **out, struct kiln_device *device);

/**
 * kiln_profile_end - closes a window and gives its duration
 * @out: NULL or a live reference on entry, which is released
 * @window: given up on success; on failure it stays open
 * @options: NULL for none of them
 *
 * The calling thread's stream is the one that opened the window, else
 * KILN_ERR_INVALID. KILN_ERR_POISONED: work inside has failed, as far as that
 * is known; what is found later leaves a duration without a measurement. Other
 * statuses as kiln_profile_start().
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_profile_end(struct kiln_duration **out, struct kiln_profile *window,
		 const struct kiln_profile_options *options);

/**
 * kiln_profile_abandon - drops an open window; NULL is allowed
 *
 * From any thread. Nothing is recorded any more. Never fails; does not block.
 */
KILN_API void kiln_profile_abandon(struct kiln_profile *window);

/**
 * kiln_profile - measures what a function puts on the calling stream
 * @out: NULL or a live reference on entry, which is released
 * @options: NULL for none of them
 * @func: called once, whatever becomes of the window, unless arguments are
 * wrong (KILN_ERR_INVALID, KILN_ERR_FORKED)
 *
 * A status of func other than KILN_OK abandons the window and is returned.
 * Other statuses tell, after func has run, that the window could not be opened
 * or closed, or that work inside failed: as kiln_profile_start() and
 * kiln_profile_end(). What func has made is the caller's in each case.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_profile(struct kiln_duration **out, struct kiln_device *device,
	     const struct kiln_profile_options *options,
	     enum kiln_status (*func)(void *user), void *user);

/** kiln_duration_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_duration *
kiln_duration_retain(struct kiln_duration *duration);

/** kiln_duration_release - gives one reference back; NULL is allowed */
KILN_API void kiln_duration_release(struct kiln_duration *duration);

/**
 * kiln_duration_query - whether the duration is known, and what it is
 * @ns: nanoseconds, written where the result is KILN_DURATION_MEASURED; or NULL
 *
 * Hands nothing to the device: flush the stream first, or the answer may stay
 * KILN_DURATION_PENDING. Once it is another it does not change. A failure
 * inside the window and a lost device give KILN_DURATION_NONE. Never fails;
 * does not block.
 */
KILN_API enum kiln_duration_state
kiln_duration_query(struct kiln_duration *duration, uint64_t *ns);

/**
 * kiln_duration_wait - waits until the duration is known
 * @timeout_ns: 0 only asks; less than 0: no limit
 *
 * Hands the stream's work to the device first. KILN_OK also where there is no
 * measurement. KILN_ERR_TIMEOUT, KILN_ERR_INTERRUPTED (as kiln_event_wait()):
 * the call may be repeated. KILN_ERR_INVALID, KILN_ERR_FORKED. Sleeps while it
 * blocks; a device that tells nothing unless it is asked (CUDA) is asked now
 * and then, so that this returns up to 10 ms late.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_duration_wait(struct kiln_duration *duration, int64_t timeout_ns);

KILN_END_DECLS

#endif
