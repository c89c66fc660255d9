/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_STREAM_H
#define KILN_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A stream: an ordered queue of work on a device. Every thread has one of its
 * own per device; an op goes to the calling thread's current stream. Using a
 * tensor on another stream than the one that writes it orders the two by
 * itself. Handles are reference-counted and thread-safe.
 *
 * It queues as many pieces of work as ring_limit says (kiln-env(7)). A call that
 * finds it full gives KILN_ERR_BUSY at once: it has queued and changed nothing
 * and can be made again. Room comes as work is done, without anything being
 * called. kiln_stream_sync waits until there is no more left; who wants to stay
 * ahead records an event every so often (kiln_event_record) and waits for the
 * last but one, since a full stream takes no event either.
 */
struct kiln_stream;

/**
 * kiln_stream_create - a new stream, in addition to the threads' own
 * @out: NULL or a live reference on entry, which is released
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED, KILN_ERR_NO_MEMORY,
 * KILN_ERR_LIMIT: too many streams on the device.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_create(struct kiln_stream **out, struct kiln_device *device);

/* Which stream's work a device prefers where it has a choice. */
enum kiln_priority {
	KILN_PRIORITY_LOW = -1,
	KILN_PRIORITY_NORMAL = 0, /* of all other streams */
	KILN_PRIORITY_HIGH = 1
};

/**
 * kiln_stream_create_with_priority - a new stream whose work goes first, or last
 * @out: NULL or a live reference on entry, which is released
 *
 * A preference among work that is ready, and no guarantee: it orders nothing
 * that tensors and events do not, and stops nothing that runs. The CPU's
 * workers take streams of a higher priority first, and leave those of a lower
 * one after the operation that they are at; so a stream may wait for as long
 * as higher ones have work. CUDA is asked for a stream of that priority, where
 * it has several. Vulkan, and the null device, do as if there were one.
 *
 * Statuses as kiln_stream_create; KILN_ERR_INVALID: no such priority.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_create_with_priority(struct kiln_stream **out,
				 struct kiln_device *device,
				 enum kiln_priority priority);

/** kiln_stream_priority - the priority that the stream was made with */
KILN_API enum kiln_priority
kiln_stream_priority(const struct kiln_stream *stream);

/**
 * kiln_stream_wrap - a stream of the vendor's own library
 * @out: NULL or a live reference on entry, which is released
 * @native: CUDA: a CUstream of the device's primary context; NULL is its
 *          default stream
 *
 * Work that is submitted to it goes to that stream, in order with what its
 * owner puts there. The stream stays his: he keeps it while kiln has work on
 * it, may destroy it behind a kiln_stream_sync, and does not capture it. For
 * his own work to come behind kiln's he calls kiln_stream_flush first, and
 * kiln_stream_sync where kiln's work waits for something on the host: an
 * upload, the deleter of foreign memory, a stream that was not flushed. What
 * he does to memory on it is not known to kiln, which orders only its own: a
 * read of a tensor, and kiln_stream_sync, wait for kiln's work alone. Where
 * kiln has none queued on the stream that needs his, he waits for it himself.
 *
 * A device remembers what was wrapped: each counts as a stream for ever, and
 * wrapped again it is the same one. CUDA: CU_STREAM_LEGACY is the same as NULL,
 * and CU_STREAM_PER_THREAD none, since any thread may put kiln's work there.
 * KILN_ERR_INVALID (also: it is wrapped now), KILN_ERR_UNSUPPORTED: on the CPU
 * and the null device, which have none, and on Vulkan, where a VkQueue of
 * another VkDevice cannot use kiln's memory.
 * KILN_ERR_FORKED, KILN_ERR_NO_MEMORY, KILN_ERR_OUT_OF_MEMORY, KILN_ERR_LIMIT,
 * KILN_ERR_DRIVER, KILN_ERR_DEVICE_LOST.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_wrap(struct kiln_stream **out, struct kiln_device *device,
		 void *native);

/** kiln_stream_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_stream *kiln_stream_retain(struct kiln_stream *stream);

/**
 * kiln_stream_release - gives one reference back; NULL is allowed
 *
 * Work in flight goes on; nothing is waited for.
 */
KILN_API void kiln_stream_release(struct kiln_stream *stream);

/**
 * kiln_stream_set_current - makes a stream the calling thread's current one
 * @stream: a stream of the device, or NULL for the thread's own again
 *
 * The thread holds a reference until it sets another or ends.
 * KILN_ERR_INVALID, KILN_ERR_DEVICE, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_set_current(struct kiln_device *device, struct kiln_stream *stream);

/**
 * kiln_stream_current - a new reference to the calling thread's stream
 * @out: NULL or a live reference on entry, which is released
 *
 * Makes the thread's own stream where it has none yet. Statuses as create.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_current(struct kiln_stream **out, struct kiln_device *device);

/**
 * kiln_stream_flush - hands the stream's queued work to the device
 *
 * Does not wait. KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED,
 * KILN_ERR_INVALID.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_flush(struct kiln_stream *stream);

/**
 * kiln_stream_sync - waits until the stream's queued work is done
 *
 * Returns the stream's error where one occurred and was not reported before;
 * the message names op and value. A second call does not report it again.
 * Also KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED, KILN_ERR_INVALID. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_sync(struct kiln_stream *stream);

/**
 * kiln_stream_reset - makes a poisoned stream usable again
 *
 * Waits for its queued work. Tensors that failed stay failed: reading one
 * gives KILN_ERR_DEPENDENCY. Right, and nothing, on a healthy stream.
 * KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED, KILN_ERR_INVALID. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_reset(struct kiln_stream *stream);

/** kiln_stream_poisoned - whether the stream waits for a reset. */
KILN_API bool kiln_stream_poisoned(const struct kiln_stream *stream);

/**
 * kiln_stream_failure - what a poisoned stream failed of
 *
 * The status of the op that failed, with its message in the calling thread's
 * error record; KILN_OK on a healthy stream. Does not count as the report of
 * the error, and may be asked again. Also KILN_ERR_DEVICE_LOST,
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_stream_failure(const struct kiln_stream *stream);

KILN_END_DECLS

#endif
