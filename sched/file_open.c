/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sched/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files by name: opening, and new ones that take the place of old ones. */

static enum kiln_status io_error(const char *fn, const char *path,
				 const char *what)
{
	return kilni_fail(KILN_ERR_IO, errno, "%s: %s: %s%s", fn, path, what,
			  strerror(errno));
}

/* A site may fail first; else what open() says, restarted. */
static enum kiln_status open_at(int *fd, const char *fn, const char *path,
				int folder, const char *name, int flags)
{
	KILNI_TRY(KILNI_FAULT("file_open"));
	do
		*fd = openat(folder, name, flags | O_CLOEXEC | O_NOCTTY, 0666);
	while (*fd < 0 && errno == EINTR);
	return *fd < 0 ? io_error(fn, path, "") : KILN_OK;
}

/* The same file once more; without /proc there is no second one. */
static void open_direct(struct kilni_fd *file, int flags)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", file->fd);
	do
		file->direct = open(name, flags | O_DIRECT | O_CLOEXEC);
	while (file->direct < 0 && errno == EINTR);
}

static void start(struct kilni_fd *file, const char *path)
{
	file->path = path;
	file->fd = file->direct = -1;
	file->direct_refused = 0;
}

static enum kiln_status refuse_kind(const char *fn, const char *path)
{
	return kilni_fail(KILN_ERR_IO, 0, "%s: %s: is no regular file", fn,
			  path);
}

/* A pipe must not hold the caller up; the flag itself is for opening alone. */
static enum kiln_status check_regular(const struct kilni_fd *file,
				      const char *fn)
{
	struct stat st;

	if (fstat(file->fd, &st))
		return io_error(fn, file->path, "");
	if (!S_ISREG(st.st_mode))
		return refuse_kind(fn, file->path);
	if (fcntl(file->fd, F_SETFL, 0))
		return io_error(fn, file->path, "");
	return KILN_OK;
}

enum kiln_status kilni_fd_open(struct kilni_fd *file, const char *fn,
			       const char *path, bool direct)
{
	enum kiln_status status;

	start(file, path);
	KILNI_TRY(open_at(&file->fd, fn, path, AT_FDCWD, path,
			  O_RDONLY | O_NONBLOCK));
	status = check_regular(file, fn);
	if (status != KILN_OK) {
		close(file->fd);
		return status;
	}
	if (direct)
		open_direct(file, O_RDONLY);
	return KILN_OK;
}

enum kiln_status kilni_fd_size(const struct kilni_fd *file, const char *fn,
			       uint64_t *bytes)
{
	struct stat st;

	if (fstat(file->fd, &st))
		return io_error(fn, file->path, "");
	*bytes = (uint64_t)st.st_size;
	return KILN_OK;
}

/* ---- a new file beside the old one ---- */

/* The folder stays the same one, wherever the process goes meanwhile. */
static enum kiln_status open_folder(struct kilni_place *place, const char *fn,
				    const char *path, const char *folder)
{
	enum kiln_status status = open_at(&place->folder, fn, path, AT_FDCWD,
					  folder, O_RDONLY | O_DIRECTORY);

	place->can_sync = status == KILN_OK;
	if (status == KILN_OK || kiln_error_native() != EACCES)
		return status;
	return open_at(&place->folder, fn, path, AT_FDCWD, folder,
		       O_PATH | O_DIRECTORY);
}

/* Splits a path, which it changes, into folder and name. */
static const char *split(char *path, char **name)
{
	char *slash = strrchr(path, '/');

	if (!slash) {
		*name = path;
		return ".";
	}
	*name = slash + 1;
	if (slash == path)
		return "/";
	*slash = '\0';
	return path;
}

/* The path with a link at its end resolved; to be freed. */
static enum kiln_status follow(char **out, const char *fn, const char *path)
{
	struct stat st;
	bool is_link = !lstat(path, &st) && S_ISLNK(st.st_mode);

	*out = is_link ? realpath(path, NULL) : strdup(path);
	if (*out)
		return KILN_OK;
	if (errno != ENOMEM)
		return io_error(fn, path, "");
	return kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory", fn);
}

static enum kiln_status find_place(struct kilni_place *place, const char *fn,
				   const char *path)
{
	const char *folder;
	char *full, *name;
	enum kiln_status status;

	KILNI_TRY(follow(&full, fn, path));
	folder = split(full, &name);
	place->name = strdup(name);
	if (!*name)
		status = refuse_kind(fn, path);
	else if (!place->name)
		status = kilni_fail(KILN_ERR_NO_MEMORY, 0, "%s: no memory",
				    fn);
	else
		status = open_folder(place, fn, path, folder);
	free(full);
	return status;
}

/* What is there has to be a file that the caller may write. */
static enum kiln_status check_old(const struct kilni_place *place,
				  const char *fn, const char *path,
				  struct stat *st)
{
	if (fstatat(place->folder, place->name, st, AT_SYMLINK_NOFOLLOW)) {
		st->st_mode = 0;
		return errno == ENOENT ? KILN_OK : io_error(fn, path, "");
	}
	if (!S_ISREG(st->st_mode))
		return refuse_kind(fn, path);
	if (faccessat(place->folder, place->name, W_OK, AT_EACCESS))
		return io_error(fn, path, "");
	return KILN_OK;
}

static void invent_name(struct kilni_place *place)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) !=
	    sizeof(number))
		number = kilni_now_ns() ^ (uint64_t)getpid() << 40;
	snprintf(place->temporary, sizeof(place->temporary),
		 ".kiln-%016llx", (unsigned long long)number);
}

static enum kiln_status make_temporary(struct kilni_fd *file,
				       struct kilni_place *place,
				       const char *fn)
{
	enum kiln_status status = KILN_OK;

	for (int i = 0; i < 100; i++) {
		invent_name(place);
		status = open_at(&file->fd, fn, file->path, place->folder,
				 place->temporary,
				 O_RDWR | O_CREAT | O_EXCL);
		if (status == KILN_OK)
			return KILN_OK;
		*place->temporary = '\0';
		if (kiln_error_native() != EEXIST)
			break;
	}
	return status;
}

static enum kiln_status create(struct kilni_fd *file,
			       struct kilni_place *place, const char *fn)
{
	struct stat old;

	KILNI_TRY(find_place(place, fn, file->path));
	KILNI_TRY(check_old(place, fn, file->path, &old));
	KILNI_TRY(make_temporary(file, place, fn));
	if (old.st_mode && fchmod(file->fd, old.st_mode & 0777))
		return io_error(fn, file->path, "");
	return KILN_OK;
}

enum kiln_status kilni_fd_create(struct kilni_fd *file,
				 struct kilni_place *place, const char *fn,
				 const char *path, bool direct)
{
	struct kilni_error_record before;
	enum kiln_status status;

	start(file, path);
	place->folder = -1;
	place->name = NULL;
	*place->temporary = '\0';
	kilni_error_save(&before);
	status = create(file, place, fn);
	if (status != KILN_OK) {
		kilni_fd_close(file, place);
		return status;
	}
	/* Names that were taken, and such, were no failure. */
	kilni_error_restore(&before);
	if (direct)
		open_direct(file, O_RDWR);
	return KILN_OK;
}

/* ---- its end ---- */

static enum kiln_status sync_fd(int fd, const char *fn, const char *path,
				const char *what)
{
	int failed;

	KILNI_TRY(KILNI_FAULT("file_fsync"));
	do
		failed = fsync(fd);
	while (failed && errno == EINTR);
	/* A file system that cannot sync a folder says EINVAL. */
	if (failed && !(*what && errno == EINVAL))
		return io_error(fn, path, what);
	return KILN_OK;
}

static void drop_temporary(struct kilni_place *place)
{
	if (*place->temporary)
		unlinkat(place->folder, place->temporary, 0);
	*place->temporary = '\0';
}

static enum kiln_status put_in_place(struct kilni_fd *file,
				     struct kilni_place *place,
				     const char *fn)
{
	KILNI_TRY(sync_fd(file->fd, fn, file->path, ""));
	KILNI_TRY(KILNI_FAULT("file_rename"));
	if (renameat(place->folder, place->temporary, place->folder,
		     place->name))
		return io_error(fn, file->path, "");
	*place->temporary = '\0';
	return KILN_OK;
}

enum kiln_status kilni_fd_commit(struct kilni_fd *file,
				 struct kilni_place *place, const char *fn)
{
	enum kiln_status status = put_in_place(file, place, fn);

	drop_temporary(place);
	if (status != KILN_OK || !place->can_sync)
		return status;
	return sync_fd(place->folder, fn, file->path,
		       "is in place, but its folder was not synced: ");
}

void kilni_fd_close(struct kilni_fd *file, struct kilni_place *place)
{
	if (file->direct >= 0)
		close(file->direct);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = file->direct = -1;
	drop_temporary(place);
	if (place->folder >= 0)
		close(place->folder);
	place->folder = -1;
	free(place->name);
	place->name = NULL;
}
