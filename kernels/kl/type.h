/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the macros of the type that KL_TYPE names (KL_TYPE_F32 ...), for files
 * that are included once per compute type. No include guard: every inclusion
 * sets them anew.
 *
 *   KL_T        the type
 *   KL_U        the unsigned integer of its width
 *   KL_N(name)  name with the type's suffix: kl_exp -> kl_exp_f32
 *   KL_C(x)     a floating literal of the type
 *   KL_Z(x)     an integer literal of the type
 *   KL_UZ(x)    an integer literal of KL_U
 *   KL_K(NAME)  a constant of the type: KL_NAME_f32
 *   KL_BITS     the bits of an integer, as a KL_T
 *   KL_MANT     bits of the fraction; KL_BIAS of the exponent
 */
#define KL_TYPE_F32 0
#define KL_TYPE_F64 1
#define KL_TYPE_I32 2
#define KL_TYPE_U32 3
#define KL_TYPE_I64 4
#define KL_TYPE_U64 5

#undef KL_T
#undef KL_U
#undef KL_N
#undef KL_C
#undef KL_Z
#undef KL_UZ
#undef KL_K
#undef KL_BITS
#undef KL_MANT
#undef KL_BIAS

#if KL_TYPE == KL_TYPE_F32
#define KL_T f32
#define KL_U u32
#define KL_N(name) name##_f32
#define KL_C(x) KL_LIT_f32(x)
#define KL_UZ(x) x##u
#define KL_K(NAME) KL_##NAME##_f32
#define KL_MANT 23u
#define KL_BIAS 127u
#elif KL_TYPE == KL_TYPE_F64
#define KL_T f64
#define KL_U u64
#define KL_N(name) name##_f64
#define KL_C(x) KL_LIT_f64(x)
#define KL_UZ(x) x##ul
#define KL_K(NAME) KL_##NAME##_f64
#define KL_MANT 52u
#define KL_BIAS 1023ul
#elif KL_TYPE == KL_TYPE_I32
#define KL_T i32
#define KL_U u32
#define KL_N(name) name##_i32
#define KL_Z(x) x
#define KL_UZ(x) x##u
#define KL_K(NAME) KL_##NAME##_i32
#define KL_BITS 32
#elif KL_TYPE == KL_TYPE_U32
#define KL_T u32
#define KL_U u32
#define KL_N(name) name##_u32
#define KL_Z(x) x##u
#define KL_UZ(x) x##u
#define KL_K(NAME) KL_##NAME##_u32
#define KL_BITS 32u
#elif KL_TYPE == KL_TYPE_I64
#define KL_T i64
#define KL_U u64
#define KL_N(name) name##_i64
#define KL_Z(x) x##l
#define KL_UZ(x) x##ul
#define KL_K(NAME) KL_##NAME##_i64
#define KL_BITS 64l
#else
#define KL_T u64
#define KL_U u64
#define KL_N(name) name##_u64
#define KL_Z(x) x##ul
#define KL_UZ(x) x##ul
#define KL_K(NAME) KL_##NAME##_u64
#define KL_BITS 64ul
#endif
