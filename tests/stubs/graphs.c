/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs DEVICE: graphs of a CUDA device: kernels of all kinds, the program's
 * own among them, on a stream of the program's own, in windows, many replays
 * in flight; each with what the same work gives eagerly. It runs on a GPU too.
 * graphs DEVICE fail: captures, replays and reads, and prints the first status
 * that is not KILN_OK; then the same again, which has to work, unless the
 * device is lost. Exit status 1: not as it should be.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#define COUNT 1000

static struct kiln_device *device;

#define TRY(expr)                                                              \
	do {                                                                   \
		enum kiln_status status_ = (expr);                             \
		if (status_ != KILN_OK)                                        \
			return status_;                                        \
	} while (0)

/* ---- a kernel of the program's own: factor * x + y ---- */

static const char ptx[] =
	".version 6.3\n.target sm_75\n.address_size 64\n"
	".visible .entry scale_add(\n\t.param .align 8 .b8 p[48]\n)\n{\n"
	"\t.reg .pred %q;\n\t.reg .f32 %f<4>;\n\t.reg .b32 %r<4>;\n"
	"\t.reg .b64 %d<6>;\n"
	"\tmov.u32 %r0, %ctaid.x;\n\tmov.u32 %r1, %ntid.x;\n"
	"\tmov.u32 %r2, %tid.x;\n\tmad.lo.u32 %r3, %r0, %r1, %r2;\n"
	"\tcvt.u64.u32 %d0, %r3;\n\tld.param.u64 %d1, [p+32];\n"
	"\tsetp.ge.u64 %q, %d0, %d1;\n\t@%q bra DONE;\n"
	"\tld.param.u64 %d2, [p+8];\n\tld.param.u64 %d3, [p+16];\n"
	"\tld.param.u64 %d4, [p+24];\n\tld.param.f32 %f0, [p+40];\n"
	"\tshl.b64 %d0, %d0, 2;\n\tadd.u64 %d2, %d2, %d0;\n"
	"\tadd.u64 %d3, %d3, %d0;\n\tadd.u64 %d4, %d4, %d0;\n"
	"\tld.global.f32 %f1, [%d2];\n\tld.global.f32 %f2, [%d3];\n"
	"\tmul.rn.f32 %f1, %f1, %f0;\n\tadd.rn.f32 %f1, %f1, %f2;\n"
	"\tst.global.f32 [%d4], %f1;\nDONE:\n\tret;\n}\n";

struct params {
	uint64_t report, x, y, out, count;
	float factor;
};

static struct kiln_kernel *load_kernel(void)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;
	struct kiln_kernel *kernel = NULL;

	info.name = "scale_add";
	info.code = KILN_KERNEL_PTX;
	info.data = ptx;
	info.data_bytes = sizeof(ptx) - 1;
	info.entry = "scale_add";
	info.params_bytes = sizeof(struct params);
	OK(kiln_kernel_load(&kernel, device, &info));
	return kernel;
}

/* out = factor * x + y */
static enum kiln_status scale_add(struct kiln_kernel *kernel,
				  struct kiln_tensor **out, float factor,
				  struct kiln_tensor *x, struct kiln_tensor *y)
{
	struct params params = { .count = COUNT, .factor = factor };
	const struct kiln_kernel_operand operands[] = {
		{ x, KILN_ACCESS_READ, offsetof(struct params, x) },
		{ y, KILN_ACCESS_READ, offsetof(struct params, y) },
	};
	const int64_t shape[] = { COUNT };
	const struct kiln_kernel_result result = {
		out, KILN_F32, 1, shape, offsetof(struct params, out)
	};
	struct kiln_kernel_call call = KILN_KERNEL_CALL_INIT;

	call.params = &params;
	call.elements = COUNT;
	call.operand_count = 2;
	call.operands = operands;
	call.result = &result;
	return kiln_kernel_submit(kernel, &call);
}

/* ---- a step of everything ---- */

struct step {
	struct kiln_kernel *kernel;
	struct kiln_tensor *state, *rows, *index;
};

static void begin(struct step *step)
{
	const int64_t count[] = { COUNT };

	memset(step, 0, sizeof(*step));
	step->kernel = load_kernel();
	OK(kiln_arange(&step->rows, device, KILN_F32, 0, COUNT, 1));
	OK(kiln_arange(&step->index, device, KILN_I32, 0, COUNT, 1));
	OK(kiln_zeros(&step->state, device, KILN_F32, 1, count));
}

static void end(struct step *step)
{
	kiln_tensor_release(step->state);
	kiln_tensor_release(step->rows);
	kiln_tensor_release(step->index);
	kiln_kernel_release(step->kernel);
}

/* A draw, a gather, a sum, a kernel of the program's own, a copy. */
static enum kiln_status run(struct step *step)
{
	const struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, 0, 1 };
	struct kiln_tensor *drawn = NULL, *row = NULL, *sum = NULL;
	const int64_t count[] = { COUNT };
	enum kiln_status status;

	status = kiln_random(&drawn, device, KILN_F32, 1, count, uniform);
	if (!status)
		status = kiln_select(&row, step->rows, 0, step->index);
	if (!status)
		status = kiln_sum(&sum, row);
	if (!status)
		status = kiln_add(&row, row, sum);
	if (!status)
		status = scale_add(step->kernel, &row, 0.5f, row, step->state);
	if (!status)
		status = kiln_add(&row, row, drawn);
	if (!status)
		status = kiln_copy_into(step->state, row);
	kiln_tensor_release(drawn);
	kiln_tensor_release(row);
	kiln_tensor_release(sum);
	return status;
}

static enum kiln_status capture(struct step *step, struct kiln_graph **graph)
{
	enum kiln_status status;

	TRY(kiln_graph_prepare(device));
	status = run(step);
	if (!status)
		status = kiln_graph_start_capture(device);
	if (!status)
		status = run(step);
	if (!status)
		status = kiln_graph_stop_capture(graph, device);
	kiln_graph_abandon(device);
	return status;
}

#define REPLAYS 40

/* As many runs as the capture and the replays come to. */
static void run_eagerly(float *want)
{
	struct step step;

	OK(kiln_device_seed(device, 11));
	begin(&step);
	for (int i = 0; i < REPLAYS + 1; i++)
		OK(run(&step));
	OK(kiln_tensor_read(step.state, want, COUNT * sizeof(*want)));
	end(&step);
}

static void replays_give_what_eager_runs_give(void)
{
	static float want[COUNT], have[COUNT];
	struct kiln_duration *duration = NULL;
	struct kiln_profile *window = NULL;
	struct kiln_graph *graph = NULL;
	struct step step;
	uint64_t ns = 0;

	run_eagerly(want);
	OK(kiln_device_seed(device, 11));
	begin(&step);
	OK(capture(&step, &graph));
	for (int i = 0; i < REPLAYS; i++) {
		if (i == 7)
			OK(kiln_profile_start(&window, device));
		OK(kiln_graph_replay(graph));
		if (i == 9)
			OK(kiln_profile_end(&duration, window, NULL));
	}
	OK(kiln_tensor_read(step.state, have, sizeof(have)));
	expect(!memcmp(want, have, sizeof(want)), "other values");
	expect(kiln_duration_query(duration, &ns) == KILN_DURATION_MEASURED,
	       "a window without a duration");
	kiln_duration_release(duration);
	kiln_graph_release(graph);
	end(&step);
	OK(kiln_device_sync(device));
}

/* ---- which of many replays has failed, and where ---- */

static void gather_and_negate(struct kiln_tensor *source,
			      struct kiln_tensor *index,
			      struct kiln_tensor *state)
{
	struct kiln_tensor *t = NULL, *u = NULL;

	OK(kiln_select(&t, source, 0, index));
	OK(kiln_neg(&t, t));
	OK(kiln_select(&u, t, 0, index));
	OK(kiln_copy_into(state, u));
	kiln_tensor_release(t);
	kiln_tensor_release(u);
}

/* The replay of that number finds an index that is out of range. */
static void fail_in(int bad)
{
	static const float values[3] = { 1, 2, 3 };
	static const int32_t zero[3] = { 0, 0, 0 }, nine[3] = { 0, 9, 0 };
	struct kiln_tensor *source = NULL, *index = NULL, *state = NULL;
	struct kiln_tensor *good = NULL, *wrong = NULL;
	struct kiln_graph *graph = NULL;
	struct kiln_stream *stream = NULL;
	const int64_t shape[] = { 3 };
	enum kiln_status status;
	float back[3];

	OK(kiln_stream_current(&stream, device));
	OK(kiln_tensor_from_data(&source, device, KILN_F32, 1, shape, values,
				 sizeof(values)));
	OK(kiln_tensor_from_data(&state, device, KILN_F32, 1, shape, values,
				 sizeof(values)));
	OK(kiln_tensor_from_data(&index, device, KILN_I32, 1, shape, zero,
				 sizeof(zero)));
	OK(kiln_tensor_from_data(&good, device, KILN_I32, 1, shape, zero,
				 sizeof(zero)));
	OK(kiln_tensor_from_data(&wrong, device, KILN_I32, 1, shape, nine,
				 sizeof(nine)));
	OK(kiln_graph_prepare(device));
	gather_and_negate(source, index, state);
	OK(kiln_graph_start_capture(device));
	gather_and_negate(source, index, state);
	OK(kiln_graph_stop_capture(&graph, device));
	for (int i = 0; i < 20; i++) {
		status = kiln_copy_into(index, i == bad ? wrong : good);
		if (!status)
			status = kiln_graph_replay(graph);
		if (status)
			break;
	}
	/* Those behind it, which were queued before it was known, are good. */
	status = kiln_tensor_read(state, back, sizeof(back));
	if (!status) {
		expect(bad < 19 && back[0] == -1 && back[1] == -1,
		       "what the bad one wrote was read");
		status = kiln_stream_sync(stream);
	}
	expect(status == KILN_ERR_INDEX &&
		       strstr(kiln_error_message(), "kiln_select: index 9"),
	       "the replay that fails is not told");
	OK(kiln_stream_reset(stream));
	OK(kiln_copy_into(index, good));
	OK(kiln_graph_replay(graph));
	OK(kiln_tensor_read(state, back, sizeof(back)));
	expect(back[0] == -1 && back[2] == -1, "not good again");
	kiln_graph_release(graph);
	kiln_tensor_release(source);
	kiln_tensor_release(index);
	kiln_tensor_release(state);
	kiln_tensor_release(good);
	kiln_tensor_release(wrong);
	kiln_stream_release(stream);
}

/* ---- on a stream of the program's own ---- */

#define CU(name, ...)                                                          \
	do {                                                                   \
		int (*call_)(__VA_ARGS__) = NULL;                              \
		*(void **)&call_ = dlsym(library, #name);                      \
		expect(call_ != NULL, #name);                                  \
		name##_ = call_;                                               \
	} while (0)

static void on_a_wrapped_stream(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int (*cuDevicePrimaryCtxRetain_)(void **, int);
	int (*cuDevicePrimaryCtxRelease_v2_)(int);
	int (*cuCtxPushCurrent_v2_)(void *);
	int (*cuCtxPopCurrent_v2_)(void **);
	int (*cuStreamCreate_)(void **, unsigned);
	int (*cuStreamDestroy_v2_)(void *);
	struct kiln_stream *stream = NULL;
	void *context, *native;

	expect(library != NULL, "libcuda.so.1");
	CU(cuDevicePrimaryCtxRetain, void **, int);
	CU(cuDevicePrimaryCtxRelease_v2, int);
	CU(cuCtxPushCurrent_v2, void *);
	CU(cuCtxPopCurrent_v2, void **);
	CU(cuStreamCreate, void **, unsigned);
	CU(cuStreamDestroy_v2, void *);
	OK(cuDevicePrimaryCtxRetain_(&context, 0));
	OK(cuCtxPushCurrent_v2_(context));
	OK(cuStreamCreate_(&native, 1));
	OK(kiln_stream_wrap(&stream, device, native));
	OK(kiln_stream_set_current(device, stream));
	replays_give_what_eager_runs_give();
	OK(kiln_stream_set_current(device, NULL));
	kiln_stream_release(stream);
	OK(kiln_device_sync(device));
	OK(cuStreamDestroy_v2_(native));
	OK(cuCtxPopCurrent_v2_(&context));
	OK(cuDevicePrimaryCtxRelease_v2_(0));
}

/* ---- calls that fail ---- */

/* state = 0 at first; 1 for each run. */
static enum kiln_status program(float *value)
{
	const struct kiln_distribution ones = { KILN_RANDOM_BERNOULLI, 1, 0 };
	struct kiln_tensor *state = NULL, *t = NULL, *r = NULL;
	struct kiln_graph *graph = NULL;
	const int64_t one[] = { 1 };
	enum kiln_status status;

	status = kiln_zeros(&state, device, KILN_F32, 1, one);
	if (!status)
		status = kiln_graph_prepare(device);
	for (int i = 0; i < 2 && !status; i++) {
		if (i)
			status = kiln_graph_start_capture(device);
		/* What fails in a replay is not its first operation. */
		if (!status)
			status = kiln_abs(&t, state);
		if (!status)
			status = kiln_random(&r, device, KILN_F32, 1, one,
					     ones);
		if (!status)
			status = kiln_add(&t, t, r);
		if (!status)
			status = kiln_copy_into(state, t);
	}
	if (!status)
		status = kiln_graph_stop_capture(&graph, device);
	for (int i = 0; i < 3 && !status; i++)
		status = kiln_graph_replay(graph);
	/* A read tells why the stream takes nothing any more. */
	if (!status || status == KILN_ERR_POISONED)
		status = kiln_tensor_read(state, value, sizeof(*value));
	if (status)
		fprintf(stderr, "%s\n", kiln_error_message());
	kiln_graph_abandon(device);
	kiln_graph_release(graph);
	kiln_tensor_release(state);
	kiln_tensor_release(t);
	kiln_tensor_release(r);
	return status;
}

static void fail_once(void)
{
	struct kiln_stream *stream = NULL;
	enum kiln_status status;
	float value = 0;

	status = program(&value);
	printf("%s\n", kiln_status_name(status));
	expect(status || value == 4, "a wrong value");
	if (status == KILN_ERR_DEVICE_LOST) {
		expect(program(&value) == status, "a lost device works");
		return;
	}
	OK(kiln_stream_current(&stream, device));
	OK(kiln_stream_reset(stream));
	kiln_stream_release(stream);
	OK(program(&value));
	expect(value == 4, "a wrong value afterwards");
}

int main(int argc, char **argv)
{
	OK(kiln_device_open(&device, argc > 1 ? argv[1] : "cuda"));
	if (argc > 2) {
		fail_once();
	} else {
		replays_give_what_eager_runs_give();
		for (int bad = 1; bad < 20; bad += 6)
			fail_in(bad);
		on_a_wrapped_stream();
		printf("graphs: as it should be\n");
	}
	kiln_device_release(device);
	return 0;
}
