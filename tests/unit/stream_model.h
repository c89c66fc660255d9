/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_STREAM_MODEL_H
#define TESTS_UNIT_STREAM_MODEL_H

/*
 * What programs of tensors compute, by plain loops on host arrays: stores of
 * words that views look into, as tensors do. Nothing here knows of streams or
 * memory pools; each store and name also keeps which step of which thread
 * touched it last, from which the order of the calls follows.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

/* Steps that touched something; -1: none. */
struct touched {
	int wrote[THREADS], read[THREADS];
};

static inline void touched_init(struct touched *t)
{
	for (int i = 0; i < THREADS; i++)
		t->wrote[i] = t->read[i] = -1;
}

union word {
	int32_t i;
	float f;
};

struct store {
	int refs;
	bool read_only;
	struct touched touched;
	union word *data;
};

/* A matrix that looks into a store; strides in elements. */
struct look {
	struct store *store;       /* NULL: no tensor */
	int rows, cols;
	int at, row, col;
};

/* Exactly representable, and so are sums and products before the clamp. */
#define LIMIT 1048576

static inline union word *look_at(const struct look *l, int r, int c)
{
	return &l->store->data[l->at + r * l->row + c * l->col];
}

static inline bool look_is_dense(const struct look *l)
{
	return l->col == 1 && l->row == l->cols;
}

/* Elements lie over one another. */
static inline bool look_overlaps(const struct look *l)
{
	return (l->row == 0 && l->rows > 1) || (l->col == 0 && l->cols > 1);
}

static inline void look_drop(struct look *l)
{
	if (l->store && --l->store->refs == 0) {
		free(l->store->data);
		free(l->store);
	}
	l->store = NULL;
}

/* A dense matrix over data, which it takes over. */
static inline struct look look_new(int rows, int cols, union word *data)
{
	struct look l = { .rows = rows, .cols = cols, .row = cols, .col = 1 };

	l.store = calloc(1, sizeof(*l.store));
	l.store->refs = 1;
	l.store->data = data;
	touched_init(&l.store->touched);
	return l;
}

static inline struct look look_again(const struct look *from)
{
	struct look l = *from;

	l.store->refs++;
	return l;
}

/* Its elements, dense, row-major, for the caller to free. */
static inline union word *look_copy(const struct look *l)
{
	union word *out = malloc((size_t)l->rows * (size_t)l->cols *
				 sizeof(*out));

	for (int r = 0; r < l->rows; r++)
		for (int c = 0; c < l->cols; c++)
			out[r * l->cols + c] = *look_at(l, r, c);
	return out;
}

static inline void look_assign(const struct look *l, const union word *from)
{
	for (int r = 0; r < l->rows; r++)
		for (int c = 0; c < l->cols; c++)
			*look_at(l, r, c) = from[r * l->cols + c];
}

/* ---- arithmetic ---- */

static inline float limited(float x)
{
	return x < -LIMIT ? -LIMIT : x > LIMIT ? LIMIT : x;
}

static inline int32_t wrapped(uint32_t x)
{
	int32_t out;

	memcpy(&out, &x, sizeof(out));
	return out;
}

enum arith { ADD, SUB, MUL, AND, OR, XOR, ARITHS, FLOAT_ARITHS = AND };

static inline int32_t arith_int(enum arith op, int32_t a, int32_t b)
{
	uint32_t x = (uint32_t)a, y = (uint32_t)b;

	switch (op) {
	case ADD: return wrapped(x + y);
	case SUB: return wrapped(x - y);
	case MUL: return wrapped(x * y);
	case AND: return a & b;
	case OR: return a | b;
	default: return a ^ b;
	}
}

/*
 * Clamped, for the results to stay whole numbers; a product of 0 is never -0,
 * which a maximum could not tell from 0.
 */
static inline float arith_float(enum arith op, float a, float b)
{
	return limited(op == ADD ? a + b : op == SUB ? a - b : a * b + 0.0f);
}

static inline void arith(union word *out, const union word *a,
			 const union word *b, int count, enum arith op,
			 bool is_float)
{
	for (int i = 0; i < count; i++)
		if (is_float)
			out[i].f = arith_float(op, a[i].f, b[i].f);
		else
			out[i].i = arith_int(op, a[i].i, b[i].i);
}

/* c = a * b, b of k rows; wraps. */
static inline void product(union word *c, const union word *a,
			   const union word *b, int m, int k, int n)
{
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			uint32_t sum = 0;

			for (int p = 0; p < k; p++)
				sum += (uint32_t)a[i * k + p].i *
				       (uint32_t)b[p * n + j].i;
			c[i * n + j].i = wrapped(sum);
		}
}

static inline void transposed(union word *out, const union word *a, int rows,
			      int cols)
{
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++)
			out[c * rows + r] = a[r * cols + c];
}

/* What an upload holds: whole numbers from -512 to 511. */
static inline void scattered(union word *out, int count, uint32_t seed,
			     bool is_float)
{
	for (int i = 0; i < count; i++) {
		uint32_t x = (seed + (uint32_t)i) * UINT32_C(2654435761);
		int32_t value = (int32_t)(x >> 22) - 512;

		if (is_float)
			out[i].f = (float)value;
		else
			out[i].i = value;
	}
}

#endif
