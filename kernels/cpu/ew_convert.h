/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_CONVERT_H
#define KILNI_CPU_EW_CONVERT_H

#include <stdint.h>

#include <kiln/dtype.h>

#include "kernels/cpu/ew_isa.h"
#include "kernels/cpu/ew_ops.h"

/*
 * How a dtype is computed with: its compute type, the bytes of an element, and
 * whether memory can be used as it is for an operand (in) and a result (out).
 */
struct ew_dtype {
	uint8_t type;
	uint8_t bytes;
	uint8_t direct_in;
	uint8_t direct_out;
};

extern const struct ew_dtype KILNI_ISA(kilni_ew_dtypes)[KILN_DTYPE_COUNT];

/* n dense elements to another form; to and from do not overlap. */
typedef void ew_convert_fn(void *to, const void *from, uint64_t n);

/* A dtype to its compute type and back; NULL where they are the same. */
extern ew_convert_fn *const KILNI_ISA(kilni_ew_load)[KILN_DTYPE_COUNT];
extern ew_convert_fn *const KILNI_ISA(kilni_ew_store)[KILN_DTYPE_COUNT];

/* The compute type of one dtype to that of another, ready for its store. */
ew_convert_fn *KILNI_ISA(kilni_ew_cast)(enum kiln_dtype from,
					enum kiln_dtype to);

/*
 * Limits n elements of the compute type of dtype, a narrow integer, to the
 * range of dtype. Others are left alone.
 */
void KILNI_ISA(kilni_ew_saturate)(enum kiln_dtype dtype, void *tile,
				  uint64_t n);

#endif
