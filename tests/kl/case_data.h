/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_TESTS_KL_CASE_DATA_H
#define KILNI_TESTS_KL_CASE_DATA_H

#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"
#include "tests/kl/cases.h"

/* Cases as memory and parameters, for the runners of every target. */

static inline unsigned case_bytes(unsigned dtype)
{
	static const uint8_t bytes[] = {
#define BYTES(id, value, name, bytes, cls) [id] = bytes,
		KILN_DTYPE_TABLE(BYTES)
#undef BYTES
	};

	return bytes[dtype];
}

/* Writes elements i % count of a case's list at every i below n. */
static inline void case_fill(void *to, unsigned dtype, const uint64_t *list,
			     unsigned count, uint64_t n)
{
	unsigned bytes = case_bytes(dtype);

	for (uint64_t i = 0; i < n; i++)
		memcpy((char *)to + i * bytes, &list[i % count], bytes);
}

static inline uint64_t case_read(const void *from, unsigned dtype, uint64_t i)
{
	unsigned bytes = case_bytes(dtype);
	uint64_t x = 0;

	memcpy(&x, (const char *)from + i * bytes, bytes);
	return x;
}

/* Parameters of a dense run of n elements; addresses are still to come. */
static inline struct kilni_ew_params case_params(const struct kl_case *c,
						 uint64_t n)
{
	struct kilni_ew_params p;

	memset(&p, 0, sizeof(p));
	p.count = n;
	p.op = c->op;
	memcpy(p.dtype, c->dtype, sizeof(p.dtype));
	memcpy(p.scalar, c->scalar, sizeof(p.scalar));
	p.scalars = c->scalars;
	p.contiguous = 1;
	return p;
}

static inline int case_is_nan(unsigned dtype, uint64_t x)
{
	switch (dtype) {
	case KILN_F64:
		return (x << 1) > 0xffe0000000000000u;
	case KILN_F32:
	case KILN_FLEX32:
		return (x & 0x7fffffff) > 0x7f800000;
	case KILN_F16:
		return (x & 0x7fff) > 0x7c00;
	case KILN_BF16:
		return (x & 0x7fff) > 0x7f80;
	default:
		return 0;
	}
}

/* Any NaN answers for any other; ulp is a distance of bits. */
static inline int case_agrees(unsigned dtype, uint64_t got, uint64_t want,
			      uint64_t ulp)
{
	if (case_is_nan(dtype, want))
		return case_is_nan(dtype, got);
	return (got > want ? got - want : want - got) <= ulp;
}

#endif
