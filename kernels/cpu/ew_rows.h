/* SPDX-License-Identifier: Apache-2.0 */
/* All rows of all compute types; no include guard, the macros differ. */
#define KL_TYPE KL_TYPE_F32
#include "kernels/kl/type.h"
#include "kernels/kl/ops_float.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#define KL_TYPE KL_TYPE_F64
#include "kernels/kl/type.h"
#include "kernels/kl/ops_float.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#define KL_TYPE KL_TYPE_I32
#include "kernels/kl/type.h"
#include "kernels/kl/ops_int.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#define KL_TYPE KL_TYPE_U32
#include "kernels/kl/type.h"
#include "kernels/kl/ops_int.kl"
#include "kernels/kl/ops_bool.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#define KL_TYPE KL_TYPE_I64
#include "kernels/kl/type.h"
#include "kernels/kl/ops_int.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#define KL_TYPE KL_TYPE_U64
#include "kernels/kl/type.h"
#include "kernels/kl/ops_int.kl"
#include "kernels/kl/ops_mask.kl"
#undef KL_TYPE
#undef KL_EW1
#undef KL_EW2
#undef KL_EWI
#undef KL_EW3
#undef KL_CMP
#undef KL_PRED
#undef KL_TRIG
#undef KL_MASK
