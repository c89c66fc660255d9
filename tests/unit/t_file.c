/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"
#include "sched/file.h"

/*
 * Files and tensors, on each engine: the loop index of a test chooses. The
 * files are written and read back by stdio.
 */

static const char *const engines[] = { "auto", "threads" };

static struct kiln_device *dev;

static void setup(void)
{
	make_folder();
	dev = open_device("cpu");
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	unsetenv("KILN_FILE_PATH");
	kiln_device_release(dev);
	remove_folder();
}

static void use(int engine)
{
	setenv("KILN_FILE_PATH", engines[engine], 1);
}

static struct kiln_file *reader(const char *path, unsigned flags)
{
	struct kiln_file *file = NULL;

	OK(kiln_file_open(&file, path, flags));
	return file;
}

static struct kiln_file *writer(const char *path, unsigned flags)
{
	struct kiln_file *file = NULL;

	OK(kiln_file_create(&file, path, flags));
	return file;
}

/* More than one round of all transfers in flight, and a crooked end. */
#define MANY (KILNI_FILE_BLOCK * (KILNI_IO_DEPTH + 4) + 12345)
#define SOME (KILNI_FILE_BLOCK * 2 + 12345)

START_TEST(a_small_region)
{
	const unsigned char bytes[] = { 9, 0, 0, 128, 63, 0, 0, 0, 192, 7 };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;
	uint64_t size = 0;

	use(_i);
	put_file(at("x"), bytes, sizeof(bytes));
	file = reader(at("x"), 0);
	OK(kiln_file_size(file, &size));
	ck_assert_uint_eq(size, 10);
	OK(kiln_file_read(&t, file, 1, dev, KILN_F32, 1, SHAPE(2)));
	EXPECT_FLOATS(t, 1, -2);
	OK(kiln_file_read(&t, file, 2, dev, KILN_U8, 2, SHAPE(2, 2)));
	EXPECT(uint8_t, t, 0, 128, 63, 0);
	OK(kiln_file_read(&t, file, 10, dev, KILN_F64, 2, SHAPE(0, 5)));
	ck_assert_int_eq(kiln_tensor_count(t), 0);
	kiln_tensor_release(t);
	kiln_file_release(file);
}
END_TEST

static void read_many(uint64_t many, uint64_t offset, unsigned flags)
{
	unsigned char *data = malloc(many);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;

	fill(data, many);
	put_file(at("many"), data, many);
	file = reader(at("many"), flags);
	for (int i = 0; i < 2; i++) {
		OK(kiln_file_read(&t, file, offset, dev, KILN_U8, 1,
				  SHAPE((int64_t)(many - offset))));
		expect_bytes(t, data + offset, many - offset, "many");
	}
	kiln_tensor_release(t);
	kiln_file_release(file);
	free(data);
}

START_TEST(a_large_region)
{
	use(_i);
	read_many(MANY, 0, 0);
	read_many(SOME, 4096, 0);
	read_many(SOME, 3, 0);
}
END_TEST

START_TEST(a_large_region_past_the_cache)
{
	use(_i);
	read_many(MANY, 0, KILN_FILE_DIRECT);
	read_many(SOME, 4096, KILN_FILE_DIRECT);
	read_many(SOME, 77, KILN_FILE_DIRECT);
}
END_TEST

static void write_many(uint64_t many, unsigned flags)
{
	unsigned char *data = calloc(1, many + 100);
	struct kiln_tensor *t;
	struct kiln_file *file;

	fill(data + 100, many);
	t = make(dev, KILN_U8, 1, SHAPE((int64_t)many), data + 100);
	file = writer(at("many"), flags);
	OK(kiln_file_write(file, 100, t));
	OK(kiln_file_commit(file));
	expect_file(at("many"), data, many + 100);
	ck_assert_int_eq(entries(folder), 1);
	kiln_tensor_release(t);
	kiln_file_release(file);
	free(data);
}

START_TEST(a_large_write)
{
	use(_i);
	write_many(MANY, 0);
	write_many(MANY, KILN_FILE_DIRECT);
}
END_TEST

/* Transfers that move a part, are interrupted, are not taken, every other. */
START_TEST(broken_up_transfers)
{
	static const char *const sites[] = { "file_short", "file_intr",
					     "file_submit", "file_wait",
					     "file_thread", "file_ring" };

	use(_i);
	for (size_t s = 0; s < KILNI_COUNTOF(sites); s++)
		for (uint64_t nth = 1; nth < 5; nth++) {
			OK(kilni_fault_set(sites[s], nth, KILN_ERR_IO));
			read_many(SOME, 5, 0);
			OK(kilni_fault_set(sites[s], nth, KILN_ERR_IO));
			write_many(SOME, 0);
		}
	ck_assert_int_eq(kiln_error_status(), KILN_OK);
}
END_TEST

START_TEST(views_are_made_dense)
{
	const int32_t want[] = { 0, 3, 1, 4, 2, 5 };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;

	use(_i);
	OK(kiln_arange(&t, dev, KILN_I32, 0, 6, 1));
	OK(kiln_reshape(&t, t, 2, SHAPE(2, 3)));
	OK(kiln_transpose(&t, t));
	file = writer(at("view"), 0);
	OK(kiln_file_write(file, 0, t));
	OK(kiln_file_commit(file));
	expect_file(at("view"), want, sizeof(want));
	/* A new file can be read as well. */
	OK(kiln_file_read(&t, file, 4, dev, KILN_I32, 1, SHAPE(2)));
	EXPECT_INTS(t, 3, 1);
	kiln_tensor_release(t);
	kiln_file_release(file);
}
END_TEST

START_TEST(bools_are_made_0_or_1)
{
	const unsigned char bytes[] = { 0, 2, 255, 0, 0, 0, 0, 0,
					0, 0, 0,   1, 0 };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;

	put_file(at("b"), bytes, sizeof(bytes));
	file = reader(at("b"), 0);
	OK(kiln_file_read(&t, file, 0, dev, KILN_BOOL, 1, SHAPE(4)));
	EXPECT(uint8_t, t, 0, 1, 1, 0);
	OK(kiln_file_read(&t, file, 4, dev, KILN_BOOL_U32, 1, SHAPE(2)));
	EXPECT(uint32_t, t, 0, 1);
	OK(kiln_file_read(&t, file, 1, dev, KILN_BOOL_U32, 1, SHAPE(1)));
	EXPECT(uint32_t, t, 1);
	kiln_tensor_release(t);
	kiln_file_release(file);
}
END_TEST

/* What a failing read leaves: the tensor, its place and its value. */
START_TEST(a_failing_read_leaves_the_old)
{
	struct kiln_tensor *t = FLOATS(dev, 1, 2), *before = t;
	unsigned char *data = calloc(1, MANY);
	struct kiln_file *file;

	use(_i);
	put_file(at("m"), data, MANY);
	file = reader(at("m"), 0);
	FAILS(kiln_file_read(&t, file, MANY - 6, dev, KILN_F32, 1, SHAPE(2)),
	      KILN_ERR_IO, "/m: wanted 8 bytes at 41955379, got 6: the file "
			   "ends there");
	FAILS(kiln_file_read(&t, file, MANY + 7, dev, KILN_F32, 1, SHAPE(2)),
	      KILN_ERR_IO, "got 0");
	for (uint64_t nth = 1; nth < 25; nth += 6) {
		OK(kilni_fault_set("file_read", nth, KILN_ERR_IO));
		FAILS(kiln_file_read(&t, file, 1, dev, KILN_U8, 1,
				     SHAPE((int64_t)MANY - 1)),
		      KILN_ERR_IO, "file_read");
		OK(kilni_fault_set(NULL, 0, KILN_OK));
	}
	ck_assert_ptr_eq(t, before);
	EXPECT_FLOATS(t, 1, 2);
	kiln_tensor_release(t);
	kiln_file_release(file);
	free(data);
}
END_TEST

/* The file shrinks while it is open: stat() is too early to see it. */
START_TEST(a_file_that_shrinks)
{
	struct kilni_fd fd = { .path = "shrunk", .direct = -1 };
	unsigned char *data = malloc(MANY);
	struct kilni_io *io = NULL;
	struct kilni_file_part part = { .bytes = MANY, .host = data };
	struct kilni_pipe pipe = { .fn = "test", .file = &fd, .part = &part,
				   .parts = 1, .io = &io };

	use(_i);
	put_file(at("s"), data, MANY - KILNI_FILE_BLOCK);
	fd.fd = open(at("s"), O_RDONLY);
	ck_assert_int_ge(fd.fd, 0);
	FAILS(kilni_pipe_run(&pipe), KILN_ERR_IO,
	      "test: shrunk: wanted 41955385 bytes at 0, got 39858233: the "
	      "file ends there");
	kilni_io_destroy(io);
	close(fd.fd);
	free(data);
}
END_TEST

/* A later size is refused by the system: nothing half-written is left. */
START_TEST(a_disk_that_is_full)
{
	const struct rlimit small = { 1 << 20, RLIM_INFINITY };
	struct kiln_file *file;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct rlimit before;

	use(_i);
	put_file(at("f"), "old", 3);
	OK(kiln_zeros(&t, dev, KILN_U8, 1, SHAPE((int64_t)MANY)));
	file = writer(at("f"), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	setrlimit(RLIMIT_FSIZE, &small);
	FAILS(kiln_file_write(file, 0, t), KILN_ERR_IO,
	      "/f: wanted 41955385 bytes at 0, got");
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "File too large"));
	ck_assert_int_eq(kiln_error_native(), EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_DFL);
	kiln_file_release(file);
	expect_file(at("f"), "old", 3);
	ck_assert_int_eq(entries(folder), 1);
	kiln_tensor_release(t);
}
END_TEST

/* A file system of 4 MiB in a name space of its own. */
static bool mount_small(const char *path)
{
	if (mkdir(path, 0700) || unshare(CLONE_NEWNS))
		return false;
	return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", path, "tmpfs", 0, "size=4m");
}

/* The disk itself is full, not a limit: the old file and its space stay. */
START_TEST(no_space_left)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;

	use(_i);
	if (!mount_small(at("small"))) {
		printf("skipped: no file system of its own: %s\n",
		       strerror(errno));
		return;
	}
	put_file(at("small/f"), "old", 3);
	OK(kiln_zeros(&t, dev, KILN_U8, 1, SHAPE((int64_t)MANY)));
	file = writer(at("small/f"), 0);
	FAILS(kiln_file_write(file, 0, t), KILN_ERR_IO,
	      "No space left on device");
	ck_assert_int_eq(kiln_error_native(), ENOSPC);
	kiln_file_release(file);
	expect_file(at("small/f"), "old", 3);
	ck_assert_int_eq(entries(at("small")), 1);
	/* The space of the one that was given up is free again. */
	file = writer(at("small/f"), 0);
	OK(kiln_file_write_bytes(file, 0, "newer", 5));
	OK(kiln_file_commit(file));
	expect_file(at("small/f"), "newer", 5);
	kiln_file_release(file);
	kiln_tensor_release(t);
	ck_assert_int_eq(umount(at("small")), 0);
}
END_TEST

static void ignore_signal(int signal)
{
	(void)signal;
}

/* Signals without SA_RESTART, 2000 a second, on the thread that waits. */
START_TEST(signals_all_the_time)
{
	const struct sigaction action = { .sa_handler = ignore_signal };
	const struct itimerval fast = { { 0, 500 }, { 0, 500 } };
	const struct itimerval never = { 0 };

	use(_i);
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &fast, NULL), 0);
	read_many(SOME, 0, KILN_FILE_DIRECT);
	write_many(SOME, KILN_FILE_DIRECT);
	read_many(SOME, 3, 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
}
END_TEST

/* ---- order with work ---- */

/* The slice was freed on a stream that is held and has yet to write it. */
START_TEST(memory_that_is_still_in_use)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_file *file;
	int64_t n = 1 << 20;
	unsigned char *data = malloc((size_t)n * 4);

	use(_i);
	fill(data, (size_t)n * 4);
	put_file(at("d"), data, (size_t)n * 4);
	file = reader(at("d"), 0);
	for (int i = 0; i < (SANITIZED ? 5 : 20); i++) {
		struct kiln_tensor *x = KILN_TENSOR_NONE;

		OK(kiln_full(&x, dev, KILN_F32, 1, SHAPE(n), kiln_float(1)));
		for (int k = 0; k < 10; k++)
			OK(kiln_exp(&x, x));
		kiln_tensor_release(x);
		OK(kiln_file_read(&t, file, 0, dev, KILN_F32, 1, SHAPE(n)));
		expect_bytes(t, data, (size_t)n * 4, "reused memory");
	}
	kiln_tensor_release(t);
	kiln_file_release(file);
	free(data);
}
END_TEST

static void *open_gate(void *gate)
{
	usleep(50000);
	kilni_gate_open(gate);
	return NULL;
}

START_TEST(a_write_waits_for_the_tensor)
{
	const float want[] = { 2, 4, 6 };
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3);
	struct kiln_file *file = writer(at("w"), 0);
	pthread_t thread;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&x, x, x));
	ck_assert(!pthread_create(&thread, NULL, open_gate, &gate));
	OK(kiln_file_write(file, 0, x));
	ck_assert(!pthread_join(thread, NULL));
	OK(kiln_file_commit(file));
	expect_file(at("w"), want, sizeof(want));
	kiln_tensor_release(x);
	kiln_file_release(file);
}
END_TEST

START_TEST(a_tensor_that_failed)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *index = INTS(dev, 0, 7);
	struct kiln_file *file = writer(at("w"), 0);
	struct kiln_stream *stream = NULL;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	OK(kiln_select(&y, x, 0, index));
	kilni_gate_open(&gate);
	FAILS(kiln_file_write(file, 0, y), KILN_ERR_INDEX, "7");
	/* Its own stream is poisoned now. */
	FAILS(kiln_file_read(&x, file, 0, dev, KILN_F32, 1, SHAPE(1)),
	      KILN_ERR_IO, "got 0");
	OK(kiln_file_write_bytes(file, 0, "abcd", 4));
	FAILS(kiln_file_read(&x, file, 0, dev, KILN_F32, 1, SHAPE(1)),
	      KILN_ERR_POISONED, "");
	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_reset(stream));
	kiln_stream_release(stream);
	FAILS(kiln_file_write(file, 0, y), KILN_ERR_DEPENDENCY, "");
	EXPECT_FLOATS(x, 1, 2, 3);
	kiln_file_release(file);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(index);
}
END_TEST

/* ---- names and places ---- */

START_TEST(a_new_file_takes_its_place_at_the_end)
{
	struct kiln_file *file;
	struct stat st;

	put_file(at("f"), "old", 3);
	ck_assert_int_eq(chmod(at("f"), 0640), 0);
	file = writer(at("f"), 0);
	OK(kiln_file_write_bytes(file, 0, "newer", 5));
	expect_file(at("f"), "old", 3);
	ck_assert_int_eq(entries(folder), 2);
	OK(kiln_file_commit(file));
	expect_file(at("f"), "newer", 5);
	ck_assert_int_eq(entries(folder), 1);
	ck_assert_int_eq(stat(at("f"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	FAILS(kiln_file_commit(file), KILN_ERR_INVALID, "committed");
	FAILS(kiln_file_write_bytes(file, 0, "x", 1), KILN_ERR_INVALID,
	      "committed");
	kiln_file_release(file);

	file = writer(at("f"), 0);
	OK(kiln_file_write_bytes(file, 0, "never", 5));
	kiln_file_release(file);
	expect_file(at("f"), "newer", 5);
	ck_assert_int_eq(entries(folder), 1);
}
END_TEST

START_TEST(links_are_followed)
{
	struct kiln_file *file;
	struct stat st;

	put_file(at("f"), "old", 3);
	ck_assert_int_eq(symlink("f", at("link")), 0);
	ck_assert_int_eq(symlink("nowhere/g", at("dangling")), 0);
	file = writer(at("link"), 0);
	OK(kiln_file_write_bytes(file, 0, "new", 3));
	OK(kiln_file_commit(file));
	expect_file(at("f"), "new", 3);
	ck_assert_int_eq(lstat(at("link"), &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
	FAILS(kiln_file_create(&file, at("dangling"), 0), KILN_ERR_IO,
	      "No such file");
	kiln_file_release(file);
}
END_TEST

/* The path is that of the call, wherever the process goes meanwhile. */
START_TEST(the_working_folder_changes)
{
	struct kiln_file *file = writer(at("f"), 0);

	OK(kiln_file_write_bytes(file, 0, "here", 4));
	ck_assert_int_eq(chdir("/"), 0);
	OK(kiln_file_commit(file));
	kiln_file_release(file);
	ck_assert_int_eq(chdir(getenv("PWD") ? getenv("PWD") : "."), 0);
}
END_TEST

START_TEST(what_is_no_file)
{
	struct kiln_file *file = NULL;

	ck_assert_int_eq(mkdir(at("dir"), 0700), 0);
	ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
	FAILS(kiln_file_open(&file, at("dir"), 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_open(&file, at("fifo"), 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_open(&file, "/dev/null", 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_open(&file, at("none"), 0), KILN_ERR_IO,
	      "No such file");
	ck_assert_int_eq(kiln_error_native(), ENOENT);
	FAILS(kiln_file_create(&file, at("dir"), 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_create(&file, at("dir/"), 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_create(&file, at("fifo"), 0), KILN_ERR_IO, "regular");
	FAILS(kiln_file_create(&file, "/dev/full", 0), KILN_ERR_IO,
	      "regular");
	FAILS(kiln_file_create(&file, at("no/file"), 0), KILN_ERR_IO,
	      "No such file");
	FAILS(kiln_file_create(&file, "", 0), KILN_ERR_IO, "");
	ck_assert_ptr_null(file);
	ck_assert_int_eq(entries(folder), 2);
}
END_TEST

START_TEST(a_protected_file)
{
	struct kiln_file *file = NULL;

	if (!geteuid()) {
		printf("skipped: nothing is protected from root\n");
		return;
	}
	put_file(at("f"), "old", 3);
	ck_assert_int_eq(chmod(at("f"), 0400), 0);
	FAILS(kiln_file_create(&file, at("f"), 0), KILN_ERR_IO, "denied");
}
END_TEST

START_TEST(long_names)
{
	char name[256], text[400];
	struct kiln_file *file = NULL;

	memset(name, 'n', 255);
	name[255] = 0;
	file = writer(at(name), 0);
	OK(kiln_file_write_bytes(file, 0, "x", 1));
	OK(kiln_file_commit(file));
	expect_file(at(name), "x", 1);
	FAILS(kiln_file_read_bytes(file, 3, text, 2), KILN_ERR_IO,
	      "nnn: wanted 2 bytes at 3, got 0: the file ends there");
	kiln_file_release(file);
}
END_TEST

/* ---- arguments ---- */

START_TEST(bad_arguments)
{
	struct kiln_file *file = NULL, *file2 = NULL;
	struct kiln_tensor *t = FLOATS(dev, 1);
	char byte;

	put_file(at("f"), "old", 3);
	FAILS(kiln_file_open(NULL, at("f"), 0), KILN_ERR_INVALID, "out");
	FAILS(kiln_file_open(&file, NULL, 0), KILN_ERR_INVALID, "path");
	FAILS(kiln_file_open(&file, at("f"), 2), KILN_ERR_INVALID, "0x2");
	setenv("KILN_FILE_PATH", "fast", 1);
	FAILS(kiln_file_open(&file, at("f"), 0), KILN_ERR_OPTION, "\"fast\"");
	ck_assert_str_eq(kiln_file_engine(),
			 "none (KILN_FILE_PATH: \"fast\" is none of auto, "
			 "uring, threads)");
	unsetenv("KILN_FILE_PATH");
	file = reader(at("f"), 0);
	FAILS(kiln_file_write(file, 0, t), KILN_ERR_INVALID, "for reading");
	FAILS(kiln_file_commit(file), KILN_ERR_INVALID, "for reading");
	FAILS(kiln_file_read_bytes(file, UINT64_MAX, &byte, 1),
	      KILN_ERR_OVERFLOW, "18446744073709551615");
	FAILS(kiln_file_read_bytes(file, 0, NULL, 1), KILN_ERR_INVALID,
	      "data");
	FAILS(kiln_file_read(&t, file, 0, dev, KILN_F32, 9, SHAPE(1)),
	      KILN_ERR_INVALID, "rank 9");
	FAILS(kiln_file_read(&t, file, 0, dev, (enum kiln_dtype)99, 1,
			     SHAPE(1)),
	      KILN_ERR_INVALID, "dtype 99");
	FAILS(kiln_file_read(&t, file, 0, dev, KILN_F32, 1,
			     SHAPE(INT64_MAX)),
	      KILN_ERR_OVERFLOW, "overflow");
	FAILS(kiln_file_read(&t, NULL, 0, dev, KILN_F32, 1, SHAPE(1)),
	      KILN_ERR_INVALID, "file is NULL");
	FAILS(kiln_file_size(NULL, NULL), KILN_ERR_INVALID, "file is NULL");
	file2 = writer(at("g"), 0);
	FAILS(kiln_file_write(file2, INT64_MAX, t), KILN_ERR_OVERFLOW, "/g");
	FAILS(kiln_file_write(file2, 0, NULL), KILN_ERR_INVALID, "NULL");
	kiln_file_release(file);
	kiln_file_release(file2);
	kiln_file_release(NULL);
	kiln_tensor_release(t);
}
END_TEST

START_TEST(engines_say_who_they_are)
{
	setenv("KILN_FILE_PATH", "threads", 1);
	ck_assert_str_eq(kiln_file_engine(), "threads (KILN_FILE_PATH)");
	setenv("KILN_FILE_PATH", "auto", 1);
	OK(kilni_fault_set("file_ring", 1, KILN_ERR_IO));
	ck_assert_str_eq(kiln_file_engine(),
			 "threads (io_uring: Operation not permitted)");
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	printf("here: %s\n", kiln_file_engine());
	/* Asked for by name it is not replaced. */
	setenv("KILN_FILE_PATH", "uring", 1);
	OK(kilni_fault_set("file_ring", 1, KILN_ERR_IO));
	struct kiln_file *file = NULL;

	put_file(at("f"), "old", 3);
	FAILS(kiln_file_open(&file, at("f"), 0), KILN_ERR_UNSUPPORTED,
	      "the system refuses io_uring: Operation not permitted");
}
END_TEST

/* ---- guests ---- */

static int in_the_child(struct kiln_file *file, struct kiln_file *created)
{
	uint64_t size;
	char byte;

	if (kiln_file_size(file, &size) != KILN_ERR_FORKED)
		return 1;
	if (kiln_file_read_bytes(file, 0, &byte, 1) != KILN_ERR_FORKED)
		return 2;
	if (kiln_file_commit(created) != KILN_ERR_FORKED)
		return 3;
	kiln_file_release(file);
	kiln_file_release(created);
	return 0;
}

START_TEST(a_forked_child_leaves_files_alone)
{
	unsigned char *data = calloc(1, MANY);
	struct kiln_file *file, *created;
	int status;
	pid_t pid;

	use(_i);
	put_file(at("f"), data, MANY);
	file = reader(at("f"), 0);
	OK(kiln_file_read_bytes(file, 0, data, MANY));
	created = writer(at("g"), 0);
	OK(kiln_file_write_bytes(created, 0, "abc", 3));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(in_the_child(file, created));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	OK(kiln_file_read_bytes(file, 0, data, MANY));
	OK(kiln_file_commit(created));
	expect_file(at("g"), "abc", 3);
	kiln_file_release(file);
	kiln_file_release(created);
	free(data);
}
END_TEST

struct shared {
	struct kiln_file *file;
	const unsigned char *data;
	uint64_t from;
};

static void *read_part(void *arg)
{
	struct shared *part = arg;
	unsigned char *own = malloc(MANY);

	for (int i = 0; i < 4; i++) {
		uint64_t from = part->from + (uint64_t)i * 7;

		OK(kiln_file_read_bytes(part->file, from, own, MANY - from));
		ck_assert(!memcmp(own, part->data + from, MANY - from));
	}
	free(own);
	return NULL;
}

START_TEST(one_file_many_threads)
{
	unsigned char *data = malloc(MANY);
	struct shared part[4];
	pthread_t thread[4];

	use(_i);
	fill(data, MANY);
	put_file(at("f"), data, MANY);
	part[0].file = reader(at("f"), 0);
	for (int i = 0; i < 4; i++) {
		part[i] = (struct shared){ part[0].file, data,
					   (uint64_t)i * 100 };
		ck_assert(!pthread_create(&thread[i], NULL, read_part,
					  &part[i]));
	}
	for (int i = 0; i < 4; i++)
		ck_assert(!pthread_join(thread[i], NULL));
	kiln_file_release(part[0].file);
	free(data);
}
END_TEST

/* Descriptors and threads go with the file. */
START_TEST(nothing_is_left_behind)
{
	int fds, threads;

	use(_i);
	read_many(SOME, 0, KILN_FILE_DIRECT);
	fds = descriptors();
	threads = entries("/proc/self/task");
	for (int i = 0; i < 5; i++) {
		read_many(SOME, 0, KILN_FILE_DIRECT);
		write_many(SOME, 0);
	}
	ck_assert_int_eq(descriptors(), fds);
	/* The system's own for a ring may live on for a while. */
	if (_i)
		ck_assert_int_eq(entries("/proc/self/task"), threads);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file");
	TCase *tcase = tcase_create("cpu");
	const int all = engines_tested();

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, a_small_region, 0, all);
	tcase_add_loop_test(tcase, a_large_region, 0, all);
	tcase_add_loop_test(tcase, a_large_region_past_the_cache, 0, all);
	tcase_add_loop_test(tcase, a_large_write, 0, all);
	tcase_add_loop_test(tcase, broken_up_transfers, 0, all);
	tcase_add_loop_test(tcase, views_are_made_dense, 0, all);
	tcase_add_test(tcase, bools_are_made_0_or_1);
	tcase_add_loop_test(tcase, a_failing_read_leaves_the_old, 0, all);
	tcase_add_loop_test(tcase, a_file_that_shrinks, 0, all);
	tcase_add_loop_test(tcase, a_disk_that_is_full, 0, all);
	tcase_add_loop_test(tcase, no_space_left, 0, all);
	tcase_add_loop_test(tcase, signals_all_the_time, 0, all);
	tcase_add_loop_test(tcase, memory_that_is_still_in_use, 0, all);
	tcase_add_test(tcase, a_write_waits_for_the_tensor);
	tcase_add_test(tcase, a_tensor_that_failed);
	tcase_add_test(tcase, a_new_file_takes_its_place_at_the_end);
	tcase_add_test(tcase, links_are_followed);
	tcase_add_test(tcase, the_working_folder_changes);
	tcase_add_test(tcase, what_is_no_file);
	tcase_add_test(tcase, a_protected_file);
	tcase_add_test(tcase, long_names);
	tcase_add_test(tcase, bad_arguments);
	tcase_add_test(tcase, engines_say_who_they_are);
	if (!SANITIZED)
		tcase_add_loop_test(tcase, a_forked_child_leaves_files_alone,
				    0, all);
	tcase_add_loop_test(tcase, one_file_many_threads, 0, all);
	tcase_add_loop_test(tcase, nothing_is_left_behind, 0, all);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
