/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What both engines share: short transfers, interruptions, O_DIRECT. */

/* Interruptions in a row after which a transfer fails. */
#define RETRIES_MOST 10000

bool kilni_io_fault(const char *site)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (KILNI_FAULT(site) == KILN_OK)
		return false;
	kilni_error_restore(&before);
	return true;
}

/* ---- one attempt ---- */

int kilni_io_fd(const struct kilni_transfer *transfer)
{
	return transfer->direct ? transfer->file->direct : transfer->file->fd;
}

size_t kilni_io_bytes(const struct kilni_transfer *transfer)
{
	size_t left = transfer->bytes - transfer->done;

	if (left > 1 && kilni_io_fault("file_short"))
		return left / 2;
	return left;
}

static bool can_be_direct(const struct kilni_transfer *t)
{
	uint64_t all = (t->offset + t->done) | (t->bytes - t->done) |
		       (uintptr_t)(t->data + t->done);

	return t->file->direct >= 0 && all % KILNI_DIRECT_ALIGN == 0 &&
	       !__atomic_load_n(&t->file->direct_refused, __ATOMIC_RELAXED);
}

ssize_t kilni_io_attempt(const struct kilni_transfer *transfer)
{
	off_t at = (off_t)(transfer->offset + transfer->done);
	char *data = transfer->data + transfer->done;
	size_t bytes = kilni_io_bytes(transfer);
	int fd = kilni_io_fd(transfer);
	ssize_t got = transfer->write ? pwrite(fd, data, bytes, at)
				      : pread(fd, data, bytes, at);

	return got < 0 ? -errno : got;
}

static bool is_interruption(int error)
{
	return error == EINTR || error == EAGAIN;
}

/* Whether the transfer ends with this error; else it is tried again. */
static bool ends_with(struct kilni_transfer *t, int error)
{
	if (is_interruption(error) && t->retries++ < RETRIES_MOST)
		return false;
	if (t->direct && (error == EINVAL || error == EOPNOTSUPP)) {
		__atomic_store_n(&t->file->direct_refused, 1,
				 __ATOMIC_RELAXED);
		return false;
	}
	t->error = error;
	return true;
}

/* Takes the result of an attempt; whether the transfer has ended. */
static bool take_result(struct kilni_transfer *t)
{
	t->injected = KILNI_FAULT(t->write ? "file_write" : "file_read");
	if (t->injected != KILN_OK)
		return true;
	if (kilni_io_fault("file_intr"))
		t->result = -EINTR;
	if (t->result < 0)
		return ends_with(t, (int)-t->result);
	if (t->result == 0) {
		t->ended = !t->write;
		t->error = t->write ? EIO : 0;
		return true;
	}
	t->retries = 0;
	t->done += (size_t)t->result;
	return t->done >= t->bytes;
}

/* ---- transfers ---- */

static void prepare(struct kilni_transfer *transfer)
{
	transfer->done = 0;
	transfer->error = 0;
	transfer->ended = false;
	transfer->injected = KILN_OK;
	transfer->retries = 0;
}

void kilni_io_move(struct kilni_transfer *transfer)
{
	prepare(transfer);
	do {
		transfer->direct = can_be_direct(transfer);
		transfer->result = kilni_io_attempt(transfer);
	} while (!take_result(transfer));
}

/*
 * An attempt that the engine refuses, a ring for which the system has closed
 * since, is made here: slower, with the same result.
 */
static void start_attempt(struct kilni_io *io, struct kilni_transfer *transfer)
{
	transfer->direct = can_be_direct(transfer);
	if (!io->ops->start(io, transfer))
		return;
	transfer->result = kilni_io_attempt(transfer);
	transfer->next = io->ready;
	io->ready = transfer;
}

static struct kilni_transfer *next_result(struct kilni_io *io)
{
	struct kilni_transfer *transfer = io->ready;

	if (!transfer)
		return io->ops->wait(io);
	io->ready = transfer->next;
	return transfer;
}

void kilni_io_start(struct kilni_io *io, struct kilni_transfer *transfer)
{
	prepare(transfer);
	start_attempt(io, transfer);
}

struct kilni_transfer *kilni_io_wait(struct kilni_io *io)
{
	struct kilni_transfer *transfer = next_result(io);

	while (!take_result(transfer)) {
		start_attempt(io, transfer);
		transfer = next_result(io);
	}
	return transfer;
}

/* ---- the choice of an engine ---- */

enum file_path { PATH_AUTO, PATH_URING, PATH_THREADS };

static enum kiln_status asked_path(enum file_path *path)
{
	static const char *const names[] = { "auto", "uring", "threads" };
	const char *text = kilni_option_text(KILNI_OPT_FILE_PATH);

	*path = PATH_AUTO;
	for (int i = 0; text && i < (int)KILNI_COUNTOF(names); i++)
		if (!strcmp(text, names[i])) {
			*path = (enum file_path)i;
			return KILN_OK;
		}
	if (!text)
		return KILN_OK;
	return kilni_fail(KILN_ERR_OPTION, 0,
			  "KILN_FILE_PATH: \"%s\" is none of auto, uring, "
			  "threads",
			  text);
}

enum kiln_status kilni_io_check(bool *ring_asked)
{
	enum file_path path;

	KILNI_TRY(asked_path(&path));
	*ring_asked = path == PATH_URING;
	return KILN_OK;
}

static enum kiln_status choose(struct kilni_io **out, char *text, size_t size)
{
	enum file_path path;
	int error = 0;

	KILNI_TRY(asked_path(&path));
	*out = NULL;
	snprintf(text, size, "io_uring");
	if (path != PATH_THREADS)
		*out = kilni_io_ring(&error);
	if (!*out && path == PATH_URING)
		return kilni_fail(KILN_ERR_UNSUPPORTED, error,
				  "KILN_FILE_PATH: the system refuses "
				  "io_uring: %s",
				  strerror(error));
	if (*out)
		return KILN_OK;
	if (path == PATH_THREADS)
		snprintf(text, size, "threads (KILN_FILE_PATH)");
	else
		snprintf(text, size, "threads (io_uring: %s)",
			 strerror(error));
	*out = kilni_io_threads();
	if (*out)
		return KILN_OK;
	return kilni_fail(KILN_ERR_NO_MEMORY, 0, "no memory for file threads");
}

enum kiln_status kilni_io_create(struct kilni_io **out)
{
	char text[128];

	KILNI_TRY(choose(out, text, sizeof(text)));
	kilni_log(KILNI_LOG_INFO, "files: %s", text);
	return KILN_OK;
}

void kilni_io_destroy(struct kilni_io *io)
{
	if (io)
		io->ops->destroy(io);
}

enum kiln_status kilni_io_describe(char *text, size_t size)
{
	struct kilni_io *io;

	KILNI_TRY(choose(&io, text, size));
	kilni_io_destroy(io);
	return KILN_OK;
}
