/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan/denormals.h"
#include "suite.h"

/*
 * What the Vulkan driver does to modules before a device gets them. The words
 * were put together by hand from the SPIR-V specification.
 */

#ifdef KILNI_WITH_VULKAN

#define WORDS(a) (sizeof(a) / sizeof((a)[0]))
#define HEADER 0x07230203, 0x00010500, 0, 9, 0
#define CAPABILITY_SHADER 0x00020011, 1
#define MEMORY_MODEL 0x0003000e, 5348, 3
#define ENTRY_POINT 0x0005000f, 5, 7, 0x6e69616d, 0
#define LOCAL_SIZE 0x00060010, 7, 17, 64, 1, 1
#define FLOAT32 0x00030016, 2, 32
#define FLOAT64 0x00030016, 3, 64
#define CAPABILITY_PRESERVE 0x00020011, 4464
#define PRESERVE(width) 0x00040010, 7, 4459, width

static const uint32_t module[] = { HEADER,      CAPABILITY_SHADER, MEMORY_MODEL,
				   ENTRY_POINT, LOCAL_SIZE,        FLOAT32,
				   FLOAT64 };

static void expect(unsigned widths, const uint32_t *want, size_t words)
{
	size_t bytes = 0;
	uint32_t *got = kilni_vk_preserve(module, sizeof(module), widths,
					  &bytes);

	ck_assert_ptr_nonnull(got);
	ck_assert_uint_eq(bytes, words * sizeof(uint32_t));
	ck_assert_mem_eq(got, want, bytes);
	free(got);
}

START_TEST(denormals_of_declared_widths)
{
	const uint32_t one[] = { HEADER,       CAPABILITY_PRESERVE,
				 CAPABILITY_SHADER, MEMORY_MODEL,
				 ENTRY_POINT,  PRESERVE(32),
				 LOCAL_SIZE,   FLOAT32,
				 FLOAT64 };
	const uint32_t both[] = { HEADER,       CAPABILITY_PRESERVE,
				  CAPABILITY_SHADER, MEMORY_MODEL,
				  ENTRY_POINT,  PRESERVE(32),
				  PRESERVE(64), LOCAL_SIZE,
				  FLOAT32,      FLOAT64 };

	expect(32, one, WORDS(one));
	/* There are no halves in the module. */
	expect(16 + 32, one, WORDS(one));
	expect(16 + 32 + 64, both, WORDS(both));
}
END_TEST

START_TEST(modules_that_stay)
{
	uint32_t bad[WORDS(module)];
	size_t bytes = 77;

	ck_assert_ptr_null(kilni_vk_preserve(module, sizeof(module), 0,
					     &bytes));
	/* It has no halves. */
	ck_assert_ptr_null(kilni_vk_preserve(module, sizeof(module), 16,
					     &bytes));
	/* Cut off within an instruction, without an entry, of no words. */
	ck_assert_ptr_null(kilni_vk_preserve(module, sizeof(module) - 4, 32,
					     &bytes));
	ck_assert_ptr_null(kilni_vk_preserve(module, 10 * 4, 32, &bytes));
	memcpy(bad, module, sizeof(module));
	bad[5] = 17;
	ck_assert_ptr_null(kilni_vk_preserve(bad, sizeof(bad), 32, &bytes));
	ck_assert_uint_eq(bytes, 77);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spirv");
	TCase *modules = tcase_create("modules");

	tcase_add_test(modules, denormals_of_declared_widths);
	tcase_add_test(modules, modules_that_stay);
	suite_add_tcase(suite, modules);
	return run_suite(suite);
}

#else

int main(void)
{
	printf("skipped: built without the Vulkan driver\n");
	return 77;
}

#endif
