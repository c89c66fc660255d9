/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <inttypes.h>
#include <stdio.h>

static enum kiln_status step(void *user)
{
	struct kiln_tensor **x = user;

	return kiln_matmul(x, *x, *x);
}

int main(void)
{
	struct kiln_device *dev = NULL;
	struct kiln_tensor *x = NULL;
	struct kiln_duration *time = NULL;
	uint64_t ns;

	if (kiln_device_open(&dev, "cpu") ||
	    kiln_zeros(&x, dev, KILN_F32, 2, (const int64_t[]){ 512, 512 }) ||
	    kiln_profile(&time, dev, NULL, step, &x) ||
	    kiln_duration_wait(time, -1))
		return fprintf(stderr, "%s\n", kiln_error_message()), 1;
	if (kiln_duration_query(time, &ns) == KILN_DURATION_MEASURED)
		printf("%" PRIu64 " ns\n", ns);
	kiln_duration_release(time);
	kiln_tensor_release(x);
	kiln_device_release(dev);
}
