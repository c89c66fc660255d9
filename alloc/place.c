/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

/*
 * A place in the range for a request that fits nowhere as it is: found among
 * the spans of free blocks and holes, and filled with memory objects. What has
 * been put together so far is a live block, so that none of it moves away.
 */

/* Blocks of one span that are looked at. */
#define SPAN_MOST 64

/* ---- finding a place ---- */

struct place {
	struct kilni_block *first; /* block in which it starts */
	uint64_t address;
	uint64_t lack;             /* bytes without memory */
};

/* Whether a request may have what is in the block, or its addresses. */
static bool is_usable(struct kilni_pools *pools,
		      const struct kilni_request *request,
		      struct kilni_block *block, bool with_event)
{
	if (block->state == KILNI_BLOCK_HOLE)
		return true;
	return block->state == KILNI_BLOCK_FREE &&
	       (with_event ||
		kilni_uses_ready(pools, block, request->stream));
}

/* Bytes that lack memory where size bytes start at address in block, which is
 * followed by usable blocks up to end; UINT64_MAX: it does not fit. */
static uint64_t lack_at(const struct kilni_mapped *range,
			const struct kilni_block *block, uint64_t address,
			uint64_t size, uint64_t end)
{
	uint64_t stop = address + size, lack = 0;

	if (stop > end || stop < address)
		return UINT64_MAX;
	for (; block && block->address < stop; block = block->after) {
		uint64_t low = kilni_max_u64(address, block->address);
		uint64_t high = kilni_min_u64(stop, kilni_block_end(block));

		if (block->state == KILNI_BLOCK_HOLE)
			lack += kilni_align_up(high - low, range->granularity);
	}
	return lack;
}

static void consider(const struct kilni_mapped *range,
		     struct kilni_block *block, uint64_t address,
		     uint64_t size, uint64_t end, struct place *best)
{
	uint64_t lack = lack_at(range, block, address, size, end);

	if (lack == UINT64_MAX)
		return;
	if (best->first && (lack > best->lack || (lack == best->lack &&
						  address > best->address)))
		return;
	*best = (struct place){ block, address, lack };
}

/* The places in one span of usable blocks: at the start of each, or in a hole
 * so that the end is that of the free block behind it. */
static void consider_span(const struct kilni_mapped *range,
			  struct kilni_block *first, uint64_t end,
			  uint64_t size, struct place *best)
{
	struct kilni_block *block = first;
	unsigned i;

	for (i = 0; i < SPAN_MOST && block && block->address < end; i++) {
		struct kilni_block *next = block->after;

		consider(range, block, block->address, size, end, best);
		if (block->state == KILNI_BLOCK_HOLE && next &&
		    next->address < end && next->size < size &&
		    kilni_block_end(next) - size > block->address)
			consider(range, block,
				 (kilni_block_end(next) - size) &
					 ~(range->granularity - 1),
				 size, end, best);
		block = next;
	}
}

static bool find_place(struct kilni_pools *pools,
		       const struct kilni_request *request, bool with_event,
		       struct place *best)
{
	const struct kilni_mapped *range = &pools->range;
	struct kilni_block *hole = kilni_tree_fit(range->holes, 0);

	*best = (struct place){ NULL, 0, UINT64_MAX };
	for (; hole; hole = kilni_tree_next(range->holes, hole)) {
		struct kilni_block *first = hole, *last = hole;
		unsigned left = SPAN_MOST, right = SPAN_MOST;

		while (left-- && first->before &&
		       is_usable(pools, request, first->before, with_event))
			first = first->before;
		while (right-- && last->after &&
		       is_usable(pools, request, last->after, with_event))
			last = last->after;
		consider_span(range, first, kilni_block_end(last),
			      request->size, best);
	}
	return best->first != NULL;
}

/* ---- filling it ---- */

/* Makes free a live block that is not counted yet. */
static void let_go(struct kilni_pools *pools, struct kilni_block *block)
{
	block->state = KILNI_BLOCK_FREE;
	kilni_block_settle(pools, block);
}

/* Cuts a live block that is not counted yet down to size; false: no host
 * memory, and it is free now. */
static bool trim(struct kilni_pools *pools, struct kilni_block *block,
		 uint64_t size)
{
	struct kilni_block **root;
	bool whole;

	if (block->size <= size)
		return true;
	block->state = KILNI_BLOCK_FREE;
	root = kilni_block_root(block);
	kilni_tree_insert(root, block);
	whole = !kilni_block_split(pools, block, size);
	if (whole) {
		kilni_tree_remove(root, block);
		kilni_block_settle(pools, block);
		return false;
	}
	block->state = KILNI_BLOCK_LIVE;
	kilni_tree_remove(root, block->after);
	kilni_block_settle(pools, block->after);
	return true;
}

/* A request that is being put together. */
struct growth {
	struct kilni_pools *pools;
	struct kilni_request *request;
	struct kilni_block *target; /* what it has so far, live, or NULL */
	uint64_t address;          /* where it goes on */
	uint64_t end;
};

static enum kiln_status no_memory(void)
{
	return kilni_fail(KILN_ERR_NO_MEMORY, 0,
			  "pools: no memory for a slice's record");
}

/* Makes a live block that follows the target a part of it. */
static enum kiln_status add(struct growth *growth, struct kilni_block *block)
{
	struct kilni_pools *pools = growth->pools;

	if (!growth->target) {
		growth->target = block;
		pools->range.page.used++;
	} else if (!kilni_block_join(pools, growth->target)) {
		let_go(pools, block);
		return no_memory();
	}
	growth->address = kilni_block_end(growth->target);
	return KILN_OK;
}

static enum kiln_status add_free(struct growth *growth,
				 struct kilni_block *block)
{
	uint64_t missing = growth->end - growth->address;
	struct kilni_pools *pools = growth->pools;
	void *stream = growth->request->stream;

	if (!kilni_uses_ready(pools, block, stream))
		KILNI_TRY(kilni_uses_order(pools, block, stream));
	if (block->size <= missing)
		kilni_tree_remove(kilni_block_root(block), block);
	else if (!kilni_block_split(pools, block, missing))
		return no_memory();
	block->state = KILNI_BLOCK_LIVE;
	return add(growth, block);
}

static struct kilni_block *hole_at(const struct kilni_mapped *range,
				   uint64_t address)
{
	struct kilni_block *hole = kilni_tree_fit(range->holes, 0);

	while (hole && (hole->address > address ||
			kilni_block_end(hole) <= address))
		hole = kilni_tree_next(range->holes, hole);
	return hole;
}

static enum kiln_status add_hole(struct growth *growth,
				 struct kilni_block *hole)
{
	struct kilni_pools *pools = growth->pools;
	uint64_t missing = growth->end - growth->address;
	struct kilni_lack lack = {
		.room = kilni_block_end(hole) - growth->address,
		.low = growth->address,
		.high = growth->end,
	};
	struct kilni_object *object = NULL;
	struct kilni_block *block;
	enum kiln_status status;

	lack.want = kilni_align_up(missing, pools->range.granularity);
	lack.want = kilni_min_u64(lack.want, lack.room);
	KILNI_TRY(kilni_range_object(pools, growth->request, &lack, &object));
	/* A move nearby may have made another block of the hole. */
	hole = hole_at(&pools->range, growth->address);
	status = kilni_object_attach(pools, hole, growth->address, object,
				     &block);
	if (status != KILN_OK) {
		kilni_object_destroy(pools, object);
		return status;
	}
	return trim(pools, block, missing) ? add(growth, block) : no_memory();
}

static enum kiln_status fill(struct growth *growth, struct kilni_block *next)
{
	while (growth->address < growth->end) {
		KILNI_TRY(next->state == KILNI_BLOCK_FREE
				  ? add_free(growth, next)
				  : add_hole(growth, next));
		next = growth->target->after;
	}
	return KILN_OK;
}

struct kilni_block *kilni_range_grow(struct kilni_pools *pools,
				     struct kilni_request *request,
				     bool with_event)
{
	struct growth growth = { .pools = pools, .request = request };
	struct kilni_error_record before;
	enum kiln_status status;
	struct place place;

	if (!find_place(pools, request, with_event, &place)) {
		request->refusal = KILN_ERR_OUT_OF_MEMORY;
		return NULL;
	}
	kilni_error_save(&before);
	growth.address = place.address;
	growth.end = place.address + request->size;
	status = fill(&growth, place.first);
	if (status == KILN_OK) {
		growth.target->behind = request->stream;
		return growth.target;
	}
	if (growth.target)
		kilni_block_release(pools, growth.target);
	/* Where no event can be had the refusal before stands. */
	if (with_event && status == KILN_ERR_BUSY) {
		kilni_error_restore(&before);
		return NULL;
	}
	request->refusal = status;
	if (status == KILN_ERR_OUT_OF_MEMORY) {
		request->native = kiln_error_native();
		kilni_error_restore(&before);
	}
	return NULL;
}
