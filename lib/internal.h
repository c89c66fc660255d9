/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_LIB_INTERNAL_H
#define KILNI_LIB_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <kiln/kiln.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "kernels/dtype.h"
#include "kernels/registry.h"
#include "sched/graph.h"
#include "sched/sched.h"

/* ---- objects ---- */

/* What every handle begins with: its kind, references, and process. */
struct kilni_object_ops {
	const char *kind;
};

struct kilni_object {
	const struct kilni_object_ops *ops;
	int refs;
	unsigned epoch;
};

extern const struct kilni_object_ops kilni_device_kind;
extern const struct kilni_object_ops kilni_stream_kind;
extern const struct kilni_object_ops kilni_tensor_kind;
extern const struct kilni_object_ops kilni_view_kind;
extern const struct kilni_object_ops kilni_file_kind;
extern const struct kilni_object_ops kilni_buffer_kind;
extern const struct kilni_object_ops kilni_kernel_kind;
extern const struct kilni_object_ops kilni_graph_kind;

void kilni_object_init(struct kilni_object *object,
		       const struct kilni_object_ops *ops);

static inline void kilni_object_retain(struct kilni_object *object)
{
	__atomic_add_fetch(&object->refs, 1, __ATOMIC_RELAXED);
}

/* Whether that was the last reference; never in a forked child. */
bool kilni_object_drop(struct kilni_object *object);

/*
 * The border check of every handle: not NULL, of the right kind, not
 * inherited. fn and name are for the message.
 */
enum kiln_status kilni_object_refuse(const struct kilni_object *object,
				     const struct kilni_object_ops *ops,
				     const char *fn, const char *name);

static inline enum kiln_status
kilni_object_check(const void *handle, const struct kilni_object_ops *ops,
		   const char *fn, const char *name)
{
	const struct kilni_object *object = handle;

	if (KILNI_LIKELY(object && object->ops == ops &&
			 object->epoch == kilni_fork_epoch))
		return KILN_OK;
	return kilni_object_refuse(object, ops, fn, name);
}

#define KILNI_CHECK_TENSOR(t, fn)                                              \
	KILNI_TRY(kilni_object_check(t, &kilni_tensor_kind, fn, #t))
#define KILNI_CHECK_DEVICE(d, fn)                                              \
	KILNI_TRY(kilni_object_check(d, &kilni_device_kind, fn, #d))

/* The place of a result: not NULL, holding NULL or a live tensor. */
enum kiln_status kilni_check_out(struct kiln_tensor *const *out,
				 const char *fn);

/* ---- device ---- */

struct kiln_device {
	struct kilni_object object;
	struct kiln_device *next;    /* in the registry */
	uint64_t id;                 /* never reused in a process */
	struct kilni_hw *hw;
	struct kilni_sched *sched;
	struct kilni_memory_limits limits;
	struct kilni_plan_slot *plan; /* NULL where nobody asked for a report */
	char selector[64];
	struct kilni_hw_info info;   /* what the driver said of it */
	bool fills;                  /* new memory: KILN_MEMORY_FILL */
	bool admits;                 /* its driver is asked for each job */
	struct kilni_option_set *options; /* given at the opening, or NULL */

	pthread_mutex_t staging;     /* who changes marks, until it is done */
	pthread_mutex_t marking;     /* of marks; held while memory is pinned */
	struct kilni_mark *marks;    /* host memory used for transfers */
	pthread_mutex_t lock;        /* of what follows */
	struct kiln_settings settings;
	int settings_fixed;          /* atomic */
	uint64_t seed;
	uint64_t counter;            /* of random blocks */
};

/* Not inherited by a child of fork. */
static inline bool kilni_device_is_own(const struct kiln_device *device)
{
	return device->object.epoch == kilni_fork_epoch;
}

static inline struct kilni_pools *kilni_device_pools(struct kiln_device *device)
{
	return kilni_sched_pools(device->sched);
}

/* A lost device, or one whose stream of this thread has failed, has none. */
bool kilni_has_report(struct kiln_device *device);

/* Runs fn on the device of that id where it is still open; see thread.c. */
void kilni_device_if_alive(uint64_t id,
			   void (*fn)(struct kiln_device *device, void *arg),
			   void *arg);

/* The device closes: gives all marked memory back. */
void kilni_marks_end(struct kiln_device *device);

/* First tensor operation: settings are fixed from here on. */
static inline void kilni_device_fix_settings(struct kiln_device *device)
{
	if (KILNI_UNLIKELY(!__atomic_load_n(&device->settings_fixed,
					    __ATOMIC_RELAXED)))
		__atomic_store_n(&device->settings_fixed, 1, __ATOMIC_RELAXED);
}

/* Takes blocks of the random counter. */
void kilni_device_random(struct kiln_device *device, uint64_t blocks,
			 uint64_t *seed, uint64_t *counter);

/* ---- the calling thread's part of a device ---- */

struct kilni_thread {
	uint64_t device_id;
	struct kilni_stream *own;     /* NULL until needed */
	struct kiln_stream *current;  /* NULL: own; else a reference */
	struct kilni_stream *stream;  /* the slot that work goes to, or NULL */
	unsigned persistent;          /* depth of persistent scopes */
	unsigned persistent_floor;    /* depth that kiln_persistent_run keeps */
};

/* The entry used last. Every op asks for it, so it must not cost a call. */
extern _Thread_local struct kilni_thread *kilni_thread_recent
	__attribute__((tls_model("initial-exec")));

enum kiln_status kilni_thread_find(struct kiln_device *device,
				   struct kilni_thread **out);

/* The calling thread's part of the device, with a stream to work on. */
static inline enum kiln_status kilni_thread_get(struct kiln_device *device,
						struct kilni_thread **out)
{
	struct kilni_thread *recent = kilni_thread_recent;

	if (KILNI_LIKELY(recent && recent->device_id == device->id &&
			 recent->stream)) {
		*out = recent;
		return KILN_OK;
	}
	return kilni_thread_find(device, out);
}

static inline enum kiln_status
kilni_thread_stream(struct kiln_device *device, struct kilni_stream **out)
{
	struct kilni_thread *thread;

	KILNI_TRY(kilni_thread_get(device, &thread));
	*out = thread->stream;
	return KILN_OK;
}

/* The calling thread's stream on the device where it has one, else NULL. */
struct kilni_stream *kilni_thread_peek(const struct kiln_device *device);

/* Makes current (its reference is taken over), or NULL for the own one. */
void kilni_thread_set(struct kilni_thread *thread,
		      struct kiln_stream *current);

/* ---- stream ---- */

/* The public object of a stream's slot; made once per slot. */
struct kiln_stream {
	struct kilni_object object;
	struct kiln_device *device;  /* held while there are references */
	struct kilni_stream *slot;   /* likewise */
};

/* The border check of a stream: a live handle of this process. */
enum kiln_status kilni_stream_check(const struct kiln_stream *stream,
				    const char *fn);
/* NULL stream: the calling thread's. Else checks that it is live and of device. */
enum kiln_status kilni_stream_choose(const char *fn, struct kiln_device *device,
				     struct kiln_stream *stream,
				     struct kilni_stream **out);

/* ---- completions ---- */

/* A completion that has its place in a ring, and is posted or given back. */
struct kilni_posting {
	struct kiln_completions *ring;
	uint64_t user;
	uint32_t op;           /* or KILNI_OP_NONE */
};

/* Takes a place. KILN_ERR_BUSY: there is none. KILN_ERR_INVALID. */
enum kiln_status kilni_posting_take(struct kilni_posting *posting,
				    struct kiln_completions *ring,
				    uint64_t user, const char *fn);
/* Any thread; afterwards only kilni_posting_end is left to be called. */
void kilni_posting_post(const struct kilni_posting *posting,
			enum kiln_status status, uint64_t value);
/* Instead of posting. */
void kilni_posting_cancel(const struct kilni_posting *posting);
/* Gives the reference to the ring back. */
void kilni_posting_end(struct kilni_posting *posting);

/* ---- storage ---- */

enum kilni_storage_flags {
	KILNI_STORAGE_FOREIGN = 1,
	KILNI_STORAGE_READ_ONLY = 2
};

/*
 * The references are those of tensors, which can_mut looks at. All of them
 * together are one hold, and each graph that uses the storage is one more.
 */
struct kilni_storage {
	int refs;
	int holds;                   /* atomic */
	unsigned flags;
	struct kiln_device *device;
	uint64_t address, bytes;
	struct kilni_track track;
	struct kilni_slice slice;
	uint64_t window;             /* of a graph that it was made for, or 0 */
	bool fresh;                  /* made in that graph's capture */
	kiln_deleter deleter;
	void *data, *user;
};

/* A temporary one is never persistent, whatever scope is open. */
enum kiln_status kilni_storage_create(struct kilni_storage **out,
				      struct kiln_device *device,
				      uint64_t bytes, bool temporary);
/* Of somebody else, with enum kiln_foreign_flags; the caller sets a deleter. */
enum kiln_status kilni_storage_foreign(struct kilni_storage **out,
				       struct kiln_device *device, void *data,
				       uint64_t bytes, unsigned flags);
void kilni_storage_release(struct kilni_storage *storage);

/* A hold less; the last one ends the storage. */
void kilni_storage_drop(struct kilni_storage *storage);

/* ---- graphs; see graph.c ---- */

/*
 * What storages need of the calling thread's stream where a graph is being
 * prepared on it: memory of the graph in place of new, and that new memory
 * becomes the graph's.
 */
struct kilni_storage *kilni_window_take(struct kilni_stream *stream,
					uint64_t bytes, bool persistent);
enum kiln_status kilni_window_add(struct kilni_stream *stream,
				  struct kilni_storage *storage,
				  bool persistent);

/* KILN_ERR_CAPTURE where the calling thread's stream is captured. */
enum kiln_status kilni_window_refuse(const char *fn,
				     const struct kiln_device *device);
enum kiln_status kilni_window_refuse_read(const char *fn,
					  const struct kiln_tensor *tensor);
/* The same for a stream. */
enum kiln_status kilni_window_refuse_on(const char *fn,
					const struct kilni_stream *stream);

/* ---- plans: what a planned process (KILN_PLAN) reports; see plan.h ---- */

extern int kilni_plan_on, kilni_plan_worked; /* atomic */
void kilni_plan_note_memory(struct kiln_device *device, uint64_t bytes);
void kilni_plan_note_wait(struct kiln_device *device);

static inline bool kilni_is_planned(void)
{
	return KILNI_UNLIKELY(
		__atomic_load_n(&kilni_plan_on, __ATOMIC_RELAXED));
}

/* Memory was asked for and had. */
static inline void kilni_plan_memory(struct kiln_device *device, uint64_t bytes)
{
	if (kilni_is_planned())
		kilni_plan_note_memory(device, bytes);
}

/* Work was submitted. */
static inline void kilni_plan_work(void)
{
	if (kilni_is_planned())
		__atomic_store_n(&kilni_plan_worked, 1, __ATOMIC_RELEASE);
}

/* The caller waited for work of the device: a step may have ended. */
static inline void kilni_plan_wait(struct kiln_device *device)
{
	if (kilni_is_planned())
		kilni_plan_note_wait(device);
}

/* ---- tensor ---- */

struct kiln_tensor {
	struct kilni_object object;
	uint8_t dtype, rank;
	bool dense;                  /* row-major without gaps */
	struct kiln_device *device;
	struct kilni_storage *storage;
	uint64_t address;            /* of element 0, 0, ... */
	int64_t count;
	int64_t shape[KILN_RANK_MAX];
	int64_t stride[KILN_RANK_MAX]; /* bytes */
};

static inline int64_t kilni_size(const struct kiln_tensor *t)
{
	return kilni_dtype_bytes[t->dtype];
}

static inline enum kiln_dtype kilni_dtype(const struct kiln_tensor *t)
{
	return (enum kiln_dtype)t->dtype;
}

/* Whether sizes are alike; in line, for most ranks are small. */
static inline bool kilni_same_sizes(int rank, const int64_t *a,
				    const int64_t *b)
{
	for (int d = 0; d < rank; d++)
		if (a[d] != b[d])
			return false;
	return true;
}

static inline bool kilni_same_shape(const struct kiln_tensor *a,
				    const struct kiln_tensor *b)
{
	return a->rank == b->rank &&
	       kilni_same_sizes(a->rank, a->shape, b->shape);
}

/* Dense, and nothing else lies in its storage. */
static inline bool kilni_is_whole(const struct kiln_tensor *t)
{
	return t->dense &&
	       (uint64_t)(t->count * kilni_size(t)) == t->storage->bytes;
}

/* A new dense tensor with a storage of its own; arguments are good. */
enum kiln_status kilni_tensor_create(struct kiln_tensor **out,
				     struct kiln_device *device,
				     enum kiln_dtype dtype, int rank,
				     const int64_t *shape);

/* A new view of t's storage; takes a reference to it. */
enum kiln_status kilni_tensor_view(struct kiln_tensor **out,
				   const struct kiln_tensor *t, int rank,
				   const int64_t *shape, const int64_t *stride,
				   uint64_t address);

/* Puts result, a new reference, into the place. */
static inline void kilni_assign(struct kiln_tensor **out,
				struct kiln_tensor *result)
{
	struct kiln_tensor *old = *out;

	*out = result;
	kiln_tensor_release(old);
}

/* Whether a result of that form may be written into t. */
bool kilni_result_fits(const struct kiln_tensor *t,
		       const struct kiln_device *device, enum kiln_dtype dtype,
		       int rank, const int64_t *shape);

/*
 * The tensor that a result goes to: *out itself where it has the form and no
 * other owner, else a new one. In place means that *out may be an operand;
 * else the operands given must not be *out.
 */
enum kiln_status kilni_result(struct kiln_tensor **out,
			      struct kiln_device *device,
			      enum kiln_dtype dtype, int rank,
			      const int64_t *shape, bool in_place,
			      struct kiln_tensor *const *operands, int count,
			      struct kiln_tensor **result);

/* After the submission: assigns or, on failure, drops the result. */
enum kiln_status kilni_settle(struct kiln_tensor **out,
			      struct kiln_tensor *result,
			      enum kiln_status status);

/* Copies the elements of a view, whose element 0 is at origin, to dense ones. */
void kilni_tensor_pack(const struct kiln_tensor *t, void *to,
		       const void *origin);
/* The reverse. */
void kilni_tensor_unpack(const struct kiln_tensor *t, void *origin,
			 const void *from);
/* Makes every element of a bool view 0 or 1: anything but 0 is 1. */
void kilni_tensor_make_bools(const struct kiln_tensor *t, void *origin);
/*
 * Writes data, dense and from malloc, which it frees, in the order of the
 * tensor's uses. Never waits.
 */
enum kiln_status kilni_upload_async(struct kiln_tensor *t, void *data);
/* Whether *dst may be written whatever its owners. KILN_ERR_INVALID. */
enum kiln_status kilni_check_destination(const struct kiln_tensor *dst,
					 const char *fn);

/* A reference to t, or to a dense copy of it. */
enum kiln_status kilni_tensor_dense(struct kiln_tensor **out,
				    struct kiln_tensor *t);

/*
 * What will become the result of an op that changes part of t: t itself where
 * it may be written in place, else a copy.
 */
enum kiln_status kilni_tensor_base(struct kiln_tensor **out,
				   struct kiln_tensor *t,
				   struct kiln_tensor **base);

/* ---- layout ---- */

/* Product of the sizes; KILN_ERR_OVERFLOW where its bytes exceed 2^63. */
enum kiln_status kilni_shape_count(const char *fn, int rank,
				   const int64_t *shape, size_t element_bytes,
				   int64_t *count);
/* 1 <= rank <= 8, sizes not negative. */
enum kiln_status kilni_shape_check(const char *fn, int rank,
				   const int64_t *shape);
void kilni_dense_strides(int rank, const int64_t *shape,
			 int64_t element_bytes, int64_t *stride);
bool kilni_is_dense(int rank, const int64_t *shape, const int64_t *stride,
		    int64_t element_bytes);
/* "[2, 3]" for messages. */
const char *kilni_shape_text(char *buffer, size_t size, int rank,
			     const int64_t *shape);
/* Broadcasts t's shape into *rank, shape. KILN_ERR_SHAPE. */
enum kiln_status kilni_broadcast(const char *fn, const struct kiln_tensor *t,
				 int *rank, int64_t *shape);
/* Element strides of t seen as shape; axes that stretch get 0. */
void kilni_broadcast_strides(const struct kiln_tensor *t, int rank,
			     const int64_t *shape, int64_t *stride);
/* Merges axes that count operands agree on; drops those of size 1. */
int kilni_merge_axes(int rank, uint64_t *shape, int count,
		     int64_t (*stride)[KILN_RANK_MAX]);
/* Lowest address and extent in bytes of t's elements. */
void kilni_extent(const struct kiln_tensor *t, uint64_t *address,
		  uint64_t *bytes);

/* Whether memory of one may be memory of the other. */
bool kilni_overlaps(const struct kiln_tensor *a, const struct kiln_tensor *b);
/* Whether two elements may lie at one place: broadcast views, windows. */
bool kilni_overlaps_itself(const struct kiln_tensor *t);

/* ---- scalars ---- */

/* The scalar as the compute type of dtype holds it; see kernels/abi.h. */
enum kiln_status kilni_scalar_bits(const char *fn, struct kiln_scalar scalar,
				   enum kiln_dtype dtype, uint64_t *bits);

static inline bool kilni_is_class(enum kiln_dtype dtype, unsigned classes)
{
	return classes >> kiln_dtype_class(dtype) & 1;
}

bool kilni_is_dtype(int dtype);
/* KILN_ERR_DTYPE where t's class is not in the set. */
enum kiln_status kilni_check_class(const char *fn, const struct kiln_tensor *t,
				   unsigned classes);
/* dtype is of the table, of the classes, and of the device. */
enum kiln_status kilni_check_dtype(const char *fn,
				   const struct kiln_device *device,
				   enum kiln_dtype dtype, unsigned classes);
enum kiln_status kilni_check_dim(const char *fn, const struct kiln_tensor *t,
				 int dim);
/* Both of one device; dtypes alike. */
enum kiln_status kilni_check_device(const char *fn,
				    const struct kiln_tensor *a,
				    const struct kiln_tensor *b);
enum kiln_status kilni_check_alike(const char *fn,
				   const struct kiln_tensor *a,
				   const struct kiln_tensor *b);

/* ---- launching ---- */

static inline void kilni_job_init(struct kilni_job *job,
				  enum kilni_kernel kernel, enum kilni_op op,
				  size_t params_bytes)
{
	job->entry.kind = KILNI_ENTRY_KERNEL;
	job->entry.kernel = (uint8_t)kernel;
	job->entry.op = (uint16_t)op;
	job->entry.operands = 0;
	job->entry.params_bytes = (uint16_t)params_bytes;
	job->entry.user = 0;
}

static inline void kilni_job_operand(struct kilni_job *job,
				     const struct kiln_tensor *t,
				     uint32_t access)
{
	uint64_t address = t->address;
	uint64_t bytes = (uint64_t)(t->count * kilni_size(t));

	if (!t->dense)
		kilni_extent(t, &address, &bytes);
	kilni_job_add(job, &t->storage->track, address, bytes, access);
}

/* An operand of no bytes: what the storage stands for is in use. */
void kilni_job_keep(struct kilni_job *job, struct kilni_storage *storage);
/* On the calling thread's stream of the device. */
enum kiln_status kilni_job_submit(struct kilni_job *job,
				  struct kiln_device *device);
/*
 * The same with so many bytes of workspace as a further operand. address is the
 * job's parameter for where it lies; 0 where none is needed.
 */
enum kiln_status kilni_job_submit_with(struct kilni_job *job,
				       struct kiln_device *device,
				       uint64_t bytes, uint64_t *address);

/* An elementwise op; slot j is in[j], or scalar[j] where that is NULL. */
struct kilni_ew {
	const char *fn;
	enum kilni_op op;
	enum kiln_dtype dtype;       /* of the result */
	int count;                   /* slots */
	struct kiln_tensor *in[3];
	uint64_t scalar[3];
	/* Set and read where op is RANDOM. */
	uint8_t distribution;
	uint64_t seed, counter;
};

/* Broadcasts the operands and assigns the result. */
enum kiln_status kilni_ew_run(struct kiln_tensor **out,
			      const struct kilni_ew *ew);
/* Writes into dst, a view of any strides; operands broadcast to its shape. */
enum kiln_status kilni_ew_into(struct kiln_tensor *dst,
			       const struct kilni_ew *ew);
/* dst = src, same dtype. */
enum kiln_status kilni_copy(const char *fn, struct kiln_tensor *dst,
			    struct kiln_tensor *src);

#endif
