/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of one stream: sizes, caps, caching, accounting, failures. */

#include "tests/unit/pools_fake.h"

#include "alloc/internal.h"
#include "base/poison.h"
#include "tests/unit/sanitized.h"

static const char *message(void)
{
	return kiln_error_message();
}

static struct kiln_pool_info info_of(struct kilni_pools *pools, size_t index)
{
	struct kiln_pool_info infos[8];
	size_t count = kilni_pools_report(pools, infos, 8);

	count += kilni_pools_special(pools, infos + count, 8 - count);
	ck_assert_uint_lt(index, count);
	return infos[index];
}

static struct kiln_pool_info persistent_of(struct kilni_pools *pools)
{
	struct kiln_pool_info infos[2];

	ck_assert_uint_eq(kilni_pools_special(pools, infos, 2), 2);
	ck_assert_int_eq(infos[1].kind, KILN_POOL_PERSISTENT);
	return infos[1];
}

/* ---- sizes ---- */

START_TEST(sizes_round_trip)
{
	static const uint64_t sizes[] = {
		1, 63, 64, 65, 1000, 4097, 65535, 65536, 65537, MiB - 1, MiB,
		4 * MiB, 4 * MiB + 1, 33 * MiB, 64 * MiB, 64 * MiB + 1, 3 * GiB
	};
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slices[KILNI_COUNTOF(sizes)];
	uint64_t live = 0, reserved;
	unsigned i, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < KILNI_COUNTOF(sizes); i++) {
			slices[i] = take(pools, 0, sizes[i]);
			ck_assert_uint_eq(slices[i].address % 64, 0);
			live += sizes[i];
			ck_assert_uint_eq(usage_of(pools).live_bytes, live);
		}
		reserved = usage_of(pools).reserved_bytes;
		ck_assert_uint_eq(usage_of(pools).allocations, i);
		ck_assert_uint_eq(hw.held, reserved);
		while (i-- > 0) {
			give(pools, &slices[i], 0);
			live -= sizes[i];
		}
		ck_assert_uint_eq(usage_of(pools).cached_bytes, reserved);
	}
	ck_assert_uint_eq(usage_of(pools).driver_calls, hw.calls);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(a_freed_slice_comes_back)
{
	static const uint64_t sizes[] = { 64, 4096, MiB, 8 * MiB, 100 * MiB };
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	unsigned i, k;

	for (i = 0; i < KILNI_COUNTOF(sizes); i++) {
		struct kilni_slice first = take(pools, 0, sizes[i]), again;

		give(pools, &first, 0);
		for (k = 0; k < 3; k++) {
			again = take(pools, 0, sizes[i]);
			ck_assert_uint_eq(again.address, first.address);
			give(pools, &again, 0);
		}
	}
	pools_done(&hw, pools);
}
END_TEST

START_TEST(zero_bytes)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice a = take(pools, 0, 0), b = { 0 };

	ck_assert_int_eq(try_take(pools, 0, 0, true, &b), KILN_OK);
	ck_assert_uint_ne(a.address, 0);
	ck_assert_uint_eq(a.address % 64, 0);
	ck_assert_uint_eq(usage_of(pools).allocations, 2);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	ck_assert_uint_eq(hw.calls, 0);
	give(pools, &a, 0);
	give_done(pools, &b);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(strict_alignment)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools;
	struct kilni_slice slices[64];
	unsigned i;

	hw.limits.alignment = 4096;
	hw.limits.page_granularity = 2 * MiB;
	hw.next = 4 * GiB;
	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < 64; i++) {
		slices[i] = take(pools, 0, 1 + 997 * i * i);
		ck_assert_uint_eq(slices[i].address % 4096, 0);
	}
	for (i = 0; i < 64; i++)
		give(pools, &slices[i * 29 % 64], 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(more_than_4_gib)
{
	struct fake_hw hw = fake_hw(UINT64_C(1) << 42);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice a = take(pools, 0, 5 * GiB);
	struct kilni_slice b = take(pools, 0, 4 * GiB - 1);
	struct kilni_slice c = keep(pools, 6 * GiB + 1);

	ck_assert(b.address >= a.address + 5 * GiB ||
		  a.address >= b.address + 4 * GiB);
	ck_assert_uint_eq(usage_of(pools).live_bytes, 15 * GiB);
	give(pools, &a, 0);
	give(pools, &b, 0);
	give(pools, &c, 0);
	a = take(pools, 0, 5 * GiB - 3);
	ck_assert_uint_ge(usage_of(pools).padding_bytes, 3);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(sizes_that_wrap)
{
	struct fake_hw hw = fake_hw(0);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice = { 0 };
	uint64_t back;

	for (back = 0; back < 5000; back += 7) {
		ck_assert_int_eq(try_take(pools, 0, UINT64_MAX - back,
					  back & 1, &slice),
				 KILN_ERR_OVERFLOW);
	}
	ck_assert_int_eq(try_take(pools, 0, UINT64_MAX / 2, false, &slice),
			 KILN_ERR_LIMIT);
	ck_assert_ptr_null(slice.block);
	slice = take(pools, 0, 100);
	give(pools, &slice, 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- the ladder and its report ---- */

START_TEST(report_in_routing_order)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice small = take(pools, 0, 64 * KiB);
	struct kilni_slice medium = take(pools, 0, 64 * KiB + 1);
	struct kilni_slice large = take(pools, 0, 64 * MiB);
	struct kilni_slice exclusive = take(pools, 0, 65 * MiB);
	struct kilni_slice persistent = keep(pools, 10);
	struct kiln_pool_info info;
	size_t i;

	ck_assert_uint_eq(kilni_pools_report(pools, NULL, 0), 3);
	ck_assert_uint_eq(kilni_pools_special(pools, NULL, 0), 2);
	for (i = 0; i < 5; i++) {
		info = info_of(pools, i);
		ck_assert_uint_eq(info.allocations, 1);
		ck_assert_uint_eq(info.pages, 1);
		ck_assert_uint_eq(info.live_bytes + info.cached_bytes +
					  info.padding_bytes,
				  info.reserved_bytes);
		if (i < 3)
			ck_assert_uint_eq(info.kind, KILN_POOL_SLICED);
		if (i && i < 3)
			ck_assert_uint_lt(info_of(pools, i - 1).page_bytes,
					  info.page_bytes);
	}
	ck_assert_uint_eq(info_of(pools, 3).kind, KILN_POOL_EXCLUSIVE);
	ck_assert_uint_eq(info_of(pools, 3).largest_request_bytes, 65 * MiB);
	ck_assert_uint_eq(persistent_of(pools).kind, KILN_POOL_PERSISTENT);
	ck_assert_uint_eq(info_of(pools, 2).largest_hole_bytes, 0);
	give(pools, &large, 0);
	ck_assert_uint_eq(info_of(pools, 2).largest_hole_bytes, 64 * MiB);
	give(pools, &small, 0);
	give(pools, &medium, 0);
	give(pools, &exclusive, 0);
	give(pools, &persistent, 0);
	pools_done(&hw, pools);
}
END_TEST

/* More of it than 32 bits count. */
START_TEST(padding_of_gibibytes)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice = take(pools, 0, 40 * GiB);
	unsigned i;

	for (i = 0; i < 3; i++) {
		give(pools, &slice, 0);
		slice = take(pools, 0, 34 * GiB + i);
		ck_assert_uint_eq(hw.held, 40 * GiB);
		ck_assert_uint_eq(usage_of(pools).live_bytes, 34 * GiB + i);
		ck_assert_uint_eq(usage_of(pools).padding_bytes, 6 * GiB - i);
		ck_assert(kilni_pools_verify(pools));
	}
	give(pools, &slice, 0);
	ck_assert_uint_eq(usage_of(pools).live_bytes, 0);
	pools_done(&hw, pools);
}
END_TEST

/* In the first pool, where all has one size; a report would merge more. */
static uint64_t free_bytes(const struct kilni_pools *pools)
{
	struct kilni_block *root = pools->pool[0].tree;
	const struct kilni_block *block = kilni_tree_fit(root, 0);
	uint64_t bytes = 0;

	for (; block; block = kilni_tree_next(root, block))
		bytes += block->size;
	return bytes;
}

/* take() and give() walk everything. */
static void take_quickly(struct kilni_pools *pools, uint64_t bytes,
			 struct kilni_slice *slice)
{
	ck_assert_int_eq(kilni_pools_alloc(pools, stream(0), bytes, false,
					   slice), KILN_OK);
}

/* As much as is live in turn is never merged. */
START_TEST(what_goes_round_stays_kept)
{
	static struct kilni_slice slices[2000];
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	uint64_t rest = 0;
	unsigned i, round, live = 125 * (unsigned)_i;

	for (round = 0; round < 8; round++) {
		for (i = 0; i < live; i++) {
			take_quickly(pools, 4096, &slices[i]);
			if (round && i % 16 == 15)
				ck_assert_uint_eq(free_bytes(pools), rest);
		}
		usage_of(pools);
		rest = free_bytes(pools);
		while (i-- > 0) {
			const struct kilni_use use = fake_work(0);

			kilni_pools_free(pools, &slices[i], &use, 1);
		}
		usage_of(pools);
		fake_complete(0);
	}
	pools_done(&hw, pools);
}
END_TEST

static uint64_t binned(const struct kilni_pools *pools)
{
	const struct kilni_bin *bin;
	uint64_t magazines = 0;
	unsigned i;

	for (i = 0; i < KILNI_BINS; i++)
		for (bin = pools->bin[i]; bin; bin = bin->next)
			magazines += bin->count;
	return magazines * KILNI_MAGAZINE;
}

static void shuffle(struct kilni_slice *slices, unsigned count)
{
	unsigned i;

	srandom(7);
	while (count-- > 1) {
		struct kilni_slice slice = slices[count];

		i = (unsigned)random() % (count + 1);
		slices[count] = slices[i];
		slices[i] = slice;
	}
}

/* What many small slices left behind is merged a little at a time, be it that
 * another size grows (_i 0) or that nobody needs them any more (_i 1). */
START_TEST(merging_in_portions)
{
	enum { MOST = 50000 };
	static struct kilni_slice slices[MOST];
	const unsigned many = IS_SLOW ? 5000 : MOST;
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	const struct kilni_use use = fake_work(0);
	uint64_t before, after;
	unsigned i, live = _i ? 1 : many;

	fake_complete(0);
	for (i = 0; i < many; i++)
		take_quickly(pools, 64, &slices[i]);
	shuffle(slices, many);
	for (i = 0; i < many; i++)
		kilni_pools_free(pools, &slices[i], &use, 1);
	memset(slices, 0, sizeof(slices));
	before = binned(pools);
	ck_assert_uint_gt(before, many / 10 * 9);
	for (i = 0; before && i < 20 * many; i++, before = after) {
		struct kilni_slice *slice = &slices[i % live];

		if (slice->block)
			kilni_pools_free(pools, slice, &use, 1);
		take_quickly(pools, 20000, slice);
		after = binned(pools);
		ck_assert_uint_le(after, before);
		ck_assert_uint_le(before - after,
				  KILNI_MERGED_MOST + KILNI_MAGAZINE);
	}
	ck_assert_uint_eq(before, 0);
	ck_assert(kilni_pools_verify(pools));
	for (i = 0; i < live && slices[i].block; i++)
		kilni_pools_free(pools, &slices[i], &use, 1);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(small_pages_make_a_short_ladder)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 64 * KiB, 0);
	struct kilni_slice a = take(pools, 0, 100);
	struct kilni_slice b = take(pools, 0, 64 * KiB);
	struct kilni_slice c = take(pools, 0, 64 * KiB + 1);

	ck_assert_uint_eq(kilni_pools_report(pools, NULL, 0), 1);
	ck_assert_uint_eq(info_of(pools, 0).pages, 2);
	ck_assert_uint_eq(info_of(pools, 1).pages, 1);
	give(pools, &a, 0);
	give(pools, &b, 0);
	give(pools, &c, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(bad_configuration)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools_config config = { .cap_bytes = 4095 };
	struct kilni_pools *pools = NULL;

	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &fake_stream_ops,
					    &config),
			 KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message(), "4095"));
	config = (struct kilni_pools_config){ .page_bytes = UINT64_MAX };
	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &fake_stream_ops,
					    &config),
			 KILN_ERR_OPTION);
	hw.limits.alignment = 48;
	config = (struct kilni_pools_config){ .cap_bytes = 0 };
	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &fake_stream_ops,
					    &config),
			 KILN_ERR_INTERNAL);
	ck_assert_ptr_null(pools);
}
END_TEST

START_TEST(best_fit_and_merging)
{
	static const uint64_t sizes[] = { 5, 7, 6, 8, 6, 9 };
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice[6], fit;
	unsigned i;

	for (i = 0; i < 6; i++)
		slice[i] = take(pools, 0, sizes[i] * MiB);
	give(pools, &slice[4], 0);
	give(pools, &slice[2], 0);
	give(pools, &slice[0], 0);
	/* The smallest hole that is large enough, the lowest of equals. */
	fit = take(pools, 0, 11 * MiB / 2);
	ck_assert_uint_eq(fit.address, slice[2].address);
	give(pools, &fit, 0);
	/* Three neighbours become one hole of 18 MiB. */
	give(pools, &slice[1], 0);
	fit = take(pools, 0, 18 * MiB);
	ck_assert_uint_eq(fit.address, slice[0].address);
	give(pools, &fit, 0);
	give(pools, &slice[3], 0);
	give(pools, &slice[5], 0);
	ck_assert_uint_eq(info_of(pools, 2).largest_hole_bytes, 64 * MiB);
	ck_assert_uint_eq(info_of(pools, 2).pages, 1);
	pools_done(&hw, pools);
}
END_TEST

/* ---- P01 ---- */

START_TEST(p01_holes)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, GiB);
	struct kilni_slice slice[16], wide = { 0 };
	enum kiln_status status;
	uint64_t calls;
	unsigned i;

	for (i = 0; i < 16; i++)
		slice[i] = take(pools, 0, 64 * MiB);
	for (i = 0; i < 16; i += 2)
		give(pools, &slice[i], 0);
	/* Pages of which nothing is used make room for a wider one ... */
	fake_complete(0);
	status = try_take(pools, 0, 128 * MiB, false, &wide);
	ck_assert_uint_le(usage_of(pools).reserved_bytes, GiB);
	if (status == KILN_OK) {
		give(pools, &wide, 0);
	} else {
		/* ... but for those of several slices. */
		ck_assert_int_eq(fake_mode, FAKE_SHARED);
		ck_assert_int_eq(status, KILN_ERR_LIMIT);
		ck_assert_ptr_nonnull(strstr(message(), "free 536870912, "
							"largest hole 67108864"));
	}
	/* ... and that one is carved again: no call of the driver. */
	calls = hw.calls;
	for (i = 0; i < 16; i += 2)
		slice[i] = take(pools, 0, 64 * MiB);
	ck_assert_uint_eq(hw.calls, calls);
	for (i = 0; i < 16; i++)
		give(pools, &slice[i], 0);
	fake_complete(0);
	wide = take(pools, 0, GiB);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, GiB);
	give(pools, &wide, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p01_fragments_are_named)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, GiB);
	struct kilni_slice slice[32], wide = { 0 };
	unsigned i;

	for (i = 0; i < 32; i++)
		slice[i] = take(pools, 0, 32 * MiB);
	for (i = 0; i < 32; i += 2)
		give(pools, &slice[i], 0);
	ck_assert_int_eq(try_take(pools, 0, 128 * MiB, false, &wide),
			 KILN_ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(message(), "requested 134217728"));
	ck_assert_ptr_nonnull(strstr(message(), "free 536870912"));
	ck_assert_ptr_nonnull(strstr(message(), "largest hole 33554432"));
	ck_assert_ptr_nonnull(strstr(message(), "cap 1073741824"));
	ck_assert_ptr_nonnull(strstr(message(),
				     "up to 67108864 536870912 of "
				     "1073741824 used"));
	/* The next calls work, without the driver. */
	hw.broken = KILN_ERR_DEVICE_LOST;
	for (i = 0; i < 32; i += 2)
		slice[i] = take(pools, 0, 32 * MiB);
	for (i = 0; i < 32; i++)
		give(pools, &slice[i], 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(a_hole_of_any_pool_serves_in_need)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 64 * MiB);
	struct kilni_slice big = take(pools, 0, 60 * MiB), small[64];
	struct kilni_slice more = { 0 };
	unsigned i;

	/* One page holds the cap; small slices go to its last 4 MiB. */
	for (i = 0; i < 64; i++)
		small[i] = take(pools, 0, 64 * KiB);
	ck_assert_int_eq(try_take(pools, 0, 1, false, &more), KILN_ERR_LIMIT);
	for (i = 0; i < 64; i++)
		give(pools, &small[i], 0);
	give(pools, &big, 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- P02 ---- */

START_TEST(p02_all_of_the_cap)
{
	static const uint64_t first[] = { 0, 256 * KiB, 1000192 };
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 64 * MiB);
	struct kilni_slice slice[8], more = { 0 };
	struct kiln_memory_usage usage;
	unsigned i;

	slice[0] = take(pools, 0, first[_i]);
	give_done(pools, &slice[0]);
	for (i = 0; i < 8; i++)
		slice[i] = take(pools, 0, 8 * MiB);
	ck_assert_int_eq(try_take(pools, 0, 1, false, &more), KILN_ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(message(), "cap 67108864"));
	usage = usage_of(pools);
	ck_assert_uint_eq(usage.live_bytes, 67108864);
	ck_assert_uint_eq(usage.padding_bytes, 0);
	for (i = 0; i < 8; i++)
		give_done(pools, &slice[i]);
	slice[0] = take(pools, 0, first[_i]);
	give_done(pools, &slice[0]);
	slice[0] = take(pools, 0, 64 * MiB);
	give_done(pools, &slice[0]);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p02_odd_caps)
{
	static const uint64_t caps[] = { 4096, 65536, 3 * MiB + 4096 + 77,
					 65 * MiB, 100 * MiB, 333 * MiB };
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, caps[_i]);
	/* A page of small slices in the range serves nothing larger. */
	uint64_t part = fake_mode == FAKE_MAPPED ? 128 * KiB : 4096;
	uint64_t whole = caps[_i] / 4096 * 4096, left = whole;
	uint64_t odd = fake_mode == FAKE_MAPPED && whole > 32 * MiB
			       ? whole % (2 * MiB)
			       : 0;
	struct kilni_slice slice[32];
	unsigned i, count = 0;

	slice[0] = take(pools, 0, whole);
	give(pools, &slice[0], 0);
	fake_complete(0);
	/* Parts that double fill it too; objects do not fill the last 2 MiB. */
	left -= odd;
	while (left) {
		part = kilni_min_u64(part, left);
		slice[count++] = take(pools, 0, part);
		left -= part;
		part *= 2;
	}
	if (odd)
		slice[count++] = take(pools, 0, odd);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, whole);
	for (i = 0; i < count; i++)
		give(pools, &slice[i], 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- P03 ---- */

START_TEST(p03_growing_sizes)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	unsigned s, round;

	for (round = 0; round < 3; round++)
		for (s = 10; s <= 300; s += 10) {
			struct kilni_slice slice = take(pools, 0, s * MiB);

			give(pools, &slice, 0);
			fake_complete(0);
		}
	ck_assert_uint_le(usage_of(pools).peak_reserved_bytes,
			  (300 + 2 * 64) * MiB);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p03_trim_after_a_peak)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice = take(pools, 0, 2 * GiB);
	unsigned i;

	give(pools, &slice, 0);
	fake_complete(0);
	for (i = 0; i < 20; i++) {
		slice = take(pools, 0, 16 * MiB);
		give(pools, &slice, 0);
		fake_complete(0);
	}
	slice = take(pools, 0, 16 * MiB);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	/* What is live, and one page; shared ones have up to 192 MiB. */
	ck_assert_uint_le(usage_of(pools).reserved_bytes,
			  (16 + (fake_mode == FAKE_SHARED ? 192 : 64)) * MiB);
	give(pools, &slice, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p03_idle_pages_go)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice = take(pools, 0, 2 * GiB);
	unsigned i;

	give(pools, &slice, 0);
	for (i = 0; i < 3 * KILNI_IDLE_LIMIT + KILNI_TICK; i++) {
		slice = take(pools, 0, 16 * MiB);
		give(pools, &slice, 0);
		fake_complete(0);
	}
	ck_assert_uint_le(usage_of(pools).reserved_bytes, 256 * MiB);
	ck_assert_uint_le(hw.held, 256 * MiB);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(steady_work_keeps_its_pages)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice wide, other, small;
	uint64_t calls = 0;
	unsigned i, k;

	/* Each step outlasts the first idle limit several times. */
	for (i = 0; i < 40; i++) {
		if (i == 20)
			calls = hw.calls;
		wide = take(pools, 0, 400 * MiB);
		give(pools, &wide, 0);
		other = take(pools, 0, 700 * MiB);
		give(pools, &other, 0);
		for (k = 0; k < 4 * KILNI_IDLE_LIMIT; k++) {
			struct kilni_use use = fake_work(0);

			ck_assert_int_eq(kilni_pools_alloc(pools, stream(0),
							   4096, false,
							   &small),
					 KILN_OK);
			kilni_pools_free(pools, &small, &use, 1);
			fake_complete(0);
		}
	}
	ck_assert_uint_le(hw.calls - calls, 4);
	ck_assert_uint_le(usage_of(pools).peak_reserved_bytes, 1500 * MiB);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(trim_to_a_target)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice[4];
	unsigned i;

	for (i = 0; i < 4; i++)
		slice[i] = take(pools, 0, 100 * MiB);
	for (i = 0; i < 4; i++)
		give_done(pools, &slice[i]);
	ck_assert_int_eq(kilni_pools_trim(pools, 250 * MiB), KILN_OK);
	ck_assert_uint_le(usage_of(pools).reserved_bytes, 250 * MiB);
	ck_assert_uint_gt(usage_of(pools).reserved_bytes,
			  (250 - (fake_mode == FAKE_MAPPED ? 64 : 100)) * MiB);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- P04, persistent slices ---- */

START_TEST(p04_cleaning_up)
{
	static const uint64_t sizes[] = { 1000, 4 * KiB + 1, MiB - 1, MiB,
					  3 * MiB, 33 * MiB, 64 * MiB + 256 };
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice slice[7];
	uint64_t early = 0, during = 0;
	unsigned i, round;

	for (round = 1; round <= 500; round++) {
		for (i = 0; i < 7; i++)
			slice[i] = take(pools, 0, sizes[i]);
		if (round == 10)
			during = usage_of(pools).reserved_bytes;
		if (round > 10)
			ck_assert_uint_eq(usage_of(pools).reserved_bytes,
					  during);
		for (i = 0; i < 7; i++)
			give(pools, &slice[i], 0);
		if (round & 1)
			fake_complete(0);
		ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
		if (round == 10)
			early = usage_of(pools).reserved_bytes;
	}
	ck_assert_uint_le(usage_of(pools).reserved_bytes, early + 64 * MiB);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p04_persistent_comes_back)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice first = keep(pools, 1000), other = keep(pools, 500);
	struct kilni_slice again;

	give(pools, &first, 0);
	again = keep(pools, 1000);
	ck_assert_uint_eq(again.address, first.address);
	ck_assert_uint_eq(persistent_of(pools).allocations, 2);
	ck_assert_uint_eq(persistent_of(pools).pages, 1);
	give(pools, &again, 0);
	give(pools, &other, 0);
	fake_complete(0);
	kilni_pools_trim(pools, 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(persistent_fits_exactly)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice a = keep(pools, 4096), b = keep(pools, 4096), c, d;

	give(pools, &a, 0);
	/* A smaller one does not nibble at it, a temporary even less. */
	c = keep(pools, 64);
	ck_assert_uint_ne(c.address, a.address);
	d = take(pools, 0, 4096);
	ck_assert_uint_ne(d.address, a.address);
	ck_assert_uint_eq(persistent_of(pools).allocations, 2);
	give(pools, &d, 0);
	d = keep(pools, 4096);
	ck_assert_uint_eq(d.address, a.address);
	give(pools, &b, 0);
	give(pools, &c, 0);
	give(pools, &d, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(persistent_shares_no_page)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice mine[40], theirs[40];
	unsigned i;

	for (i = 0; i < 40; i++) {
		mine[i] = keep(pools, 1000 + i * i * 3000);
		theirs[i] = take(pools, 0, 1000 + i * i * 3000);
	}
	for (i = 0; i < 40; i++) {
		const struct kilni_block *a = kilni_block_of(mine[i].block);
		const struct kilni_block *b = kilni_block_of(theirs[i].block);

		ck_assert_int_eq(a->page->pool->kind, KILN_POOL_PERSISTENT);
		ck_assert_int_eq(b->page->pool->kind, KILN_POOL_SLICED);
		give(pools, &theirs[i], 0);
	}
	fake_complete(0);
	kilni_pools_trim(pools, 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes,
			  persistent_of(pools).reserved_bytes);
	for (i = 0; i < 40; i++)
		give(pools, &mine[i], 0);
	pools_done(&hw, pools);
}
END_TEST

/* ---- what the driver refuses ---- */

START_TEST(smaller_pages_where_large_ones_fail)
{
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools;
	struct kilni_slice a, b;

	hw.limits.max_page_bytes = 4294967292;
	hw.refused_above = 20 * MiB;
	pools = pools_new(&hw, 0, 0);
	a = take(pools, 0, 5 * MiB);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 16 * MiB);
	hw.refused_above = GiB;
	b = take(pools, 0, GiB);
	give(pools, &a, 0);
	give(pools, &b, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(p05_page_of_4_gib)
{
	struct fake_hw hw = fake_hw(4133625856);
	struct kilni_pools *pools;
	struct kilni_slice a;

	hw.limits.max_page_bytes = 4294967292;
	hw.physical = 4133625856;
	pools = pools_new(&hw, 4 * GiB, 0);
	a = take(pools, 0, GiB);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(larger_than_any_page)
{
	struct fake_hw hw = fake_hw(64 * GiB);
	struct kilni_pools *pools;
	struct kilni_slice a = { 0 };

	hw.limits.max_page_bytes = 2 * GiB;
	pools = pools_new(&hw, 0, 0);
	ck_assert_int_eq(try_take(pools, 0, 2 * GiB + 1, false, &a),
			 KILN_ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(message(), "2147483648"));
	a = take(pools, 0, 2 * GiB);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(the_driver_has_no_more)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice a, b = { 0 };

	hw.physical = 200 * MiB;
	a = take(pools, 0, 100 * MiB);
	ck_assert_int_eq(try_take(pools, 0, 150 * MiB, false, &b),
			 KILN_ERR_OUT_OF_MEMORY);
	ck_assert_int_eq(kiln_error_native(), 12);
	/* An object may be larger than what it was needed for. */
	ck_assert_ptr_nonnull(strstr(message(),
				     fake_mode == FAKE_MAPPED
					     ? "requested 157286400, free 1258"
					     : "requested 157286400, free 0"));
	give(pools, &a, 0);
	/* What is cached makes room. */
	b = take(pools, 0, 150 * MiB);
	give(pools, &b, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(other_failures_pass_through)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = pools_new(&hw, 0, 0);
	struct kilni_slice a = { 0 };

	hw.broken = KILN_ERR_DEVICE_LOST;
	ck_assert_int_eq(try_take(pools, 0, 100, false, &a),
			 KILN_ERR_DEVICE_LOST);
	ck_assert_uint_eq(hw.calls, 1);
	ck_assert_str_eq(message(), "fake: broken");
	hw.broken = KILN_OK;
	a = take(pools, 0, 100);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

/* Some work that takes pages of every kind; false: an allocation failed. */
static bool some_work(struct kilni_pools *pools)
{
	static const uint64_t sizes[] = { 100, MiB, 10 * MiB, 60 * MiB,
					  100 * MiB, 200 * MiB };
	struct kilni_slice slice[12];
	unsigned i, count = 0;
	bool good = true;

	for (i = 0; i < 12 && good; i++) {
		good = try_take(pools, 0, sizes[i % 6], i >= 6,
				&slice[count]) == KILN_OK;
		count += good;
	}
	for (i = 0; i < count; i++)
		give(pools, &slice[i], 0);
	return good;
}

START_TEST(a_fault_at_every_page)
{
	static const enum kiln_status faults[] = { KILN_ERR_OUT_OF_MEMORY,
						   KILN_ERR_DRIVER };
	struct fake_hw hw = fake_hw(16 * GiB);
	struct kilni_pools *pools;
	uint64_t nth = 0, passes;

	do {
		pools = pools_new(&hw, 0, 0);
		kilni_fault_set("page_alloc", ++nth, faults[_i]);
		/* One refusal is got over, a broken driver is not. */
		if (!some_work(pools)) {
			ck_assert_int_eq(faults[_i], KILN_ERR_DRIVER);
			ck_assert_int_eq(kiln_error_status(), KILN_ERR_DRIVER);
		}
		passes = kilni_fault_passes();
		ck_assert(some_work(pools));
		pools_done(&hw, pools);
	} while (passes >= nth);
	ck_assert_uint_ge(nth, 10);
}
END_TEST

/* ---- the walk ---- */

START_TEST(the_walk_finds_a_difference)
{
	struct kilni_pools_config config = { .verify_every = 4 };
	struct kilni_pools *pools = NULL;
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_slice slice = { 0 };
	enum kiln_status status = KILN_OK;
	unsigned i;

	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &fake_stream_ops,
					    &config),
			 KILN_OK);
	for (i = 0; i < 100; i++) {
		slice = take(pools, 0, 1000);
		give(pools, &slice, 0);
	}
	pools->cache[pools->caches - 1]->account[0].used_bytes++;
	for (i = 0; i < 4 && status == KILN_OK; i++) {
		status = kilni_pools_alloc(pools, stream(0), 1000, false,
					   &slice);
		if (status == KILN_OK)
			kilni_pools_free(pools, &slice, NULL, 0);
	}
	ck_assert_int_eq(status, KILN_ERR_INTERNAL);
	ck_assert_ptr_nonnull(strstr(message(), "walk"));
	pools->cache[pools->caches - 1]->account[0].used_bytes--;
	pools_done(&hw, pools);
}
END_TEST

/* ---- filling ---- */

static const struct kilni_pools *written; /* whose locks are looked at */

/* It may take long: nobody may spin meanwhile. */
static enum kiln_status write_real(struct kilni_hw *hw, uint64_t to,
				   const void *from, uint64_t bytes)
{
	unsigned i;

	(void)hw;
	for (i = 0; i < written->caches; i++)
		ck_assert_int_eq(written->cache[i]->lock, 0);
	memcpy((void *)(uintptr_t)to, from, bytes);
	return KILN_OK;
}

static bool all_are(const unsigned char *at, size_t bytes, int pattern)
{
	size_t i;

	for (i = 0; i < bytes && at[i] == pattern; i++)
		;
	return i == bytes;
}

/* _i: whether the host sees the memory; else the driver writes. */
START_TEST(freed_memory_is_filled)
{
	static struct kilni_memory_ops memory;
	static struct kilni_driver driver;
	struct kilni_pools_config config = { .fill = true };
	struct kilni_pools *pools = NULL;
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_slice a, b;
	unsigned char *at;

	memory = fake_memory;
	memory.write = write_real;
	driver = fake_driver;
	driver.memory = &memory;
	hw.hw.driver = &driver;
	hw.real = true;
	hw.limits.host_visible = _i;
	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &fake_stream_ops,
					    &config),
			 KILN_OK);
	ck_assert(kilni_pools_fill(pools));
	written = pools;
	a = take(pools, 0, 200000);
	at = (unsigned char *)(uintptr_t)a.address;
	memset(at, 1, 200000);
	give(pools, &a, 0);
	if (!KILNI_ASAN || !_i)
		ck_assert(all_are(at, 200000, 1));
	fake_complete(0);
	ck_assert_int_eq(kilni_pools_trim(pools, GiB), KILN_OK);
	if (!KILNI_ASAN || !_i)
		ck_assert(all_are(at, 200000, KILNI_FILL_FREED));
	b = take(pools, 0, 200000);
	memset((unsigned char *)(uintptr_t)b.address, 2, 200000);
	give_done(pools, &b);
	if (!KILNI_ASAN || !_i)
		ck_assert(all_are((unsigned char *)(uintptr_t)b.address, 200000,
				  KILNI_FILL_FREED));
	pools_done(&hw, pools);
}
END_TEST

/* ---- poison ---- */

#if KILNI_ASAN
START_TEST(free_ranges_are_poisoned)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools;
	struct kilni_slice a, b;
	char *at;

	hw.real = true;
	hw.limits.host_visible = true;
	pools = pools_new(&hw, 0, 0);
	a = take(pools, 0, 1000);
	at = (char *)(uintptr_t)a.address;
	memset(at, 1, 1000);
	ck_assert(__asan_address_is_poisoned(at + 1000));
	give_done(pools, &a);
	ck_assert(__asan_address_is_poisoned(at));
	a = take(pools, 0, 1000);
	ck_assert(!__asan_address_is_poisoned(at));
	/* Queued work may still read it. */
	give(pools, &a, 0);
	ck_assert(!__asan_address_is_poisoned(at));
	/* When it has done so, none may. */
	fake_complete(0);
	ck_assert_int_eq(kilni_pools_trim(pools, GiB), KILN_OK);
	ck_assert(__asan_address_is_poisoned(at));
	b = take(pools, 0, 100 * MiB);
	memset((char *)(uintptr_t)b.address, 1, 100 * MiB);
	give_done(pools, &b);
	pools_done(&hw, pools);
}
END_TEST
#endif

static TCase *new_case(Suite *suite, const char *name, void (*mode)(void))
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, mode, NULL);
	tcase_add_checked_fixture(tests, fake_reset, NULL);
	tcase_set_timeout(tests, 120);
	suite_add_tcase(suite, tests);
	return tests;
}

/* What holds however the pools get their memory. */
static void add_common(TCase *tests)
{
	tcase_add_test(tests, sizes_round_trip);
	tcase_add_test(tests, a_freed_slice_comes_back);
	tcase_add_test(tests, zero_bytes);
	tcase_add_test(tests, strict_alignment);
	tcase_add_test(tests, more_than_4_gib);
	tcase_add_test(tests, sizes_that_wrap);
	tcase_add_test(tests, bad_configuration);
	tcase_add_test(tests, p01_holes);
	tcase_add_loop_test(tests, p02_all_of_the_cap, 0, 3);
	tcase_add_loop_test(tests, p02_odd_caps, 0, 6);
	tcase_add_test(tests, p03_growing_sizes);
	tcase_add_test(tests, p03_trim_after_a_peak);
	tcase_add_test(tests, p03_idle_pages_go);
	tcase_add_test(tests, steady_work_keeps_its_pages);
	tcase_add_test(tests, p04_cleaning_up);
	tcase_add_test(tests, p04_persistent_comes_back);
	tcase_add_test(tests, persistent_fits_exactly);
	tcase_add_test(tests, persistent_shares_no_page);
	tcase_add_test(tests, p05_page_of_4_gib);
	tcase_add_test(tests, the_driver_has_no_more);
	tcase_add_test(tests, other_failures_pass_through);
	tcase_add_test(tests, trim_to_a_target);
	tcase_add_test(tests, the_walk_finds_a_difference);
	tcase_add_loop_test(tests, freed_memory_is_filled, 0, 2);
#if KILNI_ASAN
	tcase_add_test(tests, free_ranges_are_poisoned);
#endif
}

/* What holds where pages come from the driver. */
static void add_plain(TCase *tests)
{
	tcase_add_test(tests, larger_than_any_page);
	tcase_add_loop_test(tests, a_fault_at_every_page, 0, 2);
}

int main(void)
{
	Suite *suite = suite_create("pools");
	TCase *ladder = new_case(suite, "ladder", fake_ladder);
	TCase *shared = new_case(suite, "shared pages", fake_shared);
	SRunner *runner = srunner_create(suite);
	int failed;

	add_common(ladder);
	add_plain(ladder);
	tcase_add_test(ladder, smaller_pages_where_large_ones_fail);
	tcase_add_test(ladder, report_in_routing_order);
	tcase_add_test(ladder, padding_of_gibibytes);
	tcase_add_loop_test(ladder, merging_in_portions, 0, 2);
	tcase_add_loop_test(ladder, what_goes_round_stays_kept, 1,
			    17);
	tcase_add_test(ladder, small_pages_make_a_short_ladder);
	tcase_add_test(ladder, best_fit_and_merging);
	tcase_add_test(ladder, p01_fragments_are_named);
	tcase_add_test(ladder, a_hole_of_any_pool_serves_in_need);
	add_common(shared);
	add_plain(shared);
	add_common(new_case(suite, "mapped", fake_mapped));
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
