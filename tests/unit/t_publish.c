/* SPDX-License-Identifier: Apache-2.0 */
/* What pools publish, read back through the public interface. */
#include "tests/unit/pools_fake.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include <kiln/kiln.h>

#include "alloc/internal.h"
#include "alloc/publish.h"
#include "tests/unit/shm_folder.h"

static void setup(void)
{
	fake_reset();
	shm_make();
}

static void publish(struct kilni_pools *pools)
{
	ck_assert_ptr_nonnull(pools->publication);
	pools->publication->due_ns = 0;
	kilni_pools_publish(pools);
}

/* A ladder of their own: what is expected here does not hang on the default. */
static const struct kilni_pools_config ladder = {
	.plain = true,
	.rungs = 3,
	.rung = { { .page_bytes = 2 * MiB, .slice_bytes = 64 * KiB },
		  { .page_bytes = 16 * MiB, .slice_bytes = 4 * MiB },
		  { .page_bytes = 64 * MiB, .slice_bytes = 64 * MiB } },
};

static struct kilni_pools *published_pools(struct fake_hw *hw)
{
	struct kilni_pools *pools = NULL;

	ck_assert_int_eq(kilni_pools_create(&pools, &hw->hw, &fake_stream_ops,
					    &ladder), KILN_OK);
	kilni_pools_publish_start(pools);
	return pools;
}

static struct kiln_view *view_of_self(void)
{
	struct kiln_view *view = NULL;
	char name[KILNI_SEGMENT_NAME];

	ck_assert_uint_eq(shm_names(name), 1);
	ck_assert_int_eq(kiln_view_open(&view, name), KILN_OK);
	return view;
}

static struct kiln_view_device device_of(struct kiln_view *view, size_t number)
{
	struct kiln_view_device info = { .struct_size = sizeof(info) };

	ck_assert_int_eq(kiln_view_device(view, number, &info), KILN_OK);
	return info;
}

static struct kiln_view_page page_of(struct kiln_view *view, size_t device,
				     size_t number)
{
	struct kiln_view_page info = { .struct_size = sizeof(info) };

	ck_assert_int_eq(kiln_view_page(view, device, number, &info), KILN_OK);
	return info;
}

static struct kiln_view_process process_of(struct kiln_view *view)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };

	ck_assert_int_eq(kiln_view_process(view, &info), KILN_OK);
	return info;
}

static bool near_to(float a, double b)
{
	return (double)a > b - 0.01 && (double)a < b + 0.01;
}

/* ---- figures ---- */

START_TEST(one_page_by_hand)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	/* A small page of 2 MiB has 64 cells of 32768 bytes. */
	struct kilni_slice a = take(pools, 0, 32768);
	struct kilni_slice b = take(pools, 0, 16384);
	struct kilni_slice c = take(pools, 0, 1); /* in 64 bytes */
	struct kiln_view *view;
	struct kiln_view_device device;
	struct kiln_view_page page;

	publish(pools);
	view = view_of_self();
	device = device_of(view, 0);
	ck_assert_str_eq(device.selector, "fake:0");
	ck_assert_uint_eq(device.reserved_bytes, 2 * MiB);
	ck_assert_uint_eq(device.live_bytes, 49153);
	ck_assert_uint_eq(device.padding_bytes, 63);
	ck_assert_uint_eq(device.cached_bytes, 2 * MiB - 49216);
	ck_assert_uint_eq(device.allocations, 3);
	ck_assert_uint_eq(device.driver_calls, 1);
	ck_assert_uint_eq(device.pages, 1);
	ck_assert_uint_eq(device.pages_left_out, 0);
	page = page_of(view, 0, 0);
	ck_assert(page.seen && !page.old);
	ck_assert_uint_eq(page.pool, 0);
	ck_assert_uint_eq(page.address, a.address);
	ck_assert_uint_eq(page.bytes, 2 * MiB);
	ck_assert_uint_eq(page.slices, 3);
	ck_assert_uint_eq(page.live_bytes, 49153);
	ck_assert_uint_eq(page.padding_bytes, 63);
	ck_assert_uint_eq(page.hole_bytes, 2 * MiB - 49216);
	ck_assert_uint_eq(page.hole_address, a.address + 49216);
	ck_assert_uint_eq(page.cells, 64);
	ck_assert(near_to(page.cell[0].live, 1));
	ck_assert(near_to(page.cell[1].live, 0.5));
	ck_assert(page.cell[1].padding > 0);
	ck_assert(near_to(page.cell[1].cached, 0.5));
	ck_assert(near_to(page.cell[2].cached, 1));
	ck_assert(near_to(page.cell[63].cached, 1));
	kiln_view_release(view);
	give_done(pools, &a), give_done(pools, &b), give_done(pools, &c);
	pools_done(&hw, pools);
	ck_assert_uint_eq(shm_names(NULL), 0);
}
END_TEST

START_TEST(holes_between_slices)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kilni_slice slices[4];
	struct kiln_view_page page;
	struct kiln_view *view;
	unsigned i;

	/* Four quarters of a medium page of 16 MiB; the inner two go. */
	for (i = 0; i < 4; i++)
		slices[i] = take(pools, 0, 4 * MiB);
	give_done(pools, &slices[1]), give_done(pools, &slices[2]);
	publish(pools);
	view = view_of_self();
	page = page_of(view, 0, 0);
	ck_assert_uint_eq(page.pool, 1);
	ck_assert_uint_eq(page.hole_bytes, 8 * MiB);
	ck_assert_uint_eq(page.hole_address, slices[1].address);
	ck_assert_uint_eq(page.cached_bytes, 8 * MiB);
	for (i = 0; i < 64; i++)
		ck_assert(near_to(page.cell[i].live, i < 16 || i >= 48));
	kiln_view_release(view);
	give_done(pools, &slices[0]), give_done(pools, &slices[3]);
	pools_done(&hw, pools);
}
END_TEST

/* Each figure beside that of the process's own report. */
START_TEST(the_report_of_the_process)
{
	struct fake_hw hw;
	struct kilni_pools *pools;
	struct kilni_slice slices[200];
	struct kiln_pool_info infos[8];
	struct kiln_view_pool pool = { .struct_size = sizeof(pool) };
	struct kiln_view_device device;
	struct kiln_memory_usage usage;
	struct kiln_view *view;
	size_t i, count;

	fake_mode = (enum fake_mode)_i;
	hw = fake_hw(64 * GiB);
	pools = published_pools(&hw);
	for (i = 0; i < 200; i++)
		slices[i] = take(pools, 0, 1 + (i * i * 7919) % (9 * MiB));
	for (i = 0; i < 200; i += 3)
		give(pools, &slices[i], 1);
	publish(pools);
	usage = usage_of(pools);
	view = view_of_self();
	device = device_of(view, 0);
	ck_assert_uint_eq(device.live_bytes, usage.live_bytes);
	ck_assert_uint_eq(device.padding_bytes, usage.padding_bytes);
	ck_assert_uint_eq(device.cached_bytes, usage.cached_bytes);
	ck_assert_uint_eq(device.peak_live_bytes, usage.peak_live_bytes);
	ck_assert_uint_eq(device.peak_reserved_bytes,
			  usage.peak_reserved_bytes);
	ck_assert_uint_eq(device.cap_bytes, 64 * GiB);
	count = kilni_pools_report(pools, infos, 8);
	count += kilni_pools_special(pools, infos + count, 8 - count);
	ck_assert_uint_eq(device.pools, count);
	for (i = 0; i < count; i++) {
		ck_assert_int_eq(kiln_view_pool(view, 0, i, &pool), KILN_OK);
		ck_assert_int_eq(pool.kind, infos[i].kind);
		ck_assert_uint_eq(pool.pages, infos[i].pages);
		ck_assert_uint_eq(pool.allocations, infos[i].allocations);
		ck_assert_uint_eq(pool.live_bytes, infos[i].live_bytes);
		ck_assert_uint_eq(pool.cached_bytes, infos[i].cached_bytes);
		ck_assert_uint_eq(pool.reserved_bytes,
				  infos[i].reserved_bytes);
		ck_assert_uint_eq(pool.largest_request_bytes,
				  infos[i].largest_request_bytes);
	}
	kiln_view_release(view);
	for (i = 0; i < 200; i++)
		if (i % 3)
			give_done(pools, &slices[i]);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(several_devices)
{
	struct fake_hw first = fake_hw(GiB), second = fake_hw(GiB);
	struct kilni_pools *a, *b;
	struct kilni_slice of_a, of_b;
	struct kiln_view *view;

	second.hw.index = 7;
	a = published_pools(&first);
	b = published_pools(&second);
	of_a = take(a, 0, 1000);
	of_b = take(b, 0, 3 * MiB);
	publish(a), publish(b);
	view = view_of_self();
	ck_assert_uint_eq(process_of(view).devices, 2);
	ck_assert_uint_eq(process_of(view).live_bytes, 1000 + 3 * MiB);
	ck_assert_str_eq(device_of(view, 1).selector, "fake:7");
	ck_assert_uint_eq(device_of(view, 1).live_bytes, 3 * MiB);
	ck_assert_uint_eq(page_of(view, 0, 0).bytes, 2 * MiB);
	ck_assert_uint_eq(page_of(view, 1, 0).bytes, 16 * MiB);
	give_done(a, &of_a);
	pools_done(&first, a);
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_uint_eq(process_of(view).devices, 1);
	ck_assert_str_eq(device_of(view, 0).selector, "fake:7");
	kiln_view_release(view);
	give_done(b, &of_b);
	pools_done(&second, b);
	ck_assert_uint_eq(shm_names(NULL), 0);
}
END_TEST

/* ---- bounds ---- */

START_TEST(more_than_there_is_room_for)
{
	enum { EXTRA = 5, PAGES = KILNI_SEGMENT_PAGES + EXTRA };
	struct fake_hw hw = fake_hw(UINT64_C(1) << 50);
	struct kilni_pools *pools = published_pools(&hw);
	struct kilni_slice *slices = calloc(PAGES, sizeof(*slices));
	struct kiln_view_device device;
	struct kiln_view *view;
	unsigned i;

	/* Exclusive pages: one each. */
	for (i = 0; i < PAGES; i++)
		ck_assert_int_eq(kilni_pools_alloc(pools, stream(0), 65 * MiB,
						   false, &slices[i]),
				 KILN_OK);
	publish(pools);
	view = view_of_self();
	device = device_of(view, 0);
	ck_assert_uint_eq(device.pages, KILNI_SEGMENT_PAGES);
	ck_assert_uint_eq(device.pages_left_out, EXTRA);
	ck_assert_uint_eq(device.live_bytes, PAGES * 65 * MiB);
	kiln_view_release(view);
	for (i = 0; i < PAGES; i++)
		kilni_pools_free(pools, &slices[i], NULL, 0);
	free(slices);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(more_devices_than_there_is_room_for)
{
	enum { DEVICES = KILNI_SEGMENT_DEVICES + 3 };
	struct fake_hw hw[DEVICES];
	struct kilni_pools *pools[DEVICES];
	struct kiln_view *view;
	int i;

	for (i = 0; i < DEVICES; i++) {
		hw[i] = fake_hw(GiB);
		pools[i] = published_pools(&hw[i]);
	}
	publish(pools[0]);
	view = view_of_self();
	ck_assert_uint_eq(process_of(view).devices, KILNI_SEGMENT_DEVICES);
	ck_assert_uint_eq(process_of(view).devices_left_out, 3);
	kiln_view_release(view);
	for (i = 0; i < DEVICES; i++)
		pools_done(&hw[i], pools[i]);
}
END_TEST

/* Devices whose ladders are as long as can be: the last have pools left out. */
START_TEST(more_pools_than_there_is_room_for)
{
	enum { DEVICES = KILNI_SEGMENT_DEVICES };
	struct kilni_pools_config config = { .rungs = KILNI_RUNGS_MAX };
	struct kilni_pools *pools[DEVICES];
	struct kilni_slice slice[DEVICES];
	struct fake_hw hw[DEVICES];
	struct kiln_view *view;
	unsigned i, last;

	for (i = 0; i < KILNI_RUNGS_MAX; i++)
		config.rung[i] = (struct kilni_pools_rung){ 2 * MiB,
							    (i + 1) * KiB, 0 };
	for (i = 0; i < DEVICES; i++) {
		hw[i] = fake_hw(GiB);
		ck_assert_int_eq(kilni_pools_create(&pools[i], &hw[i].hw,
						    &fake_stream_ops, &config),
				 KILN_OK);
		kilni_pools_publish_start(pools[i]);
		slice[i] = keep(pools[i], MiB);
		publish(pools[i]);
	}
	view = view_of_self();
	ck_assert_uint_eq(process_of(view).devices, DEVICES);
	/* Ten pools each: the thirteenth device finds room for eight. */
	last = KILNI_SEGMENT_POOLS / (KILNI_RUNGS_MAX + 2);
	ck_assert_uint_eq(device_of(view, last - 1).pools, KILNI_RUNGS_MAX + 2);
	ck_assert_uint_eq(device_of(view, last - 1).pages, 1);
	ck_assert_uint_eq(device_of(view, last).pools, 8);
	ck_assert_uint_eq(device_of(view, last).pages, 0);
	ck_assert_uint_eq(device_of(view, last).pages_left_out, 1);
	ck_assert_uint_eq(device_of(view, last).live_bytes, MiB);
	kiln_view_release(view);
	for (i = 0; i < DEVICES; i++) {
		give_done(pools[i], &slice[i]);
		pools_done(&hw[i], pools[i]);
	}
}
END_TEST

/* More blocks than one snapshot looks at: the rest follows in the next. */
START_TEST(many_slices_in_turns)
{
	enum { COUNT = 3 * KILNI_PUBLISH_BLOCKS };
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kilni_slice *slices = calloc(COUNT, sizeof(*slices));
	uint64_t unseen = 0, old = 0, live = 0, pages;
	struct kiln_view *view;
	unsigned i, round;

	for (i = 0; i < COUNT; i++)
		ck_assert_int_eq(kilni_pools_alloc(pools, stream(0), 512, false,
						   &slices[i]), KILN_OK);
	/* Forget what was seen while they came. */
	pools->publication->pages = 0;
	memset(pools->publication->page, 0, sizeof(pools->publication->page));
	publish(pools);
	view = view_of_self();
	pages = device_of(view, 0).pages;
	/* 4096 slices to a page of 2 MiB. */
	ck_assert_uint_eq(pages, COUNT / 4096);
	ck_assert_uint_eq(device_of(view, 0).live_bytes, COUNT * 512);
	for (i = 0; i < pages; i++)
		unseen += !page_of(view, 0, i).seen;
	ck_assert_uint_eq(unseen, pages - KILNI_PUBLISH_BLOCKS / 4096);
	for (round = 0; round < 2; round++)
		publish(pools);
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	for (i = 0; i < pages; i++) {
		ck_assert(page_of(view, 0, i).seen);
		old += page_of(view, 0, i).old;
		live += page_of(view, 0, i).live_bytes;
	}
	ck_assert_uint_eq(old, pages - KILNI_PUBLISH_BLOCKS / 4096);
	ck_assert_uint_eq(live, COUNT * 512);
	kiln_view_release(view);
	for (i = 0; i < COUNT; i++)
		kilni_pools_free(pools, &slices[i], NULL, 0);
	free(slices);
	pools_done(&hw, pools);
}
END_TEST

/* ---- two snapshots ---- */

static struct kilni_segment *map_self(void)
{
	char name[KILNI_SEGMENT_NAME];
	void *map;
	int fd;

	ck_assert_uint_eq(shm_names(name), 1);
	fd = open(shm_path(name), O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	map = mmap(NULL, sizeof(struct kilni_segment), PROT_READ | PROT_WRITE,
		   MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	close(fd);
	return map;
}

/* What a writer leaves that is killed in the middle. */
START_TEST(a_torn_snapshot)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kilni_segment *map = map_self();
	struct kilni_slice a;
	struct kiln_view *view;
	uint64_t seq;
	int how;

	for (how = 0; how < 3; how++) {
		a = take(pools, 0, 100);
		publish(pools);
		view = view_of_self();
		seq = process_of(view).snapshot;
		give_done(pools, &a);
		publish(pools);
		/* The newer one is number seq + 1. */
		if (how == 0)
			map->snapshot[(seq + 1) & 1].seq = 0;
		else if (how == 1)
			map->snapshot[(seq + 1) & 1].checksum++;
		else
			map->snapshot[(seq + 1) & 1].device[0].live_bytes ^= 4;
		ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
		ck_assert_uint_eq(process_of(view).snapshot, seq);
		ck_assert_uint_eq(device_of(view, 0).live_bytes, 100);
		kiln_view_release(view);
	}
	map->snapshot[0].seq = map->snapshot[1].seq = 0;
	view = NULL;
	{
		char name[KILNI_SEGMENT_NAME];

		shm_names(name);
		ck_assert_int_eq(kiln_view_open(&view, name), KILN_ERR_BUSY);
	}
	munmap(map, sizeof(*map));
	pools_done(&hw, pools);
}
END_TEST

static atomic_bool stop;

static void *write_all_the_time(void *arg)
{
	struct kilni_pools *pools = arg;
	struct kilni_slice slice;
	uint64_t i;

	for (i = 0; !atomic_load(&stop); i++) {
		/* Slices and bytes say the same, in every whole snapshot. */
		ck_assert_int_eq(kilni_pools_alloc(pools, stream(0), 1 + i % 64,
						   false, &slice), KILN_OK);
		__atomic_store_n(&pools->publication->due_ns, 0,
				 __ATOMIC_RELAXED);
		kilni_pools_publish(pools);
		kilni_pools_free(pools, &slice, NULL, 0);
		__atomic_store_n(&pools->publication->due_ns, 0,
				 __ATOMIC_RELAXED);
		kilni_pools_publish(pools);
	}
	return NULL;
}

START_TEST(reading_while_it_is_written)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kilni_slice kept = take(pools, 0, 5 * MiB);
	struct kiln_view *view = view_of_self();
	uint64_t last = 0, taken = 0, i;
	pthread_t writer;

	atomic_store(&stop, false);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_all_the_time,
					pools), 0);
	/* However seldom the writer has its turn. */
	for (i = 0; i < 3000 || taken <= 10; i++) {
		struct kiln_view_device device;
		enum kiln_status status = kiln_view_refresh(view);

		if (status == KILN_ERR_BUSY)
			continue;
		ck_assert_int_eq(status, KILN_OK);
		if (process_of(view).snapshot < last)
			ck_abort_msg("an older snapshot");
		taken += process_of(view).snapshot > last;
		last = process_of(view).snapshot;
		device = device_of(view, 0);
		if (device.allocations == 2
			    ? device.live_bytes <= 5 * MiB ||
				      device.live_bytes +
						      device.padding_bytes !=
					      5 * MiB + 64
			    : last > 2 && device.live_bytes != 5 * MiB)
			ck_abort_msg("a mixed snapshot");
	}
	atomic_store(&stop, true);
	pthread_join(writer, NULL);
	kiln_view_release(view);
	give_done(pools, &kept);
	pools_done(&hw, pools);
}
END_TEST

/* ---- a device with all its ways ---- */

/* Whether what the pages show is what the device has. */
static bool pages_add_up(struct kiln_view *view)
{
	struct kiln_view_device device = device_of(view, 0);
	uint64_t mapped = 0, live = 0, padding = 0, slices = 0;
	size_t i;

	for (i = 0; i < device.pages; i++) {
		struct kiln_view_page page = page_of(view, 0, i);

		if (!page.seen)
			return false;
		mapped += page.bytes - page.unmapped_bytes;
		live += page.live_bytes;
		padding += page.padding_bytes;
		slices += page.slices;
	}
	return mapped == device.reserved_bytes && live == device.live_bytes &&
	       padding == device.padding_bytes && slices == device.allocations;
}

/* Through the public interface, mapped where the driver can. */
START_TEST(the_cpu_device)
{
	enum { TENSORS = 300, ROUNDS = 20, LONGEST = 1000 };
	struct kiln_tensor *tensors[TENSORS] = { NULL };
	struct kiln_device *device = NULL;
	struct kiln_view *view;
	int i, round;

	ck_assert_int_eq(kiln_device_open(&device, "cpu"), KILN_OK);
	view = view_of_self();
	/*
	 * How often it writes follows from what writing costs: where that is
	 * much, the rounds go on until it was time for a third snapshot.
	 */
	for (round = 0; round < ROUNDS || (process_of(view).snapshot <= 2 &&
					   round < LONGEST); round++) {
		for (i = round % 7; i < TENSORS; i += 1 + round % 5) {
			int64_t shape[] = {
				1 + (int64_t)(i + round) * (i + round) * 37 %
					    700000
			};

			ck_assert_int_eq(kiln_empty(&tensors[i], device,
						    KILN_F32, 1, shape),
					 KILN_OK);
		}
		for (i = round % ROUNDS; i < TENSORS; i += 3) {
			kiln_tensor_release(tensors[i]);
			tensors[i] = NULL;
		}
		ck_assert_int_eq(kiln_device_sync(device), KILN_OK);
		ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
		ck_assert(pages_add_up(view));
		usleep(20000);
	}
	ck_assert_uint_gt(process_of(view).snapshot, 2);
	for (i = 0; i < TENSORS; i++)
		kiln_tensor_release(tensors[i]);
	kiln_device_release(device);
	ck_assert_uint_eq(shm_names(NULL), 0);
	kiln_view_release(view);
}
END_TEST

/* ---- when ---- */

START_TEST(no_more_often_than_allowed)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kiln_view *view = view_of_self();
	uint64_t first = process_of(view).snapshot;
	unsigned i;

	__atomic_store_n(&pools->publication->due_ns, UINT64_MAX,
			 __ATOMIC_RELAXED);
	for (i = 0; i < 1000; i++) {
		struct kilni_slice slice = take(pools, 0, 100);

		give_done(pools, &slice);
		kilni_pools_publish(pools);
	}
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_uint_eq(process_of(view).snapshot, first);
	/* A tick is enough once it is time. */
	__atomic_store_n(&pools->publication->due_ns, 0, __ATOMIC_RELAXED);
	for (i = 0; i < KILNI_TICK; i++) {
		struct kilni_slice slice = take(pools, 0, 100);

		give_done(pools, &slice);
	}
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_uint_gt(process_of(view).snapshot, first);
	kiln_view_release(view);
	pools_done(&hw, pools);
}
END_TEST

START_TEST(a_new_page_is_seen_at_once)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kiln_view *view = view_of_self();
	struct kilni_slice slice;

	ck_assert_uint_eq(device_of(view, 0).pages, 0);
	__atomic_store_n(&pools->publication->due_ns, 0, __ATOMIC_RELAXED);
	slice = take(pools, 0, 100);
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_uint_eq(device_of(view, 0).pages, 1);
	ck_assert_uint_eq(device_of(view, 0).live_bytes, 100);
	give_done(pools, &slice);
	__atomic_store_n(&pools->publication->due_ns, 0, __ATOMIC_RELAXED);
	ck_assert_int_eq(kilni_pools_trim(pools, 0), KILN_OK);
	ck_assert_int_eq(kiln_view_refresh(view), KILN_OK);
	ck_assert_uint_eq(device_of(view, 0).pages, 0);
	kiln_view_release(view);
	pools_done(&hw, pools);
}
END_TEST

/* Somebody cuts the file short: that costs the segment, not the process. */
START_TEST(cut_short)
{
	struct fake_hw hw = fake_hw(GiB), other = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw), *more;
	struct kilni_slice slice = take(pools, 0, 1000);
	char name[KILNI_SEGMENT_NAME];

	more = _i & 1 ? published_pools(&other) : NULL;
	ck_assert_uint_eq(shm_names(name), 1);
	ck_assert(!truncate(shm_path(name), _i & 2 ? 4096 : 0));
	/* The next one to write is a snapshot, or who leaves. */
	if (more)
		pools_done(&other, more);
	else
		publish(pools);
	ck_assert_uint_eq(shm_names(NULL), 0);
	publish(pools);
	give_done(pools, &slice);
	ck_assert_int_eq(kiln_error_status(), KILN_OK);
	/* The next device publishes both anew. */
	more = published_pools(&other);
	publish(more);
	ck_assert_uint_eq(shm_names(NULL), 1);
	pools_done(&other, more);
	pools_done(&hw, pools);
	ck_assert_uint_eq(shm_names(NULL), 0);
}
END_TEST

START_TEST(switched_off)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools;

	setenv("KILN_POOL_PUBLISH", "0", 1);
	pools = published_pools(&hw);
	unsetenv("KILN_POOL_PUBLISH");
	ck_assert_ptr_null(pools->publication);
	ck_assert_uint_eq(shm_names(NULL), 0);
	kilni_pools_publish(pools);
	pools_done(&hw, pools);
}
END_TEST

/* ---- bad arguments ---- */

START_TEST(bad_arguments)
{
	struct fake_hw hw = fake_hw(GiB);
	struct kilni_pools *pools = published_pools(&hw);
	struct kiln_view *view = view_of_self(), *none = NULL;
	struct kiln_view_process process = { .struct_size = 1 };
	struct kiln_view_device device = { .struct_size = sizeof(device) };
	struct kiln_view_pool pool = { .struct_size = sizeof(pool) };
	struct kiln_view_page page = { .struct_size = sizeof(page) };
	static uint64_t blank[16];
	struct kiln_view *no_view = (struct kiln_view *)(void *)blank;
	size_t count = 1;

	ck_assert_int_eq(kiln_view_enumerate(NULL, NULL), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_enumerate(&process, &count),
			 KILN_ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "struct_size 1"));
	ck_assert_int_eq(kiln_view_open(NULL, "x"), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_open(&none, NULL), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_open(&none, "../passwd"), KILN_ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "../passwd"));
	ck_assert_int_eq(kiln_view_open(&none, "kiln-0-1-0123456789abcdef"),
			 KILN_ERR_IO);
	ck_assert_int_eq(kiln_error_native(), ENOENT);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(kiln_view_open(&no_view, process_of(view).segment),
			 KILN_ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "*out"));
	ck_assert_int_eq(kiln_view_process(view, &process), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_process(NULL, NULL), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_device(view, 1, &device), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_device(view, 0, NULL), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_pool(view, 0, 99, &pool), KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_pool(view, SIZE_MAX, 0, &pool),
			 KILN_ERR_INVALID);
	ck_assert_int_eq(kiln_view_page(view, 0, 0, &page), KILN_ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "there are 0"));
	ck_assert_int_eq(kiln_view_refresh(NULL), KILN_ERR_INVALID);
	kiln_view_release(NULL);
	kiln_view_release(kiln_view_retain(view));
	kiln_view_release(view);
	pools_done(&hw, pools);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("publish");
	TCase *tests = tcase_create("pools from outside");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, setup, shm_remove);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, one_page_by_hand);
	tcase_add_test(tests, holes_between_slices);
	tcase_add_loop_test(tests, the_report_of_the_process, 0, 3);
	tcase_add_test(tests, several_devices);
	tcase_add_test(tests, more_than_there_is_room_for);
	tcase_add_test(tests, more_devices_than_there_is_room_for);
	tcase_add_test(tests, more_pools_than_there_is_room_for);
	tcase_add_test(tests, many_slices_in_turns);
	tcase_add_test(tests, a_torn_snapshot);
	tcase_add_test(tests, reading_while_it_is_written);
	tcase_add_test(tests, the_cpu_device);
	tcase_add_test(tests, no_more_often_than_allowed);
	tcase_add_test(tests, a_new_page_is_seen_at_once);
	tcase_add_test(tests, switched_off);
	tcase_add_loop_test(tests, cut_short, 0, 4);
	tcase_add_test(tests, bad_arguments);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
