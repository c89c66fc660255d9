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

#define DEVICE static __attribute__((device, always_inline, unused)) inline
#define SHARED __attribute__((shared))
#define BLOCK KILNI_CUDA_BLOCK

typedef const struct kilni_cuda_reduce &params;

DEVICE u32 thread() { return (u32)__nvvm_read_ptx_sreg_tid_x(); }
DEVICE u64 block_x() { return (u64)(u32)__nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return (u32)__nvvm_read_ptx_sreg_ctaid_y(); }

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
#elif KL_DTYPE == 7
		return (int16_t)(x < 0 ? -x : x);
#elif KL_DTYPE == 8
		return (int8_t)(x < 0 ? -x : x);
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
	DEVICE typename F::A get(u64 in, i64 offset, u64 at)
	{
		return F::load(KL_GET(in, offset));
	}
};
#if !KL_IS_BOOL
template <bool least> struct element<fold_at<least>> {
	DEVICE typename fold_at<least>::A get(u64 in, i64 offset, u64 at)
	{
		return { order<least>::of(KL_GET(in, offset)), at };
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

#define UNROLL 8

/* The elements first, first + step, ... below end of one output. */
template <class F>
DEVICE typename F::A walk(params p, i64 base, u64 first, u64 end, u64 step)
{
	typename F::A acc[UNROLL];
	u64 i = first;

	KL_UNROLL
	for (int j = 0; j < UNROLL; j++)
		acc[j] = F::neutral();
	if (p.reduced_rank <= 1) {
		i64 stride = p.reduced_rank == 1 ? p.reduced_stride[0] : 0;

		for (; end - i > (UNROLL - 1) * step && i < end;
		     i += UNROLL * step) {
			typename F::A x[UNROLL];

			KL_UNROLL
			for (int j = 0; j < UNROLL; j++) {
				u64 at = i + (u64)j * step;

				x[j] = element<F>::get(
					p.in, base + (i64)at * stride, at);
			}
			KL_UNROLL
			for (int j = 0; j < UNROLL; j++)
				acc[j] = F::join(acc[j], x[j]);
		}
		for (; i < end; i += step)
			acc[0] = F::join(acc[0],
					 element<F>::get(p.in,
							 base + (i64)i * stride,
							 i));
	} else {
		for (; i < end; i += step)
			acc[0] = F::join(
				acc[0],
				element<F>::get(
					p.in,
					base + offset_of(p.reduced_size,
							 p.reduced_stride,
							 p.reduced_rank, i),
					i));
	}
	KL_UNROLL
	for (int w = UNROLL / 2; w > 0; w /= 2) {
		KL_UNROLL
		for (int j = 0; j < w; j++)
			acc[j] = F::join(acc[j], acc[j + w]);
	}
	return acc[0];
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

	if (o < p.outputs)
		acc = walk<F>(p,
			      offset_of(p.kept_size, p.kept_stride,
					p.kept_rank, o),
			      begin + lane, end, p.lanes);
	acc = join_block<F>(acc, all, lane, p.lanes,
			    p.columns ? per_block : 1);
	if (lane != 0 || o >= p.outputs)
		return;
	if (p.chunks == 1)
		F::put(p, o, acc);
	else
		((typename F::A *)p.partial)[block_y() * p.outputs + o] = acc;
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

#if !KL_IS_BOOL
ENTRY(SUM, fold_sum)
ENTRY(MEAN, fold_mean)
ENTRY(PROD, fold_prod)
ENTRY(MAX, fold_best<false>)
ENTRY(MIN, fold_best<true>)
ENTRY(MAX_ABS, fold_abs)
ENTRY(MAX_AT, fold_at<false>)
ENTRY(MIN_AT, fold_at<true>)
#endif
ENTRY(ANY, fold_any)
ENTRY(ALL, fold_all)
