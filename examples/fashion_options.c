/* SPDX-License-Identifier: Apache-2.0 */
#include "fashion.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const struct options defaults = {
	.data = "/usr/share/datasets/fashion-mnist",
	.epochs = 5,
	.batch = 64,
	.seed = 1,
};

static const char usage_text[] =
	"usage: fashion [option ...]\n"
	"Trains a 784-128-10 network on the Fashion-MNIST pictures.\n"
	"\n"
	"  --device SELECTOR  cpu, null, auto ... (default: $KILN_DEVICE)\n"
	"  --data DIR         the four .gz files\n"
	"                     (default: /usr/share/datasets/fashion-mnist)\n"
	"  --epochs N         passes over the data (default: 5)\n"
	"  --batch N          pictures a step (default: 64)\n"
	"  --steps N          stop after N steps\n"
	"  --seed N           start values and shuffling (default: 1)\n"
	"  --load FILE        start values from a safetensors file\n"
	"  --save FILE        write the trained parameters to one\n"
	"  --graph            capture a step once and replay it\n"
	"  --checksum         print a checksum of the trained parameters\n"
	"  --json             print the result as JSON\n"
	"  --quiet            no progress bar\n"
	"  --help             this text\n"
	"  --version          the version\n";

enum option_id {
	OPT_DEVICE = 256,
	OPT_DATA,
	OPT_EPOCHS,
	OPT_BATCH,
	OPT_STEPS,
	OPT_SEED,
	OPT_LOAD,
	OPT_SAVE,
	OPT_GRAPH,
	OPT_CHECKSUM,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "data", required_argument, NULL, OPT_DATA },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "steps", required_argument, NULL, OPT_STEPS },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "load", required_argument, NULL, OPT_LOAD },
	{ "save", required_argument, NULL, OPT_SAVE },
	{ "graph", no_argument, NULL, OPT_GRAPH },
	{ "checksum", no_argument, NULL, OPT_CHECKSUM },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* A decimal number in low..high; says what is wrong otherwise. */
static int parse_number(uint64_t *value, const char *name, uint64_t low,
			uint64_t high)
{
	char *end;

	errno = 0;
	*value = strtoull(optarg, &end, 10);
	if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && !errno &&
	    *value >= low && *value <= high)
		return 0;
	fprintf(stderr, "fashion: --%s: \"%s\" is no number in %llu..%llu\n",
		name, optarg, (unsigned long long)low,
		(unsigned long long)high);
	return -1;
}

static int number_option(struct options *options, int id)
{
	uint64_t value = 0;
	int code;

	if (id == OPT_SEED)
		return parse_number(&options->seed, "seed", 0, UINT64_MAX);
	if (id == OPT_EPOCHS) {
		code = parse_number(&value, "epochs", 1, 1000000);
		options->epochs = (int)value;
	} else if (id == OPT_BATCH) {
		code = parse_number(&value, "batch", 1, INT32_MAX);
		options->batch = (int64_t)value;
	} else {
		code = parse_number(&value, "steps", 1, INT64_MAX);
		options->steps = (int64_t)value;
	}
	return code;
}

static int print_and_exit(const char *text)
{
	if (fputs(text, stdout) < 0 || fflush(stdout)) {
		perror("fashion");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* -1 to go on, else an exit status. */
static int take_option(struct options *options, int id)
{
	switch (id) {
	case OPT_DEVICE:
		options->device = optarg;
		return -1;
	case OPT_DATA:
		options->data = optarg;
		return -1;
	case OPT_LOAD:
		options->load = optarg;
		return -1;
	case OPT_SAVE:
		options->save = optarg;
		return -1;
	case OPT_GRAPH:
		options->graph = true;
		return -1;
	case OPT_CHECKSUM:
		options->checksum = true;
		return -1;
	case OPT_JSON:
		options->json = true;
		return -1;
	case OPT_QUIET:
		options->quiet = true;
		return -1;
	case OPT_HELP:
		return print_and_exit(usage_text);
	case OPT_VERSION:
		printf("fashion (kiln) ");
		puts(kiln_version_string());
		return print_and_exit("");
	case '?':
		return EXIT_USAGE;
	default:
		return number_option(options, id) ? EXIT_USAGE : -1;
	}
}

int options_parse(struct options *options, int argc, char **argv)
{
	int id, code;

	*options = defaults;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		code = take_option(options, id);
		if (code >= 0)
			return code;
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "fashion: unexpected argument \"%s\"\n", argv[optind]);
	return EXIT_USAGE;
}
