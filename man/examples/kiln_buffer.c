/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_buffer *buffer = NULL;
	void *host;

	if (kiln_device_open(&device, "cpu") ||
	    kiln_buffer_create(&buffer, device, NULL, 1 << 20)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	host = kiln_buffer_host(buffer);
	if (host)
		memset(host, 0, (size_t)kiln_buffer_size_bytes(buffer));
	printf("%llu bytes at %#llx\n",
	       (unsigned long long)kiln_buffer_size_bytes(buffer),
	       (unsigned long long)kiln_buffer_address(buffer));
	kiln_buffer_release(buffer);
	kiln_device_release(device);
	return 0;
}
