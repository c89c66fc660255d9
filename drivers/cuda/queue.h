/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_QUEUE_H
#define KILNI_CUDA_QUEUE_H

#include "drivers/cuda/internal.h"

/*
 * Entries go through two walks over the same chunks. The first one puts them
 * on the stream (issue.c). Now and then comes a mark (mark.c): the stream
 * writes their number into pinned memory and an event is recorded. The second
 * walk (retire.c) follows what the device has done, tells the scheduler what failed
 * and gives chunks back. Any thread that asks for the state of the queue may
 * retire; callbacks are called without a lock, and one that comes back here
 * finds the queue retiring and takes it as it is.
 *
 * A mark costs as much as a launch, so that it is made when somebody wants it:
 * a thread or a queue that waits, whoever asks some time after the last entry
 * was issued, or an entry that needs the host; else behind so many entries as
 * mark_every says, less where the ring is short: it has no room again before.
 *
 * A WAIT becomes an event wait of the stream where the other queue has marked
 * what is waited for, else it holds the queue, as a GATE does. A CALL is the
 * attendant's.
 *
 * A failure found by a kernel is known when it retires; what read its result
 * and is on the device already is marked then, since the scheduler is asked
 * about every kernel again that retires after it.
 *
 * On a lost device everything is walked to the end without a call to the
 * library: kernels fail, calls are made.
 */

/* The driver's notes in an entry: nothing, refused, or -status. */
#define KILNI_CUDA_NOTE(entry) ((entry)->reserved)
#define KILNI_CUDA_REFUSED 255

static inline struct kilni_cuda_queue *
cuda_queue(const struct kilni_queue *queue)
{
	return (struct kilni_cuda_queue *)(uintptr_t)queue;
}

static inline struct kilni_cuda_hw *hw_of(const struct kilni_cuda_queue *queue)
{
	return kilni_cuda_hw(queue->base.hw);
}

static inline bool is_suspect(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(queue->client.suspect, __ATOMIC_ACQUIRE) != 0;
}

static inline uint64_t load_counter(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(queue->counter, __ATOMIC_ACQUIRE);
}

static inline uint64_t load_retired(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(&queue->retired, __ATOMIC_ACQUIRE);
}

static inline struct kilni_cuda_report *
report_at(struct kilni_cuda_queue *queue, uint64_t number)
{
	return &queue->reports[number % KILNI_CUDA_REPORTS];
}

static inline void kilni_cuda_set_notable(struct kilni_cuda_queue *queue,
					  const struct kilni_entry *entry)
{
	/* One that was kept may fail behind later ones. */
	if (entry->seq > __atomic_load_n(&queue->notable, __ATOMIC_RELAXED))
		__atomic_store_n(&queue->notable, entry->seq, __ATOMIC_RELEASE);
}

static inline void kilni_cuda_note_failure(struct kilni_cuda_queue *queue,
					   struct kilni_entry *entry,
					   enum kiln_status status)
{
	if (status == KILN_OK)
		return;
	KILNI_CUDA_NOTE(entry) = (uint8_t)-status;
	kilni_cuda_set_notable(queue, entry);
}

/* ---- batch.c: launches that go together ---- */

/* NULL: no memory. */
struct kilni_cuda_batch *
kilni_cuda_batch_create(struct kilni_cuda_queue *queue);
/* Of NULL too. */
void kilni_cuda_batch_free(struct kilni_cuda_batch *batch);
/* Whether the next one of so many entries is for it. */
bool kilni_cuda_batch_takes(const struct kilni_cuda_batch *batch,
			    uint64_t entries);
/* The kernels that come are this entry's. */
void kilni_cuda_batch_begin(struct kilni_cuda_batch *batch,
			    struct kilni_entry *entry);

/* ---- mark.c ---- */

/* The first ones of a queue; a result. */
int kilni_cuda_marks_init(struct kilni_cuda_queue *queue);
void kilni_cuda_marks_free(struct kilni_cuda_queue *queue);

/*
 * Marks what has been issued. Gives the held queues that may go on, before
 * list. A lost device has passed every mark.
 */
struct kilni_cuda_queue *kilni_cuda_mark(struct kilni_cuda_queue *queue,
					 struct kilni_cuda_queue *list);

/*
 * Somebody waits for seq: it is marked now where all of the queue's entries
 * have been issued, else as soon as it has been issued. Any thread.
 */
void kilni_cuda_want(struct kilni_cuda_queue *queue, uint64_t seq);

static inline uint64_t load_marked(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(&queue->marked, __ATOMIC_ACQUIRE);
}

static inline uint64_t load_wanted(const struct kilni_cuda_queue *queue)
{
	return __atomic_load_n(&queue->wanted, __ATOMIC_ACQUIRE);
}

/* The first mark at or behind seq; the device's lock is held. */
struct kilni_cuda_mark *kilni_cuda_find_mark(struct kilni_cuda_queue *queue,
					     uint64_t seq);

/* The same, of which the caller becomes a user until kilni_cuda_wait_for. */
struct kilni_cuda_mark *kilni_cuda_use_mark(struct kilni_cuda_queue *queue,
					    uint64_t seq);
/* Has the stream wait for the mark; a result. */
int kilni_cuda_wait_for(struct kilni_cuda_hw *hw, cu_stream stream,
			struct kilni_cuda_mark *mark);

/* Events alone tell what is done where streams cannot write. */
void kilni_cuda_poll_marks(struct kilni_cuda_queue *queue);

/* What failed must not be done by halves: the device is lost. */
void kilni_cuda_lose(struct kilni_cuda_hw *hw, int result);

/* ---- retire.c ---- */

enum kiln_status kilni_cuda_queue_wait(struct kilni_queue *queue,
				       uint64_t seq);
uint64_t kilni_cuda_queue_completed(const struct kilni_queue *queue);
/* The device's lock is held; until something may have been marked. */
void kilni_cuda_wait_for_mark(struct kilni_cuda_hw *hw);

#endif
