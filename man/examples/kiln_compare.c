/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const float data[] = { -1, 0, 1 };
	const int64_t shape[] = { 3 };
	unsigned char y[3];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 1, shape, data,
				  sizeof(data)) ||
	    kiln_greater_scalar(&x, x, kiln_float(0), KILN_BOOL) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%d %d %d\n", y[0], y[1], y[2]); /* 0 0 1 */
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
