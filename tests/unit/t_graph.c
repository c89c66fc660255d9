/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "file_rig.h"
#include "lib/testing.h"
#include "sanitized.h"

/*
 * Graphs, on every kind of device that there is: what a replay computes is
 * compared with hand arithmetic or with the same ops called one by one.
 */

static struct kiln_device *dev;
static bool computes;

static const char *const selectors[] = { "cpu", "null", "vulkan:cpu" };
#define DEVICES ((int)(sizeof(selectors) / sizeof(selectors[0])))

/* False: there is no such device, or another was asked for. */
static bool open_nth(int i)
{
	const char *asked = getenv("KILN_TEST_DEVICE");

	if (asked && *asked && i)
		return false;
	dev = NULL;
	if (asked && *asked)
		OK(kiln_device_open(&dev, asked));
	else if (kiln_device_open(&dev, selectors[i]))
		return false;
	computes = strcmp(kiln_device_name(dev), "null") != 0;
	return true;
}

static void done(void)
{
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_NONE);
	kiln_device_release(dev);
	dev = NULL;
}

#define ON(i)                                                                  \
	do {                                                                   \
		if (!open_nth(i))                                              \
			return;                                                \
	} while (0)

static void expect_floats(struct kiln_tensor *t, int count, const float *want,
			  const char *what)
{
	float have[64];

	ck_assert_int_le(count, 64);
	OK(kiln_tensor_read(t, have, (size_t)count * sizeof(float)));
	for (int i = 0; computes && i < count; i++)
		ck_assert_msg(have[i] == want[i], "%s: [%d] is %g, not %g",
			      what, i, (double)have[i], (double)want[i]);
}

#define WANT(t, ...)                                                           \
	expect_floats(t, sizeof((const float[]){ __VA_ARGS__ }) /              \
			 sizeof(float),                                        \
		      (const float[]){ __VA_ARGS__ }, #t)

static uint64_t live_bytes(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available;

	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert(available);
	return usage.live_bytes;
}

/* ---- a step with an input, a result and a state ---- */

struct step {
	struct kiln_tensor *x, *state, *y;
};

static void begin(struct step *step)
{
	*step = (struct step){ .x = FLOATS(dev, 1, 2, 3),
			       .state = FLOATS(dev, 0, 0, 0) };
}

/* y = 2 x + 1; state = state + y. */
static enum kiln_status run_step(struct kiln_device *device, void *user)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct step *step = user;
	enum kiln_status status;

	(void)device;
	status = kiln_mul_scalar(&t, step->x, kiln_float(2));
	if (!status)
		status = kiln_add_scalar(&step->y, t, kiln_float(1));
	if (!status)
		status = kiln_add(&t, step->state, step->y);
	if (!status)
		status = kiln_copy_into(step->state, t);
	kiln_tensor_release(t);
	return status;
}

static void end(struct step *step)
{
	kiln_tensor_release(step->x);
	kiln_tensor_release(step->y);
	kiln_tensor_release(step->state);
}

static void set(struct kiln_tensor *t, float a, float b, float c)
{
	struct kiln_tensor *from = FLOATS(dev, a, b, c);

	OK(kiln_copy_into(t, from));
	kiln_tensor_release(from);
}

static struct kiln_graph *capture_step(struct step *step)
{
	struct kiln_graph *graph = NULL;

	OK(kiln_graph_prepare(dev));
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_PREPARED);
	OK(run_step(dev, step));
	OK(kiln_graph_start_capture(dev));
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_CAPTURING);
	OK(run_step(dev, step));
	OK(kiln_graph_stop_capture(&graph, dev));
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_NONE);
	ck_assert(kiln_graph_is_captured(graph));
	ck_assert_str_eq(kiln_graph_fallback(graph), "");
	return graph;
}

START_TEST(a_replay_does_what_was_captured)
{
	struct kiln_graph *graph;
	struct step step;

	ON(_i);
	begin(&step);
	graph = capture_step(&step);
	ck_assert_uint_eq(kiln_graph_operations(graph), 4);
	/* The warm-up ran, the capture did not. */
	WANT(step.state, 3, 5, 7);
	OK(kiln_graph_replay(graph));
	WANT(step.y, 3, 5, 7);
	WANT(step.state, 6, 10, 14);
	set(step.x, 10, 20, 30);
	OK(kiln_graph_replay(graph));
	OK(kiln_graph_replay(graph));
	WANT(step.y, 21, 41, 61);
	WANT(step.state, 48, 92, 136);
	kiln_graph_release(graph);
	WANT(step.y, 21, 41, 61);
	end(&step);
	done();
}
END_TEST

START_TEST(replays_are_queued_in_turn_with_other_work)
{
	struct kiln_graph *graph;
	struct step step;
	int gate = 0;

	ON(_i);
	begin(&step);
	graph = capture_step(&step);
	OK(kilni_test_gate(dev, &gate));
	for (int i = 0; i < 100; i++) {
		OK(kiln_add_scalar(&step.x, step.x, kiln_float(1)));
		OK(kiln_graph_replay(graph));
	}
	/* In flight when its last reference goes. */
	kiln_graph_release(graph);
	kilni_gate_open(&gate);
	/* 3 + the sum over i = 2..101 of 2 i + 1, and so on. */
	WANT(step.state, 3 + 10400, 5 + 10600, 7 + 10800);
	end(&step);
	done();
}
END_TEST

START_TEST(an_empty_graph_does_nothing)
{
	struct kiln_graph *graph = NULL;

	ON(_i);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_graph_replay(graph));
	ck_assert_uint_eq(kiln_graph_operations(graph), 0);
	kiln_graph_release(graph);
	done();
}
END_TEST

START_TEST(misuse_is_told)
{
	struct kiln_graph *graph = NULL;

	ON(_i);
	FAILS(kiln_graph_start_capture(dev), KILN_ERR_INVALID, "prepared");
	FAILS(kiln_graph_stop_capture(&graph, dev), KILN_ERR_INVALID,
	      "no capture");
	FAILS(kiln_graph_stop_capture(NULL, dev), KILN_ERR_INVALID, "NULL");
	FAILS(kiln_graph_replay(NULL), KILN_ERR_INVALID, "graph");
	FAILS(kiln_graph_create(&graph, dev, NULL, NULL), KILN_ERR_INVALID,
	      "function");
	OK(kiln_graph_prepare(dev));
	FAILS(kiln_graph_prepare(dev), KILN_ERR_BUSY, "preparation");
	FAILS(kiln_graph_stop_capture(&graph, dev), KILN_ERR_INVALID,
	      "no capture");
	OK(kiln_graph_start_capture(dev));
	FAILS(kiln_graph_start_capture(dev), KILN_ERR_INVALID, "begun");
	kiln_graph_abandon(dev);
	kiln_graph_abandon(dev);
	ck_assert_ptr_null(graph);
	kiln_graph_release(NULL);
	done();
}
END_TEST

/* ---- P40 ---- */

START_TEST(P40_i_a_cold_pool_fails_the_capture_and_the_stream_works_on)
{
	struct kiln_tensor *big = KILN_TENSOR_NONE, *x;
	struct kiln_graph *graph = NULL;

	ON(_i);
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	FAILS(kiln_zeros(&big, dev, KILN_F32, 1, SHAPE(64 << 20)),
	      KILN_ERR_CAPTURE, "268435456");
	ck_assert_ptr_null(big);
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_BROKEN);
	OK(kiln_add_scalar(&x, x, kiln_float(1)));
	WANT(x, 2, 3, 4);
	FAILS(kiln_graph_stop_capture(&graph, dev), KILN_ERR_CAPTURE,
	      "268435456");
	ck_assert_ptr_null(graph);
	OK(kiln_add_scalar(&x, x, kiln_float(1)));
	WANT(x, 3, 4, 5);
	kiln_tensor_release(x);
	done();
}
END_TEST

START_TEST(P40_ii_a_warm_pool_serves_a_capture)
{
	struct kiln_tensor *warm = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	struct step step;

	ON(_i);
	begin(&step);
	/* Freed again: what the pools hold, without any warm-up. */
	OK(kiln_zeros(&warm, dev, KILN_F32, 1, SHAPE(1 << 16)));
	kiln_tensor_release(warm);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(run_step(dev, &step));
	OK(kiln_graph_stop_capture(&graph, dev));
	for (int i = 0; i < 100; i++)
		OK(kiln_graph_replay(graph));
	WANT(step.state, 300, 500, 700);
	kiln_graph_release(graph);
	end(&step);
	done();
}
END_TEST

struct other {
	int failed;
	float sum;
};

/* Allocates, computes and frees on a stream of its own. */
static void *work_aside(void *arg)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct other *other = arg;

	for (int i = 0; i < (SANITIZED ? 200 : 1000); i++) {
		float value = 0;

		if (kiln_full(&x, dev, KILN_F32, 1, SHAPE(1 + i % 500),
			      kiln_float(2)) ||
		    kiln_mul(&y, x, x) || kiln_sum(&y, y) ||
		    (i % 10 == 0 && kiln_tensor_read(y, &value, sizeof(value))))
			other->failed++;
		if (i % 10 == 0 && computes && value != 4 * (1 + i % 500))
			other->failed++;
		kiln_tensor_clear(&x);
		kiln_tensor_clear(&y);
	}
	return NULL;
}

static void *free_all(void *arg)
{
	struct kiln_tensor **t = arg;

	for (int i = 0; i < 1000; i++)
		kiln_tensor_release(t[i]);
	return NULL;
}

START_TEST(P40_iii_other_threads_are_not_concerned)
{
	struct kiln_tensor *freed[1000];
	struct other other = { 0, 0 };
	struct kiln_graph *graph = NULL;
	pthread_t worker, freer;
	struct step step;

	ON(_i);
	begin(&step);
	for (int i = 0; i < 1000; i++) {
		freed[i] = KILN_TENSOR_NONE;
		OK(kiln_zeros(&freed[i], dev, KILN_F32, 1, SHAPE(3)));
	}
	OK(kiln_graph_prepare(dev));
	OK(run_step(dev, &step));
	OK(kiln_graph_start_capture(dev));
	ck_assert_int_eq(pthread_create(&worker, NULL, work_aside, &other), 0);
	ck_assert_int_eq(pthread_create(&freer, NULL, free_all, freed), 0);
	for (int i = 0; i < 200; i++)
		if (i == 100)
			OK(run_step(dev, &step));
		else
			ck_assert_int_eq(kiln_graph_state(dev),
					 KILN_GRAPH_CAPTURING);
	pthread_join(freer, NULL);
	OK(kiln_graph_stop_capture(&graph, dev));
	for (int i = 0; i < 100; i++)
		OK(kiln_graph_replay(graph));
	pthread_join(worker, NULL);
	ck_assert_int_eq(other.failed, 0);
	WANT(step.state, 303, 505, 707);
	kiln_graph_release(graph);
	end(&step);
	done();
}
END_TEST

START_TEST(P40_iv_what_cannot_be_captured_is_refused_by_name)
{
	struct kiln_completions *ring = NULL;
	struct kiln_profile *window = NULL;
	struct kiln_event *event = NULL;
	struct kiln_stream *own = NULL;
	struct kiln_graph *graph = NULL, *other;
	struct step step;
	float data[3];

	ON(_i);
	begin(&step);
	other = capture_step(&step);
	OK(kiln_graph_replay(other));
	OK(kiln_stream_current(&own, dev));
	OK(kiln_completions_create(&ring, 4));
	OK(kiln_graph_prepare(dev));
	OK(run_step(dev, &step));
	OK(kiln_graph_start_capture(dev));
	OK(run_step(dev, &step));
	FAILS(kiln_tensor_read(step.y, data, sizeof(data)), KILN_ERR_CAPTURE,
	      "kiln_tensor_read: the result of kiln_add,");
	FAILS(kiln_tensor_from_data(&step.x, dev, KILN_F32, 1, SHAPE(3), data,
				    sizeof(data)),
	      KILN_ERR_CAPTURE, "kiln_tensor_from_data");
	FAILS(kiln_device_sync(dev), KILN_ERR_CAPTURE, "kiln_device_sync");
	FAILS(kiln_stream_sync(own), KILN_ERR_CAPTURE, "kiln_stream_sync");
	FAILS(kiln_stream_reset(own), KILN_ERR_CAPTURE, "kiln_stream_reset");
	FAILS(kiln_event_record(&event, own), KILN_ERR_CAPTURE,
	      "kiln_event_record");
	FAILS(kiln_stream_complete(own, ring, 1), KILN_ERR_CAPTURE,
	      "kiln_stream_complete");
	FAILS(kiln_tensor_complete(step.y, ring, 1), KILN_ERR_CAPTURE,
	      "kiln_tensor_complete");
	FAILS(kiln_graph_replay(other), KILN_ERR_CAPTURE, "kiln_graph_replay");
	FAILS(kiln_profile_start(&window, dev), KILN_ERR_CAPTURE,
	      "kiln_profile_start");
	FAILS(kiln_tensor_read_async(step.y, data, sizeof(data), ring, 1),
	      KILN_ERR_CAPTURE, "kiln_tensor_read_async");
	FAILS(kiln_tensor_write_async(step.x, data, sizeof(data), ring, 1),
	      KILN_ERR_CAPTURE, "kiln_tensor_write_async");
	OK(kiln_stream_flush(own));
	/* None of it has hurt the capture. */
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_graph_replay(graph));
	WANT(step.state, 12, 20, 28);
	kiln_graph_release(graph);
	kiln_graph_release(other);
	kiln_completions_release(ring);
	kiln_stream_release(own);
	end(&step);
	done();
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_stays_while_the_graph_lives)
{
	struct kiln_tensor *fresh[50], *y;
	struct kiln_graph *graph;
	uint64_t before;
	struct step step;

	ON(_i);
	before = live_bytes();
	begin(&step);
	graph = capture_step(&step);
	/* What the graph holds does not count. */
	ck_assert(kiln_tensor_can_mut(step.x));
	ck_assert(kiln_tensor_can_mut(step.state));
	y = kiln_tensor_retain(step.y);
	end(&step);
	/* Were the memory given back, one of these would have it. */
	for (int i = 0; i < 50; i++) {
		fresh[i] = KILN_TENSOR_NONE;
		OK(kiln_full(&fresh[i], dev, KILN_F32, 1, SHAPE(3),
			     kiln_float(-5)));
	}
	OK(kiln_graph_replay(graph));
	WANT(y, 3, 5, 7);
	for (int i = 0; i < 50; i++) {
		WANT(fresh[i], -5, -5, -5);
		kiln_tensor_release(fresh[i]);
	}
	ck_assert_uint_gt(live_bytes(), before + 12);
	kiln_graph_release(graph);
	WANT(y, 3, 5, 7);
	kiln_tensor_release(y);
	ck_assert_uint_eq(live_bytes(), before);
	done();
}
END_TEST

START_TEST(a_long_capture_needs_what_the_warm_up_did)
{
	struct kiln_tensor *x, *t = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	uint64_t warm;

	ON(_i);
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_graph_prepare(dev));
	for (int run = 0; run < 2; run++) {
		if (run)
			OK(kiln_graph_start_capture(dev));
		/* Each a new tensor, the one before released. */
		for (int i = 0; i < 300; i++) {
			struct kiln_tensor *next = KILN_TENSOR_NONE;

			OK(kiln_add_scalar(&next, t ? t : x, kiln_float(1)));
			kiln_tensor_release(t);
			t = next;
		}
		if (!run)
			warm = live_bytes();
		if (!run)
			kiln_tensor_clear(&t);
	}
	OK(kiln_graph_stop_capture(&graph, dev));
	ck_assert_uint_eq(live_bytes(), warm);
	OK(kiln_graph_replay(graph));
	OK(kiln_graph_replay(graph));
	WANT(t, 301, 302, 303);
	kiln_tensor_release(t);
	kiln_tensor_release(x);
	kiln_graph_release(graph);
	done();
}
END_TEST

START_TEST(a_captured_result_is_not_there_before_a_replay)
{
	struct kiln_tensor *z = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	struct kiln_stream *aside = NULL;
	struct step step;
	float data[3];

	ON(_i);
	begin(&step);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(run_step(dev, &step));
	/* Another stream sees the old state, and no result. */
	OK(kiln_stream_create(&aside, dev));
	OK(kiln_stream_set_current(dev, aside));
	WANT(step.state, 0, 0, 0);
	FAILS(kiln_tensor_read(step.y, data, sizeof(data)), KILN_ERR_CAPTURE,
	      "kiln_add ");
	FAILS(kiln_neg(&z, step.y), KILN_ERR_CAPTURE, "kiln_add ");
	OK(kiln_stream_set_current(dev, NULL));
	OK(kiln_graph_stop_capture(&graph, dev));
	FAILS(kiln_neg(&z, step.y), KILN_ERR_CAPTURE, "not been replayed");
	OK(kiln_graph_replay(graph));
	OK(kiln_stream_set_current(dev, aside));
	OK(kiln_neg(&z, step.y));
	OK(kiln_stream_set_current(dev, NULL));
	WANT(z, -3, -5, -7);
	/* Over what another graph left: a result of none. */
	kiln_tensor_release(z);
	kiln_graph_release(graph);
	kiln_stream_release(aside);
	end(&step);
	done();
}
END_TEST

static void *leave_window(void *arg)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	(void)arg;
	if (kiln_graph_prepare(dev) ||
	    kiln_zeros(&t, dev, KILN_F32, 1, SHAPE(1000)) ||
	    kiln_graph_start_capture(dev) ||
	    kiln_add_scalar(&t, t, kiln_float(1)))
		abort();
	kiln_tensor_release(t);
	return NULL;
}

START_TEST(a_result_may_be_written_part_by_part)
{
	struct kiln_tensor *x, *both = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;

	ON(_i);
	x = FLOATS(dev, 1, 2);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_cat(&both, 2, (struct kiln_tensor *[]){ x, x }, 0));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_graph_replay(graph));
	WANT(both, 1, 2, 1, 2);
	kiln_tensor_release(x);
	kiln_tensor_release(both);
	kiln_graph_release(graph);
	done();
}
END_TEST

START_TEST(a_window_ends_with_its_thread)
{
	uint64_t before;

	ON(_i);
	before = live_bytes();
	for (int i = 0; i < 3; i++) {
		pthread_t thread;

		ck_assert_int_eq(pthread_create(&thread, NULL, leave_window,
						NULL),
				 0);
		pthread_join(thread, NULL);
	}
	ck_assert_uint_eq(live_bytes(), before);
	done();
}
END_TEST

/* P08: memory of the graph that another stream still reads. */
START_TEST(an_upload_waits_for_who_reads_the_memory)
{
	struct kiln_tensor *x, *y, *z = KILN_TENSOR_NONE;
	struct kiln_stream *aside = NULL;
	int gate = 0;

	ON(_i);
	OK(kiln_stream_create(&aside, dev));
	OK(kiln_graph_prepare(dev));
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_stream_set_current(dev, aside));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_neg(&z, x));
	OK(kiln_stream_set_current(dev, NULL));
	kiln_tensor_release(x);
	y = FLOATS(dev, 7, 8, 9);
	kilni_gate_open(&gate);
	WANT(z, -1, -2, -3);
	WANT(y, 7, 8, 9);
	kiln_graph_abandon(dev);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_stream_release(aside);
	done();
}
END_TEST

START_TEST(what_a_capture_reads_is_not_used_again)
{
	struct kiln_tensor *x, *y = KILN_TENSOR_NONE, *z = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;

	ON(_i);
	OK(kiln_graph_prepare(dev));
	x = FLOATS(dev, 3, 4, 5);
	OK(kiln_graph_start_capture(dev));
	OK(kiln_add_scalar(&y, x, kiln_float(1)));
	kiln_tensor_release(x);
	OK(kiln_mul_scalar(&z, y, kiln_float(10)));
	OK(kiln_graph_stop_capture(&graph, dev));
	for (int i = 0; i < 2; i++) {
		OK(kiln_graph_replay(graph));
		WANT(y, 4, 5, 6);
		WANT(z, 40, 50, 60);
	}
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_graph_release(graph);
	done();
}
END_TEST

/* Its state is made anew in each call, and is what the next one reads. */
static enum kiln_status square(struct kiln_device *device, void *user)
{
	struct kiln_tensor **h = user, *aside = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_matmul(h, *h, *h);

	(void)device;
	if (!status)
		status = kiln_exp(&aside, *h);
	kiln_tensor_release(aside);
	return status;
}

START_TEST(a_state_of_the_warm_up_is_kept)
{
	struct kiln_graph *graph = NULL;
	struct kiln_tensor *h;

	ON(_i);
	h = make(dev, KILN_F32, 2, SHAPE(2, 2), (const float[]){ 1, 1, 0, 1 });
	OK(kiln_graph_create(&graph, dev, square, &h));
	ck_assert_str_eq(kiln_graph_fallback(graph), "");
	for (int i = 0; i < 3; i++) {
		OK(kiln_graph_replay(graph));
		/* The square of the warm-up's result. */
		WANT(h, 1, 4, 0, 1);
	}
	kiln_graph_release(graph);
	kiln_tensor_release(h);
	done();
}
END_TEST

START_TEST(what_no_op_writes_is_there)
{
	struct kiln_tensor *none = KILN_TENSOR_NONE, *sum = KILN_TENSOR_NONE;
	struct kiln_tensor *bare = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	struct step step;
	float data[3];

	ON(_i);
	begin(&step);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_zeros(&none, dev, KILN_F32, 1, SHAPE(0)));
	OK(run_step(dev, &step));
	OK(kiln_empty(&bare, dev, KILN_F32, 1, SHAPE(3)));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_tensor_read(none, NULL, 0));
	OK(kiln_sum(&sum, none));
	WANT(sum, 0);
	OK(kiln_graph_replay(graph));
	OK(kiln_tensor_read(bare, data, sizeof(data)));
	kiln_tensor_release(none);
	kiln_tensor_release(sum);
	kiln_tensor_release(bare);
	kiln_graph_release(graph);
	end(&step);
	done();
}
END_TEST

static struct kiln_stream *lent;
static pthread_barrier_t lends;

static void *lend_stream(void *arg)
{
	(void)arg;
	if (kiln_stream_current(&lent, dev))
		abort();
	pthread_barrier_wait(&lends);
	pthread_barrier_wait(&lends);
	return NULL;
}

START_TEST(a_preparation_outlives_the_thread_that_lent_the_stream)
{
	struct kiln_graph *graph;
	struct step step;
	pthread_t thread;

	ON(_i);
	begin(&step);
	lent = NULL;
	pthread_barrier_init(&lends, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, lend_stream, NULL), 0);
	pthread_barrier_wait(&lends);
	OK(kiln_stream_set_current(dev, lent));
	OK(kiln_graph_prepare(dev));
	pthread_barrier_wait(&lends);
	pthread_join(thread, NULL);
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_PREPARED);
	kiln_graph_abandon(dev);
	graph = capture_step(&step);
	OK(kiln_graph_replay(graph));
	WANT(step.state, 6, 10, 14);
	OK(kiln_stream_set_current(dev, NULL));
	kiln_graph_release(graph);
	kiln_stream_release(lent);
	pthread_barrier_destroy(&lends);
	end(&step);
	done();
}
END_TEST

START_TEST(a_child_of_fork_has_no_part_in_it)
{
	int result;
	pid_t child;

	ON(_i);
	OK(kiln_graph_prepare(dev));
	child = fork();
	if (!child) {
		int state = kiln_graph_state(dev);

		kiln_graph_abandon(dev);
		_exit(state != KILN_GRAPH_NONE ||
		      kiln_device_pins(dev, &result, sizeof(result)));
	}
	ck_assert_int_eq(waitpid(child, &result, 0), child);
	ck_assert_int_eq(result, 0);
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_PREPARED);
	kiln_graph_abandon(dev);
	done();
}
END_TEST

START_TEST(files_are_refused_in_a_capture)
{
	struct kiln_safetensors_content content = KILN_SAFETENSORS_CONTENT_INIT;
	struct kiln_tensor *t = KILN_TENSOR_NONE, *x, *both[2];
	struct kiln_safetensors *named = NULL;
	struct kiln_file *old = NULL, *new = NULL;
	const char *const name = "x";

	ON(_i);
	make_folder();
	put_file(at("four"), (const float[]){ 5, 5, 5, 5 }, 16);
	x = FLOATS(dev, 1, 2, 3, 4);
	content.count = 1;
	content.names = &name;
	content.tensors = &x;
	OK(kiln_safetensors_save(at("named"), 0, &content));
	OK(kiln_safetensors_open(&named, at("named"), 0));
	OK(kiln_file_open(&old, at("four"), 0));
	OK(kiln_file_create(&new, at("new"), 0));
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	FAILS(kiln_file_read(&t, old, 0, dev, KILN_F32, 1, SHAPE(4)),
	      KILN_ERR_CAPTURE, "kiln_file_read");
	FAILS(kiln_file_write(new, 0, x), KILN_ERR_CAPTURE, "kiln_file_write");
	FAILS(kiln_safetensors_load(&t, named, name, dev), KILN_ERR_CAPTURE,
	      "kiln_safetensors_load");
	both[0] = KILN_TENSOR_NONE;
	FAILS(kiln_safetensors_load_all(both, named, dev, NULL, NULL),
	      KILN_ERR_CAPTURE, "kiln_safetensors_load_all");
	FAILS(kiln_safetensors_save(at("named"), 0, &content),
	      KILN_ERR_CAPTURE, "kiln_safetensors_save");
	ck_assert_ptr_null(t);
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_CAPTURING);
	kiln_graph_abandon(dev);
	OK(kiln_file_read(&t, old, 0, dev, KILN_F32, 1, SHAPE(4)));
	WANT(t, 5, 5, 5, 5);
	kiln_tensor_release(t);
	kiln_tensor_release(x);
	kiln_safetensors_release(named);
	kiln_file_release(old);
	kiln_file_release(new);
	remove_folder();
	done();
}
END_TEST

/* ---- choices ---- */

START_TEST(other_choices_than_the_warm_ups_fail_at_stop)
{
	struct kiln_tensor *x, *kept;
	struct kiln_graph *graph = NULL;

	ON(_i);
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_graph_prepare(dev));
	OK(kiln_exp(&x, x));
	OK(kiln_neg(&x, x));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_exp(&x, x));
	kept = kiln_tensor_retain(x);
	OK(kiln_neg(&x, x));
	FAILS(kiln_graph_stop_capture(&graph, dev), KILN_ERR_CAPTURE,
	      "kiln_neg (operation 2 of the capture) was captured out of "
	      "place, but ran in place");
	ck_assert_ptr_null(graph);
	ck_assert_int_eq(kiln_graph_state(dev), KILN_GRAPH_NONE);
	kiln_tensor_release(kept);
	kiln_tensor_release(x);
	done();
}
END_TEST

START_TEST(other_work_than_the_warm_ups_fails_at_stop)
{
	struct kiln_tensor *x;
	struct kiln_graph *graph = NULL;

	ON(_i);
	x = FLOATS(dev, 1, 2, 3);
	OK(kiln_graph_prepare(dev));
	OK(kiln_exp(&x, x));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_neg(&x, x));
	FAILS(kiln_graph_stop_capture(&graph, dev), KILN_ERR_CAPTURE,
	      "kiln_neg is operation 1 of the capture, where the warm-up ran "
	      "kiln_exp");
	/* More warm-ups than one, and reads of views, are no difference. */
	OK(kiln_graph_prepare(dev));
	for (int i = 0; i < 3; i++) {
		struct kiln_tensor *flip = KILN_TENSOR_NONE;
		float data[3];

		OK(kiln_neg(&x, x));
		OK(kiln_flip(&flip, x, 1, (const int[]){ 0 }));
		OK(kiln_tensor_read(flip, data, sizeof(data)));
		kiln_tensor_release(flip);
	}
	OK(kiln_graph_start_capture(dev));
	OK(kiln_neg(&x, x));
	OK(kiln_graph_stop_capture(&graph, dev));
	kiln_graph_release(graph);
	kiln_tensor_release(x);
	done();
}
END_TEST

/* ---- errors in a replay ---- */

START_TEST(an_error_in_a_replay_names_the_op)
{
	struct kiln_tensor *x, *index, *good, *y = KILN_TENSOR_NONE, *z;
	struct kiln_stream *own = NULL;
	struct kiln_graph *graph = NULL;
	float data[2];

	ON(_i);
	if (!computes) {
		done();
		return;
	}
	x = FLOATS(dev, 1, 2, 3);
	z = FLOATS(dev, 0, 0);
	index = INTS(dev, 2, 0);
	good = INTS(dev, 1, 1);
	OK(kiln_graph_prepare(dev));
	for (int run = 0; run < 2; run++) {
		if (run)
			OK(kiln_graph_start_capture(dev));
		OK(kiln_select(&y, x, 0, index));
		OK(kiln_neg(&y, y));
		OK(kiln_copy_into(z, y));
	}
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_graph_replay(graph));
	WANT(z, -3, -1);
	OK(kiln_add_scalar(&index, index, kiln_int(7)));
	OK(kiln_graph_replay(graph));
	FAILS(kiln_tensor_read(z, data, sizeof(data)), KILN_ERR_INDEX,
	      "kiln_select: index 9 is outside 0..2");
	FAILS(kiln_graph_replay(graph), KILN_ERR_POISONED, "kiln_select");
	OK(kiln_stream_current(&own, dev));
	OK(kiln_stream_reset(own));
	FAILS(kiln_tensor_read(z, data, sizeof(data)), KILN_ERR_DEPENDENCY,
	      "depends");
	OK(kiln_copy_into(index, good));
	OK(kiln_graph_replay(graph));
	WANT(z, -2, -2);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_tensor_release(index);
	kiln_tensor_release(good);
	kiln_stream_release(own);
	kiln_graph_release(graph);
	done();
}
END_TEST

/* Not by the first, nor by what a replay behind it found. */
START_TEST(the_op_in_the_middle_is_named)
{
	struct kiln_tensor *x, *y = KILN_TENSOR_NONE, *z;
	struct kiln_graph *graph = NULL;
	struct kiln_stream *own = NULL;
	float data[2];
	int gate = 0;

	ON(_i);
	OK(kiln_stream_current(&own, dev));
	x = FLOATS(dev, 1, -4);
	z = FLOATS(dev, 0, 0);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_neg(&y, x));
	OK(kiln_abs(&y, y));
	OK(kiln_copy_into(z, y));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kilni_fault_set("launch", 2, KILN_ERR_DRIVER));
	OK(kiln_graph_replay(graph));
	OK(kiln_graph_replay(graph));
	kilni_gate_open(&gate);
	FAILS(kiln_stream_sync(own), KILN_ERR_DRIVER, "kiln_abs: ");
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	OK(kiln_stream_reset(own));
	OK(kiln_graph_replay(graph));
	OK(kiln_tensor_read(z, data, sizeof(data)));
	if (computes)
		ck_assert(data[0] == 1 && data[1] == 4);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_stream_release(own);
	kiln_graph_release(graph);
	done();
}
END_TEST

#define INPUTS 60

/* More inputs with a past than one entry can name. */
START_TEST(a_failed_input_fails_the_replay)
{
	struct kiln_tensor *in[INPUTS], *sum, *index, *t = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	struct kiln_stream *own = NULL;
	int gate = 0;
	float data[2];

	ON(_i);
	OK(kiln_stream_current(&own, dev));
	sum = FLOATS(dev, 0, 0);
	index = INTS(dev, 0, 99);
	for (int i = 0; i < INPUTS; i++)
		in[i] = FLOATS(dev, 1, (float)i);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_mul_scalar(&t, sum, kiln_float(0)));
	for (int i = 0; i < INPUTS; i++)
		OK(kiln_add(&t, t, in[i]));
	OK(kiln_copy_into(sum, t));
	OK(kiln_graph_stop_capture(&graph, dev));
	for (int bad = -1; bad < INPUTS; bad += 30) {
		gate = 0;
		OK(kilni_test_gate(dev, &gate));
		for (int i = 0; i < INPUTS; i++)
			OK(kiln_add_scalar(&in[i], in[i], kiln_float(1)));
		if (bad >= 0) {
			struct kiln_tensor *row = KILN_TENSOR_NONE;

			OK(kiln_select(&row, in[bad], 0, index));
			OK(kiln_copy_into(in[bad], row));
			kiln_tensor_release(row);
		}
		OK(kiln_graph_replay(graph));
		kilni_gate_open(&gate);
		if (bad < 0 || !computes) {
			WANT(sum, 2 * INPUTS,
			     INPUTS * (INPUTS - 1) / 2 + INPUTS);
			continue;
		}
		FAILS(kiln_tensor_read(sum, data, sizeof(data)),
		      KILN_ERR_INDEX, "kiln_select: index 99");
		OK(kiln_stream_reset(own));
		FAILS(kiln_graph_replay(graph), KILN_ERR_DEPENDENCY,
		      "kiln_graph_replay");
		kiln_tensor_release(in[bad]);
		in[bad] = FLOATS(dev, 0, 0);
		break;
	}
	for (int i = 0; i < INPUTS; i++)
		kiln_tensor_release(in[i]);
	kiln_tensor_release(sum);
	kiln_tensor_release(t);
	kiln_tensor_release(index);
	kiln_stream_release(own);
	kiln_graph_release(graph);
	done();
}
END_TEST

/* ---- many at a time ---- */

/* sum = sum + x[2, 0], of which each replay may tell a wrong index. */
static struct kiln_graph *capture_sum(struct kiln_tensor *sum,
				      struct kiln_tensor *x,
				      struct kiln_tensor *index)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;

	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_select(&t, x, 0, index));
	OK(kiln_add(&t, sum, t));
	OK(kiln_copy_into(sum, t));
	OK(kiln_graph_stop_capture(&graph, dev));
	kiln_tensor_release(t);
	return graph;
}

/* Queued at once, with other work between, and released before they run. */
START_TEST(many_replays_are_in_flight)
{
	struct kiln_tensor *x, *sum, *kept, *index, *bad;
	struct kiln_stream *own = NULL;
	struct kiln_graph *graph;
	int gate = 0;
	float data[2];

	ON(_i);
	OK(kiln_stream_current(&own, dev));
	x = FLOATS(dev, 1, 2, 3);
	sum = FLOATS(dev, 0, 0);
	kept = FLOATS(dev, 0, 0);
	index = INTS(dev, 2, 0);
	bad = INTS(dev, 2, 3);
	graph = capture_sum(sum, x, index);
	OK(kilni_test_gate(dev, &gate));
	for (int i = 0; i < 30; i++) {
		OK(kiln_graph_replay(graph));
		OK(kiln_add_scalar(&x, x, kiln_float(1)));
		/* Two in a row too. */
		if (i == 20)
			OK(kiln_graph_replay(graph));
	}
	OK(kiln_copy_into(kept, sum));
	OK(kiln_copy_into(index, bad));
	for (int i = 0; i < 10; i++)
		OK(kiln_graph_replay(graph));
	kiln_graph_release(graph);
	kilni_gate_open(&gate);
	/* 30 times 3 and 1, and 0 + 1 + ... + 29 each; 24 and 22 once more. */
	WANT(kept, 90 + 435 + 24, 30 + 435 + 22);
	if (computes)
		FAILS(kiln_tensor_read(sum, data, sizeof(data)),
		      KILN_ERR_INDEX, "kiln_select: index 3 is outside 0..2");
	OK(kiln_stream_reset(own));
	kiln_tensor_release(x);
	kiln_tensor_release(sum);
	kiln_tensor_release(kept);
	kiln_tensor_release(index);
	kiln_tensor_release(bad);
	kiln_stream_release(own);
	done();
}
END_TEST

/* More operations than a driver may want in one piece. */
START_TEST(a_graph_may_be_long)
{
	const int ops = SANITIZED ? 300 : 700;
	struct kiln_graph *graph = NULL;
	struct kiln_tensor *x;

	ON(_i);
	x = FLOATS(dev, 0, 1);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	for (int i = 0; i < ops; i++)
		OK(kiln_add_scalar(&x, x, kiln_float(1)));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_graph_replay(graph));
	OK(kiln_graph_replay(graph));
	WANT(x, (float)(2 * ops), (float)(2 * ops + 1));
	kiln_tensor_release(x);
	kiln_graph_release(graph);
	done();
}
END_TEST

/* The stamps stand around the replays, with other work on both sides. */
START_TEST(a_profile_window_holds_replays)
{
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window = NULL;
	struct kiln_graph *graph;
	uint64_t ns = 0, start;
	struct step step;

	ON(_i);
	begin(&step);
	graph = capture_step(&step);
	start = kilni_now_ns();
	set(step.x, 2, 3, 4);
	OK(kiln_profile_start(&window, dev));
	OK(kiln_graph_replay(graph));
	set(step.x, 1, 2, 3);
	OK(kiln_graph_replay(graph));
	OK(kiln_profile_end(&duration, window, NULL));
	/* The warm-up's 3, 5, 7 too. */
	WANT(step.state, 3 + 5 + 3, 5 + 7 + 5, 7 + 9 + 7);
	OK(kiln_duration_wait(duration, 60000000000));
	ck_assert_int_eq(kiln_duration_query(duration, &ns),
			 KILN_DURATION_MEASURED);
	ck_assert_uint_gt(ns, 0);
	ck_assert_uint_le(ns, kilni_now_ns() - start + 1000000);
	kiln_duration_release(duration);
	kiln_graph_release(graph);
	end(&step);
	done();
}
END_TEST

/* ---- random numbers ---- */

/* Captures a draw; what it gives after the seed is the same each time. */
static void draw_captured(struct kiln_graph *refused, float *data)
{
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;

	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	if (refused)
		FAILS(kiln_graph_replay(refused), KILN_ERR_CAPTURE,
		      "kiln_graph_replay");
	OK(kiln_random(&t, dev, KILN_F32, 1, SHAPE(7), uniform));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_device_seed(dev, 5));
	OK(kiln_graph_replay(graph));
	OK(kiln_tensor_read(t, data, 7 * sizeof(*data)));
	kiln_graph_release(graph);
	kiln_tensor_release(t);
}

START_TEST(a_refused_replay_draws_nothing)
{
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	struct kiln_stream *aside = NULL;
	struct kiln_graph *graph = NULL;
	float want[7], have[7];

	ON(_i);
	OK(kiln_stream_create(&aside, dev));
	/* So that the pools hold memory. */
	OK(kiln_zeros(&t, dev, KILN_F32, 1, SHAPE(1 << 16)));
	kiln_tensor_clear(&t);
	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	OK(kiln_random(&t, dev, KILN_F32, 1, SHAPE(7), uniform));
	OK(kiln_graph_stop_capture(&graph, dev));
	draw_captured(NULL, want);
	draw_captured(graph, have);
	ck_assert_mem_eq(have, want, sizeof(want));
	/* In the capture of another stream too. */
	OK(kiln_stream_set_current(dev, aside));
	draw_captured(graph, have);
	ck_assert_mem_eq(have, want, sizeof(want));
	OK(kiln_stream_set_current(dev, NULL));
	kiln_graph_release(graph);
	kiln_tensor_release(t);
	kiln_stream_release(aside);
	done();
}
END_TEST

#define DRAWS 5

static enum kiln_status draw(struct kiln_tensor *into)
{
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *t = KILN_TENSOR_NONE, *u = KILN_TENSOR_NONE;
	enum kiln_status status;

	status = kiln_random(&t, dev, KILN_F32, 1, SHAPE(7), uniform);
	if (!status)
		status = kiln_random(&u, dev, KILN_F32, 1, SHAPE(7), uniform);
	if (!status)
		status = kiln_sub(&t, t, u);
	if (!status)
		status = kiln_copy_into(into, t);
	kiln_tensor_release(t);
	kiln_tensor_release(u);
	return status;
}

START_TEST(a_replay_draws_what_an_eager_run_would)
{
	struct kiln_tensor *into = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	float eager[DRAWS][7], replayed[7];

	ON(_i);
	OK(kiln_zeros(&into, dev, KILN_F32, 1, SHAPE(7)));
	OK(kiln_device_seed(dev, 42));
	for (int i = 0; i < DRAWS; i++) {
		OK(draw(into));
		OK(kiln_tensor_read(into, eager[i], sizeof(eager[i])));
	}
	OK(kiln_graph_prepare(dev));
	OK(draw(into));
	OK(kiln_graph_start_capture(dev));
	OK(draw(into));
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_device_seed(dev, 42));
	for (int i = 0; i < DRAWS; i++) {
		if (i == 2)
			OK(draw(into));
		else
			OK(kiln_graph_replay(graph));
		OK(kiln_tensor_read(into, replayed, sizeof(replayed)));
		ck_assert_mem_eq(replayed, eager[i], sizeof(replayed));
	}
	if (computes)
		ck_assert_mem_ne(eager[0], eager[1], sizeof(eager[0]));
	kiln_graph_release(graph);
	kiln_tensor_release(into);
	done();
}
END_TEST

/* ---- the helper ---- */

struct counted {
	struct step step;
	int calls, fail_at;
	bool reads, noisy;
};

static enum kiln_status counted_step(struct kiln_device *device, void *user)
{
	struct kiln_tensor *none = KILN_TENSOR_NONE;
	struct counted *counted = user;
	float data[3];

	if (counted->noisy)
		FAILS(kiln_reshape(&none, counted->step.x, 1, SHAPE(77)),
		      KILN_ERR_SHAPE, "kiln_reshape");
	if (++counted->calls == counted->fail_at)
		return KILN_ERR_CANCELLED;
	if (counted->reads && kiln_tensor_read(counted->step.x, data,
					       sizeof(data)))
		return kiln_error_status();
	return run_step(device, &counted->step);
}

START_TEST(the_helper_captures)
{
	struct counted counted = { .calls = 0 };
	struct kiln_graph *graph = NULL;

	ON(_i);
	begin(&counted.step);
	OK(kiln_graph_create(&graph, dev, counted_step, &counted));
	ck_assert(kiln_graph_is_captured(graph));
	for (int i = 0; i < 10; i++)
		OK(kiln_graph_replay(graph));
	ck_assert_int_eq(counted.calls, 2);
	WANT(counted.step.state, 33, 55, 77);
	/* The place's old graph goes. */
	OK(kiln_graph_create(&graph, dev, counted_step, &counted));
	kiln_graph_release(graph);
	counted = (struct counted){ .step = counted.step, .fail_at = 1 };
	graph = NULL;
	ck_assert_int_eq(kiln_graph_create(&graph, dev, counted_step,
					   &counted),
			 KILN_ERR_CANCELLED);
	ck_assert_ptr_null(graph);
	end(&counted.step);
	done();
}
END_TEST

/* A fallback is no way into a capture. */
static void fall_back_in_capture(struct kiln_graph *graph,
				 const struct counted *counted)
{
	int calls = counted->calls;

	OK(kiln_graph_prepare(dev));
	OK(kiln_graph_start_capture(dev));
	FAILS(kiln_graph_replay(graph), KILN_ERR_CAPTURE, "kiln_graph_replay");
	ck_assert_int_eq(counted->calls, calls);
	kiln_graph_abandon(dev);
}

/* Fails on the device, and does not tell. */
static enum kiln_status select_outside(struct kiln_device *device, void *user)
{
	struct kiln_tensor **t = user, *y = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_select(&y, t[0], 0, t[1]);

	kiln_tensor_release(y);
	(void)!kiln_device_sync(device);
	return status;
}

START_TEST(the_helper_tells_a_poisoned_stream)
{
	struct kiln_graph *graph = NULL;
	struct kiln_stream *own = NULL;
	struct kiln_tensor *t[2];

	ON(_i);
	t[0] = FLOATS(dev, 1, 2, 3);
	t[1] = INTS(dev, 9);
	if (computes) {
		FAILS(kiln_graph_create(&graph, dev, select_outside, t),
		      KILN_ERR_POISONED, "kiln_select");
		ck_assert_ptr_null(graph);
		OK(kiln_stream_current(&own, dev));
		OK(kiln_stream_reset(own));
		kiln_stream_release(own);
	}
	kiln_tensor_release(t[0]);
	kiln_tensor_release(t[1]);
	done();
}
END_TEST

START_TEST(the_helper_falls_back)
{
	struct kiln_graph *graph = NULL;

	ON(_i);
	for (int way = 0; way < 3; way++) {
		struct counted counted = { .reads = way == 1,
					   .noisy = way == 0,
					   .fail_at = way == 2 ? 2 : 0 };

		begin(&counted.step);
		if (way == 0)
			setenv("KILN_GRAPHS", "0", 1);
		kiln_error_clear();
		OK(kiln_graph_create(&graph, dev, counted_step, &counted));
		ck_assert_int_eq(kiln_error_status(), KILN_OK);
		unsetenv("KILN_GRAPHS");
		ck_assert(!kiln_graph_is_captured(graph));
		if (way < 2)
			ck_assert_ptr_nonnull(strstr(
				kiln_graph_fallback(graph),
				way ? "kiln_tensor_read" : "KILN_GRAPHS"));
		for (int i = 0; i < 10; i++)
			OK(kiln_graph_replay(graph));
		WANT(counted.step.state, 33, 55, 77);
		if (way == 0)
			fall_back_in_capture(graph, &counted);
		end(&counted.step);
	}
	kiln_graph_release(graph);
	setenv("KILN_GRAPHS", "0", 1);
	FAILS(kiln_graph_prepare(dev), KILN_ERR_UNSUPPORTED, "KILN_GRAPHS");
	FAILS(kiln_graph_start_capture(dev), KILN_ERR_UNSUPPORTED,
	      "KILN_GRAPHS");
	unsetenv("KILN_GRAPHS");
	done();
}
END_TEST

/* ---- random programs against the same ops called one by one ---- */

#define VARS 6

struct model {
	struct kiln_tensor *state[VARS];
	uint64_t seed;
	int64_t size;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

/* Small whole numbers stay so: every sum is exact. */
static void fill_model(struct model *model)
{
	for (int i = 0; i < VARS; i++) {
		model->state[i] = KILN_TENSOR_NONE;
		OK(kiln_arange(&model->state[i], dev, KILN_F32, 0,
			       model->size, 1));
		OK(kiln_remainder_scalar(&model->state[i], model->state[i],
					 kiln_float(3 + i)));
	}
}

static enum kiln_status one_op(uint64_t *random, struct kiln_tensor **t)
{
	struct kiln_tensor **a = &t[next_random(random) % VARS];
	struct kiln_tensor **b = &t[next_random(random) % VARS];
	struct kiln_tensor **c = &t[next_random(random) % VARS];

	switch (next_random(random) % 7) {
	case 0:
		return kiln_add(a, *b, *c);
	case 1:
		return kiln_sub(a, *b, *c);
	case 2:
		return kiln_neg(a, *b);
	case 3:
		return kiln_mul_scalar(a, *b, kiln_float(0.5));
	case 4:
		return kiln_flip(a, *b, 1, (const int[]){ 0 });
	case 5:
		return kiln_clamp(a, *b, kiln_float(-9), kiln_float(9));
	default:
		return kiln_abs(a, *b);
	}
}

static enum kiln_status model_step(struct kiln_device *device, void *user)
{
	struct model *model = user;
	struct kiln_tensor *t[VARS];
	enum kiln_status status = KILN_OK;
	uint64_t random = model->seed;

	(void)device;
	for (int i = 0; i < VARS; i++)
		t[i] = kiln_tensor_retain(model->state[i]);
	for (int i = 0; i < 40 && !status; i++)
		status = one_op(&random, t);
	for (int i = 0; i < VARS; i++) {
		if (!status)
			status = kiln_clamp(&t[i], t[i], kiln_float(-99),
					    kiln_float(99));
	}
	for (int i = 0; i < VARS && !status; i++)
		status = kiln_copy_into(model->state[i], t[i]);
	for (int i = 0; i < VARS; i++)
		kiln_tensor_release(t[i]);
	return status;
}

static void compare(struct model *a, struct model *b)
{
	size_t bytes = (size_t)a->size * sizeof(float);
	float *have = malloc(bytes), *want = malloc(bytes);

	for (int i = 0; i < VARS; i++) {
		OK(kiln_tensor_read(a->state[i], have, bytes));
		OK(kiln_tensor_read(b->state[i], want, bytes));
		ck_assert_msg(!memcmp(have, want, bytes),
			      "seed %llu: variable %d differs",
			      (unsigned long long)a->seed, i);
		kiln_tensor_release(a->state[i]);
		kiln_tensor_release(b->state[i]);
	}
	free(have);
	free(want);
}

START_TEST(random_programs_come_to_the_same)
{
	int runs = SANITIZED || getenv("CHECK_QUICK") ? 8 : 40;

	ON(_i);
	if (_i == 2)
		runs = 4;
	for (int run = 0; run < runs; run++) {
		struct model model = { .seed = 1000003u * (unsigned)run + 17,
				       .size = run % 2 ? 20000 : 50 };
		struct model serial = model;
		struct kiln_graph *graph = NULL;

		fill_model(&model);
		fill_model(&serial);
		OK(kiln_graph_create(&graph, dev, model_step, &model));
		ck_assert_msg(kiln_graph_is_captured(graph), "seed %llu: %s",
			      (unsigned long long)model.seed,
			      kiln_graph_fallback(graph));
		for (int i = 0; i < 4; i++) {
			OK(kiln_graph_replay(graph));
			OK(model_step(dev, &serial));
		}
		OK(model_step(dev, &serial));
		kiln_graph_release(graph);
		compare(&model, &serial);
	}
	done();
}
END_TEST

/* ---- other streams ---- */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* The calls have an order, since the graphs share memory; the work has not. */
static void *replay_aside(void *graph)
{
	int failures = 0;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&turn);
		failures += kiln_graph_replay(graph) != KILN_OK;
		pthread_mutex_unlock(&turn);
	}
	return failures ? graph : NULL;
}

START_TEST(graphs_of_several_streams_are_ordered_by_their_tensors)
{
	struct kiln_stream *aside = NULL;
	struct kiln_graph *a, *b;
	struct step one, two;
	pthread_t thread;
	void *failed;
	int gate = 0;

	ON(_i);
	begin(&one);
	a = capture_step(&one);
	/* two.x is one.state. */
	OK(kiln_stream_create(&aside, dev));
	OK(kiln_stream_set_current(dev, aside));
	begin(&two);
	kiln_tensor_release(two.x);
	two.x = kiln_tensor_retain(one.state);
	b = capture_step(&two);
	/* two.state: 2 * 3 + 1. */
	OK(kiln_stream_set_current(dev, NULL));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_graph_replay(a));
	OK(kiln_graph_replay(b));
	OK(kiln_graph_replay(a));
	kilni_gate_open(&gate);
	WANT(one.state, 9, 15, 21);
	WANT(two.state, 7 + 13, 11 + 21, 15 + 29);
	/* From two threads. */
	ck_assert_int_eq(pthread_create(&thread, NULL, replay_aside, b), 0);
	ck_assert_ptr_null(replay_aside(a));
	pthread_join(thread, &failed);
	ck_assert_ptr_null(failed);
	WANT(one.state, 9 + 600, 15 + 1000, 21 + 1400);
	kiln_graph_release(a);
	kiln_graph_release(b);
	kiln_stream_release(aside);
	end(&one);
	end(&two);
	done();
}
END_TEST

#define WEIGHTS 30

/* As many inputs with a past as one entry cannot name. */
START_TEST(a_replay_is_one_dispatch)
{
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *w[WEIGHTS], *y = KILN_TENSOR_NONE;
	struct kiln_graph *graph = NULL;
	struct kiln_stream *own = NULL;
	uint64_t before;

	ON(_i);
	OK(kiln_stream_current(&own, dev));
	for (int i = 0; i < WEIGHTS; i++) {
		w[i] = KILN_TENSOR_NONE;
		OK(kiln_random(&w[i], dev, KILN_F32, 1, SHAPE(65536), uniform));
	}
	OK(kiln_graph_prepare(dev));
	for (int run = 0; run < 2; run++) {
		if (run)
			OK(kiln_graph_start_capture(dev));
		for (int i = 0; i < WEIGHTS; i++)
			OK(kiln_neg(&y, w[i]));
	}
	OK(kiln_graph_stop_capture(&graph, dev));
	OK(kiln_stream_sync(own));
	before = kiln_stream_position(own);
	OK(kiln_graph_replay(graph));
	ck_assert_uint_le(kiln_stream_position(own), before + 1);
	for (int i = 0; i < WEIGHTS; i++)
		kiln_tensor_release(w[i]);
	kiln_tensor_release(y);
	kiln_graph_release(graph);
	kiln_stream_release(own);
	done();
}
END_TEST

/* ---- traces ---- */

/* Events of that kind and name that this process has traced. */
static int traced(enum kiln_trace_kind kind, const char *name)
{
	struct kiln_trace_event event = { .struct_size = sizeof(event) };
	struct kiln_trace *trace = NULL;
	bool more = true;
	char file[32];
	int count = 0;

	snprintf(file, sizeof(file), "trace.%ld.0", (long)getpid());
	OK(kiln_trace_open(&trace, at(file)));
	for (;;) {
		OK(kiln_trace_next(trace, &event, &more));
		if (!more)
			break;
		count += event.kind == kind && !strcmp(event.name, name);
	}
	kiln_trace_release(trace);
	return count;
}

START_TEST(a_replay_is_traced_and_a_capture_is_not)
{
	struct kiln_graph *graph;
	struct step step;

	make_folder();
	setenv("KILN_TRACE", at("trace"), 1);
	if (!open_nth(_i)) {
		remove_folder();
		return;
	}
	begin(&step);
	graph = capture_step(&step);
	for (int i = 0; i < 3; i++)
		OK(kiln_graph_replay(graph));
	WANT(step.state, 12, 20, 28);
	kiln_graph_release(graph);
	end(&step);
	/* That of the warm-up. */
	ck_assert_int_eq(traced(KILN_TRACE_SUBMIT, "copy"), 1);
	ck_assert_int_eq(traced(KILN_TRACE_SUBMIT, "graph_replay"), 3);
	ck_assert_int_eq(traced(KILN_TRACE_LAUNCH, "graph_replay"), 3);
	done();
	remove_folder();
}
END_TEST

/* ---- faults ---- */

static enum kiln_status faulty_program(struct step *step, float *data)
{
	struct kiln_graph *graph = NULL;
	enum kiln_status status = kiln_graph_prepare(dev);

	if (!status)
		status = run_step(dev, step);
	if (!status)
		status = kiln_graph_start_capture(dev);
	if (!status)
		status = run_step(dev, step);
	if (!status)
		status = kiln_graph_stop_capture(&graph, dev);
	if (!status)
		status = kiln_graph_replay(graph);
	if (!status)
		status = kiln_tensor_read(step->state, data,
					  3 * sizeof(*data));
	kiln_graph_abandon(dev);
	kiln_graph_release(graph);
	return status;
}

static void recover(struct kiln_stream *own)
{
	struct step step;
	float data[3];

	OK(kilni_fault_set(NULL, 0, KILN_OK));
	OK(kiln_stream_reset(own));
	begin(&step);
	OK(faulty_program(&step, data));
	if (computes)
		ck_assert(data[0] == 6 && data[2] == 14);
	end(&step);
}

/* Whether there was a call to fail. */
static bool fail_at(const char *site, uint64_t nth, struct kiln_stream *own)
{
	enum kiln_status status;
	struct step step;
	float data[3];
	bool met;

	begin(&step);
	OK(kilni_fault_set(site, nth, KILN_ERR_DRIVER));
	status = faulty_program(&step, data);
	met = kilni_fault_passes() >= nth;
	recover(own);
	if (status != KILN_OK)
		ck_assert_msg(met && *kiln_error_message(), "%s: %llu", site,
			      (unsigned long long)nth);
	else if (computes)
		ck_assert_msg(data[0] == 6, "%s: %llu", site,
			      (unsigned long long)nth);
	end(&step);
	return met;
}

START_TEST(every_call_of_the_driver_may_fail)
{
	static const char *const site[] = { "submit", "launch", "graph_create",
					    "read", "page_alloc" };
	struct kiln_stream *own = NULL;

	ON(_i);
	OK(kiln_stream_current(&own, dev));
	for (size_t i = 0; i < sizeof(site) / sizeof(site[0]); i++)
		for (uint64_t nth = 1; fail_at(site[i], nth, own); nth++)
			ck_assert_uint_lt(nth, 50);
	kiln_stream_release(own);
	done();
}
END_TEST

/* ---- the suite ---- */

int main(void)
{
	Suite *suite = suite_create("graphs");
	TCase *test = tcase_create("graphs");

/* Compiling for a software Vulkan device is slow: a part there. */
#define TEST(name) tcase_add_loop_test(test, name, 0, 2)
#define EVERYWHERE(name) tcase_add_loop_test(test, name, 0, DEVICES)
	tcase_set_timeout(test, 300);
	EVERYWHERE(a_replay_does_what_was_captured);
	TEST(replays_are_queued_in_turn_with_other_work);
	TEST(an_empty_graph_does_nothing);
	TEST(misuse_is_told);
	TEST(P40_i_a_cold_pool_fails_the_capture_and_the_stream_works_on);
	TEST(P40_ii_a_warm_pool_serves_a_capture);
	EVERYWHERE(P40_iii_other_threads_are_not_concerned);
	TEST(P40_iv_what_cannot_be_captured_is_refused_by_name);
	TEST(memory_stays_while_the_graph_lives);
	TEST(a_long_capture_needs_what_the_warm_up_did);
	TEST(a_captured_result_is_not_there_before_a_replay);
	TEST(a_result_may_be_written_part_by_part);
	TEST(a_window_ends_with_its_thread);
	TEST(an_upload_waits_for_who_reads_the_memory);
	TEST(what_a_capture_reads_is_not_used_again);
	TEST(a_state_of_the_warm_up_is_kept);
	TEST(what_no_op_writes_is_there);
	TEST(a_preparation_outlives_the_thread_that_lent_the_stream);
	TEST(a_child_of_fork_has_no_part_in_it);
	TEST(files_are_refused_in_a_capture);
	TEST(other_choices_than_the_warm_ups_fail_at_stop);
	TEST(other_work_than_the_warm_ups_fails_at_stop);
	EVERYWHERE(an_error_in_a_replay_names_the_op);
	EVERYWHERE(the_op_in_the_middle_is_named);
	EVERYWHERE(a_failed_input_fails_the_replay);
	EVERYWHERE(many_replays_are_in_flight);
	EVERYWHERE(a_graph_may_be_long);
	EVERYWHERE(a_profile_window_holds_replays);
	EVERYWHERE(a_replay_draws_what_an_eager_run_would);
	TEST(the_helper_captures);
	TEST(a_refused_replay_draws_nothing);
	TEST(the_helper_falls_back);
	TEST(the_helper_tells_a_poisoned_stream);
	EVERYWHERE(random_programs_come_to_the_same);
	EVERYWHERE(graphs_of_several_streams_are_ordered_by_their_tensors);
	EVERYWHERE(a_replay_is_one_dispatch);
	EVERYWHERE(a_replay_is_traced_and_a_capture_is_not);
	TEST(every_call_of_the_driver_may_fail);
	suite_add_tcase(suite, test);
	return run_suite(suite);
}
