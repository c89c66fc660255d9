/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_OPS_H
#define KILN_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/dtype.h>
#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * Rules that hold for every op; each function adds only what is its own.
 *
 * Result. The result comes first and is assigned: *out is NULL or a live
 * reference on entry; on success it holds the new tensor and the old reference
 * is released; on failure it is untouched. *out may be one of the operands,
 * and is then written in place where it is its storage's only owner. An op of
 * two results refuses the same place twice with KILN_ERR_INVALID.
 *
 * Operands are borrowed, never changed, and must be on one device
 * (KILN_ERR_DEVICE). They may be views with any strides.
 *
 * Broadcasting. Shapes of elementwise operands are aligned at the right; a
 * size of 1 stretches to any size, 0 included. KILN_ERR_SHAPE otherwise.
 *
 * Dtypes. Operands of one op have one dtype and so has the result, unless the
 * function says otherwise (KILN_ERR_DTYPE). f16 and bf16 are computed in f32
 * and rounded to nearest even once per op; integers wrap. "any" is any dtype,
 * "number" any float or integer.
 *
 * Axes count from 0; "dim" must be in 0..rank-1 (KILN_ERR_INVALID).
 *
 * Where an op runs. It is queued on the calling thread's current stream of the
 * operands' device and the call returns; memory for the result is reserved
 * before, so that KILN_ERR_OUT_OF_MEMORY and KILN_ERR_LIMIT are this call's
 * errors and nothing is queued. What the device finds later (an index out of
 * range) is reported by the first read or sync that meets it.
 *
 * Statuses of every op, beside those named: KILN_ERR_INVALID (NULL, a released
 * handle where it can be told), KILN_ERR_DEVICE, KILN_ERR_DTYPE,
 * KILN_ERR_SHAPE, KILN_ERR_OVERFLOW, KILN_ERR_UNSUPPORTED_DTYPE,
 * KILN_ERR_UNSUPPORTED (a Vulkan device without 64-bit floats lacks some ops of
 * smaller dtypes too; the message says so), KILN_ERR_OUT_OF_MEMORY,
 * KILN_ERR_LIMIT, KILN_ERR_NO_MEMORY, KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST,
 * KILN_ERR_BUSY, KILN_ERR_FORKED.
 *
 * All functions are thread-safe; none waits for earlier work, unless memory at
 * the cap has to be waited for.
 *
 * Definitions follow the Backend contract of the Burn framework (0.22), named
 * in brackets; corner cases are decided in kiln-corners(7).
 */

/* ---- Creation ---- */

/**
 * kiln_empty - a tensor whose contents are unspecified
 *
 * rank 1..8, sizes >= 0. Any dtype. [float_empty, int_empty, bool_empty]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_empty(struct kiln_tensor **out, struct kiln_device *device,
	   enum kiln_dtype dtype, int rank, const int64_t *shape);

/**
 * kiln_zeros - all elements 0 (false)
 *
 * Any dtype. [float_zeros, int_zeros, bool_zeros]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_zeros(struct kiln_tensor **out, struct kiln_device *device,
	   enum kiln_dtype dtype, int rank, const int64_t *shape);

/**
 * kiln_ones - all elements 1 (true)
 *
 * Any dtype. [float_ones, int_ones, bool_ones]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_ones(struct kiln_tensor **out, struct kiln_device *device,
	  enum kiln_dtype dtype, int rank, const int64_t *shape);

/**
 * kiln_full - all elements the scalar, converted to dtype
 *
 * Any dtype. KILN_ERR_OVERFLOW: an integer dtype cannot hold the value.
 * [float_full, int_full]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_full(struct kiln_tensor **out, struct kiln_device *device,
	  enum kiln_dtype dtype, int rank, const int64_t *shape,
	  struct kiln_scalar value);

/**
 * kiln_arange - start, start + step, ... below (step > 0) or above end
 *
 * dtype: any integer or float. Shape [n], n = ceil((end - start) / step) or 0.
 * KILN_ERR_INVALID: step is 0. KILN_ERR_OVERFLOW: dtype cannot hold a value.
 * [int_arange, int_arange_step]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_arange(struct kiln_tensor **out, struct kiln_device *device,
	    enum kiln_dtype dtype, int64_t start, int64_t end, int64_t step);

/* How kiln_random draws. */
enum kiln_distribution_kind {
	KILN_RANDOM_DEFAULT = 0,   /* float: [0,1); integer: 0..254, i8: 0..126 */
	KILN_RANDOM_UNIFORM = 1,   /* [a, b), a < b */
	KILN_RANDOM_NORMAL = 2,    /* mean a, standard deviation b >= 0 */
	KILN_RANDOM_BERNOULLI = 3  /* 1 with probability a in [0,1], else 0 */
};

struct kiln_distribution {
	enum kiln_distribution_kind kind;
	double a, b;
};

/**
 * kiln_random - random elements
 *
 * dtype: any float or integer, bool with BERNOULLI. Integers of NORMAL are cut
 * towards zero and saturate. Counter-based (Philox 4x32-10): the values depend
 * on the seed and on the number of random calls before, not on the device.
 * KILN_ERR_INVALID: parameters out of range. [float_random, int_random]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_random(struct kiln_tensor **out, struct kiln_device *device,
	    enum kiln_dtype dtype, int rank, const int64_t *shape,
	    struct kiln_distribution distribution);

/* ---- Conversion and copies ---- */

/**
 * kiln_cast - each element converted to dtype; the same dtype gives the same
 * tensor
 *
 * Floats round to nearest even, once; float to integer truncates, saturates and
 * turns NaN into 0; integer to narrower integer wraps; anything but 0 is true.
 * [float_cast, int_cast, float_into_int, int_into_float, bool_into_int,
 * bool_into_float]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_cast(struct kiln_tensor **out, struct kiln_tensor *tensor,
	  enum kiln_dtype dtype);

/**
 * kiln_to_device - the tensor on another device; on its own device the same
 * tensor
 *
 * Between devices this waits for the tensor and copies through the host.
 * [float_to_device, int_to_device, bool_to_device]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_to_device(struct kiln_tensor **out, struct kiln_tensor *tensor,
	       struct kiln_device *device);

/**
 * kiln_copy_into - writes src into dst's existing storage, whatever its owners
 *
 * The one op that changes a tensor others hold: for state that is carried from
 * step to step. Same dtype; src broadcasts to dst's shape. dst must not overlap
 * itself, as a broadcast view does, nor be read-only foreign memory
 * (KILN_ERR_INVALID). src may overlap dst. A read that runs at the same time in
 * another thread may see some elements old and some new.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_copy_into(struct kiln_tensor *dst, struct kiln_tensor *src);

/* ---- Arithmetic ---- */

/**
 * kiln_add - lhs + rhs
 *
 * number. Integers wrap. [float_add, int_add]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_add(struct kiln_tensor **out, struct kiln_tensor *lhs,
	 struct kiln_tensor *rhs);

/**
 * kiln_sub - lhs - rhs
 *
 * number. Integers wrap. [float_sub, int_sub]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sub(struct kiln_tensor **out, struct kiln_tensor *lhs,
	 struct kiln_tensor *rhs);

/**
 * kiln_mul - lhs * rhs
 *
 * number. Integers wrap. [float_mul, int_mul]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mul(struct kiln_tensor **out, struct kiln_tensor *lhs,
	 struct kiln_tensor *rhs);

/**
 * kiln_div - lhs / rhs
 *
 * number. Integers truncate; x / 0 is 0, MIN / -1 is MIN. [float_div, int_div]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_div(struct kiln_tensor **out, struct kiln_tensor *lhs,
	 struct kiln_tensor *rhs);

/**
 * kiln_remainder - remainder with the sign of rhs
 *
 * number. Integers: x rem 0 is x. Floats: x rem 0 is NaN, x rem inf is x where
 * x is 0 or has the sign of rhs, else rhs. [float_remainder, int_remainder]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_remainder(struct kiln_tensor **out, struct kiln_tensor *lhs,
	       struct kiln_tensor *rhs);

/**
 * kiln_powf - lhs raised to rhs
 *
 * float; the rules of C pow(). [float_powf]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_powf(struct kiln_tensor **out, struct kiln_tensor *lhs,
	  struct kiln_tensor *rhs);

/**
 * kiln_powi - lhs raised to an integer rhs
 *
 * lhs number; rhs integer: any integer dtype where lhs is float, else the dtype
 * of lhs. Integers wrap; a negative exponent gives the exact value truncated.
 * [float_powi, int_powi]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_powi(struct kiln_tensor **out, struct kiln_tensor *lhs,
	  struct kiln_tensor *rhs);

/**
 * kiln_add_scalar - lhs + rhs with a scalar
 *
 * As kiln_add. [float_add_scalar, int_add_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_add_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_scalar rhs);

/**
 * kiln_sub_scalar - lhs - rhs with a scalar
 *
 * As kiln_sub. [float_sub_scalar, int_sub_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sub_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_scalar rhs);

/**
 * kiln_mul_scalar - lhs * rhs with a scalar
 *
 * As kiln_mul. [float_mul_scalar, int_mul_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mul_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_scalar rhs);

/**
 * kiln_div_scalar - lhs / rhs with a scalar
 *
 * As kiln_div. [float_div_scalar, int_div_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_div_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_scalar rhs);

/**
 * kiln_remainder_scalar - remainder by a scalar
 *
 * As kiln_remainder. [float_remainder_scalar, int_remainder_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_remainder_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		      struct kiln_scalar rhs);

/**
 * kiln_powf_scalar - lhs raised to a scalar
 *
 * float. [float_powf_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_powf_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_scalar rhs);

/**
 * kiln_powi_scalar - lhs raised to an integer scalar
 *
 * number. KILN_ERR_DTYPE: the scalar is not integral. [float_powi_scalar,
 * int_powi_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_powi_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_scalar rhs);

/**
 * kiln_neg - -x
 *
 * number. [float_neg, int_neg]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_neg(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_abs - |x|
 *
 * number. [float_abs, int_abs]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_abs(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_sign - -1, 0 or 1; NaN of NaN, +0 of -0
 *
 * number. [float_sign, int_sign]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sign(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_square - x * x
 *
 * number. [int_square]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_square(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_recip - 1 / x
 *
 * float. [float_recip]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_recip(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_sqrt - square root, correctly rounded
 *
 * float. [float_sqrt]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sqrt(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_exp - e to the x
 *
 * float. [float_exp]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_exp(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_log - natural logarithm
 *
 * float. [float_log]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_log(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_log1p - log(1 + x), accurate near 0
 *
 * float. [float_log1p]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_log1p(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_sin - sine of radians
 *
 * float; infinity gives NaN. [float_sin]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sin(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_cos - cosine of radians
 *
 * float; infinity gives NaN. [float_cos]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_cos(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_tan - tangent of radians
 *
 * float. [float_tan]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tan(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_tanh - hyperbolic tangent
 *
 * float. [float_tanh]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tanh(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_erf - error function
 *
 * float. [float_erf]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_erf(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_floor - largest integer <= x
 *
 * float. [float_floor]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_floor(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_ceil - smallest integer >= x
 *
 * float. [float_ceil]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_ceil(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_round - nearest integer, ties to even
 *
 * float. [float_round]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_round(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_trunc - x without its fraction
 *
 * float. [float_trunc]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_trunc(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_clamp - x limited to min..max
 *
 * number. NaN stays NaN; where min > max the result is max. [float_clamp,
 * int_clamp]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_clamp(struct kiln_tensor **out, struct kiln_tensor *tensor,
	   struct kiln_scalar min, struct kiln_scalar max);

/**
 * kiln_clamp_min - x, at least min
 *
 * number. NaN stays NaN. [float_clamp_min, int_clamp_min]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_clamp_min(struct kiln_tensor **out, struct kiln_tensor *tensor,
	       struct kiln_scalar min);

/**
 * kiln_clamp_max - x, at most max
 *
 * number. NaN stays NaN. [float_clamp_max, int_clamp_max]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_clamp_max(struct kiln_tensor **out, struct kiln_tensor *tensor,
	       struct kiln_scalar max);

/* ---- Comparison; the result has the dtype bool_dtype, a bool ---- */

/**
 * kiln_equal - lhs == rhs
 *
 * any; bools compare as truth values. [float_equal, int_equal, bool_equal]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_equal(struct kiln_tensor **out, struct kiln_tensor *lhs,
	   struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_not_equal - lhs != rhs
 *
 * Any dtype. [float_not_equal, int_not_equal, bool_not_equal]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_not_equal(struct kiln_tensor **out, struct kiln_tensor *lhs,
	       struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_greater - lhs > rhs
 *
 * number. [float_greater, int_greater]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_greater(struct kiln_tensor **out, struct kiln_tensor *lhs,
	     struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_greater_equal - lhs >= rhs
 *
 * number. [float_greater_equal, int_greater_equal]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_greater_equal(struct kiln_tensor **out, struct kiln_tensor *lhs,
		   struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_lower - lhs < rhs
 *
 * number. [float_lower, int_lower]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_lower(struct kiln_tensor **out, struct kiln_tensor *lhs,
	   struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_lower_equal - lhs <= rhs
 *
 * number. [float_lower_equal, int_lower_equal]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_lower_equal(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_tensor *rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_equal_scalar - lhs == rhs with a scalar
 *
 * any; bools compare as truth values. [float_equal_elem, int_equal_elem,
 * bool_equal_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_equal_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		  struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_not_equal_scalar - lhs != rhs with a scalar
 *
 * Any dtype. [float_not_equal_elem, int_not_equal_elem, bool_not_equal_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_not_equal_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		      struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_greater_scalar - lhs > rhs with a scalar
 *
 * number. [float_greater_elem, int_greater_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_greater_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		    struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_greater_equal_scalar - lhs >= rhs with a scalar
 *
 * number. [float_greater_equal_elem, int_greater_equal_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_greater_equal_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
			  struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_lower_scalar - lhs < rhs with a scalar
 *
 * number. [float_lower_elem, int_lower_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_lower_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		  struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_lower_equal_scalar - lhs <= rhs with a scalar
 *
 * number. [float_lower_equal_elem, int_lower_equal_elem]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_lower_equal_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
			struct kiln_scalar rhs, enum kiln_dtype bool_dtype);

/**
 * kiln_is_nan - x is NaN
 *
 * float. [float_is_nan]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_is_nan(struct kiln_tensor **out, struct kiln_tensor *tensor,
	    enum kiln_dtype bool_dtype);

/**
 * kiln_is_inf - x is an infinity
 *
 * float. [float_is_inf]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_is_inf(struct kiln_tensor **out, struct kiln_tensor *tensor,
	    enum kiln_dtype bool_dtype);

/* ---- Bits (integers) and truth values (bools) ---- */

/**
 * kiln_bitwise_and - lhs & rhs
 *
 * integer. [bitwise_and]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_and(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_tensor *rhs);

/**
 * kiln_bitwise_and_scalar - lhs & rhs with a scalar
 *
 * integer. As the form above. [bitwise_and_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_and_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
			struct kiln_scalar rhs);

/**
 * kiln_bitwise_or - lhs | rhs
 *
 * integer. [bitwise_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_or(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_tensor *rhs);

/**
 * kiln_bitwise_or_scalar - lhs | rhs with a scalar
 *
 * integer. As the form above. [bitwise_or_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_or_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
		       struct kiln_scalar rhs);

/**
 * kiln_bitwise_xor - lhs ^ rhs
 *
 * integer. [bitwise_xor]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_xor(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_tensor *rhs);

/**
 * kiln_bitwise_xor_scalar - lhs ^ rhs with a scalar
 *
 * integer. As the form above. [bitwise_xor_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_xor_scalar(struct kiln_tensor **out, struct kiln_tensor *lhs,
			struct kiln_scalar rhs);

/**
 * kiln_bitwise_left_shift - lhs << rhs; 0 where rhs is negative or at least the
 * width
 *
 * integer. [bitwise_left_shift]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_left_shift(struct kiln_tensor **out, struct kiln_tensor *lhs,
			struct kiln_tensor *rhs);

/**
 * kiln_bitwise_left_shift_scalar - lhs << rhs with a scalar
 *
 * integer. As the form above. [bitwise_left_shift_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_left_shift_scalar(struct kiln_tensor **out,
			       struct kiln_tensor *lhs, struct kiln_scalar rhs);

/**
 * kiln_bitwise_right_shift - lhs >> rhs, arithmetic for signed dtypes; 0 or the
 * sign where rhs is negative or at least the width
 *
 * integer. [bitwise_right_shift]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_right_shift(struct kiln_tensor **out, struct kiln_tensor *lhs,
			 struct kiln_tensor *rhs);

/**
 * kiln_bitwise_right_shift_scalar - lhs >> rhs with a scalar
 *
 * integer. As the form above. [bitwise_right_shift_scalar]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_right_shift_scalar(struct kiln_tensor **out,
				struct kiln_tensor *lhs,
				struct kiln_scalar rhs);

/**
 * kiln_bitwise_not - ~x
 *
 * integer. [bitwise_not]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_bitwise_not(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_logical_and - lhs and rhs
 *
 * bool. [bool_and]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_logical_and(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_tensor *rhs);

/**
 * kiln_logical_or - lhs or rhs
 *
 * bool. [bool_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_logical_or(struct kiln_tensor **out, struct kiln_tensor *lhs,
		struct kiln_tensor *rhs);

/**
 * kiln_logical_xor - lhs exclusive-or rhs
 *
 * bool. [bool_xor]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_logical_xor(struct kiln_tensor **out, struct kiln_tensor *lhs,
		 struct kiln_tensor *rhs);

/**
 * kiln_logical_not - not x
 *
 * bool. [bool_not]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_logical_not(struct kiln_tensor **out, struct kiln_tensor *tensor);

/* ---- Choice ---- */

/**
 * kiln_mask_where - value where mask is true, else tensor
 *
 * tensor and value: one dtype, any; mask: any bool. All three broadcast.
 * [float_mask_where, int_mask_where, bool_mask_where]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mask_where(struct kiln_tensor **out, struct kiln_tensor *tensor,
		struct kiln_tensor *mask, struct kiln_tensor *value);

/**
 * kiln_mask_fill - the scalar where mask is true, else tensor
 *
 * any; mask: any bool. Both broadcast. [float_mask_fill, int_mask_fill,
 * bool_mask_fill]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mask_fill(struct kiln_tensor **out, struct kiln_tensor *tensor,
	       struct kiln_tensor *mask, struct kiln_scalar value);

/* ---- Activation; float ---- */

/**
 * kiln_relu - x where x > 0, else 0; NaN stays NaN
 *
 * [relu]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_relu(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_gelu - x times the normal distribution function, by erfc
 *
 * [gelu]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_gelu(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_sigmoid - 1 / (1 + exp(-x))
 *
 * [sigmoid]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sigmoid(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_log_sigmoid - log of sigmoid, without overflow
 *
 * [log_sigmoid]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_log_sigmoid(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_leaky_relu - x where x >= 0, else x * negative_slope
 *
 * [leaky_relu]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_leaky_relu(struct kiln_tensor **out, struct kiln_tensor *tensor,
		struct kiln_scalar negative_slope);

/**
 * kiln_hard_sigmoid - alpha * x + beta, limited to 0..1
 *
 * [hard_sigmoid]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_hard_sigmoid(struct kiln_tensor **out, struct kiln_tensor *tensor,
		  struct kiln_scalar alpha, struct kiln_scalar beta);

/**
 * kiln_prelu - x where x >= 0, else x * alpha
 *
 * alpha of rank 1: one element, or one per channel, axis 1 of tensor (axis 0
 * where tensor has rank 1). alpha of tensor's rank: broadcasts to its shape.
 * [prelu]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_prelu(struct kiln_tensor **out, struct kiln_tensor *tensor,
	   struct kiln_tensor *alpha);

/**
 * kiln_relu_backward - grad where output > 0, else 0
 *
 * [relu_backward]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_relu_backward(struct kiln_tensor **out, struct kiln_tensor *output,
		   struct kiln_tensor *grad);

/**
 * kiln_sigmoid_backward - grad * output * (1 - output)
 *
 * [sigmoid_backward]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sigmoid_backward(struct kiln_tensor **out, struct kiln_tensor *output,
		      struct kiln_tensor *grad);

/**
 * kiln_gelu_backward - grad times the derivative of gelu at x
 *
 * [gelu_backward]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_gelu_backward(struct kiln_tensor **out, struct kiln_tensor *x,
		   struct kiln_tensor *grad);

/**
 * kiln_log_sigmoid_backward - grad times the derivative of log_sigmoid at x
 *
 * [log_sigmoid_backward]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_log_sigmoid_backward(struct kiln_tensor **out, struct kiln_tensor *x,
			  struct kiln_tensor *grad);

/**
 * kiln_softmax - exp(x) over the sum of exp(x) along dim
 *
 * A row that is all -inf gives NaN. [softmax]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_softmax(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_log_softmax - log of softmax
 *
 * A row that is all -inf gives NaN. [log_softmax]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_log_softmax(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_softmin - softmax of -x
 *
 * A row that is all -inf gives NaN. [softmin]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_softmin(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/* ---- Reduction ---- */
/* The *_dim forms keep the axis with size 1, the others give shape [1]. */

/* sum and mean of f16 and bf16 accumulate in f32; f32 sums are pairwise. */

/**
 * kiln_sum - sum of all elements; 0 of nothing
 *
 * number. Integers wrap. [float_sum, int_sum]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sum(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_sum_dim - sum along dim; 0 of nothing
 *
 * number. Integers wrap. [float_sum_dim, int_sum_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_sum_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_mean - mean of all elements; NaN of nothing
 *
 * number. Signed integers accumulate in i64 and truncate; the sum of unsigned
 * ones wraps in the dtype. KILN_ERR_EMPTY: an integer mean of nothing.
 * [float_mean, int_mean]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mean(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_mean_dim - mean along dim; NaN of nothing
 *
 * number. Signed integers accumulate in i64 and truncate; the sum of unsigned
 * ones wraps in the dtype. KILN_ERR_EMPTY: an integer mean of nothing.
 * [float_mean_dim, int_mean_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_mean_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_prod - product of all elements; 1 of nothing
 *
 * number. Integers wrap. [float_prod, int_prod]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_prod(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_prod_dim - product along dim; 1 of nothing
 *
 * number. Integers wrap. [float_prod_dim, int_prod_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_prod_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_max - maximum of all elements; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_max, int_max]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_max(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_max_dim - maximum along dim; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_max_dim, int_max_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_max_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_min - minimum of all elements; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_min, int_min]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_min(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_min_dim - minimum along dim; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_min_dim, int_min_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_min_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_max_abs - greatest absolute value of all elements; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_max_abs, int_max_abs]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_max_abs(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_max_abs_dim - greatest absolute value along dim; NaN where any is NaN
 *
 * number. KILN_ERR_EMPTY. [float_max_abs_dim, int_max_abs_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_max_abs_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim);

/**
 * kiln_max_dim_with_indices - maximum along dim and where it is
 *
 * number. The lowest index at ties, the first NaN; indices in indices_dtype, an
 * integer. KILN_ERR_EMPTY. KILN_ERR_OVERFLOW: indices_dtype cannot count the
 * axis. [float_max_dim_with_indices, int_max_dim_with_indices]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_max_dim_with_indices(struct kiln_tensor **out,
			  struct kiln_tensor **indices,
			  struct kiln_tensor *tensor, int dim,
			  enum kiln_dtype indices_dtype);

/**
 * kiln_min_dim_with_indices - minimum along dim and where it is
 *
 * number. The lowest index at ties, the first NaN; indices in indices_dtype, an
 * integer. KILN_ERR_EMPTY. KILN_ERR_OVERFLOW: indices_dtype cannot count the
 * axis. [float_min_dim_with_indices, int_min_dim_with_indices]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_min_dim_with_indices(struct kiln_tensor **out,
			  struct kiln_tensor **indices,
			  struct kiln_tensor *tensor, int dim,
			  enum kiln_dtype indices_dtype);

/**
 * kiln_argmax - index of the greatest element along dim
 *
 * number. The lowest at ties, the first NaN; result in indices_dtype, an
 * integer. KILN_ERR_EMPTY. [float_argmax, int_argmax]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_argmax(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	    enum kiln_dtype indices_dtype);

/**
 * kiln_argmin - index of the least element along dim
 *
 * number. The lowest at ties, the first NaN; result in indices_dtype, an
 * integer. KILN_ERR_EMPTY. [float_argmin, int_argmin]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_argmin(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	    enum kiln_dtype indices_dtype);

/**
 * kiln_any - whether any element is true; false of nothing
 *
 * any; NaN counts as true. Result in bool_dtype, a bool. [float_any, int_any,
 * bool_any]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_any(struct kiln_tensor **out, struct kiln_tensor *tensor,
	 enum kiln_dtype bool_dtype);

/**
 * kiln_any_dim - whether any element is true; false of nothing, along dim
 *
 * Any dtype. [float_any_dim, int_any_dim, bool_any_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_any_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	     enum kiln_dtype bool_dtype);

/**
 * kiln_all - whether all elements are true; true of nothing
 *
 * any; NaN counts as true. Result in bool_dtype, a bool. [float_all, int_all,
 * bool_all]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_all(struct kiln_tensor **out, struct kiln_tensor *tensor,
	 enum kiln_dtype bool_dtype);

/**
 * kiln_all_dim - whether all elements are true; true of nothing, along dim
 *
 * Any dtype. [float_all_dim, int_all_dim, bool_all_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_all_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	     enum kiln_dtype bool_dtype);

/* ---- Matrix product ---- */

/**
 * kiln_matmul - matrix product of the last two axes
 *
 * [.., M, K] x [.., K, N] -> [.., M, N]; the other axes broadcast. Rank 2..8,
 * both alike or right-aligned. number; f16 and bf16 accumulate in f32, integers
 * wrap. K = 0 gives zeros. Where a CPU has instructions for products of bf16
 * (AVX512-BF16, AMX) they are used, and those take denormals as zeros;
 * KILN_CPU_ISA=avx2 goes without. [float_matmul, int_matmul]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_matmul(struct kiln_tensor **out, struct kiln_tensor *lhs,
	    struct kiln_tensor *rhs);

/* ---- Shape; a view of the same storage where strides allow ---- */

/**
 * kiln_reshape - the elements in row-major order under another shape
 *
 * any. A view where strides allow, else a copy. KILN_ERR_SHAPE: another count.
 * [float_reshape, int_reshape, bool_reshape]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_reshape(struct kiln_tensor **out, struct kiln_tensor *tensor, int rank,
	     const int64_t *shape);

/**
 * kiln_swap_dims - two axes exchanged
 *
 * any; a view. [float_swap_dims, int_swap_dims, bool_swap_dims]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_swap_dims(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim1,
	       int dim2);

/**
 * kiln_transpose - the last two axes exchanged
 *
 * any; a view. KILN_ERR_SHAPE: rank 1. [float_transpose, int_transpose,
 * bool_transpose]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_transpose(struct kiln_tensor **out, struct kiln_tensor *tensor);

/**
 * kiln_permute - axis i of the result is axis axes[i]
 *
 * any; a view. axes: rank entries, a permutation, else KILN_ERR_INVALID.
 * [float_permute, int_permute, bool_permute]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_permute(struct kiln_tensor **out, struct kiln_tensor *tensor,
	     const int *axes);

/**
 * kiln_expand - broadcast to a shape, aligned at the right
 *
 * any; a view with stride 0. KILN_ERR_SHAPE. [float_expand, int_expand,
 * bool_expand]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_expand(struct kiln_tensor **out, struct kiln_tensor *tensor, int rank,
	    const int64_t *shape);

/**
 * kiln_flip - order reversed along count axes
 *
 * any; a view with negative strides. An axis may be named once. [float_flip,
 * int_flip, bool_flip]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_flip(struct kiln_tensor **out, struct kiln_tensor *tensor, int count,
	  const int *axes);

/* End of a slice that reaches to the end of its axis. */
#define KILN_SLICE_END INT64_MAX

/*
 * Elements [start, end) of an axis, every |step|th; a negative step walks the
 * same range from its last element downwards: {0, 5, -1} is 4 3 2 1 0.
 * Negative start and end count from the end; both are limited to the axis.
 */
struct kiln_slice {
	int64_t start, end, step;
};

/**
 * kiln_slice - a range of each axis; axes beyond count are whole
 *
 * any; a view. KILN_ERR_INVALID: a step of 0, more slices than axes.
 * [float_slice, int_slice, bool_slice]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_slice(struct kiln_tensor **out, struct kiln_tensor *tensor, int count,
	   const struct kiln_slice *slices);

/**
 * kiln_slice_assign - the tensor with a region replaced by value
 *
 * any. value's shape is that of the region. In place where *out is tensor and
 * its only owner. [float_slice_assign, int_slice_assign, bool_slice_assign]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_slice_assign(struct kiln_tensor **out, struct kiln_tensor *tensor,
		  int count, const struct kiln_slice *slices,
		  struct kiln_tensor *value);

/**
 * kiln_cat - tensors joined along dim
 *
 * any; the other axes alike. KILN_ERR_INVALID: none. [float_cat, int_cat,
 * bool_cat]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_cat(struct kiln_tensor **out, int count,
	 struct kiln_tensor *const *tensors, int dim);

/**
 * kiln_repeat_dim - the tensor repeated along dim, times >= 0
 *
 * Any dtype. [float_repeat_dim, int_repeat_dim, bool_repeat_dim]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_repeat_dim(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
		int64_t times);

/**
 * kiln_unfold - sliding windows along dim
 *
 * any; a view. Axis dim counts the windows, a new last axis of length size
 * holds them; none where size exceeds the axis. KILN_ERR_INVALID: size < 0,
 * step < 1. KILN_ERR_SHAPE: the rank would exceed 8. [float_unfold, int_unfold,
 * bool_unfold]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_unfold(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	    int64_t size, int64_t step);

/* ---- Index; indices are of any integer dtype and never wrap ---- */

/*
 * An index out of range skips its element and fails the result: the read
 * reports KILN_ERR_INDEX with the op and the value.
 */

/* How scatter and select_assign combine what is there with what comes. */
enum kiln_update {
	KILN_UPDATE_ASSIGN = 0, /* repeated indices: the last in row-major order */
	KILN_UPDATE_ADD = 1,    /* of bools: or */
	KILN_UPDATE_MUL = 2,    /* of bools: and */
	KILN_UPDATE_MIN = 3,
	KILN_UPDATE_MAX = 4
};

/**
 * kiln_gather - out[.., i, ..] = tensor[.., indices[.., i, ..], ..]
 *
 * any. Shapes of tensor and indices agree but for dim; the result has the shape
 * of indices. [float_gather, int_gather, bool_gather]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_gather(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	    struct kiln_tensor *indices);

/**
 * kiln_scatter - tensor with value combined at the indices along dim
 *
 * any. indices and value have one shape, which agrees with tensor but for dim.
 * Applied in row-major order of value. [float_scatter_add, float_scatter,
 * int_scatter_add, int_scatter, bool_scatter_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_scatter(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	     struct kiln_tensor *indices, struct kiln_tensor *value,
	     enum kiln_update update);

/**
 * kiln_scatter_add - kiln_scatter with KILN_UPDATE_ADD
 *
 * [float_scatter_add, int_scatter_add, bool_scatter_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_scatter_add(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
		 struct kiln_tensor *indices, struct kiln_tensor *value);

/**
 * kiln_select - the slices of axis dim that indices name, in their order
 *
 * any; indices of rank 1. [float_select, int_select, bool_select]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_select(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	    struct kiln_tensor *indices);

/**
 * kiln_select_assign - tensor with value's slice j combined into slice
 * indices[j] of dim
 *
 * any; value's shape is tensor's with axis dim the length of indices. In order
 * of j. [float_select_add, float_select_assign, int_select_add,
 * int_select_assign, bool_select_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_select_assign(struct kiln_tensor **out, struct kiln_tensor *tensor,
		   int dim, struct kiln_tensor *indices,
		   struct kiln_tensor *value, enum kiln_update update);

/**
 * kiln_select_add - kiln_select_assign with KILN_UPDATE_ADD
 *
 * [float_select_add, int_select_add, bool_select_or]
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_select_add(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
		struct kiln_tensor *indices, struct kiln_tensor *value);

KILN_END_DECLS

#endif
