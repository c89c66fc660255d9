/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"
#include "drivers/driver.h"

void kilni_trace_launch(const struct kilni_queue *queue,
			const struct kilni_entry *entry, unsigned flags,
			uint64_t begin_ns, uint64_t end_ns)
{
	struct kilni_trace_record record = {
		.flags = (uint8_t)flags,
		.op = entry->op,
		.stream = queue->number,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.of.serial = entry->user,
	};

	if (kilni_is_traced())
		kilni_trace_write(KILNI_TRACE_LAUNCH, &record);
}
