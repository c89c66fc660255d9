/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

/*
 * What a thread keeps per device. Devices are named by their id, so that a
 * closed one is never touched; the streams go back when the thread ends.
 */

struct thread_devices {
	unsigned count;
	struct kilni_thread entry[];
};

static _Thread_local struct thread_devices *devices;
/* Index of the entry that was used last. */
static _Thread_local unsigned recent;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void return_stream(struct kiln_device *device, void *arg)
{
	struct kilni_thread *thread = arg;
	struct kiln_stream *handle;

	(void)device;
	handle = *kilni_stream_owner(thread->own);
	if (handle)
		handle->thread_own = false;
	if (!handle || !__atomic_load_n(&handle->object.refs, __ATOMIC_ACQUIRE))
		kilni_stream_return(thread->own);
}

static void end_thread(void *data)
{
	struct thread_devices *gone = data;

	for (unsigned i = 0; i < gone->count; i++) {
		struct kilni_thread *thread = &gone->entry[i];

		if (thread->current)
			kiln_stream_release(thread->current);
		if (thread->own)
			kilni_device_if_alive(thread->device_id, return_stream,
					      thread);
	}
	free(gone);
	devices = NULL;
	recent = 0;
}

static void make_key(void)
{
	pthread_key_create(&key, end_thread);
}

static enum kiln_status add_entry(uint64_t device_id)
{
	unsigned count = devices ? devices->count : 0;
	struct thread_devices *grown;

	pthread_once(&key_once, make_key);
	grown = realloc(devices, sizeof(*grown) +
					 (count + 1) * sizeof(grown->entry[0]));
	if (!grown)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a thread's streams");
	memset(&grown->entry[count], 0, sizeof(grown->entry[0]));
	grown->entry[count].device_id = device_id;
	grown->count = count + 1;
	devices = grown;
	recent = count;
	if (pthread_setspecific(key, grown))
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a thread's streams");
	return KILN_OK;
}

enum kiln_status kilni_thread_get(struct kiln_device *device,
				  struct kilni_thread **out)
{
	if (KILNI_UNLIKELY(!devices ||
			   devices->entry[recent].device_id != device->id)) {
		unsigned i = 0, count = devices ? devices->count : 0;

		while (i < count && devices->entry[i].device_id != device->id)
			i++;
		if (i == count)
			KILNI_TRY(add_entry(device->id));
		else
			recent = i;
	}
	*out = &devices->entry[recent];
	return KILN_OK;
}

enum kiln_status kilni_thread_stream(struct kiln_device *device,
				     struct kilni_stream **out)
{
	struct kilni_thread *thread;

	KILNI_TRY(kilni_thread_get(device, &thread));
	if (thread->current) {
		*out = thread->current->slot;
		return KILN_OK;
	}
	if (KILNI_UNLIKELY(!thread->own))
		KILNI_TRY(kilni_stream_acquire(device->sched, &thread->own));
	*out = thread->own;
	return KILN_OK;
}
