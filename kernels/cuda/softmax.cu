/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax and its logarithm along rows that lie side by side, of one float
 * dtype (KL_DTYPE). Rows that fit are held in registers, so memory is read and
 * written once; each step rounds as the op it stands for (kernels/abi.h).
 */
#include "kernels/kl/target.h"
#include "kernels/kl/dtype.kl"
#include "kernels/kl/all.kl"
#include "kernels/kl/storage.kl"
#include "kernels/kl/type.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/stored.cuh"
#include "kernels/softmax.h"

typedef const struct kilni_softmax_params &params;

#define VECTOR (int)KL_LANES
#define WARP 32
#define WARPS (BLOCK / WARP)
/* Elements of a thread that holds its part of a row. */
#define EACH KILNI_SOFTMAX_EACH(sizeof(stored))

/* ---- what threads tell each other ---- */

DEVICE u32 other_bits(u32 x, u32 mask)
{
	u32 y;

	__asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
			 : "=r"(y)
			 : "r"(x), "r"(mask));
	return y;
}

DEVICE f32 other(f32 x, u32 mask)
{
	return kl_make_f32(other_bits(kl_bits_f32(x), mask));
}

DEVICE f64 other(f64 x, u32 mask)
{
	u64 b = kl_bits_f64(x);

	return kl_make_f64((u64)other_bits((u32)(b >> 32), mask) << 32 |
			   other_bits((u32)b, mask));
}

struct greatest {
	typedef KL_T A;
	/* Once a NaN, always a NaN. */
	DEVICE A join(A a, A b) { return b > a || b != b ? b : a; }
};

struct total {
	typedef f64 A;
	DEVICE A join(A a, A b) { return a + b; }
};

/* The same bits in every thread. */
template <class F> DEVICE typename F::A join_warp(typename F::A x)
{
	KL_UNROLL
	for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
		x = F::join(x, other(x, mask));
	}
	return x;
}

/* threads: a warp's, or all of the block. */
template <class F, int THREADS> DEVICE typename F::A join(typename F::A x)
{
	static SHARED typename F::A all[WARPS];

	x = join_warp<F>(x);
	if (THREADS == WARP)
		return x;
	__syncthreads();
	if (thread() % WARP == 0)
		all[thread() / WARP] = x;
	__syncthreads();
	x = all[0];
	KL_UNROLL
	for (int w = 1; w < WARPS; w++)
		x = F::join(x, all[w]);
	return x;
}

/* ---- rows ---- */

DEVICE KL_T infinite() { return KL_N(kl_inf)(); }

/*
 * A row in the registers of its threads, each of which has runs of RUN
 * neighbours, THREADS runs apart: vectors, or single elements.
 */
template <int THREADS, bool VECTORS> struct held {
	enum { RUN = VECTORS ? VECTOR : 1 };

	KL_T x[EACH];

	/* From the thread's first element in the row to its element i. */
	DEVICE u32 offset(int i)
	{
		return (u32)(i / RUN * THREADS * RUN + i % RUN);
	}

	DEVICE void load(held &h, u64 from, u64 at, u32 rest)
	{
		KL_UNROLL
		for (int i = 0; i < EACH; i++)
			h.x[i] = KL_N(kl_neg)(infinite());
		KL_UNROLL
		for (int i = 0; i < EACH; i += RUN) {
			kl_vec v;

			if (offset(i) >= rest)
				continue;
			if (!VECTORS) {
				h.x[i] = KL_GET(from, at + offset(i));
				continue;
			}
			v = KL_LOAD_vec(from + at * sizeof(stored),
					offset(i) / RUN);
			KL_UNROLL
			for (u32 j = 0; j < KL_LANES; j++)
				h.x[i + (int)j] = KL_LANE(v, j);
		}
	}

	DEVICE void store(const held &h, u64 to, u64 at, u32 rest)
	{
		KL_UNROLL
		for (int i = 0; i < EACH; i += RUN) {
			kl_vec v = { 0, 0, 0, 0 };

			if (offset(i) >= rest)
				continue;
			if (!VECTORS) {
				KL_PUT(to, at + offset(i), h.x[i]);
				continue;
			}
			KL_UNROLL
			for (u32 j = 0; j < KL_LANES; j++) {
				KL_T s = h.x[i + (int)j];
				KL_SET_LANE(v, j, s);
			}
			KL_STORE_vec(to + at * sizeof(stored),
				     offset(i) / RUN, v);
		}
	}
};

template <int THREADS, bool VECTORS, bool LOG>
DEVICE void run_held(params p, u64 row)
{
	typedef held<THREADS, VECTORS> part;
	u32 first = thread() % THREADS * part::RUN;
	u32 rest = (u32)p.length > first ? (u32)p.length - first : 0;
	u64 at = row * p.length + first;
	KL_T most = KL_N(kl_neg)(infinite()), sum;
	f64 wide = 0.0;
	part h;

	part::load(h, p.in, at, rest);
	KL_UNROLL
	for (int i = 0; i < EACH; i++)
		most = greatest::join(most, h.x[i]);
	most = join<greatest, THREADS>(most);
	KL_UNROLL
	for (int i = 0; i < EACH; i++) {
		KL_T e;

		h.x[i] = h.x[i] - most;
		e = KL_N(kl_exp)(h.x[i]);
		wide = wide + (f64)e;
		if (!LOG)
			h.x[i] = e;
	}
	sum = (KL_T)join<total, THREADS>(wide);
	if (LOG)
		sum = KL_N(kl_log)(sum);
	KL_UNROLL
	for (int i = 0; i < EACH; i++)
		h.x[i] = LOG ? h.x[i] - sum : KL_N(kl_div)(h.x[i], sum);
	part::store(h, p.out, at, rest);
}

DEVICE bool are_vectors(params p)
{
	return ((p.in | p.out) & 15) == 0 && p.length % KL_LANES == 0;
}

template <int THREADS> DEVICE void run_any(params p, u64 row)
{
	if (are_vectors(p)) {
		if (p.is_log)
			run_held<THREADS, true, true>(p, row);
		else
			run_held<THREADS, true, false>(p, row);
	} else {
		if (p.is_log)
			run_held<THREADS, false, true>(p, row);
		else
			run_held<THREADS, false, false>(p, row);
	}
}

/* Rows from this block's first one on, as many blocks as there are apart. */
#define EACH_ROW(row, first, step)                                             \
	for (u64 row = first; row < p.rows; row += blocks() * (step))

DEVICE u64 blocks() { return (u64)(u32)__nvvm_read_ptx_sreg_nctaid_x(); }

/* Eight rows at a time, a warp each. */
KL_GLOBAL __attribute__((launch_bounds(BLOCK, 3)))
kl_softmax_WARP(const struct kilni_softmax_params p)
{
	EACH_ROW(row, block_x() * WARPS + thread() / WARP, WARPS)
		run_any<WARP>(p, row);
}

KL_GLOBAL __attribute__((launch_bounds(BLOCK, 3)))
kl_softmax_BLOCK(const struct kilni_softmax_params p)
{
	EACH_ROW(row, block_x(), 1)
		run_any<BLOCK>(p, row);
}

/* A row of any length: read three times. */
DEVICE void run_long(params p, u64 row)
{
	u64 first = row * p.length;
	KL_T most = KL_N(kl_neg)(infinite()), sum, log_sum;
	f64 wide = 0.0;

	for (u64 i = thread(); i < p.length; i += BLOCK)
		most = greatest::join(most, KL_GET(p.in, first + i));
	most = join<greatest, BLOCK>(most);
	for (u64 i = thread(); i < p.length; i += BLOCK)
		wide = wide +
		       (f64)KL_N(kl_exp)(KL_GET(p.in, first + i) - most);
	sum = (KL_T)join<total, BLOCK>(wide);
	log_sum = KL_N(kl_log)(sum);
	for (u64 i = thread(); i < p.length; i += BLOCK) {
		KL_T x = KL_GET(p.in, first + i) - most;

		x = p.is_log ? x - log_sum
			     : KL_N(kl_div)(KL_N(kl_exp)(x), sum);
		KL_PUT(p.out, first + i, x);
	}
}

KL_GLOBAL __attribute__((launch_bounds(BLOCK, 3)))
kl_softmax_LONG(const struct kilni_softmax_params p)
{
	EACH_ROW(row, block_x(), 1)
		run_long(p, row);
}
