/* SPDX-License-Identifier: Apache-2.0 */
/*
 * t_kl_ptx DIRECTORY: runs the PTX of the kernel language (compile.sh has put
 * it there) through the CUDA driver and compares with the CPU's kernels, bit
 * for bit. Exit status 77 where there is no driver or device.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi.h"
#include "tests/kl/case_data.h"
#include "tests/kl/samples.h"

#define SKIP 77
#define SPACE (1u << 20)
#define GROUP 128u

/* What is used of the CUDA driver. */
#define CALLS(X)                                                               \
	X(cuInit, (unsigned flags))                                            \
	X(cuDeviceGet, (int *device, int ordinal))                             \
	X(cuDeviceGetName, (char *name, int size, int device))                 \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))              \
	X(cuCtxSetCurrent, (void *context))                                    \
	X(cuMemAllocManaged, (uint64_t *address, size_t bytes, unsigned flags))\
	X(cuModuleLoadData, (void **module, const void *image))                \
	X(cuModuleUnload, (void *module))                                      \
	X(cuModuleGetFunction, (void **function, void *module,                 \
				const char *name))                             \
	X(cuLaunchKernel, (void *function, unsigned gx, unsigned gy,           \
			   unsigned gz, unsigned bx, unsigned by, unsigned bz, \
			   unsigned shared, void *stream, void **parameters,   \
			   void **extra))                                      \
	X(cuCtxSynchronize, (void))

#define POINTER(name, arguments) static int (*name) arguments;
CALLS(POINTER)

static const char *directory;
static unsigned failures;
static unsigned checks;

static void skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(SKIP);
}

static void must(int r, const char *what)
{
	if (r == 0)
		return;
	printf("%s: error %d\n", what, r);
	exit(1);
}

static void *symbol(void *library, const char *name)
{
	char versioned[64];
	void *s;

	snprintf(versioned, sizeof(versioned), "%s_v2", name);
	s = dlsym(library, versioned);
	return s != NULL && strncmp(name, "cuDevicePrimary", 15) != 0
		? s : dlsym(library, name);
}

static void load_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *s;

	if (library == NULL)
		skip("no libcuda.so.1");
#define RESOLVE(name, arguments)                                               \
	s = symbol(library, #name);                                            \
	if (s == NULL)                                                         \
		skip("the CUDA driver lacks " #name);                          \
	memcpy(&name, &s, sizeof(s));
	CALLS(RESOLVE)
}

/* A module by name; the last one stays loaded. */
static void *module(const char *name)
{
	static char last[32];
	static void *loaded;
	static char text[2u << 20];
	char path[1024];
	size_t n;
	FILE *f;

	if (strcmp(last, name) == 0)
		return loaded;
	if (loaded != NULL)
		must(cuModuleUnload(loaded), "cuModuleUnload");
	snprintf(path, sizeof(path), "%s/%s.ptx", directory, name);
	f = fopen(path, "rb");
	if (f == NULL)
		skip("no PTX modules; run compile.sh first");
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	must(cuModuleLoadData(&loaded, text), path);
	snprintf(last, sizeof(last), "%s", name);
	return loaded;
}

static void launch(const char *name, const char *entry, void *parameters,
		   uint64_t n)
{
	void *arguments[1] = { parameters };
	void *function;
	unsigned groups = (unsigned)((n + GROUP - 1) / GROUP);

	/* A dense kernel needs a thread for each vector of two or more. */
	_Static_assert(SAMPLES <= 2 * 4 * GROUP, "threads for all vectors");
	must(cuModuleGetFunction(&function, module(name), entry), entry);
	must(cuLaunchKernel(function, groups > 4 ? 4 : groups, 1, 1, GROUP, 1,
			    1, 0, NULL, arguments, NULL), "cuLaunchKernel");
	must(cuCtxSynchronize(), entry);
}

static const char *const ids[KILNI_OP_COUNT] = {
#define KILNI_EW1(ID, name, classes, ulp, doc) "kl_ew_" #ID,
#define KILNI_EW2(ID, name, classes, ulp, doc) "kl_ew_" #ID,
#define KILNI_CMP(ID, name, classes, doc) "kl_ew_" #ID,
#define KILNI_PRED(ID, name, classes, doc) "kl_ew_" #ID,
#define KILNI_EWX(ID, name, classes, ulp, doc) "kl_ew_" #ID,
#include "kernels/ops.def"
};

static void run_ew(void *context, struct kilni_ew_params *p, int form)
{
	unsigned d = p->dtype[p->op == KILNI_OP_FULL || p->op ==
			      KILNI_OP_ARANGE || p->op == KILNI_OP_RANDOM
			      ? 0 : 1];
	char name[32];

	(void)context;
	snprintf(name, sizeof(name), "ew%u_%d", module_dtype(d), form);
	launch(name, ids[p->op], p, p->count);
}

static void run_gather(void *context, struct kilni_gather_params *p, int form)
{
	char name[32];

	(void)context;
	snprintf(name, sizeof(name), "gather%u_%d", p->element_bytes, form);
	launch(name, "kl_gather", p, p->count);
}

int main(int argc, char **argv)
{
	struct target t = { "ptx", run_ew, run_gather, NULL, NULL, 0 };
	char name[256];
	void *context;
	int device = 0;

	directory = argc > 1 ? argv[1] : ".";
	load_driver();
	if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0)
		skip("no CUDA device");
	must(cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
	printf("# %s\n", name);
	must(cuDevicePrimaryCtxRetain(&context, device),
	     "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAllocManaged(&t.address, SPACE, 1), "cuMemAllocManaged");
	t.map = (char *)(uintptr_t)t.address;
	compare_all(&t, &checks, &failures);
	printf("%u checks, %u failed\n", checks, failures);
	return failures != 0;
}
