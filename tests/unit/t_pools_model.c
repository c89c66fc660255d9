/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools beside a model that only keeps lists: the same calls for both, and
 * after each of them everything that must hold. The calls are made in episodes
 * from a seed. Of an episode that goes wrong the steps are left out one after
 * the other as long as it still does, and what remains is printed.
 *
 * KILN_MODEL_SEED   first seed (default: 1)
 * KILN_MODEL_STEPS  steps in all (default: 60000)
 */

#include "tests/unit/pools_fake.h"

#include <stdarg.h>
#include <stdio.h>

#include "alloc/internal.h"
#include "base/sanitizer.h"
#include "tests/unit/sanitized.h"

#define EPISODE 2000
#define LIVE 1024
#define PAST 8192

/* ---- steps ---- */

enum what { TAKE, GIVE, COMPLETE, TRIM, CLEAN, REPORT, FAULT, ORDERS };

static const char *const names[] = { "take", "give", "complete", "trim",
				     "clean", "report", "fault", "orders" };

struct step {
	enum what what;
	unsigned stream, count;
	uint64_t value;            /* bytes, index, portion: as what needs it */
	bool flag;
};

struct setting {
	enum fake_mode mode;
	uint64_t page_bytes, cap, physical, alignment, granularity;
	unsigned streams;
};

static uint64_t random_state;

static uint64_t any(uint64_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) +
		       UINT64_C(1442695040888963407);
	return (random_state >> 33) % below;
}

static uint64_t any_size(void)
{
	static const uint64_t usual[] = { 64, 1000, 4096, 65536, 65537,
					  1 << 20, 3 << 20 };
	unsigned bits;

	if (any(40) == 0)
		return 0;
	if (any(2) == 0)
		return usual[any(KILNI_COUNTOF(usual))];
	bits = (unsigned)any(26);
	return (UINT64_C(1) << bits) + any(UINT64_C(1) << bits);
}

static enum what any_what(bool growing)
{
	uint64_t point = any(1000);

	if (point < 480)
		return growing ? TAKE : GIVE;
	if (point < 800)
		return growing ? GIVE : TAKE;
	if (point < 975)
		return COMPLETE;
	if (point < 980)
		return TRIM;
	if (point < 985)
		return CLEAN;
	if (point < 990)
		return REPORT;
	return point < 997 ? FAULT : ORDERS;
}

static void make_steps(struct step *steps, unsigned count,
		       const struct setting *setting)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		struct step *step = &steps[i];

		step->what = any_what(i / 250 % 2 == 0);
		step->stream = (unsigned)any(setting->streams);
		step->count = any(30) ? 1 : 1 + (unsigned)any(300);
		step->flag = any(8) == 0;
		step->value = step->what == TAKE ? any_size() : any(1 << 30);
		if (step->what == TAKE && step->count > 1)
			step->value = any(100000);
	}
}

static void make_setting(struct setting *setting)
{
	static const uint64_t pages[] = { 0, 0, 256 * KiB, 4 * MiB };
	static const uint64_t caps[] = { 4 * GiB, 300 * MiB, 100 * MiB,
					 64 * MiB + 4096 * 77 };
	static const uint64_t aligns[] = { 64, 64, 256, 4096 };
	static const uint64_t grains[] = { 4096, 4096, 65536, 2 * MiB };

	setting->mode = (enum fake_mode)any(3);
	setting->page_bytes = pages[any(4)];
	setting->cap = caps[any(4)];
	setting->physical = any(3) ? 0 : 80 * MiB;
	setting->alignment = aligns[any(4)];
	setting->granularity = grains[any(4)];
	setting->streams = any(3) ? 1 + (unsigned)any(FAKE_STREAMS) : 1;
}

static void print_step(const struct step *step)
{
	fprintf(stderr, "  %-8s stream %u count %u value %llu%s\n",
		names[step->what], step->stream, step->count,
		(unsigned long long)step->value, step->flag ? " flag" : "");
}

static void print_setting(const struct setting *setting)
{
	fprintf(stderr,
		"  mode %d pages %llu cap %llu physical %llu alignment %llu "
		"granularity %llu\n",
		(int)setting->mode,
		(unsigned long long)setting->page_bytes,
		(unsigned long long)setting->cap,
		(unsigned long long)setting->physical,
		(unsigned long long)setting->alignment,
		(unsigned long long)setting->granularity);
}

/* ---- the model ---- */

struct past_use {
	uint64_t address, bytes;
	struct kilni_use use;
};

struct model {
	struct setting setting;
	struct fake_hw hw;
	struct kilni_pools *pools;
	struct kilni_slice live[LIVE];
	bool persistent[LIVE];
	unsigned taken_on[LIVE];
	unsigned live_count;
	struct past_use past[PAST];
	unsigned past_count;
	uint64_t bytes, peak;
	char wrong[200];
};

static struct model model;

static void wrong(const char *format, ...) KILNI_PRINTF(1, 2);
static void wrong(const char *format, ...)
{
	va_list args;

	if (model.wrong[0])
		return;
	va_start(args, format);
	vsnprintf(model.wrong, sizeof(model.wrong), format, args);
	va_end(args);
}

static bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static bool meets_live(uint64_t address, uint64_t bytes)
{
	unsigned i;

	for (i = 0; i < model.live_count; i++)
		if (model.live[i].bytes &&
		    overlaps(model.live[i].address, model.live[i].bytes,
			     address, bytes))
			return true;
	return false;
}

static void forget_done(void)
{
	unsigned i = 0;

	while (i < model.past_count)
		if (fake_done(model.past[i].use.stream, model.past[i].use.seq))
			model.past[i] = model.past[--model.past_count];
		else
			i++;
}

/* Whether past uses are pending that a stream does not come behind. */
static bool meets_past(uint64_t address, uint64_t bytes,
		       const struct fake_stream *on)
{
	unsigned i;

	forget_done();
	for (i = 0; i < model.past_count; i++) {
		const struct past_use *past = &model.past[i];
		const struct fake_stream *of = past->use.stream;

		if (on && (of == on ||
			   on->behind[of - fake_streams] >= past->use.seq))
			continue;
		if (overlaps(past->address, past->bytes, address, bytes))
			return true;
	}
	return false;
}

static void check_page_unused(const struct kilni_page *page)
{
	if (meets_live(page->address, page->bytes))
		wrong("a page was given back that is live");
	if (meets_past(page->address, page->bytes, NULL))
		wrong("a page was given back that is in use");
}

static const struct kilni_page_record *page_of(unsigned i)
{
	return kilni_block_of(model.live[i].block)->page;
}

/* ---- what a failure may say ---- */

static bool busy[FAKE_OBJECTS];

/* The memory that a live slice keeps from going: its page, if it has one. */
static struct kilni_page kept_by(unsigned i)
{
	const struct kilni_page_record *page = page_of(i);

	if (model.setting.mode != FAKE_MAPPED || page->inside ||
	    page != &model.pools->range.page)
		return page->page;
	return (struct kilni_page){ model.live[i].address,
				    model.live[i].bytes, 0 };
}

/* Bytes of the pages and mapped objects that something lives on. */
static uint64_t busy_bytes(void)
{
	uint64_t sum = 0, at;
	unsigned i, k;

	for (i = 0; i < model.live_count; i++) {
		struct kilni_page kept;

		if (!model.live[i].bytes)
			continue;
		kept = kept_by(i);
		if (kept.handle) {
			for (k = 0; k < i; k++)
				if (model.live[k].bytes &&
				    page_of(k) == page_of(i))
					break;
			if (k == i)
				sum += kept.bytes;
			continue;
		}
		for (at = 0; at < fake_object_count; at++)
			if (fake_objects[at].address &&
			    overlaps(kept.address, kept.bytes,
				     fake_objects[at].address,
				     fake_objects[at].bytes))
				busy[at] = true;
	}
	for (at = 0; at < fake_object_count; at++) {
		if (busy[at])
			sum += fake_objects[at].bytes;
		busy[at] = false;
	}
	return sum;
}

/* Where the hole behind a live slice ends. */
static uint64_t end_of_hole(uint64_t from, const struct kilni_page *page)
{
	uint64_t end = page->address + page->bytes;
	unsigned i;

	for (i = 0; i < model.live_count; i++)
		if (model.live[i].bytes && model.live[i].address >= from)
			end = kilni_min_u64(end, model.live[i].address);
	return end;
}

/* The largest hole on carved pages that something lives on. */
static uint64_t largest_hole(void)
{
	uint64_t hole = 0;
	unsigned i;

	for (i = 0; i < model.live_count; i++) {
		const struct kilni_slice *slice = &model.live[i];
		const struct kilni_page *page;
		uint64_t from;

		if (!slice->bytes ||
		    page_of(i)->pool->kind != KILN_POOL_SLICED)
			continue;
		page = &page_of(i)->page;
		from = slice->address + kilni_align_up(slice->bytes,
						       model.setting.alignment);
		hole = kilni_max_u64(hole, end_of_hole(from, page) - from);
		hole = kilni_max_u64(hole, end_of_hole(page->address, page) -
						   page->address);
	}
	return hole;
}

/* An allocation was refused: was there really nothing? */
static void check_refusal(uint64_t bytes, bool persistent,
			  enum kiln_status status, bool faulty)
{
	uint64_t limit = model.setting.cap, size, grain, in_use = busy_bytes();

	if (status != KILN_ERR_LIMIT && status != KILN_ERR_OUT_OF_MEMORY) {
		wrong("status %d", (int)status);
		return;
	}
	if (faulty)
		return;
	if (model.setting.physical)
		limit = kilni_min_u64(limit, model.setting.physical);
	grain = model.setting.granularity;
	if (model.setting.mode == FAKE_MAPPED && !persistent)
		grain = kilni_max_u64(grain, FAKE_MAP_GRANULARITY);
	limit &= ~(grain - 1);
	size = kilni_align_up(bytes, grain);
	if (limit >= in_use && size <= limit - in_use)
		wrong("%llu refused, but a page of %llu could be had",
		      (unsigned long long)bytes,
		      (unsigned long long)(limit - in_use));
	size = kilni_align_up(bytes, model.setting.alignment);
	if (!persistent && model.setting.mode != FAKE_MAPPED &&
	    size <= largest_hole())
		wrong("%llu refused with a hole of %llu",
		      (unsigned long long)bytes,
		      (unsigned long long)largest_hole());
}

/* ---- one step ---- */

static void check_kind(const struct kilni_slice *slice, bool persistent)
{
	const struct kilni_block *block = kilni_block_of(slice->block);
	unsigned i;

	if ((block->page->pool->kind == KILN_POOL_PERSISTENT) != persistent)
		wrong("a slice of the wrong pool");
	for (i = 0; i < model.live_count; i++)
		if (model.live[i].bytes && page_of(i) == block->page &&
		    model.persistent[i] != persistent)
			wrong("persistent and temporary share a page");
}

static void check_taken(const struct kilni_slice *slice, unsigned on,
			bool persistent)
{
	if (slice->address % model.setting.alignment || !slice->address)
		wrong("address %#llx", (unsigned long long)slice->address);
	if (!slice->bytes)
		return;
	if (meets_live(slice->address, slice->bytes))
		wrong("live slices meet");
	if (meets_past(slice->address, slice->bytes, stream(on)))
		wrong("a slice was taken while in use");
	check_kind(slice, persistent);
}

static void do_take(const struct step *step)
{
	bool faulty = kilni_fault_armed, persistent = step->flag;
	struct kilni_slice slice = { 0 };
	enum kiln_status status;

	if (model.live_count == LIVE)
		return;
	status = kilni_pools_alloc(model.pools, stream(step->stream),
				   step->value, persistent, &slice);
	if (status != KILN_OK) {
		check_refusal(step->value, persistent, status, faulty);
		return;
	}
	check_taken(&slice, step->stream, persistent);
	model.persistent[model.live_count] = persistent;
	model.taken_on[model.live_count] = step->stream;
	model.live[model.live_count++] = slice;
	model.bytes += step->value;
	model.peak = kilni_max_u64(model.peak, model.bytes);
}

/* Single ones from anywhere, many in order: the last one first. */
static void do_give(const struct step *step)
{
	unsigned i, at, first, uses = step->value / 7 % 4;
	struct kilni_use use[3];
	struct kilni_slice slice;

	if (!model.live_count || model.past_count + 3 > PAST)
		return;
	at = step->count > 1 ? model.live_count - 1
			     : (unsigned)(step->value % model.live_count);
	slice = model.live[at];
	/* Mostly one use, and that where it was taken. */
	first = step->value / 28 % 4 ? model.taken_on[at] : step->stream;
	uses = uses == 2 ? 3 - step->flag : uses > 0;
	uses = (unsigned)kilni_min_u64(uses, model.setting.streams);
	for (i = 0; i < uses; i++) {
		use[i] = fake_work((first + i) % model.setting.streams);
		if (slice.bytes)
			model.past[model.past_count++] = (struct past_use){
				slice.address, slice.bytes, use[i]
			};
	}
	model.live_count--;
	model.live[at] = model.live[model.live_count];
	model.persistent[at] = model.persistent[model.live_count];
	model.taken_on[at] = model.taken_on[model.live_count];
	model.bytes -= slice.bytes;
	kilni_pools_free(model.pools, &slice, use, uses);
}

static void do_complete(const struct step *step)
{
	struct fake_stream *of = stream(step->stream);
	uint64_t now = atomic_load(&of->completed);
	uint64_t most = atomic_load(&of->submitted);

	if (step->value & 1)
		most = now + step->value / 2 % (most - now + 1);
	atomic_store(&of->completed, most);
	forget_done();
}

/* With all work done, trimming leaves what something lives on. */
static void do_clean(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	unsigned i;

	for (i = 0; i < FAKE_STREAMS; i++)
		fake_complete(i);
	forget_done();
	kilni_fault_set(NULL, 0, KILN_OK);
	(void)!kilni_pools_trim(model.pools, 0);
	kilni_pools_usage(model.pools, &usage);
	if (usage.reserved_bytes != busy_bytes())
		wrong("after a clean-up %llu reserved, %llu busy",
		      (unsigned long long)usage.reserved_bytes,
		      (unsigned long long)busy_bytes());
}

static void do_report(void)
{
	uint64_t live = 0, cached = 0, padding = 0, reserved = 0;
	struct kiln_pool_info info[KILNI_POOLS_MAX + 4];
	size_t i, count = kilni_pools_report(model.pools, info,
					     KILNI_COUNTOF(info));

	count += kilni_pools_special(model.pools, info + count,
				     KILNI_COUNTOF(info) - count);
	for (i = 0; i < count; i++) {
		live += info[i].live_bytes;
		cached += info[i].cached_bytes;
		padding += info[i].padding_bytes;
		reserved += info[i].reserved_bytes;
	}
	if (live != model.bytes || live + cached + padding != reserved ||
	    reserved != model.hw.held)
		wrong("the pools' reports do not add up");
}

static void do_step(const struct step *step)
{
	switch (step->what) {
	case TAKE:
		do_take(step);
		break;
	case GIVE:
		do_give(step);
		break;
	case COMPLETE:
		do_complete(step);
		break;
	case TRIM:
		(void)!kilni_pools_trim(model.pools, step->value);
		break;
	case CLEAN:
		do_clean();
		break;
	case REPORT:
		do_report();
		break;
	case FAULT:
		kilni_fault_set("*", 1 + step->value % 3,
				KILN_ERR_OUT_OF_MEMORY);
		break;
	case ORDERS:
		fake_order_fails = step->flag;
		break;
	}
}

static void check_all(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };

	if (!kilni_pools_verify(model.pools))
		wrong("the walk finds a difference");
	kilni_pools_usage(model.pools, &usage);
	if (usage.live_bytes + usage.cached_bytes + usage.padding_bytes !=
	    usage.reserved_bytes)
		wrong("live + cached + padding is not reserved");
	if (usage.live_bytes != model.bytes ||
	    usage.allocations != model.live_count)
		wrong("%llu bytes live in place of %llu",
		      (unsigned long long)usage.live_bytes,
		      (unsigned long long)model.bytes);
	if (usage.reserved_bytes != model.hw.held ||
	    usage.reserved_bytes > model.setting.cap)
		wrong("%llu bytes reserved, the driver gave %llu",
		      (unsigned long long)usage.reserved_bytes,
		      (unsigned long long)model.hw.held);
	if (usage.peak_live_bytes < model.peak ||
	    (model.setting.streams == 1 &&
	     usage.peak_live_bytes != model.peak))
		wrong("peak of %llu in place of %llu",
		      (unsigned long long)usage.peak_live_bytes,
		      (unsigned long long)model.peak);
}

/* ---- episodes ---- */

static enum kiln_status lying_order(void *of, const struct kilni_use *use)
{
	(void)of;
	(void)use;
	return KILN_OK;
}

static const struct kilni_stream_ops lying_streams = {
	.done = fake_done,
	.order = lying_order,
	.wait = fake_wait,
};

static void begin(const struct setting *setting, bool lies)
{
	struct kilni_pools_config config = {
		.page_bytes = setting->page_bytes,
		.cap_bytes = setting->cap,
	};

	fake_reset();
	fake_mode = setting->mode;
	memset(&model, 0, sizeof(model));
	model.setting = *setting;
	model.hw = fake_hw(64 * GiB);
	model.hw.limits.alignment = setting->alignment;
	model.hw.limits.page_granularity = setting->granularity;
	model.hw.next = UINT64_C(1) << 40;
	model.hw.physical = setting->physical;
	model.hw.on_free = check_page_unused;
	if (setting->mode == FAKE_LADDER)
		fake_rungs(&config, &model.hw.limits);
	if (kilni_pools_create(&model.pools, &model.hw.hw,
			       lies ? &lying_streams : &fake_stream_ops,
			       &config) != KILN_OK)
		ck_abort_msg("no pools: %s", kiln_error_message());
}

/* All is given back, so that a leak shows too. */
static void end(void)
{
	unsigned i;

	kilni_fault_set(NULL, 0, KILN_OK);
	while (model.live_count)
		kilni_pools_free(model.pools,
				 &model.live[--model.live_count], NULL, 0);
	for (i = 0; i < FAKE_STREAMS; i++)
		fake_complete(i);
	model.bytes = 0;
	if (!model.wrong[0])
		check_all();
	kilni_pools_destroy(model.pools);
	if (model.hw.held)
		wrong("%llu bytes leaked", (unsigned long long)model.hw.held);
}

/* The number of steps until something is wrong, count where nothing is. */
static unsigned run(const struct setting *setting, const struct step *steps,
		    unsigned count, bool lies)
{
	unsigned i, k;

	begin(setting, lies);
	for (i = 0; i < count && !model.wrong[0]; i++) {
		unsigned times = steps[i].what <= GIVE ? steps[i].count : 1;

		for (k = 0; k < times && !model.wrong[0]; k++) {
			do_step(&steps[i]);
			if (k + 1 == times || k % 16 == 0)
				check_all();
		}
	}
	end();
	return i;
}

/*
 * Leaves out halves, quarters and so on down to single steps, as long as what
 * remains goes wrong. Gives the number of steps that remain.
 */
static unsigned shrink(const struct setting *setting, struct step *steps,
		       unsigned count, bool lies)
{
	static struct step rest[EPISODE];
	unsigned part = count / 2, at, left;

	while (part) {
		bool less = false;

		for (at = 0; at < count;) {
			left = count - at < part ? count - at : part;
			memcpy(rest, steps, at * sizeof(*rest));
			memcpy(rest + at, steps + at + left,
			       (count - at - left) * sizeof(*rest));
			run(setting, rest, count - left, lies);
			if (!model.wrong[0]) {
				at += left;
				continue;
			}
			count -= left;
			memcpy(steps, rest, count * sizeof(*rest));
			less = true;
		}
		if (part > 1 || !less)
			part /= 2;
	}
	return count;
}

static void tell(const struct setting *setting, struct step *steps,
		 unsigned count)
{
	unsigned i;

	count = shrink(setting, steps, count, false);
	run(setting, steps, count, false);
	fprintf(stderr, "%s, after these steps:\n", model.wrong);
	print_setting(setting);
	for (i = 0; i < count; i++)
		print_step(&steps[i]);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* One thread: nothing for a race detector, which makes it slow. */
#if KILNI_TSAN
#define STEPS 4000
#else
#define STEPS (IS_SLOW ? 20000 : 60000)
#endif

START_TEST(random_episodes)
{
	static struct step steps[EPISODE];
	uint64_t seed = from_environment("KILN_MODEL_SEED", 1);
	uint64_t left = from_environment("KILN_MODEL_STEPS", STEPS);
	struct setting setting;

	for (; left; seed++) {
		unsigned count = (unsigned)kilni_min_u64(left, EPISODE), done;

		random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
		make_setting(&setting);
		make_steps(steps, count, &setting);
		done = run(&setting, steps, count, false);
		if (model.wrong[0]) {
			fprintf(stderr, "seed %llu: %s\n",
				(unsigned long long)seed, model.wrong);
			tell(&setting, steps, done);
			ck_abort_msg("KILN_MODEL_SEED=%llu goes wrong",
				     (unsigned long long)seed);
		}
		left -= count;
	}
}
END_TEST

/* An event that orders nothing is found, and few steps suffice to show it. */
START_TEST(a_fault_is_found_and_shrunk)
{
	static struct step steps[EPISODE];
	struct setting setting = { .mode = FAKE_LADDER, .cap = 64 * MiB,
				   .alignment = 64, .granularity = 4096,
				   .streams = 4 };
	unsigned count;

	random_state = 5;
	make_steps(steps, EPISODE, &setting);
	count = run(&setting, steps, EPISODE, true);
	ck_assert_str_eq(model.wrong, "a slice was taken while in use");
	count = shrink(&setting, steps, count, true);
	ck_assert_uint_ge(count, 3);
	ck_assert_uint_le(count, 12);
	run(&setting, steps, count, true);
	ck_assert_str_ne(model.wrong, "");
	/* The same steps are right where events do what they say. */
	run(&setting, steps, count, false);
	ck_assert_str_eq(model.wrong, "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools, model");
	TCase *tests = tcase_create("model");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 3600);
	tcase_add_test(tests, random_episodes);
	tcase_add_test(tests, a_fault_is_found_and_shrunk);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
