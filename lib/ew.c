/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

/* Elementwise ops: broadcasting, the choice of form, and the launch. */

/* Bytes of the parameters that the contiguous form reads. */
#define CONTIGUOUS_BYTES offsetof(struct kilni_ew_params, shape)

/* A scalar has the dtype of the first array operand. */
static void set_operands(struct kilni_ew_params *p, const struct kiln_tensor *dst,
			 const struct kilni_ew *ew)
{
	uint8_t scalar_dtype = ew->in[0] ? ew->in[0]->dtype : dst->dtype;
	bool random = ew->op == KILNI_OP_RANDOM;
	unsigned scalars = 0;

	p->report = 0;
	p->count = (uint64_t)dst->count;
	p->out = dst->address;
	p->op = ew->op;
	p->dtype[0] = dst->dtype;
	p->keep = 0;
	p->rank = 0;
	p->distribution = random ? ew->distribution : 0;
	p->seed = random ? ew->seed : 0;
	p->counter = random ? ew->counter : 0;
	for (int j = 0; j < 3; j++) {
		const struct kiln_tensor *t = ew->in[j];

		p->in[j] = t ? t->address : 0;
		p->scalar[j] = ew->scalar[j];
		p->dtype[1 + j] = t ? t->dtype : scalar_dtype;
		scalars |= (unsigned)!t << j;
	}
	p->scalars = (uint8_t)scalars;
}

static bool all_dense(const struct kiln_tensor *dst, const struct kilni_ew *ew)
{
	if (!dst->dense)
		return false;
	for (int j = 0; j < ew->count; j++)
		if (ew->in[j] &&
		    !(ew->in[j]->dense && kilni_same_shape(ew->in[j], dst)))
			return false;
	return true;
}

/* Strides of everything, with axes merged; tells whether that left it dense. */
static bool set_strides(struct kilni_ew_params *p, const struct kiln_tensor *dst,
			const struct kilni_ew *ew)
{
	bool dense;

	memset(p->stride, 0, sizeof(p->stride));
	for (int d = 0; d < dst->rank; d++)
		p->shape[d] = (uint64_t)dst->shape[d];
	kilni_broadcast_strides(dst, dst->rank, dst->shape, p->stride[0]);
	for (int j = 0; j < ew->count; j++)
		if (ew->in[j])
			kilni_broadcast_strides(ew->in[j], dst->rank,
						dst->shape, p->stride[1 + j]);
	p->rank = (uint8_t)kilni_merge_axes(dst->rank, p->shape, 4, p->stride);
	if (p->rank > 1)
		return false;
	dense = true;
	for (int j = 0; p->rank && j <= ew->count; j++)
		if (j == 0 || ew->in[j - 1])
			dense &= p->stride[j][0] == 1;
	return dense;
}

enum kiln_status kilni_ew_into(struct kiln_tensor *dst,
			       const struct kilni_ew *ew)
{
	struct kilni_job job;
	struct kilni_ew_params *p = &job.entry.params.ew;

	if (dst->count == 0)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_EW, ew->op, CONTIGUOUS_BYTES);
	set_operands(p, dst, ew);
	p->contiguous = all_dense(dst, ew);
	if (!p->contiguous)
		p->contiguous = set_strides(p, dst, ew);
	if (!p->contiguous)
		job.entry.params_bytes = sizeof(*p);
	/* What stays of a storage that is written in part may have failed. */
	kilni_job_operand(&job, dst,
			  kilni_is_whole(dst) ? KILNI_WRITE : KILNI_READ_WRITE);
	for (int j = 0; j < ew->count; j++)
		if (ew->in[j])
			kilni_job_operand(&job, ew->in[j], KILNI_READ);
	return kilni_job_submit(&job, dst->device);
}

static bool all_alike(const struct kilni_ew *ew)
{
	for (int j = 1; j < ew->count; j++)
		if (ew->in[j] && !kilni_same_shape(ew->in[j], ew->in[0]))
			return false;
	return true;
}

static enum kiln_status broadcast_all(const struct kilni_ew *ew, int *rank,
				      int64_t *shape)
{
	struct kiln_tensor *first = ew->in[0];

	*rank = first->rank;
	memcpy(shape, first->shape, first->rank * sizeof(*shape));
	for (int j = 1; j < ew->count; j++)
		if (ew->in[j])
			KILNI_TRY(kilni_broadcast(ew->fn, ew->in[j], rank,
						  shape));
	return KILN_OK;
}

/* Into *out where it has that form, which then does not overflow. */
static enum kiln_status run_shaped(struct kiln_tensor **out,
				   const struct kilni_ew *ew, int rank,
				   const int64_t *shape)
{
	struct kiln_device *device = ew->in[0]->device;
	struct kiln_tensor *result;
	int64_t count;

	if (kilni_result_fits(*out, device, ew->dtype, rank, shape))
		return kilni_ew_into(*out, ew);
	KILNI_TRY(kilni_shape_count(ew->fn, rank, shape,
				    kilni_dtype_bytes[ew->dtype], &count));
	KILNI_TRY(kilni_tensor_create(&result, device, ew->dtype, rank, shape));
	return kilni_settle(out, result, kilni_ew_into(result, ew));
}

enum kiln_status kilni_ew_run(struct kiln_tensor **out,
			      const struct kilni_ew *ew)
{
	int64_t shape[KILN_RANK_MAX];
	int rank;

	if (KILNI_LIKELY(all_alike(ew)))
		return run_shaped(out, ew, ew->in[0]->rank, ew->in[0]->shape);
	KILNI_TRY(broadcast_all(ew, &rank, shape));
	return run_shaped(out, ew, rank, shape);
}

enum kiln_status kilni_copy(const char *fn, struct kiln_tensor *dst,
			    struct kiln_tensor *src)
{
	struct kilni_ew ew = {
		.fn = fn,
		.op = KILNI_OP_COPY,
		.dtype = kilni_dtype(dst),
		.count = 1,
		.in = { src },
	};

	return kilni_ew_into(dst, &ew);
}
