/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_NULL_H
#define KILNI_NULL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "drivers/null/target.h"

/*
 * The null driver: memory is counted, not held; kernels do nothing. It is the
 * template for a new driver; see README.md.
 */

/* Calls of the memory table, refused ones included. */
struct kilni_null_calls {
	uint64_t page_alloc, page_free, map_reserve, map_unreserve;
	uint64_t map_create, map_destroy, map_attach, map_detach;
};

struct kilni_null_hw {
	struct kilni_hw base;
	const struct kilni_null_target *target; /* whose rules it follows */
	pthread_mutex_t lock;  /* of what follows and of all queues' fields */
	pthread_cond_t moved;  /* a queue has completed an entry or is idle */
	uint64_t next_address;
	uint64_t taken_bytes;
	uint64_t next_memory;  /* names of memory objects */
	uint64_t attached_bytes;
	struct kilni_null_calls calls;
};

extern const struct kilni_memory_ops kilni_null_memory_ops;
extern const struct kilni_queue_ops kilni_null_queue_ops;

/* What a read gives, in every byte; 0 unless a test has changed it. */
extern unsigned char kilni_null_fill;

#endif
