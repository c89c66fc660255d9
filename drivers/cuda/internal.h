/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_INTERNAL_H
#define KILNI_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/cuda/api.h"
#include "drivers/cuda/module.h"
#include "drivers/driver.h"
#include "drivers/staging.h"

/*
 * The CUDA driver. A queue is a stream. Whoever submits launches the kernels
 * himself; an attendant thread per device, started when it is first needed,
 * makes the calls that entries ask for and takes up queues that had to stop
 * for the host.
 */

struct kilni_cuda_queue;

/* Host memory that was pinned for its owner; copies of it need no staging. */
struct kilni_cuda_pinned {
	struct kilni_cuda_pinned *next;
	char *memory;
	uint64_t bytes;
	unsigned users;        /* copies; under the pins' lock */
	void (*gone)(void *memory);
};

/* Pinned memory through which copies travel, and the stream that has them. */
struct kilni_cuda_staging {
	struct kilni_staging lanes;
	cu_stream stream;      /* with the lock of the lanes */
	cu_event done[KILNI_STAGING_LANES];

	pthread_mutex_t pins;  /* for a moment, never for a copy */
	pthread_cond_t pins_left; /* some range is not used any more */
	struct kilni_cuda_pinned *pinned;
	struct kilni_cuda_pinned *left; /* given back when it was lost */
};

struct kilni_cuda_attendant {
	pthread_t thread;
	bool started, stop;
	pthread_cond_t wanted;
	struct kilni_cuda_queue *first, **last;
};

/* So many streams at a time hand kernels over together (rack.c). */
#define KILNI_CUDA_RACKS 16

struct kilni_cuda_racks {
	pthread_mutex_t lock;
	bool refused;          /* atomic: one by one from now on */
	unsigned rests;        /* so many takers get none: memory was short */
	unsigned count;
	unsigned looked_at;    /* those in use, where none was to be had */
	struct kilni_cuda_rack *rack[KILNI_CUDA_RACKS];
};

struct kilni_cuda_hw {
	struct kilni_hw base;
	unsigned epoch;        /* of the process that opened it */
	cu_device device;
	cu_context context;
	unsigned multiprocessors;
	unsigned capability;   /* 10 * major + minor */
	bool writes;           /* streams can write 64-bit words */
	bool batches;          /* kernels are launched together */
	uint64_t spin_ns;
	uint64_t mark_every;   /* entries from one mark to the next, at most */
	struct kilni_memory_limits limits;
	char explain[256];
	int lost;              /* atomic: the result that broke it, or 0 */

	pthread_mutex_t lock;  /* of the queues' states and lists */
	pthread_cond_t moved;  /* some queue has been marked, or is idle */
	struct kilni_cuda_queue *dead; /* what others may still look at */
	struct kilni_cuda_attendant attendant;
	struct kilni_cuda_staging staging;
	struct kilni_cuda_modules modules;
	struct kilni_cuda_racks racks;
};

static inline struct kilni_cuda_hw *kilni_cuda_hw(const struct kilni_hw *hw)
{
	return (struct kilni_cuda_hw *)(uintptr_t)hw;
}

/* ---- cuda.c ---- */

/* Makes the device's context current; what was current comes back. */
enum kiln_status kilni_cuda_enter(struct kilni_cuda_hw *hw);
void kilni_cuda_leave(void);

static inline bool kilni_cuda_is_lost(const struct kilni_cuda_hw *hw)
{
	return KILNI_UNLIKELY(
		__atomic_load_n(&hw->lost, __ATOMIC_ACQUIRE) != 0);
}

/* Notes what a sticky result means for the device; returns result. */
int kilni_cuda_note(struct kilni_cuda_hw *hw, int result);

/* KILN_OK, or what kilni_cuda_note and kilni_cuda_fail make of it. */
enum kiln_status kilni_cuda_check(struct kilni_cuda_hw *hw, int result,
				  const char *what);

/* KILN_ERR_DEVICE_LOST where the device is lost. */
enum kiln_status kilni_cuda_alive(const struct kilni_cuda_hw *hw);

/* ---- memory.c ---- */

enum kiln_status kilni_cuda_staging_init(struct kilni_cuda_hw *hw);
void kilni_cuda_staging_fini(struct kilni_cuda_hw *hw);
/* What was pinned when the device was lost; its context has been given back. */
void kilni_cuda_pins_fini(struct kilni_cuda_hw *hw);
/* Fills the limits. */
void kilni_cuda_memory_init(struct kilni_cuda_hw *hw, uint64_t total_bytes);

extern const struct kilni_memory_ops kilni_cuda_memory_ops;

/* ---- launch.c ---- */

struct kilni_cuda_graph;
struct kilni_cuda_batch;

/* Where launches go: into graph or batch where there is one, else the stream. */
struct kilni_cuda_target {
	struct kilni_cuda_hw *hw;
	cu_stream stream;
	struct kilni_cuda_graph *graph;
	struct kilni_cuda_batch *batch;
};

/* Launches the kernels of an entry; none for one without elements. */
enum kiln_status kilni_cuda_launch(const struct kilni_cuda_target *to,
				   struct kilni_entry *entry);
/* With one argument, of so many bytes. */
enum kiln_status kilni_cuda_start(const struct kilni_cuda_target *to,
				  struct cu_kernel *kernel,
				  size_t params_bytes);
uint64_t kilni_cuda_workspace(const struct kilni_hw *hw,
			      enum kilni_kernel kernel, const void *params);
bool kilni_cuda_has(const struct kilni_hw *hw, enum kilni_kernel kernel);

/* ---- rack.c; the rest of it is in rack.h ---- */

/* With or without the context. */
void kilni_cuda_racks_free(struct kilni_cuda_hw *hw, bool entered);

/* ---- batch.c; the rest of it is in queue.h ---- */

/* Keeps a kernel, with a copy of its argument. */
void kilni_cuda_batch_put(struct kilni_cuda_batch *batch,
			  const struct cu_kernel *kernel, size_t params_bytes);
/* Puts it on the stream; failures are noted in the entries. NULL is nothing. */
void kilni_cuda_batch_flush(struct kilni_cuda_batch *batch);

/* ---- image.c ---- */

/* Whether the source's kind is one of these, and whole. image ends with 0. */
enum kiln_status
kilni_cuda_image_check(const struct kilni_program_source *source,
		       const char *image);

/* ---- program.c: kernels of the program's own ---- */

enum kiln_status
kilni_cuda_program_load(struct kilni_hw *hw,
			const struct kilni_program_source *source,
			struct kilni_program **out);
void kilni_cuda_program_unload(struct kilni_hw *hw,
			       struct kilni_program *program);
/* With the context current. */
enum kiln_status kilni_cuda_program_run(const struct kilni_cuda_target *to,
					struct kilni_custom_params *params);

/* ---- queue.c; what its parts share is in queue.h ---- */

enum kilni_cuda_state {
	KILNI_CUDA_IDLE,       /* all that was submitted is on the stream */
	KILNI_CUDA_BUSY,       /* a thread puts entries on the stream */
	KILNI_CUDA_MARKING,    /* idle but for a thread that marks it */
	KILNI_CUDA_HELD        /* another queue, a gate or the attendant */
};

/* An event behind the entries up to seq. */
struct kilni_cuda_mark {
	struct kilni_cuda_mark *next;
	cu_event event;
	uint64_t seq;
	unsigned users;        /* of the event, who do not hold the lock */
};

/* An event that has a time. */
struct kilni_cuda_time {
	struct kilni_cuda_time *next;
	cu_event event;
};

/* A report as kernels see it, in pinned memory. */
struct kilni_cuda_report {
	uint64_t position;
	int64_t value, bound;
	uint64_t reserved;
};

#define KILNI_CUDA_REPORTS 256

/* Whether the kernel writes into a report. */
static inline bool kilni_cuda_reports(const struct kilni_entry *entry)
{
	return entry->kernel == KILNI_KERNEL_GATHER ||
	       entry->kernel == KILNI_KERNEL_SCATTER ||
	       entry->kernel == KILNI_KERNEL_CUSTOM;
}

struct kilni_cuda_queue {
	struct kilni_queue base;
	struct kilni_queue_client client;
	cu_stream stream;
	bool wrapped;          /* the stream is somebody else's */

	/* Under the device's lock. */
	enum kilni_cuda_state state;
	uint64_t submitted;
	uint64_t marked;       /* covered by a mark; also read without it */
	uint64_t wanted;       /* to be marked for a waiter; likewise */
	uint64_t unmarked;     /* issued, left without a mark; 0: none; likewise */
	uint64_t left_ns;      /* when that was; likewise */
	struct kilni_cuda_mark *pending, **pending_end, *spare;
	struct kilni_cuda_time *spare_time;
	struct kilni_cuda_queue *held, *next_held; /* by this one; with it */
	struct kilni_cuda_queue *held_by;
	uint64_t held_until;
	struct kilni_cuda_queue *next_call; /* in the attendant's list */
	bool called;           /* in that list, or with the attendant */

	/* Of the thread that has the queue. */
	struct kilni_chunk *chunk;
	unsigned slot;
	uint64_t issued;
	uint64_t upto;         /* what it has seen submitted */
	struct kilni_cuda_batch *batch; /* NULL: not made */
	uint64_t reports_taken;
	struct kilni_cuda_queue *next_run;
	struct kilni_cuda_queue *next_dead;
	int dead;              /* atomic: destroyed; its memory stays */
	struct kilni_gate_watch gate;

	/* What the device has done; pinned, written by the stream. */
	uint64_t *counter;
	struct kilni_cuda_report *reports;
	cu_address counter_address, reports_address;

	/* Retiring: one thread at a time, who has set retiring. */
	int retiring;          /* atomic */
	uint64_t retired;      /* atomic: what completed() tells */
	uint64_t notable;      /* atomic: last entry that has to be looked at */
	uint64_t reports_free; /* atomic: reports that are done with */
	struct kilni_chunk *old_chunk;
	unsigned old_slot;
	struct kilni_cuda_time *last_time; /* of the last stamp */
	uint64_t last_ns;
	uint64_t seen_ns;      /* when something was last seen to be done */
};

extern const struct kilni_queue_ops kilni_cuda_queue_ops;

/* Goes on with a queue whose state is BUSY. */
void kilni_cuda_queue_run(struct kilni_cuda_queue *queue);

/* Frees the queues that were destroyed, with the context current. */
void kilni_cuda_queues_free(struct kilni_cuda_hw *hw);
/* Tells the scheduler of what the device has done. */
void kilni_cuda_queue_retire(struct kilni_cuda_queue *queue);
/* Waits until all that is marked has retired, or the device is lost. */
void kilni_cuda_queue_settle(struct kilni_cuda_queue *queue);

/* ---- graph.c ---- */

enum kiln_status kilni_cuda_graph_create(struct kilni_hw *hw,
					 struct kilni_entry *const *entry,
					 unsigned count, void **out);
void kilni_cuda_graph_destroy(struct kilni_hw *hw, void *graph);

/* A node behind the last one, NULL at first, which it becomes; a result. */
int kilni_cuda_chain(cu_graph graph, cu_graph_node *last,
		     const struct cu_kernel *kernel);

/* A kernel more, or, once the graph can run, new parameters of one. */
enum kiln_status kilni_cuda_graph_put(struct kilni_cuda_graph *graph,
				      const struct cu_kernel *kernel);

/*
 * Whether as many replays are in flight as the graph can tell apart; then one
 * has to retire before the next launch.
 */
bool kilni_cuda_graph_is_full(const struct kilni_cuda_graph *graph);
/* Whether a kernel of it may find something. */
bool kilni_cuda_graph_reports(const struct kilni_cuda_graph *graph);
/* Puts a replay on the stream, with the context current. */
enum kiln_status kilni_cuda_graph_launch(struct kilni_cuda_graph *graph,
					 cu_stream stream,
					 struct kilni_entry *run);
/*
 * Retires the oldest replay that was launched: the first entry that found
 * something, with its report; NULL: none did. lost: nobody looks.
 */
const struct kilni_entry *
kilni_cuda_graph_found(struct kilni_cuda_graph *graph, bool lost,
		       struct kilni_cuda_report *report);
/* The graph's entry that this launch failed at, or the launch's own. */
const struct kilni_entry *
kilni_cuda_graph_blamed(const struct kilni_entry *run);

/* ---- clock.c ---- */

void kilni_cuda_issue_clock(struct kilni_cuda_queue *queue,
			    struct kilni_entry *entry);
/* Gives the stamp its state; done: the device has got there. */
void kilni_cuda_retire_clock(struct kilni_cuda_queue *queue,
			     const struct kilni_entry *entry, bool done);
/* With the context current. */
void kilni_cuda_times_free(struct kilni_cuda_queue *queue);
/* A kernel that is seen to be done. */
void kilni_cuda_trace_kernel(struct kilni_cuda_queue *queue,
			     const struct kilni_entry *entry,
			     uint64_t seen_ns);

/* ---- attendant.c ---- */

enum kiln_status kilni_cuda_attendant_init(struct kilni_cuda_hw *hw);
void kilni_cuda_attendant_fini(struct kilni_cuda_hw *hw);
/*
 * Leaves the queue, which is HELD, to the attendant: once what is marked has
 * retired it makes the entry's call, where it is one, and goes on. False: the
 * thread cannot be started.
 */
bool kilni_cuda_attend(struct kilni_cuda_queue *queue);

#endif
