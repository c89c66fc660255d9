/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <stdlib.h>

/*
 * The submission ring of a stream: a chain of chunks that goes round between
 * the producer and the driver. It grows by a chunk when the driver has none to
 * give back, up to a limit.
 */

enum kiln_status kilni_ring_init(struct kilni_stream *stream)
{
	stream->chunk = calloc(1, sizeof(*stream->chunk));
	if (!stream->chunk)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "stream: no memory for its ring");
	stream->oldest = stream->chunk;
	stream->chunks = 1;
	return KILN_OK;
}

/* What a lost device leaves over gives memory back. */
static void drop_entry(const struct kilni_entry *entry)
{
	if (entry->kind == KILNI_ENTRY_CALL)
		entry->params.call.call(entry->params.call.data,
					entry->params.call.user);
	if (entry->kind == KILNI_ENTRY_CLOCK)
		kilni_stamp_miss(entry->params.clock.stamp);
}

static void drop_entries(const struct kilni_stream *stream,
			 const struct kilni_chunk *chunk, unsigned fill)
{
	for (unsigned i = 0; i < fill; i++)
		if (chunk->entry[i].seq > stream->submitted)
			drop_entry(&chunk->entry[i]);
}

static void free_chunks(struct kilni_chunk *chunk)
{
	struct kilni_chunk *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
}

/* The driver has run all that it took. */
void kilni_ring_fini(struct kilni_stream *stream)
{
	if (stream->chunk)
		stream->chunk->next = NULL;
	for (struct kilni_chunk *c = stream->oldest; c; c = c->next)
		drop_entries(stream, c,
			     c->next ? KILNI_CHUNK_ENTRIES : stream->fill);
	free_chunks(stream->oldest);
	free_chunks(stream->spare);
}

void kilni_ring_chunk_done(void *context, struct kilni_chunk *chunk)
{
	struct kilni_stream *stream = context;

	kilni_spin_lock(&stream->spare_lock);
	stream->oldest = chunk->next;
	chunk->next = stream->spare;
	stream->spare = chunk;
	kilni_spin_unlock(&stream->spare_lock);
}

static struct kilni_chunk *take_spare(struct kilni_stream *stream)
{
	struct kilni_chunk *chunk;

	kilni_spin_lock(&stream->spare_lock);
	chunk = stream->spare;
	if (chunk)
		stream->spare = chunk->next;
	kilni_spin_unlock(&stream->spare_lock);
	return chunk;
}

static enum kiln_status grow(struct kilni_stream *stream,
			     struct kilni_chunk **out)
{
	uint64_t entries = (uint64_t)stream->chunks * KILNI_CHUNK_ENTRIES;

	if (entries >= stream->sched->ring_limit)
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "the stream: %llu entries are queued, as many "
				  "as ring_limit allows",
				  (unsigned long long)entries);
	*out = malloc(sizeof(**out));
	if (!*out)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "stream: no memory for its ring");
	stream->chunks++;
	return KILN_OK;
}

static unsigned spare_chunks(struct kilni_stream *stream)
{
	const struct kilni_chunk *chunk;
	unsigned count = 0;

	kilni_spin_lock(&stream->spare_lock);
	for (chunk = stream->spare; chunk; chunk = chunk->next)
		count++;
	kilni_spin_unlock(&stream->spare_lock);
	return count;
}

enum kiln_status kilni_ring_provide(struct kilni_stream *stream,
				    unsigned entries)
{
	unsigned room = KILNI_CHUNK_ENTRIES - stream->fill;
	struct kilni_chunk *chunk;

	/* Only the one with the append lock takes from the spare ones. */
	if (room < entries)
		room += spare_chunks(stream) * KILNI_CHUNK_ENTRIES;
	for (; room < entries; room += KILNI_CHUNK_ENTRIES) {
		KILNI_TRY(grow(stream, &chunk));
		kilni_spin_lock(&stream->spare_lock);
		chunk->next = stream->spare;
		stream->spare = chunk;
		kilni_spin_unlock(&stream->spare_lock);
	}
	return KILN_OK;
}

enum kiln_status kilni_ring_extend(struct kilni_stream *stream)
{
	struct kilni_chunk *chunk = take_spare(stream);

	if (!chunk)
		KILNI_TRY(grow(stream, &chunk));
	chunk->next = NULL;
	stream->chunk->next = chunk;
	stream->chunk = chunk;
	stream->fill = 0;
	return KILN_OK;
}

static void call_nothing(void *data, void *user)
{
	(void)data;
	(void)user;
}

void kilni_ring_commit_nothing(struct kilni_stream *stream,
			       struct kilni_entry *entry)
{
	kilni_ring_call(entry, call_nothing, NULL, NULL);
	kilni_ring_commit(stream);
}

/*
 * A driver that refuses a submission has done nothing with it. The entries
 * are marked failed, and handed over once more so that the driver passes
 * over them; what refuses even that is lost.
 */
static enum kiln_status submit_failed(struct kilni_stream *stream,
				      enum kiln_status status, uint64_t upto)
{
	struct kilni_sched *sched = stream->sched;

	if (kilni_sched_note(sched, status) == KILN_ERR_DEVICE_LOST)
		return status;
	kilni_failure_mark(stream, stream->submitted + 1, upto,
			   kilni_failure_cause(stream, stream->submitted + 1,
					       upto, status,
					       kiln_error_message()));
	if (queue_ops(stream)->submit(stream->queue, upto) != KILN_OK)
		return kilni_sched_note(sched, KILN_ERR_DEVICE_LOST);
	return status;
}

enum kiln_status kilni_ring_drain(struct kilni_stream *stream)
{
	enum kiln_status status;
	uint64_t upto;

	KILNI_TRY(kilni_sched_alive(stream->sched));
	pthread_mutex_lock(&stream->drain);
	upto = stream_tail(stream);
	status = KILN_OK;
	if (upto != stream->submitted) {
		status = queue_ops(stream)->submit(stream->queue, upto);
		if (status != KILN_OK)
			status = submit_failed(stream, status, upto);
		if (status != KILN_ERR_DEVICE_LOST)
			__atomic_store_n(&stream->submitted, upto,
					 __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&stream->drain);
	return status;
}

enum kiln_status kilni_ring_drain_quietly(struct kilni_stream *stream)
{
	struct kilni_error_record before;
	enum kiln_status status;

	kilni_error_save(&before);
	status = kilni_ring_drain(stream);
	if (status != KILN_OK)
		kilni_error_restore(&before);
	return status;
}

/*
 * A use is noted before its entry is committed. Whoever waits for it may find
 * nothing to hand on yet; then whoever commits it sees that it is wanted.
 */
static void want(struct kilni_stream *stream, uint64_t seq)
{
	uint64_t old = __atomic_load_n(&stream->wanted, __ATOMIC_RELAXED);

	while (old < seq &&
	       !__atomic_compare_exchange_n(&stream->wanted, &old, seq, true,
					    __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* What comes on the stream from now on is behind the use. */
static void note_waited(struct kilni_stream *stream,
			const struct kilni_use *use)
{
	for (unsigned i = 0; i < KILNI_COUNTOF(stream->waited); i++)
		if (stream->waited[i].stream == use->stream) {
			stream->waited[i].seq = kilni_max_u64(
				stream->waited[i].seq, use->seq);
			return;
		}
	stream->waited[stream->next_waited++ %
		       KILNI_COUNTOF(stream->waited)] = *use;
}

enum kiln_status kilni_ring_wait_for(struct kilni_stream *stream,
				     const struct kilni_use *use)
{
	struct kilni_stream *other = use->stream;
	struct kilni_entry *entry;

	if (has_waited(stream, use))
		return kilni_sched_alive(stream->sched);
	KILNI_TRY(kilni_ring_reserve(stream, &entry));
	entry->kind = KILNI_ENTRY_WAIT;
	entry->operands = 0;
	entry->params.wait.wait_queue = other->queue;
	entry->params.wait.wait_seq = use->seq;
	kilni_ring_commit(stream);
	note_waited(stream, use);
	want(other, use->seq);
	/* A refusal there is the other stream's error, and marked there. */
	if (kilni_ring_hand_on(other) != KILN_OK)
		return kilni_sched_alive(stream->sched);
	return KILN_OK;
}

enum kiln_status kilni_ring_wait(struct kilni_stream *stream, uint64_t seq)
{
	enum kiln_status status;

	if (stream_completed(stream) >= seq)
		return KILN_OK;
	want(stream, seq);
	status = kilni_ring_drain(stream);
	if (status == KILN_ERR_DEVICE_LOST)
		return status;
	/* Before the wait: it costs nothing where there is work to wait for. */
	kilni_pools_publish(stream->sched->pools);
	return kilni_sched_note(stream->sched,
				queue_ops(stream)->wait(stream->queue, seq));
}
