/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

static enum kiln_status refuse(const struct kiln_tensor *lhs,
			       const struct kiln_tensor *rhs)
{
	char a[96], b[96];

	return kilni_fail(
		KILN_ERR_SHAPE, 0, "kiln_matmul: shapes %s and %s do not fit",
		kilni_shape_text(a, sizeof(a), lhs->rank, lhs->shape),
		kilni_shape_text(b, sizeof(b), rhs->rank, rhs->shape));
}

/* The batch axes of t alone, as a tensor to broadcast with. */
static void batch_of(const struct kiln_tensor *t, struct kiln_tensor *batch)
{
	batch->dtype = t->dtype;
	batch->rank = (uint8_t)(t->rank - 2);
	memcpy(batch->shape, t->shape, sizeof(t->shape));
	memcpy(batch->stride, t->stride, sizeof(t->stride));
}

static enum kiln_status result_shape(const struct kiln_tensor *lhs,
				     const struct kiln_tensor *rhs, int *rank,
				     int64_t *shape)
{
	struct kiln_tensor batch;

	if (lhs->rank < 2 || rhs->rank < 2 ||
	    lhs->shape[lhs->rank - 1] != rhs->shape[rhs->rank - 2])
		return refuse(lhs, rhs);
	*rank = lhs->rank - 2;
	memcpy(shape, lhs->shape, sizeof(lhs->shape));
	batch_of(rhs, &batch);
	if (kilni_broadcast("kiln_matmul", &batch, rank, shape) != KILN_OK)
		return refuse(lhs, rhs);
	shape[(*rank)++] = lhs->shape[lhs->rank - 2];
	shape[(*rank)++] = rhs->shape[rhs->rank - 1];
	return KILN_OK;
}

static void set_batches(struct kilni_matmul_params *p,
			const struct kiln_tensor *lhs,
			const struct kiln_tensor *rhs,
			const struct kiln_tensor *out)
{
	int64_t stride[2][KILN_RANK_MAX];
	int rank = out->rank - 2;
	struct kiln_tensor batch;

	for (int d = 0; d < rank; d++)
		p->batch_shape[d] = (uint64_t)out->shape[d];
	batch_of(lhs, &batch);
	kilni_broadcast_strides(&batch, rank, out->shape, stride[0]);
	batch_of(rhs, &batch);
	kilni_broadcast_strides(&batch, rank, out->shape, stride[1]);
	p->batch_rank = (uint32_t)kilni_merge_axes(rank, p->batch_shape, 2,
						   stride);
	memcpy(p->a_batch, stride[0], sizeof(p->a_batch));
	memcpy(p->b_batch, stride[1], sizeof(p->b_batch));
}

static void set_params(struct kilni_matmul_params *p,
		       const struct kiln_tensor *lhs,
		       const struct kiln_tensor *rhs,
		       const struct kiln_tensor *out)
{
	int64_t size = kilni_size(lhs);
	int a = lhs->rank - 2, b = rhs->rank - 2;

	p->report = 0;
	p->a = lhs->address;
	p->b = rhs->address;
	p->c = out->address;
	p->m = (uint64_t)lhs->shape[a];
	p->k = (uint64_t)lhs->shape[a + 1];
	p->n = (uint64_t)rhs->shape[b + 1];
	p->a_row = lhs->stride[a] / size;
	p->a_col = lhs->stride[a + 1] / size;
	p->b_row = rhs->stride[b] / size;
	p->b_col = rhs->stride[b + 1] / size;
	p->dtype = lhs->dtype;
	p->workspace = 0;
	p->workspace_bytes = 0;
	set_batches(p, lhs, rhs, out);
}

static enum kiln_status launch(struct kiln_tensor *out,
			       struct kiln_tensor *lhs,
			       struct kiln_tensor *rhs)
{
	struct kilni_job job;
	struct kilni_matmul_params *p = &job.entry.params.matmul;
	const struct kilni_hw *hw = out->device->hw;

	if (out->count == 0)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_MATMUL, KILNI_OP_MATMUL, sizeof(*p));
	set_params(p, lhs, rhs, out);
	kilni_job_operand(&job, out, KILNI_WRITE);
	kilni_job_operand(&job, lhs, KILNI_READ);
	kilni_job_operand(&job, rhs, KILNI_READ);
	p->workspace_bytes = hw->driver->program->workspace(
		hw, KILNI_KERNEL_MATMUL, p);
	return kilni_job_submit_with(&job, out->device, p->workspace_bytes,
				     &p->workspace);
}

enum kiln_status kiln_matmul(struct kiln_tensor **out, struct kiln_tensor *lhs,
			     struct kiln_tensor *rhs)
{
	struct kiln_tensor *const operands[] = { lhs, rhs };
	int64_t shape[KILN_RANK_MAX + 2], count;
	struct kiln_tensor *result;
	int rank;

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(lhs, __func__);
	KILNI_CHECK_TENSOR(rhs, __func__);
	KILNI_TRY(kilni_check_class(__func__, lhs, KILNI_CLASSES_N));
	KILNI_TRY(kilni_check_alike(__func__, lhs, rhs));
	KILNI_TRY(result_shape(lhs, rhs, &rank, shape));
	KILNI_TRY(kilni_shape_count(__func__, rank, shape,
				    (size_t)kilni_size(lhs), &count));
	KILNI_TRY(kilni_result(out, lhs->device, kilni_dtype(lhs), rank, shape,
			       false, operands, 2, &result));
	return kilni_settle(out, result, launch(result, lhs, rhs));
}
