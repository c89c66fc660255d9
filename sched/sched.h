/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SCHED_H
#define KILNI_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "alloc/alloc.h"
#include "drivers/driver.h"

/*
 * Streams of a device: submission rings in front of the driver's queues, the
 * events between them, and the account of what failed.
 *
 * A stream lives in a slot that is never freed before its device, and its
 * sequence numbers only grow; so a (stream, seq) pair names a point in the
 * device's history for ever. A slot whose owner is gone is given to the next
 * one that asks.
 *
 * Locks, in the order in which they are taken: the pools' lock, a stream's
 * append lock, a stream's drain lock, the failure lock.
 */

struct kilni_sched;
struct kilni_stream;

/* Opens queues on hw and makes the device's pools. */
enum kiln_status kilni_sched_create(struct kilni_sched **out,
				    struct kilni_hw *hw);

/* Waits for all work, then frees streams and pools; hw stays open. */
void kilni_sched_destroy(struct kilni_sched *sched);

struct kilni_pools *kilni_sched_pools(struct kilni_sched *sched);

/* ---- streams ---- */

/* Takes a slot of that enum kiln_priority. KILN_ERR_LIMIT, KILN_ERR_NO_MEMORY, driver errors. */
enum kiln_status kilni_stream_acquire(struct kilni_sched *sched, int priority,
				      struct kilni_stream **out);
int kilni_stream_priority(const struct kilni_stream *stream);

/*
 * The slot that stands for a stream of the vendor's library, for ever: it is
 * given to nobody else. KILN_ERR_INVALID where it is held already.
 */
enum kiln_status kilni_stream_wrap(struct kilni_sched *sched, void *native,
				   struct kilni_stream **out);

/* One more holder of a slot that is held. */
void kilni_stream_hold(struct kilni_stream *stream);

/*
 * One holder less; the last one hands queued work to the driver and gives the
 * slot back.
 */
void kilni_stream_return(struct kilni_stream *stream);

/* A word that belongs to whoever holds the slot, for lib/. */
void **kilni_stream_owner(struct kilni_stream *stream);

/* The stream's number in a trace. */
uint32_t kilni_stream_number(const struct kilni_stream *stream);

/* ---- storages ---- */

/*
 * What the scheduler keeps about a piece of device memory: who wrote it last
 * and which streams still use it.
 */
struct kilni_track {
	int lock;
	int busy;                   /* atomic; 0: no writer, no uses */
	uint32_t count, capacity;
	uint32_t op;                /* atomic: what wrote it, or KILNI_OP_NONE */
	bool unrun;                 /* that was captured and has not run */
	struct kilni_use writer;    /* stream NULL: nobody yet */
	struct kilni_use near[2];   /* uses, until there are more */
	struct kilni_use *uses;     /* near, or an array of its own */
};

void kilni_track_init(struct kilni_track *track);
/*
 * The memory was taken for stream, whose earlier work may still use it: another
 * stream that writes it first has to wait for that.
 */
void kilni_track_born(struct kilni_track *track, struct kilni_stream *stream);
/*
 * Everything queued on stream until now may use the memory. Where there is no
 * host memory to note that in, it is waited for.
 */
void kilni_track_touch(struct kilni_track *track, struct kilni_stream *stream);
/* Frees what the track holds; the uses must have been handed on. */
void kilni_track_fini(struct kilni_track *track);

/* ---- submission ---- */

/*
 * An entry to be queued and the tracks of its operands, in their order. Kind,
 * kernel, op and the parameters are set by the caller; operands are added.
 */
struct kilni_job {
	struct kilni_entry entry;
	struct kilni_track *track[KILNI_OPERANDS_MAX];
	uint8_t first[KILNI_OPERANDS_MAX]; /* operand in the same storage */
	uint8_t whole[KILNI_OPERANDS_MAX]; /* of a first one: all accesses */
};

static inline void kilni_job_add(struct kilni_job *job,
				 struct kilni_track *track, uint64_t address,
				 uint64_t bytes, uint32_t access)
{
	unsigned i = job->entry.operands++, first = 0;
	struct kilni_operand *operand = &job->entry.operand[i];

	operand->address = address;
	operand->bytes = bytes;
	operand->access = access;
	job->track[i] = track;
	while (job->track[first] != track)
		first++;
	job->first[i] = (uint8_t)first;
	job->whole[i] = 0;
	job->whole[first] |= (uint8_t)access;
}

/*
 * Queues the job on stream, behind events for what its operands wait for on
 * other streams, or runs it at once where it is small and nothing is pending.
 * On failure nothing is queued. KILN_ERR_DEPENDENCY: an operand is known to
 * have failed. KILN_ERR_POISONED, KILN_ERR_BUSY, KILN_ERR_DEVICE_LOST,
 * KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_submit(struct kilni_stream *stream,
			      struct kilni_job *job);

/*
 * Has call(data, user) made once all uses of the track have completed: now
 * where they have, else by the driver. Never fails.
 */
void kilni_call_after(struct kilni_track *track,
		      void (*call)(void *data, void *user), void *data,
		      void *user);

/* Holds the stream until *gate is not 0 (kilni_gate_open). For tests. */
enum kiln_status kilni_stream_gate(struct kilni_stream *stream,
				   const int *gate);

/* ---- signals ---- */

/*
 * Something to be done once, when a stream has got to a point, or when the
 * device is lost. Embedded in what it is for.
 */
struct kilni_signal {
	struct kilni_signal *before, *after; /* the device's pending ones */
	struct kilni_stream *stream;
	struct kilni_use at;        /* the point; its outcome is the signal's */
	/*
	 * Called once, on any thread, before release. Where the device is lost
	 * the lock of the pending ones may be held; else none of the scheduler.
	 */
	void (*fire)(struct kilni_signal *signal, enum kiln_status status);
	/* The scheduler needs it no more. */
	void (*release)(struct kilni_signal *signal);
	int fired;                  /* atomic */
};

/*
 * Arms the signal behind everything submitted to the stream so far; at is
 * where the stream then is. fire and release are set by the caller. On failure
 * neither is called.
 */
enum kiln_status kilni_signal_arm(struct kilni_stream *stream,
				  struct kilni_signal *signal);

/*
 * Arms it behind the last write of what the track belongs to; where that is
 * done already fire and release have been called at return.
 */
enum kiln_status kilni_signal_arm_track(struct kilni_track *track,
					struct kilni_sched *sched,
					struct kilni_signal *signal);

/* ---- moves ---- */

/* One storage of a move. */
struct kilni_move_item {
	struct kilni_track *track;
	uint32_t access;            /* a part that is written is read too */
	struct kilni_use writer;    /* of the scheduler: who wrote before */
};

/*
 * Bytes that go between the host and storages in their turn: behind what the
 * storages wait for, and before what uses them later. Embedded in what it is
 * for. All items are read, or all written.
 */
struct kilni_move {
	struct kilni_signal signal;
	struct kilni_move *next;
	uint64_t seq;               /* of the entry that counts as the use */
	int gate;
	bool handed, queued;
	/* Set by the caller; the items live until end. */
	bool direct;                /* the host can address the memory */
	struct kilni_move_item *item;
	size_t items;
	/* Moves the bytes; any thread. */
	enum kiln_status (*run)(struct kilni_move *move);
	/*
	 * Called once, on any thread, with the outcome; where that is another's
	 * failure, failed is the item, else as many as there are. May be called with a lock of the
	 * scheduler held.
	 */
	void (*done)(struct kilni_move *move, enum kiln_status status);
	size_t failed;
	/* Frees it. */
	void (*end)(struct kilni_move *move);
};

/*
 * Queues the move; the storages need not outlive the call. On failure nothing
 * is called. Never waits. KILN_ERR_BUSY, KILN_ERR_LIMIT (no stream or thread
 * is left), KILN_ERR_NO_MEMORY, KILN_ERR_DEVICE_LOST.
 */
enum kiln_status kilni_move_arm(struct kilni_sched *sched,
				struct kilni_move *move);

/* Whether the access has something to wait for. */
bool kilni_move_pending(const struct kilni_move_item *item);

/* Orders what comes next on stream behind the point. */
enum kiln_status kilni_stream_wait_use(struct kilni_stream *stream,
				       const struct kilni_use *use);

/* The numbers of the last entry submitted and of the last one completed. */
uint64_t kilni_stream_position(const struct kilni_stream *stream);
uint64_t kilni_stream_progress(const struct kilni_stream *stream);

/* ---- moments ---- */

/* A place in a stream: the last number and so much work are before it. */
struct kilni_moment {
	uint64_t seq, work;
};

/*
 * Has the device's clock noted in the stamp when it has done what is on the
 * stream so far; at is where that is. The stamp is PENDING and its function
 * set; on failure that is not called. Queued work is not handed over.
 * KILN_ERR_POISONED, KILN_ERR_BUSY, KILN_ERR_DEVICE_LOST, KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_stream_stamp(struct kilni_stream *stream,
				    struct kilni_stamp *stamp,
				    struct kilni_moment *at);

/* Where the stream is now; the same errors where it can get no stamp. */
enum kiln_status kilni_stream_here(struct kilni_stream *stream,
				   struct kilni_moment *at);

/* Whether anything of the stream between the two has failed. */
bool kilni_stream_failed_between(struct kilni_stream *stream,
				 const struct kilni_moment *begin,
				 const struct kilni_moment *end);

/* ---- waiting ---- */

/* Hands queued work to the driver. KILN_ERR_POISONED, driver errors. */
enum kiln_status kilni_stream_drain(struct kilni_stream *stream);

/* The same for a poisoned stream too: what it still has may be waited for. */
enum kiln_status kilni_stream_push(struct kilni_stream *stream);

/* Drains, waits for all, reports the stream's error once. */
enum kiln_status kilni_stream_finish(struct kilni_stream *stream);

/* Drains, waits, makes a poisoned stream usable. */
enum kiln_status kilni_stream_clear(struct kilni_stream *stream);

bool kilni_stream_is_poisoned(const struct kilni_stream *stream);

/* Whether it takes work: KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST. */
enum kiln_status kilni_stream_usable(struct kilni_stream *stream);

/* What a poisoned stream failed of; no report. Else KILN_OK. */
enum kiln_status kilni_stream_failure(struct kilni_stream *stream);

/* Whether the stream's queue is empty and everything has completed. */
bool kilni_stream_idle(const struct kilni_stream *stream);

/* Waits for the last writer; tells whether what it wrote is good. */
enum kiln_status kilni_track_wait(struct kilni_track *track);

/* Hands the last writer to the driver. */
void kilni_track_push(struct kilni_track *track);

/*
 * Waits for all uses of memory that only the caller knows: afterwards the host
 * may write it. What that work ended with is not told. Driver errors.
 */
enum kiln_status kilni_track_wait_uses(struct kilni_track *track);

/* All streams: drain; drain and wait. */
enum kiln_status kilni_sched_drain(struct kilni_sched *sched);
enum kiln_status kilni_sched_finish(struct kilni_sched *sched);

/* KILN_ERR_DEVICE_LOST where the device is lost. */
enum kiln_status kilni_sched_alive(struct kilni_sched *sched);

/* Whether the device is lost. */
bool kilni_sched_lost(const struct kilni_sched *sched);

#endif
