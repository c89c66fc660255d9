/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/fast.h"

#include <stdlib.h>
#include <string.h>

/*
 * What streams have freed beyond their caches: full magazines by size and
 * stream, which go in and out as a whole. They are merged with their
 * neighbours when a pool would have to grow, and what the stream did not need
 * for as many allocations as it may have kept blocks; where it does nothing any
 * more, after eight times as many on all streams.
 */

/* Magazines of other streams looked at for one that needs no event. */
#define SCAN 4

/* Least number of allocations before a bin gives up what it did not need. */
#define BIN_AGE (2 * KILNI_TICK)
#define DEADLINE 8

struct kilni_magazine *kilni_magazine_new(struct kilni_pools *pools)
{
	struct kilni_magazine *magazine = pools->spare_magazines;

	if (magazine) {
		pools->spare_magazines = magazine->next;
		return magazine;
	}
	magazine = aligned_alloc(64, kilni_align_up(sizeof(*magazine), 64));
	if (magazine)
		memset(magazine, 0, sizeof(*magazine));
	return magazine;
}

void kilni_magazine_drop(struct kilni_pools *pools,
			 struct kilni_magazine *magazine)
{
	magazine->next = pools->spare_magazines;
	pools->spare_magazines = magazine;
}

void kilni_magazine_release(struct kilni_pools *pools,
			    struct kilni_magazine *magazine)
{
	while (magazine->count)
		kilni_block_release(
			pools,
			kilni_block_of(magazine->head[--magazine->count]));
}

void kilni_magazine_fetch(const struct kilni_magazine *magazine, bool full)
{
	const struct kilni_magazine *next = magazine->next;
	uint64_t i, first = full ? KILNI_MAGAZINE - KILNI_FETCH_AHEAD : 0;

	for (i = first; i < first + KILNI_FETCH_AHEAD; i++)
		__builtin_prefetch(magazine->head[i], 1);
	if (!next)
		return;
	__builtin_prefetch(next, 1);
	__builtin_prefetch(&next->head[first], 1);
	__builtin_prefetch(&next->head[first + KILNI_FETCH_AHEAD - 1], 1);
}

/* ---- bins ---- */

static struct kilni_bin **bucket_of(struct kilni_pools *pools, uint64_t size)
{
	return &pools->bin[kilni_hash(NULL, size) % KILNI_BINS];
}

static struct kilni_bin *find_bin(struct kilni_pools *pools,
				  const void *stream, uint64_t size)
{
	struct kilni_bin *bin = *bucket_of(pools, size);

	while (bin && (bin->size != size || bin->stream != stream))
		bin = bin->next;
	return bin;
}

/* The class in front of the bin has up to two full ones, which go first. */
static uint64_t age_of(const struct kilni_bin *bin)
{
	return kilni_max_u64((bin->count + 2) * KILNI_MAGAZINE, BIN_AGE);
}

static void is_used(const struct kilni_pools *pools, struct kilni_bin *bin)
{
	bin->deadline = pools->clock + DEADLINE * age_of(bin);
}

static struct kilni_bin *make_bin(struct kilni_pools *pools,
				  struct kilni_cache *cache,
				  const struct kilni_class *class)
{
	struct kilni_bin **bucket = bucket_of(pools, class->size);
	struct kilni_bin *bin = calloc(1, sizeof(*bin));

	if (!bin)
		return NULL;
	bin->size = class->size;
	bin->stream = class->stream;
	bin->cache = cache;
	bin->pool = class->pool;
	bin->until = cache->clock + BIN_AGE;
	bin->next = *bucket;
	*bucket = bin;
	return bin;
}

static void give_up(struct kilni_pools *pools, struct kilni_magazine *magazine)
{
	kilni_magazine_release(pools, magazine);
	kilni_magazine_drop(pools, magazine);
}

void kilni_bin_put(struct kilni_pools *pools, struct kilni_cache *cache,
		   const struct kilni_class *class,
		   struct kilni_magazine *magazine)
{
	struct kilni_bin *bin = find_bin(pools, class->stream, class->size);

	if (!bin)
		bin = make_bin(pools, cache, class);
	if (!bin) {
		give_up(pools, magazine);
		return;
	}
	magazine->next = bin->first;
	bin->first = magazine;
	bin->count++;
	is_used(pools, bin);
}

static struct kilni_magazine *pop(struct kilni_bin *bin)
{
	struct kilni_magazine *magazine = bin->first;

	bin->first = magazine->next;
	bin->count--;
	bin->low = kilni_min_u64(bin->low, bin->count);
	bin->surplus = kilni_min_u64(bin->surplus, bin->count);
	return magazine;
}

static struct kilni_magazine *take(struct kilni_pools *pools,
				   struct kilni_bin *bin)
{
	struct kilni_magazine *magazine = pop(bin);

	is_used(pools, bin);
	kilni_magazine_fetch(magazine, true);
	return magazine;
}

/* Whether a stream may have all its blocks, which it then does. */
static bool convert(struct kilni_pools *pools, struct kilni_magazine *magazine,
		    void *stream)
{
	unsigned slot = kilni_slot_of(pools, stream);
	uint64_t i;

	for (i = 0; i < magazine->count; i++) {
		struct kilni_block *block = kilni_block_of(magazine->head[i]);

		kilni_head_settle(block);
		if (!kilni_uses_ready(pools, block, stream))
			return false;
	}
	for (i = 0; i < magazine->count; i++) {
		struct kilni_head *head = magazine->head[i];
		struct kilni_block *block = kilni_block_of(head);

		block->behind = stream;
		kilni_head_open(pools, block, head->pool, slot,
				KILNI_HEAD_KEPT);
	}
	return true;
}

struct kilni_magazine *kilni_bin_take(struct kilni_pools *pools, void *stream,
				      uint64_t size)
{
	struct kilni_bin *bin = find_bin(pools, stream, size);
	unsigned i = 0;

	if (bin && bin->first)
		return take(pools, bin);
	for (bin = *bucket_of(pools, size); bin && i < SCAN; bin = bin->next) {
		if (bin->size != size || !bin->first)
			continue;
		if (convert(pools, bin->first, stream))
			return take(pools, bin);
		i++;
	}
	return NULL;
}

/*
 * Takes so many magazines out of a bin while most blocks are not reached; what
 * is left of most.
 */
static uint64_t shorten(struct kilni_pools *pools, struct kilni_bin *bin,
			uint64_t count, uint64_t most)
{
	while (count-- && most) {
		struct kilni_magazine *magazine = pop(bin);

		most -= kilni_min_u64(magazine->count, most);
		give_up(pools, magazine);
	}
	return most;
}

static void remove_empty(struct kilni_bin **link)
{
	struct kilni_bin *bin = *link;

	*link = bin->next;
	free(bin);
}

bool kilni_bins_flush(struct kilni_pools *pools, const struct kilni_pool *pool)
{
	bool some = false;
	unsigned i;

	for (i = 0; i < KILNI_BINS; i++) {
		struct kilni_bin **link = &pools->bin[i];

		while (*link) {
			if (pool && pool != &pools->pool[(*link)->pool]) {
				link = &(*link)->next;
				continue;
			}
			some |= (*link)->count > 0;
			shorten(pools, *link, (*link)->count, UINT64_MAX);
			remove_empty(link);
		}
	}
	return some;
}

uint64_t kilni_bins_flush_some(struct kilni_pools *pools,
			       const struct kilni_pool *pool, uint64_t most)
{
	struct kilni_bin *bin;
	unsigned i;

	for (i = 0; i < KILNI_BINS; i++)
		for (bin = pools->bin[i]; bin; bin = bin->next)
			if (pool == &pools->pool[bin->pool])
				most = shorten(pools, bin, bin->count, most);
	return most;
}

static uint64_t age(struct kilni_pools *pools, struct kilni_bin *bin,
		    uint64_t most)
{
	if (pools->clock >= bin->deadline) {
		bin->surplus = bin->count;
	} else if (bin->cache->clock >= bin->until) {
		bin->surplus = bin->low;
		bin->low = bin->count;
		bin->until = bin->cache->clock + age_of(bin);
	}
	while (bin->surplus && most) {
		bin->surplus--;
		most = shorten(pools, bin, 1, most);
	}
	return most;
}

void kilni_bins_age(struct kilni_pools *pools)
{
	uint64_t most = KILNI_MERGED_MOST;
	unsigned i;

	for (i = 0; i < KILNI_BINS; i++) {
		struct kilni_bin **link = &pools->bin[i];

		while (*link) {
			most = age(pools, *link, most);
			if ((*link)->count)
				link = &(*link)->next;
			else
				remove_empty(link);
		}
	}
}
