/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What failed. A failure is a range of sequence numbers of a stream and the
 * stream that holds the cause; a tensor has failed when the point at which it
 * was last written lies in such a range.
 */

static bool same_cause(struct cause a, struct cause b)
{
	return a.stream == b.stream && a.number == b.number;
}

static bool extend_last(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct cause cause)
{
	struct failure *f;

	if (!stream->failure_count)
		return false;
	f = &stream->failures[stream->failure_count - 1];
	if (!same_cause(f->cause, cause) || f->last + 1 != first)
		return false;
	f->last = last;
	return true;
}

/* False: no memory. */
static bool add_failure(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct cause cause)
{
	size_t capacity = stream->failure_capacity * 2 + 8;
	struct failure *grown;

	if (stream->failure_count == stream->failure_capacity) {
		grown = realloc(stream->failures, capacity * sizeof(*grown));
		if (!grown)
			return false;
		stream->failures = grown;
		stream->failure_capacity = capacity;
	}
	stream->failures[stream->failure_count++] =
		(struct failure){ first, last, cause };
	return true;
}

void kilni_failure_mark(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct cause cause)
{
	struct kilni_sched *sched = stream->sched;
	bool marked;

	pthread_mutex_lock(&sched->failure);
	marked = extend_last(stream, first, last, cause) ||
		 add_failure(stream, first, last, cause);
	__atomic_store_n(&sched->suspect, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&sched->failure);
	/* Losing a mark would pass off bad data as good. */
	if (!marked)
		kilni_sched_note(sched, KILN_ERR_DEVICE_LOST);
}

/* Under the failure lock. */
static bool find_locked(const struct kilni_stream *stream, uint64_t seq,
			struct cause *cause)
{
	for (size_t i = stream->failure_count; i-- > 0;)
		if (seq >= stream->failures[i].first &&
		    seq <= stream->failures[i].last) {
			*cause = stream->failures[i].cause;
			return true;
		}
	return false;
}

bool kilni_failure_find(const struct kilni_use *use, struct cause *cause)
{
	struct kilni_stream *stream = use->stream;
	bool found;

	if (!stream ||
	    !__atomic_load_n(&stream->sched->suspect, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&stream->sched->failure);
	found = find_locked(stream, use->seq, cause);
	pthread_mutex_unlock(&stream->sched->failure);
	return found;
}

bool kilni_failure_between(struct kilni_stream *stream, uint64_t after,
			   uint64_t upto)
{
	bool found = false;

	if (!__atomic_load_n(&stream->sched->suspect, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&stream->sched->failure);
	for (size_t i = stream->failure_count; i-- > 0 && !found;)
		found = stream->failures[i].first <= upto &&
			stream->failures[i].last > after;
	pthread_mutex_unlock(&stream->sched->failure);
	return found;
}

struct cause kilni_failure_cause(struct kilni_stream *stream, uint64_t first,
				 uint64_t last, enum kiln_status status,
				 const char *message)
{
	struct cause cause = { stream, 0 };

	pthread_mutex_lock(&stream->sched->failure);
	if (!stream->poisoned) {
		stream->causes++;
		stream->status = status;
		stream->origin_first = first;
		stream->origin_last = last;
		stream->reported = false;
		snprintf(stream->message, sizeof(stream->message), "%s",
			 message);
		__atomic_store_n(&stream->poisoned, 1, __ATOMIC_RELEASE);
	}
	cause.number = stream->causes;
	pthread_mutex_unlock(&stream->sched->failure);
	return cause;
}

/*
 * Copies the cause's text out, if it is still the last one of its stream, and
 * tells whether it was told just now for the first time.
 */
static bool take_cause(struct cause cause, enum kiln_status *status,
		       char *message)
{
	struct kilni_stream *stream = cause.stream;
	bool first = false;

	*message = 0;
	pthread_mutex_lock(&stream->sched->failure);
	if (cause.number == stream->causes && stream->causes) {
		memcpy(message, stream->message, sizeof(stream->message));
		*status = stream->status;
		first = !stream->reported;
		stream->reported = true;
	}
	pthread_mutex_unlock(&stream->sched->failure);
	return first;
}

enum kiln_status kilni_failure_report(struct cause cause)
{
	char message[sizeof(cause.stream->message)];
	enum kiln_status status;

	if (take_cause(cause, &status, message))
		return kilni_fail(status, 0, "%s", message);
	return kilni_fail(KILN_ERR_DEPENDENCY, 0,
			  "depends on an operation that failed%s%s",
			  *message ? ": " : "", message);
}

static struct cause last_cause(struct kilni_stream *stream)
{
	struct cause cause = { stream, 0 };

	pthread_mutex_lock(&stream->sched->failure);
	cause.number = stream->causes;
	pthread_mutex_unlock(&stream->sched->failure);
	return cause;
}

enum kiln_status kilni_failure_outcome(const struct kilni_use *use)
{
	enum kiln_status status = KILN_ERR_DEPENDENCY;
	const struct kilni_stream *stream = use->stream;
	struct cause cause;

	if (!kilni_failure_find(use, &cause))
		return KILN_OK;
	pthread_mutex_lock(&stream->sched->failure);
	if (cause.stream == stream && cause.number == stream->causes &&
	    use->seq >= stream->origin_first &&
	    use->seq <= stream->origin_last)
		status = stream->status;
	pthread_mutex_unlock(&stream->sched->failure);
	return status;
}

enum kiln_status kilni_failure_report_once(struct kilni_stream *stream)
{
	char message[sizeof(stream->message)];
	enum kiln_status status;

	if (!take_cause(last_cause(stream), &status, message))
		return KILN_OK;
	return kilni_fail(status, 0, "%s", message);
}

/* Copies what the stream failed of. */
static enum kiln_status copy_failure(struct kilni_stream *stream,
				     char *message)
{
	enum kiln_status status;

	pthread_mutex_lock(&stream->sched->failure);
	memcpy(message, stream->message, sizeof(stream->message));
	status = stream->status;
	pthread_mutex_unlock(&stream->sched->failure);
	return status;
}

enum kiln_status kilni_stream_failure(struct kilni_stream *stream)
{
	char message[sizeof(stream->message)];
	enum kiln_status status;

	KILNI_TRY(kilni_sched_alive(stream->sched));
	if (!kilni_stream_is_poisoned(stream))
		return KILN_OK;
	status = copy_failure(stream, message);
	return kilni_fail(status, 0, "%s", message);
}

enum kiln_status kilni_failure_unrun(const char *fn,
				     const struct kilni_track *track)
{
	uint32_t op = __atomic_load_n(&track->op, __ATOMIC_RELAXED);

	return kilni_fail(KILN_ERR_CAPTURE, 0,
			  "%s: the result of %s%s was captured in a graph "
			  "that has not been replayed",
			  fn, kilni_op_prefix(op), kilni_op_name(op));
}

enum kiln_status kilni_failure_refuse(struct kilni_stream *stream)
{
	char message[sizeof(stream->message)];

	if (KILNI_LIKELY(!kilni_stream_is_poisoned(stream)))
		return KILN_OK;
	(void)copy_failure(stream, message);
	return kilni_fail(KILN_ERR_POISONED, 0,
			  "stream is poisoned until reset: %s", message);
}

static bool failed_writer(const void *writer, uint64_t seq, struct cause *cause)
{
	const struct kilni_stream *stream = writer;

	return stream && find_locked(stream, seq, cause);
}

static bool failed_graph(const struct kilni_entry *entry, struct cause *cause)
{
	for (uint64_t i = 0; i < entry->params.graph.writers; i++)
		if (failed_writer(entry->params.graph.writer[i].writer,
				  entry->params.graph.writer[i].seq, cause))
			return true;
	return false;
}

static bool failed_operand(const struct kilni_entry *entry, struct cause *cause)
{
	if (entry->kind == KILNI_ENTRY_GRAPH)
		return failed_graph(entry, cause);
	for (unsigned i = 0; i < entry->operands; i++) {
		const struct kilni_operand *o = &entry->operand[i];

		if ((o->access & KILNI_READ) &&
		    failed_writer(o->writer, o->writer_seq, cause))
			return true;
	}
	return false;
}

enum kiln_status kilni_failure_check(void *context,
				     const struct kilni_entry *entry)
{
	struct kilni_stream *stream = context;
	bool known, inherited;
	struct cause cause;

	pthread_mutex_lock(&stream->sched->failure);
	known = find_locked(stream, entry->seq, &cause);
	inherited = !known && failed_operand(entry, &cause);
	pthread_mutex_unlock(&stream->sched->failure);
	if (inherited)
		kilni_failure_mark(stream, entry->seq, entry->seq, cause);
	return known || inherited ? KILN_ERR_DEPENDENCY : KILN_OK;
}

static void describe(char *message, size_t bytes,
		     const struct kilni_entry *entry, enum kiln_status status,
		     const struct kilni_report *report)
{
	const char *prefix = kilni_op_prefix(entry->op);
	const char *name = kilni_ops[entry->op].name;

	if (entry->kind == KILNI_ENTRY_GRAPH)
		snprintf(message, bytes,
			 "kiln_graph_replay: %s (which of the graph's "
			 "operations is not known)",
			 kiln_status_text(status));
	else if (report)
		snprintf(message, bytes, "%s%s: index %lld is outside 0..%lld",
			 prefix, name, (long long)report->value,
			 (long long)report->bound - 1);
	else
		snprintf(message, bytes, "%s%s: %s", prefix, name,
			 kiln_status_text(status));
}

void kilni_failure_of_entry(void *context, const struct kilni_entry *entry,
			    enum kiln_status status,
			    const struct kilni_report *report)
{
	struct kilni_stream *stream = context;
	char message[sizeof(stream->message)];

	describe(message, sizeof(message), entry, status, report);
	kilni_failure_mark(stream, entry->seq, entry->seq,
			   kilni_failure_cause(stream, entry->seq, entry->seq,
					       status, message));
	kilni_sched_note(stream->sched, status);
}

enum kiln_status kilni_sched_note(struct kilni_sched *sched,
				  enum kiln_status status)
{
	if (status == KILN_ERR_DEVICE_LOST &&
	    !__atomic_exchange_n(&sched->lost, 1, __ATOMIC_SEQ_CST))
		kilni_signals_fire_all(sched);
	return status;
}

bool kilni_sched_lost(const struct kilni_sched *sched)
{
	return sched_lost(sched);
}

enum kiln_status kilni_sched_alive(struct kilni_sched *sched)
{
	if (KILNI_LIKELY(!sched_lost(sched)))
		return KILN_OK;
	/* Where no stream has heard of it nobody else tells who waits. */
	kilni_sched_note(sched, KILN_ERR_DEVICE_LOST);
	return kilni_fail(KILN_ERR_DEVICE_LOST, 0, "the device is lost");
}
