/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SCHED_FILE_H
#define KILNI_SCHED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <kiln/status.h>

#include "base/base.h"

/*
 * Transfers between files and memory, many in flight: through io_uring where
 * the system allows it, else by threads that call pread and pwrite, with the
 * same results. On top of them the pipe, which moves parts of a file to and
 * from host memory or a device.
 *
 * Fault sites: "file_open", "file_read", "file_write", "file_fsync",
 * "file_rename" fail a call. The others are made good: "file_ring" refuses the
 * ring, "file_submit" the hand-over to it, "file_wait" the wait in it,
 * "file_thread" a thread; "file_short" lets a transfer move only half,
 * "file_intr" interrupts one.
 */

struct kilni_hw;
struct kilni_io;

/* What O_DIRECT asks of offset, length and memory, on any file system. */
#define KILNI_DIRECT_ALIGN 4096

/* An open file; direct is the same one opened with O_DIRECT, or -1. */
struct kilni_fd {
	const char *path;
	int fd, direct;
	int direct_refused;          /* atomic */
};

/*
 * Where a new file goes: its folder, its name there, and the name that it has
 * until then.
 */
struct kilni_place {
	int folder;                  /* -1: none */
	char *name;
	char temporary[32];          /* "": has no file */
	bool can_sync;               /* the folder */
};

/*
 * Opens a regular file for reading. path, which messages name, must live as
 * long as the file. KILN_ERR_IO.
 */
enum kiln_status kilni_fd_open(struct kilni_fd *file, const char *fn,
			       const char *path, bool direct);
/*
 * Makes an empty file beside path under a name of its own. A link is followed;
 * a file that is there must be regular and writable. KILN_ERR_IO,
 * KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_fd_create(struct kilni_fd *file,
				 struct kilni_place *place, const char *fn,
				 const char *path, bool direct);
/*
 * Syncs the new file and puts it in place, or removes it. KILN_ERR_IO.
 */
enum kiln_status kilni_fd_commit(struct kilni_fd *file,
				 struct kilni_place *place, const char *fn);
/* Closes the file and removes what still has a temporary name. */
void kilni_fd_close(struct kilni_fd *file, struct kilni_place *place);
/* KILN_ERR_IO. */
enum kiln_status kilni_fd_size(const struct kilni_fd *file, const char *fn,
			       uint64_t *bytes);

/* A range of a file and as many bytes of host memory. */
struct kilni_transfer {
	struct kilni_fd *file;
	bool write;
	uint64_t offset;
	char *data;
	size_t bytes;
	/* Of the engine; done is how many were moved. */
	size_t done;
	int error;                   /* errno */
	bool ended;                  /* the file ended before bytes */
	enum kiln_status injected;
	bool direct;                 /* this attempt */
	unsigned retries;
	ssize_t result;              /* bytes or -errno */
	struct kilni_transfer *next;
};

/*
 * What a way of moving bytes has to offer: start begins one attempt at what is
 * left of a transfer (0, or an errno where it did not begin); wait gives one
 * whose attempt has ended, its result set. Both for one thread at a time.
 */
struct kilni_io_ops {
	int (*start)(struct kilni_io *io, struct kilni_transfer *transfer);
	struct kilni_transfer *(*wait)(struct kilni_io *io);
	void (*destroy)(struct kilni_io *io);
};

/* Most transfers in flight in one kilni_io. */
#define KILNI_IO_DEPTH 16

struct kilni_io {
	const struct kilni_io_ops *ops;
	struct kilni_transfer *ready; /* attempts made without the engine */
};

/*
 * Whether KILN_FILE_PATH is well-formed, and whether it asks for a ring that
 * may be refused. KILN_ERR_OPTION.
 */
enum kiln_status kilni_io_check(bool *ring_asked);

/*
 * The engine that KILN_FILE_PATH asks for. It is idle when it is destroyed.
 * KILN_ERR_OPTION, KILN_ERR_UNSUPPORTED (uring was asked for and is refused),
 * KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_io_create(struct kilni_io **out);
void kilni_io_destroy(struct kilni_io *io);

/* Which engine that gives, and why: "threads (io_uring: ...)". */
enum kiln_status kilni_io_describe(char *text, size_t size);

/* Moves the bytes on the calling thread. */
void kilni_io_move(struct kilni_transfer *transfer);

/*
 * Begins a transfer, which must live until kilni_io_wait() has given it back:
 * moved, or with its error, end or injected status.
 */
void kilni_io_start(struct kilni_io *io, struct kilni_transfer *transfer);
struct kilni_transfer *kilni_io_wait(struct kilni_io *io);

/* Whether a fault is injected that will be made good: the record stays. */
bool kilni_io_fault(const char *site);

/* One call of pread or pwrite for what is left: bytes or -errno. */
ssize_t kilni_io_attempt(const struct kilni_transfer *transfer);

/* The descriptor for this attempt, and how many bytes to ask for. */
int kilni_io_fd(const struct kilni_transfer *transfer);
size_t kilni_io_bytes(const struct kilni_transfer *transfer);

/* The two engines; *error is the errno of a refusal, which returns NULL. */
struct kilni_io *kilni_io_ring(int *error);
struct kilni_io *kilni_io_threads(void);

/* ---- the pipe ---- */

/* Bytes of a transfer, but for the ends of a part. */
#define KILNI_FILE_BLOCK ((uint64_t)2 << 20)

/* Staging buffers where the memory is not the host's. */
#define KILNI_FILE_STAGES 8

/* A part of a file and where it goes or comes from. */
struct kilni_file_part {
	uint64_t offset, bytes;
	void *host;                  /* or, where it is NULL, */
	uint64_t address;            /* of the device */
	unsigned bool_bytes;         /* reading: of an element to make 0 or 1 */
};

struct kilni_pipe {
	const char *fn;              /* for messages */
	struct kilni_fd *file;
	bool write;
	struct kilni_hw *hw;
	const struct kilni_file_part *part;
	size_t parts;
	/* Bytes moved since the last call; may stop the pipe. NULL: none. */
	enum kiln_status (*moved)(void *user, uint64_t bytes);
	void *user;
	/* Where an engine is kept between pipes; made when it is needed. */
	struct kilni_io **io;
};

/*
 * Moves all parts; on failure some may have been moved. KILN_ERR_IO with path,
 * offset, wanted and got; driver errors; what moved returned. Blocks.
 */
enum kiln_status kilni_pipe_run(const struct kilni_pipe *pipe);

#endif
