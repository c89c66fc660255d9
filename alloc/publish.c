/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/internal.h"

/* What the bytes of a page are to a reader. */
enum share { LIVE, PADDING, UNMAPPED, SHARES, CACHED = SHARES };

/* Goes once over a page in order of address. */
struct brush {
	struct kilni_segment_page *page;
	uint64_t at;               /* offset in the page */
	uint64_t cell_bytes;
	uint64_t cell_end;
	uint64_t sum[SHARES];      /* of this cell */
	uint64_t hole_start;       /* of the hole that ends at at */
};

/* One snapshot of a device's pools. */
struct walk {
	const struct kilni_pools *pools;
	struct kilni_publication *part;
	uint64_t blocks;           /* that may still be looked at */
	uint64_t next_from;        /* UINT64_MAX: all have been seen */
	bool first_pass;
};

/* ---- cells ---- */

/* In 255ths; what is there is seen, and what is not whole as well. */
static uint8_t part_of(uint64_t bytes, uint64_t of)
{
	uint64_t share = (bytes * 255 + of / 2) / of;

	if (!share && bytes)
		return 1;
	return (uint8_t)(share == 255 && bytes < of ? 254 : share);
}

static void next_cell(struct brush *brush)
{
	struct kilni_segment_page *page = brush->page;
	struct kilni_segment_cell *cell = &page->cell[page->cells];
	uint64_t start = page->cells * brush->cell_bytes;
	uint64_t bytes = brush->cell_end - start;

	cell->live = part_of(brush->sum[LIVE], bytes);
	cell->padding = part_of(brush->sum[PADDING], bytes);
	cell->unmapped = part_of(brush->sum[UNMAPPED], bytes);
	memset(brush->sum, 0, sizeof(brush->sum));
	page->cells++;
	brush->cell_end = kilni_min_u64(brush->cell_end + brush->cell_bytes,
					page->bytes);
}

static void note_hole(struct brush *brush)
{
	uint64_t bytes = brush->at - brush->hole_start;

	if (bytes > brush->page->hole_bytes) {
		brush->page->hole_bytes = bytes;
		brush->page->hole_address = brush->page->address +
					    brush->hole_start;
	}
}

static void paint(struct brush *brush, enum share share, uint64_t bytes)
{
	while (bytes) {
		uint64_t step = kilni_min_u64(bytes,
					      brush->cell_end - brush->at);

		/* Never beyond the page, whatever its blocks say. */
		if (!step)
			return;
		if (share < SHARES)
			brush->sum[share] += step;
		brush->at += step;
		bytes -= step;
		if (brush->at == brush->cell_end)
			next_cell(brush);
	}
	if (share == CACHED)
		note_hole(brush);
	else
		brush->hole_start = brush->at;
}

static void paint_block(struct brush *brush, const struct kilni_block *block)
{
	struct kilni_segment_page *page = brush->page;

	/* A page of another pool tells of itself what lies in it. */
	if (block->state == KILNI_BLOCK_HOLE ||
	    block->state == KILNI_BLOCK_PAGE) {
		page->unmapped_bytes += kilni_min_u64(
			block->size, page->bytes - brush->at);
		paint(brush, UNMAPPED, block->size);
		return;
	}
	if (block->state != KILNI_BLOCK_LIVE) {
		paint(brush, CACHED, block->size);
		return;
	}
	page->slices++;
	page->live_bytes += block->bytes;
	page->padding_bytes += block->size - block->bytes;
	paint(brush, LIVE, block->bytes);
	paint(brush, PADDING, block->size - block->bytes);
}

/* ---- pages ---- */

/* Returns the number of blocks. */
static uint64_t look_at(struct kilni_segment_page *to,
			const struct kilni_page_record *page)
{
	uint64_t cell = (to->bytes + KILNI_SEGMENT_CELLS - 1) /
			KILNI_SEGMENT_CELLS;
	struct brush brush = { .page = to, .cell_bytes = cell };
	const struct kilni_block *block;
	uint64_t blocks = 0;

	brush.cell_end = kilni_min_u64(cell, to->bytes);
	for (block = page->first; block; block = block->after, blocks++)
		paint_block(&brush, block);
	return blocks;
}

/* A page that there was no time for keeps what was seen of it last. */
static void leave_page(struct walk *walk, uint64_t index,
		       struct kilni_segment_page *to,
		       const struct kilni_page_record *page)
{
	if (walk->next_from == UINT64_MAX)
		walk->next_from = index;
	if (to->address == page->page.address &&
	    to->bytes == page->page.bytes &&
	    !(to->flags & KILNI_SEGMENT_UNSEEN)) {
		to->flags = KILNI_SEGMENT_OLD;
		return;
	}
	memset(to, 0, sizeof(*to));
	to->flags = KILNI_SEGMENT_UNSEEN;
}

static void visit(struct walk *walk, uint64_t index, unsigned pool,
		  const struct kilni_page_record *page)
{
	struct kilni_segment_page *to = &walk->part->page[index];
	uint64_t blocks = 0;

	if (walk->blocks) {
		memset(to, 0, sizeof(*to));
		to->address = page->page.address;
		to->bytes = page->page.bytes;
		blocks = look_at(to, page);
	} else {
		leave_page(walk, index, to, page);
	}
	to->address = page->page.address;
	to->bytes = page->page.bytes;
	to->pool = (uint16_t)pool;
	walk->blocks -= kilni_min_u64(blocks, walk->blocks);
}

/* The first pass takes the pages from walk_from on, the second the others. */
static void visit_next(struct walk *walk, uint64_t *index, unsigned pool,
		       const struct kilni_page_record *page)
{
	if (*index < KILNI_SEGMENT_PAGES &&
	    (*index >= walk->part->walk_from) == walk->first_pass)
		visit(walk, *index, pool, page);
	++*index;
}

/* The range is shown as one page, as far as memory has ever reached. */
static void visit_range(struct walk *walk, uint64_t *index, unsigned pool)
{
	const struct kilni_mapped *range = &walk->pools->range;
	struct kilni_page_record page = range->page;

	page.page.bytes = range->top - page.page.address;
	if (page.page.bytes)
		visit_next(walk, index, pool, &page);
}

static uint64_t visit_pages(struct walk *walk)
{
	const struct kilni_pools *pools = walk->pools;
	const struct kilni_page_record *page;
	uint64_t index = 0;
	unsigned i;

	for (i = 0; i < kilni_pool_count(pools); i++) {
		if (&pools->pool[i] == pools->range.pool)
			visit_range(walk, &index, i);
		for (page = pools->pool[i].pages; page; page = page->after)
			visit_next(walk, &index, i, page);
	}
	return index;
}

static void fill_pages(struct kilni_publication *part,
		       const struct kilni_pools *pools)
{
	struct walk walk = { .pools = pools, .part = part,
			     .blocks = KILNI_PUBLISH_BLOCKS,
			     .next_from = UINT64_MAX, .first_pass = true };
	uint64_t pages = visit_pages(&walk);

	walk.first_pass = false;
	(void)visit_pages(&walk);
	part->walk_from = walk.next_from == UINT64_MAX ? 0 : walk.next_from;
	part->pages = (uint32_t)kilni_min_u64(pages, KILNI_SEGMENT_PAGES);
	part->device.pages_left_out = pages - part->pages;
}

/* ---- pools and device ---- */

static void fill_pool(struct kilni_segment_pool *to,
		      const struct kilni_pools *pools,
		      const struct kilni_pool *pool)
{
	const struct kilni_mapped *range = &pools->range;

	memset(to, 0, sizeof(*to));
	to->kind = pool->kind;
	to->page_bytes = pool->odd_pages ? 0 : pool->page_bytes;
	to->max_slice_bytes = pool->slice_bytes;
	to->pages = pool->page_count;
	to->peak_pages = pool->peak_pages;
	to->allocations = pool->allocations;
	to->live_bytes = pool->live_bytes;
	to->padding_bytes = pool->used_bytes - pool->live_bytes;
	to->reserved_bytes = pool->reserved_bytes;
	to->largest_request_bytes = pool->largest_request;
	if (pool == range->pool) {
		to->pages = range->bytes >> range->shift;
		to->peak_pages = range->peak_bytes >> range->shift;
	}
}

_Static_assert((int)KILNI_POOLS_MAX <= (int)KILNI_SEGMENT_POOLS,
	       "all pools of a device have room");

static void fill_device(struct kilni_segment_device *to,
			const struct kilni_pools *pools)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };

	kilni_pools_count(pools, &usage);
	to->cap_bytes = pools->cap_bytes > INT64_MAX ? 0 : pools->cap_bytes;
	to->allocations = usage.allocations;
	to->live_bytes = usage.live_bytes;
	to->padding_bytes = usage.padding_bytes;
	to->reserved_bytes = usage.reserved_bytes;
	to->peak_live_bytes = usage.peak_live_bytes;
	to->peak_reserved_bytes = usage.peak_reserved_bytes;
	to->driver_calls = usage.driver_calls;
}

static void fill(struct kilni_publication *part, const void *from)
{
	const struct kilni_pools *pools = from;
	unsigned i;

	fill_device(&part->device, pools);
	part->pools = kilni_pool_count(pools);
	for (i = 0; i < part->pools; i++)
		fill_pool(&part->pool[i], pools, &pools->pool[i]);
	fill_pages(part, pools);
}

/* ---- when ---- */

static bool is_due(const struct kilni_publication *part)
{
	return part && kilni_now_ns() >= __atomic_load_n(&part->due_ns,
							 __ATOMIC_RELAXED);
}

void kilni_pools_publish_locked(struct kilni_pools *pools)
{
	if (is_due(pools->publication))
		kilni_segment_update(pools->publication, fill, pools);
}

void kilni_pools_publish(struct kilni_pools *pools)
{
	if (!is_due(pools->publication))
		return;
	pthread_mutex_lock(&pools->lock);
	kilni_segment_update(pools->publication, fill, pools);
	pthread_mutex_unlock(&pools->lock);
}

void kilni_pools_publish_start(struct kilni_pools *pools)
{
	struct kilni_publication *part;
	uint64_t wanted = 1;

	/* A malformed value was refused when the device was opened. */
	(void)!kilni_option_number(KILNI_OPT_POOL_PUBLISH, &wanted);
	if (!wanted)
		return;
	part = calloc(1, sizeof(*part));
	if (!part) {
		kilni_log(KILNI_LOG_WARN, "pools are not published: no memory");
		return;
	}
	snprintf(part->device.selector, sizeof(part->device.selector), "%s:%u",
		 pools->hw->driver->name, pools->hw->index);
	if (!kilni_segment_join(part)) {
		free(part);
		return;
	}
	pools->publication = part;
	kilni_pools_publish(pools);
}

void kilni_pools_publish_stop(struct kilni_pools *pools)
{
	if (!pools->publication)
		return;
	kilni_segment_leave(pools->publication);
	free(pools->publication);
	pools->publication = NULL;
}
