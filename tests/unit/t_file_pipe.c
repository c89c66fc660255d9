/* SPDX-License-Identifier: Apache-2.0 */
#include "file_rig.h"

#include <fcntl.h>

#include "drivers/driver.h"
#include "sched/file.h"

/*
 * The way through staging buffers, with a device whose memory the host cannot
 * address: here a driver of two functions over an array.
 */

#define MEMORY ((size_t)48 << 20)
#define BASE ((uint64_t)1 << 40)

static unsigned char *memory;
static int copies, fail_at;
static const char *lowest, *highest;

/* Where the host's side of the copies lies. */
static enum kiln_status copy(void *to, const void *from, uint64_t bytes,
			     const void *host)
{
	const char *at_ = host;

	if (++copies == fail_at)
		return kilni_fail(KILN_ERR_DRIVER, 0, "copy %d fails", copies);
	if (!lowest || at_ < lowest)
		lowest = at_;
	if (at_ + bytes > highest)
		highest = at_ + bytes;
	memcpy(to, from, bytes);
	return KILN_OK;
}

static enum kiln_status fake_write(struct kilni_hw *hw, uint64_t to,
				   const void *from, uint64_t bytes)
{
	(void)hw;
	ck_assert(to >= BASE && to + bytes <= BASE + MEMORY);
	return copy(memory + (to - BASE), from, bytes, from);
}

static enum kiln_status fake_read(struct kilni_hw *hw, void *to, uint64_t from,
				  uint64_t bytes)
{
	(void)hw;
	ck_assert(from >= BASE && from + bytes <= BASE + MEMORY);
	return copy(to, memory + (from - BASE), bytes, to);
}

/* What the device has pinned, and whether it is lost and keeps that. */
static void *pinned, *kept;
static void (*when_gone)(void *memory);
static bool pins, keeps;

static enum kiln_status fake_pin(struct kilni_hw *hw, void *host,
				 uint64_t bytes)
{
	(void)hw;
	(void)bytes;
	if (!pins)
		return KILN_ERR_UNSUPPORTED;
	ck_assert_ptr_null(pinned);
	pinned = host;
	return KILN_OK;
}

static bool fake_unpin(struct kilni_hw *hw, void *host, uint64_t bytes,
		       void (*gone)(void *memory))
{
	(void)hw;
	(void)bytes;
	ck_assert_ptr_eq(host, pinned);
	pinned = NULL;
	if (keeps) {
		kept = host;
		when_gone = gone;
		return false;
	}
	gone(host);
	return true;
}

static const struct kilni_memory_ops fake_memory = {
	.read = fake_read,
	.write = fake_write,
	.host_pin = fake_pin,
	.host_unpin = fake_unpin,
};
static const struct kilni_driver fake_driver = { .memory = &fake_memory };
static struct kilni_hw fake = { .driver = &fake_driver };

static struct kilni_fd fd;
static struct kilni_io *io;

static void setup(void)
{
	make_folder();
	memory = calloc(1, MEMORY);
	copies = fail_at = 0;
	lowest = highest = NULL;
	pinned = kept = NULL;
	pins = keeps = false;
	io = NULL;
	fd = (struct kilni_fd){ .path = "f", .fd = -1, .direct = -1 };
}

static void teardown(void)
{
	kilni_io_destroy(io);
	if (fd.fd >= 0)
		close(fd.fd);
	free(memory);
	remove_folder();
}

static void open_at(const char *path, int threads)
{
	setenv("KILN_FILE_PATH", threads ? "threads" : "auto", 1);
	fd.fd = open(path, O_RDWR | O_CREAT, 0600);
	ck_assert_int_ge(fd.fd, 0);
}

static enum kiln_status run(bool write, const struct kilni_file_part *parts,
			    size_t count)
{
	const struct kilni_pipe pipe = { .fn = "test", .file = &fd,
					 .write = write, .hw = &fake,
					 .part = parts, .parts = count,
					 .io = &io };

	return kilni_pipe_run(&pipe);
}

/* Crooked parts that touch, one of them empty, one a single byte. */
static const struct kilni_file_part parts[] = {
	{ .offset = 0, .bytes = 5, .address = BASE + 11 },
	{ .offset = 5, .bytes = 0, .address = BASE + 16 },
	{ .offset = 5, .bytes = (37 << 20) + 123, .address = BASE + 4096 },
	{ .offset = (37 << 20) + 128, .bytes = 1, .address = BASE },
};
#define PARTS 4
#define FILE_BYTES (((size_t)37 << 20) + 129)

static void expect_parts(const unsigned char *data)
{
	for (int i = 0; i < PARTS; i++)
		ck_assert(!memcmp(memory + (parts[i].address - BASE),
				  data + parts[i].offset, parts[i].bytes));
}

START_TEST(reading_through_buffers)
{
	unsigned char *data = malloc(FILE_BYTES);

	fill(data, FILE_BYTES);
	put_file(at("f"), data, FILE_BYTES);
	open_at(at("f"), _i);
	OK(run(false, parts, PARTS));
	expect_parts(data);
	ck_assert_int_ge(copies, 37 / 2 + 2);
	/* All the host memory that was ever seen: 16 MiB at most. */
	ck_assert_uint_le(highest - lowest,
			  KILNI_FILE_STAGES * KILNI_FILE_BLOCK);
	free(data);
}
END_TEST

START_TEST(writing_through_buffers)
{
	unsigned char *want = malloc(FILE_BYTES);

	fill(memory, MEMORY);
	for (int i = 0; i < PARTS; i++)
		memcpy(want + parts[i].offset,
		       memory + (parts[i].address - BASE), parts[i].bytes);
	open_at(at("f"), _i);
	OK(run(true, parts, PARTS));
	expect_file(at("f"), want, FILE_BYTES);
	ck_assert_uint_le(highest - lowest,
			  KILNI_FILE_STAGES * KILNI_FILE_BLOCK);
	free(want);
}
END_TEST

START_TEST(small_parts_need_little)
{
	const struct kilni_file_part small[] = {
		{ .offset = 0, .bytes = 3, .address = BASE },
		{ .offset = 3, .bytes = 4, .address = BASE + 8 },
	};

	put_file(at("f"), "abcdefg", 7);
	open_at(at("f"), _i);
	OK(run(false, small, 2));
	ck_assert(!memcmp(memory, "abc\0\0\0\0\0defg", 12));
	ck_assert_uint_le(highest - lowest,
			  KILNI_FILE_STAGES * KILNI_DIRECT_ALIGN);
}
END_TEST

/* Bools are made 0 or 1 on the way. */
START_TEST(bools_on_the_way)
{
	const struct kilni_file_part wide = { .bytes = 12, .address = BASE,
					      .bool_bytes = 4 };

	put_file(at("f"), "\0\0\0\0\0\0\1\0\7\0\0\0", 12);
	open_at(at("f"), _i);
	OK(run(false, &wide, 1));
	ck_assert(!memcmp(memory, "\0\0\0\0\1\0\0\0\1\0\0\0", 12));
}
END_TEST

/* The device refuses a copy: what is in flight comes home, then that is told.*/
START_TEST(a_device_that_fails)
{
	unsigned char *data = calloc(1, FILE_BYTES);
	int all;

	put_file(at("f"), data, FILE_BYTES);
	open_at(at("f"), _i);
	OK(run(false, parts, PARTS));
	all = copies;
	for (int write = 0; write < 2; write++)
		for (int i = 1; i <= all; i++) {
			copies = 0;
			fail_at = i;
			FAILS(run(write, parts, PARTS), KILN_ERR_DRIVER,
			      "fails");
		}
	free(data);
}
END_TEST

/* So many that stages are pinned for them. */
#define SMALL 64

/* A device that is lost may still copy from and to the stages: they stay. */
START_TEST(a_device_that_is_lost)
{
	struct kilni_file_part small[SMALL];
	unsigned char *data = calloc(SMALL, 4096);

	pins = true;
	for (int i = 0; i < SMALL; i++)
		small[i] = (struct kilni_file_part){
			.offset = (uint64_t)i * 4096, .bytes = 4096,
			.address = BASE + (uint64_t)i * 4096,
		};
	put_file(at("f"), data, SMALL * 4096);
	open_at(at("f"), _i);
	OK(run(false, small, SMALL));
	ck_assert_ptr_null(pinned);
	keeps = true;
	copies = 0;
	fail_at = SMALL / 2;
	lowest = highest = NULL;
	FAILS(run(false, small, SMALL), KILN_ERR_DRIVER, "fails");
	ck_assert_ptr_nonnull(kept);
	ck_assert(lowest >= (char *)kept);
	/* A sanitizer sees it where they are gone. */
	memset(kept, 1, (size_t)(highest - (char *)kept));
	when_gone(kept);
	free(data);
}
END_TEST

static enum kiln_status stop(void *user, uint64_t bytes)
{
	uint64_t *left = user;

	if (*left > bytes) {
		*left -= bytes;
		return KILN_OK;
	}
	return kilni_fail(KILN_ERR_CANCELLED, 0, "that is enough");
}

START_TEST(a_caller_that_stops)
{
	unsigned char *data = calloc(1, FILE_BYTES);
	uint64_t left = 10 << 20;
	struct kilni_pipe pipe = { .fn = "test", .file = &fd, .hw = &fake,
				   .part = parts, .parts = PARTS, .io = &io,
				   .moved = stop, .user = &left };

	put_file(at("f"), data, FILE_BYTES);
	open_at(at("f"), _i);
	FAILS(kilni_pipe_run(&pipe), KILN_ERR_CANCELLED, "enough");
	ck_assert_int_le(copies, 8);
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file_pipe");
	TCase *tcase = tcase_create("staged");
	const int all = engines_tested();

	prefer_memory();
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, reading_through_buffers, 0, all);
	tcase_add_loop_test(tcase, writing_through_buffers, 0, all);
	tcase_add_loop_test(tcase, small_parts_need_little, 0, all);
	tcase_add_loop_test(tcase, bools_on_the_way, 0, all);
	tcase_add_loop_test(tcase, a_device_that_fails, 0, all);
	tcase_add_loop_test(tcase, a_device_that_is_lost, 0, all);
	tcase_add_loop_test(tcase, a_caller_that_stops, 0, all);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
