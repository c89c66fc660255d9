/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_MODULE_H
#define KILNI_CUDA_MODULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "drivers/cuda/api.h"
#include "drivers/cuda/texts.h"
#include "kernels/cuda/params.h"
#include "kernels/registry.h"

/*
 * Kernels of a device, loaded when they are first launched. Where the library
 * has a cubin of the text for it, that is one module with all of the text's
 * kernels. Else the kernel is cut out of the PTX and compiled alone, so that
 * the start costs what is used.
 */

#define KILNI_CUDA_DTYPES 16
#define KILNI_CUDA_FORMS 3

struct kilni_cuda_hw;

struct kilni_cuda_module {
	cu_module module;
	char cubin[KILNI_CUDA_TEXT_NAME]; /* "": one kernel, from PTX */
};

struct kilni_cuda_modules {
	pthread_mutex_t lock;  /* of loading */
	bool cubins;           /* the device has not refused one */
	struct kilni_cuda_module *loaded;
	unsigned loaded_count, loaded_room;
	/* NULL: not needed yet. Read without the lock. */
	cu_function ew[KILNI_CUDA_DTYPES][KILNI_CUDA_FORMS][KILNI_OP_COUNT];
	cu_function gather[4][KILNI_CUDA_FORMS];
	cu_function other[KILNI_CUDA_DTYPES][KILNI_CUDA_SLOTS];
};

enum kiln_status kilni_cuda_modules_init(struct kilni_cuda_hw *hw);
/* With unload the context is current. */
void kilni_cuda_modules_fini(struct kilni_cuda_hw *hw, bool unload);

/*
 * The kernel called entry of the text called name, put into *slot. The context
 * is current. KILN_ERR_UNSUPPORTED where there is none.
 */
enum kiln_status kilni_cuda_kernel(struct kilni_cuda_hw *hw, cu_function *slot,
				   const char *name, const char *entry);

#endif
