/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/differential/shapes.h"
#include "tests/differential/values.h"

/* ---- Methods and dtypes ---- */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool diff_method_compares(const struct conf_method *method)
{
	return method->form->results > 0;
}

bool diff_method_takes(const struct conf_method *method, enum kiln_dtype dtype)
{
	const struct diff_op *op = diff_op_of(method->function);
	unsigned cls = 1u << kiln_dtype_class(dtype);

	if (!op)
		return true; /* and making a case says so */
	if (begins(method->name, "float_"))
		return cls & op->classes & KILNI_CLASSES_F;
	if (begins(method->name, "int_"))
		return cls & op->classes & KILNI_CLASSES_I;
	if (begins(method->name, "bool_"))
		return cls & op->classes & KILNI_CLASSES_B;
	return cls & op->classes;
}

/* One of the dtypes of the classes that the device has. */
static enum kiln_dtype any_dtype(const struct diff_scope *scope,
				 struct diff_random *r, unsigned classes)
{
	int first = (int)diff_below(r, KILN_DTYPE_COUNT), i;

	for (i = 0; i < KILN_DTYPE_COUNT; i++) {
		enum kiln_dtype d = (enum kiln_dtype)((first + i) %
						      KILN_DTYPE_COUNT);

		if (scope->dtypes >> d & 1 &&
		    1u << kiln_dtype_class(d) & classes)
			return d;
	}
	return KILN_I32;
}

/* ---- Devices that flush denormals ---- */

bool diff_flushes(const struct diff_case *c, enum kiln_dtype dtype)
{
	if (dtype == KILN_F16)
		dtype = KILN_F32;
	return c->flushed >> dtype & 1 &&
	       kiln_dtype_class(dtype) == KILN_CLASS_FLOAT;
}

/* Whether an op has intermediate results; one with a bound has. */
static bool has_steps(const struct diff_op *op)
{
	return op->ulp > 0 || op->growth != KILNI_GROWTH_NONE ||
	       strcmp(op->name, "remainder") == 0;
}

/*
 * The least magnitude of an operand. Where there are intermediate results,
 * products of two numbers are to be normal, and the last bits of one.
 */
static double least_of(const struct diff_case *c, enum kiln_dtype dtype)
{
	double normal = diff_values_normal(dtype);

	if (dtype == KILN_F16 || !diff_flushes(c, dtype))
		return 0;
	return has_steps(c->op) ? sqrt(normal) * 8 : normal;
}

/* These multiply by an exponential, which is denormal where x is large. */
static bool scales_denormals(const struct diff_case *c)
{
	return strcmp(c->op->name, "log_sigmoid_backward") == 0 ||
	       strcmp(c->op->name, "gelu_backward") == 0;
}

/* ---- Attributes ---- */

/* What is needed to choose an attribute. */
struct maker {
	struct diff_case *c;
	const struct diff_scope *scope;
	struct diff_random *r;
};

static void choose_dtype(const struct maker *m, const char *name,
			 enum kiln_dtype *dtype)
{
	enum kilni_op_form form = m->c->op->form;
	bool index = strcmp(name, "indices_dtype") == 0 ||
		     begins(m->c->op->name, "arg");

	if (m->c->operand_count == 0)
		*dtype = m->c->dtype;
	else if (index)
		*dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_I);
	else if (form == KILNI_FORM_EWX)
		*dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_A);
	else
		*dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_B);
	/* The names of these two say the kind. */
	if (strstr(m->c->method->name, "into_int"))
		*dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_I);
	if (strstr(m->c->method->name, "into_float"))
		*dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_F);
}

static void choose_distribution(const struct maker *m,
				struct kiln_distribution *d)
{
	d->kind = (enum kiln_distribution_kind)diff_below(m->r, 4);
	switch (d->kind) {
	case KILN_RANDOM_UNIFORM:
		d->a = (double)diff_between(m->r, 0, 3);
		d->b = d->a + (double)diff_between(m->r, 1, 50);
		break;
	case KILN_RANDOM_NORMAL:
		d->a = (double)diff_between(m->r, 20, 40);
		d->b = (double)diff_between(m->r, 0, 5);
		break;
	case KILN_RANDOM_BERNOULLI:
		d->a = diff_unit(m->r);
		break;
	default:
		break;
	}
}

static void choose_int(const struct maker *m, const char *name, int64_t *i)
{
	const struct diff_operand *o = m->c->operands;

	if (begins(name, "dim"))
		*i = diff_below(m->r, o->rank);
	else if (strcmp(name, "times") == 0)
		*i = m->c->large ? 1 : diff_below(m->r, 4);
	else if (strcmp(name, "size") == 0)
		*i = diff_below(m->r, 6);
	else if (strcmp(name, "step") == 0 && m->c->operand_count == 0)
		*i = diff_once_in(m->r, 2) ? diff_between(m->r, 1, 5)
					   : -diff_between(m->r, 1, 5);
	else
		*i = diff_between(m->r, 1, 4);
}

static void choose_range(const struct maker *m, struct conf_attr *a)
{
	int64_t most = kiln_dtype_size_bytes(m->c->dtype) == 1 ? 90 : 3000;
	bool natural = kiln_dtype_class(m->c->dtype) == KILN_CLASS_UINT;

	a->value.list.count = 2;
	a->value.list.v[0] = diff_between(m->r, natural ? 0 : -most, most);
	a->value.list.v[1] = diff_between(m->r, natural ? 0 : -most, most);
}

static bool choose(const struct maker *m, const struct conf_attr_spec *spec,
		   struct conf_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->kind = spec->kind;
	a->value.i = 1;
	switch (spec->kind) {
	case CONF_ATTR_INT:
		choose_int(m, spec->name, &a->value.i);
		break;
	case CONF_ATTR_SCALAR:
		a->value.scalar = diff_values_scalar(m->r, m->c->dtype,
						     least_of(m->c,
							      m->c->dtype));
		break;
	case CONF_ATTR_DTYPE:
		choose_dtype(m, spec->name, &a->value.dtype);
		break;
	case CONF_ATTR_RANGE:
		choose_range(m, a);
		break;
	case CONF_ATTR_UPDATE:
		a->value.update = (enum kiln_update)diff_below(m->r, 5);
		break;
	case CONF_ATTR_DISTRIBUTION:
		choose_distribution(m, &a->value.distribution);
		break;
	case CONF_ATTR_LIST:
	case CONF_ATTR_SLICES:
		return diff_choose_list(m->c, m->r, spec, a);
	default:
		break;
	}
	return true;
}

/* A scalar that is an exponent of powi has to be integral. */
static void mend_powi(struct diff_case *c, struct diff_random *r)
{
	if (strcmp(c->method->function, "kiln_powi_scalar") == 0 &&
	    kiln_dtype_class(c->dtype) == KILN_CLASS_FLOAT)
		c->attr[0].value.scalar = kiln_int(diff_between(r, -9, 9));
}

/* ---- Operands ---- */

/* The dtype of a tensor parameter follows from its name and the op's. */
static void choose_operand(const struct maker *m, int i, const char *name)
{
	struct diff_operand *o = &m->c->operands[i];

	o->dtype = m->c->dtype;
	o->values = DIFF_ANY;
	o->layout = (enum diff_layout)diff_below(m->r, DIFF_LAYOUT_COUNT);
	if (diff_once_in(m->r, 3) || m->c->large)
		o->layout = DIFF_DENSE;
	if (diff_once_in(m->r, 3))
		o->values = DIFF_MODERATE;
	if (m->c->growth == KILNI_GROWTH_PROD)
		o->values = DIFF_UNITS;
	if (strcmp(name, "mask") == 0)
		o->dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_B);
	if (strcmp(name, "indices") == 0) {
		o->dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_I);
		o->values = DIFF_INDEX;
		o->stray = diff_once_in(m->r, 8) ? 2 : 0;
	}
	if (i == 1 && strcmp(m->c->op->name, "powi") == 0 &&
	    kiln_dtype_class(o->dtype) == KILN_CLASS_FLOAT) {
		o->dtype = any_dtype(m->scope, m->r, KILNI_CLASSES_I);
		o->values = DIFF_MODERATE;
	}
	if (diff_flushes(m->c, o->dtype) && scales_denormals(m->c))
		o->values = DIFF_MODERATE;
	o->least = least_of(m->c, o->dtype);
}

static void choose_operands(const struct maker *m)
{
	const struct conf_form *form = m->c->method->form;
	int i;

	while (m->c->operand_count < CONF_TENSORS_MAX &&
	       form->tensors[m->c->operand_count])
		m->c->operand_count++;
	if (form->list)
		m->c->operand_count = (int)diff_between(m->r, 1,
							CONF_TENSORS_MAX);
	for (i = 0; i < m->c->operand_count; i++)
		choose_operand(m, i, form->tensors[form->list ? 0 : i]);
}

/* The same tensor as both operands, where that can be. */
static void choose_sameness(struct diff_case *c, struct diff_random *r)
{
	struct diff_operand *o = c->operands;

	if (c->operand_count == 2 && o[0].dtype == o[1].dtype &&
	    o[0].rank == o[1].rank &&
	    memcmp(o[0].shape, o[1].shape, sizeof(o[0].shape)) == 0)
		o[1].same = diff_once_in(r, 4);
}

/* The first operand's more often than the others'. */
static void choose_place(struct diff_case *c, struct diff_random *r)
{
	c->place = -1;
	if (c->operand_count == 0 || diff_once_in(r, 2))
		return;
	c->place = 0;
	if (diff_once_in(r, 2))
		c->place = (int)diff_below(r, c->operand_count);
	if (c->operands[c->place].same)
		c->place = 0;
}

/* ---- The case ---- */

/* What the bound grows with, now that the update is known. */
static enum kilni_growth growth_of(const struct diff_case *c)
{
	int i;

	for (i = 0; i < CONF_ATTRS_MAX; i++) {
		if (c->attr[i].kind != CONF_ATTR_UPDATE)
			continue;
		switch (c->attr[i].value.update) {
		case KILN_UPDATE_ADD:
			return c->op->growth;
		case KILN_UPDATE_MUL:
			return KILNI_GROWTH_PROD;
		default:
			return KILNI_GROWTH_NONE;
		}
	}
	return c->op->growth;
}

static uint64_t seed_of(uint64_t seed, const char *id)
{
	for (; *id; id++)
		seed = diff_mix(seed ^ (unsigned char)*id) + 1;
	return seed;
}

static bool choose_attributes(const struct maker *m)
{
	const struct conf_attr_spec *spec = m->c->method->form->attrs;
	int i;

	for (i = 0; i < CONF_ATTRS_MAX; i++)
		m->c->attr[i].kind = CONF_ATTR_NONE;
	for (i = 0; spec[i].kind != CONF_ATTR_NONE; i++) {
		if (!choose(m, &spec[i], &m->c->attr[i]))
			return false;
	}
	return true;
}

bool diff_case_make(struct diff_case *c, const struct diff_scope *scope,
		    const struct conf_method *method, enum kiln_dtype dtype,
		    unsigned number)
{
	struct diff_random r;
	struct maker m = { c, scope, &r };
	int i;

	memset(c, 0, sizeof(*c));
	c->method = method;
	c->op = diff_op_of(method->function);
	c->dtype = dtype;
	c->number = number;
	c->large = scope->large;
	c->flushed = scope->flushed;
	snprintf(c->id, sizeof(c->id), "%s/%s/%u", method->name,
		 kiln_dtype_name(dtype), number);
	c->seed = seed_of(scope->seed, c->id);
	r.state = c->seed;
	if (!c->op)
		return false;
	c->growth = c->op->growth;
	choose_operands(&m);
	diff_choose_shapes(c, &r);
	if (!choose_attributes(&m))
		return false;
	mend_powi(c, &r);
	diff_fit_shapes(c, &r);
	choose_sameness(c, &r);
	c->growth = growth_of(c);
	if (c->growth == KILNI_GROWTH_PROD) {
		for (i = 0; i < c->operand_count; i++)
			if (c->operands[i].values != DIFF_INDEX)
				c->operands[i].values = DIFF_UNITS;
	}
	c->summands = diff_summands(c);
	choose_place(c, &r);
	c->index_dtype = any_dtype(scope, &r, KILNI_CLASSES_I);
	return true;
}

/* ---- Text ---- */

static const char *const layout_names[DIFF_LAYOUT_COUNT] = {
	[DIFF_DENSE] = "dense",       [DIFF_OFFSET] = "offset",
	[DIFF_TRANSPOSED] = "transposed", [DIFF_STEPPED] = "stepped",
	[DIFF_REVERSED] = "reversed", [DIFF_BACKWARDS] = "backwards",
	[DIFF_EXPANDED] = "expanded",
};

static void print_list(struct conf_text *text, const struct conf_attr *a)
{
	int i;

	for (i = 0; i < a->value.list.count; i++)
		conf_text_add(text, " %" PRId64, a->value.list.v[i]);
}

static void print_slices(struct conf_text *text, const struct conf_attr *a)
{
	int i;

	for (i = 0; i < a->value.slices.count; i++) {
		const struct kiln_slice *s = &a->value.slices.v[i];

		conf_text_add(text, " %" PRId64 ":%" PRId64 ":%" PRId64,
			      s->start, s->end, s->step);
	}
}

static void print_scalar(struct conf_text *text, const struct kiln_scalar *s)
{
	if (s->kind == KILN_SCALAR_FLOAT)
		conf_text_add(text, " %.17g", s->value.f);
	else if (s->kind == KILN_SCALAR_UINT)
		conf_text_add(text, " %" PRIu64, s->value.u);
	else if (s->kind == KILN_SCALAR_INT)
		conf_text_add(text, " %" PRId64, s->value.i);
	else
		conf_text_add(text, " %s", s->value.b ? "true" : "false");
}

static void print_attr(struct conf_text *text, const struct conf_attr *a)
{
	switch (a->kind) {
	case CONF_ATTR_INT:
		conf_text_add(text, " %" PRId64, a->value.i);
		break;
	case CONF_ATTR_SCALAR:
		print_scalar(text, &a->value.scalar);
		break;
	case CONF_ATTR_DTYPE:
		conf_text_add(text, " %s", kiln_dtype_name(a->value.dtype));
		break;
	case CONF_ATTR_LIST:
	case CONF_ATTR_RANGE:
		print_list(text, a);
		break;
	case CONF_ATTR_SLICES:
		print_slices(text, a);
		break;
	case CONF_ATTR_UPDATE:
		conf_text_add(text, " update %d", (int)a->value.update);
		break;
	case CONF_ATTR_DISTRIBUTION:
		conf_text_add(text, " distribution %d (%g, %g)",
			      (int)a->value.distribution.kind,
			      a->value.distribution.a,
			      a->value.distribution.b);
		break;
	default:
		break;
	}
}

void diff_case_print(struct conf_text *text, const struct diff_case *c)
{
	int i;

	conf_text_add(text, "%s", c->method->function);
	if (c->place >= 0)
		conf_text_add(text, " in place of operand %d", c->place);
	for (i = 0; i < c->operand_count; i++) {
		const struct diff_operand *o = &c->operands[i];

		conf_text_add(text, ", ");
		conf_shape_print(text, o->dtype, o->rank, o->shape);
		conf_text_add(text, " %s", o->same ? "the same"
						   : layout_names[o->layout]);
	}
	for (i = 0; i < CONF_ATTRS_MAX; i++) {
		if (c->attr[i].kind == CONF_ATTR_NONE)
			break;
		conf_text_add(text, ",");
		print_attr(text, &c->attr[i]);
	}
}
