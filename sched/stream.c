/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <stdlib.h>

#include "base/trace.h"
#include "sched/graph.h"

/* ---- life of a slot ---- */

/* What a new slot is for. */
struct wish {
	int priority;
	bool wrapped;              /* for native, of the vendor's library */
	void *native;
};

static enum kiln_status create_queue(struct kilni_stream *stream)
{
	struct kilni_sched *sched = stream->sched;
	const struct kilni_queue_ops *ops = sched->hw->driver->queue;
	struct kilni_queue_client client = {
		.context = stream,
		.priority = stream->priority,
		.suspect = &sched->suspect,
		.check = kilni_failure_check,
		.failed = kilni_failure_of_entry,
		.chunk_done = kilni_ring_chunk_done,
	};

	if (stream->wrapped)
		return ops->wrap(sched->hw, &client, stream->chunk,
				 stream->native, &stream->queue);
	return ops->create(sched->hw, &client, stream->chunk, &stream->queue);
}

static enum kiln_status create_stream(struct kilni_sched *sched,
				      const struct wish *wish,
				      struct kilni_stream **out)
{
	struct kilni_stream *stream = calloc(1, sizeof(*stream));
	enum kiln_status status;

	if (!stream)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a stream");
	stream->sched = sched;
	stream->priority = wish->priority;
	stream->wrapped = wish->wrapped;
	stream->native = wish->native;
	status = kilni_ring_init(stream);
	if (status == KILN_OK)
		status = create_queue(stream);
	if (status != KILN_OK) {
		kilni_ring_fini(stream);
		free(stream);
		return status;
	}
	stream->queue->number = kilni_trace_name(
		"%s:%u stream %u", sched->hw->driver->name, sched->hw->index,
		sched->streams);
	pthread_mutex_init(&stream->append, NULL);
	pthread_mutex_init(&stream->drain, NULL);
	*out = stream;
	return KILN_OK;
}

static void destroy_stream(struct kilni_stream *stream)
{
	queue_ops(stream)->destroy(stream->queue);
	kilni_ring_fini(stream);
	pthread_mutex_destroy(&stream->append);
	pthread_mutex_destroy(&stream->drain);
	free(stream->failures);
	free(stream->owner);
	free(stream);
}

static void forget_error(struct kilni_stream *stream)
{
	pthread_mutex_lock(&stream->sched->failure);
	stream->reported = true;
	__atomic_store_n(&stream->poisoned, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&stream->sched->failure);
}

/* Whether nobody waits for the error of a stream without holders. */
static bool is_settled(struct kilni_stream *stream)
{
	bool settled;

	pthread_mutex_lock(&stream->sched->failure);
	settled = !stream->poisoned || stream->reported;
	pthread_mutex_unlock(&stream->sched->failure);
	return settled;
}

/*
 * A free slot of the priority with nothing queued. Where an error was not told
 * yet it can still be met through a tensor; such a slot is taken last.
 */
static struct kilni_stream *find_free(struct kilni_sched *sched, int priority)
{
	struct kilni_stream *last = NULL;

	for (unsigned i = 0; i < sched->streams; i++) {
		struct kilni_stream *stream = sched->stream[i];

		if (stream->taken || stream->wrapped ||
		    stream->priority != priority || !kilni_stream_idle(stream))
			continue;
		if (is_settled(stream))
			return stream;
		last = stream;
	}
	return sched->streams == STREAMS_MAX ? last : NULL;
}

static enum kiln_status new_slot(struct kilni_sched *sched,
				 const struct wish *wish,
				 struct kilni_stream **out)
{
	if (sched->streams == STREAMS_MAX)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "the device has %d streams already",
				  STREAMS_MAX);
	KILNI_TRY(create_stream(sched, wish, out));
	sched->stream[sched->streams] = *out;
	__atomic_store_n(&sched->streams, sched->streams + 1,
			 __ATOMIC_RELEASE);
	return KILN_OK;
}

/* The slots' lock is held. */
static void take_slot(struct kilni_stream *stream, struct kilni_stream **out)
{
	forget_error(stream);
	stream->taken = true;
	__atomic_store_n(&stream->holders, 1, __ATOMIC_RELEASE);
	*out = stream;
}

enum kiln_status kilni_stream_acquire(struct kilni_sched *sched, int priority,
				      struct kilni_stream **out)
{
	struct wish wish = { .priority = priority };
	enum kiln_status status = KILN_OK;
	struct kilni_stream *stream;

	KILNI_TRY(kilni_sched_alive(sched));
	pthread_mutex_lock(&sched->slots);
	stream = find_free(sched, priority);
	if (!stream)
		status = new_slot(sched, &wish, &stream);
	if (status == KILN_OK)
		take_slot(stream, out);
	pthread_mutex_unlock(&sched->slots);
	return status;
}

static struct kilni_stream *find_native(struct kilni_sched *sched,
					const void *native)
{
	for (unsigned i = 0; i < sched->streams; i++)
		if (sched->stream[i]->wrapped &&
		    sched->stream[i]->native == native)
			return sched->stream[i];
	return NULL;
}

enum kiln_status kilni_stream_wrap(struct kilni_sched *sched, void *native,
				   struct kilni_stream **out)
{
	const struct kilni_driver *driver = sched->hw->driver;
	struct wish wish = { .wrapped = true };
	enum kiln_status status = KILN_OK;
	struct kilni_stream *stream;

	if (driver->no_wrap)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0, "%s: %s",
				  driver->name, driver->no_wrap);
	native = driver->queue->canonical(native);
	wish.native = native;
	KILNI_TRY(kilni_sched_alive(sched));
	pthread_mutex_lock(&sched->slots);
	stream = find_native(sched, native);
	if (!stream)
		status = new_slot(sched, &wish, &stream);
	else if (stream->taken)
		status = kilni_fail(KILN_ERR_INVALID, 0,
				    "the stream %p is wrapped already", native);
	if (status == KILN_OK)
		take_slot(stream, out);
	pthread_mutex_unlock(&sched->slots);
	return status;
}

void kilni_stream_hold(struct kilni_stream *stream)
{
	__atomic_add_fetch(&stream->holders, 1, __ATOMIC_RELAXED);
}

void kilni_stream_return(struct kilni_stream *stream)
{
	struct kilni_sched *sched = stream->sched;

	if (__atomic_sub_fetch(&stream->holders, 1, __ATOMIC_ACQ_REL))
		return;
	kilni_recorder_close(stream);
	/* Whoever depends on its tensors meets the error there. */
	(void)!kilni_ring_drain_quietly(stream);
	pthread_mutex_lock(&sched->slots);
	stream->taken = false;
	pthread_mutex_unlock(&sched->slots);
}

int kilni_stream_priority(const struct kilni_stream *stream)
{
	return stream->priority;
}

void **kilni_stream_owner(struct kilni_stream *stream)
{
	return &stream->owner;
}

uint32_t kilni_stream_number(const struct kilni_stream *stream)
{
	return stream->queue->number;
}

/* ---- one stream ---- */

bool kilni_stream_is_poisoned(const struct kilni_stream *stream)
{
	return __atomic_load_n(&stream->poisoned, __ATOMIC_ACQUIRE);
}

enum kiln_status kilni_stream_push(struct kilni_stream *stream)
{
	return kilni_ring_drain(stream);
}

uint64_t kilni_stream_position(const struct kilni_stream *stream)
{
	return stream_tail(stream);
}

uint64_t kilni_stream_progress(const struct kilni_stream *stream)
{
	return stream_completed(stream);
}

bool kilni_stream_idle(const struct kilni_stream *stream)
{
	return stream_completed(stream) == stream_tail(stream);
}

enum kiln_status kilni_stream_drain(struct kilni_stream *stream)
{
	KILNI_TRY(kilni_sched_alive(stream->sched));
	KILNI_TRY(kilni_failure_refuse(stream));
	return kilni_ring_drain(stream);
}

enum kiln_status kilni_stream_finish(struct kilni_stream *stream)
{
	KILNI_TRY(kilni_sched_alive(stream->sched));
	KILNI_TRY(kilni_ring_wait(stream, stream_tail(stream)));
	kilni_pools_publish(stream->sched->pools);
	return kilni_failure_report_once(stream);
}

enum kiln_status kilni_stream_clear(struct kilni_stream *stream)
{
	KILNI_TRY(kilni_sched_alive(stream->sched));
	KILNI_TRY(kilni_ring_wait(stream, stream_tail(stream)));
	forget_error(stream);
	return KILN_OK;
}

/* ---- the scheduler ---- */

static bool stream_done(void *stream, uint64_t seq)
{
	return use_done(&(struct kilni_use){ stream, seq });
}

enum kiln_status kilni_stream_wait_use(struct kilni_stream *stream,
				       const struct kilni_use *use)
{
	enum kiln_status status;

	pthread_mutex_lock(&stream->append);
	status = kilni_ring_wait_for(stream, use);
	pthread_mutex_unlock(&stream->append);
	return status;
}

static enum kiln_status stream_order(void *stream, const struct kilni_use *use)
{
	return kilni_stream_wait_use(stream, use);
}

static enum kiln_status stream_wait(const struct kilni_use *use)
{
	return kilni_ring_wait(use->stream, use->seq);
}

static const struct kilni_stream_ops stream_ops = {
	.done = stream_done,
	.order = stream_order,
	.wait = stream_wait,
};

enum kiln_status kilni_sched_create(struct kilni_sched **out,
				    struct kilni_hw *hw)
{
	struct kilni_memory_limits limits;
	struct kilni_pools_config config;
	uint64_t ring_limit = 131072;
	struct kilni_sched *sched;
	enum kiln_status status;

	hw->driver->memory->limits(hw, &limits);
	KILNI_TRY(kilni_pools_configure(&config, limits.total_bytes));
	KILNI_TRY(kilni_option_number(KILNI_OPT_RING_LIMIT, &ring_limit));
	sched = calloc(1, sizeof(*sched));
	if (!sched)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a device's streams");
	sched->hw = hw;
	sched->ring_limit = ring_limit;
	status = kilni_pools_create(&sched->pools, hw, &stream_ops, &config);
	if (status != KILN_OK) {
		free(sched);
		return status;
	}
	status = kilni_submitter_init(&sched->submitter);
	if (status != KILN_OK) {
		kilni_pools_destroy(sched->pools);
		free(sched);
		return status;
	}
	kilni_pools_publish_start(sched->pools);
	pthread_mutex_init(&sched->slots, NULL);
	pthread_mutex_init(&sched->failure, NULL);
	pthread_mutex_init(&sched->signals, NULL);
	kilni_mover_init(&sched->mover);
	if (sched->submitter.started)
		kilni_sched_watch_exit(sched);
	*out = sched;
	return KILN_OK;
}

struct kilni_pools *kilni_sched_pools(struct kilni_sched *sched)
{
	return sched->pools;
}

static unsigned stream_count(const struct kilni_sched *sched)
{
	return __atomic_load_n(&sched->streams, __ATOMIC_ACQUIRE);
}

enum kiln_status kilni_sched_drain(struct kilni_sched *sched)
{
	KILNI_TRY(kilni_sched_alive(sched));
	for (unsigned i = 0; i < stream_count(sched); i++)
		if (kilni_ring_drain(sched->stream[i]) != KILN_OK)
			KILNI_TRY(kilni_sched_alive(sched));
	return KILN_OK;
}

enum kiln_status kilni_sched_finish(struct kilni_sched *sched)
{
	KILNI_TRY(kilni_sched_alive(sched));
	/* All are drained first, since they may wait for one another. */
	KILNI_TRY(kilni_sched_drain(sched));
	for (unsigned i = 0; i < stream_count(sched); i++)
		KILNI_TRY(kilni_ring_wait(sched->stream[i],
					  stream_tail(sched->stream[i])));
	return KILN_OK;
}

/*
 * A lost device may still run what it took. Nothing waits here for what it
 * never got.
 */
static void settle(struct kilni_sched *sched)
{
	for (unsigned i = 0; i < sched->streams; i++) {
		struct kilni_stream *stream = sched->stream[i];

		(void)!queue_ops(stream)->wait(stream->queue,
					       stream->submitted);
	}
}

void kilni_sched_destroy(struct kilni_sched *sched)
{
	if (!sched)
		return;
	/* What went wrong has been told, or nobody asked. */
	(void)!kilni_sched_finish(sched);
	kilni_sched_forget_exit(sched);
	kilni_submitter_stop(&sched->submitter);
	kilni_mover_stop(&sched->mover);
	settle(sched);
	/* First the pools: they may still ask what has completed. */
	kilni_pools_destroy(sched->pools);
	for (unsigned i = 0; i < sched->streams; i++)
		destroy_stream(sched->stream[i]);
	pthread_mutex_destroy(&sched->slots);
	pthread_mutex_destroy(&sched->failure);
	pthread_mutex_destroy(&sched->signals);
	kilni_mover_fini(&sched->mover);
	free(sched);
}
