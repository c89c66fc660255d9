/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <kiln/kiln.h>

/* Exit statuses of the kiln command, beside 0 and 1. */
#define TOOL_USAGE 2

/* Options that not every subcommand takes. */
enum tool_takes {
	TOOL_TAKES_DEVICE = 1,
	TOOL_TAKES_QUICK = 2,
	TOOL_TAKES_SVG = 4
};

/* A subcommand; argv[0] is its name. */
struct tool_command {
	const char *name;
	unsigned takes; /* bits of enum tool_takes */
	int (*run)(int argc, char **argv);
	const char *usage; /* what follows "kiln " */
	const char *summary;
	const char *options; /* one line each */
};

extern const struct tool_command tool_info, tool_bench, tool_pool,
	tool_inspect;
extern const struct tool_command tool_replay, tool_plan, tool_trace;

/* Options that all subcommands share. */
struct tool_options {
	const char *device, *svg;
	bool json, quick;
	int operands; /* index of the first operand in argv */
};

/*
 * Reads the options of a subcommand. Returns an exit status, or -1 where the
 * subcommand goes on. All take --json, --help and --version.
 */
int tool_options(const struct tool_command *command,
		 struct tool_options *options, int argc, char **argv);

/*
 * One line on stderr that begins with the command's name. What it tells may
 * come from a file or another program: control characters become "?".
 */
void tool_complain(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Tells a failed call's detail; returns the exit status that goes with it. */
int tool_error(enum kiln_status status);

/* Opens a device or tells why not: an exit status, 0 on success. */
int tool_open(struct kiln_device **device, const char *selector);

/* The exit status, after everything on stdout has really been written. */
int tool_finish(int code);

int tool_print_usage(const struct tool_command *command);
int tool_print_version(void);

/* A string whatever its bytes: what is not UTF-8 becomes U+FFFD. */
json_t *tool_text(const char *text);

/* The same as plain text; the caller frees it. NULL: no memory. */
char *tool_clean(const char *text);

/* The same with "?" for control characters. */
char *tool_printable(const char *text);

/* Prints it so. */
void tool_plain(const char *text);

/* Adds a member, which the object owns then. */
void tool_add(json_t *object, const char *name, json_t *value);

/* The same of a count: an integer where JSON has one, else the next real. */
void tool_add_count(json_t *object, const char *name, uint64_t n);

/* Writes a value as JSON, or as indented text for people. */
int tool_print(json_t *value, bool as_json);

#endif
