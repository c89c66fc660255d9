/* SPDX-License-Identifier: Apache-2.0 */
/*
 * differ - runs every method on a device and on a reference and compares.
 *
 * Which methods there are, and how they are called, comes from the tables of
 * tests/conformance; how far results may be apart from the op registry.
 *
 * Exit status: 0 all agreed or skipped, 1 a case differed, 2 the run itself
 * was not possible (usage, files, device).
 */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

#include "tests/conformance/expect.h"
#include "tests/conformance/report.h"
#include "tests/conformance/run.h"
#include "tests/differential/judge.h"
#include "tests/differential/peer.h"
#include "tests/differential/random.h"

enum {
	EXIT_FAILED = 1,
	EXIT_TROUBLE = 2
};

/* Cases of a method and dtype; where all of so many are refused, that fails. */
#define ROUNDS 20
#define ROUNDS_ENOUGH 8

struct options {
	const char *device, *reference, *level, *expect;
	const char *method, *dtype, *only;
	uint64_t seed;
	unsigned rounds;
	bool list, json, exact, large, flush;
};

struct differ {
	const struct options *options;
	struct conf_device device;
	struct diff_peer peer;
	struct diff_scope scope;
	struct conf_expect expect;
	struct conf_report report;
	size_t compared; /* of the method and dtype at hand */
	bool trouble;
};

static const char usage_text[] =
	"usage: differ [--device SELECTOR] [--reference SELECTOR]\n"
	"              [--reference-isa LEVEL] [--seed N] [--rounds N]\n"
	"              [--method GLOB] [--dtype NAME] [--case ID] [--exact]\n"
	"              [--large] [--flush] [--expect FILE] [--json]\n"
	"       differ --list | --help | --version\n"
	"\n"
	"Runs every method on random operands on a device and on a reference\n"
	"and compares results and statuses.\n"
	"\n"
	"  --device SELECTOR     the device (default: KILN_DEVICE, else auto)\n"
	"  --reference SELECTOR  what it is compared with (default: cpu)\n"
	"  --reference-isa LEVEL KILN_CPU_ISA of the reference\n"
	"  --seed N              what is random follows from it (default: new)\n"
	"  --rounds N            cases of each method and dtype (default: 20)\n"
	"  --method GLOB         only these methods\n"
	"  --dtype NAME          only this dtype\n"
	"  --case ID             only this case, METHOD/DTYPE/NUMBER\n"
	"  --exact               elementwise ops have to agree in each bit\n"
	"  --large               tensors of more than 2^31 elements, of dtypes\n"
	"                        of up to two bytes\n"
	"  --flush               a device in software is to flush denormals\n"
	"  --expect FILE         what the device cannot do; it must not agree\n"
	"  --json                one JSON object in place of text\n"
	"  --list                the methods that are compared, one a line\n"
	"  --help, --version\n";

static int trouble(const char *text)
{
	fprintf(stderr, "differ: %s\n", text);
	return EXIT_TROUBLE;
}

/* ---- A case ---- */

static enum diff_verdict run_both(struct differ *d, const struct diff_case *c,
				  struct conf_text *text)
{
	struct diff_outcome want, got;
	enum diff_verdict verdict = DIFF_DIFFER;

	memset(&want, 0, sizeof(want));
	memset(&got, 0, sizeof(got));
	if (diff_peer_send(&d->peer, c)) {
		diff_attempt(&got, c, d->device.handle, false);
		if (diff_peer_receive(&d->peer, &want))
			verdict = diff_judge(c, d->options->exact, &want, &got,
					     text);
		else
			d->trouble = true;
	} else {
		d->trouble = true;
	}
	if (d->trouble)
		fprintf(stderr, "differ: %s: the reference is gone\n", c->id);
	diff_outcome_clear(&want);
	diff_outcome_clear(&got);
	return verdict;
}

/* How this case alone is run again. */
static void print_repeat(struct conf_text *text, const struct differ *d,
			 const struct diff_case *c)
{
	const struct options *o = d->options;

	conf_text_add(text, "differ --device %s --reference %s",
		      kiln_device_selector(d->device.handle), o->reference);
	if (o->level)
		conf_text_add(text, " --reference-isa %s", o->level);
	conf_text_add(text, "%s%s%s --seed %" PRIu64 " --case '%s'",
		      o->exact ? " --exact" : "", o->large ? " --large" : "",
		      o->flush ? " --flush" : "", o->seed, c->id);
}

static enum conf_outcome outcome_of(struct differ *d,
				    const struct diff_case *c,
				    enum diff_verdict verdict,
				    enum conf_skip *skip,
				    struct conf_text *text)
{
	const char *reason = conf_expect_named(&d->expect, c->id);

	if (!reason)
		reason = conf_expect_named(&d->expect, c->method->name);
	if (verdict == DIFF_NO_MEMORY) {
		*skip = CONF_SKIP_MEMORY;
		return CONF_SKIPPED;
	}
	if (reason && verdict == DIFF_DIFFER) {
		*skip = CONF_SKIP_UNSUPPORTED;
		return CONF_SKIPPED;
	}
	if (reason && verdict == DIFF_AGREE) {
		conf_text_add(text, "listed as unsupported (%s), but agrees",
			      reason);
		return CONF_FAILED;
	}
	return verdict == DIFF_DIFFER ? CONF_FAILED : CONF_PASSED;
}

static void run_case(struct differ *d, const struct diff_case *c)
{
	enum diff_verdict verdict = DIFF_NO_MEMORY;
	enum conf_skip skip = CONF_SKIP_MEMORY;
	enum conf_outcome outcome;
	struct conf_place place = { NULL, 0 };
	struct conf_text text, repeat;

	conf_text_clear(&text);
	conf_text_clear(&repeat);
	diff_case_print(&text, c);
	conf_text_add(&text, "\n     ");
	if (!c->large || !diff_too_large(c))
		verdict = run_both(d, c, &text);
	if (d->trouble)
		return;
	d->compared += verdict != DIFF_AGREE_REFUSED;
	outcome = outcome_of(d, c, verdict, &skip, &text);
	print_repeat(&repeat, d, c);
	place.file = repeat.s;
	conf_report_case(&d->report, &place, c->id, outcome, skip, text.s);
}

/* ---- All cases ---- */

/*
 * What has more than 2^31 elements is kept to small dtypes, and to ops that
 * need no magnitudes in f64 for their bound.
 */
static bool fits_large(const struct diff_case *c)
{
	return kiln_dtype_size_bytes(c->dtype) <= 2 && c->operand_count > 0 &&
	       strcmp(c->op->name, "matmul") != 0 &&
	       (c->growth == KILNI_GROWTH_NONE ||
		kiln_dtype_class(c->dtype) != KILN_CLASS_FLOAT);
}

static bool wanted(const struct differ *d, const struct diff_case *c)
{
	const char *only = d->options->only;

	return (!only || strcmp(only, c->id) == 0) &&
	       (!c->large || fits_large(c));
}

static void report_all(struct differ *d, const struct diff_case *c,
		       const char *what)
{
	struct conf_place place = { "all of them", 0 };

	conf_report_case(&d->report, &place, c->id, CONF_FAILED,
			 CONF_SKIP_METHOD, what);
}

static void check_compared(struct differ *d, const struct diff_case *c,
			   unsigned rounds)
{
	if (d->compared == 0 && rounds >= ROUNDS_ENOUGH && !d->options->only &&
	    !d->options->large)
		report_all(d, c, "every case was refused by both");
}

static void run_dtype(struct differ *d, const struct conf_method *method,
		      enum kiln_dtype dtype)
{
	unsigned rounds = d->options->rounds, n;
	struct diff_case c;

	d->compared = 0;
	for (n = 0; n < rounds && !d->trouble; n++) {
		if (!diff_case_make(&c, &d->scope, method, dtype, n)) {
			report_all(d, &c,
				   "no op of its function's name, or a "
				   "parameter that differ knows nothing of");
			return;
		}
		if (wanted(d, &c))
			run_case(d, &c);
	}
	if (!d->trouble)
		check_compared(d, &c, rounds);
}

static void run_method(struct differ *d, const struct conf_method *method)
{
	const struct options *o = d->options;
	int i;

	if (!diff_method_compares(method) ||
	    (o->method && fnmatch(o->method, method->name, 0) != 0))
		return;
	for (i = 0; i < KILN_DTYPE_COUNT && !d->trouble; i++) {
		enum kiln_dtype dtype = (enum kiln_dtype)i;

		if (d->scope.dtypes >> i & 1 &&
		    diff_method_takes(method, dtype) &&
		    (!o->dtype ||
		     strcmp(o->dtype, kiln_dtype_name(dtype)) == 0))
			run_dtype(d, method, dtype);
	}
}

static void run_methods(struct differ *d)
{
	size_t count, i;
	const struct conf_method *methods = conf_methods(&count);

	for (i = 0; i < count && !d->trouble; i++)
		run_method(d, &methods[i]);
}

/* ---- The run ---- */

static void note_dtypes(struct differ *d)
{
	int i;

	for (i = 0; i < KILN_DTYPE_COUNT; i++) {
		enum kiln_dtype dtype = (enum kiln_dtype)i;

		if (kiln_device_supports_dtype(d->device.handle, dtype))
			d->scope.dtypes |= UINT32_C(1) << i;
		if (!(kiln_device_dtype_usage(d->device.handle, dtype) &
		      KILN_USAGE_DENORMALS))
			d->scope.flushed |= UINT32_C(1) << i;
	}
}

static bool prepare(struct differ *d, struct conf_text *why)
{
	const struct options *o = d->options;

	if (o->expect && !conf_expect_load(&d->expect, o->expect, why))
		return false;
	if (!diff_peer_start(&d->peer, o->reference, o->level, why) ||
	    !conf_device_open(&d->device, o->device, o->flush, true, why))
		return false;
	d->expect.flushes = d->device.flushes;
	if (!d->device.values) {
		conf_text_add(why, "%s computes nothing that can be compared",
			      kiln_device_selector(d->device.handle));
		return false;
	}
	d->scope.seed = o->seed;
	d->scope.large = o->large;
	note_dtypes(d);
	return true;
}

static int compare(struct differ *d)
{
	if (!d->options->json)
		printf("seed %" PRIu64 ", %s\nagainst %s\n", d->options->seed,
		       kiln_device_describe(d->device.handle),
		       d->peer.describe);
	conf_report_begin(&d->report, &d->device, d->options->json);
	run_methods(d);
	if (d->trouble) {
		json_decref(d->report.failures);
		return EXIT_TROUBLE;
	}
	if (!conf_report_end(&d->report))
		return trouble("the report could not be written");
	if (d->report.outcomes[CONF_PASSED] + d->report.outcomes[CONF_FAILED] +
		    d->report.outcomes[CONF_SKIPPED] == 0)
		return trouble("no case of that name");
	return d->report.outcomes[CONF_FAILED] ? EXIT_FAILED : EXIT_SUCCESS;
}

static int run(const struct options *options)
{
	struct differ d;
	struct conf_text why;
	int code;

	memset(&d, 0, sizeof(d));
	d.options = options;
	d.peer.socket = -1;
	conf_text_clear(&why);
	code = prepare(&d, &why) ? compare(&d) : trouble(why.s);
	conf_device_close(&d.device);
	diff_peer_stop(&d.peer);
	conf_expect_clear(&d.expect);
	return code;
}

static int say(const char *text)
{
	return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS
							       : EXIT_TROUBLE;
}

static int list(void)
{
	size_t count, i;
	const struct conf_method *methods = conf_methods(&count);

	for (i = 0; i < count; i++) {
		if (diff_method_compares(&methods[i]))
			puts(methods[i].name);
	}
	return say("");
}

/* ---- Options ---- */

static bool number(uint64_t *n, const char *text, uint64_t most)
{
	char *rest;

	errno = 0;
	*n = strtoull(text, &rest, 10);
	return errno == 0 && *text >= '0' && *text <= '9' && !*rest &&
	       *n <= most;
}

/* The case's number, so that there are as many rounds. */
static bool take_case(struct options *o, const char *id)
{
	const char *end = strrchr(id, '/');
	uint64_t n;

	o->only = id;
	if (!end || !number(&n, end + 1, UINT32_MAX - 1))
		return false;
	o->rounds = (unsigned)n + 1;
	return true;
}

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "reference", required_argument, NULL, 'r' },
	{ "reference-isa", required_argument, NULL, 'i' },
	{ "seed", required_argument, NULL, 's' },
	{ "rounds", required_argument, NULL, 'n' },
	{ "method", required_argument, NULL, 'm' },
	{ "dtype", required_argument, NULL, 't' },
	{ "case", required_argument, NULL, 'c' },
	{ "exact", no_argument, NULL, 'x' },
	{ "large", no_argument, NULL, 'g' },
	{ "flush", no_argument, NULL, 'f' },
	{ "expect", required_argument, NULL, 'e' },
	{ "json", no_argument, NULL, 'j' },
	{ "list", no_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* Takes an option; false where its value is none. */
static bool take(struct options *o, int c)
{
	uint64_t n;

	switch (c) {
	case 'd':
		o->device = optarg;
		return true;
	case 'r':
		o->reference = optarg;
		return true;
	case 'i':
		o->level = optarg;
		return true;
	case 's':
		return number(&o->seed, optarg, UINT64_MAX);
	case 'n':
		if (!number(&n, optarg, UINT32_MAX) || n == 0)
			return false;
		o->rounds = (unsigned)n;
		return true;
	case 'm':
		o->method = optarg;
		return true;
	case 't':
		o->dtype = optarg;
		return true;
	case 'c':
		return take_case(o, optarg);
	case 'x':
		return o->exact = true;
	case 'g':
		return o->large = true;
	case 'f':
		return o->flush = true;
	case 'e':
		o->expect = optarg;
		return true;
	case 'j':
		return o->json = true;
	case 'l':
		return o->list = true;
	default:
		return false;
	}
}

/* Reads the options; -1 to go on, else the exit status. */
static int parse(struct options *options, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == 'h')
			return say(usage_text);
		if (c == 'V') {
			printf("differ (kiln) %s\n", kiln_version_string());
			return say("");
		}
		if (!take(options, c))
			return trouble("try --help");
	}
	return optind == argc ? -1 : trouble("try --help");
}

int main(int argc, char **argv)
{
	struct options options;
	struct timespec now = { 0, 0 };
	int code;

	clock_gettime(CLOCK_REALTIME, &now);
	memset(&options, 0, sizeof(options));
	options.reference = "cpu";
	options.rounds = ROUNDS;
	options.seed = diff_mix((uint64_t)now.tv_sec * 1000000000 +
				(uint64_t)now.tv_nsec) % 1000000000;
	code = parse(&options, argc, argv);
	if (code >= 0)
		return code;
	return options.list ? list() : run(&options);
}
