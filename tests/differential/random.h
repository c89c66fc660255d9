/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_RANDOM_H
#define DIFF_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* Random numbers that are the same everywhere: a Weyl sequence, mixed. */
struct diff_random {
	uint64_t state;
};

static inline uint64_t diff_mix(uint64_t x)
{
	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}

static inline uint64_t diff_bits(struct diff_random *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	return diff_mix(r->state);
}

/* 0 to below n; n > 0. */
static inline int64_t diff_below(struct diff_random *r, int64_t n)
{
	return (int64_t)(diff_bits(r) % (uint64_t)n);
}

/* low to high, both included. */
static inline int64_t diff_between(struct diff_random *r, int64_t low,
				   int64_t high)
{
	return low + diff_below(r, high - low + 1);
}

/* Once in n. */
static inline bool diff_once_in(struct diff_random *r, int n)
{
	return diff_below(r, n) == 0;
}

/* From 0 to below 1. */
static inline double diff_unit(struct diff_random *r)
{
	return (double)(diff_bits(r) >> 11) * 0x1p-53;
}

#endif
