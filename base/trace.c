/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The file grows by so much at a time. */
#define STEP (16 * (uint64_t)KILNI_TRACE_BLOCK)
/* Blocks that ended threads have left. */
#define LEFT_MOST 64

#define STOPPED_BY_LIMIT (-1)

int kilni_trace_on;

/* A thread's block; what another process began is none. */
struct block {
	struct kilni_trace_record *start, *next, *end;
	unsigned epoch;
	uint32_t thread;
};

static _Thread_local struct block mine
	__attribute__((tls_model("initial-exec")));

/* The process's file, under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct kilni_trace_head *head; /* NULL: not made in this process */
	unsigned epoch;
	int fd;
	dev_t device;      /* whose number and inode the descriptor should have */
	ino_t inode;
	uint64_t bytes, granted;
	unsigned left;
	struct block leaves[LEFT_MOST];
} file;

static uint64_t limit_bytes = 64u << 20;
static const char *(*op_name)(unsigned op);
static unsigned op_count;
static uint32_t last_number;           /* atomic */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

/* ---- the file ---- */

static void stop(int reason)
{
	__atomic_store_n(&kilni_trace_on, 0, __ATOMIC_RELAXED);
	if (file.head)
		__atomic_store_n(&file.head->stopped, reason, __ATOMIC_RELEASE);
	kilni_log(KILNI_LOG_WARN, "the trace ends here: %s",
		  reason == STOPPED_BY_LIMIT ? "KILN_TRACE_LIMIT"
					     : strerror(reason));
}

/*
 * The program may close what it has not opened, as those do that go into the
 * background, and the number is then that of a file of its own.
 */
static bool is_ours(void)
{
	struct stat about;

	return !fstat(file.fd, &about) && about.st_dev == file.device &&
	       about.st_ino == file.inode;
}

static void close_file(void)
{
	if (is_ours())
		close(file.fd);
	file.fd = -1;
}

/*
 * Of this process, its name in path; a number more where that is taken, as
 * after exec. 0 or errno.
 */
static int create_file(char path[PATH_MAX])
{
	const char *prefix = kilni_option_text(KILNI_OPT_TRACE);
	struct stat about;
	int length;

	if (!prefix)
		return ENOENT;
	file.fd = -1;
	for (unsigned i = 0; i < 1000 && file.fd < 0; i++) {
		length = snprintf(path, PATH_MAX, "%s.%ld.%u", prefix,
				  (long)getpid(), i);
		if (length < 0 || length >= PATH_MAX)
			return ENAMETOOLONG;
		file.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			       0600);
		if (file.fd < 0 && errno != EEXIST)
			return errno;
	}
	if (file.fd < 0)
		return EEXIST;
	if (fstat(file.fd, &about))
		return errno;
	file.device = about.st_dev;
	file.inode = about.st_ino;
	return 0;
}

/* Space up to bytes; 0 or errno. A limit is looked at: beyond it is a signal. */
static int grant_upto(uint64_t bytes)
{
	struct rlimit most;
	int error;

	if (!getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur < bytes)
		return EFBIG;
	do
		error = posix_fallocate(file.fd, (off_t)file.granted,
					(off_t)(bytes - file.granted));
	while (error == EINTR);
	if (!error)
		file.granted = bytes;
	return error;
}

/* Some more than is needed, where there is room for it. */
static int grant(uint64_t bytes)
{
	if (bytes <= file.granted || !grant_upto(file.granted + STEP))
		return 0;
	return grant_upto(bytes);
}

/* The next block of the file; NULL with its reason. */
static void *map_block(int *reason)
{
	uint64_t end = file.bytes + KILNI_TRACE_BLOCK;
	void *place;

	if (end > limit_bytes)
		*reason = STOPPED_BY_LIMIT;
	else
		*reason = is_ours() ? grant(end) : EBADF;
	if (*reason)
		return NULL;
	place = mmap(NULL, KILNI_TRACE_BLOCK, PROT_READ | PROT_WRITE,
		     MAP_SHARED, file.fd, (off_t)file.bytes);
	if (place == MAP_FAILED) {
		*reason = errno;
		return NULL;
	}
	file.bytes = end;
	return place;
}

static void fill_head(struct kilni_trace_head *head)
{
	head->version = KILNI_TRACE_VERSION;
	head->record_bytes = sizeof(struct kilni_trace_record);
	head->process = getpid();
	head->started_ns = kilni_now_ns();
	head->limit_bytes = limit_bytes;
	snprintf(head->program, sizeof(head->program), "%s",
		 program_invocation_short_name);
	head->ops = op_count < KILNI_TRACE_OPS ? op_count : KILNI_TRACE_OPS;
	for (unsigned i = 0; i < head->ops; i++)
		snprintf(head->op[i], sizeof(head->op[i]), "%s", op_name(i));
	__atomic_store_n(&head->magic, KILNI_TRACE_MAGIC, __ATOMIC_RELEASE);
}

/* Makes the file where this process has none; 0 or the reason. */
static int open_file(void)
{
	char path[PATH_MAX];
	int reason;

	if (file.head && file.epoch == kilni_fork_epoch)
		return 0;
	/* A child leaves its parent's alone. */
	if (file.head) {
		munmap(file.head, KILNI_TRACE_BLOCK);
		close_file();
	}
	memset(&file, 0, sizeof(file));
	file.epoch = kilni_fork_epoch;
	reason = create_file(path);
	if (reason)
		return reason;
	file.head = map_block(&reason);
	if (file.head) {
		fill_head(file.head);
	} else {
		/* Nothing is in it. */
		unlink(path);
		close_file();
	}
	return reason;
}

/* ---- blocks ---- */

static bool take_left(struct block *block)
{
	if (!file.left)
		return false;
	*block = file.leaves[--file.left];
	return true;
}

/* Gives the calling thread a block; false: the trace has ended. */
static bool take_block(void)
{
	struct block taken = { 0 };
	int reason;

	if (mine.start)
		munmap(mine.start, KILNI_TRACE_BLOCK);
	memset(&mine, 0, sizeof(mine));
	pthread_mutex_lock(&lock);
	reason = open_file();
	if (!reason && !take_left(&taken)) {
		taken.start = map_block(&reason);
		taken.next = taken.start;
		if (taken.start)
			taken.end = taken.start +
				    KILNI_TRACE_BLOCK / sizeof(*taken.start);
	}
	if (reason && kilni_is_traced())
		stop(reason);
	pthread_mutex_unlock(&lock);
	if (reason)
		return false;
	taken.epoch = kilni_fork_epoch;
	taken.thread = (uint32_t)syscall(SYS_gettid);
	mine = taken;
	/* So that what is left of it goes to the next thread. */
	(void)pthread_setspecific(key, &mine);
	return true;
}

static void leave_block(void *arg)
{
	struct block *block = arg;

	pthread_mutex_lock(&lock);
	if (block->epoch == kilni_fork_epoch && block->next < block->end &&
	    file.left < LEFT_MOST)
		file.leaves[file.left++] = *block;
	else
		munmap(block->start, KILNI_TRACE_BLOCK);
	pthread_mutex_unlock(&lock);
	memset(block, 0, sizeof(*block));
}

/* ---- writing ---- */

void kilni_trace_write(enum kilni_trace_kind kind,
		       const struct kilni_trace_record *record)
{
	struct kilni_trace_record *to;

	if (KILNI_UNLIKELY(mine.next == mine.end ||
			   mine.epoch != kilni_fork_epoch) &&
	    !take_block())
		return;
	to = mine.next++;
	memcpy((char *)to + 2, (const char *)record + 2, sizeof(*to) - 2);
	to->thread = mine.thread;
	to->flags = record->flags;
	__atomic_store_n(&to->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}

uint32_t kilni_trace_name(const char *format, ...)
{
	struct kilni_trace_record record = { .op = 0 };
	va_list args;

	record.stream = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
	if (!kilni_is_traced())
		return record.stream;
	va_start(args, format);
	vsnprintf(record.of.name, sizeof(record.of.name), format, args);
	va_end(args);
	record.begin_ns = record.end_ns = kilni_now_ns();
	kilni_trace_write(KILNI_TRACE_STREAM, &record);
	return record.stream;
}

/* ---- starting ---- */

static void lock_file(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_file(void)
{
	pthread_mutex_unlock(&lock);
}

/* What ended the parent's trace may not end that of its child. */
static void unlock_in_child(void)
{
	if (file.head)
		__atomic_store_n(&kilni_trace_on, 1, __ATOMIC_RELAXED);
	unlock_file();
}

void kilni_trace_fork_watch(void)
{
	pthread_atfork(lock_file, unlock_file, unlock_in_child);
}

static void start(void)
{
	int reason;

	/* A malformed value was refused when the device was opened. */
	(void)!kilni_option_number(KILNI_OPT_TRACE_LIMIT, &limit_bytes);
	if (pthread_key_create(&key, leave_block)) {
		kilni_log(KILNI_LOG_WARN, "no trace: no thread key");
		return;
	}
	pthread_mutex_lock(&lock);
	reason = open_file();
	pthread_mutex_unlock(&lock);
	if (reason)
		kilni_log(KILNI_LOG_WARN, "no trace: KILN_TRACE %s: %s",
			  kilni_option_text(KILNI_OPT_TRACE),
			  reason == STOPPED_BY_LIMIT ? "KILN_TRACE_LIMIT"
						     : strerror(reason));
	else
		__atomic_store_n(&kilni_trace_on, 1, __ATOMIC_RELEASE);
}

void kilni_trace_op(unsigned op, const char *name)
{
	if (!kilni_is_traced())
		return;
	pthread_mutex_lock(&lock);
	if (file.head && file.epoch == kilni_fork_epoch &&
	    op < file.head->ops)
		snprintf(file.head->op[op], sizeof(file.head->op[op]), "%s",
			 name);
	pthread_mutex_unlock(&lock);
}

void kilni_trace_start(const char *(*name)(unsigned op), unsigned ops)
{
	if (!kilni_option_text(KILNI_OPT_TRACE))
		return;
	pthread_mutex_lock(&lock);
	op_name = name;
	op_count = ops;
	pthread_mutex_unlock(&lock);
	pthread_once(&once, start);
}
