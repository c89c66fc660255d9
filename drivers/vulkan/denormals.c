/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/denormals.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan/spirv.h"

enum {
	CAPABILITY_WORDS = 2,
	MODE_WORDS = 4
};

/* Where things are in a module. */
struct places {
	size_t modes;     /* behind the entry point */
	uint32_t entry;   /* its id */
	unsigned widths;  /* of the floats that are declared, added up */
};

static bool find_places(const uint32_t *word, size_t words, struct places *p)
{
	memset(p, 0, sizeof(*p));
	for (size_t at = HEADER_WORDS; at < words; at += word[at] >> 16) {
		uint32_t size = word[at] >> 16, op = word[at] & 0xffff;

		if (!size || size > words - at)
			return false;
		if (op == OP_ENTRY_POINT && size > 2) {
			p->entry = word[at + 2];
			p->modes = at + size;
		}
		if (op == OP_TYPE_FLOAT && size > 2)
			p->widths |= word[at + 2];
	}
	return p->modes != 0;
}

static uint32_t first_word(uint32_t op, uint32_t words)
{
	return words << 16 | op;
}

static uint32_t *put_mode(uint32_t *to, uint32_t entry, uint32_t width)
{
	*to++ = first_word(OP_EXECUTION_MODE, MODE_WORDS);
	*to++ = entry;
	*to++ = MODE_DENORM_PRESERVE;
	*to++ = width;
	return to;
}

uint32_t *kilni_vk_preserve(const uint32_t *word, size_t bytes,
			    unsigned widths, size_t *out_bytes)
{
	size_t words = bytes / sizeof(*word);
	struct places p;
	uint32_t *out, *to;

	if (!widths || !find_places(word, words, &p) || !(widths & p.widths))
		return NULL;
	to = out = malloc(bytes + sizeof(*word) *
					  (CAPABILITY_WORDS + 3 * MODE_WORDS));
	if (!out)
		return NULL;
	memcpy(to, word, HEADER_WORDS * sizeof(*word));
	to += HEADER_WORDS;
	*to++ = first_word(OP_CAPABILITY, CAPABILITY_WORDS);
	*to++ = CAPABILITY_DENORM_PRESERVE;
	memcpy(to, word + HEADER_WORDS,
	       (p.modes - HEADER_WORDS) * sizeof(*word));
	to += p.modes - HEADER_WORDS;
	for (uint32_t width = 16; width <= 64; width *= 2)
		if (widths & p.widths & width)
			to = put_mode(to, p.entry, width);
	memcpy(to, word + p.modes, (words - p.modes) * sizeof(*word));
	to += words - p.modes;
	*out_bytes = (size_t)(to - out) * sizeof(*word);
	return out;
}
