/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_FUTEX_H
#define KILNI_FUTEX_H

#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is value; may return early for no reason. */
static inline void kilni_futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* The same up to a time of the monotonic clock, or NULL; errno where not 0. */
static inline long kilni_futex_wait_until(uint32_t *word, uint32_t value,
					  const struct timespec *until)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value,
		       until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void kilni_futex_wake(uint32_t *word, int threads)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

#endif
