/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

static _Thread_local struct kilni_error_record record;

void kilni_error_save(struct kilni_error_record *copy)
{
	*copy = record;
}

void kilni_error_restore(const struct kilni_error_record *copy)
{
	record = *copy;
}

enum kiln_status (kilni_fail)(enum kiln_status status, int native,
			    const char *fmt, ...)
{
	va_list args;

	record.status = status;
	record.native = native;
	va_start(args, fmt);
	vsnprintf(record.message, sizeof(record.message), fmt, args);
	va_end(args);
	kilni_log(KILNI_LOG_DEBUG, "%s: %s", kiln_status_name(status),
		  record.message);
	return status;
}

const char *kiln_error_message(void)
{
	return record.message;
}

enum kiln_status kiln_error_status(void)
{
	return record.status;
}

int kiln_error_native(void)
{
	return record.native;
}

void kiln_error_clear(void)
{
	memset(&record, 0, sizeof(record));
}

struct status_row {
	const char *name;
	const char *text;
	enum kiln_scope scope;
};

/* Indexed by the negated status; the table's values are dense. */
static const struct status_row rows[] = {
#define ROW(id, value, scope, text)                                            \
	[-(value)] = { #id, text, KILN_SCOPE_##scope },
	KILN_STATUS_TABLE(ROW)
#undef ROW
};

static const struct status_row *find_row(enum kiln_status status)
{
	long index = -(long)status;

	if (index < 0 || index >= (long)KILNI_COUNTOF(rows))
		return NULL;
	return &rows[index];
}

const char *kiln_status_name(enum kiln_status status)
{
	const struct status_row *row = find_row(status);

	return row ? row->name : "KILN_ERR_UNKNOWN";
}

const char *kiln_status_text(enum kiln_status status)
{
	const struct status_row *row = find_row(status);

	return row ? row->text : "unknown status";
}

enum kiln_scope kiln_status_scope(enum kiln_status status)
{
	const struct status_row *row = find_row(status);

	return row ? row->scope : KILN_SCOPE_CALL;
}
