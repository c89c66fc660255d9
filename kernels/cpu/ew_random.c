/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/ew_random.h"

#include <kiln/dtype.h>

#include "kernels/cpu/ew_convert.h"
#include "kernels/kl/kl.h"
#include "kernels/kl/random.h"

#include "kernels/kl/dtype.kl"
#include "kernels/kl/all.kl"
#include "kernels/kl/random.kl"

void KILNI_ISA(kilni_ew_arange)(const struct kilni_ew_params *p,
				uint64_t first, uint64_t n, void *tile)
{
	u64 raw[EW_FILL_MAX];
	enum kiln_dtype dtype = (enum kiln_dtype)p->dtype[0];
	u64 start = p->scalar[0] + first * p->scalar[1];

	for (u64 i = 0; i < n; i++)
		raw[i] = start + i * p->scalar[1];
	KILNI_ISA(kilni_ew_cast)(dtype == KILN_U64 ? KILN_U64 : KILN_I64, dtype)
		(tile, raw, n);
}

/* The words of the elements of a call: first is where element 0 begins. */
struct draws {
	u64 seed;
	u64 block;
	u32 first;
	u32 words[2 * EW_FILL_MAX + 8];
};

static void draw(struct draws *d, const struct kilni_ew_params *p,
		 u64 first, u64 n, u64 words)
{
	u64 per = 4 / words;
	u64 blocks = (first % per + n + per - 1) / per;

	d->block = p->counter + first / per;
	d->first = (u32)(first % per * words);
	for (u64 i = 0; i < blocks; i++) {
		kl_block b = kl_philox(d->block + i, p->seed);

		d->words[4 * i] = b.x;
		d->words[4 * i + 1] = b.y;
		d->words[4 * i + 2] = b.z;
		d->words[4 * i + 3] = b.w;
	}
}

static f64 parameter(const struct kilni_ew_params *p, int i)
{
	return kl_make_f64(p->scalar[i]);
}

/* Elements of one word. */
#define NARROW(i) (d->words[d->first + (i)])
#define NARROW_AT ((u64)d->first + i)
#define GAUSS_NARROW                                                           \
	kl_gauss_f32(d->words[NARROW_AT & ~1ul], d->words[NARROW_AT | 1ul],    \
		     (NARROW_AT & 1ul) != 0)

static void fill_f32(const struct kilni_ew_params *p, const struct draws *d,
		     f32 *out, u64 n)
{
	f64 a = parameter(p, 0);
	f64 b = parameter(p, 1);
	kl_range_f32 r = kl_range_of_f32(a, b, p->dtype[0]);
	f32 m = kl_f32_of_f64(a);
	f32 s = kl_f32_of_f64(b);
	u64 t = kl_threshold(a);

	switch (p->distribution) {
	case KL_RANDOM_DEFAULT:
		for (u64 i = 0; i < n; i++)
			out[i] = kl_unit_f32(NARROW(i), r.bits);
		break;
	case KL_RANDOM_UNIFORM:
		for (u64 i = 0; i < n; i++)
			out[i] = kl_uniform_f32(r, NARROW(i));
		break;
	case KL_RANDOM_NORMAL:
		for (u64 i = 0; i < n; i++)
			out[i] = m + s * GAUSS_NARROW;
		break;
	default:
		for (u64 i = 0; i < n; i++)
			out[i] = NARROW(i) < t ? 1.0f : 0.0f;
		break;
	}
}

struct limits {
	i64 lo, hi;
};

static struct limits limits_of(enum kiln_dtype dtype)
{
	switch (dtype) {
	case KILN_I64:
		return (struct limits){ INT64_MIN, INT64_MAX };
	case KILN_I32:
		return (struct limits){ INT32_MIN, INT32_MAX };
	case KILN_I16:
		return (struct limits){ INT16_MIN, INT16_MAX };
	case KILN_I8:
		return (struct limits){ INT8_MIN, INT8_MAX };
	case KILN_U32:
		return (struct limits){ 0, UINT32_MAX };
	case KILN_U16:
		return (struct limits){ 0, UINT16_MAX };
	case KILN_U8:
		return (struct limits){ 0, UINT8_MAX };
	default:
		return (struct limits){ 0, 1 };
	}
}

static kl_range_int range_of(const struct kilni_ew_params *p)
{
	enum kiln_dtype dtype = (enum kiln_dtype)p->dtype[0];
	struct limits l = limits_of(dtype);
	f64 a = parameter(p, 0);
	f64 b = parameter(p, 1);

	if (p->distribution == KL_RANDOM_DEFAULT)
		return (kl_range_int){ 0, dtype == KILN_I8 ? 127 : 255 };
	if (dtype == KILN_U64)
		return kl_range_of_u64(a, b);
	return kl_range_of_int(a, b, l.lo, l.hi);
}

/* 8 and 16 bits wide; signed and unsigned wrap alike at the store. */
static void fill_narrow_int(const struct kilni_ew_params *p,
			    const struct draws *d, u32 *out, u64 n)
{
	enum kiln_dtype dtype = (enum kiln_dtype)p->dtype[0];
	int is_signed = dtype == KILN_I8 || dtype == KILN_I16;
	kl_range_int r = range_of(p);
	f32 m = kl_f32_of_f64(parameter(p, 0));
	f32 s = kl_f32_of_f64(parameter(p, 1));
	u64 t = kl_threshold(parameter(p, 0));

	switch (p->distribution) {
	case KL_RANDOM_DEFAULT:
	case KL_RANDOM_UNIFORM:
		for (u64 i = 0; i < n; i++)
			out[i] = (u32)kl_pick_narrow(r, NARROW(i));
		break;
	case KL_RANDOM_NORMAL:
		for (u64 i = 0; i < n; i++) {
			f32 x = m + s * GAUSS_NARROW;

			out[i] = is_signed ? (u32)kl_i32_sat_f32(x)
					   : kl_u32_sat_f32(x);
		}
		KILNI_ISA(kilni_ew_saturate)(dtype, out, n);
		break;
	default:
		for (u64 i = 0; i < n; i++)
			out[i] = NARROW(i) < t ? 1 : 0;
		break;
	}
}

/* Elements of two words. */
static u64 wide(const struct draws *d, u64 i)
{
	u64 at = d->first + 2 * i;

	return kl_pair_u64(d->words[at], d->words[at + 1]);
}

static f64 gauss_wide(const struct draws *d, u64 i)
{
	u64 at = (d->first + 2 * i) & ~3ul;

	return kl_gauss_f64(kl_pair_u64(d->words[at], d->words[at + 1]),
			    kl_pair_u64(d->words[at + 2], d->words[at + 3]),
			    ((d->first / 2 + i) & 1) != 0);
}

static void fill_f64(const struct kilni_ew_params *p, const struct draws *d,
		     f64 *out, u64 n)
{
	f64 a = parameter(p, 0);
	f64 b = parameter(p, 1);
	kl_range_f64 r = kl_range_of_f64(a, b);
	u64 t = kl_threshold(a);

	switch (p->distribution) {
	case KL_RANDOM_DEFAULT:
		for (u64 i = 0; i < n; i++)
			out[i] = kl_unit_f64(wide(d, i));
		break;
	case KL_RANDOM_UNIFORM:
		for (u64 i = 0; i < n; i++)
			out[i] = kl_uniform_f64(r, wide(d, i));
		break;
	case KL_RANDOM_NORMAL:
		for (u64 i = 0; i < n; i++)
			out[i] = a + b * gauss_wide(d, i);
		break;
	default:
		for (u64 i = 0; i < n; i++)
			out[i] = (wide(d, i) & 0xffffffffu) < t ? 1.0 : 0.0;
		break;
	}
}

static u64 wide_int(const struct kilni_ew_params *p, const struct draws *d,
		    kl_range_int r, u64 t, u64 i)
{
	f64 x;

	switch (p->distribution) {
	case KL_RANDOM_DEFAULT:
	case KL_RANDOM_UNIFORM:
		return kl_pick_wide(r, wide(d, i));
	case KL_RANDOM_NORMAL:
		x = parameter(p, 0) + parameter(p, 1) * gauss_wide(d, i);
		switch (p->dtype[0]) {
		case KILN_I32:
			return (u64)(i64)kl_i32_sat_f64(x);
		case KILN_U32:
			return kl_u32_sat_f64(x);
		case KILN_I64:
			return (u64)kl_i64_sat_f64(x);
		default:
			return kl_u64_sat_f64(x);
		}
	default:
		return (wide(d, i) & 0xffffffffu) < t ? 1 : 0;
	}
}

static void fill_wide_int(const struct kilni_ew_params *p,
			  const struct draws *d, void *out, u64 n)
{
	kl_range_int r = range_of(p);
	u64 t = kl_threshold(parameter(p, 0));
	u32 *out32 = out;
	u64 *out64 = out;

	if (p->dtype[0] == KILN_I32 || p->dtype[0] == KILN_U32) {
		for (u64 i = 0; i < n; i++)
			out32[i] = (u32)wide_int(p, d, r, t, i);
		return;
	}
	for (u64 i = 0; i < n; i++)
		out64[i] = wide_int(p, d, r, t, i);
}

void KILNI_ISA(kilni_ew_random)(const struct kilni_ew_params *p,
				uint64_t first, uint64_t n, void *tile)
{
	struct draws d;
	enum kiln_dtype dtype = (enum kiln_dtype)p->dtype[0];

	draw(&d, p, first, n, kilni_random_is_wide(dtype) ? 2 : 1);
	switch (dtype) {
	case KILN_F64:
		fill_f64(p, &d, tile, n);
		break;
	case KILN_F32:
	case KILN_FLEX32:
	case KILN_F16:
	case KILN_BF16:
		fill_f32(p, &d, tile, n);
		break;
	case KILN_I64:
	case KILN_U64:
	case KILN_I32:
	case KILN_U32:
		fill_wide_int(p, &d, tile, n);
		break;
	default:
		fill_narrow_int(p, &d, tile, n);
		break;
	}
}
