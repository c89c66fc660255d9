/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#include "sanitized.h"

/*
 * Every call of the driver fails in turn under a small mixed program. Whatever
 * fails: a status comes back, results that failed are untouched, and after a
 * reset the same program is right and nothing is lost.
 */

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct kiln_device *dev;

/* One of the faults is a Vulkan device that never signals: found out soon. */
static void setup(void)
{
	setenv("KILN_VULKAN_TIMEOUT_MS", "3000", 1);
	dev = open_tested();
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
}

/* ---- the program ---- */

enum place { X, W, Y, VIEW, INDEX, PICKED, STATE, SUM, TOP, AT, CAST, PLACES };

/* What a run of the program did. */
struct run {
	int64_t size; /* of a side of its matrices */
	struct kiln_tensor *t[PLACES];
	int failed;
	enum kiln_status first;
};

static bool is_status(enum kiln_status status)
{
	return strcmp(kiln_status_name(status), "KILN_ERR_UNKNOWN") != 0;
}

static void note_status(struct run *run, enum kiln_status status,
			const char *what)
{
	if (status == KILN_OK)
		return;
	ck_assert_msg(is_status(status), "%s: %d", what, (int)status);
	ck_assert_msg(kiln_error_status() == status,
		      "%s: returned %s but recorded %s", what,
		      kiln_status_name(status),
		      kiln_status_name(kiln_error_status()));
	ck_assert_msg(*kiln_error_message(), "%s: no message", what);
	if (!run->failed++)
		run->first = status;
}

/*
 * A call whose result goes to a place, which a failure must leave. Then the
 * test empties it: what follows must not go on with what was there before.
 */
#define STEP(run, place, expr)                                                 \
	do {                                                                   \
		struct kiln_tensor **out = &(run)->t[place];                   \
		struct kiln_tensor *before = *out;                             \
		enum kiln_status status_ = (expr);                             \
		note_status(run, status_, #expr);                              \
		if (status_ != KILN_OK) {                                      \
			ck_assert_msg(*out == before, "%s: *out changed",      \
				      #expr);                                  \
			kiln_tensor_clear(out);                                \
		}                                                              \
	} while (0)

static void create(struct run *run)
{
	const int64_t n = run->size;
	const float one = 1;

	STEP(run, X, kiln_arange(out, dev, KILN_F32, 0, n * n, 1));
	STEP(run, X, kiln_reshape(out, run->t[X], 2, SHAPE(n, n)));
	STEP(run, X, kiln_remainder_scalar(out, run->t[X], kiln_float(7)));
	STEP(run, W, kiln_tensor_from_data(out, dev, KILN_F32, 1, SHAPE(1),
					   &one, sizeof(one)));
	STEP(run, W, kiln_repeat_dim(out, run->t[W], 0, n * n));
	STEP(run, W, kiln_reshape(out, run->t[W], 2, SHAPE(n, n)));
	STEP(run, STATE, kiln_zeros(out, dev, KILN_F32, 2, SHAPE(n, n)));
	STEP(run, INDEX, kiln_arange(out, dev, KILN_I32, 0, n / 2, 1));
}

static void compute(struct run *run)
{
	struct kiln_tensor **t = run->t;
	const struct kiln_slice odd = { 1, KILN_SLICE_END, 2 };

	STEP(run, Y, kiln_matmul(out, t[X], t[W]));
	STEP(run, Y, kiln_add(out, t[Y], t[X]));
	STEP(run, VIEW, kiln_transpose(out, t[Y]));
	STEP(run, VIEW, kiln_slice(out, t[VIEW], 1, &odd));
	STEP(run, PICKED, kiln_select(out, t[VIEW], 0, t[INDEX]));
	STEP(run, PICKED, kiln_neg(out, t[PICKED]));
	STEP(run, SUM, kiln_sum(out, t[PICKED]));
	STEP(run, SUM, kiln_add_scalar(out, t[SUM], kiln_float(1)));
	STEP(run, TOP, kiln_max_dim_with_indices(out, &t[AT], t[Y], 1,
						 KILN_I32));
	STEP(run, STATE, kiln_copy_into(t[STATE], t[W]));
	STEP(run, STATE, kiln_mul(out, t[STATE], t[W]));
	STEP(run, CAST, kiln_cast(out, t[VIEW], KILN_I64));
}

/* The sum is told by hand; INDEX picks columns 1, 3, 5, ... of Y. */
static double wanted_sum(int64_t n)
{
	double sum = 1;

	for (int64_t r = 0; r < n; r++) {
		int64_t row = 0;

		for (int64_t c = 0; c < n; c++)
			row += (r * n + c) % 7;
		for (int64_t c = 1; c < n; c += 2)
			sum -= (double)(row + (r * n + c) % 7);
	}
	return sum;
}

static void read_back(struct run *run)
{
	size_t many = (size_t)run->size * (size_t)run->size / 2;
	int64_t *ints = malloc(many * sizeof(int64_t));
	float sum = -1;
	enum kiln_status status;

	memset(ints, 0x5a, many * sizeof(int64_t));
	status = kiln_tensor_read(run->t[SUM], &sum, sizeof(sum));
	note_status(run, status, "read of the sum");
	if (status != KILN_OK)
		ck_assert_msg(sum == -1, "a failed read wrote");
	else
		ck_assert_double_eq((double)sum, wanted_sum(run->size));
	status = kiln_tensor_read(run->t[CAST], ints, many * sizeof(int64_t));
	note_status(run, status, "read of the cast");
	if (status != KILN_OK)
		ck_assert_int_eq(ints[0], 0x5a5a5a5a5a5a5a5a);
	else
		ck_assert_int_eq(ints[0], (1 + run->size / 7 * 21 +
					   run->size % 7 *
						   (run->size % 7 - 1) / 2));
	note_status(run, kiln_device_sync(dev), "sync");
	free(ints);
}

static void clear(struct run *run)
{
	for (int i = 0; i < PLACES; i++)
		kiln_tensor_clear(&run->t[i]);
}

static void check_account(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available = false;

	OK(kiln_memory_usage(dev, &usage, &available));
	if (available)
		ck_assert_uint_eq(usage.live_bytes + usage.cached_bytes +
					  usage.padding_bytes,
				  usage.reserved_bytes);
}

static void run_program(struct run *run)
{
	create(run);
	compute(run);
	check_account();
	read_back(run);
}

/* ---- after a fault ---- */

static bool is_lost(void)
{
	return kiln_device_sync(dev) == KILN_ERR_DEVICE_LOST;
}

/* Makes the device work again: a reset, or another open where it is lost. */
static void recover(void)
{
	struct kiln_stream *stream = NULL;

	if (is_lost()) {
		teardown();
		setup();
		return;
	}
	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_reset(stream));
	ck_assert(!kiln_stream_poisoned(stream));
	kiln_stream_release(stream);
}

static void expect_nothing_left(void)
{
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available = false;

	OK(kiln_device_sync(dev));
	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert(available);
	ck_assert_uint_eq(usage.live_bytes, 0);
	ck_assert_uint_eq(usage.allocations, 0);
	OK(kiln_memory_cleanup(dev));
	OK(kiln_memory_usage(dev, &usage, &available));
	ck_assert_uint_eq(usage.reserved_bytes, 0);
}

static void expect_all_well(int64_t size)
{
	struct run run = { .size = size };

	run_program(&run);
	ck_assert_msg(run.failed == 0, "after the fault: %s: %s",
		      kiln_status_name(run.first), kiln_error_message());
	check_account();
	clear(&run);
	expect_nothing_left();
}

/* A page that was refused may be had smaller or after a clean-up. */
static bool may_retry(const char *site)
{
	return !strcmp(site, "page_alloc") || !strcmp(site, "*");
}

/* One fault; false where the program did not come that far. */
static bool survive(const char *site, uint64_t nth, enum kiln_status status,
		    int64_t size)
{
	struct run run = { .size = size };
	uint64_t passes;

	OK(kilni_fault_set(site, nth, status));
	run_program(&run);
	passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	if (passes < nth)
		ck_assert_int_eq(run.failed, 0);
	else if (!may_retry(site))
		ck_assert_msg(run.failed, "%s %d: nothing was reported", site,
			      (int)nth);
	check_account();
	clear(&run);
	recover();
	expect_all_well(size);
	return passes >= nth;
}

/* ---- sweeps ---- */

/*
 * A GPU takes long to open again: there the later faults come in strides. All
 * of its calls are failed one by one on the stub libraries.
 */
static uint64_t next_fault(uint64_t nth)
{
	bool quick = !strncmp(tested_selector(), "cpu", 3);

	return nth + 1 + (quick || nth < 8 ? 0 : nth / 4);
}

static const enum kiln_status statuses[] = { KILN_ERR_DRIVER,
					     KILN_ERR_OUT_OF_MEMORY,
					     KILN_ERR_NO_MEMORY,
					     KILN_ERR_DEVICE_LOST };

static const struct {
	const char *site;
	bool taken; /* whether the program passes it */
} sites[] = {
	{ "page_alloc", true }, { "launch", true }, { "submit", true },
	{ "write", true },      { "read", true },   { "*", true },
};

/* Small, where ops run on the caller; large, where they are queued. */
static const int64_t sizes[] = { 4, 160 };

START_TEST(sweep)
{
	const char *site = sites[_i / COUNT(statuses)].site;
	enum kiln_status status = statuses[_i % COUNT(statuses)];

	for (int i = 0; i < COUNT(sizes); i++) {
		uint64_t nth = 1;

		expect_all_well(sizes[i]);
		while (survive(site, nth, status, sizes[i]))
			nth = next_fault(nth);
		if (!strcmp(site, "*"))
			ck_assert_int_gt((int)nth, 5);
	}
}
END_TEST

/* The device is opened under the fault. */
static bool survive_open(const char *site, uint64_t nth,
			 enum kiln_status status)
{
	struct run run = { .size = 4 };
	uint64_t passes;

	kiln_device_release(dev);
	dev = NULL;
	OK(kilni_fault_set(site, nth, status));
	note_status(&run, kiln_device_open(&dev, tested_selector()), "open");
	if (dev)
		run_program(&run);
	else
		ck_assert_int_eq(run.failed, 1);
	passes = kilni_fault_passes();
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	ck_assert(passes < nth || run.failed || may_retry(site));
	clear(&run);
	if (!dev)
		setup();
	recover();
	expect_all_well(4);
	return passes >= nth;
}

START_TEST(sweep_from_the_open)
{
	static const char *const from[] = { "open", "queue_create", "*" };
	int i = _i / COUNT(statuses);
	uint64_t nth = 1;

	while (survive_open(from[i], nth, statuses[_i % COUNT(statuses)]))
		nth = next_fault(nth);
	ck_assert_int_gt((int)nth, 1);
}
END_TEST

/* A fault on one stream leaves the others. */
START_TEST(other_streams_go_on)
{
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	const int64_t many = 1 << 18;

	OK(kiln_ones(&x, dev, KILN_F32, 1, &many));
	OK(kiln_device_sync(dev));
	OK(kiln_stream_create(&stream, dev));
	OK(kiln_stream_set_current(dev, stream));
	OK(kilni_fault_set("launch", 1, KILN_ERR_DRIVER));
	OK(kiln_exp(&y, x));
	FAILS(kiln_stream_sync(stream), KILN_ERR_DRIVER, "kiln_exp");
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	ck_assert(kiln_stream_poisoned(stream));
	FAILS(kiln_exp(&x, x), KILN_ERR_POISONED, "reset");
	OK(kiln_stream_set_current(dev, NULL));
	kiln_tensor_release(x);
	kiln_tensor_clear(&y);
	OK(kiln_ones(&y, dev, KILN_F32, 1, SHAPE(3)));
	EXPECT_FLOATS(y, 1, 1, 1);
	OK(kiln_stream_reset(stream));
	kiln_stream_release(stream);
	kiln_tensor_clear(&y);
	expect_all_well(160);
}
END_TEST

/* ---- a lost device ---- */

static int deleted;

static void count_deleted(void *data, void *user)
{
	(void)data;
	(void)user;
	__atomic_fetch_add(&deleted, 1, __ATOMIC_SEQ_CST);
}

/* Memory of the caller's is given back although work on it was refused. */
START_TEST(lost_device_gives_memory_back)
{
	static float data[1 << 16];
	const int64_t many = 1 << 16;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	enum kiln_status status;
	int gate = 0;

	deleted = 0;
	status = kiln_tensor_from_foreign(&x, dev, KILN_F32, 1, &many, data,
					  KILN_FOREIGN_READ_ONLY,
					  count_deleted, NULL);
	if (cannot_see_host(status))
		return;
	OK(status);
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_exp(&y, x));
	OK(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST));
	FAILS(kiln_device_flush(dev), KILN_ERR_DEVICE_LOST, "");
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kilni_gate_open(&gate);
	teardown();
	ck_assert_int_eq(deleted, 1);
	setup();
	expect_all_well(160);
}
END_TEST

/* A device that is lost closes while its workers still compute. */
START_TEST(lost_device_closes_under_work)
{
	for (int i = 0; i < 20; i++) {
		struct run run = { .size = 160 };

		create(&run);
		OK(kiln_device_sync(dev));
		OK(kilni_fault_set("submit", 2, KILN_ERR_DEVICE_LOST));
		for (int j = 0; j < 7; j++)
			STEP(&run, Y, kiln_matmul(out, run.t[X], run.t[W]));
		note_status(&run, kiln_device_flush(dev), "flush");
		STEP(&run, Y, kiln_neg(out, run.t[X]));
		note_status(&run, kiln_device_flush(dev), "flush");
		clear(&run);
		teardown();
		setup();
	}
	expect_all_well(160);
}
END_TEST

/* ---- two threads on one tensor ---- */

#define MEETINGS 5000
#define SHARED (1 << 15)

struct meeting {
	pthread_barrier_t barrier;
	struct kiln_tensor *state, *source;
	int failed;
};

static void *write_and_meet(void *arg)
{
	struct meeting *m = arg;

	for (int i = 0; i < MEETINGS; i++) {
		pthread_barrier_wait(&m->barrier);
		m->failed += kiln_copy_into(m->state, m->source) != KILN_OK;
		pthread_barrier_wait(&m->barrier);
	}
	return NULL;
}

/*
 * A read that begins while another thread queues a write ends without any
 * further call of that thread.
 */
START_TEST(read_beside_a_write)
{
	struct meeting m = { .failed = 0 };
	float *data = malloc(SHARED * sizeof(float));
	int failed = 0;
	pthread_t thread;

	OK(kiln_zeros(&m.state, dev, KILN_F32, 1, SHAPE(SHARED)));
	OK(kiln_ones(&m.source, dev, KILN_F32, 1, SHAPE(SHARED)));
	OK(kiln_device_sync(dev));
	pthread_barrier_init(&m.barrier, NULL, 2);
	ck_assert(!pthread_create(&thread, NULL, write_and_meet, &m));
	for (int i = 0; i < MEETINGS; i++) {
		pthread_barrier_wait(&m.barrier);
		for (volatile int delay = i * 7 % 400; delay; delay--)
			;
		failed += kiln_tensor_read(m.state, data,
					   SHARED * sizeof(float)) != KILN_OK;
		pthread_barrier_wait(&m.barrier);
	}
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&m.barrier);
	ck_assert_int_eq(failed + m.failed, 0);
	kiln_tensor_release(m.state);
	kiln_tensor_release(m.source);
	free(data);
}
END_TEST

/* ---- a small cap ---- */

#define CAP "1M"
#define MANY 64

static void setup_cap(void)
{
	setenv("KILN_POOL_CAP_BYTES", CAP, 1);
	setup();
}

/* The message has the numbers that tell full from fragmented. */
static void check_message(const char *text)
{
	static const char *const parts[] = { "requested", "free", "largest",
					     "cap", "1048576" };

	for (int i = 0; i < COUNT(parts); i++)
		ck_assert_msg(strstr(text, parts[i]), "no \"%s\" in \"%s\"",
			      parts[i], text);
}

START_TEST(cap_is_told)
{
	struct kiln_tensor *t[MANY] = { KILN_TENSOR_NONE };
	enum kiln_status status = KILN_OK;
	int64_t bytes = 64 << 10, all = 1 << 20;
	int made = 0;

	while (made < MANY && status == KILN_OK) {
		status = kiln_zeros(&t[made], dev, KILN_U8, 1, &bytes);
		made += status == KILN_OK;
	}
	ck_assert_int_ge(made, 8);
	ck_assert_int_le(made, 16);
	ck_assert(status == KILN_ERR_OUT_OF_MEMORY ||
		  status == KILN_ERR_LIMIT);
	ck_assert_ptr_null(t[made]);
	check_message(kiln_error_message());
	check_account();
	kiln_tensor_clear(&t[0]);
	OK(kiln_ones(&t[0], dev, KILN_U8, 1, &bytes));
	for (int i = 0; i < MANY; i++)
		kiln_tensor_clear(&t[i]);
	OK(kiln_ones(&t[0], dev, KILN_U8, 1, &all));
	kiln_tensor_release(t[0]);
	expect_nothing_left();
}
END_TEST

START_TEST(larger_than_the_cap)
{
	struct kiln_tensor *x = FLOATS(dev, 1, 2), *before = x;
	struct run run = { .size = 600 };

	ck_assert_int_ne(kiln_zeros(&x, dev, KILN_U8, 1, SHAPE((1 << 20) + 1)),
			 KILN_OK);
	check_message(kiln_error_message());
	ck_assert_ptr_eq(x, before);
	OK(kiln_add(&x, x, x));
	EXPECT_FLOATS(x, 2, 4);
	kiln_tensor_release(x);
	run_program(&run);
	ck_assert(run.failed);
	ck_assert(run.first == KILN_ERR_OUT_OF_MEMORY ||
		  run.first == KILN_ERR_LIMIT);
	clear(&run);
	expect_all_well(16);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("faults");
	TCase *faults = tcase_create("faults"), *cap = tcase_create("cap");

	tcase_add_checked_fixture(faults, setup, teardown);
	tcase_set_timeout(faults, 120);
	tcase_add_loop_test(faults, sweep, 0, COUNT(sites) * COUNT(statuses));
	tcase_add_loop_test(faults, sweep_from_the_open, 0,
			    3 * COUNT(statuses));
	tcase_add_test(faults, other_streams_go_on);
	tcase_add_test(faults, lost_device_gives_memory_back);
	tcase_add_test(faults, lost_device_closes_under_work);
	/* The two race for the elements on purpose. */
	if (!SANITIZED)
		tcase_add_test(faults, read_beside_a_write);
	suite_add_tcase(suite, faults);
	tcase_add_checked_fixture(cap, setup_cap, teardown);
	tcase_add_test(cap, cap_is_told);
	tcase_add_test(cap, larger_than_the_cap);
	suite_add_tcase(suite, cap);
	return run_suite(suite);
}
