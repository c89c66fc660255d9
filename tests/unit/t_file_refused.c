/* SPDX-License-Identifier: Apache-2.0 */
#include "file_rig.h"
#include "sanitized.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * P15: the other tests of files once more, each as a whole, where the system
 * refuses io_uring: a filter as containers have it, and next to no locked
 * memory.
 */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

static char program_folder[512];

#ifdef ARCH
#define LOAD(field)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(call)                                                           \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int forbid_rings(void)
{
	struct sock_filter code[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		LOAD(nr),
		REFUSE(SYS_io_uring_setup),
		REFUSE(SYS_io_uring_enter),
		REFUSE(SYS_io_uring_register),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { KILNI_COUNTOF(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
#else
static int forbid_rings(void)
{
	errno = ENOSYS;
	return -1;
}
#endif

static int limit_memlock(void)
{
	const struct rlimit little = { 64 << 10, 64 << 10 };

	return setrlimit(RLIMIT_MEMLOCK, &little);
}

/* Runs a sibling behind prepare; its output is this one's. */
static int run_program(const char *name, int (*prepare)(void))
{
	char path[600];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/%s", program_folder, name);
	fflush(stdout);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		/* Of the engine that is asked for by name nothing changes. */
		setenv("KILN_TEST_ENGINE", "auto", 1);
		if (prepare())
			_exit(125);
		execl(path, path, (char *)NULL);
		_exit(126);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static const char *const programs[] = { "t_file", "t_file_pipe",
					"t_file_faults", "t_safetensors" };

static void run_all(int index, int (*prepare)(void))
{
	int code = run_program(programs[index], prepare);

	if (code == 125) {
		printf("skipped: the system takes no such limit\n");
		return;
	}
	ck_assert_msg(code == 0, "%s: exit status %d", programs[index], code);
}

START_TEST(behind_a_filter)
{
	run_all(_i, forbid_rings);
}
END_TEST

START_TEST(without_locked_memory)
{
	run_all(_i, limit_memlock);
}
END_TEST

/* The filter does what it is for, and the library says so. */
START_TEST(the_engine_is_told)
{
	if (forbid_rings()) {
		printf("skipped: no filter: %s\n", strerror(errno));
		return;
	}
	ck_assert_int_eq(syscall(SYS_io_uring_setup, 1, NULL), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_str_eq(kiln_file_engine(),
			 "threads (io_uring: Operation not permitted)");
	setenv("KILN_FILE_PATH", "uring", 1);
	ck_assert_str_eq(kiln_file_engine(),
			 "none (KILN_FILE_PATH: the system refuses io_uring: "
			 "Operation not permitted)");
}
END_TEST

/* The door closes while a file is open: what is in flight still arrives. */
START_TEST(forbidden_in_between)
{
	const size_t bytes = (9 << 20) + 5;
	unsigned char *data = malloc(bytes), *back = calloc(1, bytes);
	struct kiln_file *file = NULL;

	fill(data, bytes);
	make_folder();
	put_file(at("f"), data, bytes);
	OK(kiln_file_open(&file, at("f"), 0));
	OK(kiln_file_read_bytes(file, 0, back, bytes));
	memset(back, 0, bytes);
	if (forbid_rings())
		printf("skipped: no filter: %s\n", strerror(errno));
	OK(kiln_file_read_bytes(file, 0, back, bytes));
	ck_assert(!memcmp(data, back, bytes));
	kiln_file_release(file);
	remove_folder();
	free(data);
	free(back);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("file_refused");
	TCase *tcase = tcase_create("all");
	/* Sanitizers slow the sweep down too much to do it thrice. */
	const int all = SANITIZED ? 2 : KILNI_COUNTOF(programs);
	const char *slash = strrchr(argv[0], '/');

	(void)argc;
	prefer_memory();
	snprintf(program_folder, sizeof(program_folder), "%.*s",
		 slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, behind_a_filter, 0, all);
	tcase_add_loop_test(tcase, without_locked_memory, 0, all);
	tcase_add_test(tcase, the_engine_is_told);
	tcase_add_test(tcase, forbidden_in_between);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
