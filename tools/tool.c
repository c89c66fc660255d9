/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_complain(const char *format, ...)
{
	char *text = NULL, *printable = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		printable = tool_printable(text);
	else
		text = NULL;
	va_end(args);
	fprintf(stderr, "kiln: %s\n", printable ? printable : "no memory");
	free(printable);
	free(text);
}

int tool_error(enum kiln_status status)
{
	tool_complain("%s: %s", kiln_status_name(status),
		      kiln_error_message());
	if (status == KILN_ERR_SELECTOR || status == KILN_ERR_NO_DEVICE)
		return TOOL_USAGE;
	return EXIT_FAILURE;
}

int tool_open(struct kiln_device **device, const char *selector)
{
	enum kiln_status status = kiln_device_open(device, selector);

	return status ? tool_error(status) : EXIT_SUCCESS;
}

int tool_finish(int code)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	tool_complain("writing to stdout: %s",
		      errno ? strerror(errno) : "failed");
	return code ? code : EXIT_FAILURE;
}

int tool_print_usage(const struct tool_command *command)
{
	printf("usage: kiln %s\n\n%s\n\n%s", command->usage, command->summary,
	       command->options);
	return EXIT_SUCCESS;
}

int tool_print_version(void)
{
	printf("kiln %s\n", kiln_version_string());
	return EXIT_SUCCESS;
}

/* ---- Options ---- */

enum option_id {
	OPT_DEVICE = 256,
	OPT_JSON,
	OPT_QUICK,
	OPT_SVG,
	OPT_HELP,
	OPT_VERSION
};

/* The bit that a subcommand must have for an option; 0: all take it. */
static unsigned needed_for(int id)
{
	switch (id) {
	case OPT_DEVICE:
		return TOOL_TAKES_DEVICE;
	case OPT_QUICK:
		return TOOL_TAKES_QUICK;
	case OPT_SVG:
		return TOOL_TAKES_SVG;
	default:
		return 0;
	}
}

static const struct option long_options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int bad_option(const struct tool_command *command, const char *text)
{
	tool_complain("%s: \"%s\" is no option or lacks its value; see kiln "
		      "help %s",
		      command->name, text, command->name);
	return TOOL_USAGE;
}

static int take_option(const struct tool_command *command,
		       struct tool_options *options, int id, const char *text)
{
	if (needed_for(id) & ~command->takes)
		return bad_option(command, text);
	switch (id) {
	case OPT_DEVICE:
		options->device = optarg;
		return -1;
	case OPT_JSON:
		options->json = true;
		return -1;
	case OPT_QUICK:
		options->quick = true;
		return -1;
	case OPT_SVG:
		options->svg = optarg;
		return -1;
	case OPT_HELP:
		return tool_print_usage(command);
	case OPT_VERSION:
		return tool_print_version();
	default:
		return bad_option(command, text);
	}
}

int tool_options(const struct tool_command *command,
		 struct tool_options *options, int argc, char **argv)
{
	int id, code;

	memset(options, 0, sizeof(*options));
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		code = take_option(command, options, id, argv[optind - 1]);
		if (code >= 0)
			return code;
	}
	options->operands = optind;
	return -1;
}
