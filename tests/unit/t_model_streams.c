/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over four streams and four threads beside the same programs
 * done serially by plain loops (stream_model.h): every value that is read must
 * be the same, bit by bit. The steps of a program have an order; each belongs
 * to a thread, which makes its calls as soon as the calls that the step depends
 * on have been made by the others. Waiting for what those have queued is kiln's
 * part. Of a program that goes wrong steps are left out as long as it still
 * does, and what remains is printed.
 *
 * KILN_MODEL_SEED   first seed (default: 1)
 * KILN_MODEL_STEPS  steps in all
 */
#include "stream_steps.h"

static uint64_t random_state;

static uint32_t any(uint32_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) +
		       UINT64_C(1442695040888963407);
	return (uint32_t)((random_state >> 33) % below);
}

/* ---- making and planning a program ---- */

static enum kind any_kind(void)
{
	unsigned sum = 0, at;

	for (int k = 0; k < KINDS; k++)
		sum += kinds[k].weight;
	at = any(sum);
	for (int k = 0; k < KINDS; k++) {
		if (at < kinds[k].weight)
			return (enum kind)k;
		at -= kinds[k].weight;
	}
	return STEP_read;
}

static int any_form(void)
{
	unsigned at = any(27);
	int form = 0;

	while (at >= forms[form].weight)
		at -= forms[form++].weight;
	return form;
}

static void make_steps(struct step *steps, int count)
{
	for (int i = 0; i < count; i++) {
		int first = (any_form() * 2 + (int)any(2)) * NAMES_EACH;

		steps[i] = (struct step){
			.kind = any_kind(),
			.thread = (int)any(THREADS),
			.d = first + (int)any(NAMES_EACH),
			.a = first + (int)any(NAMES_EACH),
			.b = first + (int)any(NAMES_EACH),
			.value = any(1u << 31),
		};
		/* A chance to write in place. */
		if (any(3) == 0)
			steps[i].a = steps[i].d;
		/* Most names have a tensor to begin with. */
		if (i < NAMES && any(8)) {
			steps[i].kind = STEP_upload;
			steps[i].d = i;
		}
	}
}

static void plan(struct step *steps, int count)
{
	world.steps = steps;
	world.count = count;
	memset(model.recorded, 0, sizeof(model.recorded));
	for (int i = 0; i < NAMES; i++)
		touched_init(&model.name[i]);
	for (int i = 0; i < STREAMS; i++)
		touched_init(&model.stream[i]);
	for (int i = 0; i < EVENTS; i++)
		touched_init(&model.event[i]);
	for (int i = 0; i < count; i++) {
		for (int t = 0; t < THREADS; t++)
			steps[i].need[t] = -1;
		steps[i].skip = !kinds[steps[i].kind].plan(&steps[i]);
	}
}

/* ---- running it ---- */

static void *opener(void *unused)
{
	int opened = 0;

	(void)unused;
	while (!made(&world.stop) || opened < made(&world.gate_count)) {
		usleep(200);
		while (opened < made(&world.gate_count)) {
			int at = made(&world.gates[opened]);

			if (!at)
				break;
			kilni_gate_open(&world.gate[at - 1]);
			opened++;
		}
	}
	return NULL;
}

static void wait_for_others(const struct step *s)
{
	for (int t = 0; t < THREADS; t++)
		while (t != s->thread && made(&world.done[t]) < s->need[t])
			sched_yield();
}

struct worker {
	int thread, at;            /* its next step */
};

/* Makes the thread's calls until it ends or is to end. */
static void *work(void *data)
{
	struct worker *w = data;

	while (w->at < world.count) {
		struct step *s = &world.steps[w->at++];

		if (s->thread != w->thread)
			continue;
		wait_for_others(s);
		if (!s->skip && !made(&world.failed))
			kinds[s->kind].act(s);
		__atomic_store_n(&world.done[w->thread], index_of(s),
				 __ATOMIC_RELEASE);
		if (s->kind == STEP_end_thread)
			break;
	}
	return NULL;
}

/* Lets one thread after the other do a thread's steps. */
static void *keep(void *data)
{
	struct worker w = { .thread = *(int *)data };
	pthread_t thread;

	while (w.at < world.count) {
		if (pthread_create(&thread, NULL, work, &w) != 0)
			abort();
		pthread_join(thread, NULL);
	}
	__atomic_store_n(&world.done[w.thread], PROGRAM, __ATOMIC_RELEASE);
	return NULL;
}

static void run_threads(void)
{
	pthread_t opens, keeper[THREADS];
	int number[THREADS];

	if (pthread_create(&opens, NULL, opener, NULL) != 0)
		abort();
	for (int t = 0; t < THREADS; t++) {
		number[t] = t;
		if (pthread_create(&keeper[t], NULL, keep, &number[t]) != 0)
			abort();
	}
	for (int t = 0; t < THREADS; t++)
		pthread_join(keeper[t], NULL);
	__atomic_store_n(&world.stop, 1, __ATOMIC_RELEASE);
	pthread_join(opens, NULL);
}

/* ---- before and after ---- */

static void begin(void)
{
	memset(world.gate, 0, sizeof(world.gate));
	memset(world.gates, 0, sizeof(world.gates));
	world.gate_count = world.stop = world.failed = world.wanted = 0;
	world.wrong[0] = '\0';
	for (int t = 0; t < THREADS; t++)
		world.done[t] = -1;
	for (int i = 0; i < STREAMS; i++)
		GOOD(NULL, kiln_stream_create(&world.stream[i], world.device));
	GOOD(NULL, kiln_completions_create(&world.ring, RING));
}

static void expect_completions(void)
{
	struct kiln_completion taken[64];
	int left = made(&world.wanted);
	size_t count;

	while (left && !world.failed &&
	       GOOD(NULL, kiln_completions_wait(world.ring, INT64_C(1000000000) *
							    60))) {
		for (int i = 0; i < 64; i++)
			taken[i].struct_size = sizeof(taken[i]);
		count = 64;
		GOOD(NULL, kiln_completions_take(world.ring, taken, &count));
		for (size_t i = 0; i < count; i++)
			is_good(NULL, "completion", taken[i].status);
		left -= (int)count;
	}
}

/* All that was made is gone, and the accounting adds up. */
static void expect_nothing_left(void)
{
	struct kiln_memory_usage usage = KILN_MEMORY_USAGE_INIT;
	bool available;

	if (!GOOD(NULL, kiln_memory_usage(world.device, &usage, &available)))
		return;
	if (usage.live_bytes || usage.allocations)
		went_wrong(NULL, "%llu bytes are left over",
			   (unsigned long long)usage.live_bytes);
	if (!kilni_pools_verify(kilni_device_pools(world.device)))
		went_wrong(NULL, "the pools' accounting is wrong");
	if (made(&world.foreign))
		went_wrong(NULL, "%d deleters were not called",
			   made(&world.foreign));
}

static void end(void)
{
	for (int i = 0; i < NAMES; i++) {
		if (model.look[i].store && !world.failed) {
			union word *want = look_copy(&model.look[i]);

			expect_words(NULL, i, want);
			free(want);
		}
		look_drop(&model.look[i]);
		kiln_tensor_clear(&world.tensor[i]);
	}
	for (int i = 0; i < world.count; i++) {
		free(world.steps[i].want);
		world.steps[i].want = NULL;
	}
	expect_completions();
	kiln_completions_release(world.ring);
	world.ring = NULL;
	for (int i = 0; i < STREAMS; i++) {
		kiln_stream_release(world.stream[i]);
		world.stream[i] = NULL;
	}
	for (int i = 0; i < EVENTS; i++) {
		kiln_event_release(world.event[i]);
		world.event[i] = NULL;
	}
	GOOD(NULL, kiln_device_sync(world.device));
	expect_nothing_left();
}

/* Whether the program gives what it should. */
static bool run(struct step *steps, int count)
{
	plan(steps, count);
	begin();
	run_threads();
	end();
	return !world.wrong[0];
}

/* ---- a program that goes wrong ---- */

/* It depends on time: one good run shows nothing. */
static bool goes_wrong(struct step *steps, int count)
{
	for (int i = 0; i < 8; i++)
		if (!run(steps, count))
			return true;
	return false;
}

static int shrink(struct step *steps, int count)
{
	static struct step rest[PROGRAM];
	int part = count / 2;

	while (part) {
		bool less = false;

		for (int at = 0; at < count;) {
			int left = count - at < part ? count - at : part;

			memcpy(rest, steps, (size_t)at * sizeof(*rest));
			memcpy(rest + at, steps + at + left,
			       (size_t)(count - at - left) * sizeof(*rest));
			if (!goes_wrong(rest, count - left)) {
				at += left;
				continue;
			}
			count -= left;
			memcpy(steps, rest, (size_t)count * sizeof(*rest));
			less = true;
		}
		if (part > 1 || !less)
			part /= 2;
	}
	return count;
}

static void print_step(const struct step *s)
{
	fprintf(stderr, "%3d thread %d: %s d=%d a=%d b=%d value=%u%s\n",
		index_of(s), s->thread, kinds[s->kind].name, s->d, s->a, s->b,
		s->value, s->skip ? " (left out)" : "");
}

static void tell(uint64_t seed, struct step *steps, int count)
{
	fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed,
		world.wrong);
	count = shrink(steps, count);
	if (goes_wrong(steps, count))
		fprintf(stderr, "%s, after these steps:\n", world.wrong);
	else
		fprintf(stderr, "not every time, after these steps:\n");
	for (int i = 0; i < count; i++)
		print_step(&steps[i]);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void open_world(const char *selector)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	static int32_t word;

	world.device = open_device(selector);
	world.foreign_works = kiln_tensor_from_foreign(
		&t, world.device, KILN_I32, 1, SHAPE(1), &word, 0, NULL,
		NULL) == KILN_OK;
	kiln_tensor_release(t);
}

static void run_programs(const char *selector, uint64_t left)
{
	static struct step steps[PROGRAM];
	uint64_t seed = from_environment("KILN_MODEL_SEED", 1);

	open_world(selector);
	left = from_environment("KILN_MODEL_STEPS", left);
	for (; left; seed++) {
		int count = left < PROGRAM ? (int)left : PROGRAM;

		random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
		make_steps(steps, count);
		if (!run(steps, count)) {
			tell(seed, steps, count);
			ck_abort_msg("KILN_MODEL_SEED=%llu goes wrong",
				     (unsigned long long)seed);
		}
		left -= (uint64_t)count;
	}
	kiln_device_release(world.device);
}

START_TEST(random_programs)
{
	run_programs(tested_selector(), SANITIZED ? 1200 : 4000);
}
END_TEST

/* A software device, where there is one. */
START_TEST(random_programs_on_vulkan)
{
	struct kiln_device *device = NULL;

	if (SANITIZED || kiln_device_open(&device, "vulkan:cpu") != KILN_OK)
		return;
	kiln_device_release(device);
	run_programs("vulkan:cpu", 400);
}
END_TEST

/* A wrong result is found, and few steps suffice to show it. */
START_TEST(a_lie_is_found_and_shrunk)
{
	static struct step steps[PROGRAM];
	int count = 200;

	/* Of no use to a sanitizer, which makes the many runs slow. */
	if (SANITIZED)
		return;
	open_world("cpu");
	world.lies = true;
	random_state = 3;
	make_steps(steps, count);
	ck_assert(!run(steps, count));
	count = shrink(steps, count);
	ck_assert_int_ge(count, 2);
	ck_assert_int_le(count, 4);
	world.lies = false;
	ck_assert(run(steps, count));
	kiln_device_release(world.device);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *test)
{
	TCase *tests = tcase_create(name);

	tcase_set_timeout(tests, 3600);
	tcase_add_test(tests, test);
	suite_add_tcase(suite, tests);
}

int main(void)
{
	Suite *suite = suite_create("streams, model");

	add_case(suite, "model", random_programs);
	add_case(suite, "vulkan", random_programs_on_vulkan);
	add_case(suite, "lie", a_lie_is_found_and_shrunk);
	return run_suite(suite);
}
