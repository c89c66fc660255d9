/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

#include <stddef.h>
#include <string.h>

#include <kiln/dtype.h>

#include "kernels/cpu/ew.h"
#include "kernels/cpu/ew_convert.h"
#include "kernels/cpu/ew_memory.h"
#include "kernels/cpu/ew_ops.h"
#include "kernels/cpu/ew_random.h"

/*
 * An elementwise kernel cuts its range into tiles. Each operand of a tile is
 * memory itself where that is dense and of the compute type, else a copy of it
 * in a buffer that fits the cache; one function per op and compute type does
 * the work on dense operands (ew_ops.c), so an op is compiled once and not per
 * dtype and layout.
 */
#define TILE EW_FILL_MAX

/* Rows of the innermost axis shorter than this are collected into tiles. */
#define ROW_MIN 24

/* A result of this many bytes goes past the caches. */
#define STREAM_MIN (24ull << 20)

#define dtypes KILNI_ISA(kilni_ew_dtypes)

struct tile {
	_Alignas(64) uint64_t element[TILE];
};

struct run {
	const struct kilni_ew_params *p;
	const struct ew_dtype *out;
	const struct ew_dtype *in[3];
	ew_convert_fn *load[3];
	ew_convert_fn *convert[3];  /* to the op's type, POWI's exponent */
	ew_convert_fn *store;
	ew_convert_fn *cast;        /* CAST: instead of op */
	ew_op_fn *op;
	unsigned arity;
	unsigned out_bytes;         /* of the op's result, before store */
	unsigned in_bytes[3];       /* of the op's operands */
	int saturate;
	int stream;
	int dense[4];               /* out, in0, in1, in2 */
};

struct buffers {
	struct tile in[3];
	struct tile out;
	struct tile raw;
};

static const uint8_t type_bytes[EW_TYPES] = { 4, 8, 4, 4, 8, 8 };

enum {
	ARITY_COPY = 1,
	ARITY_CAST = 1,
	ARITY_CLAMP = 3,
	ARITY_HARD_SIGMOID = 3,
	ARITY_MASK_WHERE = 3,
	ARITY_MASK_FILL = 3,
	ARITY_FULL = 1,
	ARITY_ARANGE = 0,
	ARITY_RANDOM = 0
};

static const uint8_t arities[KILNI_OP_COUNT] = {
#define KILNI_EW1(ID, name, classes, ulp, doc) [KILNI_OP_##ID] = 1,
#define KILNI_EW2(ID, name, classes, ulp, doc) [KILNI_OP_##ID] = 2,
#define KILNI_CMP(ID, name, classes, doc) [KILNI_OP_##ID] = 2,
#define KILNI_PRED(ID, name, classes, doc) [KILNI_OP_##ID] = 1,
#define KILNI_EWX(ID, name, classes, ulp, doc) [KILNI_OP_##ID] = ARITY_##ID,
#include "kernels/ops.def"
};

static int is_mask(uint32_t op)
{
	return op == KILNI_OP_MASK_WHERE || op == KILNI_OP_MASK_FILL;
}

static int is_bool(unsigned dtype)
{
	return dtype == KILN_BOOL || dtype == KILN_BOOL_U8 ||
	       dtype == KILN_BOOL_U32;
}

static int streams(const struct kilni_ew_params *p, unsigned bytes)
{
	return !p->keep && p->count * bytes >= STREAM_MIN;
}

/* One function over whole arrays, where nothing has to be converted. */
static int run_plain(const struct kilni_ew_params *p, uint64_t begin,
		     uint64_t end)
{
	const struct ew_dtype *d = &dtypes[p->dtype[1]];
	unsigned arity = arities[p->op];
	uint64_t at = begin * d->bytes;
	ew_op_fn *op;

	if (p->scalars != 0 || !d->direct_in || arity == 0 || arity == 3 ||
	    p->dtype[0] != p->dtype[1] ||
	    (arity == 2 && p->dtype[2] != p->dtype[1]) ||
	    p->op == KILNI_OP_COPY || streams(p, d->bytes))
		return 0;
	op = KILNI_ISA(kilni_ew_ops)[p->op][d->type];
	if (op == NULL)
		return 0;
	op((char *)(uintptr_t)p->out + at, (const char *)(uintptr_t)p->in[0] + at,
	   (const char *)(uintptr_t)p->in[1] + at, NULL, end - begin);
	return 1;
}

static void set_operand(struct run *r, unsigned j, unsigned type)
{
	const struct kilni_ew_params *p = r->p;
	unsigned dtype = p->dtype[p->op == KILNI_OP_FULL ? 0 : 1 + j];
	const struct ew_dtype *d = &dtypes[dtype];

	r->in[j] = d;
	r->load[j] = KILNI_ISA(kilni_ew_load)[dtype];
	r->convert[j] = NULL;
	r->in_bytes[j] = type_bytes[type];
	if (d->type == type)
		return;
	r->convert[j] = KILNI_ISA(kilni_ew_cast)
		((enum kiln_dtype)dtype,
		 type == EW_F64 ? KILN_F64 : type == EW_F32 ? KILN_F32 :
		 type == EW_I64 ? KILN_I64 : type == EW_U64 ? KILN_U64 :
		 type == EW_I32 ? KILN_I32 : KILN_U32);
}

static void set_result(struct run *r, unsigned type)
{
	const struct kilni_ew_params *p = r->p;

	r->out = &dtypes[p->dtype[0]];
	r->store = KILNI_ISA(kilni_ew_store)[p->dtype[0]];
	r->out_bytes = type_bytes[r->out->type];
	r->cast = NULL;
	r->op = NULL;
	r->saturate = 0;
	r->stream = streams(p, r->out->bytes);
	if (p->op == KILNI_OP_CAST) {
		r->cast = KILNI_ISA(kilni_ew_cast)
			((enum kiln_dtype)p->dtype[1],
			 (enum kiln_dtype)p->dtype[0]);
		r->saturate = type == EW_F32 || type == EW_F64;
	} else if (p->op != KILNI_OP_ARANGE && p->op != KILNI_OP_RANDOM) {
		r->op = KILNI_ISA(kilni_ew_ops)[p->op][type];
	}
}

/* 0 where the op does not exist for the dtype. */
static int prepare(struct run *r, const struct kilni_ew_params *p,
		   struct buffers *b, uint64_t n)
{
	unsigned first = p->op == KILNI_OP_FULL ? 0 : 1;
	unsigned type = dtypes[p->dtype[first]].type;

	r->p = p;
	r->arity = arities[p->op];
	set_result(r, type);
	for (unsigned j = 0; j < r->arity; j++) {
		set_operand(r, j, j == 2 && is_mask(p->op) ? EW_U32 : type);
		if (p->scalars >> j & 1)
			KILNI_ISA(kilni_ew_splat)
				(&b->in[j], &p->scalar[j], n < TILE ? n : TILE,
				 r->in_bytes[j]);
	}
	return r->arity == 0 || r->op != NULL || r->cast != NULL;
}

/* Dense elements of operand j as the op takes them. */
static const void *operand(const struct run *r, struct buffers *b, unsigned j,
			   const void *from, uint64_t n)
{
	if (r->convert[j] == NULL) {
		if (r->load[j] == NULL)
			return from;
		r->load[j](&b->in[j], from, n);
		return &b->in[j];
	}
	if (r->load[j] != NULL) {
		r->load[j](&b->out, from, n);
		from = &b->out;
	}
	r->convert[j](&b->in[j], from, n);
	return &b->in[j];
}

/* n results into dense memory; they begin at element at of the whole. */
static void compute(const struct run *r, struct buffers *b, void *to,
		    const void *const in[3], uint64_t at, uint64_t n)
{
	void *result = r->store != NULL || r->stream ? &b->out : to;

	if (r->cast != NULL)
		r->cast(result, in[0], n);
	else if (r->op != NULL)
		r->op(result, in[0], in[1], in[2], n);
	else if (r->p->op == KILNI_OP_ARANGE)
		KILNI_ISA(kilni_ew_arange)(r->p, at, n, result);
	else
		KILNI_ISA(kilni_ew_random)(r->p, at, n, result);
	if (r->saturate)
		KILNI_ISA(kilni_ew_saturate)
			((enum kiln_dtype)r->p->dtype[0], result, n);
	if (r->store != NULL) {
		result = r->stream ? (void *)&b->raw : to;
		r->store(result, &b->out, n);
	}
	if (r->stream)
		KILNI_ISA(kilni_ew_stream)(to, result, n * r->out->bytes);
}

static void run_contiguous(const struct run *r, struct buffers *b,
			   uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin; i < end; i += TILE) {
		uint64_t n = end - i < TILE ? end - i : TILE;
		const void *in[3] = { NULL, NULL, NULL };

		for (unsigned j = 0; j < r->arity; j++) {
			const char *from = (const char *)(uintptr_t)r->p->in[j];

			if (r->p->scalars >> j & 1)
				in[j] = &b->in[j];
			else
				in[j] = operand(r, b, j,
						from + i * r->in[j]->bytes, n);
		}
		compute(r, b, (char *)(uintptr_t)r->p->out +
			i * r->out->bytes, in, i, n);
	}
	if (r->stream)
		KILNI_ISA(kilni_ew_stream_end)();
}

/* ---- Strided ---- */

/* A place of the walk: coordinates, and the offset of out and each operand. */
struct place {
	uint64_t at[KILNI_RANK_MAX];
	int64_t offset[4];
};

static void place_at(const struct kilni_ew_params *p, unsigned arity,
		     uint64_t index, struct place *w)
{
	memset(w->offset, 0, sizeof(w->offset));
	for (unsigned d = p->rank; d-- > 0;) {
		w->at[d] = index % p->shape[d];
		index /= p->shape[d];
		for (unsigned k = 0; k <= arity; k++)
			w->offset[k] += (int64_t)w->at[d] * p->stride[k][d];
	}
}

/* Goes n elements on; they end within the row or at its end. */
static void place_advance(const struct kilni_ew_params *p, unsigned arity,
			  struct place *w, uint64_t n)
{
	unsigned d = p->rank - 1u;

	w->at[d] += n;
	for (unsigned k = 0; k <= arity; k++)
		w->offset[k] += (int64_t)n * p->stride[k][d];
	while (w->at[d] == p->shape[d] && d > 0) {
		for (unsigned k = 0; k <= arity; k++)
			w->offset[k] += p->stride[k][d - 1] -
				(int64_t)p->shape[d] * p->stride[k][d];
		w->at[d] = 0;
		w->at[--d]++;
	}
}

static char *address(const struct run *r, unsigned k, const struct place *w)
{
	uint64_t base = k == 0 ? r->p->out : r->p->in[k - 1];
	unsigned bytes = k == 0 ? r->out->bytes : r->in[k - 1]->bytes;

	return (char *)(uintptr_t)base + w->offset[k] * (int64_t)bytes;
}

/* n elements of a row for operand j. */
static const void *row_operand(const struct run *r, struct buffers *b,
			       unsigned j, const struct place *w, uint64_t n)
{
	int64_t stride = r->p->stride[1 + j][r->p->rank - 1u];
	const void *from;

	if (r->p->scalars >> j & 1)
		return &b->in[j];
	from = address(r, 1 + j, w);
	if (stride == 1)
		return operand(r, b, j, from, n);
	if (stride == 0) {
		from = operand(r, b, j, from, 1);
		KILNI_ISA(kilni_ew_splat)(&b->in[j], from, n, r->in_bytes[j]);
		return &b->in[j];
	}
	if (r->load[j] == NULL && r->convert[j] == NULL) {
		KILNI_ISA(kilni_ew_gather_row)(&b->in[j], from, stride, n,
					       r->in[j]->bytes);
		return &b->in[j];
	}
	KILNI_ISA(kilni_ew_gather_row)(&b->raw, from, stride, n,
				       r->in[j]->bytes);
	return operand(r, b, j, &b->raw, n);
}

static void run_rows(const struct run *r, struct buffers *b, uint64_t begin,
		     uint64_t end)
{
	const struct kilni_ew_params *p = r->p;
	unsigned inner = p->rank - 1u;
	struct place w;

	place_at(p, r->arity, begin, &w);
	for (uint64_t i = begin; i < end;) {
		uint64_t n = p->shape[inner] - w.at[inner];
		const void *in[3] = { NULL, NULL, NULL };
		void *to = address(r, 0, &w);

		n = n < end - i ? n : end - i;
		n = n < TILE ? n : TILE;
		for (unsigned j = 0; j < r->arity; j++)
			in[j] = row_operand(r, b, j, &w, n);
		if (p->stride[0][inner] == 1) {
			compute(r, b, to, in, i, n);
		} else {
			compute(r, b, &b->raw, in, i, n);
			KILNI_ISA(kilni_ew_scatter_row)
				(to, &b->raw, p->stride[0][inner], n,
				 r->out->bytes);
		}
		place_advance(p, r->arity, &w, n);
		i += n;
	}
}

/* The raw elements of one operand over several short rows. */
static void collect(const struct run *r, unsigned j, struct place w, void *to,
		    uint64_t n)
{
	const struct kilni_ew_params *p = r->p;
	unsigned inner = p->rank - 1u;
	unsigned bytes = r->in[j]->bytes;
	char *out = to;

	while (n != 0) {
		uint64_t m = p->shape[inner] - w.at[inner];

		m = m < n ? m : n;
		KILNI_ISA(kilni_ew_gather_row)
			(out, address(r, 1 + j, &w), p->stride[1 + j][inner],
			 m, bytes);
		place_advance(p, r->arity, &w, m);
		out += m * bytes;
		n -= m;
	}
}

static void spread(const struct run *r, struct place *w, const void *from,
		   uint64_t n)
{
	const struct kilni_ew_params *p = r->p;
	unsigned inner = p->rank - 1u;
	const char *in = from;

	while (n != 0) {
		uint64_t m = p->shape[inner] - w->at[inner];

		m = m < n ? m : n;
		KILNI_ISA(kilni_ew_scatter_row)
			(address(r, 0, w), in, p->stride[0][inner], m,
			 r->out->bytes);
		place_advance(p, r->arity, w, m);
		in += m * r->out->bytes;
		n -= m;
	}
}

static const void *short_operand(const struct run *r, struct buffers *b,
				 unsigned j, const struct place *w, uint64_t i,
				 uint64_t n)
{
	const char *base = (const char *)(uintptr_t)r->p->in[j];

	if (r->p->scalars >> j & 1)
		return &b->in[j];
	if (r->dense[1 + j])
		return operand(r, b, j, base + i * r->in[j]->bytes, n);
	if (r->load[j] == NULL && r->convert[j] == NULL) {
		collect(r, j, *w, &b->in[j], n);
		return &b->in[j];
	}
	collect(r, j, *w, &b->raw, n);
	return operand(r, b, j, &b->raw, n);
}

static void run_short_rows(const struct run *r, struct buffers *b,
			   uint64_t begin, uint64_t end)
{
	const struct kilni_ew_params *p = r->p;
	struct place w;

	place_at(p, r->arity, begin, &w);
	for (uint64_t i = begin; i < end; i += TILE) {
		uint64_t n = end - i < TILE ? end - i : TILE;
		const void *in[3] = { NULL, NULL, NULL };
		struct place out = w;

		for (unsigned j = 0; j < r->arity; j++)
			in[j] = short_operand(r, b, j, &w, i, n);
		if (r->dense[0]) {
			compute(r, b, (char *)(uintptr_t)p->out +
				i * r->out->bytes, in, i, n);
		} else {
			compute(r, b, &b->raw, in, i, n);
			spread(r, &out, &b->raw, n);
		}
		if (i + n < end)
			place_at(p, r->arity, i + n, &w);
	}
}

static int is_dense(const struct kilni_ew_params *p, unsigned k)
{
	int64_t expected = 1;

	for (unsigned d = p->rank; d-- > 0;) {
		if (p->shape[d] != 1 && p->stride[k][d] != expected)
			return 0;
		expected *= (int64_t)p->shape[d];
	}
	return 1;
}

static void run_strided(struct run *r, struct buffers *b, uint64_t begin,
			uint64_t end)
{
	const struct kilni_ew_params *p = r->p;

	r->stream = 0;
	if (p->shape[p->rank - 1u] >= ROW_MIN || p->rank == 1) {
		run_rows(r, b, begin, end);
		return;
	}
	for (unsigned k = 0; k <= r->arity; k++)
		r->dense[k] = (k > 0 && (p->scalars >> (k - 1) & 1)) ||
			is_dense(p, k);
	run_short_rows(r, b, begin, end);
}

void KILNI_ISA(kilni_ew)(const struct kilni_ew_params *p, uint64_t begin,
			 uint64_t end)
{
	struct buffers b;
	struct run r;

	if (begin >= end || (p->contiguous && run_plain(p, begin, end)))
		return;
	if (p->op == KILNI_OP_COPY && !is_bool(p->dtype[0])) {
		KILNI_ISA(kilni_ew_copy)(p, begin, end,
					 dtypes[p->dtype[0]].bytes);
		return;
	}
	if (!prepare(&r, p, &b, end - begin))
		return;
	if (p->contiguous || p->rank == 0)
		run_contiguous(&r, &b, begin, end);
	else
		run_strided(&r, &b, begin, end);
}
