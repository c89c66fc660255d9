/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { 3, 4 };
	const struct kiln_slice odd_columns[] = {
		{ 0, KILN_SLICE_END, 1 }, { 1, KILN_SLICE_END, 2 }
	};
	int32_t y[6];

	if (kiln_device_open(&device, NULL) ||
	    kiln_arange(&x, device, KILN_I32, 0, 12, 1) ||
	    kiln_reshape(&x, x, 2, shape) ||
	    kiln_slice(&x, x, 2, odd_columns) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (int i = 0; i < 6; i++)
		printf("%d ", y[i]); /* 1 3 5 7 9 11 */
	putchar('\n');
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
