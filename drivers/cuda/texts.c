/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/texts.h"

#include <errno.h>
#include <lzma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/*
 * As kernels/cuda/ptx.mk has packed them: a list, an empty line, the texts. The
 * path is below the folder in which the library is built.
 */
__asm__(".pushsection .rodata\n"
	".globl kilni_cuda_texts\n"
	".hidden kilni_cuda_texts\n"
	"kilni_cuda_texts:\n"
	".incbin \"cuda-ptx/texts.bin\"\n"
	".byte 0\n"
	".popsection\n");

extern const char kilni_cuda_texts[];

struct place {
	char name[KILNI_CUDA_TEXT_NAME];
	const char *packed;
	size_t packed_bytes, bytes;
};

/* A walk over the list: the line to be read next. */
struct walk {
	const char *line;
	struct place place;
};

static struct walk begin_walk(void)
{
	struct walk walk = { .line = kilni_cuda_texts };

	walk.place.packed = strstr(kilni_cuda_texts, "\n\n") + 2;
	return walk;
}

static bool next_place(struct walk *walk)
{
	struct place *place = &walk->place;

	if (*walk->line == '\n')
		return false;
	place->packed += place->packed_bytes;
	if (sscanf(walk->line, "%15s %zu %zu", place->name,
		   &place->packed_bytes, &place->bytes) != 3)
		return false;
	walk->line = strchr(walk->line, '\n') + 1;
	return true;
}

static bool find(const char *name, struct place *place)
{
	struct walk walk = begin_walk();

	while (next_place(&walk)) {
		if (strcmp(walk.place.name, name) != 0)
			continue;
		*place = walk.place;
		return true;
	}
	return false;
}

/* The capability that a cubin is for; 0: another text's, or no cubin. */
static unsigned made_for(const char *cubin, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(cubin, name, length) != 0 || cubin[length] != '.')
		return 0;
	return (unsigned)strtoul(cubin + length + 1, NULL, 10);
}

bool kilni_cuda_text_cubin(const char *name, unsigned capability,
			   char cubin[KILNI_CUDA_TEXT_NAME])
{
	struct walk walk = begin_walk();
	unsigned best = 0, made;

	while (next_place(&walk)) {
		made = made_for(walk.place.name, name);
		if (made / 10 != capability / 10 || made > capability ||
		    made <= best)
			continue;
		best = made;
		memcpy(cubin, walk.place.name, KILNI_CUDA_TEXT_NAME);
	}
	return best != 0;
}

/* What the decoder may take: the dictionary is 1 MiB. */
#define UNPACK_MEMORY ((uint64_t)16 << 20)

static enum kiln_status unpack(const struct place *place, char *text)
{
	uint64_t most = UNPACK_MEMORY;
	size_t from = 0, to = 0;
	lzma_ret result;

	result = lzma_stream_buffer_decode(&most, 0, NULL,
					   (const uint8_t *)place->packed,
					   &from, place->packed_bytes,
					   (uint8_t *)text, &to, place->bytes);
	text[place->bytes] = 0;
	if (result == LZMA_OK && to == place->bytes)
		return KILN_OK;
	return kilni_fail(result == LZMA_MEM_ERROR ? KILN_ERR_NO_MEMORY
						   : KILN_ERR_INTERNAL,
			  (int)result, "cuda: kernels \"%s\" cannot be unpacked",
			  place->name);
}

enum kiln_status kilni_cuda_text_load(const char *name, char **text)
{
	struct place place;
	enum kiln_status status;

	if (!find(name, &place))
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cuda: there are no kernels \"%s\"", name);
	*text = malloc(place.bytes + 1);
	if (!*text)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for kernels");
	status = unpack(&place, *text);
	if (status != KILN_OK)
		free(*text);
	return status;
}
