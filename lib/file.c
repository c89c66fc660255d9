/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/file.h"

#include <stdio.h>
#include <stdlib.h>

const struct kilni_object_ops kilni_file_kind = { "file" };

_Static_assert(offsetof(struct kiln_file, object) == 0, "object first");

#define CHECK_FILE(f)                                                          \
	KILNI_TRY(kilni_object_check(f, &kilni_file_kind, __func__, #f))

/* ---- opening and ending ---- */

static enum kiln_status check_open(struct kiln_file *const *out,
				   const char *path, unsigned flags,
				   const char *fn, bool *ring_asked)
{
	if (!out || !path)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s is NULL", fn,
				  out ? "path" : "out");
	if (*out)
		KILNI_TRY(kilni_object_check(*out, &kilni_file_kind, fn,
					     "*out"));
	if (flags & ~(unsigned)KILN_FILE_DIRECT)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: flags 0x%x are unknown", fn, flags);
	kilni_fork_watch();
	return kilni_io_check(ring_asked);
}

/* What messages call the file. */
static char *shown_path(const char *path)
{
	size_t length = strlen(path);
	size_t skip = length > KILNI_PATH_SHOWN ? length - KILNI_PATH_SHOWN
						: 0;
	char *shown = malloc(length - skip + 4);

	if (shown)
		sprintf(shown, "%s%s", skip ? "..." : "", path + skip);
	return shown;
}

static void free_handle(struct kiln_file *file, const char *shown)
{
	kilni_io_destroy(file->spare);
	pthread_mutex_destroy(&file->lock);
	free((void *)(uintptr_t)shown);
	free(file);
}

static enum kiln_status new_handle(struct kiln_file **out, const char *fn)
{
	struct kiln_file *file = calloc(1, sizeof(*file));

	if (!file)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "%s: no memory for a file", fn);
	kilni_object_init(&file->object, &kilni_file_kind);
	pthread_mutex_init(&file->lock, NULL);
	*out = file;
	return KILN_OK;
}

static enum kiln_status open_new(struct kiln_file *file, const char *fn,
				 const char *path, unsigned flags, bool create)
{
	bool direct = flags & KILN_FILE_DIRECT;

	file->state = create ? KILNI_FILE_NEW : KILNI_FILE_READING;
	if (create)
		return kilni_fd_create(&file->fd, &file->place, fn, path,
				       direct);
	file->place.folder = -1;
	return kilni_fd_open(&file->fd, fn, path, direct);
}

static enum kiln_status open_handle(struct kiln_file **out, const char *fn,
				    const char *path, unsigned flags,
				    bool create, bool ring_asked)
{
	struct kiln_file *file, *old = *out;
	char *shown;
	enum kiln_status status = new_handle(&file, fn);

	if (status != KILN_OK)
		return status;
	shown = shown_path(path);
	if (!shown)
		status = kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory",
				    fn);
	/* Where the ring was asked for, a refusal is told at once. */
	if (status == KILN_OK && ring_asked)
		status = kilni_io_create(&file->spare);
	if (status == KILN_OK)
		status = open_new(file, fn, path, flags, create);
	if (status != KILN_OK) {
		free_handle(file, shown);
		return status;
	}
	file->fd.path = shown;
	*out = file;
	kiln_file_release(old);
	return KILN_OK;
}

enum kiln_status kiln_file_open(struct kiln_file **out, const char *path,
				unsigned flags)
{
	bool ring;

	KILNI_TRY(check_open(out, path, flags, __func__, &ring));
	return open_handle(out, __func__, path, flags, false, ring);
}

enum kiln_status kiln_file_create(struct kiln_file **out, const char *path,
				  unsigned flags)
{
	bool ring;

	KILNI_TRY(check_open(out, path, flags, __func__, &ring));
	return open_handle(out, __func__, path, flags, true, ring);
}

struct kiln_file *kiln_file_retain(struct kiln_file *file)
{
	kilni_object_retain(&file->object);
	return file;
}

void kiln_file_release(struct kiln_file *file)
{
	if (!file || !kilni_object_drop(&file->object))
		return;
	__atomic_store_n(&file->object.ops, NULL, __ATOMIC_RELAXED);
	kilni_fd_close(&file->fd, &file->place);
	free_handle(file, file->fd.path);
}

enum kiln_status kiln_file_commit(struct kiln_file *file)
{
	int state = KILNI_FILE_NEW;

	CHECK_FILE(file);
	if (!__atomic_compare_exchange_n(&file->state, &state,
					 KILNI_FILE_ENDED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %s: is %s", __func__, file->fd.path,
				  state == KILNI_FILE_READING
					  ? "open for reading"
					  : "committed or given up");
	return kilni_fd_commit(&file->fd, &file->place, __func__);
}

/* ---- what is asked of it ---- */

enum kiln_status kiln_file_size(const struct kiln_file *file, uint64_t *bytes)
{
	CHECK_FILE(file);
	if (!bytes)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: bytes is NULL",
				  __func__);
	return kilni_fd_size(&file->fd, __func__, bytes);
}

bool kiln_file_direct(const struct kiln_file *file)
{
	return file->fd.direct >= 0 &&
	       !__atomic_load_n(&file->fd.direct_refused, __ATOMIC_RELAXED);
}

const char *kiln_file_engine(void)
{
	static _Thread_local char text[160];
	struct kilni_error_record before;

	kilni_error_save(&before);
	if (kilni_io_describe(text, sizeof(text)) != KILN_OK)
		snprintf(text, sizeof(text), "none (%.140s)",
			 kiln_error_message());
	kilni_error_restore(&before);
	return text;
}
