/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include "lib/spare.h"

/* ---- making and ending ---- */

static enum kiln_status new_handle(struct kiln_tensor **out)
{
	struct kiln_tensor *t = kilni_spare_get(KILNI_SPARE_TENSOR, sizeof(*t));

	if (!t)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a tensor");
	kilni_object_init(&t->object, &kilni_tensor_kind);
	*out = t;
	return KILN_OK;
}

static void set_shape(struct kiln_tensor *t, int rank, const int64_t *shape)
{
	int64_t count = 1;

	t->rank = (uint8_t)rank;
	for (int d = 0; d < rank; d++) {
		t->shape[d] = shape[d];
		count *= shape[d];
	}
	t->count = count;
}

enum kiln_status kilni_tensor_create(struct kiln_tensor **out,
				     struct kiln_device *device,
				     enum kiln_dtype dtype, int rank,
				     const int64_t *shape)
{
	struct kiln_tensor *t;
	enum kiln_status status;
	int64_t count;

	KILNI_TRY(kilni_shape_count("kiln_tensor", rank, shape,
				    kiln_dtype_size_bytes(dtype), &count));
	KILNI_TRY(new_handle(&t));
	kilni_device_fix_settings(device);
	t->dtype = (uint8_t)dtype;
	set_shape(t, rank, shape);
	kilni_dense_strides(rank, shape, kilni_size(t), t->stride);
	t->dense = true;
	t->device = device;
	status = kilni_storage_create(&t->storage, device,
				      (uint64_t)(t->count * kilni_size(t)),
				      false);
	if (status != KILN_OK) {
		kilni_spare_put(KILNI_SPARE_TENSOR, t);
		return status;
	}
	t->address = t->storage->address;
	*out = t;
	return KILN_OK;
}

enum kiln_status kilni_tensor_view(struct kiln_tensor **out,
				   const struct kiln_tensor *t, int rank,
				   const int64_t *shape, const int64_t *stride,
				   uint64_t address)
{
	struct kiln_tensor *view;

	KILNI_TRY(new_handle(&view));
	view->dtype = t->dtype;
	set_shape(view, rank, shape);
	memcpy(view->stride, stride, (size_t)rank * sizeof(*stride));
	view->dense = kilni_is_dense(rank, shape, stride, kilni_size(t));
	view->device = t->device;
	view->storage = t->storage;
	view->address = address;
	__atomic_add_fetch(&t->storage->refs, 1, __ATOMIC_RELAXED);
	*out = view;
	return KILN_OK;
}

struct kiln_tensor *kiln_tensor_retain(struct kiln_tensor *tensor)
{
	kilni_object_retain(&tensor->object);
	return tensor;
}

void kiln_tensor_release(struct kiln_tensor *tensor)
{
	if (!tensor || !kilni_object_drop(&tensor->object))
		return;
	/* So that a later use of this handle can be told. */
	__atomic_store_n(&tensor->object.ops, NULL, __ATOMIC_RELAXED);
	kilni_storage_release(tensor->storage);
	kilni_spare_put(KILNI_SPARE_TENSOR, tensor);
}

void kiln_tensor_clear(struct kiln_tensor **place)
{
	struct kiln_tensor *old;

	if (!place)
		return;
	old = *place;
	*place = KILN_TENSOR_NONE;
	kiln_tensor_release(old);
}

/* ---- metadata ---- */

enum kiln_dtype kiln_tensor_dtype(const struct kiln_tensor *tensor)
{
	return kilni_dtype(tensor);
}

int kiln_tensor_rank(const struct kiln_tensor *tensor)
{
	return tensor->rank;
}

const int64_t *kiln_tensor_shape(const struct kiln_tensor *tensor)
{
	return tensor->shape;
}

const int64_t *kiln_tensor_strides_bytes(const struct kiln_tensor *tensor)
{
	return tensor->stride;
}

int64_t kiln_tensor_count(const struct kiln_tensor *tensor)
{
	return tensor->count;
}

size_t kiln_tensor_size_bytes(const struct kiln_tensor *tensor)
{
	return (size_t)(tensor->count * kilni_size(tensor));
}

struct kiln_device *kiln_tensor_device(const struct kiln_tensor *tensor)
{
	return tensor->device;
}

static bool can_mut(const struct kiln_tensor *t)
{
	return __atomic_load_n(&t->object.refs, __ATOMIC_ACQUIRE) == 1 &&
	       __atomic_load_n(&t->storage->refs, __ATOMIC_ACQUIRE) == 1 &&
	       !(t->storage->flags & KILNI_STORAGE_READ_ONLY);
}

bool kiln_tensor_can_mut(const struct kiln_tensor *tensor)
{
	return can_mut(tensor);
}

/* ---- results ---- */

bool kilni_result_fits(const struct kiln_tensor *t,
		       const struct kiln_device *device, enum kiln_dtype dtype,
		       int rank, const int64_t *shape)
{
	return t && can_mut(t) && kilni_is_whole(t) && t->device == device &&
	       t->dtype == dtype && t->rank == rank &&
	       kilni_same_sizes(rank, t->shape, shape);
}

static bool is_among(const struct kiln_tensor *t,
		     struct kiln_tensor *const *operands, int count)
{
	for (int i = 0; i < count; i++)
		if (operands[i] == t)
			return true;
	return false;
}

enum kiln_status kilni_result(struct kiln_tensor **out,
			      struct kiln_device *device,
			      enum kiln_dtype dtype, int rank,
			      const int64_t *shape, bool in_place,
			      struct kiln_tensor *const *operands, int count,
			      struct kiln_tensor **result)
{
	struct kiln_tensor *t = *out;

	if (kilni_result_fits(t, device, dtype, rank, shape) &&
	    (in_place || !is_among(t, operands, count))) {
		*result = t;
		return KILN_OK;
	}
	return kilni_tensor_create(result, device, dtype, rank, shape);
}

enum kiln_status kilni_settle(struct kiln_tensor **out,
			      struct kiln_tensor *result,
			      enum kiln_status status)
{
	if (result == *out)
		return status;
	if (status == KILN_OK)
		kilni_assign(out, result);
	else
		kiln_tensor_release(result);
	return status;
}

static enum kiln_status dense_copy(struct kiln_tensor **out,
				   struct kiln_tensor *t)
{
	struct kiln_tensor *copy;
	enum kiln_status status;

	KILNI_TRY(kilni_tensor_create(&copy, t->device, kilni_dtype(t),
				      t->rank, t->shape));
	status = kilni_copy("kiln_copy", copy, t);
	if (status != KILN_OK) {
		kiln_tensor_release(copy);
		return status;
	}
	*out = copy;
	return KILN_OK;
}

enum kiln_status kilni_tensor_dense(struct kiln_tensor **out,
				    struct kiln_tensor *t)
{
	if (!t->dense)
		return dense_copy(out, t);
	*out = kiln_tensor_retain(t);
	return KILN_OK;
}

enum kiln_status kilni_tensor_base(struct kiln_tensor **out,
				   struct kiln_tensor *t,
				   struct kiln_tensor **base)
{
	if (*out != t || !t->dense || !kiln_tensor_can_mut(t))
		return dense_copy(base, t);
	*base = t;
	return KILN_OK;
}
