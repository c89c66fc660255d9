/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

#include <stddef.h>

static int is_earlier(struct kilni_report *r, uint64_t position)
{
	return __atomic_load_n(&r->position, __ATOMIC_RELAXED) > position;
}

void kilni_report_index(uint64_t report, uint64_t position, int64_t value,
			int64_t bound)
{
	struct kilni_report *r = (struct kilni_report *)(uintptr_t)report;

	if (r == NULL || !is_earlier(r, position))
		return;
	while (__atomic_exchange_n(&r->lock, 1, __ATOMIC_ACQUIRE) != 0)
		continue;
	if (is_earlier(r, position)) {
		__atomic_store_n(&r->position, position, __ATOMIC_RELAXED);
		r->value = value;
		r->bound = bound;
	}
	__atomic_store_n(&r->lock, 0, __ATOMIC_RELEASE);
}
