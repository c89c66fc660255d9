/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/rack.h"

#include <stdlib.h>
#include <string.h>

/*
 * Launches that go to the library in one call. What a drain brings is kept
 * here, and goes as graphs (rack.h); what is left over goes launch by launch.
 *
 * Nothing is kept over the end of a drain, a mark or an entry that is no
 * kernel. Where the library refuses a graph, or no rack is to be had, the same
 * kernels are launched one by one: so an error is that of the entry that it
 * belongs to.
 */

struct kilni_cuda_batch {
	struct kilni_cuda_queue *queue;
	struct kilni_entry *entry; /* whose kernels come now */
	unsigned count;
	struct kilni_cuda_kept kept[KILNI_CUDA_RACK_MOST];
};

/* ---- life ---- */

struct kilni_cuda_batch *kilni_cuda_batch_create(struct kilni_cuda_queue *queue)
{
	struct kilni_cuda_batch *batch = calloc(1, sizeof(*batch));

	if (batch)
		batch->queue = queue;
	return batch;
}

void kilni_cuda_batch_free(struct kilni_cuda_batch *batch)
{
	free(batch);
}

/* ---- one by one ---- */

/* The rest of an entry that has failed is left out. */
static void send_one(struct kilni_cuda_batch *batch,
		     const struct kilni_cuda_kept *kept)
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

/* As graphs, as far as it goes; how many have been sent. */
static unsigned send_graphs(struct kilni_cuda_batch *batch)
{
	unsigned which = KILNI_CUDA_RACK_LENGTHS, sent = 0, now = 1;
	struct kilni_cuda_rack *rack = NULL;

	if (batch->count >= KILNI_CUDA_RACK_LEAST &&
	    !kilni_cuda_is_lost(hw_of(batch->queue)))
		rack = kilni_cuda_rack_take(batch->queue);
	if (!rack)
		return 0;
	/* The longest first; 0 is sent where the library refuses. */
	while (which-- && now)
		while (now && batch->count - sent >=
				      KILNI_CUDA_RACK_LEAST << which) {
			now = kilni_cuda_rack_send(rack, &batch->kept[sent],
						   which);
			sent += now;
		}
	kilni_cuda_rack_give(rack, batch->kept[batch->count - 1].entry->seq);
	return sent;
}

/* ---- what comes ---- */

bool kilni_cuda_batch_takes(const struct kilni_cuda_batch *batch,
			    uint64_t entries)
{
	return batch->count || (entries >= KILNI_CUDA_RACK_LEAST &&
				kilni_cuda_racks_good(hw_of(batch->queue)));
}

void kilni_cuda_batch_begin(struct kilni_cuda_batch *batch,
			    struct kilni_entry *entry)
{
	batch->entry = entry;
}

void kilni_cuda_batch_put(struct kilni_cuda_batch *batch,
			  const struct cu_kernel *kernel, size_t params_bytes)
{
	struct kilni_cuda_kept *kept = &batch->kept[batch->count++];

	memcpy(kept->params, kernel->params[0], params_bytes);
	kept->entry = batch->entry;
	kept->kernel = *kernel;
	kept->argument = kept->params;
	kept->kernel.params = &kept->argument;
	if (batch->count == KILNI_CUDA_RACK_MOST)
		kilni_cuda_batch_flush(batch);
}

void kilni_cuda_batch_flush(struct kilni_cuda_batch *batch)
{
	if (!batch || !batch->count)
		return;
	for (unsigned i = send_graphs(batch); i < batch->count; i++)
		send_one(batch, &batch->kept[i]);
	batch->count = 0;
}
