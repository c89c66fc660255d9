/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdbool.h>
#include <stdio.h>

/*
 * A picture of rectangles and lines of text. It is written beside its place
 * and takes it when it is whole, so that whoever shows it, and shows it again,
 * never sees a part. What is no plain file (a pipe, a device) is written to.
 */
struct svg {
	FILE *file;
	char *path;      /* where it goes */
	char *temporary; /* where it is; NULL: it is written in place */
};

/* Sizes are in pixels. False: complained; nothing is left to be ended. */
bool svg_begin(struct svg *svg, const char *path, double width, double height,
	       const char *title);
void svg_rect(struct svg *svg, double x, double y, double width, double height,
	      const char *colour);
/* Text from x on, its base line at y; any bytes. */
void svg_text(struct svg *svg, double x, double y, double size,
	      const char *text);
/* The same, ending at x. */
void svg_text_end(struct svg *svg, double x, double y, double size,
		  const char *text);
/* Puts the picture in its place. False: complained; there is no new one. */
bool svg_end(struct svg *svg);

#endif
