/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/file.h"

/* Between files and tensors. */

#define CHECK_FILE(f, fn)                                                      \
	KILNI_TRY(kilni_object_check(f, &kilni_file_kind, fn, #f))

/* ---- the pipe and its engine ---- */

static struct kilni_io *swap_spare(struct kiln_file *file,
				   struct kilni_io *io)
{
	struct kilni_io *old;

	pthread_mutex_lock(&file->lock);
	old = file->spare;
	file->spare = io;
	pthread_mutex_unlock(&file->lock);
	return old;
}

enum kiln_status kilni_file_move(struct kiln_file *file,
				 const struct kilni_pipe *pipe)
{
	struct kilni_pipe own = *pipe;
	struct kilni_io *io = swap_spare(file, NULL);
	enum kiln_status status;

	own.file = &file->fd;
	own.io = &io;
	status = kilni_pipe_run(&own);
	if (io)
		kilni_io_destroy(swap_spare(file, io));
	return status;
}

/* ---- checks ---- */

/* File offsets are 63 bits wide. */
static enum kiln_status check_range(const struct kiln_file *file,
				    const char *fn, uint64_t offset,
				    uint64_t bytes)
{
	if (bytes <= INT64_MAX && offset <= INT64_MAX - bytes)
		return KILN_OK;
	return kilni_fail(KILN_ERR_OVERFLOW, 0,
			  "%s: %s: %llu bytes at %llu overflow", fn,
			  file->fd.path, (unsigned long long)bytes,
			  (unsigned long long)offset);
}

/* Before memory is taken for what is not there. */
static enum kiln_status check_there(const struct kiln_file *file,
				    const char *fn, uint64_t offset,
				    uint64_t bytes)
{
	uint64_t size;

	KILNI_TRY(check_range(file, fn, offset, bytes));
	KILNI_TRY(kilni_fd_size(&file->fd, fn, &size));
	if (offset + bytes <= size)
		return KILN_OK;
	return kilni_fail(KILN_ERR_IO, 0,
			  "%s: %s: wanted %llu bytes at %llu, got %llu: the "
			  "file ends there",
			  fn, file->fd.path, (unsigned long long)bytes,
			  (unsigned long long)offset,
			  (unsigned long long)(size > offset ? size - offset
							     : 0));
}

static enum kiln_status check_new(const struct kiln_file *file, const char *fn)
{
	int state = __atomic_load_n(&file->state, __ATOMIC_ACQUIRE);

	if (state == KILNI_FILE_NEW)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s: is %s", fn,
			  file->fd.path,
			  state == KILNI_FILE_READING ? "open for reading"
						      : "committed");
}

/* ---- reading ---- */

struct kilni_file_part kilni_file_part_of(const struct kiln_tensor *tensor,
					  uint64_t offset)
{
	struct kilni_file_part part = {
		.offset = offset,
		.bytes = (uint64_t)(tensor->count * kilni_size(tensor)),
		.address = tensor->address,
	};

	if (tensor->device->limits.host_visible)
		part.host = (void *)(uintptr_t)tensor->address;
	if (kilni_is_class(kilni_dtype(tensor), KILNI_CLASSES_B))
		part.bool_bytes = (unsigned)kilni_size(tensor);
	return part;
}

enum kiln_status kilni_tensor_prepare(struct kiln_tensor *tensor)
{
	struct kilni_stream *stream;

	KILNI_TRY(kilni_thread_stream(tensor->device, &stream));
	/* Told as every call on a poisoned stream is. */
	if (kilni_stream_is_poisoned(stream))
		return kilni_stream_drain(stream);
	return kilni_track_wait_uses(&tensor->storage->track);
}

static enum kiln_status read_into(struct kiln_tensor *tensor,
				  struct kiln_file *file, const char *fn,
				  uint64_t offset)
{
	struct kilni_file_part part = kilni_file_part_of(tensor, offset);
	struct kilni_pipe pipe = { .fn = fn, .hw = tensor->device->hw,
				   .part = &part, .parts = 1 };

	if (!part.bytes)
		return KILN_OK;
	KILNI_TRY(kilni_tensor_prepare(tensor));
	return kilni_file_move(file, &pipe);
}

enum kiln_status kiln_file_read(struct kiln_tensor **out,
				struct kiln_file *file, uint64_t offset,
				struct kiln_device *device,
				enum kiln_dtype dtype, int rank,
				const int64_t *shape)
{
	struct kiln_tensor *result;
	size_t size = kiln_dtype_size_bytes(dtype);
	enum kiln_status status;
	int64_t count;

	KILNI_TRY(kilni_check_out(out, __func__));
	CHECK_FILE(file, __func__);
	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_check_dtype(__func__, device, dtype, KILNI_CLASSES_A));
	KILNI_TRY(kilni_shape_check(__func__, rank, shape));
	KILNI_TRY(kilni_shape_count(__func__, rank, shape, size, &count));
	KILNI_TRY(check_there(file, __func__, offset,
			      (uint64_t)count * size));
	KILNI_TRY(kilni_window_refuse(__func__, device));
	KILNI_TRY(kilni_tensor_create(&result, device, dtype, rank, shape));
	status = read_into(result, file, __func__, offset);
	if (status != KILN_OK) {
		kiln_tensor_release(result);
		return status;
	}
	kilni_assign(out, result);
	return KILN_OK;
}

enum kiln_status kiln_file_read_bytes(struct kiln_file *file, uint64_t offset,
				      void *data, size_t bytes)
{
	struct kilni_file_part part = { .offset = offset, .bytes = bytes,
					.host = data };
	struct kilni_pipe pipe = { .fn = __func__, .part = &part, .parts = 1 };

	CHECK_FILE(file, __func__);
	if (bytes && !data)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: data is NULL",
				  __func__);
	KILNI_TRY(check_there(file, __func__, offset, bytes));
	return kilni_file_move(file, &pipe);
}

/* ---- writing ---- */

static enum kiln_status write_dense(struct kiln_file *file,
				    struct kilni_pipe *pipe, uint64_t offset,
				    struct kiln_tensor *tensor)
{
	struct kilni_file_part part = kilni_file_part_of(tensor, offset);

	pipe->part = &part;
	pipe->parts = 1;
	KILNI_TRY(kilni_track_wait(&tensor->storage->track));
	return kilni_file_move(file, pipe);
}

enum kiln_status
kilni_file_put(struct kiln_file *file, const char *fn, uint64_t offset,
	       struct kiln_tensor *tensor,
	       enum kiln_status (*moved)(void *user, uint64_t bytes),
	       void *user)
{
	struct kilni_pipe pipe = { .fn = fn, .write = true,
				   .hw = tensor->device->hw, .moved = moved,
				   .user = user };
	struct kiln_tensor *dense;
	enum kiln_status status;

	KILNI_TRY(kilni_window_refuse_read(fn, tensor));
	/* A failed tensor is told as such, not as a failed copy. */
	KILNI_TRY(kilni_track_wait(&tensor->storage->track));
	KILNI_TRY(kilni_tensor_dense(&dense, tensor));
	status = write_dense(file, &pipe, offset, dense);
	kiln_tensor_release(dense);
	return status;
}

enum kiln_status kiln_file_write(struct kiln_file *file, uint64_t offset,
				 struct kiln_tensor *tensor)
{
	CHECK_FILE(file, __func__);
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_TRY(check_new(file, __func__));
	KILNI_TRY(check_range(file, __func__, offset,
			      kiln_tensor_size_bytes(tensor)));
	return kilni_file_put(file, __func__, offset, tensor, NULL, NULL);
}

enum kiln_status kiln_file_write_bytes(struct kiln_file *file, uint64_t offset,
				       const void *data, size_t bytes)
{
	struct kilni_file_part part = { .offset = offset, .bytes = bytes,
					.host = (void *)(uintptr_t)data };
	struct kilni_pipe pipe = { .fn = __func__, .write = true,
				   .part = &part, .parts = 1 };

	CHECK_FILE(file, __func__);
	if (bytes && !data)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: data is NULL",
				  __func__);
	KILNI_TRY(check_new(file, __func__));
	KILNI_TRY(check_range(file, __func__, offset, bytes));
	return kilni_file_move(file, &pipe);
}
