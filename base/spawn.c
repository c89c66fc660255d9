/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <signal.h>

int kilni_spawn(pthread_t *thread, const pthread_attr_t *attr,
		void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
