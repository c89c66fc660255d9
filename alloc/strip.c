/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/publish.h"

#include <string.h>

#include "alloc/fast.h"

/* The mapped range is shown as at most so many pages of equal size. */
#define WINDOWS 32
#define LEAST_WINDOW (UINT64_C(64) << 20)

/* What bytes are to a reader. */
enum share { LIVE, PADDING, UNMAPPED, SHARES, CACHED = SHARES };

/* Goes once over a page, or over the range, in order of address. */
struct brush {
	struct kilni_segment_page *page; /* painted now */
	uint64_t at;               /* offset in it */
	uint64_t cell_bytes;
	uint64_t cell_end;
	uint64_t sum[SHARES];      /* of this cell */
	struct kilni_segment_page *hole_page; /* where the hole begins, */
	uint64_t hole_address;     /* whose end has not been seen */
	uint64_t hole_bytes;       /* 0: there is none */
};

/* One snapshot of a device's pages. */
struct walk {
	const struct kilni_pools *pools;
	struct kilni_publication *part;
	uint64_t used;             /* pages of the part */
	uint64_t left_out;
	uint64_t blocks;           /* that may still be looked at */
	uint64_t next_from;        /* UINT64_MAX: all have been seen */
	bool first_pass;
};

/* ---- cells ---- */

static void begin_page(struct brush *brush, struct kilni_segment_page *page,
		       uint64_t address, uint64_t bytes, unsigned pool)
{
	memset(page, 0, sizeof(*page));
	page->address = address;
	page->bytes = bytes;
	page->pool = (uint16_t)pool;
	brush->page = page;
	brush->at = 0;
	brush->cell_bytes = (bytes + KILNI_SEGMENT_CELLS - 1) /
			    KILNI_SEGMENT_CELLS;
	brush->cell_end = kilni_min_u64(brush->cell_bytes, bytes);
	memset(brush->sum, 0, sizeof(brush->sum));
}

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
	uint64_t bytes = brush->cell_end - page->cells * brush->cell_bytes;

	cell->live = part_of(brush->sum[LIVE], bytes);
	cell->padding = part_of(brush->sum[PADDING], bytes);
	cell->unmapped = part_of(brush->sum[UNMAPPED], bytes);
	memset(brush->sum, 0, sizeof(brush->sum));
	page->cells++;
	brush->cell_end = kilni_min_u64(brush->cell_end + brush->cell_bytes,
					page->bytes);
}

/* A hole may go on in the next window: it belongs where it begins. */
static void note_hole(struct brush *brush, uint64_t bytes)
{
	struct kilni_segment_page *page;

	if (!brush->hole_bytes) {
		brush->hole_page = brush->page;
		brush->hole_address = brush->page->address + brush->at;
	}
	brush->hole_bytes += bytes;
	page = brush->hole_page;
	if (brush->hole_bytes <= page->hole_bytes)
		return;
	page->hole_bytes = brush->hole_bytes;
	page->hole_address = brush->hole_address;
}

static void paint(struct brush *brush, enum share share, uint64_t bytes)
{
	if (share != CACHED && bytes)
		brush->hole_bytes = 0;
	else if (bytes)
		note_hole(brush, bytes);
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
}

/* One reading of what the streams change: the picture must hold together. */
static unsigned state_of(const struct kilni_block *block,
			 const struct kilni_head *head)
{
	if (block->state != KILNI_BLOCK_LIVE ||
	    kilni_head_state(head) & KILNI_HEAD_LIVE)
		return block->state;
	return KILNI_BLOCK_FREE;
}

/* Bytes from..from + bytes of a block. */
static void paint_block(struct brush *brush, const struct kilni_block *block,
			uint64_t from, uint64_t bytes)
{
	const struct kilni_head *head = kilni_head_of(block);
	struct kilni_segment_page *page = brush->page;
	uint64_t live;

	switch (state_of(block, head)) {
	case KILNI_BLOCK_LIVE:
		live = kilni_head_bytes(head);
		live = live > from ? kilni_min_u64(live - from, bytes) : 0;
		page->slices += !from;
		page->live_bytes += live;
		page->padding_bytes += bytes - live;
		paint(brush, LIVE, live);
		paint(brush, PADDING, bytes - live);
		break;
	case KILNI_BLOCK_HOLE:
	case KILNI_BLOCK_PAGE: /* shown by itself */
		page->unmapped_bytes += bytes;
		paint(brush, UNMAPPED, bytes);
		break;
	default:
		paint(brush, CACHED, bytes);
	}
}

/* ---- the mapped range ---- */

/* A place for one more page; NULL: there is no room. */
static struct kilni_segment_page *next_place(struct walk *walk)
{
	if (walk->used < KILNI_SEGMENT_PAGES)
		return &walk->part->page[walk->used++];
	walk->left_out++;
	return NULL;
}

/* Window by window; those in which there is no memory are left out. */
static void paint_window(struct brush *brush, const struct kilni_block **at,
			 uint64_t *from, uint64_t *blocks)
{
	uint64_t left = brush->page->bytes;

	while (left && *at && *blocks) {
		uint64_t bytes = kilni_min_u64((*at)->size - *from, left);

		paint_block(brush, *at, *from, bytes);
		left -= bytes;
		*from += bytes;
		if (*from < (*at)->size)
			break;
		*at = (*at)->after;
		*from = 0;
		--*blocks;
	}
	/* The rest has not been seen, so nothing is known of the whole. */
	if (left && brush->at < brush->page->bytes) {
		begin_page(brush, brush->page, brush->page->address,
			   brush->page->bytes, brush->page->pool);
		brush->page->flags = KILNI_SEGMENT_UNSEEN;
	}
}

static void visit_range(struct walk *walk)
{
	const struct kilni_mapped *range = &walk->pools->range;
	uint64_t address = range->page.page.address, from = 0;
	uint64_t window = LEAST_WINDOW, blocks = KILNI_PUBLISH_BLOCKS;
	const struct kilni_block *at = range->page.first;
	struct brush brush = { .page = NULL };
	struct kilni_segment_page *page;

	if (!range->pool)
		return;
	while ((range->top - address) / window > WINDOWS)
		window *= 2;
	while (address < range->top && (page = next_place(walk))) {
		begin_page(&brush, page, address,
			   kilni_min_u64(window, range->top - address),
			   (unsigned)(range->pool - walk->pools->pool));
		paint_window(&brush, &at, &from, &blocks);
		address += page->bytes;
		if (page->unmapped_bytes == page->bytes)
			walk->used--;
	}
}

/* ---- pages ---- */

/* Returns the number of blocks. */
static uint64_t look_at(struct kilni_segment_page *to, unsigned pool,
			const struct kilni_page_record *page)
{
	struct brush brush = { .page = NULL };
	const struct kilni_block *block;
	uint64_t blocks = 0;

	begin_page(&brush, to, page->page.address, page->page.bytes, pool);
	for (block = page->first; block; block = block->after, blocks++)
		paint_block(&brush, block, 0, block->size);
	return blocks;
}

/* A page that there was no time for keeps what was seen of it last. */
static void leave_page(struct walk *walk, uint64_t index, unsigned pool,
		       const struct kilni_page_record *page)
{
	struct kilni_segment_page *to = &walk->part->page[index];
	struct brush brush = { .page = NULL };

	if (walk->next_from == UINT64_MAX)
		walk->next_from = index;
	if (to->address == page->page.address && to->pool == pool &&
	    to->bytes == page->page.bytes &&
	    !(to->flags & KILNI_SEGMENT_UNSEEN)) {
		to->flags = KILNI_SEGMENT_OLD;
		return;
	}
	begin_page(&brush, to, page->page.address, page->page.bytes, pool);
	to->flags = KILNI_SEGMENT_UNSEEN;
}

static void visit(struct walk *walk, uint64_t index, unsigned pool,
		  const struct kilni_page_record *page)
{
	uint64_t blocks;

	if (!walk->blocks) {
		leave_page(walk, index, pool, page);
		return;
	}
	blocks = look_at(&walk->part->page[index], pool, page);
	walk->blocks -= kilni_min_u64(blocks, walk->blocks);
}

/*
 * The first pass takes the pages from walk_from on, the second the others.
 * Returns how many there are, those that came before included.
 */
static uint64_t visit_pages(struct walk *walk)
{
	const struct kilni_pools *pools = walk->pools;
	const struct kilni_page_record *page;
	uint64_t index = walk->used;
	unsigned i;

	for (i = 0; i < kilni_pool_count(pools); i++)
		for (page = pools->pool[i].pages; page; page = page->after) {
			if (index < KILNI_SEGMENT_PAGES &&
			    (index >= walk->part->walk_from) ==
				    walk->first_pass)
				visit(walk, index, i, page);
			index++;
		}
	return index;
}

void kilni_publish_pages(struct kilni_publication *part,
			 const struct kilni_pools *pools)
{
	struct walk walk = { .pools = pools, .part = part,
			     .blocks = KILNI_PUBLISH_BLOCKS,
			     .next_from = UINT64_MAX, .first_pass = true };
	uint64_t pages;

	visit_range(&walk);
	pages = visit_pages(&walk);
	walk.first_pass = false;
	(void)visit_pages(&walk);
	part->walk_from = walk.next_from == UINT64_MAX ? 0 : walk.next_from;
	part->pages = (uint32_t)kilni_min_u64(pages, KILNI_SEGMENT_PAGES);
	part->device.pages_left_out = pages - part->pages + walk.left_out;
}
