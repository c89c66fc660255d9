/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_OPS_H
#define KILNI_CPU_EW_OPS_H

#include <stdint.h>

#include "kernels/cpu/ew_isa.h"
#include "kernels/registry.h"

/* Compute types, in the order of KL_TYPE_F32 ... (kernels/kl/type.h). */
enum ew_type {
	EW_F32,
	EW_F64,
	EW_I32,
	EW_U32,
	EW_I64,
	EW_U64,
	EW_TYPES
};

/*
 * n elements of one op, all dense and of the compute type; comparisons and
 * predicates write u32, masks (c of MASK_WHERE and MASK_FILL) are u32. out may
 * be one of the operands.
 */
typedef void ew_op_fn(void *out, const void *a, const void *b, const void *c,
		      uint64_t n);

/* NULL where the op does not take the type. */
extern ew_op_fn *const KILNI_ISA(kilni_ew_ops)[KILNI_OP_COUNT][EW_TYPES];

#endif
