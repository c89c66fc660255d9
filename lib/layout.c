/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

#include <stdio.h>

enum kiln_status kilni_shape_check(const char *fn, int rank,
				   const int64_t *shape)
{
	if (rank < 1 || rank > KILN_RANK_MAX)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: rank %d is outside 1..%d", fn, rank,
				  KILN_RANK_MAX);
	if (!shape)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: shape is NULL",
				  fn);
	for (int d = 0; d < rank; d++)
		if (shape[d] < 0)
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: size %lld of axis %d is "
					  "negative",
					  fn, (long long)shape[d], d);
	return KILN_OK;
}

enum kiln_status kilni_shape_count(const char *fn, int rank,
				   const int64_t *shape, size_t element_bytes,
				   int64_t *count)
{
	int64_t n = 1, bytes;
	bool overflow = false, empty = false;
	char text[128];

	for (int d = 0; d < rank; d++) {
		empty |= shape[d] == 0;
		overflow |= __builtin_mul_overflow(n, shape[d], &n);
	}
	*count = empty ? 0 : n;
	if (empty)
		return KILN_OK;
	overflow |= __builtin_mul_overflow(n, (int64_t)element_bytes, &bytes);
	if (!overflow)
		return KILN_OK;
	return kilni_fail(KILN_ERR_OVERFLOW, 0,
			  "%s: the bytes of shape %s overflow", fn,
			  kilni_shape_text(text, sizeof(text), rank, shape));
}

void kilni_dense_strides(int rank, const int64_t *shape,
			 int64_t element_bytes, int64_t *stride)
{
	int64_t next = element_bytes;

	for (int d = rank; d-- > 0;) {
		stride[d] = next;
		next *= shape[d] > 0 ? shape[d] : 1;
	}
}

bool kilni_is_dense(int rank, const int64_t *shape, const int64_t *stride,
		    int64_t element_bytes)
{
	int64_t next = element_bytes;

	for (int d = 0; d < rank; d++)
		if (shape[d] == 0)
			return true;
	for (int d = rank; d-- > 0;) {
		if (shape[d] != 1 && stride[d] != next)
			return false;
		next *= shape[d];
	}
	return true;
}

const char *kilni_shape_text(char *buffer, size_t size, int rank,
			     const int64_t *shape)
{
	size_t used = 0;

	for (int d = 0; d < rank && used < size; d++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%lld",
					 d ? ", " : "[",
					 (long long)shape[d]);
	if (used < size)
		snprintf(buffer + used, size - used, "]");
	return buffer;
}

static enum kiln_status refuse_broadcast(const char *fn,
					 const struct kiln_tensor *t, int rank,
					 const int64_t *shape)
{
	char a[96], b[96];

	return kilni_fail(KILN_ERR_SHAPE, 0, "%s: shapes %s and %s do not fit",
			  fn, kilni_shape_text(a, sizeof(a), rank, shape),
			  kilni_shape_text(b, sizeof(b), t->rank, t->shape));
}

static bool stretches(const struct kiln_tensor *t, int rank,
		      const int64_t *shape)
{
	for (int d = 1; d <= t->rank && d <= rank; d++) {
		int64_t own = t->shape[t->rank - d], other = shape[rank - d];

		if (own != other && own != 1 && other != 1)
			return false;
	}
	return true;
}

enum kiln_status kilni_broadcast(const char *fn, const struct kiln_tensor *t,
				 int *rank, int64_t *shape)
{
	int grow = t->rank - *rank;

	if (!stretches(t, *rank, shape))
		return refuse_broadcast(fn, t, *rank, shape);
	if (grow > 0) {
		memmove(shape + grow, shape, (size_t)*rank * sizeof(*shape));
		for (int d = 0; d < grow; d++)
			shape[d] = 1;
		*rank = t->rank;
	}
	for (int d = 0; d < t->rank; d++) {
		int64_t *size = &shape[*rank - t->rank + d];

		if (*size == 1)
			*size = t->shape[d];
	}
	return KILN_OK;
}

void kilni_broadcast_strides(const struct kiln_tensor *t, int rank,
			     const int64_t *shape, int64_t *stride)
{
	int skip = rank - t->rank;
	int64_t size = kilni_size(t);

	for (int d = 0; d < rank; d++) {
		bool stretches = d < skip ||
				 (t->shape[d - skip] == 1 && shape[d] != 1);

		stride[d] = stretches ? 0 : t->stride[d - skip] / size;
	}
}

static bool mergeable(const uint64_t *shape, int outer, int inner, int count,
		      int64_t (*stride)[KILN_RANK_MAX])
{
	for (int j = 0; j < count; j++)
		if (stride[j][outer] !=
		    stride[j][inner] * (int64_t)shape[inner])
			return false;
	return true;
}

static void move_axis(uint64_t *shape, int to, int from, int count,
		      int64_t (*stride)[KILN_RANK_MAX])
{
	shape[to] = shape[from];
	for (int j = 0; j < count; j++)
		stride[j][to] = stride[j][from];
}

int kilni_merge_axes(int rank, uint64_t *shape, int count,
		     int64_t (*stride)[KILN_RANK_MAX])
{
	int kept = 0;

	for (int d = 0; d < rank; d++) {
		if (shape[d] == 1)
			continue;
		if (kept && mergeable(shape, kept - 1, d, count, stride)) {
			uint64_t outer = shape[kept - 1];

			move_axis(shape, kept - 1, d, count, stride);
			shape[kept - 1] *= outer;
			continue;
		}
		move_axis(shape, kept, d, count, stride);
		kept++;
	}
	return kept;
}

void kilni_extent(const struct kiln_tensor *t, uint64_t *address,
		  uint64_t *bytes)
{
	int64_t low = 0, high = kilni_size(t);

	if (t->count == 0) {
		*address = t->address;
		*bytes = 0;
		return;
	}
	for (int d = 0; d < t->rank; d++) {
		int64_t reach = t->stride[d] * (t->shape[d] - 1);

		if (reach < 0)
			low += reach;
		else
			high += reach;
	}
	*address = t->address + (uint64_t)low;
	*bytes = (uint64_t)(high - low);
}

bool kilni_overlaps(const struct kiln_tensor *a, const struct kiln_tensor *b)
{
	uint64_t start_a, bytes_a, start_b, bytes_b;

	kilni_extent(a, &start_a, &bytes_a);
	kilni_extent(b, &start_b, &bytes_b);
	return start_a < start_b + bytes_b && start_b < start_a + bytes_a;
}

/* Axes by rising distance of their elements; those of size 1 left out. */
static int sorted_axes(const struct kiln_tensor *t, int *axes)
{
	int count = 0, at;

	for (int d = 0; d < t->rank; d++) {
		if (t->shape[d] <= 1)
			continue;
		for (at = count++; at > 0; at--) {
			if (llabs(t->stride[axes[at - 1]]) <=
			    llabs(t->stride[d]))
				break;
			axes[at] = axes[at - 1];
		}
		axes[at] = d;
	}
	return count;
}

bool kilni_overlaps_itself(const struct kiln_tensor *t)
{
	int axes[KILN_RANK_MAX], count = sorted_axes(t, axes);
	int64_t extent = kilni_size(t);

	for (int i = 0; i < count; i++) {
		int64_t stride = llabs(t->stride[axes[i]]);

		if (stride < extent)
			return true;
		extent += stride * (t->shape[axes[i]] - 1);
	}
	return false;
}
