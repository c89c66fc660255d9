/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_DRIVERS_STAGING_H
#define KILNI_DRIVERS_STAGING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/*
 * Copies between the caller's memory and a device's, by way of memory that the
 * device reads and writes at the speed of the bus. A core copies five times
 * slower than that, so a large copy has several threads; each has two lanes,
 * and fills or empties one while the other travels.
 */

#define KILNI_STAGING_LANES 16
#define KILNI_STAGING_LANE_BYTES ((uint64_t)4 << 20)

struct kilni_staging;

/* One copy; what the driver is told of it. */
struct kilni_staged {
	struct kilni_staging *staging;
	const void *page;      /* the driver's, as it was given */
	uint64_t at;           /* in it, of the device's first byte */
	char *host;            /* only read where up is set */
	uint64_t bytes;
	bool up;
};

/* A driver's part. Lanes of one copy are asked for by several threads. */
struct kilni_staging_ops {
	/*
	 * Around what a thread starts and finishes of a copy, where the driver
	 * needs that (else NULL): before any of it travels.
	 */
	enum kiln_status (*enter)(struct kilni_staging *staging);
	void (*leave)(struct kilni_staging *staging);

	/*
	 * Makes a lane: *memory are KILNI_STAGING_LANE_BYTES. On failure
	 * nothing of it is left. One at a time, as is close.
	 */
	enum kiln_status (*open)(struct kilni_staging *staging, unsigned lane,
				 char **memory);
	void (*close)(struct kilni_staging *staging, unsigned lane);

	/*
	 * Starts the copy of bytes between the lane's first ones and the
	 * device's, offset behind the first of all. On failure nothing of it
	 * travels, or the device is lost.
	 */
	enum kiln_status (*start)(const struct kilni_staged *copy,
				  unsigned lane, uint64_t offset,
				  uint64_t bytes);
	/*
	 * Waits until it has arrived; alone: no other thread waits for a lane.
	 * On failure nothing travels any more, or the device is lost.
	 */
	enum kiln_status (*finish)(const struct kilni_staged *copy,
				   unsigned lane, bool alone);
};

struct kilni_staging {
	const struct kilni_staging_ops *ops;
	pthread_mutex_t lock;  /* of what follows, for a whole copy */
	unsigned lanes;        /* that there are */
	struct kilni_staging_lane {
		char *memory;
		uint64_t number; /* of the block that travels */
		bool busy;
	} lane[KILNI_STAGING_LANES];
};

void kilni_staging_init(struct kilni_staging *staging,
			const struct kilni_staging_ops *ops);
/* Closes the lanes; none is busy, or the device is lost. */
void kilni_staging_fini(struct kilni_staging *staging);

/* Makes a first lane where there is none: for who wants to know now. */
enum kiln_status kilni_staging_start(struct kilni_staging *staging);

/*
 * Copies; at least one byte. Lanes are made when they are first needed; where
 * not all can be had the copy has fewer. On failure some blocks may have been
 * copied, and the record says what came first. The lock is held.
 */
enum kiln_status kilni_staging_copy(const struct kilni_staged *copy);

#endif
