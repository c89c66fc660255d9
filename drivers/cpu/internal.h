/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_INTERNAL_H
#define KILNI_CPU_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/stream.h>

#include "drivers/cpu/place.h"
#include "drivers/driver.h"
#include "kernels/cpu/cpu.h"

/*
 * The CPU driver. Its threads form a gang: a worker that finds a queue ready
 * leads it for a while, which means that it runs the queue's entries in order,
 * and the idle ones help it with the large entries. Nobody else runs entries,
 * but for small ones that the caller runs himself (inline.c).
 */

#define KILNI_LINE 64          /* bytes of a cache line */

/* ---- the gang ---- */

/*
 * IDLE and READY are entered and left under the gang's lock. submit() looks
 * without it, having stored what it submitted; leave() looks at that again.
 */
enum kilni_queue_state {
	KILNI_QUEUE_IDLE,      /* all that was submitted has completed */
	KILNI_QUEUE_READY,     /* in the list */
	KILNI_QUEUE_LED,       /* a worker has it */
	KILNI_QUEUE_HELD       /* waits for another queue or for a gate */
};

struct kilni_gang;
struct kilni_cpu_queue;

/* A parallel loop that a leader shares. It is the worker's, used again. */
struct kilni_loop {
	struct kilni_team team; /* handed to kernels */
	struct kilni_gang *gang;
	bool wake;              /* worth waking sleepers for */
	void (*fn)(void *arg, uint64_t i);
	void *arg;
	uint64_t count;
	_Alignas(KILNI_LINE) uint64_t next; /* atomic: first i not taken */
	int open;               /* atomic: there may be more to take */
	uint32_t inside;        /* atomic, futex: helpers that look at it */
	int leader_sleeps;      /* atomic */
};

struct kilni_worker {
	struct kilni_loop loop;
	struct kilni_gang *gang;
	unsigned index;
	int cpu;                /* where it is pinned; -1: nowhere */
	pthread_t thread;
};

#define KILNI_PRIORITIES (KILN_PRIORITY_HIGH - KILN_PRIORITY_LOW + 1)

struct kilni_gang {
	unsigned width;
	uint64_t spin_ns;
	const struct kilni_cpu_kernels *kernels;
	pthread_mutex_t lock;   /* of the list of ready queues */
	struct kilni_ready {    /* a list for each priority, lowest first */
		struct kilni_cpu_queue *first, **last;
	} ready[KILNI_PRIORITIES];
	_Alignas(KILNI_LINE) unsigned ready_count; /* atomic, as what follows */
	unsigned ready_of[KILNI_PRIORITIES];
	unsigned open_loops;
	unsigned spinning;
	unsigned sleeping;
	uint32_t wake_word;     /* futex */
	int stop;
	struct kilni_worker *worker;
};

/*
 * Starts width threads; cpu holds where to pin each, or is NULL.
 * KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT (the system refuses a thread).
 */
enum kiln_status kilni_gang_create(struct kilni_gang **out, unsigned width,
				   const int *cpu, uint64_t spin_ns,
				   const struct kilni_cpu_kernels *kernels);
void kilni_gang_destroy(struct kilni_gang *gang);

/*
 * Puts a queue that is in state from at the end of the ready list and sees to
 * it that a worker comes; does nothing where it is in another.
 */
void kilni_gang_ready(struct kilni_cpu_queue *queue,
		      enum kilni_queue_state from);

/* Whether a queue is ready that goes before those of this priority. */
bool kilni_gang_prefers(struct kilni_gang *gang, unsigned priority);

/* Wakes sleepers so that, with those who spin, n will look for work. */
void kilni_gang_wake(struct kilni_gang *gang, unsigned n);

/*
 * Spins until there is work for an idle worker or, where queue is not NULL,
 * for its leader; false when the time is over.
 */
bool kilni_gang_spin(struct kilni_gang *gang,
		     const struct kilni_cpu_queue *queue);

/* ---- loops ---- */

void kilni_loop_init(struct kilni_loop *loop, struct kilni_gang *gang);

/* Takes part in some open loop; false where there is none. */
bool kilni_loop_help(struct kilni_gang *gang, unsigned self);

/* A team of one. */
extern struct kilni_team kilni_team_alone;

/* ---- queues ---- */

struct kilni_cpu_queue {
	struct kilni_queue base;
	struct kilni_gang *gang;
	struct kilni_queue_client client;
	unsigned priority;     /* from 0 */
	int state;             /* atomic: enum kilni_queue_state */
	int closing;           /* atomic: destroy() waits for the leader */
	struct kilni_cpu_queue *next_ready;

	/* Where the leader is; handed on under the gang's lock. */
	struct kilni_chunk *chunk;
	unsigned slot;         /* of the next entry; may be one too far */
	uint64_t done;

	/* Where this queue is held by another one. */
	struct kilni_cpu_queue *next_held;
	uint64_t held_until;
	struct kilni_gate_watch gate;

	_Alignas(KILNI_LINE) uint64_t submitted; /* atomic */

	_Alignas(KILNI_LINE) uint64_t completed; /* atomic */
	/*
	 * Atomic, written under lock: the least number that somebody waits
	 * for, a thread asleep on notice_word or a queue in the list held.
	 */
	uint64_t notice_at;
	uint32_t notice_word;  /* futex */
	pthread_mutex_t lock;
	struct kilni_cpu_queue *held;
};

extern const struct kilni_queue_ops kilni_cpu_queue_ops;

/* Leads a queue; true when the worker has spun in vain at the end. */
bool kilni_queue_lead(struct kilni_cpu_queue *queue,
		      struct kilni_worker *worker);

/* Holds the queue until target has completed seq; false: it has already. */
bool kilni_queue_hold(struct kilni_cpu_queue *queue,
		      struct kilni_cpu_queue *target, uint64_t seq);

/* ---- running entries ---- */

/*
 * Runs the queue's next entry, or several merged ones, up to number upto.
 * Returns how many; 0: the queue is held and no longer the caller's.
 */
unsigned kilni_run_next(struct kilni_cpu_queue *queue,
			struct kilni_worker *worker, uint64_t upto);

/* Runs a kernel's entry on the team. */
void kilni_run_kernel(const struct kilni_cpu_kernels *kernels,
		      struct kilni_entry *entry, struct kilni_team *team);

/* Whether work of that cost is too little to be shared. */
bool kilni_is_for_one(uint64_t cost);
/* The team that work of that cost deserves; so many entries wait. */
struct kilni_team *kilni_choose_team(struct kilni_worker *worker, uint64_t cost,
				     uint64_t waiting);

/* Rough nanoseconds that a kernel's entry takes one core. */
uint64_t kilni_run_cost(const struct kilni_entry *entry);

enum kiln_status kilni_run_inline(struct kilni_queue *queue,
				  struct kilni_entry *entry,
				  struct kilni_report *report);

/* ---- kernels of the program's own ---- */

enum kiln_status kilni_cpu_load(struct kilni_hw *hw,
				const struct kilni_program_source *source,
				struct kilni_program **out);
void kilni_cpu_unload(struct kilni_hw *hw, struct kilni_program *program);

/* ---- graphs ---- */

struct kilni_cpu_graph;

enum kiln_status kilni_cpu_graph_create(struct kilni_hw *hw,
					struct kilni_entry *const *entry,
					unsigned count, void **out);
void kilni_cpu_graph_destroy(struct kilni_hw *hw, void *graph);
/*
 * Runs the graph of an entry. On failure *bad is the entry that failed, and for
 * KILN_ERR_INDEX report is set.
 */
enum kiln_status kilni_cpu_graph_run(const struct kilni_entry *run,
				     const struct kilni_cpu_kernels *kernels,
				     struct kilni_worker *worker,
				     struct kilni_report *report,
				     struct kilni_entry **bad);

/* ---- merging ---- */

#define KILNI_MERGE_MOST 16

struct kilni_range {
	uint64_t begin, end;
	uint32_t element_bytes;
	bool written;
};

/* Elementwise entries that run together, piece by piece. */
struct kilni_merge {
	unsigned entries, ranges;
	uint64_t count;
	struct kilni_ew_params *ew[KILNI_MERGE_MOST];
	struct kilni_range range[KILNI_MERGE_MOST * 4];
};

/*
 * Adds an entry; false, and nothing happens, where running it piece by piece
 * along with the others could change a bit.
 */
bool kilni_merge_add(struct kilni_merge *merge, struct kilni_entry *entry);

void kilni_merge_run(const struct kilni_merge *merge,
		     const struct kilni_cpu_kernels *kernels,
		     struct kilni_team *team);

/* ---- the device ---- */

struct kilni_cpu_hw {
	struct kilni_hw base;
	struct kilni_gang *gang;
	enum kilni_isa isa;
	bool bf16;             /* dot-product instructions for bf16 */
	unsigned epoch;        /* kilni_fork_epoch at open() */
	struct kilni_topology topology;
	struct kilni_memory_limits limits;
	char explain[320];
};

extern const struct kilni_memory_ops kilni_cpu_memory_ops;

/* Bytes of memory that this process may use. */
uint64_t kilni_cpu_memory_bytes(uint64_t cgroup_bytes);

#endif
