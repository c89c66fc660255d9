/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/trace_ids.h"
#include "tools/trace_text.h"

struct trace {
	char path[256];
	char error[640];
	bool failed, ended;
	struct trace_header header;
	struct trace_ids ids;
	uint64_t live_bytes;     /* sum of what is not freed */
	uint64_t allocations, frees;
	struct text text;
};

static bool fail(struct trace *trace, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Notes what is wrong with the line at hand; gives false. */
static bool fail(struct trace *trace, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(trace->error, sizeof(trace->error), "%s: line %" PRIu64 ": %s",
		 trace->path, trace->text.line, what);
	trace->failed = true;
	return false;
}

/* A failure of the file, whose line counts only where one was begun. */
static bool fail_of_text(struct trace *trace)
{
	const struct text *text = &trace->text;

	if (text->line)
		return fail(trace, "%s%s%s", text->problem,
			    text->system_error ? ": " : "",
			    text->system_error ? strerror(text->system_error)
					       : "");
	snprintf(trace->error, sizeof(trace->error), "%s: %s%s%s", trace->path,
		 text->problem, text->system_error ? ": " : "",
		 text->system_error ? strerror(text->system_error) : "");
	trace->failed = true;
	return false;
}

/* ---- the first line ---- */

static bool take_count(struct trace *trace, json_t *object, const char *name,
		       uint64_t *value)
{
	json_t *member = json_object_get(object, name);

	if (!member)
		return true;
	if (!json_is_integer(member) || json_integer_value(member) < 0)
		return fail(trace, "\"%s\" is no count", name);
	*value = (uint64_t)json_integer_value(member);
	return true;
}

static bool take_seconds(struct trace *trace, json_t *object)
{
	json_t *member = json_object_get(object, "secs");

	if (!member)
		return true;
	trace->header.seconds = json_number_value(member);
	if (!json_is_number(member) || !isfinite(trace->header.seconds) ||
	    trace->header.seconds < 0)
		return fail(trace, "\"secs\" is no time");
	return true;
}

static bool take_name(struct trace *trace, json_t *object)
{
	json_t *member = json_object_get(object, "name");

	if (!member)
		return true;
	if (!json_is_string(member))
		return fail(trace, "\"name\" is no string");
	snprintf(trace->header.name, sizeof(trace->header.name), "%s",
		 json_string_value(member));
	return true;
}

static bool take_header(struct trace *trace, json_t *object)
{
	struct trace_header *header = &trace->header;

	return take_name(trace, object) && take_seconds(trace, object) &&
	       take_count(trace, object, "allocs", &header->allocations) &&
	       take_count(trace, object, "frees", &header->frees) &&
	       take_count(trace, object, "peak_requested",
			  &header->peak_live_bytes) &&
	       take_count(trace, object, "peak_reserved",
			  &header->peak_reserved_bytes) &&
	       take_count(trace, object, "segment_allocs",
			  &header->driver_allocations);
}

static bool read_header(struct trace *trace)
{
	json_error_t problem;
	json_t *object;
	size_t bytes;
	char *line = text_line(&trace->text, &bytes);
	bool good;

	if (!line && trace->text.state == TEXT_FAILED)
		return fail_of_text(trace);
	if (!line) {
		trace->text.line = 1;
		return fail(trace, "is not there: the file is empty");
	}
	if (strncmp(line, "# ", 2))
		return fail(trace, "does not begin with \"# \"");
	object = json_loadb(line + 2, bytes - 2, JSON_REJECT_DUPLICATES,
			    &problem);
	if (!object)
		return fail(trace, "no JSON: %s", problem.text);
	good = json_is_object(object) ? take_header(trace, object)
				      : fail(trace, "no JSON object");
	json_decref(object);
	return good;
}

/* ---- requests ---- */

/*
 * A decimal number without sign or leading zeros, from *at on and moved past;
 * false: there is none, or it does not fit.
 */
static bool number(const char **at, uint64_t *value)
{
	const char *p = *at;
	uint64_t n = 0;

	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return false;
	*value = n;
	*at = p;
	return true;
}

static bool blank(const char **at)
{
	return *(*at)++ == ' ';
}

static bool allocate(struct trace *trace, const char *at,
		     struct trace_request *request)
{
	uint64_t stream;

	if (!number(&at, &request->id) || !blank(&at) ||
	    !number(&at, &request->bytes) || !blank(&at) ||
	    !number(&at, &stream) || *at)
		return fail(trace, "is not \"a ID BYTES STREAM\" in numbers of "
			    "64 bits");
	if (stream >= TRACE_STREAMS_MAX)
		return fail(trace, "stream %" PRIu64 " is above %d", stream,
			    TRACE_STREAMS_MAX - 1);
	if (__builtin_add_overflow(trace->live_bytes, request->bytes,
				   &trace->live_bytes))
		return fail(trace, "the live bytes exceed 64 bits");
	request->stream = (uint32_t)stream;
	switch (trace_ids_add(&trace->ids, request->id, request->bytes,
			      &request->slot)) {
	case TRACE_ID_DONE:
		trace->allocations++;
		return true;
	case TRACE_ID_LIVE:
		return fail(trace, "%" PRIu64 " is live already", request->id);
	case TRACE_ID_LIMIT:
		return fail(trace, "more than %u are live", TRACE_LIVE_MAX);
	default:
		return fail(trace, "no memory");
	}
}

static bool release(struct trace *trace, const char *at,
		    struct trace_request *request)
{
	if (!number(&at, &request->id) || *at)
		return fail(trace, "is not \"f ID\" with a number of 64 bits");
	if (!trace_ids_remove(&trace->ids, request->id, &request->bytes,
			      &request->slot))
		return fail(trace, "%" PRIu64 " is not live: freed before or "
			    "never allocated", request->id);
	request->stream = 0;
	request->is_free = true;
	trace->live_bytes -= request->bytes;
	trace->frees++;
	return true;
}

/* A trace that was cut between two lines shows in the header's counts. */
static bool check_counts(struct trace *trace)
{
	const struct trace_header *header = &trace->header;

	if (header->allocations && header->allocations != trace->allocations)
		return fail(trace, "the end, after %" PRIu64 " allocations "
			    "where the first line says %" PRIu64,
			    trace->allocations, header->allocations);
	if (header->frees && header->frees != trace->frees)
		return fail(trace, "the end, after %" PRIu64 " frees where the "
			    "first line says %" PRIu64,
			    trace->frees, header->frees);
	return true;
}

static bool next(struct trace *trace, struct trace_request *request)
{
	size_t bytes;
	const char *line = text_line(&trace->text, &bytes);

	if (!line && trace->text.state == TEXT_FAILED)
		return fail_of_text(trace);
	if (!line) {
		trace->ended = true;
		(void)check_counts(trace);
		return false;
	}
	memset(request, 0, sizeof(*request));
	request->line = trace->text.line;
	if (strlen(line) == bytes && line[0] == 'a' && line[1] == ' ')
		return allocate(trace, line + 2, request);
	if (strlen(line) == bytes && line[0] == 'f' && line[1] == ' ')
		return release(trace, line + 2, request);
	return fail(trace, "is neither \"a ID BYTES STREAM\" nor \"f ID\"");
}

uint32_t trace_read(struct trace *trace, struct trace_request *requests,
		    uint32_t count)
{
	uint32_t done = 0;

	while (done < count && !trace->failed && !trace->ended &&
	       next(trace, &requests[done]))
		done++;
	return done;
}

/* ---- opening and closing ---- */

struct trace *trace_open(const char *path)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return NULL;
	snprintf(trace->path, sizeof(trace->path), "%s", path);
	if (!text_open(&trace->text, path))
		(void)fail_of_text(trace);
	else
		(void)read_header(trace);
	return trace;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	text_close(&trace->text);
	trace_ids_free(&trace->ids);
	free(trace);
}

bool trace_failed(const struct trace *trace)
{
	return !trace || trace->failed;
}

const char *trace_error(const struct trace *trace)
{
	return trace ? trace->error : "no memory for a trace";
}

const struct trace_header *trace_header(const struct trace *trace)
{
	return &trace->header;
}
