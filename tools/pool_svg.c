/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/svg.h"
#include "tools/tool.h"

/*
 * A row per page. Each of its cells is a column, filled from below with what
 * is live, what padding costs and what is cached; the rest is unmapped.
 */

#define WIDTH 840.0
#define MARGIN 16.0
#define STRIP_X 190.0
#define STRIP_WIDTH (WIDTH - STRIP_X - 66.0)
#define ROW 20.0
#define STRIP_HEIGHT 15.0
#define HEAD 48.0
#define DEVICE_HEAD 52.0

enum part { LIVE, PADDING, CACHED, PARTS };

static const char *const colours[PARTS] = { "#2a7f62", "#e0a030", "#b9d7ea" };
static const char *const names[PARTS] = { "used", "padding", "cached" };
#define UNMAPPED_COLOUR "#dddddd"
#define UNSEEN_COLOUR "#bbbbbb"

/* ---- strips ---- */

static float share(const struct kiln_view_cell *cell, enum part part)
{
	switch (part) {
	case LIVE:
		return cell->live;
	case PADDING:
		return cell->padding;
	default:
		return cell->cached;
	}
}

static bool alike(const struct kiln_view_cell *a,
		  const struct kiln_view_cell *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Cells first..end, which are alike, as one column. */
static void draw_column(struct svg *svg, const struct kiln_view_cell *cell,
			double x, double y, double width)
{
	double bottom = y + STRIP_HEIGHT;

	for (int part = LIVE; part < PARTS; part++) {
		double height = STRIP_HEIGHT *
				(double)share(cell, (enum part)part);

		if (height <= 0)
			continue;
		bottom -= height;
		svg_rect(svg, x, bottom, width, height, colours[part]);
	}
}

static void draw_strip(struct svg *svg, const struct kiln_view_page *page,
		       double y)
{
	double step = page->cells ? STRIP_WIDTH / page->cells : 0;
	unsigned end;

	svg_rect(svg, STRIP_X, y, STRIP_WIDTH, STRIP_HEIGHT,
		 page->seen ? UNMAPPED_COLOUR : UNSEEN_COLOUR);
	for (unsigned first = 0; first < page->cells; first = end) {
		for (end = first + 1; end < page->cells &&
				      alike(&page->cell[first],
					    &page->cell[end]);
		     end++)
			;
		draw_column(svg, &page->cell[first], STRIP_X + first * step, y,
			    (end - first) * step);
	}
}

/* ---- rows ---- */

static void draw_page(struct svg *svg, const struct pool_device *device,
		      const struct kiln_view_page *page, double y)
{
	uint64_t mapped = page->bytes - page->unmapped_bytes;
	double used = (double)(page->live_bytes + page->padding_bytes);
	double base = y + STRIP_HEIGHT - 3;
	char label[32], size[16], text[64];

	pool_label(label, sizeof(label), &device->pools[page->pool]);
	svg_text(svg, MARGIN, base, 12, label);
	svg_text_end(svg, STRIP_X - 10, base, 12,
		     pool_size(size, page->bytes));
	draw_strip(svg, page, y);
	if (page->seen)
		snprintf(text, sizeof(text), "%.0f %%",
			 mapped ? 100 * used / (double)mapped : 0);
	else
		snprintf(text, sizeof(text), "?");
	svg_text_end(svg, WIDTH - MARGIN, base, 12, text);
}

static double draw_device(struct svg *svg, const struct pool_device *device,
			  double y)
{
	const struct kiln_view_device *info = &device->info;
	char a[16], b[16], c[16], d[16], text[200];

	svg_text(svg, MARGIN, y + 16, 15, info->selector);
	snprintf(text, sizeof(text),
		 "reserved %s = live %s + cached %s + padding %s",
		 pool_size(a, info->reserved_bytes),
		 pool_size(b, info->live_bytes),
		 pool_size(c, info->cached_bytes),
		 pool_size(d, info->padding_bytes));
	svg_text(svg, MARGIN, y + 36, 12, text);
	y += DEVICE_HEAD;
	for (size_t i = 0; i < info->pages; i++, y += ROW)
		draw_page(svg, device, &device->pages[i], y);
	return y;
}

static void draw_legend(struct svg *svg, double y)
{
	double x = STRIP_X;

	for (int part = LIVE; part < PARTS; part++, x += 90) {
		svg_rect(svg, x, y, 12, 12, colours[part]);
		svg_text(svg, x + 17, y + 10, 12, names[part]);
	}
	svg_rect(svg, x, y, 12, 12, UNMAPPED_COLOUR);
	svg_text(svg, x + 17, y + 10, 12, "unmapped");
}

int pool_draw(const struct pool_process *process, const char *path)
{
	double height = HEAD + 2 * MARGIN, y = HEAD;
	char title[128];
	struct svg svg;

	for (size_t i = 0; i < process->info.devices; i++)
		height += DEVICE_HEAD +
			  ROW * (double)process->devices[i].info.pages;
	snprintf(title, sizeof(title), "Memory pools of %s (process %" PRIu64
		 ")", process->info.program, process->info.pid);
	if (!svg_begin(&svg, path, WIDTH, height, title))
		return EXIT_FAILURE;
	svg_text(&svg, MARGIN, 30, 18, title);
	for (size_t i = 0; i < process->info.devices; i++)
		y = draw_device(&svg, &process->devices[i], y);
	draw_legend(&svg, y + 8);
	return svg_end(&svg) ? EXIT_SUCCESS : EXIT_FAILURE;
}
