/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_API_H
#define KILNI_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/*
 * What the driver uses of libcuda.so.1, which is opened at run time. The
 * types are our own: the library's interface is stable, its header is not
 * everywhere.
 */

typedef int cu_device;
typedef uint64_t cu_address;
typedef struct cu_context_ *cu_context;
typedef struct cu_stream_ *cu_stream;
typedef struct cu_event_ *cu_event;
typedef struct cu_module_ *cu_module;
typedef struct cu_function_ *cu_function;
typedef struct cu_graph_ *cu_graph;
typedef struct cu_graph_node_ *cu_graph_node;
typedef struct cu_graph_exec_ *cu_graph_exec;

/* Device attributes, as the library numbers them. */
enum cu_attribute {
	CU_MULTIPROCESSORS = 16,
	CU_INTEGRATED = 18,
	CU_COMPUTE_MODE = 20,
	CU_CAPABILITY_MAJOR = 75,
	CU_CAPABILITY_MINOR = 76,
	CU_VIRTUAL_MEMORY = 102,
	CU_EXPORTS_FD = 103,
	CU_RDMA_PAGES = 110,
	CU_STREAM_WRITES_64 = 122
};

/* Attributes of a pointer. */
enum cu_pointer_attribute {
	CU_POINTER_MEMORY_TYPE = 2, /* 2: a device's, 4: of both */
	CU_POINTER_ORDINAL = 9,
	CU_POINTER_RANGE_START = 11,
	CU_POINTER_RANGE_BYTES = 12
};

/* Attributes of a function. */
enum cu_function_attribute {
	CU_FUNCTION_THREADS_MOST = 0 /* of a block, by what it needs */
};

enum {
	CU_STREAM_NON_BLOCKING = 1,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_NO_TIMING = 2,
	CU_HOST_PORTABLE = 1,
	CU_HOST_MAPPED = 2,
	CU_COMPUTE_PROHIBITED = 2,
	CU_ACCESS_READ_WRITE = 3
};

/* Streams that are no pointers. */
#define CU_STREAM_LEGACY ((void *)1)     /* NULL */
#define CU_STREAM_PER_THREAD ((void *)2) /* NULL of the calling thread */

/* Of a page of virtual memory. */
struct cu_location {
	int type;              /* 1: a device */
	int id;
};

struct cu_page_properties {
	int type;              /* 1: pinned */
	int handle_types;      /* 1: exported as a file descriptor */
	struct cu_location location;
	void *windows;
	unsigned char compression;
	unsigned char rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

struct cu_page_access {
	struct cu_location location;
	int flags;
};

/* A launch, as a node of a graph is given it. */
struct cu_kernel {
	cu_function function;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void **params, **extra;
};

/*
 * Entry points: name, symbol, whether a driver may lack it, arguments. The
 * symbol has the version of the interface in it.
 */
#define KILNI_CUDA_CALLS(X)                                                    \
	X(init, "cuInit", false, (unsigned flags))                             \
	X(driver_version, "cuDriverGetVersion", false, (int *version))         \
	X(device_count, "cuDeviceGetCount", false, (int *count))               \
	X(device_get, "cuDeviceGet", false, (cu_device * device, int ordinal)) \
	X(device_name, "cuDeviceGetName", false,                               \
	  (char *name, int bytes, cu_device device))                           \
	X(device_memory, "cuDeviceTotalMem_v2", false,                         \
	  (size_t * bytes, cu_device device))                                  \
	X(device_attribute, "cuDeviceGetAttribute", false,                     \
	  (int *value, int attribute, cu_device device))                       \
	X(device_pci, "cuDeviceGetPCIBusId", true,                             \
	  (char *address, int bytes, cu_device device))                        \
	X(device_uuid, "cuDeviceGetUuid", false,                               \
	  (unsigned char *uuid, cu_device device))                             \
	X(device_uuid_2, "cuDeviceGetUuid_v2", true,                           \
	  (unsigned char *uuid, cu_device device))                             \
	X(context_retain, "cuDevicePrimaryCtxRetain", false,                   \
	  (cu_context * context, cu_device device))                            \
	X(context_release, "cuDevicePrimaryCtxRelease_v2", false,              \
	  (cu_device device))                                                  \
	X(context_push, "cuCtxPushCurrent_v2", false, (cu_context context))    \
	X(context_pop, "cuCtxPopCurrent_v2", false, (cu_context * context))    \
	X(module_load, "cuModuleLoadData", false,                              \
	  (cu_module * module, const void *image))                             \
	X(module_unload, "cuModuleUnload", false, (cu_module module))          \
	X(module_function, "cuModuleGetFunction", false,                       \
	  (cu_function * function, cu_module module, const char *name))        \
	X(function_attribute, "cuFuncGetAttribute", true,                      \
	  (int *value, int attribute, cu_function function))                   \
	X(alloc, "cuMemAlloc_v2", false, (cu_address * address, size_t bytes)) \
	X(free, "cuMemFree_v2", false, (cu_address address))                   \
	X(pointer_attribute, "cuPointerGetAttribute", true,                    \
	  (void *value, int attribute, cu_address address))                    \
	X(host_alloc, "cuMemHostAlloc", false,                                 \
	  (void **pointer, size_t bytes, unsigned flags))                      \
	X(host_free, "cuMemFreeHost", false, (void *pointer))                  \
	X(host_register, "cuMemHostRegister_v2", true,                         \
	  (void *pointer, size_t bytes, unsigned flags))                       \
	X(host_unregister, "cuMemHostUnregister", true, (void *pointer))       \
	X(host_address, "cuMemHostGetDevicePointer_v2", false,                 \
	  (cu_address * address, void *pointer, unsigned flags))               \
	X(copy_in, "cuMemcpyHtoDAsync_v2", false,                              \
	  (cu_address to, const void *from, size_t bytes, cu_stream stream))   \
	X(copy_out, "cuMemcpyDtoHAsync_v2", false,                             \
	  (void *to, cu_address from, size_t bytes, cu_stream stream))         \
	X(copy_within, "cuMemcpyDtoDAsync_v2", false,                          \
	  (cu_address to, cu_address from, size_t bytes, cu_stream stream))    \
	X(stream_create, "cuStreamCreate", false,                              \
	  (cu_stream * stream, unsigned flags))                                \
	X(stream_create_priority, "cuStreamCreateWithPriority", true,          \
	  (cu_stream * stream, unsigned flags, int priority))                  \
	X(stream_priorities, "cuCtxGetStreamPriorityRange", true,              \
	  (int *least, int *greatest))                                         \
	X(stream_destroy, "cuStreamDestroy_v2", false, (cu_stream stream))     \
	X(stream_sync, "cuStreamSynchronize", false, (cu_stream stream))       \
	X(stream_wait, "cuStreamWaitEvent", false,                             \
	  (cu_stream stream, cu_event event, unsigned flags))                  \
	X(stream_write, "cuStreamWriteValue64_v2", true,                       \
	  (cu_stream stream, cu_address address, uint64_t value,               \
	   unsigned flags))                                                    \
	X(event_create, "cuEventCreate", false,                                \
	  (cu_event * event, unsigned flags))                                  \
	X(event_destroy, "cuEventDestroy_v2", false, (cu_event event))         \
	X(event_record, "cuEventRecord", false,                                \
	  (cu_event event, cu_stream stream))                                  \
	X(event_query, "cuEventQuery", false, (cu_event event))                \
	X(event_sync, "cuEventSynchronize", false, (cu_event event))           \
	X(event_elapsed, "cuEventElapsedTime", false,                          \
	  (float *ms, cu_event begin, cu_event end))                           \
	X(launch, "cuLaunchKernel", false,                                     \
	  (cu_function function, unsigned grid_x, unsigned grid_y,             \
	   unsigned grid_z, unsigned block_x, unsigned block_y,                \
	   unsigned block_z, unsigned shared_bytes, cu_stream stream,          \
	   void **params, void **extra))                                       \
	X(graph_create, "cuGraphCreate", true,                                 \
	  (cu_graph * graph, unsigned flags))                                  \
	X(graph_destroy, "cuGraphDestroy", true, (cu_graph graph))             \
	X(graph_add_kernel, "cuGraphAddKernelNode", true,                      \
	  (cu_graph_node * node, cu_graph graph, const cu_graph_node *after,   \
	   size_t count, const struct cu_kernel *kernel))                      \
	X(graph_instantiate, "cuGraphInstantiate_v2", true,                    \
	  (cu_graph_exec * exec, cu_graph graph, cu_graph_node *node,          \
	   char *log, size_t bytes))                                           \
	X(graph_set_kernel, "cuGraphExecKernelNodeSetParams", true,            \
	  (cu_graph_exec exec, cu_graph_node node,                             \
	   const struct cu_kernel *kernel))                                    \
	X(graph_launch, "cuGraphLaunch", true,                                 \
	  (cu_graph_exec exec, cu_stream stream))                              \
	X(graph_exec_destroy, "cuGraphExecDestroy", true,                      \
	  (cu_graph_exec exec))                                                \
	X(pages_reserve, "cuMemAddressReserve", true,                          \
	  (cu_address * address, size_t bytes, size_t alignment,               \
	   cu_address wish, uint64_t flags))                                   \
	X(pages_unreserve, "cuMemAddressFree", true,                           \
	  (cu_address address, size_t bytes))                                  \
	X(pages_create, "cuMemCreate", true,                                   \
	  (uint64_t * handle, size_t bytes,                                    \
	   const struct cu_page_properties *properties, uint64_t flags))       \
	X(pages_destroy, "cuMemRelease", true, (uint64_t handle))              \
	X(pages_map, "cuMemMap", true,                                         \
	  (cu_address address, size_t bytes, size_t offset, uint64_t handle,   \
	   uint64_t flags))                                                    \
	X(pages_unmap, "cuMemUnmap", true, (cu_address address, size_t bytes)) \
	X(pages_access, "cuMemSetAccess", true,                                \
	  (cu_address address, size_t bytes,                                   \
	   const struct cu_page_access *access, size_t count))                 \
	X(pages_granularity, "cuMemGetAllocationGranularity", true,            \
	  (size_t * bytes, const struct cu_page_properties *properties,        \
	   int option))

struct kilni_cuda_api {
#define KILNI_CUDA_POINTER_(name, symbol, optional, params) int(*name) params;
	KILNI_CUDA_CALLS(KILNI_CUDA_POINTER_)
#undef KILNI_CUDA_POINTER_
};

/* The entry points; right once kilni_cuda_load() has given NULL. */
extern struct kilni_cuda_api kilni_cuda;

/* The oldest driver that is accepted, as cuDriverGetVersion tells it. */
#define KILNI_CUDA_OLDEST 11000

/*
 * Opens the library and asks it for devices, once per process; NULL, or why
 * that fails. Opens no context. A child of a process that has done so gets a
 * reason: the library does not survive a fork.
 */
const char *kilni_cuda_load(void);

/* The status to fail with for that reason. */
enum kiln_status kilni_cuda_load_status(void);

/* Devices; 0 where the library is not loaded. */
unsigned kilni_cuda_devices(void);

/* Whether it has the calls for graphs, as all but the oldest drivers have. */
bool kilni_cuda_has_graphs(void);

/* Version of the driver: 1000 * major + 10 * minor. */
int kilni_cuda_version(void);

/* ---- results ---- */

enum { CU_OK = 0, CU_OUT_OF_MEMORY = 2, CU_NOT_READY = 600 };

/* Name of a result as the library spells it, "CUDA_ERROR_UNKNOWN". */
const char *kilni_cuda_name(int result);

/* Status of a result that is not CU_OK. */
enum kiln_status kilni_cuda_status(int result);

/* Whether the context is beyond repair after it. */
bool kilni_cuda_is_sticky(int result);

/* Records the failure of what; returns its status. */
enum kiln_status kilni_cuda_fail(int result, const char *what);

#endif
