/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/internal.h"

#include <time.h>

/*
 * The process exits. A vendor's library that is taken down then must have no
 * thread in it any more, so its driver calls here: the threads that submit and
 * that move data do what they have, for a while, and end. What comes later is
 * done by whoever asks for it.
 */

#define AGAIN_NS 100000

bool kilni_await_end(const int *ended, uint64_t ns)
{
	const struct timespec again = { .tv_nsec = AGAIN_NS };
	uint64_t start = kilni_now_ns();

	while (!__atomic_load_n(ended, __ATOMIC_ACQUIRE)) {
		if (kilni_now_ns() - start > ns)
			return false;
		nanosleep(&again, NULL);
	}
	return true;
}

static void leave(void *data)
{
	struct kilni_sched *sched = data;

	kilni_submitter_leave(&sched->submitter);
	kilni_mover_leave(&sched->mover);
}

void kilni_sched_watch_exit(struct kilni_sched *sched)
{
	if (!__atomic_load_n(&sched->watches_exit, __ATOMIC_ACQUIRE) &&
	    !__atomic_exchange_n(&sched->watches_exit, 1, __ATOMIC_SEQ_CST))
		sched->hw->driver->device->at_exit(sched->hw, leave, sched);
}

void kilni_sched_forget_exit(struct kilni_sched *sched)
{
	if (__atomic_exchange_n(&sched->watches_exit, 0, __ATOMIC_SEQ_CST))
		sched->hw->driver->device->at_exit(sched->hw, NULL, NULL);
}
