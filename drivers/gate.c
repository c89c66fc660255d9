/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/driver.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kilni_gate_watch *held;

static void lock_gates(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_gates(void)
{
	pthread_mutex_unlock(&lock);
}

/* The queues that are held here are the parent's. */
static void forget_gates(void)
{
	held = NULL;
	pthread_mutex_unlock(&lock);
}

void kilni_gate_fork_watch(void)
{
	pthread_atfork(lock_gates, unlock_gates, forget_gates);
}

bool kilni_gate_hold(struct kilni_gate_watch *watch, const int *gate)
{
	bool open;

	pthread_mutex_lock(&lock);
	open = __atomic_load_n(gate, __ATOMIC_ACQUIRE) != 0;
	if (!open) {
		watch->gate = gate;
		watch->next = held;
		held = watch;
	}
	pthread_mutex_unlock(&lock);
	return !open;
}

/* Takes the watches of one gate out of the list. */
static struct kilni_gate_watch *take(const int *gate)
{
	struct kilni_gate_watch **at = &held, *taken = NULL;

	while (*at) {
		struct kilni_gate_watch *watch = *at;

		if (watch->gate != gate) {
			at = &watch->next;
			continue;
		}
		*at = watch->next;
		watch->next = taken;
		taken = watch;
	}
	return taken;
}

void kilni_gate_open(int *gate)
{
	struct kilni_gate_watch *watch, *next;

	pthread_mutex_lock(&lock);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	watch = take(gate);
	pthread_mutex_unlock(&lock);
	/* Unlocked, since a queue that goes on may meet the next gate. */
	for (; watch; watch = next) {
		next = watch->next;
		watch->opened(watch);
	}
}
