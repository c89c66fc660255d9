#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs some files of vectors on a software Vulkan device that is taken to have
# no 64-bit floats; all of them where KILN_VULKAN_ALL is set. What it refuses of
# other dtypes is in no_f64.expect.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
vectors=${srcdir:?}/tests/vectors
files='float_elementwise float_reduce index matmul typed/compare typed/cast
	typed/inplace typed/errors_index'
[ -z "${KILN_VULKAN_ALL-}" ] ||
	files=$(cd "$vectors" && find . -name '*.jsonl' |
		sed 's|^\./||; s|\.jsonl$||' | sort)
KILN_VULKAN_HIDE=shaderFloat64
export KILN_VULKAN_HIDE
code=0
"${builddir:?}/tests/conform" --device vulkan:cpu "$vectors/bool.jsonl" \
	> /dev/null || code=$?
[ $code != 2 ] || {
	echo "no software Vulkan device"
	exit 77
}
for name in $files; do
	echo "== $name"
	"$builddir/tests/conform" --device vulkan:cpu \
		--expect "$srcdir/tests/vulkan/no_f64.expect" \
		"$vectors/$name.jsonl"
done
