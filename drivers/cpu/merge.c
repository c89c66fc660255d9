/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <stddef.h>

#include <kiln/dtype.h>

#include "kernels/dense.h"
#include "kernels/dtype.h"
#include "kernels/registry.h"

/*
 * Neighbouring elementwise entries over the same count of dense elements run
 * piece by piece, so that a later one finds in the cache what an earlier one
 * has written. Element i of one then only meets element i of another, which
 * keeps every bit; ranges that are shifted against one another do not, and
 * such entries are kept apart.
 */

/* Fewer elements fit the cache as they are. */
#define MERGE_LEAST 8192
/* Elements that go through all entries at a time. */
#define TILE 2048
/* Elements that a helper takes at a time. */
#define UNIT (8 * TILE)

/* Slots that hold operands of an op, a bit each. */
static unsigned operand_slots(const struct kilni_ew_params *ew)
{
	switch (kilni_ops[ew->op].form) {
	case KILNI_FORM_EW1:
	case KILNI_FORM_PRED:
		return 1;
	case KILNI_FORM_EW2:
	case KILNI_FORM_CMP:
		return 3;
	default:
		return kilni_ew_is_source(ew->op) ? 0 : 7;
	}
}

/* Whether two ranges, at least one of them written, forbid merging. */
static bool clash(const struct kilni_range *a, const struct kilni_range *b)
{
	if (!a->written && !b->written)
		return false;
	if (a->end <= b->begin || b->end <= a->begin)
		return false;
	return a->begin != b->begin || a->element_bytes != b->element_bytes;
}

static struct kilni_range range_of(uint64_t address, uint64_t count,
				   unsigned dtype, bool written)
{
	uint32_t bytes = kilni_dtype_bytes[dtype];

	return (struct kilni_range){ address, address + count * bytes, bytes,
				     written };
}

/* The ranges that an entry reads and writes; at most 4. */
static unsigned list_ranges(const struct kilni_ew_params *ew,
			    struct kilni_range *range)
{
	unsigned slots = operand_slots(ew) & ~(unsigned)ew->scalars, n = 1;

	range[0] = range_of(ew->out, ew->count, ew->dtype[0], true);
	for (unsigned j = 0; j < 3; j++)
		if (slots >> j & 1 && ew->in[j])
			range[n++] = range_of(ew->in[j], ew->count,
					      ew->dtype[1 + j], false);
	return n;
}

static bool fits(const struct kilni_merge *merge,
		 const struct kilni_range *range, unsigned ranges)
{
	for (unsigned i = 0; i < merge->ranges; i++)
		for (unsigned j = 0; j < ranges; j++)
			if (clash(&merge->range[i], &range[j]))
				return false;
	return true;
}

/*
 * Results that the ranges take up again stay in the caches, which kernels
 * avoid for large ones.
 */
static void keep_results(struct kilni_merge *merge,
			 const struct kilni_range *range, unsigned ranges)
{
	for (unsigned i = 0; i < merge->entries; i++)
		for (unsigned j = 0; j < ranges; j++)
			if (merge->ew[i]->out == range[j].begin)
				merge->ew[i]->keep = 1;
}

bool kilni_merge_add(struct kilni_merge *merge, struct kilni_entry *entry)
{
	struct kilni_ew_params *ew = &entry->params.ew;
	struct kilni_range *range = &merge->range[merge->ranges];
	unsigned ranges;

	if (entry->kind != KILNI_ENTRY_KERNEL ||
	    entry->kernel != KILNI_KERNEL_EW || !ew->contiguous ||
	    ew->count < MERGE_LEAST || merge->entries == KILNI_MERGE_MOST ||
	    (merge->entries && ew->count != merge->count))
		return false;
	ranges = list_ranges(ew, range);
	if (!fits(merge, range, ranges))
		return false;
	keep_results(merge, range, ranges);
	ew->keep = 0;
	merge->count = ew->count;
	merge->ew[merge->entries++] = ew;
	merge->ranges += ranges;
	return true;
}

struct merge_run {
	const struct kilni_merge *merge;
	const struct kilni_cpu_kernels *kernels;
};

static void run_piece(void *arg, uint64_t i)
{
	const struct merge_run *run = arg;
	const struct kilni_merge *merge = run->merge;
	uint64_t end = kilni_min_u64((i + 1) * UNIT, merge->count);

	for (uint64_t at = i * UNIT; at < end; at += TILE)
		for (unsigned e = 0; e < merge->entries; e++)
			run->kernels->ew(merge->ew[e], at,
					 kilni_min_u64(at + TILE, end));
}

void kilni_merge_run(const struct kilni_merge *merge,
		     const struct kilni_cpu_kernels *kernels,
		     struct kilni_team *team)
{
	struct merge_run run = { merge, kernels };

	team->run(team, run_piece, &run, (merge->count + UNIT - 1) / UNIT);
}
