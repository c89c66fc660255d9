/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include "tools/tool.h"

/* Exit status: a card is here that this user may not open. */
#define INFO_NO_PERMISSION 3

/* A text of the library; null where it is NULL or empty. */
json_t *info_text(const char *text);

/* A number that is not known where it is 0. */
json_t *info_bytes(uint64_t bytes);

/* "cpu", "cuda", ... as in selectors. */
const char *info_type_name(enum kiln_device_type type);

/*
 * Each card once with its devices, as an array; NULL after a complaint. Sets
 * *code to INFO_NO_PERMISSION where it is 0 and that holds.
 */
json_t *info_cards(const struct kiln_physical *listing, int *code);

/* Draws the machine into a file; an exit status, after a complaint. */
int info_svg(const struct kiln_physical *listing, const char *path);

#endif
