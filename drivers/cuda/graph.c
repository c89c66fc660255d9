/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Graphs: a chain of kernel nodes, made of the launches that the entries come
 * to. Nodes are added one by one and not by capturing a stream: so nothing of
 * the program's own captures is touched, no stream is needed, and a node is
 * known by its handle when its parameters change. The library copies the
 * parameters; what they point to are the entries' storages and the reports
 * below, both of which live as long as the graph.
 *
 * What changes from one replay to the next: draws of random numbers, whose
 * nodes are given new parameters before each launch; and reports. Those lie in
 * memory of the device. The first node sets them back, and behind each replay
 * they are copied into a place of its own in pinned memory, so that a replay
 * which retires late is not taken for the next one.
 */

/* Replays in flight whose reports can be told apart. */
#define PLACES 8

/* An entry that draws: its node has new parameters in each replay. */
struct draw {
	unsigned entry;
	cu_graph_node node;
};

struct kilni_cuda_graph {
	struct kilni_cuda_hw *hw;
	struct kilni_entry *const *entry;
	unsigned entries;
	cu_graph graph;
	cu_graph_exec exec;    /* NULL: not made yet, or nothing to launch */
	cu_graph_node last;    /* the one that was added or is changed */
	struct draw *draw;
	unsigned draws;
	unsigned reports;      /* entries that may find something */
	cu_address report;     /* those of the replay that runs */
	struct kilni_cuda_report *found; /* PLACES times as many, pinned */
	uint64_t taken, freed; /* places; freed is atomic */
};

/* ---- nodes ---- */

int kilni_cuda_chain(cu_graph graph, cu_graph_node *last,
		     const struct cu_kernel *kernel)
{
	cu_graph_node node = NULL;
	int result = kilni_cuda.graph_add_kernel(&node, graph,
						 *last ? last : NULL,
						 *last != NULL, kernel);

	if (result == CU_OK)
		*last = node;
	return result;
}

enum kiln_status kilni_cuda_graph_put(struct kilni_cuda_graph *graph,
				      const struct cu_kernel *kernel)
{
	if (!graph->exec)
		return kilni_cuda_check(graph->hw,
					kilni_cuda_chain(graph->graph,
							 &graph->last, kernel),
					"cuGraphAddKernelNode");
	return kilni_cuda_check(
		graph->hw,
		kilni_cuda.graph_set_kernel(graph->exec, graph->last, kernel),
		"cuGraphExecKernelNodeSetParams");
}

/* ---- making ---- */

static uint64_t report_bytes(const struct kilni_cuda_graph *graph)
{
	return graph->reports * sizeof(struct kilni_cuda_report);
}

static bool draws(const struct kilni_entry *entry)
{
	return entry->kernel == KILNI_KERNEL_EW &&
	       entry->op == KILNI_OP_RANDOM;
}

static void count(struct kilni_cuda_graph *graph)
{
	for (unsigned i = 0; i < graph->entries; i++) {
		graph->draws += draws(graph->entry[i]);
		graph->reports += kilni_cuda_reports(graph->entry[i]);
	}
}

static enum kiln_status get_reports(struct kilni_cuda_graph *graph)
{
	struct kilni_cuda_hw *hw = graph->hw;
	void *pinned = NULL;

	KILNI_TRY(kilni_cuda_check(hw,
				   kilni_cuda.alloc(&graph->report,
						    report_bytes(graph)),
				   "a graph's reports"));
	KILNI_TRY(kilni_cuda_check(
		hw,
		kilni_cuda.host_alloc(&pinned, PLACES * report_bytes(graph),
				      CU_HOST_PORTABLE),
		"a graph's reports"));
	graph->found = pinned;
	return KILN_OK;
}

/* All of them say: nothing was found. */
static enum kiln_status add_reset(const struct kilni_cuda_target *to)
{
	struct kilni_entry *entry = calloc(1, sizeof(*entry));
	struct kilni_ew_params *ew;
	enum kiln_status status;

	if (!entry)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for a graph");
	ew = &entry->params.ew;
	entry->kernel = KILNI_KERNEL_EW;
	entry->op = KILNI_OP_FULL;
	ew->op = KILNI_OP_FULL;
	ew->contiguous = 1;
	ew->count = report_bytes(to->graph) / 8;
	ew->out = to->graph->report;
	ew->scalars = 1;
	ew->scalar[0] = UINT64_MAX;
	memset(ew->dtype, KILN_U64, sizeof(ew->dtype));
	status = kilni_cuda_launch(to, entry);
	free(entry);
	return status;
}

/*
 * An entry of a graph ends with what is set of its parameters; of a kernel's
 * the library reads all.
 */
static void copy_whole(struct kilni_entry *to, const struct kilni_entry *from)
{
	memset(&to->params, 0, sizeof(to->params));
	memcpy(to, from,
	       offsetof(struct kilni_entry, params) + from->params_bytes);
}

static enum kiln_status add_entries(const struct kilni_cuda_target *to)
{
	struct kilni_cuda_graph *graph = to->graph;
	cu_address report = graph->report;
	struct kilni_entry entry;

	graph->draws = 0;
	for (unsigned i = 0; i < graph->entries; i++) {
		cu_graph_node before = graph->last;

		copy_whole(&entry, graph->entry[i]);
		entry.params.raw[0] = 0;
		if (kilni_cuda_reports(&entry)) {
			entry.params.raw[0] = report;
			report += sizeof(struct kilni_cuda_report);
		}
		KILNI_TRY(kilni_cuda_launch(to, &entry));
		if (draws(&entry) && graph->last != before)
			graph->draw[graph->draws++] =
				(struct draw){ i, graph->last };
	}
	return KILN_OK;
}

static enum kiln_status build(struct kilni_cuda_graph *graph)
{
	struct kilni_cuda_target to = { .hw = graph->hw, .graph = graph };

	KILNI_TRY(kilni_cuda_check(graph->hw,
				   kilni_cuda.graph_create(&graph->graph, 0),
				   "cuGraphCreate"));
	if (graph->reports) {
		KILNI_TRY(get_reports(graph));
		KILNI_TRY(add_reset(&to));
	}
	KILNI_TRY(add_entries(&to));
	if (!graph->last)
		return KILN_OK;
	return kilni_cuda_check(graph->hw,
				kilni_cuda.graph_instantiate(&graph->exec,
							     graph->graph,
							     NULL, NULL, 0),
				"cuGraphInstantiate");
}

static void free_parts(struct kilni_cuda_graph *graph)
{
	if (graph->exec)
		(void)kilni_cuda.graph_exec_destroy(graph->exec);
	if (graph->graph)
		(void)kilni_cuda.graph_destroy(graph->graph);
	if (graph->report)
		(void)kilni_cuda.free(graph->report);
	if (graph->found)
		(void)kilni_cuda.host_free(graph->found);
}

/* A context that is broken takes no call any more. */
void kilni_cuda_graph_destroy(struct kilni_hw *hw, void *data)
{
	struct kilni_cuda_graph *graph = data;
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_cuda_enter(kilni_cuda_hw(hw)) == KILN_OK) {
		free_parts(graph);
		kilni_cuda_leave();
	}
	kilni_error_restore(&before);
	free(graph->draw);
	free(graph);
}

static struct kilni_cuda_graph *new_graph(struct kilni_cuda_hw *hw,
					  struct kilni_entry *const *entry,
					  unsigned entries)
{
	struct kilni_cuda_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->hw = hw;
	graph->entry = entry;
	graph->entries = entries;
	count(graph);
	graph->draw = calloc(graph->draws + 1, sizeof(*graph->draw));
	if (graph->draw)
		return graph;
	free(graph);
	return NULL;
}

enum kiln_status kilni_cuda_graph_create(struct kilni_hw *base,
					 struct kilni_entry *const *entry,
					 unsigned entries, void **out)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct kilni_cuda_graph *graph;
	enum kiln_status status;

	if (!kilni_cuda_has_graphs())
		return KILN_ERR_UNSUPPORTED;
	KILNI_TRY(KILNI_FAULT("graph_create"));
	graph = new_graph(hw, entry, entries);
	if (!graph)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for a graph of %u "
				  "operations", entries);
	status = kilni_cuda_enter(hw);
	if (status == KILN_OK) {
		status = build(graph);
		kilni_cuda_leave();
	}
	if (status != KILN_OK)
		kilni_cuda_graph_destroy(base, graph);
	else
		*out = graph;
	return status;
}

/* ---- running ---- */

bool kilni_cuda_graph_reports(const struct kilni_cuda_graph *graph)
{
	return graph->reports;
}

bool kilni_cuda_graph_is_full(const struct kilni_cuda_graph *graph)
{
	return graph->reports &&
	       graph->taken - __atomic_load_n(&graph->freed,
					      __ATOMIC_ACQUIRE) == PLACES;
}

static struct kilni_cuda_report *place_at(const struct kilni_cuda_graph *graph,
					  uint64_t number)
{
	return graph->found + number % PLACES * graph->reports;
}

/*
 * What a launch fails at is noted in the entry that asked for it: others may
 * follow before it is retired. 0: nothing, or nobody knows.
 */
static void note_step(struct kilni_entry *run, unsigned entry)
{
	run->params.graph.failed = (uint64_t)entry + 1;
}

static enum kiln_status check_entries(const struct kilni_cuda_graph *graph,
				      struct kilni_entry *run)
{
	if (KILNI_LIKELY(!__atomic_load_n(&kilni_fault_armed,
					  __ATOMIC_RELAXED)))
		return KILN_OK;
	for (unsigned i = 0; i < graph->entries; i++) {
		note_step(run, i);
		KILNI_TRY(KILNI_FAULT("launch"));
	}
	return KILN_OK;
}

/* The entries stay as they are, for whoever retires an earlier replay. */
static enum kiln_status set_draw(struct kilni_cuda_graph *graph,
				 const struct draw *draw,
				 struct kilni_entry *run)
{
	struct kilni_cuda_target to = { .hw = graph->hw, .graph = graph };
	struct kilni_entry copy;

	copy_whole(&copy, graph->entry[draw->entry]);
	kilni_graph_patch(run, &copy);
	graph->last = draw->node;
	note_step(run, draw->entry);
	return kilni_cuda_launch(&to, &copy);
}

enum kiln_status kilni_cuda_graph_launch(struct kilni_cuda_graph *graph,
					 cu_stream stream,
					 struct kilni_entry *run)
{
	struct kilni_cuda_hw *hw = graph->hw;

	run->params.graph.failed = 0;
	KILNI_TRY(check_entries(graph, run));
	run->params.graph.failed = 0;
	KILNI_TRY(kilni_cuda_alive(hw));
	for (unsigned i = 0; i < graph->draws; i++)
		KILNI_TRY(set_draw(graph, &graph->draw[i], run));
	run->params.graph.failed = 0;
	if (!graph->exec)
		return KILN_OK;
	KILNI_TRY(kilni_cuda_check(
		hw, kilni_cuda.graph_launch(graph->exec, stream),
		"cuGraphLaunch"));
	if (!graph->reports)
		return KILN_OK;
	KILNI_TRY(kilni_cuda_check(
		hw,
		kilni_cuda.copy_out(place_at(graph, graph->taken),
				    graph->report, report_bytes(graph),
				    stream),
		"cuMemcpyDtoHAsync"));
	graph->taken++;
	return KILN_OK;
}

/* ---- blame ---- */

const struct kilni_entry *
kilni_cuda_graph_blamed(const struct kilni_entry *run)
{
	const struct kilni_cuda_graph *graph = run->params.graph.graph;

	return run->params.graph.failed
		       ? graph->entry[run->params.graph.failed - 1]
		       : run;
}

/* The entry whose report has that number. */
static const struct kilni_entry *
reporter(const struct kilni_cuda_graph *graph, unsigned number)
{
	unsigned i = 0;

	for (;; i++) {
		if (!kilni_cuda_reports(graph->entry[i]))
			continue;
		if (!number--)
			return graph->entry[i];
	}
}

const struct kilni_entry *
kilni_cuda_graph_found(struct kilni_cuda_graph *graph, bool lost,
		       struct kilni_cuda_report *report)
{
	const struct kilni_entry *entry = NULL;

	if (!graph->reports)
		return NULL;
	for (unsigned i = 0; i < graph->reports && !entry && !lost; i++) {
		*report = place_at(graph, graph->freed)[i];
		if (report->position != UINT64_MAX)
			entry = reporter(graph, i);
	}
	__atomic_store_n(&graph->freed, graph->freed + 1, __ATOMIC_RELEASE);
	return entry;
}
