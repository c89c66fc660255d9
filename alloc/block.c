/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <stdlib.h>
#include <string.h>

/* Slabs lie at multiples of it; so many blocks fit. */
#define SLAB_BYTES 65536
#define SLAB_BLOCKS 408

_Static_assert(sizeof(struct kilni_head) == 32, "two heads to a cache line");

struct kilni_slab {
	struct kilni_head head[SLAB_BLOCKS];
	struct kilni_block block[SLAB_BLOCKS];
	struct kilni_slab *next;
};

/* With what malloc adds a slab ends where the next one may begin. */
_Static_assert(sizeof(struct kilni_slab) <= SLAB_BYTES - 64,
	       "a slab's records");

/* ---- metadata ---- */

static struct kilni_slab *slab_of(const void *record)
{
	return (struct kilni_slab *)((uintptr_t)record &
				     ~(uintptr_t)(SLAB_BYTES - 1));
}

struct kilni_head *kilni_head_of(const struct kilni_block *block)
{
	struct kilni_slab *slab = slab_of(block);

	return &slab->head[block - slab->block];
}

struct kilni_block *kilni_block_of(const struct kilni_head *head)
{
	struct kilni_slab *slab = slab_of(head);

	return &slab->block[head - slab->head];
}

static bool add_slab(struct kilni_pools *pools)
{
	struct kilni_slab *slab;
	void *memory;
	unsigned i;

	if (posix_memalign(&memory, SLAB_BYTES, sizeof(*slab)))
		return false;
	slab = memory;
	memset(slab->head, 0, sizeof(slab->head));
	slab->next = pools->slabs;
	pools->slabs = slab;
	/* So that they are taken in order of their addresses. */
	for (i = SLAB_BLOCKS; i-- > 0;) {
		struct kilni_block *block = &slab->block[i];

		slab->head[i].slot = KILNI_STREAM_SLOTS;
		block->uses = block->near;
		block->capacity = KILNI_USES_INLINE;
		block->left = pools->spare;
		pools->spare = block;
	}
	pools->blocks += SLAB_BLOCKS;
	return true;
}

static uint32_t next_random(struct kilni_pools *pools)
{
	uint32_t x = pools->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	pools->random = x;
	return x;
}

struct kilni_block *kilni_block_new(struct kilni_pools *pools)
{
	struct kilni_block *block;

	if (!pools->spare && !add_slab(pools))
		return NULL;
	block = pools->spare;
	pools->spare = block->left;
	block->behind = block;
	block->count = 0;
	block->stale = false;
	block->left = block->right = NULL;
	block->before = block->after = NULL;
	block->priority = next_random(pools);
	return block;
}

/* A longer array of uses stays with the metadata for its next owner. */
void kilni_block_drop(struct kilni_pools *pools, struct kilni_block *block)
{
	block->left = pools->spare;
	pools->spare = block;
}

void kilni_slabs_free(struct kilni_pools *pools)
{
	while (pools->slabs) {
		struct kilni_slab *slab = pools->slabs;
		unsigned i;

		for (i = 0; i < SLAB_BLOCKS; i++)
			if (slab->block[i].uses != slab->block[i].near)
				free(slab->block[i].uses);
		pools->slabs = slab->next;
		free(slab);
	}
}

/* ---- carving and merging ---- */

struct kilni_block **kilni_block_root(const struct kilni_block *block)
{
	struct kilni_pool *pool = block->page->pool;

	return block->state == KILNI_BLOCK_TAIL ? &pool->tails : &pool->tree;
}

static void insert_free(struct kilni_block *block)
{
	kilni_tree_insert(kilni_block_root(block), block);
}

static void remove_free(struct kilni_block *block)
{
	kilni_tree_remove(kilni_block_root(block), block);
}

void kilni_block_cut(struct kilni_block *block, uint64_t size,
		     struct kilni_block *rest)
{
	kilni_uses_merge(rest, block);
	rest->stale = block->stale;
	rest->page = block->page;
	rest->state = block->state;
	rest->address = block->address + size;
	rest->size = block->size - size;
	rest->before = block;
	rest->after = block->after;
	if (rest->after)
		rest->after->before = rest;
	block->after = rest;
	block->size = size;
}

bool kilni_block_split(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t size)
{
	struct kilni_block *rest = kilni_block_new(pools);

	if (!rest)
		return false;
	if (!kilni_uses_reserve(pools, rest, block->count)) {
		kilni_block_drop(pools, rest);
		return false;
	}
	remove_free(block);
	kilni_block_cut(block, size, rest);
	insert_free(rest);
	return true;
}

bool kilni_block_carve(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t size)
{
	if (block->size == size)
		remove_free(block);
	else if (!kilni_block_split(pools, block, size))
		return false;
	block->state = KILNI_BLOCK_LIVE;
	if (!block->page->used++)
		kilni_idle_remove(pools, block->page);
	return true;
}

bool kilni_block_join(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_block *next = block->after;

	if (!kilni_uses_reserve(pools, block, next->count))
		return false;
	kilni_uses_merge(block, next);
	block->stale |= next->stale;
	block->size += next->size;
	block->after = next->after;
	if (block->after)
		block->after->before = block;
	kilni_block_drop(pools, next);
	return true;
}

static bool absorb_next(struct kilni_pools *pools, struct kilni_block *block)
{
	if (kilni_block_join(pools, block))
		return true;
	pools->unmerged++;
	return false;
}

void kilni_block_settle(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_block *before = block->before, *after = block->after;

	if (after && kilni_block_is_free(after)) {
		remove_free(after);
		if (!absorb_next(pools, block))
			insert_free(after);
	}
	if (before && kilni_block_is_free(before)) {
		remove_free(before);
		if (absorb_next(pools, before))
			block = before;
		else
			insert_free(before);
	}
	insert_free(block);
}

/* A persistent page without slices is as good as new. */
static void make_tail(struct kilni_pools *pools, struct kilni_page_record *page)
{
	struct kilni_block *block = page->first;

	remove_free(block);
	while (block->after) {
		struct kilni_block *next = block->after;

		remove_free(next);
		if (!absorb_next(pools, block)) {
			insert_free(next);
			break;
		}
	}
	block->state = KILNI_BLOCK_TAIL;
	insert_free(block);
}

void kilni_block_release(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_page_record *page = block->page;

	kilni_head_settle(block);
	kilni_head_set(kilni_head_of(block), 0);
	block->state = KILNI_BLOCK_FREE;
	page->used--;
	if (page == &pools->range.page)
		kilni_range_touch(pools, block);
	if (page->pool->kind != KILN_POOL_PERSISTENT) {
		kilni_block_settle(pools, block);
	} else {
		insert_free(block);
		if (!page->used)
			make_tail(pools, page);
	}
	if (!page->used)
		kilni_idle_push(pools, page);
}
