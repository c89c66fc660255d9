/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_SPARE_H
#define KILNI_LIB_SPARE_H

/*
 * Records of handles that a thread has released and will soon need again. The
 * system's allocator is as fast only for the few that its own cache of a
 * thread holds, which a forward pass exceeds.
 */

#include <stddef.h>
#include <stdlib.h>

#include "base/base.h"

enum kilni_spare_kind {
	KILNI_SPARE_TENSOR,
	KILNI_SPARE_STORAGE,
	KILNI_SPARE_BUFFER,
	KILNI_SPARE_KINDS
};

struct kilni_spares {
	void *first;
	unsigned count, limit;     /* 0: not yet, or no longer */
};

extern _Thread_local struct kilni_spares kilni_spares[KILNI_SPARE_KINDS]
	__attribute__((tls_model("initial-exec")));

/* Where there is no room: frees the record, or makes room. */
void kilni_spare_overflow(enum kilni_spare_kind kind, void *record);

/* The first two words stay as they are: they tell that a handle is gone. */
static inline void **kilni_spare_next(void *record)
{
	return (void **)record + 2;
}

/* A record of that size, the same for each of its kind; NULL: no memory. */
static inline void *kilni_spare_get(enum kilni_spare_kind kind, size_t size)
{
	struct kilni_spares *spares = &kilni_spares[kind];
	void *record = spares->first;

	if (KILNI_UNLIKELY(!record))
		return malloc(size);
	spares->first = *kilni_spare_next(record);
	spares->count--;
	return record;
}

static inline void kilni_spare_put(enum kilni_spare_kind kind, void *record)
{
	struct kilni_spares *spares = &kilni_spares[kind];

	if (KILNI_UNLIKELY(spares->count >= spares->limit)) {
		kilni_spare_overflow(kind, record);
		return;
	}
	*kilni_spare_next(record) = spares->first;
	spares->first = record;
	spares->count++;
}

#endif
