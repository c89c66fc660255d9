/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under valgrind a use of freed device memory is reported. The program runs
 * itself there, once doing right and once wrong.
 */

#include "tests/unit/api.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/poison.h"
#include "lib/internal.h"
#include "tests/unit/sanitized.h"

#define SKIP 77
#define REPORTED 99

/* libcheck's assertions only work in its own tests. */
static void must(enum kiln_status status)
{
	if (status == KILN_OK)
		return;
	fprintf(stderr, "%s\n", kiln_error_message());
	exit(EXIT_FAILURE);
}

/* Reads the first byte of a tensor that may be gone, by its address. */
static int peek(bool live, bool queued)
{
	struct kiln_tensor *t = NULL, *other = NULL;
	struct kiln_device *device = NULL;
	volatile const char *at;
	int64_t count = 100000;
	char value;

	must(kiln_device_open(&device, "cpu"));
	must(kiln_zeros(&t, device, KILN_F32, 1, &count));
	must(kiln_zeros(&other, device, KILN_F32, 1, &count));
	if (!queued)
		must(kiln_device_sync(device));
	at = (const char *)(uintptr_t)t->address;
	if (!live)
		kiln_tensor_release(t);
	/* What was still used at the release is looked at later. */
	must(kiln_device_sync(device));
	kilni_pools_report(kilni_device_pools(device), NULL, 0);
	value = *at;
	if (live)
		kiln_tensor_release(t);
	kiln_tensor_release(other);
	kiln_device_release(device);
	return value;
}

/* mode NULL: only whether there is a valgrind; "start": whether it can read the
 * program, which that of Debian 12 cannot where clang wrote the debug data. */
static int run_in_valgrind(const char *mode)
{
	pid_t child = fork();
	char self[4096];
	ssize_t length;
	int status;

	if (child) {
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
			return -1;
		return WEXITSTATUS(status);
	}
	length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (length < 0 || !freopen("/dev/null", "w", stderr) ||
	    !freopen("/dev/null", "w", stdout))
		_exit(EXIT_FAILURE);
	self[length] = '\0';
	if (!mode)
		execlp("valgrind", "valgrind", "--version", (char *)NULL);
	else
		execlp("valgrind", "valgrind", "-q", "--error-exitcode=99",
		       "--undef-value-errors=no", self, mode, (char *)NULL);
	_exit(SKIP);
}

START_TEST(a_use_after_free_is_reported)
{
	ck_assert_int_eq(run_in_valgrind("live"), 0);
	ck_assert_int_eq(run_in_valgrind("freed"), REPORTED);
	ck_assert_int_eq(run_in_valgrind("queued"), REPORTED);
}
END_TEST

static int skip(const char *why)
{
	printf("skipped: %s\n", why);
	return SKIP;
}

int main(int argc, char **argv)
{
	Suite *suite;
	TCase *tests;

	if (argc == 2 && !strcmp(argv[1], "start"))
		return EXIT_SUCCESS;
	if (argc == 2)
		return peek(!strcmp(argv[1], "live"),
			    !strcmp(argv[1], "queued"));
	if (SANITIZED)
		return skip("valgrind runs no sanitizer");
#ifndef KILNI_MEMCHECK
	return skip("built without valgrind/memcheck.h");
#endif
	if (run_in_valgrind(NULL))
		return skip("valgrind is not installed");
	if (run_in_valgrind("start"))
		return skip("valgrind cannot read this program");
	suite = suite_create("valgrind");
	tests = tcase_create("valgrind");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, a_use_after_free_is_reported);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
