/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/vulkan/spirv.h"

/* The modules as build.sh has packed them; the assembler finds the file. */
__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".hidden kilni_spirv_bin\n"
	".globl kilni_spirv_bin\n"
	"kilni_spirv_bin:\n"
	".incbin \"" KILNI_SPIRV_BIN "\"\n"
	".popsection\n");

extern const uint32_t kilni_spirv_bin[]
	__attribute__((visibility("hidden")));

const struct kilni_spirv kilni_spirv_modules[] = {
#define KILNI_SPIRV(name, offset, bytes)                                       \
	{ name, kilni_spirv_bin + (offset) / 4, bytes },
#include "spirv_table.h"
#undef KILNI_SPIRV
};

const unsigned kilni_spirv_count =
	sizeof(kilni_spirv_modules) / sizeof(kilni_spirv_modules[0]);
