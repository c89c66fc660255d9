/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay.h"

#include <stdlib.h>
#include <string.h>

/* Requests kept at most: 160 MiB. */
#define TAPE_MOST (UINT64_C(4) << 20)
#define TAPE_LEAST 65536

void replay_tape_free(struct replay_tape *tape)
{
	free(tape->request);
	memset(tape, 0, sizeof(*tape));
}

static bool make_room(struct replay_tape *tape, uint32_t more)
{
	uint64_t room = tape->room ? tape->room : TAPE_LEAST;
	struct trace_request *grown;

	if (tape->count + more <= tape->room)
		return true;
	while (room < tape->count + more)
		room *= 2;
	if (room > TAPE_MOST)
		return false;
	grown = realloc(tape->request, room * sizeof(*grown));
	if (!grown)
		return false;
	tape->request = grown;
	tape->room = room;
	return true;
}

void replay_tape_add(struct replay_tape *tape,
		     const struct trace_request *requests, uint32_t count)
{
	if (tape->whole || tape->torn)
		return;
	if (!make_room(tape, count)) {
		replay_tape_free(tape);
		tape->torn = true;
		return;
	}
	memcpy(tape->request + tape->count, requests,
	       count * sizeof(*requests));
	tape->count += count;
}

void replay_tape_end(struct replay_tape *tape,
		     const struct trace_header *header)
{
	if (tape->torn)
		return;
	tape->header = *header;
	tape->whole = true;
}

uint32_t replay_tape_read(const struct replay_tape *tape, uint64_t from,
			  struct trace_request *requests, uint32_t count)
{
	uint64_t left = tape->count - from;

	if (!left)
		return 0;
	if (count > left)
		count = (uint32_t)left;
	memcpy(requests, tape->request + from, count * sizeof(*requests));
	return count;
}
