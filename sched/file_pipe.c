/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/file.h"

#include <stdlib.h>
#include <string.h>

#include "drivers/driver.h"

/*
 * Parts of a file are cut into blocks. What the host can address goes straight
 * to and from its place; else through staging buffers, of which there are so
 * many that the file and the device work at once, and never more.
 */

/* Stages are pinned where each is used so many times. */
#define PIN_ROUNDS 4

struct block {
	struct kilni_transfer transfer;
	const struct kilni_file_part *part;
	uint64_t at;                 /* of the block in its part */
	char *stage;                 /* NULL: none */
	struct block *next;
};

struct run {
	const struct kilni_pipe *pipe;
	const struct kilni_file_part *part, *end; /* the next block's */
	uint64_t at;
	struct block block[KILNI_IO_DEPTH];
	struct block *idle;
	char *stages;
	bool pinned;                 /* the stages, for the device */
	unsigned flying;
	enum kiln_status status;
	struct kilni_error_record error;
};

/* ---- cutting ---- */

/*
 * The first block of a part ends where a block of the file does, so that the
 * next ones are aligned; not where that would cut an element in two.
 */
static uint64_t block_bytes(const struct kilni_file_part *part, uint64_t at)
{
	uint64_t rest = (part->offset + at) % KILNI_FILE_BLOCK;

	if (rest % sizeof(uint64_t))
		rest = 0;
	return kilni_min_u64(KILNI_FILE_BLOCK - rest, part->bytes - at);
}

static void skip_empty(struct run *run)
{
	while (run->part < run->end && run->at >= run->part->bytes) {
		run->part++;
		run->at = 0;
	}
}

static bool is_staged(const struct kilni_file_part *part)
{
	return !part->host;
}

static void take_block(struct run *run, struct block *block)
{
	const struct kilni_file_part *part = run->part;
	struct kilni_transfer *transfer = &block->transfer;

	block->part = part;
	block->at = run->at;
	transfer->file = run->pipe->file;
	transfer->write = run->pipe->write;
	transfer->offset = part->offset + run->at;
	transfer->bytes = (size_t)block_bytes(part, run->at);
	transfer->data = is_staged(part) ? block->stage
					 : (char *)part->host + run->at;
	run->at += transfer->bytes;
}

/* ---- what became of a transfer ---- */

/*
 * Bytes of the part up to the place of the failure. A later block may be the
 * first to find the end of the file.
 */
static uint64_t bytes_got(const struct kilni_pipe *pipe,
			  const struct block *block)
{
	const struct kilni_file_part *part = block->part;
	uint64_t got = block->at + block->transfer.done, size;

	if (!block->transfer.ended ||
	    kilni_fd_size(pipe->file, pipe->fn, &size) != KILN_OK)
		return got;
	if (size <= part->offset)
		return 0;
	return kilni_min_u64(got, size - part->offset);
}

static enum kiln_status verdict(const struct kilni_pipe *pipe,
				const struct block *block)
{
	const struct kilni_transfer *transfer = &block->transfer;
	const struct kilni_file_part *part = block->part;

	if (transfer->injected != KILN_OK)
		return transfer->injected;
	if (!transfer->error && !transfer->ended)
		return KILN_OK;
	return kilni_fail(KILN_ERR_IO, transfer->error,
			  "%s: %s: wanted %llu bytes at %llu, got %llu: %s",
			  pipe->fn, pipe->file->path,
			  (unsigned long long)part->bytes,
			  (unsigned long long)part->offset,
			  (unsigned long long)bytes_got(pipe, block),
			  transfer->ended ? "the file ends there"
					  : strerror(transfer->error));
}

/* Everything but 0 is 1. */
static void make_bools(char *data, size_t bytes, size_t size)
{
	for (size_t i = 0; i < bytes; i += size) {
		char any = 0;

		for (size_t k = 0; k < size; k++) {
			any |= data[i + k];
			data[i + k] = 0;
		}
		data[i] = any != 0;
	}
}

static enum kiln_status after_read(const struct kilni_pipe *pipe,
				   const struct block *block)
{
	const struct kilni_transfer *transfer = &block->transfer;

	if (block->part->bool_bytes)
		make_bools(transfer->data, transfer->bytes,
			   block->part->bool_bytes);
	if (!is_staged(block->part))
		return KILN_OK;
	return pipe->hw->driver->memory->write(
		pipe->hw, block->part->address + block->at, transfer->data,
		transfer->bytes);
}

static enum kiln_status before_write(const struct kilni_pipe *pipe,
				     const struct block *block)
{
	if (!is_staged(block->part))
		return KILN_OK;
	return pipe->hw->driver->memory->read(
		pipe->hw, block->transfer.data,
		block->part->address + block->at, block->transfer.bytes);
}

static enum kiln_status finish_block(const struct kilni_pipe *pipe,
				     const struct block *block)
{
	KILNI_TRY(verdict(pipe, block));
	if (!pipe->write)
		KILNI_TRY(after_read(pipe, block));
	return pipe->moved ? pipe->moved(pipe->user, block->transfer.bytes)
			   : KILN_OK;
}

/* The first failure is the pipe's; what is in flight comes home. */
static void note(struct run *run, enum kiln_status status)
{
	if (status == KILN_OK || run->status != KILN_OK)
		return;
	run->status = status;
	kilni_error_save(&run->error);
}

/* ---- running ---- */

static void start_blocks(struct run *run, struct kilni_io *io)
{
	const struct kilni_pipe *pipe = run->pipe;

	skip_empty(run);
	while (run->idle && run->part < run->end && run->status == KILN_OK) {
		struct block *block = run->idle;

		take_block(run, block);
		if (pipe->write)
			note(run, before_write(pipe, block));
		if (run->status != KILN_OK)
			return;
		run->idle = block->next;
		run->flying++;
		kilni_io_start(io, &block->transfer);
		skip_empty(run);
	}
}

static void end_block(struct run *run, struct kilni_io *io)
{
	struct kilni_transfer *transfer = kilni_io_wait(io);
	struct block *block =
		(struct block *)(void *)((char *)transfer -
					 offsetof(struct block, transfer));

	run->flying--;
	if (run->status == KILN_OK)
		note(run, finish_block(run->pipe, block));
	block->next = run->idle;
	run->idle = block;
}

static void run_many(struct run *run, struct kilni_io *io)
{
	do {
		start_blocks(run, io);
		if (run->flying)
			end_block(run, io);
	} while (run->flying);
}

/* One block needs no engine. */
static void run_one(struct run *run)
{
	struct block *block = run->idle;

	take_block(run, block);
	if (run->pipe->write)
		note(run, before_write(run->pipe, block));
	if (run->status != KILN_OK)
		return;
	kilni_io_move(&block->transfer);
	note(run, finish_block(run->pipe, block));
}

static bool is_one_block(struct run *run)
{
	uint64_t at;

	skip_empty(run);
	at = run->at;
	if (run->part < run->end)
		at += block_bytes(run->part, at);
	for (const struct kilni_file_part *p = run->part; p < run->end; p++) {
		if (at < p->bytes)
			return false;
		at = 0;
	}
	return true;
}

/* ---- staging ---- */

/* Bytes of the largest block that is staged, 0 where none is. */
static uint64_t stage_bytes(const struct run *run)
{
	uint64_t most = 0;

	for (const struct kilni_file_part *p = run->part; p < run->end; p++)
		if (is_staged(p))
			most = kilni_max_u64(most, p->bytes);
	most = kilni_min_u64(most, KILNI_FILE_BLOCK);
	return kilni_align_up(most, KILNI_DIRECT_ALIGN);
}

static uint64_t staged_bytes(const struct run *run)
{
	uint64_t sum = 0;

	for (const struct kilni_file_part *p = run->part; p < run->end; p++)
		if (is_staged(p))
			sum += p->bytes;
	return sum;
}

/*
 * A device copies from pinned memory without another copy on the host. Pinning
 * takes about as long as moving the same memory once, so it is for many rounds;
 * where it is refused the pipe is only slower.
 */
static void pin_stages(struct run *run, uint64_t bytes)
{
	struct kilni_hw *hw = run->pipe->hw;
	struct kilni_error_record before;

	if (!bytes || staged_bytes(run) < PIN_ROUNDS * bytes)
		return;
	kilni_error_save(&before);
	run->pinned = hw->driver->memory->host_pin(hw, run->stages, bytes) ==
		      KILN_OK;
	kilni_error_restore(&before);
}

static void free_stages(struct run *run, uint64_t bytes)
{
	struct kilni_hw *hw = run->pipe->hw;

	/* Of a device that is lost they go when nothing of it runs any more. */
	if (run->pinned)
		(void)hw->driver->memory->host_unpin(hw, run->stages, bytes,
						     free);
	else
		free(run->stages);
}

static enum kiln_status make_blocks(struct run *run, bool one,
				    uint64_t *stages_bytes)
{
	uint64_t bytes = stage_bytes(run);
	unsigned count = one ? 1 : bytes ? KILNI_FILE_STAGES : KILNI_IO_DEPTH;
	void *stages = NULL;

	if (bytes && posix_memalign(&stages, KILNI_DIRECT_ALIGN,
				    count * bytes))
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory to stage %llu bytes",
				  run->pipe->fn,
				  (unsigned long long)(count * bytes));
	run->stages = stages;
	for (unsigned i = 0; i < count; i++) {
		struct block *block = &run->block[i];

		block->stage = bytes ? run->stages + i * bytes : NULL;
		block->next = run->idle;
		run->idle = block;
	}
	*stages_bytes = count * bytes;
	pin_stages(run, *stages_bytes);
	return KILN_OK;
}

enum kiln_status kilni_pipe_run(const struct kilni_pipe *pipe)
{
	struct run run = { .pipe = pipe, .part = pipe->part,
			   .end = pipe->part + pipe->parts };
	bool one = is_one_block(&run);
	uint64_t stages_bytes;

	if (run.part == run.end)
		return KILN_OK;
	if (!one && !*pipe->io)
		KILNI_TRY(kilni_io_create(pipe->io));
	KILNI_TRY(make_blocks(&run, one, &stages_bytes));
	if (one)
		run_one(&run);
	else
		run_many(&run, *pipe->io);
	free_stages(&run, stages_bytes);
	if (run.status != KILN_OK)
		kilni_error_restore(&run.error);
	return run.status;
}
