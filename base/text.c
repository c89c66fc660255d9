/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Lowest and highest second byte after a first one; first bytes are runs. */
static const struct {
	unsigned char first, last, low, high, bytes;
} heads[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

/* Bytes of the well-formed character at text, 0 where it is none. */
static size_t character_bytes(const unsigned char *text)
{
	if (*text < 0x80)
		return 1;
	for (size_t i = 0; i < KILNI_COUNTOF(heads); i++) {
		if (*text < heads[i].first || *text > heads[i].last)
			continue;
		if (text[1] < heads[i].low || text[1] > heads[i].high)
			return 0;
		for (size_t n = 2; n < heads[i].bytes; n++)
			if ((text[n] & 0xc0) != 0x80)
				return 0;
		return heads[i].bytes;
	}
	return 0;
}

void kilni_utf8_copy(char *to, size_t size, const char *from)
{
	size_t used = 0;

	while (*from) {
		size_t bytes = character_bytes((const unsigned char *)from);
		const char *text = bytes ? from : replacement;
		size_t length = bytes ? bytes : sizeof(replacement) - 1;

		if (used + length >= size)
			break;
		memcpy(to + used, text, length);
		used += length;
		from += bytes ? bytes : 1;
	}
	to[used] = '\0';
}
