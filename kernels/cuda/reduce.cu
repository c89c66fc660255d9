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

/* ---- places ---- */

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

/* The zeros have the keys -1 and 0 and the rank 0. */
template <bool least> struct order {
	DEVICE key of(KL_T x)
	{
		key b = BITS(x);
		key k = (b & TOP) ^ (b >> (WIDTH - 1));

		if ((b & TOP) > INFINITE)
			return TOP;
		return least ? ~k : k;
	}
	DEVICE key rank(KL_T x)
	{
		key b = BITS(x);
		key s = least ? ~(b >> (WIDTH - 1)) : b >> (WIDTH - 1);
		key m = b & TOP;

		return m > INFINITE ? TOP : (m ^ s) - s;
	}
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
	DEVICE key rank(KL_T x) { return of(x); }
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

/*
 * The place of the first of the best. Its value is read again in the end, for
 * ranks do not tell the zeros apart.
 */
template <bool least> struct fold_at {
	struct A {
		key rank;
		u64 at;
	};
	DEVICE A neutral()
	{
		return A{ order<least>::lowest(), 0xfffffffffffffffful };
	}
	DEVICE A join(A a, A b)
	{
		return a.rank > b.rank || (a.rank == b.rank && a.at <= b.at)
			       ? a
			       : b;
	}
	DEVICE void put(params p, u64 o, A a)
	{
		i64 stride = p.reduced_rank ? p.reduced_stride[0] : 0;
		key k = order<least>::lowest();

		put_index(p, o, a.at);
		if (p.out == 0)
			return;
		if (a.at < p.length)
			k = order<least>::of(value_of(((const stored *)p.in)
				[offset_of(p.kept_size, p.kept_stride,
					   p.kept_rank, o) +
				 (i64)a.at * stride]));
		KL_PUT(p.out, o, order<least>::value(k));
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

/* ---- walking ---- */

/* Accumulators of a thread and output; elements go to them in turn. */
#define TURNS 8
/* Elements that are read at once along a row, and such reads at a time. */
#define VECTOR (16 / (int)sizeof(stored))
#define READS (VECTOR > 8 ? 2 : 4)
/* Reads after which the accumulators come again. */
#define CYCLE (VECTOR < TURNS ? TURNS / VECTOR : 1)

template <class F, int N = TURNS> struct turns {
	typename F::A acc[N];

	DEVICE void clear(turns &t)
	{
		KL_UNROLL
		for (int j = 0; j < N; j++)
			t.acc[j] = F::neutral();
	}

	/* at: from where the chunk begins, of at most 2^31 elements or so. */
	DEVICE void add(turns &t, int j, stored x, u32 at)
	{
		t.acc[j % N] = F::join(t.acc[j % N], F::load(value_of(x)));
	}

	DEVICE typename F::A join(turns &t, u64 begin)
	{
		KL_UNROLL
		for (int w = N / 2; w > 0; w /= 2) {
			KL_UNROLL
			for (int j = 0; j < w; j++)
				t.acc[j] = F::join(t.acc[j], t.acc[j + w]);
		}
		return t.acc[0];
	}
};

#if !KL_IS_BOOL
/*
 * An accumulator meets its elements in order: only a better one counts. One
 * that meets none better than the lowest holds the chunk's first element.
 */
template <bool least, int N> struct turns<fold_at<least>, N> {
	key rank[N];
	u32 at[N];

	DEVICE void clear(turns &t)
	{
		KL_UNROLL
		for (int j = 0; j < N; j++) {
			t.rank[j] = order<least>::lowest();
			t.at[j] = 0;
		}
	}

	DEVICE void add(turns &t, int j, stored x, u32 at)
	{
		key rank = order<least>::rank(value_of(x));
		bool better = rank > t.rank[j % N];

		t.rank[j % N] = better ? rank : t.rank[j % N];
		t.at[j % N] = better ? at : t.at[j % N];
	}

	DEVICE typename fold_at<least>::A join(turns &t, u64 begin)
	{
		typename fold_at<least>::A a = { t.rank[0], t.at[0] };

		KL_UNROLL
		for (int j = 1; j < N; j++)
			a = fold_at<least>::join(a, { t.rank[j], t.at[j] });
		a.at += begin;
		return a;
	}
};
#endif

/* VECTOR elements that may not be aligned. */
DEVICE run<VECTOR> read_each(const stored *x)
{
	run<VECTOR> r;

	KL_UNROLL
	for (int e = 0; e < VECTOR; e++)
		r.x[e] = x[e];
	return r;
}

/* N reads of a thread, step apart, from the element i on. */
template <class F, int N, bool ALIGNED>
DEVICE void add_reads(turns<F> &t, const stored *x, u32 i, u32 step)
{
	run<VECTOR> r[N];

	x += i;
	KL_UNROLL
	for (int k = 0; k < N; k++)
		r[k] = ALIGNED ? read_aligned<VECTOR>(x + k * step)
			       : read_each(x + k * step);
	KL_UNROLL
	for (int k = 0; k < N; k++) {
		KL_UNROLL
		for (int e = 0; e < VECTOR; e++)
			turns<F>::add(t, k * VECTOR + e, r[k].x[e],
				      i + k * step + e);
	}
}

/*
 * The n elements of a chunk that lie side by side; lanes threads take VECTOR
 * each in turn. The same accumulators meet the same elements in the same order
 * whether they are aligned or not.
 */
template <class F>
DEVICE typename F::A walk_row(const stored *x, u64 begin, u32 n, u32 lane,
			      u32 lanes)
{
	u32 whole = n / VECTOR * VECTOR;
	u32 step = lanes * VECTOR;
	u32 i = lane * VECTOR;
	turns<F> t;

	turns<F>::clear(t);
	if (((u64)x & 15) == 0) {
		for (; i + (READS - 1) * step < whole; i += READS * step)
			add_reads<F, READS, true>(t, x, i, step);
	}
	for (; i + (CYCLE - 1) * step < whole; i += CYCLE * step)
		add_reads<F, CYCLE, false>(t, x, i, step);
	for (; i < whole; i += step)
		add_reads<F, 1, false>(t, x, i, step);
	for (i = whole + lane; i < n; i += lanes)
		turns<F>::add(t, 0, x[i], i);
	return turns<F>::join(t, begin);
}

/* The same of elements that lie apart, one read each. */
#define FAR_TURNS 2
#define FAR_READS 8

/* The elements begin + lane, begin + lane + step, ... of one output. */
template <class F>
DEVICE typename F::A walk(params p, const stored *x, u64 begin, u64 end,
			  u32 lane, u64 step)
{
	typedef turns<F, FAR_TURNS> far;
	i64 stride = p.reduced_rank == 1 ? p.reduced_stride[0] : 0;
	u64 i = begin + lane;
	far t;

	far::clear(t);
	if (p.reduced_rank > 1) {
		for (; i < end; i += step)
			far::add(t, 0,
				 x[offset_of(p.reduced_size, p.reduced_stride,
					     p.reduced_rank, i)],
				 (u32)(i - begin));
		return far::join(t, begin);
	}
	for (; i + (FAR_READS - 1) * step < end; i += FAR_READS * step) {
		stored r[FAR_READS];

		KL_UNROLL
		for (int j = 0; j < FAR_READS; j++)
			r[j] = x[(i64)(i + j * step) * stride];
		KL_UNROLL
		for (int j = 0; j < FAR_READS; j++)
			far::add(t, j, r[j], (u32)(i + j * step - begin));
	}
	for (; i < end; i += step)
		far::add(t, 0, x[(i64)i * stride], (u32)(i - begin));
	return far::join(t, begin);
}

/* ---- joining ---- */

/* What the thread that many places on in the warp has. */
template <class A> DEVICE A from_neighbour(A a, u32 places)
{
	u32 word[sizeof(A) / 4];

	__builtin_memcpy(word, &a, sizeof(A));
	KL_UNROLL
	for (u32 i = 0; i < sizeof(A) / 4; i++)
		__asm__ volatile("shfl.sync.down.b32 %0, %0, %1, 31, "
				 "0xffffffff;"
				 : "+r"(word[i])
				 : "r"(places));
	__builtin_memcpy(&a, word, sizeof(A));
	return a;
}

#define WARP 32

/* Joins the accumulators of lanes neighbouring threads; the first has it. */
template <class F>
DEVICE typename F::A join_lanes(typename F::A acc, typename F::A *all,
				u32 lanes)
{
	u32 warp = thread() / WARP;

	for (u32 w = (lanes < WARP ? lanes : WARP) / 2; w > 0; w /= 2)
		acc = F::join(acc, from_neighbour(acc, w));
	if (lanes <= WARP)
		return acc;
	if (thread() % WARP == 0)
		all[warp] = acc;
	__syncthreads();
	if (thread() % lanes == 0)
		for (u32 w = 1; w < lanes / WARP; w++)
			acc = F::join(acc, all[warp + w]);
	return acc;
}

/* The same of lanes threads step apart in the block, N accumulators each. */
template <class F, int N>
DEVICE void join_far(typename F::A *acc, typename F::A *all, u32 lane,
		     u32 lanes, u32 step)
{
	u32 t = thread();

	KL_UNROLL
	for (int c = 0; c < N; c++)
		all[c * BLOCK + t] = acc[c];
	for (u32 w = lanes / 2; w > 0; w /= 2) {
		__syncthreads();
		if (lane >= w)
			continue;
		KL_UNROLL
		for (int c = 0; c < N; c++) {
			acc[c] = F::join(acc[c], all[c * BLOCK + t + w * step]);
			all[c * BLOCK + t] = acc[c];
		}
	}
}

/* ---- kernels ---- */

DEVICE u64 end_of(params p, u64 begin)
{
	return p.length - begin < p.chunk ? p.length : begin + p.chunk;
}

template <class F> DEVICE void put_chunk(params p, u64 o, typename F::A acc)
{
	if (p.chunks == 1)
		F::put(p, o, acc);
	else
		((typename F::A *)p.partial)[block_y() * p.outputs + o] = acc;
}

/* Elements of an output side by side. */
template <class F> DEVICE void reduce_rows(params p)
{
	static SHARED char memory[BLOCK / WARP * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	u32 shift = (u32)__builtin_ctz(p.lanes);
	u32 lane = thread() & (p.lanes - 1);
	u64 o = block_x() * (BLOCK >> shift) + (thread() >> shift);
	u64 begin = block_y() * p.chunk;
	typename F::A acc = F::neutral();

	if (o < p.outputs)
		acc = walk_row<F>((const stored *)p.in + begin +
					  offset_of(p.kept_size, p.kept_stride,
						    p.kept_rank, o),
				  begin, (u32)(end_of(p, begin) - begin), lane,
				  p.lanes);
	acc = join_lanes<F>(acc, (typename F::A *)memory, p.lanes);
	if (lane == 0 && o < p.outputs)
		put_chunk<F>(p, o, acc);
}

/* Any other. */
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
	typename F::A acc = F::neutral();

	if (o < p.outputs)
		acc = walk<F>(p,
			      (const stored *)p.in +
				      offset_of(p.kept_size, p.kept_stride,
						p.kept_rank, o),
			      begin, end_of(p, begin), lane, p.lanes);
	join_far<F, 1>(&acc, all, lane, p.lanes, p.columns ? per_block : 1);
	if (lane == 0 && o < p.outputs)
		put_chunk<F>(p, o, acc);
}

/* Columns, of which a thread has several side by side. */
#define COLUMNS KILNI_CUDA_COLUMNS(sizeof(stored))

template <class F> DEVICE void reduce_columns(params p)
{
	typedef turns<F, FAR_TURNS> far;
	static SHARED char memory[COLUMNS * BLOCK * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	typename F::A *all = (typename F::A *)memory;
	u32 per_block = BLOCK / p.lanes;
	u32 lane = thread() / per_block;
	u64 o = (block_x() * per_block + thread() % per_block) * COLUMNS;
	u64 begin = block_y() * p.chunk;
	u64 end = end_of(p, begin);
	i64 stride = p.reduced_rank == 1 ? p.reduced_stride[0] : 0;
	u64 i = begin + lane;
	far t[COLUMNS];
	typename F::A acc[COLUMNS];

	KL_UNROLL
	for (int c = 0; c < COLUMNS; c++)
		far::clear(t[c]);
	if (o < p.outputs) {
		const stored *x = (const stored *)p.in +
				  offset_of(p.kept_size, p.kept_stride,
					    p.kept_rank, o);

		for (; i + (FAR_READS - 1) * p.lanes < end;
		     i += FAR_READS * p.lanes) {
			run<COLUMNS> r[FAR_READS];

			KL_UNROLL
			for (int j = 0; j < FAR_READS; j++)
				r[j] = read_aligned<COLUMNS>(
					x + (i64)(i + j * p.lanes) * stride);
			KL_UNROLL
			for (int j = 0; j < FAR_READS; j++) {
				KL_UNROLL
				for (int c = 0; c < COLUMNS; c++)
					far::add(t[c], j, r[j].x[c], 0);
			}
		}
		for (; i < end; i += p.lanes) {
			run<COLUMNS> r =
				read_aligned<COLUMNS>(x + (i64)i * stride);

			KL_UNROLL
			for (int c = 0; c < COLUMNS; c++)
				far::add(t[c], 0, r.x[c], 0);
		}
	}
	KL_UNROLL
	for (int c = 0; c < COLUMNS; c++)
		acc[c] = far::join(t[c], 0);
	join_far<F, COLUMNS>(acc, all, lane, p.lanes, per_block);
	if (lane != 0 || o >= p.outputs)
		return;
	KL_UNROLL
	for (int c = 0; c < COLUMNS; c++)
		put_chunk<F>(p, o + c, acc[c]);
}

/* Chunks that a thread reads at a time. */
#define AHEAD 8

/* Joins the chunks of an output; neighbouring threads have other outputs. */
template <class F> DEVICE void finish(params p)
{
	static SHARED char memory[BLOCK * sizeof(typename F::A)]
		__attribute__((aligned(16)));
	typename F::A *all = (typename F::A *)memory;
	u32 lanes = p.finish_lanes, per_block = BLOCK / lanes;
	u32 lane = thread() / per_block;
	u64 o = block_x() * per_block + thread() % per_block;
	typename F::A acc = F::neutral();

	if (o < p.outputs) {
		const typename F::A *partial =
			(const typename F::A *)p.partial + o;

		for (u32 c = lane; c < p.chunks; c += AHEAD * lanes) {
			typename F::A next[AHEAD];

			/* The first of them for those that are not there. */
			KL_UNROLL
			for (u32 k = 0; k < AHEAD; k++) {
				u32 at = c + k * lanes;

				next[k] = partial[(at < p.chunks ? at : c) *
						  p.outputs];
			}
			KL_UNROLL
			for (u32 k = 0; k < AHEAD; k++)
				if (c + k * lanes < p.chunks)
					acc = F::join(acc, next[k]);
		}
	}
	join_far<F, 1>(&acc, all, lane, lanes, per_block);
	if (lane == 0 && o < p.outputs)
		F::put(p, o, acc);
}

/*
 * Blocks that a multiprocessor holds: 64 registers for each thread, without
 * which the assembler takes fewer and has fewer reads under way.
 */
#define RESIDENT 4

#define ENTRY(ID, fold)                                                        \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK, RESIDENT)))              \
	kl_rows_##ID(const struct kilni_cuda_reduce p)                         \
	{                                                                      \
		reduce_rows<fold>(p);                                          \
	}                                                                      \
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
	KL_GLOBAL __attribute__((launch_bounds(BLOCK, RESIDENT)))              \
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
