/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense.h"

#include <kiln/dtype.h>

#include "kernels/dtype.h"
#include "kernels/registry.h"

bool kilni_ew_is_source(unsigned op)
{
	return op == KILNI_OP_FULL || op == KILNI_OP_ARANGE ||
	       op == KILNI_OP_RANDOM;
}

unsigned kilni_ew_dtype(const struct kilni_ew_params *p)
{
	return p->dtype[kilni_ew_is_source(p->op) ? 0 : 1];
}

/* Whether the op has a form for vectors, which is for the kernel to know. */
static bool has_vectors(const struct kilni_ew_params *p)
{
	switch (p->op) {
	case KILNI_OP_ARANGE:
	case KILNI_OP_RANDOM:
	case KILNI_OP_SIN:
	case KILNI_OP_COS:
	case KILNI_OP_TAN:
		return false;
	case KILNI_OP_POWI:
		return kiln_dtype_class(p->dtype[1]) != KILN_CLASS_FLOAT;
	default:
		return true;
	}
}

unsigned kilni_ew_lanes(const struct kilni_ew_params *p)
{
	unsigned bytes = kilni_dtype_bytes[kilni_ew_dtype(p)];
	uint64_t addresses = p->out;

	for (unsigned j = 0; j < 3; j++)
		if (!(p->scalars >> j & 1))
			addresses |= p->in[j];
	if (!p->contiguous || addresses % 16 || !has_vectors(p))
		return 1;
	if (p->op == KILNI_OP_CAST && kilni_dtype_bytes[p->dtype[0]] > bytes)
		bytes = kilni_dtype_bytes[p->dtype[0]];
	return 16 / bytes;
}
