/* SPDX-License-Identifier: Apache-2.0 */
/* kiln - what the library finds here, how fast it is, and its memory */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tool_command *const commands[] = {
	&tool_info,
	&tool_bench,
	&tool_pool,
	&tool_inspect,
	&tool_replay,
	&tool_plan,
	&tool_trace,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct tool_command *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int print_help(FILE *to)
{
	fprintf(to, "usage: kiln COMMAND [option ...]\n\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-8s %s\n", commands[i]->name,
			commands[i]->summary);
	fprintf(to, "  %-8s %s\n", "help", "this text, or that of a command");
	fprintf(to, "\nkiln --version prints the version; "
		    "kiln COMMAND --help, a command's options.\n");
	return EXIT_SUCCESS;
}

static int unknown(const char *name)
{
	tool_complain("\"%s\" is no command; see kiln help", name);
	return TOOL_USAGE;
}

static int help(int argc, char **argv)
{
	const struct tool_command *command;

	if (argc < 2)
		return print_help(stdout);
	if (argc > 2)
		return unknown(argv[2]);
	command = find(argv[1]);
	return command ? tool_print_usage(command) : unknown(argv[1]);
}

static int dispatch(int argc, char **argv)
{
	const struct tool_command *command;

	if (argc < 2) {
		print_help(stderr);
		return TOOL_USAGE;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help"))
		return help(argc - 1, argv + 1);
	if (!strcmp(argv[1], "--version"))
		return tool_print_version();
	command = find(argv[1]);
	return command ? command->run(argc - 1, argv + 1) : unknown(argv[1]);
}

int main(int argc, char **argv)
{
	return tool_finish(dispatch(argc, argv));
}
