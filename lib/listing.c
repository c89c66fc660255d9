/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that there are, opened or not, and what tells them apart. */
#include "lib/identity.h"

#include <stdio.h>

/* Address in the one spelling that there is; "" where it is none. */
void kilni_place_address(const struct kilni_hw_info *info, char *text,
			 size_t size)
{
	char printed[KILNI_PCI_BYTES] = "";
	struct kilni_pci pci;

	if (kilni_pci_parse(info->pci, &pci))
		kilni_pci_print(&pci, printed);
	snprintf(text, size, "%s", printed);
}

/* ---- listing ---- */

size_t kiln_device_count(unsigned types)
{
	size_t count = 0;

	for (size_t i = 0; kilni_driver_list[i]; i++)
		if (kilni_driver_list[i]->type & types)
			count += kilni_driver_list[i]->driver->count();
	return count;
}

static enum kiln_status fill_info(const struct kilni_driver *driver,
				  unsigned index,
				  struct kiln_device_info *info)
{
	struct kilni_place place;

	if (info->struct_size != sizeof(*info))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_enumerate: struct_size %zu is "
				  "unknown",
				  info->struct_size);
	KILNI_TRY(kilni_place_look(driver, index, &place));
	info->type = driver->type;
	info->index = index;
	info->memory_bytes = place.info.memory_bytes;
	info->kind = place.info.kind;
	kilni_selector_print(&place, info->selector, sizeof(info->selector));
	kilni_utf8_copy(info->name, sizeof(info->name), place.info.name);
	kilni_utf8_copy(info->uuid, sizeof(info->uuid), place.info.uuid);
	kilni_utf8_copy(info->refused, sizeof(info->refused),
			place.info.refused);
	kilni_place_address(&place.info, info->pci, sizeof(info->pci));
	return KILN_OK;
}

enum kiln_status kiln_device_enumerate(unsigned types,
				       struct kiln_device_info *infos,
				       size_t *count)
{
	size_t capacity, found = 0;

	if (!count)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_enumerate: count is NULL");
	capacity = infos ? *count : 0;
	for (size_t i = 0; kilni_driver_list[i]; i++) {
		const struct kilni_driver *driver = kilni_driver_list[i];
		size_t devices = driver->driver->count();

		if (!(driver->type & types))
			continue;
		for (unsigned n = 0; n < devices; n++, found++)
			if (found < capacity)
				KILNI_TRY(fill_info(driver, n, &infos[found]));
	}
	*count = found;
	return KILN_OK;
}

const char *kiln_device_absent(enum kiln_device_type type)
{
	const struct kilni_driver *driver = kilni_driver_of(type);

	return driver ? driver->driver->absent()
		      : "this build has no such driver";
}

/* ---- identity ---- */

enum kiln_status kiln_device_identity(const struct kiln_device *device,
				      struct kiln_identity *identity)
{
	unsigned type;

	KILNI_CHECK_DEVICE(device, __func__);
	if (!identity || identity->struct_size != sizeof(*identity))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_identity: identity is NULL or "
				  "of unknown size");
	type = device->hw->driver->type;
	identity->type_id = (unsigned)__builtin_ctz(type);
	identity->index_id = device->hw->index;
	identity->kind = device->info.kind;
	identity->slice = device->info.slice;
	kilni_place_address(&device->info, identity->pci,
			    sizeof(identity->pci));
	kilni_utf8_copy(identity->uuid, sizeof(identity->uuid),
			device->info.uuid);
	return KILN_OK;
}

bool kiln_identity_same_card(const struct kiln_identity *a,
			     const struct kiln_identity *b)
{
	if (!a || !b)
		return false;
	if (*a->pci && *b->pci)
		return !strcmp(a->pci, b->pci);
	return !*a->pci && !*b->pci && a->type_id == b->type_id &&
	       a->index_id == b->index_id;
}
