/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of traces, of files that others write to and cut meanwhile. */
#include "tests/unit/api.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/trace.h"

#define RECORDS 1000

static char path[] = "/tmp/kiln-t-trace-XXXXXX";
static int fd;

static void write_at(const void *from, size_t bytes, uint64_t at)
{
	ck_assert_int_eq(pwrite(fd, from, bytes, (off_t)at), (ssize_t)bytes);
}

static uint64_t place_of(unsigned i)
{
	return KILNI_TRACE_BLOCK + i * sizeof(struct kilni_trace_record);
}

static void write_launch(unsigned i, unsigned op)
{
	struct kilni_trace_record record = {
		.kind = KILNI_TRACE_LAUNCH,
		.op = (uint16_t)op,
		.begin_ns = i,
		.end_ns = i + 1,
		.of.serial = i,
	};

	write_at(&record, sizeof(record), place_of(i));
}

static void setup(void)
{
	struct kilni_trace_head head = {
		.magic = KILNI_TRACE_MAGIC,
		.version = KILNI_TRACE_VERSION,
		.record_bytes = 64,
		.process = 77,
		.ops = 2,
		.op = { "first", "second" },
	};

	strcpy(path + sizeof(path) - 7, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	write_at(&head, sizeof(head), 0);
	for (unsigned i = 0; i < RECORDS; i++)
		write_launch(i, i % 2);
}

static void teardown(void)
{
	close(fd);
	unlink(path);
}

static struct kiln_trace *open_trace(void)
{
	struct kiln_trace *trace = NULL;

	OK(kiln_trace_open(&trace, path));
	return trace;
}

/* The next event; false: there is none. */
static bool next(struct kiln_trace *trace, struct kiln_trace_event *event)
{
	bool more = false;

	event->struct_size = sizeof(*event);
	OK(kiln_trace_next(trace, event, &more));
	return more;
}

START_TEST(all_records_come)
{
	struct kiln_trace_event event;
	struct kiln_trace *trace;

	/* Places without a record, and of kinds that there are not. */
	write_launch(RECORDS + 300, 1);
	write_at("\x7", 1, place_of(RECORDS + 2));
	write_at("\xff", 1, place_of(RECORDS + 3));
	trace = open_trace();
	for (unsigned i = 0; i < RECORDS; i++) {
		ck_assert(next(trace, &event));
		ck_assert_int_eq(event.kind, KILN_TRACE_LAUNCH);
		ck_assert_uint_eq(event.serial, i);
		ck_assert_uint_eq(event.begin_ns, i);
		ck_assert_str_eq(event.name, i % 2 ? "second" : "first");
	}
	ck_assert(next(trace, &event));
	ck_assert_uint_eq(event.serial, RECORDS + 300);
	ck_assert(!next(trace, &event));
	kiln_trace_release(trace);
}
END_TEST

START_TEST(cut_file_ends)
{
	struct kiln_trace *trace = open_trace();
	struct kiln_trace_info info = { .struct_size = sizeof(info) };
	struct kiln_trace_event event;
	unsigned count = 0;

	ck_assert(next(trace, &event));
	/* In the middle of a record. */
	ck_assert_int_eq(ftruncate(fd, (off_t)place_of(500) + 10), 0);
	while (next(trace, &event))
		count++;
	ck_assert_uint_eq(count, 499);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert(!next(trace, &event));
	OK(kiln_trace_info(trace, &info));
	ck_assert_int_eq(info.process, 77);
	kiln_trace_release(trace);
	trace = NULL;
	FAILS(kiln_trace_open(&trace, path), KILN_ERR_INVALID, "no trace");
}
END_TEST

START_TEST(head_is_that_of_opening)
{
	struct kiln_trace *trace = open_trace();
	const uint32_t ops = UINT32_MAX;
	struct kiln_trace_event event;

	write_at(&ops, sizeof(ops), offsetof(struct kilni_trace_head, ops));
	/* Its name would lie in the end_ns of record 3. */
	write_launch(RECORDS - 1, 2051);
	for (unsigned i = 0; i < RECORDS; i++)
		ck_assert(next(trace, &event));
	ck_assert_str_eq(event.name, "");
	kiln_trace_release(trace);
	trace = NULL;
	FAILS(kiln_trace_open(&trace, path), KILN_ERR_INVALID, "no trace");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace");
	TCase *tc = tcase_create("reader");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, all_records_come);
	tcase_add_test(tc, cut_file_ends);
	tcase_add_test(tc, head_is_that_of_opening);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
