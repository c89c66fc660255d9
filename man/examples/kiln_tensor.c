/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const float data[] = { 1, 2, 3, 4, 5, 6 };
	const int64_t shape[] = { 2, 3 };
	float copy[6];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&x, device, KILN_F32, 2, shape, data,
				  sizeof(data)) ||
	    kiln_tensor_read(x, copy, sizeof(copy))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%d axes, %lld elements, the last is %g\n",
	       kiln_tensor_rank(x), (long long)kiln_tensor_count(x), copy[5]);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
