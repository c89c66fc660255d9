/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tools/svg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

/* ---- files ---- */

static void forget(struct svg *svg)
{
	free(svg->path);
	free(svg->temporary);
	memset(svg, 0, sizeof(*svg));
}

static bool fail(struct svg *svg, int error)
{
	tool_complain("%s: %s", svg->path ? svg->path : "picture",
		      strerror(error));
	if (svg->file)
		fclose(svg->file);
	if (svg->temporary)
		unlink(svg->temporary);
	forget(svg);
	return false;
}

/* What a new file would get, as the mask can only be read by setting it. */
static mode_t new_mode(void)
{
	mode_t mask = umask(022);

	umask(mask);
	return 0666 & ~mask;
}

static bool open_beside(struct svg *svg, mode_t mode)
{
	int fd, error;

	if (asprintf(&svg->temporary, "%s.XXXXXX", svg->path) < 0) {
		svg->temporary = NULL;
		return fail(svg, ENOMEM);
	}
	fd = mkstemp(svg->temporary);
	if (fd < 0) {
		error = errno;
		/* Nothing of that name is ours to remove. */
		free(svg->temporary);
		svg->temporary = NULL;
		return fail(svg, error);
	}
	svg->file = fchmod(fd, mode) ? NULL : fdopen(fd, "w");
	if (svg->file)
		return true;
	error = errno;
	close(fd);
	return fail(svg, error);
}

static bool open_file(struct svg *svg, const char *path)
{
	struct stat stat_of;
	bool there = !stat(path, &stat_of);

	memset(svg, 0, sizeof(*svg));
	/* A link stays one: what it leads to is replaced. */
	svg->path = there ? realpath(path, NULL) : strdup(path);
	if (!svg->path)
		return fail(svg, errno);
	if (!there)
		return open_beside(svg, new_mode());
	if (S_ISREG(stat_of.st_mode))
		return open_beside(svg, stat_of.st_mode & 0777);
	svg->file = fopen(svg->path, "we");
	return svg->file || fail(svg, errno);
}

bool svg_end(struct svg *svg)
{
	int error;

	fputs("</svg>\n", svg->file);
	errno = 0;
	error = fflush(svg->file) || ferror(svg->file) ? errno : 0;
	if (error || ferror(svg->file))
		return fail(svg, error ? error : EIO);
	error = fclose(svg->file) ? errno : 0;
	svg->file = NULL;
	if (error)
		return fail(svg, error);
	if (svg->temporary && rename(svg->temporary, svg->path))
		return fail(svg, errno);
	forget(svg);
	return true;
}

/* ---- text ---- */

/* Bytes of a character that XML has no place for: U+FFFE, U+FFFF. */
static bool is_no_character(const char *at)
{
	return !strncmp(at, "\xef\xbf\xbe", 3) ||
	       !strncmp(at, "\xef\xbf\xbf", 3);
}

static void put_text(FILE *file, const char *text)
{
	char *clean = tool_clean(text);

	for (const char *at = clean; at && *at; at++) {
		if (*at == '&')
			fputs("&amp;", file);
		else if (*at == '<')
			fputs("&lt;", file);
		else if (*at == '>')
			fputs("&gt;", file);
		else if (is_no_character(at))
			fputc('?', file), at += 2;
		else
			fputc((unsigned char)*at < ' ' || *at == 0x7f ? '?'
								      : *at,
			      file);
	}
	free(clean);
}

static void put_line(struct svg *svg, double x, double y, double size,
		     const char *anchor, const char *text)
{
	fprintf(svg->file,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\"%s>", x, y, size,
		anchor);
	put_text(svg->file, text);
	fputs("</text>\n", svg->file);
}

void svg_text(struct svg *svg, double x, double y, double size,
	      const char *text)
{
	put_line(svg, x, y, size, "", text);
}

void svg_text_end(struct svg *svg, double x, double y, double size,
		  const char *text)
{
	put_line(svg, x, y, size, " text-anchor=\"end\"", text);
}

/* ---- the picture ---- */

bool svg_begin(struct svg *svg, const char *path, double width, double height,
	       const char *title)
{
	if (!open_file(svg, path))
		return false;
	fprintf(svg->file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" shape-rendering=\"crispEdges\">\n"
		"<title>",
		width, height, width, height);
	put_text(svg->file, title);
	fputs("</title>\n", svg->file);
	svg_rect(svg, 0, 0, width, height, "#ffffff");
	return true;
}

void svg_rect(struct svg *svg, double x, double y, double width, double height,
	      const char *colour)
{
	fprintf(svg->file,
		"<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
		"fill=\"%s\"/>\n",
		x, y, width, height, colour);
}
