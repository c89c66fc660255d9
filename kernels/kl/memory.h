/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KL_MEMORY_H
#define KILNI_KL_MEMORY_H

/* Memory in the dialects for C and CUDA; see kl_glsl.h for the third. */

#define KL_AT_(T, addr, i) (((T *)(addr))[i])
#define KL_LOAD_u8(addr, i) ((u32)KL_AT_(const uint8_t, addr, i))
#define KL_LOAD_i8(addr, i) ((i32)KL_AT_(const int8_t, addr, i))
#define KL_LOAD_u16(addr, i) ((u32)KL_AT_(const uint16_t, addr, i))
#define KL_LOAD_i16(addr, i) ((i32)KL_AT_(const int16_t, addr, i))
#define KL_LOAD_u32(addr, i) KL_AT_(const u32, addr, i)
#define KL_LOAD_u64(addr, i) KL_AT_(const u64, addr, i)
#define KL_STORE_u8(addr, i, x) (KL_AT_(uint8_t, addr, i) = (uint8_t)(x))
#define KL_STORE_u16(addr, i, x) (KL_AT_(uint16_t, addr, i) = (uint16_t)(x))
#define KL_STORE_u32(addr, i, x) (KL_AT_(u32, addr, i) = (x))
#define KL_STORE_u64(addr, i, x) (KL_AT_(u64, addr, i) = (x))

typedef u32 kl_vec __attribute__((vector_size(16)));

#define KL_VEC(a, b, c, d) ((kl_vec){ a, b, c, d })
#define KL_LOAD_vec(addr, i) KL_AT_(const kl_vec, addr, i)
#define KL_STORE_vec(addr, i, x) (KL_AT_(kl_vec, addr, i) = (x))
#define KL_WORD(v, j) (v)[j]
#define KL_UNROLL _Pragma("unroll")

#ifdef KL_TARGET_CUDA

KL_FN void kl_report(u64 report, u64 position, i64 value, i64 bound)
{
	unsigned long long *r = (unsigned long long *)report;

	if (report == 0ul)
		return;
	if (__nvvm_atom_min_gen_ull(r, position) > position) {
		((i64 *)report)[1] = value;
		((i64 *)report)[2] = bound;
	}
}

#define KL_GLOBAL extern "C" __attribute__((global)) void
#define KL_THREAD                                                              \
	((u64)__nvvm_read_ptx_sreg_ctaid_x() *                                 \
	 (u64)__nvvm_read_ptx_sreg_ntid_x() +                                  \
	 (u64)__nvvm_read_ptx_sreg_tid_x())
#define KL_THREADS                                                             \
	((u64)__nvvm_read_ptx_sreg_nctaid_x() *                                \
	 (u64)__nvvm_read_ptx_sreg_ntid_x())

#else

#define kl_report kilni_report_index
#define KL_THREAD 0ul
#define KL_THREADS 1ul

#endif

#endif
