/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/internal.h"
#include "lib/testing.h"
#include "sanitized.h"

/* Buffers, trimming, reports and persistent scopes, from outside. */

#define MIB (UINT64_C(1) << 20)

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_device("null");
}

static void teardown(void)
{
	kiln_device_release(dev);
}

static struct kiln_memory_usage usage(void)
{
	struct kiln_memory_usage now = KILN_MEMORY_USAGE_INIT;
	bool available = false;

	OK(kiln_memory_usage(dev, &now, &available));
	ck_assert(available);
	ck_assert_uint_eq(now.live_bytes + now.cached_bytes + now.padding_bytes,
			  now.reserved_bytes);
	return now;
}

static struct kiln_buffer *take(struct kiln_stream *stream, uint64_t bytes)
{
	struct kiln_buffer *buffer = NULL;

	OK(kiln_buffer_create(&buffer, dev, stream, bytes));
	return buffer;
}

/* ---- buffers ---- */

START_TEST(buffer_is_counted)
{
	struct kiln_buffer *a = take(NULL, 1000), *b = take(NULL, 3 * MIB);

	ck_assert_uint_eq(kiln_buffer_size_bytes(a), 1000);
	ck_assert_uint_eq(kiln_buffer_address(a) % 64, 0);
	ck_assert_ptr_eq(kiln_buffer_device(a), dev);
	ck_assert_ptr_null(kiln_buffer_host(a));
	ck_assert_uint_eq(usage().allocations, 2);
	ck_assert_uint_eq(usage().live_bytes, 1000 + 3 * MIB);
	ck_assert(kiln_buffer_address(b) >= kiln_buffer_address(a) + 1000 ||
		  kiln_buffer_address(b) + 3 * MIB <= kiln_buffer_address(a));
	ck_assert_ptr_eq(kiln_buffer_retain(a), a);
	kiln_buffer_release(a);
	ck_assert_uint_eq(usage().live_bytes, 1000 + 3 * MIB);
	kiln_buffer_release(a);
	ck_assert_uint_eq(usage().live_bytes, 3 * MIB);
	kiln_buffer_release(b);
	kiln_buffer_release(NULL);
	ck_assert_uint_eq(usage().allocations, 0);
	ck_assert_uint_eq(usage().peak_live_bytes, 1000 + 3 * MIB);
}
END_TEST

START_TEST(buffer_takes_the_place_of_another)
{
	struct kiln_buffer *a = take(NULL, 100);

	OK(kiln_buffer_create(&a, dev, NULL, 200));
	ck_assert_uint_eq(kiln_buffer_size_bytes(a), 200);
	ck_assert_uint_eq(usage().live_bytes, 200);
	kiln_buffer_release(a);
}
END_TEST

START_TEST(buffer_of_the_host)
{
	struct kiln_device *cpu = open_device("cpu");
	struct kiln_buffer *a = NULL, *none = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	float *data;

	OK(kiln_buffer_create(&a, cpu, NULL, 16));
	OK(kiln_buffer_create(&none, cpu, NULL, 0));
	data = kiln_buffer_host(a);
	ck_assert_uint_eq((uintptr_t)data, kiln_buffer_address(a));
	ck_assert_ptr_null(kiln_buffer_host(none));
	for (int i = 0; i < 4; i++)
		data[i] = (float)i;
	OK(kiln_tensor_from_foreign(&t, cpu, KILN_F32, 1, SHAPE(4), data,
				    KILN_FOREIGN_READ_ONLY, NULL, NULL));
	OK(kiln_add(&t, t, t));
	EXPECT_FLOATS(t, 0, 2, 4, 6);
	kiln_tensor_release(t);
	kiln_buffer_release(none);
	kiln_buffer_release(a);
	kiln_device_release(cpu);
}
END_TEST

START_TEST(buffer_of_nothing)
{
	struct kiln_buffer *a = take(NULL, 0);

	ck_assert_uint_eq(kiln_buffer_size_bytes(a), 0);
	ck_assert_uint_ne(kiln_buffer_address(a), 0);
	ck_assert_uint_eq(usage().reserved_bytes, 0);
	kiln_buffer_release(a);
}
END_TEST

START_TEST(buffer_refuses)
{
	struct kiln_device *cpu = open_device("cpu");
	struct kiln_stream *foreign = NULL, *stream = NULL;
	struct kiln_buffer *a = NULL;
	struct kiln_buffer *odd = (struct kiln_buffer *)(void *)dev;

	OK(kiln_stream_create(&foreign, cpu));
	OK(kiln_stream_create(&stream, dev));
	FAILS(kiln_buffer_create(NULL, dev, NULL, 1), KILN_ERR_INVALID, "out");
	FAILS(kiln_buffer_create(&a, NULL, NULL, 1), KILN_ERR_INVALID,
	      "device");
	FAILS(kiln_buffer_create(&odd, dev, NULL, 1), KILN_ERR_INVALID,
	      "no live buffer");
	FAILS(kiln_buffer_create(&a, dev, foreign, 1), KILN_ERR_DEVICE,
	      "cpu:0, not of null:0");
	FAILS(kiln_buffer_create(&a, dev, (struct kiln_stream *)(void *)dev, 1),
	      KILN_ERR_INVALID, "no live stream");
	FAILS(kiln_buffer_create(&a, dev, NULL, UINT64_MAX), KILN_ERR_OVERFLOW,
	      "18446744073709551615");
	FAILS(kiln_buffer_create(&a, dev, NULL, UINT64_C(1) << 50),
	      KILN_ERR_LIMIT, "1125899906842624");
	ck_assert_ptr_null(a);
	FAILS(kiln_buffer_use(NULL, NULL), KILN_ERR_INVALID, "buffer is NULL");
	a = take(stream, 1);
	FAILS(kiln_buffer_use(a, foreign), KILN_ERR_DEVICE, "not of null:0");
	kiln_buffer_release(a);
	kiln_stream_release(foreign);
	kiln_stream_release(stream);
	kiln_device_release(cpu);
	ck_assert_uint_eq(usage().allocations, 0);
}
END_TEST

/* Its device lives as long as the last of its buffers. */
START_TEST(buffer_holds_its_device)
{
	struct kiln_buffer *a = take(NULL, 100);

	kiln_device_release(dev);
	ck_assert_str_eq(kiln_device_selector(kiln_buffer_device(a)), "null:0");
	dev = kiln_device_retain(kiln_buffer_device(a));
	kiln_buffer_release(a);
}
END_TEST

/* ---- order ---- */

#define ALL (4 * MIB)

/* Room for one buffer of ALL and no more. */
static void setup_tight(void)
{
	setenv("KILN_POOL_CAP_BYTES", "4M", 1);
	setup();
}

static void teardown_tight(void)
{
	teardown();
	unsetenv("KILN_POOL_CAP_BYTES");
}

static struct kiln_stream *new_stream(void)
{
	struct kiln_stream *stream = NULL;

	OK(kiln_stream_create(&stream, dev));
	return stream;
}

static void hold(struct kiln_stream *stream, const int *gate)
{
	OK(kiln_stream_set_current(dev, stream));
	OK(kilni_test_gate(dev, gate));
	OK(kiln_stream_set_current(dev, NULL));
}

/* What is taken on a second stream waits for the work of the first. */
START_TEST(order_follows_the_first_stream)
{
	struct kiln_stream *first = new_stream(), *second = new_stream();
	struct kiln_buffer *a = take(first, ALL), *b;
	uint64_t address = kiln_buffer_address(a);
	int gate = 0;

	hold(first, &gate);
	kiln_buffer_release(a);
	ck_assert(kilni_stream_idle(second->slot));
	b = take(second, ALL);
	ck_assert_uint_eq(kiln_buffer_address(b), address);
	ck_assert(!kilni_stream_idle(second->slot));
	kilni_gate_open(&gate);
	OK(kiln_device_sync(dev));
	ck_assert(kilni_stream_idle(second->slot));
	kiln_buffer_release(b);
	kiln_stream_release(first);
	kiln_stream_release(second);
}
END_TEST

/* A use that was noted on another stream is waited for by its own. */
START_TEST(order_follows_noted_uses)
{
	struct kiln_stream *first = new_stream(), *second = new_stream();
	struct kiln_buffer *a = take(first, ALL), *b;
	int gate = 0;

	hold(second, &gate);
	OK(kiln_buffer_use(a, second));
	OK(kiln_buffer_use(a, second));
	kiln_buffer_release(a);
	ck_assert(kilni_stream_idle(first->slot));
	b = take(first, ALL);
	ck_assert(!kilni_stream_idle(first->slot));
	kilni_gate_open(&gate);
	OK(kiln_device_sync(dev));
	kiln_buffer_release(b);
	kiln_stream_release(first);
	kiln_stream_release(second);
}
END_TEST

/* On its own stream nothing waits. */
START_TEST(order_is_free_on_one_stream)
{
	struct kiln_stream *stream = new_stream();
	struct kiln_buffer *a = take(stream, ALL);
	int gate = 0;

	hold(stream, &gate);
	kiln_buffer_release(a);
	a = take(stream, ALL);
	kiln_buffer_release(a);
	kilni_gate_open(&gate);
	OK(kiln_device_sync(dev));
	kiln_stream_release(stream);
}
END_TEST

/* More streams than a track has places for. */
START_TEST(order_of_many_streams)
{
	enum { MANY = 9 };
	struct kiln_stream *stream[MANY];
	struct kiln_buffer *a;
	int gate[MANY] = { 0 };

	for (int i = 0; i < MANY; i++)
		stream[i] = new_stream();
	a = take(stream[0], ALL);
	for (int i = 1; i < MANY; i++) {
		hold(stream[i], &gate[i]);
		OK(kiln_buffer_use(a, stream[i]));
	}
	kiln_buffer_release(a);
	a = take(stream[0], ALL);
	for (int i = 1; i < MANY; i++) {
		ck_assert_msg(!kilni_stream_idle(stream[0]->slot),
			      "stream %d was not waited for", i);
		kilni_gate_open(&gate[i]);
	}
	OK(kiln_device_sync(dev));
	ck_assert(kilni_stream_idle(stream[0]->slot));
	kiln_buffer_release(a);
	for (int i = 0; i < MANY; i++)
		kiln_stream_release(stream[i]);
}
END_TEST

static void *release_there(void *buffer)
{
	kiln_buffer_release(buffer);
	return NULL;
}

START_TEST(release_on_another_thread)
{
	struct kiln_buffer *a = take(NULL, ALL), *b;
	pthread_t thread;
	int gate = 0;

	OK(kilni_test_gate(dev, &gate));
	ck_assert_int_eq(pthread_create(&thread, NULL, release_there, a), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	b = take(NULL, ALL);
	kilni_gate_open(&gate);
	kiln_buffer_release(b);
	OK(kiln_device_sync(dev));
}
END_TEST

/* ---- fork ---- */

static int child(struct kiln_buffer *inherited)
{
	struct kiln_buffer *own = NULL;
	bool available;
	struct kiln_memory_usage now = KILN_MEMORY_USAGE_INIT;

	if (kiln_buffer_use(inherited, NULL) != KILN_ERR_FORKED)
		return 1;
	if (kiln_buffer_create(&own, dev, NULL, 1) != KILN_ERR_FORKED)
		return 2;
	if (kiln_memory_trim(dev, 0) != KILN_ERR_FORKED)
		return 3;
	if (kiln_persistent_begin(dev) != KILN_ERR_FORKED)
		return 4;
	if (kiln_memory_usage(dev, &now, &available) != KILN_ERR_FORKED)
		return 5;
	kiln_buffer_release(inherited);
	kiln_buffer_release(inherited);
	return 0;
}

START_TEST(fork_refuses_what_is_inherited)
{
	struct kiln_buffer *a = take(NULL, 100);
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(child(a));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(usage().live_bytes, 100);
	kiln_buffer_release(a);
}
END_TEST

/* ---- trimming ---- */

START_TEST(trim_keeps_what_is_live)
{
	struct kiln_buffer *kept = take(NULL, 80 * MIB), *gone[4];

	for (int i = 0; i < 4; i++)
		gone[i] = take(NULL, 100 * MIB);
	for (int i = 0; i < 4; i++)
		kiln_buffer_release(gone[i]);
	ck_assert_uint_ge(usage().reserved_bytes, 480 * MIB);
	OK(kiln_memory_trim(dev, UINT64_MAX));
	ck_assert_uint_ge(usage().reserved_bytes, 480 * MIB);
	OK(kiln_memory_trim(dev, 300 * MIB));
	ck_assert_uint_le(usage().reserved_bytes, 300 * MIB);
	ck_assert_uint_ge(usage().reserved_bytes, 80 * MIB);
	OK(kiln_memory_trim(dev, 0));
	ck_assert_uint_ge(usage().reserved_bytes, 80 * MIB);
	ck_assert_uint_le(usage().reserved_bytes, 100 * MIB);
	kiln_buffer_release(kept);
	OK(kiln_memory_cleanup(dev));
	ck_assert_uint_eq(usage().reserved_bytes, 0);
	FAILS(kiln_memory_trim(NULL, 0), KILN_ERR_INVALID,
	      "kiln_memory_trim: device");
}
END_TEST

/* ---- persistent scopes ---- */

static size_t special_pools(struct kiln_pool_info infos[16])
{
	size_t count = 16;
	bool available;

	for (int i = 0; i < 16; i++)
		infos[i] = (struct kiln_pool_info)KILN_POOL_INFO_INIT;
	OK(kiln_memory_special_pools(dev, infos, &count, &available));
	ck_assert(available);
	ck_assert_uint_le(count, 16);
	return count;
}

static uint64_t persistent_bytes(void)
{
	struct kiln_pool_info infos[16];
	size_t count = special_pools(infos);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		if (infos[i].kind == KILN_POOL_PERSISTENT)
			bytes += infos[i].live_bytes;
	return bytes;
}

static struct kiln_buffer *kept[4];

static enum kiln_status take_one(struct kiln_device *device, void *user)
{
	return kiln_buffer_create(user, device, NULL, 1000);
}

static enum kiln_status take_and_fail(struct kiln_device *device, void *user)
{
	enum kiln_status status = take_one(device, user);

	return status ? status : kiln_buffer_create(NULL, device, NULL, 1);
}

static enum kiln_status leave_open(struct kiln_device *device, void *user)
{
	OK(kiln_persistent_begin(device));
	OK(kiln_persistent_begin(device));
	return take_one(device, user);
}

static enum kiln_status end_too_often(struct kiln_device *device, void *user)
{
	(void)user;
	OK(kiln_persistent_begin(device));
	OK(kiln_persistent_end(device));
	FAILS(kiln_persistent_end(device), KILN_ERR_INVALID,
	      "that of kiln_persistent_run");
	return KILN_OK;
}

static enum kiln_status run_inside(struct kiln_device *device, void *user)
{
	OK(kiln_persistent_run(device, leave_open, user));
	return end_too_often(device, NULL);
}

static void expect_temporary(void)
{
	uint64_t before = persistent_bytes();
	struct kiln_buffer *a = take(NULL, 10);

	ck_assert_uint_eq(persistent_bytes(), before);
	kiln_buffer_release(a);
}

static void release_kept(void)
{
	for (int i = 0; i < 4; i++) {
		kiln_buffer_release(kept[i]);
		kept[i] = NULL;
	}
}

START_TEST(persistent_run_restores)
{
	OK(kiln_persistent_run(dev, take_one, &kept[0]));
	ck_assert_uint_eq(persistent_bytes(), 1000);
	expect_temporary();
	FAILS(kiln_persistent_run(dev, take_and_fail, &kept[1]),
	      KILN_ERR_INVALID, "out is NULL");
	ck_assert_uint_eq(persistent_bytes(), 2000);
	expect_temporary();
	OK(kiln_persistent_run(dev, leave_open, &kept[2]));
	expect_temporary();
	OK(kiln_persistent_run(dev, run_inside, &kept[3]));
	ck_assert_uint_eq(persistent_bytes(), 4000);
	expect_temporary();
	release_kept();
	ck_assert_uint_eq(persistent_bytes(), 0);
}
END_TEST

START_TEST(persistent_run_inside_a_scope)
{
	OK(kiln_persistent_begin(dev));
	OK(kiln_persistent_run(dev, end_too_often, NULL));
	kept[0] = take(NULL, 500);
	ck_assert_uint_eq(persistent_bytes(), 500);
	OK(kiln_persistent_end(dev));
	FAILS(kiln_persistent_end(dev), KILN_ERR_INVALID, "no scope is open");
	expect_temporary();
	release_kept();
}
END_TEST

static enum kiln_status open_another(struct kiln_device *device, void *user)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	/* The thread's table of devices moves. */
	OK(kiln_device_open(user, "cpu"));
	OK(kiln_zeros(&t, *(struct kiln_device **)user, KILN_F32, 1, SHAPE(3)));
	kiln_tensor_release(t);
	return take_one(device, &kept[0]);
}

START_TEST(persistent_run_opens_another_device)
{
	struct kiln_device *cpu = NULL;

	OK(kiln_persistent_run(dev, open_another, &cpu));
	ck_assert_uint_eq(persistent_bytes(), 1000);
	expect_temporary();
	release_kept();
	kiln_device_release(cpu);
}
END_TEST

START_TEST(persistent_run_refuses)
{
	FAILS(kiln_persistent_run(NULL, take_one, NULL), KILN_ERR_INVALID,
	      "device");
	FAILS(kiln_persistent_run(dev, NULL, NULL), KILN_ERR_INVALID,
	      "function");
}
END_TEST

/* ---- reports ---- */

static size_t sliced_pools(struct kiln_pool_info infos[16])
{
	size_t count = 16;
	bool available;

	for (int i = 0; i < 16; i++)
		infos[i] = (struct kiln_pool_info)KILN_POOL_INFO_INIT;
	OK(kiln_memory_pools(dev, infos, &count, &available));
	ck_assert(available);
	ck_assert_uint_le(count, 16);
	return count;
}

static struct kiln_memory_calls calls(void)
{
	struct kiln_memory_calls now = KILN_MEMORY_CALLS_INIT;
	bool available = false;

	OK(kiln_memory_calls(dev, &now, &available));
	ck_assert(available);
	return now;
}

START_TEST(reports_add_up)
{
	struct kiln_pool_info infos[16];
	struct kiln_buffer *a = take(NULL, 100), *b = take(NULL, 200 * MIB);
	uint64_t live = 0, reserved = 0;
	size_t count;

	OK(kiln_persistent_run(dev, take_one, &kept[0]));
	count = sliced_pools(infos);
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_eq(infos[i].kind, KILN_POOL_SLICED);
		live += infos[i].live_bytes;
		reserved += infos[i].reserved_bytes;
		if (i)
			ck_assert_uint_gt(infos[i].max_slice_bytes,
					  infos[i - 1].max_slice_bytes);
	}
	count = special_pools(infos);
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_ne(infos[i].kind, KILN_POOL_SLICED);
		live += infos[i].live_bytes;
		reserved += infos[i].reserved_bytes;
	}
	ck_assert_uint_eq(live, 100 + 200 * MIB + 1000);
	ck_assert_uint_eq(reserved, usage().reserved_bytes);
	kiln_buffer_release(a);
	kiln_buffer_release(b);
	release_kept();
}
END_TEST

START_TEST(reports_refuse)
{
	struct kiln_memory_usage u = { .struct_size = 8 };
	struct kiln_memory_calls c = { .struct_size = 8 };
	struct kiln_pool_info info = { .struct_size = 8 };
	size_t count = 1;
	bool available;

	FAILS(kiln_memory_usage(dev, &u, &available), KILN_ERR_INVALID,
	      "struct_size");
	FAILS(kiln_memory_calls(dev, &c, &available), KILN_ERR_INVALID,
	      "struct_size");
	FAILS(kiln_memory_calls(dev, NULL, &available), KILN_ERR_INVALID,
	      "calls");
	FAILS(kiln_memory_calls(NULL, &c, &available), KILN_ERR_INVALID,
	      "device");
	FAILS(kiln_memory_pools(dev, &info, &count, &available),
	      KILN_ERR_INVALID, "kiln_memory_pools: struct_size 8");
	FAILS(kiln_memory_special_pools(dev, &info, &count, &available),
	      KILN_ERR_INVALID, "kiln_memory_special_pools: struct_size 8");
	FAILS(kiln_memory_special_pools(dev, NULL, NULL, &available),
	      KILN_ERR_INVALID, "count");
	FAILS(kiln_memory_pools(dev, NULL, &count, NULL), KILN_ERR_INVALID,
	      "available");
}
END_TEST

/* ---- layouts ---- */

START_TEST(layout_of_plain_pages)
{
	struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;
	struct kiln_buffer *a = take(NULL, MIB);
	char text[192];

	ck_assert_uint_gt(calls().map_attach, 0);
	ck_assert_uint_eq(calls().page_alloc, 0);
	layout.pages = KILN_PAGES_PLAIN;
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_BUSY, "live");
	kiln_buffer_release(a);
	OK(kiln_memory_set_layout(dev, &layout));
	ck_assert_uint_eq(usage().reserved_bytes, 0);
	a = take(NULL, MIB);
	ck_assert_uint_gt(calls().page_alloc, 0);
	kiln_buffer_release(a);
	OK(kiln_memory_mapping(dev, text, sizeof(text)));
	ck_assert_int_eq(strncmp(text, "plain: ", 7), 0);
	layout.pages = KILN_PAGES_MAPPED;
	OK(kiln_memory_set_layout(dev, &layout));
	OK(kiln_memory_mapping(dev, text, sizeof(text)));
	ck_assert_str_eq(text, "mapped");
	OK(kiln_memory_mapping(dev, text, 4));
	ck_assert_str_eq(text, "map");
	FAILS(kiln_memory_mapping(dev, text, 0), KILN_ERR_INVALID, "bytes");
	FAILS(kiln_memory_mapping(dev, NULL, 9), KILN_ERR_INVALID, "text");
	FAILS(kiln_memory_mapping(NULL, text, 9), KILN_ERR_INVALID, "device");
}
END_TEST

/* Two pools of one's own; each serves up to its largest slice. */
START_TEST(layout_of_own_pools)
{
	struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;
	struct kiln_pool_info infos[16];
	struct kiln_buffer *a, *b;

	layout.pool_count = 2;
	layout.pool[0] = (struct kiln_pool_layout){ MIB, 65536, 0 };
	layout.pool[1] = (struct kiln_pool_layout){ 8 * MIB, 8 * MIB, 0 };
	OK(kiln_memory_set_layout(dev, &layout));
	a = take(NULL, 65536);
	b = take(NULL, 65537);
	ck_assert_uint_eq(sliced_pools(infos), 2);
	ck_assert_uint_eq(infos[0].page_bytes, MIB);
	ck_assert_uint_eq(infos[0].max_slice_bytes, 65536);
	ck_assert_uint_eq(infos[0].live_bytes, 65536);
	ck_assert_uint_eq(infos[0].reserved_bytes, MIB);
	ck_assert_uint_eq(infos[1].page_bytes, 8 * MIB);
	ck_assert_uint_eq(infos[1].live_bytes, 65537);
	kiln_buffer_release(a);
	kiln_buffer_release(b);
	/* Its largest slice is a whole page. */
	a = take(NULL, 8 * MIB);
	ck_assert_uint_eq(sliced_pools(infos), 2);
	ck_assert_uint_eq(infos[1].live_bytes, 8 * MIB);
	kiln_buffer_release(a);
}
END_TEST

/* P02: a cap is usable to its last byte. */
START_TEST(layout_with_a_cap)
{
	struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;
	struct kiln_buffer *a[16], *b = NULL;

	layout.cap_bytes = 16 * MIB;
	OK(kiln_memory_set_layout(dev, &layout));
	for (int i = 0; i < 16; i++)
		a[i] = take(NULL, MIB);
	ck_assert_uint_eq(usage().reserved_bytes, 16 * MIB);
	FAILS(kiln_buffer_create(&b, dev, NULL, 1), KILN_ERR_LIMIT,
	      "16777216");
	for (int i = 0; i < 16; i++)
		kiln_buffer_release(a[i]);
	b = take(NULL, 16 * MIB);
	kiln_buffer_release(b);
}
END_TEST

START_TEST(layout_is_refused)
{
	struct kiln_memory_layout layout = KILN_MEMORY_LAYOUT_INIT;

	FAILS(kiln_memory_set_layout(dev, NULL), KILN_ERR_INVALID, "layout");
	FAILS(kiln_memory_set_layout(NULL, &layout), KILN_ERR_INVALID,
	      "device");
	layout.struct_size = 3;
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_INVALID, "size");
	layout.struct_size = sizeof(layout);
	layout.pool_count = KILN_LAYOUT_POOLS_MAX + 1;
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_INVALID,
	      "9 pools");
	layout.pool_count = 0;
	layout.pages = (enum kiln_pages)3;
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_INVALID,
	      "kind 3");
	layout.pages = KILN_PAGES_DEFAULT;
	layout.pool_count = 1;
	layout.pool[0] = (struct kiln_pool_layout){ 65536, 65537, 0 };
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_OPTION, "65537");
	layout.pool[0] = (struct kiln_pool_layout){ 0, 0, 0 };
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_OPTION, "0");
	layout.pool_count = 2;
	layout.pool[0] = (struct kiln_pool_layout){ MIB, 65536, 0 };
	layout.pool[1] = (struct kiln_pool_layout){ MIB, 65536, 0 };
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_OPTION, "65536");
	layout.pool_count = 0;
	layout.cap_bytes = 1;
	FAILS(kiln_memory_set_layout(dev, &layout), KILN_ERR_OPTION, "1");
	/* Nothing has changed. */
	kiln_buffer_release(take(NULL, 100 * MIB));
}
END_TEST

/* ---- reports of a failed stream ---- */

START_TEST(failed_stream_has_no_report)
{
	struct kiln_device *cpu = open_device("cpu");
	struct kiln_tensor *x = FLOATS(cpu, 1, 2), *i = INTS(cpu, 5), *y = NULL;
	struct kiln_memory_usage now = KILN_MEMORY_USAGE_INIT;
	struct kiln_memory_calls calls = KILN_MEMORY_CALLS_INIT;
	struct kiln_stream *stream = NULL;
	bool available = true;
	size_t count = 7;

	(void)!kiln_gather(&y, x, 0, i);
	(void)!kiln_device_sync(cpu);
	OK(kiln_stream_current(&stream, cpu));
	ck_assert(kiln_stream_poisoned(stream));
	OK(kiln_memory_usage(cpu, &now, &available));
	ck_assert(!available);
	available = true;
	OK(kiln_memory_pools(cpu, NULL, &count, &available));
	ck_assert(!available);
	ck_assert_uint_eq(count, 0);
	available = true;
	OK(kiln_memory_special_pools(cpu, NULL, &count, &available));
	ck_assert(!available);
	available = true;
	OK(kiln_memory_calls(cpu, &calls, &available));
	ck_assert(!available);
	OK(kiln_stream_reset(stream));
	OK(kiln_memory_usage(cpu, &now, &available));
	ck_assert(available);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(i);
	kiln_stream_release(stream);
	kiln_device_release(cpu);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("memory");
	TCase *tcase = tcase_create("null");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, buffer_is_counted);
	tcase_add_test(tcase, buffer_takes_the_place_of_another);
	tcase_add_test(tcase, buffer_of_the_host);
	tcase_add_test(tcase, buffer_of_nothing);
	tcase_add_test(tcase, buffer_refuses);
	tcase_add_test(tcase, buffer_holds_its_device);
	if (!SANITIZED)
		tcase_add_test(tcase, fork_refuses_what_is_inherited);
	tcase_add_test(tcase, trim_keeps_what_is_live);
	tcase_add_test(tcase, persistent_run_restores);
	tcase_add_test(tcase, persistent_run_inside_a_scope);
	tcase_add_test(tcase, persistent_run_opens_another_device);
	tcase_add_test(tcase, persistent_run_refuses);
	tcase_add_test(tcase, reports_add_up);
	tcase_add_test(tcase, reports_refuse);
	tcase_add_test(tcase, layout_of_plain_pages);
	tcase_add_test(tcase, layout_of_own_pools);
	tcase_add_test(tcase, layout_with_a_cap);
	tcase_add_test(tcase, layout_is_refused);
	tcase_add_test(tcase, failed_stream_has_no_report);
	suite_add_tcase(s, tcase);
	tcase = tcase_create("tight");
	tcase_add_checked_fixture(tcase, setup_tight, teardown_tight);
	tcase_add_test(tcase, order_follows_the_first_stream);
	tcase_add_test(tcase, order_follows_noted_uses);
	tcase_add_test(tcase, order_is_free_on_one_stream);
	tcase_add_test(tcase, order_of_many_streams);
	tcase_add_test(tcase, release_on_another_thread);
	suite_add_tcase(s, tcase);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
