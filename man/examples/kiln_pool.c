/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

#define MAX 32

int main(void)
{
	struct kiln_pool_info infos[MAX];
	struct kiln_device *device = NULL;
	size_t count = MAX;
	bool available;

	for (size_t i = 0; i < MAX; i++)
		infos[i] = (struct kiln_pool_info)KILN_POOL_INFO_INIT;
	if (kiln_device_open(&device, NULL) ||
	    kiln_memory_pools(device, infos, &count, &available)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (size_t i = 0; available && i < count && i < MAX; i++)
		printf("up to %llu bytes: %llu pages\n",
		       (unsigned long long)infos[i].max_slice_bytes,
		       (unsigned long long)infos[i].pages);
	kiln_device_release(device);
	return 0;
}
