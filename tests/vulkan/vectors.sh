# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# run_vectors "FILE..." [OPTION...]: conform on a software Vulkan device, with
# some files of vectors, or all of them where KILN_VULKAN_ALL is set.
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
vectors=${srcdir:?}/tests/vectors

run_vectors()
{
	files=$1
	shift
	[ -z "${KILN_VULKAN_ALL-}" ] ||
		files=$(cd "$vectors" && find . -name '*.jsonl' |
			sed 's|^\./||; s|\.jsonl$||' | sort)
	code=0
	"${builddir:?}/tests/conform" --device vulkan:cpu \
		"$vectors/bool.jsonl" > /dev/null || code=$?
	[ $code != 2 ] || {
		echo "no software Vulkan device"
		exit 77
	}
	for name in $files; do
		echo "== $name"
		"$builddir/tests/conform" --device vulkan:cpu "$@" \
			"$vectors/$name.jsonl"
	done
}
