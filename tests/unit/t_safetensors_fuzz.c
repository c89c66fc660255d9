/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"
#include "lib/safetensors.h"

/*
 * Mutated headers. Whatever the bytes: a verdict comes with a message, and a
 * header that is taken for good is good, by a check that shares nothing with
 * the reader's. KILN_FUZZ_SEED repeats a run, KILN_FUZZ_ROUNDS prolongs it.
 */

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static size_t below(size_t limit)
{
	return limit ? (size_t)(next() % limit) : 0;
}

static const char *const seeds[] = {
	"{}",
	"{\"__metadata__\":{\"format\":\"pt\",\"a\\u00e9\\ud83d\\ude00\":\"\"}}",
	"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
	"\"b\":{\"dtype\":\"F16\",\"shape\":[0,9],\"data_offsets\":[1,1]},"
	"\"c\":{\"dtype\":\"I64\",\"shape\":[1,1,1],\"data_offsets\":[1,9]}} ",
	" { \"b\" : {\"shape\":[1,2,3,4,5,6,7,8,9],\"data_offsets\":[4,362884]"
	",\"dtype\":\"BOOL\"},\n\"\\\"\\\\\\/\\b\\f\\n\\r\\t\": {\"dtype\":"
	"\"Q\",\"data_offsets\":[0,4],\"shape\":[18]}\t}",
};

static const char *const words[] = {
	"{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud800", "\\u0000",
	"\\udfff", "0", "-", "1", "9223372036854775807", "1e9", "null", "true",
	"\"dtype\"", "\"shape\":[", "\"data_offsets\":[0,", "__metadata__",
	"\"a\":{", "F4", "U8", "\xc3", "\xf4\x8f\xbf\xbf", "\xed\xa0\x80", " ",
	"4294967296,4294967296",
};

#define MOST 2048

static size_t insert(char *text, size_t bytes, const char *word)
{
	size_t length = strlen(word), place = below(bytes + 1);

	if (bytes + length > MOST)
		return bytes;
	memmove(text + place + length, text + place, bytes - place);
	memcpy(text + place, word, length);
	return bytes + length;
}

static size_t cut(char *text, size_t bytes)
{
	size_t from = below(bytes), length = below(bytes - from) % 24;

	memmove(text + from, text + from + length, bytes - from - length);
	return bytes - length;
}

static size_t repeat(char *text, size_t bytes)
{
	size_t from = below(bytes), length = below(bytes - from) % 64;
	char piece[64];

	memcpy(piece, text + from, length);
	piece[length] = '\0';
	return insert(text, bytes, piece);
}

static size_t mutate(char *text, size_t bytes)
{
	switch (below(5)) {
	case 0:
		if (bytes)
			text[below(bytes)] ^= (char)(1 << below(8));
		return bytes;
	case 1:
		return cut(text, bytes);
	case 2:
		return repeat(text, bytes);
	case 3:
		if (bytes)
			text[below(bytes)] = (char)next();
		return bytes;
	default:
		return insert(text, bytes,
			      words[below(sizeof(words) / sizeof(*words))]);
	}
}

/* Ends meet, names differ, text is text. */
static void expect_good(const struct kilni_st_header *h, uint64_t data)
{
	uint64_t at = 0;

	for (size_t i = 0; i < h->count; i++) {
		const struct kilni_st_tensor *t = &h->tensor[i];

		ck_assert_uint_eq(t->begin, at);
		ck_assert_uint_ge(t->end, at);
		at = t->end;
		ck_assert(kilni_is_utf8(t->name));
		ck_assert_int_ge(t->rank, 0);
		for (int d = 0; d < t->rank; d++)
			ck_assert_int_ge(t->shape[d], 0);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(t->name, h->tensor[k].name);
	}
	ck_assert_uint_eq(at, data);
}

/* A buffer of its own size, so that a sanitizer sees every byte too many. */
static bool try_one(const char *text, size_t bytes, uint64_t data)
{
	struct kilni_st_header header;
	char *copy = malloc(bytes + 1);
	enum kiln_status status;

	memcpy(copy, text, bytes);
	status = kilni_st_parse(&header, "fuzz", "file", copy, bytes, data);
	if (status == KILN_OK) {
		expect_good(&header, data);
		kilni_st_free(&header);
		return true;
	}
	ck_assert_int_eq(status, KILN_ERR_IO);
	ck_assert(!strncmp(kiln_error_message(), "fuzz: file: ", 12));
	return false;
}

START_TEST(mutated_headers)
{
	static const uint64_t sizes[] = { 0, 0, 24, 9, 362884 };
	const char *asked = getenv("KILN_FUZZ_SEED");
	const char *rounds = getenv("KILN_FUZZ_ROUNDS");
	uint64_t many = rounds ? strtoull(rounds, NULL, 10) : 200000;
	uint64_t seed = asked ? strtoull(asked, NULL, 10)
			      : (uint64_t)time(NULL) * 2654435761u + 1;
	uint64_t good = 0;

	printf("KILN_FUZZ_SEED=%" PRIu64 "\n", seed);
	fflush(stdout);
	state = seed | 1;
	for (uint64_t i = 0; i < many; i++) {
		size_t from = below(sizeof(seeds) / sizeof(*seeds));
		size_t bytes = strlen(seeds[from]);
		char text[MOST + 1];

		memcpy(text, seeds[from], bytes);
		for (size_t m = below(4); m-- > 0;)
			bytes = mutate(text, bytes);
		good += try_one(text, bytes, sizes[from]);
	}
	printf("%" PRIu64 " of %" PRIu64 " were good\n", good, many);
	/* Unchanged ones come by, and not all are left unchanged. */
	ck_assert_uint_gt(good, many / 20);
	ck_assert_uint_lt(good, many);
}
END_TEST

/* Bytes without any sense. */
START_TEST(noise)
{
	state = 88172645463325252u;
	for (int i = 0; i < 20000; i++) {
		char text[64];
		size_t bytes = below(sizeof(text));

		for (size_t k = 0; k < bytes; k++)
			text[k] = k ? (char)next() : '{';
		(void)try_one(text, bytes, 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("safetensors_fuzz");
	TCase *tcase = tcase_create("header");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, mutated_headers);
	tcase_add_test(tcase, noise);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
