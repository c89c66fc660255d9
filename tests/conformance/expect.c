/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/expect.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[CONF_EXPECT_COUNT] = {
	[CONF_UNSUPPORTED] = "unsupported",
	[CONF_REFUSED] = "refused",
	[CONF_FLUSHED] = "flushed",
};

static bool add_row(struct conf_expect *expect, enum conf_expect_kind kind,
		    const char *glob, const char *reason)
{
	struct conf_expect_row *rows;

	rows = realloc(expect->rows, (expect->count + 1) * sizeof(*rows));
	if (!rows)
		return false;
	expect->rows = rows;
	rows += expect->count++;
	rows->kind = kind;
	rows->glob = strdup(glob);
	rows->reason = strdup(reason);
	return rows->glob && rows->reason;
}

/* Cuts the next word off *rest; NULL where there is none. */
static char *word(char **rest)
{
	char *start = *rest + strspn(*rest, " \t\n");
	size_t length = strcspn(start, " \t\n");

	if (length == 0)
		return NULL;
	*rest = start + length;
	if (**rest)
		*(*rest)++ = '\0';
	return start;
}

static bool load_line(struct conf_expect *expect, char *line)
{
	char *rest = line, *verb = word(&rest), *glob, *reason;
	int kind = 0;

	if (!verb || *verb == '#')
		return true;
	while (kind < CONF_EXPECT_COUNT && strcmp(verb, kinds[kind]) != 0)
		kind++;
	if (kind == CONF_EXPECT_COUNT)
		return false;
	glob = word(&rest);
	reason = rest + strspn(rest, " \t\n");
	reason[strcspn(reason, "\n")] = '\0';
	return glob && *reason &&
	       add_row(expect, (enum conf_expect_kind)kind, glob, reason);
}

static bool load_lines(struct conf_expect *expect, FILE *file,
		       const char *path, struct conf_text *why)
{
	char *line = NULL;
	size_t size = 0, number = 0;
	bool good = true;

	while (good && getline(&line, &size, file) >= 0) {
		number++;
		good = load_line(expect, line);
	}
	if (!good)
		conf_text_add(why, "%s:%zu: not \"unsupported GLOB REASON\", "
			      "\"refused GLOB REASON\" nor \"flushed GLOB "
			      "REASON\"",
			      path, number);
	else if (ferror(file))
		conf_text_add(why, "%s: %s", path, strerror(errno));
	good = good && !ferror(file);
	free(line);
	return good;
}

bool conf_expect_load(struct conf_expect *expect, const char *path,
		      struct conf_text *why)
{
	FILE *file = fopen(path, "re");
	bool good;

	if (!file) {
		conf_text_add(why, "%s: %s", path, strerror(errno));
		return false;
	}
	good = load_lines(expect, file, path, why);
	fclose(file);
	return good;
}

void conf_expect_clear(struct conf_expect *expect)
{
	size_t i;

	for (i = 0; i < expect->count; i++) {
		free(expect->rows[i].glob);
		free(expect->rows[i].reason);
	}
	free(expect->rows);
	memset(expect, 0, sizeof(*expect));
}

static const char *find(const struct conf_expect *expect,
			enum conf_expect_kind kind, const char *name)
{
	size_t i;

	for (i = 0; i < expect->count; i++) {
		if (expect->rows[i].kind == kind &&
		    fnmatch(expect->rows[i].glob, name, 0) == 0)
			return expect->rows[i].reason;
	}
	return NULL;
}

const char *conf_expect_named(const struct conf_expect *expect,
			      const char *name)
{
	const char *reason = find(expect, CONF_UNSUPPORTED, name);

	if (!reason && expect->flushes)
		reason = find(expect, CONF_FLUSHED, name);
	return reason;
}

const char *conf_expect_refused(const struct conf_expect *expect,
				const char *method)
{
	return find(expect, CONF_REFUSED, method);
}

const char *conf_expect_find(const struct conf_expect *expect,
			     const struct conf_vector *vector)
{
	const char *reason = conf_expect_named(expect, vector->id);
	int i;

	for (i = 0; i < vector->step_count && !reason; i++)
		reason = conf_expect_named(expect,
					   vector->steps[i].method->name);
	return reason;
}
