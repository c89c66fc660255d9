/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_ids.h"

#include <stdlib.h>

#include "tools/trace.h"

#define FIRST_CAPACITY 1024u

/* Bits of the ID that spread over the table, whatever wrote the trace. */
static uint32_t home_of(const struct trace_ids *ids, uint64_t id)
{
	id ^= id >> 33;
	id *= UINT64_C(0x9e3779b97f4a7c15);
	id ^= id >> 29;
	return (uint32_t)id & (ids->capacity - 1);
}

/* Where the ID is, or the free place where it would be. */
static uint32_t place_of(const struct trace_ids *ids, uint64_t id)
{
	uint32_t at = home_of(ids, id);

	while (ids->entry[at].used && ids->entry[at].id != id)
		at = (at + 1) & (ids->capacity - 1);
	return at;
}

/* Slots are kept in as many places as the table could come to need. */
static bool resize(struct trace_ids *ids, uint32_t capacity)
{
	struct trace_ids grown = { .capacity = capacity,
				   .count = ids->count,
				   .spares = ids->spares };

	grown.spare = realloc(ids->spare, capacity * sizeof(*grown.spare));
	if (!grown.spare)
		return false;
	ids->spare = grown.spare;
	grown.entry = calloc(capacity, sizeof(*grown.entry));
	if (!grown.entry)
		return false;
	for (uint32_t i = 0; i < ids->capacity; i++)
		if (ids->entry[i].used)
			grown.entry[place_of(&grown, ids->entry[i].id)] =
				ids->entry[i];
	free(ids->entry);
	*ids = grown;
	return true;
}

static bool make_room(struct trace_ids *ids)
{
	if (ids->count < ids->capacity / 2)
		return true;
	return resize(ids, ids->capacity ? 2 * ids->capacity : FIRST_CAPACITY);
}

enum trace_id_result trace_ids_add(struct trace_ids *ids, uint64_t id,
				   uint64_t bytes, uint32_t *slot)
{
	struct trace_id *entry;

	if (ids->count == TRACE_LIVE_MAX)
		return TRACE_ID_LIMIT;
	if (!make_room(ids))
		return TRACE_ID_NO_MEMORY;
	entry = &ids->entry[place_of(ids, id)];
	if (entry->used)
		return TRACE_ID_LIVE;
	*slot = ids->spares ? ids->spare[--ids->spares] : ids->count;
	*entry = (struct trace_id){ id, bytes, *slot, true };
	ids->count++;
	return TRACE_ID_DONE;
}

/* Moves those behind a hole that could not be found across it. */
static void close_hole(struct trace_ids *ids, uint32_t hole)
{
	uint32_t mask = ids->capacity - 1, at = hole;

	for (;;) {
		uint32_t home;

		at = (at + 1) & mask;
		if (!ids->entry[at].used)
			break;
		home = home_of(ids, ids->entry[at].id);
		/* It may stay where its home lies behind the hole. */
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		ids->entry[hole] = ids->entry[at];
		hole = at;
	}
	ids->entry[hole].used = false;
}

bool trace_ids_remove(struct trace_ids *ids, uint64_t id, uint64_t *bytes,
		      uint32_t *slot)
{
	uint32_t at;

	if (!ids->capacity)
		return false;
	at = place_of(ids, id);
	if (!ids->entry[at].used)
		return false;
	*bytes = ids->entry[at].bytes;
	*slot = ids->entry[at].slot;
	ids->spare[ids->spares++] = *slot;
	ids->count--;
	close_hole(ids, at);
	return true;
}

void trace_ids_free(struct trace_ids *ids)
{
	free(ids->entry);
	free(ids->spare);
}
