/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STUBS_EXPECT_H
#define TESTS_STUBS_EXPECT_H

/* For programs that run on the stubs: the first thing that is wrong ends them. */

#include <stdio.h>
#include <stdlib.h>

#include <kiln/kiln.h>

static inline void fail(const char *what)
{
	fprintf(stderr, "%s (%s)\n", what, kiln_error_message());
	exit(1);
}

static inline void expect(int good, const char *what)
{
	if (!good)
		fail(what);
}

#define OK(expr) expect((expr) == 0, __FILE__ ": " #expr)

#endif
