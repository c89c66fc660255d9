/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* The headers may be newer than the library in use. */
int main(void)
{
	printf("kiln %s\n", kiln_version_string());
	return kiln_version() >= KILN_VERSION ? 0 : 1;
}
