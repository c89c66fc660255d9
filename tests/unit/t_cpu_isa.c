/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction-set level the CPU driver takes. */
#include "drivers/cpu/isa.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "drivers/driver.h"

/* A CPU that has everything, on a system that saves it. */
static const struct kilni_isa_facts rich = {
	.osxsave = true,
	.avx2 = true,
	.fma = true,
	.f16c = true,
	.avx512f = true,
	.avx512bw = true,
	.avx512vl = true,
	.avx512dq = true,
	.avx512_bf16 = true,
	.xcr0 = 0xe7,
};

START_TEST(system_decides_too)
{
	struct kilni_isa_facts f = rich;

	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_AVX512);
	f.xcr0 = 0x7;
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_AVX2);
	f.xcr0 = 0x3;
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_BASELINE);
	f.xcr0 = 0xe3;
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_BASELINE);
	f.xcr0 = 0xa7;
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_AVX2);
	f.xcr0 = 0xe7;
	f.osxsave = false;
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_BASELINE);
}
END_TEST

/* Every single feature that a level needs. */
START_TEST(each_feature_counts)
{
	struct {
		size_t offset;
		enum kilni_isa without;
	} rows[] = {
#define ROW(feature, level)                                                    \
	{ offsetof(struct kilni_isa_facts, feature), KILNI_ISA_##level }
		ROW(avx2, BASELINE),    ROW(fma, BASELINE),
		ROW(f16c, BASELINE),    ROW(avx512f, AVX2),
		ROW(avx512bw, AVX2),    ROW(avx512vl, AVX2),
		ROW(avx512dq, AVX2),    ROW(avx512_bf16, AVX512),
#undef ROW
	};

	for (size_t i = 0; i < KILNI_COUNTOF(rows); i++) {
		struct kilni_isa_facts f = rich;

		*(bool *)((char *)&f + rows[i].offset) = false;
		ck_assert_int_eq(kilni_isa_decide(&f), rows[i].without);
	}
}
END_TEST

START_TEST(assumed_facts)
{
	static const char *const bad[] = { "avx512", "avx512:", "avx9:0x7",
					   ":0x7", "avx2:0x7x", "" };
	struct kilni_isa_facts f = rich;

	ck_assert_int_eq(kilni_isa_assume("avx512:0x7", &f), KILN_OK);
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_AVX2);
	f = rich;
	ck_assert_int_eq(kilni_isa_assume("avx2:0xe7", &f), KILN_OK);
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_AVX2);
	f = rich;
	ck_assert_int_eq(kilni_isa_assume("baseline:0xe7", &f), KILN_OK);
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_BASELINE);
	f = rich;
	ck_assert_int_eq(kilni_isa_assume("avx512:3", &f), KILN_OK);
	ck_assert_int_eq(kilni_isa_decide(&f), KILNI_ISA_BASELINE);
	for (size_t i = 0; i < KILNI_COUNTOF(bad); i++) {
		f = rich;
		ck_assert_int_eq(kilni_isa_assume(bad[i], &f),
				 KILN_ERR_OPTION);
	}
}
END_TEST

/* Nothing in the environment raises the level above the machine's. */
START_TEST(never_more_than_there_is)
{
	struct kilni_isa_facts f;
	enum kilni_isa real, level;
	bool bf16;

	kilni_isa_detect(&f);
	real = kilni_isa_decide(&f);
	setenv("KILN_CPUID", "avx512:0xffffffffffffffff", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_OK);
	ck_assert_int_le(level, real);
	setenv("KILN_CPUID", "avx512:0x7", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_OK);
	ck_assert_int_le(level, KILNI_ISA_AVX2);
	ck_assert(!bf16);
	setenv("KILN_CPU_ISA", "avx512", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "\"avx512\""));
	setenv("KILN_CPU_ISA", "avx1024", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_ERR_OPTION);
	setenv("KILN_CPU_ISA", "baseline", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_OK);
	ck_assert_int_eq(level, KILNI_ISA_BASELINE);
	unsetenv("KILN_CPU_ISA");
	setenv("KILN_CPUID", "nonsense", 1);
	ck_assert_int_eq(kilni_isa_choose(&level, &bf16), KILN_ERR_OPTION);
	unsetenv("KILN_CPUID");
}
END_TEST

/* The same through the driver: an error, and then a device. */
START_TEST(open_refuses)
{
	extern const struct kilni_driver kilni_cpu_driver;
	const struct kilni_driver *cpu = &kilni_cpu_driver;
	struct kilni_hw *hw = NULL;

	setenv("KILN_CPUID", "avx512:0x3", 1);
	setenv("KILN_CPU_ISA", "avx2", 1);
	ck_assert_int_eq(cpu->driver->open(0, &hw), KILN_ERR_OPTION);
	ck_assert_ptr_null(hw);
	unsetenv("KILN_CPU_ISA");
	ck_assert_int_eq(cpu->driver->open(0, &hw), KILN_OK);
	ck_assert(!strncmp(cpu->device->explain(hw), "baseline; ", 10));
	cpu->device->close(hw);
	unsetenv("KILN_CPUID");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cpu_isa");
	TCase *t = tcase_create("isa");
	SRunner *runner;
	int failed;

	tcase_add_test(t, system_decides_too);
	tcase_add_test(t, each_feature_counts);
	tcase_add_test(t, assumed_facts);
	tcase_add_test(t, never_more_than_there_is);
	tcase_add_test(t, open_refuses);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
