/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a text means. */
#include "lib/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/probe.h"

/*
 *	selector = "auto"
 *	         | ("cpu" | "null" | "cuda") [":" number]
 *	         | "vulkan" [":" kind [":" number]]
 *	         | "pci:" address
 *	         | "uuid:" beginning
 *	kind     = "discrete" | "integrated" | "virtual" | "other" | "cpu"
 *	number   = 1 to 6 digits
 *
 * An address is as in drivers/pci.h; a beginning that of a UUID, "GPU-" and
 * "MIG-" included or not, of which only one device's begins so.
 */

const struct kilni_driver *const *kilni_driver_list = kilni_drivers;

/* ---- words ---- */

static const struct {
	const char *name;
	enum kiln_device_type type;
} apis[] = {
	{ "cpu", KILN_DEVICE_CPU },
	{ "null", KILN_DEVICE_NULL },
	{ "cuda", KILN_DEVICE_CUDA },
	{ "vulkan", KILN_DEVICE_VULKAN },
};

/* By enum kiln_device_kind. */
static const char *const kinds[] = { "other", "integrated", "discrete",
				     "virtual", "cpu" };

/* Kinds of real GPU, the best first. */
static const enum kiln_device_kind real_kinds[] = { KILN_KIND_DISCRETE,
						    KILN_KIND_INTEGRATED,
						    KILN_KIND_VIRTUAL };

const char *kiln_device_kind_name(enum kiln_device_kind kind)
{
	return (unsigned)kind < KILNI_COUNTOF(kinds) ? kinds[kind] : "other";
}

bool kilni_is_gpu(const struct kilni_driver *driver)
{
	return driver->type == KILN_DEVICE_CUDA ||
	       driver->type == KILN_DEVICE_VULKAN;
}

const struct kilni_driver *kilni_driver_of(enum kiln_device_type type)
{
	for (size_t i = 0; kilni_driver_list[i]; i++)
		if (kilni_driver_list[i]->type == type)
			return kilni_driver_list[i];
	return NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && !strncmp(text, word, length);
}

static enum kiln_status refuse(const char *selector, const char *part,
			       size_t length, const char *what)
{
	return kilni_fail(KILN_ERR_SELECTOR, 0,
			  "kiln_device_open: \"%.100s\": \"%.*s\" is %s",
			  selector, (int)kilni_min_u64(length, 60), part,
			  what);
}

/* ---- numbers and kinds ---- */

/* All of the text. */
static enum kiln_status read_number(const char *selector, const char *text,
				    unsigned *number)
{
	size_t length = strspn(text, "0123456789");

	if (!length || text[length] || length > 6)
		return refuse(selector, text, strlen(text),
			      "no number of a device");
	*number = 0;
	for (; *text; text++)
		*number = 10 * *number + (unsigned)(*text - '0');
	return KILN_OK;
}

static enum kiln_status read_kind(const char *selector, const char *text,
				  enum kiln_device_kind *kind,
				  unsigned *number)
{
	size_t length = strcspn(text, ":");

	*number = 0;
	for (size_t i = 0; i < KILNI_COUNTOF(kinds); i++) {
		if (!is_word(text, length, kinds[i]))
			continue;
		*kind = (enum kiln_device_kind)i;
		if (!text[length])
			return KILN_OK;
		return read_number(selector, text + length + 1, number);
	}
	return refuse(selector, text, length,
		      "no kind of device: discrete, integrated, virtual, "
		      "other or cpu");
}

/* ---- devices of one driver ---- */

enum kiln_status kilni_place_look(const struct kilni_driver *driver,
				  unsigned index, struct kilni_place *place)
{
	memset(place, 0, sizeof(*place));
	place->driver = driver;
	place->index = index;
	return driver->driver->describe(index, &place->info);
}

/* The number-th of a kind; false where there are fewer. */
static bool find_kind(const struct kilni_driver *driver,
		      enum kiln_device_kind kind, unsigned number, bool usable,
		      struct kilni_place *place)
{
	size_t count = driver->driver->count();

	for (unsigned n = 0; n < count; n++)
		if (kilni_place_look(driver, n, place) == KILN_OK &&
		    place->info.kind == kind &&
		    !(usable && *place->info.refused) && !number--)
			return true;
	return false;
}

/* The best real GPU of a driver; usable: that it would open. */
static bool find_real(const struct kilni_driver *driver, bool usable,
		      struct kilni_place *place)
{
	for (size_t k = 0; k < KILNI_COUNTOF(real_kinds); k++)
		if (find_kind(driver, real_kinds[k], 0, usable, place))
			return true;
	return false;
}

static enum kiln_status no_device(const char *selector,
				  const struct kilni_driver *driver,
				  const char *reason)
{
	const char *absent = driver->driver->absent();

	return kilni_fail(absent ? driver->driver->absent_status()
				 : KILN_ERR_NO_DEVICE,
			  0, "kiln_device_open: \"%.100s\": %s", selector,
			  absent ? absent : reason);
}

static enum kiln_status find_number(const char *selector,
				    const struct kilni_driver *driver,
				    unsigned number, struct kilni_place *place)
{
	size_t count = driver->driver->count();
	char reason[64];

	if (number < count)
		return kilni_place_look(driver, number, place);
	snprintf(reason, sizeof(reason),
		 "%s has %zu device%s, numbered from 0", driver->name, count,
		 count == 1 ? "" : "s");
	return no_device(selector, driver, reason);
}

static enum kiln_status find_vulkan(const char *selector, const char *rest,
				    const struct kilni_driver *driver,
				    struct kilni_place *place)
{
	enum kiln_device_kind kind;
	unsigned number;

	if (!rest) {
		/* One that is refused is opened all the same, to say why. */
		if (find_real(driver, true, place) ||
		    find_real(driver, false, place))
			return KILN_OK;
		return no_device(selector, driver,
				 "Vulkan shows no GPU that can be used here; "
				 "\"vulkan:cpu\" selects a device in software, "
				 "kiln info says what there is");
	}
	KILNI_TRY(read_kind(selector, rest, &kind, &number));
	if (find_kind(driver, kind, number, false, place))
		return KILN_OK;
	return no_device(selector, driver, "there is no such device");
}

static enum kiln_status check_api(const char *selector, size_t api,
				  const char *rest)
{
	enum kiln_device_kind kind;
	unsigned number;

	if (!rest)
		return KILN_OK;
	return apis[api].type == KILN_DEVICE_VULKAN
		       ? read_kind(selector, rest, &kind, &number)
		       : read_number(selector, rest, &number);
}

static enum kiln_status find_api(const char *selector, size_t api,
				 const char *rest, struct kilni_place *place)
{
	const struct kilni_driver *driver = kilni_driver_of(apis[api].type);
	unsigned number = 0;

	/* A malformed text is refused as such whatever the build. */
	KILNI_TRY(check_api(selector, api, rest));
	if (!driver)
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "kiln_device_open: \"%.100s\": this build "
				  "has no driver for it",
				  selector);
	if (apis[api].type == KILN_DEVICE_VULKAN)
		return find_vulkan(selector, rest, driver, place);
	if (rest)
		KILNI_TRY(read_number(selector, rest, &number));
	return find_number(selector, driver, number, place);
}

/* ---- auto ---- */

/*
 * A card that nothing but a permission keeps away is worth a word, once in a
 * process: its user may wait long for a program on the CPU.
 */
static void warn_of_unusable(void)
{
	static int warned;
	struct kilni_card *cards;
	size_t count;

	if (__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED) ||
	    kilni_probe_cards(&cards, &count) != KILN_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		char address[KILNI_PCI_BYTES];

		if (!cards[i].no_permission)
			continue;
		kilni_pci_print(&cards[i].pci, address);
		kilni_log(KILNI_LOG_WARN,
			  "the CPU is used, not the card at %s: %s", address,
			  cards[i].reason);
		break;
	}
	free(cards);
}

static enum kiln_status find_auto(struct kilni_place *place)
{
	bool any_gpu = kilni_probe_any_gpu();
	const struct kilni_driver *cpu;

	for (size_t i = 0; any_gpu && kilni_driver_list[i]; i++)
		if (kilni_is_gpu(kilni_driver_list[i]) &&
		    find_real(kilni_driver_list[i], true, place))
			return KILN_OK;
	cpu = kilni_driver_of(KILN_DEVICE_CPU);
	if (!cpu)
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "kiln_device_open: \"auto\" finds no device");
	warn_of_unusable();
	return find_number("auto", cpu, 0, place);
}

/* ---- cards ---- */

/* Why nothing opens the card at an address. */
static enum kiln_status explain_card(const char *selector,
				     const struct kilni_pci *pci)
{
	struct kilni_card *cards;
	size_t count;
	char reason[sizeof(cards->reason) + 32] = "";

	KILNI_TRY(kilni_probe_cards(&cards, &count));
	for (size_t i = 0; i < count; i++)
		if (!kilni_pci_compare(&cards[i].pci, pci))
			snprintf(reason, sizeof(reason), "%s",
				 *cards[i].reason ? cards[i].reason
						  : "no driver shows the card");
	free(cards);
	return kilni_fail(KILN_ERR_NO_DEVICE, 0,
			  "kiln_device_open: \"%.100s\": %s", selector,
			  *reason ? reason : "there is no card");
}

/* By the first driver that opens the card, else by the first that shows it. */
static enum kiln_status find_address(const char *selector, const char *rest,
				     struct kilni_place *place)
{
	struct kilni_place seen, refused = { .driver = NULL };
	struct kilni_pci pci, its;

	if (!kilni_pci_parse(rest, &pci))
		return refuse(selector, rest, strlen(rest),
			      "no address dddd:bb:dd.f");
	for (size_t i = 0; kilni_driver_list[i]; i++) {
		const struct kilni_driver *driver = kilni_driver_list[i];
		size_t count = driver->driver->count();

		for (unsigned n = 0; n < count; n++) {
			if (kilni_place_look(driver, n, &seen) != KILN_OK ||
			    !kilni_pci_parse(seen.info.pci, &its) ||
			    kilni_pci_compare(&pci, &its))
				continue;
			if (!*seen.info.refused) {
				*place = seen;
				return KILN_OK;
			}
			if (!refused.driver)
				refused = seen;
		}
	}
	if (!refused.driver)
		return explain_card(selector, &pci);
	*place = refused;
	return KILN_OK;
}

/* ---- UUIDs ---- */

/* What follows "GPU-" or "MIG-"; of the two, the other's is not taken. */
static bool has_beginning(const char *uuid, const char *beginning)
{
	if (!strncmp(uuid, beginning, strlen(beginning)))
		return true;
	if (!strncmp(beginning, "GPU-", 4))
		return !strncmp(uuid, beginning + 4, strlen(beginning + 4));
	return (!strncmp(uuid, "GPU-", 4) || !strncmp(uuid, "MIG-", 4)) &&
	       !strncmp(uuid + 4, beginning, strlen(beginning));
}

/* One card through two drivers; a slice is a device of its own. */
static bool is_same_card(const struct kilni_place *a,
			 const struct kilni_place *b)
{
	struct kilni_pci x, y;

	return a->driver != b->driver && !a->info.slice && !b->info.slice &&
	       kilni_pci_parse(a->info.pci, &x) &&
	       kilni_pci_parse(b->info.pci, &y) && !kilni_pci_compare(&x, &y);
}

static enum kiln_status find_uuid(const char *selector, const char *rest,
				  struct kilni_place *place)
{
	struct kilni_place seen;

	place->driver = NULL;
	if (!*rest || !strcmp(rest, "GPU-") || !strcmp(rest, "MIG-"))
		return refuse(selector, rest, strlen(rest),
			      "no beginning of a UUID");
	for (size_t i = 0; kilni_driver_list[i]; i++) {
		const struct kilni_driver *driver = kilni_driver_list[i];
		size_t count = driver->driver->count();

		for (unsigned n = 0; n < count; n++) {
			if (kilni_place_look(driver, n, &seen) != KILN_OK ||
			    !*seen.info.uuid ||
			    !has_beginning(seen.info.uuid, rest))
				continue;
			if (!place->driver)
				*place = seen;
			else if (!is_same_card(place, &seen))
				return kilni_fail(
					KILN_ERR_SELECTOR, 0,
					"kiln_device_open: \"%.100s\": more "
					"than one device's UUID begins so; "
					"\"pci:\" tells cards apart",
					selector);
		}
	}
	if (place->driver)
		return KILN_OK;
	return kilni_fail(KILN_ERR_NO_DEVICE, 0,
			  "kiln_device_open: \"%.100s\": no device's UUID "
			  "begins so",
			  selector);
}

/* ---- all of it ---- */

enum kiln_status kilni_selector_check(const char *selector)
{
	size_t length = strcspn(selector, ":");
	const char *rest = selector[length] ? selector + length + 1 : NULL;
	struct kilni_pci pci;

	if (!strcmp(selector, "auto"))
		return KILN_OK;
	if (rest && is_word(selector, length, "pci"))
		return kilni_pci_parse(rest, &pci)
			       ? KILN_OK
			       : refuse(selector, rest, strlen(rest),
					"no address dddd:bb:dd.f");
	if (rest && is_word(selector, length, "uuid") && *rest)
		return KILN_OK;
	for (size_t i = 0; i < KILNI_COUNTOF(apis); i++)
		if (is_word(selector, length, apis[i].name))
			return check_api(selector, i, rest);
	return refuse(selector, selector, length,
		      "no device selector: auto, cpu, null, cuda, vulkan, pci:"
		      " or uuid:");
}

enum kiln_status kilni_selector_find(const char *selector,
				     struct kilni_place *place)
{
	size_t length = strcspn(selector, ":");
	const char *rest = selector[length] ? selector + length + 1 : NULL;

	if (!strcmp(selector, "auto"))
		return find_auto(place);
	if (rest && is_word(selector, length, "pci"))
		return find_address(selector, rest, place);
	if (rest && is_word(selector, length, "uuid"))
		return find_uuid(selector, rest, place);
	for (size_t i = 0; i < KILNI_COUNTOF(apis); i++)
		if (is_word(selector, length, apis[i].name))
			return find_api(selector, i, rest, place);
	return refuse(selector, selector, length,
		      "no device selector: auto, cpu, null, cuda, vulkan, pci:"
		      " or uuid:");
}

void kilni_selector_print(const struct kilni_place *place, char *text,
			  size_t size)
{
	const struct kilni_driver *driver = place->driver;
	struct kilni_place other;
	unsigned number = 0;

	if (driver->type != KILN_DEVICE_VULKAN) {
		snprintf(text, size, "%s:%u", driver->name, place->index);
		return;
	}
	for (unsigned n = 0; n < place->index; n++)
		number += kilni_place_look(driver, n, &other) == KILN_OK &&
			  other.info.kind == place->info.kind;
	snprintf(text, size, "%s:%s:%u", driver->name,
		 kiln_device_kind_name(place->info.kind), number);
}
