/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/module.h"

/*
 * The kernels' texts, as kernels/cuda/ptx.mk has packed them. The path is
 * below the folder in which the library is built.
 */
__asm__(".pushsection .rodata\n"
	".globl kilni_cuda_texts\n"
	".hidden kilni_cuda_texts\n"
	".globl kilni_cuda_texts_end\n"
	".hidden kilni_cuda_texts_end\n"
	"kilni_cuda_texts:\n"
	".incbin \"cuda-ptx/texts.bin\"\n"
	"kilni_cuda_texts_end:\n"
	".byte 0\n"
	".popsection\n");
