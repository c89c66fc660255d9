/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix product of one dtype (KL_DTYPE). A block computes a tile of C;
 * tiles of A and B go through shared memory, the next ones are fetched while
 * the present ones are used, and each thread keeps a square of sums in
 * registers. Every element is one chain of fused multiply-adds in rising k,
 * per split of k.
 */
#include "kernels/kl/target.h"
#include "kernels/kl/dtype.kl"
#include "kernels/kl/common.kl"
#include "kernels/kl/convert.kl"
#include "kernels/kl/storage.kl"
#include "kernels/kl/type.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/stored.cuh"

typedef const struct kilni_cuda_matmul &params;

#if KL_IS_FLOAT
typedef KL_T number;
#else
typedef KL_U number;
#endif

#if KL_DTYPE == 0
#define FMA(a, b, c) __builtin_fma(a, b, c)
#elif KL_IS_FLOAT
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

DEVICE number get(u64 address, i64 i)
{
#if KL_DTYPE == 3
	uint16_t h = (uint16_t)KL_LOAD_u16(address, i);
	f32 x;

	__asm__("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
	return x;
#else
	return (number)KL_GET(address, i);
#endif
}

/* Offsets of matrix b of the batch. */
DEVICE void find_batch(params p, u64 b, i64 *a_at, i64 *b_at)
{
	*a_at = 0;
	*b_at = 0;
	for (u32 d = p.p.batch_rank; d > 0; d--) {
		u64 q = b / p.p.batch_shape[d - 1];
		i64 x = (i64)(b - q * p.p.batch_shape[d - 1]);

		*a_at += x * p.p.a_batch[d - 1];
		*b_at += x * p.p.b_batch[d - 1];
		b = q;
	}
}

/* One side of the product: side by DEPTH elements of A or of B at a time. */
template <int SIDE, int DEPTH> struct side {
	enum { EACH = SIDE * DEPTH / BLOCK, PITCH = SIDE + 4 };

	u64 address;
	i64 offset;            /* of this thread's first element */
	i64 step;              /* to its next one */
	i64 along_k;           /* stride of k */
	u32 row, k;            /* where its first element is in the tile */
	u32 row_step, k_step;
	u64 rows;              /* from the tile's first row on */
	number next[EACH];

	/* Neighbouring threads read what lies side by side. */
	DEVICE void begin(side &s, u64 address, i64 origin, u64 first,
			  u64 rows, i64 row_stride, i64 k_stride, u64 k0)
	{
		bool by_k = k_stride == 1 || row_stride != 1;
		u32 t = thread();

		s.address = address;
		s.along_k = k_stride;
		s.rows = rows - first;
		s.row = by_k ? t / DEPTH : t % SIDE;
		s.k = by_k ? t % DEPTH : t / SIDE;
		s.row_step = by_k ? BLOCK / DEPTH : 0;
		s.k_step = by_k ? 0 : BLOCK / SIDE;
		s.step = (i64)s.row_step * row_stride +
			 (i64)s.k_step * k_stride;
		s.offset = origin + (i64)(first + s.row) * row_stride +
			   (i64)(k0 + s.k) * k_stride;
	}

	/* Reads the tile whose k range has depth elements left. */
	DEVICE void fetch(side &s, u64 depth)
	{
		if (depth >= DEPTH && s.rows >= SIDE) {
			KL_UNROLL
			for (int e = 0; e < EACH; e++)
				s.next[e] = get(s.address,
						s.offset + e * s.step);
		} else {
			KL_UNROLL
			for (int e = 0; e < EACH; e++) {
				u32 r = s.row + (u32)e * s.row_step;
				u32 k = s.k + (u32)e * s.k_step;

				s.next[e] = 0;
				if (r < s.rows && k < depth)
					s.next[e] = get(s.address,
							s.offset + e * s.step);
			}
		}
		s.offset += DEPTH * s.along_k;
	}

	DEVICE void store(const side &s, number *tile)
	{
		KL_UNROLL
		for (int e = 0; e < EACH; e++)
			tile[(s.k + (u32)e * s.k_step) * PITCH + s.row +
			     (u32)e * s.row_step] = s.next[e];
	}
};

/*
 * As side, but PACK neighbours are read at once, along the axis that lies side
 * by side. The plan sees to it that they are aligned and either all in the
 * matrix or none.
 */
#if KILNI_CUDA_MATMUL_PACKED(KL_DTYPE)
#define PACK KILNI_CUDA_MATMUL_PACK((int)sizeof(stored))

/* PACK elements as they are in memory, whole words of it. */
typedef u32 words
	__attribute__((ext_vector_type(PACK * sizeof(stored) / 4)));
typedef number numbers __attribute__((ext_vector_type(PACK)));

DEVICE number element(words w, int e)
{
#if KL_DTYPE == 0
	return kl_make_f64((u64)w[2 * e] | (u64)w[2 * e + 1] << 32);
#elif KL_DTYPE == 3
	return kl_f32_of_f16(w[e / 2] >> e % 2 * 16 & 0xffffu);
#elif KL_DTYPE == 4
	return kl_make_f32(e % 2 ? w[e / 2] & 0xffff0000u : w[e / 2] << 16);
#else
	return kl_make_f32(w[e]);
#endif
}

template <int SIDE, int DEPTH> struct packed_side {
	enum {
		EACH = SIDE * DEPTH / BLOCK / PACK,
		PITCH = SIDE + 4,
		/* Threads along the axis of packs. */
		ALONG_K = DEPTH / PACK,
		ALONG_ROWS = SIDE / PACK
	};
	static_assert(EACH <= 2, "one step leads to all packs");

	u64 at;                /* address of this thread's next pack */
	i64 step;              /* bytes to the one after it */
	i64 along_k;           /* bytes to the next tile */
	u32 row, k;            /* where its first pack is in the tile */
	u32 k_step;
	bool by_k;
	words next[EACH];

	/*
	 * Rows behind the last one are the last one once more: what becomes of
	 * them is not stored, and reading needs no test.
	 */
	DEVICE void begin(packed_side &s, u64 address, i64 origin, u64 first,
			  u64 rows, i64 row_stride, i64 k_stride, u64 k0)
	{
		const i64 bytes = sizeof(stored);
		u64 last, r, r2;
		u32 t = thread();

		s.by_k = k_stride == 1;
		s.k = s.by_k ? t % ALONG_K * PACK : t / ALONG_ROWS;
		s.row = s.by_k ? t / ALONG_K : t % ALONG_ROWS * PACK;
		s.k_step = s.by_k ? 0 : BLOCK / ALONG_ROWS;
		last = rows - (s.by_k ? 1 : PACK);
		r = first + s.row < last ? first + s.row : last;
		r2 = r + BLOCK / ALONG_K < last ? r + BLOCK / ALONG_K : last;
		s.step = s.by_k ? (i64)(r2 - r) * row_stride * bytes
				: (i64)s.k_step * k_stride * bytes;
		s.along_k = DEPTH * k_stride * bytes;
		s.at = address + (u64)((origin + (i64)r * row_stride +
					(i64)(k0 + s.k) * k_stride) *
				       bytes);
	}

	DEVICE words get(u64 address)
	{
		return *(const __attribute__((address_space(1))) words *)
			address;
	}

	DEVICE void fetch(packed_side &s, u64 depth)
	{
		KL_UNROLL
		for (int e = 0; e < EACH; e++) {
			s.next[e] = (words)(0u);
			if (s.k + (u32)e * s.k_step < depth)
				s.next[e] = get(s.at + (u64)(e * s.step));
		}
		s.at += (u64)s.along_k;
	}

	/* Along k a pack is turned; else it goes as it is, 16 bytes at once. */
	DEVICE void store(const packed_side &s, number *tile)
	{
		number *to = tile + s.k * PITCH + s.row;

		if (s.by_k) {
			KL_UNROLL
			for (int e = 0; e < EACH; e++) {
				KL_UNROLL
				for (int i = 0; i < PACK; i++)
					to[i * PITCH + e * (BLOCK / ALONG_K)] =
						element(s.next[e], i);
			}
		} else {
			KL_UNROLL
			for (int e = 0; e < EACH; e++) {
				numbers v;

				KL_UNROLL
				for (int i = 0; i < PACK; i++)
					v[i] = element(s.next[e], i);
				*(numbers *)&to[e * (BLOCK / ALONG_ROWS) *
						PITCH] = v;
			}
		}
	}
};
#endif

/* As many neighbours as go in one read of shared memory. */
template <int N> struct pack {
	number x[N];
} __attribute__((aligned(sizeof(number) * N)));

template <template <int, int> class LOAD, int ROWS, int COLUMNS, int DEPTH,
	  int MY_ROWS, int MY_COLUMNS>
DEVICE void multiply(params p)
{
	enum {
		WIDEST = 16 / sizeof(number),
		R = MY_ROWS < WIDEST ? MY_ROWS : WIDEST,
		C = MY_COLUMNS < WIDEST ? MY_COLUMNS : WIDEST,
		ROW_THREADS = ROWS / MY_ROWS,
		COLUMN_THREADS = COLUMNS / MY_COLUMNS,
		A_TILE = DEPTH * (ROWS + 4),
		B_TILE = DEPTH * (COLUMNS + 4)
	};
	typedef LOAD<ROWS, DEPTH> side_a;
	typedef LOAD<COLUMNS, DEPTH> side_b;
	static SHARED number tiles[2 * (A_TILE + B_TILE)]
		__attribute__((aligned(16)));
	u32 t = thread(), warp = t / 32, lane = t % 32;
	/* A warp covers 4 by 8 threads' squares. */
	u32 tx = lane % 8 + warp % (COLUMN_THREADS / 8) * 8;
	u32 ty = lane / 8 + warp / (COLUMN_THREADS / 8) * 4;
	u32 tile = (u32)__nvvm_read_ptx_sreg_ctaid_x();
	u64 first_row = (u64)(tile % p.row_tiles) * ROWS;
	u64 first_column = (u64)(tile / p.row_tiles) * COLUMNS;
	u32 split = (u32)__nvvm_read_ptx_sreg_ctaid_y();
	u64 k0 = split * p.k_split;
	u64 k_end = p.p.k - k0 < p.k_split ? p.p.k : k0 + p.k_split;

	for (u64 batch = (u32)__nvvm_read_ptx_sreg_ctaid_z();
	     batch < p.batches;
	     batch += (u32)__nvvm_read_ptx_sreg_nctaid_z()) {
		number sum[MY_ROWS][MY_COLUMNS];
		side_a a;
		side_b b;
		i64 a_at, b_at;
		u32 half = 0;

		find_batch(p, batch, &a_at, &b_at);
		side_a::begin(a, p.p.a, a_at, first_row, p.p.m, p.p.a_row,
			      p.p.a_col, k0);
		side_b::begin(b, p.p.b, b_at, first_column, p.p.n, p.p.b_col,
			      p.p.b_row, k0);
		KL_UNROLL
		for (int i = 0; i < MY_ROWS; i++) {
			KL_UNROLL
			for (int j = 0; j < MY_COLUMNS; j++)
				sum[i][j] = 0;
		}
		side_a::fetch(a, k_end - k0);
		side_b::fetch(b, k_end - k0);
		for (u64 k = k0; k < k_end; k += DEPTH) {
			number *as = tiles + half * (A_TILE + B_TILE);
			number *bs = as + A_TILE;

			side_a::store(a, as);
			side_b::store(b, bs);
			__syncthreads();
			if (k + DEPTH < k_end) {
				side_a::fetch(a, k_end - k - DEPTH);
				side_b::fetch(b, k_end - k - DEPTH);
			}
			KL_UNROLL
			for (int d = 0; d < DEPTH; d++) {
				pack<R> x[MY_ROWS / R];
				pack<C> y[MY_COLUMNS / C];

				KL_UNROLL
				for (int i = 0; i < MY_ROWS / R; i++)
					x[i] = *(const pack<R> *)&as
						[d * (ROWS + 4) +
						 i * (ROW_THREADS * R) +
						 ty * R];
				KL_UNROLL
				for (int j = 0; j < MY_COLUMNS / C; j++)
					y[j] = *(const pack<C> *)&bs
						[d * (COLUMNS + 4) +
						 j * (COLUMN_THREADS * C) +
						 tx * C];
				KL_UNROLL
				for (int i = 0; i < MY_ROWS; i++) {
					KL_UNROLL
					for (int j = 0; j < MY_COLUMNS; j++)
						sum[i][j] = FMA(
							x[i / R].x[i % R],
							y[j / C].x[j % C],
							sum[i][j]);
				}
			}
			half ^= 1;
		}
		/* The next matrix's first tile may meet slower readers. */
		__syncthreads();
		KL_UNROLL
		for (int i = 0; i < MY_ROWS; i++) {
			u64 r = first_row + (u64)(i / R * (ROW_THREADS * R)) +
				ty * R + i % R;

			KL_UNROLL
			for (int j = 0; j < MY_COLUMNS; j++) {
				u64 c = first_column +
					(u64)(j / C * (COLUMN_THREADS * C)) +
					tx * C + j % C;
				u64 at = (batch * p.p.m + r) * p.p.n + c;

				if (r >= p.p.m || c >= p.p.n)
					continue;
				if (p.splits == 1)
					KL_PUT(p.p.c, at, (KL_T)sum[i][j]);
				else
					((number *)p.partial)
						[split * (p.batches * p.p.m *
							  p.p.n) +
						 at] = sum[i][j];
			}
		}
	}
}

#define ENTRY(ID, blocks)                                                      \
	KL_GLOBAL __attribute__((launch_bounds(BLOCK, blocks)))                \
	kl_matmul_##ID(const struct kilni_cuda_matmul p)

#if KL_DTYPE == 0 || KL_DTYPE == 5 || KL_DTYPE == 9
ENTRY(LARGE, 2) { multiply<side, 128, 64, 8, 8, 4>(p); }
#else
ENTRY(LARGE, 2) { multiply<side, 128, 128, 8, 8, 8>(p); }
#endif
ENTRY(MEDIUM, 2) { multiply<side, 64, 64, 16, 4, 4>(p); }
ENTRY(SMALL, 2) { multiply<side, 32, 32, 32, 2, 2>(p); }

/* An f64's sums alone are half of what a block of two may hold. */
#if KILNI_CUDA_MATMUL_PACKED(KL_DTYPE)
ENTRY(PACKS, KL_DTYPE == 0 ? 1 : 2)
{
	multiply<packed_side, 128, 128, 8, 8, 8>(p);
}
#endif

/* Adds the splits up, in rising k. */
KL_GLOBAL kl_matmul_ADD(const struct kilni_cuda_matmul p)
{
	u64 count = p.batches * p.p.m * p.p.n;

	for (u64 i = KL_THREAD; i < count; i += KL_THREADS) {
		const number *x = (const number *)p.partial + i;
		number sum = x[0];

		for (u32 s = 1; s < p.splits; s++)
			sum = sum + x[s * count];
		KL_PUT(p.p.c, i, (KL_T)sum);
	}
}
