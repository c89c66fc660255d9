/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter of one dtype (KL_DTYPE). A lane is all elements that differ along
 * dim only; lanes never meet in out. A thread works through a lane in
 * row-major order, so the result does not depend on how threads run.
 */
#include "kernels/kl/target.h"
#include "kernels/kl/dtype.kl"
#include "kernels/kl/common.kl"
#include "kernels/kl/convert.kl"
#include "kernels/kl/storage.kl"
#include "kernels/kl/type.h"
#include "kernels/abi.h"

#define DEVICE static __attribute__((device, always_inline)) inline

typedef const struct kilni_scatter_params &params;

#define KL_INDEX_FROM params p
#define KL_INDEX p.index
#define KL_INDEX_DTYPE p.index_dtype
#define KL_IX i64
#include "kernels/kl/index.kl"

/* Updates: out at o is combined with value at v. */

#if KL_DTYPE >= 1 && KL_DTYPE <= 4
#define WIDE 1
#else
#define WIDE 0
#endif

struct update_assign {
	DEVICE void run(params p, i64 o, i64 v)
	{
#if KL_DTYPE == 3 || KL_DTYPE == 4
		KL_STORE_u16(p.out, o, KL_LOAD_u16(p.value, v));
#else
		KL_PUT(p.out, o, KL_GET(p.value, v));
#endif
	}
};

#if KL_IS_BOOL
struct update_or {
	DEVICE void run(params p, i64 o, i64 v)
	{
		KL_PUT(p.out, o, KL_GET(p.out, o) | KL_GET(p.value, v));
	}
};
struct update_and {
	DEVICE void run(params p, i64 o, i64 v)
	{
		KL_PUT(p.out, o, KL_GET(p.out, o) & KL_GET(p.value, v));
	}
};
#else
struct update_add {
	DEVICE void run(params p, i64 o, i64 v)
	{
#if WIDE
		((f64 *)p.workspace)[o] += (f64)KL_GET(p.value, v);
#elif KL_IS_FLOAT
		KL_PUT(p.out, o, KL_GET(p.out, o) + KL_GET(p.value, v));
#else
		KL_PUT(p.out, o, (KL_T)((KL_U)KL_GET(p.out, o) +
					(KL_U)KL_GET(p.value, v)));
#endif
	}
};
struct update_mul {
	DEVICE void run(params p, i64 o, i64 v)
	{
#if KL_IS_FLOAT
		KL_PUT(p.out, o, KL_GET(p.out, o) * KL_GET(p.value, v));
#else
		KL_PUT(p.out, o, (KL_T)((KL_U)KL_GET(p.out, o) *
					(KL_U)KL_GET(p.value, v)));
#endif
	}
};
/* Both keep a NaN. */
#if KL_IS_FLOAT
#define IS_NUMBER(a) ((a) == (a))
#else
#define IS_NUMBER(a) true
#endif
struct update_min {
	DEVICE void run(params p, i64 o, i64 v)
	{
		KL_T a = KL_GET(p.out, o), b = KL_GET(p.value, v);

		if (IS_NUMBER(a) && !(a <= b))
			KL_PUT(p.out, o, b);
	}
};
struct update_max {
	DEVICE void run(params p, i64 o, i64 v)
	{
		KL_T a = KL_GET(p.out, o), b = KL_GET(p.value, v);

		if (IS_NUMBER(a) && !(a >= b))
			KL_PUT(p.out, o, b);
	}
};
#endif

template <class U> DEVICE void scatter_lane(params p, u64 lane)
{
	u64 position = 0, along = 1, scale = 1;
	i64 o = 0, x = 0, v = 0;

	for (u32 d = p.rank; d > 0; d--) {
		u64 n = p.shape[d - 1];

		if (d - 1 == p.dim) {
			along = scale;
		} else {
			u64 q = lane / n;
			i64 c = (i64)(lane - q * n);

			o += c * p.out_stride[d - 1];
			x += c * p.index_stride[d - 1];
			v += c * p.value_stride[d - 1];
			position += (u64)c * scale;
			lane = q;
		}
		scale *= n;
	}
	for (u64 k = 0; k < p.shape[p.dim]; k++) {
		i64 i = kl_index_at(p, x);

		if (i < 0 || i >= p.dim_size)
			kl_report(p.report, position, i, p.dim_size);
		else
			U::run(p, o + i * p.out_stride[p.dim], v);
		x += p.index_stride[p.dim];
		v += p.value_stride[p.dim];
		position += along;
	}
}

#define ENTRY(ID, update)                                                      \
	KL_GLOBAL kl_scatter_##ID(const struct kilni_scatter_params p)         \
	{                                                                      \
		u64 lanes = p.count / p.shape[p.dim];                          \
                                                                               \
		for (u64 i = KL_THREAD; i < lanes; i += KL_THREADS)            \
			scatter_lane<update>(p, i);                            \
	}

ENTRY(ASSIGN, update_assign)
#if KL_IS_BOOL
ENTRY(ADD, update_or)
ENTRY(MUL, update_and)
ENTRY(MIN, update_and)
ENTRY(MAX, update_or)
#else
ENTRY(ADD, update_add)
ENTRY(MUL, update_mul)
ENTRY(MIN, update_min)
ENTRY(MAX, update_max)
#endif

#if WIDE
KL_GLOBAL kl_scatter_WIDEN(const struct kilni_scatter_params p)
{
	for (u64 i = KL_THREAD; i < p.out_count; i += KL_THREADS)
		((f64 *)p.workspace)[i] = (f64)KL_GET(p.out, i);
}

KL_GLOBAL kl_scatter_NARROW(const struct kilni_scatter_params p)
{
	for (u64 i = KL_THREAD; i < p.out_count; i += KL_THREADS) {
		f64 x = ((const f64 *)p.workspace)[i];

#if KL_DTYPE == 3
		KL_STORE_u16(p.out, i, kl_f16_of_f32(kl_f32_odd_f64(x)));
#elif KL_DTYPE == 4
		KL_STORE_u16(p.out, i, kl_bf16_of_f32(kl_f32_odd_f64(x)));
#else
		KL_STORE_u32(p.out, i, kl_bits_f32(kl_f32_of_f64(x)));
#endif
	}
}
#endif
