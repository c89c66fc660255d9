/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <stdio.h>

static uint64_t larger(uint64_t size, const struct kilni_block *block)
{
	return block ? kilni_max_u64(size, block->size) : size;
}

/* Largest free range of a pool whose bins have been flushed. */
static uint64_t largest_hole(const struct kilni_pool *pool)
{
	uint64_t size = larger(0, kilni_tree_largest(pool->tree));

	return larger(size, kilni_tree_largest(pool->tails));
}

uint64_t kilni_pools_used(const struct kilni_pools *pools)
{
	uint64_t used = 0;
	unsigned i;

	for (i = 0; i < kilni_pool_count(pools); i++)
		used += pools->pool[i].used_bytes;
	return used;
}

void kilni_pools_count(const struct kilni_pools *pools,
		       struct kiln_memory_usage *usage)
{
	uint64_t used = kilni_pools_used(pools);
	unsigned i;

	usage->allocations = pools->zero_allocations;
	for (i = 0; i < kilni_pool_count(pools); i++)
		usage->allocations += pools->pool[i].allocations;
	usage->live_bytes = pools->live_bytes;
	usage->cached_bytes = pools->reserved_bytes - used;
	usage->padding_bytes = used - pools->live_bytes;
	usage->reserved_bytes = pools->reserved_bytes;
	usage->peak_live_bytes = kilni_max_u64(pools->peak_live,
					       pools->window_peak);
	usage->peak_reserved_bytes = pools->peak_reserved;
	usage->driver_calls = pools->driver_calls;
}

void kilni_pools_usage(struct kilni_pools *pools,
		       struct kiln_memory_usage *usage)
{
	pthread_mutex_lock(&pools->lock);
	kilni_caches_gather(pools);
	kilni_pools_count(pools, usage);
	pthread_mutex_unlock(&pools->lock);
}

/* In a range a page is a granule, with memory or without. */
static void describe_range(const struct kilni_pools *pools,
			   struct kiln_pool_info *info)
{
	const struct kilni_mapped *range = &pools->range;
	uint64_t span = range->top - range->page.page.address;

	info->pages = range->bytes >> range->shift;
	info->peak_pages = range->peak_bytes >> range->shift;
	info->unmapped_pages = (span - range->bytes) >> range->shift;
}

void kilni_pool_describe(const struct kilni_pools *pools,
			 const struct kilni_pool *pool,
			 struct kiln_pool_info *info)
{
	info->kind = pool->kind;
	info->page_bytes = pool->odd_pages ? 0 : pool->page_bytes;
	info->max_slice_bytes = pool->slice_bytes;
	info->pages = pool->page_count;
	info->peak_pages = pool->peak_pages;
	info->allocations = pool->allocations;
	info->live_bytes = pool->live_bytes;
	info->cached_bytes = pool->reserved_bytes - pool->used_bytes;
	info->padding_bytes = pool->used_bytes - pool->live_bytes;
	info->reserved_bytes = pool->reserved_bytes;
	info->largest_hole_bytes = largest_hole(pool);
	info->largest_request_bytes = pool->largest_request;
	info->cap_bytes = pool->cap_bytes;
	info->unmapped_pages = 0;
	if (pool == pools->range.pool)
		describe_range(pools, info);
}

static size_t report(struct kilni_pools *pools, unsigned first, unsigned end,
		     struct kiln_pool_info *infos, size_t capacity)
{
	unsigned i;

	pthread_mutex_lock(&pools->lock);
	kilni_pools_flush(pools);
	for (i = first; i < end && i - first < capacity; i++)
		kilni_pool_describe(pools, &pools->pool[i],
				    &infos[i - first]);
	pthread_mutex_unlock(&pools->lock);
	return end - first;
}

size_t kilni_pools_report(struct kilni_pools *pools,
			  struct kiln_pool_info *infos, size_t capacity)
{
	return report(pools, 0, pools->ladder, infos, capacity);
}

size_t kilni_pools_special(struct kilni_pools *pools,
			   struct kiln_pool_info *infos, size_t capacity)
{
	return report(pools, pools->ladder, kilni_pool_count(pools), infos,
		      capacity);
}

const char *kilni_pools_mapping(const struct kilni_pools *pools)
{
	return pools->mapping;
}

void kilni_pools_calls(struct kilni_pools *pools,
		       struct kiln_memory_calls *calls)
{
	size_t size = calls->struct_size;

	pthread_mutex_lock(&pools->lock);
	*calls = pools->calls;
	pthread_mutex_unlock(&pools->lock);
	calls->struct_size = size;
}

/* ---- out of memory ---- */

/* The sliced pools by their largest slice, the others by name. */
static void pool_name(const struct kilni_pools *pools,
		      const struct kilni_pool *pool, char *name, size_t size)
{
	if (pool == pools->shared || pool == pools->range.pool)
		snprintf(name, size, "large");
	else if (pool->kind == KILN_POOL_EXCLUSIVE)
		snprintf(name, size, "exclusive");
	else if (pool->kind == KILN_POOL_PERSISTENT)
		snprintf(name, size, "persistent");
	else
		snprintf(name, size, "up to %llu",
			 (unsigned long long)pool->slice_bytes);
}

static void list_pools(const struct kilni_pools *pools, char *text, size_t size)
{
	const char *between = " ";
	char name[40];
	unsigned i;

	text[0] = '\0';
	for (i = 0; i < kilni_pool_count(pools); i++) {
		const struct kilni_pool *pool = &pools->pool[i];
		int length;

		if (!pool->reserved_bytes)
			continue;
		pool_name(pools, pool, name, sizeof(name));
		length = snprintf(text, size, "%s%s %llu of %llu used",
				  between, name,
				  (unsigned long long)pool->used_bytes,
				  (unsigned long long)pool->reserved_bytes);
		if (length < 0 || (size_t)length >= size)
			return;
		between = ", ";
		text += length;
		size -= (size_t)length;
	}
}

/* The cap that refused a request. */
struct ceiling {
	uint64_t bytes, room;
	char whose[60];            /* "" where it is that of all pools */
};

static void find_ceiling(const struct kilni_pools *pools,
			 const struct kilni_request *request,
			 struct ceiling *ceiling)
{
	const struct kilni_pool *pool = request->pool;
	char name[40];

	ceiling->bytes = pools->cap_bytes;
	ceiling->room = kilni_room(pools);
	ceiling->whose[0] = '\0';
	if (!pool->cap_bytes || ceiling->room <= kilni_pool_room(pool) ||
	    ceiling->room < request->size)
		return;
	pool_name(pools, pool, name, sizeof(name));
	snprintf(ceiling->whose, sizeof(ceiling->whose), " of the pool %s",
		 name);
	ceiling->bytes = pool->cap_bytes;
	ceiling->room = kilni_pool_room(pool);
}

enum kiln_status kilni_pools_explain(struct kilni_pools *pools,
				     const struct kilni_request *request)
{
	bool cap = request->refusal == KILN_ERR_LIMIT;
	uint64_t unused, hole = 0;
	struct ceiling ceiling;
	char text[320];
	unsigned i;

	if (!cap && request->refusal != KILN_ERR_OUT_OF_MEMORY)
		return request->refusal;
	kilni_pools_flush(pools);
	for (i = 0; i < kilni_pool_count(pools); i++)
		hole = kilni_max_u64(hole, largest_hole(&pools->pool[i]));
	unused = pools->reserved_bytes - kilni_pools_used(pools);
	find_ceiling(pools, request, &ceiling);
	if (cap) {
		unused += ceiling.room;
		hole = kilni_max_u64(hole, ceiling.room);
	}
	list_pools(pools, text, sizeof(text));
	return kilni_fail(request->refusal, request->native,
			  "out of memory: requested %llu, free %llu, largest "
			  "hole %llu, cap %llu%s; pools:%s",
			  (unsigned long long)request->bytes,
			  (unsigned long long)unused, (unsigned long long)hole,
			  (unsigned long long)ceiling.bytes, ceiling.whose,
			  text);
}
