/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "lib/safetensors.h"

#include <stdlib.h>

/* What a safetensors header says, and whether it can be true. */

static const struct kilni_st_dtype dtypes[] = {
	{ "BOOL", 8, KILN_BOOL },     { "F4", 4, -1 },
	{ "F6_E2M3", 6, -1 },         { "F6_E3M2", 6, -1 },
	{ "U8", 8, KILN_U8 },         { "I8", 8, KILN_I8 },
	{ "F8_E5M2", 8, -1 },         { "F8_E4M3", 8, -1 },
	{ "F8_E8M0", 8, -1 },         { "F8_E4M3FNUZ", 8, -1 },
	{ "F8_E5M2FNUZ", 8, -1 },     { "I16", 16, KILN_I16 },
	{ "U16", 16, KILN_U16 },      { "F16", 16, KILN_F16 },
	{ "BF16", 16, KILN_BF16 },    { "I32", 32, KILN_I32 },
	{ "U32", 32, KILN_U32 },      { "F32", 32, KILN_F32 },
	{ "C64", 64, -1 },            { "F64", 64, KILN_F64 },
	{ "I64", 64, KILN_I64 },      { "U64", 64, KILN_U64 },
};

const struct kilni_st_dtype *kilni_st_dtype_named(const char *name)
{
	for (size_t i = 0; i < KILNI_COUNTOF(dtypes); i++)
		if (!strcmp(dtypes[i].name, name))
			return &dtypes[i];
	return NULL;
}

const struct kilni_st_dtype *kilni_st_dtype_of(enum kiln_dtype dtype)
{
	if (dtype == KILN_FLEX32)
		dtype = KILN_F32;
	if (kilni_is_class(dtype, KILNI_CLASSES_B))
		dtype = KILN_BOOL;
	for (size_t i = 0; i < KILNI_COUNTOF(dtypes); i++)
		if (dtypes[i].dtype == (int)dtype)
			return &dtypes[i];
	return NULL;
}

/* ---- growing lists ---- */

/* Room for one more; the list, moved perhaps, or NULL. */
static void *room(void *list, size_t count, size_t *capacity, size_t size)
{
	size_t more = *capacity ? 2 * *capacity : 16;

	if (count < *capacity)
		return list;
	list = reallocarray(list, more, size);
	if (list)
		*capacity = more;
	return list;
}

#define NO_MEMORY "no memory for the header"

#define GROW(json, list, count, capacity)                                      \
	__extension__({                                                        \
		void *grown_ = room(list, count, &(capacity), sizeof(*(list)));\
                                                                               \
		if (grown_)                                                    \
			(list) = grown_;                                       \
		grown_ || kilni_json_fault(json, NO_MEMORY);                   \
	})

/* ---- reading ---- */

struct reader {
	struct kilni_json json;
	struct kilni_st_header *header;
	bool has_metadata;
	const char *name;            /* of the tensor, for messages */
};

static bool read_text(struct reader *r, char *key)
{
	struct kilni_st_header *h = r->header;
	char *text;

	if (!kilni_json_string(&r->json, &text) ||
	    !GROW(&r->json, h->metadata, h->metadata_count,
		  h->metadata_capacity))
		return false;
	h->metadata[h->metadata_count++] = (struct kilni_st_text){ key, text };
	return true;
}

static bool read_metadata(struct reader *r)
{
	bool first = true;
	char *key;

	if (r->has_metadata)
		return kilni_json_fault(&r->json,
					"\"" KILNI_ST_METADATA "\" twice");
	r->has_metadata = true;
	if (!kilni_json_open(&r->json, '{'))
		return false;
	while (kilni_json_more(&r->json, '}', &first))
		if (!kilni_json_key(&r->json, &key) || !read_text(r, key))
			return false;
	return !r->json.fault;
}

/* Until all are read shape is an index, since the list may move. */
static bool read_shape(struct reader *r, struct kilni_st_tensor *tensor)
{
	struct kilni_st_header *h = r->header;
	bool first = true;
	int64_t size;

	tensor->rank = 0;
	if (!kilni_json_open(&r->json, '['))
		return false;
	while (kilni_json_more(&r->json, ']', &first)) {
		if (!kilni_json_number(&r->json, &size) ||
		    !GROW(&r->json, h->sizes, h->size_count,
			  h->size_capacity))
			return false;
		h->sizes[h->size_count++] = size;
		tensor->rank++;
	}
	return !r->json.fault;
}

static bool read_offsets(struct reader *r, struct kilni_st_tensor *tensor)
{
	int64_t at[2];
	bool first = true;

	if (!kilni_json_open(&r->json, '['))
		return false;
	for (int i = 0; i < 2; i++)
		if (!kilni_json_more(&r->json, ']', &first) ||
		    !kilni_json_number(&r->json, &at[i]))
			return kilni_json_fault(&r->json,
						"offsets are not two");
	if (kilni_json_more(&r->json, ']', &first) || r->json.fault)
		return kilni_json_fault(&r->json, "offsets are not two");
	if (at[0] > at[1])
		return kilni_json_fault(&r->json, "offsets run backwards");
	tensor->begin = (uint64_t)at[0];
	tensor->end = (uint64_t)at[1];
	return true;
}

enum key { KEY_DTYPE = 1, KEY_SHAPE = 2, KEY_OFFSETS = 4, KEYS_ALL = 7 };

static enum key key_of(const char *text)
{
	if (!strcmp(text, "dtype"))
		return KEY_DTYPE;
	if (!strcmp(text, "shape"))
		return KEY_SHAPE;
	return strcmp(text, "data_offsets") ? 0 : KEY_OFFSETS;
}

static bool read_field(struct reader *r, struct kilni_st_tensor *tensor,
		       unsigned *seen)
{
	char *text;
	enum key key;

	if (!kilni_json_key(&r->json, &text))
		return false;
	key = key_of(text);
	if (!key)
		return kilni_json_fault(&r->json, "an unknown key");
	if (*seen & key)
		return kilni_json_fault(&r->json, "a key twice");
	*seen |= key;
	if (key == KEY_DTYPE)
		return kilni_json_string(&r->json, &tensor->dtype_name);
	return key == KEY_SHAPE ? read_shape(r, tensor)
				: read_offsets(r, tensor);
}

static bool read_tensor(struct reader *r, char *name)
{
	struct kilni_st_header *h = r->header;
	struct kilni_st_tensor tensor = { .name = name };
	bool first = true;
	unsigned seen = 0;

	r->name = name;
	if (!kilni_json_open(&r->json, '{'))
		return false;
	while (kilni_json_more(&r->json, '}', &first))
		if (!read_field(r, &tensor, &seen))
			return false;
	if (r->json.fault)
		return false;
	if (seen != KEYS_ALL)
		return kilni_json_fault(&r->json,
					"dtype, shape or offsets are missing");
	if (!GROW(&r->json, h->tensor, h->count, h->capacity))
		return false;
	h->tensor[h->count++] = tensor;
	r->name = NULL;
	return true;
}

static bool read_all(struct reader *r)
{
	bool first = true;
	char *name;

	if (r->json.end && *r->json.text != '{')
		return kilni_json_fault(&r->json, "a { is missing");
	if (!kilni_json_open(&r->json, '{'))
		return false;
	while (kilni_json_more(&r->json, '}', &first)) {
		if (!kilni_json_key(&r->json, &name))
			return false;
		if (!(strcmp(name, KILNI_ST_METADATA) ? read_tensor(r, name)
						      : read_metadata(r)))
			return false;
	}
	return !r->json.fault && kilni_json_finish(&r->json);
}

static void place_shapes(struct kilni_st_header *h)
{
	int64_t *sizes = h->sizes;

	for (size_t i = 0; i < h->count; i++) {
		h->tensor[i].shape = sizes;
		sizes += h->tensor[i].rank;
	}
}

/* ---- checking ---- */

/* Whether the shape has as many bytes as the offsets; a fault or NULL. */
static const char *check_bytes(struct kilni_st_tensor *tensor)
{
	const struct kilni_st_dtype *row =
		kilni_st_dtype_named(tensor->dtype_name);
	bool empty = false, overflow = false;
	uint64_t bits = row ? row->bits : 0;

	tensor->dtype = row ? row->dtype : -1;
	if (!row)
		return NULL;
	for (int d = 0; d < tensor->rank; d++) {
		empty |= tensor->shape[d] == 0;
		overflow |= __builtin_mul_overflow(
			bits, (uint64_t)tensor->shape[d], &bits);
	}
	if (empty)
		bits = 0;
	else if (overflow)
		return "the shape overflows";
	if (bits % 8)
		return "elements do not fill bytes";
	return bits / 8 == tensor->end - tensor->begin
		       ? NULL
		       : "dtype and shape do not fit the offsets";
}

static int compare_offsets(const void *a, const void *b)
{
	const struct kilni_st_tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b, void *arg)
{
	const struct kilni_st_tensor *tensor = arg;

	return strcmp(tensor[*(const size_t *)a].name,
		      tensor[*(const size_t *)b].name);
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct kilni_st_text *)a)->key,
		      ((const struct kilni_st_text *)b)->key);
}

static const char *check_tensors(struct reader *r, uint64_t data_bytes)
{
	struct kilni_st_header *h = r->header;
	uint64_t end = 0;

	for (size_t i = 0; i < h->count; i++) {
		struct kilni_st_tensor *tensor = &h->tensor[i];
		const char *fault = check_bytes(tensor);

		r->name = tensor->name;
		if (fault)
			return fault;
		if (tensor->end > data_bytes)
			return "the data ends beyond the file";
		if (tensor->begin != end)
			return tensor->begin < end
				       ? "the data overlaps another's"
				       : "there is a hole before the data";
		end = tensor->end;
	}
	r->name = NULL;
	return end == data_bytes ? NULL
				 : "bytes of the file belong to no tensor";
}

static const char *index_names(struct reader *r)
{
	struct kilni_st_header *h = r->header;

	h->by_name = reallocarray(NULL, h->count + 1, sizeof(*h->by_name));
	if (!h->by_name)
		return NO_MEMORY;
	for (size_t i = 0; i < h->count; i++)
		h->by_name[i] = i;
	qsort_r(h->by_name, h->count, sizeof(*h->by_name), compare_names,
		h->tensor);
	for (size_t i = 1; i < h->count; i++) {
		r->name = h->tensor[h->by_name[i]].name;
		if (!strcmp(r->name, h->tensor[h->by_name[i - 1]].name))
			return "the name is there twice";
	}
	r->name = NULL;
	return NULL;
}

/* The order of the file stays: a copy is sorted. */
static const char *check_keys(struct kilni_st_header *h)
{
	size_t count = h->metadata_count;
	struct kilni_st_text *sorted = reallocarray(NULL, count + 1,
						    sizeof(*sorted));
	const char *fault = NULL;

	if (!sorted)
		return NO_MEMORY;
	if (count)
		memcpy(sorted, h->metadata, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_keys);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(sorted[i].key, sorted[i - 1].key))
			fault = "a key of the metadata is there twice";
	free(sorted);
	return fault;
}

static const char *check(struct reader *r, uint64_t data_bytes)
{
	struct kilni_st_header *h = r->header;
	const char *fault = check_keys(h);

	if (fault)
		return fault;
	place_shapes(h);
	if (h->count)
		qsort(h->tensor, h->count, sizeof(*h->tensor),
		      compare_offsets);
	fault = index_names(r);
	return fault ? fault : check_tensors(r, data_bytes);
}

/* ---- the whole ---- */

static enum kiln_status refuse(const struct reader *r, const char *fn,
			       const char *path, const char *fault)
{
	if (!strcmp(fault, NO_MEMORY))
		return kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: %s: %s", fn,
				  path, fault);
	if (r->json.fault)
		return kilni_fail(KILN_ERR_IO, 0,
				  "%s: %s: header, byte %zu%s%.100s%s: %s", fn,
				  path, r->json.at, r->name ? ", \"" : "",
				  r->name ? r->name : "", r->name ? "\"" : "",
				  fault);
	return kilni_fail(KILN_ERR_IO, 0, "%s: %s: %s%.100s%s%s", fn, path,
			  r->name ? "\"" : "", r->name ? r->name : "",
			  r->name ? "\": " : "", fault);
}

enum kiln_status kilni_st_parse(struct kilni_st_header *header, const char *fn,
				const char *path, char *text, size_t bytes,
				uint64_t data_bytes)
{
	struct reader r = { .json = { .text = text, .end = bytes },
			    .header = header };
	enum kiln_status status = KILN_OK;
	const char *fault;

	memset(header, 0, sizeof(*header));
	header->text = text;
	read_all(&r);
	fault = r.json.fault ? r.json.fault : check(&r, data_bytes);
	if (fault) {
		status = refuse(&r, fn, path, fault);
		kilni_st_free(header);
	}
	return status;
}

void kilni_st_free(struct kilni_st_header *header)
{
	free(header->text);
	free(header->tensor);
	free(header->by_name);
	free(header->sizes);
	free(header->metadata);
	memset(header, 0, sizeof(*header));
}
