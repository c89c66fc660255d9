/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <sched.h>

/* Looks at the lock before its holder may have lost the processor. */
#define SPINS 200

void kilni_spin_wait(int *lock)
{
	unsigned spins = 0;

	do {
		while (__atomic_load_n(lock, __ATOMIC_RELAXED)) {
			if (spins < SPINS) {
				spins++;
				kilni_pause();
			} else {
				sched_yield();
			}
		}
	} while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE));
}
