/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/softmax.h"

#include "base/base.h"
#include "kernels/dtype.h"

/* Groups that long rows shall have, and what a chunk is worth at least. */
#define GROUPS_WANTED 1024
#define CHUNK_LEAST 8192
/* Elements of 16 bytes, at most, so that vectors stay aligned. */
#define CHUNK_UNIT 8
#define CHUNK_BYTES 16

bool kilni_softmax_is_held(const struct kilni_softmax_params *p,
			   uint32_t threads)
{
	uint64_t each = KILNI_SOFTMAX_EACH(kilni_dtype_bytes[p->dtype]);

	return p->length <= each * threads;
}

void kilni_plan_softmax(const struct kilni_softmax_params *p,
			struct kilni_softmax *plan)
{
	uint64_t chunks = kilni_min_u64(GROUPS_WANTED / p->rows,
					p->length / CHUNK_LEAST);

	plan->p = *p;
	if (kilni_softmax_is_held(p, KILNI_SOFTMAX_GROUP))
		chunks = 1;
	chunks = kilni_max_u64(chunks, 1);
	plan->chunk = kilni_align_up(kilni_div_up(p->length, chunks),
				     CHUNK_UNIT);
	plan->chunks = kilni_div_up(p->length, plan->chunk);
}

uint64_t kilni_softmax_workspace(const struct kilni_softmax_params *p)
{
	struct kilni_softmax plan;

	kilni_plan_softmax(p, &plan);
	return plan.chunks == 1 ? 0 : p->rows * plan.chunks * CHUNK_BYTES;
}
