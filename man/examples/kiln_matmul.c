/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_tensor *w = KILN_TENSOR_NONE;
	const float data[] = { 1, 2, 3, 4 };
	const int64_t shape[] = { 2, 2 };
	float y[4];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 2, shape, data,
				  sizeof(data)) ||
	    kiln_transpose(&w, x) ||
	    kiln_matmul(&x, x, w) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g %g\n%g %g\n", y[0], y[1], y[2], y[3]);
	kiln_tensor_release(w);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
