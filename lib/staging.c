/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

/* Host memory that is used for transfers, and pinned where that helps. */

struct kilni_mark {
	struct kilni_mark *next;
	char *data;
	size_t bytes;
	unsigned times;
	bool pinned;
};

static const struct kilni_memory_ops *memory_of(const struct kiln_device *d)
{
	return d->hw->driver->memory;
}

/* The marks' lock is held. */
static struct kilni_mark **find(struct kiln_device *device,
				const struct kiln_host_range *range)
{
	struct kilni_mark **at = &device->marks;

	while (*at && ((*at)->data != range->data ||
		       (*at)->bytes != range->bytes))
		at = &(*at)->next;
	return at;
}

/* A refusal is no error: the memory can be used all the same. */
static bool pin(struct kiln_device *device, const struct kiln_host_range *range)
{
	struct kilni_error_record before;
	enum kiln_status status;

	kilni_error_save(&before);
	status = memory_of(device)->host_pin(device->hw, range->data,
					     range->bytes);
	if (status != KILN_OK && status != KILN_ERR_UNSUPPORTED)
		kilni_log(KILNI_LOG_INFO, "%zu bytes at %p are not pinned: %s",
			  range->bytes, range->data, kiln_error_message());
	kilni_error_restore(&before);
	return status == KILN_OK;
}

static enum kiln_status mark(struct kiln_device *device,
			     const struct kiln_host_range *range)
{
	struct kilni_mark **at = find(device, range), *made;

	if (*at) {
		(*at)->times++;
		return KILN_OK;
	}
	made = calloc(1, sizeof(*made));
	if (!made)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_device_stage: no memory for a mark");
	made->data = range->data;
	made->bytes = range->bytes;
	made->times = 1;
	made->pinned = pin(device, range);
	*at = made;
	return KILN_OK;
}

/* The mark goes from the device's list to the other where it is the last. */
static void unmark(struct kiln_device *device,
		   const struct kiln_host_range *range,
		   struct kilni_mark **list)
{
	struct kilni_mark **at = find(device, range), *gone = *at;

	if (!gone || --gone->times)
		return;
	*at = gone->next;
	gone->next = *list;
	*list = gone;
}

/*
 * May wait for copies, so that the marks are not locked; whoever marks the same
 * memory meanwhile waits for it. False: the device may use some
 * of the memory until it is closed.
 */
static bool unpin(struct kiln_device *device, struct kilni_mark *list)
{
	struct kilni_mark *mark;
	bool free_now = true;

	while ((mark = list)) {
		list = mark->next;
		if (mark->pinned &&
		    !memory_of(device)->host_unpin(device->hw, mark->data,
						   mark->bytes, NULL))
			free_now = false;
		free(mark);
	}
	return free_now;
}

void kilni_marks_end(struct kiln_device *device)
{
	struct kilni_mark *list = device->marks;

	device->marks = NULL;
	(void)unpin(device, list);
}

static enum kiln_status check(const struct kiln_device *device,
			      const struct kiln_host_range *ranges,
			      size_t count, const char *fn)
{
	KILNI_CHECK_DEVICE(device, fn);
	if (!ranges && count)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: ranges is NULL",
				  fn);
	for (size_t i = 0; i < count; i++)
		if (ranges[i].bytes &&
		    (!ranges[i].data ||
		     ranges[i].bytes > UINTPTR_MAX - (uintptr_t)ranges[i].data))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "%s: range %zu is %zu bytes at %p",
					  fn, i, ranges[i].bytes,
					  ranges[i].data);
	return KILN_OK;
}

enum kiln_status kiln_device_stage(struct kiln_device *device,
				   const struct kiln_host_range *ranges,
				   size_t count)
{
	enum kiln_status status = KILN_OK;
	struct kilni_mark *undone = NULL;
	size_t done;

	KILNI_TRY(check(device, ranges, count, __func__));
	KILNI_TRY(kilni_sched_alive(device->sched));
	pthread_mutex_lock(&device->staging);
	pthread_mutex_lock(&device->marking);
	for (done = 0; done < count; done++) {
		if (ranges[done].bytes)
			status = mark(device, &ranges[done]);
		if (status != KILN_OK)
			break;
	}
	while (status != KILN_OK && done-- > 0)
		if (ranges[done].bytes)
			unmark(device, &ranges[done], &undone);
	pthread_mutex_unlock(&device->marking);
	(void)unpin(device, undone);
	pthread_mutex_unlock(&device->staging);
	return status;
}

enum kiln_status kiln_device_unstage(struct kiln_device *device,
				     const struct kiln_host_range *ranges,
				     size_t count)
{
	struct kilni_mark *undone = NULL;
	bool free_now;

	KILNI_TRY(check(device, ranges, count, __func__));
	pthread_mutex_lock(&device->staging);
	pthread_mutex_lock(&device->marking);
	for (size_t i = 0; i < count; i++)
		if (ranges[i].bytes)
			unmark(device, &ranges[i], &undone);
	pthread_mutex_unlock(&device->marking);
	free_now = unpin(device, undone);
	pthread_mutex_unlock(&device->staging);
	if (free_now)
		return KILN_OK;
	return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
			  "kiln_device_unstage: the device is lost and may use "
			  "the memory until it is closed");
}

static bool holds(const struct kilni_mark *mark, const char *data,
		  size_t bytes)
{
	return mark->pinned && data >= mark->data &&
	       data <= mark->data + mark->bytes &&
	       bytes <= (size_t)(mark->data + mark->bytes - data);
}

bool kiln_device_pins(const struct kiln_device *device, const void *data,
		      size_t bytes)
{
	pthread_mutex_t *lock = (void *)(uintptr_t)&device->marking;
	const struct kilni_mark *mark;

	if (!kilni_device_is_own(device))
		return false;
	pthread_mutex_lock(lock);
	mark = device->marks;
	while (mark && !holds(mark, data, bytes))
		mark = mark->next;
	pthread_mutex_unlock(lock);
	return mark != NULL;
}
