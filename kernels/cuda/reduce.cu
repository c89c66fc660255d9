/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of one dtype (KL_DTYPE). Which elements meet in which order
 * follows from the parameters alone, so the bits are the same in every run.
 *
 * Sums of floats are kept in f64; greatest and least work on keys, integers
 * that order as the elements do, with NaN above all.
 */
#include "kernels/kl/target.h"
#include "kernels/kl/dtype.kl"
#include "kernels/kl/common.kl"
#include "kernels/kl/convert.kl"
#include "kernels/kl/storage.kl"
#include "kernels/kl/type.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/stored.cuh"

typedef const struct kilni_cuda_reduce &params;

/* ---- writing ---- */

DEVICE void put_bool(params p, u64 o, bool x)
{
	if (p.out_bytes == 4)
		KL_STORE_u32(p.out, o, x ? 1u : 0u);
	else
		KL_STORE_u8(p.out, o, x ? 1u : 0u);
}

DEVICE void put_index(params p, u64 o, u64 x)
{
	switch (p.index_bytes) {
	case 1:
		KL_STORE_u8(p.index, o, x);
		break;
	case 2:
		KL_STORE_u16(p.index, o, x);
		break;
	case 4:
		KL_STORE_u32(p.index, o, (u32)x);
		break;
	default:
		KL_STORE_u64(p.index, o, x);
		break;
	}
}

/* A float dtype from an f64, rounded once. */
#if KL_IS_FLOAT
DEVICE void put_wide(params p, u64 o, f64 x)
{
#if KL_DTYPE == 0
	KL_STORE_u64(p.out, o, kl_bits_f64(x));
#elif KL_DTYPE == 3
	KL_STORE_u16(p.out, o, kl_f16_of_f32(kl_f32_odd_f64(x)));
#elif KL_DTYPE == 4
	KL_STORE_u16(p.out, o, kl_bf16_of_f32(kl_f32_odd_f64(x)));
#else
	KL_STORE_u32(p.out, o, kl_bits_f32(kl_f32_of_f64(x)));
#endif
}
#endif

/* ---- folds: accumulator A, load, join, put; neutral ---- */

#if KL_IS_FLOAT
struct fold_sum {
	typedef f64 A;
	DEVICE A neutral() { return 0.0; }
	DEVICE A load(KL_T x) { return (f64)x; }
	DEVICE A join(A a, A b) { return a + b; }
	DEVICE void put(params p, u64 o, A a) { put_wide(p, o, a); }
};

#if KL_DTYPE == 0
/* A sum that overflows is there once more, scaled down. */
struct fold_mean {
	struct A {
		f64 plain, scaled;
	};
	DEVICE A neutral() { return A{ 0.0, 0.0 }; }
	DEVICE A load(f64 x) { return A{ x, x * 0x1p-64 }; }
	DEVICE A join(A a, A b)
	{
		return A{ a.plain + b.plain, a.scaled + b.scaled };
	}
	DEVICE bool is_finite(f64 x) { return x - x == 0.0; }
	DEVICE void put(params p, u64 o, A a)
	{
		f64 n = (f64)p.length;
		f64 mean = a.plain / n;

		if (p.length != 0 && !is_finite(mean)) {
			f64 most = 0x1.fffffffffffffp1023;
			f64 m = a.scaled / n;

			mean = m * 0x1p64;
			if (is_finite(a.scaled) && !is_finite(mean))
				mean = m > 0.0 ? most : -most;
		}
		put_wide(p, o, mean);
	}
};
#else
struct fold_mean : fold_sum {
	DEVICE void put(params p, u64 o, A a)
	{
		put_wide(p, o, a / (f64)p.length);
	}
};
#endif
#elif !KL_IS_BOOL
struct fold_sum {
	typedef KL_U A;
	DEVICE A neutral() { return 0; }
	DEVICE A load(KL_T x) { return (KL_U)x; }
	DEVICE A join(A a, A b) { return a + b; }
	DEVICE void put(params p, u64 o, A a) { KL_PUT(p.out, o, (KL_T)a); }
};

/* Signed sums are exact; unsigned ones wrap in their dtype. */
struct fold_mean {
	typedef u64 A;
	DEVICE A neutral() { return 0; }
	DEVICE A load(KL_T x) { return (u64)(i64)x; }
	DEVICE A join(A a, A b) { return a + b; }
	DEVICE void put(params p, u64 o, A a)
	{
		i64 n = (i64)p.length;

		if (n == 0)
			return;
#if KL_DTYPE == 9
		KL_PUT(p.out, o, a / (u64)n);
#elif KL_DTYPE == 10
		KL_PUT(p.out, o, (u32)((a & 0xfffffffful) / (u64)n));
#elif KL_DTYPE == 11
		KL_PUT(p.out, o, (u32)((a & 0xfffful) / (u64)n));
#elif KL_DTYPE == 12
		KL_PUT(p.out, o, (u32)((a & 0xfful) / (u64)n));
#else
		KL_PUT(p.out, o, (KL_T)((i64)a / n));
#endif
	}
};
#endif

#if !KL_IS_BOOL
struct fold_prod {
#if KL_IS_FLOAT
	typedef KL_T A;
	DEVICE A load(KL_T x) { return x; }
#else
	typedef KL_U A;
	DEVICE A load(KL_T x) { return (KL_U)x; }
#endif
	DEVICE A neutral() { return 1; }
	DEVICE A join(A a, A b) { return a * b; }
	DEVICE void put(params p, u64 o, A a) { KL_PUT(p.out, o, (KL_T)a); }
};

/* ---- greatest and least ---- */

#if KL_IS_FLOAT
#if KL_DTYPE == 0
typedef i64 key;
#define BITS(x) ((i64)kl_bits_f64(x))
#define MAKE(k) kl_make_f64((u64)(k))
#define INFINITE 0x7ff0000000000000l
#define TOP 0x7fffffffffffffffl
#define WIDTH 64
#else
typedef i32 key;
#define BITS(x) ((i32)kl_bits_f32(x))
#define MAKE(k) kl_make_f32((u32)(k))
#define INFINITE 0x7f800000
#define TOP 0x7fffffff
#define WIDTH 32
#endif
#define QUIET (INFINITE | INFINITE >> 1)

/* The zeros have the keys -1 and 0 and the same rank. */
template <bool least> struct order {
	DEVICE key of(KL_T x)
	{
		key b = BITS(x);
		key k = (b & TOP) ^ (b >> (WIDTH - 1));

		if ((b & TOP) > INFINITE)
			return TOP;
		return least ? ~k : k;
	}
	DEVICE key rank(key k) { return k < 0 ? k + 1 : k; }
	DEVICE KL_T value(key k)
	{
		if (k == TOP)
			return MAKE(QUIET);
		if (least)
			k = ~k;
		return MAKE(k < 0 ? (key)(~k | (key)((u64)1 << (WIDTH - 1)))
				  : k);
	}
	DEVICE key lowest() { return -TOP - 1; }
};
#else
typedef KL_T key;
template <bool least> struct order {
	/* The complement turns the order round, signed or not. */
	DEVICE key of(KL_T x) { return least ? (key)~x : x; }
	DEVICE key rank(key k) { return k; }
	DEVICE KL_T value(key k) { return least ? (KL_T)~k : k; }
	DEVICE key lowest()
	{
#if KL_DTYPE == 5
		return -0x7fffffffffffffffl - 1l;
#elif KL_DTYPE <= 8
		return -0x7fffffff - 1;
#else
		return 0;
#endif
	}
};
#endif

template <bool least> struct fold_best {
	typedef key A;
	DEVICE A neutral() { return order<least>::lowest(); }
	DEVICE A load(KL_T x) { return order<least>::of(x); }
	DEVICE A join(A a, A b) { return a > b ? a : b; }
	DEVICE void put(params p, u64 o, A a)
	{
		KL_PUT(p.out, o, order<least>::value(a));
	}
};

struct fold_abs {
	typedef key A;
#if KL_IS_FLOAT
	DEVICE A neutral() { return 0; }
	DEVICE A load(KL_T x) { return BITS(x) & TOP; }
	DEVICE void put(params p, u64 o, A a)
	{
		KL_PUT(p.out, o, MAKE(a > INFINITE ? (key)QUIET : a));
	}
#else
	DEVICE A neutral() { return order<false>::lowest(); }
	/* The least integer has no absolute value and stays itself. */
	DEVICE A load(KL_T x)
	{
#if KL_DTYPE == 5
		return x < 0 ? (i64)(0ul - (u64)x) : x;
#elif KL_DTYPE == 6
		return x < 0 ? (i32)(0u - (u32)x) : x;
#elif KL_DTYPE == 7 || KL_DTYPE == 8
		i32 wide = x < 0 ? -x : x;

		/* Else clang 14 takes what comes of the cast to be positive. */
		asm("" : "+r"(wide));
		return KL_DTYPE == 7 ? (int16_t)wide : (int8_t)wide;
#else
		return x;
#endif
	}
	DEVICE void put(params p, u64 o, A a) { KL_PUT(p.out, o, (KL_T)a); }
#endif
	DEVICE A join(A a, A b) { return a > b ? a : b; }
};

/* With the place of the first of the best. */
template <bool least> struct fold_at {
	struct A {
		key k;
		u64 at;
	};
	DEVICE A neutral()
	{
		return A{ order<least>::lowest(), 0xfffffffffffffffful };
	}
	DEVICE A join(A a, A b)
	{
		key x = order<least>::rank(a.k), y = order<least>::rank(b.k);

		return x > y || (x == y && a.at <= b.at) ? a : b;
	}
	DEVICE void put(params p, u64 o, A a)
	{
		if (p.out != 0)
			KL_PUT(p.out, o, order<least>::value(a.k));
		put_index(p, o, a.at);
	}
};
#endif

/* ---- truth ---- */

struct fold_any {
	typedef u32 A;
	DEVICE A neutral() { return 0; }
	DEVICE A load(KL_T x) { return x != (KL_T)0; }
	DEVICE A join(A a, A b) { return a | b; }
	DEVICE void put(params p, u64 o, A a) { put_bool(p, o, a != 0); }
};

struct fold_all : fold_any {
	DEVICE A load(KL_T x) { return x == (KL_T)0; }
	DEVICE void put(params p, u64 o, A a) { put_bool(p, o, a == 0); }
};

/* ---- what an element gives, with its place or without ---- */

template <class F> struct element {
	DEVICE typename F::A of(stored x, u64 at)
	{
		return F::load(value_of(x));
	}
};
#if !KL_IS_BOOL
template <bool least> struct element<fold_at<least>> {
	DEVICE typename fold_at<least>::A of(stored x, u64 at)
	{
		return { order<least>::of(value_of(x)), at };
	}
};
#endif

/* ---- walking ---- */

DEVICE i64 offset_of(const u64 *size, const i64 *stride, u32 rank, u64 i)
{
	i64 offset = 0;

	if (rank == 1)
		return (i64)i * stride[0];
	for (u32 d = rank; d > 0; d--) {
		u64 q = i / size[d - 1];

		offset += (i64)(i - q * size[d - 1]) * stride[d - 1];
		i = q;
	}
	return offset;
}

/* Accumulators of a thread and output; elements go to them in turn. */
#define TURNS 8
/* Elements that are read at once along a row, and such reads at a time. */
#define VECTOR (16 / (int)sizeof(stored))
#define READS (VECTOR > 4 ? 2 : 4)

template <class F> struct turns {
	typename F::A acc[TURNS];

	DEVICE void clear(turns &t)
	{
		KL_UNROLL
		for (int j = 0; j < TURNS; j++)
			t.acc[j] = F::neutral();
	}

	DEVICE void add(turns &t, int j, stored x, u64 at)
	{
		t.acc[j % TURNS] =
			F::join(t.acc[j % TURNS], element<F>::of(x, at));
	}

	DEVICE typename F::A join(turns &t)
	{
		KL_UNROLL
		for (int w = TURNS / 2; w > 0; w /= 2) {
			KL_UNROLL
			for (int j = 0; j < w; j++)
				t.acc[j] = F::join(t.acc[j], t.acc[j + w]);
		}
		return t.acc[0];
	}
};

/* VECTOR elements, at once where they are aligned. */
DEVICE run<VECTOR> read_run(const stored *x, bool aligned)
{
	run<VECTOR> r;

	if (aligned)
		return read_aligned<VECTOR>(x);
	KL_UNROLL
	for (int e = 0; e < VECTOR; e++)
		r.x[e] = x[e];
	return r;
}

/* Elements that lie side by side; lanes threads take VECTOR each in turn. */
template <class F>
DEVICE typename F::A walk_row(const stored *x, u64 at, u64 n, u32 lane,
			      u32 lanes)
{
	bool aligned = ((u64)x & 15) == 0;
	u64 whole = n / VECTOR * VECTOR;
	u64 step = (u64)lanes * VECTOR, i = (u64)lane * VECTOR;
	turns<F> t;

	turns<F>::clear(t);
	for (; i + (READS - 1) * step < whole; i += READS * step) {
		run<VECTOR> r[READS];

		KL_UNROLL
		for (int k = 0; k < READS; k++)
			r[k] = read_run(x + i + k * step, aligned);
		KL_UNROLL
		for (int k = 0; k < READS; k++) {
			KL_UNROLL
			for (int e = 0; e < VECTOR; e++)
				turns<F>::add(t, k * VECTOR + e, r[k].x[e],
					      at + i + k * step + e);
		}
	}
	for (; i < whole; i += step) {
		run<VECTOR> r = read_run(x + i, aligned);

		KL_UNROLL
		for (int e = 0; e < VECTOR; e++)
			turns<F>::add(t, e, r.x[e], at + i + e);
	}
	for (i = whole + lane; i < n; i += lanes)
		turns<F>::add(t, 0, x[i], at + i);
	return turns<F>::join(t);
}

/* The elements first, first + step, ... below end of one output. */
template <class F>
DEVICE typename F::A walk(params p, const stored *x, u64 first, u64 end,
			  u64 step)
{
	i64 stride = p.reduced_rank == 1 ? p.reduced_stride[0] : 0;
	u64 i = first;
	turns<F> t;

	turns<F>::clear(t);
	if (p.reduced_rank > 1) {
		for (; i < end; i += step)
			turns<F>::add(t, 0,
				      x[offset_of(p.reduced_size,
						  p.reduced_stride,
						  p.reduced_rank, i)],
				      i);
		return turns<F>::join(t);
	}
	for (; i + (TURNS - 1) * step < end; i += TURNS * step) {
		stored r[TURNS];

		KL_UNROLL
		for (int j = 0; j < TURNS; j++)
			r[j] = x[(i64)(i + j * step) * stride];
		KL_UNROLL
		for (int j = 0; j < TURNS; j++)
			turns<F>::add(t, j, r[j], i + j * step);
	}
	for (; i < end; i += step)
		turns<F>::add(t, 0, x[(i64)i * stride], i);
	return turns<F>::join(t);
}

/* Joins the accumulators of count threads, step apart in the block. */
template <class F>
DEVICE typename F::A join_block(typename F::A acc, typename F::A *all,
				u32 lane, u32 count, u32 step)
{
	u32 t = thread();

	all[t] = acc;
	for (u32 w = count / 2; w > 0; w /= 2) {
		__syncthreads();
		if (lane < w)
			all[t] = F::join(all[t], all[t + w * step]);
	}
	return all[t];
}

template <class F> DEVICE void reduce(params p)
{
	static SHARED char memory[BLOCK * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	typename F::A *all = (typename F::A *)memory;
	u32 per_block = BLOCK / p.lanes;
	u32 t = thread();
	u32 lane = p.columns ? t / per_block : t & (p.lanes - 1);
	u64 o = block_x() * per_block +
		(p.columns ? t & (per_block - 1) : t / p.lanes);
	u64 begin = block_y() * p.chunk;
	u64 end = p.length - begin < p.chunk ? p.length : begin + p.chunk;
	typename F::A acc = F::neutral();

	if (o < p.outputs) {
		const stored *x = (const stored *)p.in +
				  offset_of(p.kept_size, p.kept_stride,
					    p.kept_rank, o);

		acc = p.row ? walk_row<F>(x + begin, begin, end - begin, lane,
					  p.lanes)
			    : walk<F>(p, x, begin + lane, end, p.lanes);
	}
	acc = join_block<F>(acc, all, lane, p.lanes,
			    p.columns ? per_block : 1);
	if (lane != 0 || o >= p.outputs)
		return;
	if (p.chunks == 1)
		F::put(p, o, acc);
	else
		((typename F::A *)p.partial)[block_y() * p.outputs + o] = acc;
}

/* Columns, of which a thread has several side by side. */
#define COLUMNS KILNI_CUDA_COLUMNS(sizeof(stored))

template <class F> DEVICE void reduce_columns(params p)
{
	static SHARED char memory[BLOCK * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	typename F::A *all = (typename F::A *)memory;
	u32 per_block = BLOCK / p.lanes;
	u32 lane = thread() / per_block;
	u64 o = (block_x() * per_block + thread() % per_block) * COLUMNS;
	u64 begin = block_y() * p.chunk;
	u64 end = p.length - begin < p.chunk ? p.length : begin + p.chunk;
	i64 stride = p.reduced_rank == 1 ? p.reduced_stride[0] : 0;
	u64 i = begin + lane;
	turns<F> t[COLUMNS];

	KL_UNROLL
	for (int c = 0; c < COLUMNS; c++)
		turns<F>::clear(t[c]);
	if (o < p.outputs) {
		const stored *x = (const stored *)p.in +
				  offset_of(p.kept_size, p.kept_stride,
					    p.kept_rank, o);

		for (; i + (TURNS - 1) * p.lanes < end; i += TURNS * p.lanes) {
			run<COLUMNS> r[TURNS];

			KL_UNROLL
			for (int j = 0; j < TURNS; j++)
				r[j] = read_aligned<COLUMNS>(
					x + (i64)(i + j * p.lanes) * stride);
			KL_UNROLL
			for (int j = 0; j < TURNS; j++) {
				KL_UNROLL
				for (int c = 0; c < COLUMNS; c++)
					turns<F>::add(t[c], j, r[j].x[c], i);
			}
		}
		for (; i < end; i += p.lanes) {
			run<COLUMNS> r =
				read_aligned<COLUMNS>(x + (i64)i * stride);

			KL_UNROLL
			for (int c = 0; c < COLUMNS; c++)
				turns<F>::add(t[c], 0, r.x[c], i);
		}
	}
	KL_UNROLL
	for (int c = 0; c < COLUMNS; c++) {
		typename F::A acc =
			join_block<F>(turns<F>::join(t[c]), all, lane, p.lanes,
				      per_block);

		if (lane == 0 && o < p.outputs) {
			if (p.chunks == 1)
				F::put(p, o + c, acc);
			else
				((typename F::A *)p.partial)
					[block_y() * p.outputs + o + c] = acc;
		}
		__syncthreads();
	}
}

/* A block joins the chunks of one output. */
template <class F> DEVICE void finish(params p)
{
	static SHARED char memory[BLOCK * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	typename F::A *all = (typename F::A *)memory;
	const typename F::A *partial = (const typename F::A *)p.partial;
	typename F::A acc = F::neutral();
	u64 o = block_x();

	for (u32 c = thread(); c < p.chunks; c += BLOCK)
		acc = F::join(acc, partial[c * p.outputs + o]);
	acc = join_block<F>(acc, all, thread(), BLOCK, 1);
	if (thread() == 0)
		F::put(p, o, acc);
}

#define ENTRY(ID, fold)                                                        \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK)))                        \
	kl_reduce_##ID(const struct kilni_cuda_reduce p)                       \
	{                                                                      \
		reduce<fold>(p);                                               \
	}                                                                      \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK)))                        \
	kl_finish_##ID(const struct kilni_cuda_reduce p)                       \
	{                                                                      \
		finish<fold>(p);                                               \
	}

#define ENTRY_COLUMNS(ID, fold)                                                \
	ENTRY(ID, fold)                                                        \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK)))                        \
	kl_columns_##ID(const struct kilni_cuda_reduce p)                      \
	{                                                                      \
		reduce_columns<fold>(p);                                       \
	}

#if !KL_IS_BOOL
ENTRY_COLUMNS(SUM, fold_sum)
ENTRY_COLUMNS(MEAN, fold_mean)
ENTRY_COLUMNS(PROD, fold_prod)
ENTRY_COLUMNS(MAX, fold_best<false>)
ENTRY_COLUMNS(MIN, fold_best<true>)
ENTRY_COLUMNS(MAX_ABS, fold_abs)
ENTRY(MAX_AT, fold_at<false>)
ENTRY(MIN_AT, fold_at<true>)
#endif
ENTRY_COLUMNS(ANY, fold_any)
ENTRY_COLUMNS(ALL, fold_all)
