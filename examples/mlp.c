/* SPDX-License-Identifier: Apache-2.0 */
#include "mlp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-8

/* ---- Parameters ---- */

static enum kiln_status make_group(struct mlp_group *group,
				   struct kiln_device *device, int rank,
				   const int64_t *shape)
{
	TRY(kiln_zeros(&group->first, device, KILN_F32, rank, shape));
	return kiln_zeros(&group->second, device, KILN_F32, rank, shape);
}

static void free_group(struct mlp_group *group)
{
	kiln_tensor_clear(&group->value);
	kiln_tensor_clear(&group->first);
	kiln_tensor_clear(&group->second);
}

/* Uniform in +-1/sqrt(fan_in). */
static enum kiln_status make_uniform(struct kiln_tensor **out,
				     struct kiln_device *device, int rank,
				     const int64_t *shape, int64_t fan_in)
{
	double bound = 1 / sqrt((double)fan_in);
	struct kiln_distribution uniform = { KILN_RANDOM_UNIFORM, -bound,
					     bound };

	return kiln_random(out, device, KILN_F32, rank, shape, uniform);
}

static enum kiln_status make_rest(struct mlp *mlp, struct kiln_device *device)
{
	int64_t total = mlp->hidden + mlp->hidden * mlp->classes + mlp->classes;
	int64_t after = total - mlp->hidden;
	struct kiln_tensor *parts[2] = { KILN_TENSOR_NONE, KILN_TENSOR_NONE };
	enum kiln_status status;

	status = make_uniform(&parts[0], device, 1, &mlp->hidden, mlp->inputs);
	if (!status)
		status = make_uniform(&parts[1], device, 1, &after,
				      mlp->hidden);
	if (!status)
		status = kiln_cat(&mlp->rest.value, 2, parts, 0);
	kiln_tensor_clear(&parts[0]);
	kiln_tensor_clear(&parts[1]);
	if (status)
		return status;
	return make_group(&mlp->rest, device, 1, &total);
}

enum kiln_status mlp_create(struct mlp *mlp, struct kiln_device *device,
			    int64_t inputs, int64_t hidden, int64_t classes,
			    double rate)
{
	const int64_t shape[] = { inputs, hidden };

	memset(mlp, 0, sizeof(*mlp));
	mlp->inputs = inputs;
	mlp->hidden = hidden;
	mlp->classes = classes;
	mlp->rate = rate;
	mlp->units = 1;
	TRY(make_uniform(&mlp->w1.value, device, 2, shape, inputs));
	TRY(make_group(&mlp->w1, device, 2, shape));
	return make_rest(mlp, device);
}

static enum kiln_status view_part(struct kiln_tensor **out,
				  const struct mlp *mlp, int64_t start,
				  int64_t end)
{
	const struct kiln_slice part = { start, end, 1 };

	return kiln_slice(out, mlp->rest.value, 1, &part);
}

/*
 * The views are taken anew in each step and dropped before Adam moves the
 * parameters: an op writes in place only where nobody else looks.
 */
enum kiln_status mlp_view(struct mlp *mlp)
{
	const int64_t w2_shape[] = { mlp->hidden, mlp->classes };
	int64_t w2_start = mlp->hidden;
	int64_t b2_start = w2_start + mlp->hidden * mlp->classes;

	TRY(view_part(&mlp->b1, mlp, 0, w2_start));
	TRY(view_part(&mlp->w2, mlp, w2_start, b2_start));
	TRY(kiln_reshape(&mlp->w2, mlp->w2, 2, w2_shape));
	return view_part(&mlp->b2, mlp, b2_start, KILN_SLICE_END);
}

/* ---- Forward ---- */

enum kiln_status mlp_forward(struct mlp *mlp, struct kiln_tensor *x)
{
	TRY(mlp_view(mlp));
	TRY(kiln_matmul(&mlp->h, x, mlp->w1.value));
	TRY(kiln_add(&mlp->h, mlp->h, mlp->b1));
	TRY(kiln_relu(&mlp->h, mlp->h));
	TRY(kiln_matmul(&mlp->z, mlp->h, mlp->w2));
	return kiln_add(&mlp->z, mlp->z, mlp->b2);
}

static enum kiln_status loss_tensor(struct kiln_tensor **out,
				    const struct mlp *mlp,
				    struct kiln_tensor *one_hot)
{
	double rows = (double)kiln_tensor_shape(one_hot)[0];

	TRY(kiln_log_softmax(out, mlp->z, 1));
	TRY(kiln_mul(out, *out, one_hot));
	TRY(kiln_sum(out, *out));
	return kiln_mul_scalar(out, *out, kiln_float(-1 / rows));
}

enum kiln_status mlp_loss(struct mlp *mlp, struct kiln_tensor *one_hot,
			  float *loss)
{
	struct kiln_tensor *mean = KILN_TENSOR_NONE;
	enum kiln_status status = loss_tensor(&mean, mlp, one_hot);

	if (!status)
		status = kiln_tensor_read(mean, loss, sizeof(*loss));
	kiln_tensor_clear(&mean);
	return status;
}

void mlp_forget(struct mlp *mlp)
{
	kiln_tensor_clear(&mlp->b1);
	kiln_tensor_clear(&mlp->w2);
	kiln_tensor_clear(&mlp->b2);
	kiln_tensor_clear(&mlp->h);
	kiln_tensor_clear(&mlp->z);
}

/* ---- Backward ---- */

/* t = t * number, which is a tensor's or value. */
static enum kiln_status scale(struct kiln_tensor **t,
			      struct kiln_tensor *number, double value)
{
	if (number)
		return kiln_mul(t, *t, number);
	return kiln_mul_scalar(t, *t, kiln_float(value));
}

static enum kiln_status shift(struct kiln_tensor **t,
			      struct kiln_tensor *number, double value)
{
	if (number)
		return kiln_add(t, *t, number);
	return kiln_add_scalar(t, *t, kiln_float(value));
}

/* Gradients, and a place for views on the way. */
struct grads {
	struct kiln_tensor *w1, *b1, *w2, *b2, *rest, *view;
};

static void free_grads(struct grads *g)
{
	kiln_tensor_clear(&g->w1);
	kiln_tensor_clear(&g->b1);
	kiln_tensor_clear(&g->w2);
	kiln_tensor_clear(&g->b2);
	kiln_tensor_clear(&g->rest);
	kiln_tensor_clear(&g->view);
}

/* out = lhs^T rhs */
static enum kiln_status matmul_tn(struct kiln_tensor **out, struct grads *g,
				  struct kiln_tensor *lhs,
				  struct kiln_tensor *rhs)
{
	TRY(kiln_transpose(&g->view, lhs));
	TRY(kiln_matmul(out, g->view, rhs));
	kiln_tensor_clear(&g->view);
	return KILN_OK;
}

static double mlp_factor(const struct mlp *mlp, int64_t rows)
{
	return mlp->units / (double)rows;
}

/* From the scores down; z becomes its own gradient, then h does. */
static enum kiln_status backward(struct mlp *mlp, struct grads *g,
				 struct kiln_tensor *const *number,
				 struct kiln_tensor *x,
				 struct kiln_tensor *one_hot)
{
	double factor = mlp_factor(mlp, kiln_tensor_shape(x)[0]);
	struct kiln_tensor **dh = &g->view;

	TRY(kiln_softmax(&mlp->z, mlp->z, 1));
	TRY(kiln_sub(&mlp->z, mlp->z, one_hot));
	TRY(scale(&mlp->z, number[MLP_FACTOR], factor));
	TRY(matmul_tn(&g->w2, g, mlp->h, mlp->z));
	TRY(kiln_sum_dim(&g->b2, mlp->z, 0));
	TRY(kiln_transpose(dh, mlp->w2));
	TRY(kiln_matmul(dh, mlp->z, *dh));
	TRY(kiln_relu_backward(&mlp->h, mlp->h, *dh));
	kiln_tensor_clear(dh);
	TRY(kiln_sum_dim(&g->b1, mlp->h, 0));
	return matmul_tn(&g->w1, g, x, mlp->h);
}

/* One flat gradient in the order of the flat parameters. */
static enum kiln_status join_rest(const struct mlp *mlp, struct grads *g)
{
	int64_t w2_count = mlp->hidden * mlp->classes;
	struct kiln_tensor *parts[3];

	TRY(kiln_reshape(&g->b1, g->b1, 1, &mlp->hidden));
	TRY(kiln_reshape(&g->w2, g->w2, 1, &w2_count));
	TRY(kiln_reshape(&g->b2, g->b2, 1, &mlp->classes));
	parts[0] = g->b1;
	parts[1] = g->w2;
	parts[2] = g->b2;
	return kiln_cat(&g->rest, 3, parts, 0);
}

/* ---- Adam ---- */

/*
 *   value -= rate * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * An op less is a pass over all parameters less, so what is only a number of
 * the step goes where it costs nothing. The means are kept as plain weighted
 * sums of the gradients, without their factors 1 - b1 and 1 - b2. And the
 * gradients come in a unit that shrinks by sqrt(b2) with each step, so that
 * the sum of their squares decays by itself. After some thousand steps the
 * unit starts anew.
 */
struct adam_step {
	double decay, epsilon, scale;
};

/* Far from the end of f32's range, squared too. */
#define UNITS_MAX 1e6

static struct adam_step adam_step(const struct mlp *mlp)
{
	double t = (double)mlp->steps;
	double first = (1 - BETA1) / (1 - pow(BETA1, t));
	double second = sqrt((1 - BETA2) / (1 - pow(BETA2, t)));

	return (struct adam_step){ .decay = BETA1 / sqrt(BETA2),
				   .epsilon = EPSILON / second * mlp->units,
				   .scale = mlp->rate * first / second };
}

/*
 * Everything of the group is written in place, so a captured step changes it
 * as an eager one does.
 */
static enum kiln_status adam(struct mlp_group *group, struct kiln_tensor **grad,
			     struct kiln_tensor *const *number,
			     struct adam_step step)
{
	TRY(kiln_mul_scalar(&group->first, group->first,
			    kiln_float(step.decay)));
	TRY(kiln_add(&group->first, group->first, *grad));
	TRY(kiln_square(grad, *grad));
	TRY(kiln_add(&group->second, group->second, *grad));
	TRY(kiln_sqrt(grad, group->second));
	TRY(shift(grad, number[MLP_EPSILON], step.epsilon));
	TRY(kiln_div(grad, group->first, *grad));
	TRY(scale(grad, number[MLP_SCALE], step.scale));
	return kiln_sub(&group->value, group->value, *grad);
}

static enum kiln_status change_unit(struct mlp_group *group, double units)
{
	TRY(kiln_div_scalar(&group->first, group->first, kiln_float(units)));
	return kiln_div_scalar(&group->second, group->second,
			       kiln_float(units * units));
}

void mlp_count_step(struct mlp *mlp)
{
	if (mlp->units > UNITS_MAX)
		mlp->units = 1;
	mlp->units /= sqrt(BETA2);
	mlp->steps++;
}

/* Before the gradients of a step are formed. */
enum kiln_status mlp_begin_step(struct mlp *mlp)
{
	if (mlp->units > UNITS_MAX) {
		TRY(change_unit(&mlp->w1, mlp->units));
		TRY(change_unit(&mlp->rest, mlp->units));
	}
	mlp_count_step(mlp);
	return KILN_OK;
}

static enum kiln_status learn(struct mlp *mlp, struct grads *g,
			      struct kiln_tensor *const *number,
			      struct kiln_tensor *x,
			      struct kiln_tensor *one_hot)
{
	struct adam_step step;

	TRY(backward(mlp, g, number, x, one_hot));
	TRY(join_rest(mlp, g));
	mlp_forget(mlp);
	step = adam_step(mlp);
	TRY(adam(&mlp->w1, &g->w1, number, step));
	return adam(&mlp->rest, &g->rest, number, step);
}

enum kiln_status mlp_learn(struct mlp *mlp, struct kiln_tensor *x,
			   struct kiln_tensor *one_hot)
{
	struct kiln_tensor *const none[MLP_NUMBERS] = { NULL };
	struct grads g = { 0 };
	enum kiln_status status = mlp_begin_step(mlp);

	if (!status)
		status = learn(mlp, &g, none, x, one_hot);
	free_grads(&g);
	return status;
}

/* ---- Steps in a graph ---- */

enum kiln_status mlp_learn_by_numbers(struct mlp *mlp, struct kiln_tensor *x,
				      struct kiln_tensor *one_hot)
{
	struct grads g = { 0 };
	enum kiln_status status = learn(mlp, &g, mlp->number, x, one_hot);

	free_grads(&g);
	return status;
}

void mlp_step_numbers(const struct mlp *mlp, int64_t rows,
		      float numbers[MLP_NUMBERS])
{
	struct adam_step step = adam_step(mlp);

	numbers[MLP_FACTOR] = (float)mlp_factor(mlp, rows);
	numbers[MLP_EPSILON] = (float)step.epsilon;
	numbers[MLP_SCALE] = (float)step.scale;
}

enum kiln_status mlp_create_numbers(struct mlp *mlp,
				    struct kiln_device *device)
{
	const int64_t count = MLP_NUMBERS;

	TRY(kiln_zeros(&mlp->numbers, device, KILN_F32, 1, &count));
	for (int i = 0; i < MLP_NUMBERS; i++) {
		const struct kiln_slice one = { i, i + 1, 1 };

		TRY(kiln_slice(&mlp->number[i], mlp->numbers, 1, &one));
	}
	return KILN_OK;
}

/* ---- The rest ---- */

static enum kiln_status add_to_sum(uint64_t *sum, struct kiln_tensor *tensor)
{
	size_t bytes = kiln_tensor_size_bytes(tensor);
	unsigned char *data = malloc(bytes);
	enum kiln_status status = KILN_ERR_NO_MEMORY;

	if (data)
		status = kiln_tensor_read(tensor, data, bytes);
	for (size_t i = 0; !status && i < bytes; i++)
		*sum = (*sum ^ data[i]) * 0x100000001b3u; /* FNV-1a */
	free(data);
	return status;
}

enum kiln_status mlp_checksum(const struct mlp *mlp, uint64_t *sum)
{
	*sum = 0xcbf29ce484222325u;
	TRY(add_to_sum(sum, mlp->w1.value));
	return add_to_sum(sum, mlp->rest.value);
}

void mlp_free(struct mlp *mlp)
{
	mlp_forget(mlp);
	for (int i = 0; i < MLP_NUMBERS; i++)
		kiln_tensor_clear(&mlp->number[i]);
	kiln_tensor_clear(&mlp->numbers);
	free_group(&mlp->w1);
	free_group(&mlp->rest);
}
