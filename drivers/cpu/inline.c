/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include "base/trace.h"
#include "drivers/cpu/fpenv.h"

/*
 * Small entries run on the caller: up to about so many nanoseconds that is
 * quicker than to hand them to a worker that is awake, or to wake one.
 */
#define COST_INLINE 4000
#define COST_INLINE_ASLEEP 16000

static uint64_t most_cost(struct kilni_gang *gang)
{
	bool awake = __atomic_load_n(&gang->spinning, __ATOMIC_RELAXED) != 0;

	return awake ? COST_INLINE : COST_INLINE_ASLEEP;
}

enum kiln_status kilni_run_inline(struct kilni_queue *base,
				  struct kilni_entry *entry,
				  struct kilni_report *report)
{
	struct kilni_cpu_queue *queue = (void *)base;
	uint64_t begin_ns;
	kilni_fpenv saved;

	if (entry->kind == KILNI_ENTRY_CLOCK) {
		kilni_stamp_now(entry->params.clock.stamp);
		return KILN_OK;
	}
	if (entry->kind != KILNI_ENTRY_KERNEL ||
	    kilni_run_cost(entry) > most_cost(queue->gang))
		return KILN_ERR_UNSUPPORTED;
	KILNI_TRY(KILNI_FAULT("launch"));
	*report = (struct kilni_report){ .position = UINT64_MAX };
	entry->params.raw[0] = (uintptr_t)report;
	begin_ns = kilni_trace_begin();
	saved = kilni_fp_enter();
	kilni_run_kernel(queue->gang->kernels, entry, &kilni_team_alone);
	kilni_fp_leave(saved);
	if (KILNI_UNLIKELY(begin_ns))
		kilni_trace_launch(base, entry, KILNI_TRACE_DEVICE_CLOCK |
				   KILNI_TRACE_INLINE, begin_ns,
				   kilni_now_ns());
	return KILN_OK;
}
