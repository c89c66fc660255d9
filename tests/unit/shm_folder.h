/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SHM_FOLDER_H
#define TESTS_UNIT_SHM_FOLDER_H

/* A folder of published pools of the test's own, in place of /dev/shm. */

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/segment.h"

static char shm_folder[64];

static inline void shm_make(void)
{
	/* On tmpfs where there is one: there space is really taken. */
	strcpy(shm_folder, access("/dev/shm", W_OK) ? "/tmp/kiln-shm-XXXXXX"
						    : "/dev/shm/t-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(shm_folder));
	ck_assert_int_eq(setenv("KILN_SHM_DIR", shm_folder, 1), 0);
}

/* Names in the folder; the last one that has the form goes to name. */
static inline unsigned shm_names(char name[KILNI_SEGMENT_NAME])
{
	DIR *folder = opendir(shm_folder);
	struct kilni_segment_name parsed;
	struct dirent *entry;
	unsigned count = 0;

	ck_assert_ptr_nonnull(folder);
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		count++;
		if (name && kilni_segment_parse(entry->d_name, &parsed))
			strcpy(name, entry->d_name);
	}
	closedir(folder);
	return count;
}

static inline const char *shm_path(const char *name)
{
	static char path[160];

	snprintf(path, sizeof(path), "%s/%s", shm_folder, name);
	return path;
}

static inline void shm_remove(void)
{
	DIR *folder = opendir(shm_folder);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
	rmdir(shm_folder);
}

/* Runs body in a forked child and gives its exit status, or -1. */
static inline int in_child(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		body();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
