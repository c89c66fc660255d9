/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

#include <string.h>

/* Layouts of the pools: read, checked, installed. */

/* ---- rungs ---- */

/* What is wrong with a rung after before (or NULL); NULL: nothing. */
static const char *fault_of(const struct kilni_pools_rung *rung,
			    const struct kilni_pools_rung *before)
{
	if (!rung->page_bytes || rung->page_bytes > UINT64_MAX / 2)
		return "the page size makes no sense";
	if (!rung->slice_bytes)
		return "the largest slice is 0";
	if (rung->slice_bytes > rung->page_bytes)
		return "the largest slice is larger than the page";
	if (before && rung->slice_bytes <= before->slice_bytes)
		return "slices do not rise";
	if (rung->cap_bytes && rung->cap_bytes < rung->page_bytes)
		return "the cap is less than a page";
	return NULL;
}

enum kiln_status kilni_pools_check_rungs(
	const struct kilni_pools_config *config)
{
	const struct kilni_pools_rung *before = NULL;
	unsigned i;

	if (config->rungs > KILNI_RUNGS_MAX)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "pools: a layout of %u rungs, %d is the most",
				  config->rungs, KILNI_RUNGS_MAX);
	for (i = 0; i < config->rungs; i++) {
		const struct kilni_pools_rung *rung = &config->rung[i];
		const char *fault = fault_of(rung, before);

		if (fault)
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "pools: rung %u of the layout, "
					  "%llu:%llu:%llu: %s", i + 1,
					  (unsigned long long)rung->page_bytes,
					  (unsigned long long)rung->slice_bytes,
					  (unsigned long long)rung->cap_bytes,
					  fault);
		before = rung;
	}
	return KILN_OK;
}

/* ---- PAGE:SLICE[:CAP],... ---- */

static enum kiln_status malformed(const char *name, const char *text,
				  const char *at, const char *why)
{
	return kilni_fail(KILN_ERR_OPTION, 0, "%s: \"%s\", character %zu: %s",
			  name, text, (size_t)(at - text) + 1, why);
}

static const char *parse_rung(const char **at, struct kilni_pools_rung *rung)
{
	static const char no_size[] = "a size in bytes is expected";

	*rung = (struct kilni_pools_rung){ 0, 0, 0 };
	if (!kilni_parse_bytes(at, &rung->page_bytes))
		return no_size;
	if (**at != ':')
		return "':' and the largest slice are expected";
	++*at;
	if (!kilni_parse_bytes(at, &rung->slice_bytes))
		return no_size;
	if (**at != ':')
		return NULL;
	++*at;
	if (!kilni_parse_bytes(at, &rung->cap_bytes))
		return no_size;
	return rung->cap_bytes ? NULL : "a cap of 0";
}

enum kiln_status kilni_pools_parse_layout(const char *name, const char *text,
					  struct kilni_pools_config *config)
{
	struct kilni_pools_rung *before = NULL;
	const char *at = text, *start, *why;
	unsigned count = 0;

	for (;;) {
		struct kilni_pools_rung *rung = &config->rung[count];

		if (count == KILNI_RUNGS_MAX)
			return malformed(name, text, at, "too many rungs");
		start = at;
		why = parse_rung(&at, rung);
		if (why)
			return malformed(name, text, at, why);
		why = fault_of(rung, before);
		if (why)
			return malformed(name, text, start, why);
		before = rung;
		count++;
		if (!*at)
			break;
		if (*at != ',')
			return malformed(name, text, at,
					 "',' or the end is expected");
		at++;
	}
	config->rungs = count;
	return KILN_OK;
}

/* ---- the environment ---- */

static enum kiln_status read_pages(struct kilni_pools_config *config)
{
	const char *text = kilni_option_text(KILNI_OPT_PAGES);

	config->plain = text && !strcmp(text, "plain");
	if (text && !config->plain && strcmp(text, "mapped"))
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "KILN_PAGES: \"%s\" is neither mapped nor "
				  "plain",
				  text);
	return KILN_OK;
}

enum kiln_status kilni_pools_configure(struct kilni_pools_config *config,
				       uint64_t total_bytes)
{
	const char *layout = kilni_option_text(KILNI_OPT_POOL_LAYOUT);
	uint64_t fill = 0;

	*config = (struct kilni_pools_config){ .cap_bytes = 0 };
	KILNI_TRY(kilni_option_number(KILNI_OPT_PAGE_BYTES,
				      &config->page_bytes));
	KILNI_TRY(kilni_option_share(KILNI_OPT_POOL_CAP_BYTES, total_bytes,
				     &config->cap_bytes));
	KILNI_TRY(read_pages(config));
	KILNI_TRY(kilni_option_number(KILNI_OPT_MEMORY_FILL, &fill));
	config->fill = fill;
	KILNI_TRY(kilni_option_number(KILNI_OPT_POOL_VERIFY,
				      &config->verify_every));
	if (!layout)
		return KILN_OK;
	return kilni_pools_parse_layout("KILN_POOL_LAYOUT", layout, config);
}

/* ---- pins ---- */

/* Adds to the count of pins of what lies under a slice. */
static void pin(struct kilni_pools *pools, const struct kilni_slice *slice,
		uint32_t more)
{
	const struct kilni_mapped *range = &pools->range;
	uint64_t address = slice->address, end = address + slice->bytes;
	uint64_t base = range->page.page.address;
	struct kilni_page_record *page;
	unsigned i;

	if (range->pool && address >= base &&
	    address - base < range->page.page.bytes) {
		while (address < end) {
			struct kilni_object *object =
				kilni_object_at(range, address);

			object->pins += more;
			address = object->address + object->bytes;
		}
		return;
	}
	for (i = 0; i < kilni_pool_count(pools); i++)
		for (page = pools->pool[i].pages; page; page = page->after)
			if (address >= page->page.address &&
			    address - page->page.address < page->page.bytes)
				page->pins += more;
}

void kilni_pools_pin(struct kilni_pools *pools, const struct kilni_slice *slice)
{
	if (!slice->bytes)
		return;
	pthread_mutex_lock(&pools->lock);
	pin(pools, slice, 1);
	pthread_mutex_unlock(&pools->lock);
}

void kilni_pools_unpin(struct kilni_pools *pools,
		       const struct kilni_slice *slice)
{
	if (!slice->bytes)
		return;
	pthread_mutex_lock(&pools->lock);
	pin(pools, slice, UINT32_MAX);
	pthread_mutex_unlock(&pools->lock);
}
