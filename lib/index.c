/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

/* Ops that take an integer tensor of positions along an axis. */

static enum kiln_status check(struct kiln_tensor *const *out,
			      const struct kiln_tensor *tensor, int dim,
			      const struct kiln_tensor *indices,
			      const char *fn)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(tensor, fn);
	KILNI_CHECK_TENSOR(indices, fn);
	KILNI_TRY(kilni_check_dim(fn, tensor, dim));
	KILNI_TRY(kilni_check_device(fn, tensor, indices));
	return kilni_check_class(fn, indices, KILNI_CLASSES_I);
}

static enum kiln_status refuse(const char *fn, const struct kiln_tensor *a,
			       const char *what, const struct kiln_tensor *b)
{
	char x[96], y[96];

	return kilni_fail(KILN_ERR_SHAPE, 0, "%s: %s has shape %s for %s", fn,
			  what,
			  kilni_shape_text(y, sizeof(y), b->rank, b->shape),
			  kilni_shape_text(x, sizeof(x), a->rank, a->shape));
}

/* b's shape is a's but for axis dim, which has length there. */
static bool fits(const struct kiln_tensor *a, int dim, int64_t length,
		 const struct kiln_tensor *b)
{
	if (a->rank != b->rank || b->shape[dim] != length)
		return false;
	for (int d = 0; d < a->rank; d++)
		if (d != dim && a->shape[d] != b->shape[d])
			return false;
	return true;
}

/* Indices of rank 1 seen along axis dim of a shape. */
static void spread(const struct kiln_tensor *indices, int rank, int dim,
		   int64_t *stride)
{
	for (int d = 0; d < rank; d++)
		stride[d] = 0;
	stride[dim] = indices->stride[0] / kilni_size(indices);
}

static void element_strides(const struct kiln_tensor *t, int64_t *stride)
{
	for (int d = 0; d < t->rank; d++)
		stride[d] = t->stride[d] / kilni_size(t);
}

/* ---- gather, select ---- */

static enum kiln_status launch_gather(struct kiln_tensor *result,
				      struct kiln_tensor *t, int dim,
				      struct kiln_tensor *indices,
				      const int64_t *index_stride,
				      enum kilni_op op)
{
	struct kilni_job job;
	struct kilni_gather_params *p = &job.entry.params.gather;

	if (result->count == 0)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_GATHER, op, sizeof(*p));
	memset(p, 0, sizeof(*p));
	p->count = (uint64_t)result->count;
	p->out = result->address;
	p->source = t->address;
	p->index = indices->address;
	p->dim_size = t->shape[dim];
	p->dim = (uint32_t)dim;
	p->rank = t->rank;
	p->element_bytes = (uint32_t)kilni_size(t);
	p->index_dtype = indices->dtype;
	for (int d = 0; d < t->rank; d++) {
		p->shape[d] = (uint64_t)result->shape[d];
		p->index_stride[d] = index_stride[d];
	}
	element_strides(t, p->source_stride);
	kilni_job_operand(&job, result, KILNI_WRITE);
	kilni_job_operand(&job, t, KILNI_READ);
	kilni_job_operand(&job, indices, KILNI_READ);
	return kilni_job_submit(&job, t->device);
}

static enum kiln_status take(struct kiln_tensor **out, struct kiln_tensor *t,
			     int dim, struct kiln_tensor *indices,
			     const int64_t *shape, const int64_t *index_stride,
			     enum kilni_op op, const char *fn)
{
	struct kiln_tensor *const operands[] = { t, indices };
	struct kiln_tensor *result;
	int64_t count;

	KILNI_TRY(kilni_shape_count(fn, t->rank, shape,
				    (size_t)kilni_size(t), &count));
	KILNI_TRY(kilni_result(out, t->device, kilni_dtype(t), t->rank, shape,
			       false, operands, 2, &result));
	return kilni_settle(out, result,
			    launch_gather(result, t, dim, indices,
					  index_stride, op));
}

enum kiln_status kiln_gather(struct kiln_tensor **out,
			     struct kiln_tensor *tensor, int dim,
			     struct kiln_tensor *indices)
{
	int64_t stride[KILN_RANK_MAX];

	KILNI_TRY(check(out, tensor, dim, indices, __func__));
	if (!fits(tensor, dim, indices->shape[dim < indices->rank ? dim : 0],
		  indices))
		return refuse(__func__, tensor, "indices", indices);
	element_strides(indices, stride);
	return take(out, tensor, dim, indices, indices->shape, stride,
		    KILNI_OP_GATHER, __func__);
}

enum kiln_status kiln_select(struct kiln_tensor **out,
			     struct kiln_tensor *tensor, int dim,
			     struct kiln_tensor *indices)
{
	int64_t shape[KILN_RANK_MAX], stride[KILN_RANK_MAX];

	KILNI_TRY(check(out, tensor, dim, indices, __func__));
	if (indices->rank != 1)
		return refuse(__func__, tensor, "indices", indices);
	memcpy(shape, tensor->shape, sizeof(shape));
	shape[dim] = indices->count;
	spread(indices, tensor->rank, dim, stride);
	return take(out, tensor, dim, indices, shape, stride, KILNI_OP_SELECT,
		    __func__);
}

/* ---- scatter, select_assign ---- */

struct scatter {
	const char *fn;
	enum kilni_op op;
	int dim;
	enum kiln_update update;
	struct kiln_tensor *indices, *value;
	int64_t index_stride[KILN_RANK_MAX];
};

static void set_scatter(struct kilni_scatter_params *p, const struct scatter *s,
			const struct kiln_tensor *result)
{
	memset(p, 0, sizeof(*p));
	p->count = (uint64_t)s->value->count;
	p->out = result->address;
	p->index = s->indices->address;
	p->value = s->value->address;
	p->out_count = (uint64_t)result->count;
	p->dim_size = result->shape[s->dim];
	p->dim = (uint32_t)s->dim;
	p->rank = result->rank;
	p->dtype = result->dtype;
	p->index_dtype = s->indices->dtype;
	p->update = (uint32_t)s->update;
	for (int d = 0; d < result->rank; d++) {
		p->shape[d] = (uint64_t)s->value->shape[d];
		p->index_stride[d] = s->index_stride[d];
	}
	element_strides(result, p->out_stride);
	element_strides(s->value, p->value_stride);
}

static enum kiln_status launch_scatter(struct kiln_tensor *result,
				       const struct scatter *s)
{
	struct kilni_job job;
	struct kilni_scatter_params *p = &job.entry.params.scatter;
	const struct kilni_hw *hw = result->device->hw;

	if (s->value->count == 0)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_SCATTER, s->op, sizeof(*p));
	set_scatter(p, s, result);
	kilni_job_operand(&job, result, KILNI_READ_WRITE);
	kilni_job_operand(&job, s->indices, KILNI_READ);
	kilni_job_operand(&job, s->value, KILNI_READ);
	return kilni_job_submit_with(
		&job, result->device,
		hw->driver->program->workspace(hw, KILNI_KERNEL_SCATTER, p),
		&p->workspace);
}

static bool shares(const struct kiln_tensor *a, const struct kiln_tensor *b)
{
	return a->storage == b->storage;
}

static enum kiln_status combine(struct kiln_tensor **out,
				struct kiln_tensor *tensor,
				const struct scatter *s)
{
	struct kiln_tensor *none = KILN_TENSOR_NONE, *base;
	bool shared = shares(tensor, s->value) || shares(tensor, s->indices);

	KILNI_TRY(kilni_tensor_base(shared ? &none : out, tensor, &base));
	return kilni_settle(out, base, launch_scatter(base, s));
}

static enum kiln_status check_update(const char *fn,
				     const struct kiln_tensor *tensor,
				     const struct kiln_tensor *value,
				     enum kiln_update update)
{
	KILNI_CHECK_TENSOR(value, fn);
	KILNI_TRY(kilni_check_alike(fn, tensor, value));
	if ((unsigned)update <= KILN_UPDATE_MAX)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: update %d is unknown", fn,
			  (int)update);
}

static enum kiln_status scatter(struct kiln_tensor **out,
				struct kiln_tensor *tensor, int dim,
				struct kiln_tensor *indices,
				struct kiln_tensor *value,
				enum kiln_update update, const char *fn)
{
	struct scatter s = { .fn = fn, .op = KILNI_OP_SCATTER, .dim = dim,
			     .update = update, .indices = indices,
			     .value = value };

	KILNI_TRY(check(out, tensor, dim, indices, fn));
	KILNI_TRY(check_update(fn, tensor, value, update));
	if (!fits(tensor, dim, indices->shape[dim < indices->rank ? dim : 0],
		  indices))
		return refuse(fn, tensor, "indices", indices);
	if (!fits(indices, dim, indices->shape[dim], value))
		return refuse(fn, indices, "value", value);
	element_strides(indices, s.index_stride);
	return combine(out, tensor, &s);
}

enum kiln_status kiln_scatter(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, int dim,
			      struct kiln_tensor *indices,
			      struct kiln_tensor *value,
			      enum kiln_update update)
{
	return scatter(out, tensor, dim, indices, value, update, __func__);
}

enum kiln_status kiln_scatter_add(struct kiln_tensor **out,
				  struct kiln_tensor *tensor, int dim,
				  struct kiln_tensor *indices,
				  struct kiln_tensor *value)
{
	return scatter(out, tensor, dim, indices, value, KILN_UPDATE_ADD,
		       __func__);
}

static enum kiln_status select_assign(struct kiln_tensor **out,
				      struct kiln_tensor *tensor, int dim,
				      struct kiln_tensor *indices,
				      struct kiln_tensor *value,
				      enum kiln_update update, const char *fn)
{
	struct scatter s = { .fn = fn, .op = KILNI_OP_SELECT_ASSIGN,
			     .dim = dim, .update = update, .indices = indices,
			     .value = value };

	KILNI_TRY(check(out, tensor, dim, indices, fn));
	KILNI_TRY(check_update(fn, tensor, value, update));
	if (indices->rank != 1)
		return refuse(fn, tensor, "indices", indices);
	if (!fits(tensor, dim, indices->count, value))
		return refuse(fn, tensor, "value", value);
	spread(indices, tensor->rank, dim, s.index_stride);
	return combine(out, tensor, &s);
}

enum kiln_status kiln_select_assign(struct kiln_tensor **out,
				    struct kiln_tensor *tensor, int dim,
				    struct kiln_tensor *indices,
				    struct kiln_tensor *value,
				    enum kiln_update update)
{
	return select_assign(out, tensor, dim, indices, value, update,
			     __func__);
}

enum kiln_status kiln_select_add(struct kiln_tensor **out,
				 struct kiln_tensor *tensor, int dim,
				 struct kiln_tensor *indices,
				 struct kiln_tensor *value)
{
	return select_assign(out, tensor, dim, indices, value, KILN_UPDATE_ADD,
			     __func__);
}
