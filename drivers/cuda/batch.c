/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/queue.h"

#include <stdlib.h>
#include <string.h>

/*
 * Launches that go to the library in one call. What a drain brings is kept
 * here, and goes as a graph: a chain of kernel nodes whose functions, sizes and
 * parameters are set anew each time, which costs the host an eighth of a launch
 * for each kernel. Graphs are made once for each of a few lengths; what is left
 * over goes launch by launch.
 *
 * Nothing is kept over the end of a drain, a mark or an entry that is no
 * kernel. Where the library refuses anything of this, the same kernels are
 * launched one by one: so an error is that of the entry that it belongs to.
 */

/* Lengths of the graphs: each twice the one before. */
#define LEAST 4u
#define LENGTHS 4u
#define MOST (LEAST << (LENGTHS - 1))
/* Graphs of each length, in turn: one may run while the next is set. */
#define TURNS 2

struct kept {
	struct kilni_entry *entry;
	struct cu_kernel kernel;
	void *argument;
	uint64_t params[KILNI_PARAMS_BYTES / 8];
};

/* The graph stays: its nodes are what an instance is changed by. */
struct instance {
	cu_graph graph;
	cu_graph_exec exec;    /* NULL: not made yet */
	cu_graph_node node[MOST];
};

struct kilni_cuda_batch {
	struct kilni_cuda_queue *queue;
	struct kilni_entry *entry; /* whose kernels come now */
	unsigned count;
	bool refused;          /* by the library: one by one from now on */
	unsigned turn[LENGTHS];
	struct instance instance[LENGTHS][TURNS];
	struct kept kept[MOST];
};

/* ---- life ---- */

struct kilni_cuda_batch *kilni_cuda_batch_create(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->queue = queue;
	batch->refused = !kilni_cuda_has_graphs();
	return batch;
}

static void drop(struct instance *instance)
{
	if (instance->exec)
		(void)kilni_cuda.graph_exec_destroy(instance->exec);
	if (instance->graph)
		(void)kilni_cuda.graph_destroy(instance->graph);
	instance->exec = NULL;
	instance->graph = NULL;
}

void kilni_cuda_batch_free(struct kilni_cuda_batch *batch)
{
	if (!batch)
		return;
	for (unsigned i = 0; i < LENGTHS; i++)
		for (unsigned j = 0; j < TURNS; j++)
			drop(&batch->instance[i][j]);
	free(batch);
}

/* ---- together ---- */

static int make(struct instance *instance, const struct kept *kept,
		unsigned length)
{
	int result = kilni_cuda.graph_create(&instance->graph, 0);
	cu_graph_node last = NULL;

	for (unsigned i = 0; i < length && result == CU_OK; i++) {
		result = kilni_cuda_chain(instance->graph, &last,
					  &kept[i].kernel);
		instance->node[i] = last;
	}
	if (result == CU_OK)
		result = kilni_cuda.graph_instantiate(
			&instance->exec, instance->graph, NULL, NULL, 0);
	if (result != CU_OK)
		drop(instance);
	return result;
}

static int change(struct instance *instance, const struct kept *kept,
		  unsigned length)
{
	int result = CU_OK;

	for (unsigned i = 0; i < length && result == CU_OK; i++)
		result = kilni_cuda.graph_set_kernel(instance->exec,
						     instance->node[i],
						     &kept[i].kernel);
	return result;
}

/* Nothing of it is on the stream where it fails. */
static int send_graph(struct kilni_cuda_batch *batch, const struct kept *kept,
		      unsigned which)
{
	struct instance *instance =
		&batch->instance[which][batch->turn[which]++ % TURNS];
	int result = instance->exec ? change(instance, kept, LEAST << which)
				    : make(instance, kept, LEAST << which);

	if (result == CU_OK)
		result = kilni_cuda.graph_launch(instance->exec,
						 batch->queue->stream);
	return kilni_cuda_note(hw_of(batch->queue), result);
}

static void refuse(struct kilni_cuda_batch *batch, int result)
{
	batch->refused = true;
	if (kilni_cuda_is_lost(hw_of(batch->queue)))
		return;
	kilni_log(KILNI_LOG_WARN,
		  "cuda: kernels are launched one by one: a graph of them: %s "
		  "(%d)", kilni_cuda_name(result), result);
}

/* ---- one by one ---- */

/* The rest of an entry that has failed is left out. */
static void send_one(struct kilni_cuda_batch *batch, const struct kept *kept)
{
	struct kilni_cuda_queue *queue = batch->queue;
	const struct kilni_cuda_target to = { .hw = hw_of(queue),
					      .stream = queue->stream };
	struct cu_kernel kernel = kept->kernel;
	enum kiln_status status = kilni_cuda_alive(to.hw);

	if (KILNI_CUDA_NOTE(kept->entry))
		return;
	if (status == KILN_OK)
		status = kilni_cuda_start(&to, &kernel, 0);
	kilni_cuda_note_failure(queue, kept->entry, status);
}

/* Sends the first ones; how many. */
static unsigned send_some(struct kilni_cuda_batch *batch,
			  const struct kept *kept, unsigned count)
{
	unsigned which = LENGTHS;
	int result;

	while (which && count < LEAST << (which - 1))
		which--;
	if (which && !batch->refused &&
	    !kilni_cuda_is_lost(hw_of(batch->queue))) {
		result = send_graph(batch, kept, which - 1);
		if (result == CU_OK)
			return LEAST << (which - 1);
		refuse(batch, result);
	}
	send_one(batch, kept);
	return 1;
}

/* ---- what comes ---- */

bool kilni_cuda_batch_takes(const struct kilni_cuda_batch *batch,
			    uint64_t entries)
{
	return batch->count || (entries >= LEAST && !batch->refused);
}

void kilni_cuda_batch_begin(struct kilni_cuda_batch *batch,
			    struct kilni_entry *entry)
{
	batch->entry = entry;
}

void kilni_cuda_batch_put(struct kilni_cuda_batch *batch,
			  const struct cu_kernel *kernel, size_t params_bytes)
{
	struct kept *kept = &batch->kept[batch->count++];

	memcpy(kept->params, kernel->params[0], params_bytes);
	kept->entry = batch->entry;
	kept->kernel = *kernel;
	kept->argument = kept->params;
	kept->kernel.params = &kept->argument;
	if (batch->count == MOST)
		kilni_cuda_batch_flush(batch);
}

void kilni_cuda_batch_flush(struct kilni_cuda_batch *batch)
{
	unsigned sent = 0;

	if (!batch)
		return;
	while (sent < batch->count)
		sent += send_some(batch, &batch->kept[sent],
				  batch->count - sent);
	batch->count = 0;
}
