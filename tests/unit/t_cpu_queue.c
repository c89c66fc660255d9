/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU driver's queues: order, waiting, sharing, merging, failing. */
#include "tests/unit/drv_rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/cpu/internal.h"
#include "sanitized.h"

static struct kilni_hw *hw;

static void set_up(void)
{
	setenv("KILN_CPU_WORKERS", "4", 0);
	hw = rig_open("cpu");
}

static void tear_down(void)
{
	rig_close(hw);
}

static void nap_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

/* ---- order ---- */

static unsigned noted[4096], notes;

/* Appends a number; only ever called by entries that are ordered. */
static void note(void *data, void *user)
{
	(void)user;
	noted[notes++] = (unsigned)(uintptr_t)data;
}

static void add_note(struct lane *lane, unsigned number)
{
	lane_add_call(lane, note, (void *)(uintptr_t)number, NULL);
}

START_TEST(order_and_chunks)
{
	struct lane lane;

	notes = 0;
	lane_open(&lane, hw);
	for (unsigned i = 0; i < 1000; i++) {
		add_note(&lane, i);
		if (i % 7 == 0)
			lane_submit(&lane);
	}
	lane_finish(&lane);
	ck_assert_uint_eq(notes, 1000);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_uint_eq(noted[i], i);
	ck_assert_uint_eq(lane.chunks_done, 999 / KILNI_CHUNK_ENTRIES);
	ck_assert_uint_eq(lane.checked, 0);
	lane_close(&lane);
}
END_TEST

START_TEST(wait_holds_until_completed)
{
	struct lane a, b;
	int gate = 0;

	notes = 0;
	lane_open(&a, hw);
	lane_open(&b, hw);
	lane_add_gate(&a, &gate);
	add_note(&a, 1);
	lane_submit(&a);
	lane_add_wait(&b, &a, 2);
	add_note(&b, 2);
	lane_submit(&b);
	nap_ms(2);
	ck_assert_uint_eq(lane_completed(&a), 0);
	ck_assert_uint_eq(lane_completed(&b), 0);
	kilni_gate_open(&gate);
	ck_assert_int_eq(lane_wait(&b), KILN_OK);
	ck_assert_uint_eq(lane_completed(&a), 2);
	ck_assert_uint_eq(notes, 2);
	ck_assert_uint_eq(noted[0], 1);
	ck_assert_uint_eq(noted[1], 2);
	/* What has completed holds nobody; nor does an open gate. */
	lane_add_wait(&b, &a, 1);
	lane_add_gate(&b, &gate);
	lane_finish(&b);
	lane_close(&b);
	lane_close(&a);
}
END_TEST

/* Two queues, in turn, each step behind the other's. */
START_TEST(cross_waits)
{
	struct lane a, b;

	notes = 0;
	lane_open(&a, hw);
	lane_open(&b, hw);
	for (unsigned i = 0; i < 500; i++) {
		if (i)
			lane_add_wait(&a, &b, b.seq);
		add_note(&a, 2 * i);
		lane_add_wait(&b, &a, a.seq);
		add_note(&b, 2 * i + 1);
		if (i % 3 == 0)
			lane_submit(&b);
		if (i % 5 == 0)
			lane_submit(&a);
	}
	lane_submit(&a);
	lane_finish(&b);
	lane_finish(&a);
	ck_assert_uint_eq(notes, 1000);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_uint_eq(noted[i], i);
	lane_close(&a);
	lane_close(&b);
}
END_TEST

START_TEST(gate_of_many)
{
	struct lane lane[8];
	int gate = 0, other = 0;

	for (unsigned i = 0; i < 8; i++) {
		lane_open(&lane[i], hw);
		lane_add_gate(&lane[i], i == 7 ? &other : &gate);
		lane_submit(&lane[i]);
	}
	nap_ms(2);
	kilni_gate_open(&gate);
	for (unsigned i = 0; i < 7; i++)
		lane_finish(&lane[i]);
	ck_assert_uint_eq(lane_completed(&lane[7]), 0);
	kilni_gate_open(&other);
	for (unsigned i = 0; i < 8; i++) {
		lane_finish(&lane[i]);
		lane_close(&lane[i]);
	}
}
END_TEST

struct sleeper {
	struct lane *lane;
	uint64_t seq;
};

static void *sleep_until(void *arg)
{
	struct sleeper *s = arg;

	if (hw->driver->queue->wait(s->lane->queue, s->seq) != KILN_OK ||
	    lane_completed(s->lane) < s->seq)
		return arg;
	return NULL;
}

/* Threads asleep for different numbers all wake up. */
START_TEST(many_sleepers)
{
	enum { COUNT = 6 };
	pthread_t thread[COUNT];
	struct sleeper sleeper[COUNT];
	int gate[COUNT] = { 0 };
	struct lane lane;
	void *bad;

	lane_open(&lane, hw);
	for (int i = 0; i < COUNT; i++)
		lane_add_gate(&lane, &gate[i]);
	lane_submit(&lane);
	for (int i = 0; i < COUNT; i++) {
		sleeper[i] = (struct sleeper){ &lane, (uint64_t)i + 1 };
		pthread_create(&thread[i], NULL, sleep_until, &sleeper[i]);
	}
	for (int i = 0; i < COUNT; i++) {
		nap_ms(2);
		kilni_gate_open(&gate[i]);
		pthread_join(thread[i], &bad);
		ck_assert_ptr_null(bad);
	}
	lane_close(&lane);
}
END_TEST

START_TEST(destroy_at_once)
{
	for (int i = 0; i < 500; i++) {
		struct lane lane;

		notes = 0;
		lane_open(&lane, hw);
		add_note(&lane, 1);
		lane_finish(&lane);
		lane_close(&lane);
	}
}
END_TEST

/* ---- kernels ---- */

#define BIG (1u << 20)

/* One check for all of them: a check is a system call. */
static bool all_equal(const float *values, unsigned count, float expected)
{
	for (unsigned i = 0; i < count; i++)
		if (values[i] != expected)
			return false;
	return true;
}

START_TEST(shared_kernels)
{
	float *a = malloc(BIG * sizeof(*a)), *b = malloc(BIG * sizeof(*b));
	struct lane lane;

	lane_open(&lane, hw);
	for (unsigned round = 0; round < 3; round++) {
		lane_add_ew(&lane, KILNI_OP_FULL, a, NULL, NULL, 1.5f, BIG);
		lane_add_ew(&lane, KILNI_OP_ADD, b, a, a, 0, BIG);
		lane_add_ew(&lane, KILNI_OP_MUL, b, b, a, 0, BIG - 1);
		lane_add_ew(&lane, KILNI_OP_ADD, b, b, NULL, 2, BIG);
		lane_finish(&lane);
		ck_assert(all_equal(b, BIG - 1, 6.5f));
		ck_assert(b[BIG - 1] == 5.0f);
	}
	lane_close(&lane);
	free(a);
	free(b);
}
END_TEST

static void bump(void *data, void *user)
{
	(void)user;
	++*(unsigned *)data;
}

static void *stress(void *arg)
{
	struct lane lane;
	unsigned *calls = arg, state = (unsigned)(uintptr_t)arg | 1;
	float value[64], big[20000];

	lane_open(&lane, hw);
	lane_add_ew(&lane, KILNI_OP_FULL, value, NULL, NULL, 0, 64);
	lane_add_ew(&lane, KILNI_OP_FULL, big, NULL, NULL, 0, 20000);
	for (unsigned i = 0; i < 400; i++) {
		state = state * 1664525u + 1013904223u;
		lane_add_ew(&lane, KILNI_OP_ADD, value, value, NULL, 1, 64);
		lane_add_call(&lane, bump, calls, NULL);
		if (i % 8 == 0)
			lane_add_ew(&lane, KILNI_OP_ADD, big, big, NULL, 1,
				    20000);
		if (state >> 30 == 0)
			lane_submit(&lane);
		if (state >> 26 == 1)
			lane_finish(&lane);
		if (state >> 25 == 2)
			nap_ms(0);
	}
	lane_finish(&lane);
	ck_assert(all_equal(value, 64, 400) && all_equal(big, 20000, 50));
	lane_close(&lane);
	return NULL;
}

START_TEST(eight_queues_eight_threads)
{
	pthread_t thread[8];
	unsigned calls[8] = { 0 };

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++)
			pthread_create(&thread[i], NULL, stress, &calls[i]);
		for (int i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(calls[i], 5 * 400);
}
END_TEST

START_TEST(inline_small_only)
{
	struct kilni_entry entry = { .seq = 0 };
	struct kilni_report report;
	float a[16] = { 1 }, out[16];
	float source[4] = { 1, 2, 3, 4 };
	int64_t index[3] = { 3, 4, 1 };
	struct lane lane;

	lane_open(&lane, hw);
	rig_set_ew(&entry, KILNI_OP_ADD, out, a, a, 0, 16);
	ck_assert_int_eq(hw->driver->queue->run_inline(lane.queue, &entry,
						       &report),
			 KILN_OK);
	ck_assert(out[0] == 2 && out[15] == 0);
	ck_assert(report.position == UINT64_MAX);
	rig_set_gather(&entry, out, source, index, 4, 3);
	ck_assert_int_eq(hw->driver->queue->run_inline(lane.queue, &entry,
						       &report),
			 KILN_OK);
	ck_assert(out[0] == 4 && out[2] == 2);
	ck_assert_uint_eq(report.position, 1);
	ck_assert_int_eq(report.value, 4);
	rig_set_ew(&entry, KILNI_OP_ADD, out, a, a, 0, BIG);
	ck_assert_int_eq(hw->driver->queue->run_inline(lane.queue, &entry,
						       &report),
			 KILN_ERR_UNSUPPORTED);
	lane_close(&lane);
}
END_TEST

/* ---- failing ---- */

START_TEST(index_out_of_range)
{
	float source[4] = { 1, 2, 3, 4 }, out[3] = { 0 };
	int64_t index[3] = { 0, -9, 7 };
	struct lane lane;

	lane_open(&lane, hw);
	lane_add_ew(&lane, KILNI_OP_ADD, source, source, NULL, 1, 4);
	rig_set_gather(lane_append(&lane, KILNI_ENTRY_KERNEL), out, source,
		       index, 4, 3);
	lane_add_ew(&lane, KILNI_OP_ADD, source, source, NULL, 1, 4);
	lane_finish(&lane);
	ck_assert_uint_eq(lane.failures, 1);
	ck_assert_uint_eq(lane.failed_seq, 2);
	ck_assert_int_eq(lane.failed_status, KILN_ERR_INDEX);
	ck_assert_int_eq(lane.failed_value, -9);
	ck_assert(out[0] == 2);
	/* What follows is asked about, and runs where check() allows it. */
	ck_assert_uint_eq(lane.checked, 1);
	ck_assert(source[0] == 3);
	lane.verdict = KILN_ERR_DEPENDENCY;
	lane_add_ew(&lane, KILNI_OP_ADD, source, source, NULL, 1, 4);
	lane_finish(&lane);
	ck_assert(source[0] == 3);
	ck_assert_uint_eq(lane.failures, 1);
	lane_close(&lane);
}
END_TEST

START_TEST(injected_faults)
{
	const struct kilni_queue_ops *ops = hw->driver->queue;
	float value[20000] = { 0 };
	struct kilni_chunk chunk;
	struct kilni_queue *queue = NULL;
	struct kilni_queue_client client = { .context = NULL };
	struct lane lane;

	lane_open(&lane, hw);
	ck_assert_int_eq(kilni_fault_set("launch", 3, KILN_ERR_DRIVER),
			 KILN_OK);
	for (int i = 0; i < 5; i++)
		lane_add_ew(&lane, KILNI_OP_ADD, value, value, NULL, 1, 20000);
	lane_finish(&lane);
	ck_assert_uint_eq(lane.failures, 1);
	ck_assert_uint_eq(lane.failed_seq, 3);
	ck_assert_int_eq(lane.failed_status, KILN_ERR_DRIVER);
	ck_assert(value[0] == 4 && value[19999] == 4);
	ck_assert_int_eq(kilni_fault_set("submit", 1, KILN_ERR_DEVICE_LOST),
			 KILN_OK);
	ck_assert_int_eq(ops->submit(lane.queue, lane.seq),
			 KILN_ERR_DEVICE_LOST);
	ck_assert_int_eq(kilni_fault_set("queue_create", 1,
					 KILN_ERR_NO_MEMORY),
			 KILN_OK);
	ck_assert_int_eq(ops->create(hw, &client, &chunk, &queue),
			 KILN_ERR_NO_MEMORY);
	ck_assert_ptr_null(queue);
	ck_assert_int_eq(kilni_fault_set(NULL, 0, KILN_OK), KILN_OK);
	lane_close(&lane);
}
END_TEST

/* ---- merging ---- */

/* Entries outlive the merge that points to them. */
static struct kilni_entry added[64];
static unsigned adds;

static bool add_to(struct kilni_merge *merge, enum kilni_op op, float *out,
		   const float *in0, const float *in1, uint64_t count)
{
	struct kilni_entry *entry = &added[adds++];

	rig_set_ew(entry, op, out, in0, in1, 0, count);
	return kilni_merge_add(merge, entry);
}

START_TEST(merge_rules)
{
	enum { N = 20000 };
	static float x[2 * N], y[N], z[N];
	struct kilni_merge m = { .entries = 0 };

	/* In place, a chain, write after read, write after write. */
	ck_assert(add_to(&m, KILNI_OP_ADD, x, x, y, N));
	ck_assert(add_to(&m, KILNI_OP_MUL, z, x, NULL, N));
	ck_assert(add_to(&m, KILNI_OP_ADD, y, z, x, N));
	ck_assert(add_to(&m, KILNI_OP_FULL, z, NULL, NULL, N));
	/* What is taken up again is kept. */
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(added[i].params.ew.keep, i < 2);
	/* Shifted against a written range; in both directions. */
	ck_assert(!add_to(&m, KILNI_OP_ADD, z, x + 1, NULL, N));
	ck_assert(!add_to(&m, KILNI_OP_ADD, x + N - 1, z, NULL, N));
	/* Next to it is fine; another count is not. */
	ck_assert(add_to(&m, KILNI_OP_ADD, x + N, z, NULL, N));
	ck_assert(!add_to(&m, KILNI_OP_ADD, y, z, NULL, N - 1));
	ck_assert_uint_eq(m.entries, 5);
	/* Two that are only read may be shifted as they like. */
	memset(&m, 0, sizeof(m));
	ck_assert(add_to(&m, KILNI_OP_ADD, y, x, x + 1, N));
	ck_assert(add_to(&m, KILNI_OP_ADD, z, x + 2, x, N));
	/* Small ones stay alone. */
	memset(&m, 0, sizeof(m));
	ck_assert(!add_to(&m, KILNI_OP_ADD, y, x, x, 16));
	/* The same place, read as another width. */
	memset(&m, 0, sizeof(m));
	ck_assert(add_to(&m, KILNI_OP_ADD, y, x, x, N));
	rig_set_ew(&added[adds], KILNI_OP_CAST, z, y, NULL, 0, N);
	added[adds].params.ew.dtype[1] = KILN_F16;
	ck_assert(!kilni_merge_add(&m, &added[adds++]));
	memset(&m, 0, sizeof(m));
	for (int i = 0; i < KILNI_MERGE_MOST; i++)
		ck_assert(add_to(&m, KILNI_OP_ADD, x, x, NULL, N));
	ck_assert(!add_to(&m, KILNI_OP_ADD, x, x, NULL, N));
}
END_TEST

enum { POOL = 100000, WINDOW = 20000 };

static unsigned random_below(unsigned *state, unsigned limit)
{
	*state = *state * 1664525u + 1013904223u;
	return (unsigned)((uint64_t)*state * limit >> 32);
}

/* An operand: one of a few places, some of which overlap. */
static float *random_place(float *pool, unsigned *state)
{
	static const unsigned place[] = { 0,	 20000, 40000, 60000,
					  20001, 50000, 80000 };

	return pool + place[random_below(state, KILNI_COUNTOF(place))];
}

static bool overlaps(const float *a, const float *b)
{
	return a != b && a < b + WINDOW && b < a + WINDOW;
}

/* The same random program each time; in one piece or entry by entry. */
static void run_program(struct lane *lane, float *pool, unsigned seed,
			bool at_once)
{
	static const enum kilni_op ops[] = { KILNI_OP_ADD, KILNI_OP_SUB,
					     KILNI_OP_MUL, KILNI_OP_FULL };
	unsigned state = seed;

	for (unsigned i = 0; i < POOL; i++)
		pool[i] = (float)(i % 97) / 7;
	for (int i = 0; i < 40; i++) {
		enum kilni_op op = ops[random_below(&state, 4)];
		float *out = random_place(pool, &state);
		float *a = random_place(pool, &state);
		float *b = random_place(pool, &state);

		/* Within one entry nothing may overlap in part. */
		if (overlaps(out, a) || overlaps(out, b))
			continue;
		if (op == KILNI_OP_FULL)
			a = b = NULL;
		lane_add_ew(lane, op, out, a, b, 0.5f, WINDOW);
		if (!at_once)
			lane_finish(lane);
	}
	lane_finish(lane);
}

START_TEST(merging_keeps_every_bit)
{
	static float once[POOL], apart[POOL];
	struct lane lane;

	lane_open(&lane, hw);
	for (unsigned seed = 1; seed <= 40; seed++) {
		run_program(&lane, once, seed, true);
		run_program(&lane, apart, seed, false);
		ck_assert_mem_eq(once, apart, sizeof(once));
	}
	lane_close(&lane);
}
END_TEST

/* ---- manners ---- */

static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

START_TEST(idle_costs_nothing)
{
	static float value[BIG];
	struct lane lane, held;
	int gate = 0;
	double before;

	lane_open(&lane, hw);
	lane_open(&held, hw);
	lane_add_gate(&held, &gate);
	lane_submit(&held);
	lane_add_ew(&lane, KILNI_OP_FULL, value, NULL, NULL, 1, BIG);
	lane_finish(&lane);
	nap_ms(10);
	before = cpu_seconds();
	nap_ms(2000);
	ck_assert(cpu_seconds() - before < 0.020);
	kilni_gate_open(&gate);
	lane_finish(&held);
	lane_close(&held);
	lane_close(&lane);
}
END_TEST

static void dawdle(void *data, void *user)
{
	(void)data;
	(void)user;
	nap_ms(50);
}

/* Leaves with work in flight; without the fixture's threads. */
START_TEST(exit_with_work_in_flight)
{
	pid_t child = fork();
	int status;

	if (!child) {
		static float value[BIG];
		struct lane lane;
		int gate = 0;

		hw = rig_open("cpu");
		lane_open(&lane, hw);
		for (int i = 0; i < 50; i++) {
			lane_add_ew(&lane, KILNI_OP_ADD, value, value, NULL, 1,
				    BIG);
			lane_add_call(&lane, dawdle, NULL, NULL);
		}
		lane_add_gate(&lane, &gate);
		lane_submit(&lane);
		exit(7);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
}
END_TEST

#if !SANITIZED
/* A child closes what it inherited without waiting, and opens its own. */
START_TEST(forked_child)
{
	struct lane lane;
	float value[16];
	pid_t child;
	int status;

	lane_open(&lane, hw);
	child = fork();
	if (!child) {
		struct kilni_hw *own = rig_open("cpu");
		struct lane other;

		rig_close(hw);
		lane_open(&other, own);
		lane_add_ew(&other, KILNI_OP_FULL, value, NULL, NULL, 3, 16);
		lane_finish(&other);
		lane_close(&other);
		rig_close(own);
		_exit(value[15] == 3 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	lane_add_ew(&lane, KILNI_OP_FULL, value, NULL, NULL, 4, 16);
	lane_finish(&lane);
	ck_assert(value[0] == 4);
	lane_close(&lane);
}
END_TEST
#endif

static Suite *suite(void)
{
	Suite *s = suite_create("cpu_queue");
	TCase *order = tcase_create("order");
	TCase *kernels = tcase_create("kernels");
	TCase *merging = tcase_create("merging");
	TCase *manners = tcase_create("manners");
	TCase *leaving = tcase_create("leaving");
	TCase *cases[] = { order, kernels, merging, manners };

	for (size_t i = 0; i < KILNI_COUNTOF(cases); i++) {
		tcase_add_checked_fixture(cases[i], set_up, tear_down);
		tcase_set_timeout(cases[i], 60);
		suite_add_tcase(s, cases[i]);
	}
	tcase_add_test(order, order_and_chunks);
	tcase_add_test(order, wait_holds_until_completed);
	tcase_add_test(order, cross_waits);
	tcase_add_test(order, gate_of_many);
	tcase_add_test(order, many_sleepers);
	tcase_add_test(order, destroy_at_once);
	tcase_add_test(kernels, shared_kernels);
	tcase_add_test(kernels, eight_queues_eight_threads);
	tcase_add_test(kernels, inline_small_only);
	tcase_add_test(kernels, index_out_of_range);
	tcase_add_test(kernels, injected_faults);
	tcase_add_test(merging, merge_rules);
	tcase_add_test(merging, merging_keeps_every_bit);
	tcase_add_test(manners, idle_costs_nothing);
#if !SANITIZED
	tcase_add_test(manners, forked_child);
#endif
	tcase_add_test(leaving, exit_with_work_in_flight);
	suite_add_tcase(s, leaving);
	return s;
}

int main(void)
{
	SRunner *runner = srunner_create(suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
