#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A stream, memory and kernels of the program's own, lent to kiln, on a library
# for CUDA without a GPU: its streams at work at once, then by threads of their
# own; and a library of which a call takes long.
set -eu
builddir=${builddir:-.}
LD_LIBRARY_PATH=$builddir/tests/stubs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# The library keeps its contexts.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
for settings in "" "async=1" "async=20 writes=0 vmm=0"; do
	echo "settings: $settings"
	KILN_STUB_CUDA=$settings timeout 60 "$builddir/tests/stubs/wrapped"
done
KILN_STUB_CUDA='' timeout 60 "$builddir/tests/stubs/loads" cuda 1024
KILN_STUB_CUDA=threads=96 timeout 60 "$builddir/tests/stubs/loads" cuda 96
KILN_STUB_CUDA=fail=cuModuleLoadData:2:719 timeout 60 \
	"$builddir/tests/stubs/loads" cuda

# With words that streams write a mark is one and an event behind it; without
# them events are asked.
for call in cuStreamWriteValue64_v2 cuEventRecord cuStreamWaitEvent; do
	KILN_STUB_CUDA=async=3000 timeout 60 "$builddir/tests/stubs/slow" $call
done
KILN_STUB_CUDA="async=3000 writes=0" timeout 60 \
	"$builddir/tests/stubs/slow" cuEventQuery
KILN_STUB_CUDA='' timeout 60 "$builddir/tests/stubs/slow" pins
KILN_STUB_CUDA=fail=cuMemcpyHtoDAsync_v2:1:719 timeout 60 \
	"$builddir/tests/stubs/slow" lost

# Copies of some ms each of which one call fails, by two threads of two lanes
# where there are as many CPUs.
count=$(mktemp)
trap 'rm -f "$count"' EXIT
KILN_STUB_CUDA=async=5000 KILN_STUB_CUDA_CALLS=$count \
	timeout 60 "$builddir/tests/stubs/slow" copies
n=1
failed=0
while [ "$n" -le "$(cat "$count")" ]; do
	said=$(KILN_STUB_CUDA="async=5000 fail=*:$n:2" timeout 60 \
		"$builddir/tests/stubs/slow" copies) || {
		echo "slow copies: call $n fails: status $?: $said"
		exit 1
	}
	[ "$said" != "1 failed" ] || failed=$((failed + 1))
	n=$((n + 1))
done
[ $failed -gt 10 ] || {
	echo "slow copies: only $failed calls failed in a copy"
	exit 1
}
for settings in "" writes=0; do
	KILN_STUB_CUDA=$settings KILN_RING_LIMIT=64 timeout 60 \
		"$builddir/tests/stubs/slow" ring
done
echo "slow: as it should be"
