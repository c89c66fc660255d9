/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench.h"

#include <stdlib.h>
#include <time.h>

#define SAMPLES_MAX 31
/* A sample lasts at least so long, all samples of a case not much longer. */
#define SAMPLE_SECONDS 5e-3
#define CASE_SECONDS 0.6
#define QUICK_SECONDS 0.05
#define ROUNDS_MAX 20000

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Values in [-0.5, 0.5) for floats, small ones for integers. */
static enum kiln_status make_operand(struct kiln_tensor **out,
				     struct kiln_device *device,
				     enum kiln_dtype dtype,
				     const int64_t *shape)
{
	bool is_float = kiln_dtype_class(dtype) == KILN_CLASS_FLOAT;
	struct kiln_distribution values = { KILN_RANDOM_UNIFORM, -0.5, 0.5 };

	if (!is_float) {
		values.a = 0;
		values.b = 100;
	}
	return kiln_random(out, device, dtype, 2, shape, values);
}

static enum kiln_status prepare(struct bench_state *state)
{
	const struct bench_case *what = state->what;
	enum kiln_status status;

	status = make_operand(&state->a, state->device, what->dtype,
			      what->shape_a);
	if (!status && what->shape_b[0])
		status = make_operand(&state->b, state->device, what->dtype,
				      what->shape_b);
	return status;
}

/* Seconds of so many rounds, from the first call to the last result. */
static enum kiln_status sample(struct bench_state *state, int64_t rounds,
			       double *seconds)
{
	double start = now_seconds();
	enum kiln_status status = KILN_OK;

	for (int64_t i = 0; !status && i < rounds; i++)
		status = state->what->work(state);
	if (!status)
		status = kiln_device_sync(state->device);
	*seconds = now_seconds() - start;
	return status;
}

/* Doubles the rounds until a sample lasts long enough to be measured. */
static enum kiln_status find_rounds(struct bench_state *state, int64_t *rounds)
{
	double seconds;
	enum kiln_status status = sample(state, 1, &seconds);

	*rounds = 1;
	while (!status && *rounds < ROUNDS_MAX) {
		status = sample(state, *rounds, &seconds);
		if (seconds >= SAMPLE_SECONDS)
			break;
		*rounds *= 2;
	}
	return status;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static enum kiln_status take_samples(struct bench_time *time,
				     struct bench_state *state, double limit)
{
	double seconds[SAMPLES_MAX];
	double end = now_seconds() + limit;
	enum kiln_status status = KILN_OK;
	int count = 0;

	while (!status && count < SAMPLES_MAX &&
	       (count < 3 || now_seconds() < end)) {
		status = sample(state, time->rounds, &seconds[count]);
		count++;
	}
	if (status)
		return status;
	qsort(seconds, (size_t)count, sizeof(*seconds), compare_doubles);
	time->samples = count;
	time->best = seconds[0] / (double)time->rounds;
	time->median = seconds[count / 2] / (double)time->rounds;
	return KILN_OK;
}

enum kiln_status bench_measure(struct bench_time *time,
			       struct kiln_device *device,
			       const struct bench_case *what, bool quick)
{
	struct bench_state state = { .device = device, .what = what };
	enum kiln_status status = prepare(&state);

	if (!status)
		status = find_rounds(&state, &time->rounds);
	if (!status)
		status = take_samples(time, &state,
				      quick ? QUICK_SECONDS : CASE_SECONDS);
	kiln_tensor_clear(&state.out);
	kiln_tensor_clear(&state.a);
	kiln_tensor_clear(&state.b);
	return status;
}

static enum kiln_status first_op(struct kiln_device *device)
{
	static const float data[16] = { 1, 2, 3, 4 };
	const int64_t shape[] = { 16 };
	struct kiln_tensor *tensor = KILN_TENSOR_NONE;
	float result[16];
	enum kiln_status status;

	status = kiln_tensor_from_data(&tensor, device, KILN_F32, 1, shape,
				       data, sizeof(data));
	if (!status)
		status = kiln_add(&tensor, tensor, tensor);
	if (!status)
		status = kiln_tensor_read(tensor, result, sizeof(result));
	kiln_tensor_clear(&tensor);
	return status;
}

enum kiln_status bench_first_op(struct kiln_device **device,
				const char *selector, double *seconds)
{
	double start = now_seconds();
	enum kiln_status status = kiln_device_open(device, selector);

	if (!status)
		status = first_op(*device);
	*seconds = now_seconds() - start;
	return status;
}
