/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_FAST_H
#define KILNI_ALLOC_FAST_H

/*
 * The fast path: what goes on under a cache's lock alone. It touches the first
 * line of the block's record and no neighbour.
 */

#include "alloc/internal.h"

/*
 * Blocks ahead of the one taken or given whose records are fetched. Which ones
 * are given next nobody knows; but where a program frees in the reverse order,
 * it is those that the magazine had in the places above.
 */
#define KILNI_FETCH_AHEAD 12

static inline size_t kilni_hash(const void *stream, uint64_t size)
{
	uint64_t x = (uintptr_t)stream ^ (size * UINT64_C(0x9e3779b97f4a7c15));

	return (size_t)((x * UINT64_C(0xd6e8feb86659fd93)) >> 40);
}

/* NULL: the stream has none yet. No lock is needed. */
static inline struct kilni_cache *
kilni_cache_of(const struct kilni_pools *pools, void *stream)
{
	size_t i = kilni_hash(stream, 0);
	void *there;

	for (;; i++) {
		struct kilni_stream_slot *slot =
			&pools->slots[i % KILNI_STREAM_SLOTS];

		there = __atomic_load_n(&slot->stream, __ATOMIC_ACQUIRE);
		if (there == stream)
			return slot->cache;
		if (!there)
			return NULL;
	}
}

/* By the size alone: what a program needs shall not depend on addresses. */
static inline size_t kilni_class_index(uint64_t size)
{
	return kilni_hash(NULL, size) % KILNI_CLASSES;
}

/* A class has one of two places. */
static inline struct kilni_class *
kilni_class_of(struct kilni_cache *cache, const void *stream, uint64_t size)
{
	size_t i = kilni_class_index(size);
	struct kilni_class *class = &cache->class[i];

	if (KILNI_LIKELY(class->size == size && class->stream == stream))
		return class;
	class = &cache->class[i ^ 1];
	return class->size == size && class->stream == stream ? class : NULL;
}

static inline void kilni_class_swap(struct kilni_class *class)
{
	struct kilni_magazine *loaded = class->loaded;

	class->loaded = class->previous;
	class->previous = loaded;
}

/* A block that is live then, or NULL. */
static inline struct kilni_block *kilni_class_pop(struct kilni_class *class)
{
	struct kilni_magazine *magazine = class->loaded;
	struct kilni_block *block;

	if (KILNI_UNLIKELY(!magazine->count)) {
		if (!class->previous || !class->previous->count)
			return NULL;
		kilni_class_swap(class);
		magazine = class->loaded;
	}
	block = magazine->block[--magazine->count];
	if (magazine->count >= KILNI_FETCH_AHEAD)
		__builtin_prefetch(magazine->block[magazine->count -
						   KILNI_FETCH_AHEAD],
				   1);
	class->unwanted = 0;
	kilni_block_set(block, KILNI_BLOCK_LIVE);
	return block;
}

/* false: there is no room. */
static inline bool kilni_class_push(struct kilni_class *class,
				    struct kilni_block *block)
{
	struct kilni_magazine *magazine = class->loaded;
	struct kilni_block **place;

	if (KILNI_UNLIKELY(magazine->count == class->limit)) {
		if (!class->previous || class->previous->count)
			return false;
		kilni_class_swap(class);
		magazine = class->loaded;
	}
	kilni_block_set(block, KILNI_BLOCK_BINNED);
	place = &magazine->block[magazine->count++];
	if (*place == block &&
	    magazine->count + KILNI_FETCH_AHEAD <= class->limit)
		__builtin_prefetch(place[KILNI_FETCH_AHEAD], 1);
	*place = block;
	return true;
}

/* A block is live for so many bytes from now on. */
static inline void kilni_account_take(struct kilni_cache *cache,
				      struct kilni_block *block, uint64_t bytes)
{
	struct kilni_account *account = &cache->account[block->pool];

	kilni_block_set_bytes(block, bytes);
	block->home = (uint16_t)cache->index;
	account->allocations++;
	account->live_bytes += bytes;
	account->used_bytes += block->size;
	if (bytes > account->largest_request)
		account->largest_request = bytes;
	cache->recent++;
	cache->live_bytes += bytes;
	if (cache->live_bytes > cache->peak_live)
		cache->peak_live = cache->live_bytes;
}

static inline void kilni_account_give(struct kilni_cache *cache,
				      struct kilni_block *block)
{
	struct kilni_account *account = &cache->account[block->pool];

	account->allocations--;
	account->live_bytes -= block->bytes;
	account->used_bytes -= block->size;
	cache->live_bytes -= block->bytes;
	kilni_block_set_bytes(block, 0);
}

/*
 * Notes the uses of an owner where that is simple: at most one, on the stream
 * that the block comes behind. false: nothing was done.
 */
static inline bool kilni_uses_note(struct kilni_block *block,
				   const struct kilni_use *uses, size_t count)
{
	if (!count)
		return true;
	if (count > 1 || block->behind != uses[0].stream)
		return false;
	if (!block->count) {
		block->uses[0] = uses[0];
		block->count = 1;
		return true;
	}
	if (block->uses[0].stream != uses[0].stream)
		return false;
	block->uses[0].seq = kilni_max_u64(block->uses[0].seq, uses[0].seq);
	return true;
}

#endif
