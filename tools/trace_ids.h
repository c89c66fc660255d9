/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TRACE_IDS_H
#define TOOLS_TRACE_IDS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What is live in a trace: a hash table from an ID to its bytes and to a slot,
 * the least number that no other live one has. All zeros to begin with.
 */

struct trace_id {
	uint64_t id, bytes;
	uint32_t slot;
	bool used;
};

struct trace_ids {
	struct trace_id *entry;  /* open addressing, linear probing */
	uint32_t capacity;       /* a power of two, or 0 */
	uint32_t count;
	uint32_t *spare;         /* slots that were given back */
	uint32_t spares;
};

enum trace_id_result {
	TRACE_ID_DONE,
	TRACE_ID_LIVE,           /* it is there already */
	TRACE_ID_LIMIT,          /* TRACE_LIVE_MAX are there */
	TRACE_ID_NO_MEMORY
};

enum trace_id_result trace_ids_add(struct trace_ids *ids, uint64_t id,
				   uint64_t bytes, uint32_t *slot);
/* false: it is not there. */
bool trace_ids_remove(struct trace_ids *ids, uint64_t id, uint64_t *bytes,
		      uint32_t *slot);
void trace_ids_free(struct trace_ids *ids);

#endif
