/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* Work on a second stream; the read waits for it by itself. */
int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_stream *stream = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { 4 };
	float y[4];

	if (kiln_device_open(&device, NULL) ||
	    kiln_ones(&x, device, KILN_F32, 1, shape) ||
	    kiln_stream_create(&stream, device) ||
	    kiln_stream_set_current(device, stream) ||
	    kiln_add_scalar(&x, x, kiln_float(1)) ||
	    kiln_stream_set_current(device, NULL) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g\n", y[0]);
	kiln_tensor_release(x);
	kiln_stream_release(stream);
	kiln_device_release(device);
	return 0;
}
