/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax and its logarithm along rows that lie side by side, of one float
 * dtype (KL_DTYPE). Rows that fit are held in registers, so memory is read and
 * written once; each step rounds as the op it stands for (kernels/abi.h).
 * kernels/softmax.h tells how longer ones are cut.
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
/* Elements of a thread that holds its part of a row, at most. */
#define EACH_MOST KILNI_SOFTMAX_EACH(sizeof(stored))

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
template <class F, int THREADS> DEVICE typename F::A join_warp(typename F::A x)
{
	KL_UNROLL
	for (u32 mask = THREADS / 2; mask > 0; mask /= 2) {
		x = F::join(x, other(x, mask));
	}
	return x;
}

/* threads: of a warp, or all of the block. */
template <class F, int THREADS> DEVICE typename F::A join(typename F::A x)
{
	static SHARED typename F::A all[WARPS];

	x = join_warp<F, (THREADS < WARP ? THREADS : WARP)>(x);
	if (THREADS <= WARP)
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
template <int THREADS, int EACH, bool VECTORS> struct held {
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

template <int THREADS, int EACH, bool VECTORS, bool LOG>
DEVICE void run_held(params p, u64 row)
{
	typedef held<THREADS, EACH, VECTORS> part;
	u32 first = thread() % THREADS * part::RUN;
	u32 many = THREADS >= WARP || row < p.rows ? (u32)p.length : 0;
	u32 rest = many > first ? many - first : 0;
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

template <int THREADS, int EACH, bool VECTORS>
DEVICE void run_row(params p, u64 row)
{
	if (p.is_log)
		run_held<THREADS, EACH, VECTORS, true>(p, row);
	else
		run_held<THREADS, EACH, VECTORS, false>(p, row);
}

DEVICE u64 blocks() { return (u64)(u32)__nvvm_read_ptx_sreg_nctaid_x(); }

/*
 * As many rows at a time as the block has threads for, then those that as many
 * blocks as there are lie behind them. Where a warp has several rows, threads
 * behind the last one go along, since they talk to each other.
 */
template <int THREADS, int MANY> DEVICE void run_rows(params p)
{
	const int EACH = MANY < EACH_MOST ? MANY : EACH_MOST;
	const u64 step = BLOCK / THREADS;
	const u64 turn = blocks() * step;
	u64 first = block_x() * step;
	u64 row = first + (THREADS < BLOCK ? thread() / THREADS : 0);

	for (; (THREADS < WARP ? first : row) < p.rows;
	     first += turn, row += turn) {
		if (EACH >= VECTOR && are_vectors(p))
			run_row<THREADS, EACH, (EACH >= VECTOR)>(p, row);
		else
			run_row<THREADS, EACH, false>(p, row);
	}
}

#define HELD(ID, threads, each)                                                \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK, 3)))                     \
	kl_softmax_##ID(const struct kilni_softmax s)                          \
	{                                                                      \
		run_rows<threads, each>(s.p);                                  \
	}
KILNI_CUDA_SOFTMAX_HELD(HELD)
#undef HELD

/* ---- longer rows: the whole block, on chunks ---- */

template <bool VECTORS> DEVICE KL_T most_of(u64 from, u64 many)
{
	KL_T most = KL_N(kl_neg)(infinite());

	if (VECTORS)
		for (u64 i = thread(); i < many / VECTOR; i += BLOCK) {
			kl_vec v = KL_LOAD_vec(from, i);

			KL_UNROLL
			for (u32 j = 0; j < KL_LANES; j++)
				most = greatest::join(most, KL_LANE(v, j));
		}
	else
		for (u64 i = thread(); i < many; i += BLOCK)
			most = greatest::join(most, KL_GET(from, i));
	return join<greatest, BLOCK>(most);
}

template <bool VECTORS> DEVICE f64 sum_of(u64 from, u64 many, KL_T most)
{
	f64 wide = 0.0;

	if (VECTORS)
		for (u64 i = thread(); i < many / VECTOR; i += BLOCK) {
			kl_vec v = KL_LOAD_vec(from, i);

			KL_UNROLL
			for (u32 j = 0; j < KL_LANES; j++) {
				KL_T x = KL_LANE(v, j);
				wide = wide + (f64)KL_N(kl_exp)(x - most);
			}
		}
	else
		for (u64 i = thread(); i < many; i += BLOCK)
			wide = wide +
			       (f64)KL_N(kl_exp)(KL_GET(from, i) - most);
	return join<total, BLOCK>(wide);
}

template <bool LOG> DEVICE KL_T result(KL_T x, KL_T most, KL_T sum)
{
	return LOG ? (x - most) - sum
		   : KL_N(kl_div)(KL_N(kl_exp)(x - most), sum);
}

template <bool VECTORS, bool LOG>
DEVICE void put(u64 from, u64 to, u64 many, KL_T most, f64 wide)
{
	KL_T sum = (KL_T)wide;

	if (LOG)
		sum = KL_N(kl_log)(sum);
	if (VECTORS)
		for (u64 i = thread(); i < many / VECTOR; i += BLOCK) {
			kl_vec v = KL_LOAD_vec(from, i);

			KL_UNROLL
			for (u32 j = 0; j < KL_LANES; j++) {
				KL_T x = result<LOG>(KL_LANE(v, j), most, sum);
				KL_SET_LANE(v, j, x);
			}
			KL_STORE_vec(to, i, v);
		}
	else
		for (u64 i = thread(); i < many; i += BLOCK)
			KL_PUT(to, i, result<LOG>(KL_GET(from, i), most, sum));
}

/* What the kernels before left of the row's chunks. */
DEVICE KL_T known_most(const struct kilni_softmax &s, u64 row)
{
	KL_T most = KL_N(kl_neg)(infinite());

	for (u64 c = thread(); c < s.chunks; c += BLOCK)
		most = greatest::join(most, KL_AT_(const KL_T, s.p.workspace,
						   2 * 4 / sizeof(KL_T) *
						   (row * s.chunks + c)));
	return join<greatest, BLOCK>(most);
}

DEVICE u64 sums(const struct kilni_softmax &s)
{
	return s.p.workspace + 8 * s.p.rows * s.chunks;
}

DEVICE f64 known_sum(const struct kilni_softmax &s, u64 row)
{
	f64 wide = 0.0;

	for (u64 c = thread(); c < s.chunks; c += BLOCK)
		wide = wide + KL_AT_(const f64, sums(s), row * s.chunks + c);
	return join<total, BLOCK>(wide);
}

enum { WHOLE, MOST, SUMS, SHARES };

template <int WHAT, bool VECTORS>
DEVICE void run_part(const struct kilni_softmax &s, u64 part)
{
	u64 row = part / s.chunks, begin = (part - row * s.chunks) * s.chunk;
	u64 rest = s.p.length - begin, many = rest < s.chunk ? rest : s.chunk;
	u64 at = (row * s.p.length + begin) * sizeof(stored);
	KL_T most = WHAT == WHOLE || WHAT == MOST
			    ? most_of<VECTORS>(s.p.in + at, many)
			    : known_most(s, row);
	f64 wide = WHAT == WHOLE || WHAT == SUMS
			   ? sum_of<VECTORS>(s.p.in + at, many, most)
		   : WHAT == SHARES ? known_sum(s, row)
				    : 0.0;

	if (WHAT == MOST && thread() == 0)
		KL_AT_(KL_T, s.p.workspace, 2 * 4 / sizeof(KL_T) * part) = most;
	if (WHAT == SUMS && thread() == 0)
		KL_AT_(f64, sums(s), part) = wide;
	if (WHAT != WHOLE && WHAT != SHARES)
		return;
	if (s.p.is_log)
		put<VECTORS, true>(s.p.in + at, s.p.out + at, many, most, wide);
	else
		put<VECTORS, false>(s.p.in + at, s.p.out + at, many, most,
				    wide);
}

template <int WHAT> DEVICE void run_parts(const struct kilni_softmax &s)
{
	u64 parts = s.p.rows * s.chunks;

	for (u64 part = block_x(); part < parts; part += blocks())
		if (are_vectors(s.p))
			run_part<WHAT, true>(s, part);
		else
			run_part<WHAT, false>(s, part);
}

#define PARTS(ID, WHAT)                                                        \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK, 3)))                     \
	kl_softmax_##ID(const struct kilni_softmax s)                          \
	{                                                                      \
		run_parts<WHAT>(s);                                            \
	}
PARTS(LONG, WHOLE)
PARTS(MOST, MOST)
PARTS(SUMS, SUMS)
PARTS(SHARES, SHARES)
#undef PARTS
