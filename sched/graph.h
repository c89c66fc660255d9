/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SCHED_GRAPH_H
#define KILNI_SCHED_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/sched.h"

/*
 * Graphs: what is submitted to a stream is noted in place of being queued
 * (sched/record.c), and later submitted again as a whole (sched/graph.c).
 *
 * A stream has a recorder from prepare to stop. While it watches, work runs as
 * ever and the choices between writing in place and elsewhere are noted; while
 * it captures, nothing runs.
 */

enum kilni_recorder_state {
	KILNI_RECORDER_NONE,
	KILNI_RECORDER_WATCHING,
	KILNI_RECORDER_CAPTURING,
	KILNI_RECORDER_BROKEN    /* the capture failed: work runs as ever */
};

struct kilni_graph;

/* Who keeps the memory that a graph uses. */
struct kilni_recorder_client {
	/*
	 * The graph uses what the track belongs to; once for each. fresh: it
	 * was made in this capture, and nothing is in it.
	 */
	enum kiln_status (*hold)(void *context, struct kilni_track *track,
				 bool *fresh);
	/* The recorder is gone; no lock is held. */
	void (*closed)(void *context);
};

/* So many recorders are open in the process. */
extern int kilni_recorders; /* atomic */

static inline bool kilni_recorders_open(void)
{
	return KILNI_UNLIKELY(
		__atomic_load_n(&kilni_recorders, __ATOMIC_RELAXED));
}

/*
 * Gives the stream a recorder that watches. KILN_ERR_BUSY: it has one.
 * KILN_ERR_NO_MEMORY, KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST.
 */
enum kiln_status kilni_recorder_open(struct kilni_stream *stream,
				     const struct kilni_recorder_client *client,
				     void *context);

/*
 * From here on the stream's work is noted. KILN_ERR_INVALID: no recorder that
 * watches. KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST.
 */
enum kiln_status kilni_recorder_start(struct kilni_stream *stream);

/*
 * Closes the recorder and gives the graph. KILN_ERR_CAPTURE: the capture
 * failed, or its choices were not those of the warm-up. KILN_ERR_INVALID:
 * nothing was captured; then a recorder stays as it is. KILN_ERR_NO_MEMORY,
 * driver errors.
 */
enum kiln_status kilni_recorder_stop(struct kilni_stream *stream,
				     struct kilni_graph **out);

/* Closes the recorder, if there is one. */
void kilni_recorder_close(struct kilni_stream *stream);

/* A capture fails, for the reason in the error record; the record stays. */
void kilni_recorder_break(struct kilni_stream *stream);

enum kilni_recorder_state
kilni_recorder_state(const struct kilni_stream *stream);

/* Calls call(context, state, arg) with the recorder locked, if there is one. */
enum kilni_recorder_state kilni_recorder_with(
	struct kilni_stream *stream,
	void (*call)(void *context, enum kilni_recorder_state state, void *arg),
	void *arg);

/*
 * What is submitted meanwhile by the calling thread is the library's own and
 * not a part of what a warm-up is compared by.
 */
void kilni_recorder_mute(struct kilni_stream *stream, bool muted);

/* Blocks of random numbers for a captured op: its place among all of them. */
bool kilni_recorder_random(struct kilni_stream *stream, uint64_t blocks,
			   uint64_t *counter);

/* KILN_ERR_CAPTURE where only a capture has written it: nothing is in it. */
enum kiln_status kilni_track_check_run(struct kilni_track *track,
				       const char *fn);

/*
 * Runs the graph on its stream, in its turn. The random numbers are drawn with
 * seed from counter on. As kilni_submit(), and KILN_ERR_CAPTURE: the stream is
 * captured.
 */
enum kiln_status kilni_graph_submit(struct kilni_graph *graph, uint64_t seed,
				    uint64_t counter);

uint64_t kilni_graph_random_blocks(const struct kilni_graph *graph);
unsigned kilni_graph_size(const struct kilni_graph *graph);

/* Whether the driver has prepared it, or it is queued entry by entry. */
bool kilni_graph_prepared(const struct kilni_graph *graph);

/* What is queued of it still runs; the tracks are not touched any more. */
void kilni_graph_drop(struct kilni_graph *graph);

#endif
