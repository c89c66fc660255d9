/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlp_products - times the five matrix products of a training step alone
 *
 * Those of examples/mlp.c with batches of 64. Prints one JSON object with the
 * best milliseconds a step.
 */
#include <kiln/kiln.h>
#include <stdio.h>
#include <time.h>

#define BATCH 64
#define INPUTS 784
#define HIDDEN 128
#define CLASSES 10
#define ROUNDS 200
#define REPEATS 10

#define TRY(call)                                                              \
	do {                                                                   \
		enum kiln_status try_ = (call);                                \
		if (try_)                                                      \
			return try_;                                           \
	} while (0)

struct operands {
	struct kiln_device *device;
	struct kiln_tensor *x, *w1, *h, *w2, *dz, *dh; /* as in a step */
	struct kiln_tensor *xt, *ht, *w2t;             /* transposed views */
	struct kiln_tensor *out[5];
};

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum kiln_status make(struct kiln_tensor **out,
			     struct kiln_device *device, int64_t rows,
			     int64_t columns)
{
	const struct kiln_distribution any = { KILN_RANDOM_DEFAULT, 0, 0 };
	const int64_t shape[] = { rows, columns };

	return kiln_random(out, device, KILN_F32, 2, shape, any);
}

static enum kiln_status prepare(struct operands *o)
{
	TRY(kiln_device_open(&o->device, NULL));
	TRY(make(&o->x, o->device, BATCH, INPUTS));
	TRY(make(&o->w1, o->device, INPUTS, HIDDEN));
	TRY(make(&o->h, o->device, BATCH, HIDDEN));
	TRY(make(&o->w2, o->device, HIDDEN, CLASSES));
	TRY(make(&o->dz, o->device, BATCH, CLASSES));
	TRY(make(&o->dh, o->device, BATCH, HIDDEN));
	TRY(kiln_transpose(&o->xt, o->x));
	TRY(kiln_transpose(&o->ht, o->h));
	return kiln_transpose(&o->w2t, o->w2);
}

static enum kiln_status multiply(struct operands *o)
{
	TRY(kiln_matmul(&o->out[0], o->x, o->w1));
	TRY(kiln_matmul(&o->out[1], o->h, o->w2));
	TRY(kiln_matmul(&o->out[2], o->ht, o->dz));
	TRY(kiln_matmul(&o->out[3], o->dz, o->w2t));
	return kiln_matmul(&o->out[4], o->xt, o->dh);
}

static enum kiln_status measure(struct operands *o, double *best)
{
	for (int i = 0; i < REPEATS; i++) {
		double seconds = now_seconds();

		for (int j = 0; j < ROUNDS; j++)
			TRY(multiply(o));
		TRY(kiln_device_sync(o->device));
		seconds = (now_seconds() - seconds) / ROUNDS;
		if (!i || seconds < *best)
			*best = seconds;
	}
	return KILN_OK;
}

static void clean_up(struct operands *o)
{
	struct kiln_tensor *all[] = { o->x,  o->w1, o->h,  o->w2, o->dz,
				      o->dh, o->xt, o->ht, o->w2t };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		kiln_tensor_release(all[i]);
	for (int i = 0; i < 5; i++)
		kiln_tensor_release(o->out[i]);
	kiln_device_release(o->device);
}

int main(void)
{
	struct operands operands = { 0 };
	double best = 0;
	enum kiln_status status = prepare(&operands);

	if (!status)
		status = measure(&operands, &best);
	clean_up(&operands);
	if (status) {
		fprintf(stderr, "mlp_products: %s\n", kiln_error_message());
		return 1;
	}
	printf("{\"matmul_ms_per_step\": %.6f}\n", 1e3 * best);
	return 0;
}
