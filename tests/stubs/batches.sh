#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Kernels that the CUDA driver hands over together, on a library without a GPU:
# results and blame are those of kernels that are launched one by one, also
# where the library refuses the calls for it.
set -eu
builddir=${builddir:-.}
srcdir=${srcdir:-.}
LD_LIBRARY_PATH=$builddir/tests/stubs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# The library keeps its contexts.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
unset KILN_DEVICE KILN_CUDA_BATCH
KILN_STUB_CUDA_GRAPHS=$(mktemp)
said=$(mktemp)
trap 'rm -f "$KILN_STUB_CUDA_GRAPHS" "$said"' EXIT
export KILN_STUB_CUDA_GRAPHS KILN_TEST_DEVICE=cuda

fail()
{
	echo "batches.sh: ${KILN_STUB_CUDA:+$KILN_STUB_CUDA: }$*" >&2
	exit 1
}

# works LAUNCHES PROGRAM...: is good, with so many launches of graphs at least,
# whose nodes have been changed; nothing of them is left
works()
{
	least=$1
	program=$builddir/$2
	shift 2
	timeout 200 "$program" "$@" > "$said" 2>&1 ||
		fail "$program: status $?: $(tail -n 5 "$said")"
	read -r graphs instances nodes launches sets < "$KILN_STUB_CUDA_GRAPHS"
	[ "$graphs $instances" = "0 0" ] ||
		fail "$program: $graphs graphs, $instances instances left"
	if [ "$launches" -lt "$least" ] || [ "$sets" -lt "$least" ]; then
		fail "$program: $launches launches, $sets of $nodes nodes set"
	fi
}

# Nodes of graphs that a device may make: of 16 sets, and some of the program's.
few_nodes()
{
	[ "$nodes" -le $((16 * 2 * (4 + 8 + 16 + 32) + 80)) ] ||
		fail "$nodes nodes"
}

for settings in "async=1" "" "async=20 writes=0 vmm=0"; do
	export KILN_STUB_CUDA="$settings"
	# Where all is done at once each of many streams gets graphs, those too
	# that come when others have been left with theirs (905 without).
	works "$([ "$settings" ] && echo 60 || echo 1000)" \
		tests/stubs/batches cuda
	few_nodes
	works 60 tests/stubs/graphs cuda
	works 50 tests/unit/t_graph
	[ -z "${CHECK_QUICK-}" ] || break
done
# Streams that stay at work, so that there are not graphs for all.
export KILN_STUB_CUDA=async=300
works 60 tests/stubs/batches cuda
few_nodes
export KILN_STUB_CUDA=async=1
works 50 tests/unit/t_model_streams
[ ! -x "$builddir/tests/conform" ] ||
	works 100 tests/conform --device cuda "$srcdir"/tests/vectors/*.jsonl
echo "batches: as they should be"

# What cannot go together goes one by one, and nothing fails. The second fault
# of a kind meets a graph that has been made.
for fault in graphs=0 fail=cuGraphCreate:1:801 fail=cuGraphCreate:2:2 \
	fail=cuGraphAddKernelNode:3:1 fail=cuGraphInstantiate_v2:1:801 \
	fail=cuGraphInstantiate_v2:3:2 fail=cuGraphLaunch:1:2 \
	fail=cuGraphLaunch:9:900 fail=cuGraphExecKernelNodeSetParams:5:910 \
	fail=cuGraphExecDestroy:1:2 fail=cuGraphDestroy:1:2; do
	export KILN_STUB_CUDA="async=1 $fault"
	case $fault in
	# Memory that was short may be had later.
	*:2) works 60 tests/stubs/batches cuda ;;
	*) works 0 tests/stubs/batches cuda ;;
	esac
done
echo "batches: refused ones go one by one"
