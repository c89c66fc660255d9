/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/reduce.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/registry.h"

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t magnitude(int64_t stride)
{
	return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

/* The view's axes, those of size 1 left out, in their order. */
static void split_axes(const struct kilni_reduce_params *p,
		       struct kilni_reduce_plan *plan)
{
	struct kilni_reduce_axis axis;
	unsigned i;

	plan->outputs = 1;
	plan->length = 1;
	for (i = 0; i < p->rank; i++) {
		axis.size = p->shape[i];
		axis.stride = p->stride[i];
		if (p->axes >> i & 1)
			plan->length *= axis.size;
		else
			plan->outputs *= axis.size;
		if (axis.size == 1)
			continue;
		if (p->axes >> i & 1)
			plan->reduced[plan->reduced_rank++] = axis;
		else
			plan->kept[plan->kept_rank++] = axis;
	}
}

/*
 * Where the order of elements has no meaning, the reduced axes are walked
 * forwards in the order of memory: fewer jumps, and more of them merge.
 */
static void order_reduced(struct kilni_reduce_plan *plan)
{
	struct kilni_reduce_axis *a = plan->reduced, axis;
	unsigned i, j;

	for (i = 0; i < plan->reduced_rank; i++) {
		axis = a[i];
		if (axis.stride < 0) {
			plan->base += (int64_t)(axis.size - 1) * axis.stride;
			axis.stride = -axis.stride;
		}
		for (j = i; j > 0 && magnitude(a[j - 1].stride) <
		     magnitude(axis.stride); j--)
			a[j] = a[j - 1];
		a[j] = axis;
	}
}

/* Joins neighbours that step through memory as one axis; returns the rank. */
static unsigned merge_axes(struct kilni_reduce_axis *a, unsigned rank)
{
	unsigned i, n = 0;

	for (i = 0; i < rank; i++) {
		if (n > 0 && a[n - 1].stride ==
		    a[i].stride * (int64_t)a[i].size) {
			a[n - 1].size *= a[i].size;
			a[n - 1].stride = a[i].stride;
		} else {
			a[n++] = a[i];
		}
	}
	return n;
}

static void take_inner(struct kilni_reduce_plan *plan)
{
	if (plan->kept_rank > 0) {
		plan->inner = plan->kept[--plan->kept_rank];
	} else {
		plan->inner.size = 1;
		plan->inner.stride = 0;
	}
}

static void choose_form(struct kilni_reduce_plan *plan)
{
	plan->direct = plan->reduced_rank == 0 ||
		       (plan->reduced_rank == 1 &&
			plan->reduced[0].stride == 1);
	plan->columns = plan->inner.size > 1 && plan->inner.stride == 1 &&
			!(plan->direct && plan->reduced_rank == 1);
	if (plan->columns) {
		plan->block = KILNI_REDUCE_COLUMN_BLOCK;
		plan->width = KILNI_REDUCE_WIDTH;
	} else {
		plan->block = KILNI_REDUCE_ROW_BLOCK;
		plan->width = plan->block / max_u64(plan->length, 1);
	}
	plan->width = min_u64(plan->width, KILNI_REDUCE_WIDTH);
	plan->width = max_u64(min_u64(plan->width, plan->inner.size), 1);
}

static void cut(struct kilni_reduce_plan *plan)
{
	uint64_t per_tile = plan->length * plan->width;
	uint64_t parts;

	plan->inner_tiles = div_up(plan->inner.size, plan->width);
	plan->tiles = plan->outputs / plan->inner.size * plan->inner_tiles;
	plan->group = max_u64(KILNI_REDUCE_TASK / max_u64(per_tile, 1), 1);
	parts = min_u64(per_tile / KILNI_REDUCE_TASK,
			KILNI_REDUCE_TASKS / plan->tiles);
	plan->chunk = div_up(plan->length, max_u64(parts, 1));
	plan->chunk = max_u64(div_up(plan->chunk, plan->block), 1) *
		      plan->block;
	plan->chunks = max_u64(div_up(plan->length, plan->chunk), 1);
}

void kilni_reduce_plan(const struct kilni_reduce_params *p,
		       struct kilni_reduce_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	split_axes(p, plan);
	if (plan->outputs == 0)
		return;
	plan->indexed = p->op == KILNI_OP_ARGMAX ||
			p->op == KILNI_OP_ARGMIN || p->index != 0;
	if (plan->length == 0)
		plan->reduced_rank = 0;
	if (!plan->indexed)
		order_reduced(plan);
	plan->reduced_rank = merge_axes(plan->reduced, plan->reduced_rank);
	plan->kept_rank = merge_axes(plan->kept, plan->kept_rank);
	take_inner(plan);
	choose_form(plan);
	cut(plan);
}

static uint64_t partials_bytes(const struct kilni_reduce_params *p)
{
	struct kilni_reduce_plan plan;
	uint64_t slots;

	kilni_reduce_plan(p, &plan);
	if (plan.outputs == 0 || plan.chunks <= 1)
		return 0;
	slots = plan.tiles * plan.chunks * plan.width;
	return slots * (plan.indexed ? 16 : 8);
}

uint64_t kilni_cpu_reduce_workspace(const struct kilni_reduce_params *p)
{
	struct kilni_reduce_params q = *p;
	uint64_t plain, indexed;

	if (p->op != KILNI_OP_MAX && p->op != KILNI_OP_MIN)
		return partials_bytes(p);
	/* Whether an index is wanted may not be known yet. */
	q.index = 0;
	plain = partials_bytes(&q);
	q.index = 1;
	indexed = partials_bytes(&q);
	return max_u64(plain, indexed);
}
