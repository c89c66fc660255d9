/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <kiln/kiln.h>

#include "tests/conformance/text.h"

/* A tensor as a vector states it. */
struct conf_value {
	enum kiln_dtype dtype;
	int rank;
	int64_t shape[KILN_RANK_MAX];
	int64_t count;
	size_t bytes;
	unsigned char *data; /* dense, as the library takes it */
	double *floats;      /* of float dtypes: the numbers before rounding */
};

/* What became of reading something of a vector. */
enum conf_load {
	CONF_LOADED,
	CONF_UNKNOWN,  /* well-formed, but not of what is built */
	CONF_MALFORMED
};

/* The dtype of a name; CONF_UNKNOWN for a quantized one. */
enum conf_load conf_dtype_load(enum kiln_dtype *dtype, const json_t *json,
			       struct conf_text *why);

/* A number of JSON, or one of "nan", "inf", "-inf", "-0". */
bool conf_float_load(double *x, const json_t *json);

/*
 * Reads {"dtype","shape","data"}. On anything but CONF_LOADED why says what is
 * wrong and value is empty.
 */
enum conf_load conf_value_load(struct conf_value *value, const json_t *json,
			       struct conf_text *why);

void conf_value_clear(struct conf_value *value);

/* Appends "f32[2, 3]". */
void conf_shape_print(struct conf_text *text, enum kiln_dtype dtype, int rank,
		      const int64_t *shape);

/* Appends one element. */
void conf_element_print(struct conf_text *text, enum kiln_dtype dtype,
			const void *element);

#endif
