/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_VERSION_H
#define KILN_VERSION_H

#include <kiln/export.h>

KILN_BEGIN_DECLS

/* Version of the headers; kiln_version() is that of the library in use. */
#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

/* One number to compare: 0xMMmmpp. */
#define KILN_VERSION                                                           \
	((KILN_VERSION_MAJOR << 16) | (KILN_VERSION_MINOR << 8) |              \
	 KILN_VERSION_PATCH)

/**
 * kiln_version - version of the library in use, as KILN_VERSION
 *
 * Never fails. Thread-safe, does not block.
 */
KILN_API unsigned kiln_version(void);

/**
 * kiln_version_string - version of the library in use, "0.1.0"
 *
 * A constant string. Never fails. Thread-safe, does not block.
 */
KILN_API const char *kiln_version_string(void);

KILN_END_DECLS

#endif
