/* SPDX-License-Identifier: Apache-2.0 */
/* kiln bench - times single operations */
#include "tools/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tool.h"

/* Which cases the operands of the command name; none: all. */
struct filter {
	int count;
	char **names;
};

static bool is_named(const struct bench_case *what, const char *name)
{
	return !strcmp(what->name, name) || !strcmp(what->group, name);
}

static bool is_wanted(const struct filter *filter,
		      const struct bench_case *what)
{
	for (int i = 0; i < filter->count; i++)
		if (is_named(what, filter->names[i]))
			return true;
	return !filter->count;
}

/* The first name that is neither a case nor a group, or NULL. */
static const char *unknown_name(const struct filter *filter)
{
	for (int i = 0; i < filter->count; i++) {
		size_t at = 0;

		while (at < bench_case_count &&
		       !is_named(&bench_cases[at], filter->names[i]))
			at++;
		if (at == bench_case_count)
			return filter->names[i];
	}
	return NULL;
}

/* ---- One row ---- */

static void add_times(json_t *row, const struct bench_case *what,
		      const struct bench_time *time)
{
	json_object_set_new(row, "median_seconds", json_real(time->median));
	json_object_set_new(row, "best_seconds", json_real(time->best));
	json_object_set_new(row, "rate", json_real(what->worth / time->median));
	json_object_set_new(row, "unit", json_string(what->unit));
	json_object_set_new(row, "samples", json_integer(time->samples));
	json_object_set_new(row, "rounds",
			    json_integer((json_int_t)time->rounds));
}

/* A dtype that the device lacks leaves the row without times. */
static json_t *measure(const struct bench_case *what,
		       struct kiln_device *device, bool quick, int *code)
{
	json_t *row = json_object();
	struct bench_time time;

	json_object_set_new(row, "name", json_string(what->name));
	json_object_set_new(row, "group", json_string(what->group));
	if (!kiln_device_supports_dtype(device, what->dtype)) {
		json_object_set_new(row, "skipped",
				    json_string("dtype not supported"));
	} else if (bench_measure(&time, device, what, quick)) {
		json_object_set_new(row, "error",
				    tool_text(kiln_error_message()));
		tool_complain("bench: %s: %s", what->name,
			      kiln_error_message());
		*code = EXIT_FAILURE;
	} else {
		add_times(row, what, &time);
	}
	return row;
}

static void show_progress(size_t at, const char *name)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r[%zu/%zu] %-30s", at + 1, bench_case_count,
			name);
}

static void hide_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%50s\r", "");
}

static json_t *measure_all(const struct filter *filter,
			   struct kiln_device *device, bool quick, int *code)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < bench_case_count; i++) {
		if (!is_wanted(filter, &bench_cases[i]))
			continue;
		show_progress(i, bench_cases[i].name);
		json_array_append_new(rows, measure(&bench_cases[i], device,
						    quick, code));
	}
	hide_progress();
	return rows;
}

/* ---- Output ---- */

static const char *text_of(json_t *row, const char *name)
{
	return json_string_value(json_object_get(row, name));
}

static double number_of(json_t *row, const char *name)
{
	return json_number_value(json_object_get(row, name));
}

/* A time in the unit that suits it. */
static void print_time(double seconds)
{
	static const char *const units[] = { "s", "ms", "us", "ns" };
	int unit = 0;

	while (seconds < 1 && unit < 3) {
		seconds *= 1e3;
		unit++;
	}
	printf(" %9.3f %-2s", seconds, units[unit]);
}

static void print_row(json_t *row)
{
	const char *reason = text_of(row, "skipped");

	if (!reason)
		reason = text_of(row, "error");
	printf("%-12s %-24s", text_of(row, "group"), text_of(row, "name"));
	if (reason) {
		printf(" %s\n", reason);
		return;
	}
	print_time(number_of(row, "median_seconds"));
	print_time(number_of(row, "best_seconds"));
	printf(" %10.2f %s\n", number_of(row, "rate"), text_of(row, "unit"));
}

static void print_table(json_t *result)
{
	size_t i;
	json_t *row;

	printf("device     %s: ", text_of(result, "device"));
	printf("%s\n", text_of(result, "setup"));
	printf("first op  ");
	print_time(number_of(result, "first_op_seconds"));
	printf(" after the start of its device\n\n");
	printf("%-12s %-24s %12s %12s %10s\n", "group", "name", "median",
	       "best", "rate");
	json_array_foreach(json_object_get(result, "results"), i, row)
	{
		print_row(row);
	}
}

/* ---- The command ---- */

static json_t *bench(struct kiln_device *device, double first_op_seconds,
		     const struct filter *filter, bool quick, int *code)
{
	json_t *result = json_object();

	json_object_set_new(result, "version",
			    tool_text(kiln_version_string()));
	json_object_set_new(result, "device",
			    tool_text(kiln_device_selector(device)));
	json_object_set_new(result, "setup",
			    tool_text(kiln_device_describe(device)));
	json_object_set_new(result, "workers",
			    json_integer(kiln_device_workers(device)));
	json_object_set_new(result, "first_op_seconds",
			    json_real(first_op_seconds));
	json_object_set_new(result, "results",
			    measure_all(filter, device, quick, code));
	return result;
}

static int run_on(const struct tool_options *options,
		  const struct filter *filter, struct kiln_device *device,
		  double first_op_seconds)
{
	int code = EXIT_SUCCESS;
	json_t *result = bench(device, first_op_seconds, filter, options->quick,
			       &code);

	if (!options->json)
		print_table(result);
	else if (tool_print(result, true))
		code = EXIT_FAILURE;
	json_decref(result);
	return code;
}

static int run(int argc, char **argv)
{
	struct tool_options options;
	struct filter filter;
	struct kiln_device *device = NULL;
	enum kiln_status status;
	double seconds;
	int code = tool_options(&tool_bench, &options, argc, argv);

	if (code >= 0)
		return code;
	filter.count = argc - options.operands;
	filter.names = argv + options.operands;
	if (unknown_name(&filter)) {
		tool_complain("bench: \"%s\" is no benchmark; see kiln help "
			      "bench",
			      unknown_name(&filter));
		return TOOL_USAGE;
	}
	status = bench_first_op(&device, options.device, &seconds);
	code = status ? tool_error(status)
		      : run_on(&options, &filter, device, seconds);
	kiln_device_release(device);
	return code;
}

const struct tool_command tool_bench = {
	.name = "bench",
	.takes = TOOL_TAKES_DEVICE | TOOL_TAKES_QUICK,
	.run = run,
	.usage = "bench [--device SELECTOR] [--json] [--quick] [NAME ...]",
	.summary = "times single operations, calls and allocations",
	.options = "  NAME               a row's name or a group: matmul, copy, "
		   "elementwise,\n"
		   "                     reduction, overhead, allocation\n"
		   "  --device SELECTOR  cpu, null, auto ... (default: "
		   "$KILN_DEVICE)\n"
		   "  --quick            fewer samples\n"
		   "  --json             as JSON\n"
		   "  --help, --version\n",
};
