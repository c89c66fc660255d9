/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

/*
 * Ops composed of others. f16 and bf16 are computed in f32 and rounded once
 * at the end, as an op of its own would do it.
 */

static enum kiln_status check(struct kiln_tensor *const *out,
			      const struct kiln_tensor *tensor, int dim,
			      const char *fn)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(tensor, fn);
	KILNI_TRY(kilni_check_class(fn, tensor, KILNI_CLASSES_F));
	return kilni_check_dim(fn, tensor, dim);
}

static bool is_half(const struct kiln_tensor *t)
{
	return t->dtype == KILN_F16 || t->dtype == KILN_BF16;
}

/* tensor, or a wider copy of it. */
static enum kiln_status widen(struct kiln_tensor **out,
			      struct kiln_tensor *tensor)
{
	return kiln_cast(out, tensor,
			 is_half(tensor) ? KILN_F32 : kilni_dtype(tensor));
}

/* *x less its maximum along dim, so that exp() does not overflow. */
static enum kiln_status shift(struct kiln_tensor **x, int dim)
{
	struct kiln_tensor *max = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_max_dim(&max, *x, dim);

	if (status == KILN_OK)
		status = kiln_sub(x, *x, max);
	kiln_tensor_release(max);
	return status;
}

static enum kiln_status normalise(struct kiln_tensor **x, int dim)
{
	struct kiln_tensor *sum = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_exp(x, *x);

	if (status == KILN_OK)
		status = kiln_sum_dim(&sum, *x, dim);
	if (status == KILN_OK)
		status = kiln_div(x, *x, sum);
	kiln_tensor_release(sum);
	return status;
}

static enum kiln_status subtract_log_sum(struct kiln_tensor **x, int dim)
{
	struct kiln_tensor *e = KILN_TENSOR_NONE, *sum = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_exp(&e, *x);

	if (status == KILN_OK)
		status = kiln_sum_dim(&sum, e, dim);
	if (status == KILN_OK)
		status = kiln_log(&sum, sum);
	if (status == KILN_OK)
		status = kiln_sub(x, *x, sum);
	kiln_tensor_release(e);
	kiln_tensor_release(sum);
	return status;
}

/* ---- softmax and its logarithm ---- */

/* Rows lie side by side along dim, and the device has a kernel for that. */
static bool has_kernel(const struct kiln_tensor *t, int dim)
{
	const struct kilni_hw *hw = t->device->hw;

	for (int d = dim + 1; d < t->rank; d++)
		if (t->shape[d] != 1)
			return false;
	return kilni_is_dense(t->rank, t->shape, t->stride, kilni_size(t)) &&
	       hw->driver->program->has(hw, KILNI_KERNEL_SOFTMAX);
}

static enum kiln_status launch(struct kiln_tensor *out, struct kiln_tensor *in,
			       int dim, enum kilni_op op)
{
	struct kilni_job job;
	struct kilni_softmax_params *p = &job.entry.params.softmax;
	const struct kilni_hw *hw = in->device->hw;

	kilni_job_init(&job, KILNI_KERNEL_SOFTMAX, op, sizeof(*p));
	memset(p, 0, sizeof(*p));
	p->in = in->address;
	p->out = out->address;
	p->length = (uint64_t)in->shape[dim];
	p->rows = (uint64_t)in->count / p->length;
	p->dtype = in->dtype;
	p->is_log = op == KILNI_OP_LOG_SOFTMAX;
	kilni_job_operand(&job, out, KILNI_WRITE);
	kilni_job_operand(&job, in, KILNI_READ);
	return kilni_job_submit_with(
		&job, in->device,
		hw->driver->program->workspace(hw, KILNI_KERNEL_SOFTMAX, p),
		&p->workspace);
}

static enum kiln_status run_kernel(struct kiln_tensor **out,
				   struct kiln_tensor *tensor, int dim,
				   enum kilni_op op)
{
	struct kiln_tensor *result;

	KILNI_TRY(kilni_result(out, tensor->device, kilni_dtype(tensor),
			       tensor->rank, tensor->shape, true, &tensor, 1,
			       &result));
	return kilni_settle(out, result, launch(result, tensor, dim, op));
}

static enum kiln_status
softmax_form(struct kiln_tensor **out, struct kiln_tensor *tensor, int dim,
	     enum kilni_op op)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	enum kiln_status status;

	if (tensor->count == 0)
		return kiln_empty(out, tensor->device, kilni_dtype(tensor),
				  tensor->rank, tensor->shape);
	if (has_kernel(tensor, dim))
		return run_kernel(out, tensor, dim, op);
	status = widen(&x, tensor);
	if (status == KILN_OK)
		status = shift(&x, dim);
	if (status == KILN_OK)
		status = op == KILNI_OP_SOFTMAX ? normalise(&x, dim)
						: subtract_log_sum(&x, dim);
	if (status == KILN_OK)
		status = kiln_cast(out, x, kilni_dtype(tensor));
	kiln_tensor_release(x);
	return status;
}

enum kiln_status kiln_softmax(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, int dim)
{
	KILNI_TRY(check(out, tensor, dim, __func__));
	return softmax_form(out, tensor, dim, KILNI_OP_SOFTMAX);
}

enum kiln_status kiln_log_softmax(struct kiln_tensor **out,
				  struct kiln_tensor *tensor, int dim)
{
	KILNI_TRY(check(out, tensor, dim, __func__));
	return softmax_form(out, tensor, dim, KILNI_OP_LOG_SOFTMAX);
}

enum kiln_status kiln_softmin(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, int dim)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	enum kiln_status status;

	KILNI_TRY(check(out, tensor, dim, __func__));
	status = kiln_neg(&x, tensor);
	if (status == KILN_OK)
		status = softmax_form(out, x, dim, KILNI_OP_SOFTMAX);
	kiln_tensor_release(x);
	return status;
}
