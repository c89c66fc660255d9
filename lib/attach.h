/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ATTACH_H
#define KILNI_ATTACH_H

#include <kiln/status.h>

#include "base/segment.h"

/*
 * A segment that another process may write, cut or fill with anything while
 * it is read: so it is read, never mapped, and nothing from it is used before
 * it has been checked. Afterwards every count is within its array, every text
 * ends, every kind is one of the table, and no size is above INT64_MAX.
 */
struct kilni_attached {
	int fd;
	struct kilni_segment_name name;
	uint64_t uid, bytes;       /* of the file */
	uint64_t started_ns;
	uint64_t pid;
	char text[KILNI_SEGMENT_NAME];
	char program[64];
	struct kilni_segment_snapshot *snapshot; /* the newest one taken */
	struct kilni_segment_snapshot *next;     /* where one is read to */
};

/* KILN_ERR_IO, KILN_ERR_UNSUPPORTED, KILN_ERR_BUSY, KILN_ERR_NO_MEMORY. */
enum kiln_status kilni_attach(struct kilni_attached *attached, int folder,
			      const char *text);
/* Takes the newest snapshot; on failure the one before stays. */
enum kiln_status kilni_attached_refresh(struct kilni_attached *attached);
void kilni_detach(struct kilni_attached *attached);

#endif
