/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRV_RIG_H
#define DRV_RIG_H

/*
 * A small scheduler for the tests of drivers: lanes, which are queues with the
 * chunks that feed them, and functions that append one kind of entry each.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/driver.h"

struct lane {
	struct kilni_hw *hw;
	struct kilni_queue *queue;
	struct kilni_chunk *chunk;
	unsigned fill;
	uint64_t seq;          /* of the last entry appended */
	int suspect;
	enum kiln_status verdict; /* what check() answers */
	unsigned checked, failures, chunks_done;
	uint64_t failed_seq;
	enum kiln_status failed_status;
	int64_t failed_value;
};

static inline const struct kilni_driver *rig_driver(const char *name)
{
	for (unsigned i = 0; kilni_drivers[i]; i++)
		if (!strcmp(kilni_drivers[i]->name, name))
			return kilni_drivers[i];
	return NULL;
}

static inline struct kilni_hw *rig_open(const char *name)
{
	struct kilni_hw *hw = NULL;
	enum kiln_status status = rig_driver(name)->driver->open(0, &hw);

	ck_assert_msg(status == KILN_OK, "%s", kiln_error_message());
	return hw;
}

static inline void rig_close(struct kilni_hw *hw)
{
	hw->driver->device->close(hw);
}

static inline enum kiln_status rig_check(void *context,
					 const struct kilni_entry *entry)
{
	struct lane *lane = context;

	(void)entry;
	lane->checked++;
	return lane->verdict;
}

static inline void rig_failed(void *context, const struct kilni_entry *entry,
			      enum kiln_status status,
			      const struct kilni_report *report)
{
	struct lane *lane = context;

	if (!lane->failures++) {
		lane->failed_seq = entry->seq;
		lane->failed_status = status;
		lane->failed_value = report ? report->value : 0;
	}
	__atomic_store_n(&lane->suspect, 1, __ATOMIC_RELEASE);
}

static inline void rig_chunk_done(void *context, struct kilni_chunk *chunk)
{
	struct lane *lane = context;

	lane->chunks_done++;
	memset(chunk, 0xff, sizeof(*chunk));
	free(chunk);
}

static inline void lane_open(struct lane *lane, struct kilni_hw *hw)
{
	struct kilni_queue_client client = {
		.context = lane,
		.suspect = &lane->suspect,
		.check = rig_check,
		.failed = rig_failed,
		.chunk_done = rig_chunk_done,
	};

	memset(lane, 0, sizeof(*lane));
	lane->hw = hw;
	lane->chunk = calloc(1, sizeof(*lane->chunk));
	ck_assert_int_eq(hw->driver->queue->create(hw, &client, lane->chunk,
						   &lane->queue),
			 KILN_OK);
}

static inline enum kiln_status lane_wait(struct lane *lane)
{
	return lane->hw->driver->queue->wait(lane->queue, lane->seq);
}

static inline uint64_t lane_completed(const struct lane *lane)
{
	return lane->hw->driver->queue->completed(lane->queue);
}

static inline void lane_submit(struct lane *lane)
{
	ck_assert_int_eq(lane->hw->driver->queue->submit(lane->queue,
							 lane->seq),
			 KILN_OK);
}

static inline void lane_finish(struct lane *lane)
{
	lane_submit(lane);
	ck_assert_int_eq(lane_wait(lane), KILN_OK);
	ck_assert_uint_eq(lane_completed(lane), lane->seq);
}

static inline void lane_close(struct lane *lane)
{
	lane->hw->driver->queue->destroy(lane->queue);
	free(lane->chunk);
}

/* ---- entries ---- */

static inline struct kilni_entry *lane_append(struct lane *lane,
					      enum kilni_entry_kind kind)
{
	struct kilni_entry *entry;

	if (lane->fill == KILNI_CHUNK_ENTRIES) {
		lane->chunk->next = calloc(1, sizeof(*lane->chunk));
		lane->chunk = lane->chunk->next;
		lane->fill = 0;
	}
	entry = &lane->chunk->entry[lane->fill++];
	entry->kind = (uint8_t)kind;
	entry->seq = ++lane->seq;
	return entry;
}

static inline void lane_add_wait(struct lane *lane, const struct lane *other,
				 uint64_t seq)
{
	struct kilni_entry *entry = lane_append(lane, KILNI_ENTRY_WAIT);

	entry->params.wait.wait_queue = other->queue;
	entry->params.wait.wait_seq = seq;
}

static inline void lane_add_gate(struct lane *lane, const int *gate)
{
	lane_append(lane, KILNI_ENTRY_GATE)->params.gate.gate = gate;
}

static inline void lane_add_call(struct lane *lane,
				 void (*call)(void *data, void *user),
				 void *data, void *user)
{
	struct kilni_entry *entry = lane_append(lane, KILNI_ENTRY_CALL);

	entry->params.call.call = call;
	entry->params.call.data = data;
	entry->params.call.user = user;
}

static inline uint64_t rig_f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* out = in0 op in1 on f32; a NULL operand is the scalar. */
static inline void rig_set_ew(struct kilni_entry *entry, enum kilni_op op,
			      float *out, const float *in0, const float *in1,
			      float scalar, uint64_t count)
{
	struct kilni_ew_params *ew = &entry->params.ew;

	entry->kind = KILNI_ENTRY_KERNEL;
	entry->kernel = KILNI_KERNEL_EW;
	entry->op = (uint16_t)op;
	memset(ew, 0, sizeof(*ew));
	ew->op = op;
	ew->count = count;
	ew->contiguous = 1;
	ew->out = (uintptr_t)out;
	ew->in[0] = (uintptr_t)in0;
	ew->in[1] = (uintptr_t)in1;
	ew->scalars = (uint8_t)((in0 ? 0 : 1) | (in1 ? 0 : 2));
	ew->scalar[0] = ew->scalar[1] = rig_f32_bits(scalar);
	memset(ew->dtype, KILN_F32, sizeof(ew->dtype));
}

static inline void lane_add_ew(struct lane *lane, enum kilni_op op, float *out,
			       const float *in0, const float *in1,
			       float scalar, uint64_t count)
{
	rig_set_ew(lane_append(lane, KILNI_ENTRY_KERNEL), op, out, in0, in1,
		   scalar, count);
}

/* out[i] = source[index[i]] on f32, one axis. */
static inline void rig_set_gather(struct kilni_entry *entry, float *out,
				  const float *source, const int64_t *index,
				  int64_t size, uint64_t count)
{
	struct kilni_gather_params *g = &entry->params.gather;

	entry->kind = KILNI_ENTRY_KERNEL;
	entry->kernel = KILNI_KERNEL_GATHER;
	entry->op = KILNI_OP_GATHER;
	memset(g, 0, sizeof(*g));
	g->count = count;
	g->out = (uintptr_t)out;
	g->source = (uintptr_t)source;
	g->index = (uintptr_t)index;
	g->dim_size = size;
	g->rank = 1;
	g->element_bytes = 4;
	g->index_dtype = KILN_I64;
	g->shape[0] = count;
	g->source_stride[0] = 1;
	g->index_stride[0] = 1;
}

#endif
