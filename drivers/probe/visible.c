/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe.h"

#include <stdlib.h>
#include <string.h>

/* What an entry cannot name: it ends the list. */
#define NONE (-2)

/* The cards to choose from. */
struct cards {
	const char *const *uuids;
	size_t count;
};

/* ---- numbers ---- */

/* As the C library reads one, cut to 32 bits: -4294967296 is card 0. */
static int by_number(const char *word, const struct cards *cards)
{
	char *end;
	uint32_t number = (uint32_t)strtoul(word, &end, 10);

	return end != word && number < cards->count ? (int)number : NONE;
}

/* ---- UUIDs ---- */

#define UUID_DIGITS 32

/* The hex digits of a UUID, each as its value; dashes are passed over. */
struct digits {
	unsigned char digit[UUID_DIGITS];
	size_t count;
};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Up to the end of the entry; what follows a whole UUID is ignored. False
 * where anything else is between the digits, or there are none.
 */
static bool read_digits(const char *text, struct digits *digits)
{
	digits->count = 0;
	for (; *text && *text != ',' && digits->count < UUID_DIGITS; text++) {
		if (*text == '-')
			continue;
		if (hex(*text) < 0)
			return false;
		digits->digit[digits->count++] = (unsigned char)hex(*text);
	}
	return digits->count > 0;
}

/* The only card whose UUID begins so. */
static int by_digits(const struct digits *wanted, const struct cards *cards)
{
	struct digits its;
	int found = NONE;

	for (size_t i = 0; i < cards->count; i++) {
		const char *uuid = cards->uuids[i];

		if (!uuid || strncmp(uuid, "GPU-", 4) ||
		    !read_digits(uuid + 4, &its) ||
		    its.count < wanted->count ||
		    memcmp(its.digit, wanted->digit, wanted->count))
			continue;
		if (found != NONE)
			return NONE;
		found = (int)i;
	}
	return found;
}

static bool begins(const char *word, const char *prefix)
{
	return !strncmp(word, prefix, strlen(prefix));
}

/* Slices, where there are any, are known to CUDA alone. */
static int by_slice(const char *word, const struct cards *cards)
{
	struct digits wanted;
	int card;

	if (begins(word, "GPU-")) {
		/* Of the older form, GPU-<uuid>/<gi>/<ci>. */
		size_t length = strcspn(word, ",");

		if (!memchr(word, '/', length) ||
		    strcspn(word, "/") < sizeof("GPU-") - 1 + UUID_DIGITS ||
		    !read_digits(word + 4, &wanted))
			return NONE;
		return by_digits(&wanted, cards);
	}
	if (!read_digits(word, &wanted))
		return NONE;
	card = by_digits(&wanted, cards);
	return card != NONE && wanted.count == UUID_DIGITS
		       ? card
		       : KILNI_VISIBLE_SLICE;
}

static int by_uuid(const char *word, const struct cards *cards)
{
	struct digits wanted;

	if (begins(word, "MIG-"))
		return by_slice(word + 4, cards);
	if (!begins(word, "GPU-") || !read_digits(word + 4, &wanted))
		return NONE;
	return by_digits(&wanted, cards);
}

/* ---- the list ---- */

static bool has(const int *order, size_t found, int card)
{
	for (size_t i = 0; i < found; i++)
		if (order[i] == card)
			return true;
	return false;
}

static size_t show_all(size_t count, int *order)
{
	for (size_t i = 0; i < count; i++)
		order[i] = (int)i;
	return count;
}

bool kilni_visible_by_uuid(const char *text)
{
	return begins(text, "GPU-") || begins(text, "MIG-");
}

size_t kilni_visible_cards(const char *text, const char *const *uuids,
			   size_t count, int *order)
{
	struct cards cards = { uuids, count };
	size_t found = 0;
	bool uuid;

	if (!text)
		return show_all(count, order);
	/* The first entry says what the list consists of. */
	uuid = kilni_visible_by_uuid(text);
	while (text) {
		int card = uuid ? by_uuid(text, &cards)
				: by_number(text, &cards);

		if (card == NONE)
			break;
		/* CUDA refuses to start then. */
		if (card != KILNI_VISIBLE_SLICE && has(order, found, card))
			return 0;
		if (found == count)
			break;
		order[found++] = card;
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	return found;
}

bool kilni_visible_order_is_good(const char *text)
{
	return !text || !*text || !strcmp(text, "PCI_BUS_ID") ||
	       !strcmp(text, "FASTEST_FIRST");
}
