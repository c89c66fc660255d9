/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pool.h"

#include "tools/tool.h"

/*
 * A line per page: its pool and size, a strip of one character per piece, and
 * how much of it is in use. A character stands for what most of its piece is;
 * where something of it is in use it is never drawn as unused.
 */

enum part { LIVE, PADDING, CACHED, UNMAPPED, UNSEEN, PARTS };

struct look {
	const char *name, *utf8, *ascii, *colour;
};

static const struct look looks[PARTS] = {
	[LIVE] = { "used", "\u2588", "#", "32" },
	[PADDING] = { "padding", "\u2593", "+", "33" },
	[CACHED] = { "cached", "\u2591", "-", "36" },
	[UNMAPPED] = { "unmapped", "\u00b7", ".", "90" },
	[UNSEEN] = { "not looked at", "?", "?", "90" },
};

/* What stands in front of a strip and behind it. */
#define LABEL_COLUMNS 24
#define TAIL_COLUMNS 6
#define LEAST_COLUMNS 8

static void put(const struct pool_style *style, enum part part, unsigned count)
{
	const struct look *look = &looks[part];

	if (!count)
		return;
	if (style->colour)
		printf("\033[%sm", look->colour);
	while (count--)
		fputs(style->utf8 ? look->utf8 : look->ascii, stdout);
	if (style->colour)
		fputs("\033[0m", stdout);
}

/* ---- strips ---- */

static unsigned strip_columns(const struct pool_style *style)
{
	unsigned columns = style->columns;

	columns = columns > LABEL_COLUMNS + TAIL_COLUMNS + LEAST_COLUMNS
			  ? columns - LABEL_COLUMNS - TAIL_COLUMNS
			  : LEAST_COLUMNS;
	return columns < KILN_VIEW_CELLS ? columns : KILN_VIEW_CELLS;
}

/* The most of the cells from..to, in a page of so many. */
static enum part dominant(const struct kiln_view_page *page, unsigned from,
			  unsigned to)
{
	float sum[PARTS] = { 0 };
	enum part best = CACHED;

	for (unsigned i = from; i < to; i++) {
		sum[LIVE] += page->cell[i].live;
		sum[PADDING] += page->cell[i].padding;
		sum[CACHED] += page->cell[i].cached;
		sum[UNMAPPED] += page->cell[i].unmapped;
	}
	for (int part = LIVE; part < UNSEEN; part++)
		if (sum[part] > sum[best])
			best = (enum part)part;
	if ((best == CACHED || best == UNMAPPED) &&
	    sum[LIVE] + sum[PADDING] > 0)
		best = sum[LIVE] >= sum[PADDING] ? LIVE : PADDING;
	return best;
}

static void print_strip(const struct pool_style *style,
			const struct kiln_view_page *page)
{
	unsigned columns = strip_columns(style), same = 0;
	enum part last = UNSEEN;

	if (!page->cells) {
		put(style, UNSEEN, columns);
		return;
	}
	for (unsigned i = 0; i < columns; i++) {
		unsigned from = i * page->cells / columns;
		unsigned to = (i + 1) * page->cells / columns;
		enum part part = dominant(page, from,
					  to > from ? to : from + 1);

		if (part != last) {
			put(style, last, same);
			same = 0;
		}
		last = part;
		same++;
	}
	put(style, last, same);
}

static void print_page(const struct pool_style *style,
		       const struct pool_device *device,
		       const struct kiln_view_page *page)
{
	char label[32], size[16];
	double used = (double)(page->live_bytes + page->padding_bytes);
	double mapped = (double)(page->bytes - page->unmapped_bytes);

	pool_label(label, sizeof(label), &device->pools[page->pool]);
	printf("  %-12s %8s ", label, pool_size(size, page->bytes));
	print_strip(style, page);
	if (page->seen)
		printf(" %3.0f%%%s\n", mapped > 0 ? 100 * used / mapped : 0.0,
		       page->old ? "*" : "");
	else
		puts("    ?");
}

/* ---- the map ---- */

static void print_legend(const struct pool_style *style)
{
	fputs("  ", stdout);
	for (int part = LIVE; part < PARTS; part++) {
		put(style, (enum part)part, 1);
		printf(" %s  ", looks[part].name);
	}
	puts("* seen earlier");
}

void pool_print_map(const struct pool_process *process,
		    const struct pool_style *style)
{
	for (size_t i = 0; i < process->info.devices; i++) {
		const struct pool_device *device = &process->devices[i];

		putchar('\n');
		tool_plain(device->info.selector);
		puts(": pages");
		for (size_t j = 0; j < device->info.pages; j++)
			print_page(style, device, &device->pages[j]);
	}
	print_legend(style);
}
