/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* A program that a subcommand runs. */
struct program {
	const char *tool;        /* the subcommand, for messages */
	pid_t self, child;
	bool has_ended;
	int status;              /* as of waitpid, when it has ended */
	sigset_t passed_on, before;
};

/* Takes the signals that are for the program; an exit status. */
int program_hold_signals(struct program *program);
/* Last of all: one that still waits may end us here. */
void program_let_signals(const struct program *program);

/*
 * Starts it; in the child prepare(arg) comes first. 0, or why not, which has
 * been told: an errno, -1 for what is none of the program's.
 */
int program_start(struct program *program, char **argv,
		  bool (*prepare)(void *arg), void *arg);

/*
 * Waits a little for a signal, and passes it on. One that the terminal sent
 * the program has got itself, since it is of the same group. True: one that
 * asks to end.
 */
bool program_pass_on(const struct program *program, long wait_ns);

/* Buries what has ended, also what the program has left to us. */
bool program_has_ended(struct program *program);

#endif
