/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"

/* Plans: what a planned process opens, counts and reports. */

static char folder[32];
static char path[64];
static struct kiln_plan *plan;
static struct kiln_device *dev;

static void be_planned(const char *target)
{
	setenv("KILN_PLAN", target, 1);
	setenv("KILN_PLAN_REPORT", path, 1);
}

static void setup(void)
{
	strcpy(folder, "/tmp/kiln-t-plan-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/report", folder);
	OK(kiln_plan_create(&plan, path, 0));
	be_planned("cuda");
	unsetenv("KILN_DEVICE");
}

static void teardown(void)
{
	kiln_device_release(dev);
	kiln_plan_release(plan);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

/* The accounts, as many as there should be. */
static struct kiln_plan_info *accounts(size_t want)
{
	static struct kiln_plan_info infos[KILN_PLAN_DEVICES_MAX];
	size_t count = KILN_PLAN_DEVICES_MAX;

	for (size_t i = 0; i < count; i++)
		infos[i].struct_size = sizeof(infos[i]);
	OK(kiln_plan_read(plan, infos, &count, NULL));
	ck_assert_uint_eq(count, want);
	return infos;
}

static struct kiln_buffer *take(uint64_t bytes)
{
	struct kiln_buffer *buffer = NULL;

	OK(kiln_buffer_create(&buffer, dev, NULL, bytes));
	return buffer;
}

/* ---- what is counted ---- */

START_TEST(peaks_outlive_what_made_them)
{
	struct kiln_buffer *a, *b;
	const struct kiln_plan_info *info;

	dev = open_device(NULL);
	a = take(1000);
	b = take(5000000);
	info = accounts(1);
	ck_assert_int_eq(info->process, getpid());
	ck_assert_str_eq(info->selector, "cuda:0");
	ck_assert_uint_eq(info->usage.live_bytes, 5001000);
	kiln_buffer_release(a);
	kiln_buffer_release(b);
	OK(kiln_memory_cleanup(dev));
	a = take(300);
	info = accounts(1);
	ck_assert_uint_eq(info->usage.live_bytes, 300);
	ck_assert_uint_eq(info->usage.peak_live_bytes, 5001000);
	ck_assert_uint_eq(info->largest_request_bytes, 5000000);
	ck_assert_uint_ge(info->usage.peak_reserved_bytes, 5001000);
	kiln_buffer_release(a);
}
END_TEST

/* The report is the device's own account. */
START_TEST(report_is_the_account)
{
	struct kiln_memory_usage own = KILN_MEMORY_USAGE_INIT;
	const struct kiln_plan_info *info;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	uint64_t reserved = 0;
	bool available;

	dev = open_device("vulkan:discrete:0");
	OK(kiln_zeros(&x, dev, KILN_F32, 1, SHAPE(1000)));
	OK(kiln_exp(&y, x));
	OK(kiln_memory_usage(dev, &own, &available));
	info = accounts(1);
	ck_assert_str_eq(info->selector, "vulkan:discrete:0");
	ck_assert_uint_eq(own.live_bytes, 8000);
	ck_assert_mem_eq(&own, &info->usage, sizeof(own));
	ck_assert_uint_ge(info->pool_count, 3);
	for (uint64_t i = 0; i < info->pool_count; i++)
		reserved += info->pool[i].reserved_bytes;
	ck_assert_uint_eq(reserved, own.reserved_bytes);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

START_TEST(devices_are_told_apart)
{
	struct kiln_device *other = NULL, *same = NULL, *cpu = NULL;
	const struct kiln_plan_info *info;
	struct kiln_buffer *a, *b = NULL;

	dev = open_device("auto");
	OK(kiln_device_open(&same, "cuda"));
	ck_assert_ptr_eq(same, dev);
	OK(kiln_device_open(&other, "cuda:1"));
	ck_assert(!kiln_device_equal(other, dev));
	OK(kiln_device_open(&cpu, "cpu"));
	ck_assert_str_eq(kiln_device_selector(cpu), "cpu:0");
	ck_assert_int_eq(kiln_device_type(cpu), KILN_DEVICE_NULL);
	a = take(100);
	OK(kiln_buffer_create(&b, other, NULL, 200));
	info = accounts(3);
	ck_assert_str_eq(info[0].selector, "cuda:0");
	ck_assert_uint_eq(info[0].usage.live_bytes, 100);
	ck_assert_str_eq(info[1].selector, "cuda:1");
	ck_assert_uint_eq(info[1].usage.live_bytes, 200);
	ck_assert_str_eq(info[2].selector, "cpu:0");
	ck_assert_uint_eq(info[2].usage.live_bytes, 0);
	kiln_buffer_release(a);
	kiln_buffer_release(b);
	kiln_device_release(same);
	kiln_device_release(other);
	kiln_device_release(cpu);
}
END_TEST

/* ---- steps ---- */

static void work(void)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 1, SHAPE(10)));
	kiln_tensor_release(x);
}

START_TEST(steps_end_with_a_wait_after_work)
{
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	float value[10];

	dev = open_device("cuda");
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(kiln_plan_steps(plan), 0);
	work();
	ck_assert_uint_eq(kiln_plan_steps(plan), 0);
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(kiln_plan_steps(plan), 1);
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(kiln_plan_steps(plan), 1);
	work();
	work();
	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_sync(stream));
	ck_assert_uint_eq(kiln_plan_steps(plan), 2);
	OK(kiln_ones(&x, dev, KILN_F32, 1, SHAPE(10)));
	OK(kiln_tensor_read(x, value, sizeof(value)));
	OK(kiln_tensor_read(x, value, sizeof(value)));
	ck_assert_uint_eq(kiln_plan_steps(plan), 3);
	ck_assert_uint_eq(accounts(1)->steps, 3);
	kiln_tensor_release(x);
	kiln_stream_release(stream);
}
END_TEST

START_TEST(steps_have_a_limit)
{
	struct kiln_buffer *a;
	char name[80];

	snprintf(name, sizeof(name), "%s/limit", folder);
	OK(kiln_plan_create(&plan, name, 2));
	setenv("KILN_PLAN_REPORT", name, 1);
	dev = open_device("cuda");
	for (int i = 0; i < 5; i++) {
		a = take(1000 + (uint64_t)i);
		work();
		OK(kiln_device_sync(dev));
		kiln_buffer_release(a);
	}
	ck_assert_uint_eq(kiln_plan_steps(plan), 2);
	ck_assert_uint_eq(accounts(1)->usage.peak_live_bytes, 1001 + 40);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* ---- the rules of targets ---- */

static uint64_t reserved_for(const char *target, uint64_t bytes)
{
	struct kiln_memory_usage usage = KILN_MEMORY_USAGE_INIT;
	struct kiln_buffer *a;
	bool available;

	setenv("KILN_PLAN", target, 1);
	dev = open_device(NULL);
	a = take(bytes);
	OK(kiln_memory_usage(dev, &usage, &available));
	kiln_buffer_release(a);
	kiln_device_release(dev);
	dev = NULL;
	return usage.reserved_bytes;
}

START_TEST(targets_have_rules)
{
	struct kiln_buffer *a = NULL;
	uint64_t odd = (UINT64_C(3) << 30) + 1;

	/* Pages of one request are multiples of what the target gives. */
	ck_assert_uint_ge(reserved_for("vulkan", odd), odd);
	ck_assert_uint_eq(reserved_for("cuda", odd) % 65536, 0);
	/* A Vulkan device has no allocation of 5 GiB. */
	setenv("KILN_PLAN", "vulkan", 1);
	dev = open_device(NULL);
	FAILS(kiln_buffer_create(&a, dev, NULL, UINT64_C(5) << 30),
	      KILN_ERR_LIMIT, "4292870144");
	kiln_device_release(dev);
	dev = NULL;
	ck_assert_uint_ge(reserved_for("cuda", UINT64_C(5) << 30),
			  UINT64_C(5) << 30);
}
END_TEST

START_TEST(targets_are_listed)
{
	static const char *const want[] = { "null", "cpu", "cuda", "vulkan" };

	for (size_t i = 0; i < 4; i++)
		ck_assert_str_eq(kiln_plan_target(i), want[i]);
	ck_assert_ptr_null(kiln_plan_target(4));
	ck_assert_ptr_null(kiln_plan_target(SIZE_MAX));
}
END_TEST

/* The most bytes that were live while the work was done under a target. */
static uint64_t peak_of(const char *target, void (*compute)(void))
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available = false;

	be_planned(target);
	dev = open_device("cpu:1");
	compute();
	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert(available);
	kiln_device_release(dev);
	dev = NULL;
	return usage.peak_live_bytes;
}

static void multiply(void)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *w = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 2, SHAPE(64, 784)));
	OK(kiln_zeros(&w, dev, KILN_F32, 2, SHAPE(784, 128)));
	OK(kiln_matmul(&y, x, w));
	kiln_tensor_release(x);
	kiln_tensor_release(w);
	kiln_tensor_release(y);
}

static void scatter(void)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *at = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_F32, 1, SHAPE(5000)));
	OK(kiln_zeros(&at, dev, KILN_I32, 1, SHAPE(5000)));
	OK(kiln_scatter_add(&y, x, 0, at, x));
	kiln_tensor_release(x);
	kiln_tensor_release(at);
	kiln_tensor_release(y);
}

/*
 * Sums of f32 that are scattered lie in f64 meanwhile, on every target. A
 * product of few tiles, here 2 by 4 of 32 by 32, is cut along k, and each part
 * has sums of its own. CUDA: 33 parts would give each of 132 multiprocessors
 * two, but one is 128 deep at least, so 6; 784 by 6 in multiples of 32 are 160,
 * which makes 5. Vulkan: 32 for 256 groups, 64 deep at least, so 12; 96, so 9.
 */
START_TEST(workspace_is_the_targets)
{
	const uint64_t out = 64 * 128 * 4;
	const uint64_t product = (64 * 784 + 784 * 128) * 4 + out;
	const uint64_t scattered = UINT64_C(3) * 5000 * 4;

	ck_assert_uint_eq(peak_of("null", multiply), product);
	ck_assert_uint_eq(peak_of("cuda", multiply), product + 5 * out);
	ck_assert_uint_eq(peak_of("vulkan", multiply), product + 9 * out);
	ck_assert_uint_eq(peak_of("null", scatter), scattered);
	ck_assert_uint_eq(peak_of("cpu", scatter), scattered + 5000 * 8);
	ck_assert_uint_eq(peak_of("cuda", scatter), scattered + 5000 * 8);
	ck_assert_uint_eq(peak_of("vulkan", scatter), scattered + 5000 * 8);
}
END_TEST

/* ---- refusals ---- */

START_TEST(selectors_are_still_checked)
{
	struct kiln_device *d = NULL;
	char wide[100] = "uuid:";

	FAILS(kiln_device_open(&d, "gpu"), KILN_ERR_SELECTOR, "gpu");
	memset(wide + 5, '0', sizeof(wide) - 6);
	FAILS(kiln_device_open(&d, wide), KILN_ERR_SELECTOR, "too long");
	setenv("KILN_PLAN", "abacus", 1);
	FAILS(kiln_device_open(&d, "cpu"), KILN_ERR_OPTION, "\"abacus\"");
}
END_TEST

START_TEST(a_plan_has_room_for_so_many)
{
	struct kiln_device *d[17] = { NULL };
	char name[16];
	size_t count = 0;
	uint64_t lost = 1;

	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "cuda:%d", i);
		OK(kiln_device_open(&d[i], name));
	}
	FAILS(kiln_device_open(&d[16], "cuda:16"), KILN_ERR_NO_DEVICE,
	      "16 devices at most");
	for (int i = 0; i < 16; i++)
		kiln_device_release(d[i]);
	/* Opened again they take further places, and then none. */
	for (int i = 0; i < 20; i++) {
		struct kiln_device *again = open_device("cuda:0");

		kiln_device_release(again);
	}
	OK(kiln_plan_read(plan, NULL, &count, &lost));
	ck_assert_uint_eq(count, KILN_PLAN_DEVICES_MAX);
	ck_assert_uint_eq(lost, 4);
	dev = open_device("cuda:0");
	kiln_buffer_release(take(100));
}
END_TEST

static void refuse_report(const char *report, const char *text)
{
	struct kiln_device *d = NULL;

	setenv("KILN_PLAN_REPORT", report, 1);
	FAILS(kiln_device_open(&d, "cuda"), KILN_ERR_OPTION, text);
	ck_assert_ptr_null(d);
}

START_TEST(reports_are_checked)
{
	char name[80];
	FILE *file;

	refuse_report("/nothing/here", "No such file");
	refuse_report(folder, "Is a directory");
	refuse_report("/dev/null", "is no report");
	snprintf(name, sizeof(name), "%s/link", folder);
	ck_assert_int_eq(symlink(path, name), 0);
	refuse_report(name, "symbolic link");
	ck_assert_int_eq(unlink(name), 0);
	file = fopen(name, "w");
	fputs("something else", file);
	fclose(file);
	refuse_report(name, "is no report");
	/* Of the right size, all zeros. */
	ck_assert_int_eq(truncate(name, 0), 0);
	struct stat about;
	ck_assert_int_eq(stat(path, &about), 0);
	ck_assert_int_eq(truncate(name, about.st_size), 0);
	refuse_report(name, "is no report");
	ck_assert_int_eq(unlink(name), 0);
	ck_assert_int_eq(about.st_mode & 0777, 0600);
}
END_TEST

START_TEST(without_a_report_it_still_plans)
{
	unsetenv("KILN_PLAN_REPORT");
	dev = open_device("cuda");
	work();
	OK(kiln_device_sync(dev));
	accounts(0);
}
END_TEST

START_TEST(creation_refuses)
{
	struct kiln_plan *p = NULL;
	struct kiln_plan_info info = { .struct_size = 1 };
	size_t count = 1;

	FAILS(kiln_plan_create(NULL, "/tmp/x", 0), KILN_ERR_INVALID, "out");
	FAILS(kiln_plan_create(&p, NULL, 0), KILN_ERR_INVALID, "path");
	FAILS(kiln_plan_create(&p, "", 0), KILN_ERR_INVALID, "empty");
	FAILS(kiln_plan_create(&p, path, 0), KILN_ERR_IO, "exists");
	FAILS(kiln_plan_create(&p, "/nothing/here", 0), KILN_ERR_IO,
	      "/nothing/here: No such file");
	ck_assert_ptr_null(p);
	FAILS(kiln_plan_read(NULL, NULL, &count, NULL), KILN_ERR_INVALID,
	      "plan is NULL");
	FAILS(kiln_plan_read(plan, NULL, NULL, NULL), KILN_ERR_INVALID,
	      "count");
	FAILS(kiln_plan_read(plan, &info, &count, NULL), KILN_ERR_INVALID,
	      "struct_size 1");
	p = kiln_plan_retain(plan);
	kiln_plan_release(p);
	ck_assert_int_eq(access(path, F_OK), 0);
	kiln_plan_release(NULL);
}
END_TEST

/* ---- processes ---- */

static int child(void)
{
	struct kiln_plan_info info = { .struct_size = sizeof(info) };
	struct kiln_buffer *a = NULL;
	size_t count = 1;

	if (kiln_plan_read(plan, &info, &count, NULL) != KILN_ERR_FORKED)
		return 1;
	kiln_plan_release(plan);
	kiln_device_release(dev);
	dev = NULL;
	if (kiln_device_open(&dev, "cuda") ||
	    kiln_buffer_create(&a, dev, NULL, 777))
		return 2;
	work();
	if (kiln_device_sync(dev))
		return 3;
	return 0;
}

START_TEST(forked_child_reports_for_itself)
{
	const struct kiln_plan_info *info;
	struct kiln_buffer *a;
	int status;
	pid_t pid;

	dev = open_device("cuda");
	a = take(100);
	work();
	OK(kiln_device_sync(dev));
	work();
	OK(kiln_device_sync(dev));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(child());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	info = accounts(2);
	ck_assert_int_eq(info[0].process, getpid());
	ck_assert_uint_eq(info[0].steps, 2);
	ck_assert_uint_eq(info[0].usage.live_bytes, 100);
	ck_assert_int_eq(info[1].process, pid);
	ck_assert_uint_eq(info[1].steps, 1);
	ck_assert_uint_eq(info[1].usage.peak_live_bytes, 777 + 40);
	kiln_buffer_release(a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("plan");
	TCase *tcase = tcase_create("plan");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, peaks_outlive_what_made_them);
	tcase_add_test(tcase, report_is_the_account);
	tcase_add_test(tcase, devices_are_told_apart);
	tcase_add_test(tcase, steps_end_with_a_wait_after_work);
	tcase_add_test(tcase, steps_have_a_limit);
	tcase_add_test(tcase, targets_have_rules);
	tcase_add_test(tcase, targets_are_listed);
	tcase_add_test(tcase, workspace_is_the_targets);
	tcase_add_test(tcase, selectors_are_still_checked);
	tcase_add_test(tcase, a_plan_has_room_for_so_many);
	tcase_add_test(tcase, reports_are_checked);
	tcase_add_test(tcase, without_a_report_it_still_plans);
	tcase_add_test(tcase, creation_refuses);
	if (!SANITIZED)
		tcase_add_test(tcase, forked_child_reports_for_itself);
	suite_add_tcase(s, tcase);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
