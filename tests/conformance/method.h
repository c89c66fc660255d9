/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_METHOD_H
#define CONF_METHOD_H

#include <stdbool.h>
#include <stddef.h>

#include <kiln/kiln.h>

#include "tests/conformance/attr.h"

#define CONF_RESULTS_MAX 2
#define CONF_TENSORS_MAX 3
#define CONF_ATTRS_MAX 3

struct conf_call;

/* How the parameters of a method go into those of a function. */
struct conf_form {
	const char *tensors[CONF_TENSORS_MAX + 1];       /* to the first NULL */
	struct conf_attr_spec attrs[CONF_ATTRS_MAX + 1]; /* to kind NONE */
	int results;
	bool list; /* the one tensor parameter is a list */
	enum kiln_status (*invoke)(const struct conf_call *call);
};

struct conf_method {
	const char *name;
	const char *function; /* that does it */
	const struct conf_form *form;
};

/* A call that is ready to be made. */
struct conf_call {
	const struct conf_method *method;
	struct kiln_device *device;
	struct kiln_tensor **out[CONF_RESULTS_MAX];
	struct kiln_tensor *const *in;
	int in_count;
	const struct conf_attr *attr;
	enum kiln_dtype index_dtype; /* where the method leaves it open */
};

/* The methods that can be run; the number of them goes to *count. */
const struct conf_method *conf_methods(size_t *count);

/* The method of that name, or NULL. */
const struct conf_method *conf_method_find(const char *name);

/* Makes the call. */
enum kiln_status conf_call(const struct conf_call *call);

#endif
