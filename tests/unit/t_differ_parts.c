/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of differ: rows of the registry, cases, and what is compared. */
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/number.h"
#include "tests/differential/judge.h"
#include "tests/differential/shapes.h"
#include "tests/differential/values.h"

#define NUMBERS 300

/* ---- Rows ---- */

static const char *row_of(const char *function)
{
	const struct diff_op *op = diff_op_of(function);

	return op ? op->name : "";
}

START_TEST(rows)
{
	size_t count, i;
	const struct conf_method *methods = conf_methods(&count);

	for (i = 0; i < count; i++) {
		if (diff_method_compares(&methods[i]))
			ck_assert_msg(diff_op_of(methods[i].function) != NULL,
				      "%s", methods[i].name);
	}
	ck_assert_str_eq(row_of("kiln_max_dim_with_indices"), "max");
	ck_assert_str_eq(row_of("kiln_max_abs_dim"), "max_abs");
	ck_assert_str_eq(row_of("kiln_scatter_add"), "scatter");
	ck_assert_str_eq(row_of("kiln_select_assign"), "select_assign");
	ck_assert_str_eq(row_of("kiln_select_add"), "select_assign");
	ck_assert_str_eq(row_of("kiln_zeros"), "full");
	ck_assert_str_eq(row_of("kiln_summary"), "");
	ck_assert_str_eq(row_of("other_sum"), "");
}
END_TEST

/* ---- Cases ---- */

static const struct diff_scope scope = { .seed = 3, .dtypes = 0xffff };

static void make(struct diff_case *c, const char *method,
		 enum kiln_dtype dtype, unsigned number)
{
	ck_assert(diff_case_make(c, &scope, conf_method_find(method), dtype,
				 number));
}

START_TEST(cases_repeat)
{
	struct diff_scope other = scope;
	struct diff_case a, b;
	unsigned char x[64], y[64];

	make(&a, "float_scatter", KILN_F16, 7);
	make(&b, "float_scatter", KILN_F16, 7);
	ck_assert_mem_eq(&a, &b, sizeof(a));
	make(&b, "float_scatter", KILN_F16, 8);
	ck_assert(a.seed != b.seed);
	other.seed = 4;
	ck_assert(diff_case_make(&b, &other, a.method, KILN_F16, 7));
	ck_assert(a.seed != b.seed);
	diff_values_fill(x, &a.operands[0], 32, 1);
	diff_values_fill(y, &a.operands[0], 32, 1);
	ck_assert_mem_eq(x, y, sizeof(x));
	diff_values_fill(y, &a.operands[0], 32, 2);
	ck_assert(memcmp(x, y, sizeof(x)) != 0);
}
END_TEST

/* What has to occur among many cases does. */
START_TEST(cases_vary)
{
	unsigned layouts = 0, places = 0, stray = 0, same = 0, empty = 0;
	struct diff_case c;
	unsigned n;

	for (n = 0; n < NUMBERS; n++) {
		make(&c, "float_add", KILN_F32, n);
		layouts |= 1u << c.operands[1].layout;
		places |= 1u << (c.place + 1);
		same += c.operands[1].same;
		empty += diff_count(c.operands[0].rank,
				    c.operands[0].shape) == 0;
		make(&c, "int_gather", KILN_I8, n);
		stray += c.operands[1].stray > 0;
	}
	ck_assert_uint_eq(layouts, (1u << DIFF_LAYOUT_COUNT) - 1);
	ck_assert_uint_eq(places, 7);
	ck_assert_uint_gt(same, 0);
	ck_assert_uint_gt(empty, 0);
	ck_assert_uint_gt(stray, 0);
	ck_assert_uint_lt(stray, NUMBERS / 3);
}
END_TEST

START_TEST(values_vary)
{
	struct diff_operand o = { .dtype = KILN_F32, .values = DIFF_ANY };
	unsigned nan = 0, inf = 0, zero = 0, minus = 0, subnormal = 0, i;
	float x[2000];

	diff_values_fill(x, &o, 2000, 9);
	for (i = 0; i < 2000; i++) {
		nan += isnan(x[i]) != 0;
		inf += isinf(x[i]) != 0;
		zero += x[i] == 0 && !signbit(x[i]);
		minus += x[i] == 0 && signbit(x[i]);
		subnormal += fpclassify(x[i]) == FP_SUBNORMAL;
	}
	ck_assert(nan && inf && zero && minus && subnormal);
	ck_assert_uint_lt(nan + inf, 1000);
}
END_TEST

/* Where f32 is flushed; where there are steps on the way small ones, too. */
START_TEST(values_are_normal)
{
	struct diff_scope flushed = scope;
	struct diff_case c;
	float x[2000];
	unsigned i, n, small = 0;

	flushed.flushed = 1u << KILN_F32;
	for (n = 0; n < 20; n++) {
		ck_assert(diff_case_make(&c, &flushed,
					 conf_method_find("float_sub"),
					 KILN_F32, n));
		diff_values_fill(x, &c.operands[0], 2000, n);
		for (i = 0; i < 2000; i++) {
			ck_assert(fpclassify(x[i]) != FP_SUBNORMAL);
			small += x[i] == 0x1p-126f;
		}
		ck_assert(diff_case_make(&c, &flushed,
					 conf_method_find("float_powf"),
					 KILN_F32, n));
		diff_values_fill(x, &c.operands[0], 2000, n);
		for (i = 0; i < 2000; i++)
			ck_assert(!(x[i] != 0 && fabsf(x[i]) < 0x1p-60f));
	}
	ck_assert_uint_gt(small, 0);
}
END_TEST

/* ---- What is compared ---- */

struct judged {
	struct diff_case c;
	struct diff_outcome want, got;
	double magnitude;
	unsigned char elements[2][CONF_ELEMENT_MAX];
};

static void outcome_of(struct diff_outcome *o, enum kiln_dtype dtype,
		       void *element)
{
	memset(o, 0, sizeof(*o));
	o->result_count = 1;
	o->results[0] = (struct diff_result){
		.dtype = dtype,
		.rank = 1,
		.shape = { 1 },
		.bytes = kiln_dtype_size_bytes(dtype),
		.data = element,
	};
}

/* One element of a method's result on both sides. */
static void judged(struct judged *j, const char *method,
		   enum kiln_dtype dtype, double want, double got)
{
	memset(j, 0, sizeof(*j));
	make(&j->c, method, dtype, 1);
	conf_float_encode(j->elements[0], dtype, want);
	conf_float_encode(j->elements[1], dtype, got);
	outcome_of(&j->want, dtype, j->elements[0]);
	outcome_of(&j->got, dtype, j->elements[1]);
}

static bool agree(struct judged *j, bool exact)
{
	struct conf_text text;

	conf_text_clear(&text);
	return diff_judge(&j->c, exact, &j->want, &j->got, &text) ==
	       DIFF_AGREE;
}

static bool agrees(const char *method, enum kiln_dtype dtype, double want,
		   double got)
{
	struct judged j;

	judged(&j, method, dtype, want, got);
	return agree(&j, false);
}

START_TEST(units_in_the_last_place)
{
	struct judged j;

	/* exp: 1.5 units on each side, rounded up, and one at a binade. */
	ck_assert(agrees("float_exp", KILN_F32, 1, 1 + 4 * 0x1p-23));
	ck_assert(!agrees("float_exp", KILN_F32, 1, 1 + 5 * 0x1p-23));
	ck_assert(agrees("float_exp", KILN_F64, 1, 1 + 4 * 0x1p-52));
	ck_assert(!agrees("float_exp", KILN_F64, 1, 1 + 5 * 0x1p-52));
	ck_assert(agrees("float_exp", KILN_F16, 1, 1 + 0x1p-10));
	ck_assert(!agrees("float_exp", KILN_F16, 1, 1 + 0x1p-9));
	ck_assert(agrees("float_exp", KILN_F16, 65504, (double)INFINITY));
	ck_assert(!agrees("float_add", KILN_F32, 1, 1 + 0x1p-23));
	judged(&j, "float_exp", KILN_F32, 1, 1 + 0x1p-23);
	ck_assert(!agree(&j, true));
}
END_TEST

START_TEST(special_values)
{
	double nan = (double)NAN, inf = (double)INFINITY;

	ck_assert(agrees("float_add", KILN_F32, nan, -nan));
	ck_assert(!agrees("float_exp", KILN_F32, nan, 1));
	ck_assert(!agrees("float_exp", KILN_F32, 1, nan));
	ck_assert(!agrees("float_exp", KILN_F32, inf, -inf));
	ck_assert(!agrees("float_add", KILN_F32, 0.0, -0.0));
	ck_assert(agrees("float_max", KILN_F32, 0.0, -0.0));
	ck_assert(!agrees("float_max", KILN_F32, 1, 1 + 0x1p-23));
}
END_TEST

static bool agrees_flushed(const char *method, enum kiln_dtype dtype,
			   double want, double got)
{
	struct judged j;

	judged(&j, method, dtype, want, got);
	j.c.flushed = 1u << KILN_F32;
	return agree(&j, false);
}

START_TEST(denormals)
{
	const double least = 0x1p-126;

	ck_assert(!agrees("float_add", KILN_F32, least / 2, 0));
	ck_assert(agrees_flushed("float_add", KILN_F32, least / 2, 0));
	ck_assert(agrees_flushed("float_add", KILN_F32, least, -0.0));
	ck_assert(agrees_flushed("float_add", KILN_F32, 0, -least / 4));
	ck_assert(!agrees_flushed("float_add", KILN_F32, 2 * least, 0));
	ck_assert(!agrees_flushed("float_add", KILN_F32, 2 * least, least));
	ck_assert(!agrees_flushed("float_add", KILN_F32, 0, (double)NAN));
	/* Signs of zeros, but for those that come by way of something. */
	ck_assert(!agrees_flushed("float_add", KILN_F32, 0, -0.0));
	ck_assert(agrees_flushed("log_sigmoid", KILN_F16, -0.0, 0));
	ck_assert(!agrees_flushed("float_add", KILN_F16, -0.0, 0));
	ck_assert(!agrees_flushed("float_add", KILN_F16, 0x1p-24, 0));
}
END_TEST

/* 1024 summands: 2 sides, 2 units, 1 + log2, of the sum of magnitudes. */
START_TEST(sums)
{
	double unit = 2 * 2 * (1 + log2(1024)) * 0x1p-23;
	struct judged j;

	judged(&j, "float_sum", KILN_F32, 0, 100 * unit * 0.99);
	j.c.summands = 1024;
	j.magnitude = 100;
	j.want.magnitudes = &j.magnitude;
	j.want.magnitude_count = 1;
	ck_assert(agree(&j, false));
	j.magnitude = 98;
	ck_assert(!agree(&j, false));
	/* The bound of a product grows with their number. */
	judged(&j, "float_matmul", KILN_F32, 0, 2 * 50 * 0x1p-23 * 0.99);
	j.c.summands = 50;
	j.magnitude = 1;
	j.want.magnitudes = &j.magnitude;
	j.want.magnitude_count = 1;
	ck_assert(agree(&j, false));
	j.c.summands = 49;
	ck_assert(!agree(&j, false));
	/* Subnormal products are rounded, each of them. */
	judged(&j, "float_matmul", KILN_F32, 0, 100 * 0x1p-149);
	j.c.summands = 50;
	ck_assert(agree(&j, false));
	j.c.summands = 49;
	ck_assert(!agree(&j, false));
	judged(&j, "float_matmul", KILN_F32, 0, 1);
	j.want.magnitudes = &j.magnitude;
	j.want.magnitude_count = 1;
	/* Where the order decides whether it overflows, nothing is said. */
	j.magnitude = 3e38;
	ck_assert(agree(&j, false));
	judged(&j, "float_sum", KILN_F32, 1, (double)NAN);
	j.magnitude = 3;
	j.want.magnitudes = &j.magnitude;
	j.want.magnitude_count = 1;
	ck_assert(!agree(&j, false));
}
END_TEST

START_TEST(statuses_and_forms)
{
	struct conf_text text;
	struct judged j;

	conf_text_clear(&text);
	judged(&j, "float_add", KILN_F32, 1, 1);
	ck_assert(agree(&j, true));
	j.got.results[0].rank = 2;
	ck_assert(!agree(&j, true));
	judged(&j, "float_add", KILN_F32, 1, 1);
	j.got.results[0].dtype = KILN_I32;
	ck_assert(!agree(&j, true));
	judged(&j, "float_add", KILN_F32, 1, 1);
	j.want.read = KILN_ERR_INDEX;
	ck_assert_int_eq(diff_judge(&j.c, false, &j.want, &j.got, &text),
			 DIFF_DIFFER);
	j.got.call = KILN_ERR_INDEX;
	ck_assert_int_eq(diff_judge(&j.c, false, &j.want, &j.got, &text),
			 DIFF_DIFFER);
	j.got.call = KILN_OK;
	j.got.read = KILN_ERR_INDEX;
	ck_assert_int_eq(diff_judge(&j.c, false, &j.want, &j.got, &text),
			 DIFF_AGREE_REFUSED);
	j.got.read = KILN_ERR_OUT_OF_MEMORY;
	j.c.large = true;
	ck_assert_int_eq(diff_judge(&j.c, false, &j.want, &j.got, &text),
			 DIFF_NO_MEMORY);
}
END_TEST

static TCase *all(void)
{
	TCase *tcase = tcase_create("all");

	tcase_add_test(tcase, rows);
	tcase_add_test(tcase, cases_repeat);
	tcase_add_test(tcase, cases_vary);
	tcase_add_test(tcase, values_vary);
	tcase_add_test(tcase, units_in_the_last_place);
	tcase_add_test(tcase, values_are_normal);
	tcase_add_test(tcase, special_values);
	tcase_add_test(tcase, denormals);
	tcase_add_test(tcase, sums);
	tcase_add_test(tcase, statuses_and_forms);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("differ parts");

	suite_add_tcase(suite, all());
	return run_suite(suite);
}
