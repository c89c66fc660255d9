/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/cpu/internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/cpu/fpenv.h"
#include "base/futex.h"
#include "base/spawn.h"

/*
 * No wake-up is lost: who publishes work does so before he looks at spinning
 * and sleeping, who goes to sleep is counted before he looks for work a last
 * time, and all of these are sequentially consistent.
 */

static bool has_work(struct kilni_gang *gang,
		     const struct kilni_cpu_queue *queue)
{
	if (__atomic_load_n(&gang->ready_count, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&gang->open_loops, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&gang->stop, __ATOMIC_SEQ_CST))
		return true;
	return queue &&
	       (__atomic_load_n(&queue->submitted, __ATOMIC_SEQ_CST) !=
			queue->done ||
		__atomic_load_n(&queue->closing, __ATOMIC_SEQ_CST));
}

bool kilni_gang_spin(struct kilni_gang *gang,
		     const struct kilni_cpu_queue *queue)
{
	bool found = has_work(gang, queue);
	uint64_t end;

	if (found || !gang->spin_ns)
		return found;
	__atomic_fetch_add(&gang->spinning, 1, __ATOMIC_SEQ_CST);
	end = kilni_now_ns() + gang->spin_ns;
	do {
		for (int i = 0; i < 16 && !found; i++) {
			kilni_pause();
			found = has_work(gang, queue);
		}
	} while (!found && kilni_now_ns() < end);
	__atomic_fetch_sub(&gang->spinning, 1, __ATOMIC_SEQ_CST);
	return found || has_work(gang, queue);
}

static void gang_sleep(struct kilni_gang *gang)
{
	uint32_t word = __atomic_load_n(&gang->wake_word, __ATOMIC_SEQ_CST);

	__atomic_fetch_add(&gang->sleeping, 1, __ATOMIC_SEQ_CST);
	if (!has_work(gang, NULL))
		kilni_futex_wait(&gang->wake_word, word);
	__atomic_fetch_sub(&gang->sleeping, 1, __ATOMIC_SEQ_CST);
}

void kilni_gang_wake(struct kilni_gang *gang, unsigned n)
{
	unsigned spinning = __atomic_load_n(&gang->spinning, __ATOMIC_SEQ_CST);

	if (spinning >= n ||
	    !__atomic_load_n(&gang->sleeping, __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&gang->wake_word, 1, __ATOMIC_SEQ_CST);
	kilni_futex_wake(&gang->wake_word, (int)(n - spinning));
}

void kilni_gang_ready(struct kilni_cpu_queue *queue,
		      enum kilni_queue_state from)
{
	struct kilni_gang *gang = queue->gang;
	bool mine;

	pthread_mutex_lock(&gang->lock);
	mine = __atomic_load_n(&queue->state, __ATOMIC_SEQ_CST) == (int)from;
	if (mine) {
		struct kilni_ready *ready = &gang->ready[queue->priority];

		__atomic_store_n(&queue->state, KILNI_QUEUE_READY,
				 __ATOMIC_SEQ_CST);
		queue->next_ready = NULL;
		*ready->last = queue;
		ready->last = &queue->next_ready;
		__atomic_fetch_add(&gang->ready_of[queue->priority], 1,
				   __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&gang->ready_count, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&gang->lock);
	if (mine)
		kilni_gang_wake(gang, 1);
}

bool kilni_gang_prefers(struct kilni_gang *gang, unsigned priority)
{
	while (++priority < KILNI_PRIORITIES)
		if (__atomic_load_n(&gang->ready_of[priority],
				    __ATOMIC_RELAXED))
			return true;
	return false;
}

/* The first queue of the highest priority; the lock is held. */
static struct kilni_cpu_queue *take_first(struct kilni_gang *gang)
{
	for (unsigned i = KILNI_PRIORITIES; i-- > 0;) {
		struct kilni_ready *ready = &gang->ready[i];
		struct kilni_cpu_queue *queue = ready->first;

		if (!queue)
			continue;
		ready->first = queue->next_ready;
		if (!ready->first)
			ready->last = &ready->first;
		__atomic_fetch_sub(&gang->ready_of[i], 1, __ATOMIC_SEQ_CST);
		return queue;
	}
	return NULL;
}

/*
 * Takes the first ready queue. Whoever was counted as looking for work may
 * have found one of several: then the next is woken here.
 */
static struct kilni_cpu_queue *take_ready(struct kilni_gang *gang)
{
	struct kilni_cpu_queue *queue;

	if (!__atomic_load_n(&gang->ready_count, __ATOMIC_SEQ_CST))
		return NULL;
	pthread_mutex_lock(&gang->lock);
	queue = take_first(gang);
	if (queue) {
		__atomic_fetch_sub(&gang->ready_count, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&queue->state, KILNI_QUEUE_LED,
				 __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&gang->lock);
	if (queue && __atomic_load_n(&gang->ready_count, __ATOMIC_SEQ_CST))
		kilni_gang_wake(gang, 1);
	return queue;
}

/* ---- threads ---- */

/*
 * Inside the mask that the thread inherited. A failure is no error: the mask
 * may have changed since, or the topology may be a file's.
 */
static void pin(const struct kilni_worker *worker)
{
	size_t size = CPU_ALLOC_SIZE(KILNI_CPU_MOST);
	cpu_set_t *set;

	if (worker->cpu < 0 || worker->cpu >= KILNI_CPU_MOST)
		return;
	set = CPU_ALLOC(KILNI_CPU_MOST);
	if (!set)
		return;
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)worker->cpu, size, set);
	if (sched_setaffinity(0, size, set))
		kilni_log(KILNI_LOG_INFO, "cpu: worker %u: not pinned to %d",
			  worker->index, worker->cpu);
	CPU_FREE(set);
}

static void *worker_main(void *arg)
{
	struct kilni_worker *worker = arg;
	struct kilni_gang *gang = worker->gang;
	struct kilni_cpu_queue *queue;
	char name[16];
	bool has_spun = false;

	snprintf(name, sizeof(name), "kiln-cpu-%u", worker->index);
	pthread_setname_np(pthread_self(), name);
	pin(worker);
	/* A new thread has its creator's mode. */
	(void)kilni_fp_enter();
	while (!__atomic_load_n(&gang->stop, __ATOMIC_SEQ_CST)) {
		queue = take_ready(gang);
		if (queue) {
			has_spun = kilni_queue_lead(queue, worker);
		} else if (kilni_loop_help(gang, worker->index)) {
			has_spun = false;
		} else if (has_spun || !kilni_gang_spin(gang, NULL)) {
			gang_sleep(gang);
			has_spun = false;
		}
	}
	return NULL;
}

static void join_all(struct kilni_gang *gang, unsigned started)
{
	__atomic_store_n(&gang->stop, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&gang->wake_word, 1, __ATOMIC_SEQ_CST);
	kilni_futex_wake(&gang->wake_word, INT_MAX);
	for (unsigned i = 0; i < started; i++)
		pthread_join(gang->worker[i].thread, NULL);
}

/* Starts the threads; returns how many run. */
static unsigned start_all(struct kilni_gang *gang, const int *cpu, int *error)
{
	unsigned started = 0;

	for (*error = 0; started < gang->width; started++) {
		struct kilni_worker *worker = &gang->worker[started];

		worker->gang = gang;
		worker->index = started;
		worker->cpu = cpu ? cpu[started] : -1;
		kilni_loop_init(&worker->loop, gang);
		*error = kilni_spawn(&worker->thread, NULL, worker_main,
				     worker);
		if (*error)
			break;
	}
	return started;
}

static void gang_free(struct kilni_gang *gang)
{
	pthread_mutex_destroy(&gang->lock);
	free(gang->worker);
	free(gang);
}

static struct kilni_gang *gang_alloc(unsigned width)
{
	struct kilni_gang *gang = aligned_alloc(KILNI_LINE, sizeof(*gang));
	size_t bytes = width * sizeof(struct kilni_worker);

	if (!gang)
		return NULL;
	memset(gang, 0, sizeof(*gang));
	gang->worker = aligned_alloc(KILNI_LINE, bytes);
	if (!gang->worker) {
		free(gang);
		return NULL;
	}
	memset(gang->worker, 0, bytes);
	pthread_mutex_init(&gang->lock, NULL);
	for (unsigned i = 0; i < KILNI_PRIORITIES; i++)
		gang->ready[i].last = &gang->ready[i].first;
	gang->width = width;
	return gang;
}

enum kiln_status kilni_gang_create(struct kilni_gang **out, unsigned width,
				   const int *cpu, uint64_t spin_ns,
				   const struct kilni_cpu_kernels *kernels)
{
	struct kilni_gang *gang = gang_alloc(width);
	unsigned started;
	int error;

	if (!gang)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for %u workers", width);
	gang->spin_ns = spin_ns;
	gang->kernels = kernels;
	started = start_all(gang, cpu, &error);
	if (started < width) {
		join_all(gang, started);
		gang_free(gang);
		return kilni_fail(KILN_ERR_LIMIT, error,
				  "cpu: worker %u of %u cannot be started: %s",
				  started + 1, width, strerror(error));
	}
	*out = gang;
	return KILN_OK;
}

void kilni_gang_destroy(struct kilni_gang *gang)
{
	join_all(gang, gang->width);
	gang_free(gang);
}
