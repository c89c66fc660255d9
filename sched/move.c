/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <string.h>

#include "base/spawn.h"

/*
 * A move is a call in a stream that belongs to the scheduler, behind what it
 * waits for there. Where the host can address the memory the call moves the
 * bytes. Else it hands the move to the mover, a thread of the device, and a
 * gate behind it holds the stream until that is done; a second call ends it.
 *
 * Each stream has one companion for the moves that wait for its work, so that
 * moves of one stream are done in their order, and wait for no other's.
 */

/* ---- the mover ---- */

/* How long an exit waits for the moves that it has. */
#define LEAVE_NS 1000000000

static void finish(struct kilni_move *move, enum kiln_status status);

/* Once the gate is open the move may be gone. */
static void do_move(struct kilni_move *move)
{
	finish(move, move->run(move));
	kilni_gate_open(&move->gate);
}

/* The mover's lock is held. */
static struct kilni_move *take_move(struct kilni_mover *mover)
{
	struct kilni_move *move = mover->first;

	if (move)
		mover->first = move->next;
	if (!mover->first)
		mover->last = &mover->first;
	return move;
}

static void *run_mover(void *arg)
{
	struct kilni_mover *mover = arg;
	struct kilni_move *move;

	pthread_mutex_lock(&mover->lock);
	for (;;) {
		while (!mover->first && !mover->stop)
			pthread_cond_wait(&mover->wanted, &mover->lock);
		move = take_move(mover);
		if (!move)
			break;
		pthread_mutex_unlock(&mover->lock);
		do_move(move);
		pthread_mutex_lock(&mover->lock);
	}
	pthread_mutex_unlock(&mover->lock);
	__atomic_store_n(&mover->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void hand_over(struct kilni_move *move)
{
	struct kilni_mover *mover = &move->signal.stream->sched->mover;
	bool gone;

	move->next = NULL;
	pthread_mutex_lock(&mover->lock);
	gone = mover->stop;
	if (!gone) {
		*mover->last = move;
		mover->last = &move->next;
		pthread_cond_signal(&mover->wanted);
	}
	pthread_mutex_unlock(&mover->lock);
	/*
	 * A lost device may still make calls when it closes, and whoever waits
	 * for one when the process exits.
	 */
	if (gone)
		do_move(move);
}

/* The mover's lock is held. */
static enum kiln_status start_mover(struct kilni_mover *mover)
{
	int error;

	if (mover->started || mover->stop)
		return KILN_OK;
	KILNI_TRY(KILNI_FAULT("mover"));
	error = kilni_spawn(&mover->thread, NULL, run_mover, mover);
	if (error)
		return kilni_fail(KILN_ERR_LIMIT, error,
				  "no thread to move data: %s",
				  strerror(error));
	mover->started = true;
	return KILN_OK;
}

void kilni_mover_init(struct kilni_mover *mover)
{
	pthread_mutex_init(&mover->lock, NULL);
	pthread_cond_init(&mover->wanted, NULL);
	mover->last = &mover->first;
}

/* It does what it has, and takes no more. */
static bool tell_to_stop(struct kilni_mover *mover)
{
	bool started;

	pthread_mutex_lock(&mover->lock);
	mover->stop = true;
	started = mover->started;
	pthread_cond_signal(&mover->wanted);
	pthread_mutex_unlock(&mover->lock);
	return started;
}

void kilni_mover_stop(struct kilni_mover *mover)
{
	if (!tell_to_stop(mover))
		return;
	pthread_join(mover->thread, NULL);
	mover->started = false;
}

void kilni_mover_leave(struct kilni_mover *mover)
{
	if (tell_to_stop(mover) &&
	    !pthread_equal(pthread_self(), mover->thread))
		(void)kilni_await_end(&mover->ended, LEAVE_NS);
}

void kilni_mover_fini(struct kilni_mover *mover)
{
	pthread_cond_destroy(&mover->wanted);
	pthread_mutex_destroy(&mover->lock);
}

/* ---- the streams ---- */

static enum kiln_status find_companion(struct kilni_sched *sched,
				       struct kilni_stream **place,
				       struct kilni_stream **out)
{
	enum kiln_status status = KILN_OK;

	*out = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (*out)
		return KILN_OK;
	pthread_mutex_lock(&sched->mover.lock);
	*out = *place;
	if (!*out)
		status = kilni_stream_acquire(sched, KILN_PRIORITY_NORMAL, out);
	if (status == KILN_OK) {
		(*out)->moves = true;
		__atomic_store_n(place, *out, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&sched->mover.lock);
	return status;
}

/* A stream whose work the access still waits for, or NULL. */
static struct kilni_stream *pending_stream(const struct kilni_move_item *item)
{
	struct kilni_track *track = item->track;
	struct kilni_stream *found = NULL;
	uint32_t count;

	kilni_spin_lock(&track->lock);
	if (track->writer.stream && !use_done(&track->writer))
		found = track->writer.stream;
	count = item->access & KILNI_WRITE ? track->count : 0;
	for (uint32_t i = 0; i < count && !found; i++)
		if (!use_done(&track->uses[i]))
			found = track->uses[i].stream;
	kilni_spin_unlock(&track->lock);
	return found;
}

static enum kiln_status choose_stream(struct kilni_sched *sched,
				      const struct kilni_move *move,
				      struct kilni_stream **out)
{
	struct kilni_stream *found = NULL;

	for (size_t i = 0; i < move->items && !found; i++)
		found = pending_stream(&move->item[i]);
	if (!found)
		return find_companion(sched, &sched->companion, out);
	*out = found;
	return found->moves ? KILN_OK
			    : find_companion(sched, &found->companion, out);
}

bool kilni_move_pending(const struct kilni_move_item *item)
{
	return pending_stream(item) != NULL;
}

/* ---- what is done in the stream's turn ---- */

static struct kilni_move *move_of(struct kilni_signal *signal)
{
	return (struct kilni_move *)(void *)((char *)signal -
					     offsetof(struct kilni_move,
						      signal));
}

static bool is_write(const struct kilni_move *move)
{
	return move->items && (move->item[0].access & KILNI_WRITE);
}

/* The stream is the scheduler's own: it goes on. */
static void forgive(struct kilni_stream *stream)
{
	__atomic_store_n(&stream->poisoned, 0, __ATOMIC_RELEASE);
}

/*
 * What is to be read has failed: that is told as a read tells it. A part that
 * is to be written fails with the whole.
 */
static enum kiln_status inherit(struct kilni_move *move, struct cause cause)
{
	if (!is_write(move))
		return kilni_failure_report(cause);
	kilni_failure_mark(move->signal.stream, move->seq, move->seq, cause);
	return KILN_ERR_DEPENDENCY;
}

static enum kiln_status check_items(struct kilni_move *move)
{
	struct cause cause;

	for (size_t i = 0; i < move->items; i++) {
		const struct kilni_move_item *item = &move->item[i];

		if (!(item->access & KILNI_READ) ||
		    !kilni_failure_find(&item->writer, &cause))
			continue;
		move->failed = i;
		return inherit(move, cause);
	}
	return KILN_OK;
}

/* What was to be written is not what it should be. */
static void mark_failed(struct kilni_move *move, enum kiln_status status)
{
	struct kilni_stream *stream = move->signal.stream;
	uint64_t seq = move->seq;

	kilni_failure_mark(stream, seq, seq,
			   kilni_failure_cause(stream, seq, seq, status,
					       kiln_error_message()));
	forgive(stream);
	kilni_sched_note(stream->sched, status);
}

static void finish(struct kilni_move *move, enum kiln_status status)
{
	if (status != KILN_OK && is_write(move))
		mark_failed(move, status);
	move->done(move, status);
}

/* The call was refused: so was what it stands for, under another number. */
static void inherit_refusal(struct kilni_move *move)
{
	const struct kilni_use *at = &move->signal.at;
	struct cause cause;

	if (is_write(move) && move->seq != at->seq &&
	    kilni_failure_find(at, &cause))
		kilni_failure_mark(at->stream, move->seq, move->seq, cause);
	forgive(at->stream);
}

/* The entry's turn has come, and status tells whether that went well. */
static void begin(struct kilni_move *move, enum kiln_status status)
{
	if (status == KILN_OK)
		status = check_items(move);
	else
		inherit_refusal(move);
	move->handed = status == KILN_OK && !move->direct;
	if (status != KILN_OK)
		move->done(move, status);
	else if (move->direct)
		finish(move, move->run(move));
}

/* On a thread that may be a caller's: its error record stays. */
static void fire(struct kilni_signal *signal, enum kiln_status status)
{
	struct kilni_move *move = move_of(signal);
	struct kilni_error_record before;

	kilni_error_save(&before);
	/* The lock of the list may be held; nothing can be waited for. */
	if (status == KILN_ERR_DEVICE_LOST)
		move->done(move, status);
	else
		begin(move, status);
	kilni_error_restore(&before);
}

/* Behind the call that fires, or where it was never queued. */
static void release(struct kilni_signal *signal)
{
	struct kilni_move *move = move_of(signal);

	if (move->direct || !move->queued)
		move->end(move);
	else if (move->handed)
		hand_over(move);
	else
		kilni_gate_open(&move->gate);
}

static void call_end(void *data, void *user)
{
	struct kilni_move *move = data;

	(void)user;
	move->end(move);
}

/* ---- queueing ---- */

/* So that two more entries after the next one cannot be refused. */
static enum kiln_status make_room(struct kilni_stream *stream)
{
	struct kilni_entry *entry;

	while (stream->fill > KILNI_CHUNK_ENTRIES - 3 &&
	       stream->fill < KILNI_CHUNK_ENTRIES) {
		KILNI_TRY(kilni_ring_reserve(stream, &entry));
		kilni_ring_commit_nothing(stream, entry);
	}
	return KILN_OK;
}

/* The gate and the end; there is room. */
static enum kiln_status append_gate(struct kilni_stream *stream,
				    struct kilni_move *move)
{
	struct kilni_entry *entry;

	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	entry->kind = KILNI_ENTRY_GATE;
	entry->op = KILNI_OP_GATE;
	entry->operands = 0;
	entry->params.gate.gate = &move->gate;
	kilni_ring_commit(stream);
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	kilni_ring_call(entry, call_end, move, NULL);
	kilni_ring_commit(stream);
	return KILN_OK;
}

static enum kiln_status append_nothing(struct kilni_stream *stream,
				       enum kiln_status status)
{
	struct kilni_entry *entry;

	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	kilni_ring_commit_nothing(stream, entry);
	return status;
}

/*
 * The uses are noted before the entries are committed. Where that fails
 * halfway the entries do nothing.
 */
static enum kiln_status note_items(struct kilni_stream *stream,
				   struct kilni_move *move)
{
	for (size_t i = 0; i < move->items; i++) {
		struct kilni_move_item *item = &move->item[i];

		KILNI_TRY(kilni_track_note(item->track, stream, move->seq,
					   item->access, &item->writer));
	}
	return KILN_OK;
}

static enum kiln_status append_move(struct kilni_stream *stream,
				    struct kilni_signal *signal)
{
	struct kilni_move *move = move_of(signal);
	struct kilni_entry *entry;
	enum kiln_status status;

	for (size_t i = 0; i < move->items; i++)
		KILNI_TRY(kilni_track_order(move->item[i].track, stream,
					    move->item[i].access));
	if (!move->direct)
		KILNI_TRY(make_room(stream));
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	signal->at = (struct kilni_use){ stream, entry->seq };
	move->seq = entry->seq + (move->direct ? 0 : 1);
	status = note_items(stream, move);
	if (status != KILN_OK) {
		/* Uses of these numbers may have been noted. */
		kilni_ring_commit_nothing(stream, entry);
		return move->direct ? status : append_nothing(stream, status);
	}
	kilni_signal_entry(entry, signal);
	move->queued = true;
	kilni_ring_commit(stream);
	return move->direct ? KILN_OK : append_gate(stream, move);
}

enum kiln_status kilni_move_arm(struct kilni_sched *sched,
				struct kilni_move *move)
{
	struct kilni_stream *stream;
	enum kiln_status status = KILN_OK;

	KILNI_TRY(kilni_sched_alive(sched));
	if (!move->direct) {
		pthread_mutex_lock(&sched->mover.lock);
		status = start_mover(&sched->mover);
		pthread_mutex_unlock(&sched->mover.lock);
		kilni_sched_watch_exit(sched);
	}
	KILNI_TRY(status);
	KILNI_TRY(choose_stream(sched, move, &stream));
	move->gate = 0;
	move->handed = move->queued = false;
	move->failed = move->items;
	move->signal.fire = fire;
	move->signal.release = release;
	status = kilni_signal_arm_by(stream, &move->signal, append_move);
	/*
	 * Also where that failed: somebody may wait for a use that was noted.
	 * A refusal is found out in the stream's turn.
	 */
	(void)!kilni_ring_hand_on(stream);
	return status;
}
