/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/number.h"

enum conf_load conf_dtype_load(enum kiln_dtype *dtype, const json_t *json,
			       struct conf_text *why)
{
	const char *name = json_string_value(json);
	int i;

	if (!name) {
		conf_text_add(why, "a dtype is missing or not a string");
		return CONF_MALFORMED;
	}
	for (i = 0; i < KILN_DTYPE_COUNT; i++) {
		*dtype = (enum kiln_dtype)i;
		if (strcmp(name, kiln_dtype_name(*dtype)) == 0)
			return CONF_LOADED;
	}
	conf_text_add(why, "dtype \"%s\"", name);
	return strcmp(name, "q") == 0 ? CONF_UNKNOWN : CONF_MALFORMED;
}

bool conf_float_load(double *x, const json_t *json)
{
	static const struct {
		const char *name;
		double x;
	} named[] = {
		{ "nan", (double)NAN },
		{ "inf", (double)INFINITY },
		{ "-inf", -(double)INFINITY },
		{ "-0", -0.0 },
	};
	const char *text = json_string_value(json);
	size_t i;

	if (json_is_number(json)) {
		*x = json_number_value(json);
		return true;
	}
	for (i = 0; text && i < sizeof(named) / sizeof(*named); i++) {
		if (strcmp(text, named[i].name) == 0) {
			*x = named[i].x;
			return true;
		}
	}
	return false;
}

static bool load_int(struct conf_int *x, const json_t *json)
{
	json_int_t i = json_integer_value(json);

	if (json_is_string(json))
		return conf_int_parse(x, json_string_value(json));
	x->negative = i < 0;
	x->magnitude = i < 0 ? -(uint64_t)i : (uint64_t)i;
	return json_is_integer(json);
}

static bool load_bool(void *element, enum kiln_dtype dtype, const json_t *json)
{
	memset(element, 0, kiln_dtype_size_bytes(dtype));
	*(unsigned char *)element = json_is_true(json);
	return json_is_boolean(json);
}

static bool load_element(struct conf_value *value, size_t i,
			 const json_t *json)
{
	size_t size = kiln_dtype_size_bytes(value->dtype);
	void *element = value->data + i * size;
	struct conf_int x;

	switch (kiln_dtype_class(value->dtype)) {
	case KILN_CLASS_FLOAT:
		if (!conf_float_load(&value->floats[i], json))
			return false;
		conf_float_encode(element, value->dtype, value->floats[i]);
		return true;
	case KILN_CLASS_BOOL:
		return load_bool(element, value->dtype, json);
	default:
		return load_int(&x, json) &&
		       conf_int_encode(element, value->dtype, x);
	}
}

static bool load_shape(struct conf_value *value, const json_t *json,
		       struct conf_text *why)
{
	const json_t *size;
	size_t i;

	if (!json_is_array(json) || json_array_size(json) < 1 ||
	    json_array_size(json) > KILN_RANK_MAX) {
		conf_text_add(why, "a shape is not a list of 1 to %d sizes",
			      KILN_RANK_MAX);
		return false;
	}
	value->count = 1;
	json_array_foreach(json, i, size) {
		int64_t n = json_integer_value(size);

		if (!json_is_integer(size) || n < 0 ||
		    __builtin_mul_overflow(value->count, n, &value->count)) {
			conf_text_add(why, "size %zu of a shape", i);
			return false;
		}
		value->shape[i] = n;
	}
	value->rank = (int)json_array_size(json);
	return true;
}

static bool load_data(struct conf_value *value, const json_t *json,
		      struct conf_text *why)
{
	size_t count = (size_t)value->count, i;
	const json_t *element;

	if (!json_is_array(json) || json_array_size(json) != count) {
		conf_text_add(why, "data is not a list of %zu elements", count);
		return false;
	}
	value->bytes = count * kiln_dtype_size_bytes(value->dtype);
	value->data = calloc(count + 1, kiln_dtype_size_bytes(value->dtype));
	value->floats = calloc(count + 1, sizeof(*value->floats));
	if (!value->data || !value->floats) {
		conf_text_add(why, "no memory for %zu elements", count);
		return false;
	}
	json_array_foreach(json, i, element) {
		if (load_element(value, i, element))
			continue;
		conf_text_add(why, "element %zu of data is not of %s", i,
			      kiln_dtype_name(value->dtype));
		return false;
	}
	return true;
}

enum conf_load conf_value_load(struct conf_value *value, const json_t *json,
			       struct conf_text *why)
{
	enum conf_load loaded;

	memset(value, 0, sizeof(*value));
	if (!json_is_object(json)) {
		conf_text_add(why, "a tensor is not an object");
		return CONF_MALFORMED;
	}
	loaded = conf_dtype_load(&value->dtype, json_object_get(json, "dtype"),
				 why);
	if (loaded != CONF_LOADED)
		return loaded;
	if (load_shape(value, json_object_get(json, "shape"), why) &&
	    load_data(value, json_object_get(json, "data"), why))
		return CONF_LOADED;
	conf_value_clear(value);
	return CONF_MALFORMED;
}

void conf_value_clear(struct conf_value *value)
{
	free(value->data);
	free(value->floats);
	memset(value, 0, sizeof(*value));
}

void conf_shape_print(struct conf_text *text, enum kiln_dtype dtype, int rank,
		      const int64_t *shape)
{
	int i;

	conf_text_add(text, "%s[", kiln_dtype_name(dtype));
	for (i = 0; i < rank; i++)
		conf_text_add(text, "%s%" PRId64, i ? ", " : "", shape[i]);
	conf_text_add(text, "]");
}

void conf_element_print(struct conf_text *text, enum kiln_dtype dtype,
			const void *element)
{
	struct conf_int x;
	uint32_t truth = 0;

	switch (kiln_dtype_class(dtype)) {
	case KILN_CLASS_FLOAT:
		conf_text_add(text, "%.17g", conf_float_decode(element, dtype));
		break;
	case KILN_CLASS_BOOL:
		memcpy(&truth, element, kiln_dtype_size_bytes(dtype));
		conf_text_add(text, "%s", truth == 0   ? "false"
					  : truth == 1 ? "true"
						       : "neither 0 nor 1");
		break;
	default:
		x = conf_int_decode(element, dtype);
		conf_text_add(text, "%s%" PRIu64, x.negative ? "-" : "",
			      x.magnitude);
	}
}
