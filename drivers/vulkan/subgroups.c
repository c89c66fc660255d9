/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/subgroups.h"

#include <string.h>

#include "base/base.h"
#include "drivers/vulkan/spirv.h"

/* The variables in which a thread finds its place in its subgroup. */
#define PLACES_MOST 8

struct places {
	uint32_t id[PLACES_MOST];
	unsigned count;
};

static bool is_place(const struct places *places, uint32_t id)
{
	for (unsigned i = 0; i < places->count; i++)
		if (places->id[i] == id)
			return true;
	return false;
}

static bool decorates_place(const uint32_t *w)
{
	return (*w & 0xffff) == OP_DECORATE && *w >> 16 == 4 &&
	       w[2] == DECORATION_BUILTIN &&
	       (w[3] == BUILTIN_SUBGROUP_SIZE ||
		w[3] == BUILTIN_NUM_SUBGROUPS ||
		w[3] == BUILTIN_SUBGROUP_ID ||
		w[3] == BUILTIN_SUBGROUP_LOCAL_INVOCATION_ID);
}

/* Notes the places; false: they, or operations of subgroups, are used. */
static bool look(const uint32_t *word, uint32_t words, struct places *places)
{
	for (uint32_t at = HEADER_WORDS; at < words; at += word[at] >> 16) {
		const uint32_t *w = &word[at];
		uint32_t op = *w & 0xffff;

		if (decorates_place(w)) {
			if (places->count == PLACES_MOST)
				return false;
			places->id[places->count++] = w[1];
		}
		if ((op >= OP_GROUP_NON_UNIFORM_FIRST &&
		     op <= OP_GROUP_NON_UNIFORM_LAST) ||
		    (op == OP_LOAD && is_place(places, w[3])))
			return false;
	}
	return true;
}

/* Copies the entry point without the places among its variables. */
static uint32_t *copy_entry(uint32_t *to, const uint32_t *w,
			    const struct places *places)
{
	uint32_t *head = to, size = *w >> 16, i = 3;

	while (w[i] & 0xff000000)
		i++;
	memmove(to, w, (i + 1) * sizeof(*w));
	to += i + 1;
	for (i++; i < size; i++)
		if (!is_place(places, w[i]))
			*to++ = w[i];
	*head = (uint32_t)(to - head) << 16 | OP_ENTRY_POINT;
	return to;
}

static bool tells_of_subgroups(const uint32_t *w, const struct places *places)
{
	switch (*w & 0xffff) {
	case OP_CAPABILITY:
		return w[1] >= CAPABILITY_GROUP_NON_UNIFORM_FIRST &&
		       w[1] <= CAPABILITY_GROUP_NON_UNIFORM_LAST;
	case OP_DECORATE:
		return is_place(places, w[1]);
	case OP_VARIABLE:
		return is_place(places, w[2]);
	default:
		return false;
	}
}

bool kilni_vk_drop_subgroups(uint32_t *word, size_t *bytes)
{
	uint32_t words = (uint32_t)(*bytes / sizeof(*word)), size;
	struct places places = { .count = 0 };
	uint32_t *to = word + HEADER_WORDS;

	if (!look(word, words, &places))
		return false;
	for (uint32_t at = HEADER_WORDS; at < words; at += size) {
		uint32_t *w = &word[at];

		size = *w >> 16;
		if (tells_of_subgroups(w, &places))
			continue;
		if ((*w & 0xffff) == OP_ENTRY_POINT) {
			to = copy_entry(to, w, &places);
			continue;
		}
		memmove(to, w, size * sizeof(*w));
		to += size;
	}
	*bytes = (size_t)(to - word) * sizeof(*word);
	return true;
}
