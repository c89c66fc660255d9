/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* kiln trace: what a program does with kiln, and when */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/program.h"
#include "tools/timeline.h"
#include "tools/tool.h"

#define DEFAULT_FILE "kiln-trace.json"
#define LEAST_LIMIT 131072
/* How often to look whether the program has ended; its end wakes us too. */
#define LOOK_NS 100000000

struct tracing {
	const char *path;        /* of the trace */
	const char *from;        /* a folder that is there, or NULL */
	char limit[32];          /* bytes, "" for the library's own */
	bool json;
	char **argv;             /* of the program */
	char folder[PATH_MAX];   /* where its processes write */
	struct program program;
	struct timeline timeline;
};

/* ---- options ---- */

enum option_id {
	OPT_OUTPUT = 'o', /* -o too */
	OPT_LIMIT = 256,
	OPT_FROM,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int usage_error(const char *what, const char *text)
{
	tool_complain("trace: %s \"%s\"; see kiln help trace", what, text);
	return TOOL_USAGE;
}

/* A number of bytes, with K, M, G or T behind it or nothing. */
static int take_limit(struct tracing *t, const char *text)
{
	static const char letters[] = "KMGT";
	unsigned long long bytes = 0;
	unsigned shift = 0;
	const char *letter;
	char *end = NULL;

	errno = 0;
	if (*text >= '0' && *text <= '9')
		bytes = strtoull(text, &end, 10);
	letter = end && *end ? strchr(letters, *end) : NULL;
	if (letter) {
		shift = 10 * (unsigned)(letter - letters + 1);
		end++;
	}
	if (!end || *end || errno || bytes > (UINT64_C(1) << 40) >> shift)
		return usage_error("no size of a trace:", text);
	bytes <<= shift;
	if (bytes < LEAST_LIMIT)
		return usage_error("a trace has 128K or more, not", text);
	snprintf(t->limit, sizeof(t->limit), "%llu", bytes);
	return -1;
}

/* An exit status, or -1 to go on. */
static int take_option(struct tracing *t, int id, const char *text)
{
	switch (id) {
	case OPT_OUTPUT:
		if (!*optarg)
			return usage_error("no name of a file:", "");
		t->path = optarg;
		return -1;
	case OPT_LIMIT:
		return take_limit(t, optarg);
	case OPT_FROM:
		t->from = optarg;
		return -1;
	case OPT_JSON:
		t->json = true;
		return -1;
	case OPT_HELP:
		return tool_print_usage(&tool_trace);
	case OPT_VERSION:
		return tool_print_version();
	default:
		return usage_error("no option, or its value is wrong:", text);
	}
}

/* Options end at the program, whose own are none of ours. */
static int take_options(struct tracing *t, int argc, char **argv)
{
	int id, code;

	opterr = 0;
	while ((id = getopt_long(argc, argv, "+o:", long_options, NULL)) !=
	       -1) {
		code = take_option(t, id, argv[optind - 1]);
		if (code >= 0)
			return code;
	}
	if (t->from && optind < argc)
		return usage_error("with --from no program is run:",
				   argv[optind]);
	if (!t->from && optind == argc)
		return usage_error("no program is named after",
				   argv[argc - 1]);
	t->argv = argv + optind;
	return -1;
}

/* ---- the folder ---- */

static int fail(const char *what)
{
	tool_complain("trace: %s: %s", what, strerror(errno));
	return EXIT_FAILURE;
}

/* A file that is replaced: not a device, say. */
static int check_place(const struct tracing *t)
{
	struct stat about;

	if (stat(t->path, &about) || S_ISREG(about.st_mode))
		return EXIT_SUCCESS;
	tool_complain("trace: %s is there and no regular file", t->path);
	return EXIT_FAILURE;
}

/*
 * The processes' files lie beside the trace: where there is room for that
 * there should be for them, and what has been killed can be told from them.
 */
static int make_folder(struct tracing *t)
{
	char name[PATH_MAX];
	int length = snprintf(name, sizeof(name), "%s.parts-XXXXXX", t->path);

	if (length < 0 || (size_t)length >= sizeof(name) - 32) {
		tool_complain("trace: %s: the name is too long", t->path);
		return EXIT_FAILURE;
	}
	if (!mkdtemp(name))
		return fail(t->path);
	/* The program may change its folder. */
	if (!realpath(name, t->folder)) {
		(void)fail(name);
		rmdir(name);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* The files in it have been read. */
static void remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "process.", 8))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	if (rmdir(folder))
		(void)fail(folder);
}

/* ---- the program ---- */

static bool prepare(void *arg)
{
	const struct tracing *t = arg;
	char prefix[PATH_MAX + 16];

	snprintf(prefix, sizeof(prefix), "%s/process", t->folder);
	if (setenv("KILN_TRACE", prefix, 1) ||
	    (*t->limit && setenv("KILN_TRACE_LIMIT", t->limit, 1)))
		return false;
	/* The summary has stdout for itself. */
	return !t->json || dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

/* Its exit status, or 128 and the signal that ended it. */
static int status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}

static int run_program(struct tracing *t)
{
	const struct timespec none = { 0, 0 };
	int code;

	if (program_hold_signals(&t->program))
		return EXIT_FAILURE;
	code = program_start(&t->program, t->argv, prepare, t);
	if (!code) {
		while (!program_has_ended(&t->program))
			(void)program_pass_on(&t->program, LOOK_NS);
		/* What came too late for it does not end us. */
		while (sigtimedwait(&t->program.passed_on, NULL, &none) > 0)
			;
		program_let_signals(&t->program);
		return status_of(t->program.status);
	}
	if (code < 0)
		return EXIT_FAILURE;
	return code == ENOENT ? 127 : 126;
}

/* ---- the trace ---- */

/* Beside the trace, under a name that nothing has; NULL with errno. */
static FILE *create_new(const struct tracing *t, char path[PATH_MAX])
{
	FILE *file = NULL;

	for (unsigned i = 0; i < 1000 && !file; i++) {
		int length = snprintf(path, PATH_MAX, "%s.new-%ld.%u", t->path,
				      (long)getpid(), i);

		if (length < 0 || length >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return NULL;
		}
		file = fopen(path, "wxe");
		if (!file && errno != EEXIST)
			return NULL;
	}
	return file;
}

/* A new file, which takes the place of the old one when it is whole. */
static int write_trace(const struct tracing *t)
{
	char path[PATH_MAX];
	FILE *file = create_new(t, path);
	int code;

	if (!file)
		return fail(t->path);
	code = timeline_write(&t->timeline, file, path);
	if (!code && rename(path, t->path))
		code = fail(t->path);
	if (code)
		unlink(path);
	return code;
}

static const char *stop_text(const struct kiln_trace_info *info)
{
	return info->stopped < 0 ? "the limit is reached (--limit)"
				 : strerror(info->stopped);
}

static void complain_of_stops(const struct tracing *t)
{
	for (size_t i = 0; i < t->timeline.processes; i++) {
		const struct kiln_trace_info *info =
			&t->timeline.process[i].info;

		if (info->stopped)
			tool_complain("trace: process %" PRId64 " (%s) was "
				      "not traced to its end: %s",
				      info->process, info->program,
				      stop_text(info));
	}
	if (!t->timeline.processes)
		tool_complain("trace: %s opened no kiln device", t->argv[0]);
}

static void print_text(const struct tracing *t)
{
	const struct timeline *timeline = &t->timeline;

	tool_complain("trace: %s: %zu processes, %" PRIu64 " submissions, "
		      "%" PRIu64 " launches, %" PRIu64 " windows", t->path,
		      timeline->processes,
		      timeline_count(timeline, KILN_TRACE_SUBMIT),
		      timeline_count(timeline, KILN_TRACE_LAUNCH),
		      timeline_count(timeline, KILN_TRACE_WINDOW));
	if (timeline->unreadable)
		tool_complain("trace: files that were left out: %zu",
			      timeline->unreadable);
}

static json_t *process_json(const struct timeline_process *process)
{
	json_t *object = json_object();

	tool_add(object, "process",
		 json_integer((json_int_t)process->info.process));
	tool_add(object, "program", tool_text(process->info.program));
	tool_add_count(object, "submissions", process->count[KILN_TRACE_SUBMIT]);
	tool_add_count(object, "launches", process->count[KILN_TRACE_LAUNCH]);
	tool_add_count(object, "windows", process->count[KILN_TRACE_WINDOW]);
	tool_add_count(object, "driver_calls",
		       process->count[KILN_TRACE_DRIVER]);
	tool_add(object, "stopped",
		 process->info.stopped ? tool_text(stop_text(&process->info))
				       : json_null());
	return object;
}

static int print_json(const struct tracing *t, int status)
{
	json_t *object = json_object(), *processes = json_array();
	int code;

	tool_add(object, "file", tool_text(t->path));
	tool_add(object, "status",
		 t->from ? json_null() : json_integer(status));
	for (size_t i = 0; i < t->timeline.processes; i++)
		json_array_append_new(processes,
				      process_json(&t->timeline.process[i]));
	tool_add(object, "processes", processes);
	tool_add_count(object, "unreadable", t->timeline.unreadable);
	code = tool_print(object, true);
	json_decref(object);
	return code;
}

/* A program without a device has an empty trace; a folder is the wrong one. */
static int check_processes(const struct tracing *t)
{
	if (!t->from || t->timeline.processes)
		return EXIT_SUCCESS;
	tool_complain("trace: %s has nothing that a process wrote", t->from);
	return EXIT_FAILURE;
}

/* Makes the trace of what lies in the folder, and tells of it. */
static int finish(struct tracing *t, const char *folder, int status)
{
	int code = timeline_read(&t->timeline, folder);

	if (!code)
		code = check_processes(t);
	if (!code)
		code = write_trace(t);
	if (code) {
		if (!t->from)
			tool_complain("trace: what was gathered is in %s; see "
				      "--from",
				      folder);
	} else {
		complain_of_stops(t);
		if (t->json)
			code = print_json(t, status);
		else
			print_text(t);
		if (!t->from)
			remove_folder(folder);
	}
	timeline_free(&t->timeline);
	return code;
}

/* ---- the command ---- */

static int trace_program(struct tracing *t)
{
	int code = make_folder(t), status;

	if (code)
		return code;
	status = run_program(t);
	if (!t->program.has_ended) {
		remove_folder(t->folder);
		return status;
	}
	code = finish(t, t->folder, status);
	return status ? status : code;
}

static int make_trace(struct tracing *t)
{
	int code = check_place(t);

	if (code)
		return code;
	return t->from ? finish(t, t->from, 0) : trace_program(t);
}

static int run(int argc, char **argv)
{
	struct tracing *t = calloc(1, sizeof(*t));
	int code;

	if (!t) {
		tool_complain("trace: no memory");
		return EXIT_FAILURE;
	}
	t->path = DEFAULT_FILE;
	t->program.tool = "trace";
	code = take_options(t, argc, argv);
	if (code < 0)
		code = make_trace(t);
	free(t);
	return code;
}

const struct tool_command tool_trace = {
	.name = "trace",
	.run = run,
	.usage = "trace [-o FILE] [--limit BYTES] [--json] PROGRAM "
		 "[ARGUMENT ...]\n"
		 "       kiln trace [-o FILE] [--json] --from FOLDER",
	.summary = "writes what a program does with kiln, and when, for Perfetto",
	.options = "  -o, --output FILE  the trace (default: " DEFAULT_FILE
		   ")\n"
		   "  --limit BYTES      most that is kept of a process: 128K to "
		   "1T (64M)\n"
		   "  --from FOLDER      from what a trace that was killed left\n"
		   "  --json             a summary as JSON\n"
		   "  --help, --version\n",
};
