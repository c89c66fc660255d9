#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Graphs of the CUDA driver on a library without a GPU: its streams at work at
# once and by threads of their own, a library that has no graphs, and each of
# its calls for them failing. No graph may be left over.
set -eu
builddir=${builddir:-.}
LD_LIBRARY_PATH=$builddir/tests/stubs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# The library keeps its contexts.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
unset KILN_STUB_CUDA KILN_DEVICE
# The calls are those for the program's graphs alone.
export KILN_CUDA_BATCH=0
KILN_STUB_CUDA_GRAPHS=$(mktemp)
export KILN_STUB_CUDA_GRAPHS
errors=$(mktemp)
trap 'rm -f "$KILN_STUB_CUDA_GRAPHS" "$errors"' EXIT

fail()
{
	echo "graphs.sh: $*" >&2
	exit 1
}

# left GRAPHS INSTANCES: what the process that has just ended left over
left()
{
	read -r graphs instances nodes launches sets < "$KILN_STUB_CUDA_GRAPHS"
	[ "$graphs $instances" = "$1 $2" ] ||
		fail "$graphs graphs, $instances instances left"
	echo "$nodes nodes, $launches launches, $sets changes"
}

for settings in "" "async=1" "async=20 writes=0 vmm=0" "graphs=0"; do
	KILN_STUB_CUDA=$settings timeout 60 "$builddir/tests/stubs/graphs" cuda
	left 0 0
	# A library that cannot gets the entries one by one.
	case $settings in
	graphs=0) [ "$nodes $launches" = "0 0" ] || fail "$launches launches" ;;
	*) [ "$launches" -ge 80 ] || fail "only $launches launches" ;;
	esac
done
KILN_STUB_CUDA=async=1 KILN_TEST_DEVICE=cuda CK_FORK=no timeout 100 \
	"$builddir/tests/unit/t_graph"
left 0 0

# told STATUS TEXT CALL:N:RESULT: what a call that fails comes to
told()
{
	said=$(KILN_STUB_CUDA=fail=$3 timeout 60 \
		"$builddir/tests/stubs/graphs" cuda fail 2> "$errors") ||
		fail "$3: $(cat "$errors")"
	[ "$said" = "$1" ] || fail "$3: $said, not $1"
	case $(cat "$errors") in
	*"$2"*) ;;
	*) fail "$3: no \"$2\" in: $(cat "$errors")" ;;
	esac
	[ "$1" = KILN_ERR_DEVICE_LOST ] || left 0 0
}

told KILN_ERR_OUT_OF_MEMORY "cuGraphCreate: CUDA_ERROR_OUT" cuGraphCreate:1:2
told KILN_ERR_INTERNAL "cuGraphAddKernelNode: " cuGraphAddKernelNode:2:1
told KILN_ERR_OUT_OF_MEMORY "cuGraphInstantiate: " cuGraphInstantiate_v2:1:2
told KILN_ERR_OUT_OF_MEMORY "kiln_graph_replay: " cuGraphLaunch:1:2
told KILN_ERR_DRIVER "kiln_graph_replay: " cuGraphLaunch:3:900
told KILN_ERR_DRIVER "kiln_random" cuGraphExecKernelNodeSetParams:2:910
for call in cuGraphCreate cuGraphAddKernelNode cuGraphInstantiate_v2 \
	cuGraphExecKernelNodeSetParams cuGraphLaunch; do
	told KILN_ERR_DEVICE_LOST "" $call:1:719
done
# What a driver finds unsupported is queued one by one; what it fails to
# destroy is no matter.
for fault in cuGraphCreate:1:801 cuGraphInstantiate_v2:1:801 \
	cuGraphExecDestroy:1:2 cuGraphDestroy:1:2; do
	told KILN_OK "" $fault
done
echo "graphs.sh: faults are told"
