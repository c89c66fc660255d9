/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a text opens, and which card that is on. */
#include "tests/unit/cards.h"

/* What tells that a GPU may be here, on a machine of the test's own. */
static void begin(void)
{
	cards_begin();
	machine_put("/dev/nvidiactl", "");
}

/* ---- the default ---- */

/* The start of vendors' libraries is spared where there can be no GPU. */
START_TEST(nobody_is_asked_without_a_gpu)
{
	fake_add(&fake_cuda, "cuda", KILN_KIND_DISCRETE, "02:00.0", "");
	expect_default("cpu:0");
	machine_put("/dev/dxg", "");
	expect_default("cuda:0");
}
END_TEST

/* A card without a node: its driver may still be loaded. */
START_TEST(a_card_is_reason_to_ask)
{
	machine_add("two");
	fake_add(&fake_cuda, "cuda", KILN_KIND_DISCRETE, "02:00.0", "");
	expect_default("cuda:0");
}
END_TEST

START_TEST(p19_never_software_by_default)
{
	struct kiln_device *device = NULL;

	fake_add(&fake_vulkan, "llvmpipe", KILN_KIND_CPU, "", "");
	expect_default("cpu:0");
	FAILS(kiln_device_open(&device, "vulkan"), KILN_ERR_NO_DEVICE,
	      "vulkan:cpu");
	FAILS(kiln_device_open(&device, "vulkan:discrete:0"),
	      KILN_ERR_NO_DEVICE, "vulkan:discrete:0");
	FAILS(kiln_device_open(&device, "cuda"), KILN_ERR_NO_DEVICE, "cuda");
	expect_identity("vulkan:cpu", "", "");
	setenv("KILN_DEVICE", "vulkan:cpu", 1);
	expect_default("vulkan:cpu:0");
}
END_TEST

START_TEST(default_prefers_the_best)
{
	fake_add(&fake_vulkan, "in software", KILN_KIND_CPU, "", "");
	fake_add(&fake_vulkan, "virtual", KILN_KIND_VIRTUAL, "", "");
	expect_default("vulkan:virtual:0");
	fake_add(&fake_vulkan, "small", KILN_KIND_INTEGRATED, "00:02.0", "");
	expect_default("vulkan:integrated:0");
	fake_add(&fake_vulkan, "refused", KILN_KIND_DISCRETE, "01:00.0", "");
	fake_add(&fake_vulkan, "large", KILN_KIND_DISCRETE, "02:00.0", "");
	strcpy(fake_vulkan.device[3].refused, "lacks 16-bit storage");
	expect_default("vulkan:discrete:1");
	fake_add(&fake_cuda, "cuda", KILN_KIND_DISCRETE, "02:00.0", "");
	expect_default("cuda:0");
}
END_TEST

START_TEST(refused_devices_say_why)
{
	struct kiln_device_info infos[1];
	struct kiln_device *device = NULL;
	size_t count = 1;

	fake_add(&fake_vulkan, "Old", KILN_KIND_DISCRETE, "01:00.0", "");
	strcpy(fake_vulkan.device[0].refused,
	       "Old lacks: bufferDeviceAddress, shaderInt64");
	infos[0].struct_size = sizeof(infos[0]);
	OK(kiln_device_enumerate(KILN_DEVICE_VULKAN, infos, &count));
	ck_assert_uint_eq(count, 1);
	ck_assert_str_eq(infos[0].selector, "vulkan:discrete:0");
	ck_assert_str_eq(infos[0].pci, "0000:01:00.0");
	ck_assert_int_eq(infos[0].kind, KILN_KIND_DISCRETE);
	ck_assert_str_eq(infos[0].refused, fake_vulkan.device[0].refused);
	FAILS(kiln_device_open(&device, "vulkan:discrete"),
	      KILN_ERR_UNSUPPORTED, "shaderInt64");
	FAILS(kiln_device_open(&device, "vulkan"), KILN_ERR_UNSUPPORTED,
	      "shaderInt64");
	FAILS(kiln_device_open(&device, "pci:01:00.0"), KILN_ERR_UNSUPPORTED,
	      "shaderInt64");
	expect_default("cpu:0");
}
END_TEST

/* ---- identity ---- */

START_TEST(identities)
{
	struct kiln_identity cpu = { .struct_size = sizeof(cpu) };
	struct kiln_identity cuda = cpu, vulkan = cpu, other = cpu;
	struct kiln_device *device;

	add_two(true);
	fake_add(&fake_vulkan, "Card", KILN_KIND_DISCRETE, "82:00.0", "");
	fake_add(&fake_vulkan, "Alone", KILN_KIND_DISCRETE, "", "");
	device = open_device("cpu");
	OK(kiln_device_identity(device, &cpu));
	ck_assert_uint_eq(cpu.type_id, 0);
	ck_assert_uint_eq(cpu.index_id, 0);
	ck_assert_str_eq(cpu.pci, "");
	ck_assert_int_eq(cpu.kind, KILN_KIND_CPU);
	cuda.struct_size = 3;
	FAILS(kiln_device_identity(device, &cuda), KILN_ERR_INVALID, "size");
	FAILS(kiln_device_identity(device, NULL), KILN_ERR_INVALID, "NULL");
	FAILS(kiln_device_identity(NULL, &cuda), KILN_ERR_INVALID, "device");
	cuda.struct_size = sizeof(cuda);
	kiln_device_release(device);
	device = open_device("cuda:0");
	OK(kiln_device_identity(device, &cuda));
	kiln_device_release(device);
	device = open_device("vulkan:discrete:0");
	OK(kiln_device_identity(device, &vulkan));
	kiln_device_release(device);
	device = open_device("vulkan:discrete:1");
	OK(kiln_device_identity(device, &other));
	kiln_device_release(device);
	ck_assert(kiln_identity_same_card(&cuda, &vulkan));
	ck_assert(kiln_identity_same_card(&cpu, &cpu));
	ck_assert(kiln_identity_same_card(&other, &other));
	ck_assert(!kiln_identity_same_card(&cuda, &other));
	ck_assert(!kiln_identity_same_card(&cpu, &other));
	ck_assert(!kiln_identity_same_card(&cpu, NULL));
	ck_assert_str_eq(kiln_device_kind_name(KILN_KIND_INTEGRATED),
			 "integrated");
	ck_assert_str_eq(kiln_device_kind_name((enum kiln_device_kind)99),
			 "other");
}
END_TEST

/* ---- selectors ---- */

static const struct {
	const char *selector, *part;
} malformed[] = {
	{ "", "\"\" is no device selector" },
	{ "gpu", "\"gpu\" is no device selector" },
	{ "CPU", "\"CPU\" is no device selector" },
	{ "auto:0", "\"auto\" is no device selector" },
	{ "cpu:", "\"\" is no number" },
	{ "cuda:x", "\"x\" is no number" },
	{ "cuda:-1", "\"-1\" is no number" },
	{ "cuda:1:2", "\"1:2\" is no number" },
	{ "cuda:1234567", "\"1234567\" is no number" },
	{ "vulkan:0", "\"0\" is no kind" },
	{ "vulkan:", "\"\" is no kind" },
	{ "vulkan:discrite:0", "\"discrite\" is no kind" },
	{ "vulkan:discrete:", "\"\" is no number" },
	{ "vulkan:discrete:one", "\"one\" is no number" },
	{ "pci:", "\"\" is no address" },
	{ "pci:0000:82:00", "\"0000:82:00\" is no address" },
	{ "pci:0000:82:00.0 ", "\"0000:82:00.0 \" is no address" },
	{ "pci", "\"pci\" is no device selector" },
	{ "uuid:", "\"\" is no beginning" },
	{ "uuid:GPU-", "\"GPU-\" is no beginning" },
	{ "uuid", "\"uuid\" is no device selector" },
	{ " cpu", "\" cpu\" is no device selector" },
};

START_TEST(malformed_selectors)
{
	struct kiln_device *device = NULL;

	add_two(true);
	FAILS(kiln_device_open(&device, malformed[_i].selector),
	      KILN_ERR_SELECTOR, malformed[_i].part);
	/* The same whatever the build has. */
	kilni_test_drivers(NULL);
	FAILS(kiln_device_open(&device, malformed[_i].selector),
	      KILN_ERR_SELECTOR, malformed[_i].part);
	ck_assert_ptr_null(device);
}
END_TEST

/* What a selector opens, by the selector that the device then has. */
static const struct {
	const char *selector, *opened;
} good[] = {
	{ "auto", "cuda:0" },
	{ "cpu", "cpu:0" },
	{ "cpu:0", "cpu:0" },
	{ "null", "null:0" },
	{ "cuda", "cuda:0" },
	{ "cuda:1", "cuda:1" },
	{ "cuda:001", "cuda:1" },
	{ "vulkan", "vulkan:discrete:0" },
	{ "vulkan:discrete", "vulkan:discrete:0" },
	{ "vulkan:discrete:1", "vulkan:discrete:1" },
	{ "vulkan:integrated:0", "vulkan:integrated:0" },
	{ "vulkan:virtual:0", "vulkan:virtual:0" },
	{ "vulkan:other:0", "vulkan:other:0" },
	{ "vulkan:cpu", "vulkan:cpu:0" },
	{ "vulkan:cpu:0", "vulkan:cpu:0" },
	{ "pci:0000:82:00.0", "cuda:0" },
	{ "pci:00000000:82:00.0", "cuda:0" },
	{ "pci:03:00.0", "cuda:1" },
	{ "pci:0000:41:00.0", "vulkan:discrete:1" },
	{ "uuid:" FAST, "cuda:0" },
	{ "uuid:GPU-b", "cuda:1" },
	{ "uuid:aaaa", "cuda:0" },
	{ "uuid:41414141", "vulkan:discrete:1" },
};

START_TEST(selectors)
{
	struct kiln_device *device, *same;

	add_two(true);
	fake_add(&fake_vulkan, "s", KILN_KIND_CPU, "", "");
	fake_add(&fake_vulkan, "v", KILN_KIND_VIRTUAL, "", "");
	fake_add(&fake_vulkan, "i", KILN_KIND_INTEGRATED, "00:02.0", "");
	fake_add(&fake_vulkan, "d", KILN_KIND_DISCRETE, "82:00.0",
		 "aaaaaaaa-0000-0000-0000-000000000082");
	fake_add(&fake_vulkan, "o", KILN_KIND_OTHER, "", "");
	fake_add(&fake_vulkan, "e", KILN_KIND_DISCRETE, "41:00.0",
		 "41414141-0000-0000-0000-000000000082");
	device = open_device(good[_i].selector);
	ck_assert_str_eq(kiln_device_selector(device), good[_i].opened);
	same = open_device(kiln_device_selector(device));
	ck_assert_ptr_eq(same, device);
	kiln_device_release(same);
	kiln_device_release(device);
}
END_TEST

START_TEST(devices_that_are_not_there)
{
	static const char *const absent[] = {
		"cuda:2",	   "vulkan",	   "vulkan:integrated:0",
		"vulkan:cpu",	   "cpu:1",	   "pci:0000:99:00.0",
		"uuid:GPU-ffffff", "uuid:MIG-aaaa",
	};
	struct kiln_device *device = NULL;

	add_two(true);
	FAILS(kiln_device_open(&device, absent[_i]), KILN_ERR_NO_DEVICE,
	      absent[_i]);
	setenv("KILN_DEVICE", absent[_i], 1);
	FAILS(kiln_device_open(&device, NULL), KILN_ERR_NO_DEVICE,
	      absent[_i]);
	FAILS(kiln_device_open(&device, NULL), KILN_ERR_NO_DEVICE,
	      "KILN_DEVICE: ");
	setenv("KILN_DEVICE", "cuda:x", 1);
	FAILS(kiln_device_open(&device, NULL), KILN_ERR_SELECTOR, "\"x\"");
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof(table[0]))

int main(void)
{
	Suite *suite = suite_create("selectors");
	TCase *tcase = tcase_create("devices"), *bare = tcase_create("bare");

	tcase_add_checked_fixture(bare, cards_begin, machine_end);
	tcase_add_test(bare, nobody_is_asked_without_a_gpu);
	tcase_add_test(bare, a_card_is_reason_to_ask);
	suite_add_tcase(suite, bare);
	tcase_add_checked_fixture(tcase, begin, machine_end);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, p19_never_software_by_default);
	tcase_add_test(tcase, default_prefers_the_best);
	tcase_add_test(tcase, refused_devices_say_why);
	tcase_add_test(tcase, identities);
	tcase_add_loop_test(tcase, malformed_selectors, 0, ROWS(malformed));
	tcase_add_loop_test(tcase, selectors, 0, ROWS(good));
	tcase_add_loop_test(tcase, devices_that_are_not_there, 0, 8);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
