/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/* What programs of this folder share: errors that end them, time, medians. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kiln/kiln.h>

static inline void bench_check(enum kiln_status status, const char *what)
{
	if (status == KILN_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, kiln_error_message());
	exit(EXIT_FAILURE);
}

#define TRY(call) bench_check(call, __FILE__ ": " #call)

static inline double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static inline double now_us(void)
{
	return 1e-3 * now_ns();
}

static inline int bench_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts the values. */
static inline double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), bench_compare);
	return values[count / 2];
}

#endif
