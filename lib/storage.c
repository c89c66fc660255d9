/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include "lib/spare.h"

/* A graph being prepared does not compare what is filled. */
static void set_muted(struct kiln_device *device, bool muted)
{
	struct kilni_stream *stream;

	if (kilni_recorders_open() &&
	    kilni_thread_stream(device, &stream) == KILN_OK)
		kilni_recorder_mute(stream, muted);
}

/*
 * Fills new memory in stream order, so that a device of any kind does it
 * behind what still uses the memory. Where nothing can be queued it stays as
 * it is: what follows will tell why.
 */
static void fill_new(struct kilni_storage *storage)
{
	struct kilni_ew ew = { .fn = "fill", .op = KILNI_OP_FULL,
			       .dtype = KILN_U8, .count = 1,
			       .scalar = { KILNI_FILL_NEW } };
	struct kiln_tensor bytes = {
		.device = storage->device,
		.storage = storage,
		.address = storage->address,
		.dtype = KILN_U8,
		.dense = true,
		.rank = 1,
		.count = (int64_t)storage->bytes,
		.shape = { (int64_t)storage->bytes },
		.stride = { 1 },
	};
	struct kilni_error_record before;

	kilni_error_save(&before);
	set_muted(storage->device, true);
	if (kilni_ew_into(&bytes, &ew) != KILN_OK)
		kilni_error_restore(&before);
	set_muted(storage->device, false);
}

static enum kiln_status new_storage(struct kilni_storage **out,
				    struct kiln_device *device,
				    struct kilni_stream *stream, uint64_t bytes,
				    bool persistent, bool warm)
{
	struct kilni_pools *pools = kilni_device_pools(device);
	struct kilni_storage *storage = kilni_spare_get(KILNI_SPARE_STORAGE,
							sizeof(*storage));
	enum kiln_status status;

	if (!storage)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a tensor");
	if (KILNI_UNLIKELY(warm))
		status = kilni_pools_alloc_warm(pools, stream, bytes,
						persistent, &storage->slice);
	else
		status = kilni_pools_alloc(pools, stream, bytes, persistent,
					   &storage->slice);
	if (status != KILN_OK) {
		kilni_spare_put(KILNI_SPARE_STORAGE, storage);
		return status;
	}
	kilni_plan_memory(device, bytes);
	storage->refs = 1;
	storage->holds = 1;
	storage->flags = 0;
	storage->window = 0;
	storage->fresh = false;
	storage->device = kiln_device_retain(device);
	storage->address = storage->slice.address;
	storage->bytes = bytes;
	storage->deleter = NULL;
	kilni_track_init(&storage->track);
	kilni_track_born(&storage->track, stream);
	*out = storage;
	return KILN_OK;
}

/* The stream may have a graph in preparation. */
static enum kiln_status storage_for_graph(struct kilni_storage **out,
					  struct kiln_device *device,
					  struct kilni_stream *stream,
					  uint64_t bytes, bool persistent)
{
	enum kiln_status status;
	bool captures;

	*out = kilni_window_take(stream, bytes, persistent);
	if (*out)
		return KILN_OK;
	captures = kilni_recorder_state(stream) == KILNI_RECORDER_CAPTURING;
	status = new_storage(out, device, stream, bytes, persistent, captures);
	if (status == KILN_OK) {
		status = kilni_window_add(stream, *out, persistent);
		if (status != KILN_OK)
			kilni_storage_release(*out);
	}
	if (status != KILN_OK)
		kilni_recorder_break(stream);
	return status;
}

enum kiln_status kilni_storage_create(struct kilni_storage **out,
				      struct kiln_device *device,
				      uint64_t bytes, bool temporary)
{
	struct kilni_thread *thread;
	bool persistent;

	KILNI_TRY(kilni_thread_get(device, &thread));
	persistent = thread->persistent && !temporary;
	if (kilni_recorders_open())
		KILNI_TRY(storage_for_graph(out, device, thread->stream, bytes,
					    persistent));
	else
		KILNI_TRY(new_storage(out, device, thread->stream, bytes,
				      persistent, false));
	if (KILNI_UNLIKELY(device->fills))
		fill_new(*out);
	return KILN_OK;
}

static void end_storage(struct kilni_storage *storage)
{
	struct kiln_device *device = storage->device;

	kilni_track_fini(&storage->track);
	kilni_spare_put(KILNI_SPARE_STORAGE, storage);
	kiln_device_release(device);
}

static void call_deleter(void *data, void *user)
{
	struct kilni_storage *storage = data;

	(void)user;
	if (storage->deleter)
		storage->deleter(storage->data, storage->user);
	kilni_track_fini(&storage->track);
	kilni_spare_put(KILNI_SPARE_STORAGE, storage);
}

/*
 * The deleter may run on a driver's thread, which must not close the device;
 * so the device's reference goes back here, before it.
 */
static void end_foreign(struct kilni_storage *storage)
{
	struct kiln_device *device = storage->device;

	kilni_call_after(&storage->track, call_deleter, storage, NULL);
	kiln_device_release(device);
}

static void end(struct kilni_storage *storage)
{
	if (storage->flags & KILNI_STORAGE_FOREIGN) {
		end_foreign(storage);
		return;
	}
	kilni_pools_free(kilni_device_pools(storage->device), &storage->slice,
			 storage->track.uses, storage->track.count);
	end_storage(storage);
}

void kilni_storage_drop(struct kilni_storage *storage)
{
	if (!__atomic_sub_fetch(&storage->holds, 1, __ATOMIC_ACQ_REL))
		end(storage);
}

void kilni_storage_release(struct kilni_storage *storage)
{
	if (__atomic_sub_fetch(&storage->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	/* Without graphs nobody else can come to hold it now. */
	if (KILNI_LIKELY(__atomic_load_n(&storage->holds, __ATOMIC_ACQUIRE) ==
			 1))
		end(storage);
	else
		kilni_storage_drop(storage);
}
