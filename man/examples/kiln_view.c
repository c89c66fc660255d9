/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

#define MAX 256

int main(void)
{
	static struct kiln_view_process found[MAX];
	size_t count = MAX;

	for (size_t i = 0; i < MAX; i++)
		found[i].struct_size = sizeof(found[i]);
	if (kiln_view_enumerate(found, &count)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (size_t i = 0; i < count && i < MAX; i++)
		if (found[i].status)
			printf("%llu: %s\n", (unsigned long long)found[i].pid,
			       found[i].reason);
		else
			printf("%llu: %llu bytes reserved\n",
			       (unsigned long long)found[i].pid,
			       (unsigned long long)found[i].reserved_bytes);
	return 0;
}
