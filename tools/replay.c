/* SPDX-License-Identifier: Apache-2.0 */
/* kiln replay - what a recorded stream of requests needs of the pools */
#include "tools/replay.h"

#include <getopt.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tool.h"

#define GIB (1024.0 * 1024 * 1024)

/* ---- what driver calls cost ---- */

enum cost_id { ALLOC, FREE, CREATE, MAP, ACCESS, UNMAP, RELEASE, COSTS };

/*
 * Microseconds of a call, as one large card of 2025 was measured: virtual
 * memory per page of 2 to 64 MiB, plain pages from allocating and freeing
 * 2 MiB.
 */
static const struct cost {
	const char *name;
	double us;
} default_costs[COSTS] = {
	[ALLOC] = { "alloc", 35 },
	[FREE] = { "free", 35 },
	[CREATE] = { "create", 9 },
	[MAP] = { "map", 6 },
	[ACCESS] = { "access", 26 },
	[UNMAP] = { "unmap", 20 },
	[RELEASE] = { "release", 10 },
};

static double modelled_us(const struct kiln_memory_calls *calls,
			  const double *us)
{
	return (double)calls->page_alloc * us[ALLOC] +
	       (double)calls->page_free * us[FREE] +
	       (double)calls->map_create * us[CREATE] +
	       (double)calls->map_attach * (us[MAP] + us[ACCESS]) +
	       (double)calls->map_detach * us[UNMAP] +
	       (double)calls->map_destroy * us[RELEASE];
}

/* ---- options ---- */

struct options {
	struct replay_order order;
	const char *svg;
	bool json, map, cost;
	double us[COSTS];
};

enum option_id {
	OPT_DEVICE = 256,
	OPT_PAGES,
	OPT_MAP,
	OPT_SVG,
	OPT_COST,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "pages", required_argument, NULL, OPT_PAGES },
	{ "map", no_argument, NULL, OPT_MAP },
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "cost", optional_argument, NULL, OPT_COST },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static bool take_pages(struct options *options, const char *text)
{
	if (!strcmp(text, "plain"))
		options->order.pages = KILN_PAGES_PLAIN;
	else if (!strcmp(text, "mapped"))
		options->order.pages = KILN_PAGES_MAPPED;
	else
		return false;
	return true;
}

/* One "NAME=MICROSECONDS", which ends at a comma or at the end. */
static const char *take_cost(struct options *options, const char *text)
{
	size_t length = strcspn(text, "=");
	char *end;
	double us;

	for (size_t i = 0; i < COSTS; i++) {
		if (strlen(default_costs[i].name) != length ||
		    strncmp(default_costs[i].name, text, length) ||
		    text[length] != '=')
			continue;
		us = strtod(text + length + 1, &end);
		if (end == text + length + 1 || !isfinite(us) || us < 0 ||
		    (*end && *end != ','))
			return NULL;
		options->us[i] = us;
		return *end ? end + 1 : end;
	}
	return NULL;
}

static bool take_costs(struct options *options, const char *text)
{
	options->cost = true;
	if (!text)
		return true;
	do
		text = take_cost(options, text);
	while (text && *text);
	return text != NULL;
}

static int usage_error(const char *what, const char *text)
{
	tool_complain("replay: %s \"%s\"; see kiln help replay", what, text);
	return TOOL_USAGE;
}

/* An exit status, or -1 to go on. */
static int take_option(struct options *options, int id, const char *text)
{
	switch (id) {
	case OPT_DEVICE:
		options->order.device = optarg;
		return -1;
	case OPT_PAGES:
		return take_pages(options, optarg)
			       ? -1
			       : usage_error("pages are plain or mapped, not",
					     optarg);
	case OPT_MAP:
		options->map = true;
		return -1;
	case OPT_SVG:
		options->svg = optarg;
		return -1;
	case OPT_COST:
		return take_costs(options, optarg)
			       ? -1
			       : usage_error("no list of costs:", optarg);
	case OPT_JSON:
		options->json = true;
		return -1;
	case OPT_HELP:
		return tool_print_usage(&tool_replay);
	case OPT_VERSION:
		return tool_print_version();
	default:
		return usage_error("no option, or its value is wrong:", text);
	}
}

static int take_options(struct options *options, int argc, char **argv)
{
	int id, code;

	memset(options, 0, sizeof(*options));
	for (size_t i = 0; i < COSTS; i++)
		options->us[i] = default_costs[i].us;
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		code = take_option(options, id, argv[optind - 1]);
		if (code >= 0)
			return code;
	}
	if (optind == argc)
		return usage_error("no trace is named:", "");
	if (optind + 1 < argc)
		return usage_error("unexpected", argv[optind + 1]);
	options->order.path = argv[optind];
	options->order.progress = isatty(STDERR_FILENO);
	return -1;
}

/* ---- the result as JSON ---- */

static double ratio_of(const struct kiln_memory_usage *usage)
{
	return usage->peak_live_bytes
		       ? (double)usage->peak_reserved_bytes /
				 (double)usage->peak_live_bytes
		       : 1;
}

static json_t *calls_json(const struct kiln_memory_calls *calls)
{
	json_t *object = json_object();

	tool_add_count(object, "page_alloc", calls->page_alloc);
	tool_add_count(object, "page_free", calls->page_free);
	tool_add_count(object, "map_create", calls->map_create);
	tool_add_count(object, "map_destroy", calls->map_destroy);
	tool_add_count(object, "map_attach", calls->map_attach);
	tool_add_count(object, "map_detach", calls->map_detach);
	return object;
}

static json_t *recorded_json(const struct trace_header *header)
{
	json_t *object = json_object();

	tool_add(object, "name", tool_text(header->name));
	tool_add(object, "seconds", json_real(header->seconds));
	tool_add_count(object, "peak_live_bytes", header->peak_live_bytes);
	tool_add_count(object, "peak_reserved_bytes",
		       header->peak_reserved_bytes);
	tool_add_count(object, "driver_allocations",
		       header->driver_allocations);
	return object;
}

static json_t *cost_json(const struct options *options,
			 const struct replay_result *result)
{
	double seconds = 1e-6 * modelled_us(&result->calls, options->us);
	json_t *object = json_object(), *us = json_object();

	for (size_t i = 0; i < COSTS; i++)
		tool_add(us, default_costs[i].name, json_real(options->us[i]));
	tool_add(object, "call_us", us);
	tool_add(object, "seconds", json_real(seconds));
	tool_add(object, "share_of_recorded",
		 result->header.seconds > 0
		    ? json_real(seconds / result->header.seconds)
		    : json_null());
	return object;
}

static json_t *pool_json(const struct kiln_pool_info *pool)
{
	json_t *object = json_object();

	tool_add(object, "kind", json_string(pool_kind_name(pool->kind)));
	tool_add_count(object, "page_bytes", pool->page_bytes);
	tool_add_count(object, "max_slice_bytes", pool->max_slice_bytes);
	tool_add_count(object, "pages", pool->pages);
	tool_add_count(object, "unmapped_pages", pool->unmapped_pages);
	tool_add_count(object, "allocations", pool->allocations);
	tool_add_count(object, "live_bytes", pool->live_bytes);
	tool_add_count(object, "cached_bytes", pool->cached_bytes);
	tool_add_count(object, "padding_bytes", pool->padding_bytes);
	tool_add_count(object, "reserved_bytes", pool->reserved_bytes);
	tool_add_count(object, "largest_hole_bytes", pool->largest_hole_bytes);
	return object;
}

static json_t *moment_json(const struct replay_moment *moment)
{
	json_t *object = json_object(), *pools = json_array();

	tool_add_count(object, "requests", moment->requests);
	tool_add_count(object, "line", moment->line);
	tool_add_count(object, "live_bytes", moment->usage.live_bytes);
	tool_add_count(object, "cached_bytes", moment->usage.cached_bytes);
	tool_add_count(object, "padding_bytes", moment->usage.padding_bytes);
	tool_add_count(object, "reserved_bytes", moment->usage.reserved_bytes);
	for (size_t i = 0; i < moment->pools; i++)
		json_array_append_new(pools, pool_json(&moment->pool[i]));
	tool_add(object, "pools", pools);
	return object;
}

static double pair_ns(const struct replay_result *result)
{
	return result->allocations ? (double)result->nanoseconds /
					     (double)result->allocations
				   : 0;
}

static int print_json(const struct options *options,
		      const struct replay_result *result,
		      const struct replay_moment *moment)
{
	const struct kiln_memory_usage *usage = &result->usage;
	json_t *object = json_object();
	int code;

	tool_add(object, "trace", tool_text(options->order.path));
	tool_add(object, "device", tool_text(result->device));
	tool_add(object, "pages", tool_text(result->mapping));
	tool_add_count(object, "allocations", result->allocations);
	tool_add_count(object, "frees", result->frees);
	tool_add_count(object, "peak_live_bytes", usage->peak_live_bytes);
	tool_add_count(object, "peak_reserved_bytes",
		       usage->peak_reserved_bytes);
	tool_add(object, "ratio", json_real(ratio_of(usage)));
	tool_add_count(object, "driver_calls", usage->driver_calls);
	tool_add(object, "driver_calls_by_kind", calls_json(&result->calls));
	tool_add(object, "ns_per_allocation_and_free",
		 json_real(pair_ns(result)));
	tool_add(object, "recorded", recorded_json(&result->header));
	if (options->cost)
		tool_add(object, "cost", cost_json(options, result));
	if (options->map)
		tool_add(object, "worst", moment_json(moment));
	code = tool_print(object, true);
	json_decref(object);
	return code;
}

/* ---- the result for people ---- */

static void print_bytes(const char *name, uint64_t bytes)
{
	printf("%-16s %" PRIu64 " bytes (%.3f GiB)\n", name, bytes,
	       (double)bytes / GIB);
}

static void print_calls(const struct replay_result *result)
{
	const struct kiln_memory_calls *calls = &result->calls;

	printf("driver calls     %" PRIu64 " (pages: %" PRIu64 " taken, %" PRIu64
	       " given back; memory: %" PRIu64 " created, %" PRIu64
	       " attached, %" PRIu64 " detached, %" PRIu64 " released)\n",
	       result->usage.driver_calls, calls->page_alloc, calls->page_free,
	       calls->map_create, calls->map_attach, calls->map_detach,
	       calls->map_destroy);
}

static void print_cost(const struct options *options,
		       const struct replay_result *result)
{
	double us = modelled_us(&result->calls, options->us);

	printf("driver time      %.3f ms", us / 1e3);
	if (result->header.seconds > 0)
		printf(", %.3f %% of the recorded program's %.1f s",
		       us / 1e4 / result->header.seconds,
		       result->header.seconds);
	printf(" (us a call:");
	for (size_t i = 0; i < COSTS; i++)
		printf(" %s %g", default_costs[i].name, options->us[i]);
	printf(")\n");
}

#define STRIP_COLUMNS 60

/* Cells of a strip for a part of all; what is there gets at least one. */
static int cells(uint64_t part, uint64_t all)
{
	int n = all ? (int)((double)part * STRIP_COLUMNS / (double)all) : 0;

	return part && !n ? 1 : n;
}

static void print_strip(const struct kiln_pool_info *pool)
{
	int used = cells(pool->live_bytes, pool->reserved_bytes);
	int padding = cells(pool->padding_bytes, pool->reserved_bytes);
	char strip[STRIP_COLUMNS + 1];

	memset(strip, '.', STRIP_COLUMNS);
	strip[STRIP_COLUMNS] = '\0';
	if (used + padding > STRIP_COLUMNS)
		used = STRIP_COLUMNS - padding;
	memset(strip, '#', (size_t)used);
	memset(strip + used, '+', (size_t)padding);
	if (pool->cached_bytes && used + padding == STRIP_COLUMNS)
		strip[STRIP_COLUMNS - 1] = '.';
	printf("  %-10s %10.1f MiB in %" PRIu64 " pages, largest hole %.1f MiB"
	       "\n  [%s]\n",
	       pool_kind_name(pool->kind),
	       (double)pool->reserved_bytes * 1024 / GIB,
	       pool->pages, (double)pool->largest_hole_bytes * 1024 / GIB,
	       strip);
}

static void print_moment(const struct replay_moment *moment)
{
	printf("\nworst moment     line %" PRIu64 ": %" PRIu64
	       " bytes reserved, of them %" PRIu64 " live, %" PRIu64
	       " cached, %" PRIu64 " padding\n",
	       moment->line, moment->usage.reserved_bytes,
	       moment->usage.live_bytes, moment->usage.cached_bytes,
	       moment->usage.padding_bytes);
	if (moment->published) {
		struct pool_style style = pool_find_style();

		pool_print_map(&moment->process, &style);
		return;
	}
	printf("                 # live, + padding, . cached\n");
	for (size_t i = 0; i < moment->pools; i++)
		if (moment->pool[i].reserved_bytes)
			print_strip(&moment->pool[i]);
}

static void print_text(const struct options *options,
		       const struct replay_result *result,
		       const struct replay_moment *moment)
{
	const struct trace_header *header = &result->header;

	printf("trace            %s", options->order.path);
	if (header->seconds > 0)
		printf(", recorded in %.1f s", header->seconds);
	printf("\ndevice           %s\npages            %s\n", result->device,
	       result->mapping);
	printf("requests         %" PRIu64 " allocations, %" PRIu64 " frees\n",
	       result->allocations, result->frees);
	print_bytes("peak live", result->usage.peak_live_bytes);
	print_bytes("peak reserved", result->usage.peak_reserved_bytes);
	printf("ratio            %.4f\n", ratio_of(&result->usage));
	print_calls(result);
	printf("time             %.1f ns for an allocation and its free\n",
	       pair_ns(result));
	if (options->cost)
		print_cost(options, result);
	if (options->map)
		print_moment(moment);
}

/* ---- the command ---- */

static int draw(const struct options *options,
		const struct replay_moment *moment)
{
	if (moment->published)
		return pool_draw(&moment->process, options->svg);
	tool_complain("replay: no picture: this process's pools are not "
		      "published; KILN_LOG=warn may say why");
	return EXIT_FAILURE;
}

static int run(int argc, char **argv)
{
	struct replay_moment moment = { .requests = 0 };
	struct replay_result result = { .allocations = 0 };
	struct replay_tape tape = { .count = 0 };
	struct options options;
	int code = take_options(&options, argc, argv);

	if (code >= 0)
		return code;
	setlocale(LC_CTYPE, "");
	if (options.map || options.svg)
		options.order.tape = &tape;
	code = replay_run(&options.order, &result);
	if (!code && (options.map || options.svg))
		code = replay_worst(&options.order, &moment);
	replay_tape_free(&tape);
	if (!code && options.svg)
		code = draw(&options, &moment);
	if (!code && options.json)
		code = print_json(&options, &result, &moment);
	else if (!code)
		print_text(&options, &result, &moment);
	pool_free(&moment.process);
	return code;
}

const struct tool_command tool_replay = {
	.name = "replay",
	.run = run,
	.usage = "replay [--device SELECTOR] [--pages KIND] [--cost[=LIST]] "
		 "[--map]\n            [--svg FILE] [--json] TRACE",
	.summary = "replays a recorded stream of memory requests on a device",
	.options = "  TRACE              a recording, plain or compressed by xz\n"
		   "  --device SELECTOR  cpu, null, auto ... (default: "
		   "$KILN_DEVICE)\n"
		   "  --pages KIND       plain, or mapped where the device can\n"
		   "  --cost[=LIST]      what the driver's calls would cost; "
		   "LIST is like\n"
		   "                     create=9,map=6 in microseconds\n"
		   "  --map              the pages at the worst moment\n"
		   "  --svg FILE         the same as a picture\n"
		   "  --json             as JSON\n"
		   "  --help, --version\n",
};
