/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_SAFETENSORS_H
#define KILN_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * An open safetensors file: named tensors and texts about them. Its header is
 * read and checked when it is opened, its data when it is loaded. Handles are
 * reference-counted; all functions may be called from any thread.
 *
 * A header is refused (KILN_ERR_IO, the message names file and fault) unless
 * it is at most 100,000,000 bytes of strict JSON in UTF-8, begins with "{", has
 * no name twice, and gives every tensor exactly a dtype, a shape and offsets
 * that fit each other; the data of all tensors, end to end, must make up the
 * rest of the file. Names and texts without NUL.
 *
 * F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 and BOOL are loaded and
 * saved. Tensors of other dtypes, or of more than KILN_RANK_MAX axes, are
 * listed, but not loaded. A scalar, which has no axes, is loaded as one axis
 * of size 1.
 */
struct kiln_safetensors;

/* What a file says of one tensor. */
struct kiln_safetensors_info {
	size_t struct_size;      /* sizeof(struct kiln_safetensors_info) */
	/* Both valid while the file is open. */
	const char *name;
	const int64_t *shape;
	int rank;                /* 0: a scalar; may exceed KILN_RANK_MAX */
	int dtype;               /* enum kiln_dtype; -1: kiln has none */
	const char *dtype_name;  /* as the file spells it */
	uint64_t offset_bytes;   /* of its data in the file */
	uint64_t size_bytes;
};

#define KILN_SAFETENSORS_INFO_INIT                                             \
	{ sizeof(struct kiln_safetensors_info), NULL, NULL, 0, 0, NULL, 0, 0 }

/*
 * Told on the calling thread, after each piece, how many bytes of all have been
 * moved. Anything but 0 stops the call, which then fails with
 * KILN_ERR_CANCELLED.
 */
typedef int (*kiln_progress)(uint64_t done_bytes, uint64_t total_bytes,
			     void *user);

/**
 * kiln_safetensors_open - opens a file and reads its header
 * @out: NULL or a live reference on entry
 * @flags: enum kiln_file_flags
 *
 * KILN_ERR_IO (the system, or the file is no good), KILN_ERR_INVALID,
 * KILN_ERR_NO_MEMORY, KILN_ERR_OPTION, KILN_ERR_UNSUPPORTED. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_safetensors_open(struct kiln_safetensors **out, const char *path,
		      unsigned flags);

/** kiln_safetensors_retain - one more reference; returns its argument. Not
 * NULL. */
KILN_API struct kiln_safetensors *
kiln_safetensors_retain(struct kiln_safetensors *file);

/** kiln_safetensors_release - gives one reference back; NULL is allowed. */
KILN_API void kiln_safetensors_release(struct kiln_safetensors *file);

/** kiln_safetensors_count - number of tensors. */
KILN_API size_t kiln_safetensors_count(const struct kiln_safetensors *file);

/**
 * kiln_safetensors_describe - what the file says of a tensor; reads nothing
 * @index: below the count; the order is that of the data
 * @info: its struct_size is set by the caller
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_safetensors_describe(const struct kiln_safetensors *file, size_t index,
			  struct kiln_safetensors_info *info);

/**
 * kiln_safetensors_find - index of the tensor of that name
 *
 * False, and *index as it was, where there is none. Never fails.
 */
KILN_API bool kiln_safetensors_find(const struct kiln_safetensors *file,
				    const char *name, size_t *index);

/** kiln_safetensors_header_bytes - length of the header, without the 8 bytes
 * that give it. */
KILN_API uint64_t
kiln_safetensors_header_bytes(const struct kiln_safetensors *file);

/** kiln_safetensors_metadata_count - number of texts about the file. */
KILN_API size_t
kiln_safetensors_metadata_count(const struct kiln_safetensors *file);

/**
 * kiln_safetensors_metadata - a text about the file
 * @index: below the count; the order is that of the file
 * @key: receives its key, valid while the file is open; may be NULL
 *
 * Returns the text, valid likewise; NULL where index is too great.
 */
KILN_API const char *
kiln_safetensors_metadata(const struct kiln_safetensors *file, size_t index,
			  const char **key);

/**
 * kiln_safetensors_load - the tensor of that name, on a device
 * @out: NULL or a live reference on entry; untouched on failure
 *
 * As kiln_file_read. KILN_ERR_INVALID also where there is no such tensor,
 * KILN_ERR_UNSUPPORTED_DTYPE (the message has the file's dtype),
 * KILN_ERR_LIMIT for too many axes. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_safetensors_load(struct kiln_tensor **out, struct kiln_safetensors *file,
		      const char *name, struct kiln_device *device);

/**
 * kiln_safetensors_load_all - all tensors of a file, on a device
 * @out: as many places as the count, in the order of describe; each NULL or a
 *       live reference on entry
 * @progress: may be NULL
 *
 * All of them or none: on failure no place is touched. Statuses as load, and
 * KILN_ERR_CANCELLED. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_safetensors_load_all(struct kiln_tensor **out,
			  struct kiln_safetensors *file,
			  struct kiln_device *device, kiln_progress progress,
			  void *user);

/* What kiln_safetensors_save writes. */
struct kiln_safetensors_content {
	size_t struct_size;      /* sizeof(struct kiln_safetensors_content) */
	size_t count;            /* of names and tensors */
	const char *const *names;
	struct kiln_tensor *const *tensors;
	size_t metadata_count;   /* of keys and texts */
	const char *const *keys;
	const char *const *texts;
	kiln_progress progress;  /* may be NULL */
	void *user;
};

#define KILN_SAFETENSORS_CONTENT_INIT                                          \
	{ sizeof(struct kiln_safetensors_content), 0, NULL, NULL, 0, NULL,     \
	  NULL, NULL, NULL }

/**
 * kiln_safetensors_save - writes tensors to a file, in place of an old one
 * @flags: enum kiln_file_flags
 *
 * The file is made as kiln_file_create and kiln_file_commit do it: on failure
 * the old one is as it was. Tensors of any devices; FLEX32 becomes F32, all
 * bools BOOL. The order in the file is by dtype, wide ones first, then by
 * name. Names, keys and texts are UTF-8; no name or key twice, no tensor named
 * "__metadata__". KILN_ERR_INVALID, KILN_ERR_IO, KILN_ERR_LIMIT (the header is
 * too long), KILN_ERR_CANCELLED, the error of the tensors' work as
 * kiln_tensor_read, KILN_ERR_NO_MEMORY, KILN_ERR_OUT_OF_MEMORY,
 * KILN_ERR_OPTION, KILN_ERR_UNSUPPORTED, KILN_ERR_DEVICE_LOST,
 * KILN_ERR_FORKED. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_safetensors_save(const char *path, unsigned flags,
		      const struct kiln_safetensors_content *content);

KILN_END_DECLS

#endif
