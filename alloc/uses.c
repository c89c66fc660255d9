/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/fast.h"

#include <stdlib.h>
#include <string.h>

static bool grow(struct kilni_block *block, uint64_t needed)
{
	bool inside = block->uses == block->near;
	struct kilni_use *uses;

	if (needed > UINT16_MAX / 2)
		return false;
	uses = realloc(inside ? NULL : block->uses,
		       2 * needed * sizeof(*uses));
	if (!uses)
		return false;
	if (inside)
		memcpy(uses, block->near, block->count * sizeof(*uses));
	block->uses = uses;
	block->capacity = (uint16_t)(2 * needed);
	return true;
}

bool kilni_uses_reserve(struct kilni_pools *pools, struct kilni_block *block,
			uint64_t count)
{
	if (KILNI_LIKELY(block->count + count <= block->capacity))
		return true;
	kilni_uses_done(pools, block);
	if (block->count + count <= block->capacity)
		return true;
	return grow(block, block->count + count);
}

struct kilni_head *kilni_head_open(struct kilni_pools *pools,
				   struct kilni_block *block, unsigned pool,
				   unsigned slot, unsigned state)
{
	struct kilni_head *head = kilni_head_of(block);

	head->address = block->address;
	head->size = block->size;
	head->slot = (uint16_t)slot;
	head->pool = (uint8_t)pool;
	kilni_head_set_bytes(head, block->size);
	/* So that there is a place for what it notes. */
	if (!kilni_uses_reserve(pools, block, 1))
		state |= KILNI_HEAD_FULL;
	kilni_head_set(head, state);
	return head;
}

void kilni_head_settle(struct kilni_block *block)
{
	struct kilni_head *head = kilni_head_of(block);
	const struct kilni_use use = { block->behind, head->seq };

	if (!(head->state & KILNI_HEAD_USED))
		return;
	kilni_head_set(head, head->state & ~(unsigned)KILNI_HEAD_USED);
	kilni_uses_record(block, &use, 1);
}

static void add(struct kilni_block *block, const struct kilni_use *use)
{
	uint32_t i;

	for (i = 0; i < block->count; i++) {
		if (block->uses[i].stream != use->stream)
			continue;
		block->uses[i].seq = kilni_max_u64(block->uses[i].seq,
						   use->seq);
		return;
	}
	block->uses[block->count++] = *use;
}

void kilni_uses_record(struct kilni_block *block, const struct kilni_use *uses,
		       size_t count)
{
	void *behind = block->behind;
	size_t i;

	if (!count)
		return;
	if (!block->count)
		behind = uses[0].stream;
	for (i = 0; i < count; i++) {
		if (uses[i].stream != behind)
			behind = block;
		add(block, &uses[i]);
	}
	block->behind = behind;
}

void kilni_uses_merge(struct kilni_block *block,
		      const struct kilni_block *other)
{
	uint32_t i;

	if (!other->count)
		return;
	if (!block->count)
		block->behind = other->behind == other ? block
						       : other->behind;
	else if (block->behind != other->behind)
		block->behind = block;
	for (i = 0; i < other->count; i++)
		add(block, &other->uses[i]);
}

bool kilni_uses_done(struct kilni_pools *pools, struct kilni_block *block)
{
	uint32_t i = 0;

	while (i < block->count) {
		const struct kilni_use *use = &block->uses[i];

		if (pools->streams->done(use->stream, use->seq))
			block->uses[i] = block->uses[--block->count];
		else
			i++;
	}
	return !block->count;
}

bool kilni_uses_ready(struct kilni_pools *pools, struct kilni_block *block,
		      const void *stream)
{
	uint32_t i;

	if (!block->count || block->behind == stream)
		return true;
	kilni_uses_done(pools, block);
	for (i = 0; i < block->count; i++)
		if (block->uses[i].stream != stream)
			return false;
	return true;
}

enum kiln_status kilni_uses_order(struct kilni_pools *pools,
				  struct kilni_block *block, void *stream)
{
	uint32_t i;

	for (i = 0; i < block->count; i++)
		if (block->uses[i].stream != stream)
			KILNI_TRY(pools->streams->order(stream,
							&block->uses[i]));
	return KILN_OK;
}
