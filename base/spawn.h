/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SPAWN_H
#define KILNI_SPAWN_H

#include <pthread.h>

/*
 * Starts a thread of the library's own, which blocks all signals: those are the
 * program's business. attr may be NULL. 0, or the error of pthread_create.
 */
int kilni_spawn(pthread_t *thread, const pthread_attr_t *attr,
		void *(*run)(void *arg), void *arg);

#endif
