/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_TEXTS_H
#define KILNI_CUDA_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

/*
 * The kernels that the library holds, packed: a text of PTX for each family,
 * dtype and form ("ew1_0"), and of some of them cubins, whose names end in the
 * compute capability ("ew1_0.90").
 */

#define KILNI_CUDA_TEXT_NAME 16

/*
 * The cubin of that text for the highest capability (10 * major + minor) that
 * such a device runs, which is one of the same major number; false: none.
 */
bool kilni_cuda_text_cubin(const char *name, unsigned capability,
			   char cubin[KILNI_CUDA_TEXT_NAME]);

/*
 * Unpacks what has that name, with a 0 behind it, for the caller to free.
 * KILN_ERR_UNSUPPORTED: there is none.
 */
enum kiln_status kilni_cuda_text_load(const char *name, char **text);

#endif
