/* SPDX-License-Identifier: Apache-2.0 */
/* The listing of cards as the caller sees it. */
#include "lib/physical.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A text of the listing. */
struct text {
	struct text *next;
	char text[];
};

struct kiln_physical {
	struct kiln_card *cards;
	size_t count;
	struct text *texts;
	bool failed;             /* there was no memory for a part */
};

/* ---- its parts ---- */

/* A copy that the listing owns, in UTF-8; NULL for an empty text. */
static const char *keep(struct kiln_physical *listing, const char *text)
{
	struct text *copy;
	size_t size;

	if (!text || !*text)
		return NULL;
	size = 3 * strlen(text) + 1;
	copy = malloc(sizeof(*copy) + size);
	if (!copy) {
		listing->failed = true;
		return NULL;
	}
	kilni_utf8_copy(copy->text, size, text);
	copy->next = listing->texts;
	listing->texts = copy;
	return copy->text;
}

static void fill_device(struct kiln_physical *listing,
			const struct kilni_place *place,
			struct kiln_card_device *device)
{
	char selector[64];

	kilni_selector_print(place, selector, sizeof(selector));
	device->type = place->driver->type;
	device->kind = place->info.kind;
	device->index = place->index;
	device->slice = place->info.slice;
	device->selector = keep(listing, selector);
	device->name = keep(listing, place->info.name);
	device->uuid = keep(listing, place->info.uuid);
	device->memory_bytes = place->info.memory_bytes;
	device->version = keep(listing, place->info.version);
	device->refused = keep(listing, place->info.refused);
}

static void fill_devices(struct kiln_physical *listing,
			 const struct kilni_found *found,
			 struct kiln_card *card)
{
	struct kiln_card_device *devices =
		calloc(found->place_count + 1, sizeof(*devices));

	card->devices = devices;
	if (!devices) {
		listing->failed = true;
		return;
	}
	for (size_t i = 0; i < found->place_count; i++)
		fill_device(listing, &found->places[i], &devices[i]);
	card->device_count = found->place_count;
}

/* ---- why not ---- */

/* APIs that can have a way to a card. */
static const enum kiln_device_type gpu_types[] = { KILN_DEVICE_CUDA,
						   KILN_DEVICE_VULKAN };

static bool has_type(const struct kilni_found *found,
		     enum kiln_device_type type)
{
	for (size_t i = 0; i < found->place_count; i++)
		if (found->places[i].driver->type == type)
			return true;
	return false;
}

static const char *hidden_text(char *text, size_t size)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	const char *order = getenv("CUDA_DEVICE_ORDER");

	if (kilni_visible_order_is_good(order))
		snprintf(text, size, "CUDA_VISIBLE_DEVICES is \"%.100s\"",
			 list ? list : "");
	else
		snprintf(text, size, "CUDA does not start: CUDA_DEVICE_ORDER "
				     "is \"%.60s\"",
			 order);
	return text;
}

/* The reason why an API has no way to a card; NULL where none is due. */
static const char *absence(const struct kilni_found *found,
			   enum kiln_device_type type, bool asked, char *text,
			   size_t size)
{
	bool cuda = type == KILN_DEVICE_CUDA;
	const char *absent;

	if (cuda && found->hidden)
		return hidden_text(text, size);
	if (!asked || (cuda && found->card.vendor != KILNI_VENDOR_NVIDIA))
		return NULL;
	absent = kiln_device_absent(type);
	if (absent)
		return absent;
	if (*found->card.reason)
		return found->card.reason;
	if (!cuda)
		return "no Vulkan driver shows the card";
	return getenv("CUDA_VISIBLE_DEVICES") ? hidden_text(text, size)
					      : "CUDA does not show the card";
}

static void fill_absences(struct kiln_physical *listing,
			  const struct kilni_found *found, bool asked,
			  struct kiln_card *card)
{
	struct kiln_card_absence *absences =
		calloc(KILNI_COUNTOF(gpu_types), sizeof(*absences));
	char text[160];

	card->absences = absences;
	if (!absences) {
		listing->failed = true;
		return;
	}
	for (size_t i = 0; found->probed && i < KILNI_COUNTOF(gpu_types); i++) {
		const char *reason;

		if (has_type(found, gpu_types[i]))
			continue;
		reason = absence(found, gpu_types[i], asked, text,
				 sizeof(text));
		if (!reason)
			continue;
		absences[card->absence_count].type = gpu_types[i];
		absences[card->absence_count++].reason = keep(listing, reason);
	}
}

static bool works(const struct kilni_found *found)
{
	for (size_t i = 0; i < found->place_count; i++)
		if (!*found->places[i].info.refused)
			return true;
	return false;
}

/* ---- a card ---- */

/* The device that speaks for the whole card; NULL where there are slices. */
static const struct kilni_hw_info *speaker(const struct kilni_found *found)
{
	for (size_t i = 0; i < found->place_count; i++)
		if (!found->places[i].info.slice)
			return &found->places[i].info;
	return NULL;
}

static void fill_known(struct kiln_physical *listing,
		       const struct kilni_found *found, struct kiln_card *card)
{
	const struct kilni_hw_info *info = speaker(found);
	const char *name = info ? info->name : found->card.name;
	const char *uuid = found->card.uuid;

	/* A slice that nothing else speaks for. */
	if (!*name && found->place_count)
		name = found->places[0].info.name;
	if (!*uuid && info)
		uuid = info->uuid;
	card->name = keep(listing, name);
	card->uuid = keep(listing, uuid);
	card->kind = found->place_count ? found->places[0].info.kind
					: KILN_KIND_OTHER;
	card->memory_bytes = info && info->memory_bytes
				     ? info->memory_bytes
				     : found->card.memory_bytes;
}

static void fill_card(struct kiln_physical *listing,
		      const struct kilni_found *found, bool asked,
		      struct kiln_card *card)
{
	char address[KILNI_PCI_BYTES];

	kilni_pci_print(&found->card.pci, address);
	card->pci = found->alone ? NULL : keep(listing, address);
	card->vendor_id = found->card.vendor;
	card->device_id = found->card.device;
	card->numa_node = found->card.numa_node;
	card->cpus = keep(listing, found->card.cpus);
	card->link = keep(listing, found->card.link);
	card->kernel_driver = keep(listing, found->card.kernel_driver);
	card->node = keep(listing, found->card.node);
	fill_known(listing, found, card);
	if (!works(found)) {
		card->unusable = keep(listing, found->card.reason);
		card->no_permission = found->card.no_permission;
	}
	fill_devices(listing, found, card);
	fill_absences(listing, found, asked, card);
}

/* ---- the listing ---- */

static enum kiln_status publish(const struct kilni_finds *finds, bool asked,
				struct kiln_physical **out)
{
	struct kiln_physical *listing = calloc(1, sizeof(*listing));

	if (listing)
		listing->cards = calloc(finds->count + 1,
					sizeof(*listing->cards));
	if (!listing || !listing->cards) {
		free(listing);
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "no memory for the list of cards");
	}
	listing->count = finds->count;
	for (size_t i = 0; i < finds->count; i++)
		fill_card(listing, &finds->found[i], asked,
			  &listing->cards[i]);
	if (listing->failed) {
		kiln_physical_release(listing);
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "no memory for the list of cards");
	}
	*out = listing;
	return KILN_OK;
}

static enum kiln_status make(const char *fn, bool ask,
			     struct kiln_physical **out)
{
	struct kilni_finds finds;
	enum kiln_status status;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL", fn);
	status = kilni_finds_probe(&finds);
	if (status == KILN_OK && ask)
		status = kilni_finds_ask(&finds);
	if (status == KILN_OK)
		status = publish(&finds, ask, out);
	kilni_finds_free(&finds);
	return status;
}

enum kiln_status kiln_physical_list(struct kiln_physical **out)
{
	return make(__func__, false, out);
}

enum kiln_status kiln_physical_survey(struct kiln_physical **out)
{
	return make(__func__, true, out);
}

void kiln_physical_release(struct kiln_physical *listing)
{
	if (!listing)
		return;
	for (size_t i = 0; i < listing->count; i++) {
		free((void *)(uintptr_t)listing->cards[i].devices);
		free((void *)(uintptr_t)listing->cards[i].absences);
	}
	free(listing->cards);
	while (listing->texts) {
		struct text *next = listing->texts->next;

		free(listing->texts);
		listing->texts = next;
	}
	free(listing);
}

size_t kiln_physical_count(const struct kiln_physical *listing)
{
	return listing->count;
}

const struct kiln_card *kiln_physical_card(const struct kiln_physical *listing,
					   size_t index)
{
	return listing && index < listing->count ? &listing->cards[index]
						 : NULL;
}
