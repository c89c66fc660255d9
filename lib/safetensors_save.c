/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "lib/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Writing safetensors: the header's text, then the data. */

/* ---- text ---- */

struct buffer {
	char *text;
	size_t bytes, capacity;
	bool failed;
};

static void put(struct buffer *buffer, const char *text, size_t bytes)
{
	size_t more = buffer->capacity ? buffer->capacity : 256;
	char *grown;

	if (buffer->failed)
		return;
	while (more - buffer->bytes < bytes)
		more *= 2;
	if (more != buffer->capacity) {
		grown = realloc(buffer->text, more);
		if (!grown) {
			buffer->failed = true;
			return;
		}
		buffer->text = grown;
		buffer->capacity = more;
	}
	memcpy(buffer->text + buffer->bytes, text, bytes);
	buffer->bytes += bytes;
}

static void put_text(struct buffer *buffer, const char *text)
{
	put(buffer, text, strlen(text));
}

static void put_number(struct buffer *buffer, uint64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, number);
	put_text(buffer, digits);
}

static void put_character(struct buffer *buffer, char c)
{
	static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
	const char *at = strchr(values, c);
	char escape[8];

	if (at) {
		escape[0] = '\\';
		escape[1] = names[at - values];
		put(buffer, escape, 2);
	} else if ((unsigned char)c < ' ') {
		snprintf(escape, sizeof(escape), "\\u%04x", c);
		put_text(buffer, escape);
	} else {
		put(buffer, &c, 1);
	}
}

static void put_string(struct buffer *buffer, const char *text)
{
	put_text(buffer, "\"");
	for (; *text; text++)
		put_character(buffer, *text);
	put_text(buffer, "\"");
}

/* ---- checks ---- */

static enum kiln_status check_text(const char *fn, const char *what,
				   const char *text)
{
	if (!text)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: a %s is NULL", fn,
				  what);
	if (!kilni_is_utf8(text))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: a %s is not UTF-8: \"%.100s\"", fn,
				  what, text);
	return KILN_OK;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum kiln_status check_distinct(const char *fn, const char *what,
				       const char *const *texts, size_t count)
{
	const char **sorted = reallocarray(NULL, count + 1, sizeof(*sorted));
	const char *twice = NULL;

	if (!sorted)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory", fn);
	for (size_t i = 0; i < count; i++)
		sorted[i] = texts[i];
	qsort(sorted, count, sizeof(*sorted), compare_texts);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(sorted[i], sorted[i - 1]))
			twice = sorted[i];
	free(sorted);
	if (!twice)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "%s: the %s \"%.100s\" is given twice", fn, what,
			  twice);
}

static enum kiln_status check_texts(const char *fn, const char *what,
				    const char *const *texts, size_t count)
{
	if (count && !texts)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %ss are NULL", fn,
				  what);
	for (size_t i = 0; i < count; i++)
		KILNI_TRY(check_text(fn, what, texts[i]));
	return KILN_OK;
}

static enum kiln_status
check_tensors(const char *fn, const struct kiln_safetensors_content *content)
{
	if (content->count && !content->tensors)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: tensors are NULL",
				  fn);
	for (size_t i = 0; i < content->count; i++) {
		KILNI_CHECK_TENSOR(content->tensors[i], fn);
		if (!strcmp(content->names[i], KILNI_ST_METADATA))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: no tensor may have the name "
					  "\"%s\"",
					  fn, KILNI_ST_METADATA);
	}
	return KILN_OK;
}

static enum kiln_status
check_content(const char *fn, const struct kiln_safetensors_content *content)
{
	if (!content || content->struct_size != sizeof(*content))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: content is NULL, or its struct_size is "
				  "unknown",
				  fn);
	KILNI_TRY(check_texts(fn, "name", content->names, content->count));
	KILNI_TRY(check_texts(fn, "key", content->keys,
			      content->metadata_count));
	KILNI_TRY(check_texts(fn, "text", content->texts,
			      content->metadata_count));
	KILNI_TRY(check_distinct(fn, "name", content->names, content->count));
	KILNI_TRY(check_distinct(fn, "key", content->keys,
				 content->metadata_count));
	return check_tensors(fn, content);
}

/* ---- layout ---- */

static const struct kilni_st_dtype *row_of(const struct kiln_tensor *tensor)
{
	return kilni_st_dtype_of(kilni_dtype(tensor));
}

static uint64_t bytes_of(const struct kiln_tensor *tensor)
{
	return (uint64_t)tensor->count * (row_of(tensor)->bits / 8);
}

/* Wide elements first, so that all are aligned; then by name. */
static int compare_places(const void *a, const void *b, void *arg)
{
	const struct kiln_safetensors_content *content = arg;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct kilni_st_dtype *one = row_of(content->tensors[x]);
	const struct kilni_st_dtype *other = row_of(content->tensors[y]);

	if (one != other)
		return one > other ? -1 : 1;
	return strcmp(content->names[x], content->names[y]);
}

static void put_metadata(struct buffer *buffer,
			 const struct kiln_safetensors_content *content)
{
	put_string(buffer, KILNI_ST_METADATA);
	for (size_t i = 0; i < content->metadata_count; i++) {
		put_text(buffer, i ? "," : ":{");
		put_string(buffer, content->keys[i]);
		put_text(buffer, ":");
		put_string(buffer, content->texts[i]);
	}
	put_text(buffer, "}");
}

static void put_tensor(struct buffer *buffer, const char *name,
		       const struct kiln_tensor *tensor, uint64_t begin)
{
	put_string(buffer, name);
	put_text(buffer, ":{\"dtype\":\"");
	put_text(buffer, row_of(tensor)->name);
	put_text(buffer, "\",\"shape\":[");
	for (int d = 0; d < tensor->rank; d++) {
		if (d)
			put_text(buffer, ",");
		put_number(buffer, (uint64_t)tensor->shape[d]);
	}
	put_text(buffer, "],\"data_offsets\":[");
	put_number(buffer, begin);
	put_text(buffer, ",");
	put_number(buffer, begin + bytes_of(tensor));
	put_text(buffer, "]}");
}

static enum kiln_status
put_header(struct buffer *buffer, const size_t *order, const char *fn,
	   const struct kiln_safetensors_content *content)
{
	uint64_t at = 0;

	put_text(buffer, "{");
	if (content->metadata_count)
		put_metadata(buffer, content);
	for (size_t i = 0; i < content->count; i++) {
		struct kiln_tensor *tensor = content->tensors[order[i]];

		if (i || content->metadata_count)
			put_text(buffer, ",");
		put_tensor(buffer, content->names[order[i]], tensor, at);
		at += bytes_of(tensor);
		if (at > INT64_MAX / 2)
			return kilni_fail(KILN_ERR_LIMIT, 0,
					  "%s: the tensors have too many "
					  "bytes",
					  fn);
	}
	put_text(buffer, "}");
	return KILN_OK;
}

/* The length in front, spaces behind, so that the data begins aligned. */
static void close_header(struct buffer *buffer)
{
	uint64_t length;

	while (buffer->bytes % KILNI_ST_LENGTH_BYTES && !buffer->failed)
		put_text(buffer, " ");
	if (buffer->failed)
		return;
	length = buffer->bytes - KILNI_ST_LENGTH_BYTES;
	for (unsigned i = 0; i < KILNI_ST_LENGTH_BYTES; i++)
		buffer->text[i] = (char)(length >> 8 * i);
}

enum kiln_status
kilni_st_compose(char **out, size_t *bytes, size_t *order, const char *fn,
		 const struct kiln_safetensors_content *content)
{
	struct buffer buffer = { 0 };
	enum kiln_status status;

	for (size_t i = 0; i < content->count; i++)
		order[i] = i;
	qsort_r(order, content->count, sizeof(*order), compare_places,
		(void *)(uintptr_t)content);
	put(&buffer, "\0\0\0\0\0\0\0\0", KILNI_ST_LENGTH_BYTES);
	status = put_header(&buffer, order, fn, content);
	close_header(&buffer);
	if (status == KILN_OK && buffer.failed)
		status = kilni_fail(KILN_ERR_NO_MEMORY, 0,
				    "%s: no memory for the header", fn);
	if (status == KILN_OK &&
	    buffer.bytes - KILNI_ST_LENGTH_BYTES > KILNI_ST_HEADER_MOST)
		status = kilni_fail(KILN_ERR_LIMIT, 0,
				    "%s: a header of %zu bytes is longer than "
				    "%u",
				    fn, buffer.bytes - KILNI_ST_LENGTH_BYTES,
				    KILNI_ST_HEADER_MOST);
	if (status != KILN_OK) {
		free(buffer.text);
		return status;
	}
	*out = buffer.text;
	*bytes = buffer.bytes;
	return KILN_OK;
}

/* ---- the file ---- */

struct save {
	const char *fn;
	const struct kiln_safetensors_content *content;
	char *header;
	size_t header_bytes;
	size_t *order;
	struct kilni_st_progress progress;
};

/* A bool of four bytes is narrowed on its device. */
static enum kiln_status as_written(struct kiln_tensor **out,
				   struct kiln_tensor *tensor)
{
	*out = KILN_TENSOR_NONE;
	if (tensor->dtype == KILN_BOOL_U32)
		return kiln_cast(out, tensor, KILN_BOOL);
	*out = kiln_tensor_retain(tensor);
	return KILN_OK;
}

static enum kiln_status put_data(struct save *save, struct kiln_file *file)
{
	const struct kiln_safetensors_content *content = save->content;
	uint64_t at = save->header_bytes;

	for (size_t i = 0; i < content->count; i++) {
		struct kiln_tensor *tensor = content->tensors[save->order[i]];
		struct kiln_tensor *written;
		enum kiln_status status;

		KILNI_TRY(as_written(&written, tensor));
		status = kilni_file_put(file, save->fn, at, written,
					kilni_st_moved, &save->progress);
		kiln_tensor_release(written);
		if (status != KILN_OK)
			return status;
		at += bytes_of(tensor);
	}
	return KILN_OK;
}

/* Tensors that failed are told before a file is made. */
static enum kiln_status wait_for_all(struct save *save)
{
	const struct kiln_safetensors_content *content = save->content;

	for (size_t i = 0; i < content->count; i++) {
		struct kiln_tensor *tensor = content->tensors[i];

		KILNI_TRY(kilni_window_refuse_read(save->fn, tensor));
		KILNI_TRY(kilni_track_wait(&tensor->storage->track));
		save->progress.total += bytes_of(tensor);
	}
	return KILN_OK;
}

static enum kiln_status write_file(struct save *save, const char *path,
				   unsigned flags)
{
	struct kiln_file *file = NULL;
	enum kiln_status status;

	KILNI_TRY(wait_for_all(save));
	KILNI_TRY(kiln_file_create(&file, path, flags));
	status = kiln_file_write_bytes(file, 0, save->header,
				       save->header_bytes);
	if (status == KILN_OK)
		status = put_data(save, file);
	if (status == KILN_OK)
		status = kiln_file_commit(file);
	kiln_file_release(file);
	return status;
}

enum kiln_status
kiln_safetensors_save(const char *path, unsigned flags,
		      const struct kiln_safetensors_content *content)
{
	struct save save = { .fn = __func__, .content = content };
	enum kiln_status status;

	KILNI_TRY(check_content(__func__, content));
	save.progress = (struct kilni_st_progress){
		__func__, content->progress, content->user, 0, 0
	};
	save.order = reallocarray(NULL, content->count + 1, sizeof(size_t));
	if (!save.order)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory",
				  __func__);
	status = kilni_st_compose(&save.header, &save.header_bytes, save.order,
				  __func__, content);
	if (status == KILN_OK)
		status = write_file(&save, path, flags);
	free(save.header);
	free(save.order);
	return status;
}
