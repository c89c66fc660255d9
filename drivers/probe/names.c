/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Where distributions keep the list of names. */
static const char *const lists[] = {
	"/usr/share/misc/pci.ids",
	"/usr/share/hwdata/pci.ids",
};

static FILE *open_list(void)
{
	char path[KILNI_PROBE_PATH];
	FILE *file;

	for (size_t i = 0; i < KILNI_COUNTOF(lists); i++)
		if (kilni_probe_path(path, "%s", lists[i]) &&
		    (file = fopen(path, "re")))
			return file;
	return NULL;
}

/* The name on a line "iiii  name" after indent tabs, or NULL. */
static const char *name_of(char *line, size_t indent, unsigned id)
{
	char *end;

	if (strspn(line, "\t") != indent)
		return NULL;
	line += indent;
	if (strtoul(line, &end, 16) != id || end - line != 4)
		return NULL;
	end[strcspn(end, "\n")] = '\0';
	return end + strspn(end, " ");
}

/* Vendors begin in the first column; their devices follow, after a tab. */
static void search(FILE *file, struct kilni_card *card)
{
	char line[512], vendor[96] = "";
	const char *name;

	while (fgets(line, sizeof(line), file)) {
		if (*vendor && (name = name_of(line, 1, card->device))) {
			snprintf(card->name, sizeof(card->name), "%s %.*s",
				 vendor,
				 (int)(sizeof(card->name) - sizeof(vendor)) - 1,
				 name);
			return;
		}
		if (*line == '\t' || *line == '#' || *line == '\n')
			continue;
		if (*vendor)
			return;
		name = name_of(line, 0, card->vendor);
		if (name)
			snprintf(vendor, sizeof(vendor), "%.*s",
				 (int)sizeof(vendor) - 1, name);
	}
}

void kilni_probe_name(struct kilni_card *card)
{
	FILE *file = open_list();

	snprintf(card->name, sizeof(card->name), "PCI card %04x:%04x",
		 card->vendor, card->device);
	if (!file)
		return;
	search(file, card);
	fclose(file);
}
