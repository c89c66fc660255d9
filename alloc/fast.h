/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_FAST_H
#define KILNI_ALLOC_FAST_H

/*
 * The fast path: what goes on under a cache's lock alone. It touches the
 * block's head and nothing else of it.
 */

#include "alloc/internal.h"

/*
 * Blocks ahead of the one taken or given whose heads are fetched. Which ones
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
kilni_cache_of(const struct kilni_pools *pools, const void *stream)
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
static inline struct kilni_head *kilni_class_pop(struct kilni_class *class)
{
	struct kilni_magazine *magazine = class->loaded;
	struct kilni_head *head;

	if (KILNI_UNLIKELY(!magazine->count)) {
		if (!class->previous || !class->previous->count)
			return NULL;
		kilni_class_swap(class);
		magazine = class->loaded;
	}
	head = magazine->head[--magazine->count];
	if (magazine->count >= KILNI_FETCH_AHEAD)
		__builtin_prefetch(magazine->head[magazine->count -
						  KILNI_FETCH_AHEAD],
				   1);
	class->unwanted = 0;
	kilni_head_set(head, head->state ^ (KILNI_HEAD_LIVE | KILNI_HEAD_KEPT));
	return head;
}

/* false: there is no room. */
static inline bool kilni_class_push(struct kilni_class *class,
				    struct kilni_head *head)
{
	struct kilni_magazine *magazine = class->loaded;
	struct kilni_head **place;

	if (KILNI_UNLIKELY(magazine->count == class->limit)) {
		if (!class->previous || class->previous->count)
			return false;
		kilni_class_swap(class);
		magazine = class->loaded;
	}
	kilni_head_set(head, head->state ^ (KILNI_HEAD_LIVE | KILNI_HEAD_KEPT));
	place = &magazine->head[magazine->count++];
	if (*place != head)
		*place = head;
	else if (magazine->count + KILNI_FETCH_AHEAD <= class->limit)
		__builtin_prefetch(place[KILNI_FETCH_AHEAD], 1);
	return true;
}

/* As requested; live blocks only. */
static inline uint64_t kilni_head_bytes(const struct kilni_head *head)
{
	uint32_t padding = __atomic_load_n(&head->padding, __ATOMIC_RELAXED);

	if (KILNI_UNLIKELY(padding == KILNI_PADDING_MOST))
		return __atomic_load_n(&kilni_block_of(head)->bytes,
				       __ATOMIC_RELAXED);
	return head->size - padding;
}

/* A snapshot reads it without the cache's lock. */
static inline void kilni_head_set_bytes(struct kilni_head *head, uint64_t bytes)
{
	uint64_t padding = head->size - bytes;

	if (KILNI_UNLIKELY(padding >= KILNI_PADDING_MOST)) {
		padding = KILNI_PADDING_MOST;
		__atomic_store_n(&kilni_block_of(head)->bytes, bytes,
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&head->padding, (uint32_t)padding, __ATOMIC_RELAXED);
}

/* A block is live for so many bytes from now on. */
static inline void kilni_account_take(struct kilni_cache *cache,
				      struct kilni_head *head, uint64_t bytes)
{
	struct kilni_account *account = &cache->account[head->pool];

	kilni_head_set_bytes(head, bytes);
	account->allocations++;
	account->live_bytes += bytes;
	account->used_bytes += head->size;
	if (bytes > account->largest_request)
		account->largest_request = bytes;
	cache->recent++;
	cache->live_bytes += bytes;
	if (cache->live_bytes > cache->peak_live)
		cache->peak_live = cache->live_bytes;
}

static inline void kilni_account_give(struct kilni_cache *cache,
				      const struct kilni_head *head)
{
	struct kilni_account *account = &cache->account[head->pool];
	uint64_t bytes = kilni_head_bytes(head);

	account->allocations--;
	account->live_bytes -= bytes;
	account->used_bytes -= head->size;
	cache->live_bytes -= bytes;
}

/*
 * Notes the uses of an owner where that is simple: at most one, on the stream
 * that the block comes behind. false: nothing was done.
 */
static inline bool kilni_head_note(struct kilni_head *head, const void *stream,
				   const struct kilni_use *uses, size_t count)
{
	if (!count)
		return true;
	if (count > 1 || uses[0].stream != stream ||
	    head->state & KILNI_HEAD_FULL)
		return false;
	if (head->state & KILNI_HEAD_USED) {
		head->seq = kilni_max_u64(head->seq, uses[0].seq);
		return true;
	}
	head->seq = uses[0].seq;
	kilni_head_set(head, head->state | KILNI_HEAD_USED);
	return true;
}

#endif
