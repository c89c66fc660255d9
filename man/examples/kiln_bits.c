/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	int32_t y[8];

	if (kiln_device_open(&device, NULL) ||
	    kiln_arange(&x, device, KILN_I32, 0, 8, 1) ||
	    kiln_bitwise_left_shift_scalar(&x, x, kiln_int(4)) ||
	    kiln_bitwise_or_scalar(&x, x, kiln_int(1)) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%d %d\n", y[0], y[7]); /* 1 113 */
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
