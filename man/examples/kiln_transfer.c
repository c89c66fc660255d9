/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

#define STEPS 4

/* Steps whose results travel to the host while the next ones are queued. */
int main(void)
{
	struct kiln_completion done = KILN_COMPLETION_INIT;
	struct kiln_completions *ring = NULL;
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE, *sum = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1 << 20 };
	float result[STEPS];
	size_t one = 1;
	int failed;

	failed = kiln_device_open(&device, NULL) ||
		 kiln_completions_create(&ring, STEPS) ||
		 kiln_ones(&x, device, KILN_F32, 1, shape);
	for (int i = 0; i < STEPS && !failed; i++)
		failed = kiln_add(&x, x, x) || kiln_sum(&sum, x) ||
			 kiln_tensor_read_async(sum, &result[i],
						sizeof(result[i]), ring,
						(uint64_t)i);
	for (int i = 0; i < STEPS && !failed; i++) {
		failed = kiln_completions_wait(ring, -1) ||
			 kiln_completions_take(ring, &done, &one);
		if (!failed)
			printf("step %d: %g, %s\n", (int)done.user,
			       (double)result[done.user],
			       kiln_status_text(done.status));
	}
	if (failed)
		fprintf(stderr, "%s\n", kiln_error_message());
	kiln_tensor_release(sum);
	kiln_tensor_release(x);
	kiln_completions_release(ring);
	/* Closes the device once nothing is under way any more. */
	kiln_device_release(device);
	return failed;
}
