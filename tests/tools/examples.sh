#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the examples of one file each, on every device that there is: the CPU,
# a Vulkan device of the CPU's, and CUDA on the library without a GPU.
set -eu
builddir=${builddir:-.}

fail()
{
	echo "examples.sh: $*" >&2
	exit 1
}

# expect TEXT COMMAND...: it succeeds and says that
expect()
{
	text=$1
	shift
	said=$(timeout 120 "$@" 2>&1) || fail "$*: status $?: $said"
	case $said in
	*"$text"*) echo "$*: $text" ;;
	*) fail "$*: no \"$text\" in: $said" ;;
	esac
}

own=$builddir/examples/custom_kernel
expect "cpu:0: element 7 is 49" "$own" cpu
if "$builddir/tools/kiln" info --device vulkan:cpu >/dev/null 2>&1; then
	expect "element 7 is 49" "$own" vulkan:cpu
else
	echo "examples.sh: no Vulkan device here"
fi
expect "16 blocks one after the other" "$builddir/examples/overlap" cpu
expect "sums equal" "$builddir/examples/overlap" cpu 3
expect "8 requests answered, the timer ticked meanwhile" \
	"$builddir/examples/epoll" cpu
# The kernel's own name is in a trace.
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
expect "element 7 is 49" "$builddir/tools/kiln" trace -o "$trace" "$own" cpu
grep -q '"scale_add"' "$trace" || fail "the trace does not name scale_add"
stub=$builddir/tests/stubs/.libs
if [ -e "$stub/libcuda.so.1" ] && [ -z "${SANITIZER_CFLAGS-}" ]; then
	LD_LIBRARY_PATH=$stub${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	expect "element 7 is 49" "$own" cuda
	# A PTX that the library refuses, an entry that is not in it.
	for result in 218 500; do
		call=cuModuleLoadData
		[ $result = 218 ] || call=cuModuleGetFunction
		said=$(KILN_STUB_CUDA=fail=$call:1:$result "$own" cuda 2>&1) &&
			fail "$call refused, and nothing said"
		case $said in
		*"kernel scale_add: CUDA_ERROR_"*) ;;
		*) fail "$call refused: $said" ;;
		esac
	done
else
	echo "examples.sh: no library for CUDA here"
fi
