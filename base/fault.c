/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kilni_fault_armed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char fault_site[64];
static uint64_t fault_nth, fault_passes;
static enum kiln_status fault_status;

enum kiln_status kilni_fault_set(const char *site, uint64_t nth,
				 enum kiln_status status)
{
	if (nth && (!site || strlen(site) >= sizeof(fault_site)))
		return kilni_fail(KILN_ERR_INVALID, 0, "fault: site \"%s\"",
				  site ? site : "(null)");
	pthread_mutex_lock(&lock);
	if (nth)
		strcpy(fault_site, site);
	fault_nth = nth;
	fault_status = status;
	fault_passes = 0;
	__atomic_store_n(&kilni_fault_armed, nth != 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	return KILN_OK;
}

uint64_t kilni_fault_passes(void)
{
	uint64_t passes;

	pthread_mutex_lock(&lock);
	passes = fault_passes;
	pthread_mutex_unlock(&lock);
	return passes;
}

enum kiln_status kilni_fault(const char *site)
{
	enum kiln_status status = KILN_OK;

	pthread_mutex_lock(&lock);
	if (!strcmp(fault_site, "*") || !strcmp(fault_site, site))
		if (++fault_passes == fault_nth)
			status = fault_status;
	pthread_mutex_unlock(&lock);
	if (status == KILN_OK)
		return KILN_OK;
	return kilni_fail(status, 0, "%s: injected fault", site);
}

static bool parse_status(const char *text, enum kiln_status *status)
{
#define MATCH(id, value, scope, doc)                                           \
	if (!strcmp(text, #id)) {                                              \
		*status = id;                                                  \
		return true;                                                   \
	}
	KILN_STATUS_TABLE(MATCH)
#undef MATCH
	return false;
}

enum kiln_status kilni_fault_from_environment(void)
{
	const char *text = kilni_option_text(KILNI_OPT_FAULT);
	char site[64], name[64], digits[20];
	unsigned long long nth;
	enum kiln_status status;
	int end = 0;

	if (!text)
		return KILN_OK;
	if (sscanf(text, "%63[^:]:%19[0-9]:%63s%n", site, digits, name,
		   &end) != 3 ||
	    text[end] || (nth = strtoull(digits, NULL, 10)) == 0 ||
	    !parse_status(name, &status))
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "KILN_FAULT: \"%s\" is not SITE:N:STATUS",
				  text);
	return kilni_fault_set(site, nth, status);
}
