/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe.h"

#include <ctype.h>
#include <string.h>

/* What an entry cannot name: it ends the list. */
#define NONE (-2)

/* One entry of the list; not ended by a 0. */
struct word {
	const char *text;
	size_t length;
};

/* The cards to choose from. */
struct cards {
	const char *const *uuids;
	size_t count;
};

static bool begins(const struct word *word, const char *prefix)
{
	size_t length = strlen(prefix);

	return word->length >= length && !strncmp(word->text, prefix, length);
}

/* The word up to the next comma; text goes on behind it, NULL at the end. */
static struct word next_word(const char **text)
{
	struct word word = { *text, strcspn(*text, ",") };

	*text = word.text[word.length] ? word.text + word.length + 1 : NULL;
	return word;
}

/* ---- entries ---- */

static int by_number(const struct word *word, const struct cards *cards)
{
	size_t number = 0, i = 0;

	while (i < word->length && isspace((unsigned char)word->text[i]))
		i++;
	if (i < word->length && word->text[i] == '+')
		i++;
	if (i == word->length || !isdigit((unsigned char)word->text[i]))
		return NONE;
	for (; i < word->length && isdigit((unsigned char)word->text[i]); i++) {
		number = number * 10 + (size_t)(word->text[i] - '0');
		if (number >= cards->count)
			return NONE;
	}
	return (int)number;
}

/* The only card whose UUID begins so. */
static int by_uuid(const struct word *word, const struct cards *cards)
{
	int found = NONE;

	for (size_t i = 0; i < cards->count; i++) {
		if (!cards->uuids[i] ||
		    strncmp(cards->uuids[i], word->text, word->length))
			continue;
		if (found != NONE)
			return NONE;
		found = (int)i;
	}
	return found;
}

/* MIG-GPU-<uuid>/<gi>/<ci> names its card; MIG-<uuid> does not. */
static int by_slice(const struct word *word, const struct cards *cards)
{
	struct word parent = { word->text + 4, word->length - 4 };
	const char *slash;

	if (!begins(&parent, "GPU-"))
		return parent.length ? KILNI_VISIBLE_SLICE : NONE;
	slash = memchr(parent.text, '/', parent.length);
	if (slash)
		parent.length = (size_t)(slash - parent.text);
	return by_uuid(&parent, cards);
}

/* ---- the list ---- */

typedef int (*reader)(const struct word *word, const struct cards *cards);

/* The first entry says what the list consists of. */
static reader choose(const struct word *first, const char **prefix)
{
	if (begins(first, "GPU-")) {
		*prefix = "GPU-";
		return by_uuid;
	}
	if (begins(first, "MIG-")) {
		*prefix = "MIG-";
		return by_slice;
	}
	*prefix = "";
	return by_number;
}

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

size_t kilni_visible_cards(const char *text, const char *const *uuids,
			   size_t count, int *order)
{
	struct cards cards = { uuids, count };
	struct word word;
	const char *prefix;
	size_t found = 0;
	reader read;

	if (!text)
		return show_all(count, order);
	word = (struct word){ text, strcspn(text, ",") };
	read = choose(&word, &prefix);
	while (text) {
		int card;

		word = next_word(&text);
		card = begins(&word, prefix) ? read(&word, &cards) : NONE;
		if (card == NONE)
			break;
		/* CUDA shows nothing then. Slices of one card may differ. */
		if (*prefix != 'M' && has(order, found, card))
			return 0;
		if (found == count)
			break;
		order[found++] = card;
	}
	return found;
}
