/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_tensor *top = KILN_TENSOR_NONE;
	struct kiln_tensor *where = KILN_TENSOR_NONE;
	const float data[] = { 1, 5, 2, 8, 3, 8 };
	const int64_t shape[] = { 2, 3 };
	float value[2];
	int32_t index[2];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 2, shape, data,
				  sizeof(data)) ||
	    kiln_max_dim_with_indices(&top, &where, x, 1, KILN_I32) ||
	    kiln_tensor_read(top, value, sizeof(value)) ||
	    kiln_tensor_read(where, index, sizeof(index))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g at %d\n", value[0], index[0]); /* 5 at 1 */
	printf("%g at %d\n", value[1], index[1]); /* 8 at 0 */
	kiln_tensor_release(where);
	kiln_tensor_release(top);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
