/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const struct kiln_distribution normal = {
		.kind = KILN_RANDOM_NORMAL, .a = 0, .b = 1
	};
	const int64_t shape[] = { 4 };
	float y[4];

	if (kiln_device_open(&device, NULL) ||
	    kiln_device_seed(device, 42) ||
	    kiln_random(&x, device, KILN_F32, 1, shape, normal) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (int i = 0; i < 4; i++)
		printf("%g\n", y[i]);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
