/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_STATUS_H
#define KILN_STATUS_H

#include <stddef.h>

#include <kiln/export.h>

KILN_BEGIN_DECLS

/*
 * Status codes. The one table of them: name, value, scope, text.
 *
 * The scope says what is damaged and has to be rebuilt before work can go on:
 * nothing but this call, one buffer (tensor), one stream, or the device.
 */
#define KILN_STATUS_TABLE(X)                                                   \
	X(KILN_OK, 0, CALL, "success")                                         \
	X(KILN_ERR_INVALID, -1, CALL, "invalid argument")                      \
	X(KILN_ERR_SHAPE, -2, CALL, "shapes do not fit")                       \
	X(KILN_ERR_DTYPE, -3, CALL, "wrong dtype")                             \
	X(KILN_ERR_DEVICE, -4, CALL, "operands on different devices")          \
	X(KILN_ERR_INDEX, -5, BUFFER, "index out of range")                    \
	X(KILN_ERR_EMPTY, -6, CALL, "reduction over an empty axis")            \
	X(KILN_ERR_OVERFLOW, -7, CALL, "size overflows")                       \
	X(KILN_ERR_NO_MEMORY, -8, CALL, "out of host memory")                  \
	X(KILN_ERR_OUT_OF_MEMORY, -9, CALL, "out of device memory")            \
	X(KILN_ERR_LIMIT, -10, CALL, "a limit is exceeded")                    \
	X(KILN_ERR_UNSUPPORTED, -11, CALL, "not supported by the device")      \
	X(KILN_ERR_UNSUPPORTED_DTYPE, -12, CALL,                               \
	  "dtype not supported by the device")                                 \
	X(KILN_ERR_ALREADY_INITIALIZED, -13, CALL,                             \
	  "device settings are already fixed")                                 \
	X(KILN_ERR_NO_DEVICE, -14, CALL, "no such device")                     \
	X(KILN_ERR_SELECTOR, -15, CALL, "malformed device selector")           \
	X(KILN_ERR_OPTION, -16, CALL, "malformed option")                      \
	X(KILN_ERR_DEPENDENCY, -17, BUFFER, "an earlier operation failed")     \
	X(KILN_ERR_POISONED, -18, STREAM, "stream is poisoned until reset")    \
	X(KILN_ERR_BUSY, -19, CALL, "queue is full or object in use")          \
	X(KILN_ERR_DEVICE_LOST, -20, DEVICE, "device is lost")                 \
	X(KILN_ERR_DRIVER, -21, STREAM, "a driver call failed")                \
	X(KILN_ERR_FORKED, -22, DEVICE, "object inherited through fork")       \
	X(KILN_ERR_IO, -23, CALL, "input or output failed")                    \
	X(KILN_ERR_INTERNAL, -24, DEVICE, "internal error")                    \
	X(KILN_ERR_DRIVER_TOO_OLD, -25, CALL, "driver is too old")             \
	X(KILN_ERR_TIMEOUT, -26, CALL, "not done within the time limit")       \
	X(KILN_ERR_INTERRUPTED, -27, CALL, "waiting was interrupted")          \
	X(KILN_ERR_CANCELLED, -28, CALL, "stopped by the caller")              \
	X(KILN_ERR_CAPTURE, -29, CALL, "not possible in the capture of a graph")

enum kiln_status {
#define KILN_STATUS_ENUM_(name, value, scope, text) name = value,
	KILN_STATUS_TABLE(KILN_STATUS_ENUM_)
#undef KILN_STATUS_ENUM_
};

/* What a failure damaged; see the table above. */
enum kiln_scope {
	KILN_SCOPE_CALL = 0,
	KILN_SCOPE_BUFFER = 1,
	KILN_SCOPE_STREAM = 2,
	KILN_SCOPE_DEVICE = 3
};

/**
 * kiln_status_name - identifier of a status code, "KILN_ERR_SHAPE"
 *
 * Returns a constant string, "KILN_ERR_UNKNOWN" for a value outside the table.
 * Never fails, never allocates. Thread-safe, does not block.
 */
KILN_API const char *kiln_status_name(enum kiln_status status);

/**
 * kiln_status_text - short English description of a status code
 *
 * Returns a constant string. Never fails. Thread-safe, does not block.
 */
KILN_API const char *kiln_status_text(enum kiln_status status);

/**
 * kiln_status_scope - what the status damaged and has to be rebuilt
 *
 * KILN_SCOPE_CALL for KILN_OK and for a value outside the table.
 * Never fails. Thread-safe, does not block.
 */
KILN_API enum kiln_scope kiln_status_scope(enum kiln_status status);

/**
 * kiln_error_message - detail of the calling thread's latest failure
 *
 * The text names the function, op or setting, the offending value and, where a
 * driver or the system failed, its native code. It is empty before the first failure.
 * A successful call leaves the record as it is. The string belongs to the
 * thread and is valid until its next failing call. Never fails; does not block.
 */
KILN_API const char *kiln_error_message(void);

/**
 * kiln_error_status - status of the calling thread's latest failure
 *
 * KILN_OK before the first one. Never fails; does not block.
 */
KILN_API enum kiln_status kiln_error_status(void);

/**
 * kiln_error_native - native code of the calling thread's latest failure
 *
 * An errno value or a vendor's code where one was the cause, else 0.
 * Never fails; does not block.
 */
KILN_API int kiln_error_native(void);

/** kiln_error_clear - empties the calling thread's error record */
KILN_API void kiln_error_clear(void);

KILN_END_DECLS

#endif
