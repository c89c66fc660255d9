/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <stdlib.h>

#include "alloc/publish.h"
#include "base/poison.h"

/*
 * When pages go back. Let the recent peak be the highest sum of live bytes in
 * this and the last window of idle_limit allocations, and the allowance that
 * peak, one page of page_bytes and the slack.
 *
 * - A pool that needs a page while more than the allowance would be reserved
 *   gives idle pages back first, longest idle first.
 * - Every KILNI_TICK allocations, pages that have been idle for idle_limit
 *   allocations go back while more than the allowance is reserved. So a rare
 *   peak is gone after three times idle_limit allocations.
 * - Where a page is taken of the size of one of the KILNI_RETURNED that were
 *   last given back so, that was a mistake: idle_limit doubles and the slack
 *   grows by that page (it counts up to the recent peak). After QUIET_WINDOWS
 *   windows without a mistake both halve.
 *
 * In the range the same holds for objects that lie whole in free memory: one
 * is idle since the last slice was freed inside, and while some that were given
 * back unasked have not been missed, a new one is a mistake.
 */
#define QUIET_WINDOWS 8

/*
 * The shared pool: where nothing fits, a page of 2/5 of what is reserved, of
 * three usual pages at most, or of what is needed, whichever is more; less
 * where the limit would be passed, which is the peak of live bytes and one part
 * in SHARED_SLACK. Where even what is needed passes it, unused pages go back
 * first, the largest first. Where the cap leaves less than SHARED_NEAR usual
 * pages, a page holds a whole number of what is needed.
 */
#define SHARED_SLACK 20
#define SHARED_NEAR 16

/* Pages whose size is free are multiples of it where the cap has room. */
#define PAGE_STEP (UINT64_C(2) << 20)

/* ---- lists ---- */

void kilni_idle_push(struct kilni_pools *pools, struct kilni_page_record *page)
{
	page->idle_since = pools->clock;
	page->idle_before = pools->idle_last;
	page->idle_after = NULL;
	if (pools->idle_last)
		pools->idle_last->idle_after = page;
	else
		pools->idle_first = page;
	pools->idle_last = page;
}

void kilni_idle_remove(struct kilni_pools *pools,
		       struct kilni_page_record *page)
{
	if (page->idle_before)
		page->idle_before->idle_after = page->idle_after;
	else
		pools->idle_first = page->idle_after;
	if (page->idle_after)
		page->idle_after->idle_before = page->idle_before;
	else
		pools->idle_last = page->idle_before;
}

static void join_pool(struct kilni_page_record *page, struct kilni_pool *pool)
{
	page->pool = pool;
	page->before = NULL;
	page->after = pool->pages;
	if (pool->pages)
		pool->pages->before = page;
	pool->pages = page;
	pool->page_count++;
	pool->peak_pages = kilni_max_u64(pool->peak_pages, pool->page_count);
	pool->odd_pages += page->page.bytes != pool->page_bytes;
	pool->reserved_bytes += page->page.bytes;
}

static void leave_pool(struct kilni_page_record *page)
{
	struct kilni_pool *pool = page->pool;

	if (page->before)
		page->before->after = page->after;
	else
		pool->pages = page->after;
	if (page->after)
		page->after->before = page->before;
	pool->page_count--;
	pool->odd_pages -= page->page.bytes != pool->page_bytes;
	pool->reserved_bytes -= page->page.bytes;
}

/* ---- giving back ---- */

static void free_page(struct kilni_pools *pools, struct kilni_page_record *page)
{
	uint64_t begin_ns = kilni_trace_begin();

	pools->reserved_bytes -= page->page.bytes;
	pools->driver_calls++;
	pools->calls.page_free++;
	if (KILNI_POISON && pools->limits.host_visible)
		kilni_unpoison(page->page.address, page->page.bytes);
	kilni_memory(pools)->page_free(pools->hw, &page->page);
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_PAGE_FREE,
			       page->page.bytes, begin_ns, KILN_OK);
}

static void drop_page(struct kilni_pools *pools, struct kilni_page_record *page)
{
	struct kilni_block *block = page->first;

	while (block) {
		struct kilni_block *next = block->after;

		if (kilni_block_is_free(block))
			kilni_tree_remove(kilni_block_root(block), block);
		kilni_block_drop(pools, block);
		block = next;
	}
	kilni_idle_remove(pools, page);
	leave_pool(page);
	if (page->inside) {
		pools->range.pool->reserved_bytes += page->inside->size;
		kilni_block_release(pools, page->inside);
	} else {
		free_page(pools, page);
	}
	free(page);
}

static bool page_is_done(struct kilni_pools *pools,
			 struct kilni_page_record *page)
{
	struct kilni_block *block;

	for (block = page->first; block; block = block->after)
		if (!kilni_uses_done(pools, block))
			return false;
	return true;
}

void kilni_idle_return(struct kilni_pools *pools, uint64_t target)
{
	struct kilni_page_record *page = pools->idle_first;

	while (page && pools->reserved_bytes > target) {
		struct kilni_page_record *next = page->idle_after;

		if (!page->pins && page_is_done(pools, page))
			drop_page(pools, page);
		page = next;
	}
}

void kilni_pages_return(struct kilni_pools *pools, uint64_t target)
{
	kilni_idle_return(pools, target);
	kilni_range_return(pools, target, 0);
}

void kilni_pages_free_all(struct kilni_pools *pools)
{
	unsigned i;

	kilni_pools_flush(pools);
	for (i = 0; i < kilni_pool_count(pools); i++)
		while (pools->pool[i].pages) {
			struct kilni_page_record *page = pools->pool[i].pages;

			/* A leaked slice keeps its page off the idle list. */
			if (page->used)
				kilni_idle_push(pools, page);
			drop_page(pools, page);
		}
	kilni_range_close(pools);
}

/* ---- the allowance ---- */

static uint64_t allowance(const struct kilni_pools *pools, uint64_t more)
{
	uint64_t peak = kilni_max_u64(pools->last_peak, pools->window_peak);

	peak = kilni_max_u64(peak, kilni_sum(pools->live_bytes, more));
	return kilni_sum(kilni_sum(peak, pools->page_bytes),
		      kilni_min_u64(pools->slack, peak));
}

static void remember(struct kilni_pools *pools, uint64_t bytes)
{
	pools->returned[pools->returned_next++ % KILNI_RETURNED] = bytes;
}

void kilni_regret(struct kilni_pools *pools, uint64_t bytes)
{
	pools->quiet = 0;
	pools->slack = kilni_sum(pools->slack, bytes);
	pools->idle_limit = kilni_min_u64(2 * pools->idle_limit,
					  KILNI_IDLE_LIMIT_MAX);
}

/* Whether taking a page shows that one should not have been given back. */
static void regret(struct kilni_pools *pools, uint64_t bytes)
{
	unsigned i;

	for (i = 0; i < KILNI_RETURNED; i++) {
		if (pools->returned[i] != bytes)
			continue;
		pools->returned[i] = 0;
		kilni_regret(pools, bytes);
		return;
	}
}

/* Gives back idle pages, idle for at least age, that exceed the limit. */
static void return_surplus(struct kilni_pools *pools, uint64_t limit,
			   uint64_t age)
{
	struct kilni_page_record *page = pools->idle_first;

	while (page && pools->reserved_bytes > limit &&
	       pools->clock - page->idle_since >= age) {
		struct kilni_page_record *next = page->idle_after;

		if (!page->pins && page_is_done(pools, page)) {
			if (!page->inside)
				remember(pools, page->page.bytes);
			drop_page(pools, page);
		}
		page = next;
	}
	pools->range.returned += kilni_range_return(pools, limit, age);
}

static void next_window(struct kilni_pools *pools)
{
	kilni_caches_idle(pools);
	pools->peak_live = kilni_max_u64(pools->peak_live, pools->window_peak);
	pools->last_peak = pools->window_peak;
	pools->window_peak = pools->live_bytes;
	if (++pools->quiet >= QUIET_WINDOWS) {
		pools->quiet = 0;
		pools->slack /= 2;
		pools->range.returned /= 2;
		pools->idle_limit = kilni_max_u64(pools->idle_limit / 2,
						  KILNI_IDLE_LIMIT);
	}
	pools->window_end = pools->clock + pools->idle_limit;
}

void kilni_pools_tick(struct kilni_pools *pools)
{
	pools->next_tick = pools->clock + KILNI_TICK;
	kilni_bins_age(pools);
	if (pools->clock >= pools->window_end)
		next_window(pools);
	return_surplus(pools, allowance(pools, 0), pools->idle_limit);
	kilni_pools_publish_locked(pools);
}

/* ---- taking ---- */

static uint64_t shared_limit(const struct kilni_pools *pools, uint64_t more)
{
	uint64_t peak = kilni_peak(pools, more);

	return kilni_sum(peak, peak / SHARED_SLACK);
}

/* A page that goes with the others, and what is needed on it. */
static uint64_t shared_bytes(const struct kilni_pools *pools,
			     const struct kilni_request *request,
			     uint64_t least)
{
	uint64_t limit = shared_limit(pools, request->bytes);
	uint64_t bytes = kilni_min_u64(pools->reserved_bytes / 5 * 2,
				       3 * pools->page_bytes);

	bytes = kilni_min_u64(bytes & ~(PAGE_STEP - 1), pools->max_page);
	while (bytes > least &&
	       kilni_sum(pools->reserved_bytes, bytes) > limit)
		bytes = bytes / 2 & ~(PAGE_STEP - 1);
	/* Near the cap nothing may be left over that others cannot fill. */
	if (kilni_room(pools) / SHARED_NEAR < pools->page_bytes)
		bytes -= bytes % least;
	return kilni_max_u64(bytes, least);
}

bool kilni_page_exceeds(const struct kilni_pools *pools,
			const struct kilni_request *request)
{
	return kilni_sum(pools->reserved_bytes,
			 kilni_align_up(request->size, pools->granularity)) >
	       shared_limit(pools, request->bytes);
}

/* Size of the page that a request asks for where nothing is scarce. */
static uint64_t usual_bytes(const struct kilni_pools *pools,
			    const struct kilni_request *request)
{
	uint64_t least = kilni_align_up(request->size, pools->granularity);
	uint64_t bytes = request->pool->page_bytes;

	if (request->pool->kind == KILN_POOL_EXCLUSIVE ||
	    request->pool == pools->shared) {
		bytes = kilni_align_up(least, PAGE_STEP);
		/* Beside a range only what that could not take comes here. */
		if (bytes > pools->max_page || pools->range.pool)
			bytes = least;
		return request->pool == pools->shared
			       ? shared_bytes(pools, request, bytes)
			       : bytes;
	}
	if (request->pool->kind == KILN_POOL_PERSISTENT) {
		if (request->size >= KILNI_PERSISTENT_OWN_PAGE &&
		    least - request->size <= request->size / 16)
			return least;
		bytes = request->size <= KILNI_SMALL_SLICE ? KILNI_SMALL_PAGE
							   : KILNI_MEDIUM_PAGE;
		bytes = kilni_min_u64(bytes, pools->page_bytes);
		bytes = kilni_align_up(bytes, pools->granularity);
	}
	return kilni_max_u64(bytes, least);
}

/* A new page may be larger than the slack allows: that must fit again. */
uint64_t kilni_exclusive_most(const struct kilni_pools *pools,
			      const struct kilni_request *request)
{
	uint64_t most = kilni_sum(request->size,
				  KILNI_EXCLUSIVE_SLACK(request->size));

	return kilni_max_u64(most, usual_bytes(pools, request));
}

/* What a failing driver call means for the request. */
static void refuse(struct kilni_request *request, enum kiln_status status)
{
	request->native = kiln_error_native();
	if (status == KILN_ERR_NO_MEMORY || status == KILN_ERR_LIMIT)
		status = KILN_ERR_OUT_OF_MEMORY;
	request->refusal = status;
}

static bool lies_in_range(const struct kilni_pools *pools,
			  const struct kilni_pool *pool)
{
	return pools->range.pool && pool->kind == KILN_POOL_SLICED;
}

/* Memory of the driver for a page. */
static bool ask_driver(struct kilni_pools *pools, struct kilni_request *request,
		       struct kilni_page_record *page, uint64_t bytes)
{
	uint64_t begin_ns = kilni_trace_begin();
	struct kilni_error_record before;
	enum kiln_status status;

	kilni_error_save(&before);
	pools->driver_calls++;
	pools->calls.page_alloc++;
	status = kilni_memory(pools)->page_alloc(pools->hw, bytes,
						 &page->page);
	if (status == KILN_OK)
		pools->reserved_bytes += page->page.bytes;
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_PAGE_ALLOC, bytes,
			       begin_ns, status);
	if (status != KILN_OK) {
		refuse(request, status);
		/* A smaller page may do; if not, the report tells it. */
		if (request->refusal == KILN_ERR_OUT_OF_MEMORY)
			kilni_error_restore(&before);
		return false;
	}
	pools->peak_reserved = kilni_max_u64(pools->peak_reserved,
					     pools->reserved_bytes);
	regret(pools, bytes);
	return true;
}

/* Memory of the range for a page, whose block gets what that waits for. */
static bool ask_range(struct kilni_pools *pools, struct kilni_request *request,
		      struct kilni_page_record *page, struct kilni_block *block,
		      uint64_t bytes)
{
	struct kilni_request inner = { .pool = pools->range.pool,
				       .stream = request->stream,
				       .size = bytes };
	struct kilni_block *inside = kilni_find_in_range(pools, &inner);

	if (!inside) {
		request->refusal = inner.refusal;
		request->native = inner.native;
		return false;
	}
	if (!kilni_uses_reserve(pools, block, inside->count)) {
		kilni_block_release(pools, inside);
		request->refusal = kilni_fail(KILN_ERR_NO_MEMORY, 0,
					      "alloc: no memory for a page's "
					      "uses");
		return false;
	}
	kilni_uses_merge(block, inside);
	inside->state = KILNI_BLOCK_PAGE;
	pools->range.pool->reserved_bytes -= inside->size;
	page->inside = inside;
	page->page.address = inside->address;
	page->page.bytes = inside->size;
	return true;
}

static void open_page(struct kilni_pools *pools, struct kilni_pool *pool,
		      struct kilni_page_record *page, struct kilni_block *block)
{
	join_pool(page, pool);
	block->page = page;
	block->address = page->page.address;
	block->size = page->page.bytes;
	block->state = pool->kind == KILN_POOL_PERSISTENT ? KILNI_BLOCK_TAIL
							  : KILNI_BLOCK_FREE;
	page->first = block;
	kilni_tree_insert(kilni_block_root(block), block);
	kilni_idle_push(pools, page);
	if (KILNI_POISON && pools->limits.host_visible)
		kilni_poison(page->page.address, page->page.bytes);
}

static struct kilni_block *new_page(struct kilni_pools *pools,
				    struct kilni_request *request,
				    uint64_t bytes)
{
	struct kilni_page_record *page = calloc(1, sizeof(*page));
	struct kilni_block *block = kilni_block_new(pools);
	bool done;

	if (!page || !block) {
		request->refusal = kilni_fail(KILN_ERR_NO_MEMORY, 0,
					      "alloc: no memory for a page's "
					      "record");
		done = false;
	} else if (lies_in_range(pools, request->pool)) {
		done = ask_range(pools, request, page, block, bytes);
	} else {
		done = ask_driver(pools, request, page, bytes);
	}
	if (done) {
		open_page(pools, request->pool, page, block);
		return block;
	}
	free(page);
	if (block)
		kilni_block_drop(pools, block);
	return NULL;
}

/* The largest unused page that no work uses. */
static struct kilni_page_record *largest_idle(struct kilni_pools *pools)
{
	struct kilni_page_record *page, *best = NULL;

	for (page = pools->idle_first; page; page = page->idle_after)
		if (!page->pins && !page->inside &&
		    (!best || page->page.bytes > best->page.bytes) &&
		    page_is_done(pools, page))
			best = page;
	return best;
}

static void make_room_shared(struct kilni_pools *pools,
			     const struct kilni_request *request,
			     uint64_t bytes)
{
	uint64_t limit = shared_limit(pools, request->bytes);
	struct kilni_page_record *page;

	while (kilni_sum(pools->reserved_bytes, bytes) > limit &&
	       (page = largest_idle(pools)))
		drop_page(pools, page);
}

/* Makes room under the cap for the least, and under the allowance. */
static void make_room(struct kilni_pools *pools,
		      const struct kilni_request *request, uint64_t bytes,
		      uint64_t least)
{
	uint64_t limit = allowance(pools, request->bytes);

	if (least > kilni_room(pools))
		kilni_pages_return(pools, pools->cap_bytes - least);
	if (request->pool == pools->shared) {
		make_room_shared(pools, request, bytes);
		return;
	}
	if (pools->reserved_bytes > limit - kilni_min_u64(bytes, limit))
		return_surplus(pools, limit - kilni_min_u64(bytes, limit), 0);
}

static uint64_t room_of(const struct kilni_pools *pools,
			const struct kilni_pool *pool)
{
	return kilni_min_u64(kilni_room(pools), kilni_pool_room(pool));
}

/* Gives back unused pages of a pool until its cap leaves bytes. */
static void return_own(struct kilni_pools *pools, struct kilni_pool *pool,
		       uint64_t bytes)
{
	struct kilni_page_record *page = pools->idle_first;

	while (page && kilni_pool_room(pool) < bytes) {
		struct kilni_page_record *next = page->idle_after;

		if (page->pool == pool && !page->pins &&
		    page_is_done(pools, page))
			drop_page(pools, page);
		page = next;
	}
}

struct kilni_block *kilni_page_grow(struct kilni_pools *pools,
				    struct kilni_request *request)
{
	uint64_t least = kilni_align_up(request->size, pools->granularity);
	uint64_t bytes = usual_bytes(pools, request);
	bool inside = lies_in_range(pools, request->pool);
	struct kilni_block *block;

	if (least > pools->cap_bytes) {
		request->refusal = KILN_ERR_LIMIT;
		return NULL;
	}
	if (least > kilni_pool_room(request->pool))
		return_own(pools, request->pool, least);
	if (!inside)
		make_room(pools, request, bytes, least);
	for (;;) {
		if (inside || bytes <= room_of(pools, request->pool)) {
			block = new_page(pools, request, bytes);
			if (block)
				return block;
			if (request->refusal != KILN_ERR_OUT_OF_MEMORY &&
			    request->refusal != KILN_ERR_LIMIT)
				return NULL;
		} else {
			request->refusal = KILN_ERR_LIMIT;
		}
		if (bytes == least)
			return NULL;
		bytes = kilni_align_up(bytes / 2, pools->granularity);
		bytes = kilni_max_u64(bytes, least);
	}
}

/* ---- adopting ---- */

static void adoption_range(const struct kilni_pools *pools,
			   const struct kilni_request *request, bool strict,
			   uint64_t *low, uint64_t *high)
{
	uint64_t usual = usual_bytes(pools, request);

	*low = usual;
	if (request->pool->kind == KILN_POOL_EXCLUSIVE) {
		*low = request->size;
		*high = kilni_exclusive_most(pools, request);
	} else if (request->pool->kind == KILN_POOL_PERSISTENT) {
		*high = kilni_sum(usual, usual / 16);
	} else {
		*low = strict ? usual : request->size;
		*high = strict ? kilni_sum(usual, usual) : UINT64_MAX;
	}
}

struct kilni_block *kilni_page_adopt(struct kilni_pools *pools,
				     struct kilni_request *request,
				     bool strict)
{
	struct kilni_page_record *page, *best = NULL;
	struct kilni_block *block;
	uint64_t low, high;

	adoption_range(pools, request, strict, &low, &high);
	for (page = pools->idle_first; page; page = page->idle_after)
		if (page->pool != request->pool && !page->inside &&
		    !page->pins && page->page.bytes >= low &&
		    page->page.bytes <= high && !page->first->after &&
		    (!best || page->page.bytes < best->page.bytes) &&
		    kilni_uses_ready(pools, page->first, request->stream))
			best = page;
	if (!best)
		return NULL;
	block = best->first;
	kilni_tree_remove(kilni_block_root(block), block);
	leave_pool(best);
	join_pool(best, request->pool);
	block->state = request->pool->kind == KILN_POOL_PERSISTENT
			       ? KILNI_BLOCK_TAIL
			       : KILNI_BLOCK_FREE;
	kilni_tree_insert(kilni_block_root(block), block);
	return block;
}
