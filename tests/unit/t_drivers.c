/* SPDX-License-Identifier: Apache-2.0 */
/* What all drivers promise, run for each; and the null driver's own ways. */
#include "tests/unit/drv_rig.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/null/null.h"

/* Those of this build, and of these the ones with a device here. */
static unsigned drivers, presents;
static const struct kilni_driver *present[16];

/*
 * Asks in a child, since some vendors' libraries cannot be used in a fork of a
 * process that has used them, and the tests are forks of this one.
 */
static bool is_present(const struct kilni_driver *driver)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		bool there = driver->driver->count() > 0;

		if (!there)
			printf("not tested: %s: %s\n", driver->name,
			       driver->driver->absent());
		fflush(stdout);
		_exit(there ? 1 : 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child &&
	       WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void count_drivers(void)
{
	for (; kilni_drivers[drivers]; drivers++)
		if (is_present(kilni_drivers[drivers]))
			present[presents++] = kilni_drivers[drivers];
}

/* ---- tables ---- */

/* Slots that a driver may leave to the stub, and what that has to mean. */
START_TEST(capabilities_are_wired_slots)
{
	const struct kilni_driver *d = kilni_drivers[_i];
	unsigned wired = 0, stubs = 0;

	ck_assert_uint_eq(d->abi, KILNI_DRIVER_ABI);
	ck_assert_uint_eq(d->size, sizeof(*d));
	ck_assert_uint_ge(strlen(d->name), 1);
#define SLOT(table, slot)                                                      \
	ck_assert_msg(d->table->slot != NULL, "%s: " #table "." #slot,         \
		      d->name);                                                \
	if (d->table->slot == kilni_##table##_stubs.slot)                      \
		stubs++;                                                       \
	else                                                                   \
		wired++;
#define DRIVER_SLOT(r, v, slot, p) SLOT(driver, slot)
#define DEVICE_SLOT(r, v, slot, p) SLOT(device, slot)
#define MEMORY_SLOT(r, v, slot, p) SLOT(memory, slot)
#define QUEUE_SLOT(r, v, slot, p) SLOT(queue, slot)
#define PROGRAM_SLOT(r, v, slot, p) SLOT(program, slot)
	KILNI_DRIVER_SLOTS(DRIVER_SLOT)
	KILNI_DEVICE_SLOTS(DEVICE_SLOT)
	KILNI_MEMORY_SLOTS(MEMORY_SLOT)
	KILNI_QUEUE_SLOTS(QUEUE_SLOT)
	KILNI_PROGRAM_SLOTS(PROGRAM_SLOT)
	ck_assert_uint_ge(wired, stubs);
	/* Queues, memory and opening come whole or not at all. */
	ck_assert(d->driver->open != kilni_driver_stubs.open);
	ck_assert(d->device->close != kilni_device_stubs.close);
	ck_assert(d->queue->create != kilni_queue_stubs.create);
	ck_assert(d->queue->submit != kilni_queue_stubs.submit);
	ck_assert(d->queue->wait != kilni_queue_stubs.wait);
	ck_assert(d->queue->completed != kilni_queue_stubs.completed);
	ck_assert(d->queue->destroy != kilni_queue_stubs.destroy);
	ck_assert(d->memory->page_alloc != kilni_memory_stubs.page_alloc);
	ck_assert(d->memory->page_free != kilni_memory_stubs.page_free);
#define MAPPED(slot)                                                           \
	ck_assert((d->memory->slot == kilni_memory_stubs.slot) ==              \
		  (d->memory->map_reserve == kilni_memory_stubs.map_reserve))
	MAPPED(map_unreserve);
	MAPPED(map_create);
	MAPPED(map_destroy);
	MAPPED(map_attach);
	MAPPED(map_detach);
}
END_TEST

/* Stored and computed with; Vulkan may flush what is denormal. */
static void check_usage(const struct kilni_driver *d, unsigned usage,
			bool is_float)
{
	bool keeps = usage & KILN_USAGE_DENORMALS;

	ck_assert_uint_eq(usage & ~(unsigned)(KILN_USAGE_ACCELERATED |
					      KILN_USAGE_DENORMALS),
			  KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC);
	ck_assert(is_float || !keeps);
	if (strcmp(d->name, "vulkan"))
		ck_assert(keeps == is_float);
}

/* What a device says it can do agrees with the slots. */
START_TEST(answers_agree_with_slots)
{
	const struct kilni_driver *d = present[_i];
	struct kilni_hw *hw = rig_open(d->name);
	bool has = d->program->has != kilni_program_stubs.has;
	bool counted = d->device->workers != kilni_device_stubs.workers;

	for (int k = 0; k < KILNI_KERNEL_COUNT; k++)
		if (d->program->has(hw, (enum kilni_kernel)k))
			ck_assert(has);
	ck_assert(counted == (d->device->workers(hw) > 0));
	for (int t = 0; t < KILN_DTYPE_COUNT; t++)
		check_usage(d, d->device->dtype_usage(hw, (enum kiln_dtype)t),
			    t <= KILN_BF16);
	ck_assert_uint_eq(d->device->dtype_usage(hw, KILN_DTYPE_COUNT), 0);
	ck_assert_uint_ge(strlen(d->device->explain(hw)), 1);
	rig_close(hw);
}
END_TEST

START_TEST(stubs_refuse_by_name)
{
	struct kilni_hw *hw = NULL;
	struct kilni_page page;

	ck_assert_int_eq(kilni_driver_stubs.open(0, &hw),
			 KILN_ERR_UNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "open"));
	ck_assert_int_eq(kilni_memory_stubs.page_alloc(NULL, 1, &page),
			 KILN_ERR_UNSUPPORTED);
	ck_assert_int_eq(kilni_queue_stubs.submit(NULL, 1),
			 KILN_ERR_UNSUPPORTED);
	ck_assert_uint_eq(kilni_driver_stubs.count(), 0);
	ck_assert(!kilni_program_stubs.has(NULL, KILNI_KERNEL_EW));
}
END_TEST

START_TEST(absent_for_a_reason)
{
	const struct kilni_driver *d = kilni_drivers[_i];
	const char *why = d->driver->absent();

	ck_assert((why == NULL) == (d->driver->count() > 0));
	if (why)
		ck_assert_uint_ge(strlen(why), 1);
}
END_TEST

START_TEST(described_without_opening)
{
	const struct kilni_driver *d = present[_i];
	struct kilni_hw_info info;

	ck_assert_uint_ge(d->driver->count(), 1);
	ck_assert_ptr_null(d->driver->absent());
	ck_assert_int_eq(d->driver->describe(0, &info), KILN_OK);
	ck_assert_uint_ge(strlen(info.name), 1);
	ck_assert_uint_gt(info.memory_bytes, 0);
}
END_TEST

/* ---- memory ---- */

START_TEST(pages)
{
	const struct kilni_driver *d = present[_i];
	struct kilni_hw *hw = rig_open(d->name);
	struct kilni_memory_limits limits;
	struct kilni_page page[4];
	static const uint64_t bytes[] = { 65536, 2 << 20, 5 << 20, 65536 };
	unsigned char text[64], back[64];

	d->memory->limits(hw, &limits);
	ck_assert_uint_ge(limits.alignment, 64);
	ck_assert_uint_eq(limits.alignment & (limits.alignment - 1), 0);
	ck_assert_uint_eq(65536 % limits.page_granularity, 0);
	ck_assert_uint_le(limits.max_page_bytes, limits.total_bytes);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(d->memory->page_alloc(hw, bytes[i], &page[i]),
				 KILN_OK);
		ck_assert_uint_eq(page[i].bytes, bytes[i]);
		ck_assert_uint_eq(page[i].address % limits.alignment, 0);
		for (int j = 0; j < i; j++)
			ck_assert(page[i].address + bytes[i] <=
					  page[j].address ||
				  page[j].address + bytes[j] <=
					  page[i].address);
	}
	memset(text, 0x5a, sizeof(text));
	ck_assert_int_eq(d->memory->write(hw, page[2].address + bytes[2] - 64,
					  text, 64),
			 KILN_OK);
	ck_assert_int_eq(d->memory->read(hw, back,
					 page[2].address + bytes[2] - 64, 64),
			 KILN_OK);
	if (d->type == KILN_DEVICE_NULL)
		memset(text, kilni_null_fill, sizeof(text));
	ck_assert_mem_eq(text, back, 64);
	ck_assert_int_eq(d->memory->write(hw, page[0].address, NULL, 0),
			 KILN_OK);
	for (int i = 0; i < 4; i++)
		d->memory->page_free(hw, &page[i]);
	rig_close(hw);
}
END_TEST

START_TEST(memory_failures)
{
	const struct kilni_driver *d = present[_i];
	struct kilni_hw *hw = rig_open(d->name);
	struct kilni_page page;
	char byte;

	ck_assert_int_eq(d->memory->page_alloc(hw, (uint64_t)1 << 60, &page),
			 KILN_ERR_OUT_OF_MEMORY);
	ck_assert_int_eq(d->memory->page_alloc(hw, ~(uint64_t)4095, &page),
			 KILN_ERR_OUT_OF_MEMORY);
	ck_assert_int_eq(d->memory->page_alloc(hw, 1 << 20, &page), KILN_OK);
	d->memory->page_free(hw, &page);
	kilni_fault_set("page_alloc", 2, KILN_ERR_OUT_OF_MEMORY);
	ck_assert_int_eq(d->memory->page_alloc(hw, 65536, &page), KILN_OK);
	d->memory->page_free(hw, &page);
	ck_assert_int_eq(d->memory->page_alloc(hw, 65536, &page),
			 KILN_ERR_OUT_OF_MEMORY);
	kilni_fault_set("read", 1, KILN_ERR_DRIVER);
	ck_assert_int_eq(d->memory->read(hw, &byte, 0, 1), KILN_ERR_DRIVER);
	kilni_fault_set("write", 1, KILN_ERR_DRIVER);
	ck_assert_int_eq(d->memory->write(hw, 0, &byte, 1), KILN_ERR_DRIVER);
	rig_close(hw);
	hw = NULL;
	kilni_fault_set("open", 1, KILN_ERR_NO_MEMORY);
	ck_assert_int_eq(d->driver->open(0, &hw), KILN_ERR_NO_MEMORY);
	ck_assert_ptr_null(hw);
	kilni_fault_set(NULL, 0, KILN_OK);
}
END_TEST

/* ---- queues, whatever the driver ---- */

static unsigned noted[256], notes;

static void note(void *data, void *user)
{
	(void)user;
	noted[notes++] = (unsigned)(uintptr_t)data;
}

static void add_note(struct lane *lane, unsigned number)
{
	lane_add_call(lane, note, (void *)(uintptr_t)number, NULL);
}

START_TEST(waits_gates_and_calls)
{
	struct kilni_hw *hw = rig_open(present[_i]->name);
	struct lane a, b, c;
	int gate = 0;

	notes = 0;
	lane_open(&a, hw);
	lane_open(&b, hw);
	lane_open(&c, hw);
	lane_add_wait(&c, &b, 2);
	add_note(&c, 3);
	lane_submit(&c);
	lane_add_wait(&b, &a, 2);
	add_note(&b, 2);
	lane_submit(&b);
	lane_add_gate(&a, &gate);
	add_note(&a, 1);
	lane_submit(&a);
	for (unsigned i = 4; i < 100; i++)
		add_note(&c, i);
	lane_submit(&c);
	ck_assert_uint_eq(lane_completed(&a), 0);
	ck_assert_uint_eq(lane_completed(&b), 0);
	kilni_gate_open(&gate);
	lane_finish(&c);
	ck_assert_uint_eq(lane_completed(&a), 2);
	ck_assert_uint_eq(lane_completed(&b), 2);
	ck_assert_uint_eq(c.chunks_done, 3);
	ck_assert_uint_eq(notes, 99);
	for (unsigned i = 0; i < 99; i++)
		ck_assert_uint_eq(noted[i], i + 1);
	lane_close(&c);
	lane_close(&b);
	lane_close(&a);
	rig_close(hw);
}
END_TEST

static void submit_other(void *data, void *user)
{
	(void)user;
	lane_submit(data);
}

/* A call may submit, to another queue or to its own. */
START_TEST(calls_submit)
{
	struct kilni_hw *hw = rig_open(present[_i]->name);
	struct lane a, b;

	notes = 0;
	lane_open(&a, hw);
	lane_open(&b, hw);
	add_note(&b, 7);
	lane_add_call(&a, submit_other, &b, NULL);
	lane_add_call(&a, submit_other, &a, NULL);
	lane_submit(&a);
	ck_assert_int_eq(lane_wait(&b), KILN_OK);
	ck_assert_int_eq(lane_wait(&a), KILN_OK);
	ck_assert_uint_eq(notes, 1);
	lane_close(&a);
	lane_close(&b);
	rig_close(hw);
}
END_TEST

/* Who asks how far a queue has come need not wait for it. */
START_TEST(asking_is_enough)
{
	struct kilni_hw *hw = rig_open(present[_i]->name);
	struct lane lane;

	lane_open(&lane, hw);
	for (int i = 0; i < 3; i++) {
		rig_set_ew(lane_append(&lane, KILNI_ENTRY_KERNEL),
			   KILNI_OP_FULL, NULL, NULL, NULL, 0, 0);
		lane_submit(&lane);
		for (int k = 0; k < 5000 && lane_completed(&lane) < lane.seq;
		     k++)
			usleep(1000);
		ck_assert_uint_eq(lane_completed(&lane), lane.seq);
	}
	lane_close(&lane);
	rig_close(hw);
}
END_TEST

START_TEST(failures_are_told)
{
	struct kilni_hw *hw = rig_open(present[_i]->name);
	struct lane lane;

	lane_open(&lane, hw);
	kilni_fault_set("launch", 2, KILN_ERR_DRIVER);
	for (int i = 0; i < 4; i++)
		rig_set_ew(lane_append(&lane, KILNI_ENTRY_KERNEL),
			   KILNI_OP_FULL, NULL, NULL, NULL, 0, 0);
	lane_finish(&lane);
	ck_assert_uint_eq(lane.failures, 1);
	ck_assert_uint_eq(lane.failed_seq, 2);
	ck_assert_int_eq(lane.failed_status, KILN_ERR_DRIVER);
	ck_assert_uint_eq(lane.checked, 2);
	notes = 0;
	lane.verdict = KILN_ERR_DEPENDENCY;
	add_note(&lane, 1);
	lane_finish(&lane);
	/* A call gives memory back: it is made whatever has failed. */
	ck_assert_uint_eq(notes, 1);
	kilni_fault_set(NULL, 0, KILN_OK);
	lane_close(&lane);
	rig_close(hw);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("drivers");
	TCase *t = tcase_create("drivers");
	SRunner *runner;
	int failed, n, here;

	count_drivers();
	n = (int)drivers;
	here = (int)presents;
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, capabilities_are_wired_slots, 0, n);
	tcase_add_loop_test(t, answers_agree_with_slots, 0, here);
	tcase_add_test(t, stubs_refuse_by_name);
	tcase_add_loop_test(t, absent_for_a_reason, 0, n);
	tcase_add_loop_test(t, described_without_opening, 0, here);
	tcase_add_loop_test(t, pages, 0, here);
	tcase_add_loop_test(t, memory_failures, 0, here);
	tcase_add_loop_test(t, waits_gates_and_calls, 0, here);
	tcase_add_loop_test(t, calls_submit, 0, here);
	tcase_add_loop_test(t, asking_is_enough, 0, here);
	tcase_add_loop_test(t, failures_are_told, 0, here);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	/* CUDA, which was asked for its devices, does not survive a fork. */
	for (unsigned i = 0; i < presents; i++)
		if (present[i]->type == KILN_DEVICE_CUDA)
			srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
