/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_FILE_H
#define KILNI_LIB_FILE_H

#include <kiln/file.h>

#include "lib/internal.h"
#include "sched/file.h"

/* Longest path that messages show whole; of a longer one they show the end. */
#define KILNI_PATH_SHOWN 160

enum kilni_file_state {
	KILNI_FILE_READING,
	KILNI_FILE_NEW,
	KILNI_FILE_ENDED             /* committed, or given up */
};

struct kiln_file {
	struct kilni_object object;
	struct kilni_fd fd;
	struct kilni_place place;
	pthread_mutex_t lock;        /* of what follows */
	struct kilni_io *spare;      /* an engine that nobody uses */
	int state;                   /* enum kilni_file_state; atomic */
};

/*
 * Moves parts for fn and user; parts of device memory need device, and nothing
 * may use them. KILN_ERR_IO, driver errors, what moved returned.
 */
enum kiln_status kilni_file_move(struct kiln_file *file,
				 const struct kilni_pipe *pipe);

/* The part of a file that a dense tensor's elements are. */
struct kilni_file_part kilni_file_part_of(const struct kiln_tensor *tensor,
					  uint64_t offset);

/*
 * Makes a new tensor's memory ready for the host to write: what used it before
 * has ended. KILN_ERR_POISONED, KILN_ERR_DEVICE_LOST, driver errors.
 */
enum kiln_status kilni_tensor_prepare(struct kiln_tensor *tensor);

/* Writes a tensor for fn; see kiln_file_write. */
enum kiln_status
kilni_file_put(struct kiln_file *file, const char *fn, uint64_t offset,
	       struct kiln_tensor *tensor,
	       enum kiln_status (*moved)(void *user, uint64_t bytes),
	       void *user);

#endif
