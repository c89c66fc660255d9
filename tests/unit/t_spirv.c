/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/dtype.h>

#include "drivers/vulkan/denormals.h"
#include "drivers/vulkan/doubles.h"
#include "drivers/vulkan/subgroups.h"
#include "drivers/vulkan/trim.h"
#include "kernels/registry.h"
#include "kernels/vulkan/params.h"
#include "kernels/vulkan/spirv.h"
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

/* ---- doubles ---- */

#define CAPABILITY_FLOAT64 0x00020011, 10
#define CAPABILITY_PRESERVES 0x00020011, 4466
#define PRESERVES(width) 0x00040010, 7, 4461, width
#define VOID 0x00020013, 1
#define VECTOR_OF_DOUBLES 0x00040017, 4, 3, 2
#define FUNCTION_TYPE 0x00030021, 5, 1
#define DOUBLE_ONE 0x0005002b, 3, 6, 0, 0x3ff00000
#define FLOAT_ONE 0x0004002b, 2, 9, 0x3f800000
#define FUNCTION 0x00050036, 1, 7, 0, 5, 0x000200f8, 8
#define FUNCTION_END 0x000100fd, 0x00010038

static void expect_dropped(const uint32_t *words, size_t count,
			   const uint32_t *want, size_t wanted)
{
	uint32_t have[128];
	size_t bytes = count * sizeof(*words);

	ck_assert_uint_le(count, WORDS(have));
	memcpy(have, words, bytes);
	ck_assert_int_eq(kilni_vk_drop_doubles(have, &bytes), KILN_OK);
	ck_assert_uint_eq(bytes, wanted * sizeof(*want));
	ck_assert_mem_eq(have, want, bytes);
}

static void expect_kept(const uint32_t *words, size_t count)
{
	uint32_t have[128];
	size_t bytes = count * sizeof(*words);

	ck_assert_uint_le(count, WORDS(have));
	memcpy(have, words, bytes);
	ck_assert_int_eq(kilni_vk_drop_doubles(have, &bytes),
			 KILN_ERR_UNSUPPORTED);
	ck_assert_uint_eq(bytes, count * sizeof(*words));
	ck_assert_mem_eq(have, words, bytes);
}

#define BEFORE                                                                 \
	HEADER, CAPABILITY_PRESERVES, CAPABILITY_SHADER, CAPABILITY_FLOAT64,   \
		MEMORY_MODEL, ENTRY_POINT, PRESERVES(64), PRESERVES(32),       \
		LOCAL_SIZE, VOID, FLOAT32, FLOAT64, VECTOR_OF_DOUBLES,         \
		FUNCTION_TYPE, DOUBLE_ONE, FLOAT_ONE, FUNCTION

START_TEST(doubles_that_nothing_needs)
{
	/* 9 + 9; its literals are no ids. */
	const uint32_t words[] = { BEFORE, 0x00050081, 2, 10, 9, 9,
				   FUNCTION_END };
	const uint32_t want[] = { HEADER,      CAPABILITY_PRESERVES,
				  CAPABILITY_SHADER, MEMORY_MODEL,
				  ENTRY_POINT, PRESERVES(32),
				  LOCAL_SIZE,  VOID,
				  FLOAT32,     FUNCTION_TYPE,
				  FLOAT_ONE,   FUNCTION,
				  0x00050081,  2,
				  10,          9,
				  9,           FUNCTION_END };

	expect_dropped(words, WORDS(words), want, WORDS(want));
	/* Nothing of them is in it. */
	expect_dropped(want, WORDS(want), want, WORDS(want));
}
END_TEST

START_TEST(doubles_that_are_needed)
{
	const uint32_t widened[] = { BEFORE, 0x00040073, 3, 10, 9,
				     FUNCTION_END };
	const uint32_t narrowed[] = { BEFORE, 0x00040073, 2, 10, 6,
				      FUNCTION_END };
	const uint32_t vector[] = { BEFORE, 0x00050050, 4, 10, 6, 6,
				    FUNCTION_END };
	const uint32_t stored[] = { BEFORE, 0x0003003e, 10, 6, FUNCTION_END };
	const uint32_t returned[] = { BEFORE, 0x000200fe, 6, 0x00010038 };

	expect_kept(widened, WORDS(widened));
	expect_kept(narrowed, WORDS(narrowed));
	expect_kept(vector, WORDS(vector));
	expect_kept(stored, WORDS(stored));
	expect_kept(returned, WORDS(returned));
}
END_TEST

/* Ops of floats that divide, take roots or draw: f64 is in their kernels. */
static bool float_op_needs_doubles(unsigned op, bool half)
{
	switch (op) {
	case KILNI_OP_DIV:
	case KILNI_OP_POWF:
	case KILNI_OP_POWI:
	case KILNI_OP_GELU_BACKWARD:
	case KILNI_OP_LOG_SIGMOID_BACKWARD:
	case KILNI_OP_RECIP:
	case KILNI_OP_SQRT:
	case KILNI_OP_LOG:
	case KILNI_OP_LOG1P:
	case KILNI_OP_TAN:
	case KILNI_OP_TANH:
	case KILNI_OP_ERF:
	case KILNI_OP_GELU:
	case KILNI_OP_SIGMOID:
	case KILNI_OP_LOG_SIGMOID:
	case KILNI_OP_RANDOM:
		return true;
	default:
		/* Integers are counted up; a half is rounded by way of f64. */
		return half && op == KILNI_OP_ARANGE;
	}
}

static bool needs_doubles(unsigned dtype, unsigned op, unsigned to)
{
	bool half = dtype == KILN_F16 || dtype == KILN_BF16;

	if (dtype == KILN_F64 || (op == KILNI_OP_CAST && to == KILN_F64))
		return true;
	if (half || dtype == KILN_F32)
		return float_op_needs_doubles(op, half);
	/* Rounded once, from f64. */
	if (op == KILNI_OP_CAST)
		return to == KILN_F16 || to == KILN_BF16;
	return op == KILNI_OP_RANDOM;
}

static void check_op(const struct kilni_spirv *spirv, unsigned dtype,
		     unsigned op, unsigned to)
{
	const uint16_t constant[4] = { (uint16_t)op, (uint16_t)to, KILN_I32,
				       KILN_BOOL };
	size_t bytes = 0;
	uint32_t *words = kilni_vk_trim(spirv->words, spirv->bytes, constant,
					4, &bytes);
	enum kiln_status status;

	ck_assert_ptr_nonnull(words);
	status = kilni_vk_drop_doubles(words, &bytes);
	if ((status != KILN_OK) != needs_doubles(dtype, op, to))
		ck_abort_msg("%s: %s to %s: %s", spirv->name,
			     kilni_ops[op].name,
			     kiln_dtype_name((enum kiln_dtype)to),
			     kiln_status_name(status));
	for (size_t at = 5; status == KILN_OK && at < bytes / 4;
	     at += words[at] >> 16)
		if ((words[at] == 0x00020011 && words[at + 1] == 10) ||
		    (words[at] == 0x00030016 && words[at + 2] == 64) ||
		    (words[at] == 0x00040010 && words[at + 3] == 64))
			ck_abort_msg("%s: %s declares doubles", spirv->name,
				     kilni_ops[op].name);
	free(words);
}

static bool has_case(unsigned op, unsigned dtype)
{
	enum kilni_op_form form = kilni_ops[op].form;

	if (op == KILNI_OP_CAST || op == KILNI_OP_RANDOM ||
	    op == KILNI_OP_ARANGE)
		return true;
	return form <= KILNI_FORM_EWX &&
	       kilni_ops[op].classes >>
			       kiln_dtype_class((enum kiln_dtype)dtype) & 1;
}

/* Which elementwise kernels a device without f64 has. */
START_TEST(kernels_without_doubles)
{
	unsigned dtype, form, tried = 0;

	for (unsigned i = 0; i < kilni_spirv_count; i++) {
		const struct kilni_spirv *spirv = &kilni_spirv_modules[i];

		if (sscanf(spirv->name, "ew%u_%u", &dtype, &form) != 2)
			continue;
		for (unsigned op = 0; op < KILNI_OP_COUNT; op++)
			if (has_case(op, dtype) && op != KILNI_OP_CAST) {
				check_op(spirv, dtype, op, dtype);
				tried++;
			}
		for (unsigned to = 0; to < KILN_DTYPE_COUNT; to++)
			check_op(spirv, dtype, KILNI_OP_CAST, to);
	}
	ck_assert_uint_gt(tried, 14 * 3 * 10);
}
END_TEST

/* The others that declare doubles are those that sum, or are of f64. */
START_TEST(other_kernels_with_doubles)
{
	static const char *const sums[] = { "scatter1_0", "scatter3_0",
					    "scatter4_0", "reduce1_0",
					    "reduce3_0",  "reduce4_0",
					    "softmax1_0", "softmax3_0",
					    "softmax4_0" };
	unsigned found = 0;

	for (unsigned i = 0; i < kilni_spirv_count; i++) {
		const struct kilni_spirv *spirv = &kilni_spirv_modules[i];
		bool declares = false, may = strstr(spirv->name, "0_") &&
					     !strstr(spirv->name, "10_");

		if (!strncmp(spirv->name, "ew", 2))
			continue;
		for (size_t at = 5; at < spirv->bytes / 4;
		     at += spirv->words[at] >> 16)
			declares |= spirv->words[at] == 0x00020011 &&
				    spirv->words[at + 1] == 10;
		for (unsigned k = 0; k < WORDS(sums); k++)
			may |= !strcmp(spirv->name, sums[k]);
		ck_assert_msg(may || !declares, "%s", spirv->name);
		found += declares;
	}
	ck_assert_uint_ge(found, WORDS(sums));
}
END_TEST

/* ---- subgroups ---- */

static void expect_without(const uint32_t *have, size_t words,
			   const uint32_t *want, size_t want_words)
{
	uint32_t *word = malloc(words * sizeof(*word));
	size_t bytes = words * sizeof(*word);

	ck_assert_ptr_nonnull(word);
	memcpy(word, have, bytes);
	ck_assert(kilni_vk_drop_subgroups(word, &bytes));
	ck_assert_uint_eq(bytes, want_words * sizeof(*word));
	ck_assert_mem_eq(word, want, bytes);
	free(word);
}

#define WITH_PLACES(places) 0x0005000f + 0x10000 * (places), 5, 7, 0x6e69616d, 0
#define SIZE_IS(id) 0x00040047, id, 11, 36
#define BUILTIN_GROUP(id) 0x00040047, id, 11, 26
#define INPUT(id) 0x0004003b, 4, id, 1

/* Capabilities, the variable, what tells of it; the others stay. */
START_TEST(subgroups_that_nothing_needs)
{
	const uint32_t have[] = { HEADER, CAPABILITY_SHADER, 0x00020011, 61,
				  0x00020011, 65, MEMORY_MODEL, WITH_PLACES(2),
				  8, 6, LOCAL_SIZE, SIZE_IS(8),
				  BUILTIN_GROUP(6), INPUT(8), INPUT(6) };
	const uint32_t want[] = { HEADER, CAPABILITY_SHADER, MEMORY_MODEL,
				  WITH_PLACES(1), 6, LOCAL_SIZE,
				  BUILTIN_GROUP(6), INPUT(6) };

	expect_without(have, WORDS(have), want, WORDS(want));
	expect_without(want, WORDS(want), want, WORDS(want));
}
END_TEST

START_TEST(subgroups_that_are_needed)
{
	/* A shuffle, and a look at the size. */
	uint32_t shuffles[] = { HEADER, CAPABILITY_SHADER, 0x00020011, 65,
				0x0006015a, 2, 8, 3, 4, 5 };
	uint32_t looks[] = { HEADER, CAPABILITY_SHADER, SIZE_IS(8), INPUT(8),
			     0x0004003d, 2, 5, 8 };
	size_t bytes = sizeof(shuffles);

	ck_assert(!kilni_vk_drop_subgroups(shuffles, &bytes));
	ck_assert_uint_eq(bytes, sizeof(shuffles));
	bytes = sizeof(looks);
	ck_assert(!kilni_vk_drop_subgroups(looks, &bytes));
	ck_assert_uint_eq(bytes, sizeof(looks));
}
END_TEST

static void check_ways(const struct kilni_spirv *spirv, uint16_t mode)
{
	bool groups = mode != KILNI_VK_BY_THREADS &&
		      mode != KILNI_VK_MERGE_THREADS;

	for (uint16_t join = 0; join < 2; join++) {
		const uint16_t constant[4] = { KILNI_OP_SUM, mode, join, 2 };
		bool needs = (groups && join) || mode == KILNI_VK_BY_SUBGROUPS;
		size_t bytes = 0;
		uint32_t *words = kilni_vk_trim(spirv->words, spirv->bytes,
						constant, 4, &bytes);

		ck_assert_ptr_nonnull(words);
		ck_assert_msg(kilni_vk_drop_subgroups(words, &bytes) == !needs,
			      "%s, way %d, join %d", spirv->name, mode, join);
		free(words);
	}
}

/* Each way of reducing that a device without them takes can do without. */
START_TEST(reductions_without_subgroups)
{
	unsigned tried = 0;

	for (unsigned i = 0; i < kilni_spirv_count; i++) {
		const struct kilni_spirv *spirv = &kilni_spirv_modules[i];

		if (strncmp(spirv->name, "reduce", 6))
			continue;
		for (uint16_t way = 0; way < KILNI_VK_BY_WORDS; way++)
			check_ways(spirv, way);
		tried++;
	}
	ck_assert_uint_eq(tried, 12 * 4 + 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spirv");
	TCase *modules = tcase_create("modules");

	tcase_add_test(modules, denormals_of_declared_widths);
	tcase_add_test(modules, modules_that_stay);
	tcase_add_test(modules, doubles_that_nothing_needs);
	tcase_add_test(modules, doubles_that_are_needed);
	tcase_add_test(modules, kernels_without_doubles);
	tcase_add_test(modules, other_kernels_with_doubles);
	tcase_add_test(modules, subgroups_that_nothing_needs);
	tcase_add_test(modules, subgroups_that_are_needed);
	tcase_add_test(modules, reductions_without_subgroups);
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
