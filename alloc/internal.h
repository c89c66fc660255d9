/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_INTERNAL_H
#define KILNI_ALLOC_INTERNAL_H

#include <pthread.h>

#include "alloc/alloc.h"
#include "base/base.h"

/*
 * A page is a run of blocks in order of address; a block is live, kept in a
 * bin for the next request of its size, or free in one of its pool's trees.
 * Metadata lies in host memory of its own: device memory is never touched.
 *
 * Everything below is called with the pools' lock held.
 */

/* Sliced pools: requests up to slice_bytes are carved from such pages. */
#define KILNI_SMALL_SLICE (UINT64_C(64) << 10)
#define KILNI_SMALL_PAGE (UINT64_C(2) << 20)
#define KILNI_MEDIUM_PAGE (UINT64_C(16) << 20)
#define KILNI_LARGE_PAGE (UINT64_C(64) << 20)

/* Persistent slices from this size on get pages of their own where rounding
 * to the driver's granularity costs at most a sixteenth. */
#define KILNI_PERSISTENT_OWN_PAGE (UINT64_C(1) << 20)

/* Pages of the shared pool that are so many times larger are spared. */
#define KILNI_SPARED 8

/* A cached exclusive page is reused for requests down to 4/5 of it. */
#define KILNI_EXCLUSIVE_SLACK(size) ((size) / 4)

/* Allocations between two rounds of housekeeping (kilni_pools_tick). */
#define KILNI_TICK 128
/* Allocations for which a page stays unused before it counts as idle. */
#define KILNI_IDLE_LIMIT 256
#define KILNI_IDLE_LIMIT_MAX (UINT64_C(1) << 20)

/* Free ranges looked at for one that needs no event. */
#define KILNI_SCAN 32

enum kilni_block_state {
	KILNI_BLOCK_LIVE,
	KILNI_BLOCK_BINNED,        /* in a bin or in a pool's hot slot */
	KILNI_BLOCK_PAGE,          /* range: a page of another pool lies there */
	KILNI_BLOCK_HOLE,          /* range: addresses without memory */
	KILNI_BLOCK_FREE,          /* in the pool's tree */
	KILNI_BLOCK_TAIL           /* free and never carved: persistent pool */
};

#define KILNI_USES_INLINE 2

struct kilni_block {
	uint64_t address;
	uint64_t size;             /* rounded up to the alignment */
	uint64_t bytes;            /* as requested; live blocks only */
	struct kilni_page_record *page;
	struct kilni_block *left;  /* tree; next in a bin or spare list */
	/*
	 * The stream on which all uses have come to lie in order, so that it
	 * may have the block without an event; the block itself: none.
	 */
	void *behind;
	/* What has to complete first, at most one point per stream. A live
	 * block still carries those of its earlier owners. */
	struct kilni_use *uses;
	uint32_t count, capacity;
	struct kilni_use near[KILNI_USES_INLINE];
	struct kilni_block *right;
	struct kilni_block *before, *after; /* neighbours in the page */
	uint32_t priority;
	uint8_t state;             /* enum kilni_block_state */
};

struct kilni_page_record {
	struct kilni_page page;
	struct kilni_pool *pool;
	struct kilni_block *first;
	struct kilni_page_record *before, *after;           /* the pool's */
	struct kilni_page_record *idle_before, *idle_after; /* idle list */
	uint64_t used;             /* blocks that are neither free nor holes */
	uint64_t idle_since;       /* clock when used became 0 */
	struct kilni_block *inside; /* where it lies in the range, or NULL */
	uint32_t pins;
};

struct kilni_pool {
	enum kiln_pool_kind kind;
	uint64_t page_bytes;       /* usual size of a new page; 0: any */
	uint64_t slice_bytes;      /* largest request routed here */
	uint64_t cap_bytes;        /* most that is reserved; 0: no own limit */
	struct kilni_page_record *pages;
	struct kilni_block *tree;  /* free blocks */
	struct kilni_block *tails; /* persistent: what was never carved */
	struct kilni_block *hot;   /* the block that was freed last */
	uint64_t page_count, peak_pages;
	uint64_t odd_pages;        /* whose size is not page_bytes */
	uint64_t allocations;
	uint64_t live_bytes;       /* requested */
	uint64_t used_bytes;       /* requested and padding */
	uint64_t reserved_bytes;
	uint64_t largest_request;
};

/* A memory object of the driver, attached to the range. */
struct kilni_object {
	uint64_t memory, address, bytes;
	uint64_t idle_since;       /* clock of the last release inside */
	uint32_t pins;
	bool blind;                /* uses could not be noted: the block's count */
	struct kilni_block last;   /* holds the uses of what was released */
};

/*
 * Where the driver can map: one run of addresses, reserved at creation, into
 * which memory objects are attached. Its blocks are those of one page record;
 * what has no memory is a hole. See range.c.
 */
struct kilni_mapped {
	struct kilni_page_record page;
	struct kilni_pool *pool;   /* that of its slices; NULL: no range */
	struct kilni_block *holes; /* tree */
	struct kilni_object **object; /* by granule */
	uint64_t granularity;      /* of addresses and objects */
	unsigned shift;
	uint64_t object_max;
	uint64_t top;              /* end of the highest object, ever */
	uint64_t objects, bytes;   /* attached */
	uint64_t peak_bytes;
	uint64_t returned;         /* bytes given back unasked, lately */
};

/*
 * Small blocks of one size, latest first. low is the least count since the
 * last tick: that many were not needed and are merged at the next one.
 */
struct kilni_bin {
	struct kilni_block *head;
	uint32_t count, low;
};

enum {
	KILNI_POOLS_MAX = KILNI_RUNGS_MAX + 2,
	KILNI_RETURNED = 8
};

struct kilni_pools {
	pthread_mutex_t lock;
	struct kilni_hw *hw;
	const struct kilni_stream_ops *streams;
	struct kilni_memory_limits limits;
	uint64_t unit;             /* slices are multiples of it */
	uint64_t granularity;      /* pages are */
	uint64_t max_page;
	uint64_t page_bytes;       /* of the ladder's top */
	uint64_t cap_bytes;
	char mapping[160];         /* mapped, or why not */
	unsigned unit_shift;

	uint64_t clock;            /* allocations so far */
	uint64_t next_tick;
	uint64_t live_bytes;
	uint64_t window_peak;      /* of live_bytes, in this window */

	/* The ladder in routing order, then exclusive, then persistent. */
	unsigned ladder;
	struct kilni_pool pool[KILNI_POOLS_MAX];
	struct kilni_pool *shared; /* that has pages of any size, or NULL */
	struct kilni_mapped range;

	/* By size in units, for slices of the first pool. */
	struct kilni_bin *bins;
	uint64_t bin_limit;        /* largest binned size */
	uint64_t *binned;          /* bit map of bins that hold blocks */
	size_t bin_words;

	struct kilni_page_record *idle_first, *idle_last;
	uint64_t reserved_bytes;
	uint64_t peak_reserved;
	uint64_t peak_live;        /* up to the current window */
	uint64_t last_peak;        /* of the window before */
	uint64_t window_end;
	uint64_t idle_limit;
	uint64_t slack;
	unsigned quiet;            /* windows without a regretted return */
	/* Sizes of the pages last given back unasked. */
	uint64_t returned[KILNI_RETURNED];
	unsigned returned_next;
	uint64_t driver_calls;
	struct kilni_pools_calls calls;
	uint64_t zero_allocations;
	struct kilni_publication *publication; /* NULL: not published */
	struct kilni_block zero;   /* stands for slices of zero bytes */

	struct kilni_block *spare;
	struct kilni_slab *slabs;
	uint64_t blocks;           /* metadata in existence, spare or not */
	uint64_t unmerged;         /* neighbours left apart: no host memory */
	uint32_t random;
};

/* A request on its way through the pools. */
struct kilni_request {
	struct kilni_pool *pool;
	void *stream;
	uint64_t bytes, size;
	enum kiln_status refusal;  /* why the latest page was not had */
	int native;
	bool spare;                /* may have a part of a large unused page */
};

static inline struct kilni_pool *kilni_exclusive(struct kilni_pools *pools)
{
	return &pools->pool[pools->ladder];
}

static inline struct kilni_pool *kilni_persistent(struct kilni_pools *pools)
{
	return &pools->pool[pools->ladder + 1];
}

static inline unsigned kilni_pool_count(const struct kilni_pools *pools)
{
	return pools->ladder + 2;
}

/* The most that has ever been live, and with more bytes. */
static inline uint64_t kilni_peak(const struct kilni_pools *pools,
				  uint64_t more)
{
	uint64_t peak = pools->peak_live, sum = pools->live_bytes + more;

	if (sum < more)
		return UINT64_MAX;
	peak = peak > pools->window_peak ? peak : pools->window_peak;
	return peak > sum ? peak : sum;
}

/* What the cap leaves for further pages. */
static inline uint64_t kilni_room(const struct kilni_pools *pools)
{
	return pools->cap_bytes > pools->reserved_bytes
		       ? pools->cap_bytes - pools->reserved_bytes
		       : 0;
}

/* Sum, or the largest value where it would wrap. */
static inline uint64_t kilni_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline bool kilni_in_range(const struct kilni_pools *pools,
				  const struct kilni_block *block)
{
	return block->page == &pools->range.page;
}

static inline bool kilni_block_is_free(const struct kilni_block *block)
{
	return block->state >= KILNI_BLOCK_FREE;
}

/* ---- tree.c: free blocks by size, then address ---- */

void kilni_tree_insert(struct kilni_block **root, struct kilni_block *block);
void kilni_tree_remove(struct kilni_block **root, struct kilni_block *block);
/* Smallest block of at least size bytes, lowest address on ties. */
struct kilni_block *kilni_tree_fit(struct kilni_block *root, uint64_t size);
/* The block that follows in this order. */
struct kilni_block *kilni_tree_next(struct kilni_block *root,
				    const struct kilni_block *block);
struct kilni_block *kilni_tree_largest(struct kilni_block *root);

/* ---- uses.c: what has to complete before a block is reused ---- */

/* Room for count more uses; false: no host memory. */
bool kilni_uses_reserve(struct kilni_pools *pools, struct kilni_block *block,
			uint64_t count);
/* Adds the uses of an owner; room has been reserved. */
void kilni_uses_record(struct kilni_block *block, const struct kilni_use *uses,
		       size_t count);
/* Adds those of another block; room has been reserved. */
void kilni_uses_merge(struct kilni_block *block,
		      const struct kilni_block *other);
/* Forgets those that have completed; true: none is left. */
bool kilni_uses_done(struct kilni_pools *pools, struct kilni_block *block);
/* Whether stream may have the block without an event. */
bool kilni_uses_ready(struct kilni_pools *pools, struct kilni_block *block,
		      const void *stream);
/* Orders stream behind all of them. */
enum kiln_status kilni_uses_order(struct kilni_pools *pools,
				  struct kilni_block *block, void *stream);

/* ---- block.c: carving, merging, bins ---- */

/* Metadata from the slabs; NULL: no host memory. */
struct kilni_block *kilni_block_new(struct kilni_pools *pools);
void kilni_block_drop(struct kilni_pools *pools, struct kilni_block *block);
void kilni_slabs_free(struct kilni_pools *pools);
/* The tree that a free block lies in. */
struct kilni_block **kilni_block_root(const struct kilni_block *block);
/* Takes size bytes from the start of a free block; false: no host memory. */
bool kilni_block_carve(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t size);
/* Makes a live or binned block free and merges it with its neighbours. */
void kilni_block_release(struct kilni_pools *pools, struct kilni_block *block);
/* Keeps a block that was live for the next request of its size. */
void kilni_block_keep(struct kilni_pools *pools, struct kilni_block *block);
/* Makes free what the hot slot of a pool holds; true: it held a block. */
bool kilni_pool_cool(struct kilni_pools *pools, struct kilni_pool *pool);
/* Makes free what bins and hot slot of a pool hold; true: there was some. */
bool kilni_pool_flush(struct kilni_pools *pools, struct kilni_pool *pool);
void kilni_pools_flush(struct kilni_pools *pools);
/* Makes free what the bins did not need since the last call. */
void kilni_bins_age(struct kilni_pools *pools);

/* Splits a free block in two; both keep its uses, and the first is in no tree
 * any more. False: no host memory, nothing has changed. */
bool kilni_block_split(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t size);
/* Joins block with the one after it, neither in a tree; false: no host
 * memory, nothing has changed. */
bool kilni_block_join(struct kilni_pools *pools, struct kilni_block *block);
/* Puts a free block that is in no tree into one, merged with its neighbours. */
void kilni_block_settle(struct kilni_pools *pools, struct kilni_block *block);

/* ---- object.c: memory objects of the range ---- */

struct kilni_object *kilni_object_at(const struct kilni_mapped *range,
				     uint64_t address);
/* A new object, not attached. */
enum kiln_status kilni_object_create(struct kilni_pools *pools, uint64_t bytes,
				     struct kilni_object **out);
void kilni_object_destroy(struct kilni_pools *pools,
			  struct kilni_object *object);
/* Frees the record alone. */
void kilni_object_forget(struct kilni_object *object);
/*
 * Attaches object at the start of a hole; *out is the block that lies there
 * now, live and not yet counted as used.
 */
enum kiln_status kilni_object_attach(struct kilni_pools *pools,
				     struct kilni_block *hole, uint64_t address,
				     struct kilni_object *object,
				     struct kilni_block **out);
/* Whether no work uses what was freed inside, as a part of block. */
bool kilni_object_done(struct kilni_pools *pools, struct kilni_object *object,
		       struct kilni_block *block);
/* Makes a hole of an object that lies whole in a free block and is done. */
enum kiln_status kilni_object_detach(struct kilni_pools *pools,
				     struct kilni_block *block,
				     struct kilni_object *object);

/* ---- range.c: objects come, move and go ---- */

/* Reserves addresses; says in pools->mapping why it could not. */
void kilni_range_open(struct kilni_pools *pools);
void kilni_range_close(struct kilni_pools *pools);
/* Notes that a block of the range becomes free. */
void kilni_range_touch(struct kilni_pools *pools,
		       const struct kilni_block *block);
/* Gives free objects back until target is reserved that have been free for
 * age allocations; the bytes that went. */
uint64_t kilni_range_return(struct kilni_pools *pools, uint64_t target,
			    uint64_t age);

/* What a request needs at a place that lies in a hole. */
struct kilni_lack {
	uint64_t want;             /* bytes, whole granules */
	uint64_t room;             /* of the hole from there on */
	uint64_t low, high;        /* where the request will lie */
};

/* An object that is not attached, for such a place; KILN_ERR_LIMIT without a
 * record: the cap. */
enum kiln_status kilni_range_object(struct kilni_pools *pools,
				    const struct kilni_request *request,
				    const struct kilni_lack *lack,
				    struct kilni_object **out);

/* ---- place.c: finding a place in the range and filling it ---- */

/*
 * A live block for a request that fits nowhere in the range as it is: from
 * objects that move or are new. with_event: also by way of what other streams
 * use. NULL: request->refusal says why.
 */
struct kilni_block *kilni_range_grow(struct kilni_pools *pools,
				     struct kilni_request *request,
				     bool with_event);
/* ---- page.c: pages from and to the driver ---- */

void kilni_idle_push(struct kilni_pools *pools, struct kilni_page_record *page);
void kilni_idle_remove(struct kilni_pools *pools,
		       struct kilni_page_record *page);
/* Whether a new page would let more be reserved than the shared pool's limit,
 * after which unused pages are broken into or go back first. */
bool kilni_page_exceeds(const struct kilni_pools *pools,
			const struct kilni_request *request);
/* A free block on a new page; NULL: request->refusal says why. */
struct kilni_block *kilni_page_grow(struct kilni_pools *pools,
				    struct kilni_request *request);
/*
 * A free block on a page that another pool has no use for. strict: only one
 * of a size that the pool might have asked the driver for.
 */
struct kilni_block *kilni_page_adopt(struct kilni_pools *pools,
				     struct kilni_request *request,
				     bool strict);
/* Gives idle pages back, longest idle first, until target is reserved. */
void kilni_idle_return(struct kilni_pools *pools, uint64_t target);
/* The same, and after them free objects of the range. */
void kilni_pages_return(struct kilni_pools *pools, uint64_t target);
void kilni_pages_free_all(struct kilni_pools *pools);
/* Giving bytes back was a mistake: see page.c. */
void kilni_regret(struct kilni_pools *pools, uint64_t bytes);
/* Housekeeping, every KILNI_TICK allocations. */
void kilni_pools_tick(struct kilni_pools *pools);

/* ---- layout.c ---- */

/* Whether a ladder makes sense. KILN_ERR_OPTION. */
enum kiln_status kilni_pools_check_rungs(
	const struct kilni_pools_config *config);

/* ---- find.c: which memory serves a request ---- */

/* A live block of the range, in place of a page of the driver; NULL likewise. */
struct kilni_block *kilni_find_in_range(struct kilni_pools *pools,
					struct kilni_request *request);
/* A live block, or NULL: request->refusal says why. */
struct kilni_block *kilni_pools_find(struct kilni_pools *pools,
				     struct kilni_request *request);

/* ---- report.c ---- */

/* Fills all but struct_size; bins count as cached, but not as holes. */
void kilni_pool_describe(const struct kilni_pools *pools,
			 const struct kilni_pool *pool,
			 struct kiln_pool_info *info);

/* Requested bytes and padding of all live slices. */
uint64_t kilni_pools_used(const struct kilni_pools *pools);

/* Fills all but struct_size. */
void kilni_pools_count(const struct kilni_pools *pools,
		       struct kiln_memory_usage *usage);

/* Records why a request failed. */
enum kiln_status kilni_pools_explain(struct kilni_pools *pools,
				     const struct kilni_request *request);

#endif
