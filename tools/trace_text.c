/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_text.h"

#include <errno.h>
#include <string.h>

static void fail(struct text *text, const char *problem, int system_error)
{
	text->state = TEXT_FAILED;
	text->problem = problem;
	text->system_error = system_error;
}

/* ---- bytes of the file ---- */

static void fill_in(struct text *text)
{
	text->in_at = 0;
	text->in_bytes = fread(text->in, 1, TEXT_CHUNK, text->file);
	if (text->in_bytes == TEXT_CHUNK)
		return;
	text->file_ended = true;
	if (ferror(text->file))
		fail(text, "cannot be read", errno);
}

static const char *xz_problem(lzma_ret code)
{
	switch (code) {
	case LZMA_BUF_ERROR:
		return "the xz data is cut off";
	case LZMA_MEMLIMIT_ERROR:
		return "decompressing needs more than 128 MiB";
	case LZMA_MEM_ERROR:
		return "no memory to decompress";
	case LZMA_OPTIONS_ERROR:
		return "the xz data has unknown options";
	default:
		return "the xz data is damaged";
	}
}

static void decompress(struct text *text)
{
	lzma_ret code = LZMA_OK;

	text->xz.next_out = text->out;
	text->xz.avail_out = TEXT_CHUNK;
	while (text->xz.avail_out && code == LZMA_OK) {
		if (!text->xz.avail_in && !text->file_ended) {
			fill_in(text);
			if (text->state == TEXT_FAILED)
				return;
			text->xz.next_in = text->in;
			text->xz.avail_in = text->in_bytes;
		}
		code = lzma_code(&text->xz,
				 text->file_ended ? LZMA_FINISH : LZMA_RUN);
	}
	text->out_bytes = TEXT_CHUNK - text->xz.avail_out;
	if (code == LZMA_STREAM_END)
		text->state = TEXT_ENDED;
	else if (code != LZMA_OK)
		fail(text, xz_problem(code), 0);
}

static void copy(struct text *text)
{
	if (text->in_at == text->in_bytes && !text->file_ended)
		fill_in(text);
	text->out_bytes = text->in_bytes - text->in_at;
	memcpy(text->out, text->in + text->in_at, text->out_bytes);
	text->in_at = text->in_bytes;
	if (text->file_ended && text->state == TEXT_OPEN)
		text->state = TEXT_ENDED;
}

/* More bytes of text; false: there are none. */
static bool fill_out(struct text *text)
{
	text->out_at = text->out_bytes = 0;
	while (text->state == TEXT_OPEN && !text->out_bytes) {
		if (text->compressed)
			decompress(text);
		else
			copy(text);
	}
	return text->out_bytes > 0;
}

bool text_open(struct text *text, const char *path)
{
	static const uint8_t magic[] = { 0xfd, '7', 'z', 'X', 'Z', 0 };
	const lzma_stream none = LZMA_STREAM_INIT;
	lzma_ret code;

	memset(text, 0, sizeof(*text));
	text->xz = none;
	text->file = fopen(path, "re");
	if (!text->file) {
		fail(text, "cannot be opened", errno);
		return false;
	}
	fill_in(text);
	if (text->state == TEXT_FAILED)
		return false;
	text->compressed = text->in_bytes >= sizeof(magic) &&
			   !memcmp(text->in, magic, sizeof(magic));
	if (!text->compressed)
		return true;
	code = lzma_stream_decoder(&text->xz, TEXT_XZ_MEMORY,
				   LZMA_CONCATENATED);
	if (code != LZMA_OK) {
		fail(text, xz_problem(code), 0);
		return false;
	}
	text->xz.next_in = text->in;
	text->xz.avail_in = text->in_bytes;
	return true;
}

void text_close(struct text *text)
{
	lzma_end(&text->xz);
	if (text->file)
		fclose(text->file);
	text->file = NULL;
}

/* ---- lines ---- */

enum part {
	PART_END,
	PART_MIDDLE,
	PART_TOO_LONG
};

/* Adds what the buffer holds of the line to kept. */
static enum part keep(struct text *text, size_t *bytes)
{
	const uint8_t *from = text->out + text->out_at;
	size_t left = text->out_bytes - text->out_at;
	const uint8_t *end = memchr(from, '\n', left);
	size_t more = end ? (size_t)(end - from) : left;

	if (more > TEXT_LINE_MAX - 1 - *bytes)
		return PART_TOO_LONG;
	memcpy(text->kept + *bytes, from, more);
	*bytes += more;
	text->out_at += more + (end != NULL);
	return end ? PART_END : PART_MIDDLE;
}

/* There are no more bytes, and so much of a line has been kept. */
static void end_lines(struct text *text, size_t kept)
{
	if (text->state == TEXT_FAILED)
		return;
	if (kept)
		fail(text, "the line has no end", 0);
	else
		text->line--;
}

char *text_line(struct text *text, size_t *bytes)
{
	enum part part = PART_MIDDLE;

	*bytes = 0;
	text->line++;
	while (part == PART_MIDDLE) {
		if (text->out_at == text->out_bytes && !fill_out(text)) {
			end_lines(text, *bytes);
			return NULL;
		}
		part = keep(text, bytes);
	}
	if (part == PART_TOO_LONG) {
		fail(text, "the line is too long", 0);
		text->out_at = text->out_bytes;
		return NULL;
	}
	text->kept[*bytes] = '\0';
	return text->kept;
}
