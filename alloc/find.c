/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

/*
 * Where a request is served from, first match:
 *
 *  1. the best fit in its pool that needs no event: last used on the same
 *     stream, or by work that has completed; if there is none, again with what
 *     streams keep (for a large request, at once with that; for a small one,
 *     with some of it);
 *  2. where the pool has at least two pages' worth cached, in the shared pool
 *     and the range WORTH_AN_EVENT and twice the request (an exclusive or
 *     persistent pool: always), the best fit behind an event;
 *  3. an idle page of another pool, of a size that this one would ask for;
 *  4. a new page, or a smaller one where driver or cap refuse it;
 *  5. the best fit behind an event after all;
 *  6. a hole in another sliced pool, any idle page that is large enough.
 *
 * In the range steps 3 and 4 are those of range.c, and what still finds no
 * place may have a page of its own.
 *
 * If that fails, work that still uses free memory is waited for and all of it
 * is done again, once; idle pages go back to the driver before.
 */

/* Cached bytes, where all sizes share the memory. */
#define WORTH_AN_EVENT (UINT64_C(32) << 20)

/* Points waited for at a time. */
#define WAITS 64

/* Has stream take a free block, which it may use from now on. */
static struct kilni_block *seize(struct kilni_pools *pools,
				 struct kilni_request *request,
				 struct kilni_block *block)
{
	bool whole = block->page->pool->kind == KILN_POOL_EXCLUSIVE;

	block->behind = request->stream;
	if (kilni_block_carve(pools, block, whole ? block->size
						  : request->size))
		return block;
	request->refusal = kilni_fail(KILN_ERR_NO_MEMORY, 0,
				      "alloc: no memory for a slice's record");
	return NULL;
}

/* Where no event can be had, other memory may do: not an error yet. */
static bool order(struct kilni_pools *pools, struct kilni_block *block,
		  void *stream)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_uses_order(pools, block, stream) == KILN_OK)
		return true;
	kilni_error_restore(&before);
	return false;
}

/* An unused page that is much larger than a request is left whole while the
 * limit allows for a smaller one: so it can go back some day. */
static bool is_spared(const struct kilni_pools *pools,
		      const struct kilni_request *request,
		      const struct kilni_block *block)
{
	return !request->spare && block->page->pool == pools->shared &&
	       !block->page->used && block->size > pools->page_bytes &&
	       block->size / KILNI_SPARED > request->size;
}

/* The best fit in a tree, of at most the given size. */
static struct kilni_block *fit(struct kilni_pools *pools,
			       struct kilni_request *request,
			       struct kilni_block *root, uint64_t most,
			       bool with_event)
{
	struct kilni_block *block = kilni_tree_fit(root, request->size);
	unsigned i;

	for (i = 0; block && block->size <= most && i < KILNI_SCAN;
	     i++, block = kilni_tree_next(root, block)) {
		if (is_spared(pools, request, block))
			continue;
		if (kilni_uses_ready(pools, block, request->stream))
			return seize(pools, request, block);
		if (with_event && order(pools, block, request->stream))
			return seize(pools, request, block);
	}
	return NULL;
}

static struct kilni_block *fit_pool(struct kilni_pools *pools,
				    struct kilni_request *request,
				    struct kilni_pool *pool, bool with_event)
{
	uint64_t most = UINT64_MAX;
	struct kilni_block *block;

	if (pool->kind == KILN_POOL_EXCLUSIVE)
		most = kilni_exclusive_most(pools, request);
	else if (pool->kind == KILN_POOL_PERSISTENT)
		most = request->size;
	block = fit(pools, request, pool->tree, most, with_event);
	if (!block && pool->tails)
		block = fit(pools, request, pool->tails, UINT64_MAX,
			    with_event);
	return block;
}

static struct kilni_block *fit_elsewhere(struct kilni_pools *pools,
					 struct kilni_request *request)
{
	struct kilni_block *block = NULL;
	unsigned i;

	if (request->pool->kind == KILN_POOL_PERSISTENT)
		return NULL;
	kilni_pools_flush(pools);
	for (i = 0; !block && i < pools->ladder; i++)
		block = fit_pool(pools, request, &pools->pool[i], false);
	for (i = 0; !block && i < pools->ladder; i++)
		block = fit_pool(pools, request, &pools->pool[i], true);
	return block;
}

static struct kilni_block *on_page(struct kilni_pools *pools,
				   struct kilni_request *request,
				   struct kilni_block *block)
{
	return block ? seize(pools, request, block) : NULL;
}

static bool is_final(enum kiln_status refusal)
{
	return refusal != KILN_ERR_OUT_OF_MEMORY && refusal != KILN_ERR_LIMIT;
}

/* Bytes cached in a pool from which on an event comes before more memory. */
static uint64_t worth_an_event(const struct kilni_pools *pools,
			       const struct kilni_request *request)
{
	const struct kilni_pool *pool = request->pool;

	if (pool == pools->shared || pool == pools->range.pool)
		return kilni_max_u64(WORTH_AN_EVENT, 2 * request->size);
	return 2 * pool->page_bytes;
}

struct kilni_block *kilni_find_in_range(struct kilni_pools *pools,
					struct kilni_request *request)
{
	struct kilni_pool *pool = request->pool;
	struct kilni_block *block;

	/* Every request is worth it: growing costs calls of the driver. */
	kilni_pool_flush(pools, pool);
	block = fit_pool(pools, request, pool, false);
	if (!block && pool->reserved_bytes - pool->used_bytes >=
			      worth_an_event(pools, request))
		block = fit_pool(pools, request, pool, true);
	if (!block)
		block = kilni_range_grow(pools, request, false);
	if (!block && !is_final(request->refusal))
		block = fit_pool(pools, request, pool, true);
	if (!block && !is_final(request->refusal))
		block = kilni_range_grow(pools, request, true);
	return block;
}

/* What the cap leaves may be less than a granule; and addresses may end. */
static struct kilni_block *find_apart(struct kilni_pools *pools,
				      struct kilni_request *request)
{
	struct kilni_request apart = *request;
	struct kilni_block *block;

	apart.pool = kilni_exclusive(pools);
	block = fit_pool(pools, &apart, apart.pool, false);
	if (!block)
		block = on_page(pools, &apart, kilni_page_grow(pools, &apart));
	return block;
}

static struct kilni_block *attempt_mapped(struct kilni_pools *pools,
					  struct kilni_request *request)
{
	struct kilni_block *block = kilni_find_in_range(pools, request);

	if (!block && !is_final(request->refusal))
		block = fit_elsewhere(pools, request);
	/* Which has made free what pools had kept. */
	if (!block && !is_final(request->refusal))
		block = kilni_find_in_range(pools, request);
	if (!block && !is_final(request->refusal) &&
	    request->size <= pools->max_page)
		block = find_apart(pools, request);
	return block;
}

/*
 * Before a pool grows. A page of small slices costs less than to merge a
 * million of them would: that goes on at the next growth.
 */
static bool flush(struct kilni_pools *pools,
		  const struct kilni_request *request)
{
	if (request->size <= KILNI_SMALL_SLICE)
		return kilni_pool_flush_some(pools, request->pool);
	return kilni_pool_flush(pools, request->pool);
}

static struct kilni_block *attempt(struct kilni_pools *pools,
				   struct kilni_request *request)
{
	struct kilni_pool *pool = request->pool;
	struct kilni_block *block;

	if (pools->range.pool && pool == pools->range.pool)
		return attempt_mapped(pools, request);

	request->spare = kilni_page_exceeds(pools, request);
	if (request->size > KILNI_MERGED_FIRST)
		kilni_pool_flush(pools, pool);
	block = fit_pool(pools, request, pool, false);
	if (!block && flush(pools, request))
		block = fit_pool(pools, request, pool, false);
	if (!block && pool->reserved_bytes - pool->used_bytes >=
			      worth_an_event(pools, request))
		block = fit_pool(pools, request, pool, true);
	if (!block)
		block = on_page(pools, request,
				kilni_page_adopt(pools, request, true));
	if (!block)
		block = on_page(pools, request,
				kilni_page_grow(pools, request));
	request->spare = true;
	if (!block)
		block = fit_pool(pools, request, pool, true);
	if (!block)
		block = fit_elsewhere(pools, request);
	if (!block)
		block = on_page(pools, request,
				kilni_page_adopt(pools, request, false));
	return block;
}

struct kilni_block *kilni_pools_find_warm(struct kilni_pools *pools,
					  struct kilni_request *request)
{
	bool mapped = request->pool == pools->range.pool;
	struct kilni_block *block;

	kilni_pool_flush(pools, request->pool);
	block = fit_pool(pools, request, request->pool, false);
	request->spare = true;
	if (!block)
		block = fit_pool(pools, request, request->pool, true);
	if (!block && !mapped)
		block = on_page(pools, request,
				kilni_page_adopt(pools, request, true));
	if (!block)
		block = fit_elsewhere(pools, request);
	if (!block && !mapped)
		block = on_page(pools, request,
				kilni_page_adopt(pools, request, false));
	return block;
}

/* ---- waiting for pending frees ---- */

/* Adds the block's uses to the points to wait for; false: no room for one. */
static bool collect(const struct kilni_block *block, struct kilni_use *waits,
		    unsigned *count)
{
	uint32_t i;
	unsigned k;

	for (i = 0; i < block->count; i++) {
		const struct kilni_use *use = &block->uses[i];

		for (k = 0; k < *count && waits[k].stream != use->stream; k++)
			;
		if (k == WAITS)
			return false;
		if (k == *count)
			waits[(*count)++] = *use;
		waits[k].seq = kilni_max_u64(waits[k].seq, use->seq);
	}
	return true;
}

static bool collect_page(struct kilni_pools *pools,
			 const struct kilni_page_record *page,
			 struct kilni_use *waits, unsigned *count)
{
	struct kilni_block *block;

	for (block = page->first; block; block = block->after)
		if (kilni_block_is_free(block) &&
		    !kilni_uses_done(pools, block) &&
		    !collect(block, waits, count))
			return false;
	return true;
}

static unsigned collect_all(struct kilni_pools *pools, struct kilni_use *waits)
{
	struct kilni_page_record *page;
	unsigned i, count = 0;

	if (!collect_page(pools, &pools->range.page, waits, &count))
		return count;
	for (i = 0; i < kilni_pool_count(pools); i++)
		for (page = pools->pool[i].pages; page; page = page->after)
			if (!collect_page(pools, page, waits, &count))
				return count;
	return count;
}

/* Waits for what uses free memory; the lock is released meanwhile. */
static enum kiln_status wait_for_frees(struct kilni_pools *pools)
{
	enum kiln_status status = KILN_OK;
	struct kilni_use waits[WAITS];
	unsigned i, count;

	do {
		count = collect_all(pools, waits);
		if (!count)
			break;
		pools->waiting++;
		pthread_mutex_unlock(&pools->lock);
		for (i = 0; i < count && status == KILN_OK; i++)
			status = pools->streams->wait(&waits[i]);
		pthread_mutex_lock(&pools->lock);
		pools->waiting--;
	} while (count == WAITS && status == KILN_OK);
	return status;
}

/* Whether the cap leaves too little even if nothing were cached. */
static bool is_hopeless(const struct kilni_pools *pools,
			const struct kilni_request *request)
{
	uint64_t used = kilni_pools_used(pools);

	return used > pools->cap_bytes ||
	       request->size > pools->cap_bytes - used;
}

/* Pages are all of the wrong size; objects of the range are not. */
static uint64_t what_may_stay(const struct kilni_pools *pools,
			      const struct kilni_request *request)
{
	uint64_t bytes = kilni_align_up(request->size, pools->granularity);

	if (!pools->range.pool || bytes > pools->reserved_bytes)
		return 0;
	return pools->reserved_bytes - bytes;
}

/*
 * Again, with nothing pending any more. Where the driver has no more, idle
 * memory makes room; which may show only once the cap has been obeyed.
 */
static struct kilni_block *retry(struct kilni_pools *pools,
				 struct kilni_request *request)
{
	bool returned = request->refusal == KILN_ERR_OUT_OF_MEMORY;
	struct kilni_block *block;

	if (returned)
		kilni_pages_return(pools, what_may_stay(pools, request));
	block = attempt(pools, request);
	if (block || returned || request->refusal != KILN_ERR_OUT_OF_MEMORY)
		return block;
	kilni_pages_return(pools, what_may_stay(pools, request));
	return attempt(pools, request);
}

struct kilni_block *kilni_pools_find(struct kilni_pools *pools,
				     struct kilni_request *request)
{
	uint64_t before = pools->reserved_bytes;
	enum kiln_status waited;
	struct kilni_block *block;

	/* It would take all there is and be refused after all. */
	if (is_hopeless(pools, request)) {
		request->refusal = KILN_ERR_LIMIT;
		return NULL;
	}
	block = attempt(pools, request);
	if (block || is_final(request->refusal))
		return block;
	kilni_pools_flush(pools);
	waited = wait_for_frees(pools);
	kilni_pools_flush(pools);
	block = retry(pools, request);
	if (block)
		return block;
	/* What came for it and was not enough goes again. */
	kilni_pages_return(pools, before);
	if (waited != KILN_OK && !is_final(request->refusal))
		request->refusal = waited;
	return NULL;
}
