/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/fast.h"
#include "base/poison.h"

#include <string.h>

/*
 * Debugging aids. A freed block is settled once its uses have completed: it is
 * filled with KILNI_FILL_FREED, through the driver where the host does not see
 * the memory, and poisoned where it does. Where they have not completed at the
 * free the block is stale, and looked at again when an eighth of all blocks is,
 * and when everything that is kept is merged: for a report, a trim, and where
 * memory is short.
 *
 * A driver's write may take long, so it is called without a cache's lock: at
 * the free while the block is still live, later once it is in no cache.
 */

#define FILL_BYTES 65536

bool kilni_pools_fill(const struct kilni_pools *pools)
{
	return pools->watch & KILNI_WATCH_FILL;
}

static void fill_by_driver(struct kilni_pools *pools, uint64_t address,
			   uint64_t bytes, bool freed)
{
	static const unsigned char patterns[2][FILL_BYTES] = {
		{ [0 ... FILL_BYTES - 1] = KILNI_FILL_NEW },
		{ [0 ... FILL_BYTES - 1] = KILNI_FILL_FREED }
	};
	struct kilni_error_record before;

	kilni_error_save(&before);
	while (bytes) {
		uint64_t part = kilni_min_u64(bytes, FILL_BYTES);

		if (kilni_memory(pools)->write(pools->hw, address,
					       patterns[freed],
					       part) != KILN_OK)
			break;
		address += part;
		bytes -= part;
	}
	kilni_error_restore(&before);
}

static void settle(struct kilni_pools *pools, struct kilni_block *block)
{
	if (pools->watch & KILNI_WATCH_DRIVER) {
		fill_by_driver(pools, block->address, block->size, true);
	} else if (pools->watch & KILNI_WATCH_FILL) {
		kilni_unpoison(block->address, block->size);
		memset((void *)(uintptr_t)block->address, KILNI_FILL_FREED,
		       block->size);
	}
	if (pools->watch & KILNI_WATCH_POISON)
		kilni_poison(block->address, block->size);
	block->stale = false;
}

void kilni_pools_fill_new(struct kilni_pools *pools,
			  const struct kilni_slice *slice)
{
	if (!slice->bytes)
		return;
	if (pools->limits.host_visible)
		memset((void *)(uintptr_t)slice->address, KILNI_FILL_NEW,
		       slice->bytes);
	else
		fill_by_driver(pools, slice->address, slice->bytes, false);
}

void kilni_watch_freed(struct kilni_pools *pools, struct kilni_block *block)
{
	kilni_head_settle(block);
	if (kilni_uses_done(pools, block)) {
		settle(pools, block);
		return;
	}
	block->stale = true;
	__atomic_add_fetch(&pools->stale, 1, __ATOMIC_RELAXED);
}

void kilni_watch_taken(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t bytes)
{
	block->stale = false;
	if (pools->watch & KILNI_WATCH_POISON)
		kilni_unpoison(block->address, bytes);
}

static void settle_page(struct kilni_pools *pools,
			const struct kilni_page_record *page)
{
	struct kilni_block *block;

	for (block = page->first; block; block = block->after) {
		/* Small slices may live in a page that lies there. */
		if (!block->stale || block->state == KILNI_BLOCK_PAGE ||
		    kilni_head_state(kilni_head_of(block)) & KILNI_HEAD_LIVE)
			continue;
		kilni_head_settle(block);
		if (kilni_uses_done(pools, block))
			settle(pools, block);
		else
			pools->stale++;
	}
}

static void settle_pages(struct kilni_pools *pools)
{
	struct kilni_page_record *page;
	unsigned i;

	pools->stale = 0;
	settle_page(pools, &pools->range.page);
	for (i = 0; i < kilni_pool_count(pools); i++)
		for (page = pools->pool[i].pages; page; page = page->after)
			settle_page(pools, page);
}

static void settle_all(struct kilni_pools *pools)
{
	/* What is free then nobody takes without the pools' lock. */
	if (pools->watch & KILNI_WATCH_DRIVER) {
		kilni_pool_flush(pools, NULL);
		settle_pages(pools);
		return;
	}
	kilni_caches_lock(pools);
	settle_pages(pools);
	kilni_caches_unlock(pools);
}

void kilni_watch_settle(struct kilni_pools *pools, bool all)
{
	uint64_t stale = __atomic_load_n(&pools->stale, __ATOMIC_RELAXED);

	if (stale && (all || stale >= pools->blocks / 8))
		settle_all(pools);
}

/* ---- the walk ---- */

void kilni_watch_count(struct kilni_pools *pools)
{
	uint64_t calls = __atomic_add_fetch(&pools->watched, 1,
					    __ATOMIC_RELAXED);

	if (calls % pools->verify_every == 0 && !kilni_pools_verify(pools))
		__atomic_store_n(&pools->broken, true, __ATOMIC_RELAXED);
}

enum kiln_status kilni_watch_walk(struct kilni_pools *pools)
{
	kilni_watch_count(pools);
	if (!__atomic_load_n(&pools->broken, __ATOMIC_RELAXED))
		return KILN_OK;
	return kilni_fail(KILN_ERR_INTERNAL, 0,
			  "pools: a walk found a difference; KILN_LOG=error "
			  "tells which");
}
