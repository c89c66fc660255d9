/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_TEXT_H
#define CONF_TEXT_H

#include <stddef.h>

/* A short text that is built up piece by piece; what does not fit is cut. */
struct conf_text {
	char s[1536];
	size_t length;
};

void conf_text_clear(struct conf_text *text);

void conf_text_add(struct conf_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
