/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/softmax.h"

#include "kernels/dtype.h"

bool kilni_softmax_is_held(const struct kilni_softmax_params *p,
			   uint32_t threads)
{
	uint64_t each = KILNI_SOFTMAX_EACH(kilni_dtype_bytes[p->dtype]);

	return p->length <= each * threads;
}
