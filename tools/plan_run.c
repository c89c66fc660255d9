/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/plan.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/program.h"
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
	struct program program;
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

/* ---- the program ---- */

/* In the child: what it prints goes where messages go. */
static bool prepare(void *arg)
{
	const struct run *run = arg;

	/* A plan that is killed takes its program along. */
	return !prctl(PR_SET_PDEATHSIG, SIGKILL) &&
	       getppid() == run->program.self &&
	       !setenv("KILN_PLAN", run->order->target, 1) &&
	       !setenv("KILN_PLAN_REPORT", run->report, 1) &&
	       dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

static int start(struct run *run)
{
	/* What outlives its parent becomes our child, so that we see its end. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return fail("subreaper");
	run->begin = now();
	return program_start(&run->program, run->order->program, prepare, run)
		       ? EXIT_FAILURE
		       : EXIT_SUCCESS;
}

/* Waits for one of the limits or for the end. */
static enum plan_end watch(struct run *run)
{
	const struct plan_order *order = run->order;

	for (;;) {
		bool asked = program_pass_on(&run->program, LOOK_NS);

		if (asked)
			return PLAN_SIGNAL;
		if (program_has_ended(&run->program))
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
	unsigned there = !program_has_ended(&run->program);

	if (there)
		kill(run->program.child, number);
	memset(info, 0, sizeof(info));
	for (size_t i = 0; i < count; i++)
		info[i].struct_size = sizeof(info[i]);
	if (kiln_plan_read(run->plan, info, &count, NULL))
		return there;
	for (size_t i = 0; i < count && i < KILN_PLAN_DEVICES_MAX; i++)
		if (info[i].process > 1 && info[i].process != run->program.child &&
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
	while (signal_all(run, SIGKILL) && !program_has_ended(&run->program))
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
	result->status = run->program.status;
	/* A program that ended in time may have made its last step in it. */
	if (result->end == PLAN_ENDED && run->order->steps &&
	    kiln_plan_steps(run->plan) >= run->order->steps)
		result->end = PLAN_STEPS;
	return read_report(run, result);
}

int plan_run(const struct plan_order *order, struct plan_result *result)
{
	struct run run = { .order = order, .program = { .tool = "plan" } };
	int code = program_hold_signals(&run.program);

	if (code)
		return code;
	code = make_report(&run);
	if (!code)
		code = run_program(&run, result);
	remove_report(&run);
	/* Last: one that still waits may end us here. */
	program_let_signals(&run.program);
	return code;
}
