/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/shapes.h"

#include <string.h>

struct shape {
	int rank;
	int64_t size[KILN_RANK_MAX];
};

/*
 * Nothing, one, odd sizes, sizes about a vector's and a work group's length,
 * long and thin ones, all axes, and more than one worker takes.
 */
static const struct shape shapes[] = {
	{ 1, { 7 } },
	{ 2, { 17, 31 } },
	{ 3, { 4, 6, 5 } },
	{ 1, { 257 } },
	{ 2, { 3, 0 } },
	{ 2, { 129, 65 } },
	{ 1, { 1 } },
	{ 4, { 2, 3, 1, 7 } },
	{ 2, { 1, 300 } },
	{ 3, { 1, 1, 1 } },
	{ 2, { 300, 1 } },
	{ 3, { 3, 0, 2 } },
	{ 8, { 2, 1, 2, 3, 1, 2, 2, 3 } },
	{ 2, { 1031, 3 } },
	{ 3, { 5, 1, 513 } },
	{ 1, { 0 } },
	{ 2, { 2, 1025 } },
	{ 3, { 33, 16, 9 } },
	{ 1, { 65537 } },
	{ 2, { 301, 217 } },
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(*shapes)))

static const struct shape large_shapes[] = {
	{ 1, { (INT64_C(1) << 31) + 33 } },
	{ 2, { 3, ((INT64_C(1) << 31) + 5) / 3 + 1 } },
};

int64_t diff_count(int rank, const int64_t *shape)
{
	int64_t count = 1;
	int i;

	for (i = 0; i < rank; i++)
		count *= shape[i];
	return count;
}

static void set_shape(struct diff_operand *o, const struct shape *s)
{
	o->rank = s->rank;
	memcpy(o->shape, s->size, sizeof(o->shape));
}

/* Each method begins elsewhere, so that few cases each see all shapes. */
static const struct shape *base_shape(const struct diff_case *c)
{
	unsigned start = 0;
	const char *s;

	if (c->large)
		return &large_shapes[c->number % 2];
	for (s = c->method->name; *s; s++)
		start = start * 31 + (unsigned char)*s;
	return &shapes[(start + (unsigned)c->dtype * 7 + c->number) % SHAPES];
}

static bool is_op(const struct diff_case *c, const char *name)
{
	return strcmp(c->op->name, name) == 0;
}

/* ---- Elementwise: shapes that broadcast ---- */

static void thin(struct diff_operand *o, struct diff_random *r)
{
	int drop = 0, i;

	for (i = 0; i < o->rank; i++) {
		if (diff_once_in(r, 3))
			o->shape[i] = 1;
	}
	if (diff_once_in(r, 4))
		drop = (int)diff_below(r, o->rank);
	memmove(o->shape, o->shape + drop,
		(size_t)(o->rank - drop) * sizeof(*o->shape));
	o->rank -= drop;
	for (i = o->rank; i < KILN_RANK_MAX; i++)
		o->shape[i] = 0;
}

/* One per channel, or one. */
static void shape_alpha(struct diff_operand *alpha,
			const struct diff_operand *tensor,
			struct diff_random *r)
{
	memset(alpha->shape, 0, sizeof(alpha->shape));
	alpha->rank = 1;
	alpha->shape[0] = 1;
	if (diff_once_in(r, 2))
		alpha->shape[0] = tensor->shape[tensor->rank > 1];
}

static void broadcast(struct diff_case *c, struct diff_random *r)
{
	int i;

	if (is_op(c, "prelu")) {
		shape_alpha(&c->operands[1], &c->operands[0], r);
		return;
	}
	if (c->operand_count < 2 || c->large || diff_once_in(r, 2))
		return;
	for (i = 0; i < c->operand_count; i++) {
		if (diff_once_in(r, 2))
			thin(&c->operands[i], r);
	}
}

/* ---- Matrix product ---- */

static int64_t side(const struct diff_case *c, struct diff_random *r)
{
	static const int64_t sides[] = { 1, 2, 3, 5, 8, 17, 33, 64, 65, 100,
					 129, 0, 7, 16 };

	if (c->number % 8 == 7)
		return diff_between(r, 130, 300);
	return sides[diff_below(r, sizeof(sides) / sizeof(*sides))];
}

static void shape_matmul(struct diff_case *c, struct diff_random *r)
{
	struct diff_operand *a = &c->operands[0], *b = &c->operands[1];
	int batch = (int)diff_below(r, 4), i;
	int64_t k = side(c, r);

	if (c->number % 8 == 7)
		batch = 0;
	a->rank = b->rank = batch + 2;
	for (i = 0; i < batch; i++) {
		a->shape[i] = b->shape[i] = diff_between(r, 1, 3);
		if (diff_once_in(r, 4))
			a->shape[i] = 1;
		else if (diff_once_in(r, 4))
			b->shape[i] = 1;
	}
	a->shape[batch] = side(c, r);
	a->shape[batch + 1] = b->shape[batch] = k;
	b->shape[batch + 1] = side(c, r);
}

/* ---- All ---- */

void diff_choose_shapes(struct diff_case *c, struct diff_random *r)
{
	struct shape s = *base_shape(c);
	int i;

	if (s.rank == 1 && is_op(c, "transpose")) {
		s.size[s.rank++] = 3;
		if (c->large)
			s.size[1] = 1;
	}
	for (i = 0; i < c->operand_count; i++)
		set_shape(&c->operands[i], &s);
	if (is_op(c, "matmul"))
		shape_matmul(c, r);
	else if (c->op->form != KILNI_FORM_OTHER &&
		 c->op->form != KILNI_FORM_REDUCE)
		broadcast(c, r);
	/* The operand of expand has axes of size 1. */
	if (is_op(c, "expand") && !c->large)
		thin(&c->operands[0], r);
}

/* ---- Lists ---- */

static void put_list(struct conf_attr *a, int count, const int64_t *v)
{
	a->value.list.count = count;
	memcpy(a->value.list.v, v, (size_t)count * sizeof(*v));
}

static void shuffle(int64_t *v, int count, struct diff_random *r)
{
	int i;

	for (i = count - 1; i > 0; i--) {
		int j = (int)diff_below(r, i + 1);
		int64_t t = v[i];

		v[i] = v[j];
		v[j] = t;
	}
}

static void choose_axes(struct diff_case *c, struct diff_random *r,
			struct conf_attr *a)
{
	int64_t axes[KILN_RANK_MAX];
	int rank = c->operands[0].rank, i;

	for (i = 0; i < rank; i++)
		axes[i] = i;
	shuffle(axes, rank, r);
	if (is_op(c, "flip"))
		rank = (int)diff_between(r, 1, rank);
	put_list(a, rank, axes);
}

/* The same sizes in another order, two of them joined, or one axis. */
static void choose_reshape(struct diff_case *c, struct diff_random *r,
			   struct conf_attr *a)
{
	const struct diff_operand *o = &c->operands[0];
	int64_t v[KILN_RANK_MAX];
	int rank = o->rank;

	memcpy(v, o->shape, sizeof(v));
	shuffle(v, rank, r);
	if (rank > 1 && diff_once_in(r, 2)) {
		v[rank - 2] *= v[rank - 1];
		rank--;
	} else if (rank < KILN_RANK_MAX && diff_once_in(r, 2)) {
		v[rank++] = 1;
	} else if (diff_once_in(r, 2)) {
		v[0] = diff_count(rank, o->shape);
		rank = 1;
	}
	put_list(a, rank, v);
}

static void choose_expand(struct diff_case *c, struct diff_random *r,
			  struct conf_attr *a)
{
	const struct diff_operand *o = &c->operands[0];
	int64_t v[KILN_RANK_MAX];
	int before = 0, i;

	if (o->rank < KILN_RANK_MAX && !c->large)
		before = (int)diff_below(r, 2);
	v[0] = diff_between(r, 0, 3);
	for (i = 0; i < o->rank; i++) {
		v[before + i] = o->shape[i];
		if (v[before + i] == 1 && !c->large)
			v[before + i] = diff_between(r, 0, 6);
	}
	put_list(a, before + o->rank, v);
}

static void choose_slices(struct diff_case *c, struct diff_random *r,
			  struct conf_attr *a)
{
	const struct diff_operand *o = &c->operands[0];
	int i;

	a->value.slices.count = (int)diff_between(r, 1, o->rank);
	for (i = 0; i < a->value.slices.count; i++) {
		struct kiln_slice *s = &a->value.slices.v[i];
		int64_t half = o->shape[i] / 2;

		s->start = diff_between(r, 0, half);
		s->end = o->shape[i] - diff_between(r, 0, o->shape[i] / 4);
		s->step = diff_between(r, 1, 3);
		if (diff_once_in(r, 4))
			s->start = -half;
		if (diff_once_in(r, 4))
			s->end = KILN_SLICE_END;
		if (diff_once_in(r, 2))
			s->step = -s->step;
	}
}

bool diff_choose_list(struct diff_case *c, struct diff_random *r,
		      const struct conf_attr_spec *spec, struct conf_attr *a)
{
	const struct shape *s = base_shape(c);

	if (spec->kind == CONF_ATTR_SLICES)
		choose_slices(c, r, a);
	else if (strcmp(spec->name, "axes") == 0)
		choose_axes(c, r, a);
	else if (strcmp(spec->name, "shape") != 0)
		return false;
	else if (is_op(c, "reshape"))
		choose_reshape(c, r, a);
	else if (is_op(c, "expand"))
		choose_expand(c, r, a);
	else if (c->operand_count == 0)
		put_list(a, s->rank, s->size);
	else
		return false;
	return true;
}

/* ---- Shapes that follow from attributes ---- */

/* Where one end of a slice lies in an axis. */
static int64_t limited(int64_t i, int64_t size)
{
	if (i < 0)
		i += size;
	return i < 0 ? 0 : i > size ? size : i;
}

static int64_t slice_length(const struct kiln_slice *s, int64_t size)
{
	int64_t length = limited(s->end, size) - limited(s->start, size);
	int64_t step = s->step < 0 ? -s->step : s->step;

	return length <= 0 ? 0 : (length + step - 1) / step;
}

static void fit_slices(struct diff_case *c)
{
	const struct conf_attr *a = &c->attr[0];
	int i;

	for (i = 0; i < a->value.slices.count; i++)
		c->operands[1].shape[i] = slice_length(
			&a->value.slices.v[i], c->operands[0].shape[i]);
}

static int64_t picks(const struct diff_case *c, int64_t size,
		     struct diff_random *r)
{
	if (c->large)
		return size;
	return diff_below(r, size < 40 ? 2 * size + 2 : size);
}

/* Indices along an axis; slices of it where they are of rank 1. */
static void fit_indices(struct diff_case *c, struct diff_random *r)
{
	struct diff_operand *tensor = &c->operands[0];
	struct diff_operand *indices = &c->operands[1];
	struct diff_operand *value = &c->operands[2];
	int dim = (int)c->attr[0].value.i;
	int64_t length = picks(c, tensor->shape[dim], r);

	indices->limit = tensor->shape[dim];
	if (indices->limit == 0 && diff_once_in(r, 2))
		length = 0;
	if (kiln_dtype_size_bytes(indices->dtype) == 1 && indices->limit > 127)
		indices->limit = 127;
	if (c->operand_count > 2)
		value->shape[dim] = length;
	indices->shape[dim] = length;
	if (is_op(c, "select") || is_op(c, "select_assign")) {
		memset(indices->shape, 0, sizeof(indices->shape));
		indices->rank = 1;
		indices->shape[0] = length;
	}
	if (indices->layout == DIFF_EXPANDED && indices->stray)
		indices->layout = DIFF_DENSE;
}

static void fit_cat(struct diff_case *c, struct diff_random *r)
{
	int dim = (int)c->attr[0].value.i, i;

	for (i = 0; i < c->operand_count && !c->large; i++) {
		if (diff_once_in(r, 2))
			c->operands[i].shape[dim] = diff_between(r, 0, 9);
	}
}

void diff_fit_shapes(struct diff_case *c, struct diff_random *r)
{
	const struct conf_form *form = c->method->form;

	if (is_op(c, "slice_assign"))
		fit_slices(c);
	else if (form->list)
		fit_cat(c, r);
	else if (c->operand_count > 1 && c->operands[1].values == DIFF_INDEX)
		fit_indices(c, r);
}

double diff_summands(const struct diff_case *c)
{
	const struct diff_operand *first = &c->operands[0], *last;
	double n = 1;

	if (c->operand_count == 0)
		return 1;
	last = &c->operands[c->operand_count - 1];
	if (is_op(c, "matmul"))
		n = (double)first->shape[first->rank - 1];
	else if (c->attr[0].kind == CONF_ATTR_INT &&
		 c->attr[0].value.i < last->rank)
		n = (double)last->shape[c->attr[0].value.i] + 1;
	else
		n = (double)diff_count(first->rank, first->shape);
	return n < 1 ? 1 : n;
}
