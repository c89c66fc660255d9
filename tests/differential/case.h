/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_CASE_H
#define DIFF_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "tests/conformance/attr.h"
#include "tests/conformance/method.h"
#include "tests/differential/bound.h"

/* How an operand lies in memory. */
enum diff_layout {
	DIFF_DENSE,
	DIFF_OFFSET,     /* behind the first row of a larger one */
	DIFF_TRANSPOSED, /* the last two axes exchanged */
	DIFF_STEPPED,    /* every other element of each axis */
	DIFF_REVERSED,   /* every axis backwards */
	DIFF_BACKWARDS,  /* the last axis in steps of -2 */
	DIFF_EXPANDED,   /* every other axis of stride 0 */
	DIFF_LAYOUT_COUNT
};

/* What its elements are. */
enum diff_values {
	DIFF_ANY,      /* of everything, extremes and special values too */
	DIFF_MODERATE, /* small numbers */
	DIFF_UNITS,    /* near 1 and -1, for products of many */
	DIFF_INDEX     /* from 0 to below limit */
};

/* An operand as it is made; all of it follows from the case's seed. */
struct diff_operand {
	enum kiln_dtype dtype;
	int rank;
	int64_t shape[KILN_RANK_MAX];
	enum diff_layout layout;
	enum diff_values values;
	int64_t limit;  /* of indices */
	double least;   /* of magnitudes: what is smaller is made 0 */
	int stray;      /* indices that are out of range */
	bool same;      /* the operand before this one once more */
};

#define DIFF_ID_MAX 96

/* One call; no pointers but to constants, so that it can be sent. */
struct diff_case {
	char id[DIFF_ID_MAX]; /* method/dtype/number */
	uint64_t seed;
	const struct conf_method *method;
	const struct diff_op *op;
	enum kiln_dtype dtype;
	unsigned number;
	bool large;
	int place; /* the operand whose place the result takes; -1: none */
	int operand_count;
	struct diff_operand operands[CONF_TENSORS_MAX];
	struct conf_attr attr[CONF_ATTRS_MAX];
	enum kiln_dtype index_dtype;
	enum kilni_growth growth;
	double summands; /* most elements that go into one of the result */
	uint32_t flushed; /* as in the scope */
};

/* What cases are made for. */
struct diff_scope {
	uint64_t seed;
	uint32_t dtypes; /* a bit each: those that the device supports */
	uint32_t flushed; /* those whose denormals it need not keep */
	bool large;      /* more than 2^31 elements */
};

/* Whether denormals of what a dtype is computed in may be flushed. */
bool diff_flushes(const struct diff_case *c, enum kiln_dtype dtype);

/* Whether a method has results that can be compared. */
bool diff_method_compares(const struct conf_method *method);

/* Whether a method takes a dtype, as its first operand's or its result's. */
bool diff_method_takes(const struct conf_method *method,
		       enum kiln_dtype dtype);

/*
 * Makes a case of a method for a dtype: the same for the same seed and number.
 * False where the method has a parameter that nothing is known of.
 */
bool diff_case_make(struct diff_case *c, const struct diff_scope *scope,
		    const struct conf_method *method, enum kiln_dtype dtype,
		    unsigned number);

/* Appends what is called with what. */
void diff_case_print(struct conf_text *text, const struct diff_case *c);

#endif
