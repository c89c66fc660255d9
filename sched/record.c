/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Choices of a warm-up that are kept: the latest ones. */
#define CHOICES_MAX (1u << 20)

int kilni_recorders;

/* What a warm-up and a capture must agree on. */
struct choice {
	uint16_t op;
	uint16_t in_place;
};

/* Grown by doubling. */
struct list {
	void *item;
	unsigned count, capacity;
};

struct kilni_recorder {
	const struct kilni_recorder_client *client;
	void *context;
	enum kilni_recorder_state state;
	bool muted;
	struct list warm;      /* struct choice */
	struct list captured;  /* struct choice */
	struct list entry;     /* struct kilni_entry *, each its own */
	struct list use;       /* struct kilni_graph_use */
	uint32_t *slot;        /* a table of uses by track: index + 1 */
	unsigned slots;        /* a power of two */
	uint64_t random_blocks;
	enum kiln_status status;
	char message[256];
};

static enum kiln_status reserve(struct list *list, size_t size)
{
	unsigned capacity = list->capacity ? list->capacity * 2 : 64;
	void *grown;

	if (list->count < list->capacity)
		return KILN_OK;
	grown = realloc(list->item, capacity * size);
	if (!grown)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "graph: no memory for %u operations",
				  capacity);
	list->item = grown;
	list->capacity = capacity;
	return KILN_OK;
}

/* ---- uses ---- */

static struct kilni_graph_use *use_at(const struct kilni_recorder *recorder,
				      unsigned i)
{
	return (struct kilni_graph_use *)recorder->use.item + i;
}

static unsigned hash(const struct kilni_track *track, unsigned slots)
{
	uint64_t x = (uintptr_t)track * UINT64_C(0x9e3779b97f4a7c15);

	return (unsigned)(x >> 32) & (slots - 1);
}

/* The slot of the track, or the empty one where it would be. */
static uint32_t *find_slot(const struct kilni_recorder *recorder,
			   const struct kilni_track *track)
{
	unsigned i = hash(track, recorder->slots);

	while (recorder->slot[i] &&
	       use_at(recorder, recorder->slot[i] - 1)->track != track)
		i = (i + 1) & (recorder->slots - 1);
	return &recorder->slot[i];
}

static enum kiln_status grow_slots(struct kilni_recorder *recorder)
{
	unsigned slots = recorder->slots ? recorder->slots * 2 : 256;
	uint32_t *table;

	if (recorder->use.count * 2 < recorder->slots)
		return KILN_OK;
	table = calloc(slots, sizeof(*table));
	if (!table)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "graph: no memory for %u tensors", slots);
	free(recorder->slot);
	recorder->slot = table;
	recorder->slots = slots;
	for (unsigned i = 0; i < recorder->use.count; i++)
		*find_slot(recorder, use_at(recorder, i)->track) = i + 1;
	return KILN_OK;
}

/* The index of the track's use, which is made where there is none. */
static enum kiln_status find_use(struct kilni_recorder *recorder,
				 struct kilni_track *track, unsigned *index)
{
	bool fresh = false;
	uint32_t *slot;

	KILNI_TRY(grow_slots(recorder));
	slot = find_slot(recorder, track);
	if (!*slot) {
		KILNI_TRY(reserve(&recorder->use,
				  sizeof(struct kilni_graph_use)));
		KILNI_TRY(recorder->client->hold(recorder->context, track,
						 &fresh));
		*use_at(recorder, recorder->use.count) =
			(struct kilni_graph_use){ .track = track,
						  .fresh = fresh };
		*slot = ++recorder->use.count;
	}
	*index = *slot - 1;
	return KILN_OK;
}

/* ---- choices ---- */

/* Whether the job writes over what it reads. */
static bool is_in_place(const struct kilni_job *job)
{
	const struct kilni_entry *entry = &job->entry;

	for (unsigned i = 0; i < entry->operands; i++)
		for (unsigned j = 0; j < entry->operands; j++)
			if (i != j && job->track[i] == job->track[j] &&
			    (entry->operand[i].access & KILNI_WRITE))
				return true;
	return false;
}

static enum kiln_status add_choice(struct kilni_recorder *recorder,
				   struct list *list,
				   const struct kilni_job *job)
{
	struct choice *choice;

	if (recorder->muted)
		return KILN_OK;
	if (list->count == CHOICES_MAX) {
		choice = list->item;
		list->count /= 2;
		memmove(choice, choice + list->count,
			list->count * sizeof(*choice));
	}
	KILNI_TRY(reserve(list, sizeof(*choice)));
	choice = (struct choice *)list->item + list->count++;
	choice->op = job->entry.op;
	choice->in_place = is_in_place(job);
	return KILN_OK;
}

static enum kiln_status tell_difference(const struct choice *want,
					const struct choice *have, unsigned i)
{
	if (want->op == have->op)
		return kilni_fail(KILN_ERR_CAPTURE, 0,
				  "%s%s (operation %u of the capture) was "
				  "captured %s, but ran %s in the warm-up",
				  kilni_op_prefix(have->op),
				  kilni_ops[have->op].name, i + 1,
				  have->in_place ? "in place" : "out of place",
				  want->in_place ? "in place" : "out of place");
	return kilni_fail(KILN_ERR_CAPTURE, 0,
			  "%s%s is operation %u of the capture, where the "
			  "warm-up ran %s%s: it copied where the other wrote "
			  "in place, or did something else",
			  kilni_op_prefix(have->op), kilni_ops[have->op].name,
			  i + 1, kilni_op_prefix(want->op),
			  kilni_ops[want->op].name);
}

/* The capture against the end of the warm-up, if there was one. */
static enum kiln_status compare(const struct kilni_recorder *recorder)
{
	const struct choice *want = recorder->warm.item;
	const struct choice *have = recorder->captured.item;
	unsigned n = recorder->captured.count;

	if (!recorder->warm.count)
		return KILN_OK;
	if (recorder->warm.count < n)
		return kilni_fail(KILN_ERR_CAPTURE, 0,
				  "%u operations were captured, up to %s%s, "
				  "and %u ran in the warm-up",
				  n, kilni_op_prefix(have[n - 1].op),
				  kilni_ops[have[n - 1].op].name,
				  recorder->warm.count);
	want += recorder->warm.count - n;
	for (unsigned i = 0; i < n; i++)
		if (want[i].op != have[i].op ||
		    want[i].in_place != have[i].in_place)
			return tell_difference(&want[i], &have[i], i);
	return KILN_OK;
}

/* ---- recording ---- */

static struct kilni_entry *copy_job(const struct kilni_job *job)
{
	const struct kilni_entry *from = &job->entry;
	size_t params = offsetof(struct kilni_entry, params);
	struct kilni_entry *entry = malloc(params + from->params_bytes);

	if (!entry)
		return NULL;
	memcpy(entry, from, params);
	memcpy((char *)entry + params, &from->params, from->params_bytes);
	if (from->op == KILNI_OP_RANDOM)
		entry->params.ew.in[0] = from->params.ew.counter;
	return entry;
}

/* Whose writing the operand reads; tells the use what the entry does. */
static void join(struct kilni_recorder *recorder, struct kilni_operand *operand,
		 unsigned index)
{
	struct kilni_graph_use *use = use_at(recorder, index);

	operand->writer = NULL;
	operand->writer_seq = 0;
	if (use->written)
		operand->writer_seq = (uint64_t)use->last_write + 1;
	else if (!use->fresh)
		operand->writer_seq = KILNI_BEFORE | index;
	/* A part of new memory is written as if the rest were read. */
	if ((operand->access & KILNI_READ) && !use->written && !use->fresh)
		use->access |= KILNI_READ;
}

static void write(struct kilni_recorder *recorder,
		  const struct kilni_entry *entry, const unsigned *index)
{
	for (unsigned i = 0; i < entry->operands; i++) {
		struct kilni_graph_use *use = use_at(recorder, index[i]);

		if (!(entry->operand[i].access & KILNI_WRITE))
			continue;
		/* It may have been made anew since an earlier entry. */
		if (use->fresh)
			kilni_track_unrun(use->track);
		use->access |= KILNI_WRITE;
		use->written = true;
		use->last_write = recorder->entry.count;
		use->op = entry->op;
		__atomic_store_n(&use->track->op, entry->op, __ATOMIC_RELAXED);
	}
}

static enum kiln_status capture(struct kilni_recorder *recorder,
				const struct kilni_job *job)
{
	unsigned index[KILNI_OPERANDS_MAX];
	struct kilni_entry *entry;

	KILNI_TRY(add_choice(recorder, &recorder->captured, job));
	KILNI_TRY(reserve(&recorder->entry, sizeof(entry)));
	for (unsigned i = 0; i < job->entry.operands; i++)
		KILNI_TRY(find_use(recorder, job->track[i], &index[i]));
	entry = copy_job(job);
	if (!entry)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "graph: no memory for an operation");
	for (unsigned i = 0; i < entry->operands; i++)
		join(recorder, &entry->operand[i], index[i]);
	write(recorder, entry, index);
	((struct kilni_entry **)recorder->entry.item)[recorder->entry.count++] =
		entry;
	return KILN_OK;
}

/* The capture is over; the append lock is held. */
static void fail_capture(struct kilni_recorder *recorder)
{
	if (recorder->state != KILNI_RECORDER_CAPTURING)
		return;
	recorder->state = KILNI_RECORDER_BROKEN;
	recorder->status = kiln_error_status();
	snprintf(recorder->message, sizeof(recorder->message), "%s",
		 kiln_error_message());
}

enum kiln_status kilni_record(struct kilni_stream *stream,
			      const struct kilni_job *job, bool *taken)
{
	struct kilni_recorder *recorder = stream->recorder;
	enum kiln_status status;

	*taken = recorder->state == KILNI_RECORDER_CAPTURING;
	if (recorder->state == KILNI_RECORDER_WATCHING)
		return add_choice(recorder, &recorder->warm, job);
	if (!*taken)
		return KILN_OK;
	status = capture(recorder, job);
	if (status != KILN_OK)
		fail_capture(recorder);
	return status;
}

/* ---- the recorder's life ---- */

enum kiln_status kilni_recorder_open(struct kilni_stream *stream,
				     const struct kilni_recorder_client *client,
				     void *context)
{
	struct kilni_recorder *recorder;
	bool is_free;

	KILNI_TRY(kilni_stream_usable(stream));
	recorder = calloc(1, sizeof(*recorder));
	if (!recorder)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "graph: no memory for a recorder");
	recorder->client = client;
	recorder->context = context;
	recorder->state = KILNI_RECORDER_WATCHING;
	pthread_mutex_lock(&stream->append);
	is_free = !stream->recorder;
	if (is_free) {
		__atomic_add_fetch(&kilni_recorders, 1, __ATOMIC_RELAXED);
		stream->recorder = recorder;
	}
	pthread_mutex_unlock(&stream->append);
	if (is_free)
		return KILN_OK;
	free(recorder);
	return kilni_fail(KILN_ERR_BUSY, 0,
			  "the stream has a graph in preparation already");
}

enum kiln_status kilni_recorder_start(struct kilni_stream *stream)
{
	struct kilni_recorder *recorder;
	bool good;

	KILNI_TRY(kilni_stream_usable(stream));
	pthread_mutex_lock(&stream->append);
	recorder = stream->recorder;
	good = recorder && recorder->state == KILNI_RECORDER_WATCHING;
	if (good)
		recorder->state = KILNI_RECORDER_CAPTURING;
	pthread_mutex_unlock(&stream->append);
	if (good)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s",
			  recorder ? "a capture has begun already"
				   : "no graph was prepared on this stream");
}

/* The recorder is the caller's then. */
static struct kilni_recorder *detach(struct kilni_stream *stream)
{
	struct kilni_recorder *recorder;

	pthread_mutex_lock(&stream->append);
	recorder = stream->recorder;
	stream->recorder = NULL;
	pthread_mutex_unlock(&stream->append);
	if (recorder)
		__atomic_sub_fetch(&kilni_recorders, 1, __ATOMIC_RELAXED);
	return recorder;
}

static void destroy(struct kilni_recorder *recorder)
{
	for (unsigned i = 0; i < recorder->entry.count; i++)
		free(((struct kilni_entry **)recorder->entry.item)[i]);
	free(recorder->entry.item);
	free(recorder->use.item);
	free(recorder->warm.item);
	free(recorder->captured.item);
	free(recorder->slot);
	recorder->client->closed(recorder->context);
	free(recorder);
}

void kilni_recorder_close(struct kilni_stream *stream)
{
	struct kilni_recorder *recorder = detach(stream);

	if (recorder)
		destroy(recorder);
}

static enum kiln_status make_graph(struct kilni_recorder *recorder,
				   struct kilni_stream *stream,
				   struct kilni_graph **out)
{
	enum kiln_status status;

	if (recorder->state == KILNI_RECORDER_BROKEN)
		return kilni_fail(KILN_ERR_CAPTURE, 0, "the capture failed: %s",
				  recorder->message);
	KILNI_TRY(compare(recorder));
	status = kilni_graph_create(out, stream, recorder->entry.item,
				    recorder->entry.count, recorder->use.item,
				    recorder->use.count,
				    recorder->random_blocks);
	recorder->entry = recorder->use = (struct list){ NULL, 0, 0 };
	return status;
}

enum kiln_status kilni_recorder_stop(struct kilni_stream *stream,
				     struct kilni_graph **out)
{
	enum kilni_recorder_state state = kilni_recorder_state(stream);
	struct kilni_recorder *recorder;
	enum kiln_status status;

	if (state == KILNI_RECORDER_NONE || state == KILNI_RECORDER_WATCHING)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "no capture has begun on this stream");
	recorder = detach(stream);
	if (!recorder)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "no capture has begun on this stream");
	status = make_graph(recorder, stream, out);
	destroy(recorder);
	return status;
}

/* ---- asking the recorder ---- */

bool kilni_recorder_captures(const struct kilni_stream *stream)
{
	return stream->recorder &&
	       stream->recorder->state == KILNI_RECORDER_CAPTURING;
}

void kilni_recorder_break(struct kilni_stream *stream)
{
	pthread_mutex_lock(&stream->append);
	if (stream->recorder)
		fail_capture(stream->recorder);
	pthread_mutex_unlock(&stream->append);
}

static void do_nothing(void *context, enum kilni_recorder_state state,
		       void *arg)
{
	(void)context;
	(void)state;
	(void)arg;
}

enum kilni_recorder_state kilni_recorder_with(
	struct kilni_stream *stream,
	void (*call)(void *context, enum kilni_recorder_state state, void *arg),
	void *arg)
{
	enum kilni_recorder_state state = KILNI_RECORDER_NONE;

	pthread_mutex_lock(&stream->append);
	if (stream->recorder) {
		state = stream->recorder->state;
		call(stream->recorder->context, state, arg);
	}
	pthread_mutex_unlock(&stream->append);
	return state;
}

enum kilni_recorder_state
kilni_recorder_state(const struct kilni_stream *stream)
{
	if (!kilni_recorders_open())
		return KILNI_RECORDER_NONE;
	return kilni_recorder_with((struct kilni_stream *)(uintptr_t)stream,
				   do_nothing, NULL);
}

void kilni_recorder_mute(struct kilni_stream *stream, bool muted)
{
	pthread_mutex_lock(&stream->append);
	if (stream->recorder)
		stream->recorder->muted = muted;
	pthread_mutex_unlock(&stream->append);
}

bool kilni_recorder_random(struct kilni_stream *stream, uint64_t blocks,
			   uint64_t *counter)
{
	struct kilni_recorder *recorder;
	bool captures;

	pthread_mutex_lock(&stream->append);
	recorder = stream->recorder;
	captures = kilni_recorder_captures(stream);
	if (captures) {
		*counter = recorder->random_blocks;
		recorder->random_blocks += blocks;
	}
	pthread_mutex_unlock(&stream->append);
	return captures;
}
