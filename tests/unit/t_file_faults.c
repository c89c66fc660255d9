/* SPDX-License-Identifier: Apache-2.0 */
#include "file_rig.h"

/*
 * Every system call of files fails in turn under a small program that saves
 * and loads. Whatever fails: a status with a message comes back, results are
 * untouched, the file is the old one or the new one, and neither descriptors
 * nor temporary files are left.
 */

/* Three blocks and a bit, and a small one. */
#define LARGE ((5 << 20) + 3)

static struct kiln_device *dev;
static unsigned char *old_bytes, *new_bytes;
static size_t old_size, new_size;

static struct kiln_tensor *tensors[2];
static const char *const names[] = { "large", "small" };

static enum kiln_status save(const char *path)
{
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;

	content.count = 2;
	content.names = names;
	content.tensors = tensors;
	return kiln_safetensors_save(path, 0, &content);
}

static void setup(void)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	make_folder();
	dev = open_device("cpu");
	OK(kiln_arange(&t, dev, KILN_I32, 0, LARGE, 1));
	OK(kiln_cast(&tensors[0], t, KILN_U8));
	tensors[1] = FLOATS(dev, 1, 2, 3);
	OK(save(at("f")));
	new_bytes = get_file(at("f"), &new_size);
	old_size = 7;
	old_bytes = malloc(old_size);
	memcpy(old_bytes, "the old", old_size);
	kiln_tensor_release(t);
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	unsetenv("KILN_FILE_PATH");
	for (int i = 0; i < 2; i++)
		kiln_tensor_clear(&tensors[i]);
	free(old_bytes);
	free(new_bytes);
	kiln_device_release(dev);
	remove_folder();
}

/* What a run of the program did. */
struct run {
	int failed;
	uint64_t passes;
	enum kiln_status saved;
};

static void note(struct run *run, enum kiln_status status)
{
	if (status == KILN_OK)
		return;
	run->failed++;
	ck_assert(kiln_error_status() == status);
	ck_assert(*kiln_error_message());
}

static void expect_old_or_new(struct run *run)
{
	size_t size;
	unsigned char *have = get_file(at("f"), &size);

	if (run->saved == KILN_OK ||
	    strstr(kiln_error_message(), "is in place") ||
	    (size == new_size && strstr(kiln_error_message(), "fsync"))) {
		ck_assert_uint_eq(size, new_size);
		ck_assert(!memcmp(have, new_bytes, size));
	} else {
		ck_assert_uint_eq(size, old_size);
		ck_assert(!memcmp(have, old_bytes, size));
	}
	ck_assert_int_eq(entries(folder), 1);
	free(have);
}

/* Looking at tensors is no part of the program. */
static void stop_faults(struct run *run)
{
	run->passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
}

static void load_back(struct run *run)
{
	struct kiln_safetensors *file = NULL;
	struct kiln_tensor *t[2] = { FLOATS(dev, 8), FLOATS(dev, 9) };
	enum kiln_status status;

	put_file(at("f"), new_bytes, new_size);
	status = kiln_safetensors_open(&file, at("f"), 0);
	note(run, status);
	if (status == KILN_OK) {
		/* Wide elements come first. */
		status = kiln_safetensors_load_all(t, file, dev, NULL, NULL);
		note(run, status);
		kiln_safetensors_release(file);
	}
	if (status == KILN_OK) {
		stop_faults(run);
		EXPECT_FLOATS(t[0], 1, 2, 3);
		expect_bytes(t[1], new_bytes + new_size - LARGE, LARGE,
			     "large");
	} else {
		stop_faults(run);
		EXPECT_FLOATS(t[0], 8);
		EXPECT_FLOATS(t[1], 9);
	}
	kiln_tensor_release(t[0]);
	kiln_tensor_release(t[1]);
}

static struct run run_program(void)
{
	struct run run = { 0 };

	put_file(at("f"), old_bytes, old_size);
	run.saved = save(at("f"));
	note(&run, run.saved);
	expect_old_or_new(&run);
	load_back(&run);
	return run;
}

/* One fault; false where the program did not come that far. */
static bool survive(const char *site, uint64_t nth, bool made_good)
{
	int before = descriptors();
	struct run run;

	OK(kilni_fault_set(site, nth, KILN_ERR_IO));
	run = run_program();
	ck_assert_msg(descriptors() == before, "%s %d: descriptors", site,
		      (int)nth);
	if (made_good || run.passes < nth)
		ck_assert_msg(!run.failed, "%s %d: %s", site, (int)nth,
			      kiln_error_message());
	else
		ck_assert_msg(run.failed, "%s %d: nothing was reported", site,
			      (int)nth);
	return run.passes >= nth;
}

struct site {
	const char *name;
	bool made_good;
	bool ring;                   /* only where there is one */
	uint64_t least;              /* passes there are at least */
};

static const struct site sites[] = {
	{ "file_open", false, false, 3 },
	{ "file_read", false, false, 6 },
	{ "file_write", false, false, 5 },
	{ "file_fsync", false, false, 2 },
	{ "file_rename", false, false, 1 },
	{ "file_short", true, false, 6 },
	{ "file_intr", true, false, 6 },
	{ "file_ring", true, true, 1 },
	{ "file_submit", true, true, 6 },
	{ "file_wait", true, true, 6 },
	{ "file_thread", true, false, 1 },
};

START_TEST(every_call_fails_in_turn)
{
	const bool threads = _i % 2;
	const struct site *site = &sites[_i / 2];
	uint64_t nth = 1;

	if (_i % 2 >= engines_tested())
		return;
	setenv("KILN_FILE_PATH", threads ? "threads" : "auto", 1);
	if (site->ring &&
	    (threads || strcmp(kiln_file_engine(), "io_uring"))) {
		printf("skipped: %s without a ring (%s)\n", site->name,
		       kiln_file_engine());
		return;
	}
	if (!strcmp(site->name, "file_thread") && !threads)
		return;
	while (nth < 200 && survive(site->name, nth, site->made_good))
		nth++;
	ck_assert_uint_ge(nth, site->least);
	ck_assert_uint_lt(nth, 200);
	ck_assert(!run_program().failed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file_faults");
	TCase *tcase = tcase_create("cpu");

	prefer_memory();
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, every_call_fails_in_turn, 0,
			    2 * (int)KILNI_COUNTOF(sites));
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
