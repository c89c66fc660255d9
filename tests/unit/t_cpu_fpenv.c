/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's floating-point mode is kept, and does not reach results. */
#include "tests/unit/drv_rig.h"

#include <fenv.h>
#include <pthread.h>

#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

/* Control bits and sticky flags. */
static unsigned mode(void)
{
	return _mm_getcsr();
}

/* Flush to zero, denormals are zero. */
static void flush_denormals(void)
{
	_mm_setcsr(_mm_getcsr() | 0x8040u);
}
#elif defined(__aarch64__)
static unsigned mode(void)
{
	uint64_t value;

	__asm__ volatile("mrs %0, fpcr" : "=r"(value));
	return (unsigned)value;
}

static void flush_denormals(void)
{
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24));
}
#else
static unsigned mode(void)
{
	return (unsigned)fegetround();
}

static void flush_denormals(void)
{
}
#endif

/* Results that a mode would change, by the bit. */
struct results {
	uint32_t third, tiny, sum;
};

static uint32_t bits(float value)
{
	uint32_t word;

	memcpy(&word, &value, sizeof(word));
	return word;
}

enum { COUNT = 64 };

/* One op of the lane's device: on the caller, or on a worker. */
static uint32_t one_op(struct lane *lane, bool on_caller, enum kilni_op op,
		       const float *a, const float *b)
{
	struct kilni_entry entry;
	struct kilni_report report;
	float out[COUNT];

	if (on_caller) {
		memset(&entry, 0, sizeof(entry));
		rig_set_ew(&entry, op, out, a, b, 0, COUNT);
		ck_assert_int_eq(lane->hw->driver->queue->run_inline(
					 lane->queue, &entry, &report),
				 KILN_OK);
	} else {
		lane_add_ew(lane, op, out, a, b, 0, COUNT);
		lane_finish(lane);
	}
	return bits(out[COUNT - 1]);
}

static struct results run_ops(struct lane *lane, bool on_caller)
{
	static float one[COUNT], three[COUNT], tiny[COUNT], half[COUNT];
	static bool filled;
	struct results r;

	if (!filled)
		for (int i = 0; i < COUNT; i++) {
			uint32_t denormal = 0x000116c2; /* about 1e-40 */

			one[i] = 1;
			three[i] = 3;
			half[i] = 0x1p-25f;
			memcpy(&tiny[i], &denormal, sizeof(denormal));
		}
	filled = true;
	r.third = one_op(lane, on_caller, KILNI_OP_DIV, one, three);
	r.tiny = one_op(lane, on_caller, KILNI_OP_MUL, tiny, one);
	r.sum = one_op(lane, on_caller, KILNI_OP_ADD, one, half);
	return r;
}

static void check_results(struct results r)
{
	ck_assert_uint_eq(r.third, 0x3eaaaaab);
	ck_assert_uint_eq(r.tiny, 0x000116c2);
	ck_assert_uint_eq(r.sum, 0x3f800000);
}

static void *mode_of_thread(void *arg)
{
	*(unsigned *)arg = mode();
	return NULL;
}

/* Everything, in the mode that the thread is in. */
static void whole_life(void)
{
	unsigned before = mode(), elsewhere;
	struct kilni_hw *hw = rig_open("cpu");
	pthread_t thread;
	struct lane lane;

	lane_open(&lane, hw);
	ck_assert_uint_eq(mode(), before);
	for (int on_caller = 0; on_caller < 2; on_caller++) {
		struct results r = run_ops(&lane, on_caller);

		ck_assert_uint_eq(mode(), before);
		check_results(r);
	}
	lane_close(&lane);
	rig_close(hw);
	ck_assert_uint_eq(mode(), before);
	pthread_create(&thread, NULL, mode_of_thread, &elsewhere);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(elsewhere, before);
}

START_TEST(default_mode)
{
	volatile double small = 1e-310;

	feclearexcept(FE_ALL_EXCEPT);
	whole_life();
	ck_assert(small / 2 != 0);
}
END_TEST

START_TEST(flushing_caller)
{
	flush_denormals();
	whole_life();
}
END_TEST

START_TEST(rounding_caller)
{
	fesetround(FE_UPWARD);
	whole_life();
	fesetround(FE_TOWARDZERO);
	whole_life();
}
END_TEST

#if defined(__x86_64__)
/* A caller that traps on everything is not trapped by a kernel. */
START_TEST(trapping_caller)
{
	feclearexcept(FE_ALL_EXCEPT);
	_mm_setcsr(_mm_getcsr() & ~0x1f80u);
	whole_life();
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("cpu_fpenv");
	TCase *t = tcase_create("fpenv");
	SRunner *runner;
	int failed;

	tcase_add_test(t, default_mode);
	tcase_add_test(t, flushing_caller);
	tcase_add_test(t, rounding_caller);
#if defined(__x86_64__)
	tcase_add_test(t, trapping_caller);
#endif
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
