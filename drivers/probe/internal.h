/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_PROBE_INTERNAL_H
#define KILNI_PROBE_INTERNAL_H

#include "drivers/probe.h"

#define KILNI_PROBE_PATH 512

/* The path under the root; false where it is too long. */
bool kilni_probe_path(char path[KILNI_PROBE_PATH], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* First line of a file under the root, without its end; "" on any failure. */
void kilni_probe_line(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Name of the folder that a link under the root leads to; "" where none. */
void kilni_probe_link(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Fills name from the lists of PCI ids; else "PCI card vvvv:dddd". */
void kilni_probe_name(struct kilni_card *card);

/*
 * Fills node, no_permission and reason, and what the kernel driver's own files
 * tell. folder is that of the card in sysfs.
 */
void kilni_probe_access(struct kilni_card *card, const char *folder);

#endif
