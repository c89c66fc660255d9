/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine as a picture: packages with their memory, shared caches and
 * cores, and below each the cards that are near, on their links.
 */
#include "tools/info.h"

#include <hwloc.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/svg.h"

#define MARGIN 20.0
#define GAP 8.0
#define HEADER 20.0       /* room for a title */
#define CORE_WIDTH 88.0
#define CORE_HEIGHT 50.0
#define CARD_WIDTH 400.0
#define CARD_HEIGHT 74.0
#define LINK 24.0         /* length of the line to a card */

static const char package_colour[] = "#e8eef4";
static const char cache_colour[] = "#cfdcea";
static const char core_colour[] = "#ffffff";
static const char card_colour[] = "#dcebd5";
static const char unusable_colour[] = "#f2dcd6";
static const char line_colour[] = "#445566";

/* ---- what hwloc knows ---- */

/* Components that would open vendors' libraries, or move the thread about. */
static void calm(hwloc_topology_t topology)
{
#if HWLOC_API_VERSION >= 0x00020100
	static const char *const names[] = { "x86", "pci", "opencl", "gl",
					     "cuda", "nvml", "rsmi",
					     "levelzero" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)hwloc_topology_set_components(
			topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			names[i]);
	/* Which complains where there is no /sys. */
	if (access("/sys/devices/system/cpu/cpu0/topology", F_OK))
		(void)hwloc_topology_set_components(
			topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			"linux");
#else
	(void)topology;
#endif
}

static hwloc_topology_t load(void)
{
	const char *xml = getenv("KILN_HWLOC_XML");
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology))
		return NULL;
	calm(topology);
	if ((!xml || !*xml || !hwloc_topology_set_xml(topology, xml)) &&
	    !hwloc_topology_load(topology))
		return topology;
	hwloc_topology_destroy(topology);
	return NULL;
}

/* The parts of a kind within another; the whole where there are none. */
struct parts {
	hwloc_topology_t topology;
	hwloc_obj_t whole;
	hwloc_obj_type_t type;
	unsigned count;  /* at least 1 */
	bool real;
};

static struct parts parts_of(hwloc_topology_t topology, hwloc_obj_t whole,
			     hwloc_obj_type_t type)
{
	struct parts parts = { topology, whole, type, 1, false };
	int count = hwloc_get_nbobjs_inside_cpuset_by_type(
		topology, whole->cpuset, type);

	if (count > 0) {
		parts.count = (unsigned)count;
		parts.real = true;
	}
	return parts;
}

static hwloc_obj_t part(const struct parts *parts, unsigned index)
{
	if (!parts->real)
		return parts->whole;
	return hwloc_get_obj_inside_cpuset_by_type(
		parts->topology, parts->whole->cpuset, parts->type, index);
}

/* Where hwloc knows no cores each CPU stands for one. */
static struct parts cores_of(hwloc_topology_t topology, hwloc_obj_t whole)
{
	struct parts cores = parts_of(topology, whole, HWLOC_OBJ_CORE);

	return cores.real ? cores : parts_of(topology, whole, HWLOC_OBJ_PU);
}

static void print_bytes(char *text, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	unsigned unit = 0;

	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(text, size, value < 10 && unit ? "%.1f %s" : "%.0f %s",
		 value, units[unit]);
}

/* ---- sizes ---- */

struct plan {
	hwloc_topology_t topology;
	struct parts packages;
	unsigned columns;      /* of cores in a cache's box */
	unsigned rows;
	unsigned cache_columns;
	unsigned cache_rows;
	double cache_width, cache_height;
	double package_width, package_height;
	unsigned package_columns;
	double cell_height;    /* of a package and the cards below it */
	double loose_height;   /* of the cards that are near no package */
};

static unsigned at_least(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

static unsigned divide_up(unsigned a, unsigned b)
{
	return (a + b - 1) / b;
}

/* All boxes of a kind are alike, so that the largest one decides. */
static void plan_sizes(struct plan *plan)
{
	unsigned cores = 1, caches = 1;

	for (unsigned p = 0; p < plan->packages.count; p++) {
		struct parts cache = parts_of(plan->topology,
					      part(&plan->packages, p),
					      HWLOC_OBJ_L3CACHE);

		caches = at_least(caches, cache.count);
		for (unsigned c = 0; c < cache.count; c++)
			cores = at_least(cores, cores_of(plan->topology,
							 part(&cache, c))
							.count);
	}
	/* Boxes of cores are about twice as wide as they are high. */
	plan->columns = (unsigned)ceil(sqrt(cores));
	plan->rows = divide_up(cores, plan->columns);
	plan->cache_columns = (unsigned)ceil(sqrt(caches));
	plan->cache_rows = divide_up(caches, plan->cache_columns);
	plan->cache_width = plan->columns * (CORE_WIDTH + GAP) + GAP;
	plan->cache_height = HEADER + plan->rows * (CORE_HEIGHT + GAP) + GAP;
	plan->package_width =
		plan->cache_columns * (plan->cache_width + GAP) + GAP;
	plan->package_height =
		HEADER + plan->cache_rows * (plan->cache_height + GAP) + GAP;
	/* So that the names and the memory have room. */
	plan->package_width =
		fmax(plan->package_width, LINK + CARD_WIDTH + GAP);
	plan->package_columns = plan->packages.count < 2 ? 1 : 2;
}

/* ---- processors ---- */

static void draw_core(struct svg *svg, hwloc_obj_t core, double x, double y)
{
	hwloc_obj_t cache = core;
	char text[64], list[40];

	svg_rect(svg, x, y, CORE_WIDTH, CORE_HEIGHT, core_colour);
	snprintf(text, sizeof(text), "core %u", core->logical_index);
	svg_text(svg, x + 4, y + 13, 11, text);
	hwloc_bitmap_list_snprintf(list, sizeof(list), core->cpuset);
	snprintf(text, sizeof(text), "CPU %.14s", list);
	svg_text(svg, x + 4, y + 28, 10, text);
	while (cache && cache->type != HWLOC_OBJ_L2CACHE)
		cache = cache->parent;
	if (!cache)
		return;
	print_bytes(list, sizeof(list), cache->attr->cache.size);
	snprintf(text, sizeof(text), "L2 %.16s", list);
	svg_text(svg, x + 4, y + 43, 10, text);
}

static void draw_cache(struct svg *svg, const struct plan *plan,
		       hwloc_obj_t cache, double x, double y)
{
	struct parts cores = cores_of(plan->topology, cache);
	char text[64] = "no shared cache is known", size[24];

	svg_rect(svg, x, y, plan->cache_width, plan->cache_height,
		 cache_colour);
	if (cache->type == HWLOC_OBJ_L3CACHE) {
		print_bytes(size, sizeof(size), cache->attr->cache.size);
		snprintf(text, sizeof(text), "L3 %.16s", size);
	}
	svg_text(svg, x + GAP, y + 15, 12, text);
	for (unsigned c = 0; c < cores.count; c++)
		draw_core(svg, part(&cores, c),
			  x + GAP +
				  c % plan->columns * (CORE_WIDTH + GAP),
			  y + HEADER + GAP / 2 +
				  c / plan->columns * (CORE_HEIGHT + GAP));
}

/* "node 0: 64 GiB", for each node of a package. */
static void print_nodes(char *text, size_t size, hwloc_topology_t topology,
			hwloc_obj_t package)
{
	hwloc_obj_t node = NULL;
	size_t used = 0;

	*text = '\0';
	while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE,
						  node))) {
		char bytes[24];
		int length;

		if (!hwloc_bitmap_isset(package->nodeset, node->os_index))
			continue;
		print_bytes(bytes, sizeof(bytes),
			    node->attr->numanode.local_memory);
		length = snprintf(text + used, size - used, "%snode %u: %s",
				  used ? ", " : "", node->os_index, bytes);
		if (length < 0 || (size_t)length >= size - used)
			break;
		used += (size_t)length;
	}
}

static void draw_package(struct svg *svg, const struct plan *plan,
			 unsigned index, double x, double y)
{
	hwloc_obj_t package = part(&plan->packages, index);
	struct parts caches =
		parts_of(plan->topology, package, HWLOC_OBJ_L3CACHE);
	const char *model = hwloc_obj_get_info_by_name(package, "CPUModel");
	char text[160], nodes[96];

	svg_rect(svg, x, y, plan->package_width, plan->package_height,
		 package_colour);
	snprintf(text, sizeof(text), "package %u  %.60s", index,
		 model ? model : "");
	svg_text(svg, x + GAP, y + 15, 13, text);
	print_nodes(nodes, sizeof(nodes), plan->topology, package);
	svg_text_end(svg, x + plan->package_width - GAP, y + 15, 12, nodes);
	for (unsigned c = 0; c < caches.count; c++)
		draw_cache(svg, plan, part(&caches, c),
			   x + GAP +
				   c % plan->cache_columns *
					   (plan->cache_width + GAP),
			   y + HEADER + GAP / 2 +
				   c / plan->cache_columns *
					   (plan->cache_height + GAP));
}

/* ---- cards ---- */

/* The package that a card is near; the number of packages where unknown. */
static unsigned package_of(const struct plan *plan,
			   const struct kiln_card *card)
{
	for (unsigned p = 0; p < plan->packages.count; p++)
		if (card->numa_node >= 0 &&
		    hwloc_bitmap_isset(part(&plan->packages, p)->nodeset,
				       (unsigned)card->numa_node))
			return p;
	return plan->packages.count;
}

static bool is_drawn(const struct kiln_card *card)
{
	return card->pci || card->kind != KILN_KIND_CPU;
}

static unsigned cards_of(const struct plan *plan,
			 const struct kiln_physical *listing, unsigned package)
{
	unsigned count = 0;

	for (size_t i = 0; i < kiln_physical_count(listing); i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		count += is_drawn(card) && package_of(plan, card) == package;
	}
	return count;
}

/* The ways to a card in one line, or why there is none. */
static void print_ways(char *text, size_t size, const struct kiln_card *card)
{
	size_t used = 0;
	const char *reason = card->unusable ? card->unusable : "no device";

	if (!card->unusable && card->absence_count)
		reason = card->absences[0].reason;
	snprintf(text, size, "%s", reason);
	for (size_t i = 0; i < card->device_count; i++) {
		int length = snprintf(text + used, size - used, "%s%s",
				      i ? ", " : "", card->devices[i].selector);

		if (length < 0 || (size_t)length >= size - used)
			return;
		used += (size_t)length;
	}
}

static void draw_card(struct svg *svg, const struct kiln_card *card, double x,
		      double y)
{
	char text[96], bytes[24] = "memory unknown";

	svg_rect(svg, x, y, CARD_WIDTH, CARD_HEIGHT,
		 card->device_count ? card_colour : unusable_colour);
	snprintf(text, sizeof(text), "%s  %.50s",
		 card->pci ? card->pci : "PCI unknown",
		 card->name ? card->name : "");
	svg_text(svg, x + GAP, y + 18, 12, text);
	if (card->memory_bytes)
		print_bytes(bytes, sizeof(bytes), card->memory_bytes);
	snprintf(text, sizeof(text), "%s, %s, %s", bytes,
		 card->kind == KILN_KIND_OTHER
			 ? "kind unknown"
			 : kiln_device_kind_name(card->kind),
		 card->link ? card->link : "link unknown");
	svg_text(svg, x + GAP, y + 40, 11, text);
	print_ways(text, sizeof(text), card);
	svg_text(svg, x + GAP, y + 61, 11, text);
}

/* In a column, on a line from above; package as package_of gives it. */
static void draw_cards(struct svg *svg, const struct plan *plan,
		       const struct kiln_physical *listing, unsigned package,
		       double x, double y)
{
	bool linked = package < plan->packages.count;
	double top = y, end = y;

	for (size_t i = 0; i < kiln_physical_count(listing); i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		if (!is_drawn(card) || package_of(plan, card) != package)
			continue;
		y += GAP;
		end = y + CARD_HEIGHT / 2;
		if (linked)
			svg_rect(svg, x + GAP, end - 1, LINK - GAP, 2,
				 line_colour);
		draw_card(svg, card, x + LINK, y);
		y += CARD_HEIGHT;
	}
	if (linked)
		svg_rect(svg, x + GAP, top, 2, end - top, line_colour);
}

/* ---- all of it ---- */

static void plan_cards(struct plan *plan, const struct kiln_physical *listing)
{
	const double each = CARD_HEIGHT + GAP;
	unsigned most = 0;

	for (unsigned p = 0; p < plan->packages.count; p++)
		most = at_least(most, cards_of(plan, listing, p));
	plan->cell_height = plan->package_height + most * each + MARGIN;
	plan->loose_height =
		cards_of(plan, listing, plan->packages.count) * each;
}

static void draw_machine(struct svg *svg, const struct plan *plan,
			 const struct kiln_physical *listing)
{
	unsigned count = plan->packages.count;
	double y = MARGIN + HEADER;

	svg_text(svg, MARGIN, MARGIN + 6, 14,
		 "Packages, caches and cores; cards by PCI address");
	for (unsigned p = 0; p < count; p++) {
		double left = MARGIN + p % plan->package_columns *
					       (plan->package_width + MARGIN);
		double top = y + p / plan->package_columns * plan->cell_height;

		draw_package(svg, plan, p, left, top);
		draw_cards(svg, plan, listing, p, left,
			   top + plan->package_height);
	}
	y += divide_up(count, plan->package_columns) * plan->cell_height;
	draw_cards(svg, plan, listing, count, MARGIN - LINK, y);
}

int info_svg(const struct kiln_physical *listing, const char *path)
{
	struct plan plan = { .topology = load() };
	struct svg svg;
	double width, height;
	bool drawn;

	if (!plan.topology) {
		tool_complain("info: hwloc finds no topology");
		return EXIT_FAILURE;
	}
	plan.packages = parts_of(plan.topology,
				 hwloc_get_root_obj(plan.topology),
				 HWLOC_OBJ_PACKAGE);
	plan_sizes(&plan);
	plan_cards(&plan, listing);
	width = MARGIN + plan.package_columns * (plan.package_width + MARGIN);
	height = MARGIN + HEADER +
		 divide_up(plan.packages.count, plan.package_columns) *
			 plan.cell_height +
		 plan.loose_height + MARGIN;
	drawn = svg_begin(&svg, path, width, height, "kiln info");
	if (drawn) {
		draw_machine(&svg, &plan, listing);
		drawn = svg_end(&svg);
	}
	hwloc_topology_destroy(plan.topology);
	return drawn ? EXIT_SUCCESS : EXIT_FAILURE;
}
