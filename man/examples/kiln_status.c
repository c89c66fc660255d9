/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* An unknown selector: the call fails, the record says why. */
int main(void)
{
	struct kiln_device *device = NULL;
	enum kiln_status status = kiln_device_open(&device, "moon");

	printf("%s (%s)\n", kiln_status_name(status),
	       kiln_status_text(status));
	printf("%s\n", kiln_error_message());
	if (kiln_status_scope(status) == KILN_SCOPE_CALL)
		printf("nothing but the call is affected\n");
	kiln_error_clear();
	return status == KILN_ERR_SELECTOR ? 0 : 1;
}
