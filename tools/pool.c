/* SPDX-License-Identifier: Apache-2.0 */
/* kiln pool - the memory pools of running processes */
#define _GNU_SOURCE
#include "tools/pool.h"

#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/tool.h"

struct options {
	const char *who;           /* process number or segment; NULL: all */
	const char *svg;
	double interval;           /* seconds; 0: once */
	bool json, metrics, map;
};

/* ---- reading ---- */

void pool_free(struct pool_process *process)
{
	for (size_t i = 0; process->devices && i < process->info.devices; i++) {
		free(process->devices[i].pools);
		free(process->devices[i].pages);
	}
	free(process->devices);
	process->devices = NULL;
}

static void free_list(struct pool_process *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		pool_free(&list[i]);
	free(list);
}

static int no_memory(void)
{
	tool_complain("pool: no memory");
	return EXIT_FAILURE;
}

static int read_device(const struct kiln_view *view, size_t number,
		       struct pool_device *device)
{
	struct kiln_view_device *info = &device->info;

	info->struct_size = sizeof(*info);
	if (kiln_view_device(view, number, info))
		return tool_error(kiln_error_status());
	device->pools = calloc(info->pools + 1, sizeof(*device->pools));
	device->pages = calloc(info->pages + 1, sizeof(*device->pages));
	if (!device->pools || !device->pages)
		return no_memory();
	for (size_t i = 0; i < info->pools; i++) {
		device->pools[i].struct_size = sizeof(device->pools[i]);
		if (kiln_view_pool(view, number, i, &device->pools[i]))
			return tool_error(kiln_error_status());
	}
	for (size_t i = 0; i < info->pages; i++) {
		device->pages[i].struct_size = sizeof(device->pages[i]);
		if (kiln_view_page(view, number, i, &device->pages[i]))
			return tool_error(kiln_error_status());
	}
	return EXIT_SUCCESS;
}

int pool_read(const struct kiln_view *view, struct pool_process *process)
{
	int code = EXIT_SUCCESS;

	memset(process, 0, sizeof(*process));
	process->info.struct_size = sizeof(process->info);
	if (kiln_view_process(view, &process->info))
		return tool_error(kiln_error_status());
	process->devices = calloc(process->info.devices + 1,
				  sizeof(*process->devices));
	if (!process->devices)
		return no_memory();
	for (size_t i = 0; !code && i < process->info.devices; i++)
		code = read_device(view, i, &process->devices[i]);
	if (code)
		pool_free(process);
	return code;
}

/* There may be more of them by the second call. */
int pool_enumerate(struct kiln_view_process **infos, size_t *count)
{
	size_t capacity;

	*infos = NULL;
	if (kiln_view_enumerate(NULL, count))
		return tool_error(kiln_error_status());
	capacity = *count + 16;
	*infos = calloc(capacity, sizeof(**infos));
	if (!*infos)
		return no_memory();
	for (size_t i = 0; i < capacity; i++)
		(*infos)[i].struct_size = sizeof(**infos);
	*count = capacity;
	if (kiln_view_enumerate(*infos, count)) {
		free(*infos);
		return tool_error(kiln_error_status());
	}
	if (*count > capacity)
		*count = capacity;
	return EXIT_SUCCESS;
}

/* The list; whole: with all devices of those that can be read. */
static int read_list(bool whole, struct pool_process **out, size_t *count)
{
	struct kiln_view_process *infos;
	struct pool_process *list;
	int code = pool_enumerate(&infos, count);

	if (code)
		return code;
	list = calloc(*count + 1, sizeof(*list));
	for (size_t i = 0; list && i < *count; i++) {
		struct kiln_view *view = NULL;

		list[i].info = infos[i];
		/* One that has ended meanwhile stays a row of the list. */
		if (!whole || infos[i].status ||
		    kiln_view_open(&view, infos[i].segment))
			continue;
		code = pool_read(view, &list[i]);
		kiln_view_release(view);
		if (code)
			break;
	}
	free(infos);
	if (!list)
		return no_memory();
	if (code)
		free_list(list, *count);
	*out = list;
	return code;
}

/* ---- finding one ---- */

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static bool is_meant(const struct kiln_view_process *info, const char *who)
{
	char number[24];

	if (!is_number(who))
		return !strcmp(info->segment, who);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)info->pid);
	return !strcmp(number, who);
}

static int refuse(const struct kiln_view_process *info)
{
	if (info->native == EACCES || info->native == EPERM)
		tool_complain("pool: process %llu belongs to user %llu: %s",
			      (unsigned long long)info->pid,
			      (unsigned long long)info->uid, info->reason);
	else
		tool_complain("pool: process %llu: %s",
			      (unsigned long long)info->pid, info->reason);
	return EXIT_FAILURE;
}

/* Numbers are not unique where containers share the folder. */
static int refuse_several(const struct kiln_view_process *infos, size_t count,
			  const char *who)
{
	tool_complain("pool: several processes have number %s; say which:",
		      who);
	for (size_t i = 0; i < count; i++)
		if (is_meant(&infos[i], who))
			tool_complain("pool:   %s", infos[i].segment);
	return TOOL_USAGE;
}

static int find(const char *who, struct kiln_view_process *found)
{
	struct kiln_view_process *infos;
	size_t count, matches = 0;
	int code = pool_enumerate(&infos, &count);

	if (code)
		return code;
	for (size_t i = 0; i < count; i++)
		if (is_meant(&infos[i], who) && !matches++)
			*found = infos[i];
	if (matches > 1)
		code = refuse_several(infos, count, who);
	else if (matches && found->status)
		code = refuse(found);
	free(infos);
	if (matches)
		return code;
	tool_complain("pool: no process %s publishes its pools", who);
	return TOOL_USAGE;
}

/* ---- output ---- */

struct pool_style pool_find_style(void)
{
	struct pool_style style = { .columns = 80 };
	struct winsize size;
	bool tty = isatty(STDOUT_FILENO);
	const char *text = getenv("COLUMNS");

	if (tty && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		style.columns = size.ws_col;
	else if (text && is_number(text) && strlen(text) < 5)
		style.columns = (unsigned)atoi(text);
	style.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	text = getenv("NO_COLOR");
	style.colour = tty && !(text && *text);
	return style;
}

/* Where stdout fails, whoever ends the command says so. */
static int print_json(json_t *value, bool compact)
{
	size_t flags = compact ? JSON_COMPACT : JSON_INDENT(2);
	bool good = value && !json_dumpf(value, stdout, flags);

	putchar('\n');
	json_decref(value);
	if (!good && !ferror(stdout))
		tool_complain("pool: the result cannot be written as JSON");
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int show_list(const struct options *options,
		     const struct pool_process *list, size_t count)
{
	if (options->metrics)
		return pool_print_metrics(list, count) ? EXIT_SUCCESS
						       : no_memory();
	if (options->json)
		return print_json(pool_json_list(list, count),
				  options->interval > 0);
	pool_print_list(list, count);
	return EXIT_SUCCESS;
}

static int show_process(const struct options *options,
			const struct pool_process *process)
{
	struct pool_style style;

	if (options->svg)
		return pool_draw(process, options->svg);
	if (options->metrics)
		return show_list(options, process, 1);
	if (options->json)
		return print_json(pool_json_process(process),
				  options->interval > 0);
	pool_print_process(process);
	if (options->map) {
		style = pool_find_style();
		pool_print_map(process, &style);
	}
	return EXIT_SUCCESS;
}

static int run_list(const struct options *options)
{
	struct pool_process *list;
	size_t count;
	int code = read_list(options->metrics, &list, &count);

	if (code)
		return code;
	code = show_list(options, list, count);
	free_list(list, count);
	return code;
}

static int run_view(const struct options *options, struct kiln_view *view)
{
	struct pool_process process;
	int code;

	/* The process may be quicker than we are: what we have still holds. */
	if (kiln_view_refresh(view) && kiln_error_status() != KILN_ERR_BUSY)
		return tool_error(kiln_error_status());
	code = pool_read(view, &process);
	if (code)
		return code;
	code = show_process(options, &process);
	pool_free(&process);
	return code;
}

/* ---- watching ---- */

static void pause_for(double seconds)
{
	struct timespec rest = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - floor(seconds)) * 1e9),
	};

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

/* On a terminal in place of what was there; in a pipe a block after another. */
static void begin_block(const struct options *options, bool first)
{
	if (options->interval <= 0 || options->svg)
		return;
	if (isatty(STDOUT_FILENO) && !options->json)
		fputs("\033[H\033[2J", stdout);
	else if (!first && !options->json)
		putchar('\n');
}

static bool has_ended(const struct kiln_view *view)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };

	return kiln_view_process(view, &info) || !info.live;
}

static int watch(const struct options *options, struct kiln_view *view)
{
	bool first = true, ended;
	int code;

	for (;;) {
		/* Asked first: so the last block is the last there will be. */
		ended = view && has_ended(view);
		begin_block(options, first);
		code = view ? run_view(options, view) : run_list(options);
		if (code || options->interval <= 0)
			return code;
		/* Whoever ends the command says why. */
		if (fflush(stdout) || ferror(stdout))
			return EXIT_FAILURE;
		if (ended) {
			tool_complain("pool: process %s has ended",
				      options->who);
			return EXIT_SUCCESS;
		}
		first = false;
		pause_for(options->interval);
	}
}

static int run_one(const struct options *options)
{
	struct kiln_view_process info = { .struct_size = sizeof(info) };
	struct kiln_view *view = NULL;
	int code = find(options->who, &info);

	if (code)
		return code;
	if (kiln_view_open(&view, info.segment))
		return tool_error(kiln_error_status());
	code = watch(options, view);
	kiln_view_release(view);
	return code;
}

/* ---- the command ---- */

enum option_id {
	OPT_WATCH = 256,
	OPT_MAP,
	OPT_SVG,
	OPT_JSON,
	OPT_METRICS,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "watch", optional_argument, NULL, OPT_WATCH },
	{ "map", no_argument, NULL, OPT_MAP },
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "openmetrics", no_argument, NULL, OPT_METRICS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int wrong(const char *text, const char *why)
{
	tool_complain("pool: \"%s\": %s; see kiln help pool", text, why);
	return TOOL_USAGE;
}

/* Digits with a point among them: no sign, exponent, or infinity. */
static bool is_decimal(const char *text)
{
	return *text && strspn(text, "0123456789.") == strlen(text);
}

static int take_interval(struct options *options, const char *text)
{
	char *end = NULL;

	options->interval = 1;
	if (!text)
		return -1;
	options->interval = is_decimal(text) ? strtod(text, &end) : 0;
	if (options->interval >= 0.01 && options->interval <= 3600 && !*end)
		return -1;
	return wrong(text, "no number of seconds from 0.01 to 3600 (a process "
			   "number goes in front of --watch)");
}

/* A number right behind --watch belongs to it. */
static const char *interval_text(int argc, char **argv)
{
	if (!optarg && optind < argc && is_decimal(argv[optind]))
		return argv[optind++];
	return optarg;
}

static int take_option(struct options *options, int id, int argc, char **argv)
{
	const char *text = argv[optind - 1];

	switch (id) {
	case OPT_WATCH:
		return take_interval(options, interval_text(argc, argv));
	case OPT_MAP:
		options->map = true;
		return -1;
	case OPT_SVG:
		options->svg = optarg;
		return -1;
	case OPT_JSON:
		options->json = true;
		return -1;
	case OPT_METRICS:
		options->metrics = true;
		return -1;
	case OPT_HELP:
		return tool_print_usage(&tool_pool);
	case OPT_VERSION:
		return tool_print_version();
	default:
		return wrong(text, "no option, or it lacks its value");
	}
}

static int check(const struct options *options)
{
	if (options->map + options->json + options->metrics +
		    (options->svg != NULL) > 1)
		return wrong("--map --svg --json --openmetrics",
			     "only one of them");
	if ((options->map || options->svg) && !options->who)
		return wrong(options->map ? "--map" : "--svg",
			     "needs a process");
	if (options->metrics && options->interval > 0)
		return wrong("--openmetrics", "not with --watch");
	return -1;
}

static int take_options(struct options *options, int argc, char **argv)
{
	int id, code;

	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		code = take_option(options, id, argc, argv);
		if (code >= 0)
			return code;
	}
	if (optind < argc)
		options->who = argv[optind++];
	if (optind < argc)
		return wrong(argv[optind], "unexpected");
	return check(options);
}

static int run(int argc, char **argv)
{
	struct options options = { .who = NULL };
	int code = take_options(&options, argc, argv);

	if (code >= 0)
		return code;
	setlocale(LC_CTYPE, "");
	return options.who ? run_one(&options) : watch(&options, NULL);
}

const struct tool_command tool_pool = {
	.name = "pool",
	.run = run,
	.usage = "pool [--watch [SECONDS]] [--json | --openmetrics]\n"
		 "       kiln pool PROCESS [--watch [SECONDS]] "
		 "[--map | --svg FILE | --json | --openmetrics]",
	.summary = "the memory pools of running processes",
	.options = "  PROCESS            process number, or name of a segment; "
		   "default: a list\n"
		   "  --watch [SECONDS]  again and again (default: every "
		   "second)\n"
		   "  --map              the pages as strips of characters\n"
		   "  --svg FILE         the pages as a picture\n"
		   "  --json             as JSON\n"
		   "  --openmetrics      as OpenMetrics text\n"
		   "  --help, --version\n",
};
