/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_STREAM_STEPS_H
#define TESTS_UNIT_STREAM_STEPS_H

/* The steps of t_model_streams: what each does to the model, and with kiln. */

#include "stream_world.h"

/* ---- steps that make tensors ---- */

static bool plan_upload(struct step *s)
{
	union word *data = room(s->d);

	scattered(data, count_of(s->d), s->value, is_float(s->d));
	puts_data(s, data);
	return true;
}

static void act_upload(struct step *s)
{
	union word *data = room(s->d);

	scattered(data, count_of(s->d), s->value, is_float(s->d));
	GOOD(s, kiln_tensor_from_data(&world.tensor[s->d], world.device,
				      dtype_of(s->d), 2, SHAPE_OF(s->d), data,
				      bytes_of(s->d)));
	free(data);
}

static bool plan_full(struct step *s)
{
	union word *data = room(s->d);
	int32_t value = (int32_t)(s->value % 1000) - 500;

	for (int i = 0; i < count_of(s->d); i++)
		if (is_float(s->d))
			data[i].f = (float)value;
		else
			data[i].i = value;
	puts_data(s, data);
	return true;
}

static void act_full(struct step *s)
{
	GOOD(s, kiln_full(&world.tensor[s->d], world.device, dtype_of(s->d), 2,
			  SHAPE_OF(s->d),
			  kiln_int((int32_t)(s->value % 1000) - 500)));
}

static bool plan_foreign(struct step *s)
{
	if (!world.foreign_works)
		return plan_upload(s);
	plan_upload(s);
	model.look[s->d].store->read_only = s->value & 1;
	return true;
}

static void free_foreign(void *data, void *user)
{
	(void)user;
	/* Whoever still used it would find that. */
	memset(data, 0x55, sizeof(union word));
	free(data);
	__atomic_sub_fetch(&world.foreign, 1, __ATOMIC_ACQ_REL);
}

static void act_foreign(struct step *s)
{
	union word *data;

	if (!world.foreign_works) {
		act_upload(s);
		return;
	}
	data = room(s->d);
	scattered(data, count_of(s->d), s->value, is_float(s->d));
	__atomic_add_fetch(&world.foreign, 1, __ATOMIC_ACQ_REL);
	if (!GOOD(s, kiln_tensor_from_foreign(
			     &world.tensor[s->d], world.device, dtype_of(s->d),
			     2, SHAPE_OF(s->d), data,
			     s->value & 1 ? KILN_FOREIGN_READ_ONLY :
					    KILN_FOREIGN_WRITABLE,
			     free_foreign, NULL)))
		free_foreign(data, NULL);
}

/* ---- arithmetic ---- */

static enum arith arith_of(const struct step *s)
{
	return (enum arith)(s->value %
			    (is_float(s->d) ? (uint32_t)FLOAT_ARITHS :
					      (uint32_t)ARITHS));
}

static bool plan_binary(struct step *s)
{
	union word *a, *b;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	arith(a, a, b, count_of(s->d), arith_of(s), is_float(s->d));
	free(b);
	puts_data(s, a);
	return true;
}

typedef enum kiln_status (*binary_op)(struct kiln_tensor **,
				      struct kiln_tensor *,
				      struct kiln_tensor *);

static const binary_op binary_ops[ARITHS] = {
	[ADD] = kiln_add, [SUB] = kiln_sub, [MUL] = kiln_mul,
	[AND] = kiln_bitwise_and, [OR] = kiln_bitwise_or,
	[XOR] = kiln_bitwise_xor
};

static enum kiln_status compute(struct kiln_tensor **out,
				struct kiln_tensor *a, struct kiln_tensor *b,
				enum arith op, bool floats)
{
	KILNI_TRY(binary_ops[op](out, a, b));
	if (!floats)
		return KILN_OK;
	if (op == MUL)
		KILNI_TRY(kiln_add_scalar(out, *out, kiln_float(0)));
	return kiln_clamp(out, *out, kiln_float(-LIMIT), kiln_float(LIMIT));
}

static void act_binary(struct step *s)
{
	struct kiln_tensor **t = world.tensor;

	/* Told to lie, to see that it is found out. */
	if (world.lies && arith_of(s) == MUL)
		GOOD(s, kiln_add(&t[s->d], t[s->a], t[s->b]));
	else
		GOOD(s, compute(&t[s->d], t[s->a], t[s->b], arith_of(s),
				is_float(s->d)));
}

/* A run of elementwise ops over one temporary. */
#define CHAIN(s) (2 + (int)((s)->value >> 8) % 8)

static enum arith chain_op(const struct step *s, int i)
{
	return (enum arith)((s->value >> i) % (uint32_t)FLOAT_ARITHS);
}

static bool plan_chain(struct step *s)
{
	union word *a, *b, *x;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	x = look_copy(&model.look[s->a]);
	for (int i = 0; i < CHAIN(s); i++)
		arith(x, x, i % 2 ? a : b, count_of(s->d), chain_op(s, i),
		      is_float(s->d));
	free(a);
	free(b);
	puts_data(s, x);
	return true;
}

static void act_chain(struct step *s)
{
	struct kiln_tensor **t = world.tensor;
	struct kiln_tensor *x = kiln_tensor_retain(t[s->a]);

	for (int i = 0; i < CHAIN(s); i++)
		if (!GOOD(s, compute(&x, x, t[i % 2 ? s->a : s->b],
				     chain_op(s, i), is_float(s->d))))
			break;
	kiln_tensor_release(t[s->d]);
	t[s->d] = x;
}

/* The greater one, by a comparison and a choice. */
static bool plan_choose(struct step *s)
{
	union word *a, *b;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	for (int i = 0; i < count_of(s->d); i++)
		if (is_float(s->d) ? a[i].f < b[i].f : a[i].i < b[i].i)
			a[i] = b[i];
	free(b);
	puts_data(s, a);
	return true;
}

static void act_choose(struct step *s)
{
	struct kiln_tensor **t = world.tensor, *mask = KILN_TENSOR_NONE;

	if (GOOD(s, kiln_lower(&mask, t[s->a], t[s->b], KILN_BOOL)))
		GOOD(s, kiln_mask_where(&t[s->d], t[s->a], mask, t[s->b]));
	kiln_tensor_release(mask);
}

static bool plan_copy_into(struct step *s)
{
	struct look *d = &model.look[s->d];
	union word *from;

	if (!d->store || d->store->read_only || look_overlaps(d) ||
	    !takes(s, s->a) || !takes(s, s->d))
		return false;
	from = look_copy(&model.look[s->a]);
	look_assign(d, from);
	free(from);
	writes(s, index_of(s), &d->store->touched);
	return true;
}

static void act_copy_into(struct step *s)
{
	GOOD(s, kiln_copy_into(world.tensor[s->d], world.tensor[s->a]));
}

/* ---- views ---- */

static bool plan_share(struct step *s)
{
	if (s->d == s->a || !takes(s, s->a))
		return false;
	puts_view(s, look_again(&model.look[s->a]));
	return true;
}

static void act_share(struct step *s)
{
	struct kiln_tensor *again = kiln_tensor_retain(world.tensor[s->a]);

	kiln_tensor_release(world.tensor[s->d]);
	world.tensor[s->d] = again;
}

static bool plan_flip(struct step *s)
{
	struct look l;

	if (!takes(s, s->a))
		return false;
	l = look_again(&model.look[s->a]);
	if (s->value & 1) {
		l.at += (l.cols - 1) * l.col;
		l.col = -l.col;
	} else {
		l.at += (l.rows - 1) * l.row;
		l.row = -l.row;
	}
	puts_view(s, l);
	return true;
}

static void act_flip(struct step *s)
{
	int axis = s->value & 1;

	GOOD(s, kiln_flip(&world.tensor[s->d], world.tensor[s->a], 1, &axis));
}

/* One row for all of them. */
static bool plan_spread(struct step *s)
{
	struct look l;

	if (!takes(s, s->a))
		return false;
	l = look_again(&model.look[s->a]);
	l.at += (int)(s->value % (uint32_t)l.rows) * l.row;
	l.row = 0;
	puts_view(s, l);
	return true;
}

static void act_spread(struct step *s)
{
	struct kiln_tensor *row = KILN_TENSOR_NONE;
	int64_t at = s->value % (uint32_t)form_of(s->d)->rows;

	if (GOOD(s, kiln_slice(&row, world.tensor[s->a], 1,
			       &(struct kiln_slice){ at, at + 1, 1 })))
		GOOD(s, kiln_expand(&world.tensor[s->d], row, 2,
				    SHAPE_OF(s->d)));
	kiln_tensor_release(row);
}

/* The elements under the transposed shape, transposed. */
static bool plan_turn(struct step *s)
{
	struct look l;

	if (!takes(s, s->a) || !look_is_dense(&model.look[s->a]))
		return false;
	l = look_again(&model.look[s->a]);
	l.row = 1;
	l.col = l.rows;
	puts_view(s, l);
	return true;
}

static void act_turn(struct step *s)
{
	struct kiln_tensor *turned = KILN_TENSOR_NONE;
	const struct form *f = form_of(s->d);

	if (GOOD(s, kiln_reshape(&turned, world.tensor[s->a], 2,
				 SHAPE(f->cols, f->rows))))
		GOOD(s, kiln_transpose(&world.tensor[s->d], turned));
	kiln_tensor_release(turned);
}

/* ---- parts ---- */

static struct kiln_slice half_of(const struct step *s)
{
	int64_t cols = form_of(s->d)->cols, from = s->value % 3;

	return (struct kiln_slice){ from, from + cols / 2, 1 };
}

/* Some columns of a replaced by those of b. */
static bool plan_part(struct step *s)
{
	struct kiln_slice half = half_of(s);
	union word *a, *b;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	for (int i = 0; i < count_of(s->d); i++)
		if (i % form_of(s->d)->cols >= half.start &&
		    i % form_of(s->d)->cols < half.end)
			a[i] = b[i];
	free(b);
	puts_data(s, a);
	return true;
}

static void act_part(struct step *s)
{
	struct kiln_slice region[] = { { 0, KILN_SLICE_END, 1 }, half_of(s) };
	struct kiln_tensor **t = world.tensor, *part = KILN_TENSOR_NONE;

	if (GOOD(s, kiln_slice(&part, t[s->b], 2, region)))
		GOOD(s, kiln_slice_assign(&t[s->d], t[s->a], 2, region, part));
	kiln_tensor_release(part);
}

/* The last columns of a in front of the first ones of b. */
static bool plan_join(struct step *s)
{
	int cols = form_of(s->d)->cols, cut = (int)(s->value % (uint32_t)cols);
	union word *a, *b, *out;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	out = room(s->d);
	for (int i = 0; i < count_of(s->d); i++)
		out[i] = i % cols < cols - cut ? a[i + cut] :
						 b[i - (cols - cut)];
	free(a);
	free(b);
	puts_data(s, out);
	return true;
}

static void act_join(struct step *s)
{
	int64_t cut = s->value % (uint32_t)form_of(s->d)->cols;
	struct kiln_slice all = { 0, KILN_SLICE_END, 1 };
	struct kiln_tensor **t = world.tensor, *part[2] = { NULL, NULL };

	if (GOOD(s, kiln_slice(&part[0], t[s->a], 2,
			       (struct kiln_slice[]){
				       all, { cut, KILN_SLICE_END, 1 } })) &&
	    GOOD(s, kiln_slice(&part[1], t[s->b], 2,
			       (struct kiln_slice[]){ all, { 0, cut, 1 } })))
		GOOD(s, kiln_cat(&t[s->d], 2, part, 1));
	kiln_tensor_release(part[0]);
	kiln_tensor_release(part[1]);
}

/* ---- other kernels ---- */

/* b plus a row or a column of what a has along the other axis. */
static bool plan_sum(struct step *s)
{
	int rows = form_of(s->d)->rows, cols = form_of(s->d)->cols;
	bool along = s->value & 1;
	union word *a, *b;

	if (!takes(s, s->a) || !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	for (int k = 0; k < (along ? rows : cols); k++) {
		int count = along ? cols : rows, first = along ? k * cols : k;
		union word *line = &a[first], best = line[0];
		int step = along ? 1 : cols;

		for (int i = 1; i < count; i++)
			if (is_float(s->d))
				best.f = best.f > line[i * step].f ?
						 best.f : line[i * step].f;
			else
				best.i = arith_int(ADD, best.i,
						   line[i * step].i);
		for (int i = 0; i < count; i++)
			arith(&b[first + i * step], &b[first + i * step], &best,
			      1, ADD, is_float(s->d));
	}
	free(a);
	puts_data(s, b);
	return true;
}

static void act_sum(struct step *s)
{
	struct kiln_tensor **t = world.tensor, *line = KILN_TENSOR_NONE;
	int dim = s->value & 1 ? 1 : 0;
	enum kiln_status status = is_float(s->d) ?
					  kiln_max_dim(&line, t[s->a], dim) :
					  kiln_sum_dim(&line, t[s->a], dim);

	if (is_good(s, "reduction", status))
		GOOD(s, compute(&t[s->d], t[s->b], line, ADD, is_float(s->d)));
	kiln_tensor_release(line);
}

/* a times the transposed b times a. */
static bool plan_product(struct step *s)
{
	int m = form_of(s->d)->rows, n = form_of(s->d)->cols;
	union word *a, *b, *turned, *square;

	if (is_float(s->d) || count_of(s->d) > 5000 || !takes(s, s->a) ||
	    !takes(s, s->b))
		return false;
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	turned = room(s->d);
	square = malloc((size_t)(m * m) * sizeof(*square));
	transposed(turned, b, m, n);
	product(square, a, turned, m, n, m);
	product(b, square, a, m, m, n);
	free(a);
	free(turned);
	free(square);
	puts_data(s, b);
	return true;
}

static void act_product(struct step *s)
{
	struct kiln_tensor **t = world.tensor, *x = KILN_TENSOR_NONE;

	if (GOOD(s, kiln_transpose(&x, t[s->b])) &&
	    GOOD(s, kiln_matmul(&x, t[s->a], x)))
		GOOD(s, kiln_matmul(&t[s->d], x, t[s->a]));
	kiln_tensor_release(x);
}

/* a with rows of b added at the places of an index, some more than once. */
#define PICKED 6

static void picked(const struct step *s, int32_t *index)
{
	for (int i = 0; i < PICKED; i++)
		index[i] = (int32_t)((s->value >> i) %
				     (uint32_t)form_of(s->d)->rows);
}

static bool plan_pick(struct step *s)
{
	int cols = form_of(s->d)->cols;
	int32_t index[PICKED];
	union word *a, *b;

	if (is_float(s->d) || !takes(s, s->a) || !takes(s, s->b))
		return false;
	picked(s, index);
	a = look_copy(&model.look[s->a]);
	b = look_copy(&model.look[s->b]);
	for (int i = 0; i < PICKED; i++)
		arith(&a[index[i] * cols], &a[index[i] * cols],
		      &b[index[i] * cols], cols, ADD, false);
	free(b);
	puts_data(s, a);
	return true;
}

static void act_pick(struct step *s)
{
	struct kiln_tensor **t = world.tensor;
	struct kiln_tensor *at = KILN_TENSOR_NONE, *rows = KILN_TENSOR_NONE;
	int32_t index[PICKED];

	picked(s, index);
	if (GOOD(s, kiln_tensor_from_data(&at, world.device, KILN_I32, 1,
					  SHAPE(PICKED), index,
					  sizeof(index))) &&
	    GOOD(s, kiln_select(&rows, t[s->b], 0, at)))
		GOOD(s, kiln_select_add(&t[s->d], t[s->a], 0, at, rows));
	kiln_tensor_release(at);
	kiln_tensor_release(rows);
}

/* Columns of a that the other dtype's tensor names. */
static int other_dtype(int name)
{
	return is_float(name) ? name - NAMES_EACH : name + NAMES_EACH;
}

static bool plan_gather(struct step *s)
{
	int cols = form_of(s->d)->cols, b = other_dtype(s->b);
	union word *a, *index, *out;

	if (!is_float(s->d) || !takes(s, s->a) || !takes(s, b))
		return false;
	a = look_copy(&model.look[s->a]);
	index = look_copy(&model.look[b]);
	out = room(s->d);
	for (int i = 0; i < count_of(s->d); i++)
		out[i] = a[i / cols * cols + (index[i].i & 3)];
	free(a);
	free(index);
	puts_data(s, out);
	return true;
}

static void act_gather(struct step *s)
{
	struct kiln_tensor **t = world.tensor, *index = KILN_TENSOR_NONE;

	if (GOOD(s, kiln_bitwise_and_scalar(&index, t[other_dtype(s->b)],
					    kiln_int(3))))
		GOOD(s, kiln_gather(&t[s->d], t[s->a], 1, index));
	kiln_tensor_release(index);
}

static bool plan_convert(struct step *s)
{
	int a = other_dtype(s->a);
	union word *out;

	if (!takes(s, a))
		return false;
	out = look_copy(&model.look[a]);
	for (int i = 0; i < count_of(s->d); i++)
		if (is_float(s->d))
			out[i].f = limited((float)out[i].i);
		else
			out[i].i = (int32_t)out[i].f;
	puts_data(s, out);
	return true;
}

static void act_convert(struct step *s)
{
	struct kiln_tensor **d = &world.tensor[s->d];

	GOOD(s, kiln_cast(d, world.tensor[other_dtype(s->a)], dtype_of(s->d)));
	if (is_float(s->d))
		GOOD(s, kiln_clamp(d, *d, kiln_float(-LIMIT),
				   kiln_float(LIMIT)));
}

/* ---- ends and values ---- */

static bool plan_release(struct step *s)
{
	if (!model.look[s->d].store)
		return false;
	writes(s, index_of(s), &model.name[s->d]);
	look_drop(&model.look[s->d]);
	return true;
}

static void act_release(struct step *s)
{
	kiln_tensor_clear(&world.tensor[s->d]);
}

static bool plan_read(struct step *s)
{
	if (!takes(s, s->d))
		return false;
	s->want = look_copy(&model.look[s->d]);
	return true;
}

static void expect_words(const struct step *s, int name,
			 const union word *want)
{
	union word *have = room(name);

	if (GOOD(s, kiln_tensor_read(world.tensor[name], have,
				     bytes_of(name))))
		for (int i = 0; i < count_of(name); i++)
			if (have[i].i != want[i].i) {
				went_wrong(s, "tensor %d: element %d is "
					   "%#x in place of %#x", name, i,
					   (unsigned)have[i].i,
					   (unsigned)want[i].i);
				break;
			}
	free(have);
}

static void act_read(struct step *s)
{
	expect_words(s, s->d, s->want);
}

/* ---- streams ---- */

static int stream_of(const struct step *s)
{
	return (int)(s->value % STREAMS);
}

static bool plan_enter(struct step *s)
{
	reads(s, index_of(s), &model.stream[stream_of(s)]);
	return true;
}

static void act_enter(struct step *s)
{
	GOOD(s, kiln_stream_set_current(world.device,
					world.stream[stream_of(s)]));
}

/* A stream goes; those that work on it keep it. */
static bool plan_replace(struct step *s)
{
	writes(s, index_of(s), &model.stream[stream_of(s)]);
	return true;
}

static void act_replace(struct step *s)
{
	GOOD(s, kiln_stream_create(&world.stream[stream_of(s)],
				   world.device));
}

static int event_of(const struct step *s)
{
	return (int)(s->value / STREAMS % EVENTS);
}

static bool plan_record(struct step *s)
{
	reads(s, index_of(s), &model.stream[stream_of(s)]);
	writes(s, index_of(s), &model.event[event_of(s)]);
	model.recorded[event_of(s)] = true;
	return true;
}

static void act_record(struct step *s)
{
	GOOD(s, kiln_event_record(&world.event[event_of(s)],
				  world.stream[stream_of(s)]));
}

static bool plan_wait_for(struct step *s)
{
	reads(s, index_of(s), &model.stream[stream_of(s)]);
	reads(s, index_of(s), &model.event[event_of(s)]);
	return model.recorded[event_of(s)];
}

static void act_wait_for(struct step *s)
{
	GOOD(s, kiln_stream_wait_event(world.stream[stream_of(s)],
				       world.event[event_of(s)]));
}

static bool plan_wait(struct step *s)
{
	reads(s, index_of(s), &model.event[event_of(s)]);
	return model.recorded[event_of(s)];
}

static void act_wait(struct step *s)
{
	struct kiln_event *event = world.event[event_of(s)];

	if (GOOD(s, kiln_event_wait(event, -1)) && !kiln_event_done(event))
		went_wrong(s, "an event that was waited for is not done");
}

static bool plan_complete(struct step *s)
{
	return takes(s, s->d);
}

static void act_complete(struct step *s)
{
	__atomic_add_fetch(&world.wanted, 1, __ATOMIC_ACQ_REL);
	GOOD(s, kiln_tensor_complete(world.tensor[s->d], world.ring,
				     (uint64_t)index_of(s)));
}

/* Holds the current stream until the opener comes by. */
static bool plan_gate(struct step *s)
{
	(void)s;
	return true;
}

static void act_gate(struct step *s)
{
	int at = index_of(s), place;

	if (!GOOD(s, kilni_test_gate(world.device, &world.gate[at])))
		return;
	place = __atomic_fetch_add(&world.gate_count, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&world.gates[place], at + 1, __ATOMIC_RELEASE);
}

static bool plan_flush(struct step *s)
{
	reads(s, index_of(s), &model.stream[stream_of(s)]);
	return true;
}

static void act_flush(struct step *s)
{
	GOOD(s, kiln_stream_flush(world.stream[stream_of(s)]));
}

static bool plan_sync(struct step *s)
{
	return plan_flush(s);
}

static void act_sync(struct step *s)
{
	if (s->value % 16)
		GOOD(s, kiln_stream_sync(world.stream[stream_of(s)]));
	else
		GOOD(s, kiln_device_sync(world.device));
}

/* The thread ends; another one does what it had to do. */
static bool plan_end_thread(struct step *s)
{
	(void)s;
	return true;
}

static void act_end_thread(struct step *s)
{
	(void)s;
}

static bool plan_cleanup(struct step *s)
{
	(void)s;
	return true;
}

static void act_cleanup(struct step *s)
{
	GOOD(s, kiln_memory_cleanup(world.device));
}

#include "stream_graph.h"

static const struct step_kind {
	const char *name;
	unsigned weight;
	bool (*plan)(struct step *s);
	void (*act)(struct step *s);
} kinds[KINDS] = {
#define ROW(name, weight) { #name, weight, plan_##name, act_##name },
	STEPS(ROW)
};

#endif
