/* SPDX-License-Identifier: Apache-2.0 */
/* kiln info on machines that are not here. */
#include "tests/unit/cards.h"
#include "tests/unit/sanitized.h"
#include "tools/info.h"

#include <fcntl.h>
#include <grp.h>
#include <hwloc.h>
#include <locale.h>
#include <sys/wait.h>
#include <wchar.h>

static char *output; /* of the last run */

static void setup(void)
{
	cards_begin();
	fakes_alone();
}

static void teardown(void)
{
	free(output);
	output = NULL;
	machine_end();
}

/* ---- running it ---- */

/* Whole file, with a 0 behind it. */
static char *read_all(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text;
	long size;

	ck_assert_msg(file != NULL, "%s", path);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	text = calloc(1, (size_t)size + 1);
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
	fclose(file);
	return text;
}

/* kiln info with an argument or none, its stdout in a file. */
static int run_into(const char *path, const char *argument)
{
	char name[] = "info", copy[160] = "";
	char *argv[3] = { name, argument ? copy : NULL, NULL };
	int saved = dup(STDOUT_FILENO), code;
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	ck_assert_int_ge(file, 0);
	snprintf(copy, sizeof(copy), "%s", argument ? argument : "");
	fflush(stdout);
	dup2(file, STDOUT_FILENO);
	close(file);
	optind = 0;
	code = tool_finish(tool_info.run(argument ? 2 : 1, argv));
	dup2(saved, STDOUT_FILENO);
	close(saved);
	return code;
}

static int run(const char *argument)
{
	char path[128];
	int code;

	snprintf(path, sizeof(path), "%s/out", machine_root);
	code = run_into(path, argument);
	free(output);
	output = read_all(path);
	return code;
}

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	ck_assert_msg(value != NULL, "line %d: %s", error.line, error.text);
	return value;
}

/* The cards that it tells of are those of tests/machines/NAME.json. */
static void expect_cards(const char *name)
{
	char file[32], path[512], *golden;
	json_t *all = parse(output), *expected;
	const json_t *cards = json_object_get(all, "cards");

	snprintf(file, sizeof(file), "%s.json", name);
	machine_file(path, file);
	golden = read_all(path);
	expected = parse(golden);
	if (!json_equal(cards, expected)) {
		char *came = json_dumps(cards, JSON_INDENT(1));

		ck_abort_msg("%s.json differs, came: %s", name, came);
	}
	json_decref(expected);
	json_decref(all);
	free(golden);
}

/* ---- machines ---- */

START_TEST(p16_two_cards)
{
	machine_add("two");
	add_two(true);
	fake_add(&fake_vulkan, "Fast Card", KILN_KIND_DISCRETE,
		 "0000:82:00.0", "aaaaaaaa-0000-0000-0000-000000000082");
	strcpy(fake_vulkan.device[0].version, "535.1");
	fake_add(&fake_vulkan, "llvmpipe", KILN_KIND_CPU, "", "");
	ck_assert_int_eq(run("--json"), 0);
	expect_cards("two");
	ck_assert_uint_eq(fake_contexts(&fake_cuda), 0); /* P44 */
	ck_assert_uint_eq(fake_contexts(&fake_vulkan), 0);
}
END_TEST

START_TEST(p16_side_by_side)
{
	const char *at;

	machine_add("two");
	add_two(true);
	ck_assert_int_eq(run(NULL), 0);
	at = strstr(output, "  pci              0000:03:00.0\n");
	ck_assert_ptr_nonnull(at);
	at = strstr(at, "    selector       cuda:1\n");
	ck_assert_ptr_nonnull(at);
	at = strstr(at, "    index          1\n");
	ck_assert_ptr_nonnull(at);
	ck_assert_ptr_nonnull(strstr(at, "    uuid           " SLOW "\n"));
}
END_TEST

START_TEST(p17_slices)
{
	struct kilni_hw_info *info;

	machine_add("four");
	setenv("CUDA_VISIBLE_DEVICES", "MIG-11111111", 1);
	info = fake_add(&fake_cuda, "Card MIG 1g.10gb", KILN_KIND_DISCRETE,
			"0000:3B:00.0",
			"MIG-11111111-0000-0000-0000-000000000001");
	info->slice = true;
	info->memory_bytes = (uint64_t)10 << 30;
	fake_vulkan.absent = "libvulkan.so.1: no such file";
	ck_assert_int_eq(run("--json"), 0);
	expect_cards("slices");
}
END_TEST

START_TEST(p18_unknown_is_marked)
{
	fake_add(&fake_vulkan, "Card", KILN_KIND_DISCRETE, "", "");
	ck_assert_int_eq(run(NULL), 0);
	ck_assert_ptr_nonnull(strstr(output, "alone            PCI unknown"));
}
END_TEST

START_TEST(p20_without_libraries)
{
	machine_add("two");
	fake_cuda.absent = "driver 11.0 is too old, 12.0 is needed";
	fake_vulkan.absent = "libvulkan.so.1: no such file";
	ck_assert_int_eq(run("--json"), 0);
	expect_cards("absent");
	ck_assert_ptr_nonnull(strstr(output, fake_cuda.absent));
}
END_TEST

START_TEST(no_card_at_all)
{
	json_t *all;

	ck_assert_int_eq(run("--json"), 0);
	all = parse(output);
	ck_assert_uint_eq(json_array_size(json_object_get(all, "cards")), 0);
	json_decref(all);
}
END_TEST

START_TEST(p19_exit_status)
{
	char line[64];
	int status;
	pid_t child;

	snprintf(line, sizeof(line), "render:x:%u:", (unsigned)getegid());
	machine_put("/etc/group", line);
	machine_add("amd");
	machine_mode("/dev/dri/renderD129", 0);
	ck_assert(!chmod(machine_root, 0777));
	fflush(NULL);
	child = fork();
	if (!child) {
		if (!geteuid() && (setgroups(0, NULL) || setgid(65534) ||
				   setuid(65534)))
			_exit(77);
		if (run("--json") != INFO_NO_PERMISSION)
			_exit(1);
		expect_cards("closed");
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	/* Opened to this user, the same machine is in order. */
	machine_mode("/dev/dri/renderD129", 0666);
	ck_assert_int_eq(run("--json"), 0);
}
END_TEST

/* ---- texts ---- */

/* Nothing raw that JSON forbids, and UTF-8 as the C library reads it. */
static void expect_clean(const char *text)
{
	ck_assert_ptr_nonnull(setlocale(LC_ALL, "C.UTF-8"));
	ck_assert_int_ne(mbstowcs(NULL, text, 0), (size_t)-1);
	for (; *text; text++)
		ck_assert((unsigned char)*text >= ' ' || *text == '\n');
	setlocale(LC_ALL, "C");
}

START_TEST(p43_strict_json)
{
	static const char odd[] = "a\"b\n\x01\xc3\xa9";
	struct kilni_hw_info *info;
	json_t *all, *card, *device;

	fake_add(&fake_cuda, odd, KILN_KIND_DISCRETE, "01:00.0", odd);
	fake_add(&fake_cuda, "\xff", KILN_KIND_DISCRETE, "02:00.0", "\xff");
	strcpy(fake_cuda.device[1].refused, "\xff\n\"");
	strcpy(fake_cuda.device[1].version, "\x7f\xc0\x80");
	/* As long as a driver can make it; the last byte begins a character. */
	info = fake_add(&fake_cuda, "", KILN_KIND_DISCRETE, "03:00.0", "");
	memset(info->name, 'n', sizeof(info->name) - 1);
	info->name[sizeof(info->name) - 2] = '\xc3';
	setenv("KILN_ODD", "\xff\x01\"", 1);
	ck_assert_int_eq(run("--json"), 0);
	expect_clean(output);
	all = parse(output);
	card = json_array_get(json_object_get(all, "cards"), 0);
	device = json_array_get(json_object_get(card, "devices"), 0);
	ck_assert_str_eq(json_string_value(json_object_get(card, "name")),
			 odd);
	ck_assert_str_eq(json_string_value(json_object_get(device, "uuid")),
			 odd);
	card = json_array_get(json_object_get(all, "cards"), 1);
	ck_assert_str_eq(json_string_value(json_object_get(card, "name")),
			 "\xef\xbf\xbd");
	card = json_array_get(json_object_get(all, "cards"), 2);
	ck_assert_uint_eq(
		strlen(json_string_value(json_object_get(card, "name"))),
		sizeof(info->name) - 2 + 3);
	json_decref(all);
	/* No raw control characters for a terminal either. */
	ck_assert_int_eq(run(NULL), 0);
	expect_clean(output);
}
END_TEST

START_TEST(p43_full_disk)
{
	if (access("/dev/full", W_OK)) {
		printf("skipped: /dev/full is not here\n");
		return;
	}
	ck_assert_int_eq(run_into("/dev/full", "--json"), EXIT_FAILURE);
}
END_TEST

/* ---- the picture ---- */

/* Two packages with 64 GiB, two caches of 4 cores in each. */
static void make_topology(const char *path)
{
	hwloc_topology_t topology;

	ck_assert(!hwloc_topology_init(&topology));
	ck_assert(!hwloc_topology_set_synthetic(
		topology, "pack:2 [numa(memory=68719476736)] "
			  "l3:2(size=33554432) l2:4(size=1048576) core:1 "
			  "pu:2"));
	ck_assert(!hwloc_topology_load(topology));
	ck_assert(!hwloc_topology_export_xml(topology, path, 0));
	hwloc_topology_destroy(topology);
}

static int draw(const char *path)
{
	char argument[160];
	int code;

	snprintf(argument, sizeof(argument), "--svg=%s", path);
	code = run(argument);
	if (code)
		return code;
	free(output);
	output = read_all(path);
	return 0;
}

static unsigned times(const char *text)
{
	unsigned count = 0;

	for (const char *at = output; (at = strstr(at, text)); at++)
		count++;
	return count;
}

/* Where a text stands that is there once. */
static void find(const char *text, double *x, double *y)
{
	const char *at = strstr(output, text), *last = NULL;

	ck_assert_msg(times(text) == 1, "%s: %u times", text, times(text));
	for (const char *tag = output; (tag = strstr(tag, "<text")); tag++)
		if (tag < at)
			last = tag;
	ck_assert_ptr_nonnull(last);
	ck_assert_int_eq(sscanf(last, "<text x=\"%lf\" y=\"%lf\"", x, y), 2);
}

/* Every box lies on the paper. */
static void expect_on_paper(void)
{
	double x, y, width, height, paper_width, paper_height;
	const char *at = strstr(output, "width=\"");

	ck_assert_int_eq(sscanf(at, "width=\"%lf\" height=\"%lf\"",
				&paper_width, &paper_height),
			 2);
	for (at = output; (at = strstr(at, "<rect ")); at++) {
		ck_assert_int_eq(sscanf(at,
					"<rect x=\"%lf\" y=\"%lf\" "
					"width=\"%lf\" height=\"%lf\"",
					&x, &y, &width, &height),
				 4);
		ck_assert(x >= 0 && y >= 0 && width > 0 && height > 0);
		ck_assert(x + width <= paper_width);
		ck_assert(y + height <= paper_height);
	}
}

static void begin_picture(char path[128])
{
	snprintf(path, 128, "%s/topology.xml", machine_root);
	make_topology(path);
	setenv("KILN_HWLOC_XML", path, 1);
	machine_add("two");
	add_two(true);
	snprintf(path, 128, "%s/machine.svg", machine_root);
}

START_TEST(picture)
{
	double slow_x, slow_y, fast_x, fast_y, alone_x, alone_y;
	char path[128];

	begin_picture(path);
	fake_add(&fake_vulkan, "<odd> & \x01\xff", KILN_KIND_VIRTUAL, "", "");
	fake_add(&fake_vulkan, "in software", KILN_KIND_CPU, "", "");
	ck_assert_int_eq(draw(path), 0);
	expect_clean(output);
	expect_on_paper();
	ck_assert_uint_eq(times(">package 0"), 1);
	ck_assert_uint_eq(times(">package 1"), 1);
	ck_assert_uint_eq(times(">node 0: 64 GiB<"), 1);
	ck_assert_uint_eq(times(">L3 32 MiB<"), 4);
	ck_assert_uint_eq(times(">core "), 16);
	ck_assert_uint_eq(times(">L2 1.0 MiB<"), 16);
	ck_assert_uint_eq(times(">CPU 30-31<"), 1);
	/* Each card once, below the package that it is near. */
	find(">0000:03:00.0  Slow Card<", &slow_x, &slow_y);
	find(">0000:82:00.0  Fast Card<", &fast_x, &fast_y);
	find(">PCI unknown  &lt;odd&gt; &amp; ?\xef\xbf\xbd<", &alone_x,
	     &alone_y);
	ck_assert(slow_x < fast_x);
	ck_assert(alone_y > slow_y && alone_y > fast_y);
	ck_assert_uint_eq(times(">16 GiB, discrete, 32.0 GT/s PCIe x16<"), 1);
	ck_assert_uint_eq(times(">cuda:0<"), 1);
	ck_assert_uint_eq(times(">vulkan:virtual:0<"), 1);
	ck_assert_uint_eq(times("ast offers no node"), 1);
	ck_assert_uint_eq(times("in software"), 0);
}
END_TEST

START_TEST(picture_that_fails)
{
	char path[128];

	begin_picture(path);
	ck_assert_int_eq(run("--svg=/proc/none/machine.svg"), EXIT_FAILURE);
	if (!access("/dev/full", W_OK))
		ck_assert_int_eq(run("--svg=/dev/full"), EXIT_FAILURE);
	setenv("KILN_HWLOC_XML", "/nonexistent.xml", 1);
	ck_assert_int_eq(draw(path), EXIT_FAILURE);
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("info");
	TCase *tcase = tcase_create("machines");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, p16_two_cards);
	tcase_add_test(tcase, p16_side_by_side);
	tcase_add_test(tcase, p17_slices);
	tcase_add_test(tcase, p18_unknown_is_marked);
	tcase_add_test(tcase, p20_without_libraries);
	tcase_add_test(tcase, no_card_at_all);
	tcase_add_test(tcase, p43_strict_json);
	tcase_add_test(tcase, p43_full_disk);
	tcase_add_test(tcase, picture);
	tcase_add_test(tcase, picture_that_fails);
	if (!SANITIZED)
		tcase_add_test(tcase, p19_exit_status);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
