/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_SHAPES_H
#define DIFF_SHAPES_H

#include "tests/differential/case.h"
#include "tests/differential/random.h"

/* Gives every operand a shape; those that depend on attributes come after. */
void diff_choose_shapes(struct diff_case *c, struct diff_random *r);

/* Chooses a list of sizes, axes or slices; false where it knows nothing. */
bool diff_choose_list(struct diff_case *c, struct diff_random *r,
		      const struct conf_attr_spec *spec, struct conf_attr *a);

/* Shapes that follow from the attributes, and the range of indices. */
void diff_fit_shapes(struct diff_case *c, struct diff_random *r);

/* How many elements go into one of the result, at most. */
double diff_summands(const struct diff_case *c);

int64_t diff_count(int rank, const int64_t *shape);

#endif
