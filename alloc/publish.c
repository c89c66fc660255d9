/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/internal.h"

/* ---- pools and device ---- */

static void fill_pool(struct kilni_segment_pool *to,
		      const struct kilni_pools *pools,
		      const struct kilni_pool *pool)
{
	struct kiln_pool_info info;

	kilni_pool_describe(pools, pool, &info);
	memset(to, 0, sizeof(*to));
	to->kind = info.kind;
	to->mapped = pool == pools->range.pool;
	to->page_bytes = to->mapped ? 0 : info.page_bytes;
	to->max_slice_bytes = info.max_slice_bytes;
	to->pages = info.pages;
	to->peak_pages = info.peak_pages;
	to->allocations = info.allocations;
	to->live_bytes = info.live_bytes;
	to->padding_bytes = info.padding_bytes;
	to->reserved_bytes = info.reserved_bytes;
	to->largest_request_bytes = info.largest_request_bytes;
}

_Static_assert((int)KILNI_POOLS_MAX <= (int)KILNI_SEGMENT_POOLS,
	       "all pools of a device have room");

static void fill_device(struct kilni_segment_device *to,
			const struct kilni_pools *pools)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };

	kilni_pools_count(pools, &usage);
	to->cap_bytes = pools->cap_bytes > INT64_MAX ? 0 : pools->cap_bytes;
	to->allocations = usage.allocations;
	to->live_bytes = usage.live_bytes;
	to->padding_bytes = usage.padding_bytes;
	to->reserved_bytes = usage.reserved_bytes;
	to->peak_live_bytes = usage.peak_live_bytes;
	to->peak_reserved_bytes = usage.peak_reserved_bytes;
	to->driver_calls = usage.driver_calls;
}

/*
 * The sums are those of one moment. What the pages show is seen while streams
 * go on taking what they have kept: a walk may take a millisecond, and nobody
 * shall wait for that.
 */
static void fill(struct kilni_publication *part, void *from)
{
	struct kilni_pools *pools = from;
	unsigned i;

	kilni_caches_gather(pools);
	fill_device(&part->device, pools);
	part->pools = kilni_pool_count(pools);
	for (i = 0; i < part->pools; i++)
		fill_pool(&part->pool[i], pools, &pools->pool[i]);
	kilni_publish_pages(part, pools);
}

/* ---- when ---- */

static bool is_due(const struct kilni_publication *part)
{
	return part && kilni_now_ns() >= __atomic_load_n(&part->due_ns,
							 __ATOMIC_RELAXED);
}

void kilni_pools_publish_locked(struct kilni_pools *pools)
{
	if (is_due(pools->publication))
		kilni_segment_update(pools->publication, fill, pools);
}

void kilni_pools_publish(struct kilni_pools *pools)
{
	if (!is_due(pools->publication))
		return;
	pthread_mutex_lock(&pools->lock);
	kilni_segment_update(pools->publication, fill, pools);
	pthread_mutex_unlock(&pools->lock);
}

void kilni_pools_publish_start(struct kilni_pools *pools)
{
	struct kilni_publication *part;
	uint64_t wanted = 1;

	/* A malformed value was refused when the device was opened. */
	(void)!kilni_option_number(KILNI_OPT_POOL_PUBLISH, &wanted);
	if (!wanted)
		return;
	part = calloc(1, sizeof(*part));
	if (!part) {
		kilni_log(KILNI_LOG_WARN, "pools are not published: no memory");
		return;
	}
	snprintf(part->device.selector, sizeof(part->device.selector), "%s:%u",
		 pools->hw->driver->name, pools->hw->index);
	if (!kilni_segment_join(part)) {
		free(part);
		return;
	}
	pools->publication = part;
	kilni_pools_publish(pools);
}

void kilni_pools_publish_stop(struct kilni_pools *pools)
{
	if (!pools->publication)
		return;
	kilni_segment_leave(pools->publication);
	free(pools->publication);
	pools->publication = NULL;
}
