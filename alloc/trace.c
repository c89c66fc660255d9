/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

static void write_memory(const struct kilni_pools *pools)
{
	struct kilni_trace_record record = { .stream = pools->number };

	record.begin_ns = record.end_ns = kilni_now_ns();
	record.of.memory.reserved_bytes = pools->reserved_bytes;
	record.of.memory.live_bytes = pools->live_bytes;
	kilni_trace_write(KILNI_TRACE_MEMORY, &record);
}

void kilni_pools_trace(struct kilni_pools *pools)
{
	pthread_mutex_lock(&pools->lock);
	kilni_caches_gather(pools);
	write_memory(pools);
	pthread_mutex_unlock(&pools->lock);
}

void kilni_pools_trace_call(const struct kilni_pools *pools,
			    enum kilni_trace_call call, uint64_t bytes,
			    uint64_t begin_ns, enum kiln_status status)
{
	struct kilni_trace_record record = {
		.stream = pools->number,
		.begin_ns = begin_ns,
		.end_ns = begin_ns ? kilni_now_ns() : 0,
		.status = status,
		.of.memory = { .bytes = bytes, .call = call },
	};

	if (!begin_ns)
		return;
	kilni_trace_write(KILNI_TRACE_DRIVER, &record);
	write_memory(pools);
}
