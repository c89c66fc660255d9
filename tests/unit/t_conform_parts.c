/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the conformance runner: numbers, values, cases, comparison. */
#include "suite.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/conformance/attr.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/expect.h"
#include "tests/conformance/method.h"
#include "tests/conformance/number.h"
#include "tests/conformance/value.h"
#include "tests/conformance/vector.h"

/* ---- Numbers ---- */

static unsigned encode(enum kiln_dtype dtype, double x)
{
	uint16_t bits;

	conf_float_encode(&bits, dtype, x);
	return bits;
}

static double decode(enum kiln_dtype dtype, unsigned bits)
{
	uint16_t element = (uint16_t)bits;

	return conf_float_decode(&element, dtype);
}

/* Every value of a 16-bit float survives, and halfway goes to the even one. */
static void walk16(enum kiln_dtype dtype, unsigned infinity)
{
	unsigned bits;

	for (bits = 0; bits < infinity; bits++) {
		double x = decode(dtype, bits), next = decode(dtype, bits + 1);
		double middle = x + (next - x) / 2;
		unsigned even = bits + (bits & 1);

		ck_assert_uint_eq(encode(dtype, x), bits);
		ck_assert_uint_eq(encode(dtype, -x), bits | 0x8000);
		if (bits + 1 == infinity)
			break;
		ck_assert_uint_eq(encode(dtype, middle), even);
		ck_assert_uint_eq(encode(dtype, nextafter(middle, 0)), bits);
		ck_assert_uint_eq(encode(dtype, nextafter(middle, next)),
				  bits + 1);
	}
	ck_assert_uint_eq(encode(dtype, (double)INFINITY), infinity);
	ck_assert_uint_eq(encode(dtype, -1e300), infinity | 0x8000);
	ck_assert(isnan(decode(dtype, encode(dtype, (double)NAN))));
	ck_assert(isinf(decode(dtype, infinity)));
}

START_TEST(every_half)
{
	walk16(KILN_F16, 0x7c00);
	ck_assert(decode(KILN_F16, 1) == ldexp(1, -24));
	ck_assert(decode(KILN_F16, 0x7bff) == 65504);
	ck_assert_uint_eq(encode(KILN_F16, 65519.99), 0x7bff);
	ck_assert_uint_eq(encode(KILN_F16, 65520), 0x7c00);
	ck_assert_uint_eq(encode(KILN_F16, 5e-324), 0);
}
END_TEST

START_TEST(every_brain)
{
	float f = 1.0f;
	uint32_t bits;

	walk16(KILN_BF16, 0x7f80);
	for (f = 1e-40f; f < 1e38f; f *= 7.3f) {
		memcpy(&bits, &f, sizeof(bits));
		bits &= 0xffff0000;
		memcpy(&f, &bits, sizeof(f));
		ck_assert_uint_eq(encode(KILN_BF16, (double)f), bits >> 16);
	}
}
END_TEST

/* The runner's own rounding must not hang on the mode of the thread. */
START_TEST(rounding_mode)
{
	fesetround(FE_UPWARD);
	ck_assert_uint_eq(encode(KILN_F16, 1 + ldexp(1, -11)), 0x3c00);
	fesetround(FE_TONEAREST);
}
END_TEST

static bool int_passes(enum kiln_dtype dtype, const char *text)
{
	unsigned char element[CONF_ELEMENT_MAX] = { 0 };
	struct conf_text back;
	struct conf_int x;

	if (!conf_int_parse(&x, text) || !conf_int_encode(element, dtype, x))
		return false;
	conf_text_clear(&back);
	conf_element_print(&back, dtype, element);
	ck_assert_str_eq(back.s, text);
	return true;
}

START_TEST(int_limits)
{
	ck_assert(int_passes(KILN_I8, "-128"));
	ck_assert(!int_passes(KILN_I8, "-129"));
	ck_assert(int_passes(KILN_I8, "127"));
	ck_assert(!int_passes(KILN_I8, "128"));
	ck_assert(int_passes(KILN_U8, "255"));
	ck_assert(!int_passes(KILN_U8, "256"));
	ck_assert(!int_passes(KILN_U8, "-1"));
	ck_assert(int_passes(KILN_I16, "-32768"));
	ck_assert(int_passes(KILN_I32, "-2147483648"));
	ck_assert(!int_passes(KILN_U32, "4294967296"));
	ck_assert(int_passes(KILN_I64, "-9223372036854775808"));
	ck_assert(int_passes(KILN_I64, "9223372036854775807"));
	ck_assert(!int_passes(KILN_I64, "9223372036854775808"));
	ck_assert(int_passes(KILN_U64, "18446744073709551615"));
	ck_assert(!int_passes(KILN_U64, "18446744073709551616"));
	ck_assert(!int_passes(KILN_I64, "-9223372036854775809"));
}
END_TEST

START_TEST(int_texts)
{
	static const char *const bad[] = { "", "-", "+1", " 1", "1 ", "1.0",
					   "0x1", "1e3", "--1", "nan" };
	struct conf_int x;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(!conf_int_parse(&x, bad[i]), "\"%s\"", bad[i]);
}
END_TEST

/* ---- Values ---- */

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);

	ck_assert_msg(json != NULL, "%s: %s", text, error.text);
	return json;
}

static enum conf_load load(struct conf_value *value, const char *text)
{
	struct conf_text why;
	json_t *json = parse(text);
	enum conf_load loaded;

	conf_text_clear(&why);
	loaded = conf_value_load(value, json, &why);
	ck_assert((loaded == CONF_LOADED) == (why.length == 0));
	json_decref(json);
	return loaded;
}

START_TEST(value_floats)
{
	struct conf_value v;
	float f[5];

	ck_assert(load(&v, "{\"dtype\":\"f32\",\"shape\":[5],\"data\":[1,"
			   "\"nan\",\"-inf\",\"-0\",0.1]}") == CONF_LOADED);
	ck_assert_uint_eq(v.bytes, sizeof(f));
	memcpy(f, v.data, sizeof(f));
	ck_assert(f[0] == 1 && isnan(f[1]) && isinf(f[2]) && f[2] < 0);
	ck_assert(f[3] == 0 && signbit(f[3]));
	ck_assert(f[4] == 0.1f && v.floats[4] == 0.1);
	conf_value_clear(&v);
}
END_TEST

START_TEST(value_ints_and_bools)
{
	struct conf_value v;
	uint32_t b[2];
	int64_t i[2];

	ck_assert(load(&v, "{\"dtype\":\"i64\",\"shape\":[2,1],\"data\":["
			   "\"-9223372036854775808\",-3]}") == CONF_LOADED);
	memcpy(i, v.data, sizeof(i));
	ck_assert(i[0] == INT64_MIN && i[1] == -3 && v.rank == 2);
	conf_value_clear(&v);
	ck_assert(load(&v, "{\"dtype\":\"bool(u32)\",\"shape\":[2],\"data\":["
			   "true,false]}") == CONF_LOADED);
	memcpy(b, v.data, sizeof(b));
	ck_assert(b[0] == 1 && b[1] == 0 && v.bytes == 8);
	conf_value_clear(&v);
}
END_TEST

START_TEST(value_malformed)
{
	static const char *const bad[] = {
		"3",
		"{}",
		"{\"dtype\":\"f31\",\"shape\":[1],\"data\":[1]}",
		"{\"dtype\":1,\"shape\":[1],\"data\":[1]}",
		"{\"dtype\":\"f32\",\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[],\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1,1,1],"
		"\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[-1],\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[1.0],\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[2],\"data\":[1]}",
		"{\"dtype\":\"f32\",\"shape\":[1],\"data\":[1,2]}",
		"{\"dtype\":\"f32\",\"shape\":[4294967296,4294967296],"
		"\"data\":[]}",
		"{\"dtype\":\"f32\",\"shape\":[1],\"data\":[\"1\"]}",
		"{\"dtype\":\"f32\",\"shape\":[1],\"data\":[true]}",
		"{\"dtype\":\"f32\",\"shape\":[1],\"data\":[null]}",
		"{\"dtype\":\"u8\",\"shape\":[1],\"data\":[256]}",
		"{\"dtype\":\"u8\",\"shape\":[1],\"data\":[1.0]}",
		"{\"dtype\":\"u8\",\"shape\":[1],\"data\":[true]}",
		"{\"dtype\":\"bool\",\"shape\":[1],\"data\":[1]}",
	};
	struct conf_value v;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(load(&v, bad[i]) == CONF_MALFORMED, "%s", bad[i]);
	ck_assert(load(&v, "{\"dtype\":\"q\"}") == CONF_UNKNOWN);
}
END_TEST

/* ---- Attributes ---- */

static bool attr_loads(struct conf_attr *attr, enum conf_attr_kind kind,
		       const char *text)
{
	const struct conf_attr_spec spec = { "a", kind };
	json_t *attrs = json_object(), *value = parse(text);
	enum conf_load loaded;
	struct conf_text why;

	conf_text_clear(&why);
	json_object_set_new(attrs, "a", value);
	loaded = conf_attr_load(attr, &spec, attrs, &why);
	json_decref(attrs);
	return loaded == CONF_LOADED;
}

START_TEST(attr_scalars)
{
	struct conf_attr a;

	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR, "-3"));
	ck_assert(a.value.scalar.kind == KILN_SCALAR_INT &&
		  a.value.scalar.value.i == -3);
	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR, "-3.5"));
	ck_assert(a.value.scalar.kind == KILN_SCALAR_FLOAT &&
		  a.value.scalar.value.f == -3.5);
	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR, "true"));
	ck_assert(a.value.scalar.kind == KILN_SCALAR_BOOL &&
		  a.value.scalar.value.b);
	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR,
			     "\"18446744073709551615\""));
	ck_assert(a.value.scalar.kind == KILN_SCALAR_UINT &&
		  a.value.scalar.value.u == UINT64_MAX);
	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR,
			     "\"-9223372036854775808\""));
	ck_assert(a.value.scalar.kind == KILN_SCALAR_INT &&
		  a.value.scalar.value.i == INT64_MIN);
	ck_assert(attr_loads(&a, CONF_ATTR_SCALAR, "\"-inf\""));
	ck_assert(isinf(a.value.scalar.value.f));
	ck_assert(!attr_loads(&a, CONF_ATTR_SCALAR, "\"x\""));
	ck_assert(!attr_loads(&a, CONF_ATTR_SCALAR, "[1]"));
}
END_TEST

START_TEST(attr_lists)
{
	struct conf_attr a;

	ck_assert(attr_loads(&a, CONF_ATTR_LIST, "[]"));
	ck_assert(a.value.list.count == 0);
	ck_assert(attr_loads(&a, CONF_ATTR_LIST, "[3,-1]"));
	ck_assert(a.value.list.count == 2 && a.value.list.v[1] == -1);
	ck_assert(!attr_loads(&a, CONF_ATTR_LIST, "[3,1.5]"));
	ck_assert(!attr_loads(&a, CONF_ATTR_LIST,
			      "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"));
	ck_assert(!attr_loads(&a, CONF_ATTR_RANGE, "[1]"));
	ck_assert(attr_loads(&a, CONF_ATTR_SLICES,
			     "[{\"start\":1,\"end\":4,\"step\":-2}]"));
	ck_assert(a.value.slices.count == 1 && a.value.slices.v[0].step == -2);
	ck_assert(!attr_loads(&a, CONF_ATTR_SLICES, "[{\"start\":1}]"));
}
END_TEST

START_TEST(attr_choices)
{
	struct conf_attr a;

	ck_assert(attr_loads(&a, CONF_ATTR_UPDATE, "\"Max\""));
	ck_assert(a.value.update == KILN_UPDATE_MAX);
	ck_assert(!attr_loads(&a, CONF_ATTR_UPDATE, "\"max\""));
	ck_assert(!attr_loads(&a, CONF_ATTR_UPDATE, "4"));
	ck_assert(attr_loads(&a, CONF_ATTR_DISTRIBUTION, "\"Default\""));
	ck_assert(attr_loads(&a, CONF_ATTR_DISTRIBUTION,
			     "{\"Normal\":[1,2]}"));
	ck_assert(a.value.distribution.kind == KILN_RANDOM_NORMAL &&
		  a.value.distribution.a == 1 && a.value.distribution.b == 2);
	ck_assert(!attr_loads(&a, CONF_ATTR_DISTRIBUTION, "\"Normal\""));
	ck_assert(!attr_loads(&a, CONF_ATTR_DISTRIBUTION, "{\"Uniform\":1}"));
	ck_assert(attr_loads(&a, CONF_ATTR_DTYPE, "\"bf16\""));
	ck_assert(a.value.dtype == KILN_BF16);
	ck_assert(!attr_loads(&a, CONF_ATTR_DTYPE, "\"BF16\""));
}
END_TEST

/* ---- Comparison ---- */

START_TEST(tolerances)
{
	const struct conf_tolerance exact = { 0, 0, false };
	const struct conf_tolerance strict = { 0, 0, true };
	const struct conf_tolerance loose = { 0.1, 0.5, true };
	const double inf = (double)INFINITY, nan_ = (double)NAN;

	ck_assert(conf_float_passes(nan_, nan_, &exact));
	ck_assert(!conf_float_passes(nan_, 1, &loose));
	ck_assert(!conf_float_passes(1, nan_, &loose));
	ck_assert(conf_float_passes(inf, inf, &exact));
	ck_assert(!conf_float_passes(inf, -inf, &loose));
	ck_assert(!conf_float_passes(inf, 1e308, &loose));
	ck_assert(conf_float_passes(0, -0.0, &exact));
	ck_assert(!conf_float_passes(0, -0.0, &strict));
	ck_assert(conf_float_passes(0, -0.0, &loose));
	ck_assert(!conf_float_passes(1, nextafter(1, 2), &exact));
	/* rtol is of the greater of the two, atol a floor. */
	ck_assert(conf_float_passes(9, 10, &loose));
	ck_assert(!conf_float_passes(8.9, 10, &loose));
	ck_assert(conf_float_passes(0.1, 0.6, &loose));
	ck_assert(!conf_float_passes(-1e308, 1e308, &loose));
}
END_TEST

START_TEST(compare_prints)
{
	const struct conf_tolerance exact = { 0, 0, false };
	const unsigned char same[] = { 1, 2, 3 }, other[] = { 1, 9, 3 };
	struct conf_text text;
	struct conf_value v;

	conf_text_clear(&text);
	ck_assert(load(&v, "{\"dtype\":\"u8\",\"shape\":[3],\"data\":["
			   "1,2,3]}") == CONF_LOADED);
	ck_assert(conf_compare(&v, same, &exact, &text));
	ck_assert_uint_eq(text.length, 0);
	ck_assert(!conf_compare(&v, other, &exact, &text));
	ck_assert_ptr_nonnull(strstr(text.s, "[1] expected 2, came 9"));
	ck_assert_ptr_nonnull(strstr(text.s, "1 of 3 elements"));
	conf_value_clear(&v);
}
END_TEST

START_TEST(text_is_cut)
{
	struct conf_text text;
	int i;

	conf_text_clear(&text);
	for (i = 0; i < 1000; i++)
		conf_text_add(&text, "%d, ", i);
	ck_assert_uint_eq(text.length, sizeof(text.s) - 1);
	ck_assert_uint_eq(strlen(text.s), text.length);
}
END_TEST

/* ---- Cases ---- */

#define ONE "{\"dtype\":\"f32\",\"shape\":[1],\"data\":[1]}"

static enum conf_load vector(struct conf_vector *v, const char *text)
{
	enum conf_skip skip = CONF_SKIP_COUNT;
	struct conf_text why;
	json_t *json = parse(text);
	enum conf_load loaded;

	conf_text_clear(&why);
	loaded = conf_vector_load(v, json, &skip, &why);
	ck_assert((loaded == CONF_UNKNOWN) == (skip != CONF_SKIP_COUNT));
	json_decref(json);
	return loaded;
}

static enum conf_load case_of(const char *text)
{
	struct conf_vector v;
	enum conf_load loaded = vector(&v, text);

	conf_vector_clear(&v);
	return loaded;
}

START_TEST(case_op)
{
	struct conf_vector v;

	ck_assert(vector(&v, "{\"id\":\"x\",\"op\":\"float_add\",\"in\":{"
			     "\"rhs\":" ONE ",\"lhs\":" ONE "},\"attrs\":{},"
			     "\"out\":[" ONE "],\"rtol\":0.5,\"atol\":0}") ==
		  CONF_LOADED);
	ck_assert_int_eq(v.slot_count, 3);
	ck_assert_int_eq(v.step_count, 1);
	ck_assert_str_eq(v.slots[v.steps[0].in[0]].name, "lhs");
	ck_assert_str_eq(v.slots[v.steps[0].in[1]].name, "rhs");
	ck_assert(v.slots[v.steps[0].out[0]].wanted && !v.expect_error);
	ck_assert(v.tolerance.rtol == 0.5);
	conf_vector_clear(&v);
}
END_TEST

START_TEST(case_program)
{
	struct conf_vector v;

	ck_assert(vector(&v, "{\"id\":\"x\",\"program\":["
			     "{\"op\":\"float_cat\",\"in\":{\"tensors\":["
			     "\"$a\",\"$a\",\"$b\"]},\"attrs\":{\"dim\":0},"
			     "\"out\":\"$c\"},"
			     "{\"op\":\"float_add\",\"in\":{\"lhs\":\"$c\","
			     "\"rhs\":\"$a\"},\"attrs\":{},\"out\":\"$d\"}],"
			     "\"in\":{\"$a\":" ONE ",\"$b\":" ONE "},"
			     "\"out\":{\"$d\":" ONE ",\"$b\":" ONE "}}") ==
		  CONF_LOADED);
	ck_assert_int_eq(v.steps[0].in_count, 3);
	ck_assert_int_eq(v.slots[0].last_step, 1);
	ck_assert_int_eq(v.slots[1].last_step, 0);
	ck_assert(v.slots[1].wanted && !v.slots[2].wanted);
	conf_vector_clear(&v);
}
END_TEST

START_TEST(case_not_run)
{
	ck_assert(case_of("{\"id\":\"x\",\"op\":\"no_such\",\"in\":{},"
			  "\"attrs\":{},\"out\":[]}") == CONF_UNKNOWN);
	ck_assert(case_of("{\"id\":\"x\",\"program\":[{\"op\":\"relu\"},"
			  "{\"op\":\"no_such\"}],\"in\":{},\"out\":{}}") ==
		  CONF_UNKNOWN);
	ck_assert(case_of("{\"id\":\"x\",\"program\":[{\"op\":\"relu\"}],"
			  "\"requires_grad\":[\"$a\"]}") == CONF_UNKNOWN);
	ck_assert(case_of("{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":{"
			  "\"dtype\":\"q\"}},\"attrs\":{},\"out\":[" ONE
			  "]}") == CONF_UNKNOWN);
}
END_TEST

START_TEST(case_malformed)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"id\":\"x\"}",
		"{\"id\":1,\"op\":\"relu\"}",
		"{\"id\":\"x\",\"op\":7}",
		"{\"id\":\"x\",\"program\":[]}",
		"{\"id\":\"x\",\"op\":\"relu\"}",
		/* expect, tolerance */
		"{\"id\":\"x\",\"op\":\"relu\",\"expect\":\"success\"}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":" ONE
		"},\"out\":[" ONE "],\"rtol\":\"0\"}",
		/* operands, results, attributes too few and too many */
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{},\"out\":[" ONE "]}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":" ONE
		",\"more\":" ONE "},\"out\":[" ONE "]}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":null},"
		"\"out\":[" ONE "]}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":" ONE
		"},\"out\":[]}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":" ONE
		"},\"out\":[" ONE "," ONE "]}",
		"{\"id\":\"x\",\"op\":\"relu\",\"in\":{\"tensor\":" ONE
		"},\"attrs\":{\"dim\":0},\"out\":[" ONE "]}",
		"{\"id\":\"x\",\"op\":\"softmax\",\"in\":{\"tensor\":" ONE
		"},\"attrs\":{},\"out\":[" ONE "]}",
		/* names */
		"{\"id\":\"x\",\"program\":[{\"op\":\"relu\",\"in\":{"
		"\"tensor\":\"$b\"},\"out\":\"$c\"}],\"in\":{\"$a\":" ONE
		"},\"out\":{}}",
		"{\"id\":\"x\",\"program\":[{\"op\":\"relu\",\"in\":{"
		"\"tensor\":\"$a\"},\"out\":\"$a\"}],\"in\":{\"$a\":" ONE
		"},\"out\":{}}",
		"{\"id\":\"x\",\"program\":[{\"op\":\"relu\",\"in\":{"
		"\"tensor\":\"$a\"},\"out\":\"$c\"}],\"in\":{\"$a\":" ONE
		"},\"out\":{\"$d\":" ONE "}}",
		"{\"id\":\"x\",\"program\":[{\"op\":\"float_cat\",\"in\":{"
		"\"tensors\":\"$a\"},\"attrs\":{\"dim\":0},\"out\":\"$c\"}],"
		"\"in\":{\"$a\":" ONE "},\"out\":{}}",
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(case_of(bad[i]) == CONF_MALFORMED, "%s", bad[i]);
}
END_TEST

static bool index_error(const char *indices, int dim)
{
	struct conf_vector v;
	char text[512];
	bool result;

	snprintf(text, sizeof(text),
		 "{\"id\":\"x\",\"op\":\"float_gather\",\"in\":{\"tensor\":{"
		 "\"dtype\":\"f32\",\"shape\":[1,2],\"data\":[1,2]},"
		 "\"indices\":{\"dtype\":\"i64\",\"shape\":[1,1],\"data\":"
		 "[%s]}},\"attrs\":{\"dim\":%d},\"expect\":\"error\"}",
		 indices, dim);
	ck_assert(vector(&v, text) == CONF_LOADED);
	result = conf_vector_index_error(&v);
	conf_vector_clear(&v);
	return result;
}

START_TEST(case_index_error)
{
	ck_assert(!index_error("1", 1));
	ck_assert(index_error("2", 1));
	ck_assert(index_error("1", 0));
	ck_assert(index_error("-1", 1));
	ck_assert(index_error("\"-9223372036854775808\"", 1));
	ck_assert(!index_error("5", 2));
	ck_assert(!index_error("5", -1));
}
END_TEST

/* ---- Methods and expectations ---- */

START_TEST(methods_are_distinct)
{
	const struct conf_method *methods;
	size_t count, i;

	methods = conf_methods(&count);
	for (i = 0; i < count; i++) {
		ck_assert_ptr_eq(conf_method_find(methods[i].name),
				 &methods[i]);
		ck_assert_ptr_nonnull(methods[i].form->invoke);
	}
	ck_assert_ptr_null(conf_method_find(""));
	ck_assert_ptr_null(conf_method_find(NULL));
}
END_TEST

static bool expect_file(struct conf_expect *expect, const char *text)
{
	char path[] = "/tmp/t_conform_parts.XXXXXX";
	int fd = mkstemp(path);
	struct conf_text why;
	bool good;

	conf_text_clear(&why);
	memset(expect, 0, sizeof(*expect));
	ck_assert(fd >= 0);
	ck_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	good = conf_expect_load(expect, path, &why);
	unlink(path);
	return good;
}

START_TEST(expect_files)
{
	struct conf_expect e;
	struct conf_vector v;

	ck_assert(vector(&v, "{\"id\":\"a/relu/1\",\"op\":\"relu\",\"in\":{"
			     "\"tensor\":" ONE "},\"out\":[" ONE "]}") ==
		  CONF_LOADED);
	ck_assert(expect_file(&e, "# note\n\nunsupported b/* not here\n"
				  "unsupported a/* no reason why\n"));
	ck_assert_str_eq(conf_expect_find(&e, &v), "no reason why");
	conf_expect_clear(&e);
	ck_assert(expect_file(&e, "unsupported rel? by method"));
	ck_assert_str_eq(conf_expect_find(&e, &v), "by method");
	conf_expect_clear(&e);
	/* What may be refused may pass too. */
	ck_assert(expect_file(&e, "refused rel? not with all dtypes\n"));
	ck_assert_ptr_null(conf_expect_find(&e, &v));
	ck_assert_str_eq(conf_expect_refused(&e, "relu"),
			 "not with all dtypes");
	ck_assert_ptr_null(conf_expect_refused(&e, "reluctant"));
	conf_expect_clear(&e);
	ck_assert(expect_file(&e, ""));
	ck_assert_ptr_null(conf_expect_find(&e, &v));
	ck_assert(!expect_file(&e, "unsupported a/*\n"));
	conf_expect_clear(&e);
	ck_assert(!expect_file(&e, "xfail a/* reason\n"));
	conf_expect_clear(&e);
	conf_vector_clear(&v);
}
END_TEST

static TCase *all(void)
{
	TCase *tcase = tcase_create("all");

	tcase_add_test(tcase, every_half);
	tcase_add_test(tcase, every_brain);
	tcase_add_test(tcase, rounding_mode);
	tcase_add_test(tcase, int_limits);
	tcase_add_test(tcase, int_texts);
	tcase_add_test(tcase, value_floats);
	tcase_add_test(tcase, value_ints_and_bools);
	tcase_add_test(tcase, value_malformed);
	tcase_add_test(tcase, attr_scalars);
	tcase_add_test(tcase, attr_lists);
	tcase_add_test(tcase, attr_choices);
	tcase_add_test(tcase, tolerances);
	tcase_add_test(tcase, compare_prints);
	tcase_add_test(tcase, text_is_cut);
	tcase_add_test(tcase, case_op);
	tcase_add_test(tcase, case_program);
	tcase_add_test(tcase, case_not_run);
	tcase_add_test(tcase, case_malformed);
	tcase_add_test(tcase, case_index_error);
	tcase_add_test(tcase, methods_are_distinct);
	tcase_add_test(tcase, expect_files);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("conform parts");

	suite_add_tcase(suite, all());
	return run_suite(suite);
}
