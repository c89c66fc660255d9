/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_THERE_H
#define TESTS_UNIT_THERE_H

/* For suites that need a device which a machine may not have. */

#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/kiln.h>

/*
 * Whether it can be opened; says why not. Asked in a child: devices are listed
 * once in a process, and their threads do not outlive the fork of a test.
 */
static inline bool device_is_there(const char *selector)
{
	struct kiln_device *device = NULL;
	int status = 0;
	pid_t child = fork();

	if (!child) {
		bool opened = kiln_device_open(&device, selector) == KILN_OK;

		if (!opened)
			printf("skipped: %s\n", kiln_error_message());
		fflush(stdout);
		_exit(opened);
	}
	return child > 0 && waitpid(child, &status, 0) == child &&
	       WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

#endif
