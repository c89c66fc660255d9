/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SCHED_INTERNAL_H
#define KILNI_SCHED_INTERNAL_H

#include "sched/sched.h"

#include <pthread.h>

/* Most streams of a device. */
#define STREAMS_MAX 1024

/* Why entries failed: the number of a cause of the stream where it lies. */
struct cause {
	struct kilni_stream *stream;
	uint64_t number;
};

/* A run of entries of one stream that failed of one cause. */
struct failure {
	uint64_t first, last;
	struct cause cause;
};

/* The thread that moves data which the host cannot address. */
struct kilni_mover {
	pthread_mutex_t lock;        /* also of making companions */
	pthread_cond_t wanted;
	pthread_t thread;
	bool started, stop;          /* stop: once all is done */
	int ended;                   /* atomic: the thread */
	struct kilni_move *first, **last;
};

/* Who hands queued work to the driver, and when; see submitter.c. */
struct kilni_submitter {
	unsigned every;              /* entries that a stream gathers ... */
	unsigned most;               /* ... where the device is behind */
	bool started;                /* a thread does it */
	pthread_t thread;
	uint64_t spin_ns;
	int stop, sleeping, ended;   /* atomic */
	uint32_t word;               /* futex */
	struct kilni_stream *shown;  /* atomic */
};

struct kilni_recorder;

struct kilni_stream {
	struct kilni_sched *sched;
	struct kilni_queue *queue;
	void *owner;
	int holders;                 /* atomic: who keeps the slot */
	bool taken;
	bool wrapped;                /* its queue is native, and stays so */
	void *native;
	int priority;
	bool moves;                  /* is a companion; see move.c */
	struct kilni_stream *companion; /* atomic: NULL until needed */

	int is_shown;                /* atomic: in the submitter's list */
	struct kilni_stream *next_shown;

	/* Under the append lock. */
	pthread_mutex_t append;
	struct kilni_chunk *chunk;
	unsigned fill;
	unsigned chunks;
	uint64_t tail;               /* atomic: last appended */
	uint64_t work;               /* kernels, queued or not, and what waits */
	uint64_t gathered;           /* work items since it was last due */
	uint64_t wanted;             /* atomic: somebody waits for it */
	struct kilni_use waited[4];  /* what has a WAIT on it, of the latest */
	unsigned next_waited;
	struct kilni_recorder *recorder; /* of a graph, or NULL */

	/* Chunks that the driver gave back, under their own spin lock. */
	int spare_lock;
	struct kilni_chunk *spare;
	struct kilni_chunk *oldest;  /* the driver has not given it back */

	/* Under the drain lock. */
	pthread_mutex_t drain;
	uint64_t submitted;          /* atomic: what the driver took */

	/* Under the scheduler's failure lock. */
	struct failure *failures;
	size_t failure_count, failure_capacity;
	int poisoned;                /* atomic */
	uint64_t causes;             /* so many there have been */
	uint64_t origin_first, origin_last; /* what failed of the last one */
	bool reported;               /* the last one of them */
	enum kiln_status status;
	char message[256];
};

struct kilni_sched {
	struct kilni_hw *hw;
	struct kilni_pools *pools;
	uint64_t ring_limit;
	int suspect;                 /* atomic: anything has ever failed */
	int lost;                    /* atomic */
	int watches_exit;            /* atomic; see leave.c */
	uint64_t sampled_ns;         /* atomic: when a trace last got memory */

	pthread_mutex_t signals;     /* of the list */
	struct kilni_signal *signal; /* armed and not fired */

	pthread_mutex_t slots;
	struct kilni_stream *stream[STREAMS_MAX];
	unsigned streams;            /* atomic */

	pthread_mutex_t failure;

	struct kilni_submitter submitter;
	struct kilni_mover mover;
	struct kilni_stream *companion; /* atomic: where none is waited for */
};

static inline const struct kilni_queue_ops *
queue_ops(const struct kilni_stream *stream)
{
	return stream->sched->hw->driver->queue;
}

static inline uint64_t stream_tail(const struct kilni_stream *stream)
{
	return __atomic_load_n(&stream->tail, __ATOMIC_ACQUIRE);
}

static inline uint64_t stream_completed(const struct kilni_stream *stream)
{
	return queue_ops(stream)->completed(stream->queue);
}

/* The driver may have found it in a call that no stream made. */
static inline bool sched_lost(const struct kilni_sched *sched)
{
	return __atomic_load_n(&sched->lost, __ATOMIC_ACQUIRE) ||
	       kilni_hw_lost(sched->hw);
}

/* Whether it takes work; kilni_stream_usable tells why not. */
static inline bool stream_usable(const struct kilni_stream *stream)
{
	return !sched_lost(stream->sched) &&
	       !__atomic_load_n(&stream->poisoned, __ATOMIC_ACQUIRE);
}

/* Whether what comes on the stream is behind the use as it is. */
static inline bool has_waited(const struct kilni_stream *stream,
			      const struct kilni_use *use)
{
	for (unsigned i = 0; i < KILNI_COUNTOF(stream->waited); i++)
		if (stream->waited[i].stream == use->stream)
			return stream->waited[i].seq >= use->seq;
	return false;
}

static inline bool use_done(const struct kilni_use *use)
{
	return stream_completed(use->stream) >= use->seq;
}

/* ---- ring.c ---- */

/* A chunk behind the last one, which is full; the append lock is held. */
enum kiln_status kilni_ring_extend(struct kilni_stream *stream);

/* Room for one entry, its seq set; the append lock is held. */
static inline enum kiln_status kilni_ring_reserve(struct kilni_stream *stream,
						  struct kilni_entry **out)
{
	if (KILNI_UNLIKELY(stream->fill == KILNI_CHUNK_ENTRIES))
		KILNI_TRY(kilni_ring_extend(stream));
	*out = &stream->chunk->entry[stream->fill];
	(*out)->seq = stream->tail + 1;
	return KILN_OK;
}

/* Makes the reserved entry part of the stream. */
static inline void kilni_ring_commit(struct kilni_stream *stream)
{
	const struct kilni_entry *entry = &stream->chunk->entry[stream->fill++];

	stream->work += entry->kind != KILNI_ENTRY_CALL &&
			entry->kind != KILNI_ENTRY_CLOCK;
	__atomic_store_n(&stream->tail, stream->tail + 1, __ATOMIC_RELEASE);
}

/* The same for an entry that shall do nothing. */
void kilni_ring_commit_nothing(struct kilni_stream *stream,
			       struct kilni_entry *entry);
/* Sees to it that so many more entries can be reserved. */
enum kiln_status kilni_ring_provide(struct kilni_stream *stream,
				    unsigned entries);
/* Appends a WAIT for use and hands use's stream to the driver. */
enum kiln_status kilni_ring_wait_for(struct kilni_stream *stream,
				     const struct kilni_use *use);
/* Makes a reserved entry a call. */
static inline void kilni_ring_call(struct kilni_entry *entry,
				   void (*call)(void *data, void *user),
				   void *data, void *user)
{
	entry->kind = KILNI_ENTRY_CALL;
	entry->operands = 0;
	entry->params.call.call = call;
	entry->params.call.data = data;
	entry->params.call.user = user;
}

void kilni_ring_chunk_done(void *context, struct kilni_chunk *chunk);
enum kiln_status kilni_ring_init(struct kilni_stream *stream);
void kilni_ring_fini(struct kilni_stream *stream);
/* Hands everything appended so far to the driver. */
enum kiln_status kilni_ring_drain(struct kilni_stream *stream);
/* The same for a caller that succeeds all the same: the record stays. */
enum kiln_status kilni_ring_drain_quietly(struct kilni_stream *stream);
/*
 * The same where nobody waits for it: a submission thread is left to do it.
 * Gives KILN_OK, or what kilni_ring_drain_quietly gives.
 */
enum kiln_status kilni_ring_hand_on(struct kilni_stream *stream);
/* Drains and waits until seq has completed. */
enum kiln_status kilni_ring_wait(struct kilni_stream *stream, uint64_t seq);

/* ---- submit.c ---- */

/* Appends events for what the access waits for; the append lock is held. */
enum kiln_status kilni_track_order(struct kilni_track *track,
				   struct kilni_stream *stream,
				   uint32_t access);
/*
 * Notes the access of the entry that will be seq, and tells who wrote before
 * it; the append lock is held.
 */
enum kiln_status kilni_track_note(struct kilni_track *track,
				  struct kilni_stream *stream, uint64_t seq,
				  uint32_t access, struct kilni_use *writer);

/* ---- failure.c ---- */

/* Whether anything of the stream behind after, up to upto, has failed. */
bool kilni_failure_between(struct kilni_stream *stream, uint64_t after,
			   uint64_t upto);
/* Marks first..last of stream failed of that cause. */
void kilni_failure_mark(struct kilni_stream *stream, uint64_t first,
			uint64_t last, struct cause cause);
/* Whether the point failed, and of what. */
bool kilni_failure_find(const struct kilni_use *use, struct cause *cause);
/*
 * Poisons the stream and gives the number of its cause, of which first to last
 * failed; while it is poisoned the first one stays.
 */
struct cause kilni_failure_cause(struct kilni_stream *stream, uint64_t first,
				 uint64_t last, enum kiln_status status,
				 const char *message);
/*
 * What became of a point that has completed: the cause's status where it is
 * the cause's own, KILN_ERR_DEPENDENCY where it failed of another. Does not
 * count as a report.
 */
enum kiln_status kilni_failure_outcome(const struct kilni_use *use);
/* Reports the cause where that has not been done; else DEPENDENCY. */
enum kiln_status kilni_failure_report(struct cause cause);
/* Reports the stream's last cause where that has not been done; else OK. */
enum kiln_status kilni_failure_report_once(struct kilni_stream *stream);
/* Fails: only a graph that has not been replayed writes the memory. */
enum kiln_status kilni_failure_unrun(const char *fn,
				     const struct kilni_track *track);
/* KILN_ERR_POISONED with the cause's text, or OK. */
enum kiln_status kilni_failure_refuse(struct kilni_stream *stream);
enum kiln_status kilni_failure_check(void *context,
				     const struct kilni_entry *entry);
void kilni_failure_of_entry(void *context, const struct kilni_entry *entry,
			    enum kiln_status status,
			    const struct kilni_report *report);
/* Notes a lost device; returns status. */
enum kiln_status kilni_sched_note(struct kilni_sched *sched,
				  enum kiln_status status);

/* ---- signal.c ---- */

/* Arms the signal by an appender, which is called with the append lock held. */
enum kiln_status kilni_signal_arm_by(
	struct kilni_stream *stream, struct kilni_signal *signal,
	enum kiln_status (*append)(struct kilni_stream *stream,
				   struct kilni_signal *signal));
/* Makes a reserved entry the one that fires the signal. */
void kilni_signal_entry(struct kilni_entry *entry,
			struct kilni_signal *signal);
/* The device is lost: fires what is armed. No lock is held. */
void kilni_signals_fire_all(struct kilni_sched *sched);

/* ---- submitter.c ---- */

/* Reads the options. KILN_ERR_OPTION, KILN_ERR_LIMIT. */
enum kiln_status kilni_submitter_init(struct kilni_submitter *submitter);
void kilni_submitter_stop(struct kilni_submitter *submitter);
/* The process exits: from now on callers submit themselves. */
void kilni_submitter_leave(struct kilni_submitter *submitter);

/* ---- move.c ---- */

void kilni_mover_init(struct kilni_mover *mover);
/* Does what it has left; the thread ends. */
void kilni_mover_stop(struct kilni_mover *mover);
/* The process exits: from now on whoever makes calls moves the data. */
void kilni_mover_leave(struct kilni_mover *mover);
void kilni_mover_fini(struct kilni_mover *mover);

/* ---- leave.c ---- */

/* The scheduler has threads that an exit has to stop; and has none. */
void kilni_sched_watch_exit(struct kilni_sched *sched);
void kilni_sched_forget_exit(struct kilni_sched *sched);
/* Whether *ended has been set, which is waited for that long. */
bool kilni_await_end(const int *ended, uint64_t ns);

#endif
