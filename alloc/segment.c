/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "alloc/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

/* Names tried before giving up; each must have been lost to a sweep. */
#define TRIES 8

/*
 * The segment of this process. Its lock is taken after that of the devices'
 * registry and after the pools'; under it come the caches' alone.
 */
static struct {
	pthread_mutex_t lock;
	struct kilni_publication *parts;
	struct kilni_segment *map;
	uint64_t seq;
	pid_t maker;
	bool told;                 /* that there can be no segment */
	int named;                 /* atomic: path is this process's own */
	char path[KILNI_SEGMENT_PATH];
	/* A snapshot before it is written; what is not used has no memory. */
	struct kilni_segment_snapshot draft;
} self = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- fork and exit ---- */

/* Held over a fork, so that no child inherits a file that is being made. */
static void before_fork(void)
{
	pthread_mutex_lock(&self.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&self.lock);
}

/* The mapping was not inherited; what belongs to it is the parent's. */
static void in_child(void)
{
	self.map = NULL;
	self.parts = NULL;
	self.seq = 0;
	self.told = false;
	__atomic_store_n(&self.named, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&self.lock);
}

/* At load: what registers later is locked earlier at a fork. */
__attribute__((constructor)) static void watch_fork(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/*
 * At exit, on whatever thread; others may still write, which harms nothing:
 * the mapping stays. A process that skips this leaves the name to the sweep.
 */
__attribute__((destructor)) static void remove_name(void)
{
	if (__atomic_exchange_n(&self.named, 0, __ATOMIC_ACQUIRE) &&
	    self.maker == getpid())
		unlink(self.path);
}

/* ---- making ---- */

/* Why a step failed: an injected fault has no errno. */
static const char *reason(int error)
{
	return error ? strerror(error) : "injected fault";
}

/* A fault is told by the log alone: the caller goes on without a segment. */
static bool faulty(const char *site)
{
	struct kilni_error_record before;
	bool faulty;

	kilni_error_save(&before);
	faulty = KILNI_FAULT(site) != KILN_OK;
	kilni_error_restore(&before);
	if (faulty)
		errno = 0;
	return faulty;
}

static void tell(const char *step)
{
	int error = errno;
	struct statvfs fs;
	unsigned long long available = 0;

	if (self.told)
		return;
	self.told = true;
	if (!statvfs(kilni_segment_folder(), &fs))
		available = (unsigned long long)fs.f_bavail * fs.f_frsize;
	kilni_log(KILNI_LOG_WARN,
		  "pools are not published: %s: %s: %s (needed %zu bytes, "
		  "available %llu)",
		  self.path, step, reason(error), sizeof(struct kilni_segment),
		  available);
}

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool choose_path(void)
{
	struct kilni_segment_name name = { .uid = geteuid(),
					   .pid = (uint64_t)getpid() };
	char text[KILNI_SEGMENT_NAME];
	int length;

	/* The name need not be secret, only new: O_EXCL does the rest. */
	if (getrandom(&name.random, sizeof(name.random), GRND_NONBLOCK) !=
	    sizeof(name.random))
		name.random = wall_ns() ^ (uintptr_t)&name;
	kilni_segment_format(text, sizeof(text), &name);
	length = snprintf(self.path, sizeof(self.path), "%s/%s",
			  kilni_segment_folder(), text);
	if (length > 0 && (size_t)length < sizeof(self.path))
		return true;
	errno = ENAMETOOLONG;
	tell("name");
	return false;
}

/* A file above this limit would cost the process a signal. */
static bool is_above_limit(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) &&
	       limit.rlim_cur < sizeof(struct kilni_segment);
}

/* Takes all of the file's space now, so that no access can fail later. */
static bool take_space(int fd)
{
	int error;

	if (faulty("segment_space"))
		return false;
	if (is_above_limit()) {
		errno = EFBIG;
		return false;
	}
	do
		error = posix_fallocate(fd, 0, sizeof(struct kilni_segment));
	while (error == EINTR);
	errno = error;
	return !error;
}

static struct kilni_segment *map_file(int fd)
{
	size_t bytes = sizeof(struct kilni_segment);
	void *map;

	if (faulty("segment_map"))
		return NULL;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (!madvise(map, bytes, MADV_DONTFORK))
		return map;
	munmap(map, bytes);
	return NULL;
}

/*
 * Copies into the mapping by way of the system. Where somebody has cut the file
 * short a store would cost the process SIGBUS; this fails. Whoever forbids the
 * call gets stores. Calls come in order to whoever reads the file.
 */
static bool put(void *to, const void *from, size_t bytes)
{
	struct iovec source = { (void *)(uintptr_t)from, bytes };
	struct iovec target = { to, bytes };
	ssize_t done = process_vm_writev(getpid(), &source, 1, &target, 1, 0);

	if (done < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy(to, from, bytes);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return true;
	}
	if (done >= 0 && (size_t)done < bytes)
		errno = EFAULT;
	return done >= 0 && (size_t)done == bytes;
}

static bool write_head(struct kilni_segment *map)
{
	struct kilni_segment_head head = {
		.version = KILNI_SEGMENT_VERSION,
		.cells = KILNI_SEGMENT_CELLS,
		.bytes = sizeof(*map),
		.snapshot_bytes = sizeof(map->snapshot[0]),
		.pid = (uint64_t)getpid(),
		.started_ns = wall_ns(),
	};
	const uint64_t magic = KILNI_SEGMENT_MAGIC;

	snprintf(head.program, sizeof(head.program), "%s",
		 program_invocation_short_name);
	return put(&map->head, &head, sizeof(head)) &&
	       put(&map->head.magic, &magic, sizeof(magic));
}

/* A sweep may have found the file between its making and its lock. */
static bool lost_to_sweep(int fd)
{
	struct stat stat;

	return !fstat(fd, &stat) && !stat.st_nlink;
}

/* Without its lock a segment would be swept. */
static bool take_lock(int fd)
{
	return !faulty("segment_lock") && kilni_segment_lock(fd);
}

/* Lock, space and mapping; step says how far it came. */
static struct kilni_segment *try_file(int fd, const char **step)
{
	*step = "lock";
	if (!take_lock(fd))
		return NULL;
	*step = "space";
	if (!take_space(fd))
		return NULL;
	*step = "map";
	return map_file(fd);
}

/*
 * Makes a file of the chosen name into the segment. Once it is mapped the
 * descriptor is not needed any more: the mapping keeps lock and file.
 */
static bool make_segment(bool *again)
{
	const char *step = "open";
	int fd = -1, error;

	*again = false;
	if (!faulty("segment_open"))
		fd = open(self.path,
			  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  S_IRUSR | S_IWUSR);
	if (fd < 0) {
		*again = errno == EEXIST;
		if (!*again)
			tell(step);
		return false;
	}
	self.map = try_file(fd, &step);
	error = errno;
	*again = lost_to_sweep(fd);
	if (self.map && *again) {
		munmap(self.map, sizeof(*self.map));
		self.map = NULL;
	}
	if (!self.map)
		unlink(self.path);
	/* A sweep holds the lock before it removes the name. */
	*again = *again || (!self.map && (error == EAGAIN || error == EACCES));
	if (!self.map && !*again) {
		errno = error;
		tell(step);
	}
	close(fd);
	return self.map;
}

static void drop_segment(void)
{
	if (__atomic_exchange_n(&self.named, 0, __ATOMIC_ACQUIRE))
		unlink(self.path);
	if (self.map)
		munmap(self.map, sizeof(*self.map));
	self.map = NULL;
}

/* It was cut short, or its space is gone; this process goes on without. */
static void lose_segment(void)
{
	tell("write, was it cut short?");
	drop_segment();
}

static bool make(void)
{
	bool again = true;

	kilni_segment_sweep();
	for (int i = 0; again && i < TRIES; i++) {
		if (!choose_path())
			return false;
		if (!make_segment(&again))
			continue;
		self.maker = getpid();
		self.seq = 0;
		__atomic_store_n(&self.named, 1, __ATOMIC_RELEASE);
		if (!write_head(self.map))
			lose_segment();
		return self.map;
	}
	if (again) {
		errno = EEXIST;
		tell("name");
	}
	return false;
}

/* ---- parts ---- */

bool kilni_segment_join(struct kilni_publication *part)
{
	struct kilni_publication **end = &self.parts;
	bool joined;

	pthread_mutex_lock(&self.lock);
	joined = self.map || make();
	if (joined) {
		while (*end)
			end = &(*end)->next;
		*end = part;
	}
	pthread_mutex_unlock(&self.lock);
	return joined;
}

/* Copies a part behind the ones before it, as far as there is room. */
static void add_part(struct kilni_segment_snapshot *to,
		     const struct kilni_publication *part)
{
	uint64_t pools = kilni_min_u64(part->pools,
				       KILNI_SEGMENT_POOLS - to->pools);
	uint64_t pages = kilni_min_u64(part->pages,
				       KILNI_SEGMENT_PAGES - to->pages);
	struct kilni_segment_device *device;

	if (to->devices == KILNI_SEGMENT_DEVICES) {
		to->devices_left_out++;
		return;
	}
	/* A page says which pool it is of: not of one that is not there. */
	if (pools < part->pools)
		pages = 0;
	device = &to->device[to->devices++];
	*device = part->device;
	device->first_pool = to->pools;
	device->pools = (uint32_t)pools;
	device->first_page = to->pages;
	device->pages = (uint32_t)pages;
	device->pages_left_out += part->pages - pages;
	memcpy(&to->pool[to->pools], part->pool,
	       (size_t)pools * sizeof(to->pool[0]));
	memcpy(&to->page[to->pages], part->page,
	       (size_t)pages * sizeof(to->page[0]));
	to->pools += device->pools;
	to->pages += device->pages;
	to->pools_left_out += part->pools - device->pools;
}

static void gather(struct kilni_segment_snapshot *to)
{
	const struct kilni_publication *part;

	to->devices = to->pools = to->pages = 0;
	to->devices_left_out = to->pools_left_out = 0;
	to->spare = 0;
	to->taken_ns = wall_ns();
	for (part = self.parts; part; part = part->next)
		add_part(to, part);
	to->bytes = offsetof(struct kilni_segment_snapshot, page) +
		    to->pages * sizeof(to->page[0]);
}

/* The segment may be gone afterwards. */
static void write_snapshot(void)
{
	struct kilni_segment_snapshot *draft = &self.draft, *to;
	uint64_t seq = self.seq + 1;

	to = &self.map->snapshot[seq & 1];
	draft->seq = 0;
	gather(draft);
	draft->checksum = kilni_segment_sum(draft);
	if (put(&to->seq, &draft->seq, sizeof(draft->seq)) &&
	    put(to, draft, draft->bytes) &&
	    put(&to->seq, &seq, sizeof(seq)))
		self.seq = seq;
	else
		lose_segment();
}

void kilni_segment_leave(struct kilni_publication *part)
{
	struct kilni_publication **link = &self.parts;

	pthread_mutex_lock(&self.lock);
	while (*link && *link != part)
		link = &(*link)->next;
	/* In a forked child the list is its own, and the part is not on it. */
	if (*link) {
		*link = part->next;
		if (!self.parts)
			drop_segment();
		else if (self.map)
			write_snapshot();
	}
	pthread_mutex_unlock(&self.lock);
}

/* Of this thread alone: a writer that was held up did not cost more. */
static uint64_t busy_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void kilni_segment_update(struct kilni_publication *part,
			  void (*fill)(struct kilni_publication *part,
				       void *pools),
			  void *pools)
{
	uint64_t start, rest;

	if (pthread_mutex_trylock(&self.lock))
		return;
	start = busy_ns();
	if (self.map && self.maker == getpid()) {
		fill(part, pools);
		part->device.taken_ns = wall_ns();
		write_snapshot();
	}
	rest = kilni_min_u64(KILNI_PUBLISH_SHARE * (busy_ns() - start),
			     KILNI_PUBLISH_LONGEST_NS);
	__atomic_store_n(&part->due_ns, kilni_now_ns() + rest,
			 __ATOMIC_RELAXED);
	pthread_mutex_unlock(&self.lock);
}
