/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPU does with 16 bytes at a time: elements of each size with tails and
 * off 16 bytes, every half, rows that an index chooses. The peer is the CPU, or
 * what is wanted is counted here. KILN_TEST_DEVICE (default: vulkan:cpu) is the
 * device.
 */
#include "api.h"

#include "base/base.h"
#include "there.h"

static struct kiln_device *dev, *cpu;

static const char *selector(void)
{
	const char *wanted = getenv("KILN_TEST_DEVICE");

	return wanted ? wanted : "vulkan:cpu";
}

static void setup(void)
{
	dev = open_device(selector());
	cpu = open_device("cpu");
}

static void teardown(void)
{
	kiln_device_release(dev);
	kiln_device_release(cpu);
}

/* ---- bits ---- */

struct bits {
	enum kiln_dtype dtype;
	int64_t count;
	unsigned char *of;
};

static struct bits read_bits(struct kiln_tensor *t)
{
	struct bits b = { kiln_tensor_dtype(t), kiln_tensor_count(t), NULL };
	size_t bytes = (size_t)b.count * kiln_dtype_size_bytes(b.dtype);

	b.of = malloc(bytes + 1);
	ck_assert_ptr_nonnull(b.of);
	OK(kiln_tensor_read(t, b.of, bytes));
	kiln_tensor_release(t);
	return b;
}

static bool is_nan_at(const struct bits *b, int64_t i)
{
	uint16_t h;
	uint32_t f;

	if (b->dtype == KILN_F16) {
		memcpy(&h, b->of + 2 * i, 2);
		return (h & 0x7fff) > 0x7c00;
	}
	if (b->dtype != KILN_F32)
		return false;
	memcpy(&f, b->of + 4 * i, 4);
	return (f & 0x7fffffff) > 0x7f800000;
}

/* Any NaN is as good as another. */
static void compare(const char *what, struct kiln_tensor *have,
		    struct kiln_tensor *want)
{
	struct bits h = read_bits(have), w = read_bits(want);
	size_t size = kiln_dtype_size_bytes(h.dtype);

	ck_assert_int_eq(h.count, w.count);
	for (int64_t i = 0; i < h.count; i++)
		if (memcmp(h.of + (size_t)i * size, w.of + (size_t)i * size,
			   size) &&
		    !(is_nan_at(&h, i) && is_nan_at(&w, i)))
			ck_abort_msg("%s, %s: element %d of %d", what,
				     kiln_dtype_name(h.dtype), (int)i,
				     (int)h.count);
	free(h.of);
	free(w.of);
}

/* ---- elementwise ---- */

/* Operands on one device; they begin skip elements into what they are of. */
struct operands {
	struct kiln_device *device;
	struct kiln_tensor *a, *b, *mask;
};

static struct kiln_tensor *part(struct kiln_device *on, enum kiln_dtype dtype,
				int64_t count, int64_t skip, int step)
{
	int64_t all = count + skip;
	struct kiln_slice rest = { skip, all, 1 };
	int32_t *x = malloc((size_t)all * sizeof(*x));
	struct kiln_tensor *t;

	ck_assert_ptr_nonnull(x);
	for (int64_t i = 0; i < all; i++)
		x[i] = (int32_t)((i * step + i / 7) % 251) - 120;
	t = make(on, KILN_I32, 1, &all, x);
	free(x);
	OK(kiln_cast(&t, t, dtype));
	OK(kiln_slice(&t, t, 1, &rest));
	return t;
}

static struct operands operands(struct kiln_device *on, enum kiln_dtype dtype,
				int64_t count, int64_t skip)
{
	struct operands o = { on, part(on, dtype, count, skip, 37),
			      part(on, dtype, count, skip, 101),
			      KILN_TENSOR_NONE };

	OK(kiln_greater(&o.mask, o.b, o.a, KILN_BOOL));
	return o;
}

static struct kiln_scalar number(enum kiln_dtype dtype, int value)
{
	return kiln_dtype_class(dtype) == KILN_CLASS_FLOAT ? kiln_float(value)
							   : kiln_int(value);
}

static enum kiln_status add(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_add(y, o->a, o->b);
}

static enum kiln_status lesser(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_lower(y, o->a, o->b, KILN_BOOL);
}

static enum kiln_status where(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_mask_where(y, o->a, o->mask, o->b);
}

/* A bool of four bytes, and a mask of those. */
static enum kiln_status lesser32(struct kiln_tensor **y,
				 const struct operands *o)
{
	return kiln_lower(y, o->a, o->b, KILN_BOOL_U32);
}

static enum kiln_status where32(struct kiln_tensor **y,
				const struct operands *o)
{
	struct kiln_tensor *mask = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_lower(&mask, o->a, o->b, KILN_BOOL_U32);

	if (status == KILN_OK)
		status = kiln_mask_where(y, o->a, mask, o->b);
	kiln_tensor_release(mask);
	return status;
}

/* Only the second operand, then only the mask, begins off 16 bytes. */
static enum kiln_status crooked(struct kiln_tensor **y,
				const struct operands *o)
{
	struct kiln_slice rest = { 1, kiln_tensor_count(o->a), 1 };
	struct kiln_slice front = { 0, kiln_tensor_count(o->a) - 1, 1 };
	struct kiln_tensor *a = KILN_TENSOR_NONE, *b = KILN_TENSOR_NONE;
	struct kiln_tensor *mask = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_slice(&a, o->a, 1, &front);

	if (status == KILN_OK)
		status = kiln_slice(&b, o->b, 1, &rest);
	if (status == KILN_OK)
		status = kiln_add(&b, a, b);
	if (status == KILN_OK)
		status = kiln_slice(&mask, o->mask, 1, &rest);
	if (status == KILN_OK)
		status = kiln_mask_where(y, a, mask, b);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(mask);
	return status;
}

static enum kiln_status add_three(struct kiln_tensor **y,
				  const struct operands *o)
{
	return kiln_add_scalar(y, o->a, number(kiln_tensor_dtype(o->a), 3));
}

static enum kiln_status fill_nine(struct kiln_tensor **y,
				  const struct operands *o)
{
	return kiln_mask_fill(y, o->a, o->mask,
			      number(kiln_tensor_dtype(o->a), 9));
}

static enum kiln_status clamp(struct kiln_tensor **y, const struct operands *o)
{
	enum kiln_dtype dtype = kiln_tensor_dtype(o->a);

	return kiln_clamp(y, o->a, number(dtype, 5), number(dtype, 90));
}

static enum kiln_status to_u8(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_cast(y, o->a, KILN_U8);
}

static enum kiln_status to_f16(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_cast(y, o->a, KILN_F16);
}

static enum kiln_status to_bool(struct kiln_tensor **y,
				const struct operands *o)
{
	return kiln_cast(y, o->a, KILN_BOOL);
}

static enum kiln_status to_f32(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_cast(y, o->a, KILN_F32);
}

static enum kiln_status to_i64(struct kiln_tensor **y, const struct operands *o)
{
	return kiln_cast(y, o->a, KILN_I64);
}

static enum kiln_status sevens(struct kiln_tensor **y, const struct operands *o)
{
	const int64_t shape[] = { kiln_tensor_count(o->a) };
	enum kiln_dtype dtype = kiln_tensor_dtype(o->a);

	return kiln_full(y, o->device, dtype, 1, shape, number(dtype, 7));
}

static const struct {
	const char *name;
	enum kiln_status (*call)(struct kiln_tensor **, const struct operands *);
} works[] = {
	{ "add", add },
	{ "add a scalar", add_three },
	{ "lower", lesser },
	{ "lower, 32 bits", lesser32 },
	{ "mask_where", where },
	{ "mask_where, 32 bits", where32 },
	{ "off 16 bytes", crooked },
	{ "mask_fill", fill_nine },
	{ "clamp", clamp },
	{ "to bool", to_bool },
	{ "to u8", to_u8 },
	{ "to f16", to_f16 },
	{ "to f32", to_f32 },
	{ "to i64", to_i64 },
	{ "full", sevens },
};

/*
 * Fewer than a vector of any, one less and more, a few of them, and more than a
 * group of threads takes.
 */
static const int64_t counts[] = { 1, 3, 7, 15, 16, 17, 63, 67, 1029, 9003 };
static const enum kiln_dtype dtypes[] = { KILN_I8,   KILN_U16, KILN_F16,
					  KILN_BF16, KILN_F32, KILN_F64 };

START_TEST(vectors_and_tails)
{
	for (unsigned c = 0; c < 2 * KILNI_COUNTOF(counts); c++) {
		struct operands here = operands(dev, dtypes[_i], counts[c / 2],
						c % 2);
		struct operands there = operands(cpu, dtypes[_i],
						 counts[c / 2], c % 2);

		for (unsigned w = 0; w < KILNI_COUNTOF(works); w++) {
			struct kiln_tensor *have = KILN_TENSOR_NONE, *want = KILN_TENSOR_NONE;

			OK(works[w].call(&have, &here));
			OK(works[w].call(&want, &there));
			compare(works[w].name, have, want);
		}
		kiln_tensor_release(here.a);
		kiln_tensor_release(here.b);
		kiln_tensor_release(here.mask);
		kiln_tensor_release(there.a);
		kiln_tensor_release(there.b);
		kiln_tensor_release(there.mask);
	}
}
END_TEST

/* Nothing is written behind the last element. */
START_TEST(ends_are_kept)
{
	for (int64_t count = 1; count < 36; count++) {
		const int64_t all = 64;
		unsigned char x[64], have[64];
		struct kiln_slice front = { 0, count, 1 };
		struct kiln_tensor *whole, *view = KILN_TENSOR_NONE, *from;

		for (int i = 0; i < all; i++)
			x[i] = (unsigned char)(i + 1);
		from = make(dev, KILN_U8, 1, &count, x);
		memset(x, 0, sizeof(x));
		whole = make(dev, KILN_U8, 1, &all, x);
		OK(kiln_slice(&view, whole, 1, &front));
		OK(kiln_copy_into(view, from));
		OK(kiln_tensor_read(whole, have, sizeof(have)));
		for (int i = 0; i < all; i++)
			ck_assert_int_eq(have[i], i < count ? i + 1 : 0);
		kiln_tensor_release(from);
		kiln_tensor_release(view);
		kiln_tensor_release(whole);
	}
}
END_TEST

/* ---- halves ---- */

#define HALVES 65536

/* All of them; turned: the last one first, and each bit from its mirror's. */
static struct kiln_tensor *halves(struct kiln_device *on, bool turned)
{
	static uint16_t h[HALVES];

	for (int i = 0; i < HALVES; i++)
		h[i] = (uint16_t)(turned ? (HALVES - 1 - i) * 40503 : i);
	return make(on, KILN_F16, 1, SHAPE(HALVES), h);
}

static enum kiln_status times(struct kiln_tensor **y, struct kiln_device *on)
{
	struct kiln_tensor *a = halves(on, false), *b = halves(on, true);
	enum kiln_status status = kiln_mul(y, a, b);

	kiln_tensor_release(a);
	kiln_tensor_release(b);
	return status;
}

static enum kiln_status widen(struct kiln_tensor **y, struct kiln_device *on)
{
	struct kiln_tensor *a = halves(on, false);
	enum kiln_status status = kiln_cast(y, a, KILN_F32);

	kiln_tensor_release(a);
	return status;
}

/* Of floats at and beside the middle between two halves, and of all sizes. */
static enum kiln_status narrow(struct kiln_tensor **y, struct kiln_device *on)
{
	static uint32_t f[HALVES];
	struct kiln_tensor *a;
	enum kiln_status status;

	for (uint32_t i = 0; i < HALVES; i++)
		f[i] = (i & 1 ? 0x80000000u : 0) + 0x32000000u +
		       (i >> 3) * 0x3000u + (i >> 1 & 3) - 1;
	a = make(on, KILN_F32, 1, SHAPE(HALVES), f);
	status = kiln_cast(y, a, KILN_F16);
	kiln_tensor_release(a);
	return status;
}

START_TEST(every_half)
{
	static enum kiln_status (*const call[])(struct kiln_tensor **,
						struct kiln_device *) = {
		times, widen, narrow
	};

	for (unsigned i = 0; i < KILNI_COUNTOF(call); i++) {
		struct kiln_tensor *have = KILN_TENSOR_NONE;
		struct kiln_tensor *want = KILN_TENSOR_NONE;

		OK(call[i](&have, dev));
		OK(call[i](&want, cpu));
		compare("halves", have, want);
	}
}
END_TEST

/* ---- rows ---- */

#define CHOSEN 5

/* Bytes of a row, whole pieces and not; skip bytes ahead of the first one. */
static const int64_t rows[][2] = {
	{ 16, 0 }, { 48, 0 }, { 48, 3 }, { 52, 0 },
	{ 4096, 0 }, { 4112, 0 }, { 12304, 16 }
};

static unsigned char byte_at(int64_t i)
{
	return (unsigned char)(i * 29 + (i >> 8) * 7);
}

/* Of two parts of six rows each the same ones. */
static void choose(int64_t bytes, int64_t skip)
{
	static const int32_t chosen[CHOSEN] = { 4, 0, 4, 5, 1 };
	int64_t all = skip + 12 * bytes;
	struct kiln_slice rest = { skip, all, 1 };
	unsigned char *x = malloc((size_t)all), *have = malloc((size_t)all);
	struct kiln_tensor *t, *index = make(dev, KILN_I32, 1, SHAPE(CHOSEN),
					     chosen);

	ck_assert(x && have);
	for (int64_t i = 0; i < all; i++)
		x[i] = byte_at(i);
	t = make(dev, KILN_U8, 1, &all, x);
	OK(kiln_slice(&t, t, 1, &rest));
	OK(kiln_reshape(&t, t, 3, SHAPE(2, 6, bytes)));
	OK(kiln_select(&t, t, 1, index));
	OK(kiln_tensor_read(t, have, (size_t)(2 * CHOSEN * bytes)));
	for (int64_t r = 0; r < 2 * CHOSEN; r++) {
		int64_t from = r / CHOSEN * 6 + chosen[r % CHOSEN];

		if (memcmp(have + r * bytes, x + skip + from * bytes,
			   (size_t)bytes))
			ck_abort_msg("row %d of %d bytes, %d ahead", (int)r,
				     (int)bytes, (int)skip);
	}
	free(x);
	free(have);
	kiln_tensor_release(index);
	kiln_tensor_release(t);
}

START_TEST(chosen_rows)
{
	for (unsigned i = 0; i < KILNI_COUNTOF(rows); i++)
		choose(rows[i][0], rows[i][1]);
}
END_TEST

static const int64_t lengths[] = { 48, 52, 4112 };

/* The first one is told. */
START_TEST(rows_that_are_not_there)
{
	static const int32_t chosen[3] = { 1, 6, -1 };
	int64_t bytes = lengths[_i];
	struct kiln_tensor *index = make(dev, KILN_I32, 1, SHAPE(3), chosen);
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	unsigned char *have = malloc((size_t)(3 * bytes));

	ck_assert_ptr_nonnull(have);
	OK(kiln_zeros(&t, dev, KILN_U8, 2, SHAPE(6, bytes)));
	OK(kiln_select(&t, t, 0, index));
	FAILS(kiln_tensor_read(t, have, (size_t)(3 * bytes)), KILN_ERR_INDEX,
	      "index 6");
	free(have);
	kiln_tensor_release(index);
	kiln_tensor_release(t);
}
END_TEST

int main(void)
{
	Suite *suite;
	TCase *wide;

	if (!device_is_there(selector()))
		return 77;
	suite = suite_create("wide");
	wide = tcase_create("wide");
	tcase_add_checked_fixture(wide, setup, teardown);
	tcase_set_timeout(wide, 60);
	tcase_add_loop_test(wide, vectors_and_tails, 0,
			    KILNI_COUNTOF(dtypes));
	tcase_add_test(wide, ends_are_kept);
	tcase_add_test(wide, every_half);
	tcase_add_test(wide, chosen_rows);
	tcase_add_loop_test(wide, rows_that_are_not_there, 0,
			    KILNI_COUNTOF(lengths));
	suite_add_tcase(suite, wide);
	return run_suite(suite);
}
