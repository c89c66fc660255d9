/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

#define MAX 16

/* Lists the devices and opens the best one. */
int main(void)
{
	struct kiln_device_info infos[MAX];
	struct kiln_device *device = NULL;
	size_t count = MAX;

	for (size_t i = 0; i < MAX; i++)
		infos[i].struct_size = sizeof(infos[i]);
	if (kiln_device_enumerate(KILN_DEVICE_ANY, infos, &count) ||
	    kiln_device_open(&device, "auto")) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (size_t i = 0; i < count && i < MAX; i++)
		printf("%s: %s\n", infos[i].selector, infos[i].name);
	printf("in use: %s\n", kiln_device_describe(device));
	kiln_device_release(device);
	return 0;
}
