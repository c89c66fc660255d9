/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_MLP_H
#define EXAMPLES_MLP_H

#include <stdint.h>

#include <kiln/kiln.h>

/* Passes a failure on to the caller. */
#define TRY(call)                                                              \
	do {                                                                   \
		enum kiln_status try_ = (call);                                \
		if (try_)                                                      \
			return try_;                                           \
	} while (0)

/* Parameters that Adam moves together, with its two running means. */
struct mlp_group {
	struct kiln_tensor *value;
	struct kiln_tensor *first;  /* of the gradients */
	struct kiln_tensor *second; /* of their squares */
};

/* Numbers that change from step to step. */
enum mlp_number { MLP_FACTOR, MLP_EPSILON, MLP_SCALE, MLP_NUMBERS };

/*
 * x -> relu(x W1 + b1) W2 + b2. The large W1 is a group of its own; the rest
 * lies in one flat tensor, b1 W2 b2, of which views are taken.
 */
struct mlp {
	int64_t inputs, hidden, classes;
	double rate;
	int64_t steps; /* taken so far */
	double units;  /* of Adam's means in 1, see there */
	struct mlp_group w1, rest;
	/*
	 * What changes from step to step, where a step is captured in a graph
	 * and such numbers cannot be its own: f32 [MLP_NUMBERS], and views of
	 * its elements.
	 */
	struct kiln_tensor *numbers, *number[MLP_NUMBERS];
	/* Of the latest forward pass. */
	struct kiln_tensor *b1, *w2, *b2, *h, *z;
};

/* Random parameters from the device's seed. */
enum kiln_status mlp_create(struct mlp *mlp, struct kiln_device *device,
			    int64_t inputs, int64_t hidden, int64_t classes,
			    double rate);

/* The parameters by name, to and from a safetensors file. */
enum kiln_status mlp_save(struct mlp *mlp, const char *path);
enum kiln_status mlp_load(struct mlp *mlp, const char *path);

/* Takes the views b1, w2 and b2, until mlp_forget(). */
enum kiln_status mlp_view(struct mlp *mlp);

/* Leaves the scores of the rows of x in mlp->z. */
enum kiln_status mlp_forward(struct mlp *mlp, struct kiln_tensor *x);

/* Mean cross-entropy of the latest forward pass; waits for it. */
enum kiln_status mlp_loss(struct mlp *mlp, struct kiln_tensor *one_hot,
			  float *loss);

/* Backward pass of the latest forward pass and one step of Adam. */
enum kiln_status mlp_learn(struct mlp *mlp, struct kiln_tensor *x,
			   struct kiln_tensor *one_hot);

/*
 * The same in two parts, the first of which stays out of a captured step, and
 * with the numbers of the step read from mlp->numbers.
 */
enum kiln_status mlp_begin_step(struct mlp *mlp);
enum kiln_status mlp_learn_by_numbers(struct mlp *mlp, struct kiln_tensor *x,
				      struct kiln_tensor *one_hot);

/* The numbers of the step that was begun; rows: of its batch. */
void mlp_step_numbers(const struct mlp *mlp, int64_t rows,
		      float numbers[MLP_NUMBERS]);
/* What mlp_begin_step() does to mlp itself, on no device. */
void mlp_count_step(struct mlp *mlp);
/* Makes mlp->numbers. */
enum kiln_status mlp_create_numbers(struct mlp *mlp,
				    struct kiln_device *device);

/* A number that depends on every bit of the parameters. */
enum kiln_status mlp_checksum(const struct mlp *mlp, uint64_t *sum);

/* Drops what the latest forward pass left. */
void mlp_forget(struct mlp *mlp);

void mlp_free(struct mlp *mlp);

#endif
