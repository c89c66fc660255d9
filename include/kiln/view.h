/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_VIEW_H
#define KILN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/pool.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * The pools of another process, or of this one, seen from outside. A process
 * that has a device open publishes them in a file /dev/shm/kiln-UID-PID-RANDOM
 * unless KILN_POOL_PUBLISH is 0. Reading asks nothing of that process: it may
 * be stopped, or stuck, and never waits for a reader.
 *
 * A snapshot is taken when the process allocates, takes or gives back pages, or
 * waits for work, but so seldom that it costs a thousandth of a thread's time.
 * It shows the state of at most 128 allocations and one second before that
 * process last allocated or waited, and as a rule a tenth of that.
 *
 * What a segment holds is checked like any input. Sizes are in bytes.
 */

/* Who publishes. */
struct kiln_view_process {
	size_t struct_size;      /* set by the caller: sizeof */
	char segment[64];        /* name of the file, without its folder */
	uint64_t pid;            /* as the process itself sees it */
	uint64_t uid;            /* owner of the file */
	char program[64];        /* any bytes */
	bool live;               /* false: it has ended since */
	uint64_t devices;        /* in this snapshot */
	uint64_t devices_left_out; /* there was no room for them */
	uint64_t live_bytes;     /* sums over the devices */
	uint64_t reserved_bytes;
	uint64_t snapshot;       /* number of the snapshot, from 1 */
	uint64_t age_ns;         /* time since it was taken */
	uint64_t started_ns;     /* when publishing began, Unix time */
	enum kiln_status status; /* why there is nothing to read, or KILN_OK */
	int native;              /* the errno behind it: EACCES, ... */
	char reason[192];        /* the same in words */
};

/* One of its devices. */
struct kiln_view_device {
	size_t struct_size;      /* set by the caller: sizeof */
	char selector[64];
	uint64_t age_ns;         /* time since these figures were taken */
	uint64_t cap_bytes;      /* 0: none */
	uint64_t allocations;
	uint64_t live_bytes;
	uint64_t cached_bytes;
	uint64_t padding_bytes;
	uint64_t reserved_bytes;
	uint64_t peak_live_bytes;
	uint64_t peak_reserved_bytes;
	uint64_t driver_calls;
	uint64_t pools;          /* in this snapshot */
	uint64_t pages;
	uint64_t pages_left_out; /* there was no room for them */
};

/* One of a device's pools. */
struct kiln_view_pool {
	size_t struct_size;      /* set by the caller: sizeof */
	enum kiln_pool_kind kind;
	bool mapped;             /* slices lie in a range of addresses */
	uint64_t page_bytes;     /* 0 where pages differ or there are none */
	uint64_t max_slice_bytes;
	uint64_t pages;
	uint64_t peak_pages;
	uint64_t allocations;
	uint64_t live_bytes;
	uint64_t cached_bytes;
	uint64_t padding_bytes;
	uint64_t reserved_bytes;
	uint64_t largest_request_bytes;
};

/* Shares of a piece of a page; together 1. */
struct kiln_view_cell {
	float live, cached, padding, unmapped;
};

#define KILN_VIEW_CELLS 64

/*
 * One of a device's pages. Where the driver maps memory into a range of
 * addresses, pieces of that range, of equal size, stand for pages; those in
 * which there is nothing are left out. A hole may reach beyond its piece.
 */
struct kiln_view_page {
	size_t struct_size;      /* set by the caller: sizeof */
	uint64_t pool;           /* its pool's number in the device */
	uint64_t address;
	uint64_t bytes;
	bool seen;               /* false: there was no time to look at it, */
				 /* and all that follows is 0 */
	bool old;                /* what follows is from an earlier snapshot */
	uint64_t live_bytes;
	uint64_t cached_bytes;
	uint64_t padding_bytes;
	uint64_t unmapped_bytes; /* addresses without memory, or with a page */
				 /* that is listed by itself */
	uint64_t slices;         /* live ones */
	uint64_t hole_address;   /* largest free range, */
	uint64_t hole_bytes;     /* or 0 */
	unsigned cells;          /* so many are set */
	struct kiln_view_cell cell[KILN_VIEW_CELLS]; /* equal pieces, in order */
};

struct kiln_view;

/**
 * kiln_view_enumerate - the processes that publish their pools
 * @infos: array of *count elements, each with struct_size set, or NULL
 * @count: in: capacity; out: number of processes
 *
 * In order of process number. A segment that cannot be read (of another user,
 * of another version, damaged, named as another process's than it says itself)
 * is listed with the reason and what its name says. Segments of the calling
 * user whose process has ended are removed first. A folder that is not there
 * holds none.
 * KILN_ERR_INVALID, KILN_ERR_NO_MEMORY, KILN_ERR_IO: the folder cannot be
 * read. Thread-safe, does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_enumerate(struct kiln_view_process *infos, size_t *count);

/**
 * kiln_view_open - attaches to a process's pools and takes a first snapshot
 * @out: NULL or a view, which is released
 * @segment: name from kiln_view_enumerate
 *
 * The view belongs to the caller and is for one thread at a time.
 * KILN_ERR_INVALID: NULL, no name of a segment, or *out is no view.
 * KILN_ERR_IO: it cannot be opened (kiln_error_native has the errno; EACCES:
 * another user's), is none, is damaged, or says that it is of another process
 * than its name does. KILN_ERR_UNSUPPORTED: of another version, which is named.
 * KILN_ERR_BUSY: no whole snapshot was found, as before the first one.
 * KILN_ERR_FORKED: *out was made before a fork. KILN_ERR_NO_MEMORY. Does not
 * block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_open(struct kiln_view **out, const char *segment);

/**
 * kiln_view_refresh - takes the newest snapshot
 *
 * On failure the view keeps the one that it has. The last snapshot of a
 * process that has ended can still be taken; kiln_view_process says so.
 * KILN_ERR_INVALID, KILN_ERR_IO, KILN_ERR_BUSY: as for kiln_view_open.
 * KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_refresh(struct kiln_view *view);

/**
 * kiln_view_process - whose pools the view shows, and how old they are
 *
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_process(const struct kiln_view *view,
		  struct kiln_view_process *process);

/**
 * kiln_view_device - one of the devices in the snapshot
 * @device: from 0
 *
 * KILN_ERR_INVALID: also where there is none of that number.
 * KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_device(const struct kiln_view *view, size_t device,
		 struct kiln_view_device *info);

/**
 * kiln_view_pool - one of a device's pools
 *
 * In the order of kiln_memory_pools(), then of kiln_memory_special_pools().
 * KILN_ERR_INVALID: also where there is none of that number.
 * KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_pool(const struct kiln_view *view, size_t device, size_t pool,
	       struct kiln_view_pool *info);

/**
 * kiln_view_page - one of a device's pages, by pool and then by address
 *
 * KILN_ERR_INVALID: also where there is none of that number.
 * KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_view_page(const struct kiln_view *view, size_t device, size_t page,
	       struct kiln_view_page *info);

/** kiln_view_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_view *kiln_view_retain(struct kiln_view *view);

/** kiln_view_release - gives one reference back; NULL is allowed */
KILN_API void kiln_view_release(struct kiln_view *view);

KILN_END_DECLS

#endif
