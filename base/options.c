/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/wake.h"

extern char **environ;

#define TYPE_TEXT "text"
#define TYPE_NUMBER "number"
#define TYPE_BYTES "bytes"
#define TYPE_SHARE "share"

const struct kilni_option_info kilni_options[KILNI_OPT_COUNT] = {
#define SCOPE_PROCESS false
#define SCOPE_DEVICE true
#define KILNI_OPTION(ID, name, scope, type, low, high, doc)                    \
	{ name, SCOPE_##scope, TYPE_##type, low, high, doc },
#include "base/options.def"
};

const char *kilni_option_text(enum kilni_option option)
{
	const char *text = kilni_option_set_value(option);

	if (!text)
		text = getenv(kilni_options[option].name);
	return text && *text ? text : NULL;
}

/* Shift of a size suffix; 0 for none of them. */
static unsigned suffix_shift(char suffix)
{
	static const char letters[] = "KMGT";
	const char *at = NULL;

	if (suffix)
		at = strchr(letters, toupper((unsigned char)suffix));
	return at ? 10 * (unsigned)(at - letters + 1) : 0;
}

bool kilni_parse_bytes(const char **text, uint64_t *value)
{
	unsigned long long number;
	unsigned shift;
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	number = strtoull(*text, &end, 10);
	shift = suffix_shift(*end);
	if (errno || (number << shift) >> shift != number)
		return false;
	*value = number << shift;
	*text = shift ? end + 1 : end;
	return true;
}

static bool parse_number(const char *text, bool bytes, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789");

	if (!bytes && text[digits])
		return false;
	return kilni_parse_bytes(&text, value) && !*text;
}

enum kiln_status kilni_option_number(enum kilni_option option, uint64_t *value)
{
	const struct kilni_option_info *info = &kilni_options[option];
	const char *text = kilni_option_text(option);
	uint64_t number;

	if (!text)
		return KILN_OK;
	if (!parse_number(text, strcmp(info->type, TYPE_NUMBER), &number))
		return kilni_fail(KILN_ERR_OPTION, 0, "%s: \"%s\" is no %s",
				  info->name, text,
				  strcmp(info->type, TYPE_NUMBER)
					  ? "size in bytes"
					  : "number");
	if (number < info->low || number > info->high)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "%s: \"%s\" is outside %llu..%llu",
				  info->name, text,
				  (unsigned long long)info->low,
				  (unsigned long long)info->high);
	*value = number;
	return KILN_OK;
}

/*
 * A fraction of whole, "0.15" or "1.0"; by hand, since strtod asks the locale
 * what a decimal point is.
 */
static bool parse_fraction(const char *text, uint64_t whole, uint64_t *value)
{
	uint64_t number = 0, scale = 1;
	bool one = text[0] == '1';
	size_t digits;

	if ((!one && text[0] != '0') || text[1] != '.')
		return false;
	digits = strspn(text + 2, "0123456789");
	if (!digits || digits > 9 || text[2 + digits])
		return false;
	for (text += 2; *text; text++) {
		number = 10 * number + (uint64_t)(*text - '0');
		scale *= 10;
	}
	number += one ? scale : 0;
	if (!number || number > scale)
		return false;
	*value = (uint64_t)((unsigned __int128)whole * number / scale);
	return true;
}

enum kiln_status kilni_option_share(enum kilni_option option, uint64_t whole,
				    uint64_t *value)
{
	const struct kilni_option_info *info = &kilni_options[option];
	const char *text = kilni_option_text(option);
	uint64_t bytes;

	if (!text)
		return KILN_OK;
	if (parse_number(text, true, &bytes))
		return kilni_option_number(option, value);
	if (parse_fraction(text, whole, &bytes)) {
		if (bytes < info->low)
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "%s: \"%s\" of %llu bytes is less "
					  "than %llu",
					  info->name, text,
					  (unsigned long long)whole,
					  (unsigned long long)info->low);
		*value = bytes;
		return KILN_OK;
	}
	return kilni_fail(KILN_ERR_OPTION, 0,
			  "%s: \"%s\" is no size in bytes and no fraction "
			  "of the device's memory such as 0.15",
			  info->name, text);
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

/* Waits that belong to no device go by what the environment says. */
static enum kiln_status read_spin(void)
{
	const struct kilni_option_set *before = kilni_option_set_use(NULL);
	uint64_t spin_us = 20;
	enum kiln_status status;

	status = kilni_option_number(KILNI_OPT_SPIN_US, &spin_us);
	(void)kilni_option_set_use(before);
	__atomic_store_n(&kilni_wait_spin_ns, spin_us * 1000,
			 __ATOMIC_RELAXED);
	return status;
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
	for (int i = 0; i < KILNI_OPT_COUNT; i++) {
		enum kilni_option option = (enum kilni_option)i;

		if (!strcmp(kilni_options[i].type, TYPE_SHARE))
			KILNI_TRY(kilni_option_share(option, UINT64_MAX,
						     &ignored));
		else if (strcmp(kilni_options[i].type, TYPE_TEXT))
			KILNI_TRY(kilni_option_number(option, &ignored));
	}
	pthread_once(&unknown_once, warn_of_unknown);
	return read_spin();
}
