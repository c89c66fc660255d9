/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_memory_usage usage = KILN_MEMORY_USAGE_INIT;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1000, 1000 };
	bool available;

	if (kiln_device_open(&device, NULL) ||
	    kiln_persistent_begin(device) ||
	    kiln_zeros(&x, device, KILN_F32, 2, shape) ||
	    kiln_persistent_end(device) ||
	    kiln_memory_usage(device, &usage, &available)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	if (available)
		printf("%llu bytes live, %llu reserved\n",
		       (unsigned long long)usage.live_bytes,
		       (unsigned long long)usage.reserved_bytes);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
