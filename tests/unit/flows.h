/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FLOWS_H
#define TESTS_UNIT_FLOWS_H

#include "api.h"

/* Tensors that are large enough to be queued, and completions of them. */

static inline struct kiln_tensor *full_of(struct kiln_device *device,
					  int64_t count, double value)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_full(&t, device, KILN_F32, 1, SHAPE(count),
		     kiln_float(value)));
	return t;
}

/* Every element is value. */
static inline void expect_values(const float *have, int64_t count, float value)
{
	int64_t i = 0;

	while (i < count && have[i] == value)
		i++;
	ck_assert_msg(i == count, "element %d is %g in place of %g", (int)i,
		      i == count ? 0 : (double)have[i], (double)value);
}

static inline void expect_all(struct kiln_tensor *t, float value)
{
	int64_t count = (int64_t)kiln_tensor_count(t);
	float *have = malloc((size_t)count * sizeof(float));

	OK(kiln_tensor_read(t, have, (size_t)count * sizeof(float)));
	expect_values(have, count, value);
	free(have);
}

/* The next completion, or one whose op is NULL. */
static inline struct kiln_completion take_one(struct kiln_completions *ring)
{
	struct kiln_completion c = KILN_COMPLETION_INIT;
	size_t count = 1;

	OK(kiln_completions_take(ring, &c, &count));
	if (!count)
		c.op = NULL;
	return c;
}

static inline struct kiln_completion wait_one(struct kiln_completions *ring)
{
	OK(kiln_completions_wait(ring, INT64_C(60000000000)));
	return take_one(ring);
}

#endif
