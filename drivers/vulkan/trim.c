/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/trim.h"

#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan/spirv.h"

/*
 * A module has code for all ops of a dtype, of which a pipeline wants one, and
 * compilers take their time over the rest. Here switches over specialisation
 * constants keep the one case that is taken, and what cannot be reached any
 * more goes. Whatever is not as expected leaves the module as it was.
 */

/* What is known of an id. */
struct id {
	uint32_t at;           /* of its function or label; 0: neither */
	uint8_t wanted;        /* function or label: to be kept */
	uint8_t global;        /* defined outside of functions */
	uint8_t kept;          /* in a kept instruction */
	uint8_t constant;      /* 1 + number of the constant it is */
};

struct trim {
	const uint32_t *word;
	uint32_t words, bound;
	const uint16_t *constant;
	unsigned constants;
	struct id *id;
	uint32_t *todo, todos; /* functions and labels to look at */
	uint32_t functions;    /* where the first one starts */
	bool bad;
};

static uint32_t op_at(const struct trim *t, uint32_t at)
{
	return t->word[at] & 0xffff;
}

static uint32_t size_at(const struct trim *t, uint32_t at)
{
	return t->word[at] >> 16;
}

static struct id *id_of(struct trim *t, uint32_t id)
{
	static struct id nothing;

	if (id < t->bound)
		return &t->id[id];
	t->bad = true;
	return &nothing;
}

/* ---- what is where ---- */

/* What an instruction outside of functions defines; 0: nothing. */
static uint32_t result_of(const struct trim *t, uint32_t at)
{
	uint32_t op = op_at(t, at);

	if (op >= OP_TYPE_FIRST && op <= OP_TYPE_LAST)
		return t->word[at + 1];
	if ((op >= OP_CONSTANT_FIRST && op <= OP_CONSTANT_LAST) ||
	    op == OP_VARIABLE)
		return t->word[at + 2];
	return 0;
}

static void note_global(struct trim *t, uint32_t at, uint32_t *entry)
{
	const uint32_t *w = &t->word[at];

	switch (op_at(t, at)) {
	case OP_ENTRY_POINT:
		*entry = w[2];
		break;
	case OP_DECORATE:
		if (size_at(t, at) == 4 && w[2] == DECORATION_SPEC_ID &&
		    w[3] < t->constants)
			id_of(t, w[1])->constant = (uint8_t)(w[3] + 1);
		break;
	default:
		if (result_of(t, at))
			id_of(t, result_of(t, at))->global = 1;
	}
}

/* Finds functions and labels; returns the entry point's id, 0 for none. */
static uint32_t survey(struct trim *t)
{
	uint32_t entry = 0;

	for (uint32_t at = HEADER_WORDS; at < t->words;
	     at += size_at(t, at)) {
		uint32_t op = op_at(t, at), size = size_at(t, at);

		if (!size || size > t->words - at) {
			t->bad = true;
			return 0;
		}
		if (op == OP_FUNCTION && !t->functions)
			t->functions = at;
		if (op == OP_FUNCTION)
			id_of(t, t->word[at + 2])->at = at;
		else if (op == OP_LABEL)
			id_of(t, t->word[at + 1])->at = at;
		else if (!t->functions)
			note_global(t, at, &entry);
	}
	return entry;
}

/* ---- what is reached ---- */

static void want(struct trim *t, uint32_t id)
{
	struct id *known = id_of(t, id);

	if (!known->at) {
		t->bad = true;
		return;
	}
	if (known->wanted)
		return;
	known->wanted = 1;
	t->todo[t->todos++] = id;
}

/* The label that a switch goes to; 0: that is not known before it runs. */
static uint32_t taken(struct trim *t, uint32_t at)
{
	const uint32_t *w = &t->word[at];
	unsigned number = id_of(t, w[1])->constant;

	if (!number)
		return 0;
	for (uint32_t i = 3; i + 1 < size_at(t, at); i += 2)
		if (w[i] == t->constant[number - 1])
			return w[i + 1];
	return w[2];
}

static void want_cases(struct trim *t, uint32_t at)
{
	const uint32_t *w = &t->word[at];
	uint32_t only = taken(t, at);

	want(t, only ? only : w[2]);
	for (uint32_t i = 3; !only && i + 1 < size_at(t, at); i += 2)
		want(t, w[i + 1]);
}

/* What an instruction leads to. */
static void follow(struct trim *t, uint32_t at)
{
	const uint32_t *w = &t->word[at];

	switch (op_at(t, at)) {
	case OP_FUNCTION_CALL:
		want(t, w[3]);
		break;
	case OP_LOOP_MERGE:
		want(t, w[1]);
		want(t, w[2]);
		break;
	case OP_SELECTION_MERGE:
	case OP_BRANCH:
		want(t, w[1]);
		break;
	case OP_BRANCH_CONDITIONAL:
		want(t, w[2]);
		want(t, w[3]);
		break;
	case OP_SWITCH:
		want_cases(t, at);
		break;
	default:
		break;
	}
}

/* A function leads to its first block, a block to what stands in it. */
static void look_at(struct trim *t, uint32_t id)
{
	uint32_t at = t->id[id].at, op = op_at(t, at);

	for (at += size_at(t, at); at < t->words; at += size_at(t, at)) {
		if (op_at(t, at) == OP_FUNCTION_END)
			return;
		if (op_at(t, at) == OP_LABEL) {
			if (op == OP_FUNCTION)
				want(t, t->word[at + 1]);
			return;
		}
		follow(t, at);
	}
}

/* ---- what is written ---- */

/* Calls emit for each instruction of the kept functions' kept blocks. */
static void each_kept(struct trim *t,
		      void (*emit)(struct trim *t, uint32_t at, void *arg),
		      void *arg)
{
	bool function = false, block = false;

	for (uint32_t at = t->functions; at < t->words;
	     at += size_at(t, at)) {
		uint32_t op = op_at(t, at);

		if (op == OP_FUNCTION) {
			function = t->id[t->word[at + 2]].wanted;
			block = true;
		} else if (op == OP_LABEL) {
			block = t->id[t->word[at + 1]].wanted;
		} else if (op == OP_FUNCTION_END) {
			block = true;
		}
		if (function && block)
			emit(t, at, arg);
	}
}

static void mark_kept(struct trim *t, uint32_t at, void *arg)
{
	uint32_t op = op_at(t, at);

	(void)arg;
	/* Where there is a type there is a result, the only thing decorated. */
	if (size_at(t, at) > 2 && op != OP_SELECTION_MERGE &&
	    op != OP_LOOP_MERGE && t->word[at + 2] < t->bound)
		t->id[t->word[at + 2]].kept = 1;
}

static void copy(struct trim *t, uint32_t at, void *arg)
{
	uint32_t **to = arg, only = 0;

	if (op_at(t, at) == OP_SWITCH)
		only = taken(t, at);
	if (only) {
		*(*to)++ = 3u << 16 | OP_SWITCH;
		*(*to)++ = t->word[at + 1];
		*(*to)++ = only;
		return;
	}
	memcpy(*to, &t->word[at], size_at(t, at) * 4);
	*to += size_at(t, at);
}

/* All but what decorates something that has gone. */
static void copy_globals(struct trim *t, uint32_t **to)
{
	memcpy(*to, t->word, HEADER_WORDS * 4);
	*to += HEADER_WORDS;
	for (uint32_t at = HEADER_WORDS; at < t->functions;
	     at += size_at(t, at)) {
		const struct id *target = id_of(t, t->word[at + 1]);

		if (op_at(t, at) != OP_DECORATE || target->kept ||
		    target->global)
			copy(t, at, to);
	}
}

static bool reach(struct trim *t)
{
	uint32_t entry = survey(t);

	if (t->bad || !entry || !t->functions)
		return false;
	want(t, entry);
	while (t->todos && !t->bad)
		look_at(t, t->todo[--t->todos]);
	return !t->bad;
}

uint32_t *kilni_vk_trim(const uint32_t *word, size_t bytes,
			const uint16_t *constant, unsigned constants,
			size_t *trimmed)
{
	struct trim t = { .word = word, .words = (uint32_t)(bytes / 4),
			  .constant = constant, .constants = constants };
	uint32_t *out = NULL, *end;

	if (t.words <= HEADER_WORDS || bytes > UINT32_MAX)
		return NULL;
	t.bound = word[3];
	t.id = calloc(t.bound, sizeof(*t.id));
	t.todo = calloc(t.bound, sizeof(*t.todo));
	if (t.id && t.todo && reach(&t))
		out = malloc(bytes);
	if (out) {
		each_kept(&t, mark_kept, NULL);
		end = out;
		copy_globals(&t, &end);
		each_kept(&t, copy, &end);
		*trimmed = (size_t)(end - out) * 4;
	}
	free(t.id);
	free(t.todo);
	return out;
}
