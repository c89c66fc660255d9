/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/internal.h"
#include "alloc/poison.h"
#include "alloc/publish.h"

/* Blocks of a bin looked at for one that needs no event. */
#define BIN_SCAN 8

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

/* The same without a range: pages of any size that all sizes share. */
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

static enum kiln_status configure(struct kilni_pools *pools,
				  const struct kilni_pools_config *config)
{
	const struct kilni_memory_limits *limits = &pools->limits;
	uint64_t cap = config->cap_bytes ? config->cap_bytes
					 : limits->total_bytes;
	uint64_t page = config->page_bytes ? config->page_bytes
					   : KILNI_LARGE_PAGE;
	unsigned i;

	KILNI_TRY(check_limits(limits));
	pools->unit = kilni_max_u64(limits->alignment, LEAST_UNIT);
	pools->unit_shift = (unsigned)__builtin_ctzll(pools->unit);
	pools->granularity = kilni_max_u64(limits->page_granularity,
					   pools->unit);
	pools->max_page = limits->max_page_bytes ? limits->max_page_bytes
						 : UINT64_MAX;
	pools->max_page &= ~(pools->granularity - 1);
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

static enum kiln_status make_bins(struct kilni_pools *pools)
{
	size_t count;

	pools->bin_limit = kilni_min_u64(pools->pool[0].slice_bytes,
					 KILNI_SMALL_SLICE);
	count = (size_t)(pools->bin_limit >> pools->unit_shift) + 1;
	pools->bin_words = (count + 63) / 64;
	pools->bins = calloc(64 * pools->bin_words, sizeof(*pools->bins));
	pools->binned = calloc(pools->bin_words, sizeof(*pools->binned));
	if (!pools->bins || !pools->binned)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "pools: bins");
	return KILN_OK;
}

static void destroy(struct kilni_pools *pools)
{
	kilni_range_close(pools);
	pthread_mutex_destroy(&pools->lock);
	kilni_slabs_free(pools);
	free(pools->binned);
	free(pools->bins);
	free(pools);
}

enum kiln_status kilni_pools_create(struct kilni_pools **out,
				    struct kilni_hw *hw,
				    const struct kilni_stream_ops *streams,
				    const struct kilni_pools_config *config)
{
	struct kilni_pools *pools = calloc(1, sizeof(*pools));
	enum kiln_status status;

	if (!pools)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "pools: the pools");
	pthread_mutex_init(&pools->lock, NULL);
	pools->hw = hw;
	pools->streams = streams;
	pools->random = 2463534242u;
	pools->next_tick = KILNI_TICK;
	pools->idle_limit = KILNI_IDLE_LIMIT;
	pools->window_end = KILNI_IDLE_LIMIT;
	hw->driver->memory->limits(hw, &pools->limits);
	status = configure(pools, config);
	if (status == KILN_OK) {
		build(pools, config);
		status = make_bins(pools);
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
static enum kiln_status rebuild(struct kilni_pools *pools,
				const struct kilni_pools_config *config)
{
	free(pools->bins);
	free(pools->binned);
	pools->bins = NULL;
	pools->binned = NULL;
	kilni_range_close(pools);
	memset(pools->pool, 0, sizeof(pools->pool));
	pools->shared = NULL;
	build(pools, config);
	return make_bins(pools);
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
	if (live_slices(pools))
		return kilni_fail(KILN_ERR_BUSY, 0,
				  "pools: a new layout, but %llu slices of "
				  "%llu bytes are live",
				  (unsigned long long)live_slices(pools),
				  (unsigned long long)pools->live_bytes);
	kilni_pools_flush(pools);
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
		status = rebuild(pools, config);
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

static struct kilni_pool *route(struct kilni_pools *pools, uint64_t size,
				bool persistent)
{
	unsigned i;

	if (persistent)
		return kilni_persistent(pools);
	for (i = 0; i < pools->ladder; i++)
		if (size <= pools->pool[i].slice_bytes)
			return &pools->pool[i];
	return kilni_exclusive(pools);
}

/* Unlinks the block that *link points to from its bin. */
static struct kilni_block *pop(struct kilni_bin *bin, struct kilni_block **link)
{
	struct kilni_block *block = *link;

	*link = block->left;
	bin->count--;
	if (bin->count < bin->low)
		bin->low = bin->count;
	return block;
}

static struct kilni_block *take_binned(struct kilni_pools *pools, void *stream,
				       uint64_t size)
{
	size_t index = (size_t)(size >> pools->unit_shift);
	struct kilni_bin *bin = &pools->bins[index];
	struct kilni_block **link = &bin->head, *block = NULL;
	unsigned i;

	for (i = 0; *link && i < BIN_SCAN; i++) {
		if (kilni_uses_ready(pools, *link, stream)) {
			block = pop(bin, link);
			break;
		}
		link = &(*link)->left;
	}
	if (block && !bin->head)
		pools->binned[index / 64] &= ~(UINT64_C(1) << (index % 64));
	return block;
}

static struct kilni_block *take_hot(struct kilni_pools *pools,
				    struct kilni_pool *pool, void *stream,
				    uint64_t size)
{
	struct kilni_block *block = pool->hot;
	uint64_t slack = 0;

	if (!block)
		return NULL;
	if (pool->kind == KILN_POOL_EXCLUSIVE)
		slack = KILNI_EXCLUSIVE_SLACK(size);
	if (block->size < size || block->size - size > slack ||
	    !kilni_uses_ready(pools, block, stream))
		return NULL;
	pool->hot = NULL;
	return block;
}

/* The block of this size that was freed last, if it needs no event. */
static struct kilni_block *take_kept(struct kilni_pools *pools,
				     struct kilni_pool *pool, void *stream,
				     uint64_t size)
{
	struct kilni_block *block;

	if (pool == pools->pool && size <= pools->bin_limit)
		block = take_binned(pools, stream, size);
	else
		block = take_hot(pools, pool, stream, size);
	if (!block)
		return NULL;
	block->behind = stream;
	block->state = KILNI_BLOCK_LIVE;
	return block;
}

static void hand_out(struct kilni_pools *pools, struct kilni_block *block,
		     uint64_t bytes, struct kilni_slice *out)
{
	struct kilni_pool *pool = block->page->pool;

	block->bytes = bytes;
	pool->allocations++;
	pool->live_bytes += bytes;
	pool->used_bytes += block->size;
	if (bytes > pool->largest_request)
		pool->largest_request = bytes;
	pools->live_bytes += bytes;
	if (pools->live_bytes > pools->window_peak)
		pools->window_peak = pools->live_bytes;
	out->address = block->address;
	out->bytes = bytes;
	out->block = block;
	if (KILNI_POISON && pools->limits.host_visible)
		kilni_unpoison(block->address, bytes);
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

static enum kiln_status take_slowly(struct kilni_pools *pools,
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
	*out = kilni_pools_find(pools, request);
	return *out ? KILN_OK : kilni_pools_explain(pools, request);
}

enum kiln_status kilni_pools_alloc(struct kilni_pools *pools, void *stream,
				   uint64_t bytes, bool persistent,
				   struct kilni_slice *out)
{
	struct kilni_request request = { .stream = stream, .bytes = bytes };
	enum kiln_status status = KILN_OK;
	struct kilni_block *block;
	uint64_t calls;

	if (KILNI_UNLIKELY(!bytes))
		return hand_out_nothing(pools, out);
	/* Rounding to a page's size must not wrap either. */
	if (KILNI_UNLIKELY(bytes > UINT64_MAX / 2))
		return kilni_fail(KILN_ERR_OVERFLOW, 0,
				  "allocation of %llu bytes",
				  (unsigned long long)bytes);
	request.size = kilni_align_up(bytes, pools->unit);
	request.pool = route(pools, request.size, persistent);
	pthread_mutex_lock(&pools->lock);
	calls = pools->driver_calls;
	if (KILNI_UNLIKELY(++pools->clock >= pools->next_tick))
		kilni_pools_tick(pools);
	block = take_kept(pools, request.pool, stream, request.size);
	if (KILNI_UNLIKELY(!block))
		status = take_slowly(pools, &request, &block);
	if (KILNI_LIKELY(status == KILN_OK))
		hand_out(pools, block, bytes, out);
	if (KILNI_UNLIKELY(calls != pools->driver_calls))
		kilni_pools_publish_locked(pools);
	pthread_mutex_unlock(&pools->lock);
	return status;
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
	if (KILNI_LIKELY(count == 1 && block->count == 1 &&
			 block->uses[0].stream == uses[0].stream &&
			 block->behind == uses[0].stream)) {
		block->uses[0].seq = kilni_max_u64(block->uses[0].seq,
						   uses[0].seq);
		return;
	}
	if (kilni_uses_reserve(pools, block, count))
		kilni_uses_record(block, uses, count);
	else
		wait_for_uses(pools, uses, count);
}

static void take_back(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_pool *pool = block->page->pool;

	pool->allocations--;
	pool->live_bytes -= block->bytes;
	pool->used_bytes -= block->size;
	pools->live_bytes -= block->bytes;
	block->bytes = 0;
	/* Queued work may still read what is not poisoned here. */
	if (KILNI_POISON && pools->limits.host_visible &&
	    kilni_uses_done(pools, block))
		kilni_poison(block->address, block->size);
	kilni_block_keep(pools, block);
}

void kilni_pools_free(struct kilni_pools *pools,
		      const struct kilni_slice *slice,
		      const struct kilni_use *uses, size_t count)
{
	struct kilni_block *block = slice->block;

	pthread_mutex_lock(&pools->lock);
	if (KILNI_UNLIKELY(block == &pools->zero)) {
		pools->zero_allocations--;
	} else if (KILNI_UNLIKELY(block->state != KILNI_BLOCK_LIVE)) {
		kilni_log(KILNI_LOG_ERROR, "free: slice %#llx is not live",
			  (unsigned long long)slice->address);
	} else {
		note_uses(pools, block, uses, count);
		take_back(pools, block);
	}
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
