/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/differential/shapes.h"
#include "tests/differential/values.h"

/* ---- Operands ---- */

/* The shape of what is viewed. */
static void storage_shape(const struct diff_operand *o, int64_t *shape)
{
	int last = o->rank - 1, i;

	memcpy(shape, o->shape, sizeof(o->shape));
	switch (o->layout) {
	case DIFF_OFFSET:
		shape[0]++;
		break;
	case DIFF_TRANSPOSED:
		if (o->rank > 1) {
			shape[last] = o->shape[last - 1];
			shape[last - 1] = o->shape[last];
		}
		break;
	case DIFF_STEPPED:
		for (i = 0; i < o->rank; i++)
			shape[i] = 2 * shape[i] + 1;
		break;
	case DIFF_BACKWARDS:
		shape[last] *= 2;
		break;
	case DIFF_EXPANDED:
		for (i = last; i >= 0; i -= 2)
			shape[i] = 1;
		break;
	default:
		break;
	}
}

static enum kiln_status view(struct kiln_tensor **t,
			     const struct diff_operand *o)
{
	struct kiln_slice s[KILN_RANK_MAX];
	int axes[KILN_RANK_MAX], i;

	for (i = 0; i < o->rank; i++) {
		s[i] = (struct kiln_slice){ 0, KILN_SLICE_END, 1 };
		axes[i] = i;
		if (o->layout == DIFF_STEPPED)
			s[i] = (struct kiln_slice){ 1, KILN_SLICE_END, 2 };
	}
	switch (o->layout) {
	case DIFF_OFFSET:
		s[0].start = 1;
		return kiln_slice(t, *t, 1, s);
	case DIFF_TRANSPOSED:
		return o->rank > 1 ? kiln_transpose(t, *t) : KILN_OK;
	case DIFF_STEPPED:
		return kiln_slice(t, *t, o->rank, s);
	case DIFF_REVERSED:
		return kiln_flip(t, *t, o->rank, axes);
	case DIFF_BACKWARDS:
		s[o->rank - 1].step = -2;
		return kiln_slice(t, *t, o->rank, s);
	case DIFF_EXPANDED:
		return kiln_expand(t, *t, o->rank, o->shape);
	default:
		return KILN_OK;
	}
}

/* The seed of an operand's elements. */
static uint64_t seed_of(const struct diff_case *c, int i)
{
	return diff_mix(c->seed + 1 + (uint64_t)i);
}

static enum kiln_status upload(struct kiln_tensor **t,
			       struct kiln_device *device,
			       enum kiln_dtype dtype, int rank,
			       const int64_t *shape, const void *data)
{
	return kiln_tensor_from_data(t, device, dtype, rank, shape, data,
				     (size_t)diff_count(rank, shape) *
					     kiln_dtype_size_bytes(dtype));
}

static enum kiln_status make_operand(struct kiln_tensor **t,
				     const struct diff_case *c, int i,
				     struct kiln_device *device,
				     bool magnitudes)
{
	const struct diff_operand *o = &c->operands[i];
	enum kiln_status status = KILN_ERR_NO_MEMORY;
	int64_t shape[KILN_RANK_MAX], count;
	double *as_f64 = NULL;
	void *data;

	storage_shape(o, shape);
	count = diff_count(o->rank, shape);
	data = malloc((size_t)count * kiln_dtype_size_bytes(o->dtype) + 1);
	if (magnitudes && kiln_dtype_class(o->dtype) == KILN_CLASS_FLOAT)
		as_f64 = malloc((size_t)count * sizeof(*as_f64) + 1);
	if (data)
		diff_values_fill(data, o, count, seed_of(c, i));
	if (data && as_f64) {
		diff_values_magnitudes(as_f64, data, o->dtype, count);
		status = upload(t, device, KILN_F64, o->rank, shape, as_f64);
	} else if (data) {
		status = upload(t, device, o->dtype, o->rank, shape, data);
	}
	free(as_f64);
	free(data);
	return status == KILN_OK ? view(t, o) : status;
}

/* Memory that nobody needs, what the system caches included. */
static double free_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	double kibibytes = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %lf", &kibibytes) == 1)
			break;
	}
	if (file)
		fclose(file);
	return 1024 * kibibytes;
}

bool diff_too_large(const struct diff_case *c)
{
	double all = 0, largest = 0;
	int i;

	for (i = 0; i < c->operand_count; i++) {
		int64_t shape[KILN_RANK_MAX];
		double bytes;

		storage_shape(&c->operands[i], shape);
		bytes = (double)diff_count(c->operands[i].rank, shape) *
			(double)kiln_dtype_size_bytes(c->operands[i].dtype);
		all += bytes;
		largest = bytes > largest ? bytes : largest;
	}
	/*
	 * Operands and result on both devices, which may be the host, or one
	 * operand twice while it is uploaded; three copies of the result.
	 */
	return 2 * all + 5 * largest > free_bytes();
}

/* ---- The call ---- */

struct attempt {
	const struct diff_case *c;
	struct kiln_device *device;
	struct kiln_tensor *operands[CONF_TENSORS_MAX];
	struct kiln_tensor *results[CONF_RESULTS_MAX];
};

static enum kiln_status make_operands(struct attempt *a, bool magnitudes)
{
	enum kiln_status status = KILN_OK;
	int i;

	for (i = 0; i < a->c->operand_count && status == KILN_OK; i++) {
		if (!a->c->operands[i].same)
			status = make_operand(&a->operands[i], a->c, i,
					      a->device, magnitudes);
	}
	return status;
}

static enum kiln_status call(struct attempt *a, int place)
{
	struct kiln_tensor *in[CONF_TENSORS_MAX] = { NULL };
	struct conf_call call = {
		.method = a->c->method,
		.device = a->device,
		.out = { &a->results[0], &a->results[1] },
		.in = in,
		.in_count = a->c->operand_count,
		.attr = a->c->attr,
		.index_dtype = a->c->index_dtype,
	};
	int i;

	for (i = 0; i < a->c->operand_count; i++)
		in[i] = a->c->operands[i].same ? in[i - 1] : a->operands[i];
	if (place >= 0) {
		a->results[0] = a->operands[place];
		a->operands[place] = KILN_TENSOR_NONE;
	}
	if (strcmp(a->c->op->name, "random") == 0 &&
	    kiln_device_seed(a->device, a->c->seed) != KILN_OK)
		return KILN_ERR_INVALID;
	return conf_call(&call);
}

static void reset_stream(struct kiln_device *device)
{
	struct kiln_stream *stream = NULL;

	if (kiln_stream_current(&stream, device) == KILN_OK &&
	    kiln_stream_reset(stream) != KILN_OK)
		fprintf(stderr, "differ: the stream could not be reset: %s\n",
			kiln_error_message());
	kiln_stream_release(stream);
}

static void end(struct attempt *a, bool failed)
{
	int i;

	for (i = 0; i < CONF_TENSORS_MAX; i++)
		kiln_tensor_clear(&a->operands[i]);
	for (i = 0; i < CONF_RESULTS_MAX; i++)
		kiln_tensor_clear(&a->results[i]);
	if (failed)
		reset_stream(a->device);
}

/* ---- Results ---- */

static enum kiln_status read_result(struct diff_result *result,
				    struct kiln_tensor *t, bool contents)
{
	size_t bytes = kiln_tensor_size_bytes(t);

	result->dtype = kiln_tensor_dtype(t);
	result->rank = kiln_tensor_rank(t);
	memcpy(result->shape, kiln_tensor_shape(t),
	       (size_t)result->rank * sizeof(*result->shape));
	if (!contents)
		return KILN_OK;
	result->data = malloc(bytes + 1);
	if (!result->data)
		return KILN_ERR_NO_MEMORY;
	result->bytes = bytes;
	return kiln_tensor_read(t, result->data, bytes);
}

static void take_message(struct diff_outcome *o)
{
	snprintf(o->message, sizeof(o->message), "%s", kiln_error_message());
}

static void read_results(struct diff_outcome *o, struct attempt *a)
{
	bool contents = strcmp(a->c->op->name, "empty") != 0;
	int i;

	o->result_count = a->c->method->form->results;
	for (i = 0; i < o->result_count; i++) {
		enum kiln_status status = read_result(
			&o->results[i], a->results[i], contents);

		if (status == KILN_OK || o->read != KILN_OK)
			continue;
		o->read = status;
		take_message(o);
	}
}

/* The same call on magnitudes in f64; without them the bound is 0. */
static void add_magnitudes(struct diff_outcome *o, const struct diff_case *c,
			   struct kiln_device *device)
{
	struct attempt a = { c, device, { NULL }, { NULL } };
	struct diff_result r = { 0 };
	enum kiln_status status = make_operands(&a, true);

	if (status == KILN_OK)
		status = call(&a, -1);
	if (status == KILN_OK)
		status = read_result(&r, a.results[0], true);
	end(&a, status != KILN_OK);
	if (status != KILN_OK) {
		free(r.data);
		return;
	}
	o->magnitudes = r.data;
	o->magnitude_count = r.bytes / sizeof(double);
}

static bool needs_magnitudes(const struct diff_case *c)
{
	return kiln_dtype_class(c->dtype) == KILN_CLASS_FLOAT &&
	       (c->growth == KILNI_GROWTH_SUM ||
		c->growth == KILNI_GROWTH_DOT);
}

void diff_attempt(struct diff_outcome *outcome, const struct diff_case *c,
		  struct kiln_device *device, bool magnitudes)
{
	struct attempt a = { c, device, { NULL }, { NULL } };

	kiln_error_clear();
	outcome->call = make_operands(&a, false);
	if (outcome->call == KILN_OK)
		outcome->call = call(&a, magnitudes ? -1 : c->place);
	if (outcome->call != KILN_OK)
		take_message(outcome);
	else
		read_results(outcome, &a);
	end(&a, outcome->call != KILN_OK || outcome->read != KILN_OK);
	if (magnitudes && needs_magnitudes(c) && outcome->call == KILN_OK &&
	    outcome->read == KILN_OK)
		add_magnitudes(outcome, c, device);
}

void diff_outcome_clear(struct diff_outcome *outcome)
{
	int i;

	for (i = 0; i < CONF_RESULTS_MAX; i++)
		free(outcome->results[i].data);
	free(outcome->magnitudes);
	memset(outcome, 0, sizeof(*outcome));
}
