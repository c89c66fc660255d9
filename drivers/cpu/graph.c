/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/registry.h"

/*
 * Graphs: what is decided per entry when a queue is led, which entries run
 * merged and how large a team they get, is decided once here.
 */

struct step {
	struct kilni_merge *merge; /* NULL: the one entry by itself */
	unsigned first, count;
	uint64_t cost;
};

struct kilni_cpu_graph {
	struct kilni_entry *const *entry;
	unsigned entries, steps;
	uint64_t cost;
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

static bool add_steps(struct kilni_cpu_graph *graph)
{
	for (unsigned i = 0; i < graph->entries;) {
		struct step *step = &graph->step[graph->steps++];

		*step = (struct step){ .first = i, .count = 1 };
		if (!add_merged(graph, step))
			return false;
		graph->cost += step->cost;
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
		if (add_steps(graph)) {
			*out = graph;
			return KILN_OK;
		}
		kilni_cpu_graph_destroy(hw, graph);
	}
	return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
			  "cpu: no memory for a graph of %u operations", count);
}

uint64_t kilni_cpu_graph_cost(const struct kilni_cpu_graph *graph)
{
	return graph->cost;
}

/* ---- running ---- */

static enum kiln_status check_step(const struct kilni_cpu_graph *graph,
				   const struct step *step,
				   struct kilni_entry **bad)
{
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

	for (unsigned i = 0; i < step->count; i++)
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

enum kiln_status kilni_cpu_graph_run(const struct kilni_entry *run,
				     const struct kilni_cpu_kernels *kernels,
				     struct kilni_worker *worker,
				     struct kilni_report *report,
				     struct kilni_entry **bad)
{
	const struct kilni_cpu_graph *graph = run->params.graph.graph;
	struct kilni_team *team = &kilni_team_alone;

	*report = (struct kilni_report){ .position = UINT64_MAX };
	for (unsigned i = 0; graph && i < graph->steps; i++) {
		const struct step *step = &graph->step[i];

		*bad = graph->entry[step->first];
		KILNI_TRY(check_step(graph, step, bad));
		if (worker)
			team = kilni_choose_team(worker, step->cost,
						 graph->steps - i);
		KILNI_TRY(run_step(graph, step, run, kernels, team, report));
	}
	return KILN_OK;
}
