/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_FILE_H
#define KILN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/dtype.h>
#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * A regular file whose bytes are moved to and from tensors, many requests in
 * flight: through io_uring where the system allows it, else by threads, with
 * the same results; KILN_FILE_PATH chooses. Where the host cannot address the
 * device's memory the bytes pass through buffers of 16 MiB altogether.
 *
 * A file is either read, or new: then it is written under a temporary name
 * (".kiln-" and 16 digits, in the same folder) and takes its place, and that
 * of a file which is there, in kiln_file_commit(). So whatever fails, the old
 * file is as it was. Handles are reference-counted; all functions may be
 * called from any thread.
 *
 * KILN_ERR_IO is a failure of the system or a file that ends too early. Its
 * message names the file and, where bytes were moved, offset, bytes wanted and
 * bytes got; kiln_error_native() gives the errno.
 */
struct kiln_file;

/* Flags of kiln_file_open and kiln_file_create. */
enum kiln_file_flags {
	/*
	 * Past the page cache (O_DIRECT) where offset, length and memory are
	 * multiples of 4096; what is not, and all of it where the file system
	 * refuses, goes through the cache.
	 */
	KILN_FILE_DIRECT = 1
};

/**
 * kiln_file_open - opens a regular file for reading
 * @out: NULL or a live reference on entry
 * @flags: enum kiln_file_flags
 *
 * KILN_ERR_INVALID (NULL, unknown flags), KILN_ERR_IO, KILN_ERR_NO_MEMORY,
 * KILN_ERR_OPTION (KILN_FILE_PATH is malformed), KILN_ERR_UNSUPPORTED (it asks
 * for io_uring, which the system refuses).
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_open(struct kiln_file **out, const char *path, unsigned flags);

/**
 * kiln_file_create - a new, empty file that will take the place of path
 * @out: NULL or a live reference on entry
 * @flags: enum kiln_file_flags
 *
 * Nothing is seen under path before kiln_file_commit(). A symbolic link is
 * followed. A file that is there must be regular and writable by the caller;
 * the new one gets its permissions, but not its owner. Statuses as
 * kiln_file_open.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_create(struct kiln_file **out, const char *path, unsigned flags);

/**
 * kiln_file_commit - writes a new file to the disk and puts it in place
 *
 * Syncs it, renames it and syncs the folder. Once only: afterwards the file
 * can be read, no longer written. On failure the old file is as it was and the
 * new one is given up; only where the message says "is in place" has the new
 * one replaced it, whole, and a crash of the system might still undo that.
 * KILN_ERR_IO, KILN_ERR_INVALID (not a new file, or ended), KILN_ERR_FORKED.
 * Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_commit(struct kiln_file *file);

/** kiln_file_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_file *kiln_file_retain(struct kiln_file *file);

/**
 * kiln_file_release - gives one reference back; NULL is allowed
 *
 * The last one closes the file, and removes it where it was new and was not
 * committed. In a forked child this does nothing on an inherited handle.
 */
KILN_API void kiln_file_release(struct kiln_file *file);

/** kiln_file_size - the bytes that the file has now. KILN_ERR_INVALID,
 * KILN_ERR_IO, KILN_ERR_FORKED. */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_size(const struct kiln_file *file, uint64_t *bytes);

/**
 * kiln_file_direct - whether transfers that are aligned go past the page cache
 *
 * True where KILN_FILE_DIRECT was asked for and nothing has refused it yet.
 */
KILN_API bool kiln_file_direct(const struct kiln_file *file);

/**
 * kiln_file_engine - how files are moved: "io_uring" or "threads (...)"
 *
 * With threads the text gives the reason, the system's or KILN_FILE_PATH; it
 * begins with "none" where KILN_FILE_PATH cannot be followed. It belongs to
 * the calling thread and is valid until its next call. Asks the system each
 * time. Never fails.
 */
KILN_API const char *kiln_file_engine(void);

/**
 * kiln_file_read - a tensor with the elements that lie at an offset
 * @out: NULL or a live reference on entry
 * @offset: in bytes
 * @shape: rank sizes, each >= 0; the rank is 1 to KILN_RANK_MAX
 *
 * The elements lie dense and row-major, little-endian. The tensor is always a
 * new one: *out keeps its old value, and both exist, until all bytes have
 * arrived; to refresh a tensor in its place, follow with kiln_copy_into().
 * For bool dtypes anything but 0 becomes 1. Afterwards any stream sees the
 * data. KILN_ERR_IO (also a file that ends before), KILN_ERR_INVALID,
 * KILN_ERR_UNSUPPORTED_DTYPE, KILN_ERR_OVERFLOW, KILN_ERR_OUT_OF_MEMORY,
 * KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT, KILN_ERR_POISONED, KILN_ERR_CAPTURE,
 * KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED. Blocks, for the file and, where the
 * tensor's memory was in use before, for that use.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_read(struct kiln_tensor **out, struct kiln_file *file,
	       uint64_t offset, struct kiln_device *device,
	       enum kiln_dtype dtype, int rank, const int64_t *shape);

/**
 * kiln_file_write - writes a tensor's elements at an offset of a new file
 * @offset: in bytes; what is skipped reads as zeros
 *
 * Dense and row-major, little-endian; a view is made dense on its device
 * first. Waits for the work that the tensor depends on. On failure bytes of
 * the range may have been written. The error of that work, as
 * kiln_tensor_read; KILN_ERR_IO, KILN_ERR_INVALID (not a new file, or
 * committed), KILN_ERR_OVERFLOW, KILN_ERR_NO_MEMORY, KILN_ERR_OUT_OF_MEMORY,
 * KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_write(struct kiln_file *file, uint64_t offset,
		struct kiln_tensor *tensor);

/**
 * kiln_file_read_bytes - copies bytes at an offset to host memory
 * @data: may be NULL where bytes is 0; unspecified after a failure
 *
 * KILN_ERR_IO, KILN_ERR_INVALID, KILN_ERR_OVERFLOW, KILN_ERR_NO_MEMORY,
 * KILN_ERR_FORKED. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_read_bytes(struct kiln_file *file, uint64_t offset, void *data,
		     size_t bytes);

/**
 * kiln_file_write_bytes - writes host memory at an offset of a new file
 *
 * Statuses as kiln_file_read_bytes. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_file_write_bytes(struct kiln_file *file, uint64_t offset,
		      const void *data, size_t bytes);

KILN_END_DECLS

#endif
