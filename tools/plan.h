/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PLAN_H
#define TOOLS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

/* What is asked for. */
struct plan_order {
	const char *target;
	uint64_t steps;          /* 0: no limit */
	double seconds;          /* 0: no limit */
	bool json;
	char **program;          /* its arguments, NULL at the end */
};

/* How the program ended. */
enum plan_end {
	PLAN_ENDED,              /* by itself; status as of waitpid */
	PLAN_STEPS,              /* made its steps */
	PLAN_TIME,               /* reached the limit of time */
	PLAN_SIGNAL              /* a signal to us was passed on to it */
};

struct plan_result {
	enum plan_end end;
	int status;
	double seconds;
	size_t devices;
	uint64_t lost;
	struct kiln_plan_info info[KILN_PLAN_DEVICES_MAX];
};

/*
 * Runs the program under the order; an exit status, and where it is not 0 the
 * reason has been told.
 */
int plan_run(const struct plan_order *order, struct plan_result *result);

#endif
