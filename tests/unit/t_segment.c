/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a process's pools: its name, life and end; bad contents. */
#define _GNU_SOURCE
#include "tests/unit/pools_fake.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <kiln/view.h>

#include "alloc/internal.h"
#include "alloc/publish.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/shm_folder.h"

static void setup(void)
{
	fake_reset();
	shm_make();
}

static struct fake_hw hw;

static struct kilni_pools *published_pools(void)
{
	struct kilni_pools *pools;

	hw = fake_hw(GiB);
	pools = pools_new(&hw, 0, 0);
	kilni_pools_publish_start(pools);
	return pools;
}

static void touch(const char *name)
{
	int fd = open(shm_path(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

static bool exists(const char *name)
{
	return !access(shm_path(name), F_OK);
}

/* ---- names ---- */

START_TEST(names)
{
	static const char *const bad[] = {
		"",
		"kiln-",
		"kiln-0-1-0123456789abcde",
		"kiln-0-1-0123456789abcdef0",
		"kiln-0-1-0123456789ABCDEF",
		"kiln-0-1-0123456789abcdeg",
		"kiln-00-1-0123456789abcdef",
		"kiln-0-01-0123456789abcdef",
		"kiln--1-1-0123456789abcdef",
		"kiln-0--0123456789abcdef",
		"kiln-0-1-",
		"kiln-+1-1-0123456789abcdef",
		"kiln- 1-1-0123456789abcdef",
		"kiln-0-1-0123456789abcdef/",
		"kiln-0-99999999999999999999-0123456789abcdef",
		"other-0-1-0123456789abcdef",
	};
	struct kilni_segment_name name = { 1, 2, 3 };
	char text[KILNI_SEGMENT_NAME];
	unsigned i;

	for (i = 0; i < KILNI_COUNTOF(bad); i++)
		ck_assert_msg(!kilni_segment_parse(bad[i], &name), "%s",
			      bad[i]);
	ck_assert(kilni_segment_parse("kiln-4294967294-18446744073709551615-"
				      "0123456789abcdef", &name));
	ck_assert_uint_eq(name.uid, 4294967294u);
	ck_assert_uint_eq(name.pid, UINT64_MAX);
	ck_assert_uint_eq(name.random, UINT64_C(0x0123456789abcdef));
	kilni_segment_format(text, sizeof(text), &name);
	ck_assert_str_eq(text, "kiln-4294967294-18446744073709551615-"
			       "0123456789abcdef");
}
END_TEST

START_TEST(what_a_segment_is_made_like)
{
	struct kilni_pools *pools = published_pools();
	struct kilni_segment_name parsed = { 0, 0, 0 };
	char name[KILNI_SEGMENT_NAME];
	struct stat stat_of;

	ck_assert_uint_eq(shm_names(name), 1);
	ck_assert(kilni_segment_parse(name, &parsed));
	ck_assert_uint_eq(parsed.uid, geteuid());
	ck_assert_uint_eq(parsed.pid, (uint64_t)getpid());
	ck_assert_int_eq(lstat(shm_path(name), &stat_of), 0);
	ck_assert(S_ISREG(stat_of.st_mode));
	ck_assert_uint_eq(stat_of.st_mode & 07777, 0600);
	ck_assert_int_eq(stat_of.st_size, sizeof(struct kilni_segment));
	/* All of its space has been taken. */
	ck_assert_int_ge(stat_of.st_blocks * 512, stat_of.st_size);
	pools_done(&hw, pools);
}
END_TEST

/* ---- the sweep ---- */

START_TEST(the_sweep_takes_the_dead_alone)
{
	struct kilni_pools *pools = published_pools();
	char own[KILNI_SEGMENT_NAME];
	size_t count = 0;

	ck_assert_uint_eq(shm_names(own), 1);
	touch("kiln-0-1-0000000000000001"); /* killed before it was locked */
	touch("kiln-0-1-00000000000000001");
	touch("kiln-data");
	ck_assert_int_eq(mkfifo(shm_path("kiln-0-1-0000000000000002"), 0600),
			 0);
	ck_assert_int_eq(symlink("kiln-data",
				 shm_path("kiln-0-1-0000000000000003")), 0);
	ck_assert_int_eq(kiln_view_enumerate(NULL, &count), KILN_OK);
	ck_assert(!exists("kiln-0-1-0000000000000001"));
	ck_assert(exists("kiln-0-1-00000000000000001"));
	ck_assert(exists("kiln-data"));
	ck_assert(exists("kiln-0-1-0000000000000002"));
	ck_assert(exists("kiln-0-1-0000000000000003"));
	ck_assert(exists(own));
	/* Not even one that looks like this process's. */
	if (!geteuid()) {
		touch("kiln-1-1-0000000000000004");
		ck_assert_int_eq(chown(shm_path("kiln-1-1-0000000000000004"),
				       1, 1), 0);
		ck_assert_uint_eq(kilni_segment_sweep(), 0);
		ck_assert(exists("kiln-1-1-0000000000000004"));
	}
	pools_done(&hw, pools);
}
END_TEST

static int ready[2], leave[2];

static void pipes(void)
{
	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(leave), 0);
}

/* A process with pools, until it is told or killed. */
static pid_t publisher(void)
{
	pid_t pid;
	char byte;

	pipes();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		close(leave[1]);
		published_pools();
		(void)!write(ready[1], "x", 1);
		(void)!read(leave[0], &byte, 1);
		_exit(0);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(leave[0]);
	return pid;
}

START_TEST(a_running_process_keeps_its_segment)
{
	pid_t pid = publisher();
	char name[KILNI_SEGMENT_NAME];
	struct kiln_view *view = NULL;
	struct kiln_view_process process = { .struct_size = sizeof(process) };

	ck_assert_uint_eq(kilni_segment_sweep(), 0);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	ck_assert_uint_eq(kilni_segment_sweep(), 0);
	ck_assert_uint_eq(shm_names(name), 1);
	ck_assert_int_eq(kiln_view_open(&view, name), KILN_OK);
	ck_assert_int_eq(kiln_view_process(view, &process), KILN_OK);
	ck_assert(process.live);
	ck_assert_uint_eq(process.pid, (uint64_t)pid);
	ck_assert_uint_eq(process.devices, 1);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(kiln_view_process(view, &process), KILN_OK);
	ck_assert(!process.live);
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
	ck_assert_uint_eq(shm_names(NULL), 0);
	/* Its last snapshot outlives it, and its name. */
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	kiln_view_release(view);
}
END_TEST

/* The number in a name says nothing: here it is that of a living process. */
START_TEST(process_numbers_mean_nothing)
{
	struct kilni_segment_name name = { geteuid(), (uint64_t)getpid(), 1 };
	pid_t pid = publisher();
	char dead[KILNI_SEGMENT_NAME], live[KILNI_SEGMENT_NAME];
	char renamed[200];

	kilni_segment_format(dead, sizeof(dead), &name);
	touch(dead);
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
	ck_assert(!exists(dead));
	/* And here it is that of none. */
	ck_assert_uint_eq(shm_names(live), 1);
	snprintf(renamed, sizeof(renamed), "%s/kiln-0-999999999-%016x",
		 shm_folder, 2);
	ck_assert_int_eq(rename(shm_path(live), renamed), 0);
	ck_assert_uint_eq(kilni_segment_sweep(), 0);
	close(leave[1]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
}
END_TEST

/* P46 in small; the whole program does the same in tests/tools/pool.sh. */
START_TEST(killed_many_times)
{
	int i;

	for (i = 0; i < 50; i++) {
		pid_t pid = publisher();

		ck_assert_uint_eq(shm_names(NULL), 1);
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		close(ready[0]), close(ready[1]), close(leave[1]);
	}
	pools_done(&hw, published_pools());
	ck_assert_uint_eq(shm_names(NULL), 0);
}
END_TEST

/* Makers and sweepers at once: no live segment goes. */
static void *sweep_all_the_time(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		kilni_segment_sweep();
	return NULL;
}

START_TEST(making_while_others_sweep)
{
	atomic_bool stop = false;
	pthread_t sweepers[2];
	int i;

	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&sweepers[i], NULL,
						sweep_all_the_time, &stop), 0);
	for (i = 0; i < 300; i++) {
		struct kilni_pools *pools = published_pools();

		ck_assert_ptr_nonnull(pools->publication);
		ck_assert_uint_eq(shm_names(NULL), 1);
		pools_done(&hw, pools);
	}
	atomic_store(&stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(sweepers[i], NULL);
}
END_TEST

/* ---- fork and exit ---- */

static struct kilni_pools *inherited;

static void child_of_a_publisher(void)
{
	struct fake_hw mine = fake_hw(GiB);
	struct kilni_pools_config config = { .page_bytes = 0 };
	struct kilni_pools *pools = NULL;
	char name[KILNI_SEGMENT_NAME];

	/* Does not touch the parent's. */
	inherited->publication->due_ns = 0;
	kilni_pools_publish(inherited);
	if (shm_names(name) != 1)
		_exit(1);
	if (kilni_pools_create(&pools, &mine.hw, &fake_stream_ops, &config))
		_exit(2);
	kilni_pools_publish_start(pools);
	if (!pools->publication || shm_names(NULL) != 2)
		_exit(3);
	kilni_pools_destroy(pools);
	if (shm_names(NULL) != 1)
		_exit(4);
	/* And does not remove it at its exit. */
	exit(0);
}

START_TEST(a_forked_child)
{
	struct kiln_view_process process = { .struct_size = sizeof(process) };
	struct kiln_view *view = NULL;
	char name[KILNI_SEGMENT_NAME];
	uint64_t before;

	inherited = published_pools();
	ck_assert_uint_eq(shm_names(name), 1);
	ck_assert_int_eq(kiln_view_open(&view, name), KILN_OK);
	ck_assert_int_eq(kiln_view_process(view, &process), KILN_OK);
	before = process.snapshot;
	ck_assert_int_eq(in_child(child_of_a_publisher), 0);
	ck_assert_uint_eq(shm_names(NULL), 1);
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_int_eq(kiln_view_process(view, &process), KILN_OK);
	ck_assert(process.live);
	ck_assert_uint_eq(process.snapshot, before);
	kiln_view_release(view);
	pools_done(&hw, inherited);
}
END_TEST

/* A child that outlives its parent does not keep the segment alive. */
START_TEST(a_child_without_a_parent)
{
	pid_t parent;
	char byte;

	pipes();
	parent = fork();
	ck_assert_int_ge(parent, 0);
	if (!parent) {
		published_pools();
		if (!fork()) {
			close(leave[1]);
			(void)!write(ready[1], "x", 1);
			(void)!read(leave[0], &byte, 1);
			_exit(0);
		}
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_uint_eq(kilni_segment_sweep(), 0);
	ck_assert_int_eq(kill(parent, SIGKILL), 0);
	ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
	close(leave[1]);
}
END_TEST

static void leaves_by_exit(void)
{
	published_pools();
	exit(shm_names(NULL) == 1 ? 0 : 1);
}

static void *exit_here(void *arg)
{
	(void)arg;
	exit(0);
}

static void leaves_on_a_thread(void)
{
	pthread_t thread;

	published_pools();
	if (pthread_create(&thread, NULL, exit_here, NULL))
		_exit(1);
	for (;;)
		pause();
}

static void leaves_at_once(void)
{
	published_pools();
	_exit(0);
}

/* Others write on while the process goes. */
static void *publish_on(void *arg)
{
	struct kilni_pools *pools = arg;

	for (;;) {
		__atomic_store_n(&pools->publication->due_ns, 0,
				 __ATOMIC_RELAXED);
		kilni_pools_publish(pools);
	}
	return NULL;
}

static void leaves_while_it_writes(void)
{
	struct kilni_pools *pools = published_pools();
	pthread_t thread;

	if (pthread_create(&thread, NULL, publish_on, pools))
		_exit(1);
	usleep(1000);
	exit(0);
}

static void has_no_descriptor_of_it(void)
{
	char path[64], target[256];
	int fd;

	published_pools();
	for (fd = 0; fd < 64; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		/* The folder of the sources may be called so too. */
		if (strrchr(target, '/') &&
		    !strncmp(strrchr(target, '/'), "/kiln-", 6))
			_exit(1);
	}
	_exit(kilni_segment_sweep() ? 2 : 0);
}

START_TEST(ways_to_leave)
{
	int i;

	ck_assert_int_eq(in_child(leaves_by_exit), 0);
	ck_assert_uint_eq(shm_names(NULL), 0);
	ck_assert_int_eq(in_child(leaves_on_a_thread), 0);
	ck_assert_uint_eq(shm_names(NULL), 0);
	for (i = 0; i < 20; i++) {
		ck_assert_int_eq(in_child(leaves_while_it_writes), 0);
		ck_assert_uint_eq(shm_names(NULL), 0);
	}
	ck_assert_int_eq(in_child(leaves_at_once), 0);
	ck_assert_uint_eq(shm_names(NULL), 1);
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
	ck_assert_int_eq(in_child(has_no_descriptor_of_it), 0);
}
END_TEST

/* ---- no segment can be made ---- */

static void still_works(void)
{
	struct kilni_pools *pools = published_pools();
	struct kilni_slice slice;

	ck_assert_ptr_null(pools->publication);
	slice = take(pools, 0, 1000);
	give_done(pools, &slice);
	pools_done(&hw, pools);
	/* Nobody's call failed. */
	ck_assert_int_eq(kiln_error_status(), KILN_OK);
}

START_TEST(a_fault_at_every_step)
{
	static const char *const sites[] = { "segment_open", "segment_lock",
					     "segment_space", "segment_map" };
	struct kilni_pools *pools;
	uint64_t nth, passes;
	unsigned i;

	for (i = 0; i < KILNI_COUNTOF(sites); i++) {
		ck_assert_int_eq(kilni_fault_set(sites[i], 1, KILN_ERR_IO),
				 KILN_OK);
		still_works();
		ck_assert_uint_eq(kilni_fault_passes(), 1);
		ck_assert_uint_eq(shm_names(NULL), 0);
	}
	/* All of them in turn, until none is left to fail. */
	for (nth = 1, passes = UINT64_MAX; passes >= nth - 1; nth++) {
		ck_assert_int_eq(kilni_fault_set("*", nth, KILN_ERR_NO_MEMORY),
				 KILN_OK);
		pools = published_pools();
		passes = kilni_fault_passes();
		ck_assert_int_eq(!pools->publication, passes >= nth);
		kilni_fault_set(NULL, 0, KILN_OK);
		pools_done(&hw, pools);
		ck_assert_uint_eq(shm_names(NULL), 0);
		ck_assert_int_eq(kiln_error_status(), KILN_OK);
	}
	ck_assert_uint_eq(nth, 2 + KILNI_COUNTOF(sites));
	/* It was nothing lasting. */
	pools = published_pools();
	ck_assert_ptr_nonnull(pools->publication);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(no_folder)
{
	size_t count = 1;

	setenv("KILN_SHM_DIR", "/proc/self/none", 1);
	still_works();
	ck_assert_int_eq(kiln_view_enumerate(NULL, &count), KILN_OK);
	ck_assert_uint_eq(count, 0);
	setenv("KILN_SHM_DIR", "/proc/self", 1); /* nobody can write there */
	still_works();
	setenv("KILN_SHM_DIR", "/dev/null", 1);
	still_works();
	ck_assert_int_eq(kiln_view_enumerate(NULL, &count), KILN_ERR_IO);
	ck_assert_int_eq(kiln_error_native(), ENOTDIR);
	setenv("KILN_SHM_DIR", shm_folder, 1);
}
END_TEST

/* ---- another user's ---- */

static void other_user(void)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };
	struct kiln_view *view = NULL;
	char name[KILNI_SEGMENT_NAME];
	size_t count = 1;

	shm_names(name);
	if (setgid(65534) || setuid(65534))
		_exit(1);
	if (kiln_view_enumerate(&info, &count) || count != 1)
		_exit(2);
	if (info.status != KILN_ERR_IO || info.native != EACCES ||
	    info.uid != 0 || !strstr(info.reason, "Permission denied"))
		_exit(3);
	if (kiln_view_open(&view, name) != KILN_ERR_IO ||
	    kiln_error_native() != EACCES || view)
		_exit(4);
	_exit(kilni_segment_sweep() ? 5 : 0);
}

START_TEST(of_another_user)
{
	struct kilni_pools *pools;

	if (geteuid()) {
		puts("skipped: only root can become another user");
		return;
	}
	ck_assert_int_eq(chmod(shm_folder, 01777), 0);
	pools = published_pools();
	ck_assert_int_eq(in_child(other_user), 0);
	ck_assert_uint_eq(shm_names(NULL), 1);
	pools_done(&hw, pools);
}
END_TEST

/* ---- bad contents ---- */

static struct kilni_segment *good;

static void save_good(void)
{
	struct kilni_pools *pools = published_pools();
	char name[KILNI_SEGMENT_NAME];
	struct kilni_slice slices[40];
	unsigned i;
	int fd;

	for (i = 0; i < 40; i++)
		slices[i] = take(pools, 0, 1 + i * 100003);
	for (i = 0; i < 2; i++) {
		pools->publication->due_ns = 0;
		kilni_pools_publish(pools);
	}
	shm_names(name);
	fd = open(shm_path(name), O_RDONLY);
	ck_assert_int_ge(fd, 0);
	good = malloc(sizeof(*good));
	ck_assert_int_eq(read(fd, good, sizeof(*good)), sizeof(*good));
	close(fd);
	for (i = 0; i < 40; i++)
		give_done(pools, &slices[i]);
	pools_done(&hw, pools);
}

/* Everything that can be asked; what comes back must hold together. */
static void walk(struct kiln_view *view)
{
	struct kiln_view_process process = { .struct_size = sizeof(process) };
	struct kiln_view_device device = { .struct_size = sizeof(device) };
	struct kiln_view_pool pool = { .struct_size = sizeof(pool) };
	struct kiln_view_page page = { .struct_size = sizeof(page) };
	size_t i, j;

	ck_assert_int_eq(kiln_view_process(view, &process), KILN_OK);
	ck_assert_uint_lt(strlen(process.program), sizeof(process.program));
	for (i = 0; i < process.devices; i++) {
		if (kiln_view_device(view, i, &device))
			ck_abort_msg("device %zu", i);
		if (device.live_bytes + device.cached_bytes +
				    device.padding_bytes !=
			    device.reserved_bytes ||
		    device.reserved_bytes > INT64_MAX)
			ck_abort_msg("device %zu does not add up", i);
		for (j = 0; j < device.pools; j++)
			if (kiln_view_pool(view, i, j, &pool) ||
			    pool.kind > KILN_POOL_PERSISTENT ||
			    pool.reserved_bytes > INT64_MAX)
				ck_abort_msg("pool %zu", j);
		for (j = 0; j < device.pages; j++)
			if (kiln_view_page(view, i, j, &page) ||
			    page.pool >= device.pools ||
			    page.cells > KILN_VIEW_CELLS ||
			    page.live_bytes > page.bytes)
				ck_abort_msg("page %zu", j);
	}
}

/* Named as this process's, which the contents come from. */
static const char *bad_name(void)
{
	struct kilni_segment_name name = { 0, (uint64_t)getpid(), 0xbd };
	static char text[KILNI_SEGMENT_NAME];

	kilni_segment_format(text, sizeof(text), &name);
	return text;
}

/* Puts bytes there as a segment whose process runs; gives what open says. */
static enum kiln_status try(const void *bytes, size_t size)
{
	struct kiln_view *view = NULL;
	enum kiln_status status;
	int fd = open(shm_path(bad_name()), O_RDWR | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert(kilni_segment_lock(fd));
	ck_assert_int_eq(write(fd, bytes, size), size);
	status = kiln_view_open(&view, bad_name());
	if (status == KILN_OK) {
		walk(view);
		/* It may also be cut while somebody looks at it. */
		ck_assert_int_eq(ftruncate(fd, (off_t)(size / 3)), 0);
		(void)!kiln_view_refresh(view);
		walk(view);
	}
	kiln_view_release(view);
	close(fd);
	return status;
}

START_TEST(cut_segments)
{
	size_t size = sizeof(*good), i;

	save_good();
	ck_assert_int_eq(try(good, size), KILN_OK);
	ck_assert_int_eq(try(good, 0), KILN_ERR_IO);
	for (i = 1; i < 200; i++)
		ck_assert_int_eq(try(good, size - 1 - i * (size / 201)),
				 KILN_ERR_IO);
	ck_assert_int_eq(try(good, sizeof(good->head) - 1), KILN_ERR_IO);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "too short"));
	free(good);
}
END_TEST

START_TEST(another_version)
{
	save_good();
	good->head.version = 77;
	ck_assert_int_eq(try(good, sizeof(*good)), KILN_ERR_UNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(),
				     "has version 77, this library reads "
				     "version 1"));
	good->head.magic ^= 1;
	ck_assert_int_eq(try(good, sizeof(*good)), KILN_ERR_IO);
	free(good);
}
END_TEST

/* Neither word is taken for the other: nothing of the contents is shown. */
START_TEST(another_process)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };
	char says[64];
	size_t count = 1;
	int fd;

	save_good();
	snprintf(says, sizeof(says), "is of process %d, as it says itself",
		 getpid() + 1);
	good->head.pid++;
	ck_assert_int_eq(try(good, sizeof(*good)), KILN_ERR_IO);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), says));
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), bad_name()));
	/* Listed, while it is held, by what its name says. */
	fd = open(shm_path(bad_name()), O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert(kilni_segment_lock(fd));
	ck_assert_int_eq(kiln_view_enumerate(&info, &count), KILN_OK);
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(info.status, KILN_ERR_IO);
	ck_assert_uint_eq(info.pid, (uint64_t)getpid());
	ck_assert_ptr_nonnull(strstr(info.reason, says));
	ck_assert_str_eq(info.program, "");
	ck_assert_uint_eq(info.devices, 0);
	close(fd);
	/* What the file says is neither a reason to sweep it nor not to. */
	ck_assert_uint_eq(kilni_segment_sweep(), 1);
	free(good);
}
END_TEST

static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void make_seed(void)
{
	const char *text = getenv("KILN_TEST_SEED");

	seed = text ? strtoull(text, NULL, 0) : kilni_now_ns() | 1;
	printf("KILN_TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
}

/* A number that somebody might mean harm by. */
static uint64_t nasty(void)
{
	static const uint64_t values[] = {
		0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024,
		1025, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX,
		UINT64_C(1) << 63
	};

	return draw() % 3 ? values[draw() % KILNI_COUNTOF(values)] : draw();
}

/* With sums that are right again, so that what lies behind them is reached. */
START_TEST(spoilt_segments)
{
	struct kilni_segment *bad = malloc(sizeof(*bad));
	size_t head = offsetof(struct kilni_segment_snapshot, page) +
		      8 * sizeof(struct kilni_segment_page);
	unsigned round, i, accepted = 0;
	size_t at;

	make_seed();
	save_good();
	for (round = 0; round < 3000; round++) {
		unsigned changes = 1 + (unsigned)(draw() % 4);

		memcpy(bad, good, sizeof(*bad));
		for (i = 0; i < changes; i++) {
			uint64_t value = nasty();
			struct kilni_segment_snapshot *to =
				&bad->snapshot[draw() % 2];
			size_t bytes = draw() % 2 ? 8 : 4;

			at = bytes * (draw() % (head / bytes));
			memcpy((char *)to + at, &value, bytes);
		}
		for (i = 0; i < 2; i++)
			if (draw() % 8 &&
			    bad->snapshot[i].bytes <=
				    sizeof(bad->snapshot[i]) &&
			    bad->snapshot[i].bytes >= 16)
				bad->snapshot[i].checksum =
					kilni_segment_sum(&bad->snapshot[i]);
		accepted += try(bad, sizeof(*bad)) == KILN_OK;
	}
	/* Neither all nor none: or else nothing was tried. */
	ck_assert_uint_gt(accepted, 300);
	ck_assert_uint_lt(accepted, 2990);
	free(bad);
	free(good);
}
END_TEST

START_TEST(flipped_and_random_segments)
{
	struct kilni_segment *bad = malloc(sizeof(*bad));
	unsigned round, i;

	make_seed();
	save_good();
	for (round = 0; round < 300; round++) {
		memcpy(bad, good, sizeof(*bad));
		for (i = 0; i < 1 + draw() % 64; i++)
			((char *)bad)[draw() % sizeof(*bad)] ^=
				(char)(1 << draw() % 8);
		(void)!try(bad, sizeof(*bad));
	}
	for (round = 0; round < 20; round++) {
		for (i = 0; i < sizeof(*bad) / 8; i++)
			((uint64_t *)(void *)bad)[i] = draw();
		ck_assert_int_eq(try(bad, sizeof(*bad)), KILN_ERR_IO);
		bad->head = good->head;
		ck_assert_int_ne(try(bad, sizeof(*bad)), KILN_OK);
	}
	free(bad);
	free(good);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("segment");
	TCase *tests = tcase_create("file");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, setup, shm_remove);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, names);
	tcase_add_test(tests, what_a_segment_is_made_like);
	tcase_add_test(tests, the_sweep_takes_the_dead_alone);
	tcase_add_test(tests, a_running_process_keeps_its_segment);
	tcase_add_test(tests, process_numbers_mean_nothing);
	tcase_add_test(tests, killed_many_times);
	tcase_add_test(tests, making_while_others_sweep);
	tcase_add_test(tests, a_forked_child);
	tcase_add_test(tests, a_child_without_a_parent);
	/* A sanitizer's own work at exit takes what these do not free. */
	if (!SANITIZED)
		tcase_add_test(tests, ways_to_leave);
	tcase_add_test(tests, a_fault_at_every_step);
	tcase_add_test(tests, no_folder);
	tcase_add_test(tests, of_another_user);
	tcase_add_test(tests, cut_segments);
	tcase_add_test(tests, another_version);
	tcase_add_test(tests, another_process);
	tcase_add_test(tests, spoilt_segments);
	tcase_add_test(tests, flipped_and_random_segments);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
