/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_REDUCE_FOLDS_H
#define KILNI_KERNELS_CPU_REDUCE_FOLDS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/reduce.h"
#include "kernels/cpu/reduce_half.h"

/*
 * The folds behind all reductions, private to each instruction-set level.
 *
 * Sums of floats accumulate in f64, where no sum of f32, f16 or bf16 can
 * overflow (f16 and bf16 by fours in f32 first); sums and products of integers
 * in the type itself; integer means in 64 bits.
 *
 * Greatest and least are all one fold: the greatest signed integer key. A key
 * orders as the element does, or the other way round for the least. For floats
 * every NaN has the greatest key of all, and -0 comes before +0 in value but
 * ranks equal to it when an index is looked for.
 */

struct kilni_fold_constants {
	uint64_t flip;  /* keys: exclusive-or; truth: bits that count */
	uint64_t inf;   /* float keys: bits of infinity */
};

struct kilni_fold {
	void (*columns)(const void *x, size_t rows, ptrdiff_t stride, size_t w,
			void *acc, struct kilni_fold_constants k);
	void (*rows)(const void *x, size_t rows, ptrdiff_t stride, size_t n,
		     void *acc, struct kilni_fold_constants k);
	void (*merge)(void *acc, const void *other, size_t w);
	void (*clear)(void *acc, size_t w);
	size_t (*find)(const void *x, size_t n, const void *wanted,
		       struct kilni_fold_constants k);
	void (*find_columns)(const void *x, size_t rows, ptrdiff_t stride,
			     size_t w, const void *acc, const void *key,
			     uint8_t *row, struct kilni_fold_constants k);
	void (*search_rows)(const void *x, size_t rows, ptrdiff_t stride,
			    size_t n, void *acc, uint64_t *index,
			    struct kilni_fold_constants k);
	void (*outrank)(void *acc, uint64_t *index, const void *other,
			const uint64_t *other_index, size_t w);
	int (*outranks)(const void *acc, const void *other);
	unsigned acc_bytes;
	unsigned element_bytes;
};

#define ADD_(a, b) ((a) + (b))
#define MUL_(a, b) ((a) * (b))
#define MAX_(a, b) ((a) > (b) ? (a) : (b))

/* ---- Sums and products of floats ---- */

#define NAME sum_f64
#define T double
#define A double
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0.0
#include "kernels/cpu/reduce_fold_tmpl.h"

/* For a sum that overflowed: no 2^64 elements of this can. */
#define NAME sum_f64_scaled
#define T double
#define A double
#define LOAD(x) ((x) * 0x1p-64)
#define OP ADD_
#define NEUTRAL 0.0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME sum_f32
#define T float
#define A double
#define LOAD(x) ((double)(x))
#define OP ADD_
#define NEUTRAL 0.0
#include "kernels/cpu/reduce_fold_tmpl.h"

/* Widened f16: four of them lose nothing that an f16 could show. */
#define NAME sum_f16
#define T float
#define M float
#define A double
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0.0
#include "kernels/cpu/reduce_fold_tmpl.h"

/* A quarter of the sum, so that no four overflow f32. */
#define NAME sum_bf16
#define T uint16_t
#define M float
#define A double
#define LOAD(x) (reduce_float_of((uint32_t)(x) << 16) * 0.25f)
#define OP ADD_
#define NEUTRAL 0.0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_f64
#define T double
#define A double
#define LOAD(x) (x)
#define OP MUL_
#define NEUTRAL 1.0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_f32
#define T float
#define A float
#define LOAD(x) (x)
#define OP MUL_
#define NEUTRAL 1.0f
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Sums and products of integers, modulo 2^bits ---- */

#define NAME sum_w8
#define T uint8_t
#define A uint8_t
#define LOAD(x) (x)
#define OP(a, b) ((uint8_t)((a) + (b)))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME sum_w16
#define T uint16_t
#define A uint16_t
#define LOAD(x) (x)
#define OP(a, b) ((uint16_t)((a) + (b)))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME sum_w32
#define T uint32_t
#define A uint32_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME sum_w64
#define T uint64_t
#define A uint64_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_w8
#define T uint8_t
#define A uint8_t
#define LOAD(x) (x)
#define OP(a, b) ((uint8_t)((a) * (b)))
#define NEUTRAL 1
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_w16
#define T uint16_t
#define A uint16_t
#define LOAD(x) (x)
#define OP(a, b) ((uint16_t)((uint32_t)(a) * (b)))
#define NEUTRAL 1
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_w32
#define T uint32_t
#define A uint32_t
#define LOAD(x) (x)
#define OP MUL_
#define NEUTRAL 1
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME prod_w64
#define T uint64_t
#define A uint64_t
#define LOAD(x) (x)
#define OP MUL_
#define NEUTRAL 1
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Sums of narrow integers in 64 bits, for means ---- */

#define NAME wide_i8
#define T int8_t
#define M int32_t
#define A int64_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME wide_i16
#define T int16_t
#define M int32_t
#define A int64_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME wide_i32
#define T int32_t
#define A int64_t
#define LOAD(x) ((int64_t)(x))
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME wide_u8
#define T uint8_t
#define M int32_t
#define A int64_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME wide_u16
#define T uint16_t
#define M int32_t
#define A int64_t
#define LOAD(x) (x)
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME wide_u32
#define T uint32_t
#define A int64_t
#define LOAD(x) ((int64_t)(x))
#define OP ADD_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Keys of integers ---- */

#define SAME_(a) (a)

#define NAME key_w8
#define T int8_t
#define A int8_t
#define LOAD(x) ((int8_t)((x) ^ flip))
#define OP MAX_
#define NEUTRAL INT8_MIN
#define RANK SAME_
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME key_w16
#define T int16_t
#define A int16_t
#define LOAD(x) ((int16_t)((x) ^ flip))
#define OP MAX_
#define NEUTRAL INT16_MIN
#define RANK SAME_
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME key_w32
#define T int32_t
#define A int32_t
#define LOAD(x) ((x) ^ flip)
#define OP MAX_
#define NEUTRAL INT32_MIN
#define RANK SAME_
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME key_w64
#define T int64_t
#define A int64_t
#define LOAD(x) ((x) ^ flip)
#define OP MAX_
#define NEUTRAL INT64_MIN
#define RANK SAME_
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Absolute values of signed integers; |MIN| is MIN ---- */

#define ABS_(x, bits) (((x) ^ ((x) >> ((bits) - 1))) - ((x) >> ((bits) - 1)))

#define NAME abs_w8
#define T int8_t
#define A int8_t
#define LOAD(x) ((int8_t)ABS_(x, 8))
#define OP MAX_
#define NEUTRAL INT8_MIN
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME abs_w16
#define T int16_t
#define A int16_t
#define LOAD(x) ((int16_t)ABS_(x, 16))
#define OP MAX_
#define NEUTRAL INT16_MIN
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME abs_w32
#define T int32_t
#define A int32_t
#define LOAD(x) ABS_(x, 32)
#define OP MAX_
#define NEUTRAL INT32_MIN
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME abs_w64
#define T int64_t
#define A int64_t
#define LOAD(x) ABS_(x, 64)
#define OP MAX_
#define NEUTRAL INT64_MIN
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Keys of floats ---- */

#define ORDER_(x, bits, top)                                                   \
	(((x) & (top)) > inf ? (top) :                                         \
			       ((x) & (top)) ^ ((x) >> ((bits) - 1)) ^ flip)
/* The two zeros have the keys -1 and 0. */
#define FLOAT_RANK_(a) ((a) < 0 ? (a) + 1 : (a))

#define NAME key_f16
#define T int16_t
#define A int16_t
#define LOAD(x) ((int16_t)ORDER_(x, 16, INT16_MAX))
#define OP MAX_
#define NEUTRAL INT16_MIN
#define RANK(a) ((int16_t)FLOAT_RANK_(a))
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME key_f32
#define T int32_t
#define A int32_t
#define LOAD(x) ORDER_(x, 32, INT32_MAX)
#define OP MAX_
#define NEUTRAL INT32_MIN
#define RANK FLOAT_RANK_
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME key_f64
#define T int64_t
#define A int64_t
#define LOAD(x) ORDER_(x, 64, INT64_MAX)
#define OP MAX_
#define NEUTRAL INT64_MIN
#define RANK FLOAT_RANK_
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Magnitudes of floats; a NaN's is above infinity's ---- */

#define NAME abs_f16
#define T int16_t
#define A int16_t
#define LOAD(x) ((int16_t)((x) & INT16_MAX))
#define OP MAX_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME abs_f32
#define T int32_t
#define A int32_t
#define LOAD(x) ((x) & INT32_MAX)
#define OP MAX_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME abs_f64
#define T int64_t
#define A int64_t
#define LOAD(x) ((x) & INT64_MAX)
#define OP MAX_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

/* ---- Truth: any collects bits that are set, all elements without one ---- */

#define OR_(a, b) ((a) | (b))

#define NAME any_w8
#define T uint8_t
#define A uint8_t
#define LOAD(x) ((uint8_t)((x) & flip))
#define OP(a, b) ((uint8_t)OR_(a, b))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME any_w16
#define T uint16_t
#define A uint16_t
#define LOAD(x) ((uint16_t)((x) & flip))
#define OP(a, b) ((uint16_t)OR_(a, b))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME any_w32
#define T uint32_t
#define A uint32_t
#define LOAD(x) ((x) & flip)
#define OP OR_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME any_w64
#define T uint64_t
#define A uint64_t
#define LOAD(x) ((x) & flip)
#define OP OR_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME all_w8
#define T uint8_t
#define A uint8_t
#define LOAD(x) ((uint8_t)(((x) & flip) == 0))
#define OP(a, b) ((uint8_t)OR_(a, b))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME all_w16
#define T uint16_t
#define A uint16_t
#define LOAD(x) ((uint16_t)(((x) & flip) == 0))
#define OP(a, b) ((uint16_t)OR_(a, b))
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME all_w32
#define T uint32_t
#define A uint32_t
#define LOAD(x) ((uint32_t)(((x) & flip) == 0))
#define OP OR_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#define NAME all_w64
#define T uint64_t
#define A uint64_t
#define LOAD(x) ((uint64_t)(((x) & flip) == 0))
#define OP OR_
#define NEUTRAL 0
#include "kernels/cpu/reduce_fold_tmpl.h"

#undef ADD_
#undef MUL_
#undef MAX_
#undef SAME_
#undef ABS_
#undef ORDER_
#undef FLOAT_RANK_
#undef OR_

#endif
