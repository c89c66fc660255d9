/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define TYPE_TEXT "text"
#define TYPE_NUMBER "number"
#define TYPE_BYTES "bytes"

const struct kilni_option_info kilni_options[KILNI_OPT_COUNT] = {
#define KILNI_OPTION(ID, name, type, low, high, doc)                           \
	{ name, TYPE_##type, low, high, doc },
#include "base/options.def"
};

const char *kilni_option_text(enum kilni_option option)
{
	const char *text = getenv(kilni_options[option].name);

	return text && *text ? text : NULL;
}

/* Shift of a size suffix; -1 for none of them. */
static int suffix_shift(const char *suffix)
{
	static const char letters[] = "KMGT";
	const char *at;

	if (!*suffix)
		return 0;
	at = strchr(letters, toupper((unsigned char)*suffix));
	if (!at || suffix[1])
		return -1;
	return 10 * (int)(at - letters + 1);
}

static bool parse_number(const char *text, bool bytes, uint64_t *value)
{
	char *end;
	unsigned long long number;
	int shift;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || (!bytes && *end))
		return false;
	shift = suffix_shift(end);
	if (shift < 0 || (number << shift) >> shift != number)
		return false;
	*value = number << shift;
	return true;
}

enum kiln_status kilni_option_number(enum kilni_option option, uint64_t *value)
{
	const struct kilni_option_info *info = &kilni_options[option];
	const char *text = kilni_option_text(option);
	uint64_t number;

	if (!text)
		return KILN_OK;
	if (!parse_number(text, !strcmp(info->type, TYPE_BYTES), &number))
		return kilni_fail(KILN_ERR_OPTION, 0, "%s: \"%s\" is no %s",
				  info->name, text,
				  strcmp(info->type, TYPE_BYTES)
					  ? "number"
					  : "size in bytes");
	if (number < info->low || number > info->high)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "%s: \"%s\" is outside %llu..%llu",
				  info->name, text,
				  (unsigned long long)info->low,
				  (unsigned long long)info->high);
	*value = number;
	return KILN_OK;
}

static bool is_known(const char *variable)
{
	for (int i = 0; i < KILNI_OPT_COUNT; i++) {
		size_t length = strlen(kilni_options[i].name);

		if (!strncmp(variable, kilni_options[i].name, length) &&
		    variable[length] == '=')
			return true;
	}
	return false;
}

static void warn_of_unknown(void)
{
	for (char **variable = environ; variable && *variable; variable++)
		if (!strncmp(*variable, "KILN_", 5) && !is_known(*variable))
			kilni_log(KILNI_LOG_WARN, "unknown variable %s",
				  *variable);
}

static pthread_once_t unknown_once = PTHREAD_ONCE_INIT;

enum kiln_status kilni_options_check(void)
{
	enum kilni_log_level level;
	uint64_t ignored;

	if (kilni_log_level(&level) != KILN_OK)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "KILN_LOG: \"%s\" is no level",
				  kilni_option_text(KILNI_OPT_LOG));
	for (int i = 0; i < KILNI_OPT_COUNT; i++)
		if (strcmp(kilni_options[i].type, TYPE_TEXT))
			KILNI_TRY(kilni_option_number((enum kilni_option)i,
						      &ignored));
	pthread_once(&unknown_once, warn_of_unknown);
	return KILN_OK;
}
