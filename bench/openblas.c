/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openblas - seconds of an f32 matrix product of 1024 x 1024 with OpenBLAS.
 * OPENBLAS_NUM_THREADS sets its threads. Prints one JSON object.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SIZE 1024
#define REPEATS 15

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *random_matrix(void)
{
	float *matrix = malloc(sizeof(*matrix) * SIZE * SIZE);

	for (int i = 0; matrix && i < SIZE * SIZE; i++)
		matrix[i] = (float)rand() / (float)RAND_MAX - 0.5f;
	return matrix;
}

static double product_seconds(const float *a, const float *b, float *c)
{
	double start = now_seconds();

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE,
		    1.0f, a, SIZE, b, SIZE, 0.0f, c, SIZE);
	return now_seconds() - start;
}

int main(void)
{
	float *a = random_matrix(), *b = random_matrix(), *c = random_matrix();
	double best = 0;

	if (!a || !b || !c)
		return 1;
	for (int i = 0; i < REPEATS; i++) {
		double seconds = product_seconds(a, b, c);

		if (!i || seconds < best)
			best = seconds;
	}
	printf("{\"library\": \"OpenBLAS %s\", "
	       "\"seconds\": {\"matmul_f32_1024\": %.9g}}\n",
	       openblas_get_config(), best);
	free(a);
	free(b);
	free(c);
	return 0;
}
