/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The pipeline cache on disk: a file for each device and driver, which is
 * never needed. It is replaced whole, by a rename, so that a reader sees one
 * version or another.
 */

#define VERSION 1
#define MOST_BYTES ((uint64_t)64 << 20)
#define PATH_BYTES 1024

struct header {
	char magic[8];
	uint32_t version;
	uint32_t vendor, device, driver;
	uint8_t device_uuid[VK_UUID_SIZE];
	uint8_t driver_uuid[VK_UUID_SIZE];
	uint8_t cache_uuid[VK_UUID_SIZE];
	uint64_t bytes;
	uint64_t checksum;     /* of what follows */
};

/* FNV-1a, eight bytes at a time and mixed, since a file may have megabytes. */
static uint64_t checksum_of(const unsigned char *data, uint64_t bytes)
{
	uint64_t sum = 0xcbf29ce484222325u, word;

	for (; bytes >= 8; bytes -= 8, data += 8) {
		memcpy(&word, data, 8);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 32;
	}
	for (; bytes; bytes--)
		sum = (sum ^ *data++) * 0x100000001b3u;
	return sum;
}

static void fill_header(const struct kilni_vk_physical *p, const void *data,
			uint64_t bytes, struct header *h)
{
	memset(h, 0, sizeof(*h));
	memcpy(h->magic, "KILNVKPC", 8);
	h->version = VERSION;
	h->vendor = p->properties.vendorID;
	h->device = p->properties.deviceID;
	h->driver = p->properties.driverVersion;
	memcpy(h->device_uuid, p->device_uuid, VK_UUID_SIZE);
	memcpy(h->driver_uuid, p->driver_uuid, VK_UUID_SIZE);
	memcpy(h->cache_uuid, p->properties.pipelineCacheUUID, VK_UUID_SIZE);
	h->bytes = bytes;
	h->checksum = checksum_of(data, bytes);
}

/* ---- where it is ---- */

static bool print_path(char *path, const char *format, const char *folder)
{
	int length = snprintf(path, PATH_BYTES, format, folder);

	return length > 0 && length < PATH_BYTES;
}

/* The folder of kiln's caches; false: there is none. */
static bool find_folder(char *path)
{
	const char *set = kilni_option_text(KILNI_OPT_CACHE_DIR);
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (set)
		return print_path(path, "%s", set);
	if (xdg && *xdg == '/')
		return print_path(path, "%s/kiln", xdg);
	if (home && *home == '/')
		return print_path(path, "%s/.cache/kiln", home);
	return false;
}

static bool find_file(const struct kilni_vk_physical *p, char *path)
{
	char folder[PATH_BYTES];
	int length;

	if (!find_folder(folder))
		return false;
	length = snprintf(path, PATH_BYTES, "%s/vulkan-%04x-%04x-", folder,
			  p->properties.vendorID, p->properties.deviceID);
	for (unsigned i = 0; i < VK_UUID_SIZE; i++)
		if (length > 0 && length < PATH_BYTES)
			length += snprintf(path + length,
					   (size_t)(PATH_BYTES - length),
					   "%02x", p->driver_uuid[i]);
	/* Room for what a file in the making has behind its name. */
	return length > 0 && length + 64 < PATH_BYTES;
}

/* Makes a folder where the one above it exists. */
static bool make_folder(char *path)
{
	char *slash = strrchr(path, '/');
	bool made;

	if (!mkdir(path, 0700) || errno == EEXIST)
		return true;
	if (errno != ENOENT || !slash || slash == path)
		return false;
	*slash = 0;
	made = !mkdir(path, 0700);
	*slash = '/';
	return made && !mkdir(path, 0700);
}

/*
 * Makes the file's folder and the one above it, .cache, but no more: a HOME
 * that is not there stays away. errno tells how that went.
 */
static bool make_folders(const char *file)
{
	char path[PATH_BYTES];
	char *slash;

	snprintf(path, sizeof(path), "%s", file);
	slash = strrchr(path, '/');
	if (!slash || slash == path)
		return true;
	*slash = 0;
	return make_folder(path);
}

/* ---- reading ---- */

static bool read_all(int fd, void *data, uint64_t bytes)
{
	char *to = data;

	while (bytes) {
		ssize_t got = read(fd, to, bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to += got;
		bytes -= (uint64_t)got;
	}
	return true;
}

/* Header and contents of a file that is good; NULL where it is not. */
static void *read_file(const struct kilni_vk_physical *p, int fd,
		       uint64_t *bytes)
{
	struct header have, want;
	struct stat status;
	void *data;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    status.st_size <= (off_t)sizeof(have) ||
	    (uint64_t)status.st_size > MOST_BYTES ||
	    !read_all(fd, &have, sizeof(have)) ||
	    have.bytes != (uint64_t)status.st_size - sizeof(have))
		return NULL;
	data = malloc(have.bytes);
	if (!data)
		return NULL;
	if (read_all(fd, data, have.bytes)) {
		fill_header(p, data, have.bytes, &want);
		if (!memcmp(&have, &want, sizeof(have))) {
			*bytes = have.bytes;
			return data;
		}
	}
	free(data);
	return NULL;
}

void *kilni_vk_cache_read(const struct kilni_vk_physical *p, uint64_t *bytes)
{
	char path[PATH_BYTES];
	void *data;
	int fd;

	*bytes = 0;
	if (!find_file(p, path))
		return NULL;
	/* A pipe of that name must not keep us waiting. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	data = read_file(p, fd, bytes);
	close(fd);
	if (!data)
		kilni_log(KILNI_LOG_INFO, "vulkan: %s is not used: it is not "
			  "this driver's, or damaged", path);
	return data;
}

/* ---- writing ---- */

static bool write_all(int fd, const void *data, uint64_t bytes)
{
	const char *from = data;

	while (bytes) {
		ssize_t put = write(fd, from, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		from += put;
		bytes -= (uint64_t)put;
	}
	return true;
}

static bool write_file(const struct kilni_vk_physical *p, const char *path,
		       const void *data, uint64_t bytes)
{
	struct header header;
	bool good;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return false;
	fill_header(p, data, bytes, &header);
	good = write_all(fd, &header, sizeof(header)) &&
	       write_all(fd, data, bytes);
	return !close(fd) && good;
}

/* A folder of that name would refuse the rename; an empty one goes. */
static bool put_in_place(const char *made, const char *path)
{
	if (!rename(made, path))
		return true;
	return errno == EISDIR && !rmdir(path) && !rename(made, path);
}

void kilni_vk_cache_write(const struct kilni_vk_physical *p, const void *data,
			  uint64_t bytes)
{
	char path[PATH_BYTES], made[PATH_BYTES + 64];

	if (bytes + sizeof(struct header) > MOST_BYTES || !find_file(p, path))
		return;
	snprintf(made, sizeof(made), "%s.%ld.%llx", path, (long)getpid(),
		 (unsigned long long)kilni_now_ns());
	if (make_folders(path) && write_file(p, made, data, bytes) &&
	    put_in_place(made, path))
		return;
	kilni_log(KILNI_LOG_INFO, "vulkan: %s cannot be written: %s", path,
		  strerror(errno));
	unlink(made);
}
