/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/attr.h"

#include <string.h>

#include "tests/conformance/number.h"

/* A choice of the vectors by its name. */
struct named {
	const char *name;
	int value;
};

static const struct named updates[] = {
	{ "Assign", KILN_UPDATE_ASSIGN }, { "Add", KILN_UPDATE_ADD },
	{ "Mul", KILN_UPDATE_MUL },       { "Min", KILN_UPDATE_MIN },
	{ "Max", KILN_UPDATE_MAX },       { NULL, 0 },
};

static const struct named distributions[] = {
	{ "Default", KILN_RANDOM_DEFAULT },
	{ "Uniform", KILN_RANDOM_UNIFORM },
	{ "Normal", KILN_RANDOM_NORMAL },
	{ "Bernoulli", KILN_RANDOM_BERNOULLI },
	{ NULL, 0 },
};

static const struct named *find(const struct named *table, const char *name)
{
	while (name && table->name && strcmp(table->name, name) != 0)
		table++;
	return name && table->name ? table : NULL;
}

static bool load_int(int64_t *i, const json_t *json)
{
	*i = json_integer_value(json);
	return json_is_integer(json);
}

/* The scalar has the kind of its JSON value. */
static bool load_scalar(struct kiln_scalar *scalar, const json_t *json)
{
	struct conf_int i;
	double f;

	if (json_is_string(json) &&
	    conf_int_parse(&i, json_string_value(json))) {
		*scalar = i.negative ? kiln_int((int64_t)-i.magnitude)
				     : kiln_uint(i.magnitude);
		return true;
	}
	if (json_is_boolean(json)) {
		*scalar = kiln_bool(json_is_true(json));
		return true;
	}
	if (json_is_integer(json)) {
		*scalar = kiln_int(json_integer_value(json));
		return true;
	}
	if (!conf_float_load(&f, json))
		return false;
	*scalar = kiln_float(f);
	return true;
}

static bool load_list(struct conf_attr *attr, const json_t *json)
{
	const json_t *element;
	size_t i;

	if (!json_is_array(json) || json_array_size(json) > CONF_LIST_MAX)
		return false;
	attr->value.list.count = (int)json_array_size(json);
	json_array_foreach(json, i, element) {
		if (!load_int(&attr->value.list.v[i], element))
			return false;
	}
	return true;
}

static bool load_member(int64_t *i, const json_t *object, const char *name)
{
	return load_int(i, json_object_get(object, name));
}

static bool load_slices(struct conf_attr *attr, const json_t *json)
{
	const json_t *element;
	size_t i;

	if (!json_is_array(json) || json_array_size(json) > CONF_LIST_MAX)
		return false;
	attr->value.slices.count = (int)json_array_size(json);
	json_array_foreach(json, i, element) {
		struct kiln_slice *slice = &attr->value.slices.v[i];

		if (!load_member(&slice->start, element, "start") ||
		    !load_member(&slice->end, element, "end") ||
		    !load_member(&slice->step, element, "step"))
			return false;
	}
	return true;
}

/* "Default", {"Bernoulli": p}, {"Uniform": [a, b]} or {"Normal": [a, b]}. */
static bool load_distribution(struct kiln_distribution *d, const json_t *json)
{
	const json_t *numbers = NULL;
	const struct named *kind;
	const char *name = json_string_value(json);
	void *first;

	if (json_is_object(json) && json_object_size(json) == 1) {
		/* Jansson's iterators take no const; nothing is changed. */
		memcpy(&first, &json, sizeof(first));
		first = json_object_iter(first);
		name = json_object_iter_key(first);
		numbers = json_object_iter_value(first);
	}
	kind = find(distributions, name);
	if (!kind)
		return false;
	d->kind = (enum kiln_distribution_kind)kind->value;
	d->a = d->b = 0;
	if (d->kind == KILN_RANDOM_DEFAULT)
		return true;
	if (d->kind == KILN_RANDOM_BERNOULLI)
		return conf_float_load(&d->a, numbers);
	return json_array_size(numbers) == 2 &&
	       conf_float_load(&d->a, json_array_get(numbers, 0)) &&
	       conf_float_load(&d->b, json_array_get(numbers, 1));
}

static bool load_update(enum kiln_update *update, const json_t *json)
{
	const struct named *found = find(updates, json_string_value(json));

	if (found)
		*update = (enum kiln_update)found->value;
	return found != NULL;
}

static bool load_value(struct conf_attr *attr, const json_t *json)
{
	switch (attr->kind) {
	case CONF_ATTR_INT:
		return load_int(&attr->value.i, json);
	case CONF_ATTR_SCALAR:
		return load_scalar(&attr->value.scalar, json);
	case CONF_ATTR_LIST:
		return load_list(attr, json);
	case CONF_ATTR_RANGE:
		return load_list(attr, json) && attr->value.list.count == 2;
	case CONF_ATTR_SLICES:
		return load_slices(attr, json);
	case CONF_ATTR_UPDATE:
		return load_update(&attr->value.update, json);
	case CONF_ATTR_DISTRIBUTION:
		return load_distribution(&attr->value.distribution, json);
	default:
		return true;
	}
}

enum conf_load conf_attr_load(struct conf_attr *attr,
			      const struct conf_attr_spec *spec,
			      const json_t *attrs, struct conf_text *why)
{
	const json_t *json = NULL;

	memset(attr, 0, sizeof(*attr));
	attr->kind = spec->kind;
	attr->value.i = 1;
	if (!spec->name)
		return CONF_LOADED;
	json = json_object_get(attrs, spec->name);
	if (!json) {
		conf_text_add(why, "attribute \"%s\" is missing", spec->name);
		return CONF_MALFORMED;
	}
	if (attr->kind == CONF_ATTR_DTYPE)
		return conf_dtype_load(&attr->value.dtype, json, why);
	if (load_value(attr, json))
		return CONF_LOADED;
	conf_text_add(why, "attribute \"%s\" has a wrong value", spec->name);
	return CONF_MALFORMED;
}
