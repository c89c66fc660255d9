/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include "kernels/kl/random.h"

#include <math.h>

/* New tensors that are not made of other tensors. */

static enum kiln_status check_new(struct kiln_tensor *const *out,
				  const struct kiln_device *device,
				  enum kiln_dtype dtype, unsigned classes,
				  int rank, const int64_t *shape,
				  const char *fn)
{
	int64_t count;

	KILNI_TRY(kilni_check_out(out, fn));
	KILNI_CHECK_DEVICE(device, fn);
	KILNI_TRY(kilni_check_dtype(fn, device, dtype, classes));
	KILNI_TRY(kilni_shape_check(fn, rank, shape));
	return kilni_shape_count(fn, rank, shape,
				 kiln_dtype_size_bytes(dtype), &count);
}

/* Makes or reuses the result and fills it with an op without operands. */
static enum kiln_status generate(struct kiln_tensor **out,
				 struct kiln_device *device, int rank,
				 const int64_t *shape,
				 const struct kilni_ew *ew)
{
	struct kiln_tensor *result;

	KILNI_TRY(kilni_result(out, device, ew->dtype, rank, shape, true, NULL,
			       0, &result));
	return kilni_settle(out, result, kilni_ew_into(result, ew));
}

enum kiln_status kiln_empty(struct kiln_tensor **out,
			    struct kiln_device *device, enum kiln_dtype dtype,
			    int rank, const int64_t *shape)
{
	struct kiln_tensor *result;

	KILNI_TRY(check_new(out, device, dtype, KILNI_CLASSES_A, rank, shape,
			    __func__));
	KILNI_TRY(kilni_result(out, device, dtype, rank, shape, true, NULL, 0,
			       &result));
	return kilni_settle(out, result, KILN_OK);
}

static enum kiln_status full(struct kiln_tensor **out,
			     struct kiln_device *device, enum kiln_dtype dtype,
			     int rank, const int64_t *shape,
			     struct kiln_scalar value, const char *fn)
{
	struct kilni_ew ew = { .fn = fn, .op = KILNI_OP_FULL, .dtype = dtype,
			       .count = 1 };

	KILNI_TRY(check_new(out, device, dtype, KILNI_CLASSES_A, rank, shape,
			    fn));
	KILNI_TRY(kilni_scalar_bits(fn, value, dtype, &ew.scalar[0]));
	return generate(out, device, rank, shape, &ew);
}

enum kiln_status kiln_zeros(struct kiln_tensor **out,
			    struct kiln_device *device, enum kiln_dtype dtype,
			    int rank, const int64_t *shape)
{
	return full(out, device, dtype, rank, shape, kiln_int(0), __func__);
}

enum kiln_status kiln_ones(struct kiln_tensor **out, struct kiln_device *device,
			   enum kiln_dtype dtype, int rank,
			   const int64_t *shape)
{
	return full(out, device, dtype, rank, shape, kiln_int(1), __func__);
}

enum kiln_status kiln_full(struct kiln_tensor **out, struct kiln_device *device,
			   enum kiln_dtype dtype, int rank,
			   const int64_t *shape, struct kiln_scalar value)
{
	return full(out, device, dtype, rank, shape, value, __func__);
}

/* ---- arange ---- */

/* ceil((end - start) / step), 0 where that is negative; never wraps. */
static uint64_t arange_count(int64_t start, int64_t end, int64_t step)
{
	uint64_t span, stride;

	if (step > 0 ? end <= start : end >= start)
		return 0;
	span = step > 0 ? (uint64_t)end - (uint64_t)start
			: (uint64_t)start - (uint64_t)end;
	stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
	return (span - 1) / stride + 1;
}

enum kiln_status kiln_arange(struct kiln_tensor **out,
			     struct kiln_device *device, enum kiln_dtype dtype,
			     int64_t start, int64_t end, int64_t step)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_ARANGE,
			       .dtype = dtype, .count = 2,
			       .scalar = { (uint64_t)start, (uint64_t)step } };
	uint64_t count, last, ignored;
	int64_t shape;

	if (step == 0)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: step is 0",
				  __func__);
	count = arange_count(start, end, step);
	if (count > INT64_MAX)
		return kilni_fail(KILN_ERR_OVERFLOW, 0,
				  "%s: the range has %llu elements", __func__,
				  (unsigned long long)count);
	shape = (int64_t)count;
	KILNI_TRY(check_new(out, device, dtype, KILNI_CLASSES_N, 1, &shape,
			    __func__));
	if (count && kilni_is_class(dtype, KILNI_CLASSES_I)) {
		last = (uint64_t)start + (count - 1) * (uint64_t)step;
		KILNI_TRY(kilni_scalar_bits(__func__, kiln_int(start), dtype,
					    &ignored));
		KILNI_TRY(kilni_scalar_bits(__func__, kiln_int((int64_t)last),
					    dtype, &ignored));
	}
	return generate(out, device, 1, &shape, &ew);
}

/* ---- random ---- */

static bool is_good(struct kiln_distribution d)
{
	switch (d.kind) {
	case KILN_RANDOM_DEFAULT:
		return true;
	case KILN_RANDOM_UNIFORM:
		return isfinite(d.a) && isfinite(d.b) && d.a < d.b;
	case KILN_RANDOM_NORMAL:
		return isfinite(d.a) && isfinite(d.b) && d.b >= 0;
	case KILN_RANDOM_BERNOULLI:
		return d.a >= 0 && d.a <= 1;
	default:
		return false;
	}
}

static enum kiln_status check_finite(enum kiln_dtype dtype, double value)
{
	uint64_t bits;

	KILNI_TRY(kilni_scalar_bits("kiln_random", kiln_float(value), dtype,
				    &bits));
	if (dtype == KILN_F64 ? isfinite(value)
			      : (bits & 0x7f800000) != 0x7f800000)
		return KILN_OK;
	return kilni_fail(KILN_ERR_INVALID, 0,
			  "kiln_random: %g is not finite in %s", value,
			  kiln_dtype_name(dtype));
}

/* The limits of floats, and what lies between them, must be finite. */
static enum kiln_status check_float_range(enum kiln_dtype dtype,
					  struct kiln_distribution d)
{
	if (d.kind != KILN_RANDOM_UNIFORM ||
	    !kilni_is_class(dtype, KILNI_CLASSES_F))
		return KILN_OK;
	KILNI_TRY(check_finite(dtype, d.a));
	KILNI_TRY(check_finite(dtype, d.b));
	return check_finite(dtype, d.b - d.a);
}

/* Bounds of an integer range must be of the dtype and leave something. */
static enum kiln_status check_integer_range(enum kiln_dtype dtype,
					    struct kiln_distribution *d)
{
	uint64_t ignored;

	if (d->kind != KILN_RANDOM_UNIFORM ||
	    !kilni_is_class(dtype, KILNI_CLASSES_I))
		return KILN_OK;
	d->a = trunc(d->a);
	d->b = trunc(d->b);
	KILNI_TRY(kilni_scalar_bits("kiln_random", kiln_float(d->a), dtype,
				    &ignored));
	if (d->a >= d->b)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_random: no integer lies in %g..%g",
				  d->a, d->b);
	return kilni_scalar_bits("kiln_random", kiln_float(d->b - 1), dtype,
				 &ignored);
}

enum kiln_status kiln_random(struct kiln_tensor **out,
			     struct kiln_device *device, enum kiln_dtype dtype,
			     int rank, const int64_t *shape,
			     struct kiln_distribution distribution)
{
	struct kilni_ew ew = { .fn = __func__, .op = KILNI_OP_RANDOM,
			       .dtype = dtype, .count = 2,
			       .distribution = (uint8_t)distribution.kind };
	unsigned classes = KILNI_CLASSES_N;
	int64_t count;

	if (distribution.kind == KILN_RANDOM_BERNOULLI)
		classes = KILNI_CLASSES_A;
	KILNI_TRY(check_new(out, device, dtype, classes, rank, shape,
			    __func__));
	if (!is_good(distribution))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: kind %d with parameters %g and %g",
				  __func__, (int)distribution.kind,
				  distribution.a, distribution.b);
	KILNI_TRY(check_float_range(dtype, distribution));
	KILNI_TRY(check_integer_range(dtype, &distribution));
	memcpy(&ew.scalar[0], &distribution.a, sizeof(double));
	memcpy(&ew.scalar[1], &distribution.b, sizeof(double));
	KILNI_TRY(kilni_shape_count(__func__, rank, shape,
				    kiln_dtype_size_bytes(dtype), &count));
	kilni_device_random(device,
			    kilni_random_blocks((uint64_t)count, dtype),
			    &ew.seed, &ew.counter);
	return generate(out, device, rank, shape, &ew);
}
