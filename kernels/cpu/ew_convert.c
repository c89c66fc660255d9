/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/ew_convert.h"

#include <stddef.h>
#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

#include "kernels/kl/kl.h"

#include "kernels/kl/common.kl"
#include "kernels/kl/convert.kl"

const struct ew_dtype KILNI_ISA(kilni_ew_dtypes)[KILN_DTYPE_COUNT] = {
	[KILN_F64] = { EW_F64, 8, 1, 1 },
	[KILN_F32] = { EW_F32, 4, 1, 1 },
	[KILN_FLEX32] = { EW_F32, 4, 1, 1 },
	[KILN_F16] = { EW_F32, 2, 0, 0 },
	[KILN_BF16] = { EW_F32, 2, 0, 0 },
	[KILN_I64] = { EW_I64, 8, 1, 1 },
	[KILN_I32] = { EW_I32, 4, 1, 1 },
	[KILN_I16] = { EW_I32, 2, 0, 0 },
	[KILN_I8] = { EW_I32, 1, 0, 0 },
	[KILN_U64] = { EW_U64, 8, 1, 1 },
	[KILN_U32] = { EW_U32, 4, 1, 1 },
	[KILN_U16] = { EW_U32, 2, 0, 0 },
	[KILN_U8] = { EW_U32, 1, 0, 0 },
	[KILN_BOOL] = { EW_U32, 1, 0, 0 },
	[KILN_BOOL_U8] = { EW_U32, 1, 0, 0 },
	[KILN_BOOL_U32] = { EW_U32, 4, 0, 1 },
};

/* name: from elements x of type FROM to elements of type TO. */
#define CONVERT(name, FROM, TO, expr)                                          \
	static void name(void *to, const void *from, u64 n)                    \
	{                                                                      \
		const FROM *in = from;                                         \
		TO *out = to;                                                  \
                                                                               \
		KILNI_LOOP                                                     \
		for (u64 i = 0; i < n; i++) {                                  \
			FROM x = in[i];                                        \
                                                                               \
			out[i] = (TO)(expr);                                   \
		}                                                              \
	}

CONVERT(load_f16_plain, uint16_t, f32, kl_f32_of_f16(x))
CONVERT(load_bf16, uint16_t, f32, kl_f32_of_bf16(x))
CONVERT(load_i16, int16_t, i32, x)
CONVERT(load_i8, int8_t, i32, x)
CONVERT(load_u16, uint16_t, u32, x)
CONVERT(load_u8, uint8_t, u32, x)
CONVERT(load_bool, uint8_t, u32, x != 0)
CONVERT(load_bool_u32, u32, u32, x != 0)
CONVERT(store_f16_plain, f32, uint16_t, kl_f16_of_f32(x))
CONVERT(store_bf16, f32, uint16_t, kl_bf16_of_f32(x))
CONVERT(store_16, u32, uint16_t, x)
CONVERT(store_8, u32, uint8_t, x)

#if defined(__F16C__) && defined(__AVX__)
static void load_f16(void *to, const void *from, u64 n)
{
	const uint16_t *in = from;
	f32 *out = to;

	for (; n >= 8; n -= 8, in += 8, out += 8) {
		__m128i h = _mm_loadu_si128((const __m128i *)in);

		_mm256_storeu_ps(out, _mm256_cvtph_ps(h));
	}
	load_f16_plain(out, in, n);
}

static void store_f16(void *to, const void *from, u64 n)
{
	const f32 *in = from;
	uint16_t *out = to;

	for (; n >= 8; n -= 8, in += 8, out += 8) {
		__m256 x = _mm256_loadu_ps(in);

		_mm_storeu_si128((__m128i *)out,
				 _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
	}
	store_f16_plain(out, in, n);
}
#else
#define load_f16 load_f16_plain
#define store_f16 store_f16_plain
#endif

ew_convert_fn *const KILNI_ISA(kilni_ew_load)[KILN_DTYPE_COUNT] = {
	[KILN_F16] = load_f16,
	[KILN_BF16] = load_bf16,
	[KILN_I16] = load_i16,
	[KILN_I8] = load_i8,
	[KILN_U16] = load_u16,
	[KILN_U8] = load_u8,
	[KILN_BOOL] = load_bool,
	[KILN_BOOL_U8] = load_bool,
	[KILN_BOOL_U32] = load_bool_u32,
};

ew_convert_fn *const KILNI_ISA(kilni_ew_store)[KILN_DTYPE_COUNT] = {
	[KILN_F16] = store_f16,
	[KILN_BF16] = store_bf16,
	[KILN_I16] = store_16,
	[KILN_I8] = store_8,
	[KILN_U16] = store_16,
	[KILN_U8] = store_8,
	[KILN_BOOL] = store_8,
	[KILN_BOOL_U8] = store_8,
};

CONVERT(cast_f32_f32, f32, f32, x)
CONVERT(cast_f32_f64, f32, f64, kl_f64_of_f32(x))
CONVERT(cast_f32_i32, f32, i32, kl_i32_sat_f32(x))
CONVERT(cast_f32_u32, f32, u32, kl_u32_sat_f32(x))
CONVERT(cast_f32_i64, f32, i64, kl_i64_sat_f32(x))
CONVERT(cast_f32_u64, f32, u64, kl_u64_sat_f32(x))
CONVERT(cast_f64_f32, f64, f32, kl_f32_of_f64(x))
CONVERT(cast_f64_f64, f64, f64, x)
CONVERT(cast_f64_i32, f64, i32, kl_i32_sat_f64(x))
CONVERT(cast_f64_u32, f64, u32, kl_u32_sat_f64(x))
CONVERT(cast_f64_i64, f64, i64, kl_i64_sat_f64(x))
CONVERT(cast_f64_u64, f64, u64, kl_u64_sat_f64(x))
CONVERT(cast_i32_f32, i32, f32, kl_f32_of_i32(x))
CONVERT(cast_i32_f64, i32, f64, kl_f64_of_i32(x))
CONVERT(cast_i32_32, u32, u32, x)
CONVERT(cast_i32_64, i32, i64, x)
CONVERT(cast_u32_f32, u32, f32, kl_f32_of_u32(x))
CONVERT(cast_u32_f64, u32, f64, kl_f64_of_u32(x))
CONVERT(cast_u32_64, u32, u64, x)
CONVERT(cast_i64_f32, i64, f32, kl_f32_of_i64(x))
CONVERT(cast_i64_f64, i64, f64, kl_f64_of_i64(x))
CONVERT(cast_64_32, u64, u32, x)
CONVERT(cast_64_64, u64, u64, x)
CONVERT(cast_u64_f32, u64, f32, kl_f32_of_u64(x))
CONVERT(cast_u64_f64, u64, f64, kl_f64_of_u64(x))
CONVERT(odd_f64, f64, f32, kl_f32_odd_f64(x))
CONVERT(odd_i32, i32, f32, kl_f32_odd_i32(x))
CONVERT(odd_u32, u32, f32, kl_f32_odd_u32(x))
CONVERT(odd_i64, i64, f32, kl_f32_odd_i64(x))
CONVERT(odd_u64, u64, f32, kl_f32_odd_u64(x))
CONVERT(true_f32, f32, u32, x != 0)
CONVERT(true_f64, f64, u32, x != 0)
CONVERT(true_32, u32, u32, x != 0)
CONVERT(true_64, u64, u32, x != 0)

static ew_convert_fn *const casts[EW_TYPES][EW_TYPES] = {
	[EW_F32] = { cast_f32_f32, cast_f32_f64, cast_f32_i32, cast_f32_u32,
		     cast_f32_i64, cast_f32_u64 },
	[EW_F64] = { cast_f64_f32, cast_f64_f64, cast_f64_i32, cast_f64_u32,
		     cast_f64_i64, cast_f64_u64 },
	[EW_I32] = { cast_i32_f32, cast_i32_f64, cast_i32_32, cast_i32_32,
		     cast_i32_64, cast_i32_64 },
	[EW_U32] = { cast_u32_f32, cast_u32_f64, cast_i32_32, cast_i32_32,
		     cast_u32_64, cast_u32_64 },
	[EW_I64] = { cast_i64_f32, cast_i64_f64, cast_64_32, cast_64_32,
		     cast_64_64, cast_64_64 },
	[EW_U64] = { cast_u64_f32, cast_u64_f64, cast_64_32, cast_64_32,
		     cast_64_64, cast_64_64 },
};

static ew_convert_fn *const odd_casts[EW_TYPES] = {
	cast_f32_f32, odd_f64, odd_i32, odd_u32, odd_i64, odd_u64
};

static ew_convert_fn *const bool_casts[EW_TYPES] = {
	true_f32, true_f64, true_32, true_32, true_64, true_64
};

ew_convert_fn *KILNI_ISA(kilni_ew_cast)(enum kiln_dtype from,
					enum kiln_dtype to)
{
	unsigned a = KILNI_ISA(kilni_ew_dtypes)[from].type;
	unsigned b = KILNI_ISA(kilni_ew_dtypes)[to].type;

	switch (to) {
	case KILN_F16:
	case KILN_BF16:
		return odd_casts[a];
	case KILN_BOOL:
	case KILN_BOOL_U8:
	case KILN_BOOL_U32:
		return bool_casts[a];
	default:
		return casts[a][b];
	}
}

static void limit_i32(i32 *x, i32 lo, i32 hi, u64 n)
{
	for (u64 i = 0; i < n; i++) {
		i32 y = x[i] < lo ? lo : x[i];

		x[i] = y > hi ? hi : y;
	}
}

static void limit_u32(u32 *x, u32 hi, u64 n)
{
	for (u64 i = 0; i < n; i++)
		x[i] = x[i] > hi ? hi : x[i];
}

void KILNI_ISA(kilni_ew_saturate)(enum kiln_dtype dtype, void *tile,
				  uint64_t n)
{
	switch (dtype) {
	case KILN_I16:
		limit_i32(tile, INT16_MIN, INT16_MAX, n);
		break;
	case KILN_I8:
		limit_i32(tile, INT8_MIN, INT8_MAX, n);
		break;
	case KILN_U16:
		limit_u32(tile, UINT16_MAX, n);
		break;
	case KILN_U8:
		limit_u32(tile, UINT8_MAX, n);
		break;
	default:
		break;
	}
}
