/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conform - runs vectors of the contract through the public interface.
 *
 * Exit status: 0 all passed or skipped, 1 a case failed, 2 the run itself was
 * not possible (usage, files, device).
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <kiln/kiln.h>

#include "tests/conformance/expect.h"
#include "tests/conformance/report.h"
#include "tests/conformance/run.h"
#include "tests/conformance/vector.h"

enum {
	EXIT_FAILED = 1,
	EXIT_TROUBLE = 2
};

struct options {
	const char *device, *expect;
	bool list, json, signed_zero, flush;
};

struct conform {
	struct conf_device device;
	struct conf_expect expect;
	struct conf_report report;
};

static const char usage_text[] =
	"usage: conform [--device SELECTOR] [--flush] [--expect FILE]\n"
	"               [--signed-zero] [--json] FILE.jsonl...\n"
	"       conform --list | --help | --version\n"
	"\n"
	"Runs conformance vectors and compares what comes with what they say.\n"
	"\n"
	"  --device SELECTOR  the device (default: KILN_DEVICE, else auto)\n"
	"  --flush            a device in software is to flush denormals\n"
	"  --expect FILE      what the device cannot do; it must not pass\n"
	"  --signed-zero      where a case has no tolerance, -0 is not +0\n"
	"  --json             one JSON object in place of text\n"
	"  --list             the methods that can be run, one a line\n"
	"  --help, --version\n";

static int trouble(const char *text)
{
	fprintf(stderr, "conform: %s\n", text);
	return EXIT_TROUBLE;
}

/* ---- A case ---- */

/* Both modes; the first that does not pass decides. */
static enum conf_outcome run_modes(struct conform *c,
				   const struct conf_vector *vector,
				   enum conf_skip *skip,
				   struct conf_text *text)
{
	static const struct {
		enum conf_mode mode;
		const char *prefix;
	} modes[] = {
		{ CONF_FRESH, "" },
		{ CONF_IN_PLACE, "in place: " },
	};
	enum conf_outcome outcome = CONF_PASSED;
	size_t i;

	for (i = 0; i < 2 && outcome == CONF_PASSED; i++) {
		conf_text_clear(text);
		conf_text_add(text, "%s", modes[i].prefix);
		outcome = conf_run(&c->device, vector, modes[i].mode, skip,
				   text);
	}
	return outcome;
}

static enum conf_outcome run_vector(struct conform *c,
				    const struct conf_vector *vector,
				    enum conf_skip *skip,
				    struct conf_text *text)
{
	const char *reason = conf_expect_find(&c->expect, vector);
	enum conf_outcome outcome = run_modes(c, vector, skip, text);

	if (!reason || outcome == CONF_SKIPPED)
		return outcome;
	if (outcome == CONF_FAILED) {
		*skip = CONF_SKIP_UNSUPPORTED;
		return CONF_SKIPPED;
	}
	conf_text_clear(text);
	conf_text_add(text, "listed as unsupported (%s), but passes", reason);
	return CONF_FAILED;
}

/* ---- A file ---- */

static bool run_line(struct conform *c, const struct conf_place *place,
		     const char *line, size_t length)
{
	enum conf_outcome outcome = CONF_SKIPPED;
	enum conf_skip skip = CONF_SKIP_METHOD;
	struct conf_vector vector;
	struct conf_text text;
	enum conf_load loaded;
	json_error_t error;
	json_t *json;

	conf_text_clear(&text);
	json = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	if (!json) {
		fprintf(stderr, "conform: %s:%zu: column %d: %s\n",
			place->file, place->line, error.column, error.text);
		return false;
	}
	loaded = conf_vector_load(&vector, json, &skip, &text);
	if (loaded == CONF_LOADED)
		outcome = run_vector(c, &vector, &skip, &text);
	if (loaded == CONF_MALFORMED)
		fprintf(stderr, "conform: %s:%zu: %s\n", place->file,
			place->line, text.s);
	else
		conf_report_case(&c->report, place, vector.id, outcome, skip,
				 text.s);
	conf_vector_clear(&vector);
	json_decref(json);
	return loaded != CONF_MALFORMED;
}

static bool run_lines(struct conform *c, FILE *file, const char *path)
{
	struct conf_place place = { path, 0 };
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	bool good = true;

	while (good && (length = getline(&line, &size, file)) >= 0) {
		place.line++;
		if (strspn(line, " \t\r\n") < (size_t)length)
			good = run_line(c, &place, line, (size_t)length);
	}
	if (good && ferror(file)) {
		fprintf(stderr, "conform: %s:%zu: %s\n", path, place.line + 1,
			strerror(errno));
		good = false;
	}
	free(line);
	return good;
}

static bool run_file(struct conform *c, const char *path)
{
	FILE *file = fopen(path, "re");
	bool good;

	if (!file) {
		fprintf(stderr, "conform: %s: %s\n", path, strerror(errno));
		return false;
	}
	good = run_lines(c, file, path);
	fclose(file);
	return good;
}

/* ---- The run ---- */

static int run_files(struct conform *c, char **paths)
{
	for (; *paths; paths++) {
		if (!run_file(c, *paths)) {
			json_decref(c->report.failures);
			return EXIT_TROUBLE;
		}
	}
	if (!conf_report_end(&c->report))
		return trouble("the report could not be written");
	return c->report.outcomes[CONF_FAILED] ? EXIT_FAILED : EXIT_SUCCESS;
}

static int run(const struct options *options, char **paths)
{
	struct conform c;
	struct conf_text why;
	int code;

	memset(&c, 0, sizeof(c));
	conf_text_clear(&why);
	if (options->expect &&
	    !conf_expect_load(&c.expect, options->expect, &why)) {
		conf_expect_clear(&c.expect);
		return trouble(why.s);
	}
	if (!conf_device_open(&c.device, options->device, options->flush,
			      options->signed_zero, &why)) {
		conf_expect_clear(&c.expect);
		return trouble(why.s);
	}
	c.expect.flushes = c.device.flushes;
	c.device.expect = &c.expect;
	conf_report_begin(&c.report, &c.device, options->json);
	code = run_files(&c, paths);
	conf_device_close(&c.device);
	conf_expect_clear(&c.expect);
	return code;
}

static int list(void)
{
	size_t count, i;
	const struct conf_method *methods = conf_methods(&count);

	for (i = 0; i < count; i++)
		puts(methods[i].name);
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_TROUBLE;
}

static int say(const char *text)
{
	return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS
							       : EXIT_TROUBLE;
}

/* Reads the options; -1 to go on, else the exit status. */
static int parse(struct options *options, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "flush", no_argument, NULL, 'f' },
		{ "expect", required_argument, NULL, 'e' },
		{ "signed-zero", no_argument, NULL, 'z' },
		{ "json", no_argument, NULL, 'j' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'd':
			options->device = optarg;
			break;
		case 'f':
			options->flush = true;
			break;
		case 'e':
			options->expect = optarg;
			break;
		case 'z':
			options->signed_zero = true;
			break;
		case 'j':
			options->json = true;
			break;
		case 'l':
			options->list = true;
			break;
		case 'h':
			return say(usage_text);
		case 'V':
			printf("conform (kiln) %s\n", kiln_version_string());
			return say("");
		default:
			return trouble("try --help");
		}
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct options options;
	int code;

	memset(&options, 0, sizeof(options));
	code = parse(&options, argc, argv);
	if (code >= 0)
		return code;
	if (options.list)
		return list();
	if (optind == argc)
		return trouble("no file of vectors; try --help");
	return run(&options, argv + optind);
}
