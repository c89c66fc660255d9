/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_PHYSICAL_H
#define KILNI_LIB_PHYSICAL_H

#include "drivers/probe.h"
#include "lib/identity.h"

/* A card while a listing is put together. */
struct kilni_found {
	bool probed;             /* card was filled by the kernel's files */
	bool alone;              /* no address: card.pci says nothing */
	bool hidden;             /* from CUDA by the environment, for certain */
	struct kilni_card card;
	struct kilni_place *places;
	size_t place_count;
};

struct kilni_finds {
	struct kilni_found *found;
	size_t count;
};

/* What the kernel tells; empty before. */
enum kiln_status kilni_finds_probe(struct kilni_finds *finds);

/* Adds the devices of the drivers. */
enum kiln_status kilni_finds_ask(struct kilni_finds *finds);

void kilni_finds_free(struct kilni_finds *finds);

#endif
