/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FILE_RIG_H
#define TESTS_UNIT_FILE_RIG_H

/* What the tests of files share: a folder of their own, looked at by stdio. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "base/base.h"

static char folder[64];

/* Where the disk does not matter, memory is faster. */
static inline void prefer_memory(void)
{
	if (!access("/dev/shm", W_OK))
		setenv("KILN_TEST_FOLDER", "/dev/shm", 0);
}

/* Both engines, the automatic choice first; or that one alone. */
static inline int engines_tested(void)
{
	return getenv("KILN_TEST_ENGINE") ? 1 : 2;
}

static inline void make_folder(void)
{
	const char *base = getenv("KILN_TEST_FOLDER");

	snprintf(folder, sizeof(folder), "%s/kiln-files-XXXXXX",
		 base ? base : ".");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void remove_folder(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

/* A path in the folder; the next four calls leave it as it is. */
static inline const char *at(const char *name)
{
	static char paths[4][512];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static inline void put_file(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "wb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
	ck_assert_int_eq(fclose(file), 0);
}

/* The whole file, to be freed. */
static inline void *get_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	void *data;

	ck_assert_msg(file != NULL, "%s is not here", path);
	ck_assert_int_eq(fstat(fileno(file), &st), 0);
	*bytes = (size_t)st.st_size;
	data = malloc(*bytes + 1);
	ck_assert_uint_eq(fread(data, 1, *bytes, file), *bytes);
	fclose(file);
	return data;
}

static inline void expect_file(const char *path, const void *want,
			       size_t bytes)
{
	size_t have;
	void *data = get_file(path, &have);

	ck_assert_uint_eq(have, bytes);
	ck_assert_msg(!memcmp(data, want, bytes), "%s: bytes differ", path);
	free(data);
}

/* Entries of a folder but "." and "..". */
static inline int entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") &&
			 strcmp(entry->d_name, "..");
	closedir(dir);
	return count;
}

/* File descriptors of the process, and its threads. */
static inline int descriptors(void)
{
	return entries("/proc/self/fd");
}

/*
 * Bytes that tell where they lie: i * 31 + i / 2^8 * 17 + i / 2^16. A row of
 * 256 is the table from some place on, which a sanitizer sees as one access;
 * 31 * 223 is 1 modulo 256.
 */
static inline void fill(void *data, size_t bytes)
{
	unsigned char table[512];
	size_t i, row;

	for (i = 0; i < sizeof(table); i++)
		table[i] = (unsigned char)(i * 31);
	for (i = 0; i < bytes; i += row) {
		row = bytes - i < 256 ? bytes - i : 256;
		memcpy((unsigned char *)data + i,
		       table + (((i >> 8) * 17 + (i >> 16)) * 223 & 255), row);
	}
}

#endif
