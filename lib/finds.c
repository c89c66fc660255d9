/* SPDX-License-Identifier: Apache-2.0 */
/* Cards by the kernel's files, joined with the devices of the drivers. */
#include "lib/physical.h"

#include <errno.h>
#include <stdlib.h>

static enum kiln_status no_memory(void)
{
	return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
			  "no memory for the list of cards");
}

/* ---- what CUDA_VISIBLE_DEVICES hides ---- */

/* CUDA's own cards, in the order of their addresses. */
struct own {
	struct kilni_found **found;
	const char **uuids;
	int *order;
	size_t count;
};

static enum kiln_status own_create(struct kilni_finds *finds, struct own *own)
{
	size_t most = finds->count + 1;

	own->count = 0;
	own->found = calloc(most, sizeof(*own->found));
	own->uuids = calloc(most, sizeof(*own->uuids));
	own->order = calloc(most, sizeof(*own->order));
	if (!own->found || !own->uuids || !own->order)
		return no_memory();
	for (size_t i = 0; i < finds->count; i++) {
		struct kilni_found *found = &finds->found[i];

		if (strcmp(found->card.kernel_driver, "nvidia"))
			continue;
		own->uuids[own->count] =
			*found->card.uuid ? found->card.uuid : NULL;
		own->found[own->count++] = found;
	}
	return KILN_OK;
}

static void own_free(struct own *own)
{
	free(own->found);
	free(own->uuids);
	free(own->order);
}

/*
 * Whether what was read of the list holds for CUDA too: by UUID where all are
 * known, by number where CUDA counts by address. A list that shows nothing
 * shows nothing in any order.
 */
static bool is_certain(const char *text, const struct own *own, size_t visible)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");

	for (size_t i = 0; i < visible; i++)
		if (own->order[i] == KILNI_VISIBLE_SLICE)
			return false;
	if (!kilni_visible_by_uuid(text))
		return !visible || own->count == 1 ||
		       (order && !strcmp(order, "PCI_BUS_ID"));
	for (size_t i = 0; i < own->count; i++)
		if (!own->uuids[i])
			return false;
	return true;
}

static void mark(struct own *own)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	bool good = kilni_visible_order_is_good(getenv("CUDA_DEVICE_ORDER"));
	size_t visible = 0;

	if (good && !text)
		return;
	if (good) {
		visible = kilni_visible_cards(text, own->uuids, own->count,
					      own->order);
		if (!is_certain(text, own, visible))
			return;
	}
	for (size_t i = 0; i < own->count; i++)
		own->found[i]->hidden = true;
	for (size_t i = 0; i < visible; i++)
		own->found[own->order[i]]->hidden = false;
}

static enum kiln_status mark_hidden(struct kilni_finds *finds)
{
	struct own own;
	enum kiln_status status = own_create(finds, &own);

	if (status == KILN_OK)
		mark(&own);
	own_free(&own);
	return status;
}

/* ---- the kernel's part ---- */

enum kiln_status kilni_finds_probe(struct kilni_finds *finds)
{
	struct kilni_card *cards;
	size_t count;

	finds->count = 0;
	finds->found = NULL;
	KILNI_TRY(kilni_probe_cards(&cards, &count));
	finds->found = calloc(count + 1, sizeof(*finds->found));
	if (!finds->found) {
		free(cards);
		return no_memory();
	}
	for (size_t i = 0; i < count; i++) {
		finds->found[i].probed = true;
		finds->found[i].card = cards[i];
	}
	finds->count = count;
	free(cards);
	return mark_hidden(finds);
}

/* ---- the drivers' part ---- */

static struct kilni_found *find_address(struct kilni_finds *finds,
					const struct kilni_pci *pci)
{
	for (size_t i = 0; i < finds->count; i++)
		if (!finds->found[i].alone &&
		    !kilni_pci_compare(&finds->found[i].card.pci, pci))
			return &finds->found[i];
	return NULL;
}

/* A card that the kernel's files do not tell of; pci NULL: it stands alone. */
static struct kilni_found *add_card(struct kilni_finds *finds,
				    const struct kilni_pci *pci)
{
	struct kilni_found *grown = realloc(
		finds->found, (finds->count + 1) * sizeof(*grown));
	struct kilni_found *found;

	if (!grown)
		return NULL;
	finds->found = grown;
	found = &grown[finds->count++];
	memset(found, 0, sizeof(*found));
	found->alone = !pci;
	found->card.numa_node = -1;
	if (pci)
		found->card.pci = *pci;
	return found;
}

static enum kiln_status add_place(struct kilni_finds *finds,
				  const struct kilni_place *place)
{
	struct kilni_place *grown;
	struct kilni_found *found;
	struct kilni_pci pci;

	if (!kilni_pci_parse(place->info.pci, &pci))
		found = add_card(finds, NULL);
	else if (!(found = find_address(finds, &pci)))
		found = add_card(finds, &pci);
	if (!found)
		return no_memory();
	grown = realloc(found->places,
			(found->place_count + 1) * sizeof(*grown));
	if (!grown)
		return no_memory();
	found->places = grown;
	grown[found->place_count++] = *place;
	return KILN_OK;
}

/* By address; those that stand alone last, in the order of the drivers. */
static int by_address(const void *x, const void *y)
{
	const struct kilni_found *a = x, *b = y;
	const struct kilni_place *p = a->places, *q = b->places;

	if (!a->alone && !b->alone)
		return kilni_pci_compare(&a->card.pci, &b->card.pci);
	if (a->alone != b->alone)
		return a->alone - b->alone;
	/* The bit of the CPU is the lowest. */
	if (p->driver->type != q->driver->type)
		return p->driver->type < q->driver->type ? -1 : 1;
	return (p->index > q->index) - (p->index < q->index);
}

enum kiln_status kilni_finds_ask(struct kilni_finds *finds)
{
	struct kilni_place place;

	for (size_t i = 0; kilni_driver_list[i]; i++) {
		const struct kilni_driver *driver = kilni_driver_list[i];
		size_t count = driver->driver->count();

		/* Nothing of the machine is behind the null device. */
		if (driver->type == KILN_DEVICE_NULL)
			continue;
		for (unsigned n = 0; n < count; n++)
			if (kilni_place_look(driver, n, &place) == KILN_OK)
				KILNI_TRY(add_place(finds, &place));
	}
	if (finds->count)
		qsort(finds->found, finds->count, sizeof(*finds->found),
		      by_address);
	return KILN_OK;
}

void kilni_finds_free(struct kilni_finds *finds)
{
	for (size_t i = 0; i < finds->count; i++)
		free(finds->found[i].places);
	free(finds->found);
	finds->found = NULL;
	finds->count = 0;
}
