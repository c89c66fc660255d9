/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/safetensors.h"

#include <stdlib.h>

struct kiln_safetensors {
	struct kilni_object object;
	struct kiln_file *file;
	struct kilni_st_header header;
	uint64_t data_at;            /* offset of the data */
};

const struct kilni_object_ops kilni_safetensors_kind = {
	"safetensors file"
};

_Static_assert(offsetof(struct kiln_safetensors, object) == 0,
	       "object first");

#define CHECK_ST(f)                                                            \
	KILNI_TRY(kilni_object_check(f, &kilni_safetensors_kind, __func__, #f))

/* ---- opening ---- */

static enum kiln_status bad_file(const struct kiln_file *file,
				 const char *what, uint64_t value)
{
	return kilni_fail(KILN_ERR_IO, 0, "kiln_safetensors_open: %s: %s%llu",
			  file->fd.path, what, (unsigned long long)value);
}

/* The length of the header, which lies inside the file. */
static enum kiln_status header_length(struct kiln_file *file,
				      uint64_t file_bytes, uint64_t *length)
{
	uint8_t raw[KILNI_ST_LENGTH_BYTES];

	if (file_bytes < sizeof(raw))
		return bad_file(file, "too short for a header: bytes ",
				file_bytes);
	KILNI_TRY(kiln_file_read_bytes(file, 0, raw, sizeof(raw)));
	*length = 0;
	for (size_t i = sizeof(raw); i-- > 0;)
		*length = *length << 8 | raw[i];
	if (*length > KILNI_ST_HEADER_MOST)
		return bad_file(file, "the header is too long: bytes ",
				*length);
	if (*length > file_bytes - sizeof(raw))
		return bad_file(file, "the file ends in the header: bytes ",
				file_bytes);
	return KILN_OK;
}

static enum kiln_status read_header(struct kiln_safetensors *st)
{
	struct kiln_file *file = st->file;
	uint64_t bytes, length;
	enum kiln_status status;
	char *text;

	KILNI_TRY(kiln_file_size(file, &bytes));
	KILNI_TRY(header_length(file, bytes, &length));
	text = malloc(length + 1);
	if (!text)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_safetensors_open: no memory for a "
				  "header of %llu bytes",
				  (unsigned long long)length);
	text[length] = '\0';
	status = kiln_file_read_bytes(file, KILNI_ST_LENGTH_BYTES, text,
				      length);
	if (status != KILN_OK) {
		free(text);
		return status;
	}
	st->data_at = KILNI_ST_LENGTH_BYTES + length;
	return kilni_st_parse(&st->header, "kiln_safetensors_open",
			      file->fd.path, text, length,
			      bytes - st->data_at);
}

static void free_file(struct kiln_safetensors *st)
{
	kilni_st_free(&st->header);
	kiln_file_release(st->file);
	free(st);
}

enum kiln_status kiln_safetensors_open(struct kiln_safetensors **out,
				       const char *path, unsigned flags)
{
	struct kiln_safetensors *st, *old;
	enum kiln_status status;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL",
				  __func__);
	if (*out)
		CHECK_ST(*out);
	st = calloc(1, sizeof(*st));
	if (!st)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory",
				  __func__);
	status = kiln_file_open(&st->file, path, flags);
	if (status == KILN_OK)
		status = read_header(st);
	if (status != KILN_OK) {
		free_file(st);
		return status;
	}
	kilni_object_init(&st->object, &kilni_safetensors_kind);
	old = *out;
	*out = st;
	kiln_safetensors_release(old);
	return KILN_OK;
}

struct kiln_safetensors *
kiln_safetensors_retain(struct kiln_safetensors *file)
{
	kilni_object_retain(&file->object);
	return file;
}

void kiln_safetensors_release(struct kiln_safetensors *file)
{
	if (!file || !kilni_object_drop(&file->object))
		return;
	__atomic_store_n(&file->object.ops, NULL, __ATOMIC_RELAXED);
	free_file(file);
}

/* ---- listing ---- */

size_t kiln_safetensors_count(const struct kiln_safetensors *file)
{
	return file->header.count;
}

uint64_t kiln_safetensors_header_bytes(const struct kiln_safetensors *file)
{
	return file->data_at - KILNI_ST_LENGTH_BYTES;
}

enum kiln_status
kiln_safetensors_describe(const struct kiln_safetensors *file, size_t index,
			  struct kiln_safetensors_info *info)
{
	const struct kilni_st_tensor *tensor;

	CHECK_ST(file);
	if (!info || info->struct_size != sizeof(*info))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: info is NULL, or its struct_size is "
				  "unknown",
				  __func__);
	if (index >= file->header.count)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: index %zu, of %zu tensors", __func__,
				  index, file->header.count);
	tensor = &file->header.tensor[index];
	info->name = tensor->name;
	info->shape = tensor->shape;
	info->rank = tensor->rank;
	info->dtype = tensor->dtype;
	info->dtype_name = tensor->dtype_name;
	info->offset_bytes = file->data_at + tensor->begin;
	info->size_bytes = tensor->end - tensor->begin;
	return KILN_OK;
}

bool kiln_safetensors_find(const struct kiln_safetensors *file,
			   const char *name, size_t *index)
{
	const struct kilni_st_header *h = &file->header;
	size_t low = 0, high = h->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, h->tensor[h->by_name[middle]].name);

		if (!order) {
			*index = h->by_name[middle];
			return true;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

size_t kiln_safetensors_metadata_count(const struct kiln_safetensors *file)
{
	return file->header.metadata_count;
}

const char *kiln_safetensors_metadata(const struct kiln_safetensors *file,
				      size_t index, const char **key)
{
	if (index >= file->header.metadata_count)
		return NULL;
	if (key)
		*key = file->header.metadata[index].key;
	return file->header.metadata[index].text;
}

/* ---- loading ---- */

enum kiln_status kilni_st_moved(void *user, uint64_t bytes)
{
	struct kilni_st_progress *progress = user;

	progress->done += bytes;
	if (!progress->call ||
	    !progress->call(progress->done, progress->total, progress->user))
		return KILN_OK;
	return kilni_fail(KILN_ERR_CANCELLED, 0,
			  "%s: stopped after %llu of %llu bytes", progress->fn,
			  (unsigned long long)progress->done,
			  (unsigned long long)progress->total);
}

static enum kiln_status check_loadable(const struct kiln_safetensors *file,
				       const char *fn,
				       const struct kilni_st_tensor *tensor,
				       const struct kiln_device *device)
{
	if (tensor->dtype < 0)
		return kilni_fail(KILN_ERR_UNSUPPORTED_DTYPE, 0,
				  "%s: %s: \"%.100s\" has dtype %.20s", fn,
				  file->file->fd.path, tensor->name,
				  tensor->dtype_name);
	if (tensor->rank > KILN_RANK_MAX)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "%s: %s: \"%.100s\" has %d axes, more than "
				  "%d",
				  fn, file->file->fd.path, tensor->name,
				  tensor->rank, KILN_RANK_MAX);
	return kilni_check_dtype(fn, device, (enum kiln_dtype)tensor->dtype,
				 KILNI_CLASSES_A);
}

/* A new tensor for it, its memory ready, and the part of the file it is. */
static enum kiln_status make_tensor(struct kiln_tensor **out,
				    struct kilni_file_part *part,
				    const struct kiln_safetensors *file,
				    const struct kilni_st_tensor *tensor,
				    struct kiln_device *device)
{
	static const int64_t scalar[] = { 1 };
	enum kiln_status status;

	KILNI_TRY(kilni_tensor_create(out, device,
				      (enum kiln_dtype)tensor->dtype,
				      tensor->rank ? tensor->rank : 1,
				      tensor->rank ? tensor->shape : scalar));
	status = kilni_tensor_prepare(*out);
	if (status != KILN_OK) {
		kiln_tensor_clear(out);
		return status;
	}
	*part = kilni_file_part_of(*out, file->data_at + tensor->begin);
	return KILN_OK;
}

enum kiln_status kiln_safetensors_load(struct kiln_tensor **out,
				       struct kiln_safetensors *file,
				       const char *name,
				       struct kiln_device *device)
{
	struct kilni_pipe pipe = { .fn = __func__, .parts = 1 };
	struct kilni_file_part part;
	struct kiln_tensor *result;
	enum kiln_status status;
	size_t index;

	KILNI_TRY(kilni_check_out(out, __func__));
	CHECK_ST(file);
	KILNI_CHECK_DEVICE(device, __func__);
	if (!name || !kiln_safetensors_find(file, name, &index))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %s: no tensor \"%.100s\"", __func__,
				  file->file->fd.path, name ? name : "(null)");
	KILNI_TRY(check_loadable(file, __func__, &file->header.tensor[index],
				 device));
	KILNI_TRY(kilni_window_refuse(__func__, device));
	KILNI_TRY(make_tensor(&result, &part, file,
			      &file->header.tensor[index], device));
	pipe.part = &part;
	pipe.hw = device->hw;
	status = kilni_file_move(file->file, &pipe);
	if (status != KILN_OK) {
		kiln_tensor_release(result);
		return status;
	}
	kilni_assign(out, result);
	return KILN_OK;
}

static enum kiln_status check_places(struct kiln_tensor **out,
				     const struct kiln_safetensors *file,
				     const struct kiln_device *device)
{
	static const char fn[] = "kiln_safetensors_load_all";

	KILNI_TRY(kilni_window_refuse(fn, device));
	for (size_t i = 0; i < file->header.count; i++) {
		KILNI_TRY(kilni_check_out(&out[i], fn));
		KILNI_TRY(check_loadable(file, fn, &file->header.tensor[i],
					 device));
	}
	return KILN_OK;
}

/* Makes the tensors, then fills them all at once. */
static enum kiln_status load_parts(struct kiln_tensor **made,
				   struct kilni_file_part *parts,
				   struct kiln_safetensors *file,
				   struct kiln_device *device,
				   kiln_progress progress, void *user)
{
	const struct kilni_st_header *h = &file->header;
	struct kilni_st_progress report = { "kiln_safetensors_load_all",
					    progress, user, 0, 0 };
	struct kilni_pipe pipe = { .fn = report.fn, .hw = device->hw,
				   .part = parts, .parts = h->count,
				   .moved = kilni_st_moved, .user = &report };

	for (size_t i = 0; i < h->count; i++) {
		KILNI_TRY(make_tensor(&made[i], &parts[i], file, &h->tensor[i],
				      device));
		report.total += parts[i].bytes;
	}
	return kilni_file_move(file->file, &pipe);
}

static enum kiln_status load_all(struct kiln_tensor **out,
				 struct kiln_tensor **made,
				 struct kilni_file_part *parts,
				 struct kiln_safetensors *file,
				 struct kiln_device *device,
				 kiln_progress progress, void *user)
{
	size_t count = file->header.count;
	enum kiln_status status;

	if (!made || !parts)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_safetensors_load_all: no memory for "
				  "%zu tensors",
				  count);
	status = load_parts(made, parts, file, device, progress, user);
	for (size_t i = 0; i < count; i++)
		if (status == KILN_OK)
			kilni_assign(&out[i], made[i]);
		else
			kiln_tensor_release(made[i]);
	return status;
}

enum kiln_status kiln_safetensors_load_all(struct kiln_tensor **out,
					   struct kiln_safetensors *file,
					   struct kiln_device *device,
					   kiln_progress progress, void *user)
{
	struct kiln_tensor **made;
	struct kilni_file_part *parts;
	enum kiln_status status;
	size_t count;

	CHECK_ST(file);
	KILNI_CHECK_DEVICE(device, __func__);
	count = file->header.count;
	if (!out && count)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL",
				  __func__);
	KILNI_TRY(check_places(out, file, device));
	made = calloc(count + 1, sizeof(struct kiln_tensor *));
	parts = calloc(count + 1, sizeof(*parts));
	status = load_all(out, made, parts, file, device, progress, user);
	free(made);
	free(parts);
	return status;
}
