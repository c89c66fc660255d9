/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdint.h>

#include <kiln/kiln.h>

struct bench_case;

/* What a case works on while it is measured. */
struct bench_state {
	struct kiln_device *device;
	const struct bench_case *what;
	struct kiln_tensor *a, *b, *out;
};

typedef enum kiln_status bench_function(struct bench_state *state);

/* One row: its operands, one round of its work, and what a round is worth. */
struct bench_case {
	const char *name, *group;
	enum kiln_dtype dtype;
	int64_t shape_a[2], shape_b[2]; /* shape_b[0] 0: no second operand */
	bench_function *work;
	double worth; /* of one round, in units */
	const char *unit;
};

extern const struct bench_case bench_cases[];
extern const size_t bench_case_count;

/* Seconds of one round: the middle and the least of the samples. */
struct bench_time {
	double median, best;
	int samples;
	int64_t rounds; /* in each sample */
};

/* Runs one case; quick takes fewer samples. */
enum kiln_status bench_measure(struct bench_time *time,
			       struct kiln_device *device,
			       const struct bench_case *what, bool quick);

/* Opens the device and runs a first op to its end. */
enum kiln_status bench_first_op(struct kiln_device **device,
				const char *selector, double *seconds);

#endif
