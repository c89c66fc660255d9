/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Cases between two writes of the running line. */
#define PROGRESS_STEP 64

static const char *const skip_texts[CONF_SKIP_COUNT] = {
#define CONF_SKIP_TEXT_(name, text) [name] = text,
	CONF_SKIP_TABLE(CONF_SKIP_TEXT_)
#undef CONF_SKIP_TEXT_
};

void conf_report_begin(struct conf_report *report,
		       const struct conf_device *device, bool json)
{
	memset(report, 0, sizeof(*report));
	report->device = device;
	report->json = json;
	report->progress = isatty(STDERR_FILENO);
	report->failures = json_array();
}

static void clear_progress(const struct conf_report *r)
{
	if (r->progress)
		fputs("\r\033[K", stderr);
}

static void show_progress(const struct conf_report *r,
			  const struct conf_place *place)
{
	size_t cases = r->outcomes[CONF_PASSED] + r->outcomes[CONF_FAILED] +
		       r->outcomes[CONF_SKIPPED];

	if (!r->progress || cases % PROGRESS_STEP)
		return;
	fprintf(stderr, "\r\033[K%zu cases, %zu failed, now %s", cases,
		r->outcomes[CONF_FAILED], place->file);
	fflush(stderr);
}

void conf_report_case(struct conf_report *report,
		      const struct conf_place *place, const char *id,
		      enum conf_outcome outcome, enum conf_skip skip,
		      const char *detail)
{
	report->outcomes[outcome]++;
	show_progress(report, place);
	if (outcome == CONF_SKIPPED)
		report->skips[skip]++;
	if (outcome != CONF_FAILED)
		return;
	if (report->json) {
		json_array_append_new(
			report->failures,
			json_pack("{s:s, s:I, s:s, s:s}", "file", place->file,
				  "line", (json_int_t)place->line, "id", id,
				  "detail", detail));
		return;
	}
	clear_progress(report);
	printf("FAIL %s (%s", id, place->file);
	if (place->line)
		printf(":%zu", place->line);
	printf(")\n     %s\n", detail);
}

static const char *values_text(const struct conf_report *r)
{
	return r->device->values ? "checked" : "unchecked";
}

static bool end_json(struct conf_report *r)
{
	json_t *skips = json_object(), *all;
	bool good;
	int i;

	for (i = 0; i < CONF_SKIP_COUNT; i++) {
		if (r->skips[i])
			json_object_set_new(skips, skip_texts[i],
					    json_integer((json_int_t)
							 r->skips[i]));
	}
	all = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "device",
			kiln_device_selector(r->device->handle), "values",
			values_text(r), "passed",
			(json_int_t)r->outcomes[CONF_PASSED], "failed",
			(json_int_t)r->outcomes[CONF_FAILED], "skipped",
			(json_int_t)r->outcomes[CONF_SKIPPED], "skip_reasons",
			skips, "failures", r->failures);
	r->failures = NULL;
	good = all && json_dumpf(all, stdout, JSON_INDENT(2)) == 0;
	putchar('\n');
	json_decref(all);
	return good;
}

static void end_text(const struct conf_report *r)
{
	const char *between = "skipped: ";
	int i;

	for (i = 0; i < CONF_SKIP_COUNT; i++) {
		if (!r->skips[i])
			continue;
		printf("%s%zu %s", between, r->skips[i], skip_texts[i]);
		between = ", ";
	}
	if (r->outcomes[CONF_SKIPPED])
		putchar('\n');
	printf("device %s, values: %s\n",
	       kiln_device_selector(r->device->handle), values_text(r));
	printf("%zu passed, %zu failed, %zu skipped\n",
	       r->outcomes[CONF_PASSED], r->outcomes[CONF_FAILED],
	       r->outcomes[CONF_SKIPPED]);
}

bool conf_report_end(struct conf_report *report)
{
	bool good = true;

	clear_progress(report);
	if (report->json)
		good = end_json(report);
	else
		end_text(report);
	json_decref(report->failures);
	report->failures = NULL;
	return fflush(stdout) == 0 && good;
}
