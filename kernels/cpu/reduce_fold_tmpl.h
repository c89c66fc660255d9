/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One fold, included once per kind and type. The including file defines
 *
 *   NAME        of the struct kilni_fold made here
 *   T           the stored type
 *   A           the accumulator's type, at most 8 bytes
 *   M           where it is not A: a cheaper type in which four elements can
 *               be combined
 *   LOAD(x)     a T as an M; may use the constants flip and inf
 *   OP(a, b)    combines two As, or two Ms
 *   NEUTRAL     an A that changes nothing
 *   RANK(a)     for folds that are searched: what decides between two As
 *
 * All are undefined again at the end. A fold of a row runs over LANES virtual
 * lanes, the same number on every machine.
 */
#ifndef M
#define M A
#endif
#define FN__(name, part) name##_##part
#define FN_(name, part) FN__(name, part)
#define FN(part) FN_(NAME, part)
#define LANES ((128 / sizeof(A)) > 32 ? (128 / sizeof(A)) : 32)
#define INLINE static inline __attribute__((always_inline))

INLINE M FN(load)(struct kilni_fold_constants k, T x)
{
	const A flip = (A)k.flip, inf = (A)k.inf;

	(void)flip;
	(void)inf;
	return LOAD(x);
}

INLINE A FN(op)(A a, A b)
{
	return OP(a, b);
}

INLINE M FN(pair)(M a, M b)
{
	return OP(a, b);
}

#ifdef RANK
INLINE A FN(rank)(A a)
{
	return RANK(a);
}

INLINE A FN(rank_at)(const T *x, struct kilni_fold_constants k)
{
	return FN(rank)(FN(load)(k, *x));
}
#endif

/*
 * acc[j] = acc[j] OP column j of rows rows. Where the rows lie far apart each
 * is new to the CPU's own prefetch, so the next four are asked for here.
 */
INLINE void FN(span)(const T *restrict x, size_t rows, ptrdiff_t stride,
		     size_t w, A *restrict acc, struct kilni_fold_constants k,
		     int far)
{
	size_t j;

	for (; rows >= 4; rows -= 4, x += 4 * stride) {
		const T *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;

		for (j = 0; far && rows >= 8 && j < w; j += 64 / sizeof(T)) {
			__builtin_prefetch(x + 4 * stride + j);
			__builtin_prefetch(x1 + 4 * stride + j);
			__builtin_prefetch(x2 + 4 * stride + j);
			__builtin_prefetch(x3 + 4 * stride + j);
		}
		for (j = 0; j < w; j++) {
			const M low = FN(pair)(FN(load)(k, x[j]),
					       FN(load)(k, x1[j]));
			const M high = FN(pair)(FN(load)(k, x2[j]),
						FN(load)(k, x3[j]));

			acc[j] = FN(op)(acc[j], (A)FN(pair)(low, high));
		}
	}
	for (; rows > 0; rows--, x += stride)
		for (j = 0; j < w; j++)
			acc[j] = FN(op)(acc[j], (A)FN(load)(k, x[j]));
}

static void FN(columns)(const void *x, size_t rows, ptrdiff_t stride, size_t w,
			void *acc, struct kilni_fold_constants k)
{
	FN(span)(x, rows, stride, w, acc, k, 1);
}

static A FN(long_row)(const T *x, size_t n, struct kilni_fold_constants k)
{
	A lane[LANES];
	const size_t whole = n / LANES;
	size_t j;

	for (j = 0; j < LANES; j++)
		lane[j] = NEUTRAL;
	FN(span)(x, whole, (ptrdiff_t)LANES, LANES, lane, k, 0);
	for (j = whole * LANES; j < n; j++)
		lane[j % LANES] = FN(op)(lane[j % LANES],
					 (A)FN(load)(k, x[j]));
#define HALVE_(half)                                                           \
	for (j = 0; LANES > (half) && j < (half); j++)                         \
		lane[j] = FN(op)(lane[j], lane[j + (half)])
	HALVE_(64);
	HALVE_(32);
	HALVE_(16);
	HALVE_(8);
	HALVE_(4);
	HALVE_(2);
	HALVE_(1);
#undef HALVE_
	return lane[0];
}

static A FN(short_row)(const T *x, size_t n, struct kilni_fold_constants k)
{
	A sum = NEUTRAL;
	size_t j;

	for (j = 0; j < n; j++)
		sum = FN(op)(sum, (A)FN(load)(k, x[j]));
	return sum;
}

/* acc[i] = acc[i] OP the n elements of row i. */
static void FN(rows)(const void *in, size_t rows, ptrdiff_t stride, size_t n,
		     void *accs, struct kilni_fold_constants k)
{
	const T *x = in;
	A *acc = accs;
	size_t i;

	if (n < 16)
		for (i = 0; i < rows; i++, x += stride)
			acc[i] = FN(op)(acc[i], FN(short_row)(x, n, k));
	else
		for (i = 0; i < rows; i++, x += stride)
			acc[i] = FN(op)(acc[i], FN(long_row)(x, n, k));
}

static void FN(merge)(void *accs, const void *others, size_t w)
{
	A *acc = accs;
	const A *other = others;
	size_t j;

	for (j = 0; j < w; j++)
		acc[j] = FN(op)(acc[j], other[j]);
}

static void FN(clear)(void *accs, size_t w)
{
	A *acc = accs;
	size_t j;

	for (j = 0; j < w; j++)
		acc[j] = NEUTRAL;
}

#ifdef RANK
/* First of n elements that ranks as *wanted, which is there. */
static size_t FN(find)(const void *in, size_t n, const void *wanted,
		       struct kilni_fold_constants k)
{
	const T *x = in;
	const A want = FN(rank)(*(const A *)wanted);
	size_t i = 0, j;

	for (; i + 64 <= n; i += 64) {
		A hit = 0;

		for (j = 0; j < 64; j++)
			hit |= (A)(FN(rank_at)(x + i + j, k) == want);
		if (hit)
			break;
	}
	while (i < n && FN(rank_at)(x + i, k) != want)
		i++;
	return i;
}

/* For each column that outranks acc[j]: the first row that ranks as key[j]. */
static void FN(find_few)(const T *x, size_t rows, ptrdiff_t stride, size_t w,
			 const A *acc, const A *key, uint8_t *row,
			 struct kilni_fold_constants k)
{
	size_t r, j;

	for (j = 0; j < w; j++) {
		const A want = FN(rank)(key[j]);

		if (want <= FN(rank)(acc[j]))
			continue;
		for (r = 0; r + 1 < rows; r++)
			if (FN(rank_at)(x + (ptrdiff_t)r * stride + j, k) ==
			    want)
				break;
		row[j] = (uint8_t)r;
	}
}

/* The same for all columns at once, from the last row back. */
static void FN(find_all)(const T *x, size_t rows, ptrdiff_t stride, size_t w,
			 const A *key, uint8_t *row,
			 struct kilni_fold_constants k)
{
	A at[KILNI_REDUCE_WIDTH], want[KILNI_REDUCE_WIDTH];
	size_t r, j;

	for (j = 0; j < w; j++) {
		at[j] = 0;
		want[j] = FN(rank)(key[j]);
	}
	x += (ptrdiff_t)rows * stride;
	for (r = rows; r-- > 0;) {
		x -= stride;
		for (j = 0; j < w; j++)
			at[j] = FN(rank_at)(x + j, k) == want[j] ? (A)r :
								   at[j];
	}
	for (j = 0; j < w; j++)
		row[j] = (uint8_t)at[j];
}

/*
 * row[j] for the columns whose key outranks acc[j]. At most
 * KILNI_REDUCE_COLUMN_BLOCK rows, so that a row number fits the least A.
 */
static void FN(find_columns)(const void *x, size_t rows, ptrdiff_t stride,
			     size_t w, const void *accs, const void *keys,
			     uint8_t *row, struct kilni_fold_constants k)
{
	const A *acc = accs, *key = keys;
	size_t better = 0, j;

	for (j = 0; j < w; j++)
		better += FN(rank)(key[j]) > FN(rank)(acc[j]);
	if (better * 16 > w)
		FN(find_all)(x, rows, stride, w, key, row, k);
	else if (better > 0)
		FN(find_few)(x, rows, stride, w, acc, key, row, k);
}

/* Key and first position of the greatest of n elements of each row, n > 0. */
static void FN(search_rows)(const void *in, size_t rows, ptrdiff_t stride,
			    size_t n, void *accs, uint64_t *index,
			    struct kilni_fold_constants k)
{
	const T *x = in;
	A *acc = accs;
	size_t i, j;

	for (i = 0; i < rows; i++, x += stride) {
		A best = FN(load)(k, x[0]), rank = FN(rank)(best);
		size_t at = 0;

		for (j = 1; j < n; j++) {
			const A key = FN(load)(k, x[j]);
			const int better = FN(rank)(key) > rank;

			at = better ? j : at;
			best = FN(op)(best, key);
			rank = FN(rank)(best);
		}
		acc[i] = best;
		index[i] = at;
	}
}

/*
 * Takes over what outranks acc. Whatever other stands for comes later, so
 * that equals keep their index.
 */
static void FN(outrank)(void *accs, uint64_t *index, const void *others,
			const uint64_t *other_index, size_t w)
{
	A *acc = accs;
	const A *other = others;
	size_t j;

	for (j = 0; j < w; j++) {
		if (FN(rank)(other[j]) > FN(rank)(acc[j]))
			index[j] = other_index[j];
		acc[j] = FN(op)(acc[j], other[j]);
	}
}

static int FN(outranks)(const void *acc, const void *other)
{
	return FN(rank)(*(const A *)other) > FN(rank)(*(const A *)acc);
}
#endif

static const struct kilni_fold NAME = {
	.columns = FN(columns),
	.rows = FN(rows),
	.merge = FN(merge),
	.clear = FN(clear),
#ifdef RANK
	.find = FN(find),
	.find_columns = FN(find_columns),
	.search_rows = FN(search_rows),
	.outrank = FN(outrank),
	.outranks = FN(outranks),
#endif
	.acc_bytes = sizeof(A),
	.element_bytes = sizeof(T),
};

#undef FN__
#undef FN_
#undef FN
#undef LANES
#undef INLINE
#undef NAME
#undef T
#undef A
#undef M
#undef LOAD
#undef OP
#undef NEUTRAL
#undef RANK
