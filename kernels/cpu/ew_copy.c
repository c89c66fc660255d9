/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/ew.h"

#include <string.h>

#include "kernels/cpu/ew_memory.h"

/* A copy of this many bytes goes past the caches. */
#define STREAM_MIN (24ull << 20)

/*
 * Two axes are exchanged in blocks. Few columns, because their elements may be
 * a power of two apart and then share one set of the cache.
 */
#define BLOCK_ROWS 64u
#define BLOCK_COLUMNS 8u

struct copy {
	const struct kilni_ew_params *p;
	unsigned bytes;
	unsigned inner;
	uint64_t at[KILNI_RANK_MAX];
	int64_t out;    /* offsets in elements */
	int64_t in;
};

#define TRANSPOSE(T)                                                           \
	static void transpose_##T(T *to, const T *from, uint64_t rows,         \
				  uint64_t columns, int64_t out_row,           \
				  int64_t in_row, int64_t in_column)           \
	{                                                                      \
		for (uint64_t r = 0; r < rows; r++) {                          \
			T *o = to + (int64_t)r * out_row;                      \
			const T *i = from + (int64_t)r * in_row;               \
                                                                               \
			for (uint64_t c = 0; c < columns; c++, i += in_column) \
				o[c] = *i;                                     \
		}                                                              \
	}
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)

static char *out_at(const struct copy *c)
{
	return (char *)(uintptr_t)c->p->out + c->out * (int64_t)c->bytes;
}

static const char *in_at(const struct copy *c)
{
	return (const char *)(uintptr_t)c->p->in[0] +
		c->in * (int64_t)c->bytes;
}

static void block(const struct copy *c, uint64_t row, uint64_t column,
		   uint64_t rows, uint64_t columns)
{
	const struct kilni_ew_params *p = c->p;
	unsigned e = c->inner - 1;
	int64_t or = p->stride[0][e];
	int64_t ir = p->stride[1][e];
	int64_t ic = p->stride[1][c->inner];
	int64_t b = c->bytes;
	char *to = out_at(c) + ((int64_t)row * or + (int64_t)column) * b;
	const char *from = in_at(c) +
		((int64_t)row * ir + (int64_t)column * ic) * b;

	rows = rows < BLOCK_ROWS ? rows : BLOCK_ROWS;
	columns = columns < BLOCK_COLUMNS ? columns : BLOCK_COLUMNS;
	switch (c->bytes) {
	case 1:
		transpose_uint8_t((uint8_t *)to, (const uint8_t *)from, rows,
				  columns, or, ir, ic);
		break;
	case 2:
		transpose_uint16_t((uint16_t *)to, (const uint16_t *)from, rows,
				   columns, or, ir, ic);
		break;
	case 4:
		transpose_uint32_t((uint32_t *)to, (const uint32_t *)from, rows,
				   columns, or, ir, ic);
		break;
	default:
		transpose_uint64_t((uint64_t *)to, (const uint64_t *)from, rows,
				   columns, or, ir, ic);
		break;
	}
}

static void exchange_rows(const struct copy *c, uint64_t row, uint64_t rows)
{
	uint64_t columns = c->p->shape[c->inner];

	for (uint64_t x = 0; x < columns; x += BLOCK_COLUMNS)
		block(c, row, x, rows, columns - x);
}

static void copy_start(struct copy *c, uint64_t index)
{
	const struct kilni_ew_params *p = c->p;

	c->out = 0;
	c->in = 0;
	for (unsigned d = p->rank; d-- > 0;) {
		c->at[d] = index % p->shape[d];
		index /= p->shape[d];
		c->out += (int64_t)c->at[d] * p->stride[0][d];
		c->in += (int64_t)c->at[d] * p->stride[1][d];
	}
}

/* Goes n coordinates on along axis d; they end within it or at its end. */
static void copy_advance(struct copy *c, unsigned d, uint64_t n)
{
	const struct kilni_ew_params *p = c->p;

	c->at[d] += n;
	c->out += (int64_t)n * p->stride[0][d];
	c->in += (int64_t)n * p->stride[1][d];
	while (c->at[d] == p->shape[d] && d > 0) {
		c->out += p->stride[0][d - 1] -
			(int64_t)p->shape[d] * p->stride[0][d];
		c->in += p->stride[1][d - 1] -
			(int64_t)p->shape[d] * p->stride[1][d];
		c->at[d] = 0;
		c->at[--d]++;
	}
}

static void copy_row(const struct copy *c, uint64_t n)
{
	int64_t os = c->p->stride[0][c->inner];
	int64_t is = c->p->stride[1][c->inner];

	if (os == 1 && is == 1) {
		memcpy(out_at(c), in_at(c), n * c->bytes);
	} else if (os == 1 && is == 0) {
		KILNI_ISA(kilni_ew_splat)(out_at(c), in_at(c), n, c->bytes);
	} else if (os == 1) {
		KILNI_ISA(kilni_ew_gather_row)(out_at(c), in_at(c), is, n,
					       c->bytes);
	} else if (is == 1) {
		KILNI_ISA(kilni_ew_scatter_row)(out_at(c), in_at(c), os, n,
						c->bytes);
	} else {
		uint64_t tile[128];

		for (uint64_t i = 0; i < n; i += 128) {
			uint64_t m = n - i < 128 ? n - i : 128;
			int64_t b = c->bytes;

			KILNI_ISA(kilni_ew_gather_row)
				(tile, in_at(c) + (int64_t)i * is * b, is, m,
				 c->bytes);
			KILNI_ISA(kilni_ew_scatter_row)
				(out_at(c) + (int64_t)i * os * b, tile, os, m,
				 c->bytes);
		}
	}
}

static int64_t magnitude(int64_t x)
{
	return x < 0 ? -x : x;
}

/* Rows from here on that can be exchanged with columns, within n elements. */
static uint64_t exchangeable(const struct copy *c, uint64_t n)
{
	const struct kilni_ew_params *p = c->p;
	unsigned e = c->inner - 1;
	uint64_t rows;

	if (c->inner == 0 || c->at[c->inner] != 0 ||
	    p->stride[0][c->inner] != 1 ||
	    magnitude(p->stride[1][e]) >= magnitude(p->stride[1][c->inner]))
		return 0;
	rows = n / p->shape[c->inner];
	if (rows > p->shape[e] - c->at[e])
		rows = p->shape[e] - c->at[e];
	return rows < 4 ? 0 : rows;
}

static void copy_strided(struct copy *c, uint64_t begin, uint64_t end)
{
	const struct kilni_ew_params *p = c->p;
	uint64_t columns = p->shape[c->inner];

	copy_start(c, begin);
	for (uint64_t i = begin; i < end;) {
		uint64_t rows = exchangeable(c, end - i);
		uint64_t n = columns - c->at[c->inner];

		if (rows != 0) {
			for (uint64_t y = 0; y < rows; y += BLOCK_ROWS)
				exchange_rows(c, y, rows - y);
			copy_advance(c, c->inner - 1, rows);
			i += rows * columns;
			continue;
		}
		n = n < end - i ? n : end - i;
		copy_row(c, n);
		copy_advance(c, c->inner, n);
		i += n;
	}
}

void KILNI_ISA(kilni_ew_copy)(const struct kilni_ew_params *p, uint64_t begin,
			      uint64_t end, unsigned bytes)
{
	struct copy c = { .p = p, .bytes = bytes };
	char *to = (char *)(uintptr_t)p->out + begin * bytes;
	const char *from = (const char *)(uintptr_t)p->in[0] + begin * bytes;
	uint64_t size = (end - begin) * bytes;

	if (!p->contiguous && p->rank != 0) {
		c.inner = p->rank - 1u;
		copy_strided(&c, begin, end);
	} else if (to == from) {
		return;
	} else if (p->count * bytes >= STREAM_MIN) {
		KILNI_ISA(kilni_ew_stream)(to, from, size);
		KILNI_ISA(kilni_ew_stream_end)();
	} else {
		memcpy(to, from, size);
	}
}
