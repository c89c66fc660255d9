/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

/* Moves of the scheduler between host buffers and tensors. */

/* Up to here what is there already is copied on the calling thread. */
#define AT_ONCE_BYTES 65536

/* One tensor, as it was at the call, and the host's side of it. */
struct piece {
	struct kiln_tensor form;     /* without references */
	void *data;
	uint64_t bytes;
	uint32_t op;                 /* that last wrote it */
	/* Where the host cannot address the memory: the range to copy. */
	uint64_t start, extent;
	char *stage;                 /* of that range; NULL: data itself */
};

struct transfer {
	struct kilni_move move;
	struct kilni_posting posting;
	struct kilni_hw *hw;
	bool write;
	void *owned;                 /* freed with it */
	size_t pieces;
	struct piece *piece;
};

static struct transfer *transfer_of(struct kilni_move *move)
{
	return (struct transfer *)(void *)((char *)move -
					   offsetof(struct transfer, move));
}

/* ---- copying ---- */

static bool is_bool(const struct kiln_tensor *t)
{
	return kilni_is_class(kilni_dtype(t), KILNI_CLASSES_B);
}

static void read_visible(const struct piece *p)
{
	const void *origin = (void *)(uintptr_t)p->form.address;

	if (!p->bytes)
		return;
	if (p->form.dense)
		memcpy(p->data, origin, p->bytes);
	else
		kilni_tensor_pack(&p->form, p->data, origin);
}

static enum kiln_status read_staged(const struct transfer *transfer,
				    const struct piece *p)
{
	const struct kilni_memory_ops *memory = transfer->hw->driver->memory;
	char *to = p->stage ? p->stage : p->data;

	if (!p->bytes)
		return KILN_OK;
	KILNI_TRY(memory->read(transfer->hw, to, p->start, p->extent));
	if (p->stage)
		kilni_tensor_pack(&p->form, p->data,
				  p->stage + (p->form.address - p->start));
	return KILN_OK;
}

/* Writes the elements where element 0 is at origin. */
static void put_elements(const struct piece *p, char *origin)
{
	if (p->form.dense)
		memcpy(origin, p->data, p->bytes);
	else
		kilni_tensor_unpack(&p->form, origin, p->data);
	if (is_bool(&p->form))
		kilni_tensor_make_bools(&p->form, origin);
}

static enum kiln_status write_staged(const struct transfer *transfer,
				     const struct piece *p)
{
	const struct kilni_memory_ops *memory = transfer->hw->driver->memory;
	const char *from = p->stage ? p->stage : p->data;

	if (!p->bytes)
		return KILN_OK;
	/* What lies between the elements comes back as it was. */
	if (!p->form.dense)
		KILNI_TRY(memory->read(transfer->hw, p->stage, p->start,
				       p->extent));
	if (p->stage)
		put_elements(p, p->stage + (p->form.address - p->start));
	return memory->write(transfer->hw, p->start, from, p->extent);
}

static enum kiln_status copy_piece(const struct transfer *transfer,
				   const struct piece *p)
{
	if (!transfer->move.direct)
		return transfer->write ? write_staged(transfer, p)
				       : read_staged(transfer, p);
	KILNI_TRY(transfer->write ? KILNI_FAULT("write")
				  : KILNI_FAULT("read"));
	if (!transfer->write)
		read_visible(p);
	else if (p->bytes)
		put_elements(p, (char *)(uintptr_t)p->form.address);
	return KILN_OK;
}

static enum kiln_status run(struct kilni_move *move)
{
	const struct transfer *transfer = transfer_of(move);

	for (size_t i = 0; i < transfer->pieces; i++)
		KILNI_TRY(copy_piece(transfer, &transfer->piece[i]));
	return KILN_OK;
}

/* ---- ending ---- */

static void done(struct kilni_move *move, enum kiln_status status)
{
	struct transfer *transfer = transfer_of(move);
	struct kilni_posting *posting = &transfer->posting;
	size_t i = transfer->pieces == 1 ? 0 : move->failed;

	if (!posting->ring)
		return;
	if (!transfer->write && i < transfer->pieces)
		posting->op = transfer->piece[i].op;
	kilni_posting_post(posting, status, 0);
}

static void end(struct kilni_move *move)
{
	struct transfer *transfer = transfer_of(move);

	for (size_t i = 0; i < transfer->pieces; i++)
		free(transfer->piece[i].stage);
	if (transfer->posting.ring)
		kilni_posting_end(&transfer->posting);
	free(transfer->owned);
	free(transfer);
}

/* ---- making one ---- */

static enum kiln_status create(struct transfer **out, const char *fn,
			       struct kiln_device *device, size_t pieces,
			       bool write)
{
	struct transfer *transfer = NULL;
	size_t each = sizeof(struct piece) + sizeof(struct kilni_move_item);

	if (pieces <= (SIZE_MAX - sizeof(*transfer)) / each)
		transfer = calloc(1, sizeof(*transfer) + pieces * each);
	if (!transfer)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory for a transfer", fn);
	transfer->hw = device->hw;
	transfer->write = write;
	transfer->piece = (struct piece *)(transfer + 1);
	transfer->move.item = (void *)(transfer->piece + pieces);
	transfer->move.direct = device->limits.host_visible;
	transfer->move.run = run;
	transfer->move.done = done;
	transfer->move.end = end;
	*out = transfer;
	return KILN_OK;
}

/* Host memory for what cannot be copied as it lies. */
static enum kiln_status stage(struct transfer *transfer, struct piece *p,
			      const char *fn)
{
	kilni_extent(&p->form, &p->start, &p->extent);
	if (transfer->move.direct || !p->bytes ||
	    (p->form.dense && !(transfer->write && is_bool(&p->form))))
		return KILN_OK;
	p->stage = malloc(p->extent);
	if (!p->stage)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory to stage %llu bytes", fn,
				  (unsigned long long)p->extent);
	return KILN_OK;
}

static enum kiln_status add_piece(struct transfer *transfer,
				  struct kiln_tensor *tensor, void *data,
				  const char *fn)
{
	size_t i = transfer->pieces++;
	struct piece *p = &transfer->piece[i];
	struct kilni_move_item *item = &transfer->move.item[i];

	p->form = *tensor;
	p->data = data;
	p->bytes = kiln_tensor_size_bytes(tensor);
	p->op = __atomic_load_n(&tensor->storage->track.op, __ATOMIC_RELAXED);
	item->track = &tensor->storage->track;
	item->access = !transfer->write		? KILNI_READ
		       : kilni_is_whole(tensor) ? KILNI_WRITE
						: KILNI_READ_WRITE;
	transfer->move.items = transfer->pieces;
	KILNI_TRY(kilni_window_refuse_read(fn, tensor));
	if (item->access & KILNI_READ)
		KILNI_TRY(kilni_track_check_run(item->track, fn));
	return stage(transfer, p, fn);
}

/* ---- starting ---- */

/* What is there already and small is copied at once. */
static bool is_at_once(const struct transfer *transfer)
{
	uint64_t bytes = 0;

	if (transfer->write || !transfer->move.direct)
		return false;
	for (size_t i = 0; i < transfer->pieces; i++) {
		bytes += transfer->piece[i].bytes;
		if (bytes > AT_ONCE_BYTES ||
		    kilni_move_pending(&transfer->move.item[i]))
			return false;
	}
	return true;
}

/* The error is the completion's; the caller's record stays. */
static void run_at_once(struct transfer *transfer)
{
	struct kilni_move *move = &transfer->move;
	struct kilni_error_record before;
	enum kiln_status status = KILN_OK;

	kilni_error_save(&before);
	move->failed = move->items;
	for (size_t i = 0; i < move->items && status == KILN_OK; i++) {
		status = kilni_track_wait(move->item[i].track);
		if (status != KILN_OK)
			move->failed = i;
	}
	if (status == KILN_OK)
		status = run(move);
	done(move, status);
	kilni_error_restore(&before);
	end(move);
}

/* Takes the transfer over. */
static enum kiln_status start(struct transfer *transfer,
			      struct kiln_device *device)
{
	enum kiln_status status = kilni_sched_alive(device->sched);

	if (status == KILN_OK && is_at_once(transfer)) {
		run_at_once(transfer);
		return KILN_OK;
	}
	if (status == KILN_OK)
		status = kilni_move_arm(device->sched, &transfer->move);
	if (status == KILN_OK)
		return KILN_OK;
	if (transfer->posting.ring)
		kilni_posting_cancel(&transfer->posting);
	end(&transfer->move);
	return status;
}

/* The same once its pieces are complete; status is of making those. */
static enum kiln_status post_and_start(struct transfer *transfer,
				       struct kiln_device *device,
				       struct kiln_completions *ring,
				       uint64_t user, const char *fn,
				       enum kiln_status status)
{
	if (status == KILN_OK)
		status = kilni_posting_take(&transfer->posting, ring, user,
					    fn);
	if (status == KILN_OK)
		return start(transfer, device);
	end(&transfer->move);
	return status;
}

static enum kiln_status check_size(const struct kiln_tensor *tensor,
				   const void *data, size_t bytes,
				   const char *fn)
{
	if (bytes == kiln_tensor_size_bytes(tensor) && (data || !bytes))
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "%s: data is %p, %zu bytes for a tensor of %zu", fn,
			  data, bytes, kiln_tensor_size_bytes(tensor));
}

static enum kiln_status move_one(struct kiln_tensor *tensor, void *data,
				 bool write, struct kiln_completions *ring,
				 uint64_t user, const char *fn)
{
	struct transfer *transfer;

	KILNI_TRY(create(&transfer, fn, tensor->device, 1, write));
	return post_and_start(transfer, tensor->device, ring, user, fn,
			      add_piece(transfer, tensor, data, fn));
}

enum kiln_status kiln_tensor_read_async(struct kiln_tensor *tensor, void *data,
					size_t bytes,
					struct kiln_completions *ring,
					uint64_t user)
{
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_TRY(check_size(tensor, data, bytes, __func__));
	return move_one(tensor, data, false, ring, user, __func__);
}

enum kiln_status kiln_tensor_write_async(struct kiln_tensor *tensor,
					 const void *data, size_t bytes,
					 struct kiln_completions *ring,
					 uint64_t user)
{
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_TRY(check_size(tensor, data, bytes, __func__));
	KILNI_TRY(kilni_check_destination(tensor, __func__));
	return move_one(tensor, (void *)(uintptr_t)data, true, ring, user,
			__func__);
}

enum kiln_status kilni_upload_async(struct kiln_tensor *tensor, void *data)
{
	struct transfer *transfer;
	enum kiln_status status;

	status = create(&transfer, "kiln_tensor_from_data", tensor->device, 1,
			true);
	if (status != KILN_OK) {
		free(data);
		return status;
	}
	transfer->owned = data;
	status = add_piece(transfer, tensor, data, "kiln_tensor_from_data");
	if (status == KILN_OK)
		return start(transfer, tensor->device);
	end(&transfer->move);
	return status;
}

/* ---- transactions ---- */

static enum kiln_status check_reads(const struct kiln_read *reads,
				    size_t count, const char *fn)
{
	if (!reads || !count)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: no reads", fn);
	for (size_t i = 0; i < count; i++) {
		const struct kiln_tensor *t = reads[i].tensor;

		KILNI_TRY(kilni_object_check(t, &kilni_tensor_kind, fn,
					     "tensor"));
		KILNI_TRY(check_size(t, reads[i].data, reads[i].bytes, fn));
		if (t->device != reads[0].tensor->device)
			return kilni_fail(KILN_ERR_DEVICE, 0,
					  "%s: read %zu is of %s, the first "
					  "of %s",
					  fn, i, t->device->selector,
					  reads[0].tensor->device->selector);
	}
	return KILN_OK;
}

/* A transfer of all; its end is the caller's. */
static enum kiln_status gather(struct transfer **out,
			       const struct kiln_read *reads, size_t count,
			       const char *fn)
{
	enum kiln_status status = KILN_OK;
	struct transfer *transfer;

	KILNI_TRY(check_reads(reads, count, fn));
	KILNI_TRY(create(&transfer, fn, reads[0].tensor->device, count,
			 false));
	for (size_t i = 0; i < count && status == KILN_OK; i++)
		status = add_piece(transfer, reads[i].tensor, reads[i].data,
				   fn);
	if (status != KILN_OK)
		end(&transfer->move);
	*out = transfer;
	return status;
}

enum kiln_status kiln_transaction_read_async(const struct kiln_read *reads,
					     size_t count,
					     struct kiln_completions *ring,
					     uint64_t user)
{
	struct transfer *transfer;

	KILNI_TRY(gather(&transfer, reads, count, __func__));
	return post_and_start(transfer, reads[0].tensor->device, ring, user,
			      __func__, KILN_OK);
}

enum kiln_status kiln_transaction_read(const struct kiln_read *reads,
				       size_t count)
{
	enum kiln_status status = KILN_OK;
	struct transfer *transfer;
	struct kilni_move *move;

	KILNI_TRY(gather(&transfer, reads, count, __func__));
	move = &transfer->move;
	/* All are with the device before the first is waited for. */
	for (size_t i = 0; i < count; i++)
		kilni_track_push(move->item[i].track);
	for (size_t i = 0; i < count && status == KILN_OK; i++)
		status = kilni_track_wait(move->item[i].track);
	if (status == KILN_OK)
		status = run(move);
	end(move);
	kilni_plan_wait(reads[0].tensor->device);
	return status;
}
