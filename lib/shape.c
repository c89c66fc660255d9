/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

/* Views, and the ops that move elements without computing. */

static enum kiln_status check_one(struct kiln_tensor *const *out,
				  const struct kiln_tensor *tensor,
				  const char *fn)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(tensor, fn);
	return KILN_OK;
}

static enum kiln_status assign_view(struct kiln_tensor **out,
				    const struct kiln_tensor *t, int rank,
				    const int64_t *shape,
				    const int64_t *stride, uint64_t address)
{
	struct kiln_tensor *view;

	KILNI_TRY(kilni_tensor_view(&view, t, rank, shape, stride, address));
	kilni_assign(out, view);
	return KILN_OK;
}

/* ---- reshape ---- */

/*
 * Gives the axes shape[from..to) the strides of one run of t's axes that lie
 * behind each other without a gap; last is the stride of its innermost axis.
 */
static void split_run(const int64_t *shape, int from, int to, int64_t last,
		      int64_t *stride)
{
	for (int d = to; d-- > from;) {
		stride[d] = last;
		last *= shape[d];
	}
}

/* Axes of t without those of size 1. */
static int significant_axes(const struct kiln_tensor *t, int64_t *shape,
			    int64_t *stride)
{
	int rank = 0;

	for (int d = 0; d < t->rank; d++)
		if (t->shape[d] != 1) {
			shape[rank] = t->shape[d];
			stride[rank++] = t->stride[d];
		}
	return rank;
}

/*
 * Strides under which t's elements have another shape, if there are any: runs
 * of old and new axes of equal products are matched, and each old run must be
 * without gaps. The tensor is not empty.
 */
static bool reshape_strides(const struct kiln_tensor *t, int rank,
			    const int64_t *shape, int64_t *stride)
{
	int64_t old_shape[KILN_RANK_MAX], old_stride[KILN_RANK_MAX];
	int old_rank = significant_axes(t, old_shape, old_stride);
	int from = 0, old = 0;

	while (old < old_rank) {
		int64_t have = old_shape[old], want = 1;
		int to = from, end = old + 1;

		while (want != have) {
			if (want < have) {
				want *= shape[to++];
				continue;
			}
			if (old_stride[end - 1] !=
			    old_stride[end] * old_shape[end])
				return false;
			have *= old_shape[end++];
		}
		split_run(shape, from, to, old_stride[end - 1], stride);
		from = to;
		old = end;
	}
	split_run(shape, from, rank, kilni_size(t), stride);
	return true;
}

static enum kiln_status reshape_copy(struct kiln_tensor **out,
				     struct kiln_tensor *t, int rank,
				     const int64_t *shape)
{
	int64_t stride[KILN_RANK_MAX];
	struct kiln_tensor *dense;
	enum kiln_status status;

	KILNI_TRY(kilni_tensor_dense(&dense, t));
	kilni_dense_strides(rank, shape, kilni_size(t), stride);
	status = assign_view(out, dense, rank, shape, stride, dense->address);
	kiln_tensor_release(dense);
	return status;
}

enum kiln_status kiln_reshape(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, int rank,
			      const int64_t *shape)
{
	int64_t stride[KILN_RANK_MAX], count;
	char from[96], to[96];

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(kilni_shape_check(__func__, rank, shape));
	KILNI_TRY(kilni_shape_count(__func__, rank, shape,
				    (size_t)kilni_size(tensor), &count));
	if (count != tensor->count)
		return kilni_fail(
			KILN_ERR_SHAPE, 0, "%s: %s has not as many elements "
					   "as %s",
			__func__,
			kilni_shape_text(to, sizeof(to), rank, shape),
			kilni_shape_text(from, sizeof(from), tensor->rank,
					 tensor->shape));
	if (tensor->dense)
		kilni_dense_strides(rank, shape, kilni_size(tensor), stride);
	else if (!reshape_strides(tensor, rank, shape, stride))
		return reshape_copy(out, tensor, rank, shape);
	return assign_view(out, tensor, rank, shape, stride, tensor->address);
}

/* ---- axes ---- */

static enum kiln_status permute(struct kiln_tensor **out,
				const struct kiln_tensor *t, const int *axes)
{
	int64_t shape[KILN_RANK_MAX], stride[KILN_RANK_MAX];

	for (int d = 0; d < t->rank; d++) {
		shape[d] = t->shape[axes[d]];
		stride[d] = t->stride[axes[d]];
	}
	return assign_view(out, t, t->rank, shape, stride, t->address);
}

static enum kiln_status swap(struct kiln_tensor **out,
			     const struct kiln_tensor *t, int a, int b)
{
	int axes[KILN_RANK_MAX];

	for (int d = 0; d < t->rank; d++)
		axes[d] = d;
	axes[a] = b;
	axes[b] = a;
	return permute(out, t, axes);
}

enum kiln_status kiln_swap_dims(struct kiln_tensor **out,
				struct kiln_tensor *tensor, int dim1, int dim2)
{
	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(kilni_check_dim(__func__, tensor, dim1));
	KILNI_TRY(kilni_check_dim(__func__, tensor, dim2));
	return swap(out, tensor, dim1, dim2);
}

enum kiln_status kiln_transpose(struct kiln_tensor **out,
				struct kiln_tensor *tensor)
{
	KILNI_TRY(check_one(out, tensor, __func__));
	if (tensor->rank < 2)
		return kilni_fail(KILN_ERR_SHAPE, 0, "%s: rank is 1",
				  __func__);
	return swap(out, tensor, tensor->rank - 2, tensor->rank - 1);
}

/* Each axis at most once; a bit per axis named. */
static enum kiln_status check_axes(const char *fn, const struct kiln_tensor *t,
				   int count, const int *axes, unsigned *named)
{
	*named = 0;
	if (count < 0 || count > t->rank || (count && !axes))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %d axes at %p for rank %d", fn, count,
				  (const void *)axes, t->rank);
	for (int i = 0; i < count; i++) {
		KILNI_TRY(kilni_check_dim(fn, t, axes[i]));
		if (*named >> axes[i] & 1)
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: axis %d is named twice", fn,
					  axes[i]);
		*named |= 1u << axes[i];
	}
	return KILN_OK;
}

enum kiln_status kiln_permute(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, const int *axes)
{
	unsigned named;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(check_axes(__func__, tensor, tensor->rank, axes, &named));
	return permute(out, tensor, axes);
}

enum kiln_status kiln_flip(struct kiln_tensor **out,
			   struct kiln_tensor *tensor, int count,
			   const int *axes)
{
	int64_t stride[KILN_RANK_MAX];
	uint64_t address;
	unsigned named;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(check_axes(__func__, tensor, count, axes, &named));
	address = tensor->address;
	for (int d = 0; d < tensor->rank; d++) {
		int64_t last = tensor->shape[d] - 1;

		stride[d] = tensor->stride[d];
		if (!(named >> d & 1) || last < 0)
			continue;
		address += (uint64_t)(stride[d] * last);
		stride[d] = -stride[d];
	}
	return assign_view(out, tensor, tensor->rank, tensor->shape, stride,
			   address);
}

enum kiln_status kiln_expand(struct kiln_tensor **out,
			     struct kiln_tensor *tensor, int rank,
			     const int64_t *shape)
{
	int64_t wide[KILN_RANK_MAX], stride[KILN_RANK_MAX], count;
	char a[96], b[96];
	int wide_rank = rank;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(kilni_shape_check(__func__, rank, shape));
	KILNI_TRY(kilni_shape_count(__func__, rank, shape,
				    (size_t)kilni_size(tensor), &count));
	memcpy(wide, shape, (size_t)rank * sizeof(*shape));
	KILNI_TRY(kilni_broadcast(__func__, tensor, &wide_rank, wide));
	if (wide_rank != rank ||
	    memcmp(wide, shape, (size_t)rank * sizeof(*shape)))
		return kilni_fail(
			KILN_ERR_SHAPE, 0, "%s: %s does not stretch to %s",
			__func__,
			kilni_shape_text(a, sizeof(a), tensor->rank,
					 tensor->shape),
			kilni_shape_text(b, sizeof(b), rank, shape));
	kilni_broadcast_strides(tensor, rank, shape, stride);
	for (int d = 0; d < rank; d++)
		stride[d] *= kilni_size(tensor);
	return assign_view(out, tensor, rank, shape, stride, tensor->address);
}

enum kiln_status kiln_unfold(struct kiln_tensor **out,
			     struct kiln_tensor *tensor, int dim, int64_t size,
			     int64_t step)
{
	int64_t shape[KILN_RANK_MAX + 1], stride[KILN_RANK_MAX + 1], count;
	int rank;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(kilni_check_dim(__func__, tensor, dim));
	if (size < 0 || step < 1)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: size %lld with step %lld", __func__,
				  (long long)size, (long long)step);
	rank = tensor->rank;
	if (rank == KILN_RANK_MAX)
		return kilni_fail(KILN_ERR_SHAPE, 0,
				  "%s: the rank would exceed %d", __func__,
				  KILN_RANK_MAX);
	memcpy(shape, tensor->shape, sizeof(tensor->shape));
	memcpy(stride, tensor->stride, sizeof(tensor->stride));
	shape[rank] = size;
	stride[rank] = stride[dim];
	shape[dim] = size > shape[dim] ? 0 : (shape[dim] - size) / step + 1;
	if (shape[dim] > 1)
		stride[dim] *= step;
	KILNI_TRY(kilni_shape_count(__func__, rank + 1, shape,
				    (size_t)kilni_size(tensor), &count));
	return assign_view(out, tensor, rank + 1, shape, stride,
			   tensor->address);
}

/* ---- slices ---- */

static int64_t clamp_position(int64_t position, int64_t size)
{
	if (position < 0)
		position = position < -size ? 0 : position + size;
	return position > size ? size : position;
}

/* One axis of a region: its start, length and step in elements. */
static void resolve_slice(const struct kiln_slice *slice, int64_t size,
			  int64_t *first, int64_t *length)
{
	int64_t start = clamp_position(slice->start, size);
	int64_t end = clamp_position(slice->end, size);
	uint64_t stride = slice->step < 0 ? 0 - (uint64_t)slice->step
					  : (uint64_t)slice->step;

	*first = slice->step < 0 ? end - 1 : start;
	*length = 0;
	if (start < end)
		*length = (int64_t)(((uint64_t)(end - start) - 1) / stride) + 1;
}

static enum kiln_status region(const char *fn, struct kiln_tensor **out,
			       const struct kiln_tensor *t, int count,
			       const struct kiln_slice *slices)
{
	int64_t shape[KILN_RANK_MAX], stride[KILN_RANK_MAX], first;
	uint64_t address = t->address;

	if (count < 0 || count > t->rank || (count && !slices))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %d slices at %p for rank %d", fn, count,
				  (const void *)slices, t->rank);
	memcpy(shape, t->shape, sizeof(shape));
	memcpy(stride, t->stride, sizeof(stride));
	for (int d = 0; d < count; d++) {
		if (slices[d].step == 0)
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: step of axis %d is 0", fn, d);
		resolve_slice(&slices[d], t->shape[d], &first, &shape[d]);
		if (!shape[d])
			continue;
		address += (uint64_t)(first * stride[d]);
		if (shape[d] > 1)
			stride[d] *= slices[d].step;
	}
	return kilni_tensor_view(out, t, t->rank, shape, stride, address);
}

enum kiln_status kiln_slice(struct kiln_tensor **out,
			    struct kiln_tensor *tensor, int count,
			    const struct kiln_slice *slices)
{
	struct kiln_tensor *view;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(region(__func__, &view, tensor, count, slices));
	kilni_assign(out, view);
	return KILN_OK;
}

static enum kiln_status check_region(const char *fn,
				     const struct kiln_tensor *view,
				     const struct kiln_tensor *value)
{
	char a[96], b[96];

	if (view->rank == value->rank &&
	    !memcmp(view->shape, value->shape,
		    view->rank * sizeof(view->shape[0])))
		return KILN_OK;
	return kilni_fail(KILN_ERR_SHAPE, 0,
			  "%s: value is %s for a region of %s", fn,
			  kilni_shape_text(a, sizeof(a), value->rank,
					   value->shape),
			  kilni_shape_text(b, sizeof(b), view->rank,
					   view->shape));
}

/* base becomes the result once the region has been written. */
static enum kiln_status write_region(struct kiln_tensor **out,
				     struct kiln_tensor *base, int count,
				     const struct kiln_slice *slices,
				     struct kiln_tensor *value)
{
	struct kiln_tensor *view;
	enum kiln_status status;

	status = region("kiln_slice_assign", &view, base, count, slices);
	if (status == KILN_OK) {
		status = kilni_copy("kiln_slice_assign", view, value);
		kiln_tensor_release(view);
	}
	return kilni_settle(out, base, status);
}

/* A value that lies in the tensor itself must not change under way. */
static enum kiln_status region_base(struct kiln_tensor **out,
				    struct kiln_tensor *tensor,
				    const struct kiln_tensor *value,
				    struct kiln_tensor **base)
{
	struct kiln_tensor *none = KILN_TENSOR_NONE;
	bool shared = value->storage == tensor->storage;

	return kilni_tensor_base(shared ? &none : out, tensor, base);
}

enum kiln_status kiln_slice_assign(struct kiln_tensor **out,
				   struct kiln_tensor *tensor, int count,
				   const struct kiln_slice *slices,
				   struct kiln_tensor *value)
{
	struct kiln_tensor *view, *base;
	enum kiln_status status;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_CHECK_TENSOR(value, __func__);
	KILNI_TRY(kilni_check_alike(__func__, tensor, value));
	KILNI_TRY(region(__func__, &view, tensor, count, slices));
	status = check_region(__func__, view, value);
	kiln_tensor_release(view);
	KILNI_TRY(status);
	KILNI_TRY(region_base(out, tensor, value, &base));
	return write_region(out, base, count, slices, value);
}

/* ---- joining ---- */

static enum kiln_status check_part(const char *fn,
				   const struct kiln_tensor *first,
				   const struct kiln_tensor *t, int dim)
{
	bool fits = t->rank == first->rank;
	char a[96], b[96];

	KILNI_TRY(kilni_check_alike(fn, first, t));
	for (int d = 0; fits && d < t->rank; d++)
		fits = d == dim || t->shape[d] == first->shape[d];
	if (fits)
		return KILN_OK;
	return kilni_fail(KILN_ERR_SHAPE, 0, "%s: shapes %s and %s do not fit",
			  fn,
			  kilni_shape_text(a, sizeof(a), first->rank,
					   first->shape),
			  kilni_shape_text(b, sizeof(b), t->rank, t->shape));
}

/* Copies src to where position lies on axis dim of dst. */
static enum kiln_status put_part(const char *fn, struct kiln_tensor *dst,
				 struct kiln_tensor *src, int dim,
				 int64_t position)
{
	struct kiln_tensor *view;
	enum kiln_status status;

	KILNI_TRY(kilni_tensor_view(
		&view, dst, src->rank, src->shape, dst->stride,
		dst->address + (uint64_t)(position * dst->stride[dim])));
	status = kilni_copy(fn, view, src);
	kiln_tensor_release(view);
	return status;
}

static enum kiln_status join(struct kiln_tensor *result, int count,
			     struct kiln_tensor *const *tensors, int dim)
{
	int64_t position = 0;

	for (int i = 0; i < count; i++) {
		KILNI_TRY(put_part("kiln_cat", result, tensors[i], dim,
				   position));
		position += tensors[i]->shape[dim];
	}
	return KILN_OK;
}

enum kiln_status kiln_cat(struct kiln_tensor **out, int count,
			  struct kiln_tensor *const *tensors, int dim)
{
	int64_t shape[KILN_RANK_MAX], elements;
	struct kiln_tensor *first, *result;

	KILNI_TRY(kilni_check_out(out, __func__));
	if (count < 1 || !tensors)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %d tensors at %p",
				  __func__, count, (const void *)tensors);
	for (int i = 0; i < count; i++)
		KILNI_CHECK_TENSOR(tensors[i], __func__);
	first = tensors[0];
	KILNI_TRY(kilni_check_dim(__func__, first, dim));
	memcpy(shape, first->shape, sizeof(shape));
	shape[dim] = 0;
	for (int i = 0; i < count; i++) {
		KILNI_TRY(check_part(__func__, first, tensors[i], dim));
		if (__builtin_add_overflow(shape[dim], tensors[i]->shape[dim],
					   &shape[dim]))
			shape[dim] = INT64_MAX;
	}
	KILNI_TRY(kilni_shape_count(__func__, first->rank, shape,
				    (size_t)kilni_size(first), &elements));
	/* A new one: where a later copy is refused, *out must be as it was. */
	KILNI_TRY(kilni_tensor_create(&result, first->device,
				      kilni_dtype(first), first->rank, shape));
	return kilni_settle(out, result, join(result, count, tensors, dim));
}

static enum kiln_status repeat(struct kiln_tensor *result,
			       struct kiln_tensor *t, int dim, int64_t times)
{
	/* Doubling: what is there already is copied behind itself. */
	struct kiln_tensor *done;
	int64_t shape[KILN_RANK_MAX], have = 1;
	enum kiln_status status;

	if (!times)
		return KILN_OK;
	KILNI_TRY(put_part("kiln_repeat_dim", result, t, dim, 0));
	memcpy(shape, t->shape, sizeof(shape));
	while (have < times) {
		int64_t more = have < times - have ? have : times - have;

		shape[dim] = more * t->shape[dim];
		KILNI_TRY(kilni_tensor_view(&done, result, t->rank, shape,
					    result->stride, result->address));
		status = put_part("kiln_repeat_dim", result, done, dim,
				  have * t->shape[dim]);
		kiln_tensor_release(done);
		KILNI_TRY(status);
		have += more;
	}
	return KILN_OK;
}

enum kiln_status kiln_repeat_dim(struct kiln_tensor **out,
				 struct kiln_tensor *tensor, int dim,
				 int64_t times)
{
	int64_t shape[KILN_RANK_MAX], count;
	struct kiln_tensor *result;

	KILNI_TRY(check_one(out, tensor, __func__));
	KILNI_TRY(kilni_check_dim(__func__, tensor, dim));
	if (times < 0)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: times is %lld",
				  __func__, (long long)times);
	memcpy(shape, tensor->shape, sizeof(shape));
	if (__builtin_mul_overflow(shape[dim], times, &shape[dim]))
		shape[dim] = INT64_MAX;
	KILNI_TRY(kilni_shape_count(__func__, tensor->rank, shape,
				    (size_t)kilni_size(tensor), &count));
	/* A new one: where a later copy is refused, *out must be as it was. */
	KILNI_TRY(kilni_tensor_create(&result, tensor->device,
				      kilni_dtype(tensor), tensor->rank,
				      shape));
	return kilni_settle(out, result, repeat(result, tensor, dim, times));
}
