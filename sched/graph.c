/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/trace.h"

/*
 * Replays. A graph is one job: it waits for whoever uses what it touches, and
 * whoever comes after it waits for it. Where the driver has prepared it, it is
 * one entry too, and fails as a whole; elsewhere its entries are queued one by
 * one, and each depends on those that it read from.
 */

/* ---- making ---- */

#define ENTRY_ALIGN 64

static size_t entry_bytes(const struct kilni_entry *entry)
{
	size_t bytes = offsetof(struct kilni_entry, params) +
		       entry->params_bytes;

	return kilni_align_up(bytes, ENTRY_ALIGN);
}

/* Moves the entries next to one another. */
static enum kiln_status pack(struct kilni_graph *graph)
{
	size_t bytes = ENTRY_ALIGN, used = 0;
	char *arena;

	for (unsigned i = 0; i < graph->entries; i++)
		bytes += entry_bytes(graph->entry[i]);
	arena = aligned_alloc(ENTRY_ALIGN, bytes);
	if (!arena)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "graph: no memory for %u operations",
				  graph->entries);
	for (unsigned i = 0; i < graph->entries; i++) {
		struct kilni_entry *old = graph->entry[i];

		memcpy(arena + used, old,
		       offsetof(struct kilni_entry, params) +
			       old->params_bytes);
		graph->entry[i] = (struct kilni_entry *)(void *)(arena + used);
		used += entry_bytes(old);
		free(old);
	}
	graph->arena = arena;
	return KILN_OK;
}

static void end_graph(void *data, void *user)
{
	struct kilni_graph *graph = data;

	(void)user;
	if (graph->prepared)
		queue_ops(graph->stream)->graph_destroy(
			graph->stream->sched->hw, graph->prepared);
	if (!graph->arena)
		for (unsigned i = 0; i < graph->entries; i++)
			free(graph->entry[i]);
	free(graph->arena);
	free(graph->entry);
	free(graph->use);
	kilni_track_fini(&graph->self);
	free(graph);
}

static enum kiln_status prepare(struct kilni_graph *graph)
{
	struct kilni_sched *sched = graph->stream->sched;
	struct kilni_error_record before;
	enum kiln_status status;

	KILNI_TRY(pack(graph));
	kilni_error_save(&before);
	status = queue_ops(graph->stream)
			 ->graph_create(sched->hw, graph->entry,
					graph->entries, &graph->prepared);
	if (status != KILN_ERR_UNSUPPORTED)
		return status;
	kilni_error_restore(&before);
	graph->prepared = NULL;
	if (graph->entries < sched->ring_limit / 2)
		return KILN_OK;
	return kilni_fail(KILN_ERR_LIMIT, 0,
			  "graph: %u operations, and a stream queues %llu",
			  graph->entries,
			  (unsigned long long)sched->ring_limit);
}

/* What stands for replays in a trace. */
static uint16_t traced_op(void)
{
	static const char name[] = "graph_replay";
	int op = kilni_is_traced() ? kilni_op_add(name) : -1;

	if (op < 0)
		return 0;
	kilni_trace_op((unsigned)op, name);
	return (uint16_t)op;
}

enum kiln_status kilni_graph_create(struct kilni_graph **out,
				    struct kilni_stream *stream,
				    struct kilni_entry **entry,
				    unsigned entries,
				    struct kilni_graph_use *use, unsigned uses,
				    uint64_t random_blocks)
{
	struct kilni_graph *graph = calloc(1, sizeof(*graph));
	enum kiln_status status;

	if (!graph) {
		for (unsigned i = 0; i < entries; i++)
			free(entry[i]);
		free(entry);
		free(use);
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a graph");
	}
	graph->stream = stream;
	graph->entry = entry;
	graph->entries = entries;
	graph->use = use;
	graph->uses = uses;
	graph->random_blocks = random_blocks;
	graph->op = traced_op();
	kilni_track_init(&graph->self);
	status = prepare(graph);
	if (status != KILN_OK)
		end_graph(graph, NULL);
	else
		*out = graph;
	return status;
}

void kilni_graph_drop(struct kilni_graph *graph)
{
	kilni_call_after(&graph->self, end_graph, graph, NULL);
}

uint64_t kilni_graph_random_blocks(const struct kilni_graph *graph)
{
	return graph->random_blocks;
}

unsigned kilni_graph_size(const struct kilni_graph *graph)
{
	return graph->entries;
}

bool kilni_graph_prepared(const struct kilni_graph *graph)
{
	return graph->prepared;
}

/* ---- before a replay ---- */

/* What is of one replay; serial: its number in a trace, 0 where it has none. */
struct replay {
	uint64_t seed, counter, serial;
};

void kilni_track_unrun(struct kilni_track *track)
{
	kilni_spin_lock(&track->lock);
	track->unrun = true;
	__atomic_store_n(&track->busy, 1, __ATOMIC_RELEASE);
	kilni_spin_unlock(&track->lock);
}

enum kiln_status kilni_track_check_run(struct kilni_track *track,
				       const char *fn)
{
	bool unrun;

	kilni_spin_lock(&track->lock);
	unrun = track->unrun;
	kilni_spin_unlock(&track->lock);
	return unrun ? kilni_failure_unrun(fn, track) : KILN_OK;
}

/* What the graph reads must have been written, and not have failed. */
static enum kiln_status check_use(const struct kilni_graph_use *use)
{
	struct kilni_use writer;
	struct cause cause;
	bool unrun;

	if (!(use->access & KILNI_READ))
		return KILN_OK;
	kilni_spin_lock(&use->track->lock);
	writer = use->track->writer;
	unrun = use->track->unrun;
	kilni_spin_unlock(&use->track->lock);
	if (unrun)
		return kilni_failure_unrun("kiln_graph_replay", use->track);
	if (kilni_failure_find(&writer, &cause))
		return kilni_fail(KILN_ERR_DEPENDENCY, 0,
				  "kiln_graph_replay: an operand depends on "
				  "an operation that failed");
	return KILN_OK;
}

static enum kiln_status check(struct kilni_graph *graph)
{
	KILNI_TRY(kilni_stream_usable(graph->stream));
	if (kilni_recorder_captures(graph->stream))
		return kilni_fail(KILN_ERR_CAPTURE, 0,
				  "kiln_graph_replay: a graph cannot be "
				  "replayed in the capture of another");
	for (unsigned i = 0; i < graph->uses; i++)
		KILNI_TRY(check_use(&graph->use[i]));
	for (unsigned i = 0; i < graph->uses; i++)
		KILNI_TRY(kilni_track_order(graph->use[i].track, graph->stream,
					    graph->use[i].access));
	return KILN_OK;
}

/* Notes that the graph, whose first entry is numbered first, uses the track. */
static enum kiln_status note(struct kilni_graph *graph,
			     const struct kilni_graph_use *use, uint64_t first,
			     uint64_t last)
{
	struct kilni_track *track = use->track;
	enum kiln_status status;

	kilni_spin_lock(&track->lock);
	status = kilni_track_use(track, graph->stream, last, use->access);
	if (status == KILN_OK && use->written) {
		track->writer.seq = graph->prepared ? last
						    : first + use->last_write;
		track->unrun = false;
		__atomic_store_n(&track->op, use->op, __ATOMIC_RELAXED);
	}
	kilni_spin_unlock(&track->lock);
	return status;
}

static enum kiln_status note_all(struct kilni_graph *graph, uint64_t first,
				 uint64_t last)
{
	enum kiln_status status;

	kilni_spin_lock(&graph->self.lock);
	status = kilni_track_use(&graph->self, graph->stream, last,
				 KILNI_READ);
	kilni_spin_unlock(&graph->self.lock);
	for (unsigned i = 0; i < graph->uses && status == KILN_OK; i++)
		status = note(graph, &graph->use[i], first, last);
	return status;
}

/* ---- as one entry ---- */

static bool is_named(const struct kilni_entry *entry,
		     const struct kilni_use *writer)
{
	for (uint64_t i = 0; i < entry->params.graph.writers; i++)
		if (entry->params.graph.writer[i].writer == writer->stream &&
		    entry->params.graph.writer[i].seq == writer->seq)
			return true;
	return false;
}

static void name_writer(struct kilni_entry *entry,
			const struct kilni_use *writer)
{
	uint64_t i = entry->params.graph.writers++;

	entry->params.graph.writer[i].writer = writer->stream;
	entry->params.graph.writer[i].seq = writer->seq;
}

static enum kiln_status reserve(struct kilni_stream *stream, void *graph,
				struct kilni_entry **out)
{
	struct kilni_entry *entry;

	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	entry->kind = KILNI_ENTRY_GRAPH;
	entry->kernel = 0;
	entry->op = 0;
	entry->operands = 0;
	entry->params.graph.graph = graph;
	entry->params.graph.writers = 0;
	*out = entry;
	return KILN_OK;
}

/*
 * Names a writer in the reserved entry. Where it is full it goes ahead without
 * a graph, and the next one names it in turn.
 */
static enum kiln_status add_writer(struct kilni_graph *graph,
				   struct kilni_entry **entry,
				   const struct kilni_use *writer)
{
	struct kilni_stream *stream = graph->stream;
	struct kilni_use join = { stream, (*entry)->seq };

	if (is_named(*entry, writer))
		return KILN_OK;
	if ((*entry)->params.graph.writers < KILNI_GRAPH_WRITERS) {
		name_writer(*entry, writer);
		return KILN_OK;
	}
	(*entry)->params.graph.graph = NULL;
	kilni_ring_commit(stream);
	KILNI_TRY(reserve(stream, graph->prepared, entry));
	name_writer(*entry, &join);
	name_writer(*entry, writer);
	return KILN_OK;
}

/*
 * What is pending may still fail. What is done is only named where it has
 * failed since it was looked at; a failure is there before that is done.
 */
static bool may_fail(const struct kilni_use *writer)
{
	struct cause cause;

	return writer->stream &&
	       (!use_done(writer) || kilni_failure_find(writer, &cause));
}

static enum kiln_status add_writers(struct kilni_graph *graph,
				    struct kilni_entry **entry)
{
	for (unsigned i = 0; i < graph->uses; i++) {
		struct kilni_track *track = graph->use[i].track;
		struct kilni_use writer;

		if (!(graph->use[i].access & KILNI_READ))
			continue;
		kilni_spin_lock(&track->lock);
		writer = track->writer;
		kilni_spin_unlock(&track->lock);
		if (may_fail(&writer))
			KILNI_TRY(add_writer(graph, entry, &writer));
	}
	return KILN_OK;
}

static enum kiln_status append_prepared(struct kilni_graph *graph,
					struct replay *replay)
{
	struct kilni_entry *entry;
	enum kiln_status status;

	KILNI_TRY(reserve(graph->stream, graph->prepared, &entry));
	KILNI_TRY(add_writers(graph, &entry));
	entry->op = graph->op;
	entry->user = replay->serial = graph->stream->work + 1;
	entry->params.graph.seed = replay->seed;
	entry->params.graph.counter = replay->counter;
	status = note_all(graph, entry->seq, entry->seq);
	if (status == KILN_OK)
		kilni_ring_commit(graph->stream);
	else
		kilni_ring_commit_nothing(graph->stream, entry);
	return status;
}

/* ---- entry by entry ---- */

/* Whoever wrote the operand: an entry of this replay, or what came before. */
static void set_writer(const struct kilni_graph *graph,
		       struct kilni_operand *operand, uint64_t first)
{
	uint64_t from = operand->writer_seq;
	struct kilni_use writer = { graph->stream, first + from - 1 };

	if (!from)
		writer.stream = NULL;
	else if (from & KILNI_BEFORE)
		writer = graph->use[from & ~KILNI_BEFORE].before;
	operand->writer = writer.stream;
	operand->writer_seq = writer.seq;
}

static void copy_entry(const struct kilni_graph *graph, struct kilni_entry *to,
		       const struct kilni_entry *from, uint64_t first)
{
	uint64_t seq = to->seq;

	memcpy(to, from,
	       offsetof(struct kilni_entry, params) + from->params_bytes);
	to->seq = seq;
	to->user = graph->stream->work + 1;
	for (unsigned i = 0; i < to->operands; i++)
		set_writer(graph, &to->operand[i], first);
}

static void keep_writers(struct kilni_graph *graph)
{
	for (unsigned i = 0; i < graph->uses; i++) {
		struct kilni_graph_use *use = &graph->use[i];

		kilni_spin_lock(&use->track->lock);
		use->before = use->track->writer;
		kilni_spin_unlock(&use->track->lock);
	}
}

static enum kiln_status append_each(struct kilni_graph *graph,
				    struct replay *replay)
{
	struct kilni_stream *stream = graph->stream;
	struct kilni_entry draw = {
		.params.graph = { .seed = replay->seed,
				  .counter = replay->counter }
	};
	uint64_t first = stream->tail + 1;
	enum kiln_status status;

	KILNI_TRY(kilni_ring_provide(stream, graph->entries));
	keep_writers(graph);
	status = note_all(graph, first, first + graph->entries - 1);
	replay->serial = stream->work + 1;
	for (unsigned i = 0; i < graph->entries; i++) {
		struct kilni_entry *entry;

		/* There is room. */
		KILNI_TRY(kilni_ring_reserve(stream, &entry));
		if (status != KILN_OK) {
			kilni_ring_commit_nothing(stream, entry);
			continue;
		}
		copy_entry(graph, entry, graph->entry[i], first);
		draw.seq = entry->seq;
		kilni_graph_patch(&draw, entry);
		kilni_ring_commit(stream);
	}
	return status;
}

/* ---- the replay ---- */

static enum kiln_status submit_locked(struct kilni_graph *graph,
				      struct replay *replay)
{
	KILNI_TRY(check(graph));
	if (!graph->entries)
		return KILN_OK;
	return graph->prepared ? append_prepared(graph, replay)
			       : append_each(graph, replay);
}

static enum kiln_status submit(struct kilni_graph *graph,
			       struct replay *replay)
{
	struct kilni_stream *stream = graph->stream;
	enum kiln_status status;

	pthread_mutex_lock(&stream->append);
	status = submit_locked(graph, replay);
	pthread_mutex_unlock(&stream->append);
	/*
	 * Also what has failed: somebody may wait for a use that was noted. A
	 * refusal is the stream's error and waits there to be reported.
	 */
	if (kilni_ring_hand_on(stream) == KILN_ERR_DEVICE_LOST)
		return kilni_sched_alive(stream->sched);
	return status;
}

static enum kiln_status submit_traced(struct kilni_graph *graph,
				      struct replay *replay)
{
	struct kilni_trace_record record = { .op = graph->op,
					     .begin_ns = kilni_now_ns() };

	record.status = submit(graph, replay);
	record.of.serial = replay->serial;
	kilni_stream_trace(graph->stream, &record);
	return (enum kiln_status)record.status;
}

enum kiln_status kilni_graph_submit(struct kilni_graph *graph, uint64_t seed,
				    uint64_t counter)
{
	struct replay replay = { .seed = seed, .counter = counter };

	if (kilni_is_traced() && graph->op)
		return submit_traced(graph, &replay);
	return submit(graph, &replay);
}
