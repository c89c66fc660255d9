/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/probe/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static bool join(char path[KILNI_PROBE_PATH], const char *format, va_list args)
{
	const char *root = kilni_option_text(KILNI_OPT_SYSFS);
	int head = snprintf(path, KILNI_PROBE_PATH, "%s", root ? root : "");
	int tail;

	if (head < 0 || head >= KILNI_PROBE_PATH)
		return false;
	tail = vsnprintf(path + head, KILNI_PROBE_PATH - (size_t)head, format,
			 args);
	return tail >= 0 && head + tail < KILNI_PROBE_PATH;
}

bool kilni_probe_path(char path[KILNI_PROBE_PATH], const char *format, ...)
{
	va_list args;
	bool fits;

	va_start(args, format);
	fits = join(path, format, args);
	va_end(args);
	return fits;
}

static void read_line(char *text, size_t size, const char *path)
{
	FILE *file = fopen(path, "re");

	*text = '\0';
	if (!file)
		return;
	if (!fgets(text, (int)size, file))
		*text = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

void kilni_probe_line(char *text, size_t size, const char *format, ...)
{
	char path[KILNI_PROBE_PATH];
	va_list args;

	*text = '\0';
	va_start(args, format);
	if (join(path, format, args))
		read_line(text, size, path);
	va_end(args);
}

static void read_link(char *text, size_t size, const char *path)
{
	char target[KILNI_PROBE_PATH];
	ssize_t length = readlink(path, target, sizeof(target) - 1);
	const char *slash;

	if (length < 0)
		return;
	target[length] = '\0';
	slash = strrchr(target, '/');
	snprintf(text, size, "%.*s", (int)size - 1,
		 slash ? slash + 1 : target);
}

void kilni_probe_link(char *text, size_t size, const char *format, ...)
{
	char path[KILNI_PROBE_PATH];
	va_list args;

	*text = '\0';
	va_start(args, format);
	if (join(path, format, args))
		read_link(text, size, path);
	va_end(args);
}
