/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu DEVICE: times operations of a GPU, large ones after a warm-up of their
 * own, and prints a line each: name, best time, rate. gpu_torch.py is the peer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

#define ELEMENTS ((int64_t)1 << 28) /* 1 GiB of f32 */
#define SIDE ((int64_t)8192)
#define REPEATS 9
#define CALLS 32 /* of a round, but for the products */
#define SMALL_OPS 100000

static struct kiln_device *device;
static struct kiln_tensor *a, *b, *c, *out, *indices;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(enum kiln_status status, const char *what)
{
	if (status == KILN_OK)
		return;
	fprintf(stderr, "gpu: %s: %s\n", what, kiln_error_message());
	exit(1);
}

#define MUST(expr) must(expr, #expr)

static void clear(void)
{
	kiln_tensor_clear(&a);
	kiln_tensor_clear(&b);
	kiln_tensor_clear(&c);
	kiln_tensor_clear(&out);
	kiln_tensor_clear(&indices);
	MUST(kiln_device_sync(device));
	MUST(kiln_memory_cleanup(device));
}

/* Best of some rounds of several calls each; the sync is in it. */
static double best_of(enum kiln_status (*work)(void), int calls)
{
	double best = 1e9, start, took;

	MUST(work());
	MUST(work());
	MUST(kiln_device_sync(device));
	for (int i = 0; i < REPEATS; i++) {
		start = now();
		for (int j = 0; j < calls; j++)
			MUST(work());
		MUST(kiln_device_sync(device));
		took = (now() - start) / calls;
		best = took < best ? took : best;
	}
	return best;
}

static void row(const char *name, double seconds, double worth,
		const char *unit)
{
	printf("%-22s %10.3f us  %10.1f %s\n", name, seconds * 1e6,
	       worth / seconds, unit);
	fflush(stdout);
}

/* ---- bandwidth ---- */

static enum kiln_status do_copy(void) { return kiln_copy_into(b, a); }
static enum kiln_status do_add(void) { return kiln_add(&out, a, b); }
static enum kiln_status do_exp(void) { return kiln_exp(&out, a); }
static enum kiln_status do_sum(void) { return kiln_sum(&out, a); }
static enum kiln_status do_sum0(void) { return kiln_sum_dim(&out, a, 0); }
static enum kiln_status do_sum1(void) { return kiln_sum_dim(&out, a, 1); }
static enum kiln_status do_argmax(void)
{
	return kiln_argmax(&out, a, 1, KILN_I32);
}
static enum kiln_status do_softmax(void) { return kiln_softmax(&out, a, 1); }
static enum kiln_status do_copy_c(void) { return kiln_copy_into(b, c); }
static enum kiln_status do_widen(void) { return kiln_cast(&out, a, KILN_F32); }
static enum kiln_status do_narrow(void) { return kiln_cast(&out, a, KILN_F16); }
static enum kiln_status do_greater(void)
{
	return kiln_greater(&out, a, b, KILN_BOOL);
}
static enum kiln_status do_where(void)
{
	return kiln_mask_where(&out, a, c, b);
}
static enum kiln_status do_clamp(void)
{
	return kiln_clamp(&out, a, kiln_float(-0.5), kiln_float(0.5));
}
static enum kiln_status do_zeros(void)
{
	const int64_t shape[1] = { ELEMENTS };

	return kiln_zeros(&out, device, KILN_U8, 1, shape);
}
static enum kiln_status do_select(void)
{
	return kiln_select(&out, a, 0, indices);
}

static struct kiln_distribution uniform(double low, double high)
{
	return (struct kiln_distribution){ KILN_RANDOM_UNIFORM, low, high };
}

/* a and b of that dtype */
static void fill(enum kiln_dtype dtype, double low, double high)
{
	const int64_t shape[1] = { ELEMENTS };

	clear();
	MUST(kiln_random(&a, device, dtype, 1, shape, uniform(low, high)));
	MUST(kiln_random(&b, device, dtype, 1, shape, uniform(low, high)));
}

static void time_vectors(void)
{
	const double gb = 4e-9 * (double)ELEMENTS;

	fill(KILN_F32, -1, 1);
	row("copy_f32_1g", best_of(do_copy, CALLS), 2 * gb, "GB/s");
	row("add_f32_1g", best_of(do_add, CALLS), 3 * gb, "GB/s");
	row("add_f32_1g_and_wait", best_of(do_add, 1), 3 * gb, "GB/s");
	row("exp_f32_1g", best_of(do_exp, CALLS), 2 * gb, "GB/s");
	row("sum_f32_1g", best_of(do_sum, CALLS), gb, "GB/s");
	row("cast_f32_f16_1g", best_of(do_narrow, CALLS), 1.5 * gb, "GB/s");
	MUST(kiln_greater(&c, a, b, KILN_BOOL));
	row("where_f32_1g", best_of(do_where, CALLS), 3.25 * gb, "GB/s");
	fill(KILN_F16, -1, 1);
	row("add_f16_512m", best_of(do_add, CALLS), 1.5 * gb, "GB/s");
	row("clamp_f16_512m", best_of(do_clamp, CALLS), gb, "GB/s");
	row("greater_f16_512m", best_of(do_greater, CALLS), 1.25 * gb, "GB/s");
	row("cast_f16_f32_512m", best_of(do_widen, CALLS), 1.5 * gb, "GB/s");
	row("sum_f16_512m", best_of(do_sum, CALLS), gb / 2, "GB/s");
	fill(KILN_I16, -1000, 1000);
	row("add_i16_512m", best_of(do_add, CALLS), 1.5 * gb, "GB/s");
	fill(KILN_U8, 0, 60);
	row("add_u8_256m", best_of(do_add, CALLS), 0.75 * gb, "GB/s");
	row("cast_u8_f32_256m", best_of(do_widen, CALLS), 1.25 * gb, "GB/s");
	row("zeros_u8_256m", best_of(do_zeros, CALLS), 0.25 * gb, "GB/s");
	clear();
}

static void time_matrices(void)
{
	const int64_t shape[2] = { SIDE, SIDE };
	const double gb = 4e-9 * (double)(SIDE * SIDE);

	MUST(kiln_random(&a, device, KILN_F32, 2, shape, uniform(-1, 1)));
	MUST(kiln_random(&b, device, KILN_F32, 2, shape, uniform(-1, 1)));
	MUST(kiln_transpose(&c, a));
	row("transpose_f32_8192", best_of(do_copy_c, CALLS), 2 * gb, "GB/s");
	row("sum_dim0_f32_8192", best_of(do_sum0, CALLS), gb, "GB/s");
	row("sum_dim1_f32_8192", best_of(do_sum1, CALLS), gb, "GB/s");
	row("argmax_dim1_f32_8192", best_of(do_argmax, CALLS), gb, "GB/s");
	row("softmax_f32_8192", best_of(do_softmax, CALLS), 2 * gb, "GB/s");
	MUST(kiln_random(&indices, device, KILN_I32, 1, shape,
			 uniform(0, (double)SIDE)));
	row("select_f32_8192", best_of(do_select, CALLS), 2 * gb, "GB/s");
	clear();
}

/* ---- products ---- */

static enum kiln_status do_matmul(void) { return kiln_matmul(&out, a, b); }

static void time_matmul(const char *name, enum kiln_dtype dtype, int64_t m,
			int64_t n, int64_t k)
{
	const int64_t left[2] = { m, k }, right[2] = { k, n };
	double worth = 2e-12 * (double)m * (double)n * (double)k;

	MUST(kiln_random(&a, device, dtype, 2, left, uniform(-1, 1)));
	MUST(kiln_random(&b, device, dtype, 2, right, uniform(-1, 1)));
	row(name, best_of(do_matmul, worth > 0.1 ? 1 : 20), worth, "TFLOP/s");
	clear();
}

/* ---- small ops ---- */

static void time_small(void)
{
	const int64_t shape[1] = { 256 };
	double start, queued, done;

	MUST(kiln_ones(&a, device, KILN_F32, 1, shape));
	MUST(kiln_ones(&b, device, KILN_F32, 1, shape));
	for (int round = 0; round < 2; round++) {
		start = now();
		for (int i = 0; i < SMALL_OPS; i++)
			MUST(kiln_add(&out, a, b));
		queued = now();
		MUST(kiln_device_sync(device));
		done = now();
	}
	printf("small_add              %10.3f us queued, %.3f us with sync\n",
	       (queued - start) / SMALL_OPS * 1e6,
	       (done - start) / SMALL_OPS * 1e6);
	start = now();
	for (int i = 0; i < 1000; i++) {
		MUST(kiln_add(&out, a, b));
		MUST(kiln_device_sync(device));
	}
	printf("small_add_and_wait     %10.3f us\n", (now() - start) * 1e3);
	fflush(stdout);
	clear();
}

static void time_start(const char *selector, double start)
{
	const float one[4] = { 1, 1, 1, 1 };
	const int64_t shape[1] = { 4 };
	float back[4];
	double opened;

	MUST(kiln_device_open(&device, selector));
	opened = now();
	MUST(kiln_tensor_from_data(&a, device, KILN_F32, 1, shape, one,
				   sizeof(one)));
	MUST(kiln_add(&out, a, a));
	MUST(kiln_tensor_read(out, back, sizeof(back)));
	printf("start                  %10.3f ms, opened after %.3f ms, %g\n",
	       (now() - start) * 1e3, (opened - start) * 1e3, (double)back[3]);
	fflush(stdout);
	clear();
}

int main(int argc, char **argv)
{
	time_start(argc > 1 ? argv[1] : "cuda", now());
	time_small();
	time_vectors();
	time_matrices();
	time_matmul("matmul_f32_8192", KILN_F32, SIDE, SIDE, SIDE);
	time_matmul("matmul_f16_8192", KILN_F16, SIDE, SIDE, SIDE);
	time_matmul("matmul_bf16_8192", KILN_BF16, SIDE, SIDE, SIDE);
	time_matmul("matmul_f64_8192", KILN_F64, SIDE, SIDE, SIDE);
	time_matmul("matmul_i32_4096", KILN_I32, 4096, 4096, 4096);
	time_matmul("matmul_f32_512", KILN_F32, 512, 512, 512);
	time_matmul("matmul_f32_64x784x128", KILN_F32, 64, 128, 784);
	time_matmul("matmul_f32_784x64x128", KILN_F32, 784, 128, 64);
	kiln_device_release(device);
	return 0;
}
