/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Strings of any origin ---- */

#define REPLACEMENT "\xef\xbf\xbd"

static bool is_tail(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Bytes of the well-formed UTF-8 character at text, 0 where it is none. */
static size_t character_bytes(const unsigned char *text)
{
	unsigned char a = text[0];
	unsigned char b = a ? text[1] : 0;

	if (a < 0x80)
		return 1;
	if (a < 0xc2 || a > 0xf4 || !is_tail(b))
		return 0;
	if (a < 0xe0)
		return 2;
	if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) ||
	    (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f) ||
	    !is_tail(text[2]))
		return 0;
	if (a < 0xf0)
		return 3;
	return is_tail(text[3]) ? 4 : 0;
}

static void repair(char *to, const char *text)
{
	while (*text) {
		size_t bytes = character_bytes((const unsigned char *)text);

		memcpy(to, bytes ? text : REPLACEMENT, bytes ? bytes : 3);
		to += bytes ? bytes : 3;
		text += bytes ? bytes : 1;
	}
	*to = '\0';
}

char *tool_clean(const char *text)
{
	char *clean = malloc(3 * strlen(text) + 1);

	if (clean)
		repair(clean, text);
	return clean;
}

json_t *tool_text(const char *text)
{
	char *clean = tool_clean(text);
	json_t *value;

	if (!clean)
		return NULL;
	value = json_string(clean);
	free(clean);
	return value;
}

/* ---- Members of JSON objects ---- */

void tool_add(json_t *object, const char *name, json_t *value)
{
	json_object_set_new(object, name, value);
}

void tool_add_count(json_t *object, const char *name, uint64_t n)
{
	tool_add(object, name,
		 n <= INT64_MAX ? json_integer((json_int_t)n)
				: json_real((double)n));
}

/* ---- Text for people ---- */

#define NAME_COLUMNS 18

/* A control character of ASCII or of those behind it, which have two bytes. */
static bool is_control(const char *at)
{
	unsigned char a = (unsigned char)at[0], b = (unsigned char)at[1];

	return a < ' ' || a == 0x7f || (a == 0xc2 && b < 0xa0);
}

char *tool_printable(const char *text)
{
	char *clean = tool_clean(text), *to = clean;

	for (const char *at = clean; at && *at; at++) {
		if (!is_control(at)) {
			*to++ = *at;
			continue;
		}
		at += (unsigned char)*at == 0xc2;
		*to++ = '?';
	}
	if (to)
		*to = '\0';
	return clean;
}

/* Control characters may come from a driver or a file. */
void tool_plain(const char *text)
{
	char *printable = tool_printable(text);

	fputs(printable ? printable : "?", stdout);
	free(printable);
}

static void print_scalar(json_t *value)
{
	if (json_is_string(value))
		tool_plain(json_string_value(value));
	else if (json_is_integer(value))
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		printf("%.6g", json_real_value(value));
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "yes" : "no", stdout);
	else
		fputs("-", stdout);
}

static bool is_list_of_scalars(json_t *value)
{
	return json_is_array(value) &&
	       !json_is_object(json_array_get(value, 0));
}

static void print_list(json_t *list)
{
	size_t i;
	json_t *entry;

	if (!json_array_size(list))
		fputs("none", stdout);
	json_array_foreach(list, i, entry)
	{
		if (i)
			putchar(' ');
		print_scalar(entry);
	}
}

static void print_object(json_t *object, int indent);

static void print_entries(json_t *list, int indent)
{
	size_t i;
	json_t *entry;

	json_array_foreach(list, i, entry)
	{
		if (i)
			putchar('\n');
		print_object(entry, indent);
	}
}

static void print_member(const char *name, json_t *value, int indent)
{
	bool nested = (json_is_object(value) && json_object_size(value)) ||
		      (json_is_array(value) && !is_list_of_scalars(value));
	int pad;

	printf("%*s", indent, "");
	tool_plain(name);
	if (nested) {
		putchar('\n');
		if (json_is_array(value))
			print_entries(value, indent + 2);
		else
			print_object(value, indent + 2);
		return;
	}
	pad = NAME_COLUMNS - indent - (int)strlen(name);
	printf("%*s ", pad > 0 ? pad : 0, "");
	if (json_is_object(value))
		fputs("none", stdout);
	else if (json_is_array(value))
		print_list(value);
	else
		print_scalar(value);
	putchar('\n');
}

static void print_object(json_t *object, int indent)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		print_member(name, value, indent);
	}
}

int tool_print(json_t *value, bool as_json)
{
	if (!as_json) {
		print_object(value, 0);
		return EXIT_SUCCESS;
	}
	if (json_dumpf(value, stdout, JSON_INDENT(2)) < 0) {
		tool_complain("the result cannot be written as JSON");
		return EXIT_FAILURE;
	}
	putchar('\n');
	return EXIT_SUCCESS;
}
