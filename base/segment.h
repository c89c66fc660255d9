/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_SEGMENT_H
#define KILNI_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/stat.h>

/*
 * The shared-memory segment in which a process publishes its pools: what is
 * in it, what it is called, and how to tell whether its process still runs.
 * Writer (alloc/) and reader (lib/attach.c) have it from here and nowhere
 * else. Any change of the layout is a new version.
 *
 * A segment is a file of fixed size. Two snapshots are written in turn, so
 * that one is whole at every moment, also where the writer is stopped or dies
 * in the middle of the other. A snapshot's seq is 0 while it is written.
 *
 * The process holds a lock on the file's open description, which only its
 * mapping keeps: so the lock ends with the process and with nothing else, no
 * forked child has it (the mapping is not inherited), and process numbers,
 * which differ from container to container, mean nothing.
 */

#define KILNI_SEGMENT_MAGIC UINT64_C(0x6c6f6f706e6c696b)
#define KILNI_SEGMENT_VERSION 1

enum {
	KILNI_SEGMENT_DEVICES = 16,
	KILNI_SEGMENT_POOLS = 128,
	KILNI_SEGMENT_PAGES = 1024,
	KILNI_SEGMENT_CELLS = 64,
	KILNI_SEGMENT_NAME = 64,
	KILNI_SEGMENT_PATH = 256
};

/* A share of a page; what is neither of these is cached. */
struct kilni_segment_cell {
	uint8_t live, padding, unmapped; /* in 255ths of the cell */
};

enum kilni_segment_page_flags {
	/* There was no time to look: cells and bytes in use are unknown. */
	KILNI_SEGMENT_UNSEEN = 1,
	/* The same, but they are those of an earlier snapshot. */
	KILNI_SEGMENT_OLD = 2
};

struct kilni_segment_page {
	uint64_t address, bytes;
	uint64_t live_bytes, padding_bytes, unmapped_bytes;
	uint64_t hole_address, hole_bytes; /* the largest one */
	uint32_t slices;
	uint16_t pool;                     /* number within the device */
	uint8_t flags;
	uint8_t cells;                     /* so many are in use */
	struct kilni_segment_cell cell[KILNI_SEGMENT_CELLS];
};

struct kilni_segment_pool {
	uint32_t kind;                     /* enum kiln_pool_kind */
	uint32_t mapped;                   /* in a range of addresses */
	uint64_t page_bytes;               /* 0 where pages differ */
	uint64_t max_slice_bytes;
	uint64_t pages, peak_pages;
	uint64_t allocations;
	uint64_t live_bytes, padding_bytes, reserved_bytes;
	uint64_t largest_request_bytes;
};

struct kilni_segment_device {
	char selector[64];
	uint64_t taken_ns;                 /* wall clock */
	uint64_t cap_bytes;                /* 0: none */
	uint64_t allocations;
	uint64_t live_bytes, padding_bytes, reserved_bytes;
	uint64_t peak_live_bytes, peak_reserved_bytes;
	uint64_t driver_calls;
	uint32_t first_pool, pools;
	uint32_t first_page, pages;
	uint64_t pages_left_out;           /* there was no room for them */
};

struct kilni_segment_snapshot {
	uint64_t seq;                      /* atomic */
	uint64_t checksum;                 /* of what follows, up to bytes */
	uint64_t bytes;                    /* of this struct that are in use */
	uint64_t taken_ns;                 /* wall clock */
	uint32_t devices, pools, pages;
	uint32_t devices_left_out, pools_left_out;
	uint32_t spare;
	struct kilni_segment_device device[KILNI_SEGMENT_DEVICES];
	struct kilni_segment_pool pool[KILNI_SEGMENT_POOLS];
	struct kilni_segment_page page[KILNI_SEGMENT_PAGES];
};

struct kilni_segment_head {
	uint64_t magic;                    /* atomic: written last */
	uint32_t version;
	uint32_t cells;
	uint64_t bytes;                    /* of the whole segment */
	uint64_t snapshot_bytes;
	uint64_t pid;                      /* as the process itself sees it */
	uint64_t started_ns;               /* wall clock: when it was made */
	char program[64];
	unsigned char spare[3984];         /* up to a page's boundary */
};

struct kilni_segment {
	struct kilni_segment_head head;
	struct kilni_segment_snapshot snapshot[2];
};

_Static_assert(sizeof(struct kilni_segment_page) ==
		       64 + 3 * KILNI_SEGMENT_CELLS, "no hidden padding");
_Static_assert(sizeof(struct kilni_segment_device) == 160,
	       "no hidden padding");
_Static_assert(sizeof(struct kilni_segment_head) == 4096,
	       "snapshots begin on a page of their own");
_Static_assert(sizeof(struct kilni_segment_snapshot) % 8 == 0,
	       "both snapshots are aligned");

/* Of the bytes at data, 8 to a step; the rest of the last step counts as 0. */
uint64_t kilni_segment_checksum(const void *data, size_t bytes);

/* Of a snapshot whose bytes field is at most its size. */
uint64_t kilni_segment_sum(const struct kilni_segment_snapshot *snapshot);

/* ---- names ---- */

/* A name is kiln-UID-PID-RANDOM, the last one 16 hexadecimal digits. */
struct kilni_segment_name {
	uint64_t uid, pid, random;
};

/* The folder: /dev/shm, or what KILN_SHM_DIR names. */
const char *kilni_segment_folder(void);

void kilni_segment_format(char *to, size_t size,
			  const struct kilni_segment_name *name);

/* Whether text is such a name and nothing else. */
bool kilni_segment_parse(const char *text, struct kilni_segment_name *name);

/* ---- files ---- */

/* Opens a segment for reading whatever lies there; -1 with errno. */
int kilni_segment_open(int folder, const char *name, struct stat *stat);

/* Whether a process holds its lock on the segment. */
bool kilni_segment_is_live(int fd);

/* Takes the lock without waiting; false: another one has it, or errno. */
bool kilni_segment_lock(int fd);

/*
 * Removes the calling user's segments on which nobody holds the lock. One
 * that is just being made survives: its maker looks whether it lost the race.
 * Returns how many have gone.
 */
unsigned kilni_segment_sweep(void);

#endif
