/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_JSON_H
#define KILNI_LIB_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A reader of strict JSON that asks for what it expects: objects and arrays
 * are walked by the caller, so nothing nests deeper than he does. Strings are
 * decoded where they lie. Once anything is wrong, fault says what, at is the
 * byte, and every function returns false.
 *
 * Own code, since a library for trees of values would not see a key twice, a
 * number beyond 2^53 or a header of 100 MB as this file format wants it.
 */
struct kilni_json {
	char *text;
	size_t at, end;
	const char *fault;           /* NULL: none */
};

/* A string, UTF-8 and without NUL, decoded and terminated in place. */
bool kilni_json_string(struct kilni_json *json, char **out);

/* A whole number 0..INT64_MAX without sign, fraction and exponent. */
bool kilni_json_number(struct kilni_json *json, int64_t *out);

/* '{' or '[', after white space. */
bool kilni_json_open(struct kilni_json *json, char bracket);

/*
 * Whether a further element follows, before which a comma stands unless it is
 * the first; else the closing bracket has been read, or there is a fault.
 */
bool kilni_json_more(struct kilni_json *json, char bracket, bool *first);

/* A key and its colon. */
bool kilni_json_key(struct kilni_json *json, char **out);

/* Nothing but white space follows. */
bool kilni_json_finish(struct kilni_json *json);

/* Notes the first fault; false. */
bool kilni_json_fault(struct kilni_json *json, const char *fault);

/* Whether text is well-formed UTF-8. */
bool kilni_is_utf8(const char *text);

#endif
