/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory holds of a dtype (KL_DTYPE), several elements at once, and the
 * values behind it. For what KL_GET reads one by one.
 */
#ifndef KILNI_CUDA_STORED_CUH
#define KILNI_CUDA_STORED_CUH

#define DEVICE static __attribute__((device, always_inline, unused)) inline
#define SHARED __attribute__((shared))
#define BLOCK KILNI_CUDA_BLOCK

#if KL_DTYPE == 0 || KL_DTYPE == 5 || KL_DTYPE == 9
typedef u64 stored;
#elif KL_DTYPE == 1 || KL_DTYPE == 6 || KL_DTYPE == 10 || KL_DTYPE == 15
typedef u32 stored;
#elif KL_DTYPE == 8 || KL_DTYPE == 12 || KL_DTYPE == 13
typedef uint8_t stored;
#else
typedef uint16_t stored;
#endif

/* As KL_GET, but of a value. */
DEVICE KL_T value_of(stored x)
{
#if KL_DTYPE == 0
	return kl_make_f64(x);
#elif KL_DTYPE == 1
	return kl_make_f32(x);
#elif KL_DTYPE == 3
	return kl_f32_of_f16(x);
#elif KL_DTYPE == 4
	return kl_make_f32((u32)x << 16);
#elif KL_DTYPE == 5
	return (i64)x;
#elif KL_DTYPE == 6
	return (i32)x;
#elif KL_DTYPE == 7
	return (int16_t)x;
#elif KL_DTYPE == 8
	return (int8_t)x;
#elif KL_IS_BOOL
	return x != 0 ? 1u : 0u;
#else
	return x;
#endif
}

/* N elements side by side, in reads of at most 16 bytes. */
template <int N> struct run {
	stored x[N];
} __attribute__((aligned(sizeof(stored) * N > 16 ? 16
						 : sizeof(stored) * N)));

/*
 * N elements from an address that is aligned to them. By vectors, for the
 * compiler takes a struct apart, and what should be one read becomes many.
 */
template <int N> DEVICE run<N> read_aligned(const stored *x)
{
	run<N> r;
#if KL_DTYPE == 0 || KL_DTYPE == 5 || KL_DTYPE == 9
	typedef u64 words __attribute__((ext_vector_type(2)));

	KL_UNROLL
	for (int e = 0; e < N; e += 2) {
		words w = *(const words *)(x + e);

		r.x[e] = w[0];
		r.x[e + 1] = w[1];
	}
#else
	enum {
		PER_WORD = 4 / sizeof(stored),
		WORDS = N * sizeof(stored) / 4,
		BITS = 8 * sizeof(stored)
	};
	typedef u32 words __attribute__((ext_vector_type(WORDS)));
	words w = *(const words *)x;

	KL_UNROLL
	for (int e = 0; e < N; e++)
		r.x[e] = (stored)(w[e / PER_WORD] >> e % PER_WORD * BITS);
#endif
	return r;
}

DEVICE u32 thread() { return (u32)__nvvm_read_ptx_sreg_tid_x(); }
DEVICE u64 block_x() { return (u64)(u32)__nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return (u32)__nvvm_read_ptx_sreg_ctaid_y(); }

#endif
