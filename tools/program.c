/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/tool.h"

static int fail(const struct program *program, const char *what)
{
	tool_complain("%s: %s: %s", program->tool, what, strerror(errno));
	return -1;
}

/* ---- signals ---- */

static const int passed_on[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				 SIGUSR1, SIGUSR2, SIGCONT };

int program_hold_signals(struct program *program)
{
	sigemptyset(&program->passed_on);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(&program->passed_on, passed_on[i]);
	sigaddset(&program->passed_on, SIGCHLD);
	if (!sigprocmask(SIG_BLOCK, &program->passed_on, &program->before))
		return EXIT_SUCCESS;
	(void)fail(program, "signals");
	return EXIT_FAILURE;
}

void program_let_signals(const struct program *program)
{
	sigprocmask(SIG_SETMASK, &program->before, NULL);
}

/* Whether it asks to end. */
static bool is_request(int number)
{
	return number == SIGHUP || number == SIGINT || number == SIGQUIT ||
	       number == SIGTERM;
}

bool program_pass_on(const struct program *program, long wait_ns)
{
	struct timespec little = { 0, wait_ns };
	siginfo_t info;
	int number = sigtimedwait(&program->passed_on, &info, &little);

	if (number < 0 || number == SIGCHLD)
		return false;
	if (info.si_code <= 0)
		kill(program->child, number);
	return is_request(number);
}

/* ---- start and end ---- */

static void become(const struct program *program, char **argv,
		   bool (*prepare)(void *arg), void *arg, int report)
{
	int code;

	if (prepare(arg) && !sigprocmask(SIG_SETMASK, &program->before, NULL))
		execvp(argv[0], argv);
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

int program_start(struct program *program, char **argv,
		  bool (*prepare)(void *arg), void *arg)
{
	int ends[2], code;

	if (pipe2(ends, O_CLOEXEC))
		return fail(program, "pipe");
	fflush(stdout);
	program->self = getpid();
	program->child = fork();
	if (program->child < 0) {
		code = fail(program, "fork");
		close(ends[0]);
		close(ends[1]);
		return code;
	}
	if (!program->child)
		become(program, argv, prepare, arg, ends[1]);
	close(ends[1]);
	code = start_error(ends[0]);
	close(ends[0]);
	if (!code)
		return 0;
	waitpid(program->child, NULL, 0);
	tool_complain("%s: %s: %s", program->tool, argv[0], strerror(code));
	return code;
}

bool program_has_ended(struct program *program)
{
	int status;
	pid_t found;

	do {
		found = waitpid(-1, &status, WNOHANG);
		if (found == program->child) {
			program->has_ended = true;
			program->status = status;
		}
	} while (found > 0 || (found < 0 && errno == EINTR));
	return program->has_ended;
}
