/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <stdlib.h>

#include "base/poison.h"

/*
 * Memory objects: created, attached to the range, detached, destroyed. What
 * needs host memory comes before the driver's call, so that a refusal leaves
 * everything as it was.
 */

struct kilni_object *kilni_object_at(const struct kilni_mapped *range,
				     uint64_t address)
{
	return range->object[(address - range->page.page.address) >>
			     range->shift];
}

enum kiln_status kilni_object_create(struct kilni_pools *pools, uint64_t bytes,
				     struct kilni_object **out)
{
	struct kilni_object *object = calloc(1, sizeof(*object));
	enum kiln_status status;
	uint64_t begin_ns;

	if (!object)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "pools: no memory for an object's record");
	pools->driver_calls++;
	pools->calls.map_create++;
	begin_ns = kilni_trace_begin();
	status = kilni_memory(pools)->map_create(pools->hw, bytes,
						 &object->memory);
	if (status == KILN_OK)
		pools->reserved_bytes += bytes;
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_MAP_CREATE, bytes,
			       begin_ns, status);
	if (status != KILN_OK) {
		free(object);
		return status;
	}
	object->bytes = bytes;
	object->idle_since = pools->clock;
	object->last.uses = object->last.near;
	object->last.capacity = KILNI_USES_INLINE;
	object->last.behind = &object->last;
	pools->peak_reserved = kilni_max_u64(pools->peak_reserved,
					     pools->reserved_bytes);
	*out = object;
	return KILN_OK;
}

void kilni_object_destroy(struct kilni_pools *pools,
			  struct kilni_object *object)
{
	uint64_t begin_ns = kilni_trace_begin();

	pools->driver_calls++;
	pools->calls.map_destroy++;
	pools->reserved_bytes -= object->bytes;
	kilni_memory(pools)->map_destroy(pools->hw, object->memory,
					 object->bytes);
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_MAP_DESTROY,
			       object->bytes, begin_ns, KILN_OK);
	kilni_object_forget(object);
}

void kilni_object_forget(struct kilni_object *object)
{
	if (object->last.uses != object->last.near)
		free(object->last.uses);
	free(object);
}

bool kilni_object_done(struct kilni_pools *pools, struct kilni_object *object,
		       struct kilni_block *block)
{
	if (object->blind) {
		if (!kilni_uses_done(pools, block))
			return false;
		object->blind = false;
	}
	return kilni_uses_done(pools, &object->last);
}

/* ---- cutting ---- */

/* Two blocks that cutting may need. */
struct spares {
	struct kilni_block *block[2];
};

static void spares_drop(struct kilni_pools *pools, struct spares *spares)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		if (spares->block[i])
			kilni_block_drop(pools, spares->block[i]);
}

/* Each with room for so many uses. */
static bool spares_get(struct kilni_pools *pools, struct spares *spares,
		       uint32_t uses)
{
	bool some = true;
	unsigned i;

	for (i = 0; i < 2; i++) {
		spares->block[i] = kilni_block_new(pools);
		some = some && spares->block[i] &&
		       kilni_uses_reserve(pools, spares->block[i], uses);
	}
	if (some)
		return true;
	spares_drop(pools, spares);
	(void)!kilni_fail(KILN_ERR_NO_MEMORY, 0,
			  "pools: no memory for a block's record");
	return false;
}

/* Cuts a block in two at address; the second one. */
static struct kilni_block *cut(struct kilni_block *block, uint64_t address,
			       struct kilni_block **spare)
{
	struct kilni_block *rest = *spare;

	*spare = NULL;
	kilni_block_cut(block, address - block->address, rest);
	return rest;
}

/*
 * The part of block that object covers, out of every tree; what is left of
 * block before and after it goes back to its tree.
 */
static struct kilni_block *cut_out(struct kilni_block **root,
				   struct kilni_block *block, uint64_t address,
				   uint64_t bytes, struct spares *spares)
{
	uint64_t end = block->address + block->size;

	kilni_tree_remove(root, block);
	if (block->address < address) {
		struct kilni_block *middle = cut(block, address,
						 &spares->block[0]);

		kilni_tree_insert(root, block);
		block = middle;
	}
	if (address + bytes < end)
		kilni_tree_insert(root, cut(block, address + bytes,
					    &spares->block[1]));
	return block;
}

static void set_objects(struct kilni_mapped *range, uint64_t address,
			uint64_t bytes, struct kilni_object *object)
{
	uint64_t i = (address - range->page.page.address) >> range->shift;
	uint64_t end = i + (bytes >> range->shift);

	for (; i < end; i++)
		range->object[i] = object;
}

/* ---- attaching ---- */

enum kiln_status kilni_object_attach(struct kilni_pools *pools,
				     struct kilni_block *hole, uint64_t address,
				     struct kilni_object *object,
				     struct kilni_block **out)
{
	struct kilni_mapped *range = &pools->range;
	struct kilni_block *block;
	struct spares spares;
	enum kiln_status status;
	uint64_t begin_ns;

	if (!spares_get(pools, &spares, 0))
		return KILN_ERR_NO_MEMORY;
	pools->driver_calls++;
	pools->calls.map_attach++;
	begin_ns = kilni_trace_begin();
	status = kilni_memory(pools)->map_attach(pools->hw, address,
						 object->bytes, object->memory);
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_MAP_ATTACH,
			       object->bytes, begin_ns, status);
	if (status != KILN_OK) {
		spares_drop(pools, &spares);
		return status;
	}
	block = cut_out(&range->holes, hole, address, object->bytes, &spares);
	spares_drop(pools, &spares);
	block->state = KILNI_BLOCK_LIVE;
	object->address = address;
	set_objects(range, address, object->bytes, object);
	range->pool->reserved_bytes += object->bytes;
	range->objects++;
	range->bytes += object->bytes;
	range->peak_bytes = kilni_max_u64(range->peak_bytes, range->bytes);
	range->top = kilni_max_u64(range->top, address + object->bytes);
	if (KILNI_POISON && pools->limits.host_visible)
		kilni_poison(address, object->bytes);
	*out = block;
	return KILN_OK;
}

/* ---- detaching ---- */

/* Joins neighbouring holes; holes have no uses, so it cannot fail. */
static void settle_hole(struct kilni_pools *pools, struct kilni_block *block)
{
	struct kilni_block **root = &pools->range.holes;
	struct kilni_block *before = block->before, *after = block->after;

	if (after && after->state == KILNI_BLOCK_HOLE) {
		kilni_tree_remove(root, after);
		(void)kilni_block_join(pools, block);
	}
	if (before && before->state == KILNI_BLOCK_HOLE) {
		kilni_tree_remove(root, before);
		(void)kilni_block_join(pools, before);
		block = before;
	}
	kilni_tree_insert(root, block);
}

enum kiln_status kilni_object_detach(struct kilni_pools *pools,
				     struct kilni_block *block,
				     struct kilni_object *object)
{
	struct kilni_mapped *range = &pools->range;
	struct spares spares;
	enum kiln_status status;
	uint64_t begin_ns;

	if (!spares_get(pools, &spares, block->count))
		return KILN_ERR_NO_MEMORY;
	pools->driver_calls++;
	pools->calls.map_detach++;
	begin_ns = kilni_trace_begin();
	status = kilni_memory(pools)->map_detach(pools->hw, object->address,
						 object->bytes, object->memory);
	kilni_pools_trace_call(pools, KILNI_TRACE_CALL_MAP_DETACH,
			       object->bytes, begin_ns, status);
	if (status != KILN_OK) {
		spares_drop(pools, &spares);
		return status;
	}
	block = cut_out(kilni_block_root(block), block, object->address,
			object->bytes, &spares);
	spares_drop(pools, &spares);
	block->state = KILNI_BLOCK_HOLE;
	block->count = 0;
	block->behind = block;
	block->stale = false;
	settle_hole(pools, block);
	set_objects(range, object->address, object->bytes, NULL);
	range->pool->reserved_bytes -= object->bytes;
	range->objects--;
	range->bytes -= object->bytes;
	if (KILNI_POISON && pools->limits.host_visible)
		kilni_unpoison(object->address, object->bytes);
	return KILN_OK;
}
