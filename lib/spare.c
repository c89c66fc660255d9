/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/spare.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/poison.h"
#include "base/sanitizer.h"

/* So many of a kind stay with a thread. */
#define LIMIT 1024

/* Whoever looks for errors of memory shall see each record come and go. */
#if KILNI_ASAN || KILNI_TSAN
#define IS_WATCHED true
#else
#define IS_WATCHED kilni_poison_works()
#endif

_Thread_local struct kilni_spares kilni_spares[KILNI_SPARE_KINDS];

/* Once it is set for a thread, or has been and the thread ends. */
static _Thread_local bool is_set;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool has_key;

static void end_thread(void *data)
{
	struct kilni_spares *spares = data;

	for (unsigned i = 0; i < KILNI_SPARE_KINDS; i++) {
		void *record = spares[i].first;

		while (record) {
			void *next = *kilni_spare_next(record);

			free(record);
			record = next;
		}
		spares[i] = (struct kilni_spares){ NULL, 0, 0 };
	}
}

static void make_key(void)
{
	has_key = !IS_WATCHED && !pthread_key_create(&key, end_thread);
}

/* Gives the thread's lists room; only once, since a thread that has ended
 * gives nothing back any more. */
static bool set_up(void)
{
	if (is_set)
		return false;
	is_set = true;
	pthread_once(&key_once, make_key);
	if (!has_key || pthread_setspecific(key, kilni_spares))
		return false;
	for (unsigned i = 0; i < KILNI_SPARE_KINDS; i++)
		kilni_spares[i].limit = LIMIT;
	return true;
}

void kilni_spare_overflow(enum kilni_spare_kind kind, void *record)
{
	if (set_up())
		kilni_spare_put(kind, record);
	else
		free(record);
}
