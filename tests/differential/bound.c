/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/bound.h"

#include <stddef.h>
#include <string.h>

#define ROW(name, form, classes, ulp, growth)                                  \
	{ #name, KILNI_FORM_##form, KILNI_CLASSES_##classes, ulp,              \
	  KILNI_GROWTH_##growth },

static const struct diff_op ops[] = {
#define KILNI_EW1(ID, name, classes, ulp, doc) ROW(name, EW1, classes, ulp, NONE)
#define KILNI_EW2(ID, name, classes, ulp, doc) ROW(name, EW2, classes, ulp, NONE)
#define KILNI_CMP(ID, name, classes, doc) ROW(name, CMP, classes, 0, NONE)
#define KILNI_PRED(ID, name, classes, doc) ROW(name, PRED, classes, 0, NONE)
#define KILNI_EWX(ID, name, classes, ulp, doc) ROW(name, EWX, classes, ulp, NONE)
#define KILNI_REDUCE(ID, name, classes, ulp, growth, doc)                      \
	ROW(name, REDUCE, classes, ulp, growth)
#define KILNI_OTHER(ID, name, classes, ulp, growth, doc)                       \
	ROW(name, OTHER, classes, ulp, growth)
#include "kernels/ops.def"
};

/* Functions whose names are not made from their ops'. */
static const struct {
	const char *function, *name;
} others[] = {
	{ "kiln_zeros", "full" },
	{ "kiln_ones", "full" },
	{ "kiln_select_add", "select_assign" },
	{ "through_host", "from_data" },
};

static const struct diff_op *longest(const char *function)
{
	const struct diff_op *best = NULL;
	size_t i;

	for (i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		size_t length = strlen(ops[i].name);

		if (strncmp(function, ops[i].name, length) == 0 &&
		    (function[length] == '_' || !function[length]) &&
		    (!best || length > strlen(best->name)))
			best = &ops[i];
	}
	return best;
}

const struct diff_op *diff_op_of(const char *function)
{
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (strcmp(function, others[i].function) == 0)
			return longest(others[i].name);
	}
	if (strncmp(function, "kiln_", 5) != 0)
		return NULL;
	return longest(function + 5);
}
