/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <math.h>
#include <stdlib.h>

/* The public elementwise ops; most follow from their rows in the registry. */

/*
 * An op of an array and count - 1 further slots. Assigned one by one, without
 * what only RANDOM has: clearing the whole costs more than the rest of it.
 */
static void set_up(struct kilni_ew *ew, const char *fn, enum kilni_op op,
		   int count, struct kiln_tensor *lhs, struct kiln_tensor *rhs)
{
	ew->fn = fn;
	ew->op = op;
	ew->count = count;
	ew->in[0] = lhs;
	ew->in[1] = rhs;
	ew->in[2] = NULL;
	for (int j = 0; j < 3; j++)
		ew->scalar[j] = 0;
}

static enum kiln_status unary(struct kiln_tensor **out,
			      struct kiln_tensor *tensor, enum kilni_op op,
			      const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 1, tensor, NULL);
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(tensor, fn);
	KILNI_TRY(kilni_check_class(fn, tensor, kilni_ops[op].classes));
	ew.dtype = kilni_dtype(tensor);
	return kilni_ew_run(out, &ew);
}

static enum kiln_status predicate(struct kiln_tensor **out,
				  struct kiln_tensor *tensor, enum kilni_op op,
				  enum kiln_dtype bool_dtype, const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 1, tensor, NULL);
	ew.dtype = bool_dtype;
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(tensor, fn);
	KILNI_TRY(kilni_check_class(fn, tensor, kilni_ops[op].classes));
	KILNI_TRY(kilni_check_dtype(fn, tensor->device, bool_dtype,
				    KILNI_CLASSES_B));
	return kilni_ew_run(out, &ew);
}

static enum kiln_status check_binary(struct kiln_tensor *const *out,
				     const struct kiln_tensor *lhs,
				     const struct kiln_tensor *rhs,
				     enum kilni_op op, const char *fn)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(lhs, fn);
	KILNI_CHECK_TENSOR(rhs, fn);
	KILNI_TRY(kilni_check_class(fn, lhs, kilni_ops[op].classes));
	return kilni_check_alike(fn, lhs, rhs);
}

static enum kiln_status binary(struct kiln_tensor **out,
			       struct kiln_tensor *lhs,
			       struct kiln_tensor *rhs, enum kilni_op op,
			       const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 2, lhs, rhs);
	KILNI_TRY(check_binary(out, lhs, rhs, op, fn));
	ew.dtype = kilni_dtype(lhs);
	return kilni_ew_run(out, &ew);
}

static enum kiln_status check_scalar(struct kiln_tensor *const *out,
				     const struct kiln_tensor *lhs,
				     struct kiln_scalar rhs, enum kilni_op op,
				     const char *fn, uint64_t *bits)
{
	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_TENSOR(lhs, fn);
	KILNI_TRY(kilni_check_class(fn, lhs, kilni_ops[op].classes));
	return kilni_scalar_bits(fn, rhs, kilni_dtype(lhs), bits);
}

static enum kiln_status binary_scalar(struct kiln_tensor **out,
				      struct kiln_tensor *lhs,
				      struct kiln_scalar rhs, enum kilni_op op,
				      const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 2, lhs, NULL);
	KILNI_TRY(check_scalar(out, lhs, rhs, op, fn, &ew.scalar[1]));
	ew.dtype = kilni_dtype(lhs);
	return kilni_ew_run(out, &ew);
}

static enum kiln_status compare(struct kiln_tensor **out,
				struct kiln_tensor *lhs,
				struct kiln_tensor *rhs,
				enum kiln_dtype bool_dtype, enum kilni_op op,
				const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 2, lhs, rhs);
	ew.dtype = bool_dtype;
	KILNI_TRY(check_binary(out, lhs, rhs, op, fn));
	KILNI_TRY(kilni_check_dtype(fn, lhs->device, bool_dtype,
				    KILNI_CLASSES_B));
	return kilni_ew_run(out, &ew);
}

static enum kiln_status compare_scalar(struct kiln_tensor **out,
				       struct kiln_tensor *lhs,
				       struct kiln_scalar rhs,
				       enum kiln_dtype bool_dtype,
				       enum kilni_op op, const char *fn)
{
	struct kilni_ew ew;

	set_up(&ew, fn, op, 2, lhs, NULL);
	ew.dtype = bool_dtype;
	KILNI_TRY(check_scalar(out, lhs, rhs, op, fn, &ew.scalar[1]));
	KILNI_TRY(kilni_check_dtype(fn, lhs->device, bool_dtype,
				    KILNI_CLASSES_B));
	return kilni_ew_run(out, &ew);
}

/* ---- functions that follow from their row ---- */

#define KILNI_EW1(ID, name, classes, ulp, doc)                                 \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *tensor)               \
	{                                                                      \
		return unary(out, tensor, KILNI_OP_##ID, __func__);            \
	}
#define KILNI_PRED(ID, name, classes, doc)                                     \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *tensor,               \
				     enum kiln_dtype bool_dtype)               \
	{                                                                      \
		return predicate(out, tensor, KILNI_OP_##ID, bool_dtype,       \
				 __func__);                                    \
	}
#define KILNI_CMP(ID, name, classes, doc)                                      \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *lhs,                  \
				     struct kiln_tensor *rhs,                  \
				     enum kiln_dtype bool_dtype)               \
	{                                                                      \
		return compare(out, lhs, rhs, bool_dtype, KILNI_OP_##ID,       \
			       __func__);                                      \
	}                                                                      \
	enum kiln_status kiln_##name##_scalar(                                 \
		struct kiln_tensor **out, struct kiln_tensor *lhs,             \
		struct kiln_scalar rhs, enum kiln_dtype bool_dtype)            \
	{                                                                      \
		return compare_scalar(out, lhs, rhs, bool_dtype,               \
				      KILNI_OP_##ID, __func__);                \
	}
#include "kernels/ops.def"

/* Binary ops whose forms with a tensor and with a scalar are both public. */
#define BINARY_TENSOR(ID, name)                                                \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *lhs,                  \
				     struct kiln_tensor *rhs)                  \
	{                                                                      \
		return binary(out, lhs, rhs, KILNI_OP_##ID, __func__);         \
	}
#define BINARY_SCALAR(ID, name)                                                \
	enum kiln_status kiln_##name(struct kiln_tensor **out,                 \
				     struct kiln_tensor *lhs,                  \
				     struct kiln_scalar rhs)                   \
	{                                                                      \
		return binary_scalar(out, lhs, rhs, KILNI_OP_##ID, __func__);  \
	}
#define BINARY(ID, name)                                                       \
	BINARY_TENSOR(ID, name)                                                \
	BINARY_SCALAR(ID, name##_scalar)

BINARY(ADD, add)
BINARY(SUB, sub)
BINARY(MUL, mul)
BINARY(DIV, div)
BINARY(REMAINDER, remainder)
BINARY(POWF, powf)
BINARY(BITWISE_AND, bitwise_and)
BINARY(BITWISE_OR, bitwise_or)
BINARY(BITWISE_XOR, bitwise_xor)
BINARY(BITWISE_LEFT_SHIFT, bitwise_left_shift)
BINARY(BITWISE_RIGHT_SHIFT, bitwise_right_shift)
BINARY_TENSOR(LOGICAL_AND, logical_and)
BINARY_TENSOR(LOGICAL_OR, logical_or)
BINARY_TENSOR(LOGICAL_XOR, logical_xor)
BINARY_SCALAR(CLAMP_MIN, clamp_min)
BINARY_SCALAR(CLAMP_MAX, clamp_max)
BINARY_SCALAR(LEAKY_RELU, leaky_relu)
BINARY_TENSOR(RELU_BACKWARD, relu_backward)
BINARY_TENSOR(SIGMOID_BACKWARD, sigmoid_backward)
BINARY_TENSOR(GELU_BACKWARD, gelu_backward)
BINARY_TENSOR(LOG_SIGMOID_BACKWARD, log_sigmoid_backward)

/* ---- functions of other forms ---- */

enum kiln_status kiln_powi(struct kiln_tensor **out, struct kiln_tensor *lhs,
			   struct kiln_tensor *rhs)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_POWI, .count = 2,
			       .in = { lhs, rhs } };

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(lhs, __func__);
	KILNI_CHECK_TENSOR(rhs, __func__);
	KILNI_TRY(kilni_check_class(__func__, lhs, KILNI_CLASSES_N));
	KILNI_TRY(kilni_check_class(__func__, rhs, KILNI_CLASSES_I));
	if (kilni_is_class(kilni_dtype(lhs), KILNI_CLASSES_F))
		KILNI_TRY(kilni_check_device(__func__, lhs, rhs));
	else
		KILNI_TRY(kilni_check_alike(__func__, lhs, rhs));
	ew.dtype = kilni_dtype(lhs);
	return kilni_ew_run(out, &ew);
}

static bool is_integral(struct kiln_scalar s)
{
	return s.kind != KILN_SCALAR_FLOAT ||
	       (isfinite(s.value.f) && s.value.f == trunc(s.value.f));
}

/*
 * f16 and bf16 are computed in f32, and so is the exponent: it is a count, not
 * an element, and must not be rounded like one.
 */
static enum kiln_status exponent_bits(const char *fn, struct kiln_scalar s,
				      enum kiln_dtype dtype, uint64_t *bits)
{
	if (!is_integral(s))
		return kilni_fail(KILN_ERR_DTYPE, 0,
				  "%s: exponent %.17g is not integral", fn,
				  s.value.f);
	if (dtype == KILN_F16 || dtype == KILN_BF16)
		dtype = KILN_F32;
	return kilni_scalar_bits(fn, s, dtype, bits);
}

enum kiln_status kiln_powi_scalar(struct kiln_tensor **out,
				  struct kiln_tensor *lhs,
				  struct kiln_scalar rhs)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_POWI, .count = 2,
			       .in = { lhs } };

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(lhs, __func__);
	KILNI_TRY(kilni_check_class(__func__, lhs, KILNI_CLASSES_N));
	ew.dtype = kilni_dtype(lhs);
	KILNI_TRY(exponent_bits(__func__, rhs, ew.dtype, &ew.scalar[1]));
	return kilni_ew_run(out, &ew);
}

static enum kiln_status two_scalars(struct kiln_tensor **out,
				    struct kiln_tensor *tensor,
				    struct kiln_scalar a, struct kiln_scalar b,
				    enum kilni_op op, const char *fn)
{
	struct kilni_ew ew = { .fn = fn, .op = op, .count = 3,
			       .in = { tensor } };

	KILNI_TRY(check_scalar(out, tensor, a, op, fn, &ew.scalar[1]));
	ew.dtype = kilni_dtype(tensor);
	KILNI_TRY(kilni_scalar_bits(fn, b, ew.dtype, &ew.scalar[2]));
	return kilni_ew_run(out, &ew);
}

enum kiln_status kiln_clamp(struct kiln_tensor **out,
			    struct kiln_tensor *tensor, struct kiln_scalar min,
			    struct kiln_scalar max)
{
	return two_scalars(out, tensor, min, max, KILNI_OP_CLAMP, __func__);
}

enum kiln_status kiln_hard_sigmoid(struct kiln_tensor **out,
				   struct kiln_tensor *tensor,
				   struct kiln_scalar alpha,
				   struct kiln_scalar beta)
{
	return two_scalars(out, tensor, alpha, beta, KILNI_OP_HARD_SIGMOID,
			   __func__);
}

enum kiln_status kiln_mask_where(struct kiln_tensor **out,
				 struct kiln_tensor *tensor,
				 struct kiln_tensor *mask,
				 struct kiln_tensor *value)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_MASK_WHERE,
			       .count = 3, .in = { tensor, value, mask } };

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_CHECK_TENSOR(mask, __func__);
	KILNI_CHECK_TENSOR(value, __func__);
	KILNI_TRY(kilni_check_alike(__func__, tensor, value));
	KILNI_TRY(kilni_check_device(__func__, tensor, mask));
	KILNI_TRY(kilni_check_class(__func__, mask, KILNI_CLASSES_B));
	ew.dtype = kilni_dtype(tensor);
	return kilni_ew_run(out, &ew);
}

enum kiln_status kiln_mask_fill(struct kiln_tensor **out,
				struct kiln_tensor *tensor,
				struct kiln_tensor *mask,
				struct kiln_scalar value)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_MASK_FILL,
			       .count = 3, .in = { tensor, NULL, mask } };

	KILNI_TRY(check_scalar(out, tensor, value, KILNI_OP_MASK_FILL,
			       __func__, &ew.scalar[1]));
	KILNI_CHECK_TENSOR(mask, __func__);
	KILNI_TRY(kilni_check_device(__func__, tensor, mask));
	KILNI_TRY(kilni_check_class(__func__, mask, KILNI_CLASSES_B));
	ew.dtype = kilni_dtype(tensor);
	return kilni_ew_run(out, &ew);
}

enum kiln_status kiln_cast(struct kiln_tensor **out,
			   struct kiln_tensor *tensor, enum kiln_dtype dtype)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_CAST,
			       .dtype = dtype, .count = 1, .in = { tensor } };

	KILNI_TRY(kilni_check_out(out, __func__));
	KILNI_CHECK_TENSOR(tensor, __func__);
	KILNI_TRY(kilni_check_dtype(__func__, tensor->device, dtype,
				    KILNI_CLASSES_A));
	if (dtype == kilni_dtype(tensor)) {
		kilni_assign(out, kiln_tensor_retain(tensor));
		return KILN_OK;
	}
	return kilni_ew_run(out, &ew);
}

static enum kiln_status refuse_alpha(const struct kiln_tensor *tensor,
				     const struct kiln_tensor *alpha)
{
	char a[96], b[96];

	return kilni_fail(KILN_ERR_SHAPE, 0,
			  "kiln_prelu: alpha of shape %s for %s",
			  kilni_shape_text(a, sizeof(a), alpha->rank,
					   alpha->shape),
			  kilni_shape_text(b, sizeof(b), tensor->rank,
					   tensor->shape));
}

/* alpha with the rank of tensor: along its channel axis, or as it is. */
static enum kiln_status channel_view(struct kiln_tensor **out,
				     const struct kiln_tensor *tensor,
				     const struct kiln_tensor *alpha)
{
	int64_t shape[KILN_RANK_MAX], stride[KILN_RANK_MAX];
	int axis = tensor->rank > 1 ? 1 : 0;
	bool spread = alpha->rank == 1;

	if (!spread && alpha->rank != tensor->rank)
		return refuse_alpha(tensor, alpha);
	for (int d = 0; d < tensor->rank; d++) {
		shape[d] = spread ? 1 : alpha->shape[d];
		stride[d] = alpha->stride[spread ? 0 : d];
		if (spread && d == axis)
			shape[d] = alpha->count;
		if (shape[d] != 1 && shape[d] != tensor->shape[d])
			return refuse_alpha(tensor, alpha);
	}
	return kilni_tensor_view(out, alpha, tensor->rank, shape, stride,
				 alpha->address);
}

enum kiln_status kiln_prelu(struct kiln_tensor **out,
			    struct kiln_tensor *tensor,
			    struct kiln_tensor *alpha)
{
	struct kiln_tensor *view;
	enum kiln_status status;

	KILNI_TRY(check_binary(out, tensor, alpha, KILNI_OP_PRELU, __func__));
	KILNI_TRY(channel_view(&view, tensor, alpha));
	status = binary(out, tensor, view, KILNI_OP_PRELU, __func__);
	kiln_tensor_release(view);
	return status;
}

/* ---- copies ---- */

static bool is_same_range(const struct kiln_tensor *a,
			  const struct kiln_tensor *b)
{
	size_t bytes = a->rank * sizeof(a->shape[0]);

	return a->address == b->address && a->rank == b->rank &&
	       !memcmp(a->shape, b->shape, bytes) &&
	       !memcmp(a->stride, b->stride, bytes);
}

enum kiln_status kilni_check_destination(const struct kiln_tensor *dst,
					 const char *fn)
{
	if (kilni_overlaps_itself(dst))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: dst overlaps itself", fn);
	if (dst->storage->flags & KILNI_STORAGE_READ_ONLY)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: dst is read-only",
				  fn);
	return KILN_OK;
}

static enum kiln_status check_fits(const struct kiln_tensor *dst,
				   const struct kiln_tensor *src,
				   const char *fn)
{
	int64_t shape[KILN_RANK_MAX];
	int rank = dst->rank;

	memcpy(shape, dst->shape, sizeof(shape));
	KILNI_TRY(kilni_broadcast(fn, src, &rank, shape));
	if (rank == dst->rank &&
	    !memcmp(shape, dst->shape, (size_t)rank * sizeof(*shape)))
		return KILN_OK;
	return kilni_fail(KILN_ERR_SHAPE, 0,
			  "%s: src does not broadcast to dst", fn);
}

enum kiln_status kiln_copy_into(struct kiln_tensor *dst,
				struct kiln_tensor *src)
{
	struct kiln_tensor *copy;
	enum kiln_status status;

	KILNI_CHECK_TENSOR(dst, __func__);
	KILNI_CHECK_TENSOR(src, __func__);
	KILNI_TRY(kilni_check_alike(__func__, dst, src));
	KILNI_TRY(kilni_check_destination(dst, __func__));
	KILNI_TRY(check_fits(dst, src, __func__));
	if (!kilni_overlaps(dst, src) || is_same_range(dst, src))
		return kilni_copy(__func__, dst, src);
	KILNI_TRY(kilni_tensor_create(&copy, src->device, kilni_dtype(src),
				      src->rank, src->shape));
	status = kilni_copy(__func__, copy, src);
	if (status == KILN_OK)
		status = kilni_copy(__func__, dst, copy);
	kiln_tensor_release(copy);
	return status;
}
