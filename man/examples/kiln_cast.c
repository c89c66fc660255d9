/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const float data[] = { -1.5f, 2.5f, 3e9f };
	const int64_t shape[] = { 3 };
	int32_t y[3];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 1, shape, data,
				  sizeof(data)) ||
	    kiln_cast(&x, x, KILN_I32) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%d %d %d\n", y[0], y[1], y[2]); /* -1 2 2147483647 */
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
