/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel language's dialect for GLSL. A kernel is run through the C
 * preprocessor first (GLSL's own cannot paste literals), then the preamble of
 * glsl.head is put before it. kl.h is the dialect for C and CUDA.
 */
#define KL_TARGET_GLSL 1

#define i32 int
#define u32 uint
#define i64 int64_t
#define u64 uint64_t
#define f32 float
#define f64 double

#define KL_FN
#define KL_FN_LARGE
#define KL_TABLE const
#define KL_STRUCT(name) struct name
#define KL_OUT out /* an array that a function fills */

#define KL_LIT_f32(x) x##f
#define KL_LIT_f64(x) x##lf

#define kl_bits_f32(x) floatBitsToUint(x)
#define kl_make_f32(u) uintBitsToFloat(u)
#define kl_bits_f64(x) doubleBitsToUint64(x)
#define kl_make_f64(u) uint64BitsToDouble(u)

#define kl_i32_of_u32(x) int(x)
#define kl_i32_of_i64(x) int(x)
#define kl_i32_of_u64(x) int(x)
#define kl_u32_of_i32(x) uint(x)
#define kl_u32_of_i64(x) uint(x)
#define kl_u32_of_u64(x) uint(x)
#define kl_i64_of_i32(x) int64_t(x)
#define kl_i64_of_u32(x) int64_t(x)
#define kl_i64_of_u64(x) int64_t(x)
#define kl_u64_of_i32(x) uint64_t(int64_t(x))
#define kl_u64_of_u32(x) uint64_t(x)
#define kl_u64_of_i64(x) uint64_t(x)
#define kl_f32_of_f64(x) float(x)
#define kl_f32_of_i32(x) float(x)
#define kl_f32_of_u32(x) float(x)
#define kl_f64_of_f32(x) double(x)
#define kl_f64_of_i32(x) double(x)
#define kl_f64_of_u32(x) double(x)

#define kl_i32_in_f32(x) int(x)
#define kl_i32_in_f64(x) int(x)
#define kl_i64_in_f32(x) int64_t(x)
#define kl_i64_in_f64(x) int64_t(x)

/* f32 division and root are only approximate on some devices, f64 are not. */
#define kl_div_f32(a, b) float(double(a) / double(b))
#define kl_div_f64(a, b) ((a) / (b))
#define kl_sqrt_f32(x) float(sqrt(double(x)))
#define kl_sqrt_f64(x) sqrt(x)

#define kl_quot_i32(a, b) ((a) / (b))
#define kl_quot_u32(a, b) ((a) / (b))
#define kl_quot_i64(a, b) ((a) / (b))
#define kl_quot_u64(a, b) ((a) / (b))

#define kl_shl_u32(x, n) ((x) << (n))
#define kl_shl_u64(x, n) ((x) << (n))
#define kl_shr_u32(x, n) ((x) >> (n))
#define kl_shr_u64(x, n) ((x) >> (n))
#define kl_sar_i32(x, n) ((x) >> (n))
#define kl_sar_i64(x, n) ((x) >> (n))

u32 kl_clz_u64(u64 x)
{
	u32 hi = uint(x >> 32u);
	u32 lo = uint(x);

	return hi != 0u ? 31u - uint(findMSB(hi)) : 63u - uint(findMSB(lo));
}

/* Exact halves, one rounding. */
f64 kl_f64_of_u64(u64 x)
{
	return double(uint(x >> 32u)) * 4294967296.0lf + double(uint(x));
}

f64 kl_f64_of_i64(i64 x)
{
	return double(int(x >> 32u)) * 4294967296.0lf + double(uint(x));
}

f32 kl_f32_of_u64(u64 x)
{
	u32 z = kl_clz_u64(x | 1ul);
	u64 m = x << z;
	u32 q = uint(m >> 40u);
	u64 rest = m & 0xfffffffffful;
	bool up = rest > 0x8000000000ul
		|| (rest == 0x8000000000ul && (q & 1u) != 0u);

	q = up ? q + 1u : q;
	return float(q) * uintBitsToFloat((167u - z) << 23u);
}

f32 kl_f32_of_i64(i64 x)
{
	f32 r = kl_f32_of_u64(uint64_t(x < 0l ? 0l - x : x));

	return x < 0l ? -r : r;
}

/* Memory: element i of an array of a storage type, as u32, i32 or 64 bits. */
layout(buffer_reference, scalar, buffer_reference_align = 1)
	buffer KlRef_u8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 1)
	buffer KlRef_i8 { int8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2)
	buffer KlRef_u16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2)
	buffer KlRef_i16 { int16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4)
	buffer KlRef_u32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8)
	buffer KlRef_u64 { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 16)
	buffer KlRef_vec { uvec4 v; };

#define KL_AT_(ref, bytes, addr, i) ref((addr) + uint64_t(int64_t(i)) * bytes##ul)
#define KL_LOAD_u8(addr, i) uint(KL_AT_(KlRef_u8, 1, addr, i).v)
#define KL_LOAD_i8(addr, i) int(KL_AT_(KlRef_i8, 1, addr, i).v)
#define KL_LOAD_u16(addr, i) uint(KL_AT_(KlRef_u16, 2, addr, i).v)
#define KL_LOAD_i16(addr, i) int(KL_AT_(KlRef_i16, 2, addr, i).v)
#define KL_LOAD_u32(addr, i) KL_AT_(KlRef_u32, 4, addr, i).v
#define KL_LOAD_u64(addr, i) KL_AT_(KlRef_u64, 8, addr, i).v
#define KL_STORE_u8(addr, i, x) KL_AT_(KlRef_u8, 1, addr, i).v = uint8_t(x)
#define KL_STORE_u16(addr, i, x) KL_AT_(KlRef_u16, 2, addr, i).v = uint16_t(x)
#define KL_STORE_u32(addr, i, x) KL_AT_(KlRef_u32, 4, addr, i).v = (x)
#define KL_STORE_u64(addr, i, x) KL_AT_(KlRef_u64, 8, addr, i).v = (x)

/* 16 bytes at a time: four words. */
#define kl_vec uvec4
#define KL_VEC(a, b, c, d) uvec4(a, b, c, d)
#define KL_LOAD_vec(addr, i) KL_AT_(KlRef_vec, 16, addr, i).v
#define KL_STORE_vec(addr, i, x) KL_AT_(KlRef_vec, 16, addr, i).v = (x)
#define KL_WORD(v, j) (v)[j]
#define KL_UNROLL [[unroll]]

/* The report of include/kernels' abi.h; the least position stays. */
layout(buffer_reference, scalar, buffer_reference_align = 8)
	buffer KlReport { u64 position; i64 value; i64 bound; };

void kl_report(u64 report, u64 position, i64 value, i64 bound)
{
	u64 old;

	if (report == 0ul)
		return;
	old = atomicMin(KlReport(report).position, position);
	if (old > position) {
		KlReport(report).value = value;
		KlReport(report).bound = bound;
	}
}

layout(push_constant) uniform KlPush { u64 params; u32 part; } kl_push;

#define KL_THREAD kl_u64_of_u32(gl_GlobalInvocationID.x)
#define KL_THREADS                                                             \
	(kl_u64_of_u32(gl_NumWorkGroups.x) * kl_u64_of_u32(gl_WorkGroupSize.x))
