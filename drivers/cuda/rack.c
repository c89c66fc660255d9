/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/rack.h"

#include <stdlib.h>

#define LENGTHS KILNI_CUDA_RACK_LENGTHS
/* Graphs of each length, in turn: one may run while the next is set. */
#define TURNS 2

/* The graph stays: its nodes are what an instance is changed by. */
struct instance {
	cu_graph graph;
	cu_graph_exec exec;    /* NULL: not made yet */
	cu_graph_node node[KILNI_CUDA_RACK_MOST];
};

struct kilni_cuda_rack {
	struct kilni_cuda_queue *queue; /* that had it last */
	uint64_t seq;          /* up to where it is in use there */
	bool taken;
	unsigned turn[LENGTHS];
	struct instance instance[LENGTHS][TURNS];
};

/* So many do without graphs when there was no memory for one. */
#define RESTS 64

/* ---- who has which ---- */

bool kilni_cuda_racks_good(const struct kilni_cuda_hw *hw)
{
	return !__atomic_load_n(&hw->racks.refused, __ATOMIC_RELAXED);
}

/* Of queues that were destroyed nobody counts on. */
static bool is_free(const struct kilni_cuda_rack *rack)
{
	return !rack->taken &&
	       (load_counter(rack->queue) >= rack->seq ||
		__atomic_load_n(&rack->queue->dead, __ATOMIC_SEQ_CST));
}

/* Its own one first, then one that has been made. */
static struct kilni_cuda_rack *find(struct kilni_cuda_hw *hw,
				    const struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_rack *found = NULL;

	for (unsigned i = 0; i < hw->racks.count; i++) {
		struct kilni_cuda_rack *rack = hw->racks.rack[i];

		if (rack->queue == queue)
			return rack;
		if (!found && is_free(rack))
			found = rack;
	}
	return found;
}

static struct kilni_cuda_rack *add(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_rack *rack = NULL;

	if (hw->racks.count < KILNI_CUDA_RACKS)
		rack = calloc(1, sizeof(*rack));
	if (rack)
		hw->racks.rack[hw->racks.count++] = rack;
	return rack;
}

/* Of all that have one, in turn. */
static struct kilni_cuda_queue *next_owner(struct kilni_cuda_hw *hw)
{
	return hw->racks.rack[hw->racks.looked_at++ % hw->racks.count]->queue;
}

struct kilni_cuda_rack *kilni_cuda_rack_take(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_hw *hw = hw_of(queue);
	struct kilni_cuda_queue *other = NULL;
	struct kilni_cuda_rack *rack;

	if (!kilni_cuda_racks_good(hw))
		return NULL;
	pthread_mutex_lock(&hw->racks.lock);
	if (hw->racks.rests) {
		hw->racks.rests--;
		pthread_mutex_unlock(&hw->racks.lock);
		return NULL;
	}
	rack = find(hw, queue);
	if (!rack)
		rack = add(hw);
	if (rack) {
		rack->queue = queue;
		rack->taken = true;
	} else if (hw->racks.count) {
		other = next_owner(hw);
	}
	pthread_mutex_unlock(&hw->racks.lock);
	/* May be done long since, where nobody has asked: who comes later sees. */
	if (other)
		(void)kilni_cuda_queue_completed(&other->base);
	return rack;
}

void kilni_cuda_rack_give(struct kilni_cuda_rack *rack, uint64_t seq)
{
	struct kilni_cuda_hw *hw = hw_of(rack->queue);

	pthread_mutex_lock(&hw->racks.lock);
	rack->seq = seq;
	rack->taken = false;
	pthread_mutex_unlock(&hw->racks.lock);
}

/* ---- graphs ---- */

static void drop(struct instance *instance)
{
	if (instance->exec)
		(void)kilni_cuda.graph_exec_destroy(instance->exec);
	if (instance->graph)
		(void)kilni_cuda.graph_destroy(instance->graph);
	instance->exec = NULL;
	instance->graph = NULL;
}

/* Without the context the library is not asked, and keeps its graphs. */
void kilni_cuda_racks_free(struct kilni_cuda_hw *hw, bool entered)
{
	for (unsigned i = 0; i < hw->racks.count; i++) {
		struct kilni_cuda_rack *rack = hw->racks.rack[i];

		for (unsigned j = 0; entered && j < LENGTHS * TURNS; j++)
			drop(&rack->instance[j / TURNS][j % TURNS]);
		free(rack);
	}
	hw->racks.count = 0;
}

static int make(struct instance *instance, const struct kilni_cuda_kept *kept,
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

static int change(struct instance *instance, const struct kilni_cuda_kept *kept,
		  unsigned length)
{
	int result = CU_OK;

	for (unsigned i = 0; i < length && result == CU_OK; i++)
		result = kilni_cuda.graph_set_kernel(instance->exec,
						     instance->node[i],
						     &kept[i].kernel);
	return result;
}

/* Memory may be had again; whatever else is refused stays so. */
static void refuse(struct kilni_cuda_hw *hw, int result)
{
	if (result == CU_OUT_OF_MEMORY) {
		pthread_mutex_lock(&hw->racks.lock);
		hw->racks.rests = RESTS;
		pthread_mutex_unlock(&hw->racks.lock);
		return;
	}
	if (__atomic_exchange_n(&hw->racks.refused, true, __ATOMIC_RELAXED) ||
	    kilni_cuda_is_lost(hw))
		return;
	kilni_log(KILNI_LOG_WARN,
		  "cuda: kernels are launched one by one: a graph of them: %s "
		  "(%d)", kilni_cuda_name(result), result);
}

unsigned kilni_cuda_rack_send(struct kilni_cuda_rack *rack,
			      const struct kilni_cuda_kept *kept,
			      unsigned which)
{
	struct kilni_cuda_hw *hw = hw_of(rack->queue);
	struct instance *instance =
		&rack->instance[which][rack->turn[which]++ % TURNS];
	unsigned length = KILNI_CUDA_RACK_LEAST << which;
	int result = instance->exec ? change(instance, kept, length)
				    : make(instance, kept, length);

	if (result == CU_OK)
		result = kilni_cuda.graph_launch(instance->exec,
						 rack->queue->stream);
	if (kilni_cuda_note(hw, result) == CU_OK)
		return length;
	refuse(hw, result);
	return 0;
}
