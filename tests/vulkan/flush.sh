#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A software Vulkan device that flushes denormals: the vectors that tell fail as
# denormals.expect says, and apart from denormals it agrees with the CPU driver.
# It flushes those of f64 too, and where f64 becomes f32, so that other vectors
# of denormals, which a GPU passes, are left out here.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
here=${srcdir:?}/tests/vulkan
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
KILN_VULKAN_HIDE=shaderDenormPreserveFloat32
export KILN_VULKAN_HIDE
: > "$work/none.jsonl"
code=0
"${builddir:?}/tests/conform" --device vulkan:cpu --flush "$work/none.jsonl" ||
	code=$?
[ $code != 2 ] || {
	echo "no software Vulkan device that can be made to flush"
	exit 77
}
sed -n 's/^flushed \([^ ]*\) .*/"id":"\1"/p' "$here/denormals.expect" \
	> "$work/ids"
grep -F -f "$work/ids" "$srcdir/tests/vectors/typed/denormal.jsonl" \
	> "$work/told.jsonl"

# conform STATUS LAST OPTION...: what it ends with
conform()
{
	status=$1 last=$2
	shift 2
	code=0
	"$builddir/tests/conform" --device vulkan:cpu "$@" \
		--expect "$here/denormals.expect" "$work/told.jsonl" \
		> "$work/out" || code=$?
	came=$(tail -n 1 "$work/out")
	[ "$code, $came" = "$status, $last" ] || {
		cat "$work/out"
		echo "conform $*: exit status $code"
		exit 1
	}
}

all=$(wc -l < "$work/ids")
conform 0 "0 passed, 0 failed, $all skipped" --flush
# It says that it flushes, and does not.
conform 1 "0 passed, $all failed, 0 skipped"
for dtype in f32 bf16 f16; do
	"$builddir/tests/differ" --device vulkan:cpu --flush \
		--seed "${DIFFER_SEED-1}" --rounds "${DIFFER_ROUNDS-1}" \
		--dtype "$dtype"
done
