/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wake.h"

#include <errno.h>
#include <limits.h>

#include "base/base.h"
#include "base/futex.h"

static uint32_t word;                  /* changes whenever there is news */
static uint32_t sleepers;
static uint32_t interrupts;
static _Thread_local uint32_t interrupts_seen;

uint64_t kilni_wait_spin_ns = 20000;

void kilni_wake_all(void)
{
	__atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST))
		kilni_futex_wake(&word, INT_MAX);
}

void kilni_interrupt(void)
{
	int error = errno;

	__atomic_add_fetch(&interrupts, 1, __ATOMIC_SEQ_CST);
	kilni_wake_all();
	errno = error;
}

static bool is_interrupted(void)
{
	uint32_t now = __atomic_load_n(&interrupts, __ATOMIC_SEQ_CST);

	if (now == interrupts_seen)
		return false;
	interrupts_seen = now;
	return true;
}

#define NEVER UINT64_MAX

/* The first and the longest sleep of a wait that has to ask. */
#define ASK_FIRST_NS 20000
#define ASK_MOST_NS 10000000

/* The moment on the monotonic clock, or NEVER. */
static uint64_t deadline(int64_t timeout_ns)
{
	uint64_t now;

	if (timeout_ns < 0)
		return NEVER;
	now = kilni_now_ns();
	return now > INT64_MAX - (uint64_t)timeout_ns
		       ? INT64_MAX
		       : now + (uint64_t)timeout_ns;
}

/*
 * What is about to come is not worth a sleep: looks for news for a while, and
 * tells whether there was any.
 */
static bool spin(uint32_t value, int64_t timeout_ns)
{
	uint64_t most = __atomic_load_n(&kilni_wait_spin_ns, __ATOMIC_RELAXED);
	uint64_t end;

	if (timeout_ns > 0)
		most = kilni_min_u64(most, (uint64_t)timeout_ns);
	for (end = kilni_now_ns() + most; kilni_now_ns() < end;)
		for (int i = 0; i < 16; i++) {
			if (__atomic_load_n(&word, __ATOMIC_SEQ_CST) != value)
				return true;
			kilni_pause();
		}
	return false;
}

/* One sleep, from the state that value stands for; errno or 0. */
static int sleep_once(uint32_t value, uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};
	int error = 0;

	__atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	if (kilni_futex_wait_until(&word, value,
				   until_ns == NEVER ? NULL : &until))
		error = errno;
	__atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	return error;
}

/* At most step_ns, which grows: so asking costs a small share of the wait. */
static int sleep_a_step(uint32_t value, uint64_t until_ns, uint64_t *step_ns)
{
	uint64_t next = kilni_now_ns() + *step_ns;
	int error = sleep_once(value, kilni_min_u64(next, until_ns));

	*step_ns = kilni_min_u64(*step_ns * 2, ASK_MOST_NS);
	return error == ETIMEDOUT && next < until_ns ? 0 : error;
}

static enum kiln_status wait_for(bool (*ready)(void *arg), void *arg,
				 int64_t timeout_ns, const char *what,
				 bool asks)
{
	uint64_t until_ns = deadline(timeout_ns), step_ns = ASK_FIRST_NS;
	bool has_spun = asks;
	uint32_t value;
	int error = 0;

	for (;;) {
		value = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
		if (ready(arg))
			return KILN_OK;
		if (is_interrupted() || error == EINTR)
			return kilni_fail(KILN_ERR_INTERRUPTED, EINTR,
					  "%s: interrupted", what);
		if (timeout_ns == 0 || error == ETIMEDOUT)
			return kilni_fail(KILN_ERR_TIMEOUT, 0,
					  "%s: not done within %lld ns", what,
					  (long long)timeout_ns);
		if (!has_spun) {
			has_spun = true;
			if (spin(value, timeout_ns))
				continue;
		}
		error = asks ? sleep_a_step(value, until_ns, &step_ns)
			     : sleep_once(value, until_ns);
	}
}

enum kiln_status kilni_wait_for(bool (*ready)(void *arg), void *arg,
				int64_t timeout_ns, const char *what)
{
	return wait_for(ready, arg, timeout_ns, what, false);
}

enum kiln_status kilni_wait_asking(bool (*ready)(void *arg), void *arg,
				   int64_t timeout_ns, const char *what)
{
	return wait_for(ready, arg, timeout_ns, what, true);
}
