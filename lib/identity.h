/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_IDENTITY_H
#define KILNI_LIB_IDENTITY_H

#include "drivers/pci.h"
#include "lib/internal.h"

/* The registered drivers; others in a test. NULL at the end. */
extern const struct kilni_driver *const *kilni_driver_list;

/* The first driver of a type, or NULL. */
const struct kilni_driver *kilni_driver_of(enum kiln_device_type type);
bool kilni_is_gpu(const struct kilni_driver *driver);

/* A device that a driver has, opened or not. */
struct kilni_place {
	const struct kilni_driver *driver;
	unsigned index;
	struct kilni_hw_info info;
};

enum kiln_status kilni_place_look(const struct kilni_driver *driver,
				  unsigned index, struct kilni_place *place);

/* The device that a selector means. As kiln_device_open; opens nothing. */
enum kiln_status kilni_selector_find(const char *selector,
				     struct kilni_place *place);

/* Whether the text is a selector, of a device that is here or not. */
enum kiln_status kilni_selector_check(const char *selector);

/* The selector that opens exactly this device. */
void kilni_selector_print(const struct kilni_place *place, char *text,
			  size_t size);

/* Address in the one spelling that there is; "" where it is none. */
void kilni_place_address(const struct kilni_hw_info *info, char *text,
			 size_t size);

#endif
