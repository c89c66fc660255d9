/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/staging.h"

#include <sched.h>
#include <string.h>

#include "base/spawn.h"

#define THREAD_BYTES ((uint64_t)2 << 20)
#define BLOCK_LEAST ((uint64_t)512 << 10)
#define BLOCK_ALIGNMENT 65536

/* ---- lanes ---- */

void kilni_staging_init(struct kilni_staging *s,
			const struct kilni_staging_ops *ops)
{
	memset(s, 0, sizeof(*s));
	s->ops = ops;
	pthread_mutex_init(&s->lock, NULL);
}

void kilni_staging_fini(struct kilni_staging *s)
{
	while (s->lanes)
		s->ops->close(s, --s->lanes);
	pthread_mutex_destroy(&s->lock);
}

static enum kiln_status add_lane(struct kilni_staging *s)
{
	struct kilni_staging_lane *lane = &s->lane[s->lanes];

	lane->busy = false;
	KILNI_TRY(s->ops->open(s, s->lanes, &lane->memory));
	s->lanes++;
	return KILN_OK;
}

enum kiln_status kilni_staging_start(struct kilni_staging *s)
{
	return s->lanes ? KILN_OK : add_lane(s);
}

/* One there must be; of more, as many as can be had. */
static enum kiln_status get_lanes(struct kilni_staging *s, unsigned wanted)
{
	struct kilni_error_record before;

	KILNI_TRY(kilni_staging_start(s));
	kilni_error_save(&before);
	while (s->lanes < wanted && add_lane(s) == KILN_OK)
		;
	kilni_error_restore(&before);
	return KILN_OK;
}

/* ---- a block's copy ---- */

struct work {
	const struct kilni_staged *copy;
	uint64_t block, blocks;
	unsigned threads;
	uint64_t next;         /* atomic: the first block that nobody has */
	int status;            /* atomic: of the first failure */
	struct kilni_error_record why;
};

static uint64_t size_of(const struct work *w, uint64_t number)
{
	return kilni_min_u64(w->block, w->copy->bytes - number * w->block);
}

static enum kiln_status start_block(const struct work *w, unsigned lane,
				    uint64_t number)
{
	const struct kilni_staged *copy = w->copy;
	struct kilni_staging *s = copy->staging;
	uint64_t at = number * w->block, bytes = size_of(w, number);

	if (copy->up)
		memcpy(s->lane[lane].memory, copy->host + at, bytes);
	KILNI_TRY(s->ops->start(copy, lane, at, bytes));
	s->lane[lane].number = number;
	s->lane[lane].busy = true;
	return KILN_OK;
}

static enum kiln_status finish_block(const struct work *w, unsigned number)
{
	const struct kilni_staged *copy = w->copy;
	struct kilni_staging_lane *lane = &copy->staging->lane[number];

	if (!lane->busy)
		return KILN_OK;
	lane->busy = false;
	KILNI_TRY(copy->staging->ops->finish(copy, number, w->threads == 1));
	if (!copy->up)
		memcpy(copy->host + lane->number * w->block, lane->memory,
		       size_of(w, lane->number));
	return KILN_OK;
}

/* ---- a thread's part ---- */

static void note_failure(struct work *w, enum kiln_status status)
{
	int none = KILN_OK;

	if (status != KILN_OK &&
	    __atomic_compare_exchange_n(&w->status, &none, (int)status, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		kilni_error_save(&w->why);
}

static bool take_block(struct work *w, uint64_t *number)
{
	if (__atomic_load_n(&w->status, __ATOMIC_ACQUIRE) != KILN_OK)
		return false;
	*number = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
	return *number < w->blocks;
}

/* Blocks in turn by some lanes, until none is left or one has failed. */
static void move_blocks(struct work *w, unsigned first, unsigned lanes)
{
	unsigned at = 0;
	uint64_t number;

	while (take_block(w, &number)) {
		enum kiln_status status = finish_block(w, first + at);

		/* A lane that may still travel is not used again. */
		if (status == KILN_OK)
			status = start_block(w, first + at, number);
		note_failure(w, status);
		at = (at + 1) % lanes;
	}
	/* After a failure too: what still travels needs its lane. */
	for (unsigned i = 0; i < lanes; i++)
		note_failure(w, finish_block(w, first + i));
}

static void take_part(struct work *w, unsigned first, unsigned lanes)
{
	struct kilni_staging *s = w->copy->staging;
	enum kiln_status status = s->ops->enter ? s->ops->enter(s) : KILN_OK;

	note_failure(w, status);
	if (status != KILN_OK)
		return;
	move_blocks(w, first, lanes);
	if (s->ops->leave)
		s->ops->leave(s);
}

struct helper {
	struct work *work;
	unsigned lane;
	pthread_t thread;
	bool runs;
};

static void *help(void *arg)
{
	struct helper *helper = arg;

	take_part(helper->work, helper->lane, 2);
	return NULL;
}

/* The caller's thread is one of them; those that cannot be had are missed. */
static void move_all(struct work *w, unsigned lanes)
{
	struct helper helper[KILNI_STAGING_LANES / 2];

	for (unsigned i = 1; i < w->threads; i++) {
		helper[i].work = w;
		helper[i].lane = 2 * i;
		helper[i].runs = !kilni_spawn(&helper[i].thread, NULL, help,
					      &helper[i]);
	}
	take_part(w, 0, lanes < 2 ? 1 : 2);
	for (unsigned i = 1; i < w->threads; i++)
		if (helper[i].runs)
			pthread_join(helper[i].thread, NULL);
}

/* ---- copies ---- */

static unsigned cpus(void)
{
	cpu_set_t set;
	int count = 0;

	if (!sched_getaffinity(0, sizeof(set), &set))
		count = CPU_COUNT(&set);
	return count > 1 ? (unsigned)count : 1;
}

/* A function of the size alone, and of the CPUs that the caller may use. */
static unsigned threads_for(uint64_t bytes)
{
	uint64_t most = kilni_min_u64(KILNI_STAGING_LANES / 2,
				      bytes / THREAD_BYTES);

	return most > 1 ? (unsigned)kilni_min_u64(most, cpus()) : 1;
}

enum kiln_status kilni_staging_copy(const struct kilni_staged *copy)
{
	unsigned threads = threads_for(copy->bytes), lanes;
	struct work w = { .copy = copy };

	lanes = copy->bytes <= BLOCK_LEAST ? 1 : 2 * threads;
	KILNI_TRY(get_lanes(copy->staging, lanes));
	lanes = (unsigned)kilni_min_u64(lanes, copy->staging->lanes);
	w.threads = lanes < 4 ? 1 : lanes / 2;
	w.block = kilni_align_up(copy->bytes / (2 * (uint64_t)w.threads),
				 BLOCK_ALIGNMENT);
	w.block = kilni_min_u64(kilni_max_u64(w.block, BLOCK_LEAST),
				KILNI_STAGING_LANE_BYTES);
	w.blocks = (copy->bytes - 1) / w.block + 1;
	move_all(&w, lanes);
	if (w.status != KILN_OK)
		kilni_error_restore(&w.why);
	return (enum kiln_status)w.status;
}
