/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_GRAPH_H
#define KILN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A graph: work of the calling thread's stream that was captured once and runs
 * again at the cost of one dispatch, on the same memory.
 *
 * First kiln_graph_prepare(), then the work once for the warm-up, which runs;
 * then kiln_graph_start_capture() and the work again, which is captured and
 * does not run; then kiln_graph_stop_capture(). kiln_graph_create() does all of
 * that with a callback, or falls back to calling it. Before each replay
 * kiln_copy_into() refreshes the inputs.
 *
 * Memory. A replay reads and writes the memory that the captured ops did. It
 * stays as it is while the graph lives, whether or not the tensors do; that
 * does not count in kiln_tensor_can_mut(). State that one replay hands to the
 * next is written back with kiln_copy_into(), as are inputs that change. From
 * prepare on, what the stream allocates is the graph's own, and used again
 * among the ops of a step. A capture takes what the warm-up left there, or what
 * the pools hold; where that does not do, it fails with KILN_ERR_CAPTURE rather
 * than ask the driver for more, and the stream works on without a capture.
 *
 * Results. What was captured has not run: a tensor made in a capture, whose
 * elements a captured op writes, cannot be read or used elsewhere before the
 * first replay (KILN_ERR_CAPTURE). Tensors that were there before hold what
 * they held.
 *
 * In a capture the calling thread cannot read tensors or upload data, also not
 * by asynchronous transfers and from or to files, sync or reset the stream,
 * record events or have the stream wait for one, open or close profile windows,
 * ask for completions of the stream or of tensors, nor replay a graph, of
 * whatever stream: KILN_ERR_CAPTURE, and the capture goes on. Kernels of the
 * program's own are captured as ops are. Other threads, their streams,
 * allocations and releases are not concerned.
 *
 * Random numbers. A replay draws the numbers that the ops would draw if they
 * were called in its place: new ones each time, the same after the same
 * kiln_device_seed(). The capture itself draws none.
 *
 * Errors. On the CPU a replay is one operation: where a captured op fails, all
 * that the graph writes has failed, and the error names the op, as does that of
 * an eager run. It names kiln_graph_replay where a device has refused or lost
 * the whole and nobody knows at which op.
 *
 * Traces. A replay is one submission of "graph_replay" in a trace, and one
 * launch where the device runs the graph as a whole, as a CPU does; elsewhere
 * its ops have launches, the first of them with the number of the submission.
 * What is captured is not in it.
 *
 * One thread at a time may use the stream while a graph is being made. A graph
 * may be replayed from any thread; it runs on the stream of its capture, in
 * turn with what else is queued there, and is ordered with other streams by the
 * tensors that it uses: of calls from several threads that share a tensor, one
 * of which writes it, that holds where one call has returned before the other
 * is made. Handles are reference-counted and thread-safe.
 */
struct kiln_graph;

enum kiln_graph_state {
	KILN_GRAPH_NONE = 0,
	KILN_GRAPH_PREPARED = 1,     /* work runs, and is watched */
	KILN_GRAPH_CAPTURING = 2,
	KILN_GRAPH_BROKEN = 3        /* failed; work runs; stop tells why */
};

/** Work to be captured; what it returns is passed on. */
typedef enum kiln_status (*kiln_graph_function)(struct kiln_device *device,
						void *user);

/**
 * kiln_graph_prepare - before the warm-up of a graph on the calling stream
 *
 * From here to the stop, what the stream allocates belongs to the graph. Ends
 * by stop, by kiln_graph_abandon(), or with the stream.
 * KILN_ERR_BUSY: the stream has a graph in preparation. KILN_ERR_UNSUPPORTED:
 * KILN_GRAPHS is 0. KILN_ERR_NO_MEMORY, KILN_ERR_POISONED,
 * KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID, KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_graph_prepare(struct kiln_device *device);

/**
 * kiln_graph_start_capture - from here on the stream's work is captured
 *
 * KILN_ERR_INVALID: nothing is prepared on the calling stream, or a capture has
 * begun. KILN_ERR_UNSUPPORTED: the device captures no graphs, so run the work
 * again instead. KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED. Does
 * not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_graph_start_capture(struct kiln_device *device);

/**
 * kiln_graph_stop_capture - makes a graph of what was captured
 * @out: NULL or a live reference on entry, which is released
 *
 * The preparation is over, also where this fails. KILN_ERR_CAPTURE: the capture
 * failed before (the message says of what), or it is not what the end of the
 * warm-up was: it wrote in place where that did not, or the reverse, or ran
 * other operations; the message names the first that differs. Without a warm-up
 * there is nothing to compare with. KILN_ERR_INVALID: no capture has begun; a
 * preparation goes on. KILN_ERR_LIMIT: more operations than a stream queues, on
 * a device that does not keep them itself. KILN_ERR_NO_MEMORY, driver errors,
 * KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_graph_stop_capture(struct kiln_graph **out, struct kiln_device *device);

/**
 * kiln_graph_abandon - ends a preparation or a capture without a graph
 *
 * Right, and nothing, where there is none, and in the child of a fork. Cannot
 * fail.
 */
KILN_API void kiln_graph_abandon(struct kiln_device *device);

/**
 * kiln_graph_state - what the calling thread's stream is in the middle of
 *
 * KILN_GRAPH_NONE in the child of a fork.
 */
KILN_API enum kiln_graph_state
kiln_graph_state(const struct kiln_device *device);

/**
 * kiln_graph_create - prepares, warms up and captures, or falls back
 * @out: NULL or a live reference on entry, which is released
 * @function: the work; kept with user for the fallback
 *
 * Calls function once, for the warm-up, whose failure is returned; then once
 * more in a capture. Where the device captures no graphs or the capture fails,
 * the graph is one that calls function at each replay;
 * kiln_graph_is_captured() tells. function must leave the device's streams as
 * it found them and write back its state with kiln_copy_into(), since the
 * captured call has no effect.
 * KILN_ERR_INVALID, KILN_ERR_FORKED, KILN_ERR_BUSY, KILN_ERR_NO_MEMORY,
 * KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST, what function returned.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_graph_create(struct kiln_graph **out, struct kiln_device *device,
		  kiln_graph_function function, void *user);

/** kiln_graph_is_captured - false: replays call the function again */
KILN_API bool kiln_graph_is_captured(const struct kiln_graph *graph);

/**
 * kiln_graph_fallback - why the graph is not captured; "" where it is
 *
 * The text lives as long as the graph.
 */
KILN_API const char *kiln_graph_fallback(const struct kiln_graph *graph);

/** kiln_graph_operations - number of captured operations; 0 in a fallback */
KILN_API uint64_t kiln_graph_operations(const struct kiln_graph *graph);

/**
 * kiln_graph_replay - runs the captured work again
 *
 * Does not wait for it. KILN_ERR_DEPENDENCY: an input has failed.
 * KILN_ERR_CAPTURE: the graph's stream or the calling thread's is captured, or
 * an input is a result of another graph that has not been replayed.
 * KILN_ERR_POISONED, KILN_ERR_BUSY: the stream's queue is full.
 * KILN_ERR_NO_MEMORY, KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID, KILN_ERR_FORKED;
 * in a fallback what the function returned.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_graph_replay(struct kiln_graph *graph);

/** kiln_graph_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_graph *kiln_graph_retain(struct kiln_graph *graph);

/**
 * kiln_graph_release - gives one reference back; NULL is allowed
 *
 * The last one gives the memory back that no tensor holds. Replays in flight
 * are not waited for and run to their end.
 */
KILN_API void kiln_graph_release(struct kiln_graph *graph);

KILN_END_DECLS

#endif
