/* SPDX-License-Identifier: Apache-2.0 */
/* Pools whose memory is mapped; layouts, caps and pins. */

#include "tests/unit/pools_fake.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/internal.h"
#include "base/poison.h"
#include "drivers/null/null.h"
#include "tests/unit/drv_rig.h"

static struct fake_hw hw;
static struct kilni_pools *pools;

static void set_up(void)
{
	fake_reset();
	fake_mode = FAKE_MAPPED;
	hw = fake_hw(16 * GiB);
	unsetenv("KILN_POOL_LAYOUT");
	unsetenv("KILN_POOL_CAP_BYTES");
	unsetenv("KILN_PAGES");
}

static const char *message(void)
{
	return kiln_error_message();
}

static struct kiln_memory_calls calls_of(struct kilni_pools *of)
{
	struct kiln_memory_calls calls;

	kilni_pools_calls(of, &calls);
	return calls;
}

static struct kilni_pools *pools_with(const struct kilni_pools_config *config)
{
	struct kilni_pools *made = NULL;

	ck_assert_int_eq(kilni_pools_create(&made, &hw.hw, &fake_stream_ops,
					    config),
			 KILN_OK);
	return made;
}

/* ---- moving ---- */

/* P01: what no ladder can do without a hole that is large enough. */
START_TEST(scattered_memory_becomes_one_range)
{
	struct kilni_slice slice[16], wide[4];
	struct kiln_memory_calls calls;
	unsigned i;

	pools = pools_new(&hw, 0, GiB);
	for (i = 0; i < 16; i++)
		slice[i] = take(pools, 0, 64 * MiB);
	for (i = 0; i < 16; i += 2)
		give(pools, &slice[i], 0);
	fake_complete(0);
	calls = calls_of(pools);
	for (i = 0; i < 4; i++)
		wide[i] = take(pools, 0, 128 * MiB);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, GiB);
	/* What there was has moved: nothing came and nothing went. */
	ck_assert_uint_eq(calls_of(pools).map_create, calls.map_create);
	ck_assert_uint_eq(calls_of(pools).map_destroy, calls.map_destroy);
	ck_assert_uint_gt(calls_of(pools).map_detach, calls.map_detach);
	for (i = 0; i < 4; i++)
		give(pools, &wide[i], 0);
	for (i = 1; i < 16; i += 2)
		give(pools, &slice[i], 0);
	fake_complete(0);
	wide[0] = take(pools, 0, GiB);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, GiB);
	give(pools, &wide[0], 0);
	pools_done(&hw, pools);
	ck_assert_uint_eq(fake_reserved, 0);
}
END_TEST

/* Whether moves would have been possible, work that is pending forbids them. */
START_TEST(nothing_moves_before_its_work_is_done)
{
	struct kilni_slice slice[16], wide = { 0 };
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < 16; i++)
		slice[i] = take(pools, 0, 64 * MiB);
	for (i = 0; i < 16; i += 2)
		give(pools, &slice[i], 1);
	wide = take(pools, 0, 128 * MiB);
	ck_assert_uint_eq(calls_of(pools).map_detach, 0);
	give(pools, &wide, 0);
	for (i = 1; i < 16; i += 2)
		give(pools, &slice[i], 0);
	pools_done(&hw, pools);
}
END_TEST

/* Work on a neighbour's memory holds that alone. */
START_TEST(each_object_waits_for_itself)
{
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 0);
	a = take(pools, 1, 64 * MiB);
	b = take(pools, 2, 64 * MiB);
	give(pools, &a, 1);
	give(pools, &b, 2);
	fake_complete(2);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 64 * MiB);
	ck_assert_uint_eq(calls_of(pools).map_destroy, 1);
	pools_done(&hw, pools);
}
END_TEST

/* What is left of a free range when an object goes is still to be filled. */
START_TEST(what_stays_is_filled_in_time)
{
	struct kilni_pools_config config = { .fill = true };
	const unsigned char *at;
	struct kilni_slice a, b;

	hw.real = true;
	hw.limits.host_visible = true;
	pools = pools_with(&config);
	a = take(pools, 1, 64 * MiB);
	b = take(pools, 2, 64 * MiB);
	ck_assert_uint_eq(b.address, a.address + 64 * MiB);
	at = (const unsigned char *)(uintptr_t)b.address;
	memset((void *)(uintptr_t)b.address, 1, 64 * MiB);
	give(pools, &a, 1);
	give(pools, &b, 2);
	fake_complete(1);
	ck_assert_int_eq(kilni_pools_trim(pools, 64 * MiB), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 64 * MiB);
	fake_complete(2);
	kilni_pools_report(pools, NULL, 0);
	if (!KILNI_ASAN)
		ck_assert(at[0] == KILNI_FILL_FREED &&
			  at[64 * MiB - 1] == KILNI_FILL_FREED);
	pools_done(&hw, pools);
}
END_TEST

/*
 * Memory that still waits to be filled may become a page of small slices: of
 * the same stream, which need not wait for the work. They are not filled with
 * it when the work is done.
 */
START_TEST(small_slices_in_memory_that_is_to_be_filled)
{
	struct kilni_pools_config config = { .fill = true };
	struct kilni_slice large, small[2];
	unsigned i;

	hw.real = true;
	hw.limits.host_visible = true;
	pools = pools_with(&config);
	large = take(pools, 1, 64 * MiB);
	give(pools, &large, 1);
	for (i = 0; i < 2; i++) {
		small[i] = take(pools, 1, 1000);
		ck_assert_uint_ge(small[i].address, large.address);
		ck_assert_uint_lt(small[i].address, large.address + 64 * MiB);
		memset((void *)(uintptr_t)small[i].address, 3 + (int)i, 1000);
	}
	fake_complete(1);
	/* All that is due is filled now, freed slices too. */
	give_done(pools, &small[1]);
	kilni_pools_report(pools, NULL, 0);
	for (i = 0; i < 1000; i++)
		ck_assert_uint_eq(
			((unsigned char *)(uintptr_t)small[0].address)[i], 3);
	if (!kilni_poison_works())
		ck_assert_uint_eq(*(unsigned char *)(uintptr_t)small[1].address,
				  KILNI_FILL_FREED);
	give_done(pools, &small[0]);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(pinned_memory_stays)
{
	struct kilni_slice slice[4], small, wide;
	unsigned i;

	pools = pools_new(&hw, 0, 256 * MiB);
	for (i = 0; i < 4; i++)
		slice[i] = take(pools, 0, 64 * MiB);
	kilni_pools_pin(pools, &slice[1]);
	kilni_pools_pin(pools, &slice[1]);
	for (i = 0; i < 4; i++)
		give(pools, &slice[i], 0);
	fake_complete(0);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 64 * MiB);
	kilni_pools_unpin(pools, &slice[1]);
	/* It may be used where it is. */
	wide = take(pools, 0, 256 * MiB);
	ck_assert(wide.address <= slice[1].address &&
		  slice[1].address + 64 * MiB <= wide.address + 256 * MiB);
	give_done(pools, &wide);
	fake_complete(0);
	kilni_pools_unpin(pools, &slice[1]);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	/* On a page of small slices, and in a pool of the driver's pages. */
	for (i = 0; i < 2; i++) {
		small = i ? keep(pools, 100) : take(pools, 0, 100);
		kilni_pools_pin(pools, &small);
		give_done(pools, &small);
		ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
		ck_assert_uint_gt(usage_of(pools).reserved_bytes, 0);
		kilni_pools_unpin(pools, &small);
		ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
		ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	}
	pools_done(&hw, pools);
}
END_TEST

/* ---- growing and shrinking ---- */

START_TEST(a_small_program_takes_little)
{
	struct kilni_slice a, b;

	pools = pools_new(&hw, 0, 0);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	a = take(pools, 0, 100);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 2 * MiB);
	b = take(pools, 0, 5 * MiB);
	ck_assert_uint_le(usage_of(pools).reserved_bytes, 8 * MiB);
	give(pools, &a, 0);
	give(pools, &b, 0);
	pools_done(&hw, pools);
}
END_TEST

static uint64_t next_number(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* One step of a program: 200 requests, half of them given back at once. */
static void step(uint64_t seed)
{
	struct kilni_slice slices[200];
	unsigned i;

	for (i = 0; i < 200; i++) {
		slices[i] = take(pools, 0,
				 1 + next_number(&seed) %
					     (UINT64_C(1) << i % 26));
		if (i & 1)
			give_done(pools, &slices[i]);
	}
	for (i = 0; i < 200; i += 2)
		give_done(pools, &slices[i]);
}

/* What a program does again and again asks the driver for nothing. */
START_TEST(steady_work_makes_no_calls)
{
	uint64_t calls = 0;
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < 60; i++) {
		if (i == 30)
			calls = hw.calls;
		step(7);
	}
	ck_assert_uint_eq(hw.calls, calls);
	pools_done(&hw, pools);
}
END_TEST

/* Even where each step differs a little, memory is not given back in vain. */
START_TEST(work_that_varies_settles)
{
	struct kiln_memory_calls calls;
	uint64_t seed = 99, before = 0;
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	for (i = 0; i < 120; i++) {
		if (i == 60)
			before = calls_of(pools).map_destroy;
		step(next_number(&seed));
	}
	calls = calls_of(pools);
	ck_assert_uint_le(calls.map_destroy - before, 10);
	ck_assert_uint_le(usage_of(pools).peak_reserved_bytes,
			  usage_of(pools).peak_live_bytes * 5 / 4 + 8 * MiB);
	pools_done(&hw, pools);
}
END_TEST

/* ---- falling back ---- */

START_TEST(refused_addresses_mean_pages)
{
	struct kilni_slice a;

	kilni_fault_set("map_reserve", 1, KILN_ERR_OUT_OF_MEMORY);
	pools = pools_new(&hw, 0, 0);
	ck_assert_ptr_nonnull(strstr(kilni_pools_mapping(pools), "plain: "));
	ck_assert_ptr_nonnull(strstr(kilni_pools_mapping(pools), "refused"));
	ck_assert_int_eq(kiln_error_status(), KILN_OK);
	a = take(pools, 0, 100 * MiB);
	ck_assert_uint_eq(calls_of(pools).map_create, 0);
	ck_assert_uint_eq(calls_of(pools).page_alloc, 1);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(plain_pages_by_choice)
{
	struct kilni_pools_config config = { .plain = true };
	struct kilni_slice a;

	pools = pools_with(&config);
	ck_assert_str_eq(kilni_pools_mapping(pools), "plain: as asked for");
	a = take(pools, 0, 100 * MiB);
	ck_assert_uint_eq(calls_of(pools).map_create, 0);
	ck_assert_uint_eq(fake_reserved, 0);
	give(pools, &a, 0);
	pools_done(&hw, pools);
}
END_TEST

static const char *const sites[] = { "page_alloc", "map_create", "map_attach",
				     "map_detach" };

/* Many ways to need the driver; every request may fail. */
static unsigned needy_work(void)
{
	struct kilni_slice slice[12] = { { 0 } }, wide = { 0 };
	unsigned i, failed = 0;

	for (i = 0; i < 12; i++)
		failed += try_take(pools, 0, (16 + i) * MiB, false,
				   &slice[i]) != KILN_OK;
	for (i = 0; i < 12; i += 2)
		if (slice[i].block)
			give_done(pools, &slice[i]);
	failed += try_take(pools, 0, 96 * MiB, false, &wide) != KILN_OK;
	if (wide.block)
		give_done(pools, &wide);
	for (i = 0; i < 12; i += 2) {
		slice[i] = (struct kilni_slice){ 0 };
		failed += try_take(pools, 0, i ? i * 300 * KiB : 10, i == 4,
				   &slice[i]) != KILN_OK;
	}
	for (i = 0; i < 12; i++)
		if (slice[i].block)
			give_done(pools, &slice[i]);
	return failed;
}

START_TEST(a_fault_at_every_call)
{
	enum kiln_status status = _i & 1 ? KILN_ERR_OUT_OF_MEMORY
					 : KILN_ERR_DEVICE_LOST;
	const char *site = sites[_i / 2];
	struct kilni_slice after;
	uint64_t nth, passes;

	for (nth = 1;; nth++) {
		hw.next = UINT64_C(1) << 40;
		pools = pools_new(&hw, 0, 320 * MiB);
		ck_assert_int_eq(kilni_fault_set(site, nth, status), KILN_OK);
		(void)needy_work();
		passes = kilni_fault_passes();
		kilni_fault_set(NULL, 0, KILN_OK);
		/* The next calls work, and nothing was lost. */
		after = take(pools, 0, 200 * MiB);
		give_done(pools, &after);
		ck_assert_uint_eq(needy_work(), 0);
		ck_assert_uint_eq(usage_of(pools).reserved_bytes, hw.held);
		ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
		ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
		pools_done(&hw, pools);
		ck_assert_uint_eq(hw.held, 0);
		if (passes < nth)
			break;
	}
	ck_assert_uint_gt(nth, 1);
}
END_TEST

/* ---- the drivers ---- */

static struct kilni_pools *pools_on(struct kilni_hw *on, uint64_t cap)
{
	struct kilni_pools_config config = { .cap_bytes = cap };
	struct kilni_pools *made = NULL;

	ck_assert_int_eq(kilni_pools_create(&made, on, &fake_stream_ops,
					    &config),
			 KILN_OK);
	return made;
}

static void fill(const struct kilni_slice *slice, unsigned char value)
{
	memset((void *)(uintptr_t)slice->address, value, slice->bytes);
}

static bool holds(const struct kilni_slice *slice, unsigned char value)
{
	const unsigned char *at = (void *)(uintptr_t)slice->address;
	uint64_t i;

	for (i = 0; i < slice->bytes; i++)
		if (at[i] != value)
			return false;
	return true;
}

/* On the CPU: neighbours keep what they hold while memory moves around them,
 * and what was moved can be written. */
START_TEST(contents_stay_while_memory_moves)
{
	struct kilni_hw *cpu = rig_open("cpu");
	struct kilni_slice slice[24], wide;
	unsigned i, round;

	pools = pools_on(cpu, 128 * MiB);
	ck_assert_str_eq(kilni_pools_mapping(pools), "mapped");
	for (i = 0; i < 24; i++) {
		slice[i] = take(pools, 0, 4 * MiB - 1000 * (i % 3));
		fill(&slice[i], (unsigned char)(i + 1));
	}
	for (round = 0; round < 3; round++) {
		for (i = round % 2; i < 24; i += 2)
			give_done(pools, &slice[i]);
		wide = take(pools, 0, (12 + 4 * round) * MiB);
		fill(&wide, 0xee);
		for (i = 1 - round % 2; i < 24; i += 2)
			ck_assert(holds(&slice[i], (unsigned char)(i + 1)));
		ck_assert(holds(&wide, 0xee));
		give_done(pools, &wide);
		for (i = round % 2; i < 24; i += 2) {
			slice[i] = take(pools, 0, 4 * MiB - 1000 * (i % 3));
			fill(&slice[i], (unsigned char)(i + 1));
		}
	}
	ck_assert_uint_gt(calls_of(pools).map_detach, 0);
	for (i = 0; i < 24; i++) {
		ck_assert(holds(&slice[i], (unsigned char)(i + 1)));
		give_done(pools, &slice[i]);
	}
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	kilni_pools_destroy(pools);
	rig_close(cpu);
}
END_TEST

/* The null driver counts what the pools say they called. */
START_TEST(the_null_driver_counts)
{
	struct kilni_hw *null = rig_open("null");
	struct kilni_null_hw *counted = (struct kilni_null_hw *)null;
	struct kiln_memory_calls calls;
	uint64_t seed = 3;
	unsigned i;

	pools = pools_on(null, 512 * MiB);
	for (i = 0; i < 20; i++)
		step(next_number(&seed));
	calls = calls_of(pools);
	ck_assert_uint_gt(calls.map_create, 0);
	ck_assert_uint_eq(calls.map_create, counted->calls.map_create);
	ck_assert_uint_eq(calls.map_destroy, counted->calls.map_destroy);
	ck_assert_uint_eq(calls.map_attach, counted->calls.map_attach);
	ck_assert_uint_eq(calls.map_detach, counted->calls.map_detach);
	ck_assert_uint_eq(counted->taken_bytes, usage_of(pools).reserved_bytes);
	ck_assert_uint_eq(counted->attached_bytes, counted->taken_bytes);
	kilni_pools_destroy(pools);
	ck_assert_uint_eq(counted->taken_bytes, 0);
	ck_assert_uint_eq(counted->calls.map_reserve, 1);
	ck_assert_uint_eq(counted->calls.map_unreserve, 1);
	rig_close(null);
}
END_TEST

/* ---- layouts ---- */

static const struct {
	const char *text;
	unsigned rungs;
	struct kilni_pools_rung rung[2];
} layouts[] = {
	{ "2M:64K", 1, { { 2 * MiB, 64 * KiB, 0 } } },
	{ "2M:64K,64M:16M:1G",
	  2,
	  { { 2 * MiB, 64 * KiB, 0 }, { 64 * MiB, 16 * MiB, GiB } } },
	{ "4096:4096:4096", 1, { { 4096, 4096, 4096 } } },
	{ "1m:1k,1M:2K", 2, { { MiB, KiB, 0 }, { MiB, 2 * KiB, 0 } } },
};

START_TEST(layouts_are_read)
{
	struct kilni_pools_config config = { .plain = false };
	unsigned i;

	ck_assert_int_eq(kilni_pools_parse_layout("X", layouts[_i].text,
						  &config),
			 KILN_OK);
	ck_assert_uint_eq(config.rungs, layouts[_i].rungs);
	for (i = 0; i < config.rungs; i++)
		ck_assert_mem_eq(&config.rung[i], &layouts[_i].rung[i],
				 sizeof(config.rung[i]));
}
END_TEST

static const struct {
	const char *text, *says;
} malformed[] = {
	{ "", "character 1: a size" },
	{ "2M", "character 3: ':'" },
	{ "2M:", "character 4: a size" },
	{ "2M:64K,", "character 8: a size" },
	{ "2M:64K;4M:1M", "character 7: ','" },
	{ "2M:64K:0", "character 9: a cap of 0" },
	{ "2M:64K:1M", "character 1: the cap is less" },
	{ "64K:2M", "character 1: the largest slice is larger" },
	{ "2M:64K,4M:64K", "character 8: slices do not rise" },
	{ "2M:0", "character 1: the largest slice is 0" },
	{ "2M:64Q", "character 6: ','" },
	{ "-1:1", "character 1: a size" },
	{ "99999999999999999999:1", "character 1: a size" },
	{ "17000000T:1", "character 1: a size" },
	{ "2:1,3:2,4:3,5:4,6:5,7:6,8:7,9:8,10:9", "too many" },
};

START_TEST(malformed_layouts_are_quoted)
{
	struct kilni_pools_config config = { .plain = false };

	ck_assert_int_eq(kilni_pools_parse_layout("NAME", malformed[_i].text,
						  &config),
			 KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message(), "NAME"));
	ck_assert_ptr_nonnull(strstr(message(), malformed[_i].text));
	ck_assert_msg(strstr(message(), malformed[_i].says), "%s", message());
}
END_TEST

START_TEST(a_layout_is_installed)
{
	struct kilni_pools_config config = {
		.rungs = 2,
		.rung = { { MiB, 16 * KiB, 0 }, { 8 * MiB, 2 * MiB, 16 * MiB } },
	};
	struct kilni_slice a, b[8], c = { 0 };
	struct kiln_pool_info infos[4];
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	a = take(pools, 0, 5 * MiB);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config), KILN_ERR_BUSY);
	ck_assert_ptr_nonnull(strstr(message(), "1 slices of 5242880 bytes"));
	give(pools, &a, 0);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config), KILN_ERR_BUSY);
	ck_assert_ptr_nonnull(strstr(message(), "used by queued work"));
	a = take(pools, 0, 5 * MiB);
	give(pools, &a, 0);
	fake_complete(0);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config), KILN_OK);
	ck_assert_uint_eq(usage_of(pools).reserved_bytes, 0);
	ck_assert_uint_eq(fake_reserved, 0);
	ck_assert_uint_eq(kilni_pools_report(pools, infos, 4), 2);
	ck_assert_uint_eq(infos[0].page_bytes, MiB);
	ck_assert_uint_eq(infos[0].max_slice_bytes, 16 * KiB);
	ck_assert_uint_eq(infos[1].cap_bytes, 16 * MiB);
	/* The rung's cap is usable to the last byte, and then it is the end. */
	for (i = 0; i < 8; i++)
		b[i] = take(pools, 0, 2 * MiB);
	ck_assert_int_eq(try_take(pools, 0, 2 * MiB, false, &c),
			 KILN_ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(message(), "free 0, largest hole 0, cap "
						"16777216 of the pool up to "
						"2097152; pools:"));
	kilni_pools_report(pools, infos, 4);
	ck_assert_uint_eq(infos[1].live_bytes, 16 * MiB);
	ck_assert_uint_eq(infos[1].pages, 2);
	/* Others go on. */
	c = take(pools, 0, 3 * MiB);
	a = take(pools, 0, 16 * KiB);
	for (i = 0; i < 8; i++)
		give_done(pools, &b[i]);
	give_done(pools, &a);
	give_done(pools, &c);
	/* And back to the default. */
	config.rungs = 0;
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config), KILN_OK);
	ck_assert_str_eq(kilni_pools_mapping(pools), "mapped");
	step(5);
	pools_done(&hw, pools);
}
END_TEST

/* A page is rounded up, and yet it fits the request that it was taken for. */
START_TEST(exclusive_pages_are_used_again)
{
	struct kilni_pools_config config = {
		.rungs = 1,
		.rung = { { 2 * MiB, 64 * KiB, 0 } },
	};
	static const uint64_t sizes[] = { 200704, 401408, 1000000, 3000000 };
	struct kilni_slice slice;
	uint64_t calls = 0;
	unsigned i;

	pools = pools_new(&hw, 0, 0);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config), KILN_OK);
	for (i = 0; i < 400; i++) {
		slice = take(pools, 0, sizes[i % KILNI_COUNTOF(sizes)]);
		give_done(pools, &slice);
		if (i == KILNI_COUNTOF(sizes))
			calls = usage_of(pools).driver_calls;
	}
	ck_assert_uint_eq(usage_of(pools).driver_calls, calls);
	ck_assert_uint_le(usage_of(pools).reserved_bytes, 8 * MiB);
	step(5);
	pools_done(&hw, pools);
}
END_TEST

/* More than the cap is refused before anything is taken for it. */
START_TEST(a_hopeless_request_takes_nothing)
{
	struct kilni_slice slice, none = { 0 };
	struct kiln_memory_usage before;

	pools = pools_new(&hw, 0, GiB);
	slice = take(pools, 0, 100 * MiB);
	before = usage_of(pools);
	ck_assert_int_eq(try_take(pools, 0, GiB - 100 * MiB + 1, false, &none),
			 KILN_ERR_LIMIT);
	ck_assert_int_eq(try_take(pools, 0, 3 * GiB, false, &none),
			 KILN_ERR_LIMIT);
	ck_assert_uint_eq(usage_of(pools).driver_calls, before.driver_calls);
	ck_assert_uint_eq(usage_of(pools).peak_reserved_bytes,
			  before.peak_reserved_bytes);
	give_done(pools, &slice);
	pools_done(&hw, pools);
}
END_TEST

/* Another thread asks for a layout while a request waits for frees. */
static struct kilni_pools_config meanwhile;

static enum kiln_status wait_and_change(const struct kilni_use *use)
{
	enum kiln_status status = fake_wait(use);

	ck_assert_int_eq(kilni_pools_set_layout(pools, &meanwhile),
			 KILN_ERR_BUSY);
	ck_assert_msg(strstr(message(), "waits for memory"), "%s", message());
	return status;
}

START_TEST(no_layout_while_a_request_waits)
{
	static struct kilni_stream_ops ops;
	struct kilni_pools_config config = { .cap_bytes = GiB, .plain = true };
	struct kilni_slice a, b = { 0 };

	ops = fake_stream_ops;
	ops.wait = wait_and_change;
	meanwhile = (struct kilni_pools_config){
		.rungs = 1,
		.rung = { { MiB, MiB, 0 } },
	};
	ck_assert_int_eq(kilni_pools_create(&pools, &hw.hw, &ops, &config),
			 KILN_OK);
	a = take(pools, 1, 800 * MiB);
	give(pools, &a, 1);
	ck_assert_int_eq(try_take(pools, 0, 900 * MiB, true, &b), KILN_OK);
	ck_assert_uint_eq(atomic_load(&fake_waits), 1);
	give_done(pools, &b);
	fake_complete(1);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &meanwhile), KILN_OK);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(senseless_layouts_change_nothing)
{
	struct kilni_pools_config config = {
		.rungs = 1,
		.rung = { { MiB, 2 * MiB, 0 } },
	};

	pools = pools_new(&hw, 0, 0);
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config),
			 KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message(), "1048576:2097152"));
	config.rungs = KILNI_RUNGS_MAX + 1;
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config),
			 KILN_ERR_OPTION);
	config = (struct kilni_pools_config){
		.rungs = 1,
		.rung = { { UINT64_C(1) << 50, MiB, 0 } },
	};
	ck_assert_int_eq(kilni_pools_set_layout(pools, &config),
			 KILN_ERR_OPTION);
	ck_assert_str_eq(kilni_pools_mapping(pools), "mapped");
	step(5);
	pools_done(&hw, pools);
}
END_TEST

/* ---- P07 and the environment ---- */

START_TEST(p07_a_fraction_of_the_total)
{
	static const struct {
		const char *text;
		uint64_t cap;
	} good[] = {
		/* 0.15 * 2^34 = 2576980377.6 */
		{ "0.15", 2576980377 },
		{ "0.5", 8 * GiB },
		{ "1.0", 16 * GiB },
		{ "0.25", 4 * GiB },
		{ "65536", 65536 },
		{ "3G", 3 * GiB },
	};
	struct kilni_pools_config config;

	setenv("KILN_POOL_CAP_BYTES", good[_i].text, 1);
	ck_assert_int_eq(kilni_options_check(), KILN_OK);
	ck_assert_int_eq(kilni_pools_configure(&config, 16 * GiB), KILN_OK);
	ck_assert_uint_eq(config.cap_bytes, good[_i].cap);
}
END_TEST

START_TEST(p07_bad_values_are_quoted)
{
	static const char *const bad[] = { "0", "1.5", "abc", "15%", "0.0",
					   "0.", "-0.5", "0,15", "0.15x",
					   "1.0000000001", "0.0000001", "1" };
	struct kilni_pools_config config;
	char quoted[32];

	setenv("KILN_POOL_CAP_BYTES", bad[_i], 1);
	ck_assert_int_eq(kilni_pools_configure(&config, 16 * GiB),
			 KILN_ERR_OPTION);
	snprintf(quoted, sizeof(quoted), "\"%s\"", bad[_i]);
	ck_assert_ptr_nonnull(strstr(message(), "KILN_POOL_CAP_BYTES"));
	ck_assert_ptr_nonnull(strstr(message(), quoted));
}
END_TEST

/* Takes all that its limit leaves; not one byte more. */
static int one_of_six(void)
{
	uint64_t limit = 2576980377 / 4096 * 4096;
	struct kilni_pools_config config;
	struct kilni_slice all, more;
	struct kilni_pools *mine = NULL;
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };

	if (kilni_pools_configure(&config, 16 * GiB) != KILN_OK)
		return 1;
	config.plain = true;
	if (kilni_pools_create(&mine, &hw.hw, &fake_stream_ops, &config) !=
	    KILN_OK)
		return 2;
	kilni_pools_usage(mine, &usage);
	if (usage.reserved_bytes)
		return 3;
	if (kilni_pools_alloc(mine, stream(0), limit, false, &all) != KILN_OK)
		return 4;
	if (kilni_pools_alloc(mine, stream(0), 1, false, &more) !=
	    KILN_ERR_LIMIT)
		return 5;
	return 0;
}

START_TEST(p07_six_processes)
{
	pid_t child[6];
	int i, status;

	setenv("KILN_POOL_CAP_BYTES", "0.15", 1);
	for (i = 0; i < 6; i++) {
		child[i] = fork();
		ck_assert_int_ge(child[i], 0);
		if (!child[i])
			_exit(one_of_six());
	}
	for (i = 0; i < 6; i++) {
		ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
}
END_TEST

START_TEST(the_environment)
{
	struct kilni_pools_config config;

	setenv("KILN_PAGES", "plain", 1);
	setenv("KILN_POOL_LAYOUT", "2M:64K,16M:4M", 1);
	ck_assert_int_eq(kilni_pools_configure(&config, GiB), KILN_OK);
	ck_assert(config.plain);
	ck_assert_uint_eq(config.rungs, 2);
	setenv("KILN_PAGES", "mapped", 1);
	ck_assert_int_eq(kilni_pools_configure(&config, GiB), KILN_OK);
	ck_assert(!config.plain);
	setenv("KILN_PAGES", "both", 1);
	ck_assert_int_eq(kilni_pools_configure(&config, GiB), KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message(), "KILN_PAGES: \"both\""));
	unsetenv("KILN_PAGES");
	setenv("KILN_POOL_LAYOUT", "2M:64K,16M", 1);
	ck_assert_int_eq(kilni_pools_configure(&config, GiB), KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message(), "KILN_POOL_LAYOUT"));
	ck_assert_ptr_nonnull(strstr(message(), "character 11"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools, mapped");
	TCase *tests = tcase_create("map");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, scattered_memory_becomes_one_range);
	tcase_add_test(tests, nothing_moves_before_its_work_is_done);
	tcase_add_test(tests, each_object_waits_for_itself);
	tcase_add_test(tests, what_stays_is_filled_in_time);
	tcase_add_test(tests, small_slices_in_memory_that_is_to_be_filled);
	tcase_add_test(tests, pinned_memory_stays);
	tcase_add_test(tests, a_small_program_takes_little);
	tcase_add_test(tests, steady_work_makes_no_calls);
	tcase_add_test(tests, work_that_varies_settles);
	tcase_add_test(tests, refused_addresses_mean_pages);
	tcase_add_test(tests, plain_pages_by_choice);
	tcase_add_loop_test(tests, a_fault_at_every_call, 0, 8);
	tcase_add_test(tests, contents_stay_while_memory_moves);
	tcase_add_test(tests, the_null_driver_counts);
	tcase_add_loop_test(tests, layouts_are_read, 0,
			    KILNI_COUNTOF(layouts));
	tcase_add_loop_test(tests, malformed_layouts_are_quoted, 0,
			    KILNI_COUNTOF(malformed));
	tcase_add_test(tests, a_layout_is_installed);
	tcase_add_test(tests, exclusive_pages_are_used_again);
	tcase_add_test(tests, a_hopeless_request_takes_nothing);
	tcase_add_test(tests, no_layout_while_a_request_waits);
	tcase_add_test(tests, senseless_layouts_change_nothing);
	tcase_add_loop_test(tests, p07_a_fraction_of_the_total, 0, 6);
	tcase_add_loop_test(tests, p07_bad_values_are_quoted, 0, 12);
	tcase_add_test(tests, p07_six_processes);
	tcase_add_test(tests, the_environment);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
