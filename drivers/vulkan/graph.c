/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"

/*
 * Graphs: entries recorded once, with their parameters, into command buffers
 * that any number of submissions may have at a time. What differs between
 * replays is in turns: host-visible memory with the numbers that a replay
 * draws from and what its kernels reported. Commands ahead of the kernels copy
 * the former to where they are read, commands behind them fetch the latter. A
 * replay has a turn until it is completed; a graph that needs none is replayed
 * without limit.
 */

#define TURNS 8
/* Kernels of a command buffer; more where there would be too many of those. */
#define PIECE_ENTRIES 256
#define PIECES_MOST 16
/* Parameters in one piece of memory. */
#define BLOCK_BYTES (8 * KILNI_VK_PARAMS_BYTES)
#define DRAW_BYTES 16

_Static_assert(PIECES_MOST + 3 <= KILNI_VK_REPLAY_MOST,
	       "pieces, head, tail and what the batch had open");
_Static_assert(offsetof(struct kilni_ew_params, counter) ==
		       offsetof(struct kilni_ew_params, seed) + 8,
	       "a replay writes both at once");

/* An entry that draws: where its seed and counter are read, and its place. */
struct draw {
	VkBuffer buffer;
	uint64_t offset, place;
};

struct graph {
	struct graph *next;
	struct kilni_entry *const *entry;
	unsigned entries, pieces, reports, draws;
	unsigned *reporter;        /* the entry of each report */
	struct draw *draw;
	struct kilni_vk_block *params;
	struct kilni_vk_block live; /* reports that kernels write */
	struct kilni_vk_block turns;
	VkCommandPool pool;
	VkCommandBuffer piece[PIECES_MOST];
	VkCommandBuffer head[TURNS], tail[TURNS];
	uint32_t taken;            /* atomic: a bit for each turn */
};

/* What records stands where a batch of a queue does. */
struct recorder {
	struct kilni_vk_hw *hw;
	struct graph *graph;
	struct kilni_vk_queue queue;
	struct kilni_vk_batch batch;
	struct kilni_vk_block *block;
	uint64_t block_used;
};

static uint64_t turn_bytes(const struct graph *graph)
{
	return (uint64_t)graph->draws * DRAW_BYTES +
	       (uint64_t)graph->reports * KILNI_VK_REPORT_BYTES;
}

static char *turn_draws(const struct graph *graph, unsigned turn)
{
	return graph->turns.map + turn * turn_bytes(graph);
}

static const char *turn_reports(const struct graph *graph, unsigned turn)
{
	return turn_draws(graph, turn) + graph->draws * DRAW_BYTES;
}

/* ---- commands ---- */

static enum kiln_status begin(struct kilni_vk_hw *hw, VkCommandBuffer commands)
{
	VkCommandBufferBeginInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};

	return KILNI_VK(hw, BeginCommandBuffer, commands, &info);
}

static void barrier(struct kilni_vk_hw *hw, VkCommandBuffer commands,
		    VkPipelineStageFlags from, VkAccessFlags from_access,
		    VkPipelineStageFlags to, VkAccessFlags to_access)
{
	VkMemoryBarrier memory = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = from_access,
		.dstAccessMask = to_access,
	};

	hw->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0,
				  NULL);
}

#define COMPUTE VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
#define COPIES VK_PIPELINE_STAGE_TRANSFER_BIT
#define HOST VK_PIPELINE_STAGE_HOST_BIT
#define KERNELS_READ_WRITE                                                     \
	(VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT)
#define COPIES_READ_WRITE                                                      \
	(VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)

/* Seeds and counters of a turn to where kernels read them. */
static enum kiln_status record_head(struct kilni_vk_hw *hw,
				    struct graph *graph, unsigned turn)
{
	VkCommandBuffer commands = graph->head[turn];
	VkBufferCopy region = { .size = DRAW_BYTES,
				.srcOffset = turn * turn_bytes(graph) };

	KILNI_TRY(begin(hw, commands));
	/* Behind the kernels of the replay before. */
	barrier(hw, commands, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT, COPIES,
		COPIES_READ_WRITE);
	for (unsigned i = 0; i < graph->draws; i++) {
		region.dstOffset = graph->draw[i].offset;
		hw->vk.CmdCopyBuffer(commands, graph->turns.buffer,
				     graph->draw[i].buffer, 1, &region);
		region.srcOffset += DRAW_BYTES;
	}
	barrier(hw, commands, COPIES, VK_ACCESS_TRANSFER_WRITE_BIT, COMPUTE,
		KERNELS_READ_WRITE);
	return KILNI_VK(hw, EndCommandBuffer, commands);
}

/* Reports to their turn; they are blank again for the next replay. */
static enum kiln_status record_tail(struct kilni_vk_hw *hw,
				    struct graph *graph, unsigned turn)
{
	VkCommandBuffer commands = graph->tail[turn];
	VkBufferCopy region = {
		.dstOffset = turn * turn_bytes(graph) +
			     graph->draws * DRAW_BYTES,
		.size = graph->reports * KILNI_VK_REPORT_BYTES,
	};

	KILNI_TRY(begin(hw, commands));
	barrier(hw, commands, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT, COPIES,
		COPIES_READ_WRITE);
	hw->vk.CmdCopyBuffer(commands, graph->live.buffer, graph->turns.buffer,
			     1, &region);
	barrier(hw, commands, COPIES, VK_ACCESS_TRANSFER_WRITE_BIT,
		COPIES | HOST, COPIES_READ_WRITE | VK_ACCESS_HOST_READ_BIT);
	hw->vk.CmdFillBuffer(commands, graph->live.buffer, 0, region.size,
			     UINT32_MAX);
	barrier(hw, commands, COPIES, VK_ACCESS_TRANSFER_WRITE_BIT, COMPUTE,
		KERNELS_READ_WRITE);
	return KILNI_VK(hw, EndCommandBuffer, commands);
}

/* ---- recording the kernels ---- */

static enum kiln_status add_block(struct recorder *r)
{
	struct kilni_vk_block *block = calloc(1, sizeof(*block));
	uint64_t bytes = r->graph->entries > 64 ? BLOCK_BYTES
						: KILNI_VK_PARAMS_BYTES;
	enum kiln_status status;

	if (!block)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a graph");
	status = kilni_vk_block_create(r->hw, KILNI_VK_PARAMS, bytes, block);
	if (status != KILN_OK) {
		free(block);
		return status;
	}
	block->next = r->graph->params;
	r->graph->params = r->block = block;
	r->block_used = 0;
	return KILN_OK;
}

/* The next window of parameters; memory for more where one is used up. */
static enum kiln_status next_window(struct recorder *r)
{
	if (!r->block || r->block_used == r->block->bytes)
		KILNI_TRY(add_block(r));
	r->batch.params = r->block->map + r->block_used;
	r->batch.params_address = r->block->address + r->block_used;
	r->batch.params_used = 0;
	r->block_used += KILNI_VK_PARAMS_BYTES;
	return KILN_OK;
}

static bool draws(const struct kilni_entry *entry)
{
	return entry->kernel == KILNI_KERNEL_EW &&
	       entry->op == KILNI_OP_RANDOM;
}

static void note_draw(struct recorder *r, const struct kilni_entry *entry,
		      uint32_t used)
{
	/* Of an empty tensor nothing is recorded. */
	if (!draws(entry) || r->batch.params_used == used)
		return;
	r->graph->draw[r->graph->draws++] = (struct draw){
		.buffer = r->block->buffer,
		.offset = (uint64_t)(r->batch.params - r->block->map) + used +
			  offsetof(struct kilni_ew_params, seed),
		.place = entry->params.ew.in[0],
	};
}

static enum kiln_status record_entry(struct recorder *r, unsigned i)
{
	const struct kilni_entry *entry = r->graph->entry[i];
	unsigned reports = r->batch.report_count;
	uint32_t used;

	if (!kilni_vk_has_room(&r->batch))
		KILNI_TRY(next_window(r));
	used = r->batch.params_used;
	KILNI_TRY(kilni_vk_record(&r->batch, entry));
	note_draw(r, entry, used);
	for (; reports < r->batch.report_count; reports++)
		r->graph->reporter[reports] = i;
	return KILN_OK;
}

static enum kiln_status record_piece(struct recorder *r, unsigned piece,
				     unsigned first, unsigned end)
{
	struct kilni_vk_hw *hw = r->hw;
	VkCommandBuffer commands = r->graph->piece[piece];

	KILNI_TRY(begin(hw, commands));
	r->batch.commands = commands;
	r->batch.bound = VK_NULL_HANDLE;
	for (unsigned i = first; i < end; i++)
		KILNI_TRY(record_entry(r, i));
	if (end == r->graph->entries && hw->reads_mapped)
		barrier(hw, commands, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT,
			HOST, VK_ACCESS_HOST_READ_BIT);
	return KILNI_VK(hw, EndCommandBuffer, commands);
}

static enum kiln_status record_pieces(struct recorder *r)
{
	struct graph *graph = r->graph;
	unsigned most = (unsigned)kilni_div_up(graph->entries, graph->pieces);

	r->queue.base.hw = &r->hw->base;
	/* Behind all that came before the graph. */
	r->queue.join = true;
	r->batch.queue = &r->queue;
	r->batch.recording = true;
	r->batch.reports = graph->live.map;
	r->batch.reports_address = graph->live.address;
	KILNI_TRY(next_window(r));
	for (unsigned i = 0; i < graph->pieces; i++)
		KILNI_TRY(record_piece(r, i, i * most,
				       (unsigned)kilni_min_u64(
					       (i + 1) * most,
					       graph->entries)));
	graph->reports = r->batch.report_count;
	return KILN_OK;
}

/* ---- making a graph ---- */

static bool may_report(const struct kilni_entry *entry)
{
	return entry->kernel == KILNI_KERNEL_GATHER ||
	       entry->kernel == KILNI_KERNEL_SCATTER ||
	       entry->kernel == KILNI_KERNEL_CUSTOM;
}

/* Memory for as much as may be needed; the counts are set when recording. */
static enum kiln_status make_lists(struct kilni_vk_hw *hw, struct graph *graph)
{
	unsigned reports = 0, drawing = 0;

	for (unsigned i = 0; i < graph->entries; i++) {
		reports += may_report(graph->entry[i]);
		drawing += draws(graph->entry[i]);
	}
	graph->reporter = calloc(reports + 1, sizeof(*graph->reporter));
	graph->draw = calloc(drawing + 1, sizeof(*graph->draw));
	if (!graph->reporter || !graph->draw)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a graph of %u "
				  "operations", graph->entries);
	if (!reports)
		return KILN_OK;
	return kilni_vk_block_create(hw, KILNI_VK_HOST,
				     reports * KILNI_VK_REPORT_BYTES,
				     &graph->live);
}

static enum kiln_status make_pieces(struct kilni_vk_hw *hw,
				    struct graph *graph)
{
	struct recorder *r;
	enum kiln_status status;

	graph->pieces = (graph->entries - 1) / PIECE_ENTRIES + 1;
	if (graph->pieces > PIECES_MOST)
		graph->pieces = PIECES_MOST;
	KILNI_TRY(kilni_vk_pool_create(hw, kilni_vk_computes(hw), false,
				       &graph->pool));
	KILNI_TRY(kilni_vk_commands_create(hw, graph->pool, graph->piece,
					   graph->pieces));
	r = calloc(1, sizeof(*r));
	if (!r)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory to record a graph");
	r->hw = hw;
	r->graph = graph;
	status = record_pieces(r);
	free(r);
	return status;
}

static enum kiln_status make_turns(struct kilni_vk_hw *hw, struct graph *graph)
{
	if (graph->reports)
		memset(graph->live.map, 0xff, graph->live.bytes);
	if (!turn_bytes(graph))
		return KILN_OK;
	KILNI_TRY(kilni_vk_block_create(hw, KILNI_VK_HOST,
					TURNS * turn_bytes(graph),
					&graph->turns));
	if (graph->draws)
		KILNI_TRY(kilni_vk_commands_create(hw, graph->pool,
						   graph->head, TURNS));
	if (graph->reports)
		KILNI_TRY(kilni_vk_commands_create(hw, graph->pool,
						   graph->tail, TURNS));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		if (graph->draws)
			KILNI_TRY(record_head(hw, graph, turn));
		if (graph->reports)
			KILNI_TRY(record_tail(hw, graph, turn));
	}
	return KILN_OK;
}

static enum kiln_status make(struct kilni_vk_hw *hw, struct graph *graph)
{
	KILNI_TRY(make_lists(hw, graph));
	KILNI_TRY(make_pieces(hw, graph));
	return make_turns(hw, graph);
}

static void destroy(struct kilni_vk_hw *hw, struct graph *graph)
{
	struct kilni_vk_block *block;

	/* What a device that hangs may still use stays. */
	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE))
		hw->vk.DestroyCommandPool(hw->device, graph->pool, NULL);
	kilni_vk_block_destroy(hw, &graph->live);
	kilni_vk_block_destroy(hw, &graph->turns);
	while ((block = graph->params)) {
		graph->params = block->next;
		kilni_vk_block_destroy(hw, block);
		free(block);
	}
	free(graph->reporter);
	free(graph->draw);
	free(graph);
}

enum kiln_status kilni_vk_graph_create(struct kilni_hw *base,
				       struct kilni_entry *const *entry,
				       unsigned count, void **out)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	enum kiln_status status;
	struct graph *graph;

	KILNI_TRY(KILNI_FAULT("graph_create"));
	*out = NULL;
	if (!count)
		return KILN_ERR_UNSUPPORTED;
	if (kilni_vk_is_lost(hw))
		return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				  "vulkan: the device is lost");
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a graph");
	graph->entry = entry;
	graph->entries = count;
	status = make(hw, graph);
	if (status != KILN_OK)
		destroy(hw, graph);
	else
		*out = graph;
	return status;
}

void kilni_vk_graph_destroy(struct kilni_hw *base, void *data)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	struct graph *graph = data;
	bool lost;

	/* A lost device may still be at it, until it is closed. */
	pthread_mutex_lock(&hw->lock);
	lost = kilni_vk_is_lost(hw);
	if (lost) {
		graph->next = hw->left_graphs;
		hw->left_graphs = graph;
	}
	pthread_mutex_unlock(&hw->lock);
	if (!lost)
		destroy(hw, graph);
}

void kilni_vk_graphs_close(struct kilni_vk_hw *hw)
{
	struct graph *graph;

	while ((graph = hw->left_graphs)) {
		hw->left_graphs = graph->next;
		destroy(hw, graph);
	}
}

/* ---- replaying ---- */

static struct graph *graph_of(const struct kilni_entry *entry)
{
	return entry->params.graph.graph;
}

static unsigned free_turn(const struct graph *graph)
{
	uint32_t taken = __atomic_load_n(&graph->taken, __ATOMIC_ACQUIRE);
	unsigned turn = 0;

	while (turn < TURNS && (taken >> turn & 1))
		turn++;
	return turn;
}

bool kilni_vk_replay_waits(const struct kilni_entry *entry)
{
	const struct graph *graph = graph_of(entry);

	return graph && free_turn(graph) == TURNS;
}

static void set_draws(const struct graph *graph, unsigned turn,
		      const struct kilni_entry *entry)
{
	char *to = turn_draws(graph, turn);

	for (unsigned i = 0; i < graph->draws; i++, to += DRAW_BYTES) {
		uint64_t draw[2] = { entry->params.graph.seed,
				     entry->params.graph.counter +
					     graph->draw[i].place };

		memcpy(to, draw, sizeof(draw));
	}
}

/* Puts all of the graph's commands behind what the batch has. */
static void list_graph(struct kilni_vk_batch *batch, struct graph *graph,
		       const struct kilni_entry *entry)
{
	unsigned turn = free_turn(graph);

	batch->turn[batch->entries - 1] = TURNS;
	if (turn_bytes(graph)) {
		batch->turn[batch->entries - 1] = (uint8_t)turn;
		__atomic_fetch_or(&graph->taken, 1u << turn, __ATOMIC_RELAXED);
	}
	kilni_vk_close_commands(batch);
	if (graph->draws) {
		set_draws(graph, turn, entry);
		kilni_vk_batch_list(batch, &graph->head[turn], 1);
	}
	kilni_vk_batch_list(batch, graph->piece, graph->pieces);
	if (graph->reports)
		kilni_vk_batch_list(batch, &graph->tail[turn], 1);
	/* What comes next waits for all of it. */
	batch->queue->join = true;
}

/* As every launch, those of a graph may be made to fail. */
static enum kiln_status check_launches(const struct graph *graph,
				       unsigned *operation)
{
	*operation = KILNI_VK_WHOLE;
	if (!__atomic_load_n(&kilni_fault_armed, __ATOMIC_RELAXED))
		return KILN_OK;
	for (*operation = 0; *operation < graph->entries; ++*operation)
		KILNI_TRY(KILNI_FAULT("launch"));
	*operation = KILNI_VK_WHOLE;
	return KILN_OK;
}

static enum kiln_status stamp(struct kilni_vk_batch *batch, unsigned end)
{
	if (!kilni_vk_traces(batch))
		return KILN_OK;
	return kilni_vk_stamp(batch, batch->entries - 1, end);
}

static enum kiln_status replay(struct kilni_vk_batch *batch,
			       const struct kilni_entry *entry,
			       unsigned *operation)
{
	struct graph *graph = graph_of(entry);

	KILNI_TRY(check_launches(graph, operation));
	if (kilni_vk_is_lost(kilni_vk_hw_of(batch->queue->base.hw)))
		return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				  "vulkan: the device is lost");
	KILNI_TRY(stamp(batch, 0));
	list_graph(batch, graph, entry);
	batch->fate[batch->entries - 1] = KILNI_VK_REPLAYED;
	/* The times of a trace may be missing. */
	(void)stamp(batch, 1);
	return KILN_OK;
}

void kilni_vk_replay(struct kilni_vk_batch *batch,
		     const struct kilni_entry *entry)
{
	enum kiln_status status;
	unsigned operation;

	if (!graph_of(entry)) {
		batch->fate[batch->entries - 1] = KILNI_VK_RAN;
		return;
	}
	status = replay(batch, entry, &operation);
	if (status != KILN_OK)
		kilni_vk_blame(batch, entry, operation, status, NULL);
}

/* ---- completing ---- */

void kilni_vk_blame(struct kilni_vk_batch *batch,
		    const struct kilni_entry *entry, unsigned operation,
		    enum kiln_status status, const struct kilni_report *report)
{
	struct kilni_queue_client *client = &batch->queue->client;
	struct kilni_entry named;

	if (entry->kind == KILNI_ENTRY_GRAPH &&
	    operation != KILNI_VK_WHOLE) {
		memcpy(&named, graph_of(entry)->entry[operation],
		       offsetof(struct kilni_entry, params));
		named.seq = entry->seq;
		entry = &named;
	}
	client->failed(client->context, entry, status, report);
}

/* The first report in the graph's order; false: there is none. */
static bool find_report(const struct graph *graph, unsigned turn,
			unsigned *operation, struct kilni_report *report)
{
	const char *from = turn_reports(graph, turn);

	memset(report, 0, sizeof(*report));
	for (unsigned i = 0; i < graph->reports; i++) {
		memcpy(report, from + i * KILNI_VK_REPORT_BYTES, 24);
		*operation = graph->reporter[i];
		if (report->position != UINT64_MAX)
			return true;
	}
	return false;
}

void kilni_vk_end_turn(const struct kilni_vk_batch *batch, unsigned i,
		       const struct kilni_entry *entry)
{
	unsigned turn = batch->turn[i];

	if (turn < TURNS)
		__atomic_fetch_and(&graph_of(entry)->taken, ~(1u << turn),
				   __ATOMIC_RELEASE);
}

bool kilni_vk_finish_replay(struct kilni_vk_batch *batch, unsigned i,
			    const struct kilni_entry *entry)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(batch->queue->base.hw);
	struct kilni_queue_client *client = &batch->queue->client;
	struct graph *graph = graph_of(entry);
	struct kilni_report report;
	bool ran = kilni_vk_ran(hw, batch);
	unsigned operation = 0;

	if (!ran) {
		kilni_vk_blame(batch, entry, KILNI_VK_WHOLE,
			       KILN_ERR_DEVICE_LOST, NULL);
	} else if (find_report(graph, batch->turn[i], &operation, &report)) {
		__atomic_add_fetch(&hw->found, 1, __ATOMIC_RELEASE);
		kilni_vk_blame(batch, entry, operation, KILN_ERR_INDEX,
			       &report);
	} else if (__atomic_load_n(&hw->found, __ATOMIC_ACQUIRE) !=
		   batch->found) {
		(void)client->check(client->context, entry);
	}
	kilni_vk_end_turn(batch, i, entry);
	return ran;
}
