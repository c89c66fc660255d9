/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/doubles.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "drivers/vulkan/spirv.h"

/*
 * A type is double where it is, holds, points to or takes 64-bit floats; so is
 * what outside of functions has such a type. What computes with doubles inside
 * of a function makes one, stores one, or compares or converts constants.
 */

struct module {
	uint32_t *word, words, bound;
	uint8_t *is_double;    /* by id */
	bool variable;         /* a variable outside of functions is */
};

static bool is_double(const struct module *m, uint32_t id)
{
	return id < m->bound && m->is_double[id];
}

static bool any_double(const struct module *m, const uint32_t *from,
		       const uint32_t *end)
{
	for (; from < end; from++)
		if (is_double(m, *from))
			return true;
	return false;
}

/* ---- outside of functions ---- */

/* What the instruction makes double; 0: nothing. */
static uint32_t makes_double(const struct module *m, const uint32_t *w)
{
	uint32_t op = *w & 0xffff, size = *w >> 16;

	switch (op) {
	case OP_TYPE_FLOAT:
		return w[2] == 64 ? w[1] : 0;
	case OP_TYPE_VECTOR:
	case OP_TYPE_MATRIX:
	case OP_TYPE_ARRAY:
	case OP_TYPE_RUNTIME_ARRAY:
		return is_double(m, w[2]) ? w[1] : 0;
	case OP_TYPE_STRUCT:
	case OP_TYPE_FUNCTION:
		return any_double(m, w + 2, w + size) ? w[1] : 0;
	case OP_TYPE_POINTER:
		return is_double(m, w[3]) ? w[1] : 0;
	case OP_SPEC_CONSTANT_OP:
		return is_double(m, w[1]) || any_double(m, w + 4, w + size)
			       ? w[2]
			       : 0;
	default:
		if (op == OP_VARIABLE ||
		    (op >= OP_CONSTANT_FIRST && op < OP_SPEC_CONSTANT_OP))
			return is_double(m, w[1]) ? w[2] : 0;
		return 0;
	}
}

/* Returns where the functions begin. A pointer may be told of ahead. */
static uint32_t mark_globals(struct module *m)
{
	bool again = true;
	uint32_t at = 0;

	while (again) {
		again = false;
		for (at = HEADER_WORDS; at < m->words;
		     at += m->word[at] >> 16) {
			uint32_t op = m->word[at] & 0xffff, id;

			if (op == OP_FUNCTION)
				break;
			id = makes_double(m, &m->word[at]);
			if (!id || id >= m->bound || m->is_double[id])
				continue;
			m->is_double[id] = 1;
			m->variable |= op == OP_VARIABLE;
			again = true;
		}
	}
	return at;
}

/* ---- inside of functions ---- */

static bool computes(const struct module *m, const uint32_t *w)
{
	uint32_t op = *w & 0xffff, size = *w >> 16;

	/* The first word is an id of whatever kind, where there is one. */
	if (size > 1 && is_double(m, w[1]))
		return true;
	if (op == OP_FUNCTION)
		return is_double(m, w[4]);
	if (op == OP_STORE)
		return is_double(m, w[2]);
	return op >= OP_COMPUTE_FIRST && op <= OP_COMPUTE_LAST &&
	       any_double(m, w + 3, w + size);
}

static bool needs_doubles(const struct module *m, uint32_t functions)
{
	if (m->variable)
		return true;
	for (uint32_t at = functions; at < m->words; at += m->word[at] >> 16)
		if (computes(m, &m->word[at]))
			return true;
	return false;
}

/* ---- taking out ---- */

static bool tells_of_doubles(const struct module *m, const uint32_t *w)
{
	switch (*w & 0xffff) {
	case OP_CAPABILITY:
		return w[1] == CAPABILITY_FLOAT64;
	case OP_EXECUTION_MODE:
		return w[2] == MODE_SIGNED_ZERO_INF_NAN_PRESERVE && w[3] == 64;
	case OP_DECORATE:
	case OP_MEMBER_DECORATE:
	case OP_TYPE_FORWARD_POINTER:
		return is_double(m, w[1]);
	default:
		return makes_double(m, w) != 0;
	}
}

static size_t take_out(struct module *m, uint32_t functions)
{
	uint32_t *to = m->word + HEADER_WORDS;
	uint32_t size;

	for (uint32_t at = HEADER_WORDS; at < functions; at += size) {
		size = m->word[at] >> 16;
		if (tells_of_doubles(m, &m->word[at]))
			continue;
		memmove(to, &m->word[at], size * sizeof(*to));
		to += size;
	}
	memmove(to, &m->word[functions],
		(m->words - functions) * sizeof(*to));
	return (size_t)(to - m->word) + m->words - functions;
}

enum kiln_status kilni_vk_drop_doubles(uint32_t *word, size_t *bytes)
{
	struct module m = { .word = word,
			    .words = (uint32_t)(*bytes / sizeof(*word)),
			    .bound = word[3] };
	enum kiln_status status = KILN_ERR_UNSUPPORTED;
	uint32_t functions;

	m.is_double = calloc(m.bound ? m.bound : 1, 1);
	if (!m.is_double)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a kernel");
	functions = mark_globals(&m);
	if (!needs_doubles(&m, functions)) {
		*bytes = take_out(&m, functions) * sizeof(*word);
		status = KILN_OK;
	}
	free(m.is_double);
	return status;
}
