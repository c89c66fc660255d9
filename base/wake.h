/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_WAKE_H
#define KILNI_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

/*
 * Waits of the host that have a limit and can be interrupted. After a short spin all
 * sleep on one word: such waits are few, and a signal handler can wake them all.
 */

/*
 * Waits until ready(arg), which any thread may ask at any time. timeout_ns: 0
 * only asks, less than 0 waits without a limit. what is for the message.
 * KILN_ERR_TIMEOUT, KILN_ERR_INTERRUPTED.
 */
enum kiln_status kilni_wait_for(bool (*ready)(void *arg), void *arg,
				int64_t timeout_ns, const char *what);

/*
 * The same for what may become ready without anybody calling kilni_wake_all:
 * it is asked for now and then, up to 10 ms late.
 */
enum kiln_status kilni_wait_asking(bool (*ready)(void *arg), void *arg,
				   int64_t timeout_ns, const char *what);

/* For so long a wait looks for news before it sleeps. Atomic. */
extern uint64_t kilni_wait_spin_ns;

/* Something has become ready. */
void kilni_wake_all(void);

/* Interrupts each thread's wait, or its next one. Async-signal-safe. */
void kilni_interrupt(void);

#endif
