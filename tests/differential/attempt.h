/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_ATTEMPT_H
#define DIFF_ATTEMPT_H

#include "tests/differential/case.h"

struct diff_result {
	enum kiln_dtype dtype;
	int rank;
	int64_t shape[KILN_RANK_MAX];
	uint64_t bytes; /* 0 too where contents are unspecified */
	void *data;
};

/* What came of a case on a device. */
struct diff_outcome {
	enum kiln_status call, read; /* of the call; of the reads, the first */
	char message[200];           /* where one of them failed */
	int result_count;
	struct diff_result results[CONF_RESULTS_MAX];
	/*
	 * For results whose bound is of a sum of magnitudes: these sums, one
	 * for each element of the first result.
	 */
	uint64_t magnitude_count;
	double *magnitudes;
};

/* Whether running the case could take more memory than is free here. */
bool diff_too_large(const struct diff_case *c);

/* Runs a case; the outcome must be cleared. */
void diff_attempt(struct diff_outcome *outcome, const struct diff_case *c,
		  struct kiln_device *device, bool magnitudes);

void diff_outcome_clear(struct diff_outcome *outcome);

#endif
