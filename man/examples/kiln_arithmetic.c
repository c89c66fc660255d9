/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const float data[] = { 3, 4 };
	const int64_t shape[] = { 2 };
	float y[2];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 1, shape, data,
				  sizeof(data)) ||
	    kiln_square(&x, x) ||
	    kiln_mul_scalar(&x, x, kiln_float(0.5)) ||
	    kiln_sqrt(&x, x) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g %g\n", y[0], y[1]);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
