/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_JUDGE_H
#define DIFF_JUDGE_H

#include "tests/differential/attempt.h"

enum diff_verdict {
	DIFF_AGREE,
	DIFF_AGREE_REFUSED, /* both refused, in the same way */
	DIFF_DIFFER,
	DIFF_NO_MEMORY      /* one of them had too little for a large case */
};

/*
 * Compares what came of a case on the device with what came on the reference,
 * within twice the bound of the op. exact: elementwise results have to have
 * the same bits. text says how they differ.
 */
enum diff_verdict diff_judge(const struct diff_case *c, bool exact,
			     const struct diff_outcome *want,
			     const struct diff_outcome *got,
			     struct conf_text *text);

#endif
