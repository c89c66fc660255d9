#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs some files of vectors on a software Vulkan device; all of them where
# KILN_VULKAN_ALL is set, for which it takes a quarter of an hour.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
cd "${srcdir:?}"
files='activation bool int index matmul float_shape float_reduce
	typed/create typed/inplace typed/denormal typed/matmul typed/large
	typed/errors_index typed/rankmix'
[ -z "${KILN_VULKAN_ALL-}" ] ||
	files=$(cd tests/vectors && find . -name '*.jsonl' |
		sed 's|^\./||; s|\.jsonl$||' | sort)
cd - > /dev/null
code=0
"${builddir:?}/tests/conform" --device vulkan:cpu \
	"$srcdir/tests/vectors/bool.jsonl" > /dev/null || code=$?
[ $code != 2 ] || {
	echo "no software Vulkan device"
	exit 77
}
for name in $files; do
	echo "== $name"
	"$builddir/tests/conform" --device vulkan:cpu \
		"$srcdir/tests/vectors/$name.jsonl"
done
