/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_PUBLISH_H
#define KILNI_PUBLISH_H

#include "base/segment.h"

/*
 * What a device's pools show to other processes. The pools are walked under
 * their lock into a part of this process's own memory, and the parts of all
 * devices are copied into the segment's older snapshot.
 *
 * Walking and copying take about one part in KILNI_PUBLISH_SHARE of a thread's
 * time: the next snapshot waits that many times the last one's cost, but no
 * longer than KILNI_PUBLISH_LONGEST_NS. No more than KILNI_PUBLISH_BLOCKS
 * blocks are looked at for one snapshot; what had to be left out comes first
 * in the next one.
 */
#define KILNI_PUBLISH_SHARE 1000
#define KILNI_PUBLISH_LONGEST_NS UINT64_C(1000000000)
#define KILNI_PUBLISH_BLOCKS 16384

struct kilni_hw;
struct kilni_pools;

/* One device's part. */
struct kilni_publication {
	struct kilni_publication *next; /* the process's others */
	uint64_t due_ns;                /* atomic: not before */
	uint64_t walk_from;             /* page to begin with */
	uint32_t pools, pages;
	struct kilni_segment_device device;
	struct kilni_segment_pool pool[KILNI_SEGMENT_POOLS];
	struct kilni_segment_page page[KILNI_SEGMENT_PAGES];
};

/* ---- publish.c; see alloc.h too ---- */

/* Called by kilni_pools_destroy. */
void kilni_pools_publish_stop(struct kilni_pools *pools);
/* A snapshot if one is due; with the pools' lock held. */
void kilni_pools_publish_locked(struct kilni_pools *pools);

/* ---- strip.c: pages as cells ---- */

/* Fills the part's pages; with the pools' lock held. */
void kilni_publish_pages(struct kilni_publication *part,
			 const struct kilni_pools *pools);

/* ---- segment.c: the process's segment ---- */

/* Adds a part, makes the segment if it is the first; false: there is none. */
bool kilni_segment_join(struct kilni_publication *part);
/* Takes a part out; the segment goes with the last one. */
void kilni_segment_leave(struct kilni_publication *part);
/*
 * Has fill write the part anew and then copies all parts. Does nothing while
 * another thread is at it, and in a forked child of the segment's maker.
 */
void kilni_segment_update(struct kilni_publication *part,
			  void (*fill)(struct kilni_publication *part,
				       void *pools),
			  void *pools);

#endif
