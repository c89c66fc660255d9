/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/registry.h"

/*
 * Graphs: what is decided per entry when a queue is led, which entries run
 * merged and how large a team they get, is decided once here.
 */

struct step {
	struct kilni_merge *merge; /* NULL: the one entry by itself */
	const struct short_ew *ew; /* where that is all it takes to run it */
	unsigned first, count;
	uint64_t cost;
	bool draws;                /* random numbers */
};

/*
 * What a small dense elementwise entry needs: a third of the entry, so that
 * a graph of many stays in the caches.
 */
struct short_ew {
	uint64_t params[offsetof(struct kilni_ew_params, shape) / 8];
};

_Static_assert(offsetof(struct kilni_ew_params, shape) % 8 == 0,
	       "the parameters of a dense entry are whole words");

struct kilni_cpu_graph {
	struct kilni_entry *const *entry;
	unsigned entries, steps, shorts;
	struct short_ew *ew;
	struct step step[];
};

/* Merges what follows the entry; false: no memory. */
static bool add_merged(struct kilni_cpu_graph *graph, struct step *step)
{
	struct kilni_merge merge = { .entries = 0 };
	unsigned i = step->first;

	while (i < graph->entries && kilni_merge_add(&merge, graph->entry[i]))
		step->cost += kilni_run_cost(graph->entry[i++]);
	if (merge.entries < 2) {
		step->cost = kilni_run_cost(graph->entry[step->first]);
		return true;
	}
	step->merge = malloc(sizeof(*step->merge));
	if (!step->merge)
		return false;
	*step->merge = merge;
	step->count = merge.entries;
	return true;
}

static bool is_short(const struct kilni_entry *entry, uint64_t cost)
{
	return entry->kernel == KILNI_KERNEL_EW &&
	       entry->params.ew.contiguous && entry->params.ew.count &&
	       entry->op != KILNI_OP_RANDOM && kilni_is_for_one(cost);
}

static void shorten(struct kilni_cpu_graph *graph, struct step *step)
{
	struct kilni_entry *entry = graph->entry[step->first];
	struct short_ew *ew = &graph->ew[graph->shorts];

	step->draws |= entry->op == KILNI_OP_RANDOM;
	if (step->merge || !is_short(entry, step->cost))
		return;
	entry->params.ew.keep = 0;
	memcpy(ew->params, &entry->params.ew, sizeof(ew->params));
	step->ew = ew;
	graph->shorts++;
}

static bool add_steps(struct kilni_cpu_graph *graph)
{
	for (unsigned i = 0; i < graph->entries;) {
		struct step *step = &graph->step[graph->steps++];

		*step = (struct step){ .first = i, .count = 1 };
		if (!add_merged(graph, step))
			return false;
		for (unsigned k = 1; k < step->count; k++)
			step->draws |= graph->entry[i + k]->op ==
				       KILNI_OP_RANDOM;
		shorten(graph, step);
		i += step->count;
	}
	return true;
}

void kilni_cpu_graph_destroy(struct kilni_hw *hw, void *data)
{
	struct kilni_cpu_graph *graph = data;

	(void)hw;
	for (unsigned i = 0; i < graph->steps; i++)
		free(graph->step[i].merge);
	free(graph->ew);
	free(graph);
}

enum kiln_status kilni_cpu_graph_create(struct kilni_hw *hw,
					struct kilni_entry *const *entry,
					unsigned count, void **out)
{
	struct kilni_cpu_graph *graph;

	KILNI_TRY(KILNI_FAULT("graph_create"));
	graph = calloc(1, sizeof(*graph) + count * sizeof(graph->step[0]));
	if (graph) {
		graph->entry = entry;
		graph->entries = count;
		graph->ew = malloc((count + 1) * sizeof(*graph->ew));
		if (graph->ew && add_steps(graph)) {
			*out = graph;
			return KILN_OK;
		}
		kilni_cpu_graph_destroy(hw, graph);
	}
	return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
			  "cpu: no memory for a graph of %u operations", count);
}

/* ---- running ---- */

static enum kiln_status check_step(const struct kilni_cpu_graph *graph,
				   const struct step *step,
				   struct kilni_entry **bad)
{
	*bad = graph->entry[step->first];
	if (!__atomic_load_n(&kilni_fault_armed, __ATOMIC_RELAXED))
		return KILN_OK;
	for (unsigned i = 0; i < step->count; i++) {
		*bad = graph->entry[step->first + i];
		KILNI_TRY(KILNI_FAULT("launch"));
	}
	return KILN_OK;
}

/* Elementwise entries, which are all that is merged, report nothing. */
static enum kiln_status run_step(const struct kilni_cpu_graph *graph,
				 const struct step *step,
				 const struct kilni_entry *run,
				 const struct kilni_cpu_kernels *kernels,
				 struct kilni_team *team,
				 struct kilni_report *report)
{
	struct kilni_entry *entry;

	for (unsigned i = 0; step->draws && i < step->count; i++)
		kilni_graph_patch(run, graph->entry[step->first + i]);
	if (step->merge) {
		kilni_merge_run(step->merge, kernels, team);
		return KILN_OK;
	}
	entry = graph->entry[step->first];
	entry->params.raw[0] = (uintptr_t)report;
	kilni_run_kernel(kernels, entry, team);
	return report->position == UINT64_MAX ? KILN_OK : KILN_ERR_INDEX;
}

static void run_short(const struct short_ew *ew,
		      const struct kilni_cpu_kernels *kernels)
{
	const struct kilni_ew_params *params = (const void *)ew->params;

	kernels->ew(params, 0, params->count);
}

enum kiln_status kilni_cpu_graph_run(const struct kilni_entry *run,
				     const struct kilni_cpu_kernels *kernels,
				     struct kilni_worker *worker,
				     struct kilni_report *report,
				     struct kilni_entry **bad)
{
	const struct kilni_cpu_graph *graph = run->params.graph.graph;
	struct kilni_team *team;

	*report = (struct kilni_report){ .position = UINT64_MAX };
	for (unsigned i = 0; graph && i < graph->steps; i++) {
		const struct step *step = &graph->step[i];

		KILNI_TRY(check_step(graph, step, bad));
		if (step->ew) {
			run_short(step->ew, kernels);
			continue;
		}
		team = kilni_choose_team(worker, step->cost, graph->steps - i);
		KILNI_TRY(run_step(graph, step, run, kernels, team, report));
	}
	return KILN_OK;
}
