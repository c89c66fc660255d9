/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect of the target that is compiled for. */
#ifdef KL_GLSL
#include "kernels/kl/kl_glsl.h"
#else
#include "kernels/kl/kl.h"
#include "kernels/kl/memory.h"
#endif
