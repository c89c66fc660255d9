/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* What does a program need on a CUDA device? */
int main(int argc, char **argv)
{
	struct kiln_plan_info info = { .struct_size = sizeof(info) };
	struct kiln_plan *plan = NULL;
	const char *report = "/tmp/plan.report";
	size_t count = 1;
	pid_t child;

	if (argc < 2 || kiln_plan_create(&plan, report, 0))
		return 1;
	child = fork();
	if (!child) {
		setenv("KILN_PLAN", "cuda", 1);
		setenv("KILN_PLAN_REPORT", report, 1);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0 ||
	    kiln_plan_read(plan, &info, &count, NULL))
		return 1;
	if (count)
		printf("%s: %llu bytes\n", info.selector,
		       (unsigned long long)info.usage.peak_reserved_bytes);
	kiln_plan_release(plan);
	return 0;
}
