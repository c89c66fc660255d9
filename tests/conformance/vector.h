/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_VECTOR_H
#define CONF_VECTOR_H

#include <stdbool.h>

#include <jansson.h>

#include "tests/conformance/attr.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/method.h"
#include "tests/conformance/value.h"

/* Why a case is not run, or does not count. */
#define CONF_SKIP_TABLE(X)                                                     \
	X(CONF_SKIP_METHOD, "method not built")                                \
	X(CONF_SKIP_AUTODIFF, "autodiff")                                      \
	X(CONF_SKIP_QUANTIZED, "quantized tensor")                             \
	X(CONF_SKIP_DTYPE, "dtype not supported by the device")                \
	X(CONF_SKIP_INDEX, "index values are not looked at by the device")     \
	X(CONF_SKIP_UNSUPPORTED, "listed as unsupported")                      \
	X(CONF_SKIP_MEMORY, "more memory than the devices have")

enum conf_skip {
#define CONF_SKIP_ENUM_(name, text) name,
	CONF_SKIP_TABLE(CONF_SKIP_ENUM_)
#undef CONF_SKIP_ENUM_
	CONF_SKIP_COUNT
};

/* A value of a case: given, or the result of a step. */
struct conf_slot {
	char *name;
	bool given;
	bool wanted;            /* compared at the end */
	int last_step;          /* that reads it; -1 for none */
	struct conf_value start; /* where given */
	struct conf_value end;   /* where wanted */
};

/* One call; operands and results are slots. */
struct conf_step {
	const struct conf_method *method;
	struct conf_attr attr[CONF_ATTRS_MAX];
	int *in;
	int in_count;
	int out[CONF_RESULTS_MAX];
};

/* A case, ready to be run. */
struct conf_vector {
	char *id;
	struct conf_slot *slots;
	int slot_count;
	struct conf_step *steps;
	int step_count;
	struct conf_tolerance tolerance;
	bool expect_error; /* of the last step */
};

/*
 * Reads a case from the object of a line. CONF_UNKNOWN: it is not to be run;
 * *skip and why say the reason and id is set. CONF_MALFORMED: why says what is
 * wrong. The vector must be cleared in every case.
 */
enum conf_load conf_vector_load(struct conf_vector *vector,
				const json_t *json, enum conf_skip *skip,
				struct conf_text *why);

void conf_vector_clear(struct conf_vector *vector);

/* Whether the last step has an index that is out of its axis' range. */
bool conf_vector_index_error(const struct conf_vector *vector);

#endif
