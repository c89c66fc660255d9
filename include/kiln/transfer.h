/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_TRANSFER_H
#define KILN_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/completion.h>
#include <kiln/export.h>
#include <kiln/status.h>
#include <kiln/tensor.h>

KILN_BEGIN_DECLS

/*
 * Data that moves between the host and tensors while the caller goes on, and
 * several tensors at once.
 *
 * A transfer waits for what its tensors depend on, for no other work, and not
 * on the calling thread. It is ordered like an op: it sees or replaces what
 * the tensors hold at the call, whatever is queued or released afterwards.
 * It is on no stream of the caller's: kiln_device_sync waits for it,
 * kiln_stream_sync does not.
 *
 * It does not wait for kernels of other streams that run on the device. Not so
 * on Vulkan devices whose memory the host does not reach well and that have no
 * queue for transfers (kiln_device_describe tells both): there a copy begins
 * when what the device was handed before is done.
 *
 * What is neither marked (kiln_device_stage) nor read or written by the host in
 * the device's memory itself goes by way of memory of kiln's own, up to 64 MiB
 * for a device from the first large copy on, and from 4 MiB on by up to 8
 * threads that live as long as the copy, but by no more than the CPUs that the
 * calling thread may use.
 *
 * The host's buffers belong to the transfer from the call until its completion
 * is in the ring, whatever the status; if the call fails, they never did.
 */

/**
 * kiln_tensor_read_async - copies the elements to the host, and posts
 * @data: receives bytes bytes; may be NULL where bytes is 0
 * @bytes: must be kiln_tensor_size_bytes()
 * @user: comes back in the completion
 *
 * The data is as kiln_tensor_read gives it. The completion carries the name of
 * the op that last wrote the tensor ("": none has), and what kiln_tensor_read
 * would return: KILN_OK, the error of that work (told once, as by a read;
 * kiln_stream_failure still has its text), KILN_ERR_DEPENDENCY,
 * KILN_ERR_DEVICE_LOST or a driver's error. Nothing is written where the work
 * failed. A small tensor that is there already has been copied, and the
 * completion posted, when the call returns. Does not wait.
 *
 * KILN_ERR_BUSY: the completion ring, or the queue of such transfers, is full.
 * KILN_ERR_NO_MEMORY, KILN_ERR_LIMIT (no thread, or no stream is left),
 * KILN_ERR_DEVICE_LOST, KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_read_async(struct kiln_tensor *tensor, void *data, size_t bytes,
		       struct kiln_completions *ring, uint64_t user);

/**
 * kiln_tensor_write_async - replaces the elements by the host's, and posts
 * @data: bytes bytes, dense and row-major; may be NULL where bytes is 0
 * @bytes: must be kiln_tensor_size_bytes()
 * @user: comes back in the completion
 *
 * Writes into the tensor's storage whatever its owners, as kiln_copy_into
 * does: what was queued before sees the old value, what comes later the new
 * one. For bool dtypes anything but 0 becomes 1. The completion's status is
 * KILN_OK, KILN_ERR_DEPENDENCY (the tensor is a part of a storage that has
 * failed), KILN_ERR_DEVICE_LOST or a driver's error; after one of these the
 * tensor has failed, as after an op. Does not wait.
 *
 * Statuses as kiln_tensor_read_async; KILN_ERR_INVALID also for a tensor that
 * is read-only or whose elements share memory.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_tensor_write_async(struct kiln_tensor *tensor, const void *data,
			size_t bytes, struct kiln_completions *ring,
			uint64_t user);

/* One of the reads of a transaction; as kiln_tensor_read. Will not grow. */
struct kiln_read {
	struct kiln_tensor *tensor;
	void *data;
	size_t bytes;
};

/**
 * kiln_transaction_read - reads several tensors of one device at once
 * @reads: count reads
 *
 * All or nothing: waits for the work that the tensors depend on, and where any
 * of it failed returns the error of the first such tensor in the order of the
 * array, and writes to no buffer. Only where the copy itself fails (a driver's
 * error, KILN_ERR_DEVICE_LOST) may some have been written. All their work is
 * handed over before the first wait; on a GPU each tensor is then a copy of its
 * own. Statuses as kiln_tensor_read; KILN_ERR_DEVICE: the tensors are of
 * several devices. Blocks.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_transaction_read(const struct kiln_read *reads, size_t count);

/**
 * kiln_transaction_read_async - the same with one completion for all
 * @reads: count reads, at least one; the array is the caller's again at return
 * @user: comes back in the completion
 *
 * The completion's status is what kiln_transaction_read would return; its op
 * is the one that wrote the tensor that failed, or "". Does not wait. Statuses
 * as kiln_tensor_read_async, and KILN_ERR_DEVICE.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_transaction_read_async(const struct kiln_read *reads, size_t count,
			    struct kiln_completions *ring, uint64_t user);

/* Memory of the host. Will not grow. */
struct kiln_host_range {
	void *data;
	size_t bytes;
};

/**
 * kiln_device_stage - marks host memory as used for transfers with the device
 * @ranges: count ranges; those of 0 bytes are passed over
 *
 * A hint: where the device gains by it the memory is pinned, so that uploads
 * and reads go straight to and from it; else, and where the system refuses,
 * nothing happens. CUDA pins, and so does Vulkan with
 * VK_EXT_external_memory_host where the host cannot read the device's memory
 * well; the CPU has nothing to gain. A range may be marked more than once. It
 * must not be freed before it was given back as often, or the device is closed;
 * until then it counts as locked memory of the process.
 *
 * KILN_ERR_INVALID, KILN_ERR_NO_MEMORY, KILN_ERR_DEVICE_LOST, KILN_ERR_FORKED;
 * then nothing has been marked. Pinning takes its time: 40 us for a megabyte.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_stage(struct kiln_device *device,
		  const struct kiln_host_range *ranges, size_t count);

/**
 * kiln_device_unstage - gives marked memory back
 * @ranges: as they were marked; others are passed over
 *
 * Not while an asynchronous transfer owns the memory. May wait for a copy that
 * is under way. KILN_ERR_DEVICE_LOST: given back, but a device that is lost may
 * still be at a copy: the memory must stay until it is closed, and for good
 * where it was lost because it does not answer (KILN_VULKAN_TIMEOUT_MS).
 * KILN_ERR_INVALID, KILN_ERR_FORKED.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_unstage(struct kiln_device *device,
		    const struct kiln_host_range *ranges, size_t count);

/**
 * kiln_device_pins - whether the memory is pinned for the device
 *
 * For who wants to know what a mark did. False in the child of a fork. Cannot
 * fail. Waits where another thread is marking memory.
 */
KILN_API bool kiln_device_pins(const struct kiln_device *device,
			       const void *data, size_t bytes);

KILN_END_DECLS

#endif
