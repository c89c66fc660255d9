/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_ATTR_H
#define CONF_ATTR_H

#include <stdint.h>

#include <jansson.h>
#include <kiln/kiln.h>

#include "tests/conformance/text.h"
#include "tests/conformance/value.h"

/* Longer than any rank, so that a rank too great reaches the library. */
#define CONF_LIST_MAX (2 * KILN_RANK_MAX)

/* The kinds of an attribute; the last three are not read from the vector. */
enum conf_attr_kind {
	CONF_ATTR_NONE,         /* ends a list of attributes */
	CONF_ATTR_INT,
	CONF_ATTR_SCALAR,
	CONF_ATTR_DTYPE,
	CONF_ATTR_LIST,         /* integers */
	CONF_ATTR_RANGE,        /* a list of two: start, end */
	CONF_ATTR_SLICES,
	CONF_ATTR_UPDATE,
	CONF_ATTR_DISTRIBUTION,
	CONF_ATTR_UNIT,         /* always 1 */
	CONF_ATTR_OPERAND,      /* the dtype of the first operand */
	CONF_ATTR_INDEX         /* the dtype of indices, left to the device */
};

struct conf_attr {
	union {
		int64_t i;
		struct kiln_scalar scalar;
		enum kiln_dtype dtype;
		struct {
			int64_t v[CONF_LIST_MAX];
			int count;
		} list;
		struct {
			struct kiln_slice v[CONF_LIST_MAX];
			int count;
		} slices;
		enum kiln_update update;
		struct kiln_distribution distribution;
	} value;
	enum conf_attr_kind kind;
};

/* An attribute of a method: its name in the vectors (NULL where not read). */
struct conf_attr_spec {
	const char *name;
	enum conf_attr_kind kind;
};

/* Reads the attribute that spec names from the object attrs. */
enum conf_load conf_attr_load(struct conf_attr *attr,
			      const struct conf_attr_spec *spec,
			      const json_t *attrs, struct conf_text *why);

#endif
