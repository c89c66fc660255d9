/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_BOUND_H
#define DIFF_BOUND_H

#include "kernels/registry.h"

/* A row of the op registry; it is read as text, nothing else of the library. */
struct diff_op {
	const char *name;
	enum kilni_op_form form;
	unsigned classes;
	double ulp;
	enum kilni_growth growth;
};

/*
 * The row of a function: the longest name that the function's begins with.
 * NULL where there is none.
 */
const struct diff_op *diff_op_of(const char *function);

#endif
