/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/api.h"

#include "base/base.h"

/*
 * Results of the library: number, name, status, and whether it is sticky, that
 * is whether every later call on the context fails as well. What is not in the
 * table is KILN_ERR_DRIVER.
 */
#define RESULTS(X)                                                             \
	X(1, INVALID_VALUE, INTERNAL, 0)                                       \
	X(2, OUT_OF_MEMORY, OUT_OF_MEMORY, 0)                                  \
	X(3, NOT_INITIALIZED, DRIVER, 0)                                       \
	X(4, DEINITIALIZED, DEVICE_LOST, 1)                                    \
	X(34, STUB_LIBRARY, NO_DEVICE, 0)                                      \
	X(36, CALL_REQUIRES_NEWER_DRIVER, DRIVER_TOO_OLD, 0)                   \
	X(46, DEVICE_UNAVAILABLE, NO_DEVICE, 0)                                \
	X(100, NO_DEVICE, NO_DEVICE, 0)                                        \
	X(101, INVALID_DEVICE, NO_DEVICE, 0)                                   \
	X(102, DEVICE_NOT_LICENSED, NO_DEVICE, 0)                              \
	X(200, INVALID_IMAGE, DRIVER, 0)                                       \
	X(201, INVALID_CONTEXT, DEVICE_LOST, 1)                                \
	X(205, MAP_FAILED, DRIVER, 0)                                          \
	X(206, UNMAP_FAILED, DRIVER, 0)                                        \
	X(209, NO_BINARY_FOR_GPU, UNSUPPORTED, 0)                              \
	X(214, ECC_UNCORRECTABLE, DEVICE_LOST, 1)                              \
	X(218, INVALID_PTX, DRIVER, 0)                                         \
	X(220, NVLINK_UNCORRECTABLE, DEVICE_LOST, 1)                           \
	X(221, JIT_COMPILER_NOT_FOUND, DRIVER, 0)                              \
	X(222, UNSUPPORTED_PTX_VERSION, DRIVER_TOO_OLD, 0)                     \
	X(223, JIT_COMPILATION_DISABLED, DRIVER, 0)                            \
	X(226, CONTAINED, DEVICE_LOST, 1)                                      \
	X(303, SHARED_OBJECT_INIT_FAILED, DRIVER, 0)                           \
	X(304, OPERATING_SYSTEM, DRIVER, 0)                                    \
	X(400, INVALID_HANDLE, INTERNAL, 0)                                    \
	X(500, NOT_FOUND, DRIVER, 0)                                           \
	X(600, NOT_READY, BUSY, 0)                                             \
	X(700, ILLEGAL_ADDRESS, DEVICE_LOST, 1)                                \
	X(701, LAUNCH_OUT_OF_RESOURCES, LIMIT, 0)                              \
	X(702, LAUNCH_TIMEOUT, DEVICE_LOST, 1)                                 \
	X(709, CONTEXT_IS_DESTROYED, DEVICE_LOST, 1)                           \
	X(710, ASSERT, DEVICE_LOST, 1)                                         \
	X(714, HARDWARE_STACK_ERROR, DEVICE_LOST, 1)                           \
	X(715, ILLEGAL_INSTRUCTION, DEVICE_LOST, 1)                            \
	X(716, MISALIGNED_ADDRESS, DEVICE_LOST, 1)                             \
	X(717, INVALID_ADDRESS_SPACE, DEVICE_LOST, 1)                          \
	X(718, INVALID_PC, DEVICE_LOST, 1)                                     \
	X(719, LAUNCH_FAILED, DEVICE_LOST, 1)                                  \
	X(800, NOT_PERMITTED, DRIVER, 0)                                       \
	X(801, NOT_SUPPORTED, UNSUPPORTED, 0)                                  \
	X(802, SYSTEM_NOT_READY, NO_DEVICE, 0)                                 \
	X(803, SYSTEM_DRIVER_MISMATCH, DRIVER_TOO_OLD, 0)                      \
	X(804, COMPAT_NOT_SUPPORTED_ON_DEVICE, NO_DEVICE, 0)                   \
	X(805, MPS_CONNECTION_FAILED, NO_DEVICE, 0)                            \
	X(806, MPS_RPC_FAILURE, DEVICE_LOST, 1)                                \
	X(807, MPS_SERVER_NOT_READY, NO_DEVICE, 0)                             \
	X(808, MPS_MAX_CLIENTS_REACHED, NO_DEVICE, 0)                          \
	X(809, MPS_MAX_CONNECTIONS_REACHED, NO_DEVICE, 0)                      \
	X(810, MPS_CLIENT_TERMINATED, DEVICE_LOST, 1)                          \
	X(900, STREAM_CAPTURE_UNSUPPORTED, DRIVER, 0)                          \
	X(901, STREAM_CAPTURE_INVALIDATED, DRIVER, 0)                          \
	X(906, STREAM_CAPTURE_IMPLICIT, DRIVER, 0)                             \
	X(910, GRAPH_EXEC_UPDATE_FAILURE, DRIVER, 0)                           \
	X(999, UNKNOWN, DRIVER, 1)

static const struct result {
	int number;
	const char *name;
	enum kiln_status status;
	bool sticky;
} results[] = {
#define ROW(number, name, status, sticky)                                      \
	{ number, "CUDA_ERROR_" #name, KILN_ERR_##status, sticky },
	RESULTS(ROW)
#undef ROW
};

static const struct result *find(int number)
{
	for (size_t i = 0; i < KILNI_COUNTOF(results); i++)
		if (results[i].number == number)
			return &results[i];
	return NULL;
}

const char *kilni_cuda_name(int result)
{
	const struct result *r = find(result);

	if (result == CU_OK)
		return "CUDA_SUCCESS";
	return r ? r->name : "an error that is not in the table";
}

enum kiln_status kilni_cuda_status(int result)
{
	const struct result *r = find(result);

	return r ? r->status : KILN_ERR_DRIVER;
}

bool kilni_cuda_is_sticky(int result)
{
	const struct result *r = find(result);

	return r && r->sticky;
}

enum kiln_status kilni_cuda_fail(int result, const char *what)
{
	return kilni_fail(kilni_cuda_status(result), result,
			  "cuda: %s: %s (%d)", what, kilni_cuda_name(result),
			  result);
}
