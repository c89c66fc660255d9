/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const float scores[] = { 1, 2, 3 };
	const int64_t shape[] = { 1, 3 };
	float y[3];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 2, shape, scores,
				  sizeof(scores)) ||
	    kiln_softmax(&x, x, 1) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%.3f %.3f %.3f\n", y[0], y[1], y[2]);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
