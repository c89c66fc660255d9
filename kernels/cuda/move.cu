/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of KL_BYTES bytes that move without being looked at: a copy that
 * turns two axes round, by tiles through shared memory; and, with 16 bytes at
 * a time, whole rows chosen by an index.
 */
#include "kernels/kl/target.h"
#include "kernels/kl/dtype.kl"
#include "kernels/cuda/params.h"

#define DEVICE static __attribute__((device, always_inline, unused)) inline
#define SHARED __attribute__((shared))
#define BLOCK KILNI_CUDA_BLOCK
#define TILE KILNI_TURN_TILE(KL_BYTES)

#if KL_BYTES == 1
typedef uint8_t stored;
#elif KL_BYTES == 2
typedef uint16_t stored;
#elif KL_BYTES == 4
typedef u32 stored;
#else
typedef u64 stored;
#endif

DEVICE u64 group() { return (u64)(u32)__nvvm_read_ptx_sreg_ctaid_x(); }

/* Offsets of part i of the other axes. */
DEVICE void find_part(const struct kilni_turn &p, u64 i, i64 *in, i64 *out)
{
	*in = 0;
	*out = 0;
	for (u32 d = p.rank; d > 0; d--) {
		u64 q = i / p.size[d - 1];
		i64 x = (i64)(i - q * p.size[d - 1]);

		*in += x * p.in_stride[d - 1];
		*out += x * p.out_stride[d - 1];
		i = q;
	}
}

/* Rows lie side by side in the input, columns in the result. */
KL_GLOBAL __attribute__((launch_bounds(BLOCK)))
kl_move_TURN(const struct kilni_turn p)
{
	static SHARED stored tile[TILE][TILE + 1];
	u32 t = (u32)__nvvm_read_ptx_sreg_tid_x();
	u32 near = t % TILE, far = t / TILE;
	u64 part = group() / p.tiles, at = group() % p.tiles;
	u64 r0 = at % p.row_tiles * TILE, c0 = at / p.row_tiles * TILE;
	i64 in_at, out_at;

	find_part(p, part, &in_at, &out_at);
	KL_UNROLL
	for (u32 i = 0; i < TILE; i += BLOCK / TILE) {
		u64 r = r0 + near, c = c0 + far + i;

		if (r < p.rows && c < p.columns)
			tile[far + i][near] = ((const stored *)p.in)
				[in_at + (i64)c * p.in_column + (i64)r];
	}
	__syncthreads();
	KL_UNROLL
	for (u32 i = 0; i < TILE; i += BLOCK / TILE) {
		u64 r = r0 + far + i, c = c0 + near;

		if (r < p.rows && c < p.columns)
			((stored *)p.out)[out_at + (i64)r * p.out_row +
					  (i64)c] = tile[near][far + i];
	}
}

#if KL_BYTES == 8
#define KL_INDEX_FROM const struct kilni_rows &p
#define KL_INDEX p.index
#define KL_INDEX_DTYPE p.index_dtype
#define KL_IX i64
#include "kernels/kl/index.kl"

/* Where a row of the result comes from; reports an index out of range. */
DEVICE bool find_row(const struct kilni_rows &p, u64 row, bool tells,
		     i64 *from)
{
	i64 o = 0, x = 0, k;
	u64 rest = row;

	if (p.rank == 1) {
		x = (i64)row * p.index_stride[0];
	} else {
		for (u32 d = p.rank; d > 0; d--) {
			u64 q = rest / p.shape[d - 1];
			i64 c = (i64)(rest - q * p.shape[d - 1]);

			x += c * p.index_stride[d - 1];
			if (d < p.rank)
				o += c * p.source_stride[d - 1];
			rest = q;
		}
	}
	k = kl_index_at(p, x);
	*from = o + k * p.source_stride[p.rank - 1];
	if (k >= 0 && k < p.dim_size)
		return true;
	if (tells)
		kl_report(p.report, row * p.inner, k, p.dim_size);
	return false;
}

#define ROWS_BLOCK KILNI_ROWS_GROUP
#define EACH (KILNI_ROWS_PIECE / ROWS_BLOCK)

/* A store that leaves the cache to rows that may be chosen again. */
DEVICE void put_once(u64 address, kl_vec v)
{
	__asm__ volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
			 :
			 : "l"(address), "r"(v[0]), "r"(v[1]), "r"(v[2]),
			   "r"(v[3])
			 : "memory");
}

/*
 * A block has a piece of a long row. Neighbouring blocks have the same piece of
 * other rows: a row that is chosen again soon finds it in the cache.
 */
KL_GLOBAL __attribute__((launch_bounds(ROWS_BLOCK)))
kl_move_PIECES(const struct kilni_rows p)
{
	u32 t = (u32)__nvvm_read_ptx_sreg_tid_x();
	/* The plan has no more blocks than 32 bits hold. */
	u32 at = (u32)group(), rows = (u32)p.rows;
	u64 row = at % rows;
	u64 first = (u64)(at / rows) * KILNI_ROWS_PIECE + t;
	kl_vec v[EACH] = {};
	i64 from;
	bool good = find_row(p, row, first == 0, &from);

	KL_UNROLL
	for (u32 j = 0; j < EACH; j++) {
		u64 unit = first + j * ROWS_BLOCK;

		if (good && unit < p.units)
			v[j] = KL_LOAD_vec(p.source, from + (i64)unit);
	}
	KL_UNROLL
	for (u32 j = 0; j < EACH; j++) {
		u64 unit = first + j * ROWS_BLOCK;

		if (unit < p.units)
			put_once(p.out + (row * p.units + unit) * 16, v[j]);
	}
}

KL_GLOBAL __attribute__((launch_bounds(ROWS_BLOCK)))
kl_move_ROWS(const struct kilni_rows p)
{
	u64 count = p.rows * p.units;

	for (u64 i = KL_THREAD; i < count; i += KL_THREADS) {
		u64 row = i / p.units, at = i - row * p.units;
		kl_vec v = { 0, 0, 0, 0 };
		i64 from;

		if (find_row(p, row, at == 0, &from))
			v = KL_LOAD_vec(p.source, from + (i64)at);
		KL_STORE_vec(p.out, i, v);
	}
}
#endif
