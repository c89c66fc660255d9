/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/dtype.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A tensor: dtype, shape and signed byte strides over a storage on a device.
 * Handles are reference-counted; retaining, releasing and reading metadata is
 * thread-safe. A tensor's value never changes while anybody else holds it: ops
 * write in place only where the result takes the place of the only owner.
 */
struct kiln_tensor;

/* Initial value of a variable that will receive a tensor. */
#define KILN_TENSOR_NONE ((struct kiln_tensor *)0)

/* The greatest number of axes. */
#define KILN_RANK_MAX 8

/**
 * kiln_tensor_from_data - a tensor with a copy of host data
 * @out: NULL or a live reference on entry, which is released
 * @shape: rank sizes, each >= 0; the rank is 1 to KILN_RANK_MAX
 * @data: dense row-major elements; NULL where the count is 0
 * @bytes: size of data; must be the count times the element size
 *
 * The data is copied before the call returns. For bool dtypes anything but 0
 * becomes 1. Statuses: KILN_ERR_INVALID (NULL, rank, negative size, bytes that
 * do not fit), KILN_ERR_UNSUPPORTED_DTYPE, KILN_ERR_OVERFLOW,
 * KILN_ERR_OUT_OF_MEMORY, KILN_ERR_LIMIT, KILN_ERR_POISONED, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_from_data(struct kiln_tensor **out, struct kiln_device *device,
		      enum kiln_dtype dtype, int rank, const int64_t *shape,
		      const void *data, size_t bytes);

/* Called once, from any thread, when nothing uses foreign memory any more. */
typedef void (*kiln_deleter)(void *data, void *user);

/* Flags of kiln_tensor_from_foreign. */
enum kiln_foreign_flags {
	KILN_FOREIGN_READ_ONLY = 0,
	KILN_FOREIGN_WRITABLE = 1 /* ops may write in place */
};

/**
 * kiln_tensor_from_foreign - a tensor over memory of the caller, no copy
 * @data: dense row-major elements, aligned to the element size, readable by
 *        the device: host memory for the CPU, a device pointer of the same
 *        card for CUDA; may be NULL where the count is 0
 * @flags: enum kiln_foreign_flags
 * @deleter: called with data and user when the last use has ended, also where
 *           that use is still queued at the release; may be NULL. It must not
 *           call kiln.
 *
 * The memory must stay valid and, while work that reads it is queued,
 * unchanged. On failure the deleter is not called. Bool elements must be 0 or
 * 1. Statuses as kiln_tensor_from_data, KILN_ERR_UNSUPPORTED where the device
 * cannot use such memory, KILN_ERR_DEVICE where it is another device's.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_from_foreign(struct kiln_tensor **out, struct kiln_device *device,
			 enum kiln_dtype dtype, int rank, const int64_t *shape,
			 void *data, unsigned flags, kiln_deleter deleter,
			 void *user);

/** kiln_tensor_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_tensor *kiln_tensor_retain(struct kiln_tensor *tensor);

/**
 * kiln_tensor_release - gives one reference back; NULL is allowed
 *
 * Right from any thread and with work in flight; the memory is reused in
 * stream order. In a forked child this does nothing on an inherited handle.
 */
KILN_API void kiln_tensor_release(struct kiln_tensor *tensor);

/**
 * kiln_tensor_clear - releases *place and sets it to KILN_TENSOR_NONE
 *
 * NULL and a NULL tensor are allowed.
 */
KILN_API void kiln_tensor_clear(struct kiln_tensor **place);

/** kiln_tensor_dtype - the element type. */
KILN_API enum kiln_dtype kiln_tensor_dtype(const struct kiln_tensor *tensor);

/** kiln_tensor_rank - number of axes, 1 to KILN_RANK_MAX. */
KILN_API int kiln_tensor_rank(const struct kiln_tensor *tensor);

/** kiln_tensor_shape - rank sizes; valid while the tensor lives. */
KILN_API const int64_t *kiln_tensor_shape(const struct kiln_tensor *tensor);

/** kiln_tensor_strides_bytes - rank signed strides; valid as the shape. */
KILN_API const int64_t *
kiln_tensor_strides_bytes(const struct kiln_tensor *tensor);

/** kiln_tensor_count - number of elements. */
KILN_API int64_t kiln_tensor_count(const struct kiln_tensor *tensor);

/** kiln_tensor_size_bytes - bytes of its dense form: count * element size. */
KILN_API size_t kiln_tensor_size_bytes(const struct kiln_tensor *tensor);

/** kiln_tensor_device - its device, borrowed. */
KILN_API struct kiln_device *
kiln_tensor_device(const struct kiln_tensor *tensor);

/**
 * kiln_tensor_can_mut - whether an op whose result replaces this reference
 * may write in place: the only reference to the only view of a storage that
 * is not read-only
 */
KILN_API bool kiln_tensor_can_mut(const struct kiln_tensor *tensor);

/**
 * kiln_tensor_read - copies the elements to the host, dense and row-major
 * @data: receives bytes bytes; may be NULL where bytes is 0
 * @bytes: must be kiln_tensor_size_bytes()
 *
 * Waits for the work that the tensor depends on, and for no other. Nothing is
 * written on failure. Statuses: the error of that work (told once, with op and
 * value), KILN_ERR_DEPENDENCY (told before, or failed by another op),
 * KILN_ERR_INVALID, KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED,
 * KILN_ERR_OUT_OF_MEMORY where a view has to be packed first. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_read(struct kiln_tensor *tensor, void *data, size_t bytes);

KILN_END_DECLS

#endif
