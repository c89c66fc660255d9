/* SPDX-License-Identifier: Apache-2.0 */
/* Cards of kiln info: each once, and every way to it. */
#include "tools/info.h"

#include <stdlib.h>

static json_t *describe_device(const struct kiln_card_device *device)
{
	json_t *object = json_object();

	json_object_set_new(object, "selector", info_text(device->selector));
	json_object_set_new(object, "type",
			    json_string(info_type_name(device->type)));
	json_object_set_new(object, "index", json_integer(device->index));
	json_object_set_new(object, "kind",
			    json_string(kiln_device_kind_name(device->kind)));
	json_object_set_new(object, "slice", json_boolean(device->slice));
	json_object_set_new(object, "name", info_text(device->name));
	json_object_set_new(object, "uuid", info_text(device->uuid));
	json_object_set_new(object, "memory_bytes",
			    info_bytes(device->memory_bytes));
	json_object_set_new(object, "driver_version",
			    info_text(device->version));
	json_object_set_new(object, "refused", info_text(device->refused));
	return object;
}

static json_t *describe_devices(const struct kiln_card *card)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < card->device_count; i++)
		json_array_append_new(devices,
				      describe_device(&card->devices[i]));
	return devices;
}

static json_t *describe_absences(const struct kiln_card *card)
{
	json_t *absences = json_array();

	for (size_t i = 0; i < card->absence_count; i++) {
		const struct kiln_card_absence *absence = &card->absences[i];
		json_t *object = json_object();

		json_object_set_new(object, "driver",
				    json_string(info_type_name(absence->type)));
		json_object_set_new(object, "reason",
				    info_text(absence->reason));
		json_array_append_new(absences, object);
	}
	return absences;
}

/* Why a card has no address; the CPU is on no bus. */
static json_t *explain_pci(const struct kiln_card *card)
{
	if (card->pci || (card->device_count &&
			  card->devices[0].type == KILN_DEVICE_CPU))
		return json_null();
	return json_string("PCI unknown: its driver tells no address, so that "
			   "it stands alone");
}

static json_t *describe_card(const struct kiln_card *card)
{
	json_t *object = json_object();

	json_object_set_new(object, "pci", info_text(card->pci));
	json_object_set_new(object, "alone", explain_pci(card));
	json_object_set_new(object, "name", info_text(card->name));
	json_object_set_new(object, "kind",
			    json_string(kiln_device_kind_name(card->kind)));
	json_object_set_new(object, "uuid", info_text(card->uuid));
	json_object_set_new(object, "memory_bytes",
			    info_bytes(card->memory_bytes));
	json_object_set_new(object, "numa_node",
			    card->numa_node < 0
				    ? json_null()
				    : json_integer(card->numa_node));
	json_object_set_new(object, "cpus", info_text(card->cpus));
	json_object_set_new(object, "link", info_text(card->link));
	json_object_set_new(object, "kernel_driver",
			    info_text(card->kernel_driver));
	json_object_set_new(object, "node", info_text(card->node));
	json_object_set_new(object, "unusable", info_text(card->unusable));
	json_object_set_new(object, "devices", describe_devices(card));
	json_object_set_new(object, "absent", describe_absences(card));
	return object;
}

json_t *info_cards(const struct kiln_physical *listing, int *code)
{
	json_t *cards = json_array();

	for (size_t i = 0; i < kiln_physical_count(listing); i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		json_array_append_new(cards, describe_card(card));
		if (card->no_permission && *code == EXIT_SUCCESS)
			*code = INFO_NO_PERMISSION;
	}
	return cards;
}
