/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/wake.h"
#include "lib/testing.h"

#define CAPACITY_MAX (UINT32_C(1) << 24)

/* One completion: a request until it is posted. */
struct post {
	uint64_t user, value;
	enum kiln_status status;
	uint32_t op;                 /* or KILNI_OP_NONE */
};

/* Counters run on and wrap; a ring is as long as a power of two. */
struct kiln_completions {
	struct kilni_object object;
	pthread_mutex_t lock;
	uint32_t capacity;
	uint32_t head, tail;         /* posted: head is the next one taken */
	uint32_t requested;          /* not posted yet; they have a place */
	int fd;                      /* -1: nobody asked for it */
	struct post post[];
};

_Static_assert(offsetof(struct kiln_completions, object) == 0, "object first");

struct request {
	struct kilni_signal signal;
	struct kilni_posting posting;
	bool whole_stream;
};

static const struct kilni_object_ops completions_kind = { "completion ring" };

static enum kiln_status check_ring(const struct kiln_completions *ring,
				   const char *fn)
{
	return kilni_object_check(ring, &completions_kind, fn, "ring");
}

/* ---- the ring ---- */

static uint32_t round_up(uint32_t capacity)
{
	uint32_t power = 1;

	while (power < capacity)
		power *= 2;
	return power;
}

enum kiln_status kiln_completions_create(struct kiln_completions **out,
					 uint32_t capacity)
{
	struct kiln_completions *ring, *old;
	uint32_t power;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL",
				  __func__);
	if (!capacity || capacity > CAPACITY_MAX)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: capacity %u is outside 1..%u", __func__,
				  capacity, CAPACITY_MAX);
	power = round_up(capacity);
	ring = calloc(1, sizeof(*ring) + power * sizeof(ring->post[0]));
	if (!ring)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for %u completions", power);
	kilni_object_init(&ring->object, &completions_kind);
	pthread_mutex_init(&ring->lock, NULL);
	ring->capacity = power;
	ring->fd = -1;
	old = *out;
	*out = ring;
	kiln_completions_release(old);
	return KILN_OK;
}

struct kiln_completions *
kiln_completions_retain(struct kiln_completions *ring)
{
	kilni_object_retain(&ring->object);
	return ring;
}

void kiln_completions_release(struct kiln_completions *ring)
{
	if (!ring || !kilni_object_drop(&ring->object))
		return;
	if (ring->fd >= 0)
		close(ring->fd);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

void kilni_test_completions_start(struct kiln_completions *ring,
				  uint32_t counter)
{
	ring->head = ring->tail = counter;
}

/* Sets or clears the descriptor; the lock is held. */
static void set_readable(struct kiln_completions *ring, bool readable)
{
	uint64_t one = 1;

	if (ring->fd < 0)
		return;
	/* A counter of 0 or 1: neither can block or fail for long. */
	if (readable)
		while (write(ring->fd, &one, sizeof(one)) < 0 &&
		       errno == EINTR)
			;
	else
		while (read(ring->fd, &one, sizeof(one)) < 0 &&
		       errno == EINTR)
			;
}

static bool take_place(struct kiln_completions *ring)
{
	bool room;

	pthread_mutex_lock(&ring->lock);
	room = ring->tail - ring->head + ring->requested < ring->capacity;
	ring->requested += room;
	pthread_mutex_unlock(&ring->lock);
	return room;
}

static void give_place(struct kiln_completions *ring)
{
	pthread_mutex_lock(&ring->lock);
	ring->requested--;
	pthread_mutex_unlock(&ring->lock);
}

static void put(struct kiln_completions *ring, const struct post *post)
{
	pthread_mutex_lock(&ring->lock);
	if (ring->tail == ring->head)
		set_readable(ring, true);
	ring->post[ring->tail++ & (ring->capacity - 1)] = *post;
	ring->requested--;
	pthread_mutex_unlock(&ring->lock);
	kilni_wake_all();
}

enum kiln_status kilni_posting_take(struct kilni_posting *posting,
				    struct kiln_completions *ring,
				    uint64_t user, const char *fn)
{
	KILNI_TRY(check_ring(ring, fn));
	if (!take_place(ring))
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "%s: %u completions are requested or not "
				  "taken", fn, ring->capacity);
	*posting = (struct kilni_posting){
		.ring = kiln_completions_retain(ring), .user = user,
		.op = KILNI_OP_NONE,
	};
	return KILN_OK;
}

void kilni_posting_post(const struct kilni_posting *posting,
			enum kiln_status status, uint64_t value)
{
	struct post post = {
		.user = posting->user, .value = value, .status = status,
		.op = posting->op,
	};

	put(posting->ring, &post);
}

void kilni_posting_cancel(const struct kilni_posting *posting)
{
	give_place(posting->ring);
}

void kilni_posting_end(struct kilni_posting *posting)
{
	kiln_completions_release(posting->ring);
}

/* ---- requests ---- */

static struct request *request_of(struct kilni_signal *signal)
{
	return (struct request *)(void *)((char *)signal -
					  offsetof(struct request, signal));
}

static void on_fire(struct kilni_signal *signal, enum kiln_status status)
{
	struct request *request = request_of(signal);

	if (request->whole_stream && status == KILN_OK &&
	    kilni_stream_is_poisoned(signal->stream))
		status = KILN_ERR_POISONED;
	kilni_posting_post(&request->posting, status, signal->at.seq);
}

static void on_release(struct kilni_signal *signal)
{
	struct request *request = request_of(signal);

	kilni_posting_end(&request->posting);
	free(request);
}

/* A request that has its place in the ring. */
static enum kiln_status new_request(struct request **out,
				    struct kiln_completions *ring,
				    uint64_t user, const char *fn)
{
	struct request *request = calloc(1, sizeof(*request));
	enum kiln_status status;

	if (!request)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory for a request", fn);
	status = kilni_posting_take(&request->posting, ring, user, fn);
	if (status != KILN_OK) {
		free(request);
		return status;
	}
	request->signal.fire = on_fire;
	request->signal.release = on_release;
	*out = request;
	return KILN_OK;
}

static enum kiln_status settle(struct request *request, enum kiln_status status)
{
	if (status == KILN_OK)
		return KILN_OK;
	kilni_posting_cancel(&request->posting);
	on_release(&request->signal);
	return status;
}

enum kiln_status kiln_tensor_complete(struct kiln_tensor *tensor,
				      struct kiln_completions *ring,
				      uint64_t user)
{
	struct kilni_track *track;
	struct request *request;

	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_TRY(kilni_window_refuse_read(__func__, tensor));
	KILNI_TRY(new_request(&request, ring, user, __func__));
	track = &tensor->storage->track;
	request->posting.op = __atomic_load_n(&track->op, __ATOMIC_RELAXED);
	return settle(request,
		      kilni_signal_arm_track(track, tensor->device->sched,
					     &request->signal));
}

enum kiln_status kiln_stream_complete(struct kiln_stream *stream,
				      struct kiln_completions *ring,
				      uint64_t user)
{
	struct request *request;
	enum kiln_status status;

	KILNI_TRY(kilni_stream_check(stream, __func__));
	KILNI_TRY(kilni_window_refuse_on(__func__, stream->slot));
	KILNI_TRY(new_request(&request, ring, user, __func__));
	request->whole_stream = true;
	status = kilni_signal_arm(stream->slot, &request->signal);
	if (status != KILN_OK)
		return settle(request, status);
	/* A refused submission is the stream's error, and posted. */
	(void)!kilni_stream_push(stream->slot);
	return KILN_OK;
}

/* ---- taking ---- */

static void describe(const struct post *post, struct kiln_completion *to)
{
	to->user = post->user;
	to->status = post->status;
	to->op = kilni_op_name(post->op);
	to->value = post->value;
}

enum kiln_status kiln_completions_take(struct kiln_completions *ring,
				       struct kiln_completion *taken,
				       size_t *count)
{
	size_t capacity, n;

	KILNI_TRY(check_ring(ring, __func__));
	if (!taken || !count || !*count)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: no place for completions", __func__);
	capacity = *count;
	for (n = 0; n < capacity; n++)
		if (taken[n].struct_size != sizeof(*taken))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: struct_size %zu is unknown",
					  __func__, taken[n].struct_size);
	pthread_mutex_lock(&ring->lock);
	for (n = 0; n < capacity && ring->head != ring->tail; n++)
		describe(&ring->post[ring->head++ & (ring->capacity - 1)],
			 &taken[n]);
	if (n && ring->head == ring->tail)
		set_readable(ring, false);
	pthread_mutex_unlock(&ring->lock);
	*count = n;
	return KILN_OK;
}

static bool has_posts(void *arg)
{
	struct kiln_completions *ring = arg;
	bool some;

	pthread_mutex_lock(&ring->lock);
	some = ring->head != ring->tail;
	pthread_mutex_unlock(&ring->lock);
	return some;
}

enum kiln_status kiln_completions_wait(struct kiln_completions *ring,
				       int64_t timeout_ns)
{
	KILNI_TRY(check_ring(ring, __func__));
	return kilni_wait_for(has_posts, ring, timeout_ns, __func__);
}

/* Makes the descriptor; the lock is held. */
static enum kiln_status make_fd(struct kiln_completions *ring)
{
	KILNI_TRY(KILNI_FAULT("eventfd"));
	ring->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ring->fd < 0)
		return kilni_fail(KILN_ERR_LIMIT, errno,
				  "kiln_completions_fd: eventfd: %s",
				  strerror(errno));
	if (ring->head != ring->tail)
		set_readable(ring, true);
	return KILN_OK;
}

enum kiln_status kiln_completions_fd(struct kiln_completions *ring, int *fd)
{
	enum kiln_status status = KILN_OK;

	KILNI_TRY(check_ring(ring, __func__));
	if (!fd)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: fd is NULL",
				  __func__);
	pthread_mutex_lock(&ring->lock);
	if (ring->fd < 0)
		status = make_fd(ring);
	if (status == KILN_OK)
		*fd = ring->fd;
	pthread_mutex_unlock(&ring->lock);
	return status;
}
