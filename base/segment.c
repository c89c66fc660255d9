/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/segment.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define PREFIX "kiln-"

uint64_t kilni_segment_checksum(const void *data, size_t bytes)
{
	const unsigned char *from = data;
	uint64_t sum = UINT64_C(0x243f6a8885a308d3) ^ bytes;

	while (bytes) {
		size_t step = bytes < 8 ? bytes : 8;
		uint64_t word = 0;

		memcpy(&word, from, step);
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 29;
		from += step;
		bytes -= step;
	}
	return sum;
}

uint64_t kilni_segment_sum(const struct kilni_segment_snapshot *snapshot)
{
	size_t start = offsetof(struct kilni_segment_snapshot, bytes);

	return kilni_segment_checksum((const char *)snapshot + start,
				      (size_t)snapshot->bytes - start);
}

/* ---- names ---- */

const char *kilni_segment_folder(void)
{
	const char *folder = kilni_option_text(KILNI_OPT_SHM_DIR);

	return folder ? folder : "/dev/shm";
}

void kilni_segment_format(char *to, size_t size,
			  const struct kilni_segment_name *name)
{
	snprintf(to, size, PREFIX "%llu-%llu-%016llx",
		 (unsigned long long)name->uid, (unsigned long long)name->pid,
		 (unsigned long long)name->random);
}

/* The digits up to end in that base; false: none, too many, or others. */
static bool number(const char **text, char end, int base, uint64_t *value)
{
	char digits[24];
	size_t length = strcspn(*text, (const char[]){ end, '\0' });
	char *rest;

	if (!length || length >= sizeof(digits) || length > 16 + 4 ||
	    !isxdigit((unsigned char)**text) || (*text)[length] != end)
		return false;
	memcpy(digits, *text, length);
	digits[length] = '\0';
	errno = 0;
	*value = strtoull(digits, &rest, base);
	*text += length + (end != '\0');
	return !errno && !*rest;
}

bool kilni_segment_parse(const char *text, struct kilni_segment_name *name)
{
	const char *at = text + strlen(PREFIX);
	char again[KILNI_SEGMENT_NAME];

	if (strncmp(text, PREFIX, strlen(PREFIX)) ||
	    !number(&at, '-', 10, &name->uid) ||
	    !number(&at, '-', 10, &name->pid) ||
	    !number(&at, '\0', 16, &name->random))
		return false;
	/* Only the one spelling. */
	kilni_segment_format(again, sizeof(again), name);
	return !strcmp(text, again);
}

/* ---- files ---- */

static int open_as(int folder, const char *name, int mode, struct stat *stat)
{
	/* Not to be held up by a pipe that somebody left there. */
	int fd = openat(folder, name,
			mode | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	if (!fstat(fd, stat) && S_ISREG(stat->st_mode))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

int kilni_segment_open(int folder, const char *name, struct stat *stat)
{
	return open_as(folder, name, O_RDONLY, stat);
}

bool kilni_segment_is_live(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

bool kilni_segment_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

/*
 * The lock is taken before the name goes. Whoever makes a segment locks it
 * after making the name and then looks whether the file still has one, so of
 * the two exactly one wins.
 */
static bool remove_dead(int folder, const char *name)
{
	struct stat opened, named;
	int fd = open_as(folder, name, O_RDWR, &opened);
	bool removed = false;

	if (fd < 0)
		return false;
	if (opened.st_uid == geteuid() && kilni_segment_lock(fd) &&
	    !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) &&
	    named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
		removed = !unlinkat(folder, name, 0);
	close(fd);
	return removed;
}

unsigned kilni_segment_sweep(void)
{
	DIR *folder = opendir(kilni_segment_folder());
	struct kilni_segment_name name;
	struct dirent *entry;
	unsigned removed = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		if (kilni_segment_parse(entry->d_name, &name))
			removed += remove_dead(dirfd(folder), entry->d_name);
	closedir(folder);
	return removed;
}
