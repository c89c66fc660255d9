/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/text.h"

#include <stdarg.h>
#include <stdio.h>

void conf_text_clear(struct conf_text *text)
{
	text->s[0] = '\0';
	text->length = 0;
}

void conf_text_add(struct conf_text *text, const char *format, ...)
{
	size_t room = sizeof(text->s) - text->length;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->s + text->length, room, format, args);
	va_end(args);
	if (n < 0)
		return;
	text->length += (size_t)n < room ? (size_t)n : room - 1;
}
