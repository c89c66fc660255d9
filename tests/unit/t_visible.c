/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA_VISIBLE_DEVICES: which of four cards it leaves, and in which order. */
#include "drivers/probe.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define A "GPU-8932f937-0000-0000-0000-00000000001a"
#define B "GPU-1f00a1b2-0000-0000-0000-00000000003b"
#define C "GPU-8932f937-0000-0000-0000-00000000009c"
#define D "GPU-c0ffee00-0000-0000-0000-0000000000d0"

/* In CUDA's order; the UUIDs of 0 and 2 begin alike. */
static const char *const uuids[4] = { A, B, C, D };

/*
 * As text: "13" is card 1, then card 3; S what only CUDA knows. The forms have
 * been tried with CUDA's driver 580.159.04 on a machine with one card.
 */
static const struct {
	const char *value, *expected;
} rows[] = {
	{ NULL, "0123" },
	{ "", "" },
	/* numbers */
	{ "1,3", "13" },
	{ "3,1", "31" },
	{ "0,1,2,3", "0123" },
	{ "0,-1,1", "0" },
	{ "1,foo,2", "1" },
	{ "2,4,1", "2" },
	{ "-1", "" },
	{ "-1,0", "" },
	{ "foo", "" },
	{ "foo,0", "" },
	{ "4", "" },
	{ "0,0", "" },
	{ "0,1,0", "" },
	{ "0,1,2,3,0", "" },
	{ "0, 0", "" },
	{ "0,0x", "" },
	{ "0,-0", "" },
	{ "0,4294967296", "" },          /* card 0 again */
	{ "0,foo,0", "0" },
	{ "0,-1,0", "0" },
	{ "0,5,0", "0" },
	{ "0,,0", "0" },
	{ "1,", "1" },
	{ ",1", "" },
	{ ",", "" },
	{ " 2", "2" },
	{ "\t1", "1" },
	{ "\n1", "1" },
	{ "\v1", "1" },
	{ "\r1", "1" },
	{ "2 ,1", "21" },
	{ "1gpu,2", "12" },
	{ "0x1", "0" },
	{ "0;1", "0" },
	{ "0.5", "0" },
	{ "0-1", "0" },
	{ "0 0", "0" },
	{ "00", "0" },
	{ "02", "2" },
	{ "010", "" },
	{ "+1", "1" },
	{ "-0", "0" },
	{ "- 0", "" },
	{ "+-0", "" },
	{ "++0", "" },
	{ "+ 0", "" },
	{ "4294967296", "0" },
	{ "4294967295", "" },
	{ "2147483648", "" },
	{ "-4294967296", "0" },
	{ "-4294967297", "" },
	{ "99999999999", "" },
	{ "9223372036854775808", "0" },
	{ "18446744073709551616", "" },
	{ "NoDevFiles", "" },
	{ "none", "" },
	/* UUIDs */
	{ B, "1" },
	{ D "," A, "30" },
	{ "GPU-1f00a1b2", "1" },
	{ "GPU-c,GPU-1", "31" },
	{ "GPU-8932f937", "" },          /* two begin so */
	{ "GPU-8932f937-0000-0000-0000-00000000009", "2" },
	{ B ",GPU-8932f937," D, "1" },
	{ B "," B, "" },
	{ B ",GPU-1f00", "" },           /* the same card by two names */
	{ B ",MIG-1f00a1b2-0000-0000-0000-00000000003b", "" },
	{ B ",foo," B, "1" },
	{ B ",MIG-x", "1" },
	{ "GPU-deadbeef," B, "" },
	{ "foo," B, "" },
	{ B "x", "1" },
	{ B "1", "1" },
	{ B "/0/0", "1" },
	{ B " ", "1" },
	{ " " B, "" },
	{ "GPU-1f00zz", "" },
	{ "GPU-1f00 ", "" },
	{ "GPU-1f00x,foo", "" },
	{ "GPU-1f00-", "1" },
	{ "GPU-1f00a1b20", "1" },
	{ "GPU-1f00a1b2--0000", "1" },
	{ "GPU--1f00a1b2", "1" },
	{ "GPU- 1f00a1b2", "" },
	{ "GPU-1F00A1B2", "1" },
	{ "GPU-1f00a1b200000000000000000000003b", "1" },
	{ "gpu-1f00a1b2", "" },
	{ "c0ffee00-0000-0000-0000-0000000000d0", "" },
	{ "GPU-", "" },
	{ "GPU-x", "" },
	{ "GPU", "" },
	{ B ",0", "1" },                 /* numbers do not mix with UUIDs */
	{ "0," B, "0" },
	/* slices */
	{ "MIG-0bc7cb7a-0d4e-5f2a-9d8b-1c2d3e4f5a6b", "S" },
	{ "MIG-1f00a1b2-0000-0000-0000-00000000003b", "1" },
	{ "MIG-1,MIG-2", "SS" },
	{ "MIG-", "" },
	{ "MIG-x", "" },
	{ "MIG-x,0", "" },
	{ "MIG-" B, "" },
	{ "MIG-" B "/7/0", "1" },
	{ "MIG-GPU-deadbeef-0000-0000-0000-000000000000/0/0", "" },
};

static void print(char *text, const int *order, size_t count)
{
	for (size_t i = 0; i < count; i++)
		text[i] = order[i] < 0 ? 'S' : (char)('0' + order[i]);
	text[count] = '\0';
}

START_TEST(p17_table)
{
	int order[4];
	char text[5];

	print(text, order,
	      kilni_visible_cards(rows[_i].value, uuids, 4, order));
	ck_assert_msg(!strcmp(text, rows[_i].expected),
		      "\"%s\" gives \"%s\", not \"%s\"",
		      rows[_i].value ? rows[_i].value : "(unset)", text,
		      rows[_i].expected);
}
END_TEST

START_TEST(orders)
{
	ck_assert(kilni_visible_order_is_good(NULL));
	ck_assert(kilni_visible_order_is_good(""));
	ck_assert(kilni_visible_order_is_good("PCI_BUS_ID"));
	ck_assert(kilni_visible_order_is_good("FASTEST_FIRST"));
	ck_assert(!kilni_visible_order_is_good("pci_bus_id"));
	ck_assert(!kilni_visible_order_is_good("PCI_BUS_IDx"));
	ck_assert(!kilni_visible_order_is_good(" PCI_BUS_ID"));
	ck_assert(!kilni_visible_order_is_good("0"));
}
END_TEST

/* A UUID that is unknown is the beginning of nothing. */
START_TEST(unknown_uuids)
{
	static const char *const some[2] = { NULL, B };
	int order[2];

	ck_assert_uint_eq(kilni_visible_cards(B, some, 2, order), 1);
	ck_assert_int_eq(order[0], 1);
	ck_assert_uint_eq(kilni_visible_cards(A, some, 2, order), 0);
	ck_assert_uint_eq(kilni_visible_cards("1,0", some, 2, order), 2);
	ck_assert_uint_eq(kilni_visible_cards("0", some, 0, NULL), 0);
}
END_TEST

/* Whatever the text: at most count places, each a card or a slice. */
START_TEST(fuzz)
{
	static const char *const parts[] = {
		"0", "1", "3", "4", "-1", ",", ",,", " ", "foo", "+", A, B,
		"GPU-", "GPU-8", "MIG-", ("MIG-" B), "/7/0", "\xff", "\n",
		"18446744073709551616",
	};
	unsigned seed = (unsigned)time(NULL);

	printf("seed %u\n", seed);
	srand(seed);
	for (int n = 0; n < 100000; n++) {
		char text[512] = "";
		char *copy;
		int order[4];
		size_t count = (size_t)rand() % 5, found;

		for (int i = rand() % 8; i > 0; i--) {
			strcat(text, parts[(size_t)rand() %
					   (sizeof(parts) / sizeof(parts[0]))]);
			if (rand() % 2)
				strcat(text, ",");
		}
		copy = strdup(text);
		ck_assert_ptr_nonnull(copy);
		found = kilni_visible_cards(copy, uuids, count, order);
		free(copy);
		ck_assert_uint_le(found, count);
		for (size_t i = 0; i < found; i++)
			ck_assert_int_lt(order[i], (int)count);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("visible");
	TCase *tests = tcase_create("cuda");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tests, p17_table, 0,
			    sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(tests, orders);
	tcase_add_test(tests, unknown_uuids);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, fuzz);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
