/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

/*
 * Moments: a stamp is an entry of its kind in the stream. Where all before it
 * is done the driver may stamp at once, as it runs small kernels, so that a
 * window does not push what follows into the queue.
 */

static void fill(struct kilni_entry *entry, struct kilni_stamp *stamp)
{
	entry->kind = KILNI_ENTRY_CLOCK;
	entry->operands = 0;
	entry->params.clock.stamp = stamp;
}

/* KILN_ERR_UNSUPPORTED: not done. */
static enum kiln_status stamp_at_once(struct kilni_stream *stream,
				      struct kilni_stamp *stamp)
{
	struct kilni_report report;
	struct kilni_entry entry;

	if (stream_completed(stream) != stream->tail)
		return KILN_ERR_UNSUPPORTED;
	fill(&entry, stamp);
	return queue_ops(stream)->run_inline(stream->queue, &entry, &report);
}

static enum kiln_status stamp_locked(struct kilni_stream *stream,
				     struct kilni_stamp *stamp,
				     struct kilni_moment *at)
{
	struct kilni_entry *entry;
	enum kiln_status status;

	KILNI_TRY(kilni_stream_usable(stream));
	at->work = stream->work;
	at->seq = stream->tail;
	status = stamp_at_once(stream, stamp);
	if (status != KILN_ERR_UNSUPPORTED)
		return status;
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	fill(entry, stamp);
	at->seq = entry->seq;
	kilni_ring_commit(stream);
	return KILN_OK;
}

enum kiln_status kilni_stream_stamp(struct kilni_stream *stream,
				    struct kilni_stamp *stamp,
				    struct kilni_moment *at)
{
	enum kiln_status status;

	pthread_mutex_lock(&stream->append);
	status = stamp_locked(stream, stamp, at);
	pthread_mutex_unlock(&stream->append);
	return status;
}

enum kiln_status kilni_stream_here(struct kilni_stream *stream,
				   struct kilni_moment *at)
{
	pthread_mutex_lock(&stream->append);
	at->work = stream->work;
	at->seq = stream->tail;
	pthread_mutex_unlock(&stream->append);
	return kilni_stream_usable(stream);
}

bool kilni_stream_failed_between(struct kilni_stream *stream,
				 const struct kilni_moment *begin,
				 const struct kilni_moment *end)
{
	return kilni_failure_between(stream, begin->seq, end->seq);
}
