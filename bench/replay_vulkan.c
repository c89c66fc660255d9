/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_vulkan DEVICE KERNEL [ROUNDS]: a graph of 1000 small dependent
 * kernels on DEVICE (vulkan, vulkan:cpu) beside the same dispatches in a
 * prerecorded command buffer of plain Vulkan, in turn; medians. Then what a
 * small op costs its caller without a graph. KERNEL is
 * examples/custom_kernel.comp in SPIR-V:
 *
 *	glslangValidator --target-env vulkan1.2 -V -o scale_add.spv \
 *		examples/custom_kernel.comp
 *	cc -O2 -Iinclude bench/replay_vulkan.c bench/vk_raw.c -Lbuild/.libs \
 *		-lkiln -ldl -o replay_vulkan
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

#include "bench.h"
#include "vk_raw.h"

#define OPS 1000
#define ELEMENTS 256
#define IN_A_ROW 20
#define MOST 99

static struct kiln_device *device;
static struct kiln_kernel *kernel;
static struct kiln_tensor *x, *y;
static const uint32_t *code;
static size_t code_bytes;
static int rounds = 9;

/* ---- the graphs ---- */

struct params {
	uint64_t report, x, y, result, count;
	float factor;
};

static void load(const char *path)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;

	code = raw_read(path, &code_bytes);
	info.name = "scale_add";
	info.code = KILN_KERNEL_SPIRV;
	info.data = code;
	info.data_bytes = code_bytes;
	info.params_bytes = sizeof(struct params);
	info.flags = KILN_KERNEL_IN_PLACE;
	TRY(kiln_kernel_load(&kernel, device, &info));
}

static void scale_add(void)
{
	struct params params = { .count = ELEMENTS, .factor = 0.5f };
	const struct kiln_kernel_operand operands[] = {
		{ x, KILN_ACCESS_READ, offsetof(struct params, y) },
		{ y, KILN_ACCESS_READ, offsetof(struct params, x) },
	};
	const int64_t shape[] = { ELEMENTS };
	const struct kiln_kernel_result result = {
		&y, KILN_F32, 1, shape, offsetof(struct params, result)
	};
	struct kiln_kernel_call call = KILN_KERNEL_CALL_INIT;

	call.params = &params;
	call.elements = ELEMENTS;
	call.operand_count = 2;
	call.operands = operands;
	call.result = &result;
	TRY(kiln_kernel_submit(kernel, &call));
}

static void add(void)
{
	TRY(kiln_add(&y, y, x));
}

static struct kiln_graph *capture(void (*op)(void))
{
	struct kiln_graph *graph = NULL;

	op();
	TRY(kiln_device_sync(device));
	TRY(kiln_graph_prepare(device));
	TRY(kiln_graph_start_capture(device));
	for (int i = 0; i < OPS; i++)
		op();
	TRY(kiln_graph_stop_capture(&graph, device));
	return graph;
}

/* ---- both sides ---- */

struct side {
	const char *name;
	void (*replay)(struct kiln_graph *graph);
	void (*wait)(void);
	double host[MOST], one[MOST], row[MOST], row_host[MOST];
};

static void kiln_replay(struct kiln_graph *graph)
{
	TRY(kiln_graph_replay(graph));
}

static void kiln_wait(void)
{
	TRY(kiln_device_sync(device));
}

static void plain_replay(struct kiln_graph *graph)
{
	(void)graph;
	raw_submit();
}

static void measure(struct side *side, struct kiln_graph *graph, int round)
{
	double start = now_us();

	side->replay(graph);
	side->host[round] = (now_us() - start) / OPS;
	side->wait();
	side->one[round] = (now_us() - start) / OPS;
	start = now_us();
	for (int i = 0; i < IN_A_ROW; i++)
		side->replay(graph);
	side->row_host[round] = (now_us() - start) / OPS / IN_A_ROW;
	side->wait();
	side->row[round] = (now_us() - start) / OPS / IN_A_ROW;
}

static void row(const char *name, double *kiln, double *raw)
{
	double a = median(kiln, rounds), b = median(raw, rounds);

	printf("%-34s %9.4f %9.4f us %7.3f\n", name, a, b, a / b);
	fflush(stdout);
}

static void compare(const char *name, struct kiln_graph *graph)
{
	static struct side kiln = { .replay = kiln_replay,
				    .wait = kiln_wait };
	static struct side raw = { .replay = plain_replay, .wait = raw_wait };

	printf("%s, per kernel                      kiln       raw    kiln/raw\n",
	       name);
	for (int i = -1; i < rounds; i++) {
		measure(&kiln, graph, i < 0 ? 0 : i);
		measure(&raw, NULL, i < 0 ? 0 : i);
	}
	row("  one replay and wait", kiln.one, raw.one);
	row("  20 replays and wait", kiln.row, raw.row);
	row("  one replay, caller's time", kiln.host, raw.host);
	row("  20 replays, caller's time", kiln.row_host, raw.row_host);
}

/* ---- without a graph ---- */

static void eager(const char *name, void (*op)(void), int count)
{
	double host[MOST], whole[MOST], start;

	for (int i = -1; i < rounds; i++) {
		int round = i < 0 ? 0 : i;

		start = now_us();
		for (int k = 0; k < count; k++)
			op();
		host[round] = (now_us() - start) / count;
		TRY(kiln_device_sync(device));
		whole[round] = (now_us() - start) / count;
	}
	printf("%-20s %6d in a row: caller %8.3f us, with the sync %8.3f us\n",
	       name, count, median(host, rounds), median(whole, rounds));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const int64_t shape[1] = { ELEMENTS };
	bool software;

	if (argc < 3) {
		fprintf(stderr, "usage: replay_vulkan DEVICE KERNEL [ROUNDS]\n");
		return 2;
	}
	if (argc > 3)
		rounds = atoi(argv[3]);
	if (rounds < 1 || rounds > MOST)
		return 2;
	software = strstr(argv[1], "cpu") != NULL;
	TRY(kiln_device_open(&device, argv[1]));
	TRY(kiln_ones(&x, device, KILN_F32, 1, shape));
	TRY(kiln_zeros(&y, device, KILN_F32, 1, shape));
	load(argv[2]);
	raw_open(software, code, code_bytes, OPS, ELEMENTS);
	printf("%s; %d rounds\n", raw_device(), rounds);
	compare("scale_add", capture(scale_add));
	compare("kiln_add (raw: scale_add)", capture(add));
	for (int count = 100; count <= (software ? 1000 : 10000); count *= 10)
		eager("kiln_add", add, count);
	return 0;
}
