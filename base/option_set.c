/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Options that are given for one device: "pages=plain spin_us=5". */

struct kilni_option_set {
	const char *value[KILNI_OPT_COUNT]; /* NULL: not given */
	char text[];
};

static _Thread_local const struct kilni_option_set *in_use;

const struct kilni_option_set *
kilni_option_set_use(const struct kilni_option_set *set)
{
	const struct kilni_option_set *before = in_use;

	in_use = set;
	return before;
}

const char *kilni_option_set_value(enum kilni_option option)
{
	return in_use ? in_use->value[option] : NULL;
}

/* Not tolower(), which asks the locale. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* "pages" is KILN_PAGES. */
static bool is_name(const struct kilni_option_info *option, const char *key,
		    size_t length)
{
	const char *name = option->name + strlen("KILN_");

	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (lower(name[i]) != key[i])
			return false;
	return true;
}

/* One "key=value", cut off by its end. */
static enum kiln_status add_option(struct kilni_option_set *set, char *word,
				   const char *fn)
{
	char *equals = strchr(word, '=');

	if (!equals || !equals[1])
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "%s: \"%s\" is no OPTION=VALUE", fn, word);
	for (int option = 0; option < KILNI_OPT_COUNT; option++) {
		if (!kilni_options[option].of_device ||
		    !is_name(&kilni_options[option], word,
			     (size_t)(equals - word)))
			continue;
		if (set->value[option])
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "%s: \"%s\" is given twice", fn,
					  word);
		set->value[option] = equals + 1;
		return KILN_OK;
	}
	*equals = 0;
	return kilni_fail(KILN_ERR_OPTION, 0,
			  "%s: \"%s\" is no option of a device", fn, word);
}

static enum kiln_status parse(struct kilni_option_set *set, const char *fn)
{
	char *rest = NULL;

	for (char *word = strtok_r(set->text, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest))
		KILNI_TRY(add_option(set, word, fn));
	return KILN_OK;
}

enum kiln_status kilni_option_set_parse(struct kilni_option_set **out,
					const char *text, const char *fn)
{
	struct kilni_option_set *set;
	enum kiln_status status;
	size_t length = strlen(text);

	set = calloc(1, sizeof(*set) + length + 1);
	if (!set)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory for options", fn);
	memcpy(set->text, text, length);
	status = parse(set, fn);
	if (status != KILN_OK) {
		free(set);
		return status;
	}
	*out = set;
	return KILN_OK;
}

void kilni_option_set_free(struct kilni_option_set *set)
{
	free(set);
}

enum kiln_status kilni_option_set_check(const struct kilni_option_set *asked,
					const struct kilni_option_set *have,
					const char *fn)
{
	for (int i = 0; asked && i < KILNI_OPT_COUNT; i++) {
		const char *value = have ? have->value[i] : NULL;

		if (!asked->value[i] ||
		    (value && !strcmp(value, asked->value[i])))
			continue;
		return kilni_fail(KILN_ERR_ALREADY_INITIALIZED, 0,
				  "%s: the device is open without \"%s\" for "
				  "%s",
				  fn, asked->value[i], kilni_options[i].name);
	}
	return KILN_OK;
}
