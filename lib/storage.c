/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include "lib/spare.h"

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
	if (kilni_ew_into(&bytes, &ew) != KILN_OK)
		kilni_error_restore(&before);
}

enum kiln_status kilni_storage_create(struct kilni_storage **out,
				      struct kiln_device *device,
				      uint64_t bytes, bool temporary)
{
	struct kilni_storage *storage;
	struct kilni_stream *stream;
	struct kilni_thread *thread;
	enum kiln_status status;

	KILNI_TRY(kilni_thread_get(device, &thread));
	stream = thread->stream;
	storage = kilni_spare_get(KILNI_SPARE_STORAGE, sizeof(*storage));
	if (!storage)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a tensor");
	status = kilni_pools_alloc(kilni_device_pools(device), stream, bytes,
				   thread->persistent && !temporary,
				   &storage->slice);
	if (status != KILN_OK) {
		kilni_spare_put(KILNI_SPARE_STORAGE, storage);
		return status;
	}
	kilni_plan_memory(device, bytes);
	storage->refs = 1;
	storage->flags = 0;
	storage->device = kiln_device_retain(device);
	storage->address = storage->slice.address;
	storage->bytes = bytes;
	storage->deleter = NULL;
	kilni_track_init(&storage->track);
	kilni_track_born(&storage->track, stream);
	if (KILNI_UNLIKELY(device->fills))
		fill_new(storage);
	*out = storage;
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

void kilni_storage_release(struct kilni_storage *storage)
{
	if (__atomic_sub_fetch(&storage->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	if (storage->flags & KILNI_STORAGE_FOREIGN) {
		end_foreign(storage);
		return;
	}
	kilni_pools_free(kilni_device_pools(storage->device), &storage->slice,
			 storage->track.uses, storage->track.count);
	end_storage(storage);
}
