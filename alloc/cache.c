/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/fast.h"

#include <stdlib.h>
#include <string.h>

/*
 * Each stream has a cache (streams beyond KILNI_CACHES_MAX share them), and
 * each size that it freed lately has a class there: at most two magazines of
 * blocks that come behind this stream alone and may be taken again at once.
 * A magazine that is full goes to the bins, and a full one comes from there;
 * of sizes above KILNI_BINNED_MOST there are two blocks and no bin.
 *
 * What caches and bins hold counts as cached and is never out of reach: before
 * a pool grows, before a request fails and before pages are given back, it is
 * made free and merged; for large requests before a free range is looked for.
 *
 * Accounting is the caches' too: a live block counts in the cache of the
 * stream that took it, and the pools' sums are gathered from there.
 */

/*
 * Classes go that served no request for so many times KILNI_TICK allocations
 * on their stream. Small ones cost little and may stay longer.
 */
#define SMALL_CLASS (UINT64_C(64) << 10)
#define SMALL_AGE 16
#define LARGE_AGE 2

/* ---- creation ---- */

static struct kilni_cache *new_cache(struct kilni_pools *pools)
{
	struct kilni_cache *cache;

	if (pools->caches == KILNI_CACHES_MAX)
		return NULL;
	cache = aligned_alloc(64, sizeof(*cache));
	if (!cache)
		return NULL;
	memset(cache, 0, sizeof(*cache));
	cache->index = pools->caches;
	pools->cache[pools->caches++] = cache;
	return cache;
}

enum kiln_status kilni_caches_create(struct kilni_pools *pools)
{
	pools->slots = calloc(KILNI_STREAM_SLOTS + 1, sizeof(*pools->slots));
	if (!pools->slots || !new_cache(pools))
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "pools: caches");
	pools->slots[KILNI_STREAM_SLOTS].cache = pools->cache[0];
	return KILN_OK;
}

void kilni_caches_destroy(struct kilni_pools *pools)
{
	struct kilni_magazine *magazine = pools->spare_magazines;
	unsigned i;

	while (magazine) {
		struct kilni_magazine *next = magazine->next;

		free(magazine);
		magazine = next;
	}
	for (i = 0; i < pools->caches; i++)
		free(pools->cache[i]);
	free(pools->slots);
}

static void enter(struct kilni_pools *pools, void *stream,
		  struct kilni_cache *cache)
{
	size_t i = kilni_hash(stream, 0);

	while (pools->slots[i % KILNI_STREAM_SLOTS].stream)
		i++;
	pools->slots[i % KILNI_STREAM_SLOTS].cache = cache;
	__atomic_store_n(&pools->slots[i % KILNI_STREAM_SLOTS].stream, stream,
			 __ATOMIC_RELEASE);
}

unsigned kilni_slot_of(const struct kilni_pools *pools, const void *stream)
{
	size_t i = kilni_hash(stream, 0);

	for (;; i++) {
		const void *there =
			pools->slots[i % KILNI_STREAM_SLOTS].stream;

		if (there == stream)
			return (unsigned)(i % KILNI_STREAM_SLOTS);
		if (!there)
			return KILNI_STREAM_SLOTS;
	}
}

struct kilni_cache *kilni_cache_get(struct kilni_pools *pools, void *stream)
{
	struct kilni_cache *cache = kilni_cache_of(pools, stream);

	if (cache)
		return cache;
	/* So that a search always meets an empty slot. */
	if (pools->streams_seen >= KILNI_STREAM_SLOTS / 4 * 3)
		return pools->cache[0];
	cache = new_cache(pools);
	if (!cache)
		cache = pools->cache[pools->streams_seen % pools->caches];
	pools->streams_seen++;
	enter(pools, stream, cache);
	return cache;
}

/* ---- classes ---- */

/* Its blocks become free, its magazines spare. */
static void close_class(struct kilni_pools *pools, struct kilni_cache *cache,
			struct kilni_class *class)
{
	size_t i = (size_t)(class - cache->class);

	kilni_magazine_release(pools, class->loaded);
	kilni_magazine_drop(pools, class->loaded);
	if (class->previous) {
		kilni_magazine_release(pools, class->previous);
		kilni_magazine_drop(pools, class->previous);
	}
	while (class->empties) {
		struct kilni_magazine *magazine = class->empties;

		class->empties = magazine->next;
		kilni_magazine_drop(pools, magazine);
	}
	memset(class, 0, sizeof(*class));
	cache->occupied[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static bool is_empty(const struct kilni_class *class)
{
	return !class->loaded->count &&
	       (!class->previous || !class->previous->count);
}

/* Which of two classes is worth less. */
static struct kilni_class *lesser(struct kilni_class *a, struct kilni_class *b)
{
	if (!a->size || !b->size)
		return a->size ? b : a;
	if (is_empty(a) != is_empty(b))
		return is_empty(a) ? a : b;
	return a->unwanted < b->unwanted ? b : a;
}

static struct kilni_class *open_class(struct kilni_pools *pools,
				      struct kilni_cache *cache, void *stream,
				      uint64_t size)
{
	size_t i = kilni_class_index(size);
	struct kilni_class *class = lesser(&cache->class[i],
					   &cache->class[i ^ 1]);
	struct kilni_magazine *magazine = kilni_magazine_new(pools);

	if (!magazine)
		return NULL;
	if (class->size)
		close_class(pools, cache, class);
	i = (size_t)(class - cache->class);
	cache->occupied[i / 64] |= UINT64_C(1) << (i % 64);
	class->size = size;
	class->stream = stream;
	class->loaded = magazine;
	class->pool = (uint8_t)kilni_route(pools, size);
	class->limit = size <= KILNI_BINNED_MOST ? KILNI_MAGAZINE : 1;
	return class;
}

/* Where a full magazine goes. */
static void put_away(struct kilni_pools *pools, struct kilni_cache *cache,
		     const struct kilni_class *class,
		     struct kilni_magazine *magazine)
{
	if (class->size <= KILNI_BINNED_MOST) {
		kilni_bin_put(pools, cache, class, magazine);
		return;
	}
	kilni_magazine_release(pools, magazine);
	kilni_magazine_drop(pools, magazine);
}

/*
 * Magazines that a class has emptied come back to it in the reverse order, so
 * that their hints are good (fast.h): as many as may be filled again by what
 * is live.
 */
static void put_empty(struct kilni_pools *pools,
		      const struct kilni_cache *cache,
		      struct kilni_class *class,
		      struct kilni_magazine *magazine)
{
	uint64_t blocks = (uint64_t)class->empty * class->limit;

	if (blocks > cache->account[class->pool].allocations) {
		kilni_magazine_drop(pools, magazine);
		return;
	}
	magazine->next = class->empties;
	class->empties = magazine;
	class->empty++;
}

static struct kilni_magazine *get_empty(struct kilni_pools *pools,
					struct kilni_class *class)
{
	struct kilni_magazine *magazine = class->empties;

	if (!magazine)
		return kilni_magazine_new(pools);
	class->empties = magazine->next;
	class->empty--;
	kilni_magazine_fetch(magazine, false);
	return magazine;
}

/* Makes room for one more block. */
static bool make_room(struct kilni_pools *pools, struct kilni_cache *cache,
		      struct kilni_class *class)
{
	struct kilni_magazine *empty = get_empty(pools, class);

	if (!empty)
		return false;
	if (class->previous)
		put_away(pools, cache, class, class->previous);
	class->previous = class->loaded;
	class->loaded = empty;
	return true;
}

static bool keep(struct kilni_pools *pools, struct kilni_cache *cache,
		 struct kilni_block *block)
{
	struct kilni_head *head = kilni_head_of(block);
	struct kilni_class *class;
	bool kept;

	kilni_spin_lock(&cache->lock);
	cache->idle = false;
	class = kilni_class_of(cache, block->behind, block->size);
	if (!class)
		class = open_class(pools, cache, block->behind, block->size);
	kilni_head_open(pools, block, head->pool,
			kilni_slot_of(pools, block->behind), KILNI_HEAD_LIVE);
	kept = class && (kilni_class_push(class, head) ||
			 (make_room(pools, cache, class) &&
			  kilni_class_push(class, head)));
	kilni_spin_unlock(&cache->lock);
	return kept;
}

void kilni_cache_keep(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_cache *cache = NULL;

	if (block->behind != block &&
	    kilni_pool_is_kept(pools, kilni_head_of(block)->pool))
		cache = kilni_cache_of(pools, block->behind);
	if (!cache || !keep(pools, cache, block))
		kilni_block_release(pools, block);
}

/* Puts a full magazine in the place of an empty one. */
static void load(struct kilni_pools *pools, const struct kilni_cache *cache,
		 struct kilni_class *class, struct kilni_magazine *magazine)
{
	if (class->previous)
		put_empty(pools, cache, class, class->previous);
	class->previous = class->loaded;
	class->loaded = magazine;
}

struct kilni_head *kilni_cache_refill(struct kilni_pools *pools,
				      struct kilni_cache *cache, void *stream,
				      uint64_t size)
{
	struct kilni_magazine *magazine;
	struct kilni_head *head = NULL;
	struct kilni_class *class;

	kilni_spin_lock(&cache->lock);
	class = kilni_class_of(cache, stream, size);
	if (class)
		head = kilni_class_pop(class);
	magazine = head ? NULL : kilni_bin_take(pools, stream, size);
	if (magazine) {
		if (!class)
			class = open_class(pools, cache, stream, size);
		if (class) {
			load(pools, cache, class, magazine);
			head = kilni_class_pop(class);
		} else {
			kilni_magazine_release(pools, magazine);
			kilni_magazine_drop(pools, magazine);
		}
	}
	kilni_spin_unlock(&cache->lock);
	return head;
}

/* ---- ageing and flushing ---- */

/* Closes the classes of a cache that fn says yes to. */
static bool close_some(struct kilni_pools *pools, struct kilni_cache *cache,
		       bool (*fn)(struct kilni_pools *pools,
				  struct kilni_class *class, const void *arg),
		       const void *arg)
{
	bool some = false;
	unsigned i;

	for (i = 0; i < KILNI_CLASSES / 64; i++) {
		uint64_t left = cache->occupied[i];

		for (; left; left &= left - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(left);
			struct kilni_class *class = &cache->class[i * 64 + bit];

			if (!fn(pools, class, arg))
				continue;
			some |= !is_empty(class);
			close_class(pools, cache, class);
		}
	}
	return some;
}

static bool is_unwanted(struct kilni_pools *pools, struct kilni_class *class,
			const void *arg)
{
	(void)pools;
	(void)arg;
	return ++class->unwanted >= (class->size <= SMALL_CLASS ? SMALL_AGE
							       : LARGE_AGE);
}

/* arg: the pool, or NULL for all. */
static bool is_routed_to(struct kilni_pools *pools, struct kilni_class *class,
			 const void *arg)
{
	return !arg || arg == &pools->pool[class->pool];
}

void kilni_cache_age(struct kilni_pools *pools, struct kilni_cache *cache)
{
	kilni_spin_lock(&cache->lock);
	pools->clock += cache->recent;
	cache->clock += cache->recent;
	cache->recent = 0;
	cache->idle = false;
	if (cache->clock - cache->aged >= KILNI_TICK) {
		cache->aged = cache->clock;
		close_some(pools, cache, is_unwanted, NULL);
	}
	kilni_spin_unlock(&cache->lock);
}

void kilni_caches_idle(struct kilni_pools *pools)
{
	unsigned i;

	for (i = 0; i < pools->caches; i++) {
		struct kilni_cache *cache = pools->cache[i];

		kilni_spin_lock(&cache->lock);
		if (cache->idle)
			close_some(pools, cache, is_routed_to, NULL);
		cache->idle = true;
		kilni_spin_unlock(&cache->lock);
	}
}

static bool flush(struct kilni_pools *pools, const struct kilni_pool *pool)
{
	bool some = kilni_bins_flush(pools, pool);
	unsigned i;

	for (i = 0; i < pools->caches; i++) {
		struct kilni_cache *cache = pools->cache[i];

		kilni_spin_lock(&cache->lock);
		some |= close_some(pools, cache, is_routed_to, pool);
		kilni_spin_unlock(&cache->lock);
	}
	return some;
}

/* Classes that may still be closed. */
struct rest {
	const struct kilni_pool *pool;
	uint64_t blocks;
};

static bool is_in_rest(struct kilni_pools *pools, struct kilni_class *class,
		       const void *arg)
{
	struct rest *rest = (struct rest *)(uintptr_t)arg;
	uint64_t blocks = class->loaded->count;

	if (!rest->blocks || !is_routed_to(pools, class, rest->pool))
		return false;
	if (class->previous)
		blocks += class->previous->count;
	rest->blocks -= kilni_min_u64(rest->blocks, blocks);
	return true;
}

bool kilni_pool_flush_some(struct kilni_pools *pools, struct kilni_pool *pool)
{
	struct rest rest = { .pool = pool };
	unsigned i;

	rest.blocks = kilni_bins_flush_some(pools, pool, KILNI_MERGED_MOST);
	for (i = 0; i < pools->caches && rest.blocks; i++) {
		struct kilni_cache *cache = pools->cache[i];

		kilni_spin_lock(&cache->lock);
		close_some(pools, cache, is_in_rest, &rest);
		kilni_spin_unlock(&cache->lock);
	}
	return rest.blocks < KILNI_MERGED_MOST;
}

bool kilni_pool_flush(struct kilni_pools *pools, struct kilni_pool *pool)
{
	return flush(pools, pool);
}

void kilni_pools_flush(struct kilni_pools *pools)
{
	if (KILNI_UNLIKELY(pools->watch))
		kilni_watch_settle(pools, true);
	flush(pools, NULL);
	kilni_caches_gather(pools);
}

void kilni_caches_forget(struct kilni_pools *pools)
{
	unsigned i;

	kilni_caches_lock(pools);
	for (i = 0; i < pools->caches; i++)
		memset(pools->cache[i]->account, 0,
		       sizeof(pools->cache[i]->account));
	kilni_caches_unlock(pools);
}

/* ---- the sums ---- */

void kilni_caches_lock(struct kilni_pools *pools)
{
	unsigned i;

	for (i = 0; i < pools->caches; i++)
		kilni_spin_lock(&pools->cache[i]->lock);
}

void kilni_caches_unlock(struct kilni_pools *pools)
{
	unsigned i;

	for (i = 0; i < pools->caches; i++)
		kilni_spin_unlock(&pools->cache[i]->lock);
}

static void add_account(struct kilni_pool *pool,
			const struct kilni_account *account)
{
	pool->allocations += account->allocations;
	pool->live_bytes += account->live_bytes;
	pool->used_bytes += account->used_bytes;
	pool->largest_request = kilni_max_u64(pool->largest_request,
					      account->largest_request);
}

/*
 * Blocks pass from one cache to another only under the pools' lock, which is
 * held: so each counts once, and what is used is never more than reserved.
 */
static void sum(struct kilni_pools *pools)
{
	unsigned i, k, count = kilni_pool_count(pools);
	uint64_t peak = 0;

	pools->live_bytes = 0;
	for (k = 0; k < count; k++) {
		pools->pool[k].allocations = 0;
		pools->pool[k].live_bytes = 0;
		pools->pool[k].used_bytes = 0;
	}
	for (i = 0; i < pools->caches; i++) {
		struct kilni_cache *cache = pools->cache[i];

		for (k = 0; k < count; k++)
			add_account(&pools->pool[k], &cache->account[k]);
		pools->live_bytes += cache->live_bytes;
		peak += cache->peak_live;
		cache->peak_live = cache->live_bytes;
	}
	pools->window_peak = kilni_max_u64(pools->window_peak, peak);
}

void kilni_caches_gather(struct kilni_pools *pools)
{
	kilni_caches_lock(pools);
	sum(pools);
	kilni_caches_unlock(pools);
}
