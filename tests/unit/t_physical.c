/* SPDX-License-Identifier: Apache-2.0 */
/* Cards: each once, known by its address, with every way to it. */
#include "tests/unit/cards.h"
#include "tests/unit/sanitized.h"

#include <fcntl.h>
#include <grp.h>
#include <hwloc.h>
#include <sys/wait.h>

/* ---- listings ---- */

static struct kiln_physical *survey(void)
{
	struct kiln_physical *listing = NULL;

	OK(kiln_physical_survey(&listing));
	return listing;
}

static struct kiln_physical *list(void)
{
	struct kiln_physical *listing = NULL;

	OK(kiln_physical_list(&listing));
	return listing;
}

/* The card of an address; NULL for one that is not in the listing. */
static const struct kiln_card *card_at(const struct kiln_physical *listing,
				       const char *pci)
{
	for (size_t i = 0; i < kiln_physical_count(listing); i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		if (card->pci && !strcmp(card->pci, pci))
			return card;
	}
	return NULL;
}

static const char *absence_of(const struct kiln_card *card,
			      enum kiln_device_type type)
{
	for (size_t i = 0; i < card->absence_count; i++)
		if (card->absences[i].type == type)
			return card->absences[i].reason;
	return NULL;
}

static const struct kiln_card *only(const struct kiln_physical *listing)
{
	ck_assert_uint_eq(kiln_physical_count(listing), 2); /* and the CPU */
	ck_assert_int_eq(kiln_physical_card(listing, 1)->kind, KILN_KIND_CPU);
	return kiln_physical_card(listing, 0);
}

/* ---- the kernel's files ---- */

START_TEST(cards_of_the_kernel)
{
	struct kiln_physical *listing;
	const struct kiln_card *card;

	machine_add("two");
	listing = list();
	ck_assert_uint_eq(kiln_physical_count(listing), 3);
	card = kiln_physical_card(listing, 0);
	ck_assert_str_eq(card->pci, "0000:02:00.0");
	ck_assert_str_eq(card->name, "PCI card 1a03:2000");
	ck_assert_str_eq(card->unusable, "its kernel driver ast offers no "
					 "node to compute with");
	ck_assert(!card->no_permission);
	card = kiln_physical_card(listing, 1);
	ck_assert_str_eq(card->pci, "0000:03:00.0");
	ck_assert_str_eq(card->name, "Slow Card");
	ck_assert_str_eq(card->uuid, SLOW);
	ck_assert_str_eq(card->kernel_driver, "nvidia");
	ck_assert_str_eq(card->node, "/dev/nvidia0");
	ck_assert_str_eq(card->cpus, "0-3");
	ck_assert_str_eq(card->link, "16.0 GT/s PCIe x16");
	ck_assert_int_eq(card->numa_node, 0);
	ck_assert_ptr_null(card->unusable);
	ck_assert_uint_eq(card->vendor_id, 0x10de);
	ck_assert_uint_eq(card->device_count, 0);
	card = kiln_physical_card(listing, 2);
	ck_assert_str_eq(card->pci, "0000:82:00.0");
	ck_assert_int_eq(card->numa_node, 1);
	ck_assert_ptr_null(kiln_physical_card(listing, 3));
	kiln_physical_release(listing);
}
END_TEST

START_TEST(names_and_memory_without_a_vendor)
{
	struct kiln_physical *listing;
	const struct kiln_card *card;

	machine_add("amd");
	listing = list();
	ck_assert_uint_eq(kiln_physical_count(listing), 2);
	card = kiln_physical_card(listing, 0);
	ck_assert_str_eq(card->pci, "0000:c1:00.0");
	ck_assert_str_eq(card->name, "Advanced Micro Devices, Inc. Navi 21 "
				     "[Radeon RX 6950 XT]");
	ck_assert_uint_eq(card->memory_bytes, 17163091968u);
	ck_assert_str_eq(card->node, "/dev/dri/renderD129");
	/* -1 in the file, but there is one node. */
	ck_assert_int_eq(card->numa_node, 0);
	/* P18: the function is kept, and so is a domain of 5 digits. */
	card = kiln_physical_card(listing, 1);
	ck_assert_str_eq(card->pci, "10000:e1:00.3");
	ck_assert_str_eq(card->unusable, "no kernel driver is bound to it");
	kiln_physical_release(listing);
}
END_TEST

START_TEST(a_recorded_machine)
{
	struct kiln_physical *listing;
	const struct kiln_card *card;

	machine_add("h200");
	listing = list();
	ck_assert_uint_eq(kiln_physical_count(listing), 1);
	card = kiln_physical_card(listing, 0);
	ck_assert_str_eq(card->pci, "0000:00:06.0");
	ck_assert_str_eq(card->name, "NVIDIA H200");
	ck_assert_str_eq(card->uuid,
			 "GPU-e0355984-43c8-1862-170c-6203c140e873");
	ck_assert_str_eq(card->cpus, "0-15");
	ck_assert_str_eq(card->link, "32.0 GT/s PCIe x16");
	ck_assert_str_eq(card->node, "/dev/nvidia0");
	ck_assert_int_eq(card->numa_node, -1);
	ck_assert_ptr_null(card->unusable);
	kiln_physical_release(listing);
}
END_TEST

/*
 * hwloc reads the same files; it finds the same cards, but for those in a
 * domain beyond 16 bits.
 */
START_TEST(hwloc_agrees)
{
	static const char *const trees[] = { "two", "four", "amd", "h200" };
	struct kiln_physical *listing;
	hwloc_topology_t topology;
	hwloc_obj_t object = NULL;
	size_t found = 0;

	machine_add(trees[_i]);
	setenv("HWLOC_FSROOT", machine_root, 1);
	setenv("HWLOC_HIDE_ERRORS", "2", 1);
	setenv("HWLOC_COMPONENTS", "-x86,-pci,-opencl,-gl,-cuda,-nvml", 1);
	ck_assert(!hwloc_topology_init(&topology));
	ck_assert(!hwloc_topology_set_io_types_filter(
		topology, HWLOC_TYPE_FILTER_KEEP_ALL));
	ck_assert(!hwloc_topology_load(topology));
	listing = list();
	while ((object = hwloc_get_next_pcidev(topology, object))) {
		const struct hwloc_pcidev_attr_s *its = &object->attr->pcidev;
		const struct kiln_card *card;
		char address[32];

		if (its->class_id >> 8 != 0x03 && its->class_id >> 8 != 0x12)
			continue;
		snprintf(address, sizeof(address), "%04x:%02x:%02x.%01x",
			 its->domain, its->bus, its->dev, its->func);
		card = card_at(listing, address);
		ck_assert_msg(card != NULL, "%s", address);
		ck_assert_uint_eq(card->vendor_id, its->vendor_id);
		ck_assert_uint_eq(card->device_id, its->device_id);
		found++;
	}
	for (size_t i = 0; i < kiln_physical_count(listing); i++)
		found += strlen(kiln_physical_card(listing, i)->pci) > 12;
	ck_assert_uint_eq(found, kiln_physical_count(listing));
	kiln_physical_release(listing);
	hwloc_topology_destroy(topology);
}
END_TEST

START_TEST(machine_without_pci)
{
	struct kiln_physical *listing = list();

	ck_assert_uint_eq(kiln_physical_count(listing), 0);
	kiln_physical_release(listing);
	listing = survey();
	ck_assert_uint_eq(kiln_physical_count(listing), 1);
	kiln_physical_release(listing);
	kiln_physical_release(NULL);
	FAILS(kiln_physical_list(NULL), KILN_ERR_INVALID, "out");
	FAILS(kiln_physical_survey(NULL), KILN_ERR_INVALID, "out");
}
END_TEST

/* Files that hold nonsense: a card with fewer facts, never a failure. */
START_TEST(odd_files)
{
	static const char *const values[] = { "", "garbage", "-5", "0x",
					      "99999999999999999999" };
	static const char *const names[] = { "vendor", "device", "numa_node",
					     "local_cpulist",
					     "max_link_speed",
					     "mem_info_vram_total" };
	struct kiln_physical *listing;

	machine_put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030000");
	for (size_t i = 0; i < 6; i++) {
		char path[128];

		snprintf(path, sizeof(path),
			 "/sys/bus/pci/devices/0000:01:00.0/%s", names[i]);
		machine_put(path, values[(size_t)_i]);
	}
	machine_put("/sys/bus/pci/devices/nonsense/class", "0x030000");
	machine_put("/sys/bus/pci/devices/0000:02:00.0/class",
		    values[(size_t)_i]);
	listing = list();
	ck_assert_uint_eq(kiln_physical_count(listing), 1);
	ck_assert_int_eq(kiln_physical_card(listing, 0)->numa_node, -1);
	kiln_physical_release(listing);
}
END_TEST

/* ---- order ---- */

START_TEST(p16_order_is_by_address)
{
	static const char *const orders[] = { NULL, "PCI_BUS_ID",
					      "FASTEST_FIRST" };
	bool fast_first = _i != 1;
	struct kiln_physical *listing;
	const struct kiln_card *card;

	machine_add("two");
	add_two(fast_first);
	if (orders[_i])
		setenv("CUDA_DEVICE_ORDER", orders[_i], 1);
	listing = survey();
	ck_assert_uint_eq(kiln_physical_count(listing), 4);
	card = kiln_physical_card(listing, 1);
	ck_assert_str_eq(card->pci, "0000:03:00.0");
	ck_assert_uint_eq(card->device_count, 1);
	ck_assert_str_eq(card->devices[0].selector,
			 fast_first ? "cuda:1" : "cuda:0");
	ck_assert_uint_eq(card->devices[0].index, fast_first);
	ck_assert_str_eq(card->devices[0].uuid, SLOW);
	card = kiln_physical_card(listing, 2);
	ck_assert_str_eq(card->pci, "0000:82:00.0");
	ck_assert_str_eq(card->devices[0].selector,
			 fast_first ? "cuda:0" : "cuda:1");
	ck_assert_int_eq(card->numa_node, 1);
	kiln_physical_release(listing);
	expect_identity("pci:0000:03:00.0", "0000:03:00.0", SLOW);
	expect_identity("pci:82:00.0", "0000:82:00.0", FAST);
	expect_identity("cuda:0", fast_first ? "0000:82:00.0" : "0000:03:00.0",
			fast_first ? FAST : SLOW);
}
END_TEST

/* ---- CUDA_VISIBLE_DEVICES ---- */

/* The cards of four.tree that are hidden for certain, in order. */
static const struct {
	const char *visible, *order, *hidden;
} hidden_rows[] = {
	{ NULL, NULL, "" },
	{ "", NULL, "0123" },
	{ "-1", NULL, "0123" },
	{ "1,3", "PCI_BUS_ID", "02" },
	{ "1,3", NULL, "" },      /* CUDA's order is not known */
	{ "1,foo,2", "PCI_BUS_ID", "023" },
	{ "0,0", "FASTEST_FIRST", "0123" },
	{ "GPU-1f00a1b2", NULL, "023" },
	{ "GPU-8932f937", NULL, "0123" },
	{ "MIG-1", NULL, "" },
	{ NULL, "pci_bus_id", "0123" },
	{ "MIG-GPU-1f00a1b2-0000-0000-0000-00000000003b/1/0", NULL, "023" },
};

START_TEST(p17_hidden_without_a_library)
{
	struct kiln_physical *listing;
	char hidden[8] = "", *at = hidden;

	machine_add("four");
	if (hidden_rows[_i].visible)
		setenv("CUDA_VISIBLE_DEVICES", hidden_rows[_i].visible, 1);
	if (hidden_rows[_i].order)
		setenv("CUDA_DEVICE_ORDER", hidden_rows[_i].order, 1);
	listing = list();
	ck_assert_uint_eq(kiln_physical_count(listing), 4);
	for (size_t i = 0; i < 4; i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);
		const char *reason = absence_of(card, KILN_DEVICE_CUDA);

		if (!reason)
			continue;
		*at++ = (char)('0' + i);
		ck_assert_ptr_nonnull(
			strstr(reason, hidden_rows[_i].visible
					       ? hidden_rows[_i].visible
					       : hidden_rows[_i].order));
	}
	ck_assert_str_eq(hidden, hidden_rows[_i].hidden);
	kiln_physical_release(listing);
}
END_TEST

START_TEST(p17_slices)
{
	static const char first[] = "MIG-11111111-0000-0000-0000-000000000001";
	static const char second[] = "MIG-22222222-0000-0000-0000-000000000002";
	struct kiln_physical *listing;
	const struct kiln_card *card;
	struct kilni_hw_info *info;

	machine_add("four");
	setenv("CUDA_VISIBLE_DEVICES", first, 1);
	info = fake_add(&fake_cuda, "Card MIG 1g.10gb", KILN_KIND_DISCRETE,
			"0000:3B:00.0", first);
	info->slice = true;
	info->memory_bytes = (uint64_t)10 << 30;
	info = fake_add(&fake_cuda, "Card MIG 1g.10gb", KILN_KIND_DISCRETE,
			"0000:3B:00.0", second);
	info->slice = true;
	listing = survey();
	ck_assert_uint_eq(kiln_physical_count(listing), 5);
	card = card_at(listing, "0000:3b:00.0");
	ck_assert_uint_eq(card->device_count, 2);
	ck_assert(card->devices[0].slice);
	ck_assert_uint_eq(card->devices[0].memory_bytes, (uint64_t)10 << 30);
	ck_assert_str_eq(card->devices[0].uuid, first);
	ck_assert_str_eq(card->devices[1].uuid, second);
	/* Of the whole card neither the memory nor another name is known. */
	ck_assert_uint_eq(card->memory_bytes, 0);
	ck_assert_str_eq(card->name, "Card");
	ck_assert_str_eq(card->uuid,
			 "GPU-1f00a1b2-0000-0000-0000-00000000003b");
	card = card_at(listing, "0000:1a:00.0");
	ck_assert_ptr_nonnull(strstr(absence_of(card, KILN_DEVICE_CUDA),
				     "CUDA_VISIBLE_DEVICES is \"MIG-1"));
	kiln_physical_release(listing);
	expect_identity("uuid:MIG-2", "0000:3b:00.0", second);
	expect_identity("pci:0000:3b:00.0", "0000:3b:00.0", first);
}
END_TEST

/* ---- once, and never merged wrongly ---- */

START_TEST(p18_one_card_three_ways)
{
	struct kiln_physical *listing;
	const struct kiln_card *card;

	fake_add(&fake_cuda, "Card", KILN_KIND_DISCRETE, "0000:03:00.0", SLOW);
	fake_add(&fake_vulkan, "Card (a)", KILN_KIND_DISCRETE, "0000:03:00.0",
		 "bbbbbbbb-0000-0000-0000-000000000003");
	fake_add(&fake_vulkan, "Card (b)", KILN_KIND_DISCRETE, "0000:03:00.0",
		 "");
	listing = survey();
	card = only(listing);
	ck_assert_uint_eq(card->device_count, 3);
	ck_assert_str_eq(card->devices[0].selector, "cuda:0");
	ck_assert_str_eq(card->devices[1].selector, "vulkan:discrete:0");
	ck_assert_str_eq(card->devices[2].selector, "vulkan:discrete:1");
	/* Once, not three times. */
	ck_assert_uint_eq(card->memory_bytes, (uint64_t)16 << 30);
	kiln_physical_release(listing);
}
END_TEST

START_TEST(p18_twin_uuids)
{
	static const char *const addresses[] = { "0000:03:00.0",
						 "0000:03:00.1",
						 "0000:82:00.0",
						 "0001:03:00.0" };
	struct kiln_physical *listing;
	struct kiln_device *device = NULL;

	for (size_t i = 0; i < 4; i++)
		fake_add(&fake_cuda, "Twin", KILN_KIND_DISCRETE, addresses[i],
			 SLOW);
	listing = survey();
	ck_assert_uint_eq(kiln_physical_count(listing), 5);
	for (size_t i = 0; i < 4; i++)
		ck_assert_str_eq(kiln_physical_card(listing, i)->pci,
				 addresses[i]);
	kiln_physical_release(listing);
	FAILS(kiln_device_open(&device, "uuid:" SLOW), KILN_ERR_SELECTOR,
	      "more than one");
	expect_identity("pci:0000:03:00.1", "0000:03:00.1", SLOW);
}
END_TEST

START_TEST(p18_unknown_address_stands_alone)
{
	struct kiln_physical *listing;

	machine_add("two");
	add_two(true);
	fake_add(&fake_vulkan, "Card", KILN_KIND_DISCRETE, "", FAST);
	fake_add(&fake_vulkan, "Card", KILN_KIND_DISCRETE, "82:0.0.0", FAST);
	listing = survey();
	ck_assert_uint_eq(kiln_physical_count(listing), 6);
	ck_assert_uint_eq(card_at(listing, "0000:82:00.0")->device_count, 1);
	for (size_t i = 4; i < 6; i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		ck_assert_ptr_null(card->pci);
		ck_assert_uint_eq(card->device_count, 1);
		if (card->kind != KILN_KIND_CPU)
			ck_assert_str_eq(card->name, "Card");
	}
	kiln_physical_release(listing);
	expect_identity("vulkan:discrete:1", "", FAST);
}
END_TEST

/* ---- what keeps a card away ---- */

/* As somebody who may not open what is not everybody's. */
static int as_nobody(int (*body)(void))
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		if (!geteuid() && (setgroups(0, NULL) || setgid(65534) ||
				   setuid(65534)))
			_exit(77);
		_exit(body());
	}
	ck_assert(child > 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int closed_node(void)
{
	const char *expected = "present, no access: /dev/dri/renderD129, "
			       "group render";
	struct kiln_physical *listing;
	const struct kiln_card *card;
	struct kiln_device *device = NULL;

	if (kiln_physical_survey(&listing))
		return 1;
	card = kiln_physical_card(listing, 0);
	if (!card->unusable || strcmp(card->unusable, expected) ||
	    !card->no_permission ||
	    strcmp(absence_of(card, KILN_DEVICE_VULKAN), expected))
		return 2;
	kiln_physical_release(listing);
	/* One warning, not two. */
	for (int i = 0; i < 2; i++) {
		if (kiln_device_open(&device, NULL) ||
		    strcmp(kiln_device_selector(device), "cpu:0"))
			return 3;
		kiln_device_release(device);
		device = NULL;
	}
	if (kiln_device_open(&device, "pci:c1:00.0") != KILN_ERR_NO_DEVICE ||
	    !strstr(kiln_error_message(), expected))
		return 4;
	return 0;
}

/* The tree's file belongs to this group, which its list of groups names. */
static void name_own_group(void)
{
	char line[64];

	snprintf(line, sizeof(line), "render:x:%u:", (unsigned)getegid());
	machine_put("/etc/group", line);
}

START_TEST(p19_no_permission)
{
	char path[128], text[512];
	ssize_t length;
	int log, saved;

	name_own_group();
	machine_add("amd");
	machine_mode("/dev/dri/renderD129", 0);
	setenv("KILN_LOG", "warn", 1);
	snprintf(path, sizeof(path), "%s/log", machine_root);
	log = open(path, O_RDWR | O_CREAT, 0600);
	saved = dup(STDERR_FILENO);
	dup2(log, STDERR_FILENO);
	ck_assert_int_eq(as_nobody(closed_node), 0);
	dup2(saved, STDERR_FILENO);
	length = pread(log, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(length, 0);
	text[length] = 0;
	ck_assert_str_eq(text, "kiln warn: the CPU is used, not the card at "
			       "0000:c1:00.0: present, no access: "
			       "/dev/dri/renderD129, group render\n");
	close(log);
	close(saved);
}
END_TEST

START_TEST(a_card_that_works_is_not_closed)
{
	struct kiln_physical *listing;

	machine_add("two");
	machine_put("/sys/bus/pci/devices/0000:82:00.0/drm/renderD128/dev",
		    "226:128");
	add_two(true);
	listing = survey();
	ck_assert_ptr_null(card_at(listing, "0000:82:00.0")->unusable);
	kiln_physical_release(listing);
}
END_TEST

START_TEST(no_node_in_a_container)
{
	struct kiln_physical *listing;
	const struct kiln_card *card;
	char path[128];

	machine_add("two");
	snprintf(path, sizeof(path), "%s/dev/nvidia1", machine_root);
	ck_assert(!unlink(path));
	listing = survey();
	card = card_at(listing, "0000:82:00.0");
	ck_assert_str_eq(card->unusable, "present, no device node: "
					 "/dev/nvidia1: No such file or "
					 "directory");
	ck_assert(!card->no_permission);
	kiln_physical_release(listing);
}
END_TEST

START_TEST(p20_why_a_driver_is_absent)
{
	struct kiln_physical *listing;
	struct kiln_device *device = NULL;
	const struct kiln_card *card;

	machine_add("two");
	fake_cuda.absent = "driver 11.0 is too old, 12.0 is needed";
	fake_cuda.absent_status = KILN_ERR_DRIVER_TOO_OLD;
	fake_vulkan.absent = "libvulkan.so.1 is not here";
	listing = survey();
	card = card_at(listing, "0000:82:00.0");
	ck_assert_str_eq(absence_of(card, KILN_DEVICE_CUDA), fake_cuda.absent);
	ck_assert_str_eq(absence_of(card, KILN_DEVICE_VULKAN),
			 fake_vulkan.absent);
	/* CUDA is no matter of a card of somebody else. */
	card = card_at(listing, "0000:02:00.0");
	ck_assert_ptr_null(absence_of(card, KILN_DEVICE_CUDA));
	ck_assert_ptr_nonnull(absence_of(card, KILN_DEVICE_VULKAN));
	kiln_physical_release(listing);
	FAILS(kiln_device_open(&device, "cuda:0"), KILN_ERR_DRIVER_TOO_OLD,
	      "driver 11.0 is too old, 12.0 is needed");
	FAILS(kiln_device_open(&device, "vulkan"), KILN_ERR_NO_DEVICE,
	      "libvulkan.so.1 is not here");
	FAILS(kiln_device_open(&device, "pci:0000:82:00.0"),
	      KILN_ERR_NO_DEVICE, "no driver shows the card");
	FAILS(kiln_device_open(&device, "pci:0000:83:00.0"),
	      KILN_ERR_NO_DEVICE, "there is no card");
	expect_default("cpu:0");
}
END_TEST

/* ---- texts of drivers ---- */

START_TEST(p43_names_are_utf8)
{
	struct kiln_physical *listing;
	char lone[2] = "\xff";

	fake_add(&fake_cuda, "a\"b\n\x01\xc3\xa9", KILN_KIND_DISCRETE,
		 "01:00.0", lone);
	memset(fake_add(&fake_cuda, "", KILN_KIND_DISCRETE, "02:00.0", "")
		       ->name,
	       'x', sizeof(fake_cuda.device[1].name) - 1);
	fake_cuda.device[1].name[126] = '\xc3'; /* cut in a character */
	listing = survey();
	ck_assert_str_eq(kiln_physical_card(listing, 0)->name,
			 "a\"b\n\x01\xc3\xa9");
	ck_assert_str_eq(kiln_physical_card(listing, 0)->uuid,
			 "\xef\xbf\xbd");
	ck_assert_str_eq(kiln_physical_card(listing, 1)->name + 126,
			 "\xef\xbf\xbd");
	kiln_physical_release(listing);
}
END_TEST

static const struct {
	const char *from, *to;
} utf8_rows[] = {
	{ "", "" },
	{ "abc", "abc" },
	{ "\xff", "\xef\xbf\xbd" },
	{ "\xc3\xa9", "\xc3\xa9" },
	{ "\xc3", "\xef\xbf\xbd" },
	{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },         /* too long */
	{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	{ "\xe2\x82\xac", "\xe2\x82\xac" },
	{ "\xf0\x9f\x94\xa5!", "\xf0\x9f\x94\xa5!" },
	{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			      "\xef\xbf\xbd" },            /* beyond the last */
	{ "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd" },
};

START_TEST(utf8)
{
	char text[32];

	kilni_utf8_copy(text, sizeof(text), utf8_rows[_i].from);
	ck_assert_str_eq(text, utf8_rows[_i].to);
	/* Whole characters, whatever the room. */
	for (size_t size = 1; size < sizeof(text); size++) {
		char part[32], again[64];

		kilni_utf8_copy(part, size, utf8_rows[_i].from);
		ck_assert_uint_lt(strlen(part), size);
		kilni_utf8_copy(again, sizeof(again), part);
		ck_assert_str_eq(part, again);
	}
}
END_TEST

/* ---- contexts and processes ---- */

/* Opens cuda:RANK as a rank does, before it knows of the others. */
static void be_rank(unsigned rank)
{
	char selector[16];
	struct kiln_physical *listing = survey();
	struct kiln_device *device;
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	kiln_physical_release(listing);
	snprintf(selector, sizeof(selector), "cuda:%u", rank);
	device = open_device(selector);
	OK(kiln_zeros(&x, device, KILN_F32, 1, SHAPE(1000)));
	OK(kiln_device_sync(device));
	kiln_tensor_release(x);
	kiln_device_release(device);
}

START_TEST(p44_one_context_per_rank)
{
	struct kiln_device_info infos[FAKE_MOST];
	size_t count = FAKE_MOST;

	machine_add("four");
	for (int i = 0; i < 4; i++) {
		char pci[16];

		snprintf(pci, sizeof(pci), "%02x:00.0", 0x1a + i);
		fake_add(&fake_cuda, "Card", KILN_KIND_DISCRETE, pci, "");
	}
	for (size_t i = 0; i < count; i++)
		infos[i].struct_size = sizeof(infos[i]);
	OK(kiln_device_enumerate(KILN_DEVICE_ANY, infos, &count));
	kiln_physical_release(survey());
	ck_assert_uint_eq(fake_contexts(&fake_cuda), 0);
	for (unsigned rank = 0; rank < 4; rank++) {
		int status;
		pid_t child = fork();

		if (!child) {
			be_rank(rank);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_int_eq(status, 0);
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(fake_cuda.contexts[i], 1);
	ck_assert_uint_eq(fake_contexts(&fake_cuda), 4);
}
END_TEST

/* No library of a vendor has come into the process. */
static bool is_clean(void)
{
	char line[512];
	bool clean = true;
	FILE *maps = fopen("/proc/self/maps", "r");

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "libcuda") || strstr(line, "libvulkan") ||
		    strstr(line, "libnvidia"))
			clean = false;
	fclose(maps);
	return clean;
}

START_TEST(fork_after_a_list)
{
	int status;
	pid_t child;

	kilni_test_drivers(NULL);
	machine_add("two");
	kiln_physical_release(list());
	ck_assert(is_clean());
	child = fork();
	if (!child) {
		struct kiln_device *device = open_device("cpu");
		struct kiln_tensor *x = FLOATS(device, 1, 2, 3);

		EXPECT_FLOATS(x, 1, 2, 3);
		kiln_tensor_release(x);
		kiln_device_release(device);
		kiln_physical_release(list());
		kiln_physical_release(survey());
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof(table[0]))

int main(void)
{
	Suite *suite = suite_create("physical");
	TCase *tcase = tcase_create("cards");

	tcase_add_checked_fixture(tcase, cards_begin, machine_end);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, cards_of_the_kernel);
	tcase_add_test(tcase, names_and_memory_without_a_vendor);
	tcase_add_test(tcase, a_recorded_machine);
	tcase_add_loop_test(tcase, hwloc_agrees, 0, 4);
	tcase_add_test(tcase, machine_without_pci);
	tcase_add_loop_test(tcase, odd_files, 0, 5);
	tcase_add_loop_test(tcase, p16_order_is_by_address, 0, 3);
	tcase_add_loop_test(tcase, p17_hidden_without_a_library, 0,
			    ROWS(hidden_rows));
	tcase_add_test(tcase, p17_slices);
	tcase_add_test(tcase, p18_one_card_three_ways);
	tcase_add_test(tcase, p18_twin_uuids);
	tcase_add_test(tcase, p18_unknown_address_stands_alone);
	tcase_add_test(tcase, a_card_that_works_is_not_closed);
	tcase_add_test(tcase, no_node_in_a_container);
	tcase_add_test(tcase, p20_why_a_driver_is_absent);
	tcase_add_test(tcase, p43_names_are_utf8);
	tcase_add_loop_test(tcase, utf8, 0, ROWS(utf8_rows));
	if (!SANITIZED) {
		tcase_add_test(tcase, p19_no_permission);
		tcase_add_test(tcase, p44_one_context_per_rank);
		tcase_add_test(tcase, fork_after_a_list);
	}
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
