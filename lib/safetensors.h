/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_SAFETENSORS_H
#define KILNI_LIB_SAFETENSORS_H

#include <kiln/safetensors.h>

#include "lib/file.h"
#include "lib/json.h"

/* Longest header, and what a header must not be called. */
#define KILNI_ST_HEADER_MOST 100000000u
#define KILNI_ST_METADATA "__metadata__"

/* Bytes that give the header's length. */
#define KILNI_ST_LENGTH_BYTES 8u

/* A dtype of the format, in the order in which files are laid out. */
struct kilni_st_dtype {
	const char *name;
	unsigned bits;
	int dtype;                   /* enum kiln_dtype, or -1 */
};

/* NULL: the format's name, or kiln's dtype, has no row. */
const struct kilni_st_dtype *kilni_st_dtype_named(const char *name);
const struct kilni_st_dtype *kilni_st_dtype_of(enum kiln_dtype dtype);

struct kilni_st_tensor {
	char *name, *dtype_name;
	int dtype;                   /* -1: kiln has none */
	int rank;
	int64_t *shape;
	uint64_t begin, end;         /* in the data */
};

struct kilni_st_text {
	char *key, *text;
};

/* Strings lie in the header's text. */
struct kilni_st_header {
	char *text;
	struct kilni_st_tensor *tensor; /* in the order of the data */
	size_t count, capacity;
	size_t *by_name;
	int64_t *sizes;              /* of all shapes */
	size_t size_count, size_capacity;
	struct kilni_st_text *metadata;
	size_t metadata_count, metadata_capacity;
};

/*
 * Reads and checks a header. text, of bytes bytes and one more that may be
 * written, belongs to the header from here on and is changed. fn and path are
 * for messages. KILN_ERR_IO, KILN_ERR_NO_MEMORY; then nothing is left to free.
 */
enum kiln_status kilni_st_parse(struct kilni_st_header *header, const char *fn,
				const char *path, char *text, size_t bytes,
				uint64_t data_bytes);
void kilni_st_free(struct kilni_st_header *header);

/* Reports progress; what a pipe's moved is. */
struct kilni_st_progress {
	const char *fn;
	kiln_progress call;
	void *user;
	uint64_t done, total;
};

enum kiln_status kilni_st_moved(void *user, uint64_t bytes);

/*
 * The text of a header, padded, behind its length. order receives the order of
 * the tensors, count places. To be freed. KILN_ERR_INVALID, KILN_ERR_LIMIT,
 * KILN_ERR_NO_MEMORY.
 */
enum kiln_status
kilni_st_compose(char **out, size_t *bytes, size_t *order, const char *fn,
		 const struct kiln_safetensors_content *content);

#endif
