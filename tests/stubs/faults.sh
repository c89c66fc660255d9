#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The CUDA driver on a library without a GPU (cuda.c) of which every call fails
# in turn: the program is told, and ends. CHECK_QUICK=1: every 13th call, under a
# sanitizer every 29th.
set -eu
# A library that fails keeps what it was to free.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
builddir=${builddir:-.}
LD_LIBRARY_PATH=$builddir/tests/stubs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset KILN_STUB_CUDA KILN_DEVICE KILN_CUDA_BATCH
walk=$builddir/tests/stubs/walk

fail()
{
	echo "faults.sh: $*" >&2
	exit 1
}

# Each call fails once: no memory, and a fault that breaks the context.
# Every other time kernels are handed over together: each call of a number in
# one mode so, and in the other mode one by one.
count=$(mktemp)
trap 'rm -f "$count"' EXIT
step=1
[ -z "${CHECK_QUICK-}" ] || step=13
[ -z "${SANITIZER_CFLAGS-}" ] || step=29
turn=0
for mode in "" "async=1 "; do
	KILN_STUB_CUDA=$mode KILN_STUB_CUDA_CALLS=$count "$walk" cuda
	calls=$(cat "$count")
	for result in 2 719; do
		n=1
		while [ "$n" -le "$calls" ]; do
			KILN_CUDA_BATCH=$(((n + turn) % 2)) \
				KILN_STUB_CUDA="${mode}fail=*:$n:$result" \
				timeout 20 "$walk" cuda > /dev/null ||
				fail "call $n of $calls, result $result" \
					"${mode:+($mode)}: status $?"
			n=$((n + step))
		done
		echo "faults: $calls calls, result $result ${mode:+($mode)}"
	done
	turn=1
done
