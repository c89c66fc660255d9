/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = { "none", "error", "warn", "info",
					   "debug" };

static enum kilni_log_level threshold;
static pthread_once_t threshold_once = PTHREAD_ONCE_INIT;

enum kiln_status kilni_log_level(enum kilni_log_level *level)
{
	const char *text = kilni_option_text(KILNI_OPT_LOG);

	*level = KILNI_LOG_NONE;
	if (!text)
		return KILN_OK;
	for (size_t i = 0; i < KILNI_COUNTOF(level_names); i++)
		if (!strcmp(text, level_names[i])) {
			*level = (enum kilni_log_level)i;
			return KILN_OK;
		}
	return KILN_ERR_OPTION;
}

static void read_threshold(void)
{
	(void)!kilni_log_level(&threshold);
}

void kilni_log(enum kilni_log_level level, const char *fmt, ...)
{
	char line[640];
	va_list args;
	int head, body;

	pthread_once(&threshold_once, read_threshold);
	if (level > threshold)
		return;
	head = snprintf(line, sizeof(line), "kiln %s: ", level_names[level]);
	va_start(args, fmt);
	body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt,
			 args);
	va_end(args);
	if (body < 0)
		return;
	/* One write, so that lines of several threads do not mix. */
	size_t length = kilni_min_u64((uint64_t)head + (uint64_t)body,
				      sizeof(line) - 2);
	line[length] = '\n';
	if (write(STDERR_FILENO, line, length + 1) < 0)
		return;
}

uint64_t kilni_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
