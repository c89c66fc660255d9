/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/file.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <time.h>

/* Transfers through io_uring. */

struct ring_io {
	struct kilni_io io;
	struct io_uring ring;
	bool broken; /* the system has stopped taking submissions */
};

static struct ring_io *ring_of(struct kilni_io *io)
{
	return (struct ring_io *)io;
}

/* Hands what was prepared to the system: 0 or an errno. */
static int submit(struct io_uring *ring)
{
	int got;

	do
		got = io_uring_submit(ring);
	while (got == -EINTR);
	if (got == 1)
		return 0;
	return got < 0 ? -got : EAGAIN;
}

static int ring_start(struct kilni_io *io, struct kilni_transfer *transfer)
{
	struct ring_io *own = ring_of(io);
	struct io_uring_sqe *sqe;
	char *data = transfer->data + transfer->done;
	uint64_t at = transfer->offset + transfer->done;
	unsigned bytes = (unsigned)kilni_io_bytes(transfer);
	int error;

	if (own->broken || kilni_io_fault("file_submit"))
		return EAGAIN;
	sqe = io_uring_get_sqe(&own->ring);
	if (!sqe)
		return EAGAIN;
	if (transfer->write)
		io_uring_prep_write(sqe, kilni_io_fd(transfer), data, bytes,
				    at);
	else
		io_uring_prep_read(sqe, kilni_io_fd(transfer), data, bytes,
				   at);
	io_uring_sqe_set_data(sqe, transfer);
	error = submit(&own->ring);
	/* The entry stays in the queue: none may be handed over after it. */
	if (error)
		own->broken = true;
	return error;
}

/*
 * Completions arrive also where waiting for them has been forbidden since;
 * nothing that is in flight may be left behind.
 */
static struct io_uring_cqe *next_cqe(struct io_uring *ring)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	struct io_uring_cqe *cqe = NULL;

	if (!kilni_io_fault("file_wait") && !io_uring_wait_cqe(ring, &cqe))
		return cqe;
	while (io_uring_peek_cqe(ring, &cqe))
		nanosleep(&pause, NULL);
	return cqe;
}

static struct kilni_transfer *ring_wait(struct kilni_io *io)
{
	struct io_uring *ring = &ring_of(io)->ring;
	struct io_uring_cqe *cqe = next_cqe(ring);
	struct kilni_transfer *transfer = io_uring_cqe_get_data(cqe);

	transfer->result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return transfer;
}

static void ring_destroy(struct kilni_io *io)
{
	io_uring_queue_exit(&ring_of(io)->ring);
	free(ring_of(io));
}

static const struct kilni_io_ops ring_ops = {
	.start = ring_start,
	.wait = ring_wait,
	.destroy = ring_destroy,
};

/* Whether the system knows the two operations, and lets an entry through. */
static int try_out(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	struct io_uring_cqe *cqe;
	bool known;
	int error;

	if (!probe)
		return EOPNOTSUPP;
	known = io_uring_opcode_supported(probe, IORING_OP_READ) &&
		io_uring_opcode_supported(probe, IORING_OP_WRITE);
	io_uring_free_probe(probe);
	if (!known)
		return EOPNOTSUPP;
	io_uring_prep_nop(io_uring_get_sqe(ring));
	error = submit(ring);
	if (error)
		return error;
	cqe = next_cqe(ring);
	io_uring_cqe_seen(ring, cqe);
	return 0;
}

static int set_up(struct io_uring *ring)
{
	int error;

	if (kilni_io_fault("file_ring"))
		return EPERM;
	error = -io_uring_queue_init(KILNI_IO_DEPTH, ring, 0);
	if (error)
		return error;
	error = try_out(ring);
	if (error)
		io_uring_queue_exit(ring);
	return error;
}

struct kilni_io *kilni_io_ring(int *error)
{
	struct ring_io *own = calloc(1, sizeof(*own));

	if (!own) {
		*error = ENOMEM;
		return NULL;
	}
	own->io.ops = &ring_ops;
	*error = set_up(&own->ring);
	if (!*error)
		return &own->io;
	free(own);
	return NULL;
}
