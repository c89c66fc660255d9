/* SPDX-License-Identifier: Apache-2.0 */
#include "file_rig.h"


#include "lib/safetensors.h"
#include "sanitized.h"

/*
 * The files in tests/safetensors were made from the format's description by a
 * script; what they hold is written out here once more, by hand.
 */

static struct kiln_device *dev;

static void setup(void)
{
	make_folder();
	dev = open_device("cpu");
}

static void teardown(void)
{
	kiln_device_release(dev);
	remove_folder();
}

static const char *given(const char *name)
{
	const char *top = getenv("srcdir");
	static char path[512];

	snprintf(path, sizeof(path), "%s/tests/safetensors/%s",
		 top ? top : ".", name);
	return path;
}

static struct kiln_safetensors *opened(const char *path)
{
	struct kiln_safetensors *file = NULL;

	OK(kiln_safetensors_open(&file, path, 0));
	return file;
}

/* ---- every dtype ---- */

#define UNSIGNED { 0, 1, 2, 3, 4, 250 }
#define SIGNED { -3, -2, -1, 0, 1, 2 }
#define HALVES { -1, -0.5, 0, 0.5, 1, 1.5 }

static const uint64_t u64[] = UNSIGNED;
static const int64_t i64[] = SIGNED;
static const double f64[] = HALVES;
static const float f32[] = HALVES;
static const uint32_t u32[] = UNSIGNED;
static const int32_t i32[] = SIGNED;
static const uint16_t bf16[] = { 0xbf80, 0xbf00, 0, 0x3f00, 0x3f80, 0x3fc0 };
static const uint16_t f16[] = { 0xbc00, 0xb800, 0, 0x3800, 0x3c00, 0x3e00 };
static const uint16_t u16[] = UNSIGNED;
static const int16_t i16[] = SIGNED;
static const int8_t i8[] = SIGNED;
static const uint8_t u8[] = UNSIGNED;
static const uint8_t bools[] = { 0, 1, 1, 0, 1, 0 };

struct row {
	const char *name, *dtype_name;
	enum kiln_dtype dtype;
	const void *data;
	size_t bytes;
};

/* In the order of the file. */
static const struct row rows[] = {
#define ROW(NAME, data) { "t." #NAME, #NAME, KILN_##NAME, data, sizeof(data) }
	ROW(U64, u64),	 ROW(I64, i64), ROW(F64, f64), ROW(F32, f32),
	ROW(U32, u32),	 ROW(I32, i32), ROW(BF16, bf16), ROW(F16, f16),
	ROW(U16, u16),	 ROW(I16, i16), ROW(I8, i8),	 ROW(U8, u8),
	ROW(BOOL, bools),
};

#define ROWS ((int)KILNI_COUNTOF(rows))

START_TEST(lists_without_loading)
{
	struct kiln_safetensors *file = opened(given("all.safetensors"));
	struct kiln_safetensors_info info = KILN_SAFETENSORS_INFO_INIT;
	uint64_t offset = 8 + kiln_safetensors_header_bytes(file);
	const char *key = NULL;
	size_t index = 99;

	ck_assert_uint_eq(kiln_safetensors_header_bytes(file), 880);
	ck_assert_uint_eq(kiln_safetensors_count(file), ROWS);
	for (int i = 0; i < ROWS; i++) {
		OK(kiln_safetensors_describe(file, (size_t)i, &info));
		ck_assert_str_eq(info.name, rows[i].name);
		ck_assert_str_eq(info.dtype_name, rows[i].dtype_name);
		ck_assert_int_eq(info.dtype, rows[i].dtype);
		ck_assert_int_eq(info.rank, 2);
		ck_assert_int_eq(info.shape[0], 2);
		ck_assert_int_eq(info.shape[1], 3);
		ck_assert_uint_eq(info.size_bytes, rows[i].bytes);
		ck_assert_uint_eq(info.offset_bytes, offset);
		offset += info.size_bytes;
		ck_assert(kiln_safetensors_find(file, rows[i].name, &index));
		ck_assert_uint_eq(index, (size_t)i);
	}
	ck_assert(!kiln_safetensors_find(file, "t.", &index));
	ck_assert_uint_eq(index, ROWS - 1);
	ck_assert_uint_eq(kiln_safetensors_metadata_count(file), 2);
	ck_assert_str_eq(kiln_safetensors_metadata(file, 0, &key), "pt");
	ck_assert_str_eq(key, "format");
	ck_assert_str_eq(kiln_safetensors_metadata(file, 1, NULL),
			 "a \"quoted\" \xc3\xa9\n\x01/");
	ck_assert_ptr_null(kiln_safetensors_metadata(file, 2, NULL));
	FAILS(kiln_safetensors_describe(file, ROWS, &info), KILN_ERR_INVALID,
	      "index 13, of 13");
	info.struct_size = 3;
	FAILS(kiln_safetensors_describe(file, 0, &info), KILN_ERR_INVALID,
	      "struct_size");
	kiln_safetensors_release(file);
}
END_TEST

START_TEST(loads_one_by_name)
{
	struct kiln_safetensors *file = opened(given("all.safetensors"));
	struct kiln_tensor *t = FLOATS(dev, 1), *before = t;

	FAILS(kiln_safetensors_load(&t, file, "t.F8", dev), KILN_ERR_INVALID,
	      "no tensor \"t.F8\"");
	ck_assert_ptr_eq(t, before);
	for (int i = 0; i < ROWS; i++) {
		OK(kiln_safetensors_load(&t, file, rows[i].name, dev));
		ck_assert_int_eq(kiln_tensor_dtype(t), rows[i].dtype);
		ck_assert_int_eq(kiln_tensor_rank(t), 2);
		expect_bytes(t, rows[i].data, rows[i].bytes, rows[i].name);
	}
	kiln_tensor_release(t);
	kiln_safetensors_release(file);
}
END_TEST

struct watch {
	int calls, stop_at;
	uint64_t done, total;
};

static int watch(uint64_t done, uint64_t total, void *user)
{
	struct watch *w = user;

	ck_assert_uint_gt(done, w->done);
	w->done = done;
	w->total = total;
	return ++w->calls == w->stop_at;
}

START_TEST(loads_all)
{
	struct kiln_safetensors *file = opened(given("all.safetensors"));
	struct kiln_tensor *t[13] = { FLOATS(dev, 5) };
	struct watch seen = { 0 }, early = { .stop_at = 3 };

	FAILS(kiln_safetensors_load_all(t, file, dev, watch, &early),
	      KILN_ERR_CANCELLED, "of 282 bytes");
	EXPECT_FLOATS(t[0], 5);
	for (int i = 1; i < ROWS; i++)
		ck_assert_ptr_null(t[i]);
	OK(kiln_safetensors_load_all(t, file, dev, watch, &seen));
	ck_assert_int_eq(seen.calls, ROWS);
	ck_assert_uint_eq(seen.done, 282);
	ck_assert_uint_eq(seen.total, 282);
	for (int i = 0; i < ROWS; i++) {
		expect_bytes(t[i], rows[i].data, rows[i].bytes, rows[i].name);
		kiln_tensor_release(t[i]);
	}
	FAILS(kiln_safetensors_load_all(NULL, file, dev, NULL, NULL),
	      KILN_ERR_INVALID, "out");
	kiln_safetensors_release(file);
}
END_TEST

/* Named out of order; the file must be the script's, byte for byte. */
START_TEST(saves_what_the_format_says)
{
	static const char *const keys[] = { "format", "note" };
	static const char *const texts[] = { "pt",
					     "a \"quoted\" \xc3\xa9\n\x01/" };
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;
	struct kiln_tensor *tensors[13];
	const char *names[13];
	struct watch seen = { 0 };
	size_t bytes;
	void *want = get_file(given("all.safetensors"), &bytes);

	for (int i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i * 5 % ROWS];

		names[i] = row->name;
		tensors[i] = make(dev, row->dtype, 2, SHAPE(2, 3), row->data);
	}
	content.count = ROWS;
	content.names = names;
	content.tensors = tensors;
	content.metadata_count = 2;
	content.keys = keys;
	content.texts = texts;
	content.progress = watch;
	content.user = &seen;
	OK(kiln_safetensors_save(at("saved"), 0, &content));
	expect_file(at("saved"), want, bytes);
	ck_assert_uint_eq(seen.done, 282);
	ck_assert_uint_eq(seen.total, 282);
	/* One that is stopped leaves the old file. */
	seen = (struct watch){ .stop_at = 2 };
	content.metadata_count = 0;
	FAILS(kiln_safetensors_save(at("saved"), 0, &content),
	      KILN_ERR_CANCELLED, "stopped after");
	expect_file(at("saved"), want, bytes);
	ck_assert_int_eq(entries(folder), 1);
	for (int i = 0; i < ROWS; i++)
		kiln_tensor_release(tensors[i]);
	free(want);
}
END_TEST

START_TEST(saves_nothing)
{
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;
	struct kiln_safetensors *file;
	size_t bytes;
	void *want = get_file(given("empty.safetensors"), &bytes);

	OK(kiln_safetensors_save(at("saved"), 0, &content));
	expect_file(at("saved"), want, bytes);
	file = opened(at("saved"));
	ck_assert_uint_eq(kiln_safetensors_count(file), 0);
	OK(kiln_safetensors_load_all(NULL, file, dev, NULL, NULL));
	kiln_safetensors_release(file);
	free(want);
}
END_TEST

/* Views, a scalar's axis, the other bools, FLEX32, an empty tensor. */
START_TEST(saves_what_has_no_form_of_its_own)
{
	static const char *const names[] = { "view", "flex", "bool8",
					     "bool32", "none", "\xc3\xbc\"" };
	struct kiln_tensor *t[6] = { 0 }, *back = NULL;
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;
	struct kiln_safetensors *file;

	OK(kiln_arange(&t[0], dev, KILN_I16, 0, 6, 1));
	OK(kiln_reshape(&t[0], t[0], 2, SHAPE(2, 3)));
	OK(kiln_transpose(&t[0], t[0]));
	t[1] = make(dev, KILN_FLEX32, 1, SHAPE(1), f32);
	t[2] = make(dev, KILN_BOOL_U8, 1, SHAPE(3), bools);
	t[3] = make(dev, KILN_BOOL_U32, 1, SHAPE(4), u32);
	OK(kiln_zeros(&t[4], dev, KILN_F64, 2, SHAPE(0, 7)));
	t[5] = FLOATS(dev, 4);
	content.count = 6;
	content.names = names;
	content.tensors = t;
	OK(kiln_safetensors_save(at("saved"), 0, &content));
	file = opened(at("saved"));
	OK(kiln_safetensors_load(&back, file, "view", dev));
	EXPECT(int16_t, back, 0, 3, 1, 4, 2, 5);
	OK(kiln_safetensors_load(&back, file, "flex", dev));
	ck_assert_int_eq(kiln_tensor_dtype(back), KILN_F32);
	EXPECT_FLOATS(back, -1);
	OK(kiln_safetensors_load(&back, file, "bool8", dev));
	ck_assert_int_eq(kiln_tensor_dtype(back), KILN_BOOL);
	EXPECT(uint8_t, back, 0, 1, 1);
	OK(kiln_safetensors_load(&back, file, "bool32", dev));
	ck_assert_int_eq(kiln_tensor_dtype(back), KILN_BOOL);
	EXPECT(uint8_t, back, 0, 1, 1, 1);
	OK(kiln_safetensors_load(&back, file, "none", dev));
	ck_assert_int_eq(kiln_tensor_count(back), 0);
	OK(kiln_safetensors_load(&back, file, names[5], dev));
	EXPECT_FLOATS(back, 4);
	for (int i = 0; i < 6; i++)
		kiln_tensor_release(t[i]);
	kiln_tensor_release(back);
	kiln_safetensors_release(file);
}
END_TEST

START_TEST(odd_but_right)
{
	struct kiln_safetensors *file = opened(given("odd.safetensors"));
	struct kiln_safetensors_info info = KILN_SAFETENSORS_INFO_INIT;
	struct kiln_tensor *t = KILN_TENSOR_NONE, *all[6] = { 0 };

	ck_assert_uint_eq(kiln_safetensors_count(file), 6);
	OK(kiln_safetensors_describe(file, 0, &info));
	ck_assert_str_eq(info.name, "\xc3\xbc\xf0\x9f\x98\x80/\\");
	ck_assert_int_eq(info.rank, 0);
	OK(kiln_safetensors_load(&t, file, info.name, dev));
	ck_assert_int_eq(kiln_tensor_rank(t), 1);
	EXPECT_FLOATS(t, 7);
	OK(kiln_safetensors_load(&t, file, "empty", dev));
	ck_assert_int_eq(kiln_tensor_shape(t)[1], 4);
	OK(kiln_safetensors_load(&t, file, "h", dev));
	EXPECT(uint16_t, t, 0xc000);
	OK(kiln_safetensors_describe(file, 5, &info));
	ck_assert_str_eq(info.dtype_name, "Q3");
	ck_assert_int_eq(info.dtype, -1);
	FAILS(kiln_safetensors_load(&t, file, "x", dev),
	      KILN_ERR_UNSUPPORTED_DTYPE, "\"x\" has dtype Q3");
	FAILS(kiln_safetensors_load(&t, file, "f8", dev),
	      KILN_ERR_UNSUPPORTED_DTYPE, "F8_E4M3");
	FAILS(kiln_safetensors_load(&t, file, "nine", dev), KILN_ERR_LIMIT,
	      "9 axes");
	FAILS(kiln_safetensors_load_all(all, file, dev, NULL, NULL),
	      KILN_ERR_UNSUPPORTED_DTYPE, "F8_E4M3");
	ck_assert_ptr_null(all[0]);
	kiln_tensor_release(t);
	kiln_safetensors_release(file);
}
END_TEST

/* ---- what is refused ---- */

/* A file of that header, as it stands, and of so many bytes of data. */
static void put_header(const char *header, size_t data_bytes)
{
	uint64_t length = strlen(header);
	FILE *out = fopen(at("bad"), "wb");

	ck_assert_uint_eq(fwrite(&length, 8, 1, out), 1);
	ck_assert_uint_eq(fwrite(header, 1, length, out), length);
	for (size_t i = 0; i < data_bytes; i++)
		fputc(0, out);
	ck_assert_int_eq(fclose(out), 0);
}

#define T(dtype, shape, from, to)                                              \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape                            \
	",\"data_offsets\":[" #from "," #to "]}"

struct bad {
	const char *header;
	size_t data;
	const char *message;
};

static const struct bad bad[] = {
	{ "", 0, "a { is missing" },
	{ " {}", 0, "a { is missing" },
	{ "[]", 0, "a { is missing" },
	{ "{", 0, "a string is missing" },
	{ "{}}", 0, "more than one value" },
	{ "{} x", 0, "more than one value" },
	{ "{,}", 0, "a string is missing" },
	{ "{\"a\"}", 0, "a colon is missing" },
	{ "{\"a\":" T("U8", "[1]", 0, 1) ",}", 1, "a string is missing" },
	{ "{\"a\":" T("U8", "[1]", 0, 1) "\"b\":1}", 1,
	  "a comma or a bracket is missing" },
	{ "{\"a\":1}", 0, "\"a\": a { is missing" },
	{ "{\"a\":{}}", 0, "dtype, shape or offsets are missing" },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 1,
	  "dtype, shape or offsets are missing" },
	{ "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 1, "a key twice" },
	{ "{\"a\":{\"Dtype\":\"U8\"}}", 1, "an unknown key" },
	{ "{\"a\":{\"dtype\":8}}", 1, "a string is missing" },
	{ "{\"a\":{\"shape\":1}}", 1, "a [ is missing" },
	{ "{\"a\":{\"shape\":[-1]}}", 1, "a whole number is missing" },
	{ "{\"a\":{\"shape\":[1.0]}}", 1, "not a whole number" },
	{ "{\"a\":{\"shape\":[1e3]}}", 1, "not a whole number" },
	{ "{\"a\":{\"shape\":[01]}}", 1, "not a whole number" },
	{ "{\"a\":{\"shape\":[1,]}}", 1, "a whole number is missing" },
	{ "{\"a\":{\"shape\":[9223372036854775808]}}", 1, "overflows" },
	{ "{\"a\":{\"data_offsets\":[0]}}", 1, "offsets are not two" },
	{ "{\"a\":{\"data_offsets\":[0,1,2]}}", 1, "offsets are not two" },
	{ "{\"a\":{\"data_offsets\":[1,0]}}", 1, "offsets run backwards" },
	{ "{\"a\":" T("U8", "[2]", 0, 1) "}", 1,
	  "\"a\": dtype and shape do not fit the offsets" },
	{ "{\"a\":" T("F32", "[1]", 0, 1) "}", 1,
	  "dtype and shape do not fit" },
	{ "{\"a\":" T("U8", "[]", 0, 0) "}", 0, "dtype and shape do not fit" },
	{ "{\"a\":" T("F4", "[3]", 0, 1) "}", 1, "do not fill bytes" },
	{ "{\"a\":" T("F64", "[4611686018427387904,2]", 0, 0) "}", 0,
	  "the shape overflows" },
	{ "{\"a\":" T("F64", "[4294967296,4294967296]", 0, 0) "}", 0,
	  "the shape overflows" },
	{ "{\"a\":" T("U8", "[2]", 0, 2) "}", 1,
	  "the data ends beyond the file" },
	{ "{\"a\":" T("U8", "[1]", 1, 2) "}", 2,
	  "\"a\": there is a hole before the data" },
	{ "{\"a\":" T("U8", "[1]", 0, 1) "}", 2,
	  "bytes of the file belong to no tensor" },
	{ "{}", 1, "bytes of the file belong to no tensor" },
	{ "{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}",
	  3, "\"b\": the data overlaps another's" },
	{ "{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 0, 2) "}",
	  2, "overlaps" },
	{ "{\"a\":" T("U8", "[1]", 0, 1) ",\"\\u0061\":"
	  T("U8", "[1]", 1, 2) "}",
	  2, "\"a\": the name is there twice" },
	{ "{\"__metadata__\":{\"a\":1}}", 0, "a string is missing" },
	{ "{\"__metadata__\":null}", 0, "a { is missing" },
	{ "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
	  "\"__metadata__\" twice" },
	{ "{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0,
	  "a key of the metadata is there twice" },
	{ "{\"\xff\":1}", 0, "not UTF-8" },
	{ "{\"\xc0\x80\":1}", 0, "not UTF-8" },
	{ "{\"\xe0\x80\x80\":1}", 0, "not UTF-8" },
	{ "{\"\xed\xa0\x80\":1}", 0, "not UTF-8" },
	{ "{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8" },
	{ "{\"\xc3", 0, "not UTF-8" },
	{ "{\"a\nb\":1}", 0, "a control character in a string" },
	{ "{\"a", 0, "a string without end" },
	{ "{\"a\\", 0, "an unknown escape" },
	{ "{\"\\x\":1}", 0, "an unknown escape" },
	{ "{\"\\u12\":1}", 0, "a \\u without digits" },
	{ "{\"\\u0000\":1}", 0, "a NUL in a string" },
	{ "{\"\\ud800\":1}", 0, "half a surrogate pair" },
	{ "{\"\\ud800\\u0041\":1}", 0, "half a surrogate pair" },
	{ "{\"\\udc00\":1}", 0, "half a surrogate pair" },
};

START_TEST(damaged_headers)
{
	struct kiln_safetensors *file = NULL;

	put_header(bad[_i].header, bad[_i].data);
	FAILS(kiln_safetensors_open(&file, at("bad"), 0), KILN_ERR_IO,
	      bad[_i].message);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), "/bad: "));
	ck_assert_ptr_null(file);
}
END_TEST

START_TEST(damaged_lengths)
{
	struct kiln_safetensors *file = NULL;

	put_file(at("bad"), "\2\0\0\0\0\0\0", 7);
	FAILS(kiln_safetensors_open(&file, at("bad"), 0), KILN_ERR_IO,
	      "too short for a header: bytes 7");
	put_file(at("bad"), "\3\0\0\0\0\0\0\0{}", 10);
	FAILS(kiln_safetensors_open(&file, at("bad"), 0), KILN_ERR_IO,
	      "the file ends in the header: bytes 10");
	put_file(at("bad"), "\1\xe1\xf5\5\0\0\0\0{}", 10); /* 100000001 */
	FAILS(kiln_safetensors_open(&file, at("bad"), 0), KILN_ERR_IO,
	      "the header is too long: bytes 100000001");
	put_file(at("bad"), "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
	FAILS(kiln_safetensors_open(&file, at("bad"), 0), KILN_ERR_IO,
	      "the header is too long: bytes 18446744073709551615");
	FAILS(kiln_safetensors_open(&file, at("none"), 0), KILN_ERR_IO,
	      "No such file");
	FAILS(kiln_safetensors_open(NULL, at("bad"), 0), KILN_ERR_INVALID,
	      "out");
}
END_TEST

/* A whole file, cut at every byte. */
START_TEST(truncated_files)
{
	struct kiln_safetensors *file = NULL;
	size_t bytes;
	char *data = get_file(given("odd.safetensors"), &bytes);

	for (size_t left = 0; left < bytes; left++) {
		put_file(at("bad"), data, left);
		ck_assert_int_eq(kiln_safetensors_open(&file, at("bad"), 0),
				 KILN_ERR_IO);
	}
	free(data);
}
END_TEST

static enum kiln_status save(size_t count, const char *const *names,
			     struct kiln_tensor *const *tensors,
			     size_t metadata, const char *const *keys,
			     const char *const *texts)
{
	struct kiln_safetensors_content content = {
		sizeof(content), count, names, tensors, metadata, keys, texts,
		NULL, NULL
	};

	return kiln_safetensors_save(at("saved"), 0, &content);
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__ })

START_TEST(content_that_is_refused)
{
	struct kiln_tensor *t[2] = { FLOATS(dev, 1), NULL };

	t[1] = t[0];
	FAILS(kiln_safetensors_save(at("saved"), 0, NULL), KILN_ERR_INVALID,
	      "content is NULL");
	FAILS(save(2, NAMES("a", "a"), t, 0, NULL, NULL), KILN_ERR_INVALID,
	      "the name \"a\" is given twice");
	FAILS(save(1, NULL, t, 0, NULL, NULL), KILN_ERR_INVALID, "names");
	FAILS(save(1, NAMES(NULL), t, 0, NULL, NULL), KILN_ERR_INVALID,
	      "a name is NULL");
	FAILS(save(1, NAMES("\xff"), t, 0, NULL, NULL), KILN_ERR_INVALID,
	      "not UTF-8");
	FAILS(save(1, NAMES("__metadata__"), t, 0, NULL, NULL),
	      KILN_ERR_INVALID, "__metadata__");
	FAILS(save(1, NAMES("a"), NULL, 0, NULL, NULL), KILN_ERR_INVALID,
	      "tensors");
	FAILS(save(0, NULL, NULL, 2, NAMES("k", "k"), NAMES("", "")),
	      KILN_ERR_INVALID, "the key \"k\" is given twice");
	FAILS(save(0, NULL, NULL, 1, NAMES("k"), NAMES("\xc3")),
	      KILN_ERR_INVALID, "a text is not UTF-8");
	t[1] = NULL;
	FAILS(save(2, NAMES("a", "b"), t, 0, NULL, NULL), KILN_ERR_INVALID,
	      "NULL");
	FAILS(kiln_safetensors_save(
		      at("no/f"), 0,
		      &(struct kiln_safetensors_content)
			      KILN_SAFETENSORS_CONTENT_INIT),
	      KILN_ERR_IO, "No such file");
	ck_assert_int_eq(entries(folder), 0);
	kiln_tensor_release(t[0]);
}
END_TEST

/* A text alone can make the header too long. */
START_TEST(a_header_that_is_too_long)
{
	char *text = malloc(100000001);
	const char *texts[1] = { text };

	memset(text, 'x', 100000000);
	text[100000000] = '\0';
	FAILS(save(0, NULL, NULL, 1, NAMES("k"), texts), KILN_ERR_LIMIT,
	      "longer than 100000000");
	ck_assert_int_eq(entries(folder), 0);
	free(text);
}
END_TEST

/* Several blocks, past the page cache, on both engines. */
START_TEST(a_large_file)
{
	const int64_t n = (5 << 20) + 3;
	struct kiln_tensor *t[2] = { 0 }, *back[2] = { 0 };
	struct kiln_safetensors *file = NULL;
	unsigned char *data = malloc((size_t)n);
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;

	setenv("KILN_FILE_PATH", _i ? "threads" : "auto", 1);
	fill(data, (size_t)n);
	t[0] = make(dev, KILN_U8, 1, SHAPE(n), data);
	OK(kiln_cast(&t[1], t[0], KILN_I32));
	content.count = 2;
	content.names = NAMES("bytes", "words");
	content.tensors = t;
	OK(kiln_safetensors_save(at("big"), 1, &content));
	OK(kiln_safetensors_open(&file, at("big"), 1));
	OK(kiln_safetensors_load_all(back, file, dev, NULL, NULL));
	expect_bytes(back[1], data, (size_t)n, "bytes");
	OK(kiln_equal(&t[1], t[1], back[0], KILN_BOOL));
	OK(kiln_all(&t[1], t[1], KILN_BOOL));
	EXPECT(uint8_t, t[1], 1);
	for (int i = 0; i < 2; i++) {
		kiln_tensor_release(t[i]);
		kiln_tensor_release(back[i]);
	}
	kiln_safetensors_release(file);
	unsetenv("KILN_FILE_PATH");
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("safetensors");
	TCase *tcase = tcase_create("files");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, lists_without_loading);
	tcase_add_test(tcase, loads_one_by_name);
	tcase_add_test(tcase, loads_all);
	tcase_add_test(tcase, saves_what_the_format_says);
	tcase_add_test(tcase, saves_nothing);
	tcase_add_test(tcase, saves_what_has_no_form_of_its_own);
	tcase_add_test(tcase, odd_but_right);
	tcase_add_loop_test(tcase, damaged_headers, 0,
			    (int)KILNI_COUNTOF(bad));
	tcase_add_test(tcase, damaged_lengths);
	tcase_add_test(tcase, truncated_files);
	tcase_add_test(tcase, content_that_is_refused);
	/* One thread, and 100 million characters one by one. */
	if (!KILNI_TSAN)
		tcase_add_test(tcase, a_header_that_is_too_long);
	tcase_add_loop_test(tcase, a_large_file, 0, engines_tested());
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
