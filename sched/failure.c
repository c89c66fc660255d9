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

static bool extend_last(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct kilni_stream *origin)
{
	struct failure *f;

	if (!stream->failure_count)
		return false;
	f = &stream->failures[stream->failure_count - 1];
	if (f->origin != origin || f->last + 1 != first)
		return false;
	f->last = last;
	return true;
}

void kilni_failure_mark(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct kilni_stream *origin)
{
	struct kilni_sched *sched = stream->sched;
	struct failure *grown;
	size_t capacity;

	pthread_mutex_lock(&sched->failure);
	if (extend_last(stream, first, last, origin))
		goto out;
	if (stream->failure_count == stream->failure_capacity) {
		capacity = stream->failure_capacity * 2 + 8;
		grown = realloc(stream->failures, capacity * sizeof(*grown));
		if (!grown) {
			/* Losing a mark would pass off bad data as good. */
			__atomic_store_n(&sched->lost, 1, __ATOMIC_RELEASE);
			goto out;
		}
		stream->failures = grown;
		stream->failure_capacity = capacity;
	}
	stream->failures[stream->failure_count++] =
		(struct failure){ first, last, origin };
out:
	__atomic_store_n(&sched->suspect, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&sched->failure);
}

static struct kilni_stream *find_locked(const struct kilni_stream *stream,
					uint64_t seq)
{
	for (size_t i = stream->failure_count; i-- > 0;)
		if (seq >= stream->failures[i].first &&
		    seq <= stream->failures[i].last)
			return stream->failures[i].origin;
	return NULL;
}

struct kilni_stream *kilni_failure_find(const struct kilni_use *use)
{
	struct kilni_stream *stream = use->stream, *origin;

	if (!stream ||
	    !__atomic_load_n(&stream->sched->suspect, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&stream->sched->failure);
	origin = find_locked(stream, use->seq);
	pthread_mutex_unlock(&stream->sched->failure);
	return origin;
}

void kilni_failure_cause(struct kilni_stream *stream, enum kiln_status status,
			 const char *message)
{
	pthread_mutex_lock(&stream->sched->failure);
	if (!stream->poisoned) {
		stream->cause = status;
		stream->reported = false;
		snprintf(stream->message, sizeof(stream->message), "%s",
			 message);
		__atomic_store_n(&stream->poisoned, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&stream->sched->failure);
}

/* Copies the cause out where it has not been reported yet. */
static bool take_cause(struct kilni_stream *stream, enum kiln_status *status,
		       char *message)
{
	bool taken = false;

	pthread_mutex_lock(&stream->sched->failure);
	if (stream->cause != KILN_OK && !stream->reported) {
		stream->reported = true;
		*status = stream->cause;
		memcpy(message, stream->message, sizeof(stream->message));
		taken = true;
	}
	pthread_mutex_unlock(&stream->sched->failure);
	return taken;
}

enum kiln_status kilni_failure_report_once(struct kilni_stream *stream)
{
	char message[sizeof(stream->message)];
	enum kiln_status status;

	if (!take_cause(stream, &status, message))
		return KILN_OK;
	return kilni_fail(status, 0, "%s", message);
}

enum kiln_status kilni_failure_report(struct kilni_stream *origin)
{
	KILNI_TRY(kilni_failure_report_once(origin));
	return kilni_fail(KILN_ERR_DEPENDENCY, 0,
			  "depends on an operation that failed: %s",
			  origin->message);
}

static struct kilni_stream *failed_operand(const struct kilni_entry *entry)
{
	for (unsigned i = 0; i < entry->operands; i++) {
		const struct kilni_operand *o = &entry->operand[i];
		struct kilni_stream *writer, *origin;

		if (!(o->access & KILNI_READ) || !o->writer)
			continue;
		writer = (struct kilni_stream *)(uintptr_t)o->writer;
		origin = find_locked(writer, o->writer_seq);
		if (origin)
			return origin;
	}
	return NULL;
}

enum kiln_status kilni_failure_check(void *context,
				     const struct kilni_entry *entry)
{
	struct kilni_stream *stream = context, *origin;
	bool known;

	pthread_mutex_lock(&stream->sched->failure);
	known = find_locked(stream, entry->seq) != NULL;
	origin = known ? NULL : failed_operand(entry);
	pthread_mutex_unlock(&stream->sched->failure);
	if (origin)
		kilni_failure_mark(stream, entry->seq, entry->seq, origin);
	return known || origin ? KILN_ERR_DEPENDENCY : KILN_OK;
}

void kilni_failure_of_entry(void *context, const struct kilni_entry *entry,
			    enum kiln_status status,
			    const struct kilni_report *report)
{
	struct kilni_stream *stream = context;
	char message[sizeof(stream->message)];

	if (report)
		snprintf(message, sizeof(message),
			 "kiln_%s: index %lld is outside 0..%lld",
			 kilni_ops[entry->op].name, (long long)report->value,
			 (long long)report->bound - 1);
	else
		snprintf(message, sizeof(message), "kiln_%s: %s",
			 kilni_ops[entry->op].name, kiln_status_text(status));
	kilni_failure_cause(stream, status, message);
	kilni_failure_mark(stream, entry->seq, entry->seq, stream);
	kilni_sched_note(stream->sched, status);
}

enum kiln_status kilni_sched_note(struct kilni_sched *sched,
				  enum kiln_status status)
{
	if (status == KILN_ERR_DEVICE_LOST)
		__atomic_store_n(&sched->lost, 1, __ATOMIC_RELEASE);
	return status;
}

bool kilni_sched_lost(const struct kilni_sched *sched)
{
	return __atomic_load_n(&sched->lost, __ATOMIC_ACQUIRE);
}

enum kiln_status kilni_sched_alive(const struct kilni_sched *sched)
{
	if (KILNI_LIKELY(!kilni_sched_lost(sched)))
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE_LOST, 0, "the device is lost");
}
