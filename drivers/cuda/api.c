/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

struct kilni_cuda_api kilni_cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char reason[256];       /* empty: loaded */
static unsigned devices;
static unsigned epoch;         /* of the process that loaded it */
static int version;
static enum kiln_status reason_status = KILN_ERR_NO_DEVICE;

/* The library is never closed: threads of its own may still run. */
static void *open_library(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		const char *text = dlerror();

		snprintf(reason, sizeof(reason),
			 "libcuda.so.1 cannot be opened: %.200s",
			 text ? text : "no reason given");
	}
	return library;
}

static bool resolve(void *library, const char *symbol, bool optional,
		    void *pointer)
{
	void *found = dlsym(library, symbol);

	memcpy(pointer, &found, sizeof(found));
	if (found || optional)
		return true;
	/* What is asked for has been there for years. */
	reason_status = KILN_ERR_DRIVER_TOO_OLD;
	snprintf(reason, sizeof(reason), "libcuda.so.1 has no %s", symbol);
	return false;
}

static bool resolve_all(void *library)
{
#define RESOLVE(name, symbol, optional, params)                                \
	if (!resolve(library, symbol, optional, &kilni_cuda.name))             \
		return false;
	KILNI_CUDA_CALLS(RESOLVE)
#undef RESOLVE
	return true;
}

static bool works(int result, const char *call)
{
	if (result == CU_OK)
		return true;
	if (kilni_cuda_status(result) == KILN_ERR_DRIVER_TOO_OLD)
		reason_status = KILN_ERR_DRIVER_TOO_OLD;
	snprintf(reason, sizeof(reason), "%s: %s (%d)", call,
		 kilni_cuda_name(result), result);
	return false;
}

/* The version can be asked for before anything else. */
static bool check_version(void)
{
	if (!works(kilni_cuda.driver_version(&version), "cuDriverGetVersion"))
		return false;
	if (version >= KILNI_CUDA_OLDEST)
		return true;
	reason_status = KILN_ERR_DRIVER_TOO_OLD;
	snprintf(reason, sizeof(reason),
		 "the driver offers CUDA %d.%d, kiln needs %d.%d or newer",
		 version / 1000, version % 1000 / 10, KILNI_CUDA_OLDEST / 1000,
		 KILNI_CUDA_OLDEST % 1000 / 10);
	return false;
}

static void load(void)
{
	void *library;
	int count = 0;

	kilni_fork_watch();
	epoch = kilni_fork_epoch;
	library = open_library();
	if (!library || !resolve_all(library) || !check_version() ||
	    !works(kilni_cuda.init(0), "cuInit") ||
	    !works(kilni_cuda.device_count(&count), "cuDeviceGetCount"))
		return;
	if (count <= 0) {
		snprintf(reason, sizeof(reason), "the driver has no device");
		return;
	}
	devices = (unsigned)count;
}

const char *kilni_cuda_load(void)
{
	pthread_once(&once, load);
	if (*reason)
		return reason;
	if (epoch != kilni_fork_epoch)
		return "used before the fork that made this process";
	return NULL;
}

enum kiln_status kilni_cuda_load_status(void)
{
	kilni_cuda_load();
	return *reason ? reason_status : KILN_ERR_FORKED;
}

unsigned kilni_cuda_devices(void)
{
	return kilni_cuda_load() ? 0 : devices;
}

int kilni_cuda_version(void)
{
	return version;
}

bool kilni_cuda_has_graphs(void)
{
	return kilni_cuda.graph_create && kilni_cuda.graph_destroy &&
	       kilni_cuda.graph_add_kernel && kilni_cuda.graph_instantiate &&
	       kilni_cuda.graph_set_kernel && kilni_cuda.graph_launch &&
	       kilni_cuda.graph_exec_destroy;
}
