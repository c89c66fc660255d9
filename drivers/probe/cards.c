/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define DEVICES "/sys/bus/pci/devices"

/* Base classes of the PCI standard. */
#define CLASS_DISPLAY 0x03
#define CLASS_ACCELERATOR 0x12

/* Where the entry has no such file: 0. */
static unsigned long read_number(const char *folder, const char *name)
{
	char text[32];

	kilni_probe_line(text, sizeof(text), "%s/%s", folder, name);
	return strtoul(text, NULL, 0);
}

/*
 * The node that the firmware has named. Where it named none, a machine of one
 * node leaves no doubt.
 */
static int read_node(const char *folder)
{
	char text[32], *end;
	long node;

	kilni_probe_line(text, sizeof(text), "%s/numa_node", folder);
	node = strtol(text, &end, 10);
	if (end != text && !*end && node >= 0 && node < 65536)
		return (int)node;
	kilni_probe_line(text, sizeof(text), "/sys/devices/system/node/online");
	return strcmp(text, "0") ? -1 : 0;
}

static void read_link(struct kilni_card *card, const char *folder)
{
	char speed[40], width[16];

	kilni_probe_line(speed, sizeof(speed), "%s/max_link_speed", folder);
	kilni_probe_line(width, sizeof(width), "%s/max_link_width", folder);
	/* A card inside the processor has a link in name only. */
	if (!*speed || !*width || !strncmp(speed, "Unknown", 7) ||
	    !strcmp(width, "0") || !strcmp(width, "255"))
		return;
	snprintf(card->link, sizeof(card->link), "%s x%s", speed, width);
}

static void read_card(struct kilni_card *card, const char *folder)
{
	card->vendor = (uint16_t)read_number(folder, "vendor");
	card->device = (uint16_t)read_number(folder, "device");
	card->numa_node = read_node(folder);
	card->memory_bytes = read_number(folder, "mem_info_vram_total");
	kilni_probe_line(card->cpus, sizeof(card->cpus), "%s/local_cpulist",
			 folder);
	kilni_probe_link(card->kernel_driver, sizeof(card->kernel_driver),
			 "%s/driver", folder);
	read_link(card, folder);
	kilni_probe_name(card);
	kilni_probe_access(card, folder);
}

static bool is_card(uint32_t class_code)
{
	uint32_t base = class_code >> 16;

	return base == CLASS_DISPLAY || base == CLASS_ACCELERATOR;
}

/* Adds the device of an entry where it is a card. */
static enum kiln_status add(const char *entry, struct kilni_card **cards,
			    size_t *count)
{
	char folder[sizeof(DEVICES) + 256];
	struct kilni_card *grown, card = { .numa_node = -1 };

	/* The kernel's names are short; what is longer is none of them. */
	if (strlen(entry) >= KILNI_PCI_BYTES ||
	    !kilni_pci_parse(entry, &card.pci))
		return KILN_OK;
	snprintf(folder, sizeof(folder), DEVICES "/%s", entry);
	card.class_code = (uint32_t)read_number(folder, "class");
	if (!is_card(card.class_code))
		return KILN_OK;
	grown = realloc(*cards, (*count + 1) * sizeof(**cards));
	if (!grown)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "no memory for the list of cards");
	*cards = grown;
	read_card(&card, folder);
	grown[(*count)++] = card;
	return KILN_OK;
}

static int by_address(const void *a, const void *b)
{
	return kilni_pci_compare(&((const struct kilni_card *)a)->pci,
				 &((const struct kilni_card *)b)->pci);
}

enum kiln_status kilni_probe_cards(struct kilni_card **cards, size_t *count)
{
	char path[KILNI_PROBE_PATH];
	enum kiln_status status = KILN_OK;
	struct dirent *entry;
	DIR *dir;

	*cards = NULL;
	*count = 0;
	if (!kilni_probe_path(path, DEVICES) || !(dir = opendir(path)))
		return KILN_OK;
	while (status == KILN_OK && (entry = readdir(dir)))
		status = add(entry->d_name, cards, count);
	closedir(dir);
	if (status != KILN_OK) {
		free(*cards);
		*cards = NULL;
		*count = 0;
	} else if (*count) {
		qsort(*cards, *count, sizeof(**cards), by_address);
	}
	return status;
}

bool kilni_probe_any_gpu(void)
{
	/* Mesa and others; NVIDIA's, on PCI, on a board, under Windows. */
	static const char *const nodes[] = {
		"/dev/dri", "/dev/kfd", "/dev/nvidiactl", "/dev/nvgpu",
		"/dev/nvhost-gpu", "/dev/nvmap", "/dev/dxg"
	};
	struct kilni_card *cards;
	char path[KILNI_PROBE_PATH];
	size_t count, i;

	for (i = 0; i < KILNI_COUNTOF(nodes); i++)
		if (kilni_probe_path(path, "%s", nodes[i]) &&
		    !access(path, F_OK))
			return true;
	/* In doubt the vendors are asked. */
	if (kilni_probe_cards(&cards, &count) != KILN_OK)
		return true;
	free(cards);
	return count > 0;
}
