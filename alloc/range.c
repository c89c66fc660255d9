/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The range: addresses are reserved once, for much more than the device has,
 * and memory objects are attached where a contiguous range is needed. Slices
 * live in it by best fit. Where nothing fits, the place is taken that lacks
 * the least memory (place.c), and that memory comes
 *
 *  1. from new objects, while what is reserved stays within the limit: the
 *     peak of live bytes and one part in LIMIT_PART of it, LIMIT_MOST at most;
 *  2. from objects that lie whole in free memory which no work uses any more:
 *     they are detached there and attached here;
 *  3. from new objects beyond the limit, up to the cap.
 *
 * A call of the driver costs the same whatever an object's size, but an object
 * with one live byte in it cannot move. So the usual size of a new object is
 * one part in OBJECT_PART of what is reserved, or what is wanted if that is no
 * more than twice as much; and an object of more than twice the usual size is
 * destroyed rather than moved, which makes room for smaller ones. A program's
 * first EARLY requests get the largest objects and a larger limit: its memory
 * grows anyway, and a move would be wasted.
 */
#define LIMIT_PART 24
#define LIMIT_MOST (UINT64_C(48) << 20)
#define OBJECT_PART 96
#define OBJECT_MOST (UINT64_C(64) << 20)
#define EARLY 3000
#define EARLY_PART 10

/* So many objects at most, roughly: systems bound the number of mappings. */
#define OBJECTS_MOST 4096

/* Granules under the cap from which on mapping makes sense. */
#define LEAST_GRANULES 16

/* ---- opening and closing ---- */

static uint64_t reserve_bytes(const struct kilni_pools *pools)
{
	const struct kilni_memory_limits *limits = &pools->limits;
	uint64_t bytes = limits->map_reserve_bytes;
	uint64_t cap = kilni_min_u64(pools->cap_bytes, UINT64_MAX / 16);

	return kilni_min_u64(bytes, 8 * cap) & ~(limits->map_granularity - 1);
}

/* One hole over all addresses. */
static bool set_up(struct kilni_pools *pools, uint64_t address, uint64_t bytes)
{
	struct kilni_mapped *range = &pools->range;
	struct kilni_block *block = kilni_block_new(pools);

	range->object = calloc(bytes >> range->shift, sizeof(*range->object));
	if (!block || !range->object) {
		if (block)
			kilni_block_drop(pools, block);
		free(range->object);
		range->object = NULL;
		return false;
	}
	range->page.page.address = address;
	range->page.page.bytes = bytes;
	range->page.first = block;
	range->page.used = 1; /* never idle */
	range->top = address;
	block->address = address;
	block->size = bytes;
	block->page = &range->page;
	block->state = KILNI_BLOCK_HOLE;
	kilni_tree_insert(&range->holes, block);
	return true;
}

static bool is_worth_it(struct kilni_pools *pools)
{
	uint64_t grain = pools->limits.map_granularity;

	if (!grain)
		snprintf(pools->mapping, sizeof(pools->mapping),
			 "plain: the driver cannot map");
	else if (pools->cap_bytes / LEAST_GRANULES < grain)
		snprintf(pools->mapping, sizeof(pools->mapping),
			 "plain: the cap is less than %d times %llu",
			 LEAST_GRANULES, (unsigned long long)grain);
	else
		return true;
	return false;
}

void kilni_range_open(struct kilni_pools *pools)
{
	struct kilni_mapped *range = &pools->range;
	struct kilni_error_record before;
	uint64_t address = 0, bytes;

	if (!is_worth_it(pools))
		return;
	range->granularity = pools->limits.map_granularity;
	range->shift = (unsigned)__builtin_ctzll(range->granularity);
	range->object_max = kilni_min_u64(pools->page_bytes, OBJECT_MOST);
	range->object_max = kilni_min_u64(range->object_max,
					  pools->cap_bytes / 64);
	range->object_max = kilni_max_u64(
		range->object_max & ~(range->granularity - 1),
		range->granularity);
	bytes = reserve_bytes(pools);
	kilni_error_save(&before);
	if (kilni_memory(pools)->map_reserve(pools->hw, bytes, &address) !=
	    KILN_OK) {
		snprintf(pools->mapping, sizeof(pools->mapping),
			 "plain: %llu bytes of addresses refused: %.90s",
			 (unsigned long long)bytes, kiln_error_message());
		kilni_error_restore(&before);
		kilni_log(KILNI_LOG_WARN, "pools: %s", pools->mapping);
		return;
	}
	if (!set_up(pools, address, bytes)) {
		kilni_memory(pools)->map_unreserve(pools->hw, address, bytes);
		snprintf(pools->mapping, sizeof(pools->mapping),
			 "plain: no host memory for the map");
		kilni_log(KILNI_LOG_WARN, "pools: %s", pools->mapping);
		return;
	}
	snprintf(pools->mapping, sizeof(pools->mapping), "mapped");
	range->pool = &pools->pool[1];
}

/* Detached without regard to what lies in them: nobody uses it any more. */
static void drop_objects(struct kilni_pools *pools)
{
	struct kilni_mapped *range = &pools->range;
	uint64_t address = range->page.page.address;

	while (address < range->top) {
		struct kilni_object *object = kilni_object_at(range, address);

		if (!object) {
			address += range->granularity;
			continue;
		}
		address += object->bytes;
		pools->driver_calls++;
		pools->calls.map_detach++;
		if (kilni_memory(pools)->map_detach(pools->hw, object->address,
						    object->bytes,
						    object->memory) == KILN_OK)
			kilni_object_destroy(pools, object);
		else
			kilni_object_forget(object);
	}
}

void kilni_range_close(struct kilni_pools *pools)
{
	struct kilni_mapped *range = &pools->range;
	struct kilni_block *block = range->page.first;

	if (!range->pool)
		return;
	drop_objects(pools);
	while (block) {
		struct kilni_block *next = block->after;

		kilni_block_drop(pools, block);
		block = next;
	}
	kilni_memory(pools)->map_unreserve(pools->hw, range->page.page.address,
				     range->page.page.bytes);
	free(range->object);
	memset(range, 0, sizeof(*range));
}

/* ---- free objects ---- */

void kilni_range_touch(struct kilni_pools *pools,
		       const struct kilni_block *block)
{
	struct kilni_mapped *range = &pools->range;
	uint64_t address = block->address, end = kilni_block_end(block);

	while (address < end) {
		struct kilni_object *object = kilni_object_at(range, address);

		object->idle_since = pools->clock;
		if (kilni_uses_reserve(pools, &object->last, block->count))
			kilni_uses_merge(&object->last, block);
		else
			object->blind = true;
		address = object->address + object->bytes;
	}
}

/* The next object after address that lies whole in a free block. */
static struct kilni_object *whole_object(const struct kilni_mapped *range,
					 const struct kilni_block *block,
					 uint64_t address)
{
	struct kilni_object *object;

	while (address < kilni_block_end(block)) {
		object = kilni_object_at(range, address);
		address = object->address + object->bytes;
		if (object->address >= block->address &&
		    address <= kilni_block_end(block))
			return object;
	}
	return NULL;
}

/* A free block that may hold whole objects: the one after block in order of
 * size, or the first. */
static struct kilni_block *next_free(const struct kilni_pools *pools,
				     const struct kilni_block *block)
{
	struct kilni_block *tree = pools->range.pool->tree;

	return block ? kilni_tree_next(tree, block)
		     : kilni_tree_fit(tree, pools->range.granularity);
}

struct choice {
	struct kilni_block *block;
	struct kilni_object *object;
};

/* The largest of at most what is wanted, else the smallest that has room. */
static bool is_better(const struct kilni_object *object,
		      const struct kilni_object *than,
		      const struct kilni_lack *lack)
{
	if (object->pins || object->bytes > lack->room)
		return false;
	if (!than)
		return true;
	if (object->bytes <= lack->want)
		return than->bytes > lack->want || than->bytes < object->bytes;
	return than->bytes > lack->want && than->bytes > object->bytes;
}

static bool choose(struct kilni_pools *pools, const struct kilni_lack *lack,
		   struct choice *best)
{
	struct kilni_block *block = NULL;
	struct kilni_object *object;

	*best = (struct choice){ NULL, NULL };
	while ((block = next_free(pools, block))) {
		if (block->address < lack->high &&
		    kilni_block_end(block) > lack->low)
			continue;
		object = whole_object(&pools->range, block, block->address);
		for (; object;
		     object = whole_object(&pools->range, block,
					   object->address + object->bytes)) {
			if (is_better(object, best->object, lack) &&
			    kilni_object_done(pools, object, block))
				*best = (struct choice){ block, object };
		}
		if (best->object && best->object->bytes == lack->want)
			break;
	}
	return best->object != NULL;
}

/* Detaches what was chosen; a refusal is none of the caller's errors. */
static bool take_away(struct kilni_pools *pools, const struct choice *choice)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_object_detach(pools, choice->block, choice->object) ==
	    KILN_OK)
		return true;
	kilni_log(KILNI_LOG_WARN, "pools: %s", kiln_error_message());
	kilni_error_restore(&before);
	return false;
}

static bool choose_old(struct kilni_pools *pools, uint64_t age,
		       struct choice *choice)
{
	struct kilni_block *block = NULL;
	struct kilni_object *object;

	while ((block = next_free(pools, block))) {
		object = whole_object(&pools->range, block, block->address);
		for (; object;
		     object = whole_object(&pools->range, block,
					   object->address + object->bytes)) {
			if (object->pins ||
			    pools->clock - object->idle_since < age ||
			    !kilni_object_done(pools, object, block))
				continue;
			*choice = (struct choice){ block, object };
			return true;
		}
	}
	return false;
}

uint64_t kilni_range_return(struct kilni_pools *pools, uint64_t target,
			    uint64_t age)
{
	struct choice choice;
	uint64_t bytes = 0;

	if (!pools->range.pool)
		return 0;
	while (pools->reserved_bytes > target &&
	       choose_old(pools, age, &choice) && take_away(pools, &choice)) {
		bytes += choice.object->bytes;
		kilni_object_destroy(pools, choice.object);
	}
	return bytes;
}

/* ---- where objects come from ---- */

static uint64_t usual_object(const struct kilni_pools *pools)
{
	const struct kilni_mapped *range = &pools->range;
	uint64_t bytes = pools->reserved_bytes / OBJECT_PART;

	if (pools->clock < EARLY)
		return range->object_max;
	bytes = kilni_max_u64(bytes & ~(range->granularity - 1),
			      range->granularity);
	return kilni_min_u64(bytes, range->object_max);
}

static uint64_t limit_of(const struct kilni_pools *pools, uint64_t more)
{
	uint64_t peak = kilni_peak(pools, more), limit;

	limit = kilni_sum(peak,
			  kilni_min_u64(peak / LIMIT_PART, LIMIT_MOST));
	if (pools->clock < EARLY)
		limit = kilni_sum(limit, peak / EARLY_PART / EARLY *
						 (EARLY - pools->clock));
	return limit;
}

/* Size of a new object: the usual one, less where the limit would be passed,
 * but never less than what is wanted, or the cap leaves. */
static uint64_t new_bytes(const struct kilni_pools *pools,
			  const struct kilni_lack *lack, uint64_t limit)
{
	const struct kilni_mapped *range = &pools->range;
	uint64_t bytes = usual_object(pools), room = kilni_room(pools);
	uint64_t least = pools->reserved_bytes / OBJECTS_MOST;

	if (lack->want <= 2 * bytes)
		bytes = kilni_max_u64(bytes, kilni_min_u64(lack->want,
							   range->object_max));
	bytes = kilni_min_u64(bytes, lack->room);
	while (bytes > lack->want && bytes > least &&
	       kilni_sum(pools->reserved_bytes, bytes) > limit) {
		bytes = (bytes / 2) & ~(range->granularity - 1);
		bytes = kilni_max_u64(bytes, lack->want);
	}
	if (bytes > room && lack->want <= room)
		bytes = lack->want;
	return kilni_min_u64(bytes, room & ~(range->granularity - 1));
}

/* Growing shows that memory should not have been given back. */
static void regret(struct kilni_pools *pools, uint64_t bytes)
{
	struct kilni_mapped *range = &pools->range;

	if (!range->returned)
		return;
	bytes = kilni_min_u64(bytes, range->returned);
	range->returned -= bytes;
	kilni_regret(pools, bytes);
}

static enum kiln_status create(struct kilni_pools *pools,
			       const struct kilni_lack *lack, uint64_t limit,
			       struct kilni_object **out)
{
	enum kiln_status status;
	uint64_t bytes;

	if (lack->want > kilni_room(pools))
		kilni_idle_return(pools, pools->cap_bytes -
						 kilni_min_u64(pools->cap_bytes,
							       lack->want));
	bytes = new_bytes(pools, lack, limit);
	if (!bytes)
		return KILN_ERR_LIMIT;
	for (;;) {
		status = kilni_object_create(pools, bytes, out);
		if (status == KILN_OK)
			regret(pools, bytes);
		if (status != KILN_ERR_OUT_OF_MEMORY ||
		    bytes == pools->range.granularity)
			return status;
		bytes = kilni_align_up(bytes / 2, pools->range.granularity);
	}
}

/* An object that moves; false: there is none. */
static bool move(struct kilni_pools *pools, const struct kilni_lack *lack,
		 struct kilni_object **out)
{
	struct choice choice;

	if (!choose(pools, lack, &choice) || !take_away(pools, &choice))
		return false;
	*out = choice.object;
	return true;
}

enum kiln_status kilni_range_object(struct kilni_pools *pools,
				    const struct kilni_request *request,
				    const struct kilni_lack *lack,
				    struct kilni_object **out)
{
	uint64_t limit = limit_of(pools, request->bytes);
	uint64_t usual = usual_object(pools);
	enum kiln_status status;

	limit = kilni_min_u64(limit, pools->cap_bytes);
	if (kilni_sum(pools->reserved_bytes,
		      kilni_min_u64(lack->want, usual)) <= limit) {
		status = create(pools, lack, limit, out);
		if (status != KILN_ERR_OUT_OF_MEMORY)
			return status;
	}
	if (move(pools, lack, out)) {
		if ((*out)->bytes <= 2 * usual)
			return KILN_OK;
		kilni_object_destroy(pools, *out);
	}
	return create(pools, lack, limit, out);
}
