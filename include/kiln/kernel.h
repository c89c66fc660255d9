/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/dtype.h>
#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * A kernel of the program's own: a C function on the CPU, SPIR-V on Vulkan,
 * PTX or a cubin on CUDA. It is loaded once for a device and then submitted
 * like any op: on the calling thread's stream, ordered by its tensors, failed
 * with what they depend on. The null device takes any kernel and runs none.
 *
 * The ABI, version KILN_KERNEL_ABI: a kernel takes one block of parameters,
 * plain data of the program's choice up to KILN_KERNEL_PARAMS_BYTES. Tensors
 * are 64-bit addresses in it, that of element 0, at places that each call
 * names; kiln fills them in. The first 8 bytes are the address of a report, or
 * 0; kiln fills that too.
 *
 * In C the function gets a pointer to the block and a range of elements.
 *
 * On CUDA the entry takes the block as its one parameter, by value.
 *
 * On Vulkan the first 8 bytes of the push constants are the block's address
 * (buffer device address, scalar layout); there are no descriptor sets. The
 * specialization constant 4 is the size of a workgroup in x.
 *
 * On a GPU there are about as many threads as elements, in one dimension; a
 * kernel strides: i = its number; i < elements; i += number of all threads.
 * How many elements there are is told by nothing but the block.
 */
struct kiln_kernel;

#define KILN_KERNEL_ABI 1

/* Most bytes of a block of parameters. */
#define KILN_KERNEL_PARAMS_BYTES 384

/* Most tensors of a call, a new result among them. */
#define KILN_KERNEL_OPERANDS 6

/* What the code of a kernel is. */
enum kiln_kernel_code {
	KILN_KERNEL_C = 0,         /* function: CPU, null */
	KILN_KERNEL_SPIRV = 1,     /* data: Vulkan, null */
	KILN_KERNEL_PTX = 2,       /* data, a text: CUDA, null */
	KILN_KERNEL_CUBIN = 3      /* data: CUDA, null */
};

/*
 * A kernel in C: does elements begin to end - 1. It is called on threads of
 * the driver, several at once for one submission, with ranges that are cut
 * anywhere, and for small ones on the thread that submits. It must not call
 * kiln, but for kiln_kernel_report_index.
 */
typedef void (*kiln_kernel_function)(const void *params, uint64_t begin,
				     uint64_t end);

enum kiln_kernel_flags {
	/* C: called once, for all elements, on a thread of the driver. */
	KILN_KERNEL_WHOLE = 1,
	/*
	 * Looks at strides itself. Without it an operand that is not dense is
	 * packed first, where it is read, or refused, where it is written.
	 */
	KILN_KERNEL_STRIDED = 2,
	/*
	 * Element i of the new result depends on nothing but elements i of
	 * operands of its dtype: it may take the place of one.
	 */
	KILN_KERNEL_IN_PLACE = 4
};

struct kiln_kernel_info {
	size_t struct_size;        /* set by the caller: sizeof */
	uint32_t abi;              /* KILN_KERNEL_ABI */
	enum kiln_kernel_code code;
	const char *name;          /* for messages and completions; copied */
	kiln_kernel_function function;
	const void *data;          /* SPIR-V, PTX, cubin; copied */
	size_t data_bytes;
	const char *entry;         /* its name there; NULL: "main" */
	uint32_t params_bytes;     /* of the block: 8, 16, ... */
	uint32_t group;            /* GPU: threads of a group; 0: 256 */
	unsigned flags;            /* enum kiln_kernel_flags */
};

#define KILN_KERNEL_INFO_INIT                                                  \
	{ sizeof(struct kiln_kernel_info), KILN_KERNEL_ABI, KILN_KERNEL_C,     \
	  NULL, NULL, NULL, 0, NULL, 0, 0, 0 }

/**
 * kiln_kernel_load - a kernel of the program's own for a device
 * @out: NULL or a live reference on entry, which is released
 * @info: the code and how it is called; nothing of it but a C function has to
 *        stay
 *
 * A name is 1 to 47 letters, digits and '_'; a process may load kernels of 256
 * different ones. SPIR-V is checked as far as its structure goes (words, instructions,
 * the entry point), PTX by the driver that compiles it; what either does is up
 * to the one who wrote it.
 *
 * KILN_ERR_INVALID: NULL, a struct_size or ABI that is unknown, a name, flags
 * or a size of the block out of range, code that is cut short or malformed, an
 * entry that is not in it; the message says which.
 * KILN_ERR_UNSUPPORTED: the device takes another kind of code, the cubin is for
 * other devices, or SPIR-V declares 64-bit floats and the device has none.
 * KILN_ERR_LIMIT: too many names, a group that the device does not take or, on
 * CUDA, the kernel.
 * KILN_ERR_DRIVER, KILN_ERR_DRIVER_TOO_OLD, KILN_ERR_DEVICE_LOST,
 * KILN_ERR_NO_MEMORY, KILN_ERR_OUT_OF_MEMORY, KILN_ERR_FORKED. Compiles where
 * the device has to, so it may take long.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_kernel_load(struct kiln_kernel **out, struct kiln_device *device,
		 const struct kiln_kernel_info *info);

/** kiln_kernel_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_kernel *kiln_kernel_retain(struct kiln_kernel *kernel);

/**
 * kiln_kernel_release - gives one reference back; NULL is allowed
 *
 * Right from any thread and with work in flight: the code is unloaded behind
 * it. A C function has to stay until that work is done.
 */
KILN_API void kiln_kernel_release(struct kiln_kernel *kernel);

/* How a kernel uses an operand. */
enum kiln_access {
	KILN_ACCESS_READ = 1,
	KILN_ACCESS_WRITE = 2,
	KILN_ACCESS_READ_WRITE = 3
};

/*
 * A tensor of a call. One that is written changes whoever holds it, as by
 * kiln_copy_into, and must not be read-only, lie over itself or over another
 * operand.
 */
struct kiln_kernel_operand {
	struct kiln_tensor *tensor;
	enum kiln_access access;
	uint32_t place;            /* of its address in the block: 8, 16, ... */
};

/* A tensor that a call makes: dense, all of it written by the kernel. */
struct kiln_kernel_result {
	struct kiln_tensor **out;  /* NULL or a live reference on entry */
	enum kiln_dtype dtype;
	int rank;
	const int64_t *shape;
	uint32_t place;
};

struct kiln_kernel_call {
	size_t struct_size;        /* set by the caller: sizeof */
	const void *params;        /* the block; addresses may be blank */
	uint64_t elements;
	uint32_t groups;           /* GPU: exactly so many; 0: by elements */
	uint32_t operand_count;
	const struct kiln_kernel_operand *operands;
	const struct kiln_kernel_result *result; /* or NULL */
};

#define KILN_KERNEL_CALL_INIT                                                  \
	{ sizeof(struct kiln_kernel_call), NULL, 0, 0, 0, NULL, NULL }

/**
 * kiln_kernel_submit - queues a kernel like an op
 * @call: copied; the block is as long as the kernel was loaded with
 *
 * The result is assigned as that of any op. Of 0 elements nothing is run and
 * an empty result made. What every op may return, and KILN_ERR_INVALID: a
 * struct_size that is unknown, no params, a place that is not a multiple of 8,
 * not inside the block, the report's or given twice, too many operands, an
 * access that is none, an operand that must not be written, no elements for a
 * result that has some. KILN_ERR_SHAPE: a tensor to write that is not dense.
 * KILN_ERR_DEVICE: a tensor of another device. KILN_ERR_LIMIT: more groups
 * than the device takes. Thread-safe; does not wait.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_kernel_submit(struct kiln_kernel *kernel,
		   const struct kiln_kernel_call *call);

/*
 * What the first 8 bytes of a block lead to. A kernel on a GPU that meets an
 * index out of range lowers position atomically (64 bits, minimum) and, where
 * that was greater before, sets value and bound; the address may be 0. All
 * that was computed fails then, as by an op: KILN_ERR_INDEX.
 */
struct kiln_kernel_report {
	uint64_t position;         /* of the element; UINT64_MAX: none */
	int64_t value;             /* the index */
	int64_t bound;             /* it is not in 0 .. bound - 1 */
};

/**
 * kiln_kernel_report_index - from a kernel in C: an index is out of range
 * @params: as the function got it
 * @position: of the element; the least one is told
 *
 * Does nothing else: the function skips the element itself. Thread-safe.
 */
KILN_API void kiln_kernel_report_index(const void *params, uint64_t position,
				       int64_t value, int64_t bound);

KILN_END_DECLS

#endif
