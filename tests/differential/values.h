/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_VALUES_H
#define DIFF_VALUES_H

#include "tests/differential/case.h"
#include "tests/differential/random.h"

/* Fills count elements of an operand's dtype; the same for the same seed. */
void diff_values_fill(void *data, const struct diff_operand *operand,
		      int64_t count, uint64_t seed);

/* The same elements as f64, each its magnitude; what is not finite is 0. */
void diff_values_magnitudes(double *magnitudes, const void *data,
			    enum kiln_dtype dtype, int64_t count);

/* The least normal number of a float dtype. */
double diff_values_normal(enum kiln_dtype dtype);

/* A scalar argument for tensors of a dtype; a float below least is 0. */
struct kiln_scalar diff_values_scalar(struct diff_random *random,
				      enum kiln_dtype dtype, double least);

#endif
