/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_STREAM_WORLD_H
#define TESTS_UNIT_STREAM_WORLD_H

/* What t_model_streams works on: a program, the model's side and kiln's. */

#include "api.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/base.h"
#include "lib/internal.h"
#include "lib/testing.h"
#include "sanitized.h"
#include "stream_model.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define PROGRAM 400                /* steps of a program, at most */
#define STREAMS 4
#define EVENTS 8
#define RING 1024

/* ---- programs ---- */

/*
 * Kinds of step and how often they come. For each one plan_NAME says what it
 * does to the model, or that it cannot be done now, and act_NAME does it with
 * kiln; a further kind is a further line here.
 */
#define STEPS(X)                                                               \
	X(upload, 4) X(full, 2) X(foreign, 2) X(binary, 24) X(chain, 10)       \
	X(choose, 4) X(copy_into, 8) X(share, 6) X(flip, 4) X(spread, 3)       \
	X(turn, 3) X(part, 5) X(join, 4) X(sum, 5) X(product, 3)               \
	X(pick, 4) X(gather, 4) X(convert, 3) X(release, 3) X(read, 8)         \
	X(enter, 8) X(replace, 2) X(record, 4) X(wait_for, 4) X(wait, 2)       \
	X(complete, 4) X(gate, 3) X(flush, 3) X(sync, 2) X(end_thread, 2)      \
	X(cleanup, 1) X(replay, 4)

enum kind {
#define KIND(name, weight) STEP_##name,
	STEPS(KIND) KINDS
};

struct step {
	enum kind kind;
	int thread;
	int d, a, b;               /* names of tensors: result, operands */
	uint32_t value;
	/* Planned: */
	bool skip;
	int need[THREADS];         /* steps whose calls come first */
	union word *want;          /* what a read has to give */
};

/* Names of tensors: so many of each dtype and form. */
#define NAMES_EACH 4
#define FORMS 5
#define NAMES (FORMS * 2 * NAMES_EACH)

static const struct form {
	int rows, cols;
	unsigned weight;
} forms[FORMS] = { { 1, 7, 8 }, { 5, 64, 8 }, { 33, 65, 6 }, { 128, 300, 4 },
	      { 512, 520, 1 } };

static const struct form *form_of(int name)
{
	return &forms[name / (2 * NAMES_EACH)];
}

static bool is_float(int name)
{
	return name / NAMES_EACH % 2;
}

static int count_of(int name)
{
	return form_of(name)->rows * form_of(name)->cols;
}

static size_t bytes_of(int name)
{
	return (size_t)count_of(name) * sizeof(union word);
}

static enum kiln_dtype dtype_of(int name)
{
	return is_float(name) ? KILN_F32 : KILN_I32;
}

#define SHAPE_OF(name)                                                         \
	((const int64_t[]){ form_of(name)->rows, form_of(name)->cols })

/* ---- the two sides ---- */

static struct {
	struct look look[NAMES];
	struct touched name[NAMES];
	struct touched stream[STREAMS], event[EVENTS];
	bool recorded[EVENTS];
	int on[THREADS];           /* stream that is a thread's current one */
} model;

static struct {
	struct kiln_device *device;
	struct kiln_tensor *tensor[NAMES];
	struct kiln_stream *stream[STREAMS];
	struct kiln_event *event[EVENTS];
	struct kiln_completions *ring;
	struct step *steps;
	int count;
	int done[THREADS];         /* atomic: last step that was made */
	int gate[PROGRAM];         /* atomic: open */
	int gates[PROGRAM];        /* atomic: gates that hold something */
	int gate_count;            /* atomic */
	int stop;                  /* atomic: the opener is to end */
	int foreign;               /* atomic: deleters to come */
	int wanted;                /* atomic: completions to come */
	int failed;                /* atomic */
	bool foreign_works, lies;
	pthread_mutex_t lock;
	char wrong[512];
} world = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int made(int *place)
{
	return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

__attribute__((format(printf, 2, 3))) static void
went_wrong(const struct step *s, const char *form, ...)
{
	va_list args;
	char text[400];

	va_start(args, form);
	vsnprintf(text, sizeof(text), form, args);
	va_end(args);
	pthread_mutex_lock(&world.lock);
	if (!world.wrong[0])
		snprintf(world.wrong, sizeof(world.wrong), "step %d: %s",
			 s ? (int)(s - world.steps) : -1, text);
	pthread_mutex_unlock(&world.lock);
	__atomic_store_n(&world.failed, 1, __ATOMIC_RELEASE);
}

static bool is_good(const struct step *s, const char *what,
		    enum kiln_status status)
{
	if (status != KILN_OK)
		went_wrong(s, "%s: %s: %s", what, kiln_status_name(status),
			   kiln_error_message());
	return status == KILN_OK;
}

#define GOOD(s, expr) is_good(s, #expr, expr)

/* ---- what a step touches ---- */

static void reads(struct step *s, int at, struct touched *t)
{
	for (int i = 0; i < THREADS; i++)
		if (t->wrote[i] > s->need[i])
			s->need[i] = t->wrote[i];
	t->read[s->thread] = at;
}

static void writes(struct step *s, int at, struct touched *t)
{
	reads(s, at, t);
	for (int i = 0; i < THREADS; i++)
		if (t->read[i] > s->need[i])
			s->need[i] = t->read[i];
	t->wrote[s->thread] = at;
}

static int index_of(const struct step *s)
{
	return (int)(s - world.steps);
}

/* An operand: its name and what it looks into. False: there is none. */
static bool takes(struct step *s, int name)
{
	struct look *l = &model.look[name];

	if (!l->store)
		return false;
	reads(s, index_of(s), &model.name[name]);
	reads(s, index_of(s), &l->store->touched);
	return true;
}

static void puts_look(struct step *s, struct look l)
{
	writes(s, index_of(s), &model.name[s->d]);
	look_drop(&model.look[s->d]);
	model.look[s->d] = l;
	writes(s, index_of(s), &l.store->touched);
}

/* A view or a copy of what another name has: nothing is written. */
static void puts_view(struct step *s, struct look l)
{
	writes(s, index_of(s), &model.name[s->d]);
	look_drop(&model.look[s->d]);
	model.look[s->d] = l;
	reads(s, index_of(s), &l.store->touched);
}

static void puts_data(struct step *s, union word *data)
{
	puts_look(s, look_new(form_of(s->d)->rows, form_of(s->d)->cols, data));
}

static union word *room(int name)
{
	return malloc(bytes_of(name));
}

#endif
