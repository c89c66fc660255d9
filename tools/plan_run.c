/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/tool.h"

/* How often the program's steps are looked at. */
#define LOOK_NS 2000000
/* Between the request to end and the end by force. */
#define GRACE_SECONDS 2.0

/* A plan in progress. */
struct run {
	const struct plan_order *order;
	struct kiln_plan *plan;
	char folder[PATH_MAX], report[PATH_MAX];
	sigset_t passed_on, before;
	pid_t self, child;
	bool has_ended;
	int status;
	double begin;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *what)
{
	tool_complain("plan: %s: %s", what, strerror(errno));
	return EXIT_FAILURE;
}

/* ---- the place of the report ---- */

static int make_report(struct run *run)
{
	const char *parent = getenv("TMPDIR");
	enum kiln_status status;
	int length;

	if (!parent || *parent != '/')
		parent = "/tmp";
	length = snprintf(run->folder, sizeof(run->folder), "%s/kiln-plan-XXXXXX",
			  parent);
	if (length < 0 || (size_t)length + sizeof("/report") > PATH_MAX) {
		run->folder[0] = '\0';
		tool_complain("plan: TMPDIR is too long");
		return EXIT_FAILURE;
	}
	if (!mkdtemp(run->folder)) {
		fail(run->folder);
		run->folder[0] = '\0';
		return EXIT_FAILURE;
	}
	memcpy(run->report, run->folder, (size_t)length);
	memcpy(run->report + length, "/report", sizeof("/report"));
	status = kiln_plan_create(&run->plan, run->report, run->order->steps);
	return status ? tool_error(status) : EXIT_SUCCESS;
}

static void remove_report(struct run *run)
{
	kiln_plan_release(run->plan);
	if (run->folder[0] && rmdir(run->folder))
		(void)fail(run->folder);
}

/* ---- signals ---- */

static const int passed_on[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				 SIGUSR1, SIGUSR2, SIGCONT };

static int block_signals(struct run *run)
{
	sigemptyset(&run->passed_on);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(&run->passed_on, passed_on[i]);
	sigaddset(&run->passed_on, SIGCHLD);
	return sigprocmask(SIG_BLOCK, &run->passed_on, &run->before)
		       ? fail("signals")
		       : EXIT_SUCCESS;
}

/* Whether it asks to end. */
static bool is_request(int number)
{
	return number == SIGHUP || number == SIGINT || number == SIGQUIT ||
	       number == SIGTERM;
}

/*
 * Waits a little for a signal, and passes it on. One that the terminal sent
 * the program has got itself, since it is of the same group. True: one that
 * asks to end.
 */
static bool pass_on(const struct run *run)
{
	struct timespec little = { 0, LOOK_NS };
	siginfo_t info;
	int number = sigtimedwait(&run->passed_on, &info, &little);

	if (number < 0 || number == SIGCHLD)
		return false;
	if (info.si_code <= 0)
		kill(run->child, number);
	return is_request(number);
}

/* ---- the program ---- */

/* In the child: what it prints goes where messages go. */
static void become_program(const struct run *run, int report)
{
	const struct plan_order *order = run->order;
	int code;

	/* A plan that is killed takes its program along. */
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == run->self &&
	    !setenv("KILN_PLAN", order->target, 1) &&
	    !setenv("KILN_PLAN_REPORT", run->report, 1) &&
	    dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 &&
	    !sigprocmask(SIG_SETMASK, &run->before, NULL))
		execvp(order->program[0], order->program);
	code = errno;
	if (write(report, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

/* Reads why the program could not be started; 0: it was. */
static int start_error(int report)
{
	int code = 0;
	ssize_t bytes;

	do
		bytes = read(report, &code, sizeof(code));
	while (bytes < 0 && errno == EINTR);
	return bytes == (ssize_t)sizeof(code) ? code : 0;
}

static int start(struct run *run)
{
	int ends[2], code;

	/* What outlives its parent becomes our child, so that we see its end. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return fail("subreaper");
	if (pipe2(ends, O_CLOEXEC))
		return fail("pipe");
	fflush(stdout);
	run->begin = now();
	run->self = getpid();
	run->child = fork();
	if (run->child < 0) {
		close(ends[0]);
		close(ends[1]);
		return fail("fork");
	}
	if (!run->child)
		become_program(run, ends[1]);
	close(ends[1]);
	code = start_error(ends[0]);
	close(ends[0]);
	if (!code)
		return EXIT_SUCCESS;
	waitpid(run->child, NULL, 0);
	tool_complain("plan: %s: %s", run->order->program[0], strerror(code));
	return EXIT_FAILURE;
}

/* Buries what has ended, also what the program has left to us. */
static bool has_ended(struct run *run)
{
	int status;
	pid_t found;

	do {
		found = waitpid(-1, &status, WNOHANG);
		if (found == run->child) {
			run->has_ended = true;
			run->status = status;
		}
	} while (found > 0 || (found < 0 && errno == EINTR));
	return run->has_ended;
}

/* Waits for one of the limits or for the end. */
static enum plan_end watch(struct run *run)
{
	const struct plan_order *order = run->order;

	for (;;) {
		bool asked = pass_on(run);

		if (asked)
			return PLAN_SIGNAL;
		if (has_ended(run))
			return PLAN_ENDED;
		if (order->steps && kiln_plan_steps(run->plan) >= order->steps)
			return PLAN_STEPS;
		if (order->seconds > 0 && now() - run->begin >= order->seconds)
			return PLAN_TIME;
	}
}

/* ---- the end ---- */

/*
 * To the program, and to those of its processes that opened a device. Returns
 * how many are there.
 */
static unsigned signal_all(struct run *run, int number)
{
	struct kiln_plan_info info[KILN_PLAN_DEVICES_MAX];
	size_t count = KILN_PLAN_DEVICES_MAX;
	unsigned there = !has_ended(run);

	if (there)
		kill(run->child, number);
	memset(info, 0, sizeof(info));
	for (size_t i = 0; i < count; i++)
		info[i].struct_size = sizeof(info[i]);
	if (kiln_plan_read(run->plan, info, &count, NULL))
		return there;
	for (size_t i = 0; i < count && i < KILN_PLAN_DEVICES_MAX; i++)
		if (info[i].process > 1 && info[i].process != run->child &&
		    getpgid((pid_t)info[i].process) == getpgrp())
			there += !kill((pid_t)info[i].process, number);
	return there;
}

static void end_program(struct run *run)
{
	double asked = now();
	struct timespec little = { 0, LOOK_NS };

	signal_all(run, SIGTERM);
	while (signal_all(run, 0) && now() - asked < GRACE_SECONDS)
		nanosleep(&little, NULL);
	while (signal_all(run, SIGKILL) && !has_ended(run))
		nanosleep(&little, NULL);
}

static int read_report(struct run *run, struct plan_result *result)
{
	enum kiln_status status;

	result->devices = KILN_PLAN_DEVICES_MAX;
	for (size_t i = 0; i < result->devices; i++)
		result->info[i].struct_size = sizeof(result->info[i]);
	status = kiln_plan_read(run->plan, result->info, &result->devices,
				&result->lost);
	return status ? tool_error(status) : EXIT_SUCCESS;
}

static int run_program(struct run *run, struct plan_result *result)
{
	int code = start(run);

	if (code)
		return code;
	result->end = watch(run);
	if (result->end != PLAN_ENDED)
		end_program(run);
	result->seconds = now() - run->begin;
	result->status = run->status;
	/* A program that ended in time may have made its last step in it. */
	if (result->end == PLAN_ENDED && run->order->steps &&
	    kiln_plan_steps(run->plan) >= run->order->steps)
		result->end = PLAN_STEPS;
	return read_report(run, result);
}

int plan_run(const struct plan_order *order, struct plan_result *result)
{
	struct run run = { .order = order };
	int code = block_signals(&run);

	if (code)
		return code;
	code = make_report(&run);
	if (!code)
		code = run_program(&run, result);
	remove_report(&run);
	/* Last: one that still waits may end us here. */
	sigprocmask(SIG_SETMASK, &run.before, NULL);
	return code;
}
