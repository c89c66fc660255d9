/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"
#include "there.h"

/*
 * The Vulkan driver's own ways, on a software device. What it shares with the
 * others is tested by t_drivers, and by the suites that KILN_TEST_DEVICE turns
 * to it.
 */

#define SELECTOR "vulkan:cpu"
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
/* More than a loaded machine needs, less than a silent device is waited for. */
#define PATIENCE_NS UINT64_C(30000000000)

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_device(SELECTOR);
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
	dev = NULL;
}

static void expect_sum(struct kiln_device *device)
{
	struct kiln_tensor *x = FLOATS(device, 1), *y = FLOATS(device, 2);

	OK(kiln_add(&x, x, y));
	EXPECT_FLOATS(x, 3);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}

/* ---- who gets it ---- */

START_TEST(only_by_name)
{
	struct kiln_device *device = NULL;

	OK(kiln_device_open(&device, "auto"));
	ck_assert_str_ne(kiln_device_selector(device),
			 kiln_device_selector(dev));
	kiln_device_release(device);
	device = NULL;
	if (kiln_device_open(&device, "vulkan") == KILN_OK)
		ck_assert_str_ne(kiln_device_selector(device),
				 kiln_device_selector(dev));
	kiln_device_release(device);
}
END_TEST

/* ---- limits ---- */

static struct kiln_tensor *bytes_of(int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	uint8_t *data = malloc((size_t)count);

	for (int64_t i = 0; i < count; i++)
		data[i] = (uint8_t)(i % 251);
	t = make(dev, KILN_U8, 1, &count, data);
	free(data);
	return t;
}

/* More than a binding's usual range: no byte is lost. */
START_TEST(beyond_a_range)
{
	const int64_t count = (128 << 20) + 3, cut = count - 4;
	struct kiln_tensor *t = bytes_of(count);
	struct kiln_slice last = { cut, KILN_SLICE_END, 1 };
	uint8_t want[4];

	OK(kiln_add_scalar(&t, t, kiln_int(1)));
	OK(kiln_slice(&t, t, 1, &last));
	for (int i = 0; i < 4; i++)
		want[i] = (uint8_t)((cut + i) % 251 + 1);
	expect_bytes(t, want, 4, "the last bytes");
	kiln_tensor_release(t);
}
END_TEST

static void setup_limits(void)
{
	setenv("KILN_VULKAN_ALLOCATION_BYTES", "16M", 1);
	setenv("KILN_VULKAN_HEAP_BYTES", "64M", 1);
	setenv("KILN_PAGE_BYTES", "1G", 1);
	setup();
}

START_TEST(limits_are_told)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y[5] = { NULL };
	const int64_t large = 32 << 20, most = 15 << 20;
	enum kiln_status status = KILN_OK;
	int made = 0;

	FAILS(kiln_zeros(&x, dev, KILN_U8, 1, &large), KILN_ERR_LIMIT,
	      "16777216");
	ck_assert_ptr_null(x);
	while (status == KILN_OK && made < 5) {
		status = kiln_ones(&y[made], dev, KILN_U8, 1, &most);
		made += status == KILN_OK;
	}
	/* Pages of 1 GiB were asked for; the device gives what it can. */
	ck_assert_int_ge(made, 3);
	ck_assert_int_eq(status, KILN_ERR_LIMIT);
	for (int i = 0; i < made; i++)
		kiln_tensor_release(y[i]);
	expect_sum(dev);
}
END_TEST

/* ---- nothing to do ---- */

START_TEST(empty_tensors_submit_nothing)
{
	const int64_t shape[] = { 256, 0, 1, 3 };
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vkQueueSubmit", 1000000, KILN_ERR_DRIVER));
	OK(kiln_zeros(&x, dev, KILN_F32, 4, shape));
	OK(kiln_exp(&y, x));
	OK(kiln_add(&y, y, x));
	OK(kiln_greater(&y, x, x, KILN_BOOL));
	OK(kiln_cast(&y, x, KILN_I64));
	OK(kiln_permute(&y, x, (const int[]){ 3, 2, 1, 0 }));
	OK(kiln_neg(&y, y));
	OK(kiln_sum_dim(&y, x, 0));
	OK(kiln_device_sync(dev));
	ck_assert_uint_eq(kilni_fault_passes(), 0);
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	OK(kiln_sum_dim(&y, x, 1));
	ck_assert_uint_eq(kiln_tensor_size_bytes(y), 256 * 3 * sizeof(float));
	OK(kiln_sum(&y, x));
	EXPECT_FLOATS(y, 0);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* ---- one VkQueue, many threads ---- */

#define THREADS 8
#define ROUNDS (SANITIZED ? 50 : 1000)

static void *count_up(void *arg)
{
	struct kiln_tensor *t = FLOATS(dev, 0);
	float have = 0;

	(void)arg;
	for (int i = 0; i < ROUNDS; i++)
		if (kiln_add_scalar(&t, t, kiln_float(1)) != KILN_OK ||
		    kiln_device_flush(dev) != KILN_OK)
			break;
	if (kiln_tensor_read(t, &have, sizeof(have)) != KILN_OK)
		have = -1;
	kiln_tensor_release(t);
	return (void *)(uintptr_t)(have == (float)ROUNDS);
}

/* P11: one VkQueue below, and somebody who waits for all of it. */
START_TEST(one_queue_many_threads)
{
	pthread_t thread[THREADS];
	int good = 0;

	for (int i = 0; i < THREADS; i++)
		ck_assert(!pthread_create(&thread[i], NULL, count_up, NULL));
	for (int i = 0; i < ROUNDS / 5; i++)
		OK(kiln_device_sync(dev));
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		good += result != NULL;
	}
	ck_assert_int_eq(good, THREADS);
}
END_TEST

/* ---- how far a queue runs ahead of the device ---- */

/* Queues what takes long on the current stream; what comes behind it waits. */
static struct kiln_tensor *something_long(void)
{
	const int64_t shape[] = { 700, 700 };
	struct kiln_tensor *x = KILN_TENSOR_NONE;

	OK(kiln_ones(&x, dev, KILN_F32, 2, shape));
	OK(kiln_matmul(&x, x, x));
	OK(kiln_device_flush(dev));
	return x;
}

/* Adds 1 to *t on its stream, a batch each. */
static void add_ones(struct kiln_stream *stream, struct kiln_tensor **t,
		     int adds)
{
	OK(kiln_stream_set_current(dev, stream));
	for (int i = 0; i < adds; i++) {
		OK(kiln_add_scalar(t, *t, kiln_float(1)));
		OK(kiln_stream_flush(stream));
	}
}

/*
 * The first 16 pools of commands are there; the queue takes 16 more and then
 * waits in the ring.
 */
START_TEST(a_queue_has_so_many_batches)
{
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *t = FLOATS(dev, 0), *product;

	OK(kiln_stream_current(&stream, dev));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vkCreateCommandPool", 1000000, KILN_ERR_DRIVER));
	product = something_long();
	add_ones(stream, &t, 300);
	EXPECT_FLOATS(t, 300);
	ck_assert_uint_le(kilni_fault_passes(), 16);
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_tensor_release(product);
	kiln_tensor_release(t);
	kiln_stream_release(stream);
}
END_TEST

#define STREAMS 40
#define EACH 600 /* what waits is recorded 64 at a time */

/*
 * More queues than there are batches for: when the first one is done the others
 * have got some way. Some are late where what is long was over too soon; served
 * out of turn most of them are.
 */
START_TEST(queues_have_batches_in_turn)
{
	struct kiln_stream *stream[STREAMS] = { NULL };
	struct kiln_tensor *t[STREAMS] = { NULL };
	struct kiln_event *some[STREAMS] = { NULL };
	struct kiln_tensor *product;
	int late = 0;

	for (int i = 0; i < STREAMS; i++) {
		OK(kiln_stream_create(&stream[i], dev));
		OK(kiln_stream_set_current(dev, stream[i]));
		t[i] = FLOATS(dev, 0);
	}
	OK(kiln_device_sync(dev));
	OK(kiln_stream_set_current(dev, stream[0]));
	product = something_long();
	for (int i = 0; i < STREAMS; i++) {
		add_ones(stream[i], &t[i], 5);
		OK(kiln_event_record(&some[i], stream[i]));
		add_ones(stream[i], &t[i], EACH - 5);
	}
	OK(kiln_stream_sync(stream[0]));
	for (int i = 0; i < STREAMS; i++)
		late += !kiln_event_done(some[i]);
	ck_assert_int_lt(late, STREAMS / 4);
	kiln_tensor_release(product);
	for (int i = 0; i < STREAMS; i++) {
		OK(kiln_stream_set_current(dev, stream[i]));
		EXPECT_FLOATS(t[i], EACH);
		kiln_tensor_release(t[i]);
		kiln_event_release(some[i]);
	}
	OK(kiln_stream_set_current(dev, NULL));
	for (int i = 0; i < STREAMS; i++)
		kiln_stream_release(stream[i]);
}
END_TEST

/* ---- loops that a software device leaves after 65535 turns ---- */

enum { LONG = 140001 };

/* Ones all of them, so that the product is how many were taken. */
START_TEST(a_long_product)
{
	struct kiln_tensor *a = KILN_TENSOR_NONE, *b = KILN_TENSOR_NONE;
	struct kiln_tensor *c = KILN_TENSOR_NONE;

	OK(kiln_ones(&a, dev, KILN_F32, 2, SHAPE(2, LONG)));
	OK(kiln_ones(&b, dev, KILN_F32, 2, SHAPE(LONG, 1)));
	OK(kiln_matmul(&c, a, b));
	EXPECT_FLOATS(c, LONG, LONG);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(c);
}
END_TEST

/* In their order: the last assignment stays. */
START_TEST(a_long_scatter)
{
	struct kiln_tensor *at = KILN_TENSOR_NONE, *v = KILN_TENSOR_NONE;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;

	OK(kiln_zeros(&x, dev, KILN_I32, 1, SHAPE(2)));
	OK(kiln_zeros(&at, dev, KILN_I32, 1, SHAPE(LONG)));
	OK(kiln_arange(&v, dev, KILN_I32, 0, LONG, 1));
	OK(kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ASSIGN));
	EXPECT_INTS(y, LONG - 1, 0);
	OK(kiln_ones(&v, dev, KILN_I32, 1, SHAPE(LONG)));
	OK(kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ADD));
	EXPECT_INTS(y, LONG, 0);
	/* What is out of range is found in every part. */
	OK(kiln_arange(&at, dev, KILN_I32, 2 - LONG, 2, 1));
	OK(kiln_clamp_min(&at, at, kiln_int(0)));
	OK(kiln_add_scalar(&at, at, kiln_int(1)));
	(void)!kiln_scatter(&y, x, 0, at, v, KILN_UPDATE_ADD);
	FAILS(kiln_device_sync(dev), KILN_ERR_INDEX, "index 2");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(at);
	kiln_tensor_release(v);
}
END_TEST

/* ---- a device that fails ---- */

static void expect_lost(void)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_device *cpu = open_device("cpu");
	uint64_t start = kilni_now_ns();

	FAILS(kiln_ones(&x, dev, KILN_F32, 1, SHAPE(3)), KILN_ERR_DEVICE_LOST,
	      "lost");
	FAILS(kiln_device_sync(dev), KILN_ERR_DEVICE_LOST, "lost");
	ck_assert(kilni_now_ns() - start < PATIENCE_NS);
	expect_sum(cpu);
	kiln_device_release(cpu);
}

static enum kiln_status work_until_it_fails(struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	enum kiln_status status = KILN_OK;

	for (int i = 0; i < 20 && status == KILN_OK; i++) {
		status = kiln_exp(&y, x);
		if (status == KILN_OK)
			status = kiln_device_sync(dev);
	}
	kiln_tensor_release(y);
	return status;
}

/* P09: by a submission, and without a word. */
START_TEST(submit_that_loses_the_device)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3);

	OK(kilni_fault_set("vkQueueSubmit", 5, KILN_ERR_DEVICE_LOST));
	ck_assert_int_eq(work_until_it_fails(x), KILN_ERR_DEVICE_LOST);
	expect_lost();
	kiln_tensor_release(x);
	teardown();
	setup();
	expect_sum(dev);
}
END_TEST

static void setup_staging(void)
{
	setenv("KILN_VULKAN_STAGING", "1", 1);
	setup();
}

static enum kiln_status use_a_new_page(struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	enum kiln_status status;

	(void)x;
	status = kiln_zeros(&y, dev, KILN_F32, 1, SHAPE(16 << 20));
	kiln_tensor_release(y);
	return status;
}

static enum kiln_status read_it(struct kiln_tensor *x)
{
	float data[3];

	return kiln_tensor_read(x, data, sizeof(data));
}

static enum kiln_status write_another(struct kiln_tensor *x)
{
	struct kiln_tensor *y = KILN_TENSOR_NONE;
	const float data[] = { 4, 5 };
	enum kiln_status status;

	(void)x;
	status = kiln_tensor_from_data(&y, dev, KILN_F32, 1, SHAPE(2), data,
				       sizeof(data));
	kiln_tensor_release(y);
	return status;
}

static const struct {
	const char *call;
	enum kiln_status (*use)(struct kiln_tensor *x);
} streamless[] = {
	{ "vkAllocateMemory", use_a_new_page },
	{ "vkQueueSubmit", read_it },
	{ "vkBeginCommandBuffer", write_another },
};

/* No stream has anything with the device that would tell of it. */
START_TEST(lost_by_a_call_of_no_stream)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3);
	struct kiln_stream *other = NULL;
	struct kiln_event *event = NULL;
	int gate = 0;

	OK(kiln_device_sync(dev));
	/* Who waits for what is held hears of it too. */
	OK(kiln_stream_create(&other, dev));
	OK(kiln_stream_set_current(dev, other));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_event_record(&event, other));
	OK(kiln_stream_set_current(dev, NULL));
	OK(kilni_fault_set(streamless[_i].call, 1, KILN_ERR_DEVICE_LOST));
	ck_assert_int_eq(streamless[_i].use(x), KILN_ERR_DEVICE_LOST);
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	FAILS(kiln_device_sync(dev), KILN_ERR_DEVICE_LOST, "lost");
	ck_assert(kiln_device_lost(dev));
	ck_assert(kiln_event_done(event));
	FAILS(kiln_event_wait(event, -1), KILN_ERR_DEVICE_LOST, "lost");
	expect_lost();
	kilni_gate_open(&gate);
	kiln_event_release(event);
	kiln_stream_release(other);
	kiln_tensor_release(x);
	teardown();
	setup();
	expect_sum(dev);
}
END_TEST

static void setup_impatient(void)
{
	setenv("KILN_VULKAN_TIMEOUT_MS", "300", 1);
	setup();
}

/* The device does the work, and never says so. */
START_TEST(device_that_never_answers)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2, 3);
	uint64_t start;

	OK(kiln_exp(&x, x));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vulkan_signal", 1, KILN_ERR_DRIVER));
	start = kilni_now_ns();
	ck_assert_int_eq(work_until_it_fails(x), KILN_ERR_DEVICE_LOST);
	ck_assert(kilni_now_ns() - start < PATIENCE_NS);
	expect_lost();
	kiln_tensor_release(x);
	teardown();
	setup();
	expect_sum(dev);
}
END_TEST

/* ---- exit ---- */

static struct kiln_tensor *kept;

/* Runs ahead of the driver's own handler, which was there before. */
static void use_at_exit(void)
{
	struct kiln_tensor *one = FLOATS(dev, 1);

	OK(kiln_add(&kept, kept, one));
	EXPECT_FLOATS(kept, 2001);
	kiln_tensor_release(one);
	kiln_tensor_release(kept);
	teardown();
	_exit(6);
}

/* Leaves with thousands of entries in flight, more than there are batches. */
static void leave(bool uses)
{
	struct kiln_tensor *one;

	setup();
	if (uses)
		atexit(use_at_exit);
	kept = FLOATS(dev, 1);
	one = FLOATS(dev, 1);
	for (int i = 0; i < (uses ? 1999 : 10000); i++)
		OK(kiln_add(&kept, kept, one));
	kiln_tensor_release(one);
	exit(5);
}

/* A child that leaves so ends with that exit status. */
static void expect_exit(void (*leaves)(bool), bool how, int want)
{
	int status = 0;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child)
		leaves(how);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want,
		      "the child ended with status 0x%x", (unsigned)status);
}

START_TEST(exit_with_work_in_flight)
{
	expect_exit(leave, _i, 5 + _i);
}
END_TEST

/* The driver's own handler has run; each call of the library is a pass. */
static void expect_silence(void)
{
	uint64_t passes = kilni_fault_passes();

	usleep(50000);
	if (kilni_fault_passes() != passes)
		_exit(99);
}

/*
 * Leaves work to a thread that moves data, or to one that submits: little
 * beside the second that an exit waits for them.
 */
static void leave_to_threads(bool moves)
{
	enum { MANY = 20, BYTES = 4 << 20 };
	static char data[BYTES];
	struct kiln_completions *ring = NULL;
	struct kiln_tensor *one;
	const int64_t count = BYTES;

	setenv("KILN_VULKAN_STAGING", "1", 1);
	if (!moves)
		setenv("KILN_DRAIN", "thread", 1);
	atexit(expect_silence);
	setup();
	OK(kiln_completions_create(&ring, MANY));
	kept = make(dev, KILN_U8, 1, &count, data);
	one = FLOATS(dev, 1);
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("*", UINT64_MAX, KILN_ERR_DRIVER));
	for (uint64_t i = 0; i < MANY && moves; i++)
		OK(kiln_tensor_read_async(kept, data, BYTES, ring, i));
	for (int i = 0; i < 5000 && !moves; i++)
		OK(kiln_add(&one, one, one));
	exit(5);
}

START_TEST(exit_with_work_left_to_threads)
{
	expect_exit(leave_to_threads, _i, 5);
}
END_TEST

/* ---- graphs ---- */

/* z = x[3, 0] + 0 times a random number: it reports, and it draws. */
static enum kiln_status step_once(struct kiln_device *device,
				  struct kiln_tensor *z, struct kiln_tensor *x,
				  struct kiln_tensor *at)
{
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *y = NULL, *r = NULL;
	enum kiln_status status = kiln_select(&y, x, 0, at);

	if (!status)
		status = kiln_random(&r, device, KILN_F32, 1, SHAPE(2),
				     uniform);
	if (!status)
		status = kiln_mul_scalar(&r, r, kiln_float(0));
	if (!status)
		status = kiln_add(&y, y, r);
	if (!status)
		status = kiln_copy_into(z, y);
	kiln_tensor_release(y);
	kiln_tensor_release(r);
	return status;
}

struct replayed {
	struct kiln_tensor *x, *at, *z;
	struct kiln_graph *graph;
};

static enum kiln_status make_replayed(struct kiln_device *device,
				      struct replayed *r)
{
	const float data[] = { 1, 2, 3, 4 }, zero[] = { 0, 0 };
	const int32_t at[] = { 3, 0 };
	enum kiln_status status;

	memset(r, 0, sizeof(*r));
	status = kiln_tensor_from_data(&r->x, device, KILN_F32, 1, SHAPE(4),
				       data, sizeof(data));
	if (!status)
		status = kiln_tensor_from_data(&r->at, device, KILN_I32, 1,
					       SHAPE(2), at, sizeof(at));
	if (!status)
		status = kiln_tensor_from_data(&r->z, device, KILN_F32, 1,
					       SHAPE(2), zero, sizeof(zero));
	if (!status)
		status = kiln_graph_prepare(device);
	if (!status)
		status = step_once(device, r->z, r->x, r->at);
	if (!status)
		status = kiln_graph_start_capture(device);
	if (!status)
		status = step_once(device, r->z, r->x, r->at);
	if (!status)
		status = kiln_graph_stop_capture(&r->graph, device);
	return status;
}

static void release_replayed(struct kiln_device *device, struct replayed *r)
{
	kiln_graph_abandon(device);
	kiln_graph_release(r->graph);
	kiln_tensor_release(r->x);
	kiln_tensor_release(r->at);
	kiln_tensor_release(r->z);
}

/* More than there are turns. */
static enum kiln_status replay_all(struct replayed *r)
{
	enum kiln_status status = KILN_OK;
	float have[2] = { 0, 0 };

	for (int i = 0; i < 10 && !status; i++)
		status = kiln_graph_replay(r->graph);
	if (!status)
		status = kiln_tensor_read(r->z, have, sizeof(have));
	if (!status)
		ck_assert(have[0] == 4 && have[1] == 1);
	return status;
}

static enum kiln_status graph_program(struct kiln_device *device)
{
	struct replayed r;
	enum kiln_status status = make_replayed(device, &r);

	if (!status)
		status = replay_all(&r);
	release_replayed(device, &r);
	return status;
}

/* The graph goes while a device that does not answer may still run it. */
START_TEST(graph_on_a_device_that_never_answers)
{
	struct replayed r;

	OK(make_replayed(dev, &r));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vulkan_signal", 1, KILN_ERR_DRIVER));
	ck_assert_int_eq(replay_all(&r), KILN_ERR_DEVICE_LOST);
	FAILS(kiln_graph_replay(r.graph), KILN_ERR_DEVICE_LOST, "lost");
	release_replayed(dev, &r);
	teardown();
	setup();
	OK(graph_program(dev));
}
END_TEST

/* Likewise where the driver says that the device is lost. */
START_TEST(graph_on_a_device_that_is_lost)
{
	struct replayed r;

	OK(make_replayed(dev, &r));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vkQueueSubmit", 3, KILN_ERR_DEVICE_LOST));
	ck_assert_int_eq(replay_all(&r), KILN_ERR_DEVICE_LOST);
	release_replayed(dev, &r);
}
END_TEST

/* Which operation it was nobody knows; it is not laid to the first one. */
START_TEST(a_refused_replay_is_told_as_that)
{
	struct replayed r;
	float have[2];

	OK(make_replayed(dev, &r));
	OK(kiln_device_sync(dev));
	OK(kilni_fault_set("vkQueueSubmit", 1, KILN_ERR_DRIVER));
	OK(kiln_graph_replay(r.graph));
	FAILS(kiln_tensor_read(r.z, have, sizeof(have)), KILN_ERR_DRIVER,
	      "kiln_graph_replay: ");
	release_replayed(dev, &r);
}
END_TEST

/* ---- every call fails in turn ---- */

static enum kiln_status small_program(struct kiln_device *device)
{
	struct kiln_tensor *x = NULL, *y = NULL, *i = NULL;
	const float data[] = { 1, 2, 3, 4 };
	const int32_t at[] = { 3, 0 };
	enum kiln_status status;
	float have = 0;

	status = kiln_tensor_from_data(&x, device, KILN_F32, 2, SHAPE(2, 2),
				       data, sizeof(data));
	if (!status)
		status = kiln_tensor_from_data(&i, device, KILN_I32, 1,
					       SHAPE(2), at, sizeof(at));
	if (!status)
		status = kiln_matmul(&y, x, x);
	if (!status)
		status = kiln_reshape(&y, y, 1, SHAPE(4));
	if (!status)
		status = kiln_select(&y, y, 0, i);
	if (!status)
		status = kiln_sum(&y, y);
	if (!status)
		status = kiln_tensor_read(y, &have, sizeof(have));
	/* [[7, 10], [15, 22]]: 22 + 7 */
	if (!status)
		ck_assert_double_eq((double)have, 29);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(i);
	return status;
}

/* One fault; false where the program did not come that far. */
static bool survive(uint64_t nth, enum kiln_status injected)
{
	struct kiln_device *device = NULL;
	enum kiln_status status;
	uint64_t passes;

	OK(kilni_fault_set("*", nth, injected));
	status = kiln_device_open(&device, SELECTOR);
	if (!status)
		status = small_program(device);
	if (status) {
		ck_assert_str_ne(kiln_status_name(status), "KILN_ERR_UNKNOWN");
		ck_assert(*kiln_error_message());
	}
	kiln_device_release(device);
	passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	return passes >= nth;
}

static const enum kiln_status injected[] = { KILN_ERR_DRIVER,
					     KILN_ERR_OUT_OF_MEMORY,
					     KILN_ERR_DEVICE_LOST };

START_TEST(every_call_fails_in_turn)
{
	uint64_t nth = 1, step = SANITIZED ? 7 : 1;

	/* One of the faults is a device that never answers. */
	setenv("KILN_VULKAN_TIMEOUT_MS", "200", 1);
	while (survive(nth, injected[_i]))
		nth += step;
	/* Opening alone makes more calls than that. */
	ck_assert_int_gt((int)nth, 50);
	setup();
	OK(small_program(dev));
	teardown();
}
END_TEST

/* ---- the cache on disk ---- */

static char folder[] = "/tmp/kiln-t-vulkan-XXXXXX";
static char file[512];

static void setup_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("KILN_CACHE_DIR", folder, 1);
}

/* Names in the folder; the last one goes to file. */
static int list_folder(void)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	int count = 0;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.') {
			snprintf(file, sizeof(file), "%s/%.255s", folder,
				 entry->d_name);
			count++;
		}
	if (d)
		closedir(d);
	return count;
}

static void teardown_folder(void)
{
	while (list_folder())
		ck_assert(!unlink(file) || !rmdir(file));
	rmdir(folder);
}

static void run_once(void)
{
	setup();
	expect_sum(dev);
	teardown();
}

static long file_bytes(void)
{
	struct stat status;

	return stat(file, &status) || !S_ISREG(status.st_mode)
		       ? -1
		       : (long)status.st_size;
}

static void flip(long at)
{
	FILE *f = fopen(file, "r+b");
	int byte;

	ck_assert_ptr_nonnull(f);
	fseek(f, at, SEEK_SET);
	byte = getc(f);
	fseek(f, at, SEEK_SET);
	putc(byte ^ 1, f);
	fclose(f);
}

/* Whatever is wrong with the file: results are right, and it is replaced. */
/* P45: what is on the disk is never trusted, and never needed. */
START_TEST(damaged_cache_is_replaced)
{
	static const long flips[] = { 0, 8, 12, 16, 30, 50, 90, -1 };
	long bytes;

	run_once();
	ck_assert_int_eq(list_folder(), 1);
	bytes = file_bytes();
	ck_assert_int_gt((int)bytes, 31);
	for (int i = 0; i < COUNT(flips); i++) {
		flip(flips[i] < 0 ? bytes - 1 : flips[i]);
		run_once();
		ck_assert_int_eq(list_folder(), 1);
		ck_assert_int_eq(file_bytes(), bytes);
	}
	for (int length = 0; length <= 31; length += 31) {
		ck_assert(!truncate(file, length));
		run_once();
		ck_assert_int_eq(file_bytes(), bytes);
	}
	ck_assert(!unlink(file));
	ck_assert(!mkdir(file, 0700));
	run_once();
	ck_assert_int_eq(file_bytes(), bytes);
	ck_assert(!unlink(file));
	ck_assert(!mkfifo(file, 0600));
	run_once();
	ck_assert_int_eq(list_folder(), 1);
	ck_assert_int_eq(file_bytes(), bytes);
}
END_TEST

/* No place for it is no reason to fail, nor to leave anything behind. */
/* P45: no room for it. Nothing half-written stays. */
START_TEST(cache_on_a_full_disk)
{
	struct rlimit before, little = { 40, 40 };

	ck_assert(!getrlimit(RLIMIT_FSIZE, &before));
	little.rlim_max = before.rlim_max;
	ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	ck_assert(!setrlimit(RLIMIT_FSIZE, &little));
	run_once();
	ck_assert(!setrlimit(RLIMIT_FSIZE, &before));
	ck_assert_int_eq(list_folder(), 0);
	run_once();
	ck_assert_int_eq(list_folder(), 1);
}
END_TEST

START_TEST(cache_without_a_place)
{
	static const char *const places[] = { "/proc/kiln", "/dev/null/x",
					      "/nonexistent/of/kiln" };

	for (int i = 0; i < COUNT(places); i++) {
		setenv("KILN_CACHE_DIR", places[i], 1);
		run_once();
	}
	unsetenv("KILN_CACHE_DIR");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	run_once();
	setenv("HOME", "relative", 1);
	run_once();
	setenv("XDG_CACHE_HOME", folder, 1);
	run_once();
	strcat(folder, "/kiln");
	ck_assert_int_eq(list_folder(), 1);
	teardown_folder();
	*strrchr(folder, '/') = 0;
	ck_assert_int_eq(list_folder(), 0);
	ck_assert_int_ne(access("/nonexistent", F_OK), 0);
}
END_TEST

/* One fault in a graph's life; a device that is lost makes way for another. */
static bool survive_in_graph(uint64_t nth, enum kiln_status status)
{
	struct kiln_stream *own = NULL;
	uint64_t passes;

	OK(kiln_stream_current(&own, dev));
	OK(kilni_fault_set("*", nth, status));
	status = graph_program(dev);
	passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	if (status)
		ck_assert(*kiln_error_message());
	if (status != KILN_ERR_DEVICE_LOST && kiln_stream_reset(own) == KILN_OK)
		OK(graph_program(dev));
	kiln_stream_release(own);
	if (kiln_device_sync(dev) != KILN_OK) {
		teardown();
		setup();
	}
	return passes >= nth;
}

START_TEST(every_call_of_a_graph_fails_in_turn)
{
	uint64_t nth = 1, step = _i ? 7 : SANITIZED ? 3 : 1;

	/* One of the faults is a device that never answers. */
	setenv("KILN_VULKAN_TIMEOUT_MS", "200", 1);
	setup();
	while (survive_in_graph(nth, _i ? KILN_ERR_DEVICE_LOST
					: KILN_ERR_DRIVER))
		nth += step;
	ck_assert_int_gt((int)nth, 50);
	teardown();
}
END_TEST

static void add_cases(Suite *suite)
{
	TCase *device = tcase_create("device"), *limits = tcase_create("limits");
	TCase *hung = tcase_create("hung"), *sweep = tcase_create("sweep");
	TCase *cache = tcase_create("cache"), *graphs = tcase_create("graphs");
	TCase *leaving = tcase_create("leaving");
	TCase *staging = tcase_create("staging");

	tcase_add_checked_fixture(device, setup, teardown);
	tcase_set_timeout(device, 240);
	tcase_add_test(device, only_by_name);
	tcase_add_test(device, beyond_a_range);
	tcase_add_test(device, empty_tensors_submit_nothing);
	tcase_add_test(device, one_queue_many_threads);
	tcase_add_test(device, a_queue_has_so_many_batches);
	tcase_add_test(device, queues_have_batches_in_turn);
	tcase_add_test(device, a_long_product);
	tcase_add_test(device, a_long_scatter);
	tcase_add_test(device, submit_that_loses_the_device);
	tcase_add_test(device, graph_on_a_device_that_is_lost);
	tcase_add_test(device, a_refused_replay_is_told_as_that);
	suite_add_tcase(suite, device);
	tcase_add_checked_fixture(limits, setup_limits, teardown);
	tcase_set_timeout(limits, 60);
	tcase_add_test(limits, limits_are_told);
	suite_add_tcase(suite, limits);
	tcase_add_checked_fixture(staging, setup_staging, teardown);
	tcase_set_timeout(staging, 60);
	tcase_add_loop_test(staging, lost_by_a_call_of_no_stream, 0,
			    COUNT(streamless));
	suite_add_tcase(suite, staging);
	tcase_add_checked_fixture(hung, setup_impatient, teardown);
	tcase_set_timeout(hung, 60);
	tcase_add_test(hung, device_that_never_answers);
	tcase_add_test(hung, graph_on_a_device_that_never_answers);
	suite_add_tcase(suite, hung);
	tcase_set_timeout(sweep, 400);
	tcase_add_loop_test(sweep, every_call_fails_in_turn, 0,
			    COUNT(injected));
	suite_add_tcase(suite, sweep);
	tcase_set_timeout(leaving, 60);
	tcase_add_loop_test(leaving, exit_with_work_in_flight, 0, 2);
	tcase_add_loop_test(leaving, exit_with_work_left_to_threads, 0, 2);
	suite_add_tcase(suite, leaving);
	tcase_set_timeout(graphs, 300);
	tcase_add_loop_test(graphs, every_call_of_a_graph_fails_in_turn, 0, 2);
	suite_add_tcase(suite, graphs);
	tcase_add_checked_fixture(cache, setup_folder, teardown_folder);
	tcase_set_timeout(cache, 120);
	tcase_add_test(cache, damaged_cache_is_replaced);
	tcase_add_test(cache, cache_without_a_place);
	tcase_add_test(cache, cache_on_a_full_disk);
	suite_add_tcase(suite, cache);
}

int main(void)
{
	Suite *suite;

	if (!device_is_there(SELECTOR))
		return 77;
	suite = suite_create("vulkan");
	add_cases(suite);
	return run_suite(suite);
}
