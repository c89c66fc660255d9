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

_Thread_local struct kilni_thread *kilni_thread_recent;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void retain_device(struct kiln_device *device, void *arg)
{
	*(struct kiln_device **)arg = kiln_device_retain(device);
}

/*
 * Others may hold the stream, and go on with what is recorded there. What the
 * last holder gives back goes back outside the lock of the devices.
 */
static void return_stream(const struct kilni_thread *thread)
{
	struct kiln_device *device = NULL;

	kilni_device_if_alive(thread->device_id, retain_device, &device);
	if (!device)
		return;
	kilni_stream_return(thread->own);
	kiln_device_release(device);
}

static void end_thread(void *data)
{
	struct thread_devices *gone = data;

	for (unsigned i = 0; i < gone->count; i++) {
		struct kilni_thread *thread = &gone->entry[i];

		if (thread->current)
			kiln_stream_release(thread->current);
		if (thread->own)
			return_stream(thread);
	}
	free(gone);
	devices = NULL;
	kilni_thread_recent = NULL;
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
	kilni_thread_recent = &grown->entry[count];
	if (pthread_setspecific(key, grown))
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a thread's streams");
	return KILN_OK;
}

static enum kiln_status find_entry(uint64_t device_id)
{
	unsigned count = devices ? devices->count : 0;

	for (unsigned i = 0; i < count; i++)
		if (devices->entry[i].device_id == device_id) {
			kilni_thread_recent = &devices->entry[i];
			return KILN_OK;
		}
	return add_entry(device_id);
}

struct kilni_stream *kilni_thread_peek(const struct kiln_device *device)
{
	unsigned count = devices ? devices->count : 0;

	for (unsigned i = 0; i < count; i++)
		if (devices->entry[i].device_id == device->id)
			return devices->entry[i].stream;
	return NULL;
}

enum kiln_status kilni_thread_find(struct kiln_device *device,
				   struct kilni_thread **out)
{
	struct kilni_thread *thread;

	KILNI_TRY(find_entry(device->id));
	thread = kilni_thread_recent;
	if (!thread->own)
		KILNI_TRY(kilni_stream_acquire(device->sched,
					       KILN_PRIORITY_NORMAL,
					       &thread->own));
	kilni_thread_set(thread, thread->current);
	*out = thread;
	return KILN_OK;
}

void kilni_thread_set(struct kilni_thread *thread, struct kiln_stream *current)
{
	thread->current = current;
	thread->stream = current ? current->slot : thread->own;
}
