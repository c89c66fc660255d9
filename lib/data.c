/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

/* Between host memory and tensors. */

static enum kiln_status check_data(struct kiln_tensor *const *out,
				   const struct kiln_device *device,
				   enum kiln_dtype dtype, int rank,
				   const int64_t *shape, const void *data,
				   const char *fn, int64_t *count)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_DEVICE(device, fn);
	KILNI_TRY(kilni_check_dtype(fn, device, dtype, KILNI_CLASSES_A));
	KILNI_TRY(kilni_shape_check(fn, rank, shape));
	KILNI_TRY(kilni_shape_count(fn, rank, shape,
				    kiln_dtype_size_bytes(dtype), count));
	if (*count && !data)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: data is NULL", fn);
	return KILN_OK;
}

/* ---- foreign memory ---- */

enum kiln_status kilni_storage_foreign(struct kilni_storage **out,
				       struct kiln_device *device, void *data,
				       uint64_t bytes, unsigned flags)
{
	struct kilni_storage *storage = calloc(1, sizeof(*storage));

	if (!storage)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a tensor");
	storage->refs = 1;
	storage->holds = 1;
	storage->flags = KILNI_STORAGE_FOREIGN;
	if (!(flags & KILN_FOREIGN_WRITABLE))
		storage->flags |= KILNI_STORAGE_READ_ONLY;
	storage->device = kiln_device_retain(device);
	storage->address = (uint64_t)(uintptr_t)data;
	storage->bytes = bytes;
	storage->data = data;
	kilni_track_init(&storage->track);
	*out = storage;
	return KILN_OK;
}

/* A tensor over memory that the device can read; arguments are good. */
static enum kiln_status wrap(struct kiln_tensor **out,
			     struct kiln_device *device, enum kiln_dtype dtype,
			     int rank, const int64_t *shape, void *data,
			     unsigned flags, kiln_deleter deleter, void *user)
{
	struct kiln_tensor model = { .dtype = (uint8_t)dtype,
				     .device = device };
	int64_t stride[KILN_RANK_MAX], bytes = kilni_size(&model);
	enum kiln_status status;

	for (int d = 0; d < rank; d++)
		bytes *= shape[d];
	KILNI_TRY(kilni_storage_foreign(&model.storage, device, data,
					(uint64_t)bytes, flags));
	kilni_dense_strides(rank, shape, kilni_size(&model), stride);
	status = kilni_tensor_view(out, &model, rank, shape, stride,
				   model.storage->address);
	if (status == KILN_OK) {
		model.storage->deleter = deleter;
		model.storage->user = user;
	}
	/* The view holds the storage now, or it ends here. */
	kilni_storage_release(model.storage);
	return status;
}

/* Whether the device can use the memory; what is empty has none. */
static enum kiln_status check_foreign(struct kiln_device *device,
				      const void *data, uint64_t bytes,
				      const char *fn)
{
	const struct kilni_memory_ops *ops = device->hw->driver->memory;

	if (device->limits.host_visible)
		return KILN_OK;
	if (ops->adopt == kilni_memory_stubs.adopt)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "%s: %s cannot read host memory", fn,
				  device->selector);
	return bytes ? ops->adopt(device->hw, (uintptr_t)data, bytes) : KILN_OK;
}

enum kiln_status kiln_tensor_from_foreign(
	struct kiln_tensor **out, struct kiln_device *device,
	enum kiln_dtype dtype, int rank, const int64_t *shape, void *data,
	unsigned flags, kiln_deleter deleter, void *user)
{
	struct kiln_tensor *result;
	int64_t count;

	KILNI_TRY(check_data(out, device, dtype, rank, shape, data, __func__,
			     &count));
	if (flags & ~(unsigned)KILN_FOREIGN_WRITABLE)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: flags 0x%x are unknown", __func__,
				  flags);
	if ((uintptr_t)data % kiln_dtype_size_bytes(dtype))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: data %p is not aligned to %s", __func__,
				  data, kiln_dtype_name(dtype));
	KILNI_TRY(check_foreign(device, data,
				(uint64_t)count * kiln_dtype_size_bytes(dtype),
				__func__));
	kilni_device_fix_settings(device);
	KILNI_TRY(wrap(&result, device, dtype, rank, shape, data, flags,
		       deleter, user));
	kilni_assign(out, result);
	return KILN_OK;
}

/* ---- upload ---- */

static void free_staging(void *data, void *user)
{
	(void)user;
	free(data);
}

static enum kiln_status no_staging(size_t bytes)
{
	return kilni_fail(KILN_ERR_NO_MEMORY, 0,
			  "kiln_tensor_from_data: no memory to stage %zu "
			  "bytes",
			  bytes);
}

/*
 * The slice may still be in use by earlier work of the stream; then the data
 * travels through a copy that the stream makes in its turn.
 */
static enum kiln_status upload_staged(struct kiln_tensor *t, const void *data,
				      size_t bytes)
{
	struct kiln_tensor *staging;
	enum kiln_status status;
	void *copy = malloc(bytes);

	if (!copy)
		return no_staging(bytes);
	memcpy(copy, data, bytes);
	status = wrap(&staging, t->device, kilni_dtype(t), t->rank, t->shape,
		      copy, KILN_FOREIGN_READ_ONLY, free_staging, NULL);
	if (status != KILN_OK) {
		free(copy);
		return status;
	}
	status = kilni_copy("kiln_tensor_from_data", t, staging);
	kiln_tensor_release(staging);
	return status;
}

/* The same where the stream cannot read host memory. */
static enum kiln_status upload_behind(struct kiln_tensor *t, const void *data,
				      size_t bytes)
{
	void *copy = malloc(bytes);

	if (!copy)
		return no_staging(bytes);
	memcpy(copy, data, bytes);
	return kilni_upload_async(t, copy);
}

/*
 * Whether the memory can be written now. Memory that a graph in preparation
 * uses again may be in use elsewhere too: by another stream, or by data on its
 * way.
 */
static bool is_free(const struct kiln_tensor *t,
		    const struct kilni_stream *stream)
{
	struct kilni_move_item item = { .track = &t->storage->track,
					.access = KILNI_WRITE };

	return kilni_stream_idle(stream) && !kilni_move_pending(&item);
}

static enum kiln_status upload(struct kiln_tensor *t, const void *data,
			       size_t bytes)
{
	struct kilni_hw *hw = t->device->hw;
	struct kilni_stream *stream;

	if (!bytes)
		return KILN_OK;
	KILNI_TRY(kilni_thread_stream(t->device, &stream));
	if (kilni_stream_is_poisoned(stream))
		return kilni_stream_drain(stream);
	if (is_free(t, stream))
		return hw->driver->memory->write(hw, t->address, data, bytes);
	if (t->device->limits.host_visible)
		return upload_staged(t, data, bytes);
	return upload_behind(t, data, bytes);
}

/* A copy of bool data in which everything but 0 is 1. */
static enum kiln_status normalise(const void *data, size_t bytes, size_t size,
				  void **out)
{
	uint8_t *bools = calloc(1, bytes);
	const uint8_t *from = data;

	if (!bools)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_tensor_from_data: no memory for %zu "
				  "bytes",
				  bytes);
	for (size_t i = 0; i < bytes; i++)
		if (from[i])
			bools[i - i % size] = 1;
	*out = bools;
	return KILN_OK;
}

static enum kiln_status upload_dtype(struct kiln_tensor *t, const void *data,
				     size_t bytes)
{
	enum kiln_status status;
	void *bools;

	if (!bytes || !kilni_is_class(kilni_dtype(t), KILNI_CLASSES_B))
		return upload(t, data, bytes);
	KILNI_TRY(normalise(data, bytes, (size_t)kilni_size(t), &bools));
	status = upload(t, bools, bytes);
	free(bools);
	return status;
}

enum kiln_status kiln_tensor_from_data(struct kiln_tensor **out,
				       struct kiln_device *device,
				       enum kiln_dtype dtype, int rank,
				       const int64_t *shape, const void *data,
				       size_t bytes)
{
	struct kiln_tensor *result;
	int64_t count;

	KILNI_TRY(check_data(out, device, dtype, rank, shape, data, __func__,
			     &count));
	if (bytes != (size_t)count * kiln_dtype_size_bytes(dtype))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %zu bytes for %lld elements of %s",
				  __func__, bytes, (long long)count,
				  kiln_dtype_name(dtype));
	KILNI_TRY(kilni_window_refuse(__func__, device));
	KILNI_TRY(kilni_tensor_create(&result, device, dtype, rank, shape));
	return kilni_settle(out, result, upload_dtype(result, data, bytes));
}

/* ---- download ---- */

static void copy_row(char *to, int64_t to_stride, const char *from,
		     int64_t from_stride, int64_t count, size_t size)
{
	for (int64_t i = 0; i < count; i++)
		memcpy(to + i * to_stride, from + i * from_stride, size);
}

/* Between a view, whose element 0 is at origin, and its dense form. */
static void copy_view(const struct kiln_tensor *t, char *dense, char *origin,
		      bool unpack)
{
	int last = t->rank - 1;
	int64_t size = kilni_size(t), row = t->shape[last];
	int64_t stride = t->stride[last];
	int64_t at[KILN_RANK_MAX] = { 0 }, offset = 0;

	for (int64_t done = 0; done < t->count; done += row) {
		if (unpack)
			copy_row(origin + offset, stride, dense + done * size,
				 size, row, (size_t)size);
		else
			copy_row(dense + done * size, size, origin + offset,
				 stride, row, (size_t)size);
		for (int d = last - 1; d >= 0; d--) {
			offset += t->stride[d];
			if (++at[d] < t->shape[d])
				break;
			offset -= t->stride[d] * t->shape[d];
			at[d] = 0;
		}
	}
}

void kilni_tensor_pack(const struct kiln_tensor *t, void *to,
		       const void *origin)
{
	copy_view(t, to, (char *)(uintptr_t)origin, false);
}

void kilni_tensor_unpack(const struct kiln_tensor *t, void *origin,
			 const void *from)
{
	copy_view(t, (char *)(uintptr_t)from, origin, true);
}

static void make_bool(char *element, size_t size)
{
	char any = 0;

	for (size_t i = 0; i < size; i++) {
		any |= element[i];
		element[i] = 0;
	}
	element[0] = any != 0;
}

void kilni_tensor_make_bools(const struct kiln_tensor *t, void *origin)
{
	size_t size = (size_t)kilni_size(t);

	for (int64_t i = 0; i < t->count; i++) {
		int64_t offset = 0, rest = i;

		for (int d = t->rank - 1; d >= 0; d--) {
			offset += rest % t->shape[d] * t->stride[d];
			rest /= t->shape[d];
		}
		make_bool((char *)origin + offset, size);
	}
}

/*
 * Reads a view without a stream: the calling thread's may be poisoned or busy,
 * and the tensor need not wait for that.
 */
static enum kiln_status read_packed(struct kiln_tensor *t, void *data)
{
	struct kilni_hw *hw = t->device->hw;
	enum kiln_status status;
	uint64_t start, bytes;
	char *extent;

	if (t->device->limits.host_visible) {
		kilni_tensor_pack(t, data, (void *)(uintptr_t)t->address);
		return KILN_OK;
	}
	kilni_extent(t, &start, &bytes);
	extent = malloc(bytes);
	if (!extent)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_tensor_read: no memory for %llu bytes",
				  (unsigned long long)bytes);
	status = hw->driver->memory->read(hw, extent, start, bytes);
	if (status == KILN_OK)
		kilni_tensor_pack(t, data, extent + (t->address - start));
	free(extent);
	return status;
}

/* The calling thread's stream is at hand for a copy. */
static bool can_pack_on_device(struct kiln_device *device)
{
	struct kilni_stream *stream = kilni_thread_peek(device);

	/* A graph that is prepared must not see work that comes of reading. */
	return stream && kilni_stream_idle(stream) &&
	       !kilni_stream_is_poisoned(stream) &&
	       kilni_recorder_state(stream) == KILNI_RECORDER_NONE;
}

/* Where the stream or the memory refuses, the host can do it. */
static bool pack_on_device(struct kiln_tensor **dense, struct kiln_tensor *t)
{
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_tensor_dense(dense, t) == KILN_OK)
		return true;
	kilni_error_restore(&before);
	return false;
}

static enum kiln_status read_dense(struct kiln_tensor *t, void *data,
				   size_t bytes)
{
	struct kilni_hw *hw = t->device->hw;

	KILNI_TRY(kilni_track_wait(&t->storage->track));
	return hw->driver->memory->read(hw, data, t->address, bytes);
}

static enum kiln_status read_tensor(struct kiln_tensor *tensor, void *data,
				    size_t bytes)
{
	struct kiln_tensor *dense;
	enum kiln_status status;

	if (!bytes)
		return kilni_track_wait(&tensor->storage->track);
	if (tensor->dense)
		return read_dense(tensor, data, bytes);
	/* A failed tensor is told as such, not as a failed copy. */
	KILNI_TRY(kilni_track_wait(&tensor->storage->track));
	if (can_pack_on_device(tensor->device) &&
	    pack_on_device(&dense, tensor)) {
		status = read_dense(dense, data, bytes);
		kiln_tensor_release(dense);
		return status;
	}
	return read_packed(tensor, data);
}

enum kiln_status kiln_tensor_read(struct kiln_tensor *tensor, void *data,
				  size_t bytes)
{
	enum kiln_status status;

	KILNI_CHECK_TENSOR(tensor, __func__);
	if (bytes != kiln_tensor_size_bytes(tensor) || (bytes && !data))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: data is %p, %zu bytes for a tensor of "
				  "%zu",
				  __func__, data, bytes,
				  kiln_tensor_size_bytes(tensor));
	KILNI_TRY(kilni_window_refuse_read(__func__, tensor));
	status = read_tensor(tensor, data, bytes);
	kilni_plan_wait(tensor->device);
	return status;
}

enum kiln_status kiln_to_device(struct kiln_tensor **out,
				struct kiln_tensor *tensor,
				struct kiln_device *device)
{
	enum kiln_status status;
	size_t bytes;
	void *host;

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_CHECK_DEVICE(device, __func__);
	if (tensor->device == device) {
		kilni_assign(out, kiln_tensor_retain(tensor));
		return KILN_OK;
	}
	bytes = kiln_tensor_size_bytes(tensor);
	host = malloc(bytes ? bytes : 1);
	if (!host)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory to stage %zu bytes", __func__,
				  bytes);
	status = kiln_tensor_read(tensor, host, bytes);
	if (status == KILN_OK)
		status = kiln_tensor_from_data(out, device,
					       kilni_dtype(tensor),
					       tensor->rank, tensor->shape,
					       host, bytes);
	free(host);
	return status;
}
