/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "lib/testing.h"
#ifdef KILNI_WITH_VULKAN
#include "kernels/vulkan/spirv.h"
#endif

/* Kernels of the program's own, in C; examples.sh runs those for GPUs. */

#define LARGE 300000

static struct kiln_device *dev;

static void setup(void)
{
	dev = open_device("cpu");
}

static void teardown(void)
{
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	kiln_device_release(dev);
}

/* ---- kernels ---- */

struct params {
	uint64_t report, a, b, out;
	int64_t step;
	int *gate;
};

#define AT(field) ((uint32_t)offsetof(struct params, field))

static int calls;              /* atomic */

static int32_t *words(uint64_t address)
{
	return (int32_t *)(uintptr_t)address;
}

/* a += step, in place */
static void count_up(const void *block, uint64_t begin, uint64_t end)
{
	const struct params *p = block;

	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	for (uint64_t i = begin; i < end; i++)
		words(p->a)[i] += (int32_t)p->step;
}

/* out = a - b */
static void minus(const void *block, uint64_t begin, uint64_t end)
{
	const struct params *p = block;

	for (uint64_t i = begin; i < end; i++)
		words(p->out)[i] = words(p->a)[i] - words(p->b)[i];
}

/* out[i] = a[b[i]], a of step elements */
static void pick(const void *block, uint64_t begin, uint64_t end)
{
	const struct params *p = block;

	for (uint64_t i = begin; i < end; i++) {
		int64_t k = words(p->b)[i];

		if (k < 0 || k >= p->step) {
			kiln_kernel_report_index(p, i, k, p->step);
			continue;
		}
		words(p->out)[i] = words(p->a)[k];
	}
}

static struct kiln_kernel_info info_of(const char *name,
				       kiln_kernel_function function)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;

	info.name = name;
	info.function = function;
	info.params_bytes = sizeof(struct params);
	return info;
}

static struct kiln_kernel *loaded(const char *name,
				  kiln_kernel_function function,
				  unsigned flags)
{
	struct kiln_kernel_info info = info_of(name, function);
	struct kiln_kernel *kernel = NULL;

	info.flags = flags;
	OK(kiln_kernel_load(&kernel, dev, &info));
	return kernel;
}

/* A call with its parts, for tests to change. */
struct call {
	struct params params;
	struct kiln_kernel_operand operand[7];
	struct kiln_kernel_result result;
	int64_t count;
	struct kiln_kernel_call call;
};

static struct kiln_kernel_call *call_of(struct call *c, int64_t count)
{
	*c = (struct call){ .count = count,
			    .call = KILN_KERNEL_CALL_INIT };
	c->call.params = &c->params;
	c->call.elements = (uint64_t)count;
	c->call.operands = c->operand;
	return &c->call;
}

static void add_operand(struct call *c, struct kiln_tensor *t,
			enum kiln_access access, uint32_t place)
{
	c->operand[c->call.operand_count++] =
		(struct kiln_kernel_operand){ t, access, place };
}

static void set_result(struct call *c, struct kiln_tensor **out)
{
	c->result = (struct kiln_kernel_result){ out, KILN_I32, 1, &c->count,
						 AT(out) };
	c->call.result = &c->result;
}

/* *out = a - b or so */
static enum kiln_status run2(struct kiln_kernel *kernel,
			     struct kiln_tensor **out, struct kiln_tensor *a,
			     struct kiln_tensor *b)
{
	struct call c;

	call_of(&c, kiln_tensor_count(b));
	c.params.step = kiln_tensor_count(a);
	add_operand(&c, a, KILN_ACCESS_READ, AT(a));
	add_operand(&c, b, KILN_ACCESS_READ, AT(b));
	set_result(&c, out);
	return kiln_kernel_submit(kernel, &c.call);
}

static enum kiln_status add_to(struct kiln_kernel *kernel,
			       struct kiln_tensor *t, int64_t step)
{
	struct call c;

	call_of(&c, kiln_tensor_count(t));
	c.params.step = step;
	add_operand(&c, t, KILN_ACCESS_READ_WRITE, AT(a));
	return kiln_kernel_submit(kernel, &c.call);
}

static struct kiln_tensor *zeros(int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_zeros(&t, dev, KILN_I32, 1, &count));
	return t;
}

static void expect_all(struct kiln_tensor *t, int32_t value)
{
	size_t count = (size_t)kiln_tensor_count(t);
	int32_t *data = malloc(count * sizeof(*data));
	size_t wrong = 0;

	OK(kiln_tensor_read(t, data, count * sizeof(*data)));
	for (size_t i = 0; i < count; i++)
		wrong += data[i] != value;
	ck_assert_uint_eq(wrong, 0);
	free(data);
}

/* ---- what it computes ---- */

/* Each element once, however the range is cut. */
START_TEST(each_element_once)
{
	struct kiln_kernel *kernel = loaded("count_up", count_up, 0);
	struct kiln_tensor *small = zeros(3), *large = zeros(LARGE);

	for (int i = 0; i < 10; i++) {
		OK(add_to(kernel, small, 7));
		OK(add_to(kernel, large, 7));
	}
	expect_all(small, 70);
	expect_all(large, 70);
	kiln_kernel_release(kernel);
	kiln_tensor_release(small);
	kiln_tensor_release(large);
}
END_TEST

START_TEST(whole_is_one_call)
{
	struct kiln_kernel *kernel = loaded("count_up", count_up,
					    KILN_KERNEL_WHOLE);
	struct kiln_tensor *t = zeros(LARGE);

	calls = 0;
	OK(add_to(kernel, t, 2));
	expect_all(t, 2);
	ck_assert_int_eq(calls, 1);
	kiln_kernel_release(kernel);
	kiln_tensor_release(t);
}
END_TEST

START_TEST(result_is_assigned)
{
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_tensor *a = INTS(dev, 9, 8, 7), *b = INTS(dev, 1, 2, 3);
	struct kiln_tensor *held = kiln_tensor_retain(a), *before = a;

	OK(run2(kernel, &a, a, b));
	EXPECT_INTS(a, 8, 6, 4);
	EXPECT_INTS(held, 9, 8, 7);
	before = a;
	/* Not in place: the kernel does not say that it may. */
	OK(run2(kernel, &a, a, b));
	ck_assert_ptr_ne(a, before);
	EXPECT_INTS(a, 7, 4, 1);
	kiln_kernel_release(kernel);
	kernel = loaded("minus", minus, KILN_KERNEL_IN_PLACE);
	before = a;
	OK(run2(kernel, &a, a, b));
	ck_assert_ptr_eq(a, before);
	EXPECT_INTS(a, 6, 2, -2);
	kiln_kernel_release(kernel);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(held);
}
END_TEST

/* Reads of views see dense copies; a view to write is refused. */
START_TEST(views)
{
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_kernel *up = loaded("count_up", count_up, 0);
	struct kiln_tensor *a = INTS(dev, 1, 2, 3), *b = INTS(dev, 1, 1, 1);
	struct kiln_tensor *flipped = KILN_TENSOR_NONE;
	struct kiln_tensor *y = KILN_TENSOR_NONE, *wide = KILN_TENSOR_NONE;

	OK(kiln_flip(&flipped, a, 1, (const int[]){ 0 }));
	OK(run2(kernel, &y, flipped, b));
	EXPECT_INTS(y, 2, 1, 0);
	FAILS(add_to(up, flipped, 1), KILN_ERR_SHAPE, "not dense");
	OK(kiln_expand(&wide, b, 2, SHAPE(2, 3)));
	FAILS(add_to(up, wide, 1), KILN_ERR_INVALID, "overlaps itself");
	kiln_kernel_release(up);
	/* Strided: the address is that of element 0, the last in memory. */
	up = loaded("count_up", count_up, KILN_KERNEL_STRIDED);
	struct call c;
	call_of(&c, 1);
	c.params.step = 10;
	add_operand(&c, flipped, KILN_ACCESS_READ_WRITE, AT(a));
	OK(kiln_kernel_submit(up, &c.call));
	EXPECT_INTS(a, 1, 2, 13);
	kiln_kernel_release(up);
	kiln_kernel_release(kernel);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(y);
	kiln_tensor_release(wide);
	kiln_tensor_release(flipped);
}
END_TEST

START_TEST(of_no_elements)
{
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_tensor *none = zeros(0), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *three = zeros(3);
	struct call c;

	OK(run2(kernel, &y, none, none));
	ck_assert_int_eq(kiln_tensor_count(y), 0);
	call_of(&c, 3);
	c.call.elements = 0;
	set_result(&c, &y);
	FAILS(kiln_kernel_submit(kernel, &c.call), KILN_ERR_INVALID,
	      "no elements");
	kiln_kernel_release(kernel);
	kiln_tensor_release(none);
	kiln_tensor_release(three);
	kiln_tensor_release(y);
}
END_TEST

/* ---- order, ends and failures ---- */

START_TEST(streams_are_ordered)
{
	struct kiln_kernel *up = loaded("count_up", count_up, 0);
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_tensor *x = zeros(LARGE), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *zero = zeros(LARGE);
	struct kiln_stream *stream = NULL;
	int gate = 0;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(add_to(up, x, 5));
	OK(kiln_stream_create(&stream, dev));
	OK(kiln_stream_set_current(dev, stream));
	OK(run2(kernel, &y, x, zero));
	/* A write behind the other stream's read. */
	OK(kiln_stream_set_current(dev, NULL));
	OK(add_to(up, x, 1));
	OK(kiln_stream_flush(stream));
	kilni_gate_open(&gate);
	expect_all(y, 5);
	expect_all(x, 6);
	kiln_stream_release(stream);
	kiln_kernel_release(up);
	kiln_kernel_release(kernel);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(zero);
}
END_TEST

static void *release_kernel(void *kernel)
{
	kiln_kernel_release(kernel);
	return NULL;
}

/* The last reference goes while work of two streams is held. */
START_TEST(release_with_work_in_flight)
{
	struct kiln_kernel *up = loaded("count_up", count_up, 0);
	struct kiln_tensor *x = zeros(LARGE), *y = zeros(5);
	struct kiln_stream *stream = NULL;
	int gate = 0, other = 0;
	pthread_t thread;

	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(add_to(up, x, 5));
	OK(kiln_stream_create(&stream, dev));
	OK(kiln_stream_set_current(dev, stream));
	OK(kilni_test_gate(dev, &other));
	OK(add_to(up, y, 3));
	ck_assert_int_eq(pthread_create(&thread, NULL, release_kernel, up), 0);
	pthread_join(thread, NULL);
	OK(kiln_device_flush(dev));
	kilni_gate_open(&other);
	expect_all(y, 3);
	kilni_gate_open(&gate);
	expect_all(x, 5);
	OK(kiln_stream_set_current(dev, NULL));
	kiln_stream_release(stream);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

static enum kiln_status captured(struct kiln_device *device, void *user)
{
	void **with = user;

	(void)device;
	return add_to(with[0], with[1], 3);
}

/* A graph keeps the kernels that it calls. */
START_TEST(in_a_graph)
{
	struct kiln_kernel *up = loaded("count_up", count_up, 0);
	struct kiln_tensor *x = zeros(LARGE);
	struct kiln_graph *graph = NULL;
	void *with[] = { up, x };

	OK(kiln_graph_create(&graph, dev, captured, with));
	ck_assert_msg(kiln_graph_is_captured(graph), "%s",
		      kiln_graph_fallback(graph));
	kiln_kernel_release(up);
	expect_all(x, 3);
	OK(kiln_graph_replay(graph));
	OK(kiln_graph_replay(graph));
	expect_all(x, 9);
	kiln_graph_release(graph);
	kiln_tensor_release(x);
}
END_TEST

static void expect_index_error(int64_t count, int32_t at)
{
	struct kiln_kernel *kernel = loaded("my_pick", pick, 0);
	struct kiln_tensor *a = INTS(dev, 4, 5, 6), *b = zeros(count);
	struct kiln_tensor *y = KILN_TENSOR_NONE, *z = KILN_TENSOR_NONE;
	struct kiln_tensor *good = KILN_TENSOR_NONE, *bad = zeros(1);
	struct kiln_stream *stream = NULL;
	int32_t *data = malloc((size_t)count * sizeof(*data));

	OK(run2(kernel, &good, a, b));
	expect_all(good, 4);
	OK(kiln_add_scalar(&bad, bad, kiln_int(3)));
	OK(kiln_slice_assign(&b, b, 1,
			     &(struct kiln_slice){ at, at + 1, 1 }, bad));
	OK(kiln_device_sync(dev));
	OK(run2(kernel, &y, a, b));
	/* Queued or told at once, but never computed with. */
	if (kiln_add(&z, y, y) == KILN_OK)
		ck_assert_int_ne(kiln_tensor_read(z, data, (size_t)count * 4),
				 KILN_OK);
	FAILS(kiln_tensor_read(y, data, (size_t)count * 4),
	      z ? KILN_ERR_DEPENDENCY : KILN_ERR_INDEX, z ? "" : "my_pick: "
	      "index 3 is outside 0..2");
	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_reset(stream));
	kiln_stream_release(stream);
	kiln_kernel_release(kernel);
	free(data);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(bad);
	kiln_tensor_release(y);
	kiln_tensor_release(z);
	kiln_tensor_release(good);
}

START_TEST(index_out_of_range)
{
	expect_index_error(7, 6);
	expect_index_error(LARGE, LARGE - 5);
}
END_TEST

START_TEST(failed_operand)
{
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_tensor *x = zeros(LARGE), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *one = zeros(LARGE);
	struct kiln_completion done = KILN_COMPLETION_INIT;
	struct kiln_completions *ring = NULL;
	struct kiln_stream *stream = NULL;
	size_t count = 1;
	int32_t word;
	int gate = 0;

	OK(kiln_completions_create(&ring, 4));
	OK(kiln_device_sync(dev));
	OK(kilni_test_gate(dev, &gate));
	OK(kiln_add(&x, x, x));
	OK(run2(kernel, &y, x, one));
	OK(kiln_tensor_complete(y, ring, 11));
	kiln_kernel_release(kernel);
	OK(kilni_fault_set("launch", 1, KILN_ERR_DRIVER));
	kilni_gate_open(&gate);
	OK(kiln_completions_wait(ring, -1));
	OK(kiln_completions_take(ring, &done, &count));
	ck_assert_int_eq(done.status, KILN_ERR_DEPENDENCY);
	/* A name outlives its kernel. */
	ck_assert_str_eq(done.op, "minus");
	ck_assert_uint_eq(done.user, 11);
	FAILS(kiln_tensor_read(y, &word, 4), KILN_ERR_INVALID, "");
	OK(kiln_stream_current(&stream, dev));
	OK(kiln_stream_reset(stream));
	kernel = loaded("minus", minus, 0);
	FAILS(run2(kernel, &y, x, one), KILN_ERR_DEPENDENCY, "minus: an ");
	kiln_kernel_release(kernel);
	kiln_stream_release(stream);
	kiln_completions_release(ring);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(one);
}
END_TEST

/* ---- bad input ---- */

#define REFUSED(status, text, change)                                          \
	do {                                                                   \
		struct kiln_kernel_info info = info_of("minus", minus);        \
		struct kiln_kernel *kernel_ = NULL;                            \
                                                                               \
		change;                                                        \
		FAILS(kiln_kernel_load(&kernel_, dev, &info), status, text);   \
		ck_assert_ptr_null(kernel_);                                   \
	} while (0)
#define INVALID(text, change) REFUSED(KILN_ERR_INVALID, text, change)

static char long_name[49];

START_TEST(loads_refused)
{
	struct kiln_kernel *kernel = NULL;
	static const uint32_t code[] = { 1, 2, 3 };

	memset(long_name, 'a', 48);
	INVALID("struct_size 5", info.struct_size = 5);
	INVALID("ABI 2", info.abi = 2);
	INVALID("name", info.name = NULL);
	INVALID("name", info.name = "");
	INVALID("name", info.name = "a b");
	INVALID("name", info.name = long_name);
	INVALID("function", info.function = NULL);
	INVALID("code 4", info.code = (enum kiln_kernel_code)4);
	INVALID("flags 0x8", info.flags = 9);
	INVALID("block of 0", info.params_bytes = 0);
	INVALID("block of 12", info.params_bytes = 12);
	INVALID("block of 392", info.params_bytes = 392);
	INVALID("no data", info.code = KILN_KERNEL_SPIRV);
	INVALID("no data", (info.code = KILN_KERNEL_PTX, info.data = code));
	REFUSED(KILN_ERR_UNSUPPORTED, "C function",
		(info.code = KILN_KERNEL_SPIRV, info.data = code,
		 info.data_bytes = sizeof(code)));
	FAILS(kiln_kernel_load(&kernel, dev, NULL), KILN_ERR_INVALID, "info");
	FAILS(kiln_kernel_load(NULL, dev, NULL), KILN_ERR_INVALID, "out");
	FAILS(kiln_kernel_load(&kernel, NULL, NULL), KILN_ERR_INVALID,
	      "device");
	OK(kilni_fault_set("load", 1, KILN_ERR_DRIVER));
	REFUSED(KILN_ERR_DRIVER, "", (void)0);
	kiln_kernel_release(NULL);
}
END_TEST

/* What is wrong with a call. */
enum mistake {
	SIZE, PARAMS, PLACE_ODD, PLACE_FIRST, PLACE_END, PLACE_TWICE, MANY,
	ACCESS, NO_TENSOR, READ_ONLY, OVERLAP, RANK, DTYPE, MISTAKES
};

static const struct {
	enum kiln_status status;
	const char *text;
} refusals[MISTAKES] = {
	[SIZE] = { KILN_ERR_INVALID, "struct_size 3" },
	[PARAMS] = { KILN_ERR_INVALID, "params" },
	[PLACE_ODD] = { KILN_ERR_INVALID, "address at 12" },
	[PLACE_FIRST] = { KILN_ERR_INVALID, "address at 0" },
	[PLACE_END] = { KILN_ERR_INVALID, "address at 48" },
	[PLACE_TWICE] = { KILN_ERR_INVALID, "two addresses at 8" },
	[MANY] = { KILN_ERR_INVALID, "more than 6" },
	[ACCESS] = { KILN_ERR_INVALID, "access 4" },
	[NO_TENSOR] = { KILN_ERR_INVALID, "tensor is NULL" },
	[READ_ONLY] = { KILN_ERR_INVALID, "read-only" },
	[OVERLAP] = { KILN_ERR_INVALID, "another operand" },
	[RANK] = { KILN_ERR_INVALID, "rank" },
	[DTYPE] = { KILN_ERR_INVALID, "dtype 16" },
};

static void make_mistake(struct call *c, enum mistake mistake,
			 struct kiln_tensor *read_only)
{
	struct kiln_kernel_operand *o = c->operand;

	switch (mistake) {
	case SIZE: c->call.struct_size = 3; break;
	case PARAMS: c->call.params = NULL; break;
	case PLACE_ODD: o[0].place = 12; break;
	case PLACE_FIRST: o[0].place = 0; break;
	case PLACE_END: o[0].place = 48; break;
	case PLACE_TWICE: o[1].place = 8; break;
	case MANY: c->call.operand_count = 6; break;
	case ACCESS: o[0].access = (enum kiln_access)4; break;
	case NO_TENSOR: o[1].tensor = NULL; break;
	case READ_ONLY:
		o[0].tensor = read_only;
		o[0].access = KILN_ACCESS_WRITE;
		break;
	case OVERLAP:
		o[0].tensor = o[1].tensor;
		o[0].access = KILN_ACCESS_READ_WRITE;
		break;
	case RANK: c->result.rank = 9; break;
	default: c->result.dtype = KILN_DTYPE_COUNT; break;
	}
}

START_TEST(calls_refused)
{
	struct kiln_kernel *kernel = loaded("minus", minus, 0);
	struct kiln_tensor *a = zeros(3), *b = zeros(3), *y = KILN_TENSOR_NONE;
	struct kiln_tensor *foreign = KILN_TENSOR_NONE;
	int32_t words_[3] = { 0 };
	struct call c;

	OK(kiln_tensor_from_foreign(&foreign, dev, KILN_I32, 1, SHAPE(3),
				    words_, KILN_FOREIGN_READ_ONLY, NULL,
				    NULL));
	for (int m = 0; m < MISTAKES; m++) {
		call_of(&c, 3);
		add_operand(&c, a, KILN_ACCESS_READ, AT(a));
		add_operand(&c, b, KILN_ACCESS_READ, AT(b));
		set_result(&c, &y);
		make_mistake(&c, (enum mistake)m, foreign);
		FAILS(kiln_kernel_submit(kernel, &c.call), refusals[m].status,
		      refusals[m].text);
		ck_assert_ptr_null(y);
	}
	FAILS(kiln_kernel_submit(kernel, NULL), KILN_ERR_INVALID, "call");
	FAILS(kiln_kernel_submit(NULL, &c.call), KILN_ERR_INVALID, "kernel");
	kiln_kernel_release(kernel);
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(foreign);
}
END_TEST

START_TEST(tensors_of_another_device)
{
	struct kiln_device *null = open_device("null");
	struct kiln_kernel *kernel = loaded("count_up", count_up, 0);
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_zeros(&t, null, KILN_I32, 1, SHAPE(3)));
	FAILS(add_to(kernel, t, 1), KILN_ERR_DEVICE, "null");
	kiln_kernel_release(kernel);
	kiln_tensor_release(t);
	kiln_device_release(null);
}
END_TEST

/* Any kernel is taken there, and none is run. */
START_TEST(null_device)
{
	struct kiln_kernel_info info = info_of("minus", minus);
	struct kiln_device *null = open_device("null");
	struct kiln_kernel *kernel = NULL;
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_zeros(&t, null, KILN_I32, 1, SHAPE(300)));
	OK(kiln_kernel_load(&kernel, null, &info));
	info.code = KILN_KERNEL_PTX;
	info.data = "PTX";
	info.data_bytes = 3;
	OK(kiln_kernel_load(&kernel, null, &info));
	calls = 0;
	OK(add_to(kernel, t, 1));
	OK(kiln_device_sync(null));
	ck_assert_int_eq(calls, 0);
	kiln_kernel_release(kernel);
	kiln_tensor_release(t);
	kiln_device_release(null);
}
END_TEST

START_TEST(names_are_limited)
{
	struct kiln_kernel_info info = info_of("minus", minus);
	struct kiln_kernel *kernel = NULL;
	char name[16];

	info.name = name;
	/* A load that fails takes none. */
	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "failed_%d", i);
		OK(kilni_fault_set("load", 1, KILN_ERR_DRIVER));
		FAILS(kiln_kernel_load(&kernel, dev, &info), KILN_ERR_DRIVER,
		      "");
	}
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "name_%d", i);
		OK(kiln_kernel_load(&kernel, dev, &info));
	}
	snprintf(name, sizeof(name), "name_256");
	FAILS(kiln_kernel_load(&kernel, dev, &info), KILN_ERR_LIMIT, "256");
	snprintf(name, sizeof(name), "name_3");
	OK(kiln_kernel_load(&kernel, dev, &info));
	kiln_kernel_release(kernel);
}
END_TEST

/* ---- SPIR-V ---- */

#ifdef KILNI_WITH_VULKAN
static enum kiln_status load_spirv(struct kiln_device *vulkan,
				   const uint32_t *code, size_t bytes,
				   const char *entry, uint32_t group)
{
	struct kiln_kernel_info info = info_of("module", NULL);
	struct kiln_kernel *kernel = NULL;
	enum kiln_status status;

	info.code = KILN_KERNEL_SPIRV;
	info.data = code;
	info.data_bytes = bytes;
	info.entry = entry;
	info.group = group;
	status = kiln_kernel_load(&kernel, vulkan, &info);
	kiln_kernel_release(kernel);
	return status;
}

/* However a module is cut, that is seen before a compiler has it. */
START_TEST(modules_refused)
{
	const struct kilni_spirv *module = &kilni_spirv_modules[0];
	uint32_t *code = malloc(module->bytes);
	struct kiln_device *vulkan = NULL;

	if (kiln_device_open(&vulkan, "vulkan:cpu") != KILN_OK) {
		free(code);
		return;
	}
	memcpy(code, module->words, module->bytes);
	OK(load_spirv(vulkan, code, module->bytes, NULL, 0));
	for (size_t bytes = 1; bytes < module->bytes; bytes += 1 + bytes / 9)
		FAILS(load_spirv(vulkan, code, bytes, NULL, 0),
		      KILN_ERR_INVALID, "SPIR-V");
	FAILS(load_spirv(vulkan, code, module->bytes - 4, NULL, 0),
	      KILN_ERR_INVALID, "SPIR-V");
	FAILS(load_spirv(vulkan, code, module->bytes, "other", 0),
	      KILN_ERR_INVALID, "\"other\"");
	FAILS(load_spirv(vulkan, code, module->bytes, NULL, 1 << 30),
	      KILN_ERR_LIMIT, "group");
	code[0]++;
	FAILS(load_spirv(vulkan, code, module->bytes, NULL, 0),
	      KILN_ERR_INVALID, "magic");
	code[0]--;
	for (int i = 0; i < 2; i++) {
		code[3] = i ? 4194304 : 0;
		FAILS(load_spirv(vulkan, code, module->bytes, NULL, 0),
		      KILN_ERR_INVALID, "bound");
	}
	code[3] = module->words[3];
	code[4] = 1;
	FAILS(load_spirv(vulkan, code, module->bytes, NULL, 0),
	      KILN_ERR_INVALID, "schema");
	code[4] = 0;
	code[5] &= 0xffff;
	FAILS(load_spirv(vulkan, code, module->bytes, NULL, 0),
	      KILN_ERR_INVALID, "cut short");
	free(code);
	kiln_device_release(vulkan);
}
END_TEST
#endif

int main(void)
{
	Suite *suite = suite_create("kernels of the program's own");
	TCase *tests = tcase_create("kernels");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, each_element_once);
	tcase_add_test(tests, whole_is_one_call);
	tcase_add_test(tests, result_is_assigned);
	tcase_add_test(tests, views);
	tcase_add_test(tests, of_no_elements);
	tcase_add_test(tests, streams_are_ordered);
	tcase_add_test(tests, release_with_work_in_flight);
	tcase_add_test(tests, in_a_graph);
	tcase_add_test(tests, index_out_of_range);
	tcase_add_test(tests, failed_operand);
	tcase_add_test(tests, loads_refused);
	tcase_add_test(tests, calls_refused);
	tcase_add_test(tests, tensors_of_another_device);
	tcase_add_test(tests, null_device);
	tcase_add_test(tests, names_are_limited);
#ifdef KILNI_WITH_VULKAN
	tcase_add_test(tests, modules_refused);
#endif
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
