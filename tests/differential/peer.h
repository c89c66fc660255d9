/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_PEER_H
#define DIFF_PEER_H

#include <sys/types.h>

#include "tests/differential/attempt.h"

/*
 * The reference, in a process of its own: a process has one CPU device, and
 * its instruction-set level is fixed when it is opened.
 */
struct diff_peer {
	pid_t pid;
	int socket;
	char describe[256];
};

/*
 * Starts a process that opens the device; before this one opens any. level, or
 * NULL: its KILN_CPU_ISA. False with why where that fails.
 */
bool diff_peer_start(struct diff_peer *peer, const char *selector,
		     const char *level, struct conf_text *why);

/* Sends a case, which the peer begins at once. */
bool diff_peer_send(struct diff_peer *peer, const struct diff_case *c);

/* Waits for what came of it; false where the peer is gone. */
bool diff_peer_receive(struct diff_peer *peer, struct diff_outcome *outcome);

void diff_peer_stop(struct diff_peer *peer);

#endif
