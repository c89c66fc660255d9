/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/ew_ops.h"

#include "kernels/kl/kl.h"

#include "kernels/kl/all.kl"

/* The rows of the ops as functions ... */

#define EW_LOOP_(ID, OUT, THIRD, loads, expr)                                  \
	static void KL_N(ew_##ID)(void *po, const void *pa, const void *pb,    \
				  const void *pc, u64 n)                       \
	{                                                                      \
		OUT *out = po;                                                 \
		const KL_T *va = pa;                                           \
		const KL_T *vb = pb;                                           \
		const THIRD *vc = pc;                                          \
                                                                               \
		(void)vb;                                                      \
		(void)vc;                                                      \
		KILNI_LOOP                                                     \
		for (u64 i = 0; i < n; i++) {                                  \
			loads;                                                 \
			out[i] = (expr);                                       \
		}                                                              \
	}
#define EW_LOAD1_ KL_T a = va[i]
#define EW_LOAD2_ KL_T a = va[i]; KL_T b = vb[i]
#define EW_LOAD3_ KL_T a = va[i]; KL_T b = vb[i]; KL_T c = vc[i]
#define EW_LOAD_MASK_ KL_T a = va[i]; KL_T b = vb[i]; u32 c = vc[i]

/* Elements that are looked at together for the fast form of a KL_TRIG row. */
#define EW_TRIG_RUN 256u

#define EW_TRIG_(ID, name)                                                     \
	EW_LOOP_(ID##_fast, KL_T, KL_T, EW_LOAD1_, KL_N(name##_fast)(a))       \
	EW_LOOP_(ID##_any, KL_T, KL_T, EW_LOAD1_, KL_N(name)(a))               \
	static void KL_N(ew_##ID)(void *po, const void *pa, const void *pb,    \
				  const void *pc, u64 n)                       \
	{                                                                      \
		KL_T *out = po;                                                \
		const KL_T *va = pa;                                           \
                                                                               \
		while (n != 0) {                                               \
			u64 m = n < EW_TRIG_RUN ? n : EW_TRIG_RUN;             \
			KL_U far = 0;                                          \
                                                                               \
			for (u64 i = 0; i < m; i++)                            \
				far |= KL_N(kl_trig_is_fast)(va[i]) ? 0 : 1;   \
			(far == 0 ? KL_N(ew_##ID##_fast) : KL_N(ew_##ID##_any))\
				(out, va, pb, pc, m);                          \
			out += m;                                              \
			va += m;                                               \
			n -= m;                                                \
		}                                                              \
	}

#define KL_EW1(ID, expr) EW_LOOP_(ID, KL_T, KL_T, EW_LOAD1_, expr)
#define KL_EW2(ID, expr) EW_LOOP_(ID, KL_T, KL_T, EW_LOAD2_, expr)
#define KL_EWI(ID, expr) KL_EW2(ID, expr)
#define KL_EW3(ID, expr) EW_LOOP_(ID, KL_T, KL_T, EW_LOAD3_, expr)
#define KL_CMP(ID, expr) EW_LOOP_(ID, u32, KL_T, EW_LOAD2_, (expr) ? 1u : 0u)
#define KL_PRED(ID, expr) EW_LOOP_(ID, u32, KL_T, EW_LOAD1_, (expr) ? 1u : 0u)
#define KL_MASK(ID, expr) EW_LOOP_(ID, KL_T, u32, EW_LOAD_MASK_, expr)
#define KL_TRIG(ID, name) EW_TRIG_(ID, name)
#include "kernels/cpu/ew_rows.h"

/* ... and as entries of the table. */

#define EW_ENTRY_(ID) [KILNI_OP_##ID][KL_TYPE] = KL_N(ew_##ID),
#define KL_EW1(ID, expr) EW_ENTRY_(ID)
#define KL_EW2(ID, expr) EW_ENTRY_(ID)
#define KL_EWI(ID, expr) EW_ENTRY_(ID)
#define KL_EW3(ID, expr) EW_ENTRY_(ID)
#define KL_CMP(ID, expr) EW_ENTRY_(ID)
#define KL_PRED(ID, expr) EW_ENTRY_(ID)
#define KL_MASK(ID, expr) EW_ENTRY_(ID)
#define KL_TRIG(ID, name) EW_ENTRY_(ID)
ew_op_fn *const KILNI_ISA(kilni_ew_ops)[KILNI_OP_COUNT][EW_TYPES] = {
#include "kernels/cpu/ew_rows.h"
};
