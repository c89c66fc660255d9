/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/dtype.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * A device: the memory, the queues and the kernels of one compute resource.
 * Handles are reference-counted; two opens of the same resource give the same
 * object. All functions here are thread-safe.
 */
struct kiln_device;

/* Kinds of device; a bit each, for filters. */
enum kiln_device_type {
	KILN_DEVICE_CPU = 1,
	KILN_DEVICE_NULL = 2,
	KILN_DEVICE_CUDA = 4,
	KILN_DEVICE_VULKAN = 8,
	KILN_DEVICE_ANY = 15
};

/* What the hardware behind a device is. */
enum kiln_device_kind {
	KILN_KIND_OTHER = 0,
	KILN_KIND_INTEGRATED = 1,
	KILN_KIND_DISCRETE = 2,
	KILN_KIND_VIRTUAL = 3,
	KILN_KIND_CPU = 4     /* the CPU, also where it plays a GPU */
};

/**
 * kiln_device_open - opens the device that a selector names
 * @out: NULL or a live reference on entry, which is released; on success the new
 *       reference
 * @selector: "auto", "cpu", "vulkan:discrete:0", ... as in kiln(7); NULL takes
 *            KILN_DEVICE from the environment, or "auto" where that is unset
 *
 * "auto" prefers a real GPU and falls back to the CPU, never to a GPU in
 * software. A selector that names an API never falls back to another. "auto"
 * on the CPU where only a permission keeps a card away logs one warning. Where
 * KILN_PLAN is set, any selector gives a device that computes nothing; see
 * kiln-plan(1).
 *
 * KILN_ERR_SELECTOR: the text is not a selector, the message names the part
 * that is wrong; or more than one device's UUID begins so.
 * KILN_ERR_NO_DEVICE: there is no such device.
 * KILN_ERR_DRIVER_TOO_OLD: the vendor's driver; the message has both versions.
 * KILN_ERR_UNSUPPORTED: the device lacks what the message lists.
 * KILN_ERR_OPTION: a KILN_ variable of
 * the environment is malformed; the message quotes it. KILN_ERR_LIMIT: too
 * many streams. KILN_ERR_NO_MEMORY.
 *
 * Blocks while the device starts. See kiln(7) for the selectors.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_open(struct kiln_device **out, const char *selector);

/**
 * kiln_device_open_with - opens a device with options of its own
 * @out: NULL or a live reference on entry, which is released; on success the new
 *       reference
 * @selector: as kiln_device_open
 * @options: "NAME=VALUE ...", separated by blanks, or NULL for none
 *
 * The names are those of kiln-env(7) in lower case and without KILN_, where it
 * says that they are options of a device too; what is given here goes before
 * the environment. So "pages=plain drain=thread" opens one whose memory is
 * never mapped and whose work is submitted by a thread of its own.
 *
 * KILN_ERR_OPTION: an option is unknown, given twice or malformed.
 * KILN_ERR_ALREADY_INITIALIZED: the device is open, and was opened without
 * these options or with other values. Otherwise as kiln_device_open.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_open_with(struct kiln_device **out, const char *selector,
		      const char *options);

/** kiln_device_retain - one more reference; returns its argument. Not NULL. */
KILN_API struct kiln_device *kiln_device_retain(struct kiln_device *device);

/**
 * kiln_device_release - gives one reference back; NULL is allowed
 *
 * Tensors and streams hold references of their own: the device closes with
 * the last of them, after the work that is still queued. In a forked child
 * this does nothing on an inherited handle.
 */
KILN_API void kiln_device_release(struct kiln_device *device);

/** kiln_device_name - "cpu", "null", ...; valid while the device lives. */
KILN_API const char *kiln_device_name(const struct kiln_device *device);

/** kiln_device_selector - the selector that opens exactly this device. */
KILN_API const char *kiln_device_selector(const struct kiln_device *device);

/** kiln_device_type - the device's kind. */
KILN_API enum kiln_device_type
kiln_device_type(const struct kiln_device *device);

/**
 * kiln_device_equal - whether two handles name the same compute resource
 *
 * Cannot fail. Does not block.
 */
KILN_API bool kiln_device_equal(const struct kiln_device *a,
				const struct kiln_device *b);

/**
 * kiln_device_count - number of devices of the given types
 * @types: bits of enum kiln_device_type
 *
 * Those that would not open count too. Asks the vendors' libraries, so that a
 * fork afterwards is not safe; opens nothing. Cannot fail.
 */
KILN_API size_t kiln_device_count(unsigned types);

/* One row of a listing. Begins with its own size so that it may grow. */
struct kiln_device_info {
	size_t struct_size;          /* set by the caller: sizeof */
	enum kiln_device_type type;
	unsigned index;              /* among the devices of its type */
	char selector[64];           /* opens it */
	char name[128];              /* UTF-8 */
	uint64_t memory_bytes;       /* 0 where unknown */
	enum kiln_device_kind kind;
	char pci[32];                /* of its card; "" where unknown */
	char uuid[64];               /* "" where unknown */
	char refused[256];           /* why it does not open; "" */
};

/**
 * kiln_device_enumerate - lists devices without opening them
 * @types: bits of enum kiln_device_type
 * @infos: array of *count elements, each with struct_size set, or NULL
 * @count: in: capacity; out: number of devices of those types
 *
 * Fills at most the given capacity; with infos NULL it only counts. Asks the
 * vendors' libraries, so that a fork afterwards is not safe.
 * KILN_ERR_INVALID: count is NULL or a struct_size is unknown.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_enumerate(unsigned types, struct kiln_device_info *infos,
		      size_t *count);

/**
 * kiln_device_absent - why a driver offers no device
 * @type: one device type
 *
 * Returns a text, or NULL where the driver has devices. The text is constant.
 */
KILN_API const char *kiln_device_absent(enum kiln_device_type type);

/**
 * kiln_device_flush - hands queued work to the device without waiting
 *
 * All streams of the device. KILN_ERR_POISONED: the calling thread's stream
 * is poisoned. KILN_ERR_DEVICE_LOST. KILN_ERR_FORKED. KILN_ERR_INVALID: NULL.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_flush(struct kiln_device *device);

/**
 * kiln_device_sync - waits until all queued work of all streams is done
 *
 * Reports the error of the calling thread's stream, once; errors of other
 * streams stay theirs. Statuses: that error, KILN_ERR_DEVICE_LOST,
 * KILN_ERR_FORKED, KILN_ERR_INVALID. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_sync(struct kiln_device *device);

/**
 * kiln_device_lost - whether the device is lost
 *
 * Then every call that would need it gives KILN_ERR_DEVICE_LOST at once, what
 * was queued has failed, and a device opened after its last reference is gone
 * may work again. Asks the device nothing. Cannot fail. Does not block.
 */
KILN_API bool kiln_device_lost(const struct kiln_device *device);

/**
 * kiln_device_seed - seeds the device's random numbers
 *
 * Random tensors made after it depend on the seed and on the order of the
 * calls alone, on every driver and for any number of workers.
 * KILN_ERR_INVALID, KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_seed(struct kiln_device *device, uint64_t seed);

/**
 * kiln_device_dtype_usage - what the device can do with a dtype
 *
 * Bits of enum kiln_dtype_usage; 0 for a value outside the table, and for what
 * the device lacks (f64 on some Vulkan devices): then no tensor of that dtype
 * can be made there (KILN_ERR_UNSUPPORTED_DTYPE). KILN_USAGE_DENORMALS is of
 * floats, and missing of f32, flex32 and bf16 on Vulkan devices that may flush
 * their denormals. f16 is computed in f32, among whose normal numbers are the
 * denormals of f16. What kiln_matmul says of bf16 is not in it. Cannot fail.
 */
KILN_API unsigned kiln_device_dtype_usage(const struct kiln_device *device,
					  enum kiln_dtype dtype);

/** kiln_device_supports_dtype - storage and arithmetic both. Cannot fail. */
KILN_API bool kiln_device_supports_dtype(const struct kiln_device *device,
					 enum kiln_dtype dtype);

/* Value of a settings field that keeps the device's own default. */
#define KILN_DTYPE_DEFAULT (-1)

/* Defaults for new tensors; each field a dtype or KILN_DTYPE_DEFAULT. */
struct kiln_settings {
	size_t struct_size;
	int float_dtype;
	int int_dtype;
	int bool_dtype;
};

#define KILN_SETTINGS_INIT                                                     \
	{ sizeof(struct kiln_settings), KILN_DTYPE_DEFAULT,                    \
	  KILN_DTYPE_DEFAULT, KILN_DTYPE_DEFAULT }

/**
 * kiln_device_configure - fixes the device's default dtypes
 *
 * Works once, before the first tensor operation on the device. Fields left at
 * KILN_DTYPE_DEFAULT keep the device's own.
 * KILN_ERR_UNSUPPORTED_DTYPE: the device lacks a dtype; settings stay open.
 * This is told before KILN_ERR_ALREADY_INITIALIZED: the settings are fixed.
 * KILN_ERR_DTYPE: a field of the wrong class. KILN_ERR_INVALID.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_configure(struct kiln_device *device,
		      const struct kiln_settings *settings);

/**
 * kiln_device_settings - reads the defaults in force; fixes nothing
 *
 * settings->struct_size must be set. KILN_ERR_INVALID otherwise.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_settings(const struct kiln_device *device,
		     struct kiln_settings *settings);

/**
 * kiln_device_workers - number of threads that run the device's kernels
 *
 * 0 where the device has none of the host's. Cannot fail.
 */
KILN_API unsigned kiln_device_workers(const struct kiln_device *device);

/**
 * kiln_device_describe - one line on how the device was set up
 *
 * For the CPU: instruction-set level, number of workers and why that number.
 * For CUDA: name, address, compute capability, the driver. For Vulkan: name and
 * version, the driver, what kernels have of subgroups, whether there is a queue
 * for transfers, and how the host reaches the device's memory: "reads and
 * writes" it, "writes, copies from" it or "copies to and from" it. For who reads
 * it; what it says may change. Valid while the device lives. Cannot fail.
 */
KILN_API const char *kiln_device_describe(const struct kiln_device *device);

KILN_END_DECLS

#endif
