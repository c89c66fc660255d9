/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_TESTS_POOLS_FAKE_H
#define KILN_TESTS_POOLS_FAKE_H

/*
 * A driver that only has memory, and streams that only count. Addresses are
 * invented and never touched, so sizes cost nothing; or, with real set, they
 * come from the heap.
 */

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/alloc.h"
#include "base/base.h"

#define KiB (UINT64_C(1) << 10)
#define MiB (UINT64_C(1) << 20)
#define GiB (UINT64_C(1) << 30)

struct fake_hw {
	struct kilni_hw hw;
	struct kilni_memory_limits limits;
	bool real;                 /* memory that can be touched */
	uint64_t physical;         /* most that is ever handed out; 0: all */
	uint64_t refused_above;    /* pages larger than this fail; 0: none */
	enum kiln_status broken;   /* every page fails with this */
	uint64_t next, held, calls;
	void (*on_free)(const struct kilni_page *page);
};

static inline struct fake_hw *fake_of(struct kilni_hw *hw)
{
	return (struct fake_hw *)hw;
}

static void fake_limits(const struct kilni_hw *hw,
			struct kilni_memory_limits *limits)
{
	*limits = ((const struct fake_hw *)hw)->limits;
}

static enum kiln_status fake_page_alloc(struct kilni_hw *hw, uint64_t bytes,
					struct kilni_page *page)
{
	struct fake_hw *fake = fake_of(hw);

	fake->calls++;
	KILNI_TRY(KILNI_FAULT("page_alloc"));
	if (fake->broken != KILN_OK)
		return kilni_fail(fake->broken, 5, "fake: broken");
	if ((fake->refused_above && bytes > fake->refused_above) ||
	    (fake->physical && bytes > fake->physical - fake->held))
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 12, "fake: refused");
	if (bytes % fake->limits.page_granularity ||
	    bytes > fake->limits.max_page_bytes)
		ck_abort_msg("a page of %llu bytes", (unsigned long long)bytes);
	if (fake->real) {
		page->address = (uintptr_t)aligned_alloc(4096, bytes);
		ck_assert(page->address);
	} else {
		page->address = fake->next;
		fake->next += bytes + fake->limits.page_granularity;
	}
	page->bytes = bytes;
	page->handle = ~page->address;
	fake->held += bytes;
	return KILN_OK;
}

static void fake_page_free(struct kilni_hw *hw, const struct kilni_page *page)
{
	struct fake_hw *fake = fake_of(hw);

	if (page->handle != ~page->address)
		ck_abort_msg("a page that was not handed out");
	if (fake->on_free)
		fake->on_free(page);
	fake->calls++;
	fake->held -= page->bytes;
	if (fake->real)
		free((void *)(uintptr_t)page->address);
}

/* ---- mapping: every rule of the slots is checked ---- */

#define FAKE_OBJECTS 16384
#define FAKE_MAP_GRANULARITY (2 * MiB)

struct fake_object {
	uint64_t address, bytes;   /* address 0: not attached */
};

static struct fake_object fake_objects[FAKE_OBJECTS];
static uint64_t fake_object_count, fake_reserved;

static enum kiln_status fake_map_reserve(struct kilni_hw *hw, uint64_t bytes,
					 uint64_t *address)
{
	struct fake_hw *fake = fake_of(hw);

	KILNI_TRY(KILNI_FAULT("map_reserve"));
	if (fake->real) {
		/* All of it can be touched; for a test's life. */
		void *base = mmap(NULL, bytes + FAKE_MAP_GRANULARITY,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				  -1, 0);

		ck_assert(base != MAP_FAILED);
		fake->next = (uintptr_t)base;
	}
	fake->next = kilni_align_up(fake->next, FAKE_MAP_GRANULARITY);
	*address = fake->next;
	fake->next += bytes + FAKE_MAP_GRANULARITY;
	fake_reserved += bytes;
	return KILN_OK;
}

static void fake_map_unreserve(struct kilni_hw *hw, uint64_t address,
			       uint64_t bytes)
{
	uint64_t i;

	(void)hw;
	fake_reserved -= bytes;
	for (i = 0; i < fake_object_count; i++)
		if (fake_objects[i].address >= address &&
		    fake_objects[i].address < address + bytes)
			ck_abort_msg("addresses go while memory is attached");
}

static enum kiln_status fake_map_create(struct kilni_hw *hw, uint64_t bytes,
					uint64_t *memory)
{
	struct fake_hw *fake = fake_of(hw);
	uint64_t i = 0;

	fake->calls++;
	KILNI_TRY(KILNI_FAULT("map_create"));
	if (fake->broken != KILN_OK)
		return kilni_fail(fake->broken, 5, "fake: broken");
	if ((fake->refused_above && bytes > fake->refused_above) ||
	    (fake->physical && bytes > fake->physical - fake->held))
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 12, "fake: refused");
	while (i < fake_object_count && fake_objects[i].bytes)
		i++;
	if (!bytes || bytes % FAKE_MAP_GRANULARITY || i == FAKE_OBJECTS)
		ck_abort_msg("memory of %llu bytes", (unsigned long long)bytes);
	fake_objects[i].bytes = bytes;
	fake_objects[i].address = 0;
	if (i == fake_object_count)
		fake_object_count++;
	*memory = i + 1;
	fake->held += bytes;
	return KILN_OK;
}

static struct fake_object *fake_object(uint64_t memory, uint64_t bytes)
{
	if (!memory || memory > fake_object_count ||
	    fake_objects[memory - 1].bytes != bytes)
		ck_abort_msg("memory that was not handed out");
	return &fake_objects[memory - 1];
}

static void fake_map_destroy(struct kilni_hw *hw, uint64_t memory,
			     uint64_t bytes)
{
	struct fake_object *object = fake_object(memory, bytes);

	if (object->address)
		ck_abort_msg("memory goes while it is attached");
	fake_of(hw)->calls++;
	fake_of(hw)->held -= bytes;
	object->bytes = 0;
}

static enum kiln_status fake_map_attach(struct kilni_hw *hw, uint64_t address,
					uint64_t bytes, uint64_t memory)
{
	struct fake_object *object = fake_object(memory, bytes);
	uint64_t i;

	fake_of(hw)->calls++;
	KILNI_TRY(KILNI_FAULT("map_attach"));
	if (object->address || address % FAKE_MAP_GRANULARITY)
		ck_abort_msg("memory attached twice, or at an odd place");
	for (i = 0; i < fake_object_count; i++)
		if (fake_objects[i].address &&
		    fake_objects[i].address < address + bytes &&
		    address < fake_objects[i].address + fake_objects[i].bytes)
			ck_abort_msg("memory over other memory");
	object->address = address;
	return KILN_OK;
}

static enum kiln_status fake_map_detach(struct kilni_hw *hw, uint64_t address,
					uint64_t bytes, uint64_t memory)
{
	struct fake_object *object = fake_object(memory, bytes);
	struct kilni_page page = { address, bytes, memory };

	fake_of(hw)->calls++;
	KILNI_TRY(KILNI_FAULT("map_detach"));
	if (object->address != address)
		ck_abort_msg("memory is not attached there");
	if (fake_of(hw)->on_free)
		fake_of(hw)->on_free(&page);
	object->address = 0;
	return KILN_OK;
}

static const struct kilni_memory_ops fake_memory = {
	.limits = fake_limits,
	.page_alloc = fake_page_alloc,
	.page_free = fake_page_free,
	.map_reserve = fake_map_reserve,
	.map_unreserve = fake_map_unreserve,
	.map_create = fake_map_create,
	.map_destroy = fake_map_destroy,
	.map_attach = fake_map_attach,
	.map_detach = fake_map_detach,
};

static const struct kilni_driver fake_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(fake_driver),
	.name = "fake",
	.memory = &fake_memory,
};

/*
 * How the pools get their memory: a ladder of pages, pages that all sizes
 * share, or memory mapped into one range.
 */
enum fake_mode { FAKE_LADDER, FAKE_SHARED, FAKE_MAPPED };

static enum fake_mode fake_mode;

static inline void fake_ladder(void)
{
	fake_mode = FAKE_LADDER;
}

static inline void fake_shared(void)
{
	fake_mode = FAKE_SHARED;
}

static inline void fake_mapped(void)
{
	fake_mode = FAKE_MAPPED;
}

static struct fake_hw fake_hw(uint64_t total)
{
	return (struct fake_hw){
		.hw = { .driver = &fake_driver },
		.limits = { .alignment = 64,
			    .page_granularity = 4096,
			    .max_page_bytes = UINT64_C(1) << 44,
			    .total_bytes = total,
			    .map_granularity = fake_mode == FAKE_MAPPED
						       ? FAKE_MAP_GRANULARITY
						       : 0,
			    .map_reserve_bytes = UINT64_C(1) << 42 },
		.next = UINT64_C(1) << 40,
	};
}

/* ---- streams ---- */

#define FAKE_STREAMS 8

struct fake_stream {
	atomic_uint_fast64_t submitted, completed;
	uint64_t behind[FAKE_STREAMS]; /* ordered behind this point of each */
};

static struct fake_stream fake_streams[FAKE_STREAMS];
static atomic_uint fake_orders, fake_waits;
static bool fake_order_fails;

static inline struct fake_stream *stream(unsigned i)
{
	return &fake_streams[i];
}

static bool fake_done(void *of, uint64_t seq)
{
	return atomic_load(&((struct fake_stream *)of)->completed) >= seq;
}

static enum kiln_status fake_order(void *of, const struct kilni_use *use)
{
	struct fake_stream *waiting = of, *waited = use->stream;
	uint64_t *behind;

	if (fake_order_fails)
		return kilni_fail(KILN_ERR_BUSY, 0, "fake: cannot order");
	if (waiting == waited)
		ck_abort_msg("a stream is ordered behind itself");
	atomic_fetch_add(&fake_orders, 1);
	/* Tests that need more streams have their own. */
	if (waited < fake_streams || waited >= fake_streams + FAKE_STREAMS)
		return KILN_OK;
	behind = &waiting->behind[waited - fake_streams];
	if (*behind < use->seq)
		*behind = use->seq;
	return KILN_OK;
}

/* What is waited for gets done. */
static enum kiln_status fake_wait(const struct kilni_use *use)
{
	struct fake_stream *of = use->stream;
	uint64_t now = atomic_load(&of->completed);

	atomic_fetch_add(&fake_waits, 1);
	while (now < use->seq &&
	       !atomic_compare_exchange_weak(&of->completed, &now, use->seq))
		;
	return KILN_OK;
}

static const struct kilni_stream_ops fake_stream_ops = {
	.done = fake_done,
	.order = fake_order,
	.wait = fake_wait,
};

/* One more piece of work on a stream. */
static inline struct kilni_use fake_work(unsigned i)
{
	struct kilni_use use = { stream(i), 0 };

	use.seq = atomic_fetch_add(&stream(i)->submitted, 1) + 1;
	return use;
}

static inline void fake_complete(unsigned i)
{
	atomic_store(&stream(i)->completed,
		     atomic_load(&stream(i)->submitted));
}

static void fake_reset(void)
{
	memset(fake_streams, 0, sizeof(fake_streams));
	atomic_store(&fake_orders, 0);
	atomic_store(&fake_waits, 0);
	fake_order_fails = false;
	fake_object_count = 0;
	fake_reserved = 0;
	kilni_fault_set(NULL, 0, KILN_OK);
	kiln_error_clear();
}

/*
 * Shorthands; every one checks the accounting. Plain conditions in place of
 * assertions where there are many: libcheck writes each of those to a file.
 */

static inline struct kiln_memory_usage usage_of(struct kilni_pools *pools)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };

	if (!kilni_pools_verify(pools))
		ck_abort_msg("the accounting is wrong");
	kilni_pools_usage(pools, &usage);
	if (usage.live_bytes + usage.cached_bytes + usage.padding_bytes !=
	    usage.reserved_bytes)
		ck_abort_msg("live + cached + padding is not reserved");
	return usage;
}

/* Rungs of 2 and 16 MiB, where the pages of the top one are larger. */
static inline void fake_rungs(struct kilni_pools_config *config,
			      const struct kilni_memory_limits *limits)
{
	uint64_t top = config->page_bytes ? config->page_bytes : 64 * MiB;
	static const struct kilni_pools_rung rungs[] = {
		{ 2 * MiB, 64 * KiB, 0 },
		{ 16 * MiB, 4 * MiB, 0 },
	};
	unsigned i;

	top = kilni_align_up(top, limits->page_granularity);
	if (top > limits->max_page_bytes)
		top = limits->max_page_bytes &
		      ~(limits->page_granularity - 1);
	for (i = 0; i < 2; i++)
		if (rungs[i].page_bytes < top)
			config->rung[config->rungs++] = rungs[i];
	config->rung[config->rungs++] =
		(struct kilni_pools_rung){ top, top, 0 };
}

static inline struct kilni_pools *pools_new(struct fake_hw *hw, uint64_t page,
					    uint64_t cap)
{
	struct kilni_pools_config config = { .page_bytes = page,
					     .cap_bytes = cap };
	struct kilni_pools *pools = NULL;

	if (fake_mode == FAKE_LADDER)
		fake_rungs(&config, &hw->limits);

	ck_assert_int_eq(kilni_pools_create(&pools, &hw->hw, &fake_stream_ops,
					    &config),
			 KILN_OK);
	usage_of(pools);
	return pools;
}

static inline enum kiln_status try_take(struct kilni_pools *pools, unsigned on,
					uint64_t bytes, bool persistent,
					struct kilni_slice *slice)
{
	enum kiln_status status = kilni_pools_alloc(pools, stream(on), bytes,
						    persistent, slice);

	usage_of(pools);
	return status;
}

static inline struct kilni_slice take(struct kilni_pools *pools, unsigned on,
				      uint64_t bytes)
{
	struct kilni_slice slice = { 0 };

	ck_assert_int_eq(try_take(pools, on, bytes, false, &slice), KILN_OK);
	ck_assert_uint_eq(slice.bytes, bytes);
	return slice;
}

static inline struct kilni_slice keep(struct kilni_pools *pools,
				      uint64_t bytes)
{
	struct kilni_slice slice = { 0 };

	ck_assert_int_eq(try_take(pools, 0, bytes, true, &slice), KILN_OK);
	return slice;
}

/* Freed, last used by a new piece of work on a stream. */
static inline void give(struct kilni_pools *pools, struct kilni_slice *slice,
			unsigned last)
{
	struct kilni_use use = fake_work(last);

	kilni_pools_free(pools, slice, &use, 1);
	usage_of(pools);
}

/* Freed; what used it has completed. */
static inline void give_done(struct kilni_pools *pools,
			     struct kilni_slice *slice)
{
	kilni_pools_free(pools, slice, NULL, 0);
	usage_of(pools);
}

static inline void pools_done(struct fake_hw *hw, struct kilni_pools *pools)
{
	unsigned i;

	for (i = 0; i < FAKE_STREAMS; i++)
		fake_complete(i);
	ck_assert_uint_eq(usage_of(pools).allocations, 0);
	kilni_pools_destroy(pools);
	ck_assert_uint_eq(hw->held, 0);
}

#endif
