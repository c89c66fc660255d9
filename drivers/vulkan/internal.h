/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_VULKAN_INTERNAL_H
#define KILNI_VULKAN_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "drivers/staging.h"
#include "drivers/vulkan/api.h"

/*
 * The Vulkan driver. Whoever submits a queue records its entries into command
 * buffers and hands these to the VkQueue that computes, in batches. All
 * batches of a device stand in one list in the order in which the VkQueue got
 * them; a timeline semaphore counts those that are done, and whoever sees that
 * (a waiter, or the device's own thread) completes their entries in that
 * order. Transfers have a VkQueue of their own where there is one. See
 * README.md.
 */

struct kilni_vk_hw;
struct kilni_vk_queue;

static inline struct kilni_vk_hw *kilni_vk_hw_of(const struct kilni_hw *hw)
{
	return (struct kilni_vk_hw *)(uintptr_t)hw;
}

/* ---- what there is (physical.c) ---- */

/* What VkQueues are for. */
enum kilni_vk_engines {
	KILNI_VK_COMPUTES,
	KILNI_VK_TRANSFERS,        /* where a family does nothing else */
	KILNI_VK_ENGINES
};

/* A physical device, as it is before anything is opened. */
struct kilni_vk_physical {
	VkPhysicalDevice device;
	VkPhysicalDeviceProperties properties;
	uint8_t device_uuid[VK_UUID_SIZE];
	uint8_t driver_uuid[VK_UUID_SIZE];
	char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE];
	char pci[24];              /* "" where it tells none */
	uint64_t max_allocation_bytes;
	uint64_t max_buffer_bytes;
	uint64_t heap_bytes;       /* of the largest device-local heap */
	uint64_t import_alignment; /* of the host's memory; 0: not imported */
	uint32_t family[KILNI_VK_ENGINES];
	unsigned families;         /* of them; 1: it transfers too */
	unsigned timestamp_bits;   /* of the first's clock; 0: it has none */
	unsigned ordinal;          /* libvulkan's own number */
	unsigned denormals;        /* widths asked to keep them: 16, 32, 64 */
	unsigned subgroup;         /* threads that shuffle; 0: none do */
	bool software;
	bool doubles;              /* 64-bit floats, with all their values */
	bool keeps_denormals;      /* of f32; those of f64 all devices keep */
	char refused[512];         /* what it lacks, complete; "" : nothing */
};

/* The devices, real ones first; the list stays. why: as kilni_vk_load. */
enum kiln_status kilni_vk_list(const struct kilni_vk_physical **list,
			       unsigned *count, const char **why);

/* With every feature that is needed, and a queue of each family. */
enum kiln_status kilni_vk_device_create(const struct kilni_vk_loader *vk,
					const struct kilni_vk_physical *p,
					VkDevice *device);

/* ---- VkQueues (engine.c) ---- */

/* A VkQueue, and the timeline semaphore that counts what it has done. */
struct kilni_vk_engine {
	uint32_t family;
	pthread_mutex_t lock;      /* of handing over */
	VkQueue queue;
	VkSemaphore semaphore;
	uint64_t signalled;        /* atomic: the value of the last submission */
	bool mute;                 /* a test: nothing is signalled any more */
	uint64_t reached;          /* atomic: the last value seen ... */
	uint64_t reached_ns;       /* ... and when it was new; the hw's lock */
};

enum kiln_status kilni_vk_engines_open(struct kilni_vk_hw *hw);
void kilni_vk_engines_close(struct kilni_vk_hw *hw);

/* For command buffers that are recorded once each (transient), or for long. */
enum kiln_status kilni_vk_pool_create(struct kilni_vk_hw *hw,
				      const struct kilni_vk_engine *engine,
				      bool transient, VkCommandPool *pool);
enum kiln_status kilni_vk_commands_create(struct kilni_vk_hw *hw,
					  VkCommandPool pool,
					  VkCommandBuffer *out, unsigned count);

/* Command buffers of one submission, at most. */
#define KILNI_VK_LISTED 48

/*
 * Hands commands over in order; the semaphore counts those whose bit is set in
 * ends, and the last. The engine's lock is held.
 */
enum kiln_status kilni_vk_submit(struct kilni_vk_hw *hw,
				 struct kilni_vk_engine *engine,
				 const VkCommandBuffer *commands,
				 unsigned count, uint64_t ends);

/* What the semaphore has, or had when it could last be read. */
uint64_t kilni_vk_reached(struct kilni_vk_hw *hw,
			  struct kilni_vk_engine *engine);

/*
 * Waits in the driver until the semaphore has value, or for a slice. A device
 * is not hung that had nothing to do before since_ns.
 */
void kilni_vk_sleep(struct kilni_vk_hw *hw, struct kilni_vk_engine *engine,
		    uint64_t value, uint64_t since_ns);

/*
 * Transfers, outside of any queue's order: handed over, and waited for until
 * the semaphore has the value that came with them. Of several threads that wait
 * in the driver for one semaphore some wake 10 ms late on an H200: so only who
 * is alone waits there.
 */
enum kiln_status kilni_vk_start_now(struct kilni_vk_hw *hw,
				    VkCommandBuffer commands, uint64_t *value);
enum kiln_status kilni_vk_wait_now(struct kilni_vk_hw *hw, uint64_t value,
				   bool alone);

/* ---- memory (memory.c) ---- */

/* One buffer in one allocation, mapped where the host can reach it. */
struct kilni_vk_block {
	struct kilni_vk_block *next;
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkDeviceAddress address;
	uint64_t bytes;
	char *map;
};

enum kilni_vk_use {
	KILNI_VK_PAGES,            /* what tensors lie in */
	KILNI_VK_PARAMS,           /* written by the host, read by kernels */
	KILNI_VK_HOST,             /* read by the host */
	KILNI_VK_USES
};

enum kiln_status kilni_vk_memory_open(struct kilni_vk_hw *hw);
void kilni_vk_memory_close(struct kilni_vk_hw *hw);
/* A buffer of both families' where there are two; info is all else of it. */
enum kiln_status kilni_vk_buffer_create(struct kilni_vk_hw *hw,
					VkBufferCreateInfo info,
					VkBuffer *buffer);
enum kiln_status kilni_vk_block_create(struct kilni_vk_hw *hw,
				       enum kilni_vk_use use, uint64_t bytes,
				       struct kilni_vk_block *block);
void kilni_vk_block_destroy(struct kilni_vk_hw *hw,
			    struct kilni_vk_block *block);

extern const struct kilni_memory_ops kilni_vk_memory_ops;

/* ---- staging (staging.c) ---- */

/* Staging memory for a block that travels, and the commands of its copy. */
struct kilni_vk_lane {
	struct kilni_vk_block block;
	VkCommandPool pool;
	VkCommandBuffer commands;
	uint64_t value;            /* of the semaphore: the copy is done */
};

/* Whether any transfer goes by way of memory of the host's, or of a pin. */
bool kilni_vk_is_staged(const struct kilni_vk_hw *hw);
void kilni_vk_staging_init(struct kilni_vk_hw *hw);
/* The first lane, where any transfer needs one. */
enum kiln_status kilni_vk_staging_open(struct kilni_vk_hw *hw);

/* Copies bytes, at least one, between host and page; waits for the end. */
enum kiln_status kilni_vk_stage(struct kilni_vk_hw *hw,
				const struct kilni_vk_block *page,
				uint64_t offset, void *host, uint64_t bytes,
				bool up);

bool kilni_vk_is_pinned(struct kilni_vk_hw *hw, const void *host,
			uint64_t bytes);

/* Memory of the host's that the device uses in place (pin.c). */
enum kiln_status kilni_vk_pin(struct kilni_hw *hw, void *memory,
			      uint64_t bytes);
bool kilni_vk_unpin(struct kilni_hw *hw, void *memory, uint64_t bytes,
		    void (*gone)(void *memory));
struct kilni_vk_pin;
/* What holds the range, and stays until it is left; NULL: nothing does. */
struct kilni_vk_pin *kilni_vk_use_pin(struct kilni_vk_hw *hw,
				      const char *memory, uint64_t bytes,
				      VkBuffer *buffer, uint64_t *offset);
void kilni_vk_leave_pin(struct kilni_vk_hw *hw, struct kilni_vk_pin *pin);
/* Those that were given back when the device was lost. */
void kilni_vk_pins_close(struct kilni_vk_hw *hw);

/* ---- pipelines (pipeline.c, cache.c) ---- */

#define KILNI_VK_CONSTANTS 4

/* The push constants of every kernel. */
struct kilni_vk_push {
	VkDeviceAddress params;
	uint32_t part, reserved;   /* which one, of what is cut into parts */
};

/* A kernel's module and what it is specialised by; group is constant 4. */
struct kilni_vk_kernel {
	char module[16];
	uint16_t constant[KILNI_VK_CONSTANTS];
	uint16_t group;
};

#define KILNI_VK_PIPELINES 4096

struct kilni_vk_pipelines {
	pthread_mutex_t lock;      /* of making one */
	VkPipelineLayout layout;
	VkPipelineCache cache;
	uint64_t cache_bytes;      /* of what was read from the disk */
	unsigned made;
	struct {
		struct kilni_vk_kernel kernel;
		VkPipeline pipeline; /* atomic; set last */
	} slot[KILNI_VK_PIPELINES];
};

enum kiln_status kilni_vk_pipelines_open(struct kilni_vk_hw *hw);
void kilni_vk_pipelines_close(struct kilni_vk_hw *hw);
/* Finds or makes one. Any thread. */
enum kiln_status kilni_vk_pipeline(struct kilni_vk_hw *hw,
				   const struct kilni_vk_kernel *kernel,
				   VkPipeline *pipeline);

/*
 * What the disk holds for this device and driver: bytes that the caller frees,
 * or NULL. Whatever is wrong with the file, it is as if there were none.
 */
void *kilni_vk_cache_read(const struct kilni_vk_physical *physical,
			  uint64_t *bytes);
/* Puts it there; a failure is only logged. */
void kilni_vk_cache_write(const struct kilni_vk_physical *physical,
			  const void *data, uint64_t bytes);

/* ---- batches (batch.c) ---- */

#define KILNI_VK_BATCH_ENTRIES 64
#define KILNI_VK_PARAMS_BYTES 32768  /* of a batch */
#define KILNI_VK_REPORT_BYTES 32     /* of struct kilni_report, for devices */

/* What became of an entry when it was recorded. */
enum kilni_vk_fate {
	KILNI_VK_PASSED,           /* no kernel, or skipped, or failed */
	KILNI_VK_RAN,
	KILNI_VK_REPORTS,          /* the same, and it has the next report */
	KILNI_VK_STAMPED,          /* a CLOCK whose time is written */
	KILNI_VK_REPLAYED          /* a GRAPH */
};

/*
 * A batch is a list of command buffers: its own, each up to the next replay,
 * and those of the graphs that are replayed.
 */
#define KILNI_VK_OWN 4

struct kilni_vk_batch {
	struct kilni_vk_batch *next;
	struct kilni_vk_queue *queue;
	VkCommandPool pool;
	VkCommandBuffer own[KILNI_VK_OWN];
	VkCommandBuffer commands;  /* the one of them that is next, or open */
	unsigned owns;             /* of them that are listed */
	VkCommandBuffer list[KILNI_VK_LISTED];
	unsigned listed;
	uint64_t ends;             /* bit i: the semaphore counts list[i] */
	enum kiln_status refused;  /* of the driver; then nothing of it runs */
	char *params;              /* mapped, and where kernels see them */
	VkDeviceAddress params_address;
	char *reports;
	VkDeviceAddress reports_address;

	bool rehearsed;            /* nothing is recorded: kilni_vk_admit */
	bool recording;            /* commands are being recorded */
	bool calls;                /* has a CALL */
	bool stamped;              /* times are written into stamps */
	VkQueryPool stamps;
	uint64_t submitted_ns, finished_ns; /* where the process is traced */
	unsigned entries, kernels, report_count;
	uint32_t params_used;
	uint8_t turn[KILNI_VK_BATCH_ENTRIES]; /* of a GRAPH */
	VkPipeline bound;
	uint64_t first_seq, last_seq;
	uint64_t value;            /* done when the semaphore has it */
	uint64_t found;            /* hw->found when it was recorded */
	struct kilni_chunk *chunk; /* of its first entry */
	unsigned slot;
	uint8_t fate[KILNI_VK_BATCH_ENTRIES];
};

/* Memory that batches share. */
struct kilni_vk_slab {
	struct kilni_vk_slab *next;
	struct kilni_vk_block params, reports;
	struct kilni_vk_batch *batch;
	unsigned batches;
};

enum kiln_status kilni_vk_batches_open(struct kilni_vk_hw *hw);
/* Returns when the device's thread rests: it makes no calls any more. */
void kilni_vk_park(struct kilni_vk_hw *hw);
void kilni_vk_batches_close(struct kilni_vk_hw *hw);

/* A free batch, or NULL: the queue is held until there is one. */
struct kilni_vk_batch *kilni_vk_batch_take(struct kilni_vk_queue *queue);

/* Hands a recorded batch over; its entries fail where that is refused. */
void kilni_vk_batch_submit(struct kilni_vk_batch *batch);

/* Lists commands of others behind all that was recorded so far. */
void kilni_vk_batch_list(struct kilni_vk_batch *batch,
			 const VkCommandBuffer *commands, unsigned count);

/*
 * Completes what is done. calls: also the batches that have CALL entries, and
 * those behind them.
 */
void kilni_vk_retire(struct kilni_vk_hw *hw, bool calls);

/* Whether batches are in flight, for which the device's thread may wait. */
bool kilni_vk_has_work(struct kilni_vk_hw *hw);

void kilni_vk_lose(struct kilni_vk_hw *hw, bool hung);

static inline enum kiln_status kilni_vk_noted(struct kilni_vk_hw *hw,
					      enum kiln_status status)
{
	if (KILNI_UNLIKELY(status == KILN_ERR_DEVICE_LOST))
		kilni_vk_lose(hw, false);
	return status;
}

/* A device's call: whichever says so first, the device is lost from then on. */
#define KILNI_VK(hw, name, ...)                                                \
	kilni_vk_noted(hw, KILNI_VK_CALL(&(hw)->vk, name, __VA_ARGS__))

static inline bool kilni_vk_is_lost(const struct kilni_vk_hw *hw);

/* ---- time (clock.c) ---- */

/* A moment on the device and on the host, for traces. */
struct kilni_vk_anchor {
	uint64_t ticks, host_ns;
	uint64_t last_ns;          /* the end of the last kernel */
};

void kilni_vk_clock(const struct kilni_hw *hw, struct kilni_clock *clock);
enum kiln_status kilni_vk_stamps_create(struct kilni_vk_hw *hw,
					struct kilni_vk_batch *batch);
/* Has the time written, before or (end: 1) behind an entry of the batch. */
enum kiln_status kilni_vk_stamp(struct kilni_vk_batch *batch, unsigned entry,
				unsigned end);
/* Whether kernels are to have stamps. */
bool kilni_vk_traces(const struct kilni_vk_batch *batch);
/* Gives the stamp of a CLOCK its state. */
void kilni_vk_finish_stamp(struct kilni_vk_batch *batch, unsigned entry,
			   struct kilni_stamp *stamp);
void kilni_vk_trace_kernel(struct kilni_vk_batch *batch, unsigned entry,
			   const struct kilni_entry *what);

/* ---- graphs (graph.c) ---- */

/* Command buffers that a replay puts into a batch, one of its own included. */
#define KILNI_VK_REPLAY_MOST 20

enum kiln_status kilni_vk_graph_create(struct kilni_hw *hw,
				       struct kilni_entry *const *entry,
				       unsigned count, void **out);
void kilni_vk_graph_destroy(struct kilni_hw *hw, void *graph);
/* Those that were destroyed when the device was lost; it is idle. */
void kilni_vk_graphs_close(struct kilni_vk_hw *hw);

/*
 * Whether an entry of kind GRAPH has to wait for an earlier replay of it. The
 * turn it will have stays free until it is taken by kilni_vk_replay.
 */
bool kilni_vk_replay_waits(const struct kilni_entry *entry);
/* Puts the replay into the batch, whose last entry it is. */
void kilni_vk_replay(struct kilni_vk_batch *batch,
		     const struct kilni_entry *entry);
/* Tells what failed in entry i; true where it ran. */
bool kilni_vk_finish_replay(struct kilni_vk_batch *batch, unsigned i,
			    const struct kilni_entry *entry);
/* Another replay may have the turn that entry i of the batch had. */
void kilni_vk_end_turn(const struct kilni_vk_batch *batch, unsigned i,
		       const struct kilni_entry *entry);
/*
 * Blames the entry, or an operation of the graph that it replays; WHOLE: nobody
 * knows which.
 */
#define KILNI_VK_WHOLE UINT32_MAX
void kilni_vk_blame(struct kilni_vk_batch *batch,
		    const struct kilni_entry *entry, unsigned operation,
		    enum kiln_status status,
		    const struct kilni_report *report);

/* ---- queues (queue.c) ---- */

enum kilni_vk_state {
	KILNI_VK_IDLE,             /* all that was submitted is recorded */
	KILNI_VK_BUSY,             /* a thread records its entries */
	KILNI_VK_HELD              /* waits for a queue, a gate or a batch */
};

/* Memory that kernels of a queue used since its last barrier. */
struct kilni_vk_range {
	uint64_t begin, end;
	bool written;
};

#define KILNI_VK_RANGES 24

struct kilni_vk_queue {
	struct kilni_queue base;
	struct kilni_queue_client client;

	/* Under the device's lock. */
	enum kilni_vk_state state;
	uint64_t submitted;
	uint64_t passed;           /* recorded and handed over */
	struct kilni_vk_queue *held, *next_held; /* by this one; with this */
	uint64_t held_until;
	struct kilni_vk_queue *next_starved;
	unsigned batches;          /* recorded or in flight */

	/* The thread's that has the queue. */
	struct kilni_chunk *chunk;
	unsigned slot;
	struct kilni_vk_queue *next_run;
	struct kilni_gate_watch gate;
	bool gate_passed;
	bool join;                 /* a barrier before the next kernel */
	unsigned ranges;
	struct kilni_vk_range range[KILNI_VK_RANGES];

	/* The thread's that completes batches. */
	struct kilni_chunk *done_chunk;
	unsigned done_slot;

	uint64_t completed;        /* atomic */
};

extern const struct kilni_queue_ops kilni_vk_queue_ops;

/* Goes on with queues that were held; linked by next_starved. */
void kilni_vk_queues_resume(struct kilni_vk_queue *list);

/* ---- recording (record.c) ---- */

/*
 * Records a kernel's entry. On failure nothing of it will run that matters:
 * what it would have written is unspecified.
 */
enum kiln_status kilni_vk_record(struct kilni_vk_batch *batch,
				 const struct kilni_entry *entry);

/* Opens the batch's commands where that has not been done. */
enum kiln_status kilni_vk_open_commands(struct kilni_vk_batch *batch);

/* Ends and lists the batch's open commands; a refusal stays with the batch. */
void kilni_vk_close_commands(struct kilni_vk_batch *batch);

/* Room for one more entry. */
bool kilni_vk_has_room(const struct kilni_vk_batch *batch);

/*
 * Refuses an entry for which the device lacks 64-bit floats; the pipelines of
 * one that is admitted there are made by then.
 */
enum kiln_status kilni_vk_admit(struct kilni_hw *hw,
				const struct kilni_entry *entry);

bool kilni_vk_has_kernel(const struct kilni_vk_hw *hw,
			 enum kilni_kernel kernel);
uint64_t kilni_vk_workspace(const struct kilni_hw *hw,
			    enum kilni_kernel kernel, const void *params);

/* ---- kernels of the program's own (program.c) ---- */

enum kiln_status
kilni_vk_program_load(struct kilni_hw *hw,
		      const struct kilni_program_source *source,
		      struct kilni_program **out);
void kilni_vk_program_unload(struct kilni_hw *hw,
			     struct kilni_program *program);

/* ---- the device ---- */

struct kilni_vk_hw {
	struct kilni_hw base;
	unsigned epoch;            /* kilni_fork_epoch at open() */
	const struct kilni_vk_physical *physical;
	VkDevice device;
	struct kilni_vk_calls vk;
	char explain[1024];
	uint64_t spin_ns, timeout_ns;
	unsigned group;            /* threads of a workgroup */
	bool tiles;                /* it gains by kernels that share memory */
	bool can_tile;             /* it has what they need */
	unsigned subgroup;         /* of a group's threads; 0: not used */
	unsigned row_group;        /* threads that hold a softmax's row */
	uint64_t turns;            /* of a thread's loops, at most */

	/* Memory. */
	struct kilni_memory_limits limits;
	VkPhysicalDeviceMemoryProperties memory;
	uint32_t type[KILNI_VK_USES];
	bool mapped[KILNI_VK_USES];
	bool reads_mapped;         /* the host may read pages in place */
	pthread_mutex_t pages_lock;
	struct kilni_vk_block **page; /* sorted by address */
	unsigned pages, pages_most;
	uint64_t taken_bytes;
	struct kilni_vk_block *left_over; /* pages freed when it was lost */
	struct kilni_staging staging;
	struct kilni_vk_lane lane[KILNI_STAGING_LANES]; /* under its lock */
	pthread_mutex_t pins_lock; /* for a moment, never for a copy */
	pthread_cond_t pins_left;  /* a pin is not used any more */
	struct kilni_vk_pin *pins;
	struct kilni_vk_pin *left_pins; /* given back when it was lost */

	struct kilni_vk_pipelines pipelines;

	struct kilni_vk_engine engine[KILNI_VK_ENGINES];

	/* Batches and the states of queues. */
	pthread_mutex_t lock;
	pthread_cond_t moved;      /* entries have completed */
	pthread_cond_t wake;       /* for the device's thread */
	struct kilni_vk_batch *oldest, **newest;
	struct kilni_vk_batch *free;
	struct kilni_vk_slab *slabs;
	struct kilni_vk_queue *starved, **last_starved; /* of batches */
	struct kilni_vk_queue *turnless; /* wait for a turn of a graph */
	void *left_graphs;         /* released when it was lost */
	struct kilni_vk_queue *finishing; /* its batch is being completed */
	bool retiring, asleep, stop, has_thread;
	bool leaving, parked;      /* the process exits; the thread rests */
	struct kilni_vk_hw *next_open; /* with what follows: device.c */
	void (*leave)(void *data);
	void *leave_data;
	pthread_t thread;

	struct kilni_vk_anchor anchor; /* whoever completes batches has it */
	uint64_t found;            /* atomic: failures that kernels found */
	int hung;                  /* atomic: its objects may be in use */
};

static inline bool kilni_vk_is_lost(const struct kilni_vk_hw *hw)
{
	return kilni_hw_lost(&hw->base);
}

/* What batches are handed to, and what transfers are. */
static inline struct kilni_vk_engine *kilni_vk_computes(struct kilni_vk_hw *hw)
{
	return &hw->engine[KILNI_VK_COMPUTES];
}

static inline struct kilni_vk_engine *
kilni_vk_transfers(struct kilni_vk_hw *hw)
{
	return &hw->engine[hw->physical->families > KILNI_VK_TRANSFERS
				   ? KILNI_VK_TRANSFERS
				   : KILNI_VK_COMPUTES];
}

/* Of a batch that is completed; false: the device was lost before. */
static inline bool kilni_vk_ran(const struct kilni_vk_hw *hw,
				const struct kilni_vk_batch *batch)
{
	return !kilni_vk_is_lost(hw) ||
	       batch->value <=
		       __atomic_load_n(&hw->engine[KILNI_VK_COMPUTES].reached,
				       __ATOMIC_ACQUIRE);
}

/* device.c */
enum kiln_status kilni_vk_open(unsigned index, struct kilni_hw **out);
void kilni_vk_close(struct kilni_hw *hw);
void kilni_vk_at_exit(struct kilni_hw *hw, void (*leave)(void *data),
		      void *data);

extern const struct kilni_driver kilni_vulkan_driver;

#endif
