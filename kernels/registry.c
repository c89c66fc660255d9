/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/registry.h"

#include <pthread.h>
#include <string.h>

#define NAME_BYTES 48

struct kilni_op_info kilni_ops[KILNI_OP_COUNT + KILNI_OPS_ADDED] = {
#define ROW(name, doc, form, classes, ulp, growth)                             \
	{ #name,                                                               \
	  doc,                                                                 \
	  KILNI_FORM_##form,                                                   \
	  KILNI_CLASSES_##classes,                                             \
	  ulp,                                                                 \
	  KILNI_GROWTH_##growth },
#define KILNI_EW1(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EW1, classes, ulp, NONE)
#define KILNI_EW2(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EW2, classes, ulp, NONE)
#define KILNI_CMP(ID, name, classes, doc) ROW(name, doc, CMP, classes, 0, NONE)
#define KILNI_PRED(ID, name, classes, doc)                                     \
	ROW(name, doc, PRED, classes, 0, NONE)
#define KILNI_EWX(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EWX, classes, ulp, NONE)
#define KILNI_REDUCE(ID, name, classes, ulp, growth, doc)                      \
	ROW(name, doc, REDUCE, classes, ulp, growth)
#define KILNI_OTHER(ID, name, classes, ulp, growth, doc)                       \
	ROW(name, doc, OTHER, classes, ulp, growth)
#include "kernels/ops.def"
#undef ROW
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[KILNI_OPS_ADDED][NAME_BYTES];
static int added;

static void lock_names(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_names(void)
{
	pthread_mutex_unlock(&lock);
}

void kilni_op_fork_watch(void)
{
	pthread_atfork(lock_names, unlock_names, unlock_names);
}

int kilni_op_add(const char *name)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < added; i++)
		if (!strcmp(names[i], name))
			break;
	if (i == added && added < KILNI_OPS_ADDED) {
		strncpy(names[i], name, NAME_BYTES - 1);
		kilni_ops[KILNI_OP_COUNT + i] = (struct kilni_op_info){
			.name = names[i],
			.doc = "a kernel of the program",
			.form = KILNI_FORM_OTHER,
		};
		added++;
	}
	pthread_mutex_unlock(&lock);
	return i < KILNI_OPS_ADDED ? KILNI_OP_COUNT + i : -1;
}
