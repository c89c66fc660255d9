/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses on the PCI bus: every spelling, and everything that is none. */
#include "drivers/pci.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- spellings ---- */

static const struct {
	const char *spelling, *normal;
} good[] = {
	{ "0000:82:00.0", "0000:82:00.0" },      /* sysfs */
	{ "0000:3B:00.0", "0000:3b:00.0" },      /* CUDA */
	{ "00000000:3B:00.0", "0000:3b:00.0" },  /* NVML */
	{ "pci:0000:01:00.0", "0000:01:00.0" },  /* libdrm */
	{ "PCI 01:00.0", "0000:01:00.0" },       /* hwloc */
	{ "PCI:0002:01:00.0", "0002:01:00.0" },  /* hwloc */
	{ "pci-0000:c1:00.0", "0000:c1:00.0" },  /* udev */
	{ "10000:e1:00.0", "10000:e1:00.0" },    /* a domain beyond 16 bits */
	{ "82:00.0", "0000:82:00.0" },           /* lspci */
	{ "2:1f.7", "0000:02:1f.7" },
	{ "0:0:0.0", "0000:00:00.0" },
	{ "ffffffff:ff:1f.7", "ffffffff:ff:1f.7" },
	{ "0000:03:00.1", "0000:03:00.1" },      /* P18: the function is kept */
};

START_TEST(p18_spellings)
{
	struct kilni_pci pci;
	char text[KILNI_PCI_BYTES];

	ck_assert(kilni_pci_parse(good[_i].spelling, &pci));
	kilni_pci_print(&pci, text);
	ck_assert_str_eq(text, good[_i].normal);
}
END_TEST

static const char *const bad[] = {
	"",
	"pci",
	"pci:",
	"pci:pci:0000:01:00.0",
	"PCI:1:0:0",
	"0000:82:00",
	"0000:82:00.",
	"0000:82:00.8",
	"0000:82:00.00",
	"0000:82:20.0",
	"0000:100:00.0",
	"000082:00.0",
	"123456789:00:00.0",
	"0000:82:000.0",
	"0000::00.0",
	":82:00.0",
	"0000:82:00.0 ",
	" 0000:82:00.0",
	"0000:82:00.0\n",
	"0000:8g:00.0",
	"0x0:82:00.0",
	"-1:82:00.0",
	"+0:82:00.0",
	"0000-82-00.0",
	"\xff",
	"0000:82:00.\xb2",
};

START_TEST(not_an_address)
{
	struct kilni_pci pci = { 7, 7, 7, 7 };

	ck_assert_msg(!kilni_pci_parse(bad[_i], &pci), "%s", bad[_i]);
	ck_assert_uint_eq(pci.domain, 7);
	ck_assert_uint_eq(pci.bus, 7);
}
END_TEST

START_TEST(null_is_none)
{
	struct kilni_pci pci;

	ck_assert(!kilni_pci_parse(NULL, &pci));
}
END_TEST

START_TEST(ordered)
{
	static const char *const rising[] = {
		"0000:03:00.0", "0000:03:00.1", "0000:03:01.0",
		"0000:82:00.0", "0001:00:00.0", "10000:00:00.0",
	};
	struct kilni_pci a, b;

	for (size_t i = 0; i < 6; i++)
		for (size_t j = 0; j < 6; j++) {
			ck_assert(kilni_pci_parse(rising[i], &a));
			ck_assert(kilni_pci_parse(rising[j], &b));
			ck_assert_int_eq(kilni_pci_compare(&a, &b),
					 (i > j) - (i < j));
		}
}
END_TEST

/* ---- fuzz ---- */

static unsigned seed;

/* In a block of its very size, so that a sanitizer sees a read beyond it. */
static bool parse_exactly(const char *text, struct kilni_pci *pci)
{
	size_t bytes = strlen(text) + 1;
	char *copy = malloc(bytes);
	bool read;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text, bytes);
	read = kilni_pci_parse(copy, pci);
	free(copy);
	return read;
}

/* What is taken prints to what is taken again, as the same address. */
static void check_stable(const char *text)
{
	struct kilni_pci pci, again;
	char printed[KILNI_PCI_BYTES], twice[KILNI_PCI_BYTES];

	if (!parse_exactly(text, &pci))
		return;
	ck_assert_uint_le(pci.device, 0x1f);
	ck_assert_uint_le(pci.function, 7);
	kilni_pci_print(&pci, printed);
	ck_assert_msg(kilni_pci_parse(printed, &again), "seed %u: %s", seed,
		      text);
	ck_assert_int_eq(kilni_pci_compare(&pci, &again), 0);
	kilni_pci_print(&again, twice);
	ck_assert_str_eq(printed, twice);
}

static char any_byte(void)
{
	static const char likely[] = "0123456789abcdefABCDEF:.:.-pciPCI ";

	if (rand() % 8)
		return likely[(size_t)rand() % (sizeof(likely) - 1)];
	return (char)(1 + rand() % 255);
}

START_TEST(random_strings)
{
	char text[32];

	for (int n = 0; n < 300000; n++) {
		size_t length = (size_t)rand() % (sizeof(text) - 1);

		for (size_t i = 0; i < length; i++)
			text[i] = any_byte();
		text[length] = '\0';
		check_stable(text);
	}
}
END_TEST

/* Replaces, drops or doubles a byte of a good spelling, a few times. */
START_TEST(mutated_strings)
{
	const size_t rows = sizeof(good) / sizeof(good[0]);
	char text[64];

	for (int n = 0; n < 300000; n++) {
		snprintf(text, sizeof(text), "%s",
			 good[(size_t)rand() % rows].spelling);
		for (int times = rand() % 4; times > 0 && *text; times--) {
			size_t length = strlen(text);
			size_t at = (size_t)rand() % length;

			if (rand() % 3 == 0)
				text[at] = any_byte();
			else if (rand() % 2)
				memmove(text + at, text + at + 1, length - at);
			else if (length + 2 < sizeof(text))
				memmove(text + at + 1, text + at,
					length - at + 1);
		}
		check_stable(text);
	}
}
END_TEST

/* Each address that there can be comes back from its text. */
START_TEST(every_address)
{
	static const uint32_t domains[] = { 0, 1, 0xffff, 0x10000, UINT32_MAX };

	for (size_t d = 0; d < 5; d++)
		for (unsigned n = 0; n < 0x10000; n++) {
			struct kilni_pci pci = { domains[d],
						 (uint8_t)(n >> 8),
						 (uint8_t)(n >> 3 & 0x1f),
						 (uint8_t)(n & 7) };
			struct kilni_pci again;
			char text[KILNI_PCI_BYTES];

			kilni_pci_print(&pci, text);
			ck_assert(kilni_pci_parse(text, &again));
			ck_assert_int_eq(kilni_pci_compare(&pci, &again), 0);
		}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pci");
	TCase *spellings = tcase_create("spellings");
	TCase *fuzz = tcase_create("fuzz");
	SRunner *runner;
	int failed;

	seed = (unsigned)time(NULL);
	printf("seed %u\n", seed);
	srand(seed);
	tcase_add_loop_test(spellings, p18_spellings, 0,
			    sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(spellings, not_an_address, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(spellings, null_is_none);
	tcase_add_test(spellings, ordered);
	suite_add_tcase(suite, spellings);
	tcase_set_timeout(fuzz, 120);
	tcase_add_test(fuzz, random_strings);
	tcase_add_test(fuzz, mutated_strings);
	tcase_add_test(fuzz, every_address);
	suite_add_tcase(suite, fuzz);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
