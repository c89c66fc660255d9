/* SPDX-License-Identifier: Apache-2.0 */
#include "idx.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

/* First number of a file: two zeros, 8 for unsigned bytes, number of axes. */
#define MAGIC_LABELS 0x801u
#define MAGIC_IMAGES 0x803u

/* More pictures than this are taken for a damaged header. */
#define COUNT_MAX 10000000

struct reader {
	gzFile file;
	char path[PATH_MAX];
};

static int __attribute__((format(printf, 2, 3)))
complain(const struct reader *reader, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", reader->path);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

/* What zlib says without the path, which stands before it already. */
static int complain_read(const struct reader *reader)
{
	int code;
	const char *text = gzerror(reader->file, &code);
	size_t path = strlen(reader->path);

	if (!strncmp(text, reader->path, path) &&
	    !strncmp(text + path, ": ", 2))
		text += path + 2;
	return complain(reader, "%s", text);
}

static int open_file(struct reader *reader, const char *dir, const char *name,
		     const char *kind)
{
	int length = snprintf(reader->path, sizeof(reader->path), "%s/%s-%s.gz",
			      dir, name, kind);

	if (length < 0 || (size_t)length >= sizeof(reader->path))
		return complain(reader, "path too long");
	errno = 0;
	reader->file = gzopen(reader->path, "rb");
	if (!reader->file)
		return complain(reader, "%s",
				errno ? strerror(errno) : "out of memory");
	return 0;
}

static int read_bytes(const struct reader *reader, unsigned char *to,
		      int64_t bytes)
{
	while (bytes > 0) {
		unsigned piece = bytes > 1 << 24 ? 1u << 24 : (unsigned)bytes;
		int got = gzread(reader->file, to, piece);

		if (got < 0)
			return complain_read(reader);
		if (!got)
			return complain(reader, "truncated, %lld bytes missing",
					(long long)bytes);
		to += got;
		bytes -= got;
	}
	return 0;
}

/* Nothing may follow; this is also where a damaged checksum shows. */
static int read_end(const struct reader *reader)
{
	unsigned char byte;
	int got = gzread(reader->file, &byte, 1);

	if (got < 0)
		return complain_read(reader);
	if (got)
		return complain(reader, "more data than its header says");
	return 0;
}

static int read_number(const struct reader *reader, int64_t *value)
{
	unsigned char b[4];

	if (read_bytes(reader, b, sizeof(b)))
		return -1;
	*value = (int64_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 |
			   (uint32_t)b[2] << 8 | (uint32_t)b[3]);
	return 0;
}

static int expect_number(const struct reader *reader, const char *what,
			 int64_t expected)
{
	int64_t value;

	if (read_number(reader, &value))
		return -1;
	if (value != expected)
		return complain(reader, "%s is %lld, expected %lld", what,
				(long long)value, (long long)expected);
	return 0;
}

static int read_count(const struct reader *reader, int64_t *count)
{
	if (read_number(reader, count))
		return -1;
	if (*count < 1 || *count > COUNT_MAX)
		return complain(reader, "%lld entries is out of range",
				(long long)*count);
	return 0;
}

static int read_payload(const struct reader *reader, unsigned char **data,
			int64_t bytes)
{
	*data = malloc((size_t)bytes);
	if (!*data)
		return complain(reader, "no memory for %lld bytes",
				(long long)bytes);
	if (read_bytes(reader, *data, bytes))
		return -1;
	return read_end(reader);
}

static int read_images(const struct reader *reader, struct idx_set *set,
		       const struct idx_form *form)
{
	set->pixels = form->rows * form->columns;
	if (expect_number(reader, "magic number", MAGIC_IMAGES) ||
	    read_count(reader, &set->count) ||
	    expect_number(reader, "number of rows", form->rows) ||
	    expect_number(reader, "number of columns", form->columns))
		return -1;
	return read_payload(reader, &set->images, set->count * set->pixels);
}

static int read_labels(const struct reader *reader, struct idx_set *set,
		       const struct idx_form *form)
{
	if (expect_number(reader, "magic number", MAGIC_LABELS) ||
	    expect_number(reader, "number of labels", set->count) ||
	    read_payload(reader, &set->labels, set->count))
		return -1;
	for (int64_t i = 0; i < set->count; i++)
		if (set->labels[i] >= form->classes)
			return complain(reader, "label %lld is %d, not below %d",
					(long long)i, set->labels[i],
					form->classes);
	return 0;
}

typedef int read_part(const struct reader *reader, struct idx_set *set,
		      const struct idx_form *form);

static int load_file(struct idx_set *set, const char *dir, const char *name,
		     const char *kind, const struct idx_form *form,
		     read_part *read)
{
	struct reader reader;
	int result;

	if (open_file(&reader, dir, name, kind))
		return -1;
	result = read(&reader, set, form);
	if (gzclose(reader.file) != Z_OK && !result)
		return complain(&reader, "truncated at its checksum");
	return result;
}

int idx_load(struct idx_set *set, const char *dir, const char *name,
	     const struct idx_form *form)
{
	memset(set, 0, sizeof(*set));
	if (load_file(set, dir, name, "images-idx3-ubyte", form, read_images) ||
	    load_file(set, dir, name, "labels-idx1-ubyte", form, read_labels)) {
		idx_free(set);
		return -1;
	}
	return 0;
}

void idx_free(struct idx_set *set)
{
	free(set->images);
	free(set->labels);
	memset(set, 0, sizeof(*set));
}
