/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_DRIVER_H
#define KILNI_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/status.h>

#include "base/base.h"
#include "base/clock.h"
#include "kernels/abi.h"
#include "kernels/registry.h"

/*
 * What a driver is: five small const tables. Slots are listed once, in the
 * X-macros below, which make the struct and a typed stub for every slot. No
 * slot is ever NULL: for what it lacks a driver names the stub,
 * kilni_<table>_stub_<slot>. Its capabilities are read off the tables: a slot
 * is wired where it differs from the stub.
 *
 * Arguments have been checked by the callers. Every call may fail and returns
 * a status with the error record filled; those that return void cannot. Fault
 * sites: "open", "page_alloc", "map_reserve", "map_create", "map_attach",
 * "map_detach", "write", "read", "host_pin", "queue_create", "submit",
 * "graph_create", "launch" for every kernel entry, inline, in a graph or not,
 * and "clock" for every CLOCK entry.
 */

struct kilni_hw;      /* an opened device; the driver's own struct begins so */
struct kilni_queue;   /* an ordered queue on it; likewise */
struct kilni_entry;
struct kilni_program; /* a kernel of a user's own; likewise */

/* ---- driver table ---- */

/*
 * One device of a driver, as the vendor's library tells without a context.
 * Texts are as they come, cut to what fits; who shows them repairs them.
 */
struct kilni_hw_info {
	char name[128];
	uint64_t memory_bytes; /* 0 where unknown; of a slice, the slice's */
	enum kiln_device_kind kind;
	/*
	 * Address on the bus in any spelling that kilni_pci_parse reads, of a
	 * slice its parent's; "" where unknown. No two cards have the same.
	 */
	char pci[32];
	/* "GPU-..." or "MIG-..." of CUDA, else 8-4-4-4-12; "" where unknown.
	 * Never taken as proof that two devices are one card. */
	char uuid[64];
	bool slice;            /* a part of a card (MIG) */
	unsigned ordinal;      /* the vendor library's own number */
	char version[64];      /* of the vendor's driver; "" where unknown */
	/* What the device lacks, so that open() will refuse it; else "". */
	char refused[256];
};

#define KILNI_DRIVER_SLOTS(X)                                                  \
	/* Devices there are, those that open() refuses too; opens nothing. */ \
	X(size_t, 0, count, (void))                                            \
	/* Why there are none: one line; NULL where there are. */              \
	X(const char *, "not available", absent, (void))                       \
	/* The status to fail with for that reason. */                         \
	X(enum kiln_status, KILN_ERR_NO_DEVICE, absent_status, (void))         \
	/* Makes no context. */                                                \
	X(enum kiln_status, KILNI_UNSUPPORTED("describe"), describe,           \
	  (unsigned index, struct kilni_hw_info *info))                        \
	X(enum kiln_status, KILNI_UNSUPPORTED("open"), open,                   \
	  (unsigned index, struct kilni_hw **out))

/* ---- device table ---- */

#define KILNI_DEVICE_SLOTS(X)                                                  \
	/* Waits for nothing: the queues have been destroyed. */               \
	X(void, , close, (struct kilni_hw * hw))                         \
	X(unsigned, 0, dtype_usage,                                            \
	  (const struct kilni_hw *hw, enum kiln_dtype dtype))     \
	X(unsigned, 0, workers, (const struct kilni_hw *hw))             \
	/* One line, valid while the device lives. */                          \
	X(const char *, "", explain, (const struct kilni_hw *hw))              \
	/* How its CLOCK entries count; zeroes before: it has no clock. */     \
	X(void, , clock,                                                       \
	  (const struct kilni_hw *hw, struct kilni_clock *clock))              \
	/*                                                                     \
	 * Where no thread may be in the vendor's library when the process     \
	 * exits: leave(data) is called before, so that those of the caller    \
	 * leave the driver, as far as they can in a second or two. NULL: not  \
	 * any more; it is not being called when this returns.                 \
	 */                                                                    \
	X(void, , at_exit,                                                     \
	  (struct kilni_hw * hw, void (*leave)(void *data), void *data))

/* The usage of a dtype by a device that can do all with it. */
static inline unsigned kilni_usage_of(enum kiln_dtype dtype)
{
	unsigned usage = KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC;

	if ((unsigned)dtype >= KILN_DTYPE_COUNT)
		return 0;
	if (kiln_dtype_class(dtype) == KILN_CLASS_FLOAT)
		usage |= KILN_USAGE_DENORMALS;
	return usage;
}

/* ---- memory table ---- */

/* Rules for pages and slices. */
struct kilni_memory_limits {
	uint64_t alignment;        /* of every slice: a power of two */
	uint64_t page_granularity; /* pages are multiples of it */
	uint64_t max_page_bytes;
	uint64_t total_bytes;      /* what the device has */
	bool host_visible;         /* host pointers equal device addresses */
	/*
	 * Mapping: what is reserved, created and attached is a multiple of
	 * map_granularity, a power of two; 0: the driver cannot map.
	 */
	uint64_t map_granularity;
	uint64_t map_reserve_bytes; /* most address space to reserve; 0: none */
};

struct kilni_page {
	uint64_t address;
	uint64_t bytes;
	uint64_t handle;           /* the driver's own */
};

#define KILNI_MEMORY_SLOTS(X)                                                  \
	X(void, , limits,                                                      \
	  (const struct kilni_hw *hw, struct kilni_memory_limits *limits)) \
	/* Contents are unspecified. */                                        \
	X(enum kiln_status, KILNI_UNSUPPORTED("page_alloc"), page_alloc,       \
	  (struct kilni_hw * hw, uint64_t bytes, struct kilni_page *page)) \
	X(void, , page_free,                                                   \
	  (struct kilni_hw * hw, const struct kilni_page *page))   \
	/*                                                                     \
	 * Mapping, six slots that a driver has all or none of. Addresses come \
	 * without memory, memory without an address; attaching brings them    \
	 * together, for all queues of the device, readable and writable. One  \
	 * memory object is attached whole, at one place at a time, inside one \
	 * reservation. No work touches what is attached or detached; other    \
	 * work may run. What an object held is gone once it was detached.     \
	 */                                                                    \
	X(enum kiln_status, KILNI_UNSUPPORTED("map_reserve"), map_reserve,     \
	  (struct kilni_hw * hw, uint64_t bytes, uint64_t *address))           \
	/* Nothing is attached there. */                                       \
	X(void, , map_unreserve,                                               \
	  (struct kilni_hw * hw, uint64_t address, uint64_t bytes))            \
	X(enum kiln_status, KILNI_UNSUPPORTED("map_create"), map_create,       \
	  (struct kilni_hw * hw, uint64_t bytes, uint64_t *memory))            \
	/* It is not attached. */                                              \
	X(void, , map_destroy,                                                 \
	  (struct kilni_hw * hw, uint64_t memory, uint64_t bytes))             \
	/* Refused: neither the object nor the addresses have changed. */      \
	X(enum kiln_status, KILNI_UNSUPPORTED("map_attach"), map_attach,       \
	  (struct kilni_hw * hw, uint64_t address, uint64_t bytes,             \
	   uint64_t memory))                                                   \
	/* Likewise. */                                                        \
	X(enum kiln_status, KILNI_UNSUPPORTED("map_detach"), map_detach,       \
	  (struct kilni_hw * hw, uint64_t address, uint64_t bytes,             \
	   uint64_t memory))                                                   \
	/*                                                                     \
	 * Whether memory of somebody else is the device's to read and write,  \
	 * all of it. Not asked where host pointers are device addresses.      \
	 */                                                                    \
	X(enum kiln_status, KILNI_UNSUPPORTED("memory of others"), adopt,      \
	  (struct kilni_hw * hw, uint64_t address, uint64_t bytes))            \
	/* Copies between host and device; no work touches the range. */       \
	X(enum kiln_status, KILNI_UNSUPPORTED("write"), write,                 \
	  (struct kilni_hw * hw, uint64_t to, const void *from,                \
	   uint64_t bytes))                                               \
	X(enum kiln_status, KILNI_UNSUPPORTED("read"), read,                   \
	  (struct kilni_hw * hw, void *to, uint64_t from, uint64_t bytes))     \
	/*                                                                     \
	 * Makes copies from and to host memory faster, where the device gains \
	 * by it: else KILN_ERR_UNSUPPORTED, the record left alone. Ranges do  \
	 * not overlap.                                                        \
	 */                                                                    \
	X(enum kiln_status, KILN_ERR_UNSUPPORTED, host_pin,                    \
	  (struct kilni_hw * hw, void *memory, uint64_t bytes))                \
	/*                                                                     \
	 * Waits for copies that use the range, and calls gone with memory,    \
	 * where it is not NULL. False: the device is lost and may still be at \
	 * a copy; gone is called when it is closed, or, where it hangs, never.\
	 */                                                                    \
	X(bool, true, host_unpin,                                              \
	  (struct kilni_hw * hw, void *memory, uint64_t bytes,                 \
	   void (*gone)(void *memory)))

/* ---- queue table ---- */

/*
 * The scheduler's side of a queue. Entries reach the driver in chunks that are
 * linked in order; the driver walks them, entry by entry, up to the sequence
 * number that was last submitted, and gives back each chunk that it has left.
 */
#define KILNI_CHUNK_ENTRIES 32

struct kilni_chunk;

struct kilni_queue_client {
	void *context;
	/*
	 * Of the queue among those of its device, enum kiln_priority: a wish,
	 * which changes the order of what is ready and nothing else.
	 */
	int priority;
	/*
	 * Non-zero once anything on the device has failed: then the driver
	 * asks check() before it runs a kernel. A call is always made: it
	 * gives memory back.
	 */
	const int *suspect;
	/* KILN_OK: run it. Else the entry is skipped; failed() is not called.*/
	enum kiln_status (*check)(void *context,
				  const struct kilni_entry *entry);
	/*
	 * The entry failed; report is NULL or holds the offending index. Of a
	 * replay it is the graph's entry that failed, with the number of the
	 * replay, or that of kind GRAPH where nobody knows which.
	 */
	void (*failed)(void *context, const struct kilni_entry *entry,
		       enum kiln_status status,
		       const struct kilni_report *report);
	/*
	 * The driver has left this chunk for the next one. Comes before the
	 * next chunk's first entry completes.
	 */
	void (*chunk_done)(void *context, struct kilni_chunk *chunk);
};

#define KILNI_QUEUE_SLOTS(X)                                                   \
	/* first is the chunk in which entry 1 will lie. */                    \
	X(enum kiln_status, KILNI_UNSUPPORTED("queue_create"), create,         \
	  (struct kilni_hw * hw, const struct kilni_queue_client *client,      \
	   struct kilni_chunk *first, struct kilni_queue **out)) \
	/* The same on a queue of the vendor's library, which stays its        \
	 * owner's: entries run in the order of what he puts there. */         \
	X(enum kiln_status, KILNI_UNSUPPORTED("a stream of another"), wrap,    \
	  (struct kilni_hw * hw, const struct kilni_queue_client *client,      \
	   struct kilni_chunk *first, void *native, struct kilni_queue **out)) \
	/* One name for a queue of which the vendor's library has several. */  \
	X(void *, native, canonical, (void *native))                           \
	/*                                                                     \
	 * The queue is empty: everything submitted has completed, and no      \
	 * thread waits for it any more.                                       \
	 */                                                                    \
	X(void, , destroy, (struct kilni_queue * queue))              \
	/*                                                                     \
	 * Entries up to sequence number upto may run. Never blocks. One       \
	 * thread at a time per queue.                                         \
	 */                                                                    \
	X(enum kiln_status, KILNI_UNSUPPORTED("submit"), submit,               \
	  (struct kilni_queue * queue, uint64_t upto))          \
	/* Everything up to this number has completed. Any thread. */          \
	X(uint64_t, 0, completed, (const struct kilni_queue *queue))  \
	/*                                                                     \
	 * Waits until completed() >= seq: spins briefly, then sleeps.         \
	 * KILN_ERR_DEVICE_LOST where that will never be. Any thread.          \
	 */                                                                    \
	X(enum kiln_status, KILNI_UNSUPPORTED("wait"), wait,                   \
	  (struct kilni_queue * queue, uint64_t seq))            \
	/*                                                                     \
	 * Runs one entry, a kernel or a CLOCK, now, on the calling thread; the\
	 * queue is empty and the caller sees to it that it stays so. The entry\
	 * lies anywhere and has no sequence number. The driver sets report,   \
	 * whose position tells of an index out of range. KILN_ERR_UNSUPPORTED:\
	 * queue it instead; nothing has been touched.                         \
	 */                                                                    \
	X(enum kiln_status, KILN_ERR_UNSUPPORTED, run_inline,                  \
	  (struct kilni_queue * queue, struct kilni_entry *entry,              \
	   struct kilni_report *report))                                       \
	/*                                                                     \
	 * Prepares kernel entries that entries of kind GRAPH will run again   \
	 * and again, all on one queue. They live and stay where they are until\
	 * graph_destroy(); the driver may change what is its own in them.     \
	 * KILN_ERR_UNSUPPORTED: the scheduler queues them one by one.         \
	 */                                                                    \
	X(enum kiln_status, KILN_ERR_UNSUPPORTED, graph_create,                \
	  (struct kilni_hw * hw, struct kilni_entry *const *entry,             \
	   unsigned count, void **out))                                        \
	/* No queue runs it any more. Any thread, a driver's too. */           \
	X(void, , graph_destroy, (struct kilni_hw * hw, void *graph))

/* ---- program table ---- */

/*
 * A kernel of a user's own, as it was given: sizes, name and flags have been
 * checked, the kind of code and the code have not. group is not 0.
 */
struct kilni_program_source {
	enum kiln_kernel_code code;
	kiln_kernel_function function;
	const void *data;
	size_t data_bytes;
	const char *entry;
	uint32_t params_bytes, group;
	bool whole;
};

#define KILNI_PROGRAM_SLOTS(X)                                                 \
	/* Whether the device has the kernel at all. */                        \
	X(bool, false, has, (const struct kilni_hw *hw,                        \
			     enum kilni_kernel kernel))          \
	/* Bytes of workspace for these parameters; addresses may be blank. */ \
	X(uint64_t, 0, workspace,                                              \
	  (const struct kilni_hw *hw, enum kilni_kernel kernel,                \
	   const void *params))                                                \
	/* Asked before a kernel's entry is queued: refuses what the device    \
	 * cannot do with a dtype, though it has the kernel and the dtype. */  \
	X(enum kiln_status, KILN_OK, admit,                                    \
	  (struct kilni_hw * hw, const struct kilni_entry *entry))             \
	/* Fills what every program begins with too. Any thread. */            \
	X(enum kiln_status, KILNI_UNSUPPORTED("kernels of the program"), load, \
	  (struct kilni_hw * hw, const struct kilni_program_source *source,    \
	   struct kilni_program **out))                                        \
	/* No entry that has not completed needs it. Any thread. */            \
	X(void, , unload, (struct kilni_hw * hw, struct kilni_program *program))

/* ---- the tables' structs, stubs and defaults ---- */

#define KILNI_UNSUPPORTED(what)                                                \
	kilni_fail(KILN_ERR_UNSUPPORTED, 0, "%s: not supported by the driver", \
		   what)

#define KILNI_SLOT_FIELD_(ret, value, name, params) ret(*name) params;

struct kilni_driver_ops {
	KILNI_DRIVER_SLOTS(KILNI_SLOT_FIELD_)
};
struct kilni_device_ops {
	KILNI_DEVICE_SLOTS(KILNI_SLOT_FIELD_)
};
struct kilni_memory_ops {
	KILNI_MEMORY_SLOTS(KILNI_SLOT_FIELD_)
};
struct kilni_queue_ops {
	KILNI_QUEUE_SLOTS(KILNI_SLOT_FIELD_)
};
struct kilni_program_ops {
	KILNI_PROGRAM_SLOTS(KILNI_SLOT_FIELD_)
};

/* The stubs (drivers/stubs.c). */
#define KILNI_DRIVER_STUB_(ret, value, name, params)                           \
	ret kilni_driver_stub_##name params;
#define KILNI_DEVICE_STUB_(ret, value, name, params)                           \
	ret kilni_device_stub_##name params;
#define KILNI_MEMORY_STUB_(ret, value, name, params)                           \
	ret kilni_memory_stub_##name params;
#define KILNI_QUEUE_STUB_(ret, value, name, params)                            \
	ret kilni_queue_stub_##name params;
#define KILNI_PROGRAM_STUB_(ret, value, name, params)                          \
	ret kilni_program_stub_##name params;
KILNI_DRIVER_SLOTS(KILNI_DRIVER_STUB_)
KILNI_DEVICE_SLOTS(KILNI_DEVICE_STUB_)
KILNI_MEMORY_SLOTS(KILNI_MEMORY_STUB_)
KILNI_QUEUE_SLOTS(KILNI_QUEUE_STUB_)
KILNI_PROGRAM_SLOTS(KILNI_PROGRAM_STUB_)

/* Tables made of stubs alone, to compare with. */
extern const struct kilni_driver_ops kilni_driver_stubs;
extern const struct kilni_device_ops kilni_device_stubs;
extern const struct kilni_memory_ops kilni_memory_stubs;
extern const struct kilni_queue_ops kilni_queue_stubs;
extern const struct kilni_program_ops kilni_program_stubs;

#define KILNI_DRIVER_ABI 1

/* A driver; registered by its line in drivers/table.def. */
struct kilni_driver {
	uint32_t abi;             /* KILNI_DRIVER_ABI */
	uint32_t size;            /* sizeof(struct kilni_driver) */
	const char *name;         /* as in selectors */
	enum kiln_device_type type;
	/*
	 * Kinds of device whose rules it can follow in place of its own, as
	 * KILN_PLAN asks it to: names, NULL at the end; NULL for none.
	 */
	const char *const *targets;
	const char *no_wrap;      /* why it has no wrap; NULL: it has */
	const struct kilni_driver_ops *driver;
	const struct kilni_device_ops *device;
	const struct kilni_memory_ops *memory;
	const struct kilni_queue_ops *queue;
	const struct kilni_program_ops *program;
};

/* Every opened device begins so. */
struct kilni_hw {
	const struct kilni_driver *driver;
	unsigned index;
	int lost; /* atomic, for good: the device does no more */
};

static inline bool kilni_hw_lost(const struct kilni_hw *hw)
{
	return __atomic_load_n(&hw->lost, __ATOMIC_ACQUIRE) != 0;
}

/* By the driver, when it is told so first; whether it was the first time. */
static inline bool kilni_hw_lose(struct kilni_hw *hw)
{
	return !__atomic_exchange_n(&hw->lost, 1, __ATOMIC_ACQ_REL);
}

/* Every queue begins so. */
struct kilni_queue {
	struct kilni_hw *hw;
	uint32_t number;       /* its stream's in a trace, set by that */
};

/* Every loaded kernel begins so. */
struct kilni_program {
	kiln_kernel_function function; /* NULL: it is in the driver's hands */
	bool whole;
	uint32_t group;
	uint32_t groups_most;          /* of a launch */
};

/* The program of an entry whose kernel is CUSTOM. */
static inline struct kilni_program *
kilni_program_of(const struct kilni_custom_params *params)
{
	return (struct kilni_program *)(uintptr_t)params->program;
}

/* Groups that the entry asks for, by its elements where it does not say. */
uint64_t kilni_program_groups(const struct kilni_custom_params *params);

/* Registered drivers in order of preference for "auto", NULL at the end. */
extern const struct kilni_driver *const kilni_drivers[];

/* ---- entries ---- */

enum kilni_entry_kind {
	KILNI_ENTRY_KERNEL = 0,
	/*
	 * Goes on when wait_queue has completed wait_seq. wait_queue belongs
	 * to the same device and is not destroyed before this entry has
	 * completed.
	 */
	KILNI_ENTRY_WAIT = 1,
	/* Goes on when *gate is not 0 any more; see kilni_gate_open. */
	KILNI_ENTRY_GATE = 2,
	/* Calls call(call_data, call_user) on a thread of the driver. */
	KILNI_ENTRY_CALL = 3,
	/*
	 * Notes the device's clock when all before it is done, in a stamp. The
	 * driver gives every stamp exactly one state, on a lost device too.
	 */
	KILNI_ENTRY_CLOCK = 4,
	/*
	 * Runs a graph of graph_create(), whose entries it gives its number
	 * for blame; asked about at check() as one. A graph that is NULL has
	 * nothing to run.
	 */
	KILNI_ENTRY_GRAPH = 5
};

/* Writers that an entry of kind GRAPH can name. */
#define KILNI_GRAPH_WRITERS 24

enum kilni_access {
	KILNI_READ = 1,
	KILNI_WRITE = 2,
	KILNI_READ_WRITE = 3
};

#define KILNI_OPERANDS_MAX 7
#define KILNI_PARAMS_BYTES 448

/*
 * An operand: a range of device memory, dense or not, how it is used, and who
 * wrote it last (the scheduler's own, for following failures).
 */
struct kilni_operand {
	uint64_t address;
	uint64_t bytes;
	const void *writer;
	uint64_t writer_seq;
	uint32_t access;       /* enum kilni_access */
};

struct kilni_entry {
	uint8_t kind;          /* enum kilni_entry_kind */
	uint8_t kernel;        /* enum kilni_kernel */
	uint8_t operands;
	uint8_t reserved;
	uint16_t op;           /* enum kilni_op, for messages */
	uint16_t params_bytes;
	uint64_t seq;          /* 1, 2, 3, ... on its stream */
	uint64_t user;         /* a kernel's number among its stream's work */
	uint64_t given_ns;     /* the driver's own, for traces */
	struct kilni_operand operand[KILNI_OPERANDS_MAX];
	union {
		uint64_t raw[KILNI_PARAMS_BYTES / 8];
		struct kilni_ew_params ew;
		struct kilni_gather_params gather;
		struct kilni_scatter_params scatter;
		struct kilni_reduce_params reduce;
		struct kilni_matmul_params matmul;
		struct kilni_softmax_params softmax;
		struct kilni_custom_params custom;
		struct {
			struct kilni_queue *wait_queue;
			uint64_t wait_seq;
		} wait;
		struct {
			const int *gate;
		} gate;
		struct {
			void (*call)(void *data, void *user);
			void *data, *user;
		} call;
		struct {
			struct kilni_stamp *stamp;
			void *driver; /* its own */
		} clock;
		struct {
			void *graph;
			/*
			 * RANDOM entries draw with this seed, from counter
			 * and their place among the draws, in their in[0].
			 */
			uint64_t seed, counter;
			uint64_t failed; /* the driver's own */
			/* The scheduler's: who wrote what the graph reads. */
			uint64_t writers;
			struct {
				const void *writer;
				uint64_t seq;
			} writer[KILNI_GRAPH_WRITERS];
		} graph;
	} params;
};

struct kilni_chunk {
	struct kilni_chunk *next; /* set before its first entry is submitted */
	struct kilni_entry entry[KILNI_CHUNK_ENTRIES];
};

/* ---- stamps ---- */

enum kilni_stamp_state {
	KILNI_STAMP_PENDING = 0,
	KILNI_STAMP_GOOD = 1,
	KILNI_STAMP_MISSED = 2 /* no time could be had */
};

/* A moment on a device's clock; see struct kilni_clock. */
struct kilni_stamp {
	uint64_t ticks;
	int state;             /* atomic: enum kilni_stamp_state */
	/* Called once, when it has its state, on any thread. */
	void (*stamped)(struct kilni_stamp *stamp);
};

/* For drivers; the stamp may be gone afterwards. */
void kilni_stamp_set(struct kilni_stamp *stamp, uint64_t ticks);
void kilni_stamp_miss(struct kilni_stamp *stamp);
/* The same for a driver whose clock is the host's; a fault site. */
void kilni_stamp_now(struct kilni_stamp *stamp);

/*
 * For drivers: gives an entry of a graph the number that it runs under, and
 * the numbers that a RANDOM one draws from.
 */
static inline void kilni_graph_patch(const struct kilni_entry *graph,
				     struct kilni_entry *entry)
{
	entry->seq = graph->seq;
	if (entry->kernel == KILNI_KERNEL_EW && entry->op == KILNI_OP_RANDOM) {
		entry->params.ew.seed = graph->params.graph.seed;
		entry->params.ew.counter =
			graph->params.graph.counter + entry->params.ew.in[0];
	}
}

/* ---- traces ---- */

/* Writes a kernel's record where the process is traced; see base/trace.h. */
void kilni_trace_launch(const struct kilni_queue *queue,
			const struct kilni_entry *entry, unsigned flags,
			uint64_t begin_ns, uint64_t end_ns);

/* ---- gates ---- */

/* Sets *gate to 1 with release order and wakes the queues held by it. */
void kilni_gate_open(int *gate);

/* Once, so that the child of a fork can open and hold gates of its own. */
void kilni_gate_fork_watch(void);

/* For drivers: a queue that is held by a gate. */
struct kilni_gate_watch {
	struct kilni_gate_watch *next;
	const int *gate;
	/* The gate is open; called once, on the thread that opened it. */
	void (*opened)(struct kilni_gate_watch *watch);
};

/*
 * Registers watch, whose opened is set; false where the gate is open already,
 * and then opened is not called. Once this has returned true watch belongs to
 * whoever opens the gate.
 */
bool kilni_gate_hold(struct kilni_gate_watch *watch, const int *gate);

/*
 * Work items of a kernel entry: elements it writes or reads, for the choice
 * between the caller and the workers.
 */
uint64_t kilni_entry_items(const struct kilni_entry *entry);

#endif
