/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SCHED_RECORD_H
#define KILNI_SCHED_RECORD_H

#include "sched/graph.h"
#include "sched/internal.h"

struct kilni_trace_record;

/* Between the recorder and the graph that comes of it. */

/* A track that a graph uses, taken as a whole. */
struct kilni_graph_use {
	struct kilni_track *track;
	uint32_t access;       /* READ: what it held before the graph */
	uint32_t last_write;   /* entry that writes it last */
	uint32_t op;           /* of that */
	bool written;
	bool fresh;            /* no entry reads what it held before */
	struct kilni_use before; /* who wrote it before the latest replay */
};

/*
 * In a recorded entry operand.writer_seq tells who wrote the operand: the
 * number of an entry of the graph, from 1 on; with this bit, of the use that
 * stands for what was there before; 0: nobody.
 */
#define KILNI_BEFORE (UINT64_C(1) << 32)

struct kilni_graph {
	struct kilni_stream *stream;
	struct kilni_entry **entry;
	struct kilni_graph_use *use;
	unsigned entries, uses;
	uint64_t random_blocks;
	uint16_t op;           /* of replays in a trace, or 0 */
	void *prepared;        /* the driver's; NULL: entry by entry */
	struct kilni_track self; /* queued replays */
	void *arena;           /* where the entries lie */
};

/*
 * A warm-up or a capture takes note of a job. While it captures, *taken is set
 * and nothing is to be run. The append lock is held.
 */
enum kiln_status kilni_record(struct kilni_stream *stream,
			      const struct kilni_job *job, bool *taken);

/* Whether the stream is captured; the append lock is held. */
bool kilni_recorder_captures(const struct kilni_stream *stream);

/* Takes over entries and uses, also where it fails. */
enum kiln_status kilni_graph_create(struct kilni_graph **out,
				    struct kilni_stream *stream,
				    struct kilni_entry **entry,
				    unsigned entries,
				    struct kilni_graph_use *use, unsigned uses,
				    uint64_t random_blocks);

/* Only a captured entry has written the track: nothing is in it yet. */
void kilni_track_unrun(struct kilni_track *track);

/* A use noted on a track whose lock is held, before its entry is committed. */
enum kiln_status kilni_track_use(struct kilni_track *track,
				 struct kilni_stream *stream, uint64_t seq,
				 uint32_t access);
/* Writes a SUBMIT that ends now; not of what was only captured: serial 0. */
void kilni_stream_trace(struct kilni_stream *stream,
			struct kilni_trace_record *record);

#endif
