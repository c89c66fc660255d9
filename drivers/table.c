/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/driver.h"

#define KILNI_DRIVER(name) extern const struct kilni_driver kilni_##name##_driver;
#include "drivers/table.def"

const struct kilni_driver *const kilni_drivers[] = {
#define KILNI_DRIVER(name) &kilni_##name##_driver,
#include "drivers/table.def"
	NULL,
};
