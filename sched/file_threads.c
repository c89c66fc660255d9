/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/spawn.h"

/* Transfers by threads, which are started as they are needed. */

#define THREADS_MOST 4
#define STACK_BYTES ((size_t)256 << 10)

struct thread_io {
	struct kilni_io io;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct kilni_transfer *first, **last; /* to be attempted */
	struct kilni_transfer *finished;
	unsigned threads, idle;
	bool end;
	pthread_t thread[THREADS_MOST];
};

static struct thread_io *threads_of(struct kilni_io *io)
{
	return (struct thread_io *)io;
}

/* The lock is held. */
static struct kilni_transfer *take(struct thread_io *own)
{
	struct kilni_transfer *transfer = own->first;

	own->first = transfer->next;
	if (!own->first)
		own->last = &own->first;
	return transfer;
}

static void *thread_main(void *arg)
{
	struct thread_io *own = arg;
	struct kilni_transfer *transfer;

	pthread_mutex_lock(&own->lock);
	for (;;) {
		own->idle++;
		while (!own->first && !own->end)
			pthread_cond_wait(&own->work, &own->lock);
		own->idle--;
		if (!own->first)
			break;
		transfer = take(own);
		pthread_mutex_unlock(&own->lock);
		transfer->result = kilni_io_attempt(transfer);
		pthread_mutex_lock(&own->lock);
		transfer->next = own->finished;
		own->finished = transfer;
		pthread_cond_signal(&own->done);
	}
	pthread_mutex_unlock(&own->lock);
	return NULL;
}

/* One more thread, where the system gives it. The lock is held. */
static void add_thread(struct thread_io *own)
{
	pthread_attr_t attr;

	if (kilni_io_fault("file_thread") || pthread_attr_init(&attr))
		return;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (!kilni_spawn(&own->thread[own->threads], &attr, thread_main, own))
		own->threads++;
	pthread_attr_destroy(&attr);
}

static int threads_start(struct kilni_io *io, struct kilni_transfer *transfer)
{
	struct thread_io *own = threads_of(io);
	int error = 0;

	transfer->next = NULL;
	pthread_mutex_lock(&own->lock);
	if (own->first || !own->idle)
		if (own->threads < THREADS_MOST)
			add_thread(own);
	if (own->threads) {
		*own->last = transfer;
		own->last = &transfer->next;
		pthread_cond_signal(&own->work);
	} else {
		error = EAGAIN;
	}
	pthread_mutex_unlock(&own->lock);
	return error;
}

static struct kilni_transfer *threads_wait(struct kilni_io *io)
{
	struct thread_io *own = threads_of(io);
	struct kilni_transfer *transfer;

	pthread_mutex_lock(&own->lock);
	while (!own->finished)
		pthread_cond_wait(&own->done, &own->lock);
	transfer = own->finished;
	own->finished = transfer->next;
	pthread_mutex_unlock(&own->lock);
	return transfer;
}

static void threads_destroy(struct kilni_io *io)
{
	struct thread_io *own = threads_of(io);

	pthread_mutex_lock(&own->lock);
	own->end = true;
	pthread_cond_broadcast(&own->work);
	pthread_mutex_unlock(&own->lock);
	for (unsigned i = 0; i < own->threads; i++)
		pthread_join(own->thread[i], NULL);
	pthread_cond_destroy(&own->work);
	pthread_cond_destroy(&own->done);
	pthread_mutex_destroy(&own->lock);
	free(own);
}

static const struct kilni_io_ops thread_ops = {
	.start = threads_start,
	.wait = threads_wait,
	.destroy = threads_destroy,
};

struct kilni_io *kilni_io_threads(void)
{
	struct thread_io *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->io.ops = &thread_ops;
	own->last = &own->first;
	pthread_mutex_init(&own->lock, NULL);
	pthread_cond_init(&own->work, NULL);
	pthread_cond_init(&own->done, NULL);
	return &own->io;
}
