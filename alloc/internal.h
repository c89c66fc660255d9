/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_INTERNAL_H
#define KILNI_ALLOC_INTERNAL_H

#include <pthread.h>

#include "alloc/alloc.h"
#include "base/base.h"
#include "base/trace.h"

/*
 * A page is a run of blocks in order of address; a block is live, kept in a
 * bin for the next request of its size, or free in one of its pool's trees.
 * Metadata lies in host memory of its own: device memory is never touched.
 *
 * Everything below is called with the pools' lock held, but for what is said
 * to be called without it.
 */

/* Small slices and their pages, where no ladder is named; pages of larger
 * persistent slices; what page_bytes is by default. */
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

/* Larger blocks than that go to no bin. */
#define KILNI_BINNED_MOST (UINT64_C(1) << 20)
/* For larger requests what is kept is merged before a place is looked for: a
 * better fit is worth more than speed. */
#define KILNI_MERGED_FIRST (UINT64_C(256) << 10)

/* Blocks that are merged at a time where memory is not short. */
#define KILNI_MERGED_MOST 252

/* Allocations between two rounds of housekeeping (kilni_pools_tick). */
#define KILNI_TICK 128
/* Allocations for which a page stays unused before it counts as idle. */
#define KILNI_IDLE_LIMIT 256
#define KILNI_IDLE_LIMIT_MAX (UINT64_C(1) << 20)

/* Free ranges looked at for one that needs no event. */
#define KILNI_SCAN 32

enum kilni_block_state {
	KILNI_BLOCK_LIVE,          /* or kept: its head tells which */
	KILNI_BLOCK_PAGE,          /* range: a page of another pool lies there */
	KILNI_BLOCK_HOLE,          /* range: addresses without memory */
	KILNI_BLOCK_FREE,          /* in the pool's tree */
	KILNI_BLOCK_TAIL           /* free and never carved: persistent pool */
};

/* What a head's state is made of; 0: the block is neither live nor kept. */
enum {
	KILNI_HEAD_LIVE = 1,
	KILNI_HEAD_KEPT = 2,       /* in a magazine */
	KILNI_HEAD_USED = 4,       /* seq counts as a use of the block */
	KILNI_HEAD_FULL = 8        /* the block may have no room for it */
};

/*
 * All of a live or kept block that the fast path touches. Heads lie together,
 * apart from the blocks, two to a cache line: where many slices are live, what
 * an allocation costs is the memory that it touches. It changes under the lock
 * of the cache that the block counts in or lies in, the block itself under the
 * pools'.
 */
struct kilni_head {
	uint64_t address, size;    /* the block's */
	uint64_t seq;              /* of the latest use on the slot's stream */
	uint32_t padding;          /* live: what was not asked for, see below */
	uint16_t slot;             /* live: of the stream that took it */
	uint8_t pool;              /* index */
	uint8_t state;
};

/* So much padding or more: the block knows the bytes. */
#define KILNI_PADDING_MOST UINT32_MAX

#define KILNI_USES_INLINE 2

struct kilni_block {
	uint64_t address;
	uint64_t size;             /* rounded up to the alignment */
	uint64_t bytes;            /* requested, where the head can't tell */
	/*
	 * The stream on which all uses have come to lie in order, so that it
	 * may have the block without an event; the block itself: none.
	 */
	void *behind;
	/* What has to complete first, at most one point per stream. A live
	 * block still carries those of its earlier owners. */
	struct kilni_use *uses;
	uint16_t count, capacity;
	uint8_t state;             /* enum kilni_block_state */
	bool stale;                /* freed, and not settled: see watch.c */
	uint32_t priority;
	struct kilni_use near[KILNI_USES_INLINE];
	struct kilni_page_record *page;
	struct kilni_block *left, *right;   /* tree; left: spare list */
	struct kilni_block *before, *after; /* neighbours in the page */
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
	uint64_t page_count, peak_pages;
	uint64_t odd_pages;        /* whose size is not page_bytes */
	uint64_t reserved_bytes;
	/* Sums over the caches when they were last gathered. */
	uint64_t allocations;
	uint64_t live_bytes;       /* requested */
	uint64_t used_bytes;       /* requested and padding */
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

enum {
	KILNI_POOLS_MAX = KILNI_RUNGS_MAX + 2,
	KILNI_RETURNED = 8,
	KILNI_CACHES_MAX = 64,
	KILNI_CLASSES = 128,
	KILNI_MAGAZINE = 126,
	KILNI_BINS = 64
};

/*
 * A stack of free blocks of one size, all of them behind one stream. Above its
 * count it still has what was taken from there last, a hint and no more.
 */
struct kilni_magazine {
	struct kilni_magazine *next;
	uint64_t count;
	struct kilni_head *head[KILNI_MAGAZINE];
};

/* Full magazines of one size behind one stream, latest first. */
struct kilni_bin {
	struct kilni_bin *next;    /* in its bucket */
	uint64_t size;
	void *stream;
	struct kilni_cache *cache; /* the stream's */
	uint8_t pool;              /* where such requests are routed */
	struct kilni_magazine *first;
	uint64_t count;            /* magazines */
	uint64_t low;              /* the least since the last ageing */
	uint64_t surplus;          /* that it gives up, some at each tick */
	uint64_t until;            /* the cache's clock at the next one */
	uint64_t deadline;         /* the pools' clock; unless it is used */
};

/* What a stream has freed of one size; see cache.c. */
struct kilni_class {
	uint64_t size;             /* 0: none */
	void *stream;
	struct kilni_magazine *loaded;
	struct kilni_magazine *previous; /* full, empty or NULL */
	struct kilni_magazine *empties; /* emptied here, latest first */
	uint32_t empty;            /* so many of them */
	uint32_t limit;            /* blocks in a full magazine */
	uint8_t pool;              /* where such requests are routed */
	uint8_t unwanted;          /* ageings since it served a request */
} __attribute__((aligned(64)));

/* What lives of a pool's blocks that a cache accounts for. */
struct kilni_account {
	uint64_t allocations, live_bytes, used_bytes, largest_request;
};

/*
 * A stream's own way past the pools' lock: free blocks and the accounting of
 * what was taken on that stream, under a lock of their own, which may be taken
 * with the pools' lock held and never the other way round.
 */
struct kilni_cache {
	int lock;
	uint32_t index;            /* in pools->cache */
	uint64_t clock;            /* allocations that the pools' clock has */
	uint64_t recent;           /* those since */
	uint64_t live_bytes;
	uint64_t peak_live;        /* since the caches were last gathered */
	uint64_t aged;             /* the clock at the last ageing */
	bool idle;                 /* took no slow path in this window */
	uint64_t occupied[KILNI_CLASSES / 64]; /* bit map of the classes */
	struct kilni_account account[KILNI_POOLS_MAX];
	struct kilni_class class[KILNI_CLASSES];
} __attribute__((aligned(64)));

/*
 * From a stream to its cache; entries are added and never go. The one behind
 * the last stands for all streams that have none.
 */
#define KILNI_STREAM_SLOTS 2048
struct kilni_stream_slot {
	void *stream;              /* atomic */
	struct kilni_cache *cache;
};

/* What pools->watch asks for; 0 in a normal run. */
enum {
	KILNI_WATCH_FILL = 1,      /* freed memory is filled */
	KILNI_WATCH_POISON = 2,    /* and may not be touched */
	KILNI_WATCH_WALK = 4,      /* the accounting is compared */
	KILNI_WATCH_DRIVER = 8     /* with FILL: by the driver, see watch.c */
};

struct kilni_pools {
	/* What the fast path reads: rarely written. */
	unsigned watch;
	unsigned caches;
	uint64_t unit;             /* slices are multiples of it */
	struct kilni_stream_slot *slots;
	/* The first cache is for streams that could not have their own. */
	struct kilni_cache *cache[KILNI_CACHES_MAX];

	pthread_mutex_t lock __attribute__((aligned(64)));
	struct kilni_hw *hw;
	const struct kilni_stream_ops *streams;
	struct kilni_memory_limits limits;
	uint64_t granularity;      /* pages are */
	uint64_t max_page;
	uint64_t page_bytes;       /* a usual large one */
	uint64_t cap_bytes;
	char mapping[160];         /* mapped, or why not */

	uint64_t clock;            /* allocations so far */
	uint64_t next_tick;
	uint64_t live_bytes;       /* when the caches were last gathered */
	/*
	 * The most live bytes in this window: exact where one stream allocates
	 * at a time. Else at most what there would have been if all streams
	 * had reached their peak between two gatherings at the same moment.
	 */
	uint64_t window_peak;

	/* The ladder in routing order, then exclusive, then persistent. */
	unsigned ladder;
	struct kilni_pool pool[KILNI_POOLS_MAX];
	struct kilni_pool *shared; /* that has pages of any size, or NULL */
	struct kilni_mapped range;

	unsigned streams_seen;
	struct kilni_bin *bin[KILNI_BINS];
	struct kilni_magazine *spare_magazines;

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
	struct kiln_memory_calls calls; /* the same by kind */
	uint32_t number;           /* the device's in a trace */
	uint64_t zero_allocations;
	unsigned waiting;          /* requests that let go of the lock */
	struct kilni_publication *publication; /* NULL: not published */
	struct kilni_head zero;    /* stands for slices of zero bytes */

	struct kilni_block *spare;
	struct kilni_slab *slabs;
	uint64_t blocks;           /* metadata in existence, spare or not */
	uint64_t unmerged;         /* neighbours left apart: no host memory */

	uint64_t verify_every;
	uint64_t watched;          /* atomic: calls that verify_every counts */
	bool broken;               /* atomic: the walk found a difference */
	uint64_t stale;            /* atomic: have become so since a look */
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
	bool warm;                 /* without new memory of the driver */
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

/* Index of the pool for requests of that size that are not persistent. */
static inline unsigned kilni_route(const struct kilni_pools *pools,
				   uint64_t size)
{
	unsigned i = 0;

	while (i < pools->ladder && size > pools->pool[i].slice_bytes)
		i++;
	return i;
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

/* Whether slices of that pool go through caches and bins. */
static inline bool kilni_pool_is_kept(const struct kilni_pools *pools,
				      unsigned index)
{
	return index <= pools->ladder;
}

/* What the cap leaves for further pages. */
static inline uint64_t kilni_room(const struct kilni_pools *pools)
{
	return pools->cap_bytes > pools->reserved_bytes
		       ? pools->cap_bytes - pools->reserved_bytes
		       : 0;
}

/* What a pool's own cap leaves. */
static inline uint64_t kilni_pool_room(const struct kilni_pool *pool)
{
	if (!pool->cap_bytes)
		return UINT64_MAX;
	return pool->cap_bytes > pool->reserved_bytes
		       ? pool->cap_bytes - pool->reserved_bytes
		       : 0;
}

static inline const struct kilni_memory_ops *
kilni_memory(const struct kilni_pools *pools)
{
	return pools->hw->driver->memory;
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

static inline uint64_t kilni_block_end(const struct kilni_block *block)
{
	return block->address + block->size;
}

static inline bool kilni_block_is_free(const struct kilni_block *block)
{
	return block->state >= KILNI_BLOCK_FREE;
}

/* Under the cache's lock; a snapshot reads it without. */
static inline void kilni_head_set(struct kilni_head *head, unsigned state)
{
	__atomic_store_n(&head->state, (uint8_t)state, __ATOMIC_RELAXED);
}

static inline unsigned kilni_head_state(const struct kilni_head *head)
{
	return __atomic_load_n(&head->state, __ATOMIC_RELAXED);
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
/*
 * Makes a head that of a block, live or kept (state), which comes behind the
 * slot's stream or behind none that has a slot.
 */
struct kilni_head *kilni_head_open(struct kilni_pools *pools,
				   struct kilni_block *block, unsigned pool,
				   unsigned slot, unsigned state);
/* What the head knows of uses becomes the block's. */
void kilni_head_settle(struct kilni_block *block);
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

/* ---- block.c: carving, merging ---- */

/* Metadata from the slabs; NULL: no host memory. */
struct kilni_block *kilni_block_new(struct kilni_pools *pools);
void kilni_block_drop(struct kilni_pools *pools, struct kilni_block *block);
void kilni_slabs_free(struct kilni_pools *pools);
/* A block's head and back, by their addresses alone. */
struct kilni_head *kilni_head_of(const struct kilni_block *block);
struct kilni_block *kilni_block_of(const struct kilni_head *head);
/* The tree that a free block lies in. */
struct kilni_block **kilni_block_root(const struct kilni_block *block);
/* Takes size bytes from the start of a free block; false: no host memory. */
bool kilni_block_carve(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t size);
/* Makes a live or kept block free and merges it with its neighbours. */
void kilni_block_release(struct kilni_pools *pools, struct kilni_block *block);

/* ---- cache.c: what streams keep for themselves; fast.h: the fast path ---- */

/* The first cache. KILN_ERR_NO_MEMORY. */
enum kiln_status kilni_caches_create(struct kilni_pools *pools);
void kilni_caches_destroy(struct kilni_pools *pools);
/* Index of a stream's slot. */
unsigned kilni_slot_of(const struct kilni_pools *pools, const void *stream);
/* The stream's cache, made where there is room for one. */
struct kilni_cache *kilni_cache_get(struct kilni_pools *pools, void *stream);
/* A block of this size from the stream's cache or the bins, live; or NULL. */
struct kilni_head *kilni_cache_refill(struct kilni_pools *pools,
				      struct kilni_cache *cache, void *stream,
				      uint64_t size);
/* Keeps a block that was live for the next request of its size on the stream
 * that it comes behind, or makes it free. */
void kilni_cache_keep(struct kilni_pools *pools, struct kilni_block *block);
/* Tells the clock of the cache's allocations; frees what it has no need of. */
void kilni_cache_age(struct kilni_pools *pools, struct kilni_cache *cache);
/* Frees what streams keep that have not allocated since the last call. */
void kilni_caches_idle(struct kilni_pools *pools);
/* All of them, so that nothing moves. */
void kilni_caches_lock(struct kilni_pools *pools);
void kilni_caches_unlock(struct kilni_pools *pools);
/* Brings the pools' sums up to date; no cache is locked. */
void kilni_caches_gather(struct kilni_pools *pools);
/* Nothing is live, and the pools become others. */
void kilni_caches_forget(struct kilni_pools *pools);
/* Makes free what caches and bins keep for a pool, NULL: for all; true: there
 * was some. */
bool kilni_pool_flush(struct kilni_pools *pools, struct kilni_pool *pool);
/* The same for some of it: what the pool needs before it grows a little. */
bool kilni_pool_flush_some(struct kilni_pools *pools, struct kilni_pool *pool);
/* The same for all pools; the sums are up to date then. */
void kilni_pools_flush(struct kilni_pools *pools);

/* ---- bins.c: full magazines ---- */

void kilni_magazine_drop(struct kilni_pools *pools,
			 struct kilni_magazine *magazine);
/* An empty one; NULL: no host memory. */
struct kilni_magazine *kilni_magazine_new(struct kilni_pools *pools);
/* Fetches the records that come first where a full magazine is emptied, or
 * may where an empty one is filled, and these places in the one after it. */
void kilni_magazine_fetch(const struct kilni_magazine *magazine, bool full);
/* Makes its blocks free; it is empty then. */
void kilni_magazine_release(struct kilni_pools *pools,
			    struct kilni_magazine *magazine);
/* Takes over a full magazine of a class of the cache. */
void kilni_bin_put(struct kilni_pools *pools, struct kilni_cache *cache,
		   const struct kilni_class *class,
		   struct kilni_magazine *magazine);
/* A full one whose blocks the stream may use at once, or NULL. */
struct kilni_magazine *kilni_bin_take(struct kilni_pools *pools, void *stream,
				      uint64_t size);
/* Makes free what the bins keep for a pool; NULL: for all. */
bool kilni_bins_flush(struct kilni_pools *pools, const struct kilni_pool *pool);
/* The same up to so many blocks; what is left of the number. */
uint64_t kilni_bins_flush_some(struct kilni_pools *pools,
			       const struct kilni_pool *pool, uint64_t most);
/* Makes free some of what the bins did not need for a while. */
void kilni_bins_age(struct kilni_pools *pools);

/* What is behind size bytes of a block becomes rest, a new one with room for
 * its uses, which both have then; neither is in a tree. */
void kilni_block_cut(struct kilni_block *block, uint64_t size,
		     struct kilni_block *rest);
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
/* The largest cached exclusive page that serves the request. */
uint64_t kilni_exclusive_most(const struct kilni_pools *pools,
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

/* A live block of the range in place of a driver's page; NULL likewise. */
struct kilni_block *kilni_find_in_range(struct kilni_pools *pools,
					struct kilni_request *request);
/* A live block, or NULL: request->refusal says why. */
struct kilni_block *kilni_pools_find(struct kilni_pools *pools,
				     struct kilni_request *request);

/* The same from what is there, without a word about why not. */
struct kilni_block *kilni_pools_find_warm(struct kilni_pools *pools,
					  struct kilni_request *request);

/* ---- watch.c: poisoning, filling, walking ---- */

/* In both the cache's lock is held, and the pools' need not be; where the
 * driver fills, the pools' lock alone when a block is freed. */
void kilni_watch_freed(struct kilni_pools *pools, struct kilni_block *block);
void kilni_watch_taken(struct kilni_pools *pools, struct kilni_block *block,
		       uint64_t bytes);
/* Settles what has become settled; all: even if that is little. */
void kilni_watch_settle(struct kilni_pools *pools, bool all);
/* Without locks: counts a call, and compares the accounting every verify_every
 * calls. */
void kilni_watch_count(struct kilni_pools *pools);
/* The same; KILN_ERR_INTERNAL once a difference has been found. */
enum kiln_status kilni_watch_walk(struct kilni_pools *pools);

/* ---- trace.c ---- */

/*
 * A call of the driver, and what is reserved after it; begin_ns is what
 * kilni_trace_begin() gave before. With the lock.
 */
void kilni_pools_trace_call(const struct kilni_pools *pools,
			    enum kilni_trace_call call, uint64_t bytes,
			    uint64_t begin_ns, enum kiln_status status);

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
