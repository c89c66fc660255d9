/* SPDX-License-Identifier: Apache-2.0 */
/* kiln plan - the memory that a program would need on a device */
#include "tools/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tools/pool.h"
#include "tools/tool.h"

#define GIB (1024.0 * 1024 * 1024)

/* What no plan can count. */
static const char *const left_out[] = {
	"the driver's context and the code of kernels",
	("how another card than one of 132 multiprocessors cuts matrix "
	 "products, on the target cuda"),
	"memory that other libraries take on the device",
	"what depends on values: all reads give zeros",
	"memory that processes other than the planned ones hold",
};

#define LEFT_OUT (sizeof(left_out) / sizeof(left_out[0]))

/* ---- options ---- */

enum option_id {
	OPT_AS = 256,
	OPT_STEPS,
	OPT_TIME,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "as", required_argument, NULL, OPT_AS },
	{ "steps", required_argument, NULL, OPT_STEPS },
	{ "time", required_argument, NULL, OPT_TIME },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int usage_error(const char *what, const char *text)
{
	tool_complain("plan: %s \"%s\"; see kiln help plan", what, text);
	return TOOL_USAGE;
}

static int take_target(struct plan_order *order, const char *text)
{
	for (size_t i = 0; kiln_plan_target(i); i++)
		if (!strcmp(kiln_plan_target(i), text)) {
			order->target = text;
			return -1;
		}
	if (!kiln_plan_target(0)) {
		tool_complain("plan: this build has no driver for plans");
		return TOOL_USAGE;
	}
	return usage_error("no target is called", text);
}

static int take_steps(struct plan_order *order, const char *text)
{
	char *end;
	unsigned long long steps = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !steps ||
	    steps > UINT32_MAX)
		return usage_error("no number of steps:", text);
	order->steps = steps;
	return -1;
}

static int take_time(struct plan_order *order, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !isfinite(seconds) || seconds <= 0)
		return usage_error("no time in seconds:", text);
	order->seconds = seconds;
	return -1;
}

/* An exit status, or -1 to go on. */
static int take_option(struct plan_order *order, int id, const char *text)
{
	switch (id) {
	case OPT_AS:
		return take_target(order, optarg);
	case OPT_STEPS:
		return take_steps(order, optarg);
	case OPT_TIME:
		return take_time(order, optarg);
	case OPT_JSON:
		order->json = true;
		return -1;
	case OPT_HELP:
		return tool_print_usage(&tool_plan);
	case OPT_VERSION:
		return tool_print_version();
	default:
		return usage_error("no option, or its value is wrong:", text);
	}
}

/* Options end at the program, whose own are none of ours. */
static int take_options(struct plan_order *order, int argc, char **argv)
{
	int id, code;

	opterr = 0;
	while ((id = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		code = take_option(order, id, argv[optind - 1]);
		if (code >= 0)
			return code;
	}
	if (!order->target)
		return usage_error("no target is named by", "--as");
	if (optind == argc)
		return usage_error("no program is named after", "--as");
	order->program = argv + optind;
	return -1;
}

/* ---- output ---- */

/* How the program ended, in words. */
static const char *end_text(const struct plan_result *result, char *text,
			    size_t bytes)
{
	switch (result->end) {
	case PLAN_STEPS:
		return "ended after its steps";
	case PLAN_TIME:
		return "ended at the limit of time";
	case PLAN_SIGNAL:
		return "ended by a signal";
	case PLAN_ENDED:
		break;
	}
	if (WIFSIGNALED(result->status))
		snprintf(text, bytes, "died of signal %d",
			 WTERMSIG(result->status));
	else
		snprintf(text, bytes, "ended with status %d",
			 WEXITSTATUS(result->status));
	return text;
}

static json_t *pool_json(const struct kiln_pool_info *pool)
{
	json_t *object = json_object();

	tool_add(object, "kind", json_string(pool_kind_name(pool->kind)));
	tool_add_count(object, "page_bytes", pool->page_bytes);
	tool_add_count(object, "max_slice_bytes", pool->max_slice_bytes);
	tool_add_count(object, "pages", pool->pages);
	tool_add_count(object, "peak_pages", pool->peak_pages);
	tool_add_count(object, "reserved_bytes", pool->reserved_bytes);
	tool_add_count(object, "largest_request_bytes",
		       pool->largest_request_bytes);
	return object;
}

static json_t *device_json(const struct kiln_plan_info *info)
{
	json_t *object = json_object(), *pools = json_array();

	tool_add(object, "process", json_integer((json_int_t)info->process));
	tool_add(object, "selector", tool_text(info->selector));
	tool_add_count(object, "steps", info->steps);
	tool_add_count(object, "peak_live_bytes", info->usage.peak_live_bytes);
	tool_add_count(object, "peak_reserved_bytes",
		       info->usage.peak_reserved_bytes);
	tool_add_count(object, "largest_request_bytes",
		       info->largest_request_bytes);
	tool_add_count(object, "driver_calls", info->usage.driver_calls);
	for (uint64_t i = 0; i < info->pool_count; i++)
		json_array_append_new(pools, pool_json(&info->pool[i]));
	tool_add(object, "pools_at_peak", pools);
	return object;
}

static int print_json(const struct plan_order *order,
		      const struct plan_result *result)
{
	json_t *object = json_object(), *list = json_array();
	json_t *devices = json_array();
	char text[64];
	int code;

	tool_add(object, "target", json_string(order->target));
	tool_add(object, "program", tool_text(order->program[0]));
	tool_add(object, "end", tool_text(end_text(result, text,
		 sizeof(text))));
	tool_add(object, "seconds", json_real(result->seconds));
	for (size_t i = 0; i < result->devices; i++)
		json_array_append_new(devices, device_json(&result->info[i]));
	tool_add(object, "devices", devices);
	tool_add_count(object, "devices_not_counted", result->lost);
	for (size_t i = 0; i < LEFT_OUT; i++)
		json_array_append_new(list, json_string(left_out[i]));
	tool_add(object, "not_in_these_figures", list);
	code = tool_print(object, true);
	json_decref(object);
	return code;
}

static void print_bytes(const char *name, uint64_t bytes)
{
	printf("  %-16s %" PRIu64 " bytes (%.3f GiB)\n", name, bytes,
	       (double)bytes / GIB);
}

static void print_pool(const struct kiln_pool_info *pool)
{
	if (!pool->peak_pages)
		return;
	printf("  %-16s %.1f MiB reserved in %" PRIu64
	       " pages, largest request %.1f MiB\n",
	       pool_kind_name(pool->kind),
	       (double)pool->reserved_bytes * 1024 / GIB,
	       pool->pages, (double)pool->largest_request_bytes * 1024 / GIB);
}

static void print_device(const struct kiln_plan_info *info)
{
	putchar('\n');
	tool_plain(info->selector);
	printf(" of process %" PRId64 ", %" PRIu64 " steps\n", info->process,
	       info->steps);
	print_bytes("peak live", info->usage.peak_live_bytes);
	print_bytes("peak reserved", info->usage.peak_reserved_bytes);
	print_bytes("largest request", info->largest_request_bytes);
	for (uint64_t i = 0; i < info->pool_count; i++)
		print_pool(&info->pool[i]);
}

static void print_text(const struct plan_order *order,
		       const struct plan_result *result)
{
	char text[64];

	printf("%s as %s: %s, %.1f s\n", order->program[0], order->target,
	       end_text(result, text, sizeof(text)), result->seconds);
	for (size_t i = 0; i < result->devices; i++)
		print_device(&result->info[i]);
	if (result->lost)
		printf("\n%" PRIu64 " more devices were not counted\n",
		       result->lost);
	printf("\nNot in these figures:\n");
	for (size_t i = 0; i < LEFT_OUT; i++)
		printf("  %s\n", left_out[i]);
}

/* ---- the command ---- */

/* The plan is good where the program did what it does otherwise. */
static int judge(const struct plan_order *order,
		 const struct plan_result *result)
{
	char text[64];

	if (!result->devices) {
		tool_complain("plan: %s opened no kiln device",
			      order->program[0]);
		return EXIT_FAILURE;
	}
	if (result->end == PLAN_SIGNAL ||
	    (result->end == PLAN_ENDED && result->status)) {
		tool_complain("plan: %s %s", order->program[0],
			      end_text(result, text, sizeof(text)));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static int run(int argc, char **argv)
{
	struct plan_order order = { .target = NULL };
	struct plan_result *result;
	int code = take_options(&order, argc, argv), printed = EXIT_SUCCESS;

	if (code >= 0)
		return code;
	result = calloc(1, sizeof(*result));
	if (!result) {
		tool_complain("plan: no memory");
		return EXIT_FAILURE;
	}
	code = plan_run(&order, result);
	if (!code) {
		code = judge(&order, result);
		if (result->devices && order.json)
			printed = print_json(&order, result);
		else if (result->devices)
			print_text(&order, result);
	}
	free(result);
	return code ? code : printed;
}

const struct tool_command tool_plan = {
	.name = "plan",
	.run = run,
	.usage = "plan --as TARGET [--steps N] [--time SECONDS] [--json]\n"
		 "            PROGRAM [ARGUMENT ...]",
	.summary = "tells the memory that a program would need on a device",
	.options = "  --as TARGET        cuda, vulkan, cpu or null\n"
		   "  --steps N          ends the program after N steps\n"
		   "  --time SECONDS     ends it after that time\n"
		   "  --json             as JSON\n"
		   "  --help, --version\n",
};
