#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernel language to SPIR-V and runs it on Mesa's software Vulkan
# device, beside the same kernels in C.
[ -z "${CHECK_QUICK-}" ] || exit 77
KL_ONLY=spirv sh "${srcdir:?}/tests/kl/compile.sh" "${builddir:?}/kl-spirv" ||
	exit
[ -x "$builddir/tests/kl/t_kl_vulkan" ] || {
	echo "built without the Vulkan driver or the headers and loader"
	exit 77
}
"$builddir/tests/kl/t_kl_vulkan" "$builddir/kl-spirv/kl"
