/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KL_RANDOM_H
#define KILNI_KL_RANDOM_H

#include <stdint.h>

#include <kiln/dtype.h>

/* Whether an element of dtype takes 64 bits of a Philox block, not 32. */
static inline int kilni_random_is_wide(enum kiln_dtype dtype)
{
	return dtype == KILN_F64 || dtype == KILN_I64 || dtype == KILN_U64 ||
	       dtype == KILN_I32 || dtype == KILN_U32;
}

/*
 * Counter values that a RANDOM of count elements uses up: the next call starts
 * at counter + kilni_random_blocks(count, dtype).
 */
static inline uint64_t kilni_random_blocks(uint64_t count,
					   enum kiln_dtype dtype)
{
	uint64_t per = kilni_random_is_wide(dtype) ? 2 : 4;

	return count / per + (count % per != 0);
}

#endif
