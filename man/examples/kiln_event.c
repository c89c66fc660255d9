/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* Waits for a stream's work, at most a second at a time. */
int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_stream *stream = NULL;
	struct kiln_event *event = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1 << 20 };
	enum kiln_status status;

	if (kiln_device_open(&device, NULL) ||
	    kiln_stream_current(&stream, device) ||
	    kiln_ones(&x, device, KILN_F32, 1, shape) ||
	    kiln_exp(&x, x) || kiln_event_record(&event, stream)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	while ((status = kiln_event_wait(event, 1000000000)) ==
	       KILN_ERR_TIMEOUT)
		printf("still at work\n");
	printf("%s\n", kiln_status_text(status));
	kiln_tensor_release(x);
	kiln_event_release(event);
	kiln_stream_release(stream);
	kiln_device_release(device);
	return 0;
}
