/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sched/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "base/spawn.h"

/*
 * Who hands queued work to the driver: the callers, whenever a stream has so
 * many entries (half as many as the device has still to do and an eighth of
 * what came since somebody waited, within bounds: it is not kept waiting then,
 * and handing over costs the less), or a thread of the device. To that thread a
 * stream is shown by putting it into a list, once until the thread has taken it
 * from there; it is taken before its tail is looked at, so that nothing is
 * overlooked.
 */

#define DRAIN_DEFAULT 8
#define DRAIN_MOST 64
#define SPIN_US_DEFAULT 20
/* How long an exit waits for the thread. */
#define LEAVE_NS 1000000000

static struct kilni_stream *take_shown(struct kilni_submitter *submitter)
{
	return __atomic_exchange_n(&submitter->shown, NULL, __ATOMIC_SEQ_CST);
}

static void drain_all(struct kilni_stream *stream)
{
	struct kilni_stream *next;

	for (; stream; stream = next) {
		next = stream->next_shown;
		__atomic_store_n(&stream->is_shown, 0, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		/* A refusal is marked in the stream. */
		(void)!kilni_ring_drain(stream);
	}
}

static bool has_news(struct kilni_submitter *submitter)
{
	return __atomic_load_n(&submitter->shown, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&submitter->stop, __ATOMIC_SEQ_CST);
}

static void rest(struct kilni_submitter *submitter)
{
	uint64_t end = kilni_now_ns() + submitter->spin_ns;
	uint32_t word;

	while (kilni_now_ns() < end)
		for (int i = 0; i < 16; i++) {
			if (has_news(submitter))
				return;
			kilni_pause();
		}
	word = __atomic_load_n(&submitter->word, __ATOMIC_SEQ_CST);
	__atomic_store_n(&submitter->sleeping, 1, __ATOMIC_SEQ_CST);
	if (!has_news(submitter))
		kilni_futex_wait(&submitter->word, word);
	__atomic_store_n(&submitter->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void *run(void *arg)
{
	struct kilni_submitter *submitter = arg;
	struct kilni_stream *shown;

	pthread_setname_np(pthread_self(), "kiln-submit");
	while (!__atomic_load_n(&submitter->stop, __ATOMIC_SEQ_CST)) {
		shown = take_shown(submitter);
		if (shown)
			drain_all(shown);
		else
			rest(submitter);
	}
	/* Whoever shows a stream after this sees that it has to stop. */
	drain_all(take_shown(submitter));
	__atomic_store_n(&submitter->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void wake(struct kilni_submitter *submitter)
{
	if (!__atomic_load_n(&submitter->sleeping, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&submitter->word, 1, __ATOMIC_SEQ_CST);
	kilni_futex_wake(&submitter->word, 1);
}

static void show(struct kilni_stream *stream)
{
	struct kilni_submitter *submitter = &stream->sched->submitter;
	struct kilni_stream *first;

	/* Behind the tail, as the thread does the reverse. */
	if (__atomic_exchange_n(&stream->is_shown, 1, __ATOMIC_SEQ_CST))
		return;
	first = __atomic_load_n(&submitter->shown, __ATOMIC_RELAXED);
	do
		stream->next_shown = first;
	while (!__atomic_compare_exchange_n(&submitter->shown, &first, stream,
					    true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED));
	wake(submitter);
}

enum kiln_status kilni_ring_hand_on(struct kilni_stream *stream)
{
	struct kilni_submitter *submitter = &stream->sched->submitter;

	if (!submitter->started)
		return kilni_ring_drain_quietly(stream);
	show(stream);
	if (KILNI_LIKELY(!__atomic_load_n(&submitter->stop, __ATOMIC_SEQ_CST)))
		return KILN_OK;
	return kilni_ring_drain_quietly(stream);
}

/* ---- options and life ---- */

static enum kiln_status read_policy(struct kilni_submitter *submitter,
				    bool *threaded)
{
	const char *text = kilni_option_text(KILNI_OPT_DRAIN);
	unsigned long number;
	char *end;

	*threaded = false;
	submitter->every = DRAIN_DEFAULT;
	submitter->most = DRAIN_MOST;
	if (!text)
		return KILN_OK;
	*threaded = !strcmp(text, "thread");
	if (*threaded) {
		submitter->every = submitter->most = 1;
		return KILN_OK;
	}
	number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
	if (!number || *end || number > DRAIN_MOST)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "%s: \"%s\" is neither thread nor a number "
				  "from 1 to %d",
				  kilni_options[KILNI_OPT_DRAIN].name, text,
				  DRAIN_MOST);
	submitter->every = submitter->most = (unsigned)number;
	return KILN_OK;
}

static enum kiln_status start(struct kilni_submitter *submitter)
{
	int error;

	KILNI_TRY(KILNI_FAULT("submitter"));
	error = kilni_spawn(&submitter->thread, NULL, run, submitter);
	if (error)
		return kilni_fail(KILN_ERR_LIMIT, error,
				  "no thread to submit work: %s",
				  strerror(error));
	submitter->started = true;
	return KILN_OK;
}

enum kiln_status kilni_submitter_init(struct kilni_submitter *submitter)
{
	uint64_t spin_us = SPIN_US_DEFAULT;
	bool threaded;

	KILNI_TRY(read_policy(submitter, &threaded));
	KILNI_TRY(kilni_option_number(KILNI_OPT_SPIN_US, &spin_us));
	submitter->spin_ns = spin_us * 1000;
	return threaded ? start(submitter) : KILN_OK;
}

static void tell_to_stop(struct kilni_submitter *submitter)
{
	__atomic_store_n(&submitter->stop, 1, __ATOMIC_SEQ_CST);
	wake(submitter);
}

void kilni_submitter_stop(struct kilni_submitter *submitter)
{
	if (!submitter->started)
		return;
	tell_to_stop(submitter);
	pthread_join(submitter->thread, NULL);
	submitter->started = false;
}

void kilni_submitter_leave(struct kilni_submitter *submitter)
{
	if (!submitter->started)
		return;
	tell_to_stop(submitter);
	if (!pthread_equal(pthread_self(), submitter->thread))
		(void)kilni_await_end(&submitter->ended, LEAVE_NS);
}
