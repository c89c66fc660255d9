/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TRACE_TEXT_H
#define TOOLS_TRACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

#include <lzma.h>

/* Lines of a file that may be compressed by xz. */

#define TEXT_LINE_MAX 4096
#define TEXT_CHUNK 65536
/* The decompressor's own limit: enough for xz -9. */
#define TEXT_XZ_MEMORY (UINT64_C(128) << 20)

enum text_state {
	TEXT_OPEN,
	TEXT_ENDED,
	TEXT_FAILED
};

struct text {
	FILE *file;
	enum text_state state;
	bool compressed, file_ended;
	lzma_stream xz;
	uint64_t line;           /* number of the line last given */
	const char *problem;     /* of a failure */
	int system_error;        /* errno behind it, or 0 */
	size_t in_bytes, in_at;
	size_t out_bytes, out_at;
	uint8_t in[TEXT_CHUNK], out[TEXT_CHUNK];
	char kept[TEXT_LINE_MAX];
};

/* false: problem says why; text_close is due in any case. */
bool text_open(struct text *text, const char *path);
void text_close(struct text *text);

/*
 * The next line without its end, valid until the next call; NULL at the end
 * and on failure.
 */
char *text_line(struct text *text, size_t *bytes);

#endif
