/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fashion - trains a small network on 60,000 pictures of clothes
 *
 * Everything that computes goes through kiln's public interface: idx.c reads
 * the files, mlp.c is the network, this file loads, shuffles, trains, tests
 * and reports.
 */
#include "fashion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "idx.h"
#include "mlp.h"

#define SIDE 28
#define HIDDEN 128
#define CLASSES 10
#define RATE 1e-3

/* Steps between two looks at the queue, the memory and the progress bar. */
#define TICK_STEPS 100
/* Steps whose rows are gathered at once; what they take stays in the cache. */
#define GATHER_STEPS 16
/* The first steps take what all later ones reuse. */
#define STEADY_STEP 2

double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Data ---- */

/* Pictures on the device: f32 in 0..1, and for each 1 at its class. */
struct set {
	int64_t count;
	struct kiln_tensor *images;  /* f32 [count, pixels] */
	struct kiln_tensor *labels;  /* u8 [count, 1] */
	struct kiln_tensor *one_hot; /* f32 [count, CLASSES] */
};

static void set_free(struct set *set)
{
	kiln_tensor_clear(&set->images);
	kiln_tensor_clear(&set->labels);
	kiln_tensor_clear(&set->one_hot);
}

static enum kiln_status make_one_hot(struct set *set,
				     struct kiln_device *device)
{
	TRY(kiln_arange(&set->one_hot, device, KILN_U8, 0, CLASSES, 1));
	TRY(kiln_equal(&set->one_hot, set->labels, set->one_hot, KILN_BOOL));
	return kiln_cast(&set->one_hot, set->one_hot, KILN_F32);
}

static enum kiln_status set_upload(struct set *set, struct kiln_device *device,
				   const struct idx_set *idx)
{
	const int64_t image_shape[] = { idx->count, idx->pixels };
	const int64_t label_shape[] = { idx->count, 1 };

	set->count = idx->count;
	TRY(kiln_tensor_from_data(&set->images, device, KILN_U8, 2, image_shape,
				  idx->images,
				  (size_t)(idx->count * idx->pixels)));
	TRY(kiln_cast(&set->images, set->images, KILN_F32));
	TRY(kiln_div_scalar(&set->images, set->images, kiln_float(255)));
	TRY(kiln_tensor_from_data(&set->labels, device, KILN_U8, 2, label_shape,
				  idx->labels, (size_t)idx->count));
	return make_one_hot(set, device);
}

/* 0, or -1 where a file is bad and the reason is told already. */
static int set_load(struct set *set, struct kiln_device *device,
		    const char *dir, const char *name, enum kiln_status *status)
{
	const struct idx_form form = { SIDE, SIDE, CLASSES };
	struct idx_set idx;

	if (idx_load(&idx, dir, name, &form))
		return -1;
	*status = set_upload(set, device, &idx);
	idx_free(&idx);
	return 0;
}

/* ---- Shuffling ---- */

/* splitmix64: a counter, mixed. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Fisher and Yates's shuffle; the bias of the remainder is below 2^-47. */
static void shuffle(int32_t *order, int64_t count, uint64_t *state)
{
	for (int64_t i = 0; i < count; i++)
		order[i] = (int32_t)i;
	for (int64_t i = count - 1; i > 0; i--) {
		int64_t j = (int64_t)(next_random(state) % (uint64_t)(i + 1));
		int32_t kept = order[i];

		order[i] = order[j];
		order[j] = kept;
	}
}

/* ---- Training ---- */

struct job {
	const struct options *options;
	struct kiln_device *device;
	struct set train, test;
	struct mlp mlp;
	int32_t *host_order;
	struct kiln_tensor *order; /* of this epoch, i32 [train.count] */
	struct kiln_tensor *some_x, *some_y; /* rows of the next steps */
	struct kiln_tensor *x, *y; /* the batch, a view of them */
	/* With --graph: the step, and what it reads of each. */
	struct kiln_graph *graph;
	struct kiln_tensor *rows;     /* of the batch, i32 [batch] */
	struct kiln_tensor *schedule; /* of the epoch: [steps, MLP_NUMBERS] */
	uint64_t random;
	struct result result;
};

static enum kiln_status new_order(struct job *job)
{
	int64_t count = job->train.count;

	shuffle(job->host_order, count, &job->random);
	kiln_tensor_clear(&job->order);
	return kiln_tensor_from_data(&job->order, job->device, KILN_I32, 1,
				     &count, job->host_order,
				     (size_t)count * sizeof(int32_t));
}

static enum kiln_status view_rows(struct kiln_tensor **out,
				  struct kiln_tensor *tensor, int64_t start,
				  int64_t count)
{
	const struct kiln_slice range = { start, start + count, 1 };

	return kiln_slice(out, tensor, 1, &range);
}

/* Rows start.. of the shuffled set, for some steps. */
static enum kiln_status gather_rows(struct job *job, int64_t start)
{
	int64_t count = GATHER_STEPS * job->options->batch;
	struct kiln_tensor *rows = KILN_TENSOR_NONE;
	enum kiln_status status = view_rows(&rows, job->order, start, count);

	kiln_tensor_clear(&job->some_x);
	kiln_tensor_clear(&job->some_y);
	if (!status)
		status = kiln_select(&job->some_x, job->train.images, 0, rows);
	if (!status)
		status = kiln_select(&job->some_y, job->train.one_hot, 0, rows);
	kiln_tensor_clear(&rows);
	return status;
}

/* The last batch of an epoch may be shorter. */
static enum kiln_status take_batch(struct job *job, int64_t start)
{
	int64_t batch = job->options->batch;
	int64_t offset = start % (GATHER_STEPS * batch);

	/* The one batch of an epoch that no graph takes. */
	if (job->options->graph)
		offset = 0;
	if (!offset)
		TRY(gather_rows(job, start));
	TRY(view_rows(&job->x, job->some_x, offset, batch));
	return view_rows(&job->y, job->some_y, offset, batch);
}

static void drop_batch(struct job *job)
{
	kiln_tensor_clear(&job->x);
	kiln_tensor_clear(&job->y);
}

/* Notes the memory in use at the steady step and compares with it later. */
static enum kiln_status watch_memory(struct job *job)
{
	struct result *r = &job->result;
	struct kiln_memory_usage usage = { .struct_size = sizeof(usage) };
	bool available;

	TRY(kiln_memory_usage(job->device, &usage, &available));
	if (r->steps < STEADY_STEP || !available)
		return KILN_OK;
	if (!r->reserved_bytes) {
		r->live_bytes = usage.live_bytes;
		r->reserved_bytes = usage.reserved_bytes;
	}
	if (usage.live_bytes > r->live_bytes ||
	    usage.reserved_bytes > r->reserved_bytes) {
		r->grown_step = r->grown_step ? r->grown_step : r->steps;
		r->grown_live_bytes = usage.live_bytes;
		r->grown_reserved_bytes = usage.reserved_bytes;
	}
	return KILN_OK;
}

/* Between two steps: lets the queue run empty, looks around. */
static enum kiln_status tick(struct job *job)
{
	TRY(kiln_device_sync(job->device));
	TRY(watch_memory(job));
	progress_draw(job->options, &job->result, job->train.count);
	return KILN_OK;
}

static bool is_tick(int64_t steps)
{
	return steps % TICK_STEPS == 0 || steps == STEADY_STEP;
}

static enum kiln_status step(struct job *job, int64_t start)
{
	TRY(take_batch(job, start));
	TRY(mlp_forward(&job->mlp, job->x));
	if (progress_shown(job->options) && is_tick(job->result.steps + 1))
		TRY(mlp_loss(&job->mlp, job->y, &job->result.loss));
	TRY(mlp_learn(&job->mlp, job->x, job->y));
	drop_batch(job);
	job->result.steps++;
	return KILN_OK;
}

/* ---- Steps that are replayed ---- */

/* The numbers of all full batches of the epoch. */
static enum kiln_status make_schedule(struct job *job)
{
	const int64_t shape[] = { job->train.count / job->options->batch,
				  MLP_NUMBERS };
	size_t bytes = (size_t)shape[0] * MLP_NUMBERS * sizeof(float);
	float *numbers = malloc(bytes ? bytes : 1);
	struct mlp ahead = job->mlp;
	enum kiln_status status = KILN_ERR_NO_MEMORY;

	for (int64_t i = 0; numbers && i < shape[0]; i++) {
		mlp_count_step(&ahead);
		mlp_step_numbers(&ahead, job->options->batch,
				 numbers + i * MLP_NUMBERS);
	}
	kiln_tensor_clear(&job->schedule);
	if (numbers)
		status = kiln_tensor_from_data(&job->schedule, job->device,
					       KILN_F32, 2, shape, numbers,
					       bytes);
	free(numbers);
	return status;
}

/* What is captured: it reads job->rows and the network's numbers. */
static enum kiln_status graph_step(struct kiln_device *device, void *user)
{
	struct job *job = user;

	(void)device;
	TRY(kiln_select(&job->x, job->train.images, 0, job->rows));
	TRY(kiln_select(&job->y, job->train.one_hot, 0, job->rows));
	TRY(mlp_forward(&job->mlp, job->x));
	TRY(mlp_learn_by_numbers(&job->mlp, job->x, job->y));
	drop_batch(job);
	return KILN_OK;
}

/* dst = rows start.. of src */
static enum kiln_status refresh(struct kiln_tensor *dst,
				struct kiln_tensor *src, int64_t start,
				int64_t count)
{
	struct kiln_tensor *view = KILN_TENSOR_NONE;
	enum kiln_status status = view_rows(&view, src, start, count);

	if (!status)
		status = kiln_reshape(&view, view, kiln_tensor_rank(dst),
				      kiln_tensor_shape(dst));
	if (!status)
		status = kiln_copy_into(dst, view);
	kiln_tensor_clear(&view);
	return status;
}

static enum kiln_status make_graph(struct job *job)
{
	TRY(kiln_graph_create(&job->graph, job->device, graph_step, job));
	if (!kiln_graph_is_captured(job->graph))
		fprintf(stderr, "fashion: no graph: %s\n",
			kiln_graph_fallback(job->graph));
	job->result.operations = kiln_graph_operations(job->graph);
	return KILN_OK;
}

static enum kiln_status replay(struct job *job, int64_t start)
{
	int64_t batch = job->options->batch;

	TRY(mlp_begin_step(&job->mlp));
	TRY(refresh(job->rows, job->order, start, batch));
	TRY(refresh(job->mlp.numbers, job->schedule, start / batch, 1));
	/* The first step is the warm-up. */
	TRY(job->graph ? kiln_graph_replay(job->graph) : make_graph(job));
	job->result.steps++;
	return KILN_OK;
}

/* Eagerly, and nothing of its rows is kept. */
static enum kiln_status short_step(struct job *job, int64_t start)
{
	TRY(step(job, start));
	kiln_tensor_clear(&job->some_x);
	kiln_tensor_clear(&job->some_y);
	return KILN_OK;
}

static bool is_full(const struct job *job, int64_t start)
{
	return start + job->options->batch <= job->train.count;
}

static enum kiln_status any_step(struct job *job, int64_t start)
{
	if (!job->options->graph)
		return step(job, start);
	return is_full(job, start) ? replay(job, start)
				   : short_step(job, start);
}

static enum kiln_status begin_graph(struct job *job)
{
	TRY(kiln_zeros(&job->rows, job->device, KILN_I32, 1,
		       &job->options->batch));
	return mlp_create_numbers(&job->mlp, job->device);
}

/* ---- An epoch ---- */

static bool is_finished(const struct job *job)
{
	int64_t limit = job->options->steps;

	return limit && job->result.steps >= limit;
}

static enum kiln_status train_epoch(struct job *job)
{
	struct result *r = &job->result;
	double begin = now_seconds();
	int64_t at;

	TRY(new_order(job));
	if (job->options->graph)
		TRY(make_schedule(job));
	for (at = 0; at < job->train.count && !is_finished(job);
	     at += job->options->batch) {
		TRY(any_step(job, at));
		if (is_tick(r->steps))
			TRY(tick(job));
	}
	TRY(kiln_device_sync(job->device));
	TRY(watch_memory(job));
	r->images += at < job->train.count ? at : job->train.count;
	r->epoch_seconds = now_seconds() - begin;
	if (r->epochs == 0 || r->epoch_seconds < r->best_epoch_seconds)
		r->best_epoch_seconds = r->epoch_seconds;
	r->epochs++;
	return KILN_OK;
}

static enum kiln_status train(struct job *job)
{
	double begin = now_seconds();
	enum kiln_status status = KILN_OK;

	for (int i = 0; !status && i < job->options->epochs; i++)
		if (!is_finished(job))
			status = train_epoch(job);
	job->result.seconds = now_seconds() - begin;
	progress_end(job->options);
	return status;
}

/* ---- Testing ---- */

static enum kiln_status count_hits(struct job *job, struct kiln_tensor **hits)
{
	TRY(mlp_forward(&job->mlp, job->test.images));
	TRY(kiln_argmax(hits, job->mlp.z, 1, KILN_U8));
	TRY(kiln_equal(hits, *hits, job->test.labels, KILN_BOOL));
	TRY(kiln_cast(hits, *hits, KILN_I32));
	return kiln_sum(hits, *hits);
}

static enum kiln_status test(struct job *job)
{
	struct kiln_tensor *hits = KILN_TENSOR_NONE;
	enum kiln_status status = count_hits(job, &hits);
	int32_t count = 0;

	if (!status)
		status = kiln_tensor_read(hits, &count, sizeof(count));
	kiln_tensor_clear(&hits);
	mlp_forget(&job->mlp);
	job->result.accuracy = (double)count / (double)job->test.count;
	return status;
}

/* ---- All of it ---- */

static enum kiln_status run(struct job *job)
{
	uint64_t *sum = &job->result.checksum;

	TRY(kiln_device_seed(job->device, job->options->seed));
	TRY(mlp_create(&job->mlp, job->device, SIDE * SIDE, HIDDEN, CLASSES,
		       RATE));
	if (job->options->load)
		TRY(mlp_load(&job->mlp, job->options->load));
	if (job->options->graph)
		TRY(begin_graph(job));
	TRY(kiln_device_sync(job->device));
	TRY(train(job));
	TRY(mlp_checksum(&job->mlp, sum));
	if (job->options->save)
		TRY(mlp_save(&job->mlp, job->options->save));
	return test(job);
}

static int load(struct job *job)
{
	const char *dir = job->options->data;
	enum kiln_status status = KILN_OK;

	if (set_load(&job->train, job->device, dir, "train", &status))
		return EXIT_FAILURE;
	if (!status &&
	    set_load(&job->test, job->device, dir, "t10k", &status))
		return EXIT_FAILURE;
	if (status)
		return tell_error(status);
	job->host_order = malloc((size_t)job->train.count * sizeof(int32_t));
	if (!job->host_order) {
		fprintf(stderr, "fashion: out of memory\n");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static void job_free(struct job *job)
{
	drop_batch(job);
	kiln_graph_release(job->graph);
	kiln_tensor_clear(&job->rows);
	kiln_tensor_clear(&job->schedule);
	kiln_tensor_clear(&job->some_x);
	kiln_tensor_clear(&job->some_y);
	mlp_free(&job->mlp);
	kiln_tensor_clear(&job->order);
	set_free(&job->train);
	set_free(&job->test);
	free(job->host_order);
}

static int work(struct job *job)
{
	enum kiln_status status;
	int code = load(job);

	if (code)
		return code;
	status = run(job);
	if (status)
		return tell_error(status);
	return report(job->options, &job->result, job->device);
}

int main(int argc, char **argv)
{
	struct options options;
	struct job job = { .options = &options };
	enum kiln_status status;
	int code = options_parse(&options, argc, argv);

	if (code >= 0)
		return code;
	job.random = options.seed;
	status = kiln_device_open(&job.device, options.device);
	if (status == KILN_ERR_SELECTOR || status == KILN_ERR_NO_DEVICE) {
		tell_error(status);
		return EXIT_USAGE;
	}
	code = status ? tell_error(status) : work(&job);
	job_free(&job);
	kiln_device_release(job.device);
	return code;
}
