/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <stdlib.h>

void kilni_track_init(struct kilni_track *track)
{
	track->lock = 0;
	track->busy = 0;
	track->op = KILNI_OP_NONE;
	track->unrun = false;
	track->count = 0;
	track->capacity = KILNI_COUNTOF(track->near);
	track->writer = (struct kilni_use){ NULL, 0 };
	track->uses = track->near;
}

void kilni_track_born(struct kilni_track *track, struct kilni_stream *stream)
{
	uint64_t tail = stream_tail(stream);

	if (stream_completed(stream) >= tail)
		return;
	track->uses[track->count++] = (struct kilni_use){ stream, tail };
	track->busy = 1;
}

void kilni_track_fini(struct kilni_track *track)
{
	if (track->uses != track->near)
		free(track->uses);
}

enum kiln_status kilni_track_wait(struct kilni_track *track)
{
	struct kilni_use writer;
	struct cause cause;
	bool unrun;

	kilni_spin_lock(&track->lock);
	writer = track->writer;
	unrun = track->unrun;
	kilni_spin_unlock(&track->lock);
	if (KILNI_UNLIKELY(unrun))
		return kilni_failure_unrun("read", track);
	if (!writer.stream)
		return KILN_OK;
	KILNI_TRY(kilni_ring_wait(writer.stream, writer.seq));
	if (kilni_failure_find(&writer, &cause))
		return kilni_failure_report(cause);
	return KILN_OK;
}

void kilni_track_push(struct kilni_track *track)
{
	struct kilni_use writer;

	kilni_spin_lock(&track->lock);
	writer = track->writer;
	kilni_spin_unlock(&track->lock);
	if (writer.stream && !use_done(&writer))
		(void)!kilni_ring_drain_quietly(writer.stream);
}

enum kiln_status kilni_track_wait_uses(struct kilni_track *track)
{
	for (uint32_t i = 0; i < track->count; i++)
		KILNI_TRY(kilni_ring_wait(track->uses[i].stream,
					  track->uses[i].seq));
	return KILN_OK;
}
