/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <limits.h>

/* Reductions: the public forms, whole and along one axis. */

/* The place of dim where all axes are reduced: no caller can mean it. */
#define WHOLE INT_MIN

struct reduction {
	const char *fn;
	enum kilni_op op;
	int dim;                       /* or WHOLE */
	enum kiln_dtype out_dtype;     /* of the value */
	enum kiln_dtype index_dtype;
	bool wants_index;
};

static bool needs_elements(const struct kiln_tensor *t, enum kilni_op op)
{
	switch (op) {
	case KILNI_OP_SUM:
	case KILNI_OP_PROD:
	case KILNI_OP_ANY:
	case KILNI_OP_ALL:
		return false;
	case KILNI_OP_MEAN:
		return !kilni_is_class(kilni_dtype(t), KILNI_CLASSES_F);
	default:
		return true;
	}
}

static enum kiln_status check_axis(const struct reduction *r,
				   const struct kiln_tensor *t)
{
	int64_t size;

	if (r->dim != WHOLE)
		KILNI_TRY(kilni_check_dim(r->fn, t, r->dim));
	size = r->dim == WHOLE ? t->count : t->shape[r->dim];
	if (size || !needs_elements(t, r->op))
		return KILN_OK;
	return kilni_fail(KILN_ERR_EMPTY, 0, "%s: nothing to reduce", r->fn);
}

/* Every position of the axis must be a value of the dtype. */
static enum kiln_status check_index_dtype(const struct reduction *r,
					  const struct kiln_tensor *t)
{
	int64_t size = t->shape[r->dim];
	uint64_t ignored;

	KILNI_TRY(kilni_check_dtype(r->fn, t->device, r->index_dtype,
				    KILNI_CLASSES_I));
	return kilni_scalar_bits(r->fn, kiln_int(size ? size - 1 : 0),
				 r->index_dtype, &ignored);
}

/* Shape of the result: [1], or the axis at size 1. */
static int result_shape(const struct reduction *r, const struct kiln_tensor *t,
			int64_t *shape)
{
	if (r->dim == WHOLE) {
		shape[0] = 1;
		return 1;
	}
	memcpy(shape, t->shape, sizeof(t->shape));
	shape[r->dim] = 1;
	return t->rank;
}

static void set_params(struct kilni_reduce_params *p,
		       const struct reduction *r, const struct kiln_tensor *t,
		       const struct kiln_tensor *value,
		       const struct kiln_tensor *index)
{
	memset(p, 0, sizeof(*p));
	p->in = t->address;
	p->out = value ? value->address : 0;
	p->index = index ? index->address : 0;
	p->op = r->op;
	p->axes = r->dim == WHOLE ? (1u << t->rank) - 1 : 1u << r->dim;
	p->dtype = t->dtype;
	p->out_dtype = (uint8_t)r->out_dtype;
	p->index_dtype = (uint8_t)r->index_dtype;
	p->rank = t->rank;
	for (int d = 0; d < t->rank; d++) {
		p->shape[d] = (uint64_t)t->shape[d];
		p->stride[d] = t->stride[d] / kilni_size(t);
	}
}

static enum kiln_status launch(const struct reduction *r,
			       struct kiln_tensor *t, struct kiln_tensor *value,
			       struct kiln_tensor *index)
{
	struct kilni_job job;
	struct kilni_reduce_params *p = &job.entry.params.reduce;
	const struct kilni_hw *hw = t->device->hw;

	if ((value ? value : index)->count == 0)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_REDUCE, r->op, sizeof(*p));
	set_params(p, r, t, value, index);
	if (value)
		kilni_job_operand(&job, value, KILNI_WRITE);
	if (index)
		kilni_job_operand(&job, index, KILNI_WRITE);
	kilni_job_operand(&job, t, KILNI_READ);
	p->workspace_bytes = hw->driver->program->workspace(
		hw, KILNI_KERNEL_REDUCE, p);
	return kilni_job_submit_with(&job, t->device, p->workspace_bytes,
				     &p->workspace);
}

static enum kiln_status check(struct kiln_tensor *const *out,
			      const struct kiln_tensor *tensor,
			      const struct reduction *r)
{
	KILNI_TRY(kilni_check_out(out, r->fn));
	KILNI_CHECK_TENSOR(tensor, r->fn);
	KILNI_TRY(kilni_check_class(r->fn, tensor, kilni_ops[r->op].classes));
	return check_axis(r, tensor);
}

/* One result, a value or an index. */
static enum kiln_status run(struct kiln_tensor **out,
			    struct kiln_tensor *tensor, struct reduction *r)
{
	enum kiln_dtype dtype = r->wants_index ? r->index_dtype : r->out_dtype;
	int64_t shape[KILN_RANK_MAX];
	struct kiln_tensor *result;
	int rank = result_shape(r, tensor, shape);

	KILNI_TRY(kilni_result(out, tensor->device, dtype, rank, shape, false,
			       &tensor, 1, &result));
	return kilni_settle(out, result,
			    launch(r, tensor, r->wants_index ? NULL : result,
				   r->wants_index ? result : NULL));
}

static enum kiln_status reduce_value(struct kiln_tensor **out,
				     struct kiln_tensor *tensor,
				     enum kilni_op op, int dim, const char *fn)
{
	struct reduction r = { .fn = fn, .op = op, .dim = dim };

	KILNI_TRY(check(out, tensor, &r));
	r.out_dtype = kilni_dtype(tensor);
	return run(out, tensor, &r);
}

static enum kiln_status reduce_index(struct kiln_tensor **out,
				     struct kiln_tensor *tensor,
				     enum kilni_op op, int dim,
				     enum kiln_dtype index_dtype,
				     const char *fn)
{
	struct reduction r = { .fn = fn, .op = op, .dim = dim,
			       .index_dtype = index_dtype,
			       .wants_index = true };

	KILNI_TRY(check(out, tensor, &r));
	r.out_dtype = kilni_dtype(tensor);
	KILNI_TRY(check_index_dtype(&r, tensor));
	return run(out, tensor, &r);
}

static enum kiln_status reduce_bool(struct kiln_tensor **out,
				    struct kiln_tensor *tensor,
				    enum kilni_op op, int dim,
				    enum kiln_dtype bool_dtype, const char *fn)
{
	struct reduction r = { .fn = fn, .op = op, .dim = dim,
			       .out_dtype = bool_dtype };

	KILNI_TRY(check(out, tensor, &r));
	KILNI_TRY(kilni_check_dtype(fn, tensor->device, bool_dtype,
				    KILNI_CLASSES_B));
	return run(out, tensor, &r);
}

#define VALUE(ID, name)                                                        \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *tensor)               \
	{                                                                      \
		return reduce_value(out, tensor, KILNI_OP_##ID, WHOLE,         \
				    __func__);                                 \
	}                                                                      \
	enum kiln_status kiln_##name##_dim(struct kiln_tensor **out,           \
					   struct kiln_tensor *tensor,         \
					   int dim)                            \
	{                                                                      \
		return reduce_value(out, tensor, KILNI_OP_##ID, dim,           \
				    __func__);                                 \
	}
#define INDEX(ID, name)                                                        \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *tensor, int dim,      \
				     enum kiln_dtype indices_dtype)            \
	{                                                                      \
		return reduce_index(out, tensor, KILNI_OP_##ID, dim,           \
				    indices_dtype, __func__);                  \
	}
#define TRUTH(ID, name)                                                        \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *tensor,               \
				     enum kiln_dtype bool_dtype)               \
	{                                                                      \
		return reduce_bool(out, tensor, KILNI_OP_##ID, WHOLE,          \
				   bool_dtype, __func__);                      \
	}                                                                      \
	enum kiln_status kiln_##name##_dim(struct kiln_tensor **out,           \
					   struct kiln_tensor *tensor,         \
					   int dim,                            \
					   enum kiln_dtype bool_dtype)         \
	{                                                                      \
		return reduce_bool(out, tensor, KILNI_OP_##ID, dim,            \
				   bool_dtype, __func__);                      \
	}

VALUE(SUM, sum)
VALUE(MEAN, mean)
VALUE(PROD, prod)
VALUE(MAX, max)
VALUE(MIN, min)
VALUE(MAX_ABS, max_abs)
INDEX(ARGMAX, argmax)
INDEX(ARGMIN, argmin)
TRUTH(ANY, any)
TRUTH(ALL, all)

/* ---- value and index ---- */

static enum kiln_status both(struct kiln_tensor **out,
			     struct kiln_tensor **indices,
			     struct kiln_tensor *tensor,
			     const struct reduction *r)
{
	int64_t shape[KILN_RANK_MAX];
	struct kiln_tensor *value, *index;
	int rank = result_shape(r, tensor, shape);
	enum kiln_status status;

	/* New ones: a failure must leave both places as they are. */
	KILNI_TRY(kilni_tensor_create(&value, tensor->device, r->out_dtype,
				      rank, shape));
	status = kilni_tensor_create(&index, tensor->device, r->index_dtype,
				     rank, shape);
	if (status != KILN_OK) {
		kiln_tensor_release(value);
		return status;
	}
	status = launch(r, tensor, value, index);
	if (status != KILN_OK) {
		kiln_tensor_release(value);
		kiln_tensor_release(index);
		return status;
	}
	kilni_assign(out, value);
	kilni_assign(indices, index);
	return KILN_OK;
}

static enum kiln_status with_indices(struct kiln_tensor **out,
				     struct kiln_tensor **indices,
				     struct kiln_tensor *tensor,
				     enum kilni_op op, int dim,
				     enum kiln_dtype index_dtype,
				     const char *fn)
{
	struct reduction r = { .fn = fn, .op = op,
			       .dim = dim,
			       .index_dtype = index_dtype };

	KILNI_TRY(check(out, tensor, &r));
	KILNI_TRY(kilni_check_out(indices, fn));
	if (out == indices)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: out and indices are one place", fn);
	r.out_dtype = kilni_dtype(tensor);
	KILNI_TRY(check_index_dtype(&r, tensor));
	return both(out, indices, tensor, &r);
}

enum kiln_status kiln_max_dim_with_indices(struct kiln_tensor **out,
					   struct kiln_tensor **indices,
					   struct kiln_tensor *tensor, int dim,
					   enum kiln_dtype indices_dtype)
{
	return with_indices(out, indices, tensor, KILNI_OP_MAX, dim,
			    indices_dtype, __func__);
}

enum kiln_status kiln_min_dim_with_indices(struct kiln_tensor **out,
					   struct kiln_tensor **indices,
					   struct kiln_tensor *tensor, int dim,
					   enum kiln_dtype indices_dtype)
{
	return with_indices(out, indices, tensor, KILNI_OP_MIN, dim,
			    indices_dtype, __func__);
}
