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
#define WARP KILNI_CUDA_WARP
#define BLOCK_MOST KILNI_CUDA_SOFTMAX_THREADS(sizeof(stored))
#define WARPS (BLOCK_MOST / WARP)
/* Elements of a thread that holds its part of a row, at most. */
#define EACH_MOST KILNI_SOFTMAX_EACH(sizeof(stored))
#define IS_F32 (KL_TYPE == KL_TYPE_F32)

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

DEVICE KL_T infinite() { return KL_N(kl_inf)(); }
DEVICE KL_T lowest() { return KL_N(kl_neg)(infinite()); }

/* NaN is passed over: it makes the sum one, and so each result. */
struct greatest {
	typedef KL_T A;
	DEVICE A none() { return lowest(); }
	DEVICE A join(A a, A b)
	{
#if IS_F32
		return __nvvm_fmax_f(a, b);
#else
		return b > a ? b : a;
#endif
	}
};

struct total {
	typedef f64 A;
	DEVICE A none() { return 0.0; }
	DEVICE A join(A a, A b) { return a + b; }
};

/* Of neighbours, a power of two of them; the same bits in each. */
template <class F> DEVICE typename F::A join_some(typename F::A x, u32 threads)
{
	KL_UNROLL
	for (u32 mask = WARP / 2; mask > 0; mask /= 2)
		if (threads > mask)
			x = F::join(x, other(x, mask));
	return x;
}

DEVICE u32 threads_of_block() { return (u32)__nvvm_read_ptx_sreg_ntid_x(); }

/* Of all of the block, whole warps. */
template <class F> DEVICE typename F::A join_block(typename F::A x)
{
	static SHARED typename F::A all[WARPS];
	u32 lane = thread() % WARP;

	x = join_some<F>(x, WARP);
	__syncthreads();
	if (lane == 0)
		all[thread() / WARP] = x;
	__syncthreads();
	x = lane < threads_of_block() / WARP ? all[lane] : F::none();
	return join_some<F>(x, WARP);
}

/* threads: of the row, of a warp or, where BLOCKS, the block. */
template <class F, bool BLOCKS>
DEVICE typename F::A join(typename F::A x, u32 threads)
{
	return BLOCKS ? join_block<F>(x) : join_some<F>(x, threads);
}

/* ---- elements ---- */

template <bool LOG> DEVICE KL_T result(KL_T x, KL_T most, KL_T sum)
{
	return LOG ? (x - most) - sum
		   : KL_N(kl_div)(KL_N(kl_exp)(x - most), sum);
}

/*
 * What is less than the greatest by LEAST or more has a power below 2^-100,
 * which adds nothing to a sum in f64 that is 1 or more.
 *
 * A share by products comes out rounded correctly where the power is 0 or more
 * than that, and the sum below 2^16: then the remainder is exact, and all the
 * quotients that lie so near the middle of two numbers that it might not decide
 * have been tried.
 */
#define LEAST -70.0f

/*
 * exp(x), x of LEAST ... 0, with the bits of kl_exp: what is fused here is a
 * product that is exact.
 */
DEVICE f32 power(f32 x)
{
	f32 t = x * KL_LOG2E_f32 + KL_MAGIC_f32;
	f32 n = t - KL_MAGIC_f32;
	f32 r = __builtin_fmaf(n, -KL_LN2_HI_f32, x) - n * KL_LN2_LO_f32;
	f32 p = (r * r) * kl_exp_poly_f32(r) + r;
	f32 s = kl_make_f32((kl_bits_f32(t) << 23) + 0x3f800000u);

	return __builtin_fmaf(p, s, s);
}

struct shares {
	f32 odd;  /* the greatest less than LEAST */
	KL_T sum, once;
};

/* Whether share() will not do: those are rare, and computed once more. */
DEVICE bool is_odd(const shares &s)
{
	return IS_F32 && (s.odd >= KL_EXP_MIN_f32 || s.sum != s.sum);
}

DEVICE KL_T share(const shares &s, KL_T e)
{
#if IS_F32
	f32 q = e * s.once;

	return __builtin_fmaf(__builtin_fmaf(-q, s.sum, e), s.once, q);
#else
	return KL_N(kl_div)(e, s.sum);
#endif
}

/* The powers of N elements, which have the greatest taken off. */
#if IS_F32
template <int N> DEVICE void powers(shares &s, const f32 *x, f32 *e)
{
	f32 least = x[0];

	KL_UNROLL
	for (int i = 1; i < N; i++)
		least = __nvvm_fmin_f(least, x[i]);
	KL_UNROLL
	for (int i = 0; i < N; i++)
		e[i] = power(x[i]);
	if (__builtin_expect(least < LEAST, 0))
		KL_UNROLL
		for (int i = 0; i < N; i++) {
			bool is_low = x[i] < LEAST;

			s.odd = __nvvm_fmax_f(s.odd, is_low ? x[i] : lowest());
			e[i] = is_low ? 0.0f : e[i];
		}
}
#else
template <int N> DEVICE void powers(shares &s, const f64 *x, f64 *e)
{
	KL_UNROLL
	for (int i = 0; i < N; i++)
		e[i] = kl_exp_f64(x[i]);
}
#endif

/* A result; of softmax, no NaN. */
DEVICE u32 narrow(KL_T x, bool is_log)
{
#if KL_DTYPE == 4
	u32 u = kl_bits_f32(x);

	if (!is_log)
		return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
#endif
#if KL_DTYPE == 3 || KL_DTYPE == 4
	return KL_NARROW_(x);
#else
	return 0;
#endif
}

/* ---- rows ---- */

/* Where the threads of a row are, all of them and this one. */
struct place {
	u32 threads, lane;
	u32 length;
	bool is_there;
};

/* The same, that nothing computed before is kept in registers for. */
DEVICE place anew(place o)
{
	__asm__ volatile("" : "+r"(o.threads), "+r"(o.lane), "+r"(o.length));
	return o;
}

/*
 * A row in the registers of its threads, each of which has runs of RUN
 * neighbours, threads runs apart: vectors, or single elements.
 */
template <int EACH, bool VECTORS, bool LOG> struct held {
	enum { RUN = VECTORS ? VECTOR : 1, CHUNK = 4 };

	KL_T x[EACH];

	/* Of the run with element i: in the row, of the first thread. */
	DEVICE u32 begin(int i, const place &o)
	{
		return (u32)(i / RUN) * (o.threads * RUN);
	}

	/* Some thread has element i, all of them have; the same in each. */
	DEVICE bool any(int i, const place &o)
	{
		return begin(i, o) < o.length;
	}

	DEVICE bool all(int i, const place &o)
	{
		return begin(i, o) + o.threads * RUN <= o.length;
	}

	DEVICE bool has(int i, const place &o)
	{
		return begin(i, o) + o.lane * RUN < o.length;
	}

	/* i: the first of a run. */
	DEVICE void load_run(held &h, int i, u64 from, const place &o)
	{
		u32 at = begin(i, o) / RUN + o.lane;
		kl_vec v;

		if (!VECTORS) {
			h.x[i] = KL_GET(from, at);
			return;
		}
		v = KL_LOAD_vec(from, at);
		KL_UNROLL
		for (u32 j = 0; j < KL_LANES; j++)
			h.x[i + (int)j] = KL_LANE(v, j);
	}

	DEVICE void load(held &h, u64 from, const place &o)
	{
		KL_UNROLL
		for (int i = 0; i < EACH; i += RUN) {
			if (VECTORS && all(i, o)) {
				load_run(h, i, from, o);
				continue;
			}
			KL_UNROLL
			for (int j = 0; j < RUN; j++)
				h.x[i + j] = lowest();
			if (has(i, o))
				load_run(h, i, from, o);
		}
	}

	DEVICE void store_run(const held &h, int i, u64 to, const place &o)
	{
		u32 at = begin(i, o) / RUN + o.lane;
		kl_vec v = { 0, 0, 0, 0 };

		if (!VECTORS) {
			KL_PUT(to, at, h.x[i]);
			return;
		}
		KL_UNROLL
		for (u32 j = 0; j < KL_LANES; j++) {
			KL_T s = h.x[i + (int)j];
#if KL_DTYPE == 3 || KL_DTYPE == 4
			v[j / 2] |= narrow(s, LOG) << j % 2 * 16;
#else
			KL_SET_LANE(v, j, s);
#endif
		}
		KL_STORE_vec(to, at, v);
	}

	DEVICE KL_T most(const held &h)
	{
		KL_T most = lowest();

		KL_UNROLL
		for (int i = 0; i < EACH; i++)
			most = greatest::join(most, h.x[i]);
		return most;
	}

	/* Leaves the powers, or what is their logarithm. */
	DEVICE f64 sum(held &h, shares &s, KL_T most, const place &o)
	{
		f64 wide = 0.0;

		KL_UNROLL
		for (int i = 0; i < EACH; i += CHUNK) {
			KL_T e[CHUNK];

			if (!any(i, o))
				continue;
			KL_UNROLL
			for (int j = 0; j < CHUNK; j++)
				h.x[i + j] = h.x[i + j] - most;
			powers<CHUNK>(s, h.x + i, e);
			KL_UNROLL
			for (int j = 0; j < CHUNK; j++) {
				wide = wide + (f64)e[j];
				if (!LOG)
					h.x[i + j] = e[j];
			}
		}
		return wide;
	}

	DEVICE void store(held &h, u64 to, const shares &s, const place &o)
	{
		KL_UNROLL
		for (int i = 0; i < EACH; i += RUN) {
			if (!o.is_there || !has(i, o))
				continue;
			KL_UNROLL
			for (int j = 0; j < RUN; j++)
				h.x[i + j] = LOG ? h.x[i + j] - s.sum
						 : share(s, h.x[i + j]);
			store_run(h, i, to, o);
		}
	}

	/* The results from what memory has. */
	DEVICE void again(u64 from, u64 to, const place &o, KL_T most, KL_T sum)
	{
		_Pragma("clang loop unroll(disable)")
		for (u32 i = 0; i < EACH; i++) {
			u32 at = (i / RUN * o.threads + o.lane) * RUN + i % RUN;

			if (at < o.length)
				KL_PUT(to, at,
				       result<LOG>(KL_GET(from, at), most,
						   sum));
		}
	}
};

template <int EACH, bool VECTORS, bool BLOCKS, bool LOG>
DEVICE void run_held(params p, const place &o, u64 row)
{
	typedef held<EACH, VECTORS, LOG> part;
	u64 at = (o.is_there ? row : p.rows - 1) * p.length * sizeof(stored);
	shares s = { -__builtin_inff(), 0, 0 };
	f64 wide;
	KL_T most;
	part h;

	part::load(h, p.in + at, o);
	most = join<greatest, BLOCKS>(part::most(h), o.threads);
	wide = part::sum(h, s, most, anew(o));
	s.sum = (KL_T)join<total, BLOCKS>(wide, o.threads);
	if (LOG)
		s.sum = KL_N(kl_log)(s.sum);
	else if (IS_F32)
		s.once = KL_N(kl_div)(KL_C(1.0), s.sum);
	if (!LOG && is_odd(s)) {
		if (o.is_there)
			part::again(p.in + at, p.out + at, anew(o), most,
				    s.sum);
		return;
	}
	part::store(h, p.out + at, s, anew(o));
}

DEVICE bool are_vectors(params p)
{
	return ((p.in | p.out) & 15) == 0 && p.length % KL_LANES == 0;
}

template <int EACH, bool VECTORS, bool BLOCKS>
DEVICE void run_row(params p, const place &o, u64 row)
{
	if (p.is_log)
		run_held<EACH, VECTORS, BLOCKS, true>(p, o, row);
	else
		run_held<EACH, VECTORS, BLOCKS, false>(p, o, row);
}

DEVICE u64 blocks() { return (u64)(u32)__nvvm_read_ptx_sreg_nctaid_x(); }

/*
 * As many rows at a time as the block has threads for, then those that as many
 * blocks as there are lie behind them. Where a warp has several rows, threads
 * behind the last one go along, since they talk to each other.
 */
template <int EACH, bool BLOCKS>
DEVICE void run_rows(const struct kilni_softmax &s)
{
	const u32 shift = BLOCKS ? 0 : s.shift;
	const u32 step = BLOCKS ? 1 : threads_of_block() >> shift;

	for (u64 first = block_x() * step; first < s.p.rows;
	     first += blocks() * step) {
		u64 row = first + (BLOCKS ? 0 : thread() >> shift);
		u32 threads = BLOCKS ? threads_of_block() : 1u << shift;
		u32 lane = BLOCKS ? thread() : thread() & (threads - 1);
		place o = { threads, lane, (u32)s.p.length,
			    BLOCKS || row < s.p.rows };

		if (EACH >= VECTOR && are_vectors(s.p))
			run_row<EACH, (EACH >= VECTOR), BLOCKS>(s.p, anew(o),
								row);
		else
			run_row<EACH, false, BLOCKS>(s.p, anew(o), row);
	}
}

/* f64 needs more registers; not all are there of it. */
#define RESIDENT(blocks) (IS_F32 ? blocks : 3)

#define HELD(each, longest, block, resident)                                   \
	KL_GLOBAL __attribute__((launch_bounds(block, RESIDENT(resident))))    \
	kl_softmax_##each(const struct kilni_softmax s)                        \
	{                                                                      \
		if (each <= EACH_MOST)                                         \
			run_rows<each, false>(s);                              \
	}
KILNI_CUDA_SOFTMAX_HELD(HELD)
#undef HELD

KL_GLOBAL __attribute__((launch_bounds(BLOCK_MOST, RESIDENT(1))))
kl_softmax_BLOCK(const struct kilni_softmax s)
{
	run_rows<EACH_MOST, true>(s);
}

/* ---- longer rows: the whole block, on chunks ---- */

template <bool VECTORS> DEVICE KL_T most_of(u64 from, u64 many)
{
	KL_T most = lowest();

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
	return join_block<greatest>(most);
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
	return join_block<total>(wide);
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
	KL_T most = lowest();

	for (u64 c = thread(); c < s.chunks; c += BLOCK)
		most = greatest::join(most, KL_AT_(const KL_T, s.p.workspace,
						   2 * 4 / sizeof(KL_T) *
						   (row * s.chunks + c)));
	return join_block<greatest>(most);
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
	return join_block<total>(wide);
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
