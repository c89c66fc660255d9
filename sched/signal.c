/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

/*
 * A signal is a call in its stream that fires it. It also hangs in a list, so
 * that a lost device, which makes no more calls, can fire what is left.
 */

static void link_signal(struct kilni_signal *signal)
{
	struct kilni_sched *sched = signal->stream->sched;

	pthread_mutex_lock(&sched->signals);
	signal->before = NULL;
	signal->after = sched->signal;
	if (signal->after)
		signal->after->before = signal;
	sched->signal = signal;
	pthread_mutex_unlock(&sched->signals);
}

static void unlink_signal(struct kilni_signal *signal)
{
	struct kilni_sched *sched = signal->stream->sched;

	pthread_mutex_lock(&sched->signals);
	if (signal->before)
		signal->before->after = signal->after;
	else
		sched->signal = signal->after;
	if (signal->after)
		signal->after->before = signal->before;
	pthread_mutex_unlock(&sched->signals);
}

static void fire_once(struct kilni_signal *signal, enum kiln_status status)
{
	if (!__atomic_exchange_n(&signal->fired, 1, __ATOMIC_SEQ_CST))
		signal->fire(signal, status);
}

/* The list's lock keeps the signals alive meanwhile. */
void kilni_signals_fire_all(struct kilni_sched *sched)
{
	pthread_mutex_lock(&sched->signals);
	for (struct kilni_signal *s = sched->signal; s; s = s->after)
		fire_once(s, KILN_ERR_DEVICE_LOST);
	pthread_mutex_unlock(&sched->signals);
}

/* A point that is no kernel's has not failed, but its stream may have. */
static enum kiln_status outcome(const struct kilni_signal *signal)
{
	enum kiln_status status = kilni_failure_outcome(&signal->at);

	if (kilni_sched_lost(signal->stream->sched))
		return KILN_ERR_DEVICE_LOST;
	return status;
}

static void reach(void *data, void *user)
{
	struct kilni_signal *signal = data;

	(void)user;
	fire_once(signal, outcome(signal));
	unlink_signal(signal);
	signal->release(signal);
}

void kilni_signal_entry(struct kilni_entry *entry,
			struct kilni_signal *signal)
{
	kilni_ring_call(entry, reach, signal, NULL);
}

static enum kiln_status append_signal(struct kilni_stream *stream,
				      struct kilni_signal *signal)
{
	struct kilni_entry *entry;

	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	/* Where no point was given it is the call's own. */
	if (!signal->at.stream)
		signal->at = (struct kilni_use){ stream, entry->seq };
	kilni_signal_entry(entry, signal);
	kilni_ring_commit(stream);
	return KILN_OK;
}

enum kiln_status kilni_signal_arm_by(
	struct kilni_stream *stream, struct kilni_signal *signal,
	enum kiln_status (*append)(struct kilni_stream *stream,
				   struct kilni_signal *signal))
{
	enum kiln_status status;

	KILNI_TRY(kilni_sched_alive(stream->sched));
	signal->stream = stream;
	signal->fired = 0;
	link_signal(signal);
	pthread_mutex_lock(&stream->append);
	status = append(stream, signal);
	pthread_mutex_unlock(&stream->append);
	if (status == KILN_OK) {
		/* Lost in between: nobody else may have seen it. */
		if (kilni_sched_lost(stream->sched))
			kilni_signals_fire_all(stream->sched);
		return KILN_OK;
	}
	unlink_signal(signal);
	if (!__atomic_load_n(&signal->fired, __ATOMIC_SEQ_CST))
		return status;
	signal->release(signal);
	return KILN_OK;
}

enum kiln_status kilni_signal_arm(struct kilni_stream *stream,
				  struct kilni_signal *signal)
{
	signal->at = (struct kilni_use){ NULL, 0 };
	return kilni_signal_arm_by(stream, signal, append_signal);
}

enum kiln_status kilni_signal_arm_track(struct kilni_track *track,
					struct kilni_sched *sched,
					struct kilni_signal *signal)
{
	struct kilni_use writer;
	bool unrun;

	KILNI_TRY(kilni_sched_alive(sched));
	kilni_spin_lock(&track->lock);
	writer = track->writer;
	unrun = track->unrun;
	kilni_spin_unlock(&track->lock);
	if (unrun)
		return kilni_failure_unrun("completion", track);
	if (writer.stream && !use_done(&writer)) {
		struct kilni_stream *stream = writer.stream;

		signal->at = writer;
		KILNI_TRY(kilni_signal_arm_by(stream, signal, append_signal));
		(void)!kilni_ring_hand_on(stream);
		return KILN_OK;
	}
	signal->at = writer;
	signal->fire(signal, kilni_failure_outcome(&writer));
	signal->release(signal);
	return KILN_OK;
}
