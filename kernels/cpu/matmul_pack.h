/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Included once per kind, which KILNI_MM_K names: packing, rounding of sums,
 * products with a vector.
 */

#define KILNI_MM_F(name) KILNI_MM_CAT(KILNI_MM_K, name)
#define KILNI_MM_KF(name) KILNI_MM_CAT(KILNI_MM_CAT(mm, KILNI_MM_K), name)
#define KILNI_MM_STORED KILNI_MM_KF(s)
#define KILNI_MM_ELEMENT                                                       \
	KILNI_MM_CAT(mm, KILNI_MM_CAT0(KILNI_MM_COMPUTED_, KILNI_MM_K))
#define KILNI_MM_VECTOR KILNI_MM_CAT(KILNI_MM_ELEMENT, v)
#define KILNI_MM_V(name) KILNI_MM_CAT(KILNI_MM_ELEMENT, name)
#define KILNI_MM_LANES (KILNI_MM_VB / sizeof(KILNI_MM_ELEMENT))
#define KILNI_MM_NR (KILNI_MM_NV * KILNI_MM_LANES)

/* A panel of which only w of its width elements a step exist; the rest is 0. */
KILNI_MM_INLINE void KILNI_MM_F(pack_part)(unsigned width, KILNI_MM_ELEMENT *to,
					   const KILNI_MM_STORED *from,
					   int64_t side, int64_t along,
					   unsigned w, uint64_t kc)
{
	unsigned whole = side == 1 ? w / KILNI_MM_LANES * KILNI_MM_LANES : 0;
	uint64_t k;
	unsigned j;

	for (j = 0; j < whole; j += KILNI_MM_LANES)
		for (k = 0; k < kc; k++)
			KILNI_MM_V(put)(to + k * width + j, KILNI_MM_KF(loadv)(
						from + (int64_t)k * along + j));
	for (; j < w; j++)
		for (k = 0; k < kc; k++)
			to[k * width + j] = KILNI_MM_KF(load)(
				from[(int64_t)k * along + (int64_t)j * side]);
	for (; j < width; j++)
		for (k = 0; k < kc; k++)
			to[k * width + j] = 0;
}

#if KILNI_MM_TURNS
/*
 * Where steps are dense: squares of 4 by 4 are turned in registers; the sides
 * left over and the last steps go one by one.
 */
KILNI_MM_INLINE void KILNI_MM_F(pack_turned)(unsigned width,
					     KILNI_MM_ELEMENT *to,
					     const KILNI_MM_STORED *from,
					     int64_t side, uint64_t kc)
{
	uint64_t k;
	unsigned i, j;

	for (k = 0; k + 4 <= kc; k += 4, to += 4 * width, from += 4) {
		for (j = 0; j + 4 <= width; j += 4) {
			const KILNI_MM_STORED *at = from + (int64_t)j * side;

			mm_turn(to + j, width, KILNI_MM_KF(load4)(at),
				KILNI_MM_KF(load4)(at + side),
				KILNI_MM_KF(load4)(at + 2 * side),
				KILNI_MM_KF(load4)(at + 3 * side));
		}
		for (; j < width; j++)
			for (i = 0; i < 4; i++)
				to[i * width + j] = KILNI_MM_KF(load)(
					from[(int64_t)j * side + i]);
	}
	for (; k < kc; k++, to += width, from++)
		for (j = 0; j < width; j++)
			to[j] = KILNI_MM_KF(load)(from[(int64_t)j * side]);
}
#endif

/*
 * A panel: for each of kc steps the width elements side by side, zeros where
 * only w of them exist. side and along are the strides of both directions.
 */
KILNI_MM_INLINE void KILNI_MM_F(pack)(unsigned width, KILNI_MM_ELEMENT *to,
				      const KILNI_MM_STORED *from, int64_t side,
				      int64_t along, unsigned w, uint64_t kc)
{
	uint64_t k;
	unsigned j;

	if (w < width) {
		KILNI_MM_F(pack_part)(width, to, from, side, along, w, kc);
		return;
	}
	if (side == 1 && width % KILNI_MM_LANES == 0) {
		for (k = 0; k < kc; k++, to += width, from += along) {
			__builtin_prefetch(from + MM_AHEAD * along);
			for (j = 0; j < width; j += KILNI_MM_LANES)
				KILNI_MM_V(put)(to + j,
						KILNI_MM_KF(loadv)(from + j));
		}
		return;
	}
#if KILNI_MM_TURNS
	if (along == 1) {
		KILNI_MM_F(pack_turned)(width, to, from, side, kc);
		return;
	}
#endif
	for (k = 0; k < kc; k++, to += width, from += along)
		for (j = 0; j < width; j++)
			to[j] = KILNI_MM_KF(load)(from[(int64_t)j * side]);
}

static void KILNI_MM_F(pack_a)(void *to, const void *from, int64_t side,
			       int64_t along, unsigned w, uint64_t kc)
{
	KILNI_MM_F(pack)(KILNI_MM_MR, to, from, side, along, w, kc);
}

static void KILNI_MM_F(pack_b)(void *to, const void *from, int64_t side,
			       int64_t along, unsigned w, uint64_t kc)
{
	KILNI_MM_F(pack)(KILNI_MM_NR, to, from, side, along, w, kc);
}

/* Rounds rows of sums into C. */
static void KILNI_MM_F(finish)(void *to, uint64_t c_row, const void *from,
			       uint64_t sum_row, uint64_t rows, uint64_t cols)
{
	const KILNI_MM_ELEMENT *sum = from;
	KILNI_MM_STORED *c = to;
	uint64_t j;

	for (; rows; rows--, c += c_row, sum += sum_row)
		for (j = 0; j < cols; j++)
			c[j] = KILNI_MM_KF(save)(sum[j]);
}

/* Four vectors of partial sums, added up in a fixed order. */
static KILNI_MM_ELEMENT KILNI_MM_F(dot)(const KILNI_MM_STORED *from,
					const KILNI_MM_ELEMENT *x, uint64_t k)
{
	KILNI_MM_ELEMENT lane[KILNI_MM_LANES];
	KILNI_MM_ELEMENT rest = 0;
	KILNI_MM_VECTOR s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
	const uint64_t n = KILNI_MM_LANES;
	uint64_t i;

	for (; k >= 4 * n; k -= 4 * n, from += 4 * n, x += 4 * n) {
		s0 = KILNI_MM_V(mlav)(s0, KILNI_MM_KF(loadv)(from),
				      KILNI_MM_V(get)(x));
		s1 = KILNI_MM_V(mlav)(s1, KILNI_MM_KF(loadv)(from + n),
				      KILNI_MM_V(get)(x + n));
		s2 = KILNI_MM_V(mlav)(s2, KILNI_MM_KF(loadv)(from + 2 * n),
				      KILNI_MM_V(get)(x + 2 * n));
		s3 = KILNI_MM_V(mlav)(s3, KILNI_MM_KF(loadv)(from + 3 * n),
				      KILNI_MM_V(get)(x + 3 * n));
	}
	for (; k >= n; k -= n, from += n, x += n)
		s0 = KILNI_MM_V(mlav)(s0, KILNI_MM_KF(loadv)(from),
				      KILNI_MM_V(get)(x));
	for (i = 0; i < k; i++)
		rest = KILNI_MM_V(mla1)(rest, KILNI_MM_KF(load)(from[i]), x[i]);
	KILNI_MM_V(put)(lane, (s0 + s1) + (s2 + s3));
	for (k = n / 2; k; k /= 2)
		for (i = 0; i < k; i++)
			lane[i] += lane[i + k];
	return lane[0] + rest;
}

static KILNI_MM_ELEMENT KILNI_MM_F(dot_apart)(const KILNI_MM_STORED *from,
					      int64_t step,
					      const KILNI_MM_ELEMENT *x,
					      uint64_t k)
{
	KILNI_MM_ELEMENT sum = 0;
	uint64_t i;

	for (i = 0; i < k; i++, from += step)
		sum = KILNI_MM_V(mla1)(sum, KILNI_MM_KF(load)(*from), x[i]);
	return sum;
}

/* y = M x by rows of M; len is at most MM_DOT_ROWS. */
static void KILNI_MM_F(by_rows)(const struct mm_vector *v, const void *matrix,
				const void *vector, void *to, uint64_t len)
{
	KILNI_MM_ELEMENT x[MM_DOT_BLOCK];
	KILNI_MM_ELEMENT y[MM_DOT_ROWS];
	const KILNI_MM_STORED *m = matrix;
	const KILNI_MM_STORED *from = vector;
	KILNI_MM_STORED *c = to;
	uint64_t k, i, size;

	memset(y, 0, sizeof(y));
	for (k = 0; k < v->k; k += size, m += (int64_t)size * v->m_col) {
		size = v->k - k < MM_DOT_BLOCK ? v->k - k : MM_DOT_BLOCK;
		for (i = 0; i < size; i++, from += v->x_step)
			x[i] = KILNI_MM_KF(load)(*from);
		for (i = 0; i < len; i++) {
			const KILNI_MM_STORED *row = m + (int64_t)i * v->m_row;

			y[i] += v->m_col == 1 ?
				KILNI_MM_F(dot)(row, x, size) :
				KILNI_MM_F(dot_apart)(row, v->m_col, x, size);
		}
	}
	for (i = 0; i < len; i++)
		c[i] = KILNI_MM_KF(save)(y[i]);
}

/* sum += up to four columns of M, scaled. */
KILNI_MM_INLINE void KILNI_MM_F(add_columns)(unsigned count,
					     KILNI_MM_ELEMENT *sum,
					     const KILNI_MM_STORED *m,
					     int64_t m_col,
					     const KILNI_MM_ELEMENT *x,
					     uint64_t len)
{
	KILNI_MM_VECTOR v;
	KILNI_MM_ELEMENT s;
	uint64_t i;
	unsigned j;

	for (i = 0; i + KILNI_MM_LANES <= len; i += KILNI_MM_LANES) {
		v = KILNI_MM_V(get)(sum + i);
		for (j = 0; j < count; j++)
			v = KILNI_MM_V(mla)(v, x[j], KILNI_MM_KF(loadv)(
							m + j * m_col + i));
		KILNI_MM_V(put)(sum + i, v);
	}
	for (; i < len; i++) {
		s = sum[i];
		for (j = 0; j < count; j++)
			s = KILNI_MM_V(mla1)(s, x[j], KILNI_MM_KF(load)(
							m[j * m_col +
							  (int64_t)i]));
		sum[i] = s;
	}
}

/* y = M x by columns of M, which are dense; len is at most MM_AXPY_ROWS. */
static void KILNI_MM_F(by_columns)(const struct mm_vector *v,
				   const void *matrix, const void *vector,
				   void *to, uint64_t len)
{
	KILNI_MM_ELEMENT sum[MM_AXPY_ROWS];
	KILNI_MM_ELEMENT y[MM_AXPY_ROWS];
	KILNI_MM_ELEMENT x[4];
	const KILNI_MM_STORED *m = matrix;
	const KILNI_MM_STORED *from = vector;
	KILNI_MM_STORED *c = to;
	uint64_t k, i, size;
	unsigned j;

	memset(y, 0, sizeof(y));
	memset(sum, 0, sizeof(sum));
	for (k = 0; k < v->k; k += size) {
		size = v->k - k < 4 ? 1 : 4;
		for (j = 0; j < size; j++, from += v->x_step)
			x[j] = KILNI_MM_KF(load)(*from);
		if (size == 4)
			KILNI_MM_F(add_columns)(4, sum, m, v->m_col, x, len);
		else
			KILNI_MM_F(add_columns)(1, sum, m, v->m_col, x, len);
		m += (int64_t)size * v->m_col;
		if ((k + size) % MM_AXPY_BLOCK && k + size < v->k)
			continue;
		for (i = 0; i < len; i++) {
			y[i] += sum[i];
			sum[i] = 0;
		}
	}
	for (i = 0; i < len; i++)
		c[i] = KILNI_MM_KF(save)(y[i]);
}

#undef KILNI_MM_F
#undef KILNI_MM_KF
#undef KILNI_MM_STORED
#undef KILNI_MM_ELEMENT
#undef KILNI_MM_VECTOR
#undef KILNI_MM_V
#undef KILNI_MM_LANES
#undef KILNI_MM_NR
#undef KILNI_MM_TURNS
#undef KILNI_MM_K
