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

/* The moment on the monotonic clock; false: there is no limit. */
static bool deadline(int64_t timeout_ns, struct timespec *until)
{
	uint64_t now, at;

	if (timeout_ns < 0)
		return false;
	now = kilni_now_ns();
	at = now > INT64_MAX - (uint64_t)timeout_ns
		     ? INT64_MAX
		     : now + (uint64_t)timeout_ns;
	until->tv_sec = (time_t)(at / 1000000000u);
	until->tv_nsec = (long)(at % 1000000000u);
	return true;
}

/* One sleep, from the state that value stands for; errno or 0. */
static int sleep_once(uint32_t value, const struct timespec *until)
{
	int error = 0;

	__atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	if (kilni_futex_wait_until(&word, value, until))
		error = errno;
	__atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	return error;
}

enum kiln_status kilni_wait_for(bool (*ready)(void *arg), void *arg,
				int64_t timeout_ns, const char *what)
{
	struct timespec until;
	bool limited = deadline(timeout_ns, &until);
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
		error = sleep_once(value, limited ? &until : NULL);
	}
}
