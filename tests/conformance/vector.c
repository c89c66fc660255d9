/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/number.h"

/* What the readers of one case share. */
struct loader {
	struct conf_vector *vector;
	enum conf_skip *skip;
	struct conf_text *why;
};

static enum conf_load malformed(struct loader *l, const char *what,
				const char *name)
{
	conf_text_add(l->why, "%s%s%s", what, name ? " " : "",
		      name ? name : "");
	return CONF_MALFORMED;
}

/* ---- Slots ---- */

static int slot_find(const struct conf_vector *v, const char *name)
{
	int i;

	for (i = 0; i < v->slot_count; i++) {
		if (strcmp(v->slots[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* A new slot, or -1. */
static int slot_add(struct loader *l, const char *name)
{
	struct conf_vector *v = l->vector;
	struct conf_slot *slots;
	char *copy;

	if (slot_find(v, name) >= 0) {
		malformed(l, "defined twice:", name);
		return -1;
	}
	slots = realloc(v->slots, (size_t)(v->slot_count + 1) * sizeof(*slots));
	if (slots)
		v->slots = slots;
	copy = strdup(name);
	if (!slots || !copy) {
		free(copy);
		malformed(l, "no memory", NULL);
		return -1;
	}
	memset(&slots[v->slot_count], 0, sizeof(*slots));
	slots[v->slot_count].name = copy;
	slots[v->slot_count].last_step = -1;
	return v->slot_count++;
}

static enum conf_load load_value(struct loader *l, struct conf_value *value,
				 const json_t *json)
{
	enum conf_load loaded = conf_value_load(value, json, l->why);

	if (loaded == CONF_UNKNOWN)
		*l->skip = CONF_SKIP_QUANTIZED;
	return loaded;
}

static enum conf_load slot_give(struct loader *l, const char *name,
				const json_t *json)
{
	int i = slot_add(l, name);

	if (i < 0)
		return CONF_MALFORMED;
	l->vector->slots[i].given = true;
	return load_value(l, &l->vector->slots[i].start, json);
}

static enum conf_load slot_want(struct loader *l, const char *name,
				const json_t *json)
{
	int i = slot_find(l->vector, name);

	if (i < 0)
		return malformed(l, "never defined:", name);
	if (json_is_null(json))
		return CONF_LOADED;
	l->vector->slots[i].wanted = true;
	return load_value(l, &l->vector->slots[i].end, json);
}

/* ---- Steps ---- */

static enum conf_load step_add(struct loader *l, const json_t *json,
			       struct conf_step **result)
{
	struct conf_vector *v = l->vector;
	struct conf_step *steps;

	steps = realloc(v->steps, (size_t)(v->step_count + 1) * sizeof(*steps));
	if (!steps)
		return malformed(l, "no memory", NULL);
	v->steps = steps;
	*result = &steps[v->step_count++];
	memset(*result, 0, sizeof(**result));
	(*result)->method = conf_method_find(
		json_string_value(json_object_get(json, "op")));
	return CONF_LOADED;
}

static enum conf_load step_attrs(struct loader *l, struct conf_step *step,
				 const json_t *attrs)
{
	const struct conf_attr_spec *spec = step->method->form->attrs;
	enum conf_load loaded = CONF_LOADED;
	size_t known = 0;
	int i;

	for (i = 0; spec[i].kind != CONF_ATTR_NONE && loaded == CONF_LOADED;
	     i++) {
		loaded = conf_attr_load(&step->attr[i], &spec[i], attrs,
					l->why);
		known += spec[i].name != NULL;
	}
	if (loaded == CONF_UNKNOWN)
		*l->skip = CONF_SKIP_QUANTIZED;
	if (loaded == CONF_LOADED && json_object_size(attrs) != known)
		return malformed(l, "an attribute is not one of",
				 step->method->name);
	return loaded;
}

/* One operand, by the name of its slot. */
static enum conf_load step_operand(struct loader *l, struct conf_step *step,
				   const char *name)
{
	int slot = name ? slot_find(l->vector, name) : -1;
	int *in;

	if (slot < 0)
		return malformed(l, "no operand of that name:",
				 name ? name : "null");
	in = realloc(step->in, (size_t)(step->in_count + 1) * sizeof(*in));
	if (!in)
		return malformed(l, "no memory", NULL);
	step->in = in;
	in[step->in_count++] = slot;
	l->vector->slots[slot].last_step = l->vector->step_count - 1;
	return CONF_LOADED;
}

static enum conf_load step_result(struct loader *l, struct conf_step *step,
				  int n, const char *name)
{
	if (!name || n >= step->method->form->results)
		return malformed(l, "wrong results of", step->method->name);
	step->out[n] = slot_add(l, name);
	return step->out[n] < 0 ? CONF_MALFORMED : CONF_LOADED;
}

/* ---- A program: operands and results are names ---- */

static enum conf_load named_operands(struct loader *l, struct conf_step *step,
				     const json_t *in)
{
	const char *const *tensors = step->method->form->tensors;
	enum conf_load loaded = CONF_LOADED;
	size_t known = 0, j;

	for (; tensors[known] && loaded == CONF_LOADED; known++) {
		const json_t *json = json_object_get(in, tensors[known]);
		const json_t *name;

		if (!step->method->form->list) {
			loaded = step_operand(l, step, json_string_value(json));
			continue;
		}
		if (!json_is_array(json))
			return malformed(l, "not a list:", tensors[known]);
		json_array_foreach(json, j, name) {
			if (loaded == CONF_LOADED)
				loaded = step_operand(l, step,
						      json_string_value(name));
		}
	}
	if (loaded == CONF_LOADED && json_object_size(in) != known)
		return malformed(l, "an operand is not one of",
				 step->method->name);
	return loaded;
}

static enum conf_load named_results(struct loader *l, struct conf_step *step,
				    const json_t *out)
{
	size_t n = json_is_array(out) ? json_array_size(out) : 1, i;
	enum conf_load loaded = CONF_LOADED;

	if (n != (size_t)step->method->form->results)
		return malformed(l, "wrong results of", step->method->name);
	for (i = 0; i < n && loaded == CONF_LOADED; i++) {
		const json_t *name = json_is_array(out) ? json_array_get(out, i)
							: out;

		loaded = step_result(l, step, (int)i, json_string_value(name));
	}
	return loaded;
}

static enum conf_load load_step(struct loader *l, const json_t *json)
{
	struct conf_step *step;
	enum conf_load loaded = step_add(l, json, &step);

	if (loaded == CONF_LOADED)
		loaded = step_attrs(l, step, json_object_get(json, "attrs"));
	if (loaded == CONF_LOADED)
		loaded = named_operands(l, step, json_object_get(json, "in"));
	if (loaded == CONF_LOADED)
		loaded = named_results(l, step, json_object_get(json, "out"));
	return loaded;
}

/* Every member of an object of tensors; its iterators take no const. */
static enum conf_load each_tensor(struct loader *l, json_t *object,
				  enum conf_load (*use)(struct loader *,
							const char *,
							const json_t *))
{
	enum conf_load loaded = CONF_LOADED;
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value) {
		if (loaded == CONF_LOADED)
			loaded = use(l, name, value);
	}
	return loaded;
}

static enum conf_load load_program(struct loader *l, const json_t *json)
{
	const json_t *program = json_object_get(json, "program"), *step;
	enum conf_load loaded;
	size_t i;

	loaded = each_tensor(l, json_object_get(json, "in"), slot_give);
	json_array_foreach(program, i, step) {
		if (loaded == CONF_LOADED)
			loaded = load_step(l, step);
	}
	if (loaded == CONF_LOADED)
		loaded = each_tensor(l, json_object_get(json, "out"),
				     slot_want);
	return loaded;
}

/* ---- One op: operands and results are tensors ---- */

/* A tensor of the case becomes a slot that its parameter names. */
static enum conf_load give_operand(struct loader *l, const char *name,
				   const json_t *json)
{
	struct conf_step *step = l->vector->steps;
	enum conf_load loaded = slot_give(l, name, json);

	if (loaded != CONF_LOADED)
		return loaded;
	return step_operand(l, step, name);
}

static enum conf_load given_list(struct loader *l, const char *name,
				 const json_t *json)
{
	enum conf_load loaded = CONF_LOADED;
	const json_t *element;
	char member[64];
	size_t i;

	if (!json_is_array(json))
		return malformed(l, "not a list:", name);
	json_array_foreach(json, i, element) {
		if (loaded != CONF_LOADED)
			break;
		snprintf(member, sizeof(member), "%s[%zu]", name, i);
		loaded = give_operand(l, member, element);
	}
	return loaded;
}

static enum conf_load given_operands(struct loader *l, const json_t *in)
{
	const struct conf_form *form = l->vector->steps->method->form;
	enum conf_load loaded = CONF_LOADED;
	size_t i;

	for (i = 0; form->tensors[i] && loaded == CONF_LOADED; i++) {
		const json_t *json = json_object_get(in, form->tensors[i]);

		loaded = form->list ? given_list(l, form->tensors[i], json)
				    : give_operand(l, form->tensors[i], json);
	}
	if (loaded == CONF_LOADED && json_object_size(in) != i)
		return malformed(l, "an operand is not one of",
				 l->vector->steps->method->name);
	return loaded;
}

static enum conf_load wanted_results(struct loader *l, const json_t *out)
{
	struct conf_step *step = l->vector->steps;
	enum conf_load loaded = CONF_LOADED;
	char name[32];
	int i;

	if (!l->vector->expect_error &&
	    json_array_size(out) != (size_t)step->method->form->results)
		return malformed(l, "wrong results of", step->method->name);
	for (i = 0; i < step->method->form->results && loaded == CONF_LOADED;
	     i++) {
		snprintf(name, sizeof(name), "out[%d]", i);
		loaded = step_result(l, step, i, name);
		if (loaded == CONF_LOADED && !l->vector->expect_error)
			loaded = slot_want(l, name,
					   json_array_get(out, (size_t)i));
	}
	return loaded;
}

static enum conf_load load_op(struct loader *l, const json_t *json)
{
	struct conf_step *step;
	enum conf_load loaded = step_add(l, json, &step);

	if (loaded == CONF_LOADED)
		loaded = step_attrs(l, step, json_object_get(json, "attrs"));
	if (loaded == CONF_LOADED)
		loaded = given_operands(l, json_object_get(json, "in"));
	if (loaded == CONF_LOADED)
		loaded = wanted_results(l, json_object_get(json, "out"));
	return loaded;
}

/* ---- The case ---- */

/* Whether a method is built; its tensors may be of no known kind if not. */
static enum conf_load check_method(struct loader *l, const json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "op"));

	if (!name)
		return malformed(l, "\"op\" is missing or not a string", NULL);
	if (conf_method_find(name))
		return CONF_LOADED;
	*l->skip = CONF_SKIP_METHOD;
	conf_text_add(l->why, "%s", name);
	return CONF_UNKNOWN;
}

static enum conf_load check_methods(struct loader *l, const json_t *json)
{
	const json_t *program = json_object_get(json, "program"), *step;
	enum conf_load loaded = CONF_LOADED;
	size_t i;

	if (!program)
		return check_method(l, json);
	if (json_array_size(program) == 0)
		return malformed(l, "\"program\" is not a list of steps", NULL);
	json_array_foreach(program, i, step) {
		if (loaded == CONF_LOADED)
			loaded = check_method(l, step);
	}
	return loaded;
}

static enum conf_load load_tolerance(struct loader *l, const json_t *json)
{
	const json_t *rtol = json_object_get(json, "rtol");
	const json_t *atol = json_object_get(json, "atol");
	struct conf_tolerance *t = &l->vector->tolerance;

	if ((rtol && !json_is_number(rtol)) || (atol && !json_is_number(atol)))
		return malformed(l, "\"rtol\" or \"atol\" is not a number",
				 NULL);
	t->rtol = json_number_value(rtol);
	t->atol = json_number_value(atol);
	return CONF_LOADED;
}

static enum conf_load load_head(struct loader *l, const json_t *json)
{
	const char *id = json_string_value(json_object_get(json, "id"));
	const json_t *expect = json_object_get(json, "expect");

	if (!id)
		return malformed(l, "\"id\" is missing or not a string", NULL);
	l->vector->id = strdup(id);
	if (!l->vector->id)
		return malformed(l, "no memory", NULL);
	if (expect && (!json_is_string(expect) ||
		       strcmp(json_string_value(expect), "error") != 0))
		return malformed(l, "\"expect\" is not \"error\"", NULL);
	l->vector->expect_error = expect != NULL;
	if (json_object_get(json, "requires_grad")) {
		*l->skip = CONF_SKIP_AUTODIFF;
		return CONF_UNKNOWN;
	}
	return CONF_LOADED;
}

enum conf_load conf_vector_load(struct conf_vector *vector,
				const json_t *json, enum conf_skip *skip,
				struct conf_text *why)
{
	struct loader l = { vector, skip, why };
	enum conf_load loaded;

	memset(vector, 0, sizeof(*vector));
	if (!json_is_object(json))
		return malformed(&l, "a case is not an object", NULL);
	loaded = load_head(&l, json);
	if (loaded == CONF_LOADED)
		loaded = check_methods(&l, json);
	if (loaded == CONF_LOADED)
		loaded = load_tolerance(&l, json);
	if (loaded != CONF_LOADED)
		return loaded;
	return json_object_get(json, "program") ? load_program(&l, json)
						: load_op(&l, json);
}

void conf_vector_clear(struct conf_vector *vector)
{
	int i;

	for (i = 0; i < vector->slot_count; i++) {
		free(vector->slots[i].name);
		conf_value_clear(&vector->slots[i].start);
		conf_value_clear(&vector->slots[i].end);
	}
	for (i = 0; i < vector->step_count; i++)
		free(vector->steps[i].in);
	free(vector->slots);
	free(vector->steps);
	free(vector->id);
	memset(vector, 0, sizeof(*vector));
}

static bool out_of_range(const struct conf_value *indices, int64_t size)
{
	size_t bytes = kiln_dtype_size_bytes(indices->dtype);
	int64_t i;

	for (i = 0; i < indices->count; i++) {
		struct conf_int x = conf_int_decode(
			indices->data + (size_t)i * bytes, indices->dtype);

		if (x.negative || x.magnitude >= (uint64_t)size)
			return true;
	}
	return false;
}

bool conf_vector_index_error(const struct conf_vector *vector)
{
	const struct conf_step *step = &vector->steps[vector->step_count - 1];
	const struct conf_form *form = step->method->form;
	const struct conf_value *tensor, *indices;
	int64_t dim = step->attr[0].value.i;

	if (!form->tensors[0] || !form->tensors[1] ||
	    strcmp(form->tensors[1], "indices") != 0)
		return false;
	tensor = &vector->slots[step->in[0]].start;
	indices = &vector->slots[step->in[1]].start;
	return tensor->data && indices->data && dim >= 0 &&
	       dim < tensor->rank &&
	       kiln_dtype_class(indices->dtype) != KILN_CLASS_FLOAT &&
	       kiln_dtype_class(indices->dtype) != KILN_CLASS_BOOL &&
	       out_of_range(indices, tensor->shape[dim]);
}
