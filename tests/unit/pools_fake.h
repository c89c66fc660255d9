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

static const struct kilni_memory_ops fake_memory = {
	.limits = fake_limits,
	.page_alloc = fake_page_alloc,
	.page_free = fake_page_free,
};

static const struct kilni_driver fake_driver = {
	.abi = KILNI_DRIVER_ABI,
	.size = sizeof(fake_driver),
	.name = "fake",
	.memory = &fake_memory,
};

static struct fake_hw fake_hw(uint64_t total)
{
	return (struct fake_hw){
		.hw = { .driver = &fake_driver },
		.limits = { .alignment = 64,
			    .page_granularity = 4096,
			    .max_page_bytes = UINT64_C(1) << 44,
			    .total_bytes = total },
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
	uint64_t *behind = &waiting->behind[waited - fake_streams];

	if (fake_order_fails)
		return kilni_fail(KILN_ERR_BUSY, 0, "fake: cannot order");
	if (waiting == waited)
		ck_abort_msg("a stream is ordered behind itself");
	atomic_fetch_add(&fake_orders, 1);
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

static inline struct kilni_pools *pools_new(struct fake_hw *hw, uint64_t page,
					    uint64_t cap)
{
	struct kilni_pools_config config = { .page_bytes = page,
					     .cap_bytes = cap };
	struct kilni_pools *pools = NULL;

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
