/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/fast.h"
#include "alloc/publish.h"
#include "base/poison.h"

/* Slices start on cache lines of their own, whatever the driver needs. */
#define LEAST_UNIT 64

/* ---- creation ---- */

static struct kilni_pool *add_pool(struct kilni_pools *pools,
				   enum kiln_pool_kind kind,
				   uint64_t page_bytes, uint64_t slice_bytes)
{
	struct kilni_pool *pool = pools->pool;

	while (pool->slice_bytes)
		pool++;
	pool->kind = kind;
	pool->page_bytes = page_bytes;
	pool->slice_bytes = slice_bytes;
	return pool;
}

static void add_special(struct kilni_pools *pools)
{
	add_pool(pools, KILN_POOL_EXCLUSIVE, 0, pools->max_page);
	add_pool(pools, KILN_POOL_PERSISTENT, 0, pools->max_page);
}

/* Small slices on pages that lie in the range, and the range itself. */
static void build_mapped(struct kilni_pools *pools)
{
	add_pool(pools, KILN_POOL_SLICED, KILNI_SMALL_PAGE, KILNI_SMALL_SLICE);
	add_pool(pools, KILN_POOL_SLICED, pools->range.granularity,
		 pools->range.page.page.bytes);
	pools->ladder = 2;
	pools->range.page.pool = pools->range.pool;
}

/* The same without a range: pages of any size that all others share. */
static void build_plain(struct kilni_pools *pools)
{
	uint64_t small = kilni_align_up(KILNI_SMALL_PAGE, pools->granularity);

	add_pool(pools, KILN_POOL_SLICED,
		 kilni_min_u64(small, pools->page_bytes),
		 kilni_min_u64(KILNI_SMALL_SLICE, pools->page_bytes));
	pools->shared = add_pool(pools, KILN_POOL_SLICED, 0, pools->max_page);
	pools->ladder = 2;
}

static void build_ladder(struct kilni_pools *pools,
			 const struct kilni_pools_config *config)
{
	unsigned i;

	for (i = 0; i < config->rungs; i++) {
		const struct kilni_pools_rung *rung = &config->rung[i];
		uint64_t page = kilni_align_up(rung->page_bytes,
					       pools->granularity);

		add_pool(pools, KILN_POOL_SLICED, page, rung->slice_bytes)
			->cap_bytes = rung->cap_bytes;
	}
	pools->ladder = config->rungs;
}

static void build(struct kilni_pools *pools,
		  const struct kilni_pools_config *config)
{
	snprintf(pools->mapping, sizeof(pools->mapping), "plain: %s",
		 config->rungs ? "the layout has pages of its own"
			       : "as asked for");
	if (!config->plain && !config->rungs)
		kilni_range_open(pools);
	if (config->rungs)
		build_ladder(pools, config);
	else if (pools->range.pool)
		build_mapped(pools);
	else
		build_plain(pools);
	add_special(pools);
}

static enum kiln_status check_limits(const struct kilni_memory_limits *limits)
{
	uint64_t align = limits->alignment, grain = limits->page_granularity;

	if (!align || (align & (align - 1)) || !grain || (grain & (grain - 1)))
		return kilni_fail(KILN_ERR_INTERNAL, 0,
				  "pools: driver's alignment %llu or page "
				  "granularity %llu is no power of two",
				  (unsigned long long)align,
				  (unsigned long long)grain);
	return KILN_OK;
}

/* What the driver rules for good: read without a lock. */
static enum kiln_status take_limits(struct kilni_pools *pools)
{
	const struct kilni_memory_limits *limits = &pools->limits;

	kilni_memory(pools)->limits(pools->hw, &pools->limits);
	KILNI_TRY(check_limits(limits));
	pools->unit = kilni_max_u64(limits->alignment, LEAST_UNIT);
	pools->granularity = kilni_max_u64(limits->page_granularity,
					   pools->unit);
	pools->max_page = limits->max_page_bytes ? limits->max_page_bytes
						 : UINT64_MAX;
	pools->max_page &= ~(pools->granularity - 1);
	return KILN_OK;
}

static enum kiln_status configure(struct kilni_pools *pools,
				  const struct kilni_pools_config *config)
{
	uint64_t cap = config->cap_bytes ? config->cap_bytes
					 : pools->limits.total_bytes;
	uint64_t page = config->page_bytes ? config->page_bytes
					   : KILNI_LARGE_PAGE;
	unsigned i;

	pools->cap_bytes = (cap ? cap : UINT64_MAX) &
			   ~(pools->granularity - 1);
	if (!pools->cap_bytes || !pools->max_page)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "pools: cap of %llu bytes is less than the "
				  "smallest page, %llu",
				  (unsigned long long)cap,
				  (unsigned long long)pools->granularity);
	if (page > UINT64_MAX / 2)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "pools: page size of %llu bytes",
				  (unsigned long long)page);
	KILNI_TRY(kilni_pools_check_rungs(config));
	for (i = 0; i < config->rungs; i++)
		if (config->rung[i].page_bytes > pools->max_page)
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "pools: pages of %llu bytes, the "
					  "device's largest is %llu",
					  (unsigned long long)config->rung[i]
						  .page_bytes,
					  (unsigned long long)pools->max_page);
	pools->page_bytes = kilni_min_u64(
		kilni_align_up(page, pools->granularity), pools->max_page);
	return KILN_OK;
}

static void set_watch(struct kilni_pools *pools,
		      const struct kilni_pools_config *config)
{
	if (config->fill)
		pools->watch |= KILNI_WATCH_FILL;
	if (config->fill && !pools->limits.host_visible)
		pools->watch |= KILNI_WATCH_DRIVER;
	if (pools->limits.host_visible && kilni_poison_works())
		pools->watch |= KILNI_WATCH_POISON;
	pools->verify_every = config->verify_every;
	if (config->verify_every)
		pools->watch |= KILNI_WATCH_WALK;
}

static void destroy(struct kilni_pools *pools)
{
	kilni_range_close(pools);
	pthread_mutex_destroy(&pools->lock);
	kilni_slabs_free(pools);
	kilni_caches_destroy(pools);
	free(pools);
}

enum kiln_status kilni_pools_create(struct kilni_pools **out,
				    struct kilni_hw *hw,
				    const struct kilni_stream_ops *streams,
				    const struct kilni_pools_config *config)
{
	struct kilni_pools *pools = aligned_alloc(64, sizeof(*pools));
	enum kiln_status status;

	if (!pools)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "pools: the pools");
	memset(pools, 0, sizeof(*pools));
	pthread_mutex_init(&pools->lock, NULL);
	pools->hw = hw;
	pools->number = kilni_trace_name("%s:%u", hw->driver->name, hw->index);
	pools->streams = streams;
	pools->random = 2463534242u;
	pools->next_tick = KILNI_TICK;
	pools->idle_limit = KILNI_IDLE_LIMIT;
	pools->window_end = KILNI_IDLE_LIMIT;
	pools->zero.slot = KILNI_STREAM_SLOTS;
	status = take_limits(pools);
	if (status == KILN_OK)
		status = configure(pools, config);
	if (status == KILN_OK) {
		set_watch(pools, config);
		build(pools, config);
		status = kilni_caches_create(pools);
	}
	if (status != KILN_OK) {
		destroy(pools);
		return status;
	}
	*out = pools;
	return KILN_OK;
}

/* Without live slices and pages: the pools as they were made, but for what
 * has been counted so far. */
static void rebuild(struct kilni_pools *pools,
		    const struct kilni_pools_config *config)
{
	kilni_range_close(pools);
	memset(pools->pool, 0, sizeof(pools->pool));
	pools->shared = NULL;
	kilni_caches_forget(pools);
	build(pools, config);
}

static uint64_t live_slices(const struct kilni_pools *pools)
{
	uint64_t count = 0;
	unsigned i;

	for (i = 0; i < kilni_pool_count(pools); i++)
		count += pools->pool[i].allocations;
	return count;
}

/* Gives everything back; what cannot be is the reason of a refusal. */
static enum kiln_status empty(struct kilni_pools *pools)
{
	/* It was routed by the layout that there is. */
	if (pools->waiting)
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "pools: a new layout, but a request waits "
				  "for memory");
	/* From here on nobody takes from a cache. */
	kilni_pools_flush(pools);
	if (live_slices(pools))
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "pools: a new layout, but %llu slices of "
				  "%llu bytes are live",
				  (unsigned long long)live_slices(pools),
				  (unsigned long long)pools->live_bytes);
	kilni_pages_return(pools, 0);
	if (pools->reserved_bytes)
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "pools: a new layout, but %llu bytes are "
				  "used by queued work or pinned",
				  (unsigned long long)pools->reserved_bytes);
	return KILN_OK;
}

enum kiln_status kilni_pools_set_layout(struct kilni_pools *pools,
					const struct kilni_pools_config *config)
{
	uint64_t page_bytes, cap_bytes;
	enum kiln_status status;

	pthread_mutex_lock(&pools->lock);
	page_bytes = pools->page_bytes;
	cap_bytes = pools->cap_bytes;
	status = configure(pools, config);
	if (status == KILN_OK)
		status = empty(pools);
	if (status == KILN_OK) {
		rebuild(pools, config);
	} else {
		pools->page_bytes = page_bytes;
		pools->cap_bytes = cap_bytes;
	}
	pthread_mutex_unlock(&pools->lock);
	return status;
}

void kilni_pools_destroy(struct kilni_pools *pools)
{
	kilni_pools_publish_stop(pools);
	kilni_pages_free_all(pools);
	destroy(pools);
}

/* ---- taking ---- */

/* A block is the caller's; the lock of the cache is held. */
static inline void hand_out(struct kilni_pools *pools,
			    struct kilni_cache *cache, struct kilni_head *head,
			    uint64_t bytes, struct kilni_slice *out)
{
	kilni_account_take(cache, head, bytes);
	out->address = head->address;
	out->bytes = bytes;
	out->block = head;
	if (KILNI_UNLIKELY(pools->watch))
		kilni_watch_taken(pools, kilni_block_of(head), bytes);
}

/* What the stream freed last of this size, without the pools' lock. */
static inline bool take_kept(struct kilni_pools *pools, void *stream,
			     uint64_t size, uint64_t bytes,
			     struct kilni_slice *out)
{
	struct kilni_cache *cache = kilni_cache_of(pools, stream);
	struct kilni_head *head = NULL;
	struct kilni_class *class;

	if (KILNI_UNLIKELY(!cache))
		return false;
	kilni_spin_lock(&cache->lock);
	class = kilni_class_of(cache, stream, size);
	/* Now and then the way leads past the clock. */
	if (KILNI_LIKELY(class && cache->recent < KILNI_TICK))
		head = kilni_class_pop(class);
	if (KILNI_LIKELY(head))
		hand_out(pools, cache, head, bytes, out);
	kilni_spin_unlock(&cache->lock);
	return head;
}

/* The address is aligned, not NULL and never mapped. */
static enum kiln_status hand_out_nothing(struct kilni_pools *pools,
					 struct kilni_slice *out)
{
	pthread_mutex_lock(&pools->lock);
	pools->zero_allocations++;
	pthread_mutex_unlock(&pools->lock);
	out->address = pools->unit;
	out->bytes = 0;
	out->block = &pools->zero;
	return KILN_OK;
}

/* From the trees or the driver. */
static enum kiln_status find(struct kilni_pools *pools,
			     struct kilni_request *request,
			     struct kilni_block **out)
{
	if (request->size > pools->max_page &&
	    request->pool != pools->range.pool)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "out of memory: requested %llu bytes, the "
				  "device's largest page is %llu",
				  (unsigned long long)request->bytes,
				  (unsigned long long)pools->max_page);
	kilni_caches_gather(pools);
	if (request->warm) {
		*out = kilni_pools_find_warm(pools, request);
		if (*out)
			return KILN_OK;
		return kilni_fail(KILN_ERR_CAPTURE, 0,
				  "the pools hold no room for %llu bytes, and "
				  "a capture takes no new page",
				  (unsigned long long)request->bytes);
	}
	*out = kilni_pools_find(pools, request);
	return *out ? KILN_OK : kilni_pools_explain(pools, request);
}

static enum kiln_status take_slowly(struct kilni_pools *pools,
				    struct kilni_request *request,
				    struct kilni_slice *out)
{
	struct kilni_cache *cache = kilni_cache_get(pools, request->stream);
	struct kilni_head *head = NULL;
	struct kilni_block *block;

	kilni_cache_age(pools, cache);
	if (KILNI_UNLIKELY(pools->watch))
		kilni_watch_settle(pools, false);
	if (KILNI_UNLIKELY(pools->clock >= pools->next_tick)) {
		kilni_caches_gather(pools);
		kilni_pools_tick(pools);
	}
	if (request->pool != kilni_persistent(pools))
		head = kilni_cache_refill(pools, cache, request->stream,
					  request->size);
	if (!head) {
		KILNI_TRY(find(pools, request, &block));
		head = kilni_head_open(
			pools, block,
			(unsigned)(block->page->pool - pools->pool),
			kilni_slot_of(pools, request->stream),
			KILNI_HEAD_LIVE);
	}
	kilni_spin_lock(&cache->lock);
	hand_out(pools, cache, head, request->bytes, out);
	kilni_spin_unlock(&cache->lock);
	return KILN_OK;
}

static inline enum kiln_status alloc(struct kilni_pools *pools, void *stream,
				     uint64_t bytes, bool persistent, bool warm,
				     struct kilni_slice *out)
{
	struct kilni_request request = { .stream = stream, .bytes = bytes,
					 .warm = warm };
	enum kiln_status status;
	uint64_t calls;

	if (KILNI_UNLIKELY(pools->watch & KILNI_WATCH_WALK))
		KILNI_TRY(kilni_watch_walk(pools));
	if (KILNI_UNLIKELY(!bytes))
		return hand_out_nothing(pools, out);
	/* Rounding to a page's size must not wrap either. */
	if (KILNI_UNLIKELY(bytes > UINT64_MAX / 2))
		return kilni_fail(KILN_ERR_OVERFLOW, 0,
				  "allocation of %llu bytes",
				  (unsigned long long)bytes);
	request.size = kilni_align_up(bytes, pools->unit);
	if (KILNI_LIKELY(!persistent) &&
	    KILNI_LIKELY(take_kept(pools, stream, request.size, bytes, out)))
		return KILN_OK;
	pthread_mutex_lock(&pools->lock);
	request.pool = persistent ? kilni_persistent(pools)
				  : &pools->pool[kilni_route(pools,
							     request.size)];
	calls = pools->driver_calls;
	status = take_slowly(pools, &request, out);
	if (KILNI_UNLIKELY(calls != pools->driver_calls))
		kilni_pools_publish_locked(pools);
	pthread_mutex_unlock(&pools->lock);
	return status;
}

enum kiln_status kilni_pools_alloc(struct kilni_pools *pools, void *stream,
				   uint64_t bytes, bool persistent,
				   struct kilni_slice *out)
{
	return alloc(pools, stream, bytes, persistent, false, out);
}

enum kiln_status kilni_pools_alloc_warm(struct kilni_pools *pools, void *stream,
					uint64_t bytes, bool persistent,
					struct kilni_slice *out)
{
	return alloc(pools, stream, bytes, persistent, true, out);
}

/* ---- giving back ---- */

/*
 * Without host memory to note the uses in, they are waited for instead: the
 * one case in which a free blocks.
 */
static void wait_for_uses(struct kilni_pools *pools,
			  const struct kilni_use *uses, size_t count)
{
	size_t i;

	pthread_mutex_unlock(&pools->lock);
	for (i = 0; i < count; i++)
		if (pools->streams->wait(&uses[i]) != KILN_OK)
			kilni_log(KILNI_LOG_ERROR,
				  "free: no host memory, and waiting failed");
	pthread_mutex_lock(&pools->lock);
}

static void note_uses(struct kilni_pools *pools, struct kilni_block *block,
		      const struct kilni_use *uses, size_t count)
{
	if (kilni_uses_reserve(pools, block, count))
		kilni_uses_record(block, uses, count);
	else
		wait_for_uses(pools, uses, count);
}

/* Back to the cache that it came from, without the pools' lock. */
static inline bool give_kept(struct kilni_pools *pools, struct kilni_head *head,
			     const struct kilni_use *uses, size_t count)
{
	const struct kilni_stream_slot *slot = &pools->slots[head->slot];
	struct kilni_cache *cache = slot->cache;
	struct kilni_class *class;
	bool kept;

	kilni_spin_lock(&cache->lock);
	class = kilni_class_of(cache, slot->stream, head->size);
	kept = class && head->state & KILNI_HEAD_LIVE &&
	       kilni_pool_is_kept(pools, head->pool) &&
	       kilni_head_note(head, slot->stream, uses, count) &&
	       kilni_class_push(class, head);
	if (KILNI_LIKELY(kept)) {
		kilni_account_give(cache, head);
		if (KILNI_UNLIKELY(pools->watch))
			kilni_watch_freed(pools, kilni_block_of(head));
	}
	kilni_spin_unlock(&cache->lock);
	return kept;
}

static void give_slowly(struct kilni_pools *pools, struct kilni_head *head,
			const struct kilni_use *uses, size_t count)
{
	struct kilni_cache *cache = pools->slots[head->slot].cache;
	struct kilni_block *block = kilni_block_of(head);
	bool by_driver = pools->watch & KILNI_WATCH_DRIVER;

	kilni_head_settle(block);
	note_uses(pools, block, uses, count);
	if (KILNI_UNLIKELY(by_driver))
		kilni_watch_freed(pools, block);
	kilni_spin_lock(&cache->lock);
	kilni_account_give(cache, head);
	if (KILNI_UNLIKELY(pools->watch) && !by_driver)
		kilni_watch_freed(pools, block);
	kilni_spin_unlock(&cache->lock);
	kilni_cache_keep(pools, block);
}

void kilni_pools_free(struct kilni_pools *pools,
		      const struct kilni_slice *slice,
		      const struct kilni_use *uses, size_t count)
{
	struct kilni_head *head = slice->block;

	if (KILNI_UNLIKELY(pools->watch & KILNI_WATCH_WALK))
		kilni_watch_count(pools);
	if (KILNI_LIKELY(!(pools->watch & KILNI_WATCH_DRIVER)) &&
	    KILNI_LIKELY(give_kept(pools, head, uses, count)))
		return;
	pthread_mutex_lock(&pools->lock);
	if (KILNI_UNLIKELY(head == &pools->zero))
		pools->zero_allocations--;
	else if (KILNI_UNLIKELY(!(kilni_head_state(head) & KILNI_HEAD_LIVE)))
		kilni_log(KILNI_LOG_ERROR, "free: slice %#llx is not live",
			  (unsigned long long)slice->address);
	else
		give_slowly(pools, head, uses, count);
	pthread_mutex_unlock(&pools->lock);
}

enum kiln_status kilni_pools_trim(struct kilni_pools *pools,
				  uint64_t target_bytes)
{
	pthread_mutex_lock(&pools->lock);
	kilni_pools_flush(pools);
	kilni_pages_return(pools, target_bytes);
	kilni_pools_publish_locked(pools);
	pthread_mutex_unlock(&pools->lock);
	return KILN_OK;
}
