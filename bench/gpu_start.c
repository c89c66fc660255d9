/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_start [DEVICE]: how long a process takes to the first result of an add,
 * beside what the CUDA driver needs for itself (cuInit and a primary context),
 * each in new processes, in turn. Counted from before the process is made.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kiln/kiln.h>

#define ROUNDS 7

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "gpu_start: %s: %s\n", what, why);
	exit(1);
}

/* ---- the two kinds of process ---- */

static void run_raw(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned), (*retain)(void **, int);

	if (!library)
		die("libcuda.so.1", dlerror());
	*(void **)&init = dlsym(library, "cuInit");
	*(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	if (!init || !retain || init(0) != 0 || retain(&context, 0) != 0)
		die("libcuda.so.1", "no context");
}

static void must(enum kiln_status status, const char *what)
{
	if (status != KILN_OK)
		die(what, kiln_error_message());
}

static void run_kiln(const char *selector)
{
	const float data[4] = { 1, 2, 3, 4 };
	const int64_t shape[1] = { 4 };
	struct kiln_device *device = NULL;
	struct kiln_tensor *a = NULL, *sum = NULL;
	float back[4];

	must(kiln_device_open(&device, selector), "open");
	must(kiln_tensor_from_data(&a, device, KILN_F32, 1, shape, data,
				   sizeof(data)), "from_data");
	must(kiln_add(&sum, a, a), "add");
	must(kiln_tensor_read(sum, back, sizeof(back)), "read");
	if (back[3] != 8)
		die("add", "a wrong result");
}

/* ---- processes ---- */

/* Milliseconds until a process of that kind has its result. */
static double time_one(const char *self, const char *kind,
		       const char *selector)
{
	double begin = now_ms(), end = 0;
	int ends[2], status = 1;
	pid_t child;

	if (pipe(ends) || (child = fork()) < 0)
		die("fork", "it failed");
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execl(self, self, kind, selector, (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &end, sizeof(end)) != sizeof(end))
		die(kind, "no result");
	close(ends[0]);
	if (waitpid(child, &status, 0) != child || status != 0)
		die(kind, "it failed");
	return end - begin;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void tell(const char *name, double *ms)
{
	qsort(ms, ROUNDS, sizeof(*ms), compare);
	printf("%-22s %8.1f ms, %.1f to %.1f\n", name, ms[ROUNDS / 2], ms[0],
	       ms[ROUNDS - 1]);
}

static int is(const char *word, const char *kind)
{
	return !strcmp(word, kind);
}

int main(int argc, char **argv)
{
	const char *selector = argc > 2 ? argv[2] : argc > 1 ? argv[1] : "cuda";
	double raw[ROUNDS], kiln[ROUNDS], end;

	if (argc > 2 && (is(argv[1], "raw") || is(argv[1], "kiln"))) {
		if (is(argv[1], "raw"))
			run_raw();
		else
			run_kiln(selector);
		end = now_ms();
		return write(STDOUT_FILENO, &end, sizeof(end)) != sizeof(end);
	}
	(void)time_one("/proc/self/exe", "kiln", selector);
	for (int i = 0; i < ROUNDS; i++) {
		raw[i] = time_one("/proc/self/exe", "raw", selector);
		kiln[i] = time_one("/proc/self/exe", "kiln", selector);
	}
	tell("context, raw", raw);
	tell("first result of an add", kiln);
	printf("ratio                  %8.2f\n",
	       kiln[ROUNDS / 2] / raw[ROUNDS / 2]);
	return 0;
}
