/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/fast.h"

/* Compares the accounting with what a walk over everything finds. */

struct sums {
	uint64_t pages, odd, allocations, live, used, reserved;
	uint64_t kept;             /* in magazines */
	uint64_t tree, tails, holes;
};

#define REQUIRE(condition)                                                     \
	do {                                                                   \
		if (!(condition)) {                                            \
			kilni_log(KILNI_LOG_ERROR, "pools: %s", #condition);   \
			return false;                                          \
		}                                                              \
	} while (0)

static bool check_uses(const struct kilni_block *block)
{
	uint32_t i, k;

	REQUIRE(block->count <= block->capacity);
	for (i = 0; i < block->count; i++)
		for (k = 0; k < i; k++)
			REQUIRE(block->uses[i].stream != block->uses[k].stream);
	return true;
}

static bool in_tree(struct kilni_block *root, const struct kilni_block *block)
{
	struct kilni_block *found = kilni_tree_fit(root, block->size);

	while (found && found != block && found->size == block->size &&
	       found->address < block->address)
		found = kilni_tree_next(root, found);
	return found == block;
}

/* A head may note a use, and the block has a place for it. */
static bool check_room(const struct kilni_block *block,
		       const struct kilni_head *head)
{
	uint32_t i;

	if (head->state & KILNI_HEAD_FULL || block->count < block->capacity)
		return true;
	for (i = 0; i < block->count; i++)
		if (block->uses[i].stream == block->behind)
			return true;
	return false;
}

/* Of a block that is live or kept. */
static bool check_head(const struct kilni_pools *pools,
		       const struct kilni_block *block, struct sums *sums)
{
	const struct kilni_head *head = kilni_head_of(block);
	unsigned what = head->state & (KILNI_HEAD_LIVE | KILNI_HEAD_KEPT);

	REQUIRE(kilni_block_of(head) == block);
	REQUIRE(head->address == block->address && head->size == block->size);
	REQUIRE(&pools->pool[head->pool] == block->page->pool);
	REQUIRE(head->slot == kilni_slot_of(pools, block->behind));
	REQUIRE(check_room(block, head));
	if (what == KILNI_HEAD_KEPT) {
		sums->kept++;
		return true;
	}
	REQUIRE(what == KILNI_HEAD_LIVE);
	REQUIRE(kilni_head_bytes(head) &&
		kilni_head_bytes(head) <= block->size);
	sums->allocations++;
	sums->live += kilni_head_bytes(head);
	sums->used += block->size;
	return true;
}

static bool check_block(const struct kilni_pools *pools,
			const struct kilni_block *block, struct sums *sums)
{
	const struct kilni_block *next = block->after;

	REQUIRE(block->size && block->size % pools->unit == 0);
	REQUIRE(check_uses(block));
	REQUIRE(!next || next->before == block);
	REQUIRE(!next || next->address == block->address + block->size);
	if (kilni_block_is_free(block)) {
		sums->tree += block->state == KILNI_BLOCK_FREE;
		sums->tails += block->state == KILNI_BLOCK_TAIL;
		REQUIRE(block->page->pool->kind == KILN_POOL_PERSISTENT ||
			!next || !kilni_block_is_free(next) || pools->unmerged);
	} else if (block->state == KILNI_BLOCK_HOLE) {
		sums->holes++;
		REQUIRE(kilni_in_range(pools, block) && !block->count);
		REQUIRE(!next || next->state != KILNI_BLOCK_HOLE);
	} else if (block->state == KILNI_BLOCK_PAGE) {
		REQUIRE(kilni_in_range(pools, block));
	} else {
		return check_head(pools, block, sums);
	}
	REQUIRE(!kilni_head_of(block)->state);
	return true;
}

static bool is_listed_idle(const struct kilni_pools *pools,
			   const struct kilni_page_record *page)
{
	return page->idle_before ? page->idle_before->idle_after == page
				 : pools->idle_first == page;
}

static bool check_page(const struct kilni_pools *pools,
		       const struct kilni_page_record *page, struct sums *sums)
{
	const struct kilni_block *block;
	uint64_t bytes = 0, used = 0;

	REQUIRE(page->first && page->first->address == page->page.address);
	for (block = page->first; block; block = block->after) {
		REQUIRE(block->page == page);
		REQUIRE(check_block(pools, block, sums));
		bytes += block->size;
		used += !kilni_block_is_free(block);
	}
	REQUIRE(bytes == page->page.bytes);
	REQUIRE(used == page->used);
	REQUIRE(used || is_listed_idle(pools, page));
	REQUIRE(!page->inside ||
		(page->inside->state == KILNI_BLOCK_PAGE &&
		 page->inside->address == page->page.address &&
		 page->inside->size == bytes));
	sums->pages++;
	sums->odd += page->page.bytes != page->pool->page_bytes;
	sums->reserved += bytes;
	return true;
}

static uint64_t count_tree(struct kilni_block *root)
{
	struct kilni_block *block = kilni_tree_fit(root, 0);
	uint64_t count = 0;

	for (; block; block = kilni_tree_next(root, block)) {
		if (!in_tree(root, block))
			return UINT64_MAX;
		count++;
	}
	return count;
}

/* ---- caches and bins ---- */

static bool check_magazine(const struct kilni_magazine *magazine,
			   const void *stream, uint64_t size, uint64_t *kept)
{
	uint64_t i;

	REQUIRE(magazine->count <= KILNI_MAGAZINE);
	for (i = 0; i < magazine->count; i++) {
		const struct kilni_head *head = magazine->head[i];

		REQUIRE(head->state & KILNI_HEAD_KEPT);
		REQUIRE(head->size == size);
		REQUIRE(kilni_block_of(head)->behind == stream);
	}
	*kept += i;
	return true;
}

static bool check_bin(const struct kilni_bin *bin, uint64_t *kept)
{
	const struct kilni_magazine *magazine;
	uint64_t count = 0;

	for (magazine = bin->first; magazine; magazine = magazine->next) {
		REQUIRE(magazine->count);
		REQUIRE(check_magazine(magazine, bin->stream, bin->size,
				       kept));
		count++;
	}
	REQUIRE(count == bin->count);
	REQUIRE(bin->low <= count && bin->surplus <= count);
	return true;
}

static bool check_class(const struct kilni_class *class, uint64_t *kept)
{
	const struct kilni_magazine *previous = class->previous;

	REQUIRE(class->loaded && class->limit <= KILNI_MAGAZINE);
	REQUIRE(class->loaded->count <= class->limit);
	REQUIRE(!previous || !previous->count ||
		previous->count == class->limit);
	REQUIRE(check_magazine(class->loaded, class->stream, class->size,
			       kept));
	return !previous ||
	       check_magazine(previous, class->stream, class->size, kept);
}

static bool check_cache(const struct kilni_cache *cache, uint64_t *kept)
{
	uint64_t live = 0;
	unsigned i;

	for (i = 0; i < KILNI_CLASSES; i++) {
		bool occupied = cache->occupied[i / 64] >> (i % 64) & 1;

		REQUIRE(occupied == (cache->class[i].size != 0));
		if (occupied)
			REQUIRE(check_class(&cache->class[i], kept));
	}
	for (i = 0; i < KILNI_POOLS_MAX; i++)
		live += cache->account[i].live_bytes;
	REQUIRE(live == cache->live_bytes);
	REQUIRE(live <= cache->peak_live);
	return true;
}

/* Counts the blocks in all magazines. */
static bool check_kept(const struct kilni_pools *pools, uint64_t *kept)
{
	const struct kilni_bin *bin;
	unsigned i;

	for (i = 0; i < pools->caches; i++)
		REQUIRE(check_cache(pools->cache[i], kept));
	for (i = 0; i < KILNI_BINS; i++)
		for (bin = pools->bin[i]; bin; bin = bin->next)
			REQUIRE(check_bin(bin, kept));
	return true;
}

/* ---- pools ---- */

/* What the caches say of one pool. */
static struct kilni_account account_of(const struct kilni_pools *pools,
				       const struct kilni_pool *pool)
{
	struct kilni_account sum = { 0 };
	size_t k = (size_t)(pool - pools->pool);
	unsigned i;

	for (i = 0; i < pools->caches; i++) {
		sum.allocations += pools->cache[i]->account[k].allocations;
		sum.live_bytes += pools->cache[i]->account[k].live_bytes;
		sum.used_bytes += pools->cache[i]->account[k].used_bytes;
	}
	return sum;
}

/* The objects under a block; those that begin in it are counted. */
static bool check_objects(const struct kilni_mapped *range,
			  const struct kilni_block *block, uint64_t *objects,
			  uint64_t *bytes)
{
	uint64_t address = block->address & ~(range->granularity - 1);
	uint64_t end = block->address + block->size;
	const struct kilni_object *object;

	REQUIRE(end <= range->top || block->state == KILNI_BLOCK_HOLE);
	for (; address < end; address += range->granularity) {
		/* Nothing has ever lain beyond. */
		if (address >= range->top)
			break;
		object = kilni_object_at(range, address);
		REQUIRE(!object == (block->state == KILNI_BLOCK_HOLE));
		if (!object)
			continue;
		REQUIRE(address >= object->address &&
			address - object->address < object->bytes);
		if (address < block->address || address != object->address)
			continue;
		++*objects;
		*bytes += object->bytes;
	}
	return true;
}

static bool check_range(const struct kilni_pools *pools, struct sums *sums)
{
	const struct kilni_mapped *range = &pools->range;
	const struct kilni_block *block = range->page.first;
	uint64_t address = range->page.page.address, used = 1;
	uint64_t objects = 0, bytes = 0, lent = 0;

	for (; block; block = block->after) {
		REQUIRE(block->page == &range->page);
		REQUIRE(block->address == address);
		REQUIRE(check_block(pools, block, sums));
		REQUIRE(check_objects(range, block, &objects, &bytes));
		address += block->size;
		if (block->state != KILNI_BLOCK_HOLE) {
			used += !kilni_block_is_free(block);
			sums->reserved += block->size;
		}
		if (block->state == KILNI_BLOCK_PAGE)
			lent += block->size;
	}
	REQUIRE(address == range->page.page.address + range->page.page.bytes);
	REQUIRE(used == range->page.used);
	REQUIRE(objects == range->objects);
	REQUIRE(bytes == range->bytes && bytes == sums->reserved);
	sums->reserved -= lent;
	return true;
}

static bool check_pool(const struct kilni_pools *pools,
		       const struct kilni_pool *pool, uint64_t *reserved,
		       uint64_t *live, uint64_t *kept)
{
	const struct kilni_account account = account_of(pools, pool);
	const struct kilni_page_record *page;
	struct sums sums = { 0 };

	if (pool == pools->range.pool) {
		REQUIRE(check_range(pools, &sums));
		REQUIRE(sums.holes == count_tree(pools->range.holes));
	}
	for (page = pool->pages; page; page = page->after) {
		REQUIRE(page->pool == pool);
		REQUIRE(!page->after || page->after->before == page);
		REQUIRE(check_page(pools, page, &sums));
	}
	REQUIRE(sums.pages == pool->page_count);
	REQUIRE(sums.odd == pool->odd_pages);
	REQUIRE(sums.allocations == account.allocations);
	REQUIRE(sums.live == account.live_bytes);
	REQUIRE(sums.used == account.used_bytes);
	REQUIRE(sums.reserved == pool->reserved_bytes);
	REQUIRE(sums.used <= sums.reserved);
	REQUIRE(sums.tree == count_tree(pool->tree));
	REQUIRE(sums.tails == count_tree(pool->tails));
	REQUIRE(!sums.tails || pool->kind == KILN_POOL_PERSISTENT);
	REQUIRE(!sums.kept || pool->kind != KILN_POOL_PERSISTENT);
	*kept += sums.kept;
	*reserved += sums.reserved;
	*live += sums.live;
	return true;
}

static bool check_all(const struct kilni_pools *pools)
{
	const struct kilni_page_record *page;
	uint64_t reserved = 0, live = 0, kept = 0, in_magazines = 0;
	unsigned i;

	for (i = 0; i < kilni_pool_count(pools); i++)
		REQUIRE(check_pool(pools, &pools->pool[i], &reserved, &live,
				   &kept));
	REQUIRE(check_kept(pools, &in_magazines));
	REQUIRE(kept == in_magazines);
	REQUIRE(reserved == pools->reserved_bytes);
	REQUIRE(reserved <= pools->cap_bytes);
	REQUIRE(reserved <= pools->peak_reserved);
	for (page = pools->idle_first; page; page = page->idle_after) {
		REQUIRE(!page->used);
		REQUIRE(page->idle_after || page == pools->idle_last);
	}
	return true;
}

bool kilni_pools_verify(struct kilni_pools *pools)
{
	bool good;

	pthread_mutex_lock(&pools->lock);
	kilni_caches_lock(pools);
	good = check_all(pools);
	kilni_caches_unlock(pools);
	pthread_mutex_unlock(&pools->lock);
	return good;
}
