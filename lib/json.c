/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json.h"

#include <string.h>

bool kilni_json_fault(struct kilni_json *json, const char *fault)
{
	if (!json->fault)
		json->fault = fault;
	return false;
}

static void skip_space(struct kilni_json *json)
{
	while (json->at < json->end &&
	       memchr(" \t\n\r", json->text[json->at], 4))
		json->at++;
}

/* The next byte after white space; 0 at the end. */
static char peek(struct kilni_json *json)
{
	skip_space(json);
	return json->at < json->end ? json->text[json->at] : '\0';
}

static bool take(struct kilni_json *json, char byte, const char *fault)
{
	if (json->fault || peek(json) != byte)
		return kilni_json_fault(json, fault);
	json->at++;
	return true;
}

/* ---- UTF-8 ---- */

/* Bytes of the well-formed character at text, 0 where there is none. */
static size_t character_bytes(const unsigned char *text, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t bytes = text[0] < 0x80	? 1
		       : text[0] < 0xc2 ? 0
		       : text[0] < 0xe0 ? 2
		       : text[0] < 0xf0 ? 3
		       : text[0] < 0xf5 ? 4
					: 0;

	if (bytes < 2 || bytes > left)
		return bytes <= left ? bytes : 0;
	/* Too long forms, surrogates and what lies beyond U+10FFFF. */
	if (text[0] == 0xe0)
		low = 0xa0;
	else if (text[0] == 0xed)
		high = 0x9f;
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;
	if (text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < bytes; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

bool kilni_is_utf8(const char *text)
{
	size_t left = strlen(text), bytes;

	for (; left; text += bytes, left -= bytes) {
		bytes = character_bytes((const unsigned char *)text, left);
		if (!bytes)
			return false;
	}
	return true;
}

static size_t encode(char *to, uint32_t c)
{
	unsigned char *out = (unsigned char *)to;

	if (c < 0x80) {
		out[0] = (unsigned char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (unsigned char)(0xc0 | c >> 6);
		out[1] = (unsigned char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (unsigned char)(0xe0 | c >> 12);
		out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (unsigned char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | c >> 18);
	out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (unsigned char)(0x80 | (c & 0x3f));
	return 4;
}

/* ---- strings ---- */

/* Four hexadecimal digits. */
static bool take_unit(struct kilni_json *json, uint32_t *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdefABCDEF";
		const char *at;

		if (json->at >= json->end || !json->text[json->at])
			return kilni_json_fault(json, "a \\u without digits");
		at = strchr(digits, json->text[json->at]);
		if (!at)
			return kilni_json_fault(json, "a \\u without digits");
		json->at++;
		*unit = *unit << 4 |
			(uint32_t)(at - digits - (at - digits > 15 ? 6 : 0));
	}
	return true;
}

static bool take_low(struct kilni_json *json, uint32_t *unit)
{
	if (json->end - json->at < 2 ||
	    memcmp(json->text + json->at, "\\u", 2))
		return kilni_json_fault(json, "half a surrogate pair");
	json->at += 2;
	if (!take_unit(json, unit))
		return false;
	if (*unit < 0xdc00 || *unit > 0xdfff)
		return kilni_json_fault(json, "half a surrogate pair");
	return true;
}

/* What follows "\u". */
static bool take_code(struct kilni_json *json, uint32_t *code)
{
	uint32_t low;

	if (!take_unit(json, code))
		return false;
	if (!*code)
		return kilni_json_fault(json, "a NUL in a string");
	if (*code < 0xd800 || *code > 0xdfff)
		return true;
	if (*code > 0xdbff)
		return kilni_json_fault(json, "half a surrogate pair");
	if (!take_low(json, &low))
		return false;
	*code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

/* What follows a backslash, to *to; never longer than its escape. */
static bool take_escape(struct kilni_json *json, char **to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	char name = json->at < json->end ? json->text[json->at++] : '\0';
	const char *at = name ? strchr(names, name) : NULL;
	uint32_t code;

	if (at) {
		*(*to)++ = values[at - names];
		return true;
	}
	if (name != 'u')
		return kilni_json_fault(json, "an unknown escape");
	if (!take_code(json, &code))
		return false;
	*to += encode(*to, code);
	return true;
}

static bool take_plain(struct kilni_json *json, char **to)
{
	char *from = json->text + json->at;
	size_t bytes = character_bytes((unsigned char *)from,
				       json->end - json->at);

	if (!bytes)
		return kilni_json_fault(json, "not UTF-8");
	if ((unsigned char)*from < ' ')
		return kilni_json_fault(json,
					"a control character in a string");
	memmove(*to, from, bytes);
	*to += bytes;
	json->at += bytes;
	return true;
}

bool kilni_json_string(struct kilni_json *json, char **out)
{
	char *to;

	if (!take(json, '"', "a string is missing"))
		return false;
	to = *out = json->text + json->at;
	while (json->at < json->end) {
		char byte = json->text[json->at];

		if (byte == '"') {
			json->at++;
			*to = '\0';
			return true;
		}
		if (byte == '\\') {
			json->at++;
			if (!take_escape(json, &to))
				return false;
		} else if (!take_plain(json, &to)) {
			return false;
		}
	}
	return kilni_json_fault(json, "a string without end");
}

/* ---- the rest ---- */

bool kilni_json_number(struct kilni_json *json, int64_t *out)
{
	char first = json->fault ? '\0' : peek(json), byte = first;
	int64_t value = 0;

	if (first < '0' || first > '9')
		return kilni_json_fault(json, "a whole number is missing");
	while (byte >= '0' && byte <= '9') {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, byte - '0', &value))
			return kilni_json_fault(json, "a number overflows");
		json->at++;
		byte = json->at < json->end ? json->text[json->at] : '\0';
		if (first == '0')
			break;
	}
	if (byte && strchr("0123456789.eE", byte))
		return kilni_json_fault(json, "not a whole number");
	*out = value;
	return true;
}

bool kilni_json_open(struct kilni_json *json, char bracket)
{
	return take(json, bracket,
		    bracket == '{' ? "a { is missing" : "a [ is missing");
}

bool kilni_json_more(struct kilni_json *json, char bracket, bool *first)
{
	bool was_first = *first;

	*first = false;
	if (json->fault)
		return false;
	if (peek(json) == bracket) {
		json->at++;
		return false;
	}
	return was_first || take(json, ',', "a comma or a bracket is missing");
}

bool kilni_json_key(struct kilni_json *json, char **out)
{
	return kilni_json_string(json, out) &&
	       take(json, ':', "a colon is missing");
}

bool kilni_json_finish(struct kilni_json *json)
{
	if (json->fault)
		return false;
	skip_space(json);
	return json->at == json->end ||
	       kilni_json_fault(json, "more than one value");
}
