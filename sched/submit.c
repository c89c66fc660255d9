/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/trace.h"

/* ---- uses of a track ---- */

/* A track that only ever met finished work needs no lock. */
static bool is_busy(const struct kilni_track *track)
{
	return __atomic_load_n(&track->busy, __ATOMIC_ACQUIRE);
}

/* Drops uses that have completed; the track's lock is held. */
static void forget_done(struct kilni_track *track)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < track->count; i++)
		if (!use_done(&track->uses[i]))
			track->uses[kept++] = track->uses[i];
	track->count = kept;
}

/* Sees to it that one more use fits where all places are taken. */
static enum kiln_status make_room(struct kilni_track *track)
{
	struct kilni_use *grown;
	uint32_t capacity;

	forget_done(track);
	if (track->count < track->capacity)
		return KILN_OK;
	capacity = track->capacity * 2;
	grown = malloc(capacity * sizeof(*grown));
	if (!grown)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for %u uses of a tensor",
				  capacity);
	memcpy(grown, track->uses, track->count * sizeof(*grown));
	if (track->uses != track->near)
		free(track->uses);
	track->uses = grown;
	track->capacity = capacity;
	return KILN_OK;
}

/* Notes that the stream uses it up to seq; the track's lock is held. */
static enum kiln_status add_use(struct kilni_track *track,
				struct kilni_stream *stream, uint64_t seq)
{
	for (uint32_t i = 0; i < track->count; i++)
		if (track->uses[i].stream == stream) {
			track->uses[i].seq = seq;
			return KILN_OK;
		}
	if (track->count == track->capacity)
		KILNI_TRY(make_room(track));
	track->uses[track->count++] = (struct kilni_use){ stream, seq };
	__atomic_store_n(&track->busy, 1, __ATOMIC_RELEASE);
	return KILN_OK;
}

void kilni_track_touch(struct kilni_track *track, struct kilni_stream *stream)
{
	uint64_t tail = stream_tail(stream);
	struct kilni_error_record before;
	enum kiln_status status;

	if (stream_completed(stream) >= tail)
		return;
	kilni_error_save(&before);
	kilni_spin_lock(&track->lock);
	status = add_use(track, stream, tail);
	kilni_spin_unlock(&track->lock);
	if (status == KILN_OK)
		return;
	/* On a lost device nothing uses the memory any more. */
	(void)!kilni_ring_wait(stream, tail);
	kilni_error_restore(&before);
}

/* ---- what a job waits for ---- */

static bool is_pending(const struct kilni_use *use,
		       const struct kilni_stream *stream)
{
	return use->stream && use->stream != stream &&
	       !has_waited(stream, use) && !use_done(use);
}

/*
 * The pending use that the access waits for on the next stream behind *use's,
 * in the order of their addresses: so that the lock need not be held, nor the
 * uses copied, while events are appended.
 */
static bool next_pending(struct kilni_track *track,
			 const struct kilni_stream *stream, uint32_t access,
			 struct kilni_use *use)
{
	struct kilni_use next = { NULL, 0 }, candidate;
	uint32_t count;

	kilni_spin_lock(&track->lock);
	count = access & KILNI_WRITE ? track->count : 0;
	for (uint32_t i = 0; i <= count; i++) {
		candidate = i ? track->uses[i - 1] : track->writer;
		if (!is_pending(&candidate, stream) ||
		    candidate.stream <= use->stream ||
		    (next.stream && candidate.stream > next.stream))
			continue;
		if (candidate.stream != next.stream ||
		    candidate.seq > next.seq)
			next = candidate;
	}
	kilni_spin_unlock(&track->lock);
	*use = next;
	return next.stream;
}

enum kiln_status kilni_track_order(struct kilni_track *track,
				   struct kilni_stream *stream,
				   uint32_t access)
{
	struct kilni_use use = { NULL, 0 };

	while (next_pending(track, stream, access, &use))
		KILNI_TRY(kilni_ring_wait_for(stream, &use));
	return KILN_OK;
}

static bool must_wait(const struct kilni_stream *stream,
		      const struct kilni_track *track, uint32_t access)
{
	if (is_pending(&track->writer, stream))
		return true;
	if (access & KILNI_WRITE)
		for (uint32_t i = 0; i < track->count; i++)
			if (is_pending(&track->uses[i], stream))
				return true;
	return false;
}

/* ---- the two ways to run ---- */

enum kiln_status kilni_stream_usable(struct kilni_stream *stream)
{
	KILNI_TRY(kilni_sched_alive(stream->sched));
	return kilni_failure_refuse(stream);
}

/*
 * Who wrote operand i, and whether its storage has to be waited for. What only
 * a graph will write cannot be read.
 */
static enum kiln_status look_at(const struct kilni_stream *stream,
				struct kilni_job *job, unsigned i, bool *waits)
{
	struct kilni_operand *o = &job->entry.operand[i];
	uint32_t access = job->whole[i];
	struct kilni_track *track = job->track[i];
	bool unrun;

	o->writer = NULL;
	if (!is_busy(track))
		return KILN_OK;
	kilni_spin_lock(&track->lock);
	o->writer = track->writer.stream;
	o->writer_seq = track->writer.seq;
	*waits |= must_wait(stream, track, access);
	unrun = track->unrun && (access & KILNI_READ);
	kilni_spin_unlock(&track->lock);
	return KILNI_UNLIKELY(unrun) ? kilni_failure_unrun("an operand", track)
				     : KILN_OK;
}

static enum kiln_status refuse_failed(const struct kilni_entry *entry)
{
	for (unsigned i = 0; i < entry->operands; i++) {
		const struct kilni_operand *o = &entry->operand[i];
		struct kilni_use writer = { (void *)(uintptr_t)o->writer,
					    o->writer_seq };
		struct cause cause;

		if (o->writer && (o->access & KILNI_READ) &&
		    kilni_failure_find(&writer, &cause))
			return kilni_fail(KILN_ERR_DEPENDENCY, 0,
					  "%s%s: an operand depends on an "
					  "operation that failed",
					  kilni_op_prefix(entry->op),
					  kilni_ops[entry->op].name);
	}
	return KILN_OK;
}

/*
 * Copies who wrote the operands into the entry and tells whether any has to be
 * waited for. Refuses operands that have failed.
 */
static enum kiln_status inspect(struct kilni_stream *stream,
				struct kilni_job *job, bool *waits)
{
	struct kilni_entry *entry = &job->entry;

	*waits = false;
	for (unsigned i = 0; i < entry->operands; i++) {
		const struct kilni_operand *first;

		if (job->first[i] == i) {
			KILNI_TRY(look_at(stream, job, i, waits));
			continue;
		}
		first = &entry->operand[job->first[i]];
		entry->operand[i].writer = first->writer;
		entry->operand[i].writer_seq = first->writer_seq;
	}
	if (KILNI_LIKELY(!__atomic_load_n(&stream->sched->suspect,
					  __ATOMIC_ACQUIRE)))
		return KILN_OK;
	return refuse_failed(entry);
}

enum kiln_status kilni_track_use(struct kilni_track *track,
				 struct kilni_stream *stream, uint64_t seq,
				 uint32_t access)
{
	KILNI_TRY(add_use(track, stream, seq));
	if (access & KILNI_WRITE) {
		track->writer = (struct kilni_use){ stream, seq };
		track->unrun = false;
	}
	return KILN_OK;
}

enum kiln_status kilni_track_note(struct kilni_track *track,
				  struct kilni_stream *stream, uint64_t seq,
				  uint32_t access, struct kilni_use *writer)
{
	enum kiln_status status;

	kilni_spin_lock(&track->lock);
	*writer = track->writer;
	status = kilni_track_use(track, stream, seq, access);
	if (access & KILNI_WRITE)
		__atomic_store_n(&track->op, KILNI_OP_COPY_INTO,
				 __ATOMIC_RELAXED);
	kilni_spin_unlock(&track->lock);
	return status;
}

/* Before the entry of that number is committed. */
static enum kiln_status note_uses(struct kilni_stream *stream,
				  struct kilni_job *job, uint64_t seq)
{
	for (unsigned i = 0; i < job->entry.operands; i++) {
		struct kilni_track *track = job->track[i];
		uint32_t access = job->whole[i];
		enum kiln_status status;

		if (job->first[i] != i)
			continue;
		kilni_spin_lock(&track->lock);
		status = kilni_track_use(track, stream, seq, access);
		if (access & KILNI_WRITE)
			__atomic_store_n(&track->op, job->entry.op,
					 __ATOMIC_RELAXED);
		kilni_spin_unlock(&track->lock);
		KILNI_TRY(status);
	}
	return KILN_OK;
}

/* What the calling thread has written is there: nobody to wait for. */
static void note_written(struct kilni_job *job)
{
	for (unsigned i = 0; i < job->entry.operands; i++) {
		struct kilni_track *track = job->track[i];

		if (!(job->entry.operand[i].access & KILNI_WRITE))
			continue;
		__atomic_store_n(&track->op, job->entry.op, __ATOMIC_RELAXED);
		if (!is_busy(track))
			continue;
		kilni_spin_lock(&track->lock);
		track->writer = (struct kilni_use){ NULL, 0 };
		track->unrun = false;
		forget_done(track);
		if (!track->count)
			__atomic_store_n(&track->busy, 0, __ATOMIC_RELEASE);
		kilni_spin_unlock(&track->lock);
	}
}

/* A failure found on the calling thread gets a place in the stream's order. */
static enum kiln_status fail_inline(struct kilni_stream *stream,
				    struct kilni_job *job,
				    enum kiln_status status,
				    const struct kilni_report *report)
{
	struct kilni_entry *entry;
	enum kiln_status noted;

	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	entry->kind = KILNI_ENTRY_KERNEL;
	entry->op = job->entry.op;
	entry->operands = 0;
	/* Uses noted halfway need the entry too. */
	noted = note_uses(stream, job, entry->seq);
	kilni_failure_of_entry(stream, entry, status, report);
	kilni_ring_commit(stream);
	return noted;
}

/* KILN_ERR_UNSUPPORTED: not run, queue it. */
static enum kiln_status try_inline(struct kilni_stream *stream,
				   struct kilni_job *job)
{
	struct kilni_report report = { .position = UINT64_MAX };
	enum kiln_status status;

	status = queue_ops(stream)->run_inline(stream->queue, &job->entry,
					       &report);
	if (status == KILN_ERR_UNSUPPORTED)
		return status;
	if (status == KILN_OK && report.position != UINT64_MAX)
		return fail_inline(stream, job, KILN_ERR_INDEX, &report);
	if (status != KILN_OK)
		return fail_inline(stream, job, status, NULL);
	stream->work++;
	note_written(job);
	return KILN_OK;
}

static void copy_entry(struct kilni_entry *to, const struct kilni_entry *from)
{
	uint64_t seq = to->seq;

	memcpy(to, from, offsetof(struct kilni_entry, operand));
	for (unsigned i = 0; i < from->operands; i++)
		to->operand[i] = from->operand[i];
	memcpy(&to->params, &from->params, from->params_bytes);
	to->seq = seq;
}

/* Work items that may wait for more: some ten microseconds of a GPU. */
#define GATHERED_MOST (1u << 20)
/* Of a run that nobody has waited for, what may wait for more. */
#define RUN_PART 8

static uint64_t items_of(const struct kilni_entry *entry)
{
	if (KILNI_LIKELY(entry->kernel == KILNI_KERNEL_EW))
		return entry->params.ew.count;
	/* What a kernel of the program's does with an element is not known. */
	return entry->kernel == KILNI_KERNEL_CUSTOM ? GATHERED_MOST + 1
						    : kilni_entry_items(entry);
}

static enum kiln_status append(struct kilni_stream *stream,
			       struct kilni_job *job, bool waits)
{
	struct kilni_entry *entry;
	enum kiln_status status;

	for (unsigned i = 0; waits && i < job->entry.operands; i++)
		KILNI_TRY(kilni_track_order(job->track[i], stream,
					    job->entry.operand[i].access));
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	copy_entry(entry, &job->entry);
	stream->gathered += items_of(&job->entry);
	status = note_uses(stream, job, entry->seq);
	if (status == KILN_OK)
		kilni_ring_commit(stream);
	else
		kilni_ring_commit_nothing(stream, entry);
	return status;
}

/* Many have come that nobody waited for: more will, cheaper together. */
static uint64_t share_of_run(const struct kilni_stream *stream,
			     uint64_t submitted)
{
	uint64_t wanted = __atomic_load_n(&stream->wanted, __ATOMIC_RELAXED);
	uint64_t run = submitted > wanted ? submitted - wanted : 0;

	/* A short ring is not full of what has not been handed over. */
	return kilni_min_u64(run, stream->sched->ring_limit) / RUN_PART;
}

/*
 * Whether that is enough for the device, which has the others to do. What may
 * take it long is not held back: nobody may come with more.
 */
static bool is_enough(const struct kilni_stream *stream, uint64_t entries,
		      uint64_t submitted)
{
	const struct kilni_submitter *submitter = &stream->sched->submitter;

	if (entries < submitter->every)
		return false;
	if (entries >= submitter->most || stream->gathered > GATHERED_MOST)
		return true;
	return entries >= (submitted - stream_completed(stream)) / 2 &&
	       entries >= share_of_run(stream, submitted);
}

static bool drain_is_due(struct kilni_stream *stream)
{
	uint64_t submitted = __atomic_load_n(&stream->submitted,
					     __ATOMIC_RELAXED);

	if (stream->tail == submitted)
		return false;
	if (is_enough(stream, stream->tail - submitted, submitted)) {
		stream->gathered = 0;
		return true;
	}
	/* The tail is stored before this looks, as a waiter does the reverse. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&stream->wanted, __ATOMIC_RELAXED) > submitted;
}

static enum kiln_status submit_locked(struct kilni_stream *stream,
				      struct kilni_job *job)
{
	enum kiln_status status;
	bool waits, taken;

	/* Whoever resets it may make it usable meanwhile. */
	if (KILNI_UNLIKELY(!stream_usable(stream)))
		KILNI_TRY(kilni_stream_usable(stream));
	if (KILNI_UNLIKELY(stream->recorder)) {
		KILNI_TRY(kilni_record(stream, job, &taken));
		if (taken)
			return KILN_OK;
	}
	KILNI_TRY(inspect(stream, job, &waits));
	job->entry.user = stream->work + 1;
	if (!waits && stream_completed(stream) == stream->tail) {
		status = try_inline(stream, job);
		if (status != KILN_ERR_UNSUPPORTED)
			return status;
	}
	return append(stream, job, waits);
}

static enum kiln_status submit(struct kilni_stream *stream,
			       struct kilni_job *job)
{
	enum kiln_status status;
	bool drain;

	pthread_mutex_lock(&stream->append);
	status = submit_locked(stream, job);
	drain = drain_is_due(stream);
	pthread_mutex_unlock(&stream->append);
	/* A refusal is the stream's error and waits there to be reported. */
	if (drain && kilni_ring_hand_on(stream) == KILN_ERR_DEVICE_LOST)
		return kilni_sched_alive(stream->sched);
	return status;
}

/* ---- traces ---- */

#define SAMPLE_NS 1000000

/* What the pools hold, now and then. */
static void sample_memory(struct kilni_sched *sched, uint64_t now)
{
	uint64_t last = __atomic_load_n(&sched->sampled_ns, __ATOMIC_RELAXED);

	if (now - last >= SAMPLE_NS &&
	    __atomic_compare_exchange_n(&sched->sampled_ns, &last, now, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		kilni_pools_trace(sched->pools);
}

void kilni_stream_trace(struct kilni_stream *stream,
			struct kilni_trace_record *record)
{
	if (!record->of.serial && record->status == KILN_OK)
		return;
	record->stream = stream->queue->number;
	record->end_ns = kilni_now_ns();
	kilni_trace_write(KILNI_TRACE_SUBMIT, record);
	sample_memory(stream->sched, record->end_ns);
}

static enum kiln_status submit_traced(struct kilni_stream *stream,
				      struct kilni_job *job)
{
	struct kilni_trace_record record = { .op = job->entry.op,
					     .begin_ns = kilni_now_ns() };

	job->entry.user = 0;
	record.status = submit(stream, job);
	record.of.serial = job->entry.user;
	kilni_stream_trace(stream, &record);
	return (enum kiln_status)record.status;
}

enum kiln_status kilni_submit(struct kilni_stream *stream,
			      struct kilni_job *job)
{
	return kilni_is_traced() ? submit_traced(stream, job)
				 : submit(stream, job);
}

enum kiln_status kilni_stream_gate(struct kilni_stream *stream,
				   const int *gate)
{
	struct kilni_entry *entry;
	enum kiln_status status;

	pthread_mutex_lock(&stream->append);
	status = kilni_ring_reserve(stream, &entry);
	if (status == KILN_OK) {
		entry->kind = KILNI_ENTRY_GATE;
		entry->op = KILNI_OP_GATE;
		entry->operands = 0;
		entry->params.gate.gate = gate;
		kilni_ring_commit(stream);
	}
	pthread_mutex_unlock(&stream->append);
	return status;
}

/* ---- calls behind uses ---- */

static enum kiln_status append_call(struct kilni_stream *stream,
				    struct kilni_track *track,
				    void (*call)(void *data, void *user),
				    void *data, void *user)
{
	struct kilni_entry *entry;

	/* A lost device makes what is left of its calls when it closes. */
	if (!kilni_sched_lost(stream->sched))
		KILNI_TRY(kilni_track_order(track, stream, KILNI_WRITE));
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	kilni_ring_call(entry, call, data, user);
	kilni_ring_commit(stream);
	return KILN_OK;
}

void kilni_call_after(struct kilni_track *track,
		      void (*call)(void *data, void *user), void *data,
		      void *user)
{
	struct kilni_stream *stream;
	enum kiln_status status;

	/* The caller is the last owner: nobody else changes the track. */
	forget_done(track);
	if (!track->count) {
		call(data, user);
		return;
	}
	stream = track->uses[0].stream;
	pthread_mutex_lock(&stream->append);
	status = append_call(stream, track, call, data, user);
	pthread_mutex_unlock(&stream->append);
	if (status == KILN_OK) {
		(void)!kilni_ring_hand_on(stream);
		return;
	}
	/* No room to queue it: wait here instead. */
	for (uint32_t i = 0; i < track->count; i++)
		if (kilni_ring_wait(track->uses[i].stream,
				    track->uses[i].seq) != KILN_OK)
			return;
	call(data, user);
}
