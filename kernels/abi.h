/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_ABI_H
#define KILNI_KERNELS_ABI_H

#include <stdint.h>

/*
 * Kernel ABI: a kernel takes one plain parameter struct and 64-bit device
 * addresses, the same on every target (CPU: a pointer to it; CUDA: a
 * __grid_constant__ struct; Vulkan: its address as push constant).
 *
 * Every struct begins with the address of a report (struct kilni_report on
 * the CPU), where a kernel notes an index that is out of range; the driver
 * fills it in. Strides are in elements and signed. Fields named after an enum
 * hold its values.
 */

#define KILNI_RANK_MAX 8

/* Kernels that a driver's program table may know. */
#define KILNI_KERNEL_TABLE(X)                                                  \
	X(EW, "elementwise", struct kilni_ew_params)                           \
	X(GATHER, "gather", struct kilni_gather_params)                        \
	X(SCATTER, "scatter", struct kilni_scatter_params)                     \
	X(REDUCE, "reduce", struct kilni_reduce_params)                        \
	X(MATMUL, "matmul", struct kilni_matmul_params)                        \
	X(SOFTMAX, "softmax", struct kilni_softmax_params)                     \
	X(CUSTOM, "custom", struct kilni_custom_params)

enum kilni_kernel {
#define KILNI_KERNEL_ENUM_(ID, name, params) KILNI_KERNEL_##ID,
	KILNI_KERNEL_TABLE(KILNI_KERNEL_ENUM_)
#undef KILNI_KERNEL_ENUM_
	KILNI_KERNEL_COUNT
};

/*
 * Elementwise: out[i] = op(in0[i], in1[i], in2[i]), i in row-major order of
 * shape.
 *
 * Operand j of dtype dtype[1 + j] (out: dtype[0]) is at in[j], or is the
 * scalar of that slot where bit j of scalars is set. Scalars hold the number
 * in the op's compute type (f64 bits, f32 bits in the low half, sign- or
 * zero-extended integer).
 *
 * contiguous != 0: every array operand and out is dense in that order, and
 * rank, shape and stride are not set. Else stride[0] is out's, stride[1 + j]
 * operand j's; axes are merged where that is possible.
 *
 * The compute type of an op is f64 for f64, f32 for the other floats, i64/u64
 * for the 64-bit integers, i32 for i32, i16, i8 and u32 for u32, u16, u8 and
 * bools; it is that of dtype[1] (FULL, ARANGE, RANDOM: of dtype[0]). An
 * operand of another dtype (POWI's exponent) is converted on load.
 *
 *   EW1, PRED     in0
 *   EW2, CMP      in0, in1
 *   CLAMP         in0, scalars 1 (min) and 2 (max)
 *   HARD_SIGMOID  in0, scalars 1 (alpha) and 2 (beta)
 *   MASK_WHERE    in0 tensor, in1 value, in2 mask (a bool)
 *   MASK_FILL     in0 tensor, scalar 1 value, in2 mask (a bool)
 *   COPY, CAST    in0
 *   FULL          scalar 0
 *   ARANGE        scalar 0 start, scalar 1 step: i64 whatever the dtype
 *   RANDOM        scalars 0 and 1 are the distribution's a and b as f64 bits;
 *                 seed and counter below. Element i of the call draws from
 *                 Philox counter (counter + i / 4), lane i % 4, for 32-bit
 *                 draws; see kernels/README.md
 */
struct kilni_ew_params {
	uint64_t report;
	uint64_t count;
	uint64_t out;
	uint64_t in[3];
	uint64_t scalar[3];
	uint32_t op;           /* enum kilni_op */
	uint8_t dtype[4];      /* enum kiln_dtype: out, in0, in1, in2 */
	uint8_t scalars;       /* bit j: operand j is scalar[j] */
	uint8_t contiguous;
	uint8_t rank;
	uint8_t distribution;  /* RANDOM: enum kiln_distribution_kind */
	uint32_t keep;         /* the driver's: the result is soon read again */
	uint64_t seed;
	uint64_t counter;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t stride[4][KILNI_RANK_MAX];
};

/*
 * out[i] = source at i's coordinates with axis dim replaced by index[i].
 * shape is out's; out is dense. An index axis may have stride 0 (select).
 */
struct kilni_gather_params {
	uint64_t report;
	uint64_t count;        /* elements of out */
	uint64_t out;
	uint64_t source;
	uint64_t index;
	int64_t dim_size;      /* of source */
	uint32_t dim;
	uint32_t rank;
	uint32_t element_bytes;
	uint32_t index_dtype;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t source_stride[KILNI_RANK_MAX];
	int64_t index_stride[KILNI_RANK_MAX];
};

/*
 * out at i's coordinates with axis dim replaced by index[i] is combined with
 * value[i], in row-major order of shape, which is value's. out holds the
 * tensor's elements before. ADD of f32, f16 and bf16 accumulates in f64 in
 * workspace (kilni_scatter_workspace bytes) and rounds once at the end.
 */
struct kilni_scatter_params {
	uint64_t report;
	uint64_t count;        /* elements of value */
	uint64_t out;          /* dense */
	uint64_t index;
	uint64_t value;
	uint64_t workspace;
	uint64_t out_count;
	int64_t dim_size;      /* of out */
	uint32_t dim;
	uint32_t rank;
	uint32_t dtype;
	uint32_t index_dtype;
	uint32_t update;       /* enum kiln_update */
	uint32_t reserved;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t out_stride[KILNI_RANK_MAX];
	int64_t index_stride[KILNI_RANK_MAX];
	int64_t value_stride[KILNI_RANK_MAX];
};

/*
 * Reduction of the axes in the bit set axes; out (and index) are dense in the
 * order of the axes that stay. op is one of the REDUCE rows. ANY and ALL write
 * out_dtype, a bool; ARGMAX and ARGMIN write index_dtype to index alone; MAX
 * and MIN write index too where it is not 0 (then exactly one axis is
 * reduced). The others write dtype. Empty axes: the op's neutral element
 * (MEAN of floats: NaN); the op layer has refused the rest.
 */
struct kilni_reduce_params {
	uint64_t report;
	uint64_t in;
	uint64_t out;
	uint64_t index;
	uint64_t workspace;
	uint64_t workspace_bytes;
	uint32_t op;           /* enum kilni_op */
	uint32_t axes;
	uint8_t dtype;
	uint8_t out_dtype;
	uint8_t index_dtype;
	uint8_t rank;
	uint32_t reserved;
	uint64_t shape[KILNI_RANK_MAX];
	int64_t stride[KILNI_RANK_MAX];
};

/*
 * c[b, i, j] = sum over k of a[b, i, k] * b[b, k, j]; c is dense. Batch axes
 * have strides of their own per operand, 0 where broadcast. f16 and bf16
 * accumulate in f32; integers wrap; k = 0 gives zeros.
 */
struct kilni_matmul_params {
	uint64_t report;
	uint64_t a, b, c;
	uint64_t workspace;
	uint64_t workspace_bytes;
	uint64_t m, n, k;
	int64_t a_row, a_col;  /* strides of i and k */
	int64_t b_row, b_col;  /* strides of k and j */
	uint32_t dtype;
	uint32_t batch_rank;
	uint64_t batch_shape[KILNI_RANK_MAX];
	int64_t a_batch[KILNI_RANK_MAX];
	int64_t b_batch[KILNI_RANK_MAX];
};

/*
 * softmax of each row, or its logarithm; in and out are dense and may be one.
 * Element by element it rounds as the ops do of which it is made elsewhere:
 * less the maximum, exp, divided by the sum (the logarithm: less its log); the
 * sum is kept in f64. f16 and bf16 are rounded at the end alone. What chunks of
 * a row find is kept in workspace.
 */
struct kilni_softmax_params {
	uint64_t report;
	uint64_t in;
	uint64_t out;
	uint64_t rows;
	uint64_t length;
	uint32_t dtype;
	uint32_t is_log;
	uint64_t workspace;
};

#define KILNI_CUSTOM_BYTES 384

/*
 * A kernel of the program's own (kiln/kernel.h): block is what it is given,
 * and begins with the address of a report as well.
 */
struct kilni_custom_params {
	uint64_t report;
	uint64_t program;      /* struct kilni_program */
	uint64_t elements;
	uint32_t groups;       /* 0: by elements */
	uint32_t block_bytes;
	uint64_t block[KILNI_CUSTOM_BYTES / 8];
};

/* Where a kernel on the CPU notes the first index out of range. */
struct kilni_report {
	uint64_t position;     /* UINT64_MAX: none; the least position wins */
	int64_t value;
	int64_t bound;
	int lock;
};

#endif
