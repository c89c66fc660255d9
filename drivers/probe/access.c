/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

/* ---- who may ---- */

/*
 * Name of a group by the file of groups; its number where that has none. The
 * name service is not asked: it may wait for a network, and keeps locks.
 */
static void name_group(char *text, size_t size, gid_t group)
{
	char path[KILNI_PROBE_PATH], line[512];
	FILE *file;

	snprintf(text, size, "%u", (unsigned)group);
	if (!kilni_probe_path(path, "/etc/group"))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char *word = strchr(line, ':');
		char *number = word ? strchr(word + 1, ':') : NULL;
		char *end;

		if (!number || strtoul(number + 1, &end, 10) != group ||
		    end == number + 1 || *end != ':')
			continue;
		*word = '\0';
		snprintf(text, size, "%.*s", (int)size - 1, line);
		break;
	}
	fclose(file);
}

/* Whether this process may open a node, as far as its mode tells. */
static bool may_open(struct kilni_card *card, const char *node)
{
	char path[KILNI_PROBE_PATH], group[64];
	struct stat info;
	int error;

	if (!kilni_probe_path(path, "%s", node))
		return false;
	if (!faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS))
		return true;
	error = errno;
	if (stat(path, &info)) {
		snprintf(card->reason, sizeof(card->reason),
			 "present, no device node: %s: %s", node,
			 strerror(error));
		return false;
	}
	name_group(group, sizeof(group), info.st_gid);
	card->no_permission = true;
	snprintf(card->reason, sizeof(card->reason),
		 "present, no access: %s, group %s", node, group);
	return false;
}

/* ---- NVIDIA's own kernel driver ---- */

/* The value of a line "key: value", or NULL. */
static const char *value_of(char *line, const char *key)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) || line[length] != ':')
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	line += length + 1;
	return line + strspn(line, " \t");
}

static void take_nvidia_line(struct kilni_card *card, char *line)
{
	const char *value;

	if ((value = value_of(line, "Model")) && *value)
		snprintf(card->name, sizeof(card->name), "%.*s",
			 (int)sizeof(card->name) - 1, value);
	else if ((value = value_of(line, "GPU UUID")))
		/* Question marks, until a program has opened the card. */
		snprintf(card->uuid, sizeof(card->uuid), "%.*s",
			 strchr(value, '?') ? 0 : (int)sizeof(card->uuid) - 1,
			 value);
	else if ((value = value_of(line, "Device Minor")))
		snprintf(card->node, sizeof(card->node), "/dev/nvidia%lu",
			 strtoul(value, NULL, 10) % 1000);
}

static void read_nvidia(struct kilni_card *card)
{
	char path[KILNI_PROBE_PATH], line[256], address[KILNI_PCI_BYTES];
	FILE *file;

	kilni_pci_print(&card->pci, address);
	if (!kilni_probe_path(path, "/proc/driver/nvidia/gpus/%s/information",
			      address))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		take_nvidia_line(card, line);
	fclose(file);
}

/* ---- everybody else ---- */

/* The render node in the card's folder drm; "" where there is none. */
static void find_render_node(struct kilni_card *card, const char *folder)
{
	char path[KILNI_PROBE_PATH];
	struct dirent *entry;
	DIR *dir;

	if (!kilni_probe_path(path, "%s/drm", folder))
		return;
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "render", 6))
			snprintf(card->node, sizeof(card->node),
				 "/dev/dri/%.20s", entry->d_name);
	closedir(dir);
}

void kilni_probe_access(struct kilni_card *card, const char *folder)
{
	bool nvidia = !strcmp(card->kernel_driver, "nvidia");

	if (!*card->kernel_driver) {
		snprintf(card->reason, sizeof(card->reason),
			 "no kernel driver is bound to it");
		return;
	}
	if (nvidia)
		read_nvidia(card);
	if (!*card->node)
		find_render_node(card, folder);
	if (!*card->node) {
		snprintf(card->reason, sizeof(card->reason),
			 "its kernel driver %s offers no node to compute with",
			 card->kernel_driver);
		return;
	}
	if (may_open(card, card->node) && nvidia)
		(void)may_open(card, "/dev/nvidiactl");
}
