/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <pthread.h>

unsigned kilni_fork_epoch;

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
	kilni_fork_epoch++;
}

static void start_watch(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

void kilni_fork_watch(void)
{
	pthread_once(&watch_once, start_watch);
}
