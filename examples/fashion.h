/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_FASHION_H
#define EXAMPLES_FASHION_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/kiln.h>

/* Exit status of a usage error. */
#define EXIT_USAGE 2

struct options {
	const char *device; /* NULL: KILN_DEVICE, or the best there is */
	const char *data;   /* folder */
	const char *load, *save; /* files of parameters, or NULL */
	int epochs;
	int64_t batch;
	int64_t steps; /* stop after so many; 0: no limit */
	uint64_t seed;
	bool json, checksum, quiet, graph;
};

struct result {
	int epochs;
	int64_t steps, images;
	double seconds; /* of the training loop */
	double epoch_seconds, best_epoch_seconds;
	float loss;
	double accuracy;
	uint64_t checksum;
	uint64_t operations; /* of the captured step; 0: none */
	/* Memory at the steady step, and what it grew to, if it did. */
	uint64_t live_bytes, reserved_bytes;
	int64_t grown_step;
	uint64_t grown_live_bytes, grown_reserved_bytes;
};

/* Returns an exit status, or -1 where the program goes on. */
int options_parse(struct options *options, int argc, char **argv);

/* Prints a failure's detail on stderr; returns EXIT_FAILURE. */
int tell_error(enum kiln_status status);

/* Prints the result on stdout; returns the exit status. */
int report(const struct options *options, const struct result *result,
	   struct kiln_device *device);

/* A bar on stderr, where that is a terminal. */
bool progress_shown(const struct options *options);
void progress_draw(const struct options *options, const struct result *result,
		   int64_t images_per_epoch);
void progress_end(const struct options *options);

double now_seconds(void);

#endif
