/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/version.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

unsigned kiln_version(void)
{
	return KILN_VERSION;
}

const char *kiln_version_string(void)
{
	return TEXT(KILN_VERSION_MAJOR) "." TEXT(KILN_VERSION_MINOR) "." TEXT(
		KILN_VERSION_PATCH);
}
