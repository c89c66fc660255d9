/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the installed library, in the common part of C and C++. */
#include <stdio.h>

#include <kiln/kiln.h>

int main(void)
{
	const float data[3] = { 1, 2, 3 };
	const int64_t shape[1] = { 3 };
	float sum[3] = { 0, 0, 0 };
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	int failed = 1;

	if (kiln_device_open(&device, "cpu") == KILN_OK &&
	    kiln_tensor_from_data(&x, device, KILN_F32, 1, shape, data,
				  sizeof(data)) == KILN_OK &&
	    kiln_add(&x, x, x) == KILN_OK &&
	    kiln_tensor_read(x, sum, sizeof(sum)) == KILN_OK)
		failed = sum[0] != 2 || sum[1] != 4 || sum[2] != 6;
	if (failed)
		fprintf(stderr, "hello: %s\n", kiln_error_message());
	if (kiln_version() != KILN_VERSION)
		failed = 1;
	kiln_tensor_release(x);
	kiln_device_release(device);
	return failed;
}
