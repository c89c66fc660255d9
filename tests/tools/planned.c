/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be planned or traced. Each of its words is done in turn:
 *   open SELECTOR   opens a device for what follows
 *   keep BYTES      takes memory and keeps it
 *   flash BYTES     takes memory and gives it back
 *   steps N         N times: a little work, then a wait; 0: for ever
 *   ops N           N small ops, then a wait
 *   chain N         N ops of 100000 elements in a chain, then a wait
 *   fail N          N such ops, one of which fails, so that the rest do
 *   window NAME     opens a profile window, which close ends
 *   stubborn        ignores the request to end
 *   print TEXT      on standard output
 *   wait            for ever
 *   fork            goes on in a child, whose end is waited for
 *   seize FILE      every descriptor from 3 on becomes this file
 *   seized          fails where one of those is the file no more
 *   again           goes on as a new image of the program, by exec
 *   die             by a signal
 *   status N        exits
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kiln/kiln.h>

static struct kiln_device *device;

static void check(enum kiln_status status)
{
	if (!status)
		return;
	fprintf(stderr, "planned: %s\n", kiln_error_message());
	exit(3);
}

static void make_step(void)
{
	const int64_t shape[] = { 250 };
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct timespec little = { 0, 1000000 };

	check(kiln_zeros(&x, device, KILN_F32, 1, shape));
	check(kiln_device_sync(device));
	kiln_tensor_release(x);
	nanosleep(&little, NULL);
}

static void make_steps(const char *text)
{
	unsigned long count = strtoul(text, NULL, 10);

	for (unsigned long i = 0; !count || i < count; i++)
		make_step();
}

static void make_ops(unsigned long count, int64_t size)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	check(kiln_ones(&x, device, KILN_F32, 1, &size));
	for (unsigned long i = 1; i < count; i++)
		check(kiln_neg(&x, x));
	check(kiln_device_sync(device));
	kiln_tensor_release(x);
}

static void make_failing_ops(unsigned long count)
{
	const int64_t size = 100000;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_ones(&x, device, KILN_F32, 1, &size);

	for (unsigned long i = 1; i < count; i++)
		status = kiln_neg(&x, x);
	status = kiln_device_sync(device);
	if (!status)
		exit(10);
	kiln_tensor_release(x);
}

/* Windows that are open, the inner ones last. */
static struct {
	struct kiln_profile *window;
	const char *name;
} open_window[4];
static int windows;

static void start_window(const char *name)
{
	if (windows == 4)
		exit(7);
	open_window[windows].name = name;
	check(kiln_profile_start(&open_window[windows++].window, device));
}

static void close_window(void)
{
	struct kiln_profile_options options = KILN_PROFILE_OPTIONS_INIT;
	struct kiln_duration *duration = NULL;

	if (!windows)
		exit(7);
	options.name = open_window[--windows].name;
	check(kiln_profile_end(&duration, open_window[windows].window,
			       &options));
	check(kiln_duration_wait(duration, -1));
	kiln_duration_release(duration);
}

static void take(const char *text, bool keep)
{
	struct kiln_buffer *buffer = NULL;

	check(kiln_buffer_create(&buffer, device, NULL,
				 strtoull(text, NULL, 10)));
	if (!keep)
		kiln_buffer_release(buffer);
}

static void go_on_in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		return;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		exit(4);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
}

#define SEIZED_MOST 64

static bool seized[SEIZED_MOST];

/* As one that closes what it finds open, and opens a file of its own. */
static void seize(const char *path)
{
	int own = open(path, O_RDWR | O_CLOEXEC);

	if (own < 3 || own >= SEIZED_MOST)
		exit(8);
	for (int fd = 3; fd < SEIZED_MOST; fd++) {
		seized[fd] = fcntl(fd, F_GETFD) >= 0;
		if (seized[fd] && fd != own && dup2(own, fd) != fd)
			exit(8);
	}
}

static void check_seized(void)
{
	for (int fd = 3; fd < SEIZED_MOST; fd++)
		if (seized[fd] && fcntl(fd, F_GETFD) < 0)
			exit(9);
}

/* A word with a value; false: it is none. */
static bool do_with(const char *word, const char *value)
{
	if (!strcmp(word, "open"))
		check(kiln_device_open(&device, value));
	else if (!strcmp(word, "keep"))
		take(value, true);
	else if (!strcmp(word, "flash"))
		take(value, false);
	else if (!strcmp(word, "steps"))
		make_steps(value);
	else if (!strcmp(word, "ops"))
		make_ops(strtoul(value, NULL, 10), 250);
	else if (!strcmp(word, "chain"))
		make_ops(strtoul(value, NULL, 10), 100000);
	else if (!strcmp(word, "fail"))
		make_failing_ops(strtoul(value, NULL, 10));
	else if (!strcmp(word, "window"))
		start_window(value);
	else if (!strcmp(word, "seize"))
		seize(value);
	else if (!strcmp(word, "print"))
		puts(value), fflush(stdout);
	else if (!strcmp(word, "status"))
		exit(atoi(value));
	else
		return false;
	return true;
}

/* The words behind this one are for the new image. */
static void go_on_again(char **argv, int word)
{
	argv[word] = argv[0];
	execv(argv[0], argv + word);
	exit(11);
}

static void do_alone(const char *word)
{
	if (!strcmp(word, "stubborn"))
		signal(SIGTERM, SIG_IGN);
	else if (!strcmp(word, "fork"))
		go_on_in_child();
	else if (!strcmp(word, "seized"))
		check_seized();
	else if (!strcmp(word, "close"))
		close_window();
	else if (!strcmp(word, "die"))
		raise(SIGKILL);
	else if (!strcmp(word, "wait"))
		for (;;)
			pause();
	else
		exit(6);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && do_with(argv[i], argv[i + 1]))
			i++;
		else if (!strcmp(argv[i], "again"))
			go_on_again(argv, i);
		else
			do_alone(argv[i]);
	}
	return EXIT_SUCCESS;
}
